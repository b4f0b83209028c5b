#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <matrixfsdp/dataset/token_data.hpp>

#include "io/dataset/mapped_file.hpp"

namespace matrixfsdp::io {

/// One file as tokens.
class TokenFile {
 public:
  /// By name: `.bin` is a token shard, anything else is text. Throws InputError (see TokenData).
  explicit TokenFile(const std::string& path);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] TokenFormat format() const { return format_; }
  [[nodiscard]] std::int64_t size() const;
  /// Tokens [begin, begin + tokens.size()), which must be inside the file.
  void read(std::int64_t begin, std::span<std::int32_t> tokens) const;

 private:
  MappedFile file_;
  TokenFormat format_ = TokenFormat::text;
  std::span<const std::uint8_t> payload_;
  std::int64_t width_ = 1;  // bytes per token
};

/// Files in the given order; a folder stands for its regular files, sorted by name. Throws InputError for a folder
/// without any.
std::vector<std::string> expand_folders(const std::vector<std::string>& paths);

}  // namespace matrixfsdp::io
