/* bind/numpy/value.c -- what stands beside a tensor: numbers, ndarrays, lists, as struct fr_arg.
 *
 * A Python number is weak (NEP 50) and stays a number; an ndarray is lent or copied. */
#include <math.h>
#include <string.h>

#include "bind/numpy/numpy.h"

/* A Python int into n; false when it does not fit a machine word (n.huge, the low bits). */
static bool
int_number(PyObject *o, struct fr_number *n)
{
    int       overflow;
    long long v;

    n->dtype = FR_I64;
    n->weak = 'i';
    n->huge = n->negative = false;
    v = PyLong_AsLongLongAndOverflow(o, &overflow);
    n->v.i64 = v;
    if (!overflow)
        return true;
    n->huge = true;
    n->negative = overflow < 0;
    n->v.u64 = PyLong_AsUnsignedLongLongMask(o);
    return false;
}

/* Python's own numbers; false for anything else. */
static bool
python_number(PyObject *o, struct fr_number *n)
{
    n->huge = n->negative = false;
    if (PyBool_Check(o)) {
        n->dtype = FR_BOOL;
        n->weak = 'b';
        n->v.i64 = o == Py_True;
    } else if (PyLong_CheckExact(o)) {
        int_number(o, n);
    } else if (PyLong_Check(o) && int_number(o, n)) {
        n->weak = 0; /* of a class of its own (IntEnum): an int64, as np.asarray has it */
    } else if (PyFloat_CheckExact(o)) {
        n->dtype = FR_F64;
        n->weak = 'f';
        n->v.f64 = PyFloat_AS_DOUBLE(o);
    } else if (PyComplex_CheckExact(o)) {
        Py_complex c = PyComplex_AsCComplex(o);
        n->dtype = FR_C128;
        n->weak = 'c';
        n->v.c128[0] = c.real;
        n->v.c128[1] = c.imag;
    } else {
        return false;
    }
    return true;
}

PyObject *(*fr_value_lend)(PyObject *array);

static int
from_array(PyObject *array, struct fr_value *op)
{
    PyObject *lent = fr_value_lend ? fr_value_lend(array) : NULL;
    int       st = lent ? FR_VALUE_OK : PyErr_Occurred() ? FR_VALUE_ERROR : fr_numpy_copy_operand(array, &op->own);

    if (lent) {
        fr_tensor_copy(fr_of(lent), &op->own);
        Py_DECREF(lent);
    }
    if (st == FR_VALUE_OK)
        op->arg.t = &op->own;
    return st;
}

static bool
has_attr(PyObject *type, const char *name)
{
    PyObject *a = PyObject_GetAttrString(type, name);

    if (!a)
        PyErr_Clear();
    Py_XDECREF(a);
    return a != NULL;
}

/* Objects that take part in ufuncs themselves answer on their own; of those that are no arrays at all,
 * NumPy makes arrays of objects. */
int
fr_value_operand(PyObject *o)
{
    PyObject *type = (PyObject *)Py_TYPE(o);

    if (PyList_Check(o) || PyTuple_Check(o))
        return FR_VALUE_OK;
    if (has_attr(type, "__array_ufunc__") || fr_numpy_defers(o))
        return FR_VALUE_DEFER;
    return has_attr(type, "__array__") || has_attr(o, "__array_interface__") ? FR_VALUE_OK
                                                                             : FR_VALUE_FALLBACK;
}

