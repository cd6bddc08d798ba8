/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/bind.h"

#include <string.h>

#include "base/compiler.h"
#include "onnx/nearest.h"

enum { HINT_MAX_BYTES = 4096 };

/* A symbol that has its size. */
typedef struct known {
    int64_t size;
    const char *input; /* that gave it */
} known_t;

typedef struct binder {
    const wf_onnx_summary_t *summary;
    wf_allocator_t allocator;
    wf_map_t symbols; /* symbol: place in known */
    WF_VEC(known_t) known;
} binder_t;

/* ---- Which binding is whose ---- */

static wf_status_t match_bindings(const binder_t *self, const wf_onnx_binding_t *bindings, size_t count,
                                  size_t *out_bindings)
{
    for (size_t i = 0; i < self->summary->input_count; i++) {
        out_bindings[i] = SIZE_MAX;
    }
    for (size_t b = 0; b < count; b++) {
        size_t i = 0;
        while (i < self->summary->input_count &&
               strcmp(self->summary->inputs[i].name, bindings[b].name) != 0) {
            i++;
        }
        if (i == self->summary->input_count) {
            wf_nearest_t nearest = {0};
            for (size_t k = 0; k < self->summary->input_count; k++) {
                wf_nearest_offer(&nearest, bindings[b].name, strlen(bindings[b].name),
                                 self->summary->inputs[k].name);
            }
            wf_status_t status = WF_ERROR(USAGE, "the model has no input named %s", bindings[b].name);
            if (nearest.name != NULL) {
                return wf_status_hinted(status, "the nearest name is %s", nearest.name);
            }
            return self->summary->input_count > 0
                       ? wf_status_hinted(status, "its first input is %s", self->summary->inputs[0].name)
                       : status;
        }
        if (out_bindings[i] != SIZE_MAX) {
            return WF_ERROR(USAGE, "input %s is given two shapes", bindings[b].name);
        }
        out_bindings[i] = b;
    }
    return WF_OK;
}

/* ---- Symbols ---- */

static wf_status_t learn_symbol(binder_t *self, const char *symbol, int64_t size, const char *input)
{
    uint64_t place;
    known_t known = {size, input};
    if (wf_map_get(&self->symbols, symbol, strlen(symbol), &place)) {
        const known_t *old = &self->known.items[place];
        return old->size == size
                   ? WF_OK
                   : WF_ERROR(INPUT_MISMATCH, "dim %s is %lld in input %s, but %lld in input %s", symbol,
                              (long long)old->size, old->input, (long long)size, input);
    }
    WF_TRY(wf_map_set(&self->symbols, symbol, strlen(symbol), self->known.count));
    return wf_vec_push(self->allocator, &self->known, &known);
}

/* ---- Inputs with a binding ---- */

static wf_status_t check_type(const wf_port_t *port, const wf_type_t *type)
{
    return wf_type_bytes(type) >= 0 || wf_dtype_bits(port->dtype) == 0
               ? WF_OK
               : WF_ERROR(INPUT_MISMATCH, "input %s is too large", port->name);
}

static wf_status_t apply_binding(binder_t *self, const wf_port_t *port, const wf_onnx_binding_t *binding,
                                 wf_type_t *out_type)
{
    bool by_value = binding->value != NULL;
    size_t rank = by_value ? binding->value->type.rank : binding->rank;
    const int64_t *dims = by_value ? binding->value->type.dims : binding->dims;
    if (by_value && binding->value->type.dtype != port->dtype) {
        return WF_ERROR(INPUT_MISMATCH, "input %s is %s, but its fixed value is %s", port->name,
                        wf_dtype_name(port->dtype), wf_dtype_name(binding->value->type.dtype));
    }
    if (rank > WF_MAX_RANK || (port->rank_known && rank != port->rank)) {
        return WF_ERROR(INPUT_MISMATCH, "input %s has %u dims, but %zu were given", port->name, port->rank,
                        rank);
    }
    *out_type = (wf_type_t){.dtype = port->dtype, .rank = (uint32_t)rank};
    for (size_t i = 0; i < rank; i++) {
        out_type->dims[i] = dims[i];
        if (dims[i] < 0) {
            return WF_ERROR(USAGE, "dim %zu of input %s is negative", i, port->name);
        }
        if (port->rank_known && port->dims[i].size >= 0 && port->dims[i].size != dims[i]) {
            return WF_ERROR(INPUT_MISMATCH, "dim %zu of input %s is %lld in the model, but %lld was given", i,
                            port->name, (long long)port->dims[i].size, (long long)dims[i]);
        }
        if (port->rank_known && port->dims[i].symbol != NULL) {
            WF_TRY(learn_symbol(self, port->dims[i].symbol, dims[i], port->name));
        }
    }
    return check_type(port, out_type);
}

