/* SPDX-License-Identifier: Apache-2.0 */
/* Plan text is untrusted: any bytes give a route of the space or LOCK_MISMATCH; what is accepted prints and
 * reads back as the same route. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "backends/null/null.h"
#include "route/space.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char graph_text[] = "graph \"fuzz\" {\n"
                                 "  input %x : f32[1,8,4,4]\n"
                                 "  const %w : f32[8,8,1,1] = ~1\n"
                                 "  %c = Conv(%x, %w)\n"
                                 "  %\"a b\" = Relu(%c)\n"
                                 "  %d = Conv(%\"a b\", %w)\n"
                                 "  %convert = Add(%d, %\"a b\")\n"
                                 "  %y = Sigmoid(%convert)\n"
                                 "  output %y\n"
                                 "}\n";
static const char script[] = "* null/row row>row 10\n"
                             "* null/last last>last 9\n"
                             "wf.convert null/convert - 2\n";

static wf_space_t *make_space(void)
{
    static wf_graph_t *graph;
    static wf_backends_t *backends;
    static wf_space_t *space;
    const char *only[] = {"null", NULL};
    wf_backends_options_t options = {.only = only};
    wf_cpu_t cpu = {.thread_count = 1};
    void *null;
    wf_space_options_t space_options = {.allocator = wf_allocator_system()};
    wf_knobs_default(&space_options.knobs);
    if (wf_graph_parse(graph_text, sizeof graph_text - 1, wf_allocator_system(), &graph) != WF_OK ||
        wf_backends_open(&cpu, &options, wf_allocator_system(), (wf_log_t){0}, &backends) != WF_OK) {
        abort();
    }
    (void)wf_backends_source(backends, 0, &null);
    if (wf_null_script(null, script, sizeof script - 1) != WF_OK ||
        wf_space_create(graph, backends, &space_options, &space) != WF_OK) {
        abort();
    }
    return space;
}

static void check_accepted(wf_space_t *space, const wf_route_t *route)
{
    wf_route_t again;
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), 1 << 20);
    if (wf_route_check(space, route) != WF_OK || wf_plan_print(space, route, &text) != WF_OK ||
        wf_plan_parse(space, wf_text_cstr(&text), text.length, &again) != WF_OK ||
        again.count != route->count ||
        memcmp(again.items, route->items, route->count * sizeof *route->items) != 0) {
        abort();
    }
    wf_route_deinit(&again);
    wf_text_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static wf_space_t *space;
    if (space == NULL) {
        space = make_space();
    }
    wf_route_t route;
    wf_status_t status = wf_plan_parse(space, (const char *)data, bytes, &route);
    if (status == WF_OK) {
        check_accepted(space, &route);
    } else if (wf_status_code(status) != WF_CODE_LOCK_MISMATCH || route.items != NULL) {
        abort();
    }
    wf_status_free(status);
    wf_route_deinit(&route);
    return 0;
}
