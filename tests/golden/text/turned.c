/*
 * nest 1 stage
 * [0] f32 strided turned
 * [1] f32 unit
 * [2] c64 strided turned
 * [3] bool strided turned
 * [4] f64 zero
 * [5] f16 strided written turned
 * [6] c64 strided written turned
 * [7] f32 unit written
 * [8] i64 strided
 * %0 = load [0] f32 FULL stage 0
 * %1 = load [1] f32 FULL stage 0
 * %2 = load [2] c64 FULL stage 0
 * %3 = load [3] bool FULL stage 0
 * %4 = load [4] f64 ROW stage 0
 * %5 = iota [8] i64 FULL stage 0
 * %6 = add %0 %1 f32 FULL stage 0
 * %7 = cast %4 f32 ROW stage 0
 * %8 = multiply %6 %7 f32 FULL stage 0
 * %9 = cast %5 f32 FULL stage 0
 * %10 = where %3 %8 %9 f32 FULL stage 0
 * %11 = cast %10 f16 FULL stage 0
 * %12 = multiply %2 %2 c64 FULL stage 0
 * %13 = store [5] %11 f16 FULL stage 0
 * %14 = store [6] %12 c64 FULL stage 0
 * %15 = store [7] %10 f32 FULL stage 0
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t
as_u32_f32(float x)
{
    uint32_t r;

    memcpy(&r, &x, sizeof r);
    return r;
}

#define AT(type, p, bytes) ((type *)((const char *)(p) + (bytes)))

void
frit_rows(char *const *ptr, const int64_t *row_stride, const int64_t *inner_stride,
          int64_t n_rows, int64_t n_inner, const void *scalars, void *scratch)
{
    for (int64_t row = 0; row < n_rows; row++) {
        char *const p0 = ptr[0] + row * row_stride[0];
        const int64_t i0 = inner_stride[0];
        const float *const p1 = (const float *)(ptr[1] + row * row_stride[1]);
        char *const p2 = ptr[2] + row * row_stride[2];
        const int64_t i2 = inner_stride[2];
        char *const p3 = ptr[3] + row * row_stride[3];
        const int64_t i3 = inner_stride[3];
        const double *const p4 = (const double *)(ptr[4] + row * row_stride[4]);
        const int64_t p8 = (int64_t)ptr[8] + row * row_stride[8];
        const int64_t i8 = inner_stride[8];
        char *const p5 = ptr[5] + row * row_stride[5];
        const int64_t i5 = inner_stride[5];
        char *const p6 = ptr[6] + row * row_stride[6];
        const int64_t i6 = inner_stride[6];
        float *const p7 = (float *)(ptr[7] + row * row_stride[7]);
        const double v4 = p4[0];
        const float v7 = (float)v4;
        for (int64_t j = 0; j < n_inner; j++) {
            const float v0 = AT(const float, p0, j * i0)[0];
            const float v1 = p1[j];
            const float v2r = AT(const float, p2, j * i2)[0];
            const float v2i = AT(const float, p2, j * i2)[1];
            const bool v3 = AT(const uint8_t, p3, j * i3)[0] != 0;
            const int64_t v5 = p8 + j * i8;
            const float v6 = v0 + v1;
            const float v8 = v6 * v7;
            const float v9 = (float)v5;
            const float v10 = v3 ? v8 : v9;
            const uint32_t v11_1 = as_u32_f32(v10);
            const uint32_t v11_2 = (uint32_t)(v11_1 >> 16u);
            const uint32_t v11_3 = v11_2 & 0x8000u;
            const float v11_4 = fabsf(v10);
            const uint32_t v11_5 = as_u32_f32(v11_4);
            const uint32_t v11_6 = (uint32_t)(v11_5 >> 13u);
            const uint32_t v11_7 = v11_6 & 1u;
            const uint32_t v11_8 = (uint32_t)((uint32_t)v11_7 + (uint32_t)4095u);
            const uint32_t v11_9 = (uint32_t)((uint32_t)v11_5 - (uint32_t)0x38000000u);
            const uint32_t v11_10 = (uint32_t)((uint32_t)v11_9 + (uint32_t)v11_8);
            const uint32_t v11_11 = (uint32_t)(v11_10 >> 13u);
            const bool v11_12 = v11_5 < 0x38800000u;
            const float v11_13 = v11_12 ? v11_4 : 0.0f;
            const float v11_14 = v11_13 * 0x1.555556p-113f;
            const uint32_t v11_15 = as_u32_f32(0.5f);
            const float v11_16 = v11_13 + v11_14;
            const float v11_17 = v11_16 + 0.5f;
            const uint32_t v11_18 = as_u32_f32(v11_17);
            const uint32_t v11_19 = (uint32_t)((uint32_t)v11_18 - (uint32_t)v11_15);
            const uint32_t v11_20 = v11_6 & 1023u;
            const bool v11_21 = 0x7f800000u < v11_5;
            const uint32_t v11_22 = v11_12 ? v11_19 : v11_11;
            const bool v11_23 = 0x477ff000u <= v11_5;
            const float v11_24 = v11_4 * 0x1.001002p+112f;
            const uint32_t v11_25 = as_u32_f32(v11_24);
            const uint32_t v11_26 = (uint32_t)(v11_25 >> 13u);
            const uint32_t v11_27 = v11_26 & 0x7c00u;
            const uint32_t v11_28 = v11_23 ? v11_27 : v11_22;
            const uint32_t v11_29 = v11_20 | 0x7e00u;
            const uint32_t v11_30 = v11_21 ? v11_29 : v11_28;
            const uint32_t v11_31 = v11_30 | v11_3;
            const uint16_t v11 = (uint16_t)v11_31;
            const float v12_1 = v2i * v2i;
            const float v12_2 = -(v12_1);
            const float v12r = fmaf(v2r, v2r, v12_2);
            const float v12_4 = v2i * v2r;
            const float v12i = fmaf(v2r, v2i, v12_4);
            AT(uint16_t, p5, j * i5)[0] = v11;
            AT(float, p6, j * i6)[0] = v12r;
            AT(float, p6, j * i6)[1] = v12i;
            p7[j] = v10;
        }
    }
    (void)scalars;
    (void)scratch;
}
