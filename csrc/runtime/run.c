/* Runs a plan over memory: binds its steps, runs them one after the other or band by band, and counts. */
#include <string.h>

#include "backends/meta/meta.h"
#include "base/clock.h"
#include "base/fpe.h"
#include "base/log.h"
#include "base/tune.h"
#include "base/ways.h"
#include "runtime/plan.h"
#include "runtime/record.h"
#include "runtime/storage.h"

enum { PS_PER_US = 1000000, TIMED_US = 300 /* of a plan whose steps are timed */ };

struct fr_stats fr_counted;

void
fr_plan_drop_fresh(struct fr_plan *p)
{
    for (int i = 0; i < p->n_new; i++) {
        fr_buffer_unref(p->fresh[p->new_[i]]);
        p->fresh[p->new_[i]] = NULL;
    }
}

/* Fills p->base for every node that has memory, but for leaves. */
static fr_status
place_nodes(struct fr_plan *p, char *arena, int64_t n_temporary, struct fr_err *err)
{
    const struct fr_backend *by = fr_plan_by(p);
    struct fr_err said;

    for (int i = 0; i < p->n_new; i++) {
        int n = p->new_[i];

        if (!(p->fresh[n] = fr_buffer_new(by, (size_t)p->place[n].bytes, &said))) {
            fr_plan_drop_fresh(p);
            return fr_backend_refused(&said, err, "Unable to allocate %lld bytes: this evaluation needs %lld bytes for results "
                                      "and %lld for temporaries",
                                      (long long)p->place[n].bytes, (long long)p->new_bytes, (long long)n_temporary);
        }
    }
    for (int i = p->n_leaves; i < p->n_placed; i++) {
        int n = p->placed[i];

        switch (p->place[n].kind) {
        case FR_PLACE_NEW: p->base[n] = p->fresh[n]->mem; break;
        case FR_PLACE_ARENA: p->base[n] = arena + p->place[n].offset; break;
        default: p->base[n] = p->base[p->place[n].root];
        }
    }
    return FR_OK;
}

void
fr_step_bind_scalars(const struct fr_step *s, const struct fr_inputs *inputs)
{
    for (int i = 0; s->kind == FR_STEP_LAUNCH && i < s->n_instances; i++) {
        struct fr_scalar_bits *values = (struct fr_scalar_bits *)(uintptr_t)s->instance[i].scalars;

        for (int k = 0; k < s->kernel->nest->n_scalars; k++)
            if (FR_LIKELY(s->scalar[i][k] >= 0))
                values[k] = inputs->scalar[s->scalar[i][k]];
    }
}

static void
bind_step(struct fr_plan *p, struct fr_step *s, const struct fr_inputs *inputs, char *scratch)
{
    for (int i = 0; i < s->n_instances; i++) {
        const struct fr_binding *b = s->binding[i];
        struct fr_instance      *in = &s->instance[i];
        int n_op = fr_step_operands(s);

        in->scratch = scratch;
        for (int k = 0; k < n_op; k++)
            in->ptr[k] = b[k].node < 0 ? (char *)0 + b[k].offset
                                       : p->base[b[k].node] + fr_binding_at(&b[k], inputs->moving);
    }
    fr_step_bind_scalars(s, inputs);
}

static fr_status
run_step(struct fr_plan *p, struct fr_step *s, struct fr_err *err)
{
    const struct fr_backend *by = fr_plan_by(p);

    switch (s->kind) {
    case FR_STEP_COPY:
        return by->copy(by, p->base[s->copy_to], p->base[s->copy_from], (size_t)s->copy_bytes, err);
    case FR_STEP_CALL: return by->call(by, &s->call, s->instance->ptr, err);
    case FR_STEP_SCAN: return by->scan(by, s->op, s->dtype, s->instance, err);
    default: return by->launch(s->kernel, s->instance, s->n_instances, err);
    }
}

/* The memory that the run works with, as one number. */
static uint64_t
memory_key(const struct fr_plan *p, const char *arena)
{
    uint64_t key = (uint64_t)(uintptr_t)arena;

    for (int i = 0; i < p->n_placed; i++)
        key = (key ^ (uint64_t)(uintptr_t)p->base[p->placed[i]]) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return key;
}

void
fr_step_count_way(const struct fr_step *s)
{
    if (s->kind == FR_STEP_CALL && s->call.op == FR_OP_matmul)
        fr_count_way(FR_WAY_products);
    else if (s->kind != FR_STEP_LAUNCH)
        fr_count_way(FR_WAY_precompiled);
}

