#pragma once

#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/program.hpp"

namespace matrixfsdp::testing {

/// Command lines that a program must refuse.
struct BadInput {
  std::string name;
  std::vector<std::string> arguments;  ///< FOLDER stands for the test's folder
  std::vector<std::string> said;       ///< what the line must name
};

/// Names the case in test lists, which show the bytes of the struct otherwise.
inline void PrintTo(const BadInput& bad, std::ostream* out) {
  *out << bad.name;
}

inline std::string name_of_case(const ::testing::TestParamInfo<BadInput>& bad) {
  return bad.param.name;
}

inline std::vector<std::string> arguments_of(const BadInput& bad, const std::string& folder) {
  std::vector<std::string> arguments;
  for (std::string word : bad.arguments) {
    if (const auto at = word.find("FOLDER"); at != std::string::npos) word.replace(at, 6, folder);
    arguments.push_back(word);
  }
  return arguments;
}

/// Exit code 2, nothing on standard output, and one line that has all of `said`.
inline void expect_refused(const ProgramResult& result, const std::vector<std::string>& said) {
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_EQ(result.out, "");
  const auto lines = lines_of(result.err);
  ASSERT_EQ(lines.size(), 1U) << result.err;
  for (const std::string& word : said)
    EXPECT_NE(lines[0].find(word), std::string::npos) << word << " in: " << lines[0];
}

}  // namespace matrixfsdp::testing
