# matrixfsdp_add_module(<name> [PUBLIC <module or target>...] [PRIVATE <target>...] [DIRECTORY <dir>] [EXCLUDE <regex>])
#
# One library target per module: matrixfsdp_<name>, alias MatrixFSDP::<name>, sources <dir>/*.cpp (src/<name> by
# default) whose path below <dir> does not match EXCLUDE. A module name in PUBLIC means that module. A module without sources is an INTERFACE library.
function(matrixfsdp_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DIRECTORY;EXCLUDE" "PUBLIC;PRIVATE")
  if(NOT arg_DIRECTORY)
    set(arg_DIRECTORY "${PROJECT_SOURCE_DIR}/src/${name}")
  endif()
  set(target matrixfsdp_${name})
  file(GLOB_RECURSE sources RELATIVE "${arg_DIRECTORY}" CONFIGURE_DEPENDS "${arg_DIRECTORY}/*.cpp")
  if(arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()
  list(TRANSFORM sources PREPEND "${arg_DIRECTORY}/")

  set(public)
  foreach(dependency IN LISTS arg_PUBLIC)
    if(dependency MATCHES "::")
      list(APPEND public ${dependency})
    else()
      list(APPEND public matrixfsdp_${dependency})
    endif()
  endforeach()

  if(sources)
    set(scope PUBLIC)
    add_library(${target} ${sources})
    matrixfsdp_compile_options(${target})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${target} PUBLIC ${public} PRIVATE ${arg_PRIVATE})
    # No <target>_EXPORTS: a shared library is made of the same objects as a static one.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON DEFINE_SYMBOL "" VERSION ${PROJECT_VERSION}
                                               SOVERSION ${PROJECT_VERSION_MAJOR})
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
    target_compile_features(${target} INTERFACE cxx_std_20)
    target_link_libraries(${target} INTERFACE ${public})
  endif()
  add_library(MatrixFSDP::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                                "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  set_property(GLOBAL APPEND PROPERTY MATRIXFSDP_TARGETS ${target})
endfunction()

# Options of our own code, never of users' code. No contraction of a*b+c: an element's bits must not depend on whether
# the compiler placed it in a vector loop or in its remainder, because that depends on how a tail is cut. Nobody reads
# errno after sqrt, and without that promise sqrt does not vectorise.
function(matrixfsdp_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -ffp-contract=off -fno-math-errno>
    $<$<AND:$<BOOL:${MATRIXFSDP_WARNINGS_AS_ERRORS}>,$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>>:-Werror>)
  # nvcc's front end does not evaluate the compile-time check of fmt's format strings; other builds have done it. It
  # writes pointers to members with parentheses, of which GCC then warns.
  if("CUDA" IN_LIST Kokkos_DEVICES)
    target_compile_options(${target} PRIVATE -Wno-parentheses)
    target_compile_definitions(${target} PRIVATE FMT_USE_CONSTEXPR=1 FMT_CONSTEVAL=)
  endif()
endfunction()

# A program of ours: matrixfsdp_add_program(<name> SOURCES ... LINK ...)
function(matrixfsdp_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  matrixfsdp_compile_options(${name})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
endfunction()
