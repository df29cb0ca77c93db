/* bind/tensor/tensor_type.c -- the type of Tensors: attributes, text, protocols. */
#include "backends/backend.h"
#include "bind/tensor/tensor.h"

#include <string.h>
#include <structmember.h>

/* ---- attributes */

static PyObject *
tuple_of(int n, const int64_t *v, int64_t factor)
{
    PyObject *tuple = PyTuple_New(n);

    for (int i = 0; tuple && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(v[i] * factor);
        if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

static PyObject *
get_shape(PyObject *self, void *unused)
{
    const struct fr_layout *l = fr_of(self)->layout;

    (void)unused;
    return tuple_of(l->ndim, fr_layout_dims(l), 1);
}

/* NumPy's assignment to shape: only where it needs no copy. */
static int
set_shape(PyObject *self, PyObject *value, void *unused)
{
    int64_t          dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    struct fr_tensor t;
    struct fr_err    err;
    int              ndim;

    (void)unused;
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "Cannot delete array shape");
        return -1;
    }
    if (fr_object(self)->scalar) {
        PyErr_SetString(PyExc_AttributeError, "attribute 'shape' of 'numpy.generic' objects is not writable");
        return -1;
    }
    if (fr_shape_resolve(fr_of(self), value, &ndim, dims) < 0)
        return -1;
    if (fr_of(self)->layout->n_elems && !fr_layout_reshape(fr_of(self)->layout, ndim, dims, strides)) {
        PyErr_SetString(PyExc_AttributeError,
                        "Incompatible shape for in-place modification. Use `.reshape()` to make a "
                        "copy with the desired shape.");
        return -1;
    }
    if (fr_errors_check(fr_tensor_reshape(fr_of(self), ndim, dims, &t, &err), &err) < 0)
        return -1;
    fr_tensor_clear(fr_of(self));
    *fr_of(self) = t;
    if (fr_object(self)->end == FR_END_LOAN)
        fr_object(self)->end = FR_END_LOAN_RESHAPED;
    return 0;
}

static PyObject *
get_strides(PyObject *self, void *unused)
{
    const struct fr_layout *l = fr_of(self)->layout;

    (void)unused;
    return tuple_of(l->ndim, fr_layout_strides(l), fr_dtype_size(fr_of(self)->dtype));
}

#define NUMBER_ATTRIBUTE(name, expression)                                                         \
    static PyObject *get_##name(PyObject *self, void *unused)                                      \
    {                                                                                              \
        const struct fr_tensor *t = fr_of(self);                                                   \
        (void)unused;                                                                              \
        return PyLong_FromLongLong(expression);                                                    \
    }
NUMBER_ATTRIBUTE(ndim, t->layout->ndim)
NUMBER_ATTRIBUTE(size, t->layout->n_elems)
NUMBER_ATTRIBUTE(itemsize, fr_dtype_size(t->dtype))
NUMBER_ATTRIBUTE(nbytes, t->layout->n_elems *fr_dtype_size(t->dtype))
#undef NUMBER_ATTRIBUTE

static PyObject *
get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(fr_numpy_dtype(fr_of(self)->dtype));
}

static PyObject *
get_T(PyObject *self, void *unused)
{
    (void)unused;
    return fr_object(self)->scalar ? Py_NewRef(self) : fr_type_view_of(self, fr_shape_transpose(fr_of(self), NULL), false);
}

static PyObject *
get_mT(PyObject *self, void *unused)
{
    int axes[FR_MAX_DIMS], n = fr_of(self)->layout->ndim;

    (void)unused;
    if (n < 2) {
        PyErr_SetString(PyExc_ValueError, "matrix transpose with ndim < 2 is undefined");
        return NULL;
    }
    for (int i = 0; i < n; i++)
        axes[i] = i < n - 2 ? i : 2 * n - 3 - i;
    return fr_type_view_of(self, fr_shape_transpose(fr_of(self), axes), false);
}

/* A view, or of what stands for a NumPy number, the number that NumPy has there. */
static PyObject *
component(PyObject *self, fr_op op)
{
    struct fr_arg    arg = {.t = fr_of(self)};
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        st;

    if (!fr_object(self)->scalar) {
        st = fr_tensor_component(arg.t, op == FR_OP_imag, &t, &err);
        return fr_type_view_of(self, fr_type_result(st, &t, &err), false);
    }
    FR_TRACE_HERE();
    st = fr_trace_map(op, &arg, 1, &t, &err);
    return fr_type_result_scalar(st, &t, &err);
}

