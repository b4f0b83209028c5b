#include "plan/layout.hpp"

#include <algorithm>

#include <matrixfsdp/plan/row_shards.hpp>

namespace matrixfsdp::detail {
namespace {

/// Builds one buffer front to back.
class ShardBuilder {
 public:
  ShardBuilder(const UnitSpec& unit, int world_size, bool gradients) : unit_(unit), gradients_(gradients) {
    shard_.parameter_offsets.assign(unit.parameters.size(), -1);
    shard_.owned.resize(static_cast<std::size_t>(world_size));
    shard_.tails.resize(static_cast<std::size_t>(world_size));
  }

  [[nodiscard]] bool holds(std::size_t parameter) const { return !gradients_ || !unit_.parameters[parameter].frozen; }

  void append(std::size_t parameter, Interval elements, int rank) {
    if (!holds(parameter)) return;
    std::int64_t& offset = shard_.parameter_offsets[parameter];
    if (offset < 0) offset = shard_.size - elements.begin;
    shard_.segments.push_back({parameter, elements, rank, shard_.size});
    shard_.size += elements.size();
  }

  /// Intervals of the segments that were appended since the last call, rank after rank.
  void close_region(std::vector<Interval>& intervals) {
    std::int64_t end = region_;
    std::size_t next = first_segment_;
    for (std::size_t rank = 0; rank < intervals.size(); ++rank) {
      const std::int64_t begin = end;
      for (; next < shard_.segments.size() && shard_.segments[next].rank == static_cast<int>(rank); ++next)
        end += shard_.segments[next].elements.size();
      intervals[rank] = {begin, end};
    }
    region_ = end;
    first_segment_ = next;
  }

  void close_owned() { close_region(shard_.owned); }
  void close_tails() { close_region(shard_.tails); }

  MatrixShard finish() {
    // A parameter without elements has no segment; the end of the buffer is as good a place as any.
    for (std::size_t p = 0; p < unit_.parameters.size(); ++p) {
      if (holds(p) && shard_.parameter_offsets[p] < 0) shard_.parameter_offsets[p] = shard_.size;
    }
    return std::move(shard_);
  }

 private:
  const UnitSpec& unit_;
  bool gradients_;
  MatrixShard shard_;
  std::int64_t region_ = 0;
  std::size_t first_segment_ = 0;
};

double gamma_of(const MatrixShard& weights, int world_size) {
  std::int64_t most = 0;
  for (int rank = 0; rank < world_size; ++rank)
    most = std::max(most, weights.shard_size(rank));
  return weights.size > 0 ? static_cast<double>(most) * world_size / static_cast<double>(weights.size) : 1.0;
}

MatrixShard build(const UnitSpec& unit, const UnitAssignment& assignment, int world_size, bool gradients) {
  ShardBuilder builder(unit, world_size, gradients);
  for (const UnitAssignment::Owned& matrix : assignment.matrices)
    builder.append(matrix.parameter, {0, element_count(unit.parameters[matrix.parameter].shape)}, matrix.rank);
  builder.close_owned();
  for (const TailPart& part : assignment.tails)
    builder.append(part.parameter, part.elements, part.rank);
  builder.close_tails();
  return builder.finish();
}

MatrixShard build_replicated(const UnitSpec& unit, int world_size, bool gradients) {
  ShardBuilder builder(unit, world_size, gradients);
  std::int64_t size = 0;
  for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
    if (builder.holds(p)) size += element_count(unit.parameters[p].shape);
  }
  int rank = 0;
  std::int64_t start = 0;
  for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
    if (!builder.holds(p)) continue;
    const std::int64_t count = element_count(unit.parameters[p].shape);
    for (std::int64_t begin = 0; begin < count;) {
      Interval chunk = fold_chunk(size, rank, world_size);
      for (; chunk.end <= start + begin; ++rank)
        chunk = fold_chunk(size, rank + 1, world_size);
      const std::int64_t end = std::min(count, chunk.end - start);
      builder.append(p, {begin, end}, rank);
      begin = end;
    }
    start += count;
  }
  builder.close_owned();
  builder.close_tails();
  return builder.finish();
}

MatrixShard build_rows(const UnitSpec& unit, int world_size, bool gradients) {
  ShardBuilder builder(unit, world_size, gradients);
  for (int rank = 0; rank < world_size; ++rank) {
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      for (const RowBlock& block : row_blocks(unit.parameters[p])) {
        const Interval elements = row_elements(block, rank, world_size);
        if (!elements.empty()) builder.append(p, elements, rank);
      }
    }
  }
  builder.close_owned();
  builder.close_tails();
  MatrixShard shard = builder.finish();
  std::int64_t offset = 0;
  for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
    if (!builder.holds(p)) continue;
    shard.parameter_offsets[p] = offset;
    offset += element_count(unit.parameters[p].shape);
  }
  return shard;
}

}  // namespace

UnitPlan lay_out(const UnitSpec& unit, UnitAssignment assignment, int world_size) {
  std::sort(assignment.matrices.begin(), assignment.matrices.end(), [](const auto& a, const auto& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.parameter < b.parameter;
  });
  UnitPlan plan;
  plan.weights = build(unit, assignment, world_size, false);
  plan.gradients = build(unit, assignment, world_size, true);
  plan.gamma = gamma_of(plan.weights, world_size);
  return plan;
}

UnitPlan lay_out_replicated(const UnitSpec& unit, int world_size) {
  UnitPlan plan;
  plan.weights = build_replicated(unit, world_size, false);
  plan.gradients = build_replicated(unit, world_size, true);
  return plan;
}

UnitPlan lay_out_rows(const UnitSpec& unit, int world_size) {
  UnitPlan plan;
  plan.weights = build_rows(unit, world_size, false);
  plan.gradients = build_rows(unit, world_size, true);
  plan.gamma = gamma_of(plan.weights, world_size);
  return plan;
}

}  // namespace matrixfsdp::detail
