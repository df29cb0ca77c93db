/* bind/hot/hot_array.c -- hot.h: operations on whole arrays, and those that are written out. */
#include "bind/hot/hot_int.h"

#include <string.h>

#include "base/alloc.h"

/* ---- operations by elements */

static struct fr_hot_map *
new_map(struct reader *r, fr_op op)
{
    struct fr_hot_map *m = fr_calloc(1, sizeof *m);

    if (!m) {
        r->failed = true;
        fr_hot_leave(r);
        return NULL;
    }
    *m = (struct fr_hot_map){.next = r->p->maps, .op = op};
    r->p->maps = m;
    return m;
}

/* Emits an instruction that does what a map says. */
static struct fr_hot_ins *
emit_map(struct reader *r, enum fr_hot_op op, struct fr_hot_map *m, int to)
{
    struct fr_hot_ins *in = fr_hot_emit(r, op, to, 0, 0);

    in->map = m;
    return in;
}

static bool
set_arg(struct reader *r, struct fr_hot_map *m, const struct fr_hot_value *v, fr_dtype as)
{
    bool is_array = v->kind == FR_HOT_ARRAY;
    int  k = m->n_args++, reg = is_array ? v->reg : fr_hot_number_as(r, v, as);

    m->arg[k].reg = (uint16_t)reg;
    m->arg[k].ndim = is_array ? v->ndim : 0;
    m->arg[k].dtype = (fr_dtype)v->dtype;
    m->arg[k].as = as;
    return reg >= 0 && fr_hot_is_element(as) && !r->ended;
}

/* The result of an operation; weak: Python's numbers are that. False: it is left to Python. */
static bool
map(struct reader *r, fr_op op, const struct fr_hot_value *arg, int n, bool weak, struct fr_hot_value *out)
{
    struct fr_op_type  types[FR_HOST_ARGS];
    struct fr_hot_map *m;
    struct fr_err      err;
    fr_dtype           compute;
    int                ndim = 0;

    for (int k = 0; k < n; k++) {
        if (!is_number(&arg[k]) && arg[k].kind != FR_HOT_ARRAY)
            return false;
        types[k] = (struct fr_op_type){(fr_dtype)arg[k].dtype, 0};
        if (weak && arg[k].kind == FR_HOT_PYTHON)
            types[k].weak = arg[k].dtype == FR_F64 ? 'f' : arg[k].dtype == FR_I64 ? 'i' : 'b';
        if (arg[k].kind == FR_HOT_ARRAY && arg[k].ndim > ndim)
            ndim = arg[k].ndim;
    }
    if (fr_op_resolve(op, types, &compute, &err) != FR_OK || !fr_hot_is_element(fr_op_result(op, compute)) || !(m = new_map(r, op)))
        return false;
    for (int k = 0; k < n; k++)
        if (!set_arg(r, m, &arg[k], fr_op_arg(op, k, compute)))
            return false;
    m->ndim = (uint8_t)ndim;
    m->to = fr_op_result(op, compute);
    *out = ndim ? fr_hot_new_array(r, m->to, ndim) : number(FR_HOT_NUMPY, m->to, fr_hot_fresh(r, 1));
    emit_map(r, FR_HOT_MAP, m, out->reg);
    return !r->ended;
}

void
fr_hot_push_or_leave(struct reader *r, bool done, const struct fr_hot_value *v)
{
    if (done)
        fr_hot_push(r, *v);
    else
        fr_hot_leave(r);
}

void
fr_hot_map(struct reader *r, fr_op op, const struct fr_hot_value *arg, int n)
{
    struct fr_hot_value out;
    bool                done = map(r, op, arg, n, true, &out);

    fr_hot_push_or_leave(r, done, &out);
}

/* to[...] = v */
static bool
copy_into(struct reader *r, const struct fr_hot_value *to, const struct fr_hot_value *v)
{
    struct fr_hot_map *m;

    if ((!is_number(v) && v->kind != FR_HOT_ARRAY) || (v->kind == FR_HOT_ARRAY && v->ndim > to->ndim) || !(m = new_map(r, FR_OP_cast)) ||
        (is_float(v) && !fr_dtype_is_float(to->dtype) && to->dtype != FR_BOOL) || !set_arg(r, m, v, (fr_dtype)to->dtype))
        return false;
    m->ndim = to->ndim;
    m->to = (fr_dtype)to->dtype;
    emit_map(r, FR_HOT_COPY, m, to->reg);
    return !r->ended;
}

