/* bind/tensor/creation.c -- tensors of other objects: asarray, array, copy; and what stands behind NumPy's names. */
#include <math.h>
#include <string.h>

#include "bind/tensor/tensor.h"

/* ---- from other objects */

PyObject *
fr_creation_astype(const struct fr_tensor *t, fr_dtype d, char order)
{
    struct fr_tensor out, turned;
    struct fr_err    err;
    fr_status        st;
    PyObject        *o, *result;

    FR_TRACE_HERE();
    if (order == 'A')
        order = t->layout->f_contig && !t->layout->c_contig ? 'F' : 'C';
    if (order != 'F') {
        st = fr_trace_cast(t, d, order, &out, &err);
        return fr_type_result(st, &out, &err);
    }
    /* Column order: row order of the transpose. */
    o = fr_shape_transpose(t, NULL);
    if (!o)
        return NULL;
    st = fr_trace_cast(fr_of(o), d, 'C', &turned, &err);
    Py_DECREF(o);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    result = fr_shape_transpose(&turned, NULL);
    fr_tensor_clear(&turned);
    return result;
}

int
fr_creation_like(PyObject *like)
{
    if (fr_args_none(like) || fr_is_tensor(like) || fr_numpy_is_array(like))
        return 0;
    PyErr_SetString(PyExc_TypeError, "The `like` argument must be a tensor or an ndarray");
    return -1;
}

static PyObject *
no_copy(void)
{
    PyErr_SetString(PyExc_ValueError, "Unable to avoid copy while creating an array as requested.");
    return NULL;
}

static bool
has_order(const struct fr_layout *l, char order)
{
    return order == 'C' ? l->c_contig : order == 'F' ? l->f_contig : true;
}

/* copy: -1 as needed, 0 never, 1 always. */
static PyObject *
from_tensor(PyObject *o, fr_dtype d, char order, int copy)
{
    const struct fr_tensor *t = fr_of(o);

    if (d == FR_N_DTYPES)
        d = t->dtype;
    if (copy <= 0 && d == t->dtype && has_order(t->layout, order) && !fr_object(o)->scalar)
        return Py_NewRef(o);
    if (copy == 0)
        return no_copy();
    return fr_creation_astype(t, d, order);
}

/* What makes a tensor of an object gives NULL without an exception where only NumPy has the dtype. This is the answer of
 * a function then: what was made, or NumPy's own array. */
static PyObject *
or_numpy(PyObject *o, const char *name, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    return o || PyErr_Occurred() ? o : fr_fallback_name(name, args, nargs, kw);
}

static PyObject *
from_array(PyObject *array, fr_dtype d, char order, int copy, bool fresh)
{
    fr_dtype         from = fr_numpy_array_dtype(array);
    struct fr_tensor t;
    PyObject        *o, *cast;

    if (from == FR_N_DTYPES)
        return NULL;
    if (copy == 0) {
        if (d != FR_N_DTYPES && d != from)
            return no_copy();
        o = fr_share(NULL, array);
        if (o && !has_order(fr_of(o)->layout, order)) {
            Py_DECREF(o);
            return no_copy();
        }
        return o;
    }
    o = NULL;
    if (fresh) { /* made by this call: its memory becomes the tensor's */
        o = fr_numpy_wrap(array, NULL);
        if (o && !fr_is_tensor(o))
            Py_CLEAR(o);
        if (PyErr_Occurred())
            return NULL;
    }
    if (!o) {
        int st = fr_numpy_copy(array, &t);
        if (st != FR_VALUE_OK || !(o = fr_type_take(&t)))
            return NULL;
    }
    if ((d == FR_N_DTYPES || d == from) && has_order(fr_of(o)->layout, order))
        return o;
    cast = fr_creation_astype(fr_of(o), d == FR_N_DTYPES ? from : d, order);
    Py_DECREF(o);
    return cast;
}

