# SPDX-License-Identifier: Apache-2.0
# Native kernels: every source once per CPU tier, into wf_kernels_TIER; wf_kernel_objects lists all of them.
# NAME, floats in a vector, flags. More rows (scalar first) on x86-64 only.
set(wf_kernel_tiers scalar)
set(wf_kernel_vlen_scalar 4)
set(wf_kernel_flags_scalar)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    list(APPEND wf_kernel_tiers avx2 avx512)
    set(wf_kernel_vlen_avx2 8)
    set(wf_kernel_flags_avx2 -mavx2 -mfma -mf16c)
    set(wf_kernel_vlen_avx512 16)
    set(wf_kernel_flags_avx512
        -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512)
endif()

# -ffp-contract=fast: kernels are written for fused multiply-add. The two others keep scalar sqrt and compares from
# becoming library calls and branches; no result changes.
set(wf_kernel_common_flags -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wno-psabi)
if(WF_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    list(APPEND wf_kernel_common_flags -O1)
else()
    list(APPEND wf_kernel_common_flags -O3)
endif()

wf_glob(wf_kernel_sources src/backends/native/kernels/*.c)
set(wf_kernel_objects)
if(wf_kernel_sources)
    foreach(tier IN LISTS wf_kernel_tiers)
        add_library(wf_kernels_${tier} OBJECT ${wf_kernel_sources})
        target_include_directories(wf_kernels_${tier} PRIVATE include src)
        target_compile_definitions(wf_kernels_${tier} PRIVATE WF_TIER=${tier} WF_VLEN=${wf_kernel_vlen_${tier}})
        target_compile_options(wf_kernels_${tier} PRIVATE ${wf_kernel_common_flags} ${wf_kernel_flags_${tier}})
        list(APPEND wf_kernel_objects $<TARGET_OBJECTS:wf_kernels_${tier}>)
    endforeach()
endif()
