/* Handles: windows over storages, their memory, sharing.  See tensor.h. */
#include "runtime/tensor.h"

#include <string.h>

#include "backends/host.h"
#include "base/alloc.h"
#include "runtime/storage.h"

struct fr_hooks fr_hooks;
uint32_t        fr_trace_site;

struct fr_storage *fr_storages_free;
uint64_t           fr_looks_taken;

static struct fr_storage *dirty_list;
static struct foreign    *to_release;    /* foreign memory that nothing reads any more */

/* ---- storages ----------------------------------------------------------------------------- */

struct fr_storage *
fr_storage_new(fr_ref node)
{
    struct fr_storage *s = fr_storages_free;
    struct fr_node    *n = &fr_nodes[node];

    FR_ASSERT(n->layout->dense || n->layout->n_elems == 0); /* a version is all of its memory */
    if (s)
        fr_storages_free = s->next_dirty;
    else if (!(s = fr_malloc(sizeof *s)))
        return NULL;
    *s = (struct fr_storage){.refs = 1, .node = node, .layout = n->layout, .dtype = n->dtype};
    n->refs++;
    n->held++;
    return s;
}

struct fr_storage *
fr_storage_ref(struct fr_storage *s)
{
    s->refs++;
    return s;
}

/* Looks that need not wait for us: [1] those that may write. */
static const uint32_t *
loud_looks(const struct fr_storage *s)
{
    return s->n_loans ? s->fresh : s->looks;
}

bool
fr_storage_is_watched(const struct fr_storage *s)
{
    return loud_looks(s)[0] + loud_looks(s)[1] > 0;
}

/* After a change of the counts: tells the memory, which is where readers look. */
static void
update_looks(struct fr_storage *s, bool was_watched)
{
    struct fr_buffer *b = s->seen;

    fr_guard_loud(fr_storage_is_watched(s) - was_watched);
    FR_ASSERT(s->looks[0] >= s->fresh[0] && s->looks[1] >= s->fresh[1]);
    if (!b)
        return;
    b->loud = loud_looks(s)[1] > 0;
    b->pinned = s->looked_at = s->looks[0] + s->looks[1] > 0;
    if (!b->pinned) {
        s->seen = NULL;
        fr_buffer_unref(b);
    }
}

/* The last reference to a node is gone, with which foreign memory may go. */
static __attribute__((noinline)) void
free_and_release(fr_ref node)
{
    fr_node_free(node);
    if (FR_UNLIKELY(to_release != NULL))
        fr_release_foreign();
}

/* `free_node` is called when nothing else needs the version. */
FR_INLINE void
storage_free(struct fr_storage *s, void (*free_node)(fr_ref))
{
    fr_ref          id = s->node;
    struct fr_node *node = &fr_nodes[id];

    FR_ASSERT(!s->dirty && !s->pinned && !s->seen && s->looks[0] + s->looks[1] == 0); /* the next one begins so */
    FR_ASSERT(node->held > 0 && node->refs >= node->held);
    s->next_dirty = fr_storages_free;
    fr_storages_free = s;
    node->held--;
    if (FR_UNLIKELY(--node->refs == 0) && FR_UNLIKELY(!fr_node_free_usual(id)))
        free_node(id);
}

static void
forget_outside(struct fr_storage *s)
{
    if (s->shared && fr_hooks.storage_died)
        fr_hooks.storage_died(s);
    if (s->looked_at) { /* by looks that never end */
        bool was = fr_storage_is_watched(s);

        memset(s->looks, 0, sizeof s->looks);
        memset(s->fresh, 0, sizeof s->fresh);
        update_looks(s, was);
    }
    s->pinned = false;
}

static FR_COLD void
pinned_storage_free(struct fr_storage *s)
{
    forget_outside(s);
    storage_free(s, free_and_release);
}

void
fr_storage_leave(struct fr_storage *s, struct fr_layout *layout)
{
    FR_ASSERT(layout->refs > 0 && s->refs > 0);
    layout->refs--;
    if (--s->refs != 0)
        return;
    if (FR_UNLIKELY(s->pinned))
        pinned_storage_free(s);
    else
        storage_free(s, free_and_release);
}

