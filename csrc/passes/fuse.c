/* Fusion.  Every computing node begins as a group of its own; neighbours are merged, heaviest saving
 * first, as long as the merged group still is one loop nest that gives the same bits.
 *
 *     softmax:   max --.                    D = [rows, columns], reduced = {1}
 *     x --------- sub - exp --- sum --.     sub, exp, div: FULL;  max, sum: reductions;
 *                          `--------- div   their results reach FULL members by row
 *
 * A merge is legal when
 *   - both groups have the domain D, or one has D and the other the kept axes K of D;
 *   - every edge between them is an identity (FULL to FULL, KEPT to KEPT) or the broadcast of a KEPT
 *     value along the reduced axes; other windows go through memory;
 *   - their reductions agree on the axes and on NumPy's order (or make a MIX);
 *   - no path leads from one to the other through a third group;
 *   - a store and the loads beside it touch the same elements or none in common;
 *   - the operands fit a kernel. */
#include "passes/fuse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "passes/nest_limits.h"

/* What fusing needs to know about one node. */
struct info {
    int      ndim;                  /* of the domain, without axes of size 1 */
    int64_t  dims[FR_MAX_DIMS];
    int      axis[FR_MAX_DIMS];     /* squeezed axis -> axis of the node's own domain */
    int      first_succ, n_succ;    /* in fuser.succ: readers, and stores that must come later */
    int      buffer;                /* node whose memory this node's value lives in */
};

struct fuser {
    const struct fr_graph *g;
    struct fr_fusion      *f;
    struct info           *info;
    int                   *succ;
    struct fr_readers      readers;
    struct fr_group      **of;      /* [n_nodes] */
    struct fr_group      **at;      /* [n_nodes] the groups in a topological order, with gaps */
    unsigned              *seen;    /* [n_nodes], by first member of a group */
    unsigned               stamp;
    int                   *stack;
    struct fr_group       *a, *b;   /* the merge under test */
    struct fr_group        merged;
    uint8_t               *new_level;
};

/* ---- domains ------------------------------------------------------------------------------ */

static const struct fr_layout *
domain_layout(const struct fr_gnode *n)
{
    switch (n->op) {
    case FR_OP_store: return n->arg[2].layout;
    default: return fr_op_info[n->op].class_ == FR_CLASS_REDUCE ? n->arg[0].layout : n->layout;
    }
}

static bool
is_reduce(const struct fr_gnode *n)
{
    return fr_op_info[n->op].class_ == FR_CLASS_REDUCE;
}

/* The axis that stays in the domain although it has size 1: a reduction keeps one to reduce. */
static int
kept_single(const struct fr_gnode *n, const struct fr_layout *l)
{
    int last = -1;

    if (!is_reduce(n))
        return -1;
    for (int k = 0; k < l->ndim; k++)
        if (n->axes >> k & 1) {
            if (fr_layout_dims(l)[k] != 1)
                return -1;
            last = k;
        }
    return last;
}

static void
fill_domain(const struct fr_gnode *n, struct info *i)
{
    const struct fr_layout *l = domain_layout(n);
    int                     keep = kept_single(n, l);

    i->ndim = 0;
    for (int k = 0; k < l->ndim; k++)
        if (fr_layout_dims(l)[k] != 1 || k == keep) {
            i->axis[i->ndim] = k;
            i->dims[i->ndim++] = fr_layout_dims(l)[k];
        }
}

void
fr_edge_strides(const struct fr_graph *g, const struct fr_edge *e, int ndim, const int64_t *dims,
                int64_t *strides)
{
    const struct fr_layout *l = e->layout;
    int                     skip = ndim - l->ndim;

    (void)g;
    for (int k = 0; k < ndim; k++)
        strides[k] = k < skip || dims[k] == 1 || fr_layout_dims(l)[k - skip] == 1
                         ? 0
                         : fr_layout_strides(l)[k - skip];
}

