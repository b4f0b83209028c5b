if(MATRIXFSDP_BUILD_APPS)
  # Following a run: pages, event files, live progress, prompts, token shards. Each test is a CTest test: tools.<name>.
  file(GLOB following_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tools/following_*.cpp")
  add_executable(test_following ${following_sources} support/program.cpp)
  matrixfsdp_compile_options(test_following)
  target_include_directories(test_following PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_definitions(test_following PRIVATE
    MATRIXFSDP_MPIEXEC="${MPIEXEC_EXECUTABLE}" MATRIXFSDP_TRAIN="$<TARGET_FILE:mfsdp-train>"
    MATRIXFSDP_GENERATE="$<TARGET_FILE:mfsdp-generate>" MATRIXFSDP_REPORT="$<TARGET_FILE:mfsdp-report>"
    MATRIXFSDP_TOKENIZE="$<TARGET_FILE:mfsdp-tokenize>" MATRIXFSDP_CKPT="$<TARGET_FILE:mfsdp-ckpt>"
    MATRIXFSDP_TEST_FOLDER="${CMAKE_CURRENT_BINARY_DIR}/following")
  target_link_libraries(test_following PRIVATE matrixfsdp_core nlohmann_json::nlohmann_json fmt::fmt GTest::gtest_main util)
  add_dependencies(test_following mfsdp-train mfsdp-generate mfsdp-report mfsdp-tokenize mfsdp-ckpt)
  gtest_discover_tests(test_following TEST_PREFIX "tools." DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 PROCESSORS 2)
endif()
