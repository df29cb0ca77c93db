/* bind/tensor/methods.c -- the methods of Tensor, as ndarray has them. */
#include <string.h>

#include "bind/tensor/tensor.h"

#define METHOD_ARGS PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw

/* ---- copies */

static struct fr_signature copy_signature = {"copy", 0, 1, 1, {"order"}, {NULL}};

static PyObject *
copy(METHOD_ARGS)
{
    PyObject *s[1], *o;
    char      order;

    if (fr_args_parse(&copy_signature, args, nargs, kw, s) < 0 ||
        fr_args_order(s[0], "CFAK", 'C', &order) < 0)
        return NULL;
    o = fr_creation_astype(fr_of(self), fr_of(self)->dtype, order);
    if (o)
        fr_type_set_scalar(o, fr_object(self)->scalar);
    return o;
}

static PyObject *
copy_plain(PyObject *self, PyObject *unused)
{
    PyObject *o = fr_creation_astype(fr_of(self), fr_of(self)->dtype, 'K');

    (void)unused;
    if (o)
        fr_type_set_scalar(o, fr_object(self)->scalar);
    return o;
}

/* ---- shape */

static struct fr_signature reshape_signature = {"reshape", 0, 0, 2, {"order", "copy"}, {NULL}};

/* Keywords after the dimensions. */
static int
order_and_copy(fr_args args, Py_ssize_t nargs, PyObject *kw, char *order, int *copy)
{
    PyObject *s[2];

    if (fr_args_parse(&reshape_signature, args + nargs, 0, kw, s) < 0 ||
        fr_args_order(s[0], "CFA", 'C', order) < 0)
        return -1;
    *copy = fr_args_none(s[1]) ? -1 : PyObject_IsTrue(s[1]) > 0;
    return 0;
}

static PyObject *
reshape(METHOD_ARGS)
{
    int64_t dims[FR_MAX_DIMS];
    int     ndim, copy = -1;
    char    order = 'C';

    if (nargs == 0) {
        PyErr_SetString(PyExc_TypeError, "reshape() takes a shape");
        return NULL;
    }
    if ((kw && order_and_copy(args, nargs, kw, &order, &copy) < 0) ||
        fr_args_dims_packed(args, nargs, true, &ndim, dims) < 0)
        return NULL;
    return fr_type_view_of(self, fr_shape_reshape(fr_of(self), ndim, dims, order, copy), false);
}

static PyObject *
ravel(METHOD_ARGS)
{
    PyObject *s[1];
    char      order;

    if (fr_args_parse(&copy_signature, args, nargs, kw, s) < 0 ||
        fr_args_order(s[0], "CFAK", 'C', &order) < 0)
        return NULL;
    return fr_type_view_of(self, fr_shape_ravel(fr_of(self), order, false), false);
}

static PyObject *
flatten(METHOD_ARGS)
{
    PyObject *s[1];
    char      order;

    if (fr_args_parse(&copy_signature, args, nargs, kw, s) < 0 ||
        fr_args_order(s[0], "CFAK", 'C', &order) < 0)
        return NULL;
    return fr_shape_ravel(fr_of(self), order, true);
}

static PyObject *
transpose(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *axes, *o;

    if (nargs == 0)
        return fr_type_view_of(self, fr_shape_transpose(fr_of(self), NULL), false);
    if (nargs == 1 && (args[0] == Py_None || PySequence_Check(args[0])))
        return fr_type_view_of(self, fr_shape_transpose_by(fr_of(self), args[0]), false);
    axes = fr_args_tuple(args, nargs);
    o = axes ? fr_shape_transpose_by(fr_of(self), axes) : NULL;
    Py_XDECREF(axes);
    return o;
}

static PyObject *
swapaxes(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "swapaxes() takes exactly two axes");
        return NULL;
    }
    return fr_type_view_of(self, fr_shape_swapaxes(fr_of(self), args[0], args[1]), false);
}

static struct fr_signature squeeze_signature = {"squeeze", 0, 1, 1, {"axis"}, {NULL}};

static PyObject *
squeeze(METHOD_ARGS)
{
    PyObject *s[1];

    return fr_args_parse(&squeeze_signature, args, nargs, kw, s) < 0
               ? NULL
               : fr_shape_squeezed(self, s[0]);
}

static struct fr_signature diagonal_signature = {
    "diagonal", 0, 3, 3, {"offset", "axis1", "axis2"}, {NULL}};

