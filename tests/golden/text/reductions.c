/*
 * nest 1 stage reduces
 * [0] f32 unit
 * [1] c128 unit
 * [2] f16 unit
 * [3] f32 zero written
 * [4] c128 zero written
 * [5] f16 zero written
 * [6] f32 zero written
 * [7] f32 zero written
 * [8] i64 zero written
 * [9] i64 zero written
 * [10] bool zero written
 * [11] bool zero written
 * [12] f32 zero written
 * %0 = load [0] f32 FULL stage 0
 * %1 = load [1] c128 FULL stage 0
 * %2 = load [2] f16 FULL stage 0
 * %3 = reduce sum %0 f32 ROW stage 1
 * %4 = reduce sum %1 c128 ROW stage 1
 * %5 = reduce sum %2 f16 ROW stage 1
 * %6 = reduce max %0 f32 ROW stage 1
 * %7 = reduce prod %0 f32 ROW stage 1
 * %8 = reduce argmax %0 i64 ROW stage 1
 * %9 = reduce argmin %2 i64 ROW stage 1
 * %10 = reduce any %1 bool ROW stage 1
 * %11 = reduce all %0 bool ROW stage 1
 * %12 = reduce min %0 f32 ROW stage 1
 * %13 = store [3] %3 f32 ROW stage 1
 * %14 = store [4] %4 c128 ROW stage 1
 * %15 = store [5] %5 f16 ROW stage 1
 * %16 = store [6] %6 f32 ROW stage 1
 * %17 = store [7] %7 f32 ROW stage 1
 * %18 = store [8] %8 i64 ROW stage 1
 * %19 = store [9] %9 i64 ROW stage 1
 * %20 = store [10] %10 bool ROW stage 1
 * %21 = store [11] %11 bool ROW stage 1
 * %22 = store [12] %12 f32 ROW stage 1
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

static inline float
as_f32_u32(uint32_t x)
{
    float r;

    memcpy(&r, &x, sizeof r);
    return r;
}

#define AT(type, p, bytes) ((type *)((const char *)(p) + (bytes)))

/* What the stages of one row share. */
struct row {
    const float *p0;
    const double *p1;
    const uint16_t *p2;
    float *p3;
    double *p4;
    uint16_t *p5;
    float *p6;
    float *p7;
    int64_t *p8;
    int64_t *p9;
    uint8_t *p10;
    uint8_t *p11;
    float *p12;
};

struct sums_0c {
    double v4r;
    double v4i;
};

/* Stage 0 at element j. */
static inline struct sums_0c
element_0c(const struct row *r, int64_t j)
{
    struct sums_0c t;
    const double v1r = r->p1[2 * j + 0];
    const double v1i = r->p1[2 * j + 1];
    t.v4r = v1r;
    t.v4i = v1i;
    return t;
}

static inline struct sums_0c
zero_0c(void)
{
    struct sums_0c t;

    t.v4r = -0.0;
    t.v4i = -0.0;
    return t;
}

static inline struct sums_0c
add_0c(struct sums_0c a, struct sums_0c b)
{
    struct sums_0c t;

    const double n4r = a.v4r + b.v4r;
    const double n4i = a.v4i + b.v4i;
    t.v4r = n4r;
    t.v4i = n4i;
    return t;
}

/* Sums of elements [j, j + n) in NumPy's order: halves down to 64 elements, 4 running sums there. */
static struct sums_0c
tree_0c(const struct row *r, int64_t j, int64_t n)
{
    const int64_t whole = n < 4 ? 0 : n - n % 4;
    struct sums_0c t, s[4];

    if (n > 64) {
        const int64_t half = (n - n % 8) / 2;

        t = tree_0c(r, j, half);
        return add_0c(t, tree_0c(r, j + half, n - half));
    }
    for (int k = 0; k < 4; k++)
        s[k] = zero_0c();
    for (int64_t i = 0; i < whole; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] = add_0c(s[k], element_0c(r, j + i + k));
    for (int k = 1; k < 4; k *= 2)
        for (int i = 0; i < 4; i += 2 * k)
            s[i] = add_0c(s[i], s[i + k]);
    t = s[0];
    for (int64_t i = whole; i < n; i++)
        t = add_0c(t, element_0c(r, j + i));
    return t;
}

struct accs_0 {
    float v6;
    float v7;
    float m8;
    int64_t v8;
    uint16_t m9;
    int64_t v9;
    bool v10;
    bool v11;
    float v12;
};

struct sums_0 {
    float v3;
    float v5;
};

