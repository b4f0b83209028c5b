#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/small_run.hpp"

// --muon-preset torch is the options of torch.optim.Muon by their names.
namespace matrixfsdp {
namespace {

using testing::Arguments;
using testing::joined;
using testing::run_train;
using testing::text_folder;

std::vector<std::string> losses(const Arguments& arguments) {
  const std::string folder = text_folder("muon-preset");
  const Arguments run = joined({"--layers", "1", "--steps", "4", "--batch-size", "4"}, arguments);
  const auto bits = testing::loss_bits_of(testing::steps_of_run(folder, 1, testing::small_run(folder, run)));
  EXPECT_EQ(bits.size(), 4U);
  return bits;
}

TEST(MuonPreset, torch_stands_for_the_options_by_name_and_those_given_replace_its_values) {
  const auto by_name = [](const std::string& lr, const std::string& coefficients) {
    return losses({"--lr", lr, "--weight-decay", "0.1", "--momentum", "0.95", "--scale-rule", "original",
                   "--ns-algorithm", "standard", "--ns-coefficients", coefficients, "--ns-steps", "5"});
  };
  const auto torch = losses({"--muon-preset", "torch"});
  EXPECT_EQ(torch, by_name("0.001", "keller-jordan"));
  EXPECT_EQ(losses({"--lr", "0.02", "--muon-preset", "torch", "--ns-coefficients", "you"}), by_name("0.02", "you"));
  const auto plain = losses({});
  EXPECT_NE(torch, plain);
  EXPECT_EQ(losses({"--muon-preset", "none"}), plain);
}

TEST(MuonPreset, what_is_not_known_or_cannot_be_is_refused) {
  for (const auto& [arguments, said] : std::vector<std::pair<Arguments, std::string>>{
           {{"--muon-preset", "jax"}, "--muon-preset 'jax': expected one of none, torch"},
           {{"--muon-preset", "torch", "--strategy", "fsdp2"}, "--muon-preset torch: expected another strategy"}}) {
    const auto result = run_train(1, testing::small_run(text_folder("muon-preset-input"), arguments));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace matrixfsdp
