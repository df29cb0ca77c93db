/* bind/hot/hot_call.c -- hot.h: attributes, and calls of functions that are known. */
#include "bind/hot/hot_int.h"

#include <math.h>
#include <string.h>


/* ---- attributes and calls */

void
fr_hot_load_attribute(struct reader *r, PyObject *name, bool as_method)
{
    struct fr_hot_value of = fr_hot_pop(r);
    PyObject           *value;

    if (r->ended || (!as_method && fr_hot_load_owned(r, &of, name)))
        return;
    if (as_method && of.kind == FR_HOT_OWNER && (fr_hot_load_drawer_method(r, &of, name) || fr_hot_load_owned_method(r, &of, name)))
        return;
    if (as_method && (of.kind == FR_HOT_ARRAY || of.kind == FR_HOT_LIST) && fr_hot_load_method(r, &of, name))
        return;
    if (of.kind == FR_HOT_ARRAY && !as_method) {
        int to;

        if (PyUnicode_CompareWithASCIIString(name, "shape") == 0) {
            of.kind = FR_HOT_SHAPE;
            fr_hot_push(r, of);
            return;
        }
        if (PyUnicode_CompareWithASCIIString(name, "size") == 0) {
            fr_hot_emit(r, FR_HOT_SIZE, to = fr_hot_fresh(r, 1), of.reg, 0)->n = of.ndim;
            fr_hot_push_new(r, FR_HOT_PYTHON, FR_I64, to);
            return;
        }
        if (PyUnicode_CompareWithASCIIString(name, "T") == 0) {
            fr_hot_push(r, fr_hot_transposed(r, &of));
            return;
        }
        fr_hot_leave(r);
        return;
    }
    if (of.kind == FR_HOT_OBJECT && PyModule_Check(of.object)) {
        value = PyDict_GetItemWithError(PyModule_GetDict(of.object), name);
        PyErr_Clear();
        if (value && !as_method && PyFloat_CheckExact(value) && fr_hot_add_guard(r, name, of.object, value)) { /* math.pi */
            fr_hot_load_constant(r, value);
            return;
        }
        if (value && fr_hot_may_hold(value) && fr_hot_add_guard(r, name, of.object, value)) {
            if (as_method)
                fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NULL, .reg = -1});
            fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_OBJECT, .object = value, .reg = -1});
            if (as_method && PY_VERSION_HEX >= 0x030d0000) { /* the NULL lies above */
                struct fr_hot_value f = fr_hot_pop(r), null = fr_hot_pop(r);

                fr_hot_push(r, f);
                fr_hot_push(r, null);
            }
            return;
        }
    }
    fr_hot_leave(r);
}

enum { TO_INT = -1 }; /* Python's int */

/* Functions of one double, of NumPy and of Python's math: the result's kind, and how it is computed. */
static const struct function {
    const char *name;         /* "math.exp" */
    int         kind;
    double (*call)(double);
    enum fr_hot_op op;        /* instead of it */
} functions[] = {
    {"math.floor", TO_INT, floor, FR_HOT_CALL_F}, {"math.ceil", TO_INT, ceil, FR_HOT_CALL_F}, {"math.trunc", TO_INT, trunc, FR_HOT_CALL_F},
    {"math.sqrt", FR_HOT_PYTHON, NULL, FR_HOT_SQRT_F}, {"math.fabs", FR_HOT_PYTHON, NULL, FR_HOT_ABS_F},
    {"math.exp", FR_HOT_PYTHON, exp, FR_HOT_CALL_F},   {"math.sin", FR_HOT_PYTHON, sin, FR_HOT_CALL_F},
    {"math.cos", FR_HOT_PYTHON, cos, FR_HOT_CALL_F},   {"math.tan", FR_HOT_PYTHON, tan, FR_HOT_CALL_F},
    {"math.log", FR_HOT_PYTHON, log, FR_HOT_CALL_F},   {"math.log10", FR_HOT_PYTHON, log10, FR_HOT_CALL_F},
    {"math.atan", FR_HOT_PYTHON, atan, FR_HOT_CALL_F}, {"math.tanh", FR_HOT_PYTHON, tanh, FR_HOT_CALL_F},
    {"numpy.sqrt", FR_HOT_NUMPY, NULL, FR_HOT_SQRT_F}, {"numpy.floor", FR_HOT_NUMPY, floor, FR_HOT_CALL_F},
    {"numpy.ceil", FR_HOT_NUMPY, ceil, FR_HOT_CALL_F}, {"numpy.absolute", FR_HOT_NUMPY, NULL, FR_HOT_ABS_F},
    {"numpy.fabs", FR_HOT_NUMPY, NULL, FR_HOT_ABS_F},
};

