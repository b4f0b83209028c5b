#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/bad_input.hpp"
#include "support/html.hpp"
#include "support/program.hpp"

/// mfsdp-report: one page of runs.
namespace matrixfsdp {
namespace {

using nlohmann::json;
using testing::count_of;
using testing::fresh_folder;
using testing::lines_of;
using testing::read_file;
using testing::run_program;
using testing::write_file;

testing::ProgramResult report(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MATRIXFSDP_REPORT);
  return run_program(arguments);
}

/// The page of runs that are lines of JSON.
std::string page_of(const std::string& name, const std::vector<std::string>& runs) {
  const std::string folder = fresh_folder("report-" + name);
  std::vector<std::string> arguments;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    arguments.push_back(fmt::format("{}/run{}.jsonl", folder, i));
    write_file(arguments.back(), runs[i]);
  }
  const std::string page = folder + "/page.html";
  arguments.insert(arguments.end(), {"-o", page});
  const auto result = report(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string text = result.exit_code == 0 ? read_file(page) : "";
  EXPECT_EQ(testing::first_bad_tag(text), "");
  EXPECT_EQ(testing::first_foreign(text), "");
  EXPECT_NE(text.find("prefers-color-scheme: dark"), std::string::npos);
  return text;
}

bool has(const std::string& page, const std::string& part) {
  return page.find(part) != std::string::npos;
}

std::string step(int number, double loss, double total = 10) {
  return json{{"step", number},
              {"loss", loss},
              {"grad_norm", 0.5},
              {"lr", 0.02},
              {"skipped", false},
              {"tokens_per_second", 2000},
              {"milliseconds", {{"forward", 3}, {"backward", 4}, {"optimizer", 2}, {"total", total}}},
              {"bytes", {{"unshard", 6000}, {"reduce", 4000}, {"optimizer", 0}}},
              {"peak_bytes", 5000000}}
             .dump() +
         "\n";
}

std::string header(int at, int ranks, const std::string& model = "gpt2:d2") {
  return json{{"step", at},
              {"run",
               {{"version", "9.9"},
                {"world_size", ranks},
                {"shard_size", ranks},
                {"backend", "segments by <MPI>"},
                {"parameters", 123456},
                {"planner", "balanced"},
                {"configuration",
                 {{"model", {{"name", model}}}, {"strategy", "matrix-fsdp"}, {"steps", 7}, {"lr", 0.01 * ranks}}},
                {"units", {"root", "block.0"}},
                {"owners",
                 {{{"matrix", "block.0.<up>"}, {"unit", 1}, {"rank", 0}, {"elements", 4000}},
                  {{"matrix", "block.0.down"}, {"unit", 1}, {"rank", ranks - 1}, {"elements", 1000}}}},
                {"ranks",
                 {{{"owned_bytes", 3000000}, {"window_bytes", 1000000}},
                  {{"owned_bytes", 2000000}, {"window_bytes", 1000000}}}}}}}
             .dump() +
         "\n";
}

// Scales are those of the figures: 4 steps over 468 units of width, losses from 4 down to 2 over 212 of height.
TEST(FollowingReport, lines_go_where_the_figures_are) {
  const std::string page = page_of("lines", {header(0, 2) + step(1, 4) + step(2, 3) + step(3, 2.5) + step(5, 2) +
                                             "{\"step\":3,\"validation_loss\":3.5}\n{\"step\":5,\"something\":[1]}\n"});
  EXPECT_TRUE(has(page, "d=\"M58.0 10.0L175.0 116.0L292.0 169.0L526.0 222.0\" class=\"line line-0\""));
  EXPECT_TRUE(has(page, ">validation<"));
  EXPECT_TRUE(has(page, "<circle cx=\"292.0\" cy=\"63.0\"")) << "one validation is a dot";
  for (const char* word : {"Run run0.jsonl", ">5 of 7<", ">2.0000<", ">3.5000<", ">2000<", ">gpt2:d2<", ">123.5k<",
                           "Learning rate", "Gradient norm", "Who owns which matrix", "MatrixFSDP 9.9; segments by "})
    EXPECT_TRUE(has(page, word)) << word;
  EXPECT_FALSE(has(page, "Health")) << "nothing was measured";
  // Who owns what, and what nobody may inject.
  EXPECT_TRUE(has(page, "block.0: rank 0, 1 matrix of 4000 elements"));
  EXPECT_TRUE(has(page, "block.0: rank 1, 1 matrix of 1000 elements"));
  EXPECT_TRUE(has(page, "<td>block.0.&lt;up&gt;</td><td>0</td><td>4000</td>"));
  // Bars: 3, 4 and 2 ms of 9 in 334; 6 and 4 kB of 10.
  for (const char* bar : {"width=\"111.33\"", "width=\"148.44\"", "width=\"74.22\"", "width=\"200.40\"",
                          "width=\"133.60\"", ">9 ms<", ">10 kB<"})
    EXPECT_TRUE(has(page, bar)) << bar;
  // Memory: predicted, 3 + 1 and 2 + 1 MB.
  EXPECT_TRUE(has(page, "predicted by the plan"));
  for (const char* bar : {"width=\"250.50\"", "width=\"83.50\"", "width=\"167.00\"", ">4 MB<", ">3 MB<"})
    EXPECT_TRUE(has(page, bar)) << bar;
}

TEST(FollowingReport, runs_are_laid_over_each_other) {
  const std::string memory =
      "{\"step\":2,\"memory\":{\"owned_bytes\":[1000000,2000000],\"window_bytes\":[500000,500000],"
      "\"resident_bytes\":[2000000,4000000]}}\n";
  const std::string page = page_of(
      "runs", {header(0, 2) + step(1, 4) + step(2, 3), header(0, 4, "llama:<1b>") + step(1, 5) + step(2, 2) + memory});
  EXPECT_TRUE(has(page, "<h1>2 runs</h1>"));
  // Both on one scale, from 5 down to 2.
  EXPECT_TRUE(has(page, "d=\"M58.0 80.7L526.0 151.3\" class=\"line line-0\"><title>run0.jsonl, train"));
  EXPECT_TRUE(has(page, "d=\"M58.0 10.0L526.0 222.0\" class=\"line line-1\"><title>run1.jsonl, train"));
  EXPECT_TRUE(has(page, "run1.jsonl: counted at the end"));
  EXPECT_TRUE(has(page, "run0.jsonl: predicted by the plan"));
  EXPECT_TRUE(has(page, "rank 1: activations, scratch 1.5 MB")) << "resident 4, of which 2.5 are told";
  EXPECT_TRUE(has(page, "Options in which the runs differ"));
  EXPECT_TRUE(has(page, "<td>lr</td><td>0.02</td><td>0.04</td>"));
  EXPECT_FALSE(has(page, "<td>strategy</td>")) << "it is the same";
  EXPECT_TRUE(has(page, "llama:&lt;1b&gt;"));
}

TEST(FollowingReport, what_is_stepped_in_backward_is_counted_once) {
  std::string inside = header(0, 2);
  inside.replace(inside.find("\"steps\":7"), 9, "\"step_in_backward\":true");
  const std::string page = page_of("inside", {inside + step(1, 4)});
  EXPECT_TRUE(has(page, "optimizer 2 ms"));
  EXPECT_TRUE(has(page, "backward 2 ms")) << "of 4, of which 2 are the optimizer's";
  EXPECT_TRUE(has(page, ">7 ms<"));
}

TEST(FollowingReport, files_of_one_name_are_told_apart) {
  const std::string folder = fresh_folder("report-names");
  for (const char* run : {"a", "b"}) {
    std::filesystem::create_directories(folder + "/" + run);
    write_file(folder + "/" + run + "/metrics.jsonl", step(1, 4) + step(2, 3));
  }
  const std::string output = folder + "/page.html";
  ASSERT_EQ(report({folder + "/a/metrics.jsonl", folder + "/b/metrics.jsonl", "-o", output}).exit_code, 0);
  const std::string page = read_file(output);
  EXPECT_TRUE(has(page, ">a/metrics.jsonl<"));
  EXPECT_TRUE(has(page, ">b/metrics.jsonl<"));
  EXPECT_TRUE(has(page, "no line about the run itself")) << "a file from before there was one";
}

TEST(FollowingReport, a_resumed_run_is_shown_as_it_went_at_last) {
  // Killed after step 4, resumed from step 2 on; then the end was taken again, without a header.
  const std::string page =
      page_of("resumed", {header(0, 2) + step(1, 4) + step(2, 3) + step(3, 9) + step(4, 9) + header(2, 3) + step(3, 3) +
                          step(4, 8) + step(5, 8) + step(4, 2) + step(5, 2)});
  EXPECT_TRUE(has(page, "d=\"M58.0 10.0L175.0 116.0L292.0 116.0L409.0 222.0L526.0 222.0\" class=\"line line-0\""));
  EXPECT_TRUE(has(page, "was resumed 1 time;"));
  EXPECT_TRUE(has(page, "3 ranks that share the model")) << "the last header counts";
}

TEST(FollowingReport, a_run_that_is_going_is_a_note) {
  const std::string whole = header(0, 2) + step(1, 4) + step(2, 3);
  for (const std::string& part : {std::string("{\"step\":3,\"lo"), std::string("{"), step(3, 2).substr(0, 100)}) {
    const std::string folder = fresh_folder("report-going");
    write_file(folder + "/run", whole + part);
    const auto result = report({folder + "/run", "-o", folder + "/page.html"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
    EXPECT_NE(result.err.find("the last line has no end"), std::string::npos) << result.err;
    const std::string page = read_file(folder + "/page.html");
    EXPECT_TRUE(has(page, ">2 of 7<"));
    EXPECT_TRUE(has(page, "still going"));
  }
  std::string without_end = whole + step(3, 2);
  without_end.pop_back();
  EXPECT_TRUE(has(page_of("complete", {without_end}), ">3 of 7<")) << "a whole line counts without its end";
}

TEST(FollowingReport, steps_without_a_loss_are_gaps) {
  std::string skipped = step(2, 0);
  skipped.replace(skipped.find("\"loss\":0.0"), 10, "\"loss\":null");
  skipped.replace(skipped.find("\"skipped\":false"), 15, "\"skipped\":true");
  const std::string page = page_of("gap", {step(1, 4) + skipped + step(3, 3) + step(4, 2)});
  EXPECT_TRUE(has(page, "d=\"M58.0 10.0M370.0 116.0L526.0 222.0\" class=\"line line-0\""));
  EXPECT_TRUE(has(page, "1 step skipped"));
}

TEST(FollowingReport, long_runs_keep_their_peaks_and_small_pages) {
  std::string lines;
  constexpr int steps = 30000;
  for (int i = 1; i <= steps; ++i)
    lines += json{{"step", i}, {"loss", i == 12345 ? 50 : 3 + (i % 2)}}.dump() + "\n";
  const std::string page = page_of("long", {lines});
  EXPECT_LT(page.size(), 40000U);
  EXPECT_EQ(count_of(page, " 10.0L"), 1) << "one peak, at the top";
}

// Of each place of a long run the smallest and the largest are drawn, and its gap: it does not hide them.
TEST(FollowingReport, gaps_of_long_runs_hide_no_point) {
  std::string lines;
  constexpr int steps = 3000;
  for (int i = 1; i <= steps; ++i)
    lines += json{{"step", i}, {"loss", i % 5 == 0 ? json() : json(i == 1234 ? 50 : 3)}}.dump() + "\n";
  const std::string page = page_of("long-gaps", {lines});
  EXPECT_GT(count_of(page, " 222.0M"), 300) << "from gap to gap";
  EXPECT_EQ(count_of(page, " 10.0L") + count_of(page, " 10.0M"), 1) << "one peak, at the top";
}

// Its first part has ended: what was counted then says nothing of the steps since.
TEST(FollowingReport, memory_is_that_of_the_last_part) {
  const std::string memory =
      "{\"step\":2,\"memory\":{\"owned_bytes\":[7],\"window_bytes\":[7],\"resident_bytes\":[7]}}\n";
  const std::string page = page_of("parts", {header(0, 2) + step(1, 4) + memory + header(1, 2) + step(2, 3)});
  EXPECT_TRUE(has(page, "predicted by the plan"));
  EXPECT_FALSE(has(page, "counted at the end"));
}

TEST(FollowingReport, a_planner_without_a_name_and_a_long_label_are_shown) {
  std::string odd = header(0, 2);
  odd.replace(odd.find("\"balanced\""), 10, std::string("7"));
  const std::string folder = fresh_folder("report-odd");
  const std::string run = folder + "/läufe-mit-vielen-üüüüüüüüüü";
  write_file(run, odd + step(1, 4));
  ASSERT_EQ(report({run, "-o", folder + "/page.html"}).exit_code, 0);
  const std::string page = read_file(folder + "/page.html");
  EXPECT_TRUE(has(page, "planner 7"));
  EXPECT_TRUE(has(page, ">...üüüüüüüü<")) << "no letter is cut in two";
}

TEST(FollowingReport, health_is_shown_where_it_was_measured) {
  const auto matrix = [](const std::string& name, double scale) {
    const auto figures = [scale](double norm) {
      return json{{"norm", norm * scale}, {"largest", scale}, {"smallest", 0.1 * scale}, {"non_finite", 0}};
    };
    json one{{"matrix", name}, {"rank", 1}, {"gradient", figures(2)}, {"weight", figures(30)}, {"update", figures(4)}};
    one["update"]["residual"] = 0.125;
    return one;
  };
  json first{{"step", 1}, {"health", {matrix("a.up", 1), matrix("a.<down>", 2), matrix("b.up", 4)}}};
  json second{{"step", 2}, {"health", {matrix("a.up", 2), matrix("a.<down>", 4), matrix("b.up", 8)}}};
  second["health"][0]["part"] = "query";
  second["health"][2]["update"] = json();
  const std::string page = page_of(
      "health",
      {step(1, 4) + first.dump() + "\n" + step(2, 3) + second.dump() + "\n" +
       "{\"step\":2,\"failed\":[{\"parameter\":\"b.up\",\"rank\":1,\"quantity\":\"gradient\",\"count\":12}]}\n"});
  for (const char* word :
       {"Health of the matrices", "Gradient: Frobenius norm", "largest of all matrices", "median", "a.up, query",
        "a.&lt;down&gt;", "<td>4</td><td>2</td><td>0.2</td><td>60</td>", "<td>0.125</td>", "Steps that failed",
        "<td>run0.jsonl</td><td>2</td><td>b.up</td><td>1</td><td>gradient</td><td>12</td>"})
    EXPECT_TRUE(has(page, word)) << word;
  // Gradient norms from 0 to 16: the largest 8 and 16, the median 4 and 8.
  EXPECT_TRUE(has(page, "d=\"M58.0 116.0L526.0 10.0\" class=\"line line-0\""));
  EXPECT_TRUE(has(page, "d=\"M58.0 169.0L526.0 116.0\" class=\"line line-0 dashed\""));
}

TEST(FollowingReport, bad_input_is_one_line_with_file_and_line_and_no_page) {
  const std::string folder = fresh_folder("report-bad");
  const std::string page = folder + "/page.html";
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"", {"run.jsonl': 0 lines without a step"}},
           {"{\"step\":1}\n", {"1 lines without a step"}},
           {"{\"a\":1}\nnot JSON\n", {"run.jsonl', line 2", "'not JSON'", "no JSON object"}},
           {step(1, 4) + "[1]\n", {"line 2", "no JSON object"}},
           {step(1, 4) + "{\"step\":2,\"lo\n" + step(3, 4), {"line 2", "no JSON object"}},
           {"{\"step\":1,\"loss\":\"low\"}\n", {"line 1", "'loss' is \"low\"", "a number"}},
           {"{\"loss\":1}\n", {"line 1", "'step'", "integer"}},
           {"{\"step\":1,\"loss\":1,\"bytes\":[]}\n", {"line 1", "'bytes' is []", "object"}},
           {"{\"step\":1,\"run\":7}\n", {"line 1", "'run' is 7", "object"}},
           {"{\"step\":1,\"health\":7}\n", {"line 1", "'health'", "array"}}}) {
    write_file(folder + "/run.jsonl", text);
    const auto result = report({folder + "/run.jsonl", "-o", page});
    testing::expect_refused(result, said);
    EXPECT_FALSE(std::filesystem::exists(page));
  }
  write_file(folder + "/run.jsonl", step(1, 4));
  const std::string run = folder + "/run.jsonl";
  for (const auto& [arguments, said] : std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>{
           {{"-o", page}, {"RUN ''"}},
           {{run}, {"-o ''", "FILE.html"}},
           {{run, "-o", run}, {"-o", "is one of the runs"}},
           {{run, "-o", folder + "/../report-bad/run.jsonl"}, {"one of the runs"}},
           {{folder + "/nowhere", "-o", page}, {"nowhere': cannot be read"}},
           {{folder, "-o", page}, {"cannot be read"}},
           {{run, "-o", folder + "/none/page.html"}, {"none/page.html"}},
           {{run, "--page", page}, {"--page"}}}) {
    const auto result = report(arguments);
    testing::expect_refused(result, said);
  }
  EXPECT_EQ(read_file(run), step(1, 4)) << "a run is never replaced";
}

