#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/row_shards.hpp>

namespace matrixfsdp {
namespace {

/// Rows of a parameter that is not a matrix: dimension 0.
RowBlock whole_tail(const Shape& shape) {
  const std::int64_t rows = shape.empty() ? 1 : shape[0];
  return {0, rows, element_count(shape) / rows};
}

}  // namespace

std::vector<RowBlock> row_blocks(const ParameterSpec& parameter) {
  if (element_count(parameter.shape) == 0) return {};
  if (kind_of(parameter) == ParameterKind::tail) return {whole_tail(parameter.shape)};
  const MatrixExtents extents = matrix_extents(parameter.shape);
  std::vector<std::int64_t> rows{extents.rows};
  if (!parameter.blocks.empty() && parameter.blocks.axis == 0) rows = parameter.blocks.sizes;
  std::vector<RowBlock> blocks;
  std::int64_t offset = 0;
  for (std::int64_t matrix = 0; matrix < extents.batch; ++matrix) {
    for (const std::int64_t count : rows) {
      blocks.push_back({offset, count, extents.cols});
      offset += blocks.back().size();
    }
  }
  return blocks;
}

Interval row_chunk(std::int64_t rows, int rank, int world_size) {
  if (rows < 0 || world_size < 1 || rank < 0 || rank >= world_size) {
    throw ContractError(
        fmt::format("row_chunk of {} rows for rank {} of {}: expected 0 <= rank < W", rows, rank, world_size));
  }
  const std::int64_t chunk = rows / world_size + (rows % world_size > 0 ? 1 : 0);
  return {std::min(rows, rank * chunk), std::min(rows, (rank + std::int64_t{1}) * chunk)};
}

Interval row_elements(const RowBlock& block, int rank, int world_size) {
  const Interval rows = row_chunk(block.rows, rank, world_size);
  return {block.offset + rows.begin * block.cols, block.offset + rows.end * block.cols};
}

std::int64_t landing_slots(std::int64_t prefetch, std::size_t units) {
  return std::min(std::max<std::int64_t>(1, prefetch), static_cast<std::int64_t>(units));
}

}  // namespace matrixfsdp
