if(MATRIXFSDP_BUILD_APPS)
  # mfsdp-ckpt as a user runs it: without mpiexec. Each test is a CTest test: tools.<name>.
  file(GLOB ckpt_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tools/ckpt_*.cpp")
  add_executable(test_ckpt ${ckpt_sources} support/program.cpp)
  matrixfsdp_compile_options(test_ckpt)
  target_include_directories(test_ckpt PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_definitions(test_ckpt PRIVATE
    MATRIXFSDP_MPIEXEC="${MPIEXEC_EXECUTABLE}" MATRIXFSDP_TRAIN="$<TARGET_FILE:mfsdp-train>"
    MATRIXFSDP_CKPT="$<TARGET_FILE:mfsdp-ckpt>" MATRIXFSDP_GOLDEN="${CMAKE_CURRENT_SOURCE_DIR}/io/golden"
    MATRIXFSDP_TEST_FOLDER="${CMAKE_CURRENT_BINARY_DIR}/ckpt")
  target_link_libraries(test_ckpt PRIVATE matrixfsdp_ckpt GTest::gtest_main)
  add_dependencies(test_ckpt mfsdp-ckpt mfsdp-train)
  gtest_discover_tests(test_ckpt TEST_PREFIX "tools." DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endif()
