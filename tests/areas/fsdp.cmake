matrixfsdp_add_mpi_tests(fsdp RANKS 1 2 3 4 8 LINK matrixfsdp_fsdp)
