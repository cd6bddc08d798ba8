/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/lease.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define POLL_NS 2000000
#define FILE_NAME "wayfinder-cpu.lease"

enum { QUEUE_BYTE, TURN_BYTE };

/* ---- Opening ---- */

/* A folder that is ours alone. */
static bool is_private(const char *folder)
{
    struct stat facts;
    return lstat(folder, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
           (facts.st_mode & 022) == 0;
}

static bool lease_path(char *out, size_t capacity)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime != NULL && runtime[0] == '/' && is_private(runtime))
        return (size_t)snprintf(out, capacity, "%s/" FILE_NAME, runtime) < capacity;
    char folder[64];
    (void)snprintf(folder, sizeof folder, "%s/wayfinder-%lu", P_tmpdir, (unsigned long)geteuid());
    (void)mkdir(folder, 0700);
    return is_private(folder) && (size_t)snprintf(out, capacity, "%s/" FILE_NAME, folder) < capacity;
}

wf_lease_t wf_lease_open(const char *path)
{
    char own[4096];
    if (path == NULL) {
        if (!lease_path(own, sizeof own))
            return (wf_lease_t){-1};
        path = own;
    }
    return (wf_lease_t){open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
}

void wf_lease_close(wf_lease_t *lease)
{
    if (lease->fd >= 0)
        (void)close(lease->fd);
    lease->fd = -1;
}

/* ---- Turns ---- */

/* Locks belong to the open file, so that threads of one process take turns too. */
static bool lock_byte(int fd, off_t byte, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static wf_status_t wait_for(int fd, off_t byte, uint64_t deadline_ns, wf_lease_tick_fn *tick, void *self,
                            bool *waited)
{
    uint64_t next_tick_ns = 0;
    while (!lock_byte(fd, byte, F_WRLCK)) {
        uint64_t now_ns = wf_clock_ns();
        *waited = true;
        if (deadline_ns != 0 && now_ns >= deadline_ns)
            return WF_ERROR(TIME_OUT, "another tuner had the CPU until the time was over");
        if (tick != NULL && now_ns >= next_tick_ns) {
            if (tick(self))
                return WF_ERROR(INTERRUPTED, "stopped while waiting for another tuner");
            next_tick_ns = now_ns + 50000000;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    return WF_OK;
}

wf_status_t wf_lease_take(const wf_lease_t *lease, uint64_t deadline_ns, wf_lease_tick_fn *tick, void *self,
                          bool *out_waited)
{
    *out_waited = false;
    if (lease->fd < 0)
        return WF_OK;
    WF_TRY(wait_for(lease->fd, QUEUE_BYTE, deadline_ns, tick, self, out_waited));
    wf_status_t status = wait_for(lease->fd, TURN_BYTE, deadline_ns, tick, self, out_waited);
    (void)lock_byte(lease->fd, QUEUE_BYTE, F_UNLCK);
    return status;
}

void wf_lease_give(const wf_lease_t *lease)
{
    if (lease->fd >= 0)
        (void)lock_byte(lease->fd, TURN_BYTE, F_UNLCK);
}
