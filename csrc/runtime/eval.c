/* Evaluation: finds the plan for what is asked, has it run (run.c), turns nodes into leaves. */
#include <string.h>

#include "base/alloc.h"
#include "base/fpe.h"
#include "base/log.h"
#include "base/tune.h"
#include "base/ways.h"
#include "runtime/explain.h"
#include "runtime/judge.h"
#include "runtime/place.h"
#include "runtime/record.h"
#include "runtime/storage.h"
#include "runtime/warmup.h"

/* SHOWN: results go to the host; EACH: a failure of all together is followed by each alone; AGAIN:
 * fr_tensor_eval_again. */
enum way { ONCE, SHOWN, EACH, AGAIN };

static struct fr_gathered     gathered;
static bool                   had_plan;     /* the last evaluation */
static bool                   has_begun;

static void
count_evaluation(void)
{
    fr_counted.n_evals++;
    fr_planner_notice();
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
    *n = fr_gather_held(roots);
    *out = roots;
    return FR_OK;
}

static fr_status eval_locked(const fr_ref *roots, int n, enum way way, struct fr_err *err);

int
fr_eval_of_device(fr_ref *nodes, int n, fr_device device)
{
    int n_here = 0;

    while (n_here < n && fr_nodes[nodes[n_here]].device == device)
        n_here++;
    for (int i = n_here + 1; i < n; i++)
        if (fr_nodes[nodes[i]].device == device) {
            fr_ref node = nodes[i];

            nodes[i] = nodes[n_here];
            nodes[n_here++] = node;
        }
    return n_here;
}

/* Gathers what the roots need. A store into memory that others look at overwrites it, so whatever else
 * still reads the old values is computed in the same plan. */
FR_INLINE fr_status
gather(const fr_ref *roots, int n, struct fr_err *err)
{
    fr_ref   *all = NULL, *what = NULL;
    size_t    cap_what = 0;
    int       n_all = 0, n_what = 0;
    fr_status st;

again:
    n_what = 0;
    TRY(fr_gather(&gathered, roots, n, err));
    for (;;) {
        int n_before = n_what, n_here;

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
        /* Those on other devices are computed before. */
        if ((n_here = fr_eval_of_device(all, n_all, fr_nodes[roots[0]].device)) < n_all) {
            TRY(eval_locked(all + n_here, fr_eval_of_device(all + n_here, n_all - n_here, fr_nodes[all[n_here]].device), ONCE, err));
            goto again;
        }
        memcpy(all + n_all, roots, (size_t)n * sizeof *all);
        TRY(fr_gather(&gathered, all, n_all + n, err));
    }
out:
    fr_free(all);
    fr_free(what);
    return st;
}

/* Where the leaves are. What the host reads is brought there. */
static fr_status
find_leaves(struct fr_plan *p, struct fr_err *err)
{
    const bool is_host = fr_plan_by(p)->is_host;

    for (int i = 0; i < p->n_leaves; i++) {
        struct fr_buffer *b = fr_nodes[gathered.id[p->given[p->placed[i]]]].v.buffer;
        fr_status         st;

        if (FR_UNLIKELY(b->home != NULL) && is_host && (st = fr_buffer_bring_now(b, err)) != FR_OK)
            return st;
        p->base[p->placed[i]] = FR_UNLIKELY(is_host && b->home) ? b->host : b->mem;
    }
    return FR_OK;
}

/* What was written over elsewhere is not what the host has, or, where the run has failed, is what it has. */
static void
settle_lost(const struct fr_plan *p, bool has_run)
{
    for (int i = 0; i < p->n_lost; i++) {
        struct fr_buffer *b = fr_nodes[gathered.id[p->given[p->lost[i]]]].v.buffer;

        if (!b->home || !b->host || b->away)
            continue;
        if (has_run)
            b->stale = true;
        else if (!b->stale)
            fr_buffer_leave(b);
    }
}

/* Whether others may compute with memory of the plan on the device. */
static bool
touches_away(const struct fr_plan *p)
{
    for (int i = 0; i < p->n_leaves; i++)
        if (fr_nodes[gathered.id[p->given[p->placed[i]]]].v.buffer->away)
            return true;
    return false;
}

/* What is on the host stays as it is, also where the plan stores over it. */
static fr_status
run_without_data(struct fr_plan *p, const struct fr_inputs *inputs, struct fr_err *err)
{
    fr_status st = FR_OK;

    if (fr_record_is_on)
        fr_record_first(fr_plan_by(p), fr_eager_bytes(&gathered));
    for (int i = 0; i < p->n_lost && st == FR_OK; i++) {
        struct fr_buffer *b = fr_nodes[gathered.id[p->given[p->lost[i]]]].v.buffer;

        st = fr_buffer_shadow(b, fr_plan_by(p), err);
        p->base[p->lost[i]] = b->mem;
    }
    return st == FR_OK ? fr_plan_run(p, inputs, err) : st;
}