void
fr_storage_unref(struct fr_storage *s)
{
    FR_ASSERT(!s || s->refs > 0);
    if (!s || --s->refs != 0)
        return;
    forget_outside(s);
    storage_free(s, fr_node_free);
}

void
fr_storage_advance(struct fr_storage *s, fr_ref node)
{
    fr_ref old = s->node;

    FR_ASSERT(fr_nodes[node].layout == s->layout);
    fr_nodes[node].refs++;
    fr_nodes[node].held++;
    fr_nodes[old].held--;
    s->node = node;
    fr_node_unref(old);
    if (s->pinned && !s->dirty) {
        s->dirty = true;
        s->next_dirty = dirty_list;
        dirty_list = fr_storage_ref(s);
    }
}

bool
fr_storage_pinned(const struct fr_storage *s)
{
    return s->pinned;
}

void *
fr_storage_object(const struct fr_storage *s)
{
    return s->object;
}

void
fr_storage_set_object(struct fr_storage *s, void *object)
{
    s->object = object;
}

void
fr_storage_whole(struct fr_storage *s, struct fr_tensor *out)
{
    *out = (struct fr_tensor){.storage = fr_storage_ref(s), .layout = fr_layout_ref(s->layout), .dtype = s->dtype,
                              .whole = true};
}

void
fr_storage_claim(struct fr_storage *s)
{
    s->shared = false;
}

void
fr_storages_settle(void)
{
    struct fr_storage **link = &dirty_list;

    while (*link) {
        struct fr_storage *s = *link;

        FR_ASSERT(s->dirty); /* else it is on the list twice, or on the free one */
        if (fr_node_computes(&fr_nodes[s->node])) {
            link = &s->next_dirty;
        } else {
            *link = s->next_dirty;
            s->dirty = false;
            fr_storage_unref(s);
        }
    }
}

fr_status
fr_runtime_flush(struct fr_err *err)
{
    fr_ref    roots[64];
    fr_status st = FR_OK;

    fr_storages_settle();
    while (st == FR_OK && dirty_list) {
        int n = 0;

        for (struct fr_storage *s = dirty_list; s && n < (int)FR_LEN(roots); s = s->next_dirty)
            roots[n++] = s->node;
        st = fr_eval_each(roots, n, err);
        fr_storages_settle();
    }
    fr_release_foreign();
    return st;
}

/* ---- handles ------------------------------------------------------------------------------ */

void
fr_node_drop_new(fr_ref id)
{
    fr_nodes[id].refs++;
    fr_node_unref(id);
}

fr_status
fr_tensor_wrap(fr_ref node, struct fr_tensor *out, struct fr_err *err)
{
    struct fr_node    *n = &fr_nodes[node];
    struct fr_storage *s = fr_storage_new(node);

    if (!s) {
        fr_node_drop_new(node);
        return fr_no_memory(err, "a tensor handle");
    }
    *out = (struct fr_tensor){.storage = s, .layout = fr_layout_ref(n->layout), .dtype = n->dtype,
                              .whole = true};
    return FR_OK;
}

/* Whether the handle shows elements of its storage and nothing beside it. A component counts in parts of them. */
static FR_DEBUG_ONLY bool
is_within_storage(const struct fr_tensor *t)
{
    const struct fr_layout *l = t->layout;
    int64_t                 low = t->offset, high = t->offset;
    int64_t                 n = t->storage->layout->n_elems * (fr_component_is(t) ? 2 : 1);

    for (int k = 0; k < l->ndim; k++)
        *(fr_layout_strides(l)[k] < 0 ? &low : &high) += (fr_layout_dims(l)[k] - 1) * fr_layout_strides(l)[k];
    return l->n_elems == 0 || (low >= 0 && high < n);
}

