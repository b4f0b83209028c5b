#include <cstdio>

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include "support/device_obstacle.hpp"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string obstacle = matrixfsdp::test::device_obstacle();
  if (!obstacle.empty()) {
    if (::testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
    std::printf("skipped: %s\n", obstacle.c_str());
    return matrixfsdp::test::exit_skipped;
  }
  Kokkos::ScopeGuard kokkos(argc, argv);
  return RUN_ALL_TESTS();
}
