/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/random.h"

/* Canonical XXH3-128 of xxHash 0.8.1 (the one of nothing is in its specification): the values are part of
 * files and must not change. */
static void known_hashes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hash;
    } rows[] = {
        {"", "99aa06d3014798d86001c324468d497f"},
        {"wayfinder", "5b8d7d1025d0cecccb2e88bf55dc5257"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[33];
        wf_hash_text(wf_hash_bytes(rows[i].text, strlen(rows[i].text)), text);
        assert_string_equal(text, rows[i].hash);
    }
}

static void text_and_back(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("hash", 3);
    for (int i = 0; i < 1000; i++) {
        wf_hash_t hash = {wf_random_u64(&random), wf_random_u64(&random)};
        char text[33];
        char expected[33];
        wf_hash_t back;
        wf_hash_text(hash, text);
        snprintf(expected, sizeof expected, "%016llx%016llx", (unsigned long long)hash.high,
                 (unsigned long long)hash.low);
        assert_string_equal(text, expected);
        assert_true(wf_hash_parse(text, &back));
        assert_true(wf_hash_equal(hash, back));
        back.low ^= 1;
        assert_false(wf_hash_equal(hash, back));
    }
    wf_hash_t hash;
    assert_false(wf_hash_parse("", &hash));
    assert_false(wf_hash_parse("00112233445566778899aabbccddeef", &hash));
    assert_false(wf_hash_parse("00112233445566778899aabbccddeeffa", &hash));
    assert_false(wf_hash_parse("00112233445566778899aabbccddeefg", &hash));
    assert_true(wf_hash_parse("00112233445566778899AABBCCDDEEFF", &hash));
    assert_true(hash.high == UINT64_C(0x0011223344556677) && hash.low == UINT64_C(0x8899aabbccddeeff));
}

/* The oracle is a table indexed by the number that the key spells. */
static void map_agrees_with_a_table(void **state)
{
    (void)state;
    enum { KEYS = 2000 };
    static char keys[KEYS][8];
    static uint64_t values[KEYS];
    static bool known[KEYS];
    wf_random_t random = wf_random_start("map", 4);
    wf_map_t map;
    wf_map_init(&map, wf_allocator_system());
    size_t count = 0;
    for (int i = 0; i < 20000; i++) {
        size_t key = wf_random_below(&random, KEYS);
        size_t key_bytes = (size_t)snprintf(keys[key], sizeof keys[key], "%zu", key);
        uint64_t got;
        bool found = wf_map_get(&map, keys[key], key_bytes, &got);
        assert_int_equal(found, known[key]);
        if (found) {
            assert_true(got == values[key]);
        }
        if (wf_random_below(&random, 2) == 0) {
            values[key] = wf_random_u64(&random);
            count += !known[key];
            known[key] = true;
            wf_assert_ok(wf_map_set(&map, keys[key], key_bytes, values[key]));
        }
        assert_int_equal(map.count, count);
    }
    wf_map_deinit(&map);
    assert_false(wf_map_get(&map, "1", 1, values));
}

static void map_keys_are_bytes(void **state)
{
    (void)state;
    wf_map_t map;
    wf_map_init(&map, wf_allocator_system());
    wf_assert_ok(wf_map_set(&map, "a\0b", 3, 1));
    wf_assert_ok(wf_map_set(&map, "a\0c", 3, 2));
    wf_assert_ok(wf_map_set(&map, "a", 1, 3));
    wf_assert_ok(wf_map_set(&map, NULL, 0, 4));
    uint64_t value = 0;
    assert_true(wf_map_get(&map, "a\0b", 3, &value) && value == 1);
    assert_true(wf_map_get(&map, "a\0c", 3, &value) && value == 2);
    assert_true(wf_map_get(&map, "a", 1, &value) && value == 3);
    assert_true(wf_map_get(&map, "", 0, &value) && value == 4);
    assert_false(wf_map_get(&map, "a\0", 2, &value));
    wf_map_deinit(&map);
}

static wf_status_t fill_map(wf_allocator_t allocator, void *arg)
{
    const char *digits = arg;
    wf_map_t map;
    wf_map_init(&map, allocator);
    wf_status_t status = WF_OK;
    for (size_t i = 0; i < 90 && status == WF_OK; i++) {
        status = wf_map_set(&map, digits + i, 10, i);
    }
    wf_map_deinit(&map);
    return status;
}

static void map_survives_failed_growth(void **state)
{
    (void)state;
    char digits[101];
    for (size_t i = 0; i < sizeof digits; i++) {
        digits[i] = (char)('0' + i * i % 7 + i / 13);
    }
    assert_in_range(wf_fail_each_allocation(fill_map, digits), 3, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_hashes),
        cmocka_unit_test(text_and_back),
        cmocka_unit_test(map_agrees_with_a_table),
        cmocka_unit_test(map_keys_are_bytes),
        cmocka_unit_test(map_survives_failed_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
