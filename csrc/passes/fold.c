/* Folding: rewrite rules, equal nodes, dead nodes; one walk in order of birth and one back.
 *
 *     %1 = negative %0              %1 = negative %0     dead
 *     %2 = negative %1      --->    %2 = negative %1     dead: %0 stands for it
 *     %3 = exp %2                   %3 = exp %0
 *
 * A node that equals something older is not touched: its readers are told what stands for it. Readers
 * that cannot take that keep the node alive. What stops a reader is
 *   - time: a store may write over the older value's memory before this reader comes; every reader of a
 *     version is born before the store over it (ir/verify.c), and stays so;
 *   - order: a reduction or scan adds up in the order in which its operand lies, so what it reads
 *     instead must lie in the same way. */
#include "passes/fold.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

struct folder {
    struct fr_graph *g;
    struct fr_arena  scratch;
    struct fr_edge  *stands;        /* [n_nodes] what may be read instead; its layout is borrowed */
    bool            *stood_for;     /* [n_nodes] `stands` is filled in */
    int             *stored_over;   /* [n_nodes] the first store over it; INT_MAX: none */
    int             *bucket, *next; /* [n_buckets], [n_nodes]: nodes by hash */
    unsigned         n_buckets;     /* a power of two */
};

/* ---- reading something else --------------------------------------------------------------- */

static fr_dtype
edge_dtype(const struct fr_graph *g, const struct fr_edge *e)
{
    return e->src < 0 ? g->scalar_dtype[e->scalar] : g->node[e->src].dtype;
}

static bool
is_whole(const struct fr_graph *g, const struct fr_edge *e)
{
    return e->src >= 0 && e->layout == g->node[e->src].layout && e->offset == 0 && e->moving < 0;
}

static bool
same_edge(const struct fr_edge *a, const struct fr_edge *b)
{
    if (a->src < 0 || b->src < 0)
        return a->src == b->src && a->scalar == b->scalar;
    return a->src == b->src && fr_edges_same(a, b);
}

/* Argument k of node r reads a node that `f` stands for. True if it may read `f`, with *out the edge. */
static bool
read_instead(const struct folder *z, int r, int k, const struct fr_edge *f, struct fr_edge *out)
{
    const struct fr_gnode *node = &z->g->node[r];
    const struct fr_edge  *e = &node->arg[k];
    bool by_element = fr_op_by_element(node->op) || node->op == FR_OP_store;

    if ((node->op == FR_OP_store && k == 0) || (f->src >= 0 && z->stored_over[f->src] <= r))
        return false;
    if (f->src < 0) {
        *out = *f;
        return by_element;
    }
    if (f->layout == z->g->node[e->src].layout && (e->moving < 0 || f->moving < 0)) {
        *out = *f;
        out->moving = e->moving < 0 ? f->moving : e->moving;
        out->layout = e->layout;
        out->offset += e->offset;
        out->whole = is_whole(z->g, out);
        return true;
    }
    *out = *f;
    return by_element && is_whole(z->g, e);
}

static void
set_arg(struct fr_gnode *n, int k, const struct fr_edge *e)
{
    struct fr_layout *old = n->arg[k].layout;

    if (e->layout)
        fr_layout_ref(e->layout);
    n->arg[k] = *e;
    fr_layout_unref(old);
}

/* Somebody needs the memory of this very node. */
static bool
keeps_memory(const struct folder *z, int n)
{
    return z->g->node[n].output || z->stored_over[n] != INT_MAX;
}

/* The value of node n is what `e` reads, an edge as n's own arguments are. */
static bool
stand_in(struct folder *z, int n, const struct fr_edge *e)
{
    struct fr_gnode *node = &z->g->node[n];
    struct fr_edge   copy = *e, none = {0};

    if (!keeps_memory(z, n)) {
        z->stands[n] = *e;
        z->stood_for[n] = true;
        return true;
    }
    if (node->op == FR_OP_cast && same_edge(&node->arg[0], e))
        return false;
    set_arg(node, 0, &copy);
    for (int k = 1; k < node->n_args; k++)
        set_arg(node, k, &none);
    node->op = FR_OP_cast;
    node->n_args = 1;
    node->axes = 0;
    return true;
}

/* ---- rules -------------------------------------------------------------------------------- */

struct match {
    const struct fr_graph *g;
    const struct fr_gnode *node, *inner;   /* inner: NULL when the argument is a scalar */
    const struct fr_edge  *m, *x;          /* x: NULL without an inner */
};

static bool
always(const struct match *t)
{
    (void)t;
    return true;
}

