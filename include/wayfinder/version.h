/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYFINDER_VERSION_H
#define WAYFINDER_VERSION_H

#include "wayfinder/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WF_VERSION_MAJOR 0
#define WF_VERSION_MINOR 1
#define WF_VERSION_PATCH 0
#define WF_VERSION_TEXT "0.1.0"

/* The version of the library that is loaded, "0.1.0". Static. */
WF_API const char *wf_version(void);

#ifdef __cplusplus
}
#endif
#endif
