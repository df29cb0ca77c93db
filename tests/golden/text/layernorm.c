/*
 * nest 3 stages reduces
 * [0] f64 unit
 * [1] f64 unit
 * [2] f64 strided
 * [3] f64 unit written
 * [4] f64 zero written
 * $0 f64
 * $1 f64
 * %0 = load [0] f64 FULL stage 0
 * %1 = load [1] f64 FULL stage 0
 * %2 = load [2] f64 FULL stage 0
 * %3 = scalar $0 f64 SCALAR stage 0
 * %4 = scalar $1 f64 SCALAR stage 0
 * %5 = reduce sum %0 f64 ROW stage 1
 * %6 = divide %5 %3 f64 ROW stage 1
 * %7 = subtract %0 %6 f64 FULL stage 1
 * %8 = multiply %7 %7 f64 FULL stage 1
 * %9 = reduce sum %8 f64 ROW stage 2
 * %10 = divide %9 %3 f64 ROW stage 2
 * %11 = add %10 %4 f64 ROW stage 2
 * %12 = sqrt %11 f64 ROW stage 2
 * %13 = divide %7 %12 f64 FULL stage 2
 * %14 = multiply %13 %1 f64 FULL stage 2
 * %15 = add %14 %2 f64 FULL stage 2
 * %16 = store [3] %15 f64 FULL stage 2
 * %17 = store [4] %12 f64 ROW stage 2
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define AT(type, p, bytes) ((type *)((const char *)(p) + (bytes)))

/* What the stages of one row share. */
struct row {
    const double *p0;
    const double *p1;
    char *p2;
    int64_t i2;
    double *p3;
    double *p4;
    double v6;
    double v12;
};

struct sums_0 {
    double v5;
};

/* Stage 0 at element j. */
static inline struct sums_0
element_0(const struct row *r, int64_t j)
{
    struct sums_0 t;
    const double v0 = r->p0[j];
    t.v5 = v0;
    return t;
}

static inline struct sums_0
zero_0(void)
{
    struct sums_0 t;

    t.v5 = -0.0;
    return t;
}

static inline struct sums_0
add_0(struct sums_0 a, struct sums_0 b)
{
    struct sums_0 t;

    const double n5 = a.v5 + b.v5;
    t.v5 = n5;
    return t;
}

/* Sums of elements [j, j + n) in NumPy's order: halves down to 128 elements, 8 running sums there. */
static struct sums_0
tree_0(const struct row *r, int64_t j, int64_t n)
{
    const int64_t whole = n < 8 ? 0 : n - n % 8;
    struct sums_0 t, s[8];

    if (n > 128) {
        const int64_t half = n / 2 - n / 2 % 8;

        t = tree_0(r, j, half);
        return add_0(t, tree_0(r, j + half, n - half));
    }
    for (int k = 0; k < 8; k++)
        s[k] = zero_0();
    for (int64_t i = 0; i < whole; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] = add_0(s[k], element_0(r, j + i + k));
    for (int k = 1; k < 8; k *= 2)
        for (int i = 0; i < 8; i += 2 * k)
            s[i] = add_0(s[i], s[i + k]);
    t = s[0];
    for (int64_t i = whole; i < n; i++)
        t = add_0(t, element_0(r, j + i));
    return t;
}

struct sums_1 {
    double v9;
};

/* Stage 1 at element j. */
static inline struct sums_1
element_1(const struct row *r, int64_t j)
{
    struct sums_1 t;
    const double v0 = r->p0[j];
    const double v7 = v0 - r->v6;
    const double v8 = v7 * v7;
    t.v9 = v8;
    return t;
}

static inline struct sums_1
zero_1(void)
{
    struct sums_1 t;

    t.v9 = -0.0;
    return t;
}

static inline struct sums_1
add_1(struct sums_1 a, struct sums_1 b)
{
    struct sums_1 t;

    const double n9 = a.v9 + b.v9;
    t.v9 = n9;
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
    const double v0 = r->p0[j];
    const double v1 = r->p1[j];
    const double v2 = AT(const double, r->p2, j * r->i2)[0];
    const double v7 = v0 - r->v6;
    const double v13 = v7 / r->v12;
    const double v14 = v13 * v1;
    const double v15 = v14 + v2;
    r->p3[j] = v15;
}

