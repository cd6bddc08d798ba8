/* SPDX-License-Identifier: Apache-2.0 */
/* Small models with flipped, cut, doubled and exchanged bytes: every outcome is a graph that verifies or a
 * refusal. */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "support/cmocka_all.h"
#include "support/onnx_target.h"
#include "support/random.h"

enum { ROUNDS = 20000 };

static void the_seeds_themselves_import(void **state)
{
    (void)state;
    for (size_t i = 0; i < ONNX_TARGET_SEEDS; i++) {
        size_t bytes;
        uint8_t *data = onnx_target_seed(i, &bytes);
        wf_code_t code = onnx_target_run(data, bytes);
        if (code != WF_CODE_OK) {
            fail_msg("seed %zu: WF-%04d", i, (int)code);
        }
        free(data);
    }
}

/* A mutated copy of exactly its size, so that AddressSanitizer sees a read past the end. */
static uint8_t *mutate(wf_random_t *random, const uint8_t *data, size_t bytes, size_t *out_bytes)
{
    size_t capacity = 2 * bytes + 64;
    uint8_t *copy = malloc(capacity);
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    for (uint64_t edits = 1 + wf_random_below(random, 4); edits > 0 && bytes > 0; edits--) {
        size_t at = (size_t)wf_random_below(random, bytes);
        size_t span = 1 + (size_t)wf_random_below(random, bytes - at);
        switch (wf_random_below(random, 12)) { /* mostly changes that keep the lengths right */
        case 0:
            copy[at] ^= (uint8_t)(1u << wf_random_below(random, 8));
            break;
        case 1:
            copy[at] = (uint8_t)wf_random_below(random, 256);
            break;
        case 2: /* small changes of lengths and counts */
            copy[at] = (uint8_t)(copy[at] + 1 - 2 * wf_random_below(random, 2));
            break;
        case 3:
            bytes = at;
            break;
        case 4: /* a piece disappears */
            memmove(copy + at, copy + at + span, bytes - at - span);
            bytes -= span;
            break;
        case 5: /* a piece comes twice */
            if (bytes + span <= capacity) {
                memmove(copy + at + span, copy + at, bytes - at);
                bytes += span;
            }
            break;
        case 6: /* a piece comes from elsewhere */
            span = WF_MIN(span, (size_t)8);
            memmove(copy + at, copy + wf_random_below(random, bytes - span + 1), span);
            break;
        default: { /* a letter or a small number becomes another */
            static const char letters[] = "xywbact01\1\2\3\5\6\7\10\11";
            copy[at] = (uint8_t)letters[wf_random_below(random, sizeof letters)];
            break;
        }
        }
    }
    uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(exact);
    memcpy(exact, copy, bytes);
    free(copy);
    *out_bytes = bytes;
    return exact;
}

static void mutated_models_are_refused_or_right(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("onnx_mutation", 20261130);
    uint8_t *seeds[ONNX_TARGET_SEEDS];
    size_t sizes[ONNX_TARGET_SEEDS];
    size_t imported = 0;
    for (size_t i = 0; i < ONNX_TARGET_SEEDS; i++) {
        seeds[i] = onnx_target_seed(i, &sizes[i]);
    }
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t seed = (size_t)wf_random_below(&random, ONNX_TARGET_SEEDS), bytes;
        uint8_t *data = mutate(&random, seeds[seed], sizes[seed], &bytes);
        imported += onnx_target_run(data, bytes) == WF_CODE_OK;
        free(data);
    }
    for (size_t i = 0; i < ONNX_TARGET_SEEDS; i++) {
        free(seeds[i]);
    }
    print_message("%zu of %d mutated models import\n", imported, (int)ROUNDS);
    assert_in_range(imported, ROUNDS / 100,
                    ROUNDS - ROUNDS / 10); /* the mutations reach all the way, and do harm */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_seeds_themselves_import),
        cmocka_unit_test(mutated_models_are_refused_or_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