/* What is to be said of a step that has been run, in `us` where somebody looked at the clock. */
static void
count_run(const struct fr_plan *p, int i, uint64_t us)
{
    const struct fr_step *s = &p->step[i];

    if (s->kind == FR_STEP_LAUNCH)
        fr_plan_by(p)->kernel_ran(s->kernel, us ? us : (uint64_t)(s->ps / PS_PER_US));
    if (fr_env.debug >= 2)
        fr_log(2, "step %d: %d instances, %llu bytes read, %llu written, %llu us%s", i, s->n_instances,
               (unsigned long long)s->bytes_read, (unsigned long long)s->bytes_written, (unsigned long long)us,
               s->band ? ", in bands" : "");
    fr_counted.n_kernels += s->counts;
    fr_count_ways(FR_WAY_banded, s->counts && s->band);
    fr_step_count_way(s);
    fr_counted.bytes_read += s->bytes_read;
    fr_counted.bytes_written += s->bytes_written;
}

static fr_status
run_band(struct fr_plan *p, const struct fr_band *b, char *scratch, int n_workers, int first, struct fr_err *err)
{
    struct fr_record_mark mark;
    int64_t               ns[FR_BAND_ITEMS];
    fr_status             st;

    if (FR_UNLIKELY(first >= 0))
        mark = fr_record_begun();
    st = fr_band_run(p, b, scratch, n_workers, ns, err);
    if (FR_UNLIKELY(first >= 0))
        fr_record_ran(p, first, b->first, b->n_steps, ns, &mark);
    for (int k = 0; k < b->n_steps; k++)
        count_run(p, b->first + k, (uint64_t)ns[k] / 1000);
    return st;
}

/* All steps; the GIL may be away. `scratch` is for bands, of so many workers. Recorded: they may run again, and are not counted.
 * first: the first of their records; -1: nobody records. */
static fr_status
run_steps(struct fr_plan *p, char *scratch, int n_workers, bool is_recorded, int first, struct fr_err *err)
{
    bool    (*poll)(void) = fr_backend_interrupted;
    fr_status st = FR_OK;
    bool      timed = p->ps / PS_PER_US > TIMED_US || fr_env.debug >= 2;
    struct fr_record_mark mark;

    for (int i = 0, n; i < p->n_steps && st == FR_OK; i += n) {
        struct fr_step *s = &p->step[i];
        uint64_t        t0 = timed ? (uint64_t)fr_now_us() : 0;

        n = s->band ? p->band[s->band - 1].n_steps : 1;
        /* From the first step on that writes over a leaf, Ctrl-C waits for the end: a run given up half
         * way could not be made again. */
        for (int k = 0; k < n; k++)
            if (s[k].overwrites)
                fr_backend_interrupted = NULL;
        if (s->band) {
            st = run_band(p, &p->band[s->band - 1], scratch, n_workers, first, err);
            continue;
        }
        if (FR_UNLIKELY(first >= 0))
            mark = fr_record_begun();
        st = run_step(p, s, err);
        if (FR_UNLIKELY(first >= 0))
            fr_record_ran(p, first, i, 1, NULL, &mark);
        if (!is_recorded)
            count_run(p, i, timed ? (uint64_t)fr_now_us() - t0 : 0);
    }
    fr_backend_interrupted = poll;
    return st;
}

/* All steps, of which the backend may keep what it begins. Where somebody records, their end is waited for. */
static FR_COLD fr_status
run_recorded(struct fr_plan *p, const char *arena, int first, struct fr_err *err)
{
    const struct fr_backend  *by = fr_plan_by(p);
    const struct fr_recorder *r = by->recorder;
    const uint64_t            key = memory_key(p, arena);
    struct fr_record_mark     mark;
    bool                      once_more;
    fr_status                 st;

    if (FR_UNLIKELY(first >= 0))
        mark = fr_record_begun();
    do {
        r->begin(by, &p->recorded, key);
        st = run_steps(p, NULL, 1, true, -1, err);
        st = r->end(by, &p->recorded, st, &once_more, err);
    } while (once_more);
    if (FR_UNLIKELY(first >= 0)) {
        if (st == FR_OK && by->wait)
            st = by->wait(by, err);
        fr_record_ran(p, first, 0, p->n_steps, NULL, &mark);
    }
    for (int i = 0; i < p->n_steps && st == FR_OK; i++)
        count_run(p, i, 0);
    return st;
}

/* All steps, to the memory in p->base and an arena of so many bytes, which ends with what kernels keep for themselves. */
static void
bind_steps(struct fr_plan *p, const struct fr_inputs *inputs, char *arena, int64_t n_temporary)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].kind != FR_STEP_COPY)
            bind_step(p, &p->step[i], inputs, p->scratch_bytes ? arena + n_temporary - p->scratch_bytes : NULL);
}

