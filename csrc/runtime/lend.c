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

static struct fr_lent *
lent_new(const struct fr_plan *p, struct fr_err *err)
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
fr_lend_leaves(struct fr_plan *p, const void *what, struct fr_lent *lent, struct fr_err *err)
{
    const struct fr_backend *by = fr_plan_by(p);
    const fr_ref            *id = what;
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

/* With all of it in memory there. */
static fr_status
run_lent(struct fr_plan *p, const struct fr_inputs *inputs, fr_lend_fn *lend, const void *what, struct fr_err *err)
{
    struct fr_lent *lent = lent_new(p, err);
    fr_status       st, back;

    p->begun = false;
    if (!lent)
        return FR_ENOMEM;
    if ((st = lend(p, what, lent, err)) == FR_OK)
        st = fr_plan_run(p, inputs, err);
    back = take_back(p, lent, st == FR_OK, st == FR_OK ? err : NULL);
    if (st == FR_OK && back != FR_OK)
        fr_plan_drop_fresh(p);
    return st == FR_OK ? back : st;
}

static bool
is_there(const struct fr_plan *p, const fr_ref *id, int node)
{
    return id && fr_nodes[id[p->given[node]]].v.buffer->home == fr_plan_by(p);
}

/* Whether there is too little memory for what a run would have there. */
static bool
is_too_large(const struct fr_plan *p, const fr_ref *id)
{
    const struct fr_backend *by = fr_plan_by(p);
    int64_t                  n_bytes = p->new_bytes + fr_plan_temporary_bytes(p, 1);

    for (int i = 0; i < p->n_leaves; i++)
        n_bytes += is_there(p, id, p->placed[i]) ? 0 : p->place[p->placed[i]].bytes;
    return by->room && by->room(by, (size_t)n_bytes) < (size_t)n_bytes;
}

/* FR_ENOTSUP where that can not be; leaves have their memory there or on the host. */
static fr_status
run_chunks(struct fr_plan *p, const struct fr_inputs *inputs, const fr_ref *id, struct fr_err *err)
{
    bool     *there = fr_calloc((size_t)p->n_leaves + 1, sizeof *there);
    fr_status st = FR_OK;

    if (!there)
        return fr_no_memory(err, "a plan in chunks");
    for (int i = 0; i < p->n_leaves && st == FR_OK; i++) {
        there[i] = is_there(p, id, p->placed[i]);
        if (id && !there[i] && fr_nodes[id[p->given[p->placed[i]]]].v.buffer->home)
            st = FR_ENOTSUP; /* it is with a third */
    }
    if (st == FR_OK)
        st = fr_plan_run_chunks(p, inputs, there, err);
    fr_free(there);
    return st;
}

fr_status
fr_plan_run_apart(struct fr_plan *p, const struct fr_inputs *inputs, const fr_ref *id, fr_lend_fn *lend, const void *what,
                  struct fr_err *err)
{
    const bool too_large = is_too_large(p, id);
    fr_status  st = too_large ? run_chunks(p, inputs, id, err) : FR_ENOTSUP, chunks;

    if (st != FR_ENOTSUP)
        return st;
    st = run_lent(p, inputs, lend, what, err);
    /* Memory that others have taken. A run that has written over what it reads can not be made again. */
    if (st != FR_ENOMEM || too_large || !fr_plan_by(p)->room || (p->n_lost && p->begun))
        return st;
    for (int i = 0; id && i < p->n_leaves; i++)
        p->base[p->placed[i]] = fr_nodes[id[p->given[p->placed[i]]]].v.buffer->mem;
    chunks = run_chunks(p, inputs, id, err);
    return chunks == FR_ENOTSUP ? st : chunks;
}
