/* backends/cpu/scan.c -- running sums, products and extremes (fr_launch_scan of launch.h).
 *
 * A line is one walk along the scanned axis, element after element, as NumPy's accumulate does
 * it: f16 is rounded at each step, complex products are plain. Lines are independent: threads
 * share them, and one thread walks several side by side, in vector lanes, where they are
 * neighbours in memory or short. */
#include <string.h>

#include "backends/cpu/half.h"
#include "backends/cpu/launch.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/transpose.h"

enum { LANE_BYTES = 512,            /* of running values: they stay in registers and L1, */
       LINE_BYTES = 64,             /* or of so many where there are no more */
       SHORT = 16,                  /* steps of a line */
       TOGETHER = 8,                /* lines, whose squares are turned over */
       TASK_ELEMENTS = 1 << 15 };   /* below this, waking a thread costs more than it saves */

/* Lines [0, n) of one task; strides in bytes. */
struct lines {
    size_t      n, length;
    const char *in;
    char       *out;
    ptrdiff_t   in_lane, in_step, out_lane, out_step;
};
typedef void scan_fn(const struct lines *);

typedef struct {
    float re, im;
} c64;
typedef struct {
    double re, im;
} c128;

#define ALL_4(v) {v, v, v, v}
#define ALL_8(v) {v, v}

/* together_<name>: the first lines, as many as it returns, where they are dense and lie apart: a square of some steps of
 * some lines is turned over, its steps are taken, and it is turned back. What comes before the first changes nothing. */
#define SCAN_TOGETHER(name, T, SIZE, OP, FIRST)                                                    \
    static size_t together_##name(const struct lines *l)                                           \
    {                                                                                              \
        typedef T vec __attribute__((vector_size(16)));                                            \
        typedef T mem __attribute__((vector_size(16), aligned(1), may_alias));                     \
        enum { R = 16 / SIZE, GROUPS = TOGETHER / R };                                             \
        const ptrdiff_t in_lane = l->in_lane, out_lane = l->out_lane;                              \
        const size_t    length = l->length;                                                        \
        size_t          k = 0;                                                                     \
                                                                                                   \
        if (l->in_step != SIZE || l->out_step != SIZE || length < R)                               \
            return 0;                                                                              \
        for (; k + TOGETHER <= l->n; k += TOGETHER) {                                              \
            const char *in = l->in + (ptrdiff_t)k * in_lane;                                       \
            char       *out = l->out + (ptrdiff_t)k * out_lane;                                    \
            vec         m[GROUPS], x[R];                                                           \
            size_t      j = 0;                                                                     \
                                                                                                   \
            _Pragma("GCC unroll 4") for (int g = 0; g < GROUPS; g++)                               \
                m[g] = (vec)ALL_##SIZE(FIRST);                                                     \
            for (; j + R <= length; j += R, in += 16, out += 16)                                   \
                _Pragma("GCC unroll 4") for (int g = 0; g < GROUPS; g++) {                         \
                    _Pragma("GCC unroll 4") for (int i = 0; i < R; i++)                            \
                        x[i] = *(const mem *)(in + (g * R + i) * in_lane);                         \
                    FR_TURN_##SIZE(x)                                                              \
                    _Pragma("GCC unroll 4") for (int i = 0; i < R; i++)                            \
                        m[g] = x[i] = m[g] OP x[i];                                                \
                    FR_TURN_##SIZE(x)                                                              \
                    _Pragma("GCC unroll 4") for (int i = 0; i < R; i++)                            \
                        *(mem *)(out + (g * R + i) * out_lane) = x[i];                             \
                }                                                                                  \
            for (; j < length; j++, in += SIZE, out += SIZE)                                       \
                _Pragma("GCC unroll 8") for (int i = 0; i < TOGETHER; i++) {                       \
                    m[i / R][i % R] = (T)(m[i / R][i % R] OP * (const T *)(in + i * in_lane));     \
                    *(T *)(out + i * out_lane) = m[i / R][i % R];                                  \
                }                                                                                  \
        }                                                                                          \
        return k;                                                                                  \
    }
#define NO_TOGETHER(l) 0

/* Many lines side by side: neighbours, whose number is a constant so that their running values stay in registers, and
 * short ones, however they lie. Others, and those that TOGETHER leaves, one by one: each step waits for the one before it,
 * but the processor is through with most of the next line meanwhile, and four by turns take twice as long. */
