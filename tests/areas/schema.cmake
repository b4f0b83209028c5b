matrixfsdp_add_unit_tests(schema SOURCES $<TARGET_OBJECTS:test_full_disk>
                          LINK matrixfsdp_schema MatrixFSDP::hdf5 nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
