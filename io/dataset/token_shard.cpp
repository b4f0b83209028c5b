#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/dataset/token_shard.hpp>

#include "io/dataset/shard_format.hpp"

namespace matrixfsdp::io {
namespace {

const ShardFormat& format_of(TokenFormat format) {
  for (const ShardFormat& candidate : shard_formats) {
    if (candidate.format == format) return candidate;
  }
  throw ContractError(fmt::format("token format {}: expected one of a shard", name_of(format)));
}

void append_little_endian(std::vector<std::uint8_t>& bytes, std::uint32_t value, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i)
    bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

}  // namespace

std::int64_t largest_token(TokenFormat format) {
  return format_of(format).width == 2 ? 0xffff : 0x7fffffff;
}

struct TokenShardWriter::Implementation {
  std::string path;
  const ShardFormat& format;
  std::FILE* file = nullptr;
  std::int64_t size = 0;
  bool published = false;

  void write(const std::vector<std::uint8_t>& bytes) const {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) fail();
  }
  [[noreturn]] void fail() const {
    throw IoError(fmt::format("token shard '{}': cannot be written: {}", path, std::strerror(errno)));
  }
};

TokenShardWriter::TokenShardWriter(const std::string& path, TokenFormat format)
    : implementation_(new Implementation{path, format_of(format)}) {
  if (!path.ends_with(".bin"))
    throw InputError(fmt::format("token shard '{}': expected a name in .bin, by which shards are known", path));
  implementation_->file = std::fopen(path.c_str(), "wxe");
  if (implementation_->file == nullptr) {
    throw InputError(errno == EEXIST
                         ? fmt::format("token shard '{}': is there already; expected the name of a new file", path)
                         : fmt::format("token shard '{}': cannot be created: {}", path, std::strerror(errno)));
  }
  try {
    implementation_->write(std::vector<std::uint8_t>(shard_header_bytes, 0));
  } catch (...) {
    std::fclose(implementation_->file);
    ::unlink(path.c_str());
    throw;
  }
}

TokenShardWriter::~TokenShardWriter() {
  if (implementation_->file != nullptr) std::fclose(implementation_->file);
  if (!implementation_->published) ::unlink(implementation_->path.c_str());
}

std::int64_t TokenShardWriter::size() const {
  return implementation_->size;
}

void TokenShardWriter::write(std::span<const std::int32_t> tokens) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count > most_shard_tokens - implementation_->size) {
    throw InputError(fmt::format("token shard '{}': more than {} tokens, which its header cannot count; expected less",
                                 implementation_->path, most_shard_tokens));
  }
  const std::int64_t largest = largest_token(implementation_->format.format);
  std::vector<std::uint8_t> bytes;
  bytes.reserve(tokens.size() * static_cast<std::size_t>(implementation_->format.width));
  for (const std::int32_t token : tokens) {
    if (token < 0 || token > largest)
      throw ContractError(fmt::format("token {}: expected an id from 0 to {}", token, largest));
    append_little_endian(bytes, static_cast<std::uint32_t>(token), implementation_->format.width);
  }
  implementation_->write(bytes);
  implementation_->size += count;
}

void TokenShardWriter::publish() {
  Implementation& shard = *implementation_;
  require(shard.size > 0, "token shard: expected at least one token");
  std::vector<std::uint8_t> header;
  for (const std::uint32_t word : {shard.format.magic, shard.format.version, static_cast<std::uint32_t>(shard.size)})
    append_little_endian(header, word, 4);
  // Tokens first, so that no header tells of what is not on disk.
  if (std::fflush(shard.file) != 0 || ::fsync(::fileno(shard.file)) != 0) shard.fail();
  if (std::fseek(shard.file, 0, SEEK_SET) != 0) shard.fail();
  shard.write(header);
  if (std::fflush(shard.file) != 0 || ::fsync(::fileno(shard.file)) != 0) shard.fail();
  std::FILE* const file = shard.file;
  shard.file = nullptr;
  if (std::fclose(file) != 0) shard.fail();
  shard.published = true;
}

}  // namespace matrixfsdp::io
