/* Handles: other shapes, questions about them, and handles over memory that is there already. See tensor.h. */
#include "runtime/tensor.h"

#include <string.h>

#include "backends/backend.h"
#include "backends/host.h"
#include "runtime/storage.h"

fr_status
fr_tensor_reshape(const struct fr_tensor *t, int ndim, const int64_t *dims, struct fr_tensor *out,
                  struct fr_err *err)
{
    int64_t          strides[FR_MAX_DIMS], n;
    char             to[200];
    struct fr_tensor copy;
    fr_status        st;

    if ((st = fr_dims_count(ndim, dims, 1, &n, err)) != FR_OK)
        return st;
    if (n != t->layout->n_elems)
        return fr_fail(err, FR_EVALUE, "cannot reshape array of size %lld into shape %s",
                       (long long)t->layout->n_elems, fr_dims_print(ndim, dims, to, sizeof to));
    if (n == 0) { /* in whatever way it lies; NumPy's strides count an axis of 0 as one of 1 */
        bool same = ndim == t->layout->ndim && !memcmp(dims, fr_layout_dims(t->layout), (size_t)ndim * sizeof *dims);

        fr_strides_c_order(ndim, dims, strides);
        return fr_tensor_window(t, ndim, dims, same ? fr_layout_strides(t->layout) : strides, 0, out, err);
    }
    if (fr_layout_reshape(t->layout, ndim, dims, strides))
        return fr_tensor_window(t, ndim, dims, strides, 0, out, err);
    if ((st = fr_trace_cast(t, t->dtype, 'C', &copy, err)) != FR_OK)
        return st;
    st = fr_tensor_window(&copy, ndim, dims, NULL, 0, out, err);
    fr_tensor_clear(&copy);
    return st;
}

fr_status
fr_tensor_broadcast(const struct fr_tensor *t, int ndim, const int64_t *dims, struct fr_tensor *out,
                    struct fr_err *err)
{
    const int64_t *d = fr_layout_dims(t->layout), *s = fr_layout_strides(t->layout);
    int            nd = t->layout->ndim;
    int64_t        strides[FR_MAX_DIMS], n;
    char           from[200], to[200];
    fr_status      st;

    if ((st = fr_dims_count(ndim, dims, 1, &n, err)) != FR_OK)
        return st;
    for (int k = 1; k <= ndim; k++) {
        bool has = k <= nd;

        if (has && d[nd - k] != 1 && d[nd - k] != dims[ndim - k])
            break;
        strides[ndim - k] = has && d[nd - k] != 1 ? s[nd - k] : 0;
        if (k == ndim && nd <= ndim) {
            if ((st = fr_tensor_window(t, ndim, dims, strides, 0, out, err)) == FR_OK && n != 0)
                out->readonly = out->readonly || out->layout != t->layout;
            return st;
        }
    }
    if (ndim == 0 && nd == 0)
        return fr_tensor_window(t, 0, dims, strides, 0, out, err);
    return fr_fail(err, FR_EVALUE,
                   "operands could not be broadcast together with remapped shapes "
                   "[original->remapped]: %s and requested shape %s",
                   fr_dims_print(nd, d, from, sizeof from), fr_dims_print(ndim, dims, to, sizeof to));
}

/* ---- questions ---------------------------------------------------------------------------- */

bool
fr_tensor_is_alone(const struct fr_tensor *t)
{
    return t->whole && fr_tensor_has_storage_alone(t);
}

bool
fr_tensor_has_storage_alone(const struct fr_tensor *t)
{
    return !t->readonly && t->storage->refs == 1 && !t->storage->pinned;
}

bool
fr_tensor_owns(const struct fr_tensor *t, const void *object)
{
    const struct fr_storage *s = t->storage;

    return (!s->object || s->object == object) && t->dtype == s->dtype && t->layout->n_elems == s->layout->n_elems;
}

bool
fr_tensor_is_pending(const struct fr_tensor *t)
{
    return fr_node_computes(&fr_nodes[t->storage->node]);
}

fr_dtype
fr_tensor_whole_numbers(const struct fr_tensor *t)
{
    const struct fr_node *n = &fr_nodes[t->storage->node];

    if (fr_dtype_is_int(t->dtype) || n->op != FR_OP_cast || n->dtype != t->dtype ||
        (t->dtype != FR_F32 && t->dtype != FR_F64))
        return t->dtype;
    return fr_nodes[n->arg[0]].dtype;
}

/* ---- handles over memory -------------------------------------------------------------------- */

fr_status
fr_tensor_from_buffer(struct fr_buffer *buffer, fr_device device, fr_dtype dtype, struct fr_layout *storage_layout,
                      struct fr_tensor *out, struct fr_err *err)
{
    fr_ref id = fr_node_new(FR_OP_leaf, dtype, fr_trace_site);