static const fr_op operators[N_OPERATORS] = {
    [ADD] = FR_OP_add, [AND] = FR_OP_bitwise_and, [FLOORDIV] = FR_OP_floor_divide, [LSHIFT] = FR_N_OPS, [MATMUL] = FR_N_OPS,
    [MUL] = FR_OP_multiply, [MOD] = FR_OP_remainder, [OR] = FR_OP_bitwise_or, [POWER] = FR_N_OPS, [RSHIFT] = FR_N_OPS,
    [SUB] = FR_OP_subtract, [DIV] = FR_OP_divide, [XOR] = FR_OP_bitwise_xor,
};

void
fr_hot_operate_arrays(struct reader *r, int what, const struct fr_hot_value *a, const struct fr_hot_value *b, bool in_place)
{
    const struct fr_hot_value arg[2] = {*a, *b};
    struct fr_hot_value       out;
    union fr_hot_cell         by;
    fr_op                     op = operators[what];
    int                       n = 2;

    if (what == POWER && fr_hot_constant_of(r, b, &by) && fr_dtype_is_float(a->dtype)) { /* as NumPy has them */
        if (b->dtype == FR_F64 ? by.f == 2 : by.i == 2)
            op = FR_OP_square;
        else if (b->dtype == FR_F64 && by.f == 0.5)
            op = FR_OP_sqrt;
        n = 1;
    }
    if (op == FR_N_OPS || !map(r, op, arg, n, true, &out)) {
        fr_hot_leave(r);
    } else if (!in_place || a->kind != FR_HOT_ARRAY) {
        fr_hot_push(r, out);
    } else if (out.ndim > a->ndim || !fr_dtype_same_kind(out.dtype, a->dtype) || !copy_into(r, a, &out)) {
        fr_hot_leave(r);
    } else {
        fr_hot_push(r, *a);
    }
}

/* ---- arrays that are written out */

/* An array for dims in registers; each element has that number's bits. */
static struct fr_hot_value
make(struct reader *r, fr_dtype d, int ndim, int first, int64_t bits)
{
    struct fr_hot_value v = fr_hot_new_array(r, d, ndim);
    struct fr_hot_ins  *in = fr_hot_emit(r, FR_HOT_MAKE, v.reg, 0, first);

    in->n = v.ndim;
    in->c = (uint16_t)d;
    in->i = bits;
    return v;
}

/* Arrays of one shape as one with an axis more. */
static bool
array_of_arrays(struct reader *r, const struct fr_hot_value *of, struct fr_hot_value *out)
{
    const struct fr_hot_value *item = &r->item[of->items];
    int                        ndim = item->ndim, dims = fr_hot_fresh(r, FR_HOT_AXES);

    if (ndim + 1 > FR_HOT_AXES)
        return false;
    fr_hot_emit(r, FR_HOT_CONST, dims, 0, 0)->i = of->ndim;
    for (int i = 0; i < ndim; i++)
        fr_hot_emit(r, FR_HOT_DIM, dims + 1 + i, item->reg, 0)->n = (uint8_t)i;
    for (int k = 1; k < of->ndim; k++) {
        if (item[k].kind != FR_HOT_ARRAY || item[k].ndim != ndim || item[k].dtype != item->dtype)
            return false;
        for (int i = 0; i < ndim; i++) {
            int size = fr_hot_fresh(r, 2);

            fr_hot_emit(r, FR_HOT_DIM, size, item[k].reg, 0)->n = (uint8_t)i;
            fr_hot_emit(r, FR_HOT_EQ_I, size + 1, size, dims + 1 + i);
            fr_hot_emit(r, FR_HOT_UNLESS, 0, size + 1, 0)->at = -1; /* NumPy says what is wrong */
        }
    }
    *out = make(r, (fr_dtype)item->dtype, ndim + 1, dims, 0);
    for (int k = 0; k < of->ndim; k++) {
        struct fr_hot_value part = *out, at = fr_hot_whole(r, k);

        part.reg = (int16_t)fr_hot_fresh(r, 1);
        fr_hot_emit(r, FR_HOT_TAKE, part.reg, out->reg, at.reg)->c = (uint16_t)(part.ndim--);
        if (!copy_into(r, &part, &item[k]))
            return false;
    }
    return !r->ended;
}

