/* bind/tensor/iterate.c -- iterators of Tensors.
 *
 * A vector gives its elements, computed at once: in an accelerated function as NumPy's scalars. Anything deeper gives
 * windows. As NumPy's iterator does, this one asks for item after item: it sees what is written meanwhile, and a shape that
 * is set. */
#include "bind/numpy/npy.h"
#include "bind/tensor/tensor.h"

struct elements {
    PyObject_HEAD
    PyObject               *tensor, *view;   /* the view shows its memory; NULL when there are no more */
    const struct fr_layout *layout;          /* that the tensor had: another address is another shape */
    Py_ssize_t              i;
    bool                    of_tensors;      /* in the place of NumPy's scalars */
};

static PyTypeObject *elements_type;

static void
elements_dealloc(PyObject *self)
{
    struct elements *e = (struct elements *)self;
    PyTypeObject    *type = Py_TYPE(self);

    Py_XDECREF(e->view);
    Py_XDECREF(e->tensor);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *
item(const struct elements *e)
{
    PyObject *o, *scalar;

    if (FR_UNLIKELY(!fr_is_tensor(e->tensor) || fr_of(e->tensor)->layout != e->layout))
        return PySequence_GetItem(e->tensor, e->i);
    o = PyArray_Type.tp_as_sequence->sq_item(e->view, e->i);
    if (!o || !e->of_tensors)
        return o;
    scalar = o;
    o = fr_numpy_number(scalar);
    Py_DECREF(scalar);
    return o;
}

static PyObject *
elements_next(PyObject *self)
{
    struct elements *e = (struct elements *)self;
    PyObject        *o = e->view ? item(e) : NULL;

    if (o) {
        e->i++;
        return o;
    }
    if (e->view && PyErr_ExceptionMatches(PyExc_IndexError)) {
        PyErr_Clear();
        Py_CLEAR(e->view);
    }
    return NULL;
}

static PyObject *
length_hint(PyObject *self, PyObject *unused)
{
    const struct elements *e = (struct elements *)self;
    Py_ssize_t             n = e->view ? PyObject_Size(e->tensor) : 0;

    (void)unused;
    return n < 0 ? NULL : PyLong_FromSsize_t(n > e->i ? n - e->i : 0);
}

PyObject *
fr_iterate(PyObject *self)
{
    const struct fr_layout *l = fr_of(self)->layout;
    struct elements        *e;

    if (l->ndim == 0) {
        PyErr_SetString(PyExc_TypeError, "iteration over a 0-d array");
        return NULL;
    }
    if (l->ndim > 1)
        return PySeqIter_New(self);
    if (!(e = PyObject_New(struct elements, elements_type)))
        return NULL;
    e->tensor = Py_NewRef(self);
    e->layout = l;
    e->i = 0;
    e->of_tensors = !fr_call_depth;
    fr_info_sync(FR_SYNC_iteration, fr_of(self));
    /* The elements as they are now, and later writes too: so the memory must be the one that writes go to. */
    if (!(e->view = fr_numpy_view(self, FR_VIEW_WATCH)))
        Py_CLEAR(e);
    return (PyObject *)e;
}

static PyMethodDef methods[] = {
    {"__length_hint__", length_hint, METH_NOARGS, "How many elements are left."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Iterator of the elements of a vector."},
    {Py_tp_dealloc, elements_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, elements_next},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {"frit._core._Elements", sizeof(struct elements), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int
fr_iterate_init(void)
{
    return (elements_type = (PyTypeObject *)PyType_FromSpec(&spec)) ? 0 : -1;
}
