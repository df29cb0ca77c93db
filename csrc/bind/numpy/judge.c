/* bind/numpy/judge.c -- which warnings of arithmetic an evaluation owes, told by NumPy.
 *
 * The nodes of an evaluation that has raised flags are computed once more, each by the function of NumPy's that it stands
 * for, on ndarrays over the memory that is still there: so category and text are NumPy's. What depends on memory that
 * has been overwritten cannot be computed again. There the flags are believed where the result bears them out.
 * NumPy runs with a state of its own in which it only notes; what is noted is said when the evaluation has ended. */
#include <math.h>

#include "base/alloc.h"
#include "base/fpe.h"
#include "bind/base/errstate.h"
#include "bind/numpy/numpy.h"
#include "bind/numpy/npy.h"
#include "runtime/judge.h"

static PyObject *noting;       /* NumPy's state in which it writes to notes */
static PyObject *variable;     /* that holds it */
static PyObject *notes;        /* list of str, of the operation that is being judged */
static PyObject *heard;        /* list of (site, flag, raised, text), to be said */
static PyObject *operators;    /* the module operator */

int
fr_judge_init(void)
{
    PyObject *umath = PyImport_ImportModule("numpy._core.umath"), *types = PyImport_ImportModule("types"), *write, *sink = NULL;

    operators = PyImport_ImportModule("operator");
    notes = PyList_New(0);
    heard = PyList_New(0);
    if (umath && types && notes && heard && operators && (write = PyObject_GetAttrString(notes, "append"))) {
        PyObject *space = PyObject_GetAttrString(types, "SimpleNamespace"), *kw = Py_BuildValue("{s:N}", "write", write);
        PyObject *none = PyTuple_New(0), *make = PyObject_GetAttrString(umath, "_make_extobj"), *args;

        sink = space && kw && none ? PyObject_Call(space, none, kw) : NULL;
        args = sink ? Py_BuildValue("{s:s,s:N}", "all", "log", "call", sink) : NULL;
        noting = args && make ? PyObject_Call(make, none, args) : NULL;
        Py_XDECREF(space);
        Py_XDECREF(kw);
        Py_XDECREF(none);
        Py_XDECREF(make);
        Py_XDECREF(args);
        variable = PyObject_GetAttrString(umath, "_extobj_contextvar");
    }
    Py_XDECREF(umath);
    Py_XDECREF(types);
    return noting && variable ? 0 : -1;
}

/* ---- arrays ---- */

/* The memory as an ndarray that lies so; `base` keeps it (or NULL: the turn does). */
static PyObject *
array_over(const struct fr_layout *l, fr_dtype d, char *memory, PyObject *base)
{
    npy_intp       dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    int            size = fr_dtype_size(d);
    PyArray_Descr *descr = (PyArray_Descr *)Py_NewRef(fr_numpy_dtype(d));
    PyObject      *a;

    for (int k = 0; k < l->ndim; k++) {
        dims[k] = fr_layout_dims(l)[k];
        strides[k] = fr_layout_strides(l)[k] * size;
    }
    a = PyArray_NewFromDescr(&PyArray_Type, descr, l->ndim, dims, strides, memory, NPY_ARRAY_WRITEABLE, NULL);
    if (a && base && PyArray_SetBaseObject(fr_array(a), Py_NewRef(base)) < 0)
        Py_CLEAR(a);
    return a;
}

/* An ndarray of its own that lies as the node does. */
static PyObject *
array_like(const struct fr_judged_node *n)
{
    npy_intp  n_bytes = (npy_intp)n->layout->n_elems * fr_dtype_size(n->dtype);
    PyObject *room = PyArray_ZEROS(1, &n_bytes, NPY_UINT8, 0), *a;

    a = room ? array_over(n->layout, n->dtype, PyArray_BYTES(fr_array(room)), room) : NULL;
    Py_XDECREF(room);
    return a;
}

