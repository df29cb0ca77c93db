/* bind/tensor/product.c -- matrix products: matmul, dot, inner, vdot and the operator @.
 *
 * A product is one lazy node; NumPy's own routine for it computes it when the plan runs. What these
 * functions may be told beyond their operands and out= is NumPy's, on evaluated data.
 *
 * The routine is the inner loop of the ufunc numpy.matmul, one for each dtype, found at import and handed to
 * backends/ as a function pointer. It touches no Python object, so a product runs without the GIL. dot and inner are the
 * same node, over the copies that they hand BLAS (is_copied). What dot does by axpy, which rounds products to zero with a
 * sign or without, as processors have it, and vdot of complex numbers are NumPy's. */
#include <string.h>

#include "backends/cpu/call.h"
#include "bind/numpy/npy.h"
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

/* `how`: FR_SITE_INSTEAD where it is dot's. */
static PyObject *
product(const struct fr_tensor *a, const struct fr_tensor *b, uint32_t how)
{
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        st;

    FR_TRACE_HERE();
    fr_trace_site |= how;
    st = fr_trace_product(a, b, NULL, FR_PRODUCT_NUMPYS, &t, &err);
    return fr_type_result_scalar(st, &t, &err);
}

/* The result stored into `out`, which has its shape. A new reference to out. */
static PyObject *
product_into(const struct fr_tensor *a, const struct fr_tensor *b, PyObject *out, uint32_t how)
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
    return FR_VALUE_FALLBACK;
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
    int             st = FR_VALUE_FALLBACK;

    (void)module;
    if (only_out(args, nargs, kw, &out))
        st = operands(args, false, x);
    if (st == FR_VALUE_OK) {
        if (!out)
            result = product(x[0].arg.t, x[1].arg.t, 0);
        else if (fits(x[0].arg.t, x[1].arg.t, out, false))
            result = product_into(x[0].arg.t, x[1].arg.t, out, 0);
        else
            st = FR_VALUE_FALLBACK;
        fr_value_clear(&x[0]);
        fr_value_clear(&x[1]);
    }
    return st == FR_VALUE_FALLBACK ? fr_fallback_name("matmul", args, nargs, kw) : result;
}

/* ---- dot
 *
 * Integers and halves are added up one by one, as matmul does it. Floats and complex numbers are BLAS's, by routines
 * that depend on the operands' forms, and dot copies an operand that BLAS cannot read where it lies: matmul of the
 * copies goes the same way. */

enum form { ONE, COLUMN, ROW, MATRIX };

static enum form
form_of(const struct fr_layout *l)
{
    const int64_t *dims = fr_layout_dims(l);

    if (l->ndim == 1)
        return dims[0] > 1 ? COLUMN : ONE;
    if (dims[0] > 1)
        return dims[1] == 1 ? COLUMN : MATRIX;
    return dims[1] == 1 ? ONE : ROW;
}

static bool
is_blas(fr_dtype d)
{
    return d == FR_F32 || d == FR_F64 || fr_dtype_is_complex(d);
}

/* Whether dot of these is matmul of what `as_read` makes of them. Multiples of arrays add to zeros unless the factor is
 * 0, and complex numbers that are not added up go a third way. */
static bool
dot_is_matmul(const struct fr_tensor *a, const struct fr_tensor *b)
{
    const struct fr_layout *la = a->layout, *lb = b->layout;
    fr_dtype                d = fr_dtype_promote(a->dtype, b->dtype);
    enum form               fa, fb;

    if (la->ndim < 1 || la->ndim > 2 || lb->ndim < 1 || lb->ndim > 2)
        return false;
    if (!is_blas(d) || la->n_elems == 0 || lb->n_elems == 0)
        return true;
    fa = form_of(la);
    fb = form_of(lb);
    return fa != ONE && fb != ONE && !(fa == COLUMN && fb == ROW && fr_dtype_is_complex(d));
}

