/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WF_BASE_CLOCK_H
#define WF_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t wf_clock_ns(void);

#endif
