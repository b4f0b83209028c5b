matrixfsdp_add_mpi_tests(checkpoint RANKS 1 2 3 4 8 LINK matrixfsdp_checkpoint nlohmann_json::nlohmann_json)
