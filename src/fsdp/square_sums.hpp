#pragma once

#include <vector>

#include <matrixfsdp/parameter/parameter_view.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp {

/// Sums of squares of norm_block elements each, in double, in a fixed order; of the rest in the last one.
std::vector<double> block_square_sums(const TensorView<float>& values);

/// Of the view's gradient: one fold for a whole parameter, all blocks of a part.
void append_square_sums(const ParameterView& view, std::vector<double>& sums);

}  // namespace matrixfsdp
