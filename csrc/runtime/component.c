/* Windows as nodes, and above all windows of one component of a complex storage: z.real and z.imag, which are views as in
 * NumPy.
 *
 * Such a window has the component's dtype where its storage has the complex one, and its strides and offset count
 * components, so that windows of it, its address and its strides in bytes are made as any other's. The graph knows nothing
 * of it: what it shows is an operation on the storage's version, and a store into it is a store of complex numbers whose
 * other component is what it was. So versions, fusion and stores in place are those of complex arrays. */
#include "runtime/storage.h"

fr_status
fr_tensor_component(const struct fr_tensor *t, bool imag, struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_layout *l = t->layout;
    int64_t                 strides[FR_MAX_DIMS];
    struct fr_tensor        window;
    fr_status               st;

    for (int k = 0; k < l->ndim; k++)
        strides[k] = 2 * fr_layout_strides(l)[k];
    if ((st = fr_tensor_window(t, l->ndim, fr_layout_dims(l), strides, 0, &window, err)) != FR_OK)
        return st;
    window.offset = 2 * t->offset + imag;
    window.dtype = fr_dtype_info[t->dtype].component;
    window.whole = false;
    *out = window;
    return FR_OK;
}

bool
fr_tensor_is_component(const struct fr_tensor *t)
{
    return fr_component_is(t);
}

bool
fr_tensor_may_walk(const struct fr_tensor *t, int ndim, const int64_t *dims, const int64_t *strides)
{
    if (!fr_component_is(t))
        return true;
    for (int k = 0; k < ndim; k++)
        if (dims[k] == 0) /* nobody goes anywhere */
            return true;
    for (int k = 0; k < ndim; k++)
        if (dims[k] > 1 && strides[k] % 2)
            return false;
    return true;
}

fr_status
fr_component_numbers(const struct fr_tensor *t, struct fr_tensor *out, bool *imag,
                     struct fr_err *err)
{
    const struct fr_layout *l = t->layout;
    struct fr_tensor        all = {.storage = t->storage, .layout = t->storage->layout, .dtype = t->storage->dtype,
                                   .readonly = t->readonly};
    int64_t                 strides[FR_MAX_DIMS];

    FR_ASSERT(fr_tensor_may_walk(t, l->ndim, fr_layout_dims(l), fr_layout_strides(l)));
    for (int k = 0; k < l->ndim; k++)
        strides[k] = fr_layout_strides(l)[k] / 2;
    *imag = t->offset & 1;
    return fr_tensor_window(&all, l->ndim, fr_layout_dims(l), l->n_elems ? strides : NULL, t->offset >> 1, out, err);
}

/* Whether what an operation makes of the window lies as the window does, in the order of a sum. */
static bool
keeps_order(const struct fr_layout *l)
{
    int n_axes = 0;

    if (l->dense || l->n_elems == 0)
        return true;
    for (int k = 0; k < l->ndim; k++)
        if (fr_layout_dims(l)[k] > 1 && (fr_layout_strides(l)[k] < 0 || ++n_axes > 1))
            return false;
    return true;
}

/* The elements of the storage between the first and the last that the window shows, as a row. */
static fr_status
row_around(const struct fr_tensor *t, struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_layout *l = t->layout;
    int64_t                 low = 0, n = 1, one = 1;

    for (int k = 0; k < l->ndim; k++) {
        int64_t far = (fr_layout_dims(l)[k] - 1) * fr_layout_strides(l)[k];

        low += far < 0 ? far : 0;
        n += far < 0 ? -far : far;
    }
    return fr_tensor_window(t, 1, &n, &one, low, out, err);
}

/* The operation's result, which lies as such results do, as a new node. */
static fr_status
component_node(const struct fr_tensor *numbers, fr_op op, fr_ref *out, struct fr_err *err)
{
    return fr_trace_map_node(op, &(struct fr_arg){.t = numbers}, 1, numbers->dtype, NULL, out, err);
}

/* What to read for it, as fr_tensor_node. */
static fr_status
window_node(const struct fr_tensor *t, fr_ref *out, struct fr_err *err)
{
    struct fr_tensor numbers, row;
    fr_ref           id, view;
    bool             imag;
    fr_op            op;
    fr_status        st = fr_component_numbers(t, &numbers, &imag, err);

    if (st != FR_OK)
        return st;
    op = imag ? FR_OP_imag : FR_OP_real;
    if (keeps_order(numbers.layout)) {
        st = component_node(&numbers, op, out, err);
        fr_tensor_clear(&numbers);
        return st;
    }
    /* How a sum is ordered depends on how the window lies, so it must be one of something. */
    if ((st = row_around(&numbers, &row, err)) == FR_OK) {
        if ((st = component_node(&row, op, &id, err)) == FR_OK) {
            if ((view = fr_node_new(FR_OP_view, t->dtype, fr_trace_site))) {
                fr_nodes[view].layout = fr_layout_ref(numbers.layout);
                fr_nodes[view].u.offset = numbers.offset - row.offset;
                fr_nodes[view].n_args = 1;
                fr_node_set_arg(view, 0, id);
                *out = view;
            } else {
                fr_node_drop_new(id);
                st = fr_no_memory(err, "a node");
            }
        }
        fr_tensor_clear(&row);
    }
    fr_tensor_clear(&numbers);
    return st;
}

/* Whether the handle shows elements of its storage and nothing beside it. A component counts in parts of them. */
static FR_DEBUG_ONLY bool
is_within_storage(const struct fr_tensor *t)
{
    const struct fr_layout *l = t->layout;
    int64_t                 low = t->offset, high = t->offset;
    int64_t                 n = t->storage->layout->n_elems * (fr_component_is(t) ? 2 : 1);

    for (int k = 0; k < l->ndim; k++)
        *(fr_layout_strides(l)[k] < 0 ? &low : &high) += (fr_layout_dims(l)[k] - 1) * fr_layout_strides(l)[k];
    return l->n_elems == 0 || (low >= 0 && high < n);
}

fr_status
fr_tensor_node(const struct fr_tensor *t, fr_ref *out, struct fr_err *err)
{
    fr_ref id;

    if (t->whole) {
        *out = t->storage->node;
        return FR_OK;
    }
    FR_ASSERT(is_within_storage(t));
    if (FR_UNLIKELY(fr_component_is(t)))
        return window_node(t, out, err);
    if (!(id = fr_node_new(FR_OP_view, t->dtype, fr_trace_site)))
        return fr_no_memory(err, "a node");
    fr_nodes[id].layout = fr_layout_ref(t->layout);
    fr_nodes[id].u.offset = t->offset;
    fr_nodes[id].n_args = 1;
    fr_node_set_arg(id, 0, t->storage->node);
    *out = id;
    return FR_OK;
}

bool
fr_tensors_meet(const struct fr_tensor *a, const struct fr_tensor *b)
{
    const struct fr_tensor *part = fr_component_is(a) ? a : b, *other = part == a ? b : a;
    struct fr_tensor        numbers;
    struct fr_err           ignored;
    bool                    imag, meet;

    if (a->storage != b->storage)
        return false;
    if (a->dtype == b->dtype)
        return fr_overlap(a->layout, a->offset, b->layout, b->offset);
    if (fr_component_numbers(part, &numbers, &imag, &ignored) != FR_OK)
        return true; /* nobody knows */
    meet = fr_overlap(numbers.layout, numbers.offset, other->layout, other->offset);
    fr_tensor_clear(&numbers);
    return meet;
}
