# Target `docs`: the API documentation as HTML, in docs/html of the build folder. Only where doxygen is there.
find_package(Doxygen 1.9 QUIET)
configure_file(cmake/Doxyfile.in Doxyfile @ONLY)
if(TARGET Doxygen::doxygen)
  add_custom_target(docs
    COMMAND Doxygen::doxygen "${PROJECT_BINARY_DIR}/Doxyfile"
    COMMAND ${CMAKE_COMMAND} -E echo "${PROJECT_BINARY_DIR}/docs/html/index.html"
    WORKING_DIRECTORY "${PROJECT_BINARY_DIR}" VERBATIM)
else()
  message(STATUS "Documentation: no target docs: doxygen 1.9 or newer was not found")
endif()
