/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_attention: wf.Attention from MatMul(Softmax(scale * MatMul(Q, K) + mask), V).
 *
 * The scale may be a Mul or Div of the scores, of Q, of K or of both. The mask is added, or chooses by Where
 * between scores and a number that no score reaches. Transposes of Q, K, V and of the result go into the
 * permutations. Guards against NaN (Where(IsNaN(p), 0, p)) are dropped where no row can be masked as a whole.
 * Everything in between must be read here only: probabilities that are an output keep their nodes. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "graph/match.h"
#include "graph/pass.h"

/* Sum of two constant masks; the windows of a Swin stage take 1.8 MB at most. */
#define SUMMED_MASK_BYTES ((int64_t)8 << 20)

typedef struct attention {
    wf_value_id q, k, v;
    wf_value_id q_unscaled, k_unscaled; /* WF_NO_VALUE, or what q or k is to be a Reshape of */
    int64_t q_perm[WF_MAX_RANK], k_perm[WF_MAX_RANK], v_perm[WF_MAX_RANK]; /* to [.., rows, depth] */
    uint32_t rank;
    double scale;
    wf_value_id added;     /* additive mask or WF_NO_VALUE */
    wf_value_id added_too; /* a second one; both are constants then */
    wf_value_id kept;      /* boolean mask or WF_NO_VALUE */
    bool kept_inverted;
    bool fill_finite; /* masked scores were set to a finite number */
    bool nan_guarded;
} attention_t;

/* ---- Operands ---- */

/* value = number * inner, by an interior Mul or Div. */
static bool match_scaled(const wf_graph_t *graph, wf_value_id value, wf_value_id *out_inner,
                         double *out_factor)
{
    double scalar;
    const wf_node_t *node = wf_match_inner(graph, value, WF_OP_MUL);
    if (node != NULL && wf_match_with_scalar(graph, node, out_inner, &scalar)) {
        *out_factor = scalar;
    } else {
        node = wf_match_inner(graph, value, WF_OP_DIV);
        if (node == NULL || !wf_match_with_scalar(graph, node, out_inner, &scalar) || scalar == 0.0) {
            return false;
        }
        *out_factor = 1.0 / scalar;
    }
    return wf_type_equal(wf_value_type(graph, value), wf_value_type(graph, *out_inner));
}

/* Walks from an operand of a product to what is stored: `perm` takes up Transposes, `scale` (may be NULL)
 * scalars. Where scalars stand before a last Reshape, *out_unscaled is what they scale: the operand is its
 * Reshape then. */
static wf_value_id strip(const wf_graph_t *graph, wf_value_id value, uint32_t rank, int64_t *perm,
                         double *scale, wf_value_id *out_unscaled)
{
    wf_value_id inner;
    double factor;
    *out_unscaled = WF_NO_VALUE;
    for (;;) {
        const wf_node_t *transpose = wf_match_inner(graph, value, WF_OP_TRANSPOSE);
        if (transpose != NULL) {
            int64_t turned[WF_MAX_RANK];
            wf_match_perm(transpose, rank, turned);
            for (uint32_t i = 0; i < rank; i++) {
                perm[i] = turned[perm[i]];
            }
            value = transpose->inputs[0];
        } else if (scale != NULL && match_scaled(graph, value, &inner, &factor)) {
            *scale *= factor;
            value = inner;
        } else {
            break;
        }
    }
    const wf_node_t *reshape = scale != NULL ? wf_match_inner(graph, value, WF_OP_RESHAPE) : NULL;
    wf_value_id scaled =
        reshape != NULL && wf_node_input(reshape, 1) == WF_NO_VALUE ? reshape->inputs[0] : WF_NO_VALUE;
    while (scaled != WF_NO_VALUE && match_scaled(graph, scaled, &inner, &factor)) {
        *scale *= factor;
        *out_unscaled = scaled = inner;
    }
    return value;
}

static void identity_perm(int64_t *perm, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++) {
        perm[i] = i;
    }
}

/* ---- Masks ---- */

