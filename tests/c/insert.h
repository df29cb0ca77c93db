/* Two passes for tests of ir/insert.h, in the program golden.c.
 *
 *     adjoint   how the sum of the last result's elements changes with each leaf: multiply(g, cos(x)) and the like
 *     again     each node is made anew from its own arguments: what tracing made has to come out */
#include "ir/insert.h"

struct adjoint {
    struct fr_inserter z;
    struct fr_edge    *of;       /* [n_given] of each node so far */
    bool              *has;
};

static struct fr_number
real(double v)
{
    return (struct fr_number){.dtype = FR_F64, .weak = 'f', .v.f64 = v};
}

/* e added up to an array of these dims, which were broadcast to e's. */
static fr_status
sum_to(struct fr_inserter *z, const struct fr_edge *e, const struct fr_layout *to, struct fr_edge *out, struct fr_err *err)
{
    int       extra = e->layout->ndim - to->ndim;
    uint32_t  axes = 0;
    fr_status st;

    for (int k = 0; k < e->layout->ndim; k++)
        if (k < extra || fr_layout_dims(e->layout)[k] != fr_layout_dims(to)[k - extra])
            axes |= 1u << k;
    *out = *e;
    if (!axes)
        return FR_OK;
    TRY(fr_insert_reduce(z, FR_OP_sum, e, axes, false, FR_N_DTYPES, out, err));
    st = fr_insert_reshape(z, out, to->ndim, fr_layout_dims(to), out, err);
out:
    return st;
}

/* `by` is added to the adjoint of what an argument shows. */
static fr_status
give(struct adjoint *a, const struct fr_edge *arg, const struct fr_edge *by, struct fr_err *err)
{
    struct fr_inserter     *z = &a->z;
    const struct fr_layout *l;
    struct fr_edge          e, zeros, window;
    fr_status               st;

    if (arg->src < 0)
        return FR_OK;
    TRY(sum_to(z, by, arg->layout, &e, err));
    if (!arg->whole) { /* nothing, but for that window */
        l = z->g->node[arg->src].layout;
        TRY(fr_insert_number(z, (struct fr_number[]){real(0)}, z->g->node[arg->src].dtype, &zeros, err));
        TRY(fr_insert_broadcast(z, &zeros, l->ndim, fr_layout_dims(l), &zeros, err));
        TRY(fr_insert_window(z, &zeros, arg->layout->ndim, fr_layout_dims(arg->layout), fr_layout_strides(arg->layout),
                             arg->offset, &window, err));
        TRY(fr_insert_store(z, &window, &e, &e, err));
    }
    if (a->has[arg->src])
        TRY(fr_insert_map(z, FR_OP_add, (struct fr_edge[]){a->of[arg->src], e}, &e, err));
    a->of[arg->src] = e;
    a->has[arg->src] = true;
    st = FR_OK;
out:
    return st;
}

static fr_status
give_product(struct adjoint *a, const struct fr_edge *to, struct fr_edge x, struct fr_edge y, struct fr_err *err)
{
    fr_status st;

    if (to->src < 0)
        return FR_OK;
    TRY(fr_insert_map(&a->z, FR_OP_multiply, (struct fr_edge[]){x, y}, &x, err));
    st = give(a, to, &x, err);
out:
    return st;
}

static fr_status
turned(struct fr_inserter *z, const struct fr_edge *e, struct fr_edge *out, struct fr_err *err)
{
    const int64_t *d = fr_layout_dims(e->layout), *s = fr_layout_strides(e->layout);

    return fr_insert_window(z, e, 2, (int64_t[]){d[1], d[0]}, (int64_t[]){s[1], s[0]}, 0, out, err);
}

