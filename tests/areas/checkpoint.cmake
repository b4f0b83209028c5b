matrixfsdp_add_mpi_tests(checkpoint RANKS 1 2 3 4 8
                         LINK matrixfsdp_checkpoint matrixfsdp_baselines nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
if(TARGET test_checkpoint)
  target_sources(test_checkpoint PRIVATE $<TARGET_OBJECTS:test_full_disk>)
  set_tests_properties(mpi.checkpoint.np8 PROPERTIES TIMEOUT 300)
endif()
