# Every shape, kind of gradient and policy at every number of ranks.
matrixfsdp_add_mpi_tests(shapes RANKS 1 2 3 4 7 8 LINK matrixfsdp_baselines)
