# SPDX-License-Identifier: Apache-2.0
install(TARGETS wayfinder_rt wayfinder)
install(DIRECTORY include/wayfinder DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
foreach(file LICENSE THIRD_PARTY.md)
    if(EXISTS ${PROJECT_SOURCE_DIR}/${file})
        install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DOCDIR})
    endif()
endforeach()

# The files find their prefix from where they lie, so that `cmake --install --prefix` and staged installs work.
file(RELATIVE_PATH WF_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})

# NAME, description
function(wf_install_pkg_config WF_PC_NAME WF_PC_DESCRIPTION)
    configure_file(cmake/library.pc.in ${WF_PC_NAME}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${WF_PC_NAME}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
wf_install_pkg_config(wayfinder "Inference compiler with a global performance tuner")
wf_install_pkg_config(wayfinder_rt "Loads and runs engines that Wayfinder built")

configure_file(cmake/uninstall.cmake.in uninstall.cmake @ONLY)
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${PROJECT_BINARY_DIR}/uninstall.cmake)
