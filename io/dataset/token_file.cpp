#include "io/dataset/token_file.hpp"

#include <string_view>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "io/dataset/shard_format.hpp"

namespace matrixfsdp::io {
namespace {

constexpr std::int64_t header_bytes = shard_header_bytes;

// Byte by byte: the files are little-endian whatever the machine is.
std::uint32_t little_endian(const std::uint8_t* bytes, std::int64_t width) {
  std::uint32_t value = 0;
  for (std::int64_t i = width - 1; i >= 0; --i)
    value = (value << 8) | bytes[i];
  return value;
}

const ShardFormat& recognise(const std::string& path, std::uint32_t magic, std::uint32_t version) {
  for (const ShardFormat& candidate : shard_formats) {
    if (magic != candidate.magic) continue;
    if (version != candidate.version) {
      throw InputError(fmt::format("data file '{}': token shard of version {}; expected version {}", path, version,
                                   candidate.version));
    }
    return candidate;
  }
  throw InputError(fmt::format(
      "data file '{}': first four bytes are {}; expected the magic number {} or {} of a token shard (a name "
      "in .bin means one; rename text)",
      path, magic, shard_formats[0].magic, shard_formats[1].magic));
}

}  // namespace

TokenFile::TokenFile(const std::string& path) : file_(path), payload_(file_.bytes()) {
  if (!path.ends_with(".bin")) return;
  const auto bytes = static_cast<std::int64_t>(payload_.size());
  if (bytes < header_bytes) {
    throw InputError(fmt::format("data file '{}': {} bytes; expected at least the {} of a token shard's header", path,
                                 bytes, header_bytes));
  }
  const std::uint8_t* header = payload_.data();
  const ShardFormat& shard = recognise(path, little_endian(header, 4), little_endian(header + 4, 4));
  const std::int64_t count = little_endian(header + 8, 4);
  if (count < 1 || count > 0x7fffffff) {
    throw InputError(fmt::format("data file '{}': header says {} tokens; expected 1 to 2147483647", path, count));
  }
  const std::int64_t expected = header_bytes + count * shard.width;
  if (bytes != expected) {
    throw InputError(fmt::format("data file '{}': {} bytes; expected {} ({} header + {} tokens of {} bytes)", path,
                                 bytes, expected, header_bytes, count, shard.width));
  }
  format_ = shard.format;
  width_ = shard.width;
  payload_ = payload_.subspan(header_bytes);
}

std::int64_t TokenFile::size() const {
  return static_cast<std::int64_t>(payload_.size()) / width_;
}

void TokenFile::read(std::int64_t begin, std::span<std::int32_t> tokens) const {
  const std::uint8_t* from = payload_.data() + begin * width_;
  for (std::int32_t& token : tokens) {
    // Beyond int32 only in a broken uint32 shard; as a negative token it is outside any vocabulary.
    token = static_cast<std::int32_t>(little_endian(from, width_));
    from += width_;
  }
}

}  // namespace matrixfsdp::io
