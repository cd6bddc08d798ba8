# SPDX-License-Identifier: Apache-2.0

# Sources below the root that match, seen again on every build, without those named in WF_SKIP. Recursive.
function(wf_glob out_list)
    set(patterns ${ARGN})
    list(TRANSFORM patterns PREPEND ${PROJECT_SOURCE_DIR}/)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
    foreach(skipped IN LISTS WF_SKIP)
        list(FILTER sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/${skipped}")
    endforeach()
    list(SORT sources)
    set(${out_list} ${sources} PARENT_SCOPE)
endfunction()

# Adds the objects of src/FOLDER to the list `objects`; a folder without sources adds nothing.
function(wf_add_folder folder objects)
    wf_glob(sources src/${folder}/*.c)
    list(FILTER sources EXCLUDE REGEX "/backends/native/kernels/") # cmake/kernels.cmake
    if(sources)
        add_library(wf_${folder} OBJECT ${sources})
        target_include_directories(wf_${folder} PRIVATE include src)
        set(${objects} ${${objects}} $<TARGET_OBJECTS:wf_${folder}> PARENT_SCOPE)
    endif()
endfunction()
