/* Evaluation: find the plan for what is asked, bind it to memory, run it, turn nodes into leaves. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fpe.h"
#include "base/tune.h"
#include "base/ways.h"
#include "base/image.h"
#include "base/log.h"
#include "jit/compile.h"
#include "runtime/judge.h"
#include "runtime/storage.h"


/* EACH: a failure of all together is followed by each alone; AGAIN: fr_tensor_eval_again. */
enum way { ONCE, EACH, AGAIN };

static struct fr_gathered     gathered;
static bool                   had_plan;     /* the last evaluation */
static bool                   has_begun;
static struct fr_stats        stats;
static uint64_t               n_nodes_base; /* what had been counted then */

static void
count_evaluation(void)
{
    stats.n_evals++;
    fr_planner_notice();
}

/* ---- one run ------------------------------------------------------------------------------ */

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
    for (int i = 0; i < p->n_new; i++) {
        int n = p->new_[i];

        if (!(p->fresh[n] = fr_buffer_new((size_t)p->place[n].bytes, err))) {
            fr_plan_drop_fresh(p);
            fr_fail(err, FR_ENOMEM,
                    "Unable to allocate %lld bytes: this evaluation needs %lld bytes for results "
                    "and %lld for temporaries",
                    (long long)p->place[n].bytes, (long long)p->new_bytes,
                    (long long)n_temporary);
            return FR_ENOMEM;
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

static void
bind_step(struct fr_plan *p, struct fr_step *s, const struct fr_inputs *inputs)
{
    for (int i = 0; i < s->n_instances; i++) {
        const struct fr_binding *b = s->binding[i];
        struct fr_instance      *in = &s->instance[i];
        int n_op = fr_step_operands(s);
        int n_scalars = s->kind == FR_STEP_LAUNCH ? s->kernel->nest->n_scalars : 0;
        struct fr_scalar_bits *values = (struct fr_scalar_bits *)(uintptr_t)in->scalars;

        for (int k = 0; k < n_op; k++)
            in->ptr[k] = b[k].node < 0 ? (char *)0 + b[k].offset
                                       : p->base[b[k].node] + b[k].offset +
                                             (b[k].moving >= 0 ? inputs->moving[b[k].moving].bytes : 0);
        for (int k = 0; k < n_scalars; k++)
            if (FR_LIKELY(s->scalar[i][k] >= 0))
                values[k] = inputs->scalar[s->scalar[i][k]];
    }
}

static fr_status
run_step(struct fr_plan *p, struct fr_step *s, struct fr_err *err)
{
    switch (s->kind) {
    case FR_STEP_COPY:
        return fr_backend->copy(p->base[s->copy_to], p->base[s->copy_from], (size_t)s->copy_bytes, err);
    case FR_STEP_CALL: return fr_backend->call(&s->call, s->instance->ptr, err);
    case FR_STEP_SCAN: return fr_backend->scan(s->op, s->dtype, s->instance, err);
    default: return fr_backend->launch(s->kernel, s->instance, s->n_instances, err);
    }
}

/* What is to be said of a step that has been run, in `us` where somebody looked at the clock. */
static void
count_run(const struct fr_plan *p, int i, uint64_t us)
{
    const struct fr_step *s = &p->step[i];

    if (s->kind == FR_STEP_LAUNCH)
        fr_backend->kernel_ran(s->kernel, us, s->bytes_read + s->bytes_written);
    if (fr_env.debug >= 2)
        fr_log(2, "step %d: %d instances, %llu bytes read, %llu written, %llu us%s", i, s->n_instances,
               (unsigned long long)s->bytes_read, (unsigned long long)s->bytes_written, (unsigned long long)us,
               s->band ? ", in bands" : "");
    stats.n_kernels += s->counts;
    fr_count_ways(FR_WAY_banded, s->counts && s->band);
    if (s->kind == FR_STEP_CALL && s->call.op == FR_OP_matmul)
        fr_count_way(FR_WAY_products);
    else if (s->kind != FR_STEP_LAUNCH)
        fr_count_way(FR_WAY_precompiled);
    stats.bytes_read += s->bytes_read;
    stats.bytes_written += s->bytes_written;
}

static fr_status
run_band(struct fr_plan *p, const struct fr_band *b, char *scratch, int n_workers, struct fr_err *err)
{
    int64_t   ns[FR_BAND_ITEMS];
    fr_status st = fr_band_run(p, b, scratch, n_workers, ns, err);

    for (int k = 0; k < b->n_steps; k++)
        count_run(p, b->first + k, (uint64_t)ns[k] / 1000);
    return st;
}

/* All steps; the GIL may be away. `scratch` is for bands, of so many workers. */
static fr_status
run_steps(struct fr_plan *p, char *scratch, int n_workers, struct fr_err *err)
{
    bool    (*poll)(void) = fr_backend_interrupted;
    fr_status st = FR_OK;
    bool      timed = p->work > 1 << 22 || fr_env.debug >= 2;

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
            st = run_band(p, &p->band[s->band - 1], scratch, n_workers, err);
            continue;
        }
        st = run_step(p, s, err);
        count_run(p, i, timed ? (uint64_t)fr_now_us() - t0 : 0);
    }
    fr_backend_interrupted = poll;
    return st;
}