/* What an argument is seen as; NULL without an exception: it is gone. */
static PyObject *
argument(const struct fr_judged_arg *a, PyObject *const *value)
{
    PyObject *of;

    if (a->node < 0) {
        PyArray_Descr *descr = (PyArray_Descr *)Py_NewRef(fr_numpy_dtype(a->dtype));

        of = PyArray_NewFromDescr(&PyArray_Type, descr, 0, NULL, NULL, NULL, 0, NULL);
        if (of)
            memcpy(PyArray_DATA(fr_array(of)), a->bits, (size_t)fr_dtype_size(a->dtype));
        return of;
    }
    of = value[a->node];
    return of ? array_over(a->layout, a->dtype, PyArray_BYTES(fr_array(of)) + a->offset * fr_dtype_size(a->dtype), of) : NULL;
}

/* ---- one operation, by NumPy ---- */

static PyObject *
axes_of(uint32_t mask)
{
    PyObject *t = PyTuple_New(__builtin_popcount(mask));
    int       n = 0;

    for (int k = 0; t && k < FR_MAX_DIMS; k++)
        if (mask >> k & 1)
            PyTuple_SET_ITEM(t, n++, PyLong_FromLong(k));
    return t;
}

/* ufunc.method(a, axis=axis, dtype=of the node), where the ufunc is what joins the node's partial results. */
static PyObject *
along(const struct fr_judged_node *n, const char *method, PyObject *axis, PyObject *a)
{
    PyObject *f = fr_numpy_attr(fr_op_info[fr_op_info[n->op].combine].name), *m = f ? PyObject_GetAttrString(f, method) : NULL;
    PyObject *args = PyTuple_Pack(1, a), *kw = axis ? Py_BuildValue("{s:O,s:O}", "axis", axis, "dtype", fr_numpy_dtype(n->dtype)) : NULL;
    PyObject *r = m && args && kw ? PyObject_Call(m, args, kw) : NULL;

    Py_XDECREF(f);
    Py_XDECREF(m);
    Py_XDECREF(args);
    Py_XDECREF(kw);
    Py_XDECREF(axis);
    return r;
}

static PyObject *
reduced(const struct fr_judged_node *n, PyObject *a)
{
    PyObject *axis = axes_of(n->axes);

    if (!fr_op_finds_index(n->op))
        return along(n, "reduce", axis, a);
    if (axis && PyTuple_GET_SIZE(axis) == 1)
        Py_SETREF(axis, Py_NewRef(PyTuple_GET_ITEM(axis, 0)));
    else
        Py_XSETREF(axis, Py_NewRef(Py_None));
    Py_XSETREF(axis, PyObject_CallMethod(a, fr_op_info[n->op].name, "O", axis));
    return axis;
}

static bool
is_of_divmod(const struct fr_judged_node *n)
{
    return (n->site & FR_SITE_INSTEAD) && (n->op == FR_OP_floor_divide || n->op == FR_OP_remainder);
}

static bool
is_dot(const struct fr_judged_node *n)
{
    return (n->site & FR_SITE_INSTEAD) && n->op == FR_OP_matmul;
}

/* dot goes over stacks in its own way, which was traced as matmul of a row and a column at a time. */
static bool
is_of_stacks(const struct fr_judged_node *n)
{
    return n->arg[0].layout->ndim > 2 || n->arg[1].layout->ndim > 2;
}

/* Numbers in NumPy have operators of their own, which say so: the operator's name, or NULL. */
static const char *
operator_of_numbers(const struct fr_judged_node *n)
{
    static const struct {
        fr_op       op;
        const char *name;
    } names[] = {{FR_OP_add, "add"}, {FR_OP_subtract, "sub"}, {FR_OP_multiply, "mul"}, {FR_OP_divide, "truediv"},
                 {FR_OP_floor_divide, "floordiv"}, {FR_OP_remainder, "mod"}, {FR_OP_power, "pow"}};

    for (size_t i = 0; i < FR_LEN(names) && n->layout->ndim == 0 && !(n->site & FR_SITE_UFUNC); i++)
        if (names[i].op == n->op)
            return names[i].name;
    return NULL;
}

/* NULL without an exception: no operator of numbers. */
static PyObject *
operate(const struct fr_judged_node *n, PyObject *const *arg)
{
    const char *name = operator_of_numbers(n);
    PyObject   *x = NULL, *y = NULL, *r = NULL;

    if (name && n->n_args == 2 && (x = PyArray_ToScalar(PyArray_DATA(fr_array(arg[0])), fr_array(arg[0]))) &&
        (y = PyArray_ToScalar(PyArray_DATA(fr_array(arg[1])), fr_array(arg[1]))))
        r = PyObject_CallMethod(operators, name, "OO", x, y);
    Py_XDECREF(x);
    Py_XDECREF(y);
    return r;
}

