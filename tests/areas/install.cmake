if(MATRIXFSDP_BUILD_APPS)
  add_test(NAME install.consume
           COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/install/run.sh" "${PROJECT_BINARY_DIR}"
                   "${CMAKE_CURRENT_BINARY_DIR}/install" "${MPIEXEC_EXECUTABLE}")
  set_tests_properties(install.consume PROPERTIES TIMEOUT 300 PROCESSORS 2)
  add_test(NAME examples.hello_owner.np2
           COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:hello_owner>)
  set_tests_properties(examples.hello_owner.np2 PROPERTIES TIMEOUT 60 PASS_REGULAR_EXPRESSION "step 5: value")
endif()
add_test(NAME readme.quotes COMMAND ${CMAKE_COMMAND} -DREADME=${PROJECT_SOURCE_DIR}/README.md
         -DSOURCE=${PROJECT_SOURCE_DIR}/apps/examples/hello_owner.cpp -P "${CMAKE_CURRENT_SOURCE_DIR}/tools/readme_quotes.cmake")
