#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/dataset/token_data.hpp>

#include "io/dataset/token_file.hpp"

namespace matrixfsdp::io {

std::string_view name_of(TokenFormat format) {
  switch (format) {
    case TokenFormat::text:
      return "text";
    case TokenFormat::shard_uint16:
      return "llm.c uint16 shard";
    case TokenFormat::shard_uint32:
      return "llm.c uint32 shard";
  }
  throw ContractError(fmt::format("token format {}: expected text or a shard", static_cast<int>(format)));
}

struct TokenData::Implementation {
  std::vector<TokenFile> files;
  std::vector<std::int64_t> begins;  ///< first token of each file; the size of everything last

  [[nodiscard]] std::size_t file_of(std::int64_t position) const {
    return static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), position) - begins.begin()) - 1;
  }
};

TokenData::TokenData(const std::vector<std::string>& paths) : implementation_(std::make_unique<Implementation>()) {
  auto& files = implementation_->files;
  auto& begins = implementation_->begins;
  if (paths.empty()) throw InputError("data: no files; expected at least one");
  begins.push_back(0);
  for (const std::string& path : expand_folders(paths)) {
    files.emplace_back(path);
    if (files.back().format() != files.front().format()) {
      throw InputError(fmt::format("data file '{}' is {}, '{}' is {}: expected one format for all files", path,
                                   name_of(files.back().format()), files.front().path(),
                                   name_of(files.front().format())));
    }
    begins.push_back(begins.back() + files.back().size());
  }
}

TokenData::~TokenData() = default;
TokenData::TokenData(TokenData&&) noexcept = default;
TokenData& TokenData::operator=(TokenData&&) noexcept = default;

std::int64_t TokenData::size() const {
  return implementation_->begins.back();
}

TokenFormat TokenData::format() const {
  return implementation_->files.front().format();
}

void TokenData::read(std::int64_t begin, std::span<std::int32_t> tokens) const {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (begin < 0 || begin > size() - count) {
    throw ContractError(fmt::format("tokens [{}, {}): the data have {}", begin, begin + count, size()));
  }
  std::int64_t done = 0;
  while (done < count) {
    const std::size_t file = implementation_->file_of(begin + done);
    const std::int64_t here = std::min(count - done, implementation_->begins[file + 1] - (begin + done));
    implementation_->files[file].read(begin + done - implementation_->begins[file],
                                      tokens.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(here)));
    done += here;
  }
}

std::string TokenData::locate(std::int64_t position) const {
  if (position < 0 || position >= size()) {
    throw ContractError(fmt::format("token {}: the data have {}", position, size()));
  }
  const std::size_t file = implementation_->file_of(position);
  return fmt::format("data file '{}', token {}", implementation_->files[file].path(),
                     position - implementation_->begins[file]);
}

TokenRange TokenData::all() const {
  return {*this, {0, size()}};
}

}  // namespace matrixfsdp::io
