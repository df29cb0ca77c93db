/* bind/tensor/product.c -- matrix products: matmul and the operator @.
 *
 * A product is one lazy node; NumPy's own routine for it computes it when the plan runs. What these
 * functions may be told beyond their operands and out= is NumPy's, on evaluated data.
 *
 * The routine is the inner loop of the ufunc numpy.matmul, one for each dtype, found at import and handed to
 * backends/ as a function pointer. It touches no Python object, so a product runs without the GIL. */
#include <string.h>

#include "backends/cpu/call.h"
#include "bind/numpy/npy.h"
#include "bind/tensor/product.h"
#include "bind/tensor/tensor.h"
#include "ir/node.h"
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

PyObject *
fr_product_of(const struct fr_tensor *a, const struct fr_tensor *b, uint32_t how)
{
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        st;

    FR_TRACE_HERE();
    fr_trace_site |= how;
    st = fr_trace_product(a, b, NULL, FR_PRODUCT_NUMPYS, &t, &err);
    return fr_type_result_scalar(st, &t, &err);
}

PyObject *
fr_product_into(const struct fr_tensor *a, const struct fr_tensor *b, PyObject *out, uint32_t how)
{
    struct fr_tensor t = {.storage = NULL};
    struct fr_arg    arg = {.t = &t};
    struct fr_err    err;
    fr_status        st;

    FR_TRACE_HERE();
    fr_trace_site |= how;
    st = fr_trace_product(a, b, NULL, FR_PRODUCT_NUMPYS, &t, &err);
    if (st == FR_OK)
        st = fr_trace_store(fr_of(out), &arg, &err);
    fr_tensor_clear(&t);
    return st == FR_OK ? Py_NewRef(out) : fr_errors_raise(st, &err);
}

int
fr_product_operands(fr_args args, bool binary, struct fr_value *x)
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
    return FR_VALUE_FALLBACK;
}

bool
fr_product_fits(const struct fr_tensor *a, const struct fr_tensor *b, PyObject *out, bool exact)
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

bool
fr_product_only_out(fr_args args, Py_ssize_t nargs, PyObject *kw, PyObject **out)
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
    int             st = FR_VALUE_FALLBACK;

    (void)module;
    if (fr_product_only_out(args, nargs, kw, &out))
        st = fr_product_operands(args, false, x);
    if (st == FR_VALUE_OK) {
        if (!out)
            result = fr_product_of(x[0].arg.t, x[1].arg.t, 0);
        else if (fr_product_fits(x[0].arg.t, x[1].arg.t, out, false))
            result = fr_product_into(x[0].arg.t, x[1].arg.t, out, 0);
        else
            st = FR_VALUE_FALLBACK;
        fr_value_clear(&x[0]);
        fr_value_clear(&x[1]);
    }
    return st == FR_VALUE_FALLBACK ? fr_fallback_name("matmul", args, nargs, kw) : result;
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

static PyObject *
product_operator(PyObject *a, PyObject *b)
{
    struct fr_value x[2];
    PyObject       *both[2] = {a, b}, *result;

    if (!fr_stands_for_array(a) && !fr_stands_for_array(b)) /* numbers have no @ */
        Py_RETURN_NOTIMPLEMENTED;
    if (fr_is_tensor(a) && fr_is_tensor(b) && can_multiply(fr_of(a), fr_of(b)))
        return fr_product_of(fr_of(a), fr_of(b), 0);
    if (!is_operand(a) || !is_operand(b))
        Py_RETURN_NOTIMPLEMENTED;
    switch (fr_product_operands(both, true, x)) {
    case FR_VALUE_ERROR: return NULL;
    case FR_VALUE_DEFER: Py_RETURN_NOTIMPLEMENTED;
    case FR_VALUE_FALLBACK: return fr_fallback_name("matmul", both, 2, NULL);
    default: break;
    }
    result = fr_product_of(x[0].arg.t, x[1].arg.t, 0);
    fr_value_clear(&x[0]);
    fr_value_clear(&x[1]);
    return result;
}

static PyObject *
product_in_place(PyObject *a, PyObject *b)
{
    if (!is_operand(b))
        Py_RETURN_NOTIMPLEMENTED;
    if (fr_object(a)->scalar)
        return product_operator(a, b);
    /* Of two matrices with the first one's shape; NumPy has more forms, and words for the others. */
    if (fr_is_tensor(b) && fr_of(b)->layout->ndim >= 2 && can_multiply(fr_of(a), fr_of(b)) &&
        fr_product_fits(fr_of(a), fr_of(b), a, false))
        return fr_product_into(fr_of(a), fr_of(b), a, 0);
    return fr_fallback_method("__imatmul__", FR_WRITES, (PyObject *[]){a, b}, 2, NULL);
}

PyMethodDef fr_product_methods[] = {
    {"matmul", FR_FAST(matmul),
     "matmul(x1, x2, /, out=None, **kwargs)\n--\n\n"
     "The matrix product as numpy.matmul, (..., n, k) by (..., k, m): lazy, computed by NumPy's own routine as a step of its\n"
     "own, so that the bits of floats are BLAS's; dtypes promote. ValueError where the sizes k differ or the others do not\n"
     "broadcast, or an operand has no axes.\n"
     "Other keywords than out are handed to NumPy."},
    {NULL, NULL, 0, NULL},
};

PyType_Slot fr_product_slots[] = {
    {Py_nb_matrix_multiply, product_operator},
    {Py_nb_inplace_matrix_multiply, product_in_place},
    {0, NULL},
};
