/* bind/hot/hot_array.c -- hot.h: operations on whole arrays, those that are written out, and NumPy's functions and methods
 * of them. */
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

/* Emits an instruction that does what a map says, with a new register. */
static int
emit_map(struct reader *r, enum fr_hot_op op, struct fr_hot_map *m, int to)
{
    fr_hot_emit(r, op, to, 0, 0)->map = m;
    return to;
}

/* A number as an operand of that dtype: its register; -1: it is none. */
static int
number_as(struct reader *r, const struct fr_hot_value *v, fr_dtype as)
{
    int to;

    if (fr_dtype_is_float(as))
        return fr_hot_as_double(r, v);
    if (as == FR_BOOL)
        return fr_hot_as_truth(r, v);
    if (!is_whole(v))
        return -1;
    if (v->dtype == as || v->dtype == FR_BOOL || as == FR_I64)
        return v->reg;
    fr_hot_emit(r, FR_HOT_FIT_I, to = fr_hot_fresh(r, 1), v->reg, 0)->n = (uint8_t)as; /* else NumPy raises OverflowError */
    return to;
}

static bool
set_arg(struct reader *r, struct fr_hot_map *m, const struct fr_hot_value *v, fr_dtype as)
{
    bool is_array = v->kind == FR_HOT_ARRAY;
    int  k = m->n_args++, reg = is_array ? v->reg : number_as(r, v, as);

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
    *out = number(ndim ? FR_HOT_ARRAY : FR_HOT_NUMPY, m->to, emit_map(r, FR_HOT_MAP, m, fr_hot_fresh(r, 1)));
    out->ndim = m->ndim;
    r->p->makes |= ndim > 0;
    return !r->ended;
}

static void
push_or_leave(struct reader *r, bool done, const struct fr_hot_value *v)
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

    push_or_leave(r, done, &out);
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
    struct fr_hot_value v = number(FR_HOT_ARRAY, d, fr_hot_fresh(r, 1));
    struct fr_hot_ins  *in = fr_hot_emit(r, FR_HOT_MAKE, v.reg, 0, first);

    in->n = v.ndim = (uint8_t)ndim;
    in->c = (uint16_t)d;
    in->i = bits;
    r->p->makes = true;
    return v;
}

static bool
is_written_out(const struct fr_hot_value *v)
{
    return v->kind == FR_HOT_TUPLE || v->kind == FR_HOT_DISPLAY;
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

/* Numbers, or equally long rows of numbers, as an array, of a dtype (FR_N_DTYPES: theirs). */
static bool
array_of(struct reader *r, const struct fr_hot_value *of, fr_dtype d, struct fr_hot_value *out)
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

                    if ((reg = number_as(r, v, d)) < 0)
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

    if ((is_row && !array_of(r, v, FR_N_DTYPES, &made)) || !copy_into(r, window, is_row ? &made : v))
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
        out = number(FR_HOT_ARRAY, a->dtype, fr_hot_fresh(r, 1));
        out.ndim = (uint8_t)(a->ndim + b->ndim - 2);
        in = fr_hot_emit(r, FR_HOT_PRODUCT, out.reg, a->reg, b->reg);
        in->n = (uint8_t)(a->ndim | b->ndim << 2);
        in->c = is_dot;
        in->i = a->dtype;
        r->p->makes = true;
        fr_hot_push(r, out);
        return;
    }
    if (arrays && a->dtype == FR_F64 && b->dtype == FR_F64 && a->ndim == 1 && b->ndim == 1) {
        int to = fr_hot_fresh(r, 1);

        fr_hot_emit(r, FR_HOT_DOT, to, a->reg, b->reg)->c = is_dot;
        fr_hot_push_new(r, FR_HOT_NUMPY, FR_F64, to);
        return;
    }
    if (is_dot && !arrays && (a->kind == FR_HOT_ARRAY ? a : b)->dtype == FR_F64) { /* by a number: an array of no axes */
        const struct fr_hot_value arg[2] = {*a, *b};

        if (a->kind == FR_HOT_ARRAY || b->kind == FR_HOT_ARRAY) {
            bool done = map(r, FR_OP_multiply, arg, 2, false, &out);

            push_or_leave(r, done, &out);
            return;
        }
    }
    fr_hot_leave(r);
}

/* ---- functions and methods */

