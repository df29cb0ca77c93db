/* What a loop in C takes for the rows of the table that memory is said to limit, with the same bits.  Built by bounds.py.
 *
 * Each function does the work of one row `repeats` times, as well as it could be written for one thread: whole vectors,
 * sums in NumPy's order, stores past the caches where `past` says so. What these do not reach, the order of the
 * operations or the divider forbids, and not the way they are put together. */
#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BARRIER() __asm__ volatile("" ::: "memory")

typedef float  f32x8 __attribute__((vector_size(32), aligned(4)));
typedef double f64x8 __attribute__((vector_size(64), aligned(8)));
typedef float  f32x16 __attribute__((vector_size(64), aligned(4)));

/* n elements at `to`, which begins a line, from a line in a register. */
static inline void
put_line(void *to, const void *line, int past)
{
#ifdef __AVX512F__
    if (past)
        _mm512_stream_si512(to, *(const __m512i *)line);
    else
#endif
        memcpy(to, line, 64);
}

#define LINES(T, ...)                                                                              \
    for (size_t r = 0; r < repeats; r++) {                                                         \
        for (size_t i = 0; i < n; i += 64 / sizeof(T)) {                                           \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        BARRIER();                                                                                 \
    }

#define AT(T, p) (*(const T *)((p) + i))

void
mul_add_f32(float *out, const float *a, const float *b, const float *c, size_t n, size_t repeats, int past)
{
    LINES(float, f32x16 y = AT(f32x16, a) * AT(f32x16, b) + AT(f32x16, c); put_line(out + i, &y, past))
}

void
ratio_f32(float *out, const float *a, const float *b, size_t n, size_t repeats, int past)
{
    LINES(float, f32x16 x = AT(f32x16, a), z = AT(f32x16, b), y = (x - z) / (x + z); put_line(out + i, &y, past))
}

void
ratio_f64(double *out, const double *a, const double *b, size_t n, size_t repeats, int past)
{
    LINES(double, f64x8 x = AT(f64x8, a), z = AT(f64x8, b), y = (x - z) / (x + z); put_line(out + i, &y, past))
}

/* The pairwise sum of TERM over n elements, as NumPy adds: eight running sums for up to 128. */
#define PAIRWISE(name, T, V, PARAMS, ARGS, NEXT, TERM)                                             \
    static T name##_leaf(PARAMS, size_t n)                                                         \
    {                                                                                              \
        V      s, t = {0};                                                                         \
        T      sum;                                                                                \
        size_t i = 0;                                                                              \
                                                                                                   \
        s = TERM(V);                                                                               \
        for (i = 8; i + 8 <= n; i += 8) {                                                          \
            t = TERM(V);                                                                           \
            s += t;                                                                                \
        }                                                                                          \
        sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));                   \
        for (; i < n; i++)                                                                         \
            sum += TERM(T);                                                                        \
        return sum;                                                                                \
    }                                                                                              \
    static T name(PARAMS, size_t n)                                                                \
    {                                                                                              \
        size_t half = n / 2 / 8 * 8;                                                               \
        T      first;                                                                              \
                                                                                                   \
        if (n <= 128)                                                                              \
            return name##_leaf(ARGS, n);                                                           \
        first = name(ARGS, half);                                                                  \
        return first + name(NEXT, n - half);                                                       \
    }

#define COMMA ,
#define PRODUCT(T) (AT(T, a) * AT(T, b))
PAIRWISE(sum_of_products, float, f32x8, const float *a COMMA const float *b, a COMMA b, a + half COMMA b + half, PRODUCT)
#define ITSELF(T) (AT(T, a))
PAIRWISE(sum_f32, float, f32x8, const float *a, a, a + half, ITSELF)
PAIRWISE(sum_f64, double, f64x8, const double *a, a, a + half, ITSELF)
#define SQUARE(T) ((AT(T, a) - m) * (AT(T, a) - m))
PAIRWISE(squares_f32, float, f32x8, const float *a COMMA float m, a COMMA m, a + half COMMA m, SQUARE)
PAIRWISE(squares_f64, double, f64x8, const double *a COMMA double m, a COMMA m, a + half COMMA m, SQUARE)