/* dot of two arrays of one float each multiplies them: a zero keeps its sign. Complex products are rounded in a way of
 * dot's own. */
static bool
dot_is_multiply(const struct fr_tensor *a, const struct fr_tensor *b)
{
    const struct fr_layout *la = a->layout, *lb = b->layout;
    fr_dtype                d = fr_dtype_promote(a->dtype, b->dtype);

    return la->ndim >= 1 && la->ndim <= 2 && lb->ndim >= 1 && lb->ndim <= 2 && la->n_elems == 1 &&
           lb->n_elems == 1 && (d == FR_F32 || d == FR_F64);
}

/* True if dot copies an operand of BLAS's: vectors that run backwards or stand still, matrices with gaps. */
static bool
is_copied(const struct fr_layout *l)
{
    if (form_of(l) == MATRIX)
        return !l->c_contig && !l->f_contig;
    for (int k = 0; k < l->ndim; k++)
        if (fr_layout_strides(l)[k] < 0 || (fr_layout_strides(l)[k] == 0 && fr_layout_dims(l)[k] > 1))
            return true;
    return false;
}

/* Dimensions as NumPy's dot writes them: without spaces. */
static const char *
print_tight(const struct fr_layout *l, char *buf, int cap)
{
    char *to = buf;

    fr_dims_print(l->ndim, fr_layout_dims(l), buf, cap);
    for (const char *s = buf; *s; s++)
        if (*s != ' ')
            *to++ = *s;
    *to = '\0';
    return buf;
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
                 print_tight(a, sa, sizeof sa), print_tight(b, sb, sizeof sb), (long long)n, i, (long long)m, j);
    return false;
}

/* An operand as BLAS reads it: t, or a copy of it. Unlike matmul, dot converts an operand as it lies. */
static fr_status
as_read(const struct fr_tensor **t, fr_dtype d, struct fr_tensor *copy, struct fr_err *err)
{
    bool      same = (*t)->dtype == d;
    fr_status st = FR_OK;

    if ((!same || (is_blas(d) && is_copied((*t)->layout))) &&
        (st = fr_trace_cast(*t, d, same ? 'C' : 'K', copy, err)) == FR_OK)
        *t = copy;
    return st;
}

static PyObject *
dot_of(const struct fr_tensor *a, const struct fr_tensor *b, PyObject *out)
{
    fr_dtype         d = fr_dtype_promote(a->dtype, b->dtype);
    struct fr_tensor copy_a = {.storage = NULL}, copy_b = {.storage = NULL};
    struct fr_err    err;
    PyObject        *result = NULL;
    fr_status        st;

    FR_TRACE_HERE();
    if ((st = as_read(&a, d, &copy_a, &err)) == FR_OK && (st = as_read(&b, d, &copy_b, &err)) == FR_OK)
        result = out ? product_into(a, b, out, FR_SITE_INSTEAD) : product(a, b, FR_SITE_INSTEAD);
    else
        fr_errors_raise(st, &err);
    fr_tensor_clear(&copy_a);
    fr_tensor_clear(&copy_b);
    return result;
}

/* b with its last two axes exchanged; 0, or -1 with an exception. */
static int
turn(const struct fr_tensor *b, struct fr_tensor *out)
{
    const struct fr_layout *l = b->layout;
    int64_t                 dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    struct fr_err           err;

    for (int k = 0; k < l->ndim; k++) {
        int from = l->ndim < 2 || k < l->ndim - 2 ? k : 2 * l->ndim - 3 - k;

        dims[k] = fr_layout_dims(l)[from];
        strides[k] = fr_layout_strides(l)[from];
    }
    return fr_errors_check(fr_tensor_window(b, l->ndim, dims, strides, 0, out, &err), &err);
}

/* ---- dot of stacks
 *
 * NumPy goes over all vectors of a, and for each over all of b, by the routine that matmul has for a row and a column of
 * its own. What is added up in any order, and halves, are matmul's where b is no stack. */

