#pragma once

#include <array>
#include <cstdint>

#include <matrixfsdp/comm/segments.hpp>

#include "comm/mpi/exchange.hpp"

namespace matrixfsdp::mpi {

/// Pace of gather. In shared memory with more ranks than cores fewer under way leave ranks without work when they get
/// the core (64 MiB, 4 ranks on 2 cores: 1, 2, 4 blocks of 128 KiB under way take 98, 73, 45 ms).
inline constexpr Pace segment_pace{4 * exchange_block, exchange_window};

/// Where an element of the buffer stands in the shard of the rank whose intervals are `mine`.
inline std::int64_t shard_position(const std::array<Interval, 2>& mine, std::int64_t element) {
  const bool first = element >= mine[0].begin && element < mine[0].end;
  return first ? element - mine[0].begin : mine[0].size() + element - mine[1].begin;
}

template <class T>
std::int64_t bytes_of(const Interval& interval) {
  return static_cast<std::int64_t>(sizeof(T)) * interval.size();
}

}  // namespace matrixfsdp::mpi