fr_status
fr_tensor_node(const struct fr_tensor *t, fr_ref *out, struct fr_err *err)
{
    fr_ref id;

    if (t->whole) {
        *out = t->storage->node;
        return FR_OK;
    }
    FR_ASSERT(is_within_storage(t));
    if (FR_UNLIKELY(fr_component_is(t)))
        return fr_component_node(t, out, err);
    if (!(id = fr_node_new(FR_OP_view, t->dtype, fr_trace_site)))
        return fr_no_memory(err, "a node");
    fr_nodes[id].layout = fr_layout_ref(t->layout);
    fr_nodes[id].u.offset = t->offset;
    fr_nodes[id].n_args = 1;
    fr_node_set_arg(id, 0, t->storage->node);
    *out = id;
    return FR_OK;
}

void
fr_tensor_copy(const struct fr_tensor *t, struct fr_tensor *out)
{
    *out = *t;
    fr_storage_ref(out->storage);
    fr_layout_ref(out->layout);
}

fr_status
fr_tensor_set_apart(struct fr_tensor *t, struct fr_err *err)
{
    struct fr_storage *own = fr_storage_new(t->storage->node);

    if (!own)
        return fr_no_memory(err, "a tensor handle");
    fr_storage_unref(t->storage);
    t->storage = own;
    return FR_OK;
}

fr_status
fr_tensor_window(const struct fr_tensor *t, int ndim, const int64_t *dims, const int64_t *strides,
                 int64_t offset, struct fr_tensor *out, struct fr_err *err)
{
    struct fr_layout *l = fr_layout_get(ndim, dims, strides);

    if (!l)
        return fr_no_memory(err, "a layout");
    *out = (struct fr_tensor){.storage = fr_storage_ref(t->storage), .layout = l,
                              .offset = t->offset + offset, .dtype = t->dtype,
                              .whole = t->offset + offset == 0 && l == t->storage->layout &&
                                       t->dtype == t->storage->dtype,
                              .readonly = t->readonly};
    return FR_OK;
}

fr_status
fr_tensor_reshape(const struct fr_tensor *t, int ndim, const int64_t *dims, struct fr_tensor *out,
                  struct fr_err *err)
{
    int64_t          strides[FR_MAX_DIMS], n;
    char             to[200];
    struct fr_tensor copy;
    fr_status        st;

    if ((st = fr_dims_count(ndim, dims, 1, &n, err)) != FR_OK)
        return st;
    if (n != t->layout->n_elems)
        return fr_fail(err, FR_EVALUE, "cannot reshape array of size %lld into shape %s",
                       (long long)t->layout->n_elems, fr_dims_print(ndim, dims, to, sizeof to));
    if (n == 0) { /* in whatever way it lies; NumPy's strides count an axis of 0 as one of 1 */
        bool same = ndim == t->layout->ndim && !memcmp(dims, fr_layout_dims(t->layout), (size_t)ndim * sizeof *dims);

        fr_strides_c_order(ndim, dims, strides);
        return fr_tensor_window(t, ndim, dims, same ? fr_layout_strides(t->layout) : strides, 0, out, err);
    }
    if (fr_layout_reshape(t->layout, ndim, dims, strides))
        return fr_tensor_window(t, ndim, dims, strides, 0, out, err);
    if ((st = fr_trace_cast(t, t->dtype, 'C', &copy, err)) != FR_OK)
        return st;
    st = fr_tensor_window(&copy, ndim, dims, NULL, 0, out, err);
    fr_tensor_clear(&copy);
    return st;
}

fr_status
fr_tensor_broadcast(const struct fr_tensor *t, int ndim, const int64_t *dims, struct fr_tensor *out,
                    struct fr_err *err)
{
    const int64_t *d = fr_layout_dims(t->layout), *s = fr_layout_strides(t->layout);
    int            nd = t->layout->ndim;
    int64_t        strides[FR_MAX_DIMS], n;
    char           from[200], to[200];
    fr_status      st;

