# Every seeded fault still finds the lines it changes; whether the suite finds the faults takes hours (faults/run.sh).
add_test(NAME faults.apply COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/faults/run.sh" --list)
set_tests_properties(faults.apply PROPERTIES TIMEOUT 120)
