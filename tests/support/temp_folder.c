/* SPDX-License-Identifier: Apache-2.0 */
#include "support/temp_folder.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/cmocka_all.h"

void wf_temp_folder_make(char *path, size_t capacity)
{
    const char *parent = getenv("TMPDIR");
    snprintf(path, capacity, "%s/wf-test-XXXXXX", parent != NULL ? parent : WF_TEST_BUILD_DIR);
    if (mkdtemp(path) == NULL) {
        fail_msg("cannot make %s: %s", path, strerror(errno));
    }
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

void wf_temp_folder_remove(const char *path)
{
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        fail_msg("cannot remove %s: %s", path, strerror(errno));
    }
}

void wf_temp_file_write(const char *folder, const char *name, const char *text)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_true(length > 0 && (size_t)length < sizeof path);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            fail_msg("cannot make %s: %s", path, strerror(errno));
        }
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(text, 1, strlen(text), file) != strlen(text) || fclose(file) != 0) {
        fail_msg("cannot write %s: %s", path, strerror(errno));
    }
}

size_t wf_temp_folder_count(const char *path)
{
    DIR *folder = opendir(path);
    assert_non_null(folder);
    size_t count = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(folder);
    return count;
}
