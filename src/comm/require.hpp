#pragma once

#include <cstdint>

#include <matrixfsdp/comm/segments.hpp>

namespace matrixfsdp {

/// ContractError unless the ranks of `unshard` are some of the communicator's, this rank is one of them, and they are
/// all where the library's own collective is asked for.
void require_group(const Unshard& unshard, const Communicator& communicator, const OperationLabel& label);

/// ContractError unless the shard groups of `reduce` have `world_size` ranks together.
void require_groups(const Reduce& reduce, int world_size, const OperationLabel& label);

/// ContractError unless the step of `reduce` has `pass`, where the number of micro-batches before it counts.
void require_pass(const Reduce& reduce, const Pass& pass, const OperationLabel& label);

/// ContractError unless `what` has `expected` elements.
void require_elements(const char* what, std::int64_t count, std::int64_t expected, const OperationLabel& label);

/// ContractError where `shard` and `buffer` overlap.
void require_apart(const TensorView<const float>& shard, const TensorView<float>& buffer, const OperationLabel& label);

}  // namespace matrixfsdp
