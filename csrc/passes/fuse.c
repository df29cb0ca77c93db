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
 *   - a store and the loads beside it touch the same elements or none in common;
 *   - the operands fit a kernel. */
#include "passes/fuser.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* ---- first groups ------------------------------------------------------------------------- */

/* NumPy's order of the axes of a reduction: by the operand's strides, outermost first. */
static void
reduction_order(struct fuser *z, int r, struct fr_group *g)
{
    const struct fr_gnode *n = &z->g->node[r];
    int64_t                s[FR_MAX_DIMS], rank[FR_MAX_DIMS];
    const int64_t         *list[1] = {s};
    uint32_t               mask = 0;
    int                    i;

    fr_domain_strides(z, r, &n->arg[0], s);
    fr_strides_keep_order(g->ndim, g->dims, 1, list, rank);
    for (int k = 0; k < g->ndim; k++) {
        g->order[k] = k;
        if (n->axes >> z->info[r].axis[k] & 1)
            mask |= 1u << k;
    }
    for (int k = 1; k < g->ndim; k++) { /* insertion sort by falling rank */
        int ax = g->order[k];

        for (i = k; i > 0 && rank[g->order[i - 1]] < rank[ax]; i--)
            g->order[i] = g->order[i - 1];
        g->order[i] = ax;
    }
    g->reduced = mask;
    g->ordered = fr_op_info[n->op].flags & FR_OPF_ORDERED;
    if (n->op == FR_OP_argmax || n->op == FR_OP_argmin) {
        /* An index needs its axis as the row, whatever the strides. Reducing several means C order.
         */
        int j = 0, order[FR_MAX_DIMS];

        for (int k = 0; k < g->ndim; k++)
            if (!(mask >> k & 1))
                order[j++] = k;
        for (int k = 0; k < g->ndim; k++)
            if (mask >> k & 1)
                order[j++] = k;
        memcpy(g->order, order, sizeof order);
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
        if (!(g = fr_arena_alloc(&z->f->arena, sizeof *g)))
            return fr_fail(err, FR_ENOMEM, "out of memory: fusing %d nodes", z->g->n_nodes);
        fr_domain_fill(node, &z->info[n]);
        g->ndim = (uint8_t)z->info[n].ndim;
        memcpy(g->dims, z->info[n].dims, sizeof g->dims);
        g->first = g->last = n;
        g->n_members = 1;
        g->n_stores = node->op == FR_OP_store;
        g->n_operands = node->n_args + 1;
        g->n_results = node->output || node->op == FR_OP_store || fr_fuser_reduces(node);
        z->f->level[n] = FR_MEMBER_FULL;
        if (fr_fuser_reduces(node))
            reduction_order(z, n, g);
        else
            g->kind = fr_op_info[node->op].class_ == FR_CLASS_SCAN   ? FR_GROUP_SCAN
                      : fr_op_info[node->op].class_ == FR_CLASS_CALL ? FR_GROUP_CALL
                                                                     : FR_GROUP_MAP;
        z->of[n] = g;
        g->pos = n; /* nodes are born in a topological order */
    }
    return FR_OK;
}

/* ---- memory and order --------------------------------------------------------------------- */

/* Decides for every store whether it writes over its previous version, and in which memory each
 * value lives. */
static void
place_stores(struct fuser *z, const bool *read_outside)
{
    const struct fr_graph *g = z->g;

    for (int n = 0; n < g->n_nodes; n++) {
        const struct fr_gnode *node = &g->node[n], *prev;
        int                    p;

        z->info[n].buffer = n;
        z->info[n].n_succ = z->info[n].n_pred = 0;
        z->f->in_place[n] = 0;
        if (node->dead || node->op != FR_OP_store)
            continue;
        p = node->arg[0].src;
        prev = &g->node[p];
        if (prev->op == FR_OP_leaf)
            z->f->in_place[n] = prev->pinned || prev->dying;
        else
            z->f->in_place[n] = !prev->output && !read_outside[p];
        /* Of several stores over one version, the last one takes the memory. */
        for (int i = z->readers.first[p + 1]; i-- > z->readers.first[p] && z->readers.node[i] > n;)
            if (g->node[z->readers.node[i]].op == FR_OP_store &&
                g->node[z->readers.node[i]].arg[0].src == p)
                z->f->in_place[n] = 0;
        if (z->f->in_place[n])
            z->info[n].buffer = z->info[p].buffer;
    }
}

