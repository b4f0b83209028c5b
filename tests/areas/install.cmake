if(MATRIXFSDP_BUILD_APPS)
  add_test(NAME install.consume
           COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/install/run.sh" "${PROJECT_BINARY_DIR}"
                   "${CMAKE_CURRENT_BINARY_DIR}/install" "${MPIEXEC_EXECUTABLE}")
  set_tests_properties(install.consume PROPERTIES TIMEOUT 300 PROCESSORS 2)
  # The same with shared libraries. Without ccache, which tests/run.sh uses where it is there, everything is compiled once more.
  add_test(NAME install.shared
           COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/install/shared.sh" "${PROJECT_BINARY_DIR}"
                   "${CMAKE_CURRENT_BINARY_DIR}/install_shared" "${MPIEXEC_EXECUTABLE}")
  set_tests_properties(install.shared PROPERTIES TIMEOUT 1800 PROCESSORS 2)

  # Each example checks its own result, and exits with 1 where it is not what it should be.
  foreach(example IN ITEMS hello_owner example_regression example_own_optimizer example_fused_and_frozen example_mesh)
    string(REPLACE example_ "" name ${example})
    foreach(ranks IN ITEMS 1 2 4)
      add_test(NAME examples.${name}.np${ranks}
               COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS} $<TARGET_FILE:${example}>)
      set_tests_properties(examples.${name}.np${ranks} PROPERTIES TIMEOUT 60 PROCESSORS 2)
    endforeach()
  endforeach()
  # Those whose global batch does not depend on the number of ranks print the same at every number.
  foreach(example IN ITEMS regression own_optimizer fused_and_frozen)
    add_test(NAME examples.${example}.equal_bits
             COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/tools/same_output.sh" "${MPIEXEC_EXECUTABLE}" "${MPIEXEC_NUMPROC_FLAG}"
                     $<TARGET_FILE:example_${example}>)
    set_tests_properties(examples.${example}.equal_bits PROPERTIES TIMEOUT 120 PROCESSORS 2)
  endforeach()
endif()
add_test(NAME readme.quotes COMMAND ${CMAKE_COMMAND} -DREADME=${PROJECT_SOURCE_DIR}/README.md
         -DEXAMPLES=${PROJECT_SOURCE_DIR}/apps/examples -P "${CMAKE_CURRENT_SOURCE_DIR}/tools/readme_quotes.cmake")