/* With FRIT_JIT=always every kernel of the plan is compiled before the plan runs. */
static fr_status
compile_first(struct fr_plan *p, struct fr_err *err)
{
    fr_status st = FR_OK;

    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].kind == FR_STEP_LAUNCH)
            fr_backend->kernel_ran(p->step[i].kernel, UINT64_MAX, 0);
    /* Others may be compiled at the same time: they are not waited for. */
    for (int i = 0; i < p->n_steps && st == FR_OK; i++)
        if (p->step[i].kind == FR_STEP_LAUNCH)
            st = fr_backend->kernel_wait(p->step[i].kernel, err);
    return st;
}

fr_status
fr_plan_run(struct fr_plan *p, const struct fr_inputs *inputs, struct fr_err *err)
{
    int       n_workers = p->n_bands ? fr_backend->n_workers() : 1;
    int64_t   n_temporary = fr_plan_temporary_bytes(p, n_workers);
    char     *arena = NULL, *scratch;
    fr_status st;

    if (n_temporary && !(arena = fr_backend->alloc((size_t)n_temporary)))
        return fr_fail(err, FR_ENOMEM,
                       "Unable to allocate %lld bytes for temporaries of this evaluation",
                       (long long)n_temporary);
    FR_ASSERT(!p->running && !fr_eval_is_unlocked()); /* p->base is one run's */
    scratch = arena + p->arena_bytes;
    if ((st = place_nodes(p, arena, n_temporary, err)) != FR_OK)
        goto out;
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].kind != FR_STEP_COPY)
            bind_step(p, &p->step[i], inputs);
    if (p->new_bytes + n_temporary > (int64_t)stats.peak_planned_bytes)
        stats.peak_planned_bytes = (uint64_t)(p->new_bytes + n_temporary);
    count_evaluation();
    fr_fpe_begin();
    p->running = true;
    if (p->work < fr_tune.keep_gil && !fr_env_waits_for_code()) {
        st = run_steps(p, scratch, n_workers, err);
    } else {
        void *gil = fr_hooks.release_gil ? fr_hooks.release_gil() : NULL;

        st = fr_env_waits_for_code() ? compile_first(p, err) : FR_OK;
        if (st == FR_OK)
            st = run_steps(p, scratch, n_workers, err);
        if (gil)
            fr_hooks.take_gil(gil);
    }
    p->running = false;
out:
    if (arena)
        fr_backend->free(arena, (size_t)n_temporary);
    if (st != FR_OK)
        fr_plan_drop_fresh(p);
    return st;
}

