# The reference trainer links nothing, so it cannot share a line with the library.
file(GLOB oracle_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/support/oracle/*.cpp")
add_library(matrixfsdp_test_oracle STATIC ${oracle_sources})
matrixfsdp_compile_options(matrixfsdp_test_oracle)
target_include_directories(matrixfsdp_test_oracle PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")

matrixfsdp_add_unit_tests(oracle LINK matrixfsdp_test_oracle)
