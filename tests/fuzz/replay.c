/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target without libFuzzer: on each file of the corpus (first argument: a folder, which may be
 * missing) and on seeded mutations of them. WF_FUZZ_RUNS sets the number of mutations. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/random.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { CORPUS_MAX = 1024, FILE_MAX_BYTES = 1 << 20 };

typedef struct input {
    uint8_t *data;
    size_t bytes;
} input_t;

static input_t read_input(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    input_t input = {malloc(FILE_MAX_BYTES), 0};
    if (file == NULL || input.data == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    input.bytes = fread(input.data, 1, FILE_MAX_BYTES, file);
    fclose(file);
    return input;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The files of the folder in the order of their names, so that a seed means the same everywhere. */
static size_t read_corpus(const char *path, input_t *corpus)
{
    static char *names[CORPUS_MAX];
    size_t count = 0;
    DIR *folder = opendir(path);
    if (folder != NULL) {
        for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
            if (entry->d_name[0] != '.' && count < CORPUS_MAX) {
                names[count++] = strdup(entry->d_name);
            }
        }
        closedir(folder);
    }
    qsort(names, count, sizeof names[0], by_name);
    for (size_t i = 0; i < count; i++) {
        corpus[i] = read_input(path, names[i]);
        free(names[i]);
    }
    return count;
}

/* Runs the target on an exact copy, so that AddressSanitizer sees reads past the end. */
static void run_exact(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL) {
        exit(1);
    }
    memcpy(copy, data, bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

static size_t mutate(wf_random_t *random, uint8_t *data, size_t bytes)
{
    for (uint64_t edits = 1 + wf_random_below(random, 8); edits > 0; edits--) {
        size_t at = bytes > 0 ? wf_random_below(random, bytes) : 0;
        size_t span = 1 + wf_random_below(random, 8);
        switch (wf_random_below(random, 6)) {
        case 0: /* cut */
            bytes = at;
            break;
        case 1: /* remove */
            if (bytes >= at + span) {
                memmove(data + at, data + at + span, bytes - at - span);
                bytes -= span;
            }
            break;
        case 2: /* double */
            if (bytes >= at + span && bytes + span <= FILE_MAX_BYTES) {
                memmove(data + at + span, data + at, bytes - at);
                bytes += span;
            }
            break;
        case 3: /* extreme byte */
            if (bytes > 0) {
                data[at] = wf_random_below(random, 2) != 0 ? 0xff : 0;
            }
            break;
        default: /* any byte */
            if (bytes > 0) {
                data[at] = (uint8_t)wf_random_u64(random);
            }
            break;
        }
    }
    return bytes;
}

int main(int argc, char **argv)
{
    static input_t corpus[CORPUS_MAX];
    const char *runs_text = getenv("WF_FUZZ_RUNS");
    long runs = runs_text != NULL ? strtol(runs_text, NULL, 10) : 3000;
    size_t count = argc > 1 ? read_corpus(argv[1], corpus) : 0;
    wf_random_t random = wf_random_start(argv[0], 1);
    for (size_t i = 0; i < count; i++) {
        run_exact(corpus[i].data, corpus[i].bytes);
    }
    uint8_t *data = malloc(FILE_MAX_BYTES);
    if (data == NULL) {
        return 1;
    }
    for (long run = 0; run < runs; run++) {
        size_t bytes = 0;
        if (count > 0) {
            const input_t *input = &corpus[wf_random_below(&random, count)];
            bytes = input->bytes;
            memcpy(data, input->data, bytes);
        } else {
            bytes = wf_random_below(&random, 256);
            for (size_t i = 0; i < bytes; i++) {
                data[i] = (uint8_t)wf_random_u64(&random);
            }
        }
        run_exact(data, mutate(&random, data, bytes));
    }
    printf("%zu files, %ld mutations\n", count, runs);
    free(data);
    for (size_t i = 0; i < count; i++) {
        free(corpus[i].data);
    }
    return 0;
}
