#pragma once

#include <cstdint>
#include <type_traits>

#include <matrixfsdp/tensor/tensor.hpp>

#include "tensor/own_kernels.hpp"

/// Kernels that may be started by several threads (see OwnKernels). Each is complete when it returns, and an index's
/// work does not depend on which thread does it.
namespace matrixfsdp::detail {

inline constexpr bool kernels_run_on_host = std::is_same_v<ExecutionSpace, Kokkos::DefaultHostExecutionSpace>;

/// body(i) for 0 <= i < count, in no order.
template <class Body>
void for_range(const char* label, std::int64_t count, const Body& body) {
  if constexpr (kernels_run_on_host) {
    if (runs_own_kernels()) {
      for (std::int64_t i = 0; i < count; ++i)
        body(i);
      return;
    }
  }
  Kokkos::parallel_for(label, Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(0, count), body);
  Kokkos::fence();
}

/// The sum of what body(i, sum) adds for 0 <= i < count.
template <class Body>
std::int64_t sum_range(const char* label, std::int64_t count, const Body& body) {
  std::int64_t sum = 0;
  if constexpr (kernels_run_on_host) {
    if (runs_own_kernels()) {
      for (std::int64_t i = 0; i < count; ++i)
        body(i, sum);
      return sum;
    }
  }
  Kokkos::parallel_reduce(label, Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(0, count), body,
                          sum);
  return sum;
}

}  // namespace matrixfsdp::detail
