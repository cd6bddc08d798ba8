/* SPDX-License-Identifier: Apache-2.0 */
/* Space: the tactics of a problem as choices, which of them the solver sees, and conversions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "route/space_internal.h"

/* What is worth measuring, per combination of layouts. A roofline is 22-28 % off per kernel (research on cost
 * models), ours are coarser: 4x drops what is hopeless. */
#define KEEP_FACTOR 4.0
#define KEEP_MAX_PER_SIGNATURE 8u

wf_layout_t wf_layout_canonical(const wf_type_t *type, wf_layout_t layout)
{
    if (type->dtype == WF_DTYPE_NONE) {
        return WF_LAYOUT_ROW;
    }
    for (wf_layout_t first = WF_LAYOUT_ROW; first < layout; first++) {
        if (wf_layout_same(type, first, layout)) {
            return first;
        }
    }
    return layout;
}

/* ---- Collecting what sources offer ---- */

typedef struct offer {
    wf_choice_t choice;
    const char *closed_by; /* a knob; NULL: open */
} offer_t;

typedef struct collector {
    wf_space_t *space;
    const wf_problem_t *problem;
    WF_VEC(offer_t) offers;
    WF_VEC(wf_decline_note_t) declines;
    wf_status_t status; /* of decline calls, which return nothing */
} collector_t;

static bool operand_has_layout(const wf_problem_operand_t *operand)
{
    return !operand->is_const && operand->type.dtype != WF_DTYPE_NONE;
}

static wf_status_t check_layout(const wf_problem_t *problem, const wf_tactic_t *tactic, const wf_type_t *type,
                                wf_layout_t layout)
{
    if ((unsigned)layout >= WF_LAYOUT_COUNT ||
        (!wf_layout_exists(type, layout) && !wf_layout_same(type, WF_LAYOUT_ROW, layout))) {
        return WF_ERROR(INTERNAL, "tactic %s offers a layout that does not exist for %s", tactic->id,
                        problem->text);
    }
    return WF_OK;
}

static wf_status_t check_tactic(const wf_problem_t *problem, const wf_tactic_t *tactic)
{
    if (memchr(tactic->id, 0, sizeof tactic->id) == NULL || tactic->id[0] == 0) {
        return WF_ERROR(INTERNAL, "a tactic without id is offered for %s", problem->text);
    }
    if (!(tactic->estimate_ns > 0) || isinf(tactic->estimate_ns)) {
        return WF_ERROR(INTERNAL, "tactic %s estimates %g ns for %s", tactic->id, tactic->estimate_ns,
                        problem->text);
    }
    for (size_t i = 0; i < problem->operand_count; i++) {
        if (operand_has_layout(&problem->operands[i])) {
            WF_TRY(check_layout(problem, tactic, &problem->operands[i].type, tactic->operand_layouts[i]));
        }
    }
    for (size_t i = 0; i < problem->output_count; i++) {
        WF_TRY(check_layout(problem, tactic, &problem->outputs[i], tactic->output_layouts[i]));
    }
    return WF_OK;
}

/* The knob that closes a layout, or NULL. */
static const char *layout_closed(const wf_knobs_t *knobs, const wf_type_t *type, wf_layout_t layout)
{
    switch (wf_layout_canonical(type, layout)) {
    case WF_LAYOUT_LAST:
        return knobs->layout_last ? NULL : "layout.last";
    case WF_LAYOUT_B8:
    case WF_LAYOUT_B16:
        return knobs->layout_blocked ? NULL : "layout.blocked";
    default:
        return NULL;
    }
}

static bool has_source(const char *tactic_id, const char *source)
{
    size_t length = strlen(source);
    return strncmp(tactic_id, source, length) == 0 && tactic_id[length] == '/';
}

