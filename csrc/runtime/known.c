/* runtime/known.c -- small plans of a backend without data, all of whose leaves have known values: they are computed on the side,
 * so that what a program decides by such values is decided as in a run: how often a loop turns, which rows an index takes. */
#include <string.h>

#include "backends/meta/meta.h"
#include "base/alloc.h"
#include "base/fpe.h"
#include "runtime/plan.h"
#include "runtime/storage.h"

enum { FEW_PS = 200000000,        /* a fraction of a millisecond */
       FEW_BYTES = 1 << 20 };

bool fr_known_all;

/* Each node's memory begins at a line. */
static size_t
lines(int64_t n_bytes)
{
    return ((size_t)n_bytes + 63) / 64 * 64;
}

/* Bytes of all that the plan reads and makes; 0: too many, or not all that it reads is known. */
static size_t
known_bytes(const struct fr_plan *p, int64_t n_temporary)
{
    const int64_t most = fr_known_all ? INT64_MAX / 2 : FEW_BYTES;
    int64_t       n = n_temporary;

    if (p->ps > FEW_PS && !fr_known_all)
        return 0;
    for (int i = 0; i < p->n_leaves; i++) {
        const int node = p->placed[i];

        n += p->place[node].bytes;
        if (n > most || !fr_meta_known(p->base[node], (size_t)p->place[node].bytes))
            return 0;
    }
    n += p->new_bytes;
    return n > most ? 0 : (size_t)n + 64 * ((size_t)p->n_placed + 2);
}

/* Notes what has been stored in new memory and over leaves. */
static fr_status
note(const struct fr_plan *p, char *const *real, struct fr_err *err)
{
    fr_status st = FR_OK;

    for (int i = 0; i < p->n_new + p->n_lost && st == FR_OK; i++) {
        const int n = i < p->n_new ? p->new_[i] : p->lost[i - p->n_new];

        st = fr_meta_know(p->base[n], real[n], (size_t)p->place[n].bytes, true, err);
    }
    return st;
}

fr_status
fr_known_run(struct fr_plan *p, const struct fr_inputs *inputs, int64_t n_temporary, bool *has_run, struct fr_err *err)
{
    const int n_nodes = p->graph->n_nodes;
    size_t    n_bytes = known_bytes(p, n_temporary);
    char     *memory, *at, **real, **meta = p->base;
    fr_status st;

    *has_run = false;
    if (!n_bytes)
        return FR_OK;
    memory = fr_malloc(n_bytes + (size_t)n_nodes * sizeof *real + 64);
    if (!memory)
        return fr_no_memory(err, "known values");
    real = (char **)(void *)memory;
    memset(real, 0, (size_t)n_nodes * sizeof *real); /* as it is of what lies in the scratch of bands */
    at = (char *)(((uintptr_t)(real + n_nodes) + 63) / 64 * 64);
    for (int i = 0; i < p->n_placed; i++) {
        const int     n = p->placed[i];
        const int64_t bytes = p->place[n].bytes;

        switch (p->place[n].kind) {
        case FR_PLACE_LEAF:
            memcpy(at, fr_meta_known(meta[n], (size_t)bytes), (size_t)bytes);
            /* fall through */
        case FR_PLACE_NEW:
            real[n] = at;
            at += lines(bytes);
            break;
        default: break;
        }
    }
    for (int i = p->n_leaves; i < p->n_placed; i++) {
        const int n = p->placed[i];

        if (p->place[n].kind == FR_PLACE_ARENA)
            real[n] = at + p->place[n].offset;
        else if (p->place[n].kind == FR_PLACE_SAME)
            real[n] = real[p->place[n].root];
    }
    p->base = real;
    st = fr_plan_run_steps(p, inputs, at, n_temporary, err);
    p->base = meta;
    fr_fpe_begin(); /* nobody is to be warned */
    *has_run = st == FR_OK;
    if (st == FR_OK)
        st = note(p, real, err);
    fr_free(memory);
    return st;
}

fr_status
fr_known_is(const struct fr_tensor *t, bool *yes, struct fr_err *err)
{
    const struct fr_buffer *b;
    fr_status               st = fr_eval_nodes(&t->storage->node, 1, err);

    *yes = false;
    if (st != FR_OK || fr_tensor_is_pending(t))
        return st;
    b = fr_nodes[t->storage->node].v.buffer;
    *yes = !b->home || !b->home->has_no_data || fr_meta_known(b->mem, b->n_bytes);
    return FR_OK;
}

fr_status
fr_known_assume(const struct fr_tensor *t, const void *element, struct fr_err *err)
{
    const size_t            size = (size_t)fr_dtype_size(t->storage->dtype);
    const struct fr_buffer *b;
    char                   *bytes;
    bool                    is_known;
    fr_status               st = fr_known_is(t, &is_known, err);

    if (st != FR_OK || is_known || fr_tensor_is_pending(t) || t->dtype != t->storage->dtype)
        return st;
    b = fr_nodes[t->storage->node].v.buffer;
    if (!(bytes = fr_malloc(b->n_bytes + size)))
        return fr_no_memory(err, "values that are assumed");
    for (size_t i = 0; i < b->n_bytes; i += size)
        memcpy(bytes + i, element, size);
    st = fr_meta_know(b->mem, bytes, b->n_bytes, true, err);
    fr_free(bytes);
    return st;
}
