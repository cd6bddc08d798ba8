/* SPDX-License-Identifier: Apache-2.0 */
/* Tactic ids of the native source: text to variant and back. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backends/native/native.h"
#include "base/compiler.h"

#define PREFIX "native/"

void wf_native_id_print(const wf_native_variant_t *variant, char out_id[WF_TACTIC_ID_MAX])
{
    const wf_native_family_t *family = variant->family;
    size_t at = (size_t)snprintf(out_id, WF_TACTIC_ID_MAX, PREFIX "%s", family->name);
    if (family->has_layout) {
        at += (size_t)snprintf(out_id + at, WF_TACTIC_ID_MAX - at, ".%s", wf_layout_name(variant->layout));
    }
    if (family->has_tier) {
        at +=
            (size_t)snprintf(out_id + at, WF_TACTIC_ID_MAX - at, ".%s", wf_native_tiers[variant->tier].name);
    }
    for (size_t i = 0; family->keys[i] != NULL; i++) {
        at += (size_t)snprintf(out_id + at, WF_TACTIC_ID_MAX - at, ".%s%" PRId32, family->keys[i],
                               variant->params[i]);
    }
    at += (size_t)snprintf(out_id + at, WF_TACTIC_ID_MAX - at, "@%" PRIu32, family->revision);
    assert(at < WF_TACTIC_ID_MAX);
}

/* Takes `word` off the front of *text when it ends at '.' or '@'. */
static bool take_word(const char **text, const char *word)
{
    size_t length = strlen(word);
    const char *at = *text;
    if (*at != '.' || strncmp(at + 1, word, length) != 0)
        return false;
    if (at[1 + length] != '.' && at[1 + length] != '@')
        return false;
    *text = at + 1 + length;
    return true;
}

static bool take_layout(const char **text, wf_layout_t *out_layout)
{
    for (int i = 0; i < WF_LAYOUT_COUNT; i++) {
        if (!take_word(text, wf_layout_name((wf_layout_t)i)))
            continue;
        *out_layout = (wf_layout_t)i;
        return true;
    }
    return false;
}

static bool take_tier(const char **text, uint32_t *out_tier)
{
    for (uint32_t i = 0; i < wf_native_tier_count; i++) {
        if (!take_word(text, wf_native_tiers[i].name))
            continue;
        *out_tier = i;
        return true;
    }
    return false;
}

/* ".mb64": key, then at most nine digits. */
static bool take_number(const char **text, const char *key, int32_t *out_number)
{
    size_t length = strlen(key);
    if (**text != '.' || strncmp(*text + 1, key, length) != 0)
        return false;
    const char *at = *text + 1 + length;
    int32_t number = 0, digits = 0;
    for (; *at >= '0' && *at <= '9' && digits < 9; at++, digits++)
        number = number * 10 + (*at - '0');
    if (digits == 0)
        return false;
    *out_number = number;
    *text = at;
    return true;
}

static bool parse_rest(const wf_native_family_t *family, const char *text, wf_native_variant_t *variant)
{
    *variant = (wf_native_variant_t){.family = family};
    if (family->has_layout && !take_layout(&text, &variant->layout))
        return false;
    if (family->has_tier && !take_tier(&text, &variant->tier))
        return false;
    for (size_t i = 0; family->keys[i] != NULL; i++) {
        if (!take_number(&text, family->keys[i], &variant->params[i]))
            return false;
    }
    char canonical[WF_TACTIC_ID_MAX];
    wf_native_id_print(variant, canonical);
    const char *revision = strchr(canonical, '@');
    return strcmp(text, revision) == 0;
}

bool wf_native_id_parse(const char *id, wf_native_variant_t *out_variant)
{
    if (strncmp(id, PREFIX, strlen(PREFIX)) != 0 || strlen(id) >= WF_TACTIC_ID_MAX)
        return false;
    id += strlen(PREFIX);
    for (size_t i = 0; i < wf_native_family_count; i++) {
        const wf_native_family_t *family = wf_native_families[i];
        size_t length = strlen(family->name);
        if (strncmp(id, family->name, length) == 0 && parse_rest(family, id + length, out_variant))
            return true;
    }
    return false;
}