static bool same_layout(const struct match *t) { return t->m->src < 0 || t->m->layout == t->node->layout; }
static bool real_number(const struct match *t) { return !fr_dtype_is_complex(edge_dtype(t->g, t->m)); }
static bool of_a_real(const struct match *t) { return !fr_dtype_is_complex(edge_dtype(t->g, t->x)); }

static bool
natural(const struct match *t)
{
    char kind = fr_dtype_kind(edge_dtype(t->g, t->m));

    return kind == 'b' || kind == 'u';
}

static bool whole_type(fr_dtype d) { return d == FR_BOOL || fr_dtype_is_int(d); }

/* Rounding would not change it: an integer, or made by rounding or from an integer. */
static bool
whole_number(const struct match *t)
{
    if (whole_type(edge_dtype(t->g, t->m)))
        return true;
    if (!t->inner)
        return false;
    return (fr_op_info[t->inner->op].flags & FR_OPF_WHOLE) ||
           (t->inner->op == FR_OP_cast && whole_type(edge_dtype(t->g, t->x)));
}

/* The inner operation compares integers (or bools), among which there is no NaN. */
static bool integers(const struct match *t) { return whole_type(edge_dtype(t->g, t->x)); }

/* Is every number of dtype `from` also one of `to`? */
static bool
is_exact(fr_dtype from, fr_dtype to)
{
    static const uint8_t mantissa[FR_N_DTYPES] = {[FR_F16] = 11, [FR_F32] = 24, [FR_F64] = 53,
                                                  [FR_C64] = 24, [FR_C128] = 53};
    char fk = fr_dtype_kind(from), tk = fr_dtype_kind(to);
    int  f = fr_dtype_size(from), t = fr_dtype_size(to);

    if (fk == 'b' || from == to)
        return true;
    if (whole_type(from)) {
        if (mantissa[to])
            return 8 * f - (fk == 'i') <= mantissa[to];
        return tk == fk ? t >= f : fk == 'u' && tk == 'i' && t > f;
    }
    return mantissa[to] >= mantissa[from] && (tk == 'c' || fk == 'f');
}

static bool exact(const struct match *t) { return is_exact(edge_dtype(t->g, t->x), t->inner->dtype); }

/* x may skip the step in between. Out of range, floats become integers as each pair of dtypes has it. */
static bool
exact_step(const struct match *t)
{
    char from = fr_dtype_kind(edge_dtype(t->g, t->x));

    return exact(t) && !((from == 'f' || from == 'c') && fr_dtype_is_int(t->node->dtype));
}

enum result { below, first, past, swapped, opposite, alike };

enum { FR_OP_anything = FR_N_OPS };

