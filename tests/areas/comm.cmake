# The independent count of bytes: a PMPI interposer, linked before MPI or preloaded.
add_library(pmpi_bytes SHARED support/pmpi_bytes.cpp)
set_target_properties(pmpi_bytes PROPERTIES OUTPUT_NAME matrixfsdp_pmpi_bytes)
matrixfsdp_compile_options(pmpi_bytes)
target_include_directories(pmpi_bytes PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(pmpi_bytes PRIVATE MPI::MPI_CXX)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize") # preloaded into the launcher too, which is built without a sanitizer's runtime
  target_compile_options(pmpi_bytes PRIVATE -fno-sanitize=all)
  target_link_options(pmpi_bytes PRIVATE -fno-sanitize=all)
endif()

matrixfsdp_add_mpi_tests(comm RANKS 1 2 3 4 8 LINK pmpi_bytes matrixfsdp_comm)
target_include_directories(test_comm PRIVATE "${PROJECT_SOURCE_DIR}/src")

# Calibrations are most of the time of these tests. Seven ranks, and layouts, add nothing to those with nodes of the
# test's own, which know of no layout, and whose last node has one rank with three too.
set(others --gtest_filter=-CommCalibration.measures_links_inside_nodes_and_between_them)
add_test(NAME mpi.comm.np7
         COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 7 ${MPIEXEC_PREFLAGS} $<TARGET_FILE:test_comm> ${others})
set_tests_properties(mpi.comm.np7 PROPERTIES PROCESSORS 2 TIMEOUT 300)

# CASES 41: node layouts that MPICH simulates. Other MPI libraries ignore the variables.
foreach(layout IN ITEMS "cliques:MPIR_CVAR_NUM_CLIQUES=2" "odd_even:MPIR_CVAR_ODD_EVEN_CLIQUES=1" "nolocal:MPIR_CVAR_NOLOCAL=1")
  string(REPLACE ":" ";" layout "${layout}")
  list(GET layout 0 name)
  list(GET layout 1 variable)
  foreach(ranks IN ITEMS 3 4)
    add_test(NAME mpi.comm.${name}.np${ranks}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS} $<TARGET_FILE:test_comm>
                     ${others})
    set_tests_properties(mpi.comm.${name}.np${ranks} PROPERTIES PROCESSORS 2 TIMEOUT 120 ENVIRONMENT "${variable}")
  endforeach()
endforeach()

# How a job ends when a rank throws, freezes, is killed, ...
add_executable(failing_rank support/failing_rank.cpp)
matrixfsdp_compile_options(failing_rank)
target_link_libraries(failing_rank PRIVATE matrixfsdp_comm fmt::fmt)
foreach(way IN ITEMS ok different throw unknown stop kill leave input pending alone launcher adopt bytes)
  add_test(NAME mpi.comm_endings.${way}
           COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/mpi/comm_endings.sh" ${way} "${MPIEXEC_EXECUTABLE}"
                   "${MPIEXEC_NUMPROC_FLAG}" $<TARGET_FILE:failing_rank> $<TARGET_FILE:pmpi_bytes>)
  set_tests_properties(mpi.comm_endings.${way} PROPERTIES PROCESSORS 2 TIMEOUT 60)
endforeach()
