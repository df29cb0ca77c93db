/* backends/cpu/product.inc.c -- the kernels of product.h for one level of instructions. Compiled as reduce.inc.c is.
 *
 * A tile of a few rows and columns of the result stays in registers while the inner axis is walked: each vector of b that
 * is read serves all of these rows. */
#include "backends/cpu/product.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed to inlined functions only */

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512BW__)
#define VB 64
#elif defined(__AVX2__)
#define VB 32
#else
#define VB 16
#endif

enum { MANY_ROWS = 4, MANY_VECTORS = 2 };       /* of a tile: eight sums wait for each other less than one does */

/* ADD(c, x, b): the sum c and the product of the number x by the vector b. END(c): what the result is. */
#define ROWS(s, T, ADD, END)                                                                       \
    typedef T v_##s __attribute__((vector_size(VB)));                                              \
    typedef T m_##s __attribute__((vector_size(VB), aligned(1), may_alias));                       \
                                                                                                   \
    INLINE void tile_##s(const struct fr_product_rows *p, int64_t i, int64_t j, int n_rows, int n_vectors) \
    {                                                                                              \
        const char *a = p->a + i * p->a_row, *b = p->b + j * (int64_t)sizeof(T);                   \
        char       *out = p->out + i * p->out_row + j * (int64_t)sizeof(T);                        \
        size_t      n = (size_t)(p->n - j) * sizeof(T);                                            \
        v_##s       c[MANY_ROWS][MANY_VECTORS] = {{{0}}};                                          \
                                                                                                   \
        for (int64_t k = 0; k < p->k; k++, a += p->a_k, b += p->b_k)                               \
            _Pragma("GCC unroll 4") for (int r = 0; r < n_rows; r++)                               \
            {                                                                                      \
                T x = *(const T *)(a + r * p->a_row);                                              \
                                                                                                   \
                _Pragma("GCC unroll 2") for (int v = 0; v < n_vectors; v++)                        \
                    c[r][v] = ADD(c[r][v], x, *(const m_##s *)(b + v * VB));                       \
            }                                                                                      \
        _Pragma("GCC unroll 4") for (int r = 0; r < n_rows; r++)                                   \
            _Pragma("GCC unroll 2") for (int v = 0; v < n_vectors; v++)                            \
            {                                                                                      \
                v_##s of = END(c[r][v]);                                                           \
                                                                                                   \
                if (n >= VB)                                                                       \
                    *(m_##s *)(out + r * p->out_row + v * VB) = of;                                \
                else                                                                               \
                    memcpy(out + r * p->out_row, &of, n);                                          \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    INLINE void columns_##s(const struct fr_product_rows *p, int64_t first, int64_t last, int64_t j, int n_vectors) \
    {                                                                                              \
        int64_t i = first;                                                                         \
                                                                                                   \
        for (; i + MANY_ROWS <= last; i += MANY_ROWS)                                              \
            tile_##s(p, i, j, MANY_ROWS, n_vectors);                                               \
        for (; i < last; i++)                                                                      \
            tile_##s(p, i, j, 1, n_vectors);                                                       \
    }                                                                                              \
                                                                                                   \
    /* The last vector begins so early that it ends with the row. */                               \
    static void rows_##s(const struct fr_product_rows *p, int64_t first, int64_t last)             \
    {                                                                                              \
        const int64_t lanes = VB / sizeof(T);                                                      \
        int64_t       j = 0;                                                                       \
                                                                                                   \
        for (; j + MANY_VECTORS * lanes <= p->n; j += MANY_VECTORS * lanes)                        \
            columns_##s(p, first, last, j, MANY_VECTORS);                                          \
        for (; j + lanes <= p->n; j += lanes)                                                      \
            columns_##s(p, first, last, j, 1);                                                     \
        if (j < p->n)                                                                              \
            columns_##s(p, first, last, p->n < lanes ? 0 : p->n - lanes, 1);                       \
    }

#define PLUS(c, x, b) ((c) + (x) * (b))
#define OR(c, x, b) ((c) | ((b) & (uint8_t) - ((x) != 0)))
#define AS_IT_IS(c) (c)
#define IS_TRUE(c) ((v_b1)((c) != 0) & 1)
ROWS(b1, uint8_t, OR, IS_TRUE)
ROWS(u8, uint8_t, PLUS, AS_IT_IS)
ROWS(u16, uint16_t, PLUS, AS_IT_IS)
ROWS(u32, uint32_t, PLUS, AS_IT_IS)
ROWS(u64, uint64_t, PLUS, AS_IT_IS)
ROWS(f32, float, PLUS, AS_IT_IS)
ROWS(f64, double, PLUS, AS_IT_IS)

/* Modulo what T holds: in any order. */
#define DOT(s, T)                                                                                  \
    static void dot_##s(int64_t n, const void *a, const void *b, void *out)                        \
    {                                                                                              \
        const T *x = a, *y = b;                                                                    \
        T        sum = 0;                                                                          \
                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            sum = (T)(sum + (T)((uint64_t)x[i] * y[i]));                                           \
        *(T *)out = sum;                                                                           \
    }
DOT(u8, uint8_t)
DOT(u16, uint16_t)
DOT(u32, uint32_t)
DOT(u64, uint64_t)

/* Vectors of 16 bytes: four at a time, the last of them first, then one by one, the last with zeros behind. In the end
 * neighbouring lanes are added, and the sum to +0.0. Several results at once do not wait for each other. */
#define LANES(s, T, SUM)                                                                           \
    typedef T l_##s __attribute__((vector_size(16)));                                              \
    typedef T k_##s __attribute__((vector_size(16), aligned(1), may_alias));                       \
                                                                                                   \
    INLINE void lanes_few_##s(int64_t n, const char *a, const char *b, int64_t b_step, int count, char *out, int64_t out_step) \
    {                                                                                              \
        l_##s   c[4] = {{0}};                                                                      \
        int64_t left = n * (int64_t)sizeof(T);                                                     \
                                                                                                   \
        for (; left >= 64; left -= 64, a += 64, b += 64)                                           \
            _Pragma("GCC unroll 4") for (int v = 48; v >= 0; v -= 16)                              \
                _Pragma("GCC unroll 4") for (int j = 0; j < count; j++)                            \
                    c[j] += *(const k_##s *)(a + v) * *(const k_##s *)(b + j * b_step + v);        \
        for (; left >= 16; left -= 16, a += 16, b += 16)                                           \
            _Pragma("GCC unroll 4") for (int j = 0; j < count; j++)                                \
                c[j] += *(const k_##s *)a * *(const k_##s *)(b + j * b_step);                      \
        _Pragma("GCC unroll 4") for (int j = 0; j < count; j++)                                    \
        {                                                                                          \
            if (left > 0) {                                                                        \
                l_##s x = {0}, y = {0};                                                            \
                                                                                                   \
                memcpy(&x, a, (size_t)left);                                                       \
                memcpy(&y, b + j * b_step, (size_t)left);                                          \
                c[j] += x * y;                                                                     \
            }                                                                                      \
            *(T *)(out + j * out_step) = (SUM(c[j])) + 0;                                          \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void lanes_##s(int64_t n, const void *a, const char *b, int64_t b_step, int64_t count, char *out, int64_t out_step) \
    {                                                                                              \
        int64_t j = 0;                                                                             \
                                                                                                   \
        for (; j + 4 <= count; j += 4)                                                             \
            lanes_few_##s(n, a, b + j * b_step, b_step, 4, out + j * out_step, out_step);          \
        for (; j < count; j++)                                                                     \
            lanes_few_##s(n, a, b + j * b_step, b_step, 1, out + j * out_step, out_step);          \
    }
#define SUM_OF_4(c) ((c)[0] + (c)[1]) + ((c)[2] + (c)[3])
#define SUM_OF_2(c) (c)[0] + (c)[1]
LANES(f32, float, SUM_OF_4)
LANES(f64, double, SUM_OF_2)

#define AT_ONCE_f32(a, b, c) __builtin_fmaf(a, b, c)
#define AT_ONCE_f64(a, b, c) __builtin_fma(a, b, c)
#define APART(a, b, c) ((c) + (a) * (b))

/* The sizes are constants where it is called. */
#define TINY(name, T, ADD, END)                                                                    \
    INLINE void some_##name(char *const *ptr, const int64_t *dims, const int64_t *steps, int k_max, int n) \
    {                                                                                              \
        const char *a = ptr[0], *b = ptr[1];                                                       \
        char       *out = ptr[2];                                                                  \
                                                                                                   \
        for (int64_t item = 0; item < dims[0]; item++, a += steps[0], b += steps[1], out += steps[2]) \
            for (int64_t i = 0; i < dims[1]; i++) {                                                \
                T c[FR_PRODUCT_TINY] = {0};                                                        \
                                                                                                   \
                _Pragma("GCC unroll 4") for (int k = 0; k < k_max; k++)                            \
                {                                                                                  \
                    T x = *(const T *)(a + i * steps[3] + k * steps[4]);                           \
                                                                                                   \
                    _Pragma("GCC unroll 4") for (int j = 0; j < n; j++)                            \
                        c[j] = ADD(x, *(const T *)(b + k * steps[5] + j * steps[6]), c[j]);        \
                }                                                                                  \
                _Pragma("GCC unroll 4") for (int j = 0; j < n; j++)                                \
                    *(T *)(out + i * steps[7] + j * steps[8]) = c[j] END;                          \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    static void tiny_##name(char *const *ptr, const int64_t *dims, const int64_t *steps)           \
    {                                                                                              \
        switch ((dims[2] - 2) * 3 + dims[3] - 2) {                                                 \
        case 0: some_##name(ptr, dims, steps, 2, 2); break;                                        \
        case 1: some_##name(ptr, dims, steps, 2, 3); break;                                        \
        case 2: some_##name(ptr, dims, steps, 2, 4); break;                                        \
        case 3: some_##name(ptr, dims, steps, 3, 2); break;                                        \
        case 4: some_##name(ptr, dims, steps, 3, 3); break;                                        \
        case 5: some_##name(ptr, dims, steps, 3, 4); break;                                        \
        case 6: some_##name(ptr, dims, steps, 4, 2); break;                                        \
        case 7: some_##name(ptr, dims, steps, 4, 3); break;                                        \
        default: some_##name(ptr, dims, steps, 4, 4);                                              \
        }                                                                                          \
    }
#define TINIES(s, T)                                                                               \
    TINY(apart_##s, T, APART, )                                                                    \
    TINY(apart_to_zero_##s, T, APART, +0)
TINIES(f32, float)
TINIES(f64, double)
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
TINY(at_once_f32, float, AT_ONCE_f32, )
TINY(at_once_f64, double, AT_ONCE_f64, )
TINY(at_once_to_zero_f32, float, AT_ONCE_f32, +0)
TINY(at_once_to_zero_f64, double, AT_ONCE_f64, +0)
#endif

const struct fr_product_kernels PASTE(fr_product_, FR_LEVEL) = {
    .rows = {[FR_BOOL] = rows_b1, [FR_I8] = rows_u8, [FR_U8] = rows_u8, [FR_I16] = rows_u16, [FR_U16] = rows_u16,
             [FR_I32] = rows_u32, [FR_U32] = rows_u32, [FR_I64] = rows_u64, [FR_U64] = rows_u64, [FR_F32] = rows_f32,
             [FR_F64] = rows_f64},
    .dot = {[FR_I8] = dot_u8, [FR_U8] = dot_u8, [FR_I16] = dot_u16, [FR_U16] = dot_u16,
            [FR_I32] = dot_u32, [FR_U32] = dot_u32, [FR_I64] = dot_u64, [FR_U64] = dot_u64},
    .lanes = {[FR_F32] = lanes_f32, [FR_F64] = lanes_f64},
    .tiny = {
        [FR_PRODUCT_APART] = {[FR_F32] = tiny_apart_f32, [FR_F64] = tiny_apart_f64},
        [FR_PRODUCT_APART_TO_ZERO] = {[FR_F32] = tiny_apart_to_zero_f32, [FR_F64] = tiny_apart_to_zero_f64},
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
        [FR_PRODUCT_AT_ONCE] = {[FR_F32] = tiny_at_once_f32, [FR_F64] = tiny_at_once_f64},
        [FR_PRODUCT_AT_ONCE_TO_ZERO] = {[FR_F32] = tiny_at_once_to_zero_f32, [FR_F64] = tiny_at_once_to_zero_f64},
#endif
    },
};
