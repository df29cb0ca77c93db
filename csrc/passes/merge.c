/* When two groups may become one, and how they do; see the list at the top of fuse.c. */
#include "passes/fuser.h"

#include <stdlib.h>
#include <string.h>

#include "passes/nest_limits.h"

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
    return a->ndim == b->ndim &&
           (a->dims == b->dims || !memcmp(a->dims, b->dims, a->ndim * sizeof a->dims[0]));
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

/* Fills z->merged and the level that the FULL members of b get. */
static const char *
join(struct fuser *z, const struct fr_group *a, const struct fr_group *b)
{
    struct fr_group *m = &z->merged;

    *m = *a;
    z->level_b = FR_MEMBER_FULL;
    if (same_dims(a, b))
        return join_full(m, a, b);
    if (b->kind != FR_GROUP_MAP || a->kind == FR_GROUP_MAP)
        return "different shapes";
    if (a->kind == FR_GROUP_POST && keeps(a, a->reduced, b)) {
        z->level_b = FR_MEMBER_AFTER;
        return NULL;
    }
    if (a->kind == FR_GROUP_ROW && keeps(a, a->reduced, b)) {
        z->level_b = FR_MEMBER_KEPT;
        return NULL;
    }
    if (a->kind == FR_GROUP_MIX) {
        /* With equal dims left over by both, the consumers decide: column results come after. */
        bool row = keeps(a, a->reduced, b), col = keeps(a, a->columns, b);

        for (int n = b->first; row && col && n >= 0; n = z->f->next[n])
            for (int k = 0; k < z->g->node[n].n_args; k++) {
                int src = z->g->node[n].arg[k].src;

                if (src >= 0 && z->of[src] == a && fr_op_reduces(z->g->node[src].op) &&
                    z->f->level[src] == FR_MEMBER_AFTER)
                    row = false;
            }
        if (row || col) {
            z->level_b = row ? FR_MEMBER_KEPT : FR_MEMBER_AFTER;
            return NULL;
        }
    }
    return "different shapes";
}

/* The level that a member has in the merged group. */
static uint8_t
new_level(const struct fuser *z, int n)
{
    uint8_t level = z->f->level[n];

    return level == FR_MEMBER_FULL && z->of[n] == z->b ? z->level_b : level;
}

/* The level at which a member reads its arguments. */
static uint8_t
level_of(const struct fuser *z, int n)
{
    return fr_op_reduces(z->g->node[n].op) ? FR_MEMBER_FULL : new_level(z, n);
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

    if (!fr_op_reduces(node->op))
        return level_of(z, n);
    if (m->kind == FR_GROUP_POST)
        return FR_MEMBER_AFTER;
    return m->kind == FR_GROUP_MIX && reduces_columns(z, m, n) ? FR_MEMBER_AFTER : FR_MEMBER_KEPT;
}

/* As nearly always: a map reads the whole of another over its own domain, as it lies. */
static inline bool
fuses_at_once(const struct fuser *z, const struct fr_gnode *node, int k)
{
    const struct fr_edge *e = &node->arg[k];

    return z->merged.kind == FR_GROUP_MAP && e->whole && node->op != FR_OP_store &&
           z->g->node[e->src].op != FR_OP_store && fr_layout_same_dims(e->layout, node->layout);
}

static bool in_merge(const struct fuser *z, int n) { return n >= 0 && (z->of[n] == z->a || z->of[n] == z->b); }

/* Whether `by` reads what `other` has made or reads, too; a store's array does not count. Readers are looked through
 * where they are not thousands, for planning stays linear. */
static bool
reads_the_same(const struct fuser *z, const struct fr_group *by, const struct fr_group *other)
{
    enum { MANY = 256 };

    for (int n = by->first; n >= 0; n = z->f->next[n])
        for (int k = z->g->node[n].op == FR_OP_store; k < z->g->node[n].n_args; k++) {
            int src = z->g->node[n].arg[k].src, i, end;

            if (src < 0 || z->of[src] == by)
                continue;
            if (z->of[src] == other)
                return true;
            i = z->readers.first[src];
            end = z->readers.first[src + 1];
            while (end - i <= MANY && i < end)
                if (z->of[z->readers.node[i++]] == other)
                    return true;
        }
    return false;
}

/* Whether what is stored into one window lies between what is stored into the other one, and in the same cache lines: each
 * of those is then written once, and read before it is. */
