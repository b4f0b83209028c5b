# The words beside the code: doxygen's view of the headers, and the guide's quotes.
add_test(NAME docs.every_public_name_is_documented
         COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/docs/documented.sh" "${PROJECT_BINARY_DIR}/Doxyfile"
                 "${CMAKE_CURRENT_BINARY_DIR}/docs")
set_tests_properties(docs.every_public_name_is_documented PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
add_test(NAME docs.guide_quotes_what_there_is
         COMMAND ${CMAKE_COMMAND} "-DROOT=${PROJECT_SOURCE_DIR}" "-DGUIDE=${PROJECT_SOURCE_DIR}/apps/GUIDE.md"
                 -P "${CMAKE_CURRENT_SOURCE_DIR}/docs/guide.cmake")
add_test(NAME docs.links_lead_somewhere
         COMMAND ${CMAKE_COMMAND} "-DROOT=${PROJECT_SOURCE_DIR}" -P "${CMAKE_CURRENT_SOURCE_DIR}/docs/links.cmake")
set_tests_properties(docs.guide_quotes_what_there_is docs.links_lead_somewhere PROPERTIES TIMEOUT 60)
