/* bind/tensor/dispatch.c -- NumPy functions called with tensors: __array_ufunc__ and __array_function__.
 *
 * A NumPy function that has a twin here is answered by it, lazily; any other is handed over. The twins
 * are found once, at import: our functions whose name NumPy knows too. */
#include <string.h>

#include "bind/tensor/index.h"

static PyObject *twins;     /* NumPy function -> our function */
static PyObject *ufuncs;    /* NumPy ufunc -> index of the op */

/* NumPy's names for rows of ours. */
static const struct {
    const char *alias, *name;
} aliases[] = {
#define ALIAS(alias, name) {#alias, #name},
#include "numpy_names.def"
};

static PyObject *
look_up(PyObject *dict, PyObject *key)
{
    PyObject *v = PyDict_GetItemWithError(dict, key);

    if (!v)
        PyErr_Clear(); /* not hashable: not a function of NumPy's */
    return v;
}

/* ---- __array_ufunc__ */

/* Somebody else's array type among the operands shall answer. */
static bool
knows(PyObject *o)
{
    PyObject *f;
    bool      yes;

    if (fr_is_tensor(o) || fr_numpy_is_array(o) || fr_numpy_is_scalar(o) || PyFloat_Check(o) ||
        PyLong_Check(o) || PyComplex_Check(o) || PyList_Check(o) || PyTuple_Check(o))
        return true;
    f = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__array_ufunc__");
    if (!f)
        PyErr_Clear();
    yes = !f;
    Py_XDECREF(f);
    return yes;
}

/* The reduction or scan whose partial results `op` joins, or FR_N_OPS: add.reduce(x, axis=0, ...) is sum(x, axis=0, ...),
 * and so on. */
static fr_op
method_of(fr_op op, bool accumulate)
{
    fr_op r = 0;

    while (r < FR_N_OPS && (fr_op_info[r].class_ != (accumulate ? FR_CLASS_SCAN : FR_CLASS_REDUCE) ||
                            fr_op_info[r].combine != op || fr_op_finds_index(r)))
        r++;
    return r;
}

enum { N_KEYWORDS = 8 };    /* more than a ufunc's outer() takes with a meaning for us */

static PyObject *
our_function(const char *name)
{
    PyObject *module = PyImport_ImportModule("frit._core");
    PyObject *f = module ? PyObject_GetAttrString(module, name) : NULL;

    Py_XDECREF(module);
    return f;
}

/* Whether our function means by a keyword what the method does. out= is NumPy's. */
static bool
takes_keyword(fr_op r, const char *key, PyObject *value)
{
    bool accumulate = fr_op_info[r].class_ == FR_CLASS_SCAN;

    if (!strcmp(key, "dtype"))
        return fr_op_info[r].rule == FR_RULE_SUM || value == Py_None;
    if (!strcmp(key, "axis"))
        return !accumulate || PyLong_Check(value);
    if (accumulate)
        return false;
    return !strcmp(key, "keepdims") ||
           ((!strcmp(key, "initial") || !strcmp(key, "where")) && fr_op_info[r].rule != FR_RULE_TRUTH);
}

/* A ufunc's method that is a reduction of ours; NULL without an exception if it is none. The axis that
 * a ufunc takes by default is the first, not all of them. */
static PyObject *
reduce_method(fr_op op, const char *method, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    bool        accumulate = !strcmp(method, "accumulate");
    fr_op       r = method_of(op, accumulate);
    PyObject   *f, *dict, *tuple, *result = NULL;
    Py_ssize_t  n_kw = kw ? PyTuple_GET_SIZE(kw) : 0;

    if (r == FR_N_OPS || nargs != 1 || !fr_is_tensor(args[0]) || (accumulate && fr_of(args[0])->layout->ndim == 0))
        return NULL; /* a number is not to be accumulated: NumPy says so */
    for (Py_ssize_t i = 0; i < n_kw; i++) {
        const char *key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kw, i));
        if (!key)
            return NULL;
        if (!takes_keyword(r, key, args[nargs + i]))
            return NULL;
    }
    f = our_function(fr_op_info[r].name);
    dict = PyDict_New();
    tuple = PyTuple_Pack(1, args[0]);
    if (f && dict && tuple) {
        PyObject *first = PyLong_FromLong(0);
        int       bad = !first || PyDict_SetItem(dict, fr_str_axis, first) < 0;
        Py_XDECREF(first);
        for (Py_ssize_t i = 0; !bad && i < n_kw; i++)
            if (args[nargs + i] != Py_None || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw, i), "dtype") != 0)
                bad = PyDict_SetItem(dict, PyTuple_GET_ITEM(kw, i), args[nargs + i]) < 0;
        if (!bad)
            result = PyObject_Call(f, tuple, dict);
    }
    Py_XDECREF(f);
    Py_XDECREF(dict);
    Py_XDECREF(tuple);
    return result;
}