    if ((st = fr_dims_count(ndim, dims, 1, &n, err)) != FR_OK)
        return st;
    for (int k = 1; k <= ndim; k++) {
        bool has = k <= nd;

        if (has && d[nd - k] != 1 && d[nd - k] != dims[ndim - k])
            break;
        strides[ndim - k] = has && d[nd - k] != 1 ? s[nd - k] : 0;
        if (k == ndim && nd <= ndim) {
            if ((st = fr_tensor_window(t, ndim, dims, strides, 0, out, err)) == FR_OK && n != 0)
                out->readonly = out->readonly || out->layout != t->layout;
            return st;
        }
    }
    if (ndim == 0 && nd == 0)
        return fr_tensor_window(t, 0, dims, strides, 0, out, err);
    return fr_fail(err, FR_EVALUE,
                   "operands could not be broadcast together with remapped shapes "
                   "[original->remapped]: %s and requested shape %s",
                   fr_dims_print(nd, d, from, sizeof from), fr_dims_print(ndim, dims, to, sizeof to));
}

/* ---- memory ------------------------------------------------------------------------------- */

bool
fr_tensor_is_alone(const struct fr_tensor *t)
{
    return t->whole && fr_tensor_has_storage_alone(t);
}

bool
fr_tensor_has_storage_alone(const struct fr_tensor *t)
{
    return !t->readonly && t->storage->refs == 1 && !t->storage->pinned;
}

bool
fr_tensor_owns(const struct fr_tensor *t, const void *object)
{
    const struct fr_storage *s = t->storage;

    return (!s->object || s->object == object) && t->dtype == s->dtype && t->layout->n_elems == s->layout->n_elems;
}

bool
fr_tensor_is_pending(const struct fr_tensor *t)
{
    return fr_node_computes(&fr_nodes[t->storage->node]);
}

fr_dtype
fr_tensor_whole_numbers(const struct fr_tensor *t)
{
    const struct fr_node *n = &fr_nodes[t->storage->node];

    if (fr_dtype_is_int(t->dtype) || n->op != FR_OP_cast || n->dtype != t->dtype ||
        (t->dtype != FR_F32 && t->dtype != FR_F64))
        return t->dtype;
    return fr_nodes[n->arg[0]].dtype;
}

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
fr_tensor_eval_again(const struct fr_tensor *const *t, int n, struct fr_err *err)
{
    return eval_by(fr_eval_again, t, n, err);
}

fr_status
fr_tensor_data(const struct fr_tensor *t, void **data, struct fr_err *err)
{
    fr_status st;

    fr_looks_taken++;
    /* While kernels ran, or this thread waited for memory to be brought, another one may have stored into it. */
    do {
        st = fr_eval_nodes(&t->storage->node, 1, err);
        if (st == FR_OK && !fr_tensor_is_pending(t))
            st = fr_buffer_bring(fr_nodes[t->storage->node].v.buffer, err);
    } while (st == FR_OK && (fr_tensor_is_pending(t) || fr_nodes[t->storage->node].v.buffer->home));
    if (st == FR_OK)
        *data = (char *)fr_nodes[t->storage->node].v.buffer->mem +
                t->offset * fr_dtype_size(t->dtype);
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

/* Gives the storage, whose version is computed, memory that nobody else reads. */
static fr_status
move_to_copy(struct fr_storage *s, struct fr_err *err)
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
        if ((st = move_to_copy(s, err)) != FR_OK)
            return st;
    }
}

enum { LOOK_WRITES = 1 };    /* the lowest bit of a look; the others are its era */

fr_status
fr_tensor_export(const struct fr_tensor *t, bool writes, void **data, uint32_t *look,
                 struct fr_err *err)
{
    struct fr_storage *s = t->storage;
    bool               was = fr_storage_is_watched(s);
    fr_status          st = FR_OK;

    /* A leaf that nothing but the storage refers to is ready. */
    if (!loud_looks(s)[1] &&
        (fr_node_computes(&fr_nodes[s->node]) || fr_nodes[s->node].refs > 1))
        TRY(ready_to_be_looked_at(s, err));
    TRY(fr_tensor_data(t, data, err));
    if (!s->seen)
        s->seen = fr_buffer_ref(fr_nodes[s->node].v.buffer);
    fr_index_forget(s->node);
    s->looks[writes]++;
    s->fresh[writes]++;
    *look = s->era << 1 | writes;
    update_looks(s, was);
out:
    return st;
}

