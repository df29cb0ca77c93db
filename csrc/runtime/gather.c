/* Gathering: the pending nodes behind the roots, and their structure as words.
 *
 * Computing nodes come in order of birth, each leaf before the first that reads it. */
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

/* Visits what `root` depends on, and lists the computing nodes in z->order, for which there is room. */
static void
visit(struct fr_gathered *z, fr_ref root)
{
    size_t top = 0;

    if (fr_nodes[root].mark == epoch)
        return;
    fr_nodes[root].mark = epoch;
    z->stack[top++] = root;
    while (top > 0) {
        fr_ref          id = z->stack[--top];
        struct fr_node *n = &fr_nodes[id];

        if (FR_LIKELY(n->op != FR_OP_view))
            z->order[z->n_order++] = id;
        for (int k = 0; k < n->n_args; k++) {
            struct fr_node *a = &fr_nodes[n->arg[k]];

            if (a->op == FR_OP_leaf || a->op == FR_OP_scalar || a->mark == epoch)
                continue;
            a->mark = epoch;
            z->stack[top++] = n->arg[k];
        }
    }
}

/* A mark that no node has. */
static uint32_t
new_epoch(void)
{
    if (FR_LIKELY(++epoch != 0))
        return epoch;
    for (uint32_t id = 0; id < fr_nodes_cap; id++)  /* after 2^32 of them: no old mark may pass for a new one */
        fr_nodes[id].mark = 0;
    return epoch = 1;
}

/* The computing nodes behind the roots, in order of birth. */
static fr_status
order_behind(struct fr_gathered *z, const fr_ref *roots, int n_roots, struct fr_err *err)
{
    /* A pending node has three arguments at most, which may be views. */
    size_t room = 8 * ((size_t)fr_nodes_pending + (size_t)n_roots);

    z->n_order = 0;
    if (!FR_GROW(z->order, z->cap_order, room) || !FR_GROW(z->stack, z->cap_stack, room))
        return no_memory(err);
    new_epoch();
    for (int i = 0; i < n_roots; i++)
        visit(z, roots[i]);
    sort_by_birth(z->order, z->n_order);
    return FR_OK;
}

/* The pending node that was born with this number; 0: none. */
static fr_ref
born_with(uint32_t seq)
{
    fr_ref                id = fr_born[seq % FR_MAX_BORN];
    const struct fr_node *n = &fr_nodes[id];

    return n->seq == seq && n->op != FR_N_OPS && fr_node_computes(n) ? id : 0;
}

fr_status
fr_tensor_waits_for(const struct fr_tensor *t, int64_t *n_nodes, int64_t *n_bytes, struct fr_err *err)
{
    struct fr_gathered z = {0};
    const fr_ref       root = t->storage->node;
    fr_status          st = fr_node_computes(&fr_nodes[root]) ? order_behind(&z, &root, 1, err) : FR_OK;

    *n_nodes = *n_bytes = 0;
    for (int i = 0; i < z.n_order && st == FR_OK; i++) {
        const struct fr_node *n = &fr_nodes[z.order[i]];

        *n_nodes += 1;
        *n_bytes += n->layout->n_elems * fr_dtype_size(n->dtype);
    }
    fr_free(z.order);
    fr_free(z.stack);
    return st;
}

/* Everything that is pending, in order of birth; false if too much has been born since the oldest of them. */
static bool
order_pending(struct fr_gathered *z)
{
    uint64_t n_born = fr_nodes_made - fr_born_from;
    uint32_t n = 0, from = (uint32_t)fr_born_from, to = (uint32_t)fr_nodes_made;
    fr_ref   id;

    if (n_born > FR_MAX_BORN || n_born > 4 * (uint64_t)fr_nodes_pending + 64 ||
        !FR_GROW(z->order, z->cap_order, n_born))
        return false;
    for (uint32_t seq = from; seq != to; seq++)
        if ((id = born_with(seq)))
            z->order[n++] = id;
    if (n > 0)
        fr_born_from += fr_nodes[z->order[0]].seq - from;
    z->n_order = (int)n;
    return n == fr_nodes_pending;
}

