/* Products of columns and rows.
 *
 *     %2 = matmul f64[9,7] %0 %1          f64[9,1] by f64[1,7]
 *
 *     %2 = multiply f64[9,7] %0{strides=1,0} %1{strides=0,1}
 *     %3 = add f64[9,7] %2 0
 *
 * NumPy's loop and BLAS both begin a sum at +0.0, so a product that is -0.0 comes out as +0.0. Halves are multiplied and
 * added as f32 and rounded once; complex numbers round each of their products. */
#include "passes/outer.h"

#include <string.h>

#include "ir/insert.h"

static bool
is_outer(const struct fr_gnode *n)
{
    const struct fr_layout *a;

    if (n->dead || n->op != FR_OP_matmul || n->layout->n_elems == 0)
        return false;
    a = n->arg[0].layout;
    return fr_layout_dims(a)[a->ndim - 1] == 1;
}

/* The operand over the axes of the result: its inner axis, `inner`, makes room for the other operand's axis (`stays`), or
 * goes. */
static fr_status
spread(struct fr_inserter *z, const struct fr_edge *e, int inner, bool stays, const struct fr_layout *over, fr_dtype dtype,
       struct fr_edge *out, struct fr_err *err)
{
    int64_t   dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    int       n = 0;
    fr_status st;

    for (int k = 0; k < e->layout->ndim; k++)
        if (k != inner || stays) {
            dims[n] = fr_layout_dims(e->layout)[k];
            strides[n++] = fr_layout_strides(e->layout)[k];
        }
    TRY(fr_insert_window(z, e, n, dims, strides, 0, out, err));
    if (dtype != z->g->node[e->src].dtype)
        TRY(fr_insert_cast(z, out, dtype, 'K', out, err));
    TRY(fr_insert_broadcast(z, out, over->ndim, fr_layout_dims(over), out, err));
out:
    return st;
}

/* The operation and its arguments take the place of what the node was. */
static void
become(struct fr_gnode *n, fr_op op, const struct fr_edge *arg, int n_args)
{
    for (int k = 0; k < n_args; k++)
        if (arg[k].layout)
            fr_layout_ref(arg[k].layout);
    for (int k = 0; k < n->n_args; k++)
        fr_layout_unref(n->arg[k].layout);
    memset(n->arg, 0, sizeof n->arg);
    memcpy(n->arg, arg, (size_t)n_args * sizeof *arg);
    n->op = op;
    n->n_args = (uint8_t)n_args;
    n->axes = 0;
}

/* A new node that lies as node n does. */
static fr_status
alike(struct fr_inserter *z, int n, fr_op op, fr_dtype dtype, const struct fr_edge arg[2], struct fr_edge *out,
      struct fr_err *err)
{
    struct fr_gnode node = {.dtype = dtype, .site = z->site, .layout = fr_layout_ref(z->g->node[n].layout)};
    fr_status       st;

    become(&node, op, arg, 2);
    if ((st = fr_insert_node(z, &node, err)) == FR_OK)
        *out = fr_insert_whole(z, z->g->n_nodes - 1);
    return st;
}

static fr_status
multiply(struct fr_inserter *z, int n, struct fr_err *err)
{
    const struct fr_gnode   node = z->g->node[n];
    const struct fr_layout *a = node.arg[0].layout, *b = node.arg[1].layout;
    const struct fr_number  zero = {.dtype = FR_F64};
    const bool              complex = fr_dtype_is_complex(node.dtype);
    fr_dtype                in = node.dtype == FR_F16 ? FR_F32 : node.dtype;
    struct fr_edge          arg[2];
    fr_op                   op = complex ? FR_OP_multiply_apart : FR_OP_multiply;
    fr_status               st;

    z->before = n;
    z->site = node.site;
    TRY(spread(z, &node.arg[0], a->ndim - 1, b->ndim > 1, node.layout, in, &arg[0], err));
    TRY(spread(z, &node.arg[1], b->ndim > 1 ? b->ndim - 2 : 0, a->ndim > 1 && b->ndim > 1, node.layout, in, &arg[1], err));
    if (complex || fr_dtype_kind(in) == 'f') {
        TRY(alike(z, n, op, in, arg, &arg[0], err));
        TRY(fr_insert_number(z, &zero, in, &arg[1], err));
        op = FR_OP_add;
    }
    if (in != node.dtype) {
        TRY(alike(z, n, op, in, arg, &arg[0], err));
        become(&z->g->node[n], FR_OP_cast, arg, 1);
    } else {
        become(&z->g->node[n], op, arg, 2);
    }
out:
    return st;
}

fr_status
fr_outer(struct fr_graph *g, struct fr_err *err)
{
    struct fr_inserter z;
    fr_status          st = FR_OK, end;

    fr_insert_begin(&z, g);
    for (int n = 0; n < z.n_given && st == FR_OK; n++)
        if (is_outer(&g->node[n]))
            st = multiply(&z, n, err);
    end = fr_insert_end(&z, err);
    return st == FR_OK ? end : st;
}
