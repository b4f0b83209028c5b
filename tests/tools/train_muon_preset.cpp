#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/program.hpp"

// --muon-preset torch is the options of torch.optim.Muon by their names.
namespace matrixfsdp {
namespace {

using testing::fresh_folder;
using testing::read_json_lines;
using testing::run_train;
using testing::sample_text;
using testing::write_file;

using Arguments = std::vector<std::string>;

std::vector<std::string> losses(const Arguments& arguments) {
  const std::string folder = fresh_folder("muon-preset");
  write_file(folder + "/text.txt", sample_text(30000));
  Arguments all{"--data",          folder + "/text.txt",
                "--layers",        "1",
                "--hidden",        "32",
                "--heads",         "2",
                "--seq-len",       "32",
                "--steps",         "4",
                "--sample-tokens", "0",
                "--metrics",       folder + "/run",
                "--batch-size",    "4"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const auto result = run_train(1, all);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> bits;
  for (const auto& line : read_json_lines(folder + "/run")) {
    if (line.contains("loss_bits")) bits.push_back(line["loss_bits"]);
  }
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
    const std::string folder = fresh_folder("muon-preset-input");
    write_file(folder + "/text.txt", sample_text(30000));
    Arguments all{"--data", folder + "/text.txt"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const auto result = run_train(1, all);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace matrixfsdp