/* ---- Inputs without ---- */

static bool resolve(const binder_t *self, const wf_port_t *port, wf_type_t *out_type)
{
    *out_type = (wf_type_t){.dtype = port->dtype, .rank = port->rank};
    for (uint32_t i = 0; i < port->rank; i++) {
        const wf_dim_t *dim = &port->dims[i];
        uint64_t place;
        out_type->dims[i] = dim->size;
        if (dim->size < 0 && dim->symbol != NULL &&
            wf_map_get(&self->symbols, dim->symbol, strlen(dim->symbol), &place)) {
            out_type->dims[i] = self->known.items[place].size;
        }
        if (out_type->dims[i] < 0) {
            return false;
        }
    }
    return port->rank_known;
}

/* "--shape x=1x3x<height>x<width>" for every input that lacks something. A free first dim is most often the
 * batch. */
static void write_hint(const binder_t *self, const size_t *bindings, wf_text_t *text)
{
    for (size_t i = 0; i < self->summary->input_count; i++) {
        const wf_port_t *port = &self->summary->inputs[i];
        wf_type_t type;
        if (bindings[i] != SIZE_MAX || resolve(self, port, &type)) {
            continue;
        }
        wf_text_printf(text, "%s--shape %s=%s", text->length > 0 ? " " : "add ", port->name,
                       port->rank_known ? "" : "<dims>");
        for (uint32_t k = 0; k < port->rank; k++) {
            const wf_dim_t *dim = &port->dims[k];
            wf_text_puts(text, k > 0 ? "x" : "");
            if (dim->size >= 0) {
                wf_text_printf(text, "%lld", (long long)dim->size);
            } else if (k == 0) {
                wf_text_puts(text, "1");
            } else if (dim->symbol != NULL) {
                wf_text_printf(text, "<%s>", dim->symbol);
            } else {
                wf_text_printf(text, "<dim%u>", k);
            }
        }
    }
}

static wf_status_t shape_needed(const binder_t *self, const size_t *bindings, const wf_port_t *port)
{
    wf_text_t text;
    wf_text_init(&text, self->allocator, HINT_MAX_BYTES);
    write_hint(self, bindings, &text);
    wf_status_t status = WF_ERROR(SHAPE_NEEDED, "input %s has free dims", port->name);
    status = wf_status_hinted(status, "%s", wf_text_cstr(&text));
    wf_text_deinit(&text); /* a hint that is too long is cut, which is no failure */
    return status;
}

static wf_status_t bind(binder_t *self, const wf_onnx_binding_t *bindings, size_t binding_count,
                        wf_type_t *out_types, size_t *out_bindings)
{
    const wf_onnx_summary_t *summary = self->summary;
    WF_TRY(match_bindings(self, bindings, binding_count, out_bindings));
    for (size_t i = 0; i < summary->input_count; i++) {
        if (out_bindings[i] != SIZE_MAX) {
            WF_TRY(apply_binding(self, &summary->inputs[i], &bindings[out_bindings[i]], &out_types[i]));
        }
    }
    for (size_t i = 0; i < summary->input_count; i++) {
        if (out_bindings[i] == SIZE_MAX) {
            if (!resolve(self, &summary->inputs[i], &out_types[i])) {
                return shape_needed(self, out_bindings, &summary->inputs[i]);
            }
            WF_TRY(check_type(&summary->inputs[i], &out_types[i]));
        }
    }
    return WF_OK;
}

wf_status_t wf_onnx_bind(const wf_onnx_summary_t *summary, const wf_onnx_binding_t *bindings,
                         size_t binding_count, wf_allocator_t allocator, wf_type_t *out_types,
                         size_t *out_bindings)
{
    binder_t self = {.summary = summary, .allocator = allocator};
    wf_map_init(&self.symbols, allocator);
    wf_status_t status = bind(&self, bindings, binding_count, out_types, out_bindings);
    wf_map_deinit(&self.symbols);
    wf_vec_deinit(allocator, &self.known);
    return status;
}
