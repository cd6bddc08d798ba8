/* SPDX-License-Identifier: Apache-2.0 */
#include "op/einsum.h"

#include <string.h>

#include "base/compiler.h"
#include "op/shape.h"

#define NO_LABEL 0xffu

typedef struct einsum_parser {
    const char *at;
    const char *end;
    uint8_t label_of[128];     /* by letter; NO_LABEL: not met */
    uint32_t letter_uses[128]; /* on the left side */
    uint8_t ellipsis_labels[WF_MAX_RANK];
    uint32_t ellipsis_rank;
    bool has_ellipsis;
    wf_einsum_t *out;
} einsum_parser_t;

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void skip_blanks(einsum_parser_t *self)
{
    while (self->at != self->end && *self->at == ' ') {
        self->at++;
    }
}

/* Takes "..." or "->" whole. */
static bool take_word(einsum_parser_t *self, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(self->end - self->at) < length || memcmp(self->at, word, length) != 0) {
        return false;
    }
    self->at += length;
    return true;
}

static uint8_t new_label(einsum_parser_t *self)
{
    wf_einsum_t *out = self->out;
    out->label_dims[out->label_count] = 1;
    return (uint8_t)out->label_count++;
}

/* One term: letters and at most one ellipsis, which stands at *out_ellipsis (-1: none). */
static wf_status_t parse_term(einsum_parser_t *self, char letters[WF_MAX_RANK], uint32_t *out_count,
                              int32_t *out_ellipsis)
{
    *out_count = 0;
    *out_ellipsis = -1;
    for (skip_blanks(self); self->at != self->end; skip_blanks(self)) {
        if (is_letter(*self->at)) {
            if (*out_count == WF_MAX_RANK) {
                return WF_ERROR(MODEL_INVALID,
                                "a term of the equation has more letters than a tensor has axes");
            }
            letters[(*out_count)++] = *self->at++;
        } else if (*out_ellipsis < 0 && take_word(self, "...")) {
            *out_ellipsis = (int32_t)*out_count;
        } else {
            break;
        }
    }
    return WF_OK;
}

/* How many axes the ellipsis stands for; all occurrences must agree. */
static wf_status_t fix_ellipsis(einsum_parser_t *self, uint32_t rank)
{
    if (self->has_ellipsis && rank != self->ellipsis_rank) {
        return WF_ERROR(MODEL_INVALID, "the ellipsis stands for %u axes in one operand and for %u in another",
                        self->ellipsis_rank, rank);
    }
    for (uint32_t i = 0; !self->has_ellipsis && i < rank; i++) {
        self->ellipsis_labels[i] = new_label(self);
    }
    self->has_ellipsis = true;
    self->ellipsis_rank = rank;
    return WF_OK;
}

static wf_status_t bind_axis(einsum_parser_t *self, size_t input, uint32_t axis, uint8_t label, int64_t dim)
{
    int64_t *have = &self->out->label_dims[label];
    if (dim != *have && dim != 1 && *have != 1) {
        return WF_ERROR(MODEL_INVALID, "axis %u of input %zu is %lld where another operand has %lld", axis,
                        input, (long long)dim, (long long)*have);
    }
    *have = *have == 1 ? dim : *have;
    self->out->input_labels[input][axis] = label;
    return WF_OK;
}

static wf_status_t parse_operand(einsum_parser_t *self, const wf_type_t *type, size_t input)
{
    char letters[WF_MAX_RANK];
    uint32_t count;
    int32_t ellipsis;
    WF_TRY(parse_term(self, letters, &count, &ellipsis));
    if (count > type->rank || (ellipsis < 0 && count != type->rank)) {
        return WF_ERROR(MODEL_INVALID, "the equation gives input %zu %u letters, it has rank %u", input,
                        count, type->rank);
    }
    uint32_t axis = 0;
    for (uint32_t i = 0; i <= count; i++) {
        if ((int32_t)i == ellipsis) {
            WF_TRY(fix_ellipsis(self, type->rank - count));
            for (uint32_t e = 0; e < self->ellipsis_rank; e++, axis++) {
                WF_TRY(bind_axis(self, input, axis, self->ellipsis_labels[e], type->dims[axis]));
            }
        }
        if (i == count) {
            break;
        }
        unsigned char letter = (unsigned char)letters[i];
        if (self->label_of[letter] == NO_LABEL) {
            self->label_of[letter] = new_label(self);
        }
        self->letter_uses[letter]++;
        WF_TRY(bind_axis(self, input, axis, self->label_of[letter], type->dims[axis]));
        axis++;
    }
    return WF_OK;
}