static bool
interlace(const struct fr_edge *w, const struct fr_edge *v, fr_dtype d)
{
    enum { LINE = 64 };
    int64_t step = INT64_MAX, apart = w->offset < v->offset ? v->offset - w->offset : w->offset - v->offset;

    for (int k = 0; k < w->layout->ndim; k++) {
        int64_t s = fr_layout_strides(w->layout)[k];

        if (fr_layout_dims(w->layout)[k] > 1 && s && (s < 0 ? -s : s) < step)
            step = s < 0 ? -s : s;
    }
    return step <= LINE && step * fr_dtype_size(d) <= LINE && apart < step;
}

/* A store into another window of what store p of the merge has made, as for the columns of one array: worth while where
 * both read the same, which then is read once, or where the windows interlace. */
static const char *
check_base(const struct fuser *z, int c, int p)
{
    const struct fr_edge *w = &z->g->node[c].arg[2], *v = &z->g->node[p].arg[2];

    if (z->g->node[p].op != FR_OP_store || !z->f->in_place[c])
        return "stores into a result of the same kernel";
    if (w->layout != v->layout || fr_edges_meet(w, v))
        return "stores into another part of the same array";
    if (interlace(w, v, z->g->node[c].dtype))
        return NULL;
    if (!in_merge(z, z->g->node[c].arg[1].src) || !in_merge(z, z->g->node[p].arg[1].src) ||
        !(reads_the_same(z, z->a, z->b) || reads_the_same(z, z->b, z->a)))
        return "stores elsewhere in the same array, and reads nothing of the same";
    return NULL;
}

/* May node c, of the same group then, take the value of its argument k straight from a register? */
static const char *
edge_fuses(const struct fuser *z, int c, int k)
{
    const struct fr_edge *e = &z->g->node[c].arg[k];
    int                   p = e->src, pl = result_level(z, p), cl = level_of(z, c), nd, j = 0;
    int64_t               dims[FR_MAX_DIMS], have[FR_MAX_DIMS], want[FR_MAX_DIMS];

    if (z->g->node[c].op == FR_OP_store && k == 0)
        return check_base(z, c, p);
    if (z->g->node[p].op == FR_OP_store || e->offset != 0 || e->moving >= 0)
        return "a window of the result is read";
    if (pl == FR_MEMBER_AFTER && cl != FR_MEMBER_AFTER)
        return "the reduction is complete only after the last row";
    if (pl == FR_MEMBER_FULL && cl != FR_MEMBER_FULL)
        return "different shapes";
    if (pl == FR_MEMBER_KEPT && cl == FR_MEMBER_AFTER)
        return "row results and column results do not meet";
    if (pl == cl && e->layout == z->g->node[p].layout && !fr_op_reduces(z->g->node[c].op) &&
        fr_layout_same_dims(e->layout, fr_gnode_domain(&z->g->node[c])))
        return NULL; /* the whole result, as it lies */
    fr_domain_strides(z, c, e, have);
    nd = result_strides(&z->g->node[p], dims, want);
    if (pl == cl) {
        if (nd != z->info[c].ndim && !fr_op_reduces(z->g->node[c].op))
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

/* Why member c may not read what it reads of the members of `from`, or NULL. */
static const char *
check_edges_from(const struct fuser *z, const struct fr_group *from, int c)
{
    const struct fr_gnode *node = &z->g->node[c];
    const char            *why = NULL;

    for (int k = 0; k < node->n_args && !why; k++)
        if (node->arg[k].src >= 0 && z->of[node->arg[k].src] == from) {
            FR_ASSERT(!fuses_at_once(z, node, k) || !edge_fuses(z, c, k));
            why = fuses_at_once(z, node, k) ? NULL : edge_fuses(z, c, k);
        }
    return why;
}

/* What members of `by` read of node n, which is in `from`; looks at the readers or the members,
 * whichever are fewer. */
static const char *
check_readers(const struct fuser *z, const struct fr_group *from, int n, const struct fr_group *by)
{
    const int *reader = z->readers.node + z->readers.first[n],
              *end = z->readers.node + z->readers.first[n + 1];
    const char *why = NULL;

    if (end - reader > by->n_members) {
        for (int m = by->first; m >= 0 && !why; m = z->f->next[m])
            why = check_edges_from(z, from, m);
        return why;
    }
    for (; reader < end && !why; reader++)
        if (z->of[*reader] == by)
            why = check_edges_from(z, from, *reader);
    return why;
}

/* The edges between the two groups; looks at the members of the one that has fewer. */
static const char *
check_edges_between(const struct fuser *z)
{
    const struct fr_group *few = z->a->n_members < z->b->n_members ? z->a : z->b,
                          *many = few == z->a ? z->b : z->a;
    const char *why = NULL;

    for (int n = few->first; n >= 0 && !why; n = z->f->next[n])
        if (!(why = check_edges_from(z, many, n)))
            why = check_readers(z, few, n, many);
    return why;
}

/* The edges inside of one group, if the merge changes what its reductions are. */
static const char *
check_edges_inside(const struct fuser *z, const struct fr_group *g)
{
    const char *why = NULL;

    for (int n = g->first; n >= 0 && !why; n = z->f->next[n])
        why = check_edges_from(z, g, n);
    return why;
}

/* Whether the merged group walks as `g` did. */
static bool
same_walk(const struct fr_group *m, const struct fr_group *g)
{
    return m->kind == g->kind && m->ndim == g->ndim && m->reduced == g->reduced &&
           m->columns == g->columns && m->n_inner == g->n_inner &&
           (m->kind == FR_GROUP_MAP || !memcmp(m->order, g->order, m->ndim * sizeof m->order[0]));
}

static bool
runs_along_row(const struct fr_group *m, const int64_t *s)
{
    for (int i = m->ndim - m->n_inner; i + 1 < m->ndim; i++)
        if (s[m->order[i]] != s[m->order[i + 1]] * m->dims[m->order[i + 1]])
            return false;
    return true;
}

static const char *
check_member_row(const struct fuser *z, int c)
{
    const struct fr_group *m = &z->merged;
    const struct fr_gnode *node = &z->g->node[c];
    int64_t                s[FR_MAX_DIMS];

    if (level_of(z, c) != FR_MEMBER_FULL)
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
            if (node->arg[k].src < 0 || in_merge(z, node->arg[k].src) || (node->op == FR_OP_store && k == 0))
                continue;
            fr_domain_strides(z, c, &node->arg[k], s);
        } else {
            if (fr_op_reduces(node->op))
                continue;
            fr_domain_strides(z, c, node->op == FR_OP_store ? &node->arg[2] : &own, s);
        }
        if (!runs_along_row(m, s))
            return "an operand does not run along the whole row with one stride";
    }
    return NULL;
}

