# What the devices of Kokkos have to do with the options: a build that was asked for a device never falls back to the host.
foreach(device IN ITEMS CUDA HIP)
  if(MATRIXFSDP_REQUIRE_${device} AND NOT "${device}" IN_LIST Kokkos_DEVICES)
    message(FATAL_ERROR "MATRIXFSDP_REQUIRE_${device}: the Kokkos that was found has the devices '${Kokkos_DEVICES}'; "
                        "expected one built with -DKokkos_ENABLE_${device}=ON, named by Kokkos_ROOT")
  endif()
endforeach()
if("CUDA" IN_LIST Kokkos_DEVICES AND MATRIXFSDP_ENABLE_ONEDNN)
  message(FATAL_ERROR "MATRIXFSDP_ENABLE_ONEDNN: Kokkos was built for CUDA, where cuBLAS multiplies bfloat16; expected OFF")
endif()
if("HIP" IN_LIST Kokkos_DEVICES)
  message(STATUS "HIP: kernels run on the device; products stay on the host, over unified memory (no hipBLAS seam). "
                 "This combination has been compiled nowhere yet.")
endif()