static PyObject *
get_real(PyObject *self, void *unused)
{
    (void)unused;
    return fr_dtype_is_complex(fr_of(self)->dtype) ? component(self, FR_OP_real) : Py_NewRef(self);
}

/* Zeros in the place of an imaginary part: in C order, unless the array is in Fortran order. */
static PyObject *
no_imag(PyObject *self)
{
    const struct fr_layout *l = fr_of(self)->layout;
    bool                    reversed = l->f_contig && !l->c_contig;
    int64_t                 dims[FR_MAX_DIMS];
    int                     n = l->ndim, back[FR_MAX_DIMS];
    struct fr_number        zero = {.dtype = FR_I64};
    struct fr_tensor        t;
    struct fr_err           err;
    PyObject               *o, *turned;
    FR_ON_DEVICE fr_device  before = fr_device_chosen();

    fr_device_follow(fr_of(self));
    for (int k = 0; k < n; k++) {
        dims[k] = fr_layout_dims(l)[reversed ? n - 1 - k : k];
        back[k] = n - 1 - k;
    }
    FR_TRACE_HERE();
    fr_status st = fr_trace_fill(n, dims, fr_of(self)->dtype, &zero, &t, &err);
    if (st == FR_OK)
        t.readonly = true;
    o = fr_type_result(st, &t, &err);
    if (!o || !reversed) {
        if (o)
            fr_type_set_scalar(o, fr_object(self)->scalar);
        return o;
    }
    turned = fr_shape_transpose(fr_of(o), back);
    Py_DECREF(o);
    return turned;
}

static PyObject *
get_imag(PyObject *self, void *unused)
{
    (void)unused;
    return fr_dtype_is_complex(fr_of(self)->dtype) ? component(self, FR_OP_imag) : no_imag(self);
}

/* z.real = v and z.imag = v: any value becomes an array first, and then what an array is cast to. */
static int
set_component(PyObject *self, PyObject *value, void *name)
{
    PyObject *part, *v;
    int       st = -1;

    if (!value) {
        PyErr_Format(PyExc_AttributeError, "Cannot delete array %s part", name);
        return -1;
    }
    if (fr_object(self)->scalar) {
        PyErr_Format(PyExc_AttributeError, "attribute '%s' of 'numpy.generic' objects is not writable", name);
        return -1;
    }
    if (!fr_dtype_is_complex(fr_of(self)->dtype) && !strcmp(name, "imag")) {
        PyErr_SetString(PyExc_TypeError, "array does not have imaginary part to set");
        return -1;
    }
    v = fr_is_tensor(value) || fr_numpy_is_array(value) || PyFloat_CheckExact(value) ? Py_NewRef(value)
                                                                                     : fr_numpy_from_any(value);
    part = v ? PyObject_GetAttrString(self, name) : NULL;
    if (part)
        st = PyObject_SetItem(part, Py_Ellipsis, v);
    Py_XDECREF(v);
    Py_XDECREF(part);
    return st;
}

static PyObject *
get_flags(PyObject *self, void *unused)
{
    (void)unused;
    return fr_flags_new(self);
}

static PyObject *
get_device(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(fr_device_name(fr_tensor_place(fr_of(self))));
}

static PyObject *
get_base(PyObject *self, void *unused)
{
    struct fr_storage *s = fr_of(self)->storage;
    PyObject          *base = fr_storage_object(s);
    struct fr_tensor   t;

    (void)unused;
    if (!fr_type_is_view(self))
        Py_RETURN_NONE;
    if (base)
        return Py_NewRef(base);
    fr_storage_whole(s, &t); /* the one that the view was made of is no more */
    t.readonly = fr_of(self)->readonly;
    if ((base = fr_type_take(&t)))
        fr_type_become_base(base);
    return base;
}

/* True, with NumPy's exception, if an array that is none of ours is asked for elements by a tensor that is no index. (What
 * is no ndarray, and empty, NumPy takes for an empty list of integers.) */
static bool
is_wrong_index(PyObject *self)
{
    const struct fr_tensor *t = fr_of(self);

    if (t->layout->n_elems || t->dtype == FR_BOOL || fr_dtype_is_int(t->dtype) || !fr_site_takes_item())
        return false;
    PyErr_SetString(PyExc_IndexError, "arrays used as indices must be of integer (or boolean) type");
    return true;
}

