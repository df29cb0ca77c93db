/*
 * nest 1 stage
 * [0] f32 unit
 * [1] f32 unit
 * [2] f32 unit written
 * $0 f32
 * %0 = load [0] f32 FULL stage 0
 * %1 = load [1] f32 FULL stage 0
 * %2 = scalar $0 f32 SCALAR stage 0
 * %3 = multiply %0 %1 f32 FULL stage 0
 * %4 = add %3 %2 f32 FULL stage 0
 * %5 = less %4 %0 bool FULL stage 0
 * %6 = where %5 %4 %0 f32 FULL stage 0
 * %7 = store [2] %6 f32 FULL stage 0
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define AT(type, p, bytes) ((type *)((const char *)(p) + (bytes)))

void
frit_rows(char *const *ptr, const int64_t *row_stride, const int64_t *inner_stride,
          int64_t n_rows, int64_t n_inner, const void *scalars, void *scratch)
{
    const float v2 = AT(const float, scalars, 0)[0];
    for (int64_t row = 0; row < n_rows; row++) {
        const float *const p0 = (const float *)(ptr[0] + row * row_stride[0]);
        const float *const p1 = (const float *)(ptr[1] + row * row_stride[1]);
        float *const p2 = (float *)(ptr[2] + row * row_stride[2]);
        for (int64_t j = 0; j < n_inner; j++) {
            const float v0 = p0[j];
            const float v1 = p1[j];
            const float v3 = v0 * v1;
            const float v4 = v3 + v2;
            const bool v5 = v4 < v0;
            const float v6 = v5 ? v4 : v0;
            p2[j] = v6;
        }
    }
    (void)inner_stride;
    (void)scratch;
}
