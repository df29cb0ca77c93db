/* The reference executor as a backend. Kernels and memory are the CPU's, so that frit.config may change from one to the
 * other at any time. */
#include "backends/backend.h"

#include "backends/cpu/call.h"
#include "backends/cpu/launch.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/pool.h"
#include "backends/ref/ref.h"
#include "base/ways.h"

static void
kernel_ran(struct fr_kernel *k, uint64_t us)
{
    (void)k, (void)us;
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
parts_begin(struct fr_parts *l, struct fr_kernel *k, const struct fr_instance *in, int n)
{
    (void)in, (void)n;
    l->kernel = k;
    fr_count_way(FR_WAY_ref);
}

static fr_status
part(const struct fr_parts *l, const struct fr_instance *in)
{
    struct fr_err err;

    return fr_ref_launch(l->kernel->nest, in, &err);
}

static void
parts_end(const struct fr_parts *l, int64_t ns)
{
    (void)l, (void)ns;
}

const struct fr_backend fr_ref_backend = {
    FR_CPU_KERNELS, FR_CPU_MEMORY, .name = "ref",
    .kernel_ran = kernel_ran, .kernel_wait = kernel_wait, .kernel_is_compiled = kernel_is_compiled,
    .launch = launch, .parts_begin = parts_begin, .part = part, .parts_end = parts_end,
};
