#pragma once

#include <matrixfsdp/plan/model_spec.hpp>

namespace matrixfsdp::detail {

/// Throws InputError unless the blocks of a matrix parameter have as many names as sizes, positive sizes that sum to
/// the extent of their axis, and an axis of 0 or 1. No blocks: nothing to check.
void check_blocks(const ParameterSpec& parameter);

}  // namespace matrixfsdp::detail
