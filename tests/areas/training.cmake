# After areas/oracle.cmake, by name: the reference trainer is its target.
matrixfsdp_add_mpi_tests(training RANKS 1 2 3 4
                         LINK matrixfsdp_baselines matrixfsdp_nn matrixfsdp_test_oracle)
