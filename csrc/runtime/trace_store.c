/* Tracing of new arrays and of stores: values into a window of an array, which makes a new version of its
 * storage. */
#include "runtime/storage.h"

/* ---- new arrays --------------------------------------------------------------------------- */

/* A node without arguments over a checked shape. */
static fr_status
source(fr_op op, int ndim, const int64_t *dims, const int64_t *strides, fr_dtype dtype, fr_ref *out,
       struct fr_err *err)
{
    struct fr_layout *l;
    int64_t           n;
    fr_status         st = fr_dims_count(ndim, dims, fr_dtype_size(dtype), &n, err);

    if (st != FR_OK)
        return st;
    if (!(l = fr_layout_get(ndim, dims, strides)))
        return fr_no_memory(err, "a layout");
    return (*out = fr_trace_node(op, dtype, l, err)) ? FR_OK : FR_ENOMEM;
}

fr_status
fr_trace_fill(int ndim, const int64_t *dims, fr_dtype dtype, const struct fr_number *v,
              struct fr_tensor *out, struct fr_err *err)
{
    uint64_t  bits[2];
    fr_ref    id = FR_NO_NODE, number;
    fr_status st;

    if ((st = fr_number_bits(v, dtype, bits, err)) != FR_OK)
        return st;
    if ((st = source(FR_OP_cast, ndim, dims, NULL, dtype, &id, err)) != FR_OK)
        return st;
    if (dtype == FR_C128) {
        if (!(number = fr_trace_scalar(bits, dtype, err))) {
            fr_node_drop_new(id);
            return FR_ENOMEM;
        }
    } else {
        number = FR_SCALAR_HERE;
        fr_nodes[id].u.bits = bits[0];
        fr_nodes[id].v.number = dtype;
    }
    fr_nodes[id].n_args = 1;
    fr_node_set_arg(id, 0, number);
    return fr_trace_finish(id, out, err);
}

fr_status
fr_trace_iota(int ndim, const int64_t *dims, int axis, fr_dtype dtype, struct fr_tensor *out,
              struct fr_err *err)
{
    struct fr_tensor t;
    fr_ref           id;
    fr_status        st;

    if ((st = source(FR_OP_iota, ndim, dims, NULL, FR_I64, &id, err)) != FR_OK)
        return st;
    fr_nodes[id].u.axes = (uint32_t)axis;
    if ((st = fr_trace_finish(id, &t, err)) != FR_OK)
        return st;
    if (dtype == FR_I64) {
        *out = t;
        return FR_OK;
    }
    st = fr_trace_cast(&t, dtype, 'K', out, err);
    fr_tensor_clear(&t);
    return st;
}

fr_status
fr_trace_empty(int ndim, const int64_t *dims, const int64_t *strides, fr_dtype dtype,
               struct fr_tensor *out, struct fr_err *err)
{
    fr_ref    id = FR_NO_NODE;
    fr_status st;

    for (int k = 0; k < ndim; k++)
        if (dims[k] == 0)
            strides = NULL; /* new memory for nothing has one layout, all strides 0 */
    st = source(FR_OP_empty, ndim, dims, strides, dtype, &id, err);
    return st == FR_OK ? fr_trace_finish(id, out, err) : st;
}

/* ---- stores ------------------------------------------------------------------------------- */

uint32_t fr_trace_last_store;

/* Makes `value` (of dst's dtype, dims that broadcast to dst's) the window's new content. */
static fr_status
store_node(const struct fr_tensor *dst, fr_ref value, struct fr_err *err)
{
    struct fr_storage *s = dst->storage;
    struct fr_tensor   as_view = *dst;
    fr_ref             view, id;
    fr_status          st;

    as_view.whole = false;
    fr_nodes[value].refs++;
    if ((st = fr_tensor_node(&as_view, &view, err)) != FR_OK) {
        fr_node_unref(value);
        return st;
    }
    fr_nodes[view].refs++;
    id = fr_trace_node(FR_OP_store, s->dtype, fr_layout_ref(s->layout), err);
    if (id) {
        fr_elems_made -= (uint64_t)s->layout->n_elems; /* of which it is only a part; the value has been counted */
        fr_trace_last_store = fr_nodes[id].seq;
        fr_nodes[id].n_args = 3;
        fr_node_set_arg(id, 0, s->node);
        fr_node_set_arg(id, 1, value);
        fr_node_set_arg(id, 2, view);
        fr_storage_advance(s, id);
    }
    fr_node_unref(value);
    fr_node_unref(view);
    if (!id)
        return FR_ENOMEM;
    st = fr_guard(id, s, err);
    if (st != FR_OK && s->node == id && fr_nodes[id].op == FR_OP_store)
        fr_storage_advance(s, fr_nodes[id].arg[0]); /* an assignment that fails has not happened */
    fr_release_foreign();
    return st;
}

