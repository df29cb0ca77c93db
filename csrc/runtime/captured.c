/* Recordings: what one evaluation did, to be done again over other memory. Neither nodes nor handles are made for
 * it but those of the results: the plan is run as it is, with the numbers that it had. */
#include <string.h>

#include "base/alloc.h"
#include "base/fpe.h"
#include "base/span.h"
#include "base/ways.h"
#include "runtime/judge.h"
#include "runtime/storage.h"

struct leaf {
    int32_t node;              /* of the plan's graph */
    int32_t arg;               /* the argument whose memory it is, or NOBODY, */
    int64_t offset;            /* and where in it that begins: bytes */
    int64_t low, n_bytes;      /* what of it the argument has */
};
enum { NOBODY = -1 };          /* of no bytes */

struct take {                  /* an argument whose elements say what is taken: */
    int32_t arg;
    int64_t offset, n_elems;   /* from here on, so many */
    int64_t n;                 /* of those from which they choose */
    fr_dtype dtype;            /* of the argument */
};

struct result {
    int32_t           root;    /* node whose memory it is */
    struct fr_layout *storage; /* of all of that; a reference, */
    struct fr_layout *layout;  /* and this to the window that is shown */
    int64_t           offset;
    fr_dtype          storage_dtype, dtype;
    fr_device         device;  /* where it belongs */
};

struct fr_captured {
    struct fr_plan        *plan;     /* kept by n_captured */
    struct fr_scalar_bits *scalar;
    int64_t               *moving;
    struct leaf           *leaf;
    struct take           *take;
    struct result         *result;
    struct fr_judge_memory memory;
    uint32_t              *site;     /* of what was gathered */
    int                    n_leaves, n_takes, n_results, n_sites;
    bool                   writes;   /* over an argument */
};

/* The argument whose memory a leaf of n bytes is; -1: none's, or that of several. */
static int
arg_at(const char *memory, int64_t n_bytes, const struct fr_reach *args, int n_args)
{
    int found = -1;

    for (int k = 0; k < n_args; k++)
        if (args[k].low < args[k].high && args[k].low >= memory && args[k].high <= memory + n_bytes) {
            if (found >= 0)
                return -1;
            found = k;
        }
    return found;
}

static bool
capture_leaves(struct fr_captured *r, const struct fr_reach *args, int n_args)
{
    const struct fr_plan *p = r->plan;

    for (int i = 0; i < p->n_leaves; i++) {
        int   node = p->placed[i], arg = NOBODY;
        char *memory = p->base[node];

        if (p->place[node].bytes > 0 && (arg = arg_at(memory, p->place[node].bytes, args, n_args)) < 0)
            return false;
        if (arg != NOBODY && p->graph->node[node].dtype != args[arg].dtype)
            return false; /* a component: other arrays that lie like it have no complex numbers around them */
        r->leaf[r->n_leaves++] = arg == NOBODY ? (struct leaf){.node = node, .arg = NOBODY}
                                               : (struct leaf){node, arg, args[arg].first - memory, args[arg].low - memory,
                                                               args[arg].high - args[arg].low};
    }
    return true;
}

/* Finds what is written over a leaf: an argument's own memory, once. */
static bool
capture_writes(struct fr_captured *r, bool *writes, int n_results)
{
    const struct fr_plan *p = r->plan;
    int                   n_written = 0;

    for (int i = 0; i < p->n_outputs; i++) {
        int root = fr_place_root(p->place, p->output[i]), l = 0;

        if (p->place[root].kind != FR_PLACE_LEAF)
            continue;
        while (r->leaf[l].node != root)
            l++;
        if (r->leaf[l].arg == NOBODY || writes[r->leaf[l].arg] || !p->graph->node[root].pinned)
            return false;
        writes[r->leaf[l].arg] = r->writes = true;
        n_written++;
    }
    return n_written + n_results == p->n_outputs;
}

/* Whether an argument is the whole memory of its leaf, or no step takes that as a whole. */
static bool
copies_arguments_only(const struct fr_captured *r, const struct fr_reach *args)
{
    const struct fr_plan *p = r->plan;

    for (int i = 0; i < p->n_steps; i++) {
        if (p->step[i].kind != FR_STEP_COPY)
            continue;
        for (int l = 0; l < r->n_leaves; l++) {
            int from = fr_place_root(p->place, p->step[i].copy_from), to = fr_place_root(p->place, p->step[i].copy_to), n = r->leaf[l].node;

            if ((from == n || to == n) && r->leaf[l].arg != NOBODY &&
                args[r->leaf[l].arg].high - args[r->leaf[l].arg].low != p->place[n].bytes)
                return false;
        }
    }
    return true;
}

