/* Pushing windows through element-wise nodes, from the last node to the first:
 *
 *     %1 = divide f32[64,48,3] %0 $0                 %1 = divide f32[64,48] %0{[64,48]/144,3} $0
 *     %2 = add f32[64,48] %1{[64,48]/144,3}    --->  %2 = divide f32[64,48] %0{[64,48]/144,3+1} $0
 *              %1{[64,48]/144,3+1}                   %4 = add f32[64,48] %1 %2
 *
 * The copies stand where the node stood, so they read the same versions of what is stored over later, and what
 * they read sees windows in turn: a whole chain is pushed down to the memory that it begins with.
 *
 * It pays when no element is computed more often than before: all windows together have at most as many as
 * the node. Overlapping ones, as those of a stencil, and readers that repeat each element a few times, as the channels
 * of an image do with `1 - alpha`, may compute cheap elements again, where that costs less than writing and reading
 * them; to copy an element costs nothing there. */
#include "passes/push.h"

#include <string.h>

#include "ir/insert.h"

enum {
    MAX_WINDOWS = 9,        /* of one node: a stencil of three by three */
    MAX_TIMES = 4,          /* that an element may be computed */
    MAX_AGAIN = 4,          /* operations for each element of the node, beyond the first time */
    SLOW = 6,               /* operations that one of these is worth: it occupies the processor's divider */
    SPARE_COPIES = 32,      /* in all, beside one for each node: planning stays linear */
};

/* Argument `use % 3` of node `use / 3`. */
struct pusher {
    struct fr_graph *g;
    struct fr_inserter new;     /* the copies */
    int              cap;       /* of nodes, with copies */
    int             *first_use; /* [cap] of each node; -1: none */
    int             *next_use;  /* [3 * cap] */
    int8_t          *window;    /* [3 * cap] which window of its node a use reads; of the node that is being pushed */
    struct fr_arena  scratch;
};

struct window {
    struct fr_layout *layout;
    int64_t           offset;
    int32_t           moving;
    int               reader, copy;     /* the first node that reads it, and the one that takes its place */
};

/* What a window does along the axes of the node: index i of its dimension k lies at start[axis[k]] + i * by[k],
 * and other dimensions with the same axis add to that. */
struct walk {
    int64_t start[FR_MAX_DIMS], by[FR_MAX_DIMS];
    int     axis[FR_MAX_DIMS];
};

static bool is_map(const struct fr_gnode *n) { return !n->dead && fr_op_by_element(n->op); }

/* Reads its argument k element by element, wherever those lie. */
static bool
reads_elements(const struct fr_gnode *n, int k)
{
    return is_map(n) || (n->op == FR_OP_store && k == 1);
}

/* The whole node as it lies, but for axes of size 1: no pass makes more of that than of the node itself. */
static bool
shows_all(const struct fr_gnode *n, const struct fr_edge *e)
{
    const struct fr_layout *a = n->layout, *b = e->layout;
    int                     i = 0, j = 0;

    if (e->whole)
        return true;
    if (b->n_elems != a->n_elems || e->offset != 0)
        return false;
    for (;; i++, j++) {
        while (i < a->ndim && fr_layout_dims(a)[i] == 1)
            i++;
        while (j < b->ndim && fr_layout_dims(b)[j] == 1)
            j++;
        if (i == a->ndim || j == b->ndim)
            return i == a->ndim && j == b->ndim;
        if (fr_layout_dims(a)[i] != fr_layout_dims(b)[j] || fr_layout_strides(a)[i] != fr_layout_strides(b)[j])
            return false;
    }
}

/* What the node walks: its result, or what it stores to. */
static const struct fr_layout *
domain(const struct fr_gnode *n)
{
    return n->op == FR_OP_store ? n->arg[2].layout : n->layout;
}

/* Whether a reader repeats each element, but not often. */
static bool
repeats_few(const struct fr_gnode *reader, const struct fr_edge *e)
{
    int64_t n = domain(reader)->n_elems;

    return n > e->layout->n_elems && n <= MAX_TIMES * e->layout->n_elems;
}

static bool
has_window_of_map(const struct fr_graph *g)
{
    for (int n = 0; n < g->n_nodes; n++)
        for (int k = 0; k < g->node[n].n_args && !g->node[n].dead; k++) {
            const struct fr_edge *e = &g->node[n].arg[k];

            if (e->src >= 0 && is_map(&g->node[e->src]) && !g->node[e->src].output && reads_elements(&g->node[n], k) &&
                (!shows_all(&g->node[e->src], e) || repeats_few(&g->node[n], e)))
                return true;
        }
    return false;
}

/* ---- windows ------------------------------------------------------------------------------ */

