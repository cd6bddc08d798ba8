/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/random.h"

typedef WF_VEC(uint64_t) words_t;

static void checked_sizes_do_not_wrap(void **state)
{
    (void)state;
    size_t out = 7;
    assert_false(wf_size_add(SIZE_MAX, 1, &out));
    assert_false(wf_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_false(wf_size_align(SIZE_MAX, 64, &out));
    assert_int_equal(out, 7);
    assert_true(wf_size_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_true(wf_size_align(65, 64, &out));
    assert_int_equal(out, 128);
    assert_true(wf_size_align(64, 64, &out));
    assert_int_equal(out, 64);
    assert_true(wf_size_align(0, 64, &out));
    assert_int_equal(out, 0);
}

static void allocations_are_zeroed_and_aligned(void **state)
{
    (void)state;
    for (size_t alignment_bytes = 1; alignment_bytes <= 4096; alignment_bytes *= 2) {
        wf_allocator_t system = wf_allocator_system();
        uint8_t *p;
        wf_assert_ok(wf_alloc_aligned(system, 1000, 3, alignment_bytes, &p));
        assert_true((uintptr_t)p % alignment_bytes == 0);
        for (size_t i = 0; i < 3000; i++) {
            assert_int_equal(p[i], 0);
            p[i] = (uint8_t)i;
        }
        p = system.resize(system.self, p, 3000, 9000, alignment_bytes);
        assert_non_null(p);
        assert_true((uintptr_t)p % alignment_bytes == 0);
        for (size_t i = 0; i < 3000; i++) {
            assert_int_equal(p[i], (uint8_t)i);
        }
        wf_free_aligned(system, p, 9000, 1, alignment_bytes);
    }
}

static void nothing_and_too_much(void **state)
{
    (void)state;
    int *p = (int *)1;
    wf_assert_ok(wf_alloc(wf_allocator_system(), 0, sizeof *p, &p));
    assert_null(p);
    wf_free(wf_allocator_system(), p, 0, sizeof *p);
    p = (int *)1;
    wf_assert_fails(wf_alloc(wf_allocator_system(), SIZE_MAX / 2, sizeof *p, &p), OUT_OF_MEMORY);
    assert_null(p);
    p = (int *)1;
    wf_assert_fails(wf_alloc(wf_allocator_system(), SIZE_MAX, 1, &p), OUT_OF_MEMORY);
    assert_null(p);
}

/* Random sizes: blocks do not overlap, are zero, and keep their contents. */
static void arena_blocks_do_not_overlap(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("arena", 1);
    for (int round = 0; round < 20; round++) {
        wf_fail_allocator_t fail;
        wf_fail_allocator_init(&fail, WF_FAIL_NEVER, false);
        wf_arena_t arena;
        wf_arena_init(&arena, wf_fail_allocator(&fail));
        uint8_t *blocks[300];
        size_t sizes[300];
        size_t total_bytes = 0;
        for (size_t i = 0; i < 300; i++) {
            unsigned shift = (unsigned)wf_random_below(&random, 17);
            sizes[i] = 1 + wf_random_below(&random, (uint64_t)1 << shift);
            wf_assert_ok(wf_arena_alloc(&arena, sizes[i], 1, &blocks[i]));
            assert_true((uintptr_t)blocks[i] % (sizes[i] >= 4096 ? 64 : 16) == 0);
            for (size_t k = 0; k < sizes[i]; k++) {
                assert_int_equal(blocks[i][k], 0);
            }
            memset(blocks[i], (int)(i % 255) + 1, sizes[i]);
            total_bytes += sizes[i];
        }
        assert_int_equal(arena.total_bytes, total_bytes);
        for (size_t i = 0; i < 300; i++) {
            for (size_t k = 0; k < sizes[i]; k++) {
                assert_int_equal(blocks[i][k], i % 255 + 1);
            }
        }
        /* Few blocks from below for many from above, and no waste beyond the doubling. */
        assert_true(fail.call_count < 100);
        assert_true(fail.live_bytes < 3 * total_bytes + 8192);
        wf_arena_deinit(&arena);
        wf_fail_allocator_finish(&fail);
    }
}

static void arena_keeps_its_limit(void **state)
{
    (void)state;
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    arena.limit_bytes = 1000;
    char *p;
    wf_assert_ok(wf_arena_alloc(&arena, 900, 1, &p));
    wf_assert_fails(wf_arena_alloc(&arena, 101, 1, &p), OUT_OF_MEMORY);
    assert_null(p);
    wf_assert_ok(wf_arena_alloc(&arena, 100, 1, &p));
    wf_assert_fails(wf_arena_alloc(&arena, 1, 1, &p), OUT_OF_MEMORY);
    wf_assert_ok(wf_arena_alloc(&arena, 0, 1, &p));
    wf_assert_fails(wf_arena_alloc(&arena, SIZE_MAX, 2, &p), OUT_OF_MEMORY);
    wf_assert_fails(wf_arena_alloc(&arena, SIZE_MAX, 1, &p), OUT_OF_MEMORY);
    wf_arena_deinit(&arena);
}

static void arena_texts(void **state)
{
    (void)state;
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    const char *text;
    wf_assert_ok(wf_arena_text(&arena, "abcdef", 3, &text));
    assert_string_equal(text, "abc");
    wf_assert_ok(wf_arena_text(&arena, NULL, 0, &text));
    assert_string_equal(text, "");
    wf_assert_ok(wf_arena_format(&arena, &text, "%s-%05d", "x", 42));
    assert_string_equal(text, "x-00042");
    wf_arena_deinit(&arena);
}

static void arena_as_allocator(void **state)
{
    (void)state;
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    wf_allocator_t allocator = wf_arena_allocator(&arena);
    words_t words = {0};
    for (uint64_t i = 0; i < 10000; i++) {
        wf_assert_ok(wf_vec_push(allocator, &words, &i));
    }
    for (uint64_t i = 0; i < 10000; i++) {
        assert_true(words.items[i] == i);
    }
    wf_vec_deinit(allocator, &words);
    uint8_t *wide;
    wf_assert_ok(wf_alloc_aligned(allocator, 10, 1, 4096, &wide));
    assert_true((uintptr_t)wide % 4096 == 0);
    wf_arena_deinit(&arena);
}

static void vec_grows_and_zeroes(void **state)
{
    (void)state;
    wf_fail_allocator_t fail;
    wf_fail_allocator_init(&fail, WF_FAIL_NEVER, false);
    wf_allocator_t allocator = wf_fail_allocator(&fail);
    words_t words = {0};
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t *place;
        wf_assert_ok(wf_vec_grow(allocator, &words, sizeof *place, &place));
        assert_true(*place == 0);
        *place = i * i;
        assert_int_equal(words.count, i + 1);
    }
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(words.items[i] == i * i);
    }
    wf_vec_deinit(allocator, &words);
    assert_null(words.items);
    assert_int_equal(words.count + words.capacity, 0);
    wf_fail_allocator_finish(&fail);
}

