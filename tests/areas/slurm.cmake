if(MATRIXFSDP_BUILD_APPS)
  # The batch scripts of apps/slurm on a real Slurm that lives as long as the test. Exit code 77: Slurm is missing, or the
  # tests do not run as root.
  foreach(what IN ITEMS requeue smoke wrong_pmi cancelled failed gpu)
    add_test(NAME slurm.${what}
             COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/slurm/private_slurm.sh"
                     bash "${CMAKE_CURRENT_SOURCE_DIR}/slurm/jobs.sh" "${PROJECT_SOURCE_DIR}/apps/slurm"
                     $<TARGET_FILE:mfsdp-train> ${what})
    set_tests_properties(slurm.${what} PROPERTIES TIMEOUT 300 PROCESSORS 2 LABELS slurm SKIP_RETURN_CODE 77)
  endforeach()
endif()