fr_status
fr_plan_run_steps(struct fr_plan *p, const struct fr_inputs *inputs, char *arena, int64_t n_temporary, struct fr_err *err)
{
    bind_steps(p, inputs, arena, n_temporary);
    return run_steps(p, arena + p->arena_bytes, p->n_bands ? fr_plan_by(p)->n_workers() : 1, true, -1, err);
}

/* What a backend without data does: it counts, and computes small things of which all is known. */
static fr_status
pass_over(struct fr_plan *p, const struct fr_inputs *inputs, int64_t n_temporary, struct fr_err *err)
{
    bool      has_run;
    fr_status st = fr_known_run(p, inputs, n_temporary, &has_run, err);

    if (st == FR_OK && !has_run)
        for (int i = 0; i < p->n_lost; i++)
            fr_meta_forget(p->base[p->lost[i]], (size_t)p->place[p->lost[i]].bytes);
    if (st == FR_OK && fr_record_is_on)
        fr_record_estimated(p, fr_record_run(p, inputs));
    return st;
}

/* With FRIT_JIT=always every kernel of the plan is compiled before the plan runs. */
static fr_status
compile_first(struct fr_plan *p, struct fr_err *err)
{
    const struct fr_backend  *by = fr_plan_by(p);
    const struct fr_span_mark mark = fr_span_begin();
    fr_status                 st = FR_OK;

    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].kind == FR_STEP_LAUNCH)
            by->kernel_ran(p->step[i].kernel, UINT64_MAX);
    /* Others may be compiled at the same time: they are not waited for. */
    for (int i = 0; i < p->n_steps && st == FR_OK; i++)
        if (p->step[i].kind == FR_STEP_LAUNCH)
            st = by->kernel_wait(p->step[i].kernel, err);
    fr_span_end(&mark, FR_SPAN_wait, 0, 0, 0);
    return st;
}

/* All that is to run, once all is bound. */
FR_INLINE fr_status
run_all(struct fr_plan *p, const char *arena, char *scratch, int n_workers, int first, struct fr_err *err)
{
    return fr_plan_by(p)->recorder ? run_recorded(p, arena, first, err) : run_steps(p, scratch, n_workers, false, first, err);
}

fr_status
fr_plan_run(struct fr_plan *p, const struct fr_inputs *inputs, struct fr_err *err)
{
    const struct fr_backend *by = fr_plan_by(p);
    int       n_workers = p->n_bands ? by->n_workers() : 1;
    int64_t   n_temporary = fr_plan_temporary_bytes(p, n_workers);
    int       first;
    char     *arena = NULL, *scratch;
    struct fr_err said;
    fr_status st;

    p->begun = false;
    if (n_temporary && !(arena = by->alloc(by, (size_t)n_temporary, &said)))
        return fr_backend_refused(&said, err, "Unable to allocate %lld bytes for temporaries of this evaluation",
                                  (long long)n_temporary);
    FR_ASSERT(!p->running && !fr_eval_is_unlocked()); /* p->base is one run's */
    FR_ASSERT(!inputs->moving || fr_plan_stays_within(p, inputs->moving));
    if ((st = place_nodes(p, arena, n_temporary, err)) != FR_OK)
        goto out;
    if (FR_UNLIKELY(fr_record_is_on))
        fr_record_eval(p, n_temporary);
    if (FR_UNLIKELY(by->has_no_data)) {
        st = pass_over(p, inputs, n_temporary, err);
        goto out;
    }
    scratch = arena + p->arena_bytes;
    bind_steps(p, inputs, arena, n_temporary);
    first = FR_UNLIKELY(fr_record_is_on) ? fr_record_run(p, inputs) : -1;
    if (p->new_bytes + n_temporary > (int64_t)fr_counted.peak_planned_bytes)
        fr_counted.peak_planned_bytes = (uint64_t)(p->new_bytes + n_temporary);
    fr_counted.n_evals++;
    fr_planner_notice();
    fr_fpe_begin();
    p->running = p->begun = true;
    if (p->ps < 1000 * fr_tune.keep_gil_ns && !p->may_wait && !fr_env_waits_for_code()) {
        st = run_all(p, arena, scratch, n_workers, first, err);
    } else {
        void *gil = fr_hooks.release_gil ? fr_hooks.release_gil() : NULL;

        st = fr_env_waits_for_code() ? compile_first(p, err) : FR_OK;
        if (st == FR_OK)
            st = run_all(p, arena, scratch, n_workers, first, err);
        if (gil)
            fr_hooks.take_gil(gil);
    }
    p->running = false;
    p->may_wait &= st != FR_OK;
out:
    if (arena)
        by->free(by, arena, (size_t)n_temporary);
    if (st != FR_OK)
        fr_plan_drop_fresh(p);
    return st;
}