void
frit_rows(char *const *ptr, const int64_t *row_stride, const int64_t *inner_stride,
          int64_t n_rows, int64_t n_inner, const void *scalars, void *scratch)
{
    struct row r;

    const double v3 = AT(const double, scalars, 0)[0];
    const double v4 = AT(const double, scalars, 16)[0];
    for (int64_t row = 0; row < n_rows; row++) {
        r.p0 = (const double *)(ptr[0] + row * row_stride[0]);
        r.p1 = (const double *)(ptr[1] + row * row_stride[1]);
        r.p2 = ptr[2] + row * row_stride[2];
        r.i2 = inner_stride[2];
        r.p3 = (double *)(ptr[3] + row * row_stride[3]);
        r.p4 = (double *)(ptr[4] + row * row_stride[4]);
        const struct sums_0 t0 = tree_0(&r, 0, n_inner);
        const double v5 = 0.0 + t0.v5;
        const double v6 = v5 / v3;
        r.v6 = v6;
        const struct sums_1 t1 = tree_1(&r, 0, n_inner);
        const double v9 = 0.0 + t1.v9;
        const double v10 = v9 / v3;
        const double v11 = v10 + v4;
        const double v12 = sqrt(v11);
        r.v12 = v12;
        r.p4[0] = v12;
        for (int64_t j = 0; j < n_inner; j++)
            element_2(&r, j);
    }
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

    r.p0 = (const double *)(ptr[0]);
    r.p1 = (const double *)(ptr[1]);
    r.p2 = ptr[2];
    r.i2 = inner_stride[2];
    r.p3 = (double *)(ptr[3]);
    r.p4 = (double *)(ptr[4]);
    const struct sums_0 t0 = tree_0(&r, j0, n);
    slots_out[5].v.f64[0] = t0.v5;
    (void)scalars;
    (void)slots;
    (void)scratch;
}

static void
stage_1(char *const *ptr, const int64_t *inner_stride, int64_t j0, int64_t n,
        const void *scalars, const struct slot *slots, struct slot *slots_out, void *scratch)
{
    struct row r;

    r.p0 = (const double *)(ptr[0]);
    r.p1 = (const double *)(ptr[1]);
    r.p2 = ptr[2];
    r.i2 = inner_stride[2];
    r.p3 = (double *)(ptr[3]);
    r.p4 = (double *)(ptr[4]);
    r.v6 = slots[6].v.f64[0];
    const struct sums_1 t1 = tree_1(&r, j0, n);
    slots_out[9].v.f64[0] = t1.v9;
    (void)scalars;
    (void)scratch;
}

static void
stage_2(char *const *ptr, const int64_t *inner_stride, int64_t j0, int64_t n,
        const void *scalars, const struct slot *slots, struct slot *slots_out, void *scratch)
{
    struct row r;

    r.p0 = (const double *)(ptr[0]);
    r.p1 = (const double *)(ptr[1]);
    r.p2 = ptr[2];
    r.i2 = inner_stride[2];
    r.p3 = (double *)(ptr[3]);
    r.p4 = (double *)(ptr[4]);
    r.v6 = slots[6].v.f64[0];
    r.v12 = slots[12].v.f64[0];
    for (int64_t j = j0; j < j0 + n; j++)
        element_2(&r, j);
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
    const double v3 = AT(const double, scalars, 0)[0];
    const double v5 = slots[5].v.f64[0];
    const double v6 = v5 / v3;
    slots[6].v.f64[0] = v6;
    (void)ptr;
}

static void
mid_2(char *const *ptr, const void *scalars, struct slot *slots)
{
    const double v3 = AT(const double, scalars, 0)[0];
    const double v4 = AT(const double, scalars, 16)[0];
    const double v9 = slots[9].v.f64[0];
    const double v10 = v9 / v3;
    slots[10].v.f64[0] = v10;
    const double v11 = v10 + v4;
    slots[11].v.f64[0] = v11;
    const double v12 = sqrt(v11);
    slots[12].v.f64[0] = v12;
    double *const p4 = (double *)ptr[4];
    p4[0] = v12;
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