/* Calls fn for every pair "from must come before to": data edges, and readers before stores. */
static void
each_dependence(struct fuser *z, void (*fn)(struct fuser *, int from, int to))
{
    const struct fr_graph *g = z->g;

    for (int n = 0; n < g->n_nodes; n++) {
        const struct fr_gnode *node = &g->node[n];

        if (!fr_gnode_computes(node))
            continue;
        for (int k = 0; k < node->n_args; k++)
            if (node->arg[k].src >= 0 && fr_gnode_computes(&g->node[node->arg[k].src]))
                fn(z, node->arg[k].src, n);
        if (node->op != FR_OP_store || !z->f->in_place[n])
            continue;
        /* The store is itself one of the readers. */
        for (int i = z->readers.first[node->arg[0].src]; z->readers.node[i] < n; i++)
            fn(z, z->readers.node[i], n);
    }
}

static void
count_dependence(struct fuser *z, int from, int to)
{
    z->info[from].n_succ++;
    z->info[to].n_pred++;
}

static void
add_dependence(struct fuser *z, int from, int to)
{
    z->succ[z->info[from].first_succ + z->info[from].n_succ++] = to;
    z->pred[z->info[to].first_pred + z->info[to].n_pred++] = from;
}

static fr_status
link_dependences(struct fuser *z, struct fr_err *err)
{
    int n_succ = 0, n_pred = 0;

    each_dependence(z, count_dependence);
    for (int n = 0; n < z->g->n_nodes; n++) {
        z->info[n].first_succ = n_succ;
        z->info[n].first_pred = n_pred;
        n_succ += z->info[n].n_succ;
        n_pred += z->info[n].n_pred;
        z->info[n].n_succ = z->info[n].n_pred = 0;
    }
    z->succ = fr_arena_alloc(&z->f->arena, ((size_t)n_succ + 1) * sizeof *z->succ);
    z->pred = fr_arena_alloc(&z->f->arena, ((size_t)n_pred + 1) * sizeof *z->pred);
    if (!z->succ || !z->pred)
        return fr_fail(err, FR_ENOMEM, "out of memory: dependences of %d nodes", z->g->n_nodes);
    each_dependence(z, add_dependence);
    return FR_OK;
}

/* ---- candidates --------------------------------------------------------------------------- */

struct candidate {
    int64_t weight; /* bytes that no longer move */
    int     a, b, rank;
};

static int
heaviest_first(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;

    if (a->weight != b->weight)
        return a->weight < b->weight ? 1 : -1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Producer and consumer; and consecutive readers of one memory through one window, which often save
 * half as much: written from the other end, the list then is in order as it comes. */
static int
collect(const struct fuser *z, struct candidate *c, int cap, int *last_reader)
{
    const struct fr_graph *g = z->g;
    int                    n_c = 0, n_siblings = 0;
    bool                   in_order = true;

    for (int n = 0; n < g->n_nodes; n++) {
        const struct fr_gnode *node = &g->node[n];

        if (!fr_gnode_computes(node))
            continue;
        for (int k = 0; k < node->n_args; k++) {
            const struct fr_edge *e = &node->arg[k];
            int64_t               bytes;

            if (e->src < 0)
                continue;
            bytes = e->layout->n_elems * fr_dtype_size(g->node[e->src].dtype);
            if (fr_gnode_computes(&g->node[e->src])) {
                c[n_c] = (struct candidate){2 * bytes, e->src, n, n_c + n_siblings};
                n_c++;
            }
            if (last_reader[e->src] >= 0 && last_reader[e->src] != n) {
                n_siblings++;
                c[cap - n_siblings] =
                    (struct candidate){bytes, last_reader[e->src], n, n_c + n_siblings - 1};
            }
            last_reader[e->src] = n;
        }
    }
    for (int i = 1; i <= n_siblings; i++)
        c[n_c++] = c[cap - i];
    for (int i = 1; i < n_c && in_order; i++)
        in_order = heaviest_first(&c[i - 1], &c[i]) < 0;
    if (!in_order)
        qsort(c, (size_t)n_c, sizeof *c, heaviest_first);
    return n_c;
}

static fr_status
merge_all(struct fuser *z, struct fr_err *err)
{
    size_t            cap = (size_t)z->g->n_nodes * 9 + 1; /* 3 and 3 at most, and 3 to move */
    struct candidate *c = fr_malloc(cap * sizeof *c);
    int              *last = fr_malloc(((size_t)z->g->n_nodes + 1) * sizeof *last);
    int               n;
    bool              again = true;

    if (!c || !last) {
        fr_free(c);
        fr_free(last);
        return fr_fail(err, FR_ENOMEM, "out of memory: fusing %d nodes", z->g->n_nodes);
    }
    for (int i = 0; i < z->g->n_nodes; i++)
        last[i] = -1;
    n = collect(z, c, (int)cap, last);
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
            } else if (!z->f->why[b->first]) {
                z->f->why[b->first] = why;
            }
        }
    }
    fr_free(c);
    fr_free(last);
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

