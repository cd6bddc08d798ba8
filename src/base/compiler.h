/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler extensions the product uses, in one place. */
#ifndef WF_BASE_COMPILER_H
#define WF_BASE_COMPILER_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WF_ALWAYS_INLINE static inline __attribute__((always_inline, unused))
#define WF_UNUSED __attribute__((unused))
#define WF_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define WF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define WF_MAX(a, b) ((a) > (b) ? (a) : (b))
#define WF_CACHE_LINE_BYTES 64u

/* Tells the core that this is a spin loop. */
#if defined(__x86_64__) || defined(__i386__)
#define WF_CPU_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define WF_CPU_PAUSE() __asm__ volatile("yield")
#else
#define WF_CPU_PAUSE() ((void)0)
#endif

/* A type that may lie at any address and alias any other: `typedef WF_UNALIGNED(float) wf_f32_any_t`. Tensors
 * of a mapped file are not aligned. */
#define WF_UNALIGNED(type) type __attribute__((aligned(1), may_alias))

/* A function compiled for the baseline and once more for AVX2, chosen when the program is loaded. Needs the
 * indirect functions of glibc; the resolvers run before a sanitizer is ready, so not under those. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define WF_TARGET_CLONES
#endif
#endif
#ifndef WF_TARGET_CLONES
#define WF_TARGET_CLONES __attribute__((target_clones("avx2", "default")))
#endif
#else
#define WF_TARGET_CLONES
#endif

#endif