void
fr_storage_unlook(struct fr_storage *s, uint32_t look)
{
    bool was = fr_storage_is_watched(s), writes = look & LOOK_WRITES;

    FR_ASSERT(s->looks[writes] > 0);
    s->looks[writes]--;
    if (look >> 1 == (s->era & UINT32_MAX >> 1)) {
        FR_ASSERT(s->fresh[writes] > 0);
        s->fresh[writes]--;
    }
    update_looks(s, was);
}

void
fr_storage_lend(struct fr_storage *s)
{
    bool was = fr_storage_is_watched(s);

    if (s->n_loans++ == 0) {
        s->era++;
        memset(s->fresh, 0, sizeof s->fresh);
    }
    update_looks(s, was);
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
    bool      was;

    while (compute && (st = fr_eval_readers(s, err)) == FR_OK &&
           fr_node_computes(&fr_nodes[s->node]))
        ;
    if (!compute || st != FR_OK)
        abandon(s);
    was = fr_storage_is_watched(s);
    FR_ASSERT(s->n_loans > 0);
    s->n_loans--;
    update_looks(s, was);
    return st;
}

bool
fr_storage_is_idle(const struct fr_storage *s)
{
    const struct fr_node *n = &fr_nodes[s->node];

    return s->shared && s->refs == 1 && s->n_loans == 1 && !s->dirty && s->looks[0] == 0 && s->looks[1] == 1 &&
           s->fresh[0] + s->fresh[1] == 0 && n->op == FR_OP_leaf && n->refs == 1 && n->v.buffer == s->seen &&
           s->seen->refs == 2; /* the node and the look */
}

void
fr_storage_exchange(struct fr_storage *s, void *memory)
{
    FR_ASSERT(s->seen && !s->seen->home && fr_nodes[s->node].op == FR_OP_leaf && fr_nodes[s->node].v.buffer == s->seen);
    s->seen->mem = memory;
    fr_guard_fresh(s->seen->n_bytes);
}

/* Memory of others, and whom to tell when nothing reads it any more. */
struct foreign {
    struct fr_buffer b; /* first */
    void (*release)(void *);
    void           *owner;
    struct foreign *next; /* of those that wait for it */
};

/* Only notes that the memory can go: letting it go runs foreign code, and whoever drops the last
 * reference may be in the middle of a traversal. */
static void
release_foreign(struct fr_buffer *b)
{
    struct foreign *f = (struct foreign *)b;

    if (f->release) {
        f->next = to_release;
        to_release = f;
    } else { /* making the handle failed: the caller still owns the memory */
        fr_free(f);
    }
}

FR_COLD void
fr_release_foreign(void)
{
    while (to_release) {
        struct foreign *f = to_release;
        void           *owner = f->owner;
        void (*release)(void *) = f->release;

        to_release = f->next;
        fr_free(f);
        release(owner);
    }
}

fr_status
fr_tensor_from_buffer(struct fr_buffer *buffer, fr_dtype dtype, struct fr_layout *storage_layout,
                      struct fr_tensor *out, struct fr_err *err)
{
    fr_ref id = fr_node_new(FR_OP_leaf, dtype, fr_trace_site);

    if (!id) {
        fr_buffer_unref(buffer);
        return fr_no_memory(err, "a node");
    }
    fr_nodes[id].layout = fr_layout_ref(storage_layout);
    fr_nodes[id].v.buffer = buffer;
    fr_guard_fresh(buffer->n_bytes);
    return fr_tensor_wrap(id, out, err);
}

/* Adds `steps` strides to *end, elements; true where that is no place in memory. */
static bool
reaches_too_far(int64_t stride, int64_t steps, int64_t size, int64_t *end)
{
    int64_t way, bytes;

    return __builtin_mul_overflow(stride, steps, &way) || __builtin_add_overflow(*end, way, end) ||
           __builtin_mul_overflow(*end, size, &bytes) || bytes > INT64_MAX / 4 || bytes < -(INT64_MAX / 4);
}

