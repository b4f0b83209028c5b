# The NCCL backend against a host double of NCCL and of CUDA's runtime (tests/support/nccl_double), which needs their
# headers, and against the real libraries (label gpu), which needs devices to do more than link. Neither needs
# MATRIXFSDP_ENABLE_NCCL.
find_package(NCCL 2.18 QUIET)
if(NOT NCCL_HEADERS_FOUND)
  message(STATUS "Tests: mpi.nccl.* and gpu.nccl.* are absent: nccl.h or cuda_runtime_api.h was not found (NCCL_ROOT, CUDA_HOME)")
  return()
endif()

file(GLOB nccl_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/comm/nccl/*.cpp")
add_library(nccl_backend_objects OBJECT ${nccl_sources})
matrixfsdp_compile_options(nccl_backend_objects)
target_include_directories(nccl_backend_objects PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(nccl_backend_objects PRIVATE matrixfsdp_comm fmt::fmt NCCL::headers)

if("CUDA" IN_LIST Kokkos_DEVICES)
  message(STATUS "Tests: mpi.nccl.* are absent: the host double has no device for the kernels of this Kokkos")
else()
  file(GLOB double_sources CONFIGURE_DEPENDS "support/nccl_double/*.cpp")
  matrixfsdp_add_test_objects(nccl_double_objects SOURCES ${double_sources} LINK matrixfsdp_comm NCCL::headers)
  set(double $<TARGET_OBJECTS:nccl_backend_objects> $<TARGET_OBJECTS:nccl_double_objects>)
  matrixfsdp_add_mpi_tests(nccl RANKS 1 2 3 4 LINK matrixfsdp_comm NCCL::headers)
  foreach(ranks IN ITEMS 1 2 3 4) # the double always has devices: a test that skips itself has lost its subject
    set_tests_properties(mpi.nccl.np${ranks} PROPERTIES FAIL_REGULAR_EXPRESSION "segments stay with MPI")
  endforeach()
  target_sources(test_nccl PRIVATE ${double})
  target_include_directories(test_nccl PRIVATE "${PROJECT_SOURCE_DIR}/src")

  if(MATRIXFSDP_BUILD_APPS) # the programs with the double in NCCL's place, for tests/tools/nccl_programs.cpp
    foreach(program IN ITEMS train bench)
      matrixfsdp_add_program(mfsdp-${program}-nccl-double SOURCES "${PROJECT_SOURCE_DIR}/apps/${program}/main.cpp" ${double}
                             LINK matrixfsdp_${program} matrixfsdp_comm)
    endforeach()
  endif()
endif()

if(NOT NCCL_FOUND)
  message(STATUS "Tests: gpu.nccl.* are absent: the libraries nccl and cudart were not found (NCCL_ROOT, CUDA_HOME)")
  return()
endif()
add_executable(test_nccl_gpu mpi/nccl_backend.cpp mpi/nccl_wire.cpp $<TARGET_OBJECTS:test_mpi_main>
                             $<TARGET_OBJECTS:nccl_backend_objects>)
matrixfsdp_compile_options(test_nccl_gpu)
target_include_directories(test_nccl_gpu PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(test_nccl_gpu PRIVATE matrixfsdp_comm NCCL::nccl GTest::gtest fmt::fmt)
foreach(ranks IN ITEMS 1 2 4)
  add_test(NAME gpu.nccl.np${ranks}
           COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS} $<TARGET_FILE:test_nccl_gpu>)
  set_tests_properties(gpu.nccl.np${ranks} PROPERTIES PROCESSORS 2 TIMEOUT 120 LABELS gpu
    SKIP_REGULAR_EXPRESSION "segments stay with MPI;no device is visible")
endforeach()