/* The window that the reader walks: what it repeats a few times is repeated in it. NULL: memory is out. */
static struct fr_layout *
window_of(const struct fr_gnode *reader, const struct fr_edge *e)
{
    const struct fr_layout *over = domain(reader);
    int64_t                 strides[FR_MAX_DIMS];

    if (!repeats_few(reader, e))
        return fr_layout_ref(e->layout);
    fr_strides_broadcast(e->layout, over->ndim, strides);
    return fr_layout_get(over->ndim, fr_layout_dims(over), strides);
}

/* False where the window does not walk along single axes, as a diagonal or rows that go on in one another. */
static bool
walks_axes(const struct fr_layout *of, const struct window *w, struct walk *out)
{
    const int64_t *dims = fr_layout_dims(of), *strides = fr_layout_strides(of), *wd = fr_layout_dims(w->layout),
                  *ws = fr_layout_strides(w->layout);
    int64_t low[FR_MAX_DIMS], high[FR_MAX_DIMS], rest = w->offset;
    bool    done[FR_MAX_DIMS] = {0};

    for (int i = 0; i < of->ndim; i++) {
        int widest = -1;

        for (int k = 0; k < of->ndim; k++)
            if (!done[k] && (widest < 0 || strides[k] > strides[widest]))
                widest = k;
        done[widest] = true;
        out->start[widest] = dims[widest] > 1 ? rest / strides[widest] : 0;
        rest -= out->start[widest] * (dims[widest] > 1 ? strides[widest] : 0);
        low[widest] = high[widest] = out->start[widest];
    }
    if (rest)
        return false;
    for (int k = 0; k < w->layout->ndim; k++) {
        int64_t step = ws[k] < 0 ? -ws[k] : ws[k], reach;
        int     along = -1;

        out->axis[k] = 0;
        out->by[k] = 0;
        if (wd[k] == 1 || step == 0)
            continue;
        for (int j = 0; j < of->ndim; j++)
            if (dims[j] > 1 && strides[j] <= step && (along < 0 || strides[j] > strides[along]))
                along = j;
        if (along < 0 || step % strides[along])
            return false;
        out->axis[k] = along;
        out->by[k] = ws[k] / strides[along];
        reach = out->by[k] * (wd[k] - 1);
        *(reach < 0 ? &low[along] : &high[along]) += reach;
    }
    for (int j = 0; j < of->ndim; j++)
        if (low[j] < 0 || high[j] >= dims[j])
            return false;
    return true;
}

/* What argument `e` of node n is where n is seen through the window. False: it is no window of the argument's memory, or
 * nobody knows which, for it moves; or memory is out. out->layout is the caller's. */
static bool
window_of_argument(const struct pusher *z, const struct fr_gnode *n, const struct fr_edge *e,
                   const struct window *w, struct fr_edge *out)
{
    int64_t        strides[FR_MAX_DIMS];
    struct walk    walk;
    int            skip;

    *out = *e;
    if (e->src < 0)
        return true;
    if (e->layout == n->layout) { /* it lies as the node: the same steps in memory */
        if (e->moving >= 0 && w->moving >= 0)
            return false;
        out->layout = fr_layout_ref(w->layout);
        out->offset += w->offset;
        out->moving = e->moving < 0 ? w->moving : e->moving;
    } else {
        bool one = e->layout->n_elems == 1; /* wherever the window is */

        if (!one && (w->moving >= 0 || !walks_axes(n->layout, w, &walk)))
            return false;
        skip = n->layout->ndim - e->layout->ndim;
        for (int k = 0; k < w->layout->ndim; k++) {
            int axis = one ? -1 : walk.axis[k] - skip;

            strides[k] = axis < 0 || fr_layout_dims(e->layout)[axis] == 1
                             ? 0
                             : walk.by[k] * fr_layout_strides(e->layout)[axis];
        }
        for (int k = 0; k < e->layout->ndim; k++)
            if (fr_layout_dims(e->layout)[k] != 1)
                out->offset += walk.start[k + skip] * fr_layout_strides(e->layout)[k];
        if (!(out->layout = fr_layout_get(w->layout->ndim, fr_layout_dims(w->layout), strides)))
            return false;
    }
    out->whole = out->layout == z->g->node[e->src].layout && out->offset == 0 && out->moving < 0;
    return true;
}

/* Whether the window is walked in another order than it lies in by the node that reads it. */
static bool
turns(const struct fr_gnode *reader, const struct fr_layout *w)
{
    const struct fr_layout *r = domain(reader);
    const int64_t          *ws = fr_layout_strides(w), *rs = fr_layout_strides(r) + (r->ndim - w->ndim);

#define SIZE(v) ((v) < 0 ? -(v) : (v))
    for (int j = 1; j < w->ndim; j++)
        for (int i = 0; i < j; i++)
            if (fr_layout_dims(w)[i] > 1 && fr_layout_dims(w)[j] > 1 &&
                (SIZE(ws[i]) > SIZE(ws[j])) != (SIZE(rs[i]) > SIZE(rs[j])))
                return true;
#undef SIZE
    return false;
}

