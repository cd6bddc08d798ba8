/* SPDX-License-Identifier: Apache-2.0 */
/* sink_transposes: op(transpose(x)) becomes transpose(op(x)), so that Transposes move towards the outputs
 * until they meet: two in a row become one, or none. What they pass: elementwise operators (constants are
 * permuted the other way, other operands must be transposed alike), reductions, softmax, Concat, Slice, Pad,
 * (de)quantisation, Reshapes that only add or drop dims of 1, and what works on the last dim only (MatMul by
 * a matrix, LayerNormalization) when that dim stays last.
 *
 * A Transpose that is read by others too is passed only when they let it pass as well; otherwise it would be
 * there twice. Nor does one pass an operator that makes its data larger. */
#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

enum { MAX_INPUTS = 64, MAX_READERS = 16 };

typedef enum passage {
    PASSAGE_NONE,
    PASSAGE_ELEMENTWISE, /* any number of operands, broadcast */
    PASSAGE_AXIS,        /* attribute "axis", first operand */
    PASSAGE_CONCAT,      /* attribute "axis", all operands */
    PASSAGE_LAST_DIM,    /* first operand, when its last dim stays last */
    PASSAGE_REDUCE,      /* attribute "axes", dims may go */
    PASSAGE_SLICE,
    PASSAGE_PAD,
    PASSAGE_RESHAPE, /* that only adds or drops dims of 1 */
    PASSAGE_TRANSPOSE
} passage_t;

static passage_t passage_of(const wf_graph_t *graph, const wf_node_t *node)
{
    wf_tensor_t weight;
    if (wf_op_info(node->op)->flags & WF_OP_FLAG_EW) {
        return PASSAGE_ELEMENTWISE;
    }
    switch (node->op) {
    case WF_OP_TRANSPOSE:
        return PASSAGE_TRANSPOSE;
    case WF_OP_SOFTMAX:
    case WF_OP_LOG_SOFTMAX:
    case WF_OP_HARDMAX:
    case WF_OP_LP_NORMALIZATION:
    case WF_OP_QUANTIZE_LINEAR:
    case WF_OP_DEQUANTIZE_LINEAR:
        return PASSAGE_AXIS;
    case WF_OP_CONCAT:
        return PASSAGE_CONCAT;
    case WF_OP_MATMUL:
        return wf_graph_constant(graph, node->inputs[1], &weight) && weight.type.rank == 2 ? PASSAGE_LAST_DIM
                                                                                           : PASSAGE_NONE;
    case WF_OP_LAYER_NORMALIZATION:
    case WF_OP_RMS_NORMALIZATION:
        return node->output_count == 1 ? PASSAGE_LAST_DIM : PASSAGE_NONE;
    case WF_OP_REDUCE_L1:
    case WF_OP_REDUCE_L2:
    case WF_OP_REDUCE_LOG_SUM:
    case WF_OP_REDUCE_LOG_SUM_EXP:
    case WF_OP_REDUCE_MAX:
    case WF_OP_REDUCE_MEAN:
    case WF_OP_REDUCE_MIN:
    case WF_OP_REDUCE_PROD:
    case WF_OP_REDUCE_SUM:
    case WF_OP_REDUCE_SUM_SQUARE:
        return PASSAGE_REDUCE;
    case WF_OP_SLICE:
        return PASSAGE_SLICE;
    case WF_OP_PAD:
        return PASSAGE_PAD;
    case WF_OP_RESHAPE:
        return PASSAGE_RESHAPE;
    default:
        return PASSAGE_NONE;
    }
}

/* ---- Operands ---- */

typedef struct crossing {
    passage_t passage;
    uint32_t rank;
    int64_t perm[WF_MAX_RANK];
    int64_t inverse[WF_MAX_RANK];
} crossing_t;

static bool is_constant(const wf_graph_t *graph, wf_value_id value)
{
    return wf_graph_value(graph, value)->constant != NULL;
}

static bool read_perm(const wf_graph_t *graph, wf_value_id value, uint32_t rank, int64_t *perm)
{
    const wf_node_t *transpose = wf_match(graph, value, WF_OP_TRANSPOSE);
    if (transpose == NULL || wf_value_type(graph, value)->rank != rank) {
        return false;
    }
    wf_match_perm(transpose, rank, perm);
    return true;
}

/* How many leading operands must be transposed, constant or single elements; the others are parameters. */
static uint32_t operand_count(const crossing_t *crossing, const wf_node_t *node)
{
    bool all = crossing->passage == PASSAGE_ELEMENTWISE || crossing->passage == PASSAGE_CONCAT;
    return all ? node->input_count : 1;
}

