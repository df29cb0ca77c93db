#include "backends/cpu/copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "backends/cpu/shuffle.h"

/* An element that may lie anywhere. */
typedef uint8_t  u1;
typedef uint16_t u2 __attribute__((aligned(1), may_alias));
typedef uint32_t u4 __attribute__((aligned(1), may_alias));
typedef uint64_t u8 __attribute__((aligned(1), may_alias));
typedef struct {
    uint64_t lo, hi;
} __attribute__((packed, may_alias)) u16;

#define FOR_SIZES(X) X(1, u1) X(2, u2) X(4, u4) X(8, u8) X(16, u16)

/* Sixteen bytes, which every x86-64 and aarch64 has. */
typedef uint8_t  v1 __attribute__((vector_size(16)));
typedef uint16_t v2 __attribute__((vector_size(16)));
typedef uint32_t v4 __attribute__((vector_size(16)));
typedef uint64_t v8 __attribute__((vector_size(16)));
typedef uint8_t  v1_mem __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint16_t v2_mem __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint32_t v4_mem __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t v8_mem __attribute__((vector_size(16), aligned(1), may_alias));

/* Masks for two vectors a, b: their lower and upper halves interleaved. */
#define LOW_1 {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}
#define LOW_2 {0, 8, 1, 9, 2, 10, 3, 11}
#define LOW_4 {0, 4, 1, 5}
#define LOW_8 {0, 2}
#define HIGH_1 {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}
#define HIGH_2 {4, 12, 5, 13, 6, 14, 7, 15}
#define HIGH_4 {2, 6, 3, 7}
#define HIGH_8 {1, 3}

/* Those that lie a few apart; returns how many are done, from the first on. */
static size_t
gather_near(size_t n, int size, char *out, const char *in, ptrdiff_t stride)
{
    if (size > 8 || stride > FR_SHUFFLE_STEP * size || (stride < 0 && stride != -size) || stride % size)
        return 0;
    return fr_shuffle->gather[size](n, out, in, stride / size);
}

#define GATHER(S, T)                                                                               \
    static void gather_##S(size_t n, char *out, const char *in, ptrdiff_t stride)                  \
    {                                                                                              \
        size_t i = gather_near(n, S, out, in, stride);                                             \
        T     *r = (T *)out + i;                                                                   \
                                                                                                   \
        in += (ptrdiff_t)i * stride;                                                               \
        for (; i + 4 <= n; i += 4, r += 4, in += 4 * stride) {                                     \
            T x0 = *(const T *)in, x1 = *(const T *)(in + stride);                                 \
            T x2 = *(const T *)(in + 2 * stride), x3 = *(const T *)(in + 3 * stride);              \
                                                                                                   \
            r[0] = x0;                                                                             \
            r[1] = x1;                                                                             \
            r[2] = x2;                                                                             \
            r[3] = x3;                                                                             \
        }                                                                                          \
        for (; i < n; i++, r++, in += stride)                                                      \
            *r = *(const T *)in;                                                                   \
    }                                                                                              \
    static void scatter_##S(size_t n, char *out, ptrdiff_t stride, const T *in)                    \
    {                                                                                              \
        size_t i = 0;                                                                              \
                                                                                                   \
        for (; i + 4 <= n; i += 4, out += 4 * stride) {                                            \
            T x0 = in[i], x1 = in[i + 1], x2 = in[i + 2], x3 = in[i + 3];                          \
                                                                                                   \
            *(T *)out = x0;                                                                        \
            *(T *)(out + stride) = x1;                                                             \
            *(T *)(out + 2 * stride) = x2;                                                         \
            *(T *)(out + 3 * stride) = x3;                                                         \
        }                                                                                          \
        for (; i < n; i++, out += stride)                                                          \
            *(T *)out = in[i];                                                                     \
    }
FOR_SIZES(GATHER)

