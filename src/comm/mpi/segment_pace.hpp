#pragma once

#include <cstdint>

#include <matrixfsdp/comm/segments.hpp>

#include "comm/mpi/exchange.hpp"

namespace matrixfsdp::mpi {

/// Pace of gather and scatter_chunks. On a slow network longer blocks, or many under way, make ranks wait for each
/// other's whole messages; in shared memory with more ranks than cores fewer under way leave ranks without work when
/// they get the core (64 MiB, 4 ranks on 2 cores: 1, 2, 4 blocks under way take 98, 73, 45 ms).
inline constexpr Pace segment_pace{4 * exchange_block, 4};

inline std::int64_t bytes_of(const Interval& interval) {
  return 4 * interval.size();
}

}  // namespace matrixfsdp::mpi
