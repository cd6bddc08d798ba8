/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of file_test.c on a kernel without openat2. */
#include <sys/syscall.h>
#undef SYS_openat2
#define SYS_openat2 (-1)

#include "base/file.c"

#include "unit/file_test.c"