static const char *tactic_closed(const wf_knobs_t *knobs, const wf_problem_t *problem,
                                 const wf_choice_t *choice)
{
    if (!knobs->source_native && has_source(choice->tactic_id, "native")) {
        return "source.native";
    }
    if (!knobs->source_onednn && has_source(choice->tactic_id, "onednn")) {
        return "source.onednn";
    }
    const char *closed = NULL;
    for (size_t i = 0; closed == NULL && i < problem->operand_count; i++) {
        closed = layout_closed(knobs, &problem->operands[i].type, choice->operand_layouts[i]);
    }
    for (size_t i = 0; closed == NULL && i < problem->output_count; i++) {
        closed = layout_closed(knobs, &problem->outputs[i], choice->output_layouts[i]);
    }
    return closed;
}

static wf_status_t note_decline(collector_t *collector, const char *family, wf_decline_t reason,
                                const char *text)
{
    wf_arena_t *arena = &collector->space->arena;
    wf_decline_note_t *note;
    WF_TRY(wf_vec_grow(wf_arena_allocator(arena), &collector->declines, sizeof *note, &note));
    note->reason = reason;
    note->family = note->text = ""; /* valid if a copy fails */
    WF_TRY(wf_arena_text(arena, family, strlen(family), &note->family));
    return wf_arena_text(arena, text, strlen(text), &note->text);
}

static wf_status_t copy_layouts(collector_t *collector, const wf_tactic_t *tactic, wf_choice_t *choice)
{
    const wf_problem_t *problem = collector->problem;
    wf_arena_t *arena = &collector->space->arena;
    wf_layout_t *operands, *outputs;
    WF_TRY(wf_arena_alloc(arena, problem->operand_count, sizeof *operands, &operands));
    WF_TRY(wf_arena_alloc(arena, problem->output_count, sizeof *outputs, &outputs));
    for (size_t i = 0; i < problem->operand_count; i++) {
        bool counts = operand_has_layout(&problem->operands[i]);
        operands[i] = counts ? tactic->operand_layouts[i] : WF_LAYOUT_ROW;
    }
    for (size_t i = 0; i < problem->output_count; i++) {
        outputs[i] = tactic->output_layouts[i];
    }
    choice->operand_layouts = operands;
    choice->output_layouts = outputs;
    return WF_OK;
}

static wf_status_t collect_offer(void *self, const wf_tactic_t *tactic)
{
    collector_t *collector = self;
    wf_space_t *space = collector->space;
    WF_TRY(check_tactic(collector->problem, tactic));
    offer_t offer = {.choice = {.estimate_ns = tactic->estimate_ns,
                                .cost_ns = tactic->estimate_ns,
                                .deterministic = tactic->deterministic}};
    WF_TRY(wf_arena_text(&space->arena, tactic->id, strlen(tactic->id), &offer.choice.tactic_id));
    WF_TRY(copy_layouts(collector, tactic, &offer.choice));
    offer.closed_by = tactic_closed(&space->knobs, collector->problem, &offer.choice);
    return wf_vec_push(space->allocator, &collector->offers, &offer);
}

static void collect_decline(void *self, const char *family, wf_decline_t reason, const char *text)
{
    collector_t *collector = self;
    if (collector->status == WF_OK) {
        collector->status = note_decline(collector, family, reason, text);
    }
}

/* ---- Choices ---- */

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const offer_t *)a)->choice.tactic_id, ((const offer_t *)b)->choice.tactic_id);
}

