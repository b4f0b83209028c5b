#include "support/program.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <sys/wait.h>
#include <unistd.h>

#include <matrixfsdp/core/random.hpp>

namespace matrixfsdp::testing {
namespace {

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) {
    if (c == '\'') {
      result.append("'\\''");
    } else {
      result.push_back(c);
    }
  }
  result.push_back('\'');
  return result;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& command,
                          const std::map<std::string, std::string>& environment, int seconds) {
  const std::string folder = fresh_folder("output-" + std::to_string(::getpid()));
  // Kokkos with OpenMP warns on standard error where OMP_PROC_BIND is not set.
  std::string line = "env OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 OMP_PROC_BIND=false";
  for (const auto& [name, value] : environment)
    line.append(" ").append(name).append("=").append(quoted(value));
  line.append(" timeout -k 5 ").append(std::to_string(seconds));
  for (const std::string& word : command)
    line.append(" ").append(quoted(word));
  line.append(" </dev/null >").append(quoted(folder + "/out")).append(" 2>").append(quoted(folder + "/err"));
  const int status = std::system(line.c_str());
  ProgramResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_file(folder + "/out");
  result.err = read_file(folder + "/err");
  std::filesystem::remove_all(folder);
  return result;
}

ProgramResult run_train(int ranks, const std::vector<std::string>& arguments,
                        const std::map<std::string, std::string>& environment, int seconds) {
  std::vector<std::string> command = {MATRIXFSDP_MPIEXEC, "-n", std::to_string(ranks), MATRIXFSDP_TRAIN};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program(command, environment, seconds);
}

std::string fresh_folder(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(MATRIXFSDP_TEST_FOLDER) / name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::vector<nlohmann::json> read_json_lines(const std::string& path) {
  std::vector<nlohmann::json> result;
  for (const std::string& line : lines_of(read_file(path)))
    result.push_back(nlohmann::json::parse(line));
  return result;
}

std::string collective_profile(int ranks, int nodes) {
  const nlohmann::json link = {{"alpha_seconds", 1e-3},          {"message_seconds", 0},
                               {"beta_seconds_per_byte", 1e-9},  {"node_beta_seconds_per_byte", 0},
                               {"all_beta_seconds_per_byte", 0}, {"contention", 1}};
  return nlohmann::json{{"format", "matrixfsdp collective profile"},
                        {"format_version", 2},
                        {"world_size", ranks},
                        {"nodes", nodes},
                        {"inside", ranks > nodes ? link : nlohmann::json()},
                        {"between", nodes > 1 ? link : nlohmann::json()},
                        {"corrections", nlohmann::json::array()}}
      .dump();
}

std::string sample_text(std::size_t bytes) {
  const std::vector<std::string> words = {"the",   "owner", "of",   "a",        "matrix", "holds", "it",
                                          "whole", "and",   "its",  "gradient", "lands",  "there", "while",
                                          "other", "ranks", "keep", "an",       "empty",  "shard"};
  const CounterRandom random(5, stream_of("sample text"));
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) {
    // Word order has structure: a word depends on the one before, so that a model can learn more than frequencies.
    static constexpr std::uint64_t choices = 3;
    const std::uint64_t base = (i * 7) % words.size();
    text += words[(base + random.below(i, choices)) % words.size()];
    text += i % 11 == 10 ? ".\n" : " ";
  }
  text.resize(bytes);
  return text;
}

}  // namespace matrixfsdp::testing
