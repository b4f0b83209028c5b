#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <matrixfsdp/plan/model_spec.hpp>

/// The first level of the library's sum of squares, element by element.
namespace matrixfsdp::testing {

/// Of `size` values: the sum of squares of each norm block, in eight lanes that are then added in order.
template <class ValueOf>
std::vector<double> block_square_sums(std::int64_t size, const ValueOf& value_of) {
  std::vector<double> sums;
  for (std::int64_t begin = 0; begin < size; begin += norm_block) {
    double lanes[8] = {};
    for (std::int64_t i = begin; i < std::min(size, begin + norm_block); ++i) {
      const double value = value_of(i);
      lanes[(i - begin) % 8] += value * value;
    }
    double sum = 0;
    for (const double lane : lanes)
      sum += lane;
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace matrixfsdp::testing
