#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/program.hpp"

/// mfsdp-ckpt as a user runs it.
namespace matrixfsdp::testing {

inline ProgramResult ckpt(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MATRIXFSDP_CKPT);
  return run_program(arguments);
}

/// With --json: what it prints, having ended with `code`.
inline nlohmann::json ckpt_json(std::vector<std::string> arguments, int code) {
  arguments.emplace_back("--json");
  const ProgramResult result = ckpt(arguments);
  EXPECT_EQ(result.exit_code, code) << result.out << result.err;
  return nlohmann::json::parse(result.out, nullptr, false);
}

/// The most bytes that were resident in a process of the program, which must end with 0.
inline std::int64_t ckpt_peak_bytes(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MATRIXFSDP_CKPT);
  std::vector<char*> words;
  for (std::string& word : arguments)
    words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  int status = -1;
  rusage use{};  // of the child and of those that it has waited for
  EXPECT_EQ(::wait4(child, &status, 0, &use), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return std::int64_t{1024} * use.ru_maxrss;
}

}  // namespace matrixfsdp::testing
