#include "backends/cpu/copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* An element that may lie anywhere. */
typedef uint8_t  u1;
typedef uint16_t u2 __attribute__((aligned(1), may_alias));
typedef uint32_t u4 __attribute__((aligned(1), may_alias));
typedef uint64_t u8 __attribute__((aligned(1), may_alias));
typedef struct {
    uint64_t lo, hi;
} __attribute__((packed, may_alias)) u16;

#define FOR_SIZES(X) X(1, u1) X(2, u2) X(4, u4) X(8, u8) X(16, u16)

/* The strides that occur most are spelt out: with the distance known, two, three or four elements
 * apart are read as whole vectors and shuffled. */
#define GATHER(S, T)                                                                               \
    static void gather_##S(size_t n, T *restrict out, const char *in, ptrdiff_t stride)            \
    {                                                                                              \
        const T *restrict a = (const T *)in;                                                       \
                                                                                                   \
        if (stride == 2 * S)                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                out[i] = a[2 * i];                                                                 \
        else if (stride == 3 * S)                                                                  \
            for (size_t i = 0; i < n; i++)                                                         \
                out[i] = a[3 * i];                                                                 \
        else if (stride == 4 * S)                                                                  \
            for (size_t i = 0; i < n; i++)                                                         \
                out[i] = a[4 * i];                                                                 \
        else if (stride == -S)                                                                     \
            for (size_t i = 0; i < n; i++)                                                         \
                out[i] = a[-(ptrdiff_t)i];                                                         \
        else {                                                                                     \
            size_t i = 0;                                                                          \
                                                                                                   \
            for (; i + 4 <= n; i += 4, in += 4 * stride) {                                         \
                T x0 = *(const T *)in, x1 = *(const T *)(in + stride);                             \
                T x2 = *(const T *)(in + 2 * stride), x3 = *(const T *)(in + 3 * stride);          \
                                                                                                   \
                out[i] = x0;                                                                       \
                out[i + 1] = x1;                                                                   \
                out[i + 2] = x2;                                                                   \
                out[i + 3] = x3;                                                                   \
            }                                                                                      \
            for (; i < n; i++, in += stride)                                                       \
                out[i] = *(const T *)in;                                                           \
        }                                                                                          \
    }                                                                                              \
    static void scatter_##S(size_t n, char *out, ptrdiff_t stride, const T *restrict in)           \
    {                                                                                              \
        if (stride == -S) {                                                                        \
            T *restrict r = (T *)out;                                                              \
                                                                                                   \
            for (size_t i = 0; i < n; i++)                                                         \
                r[-(ptrdiff_t)i] = in[i];                                                          \
            return;                                                                                \
        }                                                                                          \
        for (size_t i = 0; i < n; i++, out += stride)                                              \
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

void
fr_copy_gather(size_t n, int size, void *dst, const void *src, ptrdiff_t stride)
{
    if (n == 0)
        return;
    if (stride == size) {
        memcpy(dst, src, n * (size_t)size);
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
        memcpy(dst, src, n * (size_t)size);
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
    switch (size) {
    case 1: memset(dst, *(const uint8_t *)src, n); return;
#define CASE(S, T)                                                                                 \
    case S: fill_##S(n, dst, src); return;
        CASE(2, u2) CASE(4, u4) CASE(8, u8) CASE(16, u16)
#undef CASE
    }
}

/* ---- two dimensions ---------------------------------------------------------------------------- */

/* A square of B x B elements: columns of src that are contiguous become rows of dst that are. With
 * both loops of constant length the vectoriser turns the loads and stores into shuffles. */
#define TRANSPOSE(S, T, B)                                                                         \
    static void turn_##S(char *dst, ptrdiff_t dst_row, const char *src, ptrdiff_t src_col)         \
    {                                                                                              \
        T x[B][B];                                                                                 \
                                                                                                   \
        for (int c = 0; c < B; c++)                                                                \
            memcpy(x[c], src + c * src_col, sizeof x[c]);                                          \
        for (int r = 0; r < B; r++) {                                                              \
            T y[B];                                                                                \
                                                                                                   \
            for (int c = 0; c < B; c++)                                                            \
                y[c] = x[c][r];                                                                    \
            memcpy(dst + r * dst_row, y, sizeof y);                                                \
        }                                                                                          \
    }
TRANSPOSE(1, uint8_t, 8)
TRANSPOSE(2, uint16_t, 8)
TRANSPOSE(4, uint32_t, 8)
TRANSPOSE(8, uint64_t, 4)
TRANSPOSE(16, u16, 2)

enum { TILE_BYTES = 128 };   /* of a tile's side: two cache lines of each row */

/* dst runs along columns, src along rows (both contiguous there). */
static void
transpose(size_t n_rows, size_t n_cols, int size, char *dst, ptrdiff_t dst_row, const char *src,
          ptrdiff_t src_col)
{
    size_t tile = TILE_BYTES / (size_t)size, b = size == 16 ? 2 : size == 8 ? 4 : 8;

    for (size_t c0 = 0; c0 < n_cols; c0 += tile) {
        size_t c1 = n_cols - c0 < tile ? n_cols : c0 + tile;

        for (size_t r0 = 0; r0 < n_rows; r0 += tile) {
            size_t r1 = n_rows - r0 < tile ? n_rows : r0 + tile, r = r0;

            for (; r + b <= r1; r += b) {
                size_t      c = c0;
                char       *d = dst + (ptrdiff_t)r * dst_row;
                const char *s = src + (ptrdiff_t)(r * (size_t)size);

                for (; c + b <= c1; c += b) {
                    char       *dp = d + c * (size_t)size;
                    const char *sp = s + (ptrdiff_t)c * src_col;

                    switch (size) {
                    case 1: turn_1(dp, dst_row, sp, src_col); break;
                    case 2: turn_2(dp, dst_row, sp, src_col); break;
                    case 4: turn_4(dp, dst_row, sp, src_col); break;
                    case 8: turn_8(dp, dst_row, sp, src_col); break;
                    default: turn_16(dp, dst_row, sp, src_col);
                    }
                }
                for (size_t k = 0; c < c1 && k < b; k++)
                    fr_copy_gather(c1 - c, size, d + (ptrdiff_t)k * dst_row + c * (size_t)size,
                                   s + k * (size_t)size + (ptrdiff_t)c * src_col, src_col);
            }
            for (; r < r1; r++)
                fr_copy_gather(c1 - c0, size, dst + (ptrdiff_t)r * dst_row + c0 * (size_t)size,
                               src + r * (size_t)size + (ptrdiff_t)c0 * src_col, src_col);
        }
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

static size_t
magnitude(ptrdiff_t stride)
{
    return stride < 0 ? -(size_t)stride : (size_t)stride;
}

void
fr_copy_2d(size_t n_rows, size_t n_cols, int size, void *dst, ptrdiff_t dst_row, ptrdiff_t dst_col,
           const void *src, ptrdiff_t src_row, ptrdiff_t src_col)
{
    char       *d = dst;
    const char *s = src;
    size_t      tile = TILE_BYTES / (size_t)size;

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
    if (n_rows == 1 || magnitude(src_col) <= magnitude(src_row)) {
        for (size_t r = 0; r < n_rows; r++, d += dst_row, s += src_row)
            move(n_cols, size, d, dst_col, s, src_col);
        return;
    }
    if (dst_col == size && src_row == size) {
        transpose(n_rows, n_cols, size, d, dst_row, s, src_col);
        return;
    }
    /* The axes run crosswise: tiles, so that a cache line is used up while it is near. */
    for (size_t c0 = 0; c0 < n_cols; c0 += tile)
        for (size_t r = 0; r < n_rows; r++)
            move(n_cols - c0 < tile ? n_cols - c0 : tile, size,
                 d + (ptrdiff_t)r * dst_row + (ptrdiff_t)c0 * dst_col, dst_col,
                 s + (ptrdiff_t)r * src_row + (ptrdiff_t)c0 * src_col, src_col);
}