/* True if dot of these is that. */
static bool
dot_is_of_stacks(const struct fr_tensor *a, const struct fr_tensor *b)
{
    const struct fr_layout *la = a->layout, *lb = b->layout;

    return la->ndim >= 1 && lb->ndim >= 1 && (la->ndim > 2 || lb->ndim > 2) && la->ndim + lb->ndim <= FR_MAX_DIMS &&
           la->n_elems > 0 && lb->n_elems > 0;
}

/* The vectors of an operand as rows (or columns) of a stack, which has `behind` more axes behind its own. */
static fr_status
as_stack(const struct fr_tensor *t, int inner, int behind, bool column, struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_layout *l = t->layout;
    int64_t                 dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    int                     n = 0;

    for (int k = 0; k < l->ndim; k++)
        if (k != inner) {
            dims[n] = fr_layout_dims(l)[k];
            strides[n++] = fr_layout_strides(l)[k];
        }
    for (int k = 0; k < behind + 2; k++) {
        bool here = k == behind + !column;

        dims[n] = here ? fr_layout_dims(l)[inner] : 1;
        strides[n++] = here ? fr_layout_strides(l)[inner] : 0;
    }
    return fr_tensor_window(t, n, dims, strides, 0, out, err);
}

/* Unlike matmul's, dot's results lie in C order. */
static fr_status
product_in_c_order(const struct fr_tensor *a, const struct fr_tensor *b, struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_layout *la = a->layout, *lb = b->layout;
    struct fr_layout       *l = NULL;
    int64_t                 dims[FR_MAX_DIMS];
    int                     n;
    fr_status               st;

    TRY(fr_dims_product(la->ndim, fr_layout_dims(la), lb->ndim, fr_layout_dims(lb), &n, dims, err));
    if (!(l = fr_layout_get(n, dims, NULL)))
        TRY(fr_fail(err, FR_ENOMEM, "out of memory: a layout"));
    TRY(fr_trace_product(a, b, l, FR_PRODUCT_NUMPYS, out, err));
out:
    fr_layout_unref(l);
    return st;
}

static PyObject *
dot_of_stacks(const struct fr_tensor *a, const struct fr_tensor *b)
{
    fr_dtype         d = fr_dtype_promote(a->dtype, b->dtype);
    int              inner_b = b->layout->ndim > 1 ? b->layout->ndim - 2 : 0, n = a->layout->ndim + b->layout->ndim - 2;
    struct fr_tensor cast[2] = {{.storage = NULL}}, stack[2] = {{.storage = NULL}}, product = {.storage = NULL}, t;
    struct fr_err    err;
    fr_status        st;

    FR_TRACE_HERE();
    fr_trace_site |= FR_SITE_INSTEAD;
    if (a->dtype != d) {
        TRY(fr_trace_cast(a, d, 'K', &cast[0], &err));
        a = &cast[0];
    }
    if (b->dtype != d) {
        TRY(fr_trace_cast(b, d, 'K', &cast[1], &err));
        b = &cast[1];
    }
    if (!is_blas(d) && b->layout->ndim <= 2) {
        TRY(product_in_c_order(a, b, &t, &err));
        goto out;
    }
    TRY(as_stack(a, a->layout->ndim - 1, b->layout->ndim - 1, false, &stack[0], &err));
    TRY(as_stack(b, inner_b, 0, true, &stack[1], &err));
    TRY(product_in_c_order(&stack[0], &stack[1], &product, &err));
    TRY(fr_tensor_window(&product, n, fr_layout_dims(product.layout), fr_layout_strides(product.layout), 0, &t, &err));
out:
    for (int k = 0; k < 2; k++) {
        fr_tensor_clear(&cast[k]);
        fr_tensor_clear(&stack[k]);
    }
    fr_tensor_clear(&product);
    return fr_type_result_scalar(st, &t, &err);
}

