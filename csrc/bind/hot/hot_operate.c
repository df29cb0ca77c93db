/* bind/hot/hot_operate.c -- hot.h: operators, comparisons, items of arrays. */
#include "bind/hot/hot_int.h"

#include <math.h>
#include <string.h>

enum { MOST_UNPACKED = 12 }; /* values of one tuple, or array */

/* ---- operators */

/* The type of a result of numbers, as NumPy and Python promote: Python's are weak. False: it is none of ours. */
static bool
promoted(const struct fr_hot_value *a, const struct fr_hot_value *b, int *kind, int *dtype)
{
    bool numpy = a->kind == FR_HOT_NUMPY || b->kind == FR_HOT_NUMPY;

    *kind = numpy ? FR_HOT_NUMPY : FR_HOT_PYTHON;
    if (!numpy)
        *dtype = is_float(a) || is_float(b) ? FR_F64 : FR_I64;
    else if (a->kind == b->kind)
        *dtype = fr_dtype_promote(a->dtype, b->dtype);
    else {
        const struct fr_hot_value *strong = a->kind == FR_HOT_NUMPY ? a : b, *weak = strong == a ? b : a;

        if (weak->dtype == FR_BOOL)
            *dtype = fr_dtype_promote(strong->dtype, FR_BOOL);
        else
            *dtype = fr_dtype_promote_weak(strong->dtype, is_float(weak) ? 'f' : 'i');
    }
    return *dtype != FR_BOOL && fr_hot_is_element((fr_dtype)*dtype);
}

/* A number as an operand of that dtype: its register. */
static int
operand(struct reader *r, const struct fr_hot_value *v, int kind, int dtype)
{
    int to;

    if (fr_dtype_is_float((fr_dtype)dtype)) {
        int reg = fr_hot_as_double(r, v);

        if (dtype != FR_F32 || v->dtype == FR_F32)
            return reg;
        fr_hot_emit(r, FR_HOT_ROUND_F32, to = fr_hot_fresh(r, 1), reg, 0);
        return to;
    }
    if (kind == FR_HOT_NUMPY && v->kind == FR_HOT_PYTHON && v->dtype != FR_BOOL && dtype != FR_I64) {
        fr_hot_emit(r, FR_HOT_FIT_I, to = fr_hot_fresh(r, 1), v->reg, 0)->n = (uint8_t)dtype; /* else NumPy raises OverflowError */
        return to;
    }
    return v->reg;
}

/* An int of Python's as the double that it is: Python compares and divides large ones exactly. */
static int
as_exact_double(struct reader *r, const struct fr_hot_value *v)
{
    int to;

    if (is_float(v))
        return v->reg;
    fr_hot_emit(r, FR_HOT_I_TO_F_EXACT, to = fr_hot_fresh(r, 1), v->reg, 0);
    return to;
}

/* Pushes what a double operation has given, rounded to the dtype. */
static void
push_float(struct reader *r, int kind, int dtype, int reg)
{
    if (dtype == FR_F32) {
        int to = fr_hot_fresh(r, 1);

        fr_hot_emit(r, FR_HOT_ROUND_F32, to, reg, 0);
        reg = to;
    }
    fr_hot_push_new(r, kind, dtype, reg);
}

void
fr_hot_push_int(struct reader *r, int kind, int dtype, int reg)
{
    if (dtype != FR_I64)
        fr_hot_emit(r, FR_HOT_FIT_I, reg, reg, 0)->n = (uint8_t)dtype; /* else NumPy warns */
    fr_hot_push_new(r, kind, dtype, reg);
}

/* The operator's function is asked about the two values on top. */
static void
ask_of_two(struct reader *r, const char *name)
{
    struct fr_hot_value arg[2];

    arg[1] = fr_hot_pop(r);
    arg[0] = fr_hot_pop(r);
    fr_hot_ask_operator(r, name, arg, 2);
}

