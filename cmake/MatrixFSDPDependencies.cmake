# Finds what the library needs. Also run by the installed package, so that users link what we linked, which sets
# MATRIXFSDP_NEEDED: the targets that the asked components link. Undefined: all.

# Sets `needed`: whether `target` is one of them, and not there yet.
macro(matrixfsdp_needs target)
  set(needed FALSE)
  if(NOT TARGET ${target} AND (NOT DEFINED MATRIXFSDP_NEEDED OR "${target}" IN_LIST MATRIXFSDP_NEEDED))
    set(needed TRUE)
  endif()
endmacro()

matrixfsdp_needs(fmt::fmt)
if(needed)
  find_package(fmt REQUIRED)
endif()
matrixfsdp_needs(nlohmann_json::nlohmann_json)
if(needed)
  find_package(nlohmann_json REQUIRED)
endif()
matrixfsdp_needs(MPI::MPI_CXX)
if(needed)
  find_package(MPI REQUIRED COMPONENTS CXX)
endif()
matrixfsdp_needs(NCCL::nccl)
if(needed AND MATRIXFSDP_ENABLE_NCCL)
  find_package(NCCL 2.18 REQUIRED)
endif()

# In a scope of its own, because packages of Kokkos set variables of the project that looks for them, and force
# CMAKE_CXX_EXTENSIONS off in its cache where it is not off already.
function(matrixfsdp_find_kokkos)
  set(CMAKE_CXX_EXTENSIONS OFF)
  find_package(Kokkos CONFIG QUIET)
  foreach(name IN ITEMS FOUND VERSION DIR DEVICES)
    set(Kokkos_${name} "${Kokkos_${name}}" PARENT_SCOPE)
  endforeach()
endfunction()

# Kokkos: a proper package first; else Debian's, whose package file names a wrong include folder, by header and library.
matrixfsdp_needs(MatrixFSDP::kokkos)
if(needed)
  matrixfsdp_find_kokkos()
  find_file(MATRIXFSDP_KOKKOS_HEADER Kokkos_Core.hpp NO_DEFAULT_PATH
            HINTS "${Kokkos_DIR}/../../../include" "${Kokkos_DIR}/../../../../include" "${Kokkos_DIR}/../include/kokkos")
  mark_as_advanced(MATRIXFSDP_KOKKOS_HEADER)
  if(NOT MATRIXFSDP_KOKKOS_HEADER AND (Kokkos_ROOT OR DEFINED ENV{Kokkos_ROOT}))
    message(FATAL_ERROR "Kokkos_ROOT '${Kokkos_ROOT}$ENV{Kokkos_ROOT}' holds no usable Kokkos (expected lib/cmake/Kokkos)")
  endif()
  if(NOT MATRIXFSDP_KOKKOS_HEADER)
    find_path(MATRIXFSDP_KOKKOS_INCLUDE_DIR Kokkos_Core.hpp PATH_SUFFIXES trilinos)
    find_library(MATRIXFSDP_KOKKOS_LIBRARY trilinos_kokkoscore)
    mark_as_advanced(MATRIXFSDP_KOKKOS_INCLUDE_DIR MATRIXFSDP_KOKKOS_LIBRARY)
  endif()
  add_library(MatrixFSDP::kokkos INTERFACE IMPORTED)
  if(TARGET Kokkos::kokkos AND MATRIXFSDP_KOKKOS_HEADER)
    message(STATUS "Kokkos: ${Kokkos_VERSION} in ${Kokkos_DIR} (${Kokkos_DEVICES})")
    set_property(TARGET MatrixFSDP::kokkos PROPERTY INTERFACE_LINK_LIBRARIES Kokkos::kokkos)
  elseif(MATRIXFSDP_KOKKOS_INCLUDE_DIR AND MATRIXFSDP_KOKKOS_LIBRARY)
    message(STATUS "Kokkos: the distribution's ${MATRIXFSDP_KOKKOS_LIBRARY}, headers in ${MATRIXFSDP_KOKKOS_INCLUDE_DIR}")
    set_target_properties(MatrixFSDP::kokkos PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${MATRIXFSDP_KOKKOS_INCLUDE_DIR}"
      INTERFACE_LINK_LIBRARIES "${MATRIXFSDP_KOKKOS_LIBRARY};${CMAKE_DL_LIBS}")
  elseif(MATRIXFSDP_FETCH_DEPENDENCIES)
    include(FetchContent)
    FetchContent_Declare(kokkos
      URL https://github.com/kokkos/kokkos/releases/download/4.6.01/kokkos-4.6.01.tar.gz
      URL_HASH SHA256=b9d70e4653b87a06dbb48d63291bf248058c7c7db4bd91979676ad5609bb1a3a)
    FetchContent_MakeAvailable(kokkos)
    set_property(TARGET MatrixFSDP::kokkos PROPERTY INTERFACE_LINK_LIBRARIES Kokkos::kokkos)
  else()
    message(FATAL_ERROR "Kokkos >= 3.4 was not found. Set Kokkos_ROOT, install libtrilinos-kokkos-dev (Debian), or "
                        "set MATRIXFSDP_FETCH_DEPENDENCIES=ON.")
  endif()
