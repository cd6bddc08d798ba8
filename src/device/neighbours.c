/* SPDX-License-Identifier: Apache-2.0 */
#include "device/neighbours.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

wf_cpu_ticks_t wf_cpu_ticks(const char *root)
{
    wf_cpu_ticks_t ticks = {0};
    char path[4200], line[1024];
    (void)snprintf(path, sizeof path, "%s/proc/stat", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        unsigned long long user, nice, system, idle, wait, irq, soft, steal;
        unsigned running;
        if (sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait,
                   &irq, &soft, &steal) == 8) {
            ticks.known = true;
            ticks.total = user + nice + system + idle + wait + irq + soft + steal;
            ticks.idle = idle + wait;
            ticks.steal = steal;
        } else if (sscanf(line, "procs_running %u", &running) == 1) {
            ticks.running = running;
        }
    }
    if (file != NULL)
        (void)fclose(file);
    return ticks;
}

bool wf_machine_quiet(const char *root)
{
    enum { LOOKS = 5 };
    uint32_t busy = 0;
    for (int i = 0; i < LOOKS; i++) {
        wf_cpu_ticks_t ticks = wf_cpu_ticks(root);
        busy += !ticks.known || ticks.running > 1;
        if (i + 1 < LOOKS)
            (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return busy <= LOOKS / 2;
}
