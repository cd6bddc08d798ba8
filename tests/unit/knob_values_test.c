/* SPDX-License-Identifier: Apache-2.0 */
/* What users may write for knobs, and what they may not. */
#include "route/knob_values.h"

#include <string.h>

#include "support/cmocka_all.h"

static wf_knob_values_t parse(const char *name, const char *text)
{
    wf_knob_values_t values;
    wf_assert_ok(wf_knob_values_parse(name, text, &values));
    return values;
}

static void lists_and_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        size_t count;
        uint32_t values[8];
    } rows[] = {
        {"cpu.threads", "3", 1, {3}},
        {"cpu.threads", "1,2,8", 3, {1, 2, 8}},
        {"cpu.threads", "[1/2]", 2, {1, 2}},
        {"cpu.threads", "[4|2]", 2, {4, 2}},
        {"cpu.threads", "1..4", 4, {1, 2, 3, 4}},
        {"cpu.threads", "[1..8:3,16]", 4, {1, 4, 7, 16}},
        {"fuse.norm", "on", 1, {1}},
        {"fuse.norm", "off,on", 2, {0, 1}},
        {"fuse.norm", "[0/1]", 2, {0, 1}},
        {"fuse.norm", "0..1", 2, {0, 1}},
        {"-memory.reuse", "[no]", 1, {0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_knob_values_t values = parse(rows[i].name, rows[i].text);
        assert_int_equal(values.count, rows[i].count);
        assert_memory_equal(values.values, rows[i].values, rows[i].count * sizeof(uint32_t));
    }
    assert_true(parse("cpu.threads", "1").knob == WF_KNOB_THREADS);
}

static void one_value_is_the_default_where_listed(void **state)
{
    (void)state;
    wf_knob_values_t values = parse("fuse.squeeze_excite", "on,off");
    assert_int_equal(wf_knob_values_single(&values), 0);
    values = parse("memory.reuse", "off,on");
    assert_int_equal(wf_knob_values_single(&values), 1);
    values = parse("memory.reuse", "off");
    assert_int_equal(wf_knob_values_single(&values), 0);
    values = parse("cpu.threads", "4..6");
    assert_int_equal(wf_knob_values_single(&values), 6);
}

static void spellings_of_others_are_known(void **state)
{
    (void)state;
    wf_knob_values_t values = parse("-match_ragged_mha", "[0/1]");
    assert_string_equal(wf_knob_facts(values.knob).name, "fuse.attention");
    values = parse("copy_ppg", "0");
    assert_string_equal(wf_knob_facts(values.knob).name, "memory.concat_inplace");
}

static void mistakes_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *hint;
    } rows[] = {
        {"fuse.atention", "on", "fuse.attention"},  {"cpu.thread", "2", "cpu.threads"},
        {"fuse.norm", "maybe", "fuse.norm=on"},     {"fuse.norm", "", "fuse.norm=on"},
        {"fuse.norm", "on,,off", "fuse.norm=on"},   {"fuse.norm", "on,on", "fuse.norm=on"},
        {"fuse.norm", "[on", "fuse.norm=on"},       {"fuse.norm", "[]", "fuse.norm=on"},
        {"fuse.norm", "on,", "fuse.norm=on"},       {"cpu.threads", "0", "cpu.threads=2"},
        {"cpu.threads", "1..", "cpu.threads=2"},    {"cpu.threads", "3..1", "cpu.threads=2"},
        {"cpu.threads", "1..4:0", "cpu.threads=2"}, {"cpu.threads", "1..1000", "cpu.threads=2"},
        {"cpu.threads", "x", "cpu.threads=2"},      {"cpu.threads", "2000", "cpu.threads=2"},
        {"cpu.threads", "1,1", "cpu.threads=2"},    {"cpu.threads", "-1", "cpu.threads=2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wf_knob_values_t values;
        wf_status_t status = wf_knob_values_parse(rows[i].name, rows[i].text, &values);
        assert_int_equal(wf_status_code(status), WF_CODE_USAGE);
        assert_non_null(strstr(wf_status_hint(status), rows[i].hint));
        wf_status_free(status);
    }
}

static void the_catalogue_has_every_knob(void **state)
{
    (void)state;
    wf_text_t text;
    for (int json = 0; json < 2; json++) {
        wf_text_init(&text, wf_allocator_system(), 1 << 20);
        wf_assert_ok(wf_knobs_describe("list", NULL, json, &text));
        for (size_t k = 0; k < wf_knob_count(); k++)
            assert_non_null(strstr(wf_text_cstr(&text), wf_knob_facts(k).name));
        assert_non_null(strstr(wf_text_cstr(&text), "cpu.threads"));
        wf_text_deinit(&text);
    }
    wf_text_init(&text, wf_allocator_system(), 1 << 20);
    wf_assert_ok(wf_knobs_describe("search", "attention", false, &text));
    assert_non_null(strstr(wf_text_cstr(&text), "fuse.attention"));
    assert_null(strstr(wf_text_cstr(&text), "cpu.pin"));
    wf_text_deinit(&text);
    wf_text_init(&text, wf_allocator_system(), 1 << 20);
    wf_assert_fails(wf_knobs_describe("show", "nothing", false, &text), USAGE);
    wf_assert_fails(wf_knobs_describe("sow", "cpu.pin", false, &text), USAGE);
    wf_assert_fails(wf_knobs_describe("show", NULL, false, &text), USAGE);
    wf_text_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_ranges),
        cmocka_unit_test(one_value_is_the_default_where_listed),
        cmocka_unit_test(spellings_of_others_are_known),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(the_catalogue_has_every_knob),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
