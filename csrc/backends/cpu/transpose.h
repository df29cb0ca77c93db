/* backends/cpu/transpose.h -- squares of elements in vectors of sixteen bytes, which every x86-64 and aarch64 has: rows become
 * columns, and columns rows. For scan.c and reduce_sum.h, whose rows wait for themselves but not for each other. */
#ifndef FR_BACKENDS_CPU_TURN_H
#define FR_BACKENDS_CPU_TURN_H

#include <stdint.h>

typedef int32_t fr_turn_mask4 __attribute__((vector_size(16)));
typedef int64_t fr_turn_mask8 __attribute__((vector_size(16)));

/* x: an array of four vectors of four elements of 4 bytes; of two vectors of two elements of 8. */
#define FR_TURN_4(x)                                                                               \
    {                                                                                              \
        const fr_turn_mask4  low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, first = {0, 1, 4, 5}, second = {2, 3, 6, 7}; \
        const __typeof__(*x) p = __builtin_shuffle(x[0], x[1], low), q = __builtin_shuffle(x[2], x[3], low); \
        const __typeof__(*x) s = __builtin_shuffle(x[0], x[1], high), t = __builtin_shuffle(x[2], x[3], high); \
                                                                                                   \
        x[0] = __builtin_shuffle(p, q, first);                                                     \
        x[1] = __builtin_shuffle(p, q, second);                                                    \
        x[2] = __builtin_shuffle(s, t, first);                                                     \
        x[3] = __builtin_shuffle(s, t, second);                                                    \
    }
#define FR_TURN_8(x)                                                                               \
    {                                                                                              \
        const __typeof__(*x) p = __builtin_shuffle(x[0], x[1], (fr_turn_mask8){0, 2});             \
                                                                                                   \
        x[1] = __builtin_shuffle(x[0], x[1], (fr_turn_mask8){1, 3});                               \
        x[0] = p;                                                                                  \
    }

#endif
