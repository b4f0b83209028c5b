#pragma once

#include <cstdint>

#include <matrixfsdp/comm/request.hpp>
#include <matrixfsdp/plan/segment_table.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp {

/// ContractError unless `table` has `world_size` ranks.
void require_ranks(const SegmentTable& table, int world_size, const OperationLabel& label);

/// ContractError unless `what` has `expected` elements.
void require_elements(const char* what, std::int64_t count, std::int64_t expected, const OperationLabel& label);

/// ContractError where `shard` and `buffer` overlap.
void require_apart(const TensorView<const float>& shard, const TensorView<float>& buffer, const OperationLabel& label);

}  // namespace matrixfsdp
