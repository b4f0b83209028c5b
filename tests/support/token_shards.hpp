#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace matrixfsdp::testing {

inline void append_little_endian(std::string& bytes, std::uint32_t value, int width) {
  for (int i = 0; i < width; ++i)
    bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xffU));
}

/// Bytes of an llm.c token shard.
inline std::string token_shard(const std::vector<std::uint32_t>& tokens, std::uint32_t magic = 20240520,
                               std::uint32_t version = 1, int width = 2) {
  std::string bytes;
  for (const std::uint32_t word : {magic, version, static_cast<std::uint32_t>(tokens.size())})
    append_little_endian(bytes, word, 4);
  bytes.resize(1024, '\0');
  for (const std::uint32_t token : tokens)
    append_little_endian(bytes, token, width);
  return bytes;
}

}  // namespace matrixfsdp::testing
