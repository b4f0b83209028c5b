# Runs the layer check on this folder, whose includes are wrong on purpose, and compares what it says line by line.
#   cmake -DCHECK=<LayerCheck.cmake> -P check.cmake
cmake_minimum_required(VERSION 3.22)
set(expected
    "apps/train/main.cpp:2: module apps includes matrixfsdp/utils/strings.hpp, of no known module"
    "include/matrixfsdp/plan/upward.hpp:6: module plan includes matrixfsdp/fsdp/sharded_model.hpp: the edge plan -> fsdp is not allowed"
    "io/dataset/stores.cpp:2: module dataset includes matrixfsdp/schema/manifest.hpp: the edge dataset -> schema is not allowed"
    "io/schema/device.cpp:1: module schema includes Kokkos_Core.hpp: no Kokkos below module tensor"
    "io/schema/device.cpp:4: module schema includes io/dataset/window.hpp: the edge schema -> dataset is not allowed"
    "src/attic/old.cpp:1: folder of module 'attic'"
    "src/fsdp/talks.cpp:1: module fsdp includes mpi.h: only module comm, apps/bench and apps/examples may"
    "src/fsdp/talks.cpp:2: module fsdp includes hdf5.h: only files in io/ may"
    "src/fsdp/talks.cpp:4: module fsdp includes apps/train/options.hpp: the edge fsdp -> apps is not allowed"
    "src/optim/detail/climbs.hpp:2: module optim includes ../../comm/channel.hpp: the edge optim -> comm is not allowed"
    "src/optim/sends.cpp:7: module optim includes comm/mpi/channel.hpp: the edge optim -> comm is not allowed"
    "src/plan/kernels.cpp:1: module plan includes Kokkos_Core.hpp: no Kokkos below module tensor")

execute_process(COMMAND "${CMAKE_COMMAND}" -DROOT=${CMAKE_CURRENT_LIST_DIR} -P "${CHECK}"
                RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "the layer check accepts a folder of wrong includes:\n${output}")
endif()
foreach(line IN LISTS expected)
  string(FIND "${output}" "${line}" position)
  if(position LESS 0)
    message(FATAL_ERROR "the layer check does not say\n  ${line}\nbut\n${output}")
  endif()
endforeach()
# Allowed includes are not told.
list(LENGTH expected count)
if(NOT output MATCHES "LayerCheck: ${count} includes break")
  message(FATAL_ERROR "expected ${count} violations:\n${output}")
endif()