/* ---- what pays ---------------------------------------------------------------------------- */

/* Arguments of the node's own size, each array once. */
static int
n_large_arguments(const struct fr_gnode *n)
{
    int large = 0;

    for (int k = 0; k < n->n_args; k++) {
        const struct fr_edge *e = &n->arg[k];
        int                   j = 0;

        while (j < k && (n->arg[j].src != e->src || !fr_edges_same(&n->arg[j], e)))
            j++;
        large += e->src >= 0 && j == k && e->layout->n_elems == n->layout->n_elems;
    }
    return large;
}

static bool
is_copy(const struct pusher *z, const struct fr_gnode *n)
{
    return n->op == FR_OP_cast && n->arg[0].src >= 0 && z->g->node[n->arg[0].src].dtype == n->dtype;
}

static int
operations(const struct pusher *z, const struct fr_gnode *n)
{
    int one = fr_dtype_info[n->dtype].kind == 'c' ? 4 : 1;

    if (is_copy(z, n))
        return 0;
    if (fr_op_info[n->op].flags & FR_OPF_COSTLY)
        return MAX_AGAIN + 1;
    return fr_op_info[n->op].flags & FR_OPF_SLOW ? SLOW * one : one;
}

/* Operations to compute an element of node n from memory that is there anyway; more than MAX_AGAIN: too many, or
 * they read more than one array, or somebody else reads what lies between. */
static int
chain_operations(const struct pusher *z, int n)
{
    int ops = 0, next;

    for (; n >= 0 && ops <= MAX_AGAIN; n = next) {
        const struct fr_gnode *node = &z->g->node[n];

        if (!is_map(node) || n_large_arguments(node) > 1)
            return MAX_AGAIN + 1;
        ops += operations(z, node);
        next = -1;
        for (int k = 0; k < node->n_args; k++) {
            int src = node->arg[k].src;

            if (src < 0 || !is_map(&z->g->node[src]) || node->arg[k].layout->n_elems != node->layout->n_elems)
                continue;
            if (z->g->node[src].output || z->next_use[z->first_use[src]] >= 0)
                return z->g->node[src].output ? ops : MAX_AGAIN + 1;
            next = src;
        }
    }
    return ops;
}

/* Whether it costs less to compute what all windows of a node show than to store it. */
static bool
pays(const struct pusher *z, int n, int64_t n_shown)
{
    int64_t n_elems = z->g->node[n].layout->n_elems;

    return n_shown <= n_elems ||
           (n_shown <= MAX_TIMES * n_elems && chain_operations(z, n) * (n_shown - n_elems) <= MAX_AGAIN * n_elems);
}

static void
drop_windows(struct window *w, int n_windows)
{
    while (n_windows > 0)
        fr_layout_unref(w[--n_windows].layout);
}

/* The windows through which node n is read, each once; 0: there are none, or too many, or something else reads it,
 * or computing them instead of n would cost more. */
static int
find_windows(const struct pusher *z, int n, struct window *w)
{
    const struct fr_gnode *node = &z->g->node[n];
    int64_t                n_shown = 0;
    int                    n_windows = 0;
    bool                   all_whole = true, several = n_large_arguments(node) > 1;

    for (int k = 0; k < node->n_args; k++) /* which takes no memory as it is */
        if (node->arg[k].src >= 0 && z->g->node[node->arg[k].src].op == FR_OP_iota)
            return 0;
    for (int use = z->first_use[n]; use >= 0; use = z->next_use[use]) {
        const struct fr_gnode *reader = &z->g->node[use / 3];
        const struct fr_edge  *e = &reader->arg[use % 3];
        struct fr_layout      *l;
        int                    i = 0;

        if (reader->dead)
            continue;
        if (!reads_elements(reader, use % 3) || (several && turns(reader, e->layout)) ||
            !(l = window_of(reader, e)))
            goto none;
        all_whole &= l == e->layout && shows_all(node, e);
        while (i < n_windows && (w[i].layout != l || w[i].offset != e->offset || w[i].moving != e->moving))
            i++;
        if (i < n_windows || i == MAX_WINDOWS)
            fr_layout_unref(l);
        if (i == MAX_WINDOWS)
            goto none;
        z->window[use] = (int8_t)i;
        if (i < n_windows)
            continue;
        w[n_windows++] = (struct window){l, e->offset, e->moving, use / 3, -1};
        n_shown += l->n_elems;
    }
    if (!all_whole && n_shown > 0 && pays(z, n, n_shown))
        return n_windows;
none:
    drop_windows(w, n_windows);
    return 0;
}

