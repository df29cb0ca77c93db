/* Tracing of what is no loop nest: matrix products.  Shapes, dtypes and layouts as NumPy has them. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/storage.h"

/* A new CALL node over two handles. The layout's reference moves in, also on failure. */
static fr_status
call_node(fr_op op, const struct fr_tensor *a, const struct fr_tensor *b, int axis,
          struct fr_layout *layout, struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_tensor *arg[2] = {a, b};
    fr_ref                  made[2] = {FR_NO_NODE, FR_NO_NODE}, id = FR_NO_NODE;
    struct fr_tensor        t = {0};
    fr_status               st = FR_OK;

    for (int k = 0; k < 2; k++) {
        TRY(fr_tensor_node(arg[k], &made[k], err));
        fr_node_ref(made[k]);
    }
    if (!(id = fr_node_new(op, a->dtype, fr_trace_site)))
        TRY(fr_no_memory(err, "a node"));
    fr_nodes[id].layout = layout;
    layout = NULL;
    fr_nodes[id].n_args = 2;
    fr_nodes[id].u.axes = (uint32_t)axis;
    for (int k = 0; k < 2; k++)
        fr_node_set_arg(id, k, made[k]);
    TRY(fr_tensor_wrap(id, &t, err));
    TRY(fr_guard(&t, err));
    *out = t;
    t.storage = NULL;
out:
    for (int k = 0; k < 2; k++)
        if (made[k])
            fr_node_unref(made[k]);
    fr_layout_unref(layout);
    fr_tensor_clear(&t);
    return st;
}

/* The layout that NumPy gives a product: matrices in C order, stacks of them as the operands' stacks lie. */
static fr_status
product_layout(const struct fr_layout *a, const struct fr_layout *b, struct fr_layout **out,
               struct fr_err *err)
{
    const struct fr_layout *in[2] = {a, b};
    int64_t                 dims[FR_MAX_DIMS], strides[2][FR_MAX_DIMS] = {{0}}, order[FR_MAX_DIMS], n;
    const int64_t          *list[2] = {strides[0], strides[1]};
    int                     ndim, n_outer;
    fr_status               st;

    if ((st = fr_dims_product(a->ndim, fr_layout_dims(a), b->ndim, fr_layout_dims(b), &ndim, dims,
                              err)) != FR_OK ||
        (st = fr_dims_count(ndim, dims, 16, &n, err)) != FR_OK)
        return st;
    n_outer = ndim - (a->ndim > 1) - (b->ndim > 1);
    for (int i = 0; i < 2; i++) {
        int own = in[i]->ndim - (in[i]->ndim > 1 ? 2 : 1);

        for (int k = 0; k < own; k++)
            if (fr_layout_dims(in[i])[k] != 1)
                strides[i][n_outer - own + k] = fr_layout_strides(in[i])[k];
    }
    fr_strides_keep_order(ndim, dims, 2, list, order);
    *out = fr_layout_get(ndim, dims, n ? order : NULL);
    return *out ? FR_OK : fr_no_memory(err, "a layout");
}

/* t itself, or its values in another dtype in *cast: in C order, as NumPy's iterator copies a matrix. */
static fr_status
converted(const struct fr_tensor **t, fr_dtype dtype, struct fr_tensor *cast, struct fr_err *err)
{
    fr_status st;

    if ((*t)->dtype == dtype)
        return FR_OK;
    if ((st = fr_trace_cast(*t, dtype, 'C', cast, err)) == FR_OK)
        *t = cast;
    return st;
}

fr_status
fr_trace_product(const struct fr_tensor *a, const struct fr_tensor *b, struct fr_tensor *out,
                 struct fr_err *err)
{
    fr_dtype          dtype = fr_dtype_promote(a->dtype, b->dtype);
    struct fr_tensor  as_a = {0}, as_b = {0};
    struct fr_layout *l;
    int64_t           work;
    fr_status         st;

    if ((st = product_layout(a->layout, b->layout, &l, err)) != FR_OK)
        return st;
    work = l->n_elems * fr_layout_dims(a->layout)[a->layout->ndim - 1];
    if ((st = fr_guard_products(work, err)) == FR_OK &&
        (st = converted(&a, dtype, &as_a, err)) == FR_OK)
        st = converted(&b, dtype, &as_b, err);
    if (st == FR_OK)
        st = call_node(FR_OP_matmul, a, b, 0, l, out, err);
    else
        fr_layout_unref(l);
    fr_tensor_clear(&as_a);
    fr_tensor_clear(&as_b);
    return st;
}