/* A store's value is there in the dtype that is stored: it only says what the array is afterwards. */
static PyObject *
stored(const struct fr_judged_node *n, PyObject *const *arg)
{
    const struct fr_judged_arg *w = &n->arg[2];
    PyObject                   *r = array_like(n), *window;
    bool                        ok;

    if (!r)
        return NULL;
    window = array_over(w->layout, n->dtype, PyArray_BYTES(fr_array(r)) + w->offset * fr_dtype_size(n->dtype), r);
    ok = window && PyArray_CopyInto(fr_array(r), fr_array(arg[0])) == 0 && PyArray_CopyInto(fr_array(window), fr_array(arg[1])) == 0;
    Py_XDECREF(window);
    if (!ok)
        Py_CLEAR(r);
    return r;
}

/* The part of divmod that the node is. */
static PyObject *
part_of_divmod(const struct fr_judged_node *n, PyObject *const *arg)
{
    PyObject *f, *x, *y, *both = NULL, *r = NULL;

    if (n->layout->ndim || (n->site & FR_SITE_UFUNC)) {
        if ((f = fr_numpy_attr("divmod")))
            both = PyObject_Vectorcall(f, arg, 2, NULL);
        Py_XDECREF(f);
    } else if ((x = PyArray_ToScalar(PyArray_DATA(fr_array(arg[0])), fr_array(arg[0])))) {
        if ((y = PyArray_ToScalar(PyArray_DATA(fr_array(arg[1])), fr_array(arg[1]))))
            both = PyNumber_Divmod(x, y);
        Py_DECREF(x);
        Py_XDECREF(y);
    }
    if (both)
        r = PySequence_GetItem(both, n->op == FR_OP_remainder);
    Py_XDECREF(both);
    return r;
}

/* NULL without an exception: NumPy does not have it. */
static PyObject *
computed(const struct fr_judged_node *n, PyObject *const *arg)
{
    PyObject *f, *r;

    switch (fr_op_info[n->op].class_) {
    case FR_CLASS_REDUCE: return reduced(n, arg[0]);
    case FR_CLASS_SCAN:
        return along(n, "accumulate", PyLong_FromLong((long)n->axes), arg[0]);
    case FR_CLASS_MAP:
        if (is_of_divmod(n))
            return part_of_divmod(n, arg);
        if ((r = operate(n, arg)) || PyErr_Occurred())
            return r;
        break;
    default:
        if (n->op == FR_OP_cast)
            return PyObject_CallMethod(arg[0], "astype", "O", fr_numpy_dtype(n->dtype));
        if (n->op == FR_OP_store)
            return stored(n, arg);
        if (n->op == FR_OP_take)
            return PyObject_CallMethod(arg[0], "take", "Oi", arg[1], (int)n->axes);
        if (n->op != FR_OP_matmul || n->axes != FR_PRODUCT_NUMPYS)
            return NULL;
    }
    if (!(f = fr_numpy_attr(is_dot(n) && !is_of_stacks(n) ? "dot" : fr_op_info[n->op].name))) {
        PyErr_Clear();
        return NULL;
    }
    r = PyObject_Vectorcall(f, arg, n->n_args, NULL);
    Py_DECREF(f);
    return r;
}

/* The exponent of a power that was traced as another operation; 0: it is none. */
static float
exponent_of(const struct fr_judged_node *n)
{
    float by;

    switch (n->op) {
    case FR_OP_cube: return 3;
    case FR_OP_fourth: return 4;
    case FR_OP_number_power: memcpy(&by, &n->axes, sizeof by); return by;
    case FR_OP_square: case FR_OP_multiply_apart: return n->site & FR_SITE_INSTEAD ? 2 : 0;
    case FR_OP_sqrt: return n->site & FR_SITE_INSTEAD ? 0.5f : 0;
    case FR_OP_reciprocal: return n->site & FR_SITE_INSTEAD ? -1 : 0;
    default: return 0;
    }
}