/* All operands are transposed in one way, or may be brought into the other order without cost. A Concat with
 * a single Transpose is not worth it: that one may be free where it stands, after a convolution. */
static bool match_operands(const wf_graph_t *graph, const wf_node_t *node, crossing_t *crossing)
{
    uint32_t found = 0;
    uint32_t count = operand_count(crossing, node);
    for (uint32_t i = 0; i < count; i++) {
        int64_t perm[WF_MAX_RANK];
        if (node->inputs[i] == WF_NO_VALUE) {
            continue;
        }
        if (read_perm(graph, node->inputs[i], crossing->rank, perm)) {
            for (uint32_t j = 0; j < crossing->rank; j++) {
                if (found > 0 && crossing->perm[j] != perm[j]) {
                    return false;
                }
                crossing->perm[j] = perm[j];
            }
            found++;
        } else if (!is_constant(graph, node->inputs[i]) &&
                   !(crossing->passage == PASSAGE_ELEMENTWISE &&
                     wf_type_elems(wf_value_type(graph, node->inputs[i])) == 1)) {
            return false;
        }
    }
    for (uint32_t i = 0; found > 0 && i < crossing->rank; i++) {
        crossing->inverse[crossing->perm[i]] = i;
    }
    return found > (crossing->passage == PASSAGE_CONCAT ? 1u : 0u);
}

/* The same dims in the same order, apart from dims of 1. */
static bool differs_by_ones(const wf_type_t *a, const wf_type_t *b)
{
    uint32_t i = 0;
    uint32_t j = 0;
    for (;;) {
        while (i < a->rank && a->dims[i] == 1) {
            i++;
        }
        while (j < b->rank && b->dims[j] == 1) {
            j++;
        }
        if (i == a->rank || j == b->rank) {
            return i == a->rank && j == b->rank;
        }
        if (a->dims[i++] != b->dims[j++]) {
            return false;
        }
    }
}

/* Parameters beside the operands: attributes, or constants that do not depend on the order of dims. */
static bool match_parameters(const wf_graph_t *graph, const wf_node_t *node, const crossing_t *crossing)
{
    size_t count;
    uint32_t axis;
    switch (crossing->passage) {
    case PASSAGE_LAST_DIM:
        if (node->op != WF_OP_MATMUL &&
            (!wf_match_axis(wf_attrs_int(&node->attrs, "axis", -1), crossing->rank, &axis) ||
             axis != crossing->rank - 1)) {
            return false;
        }
        return crossing->perm[crossing->rank - 1] == (int64_t)crossing->rank - 1;
    case PASSAGE_REDUCE:
        return wf_node_input(node, 1) == WF_NO_VALUE;
    case PASSAGE_SLICE:
        return wf_attrs_ints(&node->attrs, "axes", &count) != NULL && wf_node_input(node, 1) == WF_NO_VALUE &&
               wf_node_input(node, 2) == WF_NO_VALUE && wf_node_input(node, 4) == WF_NO_VALUE;
    case PASSAGE_PAD:
        return wf_attrs_ints(&node->attrs, "pads", &count) != NULL && wf_node_input(node, 3) == WF_NO_VALUE;
    case PASSAGE_RESHAPE:
        return wf_node_input(node, 1) == WF_NO_VALUE &&
               differs_by_ones(wf_value_type(graph, node->inputs[0]), wf_value_type(graph, node->outputs[0]));
    case PASSAGE_AXIS:
        return wf_attrs_int(&node->attrs, "block_size", 0) == 0 &&
               (node->op == WF_OP_LP_NORMALIZATION || node->input_count == 1 ||
                wf_value_type(graph, node->inputs[1])->rank <= 1);
    default:
        return true;
    }
}

static bool match_crossing(const wf_graph_t *graph, const wf_node_t *node, crossing_t *out_crossing)
{
    out_crossing->passage = passage_of(graph, node);
    if (out_crossing->passage == PASSAGE_NONE || node->output_count != 1 || node->input_count == 0 ||
        node->input_count > MAX_INPUTS) {
        return false;
    }
    bool changes_rank = out_crossing->passage == PASSAGE_REDUCE || out_crossing->passage == PASSAGE_RESHAPE;
    out_crossing->rank = wf_value_type(graph, changes_rank ? node->inputs[0] : node->outputs[0])->rank;
    return match_operands(graph, node, out_crossing) && match_parameters(graph, node, out_crossing);
}