/* A window of an array with `n_ones` axes of size 1 behind its own, as a Tensor. NULL with an exception, or without
 * one where there are too many axes. */
static PyObject *
with_ones(const struct fr_tensor *t, int n_ones)
{
    const struct fr_layout *l = t->layout;
    int64_t                 dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    struct fr_tensor        out;
    struct fr_err           err;

    if (l->ndim + n_ones > FR_MAX_DIMS)
        return NULL;
    for (int k = 0; k < l->ndim + n_ones; k++) {
        dims[k] = k < l->ndim ? fr_layout_dims(l)[k] : 1;
        strides[k] = k < l->ndim ? fr_layout_strides(l)[k] : 0;
    }
    return fr_type_result(fr_tensor_window(t, l->ndim + n_ones, dims, strides, 0, &out, &err), &out, &err);
}

/* op.outer(a, b, ...) is op(a[..., None, None], b, ...), with as many new axes as b has. NULL without an exception where
 * it is NumPy's. Numbers are arrays there, of their own dtypes. */
static PyObject *
outer_method(fr_op op, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    Py_ssize_t      n_kw = kw ? PyTuple_GET_SIZE(kw) : 0;
    PyObject       *list[2 + N_KEYWORDS] = {NULL}, *result = NULL;
    struct fr_value x[2];
    int             n = 0;

    if (nargs != 2 || fr_op_info[op].arity != 2 || n_kw > N_KEYWORDS)
        return NULL;
    while (n < 2 && fr_value_tensor(args[n], &x[n]) == FR_VALUE_OK)
        n++;
    if (n == 2 && (list[0] = with_ones(x[0].arg.t, x[1].arg.t->layout->ndim)) &&
        (list[1] = with_ones(x[1].arg.t, 0))) {
        memcpy(list + 2, args + 2, (size_t)n_kw * sizeof *list);
        result = fr_functions_map(op, list, 2, kw);
    }
    Py_XDECREF(list[0]);
    Py_XDECREF(list[1]);
    while (n-- > 0)
        fr_value_clear(&x[n]);
    return result;
}

/* ufunc.method(*args, **kw) by NumPy, on evaluated data. */
static PyObject *
fallback_ufunc(PyObject *ufunc, PyObject *method, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *f, *result;

    if (PyUnicode_CompareWithASCIIString(method, "__call__") == 0)
        return fr_fallback_call(ufunc, args, nargs, kw);
    f = PyObject_GetAttr(ufunc, method);
    result = f ? fr_fallback_call(f, args, nargs, kw) : NULL;
    Py_XDECREF(f);
    return result;
}

/* An operator of NumPy's number before one of ours comes here as its ufunc. */
static bool
is_of_numbers(fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    return nargs == 2 && !kw && fr_numpy_is_scalar(args[0]) && fr_is_tensor(args[1]) && fr_object(args[1])->scalar;
}

static PyObject *
map_numbers(fr_op op, fr_args args)
{
    return fr_type_number(op == FR_OP_power ? fr_power(args[0], args[1], NULL, true) : fr_number_map(op, args, 2, true));
}

static PyObject *
array_ufunc(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *ufunc, *method, *index, *result;
    fr_op     op;

    (void)self;
    if (nargs < 2 || !PyUnicode_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "__array_ufunc__() takes a ufunc, a method and operands");
        return NULL;
    }
    ufunc = args[0];
    method = args[1];
    args += 2;
    nargs -= 2;
    for (Py_ssize_t i = 0; i < nargs; i++)
        if (!knows(args[i]))
            Py_RETURN_NOTIMPLEMENTED;
    if (kw && PyTuple_GET_SIZE(kw) == 0)
        kw = NULL;
    index = look_up(ufuncs, ufunc);
    if (!index) {
        /* matmul is a ufunc there, and a function with a way of its own here. */
        PyObject *ours = look_up(twins, ufunc);
        return ours && PyUnicode_CompareWithASCIIString(method, "__call__") == 0
                   ? PyObject_Vectorcall(ours, args, (size_t)nargs, kw)
                   : fallback_ufunc(ufunc, method, args, nargs, kw);
    }
    op = (fr_op)PyLong_AsLong(index);
    if (PyUnicode_CompareWithASCIIString(method, "__call__") == 0)
        return nargs == fr_op_info[op].arity ? is_of_numbers(args, nargs, kw) ? map_numbers(op, args)
                                                                              : fr_functions_map(op, args, nargs, kw)
                                             : fallback_ufunc(ufunc, method, args, nargs, kw);
    if (PyUnicode_CompareWithASCIIString(method, "reduce") == 0 ||
        PyUnicode_CompareWithASCIIString(method, "accumulate") == 0) {
        result = reduce_method(op, PyUnicode_AsUTF8(method), args, nargs, kw);
        if (result || PyErr_Occurred())
            return result;
    } else if (PyUnicode_CompareWithASCIIString(method, "outer") == 0) {
        result = outer_method(op, args, nargs, kw);
        if (result || PyErr_Occurred())
            return result;
    } else if (PyUnicode_CompareWithASCIIString(method, "at") == 0 && nargs == 3 && !kw && fr_is_tensor(args[0])) {
        int st = fr_key_join(args[0], args[1], args[2], op);
        if (st != FR_VALUE_FALLBACK)
            return st == FR_VALUE_OK ? Py_NewRef(Py_None) : NULL;
    }
    return fallback_ufunc(ufunc, method, args, nargs, kw);
}

