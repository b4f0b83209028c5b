# What is on disk: the format, its readers and writers, and other programs that read it. No MPI, no Kokkos.
matrixfsdp_add_unit_tests(format DIRECTORY io SOURCES support/full_disk.cpp
                          LINK matrixfsdp_schema MatrixFSDP::hdf5 nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
set(golden "${CMAKE_CURRENT_SOURCE_DIR}/io/golden")
target_compile_definitions(test_format PRIVATE MATRIXFSDP_GOLDEN="${golden}")
if(TARGET test_checkpoint)
  target_compile_definitions(test_checkpoint PRIVATE MATRIXFSDP_GOLDEN="${golden}")
endif()