static double
power(double a, double b)
{
    return a < 0 && b != floor(b) ? NAN : pow(a, b); /* what is not finite is left to Python */
}

/* a ** b. */
static void
operate_power(struct reader *r, const struct fr_hot_value *a, const struct fr_hot_value *b)
{
    bool              numpy = a->kind == FR_HOT_NUMPY || b->kind == FR_HOT_NUMPY;
    union fr_hot_cell by;
    int               x, y, to;

    if (!numpy && is_whole(a) && is_whole(b) && a->dtype == FR_I64 && fr_hot_constant_of(r, b, &by) && by.i == 2) {
        fr_hot_emit(r, FR_HOT_MUL_I, to = fr_hot_fresh(r, 1), a->reg, a->reg);
        fr_hot_push_new(r, FR_HOT_PYTHON, FR_I64, to);
        return;
    }
    if (!(is_float(a) || is_float(b)) || a->dtype == FR_F32 || b->dtype == FR_F32) {
        fr_hot_leave(r);
        return;
    }
    x = fr_hot_as_double(r, a);
    y = fr_hot_as_double(r, b);
    fr_hot_emit(r, FR_HOT_CALL2_F, to = fr_hot_fresh(r, 1), x, y)->call2 = numpy ? pow : power;
    fr_hot_push_new(r, numpy ? FR_HOT_NUMPY : FR_HOT_PYTHON, FR_F64, to);
}

static void
operate(struct reader *r, int what, bool in_place)
{
    static const int16_t       ints[N_OPERATORS] = {[ADD] = FR_HOT_ADD_I, [AND] = FR_HOT_AND_I, [FLOORDIV] = FR_HOT_FLOORDIV_I,
                                                    [LSHIFT] = FR_HOT_SHL_I, [MUL] = FR_HOT_MUL_I, [MOD] = FR_HOT_MOD_I,
                                                    [OR] = FR_HOT_OR_I, [RSHIFT] = FR_HOT_SHR_I, [SUB] = FR_HOT_SUB_I,
                                                    [XOR] = FR_HOT_XOR_I};
    static const int16_t       doubles[N_OPERATORS] = {[ADD] = FR_HOT_ADD_F, [MUL] = FR_HOT_MUL_F, [SUB] = FR_HOT_SUB_F,
                                                       [DIV] = FR_HOT_DIV_F};
    const struct fr_hot_value  b = fr_hot_pop(r), a = fr_hot_pop(r);
    int                        kind, dtype, x, y, to;
    bool                       exact = false;

    if (r->ended)
        return;
    if (what == MATMUL) {
        fr_hot_operate_product(r, &a, &b, false);
        return;
    }
    if (a.kind == FR_HOT_ARRAY || b.kind == FR_HOT_ARRAY) {
        fr_hot_operate_arrays(r, what, &a, &b, in_place);
        return;
    }
    if (!is_number(&a) || !is_number(&b)) {
        fr_hot_leave(r);
        return;
    }
    if (what == POWER) {
        operate_power(r, &a, &b);
        return;
    }
    if ((what == AND || what == OR || what == XOR) && a.dtype == FR_BOOL && b.dtype == FR_BOOL) {
        fr_hot_emit(r, (enum fr_hot_op)ints[what], to = fr_hot_fresh(r, 1), a.reg, b.reg);
        fr_hot_push_new(r, a.kind == FR_HOT_NUMPY || b.kind == FR_HOT_NUMPY ? FR_HOT_NUMPY : FR_HOT_PYTHON, FR_BOOL, to);
        return;
    }
    if (!promoted(&a, &b, &kind, &dtype)) {
        fr_hot_leave(r);
        return;
    }
    if (what == DIV && !fr_dtype_is_float((fr_dtype)dtype)) {
        exact = kind == FR_HOT_PYTHON && (a.dtype == FR_I64 || b.dtype == FR_I64);
        dtype = FR_F64;
    }
    if (fr_dtype_is_float((fr_dtype)dtype)) {
        if (!doubles[what]) {
            fr_hot_leave(r);
            return;
        }
        x = exact ? as_exact_double(r, &a) : operand(r, &a, kind, dtype);
        y = exact ? as_exact_double(r, &b) : operand(r, &b, kind, dtype);
        fr_hot_emit(r, (enum fr_hot_op)doubles[what], to = fr_hot_fresh(r, 1), x, y);
        push_float(r, kind, dtype, to);
        return;
    }
    if (!ints[what]) {
        fr_hot_leave(r);
        return;
    }
    x = operand(r, &a, kind, dtype);
    y = operand(r, &b, kind, dtype);
    fr_hot_emit(r, (enum fr_hot_op)ints[what], to = fr_hot_fresh(r, 1), x, y);
    fr_hot_push_int(r, kind, dtype, to);
}

