# The recipe of spack/, read without Spack.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME spack.recipe COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/tools/spack_recipe.py"
                                     "${PROJECT_SOURCE_DIR}")
  set_tests_properties(spack.recipe PROPERTIES TIMEOUT 60)
else()
  message(STATUS "Tests: spack.recipe is absent: Python 3 was not found")
endif()
