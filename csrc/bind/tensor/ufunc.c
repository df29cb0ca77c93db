/* bind/tensor/ufunc.c -- what frit.add and the like are: our function, with what else NumPy's ufunc of that name has.
 *
 * The module frit._core has plain functions, which accelerated code calls. The package frit shows each that is a ufunc in
 * NumPy as one of these: called, it is the function; reduce, accumulate, reduceat, outer and at are NumPy's methods, which
 * come back to us by __array_ufunc__ (dispatch.c) where they meet tensors; nin, identity and so on are NumPy's. */
#include "bind/tensor/tensor.h"

#include <structmember.h>

struct ufunc {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject      *function, *theirs;
};

static PyObject *
ufunc_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kw)
{
    return PyObject_Vectorcall(((struct ufunc *)self)->function, args, nargsf, kw);
}

static PyObject *
ufunc_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    PyObject     *function, *theirs;
    struct ufunc *self;

    if (kw && PyDict_GET_SIZE(kw)) {
        PyErr_SetString(PyExc_TypeError, "Ufunc() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_UnpackTuple(args, "Ufunc", 2, 2, &function, &theirs) || !(self = (struct ufunc *)type->tp_alloc(type, 0)))
        return NULL;
    self->call = ufunc_call;
    self->function = Py_NewRef(function);
    self->theirs = Py_NewRef(theirs);
    return (PyObject *)self;
}

static int
ufunc_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct ufunc *)self)->function);
    Py_VISIT(((struct ufunc *)self)->theirs);
    return 0;
}

static int
ufunc_clear(PyObject *self)
{
    Py_CLEAR(((struct ufunc *)self)->function);
    Py_CLEAR(((struct ufunc *)self)->theirs);
    return 0;
}

static void
ufunc_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    ufunc_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- attributes: the function's where they tell what it is, and NumPy's */

static PyObject *
get_of_function(PyObject *self, void *name)
{
    return PyObject_GetAttrString(((struct ufunc *)self)->function, name);
}

static PyObject *
get_module(PyObject *self, void *unused)
{
    (void)self, (void)unused;
    return PyUnicode_FromString("frit");
}

static PyObject *
get_signature(PyObject *self, void *unused)
{
    PyObject *inspect = PyImport_ImportModule("inspect"), *result;

    (void)unused;
    result = inspect ? PyObject_CallMethod(inspect, "signature", "O", ((struct ufunc *)self)->function) : NULL;
    Py_XDECREF(inspect);
    return result;
}

static PyObject *
get_of_theirs(PyObject *self, void *name)
{
    return PyObject_GetAttrString(((struct ufunc *)self)->theirs, name);
}

static PyObject *
ufunc_repr(PyObject *self)
{
    PyObject *name = get_of_function(self, "__name__");
    PyObject *text = name ? PyUnicode_FromFormat("<frit ufunc '%U'>", name) : NULL;

    Py_XDECREF(name);
    return text;
}

/* It is pickled by its name. */
static PyObject *
ufunc_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return get_of_function(self, "__name__");
}

/* ---- NumPy's methods */

static PyObject *
method(PyObject *self, const char *name, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject  *bound = PyObject_GetAttrString(((struct ufunc *)self)->theirs, name), *result = NULL;
    Py_ssize_t n = nargs + (kw ? PyTuple_GET_SIZE(kw) : 0), i = 0;

    while (bound && i < n && !fr_is_tensor(args[i]))
        i++;
    if (bound) /* NumPy asks a tensor; what stands in lists, and new arrays, are tensors by fallback.c */
        result = i < n ? PyObject_Vectorcall(bound, args, (size_t)nargs, kw) : fr_fallback_call(bound, args, nargs, kw);
    Py_XDECREF(bound);
    return result;
}

#define METHODS(M) M(reduce) M(accumulate) M(reduceat) M(outer) M(at)
#define METHOD(name)                                                                                                   \
    static PyObject *method_##name(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)                       \
    {                                                                                                                  \
        return method(self, #name, args, nargs, kw);                                                                   \
    }
METHODS(METHOD)
#undef METHOD

static PyMethodDef methods[] = {
#define METHOD(name) {#name, FR_FAST(method_##name), #name "($self, /, *args, **kwargs)\n--\n\nAs numpy.ufunc." #name "."},
    METHODS(METHOD)
#undef METHOD
    {"__reduce__", ufunc_reduce, METH_NOARGS, "For pickle: the name."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"__name__", get_of_function, NULL, NULL, "__name__"},
    {"__qualname__", get_of_function, NULL, NULL, "__name__"},
    {"__doc__", get_of_function, NULL, NULL, "__doc__"},
    {"__module__", get_module, NULL, NULL, NULL},
    {"__signature__", get_signature, NULL, NULL, NULL},
#define OF_THEIRS(name, text) {#name, get_of_theirs, NULL, text, #name}
    OF_THEIRS(nin, "Number of operands."),
    OF_THEIRS(nout, "Number of results."),
    OF_THEIRS(nargs, "Operands and results."),
    OF_THEIRS(ntypes, "Number of types."),
    OF_THEIRS(types, "NumPy's loops, as numpy.ufunc.types."),
    OF_THEIRS(identity, "What leaves the other operand as it is, or None."),
    OF_THEIRS(signature, "The core dimensions of a generalized ufunc, or None."),
    OF_THEIRS(resolve_dtypes, "As numpy.ufunc.resolve_dtypes."),
#undef OF_THEIRS
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct ufunc, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, ufunc_new},           {Py_tp_dealloc, ufunc_dealloc}, {Py_tp_traverse, ufunc_traverse},
    {Py_tp_clear, ufunc_clear},       {Py_tp_call, PyVectorcall_Call}, {Py_tp_repr, ufunc_repr},
    {Py_tp_methods, methods},         {Py_tp_getset, getset},         {Py_tp_members, members},
    {0, NULL},
};

int
fr_ufunc_init(PyObject *module)
{
    PyType_Spec spec = {
        .name = "frit._core.Ufunc",
        .basicsize = sizeof(struct ufunc),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int       st = type ? PyModule_AddObjectRef(module, "Ufunc", type) : -1;

    Py_XDECREF(type);
    return st;
}