/* Whether that changes nothing, and is in plain calls what it is else: powers of arrays are not. */
static bool
may_be_asked(int what, bool in_place, const struct fr_hot_value *a, const struct fr_hot_value *b)
{
    if (a->kind == FR_HOT_ARRAY || b->kind == FR_HOT_ARRAY)
        return what != POWER && !(in_place && a->kind == FR_HOT_ARRAY);
    return !(in_place && a->kind == FR_HOT_LIST);
}

void
fr_hot_operate(struct reader *r, int what, bool in_place)
{
    static const char *const names[N_OPERATORS] = {"add", "and_", "floordiv", "lshift", "matmul", "mul", "mod",
                                                   "or_", "pow", "rshift", "sub", "truediv", "xor"};
    struct fr_hot_mark       before;

    fr_hot_mark(r, &before);
    operate(r, what, in_place);
    if (!fr_hot_back(r, &before))
        return;
    if (r->s.n_stack < 2 || !may_be_asked(what, in_place, &r->s.stack[r->s.n_stack - 2], &r->s.stack[r->s.n_stack - 1]))
        fr_hot_leave(r);
    else
        ask_of_two(r, names[what]);
}

static void
compare(struct reader *r, int what)
{
    struct fr_hot_value b = fr_hot_pop(r), a = fr_hot_pop(r);
    bool                doubles = is_float(&a) || is_float(&b), numpy = a.kind == FR_HOT_NUMPY || b.kind == FR_HOT_NUMPY;
    int                 x, y, to, op;

    if (r->ended)
        return;
    if (a.kind == FR_HOT_ARRAY || b.kind == FR_HOT_ARRAY) {
        static const fr_op        ops[] = {[LT] = FR_OP_less, [LE] = FR_OP_less_equal, [EQ] = FR_OP_equal, [NE] = FR_OP_not_equal,
                                           [GT] = FR_OP_greater, [GE] = FR_OP_greater_equal};
        const struct fr_hot_value arg[2] = {a, b};

        fr_hot_map(r, ops[what], arg, 2);
        return;
    }
    if (!is_number(&a) || !is_number(&b)) {
        fr_hot_leave(r);
        return;
    }
    if (what == GT || what == GE) {
        struct fr_hot_value c = a;

        a = b;
        b = c;
        what = what == GT ? LT : LE;
    }
    x = doubles ? as_exact_double(r, &a) : a.reg;
    y = doubles ? as_exact_double(r, &b) : b.reg;
    if (a.kind == FR_HOT_NUMPY && a.dtype == FR_F32 && b.kind == FR_HOT_PYTHON)
        y = operand(r, &b, FR_HOT_NUMPY, FR_F32); /* which is weak: it is compared as a float32 */
    if (b.kind == FR_HOT_NUMPY && b.dtype == FR_F32 && a.kind == FR_HOT_PYTHON)
        x = operand(r, &a, FR_HOT_NUMPY, FR_F32);
    op = (doubles ? FR_HOT_LT_F : FR_HOT_LT_I) + what;
    fr_hot_emit(r, (enum fr_hot_op)op, to = fr_hot_fresh(r, 1), x, y);
    fr_hot_push_new(r, numpy ? FR_HOT_NUMPY : FR_HOT_PYTHON, FR_BOOL, to);
}

