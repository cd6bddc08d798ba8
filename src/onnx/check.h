/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that can be said about a model before shapes are known. */
#ifndef WF_ONNX_CHECK_H
#define WF_ONNX_CHECK_H

#include "onnx/model.h"

/* Fills the list of problems in one sweep, brings nodes into topological order, and marks outputs that
 * nothing reads. Nodes that no output depends on are only checked for their names. Bodies of If are left to
 * the importer, which knows what is run. Fails only for want of memory. */
wf_status_t wf_onnx_check(wf_onnx_model_t *model) WF_MUST_USE;

#endif