/* The row of a function; NULL: it has none. */
static const struct function *
function_of(PyObject *f)
{
    static PyObject *found[FR_LEN(functions)];

    for (size_t k = 0; k < FR_LEN(functions); k++) {
        const char *name = functions[k].name;

        if (!found[k]) {
            PyObject *module = strncmp(name, "math.", 5) == 0 ? PyImport_ImportModule("math") : NULL;

            found[k] = module ? PyObject_GetAttrString(module, name + 5) : fr_numpy_attr(name + 6);
            Py_XDECREF(module);
            PyErr_Clear();
        }
        if (found[k] == f)
            return &functions[k];
    }
    return NULL;
}

/* NumPy gives another dtype to small ints, and to an int its absolute value as an int. */
static bool
takes(const struct function *f, const struct fr_hot_value *arg)
{
    return arg->dtype != FR_F32 && (f->kind == FR_HOT_PYTHON || is_float(arg)); /* (an int has a floor of its own) */
}

static void
call_function(struct reader *r, const struct function *f, const struct fr_hot_value *arg)
{
    int reg = fr_hot_as_double(r, arg), to;

    fr_hot_emit(r, f->op, to = fr_hot_fresh(r, 1), reg, 0);
    if (f->op == FR_HOT_CALL_F)
        r->p->ins[r->p->n_ins - 1].call = f->call;
    if (f->kind == TO_INT) {
        fr_hot_emit(r, FR_HOT_F_TO_I, to, to, 0);
        fr_hot_push_new(r, FR_HOT_PYTHON, FR_I64, to);
        return;
    }
    fr_hot_push_new(r, f->kind, FR_F64, to);
}

/* max(a, b) or min(a, b): the first of those that are as large. Each of the two goes on with its own type. */
static void
choose(struct reader *r, bool largest, const struct fr_hot_value *a, const struct fr_hot_value *b, int32_t next)
{
    struct fr_hot_value yes;
    struct state        before;
    int                 jump_at;

    fr_hot_push(r, *b);
    fr_hot_push(r, *a);
    fr_hot_compare(r, largest ? GT : LT); /* whether b replaces a */
    if (r->ended)
        return;
    yes = fr_hot_pop(r);
    before = r->s;
    jump_at = r->p->n_ins;
    fr_hot_emit(r, FR_HOT_UNLESS, 0, yes.reg, 0);
    fr_hot_push(r, *b);
    fr_hot_go_to(r, next, false);
    r->s = before;
    r->ended = false;
    if (jump_at < r->p->n_ins)
        r->p->ins[jump_at].at = -2 - r->p->n_ins; /* an instruction, not a block */
    fr_hot_push(r, *a);
    fr_hot_go_to(r, next, false);
}

