/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU tiers that have kernel objects. A header declares its symbols once per tier with this list, and a
 * dispatcher fills one table per tier with the same list. */
#ifndef WF_NATIVE_TIERS_H
#define WF_NATIVE_TIERS_H

/* X(suffix of the symbols) */
#ifdef __x86_64__
#define WF_KERNEL_TIERS(X) X(scalar) X(avx2) X(avx512)
#else
#define WF_KERNEL_TIERS(X) X(scalar)
#endif

/* Widest vector of any tier, in floats. What is packed for every tier is padded to this. */
#define WF_VLEN_MAX 16

#endif
