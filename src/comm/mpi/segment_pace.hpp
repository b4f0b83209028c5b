#pragma once

#include <cstdint>

#include <matrixfsdp/comm/segments.hpp>

#include "comm/mpi/exchange.hpp"

namespace matrixfsdp::mpi {

/// Blocks of 128 KiB: on a slow network, longer ones and more under way make ranks wait for each other's whole
/// messages; in shared memory they fit into the cache.
inline constexpr Pace segment_pace{4 * exchange_block, 2};

inline std::int64_t bytes_of(const Interval& interval) { return 4 * interval.size(); }

}  // namespace matrixfsdp::mpi
