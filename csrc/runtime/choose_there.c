/* What masks and indices choose of tensors on a device, by kernels there: of the arrays only counts come to the host.
 *
 * All of it happens in the runtime's turn, in which nobody else computes or stores: what was computed before the turn stays as
 * it is. A tensor that is written to is written where it lies. Before that, whatever is pending and wants to read it as it was
 * is computed, and memory that anybody else has becomes a copy. What the host has of it is then out of date (stale), and is
 * brought when somebody asks; memory that somebody watches on the host is written there (choose.c). */
#include "runtime/choose.h"

#include "backends/host.h"
#include "base/alloc.h"

enum { OPERANDS = FR_MAX_DIMS };

/* A turn, and operands that are there in it. */
struct turn {
    const struct fr_backend *by;
    const struct fr_storage *into;         /* that is written to; or NULL */
    bool                     is_away;      /* others compute with some of it there */
    int                      n_lent;
    struct {
        void  *mem;
        size_t n_bytes;
    } lent[OPERANDS];      /* copies of what somebody watches on the host */
};

/* Whether the version is memory that at most so many refer to. */
static bool
is_own(const struct fr_storage *s, uint32_t refs)
{
    return !fr_node_computes(&fr_nodes[s->node]) && fr_nodes[s->node].refs <= refs;
}

/* Computes the version, and what reads it; then it is nobody else's, for *refs: what others look at stays where it is. */
static fr_status
make_own(struct fr_storage *s, uint32_t *refs, struct fr_err *err)
{
    fr_status st = is_own(s, 1) ? FR_OK : fr_eval_readers(s, err);

    *refs = fr_storage_pinned(s) ? fr_nodes[s->node].refs : 1;
    if (st == FR_EINTR || (st != FR_OK && fr_storage_pinned(s)))
        return st;
    if (st != FR_OK) /* what cannot be computed now keeps the memory that it reads */
        st = fr_eval_nodes(&s->node, 1, err);
    if (st == FR_OK && !fr_node_computes(&fr_nodes[s->node]) && !is_own(s, *refs))
        st = fr_storage_move_to_copy(s, err);
    return st;
}

/* Whether somebody sees the memory on the host, where it stays. */
static bool
is_watched_here(const struct fr_storage *s)
{
    return fr_storage_is_watched(s) && !(s->seen && s->seen->away);
}

/* Begins a turn in which all of t are computed, and `into` (or NULL) is its own. FR_ENOTSUP: that is watched. */
static fr_status
begin(struct turn *w, const struct fr_backend *by, const struct fr_tensor *const *t, int n, const struct fr_tensor *into, struct fr_err *err)
{
    uint32_t  refs = 0;
    bool      ready;
    fr_status st;

    *w = (struct turn){.by = by, .into = into ? into->storage : NULL};
    do {
        if (into && is_watched_here(into->storage))
            return FR_ENOTSUP;
        if (into && (st = make_own(into->storage, &refs, err)) != FR_OK)
            return st;
        if ((st = fr_choose_compute(t, n, err)) != FR_OK || (st = fr_eval_lock(err)) != FR_OK)
            return st;
        ready = !into || (is_own(into->storage, refs) && !is_watched_here(into->storage));
        for (int k = 0; k < n; k++)
            ready &= !fr_tensor_is_pending(t[k]);
        if (!ready)
            fr_eval_unlock();
    } while (!ready);
    for (int k = 0; k < n; k++)
        w->is_away |= fr_nodes[t[k]->storage->node].v.buffer->away;
    if (w->is_away && (st = by->order(by, 0, false, err)) != FR_OK) { /* what they have begun */
        fr_eval_unlock();
        return st;
    }
    return FR_OK;
}

static void
end(struct turn *w)
{
    struct fr_err ignored;

    for (int k = 0; k < w->n_lent; k++)
        w->by->free(w->by, w->lent[k].mem, w->lent[k].n_bytes);
    if (w->is_away)
        w->by->order(w->by, 0, true, &ignored);
    fr_eval_unlock();
}

static struct fr_buffer *
buffer_of(const struct fr_tensor *t)
{
    return fr_nodes[t->storage->node].v.buffer;
}