enum what { DOT, FOLD, MEAN, ARRAY, FILLED, LIKE, COPY, NORM, OUTER, BY_ELEMENTS, TRANSPOSED };

static const struct row {
    const char *name;       /* of NumPy's function, and of arrays' method, where it is one */
    uint8_t     what, n_args;
    bool        is_method;
    fr_op       op;
    int         number;     /* of which an array is made */
} rows[] = {
    {"dot", DOT, 2, true, 0, 0},          {"sum", FOLD, 1, true, FR_OP_sum, 0},       {"prod", FOLD, 1, true, FR_OP_prod, 0},
    {"max", FOLD, 1, true, FR_OP_max, 0}, {"min", FOLD, 1, true, FR_OP_min, 0},       {"amax", FOLD, 1, false, FR_OP_max, 0},
    {"amin", FOLD, 1, false, FR_OP_min, 0}, {"any", FOLD, 1, true, FR_OP_any, 0},     {"all", FOLD, 1, true, FR_OP_all, 0},
    {"argmax", FOLD, 1, true, FR_OP_argmax, 0}, {"argmin", FOLD, 1, true, FR_OP_argmin, 0}, {"mean", MEAN, 1, true, 0, 0},
    {"array", ARRAY, 1, false, 0, 0},     {"zeros", FILLED, 1, false, 0, 0},          {"ones", FILLED, 1, false, 0, 1},
    {"empty", FILLED, 1, false, 0, 0},    {"zeros_like", LIKE, 1, false, 0, 0},       {"ones_like", LIKE, 1, false, 0, 1},
    {"empty_like", LIKE, 1, false, 0, 0}, {"copy", COPY, 1, true, 0, 0},              {"linalg.norm", NORM, 1, false, 0, 0},
    {"outer", OUTER, 2, false, 0, 0},     {"where", BY_ELEMENTS, 3, false, FR_OP_where, 0}, {"clip", BY_ELEMENTS, 3, true, FR_OP_clip, 0},           {"transpose", TRANSPOSED, 1, true, 0, 0},
};

static void
fold(struct reader *r, fr_op op, const struct fr_hot_value *v)
{
    fr_dtype           d = (fr_dtype)v->dtype, to = fr_op_result(op, d);
    bool               truth = op == FR_OP_any || op == FR_OP_all;
    struct fr_hot_map *m;

    if (truth != (d == FR_BOOL) || !(to == d || fr_op_finds_index(op)) || !(m = new_map(r, op)) || !set_arg(r, m, v, d)) {
        fr_hot_leave(r);
        return;
    }
    m->to = to;
    fr_hot_push(r, number(FR_HOT_NUMPY, to, emit_map(r, FR_HOT_FOLD, m, fr_hot_fresh(r, 1))));
}