void
fr_hot_compare(struct reader *r, int what)
{
    static const char *const names[] = {[LT] = "lt", [LE] = "le", [EQ] = "eq", [NE] = "ne", [GT] = "gt", [GE] = "ge"};
    struct fr_hot_mark       before;

    fr_hot_mark(r, &before);
    compare(r, what);
    if (fr_hot_back(r, &before))
        ask_of_two(r, names[what]);
}
_Static_assert(FR_HOT_NE_I - FR_HOT_LT_I == NE && FR_HOT_NE_F - FR_HOT_LT_F == NE, "in one order");

void
fr_hot_negate(struct reader *r)
{
    struct fr_hot_value v = fr_hot_pop(r);
    int                 to = fr_hot_fresh(r, 1);

    if (r->ended)
        return;
    if (v.kind == FR_HOT_ARRAY) {
        fr_hot_map(r, FR_OP_negative, &v, 1);
        return;
    }
    if (!is_number(&v) || (v.kind == FR_HOT_NUMPY && (v.dtype == FR_BOOL || fr_dtype_kind(v.dtype) == 'u'))) {
        fr_hot_leave(r);
    } else if (is_float(&v)) {
        fr_hot_emit(r, FR_HOT_NEG_F, to, v.reg, 0);
        fr_hot_push_new(r, v.kind, v.dtype, to);
    } else {
        fr_hot_emit(r, FR_HOT_NEG_I, to, v.reg, 0);
        fr_hot_push_int(r, v.kind, v.dtype == FR_BOOL ? FR_I64 : v.dtype, to);
    }
}

void
fr_hot_invert(struct reader *r)
{
    struct fr_hot_value v = fr_hot_pop(r);
    int                 to = fr_hot_fresh(r, 1);

    if (!r->ended && v.kind == FR_HOT_ARRAY) {
        fr_hot_map(r, FR_OP_invert, &v, 1);
        return;
    }
    if (r->ended || !is_whole(&v) || v.dtype == FR_BOOL || fr_dtype_kind(v.dtype) == 'u') {
        fr_hot_leave(r);
        return;
    }
    fr_hot_emit(r, FR_HOT_INVERT_I, to, v.reg, 0);
    fr_hot_push_new(r, v.kind, v.dtype, to);
}

/* ---- items */

/* LOAD_BOOL or STORE_BOOL, and what follows it for other dtypes. */
static enum fr_hot_op
op_of(enum fr_hot_op first, fr_dtype d)
{
    return (enum fr_hot_op)(first + (d == FR_F64 ? FR_U32 + 2 : d == FR_F32 ? FR_U32 + 1 : (int)d));
}
_Static_assert(FR_BOOL == 0 && FR_U32 == FR_HOT_LOAD_U32 - FR_HOT_LOAD_BOOL && FR_HOT_LOAD_F64 - FR_HOT_LOAD_BOOL == FR_U32 + 2 &&
               FR_HOT_STORE_F64 - FR_HOT_STORE_BOOL == FR_U32 + 2, "in one order");

/* The indices of an array, one after the other in registers: the first. -1: they are no whole numbers. */
static int
indices_of(struct reader *r, const struct fr_hot_value *key, int *n)
{
    const struct fr_hot_value *item = key->kind == FR_HOT_TUPLE ? &r->item[key->items] : key;
    int                        first;

    *n = key->kind == FR_HOT_TUPLE ? key->ndim : 1;
    if (*n > FR_HOT_AXES || *n == 0)
        return -1;
    for (int k = 0; k < *n; k++)
        if (!is_whole(&item[k]) || item[k].dtype == FR_BOOL)
            return -1;
    if (*n == 1)
        return item->reg;
    for (int k = 1; k < *n; k++)
        if (item[k].reg != item[0].reg + k) {
            first = fr_hot_fresh(r, *n);
            for (int i = 0; i < *n; i++)
                fr_hot_move(r, &item[i], first + i);
            return first;
        }
    return item[0].reg;
}

