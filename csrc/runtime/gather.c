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
    if (n > 64) {
        qsort(id, (size_t)n, sizeof *id, by_birth);
        return;
    }
    for (int i = 1; i < n; i++) {
        fr_ref   x = id[i];
        uint32_t seq = fr_nodes[x].seq;
        int      j = i;

        for (; j > 0 && fr_seq_before(seq, fr_nodes[id[j - 1]].seq); j--)
            id[j] = id[j - 1];
        id[j] = x;
    }
}

/* Visits what `id` depends on. Leaves and computing nodes go to z->id, views to z->views. */
static fr_status
visit(struct fr_gathered *z, fr_ref root, struct fr_err *err)
{
    size_t top = 0;

    if (fr_nodes[root].mark == epoch)
        return FR_OK;
    if (!FR_GROW(z->stack, z->cap_stack, 1))
        return no_memory(err);
    fr_nodes[root].mark = epoch;
    z->stack[top++] = root;
    while (top > 0) {
        fr_ref          id = z->stack[--top];
        struct fr_node *n = &fr_nodes[id];

        if (n->op == FR_OP_view) {
            if (!FR_GROW(z->views, z->cap_views, z->n_views + 1))
                return no_memory(err);
            z->views[z->n_views++] = id;
        } else if (n->op != FR_OP_scalar) {
            if (!FR_GROW(z->id, z->cap_id, (size_t)z->n + 1))
                return no_memory(err);
            z->id[z->n++] = id;
            z->has_store |= n->op == FR_OP_store;
        }
        if (!FR_GROW(z->stack, z->cap_stack, top + 3))
            return no_memory(err);
        for (int k = 0; k < n->n_args; k++) {
            fr_ref a = n->arg[k];

            if (a != FR_SCALAR_HERE && fr_nodes[a].mark != epoch) {
                fr_nodes[a].mark = epoch;
                z->stack[top++] = a;
            }
        }
    }
    return FR_OK;
}

static void
count_inside(const struct fr_gathered *z, uint32_t *count, fr_ref id)
{
    const struct fr_node *n = &fr_nodes[id];

    for (int k = 0; k < n->n_args; k++)
        if (n->arg[k] != FR_SCALAR_HERE && fr_nodes[n->arg[k]].op != FR_OP_scalar)
            count[fr_nodes[n->arg[k]].index]++;
    (void)z;
}

