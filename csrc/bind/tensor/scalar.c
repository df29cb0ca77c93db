/* bind/tensor/scalar.c -- what stands for a NumPy scalar, and that number.
 *
 * Where objects of others are at hand that are asked for their parts, pandas' above all, numbers go to code that nothing
 * of ours stands before: series.iloc[x.argmax()]. There, numbers are computed at once and are NumPy's. */
#include "bind/tensor/tensor.h"

PyObject *
fr_scalar_value(PyObject *self)
{
    fr_info_sync(FR_SYNC_number, fr_of(self));
    return fr_numpy_scalar_of(self);
}

PyObject *
fr_scalar_class(PyObject *tensor)
{
    return Py_NewRef(fr_object(tensor)->scalar ? fr_numpy_scalar_type(fr_of(tensor)->dtype) : fr_numpy_array_type());
}

bool
fr_scalar_repeats(PyObject *tensor, PyObject *sequence)
{
    const PyTypeObject *type = Py_TYPE(sequence);

    return fr_object(tensor)->scalar && type->tp_as_sequence && type->tp_as_sequence->sq_repeat &&
           !(type->tp_as_number && type->tp_as_number->nb_multiply) && !fr_numpy_is_scalar(sequence);
}

/* ---- real numbers */

static FR_THREAD_LOCAL bool at_once;
int fr_scalar_n_at_once;

bool
fr_scalar_set_at_once(bool on)
{
    bool before = at_once;

    fr_scalar_n_at_once += on - before;
    at_once = on;
    return before;
}

PyObject *
fr_scalar_real(PyObject *o)
{
    PyObject *number;

    if (!o || !at_once || !fr_is_tensor(o) || !fr_object(o)->scalar)
        return o;
    number = fr_scalar_value(o);
    Py_DECREF(o);
    return number;
}

PyObject *
fr_type_result_scalar(fr_status st, struct fr_tensor *t, const struct fr_err *err)
{
    PyObject *o = fr_type_result(st, t, err);

    if (o)
        fr_type_set_scalar(o, fr_of(o)->layout->ndim == 0);
    return fr_type_number(o);
}

bool
fr_scalar_is_stored(PyObject *tensor)
{
    return fr_object(tensor)->scalar && fr_site_stores_plainly();
}

/* What NumPy stores for it into an array of this dtype, if it is in range. */
PyObject *
fr_scalar_as_stored(PyObject *tensor, PyObject *dtype)
{
    PyObject *value = fr_scalar_value(tensor), *empty = value ? fr_numpy_attr("empty") : NULL, *shape = PyTuple_New(0);
    PyObject *array = empty && shape ? PyObject_CallFunctionObjArgs(empty, shape, dtype, NULL) : NULL;

    if (array && PyObject_SetItem(array, Py_Ellipsis, value) < 0)
        Py_CLEAR(array);
    Py_XDECREF(shape);
    Py_XDECREF(empty);
    Py_XDECREF(value);
    return array;
}

/* type(x) in an accelerated function: of the array or number that a tensor stands for. */
static PyObject *
type_of(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    if (n == 1)
        return fr_is_tensor(args[0]) ? fr_scalar_class(args[0]) : Py_NewRef((PyObject *)Py_TYPE(args[0]));
    return PyObject_Vectorcall((PyObject *)&PyType_Type, args, (size_t)n, NULL);
}

PyMethodDef fr_scalar_functions[] = {
    {"type_of", (PyCFunction)(void (*)(void))type_of, METH_FASTCALL,
     "type_of(x, /)\n--\n\ntype(x), or that of what a tensor stands for."},
    {NULL, NULL, 0, NULL},
};