/* np.asarray(o, dtype) of something that is no array yet. */
static PyObject *
from_other(PyObject *o, PyObject *dtype, fr_dtype d, char order, int copy)
{
    PyObject *array, *result, *func;

    if (copy == 0 && (fr_numpy_is_scalar(o) || (!PyObject_CheckBuffer(o) && !PyObject_HasAttrString(o, "__array__"))))
        return no_copy();
    if (fr_containers_hold_tensor(o, 0)) {
        PyObject *args[2] = {o, dtype ? dtype : Py_None};
        array = fr_fallback_name("asarray", args, 2, NULL);
        if (!array || fr_is_tensor(array))
            return array;
    } else if (fr_args_none(dtype)) {
        array = fr_numpy_from_any(o);
    } else {
        func = fr_numpy_attr("asarray");
        array = func ? PyObject_CallFunctionObjArgs(func, o, dtype, NULL) : NULL;
        Py_XDECREF(func);
    }
    if (!array)
        return NULL;
    result = from_array(array, d, order, copy, true);
    Py_DECREF(array);
    return result;
}

static bool
has_cuda_array(PyObject *o)
{
    return !PyLong_CheckExact(o) && !PyFloat_CheckExact(o) && !PyList_CheckExact(o) && !PyTuple_CheckExact(o) &&
           !fr_numpy_is_scalar(o) && PyObject_HasAttrString(o, "__cuda_array_interface__");
}

/* Of memory on a GPU: another array over it, or a copy. */
static PyObject *
from_cuda_array(PyObject *o, fr_dtype d, char order, int copy)
{
    PyObject *t = fr_cuda_array_from(o), *result;

    if (!t)
        return NULL;
    if (d == FR_N_DTYPES)
        d = fr_of(t)->dtype;
    if (copy == 0 && d == fr_of(t)->dtype && has_order(fr_of(t)->layout, order))
        return t;
    result = copy == 0 ? no_copy() : fr_creation_astype(fr_of(t), d, order);
    Py_DECREF(t);
    return result;
}

static PyObject *
from_any(PyObject *o, PyObject *dtype, char order, int copy)
{
    fr_dtype d;
    int      known = fr_numpy_to_dtype(dtype, FR_N_DTYPES, &d);

    if (known <= 0)
        return NULL;
    if (fr_is_tensor(o))
        return from_tensor(o, d, order, copy);
    if (!fr_numpy_is_array(o) && has_cuda_array(o))
        return from_cuda_array(o, d, order, copy);
    if (!fr_numpy_is_array(o))
        return from_other(o, dtype, d, order, copy);
    if (fr_numpy_array_dtype(o) == FR_N_DTYPES && d != FR_N_DTYPES && copy != 0)
        return from_other(o, dtype, d, order, copy);
    return from_array(o, d, order, copy, false);
}

