#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/html.hpp"
#include "support/program.hpp"

/// `mfsdp-bench results-page`, on figures that were never measured.
namespace matrixfsdp {
namespace {

using nlohmann::json;
using testing::count_of;
using testing::first_bad_tag;
using testing::run_program;

testing::ProgramResult run_page(const std::vector<std::string>& files, const std::string& output) {
  std::vector<std::string> command = {MATRIXFSDP_MPIEXEC, "-n", "1", MATRIXFSDP_BENCH, "results-page"};
  command.insert(command.end(), files.begin(), files.end());
  command.insert(command.end(), {"--output", output});
  return run_program(command);
}

json report(const std::string& benchmark, json rows) {
  return {{"benchmark", benchmark}, {"environment", {{"processor", "a <b> & \"c\""}, {"cores", 2}}}, {"rows", rows}};
}

json spread(double median) {
  return {{"median", median}, {"minimum", median / 2}, {"maximum", median * 2}};
}

json optimizer_row(const std::string& strategy, double milliseconds) {
  return {{"world_size", 8},
          {"strategy", strategy},
          {"ns_steps", 5},
          {"optimizer_ms", spread(milliseconds)},
          {"ratio", spread(milliseconds / 12)},
          {"predicted_ms", milliseconds / 1.5}};
}

TEST(BenchResultsPage, every_row_is_in_table_and_chart_beside_the_published_figures) {
  const std::string folder = testing::fresh_folder("results-page");
  testing::write_file(
      folder + "/step.json",
      report("optimizer-step", json::array({optimizer_row("matrix-fsdp", 12), optimizer_row("a<b>&\"'", 345.25)}))
          .dump());
  testing::write_file(folder + "/step.command", "run --rate 2mbit -- bench > \"<out>\"\n");
  testing::write_file(folder + "/other.json",
                      report("planner", json::array({json{{"matrices", 10}, {"seconds", spread(0.25)}},
                                                     json{{"matrices", 77}, {"skipped", nullptr}}}))
                          .dump());
  const std::string output = folder + "/page.html";
  const auto result = run_page({folder + "/step.json", folder + "/other.json"}, output);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string page = testing::read_file(output);
  EXPECT_EQ(first_bad_tag(page), "");
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0U);
  EXPECT_NE(page.find("</body></html>"), std::string::npos);
  // Nothing is fetched, and nothing runs.
  EXPECT_EQ(testing::first_foreign(page), "");
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  // Tables: two rows of each, and a head.
  EXPECT_EQ(count_of(page, "<tr>"), 2 * 3);
  EXPECT_NE(page.find("<td>matrix-fsdp</td><td>5</td><td>12</td><td>1</td><td>8</td>"), std::string::npos);
  EXPECT_NE(page.find("<td>345.2</td>"), std::string::npos);
  EXPECT_NE(page.find("<th>matrices</th><th>seconds</th><th>skipped</th>"), std::string::npos);
  EXPECT_NE(page.find("<td>10</td><td>0.25</td><td>-</td>"), std::string::npos);
  // Charts: measured and predicted of two rows, their two ratios, and four published rows.
  EXPECT_EQ(count_of(page, "class=\"measured\"") - count_of(page, "height=\"10.0\" class=\"measured\""), 4);
  EXPECT_EQ(count_of(page, "class=\"predicted\"") - count_of(page, "height=\"10.0\" class=\"predicted\""), 2);
  EXPECT_EQ(count_of(page, "class=\"published\"") - count_of(page, "height=\"10.0\" class=\"published\""), 4);
  EXPECT_NE(page.find(">stock over MatrixFSDP, 64 ranks<"), std::string::npos);
  EXPECT_NE(page.find(fmt::format(">{:.4g} x<", 5064.0 / 93)), std::string::npos);
  // Text of others is text.
  EXPECT_NE(page.find("a &lt;b&gt; &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(page.find("a&lt;b&gt;&amp;&quot;'"), std::string::npos);
  EXPECT_NE(page.find("<pre>run --rate 2mbit -- bench &gt; &quot;&lt;out&gt;&quot;</pre>"), std::string::npos);
  EXPECT_NE(page.find("The command was not kept."), std::string::npos);
}

TEST(BenchResultsPage, the_longest_bar_is_the_largest_figure_and_others_are_in_proportion) {
  const std::string folder = testing::fresh_folder("results-page-bars");
  testing::write_file(
      folder + "/overlap.json",
      report("overlap",
             json::array(
                 {json{{"matrices", 8}, {"progress", "thread"}, {"step_ms", spread(100)}, {"bound_ms", spread(50)}},
                  json{{"matrices", 3}, {"progress", "thread"}, {"step_ms", spread(400)}, {"bound_ms", 200.0}}}))
          .dump());
  const std::string output = folder + "/page.html";
  const auto result = run_page({folder + "/overlap.json"}, output);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string page = testing::read_file(output);
  for (const char* width : {"width=\"110.00\"", "width=\"55.00\"", "width=\"440.00\"", "width=\"220.00\""})
    EXPECT_EQ(count_of(page, width), 1) << width;
  EXPECT_NE(page.find(">matrices 8<"), std::string::npos);
  EXPECT_NE(page.find(">matrices 3<"), std::string::npos);
}

TEST(BenchResultsPage, what_the_model_says_becomes_bars_beside_the_published_ones) {
  const std::string folder = testing::fresh_folder("results-page-model");
  const auto model = run_program({MATRIXFSDP_MPIEXEC, "-n", "1", MATRIXFSDP_BENCH, "paper-model", "--json"});
  ASSERT_EQ(model.exit_code, 0) << model.err;
  testing::write_file(folder + "/paper-model.json", model.out);
  const std::string output = folder + "/page.html";
  const auto result = run_page({folder + "/paper-model.json"}, output);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string page = testing::read_file(output);
  EXPECT_EQ(first_bad_tag(page), "");
  EXPECT_EQ(count_of(page, "<tr>"), 1 + static_cast<int>(json::parse(model.out)["rows"].size()));
  EXPECT_NE(page.find(">5064 ms<"), std::string::npos);
  EXPECT_NE(page.find(">61.6 GB<"), std::string::npos);
}

TEST(BenchResultsPage, anything_else_is_refused_in_one_line) {
  const std::string folder = testing::fresh_folder("results-page-bad");
  const std::string good = report("planner", json::array({json{{"matrices", 1}}})).dump();
  testing::write_file(folder + "/good.json", good);
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "no JSON"},
      {good.substr(0, good.size() - 1), "no JSON"},
      {"[]", "no benchmark with environment and rows"},
      {R"({"benchmark":"planner","environment":{},"rows":[]})", "no benchmark with environment and rows"},
      {R"({"benchmark":"planner","environment":{},"rows":[3]})", "no benchmark with environment and rows"},
      {R"({"benchmark":7,"environment":{},"rows":[{}]})", "no benchmark with environment and rows"},
      {R"({"benchmark":"optimizer-step","environment":{},"rows":[{"optimizer_ms":"fast"}]})",
       "rows that are not those of optimizer-step"},
  };
  for (const auto& [text, why] : bad) {
    testing::write_file(folder + "/bad.json", text);
    const auto result = run_page({folder + "/good.json", folder + "/bad.json"}, folder + "/page.html");
    EXPECT_EQ(result.exit_code, 2) << text;
    const auto lines = testing::lines_of(result.err);
    ASSERT_EQ(lines.size(), 1U) << result.err;
    EXPECT_NE(lines[0].find("bad.json': " + why + ", expected what mfsdp-bench prints with --json"), std::string::npos)
        << lines[0];
    EXPECT_FALSE(std::filesystem::exists(folder + "/page.html")) << "no page of a part of the files";
  }
  const auto missing = run_page({folder + "/none.json"}, folder + "/page.html");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("none.json': cannot be read"), std::string::npos) << missing.err;
  const auto unwritable = run_page({folder + "/good.json"}, folder + "/none/page.html");
  EXPECT_EQ(unwritable.exit_code, 2);
  EXPECT_NE(unwritable.err.find("none/page.html': cannot be written"), std::string::npos) << unwritable.err;
}

TEST(BenchPaper, help_and_bad_options) {
  const auto help = run_program({"bash", MATRIXFSDP_PAPER, "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* option : {"--out", "--quick", "--bench", "77"})
    EXPECT_NE(help.out.find(option), std::string::npos) << option;
  const auto option = run_program({"bash", MATRIXFSDP_PAPER, "--fast"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_EQ(option.err, "paper.sh: option '--fast': expected one of --out, --quick, --bench, --help\n");
  const auto value = run_program({"bash", MATRIXFSDP_PAPER, "--out"});
  EXPECT_EQ(value.exit_code, 2);
  EXPECT_EQ(value.err, "paper.sh: --out: expected a value after it\n");
  const auto bench = run_program({"bash", MATRIXFSDP_PAPER, "--bench", "/none/mfsdp-bench"});
  EXPECT_EQ(bench.exit_code, 2);
  EXPECT_EQ(bench.err, "paper.sh: --bench '/none/mfsdp-bench': expected the built mfsdp-bench\n");
}

}  // namespace
}  // namespace matrixfsdp