static PyObject *
multiply_ones(const struct fr_tensor *a, const struct fr_tensor *b)
{
    static const int64_t ones[2] = {1, 1};
    struct fr_tensor     x[2] = {{.storage = NULL}, {.storage = NULL}}, number = {.storage = NULL}, t;
    struct fr_arg        args[2] = {{.t = &x[0]}, {.t = &x[1]}};
    struct fr_err        err;
    fr_status            st;

    FR_TRACE_HERE();
    TRY(fr_tensor_reshape(a, 0, NULL, &x[0], &err));
    TRY(fr_tensor_reshape(b, 0, NULL, &x[1], &err));
    TRY(fr_trace_map(FR_OP_multiply, args, 2, &number, &err));
    TRY(fr_tensor_reshape(&number, a->layout->ndim + b->layout->ndim - 2, ones, &t, &err));
out:
    fr_tensor_clear(&x[0]);
    fr_tensor_clear(&x[1]);
    fr_tensor_clear(&number);
    return fr_type_result_scalar(st, &t, &err);
}

static PyObject *
dot(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    struct fr_value x[2];
    PyObject       *out, *result = NULL;
    int             st = FR_VALUE_FALLBACK;

    (void)module;
    if (only_out(args, nargs, kw, &out))
        st = operands(args, false, x);
    if (st == FR_VALUE_OK) {
        const struct fr_tensor *a = x[0].arg.t, *b = x[1].arg.t;

        if (!out && dot_is_multiply(a, b))
            result = multiply_ones(a, b);
        else if (!out && dot_is_of_stacks(a, b))
            result = aligned(a->layout, b->layout) ? dot_of_stacks(a, b) : NULL;
        else if (!dot_is_matmul(a, b) || (out && !fits(a, b, out, true)))
            st = FR_VALUE_FALLBACK;
        else if (aligned(a->layout, b->layout))
            result = dot_of(a, b, out);
        fr_value_clear(&x[0]);
        fr_value_clear(&x[1]);
    }
    return st == FR_VALUE_FALLBACK ? fr_fallback_name("dot", args, nargs, kw) : result;
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

/* inner(a, b) is dot(a, b.T). What does not fit, NumPy has words for. */
static PyObject *
inner(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    struct fr_value  x[2];
    struct fr_tensor turned = {.storage = NULL};
    PyObject        *result = NULL;
    int              st = FR_VALUE_FALLBACK;

    (void)module;
    if (nargs == 2 && !kw)
        st = operands(args, false, x);
    if (st == FR_VALUE_OK) {
        const struct fr_tensor *a = x[0].arg.t, *b = x[1].arg.t;
        const struct fr_layout *la = a->layout, *lb = b->layout;

        if (la->ndim < 1 || lb->ndim < 1 ||
            fr_layout_dims(la)[la->ndim - 1] != fr_layout_dims(lb)[lb->ndim - 1]) {
            st = FR_VALUE_FALLBACK;
        } else if (turn(b, &turned) == 0) {
            if (dot_is_multiply(a, &turned))
                result = multiply_ones(a, &turned);
            else if (dot_is_of_stacks(a, &turned))
                result = dot_of_stacks(a, &turned);
            else if (dot_is_matmul(a, &turned))
                result = dot_of(a, &turned, NULL);
            else
                st = FR_VALUE_FALLBACK;
            fr_tensor_clear(&turned);
        }
        fr_value_clear(&x[0]);
        fr_value_clear(&x[1]);
    }
    return st == FR_VALUE_FALLBACK ? fr_fallback_name("inner", args, nargs, kw) : result;
}

/* The product of all elements of both as vectors, of which NumPy says nothing. */
static PyObject *
vdot_of(const struct fr_tensor *a, const struct fr_tensor *b)
{
    struct fr_tensor flat[2] = {{.storage = NULL}}, t;
    struct fr_err    err;
    fr_status        st;

    FR_TRACE_HERE();
    fr_trace_site &= ~FR_SITE_WARNINGS;
    TRY(fr_tensor_reshape(a, 1, &a->layout->n_elems, &flat[0], &err));
    TRY(fr_tensor_reshape(b, 1, &b->layout->n_elems, &flat[1], &err));
    TRY(fr_trace_product(&flat[0], &flat[1], NULL, FR_PRODUCT_NUMPYS, &t, &err));
out:
    fr_tensor_clear(&flat[0]);
    fr_tensor_clear(&flat[1]);
    return fr_type_result_scalar(st, &t, &err);
}

/* Of real numbers vdot is matmul of all elements: unlike dot it copies no vectors. Complex numbers it conjugates on the
 * way. */
static PyObject *
vdot(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    struct fr_value x[2];
    PyObject       *result = NULL;
    int             st = FR_VALUE_FALLBACK;

    (void)module;
    if (nargs == 2 && !kw)
        st = operands(args, false, x);
    if (st == FR_VALUE_OK) {
        const struct fr_tensor *a = x[0].arg.t, *b = x[1].arg.t;
        const struct fr_layout *la = a->layout, *lb = b->layout;

        if (la->n_elems == 0 || la->n_elems != lb->n_elems || fr_dtype_is_complex(fr_dtype_promote(a->dtype, b->dtype)))
            st = FR_VALUE_FALLBACK;
        else
            result = vdot_of(a, b);
        fr_value_clear(&x[0]);
        fr_value_clear(&x[1]);
    }
    return st == FR_VALUE_FALLBACK ? fr_fallback_name("vdot", args, nargs, kw) : result;
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
        return product(fr_of(a), fr_of(b), 0);
    if (!is_operand(a) || !is_operand(b))
        Py_RETURN_NOTIMPLEMENTED;
    switch (operands(both, true, x)) {
    case FR_VALUE_ERROR: return NULL;
    case FR_VALUE_DEFER: Py_RETURN_NOTIMPLEMENTED;
    case FR_VALUE_FALLBACK: return fr_fallback_name("matmul", both, 2, NULL);
    default: break;
    }
    result = product(x[0].arg.t, x[1].arg.t, 0);
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
        fits(fr_of(a), fr_of(b), a, false))
        return product_into(fr_of(a), fr_of(b), a, 0);
    return fr_fallback_method("__imatmul__", FR_WRITES, (PyObject *[]){a, b}, 2, NULL);
}