/* Results become leaves; what only they needed dies. */
static void
realise_outputs(struct fr_plan *p, const fr_ref *id)
{
    for (int i = 0; i < p->n_outputs; i++) {
        int n = p->output[i], r = fr_place_root(p->place, n);
        struct fr_buffer *b;

        FR_ASSERT(p->place[r].kind == FR_PLACE_LEAF || (p->place[r].kind == FR_PLACE_NEW && p->fresh[r]));
        if (p->place[r].kind == FR_PLACE_LEAF) {
            b = fr_buffer_ref(fr_nodes[id[p->given[r]]].v.buffer);
        } else {
            b = p->fresh[r];
            p->fresh[r] = NULL;
        }
        p->base[n] = (char *)b;
    }
    /* Only now: realising one may free leaves that another one's memory was looked up through. */
    for (int i = 0; i < p->n_outputs; i++)
        fr_node_realise(id[p->given[p->output[i]]], (struct fr_buffer *)(void *)p->base[p->output[i]]);
    fr_plan_drop_fresh(p);
}

/* ---- the way in --------------------------------------------------------------------------- */

/* Every computing node that Python holds; *out has room for `more` of them. */
static fr_status
held_roots(fr_ref **out, int *n, size_t more, struct fr_err *err)
{
    fr_ref *roots = fr_malloc(((size_t)fr_nodes_pending + 1 + more) * sizeof *roots);

    if (!roots)
        return fr_no_memory(err, "the list of pending nodes");
    *n = 0;
    for (fr_ref id = 1, left = fr_nodes_pending; left > 0; id++) {
        FR_ASSERT(id < fr_nodes_cap); /* as many are pending as are counted */
        if (fr_nodes[id].op != FR_N_OPS && fr_node_computes(&fr_nodes[id])) {
            left--;
            if (fr_nodes[id].held)
                roots[(*n)++] = id;
        }
    }
    *out = roots;
    return FR_OK;
}

/* Gathers what the roots need. A store into memory that others look at overwrites it, so whatever else
 * still reads the old values is computed in the same plan. */
static fr_status
gather(const fr_ref *roots, int n, struct fr_err *err)
{
    fr_ref   *all = NULL, *what = NULL;
    size_t    cap_what = 0;
    int       n_all = 0, n_what = 0;
    fr_status st;

    TRY(fr_gather(&gathered, roots, n, err));
    for (;;) {
        int n_before = n_what;

        /* All that was ever unsettled: what is settled now is so by its readers, which must stay. */
        for (int i = 0; i < gathered.n_unsettled; i++) {
            int k = 0;

            while (k < n_what && what[k] != gathered.unsettled[i])
                k++;
            if (k < n_what)
                continue;
            if (!FR_GROW(what, cap_what, (size_t)n_what + 1))
                TRY(fr_no_memory(err, "the list of roots"));
            what[n_what++] = gathered.unsettled[i];
        }
        if (n_what == n_before)
            break;
        fr_free(all);
        all = NULL;
        TRY(held_roots(&all, &n_all, (size_t)n, err));
        TRY(fr_gather_readers(&gathered, what, n_what, all, &n_all, err));
        memcpy(all + n_all, roots, (size_t)n * sizeof *all);
        TRY(fr_gather(&gathered, all, n_all + n, err));
    }
out:
    fr_free(all);
    fr_free(what);
    return st;
}

/* Runs the plan with a backend that has memory of its own. */
static fr_status
run_apart(struct fr_plan *p, const struct fr_inputs *inputs, struct fr_err *err)
{
    struct fr_lent *lent = fr_lent_new(p, err);

    return lent ? fr_plan_run_lent(p, inputs, lent, fr_lend_leaves(p, gathered.id, lent, err), err) : FR_ENOMEM;
}