/* The operation that the user wrote, as far as the node itself tells. */
static fr_op
written_op(const struct fr_judged_node *n)
{
    if (exponent_of(n) != 0)
        return FR_OP_power;
    return n->op == FR_OP_multiply && (n->site & FR_SITE_INSTEAD) ? FR_OP_square : fr_op_info[n->op].written;
}

/* The operation that the user wrote, where another one with the same bits was traced. */
static struct fr_judged_node
as_written(const struct fr_judged_node *n, PyObject **arg)
{
    struct fr_judged_node w = *n;
    PyObject             *f, *inverse = NULL;
    double                by = 0;

    w.op = written_op(n);
    if (exponent_of(n) != 0) {
        PyObject *exponent = PyFloat_FromDouble(exponent_of(n));

        Py_XSETREF(arg[1], exponent ? PyArray_FromAny(exponent, (PyArray_Descr *)Py_NewRef(fr_numpy_dtype(w.dtype)), 0, 0, 0, NULL)
                                    : NULL);
        Py_XDECREF(exponent);
        w.op = arg[1] ? FR_OP_power : n->op;
        w.n_args = arg[1] ? 2 : 1;
        return w;
    }
    w.n_args = fr_op_info[w.op].class_ == FR_CLASS_MAP ? fr_op_info[w.op].arity : w.n_args;
    if (w.op != FR_OP_multiply || w.arg[1].node >= 0 || (w.arg[1].dtype != FR_F64 && w.arg[1].dtype != FR_F32))
        return w;
    by = w.arg[1].dtype == FR_F64 ? *(double *)PyArray_DATA(fr_array(arg[1])) : *(float *)PyArray_DATA(fr_array(arg[1]));
    if (fr_divisors_inverse(w.site & ~FR_SITE_UFUNC, by) && (f = fr_numpy_attr("reciprocal"))) {
        if ((inverse = PyObject_CallOneArg(f, arg[1])))
            Py_SETREF(inverse, PyArray_FROM_O(inverse));
        Py_DECREF(f);
    }
    if (inverse) {
        Py_SETREF(arg[1], inverse);
        w.op = FR_OP_divide;
    }
    return w;
}

/* ---- what is heard ---- */

static const struct {
    unsigned    flag;
    const char *name;
} kinds[] = {{FR_FPE_DIVIDE, "divide by zero"}, {FR_FPE_OVER, "overflow"}, {FR_FPE_UNDER, "underflow"}, {FR_FPE_INVALID, "invalid value"}};

static unsigned
flag_of(const char *text)
{
    for (size_t k = 0; k < FR_LEN(kinds); k++)
        if (strncmp(text, kinds[k].name, strlen(kinds[k].name)) == 0)
            return kinds[k].flag;
    return 0;
}

static void
hear(uint32_t site, unsigned flag, unsigned raised, const char *text)
{
    PyObject *x;

    if (!(flag & FR_SITE_WARNS(site)))
        return;
    x = Py_BuildValue("IIIs", (unsigned)site, flag, raised, text);
    if (!x || PyList_Append(heard, x) < 0)
        PyErr_Clear();
    Py_XDECREF(x);
}

/* In what NumPy says it was; NULL: as NumPy says where the operation is a call for itself. */
static const char *
name_of_whole(const struct fr_judged_node *n)
{
    struct fr_judged_node w = *n;

    if (is_dot(n))
        return "dot";
    if (n->op != FR_OP_cast || n->axes == 0)
        return NULL;
    w.op = (fr_op)(n->axes - 1);
    return fr_op_info[w.op].class_ == FR_CLASS_REDUCE ? "reduce" : fr_op_info[written_op(&w)].name;
}

