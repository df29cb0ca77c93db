/*
 * nest 2 stages reduces
 * [0] f32 unit
 * [1] c64 unit
 * [2] i32 strided
 * [3] f32 zero written
 * [4] c64 zero written
 * [5] i64 zero written
 * [6] i32 zero written
 * [7] f32 unit written
 * %0 = load [0] f32 FULL stage 0
 * %1 = load [1] c64 FULL stage 0
 * %2 = load [2] i32 FULL stage 0
 * %3 = reduce sum %0 f32 ROW stage 1
 * %4 = reduce sum %1 c64 ROW stage 1
 * %5 = reduce argmin %0 i64 ROW stage 1
 * %6 = reduce prod %2 i32 ROW stage 1
 * %7 = store [4] %4 c64 ROW stage 1
 * %8 = store [5] %5 i64 ROW stage 1
 * %9 = store [6] %6 i32 ROW stage 1
 * %10 = subtract %0 %3 f32 FULL stage 1
 * %11 = multiply %10 %10 f32 FULL stage 1
 * %12 = store [7] %10 f32 FULL stage 1
 * %13 = reduce sum %11 f32 ROW stage 2
 * %14 = store [3] %13 f32 ROW stage 2
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

/* What the stages of one row share. */
struct row {
    const float *p0;
    const float *p1;
    char *p2;
    int64_t i2;
    float *p3;
    float *p4;
    int64_t *p5;
    int32_t *p6;
    float *p7;
    float v3;
};

struct sums_0c {
    float v4r;
    float v4i;
};

/* Stage 0 at element j. */
static inline struct sums_0c
element_0c(const struct row *r, int64_t j)
{
    struct sums_0c t;
    const float v1r = r->p1[2 * j + 0];
    const float v1i = r->p1[2 * j + 1];
    t.v4r = v1r;
    t.v4i = v1i;
    return t;
}

static inline struct sums_0c
zero_0c(void)
{
    struct sums_0c t;

    t.v4r = -0.0f;
    t.v4i = -0.0f;
    return t;
}

static inline struct sums_0c
add_0c(struct sums_0c a, struct sums_0c b)
{
    struct sums_0c t;

    const float n4r = a.v4r + b.v4r;
    const float n4i = a.v4i + b.v4i;
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
    float m5;
    int64_t v5;
    int32_t v6;
};

struct sums_0 {
    float v3;
};

/* Stage 0 at element j. */
static inline struct sums_0
element_0(const struct row *r, int64_t j, struct accs_0 *a)
{
    struct sums_0 t;
    const float v0 = r->p0[j];
    const int32_t v2 = AT(const int32_t, r->p2, j * r->i2)[0];
    t.v3 = v0;
    const bool n5_wins = v0 < a->m5;
    const uint32_t n5_is_nan_1 = as_u32_f32(v0);
    const uint32_t n5_is_nan_2 = n5_is_nan_1 & 0x7fffffffu;
    const bool n5_is_nan = 0x7f800000u < n5_is_nan_2;
    const uint32_t n5_was_nan_1 = as_u32_f32(a->m5);
    const uint32_t n5_was_nan_2 = n5_was_nan_1 & 0x7fffffffu;
    const bool n5_was_nan = 0x7f800000u < n5_was_nan_2;
    const bool n5 = (n5_wins | n5_is_nan) & !n5_was_nan;
    if (n5 | (a->v5 < 0)) {
        a->m5 = v0;
        a->v5 = j;
    }
    const int32_t n6 = (int32_t)((uint32_t)a->v6 * (uint32_t)v2);
    a->v6 = n6;
    return t;
}

static inline struct sums_0
zero_0(void)
{
    struct sums_0 t;

    t.v3 = -0.0f;
    return t;
}

