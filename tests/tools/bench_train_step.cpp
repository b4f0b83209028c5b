#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/plan/report.hpp>
#include <matrixfsdp/plan/strategy.hpp>
#include <matrixfsdp/plan/transformer.hpp>

#include "support/known_links.hpp"

/// What `mfsdp-bench train-step` prints of a step.
namespace matrixfsdp {
namespace {

using testing::run_program;

const TransformerShape small_shape{TransformerStyle::gpt2, 2, 32, 2, 2, 96, 16, 64, true};

std::vector<std::string> small_run(const std::string& ranks, const std::vector<std::string>& options) {
  std::vector<std::string> command = {MATRIXFSDP_MPIEXEC, "-n", ranks, MATRIXFSDP_BENCH, "train-step"};
  command.insert(command.end(),
                 {"--model", "gpt2", "--layers", "2", "--hidden", "32", "--heads", "2", "--ffn", "96", "--seq-len",
                  "16", "--vocab-size", "64", "--micro-batch", "1", "--rounds", "1", "--json"});
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

nlohmann::json calibrated_rows_of(const std::string& ranks, const std::vector<std::string>& options) {
  const auto result = run_program(small_run(ranks, options));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["benchmark"], "train-step");
  return report["rows"];
}

/// Predicted from links that are told, not measured.
nlohmann::json rows_of(const std::string& ranks, std::vector<std::string> options) {
  options.insert(options.end(), {"--collective-profile", testing::known_links(std::stoi(ranks))});
  return calibrated_rows_of(ranks, options);
}

// Every strategy, by purpose: what all ranks send in one step is what the formulas say.
TEST(BenchTrainStep, bytes_are_those_of_the_formulas) {
  std::vector<std::string> options = {"--passes", "2", "--ns-steps", "3", "--recompute", "--strategy"};
  for (const StrategyKind kind : strategy_kinds())
    options.emplace_back(name_of(kind));
  const auto rows = rows_of("3", options);
  ASSERT_EQ(rows.size(), strategy_kinds().size());
  const double products = 3 * 2 * 1e-9 * static_cast<double>(forward_product_flops(small_shape, 16, 16));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    EXPECT_EQ(row["strategy"], name_of(strategy_kinds()[i]));
    EXPECT_EQ(row["ns_steps"], 3);
    EXPECT_EQ(row["world_size"], 3);
    for (const char* purpose : {"unshard", "reduce", "optimizer"})
      EXPECT_EQ(row["bytes"][purpose], row["predicted_bytes"][purpose]) << purpose << " " << row;
    EXPECT_EQ(row["optimizer_bytes"], row["bytes"]["optimizer"]);
    EXPECT_EQ(row["bytes"]["clip"] == 0, row["strategy"] == "ddp") << row;
    EXPECT_EQ(row["bytes"]["other"], 0);
    // Attention computes whole tiles, of which the formula counts what is not masked.
    EXPECT_GE(row["product_gflop"].get<double>(), products);
    EXPECT_LE(row["product_gflop"].get<double>(), 1.1 * products);
    EXPECT_GT(row["kflop_per_byte"].get<double>(), 0);
  }
  EXPECT_EQ(rows[0]["optimizer_bytes"], 0);
  EXPECT_GT(rows[1]["optimizer_bytes"].get<std::int64_t>(), rows[2]["optimizer_bytes"].get<std::int64_t>());
}

TEST(BenchTrainStep, times_are_sums_and_ratios_of_what_was_measured) {
  const auto rows = calibrated_rows_of("2", {"--strategy", "matrix-fsdp", "ddp"});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["ratio"]["median"], 1.0);
  EXPECT_DOUBLE_EQ(rows[1]["ratio"]["median"].get<double>(),
                   rows[1]["total_ms"]["median"].get<double>() / rows[0]["total_ms"]["median"].get<double>());
  for (const auto& row : rows) {
    double predicted = 0;
    double measured = 0;
    for (const char* phase : {"forward", "backward", "optimizer"}) {
      predicted += row["predicted_" + std::string(phase) + "_ms"].get<double>();
      measured += row[std::string(phase) + "_ms"]["median"].get<double>();
      EXPECT_GT(row["predicted_" + std::string(phase) + "_ms"].get<double>(), 0) << row;
    }
    EXPECT_NEAR(row["predicted_total_ms"].get<double>(), predicted, 1e-9 * predicted);
    EXPECT_DOUBLE_EQ(row["over_predicted"].get<double>(),
                     row["total_ms"]["median"].get<double>() / row["predicted_total_ms"].get<double>());
    EXPECT_GT(measured, 0);
  }
}