static wf_status_t add_output(einsum_parser_t *self, uint8_t label)
{
    wf_einsum_t *out = self->out;
    if (out->output_rank == WF_MAX_RANK) {
        return wf_shape_rank_error(WF_MAX_RANK + 1);
    }
    if (memchr(out->output_labels, label, out->output_rank) != NULL) {
        return WF_ERROR(MODEL_INVALID, "a letter stands twice on the right side of the equation");
    }
    out->output_labels[out->output_rank++] = label;
    return WF_OK;
}

static wf_status_t add_ellipsis(einsum_parser_t *self)
{
    for (uint32_t e = 0; e < self->ellipsis_rank; e++) {
        WF_TRY(add_output(self, self->ellipsis_labels[e]));
    }
    return WF_OK;
}

static wf_status_t parse_output(einsum_parser_t *self)
{
    char letters[WF_MAX_RANK];
    uint32_t count;
    int32_t ellipsis;
    WF_TRY(parse_term(self, letters, &count, &ellipsis));
    for (uint32_t i = 0; i <= count; i++) {
        if ((int32_t)i == ellipsis) {
            WF_TRY(add_ellipsis(self));
        }
        if (i == count) {
            break;
        }
        uint8_t label = self->label_of[(unsigned char)letters[i]];
        if (label == NO_LABEL) {
            return WF_ERROR(MODEL_INVALID, "letter %c of the equation's right side is not on its left",
                            letters[i]);
        }
        WF_TRY(add_output(self, label));
    }
    return WF_OK;
}

/* Without a right side: the axes of the ellipsis, then the letters that appear once, by ASCII value. */
static wf_status_t imply_output(einsum_parser_t *self)
{
    WF_TRY(add_ellipsis(self));
    for (unsigned letter = 0; letter < 128; letter++) {
        if (self->letter_uses[letter] == 1) {
            WF_TRY(add_output(self, self->label_of[letter]));
        }
    }
    return WF_OK;
}

wf_status_t wf_einsum_parse(const char *equation, size_t length, const wf_type_t *inputs, size_t input_count,
                            wf_einsum_t *out_einsum)
{
    if (input_count > WF_EINSUM_MAX_INPUTS) {
        return WF_ERROR(MODEL_UNSUPPORTED, "%zu operands are given, the limit is %d", input_count,
                        WF_EINSUM_MAX_INPUTS);
    }
    *out_einsum = (wf_einsum_t){.input_count = (uint32_t)input_count};
    einsum_parser_t self = {.at = equation, .end = equation + length, .out = out_einsum};
    memset(self.label_of, NO_LABEL, sizeof self.label_of);
    for (size_t i = 0; i < input_count; i++) {
        if (i > 0 && !take_word(&self, ",")) {
            return WF_ERROR(MODEL_INVALID, "the equation has fewer terms than the %zu inputs", input_count);
        }
        WF_TRY(parse_operand(&self, &inputs[i], i));
    }
    WF_TRY(take_word(&self, "->") ? parse_output(&self) : imply_output(&self));
    if (self.at != self.end) {
        return WF_ERROR(MODEL_INVALID, "the equation is not understood from character %zu on",
                        (size_t)(self.at - equation));
    }
    return WF_OK;
}

static char *put_term(char *at, const uint8_t *labels, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t label = labels[i];
        *at++ = (char)(label < 26 ? 'a' + label : 'A' + (label - 26));
    }
    return at;
}

bool wf_einsum_text(const wf_einsum_t *einsum, const wf_type_t *inputs, char out[WF_EINSUM_TEXT_MAX])
{
    if (einsum->label_count > 52) {
        return false;
    }
    char *at = out;
    for (uint32_t i = 0; i < einsum->input_count; i++) {
        if (i > 0) {
            *at++ = ',';
        }
        at = put_term(at, einsum->input_labels[i], inputs[i].rank);
    }
    *at++ = '-';
    *at++ = '>';
    at = put_term(at, einsum->output_labels, einsum->output_rank);
    *at = '\0';
    return true;
}
