/* SPDX-License-Identifier: Apache-2.0 */
/* Concrete shapes for a model's inputs. */
#ifndef WF_ONNX_BIND_H
#define WF_ONNX_BIND_H

#include "onnx/onnx.h"

/* Fills out_types, one per input of the summary, from what the file says and the bindings give;
 * out_bindings[i] is the index of input i's binding, or SIZE_MAX. Equal symbols get equal sizes, also across
 * inputs. Errors as wf_onnx_to_graph says. */
wf_status_t wf_onnx_bind(const wf_onnx_summary_t *summary, const wf_onnx_binding_t *bindings,
                         size_t binding_count, wf_allocator_t allocator, wf_type_t *out_types,
                         size_t *out_bindings) WF_MUST_USE;

#endif