/* Where a tensor's first element is on the device, for as long as the turn takes. FR_ENOTSUP: it is watched, and in no order. */
static fr_status
bring(struct turn *w, const struct fr_tensor *t, void **out, struct fr_err *err)
{
    struct fr_buffer *b = buffer_of(t);
    const int64_t     size = fr_dtype_size(t->dtype);
    struct fr_err     said;
    size_t            n_bytes;
    fr_status         st;

    if (w->by->has_no_data && t->storage != w->into) { /* nobody looks there */
        *out = (char *)b->mem + t->offset * size;
        return FR_OK;
    }
    if (b->home != w->by && (st = (w->by->has_no_data ? fr_buffer_shadow : fr_buffer_send)(b, w->by, err)) != FR_OK)
        return st;
    if (b->home == w->by) {
        *out = (char *)b->mem + t->offset * size;
        return FR_OK;
    }
    if (!t->layout->c_contig)
        return FR_ENOTSUP;
    n_bytes = (size_t)(t->layout->n_elems * size);
    if (!(*out = w->by->alloc(w->by, n_bytes, &said)))
        return fr_backend_refused(&said, err, "Unable to allocate %zu bytes for an operand", n_bytes);
    w->lent[w->n_lent].mem = *out;
    w->lent[w->n_lent++].n_bytes = n_bytes;
    return w->by->copy_in(w->by, *out, (char *)b->mem + t->offset * size, n_bytes, err);
}

/* What is written to. FR_ENOTSUP: it cannot be there. */
static fr_status
bring_own(struct turn *w, const struct fr_tensor *t, void **out, struct fr_err *err)
{
    const int n_lent = w->n_lent;
    fr_status st = bring(w, t, out, err);

    return st == FR_OK && w->n_lent > n_lent ? FR_ENOTSUP : st;
}

/* It has been written to there: those who look on the host have not seen it. */
static void
wrote(const struct fr_tensor *t)
{
    struct fr_buffer *b = buffer_of(t);

    fr_index_forget(t->storage->node);
    b->stale = b->host != NULL && !b->away && !b->home->has_no_data;
    if (b->stale)
        fr_storage_advance(t->storage, t->storage->node); /* (on the list of those) */
}

static void
forget(const struct fr_backend *by, struct fr_mask *m)
{
    by->free(by, m->ranks, m->ranks_bytes);
}

/* ---- masks ---- */

static fr_status
count(struct turn *w, const struct fr_tensor *mask, struct fr_mask *m, struct fr_err *err)
{
    void     *at = NULL;
    fr_status st = bring(w, mask, &at, err);

    fr_looks_taken++; /* also where nothing is chosen: with other values the same call does something else */
    *m = (struct fr_mask){.at = at, .n = mask->layout->n_elems};
    return st == FR_OK ? w->by->chooser->count(w->by, m, err) : st;
}

/* A new tensor in memory of the device, in the turn. */
static fr_status
new_there(const struct fr_backend *by, int ndim, const int64_t *dims, fr_dtype dtype, struct fr_buffer **to, struct fr_layout **l, struct fr_err *err)
{
    if (!(*l = fr_layout_get(ndim, dims, NULL)))
        return fr_no_memory(err, "a layout");
    return (*to = fr_buffer_new(by, (size_t)((*l)->n_elems * fr_dtype_size(dtype)), err)) ? FR_OK : err->code;
}

fr_status
fr_there_get(const struct fr_backend *by, const struct fr_tensor *t, const struct fr_tensor *mask, size_t row, struct fr_tensor *out,
             struct fr_err *err)
{
    struct turn       w;
    struct fr_mask    m = {.ranks = NULL};
    struct fr_layout *l = NULL;
    struct fr_buffer *to = NULL;
    int64_t           dims[FR_MAX_DIMS];
    void             *from;
    fr_status         st;

    if (is_watched_here(t->storage)) /* it stays on the host, and so would all of it be sent */
        return FR_ENOTSUP;
    if ((st = begin(&w, by, (const struct fr_tensor *[]){mask, t}, 2, NULL, err)) != FR_OK)
        return st;
    TRY(count(&w, mask, &m, err));
    TRY(new_there(by, fr_choose_dims(t, mask, m.count, dims), dims, t->dtype, &to, &l, err));
    TRY(bring(&w, t, &from, err));
    TRY(by->chooser->move(by, FR_CHOSEN_GET, &m, row, 0, NULL, from, to->mem, err));
    st = fr_tensor_from_buffer(to, by->device, t->dtype, l, out, err);
    to = NULL;
out:
    fr_buffer_unref(to);
    fr_layout_unref(l);
    forget(by, &m);
    end(&w);
    return st;
}

