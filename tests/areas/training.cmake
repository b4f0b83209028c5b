# After areas/oracle.cmake, by name: the reference trainer is its target.
matrixfsdp_add_mpi_tests(training RANKS 1 2 3 4
                         LINK matrixfsdp_fsdp matrixfsdp_nn matrixfsdp_optim matrixfsdp_test_oracle)
