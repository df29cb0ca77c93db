/* bind/tensor/power.c -- powers: the operator and the function, and which of them are other operations. Called by the
 * slots of number.c and by functions.c. */
#include "bind/tensor/pair.h"
#include "bind/tensor/tensor.h"
#include "ir/node.h"
#include "runtime/storage.h"

/* What NumPy's operator makes of an array's power of Python's 2, -1 or 0.5. */
static fr_op
plain_power(fr_dtype d, const struct fr_number *n)
{
    if (n->huge || (n->weak == 'i' && n->v.i64 != 2 && n->v.i64 != -1) || (n->weak == 'f' && n->v.f64 != 0.5))
        return FR_OP_power;
    if (n->weak == 'f')
        return fr_dtype_is_float(d) || fr_dtype_is_complex(d) ? FR_OP_sqrt : FR_OP_power;
    if (n->weak == 'i')
        return n->v.i64 == 2 ? FR_OP_square : fr_dtype_is_int(d) || d == FR_BOOL ? FR_OP_power : FR_OP_reciprocal;
    return FR_OP_power;
}

/* What has the bits of NumPy's loop for powers, which has short cuts of its own for single and double precision. */
static fr_op
same_as_power(fr_dtype d, const struct fr_number *n)
{
    bool   whole = fr_dtype_kind(n->dtype) == 'i' || fr_dtype_kind(n->dtype) == 'u';
    double e;

    if (n->huge || (!whole && fr_dtype_kind(n->dtype) != 'f'))
        return FR_OP_power;
    e = whole ? (double)n->v.i64 : n->v.f64;
    if (fr_dtype_is_int(d))
        return e == 2 ? FR_OP_square : e == 1 ? FR_OP_positive : FR_OP_power;
    if (fr_dtype_is_complex(d)) /* 2.0 goes through the complex power, whose bits differ */
        return whole && e == 2 ? FR_OP_square : e == 3 ? FR_OP_cube : e == 4 ? FR_OP_fourth : FR_OP_power;
    return e == 2                     ? FR_OP_square
           : e == 1                   ? FR_OP_positive
           : e == 0.5 && d != FR_F16  ? FR_OP_sqrt /* of half precision it is C's, of which that of -inf is inf */
           : e == -1                  ? FR_OP_reciprocal
           : e == 3                   ? FR_OP_cube
           : e == 4                   ? FR_OP_fourth
                                      : FR_OP_power;
}

fr_op
fr_power_op(const struct fr_arg *base, const struct fr_arg *exponent, bool plain, uint32_t *how)
{
    const struct fr_number *n = &exponent->n;
    fr_dtype                d;
    fr_op                   op;

    if (!base->t || exponent->t)
        return FR_OP_power;
    d = base->t->dtype;
    if (n->weak ? fr_dtype_promote_weak(d, n->weak) != d : fr_dtype_promote(d, n->dtype) != d)
        return FR_OP_power;
    if (plain && (op = plain_power(d, n)) != FR_OP_power)
        return op;
    op = same_as_power(d, n);
    *how |= op == FR_OP_square || op == FR_OP_sqrt || op == FR_OP_reciprocal ? FR_SITE_INSTEAD : 0;
    return op;
}

/* Integers have no negative powers. Array exponents have to be looked at: that is NumPy's turn. */
int
fr_power_check(const struct fr_arg *base, const struct fr_arg *exponent)
{
    fr_dtype b = base->t ? base->t->dtype : base->n.dtype;
    fr_dtype e = exponent->t ? exponent->t->dtype : exponent->n.dtype;

    if (b >= FR_F16 || e >= FR_F16 || fr_dtype_kind(e) != 'i')
        return FR_VALUE_OK;
    if (exponent->t)
        return fr_dtype_promote(b, e) >= FR_F16 ? FR_VALUE_OK : FR_VALUE_FALLBACK;
    if (exponent->n.v.i64 >= 0 || exponent->n.huge)
        return FR_VALUE_OK;
    if (base->t && base->t->layout->n_elems == 0)
        return FR_VALUE_FALLBACK; /* no power is taken, so none is refused */
    /* uint64 with a typed negative int64 promotes to float64, which is fine. */
    if (!exponent->n.weak && fr_dtype_promote(b, e) >= FR_F16)
        return FR_VALUE_OK;
    PyErr_SetString(PyExc_ValueError,
                    "Integers to negative integer powers are not allowed.");
    return FR_VALUE_ERROR;
}

/* Where the base becomes a wider float for the exponent and NumPy takes a short cut after that: the wider base in *wide and
 * args[0], and the operation. */
static fr_op
widened(struct fr_arg *args, struct fr_tensor *wide, bool plain, uint32_t *how, fr_op op)
{
    const struct fr_number *n = &args[1].n;
    struct fr_tensor        as = {.storage = NULL};
    uint32_t                as_how = *how;
    struct fr_err           err;
    fr_dtype                d;

    if (op != FR_OP_power || !args[0].t || args[1].t || args[0].t->layout->n_elems == 0)
        return op;
    d = n->weak ? fr_dtype_promote_weak(args[0].t->dtype, n->weak) : fr_dtype_promote(args[0].t->dtype, n->dtype);
    if (!fr_dtype_is_float(d) || d == args[0].t->dtype)
        return op;
    as.dtype = d;
    op = fr_power_op(&(struct fr_arg){.t = &as}, &args[1], plain, &as_how);
    if (op != FR_OP_square && op != FR_OP_sqrt && op != FR_OP_reciprocal)
        return FR_OP_power;
    FR_TRACE_HERE();
    if (fr_trace_cast(args[0].t, d, 'I', wide, &err) != FR_OK)
        return FR_OP_power; /* which says it again */
    args[0].t = wide;
    *how = as_how | FR_SITE_INSTEAD; /* NumPy takes no short cut there: its warnings name the power */
    return op;
}

