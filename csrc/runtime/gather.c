/* Gathering: the pending nodes behind the roots, in order of birth, and their structure as words. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/plan.h"
#include "runtime/storage.h"

static uint32_t epoch;

static fr_status
no_memory(struct fr_err *err)
{
    return fr_no_memory(err, "gathering the graph");
}

static int
by_birth(const void *a, const void *b)
{
    uint32_t x = fr_nodes[*(const fr_ref *)a].seq, y = fr_nodes[*(const fr_ref *)b].seq;

    return x == y ? 0 : fr_seq_before(x, y) ? -1 : 1;
}

static void
sort_by_birth(fr_ref *id, int n)
{
    int64_t left = 16 * (int64_t)n + 64; /* moves, after which they are taken to be in no order at all */

    /* Visited from the roots down they come youngest first, more or less. */
    for (int i = 0, j = n - 1; i < j; i++, j--) {
        fr_ref x = id[i];

        id[i] = id[j];
        id[j] = x;
    }
    for (int i = 1; i < n; i++) {
        fr_ref   x = id[i];
        uint32_t seq = fr_nodes[x].seq;
        int      j = i;

        for (; j > 0 && fr_seq_before(seq, fr_nodes[id[j - 1]].seq); j--)
            id[j] = id[j - 1];
        id[j] = x;
        if (FR_UNLIKELY((left -= i - j) < 0)) {
            qsort(id, (size_t)n, sizeof *id, by_birth);
            return;
        }
    }
}

/* Visits what `root` depends on. Leaves and computing nodes go to z->id, views to z->views, for which there is
 * room; `index` counts the references from inside. */
static void
visit(struct fr_gathered *z, fr_ref root)
{
    size_t top = 0;

    if (fr_nodes[root].mark == epoch)
        return;
    fr_nodes[root].mark = epoch;
    fr_nodes[root].index = 0;
    z->stack[top++] = root;
    while (top > 0) {
        fr_ref          id = z->stack[--top];
        struct fr_node *n = &fr_nodes[id];

        if (FR_LIKELY(n->op != FR_OP_view)) {
            z->id[z->n++] = id;
            z->has_store |= n->op == FR_OP_store;
        } else {
            z->views[z->n_views++] = id;
        }
        for (int k = 0; k < n->n_args; k++) {
            struct fr_node *a = &fr_nodes[n->arg[k]];

            if (a->mark != epoch) {
                a->mark = epoch;
                a->index = 0;
                if (a->op == FR_OP_leaf)        /* has no arguments to be visited */
                    z->id[z->n++] = n->arg[k];
                else if (a->op != FR_OP_scalar)
                    z->stack[top++] = n->arg[k];
            }
            a->index++;
        }
    }
}

static bool
from_pool(const struct fr_buffer *b)
{
    return b->owner == NULL && atomic_load_explicit(&b->refs, memory_order_relaxed) == 1;
}

/* Stores must land in this very memory. */
static bool
is_pinned(const struct fr_buffer *b)
{
    return b->owner != NULL || b->pinned;
}

/* The dtype of a number that stands in the node itself. */
static fr_dtype
embedded_dtype(const struct fr_node *n, int k)
{
    uint8_t rule = fr_op_info[n->op].rule;

    if (n->op == FR_OP_cast)
        return n->dtype;
    if (fr_op_arg(n->op, k, FR_F32) == fr_op_arg(n->op, k, FR_F64))
        return fr_op_arg(n->op, k, FR_F32);     /* the same whatever it computes in */
    for (int j = rule == FR_RULE_SELECT; j < n->n_args; j++)
        if (j != k && n->arg[j] != FR_SCALAR_HERE && !(rule == FR_RULE_LDEXP && j == 1))
            return fr_nodes[n->arg[j]].dtype;
    return n->dtype;
}

enum { ARG_NODE, ARG_WINDOW, ARG_MOVING, ARG_SCALAR,
       NODE_WORDS = 2 + 3 * 3 };    /* of the key, at most; room for them is made beforehand */

/* The following write words at `w` and return where to go on; NULL: no memory. */

static uint64_t *
push_scalar(struct fr_gathered *z, uint64_t *w, fr_dtype dtype, uint64_t lo, uint64_t hi)
{
    if (!FR_GROW(z->scalar, z->cap_scalar, (size_t)z->n_scalars + 1))
        return NULL;
    z->scalar[z->n_scalars++] = (struct fr_scalar_bits){{lo, hi}};
    *w = ARG_SCALAR | (uint64_t)dtype << 8;
    return w + 1;
}

/* The slot of this window's offset. Equal windows of one step share a slot, so that they are one operand;
 * looking a little way back finds nearly all of them. */
static uint64_t *
push_moving(struct fr_gathered *z, uint64_t *w, uint32_t base, const struct fr_node *view)
{
    enum { LOOK_BACK = 24 };
    int64_t offset = view->u.offset * fr_dtype_size(view->dtype);
    int     n = z->n_moving, last = n > LOOK_BACK ? n - LOOK_BACK : 0;

    for (int i = n; i-- > last;)
        if (z->moving[i].bytes == offset && z->moving[i].base == base &&
            z->moving[i].layout == view->layout) {
            *w = (uint64_t)i;
            return w + 1;
        }
    if (!FR_GROW(z->moving, z->cap_moving, (size_t)n + 1))
        return NULL;
    z->moving[z->n_moving++] = (struct fr_moving){offset, base, view->layout};
    *w = (uint64_t)n;
    return w + 1;
}