/* Runs the plan of what has been gathered. */
static fr_status
run_gathered(struct fr_plan *p, struct fr_err *err)
{
    struct fr_inputs inputs = {gathered.scalar, gathered.moving};
    struct fr_judge_few few;
    char            *kept;
    unsigned         raised;
    fr_status        st;

    /* Another thread may drop its handles while the GIL is away. */
    for (int i = 0; i < p->n_outputs; i++)
        fr_node_ref(gathered.id[p->given[p->output[i]]]);
    for (int i = 0; i < p->n_leaves; i++)
        p->base[p->placed[i]] = fr_nodes[gathered.id[p->given[p->placed[i]]]].v.buffer->mem;
    kept = fr_judge_keep(p, gathered.id, &few);
    st = FR_LIKELY(fr_backend->is_host) ? fr_plan_run(p, &inputs, err) : run_apart(p, &inputs, err);
    raised = fr_fpe_raised();
    if (FR_UNLIKELY((raised | fr_judge_unseen) != 0) && st == FR_OK && fr_judge_are_due(gathered.id, gathered.n, raised))
        fr_judge_plan(p, gathered.id, gathered.n, kept, raised);
    fr_judge_let_go(kept, &few);
    if (st == FR_OK)
        realise_outputs(p, gathered.id);
    for (int i = 0; i < p->n_outputs; i++)
        fr_node_unref(gathered.id[p->given[p->output[i]]]);
    return st;
}

/* Counts what a node by itself was. */
static void
count_step(const struct fr_node *n)
{
    if (n->op == FR_OP_matmul)
        fr_count_way(FR_WAY_products);
    else
        stats.n_kernels++;
}

/* fr_eager_run, and asks about what it raises. */
FR_INLINE fr_status
run_node(fr_ref id, struct fr_buffer **out, struct fr_err *err)
{
    unsigned  raised;
    fr_status st;

    fr_fpe_begin();
    st = fr_eager_run(id, out, err);
    raised = fr_fpe_raised();
    if (FR_UNLIKELY((raised | fr_judge_unseen) != 0) && st == FR_OK && *out && fr_judge_are_due(&id, 1, raised))
        fr_judge_node(id, *out, raised);
    return st;
}

/* Computes a node of a graph that has no plan; its arguments are there. */
static fr_status
eval_node(fr_ref id, struct fr_err *err)
{
    struct fr_buffer *b;
    struct fr_plan   *p;
    fr_status         st = run_node(id, &b, err);

    if (st != FR_OK)
        return st;
    if (b) {
        count_step(&fr_nodes[id]);
        fr_node_realise(id, b);
        return FR_OK;
    }
    if ((st = fr_gather_node(&gathered, id, err)) != FR_OK ||
        (st = fr_plan_cache_find(&gathered, FR_FIND_NODE, &p, err)) != FR_OK)
        return st;
    stats.n_evals--; /* it is a part of one */
    return run_gathered(p, err);
}

/* What nobody has to be asked about. *out: whether it was computed. */
static fr_status
eval_alone(fr_ref id, bool *out, struct fr_err *err)
{
    struct fr_buffer *b = NULL;
    fr_status         st = FR_OK;

    *out = false;
    if (fr_is_off(FR_OFF_alone) || !fr_eager_is_alone(id) || (st = run_node(id, &b, err)) != FR_OK || !b)
        return st;
    *out = true;
    count_evaluation();
    fr_count_way(FR_WAY_alone);
    fr_count_way(FR_WAY_eager);
    count_step(&fr_nodes[id]);
    fr_looks_taken++;
    fr_guard_restart();
    fr_node_ref(id);
    fr_node_realise(id, b);
    fr_node_unref(id);
    fr_born_from = fr_nodes_made;
    fr_storages_settle();
    return FR_OK;
}

/* Computes what has been gathered node by node. */
static fr_status
eval_eagerly(struct fr_err *err)
{
    fr_ref    todo[FR_EAGER_NODES];
    int       n = 0;
    fr_status st = FR_OK;

    for (int i = 0; i < gathered.n; i++)
        if (fr_node_computes(&fr_nodes[gathered.id[i]])) {
            todo[n++] = gathered.id[i];
            fr_node_ref(gathered.id[i]);
        }
    count_evaluation();
    fr_count_way(FR_WAY_eager);
    for (int i = 0; i < n; i++) {
        if (st == FR_OK && fr_node_computes(&fr_nodes[todo[i]]))
            st = eval_node(todo[i], err);
        fr_node_unref(todo[i]);
    }
    return st;
}