/* Runs the plan with a backend that has memory of its own. */
static fr_status
run_apart(struct fr_plan *p, const struct fr_inputs *inputs, struct fr_err *err)
{
    const struct fr_backend *by = fr_plan_by(p);
    const bool               is_shared = touches_away(p);
    fr_status                st;

    if (by->has_no_data)
        return run_without_data(p, inputs, err);
    /* On their line: what others have begun, and what they begin. */
    st = is_shared ? by->order(by, 0, false, err) : FR_OK;
    if (st == FR_OK)
        st = fr_plan_run_apart(p, inputs, gathered.id, fr_lend_leaves, gathered.id, err);
    if (is_shared && st == FR_OK && (st = by->order(by, 0, true, err)) != FR_OK)
        fr_plan_drop_fresh(p);
    settle_lost(p, st == FR_OK);
    /* A recording knows leaves by their addresses on the host. */
    for (int i = 0; i < p->n_leaves; i++) {
        const struct fr_buffer *b = fr_nodes[gathered.id[p->given[p->placed[i]]]].v.buffer;

        p->base[p->placed[i]] = b->host ? b->host : b->mem;
    }
    return st;
}

/* Runs the plan of what has been gathered. */
static fr_status
run_gathered(struct fr_plan *p, struct fr_err *err)
{
    struct fr_inputs inputs = {gathered.scalar, gathered.moving, .id = gathered.id, .n = gathered.n};
    struct fr_judge_few few;
    char            *kept;
    unsigned         raised;
    fr_status        st;

    if ((st = find_leaves(p, err)) != FR_OK)
        return st;
    /* Another thread may drop its handles while the GIL is away. */
    for (int i = 0; i < p->n_outputs; i++)
        fr_node_ref(gathered.id[p->given[p->output[i]]]);
    kept = FR_UNLIKELY(fr_plan_by(p)->has_no_data) ? NULL : fr_judge_keep(p, gathered.id, &few);
    st = FR_LIKELY(fr_plan_by(p)->is_host) ? fr_plan_run(p, &inputs, err) : run_apart(p, &inputs, err);
    raised = fr_fpe_raised();
    if (FR_UNLIKELY((raised | fr_judge_unseen) != 0) && st == FR_OK && !fr_plan_by(p)->has_no_data &&
        fr_judge_are_due(gathered.id, gathered.n, raised))
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
        fr_counted.n_kernels++;
}

/* A node that the host runs reads the host's memory. */
static FR_COLD fr_status
bring_arguments(const struct fr_node *n, struct fr_err *err)
{
    for (int k = 0; k < n->n_args; k++) {
        const struct fr_node *a = fr_node_base(n->arg[k]);
        fr_status             st;

        if (a->op == FR_OP_leaf && FR_UNLIKELY(a->v.buffer->home != NULL) && (st = fr_buffer_bring_now(a->v.buffer, err)) != FR_OK)
            return st;
    }
    return FR_OK;
}

/* fr_eager_run, and asks about what it raises. */
FR_INLINE fr_status
run_node(fr_ref id, struct fr_buffer **out, struct fr_err *err)
{
    struct fr_record_mark mark;
    unsigned              raised;
    fr_status             st;

    if (FR_UNLIKELY(atomic_load_explicit(&fr_buffers_elsewhere, memory_order_relaxed) != 0) &&
        (st = bring_arguments(&fr_nodes[id], err)) != FR_OK)
        return st;
    if (FR_UNLIKELY(fr_record_is_on))
        mark = fr_record_begun();
    fr_fpe_begin();
    st = fr_eager_run(id, out, err);
    raised = fr_fpe_raised();
    if (FR_UNLIKELY(fr_record_is_on) && st == FR_OK && *out)
        fr_record_node(&fr_nodes[id], &mark);
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
    fr_counted.n_evals--; /* it is a part of one */
    return run_gathered(p, err);
}

/* What nobody has to be asked about. *out: whether it was computed. */
static fr_status
eval_alone(fr_ref id, bool *out, struct fr_err *err)
{
    struct fr_buffer *b = NULL;
    fr_status         st = FR_OK;

    *out = false;
    if (fr_is_off(FR_OFF_alone) || !fr_eager_is_alone(id))
        return st;
    if (FR_UNLIKELY(fr_explain_is_on))
        fr_explain_alone(id);
    if ((st = run_node(id, &b, err)) != FR_OK || !b)
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
    if (FR_UNLIKELY(fr_explain_is_on))
        fr_explain_ran(FR_OK);
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
    if (fr_device_usual < FR_DEVICE_CUDA)
        fr_backend->n_workers();
    has_begun = true;
}