static PyObject *
diagonal(METHOD_ARGS)
{
    PyObject *s[3];
    int64_t   k = 0;
    int       a = 0, b = 1, n = fr_of(self)->layout->ndim;

    if (fr_args_parse(&diagonal_signature, args, nargs, kw, s) < 0 ||
        (s[0] && (k = PyLong_AsLongLong(s[0])) == -1 && PyErr_Occurred()))
        return NULL;
    if (n < 2) {
        PyErr_SetString(PyExc_ValueError, "diag requires an array of at least two dimensions");
        return NULL;
    }
    if ((s[1] && fr_args_axis(s[1], n, &a) < 0) || (s[2] && fr_args_axis(s[2], n, &b) < 0))
        return NULL;
    if (a == b) {
        PyErr_SetString(PyExc_ValueError, "axis1 and axis2 cannot be the same");
        return NULL;
    }
    return fr_type_view_of(self, fr_shape_diagonal(fr_of(self), k, a, b), false);
}

/* ---- values out */

/* A method of the ndarray over the values, whose result is a Python object. */
static PyObject *
of_values(PyObject *self, const char *name, enum fr_sync why, fr_args args, Py_ssize_t nargs,
          PyObject *kw)
{
    PyObject *all[8], *s = PyUnicode_InternFromString(name), *view, *result = NULL;
    Py_ssize_t n = nargs + (kw ? PyTuple_GET_SIZE(kw) : 0);

    if (!s)
        return NULL;
    if (n >= (Py_ssize_t)FR_LEN(all)) { /* an index of many axes: as one tuple */
        Py_DECREF(s);
        PyErr_Format(PyExc_TypeError, "%s() got too many arguments", name);
        return NULL;
    }
    fr_info_sync(why, fr_of(self));
    view = fr_numpy_view(self, FR_VIEW_READ);
    if (view) {
        all[0] = view;
        for (Py_ssize_t i = 0; i < n; i++)
            all[i + 1] = args[i];
        result = PyObject_VectorcallMethod(s, all, (size_t)nargs + 1, kw);
        Py_DECREF(view);
    }
    Py_DECREF(s);
    return result;
}

static PyObject *
item(METHOD_ARGS)
{
    if (nargs == 0 && !kw && fr_of(self)->layout->n_elems == 1) {
        struct fr_err err;
        fr_status     st;
        uint64_t      room[2];
        void         *data;

        fr_info_sync(FR_SYNC_item, fr_of(self));
        if (fr_tensor_peek(fr_of(self), room))
            return fr_element_python(fr_of(self)->dtype, room);
        FR_TRACE_HERE();
        st = fr_tensor_data(fr_of(self), &data, &err);
        return st == FR_OK ? fr_element_python(fr_of(self)->dtype, data) : fr_errors_raise(st, &err);
    }
    return of_values(self, "item", FR_SYNC_item, args, nargs, kw);
}

static PyObject *
tolist(METHOD_ARGS)
{
    return of_values(self, "tolist", FR_SYNC_item, args, nargs, kw);
}

static PyObject *
tobytes(METHOD_ARGS)
{
    return of_values(self, "tobytes", FR_SYNC_numpy, args, nargs, kw);
}

static PyObject *
to_numpy(PyObject *self, PyObject *unused)
{
    (void)unused;
    fr_info_sync(FR_SYNC_numpy, fr_of(self));
    return fr_numpy_view(self, fr_type_view(self));
}

static struct fr_signature array_signature = {"__array__", 0, 2, 2, {"dtype", "copy"}, {NULL}};