/* The thread that works in the background and begins what else does, and how many may compute, for which files are read:
 * the first evaluation of all takes that time, whatever it is, and no later one. */
static FR_COLD void
begin(void)
{
    fr_planner_start();
    fr_backend->n_workers();
    has_begun = true;
}

static fr_status
eval_locked(const fr_ref *roots, int n, enum way way, struct fr_err *err)
{
    struct fr_plan *p;
    enum fr_find    how;
    bool            done = false;
    fr_status       st;

    had_plan = false;
    if (FR_UNLIKELY(!has_begun))
        begin();
    if (n == 1 && way != AGAIN && ((st = eval_alone(roots[0], &done, err)) != FR_OK || done))
        return st;
    if ((st = gather(roots, n, err)) != FR_OK)
        return st;
    how = !fr_eager_suits(&gathered) ? FR_FIND_MADE : way == AGAIN ? FR_FIND_SOON : FR_FIND_LATER;
    if ((st = fr_plan_cache_find(&gathered, how, &p, err)) != FR_OK)
        return st;
    had_plan = p;
    fr_looks_taken++;
    fr_guard_restart();
    st = p ? run_gathered(p, err) : eval_eagerly(err);
    if (st == FR_OK) {
        if (fr_nodes_pending == 0)
            fr_born_from = fr_nodes_made;
        fr_storages_settle();
        if (fr_env.debug >= 1)
            fr_log(1, "evaluated %d nodes with %d kernels", gathered.n, p ? p->n_kernels : gathered.n);
    }
    return st;
}

bool
fr_eval_had_plan(void)
{
    return had_plan;
}

const struct fr_gathered *
fr_eval_gathered(void)
{
    return &gathered;
}

void
fr_eval_count_judged(void)
{
    stats.n_judged++;
}

void
fr_eval_count_replay(void)
{
    fr_count_way(FR_WAY_replayed);
}

/* For roots that the caller has references to. */
static fr_status
eval_held(fr_ref *todo, int n, enum way way, struct fr_err *err)
{
    fr_status st, said;
    int       n_todo = 0;

    if ((st = fr_eval_lock(err)) != FR_OK)
        return st;
    for (int i = 0; i < n; i++) /* another thread may have computed some */
        if (fr_node_computes(&fr_nodes[todo[i]]))
            todo[n_todo++] = todo[i];
    st = n_todo ? eval_locked(todo, n_todo, way, err) : FR_OK;
    fr_eval_unlock();
    /* What has been computed is there, whatever is made of a warning. */
    said = fr_judge_end();
    return st == FR_OK ? said : st;
}

static fr_status
eval(const fr_ref *roots, int n, enum way way, struct fr_err *err)
{
    fr_ref    few[64], *todo = few;
    int       n_todo = 0;
    fr_status st = FR_OK, first;

    for (int i = 0; i < n && n_todo == 0; i++)
        n_todo += fr_node_computes(&fr_nodes[roots[i]]);
    if (n_todo == 0)
        return FR_OK;
    if (2 * n > (int)FR_LEN(few) && !(todo = fr_malloc(2 * (size_t)n * sizeof *todo)))
        return fr_no_memory(err, "the list of roots");
    /* While this thread waits for its turn, others may compute these nodes, or drop them. */
    memcpy(todo, roots, (size_t)n * sizeof *todo);
    memcpy(todo + n, roots, (size_t)n * sizeof *todo);
    for (int i = 0; i < n; i++)
        fr_node_ref(todo[n + i]);
    st = first = eval_held(todo, n, way, err);
    if (way == EACH && n > 1 && st != FR_OK && st != FR_EINTR && st != FR_ERAISED) {
        first = FR_OK;
        for (int i = 0; i < n && st != FR_EINTR; i++) {
            fr_ref one = todo[n + i];

            st = eval_held(&one, 1, way, first == FR_OK ? err : NULL);
            first = first == FR_OK ? st : first;
        }
    }
    for (int i = 0; i < n; i++)
        fr_node_unref(todo[n + i]);
    if (todo != few)
        fr_free(todo);
    fr_release_foreign();
    return st == FR_EINTR ? st : first;
}