/* Computes what has been gathered. */
FR_INLINE fr_status
eval_gathered(enum way way, struct fr_err *err)
{
    struct fr_plan *p;
    fr_status       st;

    if (FR_UNLIKELY(fr_warmup_is_on) && (st = fr_warmup_plan(&gathered, err)) != FR_OK)
        return st;
    if ((st = fr_plan_cache_find(&gathered, way == AGAIN ? FR_FIND_SOON : FR_FIND_LATER, &p, err)) != FR_OK)
        return st;
    had_plan = p;
    fr_looks_taken++;
    fr_guard_restart();
    if (FR_UNLIKELY(fr_explain_is_on))
        fr_explain_evaluation(&gathered, p);
    st = p ? run_gathered(p, err) : eval_eagerly(err);
    if (FR_UNLIKELY(fr_explain_is_on))
        fr_explain_ran(st);
    if (st == FR_OK) {
        if (fr_nodes_pending == 0)
            fr_born_from = fr_nodes_made;
        fr_storages_settle();
        if (fr_env.debug >= 1)
            fr_log(1, "evaluated %d nodes with %d kernels", gathered.n, p ? p->n_kernels : gathered.n);
    }
    return st;
}

/* Keeps those that another thread has not computed meanwhile. */
static int
still_computing(fr_ref *todo, int n)
{
    int n_left = 0;

    for (int i = 0; i < n; i++)
        if (fr_node_computes(&fr_nodes[todo[i]]))
            todo[n_left++] = todo[i];
    return n_left;
}

/* ---- AUTO ---- */

/* gather, which is a part of whoever calls it often. */
static FR_COLD fr_status
gather_auto(const fr_ref *roots, int n, struct fr_err *err)
{
    return gather(roots, n, err);
}

static bool
reads_away(const struct fr_node *n)
{
    for (int k = 0; k < n->n_args; k++) {
        const struct fr_node *a = fr_node_base(n->arg[k]);

        if (a->op == FR_OP_leaf && a->v.buffer->home)
            return true;
    }
    return false;
}

/* What has been gathered, for these roots, on a device. Where a GPU can not, and nothing has been written, the host
 * does it. */
static FR_COLD fr_status
eval_placed(const fr_ref *roots, int n, fr_device device, enum way way, struct fr_err *err)
{
    struct fr_err said = {0};
    fr_status     st;

    for (;; device = FR_DEVICE_HOST) {
        const struct fr_plan *p;

        fr_gather_place(&gathered, device);
        if ((st = eval_gathered(way, &said)) == FR_OK)
            fr_count_ways(FR_WAY_placed, device != FR_DEVICE_HOST);
        p = had_plan ? fr_plan_cache_last() : NULL;
        if ((st != FR_ENOMEM && st != FR_EDEVICE) || device == FR_DEVICE_HOST || (p && p->n_lost > 0))
            return st == FR_OK ? st : fr_fail(err, st, "%s", said.text);
        if (st == FR_EDEVICE)
            fr_device_auto_fails(&said);
        if ((st = gather_auto(roots, n, err)) != FR_OK)
            return st;
    }
}

/* What is gathered part by part. What others need of a part lives until it has been computed; then they keep it. */
static FR_COLD fr_status
eval_parts(const struct fr_placement *of, enum way way, struct fr_err *err)
{
    const int  n_parts = of->n_parts;
    fr_device *device = fr_malloc((size_t)n_parts);
    int       *first = fr_malloc(((size_t)n_parts + 1) * sizeof *first);
    fr_ref    *list = fr_malloc(2 * (size_t)gathered.n * sizeof *list), *todo;
    int        n = 0;
    fr_status  st = FR_OK;

    if (!device || !first || !list) {
        st = fr_no_memory(err, "the parts of an evaluation");
        goto out;
    }
    todo = list + gathered.n;
    memcpy(device, of->device, (size_t)n_parts);
    for (int i = 0; i < n_parts; i++) {
        first[i] = n;
        n += fr_place_roots(of, &gathered, i, list + n);
    }
    first[n_parts] = n;
    for (int i = 0; i < n; i++)
        fr_node_ref(list[i]);
    for (int i = 0; i < n_parts; i++) {
        int n_here = first[i + 1] - first[i];

        memcpy(todo, list + first[i], (size_t)n_here * sizeof *todo);
        n_here = still_computing(todo, n_here);
        if (n_here && st == FR_OK && (st = gather_auto(todo, n_here, err)) == FR_OK)
            st = eval_placed(todo, n_here, device[i], way, err);
        for (int k = first[i]; k < first[i + 1]; k++)
            fr_node_unref(list[k]);
    }
    if (st == FR_OK)
        fr_count_way(FR_WAY_parted);
    had_plan = false; /* but several */
out:
    fr_free(device);
    fr_free(first);
    fr_free(list);
    return st;
}

