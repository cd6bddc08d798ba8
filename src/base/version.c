/* SPDX-License-Identifier: Apache-2.0 */
#include "wayfinder/version.h"

const char *wf_version(void)
{
    return WF_VERSION_TEXT;
}