static uint64_t *
push_window(struct fr_gathered *z, uint64_t *w, const struct fr_node *view)
{
    const struct fr_node *base = &fr_nodes[view->arg[0]];
    bool                  moves = base->op == FR_OP_leaf && !z->has_store;

    *w++ = (moves ? ARG_MOVING : ARG_WINDOW) | (uint64_t)base->index << 8;
    *w++ = (uint64_t)(uintptr_t)view->layout;
    if (moves)
        return push_moving(z, w, base->index, view);
    *w++ = (uint64_t)view->u.offset;
    return w;
}

static inline uint64_t *
push_arg(struct fr_gathered *z, uint64_t *w, const struct fr_node *n, int k)
{
    const struct fr_node *a = &fr_nodes[n->arg[k]];

    if (FR_UNLIKELY(a->op == FR_OP_scalar))
        return n->arg[k] == FR_SCALAR_HERE
                   ? push_scalar(z, w, embedded_dtype(n, k), n->u.bits, 0)
                   : push_scalar(z, w, a->dtype, a->u.bits, a->v.bits_hi);
    if (FR_UNLIKELY(a->op == FR_OP_view))
        return push_window(z, w, a);
    *w = ARG_NODE | (uint64_t)a->index << 8;
    return w + 1;
}

static inline bool
has_axes(const struct fr_node *n)
{
    uint8_t class_ = fr_op_info[n->op].class_;

    return class_ == FR_CLASS_REDUCE || class_ == FR_CLASS_SCAN || class_ == FR_CLASS_CALL ||
           n->op == FR_OP_iota;
}

/* Writes node i to the key. `index` of earlier nodes is their place in z->id; of this one and later ones, the
 * number of references from inside. */
static inline uint64_t *
push_node(struct fr_gathered *z, uint64_t *w, uint32_t i)
{
    struct fr_node *n = &fr_nodes[z->id[i]];
    uint64_t        flags = 0;
    bool            wanted = n->refs > n->index;

    n->index = i;
    if (n->op == FR_OP_leaf) {
        if (is_pinned(n->v.buffer))
            flags |= FR_KEY_PINNED;
        else if (!wanted && from_pool(n->v.buffer))
            flags |= FR_KEY_DYING;
        if (wanted)
            flags |= FR_KEY_OUTSIDE;
    } else if (wanted) {
        flags |= FR_KEY_OUTPUT;
    }
    if (z->has_store) {
        z->wanted[i] = wanted;
        if (n->op == FR_OP_store) {
            const struct fr_node *prev = &fr_nodes[n->arg[0]];

            /* The new content must land in memory that somebody outside still wants to read as it was. */
            if (prev->op == FR_OP_leaf && is_pinned(prev->v.buffer) && z->wanted[prev->index]) {
                if (!FR_GROW(z->unsettled, z->cap_unsettled, (size_t)z->n_unsettled + 1))
                    return NULL;
                z->unsettled[z->n_unsettled++] = n->arg[0];
            }
        }
    }
    *w++ = n->op | (uint64_t)n->dtype << 16 | (uint64_t)n->n_args << 24 | flags << 26 |
           (uint64_t)(has_axes(n) ? n->u.axes : 0) << 32;
    *w++ = (uint64_t)(uintptr_t)n->layout;
    for (int k = 0; w && k < n->n_args; k++)
        w = push_arg(z, w, n, k);
    return w;
}

/* Everything behind the roots, in order of birth. */
static fr_status
visit_all(struct fr_gathered *z, const fr_ref *roots, int n_roots, struct fr_err *err)
{
    /* A pending node has three arguments at most, and a view one. */
    size_t room = 8 * ((size_t)fr_nodes_pending + (size_t)n_roots);

    z->n = 0;
    z->n_views = 0;
    z->has_store = false;
    if (!FR_GROW(z->id, z->cap_id, room) || !FR_GROW(z->stack, z->cap_stack, room) ||
        !FR_GROW(z->views, z->cap_views, room))
        return no_memory(err);
    if (FR_UNLIKELY(++epoch == 0)) { /* after 2^32 traversals: no old mark may pass for a new one */
        for (uint32_t id = 0; id < fr_nodes_cap; id++)
            fr_nodes[id].mark = 0;
        epoch = 1;
    }
    for (int i = 0; i < n_roots; i++)
        visit(z, roots[i]);
    sort_by_birth(z->id, z->n);
    return FR_OK;
}

/* Whether the node is marked by its index, or reads one that is. */
static bool
is_reader(const struct fr_node *n)
{
    bool reads = n->index != 0;

    for (int k = 0; k < n->n_args && !reads; k++) {
        const struct fr_node *a = n->arg[k] == FR_SCALAR_HERE ? NULL : &fr_nodes[n->arg[k]];

        if (a && a->op == FR_OP_view)
            a = &fr_nodes[a->arg[0]];
        reads = a && a->op != FR_OP_scalar && a->index != 0;
    }
    return reads;
}

