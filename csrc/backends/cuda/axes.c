/* backends/cuda/axes.c -- which axes of an instance a kernel walks, which are spread over its grid, which the launcher walks.
 *
 * Up to FR_CUDA_OUTER outer axes are the kernel's; of more, the outermost are walked by the launcher, of a map the
 * shortest. Those that every accumulator keeps are spread over the grid; those that every one reduces are walked in order,
 * by each thread; those that some keep and some reduce are walked by the launcher, too. Where accumulators have one
 * element for a whole row, its elements become rows of one element. */
#include "backends/cuda/job.h"

#include <string.h>

static void
swap_axes(struct fr_cuda_job *j, int a, int b)
{
    int64_t dim = j->dim[a];
    uint8_t kind = j->kind[a];

    j->dim[a] = j->dim[b];
    j->dim[b] = dim;
    j->kind[a] = j->kind[b];
    j->kind[b] = kind;
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++) {
        int64_t step = j->outer[k][a];

        j->outer[k][a] = j->outer[k][b];
        j->outer[k][b] = step;
    }
}

/* Axes of a kind keep their order: who walks them goes through the accumulators in NumPy's. (A sum that a mixed and a walked
 * axis reduce has the mixed one outside, where it may not be: such axes are all walked here.) */
static void
sort_axes(struct fr_cuda_job *j)
{
    bool mixed = false;

    for (int a = 0; a < j->n_axes; a++)
        mixed |= j->kind[a] == FR_CUDA_MIXED;
    for (int a = 0; a < j->n_axes && mixed; a++)
        if (j->kind[a] == FR_CUDA_WALKED)
            j->kind[a] = FR_CUDA_MIXED;
    for (int a = 1; a < j->n_axes; a++)
        for (int b = a; b > 0 && j->kind[b - 1] > j->kind[b]; b--)
            swap_axes(j, b - 1, b);
}

/* Of a map, whose order is nobody's matter, the shortest axes are walked by the launcher; the others keep their order, and the last
 * one of deep tiles its place. */
static void
put_short_ones_first(struct fr_cuda_job *j)
{
    const int n = j->n_axes - j->kernel->has_deep_tiles;

    for (int to = 0; to < j->n_axes - FR_CUDA_OUTER; to++) {
        int least = to;

        for (int a = to + 1; a < n; a++)
            if (j->dim[a] < j->dim[least])
                least = a;
        for (; least > to; least--)
            swap_axes(j, least - 1, least);
    }
}

static void
drop_axis(struct fr_cuda_job *j, int axis)
{
    j->n_axes--;
    for (int a = axis; a < j->n_axes; a++)
        swap_axes(j, a, a + 1);
}

/* The rows become an outer axis, and the elements of a row rows. */
static void
turn_rows(struct fr_cuda_job *j)
{
    j->dim[j->n_axes] = j->n_rows;
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++) {
        j->outer[k][j->n_axes] = j->row[k];
        j->row[k] = j->inner[k];
        j->inner[k] = 0;
    }
    j->n_axes++;
    j->n_rows = j->n_inner;
    j->n_inner = 1;
}

static void
find_accumulators(struct fr_cuda_job *j)
{
    const struct fr_nest *nest = j->kernel->k.nest;

    memset(j->accumulates, 0, sizeof j->accumulates);
    for (uint32_t i = 0; i < nest->n_insts; i++)
        if (nest->insts[i].kind == FR_INST_ACCUM)
            j->accumulates[nest->insts[i].operand] = true;
}

static bool
all_keep_the_row(const struct fr_cuda_job *j)
{
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++)
        if (j->accumulates[k] && j->inner[k] == 0)
            return false;
    return true;
}

void
fr_cuda_find_axes(struct fr_cuda_job *j, const struct fr_instance *in)
{
    const int n = j->kernel->k.nest->n_operands, n_strides = in->n_outer + 2;

    j->n_axes = in->n_outer;
    j->n_rows = in->n_rows;
    j->n_inner = in->n_inner;
    j->scalars = in->scalars;
    memcpy(j->dim, in->outer, sizeof in->outer);
    for (int k = 0; k < n; k++) {
        const int64_t *stride = in->stride + k * n_strides;

        j->ptr[k] = in->ptr[k];
        memcpy(j->outer[k], stride, (size_t)in->n_outer * sizeof *stride);
        j->row[k] = stride[in->n_outer];
        j->inner[k] = stride[in->n_outer + 1];
    }
    find_accumulators(j);
    if (j->kernel->accumulates && j->n_inner > 1 && !all_keep_the_row(j))
        turn_rows(j);
    for (int a = 0; a < j->n_axes; a++) {
        bool keeps = false, reduces = false;

        for (int k = 0; k < n; k++) {
            keeps |= j->accumulates[k] && j->outer[k][a] != 0;
            reduces |= j->accumulates[k] && j->outer[k][a] == 0;
        }
        j->kind[a] = !reduces ? FR_CUDA_KEPT : keeps ? FR_CUDA_MIXED : FR_CUDA_WALKED;
    }
    for (int a = j->n_axes; a-- > 0;)
        if (j->dim[a] == 1)
            drop_axis(j, a);
    sort_axes(j);
    if (!j->kernel->accumulates)
        put_short_ones_first(j);
    j->here = j->n_axes > FR_CUDA_OUTER ? j->n_axes - FR_CUDA_OUTER : 0;
    while (j->here < j->n_axes && j->kind[j->here] == FR_CUDA_MIXED)
        j->here++;
    memset(j->begun, 0, sizeof j->begun);
    j->in_order = false;
    j->n_columns = j->n_inner;
    j->n_column_rows = j->n_rows;
    for (int a = 0; a < j->n_axes; a++) {
        *(j->kind[a] == FR_CUDA_KEPT ? &j->n_columns : &j->n_column_rows) *= j->dim[a];
        j->in_order |= a < j->here && j->kind[a] != FR_CUDA_KEPT;
    }
}

static int64_t
product_of(const struct fr_cuda_job *j, int from, int to)
{
    int64_t n = 1;

    for (int a = from; a < to; a++)
        n *= j->dim[a];
    return n;
}

/* The first of the axes that a kernel walks. */
static int
first_walked(const struct fr_cuda_job *j)
{
    int a = j->here;

    while (a < j->n_axes && j->kind[a] != FR_CUDA_WALKED)
        a++;
    return a;
}

int64_t
fr_cuda_kept_indices(const struct fr_cuda_job *j)
{
    return product_of(j, j->here, first_walked(j));
}

int64_t
fr_cuda_walked_indices(const struct fr_cuda_job *j)
{
    return product_of(j, first_walked(j), j->n_axes);
}

void
fr_cuda_step(struct fr_cuda_job *j, char *const *base, const int64_t *at)
{
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++) {
        uintptr_t p = (uintptr_t)base[k];

        j->begun[k] = false;
        for (int a = 0; a < j->here; a++) {
            p += (uintptr_t)(at[a] * j->outer[k][a]);
            j->begun[k] |= j->accumulates[k] && at[a] && j->outer[k][a] == 0;
        }
        j->ptr[k] = (char *)p;
    }
}

bool
fr_cuda_next(const struct fr_cuda_job *j, int64_t *at)
{
    int a = j->here - 1;

    for (; a >= 0 && ++at[a] == j->dim[a]; a--)
        at[a] = 0;
    return a >= 0;
}
