/* backends/cpu/reduce_rows.c -- rows of a tile reduced, each to one element; see reduce.h. For the block interpreter and
 * single operations (direct.c). Which of the level's kernels is fastest depends on how many rows there are, and how
 * short. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/shuffle.h"
#include "backends/cpu/reduce.h"
#include "ir/op.h"
#include "jit/loop.h"

enum {
    COLUMNS_BYTES = 32,          /* of a row, below which its columns are folded */
    EXTREME_BYTES = 16,          /* the same where integers' extremes of rows (reduce_short.h) are the other way, */
    EXTREME_LEAST = 8,           /* and where there are FEW_COLUMNS or more */
    FEW_COLUMNS = 6,
    ROWS = FR_REDUCE_ROOM / 16,  /* whose accumulators fit the room */
    PRODUCTS_ROW = 64,           /* elements; products of shorter rows are made some rows at once, then summed */
};

/* Whether rows are so short that they are better folded a column at a time, and whether that is the same. */
static bool
folds_columns(fr_op op, fr_dtype in, size_t n_rows, size_t n)
{
    bool   floats = in >= FR_F16, extreme = !floats && in != FR_BOOL && (op == FR_OP_max || op == FR_OP_min);
    size_t n_bytes = n * (size_t)fr_dtype_size(in);

    return n_rows > 1 && n > 1 &&
           n_bytes < (!extreme ? COLUMNS_BYTES : n < FEW_COLUMNS ? EXTREME_BYTES : EXTREME_LEAST) &&
           fr_reduce->accum[FR_REDUCE_ROW(op)][in] && !fr_dtype_is_complex(in) && !(floats && op == FR_OP_sum);
}

/* Element by element a row is one comparison that nobody foresees after the other; whole columns of some rows are
 * accumulated in vectors. Both are left folds. */
static void
fold_columns(fr_op op, fr_dtype in, size_t n_rows, size_t n, const char *from, char *to, char *room)
{
    fr_dtype       acc = fr_reduce_acc(op, in);
    const size_t   size = (size_t)fr_dtype_size(in), acc_size = (size_t)fr_dtype_size(acc);
    const size_t   most = FR_REDUCE_ROOM / (n * size), first = acc == in;
    _Alignas(16) char identity[16];

    fr_reduce_identity(op, acc, 1, identity, NULL);
    for (size_t left = n_rows, m; left; left -= m, from += m * n * size, to += m * acc_size) {
        m = left < most ? left : most;
        for (size_t c = 0; c < n; c++)
            fr_copy_gather(m, (int)size, c < first ? to : room + c * m * size, from + c * size, (ptrdiff_t)(n * size));
        if (!first)
            fr_copy_fill(m, (int)acc_size, to, identity);
        fr_reduce->accum[FR_REDUCE_ROW(op)][in](n - first, m, to, room + first * m * size, (ptrdiff_t)(m * size), NULL, 0);
    }
}

/* Places of extremes of very short rows, in vectors of columns. */
static void
place_columns(fr_op op, fr_dtype in, size_t n_rows, size_t n, const char *from, int64_t *index, char *room)
{
    const size_t size = (size_t)fr_dtype_size(in), most = FR_REDUCE_ROOM / (n * size);

    memset(index, 0, n_rows * sizeof *index);
    for (size_t left = n_rows, m; left; left -= m, from += m * n * size, index += m) {
        m = left < most ? left : most;
        for (size_t c = 0; c < n; c++)
            fr_copy_gather(m, (int)size, room + c * m * size, from + c * size, (ptrdiff_t)(n * size));
        fr_reduce->accum[FR_REDUCE_ROW(op)][in](n - 1, m, room, room + m * size, (ptrdiff_t)(m * size), index, 1);
    }
}

/* out[t], an accumulator, of each row; index[t] for places, else NULL. */
static inline void
fold(fr_op op, fr_dtype in, size_t n_rows, size_t n, const char *from, char *out, int64_t *index)
{
    if (n_rows == 1)
        fr_reduce->fold[FR_REDUCE_ROW(op)][in](n, from, out, index);
    else
        fr_reduce->fold_rows[FR_REDUCE_ROW(op)][in](n_rows, n, from, out, index);
}

/* Sums of floats or complex numbers that are accumulators become results: the 0.0 in front of each is added. */
static void
finish_sums(fr_dtype in, size_t n_rows, char *to)
{
    static const _Alignas(16) char zero[16];

    fr_kernels->map[FR_OP_add][in](n_rows, to, to, zero, zero, 2);
}

void
fr_reduce_rows(fr_op op, fr_dtype in, size_t n_rows, size_t n, const char *from, char *to, char *room)
{
    fr_dtype acc = fr_reduce_acc(op, in);
    size_t   in_size = (size_t)fr_dtype_size(in), acc_size = (size_t)fr_dtype_size(acc);
    size_t   size = acc == FR_BOOL ? acc_size : in_size;
    bool     places = fr_op_finds_index(op);

    if (!places && in != FR_F16) {
        /* The accumulators are the results, but for sums. */
        if (folds_columns(op, in, n_rows, n))
            fold_columns(op, in, n_rows, n, from, to, room);
        else
            fold(op, in, n_rows, n, from, to, NULL);
        if (op == FR_OP_sum && in > FR_F16)
            finish_sums(in, n_rows, to);
        return;
    }
    if (places && n_rows > 1 && n > 1 && n <= FR_SHUFFLE_STEP && fr_nest_places_compare(in)) {
        place_columns(op, in, n_rows, n, from, (int64_t *)to, room);
        return;
    }
    for (size_t m; n_rows; n_rows -= m, from += m * n * in_size) {
        m = n_rows < ROWS ? n_rows : ROWS;
        fold(op, in, m, n, from, room, places ? (int64_t *)to : NULL); /* the places are the results */
        if (places) {
            to += m * sizeof(int64_t);
            continue;
        }
        for (size_t i = 0; i < m; i++, to += size)
            fr_reduce_finish(op, in, room + i * acc_size, NULL, to);
    }
}

void
fr_reduce_products(fr_dtype in, size_t n_rows, size_t n, const char *a, const char *b, char *to, char *room)
{
    const size_t size = (size_t)fr_dtype_size(in);
    const size_t most = n_rows > 1 && n < PRODUCTS_ROW ? FR_REDUCE_ROOM / ((n + 1) * size) : 1;

    for (size_t m, t = 0; t < n_rows; t += m, a += m * n * size, b += m * n * size) {
        m = most < n_rows - t ? most : n_rows - t;
        if (most == 1) {
            fr_reduce->fold_products[in == FR_F64](n, a, b, to + t * size);
        } else {
            fr_kernels->map[FR_OP_multiply][in](m * n, room, a, b, b, 0);
            fold(FR_OP_sum, in, m, n, room, to + t * size, NULL);
        }
    }
    finish_sums(in, n_rows, to);
}