/* Finds the indices of takes: arguments. */
static bool
capture_takes(struct fr_captured *r, const int64_t *moving, uint64_t n_takes)
{
    const struct fr_plan *p = r->plan;

    for (int i = 0; i < p->n_steps; i++) {
        const struct fr_step    *s = &p->step[i];
        const struct fr_binding *b = s->kind == FR_STEP_CALL && s->call.op == FR_OP_take ? &s->binding[0][1] : NULL;
        int                      l = 0;

        if (!b)
            continue;
        while (l < r->n_leaves && (b->node < 0 || r->leaf[l].node != fr_place_root(p->place, b->node)))
            l++;
        if (l == r->n_leaves || !s->call.wary) /* a replay's indices are always somebody's */
            return false;
        if (r->leaf[l].arg != NOBODY)
            r->take[r->n_takes++] = (struct take){r->leaf[l].arg, fr_binding_at(b, moving) - r->leaf[l].offset, s->call.in[1]->n_elems,
                                                  fr_layout_dims(s->call.in[0])[s->call.axis], s->call.index};
        n_takes--;
    }
    return n_takes == 0; /* else one was looked at that is not in the plan, or that nobody has looked at */
}

/* Finds the memory of each result: new, and no other's. */
static bool
capture_results(struct fr_captured *r, const struct fr_gathered *g, const struct fr_tensor *const *results, int n)
{
    const struct fr_plan *p = r->plan;

    for (int i = 0; i < n; i++) {
        const struct fr_tensor *t = results[i];
        int                     k = 0, root;

        while (k < p->n_outputs && g->id[p->given[p->output[k]]] != t->storage->node)
            k++;
        if (k == p->n_outputs)
            return false;
        root = fr_place_root(p->place, p->output[k]);
        if (p->place[root].kind != FR_PLACE_NEW || t->readonly)
            return false;
        for (k = 0; k < r->n_results; k++)
            if (r->result[k].root == root)
                return false;
        r->result[r->n_results++] = (struct result){root, fr_layout_ref(t->storage->layout), fr_layout_ref(t->layout),
                                                    t->offset, t->storage->dtype, t->dtype,
                                                    fr_storage_device(t->storage)};
    }
    return true;
}

/* The next n items of a block that begins at `memory`; their place, *at, is all that is wanted of no block. */
static void *
part_of(char *memory, size_t *at, size_t n, size_t size)
{
    char *p = memory ? memory + *at : NULL;

    *at += (n * size + 7) & ~(size_t)7;
    return p;
}

/* Lays the arrays out behind it, in one block with it: a call of a small operation is noted in no more time
 * than it takes. Returns the bytes of it all. */
static size_t
lay_out(struct fr_captured *r, const struct fr_gathered *g, const struct fr_plan *p, int n_results)
{
    char                *memory = (char *)r;
    struct fr_captured  none, *to = r ? r : &none;
    size_t               at = 0;

    part_of(memory, &at, 1, sizeof *r);
    to->scalar = part_of(memory, &at, (size_t)g->n_scalars, sizeof *to->scalar);
    to->moving = part_of(memory, &at, (size_t)g->n_moving, sizeof *to->moving);
    to->leaf = part_of(memory, &at, (size_t)p->n_leaves, sizeof *to->leaf);
    to->take = part_of(memory, &at, (size_t)p->n_steps, sizeof *to->take);
    to->result = part_of(memory, &at, (size_t)n_results, sizeof *to->result);
    to->site = part_of(memory, &at, (size_t)g->n, sizeof *to->site);
    return at;
}

struct fr_captured *
fr_capture(const struct fr_reach *args, int n_args, bool *writes,
          const struct fr_tensor *const *results, int n_results, uint64_t n_takes)
{
    const struct fr_gathered *g = fr_eval_gathered();
    struct fr_plan           *p = fr_plan_cache_last();
    struct fr_captured      *r;

    if (!p || !(r = fr_calloc(1, lay_out(NULL, g, p, n_results))))
        return NULL;
    lay_out(r, g, p, n_results);
    r->plan = p;
    p->n_captured++;
    if (!capture_leaves(r, args, n_args) || !capture_takes(r, g->moving, n_takes) ||
        !copies_arguments_only(r, args) || !capture_writes(r, writes, n_results) ||
        !capture_results(r, g, results, n_results)) {
        fr_captured_free(r);
        return NULL;
    }
    if (g->n_scalars)
        memcpy(r->scalar, g->scalar, (size_t)g->n_scalars * sizeof *r->scalar);
    r->n_sites = g->n;
    for (int i = 0; i < g->n; i++) /* of nodes that have just died, if they have */
        r->site[i] = fr_nodes[g->id[i]].site;
    if (g->n_moving)
        memcpy(r->moving, g->moving, (size_t)g->n_moving * sizeof *r->moving);
    return r;
}

