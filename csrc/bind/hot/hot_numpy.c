/* bind/hot/hot_numpy.c -- hot.h: NumPy's functions, and methods of arrays and lists. */
#include "bind/hot/hot_int.h"

#include <string.h>

#include "base/alloc.h"

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
mean(struct reader *r, const struct fr_hot_value *v)
{
    struct fr_hot_value sum;
    int                 n = fr_hot_fresh(r, 1), to = fr_hot_fresh(r, 1);

    if (v->dtype != FR_F64) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_fold(r, FR_OP_sum, v);
    sum = fr_hot_pop(r);
    fr_hot_emit(r, FR_HOT_SIZE, n, v->reg, 0)->n = v->ndim;
    fr_hot_emit(r, FR_HOT_I_TO_F, n, n, 0);
    fr_hot_emit(r, FR_HOT_DIV_F, to, sum.reg, n);
    if (!r->ended)
        fr_hot_push_new(r, FR_HOT_NUMPY, FR_F64, to);
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

/* What is written out, or a list, becomes an array; false: it cannot be. */
static bool
as_array(struct reader *r, struct fr_hot_value *v)
{
    struct fr_hot_value of = *v;

    if (of.kind == FR_HOT_LIST)
        return fr_hot_array_of_list(r, &of, v);
    return !is_written_out(&of) || fr_hot_array_of(r, &of, FR_N_DTYPES, v);
}

/* Of a fold along an axis, with what is to be known of it. */
static void
fold_along(struct reader *r, const struct row *row, struct fr_hot_value *v, int64_t axis)
{
    struct fr_hot_value arg[2];
    int                 n = fr_hot_fresh(r, 1);

    if (!as_array(r, v) || v->kind != FR_HOT_ARRAY || (row->what != FOLD && (row->what != MEAN || v->dtype != FR_F64))) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_fold_axis(r, row->what == MEAN ? FR_OP_sum : row->op, v, axis);
    if (r->ended || row->what == FOLD)
        return;
    arg[0] = fr_hot_pop(r);
    fr_hot_emit(r, FR_HOT_DIM, n, v->reg, 0)->n = (uint8_t)(axis < 0 ? axis + 2 : axis);
    fr_hot_emit(r, FR_HOT_I_TO_F, n, n, 0);
    arg[1] = number(FR_HOT_PYTHON, FR_F64, n);
    fr_hot_map(r, FR_OP_divide, arg, 2);
}

static void
call_row(struct reader *r, const struct row *row, struct fr_hot_value *arg, fr_dtype dtype)
{
    struct fr_hot_value out;
    bool                makes = row->what == FILLED || row->what == ARRAY, done = makes || dtype == FR_N_DTYPES;

    for (int k = 0; k < row->n_args && !makes; k++) /* NumPy makes an array of it first */
        done = done && as_array(r, &arg[k]);
    if (!done || (!makes && row->what != DOT && row->what != BY_ELEMENTS && arg[0].kind != FR_HOT_ARRAY)) {
        fr_hot_leave(r);
        return;
    }
    switch (row->what) {
    case DOT: fr_hot_operate_product(r, &arg[0], &arg[1], true); break;
    case FOLD: fr_hot_fold(r, row->op, &arg[0]); break;
    case MEAN: mean(r, &arg[0]); break;
    case ARRAY:
        if (arg[0].kind == FR_HOT_ARRAY && dtype == FR_N_DTYPES) {
            fr_hot_convert(r, &arg[0], (fr_dtype)arg[0].dtype);
            break;
        }
        if (arg[0].kind == FR_HOT_LIST && dtype == FR_N_DTYPES)
            done = fr_hot_array_of_list(r, &arg[0], &out);
        else
            done = is_written_out(&arg[0]) && fr_hot_array_of(r, &arg[0], dtype, &out);
        fr_hot_push_or_leave(r, done, &out);
        break;
    case FILLED: fr_hot_filled(r, &arg[0], dtype == FR_N_DTYPES ? FR_F64 : dtype, row->number); break;
    case LIKE: fr_hot_like(r, &arg[0], row->number); break;
    case COPY: fr_hot_convert(r, &arg[0], (fr_dtype)arg[0].dtype); break;
    case NORM: norm(r, &arg[0]); break;
    case OUTER: outer(r, &arg[0], &arg[1]); break;
    case BY_ELEMENTS: fr_hot_map(r, row->op, arg, row->n_args); break;
    case TRANSPOSED: fr_hot_push(r, fr_hot_transposed(r, &arg[0])); break;
    default: fr_hot_leave(r); break;
    }
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
    static PyObject *found[FR_LEN(rows)];
    union fr_hot_cell axis;
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
        if (found[k] == f && n == 2 && rows[k].n_args == 1 && fr_hot_constant_of(r, &arg[1], &axis) && arg[1].dtype == FR_I64) {
            fold_along(r, &rows[k], &arg[0], axis.i);
            return true;
        }
        if (found[k] == f && rows[k].n_args == n) {
            call_row(r, &rows[k], arg, dtype);
            return true;
        }
    }
    return false;
}

/* ---- methods */

bool
fr_hot_is_axis(PyObject *names)
{
    return PyTuple_GET_SIZE(names) == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "axis") == 0;
}

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

/* The same where it is one of these. */
static void
call_method(struct reader *r, PyObject *method, const struct fr_hot_value *of, const struct fr_hot_value *arg, int n)
{
    const char         *name = PyUnicode_AsUTF8(PyDescr_NAME(method));
    struct fr_hot_value all[FR_HOST_ARGS] = {*of};
    union fr_hot_cell   axis;

    PyErr_Clear();
    if (of->kind == FR_HOT_LIST) {
        if (name && strcmp(name, "append") == 0 && n == 1)
            fr_hot_append(r, *of, arg);
        else
            fr_hot_leave(r);
        return;
    }
    for (int k = 0; k < n && k + 1 < (int)FR_LEN(all); k++)
        all[k + 1] = arg[k];
    if (name && strcmp(name, "astype") == 0 && n == 1 && arg->kind == FR_HOT_OBJECT && fr_hot_dtype_of(arg->object) != FR_N_DTYPES) {
        fr_hot_convert(r, of, fr_hot_dtype_of(arg->object));
        return;
    }
    for (size_t k = 0; name && k < FR_LEN(rows); k++)
        if (rows[k].is_method && rows[k].n_args == 1 && n == 1 && strcmp(rows[k].name, name) == 0 && fr_hot_constant_of(r, arg, &axis) &&
            arg->dtype == FR_I64) {
            fold_along(r, &rows[k], all, axis.i);
            return;
        } else if (rows[k].is_method && rows[k].n_args == n + 1 && strcmp(rows[k].name, name) == 0) {
            call_row(r, &rows[k], all, FR_N_DTYPES);
            return;
        }
    fr_hot_leave(r);
}

void
fr_hot_call_method(struct reader *r, PyObject *method, const struct fr_hot_value *of, const struct fr_hot_value *arg, int n,
                   PyObject *names)
{
    struct fr_hot_value all[FR_HOT_ASK_ARGS] = {*of};
    struct fr_hot_mark  before;

    fr_hot_mark(r, &before);
    if (names) /* (an axis is as if it came first) */
        names = n == 1 && fr_hot_is_axis(names) ? NULL : names;
    if (names)
        fr_hot_leave(r);
    else
        call_method(r, method, of, arg, n);
    if (n < (int)FR_LEN(all) && fr_hot_back(r, &before)) {
        memcpy(all + 1, arg, (size_t)n * sizeof *arg);
        fr_hot_ask(r, method, all, n + 1, names);
    }
}
