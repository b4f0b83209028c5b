# Random models, ranks, policies and batches; MATRIXFSDP_PROPERTY_SEEDS=1000 for more of them.
matrixfsdp_add_mpi_tests(property RANKS 4 LINK matrixfsdp_checkpoint matrixfsdp_baselines)
if(TARGET test_property)
  target_sources(test_property PRIVATE support/property_case.cpp)
endif()