static const struct rule {
    fr_op   outer, inner;
    bool  (*when)(const struct match *);
    uint8_t result, i, j;
    fr_op   as;
} rules[] = {
#define FOLD(outer, inner, when, result)                                                           \
    {FR_OP_##outer, FR_OP_##inner, when, result, 0, 0, 0},
#define ALIKE(outer, i, j) {FR_OP_##outer, FR_OP_anything, always, alike, i, j, 0},
#define NOT(inner, instead, when)                                                                  \
    {FR_OP_logical_not, FR_OP_##inner, when, opposite, 0, 0, FR_OP_##instead},                     \
    {FR_OP_invert, FR_OP_##inner, when, opposite, 0, 0, FR_OP_##instead},
#include "passes/fold.def"
};

/* The rules for an operation: first_rule[op], next_rule[] of that and so on, up to FR_LEN(rules). */
static uint8_t        first_rule[FR_N_OPS], next_rule[FR_LEN(rules)];
static pthread_once_t rules_linked = PTHREAD_ONCE_INIT;

static void
link_rules(void)
{
    _Static_assert(FR_LEN(rules) < 255, "rules are counted in a byte");
    memset(first_rule, FR_LEN(rules), sizeof first_rule);
    for (size_t i = FR_LEN(rules); i-- > 0;) {
        next_rule[i] = first_rule[rules[i].outer];
        first_rule[rules[i].outer] = (uint8_t)i;
    }
}

/* The node reads x instead of m. */
static bool
read_past(struct folder *z, int n, const struct match *t)
{
    struct fr_edge e;

    if (!read_instead(z, n, 0, t->x, &e))
        return false;
    set_arg(&z->g->node[n], 0, &e);
    return true;
}

/* The node becomes `as`, an operation over both arguments of m. */
static bool
take_both(struct folder *z, int n, const struct match *t, fr_op as)
{
    struct fr_gnode *node = &z->g->node[n];
    struct fr_edge   a, b;

    if (!read_instead(z, n, 0, &t->inner->arg[0], &a) || !read_instead(z, n, 0, &t->inner->arg[1], &b))
        return false;
    set_arg(node, 0, &a);
    set_arg(node, 1, &b);
    node->op = as;
    node->n_args = 2;
    return true;
}

static bool
swap_choices(struct folder *z, int n, const struct match *t)
{
    struct fr_gnode *node = &z->g->node[n];
    struct fr_edge   second = node->arg[1];

    if (!read_past(z, n, t))
        return false;
    node->arg[1] = node->arg[2];
    node->arg[2] = second;
    return true;
}

static bool
apply(struct folder *z, int n, const struct rule *r)
{
    struct fr_gnode *node = &z->g->node[n];
    struct match     t = {.g = z->g, .node = node, .m = &node->arg[r->i]};
    struct fr_edge   e;

    if (t.m->src >= 0 && z->g->node[t.m->src].n_args) {
        t.inner = &z->g->node[t.m->src];
        t.x = &t.inner->arg[0];
    }
    if (r->inner != FR_OP_anything && (!t.inner || t.inner->op != r->inner))
        return false;
    if (!r->when(&t))
        return false;
    switch (r->result) {
    case below:
        return edge_dtype(z->g, t.x) == node->dtype && read_instead(z, n, 0, t.x, &e) &&
               stand_in(z, n, &e);
    case first: return edge_dtype(z->g, t.m) == node->dtype && stand_in(z, n, t.m);
    case alike:
        return edge_dtype(z->g, t.m) == node->dtype && same_edge(t.m, &node->arg[r->j]) &&
               stand_in(z, n, t.m);
    case opposite:      /* a result that lies in memory is cheaper to read than both arguments */
        return !t.inner->output && take_both(z, n, &t, r->as);
    default:
        if (node->op != FR_OP_cast && edge_dtype(z->g, t.x) != t.inner->dtype)
            return false;
        return r->result == swapped ? swap_choices(z, n, &t) : read_past(z, n, &t);
    }
}

/* Rewrites node n as far as the rules go. */
static void
rewrite(struct folder *z, int n)
{
    struct fr_gnode *node = &z->g->node[n];
    fr_op            op;
    size_t           i;

    do {
        op = node->op;
        for (i = first_rule[op]; i < FR_LEN(rules) && !z->stood_for[n]; i = next_rule[i])
            if (apply(z, n, &rules[i]))
                break;
    } while (i < FR_LEN(rules) && !z->stood_for[n]);
}

/* ---- equal nodes -------------------------------------------------------------------------- */

static uint64_t
mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

/* What a scalar is known by: all that have one value, just now, are one. */
static inline int32_t
scalar_name(const struct fr_graph *g, const struct fr_edge *e)
{
    return g->scalar_like ? g->scalar_like[e->scalar] : e->scalar;
}

static inline uint64_t
hash_edge(const struct fr_graph *g, const struct fr_edge *e)
{
    if (e->src < 0)
        return mix(1, (uint64_t)scalar_name(g, e));
    return mix((uint64_t)e->src << 32 | (uint32_t)e->moving,
               (uint64_t)(uintptr_t)e->layout + (uint64_t)e->offset * 0x9e3779b97f4a7c15u);
}

/* The two arguments may change places. Not of floats: of two NaNs the first one's sign comes out. */
static inline bool
commutes(const struct fr_gnode *n)
{
    return fr_op_info[n->op].flags & FR_OPF_COMM && n->n_args == 2 && whole_type(n->dtype);
}

static unsigned
hash_node(const struct folder *z, const struct fr_gnode *n)
{
    uint64_t h = mix(mix(n->op | (uint64_t)n->dtype << 16, (uint64_t)(uintptr_t)n->layout), n->axes);

    if (commutes(n))
        h = mix(h, hash_edge(z->g, &n->arg[0]) + hash_edge(z->g, &n->arg[1]));
    else
        for (int k = 0; k < n->n_args; k++)
            h = mix(h, hash_edge(z->g, &n->arg[k]));
    return (unsigned)h & (z->n_buckets - 1);
}

static bool
equal_args(const struct fr_graph *g, const struct fr_edge *a, const struct fr_edge *b)
{
    return a->src < 0 && b->src < 0 ? scalar_name(g, a) == scalar_name(g, b) : same_edge(a, b);
}

static bool
equal_nodes(const struct fr_graph *g, const struct fr_gnode *a, const struct fr_gnode *b)
{
    int k;

    if (a->op != b->op || a->dtype != b->dtype || a->layout != b->layout || a->axes != b->axes ||
        a->n_args != b->n_args)
        return false;
    for (k = 0; k < a->n_args && equal_args(g, &a->arg[k], &b->arg[k]); k++)
        ;
    return k == a->n_args || (commutes(a) && equal_args(g, &a->arg[0], &b->arg[1]) &&
                              equal_args(g, &a->arg[1], &b->arg[0]));
}

/* The plan is right only while the scalars of two equal nodes go on being alike. */
static void
hold_scalars(struct fr_graph *g, const struct fr_gnode *a, const struct fr_gnode *b)
{
    const struct fr_gnode *node[2] = {a, b};

    for (int i = 0; g->scalar_like && i < 2; i++)
        for (int k = 0; k < node[i]->n_args; k++)
            if (node[i]->arg[k].src < 0 && scalar_name(g, &node[i]->arg[k]) != node[i]->arg[k].scalar)
                g->scalar_must[node[i]->arg[k].scalar] = true;
}

/* Lets an equal, older node stand for n; else remembers n. Every operation is pure but a store. */
static void
unify(struct folder *z, int n)
{
    struct fr_gnode *node = &z->g->node[n];
    unsigned         h;

    if (!fr_gnode_computes(node) || node->op == FR_OP_store)
        return;
    h = hash_node(z, node);
    for (int *link = &z->bucket[h], j; (j = *link) >= 0;)
        if (z->stored_over[j] <= n) {
            *link = z->next[j]; /* never again: nodes come in order of birth */
        } else if (node->op == FR_OP_cast && keeps_memory(z, n)) {
            break; /* a copy of the other one is no less, and keeps that alive */
        } else if (equal_nodes(z->g, &z->g->node[j], node)) {
            struct fr_edge e = {.src = j, .layout = z->g->node[j].layout, .moving = -1,
                                .whole = true};

            hold_scalars(z->g, &z->g->node[j], node);
            stand_in(z, n, &e);
            return;
        } else {
            link = &z->next[j];
        }
    z->next[n] = z->bucket[h];
    z->bucket[h] = n;
}

/* ---- the pass ----------------------------------------------------------------------------- */

static void
find_stores(struct folder *z)
{
    for (int n = 0; n < z->g->n_nodes; n++)
        z->stored_over[n] = INT_MAX;
    for (int n = z->g->n_nodes; n-- > 0;)
        if (!z->g->node[n].dead && z->g->node[n].op == FR_OP_store)
            z->stored_over[z->g->node[n].arg[0].src] = n;
}

static void
bury(struct folder *z)
{
    bool *read = z->stood_for;       /* no longer needed as what it was */

    memset(read, 0, (size_t)z->g->n_nodes * sizeof *read);
    for (int n = z->g->n_nodes; n-- > 0;) {
        struct fr_gnode *node = &z->g->node[n];

        if (node->dead)
            continue;
        if (!read[n] && !node->output && node->op != FR_OP_store) {
            node->dead = true;
            continue;
        }
        for (int k = 0; k < node->n_args; k++)
            if (node->arg[k].src >= 0)
                read[node->arg[k].src] = true;
    }
}

fr_status
fr_fold(struct fr_graph *g, struct fr_err *err)
{
    struct folder z = {.g = g, .n_buckets = 16};
    size_t        cap = (size_t)g->n_nodes + 1;
    struct fr_edge e;
    fr_status     st = FR_OK;

    pthread_once(&rules_linked, link_rules);
    while (z.n_buckets < 2 * cap)
        z.n_buckets *= 2;
    z.stands = fr_arena_room(&z.scratch, cap * sizeof *z.stands);
    z.stood_for = fr_arena_alloc(&z.scratch, cap * sizeof *z.stood_for);
    z.stored_over = fr_arena_room(&z.scratch, cap * sizeof *z.stored_over);
    z.bucket = fr_arena_room(&z.scratch, z.n_buckets * sizeof *z.bucket);
    z.next = fr_arena_room(&z.scratch, cap * sizeof *z.next);
    if (!z.stands || !z.stood_for || !z.stored_over || !z.bucket || !z.next) {
        st = fr_fail(err, FR_ENOMEM, "out of memory: folding %d nodes", g->n_nodes);
        goto out;
    }
    memset(z.bucket, 0xff, z.n_buckets * sizeof *z.bucket);
    find_stores(&z);
    for (int n = 0; n < g->n_nodes; n++) {
        struct fr_gnode *node = &g->node[n];

        if (!fr_gnode_computes(node))
            continue;
        for (int k = 0; k < node->n_args; k++)
            while (node->arg[k].src >= 0 && z.stood_for[node->arg[k].src] &&
                   read_instead(&z, n, k, &z.stands[node->arg[k].src], &e))
                set_arg(node, k, &e);
        rewrite(&z, n);
        if (!z.stood_for[n])
            unify(&z, n);
    }
    bury(&z);
out:
    fr_arena_clear(&z.scratch);
    return st;
}
