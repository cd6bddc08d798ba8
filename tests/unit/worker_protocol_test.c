/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between tuner and worker: what is packed comes back, what is damaged is refused. */
#include "tune/worker_protocol.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.h"
#include "support/cmocka_all.h"
#include "support/random.h"

static wf_text_t new_text(void)
{
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), WF_MESSAGE_MAX_BYTES);
    return text;
}

static wf_unpack_t reader(const wf_text_t *text)
{
    return (wf_unpack_t){.data = (const uint8_t *)text->data, .bytes = text->length};
}

/* ---- Payloads of all kinds ---- */

static const char *const sources[] = {"native", "null", NULL};
static const wf_hello_t hello = {"1.2.3", 7, 4, "avx2", sources};
static const char *const tactics[] = {"native/a@1", "", "null/b@22"};
static const wf_constant_place_t places[] = {{0, 0}, {64, 128}};
static const wf_measure_message_t measure = {.problem = "v1 relu(x:f32[2])->f32[2]",
                                             .request = {.tactics = tactics,
                                                         .tactic_count = 3,
                                                         .block_count = 11,
                                                         .batch_ns = 1e5,
                                                         .memory_bytes = 12345,
                                                         .seed = 99,
                                                         .deadline_ns = 123456789},
                                             .places = places,
                                             .place_count = 2,
                                             .constant_bytes = 192};
static const wf_load_message_t load = {3, 1, 1 << 20, 5};
static const wf_store_message_t store = {1 << 22, 1 << 24};
static const wf_race_message_t race = {.slots = {4, 0, 31},
                                       .slot_count = 3,
                                       .block_count = 9,
                                       .runs_min = 2,
                                       .least_ns = 1e6,
                                       .seed = 8,
                                       .deadline_ns = 77};

static wf_measure_result_t make_result(void)
{
    wf_measure_result_t result;
    wf_assert_ok(wf_measure_result_init(&result, 3, 5, wf_allocator_system()));
    result.block_count = 2; /* of the 5 that were wanted */
    for (size_t i = 0; i < 6; i++)
        result.times_ns[i] = i == 4 ? NAN : 10.5 * (double)(i + 1);
    result.canary_ns[0] = 30000;
    result.canary_ns[1] = 31000;
    result.preemptions[1] = 3;
    (void)snprintf(result.faults[1], sizeof result.faults[1], "it broke");
    return result;
}

static void pack(int kind, wf_text_t *text)
{
    wf_measure_result_t result;
    wf_status_t status;
    switch (kind) {
    case 0:
        wf_hello_pack(&hello, text);
        break;
    case 1:
        wf_measure_pack(&measure, text);
        break;
    case 2:
        wf_load_pack(&load, text);
        break;
    case 3:
        wf_race_pack(&race, text);
        break;
    case 4:
        result = make_result();
        wf_measured_pack(&result, text);
        wf_measure_result_deinit(&result);
        break;
    case 5:
        wf_store_pack(&store, text);
        break;
    default:
        status = wf_status_hinted(WF_ERROR(RUNTIME_DATA, "node %d", 5), "do %s", "it");
        wf_failed_pack(status, text);
        wf_status_free(status);
    }
    wf_assert_ok(wf_text_take_status(text));
}

static wf_status_t unpack(int kind, wf_unpack_t *in, wf_arena_t *arena)
{
    wf_hello_t h;
    wf_measure_message_t m;
    wf_load_message_t l;
    wf_race_message_t r;
    wf_measure_result_t result;
    wf_status_t status;
    switch (kind) {
    case 0:
        return wf_hello_unpack(in, arena, &h);
    case 1:
        return wf_measure_unpack(in, arena, &m);
    case 2:
        return wf_load_unpack(in, &l);
    case 3:
        return wf_race_unpack(in, &r);
    case 4:
        status = wf_measured_unpack(in, wf_allocator_system(), &result);
        if (status == WF_OK)
            wf_measure_result_deinit(&result);
        return status;
    case 5:
        return wf_store_unpack(in, &(wf_store_message_t){0});
    default:
        return wf_failed_unpack(in);
    }
}