/* A number so low that the exponential of its difference to any real score is 0. */
static bool is_masking(const wf_graph_t *graph, wf_value_id value, bool *out_finite)
{
    double fill;
    if (!wf_graph_scalar(graph, value, &fill)) {
        return false;
    }
    *out_finite = fill > -(double)INFINITY;
    double limit = wf_value_type(graph, value)->dtype == WF_DTYPE_F16 ? -6e4 : -1e8;
    return fill <= limit;
}

/* Every row of the mask keeps something, whatever the scores are. */
static bool keeps_every_row(const wf_graph_t *graph, wf_value_id mask, bool inverted)
{
    wf_tensor_t tensor;
    if (!wf_graph_constant(graph, mask, &tensor)) {
        return false;
    }
    int64_t elems = wf_type_elems(&tensor.type);
    int64_t columns = tensor.type.rank > 0 ? tensor.type.dims[tensor.type.rank - 1] : 1;
    bool kept = false;
    for (int64_t i = 0; i < elems; i++) {
        double value;
        if (!wf_constant_get(&tensor, i, &value)) {
            return false;
        }
        bool keeps = tensor.type.dtype == WF_DTYPE_BOOL ? (value != 0.0) != inverted : value > -1e4;
        kept = (i % columns != 0 && kept) || keeps;
        if (i % columns == columns - 1 && !kept) {
            return false;
        }
    }
    return true;
}

/* One mask, or two that are constants: their sum takes the place of one when it is of a size to keep. */
static bool take_added(const wf_graph_t *graph, wf_value_id mask, attention_t *attention)
{
    if (attention->added == WF_NO_VALUE) {
        attention->added = mask;
        return true;
    }
    const wf_type_t *types[2] = {wf_value_type(graph, attention->added), wf_value_type(graph, mask)};
    wf_type_t sum;
    wf_status_t status = wf_shape_broadcast(types, 2, &sum);
    bool small = status == WF_OK && wf_type_bytes(&sum) >= 0 && wf_type_bytes(&sum) <= SUMMED_MASK_BYTES;
    wf_status_free(status);
    if (!small || wf_graph_value(graph, attention->added)->constant == NULL ||
        wf_graph_value(graph, mask)->constant == NULL) {
        return false;
    }
    attention->added_too = mask;
    return true;
}

/* One step from the scores inwards; false when the value is no scale or mask of further scores. */
static bool strip_scores(const wf_graph_t *graph, wf_value_id *value, attention_t *attention)
{
    wf_value_id inner;
    double factor;
    if (match_scaled(graph, *value, &inner, &factor)) {
        attention->scale *= factor;
        *value = inner;
        return true;
    }
    if (attention->scale != 1.0) { /* a mask inside a scale would be scaled with it */
        return false;
    }
    const wf_node_t *sum = wf_match_inner(graph, *value, WF_OP_ADD);
    for (uint32_t i = 0; sum != NULL && attention->added_too == WF_NO_VALUE && i < 2; i++) {
        /* The scores are the operand with the full shape that nobody else reads and that is no constant. */
        wf_value_id scores = sum->inputs[i];
        wf_node_id producer = wf_graph_value(graph, scores)->producer;
        wf_op_t op = producer != WF_NO_NODE ? wf_graph_node(graph, producer)->op : WF_OP_COUNT;
        bool leads_on =
            op == WF_OP_MATMUL || op == WF_OP_ADD || op == WF_OP_MUL || op == WF_OP_DIV || op == WF_OP_WHERE;
        if (leads_on && wf_match_interior(graph, scores) &&
            wf_type_equal(wf_value_type(graph, scores), wf_value_type(graph, *value))) {
            if (!take_added(graph, sum->inputs[1 - i], attention)) {
                return false;
            }
            *value = scores;
            return true;
        }
    }
    const wf_node_t *choice = wf_match_inner(graph, *value, WF_OP_WHERE);
    for (uint32_t i = 1; choice != NULL && attention->kept == WF_NO_VALUE && i <= 2; i++) {
        wf_value_id scores = choice->inputs[i];
        if (wf_match_interior(graph, scores) &&
            wf_type_equal(wf_value_type(graph, scores), wf_value_type(graph, *value)) &&
            is_masking(graph, choice->inputs[3 - i], &attention->fill_finite)) {
            attention->kept = choice->inputs[0];
            attention->kept_inverted = i == 2;
            *value = scores;
            return true;
        }
    }
    return false;
}