/* An array at one index, slice or None after the other; false: it is another key. */
static bool
window(struct reader *r, const struct fr_hot_value *array, const struct fr_hot_value *key, struct fr_hot_value *out)
{
    struct fr_hot_value item[2 * FR_HOT_AXES];
    int                 n = key->kind == FR_HOT_TUPLE ? key->ndim : 1, axis = 0;

    if (n > (int)FR_LEN(item) || n == 0)
        return false;
    memcpy(item, key->kind == FR_HOT_TUPLE ? &r->item[key->items] : key, (size_t)n * sizeof *item);
    *out = *array;
    for (int k = 0; k < n; k++) {
        int to = fr_hot_fresh(r, 1);

        if (item[k].kind == FR_HOT_NONE) {
            if (out->ndim == FR_HOT_AXES)
                return false;
            *out = fr_hot_new_axis(r, out, axis++);
            continue;
        }
        if (axis >= out->ndim)
            return false;
        if (item[k].kind == FR_HOT_SLICE) {
            const struct fr_hot_value *part = &r->item[item[k].items];
            int                        bounds = fr_hot_fresh(r, 2), none = 0;

            for (int i = 0; i < 2; i++) {
                if (part[i].kind == FR_HOT_NONE)
                    none |= 1 << i;
                else if (is_whole(&part[i]) && part[i].dtype != FR_BOOL)
                    fr_hot_emit(r, FR_HOT_MOVE, bounds + i, part[i].reg, 0);
                else
                    return false;
            }
            if (part[2].kind != FR_HOT_NONE)
                return false;
            fr_hot_emit(r, FR_HOT_WINDOW, to, out->reg, bounds)->n = (uint8_t)axis;
            r->p->ins[r->p->n_ins - 1].c = (uint16_t)none;
            axis++;
        } else if (is_whole(&item[k]) && item[k].dtype != FR_BOOL && out->ndim > 1) {
            fr_hot_emit(r, FR_HOT_TAKE, to, out->reg, item[k].reg)->n = (uint8_t)axis;
            r->p->ins[r->p->n_ins - 1].c = out->ndim--;
        } else {
            return false;
        }
        out->reg = (int16_t)to;
    }
    return !r->ended;
}

static void
load_item(struct reader *r)
{
    struct fr_hot_value key = fr_hot_pop(r), of = fr_hot_pop(r), out;
    int                 n, first, to;

    if (r->ended)
        return;
    if (of.kind == FR_HOT_SHAPE && is_whole(&key) && key.kind == FR_HOT_PYTHON && r->p->n_ins &&
        r->p->ins[r->p->n_ins - 1].op == FR_HOT_CONST && r->p->ins[r->p->n_ins - 1].to == key.reg) {
        int64_t axis = r->p->ins[r->p->n_ins - 1].i;

        axis += axis < 0 ? of.ndim : 0;
        if (axis < 0 || axis >= of.ndim) {
            fr_hot_leave(r);
            return;
        }
        fr_hot_emit(r, FR_HOT_DIM, to = fr_hot_fresh(r, 1), of.reg, 0)->n = (uint8_t)axis;
        fr_hot_push_new(r, FR_HOT_PYTHON, FR_I64, to);
        return;
    }
    if (is_written_out(&of) && is_whole(&key) && key.dtype != FR_BOOL) {
        union fr_hot_cell at;

        if (fr_hot_constant_of(r, &key, &at) && at.i >= -of.ndim && at.i < of.ndim) {
            fr_hot_push(r, r->item[of.items + (at.i < 0 ? at.i + of.ndim : at.i)]);
            return;
        }
        of = fr_hot_new_list(r, &of); /* (nobody sees what is indexed at once) */
    }
    if (of.kind == FR_HOT_LIST && is_whole(&key) && key.dtype != FR_BOOL) {
        fr_hot_list_item(r, &of, key.reg);
        return;
    }
    if (of.kind != FR_HOT_ARRAY) {
        fr_hot_leave(r);
        return;
    }
    if ((first = indices_of(r, &key, &n)) >= 0 && n == of.ndim) {
        fr_hot_emit(r, op_of(FR_HOT_LOAD_BOOL, of.dtype), to = fr_hot_fresh(r, 1), of.reg, first)->n = (uint8_t)n;
        fr_hot_push_new(r, FR_HOT_NUMPY, of.dtype, to);
        return;
    }
    if (!window(r, &of, &key, &out)) {
        fr_hot_leave(r);
        return;
    }
    out.is_free = false;
    fr_hot_push(r, out);
}

