# SPDX-License-Identifier: Apache-2.0
# Manual pages and shell completion, made by the command line from its tables of verbs and options.
set(WF_MANUAL_DIR ${PROJECT_BINARY_DIR}/manual)
file(MAKE_DIRECTORY ${WF_MANUAL_DIR})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tools/wayfinder/verbs.def)
file(STRINGS tools/wayfinder/verbs.def rows REGEX "^X\\(")

# OUTPUT FILE, arguments of `wayfinder generate`
function(wf_generate_manual output)
    add_custom_command(OUTPUT ${WF_MANUAL_DIR}/${output}
        COMMAND wayfinder_cli generate ${ARGN} > ${output}.part
        COMMAND ${CMAKE_COMMAND} -E rename ${output}.part ${output}
        WORKING_DIRECTORY ${WF_MANUAL_DIR} DEPENDS wayfinder_cli VERBATIM)
    set_property(GLOBAL APPEND PROPERTY WF_MANUALS ${WF_MANUAL_DIR}/${output})
endfunction()

foreach(row IN LISTS rows)
    string(REGEX REPLACE "^X\\([A-Z]+, ([a-z]+),.*" "\\1" verb "${row}")
    wf_generate_manual(wayfinder-${verb}.1 man ${verb})
    install(FILES ${WF_MANUAL_DIR}/wayfinder-${verb}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endforeach()
wf_generate_manual(wayfinder.bash bash)
wf_generate_manual(wayfinder.fish fish)
wf_generate_manual(_wayfinder zsh)
install(FILES ${WF_MANUAL_DIR}/wayfinder.bash RENAME wayfinder
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${WF_MANUAL_DIR}/wayfinder.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${WF_MANUAL_DIR}/_wayfinder DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

get_property(manuals GLOBAL PROPERTY WF_MANUALS)
add_custom_target(wayfinder_manuals ALL DEPENDS ${manuals})