/* The row is one axis for the kernel, so every operand must run along it with one stride. */
static const char *
check_row(const struct fuser *z, const struct fr_group *g)
{
    const char *why = NULL;

    for (int n = g->first; n >= 0 && !why; n = z->f->next[n])
        why = check_member_row(z, n);
    return why;
}

/* A store in the merged group against every load of the group's part `with` from the same memory.
 */
static const char *
check_store(const struct fuser *z, int s, const struct fr_group *with)
{
    const struct fr_edge *w = &z->g->node[s].arg[2];

    for (int n = with->first; n >= 0; n = z->f->next[n]) {
        const struct fr_gnode *node = &z->g->node[n];

        for (int k = 0; k < node->n_args; k++) {
            const struct fr_edge *e = &node->arg[k];

            if (e->src < 0 || in_merge(z, e->src) || (node->op == FR_OP_store && k == 0) ||
                z->info[e->src].buffer != z->info[s].buffer)
                continue;
            if (fr_edges_same(e, w) && z->merged.kind == FR_GROUP_MAP && fr_gnode_domain(node)->ndim == w->layout->ndim)
                continue;
            if (fr_edges_meet(e, w))
                return "stores over elements that are read elsewhere in the loop";
        }
        if (n != s && node->op == FR_OP_store && z->info[n].buffer == z->info[s].buffer &&
            fr_edges_meet(&node->arg[2], w))
            return "two stores into one part of an array";
    }
    return NULL;
}

static const char *
check_stores(const struct fuser *z, const struct fr_group *g, const struct fr_group *with)
{
    const char *why = NULL;

    if (g->n_stores == 0)
        return NULL;
    for (int n = g->first; n >= 0 && !why; n = z->f->next[n])
        if (z->g->node[n].op == FR_OP_store)
            why = check_store(z, n, with);
    return why;
}

/* Notes that what is before `to` comes from g. True if that makes a way round. */
static inline bool
reach(struct fuser *z, struct fr_group *g, const struct fr_group *from, bool around)
{
    if (g == from)
        return around;
    if (g && g->pos > from->pos && z->seen[g->first] != z->stamp) {
        z->seen[g->first] = z->stamp;
        z->before[z->n_before++] = g;
    }
    return false;
}