/* What NumPy could not make an array of, for something in it has no data. FR_VALUE_ERROR: an exception is set. */
static FR_COLD int
without_data(PyObject *o, struct fr_value *op)
{
    PyObject *type, *value, *trace, *t;

    if (!fr_fallback_instead)
        return FR_VALUE_ERROR;
    PyErr_Fetch(&type, &value, &trace);
    t = PyObject_CallFunction(fr_fallback_instead, "s(O){}", "asarray", o);
    if (!t || !fr_is_tensor(t)) {
        Py_XDECREF(t);
        PyErr_Restore(type, value, trace);
        return FR_VALUE_ERROR;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    fr_tensor_copy(fr_of(t), &op->own);
    op->arg.t = &op->own;
    Py_DECREF(t);
    return FR_VALUE_OK;
}

int
fr_value_get(PyObject *o, bool binary, struct fr_value *op)
{
    PyObject *array;
    int       st;

    op->own.storage = NULL;
    op->object = o;
    op->arg.t = NULL;
    if (fr_is_tensor(o)) {
        op->arg.t = fr_of(o);
        return FR_VALUE_OK;
    }
    if (fr_numpy_is_scalar(o)) /* before floats: np.float64 is one */
        return fr_numpy_scalar(o, &op->arg.n) ? FR_VALUE_OK : FR_VALUE_FALLBACK;
    if (python_number(o, &op->arg.n))
        return FR_VALUE_OK;
    if (fr_numpy_is_array(o)) {
        if (FR_UNLIKELY(fr_numpy_is_subclass(o))) /* a matrix, a masked array: the result is one, too */
            return binary ? FR_VALUE_DEFER : FR_VALUE_FALLBACK;
        return from_array(o, op);
    }
    if (binary && (st = fr_value_operand(o)) != FR_VALUE_OK)
        return st;
    array = fr_numpy_from_any(o);
    if (!array)
        return without_data(o, op);
    st = from_array(array, op);
    Py_DECREF(array);
    return st;
}

void
fr_value_clear(struct fr_value *op)
{
    if (op->own.storage)
        fr_tensor_clear(&op->own);
    op->own.storage = NULL;
}

int
fr_value_tensor(PyObject *o, struct fr_value *op)
{
    int st = fr_value_get(o, false, op);

    if (st != FR_VALUE_OK || op->arg.t)
        return st;
    if (op->arg.n.huge)
        return FR_VALUE_FALLBACK;
    /* A number: an array without axes. */
    struct fr_err err;

    if (fr_errors_check(fr_trace_fill(0, NULL, op->arg.n.dtype, &op->arg.n, &op->own, &err), &err) < 0)
        return FR_VALUE_ERROR;
    fr_tensor_set_anywhere(&op->own);
    op->arg.t = &op->own;
    return FR_VALUE_OK;
}

int
fr_value_kept(PyObject *o, struct fr_value *op)
{
    return fr_numpy_is_array(o) && fr_numpy_array_dtype(o) == FR_N_DTYPES ? FR_VALUE_FALLBACK : fr_value_tensor(o, op);
}

/* ---- NEP 50 */

static bool
int_fits(const struct fr_number *n, fr_dtype d)
{
    int bits = 8 * fr_dtype_size(d);

    if (n->huge)
        return false;
    if (fr_dtype_kind(d) == 'u')
        return n->v.i64 >= 0 && (bits == 64 || n->v.i64 < (int64_t)1 << bits);
    return bits == 64 || (n->v.i64 >= -((int64_t)1 << (bits - 1)) &&
                          n->v.i64 < (int64_t)1 << (bits - 1));
}

bool
fr_value_int_fits(PyObject *o, fr_dtype d)
{
    int              beyond;
    struct fr_number n = {.v.i64 = PyLong_AsLongLongAndOverflow(o, &beyond)};

    return !beyond && int_fits(&n, d);
}

static bool
fits_unsigned(PyObject *o)
{
    bool fits = PyLong_AsUnsignedLongLong(o) != (unsigned long long)-1 || !PyErr_Occurred();

    PyErr_Clear();
    return fits;
}

/* One weak int beside arrays whose promoted dtype is d. */
static int
fit_int(fr_op op, struct fr_value *x, fr_dtype d)
{
    struct fr_number *n = &x->arg.n;
    uint8_t           rule = fr_op_info[op].rule;

    if (d == FR_N_DTYPES && n->huge)
        return FR_VALUE_FALLBACK; /* by itself it is a uint64, or an object */
    if (d >= FR_F16 || ((rule == FR_RULE_FLOAT || rule == FR_RULE_TRUEDIV))) {
        if (n->huge) {
            double f = PyLong_AsDouble(x->object);
            if (f == -1 && PyErr_Occurred())
                return FR_VALUE_ERROR;
            /* Beside integers the result is a float64 either way. */
            n->huge = n->negative = false;
            n->dtype = FR_F64;
            n->weak = 'f';
            n->v.f64 = f;
        }
        return FR_VALUE_OK;
    }
    if (d == FR_BOOL || d == FR_N_DTYPES)
        d = FR_I64;
    if (int_fits(n, d))
        return FR_VALUE_OK;
    /* Its value is above int64: the dtype says that the low bits are all of it. */
    if (n->huge && !n->negative && d == FR_U64 && fits_unsigned(x->object)) {
        n->huge = false;
        n->dtype = FR_U64;
        n->weak = 0;
        n->v.u64 = PyLong_AsUnsignedLongLong(x->object);
        return FR_VALUE_OK;
    }
    /* NumPy compares exactly, and clip and where have rules of their own. */
    if (rule == FR_RULE_TRUTH || (fr_op_info[op].flags & FR_OPF_PLAIN))
        return FR_VALUE_FALLBACK;
    if (n->huge && !(d == FR_U32 && !n->negative && fits_unsigned(x->object)))
        PyErr_SetString(PyExc_OverflowError, "Python int too large to convert to C long");
    else
        PyErr_Format(PyExc_OverflowError, "Python integer %R out of bounds for %S", x->object,
                     fr_numpy_dtype(d));
    return FR_VALUE_ERROR;
}

int
fr_value_fit(fr_op op, struct fr_value *x, int n)
{
    fr_dtype d = FR_N_DTYPES;
    bool     ints = false;

    for (int i = fr_op_info[op].rule == FR_RULE_SELECT; i < n; i++) {
        fr_dtype mine = x[i].arg.t ? x[i].arg.t->dtype : x[i].arg.n.dtype;
        if (!x[i].arg.t && x[i].arg.n.weak) {
            ints |= x[i].arg.n.weak == 'i';
            /* int8 * 2.5 computes in float64: its other weak numbers are floats then. */
            if (x[i].arg.n.weak != 'i' && x[i].arg.n.weak != 'b' && d < FR_F16)
                d = mine;
            continue;
        }
        d = d == FR_N_DTYPES ? mine : fr_dtype_promote(d, mine);
    }
    if (!ints)
        return FR_VALUE_OK;
    if (fr_op_info[op].rule == FR_RULE_LDEXP)
        d = FR_I64; /* an exponent has nothing to do with the number's dtype */
    for (int i = fr_op_info[op].rule == FR_RULE_SELECT; i < n; i++)
        if (!x[i].arg.t && x[i].arg.n.weak == 'i') {
            int st = fit_int(op, &x[i], d);
            if (st != FR_VALUE_OK)
                return st;
        }
    return FR_VALUE_OK;
}

/* Whether a ufunc leaves the answer to the object, as to a Series of pandas'. */
static bool
answers_ufuncs(PyObject *o)
{
    return !fr_is_tensor(o) && !fr_numpy_is_array(o) && !fr_numpy_is_scalar(o) && !PyFloat_Check(o) && !PyLong_Check(o) &&
           !PyComplex_Check(o) && !PyList_Check(o) && !PyTuple_Check(o) && has_attr((PyObject *)Py_TYPE(o), "__array_ufunc__");
}

int
fr_value_all(fr_op op, fr_args objects, int n, bool binary, struct fr_value *x,
               struct fr_arg *args)
{
    int st = FR_VALUE_OK, worst = FR_VALUE_OK, i;

    for (i = 0; i < n && st != FR_VALUE_ERROR; i++) {
        x[i].own.storage = NULL;
        st = !binary && op != FR_OP_where && answers_ufuncs(objects[i]) ? FR_VALUE_FALLBACK
                                                                        : fr_value_get(objects[i], binary, &x[i]);
        if (st > worst)
            worst = st;
    }
    if (st == FR_VALUE_ERROR)
        worst = st;
    else if (worst == FR_VALUE_OK)
        worst = fr_value_fit(op, x, n);
    if (worst != FR_VALUE_OK) {
        while (i-- > 0)
            fr_value_clear(&x[i]);
        return worst;
    }
    for (i = 0; i < n; i++)
        args[i] = x[i].arg;
    return FR_VALUE_OK;
}

int
fr_value_store(PyObject *value, fr_dtype d, struct fr_number *n)
{
    char bytes[16] __attribute__((aligned(16)));
    int  st;

    if (PyFloat_CheckExact(value) && (d == FR_F64 || d == FR_F32)) {
        n->dtype = FR_F64;
        n->weak = 'f';
        n->huge = n->negative = false;
        n->v.f64 = PyFloat_AS_DOUBLE(value);
        return FR_VALUE_OK;
    }
    if (PyLong_CheckExact(value) && fr_value_small_int(value, &n->v.i64) &&
        (uint64_t)n->v.i64 <= 127) {
        n->dtype = FR_I64;
        n->weak = 'i';
        n->huge = n->negative = false;
        return FR_VALUE_OK;
    }
    st = fr_numpy_pack(d, bytes, value);
    if (st == FR_VALUE_OK)
        fr_element_number(d, bytes, n);
    return st;
}

int
fr_value_element(PyObject *value, fr_dtype d, struct fr_number *n)
{
    if (fr_is_tensor(value) || fr_numpy_is_array(value) || PyList_Check(value) ||
        PyTuple_Check(value))
        return FR_VALUE_FALLBACK;
    if (PyFloat_Check(value) || PyLong_Check(value) || PyComplex_Check(value) ||
        fr_numpy_is_scalar(value))
        return fr_value_store(value, d, n);
    return FR_VALUE_FALLBACK;
}
