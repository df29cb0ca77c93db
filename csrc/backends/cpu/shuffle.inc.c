/* backends/cpu/shuffle.inc.c -- the kernels of shuffle.h for one level of instructions. Compiled as reduce.inc.c is.
 *
 * Of every other element, the even ones of two vectors are one shuffle; every fourth is every other of those. Of every
 * third, no two that lie in three vectors are in the same lane, for 3 has no divisor in common with the number of
 * lanes: so the three are laid over each other, and what lies in a wrong order then is one shuffle. */
#include "backends/cpu/shuffle.h"

#include <stdint.h>
#include <string.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* Vectors are as wide as a shuffle across all of them is one instruction. */
#if defined(__AVX512VBMI__)
#define FOR_SIZES(X) X(1, uint8_t, 64) X(2, uint16_t, 32) X(4, uint32_t, 16) X(8, uint64_t, 8)
#elif defined(__AVX512BW__)
#define FOR_SIZES(X) X(1, uint8_t, 16) X(2, uint16_t, 32) X(4, uint32_t, 16) X(8, uint64_t, 8)
#elif defined(__AVX2__)
#define FOR_SIZES(X) X(1, uint8_t, 16) X(2, uint16_t, 8) X(4, uint32_t, 8) X(8, uint64_t, 4)
#else
#define FOR_SIZES(X) X(1, uint8_t, 16) X(2, uint16_t, 8) X(4, uint32_t, 4) X(8, uint64_t, 2)
#endif
#if defined(__x86_64__) && !defined(__SSSE3__)
#define SHUFFLED(S) ((S) >= 4)   /* bytes and pairs in any order would be moved one by one */
enum { ANY_ORDER = 0 };          /* and whatever is known only while this runs */
#else
#define SHUFFLED(S) 1
enum { ANY_ORDER = 1 };
#endif

enum { AHEAD = 2048 };   /* bytes: at the end of a page the processor stops reading ahead */

#define LIST_2(F, N) F(0, N), F(1, N)
#define LIST_4(F, N) LIST_2(F, N), F(2, N), F(3, N)
#define LIST_8(F, N) LIST_4(F, N), F(4, N), F(5, N), F(6, N), F(7, N)
#define LIST_16(F, N)                                                                              \
    LIST_8(F, N), F(8, N), F(9, N), F(10, N), F(11, N), F(12, N), F(13, N), F(14, N), F(15, N)
#define LIST_32(F, N)                                                                              \
    LIST_16(F, N), F(16, N), F(17, N), F(18, N), F(19, N), F(20, N), F(21, N), F(22, N), F(23, N), \
        F(24, N), F(25, N), F(26, N), F(27, N), F(28, N), F(29, N), F(30, N), F(31, N)
#define LIST_64(F, N)                                                                              \
    LIST_32(F, N), F(32, N), F(33, N), F(34, N), F(35, N), F(36, N), F(37, N), F(38, N), F(39, N), \
        F(40, N), F(41, N), F(42, N), F(43, N), F(44, N), F(45, N), F(46, N), F(47, N), F(48, N),  \
        F(49, N), F(50, N), F(51, N), F(52, N), F(53, N), F(54, N), F(55, N), F(56, N), F(57, N),  \
        F(58, N), F(59, N), F(60, N), F(61, N), F(62, N), F(63, N)

#define BACK(l, N) ((N) - 1 - (l))
#define EVEN(l, N) (2 * (l))
/* Element l of the result is element 3 * l of three vectors: in lane THIRD, and in the vector FROM says of that lane,
 * whose element of the result is a third of it: times 43, for 3 * 43 is 1 more than a multiple of any N. */
#define THIRD(l, N) (3 * (l) % (N))
#define FROM(l, N) (3 * ((l) * 43 % (N)) / (N))
#define FIRST_TWO(l, N) ((l) + (FROM(l, N) == 1 ? (N) : 0))
#define LAST(l, N) ((l) + (FROM(l, N) == 2 ? (N) : 0))

#define AT(S, k) ((vec_##S) * (const mem_##S *)(in + (k) * (ptrdiff_t)sizeof(vec_##S)))
#define ASK() __builtin_prefetch((const void *)((uintptr_t)in + AHEAD))