/* Strides of an edge of node c over c's squeezed axes. */
static void
squeezed_strides(const struct fuser *z, int c, const struct fr_edge *e, int64_t *out)
{
    const struct fr_layout *l = domain_layout(&z->g->node[c]);
    const struct info      *i = &z->info[c];
    int64_t                 all[FR_MAX_DIMS];

    fr_edge_strides(z->g, e, l->ndim, fr_layout_dims(l), all);
    for (int k = 0; k < i->ndim; k++)
        out[k] = all[i->axis[k]];
}

/* Strides of a node's own result over the squeezed axes of that result. Returns how many. */
static int
result_strides(const struct fr_gnode *n, int64_t *dims, int64_t *strides)
{
    int nd = 0;

    for (int k = 0; k < n->layout->ndim; k++)
        if (fr_layout_dims(n->layout)[k] != 1) {
            dims[nd] = fr_layout_dims(n->layout)[k];
            strides[nd++] = fr_layout_strides(n->layout)[k];
        }
    return nd;
}

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

    squeezed_strides(z, r, &n->arg[0], s);
    fr_strides_keep_order(g->ndim, g->dims, 1, list, rank);
    for (int k = 0; k < g->ndim; k++) {
        g->order[k] = k;
        if (n->axes >> z->info[r].axis[k] & 1)
            mask |= 1u << k;
    }
    for (int k = 1; k < g->ndim; k++) {        /* insertion sort by falling rank */
        int ax = g->order[k];

        for (i = k; i > 0 && rank[g->order[i - 1]] < rank[ax]; i--)
            g->order[i] = g->order[i - 1];
        g->order[i] = ax;
    }
    g->reduced = mask;
    g->ordered = fr_op_info[n->op].flags & FR_OPF_ORDERED;
    if (n->op == FR_OP_argmax || n->op == FR_OP_argmin) {
        /* An index needs its axis as the row, whatever the strides. Reducing several means C order. */
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
        fill_domain(node, &z->info[n]);
        g->ndim = (uint8_t)z->info[n].ndim;
        memcpy(g->dims, z->info[n].dims, sizeof g->dims);
        g->first = g->last = n;
        g->n_members = 1;
        z->f->level[n] = FR_MEMBER_FULL;
        if (is_reduce(node))
            reduction_order(z, n, g);
        else
            g->kind = fr_op_info[node->op].class_ == FR_CLASS_SCAN ? FR_GROUP_SCAN : FR_GROUP_MAP;
        z->of[n] = z->at[n] = g;
        g->pos = n;      /* nodes are born in a topological order */
    }
    return FR_OK;
}

/* ---- memory and order --------------------------------------------------------------------- */

/* Decides for every store whether it writes over its previous version, and in which memory each value
 * lives. */
