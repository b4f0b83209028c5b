#include "apps/bench/train_step.hpp"

#include <chrono>
#include <memory>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "apps/bench/benchmark.hpp"
#include "apps/train/replica.hpp"

namespace matrixfsdp::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  Kokkos::fence();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Rate of one large product in this run: the model's own feed-forward shape, a number of times over at least 0.2 s.
double sgemm_gflops(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Tensor<float> a = make_tensor<float>("a", m * k);
  const Tensor<float> b = make_tensor<float>("b", n * k);
  const Tensor<float> c = make_tensor<float>("c", m * n);
  Kokkos::deep_copy(a, 0.5F);
  Kokkos::deep_copy(b, 0.25F);
  const auto product = [&] {
    linalg::gemm<float>(linalg::Op::none, linalg::Op::transpose, 1.0F, MatrixView<float>(a.data(), m, k),
                        MatrixView<float>(b.data(), n, k), 0.0F, MatrixView<float>(c.data(), m, n));
  };
  product();
  const auto start = Clock::now();
  std::int64_t count = 0;
  do {
    product();
    ++count;
  } while (seconds_since(start) < 0.2);
  return 2e-9 * static_cast<double>(count * m * n * k) / seconds_since(start);
}

struct Contender {
  std::string strategy;
  std::unique_ptr<train::Replica> replica;
  std::vector<double> forward, backward, optimizer, total, fraction, forward_backward_fraction, hidden;
  double product_flops = 0;
  std::int64_t optimizer_bytes = 0;
};

train::Options training_options(const TrainStepOptions& options, const std::string& strategy, int world_size) {
  train::Options result;
  result.model = options.model;
  result.shape = transformer_from_name(options.model);
  result.shape.sequence_length = options.sequence_length;
  result.micro_batch = options.micro_batch;
  result.batch_size = options.micro_batch * options.passes * world_size;
  result.recompute = options.recompute;
  result.strategy = strategy == "ddp" ? train::Strategy::ddp : train::Strategy::matrix_fsdp;
  result.optimizer.matrices = options.optimizer == "adamw" ? MatrixOptimizer::adamw : MatrixOptimizer::muon;
  result.planner.optimizer.matrices_on_adamw = options.optimizer == "adamw";
  return result;
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

/// One step; `gflops` is the rate of sgemm measured just before.
void run_step(Communicator& communicator, Contender& contender, const train::Options& options, double gflops,
              bool count) {
  train::Replica& replica = *contender.replica;
  const std::int64_t passes = options.passes(communicator.size());
  const std::int64_t flops_before = replica.network.product_flops();
  const TransferTimes transfers_before = replica.model.transfer_times();
  const std::int64_t bytes_before = communicator.bytes()[Purpose::optimizer];
  communicator.barrier({"benchmark round", "", ""});
  const auto start = Clock::now();
  train::PassTimes times;
  replica.model.begin_step();
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const auto batch = random_batch(options, pass * communicator.size() + communicator.rank());
    train::run_pass(replica, batch, 1.0F / static_cast<float>(options.batch_size * options.sequence_length()), times);
  }
  const double forward_backward = seconds_since(start);
  const GradientNorm norm = gradient_norm(replica.model);
  const auto optimizer_start = Clock::now();
  replica.optimizer->step({clip_scale(norm.norm, 1.0), 0.01, 1});
  const double optimizer = seconds_since(optimizer_start);
  replica.model.weights_changed();
  const double total = slowest(communicator, seconds_since(start));
  if (!count) return;
  const double flops = static_cast<double>(replica.network.product_flops() - flops_before);
  contender.product_flops = flops;
  contender.forward.push_back(1e3 * slowest(communicator, times.forward));
  contender.backward.push_back(1e3 * slowest(communicator, times.backward));
  contender.optimizer.push_back(1e3 * slowest(communicator, optimizer));
  contender.total.push_back(1e3 * total);
  contender.fraction.push_back(1e-9 * flops / total / gflops);
  contender.forward_backward_fraction.push_back(1e-9 * flops / slowest(communicator, forward_backward) / gflops);
  contender.hidden.push_back(hidden_between(transfers_before, replica.model.transfer_times()));
  contender.optimizer_bytes += communicator.bytes()[Purpose::optimizer] - bytes_before;
}

}  // namespace

int train_step(Session& session, const TrainStepOptions& options) {
  Communicator& communicator = session.world();
  const nccl::Attachment attachment = train::attach_backend(communicator, options.backend);
  if (communicator.rank() == 0) log_line(attachment.description());
  std::vector<Contender> contenders;
  for (const std::string& strategy : options.strategies) {
    const train::Options training = training_options(options, strategy, communicator.size());
    const ModelSpec model = transformer_model(training.shape);
    Plan plan = training.strategy == train::Strategy::ddp ? make_replicated_plan(model, communicator.size())
                                                          : make_plan(model, communicator.size(), training.planner);
    contenders.emplace_back();
    contenders.back().strategy = strategy;
    contenders.back().replica = std::make_unique<train::Replica>(communicator, training, std::move(plan));
  }
  std::vector<double> sgemm;
  for (std::int64_t round = 0; round <= options.rounds; ++round) {  // the first one warms up
    for (Contender& contender : contenders) {
      const train::Options training = training_options(options, contender.strategy, communicator.size());
      const double gflops =
          sgemm_gflops(options.micro_batch * options.sequence_length, training.shape.ffn, training.shape.hidden);
      if (round > 0) sgemm.push_back(gflops);
      run_step(communicator, contender, training, gflops, round > 0);
    }
  }
  nlohmann::json rows = nlohmann::json::array();
  const double reference = spread_of(contenders.front().total).median;
  for (const Contender& contender : contenders) {
    const Spread total = spread_of(contender.total);
    rows.push_back({
        {"strategy", contender.strategy},
        {"optimizer", options.optimizer},
        {"forward_ms", to_json(spread_of(contender.forward))},
        {"backward_ms", to_json(spread_of(contender.backward))},
        {"optimizer_ms", to_json(spread_of(contender.optimizer))},
        {"total_ms", to_json(total)},
        {"optimizer_bytes", contender.optimizer_bytes},
        {"peak_bytes", contender.replica->resident_bytes()},
        {"ratio", total.median / reference},
        {"hidden_share", to_json(spread_of(contender.hidden))},
        {"product_gflop", 1e-9 * contender.product_flops},
        {"sgemm_gflops", to_json(spread_of(sgemm))},
        {"forward_backward_fraction", to_json(spread_of(contender.forward_backward_fraction))},
        {"step_fraction", to_json(spread_of(contender.fraction))},
    });
  }
  print("train-step", session, rows,
        {"strategy", "optimizer", "forward_ms", "backward_ms", "optimizer_ms", "total_ms", "optimizer_bytes",
         "peak_bytes", "ratio", "hidden_share", "sgemm_gflops", "forward_backward_fraction", "step_fraction"},
        options.json);
  return exit_ok;
}

}  // namespace matrixfsdp::bench
