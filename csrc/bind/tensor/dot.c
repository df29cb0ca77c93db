/* bind/tensor/dot.c -- dot, inner and vdot.
 *
 * dot and inner are the node of matmul, over the copies that they hand BLAS (is_copied). What dot does by axpy, which rounds
 * products to zero with a sign or without, as processors have it, and vdot of complex numbers are NumPy's. */
#include <string.h>

#include "bind/tensor/product.h"
#include "bind/tensor/tensor.h"
#include "ir/node.h"

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
        result = out ? fr_product_into(a, b, out, FR_SITE_INSTEAD) : fr_product_of(a, b, FR_SITE_INSTEAD);
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
    if (fr_product_only_out(args, nargs, kw, &out))
        st = fr_product_operands(args, false, x);
    if (st == FR_VALUE_OK) {
        const struct fr_tensor *a = x[0].arg.t, *b = x[1].arg.t;

        if (!out && dot_is_multiply(a, b))
            result = multiply_ones(a, b);
        else if (!out && dot_is_of_stacks(a, b))
            result = aligned(a->layout, b->layout) ? dot_of_stacks(a, b) : NULL;
        else if (!dot_is_matmul(a, b) || (out && !fr_product_fits(a, b, out, true)))
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
        st = fr_product_operands(args, false, x);
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
        st = fr_product_operands(args, false, x);
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

PyMethodDef fr_dot_methods[] = {
    {"dot", FR_FAST(dot),
     "dot(a, b, out=None)\n--\n\n"
     "numpy.dot: the lazy matrix product over the last axis of a and the last but one of b; dtypes promote, and the bits of\n"
     "floats are BLAS's. Multiples of arrays are NumPy's. ValueError where these axes have different sizes."},
    {"inner", FR_FAST(inner),
     "inner(a, b, /)\n--\n\n"
     "numpy.inner: the lazy product over the last axes; dtypes promote, and the bits of floats are BLAS's. Multiples of arrays\n"
     "are NumPy's. ValueError where these axes have different sizes."},
    {"vdot", FR_FAST(vdot),
     "vdot(a, b, /)\n--\n\n"
     "numpy.vdot: of real numbers the lazy product of all elements, of anything else NumPy's. ValueError where there are more\n"
     "of one than of the other."},
    {NULL, NULL, 0, NULL},
};

PyMethodDef fr_dot_tensor_methods[] = {
    {"dot", FR_FAST(dot_method), "dot($self, b, out=None)\n--\n\nThe function frit.dot of this tensor."},
    {NULL, NULL, 0, NULL},
};
