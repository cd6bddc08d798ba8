# SPDX-License-Identifier: Apache-2.0
# Compiler and linker options of every target.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g")

add_compile_definitions(_GNU_SOURCE)
add_compile_options(
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
    -ffp-contract=off # one rounding per operation, as the reference says; kernels choose for themselves
    -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= # no path of the building machine in messages or debug data
)
if(WF_WERROR)
    add_compile_options(-Werror)
endif()
add_link_options(-Wl,--as-needed -Wl,-z,relro -Wl,-z,now)

if(WF_SANITIZE)
    # -O1: optimised kernels under a sanitizer take minutes to compile and are no faster to run.
    add_compile_options(-O1 -g -fno-omit-frame-pointer -fsanitize=${WF_SANITIZE} -fno-sanitize-recover=all)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # Instrumented code hides from gcc what is known of lengths: it warns of texts that the plain builds prove to fit.
        add_compile_options(-Wno-restrict -Wno-format-truncation)
    endif()
    add_link_options(-fsanitize=${WF_SANITIZE})
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    add_compile_options(-fstack-protector-strong -D_FORTIFY_SOURCE=2)
endif()
if(WF_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
