/*
 * nest 3 stages rowbuf reduces
 * [0] f32 unit
 * [1] f32 unit written
 * %0 = load [0] f32 FULL stage 0
 * %1 = reduce max %0 f32 ROW stage 1
 * %2 = subtract %0 %1 f32 FULL stage 1
 * %3 = multiply %2 %2 f32 FULL stage 1
 * %4 = reduce sum %3 f32 ROW stage 2
 * %5 = divide %3 %4 f32 FULL stage 2
 * %6 = store [1] %5 f32 FULL stage 2
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
    float *p1;
    float v1;
    float *b3;
    float v4;
};

struct accs_0 {
    float v1;
};

/* Stage 0 at element j. */
static inline void
element_0(const struct row *r, int64_t j, struct accs_0 *a)
{
    const float v0 = r->p0[j];
    const bool n1_1 = v0 < a->v1;
    const bool n1_2 = a->v1 != a->v1;
    const bool n1_3 = n1_1 | n1_2;
    const float n1 = n1_3 ? a->v1 : v0;
    a->v1 = n1;
}

struct sums_1 {
    float v4;
};

/* Stage 1 at element j. */
static inline struct sums_1
element_1(const struct row *r, int64_t j)
{
    struct sums_1 t;
    const float v0 = r->p0[j];
    const float v2 = v0 - r->v1;
    const float v3 = v2 * v2;
    r->b3[j] = v3;
    t.v4 = v3;
    return t;
}

static inline struct sums_1
zero_1(void)
{
    struct sums_1 t;

    t.v4 = -0.0f;
    return t;
}

static inline struct sums_1
add_1(struct sums_1 a, struct sums_1 b)
{
    struct sums_1 t;

    const float n4 = a.v4 + b.v4;
    t.v4 = n4;
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

/* Stage 2 at element j. */
static inline void
element_2(const struct row *r, int64_t j)
{
    const float v3 = r->b3[j];
    const float v5 = v3 / r->v4;
    r->p1[j] = v5;
}

void
frit_rows(char *const *ptr, const int64_t *row_stride, const int64_t *inner_stride,
          int64_t n_rows, int64_t n_inner, const void *scalars, void *scratch)
{
    struct row r;

    r.b3 = AT(float, scratch, 0);
    for (int64_t row = 0; row < n_rows; row++) {
        r.p0 = (const float *)(ptr[0] + row * row_stride[0]);
        r.p1 = (float *)(ptr[1] + row * row_stride[1]);
        struct accs_0 a0;
        a0.v1 = as_f32_u32(0xff800000u);
        for (int64_t j = 0; j < n_inner; j++)
            element_0(&r, j, &a0);
        const float v1 = a0.v1;
        r.v1 = v1;
        const struct sums_1 t1 = tree_1(&r, 0, n_inner);
        const float v4 = 0.0f + t1.v4;
        r.v4 = v4;
        for (int64_t j = 0; j < n_inner; j++)
            element_2(&r, j);
    }
    (void)inner_stride;
    (void)scalars;
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

struct accs_0x {
    float v1;
};

/* Stage 0 at element j. */
static inline void
element_0x(const struct row *r, int64_t j, struct accs_0x *a)
{
    const float v0 = r->p0[j];
    const bool n1_1 = v0 < a->v1;
    const bool n1_2 = a->v1 != a->v1;
    const bool n1_3 = n1_1 | n1_2;
    const float n1 = n1_3 ? a->v1 : v0;
    a->v1 = n1;
}

struct sums_1x {
    float v4;
};

/* Stage 1 at element j. */
static inline struct sums_1x
element_1x(const struct row *r, int64_t j)
{
    struct sums_1x t;
    const float v0 = r->p0[j];
    const float v2 = v0 - r->v1;
    const float v3 = v2 * v2;
    t.v4 = v3;
    return t;
}

static inline struct sums_1x
zero_1x(void)
{
    struct sums_1x t;

    t.v4 = -0.0f;
    return t;
}

static inline struct sums_1x
add_1x(struct sums_1x a, struct sums_1x b)
{
    struct sums_1x t;

    const float n4 = a.v4 + b.v4;
    t.v4 = n4;
    return t;
}

/* Sums of elements [j, j + n) in NumPy's order: halves down to 128 elements, 8 running sums there. */
static struct sums_1x
tree_1x(const struct row *r, int64_t j, int64_t n)
{
    const int64_t whole = n < 8 ? 0 : n - n % 8;
    struct sums_1x t, s[8];

    if (n > 128) {
        const int64_t half = n / 2 - n / 2 % 8;

        t = tree_1x(r, j, half);
        return add_1x(t, tree_1x(r, j + half, n - half));
    }
    for (int k = 0; k < 8; k++)
        s[k] = zero_1x();
    for (int64_t i = 0; i < whole; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] = add_1x(s[k], element_1x(r, j + i + k));
    for (int k = 1; k < 8; k *= 2)
        for (int i = 0; i < 8; i += 2 * k)
            s[i] = add_1x(s[i], s[i + k]);
    t = s[0];
    for (int64_t i = whole; i < n; i++)
        t = add_1x(t, element_1x(r, j + i));
    return t;
}

/* Stage 2 at element j. */
static inline void
element_2x(const struct row *r, int64_t j)
{
    const float v0 = r->p0[j];
    const float v2 = v0 - r->v1;
    const float v3 = v2 * v2;
    const float v5 = v3 / r->v4;
    r->p1[j] = v5;
}

static void
stage_0(char *const *ptr, const int64_t *inner_stride, int64_t j0, int64_t n,
        const void *scalars, const struct slot *slots, struct slot *slots_out, void *scratch)
{
    struct row r;

    r.p0 = (const float *)(ptr[0]);
    r.p1 = (float *)(ptr[1]);
    struct accs_0x a0x;
    a0x.v1 = as_f32_u32(0xff800000u);
    for (int64_t j = j0; j < j0 + n; j++)
        element_0x(&r, j, &a0x);
    slots_out[1].v.f32[0] = a0x.v1;
    (void)inner_stride;
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
    r.p1 = (float *)(ptr[1]);
    r.v1 = slots[1].v.f32[0];
    const struct sums_1x t1x = tree_1x(&r, j0, n);
    slots_out[4].v.f32[0] = t1x.v4;
    (void)inner_stride;
    (void)scalars;
    (void)scratch;
}

static void
stage_2(char *const *ptr, const int64_t *inner_stride, int64_t j0, int64_t n,
        const void *scalars, const struct slot *slots, struct slot *slots_out, void *scratch)
{
    struct row r;

    r.p0 = (const float *)(ptr[0]);
    r.p1 = (float *)(ptr[1]);
    r.v1 = slots[1].v.f32[0];
    r.v4 = slots[4].v.f32[0];
    for (int64_t j = j0; j < j0 + n; j++)
        element_2x(&r, j);
    (void)inner_stride;
    (void)scalars;
    (void)slots_out;
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
    (void)ptr;
    (void)scalars;
    (void)slots;
}

static void
mid_2(char *const *ptr, const void *scalars, struct slot *slots)
{
    (void)ptr;
    (void)scalars;
    (void)slots;
}

static void
mid_3(char *const *ptr, const void *scalars, struct slot *slots)
{
    (void)ptr;
    (void)scalars;
    (void)slots;
}

void (*const frit_stages[])(void) = {
    (void (*)(void))stage_0,
    (void (*)(void))stage_1,
    (void (*)(void))stage_2,
    (void (*)(void))mid_0,
    (void (*)(void))mid_1,
    (void (*)(void))mid_2,
    (void (*)(void))mid_3,
};
