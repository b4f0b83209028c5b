#pragma once

#include <matrixfsdp/plan/report.hpp>

namespace matrixfsdp::detail {

/// Bytes of float32 that the runtime keeps on `rank` besides its shards. With n units that are not kept, w_u and g_u
/// the elements of unit u's weights and gradients, and c_u those of the rank's fold chunk of g_u:
///
///   4 [ min(prefetch + 1, n) max w_u (not kept)  +  sum w_u (kept)          unsharded weights; 0 where W = 1 or the
///                                                                           plan is replicated: weights are resident
///     + max g_u (not kept)  +  sum g_u (kept)                               gradient buffers; sum g_u over all units
///                                                                           with unsharded accumulation
///     + sum c_u (chunks kept between passes)  or  max c_u                   running sums; 0 where W = 1
///     + (W - 1) max min(2 blocks, c_u) ]                                    staging of the exchange, blocks of 32 Ki
///
/// ShardedModel allocates exactly this.
std::int64_t window_bytes(const ModelSpec& model, const Plan& plan, int rank, const MemoryOptions& options);

}  // namespace matrixfsdp::detail
