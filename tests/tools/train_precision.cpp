#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/small_run.hpp"

// What travels as bfloat16 in a whole run: the same bits everywhere, and every byte counted.
namespace matrixfsdp {
namespace {

using testing::Arguments;
using testing::constant_run;
using testing::five_losses;
using testing::joined;
using testing::run_train;
using testing::steps_of_run;
using testing::text_folder;
using testing::write_file;

Arguments both(const std::string& dtype) {
  return {"--param-dtype", dtype, "--reduce-dtype", dtype};
}

// CASES 3, 9, 10, 32, 33: the strategy, the number of ranks and of passes leave no trace in rounded runs either.
TEST(Precision, the_same_bits_at_any_world_size_and_strategy) {
  const std::string folder = text_folder("precision");
  const auto reference = five_losses(folder, 1, joined(both("bfloat16"), {"--strategy", "ddp"}));
  for (const int ranks : {1, 2, 4}) {
    EXPECT_EQ(five_losses(folder, ranks, both("bfloat16")), reference) << ranks;
  }
  for (const int ranks : {2, 3}) {
    EXPECT_EQ(five_losses(folder, ranks, joined(both("bfloat16"), {"--strategy", "ddp"})), reference) << ranks;
  }
  EXPECT_EQ(five_losses(folder, 3, joined(both("bfloat16"), {"--collective", "chain", "--prefetch", "0"})), reference);
  // Each of the two changes the bits, or the comparisons above could not fail.
  const auto exact = five_losses(folder, 2, both("float32"));
  EXPECT_EQ(five_losses(folder, 2, {}), exact) << "the default";
  const auto weights = five_losses(folder, 2, {"--param-dtype", "bfloat16"});
  const auto gradients = five_losses(folder, 2, {"--reduce-dtype", "bfloat16"});
  EXPECT_NE(weights, exact);
  EXPECT_NE(gradients, exact);
  EXPECT_NE(weights, reference);
  EXPECT_NE(gradients, reference);
}

// Unit policies, in any order and in a configuration file too.
TEST(Precision, units_have_policies_of_their_own) {
  const std::string folder = text_folder("precision-units");
  const auto blocks = five_losses(folder, 2,
                                  joined(both("bfloat16"), {"--unit-policy",
                                                            "root:param-dtype=float32,"
                                                            "reduce-dtype=float32"}));
  EXPECT_NE(blocks, five_losses(folder, 2, both("bfloat16")));
  const Arguments turned{"--unit-policy", "block.1:reduce-dtype=bfloat16,param-dtype=bfloat16",
                         "--unit-policy", "block.0:reduce-dtype=bfloat16",
                         "--unit-policy", "block.0:param-dtype=bfloat16"};
  EXPECT_EQ(five_losses(folder, 3, turned), blocks);
  write_file(folder + "/run.toml",
             "param-dtype = \"bfloat16\"\n"
             "reduce-dtype = \"bfloat16\"\n"
             "unit-policy = [\"root:param-dtype=float32,reduce-dtype=float32\"]\n");
  EXPECT_EQ(five_losses(folder, 1, {"--config", folder + "/run.toml"}), blocks);
}

// One pass on each of two ranks, and room for all units: each rank gets, and gives, every weight and gradient once.
TEST(Precision, bytes_are_halved_exactly) {
  const std::string folder = text_folder("precision-bytes");
  const Arguments once{"--batch-size", "2", "--steps", "2", "--prefetch", "7"};
  // gpt2 with 2 blocks of 12704 parameters, and a root of 9280.
  const std::int64_t root = 9280;
  const std::int64_t blocks = 2 * 12704;
  struct Expected {
    Arguments arguments;
    std::int64_t unshard;
    std::int64_t reduce;
  };
  const std::vector<Expected> runs{
      {{}, 4 * (root + blocks), 4 * (root + blocks)},
      {{"--param-dtype", "bfloat16"}, 2 * (root + blocks), 4 * (root + blocks)},
      {{"--reduce-dtype", "bfloat16"}, 4 * (root + blocks), 2 * (root + blocks)},
      {joined(both("bfloat16"), {"--unit-policy", "root:param-dtype=float32"}), 4 * root + 2 * blocks,
       2 * (root + blocks)},
      {{"--unit-policy", "block.1:reduce-dtype=bfloat16"}, 4 * (root + blocks), 4 * (root + blocks / 2) + blocks}};
  for (const Expected& run : runs) {
    const auto steps = steps_of_run(folder, 2, constant_run(folder, joined(once, run.arguments)));
    ASSERT_EQ(steps.size(), 2U);
    for (const auto& step : steps) {
      EXPECT_EQ(step["bytes"]["unshard"], run.unshard);
      EXPECT_EQ(step["bytes"]["reduce"], run.reduce);
      EXPECT_EQ(step["bytes"]["optimizer"], 0);
    }
  }
}

TEST(Precision, verify_compares_with_a_replica_that_rounds_alike) {
  const std::string folder = text_folder("precision-verify");
  for (const int ranks : {1, 3}) {
    const auto result = run_train(
        ranks,
        constant_run(folder, joined(both("bfloat16"), {"--seq-len", "16", "--batch-size", "6", "--steps", "4",
                                                       "--unit-policy", "block.0:reduce-dtype=float32", "--verify"})));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("every gradient and weight"), std::string::npos) << result.out;
  }
}

// CASES 50, 52: checkpoints hold the float32 masters, so a run goes on bit for bit, on any number of ranks.
TEST(Precision, a_resumed_run_continues_from_its_masters) {
  const std::string folder = text_folder("precision-resume");
  const Arguments rounded = both("bfloat16");
  const auto expected = steps_of_run(folder, 2, constant_run(folder, joined(rounded, {"--steps", "6"})));
  ASSERT_EQ(expected.size(), 6U);
  int ranks = 3;
  for (const std::string steps : {"3", "6"}) {
    const Arguments more{"--steps", steps, "--resume", "auto", "--checkpoint-dir", folder + "/checkpoints"};
    const auto found = steps_of_run(folder, ranks, constant_run(folder, joined(rounded, more)));
    EXPECT_EQ(found.back()["loss_bits"], expected.at(std::stoul(steps) - 1)["loss_bits"]) << steps;
    ranks = 1;
  }
  // Another precision is said, and not refused.
  const auto other =
      run_train(1, constant_run(folder, {"--steps", "7", "--resume", "auto", "--checkpoint-dir",
                                         folder + "/checkpoints", "--unit-policy", "root:param-dtype=bfloat16"}));
  EXPECT_EQ(other.exit_code, 0) << other.err;
  for (const char* name : {"param_dtype", "reduce_dtype", "unit_policies"})
    EXPECT_NE(other.err.find("resumed with another " + std::string(name)), std::string::npos) << other.err;
}

}  // namespace
}  // namespace matrixfsdp
