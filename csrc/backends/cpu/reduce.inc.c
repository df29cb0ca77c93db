/* backends/cpu/reduce.inc.c -- the folds and accumulations of reduce.h for one level of
 * instructions.
 *
 * Compiled once per level with -DFR_LEVEL=<level> and that level's -m options, at -O3: integer
 * loops and the row loops of accumulations are left to the vectoriser; pairwise sums and float
 * extremes, where the order or NaN stands in its way, are written with vector types in the
 * headers beside. */
#include "backends/cpu/reduce.h"
#include "backends/cpu/reduce_extreme.h"
#include "backends/cpu/reduce_short.h"
#include "backends/cpu/reduce_sum.h"
#include "backends/cpu/reduce_vec.h"

/* ---- what the vectoriser does well: one macro per shape of loop --------------------------------
 * acc and x do not overlap; eight rows are taken at a time so that acc is read and written once
 * for all. */
enum { FEW_ROWS_PIECE = 2048 }; /* accumulators, which stay in L1 while the last rows, less than eight, go by */

#define ACCUM(op, s, T, A, EXPR)                                                                   \
    static void accum_##op##_##s(size_t n_rows, size_t n, void *acc, const void *x,                \
                                 ptrdiff_t row_stride, int64_t *index, int64_t i0)                 \
    {                                                                                              \
        A *restrict r = acc;                                                                       \
        const char *row = x;                                                                       \
        size_t      t = 0;                                                                         \
                                                                                                   \
        (void)index;                                                                               \
        (void)i0;                                                                                  \
        for (; t + 8 <= n_rows; t += 8, row += 8 * row_stride) {                                   \
            const T *restrict x0 = (const T *)row, *restrict x1 = (const T *)(row + row_stride),   \
                    *restrict x2 = (const T *)(row + 2 * row_stride),                              \
                    *restrict x3 = (const T *)(row + 3 * row_stride),                              \
                    *restrict x4 = (const T *)(row + 4 * row_stride),                              \
                    *restrict x5 = (const T *)(row + 5 * row_stride),                              \
                    *restrict x6 = (const T *)(row + 6 * row_stride),                              \
                    *restrict x7 = (const T *)(row + 7 * row_stride);                              \
                                                                                                   \
            for (size_t j = 0; j < n; j++) {                                                       \
                A m = r[j];                                                                        \
                T v;                                                                               \
                                                                                                   \
                v = x0[j], m = EXPR;                                                               \
                v = x1[j], m = EXPR;                                                               \
                v = x2[j], m = EXPR;                                                               \
                v = x3[j], m = EXPR;                                                               \
                v = x4[j], m = EXPR;                                                               \
                v = x5[j], m = EXPR;                                                               \
                v = x6[j], m = EXPR;                                                               \
                v = x7[j], m = EXPR;                                                               \
                r[j] = m;                                                                          \
            }                                                                                      \
        }                                                                                          \
        for (size_t from = 0, to; t < n_rows && from < n; from = to) {                             \
            to = n - from < FEW_ROWS_PIECE ? n : from + FEW_ROWS_PIECE;                            \
            for (size_t u = t; u < n_rows; u++) {                                                  \
                const T *restrict x0 = (const T *)(row + (ptrdiff_t)(u - t) * row_stride);         \
                                                                                                   \
                for (size_t j = from; j < to; j++) {                                               \
                    A m = r[j];                                                                    \
                    T v = x0[j];                                                                   \
                                                                                                   \
                    r[j] = EXPR;                                                                   \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* A left fold from `first`; elements i >= skip. */
#define FOLD(op, s, T, A, first, skip, EXPR)                                                       \
    INLINE A left_##op##_##s(size_t n, const T *a)                                                 \
    {                                                                                              \
        A m = first;                                                                               \
                                                                                                   \
        for (size_t i = skip; i < n; i++) {                                                        \
            T v = a[i];                                                                            \
                                                                                                   \
            m = EXPR;                                                                              \
        }                                                                                          \
        return m;                                                                                  \
    }                                                                                              \
    static void fold_##op##_##s(size_t n, const void *a, void *out, int64_t *index)                \
    {                                                                                              \
        (void)index;                                                                               \
        *(A *)out = left_##op##_##s(n, a);                                                         \
    }                                                                                              \
    ROWS(op, s, T, A)

/* Sums and products wrap, so signed types use the functions of the unsigned ones. */
#define INTEGER_RING(s, T)                                                                         \
    FOLD(sum, s, T, T, 0, 0, (T)(m + v))                                                           \
    FOLD(prod, s, T, T, 1, 0, (T)((T)1 * m * v))                                                   \
    ACCUM(sum, s, T, T, (T)(m + v))                                                                \
    ACCUM(prod, s, T, T, (T)((T)1 * m * v))
INTEGER_RING(u8, uint8_t)
INTEGER_RING(u32, uint32_t)
INTEGER_RING(u64, uint64_t)
/* uint16_t is multiplied as int, which may overflow. */
FOLD(sum, u16, uint16_t, uint16_t, 0, 0, (uint16_t)(m + v))
FOLD(prod, u16, uint16_t, uint16_t, 1, 0, (uint16_t)(1u * m * v))
ACCUM(sum, u16, uint16_t, uint16_t, (uint16_t)(m + v))
ACCUM(prod, u16, uint16_t, uint16_t, (uint16_t)(1u * m * v))

/* How many are true: bytes in vectors, added up before one of them can be full. */
static void
fold_sum_b8(size_t n, const void *ap, void *out, int64_t *index)
{
    const uint8_t *a = ap;
    int64_t        total = 0;

    (void)index;
    while (n >= VB) {
        size_t m = n / VB < UINT8_MAX ? n / VB : UINT8_MAX;
        vu8    lanes = {0};

        for (size_t i = 0; i < m; i++)
            lanes -= (vu8)(*(const vu8_mem *)(a + i * VB) != 0);
        for (int k = 0; k < VB; k++)
            total += lanes[k];
        a += m * VB;
        n -= m * VB;
    }
    for (; n; n--)
        total += *a++ != 0;
    *(int64_t *)out = total;
}
ROWS(sum, b8, uint8_t, int64_t)

ACCUM(sum, f32, float, float, m + v)
ACCUM(sum, f64, double, double, m + v)
FOLD(prod, f32, float, float, 1, 0, m *v)
FOLD(prod, f64, double, double, 1, 0, m *v)
ACCUM(prod, f32, float, float, m *v)
ACCUM(prod, f64, double, double, m *v)
FOLD(prod, f16, uint16_t, float, 1, 0, m *half_to_float(v))
ACCUM(prod, f16, uint16_t, uint16_t, float_to_half(half_to_float(m) * half_to_float(v)))

#define EXTREME_INT(op, s, T, beats)                                                               \
    INLINE T extreme_##op##_##s(size_t n, const T *a)                                              \
    {                                                                                              \
        uint64_t nan;                                                                              \
        T        m = a[0];                                                                         \
                                                                                                   \
        if (n >= WIDE_LANES(T))                                                                    \
            return across_##op##_##s(peaks_##op##_##s(n, a, &nan));                                \
        for (size_t i = 1; i < n; i++)                                                             \
            m = a[i] beats m ? a[i] : m;                                                           \
        return m;                                                                                  \
    }                                                                                              \
    static void fold_##op##_##s(size_t n, const void *a, void *out, int64_t *index)                \
    {                                                                                              \
        (void)index;                                                                               \
        *(T *)out = extreme_##op##_##s(n, a);                                                      \
    }                                                                                              \
    static void rows_##op##_##s(size_t n_rows, size_t n, const void *a, void *out, int64_t *index) \
    {                                                                                              \
        (void)index;                                                                               \
        for (size_t t = short_##op##_##s(n_rows, n, a, out); t < n_rows; t++)                      \
            ((T *)out)[t] = extreme_##op##_##s(n, (const T *)a + t * n);                           \
    }                                                                                              \
    ACCUM(op, s, T, T, v beats m ? v : m)
#define EXTREMES_INT(s, T)                                                                         \
    EXTREME_INT(max, s, T, >)                                                                      \
    EXTREME_INT(min, s, T, <)
EACH_INT(EXTREMES_INT)

/* ---- truth -------------------------------------------------------------------------------------
 * MASK: the bits of a number that are not 0 for one that is true. Eight vectors at a time, so that an answer
 * found early ends the walk. */
#define SOME_ZEROS(u, T, MASK, at)                                                                 \
    {                                                                                              \
        const uint64_t found = wide_equal_##u(*(const w##u##_mem *)(a + (at)) & (T)(MASK), (w##u){0}); \
                                                                                                   \
        zeros = truth ? zeros & found : zeros | found;                                             \
    }
#define FOLD_TRUTH(s, u, T, MASK)                                                                  \
    /* Whether some element is true, or false. `none`: the zeros of a vector without such a one. */ \
    INLINE bool some_##s(bool truth, size_t n, const T *a)                                         \
    {                                                                                              \
        enum { L = WIDE_LANES(T) };                                                                \
        const uint64_t none = truth ? WIDE_ALL(T) : 0;                                             \
        uint64_t       zeros = none;                                                               \
        size_t         i = 0;                                                                      \
                                                                                                   \
        if (n < L) {                                                                               \
            for (zeros = 0; i < n; i++)                                                            \
                zeros |= ((a[i] & (T)(MASK)) != 0) == truth;                                       \
            return zeros;                                                                          \
        }                                                                                          \
        for (; i + 8 * L <= n; i += 8 * L) {                                                       \
            for (int k = 0; k < 8; k++)                                                            \
                SOME_ZEROS(u, T, MASK, i + k * L)                                                  \
            if (zeros != none)                                                                     \
                return true;                                                                       \
        }                                                                                          \
        for (; i + L <= n; i += L)                                                                 \
            SOME_ZEROS(u, T, MASK, i)                                                              \
        SOME_ZEROS(u, T, MASK, n - L)                                                              \
        return zeros != none;                                                                      \
    }                                                                                              \
    static void fold_any_##s(size_t n, const void *a, void *out, int64_t *index)                   \
    {                                                                                              \
        (void)index;                                                                               \
        *(uint8_t *)out = some_##s(true, n, a);                                                    \
    }                                                                                              \
    static void fold_all_##s(size_t n, const void *a, void *out, int64_t *index)                   \
    {                                                                                              \
        (void)index;                                                                               \
        *(uint8_t *)out = !some_##s(false, n, a);                                                  \
    }                                                                                              \
    ROWS(any, s, T, uint8_t)                                                                       \
    ROWS(all, s, T, uint8_t)                                                                       \
    ACCUM(any, s, T, uint8_t, (uint8_t)(m | ((v & (T)(MASK)) != 0)))                           \
    ACCUM(all, s, T, uint8_t, (uint8_t)(m & ((v & (T)(MASK)) != 0)))
FOLD_TRUTH(u8, u8, uint8_t, ~0)
FOLD_TRUTH(u16, u16, uint16_t, ~0)
FOLD_TRUTH(u32, u32, uint32_t, ~0)
FOLD_TRUTH(u64, u64, uint64_t, ~0)
FOLD_TRUTH(f16, u16, uint16_t, 0x7fff)
FOLD_TRUTH(f32, u32, uint32_t, 0x7fffffff)
FOLD_TRUTH(f64, u64, uint64_t, 0x7fffffffffffffff)

#define COMPLEX_TRUTH(c, T)                                                                        \
    static void fold_any_##c(size_t n, const void *ap, void *out, int64_t *index)                  \
    {                                                                                              \
        const T *a = ap;                                                                           \
        size_t   i = 0;                                                                            \
                                                                                                   \
        (void)index;                                                                               \
        while (i < 2 * n && a[i] == 0)                                                             \
            i++;                                                                                   \
        *(uint8_t *)out = i < 2 * n;                                                               \
    }                                                                                              \
    static void fold_all_##c(size_t n, const void *ap, void *out, int64_t *index)                  \
    {                                                                                              \
        const T *a = ap;                                                                           \
        size_t   i = 0;                                                                            \
                                                                                                   \
        (void)index;                                                                               \
        while (i < n && (a[2 * i] != 0 || a[2 * i + 1] != 0))                                      \
            i++;                                                                                   \
        *(uint8_t *)out = i == n;                                                                  \
    }

#include "backends/cpu/reduce_arg.h"

/* ---- complex and half rows ------------------------------------------------------------------ */

/* The product of a row is NumPy's scalar loop, plain; a product of two arrays (recipe `multiply`)
 * fuses one multiplication of each part, as NumPy's vector loop does. */
#define COMPLEX(c, s, T, FMA)                                                                      \
    COMPLEX_TRUTH(c, T)                                                                            \
    static void fold_prod_##c(size_t n, const void *ap, void *out, int64_t *index)                 \
    {                                                                                              \
        const T *a = ap;                                                                           \
        T        re = 1, im = 0, t;                                                                \
                                                                                                   \
        (void)index;                                                                               \
        for (size_t i = 0; i < 2 * n; i += 2) {                                                    \
            t = re * a[i] - im * a[i + 1];                                                         \
            im = re * a[i + 1] + im * a[i];                                                        \
            re = t;                                                                                \
        }                                                                                          \
        ((T *)out)[0] = re;                                                                        \
        ((T *)out)[1] = im;                                                                        \
    }                                                                                              \
    static void accum_prod_##c(size_t n_rows, size_t n, void *acc, const void *x,                  \
                               ptrdiff_t row_stride, int64_t *index, int64_t i0)                   \
    {                                                                                              \
        T *restrict r = acc;                                                                       \
                                                                                                   \
        (void)index;                                                                               \
        (void)i0;                                                                                  \
        for (size_t t = 0; t < n_rows; t++) {                                                      \
            const T *restrict a = (const T *)((const char *)x + (ptrdiff_t)t * row_stride);        \
                                                                                                   \
            for (size_t j = 0; j < 2 * n; j += 2) {                                                \
                T re = FMA(r[j], a[j], -(r[j + 1] * a[j + 1]));                                    \
                                                                                                   \
                r[j + 1] = FMA(r[j], a[j + 1], r[j + 1] * a[j]);                                   \
                r[j] = re;                                                                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void accum_sum_##c(size_t n_rows, size_t n, void *acc, const void *x,                   \
                              ptrdiff_t row_stride, int64_t *index, int64_t i0)                    \
    {                                                                                              \
        accum_sum_##s(n_rows, 2 * n, acc, x, row_stride, index, i0);                               \
    }                                                                                              \
    ACCUM(any, c, c, uint8_t, (uint8_t)(m | (v.re != 0 || v.im != 0)))                             \
    ACCUM(all, c, c, uint8_t, (uint8_t)(m & (v.re != 0 || v.im != 0)))                             \
    ROWS(sum, c, c, c)                                                                             \
    ROWS(prod, c, c, c)                                                                            \
    ROWS(any, c, c, uint8_t)                                                                       \
    ROWS(all, c, c, uint8_t)
COMPLEX(c64, f32, float, __builtin_fmaf)
COMPLEX(c128, f64, double, __builtin_fma)

/* ---- the table ------------------------------------------------------------------------------ */

#define ROW_INTEGERS(kind, op, u8, i8, i16, i32, i64, u16, u32, u64)                               \
    [FR_I8] = kind##_##op##_##i8, [FR_I16] = kind##_##op##_##i16,                                  \
    [FR_I32] = kind##_##op##_##i32, [FR_I64] = kind##_##op##_##i64, [FR_U8] = kind##_##op##_##u8,  \
    [FR_U16] = kind##_##op##_##u16, [FR_U32] = kind##_##op##_##u32,                                \
    [FR_U64] = kind##_##op##_##u64
#define ROW(kind, op, ...)                                                                         \
    ROW_INTEGERS(kind, op, __VA_ARGS__), [FR_F16] = kind##_##op##_f16, [FR_F32] = kind##_##op##_f32, \
    [FR_F64] = kind##_##op##_f64, [FR_C64] = kind##_##op##_c64, [FR_C128] = kind##_##op##_c128
#define ROW_RING(kind, op) ROW(kind, op, u8, u8, u16, u32, u64, u16, u32, u64)
/* The greatest of bools is whether any is true. */
#define ROW_ORDER(kind, op, truth)                                                                 \
    [FR_BOOL] = kind##_##truth##_u8, ROW(kind, op, u8, i8, i16, i32, i64, u16, u32, u64)
#define ROW_INDEX(kind, op)                                                                        \
    [FR_BOOL] = kind##_##op##_b8, ROW(kind, op, u8, i8, i16, i32, i64, u16, u32, u64)
#define ROW_TRUTH(kind, op)                                                                        \
    [FR_BOOL] = kind##_##op##_u8, ROW(kind, op, u8, u8, u16, u32, u64, u16, u32, u64)
#define COUNTS(kind) [FR_BOOL] = kind##_sum_b8,
#define TABLE(kind, counts)                                                                              \
    {                                                                                              \
        [FR_REDUCE_ROW(FR_OP_sum)] = {counts ROW_RING(kind, sum)},                                 \
        [FR_REDUCE_ROW(FR_OP_prod)] = {ROW_RING(kind, prod)},                                      \
        [FR_REDUCE_ROW(FR_OP_max)] = {ROW_ORDER(kind, max, any)},                                       \
        [FR_REDUCE_ROW(FR_OP_min)] = {ROW_ORDER(kind, min, all)},                                       \
        [FR_REDUCE_ROW(FR_OP_any)] = {ROW_TRUTH(kind, any)},                                       \
        [FR_REDUCE_ROW(FR_OP_all)] = {ROW_TRUTH(kind, all)},                                       \
        [FR_REDUCE_ROW(FR_OP_argmax)] = {ROW_INDEX(kind, argmax)},                                 \
        [FR_REDUCE_ROW(FR_OP_argmin)] = {ROW_INDEX(kind, argmin)},                                 \
    }

const struct fr_reduce_kernels PASTE(fr_reduce_, FR_LEVEL) = {
    .level = TEXT(FR_LEVEL),
    .fold = TABLE(fold, COUNTS(fold)),
    .fold_rows = TABLE(rows, COUNTS(rows)),
    .accum = TABLE(accum, ),
    .fold_products = {fold_products_f32, fold_products_f64},
};
