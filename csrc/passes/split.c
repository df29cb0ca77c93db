/* Splitting axes, so that what is reshaped on its way is walked in one shape:
 *
 *     %2 = multiply f32[2048,32] %0 %1{[2048,1]}           %2 = multiply f32[128,16,32] %0{...} %1{[128,16,1]}
 *     %4 = add f32[128,512] %2{[128,512]} %3{[512]}  --->  %4 = add f32[128,16,32] %2 %3{[16,32]}
 *
 * A shape cuts the elements, which lie in a row, at the products of its last dims. Two shapes of one size have a common
 * refinement if the cuts of both divide one another; then each axis of either is split at the cuts that fall inside of
 * it, which any window of memory allows. Axes that are one axis to a nest are split alike: where a node is read as it is,
 * where a reduction keeps them, and where two nodes read the same. So nothing that was one nest is two.
 *
 * What is shown several times, as an image by two repeats, is reshaped like what is shown once; the axes along which it
 * is repeated are not cut.
 *
 * Rows that become short cost more than a kernel saves where they meet others at another pace, as %3 above would if rr had
 * four columns. So what reads anything but whole results in a row keeps its rows unless they stay long. (Axes that need not
 * have been split are joined again by jit/lower.c, for each kernel.) */
#include "passes/split.h"

#include <string.h>

enum { ROUNDS = 8,       /* through all that is reshaped: a cut may go on to what was looked at before */
       MAX_CUTS = 8,     /* of one axis */
       LONG_ROW = 256 }; /* bytes */

/* Where an axis, or several that lie in a row, is cut, from the innermost on; each divides the next one and the extent. */
struct cuts {
    int     n;
    int64_t at[MAX_CUTS];
};

/* Axes that are one to a nest are of one class. */
struct class_ {
    struct cuts cuts;
    int64_t     extent;
    bool        whole;      /* it cannot be split; */
    bool        keeps_long; /* and not into short rows: not all that is walked along it lies in a row */
};

struct splitter {
    struct fr_graph *g;
    int             *first;     /* [n_nodes + 1] the number of each node's first axis, of those that it walks */
    int             *same;      /* [n_axes] another axis of the class, or itself; then the number of the class */
    int             *last;      /* [n_nodes] while classes are made: who read each node before, and by which argument */
    struct class_   *class_;    /* [n_classes] */
    int              n_classes;
    struct fr_arena  scratch;
};

/* Whether it is a part of loop nests. */
static bool
walks(const struct fr_gnode *n)
{
    return !n->dead && (fr_op_by_element(n->op) || fr_op_reduces(n->op) || n->op == FR_OP_store || n->op == FR_OP_iota);
}

/* Whether the argument is read along the axes that node n walks. */
static bool
walks_argument(const struct fr_gnode *n, int k)
{
    return n->arg[k].src >= 0 && !(n->op == FR_OP_store && k == 0);
}

/* ---- windows ------------------------------------------------------------------------------ */

/* Whether edge e shows what a node of a nest makes. */
static bool
shows_a_result(const struct fr_graph *g, const struct fr_edge *e)
{
    return walks(&g->node[e->src]) && g->node[e->src].op != FR_OP_store;
}

/* Whether the edge repeats what it shows along axis k. */
static bool repeats(const struct fr_layout *l, int k) { return fr_layout_strides(l)[k] == 0; }

/* The dims that are not 1, of what the layout does not repeat. False: those elements do not lie in a row. */
static bool
dims_in_a_row(const struct fr_layout *l, int *n, int64_t *out)
{
    int64_t inner = 1;

    *n = 0;
    for (int k = l->ndim; k-- > 0;) {
        if (fr_layout_dims(l)[k] == 1 || repeats(l, k))
            continue;
        if (fr_layout_strides(l)[k] != inner)
            return false;
        inner *= fr_layout_dims(l)[k];
        out[(*n)++] = fr_layout_dims(l)[k];
    }
    return true;
}

/* Whether all elements of what another node of a nest makes are shown one after the other, in another shape; perhaps
 * each several times. */
