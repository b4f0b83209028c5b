matrixfsdp_add_unit_tests(schema LINK matrixfsdp_schema MatrixFSDP::hdf5 nlohmann_json::nlohmann_json)