static void text_chains_are_checked_once(void **state)
{
    (void)state;
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), 1000);
    assert_string_equal(wf_text_cstr(&text), "");
    wf_text_puts(&text, "shape ");
    wf_text_printf(&text, "[%d,%d]", 3, 4);
    wf_text_append(&text, "!!x", 2);
    wf_text_printf(&text, "%s", "");
    assert_string_equal(wf_text_cstr(&text), "shape [3,4]!!");
    assert_int_equal(text.length, 13);
    wf_assert_ok(wf_text_take_status(&text));
    for (int i = 0; i < 300; i++) {
        wf_text_printf(&text, "%04d", i);
    }
    assert_true(text.length <= 1000);
    wf_assert_fails(wf_text_take_status(&text), OUT_OF_MEMORY);
    wf_assert_ok(wf_text_take_status(&text));
    wf_text_deinit(&text);
}

/* Against snprintf on random pieces, the builder's whole text must be the concatenation. */
static void text_equals_concatenation(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("text", 2);
    static char expected[100000];
    size_t length = 0;
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), sizeof expected);
    for (int i = 0; i < 3000; i++) {
        unsigned long long value = wf_random_u64(&random) >> wf_random_below(&random, 64);
        length += (size_t)snprintf(expected + length, sizeof expected - length, "<%llx>", value);
        wf_text_printf(&text, "<%llx>", value);
    }
    wf_assert_ok(wf_text_take_status(&text));
    assert_int_equal(text.length, length);
    assert_string_equal(wf_text_cstr(&text), expected);
    wf_text_deinit(&text);
}

static wf_status_t use_everything(wf_allocator_t allocator, void *arg)
{
    (void)arg;
    wf_arena_t arena;
    wf_arena_init(&arena, allocator);
    words_t words = {0};
    wf_text_t text;
    wf_text_init(&text, allocator, 100000);
    wf_status_t status = WF_OK;
    for (uint64_t i = 0; i < 200 && status == WF_OK; i++) {
        const char *copy;
        char *block;
        status = wf_vec_push(allocator, &words, &i);
        status = wf_status_join(status, wf_arena_format(&arena, &copy, "item %d", (int)i));
        status = wf_status_join(status, wf_arena_alloc(&arena, (size_t)i * 50, 1, &block));
        wf_text_printf(&text, "%d,", (int)i);
    }
    status = wf_status_join(status, wf_text_take_status(&text));
    wf_text_deinit(&text);
    wf_vec_deinit(allocator, &words);
    wf_arena_deinit(&arena);
    return status;
}

static void each_failed_allocation_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    uint64_t count = wf_fail_each_allocation(use_everything, NULL);
    assert_in_range(count, 10, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_sizes_do_not_wrap),
        cmocka_unit_test(allocations_are_zeroed_and_aligned),
        cmocka_unit_test(nothing_and_too_much),
        cmocka_unit_test(arena_blocks_do_not_overlap),
        cmocka_unit_test(arena_keeps_its_limit),
        cmocka_unit_test(arena_texts),
        cmocka_unit_test(arena_as_allocator),
        cmocka_unit_test(vec_grows_and_zeroes),
        cmocka_unit_test(text_chains_are_checked_once),
        cmocka_unit_test(text_equals_concatenation),
        cmocka_unit_test(each_failed_allocation_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