/* ---- __array_function__ */

static PyObject *
array_function(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *ours;

    (void)self;
    if (nargs != 4 || !PyTuple_Check(args[2]) || !PyDict_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError,
                        "__array_function__() takes a function, types, arguments and keywords");
        return NULL;
    }
    ours = look_up(twins, args[0]);
    return ours ? PyObject_Call(ours, args[2], args[3]) : fr_fallback_dict(args[0], args[2], args[3]);
}

PyMethodDef fr_dispatch_tensor_methods[] = {
    {"__array_ufunc__", FR_FAST(array_ufunc),
     "NumPy's ufuncs of tensors: lazily where frit has the operation, else by NumPy."},
    {"__array_function__", (PyCFunction)(void (*)(void))array_function, METH_FASTCALL,
     "NumPy's functions of tensors: lazily where frit has the function, else by NumPy."},
    {NULL, NULL, 0, NULL},
};

/* ---- tables */

static int
add_aliases(PyObject *module)
{
    for (size_t i = 0; i < FR_LEN(aliases); i++) {
        PyObject *f = PyObject_GetAttrString(module, aliases[i].name);
        int       st = f ? PyModule_AddObjectRef(module, aliases[i].alias, f) : -1;
        Py_XDECREF(f);
        if (st < 0)
            return -1;
    }
    return 0;
}

static int
add_ufunc(const char *name, fr_op op)
{
    PyObject *f = fr_numpy_attr(name), *index;
    int       st;

    if (!f) {
        PyErr_Clear();
        return 0;
    }
    index = PyLong_FromLong(op);
    st = index ? PyDict_SetItem(ufuncs, f, index) : -1;
    Py_XDECREF(index);
    Py_DECREF(f);
    return st;
}

static int
add_ufuncs(void)
{
    for (int op = 0; op < FR_N_OPS; op++) {
        if (fr_op_info[op].class_ != FR_CLASS_MAP || (fr_op_info[op].flags & FR_OPF_PLAIN))
            continue;
        if (add_ufunc(fr_op_info[op].name, (fr_op)op) < 0)
            return -1;
    }
    return 0;
}

/* A function of ours as NumPy's callers want it. */
static PyObject *
for_numpy(PyObject *lenient, PyObject *name, PyObject *f)
{
    PyObject *other = PyDict_GetItemWithError(lenient, name);

    return other ? other : f;
}

/* Functions of ours, that are not ufuncs there, under NumPy's functions of the same name. */
static int
add_twins(PyObject *module)
{
    PyObject  *dict = PyModule_GetDict(module), *name, *f;
    PyObject  *lenient = fr_creation_behind_numpy(module);
    Py_ssize_t pos = 0;

    if (!lenient || PyModule_AddObjectRef(module, "_behind_numpy", lenient) < 0)
        return -1;
    Py_DECREF(lenient); /* the module has it now */

    while (PyDict_Next(dict, &pos, &name, &f)) {
        const char *s = PyUnicode_AsUTF8(name);
        PyObject   *theirs;
        int         st = 0;
        if (!s || s[0] == '_' || !PyCFunction_Check(f))
            continue;
        theirs = fr_numpy_attr(s);
        if (!theirs) {
            PyErr_Clear();
            continue;
        }
        if (!look_up(ufuncs, theirs) && PyCallable_Check(theirs) && !PyType_Check(theirs))
            st = PyDict_SetItem(twins, theirs, for_numpy(lenient, name, f));
        Py_DECREF(theirs);
        if (st < 0)
            return -1;
    }
    return 0;
}

int
fr_dispatch_init(PyObject *module)
{
    twins = PyDict_New();
    ufuncs = PyDict_New();
    if (!twins || !ufuncs || add_aliases(module) < 0 || add_ufuncs() < 0)
        return -1;
    return add_twins(module);
}