void
fr_captured_free(struct fr_captured *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n_results; i++) {
        fr_layout_unref(r->result[i].storage);
        fr_layout_unref(r->result[i].layout);
    }
    r->plan->n_captured--;
    fr_free(r);
}

int
fr_captured_kernels(const struct fr_captured *r)
{
    return r->plan->n_kernels;
}

bool
fr_captured_fits(const struct fr_captured *r, char *const *memory)
{
    for (int i = 0; r->writes && i < r->n_takes; i++) {
        const struct take *t = &r->take[i];

        if (!fr_index_fits(t->dtype, memory[t->arg] + t->offset, t->n_elems, t->n))
            return false;
    }
    return true;
}

/* A handle of what the plan has computed. */
static fr_status
take_result(const struct fr_captured *r, const struct result *x, struct fr_tensor *out, struct fr_err *err)
{
    struct fr_buffer *b = r->plan->fresh[x->root];
    fr_status         st;

    r->plan->fresh[x->root] = NULL;
    st = fr_tensor_from_buffer(b, x->device, x->storage_dtype, x->storage, out, err);
    if (st == FR_OK && (x->layout != x->storage || x->dtype != x->storage_dtype)) {
        fr_layout_unref(out->layout);
        out->layout = fr_layout_ref(x->layout);
        out->offset = x->offset;
        out->dtype = x->dtype;
        out->whole = false;
    }
    return st;
}

static fr_status
lend_arguments(struct fr_plan *p, const void *what, struct fr_lent *lent, struct fr_err *err)
{
    const struct fr_captured *r = what;
    fr_status                 st = FR_OK;

    for (int i = 0; i < r->n_leaves && st == FR_OK; i++)
        if (r->leaf[i].arg != NOBODY)
            st = fr_lend(p, lent, r->leaf[i].node, r->leaf[i].low, r->leaf[i].n_bytes, err);
    return st;
}

fr_status
fr_replay(struct fr_captured *r, char *const *memory, struct fr_tensor *results, struct fr_err *err)
{
    struct fr_plan  *p = r->plan;
    struct fr_inputs inputs = {r->scalar, r->moving, .site = r->site, .n = r->n_sites};
    int              n = 0;
    unsigned         raised, warns = FR_SITE_WARNS(fr_trace_site);
    struct fr_judge_few few;
    char            *kept;
    static struct fr_span_known made_again;
    const struct fr_span_mark   mark = fr_span_begin();
    fr_status        st = fr_eval_lock(err), said;

    if (st != FR_OK)
        return st;
    fr_looks_taken++;
    fr_count_way(FR_WAY_replayed);
    for (int i = 0; i < r->n_leaves; i++)
        if (r->leaf[i].arg != NOBODY)
            p->base[r->leaf[i].node] = memory[r->leaf[i].arg] - r->leaf[i].offset;
    kept = r->writes ? fr_judge_keep(p, NULL, &few) : NULL;
    st = FR_LIKELY(fr_plan_by(p)->is_host) ? fr_plan_run(p, &inputs, err)
                                         : fr_plan_run_apart(p, &inputs, NULL, lend_arguments, r, err);
    raised = fr_fpe_raised();
    if (FR_UNLIKELY((raised | fr_judge_unseen) != 0) && st == FR_OK && fr_judge_is_due(&r->memory, raised | fr_judge_unseen, warns)) {
        if (r->writes && !kept) {
            fr_judge_blindly(p, r->site, raised, warns);
        } else {
            if (kept)
                fr_judge_undo(p, kept);
            fr_plan_drop_fresh(p);
            st = fr_fail(err, FR_EASKED, "a warning may be due");
        }
    }
    fr_judge_let_go(kept, &few);
    if (st == FR_OK) {
        while (n < r->n_results && st == FR_OK)
            if ((st = take_result(r, &r->result[n], &results[n], err)) == FR_OK)
                n++;
        fr_plan_drop_fresh(p);
    }
    fr_eval_unlock();
    if (FR_UNLIKELY(mark.begin != 0))
        fr_span_end(&mark, FR_SPAN_evaluation, fr_span_name_of(&made_again, "again"), FR_SITE_LINE(fr_trace_site), 0);
    said = fr_judge_end();
    st = st == FR_OK ? said : st;
    if (fr_nodes_pending == 0)
        fr_guard_restart();
    while (st != FR_OK && n > 0)
        fr_tensor_clear(&results[--n]);
    return st;
}
