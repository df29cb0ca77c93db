/*
 * nest 1 stage
 * [0] f32 unit
 * [1] f32 strided turned
 * [2] f64 strided turned-deep
 * [3] f64 unit written
 * [4] f32 strided written turned-deep
 * %0 = load [0] f32 FULL stage 0
 * %1 = load [1] f32 FULL stage 0
 * %2 = load [2] f64 FULL stage 0
 * %3 = add %0 %1 f32 FULL stage 0
 * %4 = cast %3 f64 FULL stage 0
 * %5 = add %4 %2 f64 FULL stage 0
 * %6 = store [3] %5 f64 FULL stage 0
 * %7 = store [4] %3 f32 FULL stage 0
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
        char *const p1 = ptr[1] + row * row_stride[1];
        const int64_t i1 = inner_stride[1];
        char *const p2 = ptr[2] + row * row_stride[2];
        const int64_t i2 = inner_stride[2];
        double *const p3 = (double *)(ptr[3] + row * row_stride[3]);
        char *const p4 = ptr[4] + row * row_stride[4];
        const int64_t i4 = inner_stride[4];
        for (int64_t j = 0; j < n_inner; j++) {
            const float v0 = p0[j];
            const float v1 = AT(const float, p1, j * i1)[0];
            const double v2 = AT(const double, p2, j * i2)[0];
            const float v3 = v0 + v1;
            const double v4 = (double)v3;
            const double v5 = v4 + v2;
            p3[j] = v5;
            AT(float, p4, j * i4)[0] = v3;
        }
    }
    (void)scalars;
    (void)scratch;
}
