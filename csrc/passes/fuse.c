/* Fusion.  Every computing node begins as a group of its own; neighbours are merged, heaviest
 * saving first, as long as the merged group still is one loop nest that gives the same bits.
 *
 *     softmax:   max --.                    D = [rows, columns], reduced = {1}
 *     x --------- sub - exp --- sum --.     sub, exp, div: FULL;  max, sum: reductions;
 *                          `--------- div   their results reach FULL members by row
 *
 * A merge is legal when
 *   - both groups have the domain D, or one has D and the other the kept axes K of D;
 *   - every edge between them is an identity (FULL to FULL, KEPT to KEPT) or the broadcast of a
 * KEPT value along the reduced axes; other windows go through memory;
 *   - their reductions agree on the axes and on NumPy's order (or make a MIX);
 *   - no path leads from one to the other through a third group;
 *   - a store and the loads and stores beside it touch the same elements or none in common;
 *   - the operands fit a kernel. */
#include "passes/fuser.h"

#include <string.h>

#include "base/alloc.h"

static fr_status
no_memory(const struct fuser *z, struct fr_err *err)
{
    return fr_fail(err, FR_ENOMEM, "out of memory: fusing %d nodes", z->g->n_nodes);
}

/* ---- first groups ------------------------------------------------------------------------- */

/* NumPy's order of the axes of a reduction: by the operand's strides, outermost first. */
static void
reduction_order(struct fuser *z, int r, struct fr_group *g)
{
    const struct fr_gnode *n = &z->g->node[r];
    int64_t                s[FR_MAX_DIMS];
    const int64_t         *list[1] = {s};
    uint32_t               mask = 0;
    int                    perm[FR_MAX_DIMS], i;

    fr_domain_strides(z, r, &n->arg[0], s);
    fr_axes_inwards(g->ndim, g->dims, 1, list, perm);
    for (int k = 0; k < g->ndim; k++) {
        g->order[k] = (uint8_t)perm[g->ndim - 1 - k];
        if (n->axes >> z->info[r].axis[k] & 1)
            mask |= 1u << k;
    }
    g->reduced = mask;
    g->ordered = fr_op_info[n->op].flags & FR_OPF_ORDERED;
    if (fr_op_finds_index(n->op)) {
        /* An index needs its axis as the row, whatever the strides. Reducing several means C order.
         */
        uint8_t order[FR_MAX_DIMS];
        int     j = 0;

        for (int k = 0; k < g->ndim; k++)
            if (!(mask >> k & 1))
                order[j++] = (uint8_t)k;
        for (int k = 0; k < g->ndim; k++)
            if (mask >> k & 1)
                order[j++] = (uint8_t)k;
        memcpy(g->order, order, g->ndim);
    }
    /* The row: reduced axes from the innermost outwards, as far as NumPy would coalesce them. */
    for (i = g->ndim; i > 0; i--) {
        int ax = g->order[i - 1];

        if (!(mask >> ax & 1))
            break;
        if (i < g->ndim && s[ax] != s[g->order[i]] * g->dims[g->order[i]])
            break;
    }
    g->n_inner = g->ndim - i;
    g->kind = FR_GROUP_ROW;
    for (int k = 0; k < i; k++)
        if (mask >> g->order[k] & 1)
            g->kind = FR_GROUP_POST;
    if (g->n_inner == 0)
        g->kind = FR_GROUP_POST;
}

static fr_status
first_groups(struct fuser *z, struct fr_err *err)
{
    for (int n = 0; n < z->g->n_nodes; n++) {
        const struct fr_gnode *node = &z->g->node[n];
        struct fr_group       *g;

        z->f->group_of[n] = -1;
        z->f->next[n] = -1;
        if (!fr_gnode_computes(node))
            continue;
        if (!(g = fr_arena_room(z->arena, sizeof *g)) || !fr_domain_fill(z, n))
            return no_memory(z, err);
        *g = (struct fr_group){
            .ndim = (uint8_t)z->info[n].ndim,
            .dims = z->info[n].dims,
            .first = n,
            .last = n,
            .n_members = 1,
            .n_stores = node->op == FR_OP_store,
            .n_operands = node->n_args + 1,
            .n_results = node->output || node->op == FR_OP_store || fr_op_reduces(node->op),
            .pos = n, /* nodes are born in a topological order */
        };
        z->f->level[n] = FR_MEMBER_FULL;
        if (fr_op_reduces(node->op))
            reduction_order(z, n, g);
        else
            g->kind = fr_op_info[node->op].class_ == FR_CLASS_SCAN   ? FR_GROUP_SCAN
                      : fr_op_info[node->op].class_ == FR_CLASS_CALL ? FR_GROUP_CALL
                                                                     : FR_GROUP_MAP;
        z->n_edges += node->n_args;
        z->of[n] = g;
    }
    return FR_OK;
}

/* ---- memory and order --------------------------------------------------------------------- */

/* Decides for every store whether it writes over its previous version, and in which memory each
 * value lives. */
