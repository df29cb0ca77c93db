#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "base/processors.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"

#ifdef __linux__
#include <sched.h>
#endif

/* The processors that a cgroup grants, or INT_MAX. */
static int
cgroup_limit(void)
{
    char      path[512], line[512];
    long long quota, period = 0;
    FILE     *f;
    int       limit = INT_MAX;

    snprintf(path, sizeof path, "/sys/fs/cgroup/cpu.max");
    if ((f = fopen("/proc/self/cgroup", "re"))) {
        while (fgets(line, sizeof line, f))
            if (!strncmp(line, "0::/", 4) && line[4] != '\n') {
                char own[600];

                line[strcspn(line, "\n")] = '\0';
                snprintf(own, sizeof own, "/sys/fs/cgroup%s/cpu.max", line + 3);
                if (strlen(own) < sizeof path && access(own, R_OK) == 0)
                    strcpy(path, own);
            }
        fclose(f);
    }
    if ((f = fopen(path, "re"))) {
        if (fscanf(f, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0)
            limit = (int)((quota + period - 1) / period);
        fclose(f);
    }
    return limit < 1 ? 1 : limit;
}

int
fr_processors(void)
{
    int n = 0, limit = cgroup_limit();

#if defined(__linux__)
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = CPU_COUNT(&set);
#endif
    if (n < 1)
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    n = n < limit ? n : limit;
    return n < 1 ? 1 : n;
}

static int
first_processor(void)
{
#if defined(__linux__)
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &set))
                return i;
#endif
    return 0;
}

/* What the system says of one of a processor's caches: a number, and perhaps a K behind it; -1: nothing. */
static int64_t
cache_has(int processor, int index, const char *what)
{
    char      path[128], unit = 0;
    long long n = -1;
    FILE     *f;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", processor, index, what);
    if (!(f = fopen(path, "re")))
        return -1;
    if (fscanf(f, "%lld%c", &n, &unit) < 1)
        n = -1;
    fclose(f);
    return unit == 'K' ? n * 1024 : n;
}

int64_t
fr_last_cache(void)
{
    static _Atomic int64_t known;
    int64_t                bytes = atomic_load_explicit(&known, memory_order_relaxed), last = 0, level;

    if (fr_env.last_cache)
        return fr_env.last_cache;
    if (bytes)
        return bytes;
    for (int i = 0, p = first_processor(); (level = cache_has(p, i, "level")) > 0; i++)
        if (level > last && cache_has(p, i, "size") > 0) {
            last = level;
            bytes = cache_has(p, i, "size");
        }
    bytes = bytes ? bytes : INT64_MAX;
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
    return bytes;
}
