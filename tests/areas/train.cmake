if(MATRIXFSDP_BUILD_APPS)
  # The programs as a user runs them, under mpiexec. Each test is a CTest test: tools.<name>.
  file(GLOB train_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tools/train_*.cpp"
                                            "${CMAKE_CURRENT_SOURCE_DIR}/tools/plan_*.cpp"
                                            "${CMAKE_CURRENT_SOURCE_DIR}/tools/bench_*.cpp")
  add_executable(test_train ${train_sources} support/program.cpp)
  matrixfsdp_compile_options(test_train)
  target_include_directories(test_train PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_definitions(test_train PRIVATE
    MATRIXFSDP_MPIEXEC="${MPIEXEC_EXECUTABLE}" MATRIXFSDP_TRAIN="$<TARGET_FILE:mfsdp-train>"
    MATRIXFSDP_BENCH="$<TARGET_FILE:mfsdp-bench>" MATRIXFSDP_PLAN="$<TARGET_FILE:mfsdp-plan>" MATRIXFSDP_PMPI="$<TARGET_FILE:pmpi_bytes>"
    MATRIXFSDP_CKPT="$<TARGET_FILE:mfsdp-ckpt>" MATRIXFSDP_OPTIMIZERS="${PROJECT_SOURCE_DIR}/apps/bench/optimizers.sh"
    MATRIXFSDP_PAPER="${PROJECT_SOURCE_DIR}/apps/bench/paper.sh" MATRIXFSDP_TEST_FOLDER="${CMAKE_CURRENT_BINARY_DIR}/train")
  target_link_libraries(test_train PRIVATE matrixfsdp_schema matrixfsdp_linalg nlohmann_json::nlohmann_json fmt::fmt GTest::gtest_main)
  add_dependencies(test_train mfsdp-train mfsdp-bench mfsdp-plan mfsdp-ckpt pmpi_bytes)
  if(NOT MATRIXFSDP_ENABLE_NCCL)
    target_compile_definitions(test_train PRIVATE MATRIXFSDP_WITHOUT_NCCL)
  endif()
  if(TARGET mfsdp-train-nccl-double) # areas/nccl.cmake
    target_sources(test_train PRIVATE tools/nccl_programs.cpp)
    target_compile_definitions(test_train PRIVATE
      MATRIXFSDP_TRAIN_NCCL_DOUBLE="$<TARGET_FILE:mfsdp-train-nccl-double>"
      MATRIXFSDP_BENCH_NCCL_DOUBLE="$<TARGET_FILE:mfsdp-bench-nccl-double>")
    add_dependencies(test_train mfsdp-train-nccl-double mfsdp-bench-nccl-double)
  endif()
  gtest_discover_tests(test_train TEST_PREFIX "tools." DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 PROCESSORS 2)

  matrixfsdp_add_mpi_tests(verify RANKS 1 3 LINK matrixfsdp_train)
  matrixfsdp_add_mpi_tests(trainer RANKS 1 3 LINK matrixfsdp_train)
endif()
if(MATRIXFSDP_BUILD_APPS)
  # Saves that are killed; the long form is a command: tests/tools/crash_saves.sh --kills 300 ...
  add_library(save_points SHARED support/save_points.cpp)
  matrixfsdp_compile_options(save_points)
  target_link_libraries(save_points PRIVATE ${CMAKE_DL_LIBS})
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize") # preloaded into a program, before its sanitizer's runtime
    target_compile_options(save_points PRIVATE -fno-sanitize=all)
    target_link_options(save_points PRIVATE -fno-sanitize=all)
  else()
    add_test(NAME tools.crash_saves
             COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/tools/crash_saves.sh" --kills 24 "${MPIEXEC_EXECUTABLE}"
                     "${MPIEXEC_NUMPROC_FLAG}" $<TARGET_FILE:mfsdp-train> $<TARGET_FILE:save_points>
                     "${CMAKE_CURRENT_BINARY_DIR}/crash_saves")
    set_tests_properties(tools.crash_saves PROPERTIES PROCESSORS 2 TIMEOUT 300)
  endif()
endif()
