/* backends/cuda/figures.c -- what a device is for who chooses between it and the host: how fast, from what the
 * driver says, and what has other bits there (csrc/NUMERICS.md). */
#include "backends/estimate.h"

#include <stdlib.h>

#include "backends/cuda/job.h"
#include "base/tune.h"
#include "ir/graph.h"

enum { LANES = 128 };          /* plain operations that a multiprocessor begins in a cycle */
enum { SOME_GBS = 500, SOME_KHZ = 1500000, SOME_RATIO = 32 };   /* where the driver does not say */

static fr_status
attribute(const struct fr_cuda_device *d, int which, int otherwise, double *out, struct fr_err *err)
{
    int       value = 0;
    fr_status st = fr_cuda_attribute(d, which, &value, err);

    *out = value > 0 ? value : otherwise;
    return st;
}

fr_status
fr_cuda_figures(const struct fr_backend *self, struct fr_machine *m, struct fr_err *err)
{
    struct fr_cuda_device *d;
    double                 khz, memory_khz, bits;
    fr_status              st = fr_cuda_enter(self, &d, err);

    if (st != FR_OK)
        return st;
    *m = (struct fr_machine){.launch_us = (double)fr_tune.gpu_launch_us, .copy_us = (double)fr_tune.gpu_copy_us,
                             .copy_gbs = (double)fr_tune.gpu_copy_gbs};
    TRY(attribute(d, FR_CUDA_CLOCK_KHZ, SOME_KHZ, &khz, err));
    TRY(attribute(d, FR_CUDA_SINGLE_TO_DOUBLE, SOME_RATIO, &m->wide, err));
    TRY(attribute(d, FR_CUDA_MEMORY_KHZ, 0, &memory_khz, err));
    TRY(attribute(d, FR_CUDA_BUS_BITS, 0, &bits, err));
    m->gbs = 2 * memory_khz * bits / 8 / 1e6; /* two words in each cycle */
    if (m->gbs == 0)
        m->gbs = SOME_GBS;
    if (fr_tune.gpu_gbs)
        m->gbs = (double)fr_tune.gpu_gbs;
    m->gops[FR_WORK_PLAIN] = fr_tune.gpu_gops ? (double)fr_tune.gpu_gops : d->n_multiprocessors * LANES * khz / 1e6;
out:
    fr_cuda_leave(d);
    return st;
}

/* Whether axis a lies within axis b. One that is broadcast may be walked anywhere. */
static bool
is_within(const struct fr_layout *l, int a, int b)
{
    const int64_t inner = fr_layout_strides(l)[a], outer = fr_layout_strides(l)[b];

    return fr_layout_dims(l)[a] <= 1 || fr_layout_dims(l)[b] <= 1 || (inner != 0 && llabs(inner) < llabs(outer));
}

/* Whether the axes that are reduced are the innermost ones of what is read, whose sums are NumPy's trees of rows. */
static bool
reduces_rows(const struct fr_layout *l, uint32_t axes)
{
    for (int a = 0; a < l->ndim; a++)
        for (int b = 0; b < l->ndim; b++)
            if ((axes >> a & 1) && !(axes >> b & 1) && !is_within(l, a, b))
                return false;
    return true;
}

bool
fr_cuda_differs(const struct fr_gnode *n)
{
    const struct fr_layout *of = n->arg[0].layout;

    switch (fr_op_info[n->op].class_) {
    case FR_CLASS_CALL: return n->op != FR_OP_take && (n->op != FR_OP_matmul || !fr_dtype_is_int(n->dtype));
    case FR_CLASS_REDUCE:
        return fr_op_rounds(n->op, n->dtype) && of->n_elems > 0 && !reduces_rows(of, n->axes) &&
               fr_cuda_tree_lines(n->layout->n_elems, of->n_elems / n->layout->n_elems) > 0;
    default: return false;
    }
}