/* ---- The whole ---- */

/* The probabilities, past a guard against NaN. */
static wf_value_id match_probabilities(const wf_graph_t *graph, wf_value_id value, bool *out_guarded)
{
    *out_guarded = false;
    const wf_node_t *choice = wf_match_inner(graph, value, WF_OP_WHERE);
    const wf_node_t *is_nan = choice != NULL ? wf_match_inner(graph, choice->inputs[0], WF_OP_ISNAN) : NULL;
    if (is_nan != NULL && is_nan->inputs[0] == choice->inputs[2] &&
        wf_match_scalar(graph, choice->inputs[1], 0.0)) {
        *out_guarded = true;
        return choice->inputs[2];
    }
    return value;
}

static bool same_batch(const wf_graph_t *graph, const attention_t *attention)
{
    const wf_type_t *q = wf_value_type(graph, attention->q);
    const wf_type_t *k = wf_value_type(graph, attention->k);
    const wf_type_t *v = wf_value_type(graph, attention->v);
    if (q->rank != attention->rank || k->rank != attention->rank || v->rank != attention->rank) {
        return false;
    }
    for (uint32_t i = 0; i + 2 < attention->rank; i++) {
        int64_t dim = q->dims[attention->q_perm[i]];
        if (k->dims[attention->k_perm[i]] != dim || v->dims[attention->v_perm[i]] != dim) {
            return false;
        }
    }
    return true;
}

/* Only judged for what is there; of two masks that keep something in every row the sum may keep nothing. */
static bool masks_are_sound(const wf_graph_t *graph, const attention_t *attention)
{
    bool kept_sound =
        attention->kept == WF_NO_VALUE || keeps_every_row(graph, attention->kept, attention->kept_inverted);
    bool added_sound = attention->added == WF_NO_VALUE || keeps_every_row(graph, attention->added, false);
    if (attention->fill_finite && !kept_sound) {
        return false;
    }
    return !attention->nan_guarded || (kept_sound && added_sound && attention->added_too == WF_NO_VALUE);
}

static bool match(const wf_graph_t *graph, const wf_node_t *root, attention_t *out_attention)
{
    uint32_t axis;
    attention_t attention = {
        .scale = 1.0, .added = WF_NO_VALUE, .added_too = WF_NO_VALUE, .kept = WF_NO_VALUE};
    if (root->op != WF_OP_MATMUL) {
        return false;
    }
    uint32_t rank = wf_value_type(graph, root->outputs[0])->rank;
    wf_value_id probabilities = match_probabilities(graph, root->inputs[0], &attention.nan_guarded);
    const wf_node_t *softmax = wf_match(graph, probabilities, WF_OP_SOFTMAX);
    uint32_t softmax_uses = attention.nan_guarded ? 2 : 1;
    if (rank < 3 || softmax == NULL || wf_graph_value(graph, probabilities)->use_count != softmax_uses ||
        wf_graph_value(graph, probabilities)->is_output ||
        !wf_match_axis(wf_attrs_int(&softmax->attrs, "axis", -1), rank, &axis) || axis != rank - 1 ||
        wf_value_type(graph, probabilities)->rank != rank) {
        return false;
    }
    wf_value_id scores = softmax->inputs[0];
    for (int step = 0; step < 4 && strip_scores(graph, &scores, &attention); step++) {
    }
    const wf_node_t *product = wf_match_inner(graph, scores, WF_OP_MATMUL);
    if (product == NULL) {
        return false;
    }
    /* The parts round to their type one by one; in 16 bits the fused result is another one (closer, but not
     * the model's). */
    if (wf_value_type(graph, root->outputs[0])->dtype != WF_DTYPE_F32) {
        return false;
    }
    wf_value_id unscaled;
    attention.rank = rank;
    identity_perm(attention.q_perm, rank);
    identity_perm(attention.k_perm, rank);
    identity_perm(attention.v_perm, rank);
    attention.k_perm[rank - 1] = rank - 2; /* the product takes K turned */
    attention.k_perm[rank - 2] = rank - 1;
    if (wf_value_type(graph, product->inputs[0])->rank != rank ||
        wf_value_type(graph, product->inputs[1])->rank != rank ||
        wf_value_type(graph, root->inputs[1])->rank != rank) {
        return false;
    }
    attention.q =
        strip(graph, product->inputs[0], rank, attention.q_perm, &attention.scale, &attention.q_unscaled);
    attention.k =
        strip(graph, product->inputs[1], rank, attention.k_perm, &attention.scale, &attention.k_unscaled);
    attention.v = strip(graph, root->inputs[1], rank, attention.v_perm, NULL, &unscaled);
    *out_attention = attention;
    return same_batch(graph, &attention) && masks_are_sound(graph, &attention) &&
           wf_match_attr_holds(wf_value_type(graph, attention.q)->dtype, attention.scale);
}