/* The same for all that node n waits for: arguments, and readers of what it stores over. */
static bool
reach_back(struct fuser *z, int n, const struct fr_group *from, bool around)
{
    const struct fr_gnode *node = &z->g->node[n];

    for (int k = 0; k < node->n_args; k++)
        if (node->arg[k].src >= 0 && reach(z, z->of[node->arg[k].src], from, around))
            return true;
    if (fr_fuser_stores_over(z, n))
        for (int i = z->readers.first[node->arg[0].src]; z->readers.node[i] < n; i++)
            if (reach(z, z->of[z->readers.node[i]], from, around))
                return true;
    return false;
}

/* Is there a path from group `from` to group `to` through a third? Positions are a topological
 * order, so only what stands between the two is looked at; from `to` backwards, because a node has
 * few arguments and may have thousands of readers. After "no", z->before lists `to` and what leads
 * to it from between the two, and z->seen marks them. */
static bool
path_around(struct fuser *z, struct fr_group *from, struct fr_group *to)
{
    z->stamp++;
    z->seen[to->first] = z->stamp;
    z->before[0] = to;
    z->n_before = 1;
    for (int k = 0; k < z->n_before; k++)
        for (int n = z->before[k]->first; n >= 0; n = z->f->next[n])
            if (reach_back(z, n, from, k > 0))
                return true;
    return false;
}

/* Fills z->after with `from` and what it leads to before position `end`. */
static int
find_after(struct fuser *z, struct fr_group *from, int end)
{
    int n_after = 1;

    z->seen[from->first] = z->stamp;
    z->after[0] = from;
    for (int k = 0; k < n_after; k++)
        for (int n = z->after[k]->first; n >= 0; n = z->f->next[n])
            for (int i = 0; i < fr_fuser_n_after(z, n); i++) {
                int              later = fr_fuser_after(z, n, i);
                struct fr_group *g = later < 0 ? NULL : z->of[later];

                if (g && z->seen[g->first] != z->stamp && g->pos < end) {
                    z->seen[g->first] = z->stamp;
                    z->after[n_after++] = g;
                }
            }
    return n_after;
}

/* Whether every group stands behind those that it waits for. Of many only the merged one is looked at. */
static FR_DEBUG_ONLY bool
is_topological(const struct fuser *z, const struct fr_group *merged)
{
    enum { FEW = 512 };

    for (int n = 0; n < z->g->n_nodes; n++) {
        const struct fr_gnode *node = &z->g->node[n];
        const struct fr_group *g = z->of[n];

        if (!g || (g != merged && z->g->n_nodes > FEW))
            continue;
        for (int k = 0; k < node->n_args; k++) {
            const struct fr_group *from = node->arg[k].src < 0 ? NULL : z->of[node->arg[k].src];

            if (from && from != g && from->pos >= g->pos)
                return false;
        }
        if (fr_fuser_stores_over(z, n))
            for (int i = z->readers.first[node->arg[0].src]; z->readers.node[i] < n; i++) {
                const struct fr_group *reader = z->of[z->readers.node[i]];

                if (reader && reader != g && reader->pos >= g->pos)
                    return false;
            }
    }
    return true;
}

static int
by_position(const void *x, const void *y)
{
    const struct fr_group *a = *(struct fr_group *const *)x, *b = *(struct fr_group *const *)y;

    return a->pos < b->pos ? -1 : a->pos > b->pos;
}

/* Gives the group that a and b become its position, behind what leads to the later of the two (the
 * last search found it) and before what the earlier one leads to: mostly where the earlier one was.
 * Else they share the positions that they had; whatever else stands between keeps its own. */
static void
keep_topological(struct fuser *z, struct fr_group *becomes)
{
    bool             in_order = z->a->pos < z->b->pos;
    struct fr_group *early = in_order ? z->a : z->b, *late = in_order ? z->b : z->a;
    int              n_after, n = 0, at = 0;

    if (z->n_before == 1) {
        becomes->pos = early->pos;
        return;
    }
    n_after = find_after(z, early, late->pos);
    qsort(z->before, (size_t)z->n_before, sizeof *z->before, by_position); /* `late` comes last */
    qsort(z->after, (size_t)n_after, sizeof *z->after, by_position);       /* `early` comes first */
    for (int i = 0, k = 0; i < z->n_before || k < n_after;)
        z->position[n++] = k == n_after || (i < z->n_before && z->before[i]->pos < z->after[k]->pos)
                               ? z->before[i++]->pos
                               : z->after[k++]->pos;
    for (int i = 0; i + 1 < z->n_before; i++)
        z->before[i]->pos = z->position[at++];
    becomes->pos = z->position[at++];
    for (int k = 1; k < n_after; k++)
        z->after[k]->pos = z->position[at++];
}