/* ---- copies ------------------------------------------------------------------------------- */

static void
add_use(struct pusher *z, int reader, int k)
{
    int src = z->g->node[reader].arg[k].src, use = 3 * reader + k;

    if (src < 0)
        return;
    z->next_use[use] = z->first_use[src];
    z->first_use[src] = use;
}

/* Node n as seen through the window, its result in this layout, whose reference moves in. False: there is no such node. */
static bool
add_copy(struct pusher *z, int n, struct window *w, struct fr_layout *layout)
{
    struct fr_gnode *node = &z->g->node[n], copy = *node;

    copy.layout = layout;
    memset(copy.arg, 0, sizeof copy.arg);
    for (int k = 0; k < copy.n_args; k++)
        if (!window_of_argument(z, node, &node->arg[k], w, &copy.arg[k])) {
            for (int j = 0; j < k; j++)
                fr_layout_unref(copy.arg[j].layout);
            fr_layout_unref(layout);
            return false;
        }
    w->copy = z->g->n_nodes;
    return fr_insert_node(&z->new, &copy, NULL) == FR_OK;
}

/* The layout of a window's own copy: as its reader lies, so that both can be one kernel. */
static struct fr_layout *
layout_of_copy(const struct fr_gnode *reader, const struct fr_layout *w)
{
    if (reader->op != FR_OP_store && fr_layout_same_dims(reader->layout, w))
        return fr_layout_ref(reader->layout);
    return fr_layout_get(w->ndim, fr_layout_dims(w), NULL);
}

/* Every reader reads its window's copy, and nobody n any more. */
static void
redirect(struct pusher *z, int n, const struct window *w)
{
    for (int use = z->first_use[n], next; use >= 0; use = next) {
        struct fr_edge *e = &z->g->node[use / 3].arg[use % 3];
        int             copy;

        next = z->next_use[use];
        if (z->g->node[use / 3].dead)
            continue;
        copy = w[z->window[use]].copy;
        fr_layout_unref(e->layout);
        *e = (struct fr_edge){.src = copy, .layout = fr_layout_ref(z->g->node[copy].layout), .moving = -1, .whole = true};
        add_use(z, use / 3, use % 3);
    }
    z->g->node[n].dead = true;
}

/* Puts a copy for each window into the place of node n; false, and nothing is changed, where that cannot be. */
static bool
put_copies(struct pusher *z, int n, struct window *w, int n_windows)
{
    int n_before = z->g->n_nodes;

    if (n_before + n_windows > z->cap)
        return false;
    z->new.before = n;
    for (int i = n_windows; i-- > 0;) { /* the order decides between merges that save as much */
        struct fr_layout *l = layout_of_copy(&z->g->node[w[i].reader], w[i].layout);

        if (!l || !add_copy(z, n, &w[i], l)) {
            fr_insert_drop(&z->new, n_before);
            return false;
        }
    }
    for (int i = z->g->n_nodes; i-- > n_before;) {
        z->first_use[i] = -1;
        for (int k = 0; k < z->g->node[i].n_args; k++)
            add_use(z, i, k);
    }
    return true;
}

static void
push(struct pusher *z, int n)
{
    struct window w[MAX_WINDOWS];
    int           n_windows = find_windows(z, n, w);

    if (n_windows && put_copies(z, n, w, n_windows))
        redirect(z, n, w);
    drop_windows(w, n_windows);
}

/* ---- the pass ----------------------------------------------------------------------------- */

fr_status
fr_push(struct fr_graph *g, struct fr_err *err)
{
    struct pusher z = {.g = g, .cap = 2 * g->n_nodes + SPARE_COPIES};
    size_t        cap = (size_t)z.cap;
    fr_status     st;

    if (!has_window_of_map(g))
        return FR_OK;
    z.first_use = fr_arena_room(&z.scratch, cap * sizeof *z.first_use);
    z.next_use = fr_arena_room(&z.scratch, 3 * cap * sizeof *z.next_use);
    z.window = fr_arena_room(&z.scratch, 3 * cap);
    if (!z.first_use || !z.next_use || !z.window) {
        fr_arena_clear(&z.scratch);
        return fr_fail(err, FR_ENOMEM, "out of memory: windows of pending results");
    }
    for (int n = 0; n < g->n_nodes; n++) {
        z.first_use[n] = -1;
        for (int k = 0; k < g->node[n].n_args && !g->node[n].dead; k++)
            add_use(&z, n, k);
    }
    fr_insert_begin(&z.new, g);
    for (int n = g->n_nodes; n-- > 0;)
        if (is_map(&g->node[n]) && !g->node[n].output)
            push(&z, n);
    st = fr_insert_end(&z.new, err);
    fr_arena_clear(&z.scratch);
    return st;
}
