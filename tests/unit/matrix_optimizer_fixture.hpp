#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/optim/routing.hpp>

#include "optim_fixture.hpp"

namespace matrixfsdp::test {

/// A matrix optimizer with its default options, by name: what several of them have in common.
class MatrixOptimizerTest : public ::testing::TestWithParam<MatrixOptimizer> {
 protected:
  /// `frequency`: of refreshes, where there are any.
  static RoutingOptions options(std::int64_t frequency = 2) {
    RoutingOptions options;
    options.matrices = GetParam();
    options.shampoo.preconditioner.frequency = options.soap.preconditioner.frequency = frequency;
    return options;
  }
  static std::unique_ptr<Optimizer> make(const Parameters& parameters, const RoutingOptions& routing = options()) {
    return make_optimizer(parameters.views(), routing);
  }
};

inline std::string name_of_case(const ::testing::TestParamInfo<MatrixOptimizer>& given) {
  return std::string(name_of(given.param));
}

}  // namespace matrixfsdp::test
