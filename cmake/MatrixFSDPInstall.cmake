# Installs headers, libraries, programs and the CMake package. Nothing of our own compile options leaks.
include(CMakePackageConfigHelpers)

get_property(targets GLOBAL PROPERTY MATRIXFSDP_TARGETS)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/MatrixFSDP")

install(TARGETS ${targets} EXPORT MatrixFSDPTargets
        RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY include/matrixfsdp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT MatrixFSDPTargets NAMESPACE MatrixFSDP:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/MatrixFSDPConfig.cmake.in "${PROJECT_BINARY_DIR}/MatrixFSDPConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/MatrixFSDPConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/MatrixFSDPConfig.cmake" "${PROJECT_BINARY_DIR}/MatrixFSDPConfigVersion.cmake"
              cmake/MatrixFSDPDependencies.cmake cmake/FindNCCL.cmake DESTINATION "${package_dir}")