static void
call_range(struct reader *r, const struct fr_hot_value *arg, int n)
{
    struct fr_hot_value bound[3] = {fr_hot_whole(r, 0), number(FR_HOT_PYTHON, FR_I64, 0), fr_hot_whole(r, 1)};
    int                 to = fr_hot_fresh(r, FR_HOT_CELLS);

    for (int k = 0; k < n; k++) {
        if (!is_whole(&arg[k]) || (arg[k].kind == FR_HOT_NUMPY && arg[k].dtype == FR_BOOL)) {
            fr_hot_leave(r);
            return;
        }
        bound[n == 1 ? 1 : k] = arg[k];
    }
    fr_hot_emit(r, FR_HOT_COUNT, to, bound[0].reg, bound[1].reg)->c = (uint16_t)bound[2].reg;
    fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_RANGE, .reg = (int16_t)to});
}

static void
call_type(struct reader *r, PyObject *type, const struct fr_hot_value *arg)
{
    int to = fr_hot_fresh(r, 1);

    if (!is_number(arg) || (arg->dtype == FR_F32 && type == (PyObject *)&PyLong_Type)) {
        fr_hot_leave(r);
    } else if (type == (PyObject *)&PyDoubleArrType_Type) {
        fr_hot_push(r, number(FR_HOT_NUMPY, FR_F64, fr_hot_as_double(r, arg)));
    } else if (type == (PyObject *)&PyFloat_Type) {
        fr_hot_push(r, number(FR_HOT_PYTHON, FR_F64, fr_hot_as_double(r, arg)));
    } else if (type == (PyObject *)&PyBool_Type) {
        fr_hot_push(r, number(FR_HOT_PYTHON, FR_BOOL, fr_hot_as_truth(r, arg)));
    } else if (is_float(arg)) {
        fr_hot_emit(r, FR_HOT_F_TO_I, to, arg->reg, 0);
        fr_hot_push_new(r, FR_HOT_PYTHON, FR_I64, to);
    } else {
        fr_hot_push(r, number(FR_HOT_PYTHON, FR_I64, arg->reg));
    }
}

static bool
is_builtin(const struct reader *r, PyObject *f, const char *name)
{
    return PyDict_Check(r->source->builtins) && PyDict_GetItemString(r->source->builtins, name) == f;
}

static void
call_abs(struct reader *r, const struct fr_hot_value *arg)
{
    int to = fr_hot_fresh(r, 1);

    if (arg->kind == FR_HOT_ARRAY) {
        fr_hot_map(r, FR_OP_absolute, arg, 1);
        return;
    }
    if (!is_number(arg) || (arg->kind == FR_HOT_NUMPY && arg->dtype == FR_BOOL)) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_emit(r, is_float(arg) ? FR_HOT_ABS_F : FR_HOT_ABS_I, to, arg->reg, 0);
    if (is_float(arg))
        fr_hot_push_new(r, arg->kind, arg->dtype, to);
    else
        fr_hot_push_int(r, arg->kind, arg->dtype == FR_BOOL ? FR_I64 : arg->dtype, to);
}

/* Whether a callable is that function of numpy.random's. */
static bool
is_random(PyObject *f, const char *name)
{
    static PyObject *name_of_module;
    PyObject        *module;
    bool             is;

    if (!name_of_module && !(name_of_module = PyUnicode_InternFromString("numpy.random"))) {
        PyErr_Clear();
        return false;
    }
    module = PyMethod_Check(f) ? PyImport_GetModule(name_of_module) : NULL;
    is = module && PyDict_GetItemString(PyModule_GetDict(module), name) == f;
    Py_XDECREF(module);
    return is;
}

/* What a function of numpy.random's draws from its generator; shape: whether its arguments are a shape. */
static enum fr_hot_draw
draw_of(PyObject *f, bool *shape)
{
    static const struct { const char *name; enum fr_hot_draw what; bool shape; } all[] = {
        {"rand", FR_HOT_RANDOMS, true}, {"random", FR_HOT_RANDOMS, false}, {"random_sample", FR_HOT_RANDOMS, false},
        {"uniform", FR_HOT_UNIFORMS, false}, {"randn", FR_HOT_NORMALS, true}, {"standard_normal", FR_HOT_NORMALS, false},
        {"normal", FR_HOT_NORMALS, false}, {"randint", FR_HOT_RANDINTS, false},
    };

    if (PyMethod_Check(f))
        for (size_t k = 0; k < FR_LEN(all); k++)
            if (is_random(f, all[k].name)) {
                *shape = all[k].shape;
                return all[k].what;
            }
    return FR_HOT_NO_DRAW;
}

