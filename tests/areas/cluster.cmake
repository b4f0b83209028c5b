# The emulated cluster of tests/cluster/run.sh from end to end. Exit code 77: a tool is missing, or the kernel forbids it.
add_executable(cluster_probe cluster/probe.cpp)
matrixfsdp_compile_options(cluster_probe)
target_link_libraries(cluster_probe PRIVATE matrixfsdp_comm fmt::fmt)
add_test(NAME cluster.smoke
         COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/cluster/smoke.sh" "${MPIEXEC_EXECUTABLE}" $<TARGET_FILE:cluster_probe>)
set_tests_properties(cluster.smoke PROPERTIES TIMEOUT 120 PROCESSORS 2 LABELS cluster RESOURCE_LOCK cluster
                                              SKIP_RETURN_CODE 77)