/* Makes `id`, a new node of the storage's layout, its next version. */
static fr_status
replace_version(struct fr_storage *s, fr_ref id, struct fr_err *err)
{
    fr_status st;

    fr_nodes[id].refs++;
    st = fr_guard(id, NULL, err);
    if (st == FR_OK || (st == FR_ERAISED && fr_nodes[id].op == FR_OP_leaf)) /* what warns as an error is there */
        fr_storage_advance(s, id);
    fr_node_unref(id);
    fr_release_foreign();
    return st;
}

/* True when a value of the window's shape simply becomes the storage's next version. */
static bool
replaces(const struct fr_tensor *dst)
{
    return dst->whole && !fr_storage_pinned(dst->storage);
}

/* x[1:] += 1 ends with x[1:] = x[1:]. */
static bool
is_same(const struct fr_tensor *a, const struct fr_tensor *b)
{
    return a->storage == b->storage && a->layout == b->layout && a->offset == b->offset && a->dtype == b->dtype;
}

/* A component becomes the value: complex numbers, whose other component is what it was. */
static fr_status
store_component(const struct fr_tensor *dst, const struct fr_arg *value, struct fr_err *err)
{
    struct fr_tensor numbers, changed;
    struct fr_arg    args[2] = {{.t = &numbers}, *value};
    fr_ref           id;
    fr_op            op;
    bool             imag;
    fr_status        st = fr_component_numbers(dst, &numbers, &imag, err);

    if (st != FR_OK)
        return st;
    op = imag ? FR_OP_with_imag : FR_OP_with_real;
    if (replaces(&numbers) && (!value->t || value->t->layout->ndim <= numbers.layout->ndim)) {
        st = fr_trace_map_node(op, args, 2, numbers.dtype, numbers.layout, &id, err);
        if (st == FR_OK)
            st = replace_version(numbers.storage, id, err);
    } else if ((st = fr_trace_map_node(op, args, 2, numbers.dtype, NULL, &id, err)) == FR_OK &&
               (st = fr_tensor_wrap(id, &changed, err)) == FR_OK) {
        st = fr_trace_store(&numbers, &(struct fr_arg){.t = &changed}, err);
        fr_tensor_clear(&changed);
    }
    fr_tensor_clear(&numbers);
    return st;
}

/* What is AUTO is computed and copied where it is stored, if that was chosen. */
static inline bool
has_to_come(const struct fr_tensor *dst, const struct fr_arg *value)
{
    fr_device d = fr_storage_device(dst->storage);

    return value->t && FR_UNLIKELY(fr_storage_device(value->t->storage) == FR_DEVICE_AUTO) && d != FR_DEVICE_AUTO &&
           d != FR_DEVICE_ANY;
}

/* The operation (or a store) into dst, once argument k has come. */
static FR_COLD fr_status
store_there(fr_op op, const struct fr_arg *args, int n_args, int k, const struct fr_tensor *dst, struct fr_err *err)
{
    struct fr_arg    there[3] = {args[0]};
    struct fr_tensor t;
    fr_status        st = fr_tensor_to_device(args[k].t, fr_storage_device(dst->storage), &t, err);

    if (st != FR_OK)
        return st;
    for (int i = 0; i < n_args; i++)
        there[i] = args[i];
    there[k].t = &t;
    st = op == FR_OP_store ? fr_trace_store(dst, there, err) : fr_trace_map_into(op, there, n_args, dst, err);
    fr_tensor_clear(&t);
    return st;
}

fr_status
fr_trace_store(const struct fr_tensor *dst, const struct fr_arg *value, struct fr_err *err)
{
    struct fr_layout *l = value->t ? value->t->layout : NULL;
    fr_ref            id;
    fr_status         st;

    if (dst->readonly)
        return fr_fail(err, FR_EVALUE, "assignment destination is read-only");
    if (l && (st = fr_build_store(dst->layout, l->ndim, fr_layout_dims(l), err)) != FR_OK)
        return st;
    if ((st = fr_trace_together("an assignment", (const struct fr_tensor *[]){dst, value->t}, 2, err)) != FR_OK)
        return st;
    if (dst->layout->n_elems == 0 || (value->t && is_same(dst, value->t)))
        return FR_OK;
    if (has_to_come(dst, value))
        return store_there(FR_OP_store, value, 1, 0, dst, err);
    if (fr_component_is(dst))
        return store_component(dst, value, err);
    if (value->t && !replaces(dst) && value->t->storage == dst->storage && fr_tensors_meet(dst, value->t)) {
        struct fr_tensor copy; /* x[1:] = x[:-1]: other elements of the very memory that is written */

        if ((st = fr_trace_cast(value->t, dst->dtype, 'K', &copy, err)) != FR_OK)
            return st;
        st = fr_trace_store(dst, &(struct fr_arg){.t = &copy}, err);
        fr_tensor_clear(&copy);
        return st;
    }
    if (!value->t) {
        uint64_t bits[2];

        if ((st = fr_number_bits(&value->n, dst->dtype, bits, err)) != FR_OK)
            return st;
        if (!(id = fr_trace_scalar(bits, dst->dtype, err)))
            return FR_ENOMEM;
    } else if ((st = fr_trace_arg(value->t, dst->dtype, FR_OP_cast, &id, err)) != FR_OK) {
        return st;
    }
    if (replaces(dst)) {
        fr_ref copy;

        fr_nodes[id].refs++;
        copy = fr_trace_convert(id, dst->dtype, fr_layout_ref(dst->layout), err);
        fr_node_unref(id);
        return copy ? replace_version(dst->storage, copy, err) : FR_ENOMEM;
    }
    return store_node(dst, id, err);
}