/* One mask from what was found: additive, boolean (true: kept), both in one, or none. */
static wf_status_t emit_mask(wf_graph_t *graph, const attention_t *attention, const char *onnx_names,
                             wf_value_id *out_mask)
{
    wf_value_id kept = attention->kept;
    wf_value_id added = attention->added;
    if (attention->added_too != WF_NO_VALUE) {
        WF_TRY(wf_emit_binary(graph, WF_OP_ADD, added, attention->added_too, onnx_names,
                              wf_graph_value(graph, added)->name, &added));
    }
    *out_mask = added;
    if (kept == WF_NO_VALUE) {
        return WF_OK;
    }
    const char *name = wf_graph_value(graph, kept)->name;
    if (attention->kept_inverted) {
        wf_node_spec_t spec = {.op = WF_OP_NOT, .inputs = &kept, .input_count = 1, .onnx_names = onnx_names};
        WF_TRY(wf_emit(graph, &spec, name, &kept));
    }
    if (added == WF_NO_VALUE) {
        *out_mask = kept;
        return WF_OK;
    }
    double lowest = -(double)INFINITY;
    wf_type_t scalar = {.dtype = wf_value_type(graph, added)->dtype};
    wf_value_id inputs[3] = {kept, added, WF_NO_VALUE};
    WF_TRY(wf_emit_doubles(graph, name, &scalar, &lowest, &inputs[2]));
    wf_node_spec_t spec = {.op = WF_OP_WHERE, .inputs = inputs, .input_count = 3, .onnx_names = onnx_names};
    return wf_emit(graph, &spec, name, out_mask);
}

/* The operand without scalars in front of its Reshape. */
static wf_status_t emit_unscaled(wf_graph_t *graph, wf_value_id operand, wf_value_id unscaled,
                                 const char *onnx_names, wf_value_id *out_value)
{
    *out_value = operand;
    if (unscaled == WF_NO_VALUE) {
        return WF_OK;
    }
    const wf_type_t type = *wf_value_type(graph, operand);
    wf_value_id inputs[2] = {unscaled, WF_NO_VALUE};
    wf_attr_t shape = wf_attr_ints("shape", type.dims, type.rank);
    wf_node_spec_t spec = {.op = WF_OP_RESHAPE,
                           .attrs = &shape,
                           .attr_count = 1,
                           .inputs = inputs,
                           .input_count = 2,
                           .onnx_names = onnx_names};
    return wf_emit(graph, &spec, wf_graph_value(graph, operand)->name, out_value);
}

static void put_perm(wf_attr_t *attrs, size_t *count, const char *name, const int64_t *perm, uint32_t rank)
{
    bool moves = false;
    for (uint32_t i = 0; i < rank; i++) {
        moves = moves || perm[i] != (int64_t)i;
    }
    if (moves) {
        attrs[(*count)++] = wf_attr_ints(name, perm, rank);
    }
}