/* Stage 0 at element j. */
static inline struct sums_0
element_0(const struct row *r, int64_t j, struct accs_0 *a)
{
    struct sums_0 t;
    const float v0 = r->p0[j];
    const double v1r = r->p1[2 * j + 0];
    const double v1i = r->p1[2 * j + 1];
    const uint16_t v2 = r->p2[j];
    t.v3 = v0;
    const uint32_t x5_1 = (uint32_t)v2;
    const uint32_t x5_2 = x5_1 & 0x8000u;
    const uint32_t x5_3 = (uint32_t)((uint32_t)x5_2 << 16u);
    const uint32_t x5_4 = x5_1 & 0x7fffu;
    const uint32_t x5_5 = (uint32_t)((uint32_t)x5_4 << 13u);
    const uint32_t x5_6 = (uint32_t)((uint32_t)x5_5 + (uint32_t)0x38000000u);
    const bool x5_7 = 0x7c00u <= x5_4;
    const bool x5_8 = x5_4 < 1024u;
    const int32_t x5_9 = (int32_t)(x5_4);
    const float x5_10 = (float)x5_9;
    const float x5_11 = x5_10 * 0x1.0p-24f;
    const uint32_t x5_12 = (uint32_t)((uint32_t)x5_6 + (uint32_t)0x38000000u);
    const uint32_t x5_13 = x5_7 ? x5_12 : x5_6;
    const uint32_t x5_14 = as_u32_f32(x5_11);
    const uint32_t x5_15 = x5_8 ? x5_14 : x5_13;
    const uint32_t x5_16 = x5_15 | x5_3;
    const float x5 = as_f32_u32(x5_16);
    t.v5 = x5;
    const bool n6_1 = v0 < a->v6;
    const bool n6_2 = a->v6 != a->v6;
    const bool n6_3 = n6_1 | n6_2;
    const float n6 = n6_3 ? a->v6 : v0;
    a->v6 = n6;
    const float n7 = a->v7 * v0;
    a->v7 = n7;
    const bool n8_wins = a->m8 < v0;
    const uint32_t n8_is_nan_1 = as_u32_f32(v0);
    const uint32_t n8_is_nan_2 = n8_is_nan_1 & 0x7fffffffu;
    const bool n8_is_nan = 0x7f800000u < n8_is_nan_2;
    const uint32_t n8_was_nan_1 = as_u32_f32(a->m8);
    const uint32_t n8_was_nan_2 = n8_was_nan_1 & 0x7fffffffu;
    const bool n8_was_nan = 0x7f800000u < n8_was_nan_2;
    const bool n8 = (n8_wins | n8_is_nan) & !n8_was_nan;
    if (n8 | (a->v8 < 0)) {
        a->m8 = v0;
        a->v8 = j;
    }
    const uint32_t n9_wins_1 = (uint32_t)v2;
    const uint32_t n9_wins_2 = n9_wins_1 & 0x8000u;
    const uint32_t n9_wins_3 = (uint32_t)((uint32_t)n9_wins_2 << 16u);
    const uint32_t n9_wins_4 = n9_wins_1 & 0x7fffu;
    const uint32_t n9_wins_5 = (uint32_t)((uint32_t)n9_wins_4 << 13u);
    const uint32_t n9_wins_6 = (uint32_t)((uint32_t)n9_wins_5 + (uint32_t)0x38000000u);
    const bool n9_wins_7 = 0x7c00u <= n9_wins_4;
    const bool n9_wins_8 = n9_wins_4 < 1024u;
    const int32_t n9_wins_9 = (int32_t)(n9_wins_4);
    const float n9_wins_10 = (float)n9_wins_9;
    const float n9_wins_11 = n9_wins_10 * 0x1.0p-24f;
    const uint32_t n9_wins_12 = (uint32_t)((uint32_t)n9_wins_6 + (uint32_t)0x38000000u);
    const uint32_t n9_wins_13 = n9_wins_7 ? n9_wins_12 : n9_wins_6;
    const uint32_t n9_wins_14 = as_u32_f32(n9_wins_11);
    const uint32_t n9_wins_15 = n9_wins_8 ? n9_wins_14 : n9_wins_13;
    const uint32_t n9_wins_16 = n9_wins_15 | n9_wins_3;
    const float n9_wins_17 = as_f32_u32(n9_wins_16);
    const uint32_t n9_wins_18 = (uint32_t)a->m9;
    const uint32_t n9_wins_19 = n9_wins_18 & 0x8000u;
    const uint32_t n9_wins_20 = (uint32_t)((uint32_t)n9_wins_19 << 16u);
    const uint32_t n9_wins_21 = n9_wins_18 & 0x7fffu;
    const uint32_t n9_wins_22 = (uint32_t)((uint32_t)n9_wins_21 << 13u);
    const uint32_t n9_wins_23 = (uint32_t)((uint32_t)n9_wins_22 + (uint32_t)0x38000000u);
    const bool n9_wins_24 = 0x7c00u <= n9_wins_21;
    const bool n9_wins_25 = n9_wins_21 < 1024u;
    const int32_t n9_wins_26 = (int32_t)(n9_wins_21);
    const float n9_wins_27 = (float)n9_wins_26;
    const float n9_wins_28 = n9_wins_27 * 0x1.0p-24f;
    const uint32_t n9_wins_29 = (uint32_t)((uint32_t)n9_wins_23 + (uint32_t)0x38000000u);
    const uint32_t n9_wins_30 = n9_wins_24 ? n9_wins_29 : n9_wins_23;
    const uint32_t n9_wins_31 = as_u32_f32(n9_wins_28);
    const uint32_t n9_wins_32 = n9_wins_25 ? n9_wins_31 : n9_wins_30;
    const uint32_t n9_wins_33 = n9_wins_32 | n9_wins_20;
    const float n9_wins_34 = as_f32_u32(n9_wins_33);
    const bool n9_wins = n9_wins_17 < n9_wins_34;
    const uint16_t n9_is_nan_1 = v2 & 32767;
    const bool n9_is_nan = 31744 < n9_is_nan_1;
    const uint16_t n9_was_nan_1 = a->m9 & 32767;
    const bool n9_was_nan = 31744 < n9_was_nan_1;
    const bool n9 = (n9_wins | n9_is_nan) & !n9_was_nan;
    if (n9 | (a->v9 < 0)) {
        a->m9 = v2;
        a->v9 = j;
    }
    const bool x10_1 = v1r != 0.0;
    const bool x10_2 = v1i != 0.0;
    const bool x10 = x10_1 | x10_2;
    const bool n10 = a->v10 | x10;
    a->v10 = n10;
    const bool x11 = v0 != 0.0f;
    const bool n11 = a->v11 & x11;
    a->v11 = n11;
    const bool n12_1 = a->v12 < v0;
    const bool n12_2 = a->v12 != a->v12;
    const bool n12_3 = n12_1 | n12_2;
    const float n12 = n12_3 ? a->v12 : v0;
    a->v12 = n12;
    return t;
}

