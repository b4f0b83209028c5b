# linalg on cuBLAS and cuSOLVER: the tests of linalg, and of batches of matrices, against a host double of the two (tests/support/cublas_double), which
# needs their headers, and against the real libraries (label gpu), which needs a device to do more than link. Neither needs
# a Kokkos for CUDA; where there is one, gpu.linalg are linalg's own tests.
if("CUDA" IN_LIST Kokkos_DEVICES)
  message(STATUS "Tests: unit.cublas.* are absent: the host double has no device for the kernels of this Kokkos")
  add_test(NAME gpu.linalg COMMAND test_linalg)
  set_tests_properties(gpu.linalg PROPERTIES TIMEOUT 300 LABELS gpu SKIP_RETURN_CODE 77)
  return()
endif()
find_package(CUDAToolkit 12 QUIET)
if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cusolver)
  message(STATUS "Tests: unit.cublas.* and gpu.linalg are absent: cuBLAS and cuSOLVER 12 or newer were not found (CUDAToolkit_ROOT)")
  return()
endif()

file(GLOB seam_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/linalg/*.cpp" "${PROJECT_SOURCE_DIR}/src/linalg/cuda/*.cpp")
file(GLOB linalg_tests CONFIGURE_DEPENDS "unit/linalg_*.cpp")
list(FILTER linalg_tests EXCLUDE REGEX "/linalg_workers\\.cpp$") # threads are the host BLAS's
file(GLOB seam_tests CONFIGURE_DEPENDS "unit/cublas_*.cpp")
file(GLOB double_sources CONFIGURE_DEPENDS "support/cublas_double/*.cpp")
foreach(part IN ITEMS linalg_seam linalg_seam_tests)
  add_library(${part} OBJECT)
  matrixfsdp_compile_options(${part})
  target_include_directories(${part} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
  target_include_directories(${part} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${part} PRIVATE matrixfsdp_tensor GTest::gtest fmt::fmt)
endforeach()
target_sources(linalg_seam PRIVATE ${seam_sources})
target_sources(linalg_seam_tests PRIVATE ${linalg_tests})

add_executable(test_cublas ${seam_tests} ${double_sources} $<TARGET_OBJECTS:linalg_seam> $<TARGET_OBJECTS:linalg_seam_tests>)
add_executable(test_linalg_gpu support/gpu_main.cpp $<TARGET_OBJECTS:linalg_seam> $<TARGET_OBJECTS:linalg_seam_tests>)
foreach(test IN ITEMS test_cublas test_linalg_gpu)
  matrixfsdp_compile_options(${test})
  target_include_directories(${test} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
  target_include_directories(${test} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${test} PRIVATE matrixfsdp_tensor GTest::gtest fmt::fmt)
endforeach()
# Orthogonalization and Muon on the double, which batches. Their libraries are those of the build: the seam's objects come
# first, so nothing of the archive of linalg is linked.
target_sources(test_cublas PRIVATE unit/orthogonalize_batch.cpp unit/orthogonalize_many.cpp)
target_link_libraries(test_cublas PRIVATE matrixfsdp_optim MatrixFSDP::blas) # and the double's LAPACK
target_link_libraries(test_linalg_gpu PRIVATE CUDA::cublas CUDA::cusolver CUDA::cudart)
gtest_discover_tests(test_cublas TEST_PREFIX "unit.cublas." DISCOVERY_TIMEOUT 60)
add_test(NAME unit.cublas.all COMMAND test_cublas) # in one process: its end is a test of its own
add_test(NAME gpu.linalg COMMAND test_linalg_gpu)
set_tests_properties(gpu.linalg PROPERTIES TIMEOUT 300 LABELS gpu SKIP_RETURN_CODE 77)
