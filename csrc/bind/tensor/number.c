/* bind/tensor/number.c -- operators of Tensor.
 *
 * The cost of tracing is the product, so each operator first tries what needs no allocation beyond
 * the result: tensors and plain Python numbers, read directly from their objects. */
#include <string.h>

#include "base/ways.h"
#include "bind/base/errstate.h"
#include "bind/tensor/pair.h"
#include "bind/tensor/tensor.h"
#include "ir/node.h"

static bool
is_array_without_axes(PyObject *o)
{
    return fr_is_tensor(o) ? fr_of(o)->layout->ndim == 0 && !fr_object(o)->scalar : fr_numpy_is_array(o);
}

uint32_t
fr_number_how(PyObject *a, PyObject *b)
{
    return is_array_without_axes(a) || is_array_without_axes(b) ? FR_SITE_UFUNC : 0;
}

/* The operation, into memory of this layout unless that is NULL; `how` is for its site. */
static inline PyObject *
trace(fr_op op, const struct fr_arg *args, int n, struct fr_layout *layout, uint32_t how)
{
    struct fr_tensor_object *r = fr_type_new();
    struct fr_err            err;
    fr_status                st;

    if (FR_UNLIKELY(!r))
        return NULL;
    FR_TRACE_HERE();
    fr_trace_site |= how;
    st = layout ? fr_trace_map_like(op, args, n, layout, &r->t, &err)
                : fr_trace_map(op, args, n, &r->t, &err);
    if (FR_LIKELY(st == FR_OK)) {
        if (r->t.layout->ndim == 0)
            fr_type_set_scalar((PyObject *)r, true);
        return (PyObject *)r;
    }
    Py_DECREF(r);
    return fr_namesake_refuse(st, &err, op, args, n, NULL, NULL);
}

PyObject *
fr_number_trace(fr_op op, const struct fr_arg *args, int n, uint32_t how)
{
    return trace(op, args, n, NULL, how);
}

static bool
is_temporary(PyObject *o)
{
#if PY_VERSION_HEX >= 0x030e0000
    return PyUnstable_Object_IsUniqueReferencedTemporary(o);
#else
    return Py_REFCNT(o) == 1;
#endif
}

/* Whether NumPy would compute `x op other` into x; `inexact`: only if x is. */
static bool
is_reused(PyObject *x, PyObject *other, bool inexact)
{
    const struct fr_tensor *t = fr_of(x), *o = fr_of(other);

    return is_temporary(x) && !fr_object(x)->scalar && fr_tensor_is_alone(t) &&
           t->layout->n_elems * fr_dtype_size(t->dtype) >= FR_REUSED_BYTES &&
           fr_layout_same_dims(t->layout, o->layout) &&
           (!inexact || fr_dtype_is_float(t->dtype) || fr_dtype_is_complex(t->dtype)) &&
           fr_dtype_promote(t->dtype, o->dtype) == t->dtype;
}

/* An operator on tensors of different layouts. Where an operand is a large temporary, NumPy computes
 * into it (numpy/_core/src/multiarray/temp_elide.c), so the result is laid out as that is, upon which the
 * order of later sums depends. */
static PyObject *
binary_layouts(fr_op op, PyObject *a, PyObject *b, const struct fr_arg *args)
{
    struct fr_layout *layout = NULL;

    if (op == FR_OP_remainder) /* of which NumPy always makes a new array */
        return trace(op, args, 2, NULL, 0);
    if (is_reused(a, b, fr_op_info[op].rule == FR_RULE_TRUEDIV))
        layout = fr_of(a)->layout;
    else if ((fr_op_info[op].flags & FR_OPF_COMM) && is_reused(b, a, false))
        layout = fr_of(b)->layout;
    return trace(op, args, 2, layout, 0);
}

/* A new object with what `traced` is the tracing of an operator on a and b into its handle `r->t`; where that is false, on
 * we go. */
