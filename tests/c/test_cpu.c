/* tests/c/test_cpu.c -- flat entry points into backends/cpu for tests/test_cpu_parts.py (ctypes), and the
 * stress runs that need C: many threads, fork, cancelling. Compiled together with the parts under test
 * into one shared object. */
#include <string.h>

#include "backends/cpu/reduce.h"

/* ---- folds */

static const struct fr_reduce_kernels *
level_named(const char *name)
{
    const struct fr_reduce_kernels *all[] = {&fr_reduce_generic,
#if defined(__x86_64__)
                                             &fr_reduce_v2, &fr_reduce_v3, &fr_reduce_v4
#endif
    };

    for (size_t k = 0; k < FR_LEN(all); k++)
        if (!strcmp(all[k]->level, name))
            return all[k];
    return NULL;
}

int
t_op(const char *name)
{
    return fr_op_find(name, (int)strlen(name));
}

int
t_dtype(const char *name)
{
    return fr_dtype_parse(name, (int)strlen(name));
}

int
t_fold(const char *level, int op, int dtype, size_t n, const void *a, void *out, int64_t *index)
{
    fr_fold_fn *f = level_named(level)->fold[FR_REDUCE_ROW(op)][dtype];

    if (!f)
        return 0;
    f(n, a, out, index);
    return 1;
}

int
t_fold_rows(const char *level, int op, int dtype, size_t n_rows, size_t n, const void *a, void *out,
            int64_t *index)
{
    fr_fold_rows_fn *f = level_named(level)->fold_rows[FR_REDUCE_ROW(op)][dtype];

    if (!f)
        return 0;
    f(n_rows, n, a, out, index);
    return 1;
}

int
t_accum(const char *level, int op, int dtype, size_t n_rows, size_t n, void *acc, const void *x,
        ptrdiff_t row_stride, int64_t *index, int64_t i0)
{
    fr_accum_fn *f = level_named(level)->accum[FR_REDUCE_ROW(op)][dtype];

    if (!f)
        return 0;
    f(n_rows, n, acc, x, row_stride, index, i0);
    return 1;
}

/* A whole row by pieces of a tree, joined as they come; with `inner` > 0 each piece is itself walked. */
static void
fold_pieces(const struct fr_reduce_kernels *k, fr_op op, fr_dtype d, int64_t n, int64_t max,
            int64_t inner, const char *a, void *out, int64_t *index)
{
    struct fr_tree       t;
    struct fr_tree_stack s;

    s.top = 0;
    fr_tree_begin(&t, n, max, fr_dtype_is_complex(d));
    while (fr_tree_next(&t)) {
        _Alignas(16) char acc[16];
        int64_t           at = 0;
        const char       *piece = a + t.start * fr_dtype_size(d);

        if (inner)
            fold_pieces(k, op, d, t.n, inner, 0, piece, acc, &at);
        else
            k->fold[FR_REDUCE_ROW(op)][d]((size_t)t.n, piece, acc, &at);
        at += t.start;
        fr_tree_push(&s, &t, op, d, acc, &at);
    }
    memcpy(out, s.value[0].bytes, (size_t)fr_dtype_size(fr_reduce_acc(op, d)));
    *index = s.index[0];
}

void
t_fold_tree(const char *level, int op, int dtype, int64_t n, int64_t max, int64_t inner,
            const void *a, void *out, int64_t *index)
{
    fold_pieces(level_named(level), (fr_op)op, (fr_dtype)dtype, n, max, inner, a, out, index);
}

/* Nanoseconds per call, best of a few. */
#include <time.h>
static double
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double
t_time_fold(const char *level, int op, int dtype, size_t n, const void *a)
{
    fr_fold_fn *f = level_named(level)->fold[FR_REDUCE_ROW(op)][dtype];
    double      best = 1e30;
    char        out[16];
    int64_t     index;
    int         reps = n < 200000 ? (int)(2000000 / (n + 20)) + 1 : 3;

    for (int k = 0; k < 7; k++) {
        double t0 = now_ns(), t;

        for (int r = 0; r < reps; r++)
            f(n, a, out, &index);
        t = (now_ns() - t0) / reps;
        best = t < best ? t : best;
    }
    return best;
}

double
t_time_rows(const char *level, int op, int dtype, size_t n_rows, size_t n, const void *a, void *out)
{
    fr_fold_rows_fn *f = level_named(level)->fold_rows[FR_REDUCE_ROW(op)][dtype];
    double           best = 1e30;
    static int64_t   index[65536];

    for (int k = 0; k < 7; k++) {
        double t0 = now_ns(), t;

        for (int r = 0; r < 200; r++)
            f(n_rows, n, a, out, index);
        t = (now_ns() - t0) / 200;
        best = t < best ? t : best;
    }
    return best;
}

double
t_time_accum(const char *level, int op, int dtype, size_t n_rows, size_t n, void *acc,
             const void *x, ptrdiff_t stride)
{
    fr_accum_fn   *f = level_named(level)->accum[FR_REDUCE_ROW(op)][dtype];
    double         best = 1e30;
    static int64_t index[65536];

    for (int k = 0; k < 7; k++) {
        double t0 = now_ns(), t;

        for (int r = 0; r < 200; r++)
            f(n_rows, n, acc, x, stride, index, 0);
        t = (now_ns() - t0) / 200;
        best = t < best ? t : best;
    }
    return best;
}
