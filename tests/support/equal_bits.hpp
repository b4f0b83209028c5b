#pragma once

#include <bit>

#include <gtest/gtest.h>

#include "support/training_loop.hpp"

namespace matrixfsdp::testing {

/// The first difference, or success. Values are compared as bits, so that NaN equals itself and -0 is not 0.
inline ::testing::AssertionResult equal_bits(const TrainingResult& a, const TrainingResult& b) {
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    if (bits(a.steps[i].loss) != bits(b.steps[i].loss)) {
      return ::testing::AssertionFailure()
             << "step " << i + 1 << ": losses " << a.steps[i].loss << " and " << b.steps[i].loss;
    }
    if (bits(a.steps[i].norm) != bits(b.steps[i].norm)) {
      return ::testing::AssertionFailure()
             << "step " << i + 1 << ": norms " << a.steps[i].norm << " and " << b.steps[i].norm;
    }
  }
  if (a.parameters.size() != b.parameters.size()) return ::testing::AssertionFailure() << "different parameters";
  for (const auto& [name, values] : a.parameters) {
    const std::vector<float>& others = b.parameters.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(values[i]) != std::bit_cast<std::uint32_t>(others.at(i))) {
        return ::testing::AssertionFailure() << name << " element " << i << ": " << values[i] << " and " << others[i];
      }
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace matrixfsdp::testing