/* copy=None, True or False, or one of NumPy's names of these. */
static int
copy_of(PyObject *o, int dflt, int *copy)
{
    PyObject *value;

    *copy = !o ? dflt : o == Py_None ? -1 : o == Py_True;
    if (!o || o == Py_None || PyBool_Check(o))
        return 0;
    if (PyUnicode_Check(o)) {
        PyErr_SetString(PyExc_ValueError, "strings are not allowed for 'copy' keyword. Use True/False/None instead.");
        return -1;
    }
    if (!strcmp(Py_TYPE(o)->tp_name, "_CopyMode") && (value = PyObject_GetAttrString(o, "value"))) {
        long mode = PyLong_AsLong(value);   /* NEVER 0, ALWAYS 1, IF_NEEDED 2 */

        Py_DECREF(value);
        *copy = mode == 2 ? -1 : (int)mode;
    } else if (!PyErr_Occurred()) {
        *copy = PyObject_IsTrue(o);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static struct fr_signature asarray_signature = {
    "asarray", 1, 3, 6, {"a", "dtype", "order", "device", "copy", "like"}, {NULL}};

static PyObject *
asarray(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[6];
    char      order;
    int       copy;
    fr_device device;
    PyObject *o;

    (void)module;
    if (fr_args_parse(&asarray_signature, args, nargs, kw, s) < 0 ||
        fr_args_order(s[2], "CFAK", 'K', &order) < 0 || fr_args_device(s[3], &device) < 0 ||
        fr_creation_like(s[5]) < 0 || copy_of(s[4], -1, &copy) < 0)
        return NULL;
    o = or_numpy(from_any(s[0], s[1], order, copy), "asarray", args, nargs, kw);
    if (o && copy == 0 && device != FR_DEVICE_ANY && fr_is_tensor(o) && fr_tensor_device(fr_of(o)) != device) {
        Py_DECREF(o);
        return no_copy();
    }
    return fr_device_placed(o, device);
}

/* asarray, but that arrays of other classes stay what they are. */
static PyObject *
asanyarray(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    return nargs && fr_numpy_is_array(args[0]) && fr_numpy_is_subclass(args[0])
               ? fr_fallback_name("asanyarray", args, nargs, kw)
               : asarray(module, args, nargs, kw);
}

static PyObject *
ascontiguous(fr_args args, Py_ssize_t nargs, PyObject *kw, const char *name, char order)
{
    PyObject *s[6], *o;

    if (fr_args_parse(&asarray_signature, args, nargs, kw, s) < 0)
        return NULL;
    o = fr_device_placed(or_numpy(from_any(s[0], s[1], order, -1), name, args, nargs, kw), FR_DEVICE_ANY);
    if (o && fr_is_tensor(o) && fr_of(o)->layout->ndim == 0)
        Py_SETREF(o, fr_shape_expand(fr_of(o), 1, 1)); /* they promise at least one axis */
    return o;
}

static PyObject *
ascontiguousarray(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return ascontiguous(args, nargs, kw, "ascontiguousarray", 'C');
}

static PyObject *
asfortranarray(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return ascontiguous(args, nargs, kw, "asfortranarray", 'F');
}

static struct fr_signature array_signature = {
    "array", 1, 2, 8, {"object", "dtype", "copy", "order", "subok", "ndmin", "ndmax", "like"}, {NULL}};

static PyObject *
array(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[8], *o = NULL;
    char      order;
    long      ndmin = 0;
    bool      subok;
    int       copy;

    (void)module;
    if (fr_args_parse(&array_signature, args, nargs, kw, s) < 0 ||
        fr_args_order(s[3], "CFAK", 'K', &order) < 0 || fr_creation_like(s[7]) < 0 ||
        fr_args_bool(s[4], false, &subok) < 0 || copy_of(s[2], 1, &copy) < 0)
        return NULL;
    if (s[5] && (ndmin = PyLong_AsLong(s[5])) == -1 && PyErr_Occurred())
        return NULL;
    if (!s[6] && !(subok && fr_numpy_is_array(s[0]))) /* how deep lists are arrays is NumPy's to say */
        o = from_any(s[0], s[1], order, copy);
    if (!(o = fr_device_placed(o, FR_DEVICE_ANY)))
        return or_numpy(o, "array", args, nargs, kw);
    if (fr_of(o)->layout->ndim < ndmin && ndmin <= FR_MAX_DIMS)
        Py_SETREF(o, fr_shape_expand(fr_of(o), (uint32_t)((1ull << (ndmin - fr_of(o)->layout->ndim)) - 1),
                                     (int)ndmin));
    return o;
}

static struct fr_signature copy_signature = {"copy", 1, 3, 3, {"a", "order", "subok"}, {NULL}};

static PyObject *
copy(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[3];
    char      order;
    bool      subok;

    (void)module;
    if (fr_args_parse(&copy_signature, args, nargs, kw, s) < 0 ||
        fr_args_order(s[1], "CFAK", 'K', &order) < 0 || fr_args_bool(s[2], false, &subok) < 0)
        return NULL;
    if (subok && fr_numpy_is_array(s[0]))
        return fr_fallback_name("copy", args, nargs, kw);
    return fr_device_placed(or_numpy(from_any(s[0], NULL, order, 1), "copy", args, nargs, kw), FR_DEVICE_ANY);
}

/* ---- other dtypes */

static PyObject *
fallback_astype(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return fr_fallback_method("astype", FR_READS, args, nargs, kw);
}

static struct fr_signature astype_signature = {
    "astype", 1, 5, 6, {"dtype", "order", "casting", "subok", "copy", "device"}, {NULL}};

PyObject *
fr_creation_astype_method(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject               *s[6], *o;
    const struct fr_tensor *t = fr_of(self);
    fr_dtype                d;
    char                    order;
    bool                    copy;
    int                     known;
    fr_device               device;

    if (fr_args_parse(&astype_signature, args, nargs, kw, s) < 0 ||
        fr_args_order(s[1], "CFAK", 'K', &order) < 0 || fr_args_bool(s[4], true, &copy) < 0 ||
        fr_args_device(s[5], &device) < 0 || (known = fr_numpy_to_dtype(s[0], FR_F64, &d)) < 0)
        return NULL;
    if (!known || (s[2] && (!PyUnicode_Check(s[2]) ||
                            (PyUnicode_CompareWithASCIIString(s[2], "unsafe") != 0 &&
                             (PyUnicode_CompareWithASCIIString(s[2], "same_kind") != 0 ||
                              !fr_dtype_same_kind(t->dtype, d))))))
        return fr_args_method(fallback_astype, self, args, nargs, kw);
    if (!copy && d == t->dtype && (order == 'K' || (order == 'C' && t->layout->c_contig) ||
                                   (order == 'F' && t->layout->f_contig)))
        return fr_device_placed(Py_NewRef(self), device);
    o = fr_creation_astype(t, d, order);
    if (o)
        fr_type_set_scalar(o, fr_object(self)->scalar);
    return fr_device_placed(o, device);
}

/* The function astype(x, dtype) of the Array API. */
static PyObject *
function_astype(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    if (nargs < 1 || !fr_is_tensor(args[0]))
        return fr_fallback_name("astype", args, nargs, kw);
    return fr_creation_astype_method(args[0], args + 1, nargs - 1, kw);
}

/* ---- behind NumPy's names. What NumPy answers for an ndarray with a view, or with the ndarray itself, is that where somebody
 * wrote np.asarray(a), too: stores into it reach the ndarray, whereas frit.asarray(a) is a copy. Each of these functions is
 * a tuple (name, ours). */

/* Whether NumPy's own answer looks at an ndarray's memory. */
static bool
looks_at_array(fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    Py_ssize_t n = nargs + (kw ? PyTuple_GET_SIZE(kw) : 0);

    if (nargs == 0 || !fr_numpy_is_array(args[0]))
        return false;
    for (Py_ssize_t i = 1; i < n; i++)
        if (fr_is_tensor(args[i]))
            return false;
    return true;
}

static PyObject *
view_of_array(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *theirs = fr_numpy_attr(PyUnicode_AsUTF8(PyTuple_GET_ITEM(self, 0)));
    PyObject *result = theirs ? PyObject_Vectorcall(theirs, args, (size_t)nargs, kw) : NULL, *out = result;

    Py_XDECREF(theirs);
    if (result && fr_numpy_is_array(result)) {
        out = fr_numpy_wrap(result, NULL);
        Py_DECREF(result);
    }
    return out;
}

static PyObject *
behind_numpy(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    return looks_at_array(args, nargs, kw) ? view_of_array(self, args, nargs, kw)
                                           : PyObject_Vectorcall(PyTuple_GET_ITEM(self, 1), args, (size_t)nargs, kw);
}

static PyMethodDef behind_numpy_method = {"behind_numpy", FR_FAST(behind_numpy), NULL};

static int
add_behind(PyObject *dict, PyObject *module, const char *name)
{
    PyObject *ours = PyObject_GetAttrString(module, name);
    PyObject *pair = ours ? Py_BuildValue("sN", name, ours) : NULL;
    PyObject *f = pair ? PyCFunction_NewEx(&behind_numpy_method, pair, NULL) : NULL;
    int       st = f ? PyDict_SetItemString(dict, name, f) : -1;

    Py_XDECREF(pair);
    Py_XDECREF(f);
    return st;
}

PyObject *
fr_creation_behind_numpy(PyObject *module)
{
    PyObject          *dict = PyDict_New();
    const PyMethodDef *tables[] = {fr_creation_methods, fr_views_methods};
    static const char *const components[] = {"real", "imag"};

    for (int k = 0; k < 2; k++)
        for (const PyMethodDef *m = tables[k]; dict && m->ml_name; m++)
            if ((tables[k] == fr_views_methods || !strncmp(m->ml_name, "as", 2)) && /* asarray and its kin */
                add_behind(dict, module, m->ml_name) < 0)
                Py_CLEAR(dict);
    for (size_t k = 0; dict && k < FR_LEN(components); k++)
        if (add_behind(dict, module, components[k]) < 0)
            Py_CLEAR(dict);
    return dict;
}

/* Pickles and copies come back through here. */
static PyObject *
restore(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *o;

    (void)module;
    if (nargs != 2 || !fr_numpy_is_array(args[0])) {
        PyErr_SetString(PyExc_TypeError, "_restore() takes an ndarray and a bool");
        return NULL;
    }
    o = from_array(args[0], FR_N_DTYPES, 'K', 1, false);
    if (o)
        fr_type_set_scalar(o, args[1] == Py_True);
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "_restore() takes an ndarray of a dtype that tensors have");
    return o;
}

PyMethodDef fr_creation_methods[] = {
    {"asarray", FR_FAST(asarray),
     "asarray(a, dtype=None, order=None, *, device=None, copy=None, like=None)\n--\n\n"
     "A tensor of an ndarray, a number, nested lists or anything with __array__ or a buffer. An\n"
     "ndarray is copied, or with copy=False its memory is shared: writes go both ways. A tensor of\n"
     "the dtype wanted is returned itself.\n"
     "Of dtypes that frit does not have (objects, strings, foreign byte order) it is NumPy's array.\n"
     "Raises ValueError for copy=False where a copy is needed and for ragged lists."},
    {"asanyarray", FR_FAST(asanyarray),
     "asanyarray(a, dtype=None, ...)\n--\n\nAs asarray; matrices and masked arrays stay what they are."},
    {"ascontiguousarray", FR_FAST(ascontiguousarray),
     "ascontiguousarray(a, dtype=None)\n--\n\nasarray in row order."},
    {"asfortranarray", FR_FAST(asfortranarray),
     "asfortranarray(a, dtype=None)\n--\n\nasarray in column order."},
    {"array", FR_FAST(array),
     "array(object, dtype=None, *, copy=True, order='K', subok=False, ndmin=0, ndmax=0, like=None)\n--\n\n"
     "A new tensor with the object's values; see asarray."},
    {"astype", FR_FAST(function_astype),
     "astype(x, dtype, /, *, copy=True, device=None)\n--\n\n"
     "The tensor's values in another dtype, of the same shape, converted with NumPy's bits. TypeError: there is no such\n"
     "dtype."},
    {"copy", FR_FAST(copy),
     "copy(a, order='K', subok=False)\n--\n\n"
     "A new tensor with the same values, shape and dtype. order is 'K', 'C', 'F' or 'A', else ValueError."},
    {"_restore", (PyCFunction)(void (*)(void))restore, METH_FASTCALL,
     "_restore(array, scalar, /)\n--\n\nA Tensor from its pickle."},
    {NULL, NULL, 0, NULL},
};
