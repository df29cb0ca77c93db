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
fr_cpu_alloc(const struct fr_backend *self, size_t n_bytes, struct fr_err *err)
{
    void *p = fr_memory_alloc(n_bytes);

    (void)self;
    if (FR_UNLIKELY(!p))
        err->code = FR_ENOMEM;
    return p;
}

void
fr_cpu_free(const struct fr_backend *self, void *p, size_t n_bytes)
{
    (void)self;
    fr_memory_free(p, n_bytes);
}

void
fr_cpu_memory_stats(const struct fr_backend *self, struct fr_memory_stats *out)
{
    (void)self;
    fr_memory_stats(out);
}

void
fr_cpu_memory_reset_peak(const struct fr_backend *self)
{
    (void)self;
    fr_memory_reset_peak();
}

void
fr_cpu_memory_trim(const struct fr_backend *self)
{
    (void)self;
    fr_memory_trim();
}

fr_status
fr_cpu_copy(const struct fr_backend *self, void *to, const void *from, size_t n_bytes, struct fr_err *err)
{
    (void)self, (void)err;
    memcpy(to, from, n_bytes);
    return FR_OK;
}

fr_status
fr_cpu_scan(const struct fr_backend *self, fr_op op, fr_dtype d, const struct fr_instance *in, struct fr_err *err)
{
    (void)self;
    return fr_launch_scan(op, d, in, err);
}

fr_status
fr_cpu_call(const struct fr_backend *self, const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    (void)self;
    return fr_call_run(c, ptr, err);
}

const struct fr_backend fr_cpu_backend = {
    FR_CPU_KERNELS, FR_CPU_MEMORY, .name = "cpu", .runs_nodes = true,
    .schedule = fr_cpu_schedule, .schedule_dispatch = fr_cpu_schedule_dispatch, .schedule_near = fr_cpu_schedule_near,
    .kernel_ran = fr_cpu_kernel_ran, .kernel_wait = fr_cpu_kernel_wait, .kernel_is_compiled = fr_cpu_kernel_is_compiled,
    .launch = fr_launch, .parts_begin = fr_launch_parts_begin, .part = fr_launch_part, .parts_end = fr_launch_parts_end,
};