/* What NumPy has written: "Warning: divide by zero encountered in log\n"; `name`: in what, unless that is NULL. */
static void
hear_notes(const struct fr_judged_node *n, const char *name)
{
    static const char encountered[] = " encountered in ";
    const char *text[FR_LEN(kinds)];
    char        line[200];
    unsigned    raised = 0;
    int         n_texts = 0;

    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(notes) && n_texts < (int)FR_LEN(kinds); i++) {
        const char *s = PyUnicode_AsUTF8(PyList_GET_ITEM(notes, i));

        if (s && strncmp(s, "Warning: ", 9) == 0) {
            text[n_texts++] = s + 9;
            raised |= flag_of(s + 9);
        }
    }
    for (int i = 0; i < n_texts; i++) {
        const char *in = name ? strstr(text[i], encountered) : NULL;

        if (in)
            snprintf(line, sizeof line, "%.*s%s%s", (int)(in - text[i]), text[i], encountered, name);
        else
            snprintf(line, sizeof line, "%s", text[i]);
        line[strcspn(line, "\n")] = '\0';
        hear(n->site, flag_of(line), raised, line);
    }
    PyErr_Clear();
}

/* ---- what can no longer be computed ---- */

/* What an operation can raise. */
static unsigned
may_raise(const struct fr_judged_node *n)
{
    const struct fr_op_info *info = &fr_op_info[written_op(n)];
    unsigned                 flags = 0;

    if (fr_dtype_is_complex(n->dtype) && (fr_op_info[n->op].flags & FR_OPF_COSTLY))
        return FR_FPE_ALL;
    if (n->op == FR_OP_cast)
        return fr_dtype_promote(n->arg[0].dtype, n->dtype) == n->dtype ? 0 : FR_FPE_OVER | FR_FPE_UNDER | FR_FPE_INVALID;
    if (info->rule == FR_RULE_COMPONENT && !fr_dtype_is_complex(n->arg[0].dtype))
        return 0;
    if (info->class_ == FR_CLASS_REDUCE || info->class_ == FR_CLASS_SCAN)
        info = &fr_op_info[info->combine];
    for (size_t k = 0; k < FR_LEN(kinds); k++)
        if (strchr(info->raises, kinds[k].name[0]))
            flags |= kinds[k].flag;
    return flags | ((info->flags & FR_OPF_QUOTIENT) && fr_dtype_is_int(n->dtype) ? FR_FPE_OVER : 0);
}

/* Which of the flags an element of the result bears out: infinities and NaN. Integers bear out anything. */
static unsigned
borne_out(PyObject *result)
{
    static const char *const tests[] = {"isinf", "isnan"};
    unsigned                 flags = FR_FPE_UNDER;

    if (!PyArray_ISFLOAT(fr_array(result)) && !PyArray_ISCOMPLEX(fr_array(result)))
        return FR_FPE_ALL;
    for (int k = 0; k < 2; k++) {
        PyObject *f = fr_numpy_attr(tests[k]), *is = f ? PyObject_CallOneArg(f, result) : NULL;
        PyObject *any = is ? PyObject_CallMethod(is, "any", NULL) : NULL;

        if (any && PyObject_IsTrue(any) == 1)
            flags |= k ? FR_FPE_INVALID : FR_FPE_DIVIDE | FR_FPE_OVER;
        Py_XDECREF(f);
        Py_XDECREF(is);
        Py_XDECREF(any);
    }
    PyErr_Clear();
    return flags;
}

/* Integers are divided as floats: a divisor of 0 makes infinities and NaN, and what else is raised is a quotient that is
 * too large. */
static unsigned
as_integers(const struct fr_judged_node *n, unsigned flags)
{
    if (!(fr_op_info[n->op].flags & FR_OPF_QUOTIENT) || !fr_dtype_is_int(n->dtype) || !flags)
        return flags;
    return flags & FR_FPE_DIVIDE ? FR_FPE_DIVIDE : FR_FPE_OVER;
}

/* Believes the flags that nobody has explained; returns those that this explains. */
static unsigned
believe(const struct fr_judged_node *n, PyObject *result, unsigned unexplained)
{
    unsigned              explained = unexplained & may_raise(n), flags;
    struct fr_judged_node w = *n;
    const char           *name;
    char                  line[100];

    w.op = written_op(n);
    name = fr_op_info[w.op].class_ == FR_CLASS_REDUCE ? "reduce" : is_of_divmod(n) ? "divmod" : is_dot(n) ? "dot"
                                                                                                         : fr_op_info[w.op].name;
    if (explained && result)
        explained &= borne_out(result);
    flags = as_integers(n, explained);
    for (size_t k = 0; k < FR_LEN(kinds); k++)
        if (flags & kinds[k].flag) {
            snprintf(line, sizeof line, "%s encountered in %s%s", kinds[k].name, operator_of_numbers(&w) ? "scalar " : "", name);
            hear(n->site, kinds[k].flag, flags, line);
        }
    return explained;
}