int
fr_gather_held(fr_ref *out)
{
    uint64_t n_born = fr_nodes_made - fr_born_from;
    uint32_t from = (uint32_t)fr_born_from, to = (uint32_t)fr_nodes_made, left = fr_nodes_pending;
    fr_ref   id;
    int      n = 0;

    if (n_born <= FR_MAX_BORN) { /* all that is pending is among them, and the oldest where they begin from then on */
        while (from != to && !born_with(from))
            from++;
        fr_born_from += from - (uint32_t)fr_born_from;
        for (; left > 0 && from != to; from++)
            if ((id = born_with(from))) {
                left--;
                if (fr_nodes[id].held)
                    out[n++] = id;
            }
        FR_ASSERT(left == 0);
        return n;
    }
    for (id = 1; left > 0; id++) {
        FR_ASSERT(id < fr_nodes_cap); /* as many are pending as are counted */
        if (fr_nodes[id].op != FR_N_OPS && fr_node_computes(&fr_nodes[id])) {
            left--;
            if (fr_nodes[id].held)
                out[n++] = id;
        }
    }
    return n;
}

/* Stores must land in this very memory. */
static bool
is_pinned(const struct fr_buffer *b)
{
    return b->owner != NULL || b->pinned;
}

enum { ARG_NODE, ARG_WINDOW, ARG_SCALAR,
       NODE_WORDS = 2 + 3 * (2 + 2) };  /* of the key, at most, with three leaves; room is made beforehand */

/* The following write words at `w` and return where to go on; NULL: no memory. */

static inline uint64_t *
push_scalar(struct fr_gathered *z, uint64_t *w, fr_dtype dtype, uint64_t lo, uint64_t hi)
{
    if (!FR_GROW(z->scalar, z->cap_scalar, (size_t)z->n_scalars + 1))
        return NULL;
    z->scalar[z->n_scalars++] = (struct fr_scalar_bits){{lo, hi}};
    *w = ARG_SCALAR | (uint64_t)dtype << 8;
    return w + 1;
}

/* Where a window begins is no part of the key: moving.c says what a plan makes of it. One that lies as its node does is all
 * of that. */
static uint64_t *
push_window(struct fr_gathered *z, uint64_t *w, struct fr_node *view)
{
    const struct fr_node *base = &fr_nodes[view->arg[0]];

    view->index++;
    *w++ = ARG_WINDOW | (uint64_t)base->index << 8;
    *w++ = (uint64_t)(uintptr_t)view->layout;
    if (view->layout == base->layout)
        return w;
    if (!FR_GROW(z->moving, z->cap_moving, (size_t)z->n_moving + 1))
        return NULL;
    z->moving[z->n_moving++] = view->u.offset;
    return w;
}

/* The word of an argument that has been entered. */
static inline uint64_t
push_node_arg(struct fr_gathered *z, const struct fr_node *a)
{
    z->entry[a->index].n_uses++;
    return ARG_NODE | (uint64_t)a->index << 8;
}

static inline uint64_t *
push_arg(struct fr_gathered *z, uint64_t *w, const struct fr_node *n, int k)
{
    struct fr_node *a = &fr_nodes[n->arg[k]];

    if (FR_UNLIKELY(a->op == FR_OP_scalar))
        return n->arg[k] == FR_SCALAR_HERE
                   ? push_scalar(z, w, n->v.number, n->u.bits, 0)
                   : push_scalar(z, w, a->dtype, a->u.bits, a->v.bits_hi);
    if (FR_UNLIKELY(a->op == FR_OP_view))
        return push_window(z, w, a);
    *w = push_node_arg(z, a);
    return w + 1;
}

/* The head of an entry: what the node is, without its flags. */
static inline uint64_t
head_word(const struct fr_node *n)
{
    uint64_t axes = fr_op_has_axes((fr_op)n->op) ? n->u.axes : 0;

    return n->op | (uint64_t)n->device << 8 | (uint64_t)n->dtype << 16 | (uint64_t)n->n_args << 24 | axes << 32;
}

/* The next place among the gathered nodes. */
static inline void
enter(struct fr_gathered *z, const uint64_t *w, fr_ref id)
{
    struct fr_node *n = &fr_nodes[id];

    n->mark = epoch;
    n->index = (uint32_t)z->n;
    z->id[z->n] = id;
    z->entry[z->n++] = (struct fr_gathered_entry){(uint32_t)(w - z->key), 0};
}