/* Whether the memory operands of a ∪ b fit a kernel; inputs shared by members count once. Counts
 * only if the sum of what was counted before does not settle it. */
static bool
operands_fit(struct fuser *z)
{
    const struct fr_edge *in[FR_FUSE_OPERANDS];
    struct fr_group      *both[2] = {z->a, z->b};
    int                   n_in = 0, n_out = 0;

    if (z->a->n_members + z->b->n_members > FR_FUSE_MEMBERS)
        return false;
    z->merged.n_operands = z->a->n_operands + z->b->n_operands;
    if (z->merged.n_operands <= FR_FUSE_OPERANDS)
        return true;
    for (int side = 0; side < 2; side++)
        for (int n = both[side]->first; n >= 0; n = z->f->next[n]) {
            const struct fr_gnode *node = &z->g->node[n];
            bool out = node->output || node->op == FR_OP_store || fr_op_reduces(node->op);

            for (int i = 0, n_after = fr_fuser_n_after(z, n); !out && i < n_after; i++) {
                int later = fr_fuser_after(z, n, i);

                out = later >= 0 && !in_merge(z, later);
            }
            n_out += out;
            for (int k = 0; k < node->n_args; k++) {
                const struct fr_edge *e = &node->arg[k];
                int                   i;

                if (e->src < 0 || in_merge(z, e->src))
                    continue;
                for (i = 0; i < n_in; i++)
                    if (in[i]->src == e->src && fr_edges_same(in[i], e))
                        break;
                if (i == n_in) {
                    if (n_in == FR_FUSE_OPERANDS)
                        return false;
                    in[n_in++] = e;
                }
            }
        }
    z->merged.n_operands = n_in + n_out;
    return n_in + n_out <= FR_FUSE_OPERANDS;
}

/* What a group that had passed the checks has to pass as a part of the merged one: again, if that
 * walks in another way; and beside the other part. The edges of a MAP join equal levels, and those
 * stay equal. */
static const char *
check_part(const struct fuser *z, const struct fr_group *g)
{
    const char *why = NULL;
    bool        walks_anew = !same_walk(&z->merged, g);

    if (walks_anew) {
        if (g->kind != FR_GROUP_MAP)
            why = check_edges_inside(z, g);
        if (!why && z->merged.n_inner >= 2)
            why = check_row(z, g);
    }
    if (!why && (walks_anew || g->n_members == 1)) /* one that is alone was never checked */
        why = check_stores(z, g, g);
    return why ? why : check_stores(z, g, g == z->a ? z->b : z->a);
}

/* The kept axes but for the innermost; false unless those are two. */
static bool
find_outer(const struct fr_group *m, int outer[2])
{
    int n = 0;

    for (int i = 0; i + 1 < m->ndim; i++)
        if (m->dims[m->order[i]] != 1 && !(m->reduced >> m->order[i] & 1)) {
            if (n == 2)
                return false;
            outer[n++] = m->order[i];
        }
    return n == 2;
}

/* Whether those are one axis to all that the merged group reads. */
static bool
outer_are_one(const struct fuser *z, const int outer[2])
{
    const struct fr_group *both[2] = {z->a, z->b}, *m = &z->merged;
    int64_t                s[FR_MAX_DIMS];

    for (int side = 0; side < 2; side++)
        for (int c = both[side]->first; c >= 0; c = z->f->next[c]) {
            const struct fr_gnode *node = &z->g->node[c];

            for (int k = 0; level_of(z, c) == FR_MEMBER_FULL && k < node->n_args; k++) {
                if (node->arg[k].src < 0 || in_merge(z, node->arg[k].src))
                    continue;
                fr_domain_strides(z, c, &node->arg[k], s);
                if (s[outer[0]] != s[outer[1]] * m->dims[outer[1]])
                    return false;
            }
        }
    return true;
}

/* Whether accumulating what a map makes would be walked in bits: products of many small matrices, (a[:, :, :, None] *
 * b[:, None]).sum(2), where each row of few elements meets others along each of two axes. By itself the map is one long
 * row for each of its steps, and neighbours are accumulated abreast: 3 x 3 f32 in a fourth of the time. */
