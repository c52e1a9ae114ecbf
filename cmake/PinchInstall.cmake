# Installs the library (not the workbench) with its CMake package: find_package(pinch) then link pinch::pinch.
include(CMakePackageConfigHelpers)
get_property(pinch_libraries GLOBAL PROPERTY PINCH_LIBRARIES)

add_library(pinch INTERFACE)
add_library(pinch::pinch ALIAS pinch)
target_link_libraries(pinch INTERFACE ${pinch_libraries})

install(TARGETS ${pinch_libraries} pinch EXPORT pinchTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/pinch DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(PINCH_BUILD_APPS)
  install(TARGETS pinch_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS pinch_peers LIBRARY DESTINATION libexec/pinch)
  # The program knows its commands; a sanitised one might say more than that.
  if(NOT PINCH_SANITIZE)
    set(pinch_man ${PROJECT_BINARY_DIR}/share/pinch.1)
    set(pinch_bash ${PROJECT_BINARY_DIR}/share/pinch)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share)
    add_custom_command(OUTPUT ${pinch_man} ${pinch_bash}
      COMMAND pinch_app generate man > ${pinch_man} COMMAND pinch_app generate bash > ${pinch_bash}
      DEPENDS pinch_app COMMENT "Writing the man page and the shell completion" VERBATIM)
    add_custom_target(pinch_pages ALL DEPENDS ${pinch_man} ${pinch_bash})
    install(FILES ${pinch_man} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${pinch_bash} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  endif()
endif()

if(PINCH_CUDA_ENABLED)
  set(PINCH_CUDA_DEPENDENCY "find_dependency(CUDAToolkit)")
endif()
set(pinch_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pinch)
install(EXPORT pinchTargets NAMESPACE pinch:: DESTINATION ${pinch_package_dir})
export(EXPORT pinchTargets NAMESPACE pinch:: FILE ${PROJECT_BINARY_DIR}/pinchTargets.cmake)
configure_package_config_file(cmake/pinchConfig.cmake.in ${PROJECT_BINARY_DIR}/pinchConfig.cmake
                              INSTALL_DESTINATION ${pinch_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pinchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pinchConfig.cmake ${PROJECT_BINARY_DIR}/pinchConfigVersion.cmake
        DESTINATION ${pinch_package_dir})
