/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention, f32: one head an item (kernels/attention.h). Heads are read where they lie, through the
 * permutations of the problem, so that the transposes around attention cost nothing. */
#include "backends/native/native.h"
#include "base/compiler.h"

enum { Q, K, V, MASK, SIDES = 3 };     /* operands */
enum { QUERY_BLOCK, KEY_BLOCK, ROWS }; /* params */

/* One side in the order [batch dims.., rows, cols]. */
typedef struct attention_side {
    int64_t dims[WF_MAX_RANK], strides[WF_MAX_RANK];
} attention_side_t;

typedef struct attention_case {
    uint32_t rank;
    attention_side_t sides[SIDES], out, mask;
    bool has_mask;
    bool packed[SIDES]; /* rows are not contiguous: copied head by head into the thread's scratch */
    int64_t heads;      /* product of the batch dims */
    wf_attention_args args;
} attention_case_t;

/* dims and strides of a dense tensor after a permutation; identity when there is none. */
static bool permuted(const wf_problem_t *problem, const char *name, const wf_type_t *type,
                     attention_side_t *out)
{
    size_t count;
    const int64_t *perm = wf_attrs_ints(&problem->stages[0].attrs, name, &count);
    int64_t strides[WF_MAX_RANK], stride = 1;
    if (perm != NULL && count != type->rank)
        return false;
    for (uint32_t d = type->rank; d-- > 0;) {
        strides[d] = stride;
        stride *= type->dims[d];
    }
    for (uint32_t d = 0; d < type->rank; d++) {
        int64_t from = perm != NULL ? perm[d] : d;
        if (from < 0 || from >= type->rank)
            return false;
        out->dims[d] = type->dims[from];
        out->strides[d] = strides[from];
    }
    return true;
}

/* out_perm brings the result to memory order: result dim out_perm[d] is memory dim d. */
static bool result_side(const wf_problem_t *problem, attention_side_t *out)
{
    const wf_type_t *type = &problem->outputs[0];
    size_t count;
    const int64_t *perm = wf_attrs_ints(&problem->stages[0].attrs, "out_perm", &count);
    int64_t stride = 1;
    if (perm != NULL && count != type->rank)
        return false;
    for (uint32_t d = type->rank; d-- > 0;) {
        int64_t to = perm != NULL ? perm[d] : d;
        if (to < 0 || to >= type->rank)
            return false;
        out->dims[to] = type->dims[d];
        out->strides[to] = stride;
        stride *= type->dims[d];
    }
    return true;
}

