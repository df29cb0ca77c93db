/* The reference executor as a backend: kernels are its, the rest is the CPU's. */
#include "backends/backend.h"

#include "backends/cpu/call.h"
#include "backends/cpu/launch.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/pool.h"
#include "backends/ref/ref.h"
#include "base/alloc.h"
#include "base/ways.h"

static fr_status
kernel_new(const struct fr_nest *nest, struct fr_kernel **out, struct fr_err *err)
{
    struct fr_kernel *k = fr_calloc(1, sizeof *k);
    fr_status         st;

    if (!k)
        return fr_fail(err, FR_ENOMEM, "out of memory for a kernel");
    if ((st = fr_nest_copy(nest, &k->nest, err)) == FR_OK)
        *out = k;
    else
        fr_free(k);
    return st;
}

static void
kernel_free(struct fr_kernel *k)
{
    fr_nest_free(k->nest);
    fr_free(k);
}

static void
kernel_ran(struct fr_kernel *k, uint64_t elapsed_us, uint64_t n_bytes)
{
    (void)k, (void)elapsed_us, (void)n_bytes;
}

static fr_status
kernel_wait(struct fr_kernel *k, struct fr_err *err)
{
    (void)k, (void)err;
    return FR_OK;
}

static bool
kernel_is_compiled(const struct fr_kernel *k)
{
    (void)k;
    return false;
}

static fr_status
launch(struct fr_kernel *k, const struct fr_instance *in, int n, struct fr_err *err)
{
    fr_status st = FR_OK;

    for (int i = 0; i < n && st == FR_OK; i++)
        if (!fr_instance_is_empty(&in[i]) || fr_nest_computes_of_nothing(k->nest))
            st = fr_ref_launch(k->nest, &in[i], err);
    fr_count_way(FR_WAY_ref);
    return st;
}

static void
begin(void)
{
}

static int
n_workers(void)
{
    return 1;
}

const struct fr_backend fr_ref_backend = {
    .name = "ref", .is_host = true,
    .start = fr_cpu_start, .begin = begin, .stop = fr_cpu_stop,
    .alloc = fr_memory_alloc, .free = fr_memory_free, .memory_stats = fr_memory_stats,
    .memory_reset_peak = fr_memory_reset_peak, .memory_trim = fr_memory_trim, .look_ahead = fr_memory_look_ahead,
    .copy_in = fr_cpu_copy, .copy_out = fr_cpu_copy, .copy = fr_cpu_copy,
    .kernel_new = kernel_new, .kernel_free = kernel_free, .kernel_ran = kernel_ran,
    .kernel_wait = kernel_wait, .kernel_is_compiled = kernel_is_compiled,
    .launch = launch, .scan = fr_launch_scan, .call = fr_call_run, .n_workers = n_workers,
};