fr_status
fr_tensor_from_memory(void *data, fr_dtype dtype, int ndim, const int64_t *dims,
                      const int64_t *byte_strides, bool readonly, void (*release)(void *),
                      void *owner, struct fr_tensor *out, struct fr_err *err)
{
    int64_t           strides[FR_MAX_DIMS], low = 0, high = 0, size = fr_dtype_size(dtype), n;
    struct fr_layout *window = NULL, *home = NULL;
    struct foreign   *f = NULL;
    struct fr_tensor  base = {0};
    fr_status         st;

    TRY(fr_dims_count(ndim, dims, (int)size, &n, err));
    for (int k = 0; k < ndim; k++) {
        if (byte_strides[k] % size) {
            st = fr_fail(err, FR_EVALUE, "stride %lld is not a multiple of the item size %lld",
                         (long long)byte_strides[k], (long long)size);
            goto out;
        }
        strides[k] = byte_strides[k] / size;
        if (n && reaches_too_far(strides[k], dims[k] - 1, size, strides[k] < 0 ? &low : &high)) {
            st = fr_fail(err, FR_ERANGE, "the elements of shared memory lie further apart than addresses reach");
            goto out;
        }
    }
    n = n ? high - low + 1 : 0;
    window = fr_layout_get(ndim, dims, strides);
    /* An empty window may have any strides. A result takes those of whole storages, and NumPy's are 0 then. */
    home = window && window->dense && low == 0 && n ? fr_layout_ref(window) : fr_layout_get(1, &n, NULL);
    f = fr_malloc(sizeof *f);
    if (!window || !home || !f) {
        st = fr_no_memory(err, "shared memory");
        goto out;
    }
    *f = (struct foreign){.b = {.mem = (char *)data + low * size, .n_bytes = (size_t)(n * size),
                                .refs = 1, .release = release_foreign, .owner = f}};
    st = fr_tensor_from_buffer(&f->b, dtype, home, &base, err); /* the node's now, also on failure */
    if (st != FR_OK) {
        f = NULL;
        goto out;
    }
    base.readonly = readonly;
    if (home == window) {
        *out = base;
    } else {
        st = fr_tensor_window(&base, ndim, dims, strides, -low, out, err);
        if (st != FR_OK) {
            f = NULL;
            fr_tensor_clear(&base);
            goto out;
        }
        fr_tensor_clear(&base);
    }
    out->storage->shared = true;
    f->release = release;
    f->owner = owner;
    f = NULL;
out:
    fr_layout_unref(window);
    fr_layout_unref(home);
    fr_free(f);
    return st;
}

fr_status
fr_tensor_from_copy(const void *data, fr_dtype dtype, int ndim, const int64_t *dims,
                    const int64_t *byte_strides, struct fr_tensor *out, struct fr_err *err)
{
    int64_t           k_order[FR_MAX_DIMS], bytes[FR_MAX_DIMS], n;
    int               size = fr_dtype_size(dtype);
    struct fr_layout *l;
    struct fr_buffer *b;
    fr_status         st;

    if ((st = fr_dims_count(ndim, dims, size, &n, err)) != FR_OK)
        return st;
    fr_strides_copy_order(ndim, dims, byte_strides, k_order);
    if (!(l = fr_layout_get(ndim, dims, k_order)))
        return fr_no_memory(err, "a layout");
    if (!(b = fr_buffer_new_host((size_t)(n * size), err))) {
        fr_layout_unref(l);
        return FR_ENOMEM;
    }
    for (int k = 0; k < ndim; k++)
        bytes[k] = k_order[k] * size;
    if (n)
        fr_host_copy(size, ndim, dims, b->mem, bytes, data, byte_strides);
    st = fr_tensor_from_buffer(b, dtype, l, out, err);
    fr_layout_unref(l);
    return st;
}