static bool
is_reshaped(const struct fr_graph *g, const struct fr_gnode *n, int k)
{
    const struct fr_edge *e = &n->arg[k];
    const struct fr_layout *of;
    int64_t               dims[FR_MAX_DIMS], other[FR_MAX_DIMS], n_elems = 1;
    int                   nd, n_other;

    if (e->whole || !walks_argument(n, k) || !shows_a_result(g, e))
        return false;
    of = g->node[e->src].layout;
    if (e->offset || e->moving >= 0 || of->n_elems < 2 || !of->c_contig || !dims_in_a_row(e->layout, &nd, dims) ||
        !dims_in_a_row(of, &n_other, other))
        return false;
    for (int i = 0; i < nd; i++)
        n_elems *= dims[i];
    return n_elems == of->n_elems && (nd != n_other || memcmp(dims, other, (size_t)nd * sizeof *dims));
}

static bool
has_reshaped(const struct fr_graph *g)
{
    for (int n = 0; n < g->n_nodes; n++)
        for (int k = 0; walks(&g->node[n]) && k < g->node[n].n_args; k++)
            if (is_reshaped(g, &g->node[n], k))
                return true;
    return false;
}

/* ---- classes ------------------------------------------------------------------------------ */

static int
one_of(const struct splitter *z, int axis)
{
    while (z->same[axis] != axis)
        axis = z->same[axis] = z->same[z->same[axis]];
    return axis;
}

static void
make_same(struct splitter *z, int a, int b)
{
    a = one_of(z, a);
    b = one_of(z, b);
    z->same[a > b ? a : b] = a < b ? a : b;
}

/* The axes of what node n makes, as they are numbered. */
static int
axes_of_result(const struct splitter *z, int n, int *out)
{
    const struct fr_gnode *node = &z->g->node[n];
    int                    n_axes = 0;

    for (int k = 0; k < fr_gnode_domain(node)->ndim; k++)
        if (!fr_op_reduces(node->op) || !(node->axes >> k & 1))
            out[n_axes++] = z->first[n] + k;
    return n_axes;
}

/* Along each of its axes the argument shows a whole axis of the result, or else nothing that can be split. */
static void
relate_to_result(struct splitter *z, int n, const struct fr_edge *e, bool *whole)
{
    const struct fr_layout *of = z->g->node[e->src].layout, *l = e->layout;
    int                     axis[FR_MAX_DIMS], skip = fr_gnode_domain(&z->g->node[n])->ndim - l->ndim;
    bool                    found[FR_MAX_DIMS] = {0};

    axes_of_result(z, e->src, axis);
    for (int k = 0; k < l->ndim; k++) {
        bool is_one = false;

        for (int i = 0; i < of->ndim && fr_layout_dims(l)[k] > 1; i++)
            if (fr_layout_dims(of)[i] == fr_layout_dims(l)[k] && fr_layout_strides(of)[i] == fr_layout_strides(l)[k] &&
                !found[i]) {
                make_same(z, z->first[n] + skip + k, axis[i]);
                is_one = found[i] = true;
                break;
            }
        if (!is_one && fr_layout_dims(l)[k] > 1)
            whole[z->first[n] + skip + k] = true;
    }
    for (int i = 0; i < of->ndim; i++)
        whole[axis[i]] |= !found[i] && fr_layout_dims(of)[i] > 1;
}

/* Whether all that the node walks lies in a row, as it does itself. */
static bool
lies_in_a_row(const struct fr_gnode *n)
{
    const struct fr_layout *l = fr_gnode_domain(n);
    bool                    all = !fr_op_reduces(n->op) && l->c_contig;

    for (int k = 0; k < n->n_args; k++)
        if (walks_argument(n, k))
            all &= n->arg[k].layout->c_contig && n->arg[k].layout->n_elems == l->n_elems;
    return all;
}

/* Of two nodes that read the same. */
static void
relate_readers(struct splitter *z, int n, int k, int last)
{
    const struct fr_gnode *a = &z->g->node[n], *b = &z->g->node[last / 3];
    const struct fr_edge  *e = &a->arg[k], *f = &b->arg[last % 3];

    if (!fr_edges_same(e, f) || !fr_layout_same_dims(fr_gnode_domain(a), fr_gnode_domain(b)))
        return;
    for (int i = 0; i < fr_gnode_domain(a)->ndim; i++)
        make_same(z, z->first[n] + i, z->first[last / 3] + i);
}

