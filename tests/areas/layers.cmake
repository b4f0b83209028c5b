# The module graph of the house, by include lines; and that the check itself can fail.
add_test(NAME layers.includes
         COMMAND ${CMAKE_COMMAND} "-DROOT=${PROJECT_SOURCE_DIR}" -P "${PROJECT_SOURCE_DIR}/cmake/LayerCheck.cmake")
add_test(NAME layers.self_test
         COMMAND ${CMAKE_COMMAND} "-DCHECK=${PROJECT_SOURCE_DIR}/cmake/LayerCheck.cmake"
                 -P "${CMAKE_CURRENT_SOURCE_DIR}/support/layers_bad/check.cmake")
set_tests_properties(layers.includes layers.self_test PROPERTIES TIMEOUT 60)
