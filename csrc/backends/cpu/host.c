/* What the host does by itself with its memory; see backends/host.h. */
#include "backends/host.h"

#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/index.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/mask.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/reduce.h"
#include "base/tune.h"
#include "base/ways.h"

enum {
    BLOCK = 256, ELEMENT = 16,
    WHOLE_BYTES = 64, /* of a row that could be read and written where it is: from here on it is, one by one */
};

/* Room for blocks of what does not lie side by side. */
struct room {
    _Alignas(64) char of[FR_HOST_ARGS + 1][BLOCK * ELEMENT];
};

static bool
adjoins(const struct fr_host_operand *d)
{
    return d->step == fr_dtype_size(d->dtype);
}

static void
map_row(fr_map_fn *fn, size_t n, char *out, const char *const *in, unsigned once)
{
    fn(n, out, in[0], in[1], in[2], once);
}

/* The same where some of it has to be copied, block by block. */
static FR_COLD void
map_apart(fr_map_fn *fn, const struct fr_host_operand *out, const struct fr_host_operand *const *arg, unsigned once, ptrdiff_t r,
          size_t n)
{
    struct room room;

    for (size_t at = 0, m; at < n; at += m) {
        const char *in[FR_HOST_ARGS];
        char       *to = out->mem + r * out->row + (ptrdiff_t)at * out->step;

        m = n - at < BLOCK ? n - at : BLOCK;
        for (int k = 0; k < FR_HOST_ARGS; k++) {
            in[k] = arg[k]->mem + r * arg[k]->row + (ptrdiff_t)at * arg[k]->step;
            if (once >> k & 1 || adjoins(arg[k]))
                continue;
            fr_copy_gather(m, fr_dtype_size(arg[k]->dtype), room.of[k], in[k], arg[k]->step);
            in[k] = room.of[k];
        }
        if (adjoins(out)) {
            map_row(fn, m, to, in, once);
        } else {
            map_row(fn, m, room.of[FR_HOST_ARGS], in, once);
            fr_copy_scatter(m, fr_dtype_size(out->dtype), to, out->step, room.of[FR_HOST_ARGS]);
        }
    }
}

/* Whether rows of n elements lie one behind the other. */
static bool
rows_adjoin(const struct fr_host_operand *d, size_t n)
{
    return adjoins(d) && d->row == (ptrdiff_t)n * d->step;
}

/* Whether a row of n elements costs more by itself than a copy of it beside others; it is copied anyway if not `whole`. */
static bool
is_short(size_t n, int size, bool whole)
{
    return whole ? n <= (size_t)fr_tune.whole_row && n * (size_t)size < WHOLE_BYTES : n <= (size_t)fr_tune.apart_row;
}

/* Short rows, as many at once as fit a block: what does not lie one behind the other is copied there. */
static FR_COLD void
map_together(fr_map_fn *fn, const struct fr_host_operand *out, const struct fr_host_operand *const *arg, size_t n_rows, size_t n)
{
    struct room room;
    int         size = fr_dtype_size(out->dtype);
    bool        in_place = rows_adjoin(out, n);

    for (size_t r = 0, m; r < n_rows; r += m) {
        const char *in[FR_HOST_ARGS];
        char       *to = out->mem + (ptrdiff_t)r * out->row;
        unsigned    once = 0;

        m = n_rows - r < BLOCK / n ? n_rows - r : BLOCK / n;
        for (int k = 0; k < FR_HOST_ARGS; k++) {
            const struct fr_host_operand *a = arg[k];
            int                     of = fr_dtype_size(a->dtype);

            in[k] = a->mem + (ptrdiff_t)r * a->row;
            if (k > 0 && a == arg[0]) {
                in[k] = in[0];
            } else if (a->step == 0 && a->row == 0) {
                once |= 1u << k;
            } else if (!rows_adjoin(a, n)) {
                fr_copy_2d(m, n, of, room.of[k], (ptrdiff_t)n * of, of, in[k], a->row, a->step);
                in[k] = room.of[k];
            }
        }
        map_row(fn, m * n, in_place ? to : room.of[FR_HOST_ARGS], in, once);
        if (!in_place)
            fr_copy_2d(m, n, size, to, out->row, out->step, room.of[FR_HOST_ARGS], (ptrdiff_t)n * size, size);
    }
}

bool
fr_host_map(fr_op op, const struct fr_host_operand *out, const struct fr_host_operand *arg, int n_args, size_t n_rows, size_t n)
{
    /* Arguments that the operation does not have point at one that it has. */
    const struct fr_host_operand *all[FR_HOST_ARGS] = {arg, &arg[n_args > 1], &arg[n_args > 2 ? 2 : 0]};
    int                     k = fr_op_compute_arg(op);
    fr_map_fn              *fn = op == FR_OP_cast ? fr_kernels->cast[arg->dtype][out->dtype]
                                                  : fr_kernels->map[op][k < 0 ? out->dtype : arg[k].dtype];
    unsigned                once = 0;
    bool                    whole = adjoins(out);

    if (op == FR_OP_cast && arg->dtype == out->dtype) { /* there is no block kernel for that */
        if (arg->mem != out->mem)
            fr_copy_2d(n_rows, n, fr_dtype_size(out->dtype), out->mem, out->row, out->step, arg->mem, arg->row, arg->step);
        return true;
    }
    if (!fn)
        return false;
    for (int i = 0; i < n_args; i++) {
        once |= (unsigned)(arg[i].step == 0) << i;
        whole &= arg[i].step == 0 || adjoins(&arg[i]);
    }
    if (n_rows > 1 && !fr_is_off(FR_OFF_together) && is_short(n, fr_dtype_size(out->dtype), whole)) {
        fr_count_way(FR_WAY_together);
        map_together(fn, out, all, n_rows, n);
        return true;
    }
    for (ptrdiff_t r = 0; r < (ptrdiff_t)n_rows; r++) {
        const char *in[FR_HOST_ARGS] = {all[0]->mem + r * all[0]->row, all[1]->mem + r * all[1]->row,
                                          all[2]->mem + r * all[2]->row};

        if (FR_LIKELY(whole))
            map_row(fn, n, out->mem + r * out->row, in, once);
        else
            map_apart(fn, out, all, once, r, n);
    }
    return true;
}

