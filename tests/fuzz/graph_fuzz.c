/* SPDX-License-Identifier: Apache-2.0 */
/* Graph text is untrusted: any bytes give a graph that verifies or a status. What is accepted prints and
 * reads back as the same graph, and goes through the passes without fault. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pass.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Constants may be folded at any size that memory has; a little memory keeps runs short. */
enum { LIMIT_BYTES = 1 << 20 };

typedef struct limited {
    size_t used_bytes;
} limited_t;

static void *limited_resize(void *self, void *ptr, size_t old_bytes, size_t new_bytes, size_t alignment_bytes)
{
    limited_t *limited = self;
    wf_allocator_t system = wf_allocator_system();
    if (new_bytes > old_bytes && limited->used_bytes + (new_bytes - old_bytes) > LIMIT_BYTES) {
        return NULL;
    }
    void *result = system.resize(system.self, ptr, old_bytes, new_bytes, alignment_bytes);
    if (result != NULL || new_bytes == 0) {
        limited->used_bytes += new_bytes - old_bytes;
    }
    return result;
}

static void must(wf_status_t status)
{
    wf_code_t code = wf_status_code(status);
    if (status != WF_OK && code != WF_CODE_OUT_OF_MEMORY) {
        abort();
    }
    wf_status_free(status);
}

/* Large constants are printed by their hash, which cannot be read back. */
static void check_round_trip(const wf_graph_t *graph, wf_allocator_t allocator)
{
    wf_text_t text;
    wf_graph_t *again = NULL;
    wf_hash_t first, second;
    wf_text_init(&text, allocator, LIMIT_BYTES);
    wf_status_t status = wf_graph_print(graph, &text);
    must(status);
    if (status == WF_OK && strstr(wf_text_cstr(&text), "= #") == NULL &&
        strstr(wf_text_cstr(&text), "]#") == NULL) {
        status = wf_graph_parse(wf_text_cstr(&text), text.length, allocator, &again);
        must(status);
        if (status == WF_OK) {
            must(wf_graph_hash(graph, &first));
            must(wf_graph_hash(again, &second));
            wf_text_t printed;
            wf_text_init(&printed, allocator, LIMIT_BYTES);
            status = wf_graph_print(again, &printed);
            must(status);
            if (status == WF_OK && strcmp(wf_text_cstr(&text), wf_text_cstr(&printed)) != 0) {
                abort();
            }
            wf_text_deinit(&printed);
        }
    }
    wf_text_deinit(&text);
    wf_graph_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    limited_t limited = {0};
    wf_allocator_t allocator = {&limited, limited_resize};
    wf_graph_t *graph = NULL;
    wf_status_t status = wf_graph_parse((const char *)data, bytes, allocator, &graph);
    if (status != WF_OK) {
        wf_status_free(status);
        return 0;
    }
    must(wf_graph_verify(graph));
    check_round_trip(graph, allocator);
    wf_pass_options_t options = {0};
    status = wf_passes_run(graph, &options);
    if (status == WF_OK) {
        must(wf_graph_verify(graph));
    } else if (wf_status_code(status) == WF_CODE_INTERNAL) {
        abort();
    }
    wf_status_free(status);
    wf_graph_destroy(graph);
    if (limited.used_bytes != 0) {
        abort();
    }
    return 0;
}
