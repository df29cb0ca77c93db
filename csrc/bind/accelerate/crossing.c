/* bind/accelerate/crossing.c -- what comes into the user's functions and what leaves them (membrane.h). */
#include "bind/accelerate/crossing.h"

#include <string.h>

#include "bind/numpy/npy.h"
#include "bind/tensor/tensor.h"
#include "ir/node.h"

static PyObject *partial_type;

/* ---- what comes */

enum { LARGE = 4096,    /* elements: with more in an array */
       MANY = 16 };     /* times, of the few that are looked at, a call is no plain one */

static PyObject *
come_plain(PyObject *array)
{
    PyObject *lent = fr_lent_array(array);

    if (lent)
        array = lent;
    if (PyArray_SIZE(fr_array(array)) > LARGE && ++fr_membrane_n_large % MANY == 0 && fr_lent_has_parted() && fr_plain_resume())
        return fr_lent_come(array);
    return Py_NewRef(array);
}

bool
fr_crossing_is_partial(PyObject *x)
{
    return Py_TYPE(x) == (PyTypeObject *)partial_type;
}

PyObject *
fr_crossing_comes(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    int           st = 0;

    if (FR_UNLIKELY(fr_nodes_made >= fr_plain_look_at) && fr_membrane_is_active && !fr_plain_look())
        return NULL;
    if (!fr_membrane_is_active && !fr_membrane_is_plain)
        return Py_NewRef(x);
    if (type == &PyArray_Type)
        return fr_membrane_is_plain ? come_plain(x) : fr_lent_come(x);
    if (type == &PyFunction_Type)
        st = fr_whose_function(x);
    else if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !fr_is_tensor(x))
        st = fr_whose_class(type);
    else if (PyType_Check(x) && PyType_HasFeature((PyTypeObject *)x, Py_TPFLAGS_HEAPTYPE))
        st = fr_whose_class((PyTypeObject *)x);
    else if (type == &PyMethod_Type && PyFunction_Check(PyMethod_GET_FUNCTION(x)))
        st = fr_whose_function(PyMethod_GET_FUNCTION(x));
    if (FR_UNLIKELY(fr_crossing_is_partial(x)) && st >= 0)
        st = fr_whose_it_is(x);
    if (FR_UNLIKELY(st == FR_OTHERS))
        fr_outside_met(x);
    return st < 0 ? NULL : Py_NewRef(x);
}

/* What a call has given: an array that nobody else has is taken over. */
PyObject *
fr_crossing_made(PyObject *x)
{
    PyObject *tensor;

    if (Py_TYPE(x) != &PyArray_Type || Py_REFCNT(x) > 1 || !fr_membrane_is_active)
        return fr_crossing_comes(x);
    if ((tensor = fr_numpy_wrap(x, NULL)) && !fr_is_tensor(tensor)) {
        Py_DECREF(tensor);
        return fr_lent_come(x);
    }
    return tensor;
}

/* ---- what leaves */

enum { STORED_ITEMS = 256 };    /* of containers that are stored: what is beyond is found at the end of the call */

/* What others get for a tensor: the array of a loan; NumPy's bool, of which there are but two; or the tensor, which
 * becomes what it stands for at the end of the call. */
static PyObject *
leave_tensor(PyObject *t)
{
    PyObject *array = fr_lent_array(t);

    if (array)
        return Py_NewRef(array);
    if (fr_object(t)->scalar && fr_of(t)->dtype == FR_BOOL && !fr_call_keeps)
        return fr_scalar_value(t);
    return Py_NewRef(t);
}

static int
leave_item(PyObject *o, PyObject **into, int *n_left)
{
    PyObject *x = *into;
    int       st = 0;

    if (fr_is_tensor(x)) {
        PyObject *left = leave_tensor(x);

        if (!left)
            return -1;
        Py_SETREF(*into, left);
    } else if (x != o && fr_is_container(x) && *n_left > 0) {
        st = *n_left = fr_crossing_leave_items(x, *n_left);
    }
    return st < 0 ? -1 : 0;
}

static int
leave_values(PyObject *dict, int *n_left)
{
    PyObject  *key, *value;
    Py_ssize_t at = 0;

    while (--*n_left >= 0 && PyDict_Next(dict, &at, &key, &value)) {
        PyObject *now = Py_NewRef(value);
        int       st = leave_item(dict, &now, n_left);

        if (st == 0 && now != value)
            st = PyDict_SetItem(dict, key, now); /* of a key that is there: the dict stays as it is */
        Py_DECREF(now);
        if (st < 0)
            return -1;
    }
    return 0;
}

