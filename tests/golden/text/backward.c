/*
 * nest 2 stages rowbuf reduces
 * [0] f64 unit
 * [1] f64 strided
 * [2] f64 unit written
 * [3] f64 unit written
 * %0 = load [0] f64 FULL stage 0
 * %1 = load [1] f64 FULL stage 0
 * %2 = multiply %0 %1 f64 FULL stage 0
 * %3 = accum sum [3] %2 f64 FULL stage 0
 * %4 = reduce sum %2 f64 ROW stage 1
 * %5 = subtract %1 %4 f64 FULL stage 1
 * %6 = multiply %5 %0 f64 FULL stage 1
 * %7 = store [2] %6 f64 FULL stage 1
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
    char *p1;
    int64_t i1;
    double *p2;
    double *p3;
    double *b0;
    double *b1;
    double v4;
};

struct sums_0 {
    double v4;
};

/* Stage 0 at element j. */
static inline struct sums_0
element_0(const struct row *r, int64_t j)
{
    struct sums_0 t;
    const double v0 = r->p0[j];
    r->b0[j] = v0;
    const double v1 = AT(const double, r->p1, j * r->i1)[0];
    r->b1[j] = v1;
    const double v2 = v0 * v1;
    t.v4 = v2;
    const double m3 = r->p3[j];
    const double n3 = m3 + v2;
    r->p3[j] = n3;
    return t;
}

static inline struct sums_0
zero_0(void)
{
    struct sums_0 t;

    t.v4 = -0.0;
    return t;
}

static inline struct sums_0
add_0(struct sums_0 a, struct sums_0 b)
{
    struct sums_0 t;

    const double n4 = a.v4 + b.v4;
    t.v4 = n4;
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

/* Stage 1 at element j. */
static inline void
element_1(const struct row *r, int64_t j)
{
    const double v0 = r->b0[j];
    const double v1 = r->b1[j];
    const double v5 = v1 - r->v4;
    const double v6 = v5 * v0;
    r->p2[j] = v6;
}

void
frit_rows(char *const *ptr, const int64_t *row_stride, const int64_t *inner_stride,
          int64_t n_rows, int64_t n_inner, const void *scalars, void *scratch)
{
    struct row r;

    r.b0 = AT(double, scratch, 0);
    r.b1 = AT(double, scratch, 66048);
    for (int64_t row = 0; row < n_rows; row++) {
        r.p0 = (const double *)(ptr[0] + row * row_stride[0]);
        r.p1 = ptr[1] + row * row_stride[1];
        r.i1 = inner_stride[1];
        r.p3 = (double *)(ptr[3] + row * row_stride[3]);
        r.p2 = (double *)(ptr[2] + row * row_stride[2]);
        const struct sums_0 t0 = tree_0(&r, 0, n_inner);
        const double v4 = 0.0 + t0.v4;
        r.v4 = v4;
        for (int64_t j = 0; j < n_inner; j++)
            element_1(&r, j);
    }
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

struct sums_0x {
    double v4;
};

/* Stage 0 at element j. */
static inline struct sums_0x
element_0x(const struct row *r, int64_t j)
{
    struct sums_0x t;
    const double v0 = r->p0[j];
    const double v1 = AT(const double, r->p1, j * r->i1)[0];
    const double v2 = v0 * v1;
    t.v4 = v2;
    const double m3 = r->p3[j];
    const double n3 = m3 + v2;
    r->p3[j] = n3;
    return t;
}

static inline struct sums_0x
zero_0x(void)
{
    struct sums_0x t;

    t.v4 = -0.0;
    return t;
}

static inline struct sums_0x
add_0x(struct sums_0x a, struct sums_0x b)
{
    struct sums_0x t;

    const double n4 = a.v4 + b.v4;
    t.v4 = n4;
    return t;
}

/* Sums of elements [j, j + n) in NumPy's order: halves down to 128 elements, 8 running sums there. */
static struct sums_0x
tree_0x(const struct row *r, int64_t j, int64_t n)
{
    const int64_t whole = n < 8 ? 0 : n - n % 8;
    struct sums_0x t, s[8];

    if (n > 128) {
        const int64_t half = n / 2 - n / 2 % 8;

        t = tree_0x(r, j, half);
        return add_0x(t, tree_0x(r, j + half, n - half));
    }
    for (int k = 0; k < 8; k++)
        s[k] = zero_0x();
    for (int64_t i = 0; i < whole; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] = add_0x(s[k], element_0x(r, j + i + k));
    for (int k = 1; k < 8; k *= 2)
        for (int i = 0; i < 8; i += 2 * k)
            s[i] = add_0x(s[i], s[i + k]);
    t = s[0];
    for (int64_t i = whole; i < n; i++)
        t = add_0x(t, element_0x(r, j + i));
    return t;
}

/* Stage 1 at element j. */
static inline void
element_1x(const struct row *r, int64_t j)
{
    const double v0 = r->p0[j];
    const double v1 = AT(const double, r->p1, j * r->i1)[0];
    const double v5 = v1 - r->v4;
    const double v6 = v5 * v0;
    r->p2[j] = v6;
}

static void
stage_0(char *const *ptr, const int64_t *inner_stride, int64_t j0, int64_t n,
        const void *scalars, const struct slot *slots, struct slot *slots_out, void *scratch)
{
    struct row r;

    r.p0 = (const double *)(ptr[0]);
    r.p1 = ptr[1];
    r.i1 = inner_stride[1];
    r.p3 = (double *)(ptr[3]);
    r.p2 = (double *)(ptr[2]);
    const struct sums_0x t0x = tree_0x(&r, j0, n);
    slots_out[4].v.f64[0] = t0x.v4;
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
    r.p1 = ptr[1];
    r.i1 = inner_stride[1];
    r.p3 = (double *)(ptr[3]);
    r.p2 = (double *)(ptr[2]);
    r.v4 = slots[4].v.f64[0];
    for (int64_t j = j0; j < j0 + n; j++)
        element_1x(&r, j);
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

void (*const frit_stages[])(void) = {
    (void (*)(void))stage_0,
    (void (*)(void))stage_1,
    (void (*)(void))mid_0,
    (void (*)(void))mid_1,
    (void (*)(void))mid_2,
};
