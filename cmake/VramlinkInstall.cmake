# What is installed, and how another project finds it: find_package(vramlink) and vramlink.pc.
if(NOT VRAMLINK_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/vramlink")

install(TARGETS vramlink EXPORT vramlinkTargets
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/vramlink"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(EXPORT vramlinkTargets NAMESPACE vramlink:: DESTINATION "${package_folder}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/vramlinkConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/vramlinkConfig.cmake"
  INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/vramlinkConfigVersion.cmake"
  VERSION ${PROJECT_VERSION}
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/vramlinkConfig.cmake"
  "${PROJECT_BINARY_DIR}/vramlinkConfigVersion.cmake"
  DESTINATION "${package_folder}")

# The .pc file finds everything from its own place, so a copied install tree still works.
cmake_path(SET pc_folder NORMALIZE "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(VRAMLINK_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(VRAMLINK_PC_LIBDIR "${CMAKE_INSTALL_FULL_LIBDIR}")
  set(VRAMLINK_PC_INCLUDEDIR "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
  file(RELATIVE_PATH up "/prefix/${pc_folder}" "/prefix")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(VRAMLINK_PC_PREFIX "\${pcfiledir}/${up}")
  set(VRAMLINK_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(VRAMLINK_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/vramlink.pc.in" "${PROJECT_BINARY_DIR}/vramlink.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/vramlink.pc" DESTINATION "${pc_folder}")

if(TARGET vramlink_cli)
  file(RELATIVE_PATH to_library
    "/prefix/${CMAKE_INSTALL_BINDIR}" "/prefix/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(vramlink_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${to_library}")
  install(TARGETS vramlink_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(FILES
  "${PROJECT_SOURCE_DIR}/LICENSE"
  "${PROJECT_SOURCE_DIR}/NOTICE"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}")