/* Attributes that are NumPy's own objects over the exported memory. */
static PyObject *
get_exported(PyObject *self, void *name)
{
    PyObject *view, *o;

    if (is_wrong_index(self))
        return NULL;
    fr_info_sync(FR_SYNC_numpy, fr_of(self));
    view = fr_numpy_shown(self);
    if (view && !fr_object(self)->scalar && /* its user may keep the bare address */
        (!strcmp(name, "ctypes") || !strcmp(name, "__array_interface__")))
        fr_numpy_look_forever(view);
    o = view ? PyObject_GetAttrString(view, name) : NULL;
    if (o && !strcmp(name, "flat"))
        Py_SETREF(o, fr_flat_new(self, o));
    Py_XDECREF(view);
    return o;
}

static int
set_flat(PyObject *self, PyObject *value, void *unused)
{
    PyObject *view, *v;
    int       st = -1;

    (void)unused;
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "Cannot delete flat iterator");
        return -1;
    }
    view = fr_numpy_view(self, FR_VIEW_EXPORT);
    v = fr_is_tensor(value) ? fr_numpy_view(value, FR_VIEW_READ) : Py_NewRef(value);
    if (view && v)
        st = PyObject_SetAttrString(view, "flat", v);
    Py_XDECREF(view);
    Py_XDECREF(v);
    return st;
}

static PyObject *
get_priority(PyObject *self, void *unused)
{
    (void)self, (void)unused;
    return PyFloat_FromDouble(1000.0); /* ndarrays leave mixed expressions to us */
}

/* What isinstance() and others take it for, who ask for NumPy's classes. */
static PyObject *
get_class(PyObject *self, void *unused)
{
    (void)unused;
    return fr_scalar_class(self);
}