fr_status
fr_gather_readers(struct fr_gathered *z, const fr_ref *what, int n_what, fr_ref *roots, int *n_roots,
                  struct fr_err *err)
{
    int       n = 0;
    fr_status st = visit_all(z, roots, *n_roots, err);

    if (st != FR_OK)
        return st;
    for (int i = 0; i < z->n; i++)
        fr_nodes[z->id[i]].index = 0;
    for (int i = 0; i < n_what; i++)
        fr_nodes[what[i]].index = 1;
    for (int i = 0; i < z->n; i++)
        fr_nodes[z->id[i]].index = is_reader(&fr_nodes[z->id[i]]);
    for (int i = 0; i < *n_roots; i++)
        if (fr_nodes[roots[i]].index)
            roots[n++] = roots[i];
    *n_roots = n;
    return FR_OK;
}

fr_status
fr_gather(struct fr_gathered *z, const fr_ref *roots, int n_roots, struct fr_err *err)
{
    uint64_t *w;
    fr_status st = visit_all(z, roots, n_roots, err);

    if (st != FR_OK)
        return st;
    z->n_scalars = z->n_moving = z->n_unsettled = 0;
    if ((z->has_store && !FR_GROW(z->wanted, z->cap_wanted, (size_t)z->n)) ||
        !FR_GROW(z->key, z->cap_key, (size_t)z->n * NODE_WORDS))
        return no_memory(err);
    /* A view that somebody outside reads keeps its base wanted: as if the base itself were read. */
    for (size_t i = 0; i < z->n_views; i++) {
        const struct fr_node *view = &fr_nodes[z->views[i]];

        if (view->refs > view->index)
            fr_nodes[view->arg[0]].index--;
    }
    w = z->key;
    for (uint32_t i = 0; i < (uint32_t)z->n; i++)
        if (!(w = push_node(z, w, i)))
            return no_memory(err);
    z->n_key = (size_t)(w - z->key);
    return FR_OK;
}

/* ---- the graph ---------------------------------------------------------------------------- */

static void
fill_edge(struct fr_graph *g, struct fr_edge *e, const uint64_t **key)
{
    uint64_t w = *(*key)++;

    *e = (struct fr_edge){.src = (int32_t)(w >> 8), .moving = -1};
    switch (w & 0xff) {
    case ARG_SCALAR:
        e->src = FR_SRC_SCALAR;
        e->scalar = g->n_scalars;
        g->scalar_dtype[g->n_scalars++] = (fr_dtype)(w >> 8);
        return;
    case ARG_NODE:
        e->layout = fr_layout_ref(g->node[e->src].layout);
        e->whole = true;
        return;
    case ARG_MOVING:
        e->layout = fr_layout_ref((struct fr_layout *)(uintptr_t)*(*key)++);
        e->moving = (int32_t)*(*key)++;
        if (e->moving >= g->n_moving)
            g->n_moving = e->moving + 1;
        return;
    default:
        e->layout = fr_layout_ref((struct fr_layout *)(uintptr_t)*(*key)++);
        e->offset = (int64_t)*(*key)++;
    }
}

fr_status
fr_gather_graph(const struct fr_gathered *z, struct fr_graph **out, bool **read_outside,
                struct fr_err *err)
{
    const uint64_t  *key = z->key;
    struct fr_graph *g = fr_calloc(1, sizeof *g);

    if (!g)
        return no_memory(err);
    g->node = fr_arena_alloc(&g->arena, ((size_t)z->n + 1) * sizeof *g->node);
    g->scalar_dtype = fr_arena_alloc(&g->arena, (size_t)z->n_scalars + 1);
    *read_outside = fr_arena_alloc(&g->arena, (size_t)z->n + 1);
    if (!g->node || !g->scalar_dtype || !*read_outside) {
        fr_graph_free(g);
        return no_memory(err);
    }
    for (int i = 0; i < z->n; i++) {
        struct fr_gnode *n = &g->node[i];
        uint64_t         w = *key++, flags = w >> 26 & 15;

        n->op = (fr_op)(w & 0xffff);
        n->dtype = (fr_dtype)(w >> 16 & 0xff);
        n->n_args = w >> 24 & 3;
        n->output = flags & FR_KEY_OUTPUT;
        n->dying = flags & FR_KEY_DYING;
        n->pinned = flags & FR_KEY_PINNED;
        (*read_outside)[i] = flags & FR_KEY_OUTSIDE;
        n->axes = (uint32_t)(w >> 32);
        n->site = fr_nodes[z->id[i]].site;
        n->layout = fr_layout_ref((struct fr_layout *)(uintptr_t)*key++);
        g->n_nodes = i + 1;
        for (int k = 0; k < n->n_args; k++)
            fill_edge(g, &n->arg[k], &key);
        /* The window of a store is described by its third argument and read by nobody. */
        if (n->op == FR_OP_store)
            n->n_args = 2;
    }
    *out = g;
    return FR_OK;
}