/* The bounds of randint, or low and high, or the mean and the deviation: the registers of the first, and of what it is
 * multiplied by. False: these are not known. */
static bool
parameters(struct reader *r, enum fr_hot_draw what, const struct fr_hot_value *arg, int n, int reg[2])
{
    struct fr_hot_value zero = fr_hot_whole(r, 0);
    int                 checked;

    if (what == FR_HOT_RANDINTS) {
        const struct fr_hot_value *from = n == 2 ? &arg[0] : &zero, *behind = &arg[n - 1];

        if (n < 1 || n > 2 || !is_whole(from) || !is_whole(behind) || from->dtype != FR_I64 || behind->dtype != FR_I64)
            return false;
        reg[0] = from->reg;
        reg[1] = behind->reg;
        return true;
    }
    if (n != 0 && (n != 2 || what == FR_HOT_RANDOMS || !is_number(&arg[0]) || !is_number(&arg[1])))
        return false;
    reg[0] = n ? fr_hot_as_double(r, &arg[0]) : fr_hot_constant(r, FR_HOT_PYTHON, FR_F64, (union fr_hot_cell){.f = 0}).reg;
    reg[1] = n ? fr_hot_as_double(r, &arg[1]) : fr_hot_constant(r, FR_HOT_PYTHON, FR_F64, (union fr_hot_cell){.f = 1}).reg;
    if (n && what == FR_HOT_UNIFORMS) {
        int span = fr_hot_fresh(r, 1);

        fr_hot_emit(r, FR_HOT_SUB_F, span, reg[1], reg[0]);
        reg[1] = span;
    }
    if (n)
        fr_hot_emit(r, FR_HOT_SQRT_F, checked = fr_hot_fresh(r, 1), reg[1], 0); /* what is below zero is left to NumPy */
    return true;
}

/* A number from numpy.random's generator, or an array of them, of a shape (NULL: a number). */
static void
draw(struct reader *r, enum fr_hot_draw what, const struct fr_hot_value *arg, int n, const struct fr_hot_value *shape)
{
    int to = fr_hot_fresh(r, 1), reg[2];

    if (!parameters(r, what, arg, n, reg)) {
        fr_hot_leave(r);
        return;
    }
    r->p->has_random = true;
    if (shape) {
        struct fr_hot_value array;
        struct fr_hot_ins  *in;

        fr_hot_filled(r, shape, what == FR_HOT_RANDINTS ? FR_I64 : FR_F64, 0);
        if (r->ended)
            return;
        array = r->s.stack[r->s.n_stack - 1];
        in = fr_hot_emit(r, FR_HOT_DRAW, array.reg, reg[0], reg[1]);
        in->n = (uint8_t)what;
        in->c = array.ndim;
        return;
    }
    if (what == FR_HOT_RANDINTS) {
        fr_hot_emit(r, FR_HOT_RANDINT, to, reg[0], reg[1]);
        fr_hot_push_new(r, FR_HOT_PYTHON, FR_I64, to);
        return;
    }
    fr_hot_emit(r, what == FR_HOT_NORMALS ? FR_HOT_NORMAL : FR_HOT_RANDOM, to, 0, 0);
    if (n) {
        fr_hot_emit(r, FR_HOT_MUL_F, to, reg[1], to);
        fr_hot_emit(r, FR_HOT_ADD_F, to, reg[0], to);
    }
    fr_hot_push_new(r, FR_HOT_PYTHON, FR_F64, to);
}