/* Everybody who reads the Transpose lets it pass. */
static bool readers_let_pass(const wf_graph_t *graph, wf_value_id transposed)
{
    const wf_value_t *value = wf_graph_value(graph, transposed);
    if (value->use_count == 1) {
        return !value->is_output;
    }
    if (value->is_output || value->use_count > MAX_READERS) {
        return false;
    }
    for (const wf_use_t *use = value->uses; use != NULL; use = use->next) {
        crossing_t crossing;
        if (!match_crossing(graph, wf_graph_node(graph, use->node), &crossing)) {
            return false;
        }
    }
    return true;
}

/* What comes out is no larger than what went in: the operands that are transposed, all of them where they are
 * put together. Dequantisation is passed all the same: it belongs to what follows. */
static bool is_worthwhile(const wf_graph_t *graph, const wf_node_t *node, const crossing_t *crossing)
{
    int64_t input_bytes = 0;
    uint32_t count = operand_count(crossing, node);
    for (uint32_t i = 0; i < count; i++) {
        if (node->inputs[i] == WF_NO_VALUE) {
            continue;
        }
        bool transposed = wf_match(graph, node->inputs[i], WF_OP_TRANSPOSE) != NULL;
        if (transposed && !readers_let_pass(graph, node->inputs[i])) {
            return false;
        }
        if (transposed || crossing->passage == PASSAGE_CONCAT) {
            input_bytes += wf_type_bytes(wf_value_type(graph, node->inputs[i]));
        }
    }
    return node->op == WF_OP_DEQUANTIZE_LINEAR || node->op == WF_OP_PAD ||
           wf_type_bytes(wf_value_type(graph, node->outputs[0])) <= input_bytes;
}

/* ---- Rewriting ---- */

/* A constant that broadcasts against transposed dims, for the dims before. Padded with leading ones; those
 * that stay leading go again. */
static wf_status_t permute_constant(wf_graph_t *graph, wf_value_id value, const crossing_t *crossing,
                                    const wf_parallel_t *parallel, wf_value_id *out_value)
{
    wf_type_t padded = *wf_value_type(graph, value);
    *out_value = value;
    if (wf_type_elems(&padded) == 1 && crossing->passage == PASSAGE_ELEMENTWISE) {
        return WF_OK;
    }
    uint32_t missing = crossing->rank - padded.rank;
    for (uint32_t i = crossing->rank; i > 0; i--) {
        padded.dims[i - 1] = i - 1 >= missing ? padded.dims[i - 1 - missing] : 1;
    }
    padded.rank = crossing->rank;
    wf_value_id full;
    WF_TRY(wf_emit_reshaped_constant(graph, value, &padded, &full));
    WF_TRY(wf_emit_permuted_constant(graph, full, crossing->inverse, parallel, out_value));
    if (crossing->passage != PASSAGE_ELEMENTWISE) {
        return WF_OK;
    }
    wf_type_t trimmed = *wf_value_type(graph, *out_value);
    uint32_t ones = 0;
    while (ones < trimmed.rank && trimmed.dims[ones] == 1) {
        ones++;
    }
    for (uint32_t i = ones; i < trimmed.rank; i++) {
        trimmed.dims[i - ones] = trimmed.dims[i];
    }
    trimmed.rank -= ones;
    return wf_emit_reshaped_constant(graph, *out_value, &trimmed, out_value);
}

/* Attributes of the node for dims in the order before. Storage is the caller's. */
typedef struct moved_attrs {
    wf_attr_t attrs[WF_OP_MAX_ATTRS];
    size_t count;
    int64_t lists[2][2 * WF_MAX_RANK];
} moved_attrs_t;

static wf_attr_t *find_moved(moved_attrs_t *moved, const char *name)
{
    wf_attrs_t list = {moved->attrs, moved->count};
    const wf_attr_t *found = wf_attrs_find(&list, name);
    return found != NULL ? &moved->attrs[found - moved->attrs] : NULL;
}