void
fr_hot_load_item(struct reader *r)
{
    struct fr_hot_mark before;

    fr_hot_mark(r, &before);
    load_item(r);
    if (fr_hot_back(r, &before))
        ask_of_two(r, "getitem");
}

static void
store_item(struct reader *r)
{
    struct fr_hot_value key = fr_hot_pop(r), of = fr_hot_pop(r), v = fr_hot_pop(r), part;
    int                 n, first, reg;

    if (!r->ended && of.kind == FR_HOT_LIST && is_whole(&key) && key.dtype != FR_BOOL) {
        fr_hot_list_store(r, &of, key.reg, &v);
        return;
    }
    if (r->ended || of.kind != FR_HOT_ARRAY) {
        fr_hot_leave(r);
        return;
    }
    if ((first = indices_of(r, &key, &n)) < 0 || n != of.ndim) {
        if (window(r, &of, &key, &part))
            fr_hot_store_window(r, &part, &v);
        else
            fr_hot_leave(r);
        return;
    }
    if (!is_number(&v) || (reg = fr_hot_number_as(r, &v, of.dtype)) < 0) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_emit(r, op_of(FR_HOT_STORE_BOOL, of.dtype), reg, of.reg, first)->n = (uint8_t)n;
}

void
fr_hot_store_item(struct reader *r)
{
    struct fr_hot_mark  before;
    struct fr_hot_value arg[3];

    fr_hot_mark(r, &before);
    store_item(r);
    if (!fr_hot_back(r, &before))
        return;
    arg[1] = fr_hot_pop(r);
    arg[0] = fr_hot_pop(r);
    arg[2] = fr_hot_pop(r);
    if (arg[0].kind == FR_HOT_ARRAY || arg[0].kind == FR_HOT_LIST || arg[0].kind == FR_HOT_OWNER)
        fr_hot_ask_operator(r, "setitem", arg, 3);
    else
        fr_hot_leave(r);
}

void
fr_hot_delete_item(struct reader *r)
{
    struct fr_hot_value arg[2];

    arg[1] = fr_hot_pop(r);
    arg[0] = fr_hot_pop(r);
    if (arg[0].kind == FR_HOT_LIST)
        fr_hot_ask_operator(r, "delitem", arg, 2);
    else
        fr_hot_leave(r);
}

void
fr_hot_walk(struct reader *r, const struct fr_hot_value *array, int n)
{
    struct fr_hot_value v = {.kind = FR_HOT_WALK, .n_parts = (uint8_t)n, .reg = (int16_t)fr_hot_fresh(r, FR_HOT_CELLS)};

    for (int k = 0; k < n; k++) {
        fr_hot_move(r, &array[k], v.reg + k);
        if (!fr_hot_set_part(&v, k, &array[k])) {
            fr_hot_leave(r);
            return;
        }
    }
    fr_hot_emit(r, FR_HOT_CONST, v.reg, 0, 0)->i = 0;
    fr_hot_push(r, v);
}
_Static_assert((int)FR_HOT_PARTS <= (int)FR_HOT_CELLS, "they have their views in its registers");