void
sum_products_f32(float *out, const float *a, const float *b, size_t n, size_t repeats, int past)
{
    (void)past;
    for (size_t r = 0; r < repeats; r++) {
        *out = sum_of_products(a, b, n);
        BARRIER();
    }
}

#define VARIANCE(T, S)                                                                             \
    void variance_##S(T *out, const T *a, size_t n, size_t repeats, int past)                      \
    {                                                                                              \
        (void)past;                                                                                \
        for (size_t r = 0; r < repeats; r++) {                                                     \
            *out = squares_##S(a, sum_##S(a, n) / (T)n, n) / (T)n;                                 \
            BARRIER();                                                                             \
        }                                                                                          \
    }
VARIANCE(float, f32)
VARIANCE(double, f64)

void
layer_norm_f32(float *out, const float *x, const float *g, const float *b, size_t rows, size_t n, size_t repeats, int past)
{
    for (size_t r = 0; r < repeats; r++) {
        for (size_t k = 0; k < rows; k++, x += n, out += n) {
            float mean = sum_f32(x, n) / (float)n;
            float by = sqrtf(squares_f32(x, mean, n) / (float)n + 1e-5f);

            for (size_t i = 0; i < n; i += 16) {
                f32x16 y = (AT(f32x16, x) - mean) / by * AT(f32x16, g) + AT(f32x16, b);
                /* The next row comes while this one is divided. */
                __builtin_prefetch(x + n + i);
                put_line(out + i, &y, past);
            }
        }
        x -= rows * n;
        out -= rows * n;
        BARRIER();
    }
}

/* Five points into the inside of n x n; what lies before the first whole line of a row is stored singly. */
void
stencil_f64(double *out, const double *u, size_t n, size_t repeats, int past)
{
    for (size_t r = 0; r < repeats; r++) {
        for (size_t k = 1; k < n - 1; k++) {
            const double *a = u + k * n;
            double       *to = out + k * n;
            size_t        i = 1;

#define POINT(T) (0.2 * ((((AT(T, a) + AT(T, a - 1)) + AT(T, a + 1)) + AT(T, a + n)) + AT(T, a - n)))
            for (; (uintptr_t)(to + i) % 64; i++)
                to[i] = POINT(double);
            for (; i + 8 <= n - 1; i += 8) {
                f64x8 y = POINT(f64x8);

                for (int row = -1; row <= 1; row++)
                    __builtin_prefetch(a + row * (ptrdiff_t)n + n + i, 0, 2);
                put_line(to + i, &y, past);
            }
            for (; i < n - 1; i++)
                to[i] = POINT(double);
        }
        BARRIER();
    }
}

static inline f32x16
root(f32x16 x)
{
#ifdef __AVX512F__
    return (f32x16)_mm512_sqrt_ps((__m512)x);
#else
    for (int i = 0; i < 16; i++)
        x[i] = sqrtf(x[i]);
    return x;
#endif
}

void
adam_f32(float *p1, float *m1, float *v1, const float *p, const float *g, const float *m, const float *v, size_t n,
         size_t repeats, int past)
{
    LINES(float, f32x16 y = AT(f32x16, g); f32x16 mm = 0.9f * AT(f32x16, m) + 0.1f * y;
          f32x16 vv = 0.999f * AT(f32x16, v) + 0.001f * (y * y);
          f32x16 pp = AT(f32x16, p) - 0.001f * (mm * 1.2f) / (root(vv * 1.1f) + 1e-8f); put_line(p1 + i, &pp, past);
          put_line(m1 + i, &mm, past); put_line(v1 + i, &vv, past))
}