#define FILL(S, T)                                                                                 \
    static void fill_##S(size_t n, T *out, const T *in)                                            \
    {                                                                                              \
        T v = *in;                                                                                 \
                                                                                                   \
        for (size_t i = 0; i < n; i++)                                                             \
            out[i] = v;                                                                            \
    }
FILL(2, u2)
FILL(4, u4)
FILL(8, u8)
FILL(16, u16)

enum { SHADOW = 256, FEW_BYTES = 1024 };

/* Side by side on both sides. Where dst is a few bytes ahead of src in its page, as in y[1:] = x, each load looks to
 * the processor like one of what has just been stored, and the string instructions of memcpy copy some 2 GB/s. From
 * the end on, loads are below all that has been stored: y[1:] += y[:-1] * 0.5 of 30,000 f32 on Zen 4 takes 10 instead
 * of 75 us. */
static void
copy_run(char *dst, const char *src, size_t n)
{
    size_t ahead = ((uintptr_t)dst - (uintptr_t)src) & 4095;

    if (n < FEW_BYTES || ahead == 0 || ahead > SHADOW) {
        memcpy(dst, src, n);
        return;
    }
    for (; n >= 64; n -= 64) {
        v4 a = *(const v4_mem *)(src + n - 16), b = *(const v4_mem *)(src + n - 32);
        v4 c = *(const v4_mem *)(src + n - 48), d = *(const v4_mem *)(src + n - 64);

        *(v4_mem *)(dst + n - 16) = a;
        *(v4_mem *)(dst + n - 32) = b;
        *(v4_mem *)(dst + n - 48) = c;
        *(v4_mem *)(dst + n - 64) = d;
    }
    memcpy(dst, src, n);
}

void
fr_copy_gather(size_t n, int size, void *dst, const void *src, ptrdiff_t stride)
{
    if (n == 0)
        return;
    if (stride == size) {
        copy_run(dst, src, n * (size_t)size);
        return;
    }
    if (stride == 0) {
        fr_copy_fill(n, size, dst, src);
        return;
    }
    switch (size) {
#define CASE(S, T)                                                                                 \
    case S: gather_##S(n, dst, src, stride); return;
        FOR_SIZES(CASE)
#undef CASE
    }
}

void
fr_copy_scatter(size_t n, int size, void *dst, ptrdiff_t stride, const void *src)
{
    if (n == 0)
        return;
    if (stride == size) {
        copy_run(dst, src, n * (size_t)size);
        return;
    }
    switch (size) {
#define CASE(S, T)                                                                                 \
    case S: scatter_##S(n, dst, stride, src); return;
        FOR_SIZES(CASE)
#undef CASE
    }
}

void
fr_copy_fill(size_t n, int size, void *dst, const void *src)
{
    if (n > 0 && size > 1 && size <= 8 && fr_shuffle->repeat[size](1, n * (size_t)size, dst, src, 0))
        return;
    switch (size) {
    case 1: memset(dst, *(const uint8_t *)src, n); return;
#define CASE(S, T)                                                                                 \
    case S: fill_##S(n, dst, src); return;
        CASE(2, u2) CASE(4, u4) CASE(8, u8) CASE(16, u16)
#undef CASE
    }
}

/* Whole cache lines, each in one go. */
void
fr_copy_nontemporal(void *dst, const void *src, size_t n_bytes, const char *const *ahead, int n_ahead)
{
    size_t at = 0;
#ifdef __SSE2__
    char       *to = dst;
    const char *from = src;
    size_t      head = 64 - ((uintptr_t)to & 63);

    if (n_bytes >= FEW_BYTES)
        memcpy(to, from, at = head);
    for (; at && at + 64 <= n_bytes; at += 64) {
        for (int k = 0; k < n_ahead; k++)
            __builtin_prefetch((const void *)((uintptr_t)ahead[k] + at), 0, 2); /* into the second cache */
        _Pragma("GCC unroll 4") for (size_t i = at; i < at + 64; i += 16)
            _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
    }
#else
    (void)ahead;
    (void)n_ahead;
#endif
    memcpy((char *)dst + at, (const char *)src + at, n_bytes - at);
}

