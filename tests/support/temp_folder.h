/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of its own for a test, below TMPDIR or the build folder. */
#ifndef WF_TESTS_TEMP_FOLDER_H
#define WF_TESTS_TEMP_FOLDER_H

#include <stddef.h>

/* Makes the folder; its path goes to path[0, capacity). Fails the test when that is not possible. */
void wf_temp_folder_make(char *path, size_t capacity);
/* Removes it and all that is in it. */
void wf_temp_folder_remove(const char *path);
/* Writes text to FOLDER/name, making the folders between. */
void wf_temp_file_write(const char *folder, const char *name, const char *text);
/* Number of entries of a folder, "." and ".." not counted. */
size_t wf_temp_folder_count(const char *path);

#endif
