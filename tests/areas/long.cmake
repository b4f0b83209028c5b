# 2,000 steps with four ranks, and 3,000 runtimes in one process with two.
matrixfsdp_add_mpi_tests(long LINK matrixfsdp_baselines matrixfsdp_schema)
foreach(part IN ITEMS "LongRuns:4" "LongLives:2")
  string(REPLACE ":" ";" part "${part}")
  list(GET part 0 suite)
  list(GET part 1 ranks)
  add_test(NAME mpi.long.${suite}.np${ranks}
           COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS} $<TARGET_FILE:test_long>
                   --gtest_filter=${suite}.*)
  set_tests_properties(mpi.long.${suite}.np${ranks} PROPERTIES PROCESSORS 2 TIMEOUT 300)
endforeach()
