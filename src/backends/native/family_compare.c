/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons of integers with broadcasting, also as the floats of a mask or a one-hot encoding
 * (kernels/compare.h).
 *
 * The dims of the output are merged where both inputs run on evenly; the innermost is a run of the kernel.
 */
#include <string.h>

#include "backends/native/rows_run.h"
#include "base/compiler.h"

/* Elements of an item: about 5 us of writing. */
#define ITEM_MIN_ELEMS 16384
/* Finding the place of a run: a guess, not measured. */
#define RUN_NS 15.0

static const struct {
    wf_op_t op;
    wf_compare_relation relation;
    bool swapped;
} relations[] = {
    {WF_OP_EQUAL, WF_COMPARE_EQUAL, false},
    {WF_OP_LESS, WF_COMPARE_LESS, false},
    {WF_OP_LESS_OR_EQUAL, WF_COMPARE_LESS_EQUAL, false},
    {WF_OP_GREATER, WF_COMPARE_LESS, true},
    {WF_OP_GREATER_OR_EQUAL, WF_COMPARE_LESS_EQUAL, true},
};

/* Index into relations; their count when there is none. */
static size_t find_relation(wf_op_t op)
{
    size_t i = 0;
    while (i < WF_COUNT_OF(relations) && relations[i].op != op)
        i++;
    return i;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    const wf_problem_stage_t *root = &problem->stages[0];
    if (find_relation(root->op) == WF_COUNT_OF(relations))
        return WF_NATIVE_NO(OPERATOR, NULL);
    wf_dtype_t in = problem->operands[0].type.dtype, out = problem->outputs[0].dtype;
    if ((in != WF_DTYPE_I32 && in != WF_DTYPE_I64) || (out != WF_DTYPE_BOOL && out != WF_DTYPE_F32))
        return WF_NATIVE_NO(TYPE, "i32 or i64 to bool or f32 only");
    if (problem->output_count != 1 || problem->operand_count != 2 || problem->stage_count > 2)
        return WF_NATIVE_NO(OPERATOR, "no epilogue but a cast");
    if (problem->stage_count == 2 && problem->stages[1].op != WF_OP_CAST)
        return WF_NATIVE_NO(OPERATOR, "no epilogue but a cast");
    if (wf_type_elems(&problem->outputs[0]) <= 0)
        return WF_NATIVE_NO(SHAPE, "empty");
    return WF_NATIVE_FITS;
}

/* The output as dims, outermost first, with the strides of x and y along them; 0 where they are spread. */
typedef struct compare_walk {
    uint32_t rank; /* at least 1 */
    int64_t dims[WF_MAX_RANK + 1], strides[2][WF_MAX_RANK + 1];
} compare_walk_t;

static compare_walk_t walk_of(const wf_problem_t *problem)
{
    const wf_type_t *out = &problem->outputs[0];
    compare_walk_t all = {.rank = out->rank}, walk = {0};
    memcpy(all.dims, out->dims, out->rank * sizeof *out->dims);
    for (uint32_t i = 0; i < 2; i++) {
        const wf_type_t *in = &problem->operands[i].type;
        int64_t dense = 1;
        for (uint32_t back = 1; back <= in->rank; back++) {
            int64_t dim = in->dims[in->rank - back];
            all.strides[i][out->rank - back] = dim == 1 ? 0 : dense;
            dense *= dim;
        }
    }
    for (uint32_t d = 0; d < all.rank; d++) {
        if (all.dims[d] == 1)
            continue;
        bool even = walk.rank > 0;
        for (uint32_t i = 0; even && i < 2; i++)
            even = walk.strides[i][walk.rank - 1] == all.strides[i][d] * all.dims[d];
        uint32_t to = even ? walk.rank - 1 : walk.rank++;
        walk.dims[to] = even ? walk.dims[to] * all.dims[d] : all.dims[d];
        for (uint32_t i = 0; i < 2; i++)
            walk.strides[i][to] = all.strides[i][d];
    }
    if (walk.rank == 0)
        walk.dims[walk.rank++] = 1;
    return walk;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    compare_walk_t walk = walk_of(problem);
    double elems = (double)wf_type_elems(&problem->outputs[0]);
    plan->estimate_ns = wf_native_estimate_ns(native, variant->tier, 2 * elems, 0.25,
                                              wf_problem_bytes(problem), elems > ITEM_MIN_ELEMS ? 1 : 0) +
                        RUN_NS * elems / (double)walk.dims[walk.rank - 1];
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    kernel->keeps_constants = constants[0].data != NULL || constants[1].data != NULL;
    return WF_OK;
}

typedef struct compare_run {
    compare_walk_t walk;
    wf_compare_args args;
    wf_compare_fn *fn;
    const uint8_t *in[2];
    uint8_t *out;
    bool swapped;
} compare_run_t;

static void run_elems(void *self, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const compare_run_t *run = self;
    const compare_walk_t *walk = &run->walk;
    uint32_t last = walk->rank - 1;
    int64_t out_bytes = run->args.to_f32 ? (int64_t)sizeof(float) : 1;
    for (int64_t at = begin, count; at < end; at += count) {
        int64_t col = at % walk->dims[last], rest = at / walk->dims[last];
        int64_t offsets[2] = {col * walk->strides[0][last], col * walk->strides[1][last]};
        for (uint32_t d = last; d-- > 0; rest /= walk->dims[d]) {
            offsets[0] += rest % walk->dims[d] * walk->strides[0][d];
            offsets[1] += rest % walk->dims[d] * walk->strides[1][d];
        }
        count = WF_MIN(walk->dims[last] - col, end - at);
        const uint8_t *in[2] = {run->in[0] + offsets[0] * run->args.elem_bytes,
                                run->in[1] + offsets[1] * run->args.elem_bytes};
        run->fn(&run->args, in[run->swapped ? 1 : 0], in[run->swapped ? 0 : 1], run->out + at * out_bytes,
                count);
    }
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    (void)workspace;
    const wf_problem_t *problem = kernel->problem;
    size_t relation = find_relation(problem->stages[0].op);
    bool swapped = relations[relation].swapped;
    compare_run_t run = {
        .walk = walk_of(problem), .fn = kernel->tier->compare, .out = outputs[0].data, .swapped = swapped};
    for (uint32_t i = 0; i < 2; i++)
        run.in[i] = problem->operands[i].is_const ? kernel->constants[i].data : operands[i].data;
    uint32_t last = run.walk.rank - 1;
    run.args = (wf_compare_args){
        .relation = relations[relation].relation,
        .elem_bytes = problem->operands[0].type.dtype == WF_DTYPE_I32 ? 4 : 8,
        .to_f32 = problem->outputs[0].dtype == WF_DTYPE_F32,
        .x_step = (int32_t)run.walk.strides[swapped ? 1 : 0][last],
        .y_step = (int32_t)run.walk.strides[swapped ? 0 : 1][last],
    };
    wf_native_rows_run(parallel, wf_type_elems(&problem->outputs[0]), ITEM_MIN_ELEMS, run_elems, &run, NULL,
                       0);
    return WF_OK;
}

const wf_native_family_t wf_native_family_compare = {
    .name = "compare",
    .revision = 1,
    .has_tier = true,
    .match = match,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