/* What node n gives to its arguments. */
static fr_status
go_back(struct adjoint *a, int n, struct fr_err *err)
{
    struct fr_inserter    *z = &a->z;
    const struct fr_gnode  node = z->g->node[n];     /* the graph's array moves */
    const struct fr_edge  *x = node.arg, *e = &a->of[n];
    int64_t                dims[FR_MAX_DIMS];
    struct fr_edge         t, u;
    fr_status              st = FR_OK;

    switch (node.op) {
    case FR_OP_add:
        TRY(give(a, &x[0], e, err));
        return give(a, &x[1], e, err);
    case FR_OP_multiply:
        TRY(give_product(a, &x[0], *e, x[1], err));
        return give_product(a, &x[1], *e, x[0], err);
    case FR_OP_square:
        TRY(fr_insert_number(z, (struct fr_number[]){real(2)}, node.dtype, &t, err));
        TRY(fr_insert_map(z, FR_OP_multiply, (struct fr_edge[]){x[0], t}, &t, err));
        return give_product(a, &x[0], *e, t, err);
    case FR_OP_sin:
        z->before = n; /* as long as x is what it was */
        TRY(fr_insert_map(z, FR_OP_cos, x, &t, err));
        z->before = z->n_given;
        return give_product(a, &x[0], *e, t, err);
    case FR_OP_cast:
        TRY(fr_insert_cast(z, e, z->g->node[x->src].dtype, 'K', &t, err));
        return give(a, x, &t, err);
    case FR_OP_sum:
        for (int k = 0; k < x->layout->ndim; k++)
            dims[k] = node.axes >> k & 1 ? 1 : fr_layout_dims(x->layout)[k];
        TRY(fr_insert_reshape(z, e, x->layout->ndim, dims, &t, err));
        TRY(fr_insert_broadcast(z, &t, x->layout->ndim, fr_layout_dims(x->layout), &t, err));
        return give(a, x, &t, err);
    case FR_OP_cumsum:
        TRY(fr_insert_flip(z, e, (int)node.axes, &t, err));
        TRY(fr_insert_scan(z, FR_OP_cumsum, &t, (int)node.axes, node.dtype, &t, err));
        TRY(fr_insert_flip(z, &t, (int)node.axes, &t, err));
        return give(a, x, &t, err);
    case FR_OP_matmul:
        TRY(turned(z, &x[1], &t, err));
        TRY(fr_insert_product(z, e, &t, &t, err));
        TRY(turned(z, &x[0], &u, err));
        TRY(fr_insert_product(z, &u, e, &u, err));
        TRY(give(a, &x[0], &t, err));
        return give(a, &x[1], &u, err);
    case FR_OP_store:
        TRY(fr_insert_window(z, e, x[2].layout->ndim, fr_layout_dims(x[2].layout), fr_layout_strides(x[2].layout),
                             x[2].offset, &t, err));
        TRY(give(a, &x[1], &t, err));
        TRY(fr_insert_cast(z, e, node.dtype, 'K', &t, err));
        TRY(fr_insert_window(z, &t, x[2].layout->ndim, fr_layout_dims(x[2].layout), fr_layout_strides(x[2].layout),
                             x[2].offset, &t, err));
        TRY(fr_insert_number(z, (struct fr_number[]){real(0)}, node.dtype, &u, err));
        TRY(fr_insert_store(z, &t, &u, &t, err));
        return give(a, &x[0], &t, err);
    default: return fr_fail(err, FR_EVALUE, "no adjoint of %s", fr_op_info[node.op].name);
    }
out:
    return st;
}

static fr_status
run_adjoint(struct fr_graph *g, struct fr_err *err)
{
    struct adjoint a = {.of = calloc((size_t)g->n_nodes, sizeof *a.of), .has = calloc((size_t)g->n_nodes, 1)};
    int            n = g->n_nodes - 1;
    fr_status      st, ended;

    while (!g->node[n].output)
        n--;
    fr_insert_begin(&a.z, g);
    TRY(fr_insert_number(&a.z, (struct fr_number[]){real(1)}, g->node[n].dtype, &a.of[n], err));
    TRY(fr_insert_broadcast(&a.z, &a.of[n], g->node[n].layout->ndim, fr_layout_dims(g->node[n].layout), &a.of[n], err));
    a.has[n] = true;
    for (; n >= 0; n--) {
        if (!a.has[n])
            continue;
        if (g->node[n].op != FR_OP_leaf) {
            TRY(go_back(&a, n, err));
            continue;
        }
        if (!a.of[n].whole)
            TRY(fr_insert_cast(&a.z, &a.of[n], g->node[n].dtype, 'C', &a.of[n], err));
        g->node[a.of[n].src].output = true;
    }
out:
    ended = fr_insert_end(&a.z, err);
    free(a.of);
    free(a.has);
    return st == FR_OK ? ended : st;
}

/* The same node in the given order, which only a conversion has: as NumPy's iterator, its copies or C have it. */
static fr_status
make_again(struct fr_inserter *z, const struct fr_gnode *n, char order, struct fr_edge *out, struct fr_err *err)
{
    switch (fr_op_info[n->op].class_) {
    case FR_CLASS_MAP: return fr_insert_map(z, n->op, n->arg, out, err);
    case FR_CLASS_REDUCE: return fr_insert_reduce(z, n->op, n->arg, n->axes, false, FR_N_DTYPES, out, err);
    case FR_CLASS_SCAN: return fr_insert_scan(z, n->op, n->arg, (int)n->axes, FR_N_DTYPES, out, err);
    case FR_CLASS_CALL: return fr_insert_product(z, &n->arg[0], &n->arg[1], out, err);
    default: return fr_insert_cast(z, n->arg, n->dtype, order, out, err);
    }
}

static fr_status
run_again(struct fr_graph *g, struct fr_err *err)
{
    struct fr_inserter z;
    int                n_given = g->n_nodes, n_alike = 0;
    fr_status          st = FR_OK, ended;

    fr_insert_begin(&z, g);
    for (int n = 0; n < n_given; n++) {
        const struct fr_gnode node = g->node[n];
        struct fr_edge        e;
        bool                  alike = false;

        for (const char *order = "IKC"; fr_gnode_computes(&node) && *order && !alike; order++) {
            TRY(make_again(&z, &node, *order, &e, err));
            alike = g->node[e.src].op == node.op && g->node[e.src].dtype == node.dtype &&
                    g->node[e.src].layout == node.layout && g->node[e.src].axes == node.axes && e.src == n_given;
            fr_insert_drop(&z, n_given);
        }
        n_alike += alike;
        if (fr_gnode_computes(&node) && !alike)
            printf("%%%d = %s comes out in another way\n", n, fr_op_info[node.op].name);
    }
    printf("%d alike\n", n_alike);
out:
    ended = fr_insert_end(&z, err);
    return st == FR_OK ? ended : st;
}
