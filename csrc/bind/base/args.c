/* bind/base/args.c -- arguments of functions: keywords, shapes, axes, orders. NumPy's messages. */
#include <string.h>

#include "backends/backend.h"
#include "bind/base/base.h"

PyObject *fr_str_out, *fr_str_dtype, *fr_str_axis, *fr_str_copy;

int
fr_args_init(void)
{
    fr_str_out = PyUnicode_InternFromString("out");
    fr_str_dtype = PyUnicode_InternFromString("dtype");
    fr_str_axis = PyUnicode_InternFromString("axis");
    fr_str_copy = PyUnicode_InternFromString("copy");
    return fr_str_out && fr_str_dtype && fr_str_axis && fr_str_copy ? 0 : -1;
}

static int
intern_names(struct fr_signature *s)
{
    for (int i = 0; i < s->n; i++)
        if (!s->interned[i] && !(s->interned[i] = PyUnicode_InternFromString(s->params[i])))
            return -1;
    return 0;
}

static int
find_name(const struct fr_signature *s, PyObject *name)
{
    for (int i = 0; i < s->n; i++)
        if (s->interned[i] == name)
            return i;
    for (int i = 0; i < s->n; i++)
        if (PyUnicode_Compare(s->interned[i], name) == 0)
            return i;
    return -1;
}

int
fr_args_parse(struct fr_signature *s, fr_args args, Py_ssize_t nargs, PyObject *kwnames,
              PyObject **slots)
{
    Py_ssize_t n_kw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;

    if (nargs > s->n_pos) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)",
                     s->name, s->n_pos, nargs);
        return -1;
    }
    for (int i = 0; i < s->n; i++)
        slots[i] = i < nargs ? args[i] : NULL;
    if (n_kw && !s->interned[s->n - 1] && intern_names(s) < 0)
        return -1;
    for (Py_ssize_t k = 0; k < n_kw; k++) {
        int i = find_name(s, PyTuple_GET_ITEM(kwnames, k));
        if (i < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", s->name,
                         PyTuple_GET_ITEM(kwnames, k));
            return -1;
        }
        if (slots[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'", s->name,
                         s->params[i]);
            return -1;
        }
        slots[i] = args[nargs + k];
    }
    for (int i = 0; i < s->n_required; i++)
        if (!slots[i]) {
            PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional argument: '%s'", s->name, s->params[i]);
            return -1;
        }
    return 0;
}

int
fr_args_bool(PyObject *o, bool dflt, bool *out)
{
    int v = o ? PyObject_IsTrue(o) : dflt;

    *out = v > 0;
    return v < 0 ? -1 : 0;
}

static int
one_dim(PyObject *o, bool allow_unknown, int64_t *dim)
{
    PyObject *i = PyBool_Check(o) ? NULL : PyNumber_Index(o);
    long long v;

    if (!i) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "an integer is required, not a bool");
        return -1;
    }
    v = PyLong_AsLongLong(i);
    Py_DECREF(i);
    if (v == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Clear();
            PyErr_SetString(PyExc_ValueError, "Maximum allowed dimension exceeded");
        }
        return -1;
    }
    if (v < 0 && !allow_unknown) {
        PyErr_SetString(PyExc_ValueError, "negative dimensions are not allowed");
        return -1;
    }
    *dim = v < 0 ? -1 : v; /* any negative size is NumPy's unknown one */
    return 0;
}

PyObject *
fr_args_tuple(fr_args args, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);

    for (Py_ssize_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    return tuple;
}

static int
too_many_dims(Py_ssize_t n)
{
    PyErr_Format(PyExc_ValueError,
                 "maximum supported dimension for an ndarray is currently %d, found %zd",
                 FR_MAX_DIMS, n);
    return -1;
}

int
fr_args_dims(PyObject *o, bool allow_unknown, int *ndim, int64_t *dims)
{
    PyObject *seq;
    int       st = 0;

    if (PyLong_Check(o) || (PyIndex_Check(o) && !PySequence_Check(o)) ||
        (fr_is_tensor(o) && fr_of(o)->layout->ndim == 0)) {
        *ndim = 1;
        return one_dim(o, allow_unknown, dims);
    }
    seq = PySequence_Fast(o, "expected a sequence of integers or a single integer");
    if (!seq) {
        PyErr_Format(PyExc_TypeError,
                     "expected a sequence of integers or a single integer, got '%R'", o);
        return -1;
    }
    *ndim = (int)PySequence_Fast_GET_SIZE(seq);
    if (PySequence_Fast_GET_SIZE(seq) > FR_MAX_DIMS)
        st = too_many_dims(PySequence_Fast_GET_SIZE(seq));
    for (int i = 0; st == 0 && i < *ndim; i++)
        st = one_dim(PySequence_Fast_GET_ITEM(seq, i), allow_unknown, &dims[i]);
    Py_DECREF(seq);
    return st;
}

