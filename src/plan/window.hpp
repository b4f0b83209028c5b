#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/plan/report.hpp>

namespace matrixfsdp::detail {

/// Bytes that the runtime keeps on each rank besides its shards. With n units that are not kept, w_u and g_u the
/// elements of unit u's weights and gradients, h_u those of sums that a reduce keeps on the rank (running_sum_elements),
/// and r_u the bytes of its staging (staging_of):
///
///   4 [ min(prefetch + 1, n) max w_u (not kept)  +  sum w_u (kept)          unsharded weights; where W = 1 or the plan
///                                                                           is replicated, only units with bfloat16
///                                                                           weights: others are resident, as all are
///                                                                           with resident weights
///     + max g_u (not kept)  +  sum g_u (kept)                               gradient buffers; sum g_u over all units
///                                                                           with unsharded accumulation
///     + sum h_u (kept between passes)  or  max h_u ]                        running sums
///   + max r_u                                                               staging of the reduce
///
/// With row shards what travels is copied out and in. Then 1 takes the place of prefetch + 1 above, and there are
/// 4 [ max(prefetch, 1) max w_u + max(reduces in flight, 1) max g_u ] more, over all units.
///
/// ShardedModel allocates exactly this.
std::vector<std::int64_t> window_bytes(const ModelSpec& model, const Plan& plan, const MemoryOptions& options);

}  // namespace matrixfsdp::detail
