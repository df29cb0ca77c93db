/* What handles show: computed, looked at by others, lent and given back. See tensor.h. */
#include <string.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "runtime/storage.h"

static fr_status
eval_by(fr_status (*eval)(const fr_ref *, int, struct fr_err *), const struct fr_tensor *const *t, int n,
        struct fr_err *err)
{
    fr_ref    few[32], *roots = few;
    fr_status st;

    few[0] = FR_NO_NODE;
    if (n > (int)FR_LEN(few) && !(roots = fr_malloc((size_t)n * sizeof *roots)))
        return fr_no_memory(err, "the list of roots");
    for (int i = 0; i < n; i++)
        roots[i] = t[i]->storage->node;
    st = eval(roots, n, err);
    if (roots != few)
        fr_free(roots);
    return st;
}

fr_status
fr_tensor_eval(const struct fr_tensor *const *t, int n, struct fr_err *err)
{
    return eval_by(fr_eval_nodes, t, n, err);
}

fr_status
fr_tensor_eval_shown(const struct fr_tensor *const *t, int n, struct fr_err *err)
{
    return eval_by(fr_eval_shown, t, n, err);
}

fr_status
fr_tensor_eval_again(const struct fr_tensor *const *t, int n, struct fr_err *err)
{
    return eval_by(fr_eval_again, t, n, err);
}

fr_status
fr_tensor_data(const struct fr_tensor *t, void **data, struct fr_err *err)
{
    struct fr_buffer *b;
    bool              is_copy;
    fr_status         st;

    fr_looks_taken++;
    /* While kernels ran, or this thread waited for memory to be brought, another one may have stored into it. */
    do {
        st = fr_eval_shown(&t->storage->node, 1, err);
        if (st == FR_OK && !fr_tensor_is_pending(t))
            st = fr_buffer_bring(fr_nodes[t->storage->node].v.buffer, err);
        b = fr_nodes[t->storage->node].v.buffer;
        is_copy = st == FR_OK && !fr_tensor_is_pending(t) && (b->away || (b->home && b->home->has_no_data));
    } while (st == FR_OK && (fr_tensor_is_pending(t) || (b->home && !is_copy)));
    if (st == FR_OK) {
        b->shown |= !is_copy;
        *data = (char *)(is_copy ? b->host : b->mem) + t->offset * fr_dtype_size(t->dtype);
    }
    return st;
}

uint32_t
fr_tensor_hold(const struct fr_tensor *t)
{
    fr_node_ref(t->storage->node);
    return t->storage->node;
}

void
fr_tensor_unhold(uint32_t hold)
{
    fr_node_unref(hold);
    fr_release_foreign();
}

struct fr_buffer *
fr_tensor_take(const struct fr_tensor *t, fr_status *st, struct fr_err *err)
{
    const struct fr_storage *s = t->storage;
    const struct fr_node    *n;
    struct fr_buffer        *b;
    void                    *data;

    *st = FR_OK;
    if (s->refs != 1 || !t->whole || t->readonly || s->pinned || s->n_loans || s->layout->n_elems == 0 ||
        (*st = fr_tensor_data(t, &data, err)) != FR_OK)
        return NULL;
    n = &fr_nodes[s->node];
    b = n->op == FR_OP_leaf && n->refs == 1 && s->refs == 1 ? n->v.buffer : NULL;
    return b && !b->owner && !b->pinned && !b->home && data == b->mem &&
                   atomic_load_explicit(&b->refs, memory_order_relaxed) == 1
               ? fr_buffer_ref(b)
               : NULL;
}

fr_status
fr_storage_move_to_copy(struct fr_storage *s, struct fr_err *err)
{
    struct fr_tensor whole = {.storage = s, .layout = s->layout, .dtype = s->dtype, .whole = true};
    struct fr_tensor copy;
    fr_ref           old = s->node;
    fr_status        st;

    if ((st = fr_trace_cast(&whole, s->dtype, 'K', &copy, err)) != FR_OK)
        return st;
    st = fr_eval_nodes(&copy.storage->node, 1, err);
    if (st == FR_OK && s->node == old) /* else another thread has stored into it meanwhile */
        fr_storage_advance(s, copy.storage->node);
    fr_tensor_clear(&copy);
    return st;
}

/* Whoever looks at memory may write to it, so nothing pending may still want to read it, and no other
 * storage may share the version. */
static fr_status
ready_to_be_looked_at(struct fr_storage *s, struct fr_err *err)
{
    for (;;) {
        fr_status st = fr_eval_readers(s, err);

        if (st == FR_OK && fr_node_computes(&fr_nodes[s->node]))
            continue; /* another thread has stored into it meanwhile */
        if (st == FR_OK && (fr_nodes[s->node].held == 1 || fr_storage_pinned(s)))
            return FR_OK;
        if (fr_storage_pinned(s) || st == FR_EINTR)
            return st;
        /* What cannot be computed now keeps the memory that it reads. */
        if ((st = fr_eval_nodes(&s->node, 1, err)) != FR_OK)
            return st;
        if (fr_node_computes(&fr_nodes[s->node]))
            continue;
        if ((st = fr_storage_move_to_copy(s, err)) != FR_OK)
            return st;
    }
}

fr_status
fr_tensor_export(const struct fr_tensor *t, bool writes, void **data, uint32_t *look,
                 struct fr_err *err)
{
    struct fr_storage *s = t->storage;
    fr_status          st = FR_OK;

