# Finds NCCL and the CUDA runtime that it works on: headers and libraries, no compiler.
#
#   NCCL_ROOT, CUDAToolkit_ROOT, CUDA_HOME   where to look first; then /usr/local/cuda and the system's folders
#   NCCL_HEADERS_FOUND, NCCL::headers        nccl.h and cuda_runtime_api.h
#   NCCL_FOUND, NCCL::nccl                   the libraries too
#   NCCL_VERSION                             of the header
set(_NCCL_hints "${NCCL_ROOT}" "$ENV{NCCL_ROOT}" "${CUDAToolkit_ROOT}" "$ENV{CUDAToolkit_ROOT}" "$ENV{CUDA_HOME}")
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${_NCCL_hints} PATHS /usr/local/cuda PATH_SUFFIXES include)
find_path(NCCL_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${_NCCL_hints} PATHS /usr/local/cuda PATH_SUFFIXES include)
find_library(NCCL_LIBRARY nccl HINTS ${_NCCL_hints} PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib)
find_library(NCCL_CUDART_LIBRARY cudart HINTS ${_NCCL_hints} PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_CUDA_INCLUDE_DIR NCCL_LIBRARY NCCL_CUDART_LIBRARY)

if(NCCL_INCLUDE_DIR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" _NCCL_lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" _NCCL_numbers "${_NCCL_lines}")
  string(REPLACE ";" "." NCCL_VERSION "${_NCCL_numbers}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL
  REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR NCCL_CUDART_LIBRARY NCCL_CUDA_INCLUDE_DIR VERSION_VAR NCCL_VERSION)

set(NCCL_HEADERS_FOUND FALSE)
if(NCCL_INCLUDE_DIR AND NCCL_CUDA_INCLUDE_DIR)
  set(NCCL_HEADERS_FOUND TRUE)
  if(NOT TARGET NCCL::headers)
    add_library(NCCL::headers INTERFACE IMPORTED)
    set_target_properties(NCCL::headers PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR};${NCCL_CUDA_INCLUDE_DIR}")
  endif()
endif()
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl INTERFACE IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES
    INTERFACE_LINK_LIBRARIES "NCCL::headers;${NCCL_LIBRARY};${NCCL_CUDART_LIBRARY}")
endif()