static inline struct sums_0
zero_0(void)
{
    struct sums_0 t;

    t.v3 = -0.0f;
    t.v5 = -0.0f;
    return t;
}

static inline struct sums_0
add_0(struct sums_0 a, struct sums_0 b)
{
    struct sums_0 t;

    const float n3 = a.v3 + b.v3;
    t.v3 = n3;
    const float n5 = a.v5 + b.v5;
    t.v5 = n5;
    return t;
}

/* Sums of elements [j, j + n) in NumPy's order: halves down to 128 elements, 8 running sums there. */
static struct sums_0
tree_0(const struct row *r, int64_t j, int64_t n, struct accs_0 *a)
{
    const int64_t whole = n < 8 ? 0 : n - n % 8;
    struct sums_0 t, s[8];

    if (n > 128) {
        const int64_t half = n / 2 - n / 2 % 8;

        t = tree_0(r, j, half, a);
        return add_0(t, tree_0(r, j + half, n - half, a));
    }
    for (int k = 0; k < 8; k++)
        s[k] = zero_0();
    for (int64_t i = 0; i < whole; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] = add_0(s[k], element_0(r, j + i + k, a));
    for (int k = 1; k < 8; k *= 2)
        for (int i = 0; i < 8; i += 2 * k)
            s[i] = add_0(s[i], s[i + k]);
    t = s[0];
    for (int64_t i = whole; i < n; i++)
        t = add_0(t, element_0(r, j + i, a));
    return t;
}

