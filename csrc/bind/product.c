/* bind/product.c -- matrix products: matmul, dot, inner, outer, vdot, tensordot and the operator @.
 *
 * A product is one lazy node; NumPy's own routine for it computes it when the plan runs. What these
 * functions may be told beyond their operands and out= is NumPy's, on evaluated data. */
#include <string.h>

#include "backends/cpu/call.h"
#include "bind/bind.h"
#include "bind/npy.h"
#define NO_IMPORT_UFUNC
#include <numpy/ufuncobject.h>

/* ---- NumPy's routine */

static struct {
    PyUFuncGenericFunction loop;      /* NULL: not found, and NumPy is called as for any other function */
    void                  *data;
} loops[FR_N_DTYPES];

_Static_assert(sizeof(npy_intp) == sizeof(int64_t), "NumPy counts as we do");

/* True unless NumPy copies the matrix before it calls BLAS: then it may run out of memory. */
static bool
lies_well(int64_t step_a, int64_t step_b, int64_t n_a, int64_t n_b, int size)
{
    return (step_b == size && step_a >= n_b * size) || (step_a == size && step_b >= n_a * size) ||
           n_a == 1 || n_b == 1;
}

static bool
run_product(fr_dtype d, char **ptr, const int64_t *dims, const int64_t *steps)
{
    int              size = fr_dtype_size(d);
    PyGILState_STATE gil;
    bool             failed;

    loops[d].loop(ptr, (const npy_intp *)dims, (const npy_intp *)steps, loops[d].data);
    if (lies_well(steps[3], steps[4], dims[1], dims[2], size) &&
        lies_well(steps[5], steps[6], dims[2], dims[3], size))
        return true;
    gil = PyGILState_Ensure();
    failed = PyErr_Occurred() != NULL;
    PyErr_Clear();
    PyGILState_Release(gil);
    return !failed;
}

int
fr_product_init(void)
{
    PyObject            *type = fr_numpy_attr("ufunc"), *object = fr_numpy_attr("matmul");
    const PyUFuncObject *u = (const PyUFuncObject *)object;

    if (!type || !object) {
        Py_XDECREF(type);
        Py_XDECREF(object);
        return -1;
    }
    if (PyObject_TypeCheck(object, (PyTypeObject *)type) && u->nin == 2 && u->nout == 1 &&
        u->core_signature && !strcmp(u->core_signature, "(n?,k),(k,m?)->(n?,m?)"))
        for (int d = 0; d < FR_N_DTYPES; d++) {
            int num = ((PyArray_Descr *)fr_numpy_dtype((fr_dtype)d))->type_num;

            for (int i = 0; i < u->ntypes && !loops[d].loop; i++)
                if (u->types[3 * i] == num && u->types[3 * i + 1] == num && u->types[3 * i + 2] == num) {
                    loops[d].loop = u->functions[i];
                    loops[d].data = u->data ? (void *)u->data[i] : NULL;
                }
        }
    Py_DECREF(type);
    Py_DECREF(object);         /* the module numpy keeps it, and its routines stay where they are */
    fr_call_product = run_product;
    return 0;
}

/* ---- one product */

/* True if the node for these two can be computed. */
static bool
can_multiply(const struct fr_tensor *a, const struct fr_tensor *b)
{
    return loops[fr_dtype_promote(a->dtype, b->dtype)].loop;
}

static PyObject *
product(const struct fr_tensor *a, const struct fr_tensor *b)
{
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        st;

    FR_TRACE_HERE();
    st = fr_trace_product(a, b, &t, &err);
    return fr_type_result_scalar(st, &t, &err);
}

/* The result stored into `out`, which has its shape. A new reference to out. */
static PyObject *
product_into(const struct fr_tensor *a, const struct fr_tensor *b, PyObject *out)
{
    struct fr_tensor t = {.storage = NULL};
    struct fr_arg    arg = {.t = &t};
    struct fr_err    err;
    fr_status        st;

    FR_TRACE_HERE();
    st = fr_trace_product(a, b, &t, &err);
    if (st == FR_OK)
        st = fr_trace_store(fr_of(out), &arg, &err);
    fr_tensor_clear(&t);
    return st == FR_OK ? Py_NewRef(out) : fr_errors_raise(st, &err);
}

/* Both operands as handles. FR_VALUE_* */
static int
operands(fr_args args, bool binary, struct fr_value *x)
{
    int st = fr_value_get(args[0], binary, &x[0]);

    if (st != FR_VALUE_OK)
        return st;
    if ((st = fr_value_get(args[1], binary, &x[1])) != FR_VALUE_OK) {
        fr_value_clear(&x[0]);
        return st;
    }
    if (x[0].arg.t && x[1].arg.t && can_multiply(x[0].arg.t, x[1].arg.t))
        return FR_VALUE_OK;
    /* NumPy has the words for what a number is not; and dot of numbers. */
    fr_value_clear(&x[0]);
    fr_value_clear(&x[1]);
    return FR_VALUE_HAND;
}

