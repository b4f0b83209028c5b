matrixfsdp_add_unit_tests(orthogonalize MAIN kokkos LINK matrixfsdp_orthogonalize)
# Of private headers: batches, which public functions make on a device only.
target_include_directories(test_orthogonalize PRIVATE "${PROJECT_SOURCE_DIR}/src")