static void
place_stores(struct fuser *z, const bool *read_outside)
{
    const struct fr_graph *g = z->g;

    for (int n = 0; n < g->n_nodes; n++) {
        const struct fr_gnode *node = &g->node[n], *prev;
        int                    p;

        z->info[n].buffer = n;
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
    (void)to;
    z->info[from].n_succ++;
}

static void
add_dependence(struct fuser *z, int from, int to)
{
    z->succ[z->info[from].first_succ + z->info[from].n_succ++] = to;
}

static fr_status
link_dependences(struct fuser *z, struct fr_err *err)
{
    int total = 0;

    each_dependence(z, count_dependence);
    for (int n = 0; n < z->g->n_nodes; n++) {
        z->info[n].first_succ = total;
        total += z->info[n].n_succ;
        z->info[n].n_succ = 0;
    }
    if (!(z->succ = fr_arena_alloc(&z->f->arena, ((size_t)total + 1) * sizeof *z->succ)))
        return fr_fail(err, FR_ENOMEM, "out of memory: dependences of %d nodes", z->g->n_nodes);
    each_dependence(z, add_dependence);
    return FR_OK;
}

/* ---- legality of one merge ---------------------------------------------------------------- */

/* True if `mask` applied to D's dims leaves exactly these dims. */
static bool
keeps(const struct fr_group *d, uint32_t reduced, const struct fr_group *k)
{
    int j = 0;

    for (int i = 0; i < d->ndim; i++)
        if (!(reduced >> i & 1)) {
            if (j >= k->ndim || k->dims[j] != d->dims[i])
                return false;
            j++;
        }
    return j == k->ndim;
}

static bool
same_dims(const struct fr_group *a, const struct fr_group *b)
{
    return a->ndim == b->ndim && !memcmp(a->dims, b->dims, a->ndim * sizeof a->dims[0]);
}

/* The axes in `mask` come in the same order in both. */
static bool
same_order(const struct fr_group *a, const struct fr_group *b, uint32_t mask)
{
    int i = 0, j = 0;

    for (;;) {
        while (i < a->ndim && !(mask >> a->order[i] & 1))
            i++;
        while (j < b->ndim && !(mask >> b->order[j] & 1))
            j++;
        if (i == a->ndim || j == b->ndim)
            return i == a->ndim && j == b->ndim;
        if (a->order[i++] != b->order[j++])
            return false;
    }
}

static void
take_reduction(struct fr_group *m, const struct fr_group *from)
{
    m->kind = from->kind;
    m->reduced = from->reduced;
    m->columns = from->columns;
    m->n_inner = from->n_inner;
    m->ordered = from->ordered;
    memcpy(m->order, from->order, sizeof m->order);
}

/* A row group and a group of column sums over the same data. */
static const char *
mix(struct fr_group *m, const struct fr_group *row, const struct fr_group *col)
{
    uint32_t inner = 0;

    for (int k = row->ndim - row->n_inner; k < row->ndim; k++)
        inner |= 1u << row->order[k];
    if (row->reduced == col->reduced)
        return "reductions walk memory in different orders";
    if (col->n_inner != 0 || (col->reduced & inner) || (row->reduced & ~inner))
        return "reductions over different axes";
    if (row->kind == FR_GROUP_MIX && row->columns != col->reduced)
        return "column reductions over different axes";
    if (!same_order(row, col, col->reduced))
        return "reductions walk memory in different orders";
    take_reduction(m, row);
    m->kind = FR_GROUP_MIX;
    m->columns = col->reduced;
    m->ordered = row->ordered || col->ordered;
    return NULL;
}

/* Kind and order of a group over one domain that does what a and b do. */
static const char *
join_full(struct fr_group *m, const struct fr_group *a, const struct fr_group *b)
{
    if (b->kind == FR_GROUP_MAP) {
        take_reduction(m, a);
        return NULL;
    }
    if (a->kind == FR_GROUP_MAP) {
        take_reduction(m, b);
        return NULL;
    }
    if (b->kind == FR_GROUP_POST && (a->kind == FR_GROUP_ROW || a->kind == FR_GROUP_MIX))
        return mix(m, a, b);
    if (a->kind == FR_GROUP_POST && (b->kind == FR_GROUP_ROW || b->kind == FR_GROUP_MIX))
        return mix(m, b, a);
    if (a->reduced != b->reduced)
        return "reductions over different axes";
    if (a->n_inner != b->n_inner || !same_order(a, b, ~0u))
        return "reductions walk memory in different orders";
    if (a->kind == FR_GROUP_MIX && b->kind == FR_GROUP_MIX && a->columns != b->columns)
        return "column reductions over different axes";
    take_reduction(m, a->kind == FR_GROUP_MIX ? a : b);
    m->ordered = a->ordered || b->ordered;
    return NULL;
}

/* Fills z->merged and the levels that the members of the smaller domain get. */
static const char *
join(struct fuser *z, const struct fr_group *a, const struct fr_group *b, int *level_b)
{
    struct fr_group *m = &z->merged;

    *m = *a;
    *level_b = FR_MEMBER_FULL;
    if (same_dims(a, b))
        return join_full(m, a, b);
    if (b->kind != FR_GROUP_MAP || a->kind == FR_GROUP_MAP)
        return "different shapes";
    if (a->kind == FR_GROUP_POST && keeps(a, a->reduced, b)) {
        *level_b = FR_MEMBER_AFTER;
        return NULL;
    }
    if (a->kind == FR_GROUP_ROW && keeps(a, a->reduced, b)) {
        *level_b = FR_MEMBER_KEPT;
        return NULL;
    }
    if (a->kind == FR_GROUP_MIX) {
        /* With equal dims left over by both, the consumers decide: column results come after. */
        bool row = keeps(a, a->reduced, b), col = keeps(a, a->columns, b);

        for (int n = b->first; row && col && n >= 0; n = z->f->next[n])
            for (int k = 0; k < z->g->node[n].n_args; k++) {
                int src = z->g->node[n].arg[k].src;

                if (src >= 0 && z->of[src] == a && is_reduce(&z->g->node[src]) &&
                    z->f->level[src] == FR_MEMBER_AFTER)
                    row = false;
            }
        if (row || col) {
            *level_b = row ? FR_MEMBER_KEPT : FR_MEMBER_AFTER;
            return NULL;
        }
    }
    return "different shapes";
}

/* The level at which a member reads its arguments. */
static uint8_t
level_of(const struct fuser *z, int n)
{
    return is_reduce(&z->g->node[n]) ? FR_MEMBER_FULL : z->new_level[n];
}

/* In a MIX: is this reduction one of the column reductions? */
static bool
reduces_columns(const struct fuser *z, const struct fr_group *m, int n)
{
    const struct fr_gnode *node = &z->g->node[n];

    for (int k = 0; k < z->info[n].ndim; k++)
        if ((node->axes >> z->info[n].axis[k] & 1) && (m->columns >> k & 1))
            return true;
    return false;
}

/* The level at which a node's result exists inside the merged group. */
static int
result_level(const struct fuser *z, int n)
{
    const struct fr_gnode *node = &z->g->node[n];
    const struct fr_group *m = &z->merged;

    if (!is_reduce(node))
        return level_of(z, n);
    if (m->kind == FR_GROUP_POST)
        return FR_MEMBER_AFTER;
    return m->kind == FR_GROUP_MIX && reduces_columns(z, m, n) ? FR_MEMBER_AFTER : FR_MEMBER_KEPT;
}

/* May node c take the value of p straight from a register? */
static const char *
edge_fuses(const struct fuser *z, int p, int c, const struct fr_edge *e)
{
    int     pl = result_level(z, p), cl = level_of(z, c), nd, j = 0;
    int64_t dims[FR_MAX_DIMS], have[FR_MAX_DIMS], want[FR_MAX_DIMS];

    if (z->g->node[p].op == FR_OP_store || e->offset != 0 || e->moving >= 0)
        return "a window of the result is read";
    if (pl == FR_MEMBER_AFTER && cl != FR_MEMBER_AFTER)
        return "the reduction is complete only after the last row";
    if (pl == FR_MEMBER_FULL && cl != FR_MEMBER_FULL)
        return "different shapes";
    if (pl == FR_MEMBER_KEPT && cl == FR_MEMBER_AFTER)
        return "row results and column results do not meet";
    squeezed_strides(z, c, e, have);
    nd = result_strides(&z->g->node[p], dims, want);
    if (pl == cl) {
        if (nd != z->info[c].ndim && !(is_reduce(&z->g->node[c])))
            return "a window of the result is read";
        if (nd != z->info[c].ndim)
            return "reduces an axis of size 1";
        for (int k = 0; k < nd; k++)
            if (dims[k] != z->info[c].dims[k] || (have[k] != want[k]))
                return "the result is read in another order";
        return NULL;
    }
    /* KEPT to FULL: broadcast along the reduced axes. */
    for (int k = 0; k < z->info[c].ndim; k++) {
        if (z->merged.reduced >> k & 1) {
            if (have[k] != 0)
                return "the result is read in another order";
        } else {
            if (j >= nd || dims[j] != z->info[c].dims[k] || have[k] != want[j])
                return "the result is read in another order";
            j++;
        }
    }
    return j == nd ? NULL : "the result is read in another order";
}

static bool
in_merge(const struct fuser *z, int n)
{
    return n >= 0 && (z->of[n] == z->a || z->of[n] == z->b);
}

/* Calls fn for each member of both groups until it gives a reason. */
static const char *
each_member(struct fuser *z, const char *(*fn)(struct fuser *, int n))
{
    const char *why = NULL;

    for (int n = z->a->first; n >= 0 && !why; n = z->f->next[n])
        why = fn(z, n);
    for (int n = z->b->first; n >= 0 && !why; n = z->f->next[n])
        why = fn(z, n);
    return why;
}

static const char *
check_edges(struct fuser *z, int c)
{
    const struct fr_gnode *node = &z->g->node[c];
    const char            *why = NULL;

    for (int k = 0; k < node->n_args && !why; k++) {
        int p = node->arg[k].src;

        if (p < 0 || !in_merge(z, p))
            continue;
        if (node->op == FR_OP_store && k == 0)
            why = "stores into a result of the same kernel";
        else
            why = edge_fuses(z, p, c, &node->arg[k]);
    }
    return why;
}

static bool
runs_along_row(const struct fr_group *m, const int64_t *s)
{
    for (int i = m->ndim - m->n_inner; i + 1 < m->ndim; i++)
        if (s[m->order[i]] != s[m->order[i + 1]] * m->dims[m->order[i + 1]])
            return false;
    return true;
}

/* The row is one axis for the kernel, so every operand must run along it with one stride. */
static const char *
check_row(struct fuser *z, int c)
{
    const struct fr_group *m = &z->merged;
    const struct fr_gnode *node = &z->g->node[c];
    int64_t                s[FR_MAX_DIMS];

    if (m->n_inner < 2 || level_of(z, c) != FR_MEMBER_FULL)
        return NULL;
    if (node->op == FR_OP_iota) { /* counts along one axis and stands still along the others */
        for (int i = 0; i < m->ndim; i++)
            s[i] = z->info[c].axis[i] == (int)node->axes;
        if (!runs_along_row(m, s))
            return "an index does not count along the whole row";
    }
    for (int k = 0; k <= node->n_args; k++) {
        struct fr_edge own = {.layout = node->layout};

        if (k < node->n_args) {
            if (node->arg[k].src < 0 || in_merge(z, node->arg[k].src) ||
                (node->op == FR_OP_store && k == 0))
                continue;
            squeezed_strides(z, c, &node->arg[k], s);
        } else {
            if (is_reduce(node))
                continue;
            squeezed_strides(z, c, node->op == FR_OP_store ? &node->arg[2] : &own, s);
        }
        if (!runs_along_row(m, s))
            return "an operand does not run along the whole row with one stride";
    }
    return NULL;
}

/* A store in the group against every load of the group from the same memory. */
static const char *
check_store(struct fuser *z, int s)
{
    const struct fr_gnode *store = &z->g->node[s];
    const struct fr_edge  *w = &store->arg[2];
    struct fr_group       *both[2] = {z->a, z->b};

    if (store->op != FR_OP_store)
        return NULL;
    for (int side = 0; side < 2; side++)
        for (int n = both[side]->first; n >= 0; n = z->f->next[n]) {
            const struct fr_gnode *node = &z->g->node[n];

            for (int k = 0; k < node->n_args; k++) {
                const struct fr_edge *e = &node->arg[k];

                if (e->src < 0 || in_merge(z, e->src) || (node->op == FR_OP_store && k == 0) ||
                    z->info[e->src].buffer != z->info[s].buffer)
                    continue;
                if (e->layout == w->layout && e->offset == w->offset &&
                    z->merged.kind == FR_GROUP_MAP && domain_layout(node)->ndim == w->layout->ndim)
                    continue;
                if (fr_overlap(e->layout, e->offset, w->layout, w->offset))
                    return "stores over elements that are read elsewhere in the loop";
            }
            if (n != s && node->op == FR_OP_store && z->info[n].buffer == z->info[s].buffer)
                return "two stores into one array";
        }
    return NULL;
}

/* Is there a path from group `from` to group `to` through a third? The groups have a topological order,
 * so nothing behind `to` needs a look. After "no", z->seen marks what `from` leads to before `to`. */
static bool
path_around(struct fuser *z, struct fr_group *from, struct fr_group *to)
{
    int top = 0;

    z->stamp++;
    z->seen[from->first] = z->seen[to->first] = z->stamp;
    z->stack[top++] = from->first;
    while (top > 0) {
        int first = z->stack[--top];

        for (int n = first; n >= 0; n = z->f->next[n])
            for (int i = 0; i < z->info[n].n_succ; i++) {
                struct fr_group *s = z->of[z->succ[z->info[n].first_succ + i]];

                if (s == to && first != from->first)
                    return true;
                if (z->seen[s->first] != z->stamp && s->pos < to->pos) {
                    z->seen[s->first] = z->stamp;
                    z->stack[top++] = s->first;
                }
            }
    }
    return false;
}

/* Gives the group that a and b become its position: before what the earlier of the two leads to (the
 * last search marked it), behind everything else that stood between them. */
static void
keep_topological(struct fuser *z, struct fr_group *becomes)
{
    bool             in_order = z->a->pos < z->b->pos;
    struct fr_group *early = in_order ? z->a : z->b, *late = in_order ? z->b : z->a;
    int              from = early->pos, to = late->pos, at = from, n_later = 0;

    for (int i = from + 1; i < to; i++) {
        struct fr_group *g = z->at[i];

        if (!g)
            continue;
        if (z->seen[g->first] == z->stamp) {
            z->stack[n_later++] = g->first;
        } else {
            g->pos = at;
            z->at[at++] = g;
        }
    }
    becomes->pos = at;
    z->at[at++] = becomes;
    for (int i = 0; i < n_later; i++) {
        struct fr_group *g = z->of[z->stack[i]];

        g->pos = at;
        z->at[at++] = g;
    }
    while (at <= to)
        z->at[at++] = NULL;
}

/* An upper bound of the memory operands of a ∪ b; inputs shared by members count once. */
static bool
operands_fit(struct fuser *z)
{
    const struct fr_edge *in[FR_FUSE_OPERANDS];
    struct fr_group      *both[2] = {z->a, z->b};
    int                   n_in = 0, n_out = 0;

    if (z->a->n_members + z->b->n_members > FR_FUSE_MEMBERS)
        return false;
    for (int side = 0; side < 2; side++)
        for (int n = both[side]->first; n >= 0; n = z->f->next[n]) {
            const struct fr_gnode *node = &z->g->node[n];
            bool                   out = node->output || node->op == FR_OP_store || is_reduce(node);

            for (int i = 0; !out && i < z->info[n].n_succ; i++)
                out = !in_merge(z, z->succ[z->info[n].first_succ + i]);
            n_out += out;
            for (int k = 0; k < node->n_args; k++) {
                const struct fr_edge *e = &node->arg[k];
                int                   i;

                if (e->src < 0 || in_merge(z, e->src))
                    continue;
                for (i = 0; i < n_in; i++)
                    if (in[i]->src == e->src && in[i]->layout == e->layout &&
                        in[i]->offset == e->offset && in[i]->moving == e->moving)
                        break;
                if (i == n_in) {
                    if (n_in == FR_FUSE_OPERANDS)
                        return false;
                    in[n_in++] = e;
                }
            }
        }
    return n_in + n_out <= FR_FUSE_OPERANDS;
}

static void
set_levels(struct fuser *z, const struct fr_group *g, int level)
{
    for (int n = g->first; n >= 0; n = z->f->next[n])
        z->new_level[n] = z->f->level[n] == FR_MEMBER_FULL ? (uint8_t)level : z->f->level[n];
}

/* NULL if `big` and `small` may be one group, with z->merged and z->new_level filled. */
static const char *
legal(struct fuser *z, struct fr_group *big, struct fr_group *small)
{
    const char *why;
    int         level_small;

    z->a = big;
    z->b = small;
    if (big->kind == FR_GROUP_SCAN || small->kind == FR_GROUP_SCAN)
        return "a scan runs alone";
    if ((why = join(z, big, small, &level_small)))
        return why;
    set_levels(z, big, FR_MEMBER_FULL);
    set_levels(z, small, level_small);
    if ((why = each_member(z, check_edges)) || (why = each_member(z, check_row)) ||
        (why = each_member(z, check_store)))
        return why;
    if (!operands_fit(z))
        return "too many operands for one kernel";
    if (big->pos < small->pos ? path_around(z, big, small) : path_around(z, small, big))
        return "another kernel stands between the two";
    return NULL;
}

static void
merge(struct fuser *z)
{
    struct fr_group *a = z->a, *b = z->b, m = z->merged;
    int              i = a->first, j = b->first, *link = &m.first;

    keep_topological(z, a);
    m.pos = a->pos;
    /* Members stay in order of birth. */
    while (i >= 0 || j >= 0) {
        int *from = j < 0 || (i >= 0 && i < j) ? &i : &j, n = *from;

        *from = z->f->next[n];
        *link = n;
        link = &z->f->next[n];
        m.last = n;
        z->of[n] = a;
        z->f->level[n] = z->new_level[n];
    }
    *link = -1;
    m.n_members = a->n_members + b->n_members;
    *a = m;
    b->n_members = 0;
    /* In a MIX the level tells the two sorts of reductions apart. */
    for (int n = a->first; a->kind == FR_GROUP_MIX && n >= 0; n = z->f->next[n])
        if (is_reduce(&z->g->node[n]))
            z->f->level[n] = reduces_columns(z, a, n) ? FR_MEMBER_AFTER : FR_MEMBER_FULL;
}

/* ---- candidates --------------------------------------------------------------------------- */

struct candidate {
    int64_t weight;      /* bytes that no longer move */
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

/* Producer and consumer; and consecutive readers of one memory through one window. */
static int
collect(const struct fuser *z, struct candidate *c, int *last_reader)
{
    const struct fr_graph *g = z->g;
    int                    n_c = 0;

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
                c[n_c] = (struct candidate){2 * bytes, e->src, n, n_c};
                n_c++;
            }
            if (last_reader[e->src] >= 0 && last_reader[e->src] != n) {
                c[n_c] = (struct candidate){bytes, last_reader[e->src], n, n_c};
                n_c++;
            }
            last_reader[e->src] = n;
        }
    }
    qsort(c, (size_t)n_c, sizeof *c, heaviest_first);
    return n_c;
}

