#include <cstdio>

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include "support/cublas_double/control.hpp"

/// Handles end with Kokkos: later there is no device that could take them back.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int code = 0;
  {
    Kokkos::ScopeGuard kokkos(argc, argv);
    code = RUN_ALL_TESTS();
  }
  const int open = matrixfsdp::cublas_double::control().open_handles;
  if (open == 0) return code;
  std::fprintf(stderr, "%d handles are open after Kokkos' end: expected none\n", open);
  return 1;
}