/* Oldest first, as far as the dependences allow. */
static fr_status
order_groups(struct fuser *z, struct fr_err *err)
{
    struct fr_fusion *f = z->f;
    size_t            cap = (size_t)z->g->n_nodes + 1;
    int              *waits = fr_calloc(cap, sizeof *waits), n_ready = 0;
    struct fr_group **heap = fr_malloc(cap * sizeof *heap);
    const char      **why = fr_arena_alloc(&f->arena, cap * sizeof *why);
    fr_status         st = FR_OK;

    if (!waits || !heap || !why) {
        st = fr_fail(err, FR_ENOMEM, "out of memory: ordering groups");
        goto out;
    }
    for (int n = 0; n < z->g->n_nodes; n++)
        for (int i = 0; i < z->info[n].n_succ; i++) {
            struct fr_group *s = z->of[z->succ[z->info[n].first_succ + i]];

            if (s != z->of[n])
                waits[s->first]++;
        }
    for (int n = 0; n < z->g->n_nodes; n++)
        if (z->of[n] && z->of[n]->first == n && waits[n] == 0)
            push(heap, &n_ready, z->of[n]);
    while (n_ready > 0) {
        struct fr_group *g = pop(heap, &n_ready);

        for (int n = g->first; n >= 0; n = f->next[n]) {
            f->group_of[n] = f->n_groups;
            for (int i = 0; i < z->info[n].n_succ; i++) {
                struct fr_group *s = z->of[z->succ[z->info[n].first_succ + i]];

                if (s != g && --waits[s->first] == 0)
                    push(heap, &n_ready, s);
            }
        }
        why[f->n_groups] = f->why[g->first];
        f->group[f->n_groups++] = g;
    }
    f->why = why;
out:
    fr_free(waits);
    fr_free(heap);
    return st;
}

/* ---- the pass ----------------------------------------------------------------------------- */

void
fr_fusion_free(struct fr_fusion *f)
{
    if (f) {
        fr_arena_clear(&f->arena);
        fr_free(f);
    }
}

fr_status
fr_fuse(const struct fr_graph *g, const bool *read_outside, bool merge, struct fr_fusion **out,
        struct fr_err *err)
{
    size_t            n = (size_t)g->n_nodes + 1;
    struct fr_fusion *f = fr_calloc(1, sizeof *f);
    struct fuser      z = {.g = g, .f = f};
    fr_status         st;

    if (!f)
        return fr_fail(err, FR_ENOMEM, "out of memory: fusing %d nodes", g->n_nodes);
    f->group = fr_arena_alloc(&f->arena, n * sizeof *f->group);
    f->group_of = fr_arena_alloc(&f->arena, n * sizeof *f->group_of);
    f->level = fr_arena_alloc(&f->arena, n);
    f->next = fr_arena_alloc(&f->arena, n * sizeof *f->next);
    f->in_place = fr_arena_alloc(&f->arena, n * sizeof *f->in_place);
    f->why = fr_arena_alloc(&f->arena, n * sizeof *f->why);
    z.info = fr_malloc(n * sizeof *z.info);
    z.of = fr_calloc(n, sizeof *z.of);
    z.seen = fr_calloc(n, sizeof *z.seen);
    z.before = fr_malloc(n * sizeof *z.before);
    z.after = fr_malloc(n * sizeof *z.after);
    z.position = fr_malloc(n * sizeof *z.position);
    if (!f->group || !f->group_of || !f->level || !f->next || !f->in_place || !f->why || !z.info ||
        !z.of || !z.seen || !z.before || !z.after || !z.position) {
        st = fr_fail(err, FR_ENOMEM, "out of memory: fusing %d nodes", g->n_nodes);
        goto out;
    }
    TRY(fr_graph_readers(g, &f->arena, &z.readers, err));
    TRY(first_groups(&z, err));
    place_stores(&z, read_outside);
    TRY(link_dependences(&z, err));
    if (merge)
        TRY(merge_all(&z, err));
    TRY(order_groups(&z, err));
    *out = f;
    f = NULL;
out:
    fr_fusion_free(f);
    fr_free(z.info);
    fr_free(z.of);
    fr_free(z.seen);
    fr_free(z.before);
    fr_free(z.after);
    fr_free(z.position);
    return st;
}
