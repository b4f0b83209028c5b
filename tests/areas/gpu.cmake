# The script for a node with devices, without one.
add_test(NAME tools.gpu_script COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/tools/gpu_script.sh" "${PROJECT_SOURCE_DIR}"
                                       "${CMAKE_CURRENT_BINARY_DIR}/gpu_script")
set_tests_properties(tools.gpu_script PROPERTIES TIMEOUT 120)