static void
place_stores(struct fuser *z)
{
    const struct fr_graph *g = z->g;

    for (int n = 0; n < g->n_nodes; n++) {
        const struct fr_gnode *node = &g->node[n], *prev;
        int                    p;

        z->info[n].buffer = n;
        z->info[n].over = -1;
        z->f->in_place[n] = 0;
        if (node->dead || node->op != FR_OP_store)
            continue;
        p = node->arg[0].src;
        prev = &g->node[p];
        if (prev->op == FR_OP_leaf)
            z->f->in_place[n] = prev->pinned || prev->dying;
        else
            z->f->in_place[n] = !prev->output && !prev->outside;
        /* Of several stores over one version, the last one takes the memory. */
        for (int i = z->readers.first[p + 1]; i-- > z->readers.first[p] && z->readers.node[i] > n;)
            if (g->node[z->readers.node[i]].op == FR_OP_store && g->node[z->readers.node[i]].arg[0].src == p)
                z->f->in_place[n] = 0;
        if (z->f->in_place[n]) {
            z->info[n].buffer = z->info[p].buffer;
            z->info[p].over = n;
        }
    }
}

/* ---- candidates --------------------------------------------------------------------------- */

struct candidate {
    int64_t weight; /* bytes that no longer move */
    int     a, b;
};

/* Producer and consumer; and consecutive readers of one memory through one window. */
static int
collect(const struct fuser *z, struct candidate *c, int *last_reader)
{
    const struct fr_graph *g = z->g;
    int                    n_c = 0;

    for (int n = 0; n < g->n_nodes; n++) {
        const struct fr_gnode *node = &g->node[n];

        if (!z->of[n])
            continue;
        for (int k = 0; k < node->n_args; k++) {
            const struct fr_edge *e = &node->arg[k];
            int64_t               bytes;
            int                   last;

            if (e->src < 0)
                continue;
            bytes = e->layout->n_elems * fr_dtype_size(g->node[e->src].dtype);
            if (z->of[e->src])
                c[n_c++] = (struct candidate){2 * bytes, e->src, n};
            last = last_reader[e->src] - 1;
            if (last >= 0 && last != n)
                c[n_c++] = (struct candidate){bytes, last, n};
            last_reader[e->src] = n + 1;
        }
    }
    return n_c;
}

/* Merges sorted stretches of c into stretches of twice the length, to and fro between two arrays.
 * Returns the one that has the last. */
static struct candidate *
sort(struct candidate *c, struct candidate *other, int n)
{
    for (int64_t length = 1; length < n; length *= 2) {
        struct candidate *from = c;

        for (int64_t first = 0, k = 0; first < n; first += 2 * length) {
            int64_t mid = first + length < n ? first + length : n, i = first, j = mid;
            int64_t end = mid + length < n ? mid + length : n;

            while (i < mid || j < end)
                other[k++] = j == end || (i < mid && from[i].weight >= from[j].weight) ? from[i++]
                                                                                       : from[j++];
        }
        c = other;
        other = from;
    }
    return c;
}

static fr_status
merge_all(struct fuser *z, struct fr_err *err)
{
    size_t            cap = 2 * (size_t)z->n_edges + 1;
    struct candidate *c = fr_arena_room(&z->scratch, cap * sizeof *c);
    struct candidate *other = fr_arena_room(&z->scratch, cap * sizeof *other);
    int *last = fr_arena_alloc(&z->scratch, ((size_t)z->g->n_nodes + 1) * sizeof *last);
    int  n;
    bool again = true;

    if (!c || !other || !last)
        return no_memory(z, err);
    n = collect(z, c, last);
    c = sort(c, other, n); /* heaviest first, else oldest */
    /* A merge can make another one legal (a reduction gives its neighbours their axes), so the
     * refused are tried again; three rounds are enough for the chains that occur. */
    for (int round = 0; round < 3 && again; round++) {
        again = false;
        for (int i = 0; i < n; i++) {
            struct fr_group *a = z->of[c[i].a], *b = z->of[c[i].b];
            const char      *why;

            if (a == b)
                continue;
            why = b->ndim > a->ndim || (b->ndim == a->ndim && a->kind == FR_GROUP_MAP)
                      ? fr_merge_legal(z, b, a)
                      : fr_merge_legal(z, a, b);
            if (!why) {
                fr_merge_apply(z);
                again = true;
            } else if (!z->why[b->first]) {
                z->why[b->first] = why;
            }
        }
    }
    return FR_OK;
}

/* ---- order of the groups ------------------------------------------------------------------ */

