/* What the host does by itself with its memory; see backends/host.h. */
#include "backends/host.h"

#include "backends/cpu/copy.h"
#include "backends/cpu/index.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/mask.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/reduce.h"

bool
fr_host_map(fr_op op, size_t n, const fr_dtype *dtype, int n_args, char *const *arg, unsigned once, fr_dtype to, void *out)
{
    int        k = fr_op_compute_arg(op);
    fr_map_fn *fn = op == FR_OP_cast ? fr_kernels->cast[dtype[0]][to] : fr_kernels->map[op][k < 0 ? to : dtype[k]];

    if (!fn)
        return false;
    fn(n, out, arg[0], arg[n_args > 1], arg[n_args > 2 ? 2 : 0], once);
    return true;
}

bool
fr_host_fold(fr_op op, size_t n, fr_dtype d, const void *in, void *out)
{
    _Alignas(16) char room[FR_REDUCE_ROOM];

    if (!fr_reduce->fold[FR_REDUCE_ROW(op)][d])
        return false;
    fr_reduce_rows(op, d, 1, n, in, out, room);
    return true;
}

void
fr_host_copy(int size, int ndim, const int64_t *dims, char *to, const int64_t *ts, const char *from, const int64_t *fs)
{
    if (ndim == 0)
        fr_copy_2d(1, 1, size, to, 0, 0, from, 0, 0);
    else if (ndim == 1)
        fr_copy_2d(1, (size_t)dims[0], size, to, 0, ts[0], from, 0, fs[0]);
    else if (ndim == 2)
        fr_copy_2d((size_t)dims[0], (size_t)dims[1], size, to, ts[0], ts[1], from, fs[0], fs[1]);
    else
        for (int64_t i = 0; i < dims[0]; i++)
            fr_host_copy(size, ndim - 1, dims + 1, to + i * ts[0], ts + 1, from + i * fs[0], fs + 1);
}

size_t
fr_host_pack(size_t n, const void *mask, uint64_t *bits)
{
    return fr_mask->pack(n, mask, bits);
}

unsigned
fr_host_index_wrap(fr_dtype d, size_t n, const void *in, int64_t size, int64_t *out)
{
    return fr_index->wrap[d](n, in, size, out);
}

void
fr_host_index_bound(size_t n, const int64_t *in, uint64_t last, int64_t *out)
{
    fr_index->bound(n, in, last, out);
}

fr_index_join_fn *
fr_host_join(fr_op op, fr_dtype d)
{
    return op == FR_OP_add ? fr_index->add[d] : op == FR_OP_subtract ? fr_index->subtract[d] : NULL;
}

void *
fr_host_alloc(size_t n_bytes)
{
    return fr_memory_alloc(n_bytes);
}

void
fr_host_free(void *p, size_t n_bytes)
{
    fr_memory_free(p, n_bytes);
}