static void move_attrs(const wf_node_t *node, const crossing_t *crossing, moved_attrs_t *moved)
{
    wf_attr_t *attr;
    moved->count = node->attrs.count;
    for (size_t i = 0; i < moved->count; i++) {
        moved->attrs[i] = node->attrs.items[i];
    }
    uint32_t axis;
    if (crossing->passage == PASSAGE_AXIS || crossing->passage == PASSAGE_CONCAT) {
        attr = find_moved(moved, "axis");
        if (attr != NULL && wf_match_axis(attr->v.i, crossing->rank, &axis)) {
            attr->v.i = crossing->perm[axis];
        }
    }
    if (crossing->passage == PASSAGE_REDUCE || crossing->passage == PASSAGE_SLICE) {
        attr = find_moved(moved, "axes");
        for (size_t i = 0; attr != NULL && i < attr->count && i < WF_MAX_RANK; i++) {
            moved->lists[0][i] =
                wf_match_axis(attr->v.ints[i], crossing->rank, &axis) ? crossing->perm[axis] : 0;
        }
        if (attr != NULL) {
            attr->v.ints = moved->lists[0];
        }
    }
    if (crossing->passage == PASSAGE_PAD) {
        const wf_attr_t *axes = find_moved(moved, "axes");
        wf_attr_t *pads = find_moved(moved, "pads");
        size_t padded = pads->count / 2;
        for (size_t i = 0; i < padded; i++) {
            (void)wf_match_axis(axes != NULL ? axes->v.ints[i] : (int64_t)i, crossing->rank, &axis);
            moved->lists[0][i] = crossing->perm[axis];
        }
        attr = find_moved(moved, "axes");
        if (attr != NULL) {
            attr->v.ints = moved->lists[0];
        } else { /* all axes, in another order now */
            moved->attrs[moved->count++] = wf_attr_ints("axes", moved->lists[0], padded);
        }
    }
}

/* The permutation that is left after the operator: that of the dims that are still there. False when none is
 * needed. */
static bool remaining_perm(const wf_graph_t *graph, const wf_node_t *node, const crossing_t *crossing,
                           int64_t *out_perm, uint32_t *out_rank)
{
    uint32_t mask = 0;
    bool keeps = crossing->passage != PASSAGE_REDUCE || wf_attrs_int(&node->attrs, "keepdims", 1) != 0;
    if (!keeps) {
        (void)wf_match_reduce_axes(graph, node, &mask);
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < crossing->rank; i++) {
        if (!(mask & (1u << i))) {
            out_perm[count++] = crossing->perm[i];
        }
    }
    /* Numbers of dims that went are closed up. */
    bool moves = false;
    int64_t kept[WF_MAX_RANK];
    for (uint32_t i = 0; i < count; i++) {
        kept[i] = 0;
        for (uint32_t j = 0; j < count; j++) {
            kept[i] += out_perm[j] < out_perm[i];
        }
        moves = moves || kept[i] != (int64_t)i;
    }
    for (uint32_t i = 0; i < count; i++) {
        out_perm[i] = kept[i];
    }
    *out_rank = count;
    return moves;
}

static wf_status_t cross(wf_graph_t *graph, wf_node_id id, const crossing_t *crossing,
                         const wf_parallel_t *parallel)
{
    wf_value_id inputs[MAX_INPUTS];
    moved_attrs_t moved;
    int64_t perm[WF_MAX_RANK];
    uint32_t rank;
    uint32_t input_count = wf_graph_node(graph, id)->input_count;
    uint32_t operands = operand_count(crossing, wf_graph_node(graph, id));
    for (uint32_t i = 0; i < input_count; i++) {
        inputs[i] = wf_graph_node(graph, id)->inputs[i];
        const wf_node_t *transpose = wf_match(graph, inputs[i], WF_OP_TRANSPOSE);
        if (i >= operands || inputs[i] == WF_NO_VALUE) {
            continue;
        }
        if (transpose != NULL) {
            inputs[i] = transpose->inputs[0];
        } else if (is_constant(graph, inputs[i])) {
            WF_TRY(permute_constant(graph, inputs[i], crossing, parallel, &inputs[i]));
        }
    }
    const wf_node_t *node = wf_graph_node(graph, id);
    move_attrs(node, crossing, &moved);
    bool transposed = remaining_perm(graph, node, crossing, perm, &rank);
    wf_node_spec_t spec = {.op = node->op,
                           .attrs = moved.attrs,
                           .attr_count = moved.count,
                           .inputs = inputs,
                           .input_count = input_count,
                           .onnx_names = node->onnx_names};
    if (!transposed) {
        return wf_graph_change_node(graph, id, &spec);
    }
    wf_value_id result;
    WF_TRY(wf_emit(graph, &spec, wf_graph_value(graph, node->outputs[0])->name, &result));
    wf_attr_t attr = wf_attr_ints("perm", perm, rank);
    wf_node_spec_t turned = {
        .op = WF_OP_TRANSPOSE, .attrs = &attr, .attr_count = 1, .inputs = &result, .input_count = 1};
    return wf_graph_change_node(graph, id, &turned);
}