/* Enters the leaf, or the view and its leaf, when it is met for the first time. NULL: it is, or shows, a computing
 * node that was left out. */
static uint64_t *
meet(struct fr_gathered *z, uint64_t *w, fr_ref id)
{
    struct fr_node *n = &fr_nodes[id];

    if (n->op == FR_OP_view) {
        const struct fr_node *base = &fr_nodes[n->arg[0]];

        if (base->mark != epoch && !(w = meet(z, w, n->arg[0])))
            return NULL;
        z->entry[base->index].n_uses++;
        n->mark = epoch;
        n->index = 0;
        z->views[z->n_views++] = id;
        return w;
    }
    if (n->op != FR_OP_leaf) {
        z->left_out = true;
        return NULL;
    }
    enter(z, w, id);
    w[0] = n->op | (uint64_t)n->dtype << 16; /* on whichever device it is: who reads it says where that is computed */
    w[1] = (uint64_t)(uintptr_t)n->layout;
    return w + 2;
}

static inline bool
is_entered(const struct fr_node *n)
{
    return n->mark == epoch && n->op != FR_OP_view;
}

/* Writes a computing node, and before it the leaves that nobody has read before. NULL: it reads a node that
 * was left out, or there is no memory. */
static inline uint64_t *
push_node(struct fr_gathered *z, uint64_t *w, fr_ref id)
{
    const struct fr_node *n = &fr_nodes[id];

    if (FR_LIKELY(n->n_args == 2)) { /* what most are: of two that are there */
        const struct fr_node *x = &fr_nodes[n->arg[0]], *y = &fr_nodes[n->arg[1]];

        if (FR_LIKELY(is_entered(x) && is_entered(y))) {
            enter(z, w, id);
            w[0] = head_word(n);
            w[1] = (uint64_t)(uintptr_t)n->layout;
            w[2] = push_node_arg(z, x);
            w[3] = push_node_arg(z, y);
            return w + 4;
        }
    }
    for (int k = 0; k < n->n_args; k++) {
        const struct fr_node *a = &fr_nodes[n->arg[k]];

        if (a->mark != epoch && a->op != FR_OP_scalar && !(w = meet(z, w, n->arg[k])))
            return NULL;
    }
    enter(z, w, id);
    *w++ = head_word(n);
    *w++ = (uint64_t)(uintptr_t)n->layout;
    for (int k = 0; w && k < n->n_args; k++)
        w = push_arg(z, w, n, k);
    return w;
}

/* Whether somebody outside reads gathered node i. */
static inline bool
is_wanted(const struct fr_gathered *z, int i)
{
    return fr_nodes[z->id[i]].refs > (z->entry[i].n_uses & ~FR_ENTRY_IS_ROOT);
}

/* The new content of a store must land in memory that somebody outside still wants to read as it was, before this
 * store or between it and one before it: false. */
static bool
settles(const struct fr_gathered *z, fr_ref previous)
{
    const struct fr_node *n = &fr_nodes[previous];

    if (!is_wanted(z, (int)n->index))
        return true;
    while (n->op == FR_OP_store)
        n = &fr_nodes[n->arg[0]];
    return n->op != FR_OP_leaf || !is_pinned(n->v.buffer);
}

/* Of the node and of the leaves that it reads. */
static void
clear_index(fr_ref id)
{
    const struct fr_node *n = &fr_nodes[id];

    for (int k = 0; k < n->n_args; k++)
        fr_node_base(n->arg[k])->index = 0;
    fr_nodes[id].index = 0;
}

/* Whether the node is marked by its index, or reads one that is. */
static bool
is_reader(const struct fr_node *n)
{
    bool reads = n->index != 0;

    for (int k = 0; k < n->n_args && !reads; k++) {
        const struct fr_node *a = n->arg[k] == FR_SCALAR_HERE ? NULL : fr_node_base(n->arg[k]);

        reads = a && a->op != FR_OP_scalar && a->index != 0;
    }
    return reads;
}