int
fr_args_dims_packed(fr_args args, Py_ssize_t n, bool allow_unknown, int *ndim, int64_t *dims)
{
    if (n == 1)
        return fr_args_dims(args[0], allow_unknown, ndim, dims);
    if (n > FR_MAX_DIMS)
        return too_many_dims(n);
    *ndim = (int)n;
    for (int i = 0; i < n; i++)
        if (one_dim(args[i], allow_unknown, &dims[i]) < 0)
            return -1;
    return 0;
}

int
fr_args_axis_named(PyObject *o, int ndim, const char *name, int *axis)
{
    PyObject *i = PyNumber_Index(o);
    long      v;

    if (!i)
        return -1;
    v = PyLong_AsLong(i);
    Py_DECREF(i);
    if (v == -1 && PyErr_Occurred())
        return -1;
    if (v < -ndim || v >= ndim) {
        fr_errors_axis(v, ndim, name);
        return -1;
    }
    *axis = (int)(v < 0 ? v + ndim : v);
    return 0;
}

int
fr_args_axis(PyObject *o, int ndim, int *axis)
{
    return fr_args_axis_named(o, ndim, NULL, axis);
}

int
fr_args_axis_list(PyObject *o, int ndim, const char *name, int *n, int *axes)
{
    PyObject *seq, *one;
    uint64_t  seen = 0;
    int       st = 0;

    if (!PyTuple_Check(o) && !PyList_Check(o)) { /* one axis, or whatever has some: a range, an array */
        if ((one = PyNumber_Index(o))) {
            *n = 1;
            st = fr_args_axis_named(one, ndim, strcmp(name, "axis") ? name : NULL, axes);
            Py_DECREF(one);
            return st;
        }
        if (!PyErr_ExceptionMatches(PyExc_TypeError))
            return -1;
        PyErr_Clear();
    }
    seq = PySequence_Fast(o, "an axis or a sequence of axes is wanted");
    if (!seq)
        return -1;
    *n = (int)PySequence_Fast_GET_SIZE(seq);
    if (PySequence_Fast_GET_SIZE(seq) > FR_MAX_DIMS)
        st = too_many_dims(PySequence_Fast_GET_SIZE(seq));
    for (int i = 0; st == 0 && i < *n; i++) {
        st = fr_args_axis_named(PySequence_Fast_GET_ITEM(seq, i), ndim,
                                strcmp(name, "axis") ? name : NULL, &axes[i]);
        if (st == 0 && seen >> axes[i] & 1) {
            PyErr_Format(PyExc_ValueError,
                         strcmp(name, "axis") ? "repeated axis in `%s` argument"
                                              : "duplicate value in '%s'", name);
            st = -1;
        }
        if (st == 0)
            seen |= (uint64_t)1 << axes[i];
    }
    Py_DECREF(seq);
    return st;
}

int
fr_args_axes(PyObject *o, int ndim, uint32_t *mask)
{
    int axes[FR_MAX_DIMS], n;

    *mask = ndim == 32 ? UINT32_MAX : (1u << ndim) - 1;
    if (fr_args_none(o))
        return 0;
    if (ndim == 0 && PyLong_CheckExact(o)) { /* NumPy takes 0 and -1 for an array without axes */
        long v = PyLong_AsLong(o);
        if (v == 0 || v == -1)
            return 0;
    }
    for (Py_ssize_t i = 0; i < (PyTuple_Check(o) ? PyTuple_GET_SIZE(o) : 1); i++)
        if (PyBool_Check(PyTuple_Check(o) ? PyTuple_GET_ITEM(o, i) : o)) {
            PyErr_SetString(PyExc_TypeError, "an integer is required for the axis");
            return -1;
        }
    if (!PyTuple_Check(o)) { /* a list is none, says NumPy here */
        n = 1;
        if (fr_args_axis(o, ndim, axes) < 0)
            return -1;
    } else if (fr_args_axis_list(o, ndim, "axis", &n, axes) < 0) {
        return -1;
    }
    *mask = 0;
    for (int i = 0; i < n; i++)
        *mask |= 1u << axes[i];
    return 0;
}