static bool
from_pool(const struct fr_buffer *b)
{
    return !fr_buffer_pinned(b) && atomic_load_explicit(&b->refs, memory_order_relaxed) == 1;
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

static bool
push(struct fr_gathered *z, uint64_t word)
{
    if (!FR_GROW(z->key, z->cap_key, z->n_key + 1))
        return false;
    z->key[z->n_key++] = word;
    return true;
}

enum { ARG_NODE, ARG_WINDOW, ARG_MOVING, ARG_SCALAR };

static bool
push_scalar(struct fr_gathered *z, fr_dtype dtype, uint64_t lo, uint64_t hi)
{
    if (!FR_GROW(z->scalar, z->cap_scalar, (size_t)z->n_scalars + 1))
        return false;
    z->scalar[z->n_scalars++] = (struct fr_scalar_bits){{lo, hi}};
    return push(z, ARG_SCALAR | (uint64_t)dtype << 8);
}

/* The slot of this window's offset. Equal windows of one step share a slot, so that they are one operand;
 * looking a little way back finds nearly all of them. */
static bool
push_moving(struct fr_gathered *z, uint32_t base, const struct fr_node *view)
{
    enum { LOOK_BACK = 24 };
    int64_t offset = view->u.offset * fr_dtype_size(view->dtype);
    int     n = z->n_moving, last = n > LOOK_BACK ? n - LOOK_BACK : 0;

    for (int i = n; i-- > last;)
        if (z->moving[i].bytes == offset && z->moving[i].base == base &&
            z->moving[i].layout == view->layout)
            return push(z, (uint64_t)i);
    if (!FR_GROW(z->moving, z->cap_moving, (size_t)n + 1))
        return false;
    z->moving[z->n_moving++] = (struct fr_moving){offset, base, view->layout};
    return push(z, (uint64_t)n);
}

static bool
push_arg(struct fr_gathered *z, const struct fr_node *n, int k)
{
    const struct fr_node *a;

    if (n->arg[k] == FR_SCALAR_HERE)
        return push_scalar(z, embedded_dtype(n, k), n->u.bits, 0);
    a = &fr_nodes[n->arg[k]];
    if (a->op == FR_OP_scalar)
        return push_scalar(z, a->dtype, a->u.bits, a->v.bits_hi);
    if (a->op == FR_OP_view) {
        const struct fr_node *base = &fr_nodes[a->arg[0]];
        bool                  moves = base->op == FR_OP_leaf && !z->has_store;

        return push(z, (moves ? ARG_MOVING : ARG_WINDOW) | (uint64_t)base->index << 8) &&
               push(z, (uint64_t)(uintptr_t)a->layout) &&
               (moves ? push_moving(z, base->index, a) : push(z, (uint64_t)a->u.offset));
    }
    return push(z, ARG_NODE | (uint64_t)a->index << 8);
}

fr_status
fr_gather(struct fr_gathered *z, const fr_ref *roots, int n_roots, struct fr_err *err)
{
    uint32_t *inside, *of_view;
    fr_status st;

    z->n = z->n_scalars = z->n_moving = 0;
    z->n_key = z->n_views = 0;
    z->has_store = z->unsettled = false;
    if (++epoch == 0)
        epoch = 1;
    for (int i = 0; i < n_roots; i++)
        if ((st = visit(z, roots[i], err)) != FR_OK)
            return st;
    sort_by_birth(z->id, z->n);
    if (!FR_GROW(z->internal, z->cap_internal, (size_t)z->n + z->n_views + 1))
        return no_memory(err);
    inside = z->internal;
    of_view = inside + z->n;
    memset(inside, 0, ((size_t)z->n + z->n_views) * sizeof *inside);
    for (int i = 0; i < z->n; i++)
        fr_nodes[z->id[i]].index = (uint32_t)i;
    for (size_t i = 0; i < z->n_views; i++)
        fr_nodes[z->views[i]].index = (uint32_t)((size_t)z->n + i);
    for (int i = 0; i < z->n; i++)
        count_inside(z, inside, z->id[i]);
    for (size_t i = 0; i < z->n_views; i++)
        count_inside(z, inside, z->views[i]);
    /* A view that somebody outside reads keeps its base wanted: as if the base itself were read. */
    for (size_t i = 0; i < z->n_views; i++)
        if (fr_nodes[z->views[i]].refs > of_view[i])
            inside[fr_nodes[fr_nodes[z->views[i]].arg[0]].index]--;
    for (int i = 0; i < z->n; i++) {
        const struct fr_node *n = &fr_nodes[z->id[i]];
        uint64_t              flags = 0;
        bool                  wanted = n->refs > inside[i];

        if (n->op == FR_OP_leaf) {
            if (fr_buffer_pinned(n->v.buffer))
                flags |= FR_KEY_PINNED;
            else if (!wanted && from_pool(n->v.buffer))
                flags |= FR_KEY_DYING;
            if (wanted)
                flags |= FR_KEY_OUTSIDE;
        } else if (wanted) {
            flags |= FR_KEY_OUTPUT;
        }
        if (n->op == FR_OP_store) {
            const struct fr_node *prev = &fr_nodes[n->arg[0]];

            /* The new content must land in memory that somebody outside still wants to read as it was. */
            if (prev->op == FR_OP_leaf && fr_buffer_pinned(prev->v.buffer) &&
                prev->refs > inside[prev->index])
                z->unsettled = true;
        }
        if (!push(z, n->op | (uint64_t)n->dtype << 16 | (uint64_t)n->n_args << 24 | flags << 26 |
                         (uint64_t)(fr_op_info[n->op].class_ == FR_CLASS_REDUCE ||
                                            fr_op_info[n->op].class_ == FR_CLASS_SCAN ||
                                            n->op == FR_OP_iota
                                        ? n->u.axes
                                        : 0)
                             << 32) ||
            !push(z, (uint64_t)(uintptr_t)n->layout))
            return no_memory(err);
        for (int k = 0; k < n->n_args; k++)
            if (!push_arg(z, n, k))
                return no_memory(err);
    }
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