fr_status
fr_gather_readers(struct fr_gathered *z, const fr_ref *what, int n_what, fr_ref *roots, int *n_roots,
                  struct fr_err *err)
{
    int       n = 0;
    fr_status st = order_behind(z, roots, *n_roots, err);

    if (st != FR_OK)
        return st;
    for (int i = 0; i < z->n_order; i++)
        clear_index(z->order[i]);
    for (int i = 0; i < n_what; i++)
        fr_nodes[what[i]].index = 1;
    for (int i = 0; i < z->n_order; i++)
        fr_nodes[z->order[i]].index = is_reader(&fr_nodes[z->order[i]]);
    for (int i = 0; i < *n_roots; i++)
        if (fr_nodes[roots[i]].index)
            roots[n++] = roots[i];
    *n_roots = n;
    return FR_OK;
}

/* Enters the nodes of z->order with what they read, and writes the key but for its flags. */
static fr_status
push_all(struct fr_gathered *z, struct fr_err *err)
{
    uint64_t *w;
    size_t    n = 4 * (size_t)z->n_order;   /* with three leaves each */

    z->n = z->n_scalars = z->n_moving = z->n_unsettled = 0;
    z->n_views = 0;
    z->left_out = false;
    if (!FR_GROW(z->id, z->cap_id, n) || !FR_GROW(z->entry, z->cap_entry, n) ||
        !FR_GROW(z->views, z->cap_views, n) || !FR_GROW(z->key, z->cap_key, (size_t)z->n_order * NODE_WORDS))
        return no_memory(err);
    new_epoch();
    w = z->key;
    for (int i = 0; i < z->n_order; i++)
        if (!(w = push_node(z, w, z->order[i])))
            return z->left_out ? FR_OK : no_memory(err);
    z->n_key = (size_t)(w - z->key);
    return FR_OK;
}

/* Adds to the key who is wanted by whom outside. *needed: the roots need all that was entered. */
static fr_status
push_flags(struct fr_gathered *z, const fr_ref *roots, int n_roots, bool *needed, struct fr_err *err)
{
    const struct fr_backend *backend = n_roots ? fr_backend_of(fr_nodes[roots[0]].device) : fr_backend;
    bool                     all = true;

    for (int i = 0; i < n_roots; i++)
        z->entry[fr_nodes[roots[i]].index].n_uses |= FR_ENTRY_IS_ROOT;
    /* A view that somebody outside reads keeps its base wanted: as if the base itself were read. */
    for (size_t i = 0; i < z->n_views; i++) {
        const struct fr_node *view = &fr_nodes[z->views[i]];

        if (view->refs > view->index)
            z->entry[fr_nodes[view->arg[0]].index].n_uses--;
    }
    for (int i = 0; i < z->n; i++) {
        const struct fr_node *n = &fr_nodes[z->id[i]];
        bool                  wanted = is_wanted(z, i);
        uint64_t              flags = 0;

        if (n->op == FR_OP_leaf) {
            flags = fr_gather_leaf_flags(n, z->entry[i].n_uses & ~FR_ENTRY_IS_ROOT, backend);
        } else {
            if (wanted)
                flags |= FR_KEY_OUTPUT;
            all &= z->entry[i].n_uses != 0;
            if (FR_UNLIKELY(n->op == FR_OP_store) && !settles(z, n->arg[0])) {
                if (!FR_GROW(z->unsettled, z->cap_unsettled, (size_t)z->n_unsettled + 1))
                    return no_memory(err);
                z->unsettled[z->n_unsettled++] = n->arg[0];
            }
        }
        z->key[z->entry[i].at] |= flags << 26;
    }
    *needed = all;
    return FR_OK;
}

fr_status
fr_gather(struct fr_gathered *z, const fr_ref *roots, int n_roots, struct fr_err *err)
{
    bool      needed;
    fr_status st;

    /* Mostly the roots need all that is pending, which need not be looked for. Whoever asks for a part at a
     * time does not pay for all each time: a vain attempt is the last one for twice its work. */
    if (z->debt <= 0 && order_pending(z)) {
        if ((st = push_all(z, err)) != FR_OK)
            return st;
        if (!z->left_out && ((st = push_flags(z, roots, n_roots, &needed, err)) != FR_OK || needed))
            return st;
        z->debt = 2 * (int64_t)z->n_order;
    }
    if ((st = order_behind(z, roots, n_roots, err)) != FR_OK || (st = push_all(z, err)) != FR_OK)
        return st;
    z->debt -= z->n_order;
    return push_flags(z, roots, n_roots, &needed, err);
}