void
frit_rows(char *const *ptr, const int64_t *row_stride, const int64_t *inner_stride,
          int64_t n_rows, int64_t n_inner, const void *scalars, void *scratch)
{
    struct row r;

    for (int64_t row = 0; row < n_rows; row++) {
        r.p0 = (const float *)(ptr[0] + row * row_stride[0]);
        r.p1 = (const double *)(ptr[1] + row * row_stride[1]);
        r.p2 = (const uint16_t *)(ptr[2] + row * row_stride[2]);
        r.p3 = (float *)(ptr[3] + row * row_stride[3]);
        r.p4 = (double *)(ptr[4] + row * row_stride[4]);
        r.p5 = (uint16_t *)(ptr[5] + row * row_stride[5]);
        r.p6 = (float *)(ptr[6] + row * row_stride[6]);
        r.p7 = (float *)(ptr[7] + row * row_stride[7]);
        r.p8 = (int64_t *)(ptr[8] + row * row_stride[8]);
        r.p9 = (int64_t *)(ptr[9] + row * row_stride[9]);
        r.p10 = (uint8_t *)(ptr[10] + row * row_stride[10]);
        r.p11 = (uint8_t *)(ptr[11] + row * row_stride[11]);
        r.p12 = (float *)(ptr[12] + row * row_stride[12]);
        const struct sums_0c t0c = tree_0c(&r, 0, n_inner);
        const double v4r = 0.0 + t0c.v4r;
        const double v4i = 0.0 + t0c.v4i;
        struct accs_0 a0;
        a0.v6 = as_f32_u32(0xff800000u);
        a0.v7 = 1.0f;
        a0.m8 = 0.0f;
        a0.v8 = -1;
        a0.m9 = 0;
        a0.v9 = -1;
        a0.v10 = false;
        a0.v11 = true;
        a0.v12 = as_f32_u32(0x7f800000u);
        const struct sums_0 t0 = tree_0(&r, 0, n_inner, &a0);
        const float v3 = 0.0f + t0.v3;
        const float x5 = 0.0f + t0.v5;
        const uint32_t v5_1 = as_u32_f32(x5);
        const uint32_t v5_2 = (uint32_t)(v5_1 >> 16u);
        const uint32_t v5_3 = v5_2 & 0x8000u;
        const float v5_4 = fabsf(x5);
        const uint32_t v5_5 = as_u32_f32(v5_4);
        const uint32_t v5_6 = (uint32_t)(v5_5 >> 13u);
        const uint32_t v5_7 = v5_6 & 1u;
        const uint32_t v5_8 = (uint32_t)((uint32_t)v5_7 + (uint32_t)4095u);
        const uint32_t v5_9 = (uint32_t)((uint32_t)v5_5 - (uint32_t)0x38000000u);
        const uint32_t v5_10 = (uint32_t)((uint32_t)v5_9 + (uint32_t)v5_8);
        const uint32_t v5_11 = (uint32_t)(v5_10 >> 13u);
        const bool v5_12 = v5_5 < 0x38800000u;
        const float v5_13 = v5_12 ? v5_4 : 0.0f;
        const float v5_14 = v5_13 * 0x1.555556p-113f;
        const uint32_t v5_15 = as_u32_f32(0.5f);
        const float v5_16 = v5_13 + v5_14;
        const float v5_17 = v5_16 + 0.5f;
        const uint32_t v5_18 = as_u32_f32(v5_17);
        const uint32_t v5_19 = (uint32_t)((uint32_t)v5_18 - (uint32_t)v5_15);
        const uint32_t v5_20 = v5_6 & 1023u;
        const bool v5_21 = 0x7f800000u < v5_5;
        const uint32_t v5_22 = v5_12 ? v5_19 : v5_11;
        const bool v5_23 = 0x477ff000u <= v5_5;
        const float v5_24 = v5_4 * 0x1.001002p+112f;
        const uint32_t v5_25 = as_u32_f32(v5_24);
        const uint32_t v5_26 = (uint32_t)(v5_25 >> 13u);
        const uint32_t v5_27 = v5_26 & 0x7c00u;
        const uint32_t v5_28 = v5_23 ? v5_27 : v5_22;
        const uint32_t v5_29 = v5_20 | 0x7e00u;
        const uint32_t v5_30 = v5_21 ? v5_29 : v5_28;
        const uint32_t v5_31 = v5_30 | v5_3;
        const uint16_t v5 = (uint16_t)v5_31;
        const float v6 = a0.v6;
        const float v7 = a0.v7;
        const int64_t v8 = a0.v8;
        const int64_t v9 = a0.v9;
        const bool v10 = a0.v10;
        const bool v11 = a0.v11;
        const float v12 = a0.v12;
        r.p3[0] = v3;
        r.p4[0] = v4r;
        r.p4[1] = v4i;
        r.p5[0] = v5;
        r.p6[0] = v6;
        r.p7[0] = v7;
        r.p8[0] = v8;
        r.p9[0] = v9;
        r.p10[0] = v10;
        r.p11[0] = v11;
        r.p12[0] = v12;
    }
    (void)inner_stride;
    (void)scalars;
    (void)scratch;
}

/* ---- long rows, cut into ranges of elements ---- */