/* A power of what stands for a NumPy number, which is C's, and not as of arrays a square or a square root where it could
 * be; where the exponent is one of those, for other powers of ours are not C's either. NULL without an exception: it is no
 * such power. */
static PyObject *
power_of_number(PyObject *base, const struct fr_number *n)
{
    const struct fr_tensor *t = fr_of(base);
    bool                    whole = fr_dtype_kind(n->dtype) == 'i' || fr_dtype_kind(n->dtype) == 'u';
    fr_dtype                d = n->weak ? fr_dtype_promote_weak(t->dtype, n->weak) : fr_dtype_promote(t->dtype, n->dtype);
    double                  e;
    struct fr_tensor        out;
    struct fr_err           err;
    fr_status               st;

    if ((d != FR_F32 && d != FR_F64) || n->huge || !(whole || fr_dtype_is_float(n->dtype)))
        return NULL;
    e = whole ? (double)n->v.i64 : n->v.f64;
    if (e != 2 && e != 0.5 && e != -1 && e != 3 && e != 4)
        return NULL;
    FR_TRACE_HERE();
    st = fr_trace_number_power(t, d, (float)e, &out, &err);
    return fr_type_result_scalar(st, &out, &err);
}

/* Whether what is stored is refused for its dtype, which NumPy says first. */
static bool
does_not_fit(const struct fr_arg *args, PyObject *into)
{
    struct fr_err ignored; /* what tracing it will say again */
    fr_dtype      compute;

    return fr_trace_resolve(FR_OP_power, args, 2, &compute, &ignored) == FR_OK && !fr_dtype_same_kind(compute, fr_of(into)->dtype);
}

PyObject *
fr_power(PyObject *a, PyObject *b, PyObject *into, bool binary)
{
    struct fr_value  x[2] = {{.own.storage = NULL}, {.own.storage = NULL}};
    struct fr_arg    args[2];
    PyObject        *objects[2] = {a, b}, *result = NULL;
    struct fr_tensor wide = {.storage = NULL};
    bool             number = fr_is_tensor(a) && fr_object(a)->scalar, plain, fits;
    uint32_t         how;
    int              st = FR_VALUE_OK;
    fr_op            op;

    if (!(fr_is_tensor(a) || fr_is_tensor(b)) || !fast_pair(a, b, args)) {
        st = fr_value_all(FR_OP_power, objects, 2, binary, x, args);
        if (st == FR_VALUE_DEFER)
            Py_RETURN_NOTIMPLEMENTED;
    }
    fits = st != FR_VALUE_OK || !into || !does_not_fit(args, into);
    if (st == FR_VALUE_OK && fits)
        st = fr_power_check(&args[0], &args[1]);
    if (st == FR_VALUE_FALLBACK) {
        PyObject *all[3] = {a, b, into};
        PyObject *kwnames = into ? PyTuple_Pack(1, fr_str_out) : NULL;
        if (!into || kwnames)
            result = fr_fallback_name("power", all, 2, kwnames);
        Py_XDECREF(kwnames);
        if (result && into)
            Py_SETREF(result, Py_NewRef(into));
    } else if (st == FR_VALUE_OK) {
        plain = binary && !number;
        how = binary ? fr_number_how(a, b) : FR_SITE_UFUNC;
        op = fr_power_op(&args[0], &args[1], plain, &how);
        /* An array's x ** 2 of bool is int8, whereas power(), other exponents and numbers give int64. */
        if (plain && args[0].t && args[0].t->dtype == FR_BOOL && !args[1].t && args[1].n.weak == 'i' && args[1].n.v.i64 == 2)
            op = FR_OP_square;
        if (number && op == FR_OP_square && fr_dtype_is_complex(args[0].t->dtype)) {
            op = FR_OP_multiply_apart;
            args[1] = args[0];
        }
        if (binary && !into && !args[1].t && number)
            result = power_of_number(a, &args[1].n);
        if (!result && !PyErr_Occurred()) {
            op = fits ? widened(args, &wide, plain, &how, op) : op;
            result = into ? fr_number_into(op, args, fr_op_info[op].arity, into, how)
                          : fr_number_trace(op, args, fr_op_info[op].arity, how);
        }
    }
    if (wide.storage)
        fr_tensor_clear(&wide);
    fr_value_clear(&x[0]);
    fr_value_clear(&x[1]);
    return result;
}

static PyObject *
power_operator(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return fr_power(a, b, NULL, true);
}

static PyObject *
power_in_place(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return fr_power(a, b, fr_object(a)->scalar ? NULL : a, true);
}

PyType_Slot fr_power_slots[] = {
    {Py_nb_power, power_operator},
    {Py_nb_inplace_power, power_in_place},
    {0, NULL},
};