#define NEAR(S, T, N)                                                                              \
    typedef T vec_##S __attribute__((vector_size((S) * (N))));                                     \
    typedef T mem_##S __attribute__((vector_size((S) * (N)), aligned(1), may_alias));              \
    static size_t near_##S(size_t n, char *out, const char *in, ptrdiff_t step)                    \
    {                                                                                              \
        const vec_##S even = {LIST_##N(EVEN, N)}, back = {LIST_##N(BACK, N)};                      \
        const vec_##S two = {LIST_##N(FIRST_TWO, N)}, last = {LIST_##N(LAST, N)};                  \
        const vec_##S third = {LIST_##N(THIRD, N)};                                                \
        size_t        i = 0;                                                                       \
                                                                                                   \
        if (step == 2)                                                                             \
            for (; i + (N) < n; i += (N), in += 2 * sizeof even) {                                 \
                ASK();                                                                             \
                *(mem_##S *)(out + i * (S)) = __builtin_shuffle(AT(S, 0), AT(S, 1), even);         \
            }                                                                                      \
        else if (step == 3 && SHUFFLED(S))                                                         \
            for (; i + (N) < n; i += (N), in += 3 * sizeof even) {                                 \
                vec_##S v = __builtin_shuffle(AT(S, 0), AT(S, 1), two);                            \
                                                                                                   \
                ASK();                                                                             \
                v = __builtin_shuffle(v, AT(S, 2), last);                                          \
                *(mem_##S *)(out + i * (S)) = __builtin_shuffle(v, third);                         \
            }                                                                                      \
        else if (step == 4)                                                                        \
            for (; i + (N) < n; i += (N), in += 4 * sizeof even) {                                 \
                vec_##S v = __builtin_shuffle(AT(S, 0), AT(S, 1), even);                           \
                                                                                                   \
                ASK();                                                                             \
                v = __builtin_shuffle(v, __builtin_shuffle(AT(S, 2), AT(S, 3), even), even);       \
                *(mem_##S *)(out + i * (S)) = v;                                                   \
            }                                                                                      \
        else if (step == -1 && (SHUFFLED(S) || (S) > 1))                                           \
            for (in -= sizeof even - (S); i + (N) <= n; i += (N), in -= sizeof even) {             \
                __builtin_prefetch((const void *)((uintptr_t)in - AHEAD));                         \
                *(mem_##S *)(out + i * (S)) = __builtin_shuffle(AT(S, 0), back);                   \
            }                                                                                      \
        return i;                                                                                  \
    }
FOR_SIZES(NEAR)

/* Neighbours, each a few times: a vector of them becomes as many vectors, each by one shuffle. */
enum { FEW = 4 };

#define SPREAD(S, T, N)                                                                            \
    static inline __attribute__((always_inline)) size_t times_##S(size_t n, size_t times, char *out, const char *in) \
    {                                                                                              \
        vec_##S which[FEW];                                                                        \
        size_t  i = 0;                                                                             \
                                                                                                   \
        for (size_t k = 0; k < times; k++)                                                         \
            for (size_t l = 0; l < (N); l++)                                                       \
                which[k][l] = (T)((k * (N) + l) / times);                                          \
        for (; i + (N) <= n; i += (N), in += sizeof(vec_##S), out += times * sizeof(vec_##S)) {    \
            vec_##S v = AT(S, 0);                                                                  \
                                                                                                   \
            *(mem_##S *)out = __builtin_shuffle(v, which[0]);                                      \
            *(mem_##S *)(out + sizeof v) = __builtin_shuffle(v, which[1]);                         \
            if (times > 2)                                                                         \
                *(mem_##S *)(out + 2 * sizeof v) = __builtin_shuffle(v, which[2]);                 \
            if (times > 3)                                                                         \
                *(mem_##S *)(out + 3 * sizeof v) = __builtin_shuffle(v, which[3]);                 \
        }                                                                                          \
        return i;                                                                                  \
    }                                                                                              \
    static size_t spread_##S(size_t n, size_t times, char *out, const char *in)                    \
    {                                                                                              \
        if (!ANY_ORDER || n < 4 * (N))                                                             \
            return 0;                                                                              \
        switch (times) {                                                                           \
        case 2: return times_##S(n, 2, out, in);                                                   \
        case 3: return times_##S(n, 3, out, in);                                                   \
        case FEW: return times_##S(n, FEW, out, in);                                               \
        default: return 0;                                                                         \
        }                                                                                          \
    }
FOR_SIZES(SPREAD)

/* Rows that are no whole vectors: what one row's last vector has too much, the next row's first lies over. The last
 * rows have none after them, and end with a vector that lies over the one before it. */
#ifdef __AVX2__
enum { WIDE = 32 };
#else
enum { WIDE = 16 };
#endif

#define REPEAT(S, T)                                                                               \
    typedef T wide_##S __attribute__((vector_size(WIDE)));                                         \
    typedef T wide_mem_##S __attribute__((vector_size(WIDE), aligned(1), may_alias));              \
    typedef T mem_one_##S __attribute__((aligned(1), may_alias));                                  \
    static inline __attribute__((always_inline)) void rows_##S(                                    \
        size_t n_rows, size_t n_bytes, size_t n_vectors, char *out, const char *in, ptrdiff_t stride) \
    {                                                                                              \
        for (size_t r = 0; r < n_rows; r++, out += n_bytes, in += stride) {                        \
            wide_##S v = *(const mem_one_##S *)in - (wide_##S){0};                                 \
                                                                                                   \
            for (size_t k = 0; k < n_vectors; k++)                                                 \
                *(wide_mem_##S *)(out + k * WIDE) = v;                                             \
        }                                                                                          \
    }                                                                                              \
    static size_t repeat_##S(size_t n_rows, size_t n_bytes, char *out, const char *in, ptrdiff_t stride) \
    {                                                                                              \
        size_t r = stride == S ? spread_##S(n_rows, n_bytes / S, out, in) : 0;                     \
        size_t n_vectors = (n_bytes + WIDE - 1) / WIDE, all = (n_rows - r) * n_bytes;              \
        size_t n = all < n_vectors * WIDE ? 0 : (all - n_vectors * WIDE) / n_bytes + 1;            \
                                                                                                   \
        out += r * n_bytes;                                                                        \
        in += r * S;                                                                               \
        switch (n_vectors) {                                                                       \
        case 1: rows_##S(n, n_bytes, 1, out, in, stride); break;                                   \
        case 2: rows_##S(n, n_bytes, 2, out, in, stride); break;                                   \
        case 3: rows_##S(n, n_bytes, 3, out, in, stride); break;                                   \
        case 4: rows_##S(n, n_bytes, 4, out, in, stride); break;                                   \
        default: rows_##S(n, n_bytes, n_vectors, out, in, stride);                                 \
        }                                                                                          \
        out += n * n_bytes;                                                                        \
        in += (ptrdiff_t)n * stride;                                                               \
        r += n;                                                                                    \
        for (; r < n_rows && n_bytes >= WIDE; r++, out += n_bytes, in += stride) {                 \
            rows_##S(1, 0, n_vectors - 1, out, in, 0);                                             \
            rows_##S(1, 0, 1, out + n_bytes - WIDE, in, 0);                                        \
        }                                                                                          \
        return r;                                                                                  \
    }
REPEAT(1, uint8_t)
REPEAT(2, uint16_t)
REPEAT(4, uint32_t)
REPEAT(8, uint64_t)

/* The widest vector that one shuffle takes in any order, and of what; what is smaller is shuffled as bytes. */
#if defined(__AVX512VBMI__)
enum { TURN_UNIT = 1, TURN_BYTES = 64 };
typedef uint8_t unit_t;
#elif defined(__AVX512BW__)
enum { TURN_UNIT = 2, TURN_BYTES = 64 };
typedef uint16_t unit_t;
#elif defined(__AVX2__)
enum { TURN_UNIT = 4, TURN_BYTES = 32 };
typedef uint32_t unit_t;
#else
enum { TURN_UNIT = 1, TURN_BYTES = 16 };
typedef uint8_t unit_t;
#endif
enum { FEW_BYTES = 16 };
typedef unit_t  units_t __attribute__((vector_size(TURN_BYTES)));
typedef unit_t  units_mem __attribute__((vector_size(TURN_BYTES), aligned(1), may_alias));
typedef uint8_t bytes_t __attribute__((vector_size(FEW_BYTES)));
typedef uint8_t bytes_mem __attribute__((vector_size(FEW_BYTES), aligned(1), may_alias));

/* Vector v of a turn: elements [v * n, v * n + n) of its rows. False: they lie too far apart. */
static bool
plan_vector(struct fr_turn *t, int v, int size, int n_row, const int64_t *offset, int64_t stride)
{
    int     unit = t->bytes ? 1 : TURN_UNIT, width = t->bytes ? FEW_BYTES : TURN_BYTES;
    int     n = width / size, n_all = t->n_rows * n_row, end = n_all - v * n < n ? n_all - v * n : n;
    int64_t lowest = INT64_MAX, highest = INT64_MIN;
    unit_t  lane[TURN_BYTES / TURN_UNIT];
    uint8_t byte[FEW_BYTES];

    for (int i = 0; i < end; i++) {
        int     e = v * n + i;
        int64_t at = e / n_row * stride + offset[e % n_row];

        lowest = at < lowest ? at : lowest;
        highest = at > highest ? at : highest;
    }
    if (highest - lowest + size > 2 * width)
        return false;
    t->two |= highest - lowest + size > width;
    t->from[v] = lowest;
    for (int i = 0; i < n; i++) {
        int     e = v * n + (i < end ? i : 0);
        int64_t at = e / n_row * stride + offset[e % n_row] - lowest;

        for (int u = 0; u < size / unit; u++)
            if (t->bytes)
                byte[i * size + u] = (uint8_t)(at + u);
            else
                lane[i * (size / unit) + u] = (unit_t)(at / unit + u);
    }
    memcpy(t->lane[v], t->bytes ? (const void *)byte : (const void *)lane, (size_t)width);
    return true;
}

/* A turn of so many rows. */
static bool
plan_rows(struct fr_turn *t, int n_rows, int size, int n, const int64_t *offset, int64_t stride)
{
    int  width = t->bytes ? FEW_BYTES : TURN_BYTES;
    bool fits = true;

    t->two = false;
    t->n_rows = n_rows;
    t->n_bytes = (size_t)(n_rows * n * size);
    t->n_vectors = ((int)t->n_bytes + width - 1) / width;
    t->spare = (size_t)(t->n_vectors * width) - t->n_bytes;
    for (int v = 0; fits && v < t->n_vectors; v++)
        fits = t->n_vectors <= FR_TURN_VECTORS && plan_vector(t, v, size, n, offset, stride);
    return fits;
}

static bool
plan_turn(struct fr_turn *t, int size, int n, const int64_t *offset, int64_t stride)
{
    int width, whole = 1;

    t->bytes = size < TURN_UNIT;
    width = t->bytes ? FEW_BYTES : TURN_BYTES;
    if (!ANY_ORDER || size > 8)
        return false;
    /* Whole numbers of units, or what a shuffle moves would be parts of elements. */
    for (int i = 0; i < n; i++)
        if ((offset[i] - offset[0]) % size || stride % size)
            return false;
    /* As many rows as are whole vectors; else as many as one vector has, the last of which lies over the next turn. */
    while (whole * n * size % width)
        whole *= 2;
    if (plan_rows(t, whole, size, n, offset, stride))
        return true;
    for (int r = width / (n * size) > 1 ? width / (n * size) : 1; r > 0; r--)
        if (plan_rows(t, r, size, n, offset, stride))
            return true;
    return false;
}

#define TURN(V, MEM, NAME)                                                                         \
    static inline __attribute__((always_inline)) void NAME(                                        \
        const struct fr_turn *t, size_t n, int n_vectors, bool two, char *out, const char *in, ptrdiff_t stride) \
    {                                                                                              \
        for (size_t i = 0; i < n; i++, out += t->n_bytes, in += stride)                            \
            for (int v = 0; v < n_vectors; v++) {                                                  \
                const V     lane = (V) * (const MEM *)(const void *)t->lane[v];                    \
                const char *from = in + t->from[v];                                                \
                V           x = (V) * (const MEM *)from;                                           \
                                                                                                   \
                x = two ? __builtin_shuffle(x, (V) * (const MEM *)(from + sizeof(V)), lane)        \
                        : __builtin_shuffle(x, lane);                                              \
                *(MEM *)(out + v * (int)sizeof(V)) = x;                                            \
            }                                                                                      \
    }                                                                                              \
    static void NAME##_all(const struct fr_turn *t, size_t n, char *out, const char *in, ptrdiff_t stride) \
    {                                                                                              \
        if (t->n_vectors == 1 && !t->two)                                                          \
            NAME(t, n, 1, false, out, in, stride);                                                 \
        else if (t->n_vectors == 1)                                                                \
            NAME(t, n, 1, true, out, in, stride);                                                  \
        else if (!t->two)                                                                          \
            NAME(t, n, t->n_vectors, false, out, in, stride);                                      \
        else                                                                                       \
            NAME(t, n, t->n_vectors, true, out, in, stride);                                       \
    }
TURN(units_t, units_mem, turn_units)
TURN(bytes_t, bytes_mem, turn_bytes)

static size_t
turn(const struct fr_turn *t, size_t n_rows, size_t n_more, char *out, const char *in, ptrdiff_t stride)
{
    int64_t width = t->bytes ? FEW_BYTES : TURN_BYTES, reach = 0, step = stride * t->n_rows;
    int64_t n = ((int64_t)n_rows + t->n_rows - 1) / t->n_rows, end = (int64_t)(n_rows + n_more - 1) * stride;

    for (int v = 0; v < t->n_vectors; v++) {
        int64_t to = t->from[v] + (t->two ? 2 : 1) * width;

        reach = to > reach ? to : reach;
    }
    while (n > 0 && (n - 1) * step + reach > end)
        n--;
    (t->bytes ? turn_bytes_all : turn_units_all)(t, (size_t)n, out, in, step);
    return (size_t)(n * t->n_rows) < n_rows ? (size_t)(n * t->n_rows) : n_rows;
}

const struct fr_shuffle_kernels PASTE(fr_shuffle_, FR_LEVEL) = {
    .gather = {[1] = near_1, [2] = near_2, [4] = near_4, [8] = near_8},
    .repeat = {[1] = repeat_1, [2] = repeat_2, [4] = repeat_4, [8] = repeat_8},
    .plan_turn = plan_turn,
    .turn = turn,
};