/* Whether op reduces elements of `in` to what `out` holds, without a conversion. */
static bool
reduces_to(fr_op op, const struct fr_host_operand *out, const struct fr_host_operand *in)
{
    uint8_t rule = fr_op_info[op].rule;

    return out->dtype == (rule == FR_RULE_INDEX                         ? FR_I64
                          : rule == FR_RULE_SUM && in->dtype == FR_F16 ? FR_F16
                                                                       : fr_reduce_acc(op, in->dtype));
}

bool
fr_host_reduce(fr_op op, const struct fr_host_operand *out, const struct fr_host_operand *in, size_t n_rows, size_t n)
{
    _Alignas(ELEMENT) char room[FR_REDUCE_ROOM];
    size_t                 at_once = n_rows;
    int                    size = fr_dtype_size(in->dtype);

    if (!fr_reduce->fold[FR_REDUCE_ROW(op)][in->dtype] || !reduces_to(op, out, in) || !adjoins(in))
        return false;
    if (n_rows > 1 && (in->row != (ptrdiff_t)n * size || out->row != fr_dtype_size(out->dtype)))
        at_once = 1;
    for (size_t r = 0; r < n_rows; r += at_once)
        fr_reduce_rows(op, in->dtype, at_once, n, in->mem + (ptrdiff_t)r * in->row, out->mem + (ptrdiff_t)r * out->row, room);
    return true;
}

/* Rows of a block, side by side, from row r and column `at` on. */
static size_t
copy_rows(const struct fr_host_operand *in, size_t n_rows, size_t r, size_t at, size_t n, char *block)
{
    size_t    m = n_rows - r < BLOCK / n ? n_rows - r : BLOCK / n;
    ptrdiff_t size = fr_dtype_size(in->dtype);

    fr_copy_2d(m, n, (int)size, block, (ptrdiff_t)n * size, size, in->mem + (ptrdiff_t)r * in->row + (ptrdiff_t)at * in->step,
               in->row, in->step);
    return m;
}

/* Where in each column its extreme is first. The first row is what the others are compared with. */
static void
place_columns(fr_accum_fn *fn, int64_t *index, const struct fr_host_operand *in, size_t n_rows, size_t n)
{
    _Alignas(64) char best[BLOCK * ELEMENT], block[BLOCK * ELEMENT];
    ptrdiff_t         size = fr_dtype_size(in->dtype);

    memset(index, 0, n * sizeof *index);
    for (size_t at = 0, m; at < n; at += m) {
        m = n - at < BLOCK ? n - at : BLOCK;
        fr_copy_gather(m, (int)size, best, in->mem + (ptrdiff_t)at * in->step, in->step);
        if (adjoins(in))
            fn(n_rows - 1, m, best, in->mem + in->row + (ptrdiff_t)at * size, in->row, index + at, 1);
        for (size_t r = 1, rows; r < n_rows && !adjoins(in); r += rows) {
            rows = copy_rows(in, n_rows, r, at, m, block);
            fn(rows, m, best, block, (ptrdiff_t)m * size, index + at, (int64_t)r);
        }
    }
}

bool
fr_host_reduce_columns(fr_op op, const struct fr_host_operand *out, const struct fr_host_operand *in, size_t n_rows, size_t n)
{
    fr_accum_fn           *fn = fr_reduce->accum[FR_REDUCE_ROW(op)][in->dtype];
    ptrdiff_t              size = fr_dtype_size(in->dtype);
    _Alignas(ELEMENT) char identity[ELEMENT];

    if (!fn || !reduces_to(op, out, in) || !adjoins(out))
        return false;
    if (fr_op_info[op].rule == FR_RULE_INDEX) {
        if (n_rows > n) /* the launcher copies each column and looks there */
            return false;
        place_columns(fn, (int64_t *)out->mem, in, n_rows, n);
        return true;
    }
    fr_reduce_identity(op, out->dtype, 1, identity, NULL);
    fr_copy_fill(n, fr_dtype_size(out->dtype), out->mem, identity);
    if (adjoins(in)) {
        fn(n_rows, n, out->mem, in->mem, in->row, NULL, 0);
        return true;
    }
    for (size_t at = 0, m; at < n; at += m) {
        _Alignas(64) char block[BLOCK * ELEMENT];

        m = n - at < BLOCK ? n - at : BLOCK;
        for (size_t r = 0, rows; r < n_rows; r += rows) {
            rows = copy_rows(in, n_rows, r, at, m, block);
            fn(rows, m, out->mem + at * (size_t)fr_dtype_size(out->dtype), block, (ptrdiff_t)m * size, NULL, 0);
        }
    }
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