void
fr_copy_settle(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* ---- two dimensions ------------------------------------------------------------------------- */

/* Rows of out become the columns of in, in squares of 16 / S elements, the last ones whole;
 * interleaving the first half of the rows with the second log2 times turns a square over. */
#define TURN(S, V, STAGES)                                                                         \
    static void turn_##S(size_t n_rows, size_t n_cols, char *out, ptrdiff_t out_row,               \
                         const char *in, ptrdiff_t in_col)                                         \
    {                                                                                              \
        enum { B = 16 / S };                                                                       \
        const V low = LOW_##S, high = HIGH_##S;                                                    \
                                                                                                   \
        for (size_t r = 0; r < n_rows; r += B)                                                     \
            for (size_t c = 0; c < n_cols; c += B) {                                               \
                V x[B], y[B];                                                                      \
                                                                                                   \
                _Pragma("GCC unroll 16") for (int k = 0; k < B; k++)                               \
                    x[k] = *(const V##_mem *)(in + ((ptrdiff_t)c + k) * in_col + r * S);           \
                _Pragma("GCC unroll 4") for (int stage = 0; stage < STAGES; stage++)               \
                {                                                                                  \
                    _Pragma("GCC unroll 8") for (int k = 0; k < B / 2; k++)                        \
                    {                                                                              \
                        y[2 * k] = __builtin_shuffle(x[k], x[k + B / 2], low);                     \
                        y[2 * k + 1] = __builtin_shuffle(x[k], x[k + B / 2], high);                \
                    }                                                                              \
                    _Pragma("GCC unroll 16") for (int k = 0; k < B; k++)                           \
                        x[k] = y[k];                                                               \
                }                                                                                  \
                _Pragma("GCC unroll 16") for (int k = 0; k < B; k++)                               \
                    *(V##_mem *)(out + ((ptrdiff_t)r + k) * out_row + c * S) = x[k];               \
            }                                                                                      \
    }
TURN(1, v1, 4)
TURN(2, v2, 3)
TURN(4, v4, 2)
TURN(8, v8, 1)

static void
turn_16(size_t n_rows, size_t n_cols, char *out, ptrdiff_t out_row, const char *in,
        ptrdiff_t in_col)
{
    for (size_t r = 0; r < n_rows; r++, in += 16, out += out_row)
        for (size_t c = 0; c < n_cols; c++)
            *(v1_mem *)(out + 16 * c) = *(const v1_mem *)(in + (ptrdiff_t)c * in_col);
}

static void
turn(size_t n_rows, size_t n_cols, int size, char *out, ptrdiff_t out_row, const char *in,
     ptrdiff_t in_col)
{
    switch (size) {
    case 1: turn_1(n_rows, n_cols, out, out_row, in, in_col); break;
    case 2: turn_2(n_rows, n_cols, out, out_row, in, in_col); break;
    case 4: turn_4(n_rows, n_cols, out, out_row, in, in_col); break;
    case 8: turn_8(n_rows, n_cols, out, out_row, in, in_col); break;
    default: turn_16(n_rows, n_cols, out, out_row, in, in_col);
    }
}

/* The same of any number of rows and columns: of what is left of squares, whole ones that have been turned in part. */
static void
turn_any(size_t n_rows, size_t n_cols, int size, char *out, ptrdiff_t out_row, const char *in, ptrdiff_t in_col)
{
    const size_t square = 16 / (size_t)size, nr = n_rows - n_rows % square, nc = n_cols - n_cols % square;

    if (nr == 0) {
        for (size_t r = 0; r < n_rows; r++)
            fr_copy_gather(n_cols, size, out + (ptrdiff_t)r * out_row, in + r * (size_t)size, in_col);
        return;
    }
    if (nc == 0) {
        for (size_t c = 0; c < n_cols; c++)
            fr_copy_scatter(n_rows, size, out + c * (size_t)size, out_row, in + (ptrdiff_t)c * in_col);
        return;
    }
    turn(nr, nc, size, out, out_row, in, in_col);
    if (nc < n_cols)
        turn(nr, square, size, out + (n_cols - square) * (size_t)size, out_row, in + (ptrdiff_t)(n_cols - square) * in_col,
             in_col);
    if (nr < n_rows)
        turn_any(square, n_cols, size, out + (ptrdiff_t)(n_rows - square) * out_row, out_row,
                 in + (n_rows - square) * (size_t)size, in_col);
}

enum {
    TILE_BYTES = 128,   /* of a tile's side */
    PREFETCH = 32,      /* lines ahead: one comes from memory in the time of so many */
    LINE = 64,          /* bytes of each row that are written one after the other */
};

void
fr_copy_transposed(size_t n_rows, size_t n_cols, int size, void *dst, ptrdiff_t dst_row,
               const void *src, ptrdiff_t src_col, ptrdiff_t next, size_t n_next)
{
    const size_t square = 16 / (size_t)size, side = LINE / (size_t)size, row_bytes = n_rows * (size_t)size;
    const size_t nr = n_rows - n_rows % square, nc = n_cols - n_cols % side;
    const size_t n_ahead = row_bytes > LINE ? PREFETCH * LINE / row_bytes : PREFETCH; /* columns */
    const size_t bytes = n_next ? n_next * (size_t)size : row_bytes;
    /* Of elements that do not begin with a line, the first one is here already when they are next, but not the last. */
    const uintptr_t by = n_next ? (uintptr_t)next + (bytes - 1) % LINE : n_ahead * (uintptr_t)src_col;
    char           *d = dst;
    const char     *s = src;

    for (size_t c = 0; c < nc; c += side) {
        const char *column = s + (ptrdiff_t)c * src_col;
        for (size_t k = 0; k < side; k++) {
            uintptr_t ahead = (uintptr_t)column + k * (uintptr_t)src_col + by;
            for (size_t i = 0; i < bytes; i += LINE)
                __builtin_prefetch((const void *)(ahead + i));
        }
        turn(nr, side, size, d + c * (size_t)size, dst_row, column, src_col);
    }
    if (nc < n_cols)
        turn_any(nr, n_cols - nc, size, d + nc * (size_t)size, dst_row, s + (ptrdiff_t)nc * src_col, src_col);
    if (nr < n_rows) {
        size_t r = nr ? n_rows - square : 0;

        turn_any(n_rows - r, n_cols, size, d + (ptrdiff_t)r * dst_row, dst_row, s + r * (size_t)size, src_col);
    }
}

/* Any strides: element by element. */
#define MOVE(S, T)                                                                                 \
    static void move_##S(size_t n, char *dst, ptrdiff_t dst_step, const char *src,                 \
                         ptrdiff_t src_step)                                                       \
    {                                                                                              \
        for (size_t i = 0; i < n; i++, dst += dst_step, src += src_step)                           \
            *(T *)dst = *(const T *)src;                                                           \
    }
FOR_SIZES(MOVE)

static void
move(size_t n, int size, char *dst, ptrdiff_t dst_step, const char *src, ptrdiff_t src_step)
{
    if (dst_step == size)
        fr_copy_gather(n, size, dst, src, src_step);
    else if (src_step == size)
        fr_copy_scatter(n, size, dst, dst_step, src);
    else
        switch (size) {
#define CASE(S, T)                                                                                 \
    case S: move_##S(n, dst, dst_step, src, src_step); return;
            FOR_SIZES(CASE)
#undef CASE
        }
}

/* Each element n_cols times, side by side. */
#define REPEAT(S, T)                                                                               \
    static void repeat_##S(size_t n_rows, size_t n_cols, char *out, const char *in,                \
                           ptrdiff_t stride)                                                       \
    {                                                                                              \
        size_t r = S <= 8 ? fr_shuffle->repeat[S <= 8 ? S : 0](n_rows, n_cols * S, out, in, stride) : 0; \
        T     *to = (T *)out + r * n_cols;                                                         \
                                                                                                   \
        in += (ptrdiff_t)r * stride;                                                               \
        for (; r < n_rows && n_cols == 2; r++, in += stride, to += 2)                              \
            to[0] = to[1] = *(const T *)in;                                                        \
        for (; r < n_rows; r++, in += stride) {                                                    \
            T v = *(const T *)in;                                                                  \
                                                                                                   \
            for (size_t c = 0; c < n_cols; c++)                                                    \
                *to++ = v;                                                                         \
        }                                                                                          \
    }
