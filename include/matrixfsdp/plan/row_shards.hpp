#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/core/shape.hpp>
#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/plan/plan.hpp>
#include <matrixfsdp/plan/segment_table.hpp>

/// @file
/// Even row shards, as FSDP2 cuts every parameter (torch.chunk along dimension 0): of n rows rank r has
/// [r c, (r + 1) c) with c = ceil(n / W), so that the last ranks may have fewer, or none.
namespace matrixfsdp {

/// Rows that are cut by themselves, contiguous within their parameter: the whole of it, or one of its row blocks
/// (query, key, value: a model without fused matrices has them as parameters), or one matrix of a batch.
struct RowBlock {
  std::int64_t offset = 0;  ///< first element within the parameter
  std::int64_t rows = 0;    ///< that are cut over ranks
  std::int64_t cols = 0;    ///< elements of a row

  /// Elements.
  [[nodiscard]] std::int64_t size() const { return rows * cols; }
};

/// In element order; none for a parameter without elements. A vector's elements are its rows; a scalar is one row.
std::vector<RowBlock> row_blocks(const ParameterSpec& parameter);

/// Rows of `rows` that `rank` holds. Throws ContractError unless rows >= 0 and 0 <= rank < W.
Interval row_chunk(std::int64_t rows, int rank, int world_size);

/// Elements of the parameter that `rank` holds of `block`.
Interval row_elements(const RowBlock& block, int rank, int world_size);

/// The row shards of a rows x cols matrix as a table.
SegmentTable row_table(std::int64_t rows, std::int64_t cols, int world_size);

/// Buffers in which units of row shards arrive, before they are copied out: one for each that is prefetched.
std::int64_t landing_slots(std::int64_t prefetch, std::size_t units);

/// The plan of row shards. Throws InputError for W < 1 or an invalid model.
Plan make_row_plan(const ModelSpec& model, int world_size);

}  // namespace matrixfsdp
