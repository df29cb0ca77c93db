/* backends/cpu/shuffle.h -- elements that lie near each other, brought side by side by whole vectors; or one many times.
 *
 * Called by copy.c and short_rows.c. shuffle.inc.c is compiled once per instruction-set level, as reduce.inc.c is, and once
 * more for v4 with VBMI: one channel of a colour image, every third byte, is three shuffles of 64 bytes then, not twelve
 * of 16 (grey of 1080 x 1920 x 3 u8 0.79 -> 0.64 ms, with larger tiles and divide_few). */
#ifndef FR_BACKENDS_CPU_NEAR_H
#define FR_BACKENDS_CPU_NEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FR_SHUFFLE_STEP = 4 };   /* elements, at most */

/* out[i] = in[i * step] for as many i from 0 on as are returned, which leaves few; 0 for a step that is not -1 or
 * 2 .. FR_SHUFFLE_STEP. No memory beyond in[(n - 1) * step] is read. */
typedef size_t fr_near_fn(size_t n, char *out, const char *in, ptrdiff_t step);

/* Row r of `out`, n_bytes long, becomes copies of the element at in + r * stride; for as many rows as are returned,
 * which leaves few. The rows lie side by side. */
typedef size_t fr_repeat_fn(size_t n_rows, size_t n_bytes, char *out, const char *in, ptrdiff_t stride);

/* Rows of elements that lie anywhere within a few cache lines, side by side: a turn makes a few rows of vectors, of
 * which each is one shuffle of one or two that lie beside each other. */
enum { FR_TURN_VECTORS = 16, FR_TURN_ROOM = 64 * FR_TURN_VECTORS, FR_TURN_ROW = 1024 /* elements of a row at most */ };
struct fr_turn {
    int       n_rows, n_vectors;
    bool      bytes, two;             /* bytes are what is shuffled; two vectors are */
    size_t    n_bytes;                /* of a turn's rows; */
    size_t    spare;                  /* and that its vectors have more */
    ptrdiff_t from[FR_TURN_VECTORS];  /* where what a vector takes begins, from the first row's first element */
    _Alignas(64) char lane[FR_TURN_VECTORS][64];
};
/* For rows of n elements of which element i lies `offset[i]` bytes from the row's first one, and rows that lie `stride`
 * > 0 bytes apart. False: they are too far apart. */
typedef bool fr_turn_plan_fn(struct fr_turn *, int size, int n, const int64_t *offset, int64_t stride);
/* Row r of `out` becomes what belongs to the one at in + r * stride; for as many rows as are returned, all of them or,
 * where few rows follow (n_more), a few less. No memory outside of what lies between the first and the last element
 * of all is read. Behind the rows of `out` FR_TURN_ROOM bytes may be written. */
typedef size_t fr_turn_fn(const struct fr_turn *, size_t n_rows, size_t n_more, char *out, const char *in,
                          ptrdiff_t stride);

/* By the size of an element: 1, 2, 4, 8 bytes. */
struct fr_shuffle_kernels {
    fr_near_fn      *gather[9];
    fr_repeat_fn    *repeat[9];
    fr_turn_plan_fn *plan_turn;
    fr_turn_fn      *turn;
};
extern const struct fr_shuffle_kernels fr_shuffle_v2, fr_shuffle_v3, fr_shuffle_v4, fr_shuffle_generic;
extern const struct fr_shuffle_kernels fr_shuffle_v4_vbmi; /* v4 with shuffles of bytes */
extern const struct fr_shuffle_kernels *fr_shuffle;        /* the level in use, as fr_reduce */

#endif
