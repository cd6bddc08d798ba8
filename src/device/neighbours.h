/* SPDX-License-Identifier: Apache-2.0 */
/* Others on the machine: what Linux tells of who else uses the CPU. Files are read below `root` ("" on a real
 * machine). What cannot be read is said to be unknown. */
#ifndef WF_DEVICE_NEIGHBOURS_H
#define WF_DEVICE_NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>

/* Counters of all CPUs since the machine started, in clock ticks. */
typedef struct wf_cpu_ticks {
    bool known;
    uint64_t total, idle, steal;
    uint32_t running; /* threads that run or want to, the caller among them */
} wf_cpu_ticks_t;
wf_cpu_ticks_t wf_cpu_ticks(const char *root);
/* True when the caller alone wants to run: the median of a few looks within 10 ms. Unknown: false. */
bool wf_machine_quiet(const char *root);

#endif
