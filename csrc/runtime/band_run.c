/* runtime/band_run.c -- runs steps band by band. Called by eval.c; which steps, and why, is bands.c. */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/plan.h"

struct run {
    const struct fr_plan  *p;
    const struct fr_band  *b;
    char                  *scratch;
    struct fr_parts parts[FR_BAND_ITEMS]; /* [n_steps] */
    atomic_llong           ns[FR_BAND_ITEMS];
    atomic_int             failed;
};

/* The part of the item that has the indices from low[i] to high[i], in one unit of the outer axis. */
static fr_status
run_item(struct run *r, int i, int64_t outer, const int64_t *low, const int64_t *high, char *scratch)
{
    const struct fr_backend *by = fr_plan_by(r->p);
    const struct fr_band_item *it = &r->b->item[i];
    const struct fr_step      *s = &r->p->step[it->step];
    struct fr_instance         in = s->instance[it->instance];
    char                      *ptr[FR_MAX_OPERANDS];
    struct fr_err              err;

    in.stride = it->stride;
    for (int k = 0; k < fr_step_operands(s); k++) {
        const struct fr_band_inner *inner = &it->inner[k];
        const int64_t              *stride = in.stride + (size_t)k * (size_t)(in.n_outer + 2);
        uintptr_t                   at = (uintptr_t)in.ptr[k] + (uintptr_t)(low[i] * stride[it->axis]);

        if (inner->item >= 0) /* ptr is where the window over it begins */
            at += (uintptr_t)scratch + (uintptr_t)(inner->offset - low[inner->item] * inner->made);
        else if (it->outer_axis >= 0)
            at += (uintptr_t)(outer * it->outer_per * stride[it->outer_axis]);
        ptr[k] = (char *)at;
    }
    in.ptr = ptr;
    if (it->outer_axis >= 0)
        fr_instance_cut(&in, it->outer_axis, it->outer_per);
    fr_instance_cut(&in, it->axis, high[i] - low[i]);
    if (s->kind == FR_STEP_SCAN)
        return by->scan(by, s->op, s->dtype, &in, &err);
    by->bind(s->kernel, &in, 1, false);
    return by->part(&r->parts[it->step - r->b->first], &in);
}

static void
run_band(void *arg, int64_t t, int worker)
{
    struct run *r = arg;
    int64_t     low[FR_BAND_ITEMS], high[FR_BAND_ITEMS], began = fr_now_ns();
    bool        all = fr_band_ranges(r->b, t % r->b->n_bands, low, high);

    FR_ASSERT(all); /* fr_bands_find has asked for every band */
    for (int i = 0; i < r->b->n_items && atomic_load_explicit(&r->failed, memory_order_relaxed) == FR_OK; i++) {
        fr_status st;
        int64_t   now;

        if (low[i] >= high[i])
            continue;
        if ((st = run_item(r, i, t / r->b->n_bands, low, high, r->scratch + worker * r->b->n_bytes)) != FR_OK)
            atomic_store(&r->failed, st);
        now = fr_now_ns();
        atomic_fetch_add_explicit(&r->ns[r->b->item[i].step - r->b->first], now - began, memory_order_relaxed);
        began = now;
    }
}

fr_status
fr_band_run(struct fr_plan *p, const struct fr_band *b, char *scratch, int n_workers, int64_t *ns, struct fr_err *err)
{
    const struct fr_backend *by = fr_plan_by(p);
    struct run r = {.p = p, .b = b, .scratch = scratch};
    bool       done = true;

    for (int k = 0; k < b->n_steps; k++) {
        struct fr_step *s = &p->step[b->first + k];

        if (s->kind == FR_STEP_LAUNCH)
            by->parts_begin(&r.parts[k], s->kernel, s->instance, s->n_instances);
    }
    if (by->n_workers() <= n_workers) {
        done = by->share(run_band, &r, b->n_outer * b->n_bands);
    } else { /* somebody has wanted more threads since there is scratch */
        for (int64_t t = 0; t < b->n_outer * b->n_bands; t++)
            run_band(&r, t, 0);
    }
    for (int k = 0; k < b->n_steps; k++) {
        ns[k] = (int64_t)r.ns[k];
        if (done && r.failed == FR_OK && p->step[b->first + k].kind == FR_STEP_LAUNCH)
            by->parts_end(&r.parts[k], ns[k]);
    }
    if (!done || r.failed == FR_EINTR)
        return fr_fail(err, FR_EINTR, "interrupted");
    return r.failed == FR_OK ? FR_OK : fr_fail(err, (fr_status)r.failed, "scratch for a kernel in bands");
}
