#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/plan/report.hpp>

namespace matrixfsdp::detail {

/// Bytes of float32 that the runtime keeps on each rank besides its shards. With n units that are not kept, w_u and g_u
/// the elements of unit u's weights and gradients, h_u those of other ranks' gradients that the rank sums, and b_u those
/// of the longest even-numbered and odd-numbered message that it sums:
///
///   4 [ min(prefetch + 1, n) max w_u (not kept)  +  sum w_u (kept)          unsharded weights; 0 where W = 1 or the
///                                                                           plan is replicated: weights are resident
///     + max g_u (not kept)  +  sum g_u (kept)                               gradient buffers; sum g_u over all units
///                                                                           with unsharded accumulation
///     + sum h_u (kept between passes)  or  max h_u                          running sums
///     + (W - 1) max b_u ]                                                   staging of the reduce
///
/// ShardedModel allocates exactly this.
std::vector<std::int64_t> window_bytes(const ModelSpec& model, const Plan& plan, const MemoryOptions& options);

}  // namespace matrixfsdp::detail