static PyObject *
dunder_array(METHOD_ARGS)
{
    PyObject *s[2], *view, *result, *name;
    bool      same, fresh;

    if (fr_args_parse(&array_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (!fr_args_none(s[0]) && fr_scalar_is_stored(self))
        return fr_scalar_as_stored(self, s[0]);
    same = fr_args_none(s[0]) || s[0] == fr_numpy_dtype(fr_of(self)->dtype);
    if (!same) {
        fr_dtype d;
        int      known = fr_numpy_to_dtype(s[0], FR_F64, &d);
        if (known < 0)
            return NULL;
        same = known && d == fr_of(self)->dtype;
    }
    /* The array of a number is its caller's, who may write into it. */
    fresh = fr_args_none(s[1]) ? fr_object(self)->scalar : PyObject_IsTrue(s[1]) > 0;
    if (!same && s[1] == Py_False) {
        PyErr_SetString(PyExc_ValueError,
                        "Unable to avoid copy while creating an array as requested.");
        return NULL;
    }
    fr_info_sync(FR_SYNC_numpy, fr_of(self));
    if (same && !fresh)
        return fr_numpy_view(self, fr_type_view(self));
    view = fr_numpy_view(self, FR_VIEW_READ);
    name = PyUnicode_InternFromString("astype");
    result = view && name ? PyObject_CallMethodObjArgs(
                                view, name, same ? fr_numpy_dtype(fr_of(self)->dtype) : s[0], NULL)
                          : NULL;
    Py_XDECREF(name);
    Py_XDECREF(view);
    return result;
}

static PyObject *
eval(PyObject *self, PyObject *unused)
{
    const struct fr_tensor *t = fr_of(self);
    struct fr_err           err;
    fr_status               st;

    (void)unused;
    FR_TRACE_HERE();
    fr_info_sync(FR_SYNC_eval, t);
    st = fr_tensor_eval(&t, 1, &err);
    return st == FR_OK ? Py_NewRef(self) : fr_errors_raise(st, &err);
}

static PyObject *
explain(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    const char *kind = nargs ? PyUnicode_AsUTF8(args[0]) : "plan";
    PyObject   *module, *result;

    if (!kind || !(module = PyImport_ImportModule("frit._explained")))
        return NULL;
    result = PyObject_CallMethod(module, "of_tensor", "Os", self, kind);
    Py_DECREF(module);
    return result;
}

/* ---- values in */

static PyObject *
fill(PyObject *self, PyObject *value)
{
    if (fr_object(self)->scalar)
        return fr_fallback_method("fill", FR_WRITES, (PyObject *[]){self, value}, 2, NULL);
    return fr_index_assign_number(fr_of(self), value) < 0 ? NULL : Py_NewRef(Py_None);
}

static struct fr_signature setflags_signature = {
    "setflags", 0, 3, 3, {"write", "align", "uic"}, {NULL}};

static PyObject *
setflags(METHOD_ARGS)
{
    PyObject *s[3];
    int       on;

    if (fr_args_parse(&setflags_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (fr_args_none(s[0]))
        Py_RETURN_NONE;
    on = PyObject_IsTrue(s[0]);
    return on < 0 || fr_flags_set_writeable(self, on) < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- arithmetic */

static PyObject *
conjugate_function(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return fr_functions_map(FR_OP_conjugate, args, nargs, kw);
}

static PyObject *
conjugate(METHOD_ARGS)
{
    return fr_dtype_is_complex(fr_of(self)->dtype)
               ? fr_args_method(conjugate_function, self, args, nargs, kw)
               : Py_NewRef(self); /* NumPy returns a real array itself */
}

#define FROM_FUNCTION(name, function)                                                              \
    static PyObject *name(METHOD_ARGS) { return fr_args_method(function, self, args, nargs, kw); }
FROM_FUNCTION(round_method, fr_functions_round)
FROM_FUNCTION(repeat, fr_spread_repeat)
FROM_FUNCTION(trace, fr_reductions_trace)
#undef FROM_FUNCTION

/* ---- Python's protocols */

static PyObject *
dunder_format(PyObject *self, PyObject *spec)
{
    PyObject *v, *s;

    if (PyUnicode_Check(spec) && PyUnicode_GET_LENGTH(spec) == 0)
        return PyObject_Str(self);
    if ((s = fr_text_without_data(self)) || PyErr_Occurred())
        return s;
    if (fr_of(self)->layout->ndim) {
        PyErr_SetString(PyExc_TypeError, "unsupported format string passed to frit.Tensor.__format__");
        return NULL;
    }
    v = item(self, NULL, 0, NULL);
    s = v ? PyObject_Format(v, spec) : NULL;
    Py_XDECREF(v);
    return s;
}

static PyObject *
dunder_reduce(PyObject *self, PyObject *unused)
{
    PyObject *module = PyImport_ImportModule("frit._core"), *restore, *order, *values, *result = NULL;

    (void)unused;
    restore = module ? PyObject_GetAttrString(module, "_restore") : NULL;
    fr_info_sync(FR_SYNC_pickle, fr_of(self));
    order = PyUnicode_FromString("K");
    values = order ? of_values(self, "copy", FR_SYNC_pickle, &order, 1, NULL) : NULL;
    Py_XDECREF(order);
    if (restore && values)
        result = Py_BuildValue("O(OO)", restore, values,
                               fr_object(self)->scalar ? Py_True : Py_False);
    Py_XDECREF(module);
    Py_XDECREF(restore);
    Py_XDECREF(values);
    return result;
}

/* The elements count where they are the tensor's own. */
static PyObject *
dunder_sizeof(PyObject *self, PyObject *unused)
{
    const struct fr_tensor *t = fr_of(self);

    (void)unused;
    return PyLong_FromLongLong(Py_TYPE(self)->tp_basicsize +
                               (t->whole && !fr_type_is_view(self) ? t->layout->n_elems * fr_dtype_size(t->dtype) : 0));
}

static PyObject *
array_namespace(METHOD_ARGS)
{
    (void)self, (void)args, (void)nargs, (void)kw;
    return PyImport_ImportModule("frit");
}

static PyObject *
fallback_clip(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return fr_fallback_method("clip", FR_READS, args, nargs, kw);
}

static struct fr_signature clip_signature = {"clip", 0, 3, 3, {"min", "max", "out"}, {NULL}};

/* Unlike the function, which wants both bounds or none. */
static PyObject *
clip(METHOD_ARGS)
{
    PyObject *s[3];

    for (Py_ssize_t i = 0; kw && i < PyTuple_GET_SIZE(kw); i++) {
        const char *key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kw, i));
        if (!key || (strcmp(key, "min") && strcmp(key, "max") && strcmp(key, "out")))
            return fr_args_method(fallback_clip, self, args, nargs, kw);
    }
    if (fr_args_parse(&clip_signature, args, nargs, kw, s) < 0)
        return NULL;
    return fr_functions_clip(NULL, (PyObject *[]){self, s[0] ? s[0] : Py_None, s[1] ? s[1] : Py_None, s[2]}, s[2] ? 4 : 3, NULL);
}

static PyObject *
is_pending(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(fr_tensor_is_pending(fr_of(self)));
}

static PyObject *
is_scalar(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(fr_object(self)->scalar);
}

static PyObject *
to_scalar(PyObject *self, PyObject *unused)
{
    (void)unused;
    fr_info_sync(FR_SYNC_numpy, fr_of(self));
    return fr_numpy_scalar_of(self);
}

#define PLAIN(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL
#define REDUCTION(name)                                                                            \
    {#name, FR_FAST(fr_reductions_##name),                                                             \
     #name "(axis=None, ...)\n--\n\nThe function frit." #name " of this tensor."},

static PyMethodDef methods[] = {
    {"astype", FR_FAST(fr_creation_astype_method),
     "astype($self, dtype, order='K', casting='unsafe', subok=True, copy=True, device=None)\n--\n\n"
     "The values in another dtype. A dtype that frit does not have gives an ndarray.\n"
     "TypeError where `casting` forbids it."},
    {"copy", FR_FAST(copy), "copy($self, order='C')\n--\n\nA new tensor with the same values, shape and dtype; see frit.copy."},
    {"__copy__", copy_plain, METH_NOARGS, "A copy with the same axis order."},
    {"__deepcopy__", copy_plain, METH_O, "A copy with the same axis order."},
    {"reshape", FR_FAST(reshape),
     "reshape($self, *shape, order='C', copy=None)\n--\n\nSee frit.reshape."},
    {"resize", FR_FAST(fr_resize_method),
     "resize($self, *shape, refcheck=True)\n--\n\nChanges the shape and the number of elements in place; new ones are 0.\n"
     "ValueError where somebody else sees the memory, as numpy.ndarray.resize."},
    {"ravel", FR_FAST(ravel),
     "ravel($self, order='C')\n--\n\nOne axis; a view where NumPy gives one; see frit.ravel."},
    {"flatten", FR_FAST(flatten), "flatten($self, order='C')\n--\n\nA copy with one axis."},
    {"transpose", PLAIN(transpose),
     "transpose($self, *axes)\n--\n\nA view with the axes in this order, by default reversed."},
    {"swapaxes", PLAIN(swapaxes),
     "swapaxes($self, axis1, axis2, /)\n--\n\nA view with two axes exchanged."},
    {"squeeze", FR_FAST(squeeze),
     "squeeze($self, axis=None)\n--\n\nA view without axes of size 1."},
    {"diagonal", FR_FAST(diagonal),
     "diagonal($self, offset=0, axis1=0, axis2=1)\n--\n\nA read-only view of a diagonal; see frit.diagonal."},
    {"trace", FR_FAST(trace),
     "trace($self, offset=0, axis1=0, axis2=1, ...)\n--\n\nSum of a diagonal; see frit.trace."},
    {"repeat", FR_FAST(repeat), "repeat($self, repeats, axis=None)\n--\n\nSee frit.repeat."},
    {"item", FR_FAST(item),
     "item($self, *index)\n--\n\nOne element as a Python number. ValueError if there are several."},
    {"tolist", FR_FAST(tolist), "tolist($self)\n--\n\nNested lists of Python numbers; without axes, one number."},
    {"tobytes", FR_FAST(tobytes), "tobytes($self, order='C')\n--\n\nThe values as bytes, in rows ('C') or columns ('F')."},
    {"numpy", to_numpy, METH_NOARGS,
     "numpy($self)\n--\n\nAn ndarray over the same memory: writes go both ways."},
    {"eval", eval, METH_NOARGS,
     "eval($self)\n--\n\nComputes the values now; returns the tensor itself. MemoryError: they do not fit; it is then as it was."},
    {"explain", PLAIN(explain),
     "explain($self, kind='plan', /)\n--\n\n"
     "What computing it would do, as frit.explain() has it: 'plan', 'graph', 'loops', 'c' or 'cuda'."},
    {"fill", fill, METH_O,
     "fill($self, value, /)\n--\n\nEvery element becomes the value, converted to the dtype as by an assignment, with its errors."},
    {"setflags", FR_FAST(setflags),
     "setflags($self, write=None)\n--\n\nMakes the tensor read-only, or writable where its memory is (ValueError where not)."},
    {"conj", FR_FAST(conjugate), "conj($self)\n--\n\nThe complex conjugate."},
    {"conjugate", FR_FAST(conjugate), "conjugate($self)\n--\n\nThe complex conjugate."},
    {"round", FR_FAST(round_method), "round($self, decimals=0, out=None)\n--\n\nSee frit.round."},
    {"clip", FR_FAST(clip), "clip($self, min=None, max=None, out=None)\n--\n\nSee frit.clip."},
    FR_REDUCTIONS_METHODS(REDUCTION)
    {"to_device", FR_FAST(fr_device_to),
     "to_device($self, device, /, *, stream=None)\n--\n\n"
     "The tensor itself if it is on that device, \"cpu\" or the like of \"cuda:0\", else a copy there,\n"
     "made when all that was begun before is done. ValueError: no such name; RuntimeError: no such\n"
     "device; MemoryError."},
    {"__array__", FR_FAST(dunder_array),
     "__array__($self, dtype=None, copy=None)\n--\n\n"
     "An ndarray over the memory; a copy for another dtype or copy=True."},
    {"__array_namespace__", FR_FAST(array_namespace), "The module frit."},
    {"__complex__", fr_number_complex, METH_NOARGS, "The only element as a complex."},
    {"__format__", dunder_format, METH_O, "Formats the only element as a Python number."},
    {"__reduce__", dunder_reduce, METH_NOARGS, "For pickle: the values."},
    {"__sizeof__", dunder_sizeof, METH_NOARGS, "Bytes of the object, with those of elements of its own."},
    {"_repr_html_", fr_html, METH_NOARGS, "What a notebook shows of it. Nothing is computed."},
    {"_is_pending", is_pending, METH_NOARGS, "True while the values are not computed."},
    {"_is_scalar", is_scalar, METH_NOARGS, "True if it stands for a NumPy scalar."},
    {"_to_scalar", to_scalar, METH_NOARGS, "The values as a NumPy scalar, or as a new ndarray."},
    {NULL, NULL, 0, NULL},
};

/* The type wants one table: these, the generated ones, and those of other files. */
enum { MAX_METHODS = 128 };
PyMethodDef fr_tensor_methods[MAX_METHODS];

void
fr_methods_init(void)
{
    const PyMethodDef *tables[] = {methods, fr_fallback_always_methods, fr_dispatch_tensor_methods,
                                   fr_dlpack_tensor_methods, fr_dot_tensor_methods,
                                   fr_take_tensor_methods, fr_mask_tensor_methods};
    int                n = 0;

    for (size_t i = 0; i < FR_LEN(tables); i++)
        for (const PyMethodDef *m = tables[i]; m->ml_name && n < MAX_METHODS - 1; m++)
            fr_tensor_methods[n++] = *m;
    fr_tensor_methods[n] = (PyMethodDef){NULL, NULL, 0, NULL};
}