FOR_SIZES(REPEAT)

static void
repeat(size_t n_rows, size_t n_cols, int size, char *dst, const char *src, ptrdiff_t stride)
{
    switch (size) {
#define CASE(S, T)                                                                                 \
    case S: repeat_##S(n_rows, n_cols, dst, src, stride); return;
        FOR_SIZES(CASE)
#undef CASE
    }
}

static size_t
magnitude(ptrdiff_t stride)
{
    return stride < 0 ? -(size_t)stride : (size_t)stride;
}

/* Runs of a few bytes, at most FEW: in pieces of which the last may overlap, without a call for each. */
enum { FEW = 128 };

#define TWO(V)                                                                                     \
    for (; n_rows; n_rows--, dst += dst_row, src += src_row) {                                     \
        V first = *(const V *)src, last = *(const V *)(src + n - sizeof(V));                       \
                                                                                                   \
        *(V *)dst = first;                                                                         \
        *(V *)(dst + n - sizeof(V)) = last;                                                        \
    }
static void
copy_short_runs(size_t n_rows, size_t n, char *dst, ptrdiff_t dst_row, const char *src, ptrdiff_t src_row)
{
    if (n > 32) {
        for (; n_rows; n_rows--, dst += dst_row, src += src_row) {
            v4 last = *(const v4_mem *)(src + n - 16);

            for (size_t i = 0; i + 16 < n; i += 16)
                *(v4_mem *)(dst + i) = *(const v4_mem *)(src + i);
            *(v4_mem *)(dst + n - 16) = last;
        }
    } else if (n >= 16) {
        TWO(v4_mem)
    } else if (n >= 8) {
        TWO(u8)
    } else if (n >= 4) {
        TWO(u4)
    } else {
        for (; n_rows; n_rows--, dst += dst_row, src += src_row)
            for (size_t i = 0; i < n; i++)
                dst[i] = src[i];
    }
}
#undef TWO