// Of the fullest rank: the weights, gradients and momentum of ddp are everywhere, so it has the most.
TEST(BenchTrainStep, the_fullest_rank_holds_what_its_shards_need) {
  const auto rows = rows_of("3", {"--strategy", "matrix-fsdp", "ddp"});
  const ModelSpec model = transformer_model(small_shape);
  const PlanReport owners = report(model, make_plan(model, 3), {});
  std::int64_t most = 0;
  for (const RankLoad& load : owners.ranks)
    most = std::max(most, load.owned_bytes + load.window_bytes);
  EXPECT_GT(rows[0]["peak_bytes"].get<std::int64_t>(), most);
  EXPECT_GT(rows[1]["peak_bytes"].get<std::int64_t>(), owners.replicated_bytes);
  EXPECT_DOUBLE_EQ(rows[0]["gamma"].get<double>(), *std::max_element(owners.gamma.begin(), owners.gamma.end()));
}

// The published ablation: owners' segments travel as an all-gather of the largest one, everything else as before.
TEST(BenchTrainStep, a_padded_all_gather_sends_more) {
  const auto rows = rows_of("3", {"--collective", "scatter", "padded"});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["collective"], "scatter");
  EXPECT_EQ(rows[1]["collective"], "padded");
  EXPECT_GT(rows[1]["bytes"]["unshard"].get<std::int64_t>(), rows[0]["bytes"]["unshard"].get<std::int64_t>());
  EXPECT_EQ(rows[1]["bytes"]["unshard"], rows[1]["predicted_bytes"]["unshard"]);
  EXPECT_EQ(rows[1]["bytes"]["reduce"], rows[0]["bytes"]["reduce"]);
  EXPECT_NE(rows[1]["predicted_forward_ms"], rows[0]["predicted_forward_ms"]);
}

// Whatever it chooses, all ranks together send as much; two passes, whose sums are kept in between.
TEST(BenchTrainStep, chosen_collectives_bring_the_same_bytes) {
  const auto rows =
      rows_of("3", {"--passes", "2", "--strategy", "matrix-fsdp", "fsdp2", "ddp", "--collective", "scatter", "auto"});
  ASSERT_EQ(rows.size(), 6U);
  for (std::size_t i = 0; i < rows.size(); i += 2) {
    EXPECT_EQ(rows[i + 1]["collective"], "auto");
    for (const char* purpose : {"unshard", "reduce", "optimizer"})
      EXPECT_EQ(rows[i + 1]["bytes"][purpose], rows[i + 1]["predicted_bytes"][purpose]) << purpose << rows[i + 1];
    EXPECT_EQ(rows[i + 1]["bytes"]["unshard"], rows[i]["bytes"]["unshard"]);
  }
}

TEST(BenchTrainStep, planners_place_the_same_model_otherwise) {
  const auto rows = rows_of("3", {"--planner", "role", "scope", "cost", "balanced"});
  ASSERT_EQ(rows.size(), 4U);
  std::set<std::string> planners;
  for (const auto& row : rows) {
    planners.insert(row["planner"]);
    EXPECT_EQ(row["bytes"]["unshard"], rows[0]["bytes"]["unshard"]);
  }
  EXPECT_EQ(planners, (std::set<std::string>{"role", "scope", "cost", "balanced"}));
}

// A row of its own for matrix-fsdp, compared with the one before it; less memory of gradients, as predicted.
TEST(BenchTrainStep, steps_in_backward_are_compared_with_steps_afterwards) {
  const auto rows = rows_of("2", {"--strategy", "ddp", "matrix-fsdp", "--layers", "4", "--step-in-backward"});
  ASSERT_EQ(rows.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rows[i]["step_in_backward"].get<bool>(), i == 2);
    EXPECT_EQ(rows[i]["optimizer_hidden_share"].is_null(), i != 2);
    EXPECT_EQ(rows[i]["gradient_bytes"], rows[i]["predicted_gradient_bytes"]);
  }
  EXPECT_LT(rows[2]["gradient_bytes"].get<std::int64_t>(), rows[1]["gradient_bytes"].get<std::int64_t>());
  EXPECT_LT(rows[2]["peak_bytes"].get<std::int64_t>(), rows[1]["peak_bytes"].get<std::int64_t>());
  EXPECT_EQ(rows[2]["optimizer_bytes"], 0);
  EXPECT_GT(rows[2]["optimizer_ms"]["median"].get<double>(), 0) << "its units' steps";
  const double saved = rows[1]["total_ms"]["median"].get<double>() - rows[2]["total_ms"]["median"].get<double>();
  EXPECT_NEAR(rows[2]["optimizer_hidden_share"]["median"].get<double>(),
              saved / rows[1]["optimizer_ms"]["median"].get<double>(), 1e-9);
}

TEST(BenchTrainStep, bad_input_is_one_line) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> bad = {
      {{"--layers", "0"}, "--layers '0': expected an integer of at least 1"},
      {{"--heads", "3"}, "heads"},
      {{"--collective", "allgatherv"}, "allgatherv"},
      {{"--strategy", "fsdp2", "--collective", "padded"}, "padded"},
  };
  for (const auto& [options, expected] : bad) {
    const auto result = run_program(small_run("2", options));
    EXPECT_EQ(result.exit_code, 2) << expected;
    EXPECT_NE(result.err.find(expected), std::string::npos) << result.err;
    EXPECT_EQ(testing::lines_of(result.err).back().find("rank"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace matrixfsdp
