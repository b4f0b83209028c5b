matrixfsdp_add_unit_tests(schema SOURCES support/full_disk.cpp
                          LINK matrixfsdp_schema MatrixFSDP::hdf5 nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