static void
relate(struct splitter *z, int n, bool *whole)
{
    const struct fr_gnode *node = &z->g->node[n];

    if (node->op == FR_OP_iota) /* what counts along one axis does not count along two */
        whole[z->first[n] + (int)node->axes] = true;
    for (int k = 0; k < node->n_args; k++) {
        const struct fr_edge *e = &node->arg[k];

        if (!walks_argument(node, k))
            continue;
        if (z->last[e->src] >= 0)
            relate_readers(z, n, k, z->last[e->src]);
        z->last[e->src] = 3 * n + k;
        if (shows_a_result(z->g, e) && !is_reshaped(z->g, node, k))
            relate_to_result(z, n, e, whole);
    }
}

/* Numbers the axes. */
static void
count_axes(struct splitter *z)
{
    int n_axes = 0;

    for (int n = 0; n < z->g->n_nodes; n++) {
        z->first[n] = n_axes;
        z->last[n] = -1;
        n_axes += walks(&z->g->node[n]) ? fr_gnode_domain(&z->g->node[n])->ndim : 0;
    }
    z->first[z->g->n_nodes] = n_axes;
}

static fr_status
make_classes(struct splitter *z)
{
    int   n_axes = z->first[z->g->n_nodes];
    bool *whole = fr_arena_alloc(&z->scratch, (size_t)n_axes + 1);

    z->same = fr_arena_room(&z->scratch, ((size_t)n_axes + 1) * sizeof *z->same);
    if (!whole || !z->same)
        return FR_ENOMEM;
    for (int i = 0; i < n_axes; i++)
        z->same[i] = i;
    for (int n = 0; n < z->g->n_nodes; n++)
        if (walks(&z->g->node[n]))
            relate(z, n, whole);
    for (int i = 0; i < n_axes; i++)
        z->n_classes += (z->same[i] = one_of(z, i)) == i;
    if (!(z->class_ = fr_arena_alloc(&z->scratch, ((size_t)z->n_classes + 1) * sizeof *z->class_)))
        return FR_ENOMEM;
    z->n_classes = 0;
    for (int i = 0; i < n_axes; i++) /* the first of a class comes first: those behind it find its number there */
        z->same[i] = z->same[i] == i ? z->n_classes++ : z->same[z->same[i]];
    for (int n = 0; n < z->g->n_nodes; n++)
        for (int i = z->first[n]; i < z->first[n + 1]; i++) {
            z->class_[z->same[i]].extent = fr_layout_dims(fr_gnode_domain(&z->g->node[n]))[i - z->first[n]];
            z->class_[z->same[i]].whole |= whole[i];
            z->class_[z->same[i]].keeps_long |= !lies_in_a_row(&z->g->node[n]);
        }
    return FR_OK;
}

/* ---- cuts --------------------------------------------------------------------------------- */

/* Adds one; false: it and the others do not divide one another, or they are too many. */
static bool
cut(struct cuts *c, int64_t at)
{
    int i = c->n;

    while (i > 0 && c->at[i - 1] >= at)
        i--;
    if (i < c->n && c->at[i] == at)
        return true;
    if (c->n == MAX_CUTS || (i > 0 && at % c->at[i - 1]) || (i < c->n && c->at[i] % at))
        return false;
    memmove(c->at + i + 1, c->at + i, (size_t)(c->n++ - i) * sizeof *c->at);
    c->at[i] = at;
    return true;
}

/* Axes that lie in a row: their classes, from the innermost on. */
struct row {
    int n, class_[FR_MAX_DIMS];
};

/* Adds the cuts of the row's axes, and those between them. */
static bool
add_cuts(const struct splitter *z, const struct row *r, struct cuts *all)
{
    int64_t inner = 1;

    for (int k = 0; k < r->n; k++) {
        const struct class_ *c = &z->class_[r->class_[k]];

        for (int i = 0; i < c->cuts.n; i++)
            if (!cut(all, inner * c->cuts.at[i]))
                return false;
        inner *= c->extent;
        if (k + 1 < r->n && !cut(all, inner))
            return false;
    }
    return true;
}