static wf_status_t fuse(wf_graph_t *graph, wf_node_id id, const attention_t *attention)
{
    wf_attr_t attrs[4];
    size_t count = 0;
    wf_value_id inputs[4] = {attention->q, attention->k, attention->v, WF_NO_VALUE};
    const char *onnx_names = NULL;
    wf_value_id boundary[6] = {attention->q,     attention->k,         attention->v,
                               attention->added, attention->added_too, attention->kept};
    WF_TRY(wf_join_names(graph, id, boundary, WF_COUNT_OF(boundary), &onnx_names));
    WF_TRY(emit_unscaled(graph, attention->q, attention->q_unscaled, onnx_names, &inputs[0]));
    WF_TRY(emit_unscaled(graph, attention->k, attention->k_unscaled, onnx_names, &inputs[1]));
    WF_TRY(emit_mask(graph, attention, onnx_names, &inputs[3]));
    put_perm(attrs, &count, "q_perm", attention->q_perm, attention->rank);
    put_perm(attrs, &count, "k_perm", attention->k_perm, attention->rank);
    put_perm(attrs, &count, "v_perm", attention->v_perm, attention->rank);
    attrs[count++] = wf_attr_float("scale", attention->scale);
    wf_node_spec_t spec = {.op = WF_OP_W_ATTENTION,
                           .attrs = attrs,
                           .attr_count = count,
                           .inputs = inputs,
                           .input_count = 4,
                           .onnx_names = onnx_names};
    return wf_graph_change_node(graph, id, &spec);
}

/* A Transpose of the result. */
static wf_status_t absorb_transpose(wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    wf_attr_t attrs[WF_OP_MAX_ATTRS];
    wf_value_id inputs[4];
    int64_t perm[WF_MAX_RANK], combined[WF_MAX_RANK];
    size_t count = 0, old_count;
    const wf_node_t *node = wf_graph_node(graph, id);
    const wf_node_t *attention = wf_match_inner(graph, node->inputs[0], WF_OP_W_ATTENTION);
    if (attention == NULL) {
        return WF_OK;
    }
    uint32_t rank = wf_value_type(graph, node->inputs[0])->rank;
    wf_match_perm(node, rank, perm);
    const int64_t *out_perm = wf_attrs_ints(&attention->attrs, "out_perm", &old_count);
    for (uint32_t i = 0; i < rank; i++) {
        combined[i] = out_perm != NULL ? out_perm[perm[i]] : perm[i];
    }
    for (size_t i = 0; i < attention->attrs.count; i++) {
        if (strcmp(attention->attrs.items[i].name, "out_perm") != 0) {
            attrs[count++] = attention->attrs.items[i];
        }
    }
    put_perm(attrs, &count, "out_perm", combined, rank);
    for (uint32_t i = 0; i < attention->input_count; i++) {
        inputs[i] = attention->inputs[i];
    }
    wf_node_spec_t spec = {.op = WF_OP_W_ATTENTION,
                           .attrs = attrs,
                           .attr_count = count,
                           .inputs = inputs,
                           .input_count = attention->input_count};
    WF_TRY(wf_join_names(graph, id, inputs, spec.input_count, &spec.onnx_names));
    (*changes)++;
    return wf_graph_change_node(graph, id, &spec);
}

static wf_status_t visit(void *arg, wf_graph_t *graph, wf_node_id id, uint32_t *changes)
{
    attention_t attention;
    const wf_node_t *node = wf_graph_node(graph, id);
    (void)arg;
    if (node->op == WF_OP_TRANSPOSE) {
        return absorb_transpose(graph, id, changes);
    }
    if (!match(graph, node, &attention)) {
        return WF_OK;
    }
    (*changes)++;
    return fuse(graph, id, &attention);
}

WF_PASS(fuse_attention)
{
    (void)parallel;
    return wf_visit_nodes(graph, visit, NULL, out_changes);
}