/* ---- ufuncs that were told where ---- */

static bool
is_masked(const struct fr_judged_node *n)
{
    return (n->site & FR_SITE_MASKED) && n->op != FR_OP_where;
}

/* Such a ufunc was traced as its operation everywhere, and a choice. What the choice takes of it is computed by NumPy as it
 * was told. */
static void
judge_choice(const struct fr_judged *j, const struct fr_judged_node *choice, PyObject *mask, PyObject *const *value)
{
    const struct fr_judged_node *n = choice;
    PyObject                    *arg[3] = {NULL}, *f = NULL, *args = NULL, *kw = NULL, *out = NULL;
    npy_intp                     dims[FR_MAX_DIMS];
    bool                         there = true;
    int                          from = choice->arg[1].node;

    while (from >= 0 && is_masked(&j->node[from])) {
        n = &j->node[from];
        if (n->op != FR_OP_cast)
            break;
        from = n->arg[0].node;
    }
    if (n == choice || fr_op_info[n->op].class_ != FR_CLASS_MAP)
        return;
    for (int k = 0; k < n->n_args; k++)
        there &= (arg[k] = argument(&n->arg[k], value)) != NULL;
    for (int k = 0; k < choice->layout->ndim; k++)
        dims[k] = fr_layout_dims(choice->layout)[k];
    if (there && (f = fr_numpy_attr(fr_op_info[n->op].name)) && (args = PyTuple_New(n->n_args)) &&
        (out = PyArray_Zeros(choice->layout->ndim, dims, (PyArray_Descr *)Py_NewRef(fr_numpy_dtype(n->dtype)), 0)) &&
        (kw = Py_BuildValue("{s:O,s:O}", "where", mask, "out", out))) {
        for (int k = 0; k < n->n_args; k++)
            PyTuple_SET_ITEM(args, k, Py_NewRef(arg[k]));
        Py_XDECREF(PyObject_Call(f, args, kw));
        PyErr_Clear();
        hear_notes(n, NULL);
    }
    PyErr_Clear();
    for (int k = 0; k < n->n_args; k++)
        Py_XDECREF(arg[k]);
    Py_XDECREF(f);
    Py_XDECREF(args);
    Py_XDECREF(kw);
    Py_XDECREF(out);
}

/* ---- all of them ---- */

/* The value of a computing node, heard; NULL: there is none. */
static PyObject *
judge_node(const struct fr_judged *j, const struct fr_judged_node *n, PyObject *const *value, unsigned *unexplained)
{
    PyObject *arg[3] = {NULL}, *result = NULL, *out = NULL;
    bool      there = true;
    int       n_args = n->op == FR_OP_store ? 2 : n->n_args;

    for (int k = 0; k < n_args; k++)
        there &= (arg[k] = argument(&n->arg[k], value)) != NULL;
    PyErr_Clear();
    if (there && n->layout->n_elems > 0 && n_args > 0) {
        struct fr_judged_node written = as_written(n, arg);

        PyList_SetSlice(notes, 0, PY_SSIZE_T_MAX, NULL);
        if ((result = computed(&written, arg)) && (out = array_like(n))) {
            PyObject *as = PyArray_FROM_O(result);

            if (!as || PyArray_CopyInto(fr_array(out), fr_array(as)) < 0)
                Py_CLEAR(out);
            Py_XDECREF(as);
        }
        PyErr_Clear();
        /* Where each operation is judged by itself, the quotient has said it. */
        if (!is_masked(n) && !(fr_trace_at_once && is_of_divmod(n) && n->op == FR_OP_remainder))
            hear_notes(n, name_of_whole(n));
        if (n->site & FR_SITE_MASKED && n->op == FR_OP_where) {
            PyList_SetSlice(notes, 0, PY_SSIZE_T_MAX, NULL);
            judge_choice(j, n, arg[0], value);
        }
    } else if (n->memory) {
        out = array_over(n->layout, n->dtype, n->memory, NULL);
        *unexplained &= ~believe(n, out, *unexplained);
    } else if (!there) {
        *unexplained &= ~believe(n, NULL, *unexplained);
    }
    for (int k = 0; k < 3; k++)
        Py_XDECREF(arg[k]);
    Py_XDECREF(result);
    PyErr_Clear();
    return out;
}