#define PICK(S, T)                                                                                 \
    static void pick_##S(size_t n_rows, size_t n, char *dst, const char *src, ptrdiff_t src_row,   \
                         const ptrdiff_t *restrict offset)                                         \
    {                                                                                              \
        for (; n_rows; n_rows--, dst += n * sizeof(T), src += src_row)                             \
            _Pragma("GCC unroll 4") for (size_t i = 0; i < n; i++)                                 \
                ((T *)(void *)dst)[i] = *(const T *)(const void *)(src + offset[i]);               \
    }
PICK(1, uint8_t)
PICK(2, u2)
PICK(4, u4)
PICK(8, u8)
PICK(16, v8_mem)

void
fr_copy_picked(size_t n_rows, size_t n, int size, void *dst, const void *src, ptrdiff_t src_row, const ptrdiff_t *offset)
{
    enum { PLANES = 16, BLOCK = 4096 /* bytes of dst: they stay in L1 */ };

    if (n <= PLANES && src_row == size) {
        size_t row = n * (size_t)size, most = BLOCK / row;

        for (size_t r = 0, m; r < n_rows; r += m) {
            m = n_rows - r < most ? n_rows - r : most;
            for (size_t i = 0; i < n; i++)
                fr_copy_scatter(m, size, (char *)dst + r * row + i * (size_t)size, (ptrdiff_t)row,
                                (const char *)src + (ptrdiff_t)r * src_row + offset[i]);
        }
        return;
    }
#define CASE(S)                                                                                    \
    case S: pick_##S(n_rows, n, dst, src, src_row, offset); break;
    switch (size) {
        CASE(1) CASE(2) CASE(4) CASE(8) CASE(16)
    }
#undef CASE
}