static void
mean(struct reader *r, const struct fr_hot_value *v)
{
    struct fr_hot_value sum;
    int                 n = fr_hot_fresh(r, 1), to = fr_hot_fresh(r, 1);

    if (v->dtype != FR_F64) {
        fr_hot_leave(r);
        return;
    }
    fold(r, FR_OP_sum, v);
    sum = fr_hot_pop(r);
    fr_hot_emit(r, FR_HOT_SIZE, n, v->reg, 0)->n = v->ndim;
    fr_hot_emit(r, FR_HOT_I_TO_F, n, n, 0);
    fr_hot_emit(r, FR_HOT_DIV_F, to, sum.reg, n);
    if (!r->ended)
        fr_hot_push_new(r, FR_HOT_NUMPY, FR_F64, to);
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

fr_dtype
fr_hot_dtype_of(PyObject *type)
{
    fr_dtype d;

    if (type == (PyObject *)&PyFloat_Type)
        return FR_F64;
    if (type == (PyObject *)&PyLong_Type)
        return FR_I64;
    if (type == (PyObject *)&PyBool_Type)
        return FR_BOOL;
    d = fr_hot_number_dtype((PyTypeObject *)type);
    return d;
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

static void
like(struct reader *r, const struct fr_hot_value *v, int number)
{
    int first = fr_hot_fresh(r, FR_HOT_AXES);

    for (int k = 0; k < v->ndim; k++)
        fr_hot_emit(r, FR_HOT_DIM, first + k, v->reg, 0)->n = (uint8_t)k;
    fr_hot_push(r, make(r, (fr_dtype)v->dtype, v->ndim, first, bits_of(number, (fr_dtype)v->dtype)));
}

static void
copy(struct reader *r, const struct fr_hot_value *v)
{
    struct fr_hot_map  *m = new_map(r, FR_OP_cast);
    struct fr_hot_value out = *v;

    if (!m || !set_arg(r, m, v, (fr_dtype)v->dtype)) {
        fr_hot_leave(r);
        return;
    }
    m->ndim = v->ndim;
    m->to = (fr_dtype)v->dtype;
    out.reg = (int16_t)emit_map(r, FR_HOT_MAP, m, fr_hot_fresh(r, 1));
    r->p->makes = true;
    fr_hot_push(r, out);
}

static void
norm(struct reader *r, const struct fr_hot_value *v)
{
    struct fr_hot_value square;
    int                 to = fr_hot_fresh(r, 1);

    if (v->ndim != 1 || v->dtype != FR_F64) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_operate_product(r, v, v, true);
    square = fr_hot_pop(r);
    fr_hot_emit(r, FR_HOT_SQRT_F, to, square.reg, 0);
    fr_hot_push_new(r, FR_HOT_NUMPY, FR_F64, to);
}

static void
outer(struct reader *r, const struct fr_hot_value *a, const struct fr_hot_value *b)
{
    struct fr_hot_value arg[2] = {*a, *b};

    if (a->kind != FR_HOT_ARRAY || b->kind != FR_HOT_ARRAY || a->ndim != 1 || b->ndim != 1) {
        fr_hot_leave(r);
        return;
    }
    arg[0] = fr_hot_new_axis(r, a, 1);
    fr_hot_map(r, FR_OP_multiply, arg, 2);
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

/* A list of numbers as an array. */
static bool
array_of_list(struct reader *r, const struct fr_hot_value *list, struct fr_hot_value *out)
{
    int kind = list->n_parts ? list->part[0].kind : FR_HOT_PYTHON, d = list->n_parts ? list->part[0].dtype : FR_F64;

    if (kind != FR_HOT_PYTHON && kind != FR_HOT_NUMPY)
        return false;
    *out = number(FR_HOT_ARRAY, d, fr_hot_fresh(r, 1));
    out->ndim = 1;
    fr_hot_emit(r, FR_HOT_LIST_ARRAY, out->reg, list->reg, 0)->c = (uint16_t)d;
    r->p->makes = true;
    return !r->ended;
}

/* What is written out, or a list, becomes an array; false: it cannot be. */
static bool
as_array(struct reader *r, struct fr_hot_value *v)
{
    struct fr_hot_value of = *v;

    if (of.kind == FR_HOT_LIST)
        return array_of_list(r, &of, v);
    return !is_written_out(&of) || array_of(r, &of, FR_N_DTYPES, v);
}

static void
call_row(struct reader *r, const struct row *row, struct fr_hot_value *arg, fr_dtype dtype)
{
    struct fr_hot_value out;
    bool                done;

    if (row->what != FILLED && row->what != ARRAY) /* NumPy makes an array of it first */
        for (int k = 0; k < row->n_args; k++)
            if (!as_array(r, &arg[k])) {
                fr_hot_leave(r);
                return;
            }
    if (row->what != FILLED && row->what != ARRAY && row->what != DOT && row->what != BY_ELEMENTS && arg[0].kind != FR_HOT_ARRAY) {
        fr_hot_leave(r);
        return;
    }
    if (dtype != FR_N_DTYPES && row->what != FILLED && row->what != ARRAY) {
        fr_hot_leave(r);
        return;
    }
    switch (row->what) {
    case DOT: fr_hot_operate_product(r, &arg[0], &arg[1], true); break;
    case FOLD: fold(r, row->op, &arg[0]); break;
    case MEAN: mean(r, &arg[0]); break;
    case ARRAY:
        if (arg[0].kind == FR_HOT_ARRAY && dtype == FR_N_DTYPES) {
            copy(r, &arg[0]);
            break;
        }
        if (arg[0].kind == FR_HOT_LIST && dtype == FR_N_DTYPES)
            done = array_of_list(r, &arg[0], &out);
        else
            done = is_written_out(&arg[0]) && array_of(r, &arg[0], dtype, &out);
        push_or_leave(r, done, &out);
        break;
    case FILLED: fr_hot_filled(r, &arg[0], dtype == FR_N_DTYPES ? FR_F64 : dtype, row->number); break;
    case LIKE: like(r, &arg[0], row->number); break;
    case COPY: copy(r, &arg[0]); break;
    case NORM: norm(r, &arg[0]); break;
    case OUTER: outer(r, &arg[0], &arg[1]); break;
    case BY_ELEMENTS: fr_hot_map(r, row->op, arg, row->n_args); break;
    case TRANSPOSED: fr_hot_push(r, fr_hot_transposed(r, &arg[0])); break;
    default: fr_hot_leave(r); break;
    }
}

/* ---- few.h's functions */

/* What a result is: of which dtype and how many axes. */
enum rule { LIKE_FIRST, LIKE_SECOND, JOINED, STACKED, SQUARE, RANGE, LINE, INDICES, A_DOUBLE, A_BOOL };

static const struct few_row {
    const char *name;
    uint8_t     least, most; /* arguments */
    enum rule   rule;
} few_rows[] = {
    {"vstack", 1, 1, STACKED},     {"hstack", 1, 1, JOINED},     {"concatenate", 1, 2, JOINED}, {"eye", 1, 1, SQUARE},         {"identity", 1, 1, SQUARE},
    {"arange", 1, 2, RANGE},       {"linspace", 3, 3, LINE},     {"cross", 2, 2, LIKE_FIRST},   {"linalg.inv", 1, 1, LIKE_FIRST}, {"linalg.solve", 2, 2, LIKE_SECOND},
    {"linalg.cholesky", 1, 1, LIKE_FIRST}, {"linalg.det", 1, 1, A_DOUBLE}, {"diff", 1, 1, LIKE_FIRST}, {"roll", 2, 2, LIKE_FIRST}, {"sort", 1, 1, LIKE_FIRST},
    {"argsort", 1, 1, INDICES},    {"median", 1, 1, A_DOUBLE},   {"trace", 1, 1, A_DOUBLE},     {"allclose", 2, 2, A_BOOL},    {"array_equal", 2, 2, A_BOOL}, {"append", 2, 2, LIKE_FIRST},
};

/* What the result of such a function has to be; false: that cannot be told. */
static bool
result_of(const struct reader *r, const struct few_row *row, const struct fr_hot_value *arg, int n, struct fr_hot_value *out)
{
    const struct fr_hot_value *first = &arg[row->rule == LIKE_SECOND ? 1 : 0];

    *out = (struct fr_hot_value){.kind = FR_HOT_ARRAY, .dtype = FR_F64, .ndim = 1};
    if (row->rule == STACKED || row->rule == JOINED) {
        if (!is_written_out(first) || first->ndim == 0)
            return false;
        first = &r->item[first->items];
    }
    switch (row->rule) {
    case SQUARE: out->ndim = 2; return true;
    case LINE: return true;
    case RANGE: out->dtype = FR_I64; return is_whole(&arg[0]) && is_whole(&arg[n - 1]);
    case A_DOUBLE: out->kind = FR_HOT_NUMPY; out->ndim = 0; return true;
    case A_BOOL: *out = number(FR_HOT_PYTHON, FR_BOOL, 0); return true;
    default: break;
    }
    if (first->kind != FR_HOT_ARRAY)
        return false;
    out->dtype = row->rule == INDICES ? FR_I64 : first->dtype;
    out->ndim = row->rule == STACKED && first->ndim == 1 ? 2 : first->ndim;
    return true;
}

/* A function of few.h's; false: it is none, or what it would give is not known. */
static bool
call_few(struct reader *r, const struct few_row *row, const struct fr_hot_value *arg, int n)
{
    struct fr_hot_few *f = fr_calloc(1, sizeof *f);
    int                n_items = 0;

    if (!f)
        return false;
    f->next = r->p->fews;
    r->p->fews = f;
    f->call = fr_few_of(row->name);
    f->n = n;
    if (!f->call || !result_of(r, row, arg, n, &f->to))
        return false;
    for (int k = 0; k < n; k++) {
        f->arg[k] = arg[k];
        if (is_written_out(&arg[k])) {
            if (n_items + arg[k].ndim > FR_HOT_FEW_ITEMS)
                return false;
            f->arg[k].items = (int16_t)n_items;
            for (int i = 0; i < arg[k].ndim; i++)
                f->item[n_items++] = r->item[arg[k].items + i];
        } else if (!is_number(&arg[k]) && arg[k].kind != FR_HOT_ARRAY) {
            return false;
        }
    }
    for (int k = 0; k < n_items; k++)
        if (!is_number(&f->item[k]) && f->item[k].kind != FR_HOT_ARRAY)
            return false;
    f->to.reg = (int16_t)fr_hot_fresh(r, 1);
    fr_hot_emit(r, FR_HOT_FEW, f->to.reg, 0, 0)->few = f;
    r->p->makes = true;
    fr_hot_push(r, f->to);
    return true;
}

/* The operation that a ufunc is; FR_N_OPS: none of ours. */
static fr_op
ufunc_op(PyObject *f, int n)
{
    PyObject   *name = strcmp(Py_TYPE(f)->tp_name, "numpy.ufunc") == 0 ? PyObject_GetAttrString(f, "__name__") : NULL;
    const char *as = name ? PyUnicode_AsUTF8(name) : NULL;
    fr_op       op = as ? fr_op_find(as, (int)strlen(as)) : FR_N_OPS;

    PyErr_Clear();
    Py_XDECREF(name);
    if (op == FR_N_OPS || fr_op_info[op].class_ != FR_CLASS_MAP || fr_op_info[op].arity != n || op == FR_OP_power || fr_op_info[op].flags & FR_OPF_OURS)
        return FR_N_OPS;
    return op;
}

bool
fr_hot_call_numpy(struct reader *r, PyObject *f, struct fr_hot_value *arg, int n, fr_dtype dtype)
{
    static PyObject *found[FR_LEN(rows)], *few_found[FR_LEN(few_rows)];
    fr_op            op = dtype == FR_N_DTYPES ? ufunc_op(f, n) : FR_N_OPS;

    if (op != FR_N_OPS) {
        for (int k = 0; k < n; k++)
            if (!as_array(r, &arg[k])) {
                fr_hot_leave(r);
                return true;
            }
        fr_hot_map(r, op, arg, n);
        return true;
    }
    for (size_t k = 0; k < FR_LEN(rows); k++) {
        if (!found[k]) {
            found[k] = fr_numpy_attr(rows[k].name);
            PyErr_Clear();
        }
        if (found[k] == f && rows[k].n_args == n) {
            call_row(r, &rows[k], arg, dtype);
            return true;
        }
    }
    for (size_t k = 0; k < FR_LEN(few_rows) && dtype == FR_N_DTYPES; k++) {
        if (!few_found[k]) {
            few_found[k] = fr_numpy_attr(few_rows[k].name);
            PyErr_Clear();
        }
        if (few_found[k] == f && n >= few_rows[k].least && n <= few_rows[k].most)
            return call_few(r, &few_rows[k], arg, n);
    }
    return false;
}

/* ---- methods */

bool
fr_hot_load_method(struct reader *r, const struct fr_hot_value *of, PyObject *name)
{
    PyTypeObject *type = of->kind == FR_HOT_LIST ? &PyList_Type : &PyArray_Type;
    PyObject     *method = _PyType_Lookup(type, name);

    if (!method || !Py_IS_TYPE(method, &PyMethodDescr_Type))
        return false;
    fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_OBJECT, .object = method, .reg = -1}); /* (of a type that is for ever) */
    fr_hot_push(r, *of);
    return true;
}

/* What a list's items seem to be, after it got one. */
static void
note_item(struct fr_hot_value *list, const struct fr_hot_value *v)
{
    if (list->n_parts > 0 || v->kind == FR_HOT_NONE)
        return;
    list->part[0].kind = v->kind;
    list->part[0].dtype = v->dtype;
    list->part[0].ndim = v->ndim;
    list->n_parts = 1;
    for (int k = 0; v->kind == FR_HOT_LIST && k < v->n_parts && k + 1 < FR_HOT_PARTS; k++) {
        list->part[k + 1] = v->part[k];
        list->n_parts++;
    }
}

static bool
may_be_item(const struct fr_hot_value *v)
{
    return is_number(v) || v->kind == FR_HOT_ARRAY || v->kind == FR_HOT_NONE || v->kind == FR_HOT_LIST;
}

static void
append_to(struct reader *r, struct fr_hot_value *list, const struct fr_hot_value *v)
{
    struct fr_hot_value made = *v;
    struct fr_hot_ins  *in;

    if (v->kind == FR_HOT_DISPLAY)
        made = fr_hot_new_list(r, v);
    if (r->ended || !may_be_item(&made)) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_as_object(r, &made);
    in = fr_hot_emit(r, FR_HOT_APPEND, list->reg, made.kind == FR_HOT_NONE ? TEMPORARY : made.reg, 0);
    in->n = made.ndim;
    in->i = made.kind | made.dtype << 8;
    r->p->appends = true;
    note_item(list, &made);
}

struct fr_hot_value
fr_hot_new_list(struct reader *r, const struct fr_hot_value *of)
{
    struct fr_hot_value v = {.kind = FR_HOT_LIST, .reg = (int16_t)fr_hot_fresh(r, 1)};

    fr_hot_emit(r, FR_HOT_NEW_LIST, v.reg, 0, 0);
    r->p->makes = true;
    for (int k = 0; k < of->ndim && !r->ended; k++) {
        const struct fr_hot_value item = r->item[of->items + k];

        append_to(r, &v, &item);
    }
    return v;
}

static void
append(struct reader *r, struct fr_hot_value list, const struct fr_hot_value *v)
{
    append_to(r, &list, v);
    if (list.reg < FR_HOT_VARS && r->s.var[list.reg].kind == FR_HOT_LIST && !r->p->is_global[list.reg])
        note_item(&r->s.var[list.reg], v);
    fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NONE, .reg = -1});
}