endif()

# cuBLAS and cuSOLVER, where Kokkos has CUDA, in the place of BLAS and LAPACK.
matrixfsdp_needs(CUDA::cublas)
if(needed AND "CUDA" IN_LIST Kokkos_DEVICES)
  find_package(CUDAToolkit 12 REQUIRED)
endif()

# BLAS and LAPACK through the Fortran interface, which every implementation has. OpenBLAS first.
matrixfsdp_needs(MatrixFSDP::blas)
if(needed AND NOT "CUDA" IN_LIST Kokkos_DEVICES)
  if(NOT BLA_VENDOR)
    set(BLA_VENDOR OpenBLAS)
    find_package(BLAS QUIET)
    find_package(LAPACK QUIET)
    unset(BLA_VENDOR)
  endif()
  if(NOT LAPACK_FOUND)
    find_package(LAPACK REQUIRED)
  endif()
  message(STATUS "BLAS: ${BLAS_LIBRARIES}")
  add_library(MatrixFSDP::blas INTERFACE IMPORTED)
  set_property(TARGET MatrixFSDP::blas PROPERTY INTERFACE_LINK_LIBRARIES LAPACK::LAPACK)
endif()

matrixfsdp_needs(MatrixFSDP::hdf5)
if(needed)
  if(NOT CMAKE_C_COMPILER)
    enable_language(C) # FindHDF5
  endif()
  find_package(HDF5 REQUIRED COMPONENTS C)
  add_library(MatrixFSDP::hdf5 INTERFACE IMPORTED)
  set_target_properties(MatrixFSDP::hdf5 PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${HDF5_INCLUDE_DIRS}" INTERFACE_LINK_LIBRARIES "${HDF5_C_LIBRARIES}")
endif()
matrixfsdp_needs(MatrixFSDP::xxhash)
if(needed)
  find_path(MATRIXFSDP_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
  find_library(MATRIXFSDP_XXHASH_LIBRARY xxhash REQUIRED)
  mark_as_advanced(MATRIXFSDP_XXHASH_INCLUDE_DIR MATRIXFSDP_XXHASH_LIBRARY)
  add_library(MatrixFSDP::xxhash INTERFACE IMPORTED)
  set_target_properties(MatrixFSDP::xxhash PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${MATRIXFSDP_XXHASH_INCLUDE_DIR}" INTERFACE_LINK_LIBRARIES "${MATRIXFSDP_XXHASH_LIBRARY}")
endif()

# oneDNN by header and library: the package file of Debian's asks for headers of OpenCL, which nothing here includes.
matrixfsdp_needs(MatrixFSDP::onednn)
if(needed AND MATRIXFSDP_ENABLE_ONEDNN)
  find_path(MATRIXFSDP_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
  find_library(MATRIXFSDP_ONEDNN_LIBRARY dnnl)
  mark_as_advanced(MATRIXFSDP_ONEDNN_INCLUDE_DIR MATRIXFSDP_ONEDNN_LIBRARY)
  if(NOT MATRIXFSDP_ONEDNN_INCLUDE_DIR OR NOT MATRIXFSDP_ONEDNN_LIBRARY)
    message(FATAL_ERROR "MATRIXFSDP_ENABLE_ONEDNN: oneDNN was not found (Debian's libdnnl-dev; or its folder in CMAKE_PREFIX_PATH)")
  endif()
  message(STATUS "oneDNN: ${MATRIXFSDP_ONEDNN_LIBRARY}")
  add_library(MatrixFSDP::onednn INTERFACE IMPORTED)
  set_target_properties(MatrixFSDP::onednn PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${MATRIXFSDP_ONEDNN_INCLUDE_DIR}" INTERFACE_LINK_LIBRARIES "${MATRIXFSDP_ONEDNN_LIBRARY}")
endif()