#define RETURN_IF_TRACED(r, traced)                                                                                    \
    do {                                                                                                               \
        if (FR_UNLIKELY(!((r) = fr_type_new())))                                                                       \
            return NULL;                                                                                               \
        FR_TRACE_HERE();                                                                                               \
        if (FR_LIKELY(traced)) {                                                                                       \
            if (FR_LIKELY((r)->t.layout->ndim))                                                                        \
                return (PyObject *)(r);                                                                                \
            fr_trace_add_to_site(&(r)->t, fr_number_how(a, b));                                                          \
            fr_type_set_scalar((PyObject *)(r), true);                                                                 \
            return fr_scalar_result((PyObject *)(r));                                                           \
        }                                                                                                              \
        Py_DECREF(r);                                                                                                  \
    } while (0)

/* Whether an operand is a number that a double holds, and of which kind. */
static inline bool
is_plain_number(PyObject *o, double *v, char *weak)
{
    int64_t i;

    if (FR_LIKELY(PyFloat_CheckExact(o))) {
        *v = PyFloat_AS_DOUBLE(o);
        *weak = 'f';
        return true;
    }
    if (!PyLong_CheckExact(o) || !fr_value_small_int(o, &i))
        return false;
    *v = (double)i;
    *weak = 'i';
    return true;
}

/* Of integers, n // 2^k is n >> k and n % 2^k is n & (2^k - 1), negative ones too. */
static fr_op
without_integer_division(fr_op op, fr_dtype d, struct fr_number *n)
{
    int64_t v = n->v.i64;

    if (n->huge || !fr_dtype_is_int(d) || fr_is_off(FR_OFF_divided) || (n->weak ? n->weak != 'i' : n->dtype != d))
        return op;
    if (!fr_divisors_alike((double)v) || v <= 0 || (v & (v - 1)) || v >> (8 * fr_dtype_size(d) - 2) > 0)
        return op;
    fr_count_way(FR_WAY_divided);
    n->v.i64 = op == FR_OP_remainder ? v - 1 : __builtin_ctzll((uint64_t)v);
    return op == FR_OP_remainder ? FR_OP_bitwise_and : FR_OP_right_shift;
}

/* Of a positive number. */
static bool
has_few_digits(double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    return v > 0 && bits << (FR_FEW_DIGITS + 11) == 0;   /* sign, exponent, and a first digit that is not there */
}

/* t / *v by what gives the same bits sooner. A power of two is multiplied by its inverse; but that is another kernel,
 * and one is to serve all numbers that vary, as all sizes. Whole numbers are far from the ends of a float's range, so
 * that dividing them by a number that is, too, needs the divider once for all; and if they are short, and the number is
 * and stays, two products are enough. */
static fr_op
division_by(const struct fr_tensor *t, bool may_invert, double *v)
{
    const double size = *v < 0 ? -*v : *v;
    fr_dtype     whole;

    if (fr_is_off(FR_OFF_divided))
        return FR_OP_divide;
    if (may_invert && fr_divisors_alike(*v) && fr_number_invert(t->dtype, v)) {
        fr_count_way(FR_WAY_divided);
        return FR_OP_multiply;
    }
    whole = fr_tensor_whole_numbers(t);
    if (!fr_dtype_is_int(whole) || !(size >= 0x1p-60 && size <= 0x1p60))
        return FR_OP_divide;
    fr_count_way(FR_WAY_divided);
    return fr_dtype_size(whole) <= 2 && has_few_digits(*v) && fr_divisors_alike(*v) ? FR_OP_divide_few : FR_OP_divide_whole;
}

/* A number that is divided by, if it is real and a double holds it. */
static bool
divisor(const struct fr_number *n, double *v)
{
    bool whole = n->weak == 'i' || (!n->weak && fr_dtype_kind(n->dtype) == 'i');

    *v = whole ? (double)n->v.i64 : n->v.f64;
    return !n->huge && (whole || fr_dtype_kind(n->dtype) == 'f');
}

