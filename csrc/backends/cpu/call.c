#include "backends/cpu/call.h"

#include <stddef.h>

#include "backends/cpu/pool.h"

bool (*fr_call_product)(fr_dtype, char **ptr, const int64_t *dims, const int64_t *steps);

enum { POLL_WORK = 1 << 26 };    /* multiplications between two looks at Ctrl-C: a few milliseconds */

/* Bytes from one element to the next along an axis; nothing steps along an axis of size 1. */
static int64_t
step(const struct fr_layout *l, int axis, int size)
{
    return fr_layout_dims(l)[axis] == 1 ? 0 : fr_layout_strides(l)[axis] * size;
}

/* A stack of products, one after the other. Axes of the stack are those before the last two of each
 * operand (the last one, of a vector), broadcast. */
static fr_status
run_product(const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    const struct fr_layout *l[3] = {c->in[0], c->in[1], c->out};
    int                     size = fr_dtype_size(c->dtype), n_outer;
    bool                    rows = l[0]->ndim > 1, columns = l[1]->ndim > 1;
    int                     core[3] = {1 + rows, 1 + columns, rows + columns};
    int64_t dims[4] = {1, 1, fr_layout_dims(l[0])[l[0]->ndim - 1], 1}, steps[9] = {0}, work = 0;
    int64_t index[FR_MAX_DIMS] = {0};
    char   *at[3] = {ptr[0], ptr[1], ptr[2]};

    if (c->out->n_elems == 0)
        return FR_OK;
    if (!fr_call_product)
        return fr_fail(err, FR_ENOTSUP, "matmul: NumPy's routine was not found");
    steps[4] = step(l[0], l[0]->ndim - 1, size);
    steps[5] = step(l[1], l[1]->ndim - core[1], size);
    if (rows) {
        dims[1] = fr_layout_dims(l[0])[l[0]->ndim - 2];
        steps[3] = step(l[0], l[0]->ndim - 2, size);
        steps[7] = step(l[2], l[2]->ndim - core[2], size);
    }
    if (columns) {
        dims[3] = fr_layout_dims(l[1])[l[1]->ndim - 1];
        steps[6] = step(l[1], l[1]->ndim - 1, size);
        steps[8] = step(l[2], l[2]->ndim - 1, size);
    }
    n_outer = l[2]->ndim - core[2];
    for (;;) {
        char *now[3] = {at[0], at[1], at[2]};
        int   k = n_outer - 1;

        if (!fr_call_product(c->dtype, now, dims, steps))
            return fr_fail(err, FR_ENOMEM, "out of memory: matmul");
        if ((work += dims[1] * dims[2] * dims[3]) > POLL_WORK) {
            work = 0;
            if (fr_pool_interrupted && fr_pool_interrupted())
                return fr_fail(err, FR_EINTR, "interrupted");
        }
        for (; k >= 0; k--) {
            bool wraps = ++index[k] == fr_layout_dims(l[2])[k];

            for (int o = 0; o < 3; o++) {
                int axis = k - n_outer + l[o]->ndim - core[o];

                if (axis >= 0)
                    at[o] += step(l[o], axis, size) * (wraps ? 1 - index[k] : 1);
            }
            if (!wraps)
                break;
            index[k] = 0;
        }
        if (k < 0)
            return FR_OK;
    }
}

fr_status
fr_call_run(const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    return run_product(c, ptr, err);
}