/* Whether a number is one of those in a constant or a tuple; `not`: whether it is none. */
static void
contains(struct reader *r, bool not)
{
    struct fr_hot_value in = fr_hot_pop(r), v = fr_hot_pop(r), one;
    PyObject           *items = in.kind == FR_HOT_OBJECT && PyFrozenSet_CheckExact(in.object) ? PySequence_List(in.object) : NULL;
    int                 n = items ? (int)PyList_GET_SIZE(items) : in.kind == FR_HOT_TUPLE ? in.ndim : 0, found = -1, to;

    for (int k = 0; k < n && !r->ended; k++) {
        fr_hot_push(r, v);
        if (items)
            fr_hot_load_constant(r, PyList_GET_ITEM(items, k));
        else
            fr_hot_push(r, r->item[in.items + k]);
        fr_hot_compare(r, EQ);
        one = fr_hot_pop(r);
        if (found >= 0) {
            fr_hot_emit(r, FR_HOT_OR_I, to = fr_hot_fresh(r, 1), found, one.reg);
            found = to;
        } else {
            found = one.reg;
        }
    }
    Py_XDECREF(items);
    PyErr_Clear();
    if (found < 0 || n > 8) {
        fr_hot_leave(r);
        return;
    }
    if (not) {
        fr_hot_emit(r, FR_HOT_NOT, to = fr_hot_fresh(r, 1), found, 0);
        found = to;
    }
    fr_hot_push(r, number(FR_HOT_PYTHON, FR_BOOL, found));
}

void
fr_hot_contains(struct reader *r, bool not)
{
    struct fr_hot_mark  before;
    struct fr_hot_value arg[2], is;
    int                 to;

    fr_hot_mark(r, &before);
    contains(r, not);
    if (!fr_hot_back(r, &before))
        return;
    arg[0] = fr_hot_pop(r);
    arg[1] = fr_hot_pop(r);
    fr_hot_ask_operator(r, "contains", arg, 2);
    if (r->ended || !not)
        return;
    is = fr_hot_pop(r);
    fr_hot_emit(r, FR_HOT_NOT, to = fr_hot_fresh(r, 1), is.reg, 0);
    fr_hot_push(r, number(FR_HOT_PYTHON, FR_BOOL, to));
}

/* The n values on top become one. */
void
fr_hot_build(struct reader *r, int kind, int n)
{
    struct fr_hot_value v = {.kind = (uint8_t)kind, .ndim = (uint8_t)n, .reg = -1, .items = (int16_t)r->n_items};

    if (n > r->s.n_stack || r->n_items + n > ITEMS) {
        fr_hot_leave(r);
        return;
    }
    r->s.n_stack -= n;
    for (int k = 0; k < n; k++) {
        struct fr_hot_value item = r->s.stack[r->s.n_stack + k];

        if (!is_number(&item) && item.kind != FR_HOT_NONE && item.kind != FR_HOT_SLICE && item.kind != FR_HOT_ARRAY &&
            item.kind != FR_HOT_TUPLE && item.kind != FR_HOT_DISPLAY && item.kind != FR_HOT_LIST) {
            fr_hot_leave(r);
            return;
        }
        item.is_free = false;
        r->item[r->n_items++] = item;
    }
    fr_hot_push(r, v);
}

void
fr_hot_build_slice(struct reader *r, int n)
{
    if (n == 2)
        fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NONE, .reg = -1});
    fr_hot_build(r, FR_HOT_SLICE, 3);
}