/* Rows of few elements are not worth a loop each: column by column, of as many rows at once as stay near. */
enum { FEW_COLUMNS = 8, NEAR_ROWS = 128 };

static void
move_columns(size_t n_rows, size_t n_cols, int size, char *dst, ptrdiff_t dst_row, ptrdiff_t dst_col, const char *src,
             ptrdiff_t src_row, ptrdiff_t src_col)
{
    for (size_t m; n_rows; n_rows -= m, dst += (ptrdiff_t)m * dst_row, src += (ptrdiff_t)m * src_row) {
        m = n_rows < NEAR_ROWS ? n_rows : NEAR_ROWS;
        for (size_t c = 0; c < n_cols; c++)
            move(m, size, dst + (ptrdiff_t)c * dst_col, dst_row, src + (ptrdiff_t)c * src_col, src_row);
    }
}

void
fr_copy_2d(size_t n_rows, size_t n_cols, int size, void *dst, ptrdiff_t dst_row, ptrdiff_t dst_col,
           const void *src, ptrdiff_t src_row, ptrdiff_t src_col)
{
    char       *d = dst;
    const char *s = src;
    size_t      tile = TILE_BYTES / (size_t)size;   /* elements of a side */

    if (n_rows == 0 || n_cols == 0)
        return;
    /* The inner loop goes along the nearer axis of dst. */
    if (n_cols == 1 || (n_rows > 1 && magnitude(dst_row) < magnitude(dst_col))) {
        size_t    n = n_rows;
        ptrdiff_t step = dst_row;

        n_rows = n_cols;
        n_cols = n;
        dst_row = dst_col;
        dst_col = step;
        step = src_row;
        src_row = src_col;
        src_col = step;
    }
    if (n_rows > 1 && dst_row == (ptrdiff_t)n_cols * dst_col &&
        src_row == (ptrdiff_t)n_cols * src_col) {
        n_cols *= n_rows;
        n_rows = 1;
    }
    if (n_rows > 1 && src_col == 0 && dst_col == size && dst_row == (ptrdiff_t)n_cols * size) {
        repeat(n_rows, n_cols, size, d, s, src_row);
        return;
    }
    if (n_rows > 1 && src_col == size && dst_col == size && n_cols * (size_t)size <= FEW) {
        copy_short_runs(n_rows, n_cols * (size_t)size, d, dst_row, s, src_row);
        return;
    }
    if (n_rows == 1 || src_row == 0 || magnitude(src_col) <= magnitude(src_row)) {
        if (n_cols <= FEW_COLUMNS && n_rows > n_cols)
            move_columns(n_rows, n_cols, size, d, dst_row, dst_col, s, src_row, src_col);
        else
            for (size_t r = 0; r < n_rows; r++, d += dst_row, s += src_row)
                move(n_cols, size, d, dst_col, s, src_col);
        return;
    }
    if (dst_col == size && src_row == size) {
        for (size_t r = 0; r < n_rows; r += tile)
            fr_copy_transposed(n_rows - r < tile ? n_rows - r : tile, n_cols, size,
                           d + (ptrdiff_t)r * dst_row, dst_row, s + r * (size_t)size, src_col, 0, 0);
        return;
    }
    /* The axes run crosswise: tiles, so that a cache line is used up while it is near. */
    for (size_t c0 = 0; c0 < n_cols; c0 += tile)
        for (size_t r = 0; r < n_rows; r++)
            move(n_cols - c0 < tile ? n_cols - c0 : tile, size,
                 d + (ptrdiff_t)r * dst_row + (ptrdiff_t)c0 * dst_col, dst_col,
                 s + (ptrdiff_t)r * src_row + (ptrdiff_t)c0 * src_col, src_col);
}
