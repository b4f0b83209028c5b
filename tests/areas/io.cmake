# What is on disk: the format, its readers and writers, and other programs that read it. No MPI, no Kokkos.
matrixfsdp_add_unit_tests(format DIRECTORY io SOURCES $<TARGET_OBJECTS:test_full_disk>
                          LINK matrixfsdp_schema MatrixFSDP::hdf5 nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
set(golden "${CMAKE_CURRENT_SOURCE_DIR}/io/golden")
target_compile_definitions(test_format PRIVATE MATRIXFSDP_GOLDEN="${golden}")
if(TARGET test_checkpoint)
  target_compile_definitions(test_checkpoint PRIVATE MATRIXFSDP_GOLDEN="${golden}")
endif()

if(MATRIXFSDP_BUILD_APPS)
  # Exit code 77: h5dump, h5ls, or Python with h5py and safetensors are not there (in CI that is a failure).
  foreach(reader IN ITEMS hdf5_tools python)
    add_test(NAME io.interop.${reader}
             COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/io/interop.sh" ${reader} $<TARGET_FILE:mfsdp-ckpt> "${golden}"
                     "${CMAKE_CURRENT_BINARY_DIR}/interop_${reader}")
    set_tests_properties(io.interop.${reader} PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
  endforeach()
endif()