enum { KINDS = 7 };

static void what_is_packed_comes_back(void **state)
{
    (void)state;
    wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    wf_text_t texts[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        texts[kind] = new_text();
        pack(kind, &texts[kind]);
    }
    wf_unpack_t in = reader(&texts[0]);
    wf_hello_t h;
    wf_assert_ok(wf_hello_unpack(&in, &arena, &h));
    assert_string_equal(h.version, "1.2.3");
    assert_string_equal(h.isa, "avx2");
    assert_string_equal(h.sources[1], "null");
    assert_null(h.sources[2]);
    assert_true(h.protocol == 7 && h.thread_count == 4);

    in = reader(&texts[1]);
    wf_measure_message_t m;
    wf_assert_ok(wf_measure_unpack(&in, &arena, &m));
    assert_string_equal(m.problem, measure.problem);
    assert_true(m.request.tactic_count == 3 && m.request.block_count == 11 && m.request.batch_ns == 1e5 &&
                m.request.memory_bytes == 12345 && m.request.seed == 99 &&
                m.request.deadline_ns == 123456789 && m.place_count == 2 && m.constant_bytes == 192);
    for (int i = 0; i < 3; i++)
        assert_string_equal(m.request.tactics[i], tactics[i]);
    assert_memory_equal(m.places, places, sizeof places);

    in = reader(&texts[2]);
    wf_load_message_t l;
    wf_assert_ok(wf_load_unpack(&in, &l));
    assert_true(l.slot == 3 && l.linked == 1 && l.engine_bytes == 1 << 20 && l.seed == 5);

    in = reader(&texts[3]);
    wf_race_message_t r;
    wf_assert_ok(wf_race_unpack(&in, &r));
    assert_memory_equal(r.slots, race.slots, 3 * sizeof(uint32_t));
    assert_true(r.slot_count == 3 && r.block_count == 9 && r.runs_min == 2 && r.least_ns == 1e6 &&
                r.seed == 8 && r.deadline_ns == 77);

    in = reader(&texts[5]);
    wf_store_message_t st;
    wf_assert_ok(wf_store_unpack(&in, &st));
    assert_true(st.constant_bytes == 1 << 22 && st.limit_bytes == 1 << 24);

    in = reader(&texts[4]);
    wf_measure_result_t got, wanted = make_result();
    wf_assert_ok(wf_measured_unpack(&in, wf_allocator_system(), &got));
    assert_true(got.tactic_count == 3 && got.block_count == 2);
    for (size_t i = 0; i < 6; i++)
        assert_true(got.times_ns[i] == wanted.times_ns[i] || i == 4);
    assert_true(isnan(got.times_ns[4]) && got.canary_ns[1] == 31000 && got.preemptions[1] == 3);
    assert_string_equal(got.faults[0], "");
    assert_string_equal(got.faults[1], "it broke");
    wf_measure_result_deinit(&got);
    wf_measure_result_deinit(&wanted);

    in = reader(&texts[6]);
    wf_status_t status = wf_failed_unpack(&in);
    assert_int_equal(wf_status_code(status), WF_CODE_RUNTIME_DATA);
    assert_string_equal(wf_status_message(status), "node 5");
    assert_string_equal(wf_status_hint(status), "do it");
    wf_status_free(status);
    for (int kind = 0; kind < KINDS; kind++)
        wf_text_deinit(&texts[kind]);
    wf_arena_deinit(&arena);
}

static void hello_without_sources_means_all(void **state)
{
    (void)state;
    wf_arena_t arena;
    wf_text_t text = new_text();
    wf_hello_t h = {"1", 1, 1, NULL, NULL}, got;
    wf_arena_init(&arena, wf_allocator_system());
    wf_hello_pack(&h, &text);
    wf_unpack_t in = reader(&text);
    wf_assert_ok(wf_hello_unpack(&in, &arena, &got));
    assert_null(got.sources);
    assert_string_equal(got.isa, "");
    wf_text_deinit(&text);
    wf_arena_deinit(&arena);
}

