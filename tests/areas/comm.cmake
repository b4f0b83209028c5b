# The independent count of bytes: a PMPI interposer, linked before MPI or preloaded.
add_library(pmpi_bytes SHARED support/pmpi_bytes.cpp)
set_target_properties(pmpi_bytes PROPERTIES OUTPUT_NAME matrixfsdp_pmpi_bytes)
matrixfsdp_compile_options(pmpi_bytes)
target_include_directories(pmpi_bytes PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(pmpi_bytes PRIVATE MPI::MPI_CXX)

matrixfsdp_add_mpi_tests(comm RANKS 1 2 3 4 7 8 LINK pmpi_bytes matrixfsdp_comm)
target_include_directories(test_comm PRIVATE "${PROJECT_SOURCE_DIR}/src")
