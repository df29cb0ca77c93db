/* Storages: their versions, who looks at their memory, and memory that others own; handles as windows over them. Nothing is
 * traced or computed here. See storage.h. */
#include "runtime/storage.h"

#include <string.h>

#include "base/alloc.h"

struct fr_hooks fr_hooks;
uint32_t        fr_trace_site;

struct fr_storage *fr_storages_free;
uint64_t           fr_looks_taken;

static struct fr_storage *dirty_list;
static struct foreign    *to_release;    /* foreign memory that nothing reads any more */

/* ---- what NumPy would have: arrays without data that handles show, each as long as they do ----
 *
 * Meanwhile every storage is made by storage_new (fr_guard_all), and those that are free again are looked at when the next one is
 * made: until then there are no more bytes than there were. */

static bool     counts;
static uint32_t n_counts;                   /* so far: a storage belongs to one of them */
static int64_t  live_bytes, peak_bytes;

/* Ends storages that are free. */
static FR_COLD void
uncount(void)
{
    struct fr_storage *s;

    while ((s = fr_storages_free)) {
        fr_storages_free = s->next_dirty;
        if (s->counted == n_counts)
            live_bytes -= s->n_bytes;
        fr_free(s);
    }
}

FR_COLD void
fr_storage_count(struct fr_storage *s)
{
    if (!counts || fr_nodes[s->node].device != FR_DEVICE_META || s->counted == n_counts)
        return;
    s->counted = n_counts;
    s->n_bytes = s->layout->n_elems * fr_dtype_size(s->dtype);
    live_bytes += s->n_bytes;
    peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
}

void
fr_storages_count(void)
{
    uncount();
    fr_guard_all(counts = true);
    n_counts++;
    live_bytes = peak_bytes = 0;
}

int64_t
fr_storages_counted(void)
{
    fr_guard_all(counts = false);
    return peak_bytes;
}

/* A new storage with `node` as its version; takes a reference on it. NULL: no memory. */
static struct fr_storage *
storage_new(fr_ref node)
{
    struct fr_storage *s;
    struct fr_node    *n = &fr_nodes[node];

    if (FR_UNLIKELY(counts))
        uncount();
    s = fr_storages_free;
    FR_ASSERT(n->layout->dense || n->layout->n_elems == 0); /* a version is all of its memory */
    if (s)
        fr_storages_free = s->next_dirty;
    else if (!(s = fr_malloc(sizeof *s)))
        return NULL;
    *s = (struct fr_storage){.refs = 1, .node = node, .layout = n->layout, .dtype = n->dtype};
    n->refs++;
    n->held++;
    if (FR_UNLIKELY(counts))
        fr_storage_count(s);
    return s;
}

static struct fr_storage *
storage_ref(struct fr_storage *s)
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
fr_storage_is_loud(const struct fr_storage *s)
{
    return loud_looks(s)[1] > 0;
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
    b->loud = fr_storage_is_loud(s);
    b->watched = fr_storage_is_watched(s);
    b->pinned = s->looked_at = s->looks[0] + s->looks[1] > 0;
    if (!b->pinned) {
        fr_buffer_come_back(b);
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

static void
storage_unref(struct fr_storage *s)
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
        dirty_list = storage_ref(s);
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
    *out = (struct fr_tensor){.storage = storage_ref(s), .layout = fr_layout_ref(s->layout), .dtype = s->dtype,
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
        if (fr_node_computes(&fr_nodes[s->node]) || fr_nodes[s->node].v.buffer->stale) {
            link = &s->next_dirty;
        } else {
            *link = s->next_dirty;
            s->dirty = false;
            storage_unref(s);
        }
    }
}

int
fr_storages_dirty(fr_ref *nodes, int at_most)
{
    int n = 0;

    for (struct fr_storage *s = dirty_list; s && n < at_most; s = s->next_dirty)
        nodes[n++] = s->node;
    return n;
}

/* ---- looks and loans ----------------------------------------------------------------------- */

enum { LOOK_WRITES = 1 };    /* the lowest bit of a look; the others are its era */

uint32_t
fr_storage_look(struct fr_storage *s, bool writes)
{
    bool was = fr_storage_is_watched(s);

    if (!s->seen)
        s->seen = fr_buffer_ref(fr_nodes[s->node].v.buffer);
    s->looks[writes]++;
    s->fresh[writes]++;
    update_looks(s, was);
    return s->era << 1 | writes;
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

void
fr_storage_end_loan(struct fr_storage *s)
{
    bool was = fr_storage_is_watched(s);

    FR_ASSERT(s->n_loans > 0);
    s->n_loans--;
    update_looks(s, was);
}

bool
fr_storage_is_idle(const struct fr_storage *s)
{
    const struct fr_node *n = &fr_nodes[s->node];

    return s->shared && s->refs == 1 && s->n_loans == 1 && !s->dirty && s->looks[0] == 0 && s->looks[1] == 1 &&
           s->fresh[0] + s->fresh[1] == 0 && n->op == FR_OP_leaf && n->refs == 1 && n->v.buffer == s->seen &&
           s->seen->refs == 2 /* the node and the look */ && !s->seen->home;
}

/* ---- memory of others ---------------------------------------------------------------------- */

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

    fr_buffer_leave(b);
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

struct fr_buffer *
fr_foreign_new(void *mem, size_t n_bytes)
{
    struct foreign *f = fr_malloc(sizeof *f);

    if (!f)
        return NULL;
    *f = (struct foreign){.b = {.mem = mem, .n_bytes = n_bytes, .refs = 1, .release = release_foreign, .owner = f}};
    return &f->b;
}

void
fr_foreign_own(struct fr_buffer *b, void (*release)(void *), void *owner)
{
    struct foreign *f = (struct foreign *)b;

    f->release = release;
    f->owner = owner;
}

/* ---- handles ------------------------------------------------------------------------------- */

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
    struct fr_storage *s = storage_new(node);

    if (!s) {
        fr_node_drop_new(node);
        return fr_no_memory(err, "a tensor handle");
    }
    *out = (struct fr_tensor){.storage = s, .layout = fr_layout_ref(n->layout), .dtype = n->dtype,
                              .whole = true};
    return FR_OK;
}

void
fr_tensor_copy(const struct fr_tensor *t, struct fr_tensor *out)
{
    *out = *t;
    storage_ref(out->storage);
    fr_layout_ref(out->layout);
}

fr_status
fr_tensor_set_apart(struct fr_tensor *t, struct fr_err *err)
{
    struct fr_storage *own = storage_new(t->storage->node);

    if (!own)
        return fr_no_memory(err, "a tensor handle");
    storage_unref(t->storage);
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
    *out = (struct fr_tensor){.storage = storage_ref(t->storage), .layout = l,
                              .offset = t->offset + offset, .dtype = t->dtype,
                              .whole = t->offset + offset == 0 && l == t->storage->layout &&
                                       t->dtype == t->storage->dtype,
                              .readonly = t->readonly};
    return FR_OK;
}