/* Puts named arguments of a draw in their places: how many there are then; -1: that is another call. */
static int
place_draws(enum fr_hot_draw what, struct fr_hot_value *arg, int n, PyObject *names, bool *has_size)
{
    static const char *const all[][3] = {[FR_HOT_RANDOMS] = {"size"}, [FR_HOT_UNIFORMS] = {"low", "high", "size"},
                                         [FR_HOT_NORMALS] = {"loc", "scale", "size"}, [FR_HOT_RANDINTS] = {"low", "high", "size"}};
    struct fr_hot_value      given[FR_HOT_MOST_ARGS], size = {.kind = FR_HOT_NONE};
    int                      n_names = names ? (int)PyTuple_GET_SIZE(names) : 0, n_places = n - n_names;

    memcpy(given, arg, (size_t)n * sizeof *arg);
    n = n_places;
    for (int k = 0; k < n_names; k++) {
        PyObject *name = PyTuple_GET_ITEM(names, k);

        if (PyUnicode_CompareWithASCIIString(name, "size") == 0) {
            size = given[n_places + k];
            *has_size = size.kind != FR_HOT_NONE;
        } else if (n < 2 && all[what][n] && PyUnicode_CompareWithASCIIString(name, all[what][n]) == 0) { /* (in their order) */
            arg[n++] = given[n_places + k];
        } else {
            return -1;
        }
    }
    if (*has_size)
        arg[n++] = size;
    return n;
}

/* The same as it is called: which arguments are the shape. */
static void
call_draw(struct reader *r, enum fr_hot_draw what, bool shape, struct fr_hot_value *arg, int n, PyObject *names)
{
    struct fr_hot_value of;
    bool                has_size = false;

    if (shape) { /* rand(2, 3) */
        for (int k = 0; k < n; k++)
            fr_hot_push(r, arg[k]);
        if (n)
            fr_hot_build(r, FR_HOT_TUPLE, n);
        of = n ? fr_hot_pop(r) : (struct fr_hot_value){.kind = FR_HOT_NONE};
        if (r->ended || names)
            fr_hot_leave(r);
        else
            draw(r, what, NULL, 0, n ? &of : NULL);
        return;
    }
    if ((n = place_draws(what, arg, n, names, &has_size)) < 0) {
        fr_hot_leave(r);
        return;
    }
    has_size |= n > (what == FR_HOT_RANDOMS ? 0 : 2);
    draw(r, what, arg, n - has_size, has_size ? &arg[n - 1] : NULL);
}

/* Whether the only named argument is a dtype that is known. */
static bool
takes_dtype(PyObject *names, const struct fr_hot_value *v, fr_dtype *dtype)
{
    if (PyTuple_GET_SIZE(names) != 1 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "dtype") != 0 || v->kind != FR_HOT_OBJECT)
        return false;
    *dtype = fr_hot_dtype_of(v->object);
    return *dtype != FR_N_DTYPES;
}

/* Whether it is one of those functions of Python's math that give doubles; for others Python is asked. */
static bool
is_of_math(PyObject *f)
{
    static const char *const others[] = {"floor", "ceil", "trunc", "factorial", "comb", "perm", "gcd", "lcm", "isqrt", "isnan", "isinf", "isfinite",
                                         "isclose", "fsum", "prod", "frexp", "modf", "dist", "sumprod"};
    PyObject                *module = PyCFunction_Check(f) ? PyCFunction_GET_SELF(f) : NULL;
    const char              *name = module && PyModule_Check(module) ? PyModule_GetName(module) : NULL;

    PyErr_Clear();
    if (!name || strcmp(name, "math") != 0)
        return false;
    for (size_t k = 0; k < FR_LEN(others); k++)
        if (strcmp(((PyCFunctionObject *)f)->m_ml->ml_name, others[k]) == 0)
            return false;
    return true;
}