fr_status
fr_there_places(const struct fr_backend *by, const struct fr_tensor *mask, struct fr_tensor *out, struct fr_err *err)
{
    const int         ndim = mask->layout->ndim;
    struct turn       w;
    struct fr_mask    m = {.ranks = NULL};
    struct fr_layout *l = NULL;
    struct fr_buffer *to = NULL;
    fr_status         st;

    if (is_watched_here(mask->storage))
        return FR_ENOTSUP;
    if ((st = begin(&w, by, &mask, 1, NULL, err)) != FR_OK)
        return st;
    TRY(count(&w, mask, &m, err));
    TRY(new_there(by, 2, (int64_t[]){m.count, ndim}, FR_I64, &to, &l, err));
    TRY(by->chooser->move(by, FR_CHOSEN_PLACES, &m, 0, ndim, fr_layout_dims(mask->layout), NULL, to->mem, err));
    st = fr_tensor_from_buffer(to, by->device, FR_I64, l, out, err);
    to = NULL;
    if (st == FR_OK && ndim == 1)
        fr_index_know(out, m.n);
out:
    fr_buffer_unref(to);
    fr_layout_unref(l);
    forget(by, &m);
    end(&w);
    return st;
}

/* Two turns: the value takes the shape of what the mask sets in between. */
fr_status
fr_there_put(const struct fr_backend *by, const struct fr_tensor *t, const struct fr_tensor *mask, size_t row, const struct fr_tensor *value,
             struct fr_err *err)
{
    struct fr_tensor kept = {.storage = NULL}, fitted = {.storage = NULL};
    struct turn      w;
    struct fr_mask   m = {.ranks = NULL};
    int64_t          dims[FR_MAX_DIMS];
    void            *at = NULL, *from, *to;
    bool             in_turn = false;
    fr_status        st;

    if (is_watched_here(t->storage))
        return FR_ENOTSUP;
    fr_tensor_copy(mask, &kept);
    TRY(fr_tensor_set_apart(&kept, err)); /* whatever is stored into it, the mask stays as it is */
    mask = &kept;
    TRY(begin(&w, by, &mask, 1, NULL, err));
    st = count(&w, mask, &m, err);
    end(&w);
    TRY(st);
    TRY(fr_choose_shape(&value, fr_choose_dims(t, mask, m.count, dims), dims, t, &fitted, err));
    TRY(begin(&w, by, (const struct fr_tensor *[]){mask, value}, 2, t, err));
    in_turn = true;
    if (m.count == 0 || row == 0)
        goto out;
    TRY(bring(&w, mask, &at, err));
    TRY(bring(&w, value, &from, err));
    TRY(bring_own(&w, t, &to, err));
    m.at = at;
    TRY(by->chooser->move(by, FR_CHOSEN_PUT, &m, row, 0, NULL, from, to, err));
    wrote(t);
out:
    forget(by, &m);
    if (in_turn)
        end(&w);
    fr_tensor_clear(&kept);
    fr_tensor_clear(&fitted);
    return st;
}

/* ---- indices ---- */

fr_status
fr_there_scatter(const struct fr_backend *by, const struct fr_tensor *t, const struct fr_tensor *index, const struct fr_tensor *value,
                 struct fr_scatter *s, struct fr_err *err)
{
    struct turn w;
    void       *indices, *from, *to;
    fr_status   st = begin(&w, by, (const struct fr_tensor *[]){index, value}, 2, t, err);

    if (st != FR_OK)
        return st;
    fr_looks_taken++;
    TRY(bring(&w, index, &indices, err));
    TRY(bring(&w, value, &from, err));
    TRY(bring_own(&w, t, &to, err));
    s->index = indices;
    s->value = from;
    s->to = to;
    TRY(by->chooser->scatter(by, s, err));
    wrote(t);
out:
    end(&w);
    return st;
}

/* Computes arrays of indices, and says on whose device one of them is then, or goes. FR_ENOTSUP: on nobody's. */
static fr_status
device_of(const struct fr_tensor *const *index, int n, const struct fr_backend **by, struct fr_err *err)
{
    fr_status st = fr_choose_compute(index, n, err);

    *by = NULL;
    for (int k = 0; k < n && st == FR_OK && !*by; k++)
        *by = buffer_of(index[k])->home;
    for (int k = 0; k < n && st == FR_OK && !*by; k++)
        if (fr_storage_device(index[k]->storage) == FR_DEVICE_ANY && fr_index_is_there(index[k]) && !is_watched_here(index[k]->storage))
            *by = fr_backend_of(fr_device_now());
    return st != FR_OK || (*by && (*by)->chooser) ? st : FR_ENOTSUP;
}

