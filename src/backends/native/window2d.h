/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of 1-D and 2-D convolutions and pools as the kernels want them. */
#ifndef WF_NATIVE_WINDOW2D_H
#define WF_NATIVE_WINDOW2D_H

#include "backends/native/native.h"

/* 1-D windows have one row. */
typedef struct wf_window2d {
    int32_t images, channels, in_h, in_w, out_h, out_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t pad_top, pad_left, pad_bottom, pad_right;
} wf_window2d_t;

/* Resolves the root stage of a convolution or pool over operand 0. False for 3-D, empty, negative padding or
 * sizes beyond 2^29: the kernels do not take those. */
bool wf_native_window2d(const wf_problem_t *problem, const wf_type_t *kernel_from, wf_window2d_t *out_window);

#endif
