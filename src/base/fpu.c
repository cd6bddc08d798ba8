/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parallel.h"

#if defined(__x86_64__) || defined(__i386__)

/* MXCSR (Intel SDM volume 1, 10.2.3): bits 0-5 are sticky exception flags, no settings. */
#define WF_FPU_FLAGS 0x3fu
#define WF_FPU_FAST 0x8040u /* bit 15 flush to zero, bit 6 denormals are zero */

static uint32_t wf_fpu_register(void)
{
    return __builtin_ia32_stmxcsr();
}

static void wf_fpu_register_set(uint32_t value)
{
    __builtin_ia32_ldmxcsr(value);
}

#elif defined(__aarch64__)

#define WF_FPU_FLAGS 0u
#define WF_FPU_FAST (1u << 24) /* FPCR.FZ: both directions */

static uint32_t wf_fpu_register(void)
{
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return (uint32_t)value;
}

static void wf_fpu_register_set(uint32_t value)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)value));
}

#else

#define WF_FPU_FLAGS 0u
#define WF_FPU_FAST 0u

static uint32_t wf_fpu_register(void)
{
    return 0;
}

static void wf_fpu_register_set(uint32_t value)
{
    (void)value;
}

#endif

uint32_t wf_fpu_state(void)
{
    return wf_fpu_register() & ~WF_FPU_FLAGS;
}

uint32_t wf_fpu_fast(void)
{
    uint32_t old_state = wf_fpu_state();
    wf_fpu_restore(old_state | WF_FPU_FAST);
    return old_state;
}

uint32_t wf_fpu_exact(void)
{
    uint32_t old_state = wf_fpu_state();
    wf_fpu_restore(old_state & ~WF_FPU_FAST);
    return old_state;
}

void wf_fpu_restore(uint32_t old_state)
{
    uint32_t value = wf_fpu_register();
    if ((value & ~WF_FPU_FLAGS) != old_state) {
        wf_fpu_register_set((value & WF_FPU_FLAGS) | old_state);
    }
}
