# SPDX-License-Identifier: Apache-2.0
# gcc's OpenMP runtime, whatever the compiler: it is the pool below oneDNN (src/base/parallel_openmp.c).
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES gomp)
set(CMAKE_REQUIRED_FLAGS "-Wno-error -Wno-missing-prototypes")
check_c_source_compiles("
extern void GOMP_parallel(void (*fn)(void *), void *data, unsigned thread_count, unsigned flags);
int main(void) { GOMP_parallel(0, 0, 0, 0); return 0; }" WF_HAVE_LIBGOMP)
unset(CMAKE_REQUIRED_LIBRARIES)
unset(CMAKE_REQUIRED_FLAGS)
set(wf_libgomp)
if(WF_HAVE_LIBGOMP)
    set(wf_libgomp gomp)
    add_compile_definitions(WF_HAVE_LIBGOMP=1)
endif()
