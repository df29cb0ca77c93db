/* Memory of the host, lent to a run by a backend that has its own: a copy goes there, and comes back where the run writes over
 * it. */
#include "base/alloc.h"
#include "runtime/plan.h"
#include "runtime/storage.h"

struct fr_lent {
    int  n;
    struct {
        int32_t node;
        char   *host;     /* where its memory begins there, */
        int64_t first;    /* and so many bytes of it, from this one on, are there */
        int64_t n_bytes;
    } of[];
};

struct fr_lent *
fr_lent_new(const struct fr_plan *p, struct fr_err *err)
{
    struct fr_lent *lent = fr_malloc(sizeof *lent + (size_t)p->n_leaves * sizeof *lent->of);

    if (lent)
        lent->n = 0;
    else
        fr_no_memory(err, "what is lent to a backend");
    return lent;
}

static FR_DEBUG_ONLY bool
is_lent(const struct fr_lent *lent, int node)
{
    for (int i = 0; i < lent->n; i++)
        if (lent->of[i].node == node)
            return true;
    return false;
}

fr_status
fr_lend(struct fr_plan *p, struct fr_lent *lent, int node, int64_t first, int64_t n_bytes, struct fr_err *err)
{
    const struct fr_backend *by = fr_plan_by(p);
    struct fr_err said;
    char *mem = by->alloc(by, (size_t)p->place[node].bytes, &said), *host = p->base[node];

    FR_ASSERT(lent->n < p->n_leaves && !is_lent(lent, node)); /* else its base would end as the first copy's */
    FR_ASSERT(p->place[node].kind == FR_PLACE_LEAF && first >= 0 && first + n_bytes <= p->place[node].bytes);
    if (!mem)
        return fr_backend_refused(&said, err, "Unable to allocate %lld bytes for an operand", (long long)p->place[node].bytes);
    lent->of[lent->n].node = node;
    lent->of[lent->n].host = host;
    lent->of[lent->n].first = first;
    lent->of[lent->n++].n_bytes = n_bytes;
    p->base[node] = mem;
    return by->copy_in(by, mem + first, host + first, (size_t)n_bytes, err);
}

fr_status
fr_lend_leaves(struct fr_plan *p, const fr_ref *id, struct fr_lent *lent, struct fr_err *err)
{
    const struct fr_backend *by = fr_plan_by(p);
    fr_status st = FR_OK;

    for (int i = 0; i < p->n_leaves && st == FR_OK; i++) {
        int               node = p->placed[i];
        struct fr_buffer *b = fr_nodes[id[p->given[node]]].v.buffer;

        if (b->home != by)
            st = fr_buffer_send(b, by, err);
        p->base[node] = b->mem;
        if (st == FR_OK && b->home != by)
            st = fr_lend(p, lent, node, 0, p->place[node].bytes, err);
    }
    return st;
}

static bool
is_lost(const struct fr_plan *p, int node)
{
    for (int i = 0; i < p->n_lost; i++)
        if (p->lost[i] == node)
            return true;
    return false;
}

/* Copies back what was written over, if the plan ran. p->base is as before. */
static fr_status
take_back(struct fr_plan *p, struct fr_lent *lent, bool ran, struct fr_err *err)
{
    const struct fr_backend *by = fr_plan_by(p);
    fr_status st = FR_OK;

    for (int i = 0; i < lent->n; i++) {
        int     node = lent->of[i].node;
        char   *host = lent->of[i].host, *mem = p->base[node];
        int64_t first = lent->of[i].first;

        if (ran && st == FR_OK && is_lost(p, node))
            st = by->copy_out(by, host + first, mem + first, (size_t)lent->of[i].n_bytes, err);
        by->free(by, mem, (size_t)p->place[node].bytes);
        p->base[node] = host;
    }
    fr_free(lent);
    return st;
}

fr_status
fr_plan_run_lent(struct fr_plan *p, const struct fr_inputs *inputs, struct fr_lent *lent, fr_status lending, struct fr_err *err)
{
    fr_status st = lending == FR_OK ? fr_plan_run(p, inputs, err) : lending;
    fr_status back = take_back(p, lent, st == FR_OK, st == FR_OK ? err : NULL);

    if (st == FR_OK && back != FR_OK)
        fr_plan_drop_fresh(p);
    return st == FR_OK ? back : st;
}