fr_status
fr_gather_node(struct fr_gathered *z, fr_ref id, struct fr_err *err)
{
    bool      needed;
    fr_status st;

    if (!FR_GROW(z->order, z->cap_order, 1))
        return no_memory(err);
    z->order[0] = id;
    z->n_order = 1;
    st = push_all(z, err);
    return st == FR_OK ? push_flags(z, &id, 1, &needed, err) : st;
}

void
fr_gather_place(struct fr_gathered *z, fr_device device)
{
    for (int i = 0; i < z->n; i++) {
        const struct fr_node *n = &fr_nodes[z->id[i]];
        uint64_t             *w = &z->key[z->entry[i].at], flags;

        if (n->op == FR_OP_leaf) {
            flags = fr_gather_leaf_flags(n, z->entry[i].n_uses & ~FR_ENTRY_IS_ROOT, fr_backend_of(device));
            *w = (*w & ~((uint64_t)FR_KEY_FLAGS << 26)) | flags << 26;
        } else if (n->device == FR_DEVICE_AUTO) {
            *w = (*w & ~((uint64_t)0xff << 8)) | (uint64_t)device << 8;
        }
    }
}

fr_ref
fr_gather_elsewhere(const struct fr_gathered *z)
{
    for (int i = 0; i < z->n; i++)
        if (fr_node_computes(&fr_nodes[z->id[i]]) && fr_nodes[z->id[i]].device == FR_DEVICE_AUTO)
            for (int k = 0; k < fr_nodes[z->id[i]].n_args; k++) {
                fr_ref                id = fr_nodes[z->id[i]].arg[k];
                const struct fr_node *a = id == FR_SCALAR_HERE ? NULL : &fr_nodes[id];

                if (a && a->op == FR_OP_view)
                    a = &fr_nodes[id = a->arg[0]];
                if (a && fr_node_computes(a) && a->device != FR_DEVICE_AUTO)
                    return id;
            }
    return FR_NO_NODE;
}

/* ---- the graph ---------------------------------------------------------------------------- */

/* False: no memory. */
static bool
fill_edge(struct fr_graph *g, struct fr_edge *e, const uint64_t **key)
{
    uint64_t w = *(*key)++;

    *e = (struct fr_edge){.src = (int32_t)(w >> 8), .moving = -1};
    switch (w & 0xff) {
    case ARG_SCALAR:
        e->src = FR_SRC_SCALAR;
        e->scalar = g->n_scalars;
        g->scalar_dtype[g->n_scalars++] = (fr_dtype)(w >> 8);
        return true;
    case ARG_NODE:
        FR_ASSERT(e->src < g->n_nodes - 1); /* each after those that it reads */
        e->layout = fr_layout_ref(g->node[e->src].layout);
        e->whole = true;
        return true;
    default:
        e->layout = fr_layout_here((struct fr_layout *)(uintptr_t)*(*key)++);
        if (e->layout != g->node[e->src].layout)
            e->moving = g->n_moving++;
    }
    return e->layout != NULL;
}

fr_status
fr_gather_structure(struct fr_gathered *z, struct fr_structure *out, struct fr_err *err)
{
    if (!FR_GROW(z->site, z->cap_site, (size_t)z->n))
        return no_memory(err);
    for (int i = 0; i < z->n; i++)
        z->site[i] = fr_nodes[z->id[i]].site;
    *out = (struct fr_structure){z->key, z->n_key, z->n, z->n_scalars, z->scalar, z->site, z->moving, z->n_moving, NULL, 0, false};
    return FR_OK;
}

int
fr_gather_layouts(const struct fr_gathered *z, struct fr_layout **out)
{
    int n = 0;

    for (int i = 0; i < z->n; i++)
        out[n++] = fr_layout_ref(fr_nodes[z->id[i]].layout);
    for (size_t i = 0; i < z->n_views; i++)
        out[n++] = fr_layout_ref(fr_nodes[z->views[i]].layout);
    return n;
}