static bool same_signature(const wf_problem_t *problem, const wf_choice_t *a, const wf_choice_t *b)
{
    for (size_t i = 0; i < problem->operand_count; i++) {
        if (!wf_layout_same(&problem->operands[i].type, a->operand_layouts[i], b->operand_layouts[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < problem->output_count; i++) {
        if (!wf_layout_same(&problem->outputs[i], a->output_layouts[i], b->output_layouts[i])) {
            return false;
        }
    }
    return true;
}

static void number_signatures(wf_space_problem_t *entry)
{
    for (size_t i = 0; i < entry->choices.count; i++) {
        wf_choice_t *choice = &entry->choices.items[i];
        size_t first = 0;
        while (first < i && !same_signature(entry->problem, &entry->choices.items[first], choice)) {
            first++;
        }
        choice->signature = first < i ? entry->choices.items[first].signature : entry->signature_count++;
    }
}

/* Tactics of one source: what stands before the slash. */
static bool same_source(const wf_choice_t *a, const wf_choice_t *b)
{
    size_t length = strcspn(a->tactic_id, "/");
    return strncmp(a->tactic_id, b->tactic_id, length + 1) == 0;
}

/* Per signature and source the cheapest estimate stays, and the next few that measuring may prove better:
 * many variants of one source do not crowd out the few of another. */
static void mark_dominated(wf_space_problem_t *entry)
{
    for (size_t i = 0; i < entry->choices.count; i++) {
        wf_choice_t *choice = &entry->choices.items[i];
        size_t cheaper = 0;
        for (size_t k = 0; k < entry->choices.count; k++) {
            const wf_choice_t *other = &entry->choices.items[k];
            if (other->signature != choice->signature || k == i) {
                continue;
            }
            cheaper += same_source(other, choice) && (other->estimate_ns < choice->estimate_ns ||
                                                      (other->estimate_ns == choice->estimate_ns && k < i));
            if (other->estimate_ns * KEEP_FACTOR < choice->estimate_ns) {
                choice->dominated = true;
            }
        }
        choice->dominated = choice->dominated || cheaper >= KEEP_MAX_PER_SIGNATURE;
    }
}

static wf_status_t query_needs(const wf_space_t *space, const wf_problem_t *problem, wf_choice_t *choice)
{
    const wf_source_t *source;
    void *self;
    WF_TRY(wf_backends_find(space->backends, choice->tactic_id, &source, &self));
    return wf_status_annotated(source->query(self, problem, choice->tactic_id, NULL, NULL, &choice->needs),
                               "asking what tactic %s needs for %s", choice->tactic_id, problem->text);
}

static wf_status_t choices_make(wf_space_t *space, const wf_problem_t *problem, bool may_reopen,
                                collector_t *collector, wf_space_problem_t *out_entry)
{
    const wf_tactic_sink_t sink = {.self = collector, .offer = collect_offer, .decline = collect_decline};
    WF_TRY(wf_backends_list(space->backends, problem, &sink));
    WF_TRY(collector->status);
    size_t offers = collector->offers.count, open = 0;
    for (size_t i = 0; i < offers; i++) {
        open += collector->offers.items[i].closed_by == NULL;
    }
    bool reopen = open == 0 && may_reopen;
    size_t count = reopen ? offers : open;
    if (offers > 1) {
        wf_sort(collector->offers.items, offers, sizeof *collector->offers.items, compare_ids);
    }
    *out_entry = (wf_space_problem_t){.problem = problem, .pinned_choice = WF_NO_CHOICE};
    WF_TRY(wf_arena_alloc(&space->arena, count, sizeof *out_entry->choices.items, &out_entry->choices.items));
    out_entry->choices.capacity = count;
    for (size_t i = 0; i < offers; i++) {
        const offer_t *offer = &collector->offers.items[i];
        if (i > 0 && strcmp(offer[-1].choice.tactic_id, offer->choice.tactic_id) == 0) {
            return WF_ERROR(INTERNAL, "tactic %s is offered twice for %s", offer->choice.tactic_id,
                            problem->text);
        }
        if (offer->closed_by == NULL || reopen) {
            out_entry->choices.items[out_entry->choices.count++] = offer->choice;
        } else {
            const char *text;
            WF_TRY(wf_arena_format(&space->arena, &text, "the knob %s is off", offer->closed_by));
            WF_TRY(note_decline(collector, offer->choice.tactic_id, WF_DECLINE_KNOB, text));
        }
    }
    number_signatures(out_entry);
    mark_dominated(out_entry);
    for (size_t i = 0; i < count; i++) {
        WF_TRY(query_needs(space, problem, &out_entry->choices.items[i]));
    }
    out_entry->declines.items = collector->declines.items;
    out_entry->declines.count = collector->declines.count;
    out_entry->declines.capacity = collector->declines.capacity;
    return WF_OK;
}

wf_status_t wf_space_problem_add(wf_space_t *space, const wf_problem_t *problem, bool may_reopen,
                                 uint32_t *out_index)
{
    size_t text_bytes = strlen(problem->text);
    uint64_t known;
    if (wf_map_get(&space->problem_index, problem->text, text_bytes, &known)) {
        *out_index = (uint32_t)known;
        return WF_OK;
    }
    collector_t collector = {.space = space, .problem = problem};
    wf_space_problem_t entry;
    wf_status_t status = choices_make(space, problem, may_reopen, &collector, &entry);
    wf_vec_deinit(space->allocator, &collector.offers);
    if (status != WF_OK) {
        return status;
    }
    *out_index = (uint32_t)space->problems.count;
    /* In the arena: a problem that somebody points to stays readable when later ones (conversions) move the
     * array. */
    WF_TRY(wf_vec_push(wf_arena_allocator(&space->arena), &space->problems, &entry));
    return wf_map_set(&space->problem_index, problem->text, text_bytes, *out_index);
}

uint32_t wf_space_best_choice(const wf_space_t *space, uint32_t problem)
{
    const wf_space_problem_t *entry = &space->problems.items[problem];
    if (entry->pinned_choice != WF_NO_CHOICE) {
        return entry->pinned_choice;
    }
    uint32_t best = WF_NO_CHOICE;
    for (uint32_t i = 0; i < entry->choices.count; i++) {
        if (wf_choice_usable(&entry->choices.items[i]) &&
            (best == WF_NO_CHOICE || entry->choices.items[i].cost_ns < entry->choices.items[best].cost_ns)) {
            best = i;
        }
    }
    return best;
}

void wf_space_unpin(wf_space_t *space)
{
    for (size_t p = 0; p < space->problems.count; p++) {
        space->problems.items[p].pinned_choice = WF_NO_CHOICE;
    }
}

/* ---- Conversions ---- */

typedef struct convert_key {
    wf_type_t type;
    uint32_t from, to;
} convert_key_t;

wf_status_t wf_space_convert(wf_space_t *space, wf_value_id value, wf_layout_t from, wf_layout_t to,
                             uint32_t *out_problem)
{
    const wf_type_t *type = &wf_graph_value(space->graph, value)->type;
    from = wf_layout_canonical(type, from);
    to = wf_layout_canonical(type, to);
    convert_key_t key;
    memset(&key, 0, sizeof key); /* padding is part of the key */
    key.type.dtype = type->dtype;
    key.type.rank = type->rank;
    memcpy(key.type.dims, type->dims, type->rank * sizeof *type->dims);
    key.from = from;
    key.to = to;
    uint64_t known;
    if (wf_map_get(&space->convert_index, (const char *)&key, sizeof key, &known)) {
        *out_problem = (uint32_t)known;
        return WF_OK;
    }
    const wf_problem_t *problem;
    WF_TRY(wf_convert_problem(type, from, to, &space->arena, &problem));
    WF_TRY(wf_space_problem_add(space, problem, true, out_problem));
    const char *kept;
    WF_TRY(wf_arena_text(&space->arena, (const char *)&key, sizeof key, &kept));
    return wf_map_set(&space->convert_index, kept, sizeof key, *out_problem);
}

wf_status_t wf_space_convert_cost(wf_space_t *space, wf_value_id value, wf_layout_t from, wf_layout_t to,
                                  double *out_cost_ns)
{
    *out_cost_ns = 0;
    if (from == to) {
        return WF_OK;
    }
    uint32_t problem;
    WF_TRY(wf_space_convert(space, value, from, to, &problem));
    uint32_t choice = wf_space_best_choice(space, problem);
    *out_cost_ns = choice == WF_NO_CHOICE ? (double)INFINITY
                                          : space->problems.items[problem].choices.items[choice].cost_ns;
    return WF_OK;
}
