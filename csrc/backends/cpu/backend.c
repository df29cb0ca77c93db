/* The CPU as a backend. */
#include "backends/backend.h"

#include <string.h>

#include "backends/cpu/call.h"
#include "backends/cpu/launch.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/pool.h"
#include "jit/compile.h"

fr_status
fr_cpu_start(struct fr_err *err)
{
    fr_status st = fr_cpu_init(err);

    if (st == FR_OK)
        fr_memory_free(fr_memory_alloc(0), 0); /* its first page comes now, and not in somebody's first call */
    return st;
}

void
fr_cpu_stop(void)
{
    fr_compile_stop();
    fr_pool_stop();
}

void
fr_cpu_look_ahead(void)
{
    fr_memory_look_ahead();
    fr_compile_nudge();
}

void *
fr_cpu_alloc(size_t n_bytes, struct fr_err *err)
{
    void *p = fr_memory_alloc(n_bytes);

    if (FR_UNLIKELY(!p))
        err->code = FR_ENOMEM;
    return p;
}

fr_status
fr_cpu_copy(void *to, const void *from, size_t n_bytes, struct fr_err *err)
{
    (void)err;
    memcpy(to, from, n_bytes);
    return FR_OK;
}

const struct fr_backend fr_cpu_backend = {
    FR_CPU_KERNELS, .name = "cpu", .is_host = true, .runs_nodes = true,
    .alloc = fr_cpu_alloc, .free = fr_memory_free, .memory_stats = fr_memory_stats, .memory_reset_peak = fr_memory_reset_peak,
    .copy_in = fr_cpu_copy, .copy_out = fr_cpu_copy, .copy = fr_cpu_copy,
    .schedule = fr_cpu_schedule, .schedule_dispatch = fr_cpu_schedule_dispatch, .schedule_near = fr_cpu_schedule_near,
    .kernel_ran = fr_cpu_kernel_ran, .kernel_wait = fr_cpu_kernel_wait, .kernel_is_compiled = fr_cpu_kernel_is_compiled,
    .launch = fr_launch, .scan = fr_launch_scan, .call = fr_call_run, .share = fr_pool_run,
    .parts_begin = fr_launch_parts_begin, .part = fr_launch_part, .parts_end = fr_launch_parts_end,
};