fr_status
fr_eval_nodes(const fr_ref *roots, int n, struct fr_err *err)
{
    return eval(roots, n, ONCE, err);
}

fr_status
fr_eval_again(const fr_ref *roots, int n, struct fr_err *err)
{
    return eval(roots, n, AGAIN, err);
}

fr_status
fr_eval_each(const fr_ref *roots, int n, struct fr_err *err)
{
    return eval(roots, n, EACH, err);
}

fr_status
fr_eval_all(struct fr_err *err)
{
    fr_ref   *roots;
    int       n;
    fr_status st;

    if (fr_nodes_pending == 0)
        return FR_OK;
    if ((st = held_roots(&roots, &n, 0, err)) != FR_OK)
        return st;
    st = fr_eval_each(roots, n, err);
    fr_free(roots);
    return st;
}

fr_status
fr_runtime_eval_all(struct fr_err *err)
{
    return fr_eval_all(err);
}

fr_status
fr_eval_readers(const struct fr_storage *s, struct fr_err *err)
{
    fr_ref   *roots;
    int       n;
    fr_status st;

    if (!fr_node_computes(&fr_nodes[s->node]) && fr_nodes[s->node].refs == 1)
        return FR_OK;
    if ((st = fr_eval_lock(err)) != FR_OK)
        return st;
    st = held_roots(&roots, &n, 0, err);
    if (st == FR_OK)
        st = fr_gather_readers(&gathered, &s->node, 1, roots, &n, err);
    fr_eval_unlock();
    if (st != FR_OK)
        return st;
    st = fr_eval_nodes(roots, n, err);
    fr_free(roots);
    return st;
}

fr_status
fr_explain(const struct fr_tensor *const *t, int n, const char *kind, char **text,
           struct fr_err *err)
{
    struct fr_plan *p;
    fr_ref         *roots = fr_malloc(((size_t)n + 1) * sizeof *roots);
    int             n_todo = 0;
    fr_status       st;

    if (!roots)
        return fr_no_memory(err, "the list of roots");
    if ((st = fr_eval_lock(err)) != FR_OK)
        goto out;
    for (int i = 0; i < n; i++)
        if (fr_node_computes(&fr_nodes[t[i]->storage->node]))
            roots[n_todo++] = t[i]->storage->node;
    st = fr_gather(&gathered, roots, n_todo, err);
    if (st == FR_OK)
        st = fr_plan_cache_find(&gathered, FR_FIND_MADE, &p, err);
    if (st == FR_OK)
        st = fr_plan_text(p, kind, text, err);
    fr_eval_unlock();
out:
    fr_free(roots);
    return st;
}

/* ---- counters and life time --------------------------------------------------------------- */

void
fr_stats_get(struct fr_stats *out)
{
    struct fr_compile_stats c;

    fr_compile_stats(&c);
    *out = stats;
    out->n_nodes = fr_nodes_made - n_nodes_base;
    out->n_forced_by_guard = fr_n_guard_forces;
    out->n_compiled = c.n_compiled;
    out->n_disk_hits = c.n_disk_hits;
    out->n_pending_compiles = c.n_pending;
    out->pending_nodes = fr_nodes_pending;
}

uint64_t
fr_stats_kernels(void)
{
    return stats.n_kernels;
}

void
fr_stats_reset(void)
{
    stats = (struct fr_stats){0};
    n_nodes_base = fr_nodes_made;
    fr_n_guard_forces = 0;
    fr_ways_reset();
}

fr_status
fr_runtime_init(struct fr_err *err)
{
    fr_status st;

    fr_image_touch();
    fr_blocks_init();
    if ((st = fr_eval_lock_init(err)) != FR_OK)
        return st;
    fr_env_load();
    fr_trace_init();
    if (!fr_log_init())
        return fr_no_memory(err, "the fork handler");
    return fr_backend_init(err);
}

void
fr_runtime_stop(void)
{
    fr_planner_stop();
    fr_backend->stop();
}