void
fr_hot_list_item(struct reader *r, const struct fr_hot_value *list, int index)
{
    struct fr_hot_value v = {.kind = list->part[0].kind, .dtype = list->part[0].dtype, .ndim = list->part[0].ndim};
    struct fr_hot_ins  *in;

    if (list->n_parts == 0 || v.kind == FR_HOT_NONE) {
        fr_hot_leave(r);
        return;
    }
    for (int k = 1; k < list->n_parts; k++)
        v.part[v.n_parts++] = list->part[k];
    v.is_borrowed = v.kind == FR_HOT_ARRAY || v.kind == FR_HOT_LIST;
    v.reg = (int16_t)fr_hot_fresh(r, 1);
    in = fr_hot_emit(r, FR_HOT_LIST_ITEM, v.reg, list->reg, index);
    in->n = v.kind;
    in->c = v.dtype;
    in->i = v.ndim;
    r->p->makes = true;
    fr_hot_push(r, v);
}

void
fr_hot_list_store(struct reader *r, const struct fr_hot_value *list, int index, const struct fr_hot_value *v)
{
    struct fr_hot_value made = *v;
    struct fr_hot_ins  *in;

    if (v->kind == FR_HOT_DISPLAY)
        made = fr_hot_new_list(r, v);
    if (r->ended || !may_be_item(&made)) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_as_object(r, &made);
    in = fr_hot_emit(r, FR_HOT_LIST_STORE, made.kind == FR_HOT_NONE ? TEMPORARY : made.reg, list->reg, index);
    in->n = made.ndim;
    in->i = made.kind | made.dtype << 8;
    r->p->appends = true;
}

void
fr_hot_call_method(struct reader *r, PyObject *method, const struct fr_hot_value *of, const struct fr_hot_value *arg, int n)
{
    const char         *name = PyUnicode_AsUTF8(PyDescr_NAME(method));
    struct fr_hot_value all[FR_HOST_ARGS] = {*of};

    PyErr_Clear();
    if (of->kind == FR_HOT_LIST) {
        if (name && strcmp(name, "append") == 0 && n == 1)
            append(r, *of, arg);
        else
            fr_hot_leave(r);
        return;
    }
    for (int k = 0; k < n && k + 1 < (int)FR_LEN(all); k++)
        all[k + 1] = arg[k];
    for (size_t k = 0; name && k < FR_LEN(rows); k++)
        if (rows[k].is_method && rows[k].n_args == n + 1 && strcmp(rows[k].name, name) == 0) {
            call_row(r, &rows[k], all, FR_N_DTYPES);
            return;
        }
    fr_hot_leave(r);
}