static bool
walks_in_bits(const struct fuser *z)
{
    const struct fr_group *m = &z->merged;
    const int64_t          size = fr_dtype_size(z->g->node[z->a->first].dtype);
    int                    outer[2];
    int64_t                longest, few = 1;

    if (m->kind != FR_GROUP_POST || m->ndim < 4 || (z->a->kind == FR_GROUP_MAP) == (z->b->kind == FR_GROUP_MAP) ||
        m->reduced >> m->order[m->ndim - 1] & 1 || !find_outer(m, outer))
        return false;
    longest = m->dims[outer[0]] > m->dims[outer[1]] ? m->dims[outer[0]] : m->dims[outer[1]];
    for (int i = 0; i < m->ndim; i++)
        few *= m->dims[i];
    return longest >= FR_JOIN_ROWS && few / longest * size <= FR_JOIN_MOST &&
           m->dims[m->order[m->ndim - 1]] * size <= FR_JOIN_BYTES && !outer_are_one(z, outer);
}

const char *
fr_merge_legal(struct fuser *z, struct fr_group *big, struct fr_group *small)
{
    static const char too_many[] = "too many operands for one kernel";
    const char       *why;
    bool              walk_as_they_did; /* and store nothing: they pass as parts */

    z->a = big;
    z->b = small;
    if (big->kind == FR_GROUP_SCAN || small->kind == FR_GROUP_SCAN)
        return "a scan runs alone";
    if (big->kind == FR_GROUP_CALL || small->kind == FR_GROUP_CALL)
        return "the neighbour is no loop nest";
    if ((why = join(z, big, small)))
        return why;
    if (walks_in_bits(z))
        return "few elements for each of two axes: apart, each is one long row";
    /* Among thousands of results nearly every pair is refused here, without a look at the members.
     */
    if (big->n_results + small->n_results > FR_FUSE_OPERANDS)
        return too_many;
    walk_as_they_did = z->merged.kind == FR_GROUP_MAP && big->n_stores + small->n_stores == 0;
    why = check_edges_between(z);
    FR_ASSERT(why || !walk_as_they_did || (!check_part(z, big) && !check_part(z, small)));
    if (why || (!walk_as_they_did && ((why = check_part(z, big)) || (why = check_part(z, small)))))
        return why;
    if (!operands_fit(z))
        return too_many;
    if (big->pos < small->pos ? path_around(z, big, small) : path_around(z, small, big))
        return "another kernel stands between the two";
    return NULL;
}

/* The members of both in order of birth, as one list. */
static void
link_members(struct fuser *z, struct fr_group *m)
{
    int *next = z->f->next, i = z->a->first, j = z->b->first, *link = &m->first;

    if (z->a->last < z->b->first || z->b->last < z->a->first) { /* one after the other */
        const struct fr_group *early = z->a->last < z->b->first ? z->a : z->b,
                              *late = early == z->a ? z->b : z->a;

        next[early->last] = late->first;
        m->first = early->first;
        m->last = late->last;
        return;
    }
    while (i >= 0 || j >= 0) {
        int *from = j < 0 || (i >= 0 && i < j) ? &i : &j, n = *from;

        *from = next[n];
        *link = n;
        link = &next[n];
        m->last = n;
    }
    *link = -1;
}

void
fr_merge_apply(struct fuser *z)
{
    struct fr_group *a = z->a, *b = z->b, *m = &z->merged,
                    *stays = a->n_members < b->n_members ? b : a, *goes = stays == a ? b : a;

    keep_topological(z, stays);
    for (int n = b->first; n >= 0 && z->level_b != FR_MEMBER_FULL; n = z->f->next[n])
        z->f->level[n] = new_level(z, n);
    for (int n = goes->first; n >= 0; n = z->f->next[n])
        z->of[n] = stays;
    m->pos = stays->pos;
    m->n_members = a->n_members + b->n_members;
    m->n_stores = a->n_stores + b->n_stores;
    m->n_results = a->n_results + b->n_results;
    link_members(z, m);
    *stays = *m;
    goes->n_members = 0;
    /* In a MIX the level tells the two sorts of reductions apart. */
    for (int n = m->first; m->kind == FR_GROUP_MIX && n >= 0; n = z->f->next[n])
        if (fr_op_reduces(z->g->node[n].op))
            z->f->level[n] = reduces_columns(z, stays, n) ? FR_MEMBER_AFTER : FR_MEMBER_FULL;
    FR_ASSERT(is_topological(z, stays));
}
