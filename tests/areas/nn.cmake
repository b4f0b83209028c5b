matrixfsdp_add_unit_tests(nn MAIN kokkos LINK matrixfsdp_nn)
target_include_directories(test_nn PRIVATE "${PROJECT_SOURCE_DIR}/src")