/* Which scalars are like an older one, by a table of those that are like none. False: no memory. */
static bool
find_alike(const struct fr_structure *z, struct fr_graph *g)
{
    size_t   n_slots = 4;
    int32_t *slot;

    while (n_slots < 2 * (size_t)g->n_scalars)
        n_slots *= 2;
    slot = fr_arena_room(&g->arena, n_slots * sizeof *slot);
    g->scalar_like = fr_arena_room(&g->arena, ((size_t)g->n_scalars + 1) * sizeof *g->scalar_like);
    g->scalar_must = fr_arena_alloc(&g->arena, (size_t)g->n_scalars + 1);
    if (!slot || !g->scalar_like || !g->scalar_must)
        return false;
    memset(slot, 0xff, n_slots * sizeof *slot);
    for (int32_t i = 0; i < g->n_scalars; i++) {
        const uint64_t *w = z->scalar[i].word;
        size_t          at = (w[0] ^ w[1] * 31 ^ g->scalar_dtype[i]) * 0xff51afd7ed558ccdu >> 40 & (n_slots - 1);

        while (slot[at] >= 0 && (g->scalar_dtype[slot[at]] != g->scalar_dtype[i] ||
                                 memcmp(w, z->scalar[slot[at]].word, sizeof z->scalar[i].word) != 0))
            at = (at + 1) & (n_slots - 1);
        if (slot[at] < 0)
            slot[at] = i;
        g->scalar_like[i] = slot[at];
    }
    return true;
}

fr_status
fr_structure_graph(const struct fr_structure *z, bool apart, struct fr_graph **out, struct fr_err *err)
{
    const uint64_t  *key = z->key;
    struct fr_graph *g = fr_calloc(1, sizeof *g);

    if (!g)
        return no_memory(err);
    if (apart) {
        g->own.arena = &g->arena;
        fr_layouts_use(&g->own);
    }
    g->node = fr_arena_alloc(&g->arena, ((size_t)z->n_nodes + 1) * sizeof *g->node);
    g->scalar_dtype = fr_arena_alloc(&g->arena, (size_t)z->n_scalars + 1);
    g->moving_at = fr_arena_room(&g->arena, ((size_t)z->n_moving + 1) * sizeof *g->moving_at);
    if (!g->node || !g->scalar_dtype || !g->moving_at) {
        fr_graph_free(g);
        return no_memory(err);
    }
    if (z->n_moving)
        memcpy(g->moving_at, z->moving, (size_t)z->n_moving * sizeof *g->moving_at);
    for (int i = 0; i < z->n_nodes; i++) {
        struct fr_gnode *n = &g->node[i];
        bool             ok;
        uint64_t         w = *key++, flags = w >> 26 & 15;

        n->op = (fr_op)(w & 0xff);
        if (n->op != FR_OP_leaf && (w >> 8 & 0xff) != FR_DEVICE_ANY)
            g->device = (fr_device)(w >> 8 & 0xff);
        n->dtype = (fr_dtype)(w >> 16 & 0xff);
        n->n_args = w >> 24 & 3;
        n->output = flags & FR_KEY_OUTPUT;
        n->dying = flags & FR_KEY_DYING;
        n->pinned = flags & FR_KEY_PINNED;
        n->outside = flags & FR_KEY_OUTSIDE;
        n->given = i;
        n->axes = (uint32_t)(w >> 32);
        n->site = z->site[i];
        ok = (n->layout = fr_layout_here((struct fr_layout *)(uintptr_t)*key++)) != NULL;
        g->n_nodes = i + 1;
        for (int k = 0; k < n->n_args; k++)
            ok = ok && fill_edge(g, &n->arg[k], &key);
        if (!ok) {
            fr_graph_free(g);
            return no_memory(err);
        }
        /* The window of a store is described by its third argument and read by nobody. */
        if (n->op == FR_OP_store)
            n->n_args = 2;
    }
    FR_ASSERT(key == z->key + z->n_key && g->n_scalars == z->n_scalars && g->n_moving == z->n_moving);
    if (z->scalar && !find_alike(z, g)) {
        fr_graph_free(g);
        return no_memory(err);
    }
    *out = g;
    return FR_OK;
}
