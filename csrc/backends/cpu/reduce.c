#include "backends/cpu/reduce.h"

#include <float.h>
#include <string.h>

#include "backends/cpu/half.h"

fr_dtype
fr_reduce_acc(fr_op op, fr_dtype in)
{
    if (fr_op_info[op].rule == FR_RULE_TRUTH)
        return FR_BOOL;
    if (in == FR_F16 && fr_op_info[op].rule == FR_RULE_SUM)
        return FR_F32;
    if (in == FR_BOOL && op == FR_OP_sum)
        return FR_I64;
    return in;
}

/* ---- combining ------------------------------------------------------------------------------ */

/* True when x takes the place of m: x is beyond m, or the first NaN. On equality x wins if
 * `late`. */
#define WINS(T, name)                                                                              \
    static bool name(bool higher, bool late, T x, T m)                                             \
    {                                                                                              \
        if (m != m)                                                                                \
            return false;                                                                          \
        if (x != x)                                                                                \
            return true;                                                                           \
        return higher ? x > m || (late && x == m) : x < m || (late && x == m);                     \
    }
WINS(int64_t, wins_i64)
WINS(uint64_t, wins_u64)
WINS(double, wins_f64)

static int64_t
load_int(fr_dtype d, const void *p)
{
    switch (d) {
    case FR_I8: return *(const int8_t *)p;
    case FR_I16: return *(const int16_t *)p;
    case FR_I32: return *(const int32_t *)p;
    case FR_I64: return *(const int64_t *)p;
    case FR_U16: return *(const uint16_t *)p;
    case FR_U32: return *(const uint32_t *)p;
    case FR_U64: return (int64_t) * (const uint64_t *)p;
    default: return *(const uint8_t *)p;
    }
}

static void
store_int(fr_dtype d, void *p, int64_t v)
{
    switch (fr_dtype_size(d)) {
    case 1: *(uint8_t *)p = (uint8_t)v; break;
    case 2: *(uint16_t *)p = (uint16_t)v; break;
    case 4: *(uint32_t *)p = (uint32_t)v; break;
    default: *(uint64_t *)p = (uint64_t)v; break;
    }
}

static double
load_float(fr_dtype d, const void *p)
{
    if (d == FR_F16)
        return half_to_float(*(const uint16_t *)p);
    return d == FR_F32 ? (double)*(const float *)p : *(const double *)p;
}

static bool
wins_complex(fr_dtype d, bool higher, const void *x, const void *m)
{
    fr_dtype    part = fr_dtype_info[d].component;
    const char *xp = x, *mp = m;
    int         size = fr_dtype_size(part);
    double      xr = load_float(part, xp), xi = load_float(part, xp + size);
    double      mr = load_float(part, mp), mi = load_float(part, mp + size);

    if (mr != mr || mi != mi)
        return false;
    if (xr != xr || xi != xi)
        return true;
    if (xr != mr)
        return higher ? xr > mr : xr < mr;
    return higher ? xi > mi : xi < mi;
}

static bool
wins(fr_dtype d, bool higher, bool late, const void *x, const void *m)
{
    switch (fr_dtype_kind(d)) {
    case 'f': return wins_f64(higher, late && d != FR_F16, load_float(d, x), load_float(d, m));
    case 'c': return wins_complex(d, higher, x, m);
    default:
        if (d == FR_U64)
            return wins_u64(higher, false, (uint64_t)load_int(d, x), (uint64_t)load_int(d, m));
        return wins_i64(higher, false, load_int(d, x), load_int(d, m));
    }
}

#define COMPLEX_STEP(T)                                                                            \
    do {                                                                                           \
        T       *a = acc;                                                                          \
        const T *b = other;                                                                        \
                                                                                                   \
        if (op == FR_OP_sum) {                                                                     \
            a[0] += b[0];                                                                          \
            a[1] += b[1];                                                                          \
        } else {                                                                                   \
            T re = a[0] * b[0] - a[1] * b[1];                                                      \
                                                                                                   \
            a[1] = a[0] * b[1] + a[1] * b[0];                                                      \
            a[0] = re;                                                                             \
        }                                                                                          \
    } while (0)

/* sum and prod of accumulators. */
static void
combine_arith(fr_op op, fr_dtype d, void *acc, const void *other)
{
    switch (d) {
    case FR_F32:
        if (op == FR_OP_sum)
            *(float *)acc += *(const float *)other;
        else
            *(float *)acc *= *(const float *)other;
        break;
    case FR_F64:
        if (op == FR_OP_sum)
            *(double *)acc += *(const double *)other;
        else
            *(double *)acc *= *(const double *)other;
        break;
    case FR_C64: COMPLEX_STEP(float); break;
    case FR_C128: COMPLEX_STEP(double); break;
    default: {
        uint64_t a = (uint64_t)load_int(d, acc), b = (uint64_t)load_int(d, other);

        store_int(d, acc, (int64_t)(op == FR_OP_sum ? a + b : a * b));
    }
    }
}

