#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/strategy.hpp>
#include <matrixfsdp/plan/time_model.hpp>

#include "unit/plan_models.hpp"

// Predicted times, against sums by hand.
namespace matrixfsdp {
namespace {

Machine machine_of(int nodes, int ranks_per_node) {
  Machine machine;
  machine.name = "test";
  machine.nodes = nodes;
  machine.ranks_per_node = ranks_per_node;
  machine.inside = {0, 1e9, 1e12};
  machine.between = {0, 1e9, 1e12};
  machine.gemm_flops_per_second = 1e9;
  machine.orthogonalize_flops_per_second = 2e9;
  machine.memory_bytes = 1e12;
  machine.memory_bytes_per_second = 1e15;
  return machine;
}

/// Blocks of four h x h and two h x 4h, a GFLOP forward each.
struct Job {
  ModelSpec model = test::blocks(4, 64, 4, 2);
  StepOptions options;

  Job() {
    options.pass.unit_flops.assign(model.units.size(), 1'000'000'000);
    options.cost.memory.optimizer.algorithm = NewtonSchulzAlgorithm::standard;
  }
  [[nodiscard]] StrategyPrediction predict(StrategyKind kind, const Machine& machine) const {
    const Plan plan = make_strategy_plan(kind, model, static_cast<int>(machine.ranks()));
    return predict_step(kind, model, plan, machine, options);
  }
};

// A transfer of 2 and computations of 3: only the first transfer is seen. With transfers of 4: all of them, and the
// last computation.
TEST(PlanTimeModel, forward_hides_what_fits_behind_the_computation) {
  const std::vector<UnitSeconds> hidden(5, {2, 3, 0, 0, false});
  EXPECT_DOUBLE_EQ(forward_seconds(hidden, 0, 1), 2 + 5 * 3);
  EXPECT_DOUBLE_EQ(forward_seconds(hidden, 7, 1), 2 + 5 * 3 + 7);
  EXPECT_DOUBLE_EQ(forward_seconds(hidden, 0, 0), 5 * (2 + 3)) << "one slot: nothing is ahead";
  const std::vector<UnitSeconds> exposed(5, {4, 3, 0, 0, false});
  EXPECT_DOUBLE_EQ(forward_seconds(exposed, 0, 1), 5 * 4 + 3);
  EXPECT_DOUBLE_EQ(forward_seconds({}, 0, 1), 0);
}

// Slots, not only links, hold a transfer back: with two, the third unit waits for the first one's computation.
TEST(PlanTimeModel, storage_is_given_back_before_it_is_used_again) {
  const std::vector<UnitSeconds> units = {{1, 10, 0, 0, false}, {1, 1, 0, 0, false}, {5, 1, 0, 0, false}};
  // 1 + 10: unit 0; unit 1 until 12; unit 2's transfer from 11 to 16, computed until 17.
  EXPECT_DOUBLE_EQ(forward_seconds(units, 0, 1), 17);
  EXPECT_DOUBLE_EQ(forward_seconds(units, 0, 2), 13);
}

TEST(PlanTimeModel, backward_ends_with_the_last_reduce) {
  const std::vector<UnitSeconds> units(4, {1, 0, 5, 2, false});
  // The first unshard hides behind the head, all but the last reduce behind the next unit.
  EXPECT_DOUBLE_EQ(backward_seconds(units, 3, 1), 3 + 4 * 5 + 2);
  EXPECT_DOUBLE_EQ(backward_seconds(units, 0, 1), 1 + 4 * 5 + 2);
  // Links busier than the processor: every transfer, after the first computation has begun.
  const std::vector<UnitSeconds> busy(4, {4, 0, 1, 6, false});
  // 0-4 and 4-8 unshards, 8-14 a reduce, 14-18 an unshard, 18-24 a reduce, and so on
  EXPECT_DOUBLE_EQ(backward_seconds(busy, 0, 1), 4 * 4 + 4 * 6);
  std::vector<UnitSeconds> kept = units;
  for (UnitSeconds& unit : kept)
    unit.keep = true;
  EXPECT_DOUBLE_EQ(backward_seconds(kept, 0, 1), 4 * 5 + 2);
}

TEST(PlanTimeModel, one_rank_computes_and_sends_nothing) {
  const Job job;
  const Machine machine = machine_of(1, 1);
  std::int64_t flops = 0;
  for (const UnitSpec& unit : job.model.units) {
    for (const ParameterSpec& parameter : unit.parameters)
      flops += step_flops(parameter, job.options.cost.memory.optimizer);
  }
  for (const StrategyKind kind : strategy_kinds()) {
    const StrategyPrediction one = job.predict(kind, machine);
    EXPECT_EQ(one.strategy, kind);
    EXPECT_DOUBLE_EQ(one.forward_seconds, 4) << name_of(kind);
    EXPECT_DOUBLE_EQ(one.backward_seconds, 8) << name_of(kind);
    EXPECT_NEAR(one.optimizer_seconds, static_cast<double>(flops) / 2e9, 1e-6) << name_of(kind);
    EXPECT_EQ(one.bytes_per_rank, 0) << name_of(kind);
    EXPECT_TRUE(one.fits);
  }
}

TEST(PlanTimeModel, recomputation_head_passes_and_slow_ranks) {
  Job job;
  Machine machine = machine_of(1, 1);
  job.options.pass.last_flops = 500'000'000;
  job.options.recompute = true;
  job.options.cost.memory.passes = 3;
  machine.slow_ranks = {{0, 2}};
  const StrategyPrediction one = job.predict(StrategyKind::matrix_fsdp, machine);
  EXPECT_DOUBLE_EQ(one.forward_seconds, 3 * 2 * (4 + 0.5));
  EXPECT_DOUBLE_EQ(one.backward_seconds, 3 * 2 * (12 + 1.0));
}

// Of all ranks the slow one sets the pace, of its own work.
TEST(PlanTimeModel, the_optimizer_takes_what_the_slowest_owner_takes) {
  const Job job;
  Machine machine = machine_of(1, 4);
  const Plan plan = make_plan(job.model, 4);
  const PlanReport figures = report(job.model, plan, job.options.cost.memory);
  std::int64_t most = 0;
  for (const RankLoad& rank : figures.ranks)
    most = std::max(most, rank.flops);
  const auto predicted = [&] {
    return predict_step(StrategyKind::matrix_fsdp, job.model, plan, machine, job.options).optimizer_seconds;
  };
  EXPECT_NEAR(predicted(), static_cast<double>(most) / 2e9, 1e-6);
  machine.slow_ranks = {{2, 3}};
  EXPECT_NEAR(predicted(), 3 * static_cast<double>(figures.ranks[2].flops) / 2e9, 1e-6);
}

// 8 ranks that need no time for anything but the bytes of the optimizer, over links of 1 GB/s.
TEST(PlanTimeModel, peers_pay_for_the_bytes_of_their_optimizer) {
  Job job;
  job.options.pass.unit_flops.assign(job.model.units.size(), 0);
  job.options.optimizer_collective = CollectiveAlgorithm::direct;
  Machine machine = machine_of(8, 1);
  machine.gemm_flops_per_second = machine.orthogonalize_flops_per_second = 1e30;
  const double matrices = 4 * 12 * 64 * 64 * 4.0;  // bytes
  const double gathered = matrices * 7 / 8 / 1e9;
  EXPECT_NEAR(job.predict(StrategyKind::matrix_fsdp, machine).optimizer_seconds, 0, 1e-9);
  const double copied = 5 * 4 * matrices / 8 / machine.memory_bytes_per_second;
  const auto fsdp2 = [&] { return job.predict(StrategyKind::fsdp2, machine).optimizer_seconds; };
  EXPECT_NEAR(fsdp2(), 5 * gathered + copied, 1e-9) << "five steps";
  job.options.arrival_seconds = 0.001;
  EXPECT_NEAR(fsdp2(), 5 * (gathered + 24 * 0.001) + copied, 1e-9) << "24 matrices";
  job.options.arrival_seconds = 0;
  EXPECT_NEAR(job.predict(StrategyKind::fsdp2_gather, machine).optimizer_seconds, gathered, 1e-9);
  // 24 matrices, three on each rank: two h x 4h at most, there and back.
  const double alltoall = job.predict(StrategyKind::fsdp2_alltoall, machine).optimizer_seconds;
  EXPECT_GE(alltoall, 2 * gathered / 8 - 1e-9);
  EXPECT_LE(alltoall, 3 * gathered / 8);
  EXPECT_NEAR(job.predict(StrategyKind::zero1_owner, machine).optimizer_seconds, gathered, 0.05 * gathered)
      << "each owner sends its eighth of the model to seven, those of all units at once";
  EXPECT_NEAR(job.predict(StrategyKind::ddp, machine).optimizer_seconds, 0, 1e-8) << "its memory traffic";
  // What travels as half as many bytes takes half the time.
  job.options.master_weights = false;
  EXPECT_NEAR(fsdp2(), 2.5 * gathered + copied / 2, 1e-9);
}

// Tall matrices: what is copied and summed beside the products, by hand.
TEST(PlanTimeModel, fsdp2_copies_beside_its_products) {
  EXPECT_EQ(sharded_newton_schulz_copies(64, 256, 16, 16, 4, 5), 5 * 4 * 16 * 256) << "there and back";
  // The Gram matrix's quarter is read from four ranks and written; a matrix this tall squares it.
  EXPECT_EQ(sharded_newton_schulz_copies(256, 64, 64, 64, 4, 5), 5 * (5 * 1024 + 2 * 4096 + 4 * 64 * 64));
  EXPECT_EQ(sharded_newton_schulz_copies(80, 64, 20, 20, 4, 5), 5 * (5 * 1024 + 3 * 20 * 64)) << "this one does not";
  Job job;
  job.options.pass.unit_flops.assign(job.model.units.size(), 0);
  Machine machine = machine_of(4, 1);
  machine.orthogonalize_flops_per_second = machine.between.bytes_per_second = 1e30;
  machine.between.node_bytes_per_second = 1e30;
  const double most = 4 * 12 * 64 * 64 / 4.0;  // elements of a rank
  machine.memory_bytes_per_second = 1e9;
  const double resident = job.predict(StrategyKind::matrix_fsdp, machine).optimizer_seconds;
  EXPECT_NEAR(job.predict(StrategyKind::fsdp2, machine).optimizer_seconds, resident + 5 * 4 * most * 4 / 1e9,
              0.02 * resident);
  machine.slow_ranks = {{1, 3}};
  EXPECT_NEAR(job.predict(StrategyKind::fsdp2, machine).optimizer_seconds, 3 * (resident + 5 * 4 * most * 4 / 1e9),
              0.06 * resident);
}

TEST(PlanTimeModel, bytes_and_memory_are_those_of_the_strategies) {
  Job job;
  job.options.pass.activation_bytes = 1'000'000;
  Machine machine = machine_of(2, 2);
  for (const StrategyKind kind : strategy_kinds()) {
    const Plan plan = make_strategy_plan(kind, job.model, 4);
    const std::vector<StrategyLoad> loads =
        strategy_loads(kind, job.model, plan, make_topology(4, 2), job.options.cost);
    std::int64_t bytes = 0;
    std::int64_t memory = 0;
    for (const StrategyLoad& load : loads) {
      bytes = std::max(bytes, load.unshard_bytes + load.reduce_bytes + load.optimizer_bytes);
      memory = std::max(memory, load.peak_bytes());
    }
    const StrategyPrediction whole = job.predict(kind, machine);
    EXPECT_EQ(whole.bytes_per_rank, bytes) << name_of(kind);
    EXPECT_EQ(whole.memory_bytes, memory + 1'000'000) << name_of(kind);
    Job halved = job;
    halved.options.master_weights = false;
    EXPECT_EQ(halved.predict(kind, machine).memory_bytes, (memory + 1'000'000) / 2) << name_of(kind);
    Machine small = machine;
    small.memory_bytes = static_cast<double>(memory);
    EXPECT_FALSE(job.predict(kind, small).fits) << name_of(kind);
  }
}

TEST(PlanTimeModel, work_of_a_transformer) {
  const TransformerShape shape = transformer_from_name("llama:d12");
  const PassWork pass = transformer_pass(shape, 2, false);
  ASSERT_EQ(pass.unit_flops.size(), 13U);
  EXPECT_EQ(pass.unit_flops[0], 0);
  std::int64_t sum = pass.last_flops;
  for (const std::int64_t flops : pass.unit_flops)
    sum += flops;
  EXPECT_EQ(sum, forward_product_flops(shape, 2 * shape.sequence_length, shape.sequence_length));
  EXPECT_EQ(pass.last_flops, 2 * 2 * shape.sequence_length * shape.hidden * shape.vocabulary);
  EXPECT_LT(transformer_pass(shape, 2, true).activation_bytes, pass.activation_bytes / 4);
}

TEST(PlanTimeModel, refuses_what_does_not_fit) {
  Job job;
  const Plan plan = make_plan(job.model, 4);
  EXPECT_THROW(predict_step(StrategyKind::matrix_fsdp, job.model, plan, machine_of(1, 8), job.options), ContractError);
  job.options.pass.unit_flops.pop_back();
  EXPECT_THROW(predict_step(StrategyKind::matrix_fsdp, job.model, plan, machine_of(1, 4), job.options), ContractError);
}

// Without computation, forward is one unshard after the other, by the algorithm that is asked for.
TEST(PlanTimeModel, forward_takes_the_unshard_that_is_asked_for) {
  Job job;
  job.options.pass.unit_flops.assign(job.model.units.size(), 0);
  Machine machine = machine_of(4, 1);
  machine.between.latency_seconds = 1e-4;
  const Plan plan = make_plan(job.model, 4);
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::direct, CollectiveAlgorithm::chain, CollectiveAlgorithm::padded}) {
    double sum = 0;
    for (const UnitPlan& unit : plan.units)
      sum += predicted_unshard_seconds(algorithm, segment_table(unit.weights), make_topology(4, 1),
                                       collective_profile(machine));
    job.options.unshard_collective = algorithm;
    EXPECT_NEAR(job.predict(StrategyKind::matrix_fsdp, machine).forward_seconds, sum, 1e-9 * sum) << name_of(algorithm);
  }
}

// Links as they were measured, where all together are half as fast as one rank alone: what all do at once takes twice
// as long as the machine says.
TEST(PlanTimeModel, calibrated_links_bring_their_contention) {
  Job job;
  job.options.pass.unit_flops.assign(job.model.units.size(), 0);
  job.options.unshard_collective = job.options.optimizer_collective = CollectiveAlgorithm::direct;
  Machine machine = machine_of(4, 1);
  machine.orthogonalize_flops_per_second = machine.memory_bytes_per_second = 1e30;
  machine.between.node_bytes_per_second = machine.between.bytes_per_second;
  const auto predict = [&](StrategyKind kind) { return job.predict(kind, machine); };
  for (const StrategyKind kind : {StrategyKind::fsdp2_gather, StrategyKind::fsdp2_alltoall}) {
    job.options.links = std::nullopt;
    const StrategyPrediction described = predict(kind);
    job.options.links = collective_profile(machine);
    job.options.links->inside = std::nullopt;  // no node has two ranks
    EXPECT_DOUBLE_EQ(predict(kind).forward_seconds, described.forward_seconds);
    EXPECT_DOUBLE_EQ(predict(kind).optimizer_seconds, described.optimizer_seconds);
    job.options.links->between->contention = 2;
    EXPECT_NEAR(predict(kind).forward_seconds, 2 * described.forward_seconds, 1e-9 * described.forward_seconds);
    EXPECT_NEAR(predict(kind).optimizer_seconds, 2 * described.optimizer_seconds, 1e-9 * described.optimizer_seconds);
  }
  job.options.links->world_size = 5;
  EXPECT_THROW(predict(StrategyKind::fsdp2), ContractError);
  job.options.links->world_size = 4;
  job.options.links->nodes = 2;
  EXPECT_THROW(predict(StrategyKind::fsdp2), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