/* What divides as `op` does, by a number, and that number in its place. */
static fr_op
without_division(fr_op op, struct fr_arg *args)
{
    struct fr_number *n = &args[1].n;
    double            v;

    if ((op != FR_OP_divide && op != FR_OP_floor_divide && op != FR_OP_remainder) || !args[0].t || args[1].t)
        return op;
    if (op != FR_OP_divide)
        return without_integer_division(op, args[0].t->dtype, n);
    if (!divisor(n, &v))
        return op;
    op = division_by(args[0].t, n->weak || (n->dtype == args[0].t->dtype && fr_dtype_is_float(n->dtype)), &v);
    if (op != FR_OP_multiply)
        return op;
    if (n->weak)
        *n = (struct fr_number){.dtype = FR_F64, .weak = 'f'};
    n->v.f64 = v;
    return op;
}

PyObject *
fr_number_map(fr_op op, fr_args objects, int n, bool binary)
{
    struct fr_value x[3];
    struct fr_arg     args[3];
    PyObject         *result;

    switch (fr_value_all(op, objects, n, binary, x, args)) {
    case FR_VALUE_ERROR: return NULL;
    case FR_VALUE_DEFER: Py_RETURN_NOTIMPLEMENTED;
    case FR_VALUE_FALLBACK: return fr_namesake_call(op, objects, n, NULL);
    default: break;
    }
    result = trace(without_division(op, args), args, n, NULL, binary ? fr_number_how(objects[0], objects[1]) : FR_SITE_UFUNC);
    for (int i = 0; i < n; i++)
        fr_value_clear(&x[i]);
    return result;
}

/* An operator on what is not two tensors of one dtype. */
static PyObject *
binary_any(fr_op op, PyObject *a, PyObject *b)
{
    struct fr_tensor_object *r;
    struct fr_arg            args[2];
    double                   v;
    char                     weak;

    if (fr_is_tensor(a) && is_plain_number(b, &v, &weak)) {
        fr_op as = op == FR_OP_divide ? division_by(fr_of(a), true, &v) : op;

        RETURN_IF_TRACED(r, fr_trace_map_number(as, fr_of(a), v, as == op ? weak : 'f', false, &r->t));
    } else if (fr_is_tensor(b) && is_plain_number(a, &v, &weak)) {
        RETURN_IF_TRACED(r, fr_trace_map_number(op, fr_of(b), v, weak, true, &r->t));
    }
    if (FR_LIKELY(fast_pair(a, b, args))) {
        if (args[0].t && args[1].t && args[0].t->layout != args[1].t->layout)
            return binary_layouts(op, a, b, args);
        return fr_type_number(trace(without_division(op, args), args, 2, NULL, fr_number_how(a, b)));
    }
    if (op == FR_OP_multiply && (fr_is_tensor(a) ? fr_scalar_repeats(a, b) : fr_scalar_repeats(b, a)))
        Py_RETURN_NOTIMPLEMENTED;
    return fr_type_number(fr_number_map(op, (PyObject *[]){a, b}, 2, true));
}

static bool
is_complex_number(PyObject *o)
{
    struct fr_number n;

    if (fr_is_tensor(o))
        return fr_object(o)->scalar && fr_dtype_is_complex(fr_of(o)->dtype);
    return PyComplex_Check(o) || (fr_numpy_is_scalar(o) && fr_numpy_scalar(o, &n) && fr_dtype_is_complex(n.dtype));
}

static inline PyObject *
binary(fr_op op, PyObject *a, PyObject *b)
{
    struct fr_tensor_object *r;

    if (op == FR_OP_multiply && FR_UNLIKELY(fr_object(fr_is_tensor(a) ? a : b)->scalar) && is_complex_number(a) &&
        is_complex_number(b))
        return fr_type_number(fr_number_map(FR_OP_multiply_apart, (PyObject *[]){a, b}, 2, true));
    if (FR_LIKELY(fr_is_tensor(a) && fr_is_tensor(b)))
        RETURN_IF_TRACED(r, fr_trace_map_same(op, fr_of(a), fr_of(b), &r->t));
    return binary_any(op, a, b);
}

static inline PyObject *
unary(fr_op op, PyObject *a)
{
    struct fr_arg arg = {.t = fr_of(a)};

    return trace(op, &arg, 1, NULL, 0);
}

/* ---- in place */

