#pragma once

#include <type_traits>

#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::linalg::detail {

// Kernels of a device may still write what a host BLAS is about to read. Nothing to wait for where kernels run on the
// host.
inline void wait_for_kernels() {
  if constexpr (!std::is_same_v<ExecutionSpace, Kokkos::DefaultHostExecutionSpace>) Kokkos::fence();
}

}  // namespace matrixfsdp::linalg::detail