// What the trainer writes, not what this test believes it writes.
TEST(FollowingReport, a_real_run_is_a_whole_page) {
  const std::string folder = fresh_folder("report-run");
  write_file(folder + "/text", testing::sample_text(20000));
  for (const std::string ranks : {"2", "3"}) {
    const auto result = testing::run_train(std::stoi(ranks), {"--data",          folder + "/text",
                                                              "--layers",        "2",
                                                              "--hidden",        "32",
                                                              "--heads",         "2",
                                                              "--seq-len",       "16",
                                                              "--batch-size",    "6",
                                                              "--steps",         "4",
                                                              "--eval-every",    "2",
                                                              "--sample-tokens", "0",
                                                              "--metrics",       folder + "/" + ranks + ".jsonl"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  ASSERT_EQ(report({folder + "/2.jsonl", folder + "/3.jsonl", "-o", folder + "/page.html"}).exit_code, 0);
  const std::string page = read_file(folder + "/page.html");
  EXPECT_EQ(testing::first_bad_tag(page), "");
  for (const char* word : {">4 of 4<", "2.jsonl, train", "3.jsonl, validation", "Time of a step by phase", "unshard",
                           "optimizer", "2.jsonl: counted at the end", "3.jsonl: counted at the end", ">rank 2<",
                           "block.1.mlp.down", "2.jsonl: planner balanced, 2 ranks"})
    EXPECT_TRUE(has(page, word)) << word;
  EXPECT_FALSE(has(page, "Options in which")) << "ranks are no option";
  EXPECT_EQ(count_of(page, "<td>block."), 2 * 2 * 4) << "matrices of two blocks in two runs";
}

}  // namespace
}  // namespace matrixfsdp
