#pragma once

#include <cstdint>

#include <matrixfsdp/comm/segments.hpp>

namespace matrixfsdp {

/// Chunk `rank` of the even cut: [size * rank / W, size * (rank + 1) / W).
Interval even_chunk(std::int64_t size, int rank, int world_size);

/// ContractError unless `table` has an entry for each of `world_size` ranks and its intervals cut [0, size) without gap
/// or overlap.
void require_valid(const SegmentTable& table, int world_size, const OperationLabel& label);

/// ContractError unless `what` has `expected` elements.
void require_elements(const char* what, std::int64_t count, std::int64_t expected, const OperationLabel& label);

}  // namespace matrixfsdp