/* Whether a class may be cut once more, into rows of some bytes. */
static bool
may_cut(const struct class_ *c, int64_t row)
{
    return !c->whole && (!c->keeps_long || row >= LONG_ROW);
}

/* Cuts the row's axes where `all` does. With `try`, only says whether they can be. *changed: there was a new one. */
static bool
cut_axes(struct splitter *z, const struct row *r, const struct cuts *all, int size, bool try, bool *changed)
{
    int64_t inner = 1;

    for (int k = 0, i = 0; k < r->n; k++) {
        struct class_ *c = &z->class_[r->class_[k]];
        struct cuts    own = c->cuts;
        int64_t        end = inner * c->extent;

        for (; i < all->n && all->at[i] < end; i++)
            if (all->at[i] > inner &&
                (all->at[i] % inner || c->extent % (all->at[i] / inner) || !cut(&own, all->at[i] / inner)))
                return false;
        if (own.n != c->cuts.n && !may_cut(c, all->at[0] * size))
            return false;
        *changed |= !try && own.n != c->cuts.n;
        if (!try)
            c->cuts = own;
        inner = end;
    }
    return true;
}

/* Both shapes of what is reshaped get the cuts of the other one. */
static void
refine(struct splitter *z, int n, const struct fr_edge *e, bool *changed)
{
    const struct fr_layout *l = e->layout, *of = z->g->node[e->src].layout;
    int                     axis[FR_MAX_DIMS], n_axes = axes_of_result(z, e->src, axis);
    int                     first = z->first[n] + fr_gnode_domain(&z->g->node[n])->ndim - l->ndim;
    struct row              before = {0}, after = {0};
    struct cuts             all = {0};
    int                     size = fr_dtype_size(z->g->node[e->src].dtype);

    for (int k = n_axes; k-- > 0;)
        if (fr_layout_dims(of)[k] > 1)
            before.class_[before.n++] = z->same[axis[k]];
    for (int k = l->ndim; k-- > 0;)
        if (fr_layout_dims(l)[k] > 1 && !repeats(l, k))
            after.class_[after.n++] = z->same[first + k];
    if (add_cuts(z, &before, &all) && add_cuts(z, &after, &all) && cut_axes(z, &before, &all, size, true, changed) &&
        cut_axes(z, &after, &all, size, true, changed)) {
        cut_axes(z, &before, &all, size, false, changed);
        cut_axes(z, &after, &all, size, false, changed);
    }
}

/* False: nothing is cut. */
static bool
find_cuts(struct splitter *z)
{
    bool any = false, changed = true;

    for (int round = 0; round < ROUNDS && changed; round++) {
        changed = false;
        for (int n = 0; n < z->g->n_nodes; n++)
            for (int k = 0; walks(&z->g->node[n]) && k < z->g->node[n].n_args; k++)
                if (is_reshaped(z->g, &z->g->node[n], k))
                    refine(z, n, &z->g->node[n].arg[k], &changed);
        any |= changed;
    }
    return any;
}

/* ---- splitting ---------------------------------------------------------------------------- */

/* What becomes of the axes of a shape: axis k is dims[first[k]] .. dims[first[k + 1] - 1]. */
struct split {
    int     first[FR_MAX_DIMS + 1];
    int64_t dims[FR_MAX_DIMS];
};

/* The axes that node n walks. False: there would be too many. */
static bool
split_of(const struct splitter *z, int n, struct split *out)
{
    int n_dims = 0, ndim = fr_gnode_domain(&z->g->node[n])->ndim;

    for (int k = 0; k < ndim; k++) {
        const struct class_ *c = &z->class_[z->same[z->first[n] + k]];
        int64_t              rest = c->extent;

        out->first[k] = n_dims;
        if (n_dims + c->cuts.n + 1 > FR_MAX_DIMS)
            return false;
        for (int i = c->cuts.n; i-- > 0; rest = c->cuts.at[i])
            out->dims[n_dims++] = rest / c->cuts.at[i];
        out->dims[n_dims++] = rest;
    }
    out->first[ndim] = n_dims;
    return true;
}

static bool
all_can_be_split(const struct splitter *z)
{
    struct split s;

    for (int n = 0; n < z->g->n_nodes; n++)
        if (walks(&z->g->node[n]) && !split_of(z, n, &s))
            return false;
    return true;
}