int
fr_args_order(PyObject *o, const char *allowed, char dflt, char *out)
{
    const char *s;

    *out = dflt;
    if (fr_args_none(o))
        return 0;
    s = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : "";
    if (!s)
        return -1;
    if (strlen(s) == 1) {
        *out = (char)(s[0] >= 'a' ? s[0] - 'a' + 'A' : s[0]);
        if (strchr(allowed, *out))
            return 0;
    }
    if (PyUnicode_Check(o))
        PyErr_Format(PyExc_ValueError, "order must be one of '%s' (got '%U')", allowed, o);
    else
        PyErr_Format(PyExc_TypeError, "order must be str, not %s", Py_TYPE(o)->tp_name);
    return -1;
}

int
fr_args_out(PyObject *out)
{
    if (!fr_is_tensor(out) || !fr_object(out)->scalar)
        return 0;
    PyErr_SetString(PyExc_TypeError, "return arrays must be of ArrayType");
    return -1;
}

int
fr_args_device(PyObject *o, fr_device *out)
{
    const char   *name;
    struct fr_err err;
    fr_status     st;

    *out = FR_DEVICE_ANY;
    if (fr_args_none(o))
        return 0;
    if (!PyUnicode_Check(o)) {
        PyErr_Format(PyExc_ValueError,
                     "Device not understood: it is \"cpu\", \"auto\" or the like of \"cuda:0\", but received: %S", o);
        return -1;
    }
    if (!(name = PyUnicode_AsUTF8(o)))
        return -1;
    if ((st = fr_device_named(name, out, &err)) == FR_OK)
        st = fr_device_open(*out, &err);
    if (*out == FR_DEVICE_AUTO && fr_device_auto() == FR_DEVICE_ANY)
        *out = FR_DEVICE_HOST;
    return fr_errors_check(st, &err);
}

int
fr_args_on_device(PyObject *o)
{
    fr_device d;

    if (fr_args_device(o, &d) < 0)
        return -1;
    if (d != FR_DEVICE_ANY)
        fr_device_choose(d);
    return 0;
}

PyObject *
fr_args_call_on_host(PyObject *func, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject  *all[2 * FR_MAX_PARAMS], *names, *result;
    Py_ssize_t n_named = kw ? PyTuple_GET_SIZE(kw) : 0, at = 0;

    while (at < n_named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw, at), "device"))
        at++;
    if (at == n_named || nargs + n_named > (Py_ssize_t)FR_LEN(all))
        return PyObject_Vectorcall(func, args, (size_t)nargs, kw);
    if (!(names = PyTuple_New(n_named - 1)))
        return NULL;
    memcpy(all, args, (size_t)(nargs + at) * sizeof *all);
    memcpy(all + nargs + at, args + nargs + at + 1, (size_t)(n_named - at - 1) * sizeof *all);
    for (Py_ssize_t i = 0; i < n_named - 1; i++)
        PyTuple_SET_ITEM(names, i, Py_NewRef(PyTuple_GET_ITEM(kw, i + (i >= at))));
    result = PyObject_Vectorcall(func, all, (size_t)nargs, names);
    Py_DECREF(names);
    return result;
}

bool
fr_args_casting(PyObject *o, bool *unsafe)
{
    if (!PyUnicode_Check(o))
        return false;
    *unsafe = PyUnicode_CompareWithASCIIString(o, "unsafe") == 0;
    return *unsafe || PyUnicode_CompareWithASCIIString(o, "same_kind") == 0;
}

PyObject *
fr_args_method(PyObject *(*function)(PyObject *, fr_args, Py_ssize_t, PyObject *), PyObject *self,
               fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject  *all[2 * FR_MAX_PARAMS + 1];
    Py_ssize_t n = nargs + (kw ? PyTuple_GET_SIZE(kw) : 0);

    if (n > 2 * FR_MAX_PARAMS) {
        PyErr_SetString(PyExc_TypeError, "too many arguments");
        return NULL;
    }
    all[0] = self;
    memcpy(all + 1, args, (size_t)n * sizeof *args);
    return function(NULL, all, nargs + 1, kw);
}