PyObject *
fr_number_into(fr_op op, const struct fr_arg *args, int n, PyObject *self, uint32_t how)
{
    struct fr_err err;
    fr_status     st;

    FR_TRACE_HERE();
    fr_trace_site |= how;
    st = fr_trace_map_into(op, args, n, fr_of(self), &err);
    return st == FR_OK ? Py_NewRef(self)
                       : fr_namesake_refuse(st, &err, op, args, n, fr_of(self), NULL);
}

static PyObject *
in_place(fr_op op, PyObject *a, PyObject *b)
{
    struct fr_value x[2];
    struct fr_arg     args[2];
    PyObject         *objects[2] = {a, b}, *result;

    if (FR_UNLIKELY(fr_object(a)->scalar)) /* x += 1 on a NumPy scalar makes a new one */
        return binary(op, a, b);
    if (fast_pair(a, b, args)) {
        if (op != FR_OP_divide || fr_dtype_is_float(fr_of(a)->dtype)) /* integers are refused */
            op = without_division(op, args);
        return fr_number_into(op, args, 2, a, FR_SITE_UFUNC);
    }
    switch (fr_value_all(op, objects, 2, true, x, args)) {
    case FR_VALUE_ERROR: return NULL;
    case FR_VALUE_DEFER: Py_RETURN_NOTIMPLEMENTED;
    case FR_VALUE_FALLBACK: {
        PyObject *kwnames = PyTuple_Pack(1, fr_str_out);
        PyObject *all[3] = {a, b, a};
        result = kwnames ? fr_fallback_name(fr_op_info[op].name, all, 2, kwnames) : NULL;
        Py_XDECREF(kwnames);
        if (!result)
            return NULL;
        Py_DECREF(result);
        return Py_NewRef(a);
    }
    default: break;
    }
    result = fr_number_into(op, args, 2, a, FR_SITE_UFUNC);
    fr_value_clear(&x[0]);
    fr_value_clear(&x[1]);
    return result;
}