bool
fr_hot_array_of(struct reader *r, const struct fr_hot_value *of, fr_dtype d, struct fr_hot_value *out)
{
    const struct fr_hot_value *item = &r->item[of->items];
    bool                       rows = of->ndim > 0 && is_written_out(&item[0]);
    int                        n_columns = rows ? item[0].ndim : 1, dims = fr_hot_fresh(r, 2), reg;
    bool                       is_given = d != FR_N_DTYPES;

    if (of->ndim == 0 || n_columns == 0)
        return false;
    if (item[0].kind == FR_HOT_ARRAY)
        return !is_given && array_of_arrays(r, of, out);
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < of->ndim; k++) {
            if (is_written_out(&item[k]) != rows || (rows && item[k].ndim != n_columns))
                return false;
            for (int l = 0; l < n_columns; l++) {
                const struct fr_hot_value *v = rows ? &r->item[item[k].items + l] : &item[k];

                if (!is_number(v))
                    return false;
                if (pass == 0) {
                    d = d == FR_N_DTYPES ? (fr_dtype)v->dtype : is_given ? d : fr_dtype_promote(d, (fr_dtype)v->dtype);
                } else {
                    struct fr_hot_ins *in;

                    if ((reg = fr_hot_number_as(r, v, d)) < 0)
                        return false;
                    in = fr_hot_emit(r, FR_HOT_PUT, reg, out->reg, 0);
                    in->n = (uint8_t)d;
                    in->i = k * n_columns + l;
                }
            }
        }
        if (pass == 1)
            break;
        if (!fr_hot_is_element(d))
            return false;
        fr_hot_emit(r, FR_HOT_CONST, dims, 0, 0)->i = of->ndim;
        fr_hot_emit(r, FR_HOT_CONST, dims + 1, 0, 0)->i = n_columns;
        *out = make(r, d, rows ? 2 : 1, dims, 0);
    }
    return !r->ended;
}

void
fr_hot_store_window(struct reader *r, const struct fr_hot_value *window, const struct fr_hot_value *v)
{
    struct fr_hot_value made;
    bool                is_row = is_written_out(v);

    if ((is_row && !fr_hot_array_of(r, v, FR_N_DTYPES, &made)) || !copy_into(r, window, is_row ? &made : v))
        fr_hot_leave(r);
}

/* ---- products */

void
fr_hot_operate_product(struct reader *r, const struct fr_hot_value *a, const struct fr_hot_value *b, bool is_dot)
{
    struct fr_hot_value out;
    struct fr_hot_ins  *in;
    bool                arrays = a->kind == FR_HOT_ARRAY && b->kind == FR_HOT_ARRAY;

    if (arrays && a->dtype == b->dtype && (a->dtype == FR_F64 || a->dtype == FR_F32) && a->ndim <= 2 && b->ndim <= 2 && a->ndim + b->ndim > 2) {
        out = fr_hot_new_array(r, (fr_dtype)a->dtype, a->ndim + b->ndim - 2);
        in = fr_hot_emit(r, FR_HOT_PRODUCT, out.reg, a->reg, b->reg);
        in->n = (uint8_t)(a->ndim | b->ndim << 2);
        in->c = is_dot;
        in->i = a->dtype;
        fr_hot_push(r, out);
        return;
    }
    if (arrays && a->dtype == FR_F64 && b->dtype == FR_F64 && a->ndim == 1 && b->ndim == 1) {
        int to = fr_hot_fresh(r, 1);

        fr_hot_emit(r, FR_HOT_DOT, to, a->reg, b->reg)->c = is_dot;
        fr_hot_push_new(r, FR_HOT_NUMPY, FR_F64, to);
        return;
    }
    fr_hot_leave(r);
}

/* ---- folds, copies, arrays of one number, axes */

void
fr_hot_fold(struct reader *r, fr_op op, const struct fr_hot_value *v)
{
    fr_dtype           d = (fr_dtype)v->dtype, to = fr_op_result(op, d);
    bool               truth = op == FR_OP_any || op == FR_OP_all;
    struct fr_hot_map *m;
    int                reg;

    if (truth != (d == FR_BOOL) || !(to == d || fr_op_finds_index(op)) || !(m = new_map(r, op)) || !set_arg(r, m, v, d)) {
        fr_hot_leave(r);
        return;
    }
    m->to = to;
    reg = fr_hot_fresh(r, 1);
    emit_map(r, FR_HOT_FOLD, m, reg);
    fr_hot_push(r, number(FR_HOT_NUMPY, to, reg));
}

