# The peers: every strategy at every number of ranks, with every optimizer that it can run.
matrixfsdp_add_mpi_tests(baselines RANKS 1 2 3 4 LINK matrixfsdp_baselines matrixfsdp_nn matrixfsdp_checkpoint)
foreach(ranks IN ITEMS 1 2 3 4)
  set_tests_properties(mpi.baselines.np${ranks} PROPERTIES TIMEOUT 600)
endforeach()