    if (!id) {
        fr_buffer_unref(buffer);
        return fr_no_memory(err, "a node");
    }
    fr_nodes[id].layout = fr_layout_ref(storage_layout);
    fr_nodes[id].v.buffer = buffer;
    fr_nodes[id].device = device;
    fr_guard_fresh(buffer->n_bytes);
    return fr_tensor_wrap(id, out, err);
}

/* Adds `steps` strides to *end, elements; true where that is no place in memory. */
static bool
reaches_too_far(int64_t stride, int64_t steps, int64_t size, int64_t *end)
{
    int64_t way, bytes;

    return __builtin_mul_overflow(stride, steps, &way) || __builtin_add_overflow(*end, way, end) ||
           __builtin_mul_overflow(*end, size, &bytes) || bytes > INT64_MAX / 4 || bytes < -(INT64_MAX / 4);
}

fr_status
fr_tensor_from_memory(void *data, fr_device device, fr_dtype dtype, int ndim, const int64_t *dims,
                      const int64_t *byte_strides, bool readonly, void (*release)(void *),
                      void *owner, struct fr_tensor *out, struct fr_err *err)
{
    int64_t           strides[FR_MAX_DIMS], low = 0, high = 0, size = fr_dtype_size(dtype), n;
    struct fr_layout *window = NULL, *home = NULL;
    struct fr_buffer *b = NULL;
    struct fr_tensor  base = {0};
    fr_status         st;

    TRY(fr_dims_count(ndim, dims, (int)size, &n, err));
    for (int k = 0; k < ndim; k++) {
        if (byte_strides[k] % size) {
            st = fr_fail(err, FR_EVALUE, "stride %lld is not a multiple of the item size %lld",
                         (long long)byte_strides[k], (long long)size);
            goto out;
        }
        strides[k] = byte_strides[k] / size;
        if (n && reaches_too_far(strides[k], dims[k] - 1, size, strides[k] < 0 ? &low : &high)) {
            st = fr_fail(err, FR_ERANGE, "the elements of shared memory lie further apart than addresses reach");
            goto out;
        }
    }
    n = n ? high - low + 1 : 0;
    window = fr_layout_get(ndim, dims, strides);
    /* An empty window may have any strides. A result takes those of whole storages, and NumPy's are 0 then. */
    home = window && window->dense && low == 0 && n ? fr_layout_ref(window) : fr_layout_get(1, &n, NULL);
    b = fr_foreign_new((char *)data + low * size, (size_t)(n * size));
    if (!window || !home || !b) {
        st = fr_no_memory(err, "shared memory");
        goto out;
    }
    if (device >= FR_DEVICE_CUDA)
        fr_buffer_is_there(b, fr_backend_of(device));
    st = fr_tensor_from_buffer(fr_buffer_ref(b), device, dtype, home, &base, err);
    if (st != FR_OK)
        goto out;
    base.readonly = readonly;
    if (home == window) {
        *out = base;
    } else {
        st = fr_tensor_window(&base, ndim, dims, strides, -low, out, err);
        fr_tensor_clear(&base);
        if (st != FR_OK)
            goto out;
    }
    out->storage->shared = true;
    fr_foreign_own(b, release, owner);
out:
    fr_layout_unref(window);
    fr_layout_unref(home);
    fr_buffer_unref(b); /* the node has it; without an owner it only goes */
    return st;
}

fr_status
fr_tensor_from_copy(const void *data, fr_dtype dtype, int ndim, const int64_t *dims,
                    const int64_t *byte_strides, struct fr_tensor *out, struct fr_err *err)
{
    int64_t           k_order[FR_MAX_DIMS], bytes[FR_MAX_DIMS], n;
    int               size = fr_dtype_size(dtype);
    struct fr_layout *l;
    struct fr_buffer *b;
    fr_status         st;

    if ((st = fr_dims_count(ndim, dims, size, &n, err)) != FR_OK)
        return st;
    fr_strides_copy_order(ndim, dims, byte_strides, k_order);
    if (!(l = fr_layout_get(ndim, dims, k_order)))
        return fr_no_memory(err, "a layout");
    if (!(b = fr_buffer_new_host((size_t)(n * size), err))) {
        fr_layout_unref(l);
        return FR_ENOMEM;
    }
    for (int k = 0; k < ndim; k++)
        bytes[k] = k_order[k] * size;
    if (n)
        fr_host_copy(size, ndim, dims, b->mem, bytes, data, byte_strides);
    st = fr_tensor_from_buffer(b, FR_DEVICE_ANY, dtype, l, out, err);
    fr_layout_unref(l);
    return st;
}