#define SCAN(name, T, EXPR, TOGETHER_)                                                             \
    static inline T step_##name(T m, T v) { return EXPR; }                                         \
    static inline __attribute__((always_inline)) void abreast_##name(                              \
        const struct lines *l, size_t k, size_t n, ptrdiff_t in_lane, ptrdiff_t out_lane,          \
        ptrdiff_t in_step, ptrdiff_t out_step)                                                     \
    {                                                                                              \
        const char  *in = l->in + (ptrdiff_t)k * l->in_lane;                                       \
        char        *out = l->out + (ptrdiff_t)k * l->out_lane;                                    \
        const size_t length = l->length;                                                           \
        T            m[LANE_BYTES / sizeof(T)];                                                    \
                                                                                                   \
        for (size_t i = 0; i < n; i++)                                                             \
            m[i] = *(const T *)(in + (ptrdiff_t)i * in_lane);                                      \
        for (size_t j = 1;; j++, out += out_step) {                                                \
            for (size_t i = 0; i < n; i++)                                                         \
                *(T *)(out + (ptrdiff_t)i * out_lane) = m[i];                                      \
            if (j == length)                                                                       \
                return;                                                                            \
            in += in_step;                                                                         \
            for (size_t i = 0; i < n; i++)                                                         \
                m[i] = step_##name(m[i], *(const T *)(in + (ptrdiff_t)i * in_lane));               \
        }                                                                                          \
    }                                                                                              \
    static void scan_##name(const struct lines *l)                                                 \
    {                                                                                              \
        const size_t    many = LANE_BYTES / sizeof(T), few = LINE_BYTES / sizeof(T);               \
        const ptrdiff_t in_lane = l->in_lane, out_lane = l->out_lane, one = sizeof(T);             \
        const ptrdiff_t in_step = l->in_step, out_step = l->out_step;                              \
        size_t          k = 0;                                                                     \
                                                                                                   \
        if (in_lane == one && out_lane == one) {                                                   \
            for (; k + many <= l->n; k += many)                                                    \
                abreast_##name(l, k, many, one, one, in_step, out_step);                           \
            for (; k + few <= l->n; k += few)                                                      \
                abreast_##name(l, k, few, one, one, in_step, out_step);                            \
            for (; k + 2 <= l->n; k += 2)                                                          \
                abreast_##name(l, k, 2, one, one, in_step, out_step);                              \
        } else if (!(k = TOGETHER_(l)) && l->length <= SHORT) {                                    \
            for (; k + 4 < l->n; k += many)                                                        \
                abreast_##name(l, k, l->n - k < many ? l->n - k : many, in_lane, out_lane, in_step, out_step); \
        }                                                                                          \
        for (; k < l->n; k++)                                                                      \
            if (in_step == one && out_step == one)                                                 \
                abreast_##name(l, k, 1, 0, 0, one, one);                                           \
            else                                                                                   \
                abreast_##name(l, k, 1, 0, 0, in_step, out_step);                                  \
    }

