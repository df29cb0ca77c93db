/*
 * nest 1 stage
 * [0] f32 unit
 * [1] f32 unit written
 * [2] f32 unit written
 * %0 = load [0] f32 FULL stage 0
 * %1 = multiply %0 %0 f32 FULL stage 0
 * %2 = accum sum [1] %1 f32 FULL stage 0
 * %3 = accum max [2] %0 f32 FULL stage 0
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
    for (int64_t row = 0; row < n_rows; row++) {
        const float *const p0 = (const float *)(ptr[0] + row * row_stride[0]);
        float *const p1 = (float *)(ptr[1] + row * row_stride[1]);
        float *const p2 = (float *)(ptr[2] + row * row_stride[2]);
        for (int64_t j = 0; j < n_inner; j++) {
            const float v0 = p0[j];
            const float v1 = v0 * v0;
            const float m2 = p1[j];
            const float n2 = m2 + v1;
            p1[j] = n2;
            const float m3 = p2[j];
            const bool n3_1 = v0 < m3;
            const bool n3_2 = m3 != m3;
            const bool n3_3 = n3_1 | n3_2;
            const float n3 = n3_3 ? m3 : v0;
            p2[j] = n3;
        }
    }
    (void)inner_stride;
    (void)scalars;
    (void)scratch;
}
