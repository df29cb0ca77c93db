/* runtime/warmup.c -- see warmup.h. */
#include "runtime/warmup.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/ways.h"
#include "jit/compile.h"

enum { PAUSE_NS = 5000000 };

bool fr_warmup_is_on;

static fr_device               device;
static struct fr_kernel      **kernel;   /* [counts.n_kernels] references */
static size_t                  cap;
static struct fr_warmup_counts counts;

bool
fr_warmup_begin(fr_device d)
{
    if (fr_warmup_is_on)
        return false;
    device = d;
    counts = (struct fr_warmup_counts){.n_plans = 0};
    return fr_warmup_is_on = true;
}

/* The key asks for the plan of another device. All else that it says holds there, too: memory of NumPy's is NumPy's, and results
 * are where they were computed. */
static void
change_device(struct fr_gathered *g, fr_device from, fr_device to)
{
    for (int i = 0; i < g->n; i++) {
        uint64_t *w = &g->key[g->entry[i].at];

        if (fr_nodes[g->id[i]].op != FR_OP_leaf && (*w >> 8 & 0xff) == from)
            *w = (*w & ~((uint64_t)0xff << 8)) | (uint64_t)to << 8;
    }
}

static bool
is_listed(const struct fr_kernel *k)
{
    for (int i = 0; i < counts.n_kernels; i++)
        if (kernel[i] == k)
            return true;
    return false;
}

/* A launch need not wait for a compiler. (A GPU's kernel was asked for when its plan was made, and is fetched by its first launch.) */
static bool
has_code(const struct fr_backend *by, const struct fr_kernel *k)
{
    return by->kernel_is_compiled(k) || (by->kernel_waits && !by->kernel_waits(k));
}

/* `is_new`: so is the plan of the step. */
static fr_status
want_code(const struct fr_step *s, bool is_new, struct fr_err *err)
{
    const struct fr_backend *by = fr_backend_of(device);
    struct fr_kernel        *k;
    fr_status                st;

    if (is_listed(s->kernel))
        return FR_OK;
    if (!FR_GROW(kernel, cap, (size_t)counts.n_kernels + 1))
        return fr_no_memory(err, "the list of kernels to be compiled");
    if ((st = fr_kernel_get(device, s->kernel->nest, &k, err)) != FR_OK)
        return st;
    kernel[counts.n_kernels++] = k;
    if (by->kernel_is_compiled(k) || (!is_new && has_code(by, k)))
        counts.n_ready++;
    else
        by->kernel_ran(k, UINT64_MAX);
    return FR_OK;
}

fr_status
fr_warmup_plan(struct fr_gathered *g, struct fr_err *err)
{
    const uint64_t  n_before = fr_ways_taken[FR_WAY_plans];
    int             n_new;
    struct fr_plan *p;
    fr_status       st;

    if ((g->key[g->entry[g->n - 1].at] >> 8 & 0xff) != FR_DEVICE_META)
        return FR_OK;
    change_device(g, FR_DEVICE_META, device);
    st = fr_plan_cache_find(g, FR_FIND_MADE, &p, err);
    change_device(g, device, FR_DEVICE_META);
    n_new = (int)(fr_ways_taken[FR_WAY_plans] - n_before);
    counts.n_plans += n_new;
    for (int i = 0; st == FR_OK && i < p->n_steps; i++)
        if (p->step[i].kind == FR_STEP_LAUNCH)
            st = want_code(&p->step[i], n_new > 0, err);
    return st;
}

/* Kernels that wait for a compiler of the device's own. */
static int
n_waiting(void)
{
    const struct fr_backend *by = fr_backend_of(device);
    int                      n = 0;

    for (int i = 0; by->kernel_waits && i < counts.n_kernels; i++)
        n += by->kernel_waits(kernel[i]);
    return n;
}

int
fr_warmup_wait(double timeout_s, bool (*interrupted)(void))
{
    const struct timespec   pause = {0, PAUSE_NS};
    const int64_t           end = fr_now_us() + (int64_t)(timeout_s * 1e6);
    struct fr_compile_stats c;
    int                     n;

    if (!fr_compile_wait(timeout_s, interrupted)) {
        fr_compile_stats(&c);
        return (int)c.n_pending + n_waiting();
    }
    while ((n = n_waiting()) > 0 && fr_now_us() < end && !(interrupted && interrupted()))
        nanosleep(&pause, NULL);
    return n;
}

void
fr_warmup_end(struct fr_warmup_counts *out)
{
    fr_warmup_is_on = false;
    for (int i = 0; i < counts.n_kernels; i++) {
        counts.n_with_code += has_code(fr_backend_of(device), kernel[i]);
        fr_kernel_unref(kernel[i]);
    }
    *out = counts;
    fr_free(kernel);
    kernel = NULL;
    cap = 0;
    counts = (struct fr_warmup_counts){.n_plans = 0};
}
