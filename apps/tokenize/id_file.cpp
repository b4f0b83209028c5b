#include "apps/tokenize/id_file.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::tokenize {
namespace {

constexpr std::string_view blanks = " \t\r\v\f";

std::int32_t parse_id(std::string_view word, std::int64_t largest, const std::string& path, std::int64_t line) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0 || value > largest) {
    throw InputError(fmt::format("file '{}', line {}: '{}': expected a token id from 0 to {}{}", path, line,
                                 word.substr(0, 40), largest,
                                 largest == 0xffff ? " (--uint32 takes larger ones)" : ""));
  }
  return static_cast<std::int32_t>(value);
}

}  // namespace

void read_ids(const std::string& path, std::int64_t largest,
              const std::function<void(std::span<const std::int32_t> ids)>& take) {
  std::error_code ignored;
  // Before it is opened, which for a pipe waits for a writer.
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    throw InputError(
        fmt::format("file '{}': is not a regular file; expected a text file of token ids, which is read twice", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("file '{}': cannot be read; expected a text file of token ids", path));
  constexpr std::size_t block = 64 * 1024;
  std::vector<std::int32_t> ids;
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::string_view left = line;
    for (std::size_t at = 0; (at = left.find_first_not_of(blanks)) != std::string_view::npos;) {
      left.remove_prefix(at);
      const std::string_view word = left.substr(0, left.find_first_of(blanks));
      ids.push_back(parse_id(word, largest, path, number));
      left.remove_prefix(word.size());
    }
    if (ids.size() < block) continue;
    take(ids);
    ids.clear();
  }
  if (file.bad()) throw InputError(fmt::format("file '{}', line {}: cannot be read on", path, number + 1));
  take(ids);
}

}  // namespace matrixfsdp::tokenize
