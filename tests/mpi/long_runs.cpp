#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/schema/checksum.hpp>

#include "support/agree.hpp"
#include "support/parts_of_world.hpp"
#include "support/process_use.hpp"
#include "support/small_models.hpp"
#include "support/synthetic_run.hpp"

// Runs that are long enough for what is lost or kept at each step to show.
namespace matrixfsdp {
namespace {

using testing::open_descriptors;
using testing::resident_bytes;
using testing::SyntheticOptions;
using testing::SyntheticRun;
using testing::world;

constexpr std::int64_t steps = 2000;
/// What MPI's and the allocator's pools may still grow by after step 10: less than 400 bytes a step.
constexpr std::int64_t slack = 768 * 1024;

ModelSpec model_of_long_runs() {
  ModelSpec model = testing::small_model(2);
  model.units[0].parameters[0].shape = {60, 10};
  return model;
}

SyntheticOptions options_of_long_runs() {
  SyntheticOptions options;
  options.micro_batches = 2 * world().size();
  options.max_norm = 1.0;
  options.optimizer.muon.weight_decay = 0.1;
  return options;
}

/// Between steps: 48 blocks of 16 bytes to 32 KiB, written to, half of them kept until the next call.
class Churn {
 public:
  void turn(std::uint64_t step) {
    const CounterRandom random(step % 7, stream_of("churn"));  // sizes come again, so that the heap can be flat
    std::vector<std::vector<char>> blocks;
    for (std::uint64_t i = 0; i < 48; ++i)
      blocks.emplace_back(std::size_t{16} << random.below(i, 12), static_cast<char>(step));
    for (std::size_t i = 0; i < blocks.size(); i += 2)
      std::swap(blocks[i], blocks[blocks.size() - 1 - i]);
    blocks.resize(24);
    kept_ = std::move(blocks);
  }

 private:
  std::vector<std::vector<char>> kept_;
};

testing::GradientRule rule_of(std::int64_t step) {
  return [step](const ParameterSpec& spec, std::int64_t micro_batch, std::span<const float> weight,
                std::span<float> gradient) {
    testing::draw_gradient(static_cast<std::uint64_t>(step), spec, micro_batch, weight, gradient);
    return true;
  };
}

/// Of every parameter, unsharded, in order.
std::uint64_t hash_of_parameters(ShardedModel& model) {
  io::Checksum checksum;
  for (std::size_t u = 0; u < model.unit_count(); ++u) {
    model.unshard(u, Phase::forward);
    Kokkos::fence();
    for (const TensorView<float>& weight : model.weights(u))
      checksum.update(std::as_bytes(std::span(weight.data(), weight.size())));
    model.reshard(u);
  }
  return checksum.digest();
}

// CASES 22, 37, 50 over a long run.
TEST(LongRuns, memory_is_flat_and_all_ranks_end_with_the_bits_of_one) {
  const ModelSpec spec = model_of_long_runs();
  Communicator alone = testing::alone();
  SyntheticRun expected(alone, spec, make_plan(spec, 1), options_of_long_runs());
  SyntheticRun run(world(), spec, make_plan(spec, world().size()), options_of_long_runs());
  Churn churn;
  std::int64_t memory = 0;
  std::int64_t descriptors = 0;
  std::int64_t resident = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    run.step(rule_of(step));
    expected.step(rule_of(step));
    churn.turn(static_cast<std::uint64_t>(step));
    if (step == 10) {
      memory = run.model().memory().total() + run.optimizer().state_bytes() + run.optimizer().workspace_bytes();
      descriptors = open_descriptors();
      resident = resident_bytes();
    }
    if (step > 10 && step % 100 == 0) {
      const std::int64_t now =
          run.model().memory().total() + run.optimizer().state_bytes() + run.optimizer().workspace_bytes();
      std::string wrong;
      if (now != memory) wrong = fmt::format("{} bytes, {} at step 10", now, memory);
      if (open_descriptors() != descriptors)
        wrong = fmt::format("{} descriptors, {} at step 10", open_descriptors(), descriptors);
      if (resident_bytes() > resident + slack)
        wrong = fmt::format("{} resident bytes, {} at step 10", resident_bytes(), resident);
      ASSERT_EQ(testing::first_of_all_ranks(wrong), "") << "step " << step;
    }
  }
  EXPECT_EQ(run.steps_taken(), steps);
  EXPECT_EQ(run.difference_from(expected.tensors()), "");
  const std::uint64_t hash = hash_of_parameters(run.model());
  for (const std::uint64_t other : all_gather_value(world(), Purpose::other, hash, {"hash", "", ""}))
    EXPECT_EQ(other, hash);
  EXPECT_EQ(hash, hash_of_parameters(expected.model()));
}

}  // namespace
}  // namespace matrixfsdp