static fr_status
merge_all(struct fuser *z, struct fr_err *err)
{
    size_t            cap = (size_t)z->g->n_nodes * 6 + 1;
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
    n = collect(z, c, last);
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
                      ? legal(z, b, a)
                      : legal(z, a, b);
            if (!why) {
                merge(z);
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
    z.info = fr_calloc(n, sizeof *z.info);
    z.of = fr_calloc(n, sizeof *z.of);
    z.at = fr_calloc(n, sizeof *z.at);
    z.seen = fr_calloc(n, sizeof *z.seen);
    z.stack = fr_malloc(n * sizeof *z.stack);
    z.new_level = fr_calloc(n, 1);
    if (!f->group || !f->group_of || !f->level || !f->next || !f->in_place || !f->why || !z.info ||
        !z.of || !z.at || !z.seen || !z.stack || !z.new_level) {
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
    fr_free(z.at);
    fr_free(z.seen);
    fr_free(z.stack);
    fr_free(z.new_level);
    return st;
}

/* ---- text --------------------------------------------------------------------------------- */

struct text {
    char  *out;
    size_t cap;
    int    len;
};

__attribute__((format(printf, 2, 3))) static void
put(struct text *t, const char *fmt, ...)
{
    bool    room = t->out && (size_t)t->len < t->cap;
    va_list ap;

    va_start(ap, fmt);
    t->len += vsnprintf(room ? t->out + t->len : NULL, room ? t->cap - (size_t)t->len : 0, fmt, ap);
    va_end(ap);
}

static bool
is_read_by_another(const struct fr_graph *g, const struct fr_fusion *f, int n)
{
    for (int r = n + 1; r < g->n_nodes; r++)
        for (int k = 0; f->group_of[r] >= 0 && k < g->node[r].n_args; k++)
            if (g->node[r].arg[k].src == n && f->group_of[r] != f->group_of[n])
                return true;
    return false;
}

/* What a group reads, each node once, at its first reader. */
static void
put_reads(struct text *t, const struct fr_graph *g, const struct fr_fusion *f, int first)
{
    const char *word = " reads";

    for (int n = first; n >= 0; n = f->next[n])
        for (int k = 0; k < g->node[n].n_args; k++) {
            int  src = g->node[n].arg[k].src;
            bool known = src < 0 || f->group_of[src] == f->group_of[n] ||
                         (g->node[n].op == FR_OP_store && k == 0);

            for (int m = first; !known; m = f->next[m]) {
                for (int j = 0; !known && j < (m == n ? k : g->node[m].n_args); j++)
                    known = g->node[m].arg[j].src == src && (g->node[m].op != FR_OP_store || j);
                if (m == n)
                    break;
            }
            if (!known) {
                put(t, "%s %%%d", word, src);
                word = "";
            }
        }
}

static void
put_writes(struct text *t, const struct fr_graph *g, const struct fr_fusion *f,
           const struct fr_group *grp)
{
    const char *word = " writes";

    for (int n = grp->first; n >= 0; n = f->next[n]) {
        const struct fr_gnode *node = &g->node[n];
        bool late = is_reduce(node) && (grp->kind == FR_GROUP_POST || f->level[n] == FR_MEMBER_AFTER);

        if (!node->output && node->op != FR_OP_store && !late && !is_read_by_another(g, f, n))
            continue;
        put(t, "%s %%%d", word, n);
        if (node->op == FR_OP_store)
            put(t, f->in_place[n] ? " over %%%d" : " in a copy of %%%d", node->arg[0].src);
        word = "";
    }
}

int
fr_fusion_print(const struct fr_graph *g, const struct fr_fusion *f, char *out, size_t cap)
{
    static const char *const kinds[] = {"map", "row", "post", "mix", "scan"};
    struct text              t = {out, cap, 0};

    for (int i = 0; i < f->n_groups; i++) {
        const struct fr_group *grp = f->group[i];

        put(&t, "group %d = {", i);
        for (int n = grp->first; n >= 0; n = f->next[n])
            put(&t, "%s%%%d%s", n == grp->first ? "" : " ", n,
                f->level[n] == FR_MEMBER_KEPT ? "'" : f->level[n] == FR_MEMBER_AFTER ? "\"" : "");
        put(&t, "} %s", kinds[grp->kind]);
        put_reads(&t, g, f, grp->first);
        put_writes(&t, g, f, grp);
        if (f->why[i])
            put(&t, "  # apart: %s", f->why[i]);
        put(&t, "\n");
    }
    return t.len;
}