/* Whether NumPy multiplies a single complex number in place, which it takes for a step of a product of many. */
static bool
is_step_of_product(const struct fr_arg *args, int n, const struct fr_tensor *dst)
{
    return fr_dtype_is_complex(dst->dtype) && dst->layout->n_elems == 1 && n == 2 && args[0].t &&
           args[0].t->storage == dst->storage && is_same(dst, args[0].t) && (!args[1].t || args[1].t->layout->n_elems == 1);
}

/* Whether an operand shows other elements of the memory that is written. Then NumPy computes into memory of its own, so
 * that where a warning is an error nothing has been written. */
static bool
reads_others_of(const struct fr_tensor *dst, const struct fr_arg *args, int n_args)
{
    for (int k = 0; k < n_args; k++)
        if (args[k].t && args[k].t->storage == dst->storage && !is_same(dst, args[k].t) && fr_tensors_meet(dst, args[k].t))
            return true;
    return false;
}

fr_status
fr_trace_map_into(fr_op op, const struct fr_arg *args, int n_args, const struct fr_tensor *dst,
                  struct fr_err *err)
{
    struct fr_layout *l[3], *layout = NULL;
    fr_dtype          compute, result;
    fr_ref            id;
    int               n = 0;
    fr_status         st;

    if (dst->readonly)
        return fr_fail(err, FR_EVALUE, "output array is read-only");
    for (int k = 0; k < n_args; k++)
        if (has_to_come(dst, &args[k]))
            return store_there(op, args, n_args, k, dst, err);
    if (op == FR_OP_multiply && is_step_of_product(args, n_args, dst))
        op = FR_OP_multiply_apart;
    if ((st = fr_trace_resolve(op, args, n_args, &compute, err)) != FR_OK)
        return st;
    result = fr_op_result(op, compute);
    if ((st = fr_build_out_dtype(op, result, dst->dtype, err)) != FR_OK)
        return st;
    for (int k = 0; k < n_args; k++)
        if (args[k].t) {
            if ((st = fr_trace_together(fr_op_info[op].name, (const struct fr_tensor *[]){args[k].t, dst}, 2, err)) != FR_OK)
                return st;
            l[n++] = args[k].t->layout;
        }
    if (n && (st = fr_trace_layout(l, n, fr_op_info[op].name, &layout, err)) != FR_OK)
        return st;
    st = layout ? fr_build_out_layout(layout, dst->layout, err) : FR_OK;
    if (st == FR_OK && dst->layout->n_elems == 0) { /* but numbers that are too large are said to be */
        struct fr_tensor value;

        if ((st = fr_trace_map_node(op, args, n_args, compute, NULL, &id, err)) == FR_OK &&
            (st = fr_tensor_wrap(id, &value, err)) == FR_OK)
            fr_tensor_clear(&value);
    } else if (st == FR_OK) {
        bool same = layout && fr_layout_same_dims(layout, dst->layout);
        bool first = fr_trace_at_once && reads_others_of(dst, args, n_args);

        if (replaces(dst) && same && result == dst->dtype && !first) {
            st = fr_trace_map_node(op, args, n_args, compute, dst->layout, &id, err);
            if (st == FR_OK)
                st = replace_version(dst->storage, id, err);
        } else if ((st = fr_trace_map_node(op, args, n_args, compute, NULL, &id, err)) == FR_OK) {
            struct fr_tensor value, cast;

            st = first ? fr_trace_finish(id, &value, err) : fr_tensor_wrap(id, &value, err);
            if (st == FR_OK && result != dst->dtype) {
                if ((st = fr_trace_arg(&value, dst->dtype, op, &id, err)) == FR_OK)
                    st = fr_tensor_wrap(id, &cast, err);
                fr_tensor_clear(&value);
                value = cast;
            }
            if (st == FR_OK) {
                st = fr_trace_store(dst, &(struct fr_arg){.t = &value}, err);
                fr_tensor_clear(&value);
            }
        }
    }
    fr_layout_unref(layout);
    return st;
}
