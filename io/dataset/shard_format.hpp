#pragma once

#include <array>
#include <cstdint>

#include <matrixfsdp/dataset/token_data.hpp>

namespace matrixfsdp::io {

/// Of an llm.c token shard: what its header says, and bytes per token. Everything in it is little-endian.
struct ShardFormat {
  TokenFormat format;
  std::uint32_t magic;
  std::uint32_t version;
  std::int64_t width;
};

inline constexpr std::array<ShardFormat, 2> shard_formats{{
    {TokenFormat::shard_uint16, 20240520, 1, 2},
    {TokenFormat::shard_uint32, 20240801, 7, 4},
}};

/// 256 words: magic, version, tokens, and zeros.
inline constexpr std::int64_t shard_header_bytes = 256 * 4;

}  // namespace matrixfsdp::io
