#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/program.hpp"

/// A training run of a second, and what its metrics say.
namespace matrixfsdp::testing {

using Arguments = std::vector<std::string>;

inline Arguments joined(Arguments first, const Arguments& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

/// fresh_folder with sample text in text.txt.
inline std::string text_folder(const std::string& name, std::size_t bytes = 60000) {
  std::string folder = fresh_folder(name);
  write_file(folder + "/text.txt", sample_text(bytes));
  return folder;
}

/// Arguments of mfsdp-train for a small model on a text_folder; `more` adds to them, and overrides them.
inline Arguments small_run(const std::string& folder, const Arguments& more) {
  return joined({"--data", folder + "/text.txt", "--layers", "2", "--hidden", "32", "--heads", "2", "--seq-len", "32",
                 "--batch-size", "12", "--sample-tokens", "0"},
                more);
}

/// A small_run whose first steps are the same whatever --steps is.
inline Arguments constant_run(const std::string& folder, const Arguments& more) {
  return small_run(folder, joined({"--lr-schedule", "constant"}, more));
}

/// The lines of a metrics file that are of steps.
inline std::vector<nlohmann::json> steps_of(const std::string& metrics) {
  std::vector<nlohmann::json> steps;
  for (const auto& line : read_json_lines(metrics)) {
    if (line.contains("loss_bits")) steps.push_back(line);
  }
  return steps;
}

/// Their losses, as bits.
inline std::vector<std::string> loss_bits_of(const std::vector<nlohmann::json>& steps) {
  std::vector<std::string> bits;
  for (const auto& step : steps)
    bits.push_back(step["loss_bits"]);
  return bits;
}
inline std::vector<std::string> loss_bits_of(const std::string& metrics) {
  return loss_bits_of(steps_of(metrics));
}

/// The steps of a run that ends well, on `ranks` ranks; its metrics are FOLDER/metrics.jsonl.
inline std::vector<nlohmann::json> steps_of_run(const std::string& folder, int ranks, const Arguments& arguments) {
  const std::string metrics = folder + "/metrics.jsonl";
  const auto result = run_train(ranks, joined(arguments, {"--metrics", metrics}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return steps_of(metrics);
}

/// The losses, as bits, of five steps of a constant_run.
inline std::vector<std::string> five_losses(const std::string& folder, int ranks, const Arguments& more) {
  const auto bits = loss_bits_of(steps_of_run(folder, ranks, joined(constant_run(folder, more), {"--steps", "5"})));
  EXPECT_EQ(bits.size(), 5U);
  return bits;
}

}  // namespace matrixfsdp::testing
