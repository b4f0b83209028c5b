#pragma once

#include <cstdint>

#include "apps/train/replica.hpp"

namespace matrixfsdp::train {

/// Compares this rank's segments of `replica` with the same elements of `reference` (a replicated model that was given
/// the same passes), bit for bit. Throws Error naming step, what (gradient or weight), parameter, element, and both
/// values for the first that differs.
void verify_gradients(const Replica& replica, const Replica& reference, std::int64_t step);
void verify_weights(const Replica& replica, const Replica& reference, std::int64_t step);

}  // namespace matrixfsdp::train