/* eval_locked of nodes that are AUTO. */
static FR_COLD fr_status
eval_auto(const fr_ref *roots, int n, enum way way, struct fr_err *err)
{
    const struct fr_placement *where;
    bool                       done = false;
    fr_ref                     first;
    fr_status                  st;

    if (n == 1 && way != AGAIN && !reads_away(&fr_nodes[roots[0]]) &&
        ((st = eval_alone(roots[0], &done, err)) != FR_OK || done))
        return st;
    for (;;) {
        if ((st = gather_auto(roots, n, err)) != FR_OK)
            return st;
        if ((first = fr_gather_elsewhere(&gathered)) == FR_NO_NODE)
            break;
        if ((st = eval_locked(&first, 1, ONCE, err)) != FR_OK)
            return st;
    }
    if (FR_UNLIKELY(fr_explain_is_on))
        fr_explain_placement(&gathered);
    if ((st = fr_place(&gathered, way == SHOWN || way == AGAIN, &where, err)) != FR_OK)
        return st;
    return where->n_parts == 1 ? eval_placed(roots, n, where->device[0], way, err) : eval_parts(where, way, err);
}

static fr_status
eval_locked(const fr_ref *roots, int n, enum way way, struct fr_err *err)
{
    bool      done = false;
    fr_status st;

    had_plan = false;
    if (FR_UNLIKELY(!has_begun))
        begin();
    if (FR_UNLIKELY(fr_nodes[roots[0]].device == FR_DEVICE_AUTO))
        return eval_auto(roots, n, way, err);
    if (n == 1 && way != AGAIN && ((st = eval_alone(roots[0], &done, err)) != FR_OK || done))
        return st;
    return (st = gather(roots, n, err)) == FR_OK ? eval_gathered(way, err) : st;
}

bool
fr_eval_had_plan(void)
{
    const struct fr_plan *p = had_plan ? fr_plan_cache_last() : NULL;

    return p && !p->is_unfused;
}

const struct fr_gathered *
fr_eval_gathered(void)
{
    return &gathered;
}

/* For roots that the caller has references to. */
static fr_status
eval_held(fr_ref *todo, int n, enum way way, struct fr_err *err)
{
    fr_status st, said;

    if ((st = fr_eval_lock(err)) != FR_OK)
        return st;
    n = still_computing(todo, n);
    if (FR_UNLIKELY(fr_explain_is_on) && n > 0)
        fr_explain_asked();
    while (n > 0 && st == FR_OK) {
        int n_here = fr_eval_of_device(todo, n, fr_nodes[todo[0]].device);

        st = eval_locked(todo, n_here, way, err);
        todo += n_here;
        n = FR_LIKELY(n == n_here) ? 0 : still_computing(todo, n - n_here);
    }
    fr_eval_unlock();
    /* What has been computed is there, whatever is made of a warning. */
    said = fr_judge_end();
    return st == FR_OK ? said : st;
}

/* An evaluation has ended, which was for what bind/ has said last. */
static FR_COLD void
end_span(const struct fr_span_mark *mark)
{
    const struct fr_span_why why = fr_span_why;

    fr_span_why = (struct fr_span_why){0, 0};
    fr_record_memory(fr_backend);
    fr_span_end(mark, FR_SPAN_evaluation, why.name, FR_SITE_LINE(why.site), 0);
}

static fr_status
eval(const fr_ref *roots, int n, enum way way, struct fr_err *err)
{
    fr_ref    few[64], *todo = few;
    int       n_todo = 0;
    struct fr_span_mark mark;
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
    mark = fr_span_begin();
    st = first = eval_held(todo, n, way, err);
    if (way == EACH && n > 1 && st != FR_OK && st != FR_EINTR && st != FR_ERAISED) {
        first = FR_OK;
        for (int i = 0; i < n && st != FR_EINTR; i++) {
            fr_ref one = todo[n + i];

            st = eval_held(&one, 1, way, first == FR_OK ? err : NULL);
            first = first == FR_OK ? st : first;
        }
    }
    if (FR_UNLIKELY(mark.begin != 0))
        end_span(&mark);
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
fr_eval_shown(const fr_ref *roots, int n, struct fr_err *err)
{
    return eval(roots, n, SHOWN, err);
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
    fr_ref   *roots = NULL;
    int       n = 0;
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
fr_eval_readers(const struct fr_storage *s, struct fr_err *err)
{
    fr_ref   *roots = NULL;
    int       n = 0;
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
