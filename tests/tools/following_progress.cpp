#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/program.hpp"
#include "support/terminal.hpp"

/// Live progress, on a terminal and in a log.
namespace matrixfsdp {
namespace {

using testing::fresh_folder;
using testing::run_in_terminal;
using testing::run_train;
using testing::sample_text;
using testing::write_file;

std::vector<std::string> arguments(const std::string& folder, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"--data",          folder + "/text",
                                  "--layers",        "1",
                                  "--hidden",        "16",
                                  "--heads",         "2",
                                  "--seq-len",       "16",
                                  "--steps",         "4",
                                  "--sample-tokens", "0",
                                  "--batch-size",    "4"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Without mpiexec, as one rank: mpiexec would stand between it and the terminal.
testing::TerminalResult alone(const std::string& folder, unsigned short columns,
                              const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {"env", "OPENBLAS_NUM_THREADS=1", "OMP_PROC_BIND=false", MATRIXFSDP_TRAIN};
  for (const std::string& word : arguments(folder, more))
    command.push_back(word);
  return run_in_terminal(command, columns);
}

std::string text_folder(const std::string& name) {
  std::string folder = fresh_folder(name);
  write_file(folder + "/text", sample_text(20000));
  return folder;
}

/// What was drawn over and over: from each return to the start of the line to what erases the rest of it.
std::vector<std::string> redrawn(const std::string& shown) {
  std::vector<std::string> lines;
  std::size_t end = 0;
  while ((end = shown.find("\033[K", end)) != std::string::npos) {
    const std::size_t begin = shown.rfind('\r', end);
    lines.push_back(shown.substr(begin + 1, end - begin - 1));
    ++end;
  }
  return lines;
}

TEST(FollowingProgress, a_terminal_has_one_line_that_is_redrawn) {
  const auto result = alone(text_folder("progress-terminal"), 120);
  ASSERT_EQ(result.exit_code, 0) << result.shown;
  const auto lines = redrawn(result.shown);
  ASSERT_GE(lines.size(), 2U) << result.shown;
  const std::regex form(R"(\[=* *\] step \d/4  loss \d+\.\d{4}  norm \S+  \d+ tokens/s  (\d+ (s|min|h).* left|done))");
  for (const std::string& line : lines)
    EXPECT_TRUE(std::regex_match(line, form)) << line;
  EXPECT_NE(lines.front().find("step 1/4"), std::string::npos) << lines.front();
  EXPECT_NE(lines.front().find(" left"), std::string::npos) << lines.front();
  EXPECT_EQ(lines.back().rfind("[========================] step 4/4", 0), 0U) << lines.back();
  EXPECT_NE(result.shown.find("done\033[K\r\n"), std::string::npos) << "the last one stays";
}

TEST(FollowingProgress, a_narrow_terminal_has_no_wrapped_lines) {
  for (const unsigned short columns : {70, 30}) {
    const auto result = alone(text_folder("progress-narrow"), columns);
    ASSERT_EQ(result.exit_code, 0) << result.shown;
    const auto lines = redrawn(result.shown);
    ASSERT_GE(lines.size(), 2U) << result.shown;
    for (const std::string& line : lines) {
      EXPECT_LT(line.size(), columns) << line;
      EXPECT_EQ(line.rfind("step ", 0), 0U) << "the bar goes first: " << line;
    }
  }
}

TEST(FollowingProgress, a_log_has_plain_lines_and_either_may_be_asked_for) {
  const std::string folder = text_folder("progress-log");
  const auto log = run_train(2, arguments(folder, {}));
  EXPECT_EQ(log.exit_code, 0) << log.err;
  EXPECT_NE(log.err.find("\nstep 4/4  loss "), std::string::npos) << log.err;
  EXPECT_EQ(log.err.find('\r'), std::string::npos) << log.err;
  const auto asked = run_train(2, arguments(folder, {"--progress-line", "yes"}));
  EXPECT_EQ(asked.exit_code, 0) << asked.err;
  EXPECT_NE(asked.err.find("\r[========================] step 4/4"), std::string::npos) << asked.err;
  const auto plain = alone(folder, 120, {"--progress-line", "no"});
  EXPECT_EQ(plain.exit_code, 0) << plain.shown;
  EXPECT_TRUE(redrawn(plain.shown).empty()) << plain.shown;
  EXPECT_NE(plain.shown.find("\nstep 4/4  loss "), std::string::npos) << plain.shown;
  const auto bad = run_train(1, arguments(folder, {"--progress-line", "maybe"}));
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.err.find("--progress-line 'maybe': expected one of auto, no, yes"), std::string::npos) << bad.err;
}

}  // namespace
}  // namespace matrixfsdp