/* A window whose last axes are split axes, or repeated along them. NULL: memory is out. */
static struct fr_layout *
split_window(const struct fr_layout *l, int ndim, const struct split *s)
{
    int64_t dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    int     skip = ndim - l->ndim, first = s->first[skip];

    for (int k = 0; k < l->ndim; k++) {
        bool    one = fr_layout_dims(l)[k] == 1;
        int64_t stride = fr_layout_strides(l)[k];

        for (int i = s->first[k + skip + 1]; i-- > s->first[k + skip];) {
            dims[i - first] = one ? 1 : s->dims[i];
            strides[i - first] = stride;
            stride *= dims[i - first];
        }
    }
    return fr_layout_get(s->first[ndim] - first, dims, strides);
}

static fr_status
replace(struct fr_layout **l, int ndim, const struct split *s)
{
    struct fr_layout *by = split_window(*l, ndim, s);

    if (!by)
        return FR_ENOMEM;
    fr_layout_unref(*l);
    *l = by;
    return FR_OK;
}

/* What is left of s for the result of a reduction of `axes`, which become *split; returns how many axes that was. */
static int
keep(uint32_t axes, int ndim, const struct split *s, struct split *kept, uint32_t *split)
{
    int n = 0, n_kept = 0;

    *split = 0;
    for (int k = 0; k < ndim; k++) {
        kept->first[n_kept] = n;
        for (int i = s->first[k]; i < s->first[k + 1]; i++)
            if (axes >> k & 1)
                *split |= 1u << i;
            else
                kept->dims[n++] = s->dims[i];
        n_kept += !(axes >> k & 1);
    }
    kept->first[n_kept] = n;
    return n_kept;
}

/* Node n walks what it does in more axes. */
static fr_status
split_node(struct fr_gnode *n, const struct split *s)
{
    int          ndim = fr_gnode_domain(n)->ndim, n_kept;
    uint32_t     axes;
    struct split kept;
    fr_status    st = FR_OK;

    if (fr_op_reduces(n->op)) {
        n_kept = keep(n->axes, ndim, s, &kept, &axes);
        TRY(replace(&n->layout, n_kept, &kept));
        n->axes = axes;
    } else {
        if (n->op == FR_OP_iota)
            n->axes = (uint32_t)s->first[n->axes];
        TRY(replace(n->op == FR_OP_store ? &n->arg[2].layout : &n->layout, ndim, s));
    }
    for (int k = 0; k < n->n_args; k++)
        if (walks_argument(n, k))
            TRY(replace(&n->arg[k].layout, ndim, s));
out:
    return st;
}

static fr_status
split_all(const struct splitter *z)
{
    fr_status st = FR_OK;

    for (int i = 0; i < z->g->n_nodes; i++) {
        struct fr_gnode *n = &z->g->node[i];
        struct split     s;

        if (walks(n) && split_of(z, i, &s) && s.first[fr_gnode_domain(n)->ndim] > fr_gnode_domain(n)->ndim)
            TRY(split_node(n, &s));
    }
    for (int i = 0; i < z->g->n_nodes; i++)
        for (int k = 0; k < z->g->node[i].n_args; k++) {
            struct fr_edge *e = &z->g->node[i].arg[k];

            if (e->src >= 0)
                e->whole = e->layout == z->g->node[e->src].layout && e->offset == 0 && e->moving < 0;
        }
out:
    return st;
}

fr_status
fr_split(struct fr_graph *g, struct fr_err *err)
{
    struct splitter z = {.g = g};
    size_t          n = (size_t)g->n_nodes + 1;
    fr_status       st = FR_OK;

    if (!has_reshaped(g))
        return FR_OK;
    z.first = fr_arena_room(&z.scratch, n * sizeof *z.first);
    z.last = fr_arena_room(&z.scratch, n * sizeof *z.last);
    if (!z.first || !z.last)
        TRY(FR_ENOMEM);
    count_axes(&z);
    TRY(make_classes(&z));
    if (find_cuts(&z) && all_can_be_split(&z))
        st = split_all(&z);
out:
    fr_arena_clear(&z.scratch);
    return st == FR_OK ? st : fr_fail(err, st, "out of memory: splitting axes");
}