/* Returns how many more are to be looked at. */
int
fr_crossing_leave_items(PyObject *o, int n_left)
{
    int st = 0;

    if (Py_EnterRecursiveCall(" in what an accelerated function stores"))
        return -1;
    if (PyDict_CheckExact(o)) {
        st = leave_values(o, &n_left);
    } else if (PyTuple_Check(o) || PyList_CheckExact(o)) {
        for (Py_ssize_t i = 0; st == 0 && i < PySequence_Fast_GET_SIZE(o) && --n_left >= 0; i++)
            st = leave_item(o, &PySequence_Fast_ITEMS(o)[i], &n_left);
    }
    Py_LeaveRecursiveCall();
    return st < 0 ? -1 : n_left > 0 ? n_left : 0;
}

PyObject *
fr_crossing_leaves(PyObject *x)
{
    if (fr_membrane_is_plain) {
        PyObject *array = fr_lent_array(x);

        return Py_NewRef(array ? array : x);
    }
    if (!fr_membrane_is_active)
        return Py_NewRef(x);
    if (fr_is_tensor(x))
        return leave_tensor(x);
    if ((PyTuple_Check(x) || PyList_CheckExact(x) || PyDict_CheckExact(x)) && fr_crossing_leave_items(x, STORED_ITEMS) < 0)
        return NULL;
    return Py_NewRef(x);
}

/* Whether it is an object of somebody else's class, whose code gets what is stored as an item of it: a DataFrame, a dataset. */
static bool
is_of_others(PyObject *container)
{
    PyTypeObject *type = Py_TYPE(container);
    int           whose;

    if (FR_LIKELY(!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) || fr_is_tensor(container) || PyDict_Check(container) ||
        PyList_Check(container) || fr_numpy_is_array(container))
        return false;
    if ((whose = fr_whose_class(type)) < 0)
        PyErr_Clear();
    return whose == FR_OTHERS;
}

PyObject *
fr_crossing_stored(PyObject *two)
{
    PyObject *x = PyTuple_GET_ITEM(two, 0), *array;

    if (FR_LIKELY(!fr_is_tensor(x)) || !fr_membrane_is_active || !is_of_others(PyTuple_GET_ITEM(two, 1)))
        return fr_crossing_leaves(x);
    array = fr_lent_array(x);
    if (!array)
        return fr_numpy_shown(x);
    return fr_lent_open(x) ? Py_NewRef(array) : NULL;
}

/* ---- what is shown as text, which asks all that is in it */

PyObject *
fr_crossing_shown(PyObject *x)
{
    struct fr_err err;

    if (fr_membrane_is_active && !fr_is_tensor(x) && !fr_callee_is_number(x) &&
        fr_errors_check(fr_runtime_flush(&err), &err) < 0)
        return NULL;
    return Py_NewRef(x);
}

/* ---- what is iterated: code of others, or of a generator that began outside, runs at each step */

struct steps {
    PyObject_HEAD
    PyObject *iterator;
};
static PyTypeObject *steps_type;

static bool
is_prepared_generator(PyObject *x)
{
    PyObject *code = PyObject_GetAttrString(x, "gi_code");
    bool      is = code && fr_whose_crosses(code);

    PyErr_Clear();
    Py_XDECREF(code);
    return is;
}

PyObject *
fr_crossing_iterated(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    struct steps *s;
    int           whose = FR_USERS;

    if (!fr_membrane_is_active)
        return Py_NewRef(x);
    if (PyGen_CheckExact(x))
        whose = is_prepared_generator(x) ? FR_USERS : FR_OTHERS;
    else if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !fr_is_tensor(x))
        whose = fr_whose_class(type);
    if (whose != FR_OTHERS)
        return whose < 0 ? NULL : Py_NewRef(x);
    if ((s = (struct steps *)steps_type->tp_alloc(steps_type, 0)) && !(s->iterator = PyObject_GetIter(x)))
        Py_CLEAR(s);
    return (PyObject *)s;
}

static PyObject *
steps_next(PyObject *self)
{
    return fr_membrane_is_active && !fr_lent_settle() ? NULL : PyIter_Next(((struct steps *)self)->iterator);
}

static int
steps_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct steps *)self)->iterator);
    return 0;
}

static void
steps_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    Py_XDECREF(((struct steps *)self)->iterator);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot steps_slots[] = {
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, steps_next},
    {Py_tp_traverse, steps_traverse},
    {Py_tp_dealloc, steps_dealloc},
    {0, NULL},
};

static PyType_Spec steps_spec = {"frit._core._Steps", sizeof(struct steps), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, steps_slots};

int
fr_crossing_steps_init(void)
{
    PyObject *functools = PyImport_ImportModule("functools");

    partial_type = functools ? PyObject_GetAttrString(functools, "partial") : NULL;
    Py_XDECREF(functools);
    steps_type = (PyTypeObject *)PyType_FromSpec(&steps_spec);
    return partial_type && steps_type ? 0 : -1;
}