bool
fr_judge_by_numpy(const struct fr_judged *j)
{
    Py_ssize_t before = PyList_GET_SIZE(heard);
    PyObject **value = fr_calloc((size_t)j->n, sizeof *value), *token, *type, *error, *trace;
    int       *last = fr_calloc((size_t)j->n, sizeof *last); /* who reads it last */
    unsigned   unexplained = j->raised;
    bool       masked = false; /* what one reads may be wanted once more */

    PyErr_Fetch(&type, &error, &trace);
    token = value && last ? PyContextVar_Set(variable, noting) : NULL;
    for (int i = 0; token && i < j->n; i++)
        for (int k = 0; k < j->node[i].n_args; k++)
            if (j->node[i].arg[k].node >= 0 && j->node[i].arg[k].node < i)
                last[j->node[i].arg[k].node] = i;
    for (int i = 0; token && i < j->n; i++) {
        const struct fr_judged_node *n = &j->node[i];

        if (n->op == FR_OP_leaf)
            value[i] = n->memory ? array_over(n->layout, n->dtype, n->memory, NULL) : NULL;
        else
            value[i] = judge_node(j, n, value, &unexplained);
        masked |= is_masked(n);
        for (int k = 0; k < n->n_args && !masked; k++)
            if (n->arg[k].node >= 0 && last[n->arg[k].node] == i)
                Py_CLEAR(value[n->arg[k].node]);
    }
    PyErr_Clear();
    for (int i = 0; value && i < j->n; i++)
        Py_XDECREF(value[i]);
    if (token && PyContextVar_Reset(variable, token) < 0)
        PyErr_Clear();
    Py_XDECREF(token);
    fr_free(value);
    fr_free(last);
    PyErr_Restore(type, error, trace);
    return PyList_GET_SIZE(heard) > before;
}

fr_status
fr_judge_discards(void)
{
    static PyObject *category, *text;
    PyObject        *module;

    if (!category && (module = PyImport_ImportModule("numpy.exceptions"))) {
        category = PyObject_GetAttrString(module, "ComplexWarning");
        text = PyUnicode_FromString("Casting complex values to real discards the imaginary part");
        Py_DECREF(module);
    }
    return category && text && fr_site_warn(fr_trace_site, category, text) == 0 ? FR_OK : FR_ERAISED;
}

static int
say(uint32_t site, unsigned flag, unsigned raised, PyObject *text)
{
    int st = fr_errstate_say(flag, raised, text);

    return st == 1 ? fr_site_warn(site, PyExc_RuntimeWarning, text) : st;
}

fr_status
fr_judge_overflows(void)
{
    static PyObject *text;

    if (!(FR_SITE_WARNS(fr_trace_site) & FR_FPE_OVER))
        return FR_OK;
    if (!text && !(text = PyUnicode_FromString("overflow encountered in cast")))
        return FR_ERAISED;
    return say(fr_trace_site, FR_FPE_OVER, FR_FPE_OVER, text) == 0 ? FR_OK : FR_ERAISED;
}

fr_status
fr_judge_speak(void)
{
    PyObject *list = heard, *type, *error, *trace;
    fr_status st = FR_OK;

    if (!(heard = PyList_New(0))) {
        heard = list;
        PyErr_Clear();
        return FR_OK;
    }
    PyErr_Fetch(&type, &error, &trace);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && st == FR_OK; i++) {
        PyObject *x = PyList_GET_ITEM(list, i);

        if (say((uint32_t)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(x, 0)),
                (unsigned)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(x, 1)),
                (unsigned)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(x, 2)), PyTuple_GET_ITEM(x, 3)) < 0)
            st = FR_ERAISED;
    }
    Py_DECREF(list);
    if (st == FR_OK)
        PyErr_Restore(type, error, trace);
    else if (type)
        fr_errors_add_context(type, error, trace);
    return st;
}