#define SCAN_RING(s, T, sum, prod)                                                                 \
    SCAN(sum_##s, T, (T)(m + v), sum)                                                              \
    SCAN(prod_##s, T, (T)(1u * m * v), prod)
#define RING_TOGETHER(s, T, SIZE, ZERO)                                                            \
    SCAN_TOGETHER(sum_##s, T, SIZE, +, ZERO)                                                       \
    SCAN_TOGETHER(prod_##s, T, SIZE, *, 1)
RING_TOGETHER(u32, uint32_t, 4, 0)
RING_TOGETHER(u64, uint64_t, 8, 0)
SCAN_RING(u8, uint8_t, NO_TOGETHER, NO_TOGETHER)
SCAN_RING(u16, uint16_t, NO_TOGETHER, NO_TOGETHER)
SCAN_RING(u32, uint32_t, together_sum_u32, together_prod_u32)
SCAN_RING(u64, uint64_t, together_sum_u64, together_prod_u64)

#define SCAN_ORDER(s, T)                                                                           \
    SCAN(max_##s, T, v > m ? v : m, NO_TOGETHER)                                                   \
    SCAN(min_##s, T, v < m ? v : m, NO_TOGETHER)
SCAN_ORDER(i8, int8_t)
SCAN_ORDER(i16, int16_t)
SCAN_ORDER(i32, int32_t)
SCAN_ORDER(i64, int64_t)
SCAN_ORDER(u8, uint8_t)
SCAN_ORDER(u16, uint16_t)
SCAN_ORDER(u32, uint32_t)
SCAN_ORDER(u64, uint64_t)

/* The first NaN stays; of equals the later wins, as in NumPy's maximum of a pair. */
#define SCAN_FLOAT(s, T)                                                                           \
    SCAN(sum_##s, T, m + v, together_sum_##s)                                                      \
    SCAN(prod_##s, T, m *v, together_prod_##s)                                                     \
    SCAN(max_##s, T, m != m || m > v ? m : v, NO_TOGETHER)                                         \
    SCAN(min_##s, T, m != m || m < v ? m : v, NO_TOGETHER)
RING_TOGETHER(f32, float, 4, -0.0)
RING_TOGETHER(f64, double, 8, -0.0)
SCAN_FLOAT(f32, float)
SCAN_FLOAT(f64, double)

static inline bool is_nan16(uint16_t h) { return (h & 0x7fff) > 0x7c00; }

SCAN(sum_f16, uint16_t, float_to_half(half_to_float(m) + half_to_float(v)), NO_TOGETHER)
SCAN(prod_f16, uint16_t, float_to_half(half_to_float(m) * half_to_float(v)), NO_TOGETHER)
SCAN(max_f16, uint16_t, is_nan16(m) || half_to_float(m) >= half_to_float(v) ? m : v, NO_TOGETHER)
SCAN(min_f16, uint16_t, is_nan16(m) || half_to_float(m) <= half_to_float(v) ? m : v, NO_TOGETHER)

#define IS_NAN(z) ((z).re != (z).re || (z).im != (z).im)
#define BEYOND(a, b, beats) ((a).re beats (b).re || ((a).re == (b).re && (a).im beats (b).im))
#define SCAN_COMPLEX(C)                                                                            \
    SCAN(sum_##C, C, ((C){m.re + v.re, m.im + v.im}), NO_TOGETHER)                                 \
    SCAN(prod_##C, C, ((C){m.re * v.re - m.im * v.im, m.re * v.im + m.im * v.re}), NO_TOGETHER)    \
    SCAN(max_##C, C, !IS_NAN(m) && (IS_NAN(v) || BEYOND(v, m, >)) ? v : m, NO_TOGETHER)            \
    SCAN(min_##C, C, !IS_NAN(m) && (IS_NAN(v) || BEYOND(v, m, <)) ? v : m, NO_TOGETHER)
SCAN_COMPLEX(c64)
SCAN_COMPLEX(c128)

#define RING(op, name)                                                                             \
    {                                                                                              \
        [FR_I8] = name##_u8, [FR_I16] = name##_u16, [FR_I32] = name##_u32, [FR_I64] = name##_u64,  \
        [FR_U8] = name##_u8, [FR_U16] = name##_u16, [FR_U32] = name##_u32, [FR_U64] = name##_u64,  \
        FLOATS(op)                                                                                 \
    }
#define ORDER(op)                                                                                  \
    {                                                                                              \
        [FR_BOOL] = scan_##op##_u8, [FR_I8] = scan_##op##_i8, [FR_I16] = scan_##op##_i16,          \
        [FR_I32] = scan_##op##_i32, [FR_I64] = scan_##op##_i64, [FR_U8] = scan_##op##_u8,          \
        [FR_U16] = scan_##op##_u16, [FR_U32] = scan_##op##_u32, [FR_U64] = scan_##op##_u64,        \
        FLOATS(op)                                                                                 \
    }
#define FLOATS(op)                                                                                 \
    [FR_F16] = scan_##op##_f16, [FR_F32] = scan_##op##_f32, [FR_F64] = scan_##op##_f64,            \
    [FR_C64] = scan_##op##_c64, [FR_C128] = scan_##op##_c128

static scan_fn *const scans[4][FR_N_DTYPES] = {
    [FR_OP_cumsum - FR_OP_cumsum] = RING(sum, scan_sum),
    [FR_OP_cumprod - FR_OP_cumsum] = RING(prod, scan_prod),
    [FR_OP_cummax - FR_OP_cumsum] = ORDER(max),
    [FR_OP_cummin - FR_OP_cumsum] = ORDER(min),
};

/* ---- the axes across the lines -------------------------------------------------------------- */

struct scan {
    scan_fn  *fn;
    int       n_axes;                         /* outermost first; the lane axis has one index there */
    int64_t   size[FR_LAUNCH_AXES + 1];
    ptrdiff_t in_stride[FR_LAUNCH_AXES + 1], out_stride[FR_LAUNCH_AXES + 1];
    int64_t   n_lanes, lanes_per_task, tasks_per_group;
    struct lines l;                           /* of the whole lane axis at index 0 of the others */
};

static void
scan_task(void *arg, int64_t i, int worker)
{
    const struct scan *s = arg;
    struct lines       l = s->l;
    int64_t            group = i / s->tasks_per_group;
    int64_t            lane = i % s->tasks_per_group * s->lanes_per_task;

    (void)worker;
    for (int k = s->n_axes - 1; k >= 0; k--) {
        int64_t at = group % s->size[k];

        group /= s->size[k];
        l.in += at * s->in_stride[k];
        l.out += at * s->out_stride[k];
    }
    l.in += lane * l.in_lane;
    l.out += lane * l.out_lane;
    l.n = (size_t)(s->n_lanes - lane < s->lanes_per_task ? s->n_lanes - lane : s->lanes_per_task);
    s->fn(&l);
}

/* Splits the lanes of a task off so that tasks are worth a thread, and several lines go side by
 * side. */
static int64_t
lanes_per_task(const struct scan *s, int size)
{
    int64_t length = (int64_t)s->l.length, lanes = TASK_ELEMENTS / (length < 1 ? 1 : length);
    int64_t whole = s->l.in_lane == size && s->l.out_lane == size ? LANE_BYTES / size : TOGETHER;

    lanes = (lanes + whole - 1) / whole * whole;
    lanes = lanes < whole ? whole : lanes;
    return lanes < s->n_lanes ? lanes : s->n_lanes;
}

/* Adds an axis within the others, to the last one if both operands walk on from that. */
static void
add_axis(struct scan *s, int64_t n, ptrdiff_t in, ptrdiff_t out)
{
    int k = s->n_axes - 1;

    if (n == 1)
        return;
    if (k >= 0 && s->in_stride[k] == n * in && s->out_stride[k] == n * out) {
        n *= s->size[k];
    } else {
        k = s->n_axes++;
    }
    s->size[k] = n;
    s->in_stride[k] = in;
    s->out_stride[k] = out;
}

fr_status
fr_launch_scan(fr_op op, fr_dtype d, const struct fr_instance *it, struct fr_err *err)
{
    struct scan    s = {0};
    int            lane = -1, size = fr_dtype_size(d);
    const int64_t *in = it->stride, *out = it->stride + it->n_outer + 2;
    int64_t        n_groups = 1;

    if (op < FR_OP_cumsum || op > FR_OP_cummin || !scans[op - FR_OP_cumsum][d])
        return fr_fail(err, FR_EBUG, "no scan '%s' of %s", fr_op_info[op].name, fr_dtype_code(d));
    s.fn = scans[op - FR_OP_cumsum][d];
    s.l.in = it->ptr[0];
    s.l.out = it->ptr[1];
    s.l.length = (size_t)it->n_inner;
    s.l.in_step = in[it->n_outer + 1];
    s.l.out_step = out[it->n_outer + 1];
    s.n_lanes = 1;
    if (it->n_inner == 0)
        return FR_OK;
    for (int k = 0; k <= it->n_outer; k++) {
        int64_t n = k < it->n_outer ? it->outer[k] : it->n_rows;

        if (n == 0)
            return FR_OK;
        add_axis(&s, n, in[k], out[k]);
        n_groups *= n;
    }
    /* Lanes run along the axis on which both operands are dense, else along the longest. */
    for (int k = 0; k < s.n_axes; k++)
        if (s.in_stride[k] == size && s.out_stride[k] == size)
            lane = k;
    for (int k = 0, dense = lane >= 0; k < s.n_axes && !dense; k++)
        if (lane < 0 || s.size[k] > s.size[lane])
            lane = k;
    if (lane >= 0) {
        s.n_lanes = s.size[lane];
        s.l.in_lane = s.in_stride[lane];
        s.l.out_lane = s.out_stride[lane];
        s.size[lane] = 1;
        n_groups /= s.n_lanes;
    }
    s.lanes_per_task = lanes_per_task(&s, size);
    s.tasks_per_group = (s.n_lanes + s.lanes_per_task - 1) / s.lanes_per_task;
    if (!fr_pool_run(scan_task, &s, n_groups * s.tasks_per_group))
        return fr_fail(err, FR_EINTR, "interrupted while computing %s", fr_op_info[op].name);
    return FR_OK;
}