static void
push(struct fr_group **heap, int *n, struct fr_group *g)
{
    int i = (*n)++;

    for (; i > 0 && heap[(i - 1) / 2]->first > g->first; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = g;
}

static struct fr_group *
pop(struct fr_group **heap, int *n)
{
    struct fr_group *top = heap[0], *last = heap[--*n];
    int              i = 0;

    for (;;) {
        int child = 2 * i + 1;

        if (child >= *n)
            break;
        if (child + 1 < *n && heap[child + 1]->first < heap[child]->first)
            child++;
        if (heap[child]->first >= last->first)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* Does no group wait for a younger one? */
static bool
in_order_of_birth(const struct fuser *z)
{
    for (int n = 0; n < z->g->n_nodes; n++) {
        const struct fr_gnode *node = &z->g->node[n];

        for (int k = 0; z->of[n] && k < node->n_args; k++) {
            int src = node->arg[k].src;

            if (src >= 0 && z->of[src] && z->of[src]->first > z->of[n]->first)
                return false;
        }
        if (!z->of[n] || !fr_fuser_stores_over(z, n))
            continue;
        for (int i = z->readers.first[node->arg[0].src]; z->readers.node[i] < n; i++)
            if (z->of[z->readers.node[i]]->first > z->of[n]->first)
                return false;
    }
    return true;
}

static void
append_group(struct fuser *z, struct fr_group *g)
{
    z->f->why[z->f->n_groups] = z->why[g->first];
    z->f->group[z->f->n_groups++] = g;
}

/* Oldest first, as far as the dependences allow. */
static fr_status
order_groups(struct fuser *z, struct fr_err *err)
{
    struct fr_fusion *f = z->f;
    size_t            cap = (size_t)z->g->n_nodes + 1;
    int              *waits, n_ready = 0;
    struct fr_group **heap;

    if (in_order_of_birth(z)) {
        for (int n = 0; n < z->g->n_nodes; n++)
            if (z->of[n]) {
                if (z->of[n]->first == n) {
                    z->of[n]->pos = f->n_groups;
                    append_group(z, z->of[n]);
                }
                f->group_of[n] = z->of[n]->pos;
            }
        return FR_OK;
    }
    waits = fr_arena_alloc(&z->scratch, cap * sizeof *waits);
    heap = fr_arena_room(&z->scratch, cap * sizeof *heap);
    if (!waits || !heap)
        return no_memory(z, err);
    for (int n = 0; n < z->g->n_nodes; n++)
        for (int i = 0, end = z->of[n] ? fr_fuser_n_after(z, n) : 0; i < end; i++) {
            int later = fr_fuser_after(z, n, i);

            if (later >= 0 && z->of[later] != z->of[n])
                waits[z->of[later]->first]++;
        }
    for (int n = 0; n < z->g->n_nodes; n++)
        if (z->of[n] && z->of[n]->first == n && waits[n] == 0)
            push(heap, &n_ready, z->of[n]);
    while (n_ready > 0) {
        struct fr_group *g = pop(heap, &n_ready);

        for (int n = g->first; n >= 0; n = f->next[n]) {
            f->group_of[n] = f->n_groups;
            for (int i = 0, end = fr_fuser_n_after(z, n); i < end; i++) {
                int later = fr_fuser_after(z, n, i);

                if (later >= 0 && z->of[later] != g && --waits[z->of[later]->first] == 0)
                    push(heap, &n_ready, z->of[later]);
            }
        }
        append_group(z, g);
    }
    return FR_OK;
}

/* ---- the pass ----------------------------------------------------------------------------- */

fr_status
fr_fuse(const struct fr_graph *g, bool merge, struct fr_arena *arena, struct fr_fusion **out, struct fr_err *err)
{
    size_t            n = (size_t)g->n_nodes + 1;
    struct fr_fusion *f = fr_arena_alloc(arena, sizeof *f);
    struct fuser      z = {.g = g, .f = f, .arena = arena};
    fr_status         st;

    if (!f)
        return no_memory(&z, err);
    f->group = fr_arena_room(arena, n * sizeof *f->group);
    f->group_of = fr_arena_room(arena, n * sizeof *f->group_of);
    f->level = fr_arena_alloc(arena, n);
    f->next = fr_arena_room(arena, n * sizeof *f->next);
    f->in_place = fr_arena_room(arena, n * sizeof *f->in_place);
    f->why = fr_arena_room(arena, n * sizeof *f->why);
    z.info = fr_arena_room(&z.scratch, n * sizeof *z.info);
    z.why = fr_arena_alloc(&z.scratch, n * sizeof *z.why);
    z.of = fr_arena_alloc(&z.scratch, n * sizeof *z.of);
    z.seen = fr_arena_alloc(&z.scratch, n * sizeof *z.seen);
    z.before = fr_arena_room(&z.scratch, n * sizeof *z.before);
    z.after = fr_arena_room(&z.scratch, n * sizeof *z.after);
    z.position = fr_arena_room(&z.scratch, n * sizeof *z.position);
    if (!f->group || !f->group_of || !f->level || !f->next || !f->in_place || !f->why || !z.info || !z.why || !z.of ||
        !z.seen || !z.before || !z.after || !z.position) {
        st = no_memory(&z, err);
        goto out;
    }
    *out = f;
    TRY(fr_graph_readers(g, arena, &f->readers, err));
    z.readers = f->readers;
    TRY(first_groups(&z, err));
    place_stores(&z);
    if (merge)
        TRY(merge_all(&z, err));
    TRY(order_groups(&z, err));
out:
    fr_arena_clear(&z.scratch);
    return st;
}
