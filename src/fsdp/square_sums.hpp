#pragma once

#include <vector>

#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp {

/// Sums of squares of norm_block elements each, in double, in a fixed order; of the rest in the last one.
std::vector<double> block_square_sums(const TensorView<float>& values);

}  // namespace matrixfsdp