void
fr_hot_unpack(struct reader *r, int n)
{
    struct fr_hot_value v = fr_hot_pop(r);

    if (!r->ended && v.kind == FR_HOT_OWNER) {
        fr_hot_ask(r, (PyObject *)&PyTuple_Type, &v, 1, NULL);
        v = fr_hot_pop(r);
    }
    if (!r->ended && v.kind == FR_HOT_ARRAY && n <= MOST_UNPACKED) {
        fr_hot_emit(r, FR_HOT_IS_DIM, 0, v.reg, 0)->i = n;
        for (int k = n; k-- > 0;) {
            fr_hot_push(r, v);
            fr_hot_push(r, fr_hot_whole(r, k));
            fr_hot_load_item(r);
        }
        return;
    }
    if (!r->ended && v.kind == FR_HOT_LIST && n <= MOST_UNPACKED) {
        struct fr_hot_ins *in = fr_hot_emit(r, FR_HOT_IS_DIM, 0, v.reg, 0);

        in->i = n;
        in->n = true;
        for (int k = n; k-- > 0;)
            fr_hot_list_item(r, &v, fr_hot_whole(r, k).reg);
        return;
    }
    if (r->ended || !((v.kind == FR_HOT_TUPLE || v.kind == FR_HOT_DISPLAY || v.kind == FR_HOT_SHAPE) && v.ndim == n)) {
        fr_hot_leave(r);
        return;
    }
    for (int k = n; k-- > 0;) {
        if (v.kind != FR_HOT_SHAPE) {
            fr_hot_push(r, r->item[v.items + k]);
        } else {
            int to = fr_hot_fresh(r, 1);

            fr_hot_emit(r, FR_HOT_DIM, to, v.reg, 0)->n = (uint8_t)k;
            fr_hot_push(r, number(FR_HOT_PYTHON, FR_I64, to));
        }
    }
}

void
fr_hot_load_constant(struct reader *r, PyObject *o)
{
    struct fr_hot_value v;
    union fr_hot_cell   c = {.i = 0};

    if (PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) <= MOST_UNPACKED && PyTuple_GET_SIZE(o) > 0 && !PyUnicode_CheckExact(PyTuple_GET_ITEM(o, 0))) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(o); k++)
            fr_hot_load_constant(r, PyTuple_GET_ITEM(o, k));
        fr_hot_build(r, FR_HOT_TUPLE, (int)PyTuple_GET_SIZE(o));
        return;
    }
#ifdef Py_SLICEOBJECT_H
    if (PySlice_Check(o)) {
        fr_hot_load_constant(r, ((PySliceObject *)o)->start);
        fr_hot_load_constant(r, ((PySliceObject *)o)->stop);
        fr_hot_load_constant(r, ((PySliceObject *)o)->step);
        fr_hot_build(r, FR_HOT_SLICE, 3);
        return;
    }
#endif
    if (PyUnicode_CheckExact(o) || PyCode_Check(o) || PyFrozenSet_CheckExact(o) ||
        (PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) > 0 && PyUnicode_CheckExact(PyTuple_GET_ITEM(o, 0)))) {
        fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_OBJECT, .object = o, .reg = -1});
        return;
    }
    fr_hot_type(o, &v);
    if (v.kind == FR_HOT_NONE) {
        v.reg = -1;
        fr_hot_push(r, v);
        return;
    }
    if (v.kind != FR_HOT_PYTHON) {
        fr_hot_leave(r);
        return;
    }
    if (is_float(&v))
        c.f = PyFloat_AS_DOUBLE(o);
    else
        c.i = PyLong_AsLongLong(o);
    v = fr_hot_constant(r, FR_HOT_PYTHON, v.dtype, c);
    v.is_free = true;
    fr_hot_push(r, v);
}

void
fr_hot_extend(struct reader *r)
{
    struct fr_hot_value by = fr_hot_pop(r), of = fr_hot_pop(r);

    if (r->ended || by.kind != FR_HOT_TUPLE || of.kind != FR_HOT_DISPLAY || of.ndim != 0) {
        fr_hot_leave(r);
        return;
    }
    by.kind = FR_HOT_DISPLAY; /* (nobody else has what was just written out) */
    fr_hot_push(r, by);
}