/* A value of a row, or the partial result of a reduction. */
struct slot {
    union {
        int8_t i8[1]; int16_t i16[1]; int32_t i32[1]; int64_t i64[2];
        uint8_t u8[16]; uint16_t u16[1]; uint32_t u32[1]; uint64_t u64[1];
        float f32[2]; double f64[2];
    } v;
    int64_t index, pad;
};

static void
stage_0(char *const *ptr, const int64_t *inner_stride, int64_t j0, int64_t n,
        const void *scalars, const struct slot *slots, struct slot *slots_out, void *scratch)
{
    struct row r;

    r.p0 = (const float *)(ptr[0]);
    r.p1 = (const double *)(ptr[1]);
    r.p2 = (const uint16_t *)(ptr[2]);
    r.p3 = (float *)(ptr[3]);
    r.p4 = (double *)(ptr[4]);
    r.p5 = (uint16_t *)(ptr[5]);
    r.p6 = (float *)(ptr[6]);
    r.p7 = (float *)(ptr[7]);
    r.p8 = (int64_t *)(ptr[8]);
    r.p9 = (int64_t *)(ptr[9]);
    r.p10 = (uint8_t *)(ptr[10]);
    r.p11 = (uint8_t *)(ptr[11]);
    r.p12 = (float *)(ptr[12]);
    const struct sums_0c t0c = tree_0c(&r, j0, n);
    slots_out[4].v.f64[0] = t0c.v4r;
    slots_out[4].v.f64[1] = t0c.v4i;
    struct accs_0 a0;
    a0.v6 = as_f32_u32(0xff800000u);
    a0.v7 = 1.0f;
    a0.m8 = 0.0f;
    a0.v8 = -1;
    a0.m9 = 0;
    a0.v9 = -1;
    a0.v10 = false;
    a0.v11 = true;
    a0.v12 = as_f32_u32(0x7f800000u);
    const struct sums_0 t0 = tree_0(&r, j0, n, &a0);
    slots_out[3].v.f32[0] = t0.v3;
    slots_out[5].v.f32[0] = t0.v5;
    slots_out[6].v.f32[0] = a0.v6;
    slots_out[7].v.f32[0] = a0.v7;
    slots_out[8].v.f32[0] = a0.m8;
    slots_out[8].index = a0.v8;
    slots_out[9].v.u16[0] = a0.m9;
    slots_out[9].index = a0.v9;
    slots_out[10].v.u8[0] = a0.v10;
    slots_out[11].v.u8[0] = a0.v11;
    slots_out[12].v.f32[0] = a0.v12;
    (void)inner_stride;
    (void)scalars;
    (void)slots;
    (void)scratch;
}

static void
mid_0(char *const *ptr, const void *scalars, struct slot *slots)
{
    (void)ptr;
    (void)scalars;
    (void)slots;
}

static void
mid_1(char *const *ptr, const void *scalars, struct slot *slots)
{
    const float v3 = slots[3].v.f32[0];
    const double v4r = slots[4].v.f64[0];
    const double v4i = slots[4].v.f64[1];
    const uint16_t v5 = slots[5].v.u16[0];
    const float v6 = slots[6].v.f32[0];
    const float v7 = slots[7].v.f32[0];
    const int64_t v8 = slots[8].v.i64[0];
    const int64_t v9 = slots[9].v.i64[0];
    const bool v10 = slots[10].v.u8[0] != 0;
    const bool v11 = slots[11].v.u8[0] != 0;
    const float v12 = slots[12].v.f32[0];
    float *const p3 = (float *)ptr[3];
    p3[0] = v3;
    double *const p4 = (double *)ptr[4];
    p4[0] = v4r;
    p4[1] = v4i;
    uint16_t *const p5 = (uint16_t *)ptr[5];
    p5[0] = v5;
    float *const p6 = (float *)ptr[6];
    p6[0] = v6;
    float *const p7 = (float *)ptr[7];
    p7[0] = v7;
    int64_t *const p8 = (int64_t *)ptr[8];
    p8[0] = v8;
    int64_t *const p9 = (int64_t *)ptr[9];
    p9[0] = v9;
    uint8_t *const p10 = (uint8_t *)ptr[10];
    p10[0] = v10;
    uint8_t *const p11 = (uint8_t *)ptr[11];
    p11[0] = v11;
    float *const p12 = (float *)ptr[12];
    p12[0] = v12;
    (void)scalars;
}

void (*const frit_stages[])(void) = {
    (void (*)(void))stage_0,
    (void (*)(void))mid_0,
    (void (*)(void))mid_1,
};