static inline struct sums_0
add_0(struct sums_0 a, struct sums_0 b)
{
    struct sums_0 t;

    const float n3 = a.v3 + b.v3;
    t.v3 = n3;
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

struct sums_1 {
    float v13;
};

/* Stage 1 at element j. */
static inline struct sums_1
element_1(const struct row *r, int64_t j)
{
    struct sums_1 t;
    const float v0 = r->p0[j];
    const float v10 = v0 - r->v3;
    const float v11 = v10 * v10;
    t.v13 = v11;
    r->p7[j] = v10;
    return t;
}

static inline struct sums_1
zero_1(void)
{
    struct sums_1 t;

    t.v13 = -0.0f;
    return t;
}

static inline struct sums_1
add_1(struct sums_1 a, struct sums_1 b)
{
    struct sums_1 t;

    const float n13 = a.v13 + b.v13;
    t.v13 = n13;
    return t;
}

/* Sums of elements [j, j + n) in NumPy's order: halves down to 128 elements, 8 running sums there. */
static struct sums_1
tree_1(const struct row *r, int64_t j, int64_t n)
{
    const int64_t whole = n < 8 ? 0 : n - n % 8;
    struct sums_1 t, s[8];

    if (n > 128) {
        const int64_t half = n / 2 - n / 2 % 8;

        t = tree_1(r, j, half);
        return add_1(t, tree_1(r, j + half, n - half));
    }
    for (int k = 0; k < 8; k++)
        s[k] = zero_1();
    for (int64_t i = 0; i < whole; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] = add_1(s[k], element_1(r, j + i + k));
    for (int k = 1; k < 8; k *= 2)
        for (int i = 0; i < 8; i += 2 * k)
            s[i] = add_1(s[i], s[i + k]);
    t = s[0];
    for (int64_t i = whole; i < n; i++)
        t = add_1(t, element_1(r, j + i));
    return t;
}

void
frit_rows(char *const *ptr, const int64_t *row_stride, const int64_t *inner_stride,
          int64_t n_rows, int64_t n_inner, const void *scalars, void *scratch)
{
    struct row r;

    for (int64_t row = 0; row < n_rows; row++) {
        r.p0 = (const float *)(ptr[0] + row * row_stride[0]);
        r.p1 = (const float *)(ptr[1] + row * row_stride[1]);
        r.p2 = ptr[2] + row * row_stride[2];
        r.i2 = inner_stride[2];
        r.p4 = (float *)(ptr[4] + row * row_stride[4]);
        r.p5 = (int64_t *)(ptr[5] + row * row_stride[5]);
        r.p6 = (int32_t *)(ptr[6] + row * row_stride[6]);
        r.p7 = (float *)(ptr[7] + row * row_stride[7]);
        r.p3 = (float *)(ptr[3] + row * row_stride[3]);
        const struct sums_0c t0c = tree_0c(&r, 0, n_inner);
        const float v4r = 0.0f + t0c.v4r;
        const float v4i = 0.0f + t0c.v4i;
        struct accs_0 a0;
        a0.m5 = 0.0f;
        a0.v5 = -1;
        a0.v6 = 1;
        const struct sums_0 t0 = tree_0(&r, 0, n_inner, &a0);
        const float v3 = 0.0f + t0.v3;
        r.v3 = v3;
        const int64_t v5 = a0.v5;
        const int32_t v6 = a0.v6;
        r.p4[0] = v4r;
        r.p4[1] = v4i;
        r.p5[0] = v5;
        r.p6[0] = v6;
        const struct sums_1 t1 = tree_1(&r, 0, n_inner);
        const float v13 = 0.0f + t1.v13;
        r.p3[0] = v13;
    }
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
    r.p1 = (const float *)(ptr[1]);
    r.p2 = ptr[2];
    r.i2 = inner_stride[2];
    r.p4 = (float *)(ptr[4]);
    r.p5 = (int64_t *)(ptr[5]);
    r.p6 = (int32_t *)(ptr[6]);
    r.p7 = (float *)(ptr[7]);
    r.p3 = (float *)(ptr[3]);
    const struct sums_0c t0c = tree_0c(&r, j0, n);
    slots_out[4].v.f32[0] = t0c.v4r;
    slots_out[4].v.f32[1] = t0c.v4i;
    struct accs_0 a0;
    a0.m5 = 0.0f;
    a0.v5 = -1;
    a0.v6 = 1;
    const struct sums_0 t0 = tree_0(&r, j0, n, &a0);
    slots_out[3].v.f32[0] = t0.v3;
    slots_out[5].v.f32[0] = a0.m5;
    slots_out[5].index = a0.v5;
    slots_out[6].v.i32[0] = a0.v6;
    (void)scalars;
    (void)slots;
    (void)scratch;
}

static void
stage_1(char *const *ptr, const int64_t *inner_stride, int64_t j0, int64_t n,
        const void *scalars, const struct slot *slots, struct slot *slots_out, void *scratch)
{
    struct row r;

    r.p0 = (const float *)(ptr[0]);
    r.p1 = (const float *)(ptr[1]);
    r.p2 = ptr[2];
    r.i2 = inner_stride[2];
    r.p4 = (float *)(ptr[4]);
    r.p5 = (int64_t *)(ptr[5]);
    r.p6 = (int32_t *)(ptr[6]);
    r.p7 = (float *)(ptr[7]);
    r.p3 = (float *)(ptr[3]);
    r.v3 = slots[3].v.f32[0];
    const struct sums_1 t1 = tree_1(&r, j0, n);
    slots_out[13].v.f32[0] = t1.v13;
    (void)scalars;
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
    const float v4r = slots[4].v.f32[0];
    const float v4i = slots[4].v.f32[1];
    const int64_t v5 = slots[5].v.i64[0];
    const int32_t v6 = slots[6].v.i32[0];
    float *const p4 = (float *)ptr[4];
    p4[0] = v4r;
    p4[1] = v4i;
    int64_t *const p5 = (int64_t *)ptr[5];
    p5[0] = v5;
    int32_t *const p6 = (int32_t *)ptr[6];
    p6[0] = v6;
    (void)scalars;
}

static void
mid_2(char *const *ptr, const void *scalars, struct slot *slots)
{
    const float v13 = slots[13].v.f32[0];
    float *const p3 = (float *)ptr[3];
    p3[0] = v13;
    (void)scalars;
}

void (*const frit_stages[])(void) = {
    (void (*)(void))stage_0,
    (void (*)(void))stage_1,
    (void (*)(void))mid_0,
    (void (*)(void))mid_1,
    (void (*)(void))mid_2,
};
