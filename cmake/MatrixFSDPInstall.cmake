# Installs headers, libraries, programs and the CMake package. Nothing of our own compile options leaks.
include(CMakePackageConfigHelpers)

get_property(targets GLOBAL PROPERTY MATRIXFSDP_TARGETS)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/MatrixFSDP")

install(TARGETS ${targets} EXPORT MatrixFSDPTargets
        RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY include/matrixfsdp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY apps/slurm DESTINATION "${CMAKE_INSTALL_DATADIR}/matrixfsdp" USE_SOURCE_PERMISSIONS)
install(EXPORT MatrixFSDPTargets NAMESPACE MatrixFSDP:: DESTINATION "${package_dir}")

# What a user of `target` links besides modules of ours, all the way down: a list in `variable`.
function(matrixfsdp_needs_of target variable)
  set(needs)
  get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
  foreach(link IN LISTS links)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" link "${link}")
    if(link MATCHES "^matrixfsdp_")
      matrixfsdp_needs_of(${link} more)
      list(APPEND needs ${more})
    elseif(link)
      list(APPEND needs ${link})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES needs)
  set(${variable} "${needs}" PARENT_SCOPE)
endfunction()

# "none" stands for itself: a list may not be empty, or the variable is not set.
set(MATRIXFSDP_COMPONENT_NEEDS)
foreach(target IN LISTS targets)
  matrixfsdp_needs_of(${target} needs)
  get_target_property(component ${target} EXPORT_NAME)
  if(NOT component)
    set(component ${target})
  endif()
  string(APPEND MATRIXFSDP_COMPONENT_NEEDS "set(MATRIXFSDP_NEEDED_BY_${component} none ${needs})\n")
endforeach()
configure_package_config_file(cmake/MatrixFSDPConfig.cmake.in "${PROJECT_BINARY_DIR}/MatrixFSDPConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/MatrixFSDPConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/MatrixFSDPConfig.cmake" "${PROJECT_BINARY_DIR}/MatrixFSDPConfigVersion.cmake"
              cmake/MatrixFSDPDependencies.cmake cmake/FindNCCL.cmake DESTINATION "${package_dir}")