/* Dims of 1 stay where the Reshape puts them, the others get the order that they had before the Transpose. */
static wf_status_t cross_reshape(wf_graph_t *graph, wf_node_id id, const crossing_t *crossing)
{
    const wf_node_t *node = wf_graph_node(graph, id);
    const wf_type_t to = *wf_value_type(graph, node->outputs[0]);
    const wf_type_t from = *wf_value_type(graph, node->inputs[0]); /* transposed */
    wf_value_id x = wf_match(graph, node->inputs[0], WF_OP_TRANSPOSE)->inputs[0];
    int64_t sources[WF_MAX_RANK]; /* dims of x that are not 1, in the transposed order */
    uint32_t count = 0;
    for (uint32_t i = 0; i < from.rank; i++) {
        if (from.dims[i] != 1) {
            sources[count++] = crossing->perm[i];
        }
    }
    uint32_t places[WF_MAX_RANK]; /* of the result's dims that are not 1 */
    uint32_t place_count = 0;
    wf_type_t before = to;
    int64_t perm[WF_MAX_RANK];
    for (uint32_t i = 0; i < to.rank; i++) {
        perm[i] = i;
        if (to.dims[i] != 1) {
            places[place_count++] = i;
        }
    }
    bool moves = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank_of_source = 0;
        for (uint32_t j = 0; j < count; j++) {
            rank_of_source += sources[j] < sources[i];
        }
        before.dims[places[rank_of_source]] = to.dims[places[i]];
        perm[places[i]] = places[rank_of_source];
        moves = moves || rank_of_source != i;
    }
    if (!moves) {
        return wf_change_to_reshape(graph, id, x);
    }
    wf_value_id inputs[2] = {x, WF_NO_VALUE};
    wf_attr_t shape = wf_attr_ints("shape", before.dims, before.rank);
    wf_node_spec_t reshape = {.op = WF_OP_RESHAPE,
                              .attrs = &shape,
                              .attr_count = 1,
                              .inputs = inputs,
                              .input_count = 2,
                              .onnx_names = node->onnx_names};
    wf_value_id reshaped;
    WF_TRY(wf_emit(graph, &reshape, wf_graph_value(graph, node->outputs[0])->name, &reshaped));
    wf_attr_t attr = wf_attr_ints("perm", perm, to.rank);
    wf_node_spec_t turned = {
        .op = WF_OP_TRANSPOSE, .attrs = &attr, .attr_count = 1, .inputs = &reshaped, .input_count = 1};
    return wf_graph_change_node(graph, id, &turned);
}

/* transpose(transpose(x)) */
static wf_status_t combine(wf_graph_t *graph, wf_node_id id, const crossing_t *crossing)
{
    int64_t outer[WF_MAX_RANK], perm[WF_MAX_RANK];
    bool moves = false;
    const wf_node_t *node = wf_graph_node(graph, id);
    wf_value_id x = wf_match(graph, node->inputs[0], WF_OP_TRANSPOSE)->inputs[0];
    wf_match_perm(node, crossing->rank, outer);
    for (uint32_t i = 0; i < crossing->rank; i++) {
        perm[i] = crossing->perm[outer[i]];
        moves = moves || perm[i] != (int64_t)i;
    }
    if (!moves && !wf_graph_value(graph, node->outputs[0])->is_output) {
        WF_TRY(wf_graph_replace_uses(graph, node->outputs[0], x));
        wf_graph_remove_node(graph, id);
        return WF_OK;
    }
    wf_attr_t attr = wf_attr_ints("perm", perm, crossing->rank);
    wf_node_spec_t spec = {.op = moves ? WF_OP_TRANSPOSE : WF_OP_IDENTITY,
                           .attrs = &attr,
                           .attr_count = moves ? 1 : 0,
                           .inputs = &x,
                           .input_count = 1};
    WF_TRY(wf_join_names(graph, id, &x, 1, &spec.onnx_names));
    return wf_graph_change_node(graph, id, &spec);
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    const wf_parallel_t *const *parallel = arg;
    crossing_t crossing;
    const wf_node_t *node = wf_graph_node(graph, id);
    if (!match_crossing(graph, node, &crossing)) {
        return WF_OK;
    }
    if (crossing.passage == PASSAGE_TRANSPOSE) {
        (*changes)++;
        return combine(graph, id, &crossing);
    }
    if (!is_worthwhile(graph, node, &crossing)) {
        return WF_OK;
    }
    (*changes)++;
    return crossing.passage == PASSAGE_RESHAPE ? cross_reshape(graph, id, &crossing)
                                               : cross(graph, id, &crossing, *parallel);
}

WF_PASS(sink_transposes)
{
    return wf_visit_nodes(graph, visit, &parallel, out_changes);
}
