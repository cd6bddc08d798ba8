/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "support/cmocka_all.h"
#include "wayfinder/backend.h"

static void lookups_find_by_name_and_kind(void **state)
{
    (void)state;
    static const int64_t pads[] = {1, 2, 3, 4};
    static const float scales[] = {0.5f, 2.0f};
    const wf_attr_t items[] = {
        {.name = "alpha", .kind = WF_ATTR_FLOAT, .count = 1, .v.f = 0.25f},
        {.name = "axis", .kind = WF_ATTR_INT, .count = 1, .v.i = -1},
        {.name = "mode", .kind = WF_ATTR_STRING, .count = 6, .v.s = "linear"},
        {.name = "pads", .kind = WF_ATTR_INTS, .count = 4, .v.ints = pads},
        {.name = "scales", .kind = WF_ATTR_FLOATS, .count = 2, .v.floats = scales},
    };
    size_t count;
    /* Every prefix of the list: present names are found, absent ones are not. */
    for (size_t length = 0; length <= 5; length++) {
        wf_attrs_t attrs = {items, length};
        for (size_t i = 0; i < 5; i++) {
            assert_ptr_equal(wf_attrs_find(&attrs, items[i].name), i < length ? &items[i] : NULL);
        }
        assert_null(wf_attrs_find(&attrs, "aaa"));
        assert_null(wf_attrs_find(&attrs, "axi"));
        assert_null(wf_attrs_find(&attrs, "zzz"));
    }
    wf_attrs_t attrs = {items, 5};
    assert_true(wf_attrs_int(&attrs, "axis", 7) == -1);
    assert_true(wf_attrs_int(&attrs, "alpha", 7) == 7);
    assert_true(wf_attrs_int(&attrs, "none", 7) == 7);
    assert_true(wf_attrs_float(&attrs, "alpha", 1.0f) == 0.25f);
    assert_true(wf_attrs_float(&attrs, "axis", 1.0f) == 1.0f);
    assert_string_equal(wf_attrs_string(&attrs, "mode", "x"), "linear");
    assert_string_equal(wf_attrs_string(&attrs, "pads", "x"), "x");
    assert_ptr_equal(wf_attrs_ints(&attrs, "pads", &count), pads);
    assert_int_equal(count, 4);
    assert_null(wf_attrs_ints(&attrs, "scales", &count));
    assert_int_equal(count, 0);
    assert_ptr_equal(wf_attrs_floats(&attrs, "scales", &count), scales);
    assert_int_equal(count, 2);
    assert_null(wf_attrs_floats(&attrs, "none", &count));
    assert_int_equal(count, 0);
}

static void layout_names_go_both_ways(void **state)
{
    (void)state;
    static const char *const names[] = {"row", "last", "b8", "b16"};
    assert_int_equal(WF_LAYOUT_COUNT, 4);
    for (unsigned i = 0; i < WF_LAYOUT_COUNT; i++) {
        wf_layout_t layout;
        assert_string_equal(wf_layout_name((wf_layout_t)i), names[i]);
        assert_true(wf_layout_from_name(names[i], &layout));
        assert_int_equal(layout, i);
    }
    wf_layout_t layout = WF_LAYOUT_B8;
    assert_false(wf_layout_from_name("nchw", &layout));
    assert_int_equal(layout, WF_LAYOUT_B8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookups_find_by_name_and_kind),
        cmocka_unit_test(layout_names_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
