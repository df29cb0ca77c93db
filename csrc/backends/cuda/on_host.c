/* backends/cuda/on_host.c -- what has no kernel yet: the operands are copied to the host, the CPU's function runs there, and
 * the result goes back. Slow, and right. */
#include <string.h>

#include "backends/cpu/call.h"
#include "backends/cpu/launch.h"
#include "backends/cuda/kernel.h"
#include "base/alloc.h"
#include "base/ways.h"

/* Memory of an operand from its lowest byte to its highest, brought to the host. */
struct brought {
    char   *there, *here;   /* its lowest byte; NULL here: nothing */
    char   *first;          /* where its first element is, here */
    size_t  n_bytes;
};

static fr_status
bring(const struct fr_backend *self, struct brought *b, char *first, int n_axes, const int64_t *dims, const int64_t *strides, int64_t unit, int64_t size, struct fr_err *err)
{
    int64_t   low = 0, high = size;
    fr_status st;

    for (int a = 0; a < n_axes; a++) {
        if (dims[a] == 0)
            return FR_OK;
        if (strides[a] < 0)
            low += (dims[a] - 1) * strides[a] * unit;
        else
            high += (dims[a] - 1) * strides[a] * unit;
    }
    b->there = (char *)((uintptr_t)first + (uintptr_t)low);
    b->n_bytes = (size_t)(high - low);
    if (!(b->here = fr_malloc(b->n_bytes)))
        return fr_no_memory(err, "an operand on the host");
    b->first = b->here - low;
    if ((st = fr_cuda_copy_out(self, b->here, b->there, b->n_bytes, err)) != FR_OK)
        fr_free(b->here);
    if (st != FR_OK)
        b->here = NULL;
    return st;
}

static fr_status
give_back(const struct fr_backend *self, const struct brought *b, struct fr_err *err)
{
    return b->here ? fr_cuda_copy_in(self, b->there, b->here, b->n_bytes, err) : FR_OK;
}

fr_status
fr_cuda_scan(const struct fr_backend *self, fr_op op, fr_dtype d, const struct fr_instance *in, struct fr_err *err)
{
    struct brought     of[2] = {{0}};
    struct fr_instance here = *in;
    char              *ptr[2];
    int64_t            dims[FR_LAUNCH_AXES + 2];
    const int          n_axes = in->n_outer + 2;
    fr_status          st = fr_cuda_scan_there(self, op, d, in, err);

    if (st != FR_ENOTSUP)
        return st;
    for (int a = 0; a < n_axes; a++)
        dims[a] = fr_instance_dim(in, a);
    for (int k = 0; k < 2; k++) {
        TRY(bring(self, &of[k], in->ptr[k], n_axes, dims, in->stride + k * n_axes, 1, fr_dtype_size(d), err));
        ptr[k] = of[k].first;
    }
    here.ptr = ptr;
    TRY(fr_launch_scan(op, d, &here, err));
    TRY(give_back(self, &of[1], err));
out:
    for (int k = 0; k < 2; k++)
        fr_free(of[k].here);
    return st;
}

static fr_status
bring_array(const struct fr_backend *self, struct brought *b, char *first, const struct fr_layout *l, fr_dtype d, struct fr_err *err)
{
    return bring(self, b, first, l->ndim, fr_layout_dims(l), fr_layout_strides(l), fr_dtype_size(d), fr_dtype_size(d), err);
}

fr_status
fr_cuda_call(const struct fr_backend *self, const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    struct brought of[3] = {{0}};
    char          *here[3];
    fr_status      st = c->op == FR_OP_matmul ? fr_cuda_product(self, c, ptr, err) : c->op == FR_OP_take ? fr_cuda_take(self, c, ptr, err) : FR_ENOTSUP;

    if (st != FR_ENOTSUP)
        return st;
    for (int k = 0; k < c->n_in; k++)
        TRY(bring_array(self, &of[k], ptr[k], c->in[k], c->op == FR_OP_take && k == 1 ? c->index : c->dtype, err));
    TRY(bring_array(self, &of[c->n_in], ptr[c->n_in], c->out, c->dtype, err));
    for (int k = 0; k <= c->n_in; k++)
        here[k] = of[k].first;
    TRY(fr_call_run(c, here, err));
    TRY(give_back(self, &of[c->n_in], err));
out:
    for (int k = 0; k < 3; k++)
        fr_free(of[k].here);
    return st;
}