static bool resolve(const wf_problem_t *problem, attention_case_t *c)
{
    static const char *const perms[SIDES] = {"q_perm", "k_perm", "v_perm"};
    *c = (attention_case_t){.rank = problem->operands[Q].type.rank, .heads = 1};
    if (c->rank < 2)
        return false;
    for (int s = 0; s < SIDES; s++) {
        if (problem->operands[s].type.rank != c->rank || wf_type_elems(&problem->operands[s].type) <= 0)
            return false;
        if (!permuted(problem, perms[s], &problem->operands[s].type, &c->sides[s]))
            return false;
    }
    if (!result_side(problem, &c->out))
        return false;
    uint32_t row = c->rank - 2, col = c->rank - 1;
    for (int s = 0; s < SIDES; s++) {
        c->packed[s] = c->sides[s].strides[col] != 1 && c->sides[s].dims[col] != 1;
        for (uint32_t d = 0; d < row; d++) {
            if (c->sides[s].dims[d] != c->out.dims[d]) {
                if (c->sides[s].dims[d] != 1)
                    return false;
                c->sides[s].strides[d] = 0;
            }
        }
    }
    if (c->out.strides[col] != 1 && c->out.dims[col] != 1)
        return false;
    for (uint32_t d = 0; d < row; d++)
        c->heads *= c->out.dims[d];
    c->args = (wf_attention_args){.queries = c->sides[Q].dims[row],
                                  .keys = c->sides[K].dims[row],
                                  .depth = c->sides[Q].dims[col],
                                  .value_depth = c->sides[V].dims[col],
                                  .q_stride = c->sides[Q].strides[row],
                                  .k_stride = c->sides[K].strides[row],
                                  .v_stride = c->sides[V].strides[row],
                                  .y_stride = c->out.strides[row],
                                  .scale = wf_attrs_float(&problem->stages[0].attrs, "scale", 1)};
    int64_t *strides[SIDES] = {&c->args.q_stride, &c->args.k_stride, &c->args.v_stride};
    for (int s = 0; s < SIDES; s++) {
        if (c->packed[s])
            *strides[s] = c->sides[s].dims[col];
    }
    c->has_mask = problem->operand_count > MASK && problem->operands[MASK].type.dtype != WF_DTYPE_NONE;
    if (!c->has_mask)
        return true;
    /* The mask is broadcast to [batch dims.., queries, keys]. */
    const wf_type_t *mask = &problem->operands[MASK].type;
    int64_t stride = 1, want[WF_MAX_RANK];
    if (mask->rank > c->rank)
        return false;
    for (uint32_t d = 0; d < row; d++)
        want[d] = c->out.dims[d];
    want[row] = c->args.queries;
    want[col] = c->args.keys;
    for (uint32_t d = c->rank; d-- > 0;) {
        uint32_t missing = c->rank - mask->rank;
        int64_t dim = d < missing ? 1 : mask->dims[d - missing];
        if (dim != 1 && dim != want[d])
            return false;
        c->mask.strides[d] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
    c->args.mask_query_stride = c->mask.strides[row];
    c->args.mask_key_stride = c->mask.strides[col];
    return true;
}

static wf_native_verdict_t match(const wf_native_t *native, const wf_problem_t *problem)
{
    (void)native;
    attention_case_t c;
    if (problem->stages[0].op != WF_OP_W_ATTENTION)
        return WF_NATIVE_NO(OPERATOR, NULL);
    if (problem->stage_count != 1)
        return WF_NATIVE_NO(OPERATOR, "no epilogue");
    if (!wf_native_all_f32(problem))
        return WF_NATIVE_NO(TYPE, "element types other than f32");
    for (int s = 0; s < SIDES; s++) {
        if (problem->operands[s].is_const)
            return WF_NATIVE_NO(SHAPE, "a side is constant");
    }
    if (!resolve(problem, &c))
        return WF_NATIVE_NO(SHAPE, "dims do not broadcast, or the result's rows are not contiguous");
    return WF_NATIVE_FITS;
}

static size_t variants(const wf_native_t *native, const wf_problem_t *problem,
                       wf_native_variant_t *out_variants, size_t capacity)
{
    (void)capacity;
    static const int32_t query_blocks[] = {32, 48, 64};
    attention_case_t c;
    if (!resolve(problem, &c))
        return 0;
    int64_t threads = WF_MAX(native->cpu.thread_count, 1u);
    int32_t keys = (int32_t)WF_MIN((c.args.keys + 31) / 32 * 32, (int64_t)256);
    int32_t rows = (int32_t)WF_MIN(c.args.queries, (int64_t)1 << 20);
    if (c.heads < 2 * threads)
        rows = (int32_t)WF_MIN((int64_t)rows, WF_MAX(c.args.queries / (2 * threads) + 1, (int64_t)64));
    for (size_t i = 0; i < WF_COUNT_OF(query_blocks); i++) {
        out_variants[i].params[QUERY_BLOCK] = query_blocks[i];
        out_variants[i].params[KEY_BLOCK] = keys;
        out_variants[i].params[ROWS] = rows;
    }
    return WF_COUNT_OF(query_blocks);
}

static bool apply_params(const int32_t *params, attention_case_t *c)
{
    c->args.query_block = params[QUERY_BLOCK];
    c->args.key_block = params[KEY_BLOCK];
    return params[QUERY_BLOCK] >= 1 && params[QUERY_BLOCK] <= 1024 && params[KEY_BLOCK] >= 32 &&
           params[KEY_BLOCK] % 32 == 0 && params[KEY_BLOCK] <= 65536 && params[ROWS] >= 1;
}

/* Floats of a side's copy, 64-byte aligned. */
static size_t packed_floats(const attention_case_t *c, int side)
{
    int64_t floats = c->sides[side].dims[c->rank - 2] * c->sides[side].dims[c->rank - 1];
    return c->packed[side] ? (size_t)(floats + 15) / 16 * 16 : 0;
}

static size_t thread_scratch_bytes(const attention_case_t *c, int64_t rows)
{
    size_t bytes =
        (size_t)(wf_attention_scratch_bytes(&c->args, WF_MIN(rows, c->args.queries)) + 63) / 64 * 64;
    for (int s = 0; s < SIDES; s++)
        bytes += packed_floats(c, s) * sizeof(float);
    return bytes;
}

static wf_native_verdict_t plan(const wf_native_t *native, const wf_problem_t *problem,
                                const wf_native_variant_t *variant, wf_native_plan_t *plan)
{
    attention_case_t c;
    if (!resolve(problem, &c) || !apply_params(variant->params, &c))
        return WF_NATIVE_NO(SHAPE, "the plan does not fit");
    plan->needs.workspace_bytes =
        thread_scratch_bytes(&c, variant->params[ROWS]) * WF_MAX(native->cpu.thread_count, 1u);
    double scores = (double)c.heads * (double)c.args.queries * (double)c.args.keys;
    double flops = scores * (2.0 * (double)(c.args.depth + c.args.value_depth) + 40);
    plan->estimate_ns =
        wf_native_estimate_ns(native, variant->tier, flops, 0.6, wf_problem_bytes(problem), 1) +
        (variant->params[QUERY_BLOCK] == 48 ? 0 : 1);
    return WF_NATIVE_FITS;
}

static wf_status_t prepare(wf_kernel_t *kernel, const wf_tensor_t *constants)
{
    attention_case_t *c = NULL;
    WF_TRY(wf_arena_alloc(&kernel->memory, 1, sizeof *c, &c));
    if (!resolve(kernel->problem, c) || !apply_params(kernel->variant->params, c)) {
        return WF_ERROR(INTERNAL, "attention refused after planning");
    }
    kernel->keeps_constants = c->has_mask && constants[MASK].data != NULL;
    kernel->state = c;
    return WF_OK;
}

/* One head's rows side by side. Blocks of 16 by 16 keep both sides in whole cache lines. */
static void pack_side(const attention_case_t *c, int side, const float *from, float *to)
{
    enum { BLOCK = 16 };
    int64_t rows = c->sides[side].dims[c->rank - 2], cols = c->sides[side].dims[c->rank - 1];
    int64_t row_stride = c->sides[side].strides[c->rank - 2],
            col_stride = c->sides[side].strides[c->rank - 1];
    for (int64_t r0 = 0; r0 < rows; r0 += BLOCK) {
        for (int64_t c0 = 0; c0 < cols; c0 += BLOCK) {
            int64_t r1 = WF_MIN(r0 + BLOCK, rows), c1 = WF_MIN(c0 + BLOCK, cols);
            for (int64_t r = r0; r < r1; r++) {
                for (int64_t k = c0; k < c1; k++)
                    to[r * cols + k] = from[r * row_stride + k * col_stride];
            }
        }
    }
}

typedef struct attention_run {
    const attention_case_t *c;
    wf_attention_f32_fn *fn;
    const float *sides[SIDES], *mask;
    float *out;
    uint8_t *scratch;
    size_t thread_scratch_bytes;
    int64_t rows_per_item, items_per_head;
} attention_run_t;

static void run_item(void *arg, size_t item, uint32_t thread)
{
    const attention_run_t *run = arg;
    const attention_case_t *c = run->c;
    wf_attention_args args = c->args;
    int64_t head = (int64_t)item / run->items_per_head, part = (int64_t)item % run->items_per_head;
    int64_t offsets[SIDES] = {0}, out = 0, mask = 0;
    for (uint32_t d = c->rank - 2; d-- > 0;) {
        int64_t index = head % c->out.dims[d];
        head /= c->out.dims[d];
        for (int s = 0; s < SIDES; s++)
            offsets[s] += index * c->sides[s].strides[d];
        out += index * c->out.strides[d];
        mask += index * c->mask.strides[d];
    }
    uint8_t *scratch = run->scratch + thread * run->thread_scratch_bytes;
    const float *sides[SIDES];
    for (int s = 0; s < SIDES; s++) {
        sides[s] = run->sides[s] + offsets[s];
        if (!c->packed[s])
            continue;
        pack_side(c, s, sides[s], (float *)(void *)scratch);
        sides[s] = (const float *)(const void *)scratch;
        scratch += packed_floats(c, s) * sizeof(float);
    }
    args.q = sides[Q];
    args.k = sides[K];
    args.v = sides[V];
    args.mask = run->mask != NULL ? run->mask + mask : NULL;
    args.y = run->out + out;
    int64_t begin = part * run->rows_per_item, end = WF_MIN(begin + run->rows_per_item, args.queries);
    run->fn(&args, begin, end, scratch);
}

static wf_status_t launch(const wf_kernel_t *kernel, const wf_view_t *operands, const wf_view_t *outputs,
                          void *workspace, const wf_parallel_t *parallel)
{
    const attention_case_t *c = kernel->state;
    attention_run_t run = {.c = c,
                           .fn = kernel->tier->attention,
                           .out = outputs[0].data,
                           .scratch = workspace,
                           .rows_per_item = WF_MIN((int64_t)kernel->variant->params[ROWS], c->args.queries)};
    for (int s = 0; s < SIDES; s++)
        run.sides[s] = operands[s].data;
    if (c->has_mask)
        run.mask =
            kernel->problem->operands[MASK].is_const ? kernel->constants[MASK].data : operands[MASK].data;
    run.thread_scratch_bytes = thread_scratch_bytes(c, run.rows_per_item);
    run.items_per_head = (c->args.queries + run.rows_per_item - 1) / run.rows_per_item;
    parallel->run(parallel->self, (size_t)(c->heads * run.items_per_head), run_item, &run);
    return WF_OK;
}

const wf_native_family_t wf_native_family_attention = {
    .name = "attention",
    .revision = 1,
    .has_tier = true,
    .keys = {"qb", "kb", "r", NULL},
    .match = match,
    .variants = variants,
    .plan = plan,
    .prepare = prepare,
    .launch = launch,
};