PyMethodDef fr_product_methods[] = {
    {"matmul", FR_FAST(matmul),
     "matmul(x1, x2, /, out=None, **kwargs)\n--\n\n"
     "The matrix product as numpy.matmul: lazy, computed by NumPy's own routine as a step of its own.\n"
     "Other keywords than out are handed to NumPy."},
    {"dot", FR_FAST(dot),
     "dot(a, b, out=None)\n--\n\n"
     "numpy.dot: the lazy matrix product, but that multiples of arrays are NumPy's."},
    {"inner", FR_FAST(inner),
     "inner(a, b, /)\n--\n\n"
     "numpy.inner: the lazy product, but that multiples of arrays are NumPy's."},
    {"vdot", FR_FAST(vdot),
     "vdot(a, b, /)\n--\n\n"
     "numpy.vdot: of real numbers the lazy product, of anything else NumPy's."},
    {NULL, NULL, 0, NULL},
};

PyMethodDef fr_product_tensor_methods[] = {
    {"dot", FR_FAST(dot_method), "dot($self, b, out=None)\n--\n\nThe function frit.dot of this tensor."},
    {NULL, NULL, 0, NULL},
};

PyType_Slot fr_product_slots[] = {
    {Py_nb_matrix_multiply, product_operator},
    {Py_nb_inplace_matrix_multiply, product_in_place},
    {0, NULL},
};