/* How an array is read over the shape that it is broadcast to. */
static void
fill_look(struct fr_look *l, const struct fr_tensor *t, const void *at, const struct fr_layout *over, int64_t n)
{
    int64_t strides[FR_MAX_DIMS];

    *l = (struct fr_look){.at = at, .dtype = t->dtype, .size = n, .scale = 1, .n_axes = over->ndim};
    fr_strides_broadcast(t->layout, over->ndim, strides);
    for (int k = 0; k < over->ndim; k++) {
        l->dims[k] = fr_layout_dims(over)[k];
        l->strides[k] = strides[k] * fr_dtype_size(t->dtype);
    }
}

fr_status
fr_there_fits(const struct fr_tensor *index, int64_t n, bool *fits, struct fr_err *err)
{
    const struct fr_backend *by;
    struct turn              w;
    struct fr_look           l;
    int64_t                  wrong = -1;
    int                      which;
    void                    *at;
    fr_status                st = device_of(&index, 1, &by, err);

    if (st != FR_OK || (st = begin(&w, by, &index, 1, NULL, err)) != FR_OK)
        return st;
    TRY(bring(&w, index, &at, err));
    fill_look(&l, index, at, index->layout, n);
    l.is_strict = index->dtype == FR_I64;
    TRY(by->chooser->look(by, &l, 1, &which, &wrong, err));
    *fits = wrong < 0;
out:
    end(&w);
    return st;
}

/* What is wrong with the index at this place in C order, which is brought. */
static fr_status
bad_index(const struct fr_backend *by, const struct fr_look *l, int64_t place, int axis, struct fr_err *err)
{
    const char *from = l->at;
    char        raw[8];
    int64_t     wrapped;
    fr_status   st;

    for (int k = l->n_axes - 1; k >= 0; place /= l->dims[k--])
        from += place % l->dims[k] * l->strides[k];
    if ((st = by->copy_out(by, raw, from, (size_t)fr_dtype_size(l->dtype), err)) != FR_OK)
        return st;
    fr_host_index_wrap(l->dtype, 1, raw, l->size, &wrapped);
    return fr_index_bad(&wrapped, l->size, axis, err);
}

/* The last array comes first, as where several have a wrong index NumPy tells of that one. */
fr_status
fr_there_joint_index(const struct fr_tensor *const *index, const int64_t *dims, int n, int first, struct fr_layout *over, struct fr_tensor *out,
                     struct fr_err *err)
{
    const struct fr_backend *by;
    struct fr_buffer        *b = NULL;
    struct fr_look          *look = NULL;
    struct turn              w;
    fr_device                device = FR_DEVICE_ANY;
    int64_t                  scale = 1, wrong;
    int                      which;
    void                    *at;
    fr_status                st = n <= OPERANDS ? device_of(index, n, &by, err) : FR_ENOTSUP;

    if (st != FR_OK || (st = begin(&w, by, index, n, NULL, err)) != FR_OK)
        return st;
    fr_looks_taken++;
    if (!(look = fr_malloc((size_t)n * sizeof *look)))
        TRY(fr_no_memory(err, "arrays of indices"));
    if (!(b = fr_buffer_new(by, (size_t)over->n_elems * sizeof(int64_t), err)))
        TRY(err->code);
    for (int i = n, k = 0; i-- > 0; scale *= dims[i], k++) {
        TRY(bring(&w, index[i], &at, err));
        fill_look(&look[k], index[i], at, over, dims[i]);
        look[k].out = b->mem;
        look[k].scale = scale;
        look[k].adds = k > 0;
        device = device == FR_DEVICE_ANY ? fr_storage_device(index[i]->storage) : device;
    }
    TRY(by->chooser->look(by, look, n, &which, &wrong, err));
    if (wrong >= 0)
        TRY(bad_index(by, &look[which], wrong, first + n - 1 - which, err));
    st = fr_tensor_from_buffer(b, device, FR_I64, over, out, err);
    b = NULL;
    if (st == FR_OK)
        fr_index_know(out, scale);
out:
    fr_buffer_unref(b);
    fr_free(look);
    end(&w);
    return st;
}
