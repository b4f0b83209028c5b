#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/plan.hpp>

namespace matrixfsdp {

int Plan::owner(std::size_t unit, std::size_t parameter) const {
  if (unit >= units.size()) throw ContractError(fmt::format("owner in unit {} of {}", unit, units.size()));
  if (replicated)
    throw ContractError("owner in a replicated plan: expected a sharded one, every rank holds everything");
  if (row_shards)
    throw ContractError("owner in a plan of row shards: expected whole matrices, every rank has some rows");
  const MatrixShard& weights = units[unit].weights;
  for (const Segment& segment : weights.segments) {
    if (segment.parameter != parameter) continue;
    const Interval owned = weights.owned[static_cast<std::size_t>(segment.rank)];
    if (segment.offset >= owned.begin && segment.offset < owned.end) return segment.rank;
  }
  throw ContractError(
      fmt::format("owner of parameter {} in unit {}: expected a matrix, tails have no owner", parameter, unit));
}

Interval fold_chunk(std::int64_t size, int rank, int world_size) {
  if (size < 0 || world_size < 1 || rank < 0 || rank >= world_size) {
    throw ContractError(
        fmt::format("fold_chunk of {} elements for rank {} of {}: expected 0 <= rank < W", size, rank, world_size));
  }
  // size * rank / W without the product, which need not fit 64 bits.
  const std::int64_t whole = size / world_size;
  const std::int64_t rest = size % world_size;
  const auto begin = [&](std::int64_t r) { return whole * r + rest * r / world_size; };
  return {begin(rank), begin(std::int64_t{rank} + 1)};
}

}  // namespace matrixfsdp
