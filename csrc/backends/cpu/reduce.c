#include "backends/cpu/reduce.h"

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

/* One row of one element each. */
void
fr_reduce_combine(fr_op op, fr_dtype in, void *acc, int64_t *acc_index, const void *other,
                  const int64_t *other_index)
{
    fr_reduce->accum[FR_REDUCE_ROW(op)][fr_reduce_acc(op, in)](1, 1, acc, other, 0, acc_index,
                                                               other_index ? *other_index : 0);
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
        static const _Alignas(16) char zero[16];

        fr_reduce_combine(FR_OP_sum, d, out, NULL, zero, NULL);
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
