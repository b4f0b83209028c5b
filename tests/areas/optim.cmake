matrixfsdp_add_unit_tests(optim MAIN kokkos LINK matrixfsdp_optim)