/* out= that a product of these shapes can be stored into without a word from NumPy. `exact`: dot wants the
 * very dtype, in C order. */
static bool
fits(const struct fr_tensor *a, const struct fr_tensor *b, PyObject *out, bool exact)
{
    const struct fr_layout *l = fr_of(out)->layout, *la = a->layout, *lb = b->layout;
    fr_dtype                d = fr_dtype_promote(a->dtype, b->dtype);
    int64_t                 dims[FR_MAX_DIMS];
    int                     n;

    if (fr_of(out)->readonly || fr_object(out)->scalar ||
        fr_dims_product(la->ndim, fr_layout_dims(la), lb->ndim, fr_layout_dims(lb), &n, dims, NULL) !=
            FR_OK)
        return false;
    if (exact ? fr_of(out)->dtype != d || !l->c_contig : !fr_dtype_same_kind(d, fr_of(out)->dtype))
        return false;
    return n == l->ndim && !memcmp(dims, fr_layout_dims(l), (size_t)n * sizeof *dims);
}

/* The value of out= when it is the only keyword; NULL when there is none. False: something else too. */
static bool
only_out(fr_args args, Py_ssize_t nargs, PyObject *kw, PyObject **out)
{
    Py_ssize_t n_kw = kw ? PyTuple_GET_SIZE(kw) : 0;

    *out = NULL;
    if (nargs < 2 || nargs + n_kw > 3)
        return false;
    if (n_kw && PyUnicode_Compare(PyTuple_GET_ITEM(kw, 0), fr_str_out) != 0)
        return false;
    if (nargs + n_kw == 3)
        *out = args[2];
    if (*out && PyTuple_CheckExact(*out) && PyTuple_GET_SIZE(*out) == 1)
        *out = PyTuple_GET_ITEM(*out, 0);
    if (*out == Py_None)
        *out = NULL;
    return !*out || fr_is_tensor(*out);
}

static PyObject *
matmul(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    struct fr_value x[2];
    PyObject       *out, *result = NULL;
    int             st = FR_VALUE_HAND;

    (void)module;
    if (only_out(args, nargs, kw, &out))
        st = operands(args, false, x);
    if (st == FR_VALUE_OK) {
        if (!out)
            result = product(x[0].arg.t, x[1].arg.t);
        else if (fits(x[0].arg.t, x[1].arg.t, out, false))
            result = product_into(x[0].arg.t, x[1].arg.t, out);
        else
            st = FR_VALUE_HAND;
        fr_value_clear(&x[0]);
        fr_value_clear(&x[1]);
    }
    return st == FR_VALUE_HAND ? fr_hand_name("matmul", args, nargs, kw) : result;
}

static bool
contiguous(const struct fr_layout *l)
{
    return l->c_contig || l->f_contig;
}

/* dot is matmul for matrices, and where vectors take part if nothing is strided: then dot copies the matrix
 * for BLAS, and matmul adds up without. Complex numbers that are not added up go different ways too. */
static bool
dot_is_matmul(const struct fr_tensor *a, const struct fr_tensor *b)
{
    const struct fr_layout *l[2] = {a->layout, b->layout};
    bool                    matrices = true;

    for (int i = 0; i < 2; i++) {
        if (l[i]->ndim < 1 || l[i]->ndim > 2)
            return false;
        for (int k = 0; k < 2; k++)
            matrices = matrices && l[i]->ndim == 2 && fr_layout_dims(l[i])[k] > 1;
    }
    return matrices || (contiguous(l[0]) && contiguous(l[1]) && a->dtype == b->dtype &&
                        !(fr_dtype_is_complex(a->dtype) && fr_layout_dims(l[0])[l[0]->ndim - 1] == 1));
}

/* NumPy says of dot which axes are not aligned. */
static bool
aligned(const struct fr_layout *a, const struct fr_layout *b)
{
    int     i = a->ndim - 1, j = b->ndim > 1 ? b->ndim - 2 : 0;
    int64_t n = fr_layout_dims(a)[i], m = fr_layout_dims(b)[j];
    char    sa[200], sb[200];

    if (n == m)
        return true;
    PyErr_Format(PyExc_ValueError, "shapes %s and %s not aligned: %lld (dim %d) != %lld (dim %d)",
                 fr_dims_print(a->ndim, fr_layout_dims(a), sa, sizeof sa),
                 fr_dims_print(b->ndim, fr_layout_dims(b), sb, sizeof sb), (long long)n, i,
                 (long long)m, j);
    return false;
}

/* Unlike matmul, dot converts an operand as it lies. */
static fr_status
convert(const struct fr_tensor **t, fr_dtype d, struct fr_tensor *cast, struct fr_err *err)
{
    fr_status st = FR_OK;

    if ((*t)->dtype != d && (st = fr_trace_cast(*t, d, 'K', cast, err)) == FR_OK)
        *t = cast;
    return st;
}