static void
call_math(struct reader *r, PyObject *f, const struct fr_hot_value *arg, int n)
{
    int                a = fr_hot_as_double(r, &arg[0]), b = fr_hot_as_double(r, &arg[n - 1]), to = fr_hot_fresh(r, 1);
    struct fr_hot_ins *in = fr_hot_emit(r, FR_HOT_CALL_MATH, to, a, b);

    in->n = (uint8_t)n;
    in->function = f; /* (a guard holds it) */
    fr_hot_push_new(r, FR_HOT_PYTHON, FR_F64, to);
}

static bool
are_arrays(const struct fr_hot_value *v, int n)
{
    for (int k = 0; k < n; k++)
        if (v[k].kind != FR_HOT_ARRAY && v[k].kind != FR_HOT_LIST)
            return false;
    return true;
}

/* A function, by what is known of it. */
static void
call_known(struct reader *r, const struct fr_hot_value f, struct fr_hot_value *arg, int n, PyObject *names, int32_t next)
{
    const struct function *row;
    enum fr_hot_draw       what;
    bool                   shape;
    fr_dtype               dtype = FR_N_DTYPES;
    int                    to;

    if (names && takes_dtype(names, &arg[n - 1], &dtype)) {
        names = NULL;
        n--;
        if (!fr_hot_call_numpy(r, f.object, arg, n, dtype))
            fr_hot_leave(r);
        return;
    }
    if (names && fr_hot_is_axis(names) && n == 2 && !PyFunction_Check(f.object))
        names = NULL; /* as if it came second */
    for (int k = 0; k < n && (f.object == (PyObject *)&PyEnum_Type || f.object == (PyObject *)&PyZip_Type); k++)
        if ((arg[k].kind == FR_HOT_TUPLE || arg[k].kind == FR_HOT_DISPLAY) && arg[k].ndim > 0)
            arg[k] = fr_hot_new_list(r, &arg[k]); /* (nobody sees what is gone over) */
    if (names && !(PyFunction_Check(f.object) || PyMethod_Check(f.object))) {
        fr_hot_leave(r);
    } else if (f.object == (PyObject *)&PyRange_Type && n >= 1 && n <= 3) {
        call_range(r, arg, n);
    } else if (n == 1 && (f.object == (PyObject *)&PyFloat_Type || f.object == (PyObject *)&PyLong_Type || f.object == (PyObject *)&PyBool_Type ||
                           f.object == (PyObject *)&PyDoubleArrType_Type)) {
        call_type(r, f.object, &arg[0]);
    } else if (n == 1 && is_builtin(r, f.object, "round") && is_float(&arg[0]) && arg[0].dtype == FR_F64) {
        static const struct function rounding = {"round", TO_INT, rint, FR_HOT_CALL_F};

        call_function(r, &rounding, &arg[0]);
    } else if (n == 1 && is_builtin(r, f.object, "abs")) {
        call_abs(r, &arg[0]);
    } else if (n == 1 && is_builtin(r, f.object, "len") && arg[0].kind == FR_HOT_ARRAY) {
        fr_hot_emit(r, FR_HOT_DIM, to = fr_hot_fresh(r, 1), arg[0].reg, 0)->n = 0;
        fr_hot_push_new(r, FR_HOT_PYTHON, FR_I64, to);
    } else if (n == 1 && is_builtin(r, f.object, "len") && arg[0].kind == FR_HOT_LIST) {
        fr_hot_emit(r, FR_HOT_LEN, to = fr_hot_fresh(r, 1), arg[0].reg, 0);
        fr_hot_push_new(r, FR_HOT_PYTHON, FR_I64, to);
    } else if (n == 1 && is_builtin(r, f.object, "sum") && arg[0].kind == FR_HOT_ARRAY && arg[0].ndim == 1 && arg[0].dtype == FR_F64) {
        fr_hot_emit(r, FR_HOT_ADD_UP, to = fr_hot_fresh(r, 1), arg[0].reg, 0);
        fr_hot_push_new(r, FR_HOT_NUMPY, FR_F64, to);
    } else if (n == 1 && f.object == (PyObject *)&PyEnum_Type && are_arrays(arg, 1)) {
        fr_hot_walk(r, arg, 1);
        r->s.stack[r->s.n_stack - 1].is_numbered = true;
    } else if (n == 1 && f.object == (PyObject *)&PyEnum_Type && arg[0].kind == FR_HOT_WALK && !arg[0].is_numbered) {
        arg[0].is_numbered = true;
        fr_hot_push(r, arg[0]);
    } else if (n > 1 && n <= FR_HOT_PARTS && f.object == (PyObject *)&PyZip_Type && are_arrays(arg, n)) {
        fr_hot_walk(r, arg, n);
    } else if (n == 2 && (is_builtin(r, f.object, "max") || is_builtin(r, f.object, "min"))) {
        choose(r, is_builtin(r, f.object, "max"), &arg[0], &arg[1], next);
    } else if ((what = draw_of(f.object, &shape)) != FR_HOT_NO_DRAW) {
        call_draw(r, what, shape, arg, n, names);
    } else if (n == 1 && is_number(&arg[0]) && (row = function_of(f.object)) && takes(row, &arg[0])) {
        call_function(r, row, &arg[0]);
    } else if (!names && fr_hot_call_numpy(r, f.object, arg, n, FR_N_DTYPES)) {
        return;
    } else if (PyFunction_Check(f.object) && !fr_hot_may_ask(r, f.object, names)) {
        fr_hot_enter(r, f.object, arg, n, names, next);
    } else if (!names && is_of_math(f.object) && n >= 1 && n <= 2 && is_number(&arg[0]) && is_number(&arg[n - 1])) {
        call_math(r, f.object, arg, n);
    } else {
        fr_hot_leave(r);
    }
}

