#include "apps/bench/train_contender.hpp"

#include <algorithm>
#include <chrono>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "apps/bench/benchmark.hpp"
#include "apps/train/collective_profile.hpp"

namespace matrixfsdp::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  Kokkos::fence();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

train::MicroBatch random_batch(const train::Options& options, std::int64_t index) {
  train::MicroBatch batch;
  const CounterRandom random(1, static_cast<std::uint64_t>(index));
  const auto vocabulary = static_cast<std::uint64_t>(options.shape.vocabulary);
  const std::int64_t count = options.micro_batch * options.sequence_length();
  for (std::int64_t i = 0; i < count; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(2 * i), vocabulary)));
    batch.targets.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(2 * i + 1), vocabulary)));
  }
  return batch;
}

/// Of unshard and reduce together.
double hidden_between(const TransferTimes& before, const TransferTimes& after) {
  const double under_way =
      after.unshard_under_way + after.reduce_under_way - before.unshard_under_way - before.reduce_under_way;
  const double waited = after.unshard_waited + after.reduce_waited - before.unshard_waited - before.reduce_waited;
  return hidden_share(under_way, waited);
}

ByteCounts difference(ByteCounts after, const ByteCounts& before) {
  for (std::size_t p = 0; p < purpose_count; ++p)
    after.sent[p] -= before.sent[p];
  return after;
}

ByteCounts sum_over_ranks(Communicator& communicator, const ByteCounts& mine) {
  ByteCounts sum;
  for (const ByteCounts& one : all_gather_value(communicator, Purpose::other, mine, {"benchmark bytes", "", ""})) {
    for (std::size_t p = 0; p < purpose_count; ++p)
      sum.sent[p] += one.sent[p];
  }
  return sum;
}

}  // namespace

struct TrainContender::Step {
  train::PassTimes passes;
  double forward_backward = 0;
  double optimizer = 0;
  double total = 0;
  ByteCounts bytes;
};

TrainContender::TrainContender(Communicator& communicator, const train::Options& options, const Topology& topology,
                               const CollectiveProfile& links)
    : communicator_(communicator),
      options_(options),
      topology_(topology),
      links_(links),
      model_(transformer_model(options.shape)),
      plan_(make_strategy_plan(options.strategy, model_, communicator.size(), options.planner)) {
  if (options_.automatic_collectives) {
    options_.sharding.unit_collectives =
        train::algorithms_of(choose_collectives(plan_, topology, links, {options_.passes(communicator.size())}));
  }
  replica_ = std::make_unique<train::Replica>(communicator, options_, plan_);
}

TrainContender::Step TrainContender::run_here() {
  Step step;
  const ByteCounts before = communicator_.bytes();
  const auto start = Clock::now();
  constexpr double schedule = 0.01;
  const bool in_backward = options_.sharding.step_in_backward;
  if (in_backward) replica_->strategy.step_in_backward({1.0, schedule, 1});
  replica_->model.begin_step();
  for (std::int64_t pass = 0; pass < options_.passes(communicator_.size()); ++pass) {
    const auto batch = random_batch(options_, pass * communicator_.size() + communicator_.rank());
    const std::int64_t tokens = options_.batch_size * options_.sequence_length();
    train::run_pass(*replica_, batch, 1.0F / static_cast<float>(tokens), step.passes);
  }
  step.forward_backward = seconds_since(start);
  const GradientNorm norm = gradient_norm(replica_->model);
  const auto optimizer_start = Clock::now();
  replica_->strategy.step({in_backward ? 1.0 : clip_scale(norm.norm, 1.0), schedule, 1});
  replica_->model.complete();  // zero1-owner's new weights, which would meet the next contender's step
  step.optimizer = replica_->strategy.unit_step_seconds() + seconds_since(optimizer_start);
  step.total = seconds_since(start);
  step.bytes = difference(communicator_.bytes(), before);
  return step;
}

void TrainContender::run(double product_rate, bool count) {
  const std::int64_t flops_before = replica_->network.product_flops();
  const TransferTimes transfers_before = replica_->model.transfer_times();
  communicator_.barrier({"benchmark round", "", ""});
  const Step step = run_here();
  const double total = slowest(communicator_, step.total);
  if (!count) return;
  const auto flops = static_cast<double>(replica_->network.product_flops() - flops_before);
  figures_.product_flops = flops;
  figures_.forward.push_back(slowest(communicator_, step.passes.forward));
  figures_.backward.push_back(slowest(communicator_, step.passes.backward));
  figures_.optimizer.push_back(slowest(communicator_, step.optimizer));
  figures_.total.push_back(total);
  figures_.fraction.push_back(flops / total / product_rate);
  figures_.forward_backward_fraction.push_back(flops / slowest(communicator_, step.forward_backward) / product_rate);
  figures_.hidden.push_back(hidden_between(transfers_before, replica_->model.transfer_times()));
  figures_.bytes = sum_over_ranks(communicator_, step.bytes);
}

std::int64_t TrainContender::peak_bytes() const {
  const auto all = all_gather_value(communicator_, Purpose::other, replica_->resident_bytes(), {"benchmark", "", ""});
  return *std::max_element(all.begin(), all.end());
}

std::int64_t TrainContender::gradient_bytes() const {
  const auto all =
      all_gather_value(communicator_, Purpose::other, replica_->model.memory().gradients, {"benchmark", "", ""});
  return *std::max_element(all.begin(), all.end());
}

std::int64_t TrainContender::predicted_gradient_bytes() const {
  std::int64_t most = 0;
  for (const RankLoad& load : report(model_, plan_, cost().memory).ranks)
    most = std::max(most, load.gradient_bytes);
  return most;
}

double TrainContender::gamma() const {
  const std::vector<double> gammas = report(model_, plan_, {}).gamma;
  return *std::max_element(gammas.begin(), gammas.end());
}

StrategyCostOptions TrainContender::cost() const {
  StrategyCostOptions cost;
  cost.memory.prefetch = options_.sharding.prefetch;
  cost.memory.reduces_in_flight = options_.sharding.reduces_in_flight;
  cost.memory.passes = options_.passes(communicator_.size());
  cost.memory.optimizer = options_.planner.optimizer;
  cost.memory.collectives = options_.sharding.unit_collectives;
  cost.memory.topology = topology_;
  cost.memory.step_in_backward = options_.sharding.step_in_backward;
  cost.collective = options_.sharding.collective;
  return cost;
}

StrategyPrediction TrainContender::predict(const Machine& machine) const {
  StepOptions step;
  step.pass = transformer_pass(options_.shape, options_.micro_batch, options_.recompute, options_.compute_dtype);
  step.recompute = options_.recompute;
  step.cost = cost();
  step.links = links_;
  if (!options_.automatic_collectives) step.unshard_collective = step.optimizer_collective = step.cost.collective;
  return predict_step(options_.strategy, model_, plan_, machine, step);
}

ByteCounts TrainContender::predicted_bytes() const {
  ByteCounts sum;
  for (const StrategyLoad& load : strategy_loads(options_.strategy, model_, plan_, topology_, cost())) {
    sum[Purpose::unshard] += load.unshard_bytes;
    sum[Purpose::reduce] += load.reduce_bytes;
    sum[Purpose::optimizer] += load.optimizer_bytes;
  }
  return sum;
}

}  // namespace matrixfsdp::bench