/* Every cut is refused; with a changed byte anything may come out, but nothing may break. */
static void damaged_payloads_are_refused(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("payloads", 21);
    for (int kind = 0; kind < KINDS; kind++) {
        wf_text_t text = new_text();
        pack(kind, &text);
        for (size_t cut = 0; cut <= text.length; cut++) {
            wf_arena_t arena;
            wf_arena_init(&arena, wf_allocator_system());
            uint8_t *exact = malloc(cut + (cut == text.length)); /* the sanitizer sees reads past it */
            memcpy(exact, text.data, cut);
            wf_unpack_t in = {.data = exact, .bytes = cut};
            wf_status_t status = unpack(kind, &in, &arena);
            bool fails = wf_status_code(status) == WF_CODE_INTERNAL;
            assert_true(kind == KINDS - 1 || fails == (cut < text.length));
            wf_status_free(status);
            free(exact);
            wf_arena_deinit(&arena);
        }
        for (int round = 0; round < 3000; round++) {
            wf_arena_t arena;
            wf_arena_init(&arena, wf_allocator_system());
            uint8_t *changed = malloc(text.length);
            memcpy(changed, text.data, text.length);
            for (uint64_t n = 1 + wf_random_below(&random, 3); n > 0; n--)
                changed[wf_random_below(&random, text.length)] = (uint8_t)wf_random_u64(&random);
            wf_unpack_t in = {.data = changed, .bytes = text.length};
            wf_status_free(unpack(kind, &in, &arena));
            free(changed);
            wf_arena_deinit(&arena);
        }
        wf_text_deinit(&text);
    }
}

/* ---- Frames ---- */

static void frames_travel(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    wf_text_t text = new_text();
    wf_pack_text(&text, "payload");
    wf_message_t message;
    wf_assert_ok(wf_message_send(pair[0], WF_MESSAGE_RACE, &text, 1000));
    wf_assert_ok(wf_message_send(pair[0], WF_MESSAGE_READY, NULL, 1000));
    wf_assert_ok(wf_message_receive(pair[1], wf_allocator_system(), 1000, &message));
    assert_int_equal(message.kind, WF_MESSAGE_RACE);
    assert_int_equal(message.payload_bytes, text.length);
    assert_memory_equal(message.payload, text.data, text.length);
    wf_message_deinit(&message);
    wf_assert_ok(wf_message_receive(pair[1], wf_allocator_system(), 1000, &message));
    assert_int_equal(message.kind, WF_MESSAGE_READY);
    assert_int_equal(message.payload_bytes, 0);
    wf_message_deinit(&message);
    wf_assert_fails(wf_message_receive(pair[1], wf_allocator_system(), 10, &message), TIME_OUT);
    wf_text_deinit(&text);
    close(pair[0]);
    wf_assert_fails(wf_message_receive(pair[1], wf_allocator_system(), 1000, &message), INTERNAL);
    close(pair[1]);
}

static void frames_that_are_none_are_refused(void **state)
{
    (void)state;
    wf_random_t random = wf_random_start("frames", 22);
    for (int round = 0; round < 300; round++) {
        int pair[2];
        uint8_t bytes[16];
        wf_message_t message;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        wf_assert_ok(wf_message_send(pair[0], WF_MESSAGE_READY, NULL, 1000));
        wf_assert_ok(wf_socket_receive(pair[1], bytes, sizeof bytes, 1000));
        bytes[wf_random_below(&random, sizeof bytes)] ^= (uint8_t)(1 + wf_random_below(&random, 255));
        wf_assert_ok(wf_socket_send(pair[0], bytes, sizeof bytes, 1000));
        close(pair[0]);
        wf_status_t status = wf_message_receive(pair[1], wf_allocator_system(), 1000, &message);
        if (status == WF_OK) /* another kind */
            wf_message_deinit(&message);
        wf_status_free(status);
        close(pair[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_comes_back),        cmocka_unit_test(hello_without_sources_means_all),
        cmocka_unit_test(damaged_payloads_are_refused),     cmocka_unit_test(frames_travel),
        cmocka_unit_test(frames_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