void
fr_hot_call(struct reader *r, int n, int32_t next)
{
    struct fr_hot_value arg[FR_HOT_MOST_ARGS], known[FR_HOT_MOST_ARGS], f, null;
    struct fr_hot_mark  before;
    PyObject           *names = r->names;

    r->names = NULL;
    if (r->ended || n < 0 || n > FR_HOT_MOST_ARGS || (names && PyTuple_GET_SIZE(names) > n)) {
        fr_hot_leave(r);
        return;
    }
    for (int k = n; k-- > 0;)
        arg[k] = fr_hot_pop(r);
    f = fr_hot_pop(r);
    null = fr_hot_pop(r);
    if (f.kind == FR_HOT_NULL) {
        struct fr_hot_value other = f;

        f = null;
        null = other;
    }
    if (!r->ended && null.kind == FR_HOT_OBJECT && (f.kind == FR_HOT_ARRAY || f.kind == FR_HOT_LIST)) {
        fr_hot_call_method(r, null.object, &f, arg, n, names);
        return;
    }
    if (!r->ended && null.kind == FR_HOT_OBJECT && f.kind == FR_HOT_OWNER && n < FR_HOT_MOST_ARGS) {
        memmove(arg + 1, arg, (size_t)n * sizeof *arg);
        arg[0] = f;
        if (PyFunction_Check(null.object) && !fr_hot_draws(r, &f))
            fr_hot_enter(r, null.object, arg, n + 1, names, next);
        else
            fr_hot_ask_drawer(r, null.object, arg, n + 1, names);
        return;
    }
    if (!r->ended && null.kind == FR_HOT_OBJECT && PyCode_Check(null.object) && n == 0) {
        fr_hot_enter_nested(r, (PyCodeObject *)null.object, &f, next);
        return;
    }
    if (r->ended || null.kind != FR_HOT_NULL || f.kind != FR_HOT_OBJECT) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_mark(r, &before);
    memcpy(known, arg, (size_t)n * sizeof *arg);
    call_known(r, f, known, n, names, next);
    if (fr_hot_back(r, &before))
        fr_hot_ask(r, f.object, arg, n, names);
}