void
fr_hot_fold_axis(struct reader *r, fr_op op, const struct fr_hot_value *v, int64_t axis)
{
    struct fr_hot_map  *m;
    struct fr_hot_value out;

    axis += axis < 0 ? 2 : 0;
    if (v->ndim != 2 || axis < 0 || axis > 1 || v->dtype == FR_BOOL || fr_op_finds_index(op) || fr_op_result(op, v->dtype) != v->dtype ||
        !(m = new_map(r, op)) || !set_arg(r, m, v, (fr_dtype)v->dtype)) {
        fr_hot_leave(r);
        return;
    }
    m->ndim = 1;
    m->to = (fr_dtype)v->dtype;
    out = fr_hot_new_array(r, m->to, 1);
    emit_map(r, FR_HOT_FOLD_AXIS, m, out.reg)->n = (uint8_t)axis;
    fr_hot_push(r, out);
}

void
fr_hot_convert(struct reader *r, const struct fr_hot_value *v, fr_dtype to)
{
    struct fr_hot_map  *m = new_map(r, FR_OP_cast);
    struct fr_hot_value out;

    if (v->kind != FR_HOT_ARRAY || (fr_dtype_is_float((fr_dtype)v->dtype) && !fr_dtype_is_float(to) && to != FR_BOOL) || !m || !set_arg(r, m, v, to)) {
        fr_hot_leave(r);
        return;
    }
    m->ndim = v->ndim;
    m->to = to;
    out = fr_hot_new_array(r, to, v->ndim);
    emit_map(r, FR_HOT_MAP, m, out.reg);
    fr_hot_push(r, out);
}

/* The bits of a small number. */
static int64_t
bits_of(int number, fr_dtype d)
{
    union {
        int64_t i;
        double  f;
        float   f32;
    } v = {.i = number};

    if (d == FR_F64)
        v.f = number;
    else if (d == FR_F32)
        v.f32 = (float)number;
    return v.i;
}

/* An array for a shape that is a number or some. */
void
fr_hot_filled(struct reader *r, const struct fr_hot_value *shape, fr_dtype d, int number)
{
    const struct fr_hot_value *item = is_written_out(shape) ? &r->item[shape->items] : shape;
    int                        n = is_written_out(shape) ? shape->ndim : 1, first = fr_hot_fresh(r, FR_HOT_AXES);

    if (n < 1 || n > FR_HOT_AXES) {
        fr_hot_leave(r);
        return;
    }
    for (int k = 0; k < n; k++) {
        if (!is_whole(&item[k]) || item[k].dtype == FR_BOOL) {
            fr_hot_leave(r);
            return;
        }
        fr_hot_move(r, &item[k], first + k);
    }
    fr_hot_push(r, make(r, d, n, first, bits_of(number, d)));
}

void
fr_hot_like(struct reader *r, const struct fr_hot_value *v, int number)
{
    int first = fr_hot_fresh(r, FR_HOT_AXES);

    for (int k = 0; k < v->ndim; k++)
        fr_hot_emit(r, FR_HOT_DIM, first + k, v->reg, 0)->n = (uint8_t)k;
    fr_hot_push(r, make(r, (fr_dtype)v->dtype, v->ndim, first, bits_of(number, (fr_dtype)v->dtype)));
}

struct fr_hot_value
fr_hot_new_axis(struct reader *r, const struct fr_hot_value *v, int axis)
{
    struct fr_hot_value out = *v;
    struct fr_hot_ins  *in = fr_hot_emit(r, FR_HOT_NEW_AXIS, out.reg = (int16_t)fr_hot_fresh(r, 1), v->reg, 0);

    in->n = (uint8_t)axis;
    in->c = out.ndim++;
    return out;
}

struct fr_hot_value
fr_hot_transposed(struct reader *r, const struct fr_hot_value *v)
{
    struct fr_hot_value out = *v;

    fr_hot_emit(r, FR_HOT_TRANSPOSE, out.reg = (int16_t)fr_hot_fresh(r, 1), v->reg, 0)->n = v->ndim;
    return out;
}