static PyObject *
dot_of(const struct fr_tensor *a, const struct fr_tensor *b, PyObject *out)
{
    fr_dtype         d = fr_dtype_promote(a->dtype, b->dtype);
    struct fr_tensor as_a = {.storage = NULL}, as_b = {.storage = NULL};
    struct fr_err    err;
    PyObject        *result = NULL;
    fr_status        st;

    FR_TRACE_HERE();
    if ((st = convert(&a, d, &as_a, &err)) == FR_OK && (st = convert(&b, d, &as_b, &err)) == FR_OK)
        result = out ? product_into(a, b, out) : product(a, b);
    else
        fr_errors_raise(st, &err);
    fr_tensor_clear(&as_a);
    fr_tensor_clear(&as_b);
    return result;
}

static PyObject *
dot(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    struct fr_value x[2];
    PyObject       *out, *result = NULL;
    int             st = FR_VALUE_HAND;

    (void)module;
    if (only_out(args, nargs, kw, &out))
        st = operands(args, false, x);
    if (st == FR_VALUE_OK) {
        const struct fr_tensor *a = x[0].arg.t, *b = x[1].arg.t;

        if (!dot_is_matmul(a, b) || (out && !fits(a, b, out, true)))
            st = FR_VALUE_HAND;
        else if (aligned(a->layout, b->layout))
            result = dot_of(a, b, out);
        fr_value_clear(&x[0]);
        fr_value_clear(&x[1]);
    }
    return st == FR_VALUE_HAND ? fr_hand_name("dot", args, nargs, kw) : result;
}

static PyObject *
dot_method(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject  *all[4] = {self};
    Py_ssize_t n_all = nargs + (kw ? PyTuple_GET_SIZE(kw) : 0);

    if (n_all < 1 || n_all > 2) {
        PyErr_Format(PyExc_TypeError, "dot() takes from 1 to 2 arguments (%zd given)", n_all);
        return NULL;
    }
    memcpy(all + 1, args, (size_t)n_all * sizeof *all);
    return dot(NULL, all, nargs + 1, kw);
}

/* ---- the operator */

/* Anything that NumPy would take as an array or refuse with a message of its own. */
static bool
is_operand(PyObject *o)
{
    return fr_is_tensor(o) || fr_numpy_is_array(o) || fr_numpy_is_scalar(o) || PyList_Check(o) ||
           PyTuple_Check(o) || PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o) ||
           fr_value_operand(o) != FR_VALUE_DEFER;
}

PyObject *
fr_product_operator(PyObject *a, PyObject *b)
{
    struct fr_value x[2];
    PyObject       *both[2] = {a, b}, *result;

    if (fr_is_tensor(a) && fr_is_tensor(b) && can_multiply(fr_of(a), fr_of(b)))
        return product(fr_of(a), fr_of(b));
    if (!is_operand(a) || !is_operand(b))
        Py_RETURN_NOTIMPLEMENTED;
    switch (operands(both, true, x)) {
    case FR_VALUE_ERROR: return NULL;
    case FR_VALUE_DEFER: Py_RETURN_NOTIMPLEMENTED;
    case FR_VALUE_HAND: return fr_hand_name("matmul", both, 2, NULL);
    default: break;
    }
    result = product(x[0].arg.t, x[1].arg.t);
    fr_value_clear(&x[0]);
    fr_value_clear(&x[1]);
    return result;
}

PyObject *
fr_product_in_place(PyObject *a, PyObject *b)
{
    if (!is_operand(b))
        Py_RETURN_NOTIMPLEMENTED;
    if (fr_object(a)->scalar)
        return fr_product_operator(a, b);
    /* Of two matrices with the first one's shape; NumPy has more forms, and words for the others. */
    if (fr_is_tensor(b) && fr_of(b)->layout->ndim >= 2 && can_multiply(fr_of(a), fr_of(b)) &&
        fits(fr_of(a), fr_of(b), a, false))
        return product_into(fr_of(a), fr_of(b), a);
    return fr_hand_method("__imatmul__", FR_WRITES, (PyObject *[]){a, b}, 2, NULL);
}

PyMethodDef fr_product_methods[] = {
    {"matmul", FR_FAST(matmul),
     "matmul(x1, x2, /, out=None, **kwargs)\n--\n\n"
     "The matrix product as numpy.matmul: lazy, computed by NumPy's own routine as a step of its own.\n"
     "Other keywords than out are handed to NumPy."},
    {"dot", FR_FAST(dot),
     "dot(a, b, out=None)\n--\n\n"
     "numpy.dot: of vectors and matrices the lazy matrix product, of anything else NumPy's."},
    {NULL, NULL, 0, NULL},
};

PyMethodDef fr_product_tensor_methods[] = {
    {"dot", FR_FAST(dot_method), "dot($self, b, out=None)\n--\n\nThe function frit.dot of this tensor."},
    {NULL, NULL, 0, NULL},
};