#define BINARY(slot, op)                                                                           \
    static PyObject *slot(PyObject *a, PyObject *b) { return binary(FR_OP_##op, a, b); }           \
    static PyObject *slot##_in_place(PyObject *a, PyObject *b)                                     \
    {                                                                                              \
        return in_place(FR_OP_##op, a, b);                                                         \
    }
BINARY(number_add, add)
BINARY(number_subtract, subtract)
BINARY(number_multiply, multiply)
BINARY(number_divide, divide)
BINARY(number_floor_divide, floor_divide)
BINARY(number_remainder, remainder)
BINARY(number_and, bitwise_and)
BINARY(number_or, bitwise_or)
BINARY(number_xor, bitwise_xor)
BINARY(number_left_shift, left_shift)
BINARY(number_right_shift, right_shift)
#undef BINARY

#define UNARY(slot, op)                                                                            \
    static PyObject *slot(PyObject *a) { return unary(FR_OP_##op, a); }
UNARY(number_negative, negative)
UNARY(number_positive, positive)
UNARY(number_absolute, absolute)
UNARY(number_invert, invert)
#undef UNARY

static PyObject *
number_divmod(PyObject *a, PyObject *b)
{
    PyObject *q, *r = NULL;

    fr_errstate_bits |= FR_SITE_INSTEAD;
    q = binary(FR_OP_floor_divide, a, b);
    if (q && q != Py_NotImplemented)
        r = binary(FR_OP_remainder, a, b);
    fr_errstate_bits &= ~FR_SITE_INSTEAD;
    if (!q || q == Py_NotImplemented)
        return q;
    if (!r) {
        Py_DECREF(q);
        return NULL;
    }
    return Py_BuildValue("NN", q, r);
}

/* ---- comparisons */

/* Whether two numbers, of which one is complex, are to be put in order: where one is not a number, NumPy's scalars have
 * another rule for that than its arrays. */
static bool
orders_complex(PyObject *a, PyObject *b, int op)
{
    if (op == Py_EQ || op == Py_NE || fr_stands_for_array(b))
        return false;
    return is_complex_number(a) || (is_complex_number(b) && !PyComplex_CheckExact(b)); /* beside Python's it is an array */
}

PyObject *
fr_number_richcompare(PyObject *a, PyObject *b, int op)
{
    static const fr_op ops[] = {[Py_LT] = FR_OP_less,    [Py_LE] = FR_OP_less_equal,
                                [Py_EQ] = FR_OP_equal,   [Py_NE] = FR_OP_not_equal,
                                [Py_GT] = FR_OP_greater, [Py_GE] = FR_OP_greater_equal};
    static const char *const names[] = {[Py_LT] = "__lt__", [Py_LE] = "__le__",
                                        [Py_EQ] = "__eq__", [Py_NE] = "__ne__",
                                        [Py_GT] = "__gt__", [Py_GE] = "__ge__"};
    PyObject                *objects[2] = {a, b}, *result;
    struct fr_value          x[2];
    struct fr_arg            args[2];

    if (FR_UNLIKELY(fr_object(a)->scalar) && orders_complex(a, b, op))
        return fr_number_map(op == Py_LT || op == Py_GT ? FR_OP_less_apart : FR_OP_less_equal_apart,
                             op == Py_LT || op == Py_LE ? objects : (PyObject *[]){b, a}, 2, true);
    if (FR_LIKELY(fast_pair(a, b, args)))
        return trace(ops[op], args, 2, NULL, 0);
    switch (fr_value_all(ops[op], objects, 2, true, x, args)) {
    case FR_VALUE_ERROR: return NULL;
    case FR_VALUE_DEFER: Py_RETURN_NOTIMPLEMENTED;
    /* None, strings: NumPy says element by element that they differ, or that they have no order. */
    case FR_VALUE_FALLBACK: return fr_fallback_method(names[op], FR_READS, objects, 2, NULL);
    default: break;
    }
    result = trace(ops[op], args, 2, NULL, 0);
    for (int i = 0; i < 2; i++)
        fr_value_clear(&x[i]);
    return result;
}

/* ---- Python numbers */

static PyObject *
not_a_scalar(void)
{
    PyErr_SetString(PyExc_TypeError,
                    "only 0-dimensional arrays can be converted to Python scalars");
    return NULL;
}

/* Address of the only element, computed now; `room` where it was computed aside. */
static const void *
only_element(PyObject *self, enum fr_sync why, uint64_t room[2])
{
    struct fr_err err;
    void         *data;
    fr_status     st;

    fr_info_sync(why, fr_of(self));
    if (fr_tensor_peek(fr_of(self), room))
        return room;
    FR_TRACE_HERE();
    st = fr_tensor_data(fr_of(self), &data, &err);
    return st == FR_OK ? data : (void *)fr_errors_raise(st, &err);
}

static int
number_bool(PyObject *self)
{
    int64_t          n = fr_of(self)->layout->n_elems;
    uint64_t         room[2];
    struct fr_number v;
    const void      *data;

    if (n != 1) {
        PyErr_SetString(PyExc_ValueError,
                        n ? "The truth value of an array with more than one element is ambiguous. "
                            "Use a.any() or a.all()"
                          : "The truth value of an empty array is ambiguous. Use `array.size > 0` "
                            "to check that an array is not empty.");
        return -1;
    }
    data = only_element(self, FR_SYNC_bool, room);
    if (!data)
        return -1;
    fr_element_number(fr_of(self)->dtype, data, &v);
    switch (fr_dtype_kind(fr_of(self)->dtype)) {
    case 'f': return v.v.f64 != 0;
    case 'c': return v.v.c128[0] != 0 || v.v.c128[1] != 0;
    default: return v.v.i64 != 0;
    }
}

static PyObject *
only_value(PyObject *self)
{
    uint64_t    room[2];
    const void *data;

    if (fr_of(self)->layout->ndim)
        return not_a_scalar();
    data = only_element(self, FR_SYNC_number, room);
    return data ? fr_element_python(fr_of(self)->dtype, data) : NULL;
}

/* A real number to convert. NumPy's complex numbers warn that a part of them gets lost; arrays of such raise. */
static PyObject *
real_value(PyObject *self)
{
    if (!fr_object(self)->scalar || !fr_dtype_is_complex(fr_of(self)->dtype))
        return only_value(self);
    fr_info_sync(FR_SYNC_number, fr_of(self));
    return fr_numpy_scalar_of(self);
}

static PyObject *
number_float(PyObject *self)
{
    PyObject *v = real_value(self), *f = v ? PyNumber_Float(v) : NULL;

    Py_XDECREF(v);
    return f;
}

static PyObject *
number_int(PyObject *self)
{
    PyObject *v = real_value(self), *i = v ? PyNumber_Long(v) : NULL;

    Py_XDECREF(v);
    return i;
}

static PyObject *
number_index(PyObject *self)
{
    uint64_t    room[2];
    const void *data;

    if (fr_of(self)->layout->ndim || !fr_dtype_is_int(fr_of(self)->dtype)) {
        if (fr_object(self)->scalar)
            PyErr_Format(PyExc_TypeError, "'%s' object cannot be interpreted as an integer",
                         fr_numpy_scalar_type(fr_of(self)->dtype)->tp_name);
        else
            PyErr_SetString(PyExc_TypeError, "only integer scalar arrays can be converted to a scalar index");
        return NULL;
    }
    data = only_element(self, FR_SYNC_number, room);
    return data ? fr_element_python(fr_of(self)->dtype, data) : NULL;
}

PyObject *
fr_number_complex(PyObject *self, PyObject *unused)
{
    PyObject *v = only_value(self), *c = NULL;

    (void)unused;
    if (v)
        c = PyObject_CallOneArg((PyObject *)&PyComplex_Type, v);
    Py_XDECREF(v);
    return c;
}

/* NumPy's own words, of arrays and of its numbers. */
static PyObject *
number_concat(PyObject *a, PyObject *b)
{
    PyObject *number, *result;

    if (fr_object(a)->scalar) {
        number = fr_numpy_scalar_of(a);
        result = number ? PySequence_Concat(number, b) : NULL;
        Py_XDECREF(number);
        return result;
    }
    PyErr_SetString(PyExc_TypeError, "Concatenation operation is not implemented for NumPy arrays, use "
                                     "np.concatenate() instead. Please do not rely on this error; it may not be "
                                     "given on all Python implementations.");
    return NULL;
}

PyType_Slot fr_number_slots[] = {
    {Py_sq_concat, number_concat},
    {Py_nb_add, number_add},
    {Py_nb_subtract, number_subtract},
    {Py_nb_multiply, number_multiply},
    {Py_nb_true_divide, number_divide},
    {Py_nb_floor_divide, number_floor_divide},
    {Py_nb_remainder, number_remainder},
    {Py_nb_and, number_and},
    {Py_nb_or, number_or},
    {Py_nb_xor, number_xor},
    {Py_nb_lshift, number_left_shift},
    {Py_nb_rshift, number_right_shift},
    {Py_nb_divmod, number_divmod},
    {Py_nb_inplace_add, number_add_in_place},
    {Py_nb_inplace_subtract, number_subtract_in_place},
    {Py_nb_inplace_multiply, number_multiply_in_place},
    {Py_nb_inplace_true_divide, number_divide_in_place},
    {Py_nb_inplace_floor_divide, number_floor_divide_in_place},
    {Py_nb_inplace_remainder, number_remainder_in_place},
    {Py_nb_inplace_and, number_and_in_place},
    {Py_nb_inplace_or, number_or_in_place},
    {Py_nb_inplace_xor, number_xor_in_place},
    {Py_nb_inplace_lshift, number_left_shift_in_place},
    {Py_nb_inplace_rshift, number_right_shift_in_place},
    {Py_nb_negative, number_negative},
    {Py_nb_positive, number_positive},
    {Py_nb_absolute, number_absolute},
    {Py_nb_invert, number_invert},
    {Py_nb_bool, number_bool},
    {Py_nb_float, number_float},
    {Py_nb_int, number_int},
    {Py_nb_index, number_index},
    {0, NULL},
};