    /* A leaf that nothing but the storage refers to is ready. */
    if (!fr_storage_is_loud(s) &&
        (fr_node_computes(&fr_nodes[s->node]) || fr_nodes[s->node].refs > 1))
        TRY(ready_to_be_looked_at(s, err));
    if (fr_tensor_is_away(t))
        TRY(fr_fail(err, FR_EVALUE, "others see this memory on %s, where it stays: the host has a copy, to_device(\"cpu\")",
                    fr_device_name(fr_storage_device(s))));
    TRY(fr_tensor_data(t, data, err));
    fr_index_forget(s->node);
    *look = fr_storage_look(s, writes);
out:
    return st;
}

bool
fr_tensor_is_away(const struct fr_tensor *t)
{
    const struct fr_node *n = &fr_nodes[t->storage->node];

    return n->op == FR_OP_leaf ? n->v.buffer->away : t->storage->seen && t->storage->seen->away;
}

fr_status
fr_tensor_export_there(const struct fr_tensor *t, bool writes, void **data, uint32_t *look, struct fr_err *err)
{
    struct fr_storage *s = t->storage;
    const struct fr_backend *by;
    struct fr_buffer  *b;
    fr_status          st;

    fr_looks_taken++;
    if (!fr_storage_is_loud(s) && (fr_node_computes(&fr_nodes[s->node]) || fr_nodes[s->node].refs > 1))
        TRY(ready_to_be_looked_at(s, err));
    else
        TRY(fr_eval_nodes(&s->node, 1, err));
    b = fr_nodes[s->node].v.buffer;
    by = fr_storage_device(s) == FR_DEVICE_AUTO ? b->home : fr_backend_of(fr_storage_device(s));
    if (!by) /* it has left meanwhile */
        TRY(FR_ENOTSUP);
    TRY(fr_buffer_keep_away(b, by, err));
    *data = (char *)b->mem + t->offset * fr_dtype_size(t->dtype);
    fr_index_forget(s->node);
    *look = fr_storage_look(s, writes);
out:
    return st;
}

void
fr_storage_copy_for_readers(struct fr_storage *s)
{
    const fr_ref      old = s->node;
    const bool        is_read = fr_nodes[old].op == FR_OP_leaf && fr_nodes[old].refs > 1;
    struct fr_buffer *b = is_read ? fr_nodes[old].v.buffer : NULL, *copy;
    fr_ref            leaf;

    if (!b || b->home || !(copy = fr_buffer_new_host(b->n_bytes, NULL)))
        return;
    if (!(leaf = fr_node_new(FR_OP_leaf, s->dtype, fr_nodes[old].site))) {
        fr_buffer_unref(copy);
        return;
    }
    memcpy(copy->mem, b->mem, b->n_bytes);
    fr_nodes[leaf].layout = fr_layout_ref(s->layout);
    fr_nodes[leaf].device = fr_nodes[old].device;
    fr_nodes[leaf].v.buffer = b; /* whose reference goes from one to the other */
    fr_nodes[old].v.buffer = copy;
    fr_index_forget(old);
    fr_storage_advance(s, leaf);
    fr_storages_settle();
}

/* Takes stores back that have not been computed. */
static void
abandon(struct fr_storage *s)
{
    fr_ref id = s->node;

    while (fr_nodes[id].op == FR_OP_store)
        id = fr_nodes[id].arg[0];
    if (id != s->node && fr_nodes[id].op == FR_OP_leaf)
        fr_storage_advance(s, id);
    fr_release_foreign();
}

fr_status
fr_storage_reclaim(struct fr_storage *s, bool compute, struct fr_err *err)
{
    fr_status st = FR_OK;

    while (compute && (st = fr_eval_readers(s, err)) == FR_OK &&
           fr_node_computes(&fr_nodes[s->node]))
        ;
    if (!compute || st != FR_OK)
        abandon(s);
    /* What was computed elsewhere is where the lender sees it. */
    if (s->seen && s->seen->home && s->seen->home->has_no_data)
        fr_buffer_leave(s->seen); /* the lender has what he had */
    if (s->seen) {
        fr_status brought = fr_buffer_bring(s->seen, st == FR_OK ? err : NULL);

        st = st == FR_OK ? brought : st;
    }
    fr_storage_end_loan(s);
    fr_storages_settle();
    return st;
}

void
fr_storage_exchange(struct fr_storage *s, void *memory)
{
    FR_ASSERT(s->seen && !s->seen->home && fr_nodes[s->node].op == FR_OP_leaf && fr_nodes[s->node].v.buffer == s->seen);
    s->seen->mem = memory;
    fr_guard_fresh(s->seen->n_bytes);
}

fr_status
fr_runtime_flush(struct fr_err *err)
{
    fr_ref    roots[64];
    fr_status st = FR_OK;
    int       n;

    fr_storages_settle();
    while (st == FR_OK && (n = fr_storages_dirty(roots, FR_LEN(roots))) > 0) {
        st = fr_eval_each(roots, n, err);
        for (int i = 0; i < n && st == FR_OK; i++)
            if (fr_nodes[roots[i]].op == FR_OP_leaf)
                st = fr_buffer_bring(fr_nodes[roots[i]].v.buffer, err);
        fr_storages_settle();
    }
    fr_release_foreign();
    return st;
}
