/* bind/accelerate/convert.c -- NumPy's number types, called: np.float32(x).
 *
 * Of an array that is the array as that dtype, itself where it has it, and without axes a number. In accelerated functions
 * a call of such a type is one of these (python/frit/_namespace.py), so that nothing is computed for it. */
#include "bind/accelerate/accelerate.h"
#include "bind/tensor/tensor.h"

static bool
is_float(fr_dtype d)
{
    return d == FR_F16 || d == FR_F32 || d == FR_F64;
}

/* Whether a number becomes one of dtype `to` as an array does: not where Python's int() is asked, which refuses what is
 * not finite, or too large. */
static bool
converts_as_array(fr_dtype from, fr_dtype to)
{
    return fr_dtype_promote(from, to) == to || (is_float(from) && is_float(to));
}

static PyObject *
converted(PyObject *tensor, fr_dtype to)
{
    const struct fr_tensor *t = fr_of(tensor);
    PyObject               *o;

    if (t->dtype == to && (t->layout->ndim || fr_object(tensor)->scalar))
        return Py_NewRef(tensor);
    o = fr_creation_astype(t, to, 'K');
    if (o)
        fr_type_set_scalar(o, t->layout->ndim == 0);
    return o;
}

/* self: the type. */
static PyObject *
convert(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (n == 1 && !names && fr_is_tensor(args[0])) {
        fr_dtype from = fr_of(args[0])->dtype, to;

        if (fr_numpy_to_dtype(self, FR_N_DTYPES, &to) == 1 &&
            !(fr_dtype_is_complex(from) && !fr_dtype_is_complex(to) && to != FR_BOOL) &&
            (!fr_object(args[0])->scalar || converts_as_array(from, to)))
            return converted(args[0], to);
        PyErr_Clear();
    }
    return PyObject_Vectorcall(self, args, (size_t)n, names);
}

static PyObject *
conversion(PyObject *module, PyObject *type)
{
    static PyMethodDef method = {"convert", (PyCFunction)(void (*)(void))convert, METH_FASTCALL | METH_KEYWORDS, NULL};

    (void)module;
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "conversion() takes a type of NumPy's numbers");
        return NULL;
    }
    return PyCFunction_New(&method, type);
}

PyMethodDef fr_convert_methods[] = {
    {"conversion", conversion, METH_O,
     "conversion(type, /)\n--\n\nThe function that calls the type, of which a tensor comes as a tensor."},
    {NULL, NULL, 0, NULL},
};