static PyGetSetDef getset[] = {
    {"__class__", get_class, NULL, "The class of the array or number that the tensor stands for.", NULL},
    {"shape", get_shape, set_shape, "Sizes of the axes; may be set where that needs no copy.", NULL},
    {"strides", get_strides, NULL, "Bytes from one element to the next, along each axis.", NULL},
    {"ndim", get_ndim, NULL, "Number of axes.", NULL},
    {"size", get_size, NULL, "Number of elements.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of one element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"dtype", get_dtype, NULL, "The elements' type, a numpy.dtype.", NULL},
    {"T", get_T, NULL, "A view with the axes reversed.", NULL},
    {"mT", get_mT, NULL, "A view with the last two axes exchanged.", NULL},
    {"real", get_real, set_component, "The real part; a view, or the tensor itself.", "real"},
    {"imag", get_imag, set_component, "The imaginary part, a view; zeros of real tensors.", "imag"},
    {"flags", get_flags, NULL, "Memory layout, as numpy.ndarray.flags; computes nothing.", NULL},
    {"__cuda_array_interface__", fr_cuda_array_get, NULL,
     "The tensor's memory on a GPU, for other libraries; AttributeError where it is on the host.", NULL},
    {"device", get_device, NULL,
     "Where it is computed and kept: \"cpu\", \"cuda:0\" and so on; \"auto\" until it is computed, which decides that.", NULL},
    {"base", get_base, NULL, "None, or for a view a tensor over the same memory.", NULL},
    {"flat", get_exported, set_flat, "numpy.flatiter over the memory.", "flat"},
    {"data", get_exported, NULL, "A memoryview of the memory.", "data"},
    {"ctypes", get_exported, NULL, "numpy's ctypes interface to the memory.", "ctypes"},
    {"__array_interface__", get_exported, NULL, "The memory as NumPy's protocol describes it.", "__array_interface__"},
    {"__array_struct__", get_exported, NULL, "The same, as C sees it.", "__array_struct__"},
    {"__array_priority__", get_priority, NULL, "Above ndarray: mixed expressions give tensors.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct fr_tensor_object, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* ---- text */

static PyObject *
tensor_str(PyObject *self)
{
    PyObject *view, *s;

    fr_info_sync(FR_SYNC_print, fr_of(self));
    if ((s = fr_text_without_data(self)) || PyErr_Occurred())
        return s;
    view = fr_numpy_view(self, FR_VIEW_READ);
    s = view ? PyObject_Str(view) : NULL;
    Py_XDECREF(view);
    return s;
}

/* NumPy leaves the dtype out where the digits tell it. */
static bool
is_plain(const struct fr_tensor *t)
{
    return t->layout->n_elems && (t->dtype == FR_F64 || t->dtype == FR_I64 || t->dtype == FR_BOOL ||
                                  t->dtype == FR_C128);
}

/* Never computes anything: a pending tensor shows what it will be. In an accelerated call it is the array that it stands
 * for. */
static PyObject *
tensor_repr(PyObject *self)
{
    const struct fr_tensor *t = fr_of(self);
    PyObject               *view, *f, *text = NULL, *kw, *args;

    if ((fr_call_depth || !fr_tensor_is_pending(t)) && ((text = fr_text_without_data(self)) || PyErr_Occurred()))
        return text;
    if (fr_call_depth) {
        fr_info_sync(FR_SYNC_print, t);
        view = fr_numpy_view(self, FR_VIEW_READ);
        text = view ? PyObject_Repr(view) : NULL;
        Py_XDECREF(view);
        return text;
    }
    if (fr_tensor_is_pending(t)) {
        PyObject *shape = get_shape(self, NULL);
        if (!shape)
            return NULL;
        text = PyUnicode_FromFormat("<frit.Tensor %S %S pending>", fr_numpy_dtype(t->dtype), shape);
        Py_DECREF(shape);
        return text;
    }
    view = fr_numpy_view(self, FR_VIEW_READ);
    f = fr_numpy_attr("array2string");
    args = view ? PyTuple_Pack(1, view) : NULL;
    kw = Py_BuildValue("{s:s,s:s,s:s}", "separator", ", ", "prefix", "Tensor(", "suffix", ")");
    if (f && args && kw)
        text = PyObject_Call(f, args, kw);
    Py_XDECREF(view);
    Py_XDECREF(f);
    Py_XDECREF(args);
    Py_XDECREF(kw);
    if (!text)
        return NULL;
    if (is_plain(t))
        Py_SETREF(text, PyUnicode_FromFormat("Tensor(%U)", text));
    else
        Py_SETREF(text,
                  PyUnicode_FromFormat("Tensor(%U, dtype=%S)", text, fr_numpy_dtype(t->dtype)));
    return text;
}

static int
tensor_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    PyObject *array;
    int       st;

    view->obj = NULL;
    if (is_wrong_index(self))
        return -1;
    if (fr_scalar_is_stored(self)) {
        PyErr_SetString(PyExc_BufferError, "a number is stored as one: __array__ tells as what");
        return -1;
    }
    fr_info_sync(FR_SYNC_buffer, fr_of(self));
    array = fr_numpy_view(self, fr_type_view(self));
    if (array && fr_object(self)->scalar) /* np.asarray of a number is an array of its own, to be written into */
        Py_SETREF(array, PyObject_CallMethod(array, "copy", NULL));
    if (!array)
        return -1;
    /* The ndarray answers, and is what the consumer releases. */
    st = PyObject_GetBuffer(array, view, flags);
    Py_DECREF(array);
    return st;
}

static PyObject *
tensor_subscript(PyObject *self, PyObject *key)
{
    return fr_index_get(self, key);
}

PyDoc_STRVAR(tensor_doc,
"An array whose values are computed when they are needed.\n\n"
"A Tensor has the shape, strides, dtype, operators, indexing and methods of a numpy.ndarray, with\n"
"NumPy's rules of promotion and broadcasting and NumPy's errors, raised at the line that causes\n"
"them. Operations are recorded and computed together when Python asks for a value (print, bool,\n"
"float, item, iteration, the buffer protocol, a NumPy function that frit does not know) or by\n"
"eval(). Made by asarray, zeros, arange and the other functions of frit.");

static PyType_Slot base_slots[] = {
    {Py_tp_doc, (char *)tensor_doc},
    {Py_tp_dealloc, fr_type_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_str, tensor_str},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_tp_richcompare, fr_number_richcompare},
    {Py_tp_iter, fr_iterate},
    {Py_tp_methods, fr_tensor_methods},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {Py_mp_subscript, tensor_subscript},
    {Py_mp_ass_subscript, fr_index_set},
    {Py_mp_length, fr_index_length},
    {Py_sq_length, fr_index_length},
    {Py_sq_item, fr_index_item},
    {Py_sq_contains, fr_index_contains},
    {Py_bf_getbuffer, tensor_getbuffer},
    {0, NULL},
};

int
fr_type_init(PyObject *module)
{
    const PyType_Slot *const tables[] = {base_slots, fr_number_slots, fr_power_slots, fr_product_slots};
    PyType_Slot              slots[128];
    PyType_Spec              spec = {
        .name = "frit.Tensor",
        .basicsize = sizeof(struct fr_tensor_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    int                      n = 0;

    for (size_t i = 0; i < FR_LEN(tables); i++)
        for (const PyType_Slot *s = tables[i]; s->slot; s++)
            slots[n++] = *s;
    FR_ASSERT(n < (int)FR_LEN(slots));
    slots[n] = (PyType_Slot){0, NULL};
    fr_tensor_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    if (!fr_tensor_type || fr_memory_init() < 0 || fr_scalar_type_init(module) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Tensor", (PyObject *)fr_tensor_type);
}
