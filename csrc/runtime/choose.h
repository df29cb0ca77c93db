/* runtime/choose.h -- masks and indices of tensors that are on a device: choose.c and call.c ask here first (choose_there.c).
 *
 * Where a function returns FR_ENOTSUP it has done nothing, and the host does it. */
#ifndef FR_RUNTIME_CHOOSE_H
#define FR_RUNTIME_CHOOSE_H

#include "backends/backend.h"
#include "base/ways.h"
#include "ir/node.h"
#include "runtime/storage.h"

/* Who chooses among tensors that belong together, by functions of its own; NULL: the host does. */
static inline const struct fr_backend *
fr_there(const struct fr_tensor *const *t, int n)
{
    fr_device d = FR_DEVICE_ANY;

    for (int k = 0; k < n && d == FR_DEVICE_ANY; k++)
        d = fr_storage_device(t[k]->storage);
    d = d == FR_DEVICE_ANY ? fr_device_now() : d;
    if (FR_LIKELY(d < FR_DEVICE_CUDA) || fr_is_off(FR_OFF_device_chosen))
        return NULL;
    return fr_backend_of(d)->chooser ? fr_backend_of(d) : NULL;
}

/* Whether an array of indices is there, will be when it is computed, or goes there once for all of an accelerated call. */
static inline bool
fr_index_is_there(const struct fr_tensor *t)
{
    const struct fr_node *n = &fr_nodes[t->storage->node];
    const bool            goes = fr_device_now() >= FR_DEVICE_CUDA && n->device == FR_DEVICE_ANY && fr_storage_pinned(t->storage);

    return FR_UNLIKELY(n->device >= FR_DEVICE_CUDA || goes || (n->op == FR_OP_leaf && n->v.buffer->home)) && !fr_is_off(FR_OFF_device_chosen);
}

/* Computes all of them. While kernels run, another thread may store into one. */
fr_status fr_choose_compute(const struct fr_tensor *const *t, int n, struct fr_err *err);
/* The shape of what a mask chooses; returns its number of axes. */
int       fr_choose_dims(const struct fr_tensor *t, const struct fr_tensor *mask, int64_t count, int64_t *dims);
/* The value becomes *own: in this shape and C order, and no part of `apart`. FR_ENOTSUP: it does not fit. */
fr_status fr_choose_shape(const struct fr_tensor **value, int ndim, const int64_t *dims, const struct fr_tensor *apart, struct fr_tensor *own,
                          struct fr_err *err);

/* fr_choose_get, _places and _put, of a mask and a value in C order, neither of which is a part of t. */
fr_status fr_there_get(const struct fr_backend *, const struct fr_tensor *t, const struct fr_tensor *mask, size_t row, struct fr_tensor *out,
                       struct fr_err *);
fr_status fr_there_places(const struct fr_backend *, const struct fr_tensor *mask, struct fr_tensor *out, struct fr_err *);
fr_status fr_there_put(const struct fr_backend *, const struct fr_tensor *t, const struct fr_tensor *mask, size_t row,
                       const struct fr_tensor *value, struct fr_err *);
/* The rows of `s`, whose addresses it finds out, of t. */
fr_status fr_there_scatter(const struct fr_backend *, const struct fr_tensor *t, const struct fr_tensor *index, const struct fr_tensor *value,
                           struct fr_scatter *s, struct fr_err *);
/* fr_index_fits of an array in C order that is there. */
fr_status fr_there_fits(const struct fr_tensor *index, int64_t n, bool *fits, struct fr_err *);
/* One array for several, over the layout that they have together, some of which are there. */
fr_status fr_there_joint_index(const struct fr_tensor *const *index, const int64_t *dims, int n, int first, struct fr_layout *over,
                               struct fr_tensor *out, struct fr_err *);

/* call.c. All elements of a new array of i64 are known to be below n, and none is below 0. */
void      fr_index_know(const struct fr_tensor *, int64_t n);
/* The first of these numbers that is no index. */
fr_status fr_index_bad(const int64_t *wrapped, int64_t n, int axis, struct fr_err *);

#endif
