/* bind/tensor/flat.c -- Tensor.flat: NumPy's iterator over the memory, which takes tensors as keys and gives tensors.
 *
 * NumPy tells an array among its keys by its class. So keys and values go the way of arguments of functions that are
 * handed over (fallback.c), and arrays that come back are tensors; whatever else it can do is NumPy's object's. */
#include "bind/tensor/tensor.h"

struct flat {
    PyObject_HEAD
    PyObject *tensor, *theirs;
};

static PyTypeObject *flat_type;

static PyObject *
theirs_of(PyObject *self)
{
    return ((struct flat *)self)->theirs;
}

static PyObject *
flat_get(PyObject *self, PyObject *key)
{
    return fr_fallback_method("__getitem__", FR_READS, (PyObject *[]){theirs_of(self), key}, 2, NULL);
}

static int
flat_set(PyObject *self, PyObject *key, PyObject *value)
{
    PyObject *done;

    if (!value) {
        PyErr_SetString(PyExc_TypeError, "Cannot delete iterator elements");
        return -1;
    }
    done = fr_fallback_method("__setitem__", FR_READS, (PyObject *[]){theirs_of(self), key, value}, 3, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static Py_ssize_t
flat_length(PyObject *self)
{
    return PyObject_Size(theirs_of(self));
}

static PyObject *
flat_next(PyObject *self)
{
    return Py_TYPE(theirs_of(self))->tp_iternext(theirs_of(self));
}

static PyObject *
flat_compare(PyObject *self, PyObject *other, int op)
{
    static const char *const names[] = {[Py_LT] = "__lt__", [Py_LE] = "__le__", [Py_EQ] = "__eq__",
                                        [Py_NE] = "__ne__", [Py_GT] = "__gt__", [Py_GE] = "__ge__"};

    return fr_fallback_method(names[op], FR_READS, (PyObject *[]){theirs_of(self), other}, 2, NULL);
}

static PyObject *
flat_getattro(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name);

    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyErr_Clear();
    return PyObject_GetAttr(theirs_of(self), name);
}

static PyObject *
flat_copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    return fr_fallback_method("copy", FR_READS, (PyObject *[]){theirs_of(self)}, 1, NULL);
}

static PyObject *
flat_array(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *f = fr_numpy_attr("asarray"), *all[4] = {theirs_of(self)}, *result = NULL;

    for (Py_ssize_t i = 0; i < 3; i++)
        all[i + 1] = i < nargs + (kw ? PyTuple_GET_SIZE(kw) : 0) ? args[i] : NULL;
    if (f) /* dtype and copy mean the same there */
        result = PyObject_Vectorcall(f, all, (size_t)nargs + 1, kw);
    Py_XDECREF(f);
    return result;
}

static PyObject *
get_base(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((struct flat *)self)->tensor);
}

static void
flat_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    Py_XDECREF(((struct flat *)self)->tensor);
    Py_XDECREF(theirs_of(self));
    PyObject_Free(self);
    Py_DECREF(type);
}

PyObject *
fr_flat_new(PyObject *tensor, PyObject *theirs)
{
    struct flat *self = PyObject_New(struct flat, flat_type);

    if (self) {
        self->tensor = Py_NewRef(tensor);
        self->theirs = Py_NewRef(theirs);
    }
    return (PyObject *)self;
}

int
fr_flat_init(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"copy", flat_copy, METH_NOARGS, "The elements in a new tensor of one axis."},
        {"__array__", FR_FAST(flat_array), "The elements as an ndarray."},
        {NULL, NULL, 0, NULL},
    };
    static PyGetSetDef getset[] = {
        {"base", get_base, NULL, "The tensor.", NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_doc, "The elements of a Tensor one after the other, as numpy.flatiter."},
        {Py_tp_dealloc, flat_dealloc},
        {Py_tp_getattro, flat_getattro},
        {Py_tp_richcompare, flat_compare},
        {Py_tp_hash, PyObject_HashNotImplemented},
        {Py_tp_iter, PyObject_SelfIter},
        {Py_tp_iternext, flat_next},
        {Py_tp_methods, methods},
        {Py_tp_getset, getset},
        {Py_mp_subscript, flat_get},
        {Py_mp_ass_subscript, flat_set},
        {Py_mp_length, flat_length},
        {Py_sq_length, flat_length},
        {0, NULL},
    };
    static PyType_Spec spec = {
        .name = "frit._core.Flat",
        .basicsize = sizeof(struct flat),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };

    flat_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return flat_type ? 0 : -1;
}