void
fr_reduce_combine(fr_op op, fr_dtype in, void *acc, int64_t *acc_index, const void *other,
                  const int64_t *other_index)
{
    fr_dtype d = fr_reduce_acc(op, in);

    if (fr_op_info[op].rule == FR_RULE_SUM) {
        combine_arith(op, d, acc, other);
    } else if (!fr_op_picks(op)) {
        fr_reduce->accum[FR_REDUCE_ROW(op)][d](1, 1, acc, other, 0, NULL, 0);
    } else if (wins(d, fr_op_info[op].identity == FR_IDENTITY_lowest, !fr_op_finds_index(op), other, acc)) {
        memcpy(acc, other, (size_t)fr_dtype_size(d));
        if (fr_op_finds_index(op))
            *acc_index = *other_index;
    }
}

/* ---- identities and results ----------------------------------------------------------------- */

void
fr_reduce_identity(fr_op op, fr_dtype acc, size_t n, void *out, int64_t *index)
{
    _Alignas(16) char one[16] = {0};
    size_t            size = (size_t)fr_dtype_size(acc), part = (size_t)fr_dtype_size(fr_dtype_info[acc].component);
    char             *p = out;

    for (size_t k = 0; k < size / part; k++) {
        uint64_t bits = fr_op_identity(op, acc, (int)k);

        memcpy(one + k * part, &bits, part);
    }
    for (size_t i = 0; i < n; i++)
        memcpy(p + i * size, one, size);
    if (index)
        memset(index, 0, n * sizeof *index);
}

void
fr_reduce_finish(fr_op op, fr_dtype in, const void *acc, const int64_t *index, void *out)
{
    fr_dtype d = fr_reduce_acc(op, in);

    if (fr_op_finds_index(op)) {
        *(int64_t *)out = *index;
        return;
    }
    if (in == FR_F16 && d == FR_F32) {
        float v = *(const float *)acc;

        *(uint16_t *)out = float_to_half(op == FR_OP_sum ? 0.0f + v : v);
        return;
    }
    memcpy(out, acc, (size_t)fr_dtype_size(d));
    if (op == FR_OP_sum && (fr_dtype_is_float(d) || fr_dtype_is_complex(d))) {
        _Alignas(16) char zero[16] = {0};

        combine_arith(FR_OP_sum, d, out, zero);
    }
}

/* ---- trees ---------------------------------------------------------------------------------- */

void
fr_tree_begin(struct fr_tree *t, int64_t n, int64_t max, bool wide)
{
    t->start = 0;
    t->n = 0;
    t->n_joins = 0;
    t->wide = wide;
    t->max = max < 128 ? 128 : max;
    t->todo[0] = n;
    t->joins[0] = 0;
    t->depth = 1;
}

bool
fr_tree_next(struct fr_tree *t)
{
    int64_t leaf = t->wide ? 64 : 128, n;
    int     joins;

    if (t->depth == 0)
        return false;
    t->start += t->n;
    t->depth--;
    n = t->todo[t->depth];
    joins = t->joins[t->depth];
    while (n > t->max && n > leaf) {
        int64_t h = t->wide ? (n - n % 8) / 2 : n / 2 - n / 2 % 8;

        t->todo[t->depth] = n - h;
        t->joins[t->depth] = joins + 1;
        t->depth++;
        n = h;
        joins = 0;
    }
    t->n = n;
    t->n_joins = joins;
    return true;
}

int64_t
fr_tree_count(int64_t n, int64_t max, bool wide)
{
    struct fr_tree t;
    int64_t        count = 0;

    fr_tree_begin(&t, n, max, wide);
    while (fr_tree_next(&t))
        count++;
    return count;
}

void
fr_tree_push(struct fr_tree_stack *s, const struct fr_tree *t, fr_op op, fr_dtype in,
             const void *acc, const int64_t *index)
{
    memcpy(s->value[s->top].bytes, acc, (size_t)fr_dtype_size(fr_reduce_acc(op, in)));
    s->index[s->top] = index ? *index : 0;
    s->top++;
    for (int k = 0; k < t->n_joins; k++) {
        s->top--;
        fr_reduce_combine(op, in, s->value[s->top - 1].bytes, &s->index[s->top - 1],
                          s->value[s->top].bytes, &s->index[s->top]);
    }
}
