/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side: answers a tuner until it goes away. */
#ifndef WF_TUNE_WORKER_SERVE_H
#define WF_TUNE_WORKER_SERVE_H

#include "base/mem.h"

/* Serves requests on `socket` (descriptor 3 of the worker program) until the other end closes it; WF_OK then.
 * INTERNAL when what comes is no message. */
wf_status_t wf_worker_serve(int socket, wf_allocator_t allocator) WF_MUST_USE;

#endif
