/* bind/tensor/einsum.c -- einsum: windows, multiplications, sums and products, where those have NumPy's bits.
 *
 * The subscripts give each operand a window over the axes of the result and, behind them, the axes that are summed, in
 * the order of their letters. Those windows are multiplied from left to right and added to zeros, as NumPy's loops do it.
 *   - Nothing is summed: a view of the only operand, or a map.
 *   - NumPy's iterator walks an axis of the result innermost: every element is added up one by one, in the order in which a
 *     sum of the whole product goes.
 *   - Integers and bools have one sum in any order, so two of them are a matrix product.
 * Where floats are summed along the innermost axis NumPy keeps several sums in the lanes of vectors; halves are rounded at
 * each step, complex numbers are multiplied otherwise than by ufuncs: these are NumPy's, as are all keywords, lists of
 * axes in place of subscripts, and everything that is wrong. NumPy's einsum warns of nothing. */
#include <ctype.h>
#include <string.h>

#include "bind/tensor/tensor.h"
#include "ir/build.h"
#include "ir/node.h"

enum { MAX_OPERANDS = 3,        /* of one map */
       N_LETTERS = 128,
       DOTS = N_LETTERS };      /* what the first axis of an ellipsis is called, from left to right */

struct einsum {
    int                     n, n_out, n_axes, n_dots;
    const struct fr_tensor *t[MAX_OPERANDS];
    uint8_t                 label[MAX_OPERANDS][FR_MAX_DIMS];  /* of each axis of an operand */
    uint8_t                 axis[FR_MAX_DIMS];                 /* the labels of the result, then those that are summed */
    int64_t                 dims[FR_MAX_DIMS];
    uint8_t                 count[DOTS + FR_MAX_DIMS];         /* how often a label occurs in operands */
    fr_dtype                dtype;
};

/* ---- subscripts */

/* How many letters come before the next comma, arrow or end; -1: something else is there. *dots: before how many of them
 * an ellipsis stands; -1: there is none. */
static int
count_letters(const char *s, int *dots)
{
    int n = 0;

    for (*dots = -1; *s && *s != ',' && *s != '-'; s++) {
        if (isalpha((unsigned char)*s)) {
            n++;
        } else if (*s == '.' && *dots < 0 && s[1] == '.' && s[2] == '.') {
            *dots = n;
            s += 2;
        } else if (*s != ' ') {
            return -1;
        }
    }
    return n;
}

/* Labels of one list of subscripts, an ellipsis being `n_dots` axes that end with the last one of all. Returns where the
 * list ends. */
static const char *
read_labels(const struct einsum *z, const char *s, int n_dots, uint8_t *label)
{
    for (; *s && *s != ',' && *s != '-'; s++) {
        if (isalpha((unsigned char)*s))
            *label++ = (uint8_t)*s;
        if (*s == '.') {
            for (int k = z->n_dots - n_dots; k < z->n_dots; k++)
                *label++ = (uint8_t)(DOTS + k);
            s += 2;
        }
    }
    return s;
}

static bool
has(const uint8_t *label, int n, int of)
{
    return memchr(label, of, (size_t)n) != NULL;
}

/* The axes of the result, by the arrow or by what occurs once. */
static bool
read_result(struct einsum *z, const char *s)
{
    int n, dots;

    if (s[0] != '-') {
        for (int k = 0; k < z->n_dots; k++)
            z->axis[z->n_out++] = (uint8_t)(DOTS + k);
        for (int c = 0; c < N_LETTERS && z->n_out < FR_MAX_DIMS; c++)
            if (z->count[c] == 1)
                z->axis[z->n_out++] = (uint8_t)c;
        return true;
    }
    if (s[1] != '>' || (n = count_letters(s + 2, &dots)) < 0 || (z->n_dots && dots < 0) || n + z->n_dots > FR_MAX_DIMS)
        return false;
    z->n_out = n + (dots < 0 ? 0 : z->n_dots);
    if (*read_labels(z, s + 2, z->n_dots, z->axis))
        return false;
    for (int k = 0; k < z->n_out; k++)
        if (!z->count[z->axis[k]] || has(z->axis, k, z->axis[k]))
            return false;
    return true;
}

/* Reads the subscripts and the sizes that they stand for. False: something is wrong, or there is nothing to compute. */
static bool
parse(struct einsum *z, const char *s)
{
    const char *at = s;
    int         n, dots, dims[MAX_OPERANDS];

    for (int i = 0; i < z->n; i++, at++) {
        int ndim = z->t[i]->layout->ndim;

        if ((n = count_letters(at, &dots)) < 0 || (dots < 0 ? ndim != n : ndim < n) || z->t[i]->layout->n_elems == 0)
            return false;
        dims[i] = dots < 0 ? 0 : ndim - n;
        z->n_dots = dims[i] > z->n_dots ? dims[i] : z->n_dots;
        at += strcspn(at, ",-");
        if ((*at == ',') != (i < z->n - 1))
            return false;
    }
    at = s;
    for (int i = 0; i < z->n; i++) {
        at = read_labels(z, at, dims[i], z->label[i]);
        at += *at == ',';
        for (int k = 0; k < z->t[i]->layout->ndim; k++)
            z->count[z->label[i][k]]++;
    }
    if (!read_result(z, at))
        return false;
    z->n_axes = z->n_out;
    for (int c = 0; c < N_LETTERS; c++)
        if (z->count[c] && !has(z->axis, z->n_out, c)) {
            if (z->n_axes == FR_MAX_DIMS)
                return false;
            z->axis[z->n_axes++] = (uint8_t)c;
        }
    return true;
}

/* The operand over all axes: what it repeats is a diagonal, what it lacks has one element. False: sizes do not fit. */
static bool
window(struct einsum *z, int i, int64_t *dims, int64_t *strides)
{
    const struct fr_layout *l = z->t[i]->layout;

    for (int a = 0; a < z->n_axes; a++) {
        bool found = false;

        dims[a] = 1;
        strides[a] = 0;
        for (int k = 0; k < l->ndim; k++) {
            if (z->label[i][k] != z->axis[a])
                continue;
            if (found && dims[a] != fr_layout_dims(l)[k])
                return false;
            found = true;
            dims[a] = fr_layout_dims(l)[k];
            strides[a] += fr_layout_strides(l)[k];
        }
        if (dims[a] != 1 && z->dims[a] != 1 && z->dims[a] != dims[a])
            return false;
        z->dims[a] = dims[a] != 1 ? dims[a] : z->dims[a];
    }
    return true;
}

/* ---- what they say, traced */

static bool
is_float(fr_dtype d)
{
    return d == FR_F32 || d == FR_F64;
}

/* Whether what is summed in this layout is added up one by one: by integers in any case, by floats where the innermost axis
 * stays, and nothing runs backwards, which NumPy's iterator would turn round. */
static bool
adds_one_by_one(const struct einsum *z, const struct fr_layout *l)
{
    int     inner = -1;
    int64_t least = 0;

    if (!is_float(z->dtype))
        return true;
    for (int a = 0; a < z->n_axes; a++)
        if (fr_layout_dims(l)[a] > 1 && (inner < 0 || fr_layout_strides(l)[a] < least)) {
            inner = a;
            least = fr_layout_strides(l)[a];
        }
    for (int i = 0; i < z->n; i++)
        for (int k = 0; k < z->t[i]->layout->ndim; k++)
            if (fr_layout_strides(z->t[i]->layout)[k] < 0)
                return false;
    return inner < z->n_out;
}

static fr_status
multiply(const struct fr_tensor *a, const struct fr_tensor *b, struct fr_layout *like, struct fr_tensor *out, struct fr_err *err)
{
    struct fr_arg x[2] = {{.t = a}, {.t = b}};

    return like ? fr_trace_map_like(FR_OP_multiply, x, 2, like, out, err) : fr_trace_map(FR_OP_multiply, x, 2, out, err);
}

/* A sum of floats begins at +0.0. */
static fr_status
add_zero(const struct fr_tensor *t, struct fr_tensor *out, struct fr_err *err)
{
    struct fr_arg x[2] = {{.t = t}, {.n = {.dtype = FR_F64, .weak = 'f'}}};

    return fr_trace_map_like(FR_OP_add, x, 2, t->layout, out, err);
}

static fr_status
sum(const struct einsum *z, const struct fr_tensor *t, struct fr_tensor *out, struct fr_err *err)
{
    uint32_t axes = 0;

    for (int a = z->n_out; a < z->n_axes; a++)
        axes |= 1u << a;
    return z->dtype == FR_BOOL ? fr_trace_reduce(FR_OP_any, t, axes, false, FR_N_DTYPES, out, err)
                               : fr_trace_reduce(FR_OP_sum, t, axes, false, z->dtype, out, err);
}

/* The windows multiplied, and summed. */
static fr_status
trace(const struct einsum *z, const struct fr_tensor *w, struct fr_layout *like, struct fr_tensor *out, struct fr_err *err)
{
    struct fr_tensor        cast[MAX_OPERANDS] = {{.storage = NULL}}, made[2] = {{.storage = NULL}};
    const struct fr_tensor *one[MAX_OPERANDS] = {w}, *all;
    bool             sums = z->n_axes > z->n_out, zero = !sums && is_float(z->dtype);
    fr_status        st = FR_OK;

    for (int i = 0; i < z->n; i++) {
        one[i] = &w[i];
        if (w[i].dtype != z->dtype) {
            TRY(fr_trace_cast(&w[i], z->dtype, 'K', &cast[i], err));
            one[i] = &cast[i];
        }
    }
    all = one[0];
    for (int i = 1; i < z->n; i++) {
        TRY(multiply(all, one[i], i == z->n - 1 ? like : NULL, &made[i - 1], err));
        all = &made[i - 1];
    }
    if (sums)
        st = sum(z, all, out, err);
    else if (zero)
        st = add_zero(all, out, err);
    else
        fr_tensor_copy(all, out);
out:
    for (int i = 0; i < z->n; i++)
        fr_tensor_clear(&cast[i]);
    fr_tensor_clear(&made[0]);
    fr_tensor_clear(&made[1]);
    return st;
}

/* FR_VALUE_*, and the result. */
static int
einsum_of(struct einsum *z, const char *subscripts, PyObject **result)
{
    int64_t           dims[MAX_OPERANDS][FR_MAX_DIMS], strides[MAX_OPERANDS][FR_MAX_DIMS];
    struct fr_tensor  w[MAX_OPERANDS] = {{.storage = NULL}}, t = {.storage = NULL};
    struct fr_layout *layout[MAX_OPERANDS], *like = NULL;
    struct fr_err     err;
    fr_status         st = FR_OK;
    bool              ours;

    *result = NULL;
    if (!parse(z, subscripts))
        return FR_VALUE_FALLBACK;
    for (int a = 0; a < z->n_axes; a++)
        z->dims[a] = 1;
    for (int i = 0; i < z->n; i++)
        if (!window(z, i, dims[i], strides[i]))
            return FR_VALUE_FALLBACK;
    ours = is_float(z->dtype) || fr_dtype_kind(z->dtype) == 'i' || fr_dtype_kind(z->dtype) == 'u' || z->dtype == FR_BOOL;
    if (z->n == 1 && z->n_axes == z->n_out)
        ours = z->n_out > 0;
    if (!ours)
        return FR_VALUE_FALLBACK;
    FR_TRACE_HERE();
    fr_trace_site &= ~FR_SITE_WARNINGS;
    for (int i = 0; i < z->n; i++) {
        TRY(fr_tensor_window(z->t[i], z->n_axes, dims[i], strides[i], 0, &w[i], &err));
        layout[i] = w[i].layout;
    }
    if (z->n == 1 && z->n_axes == z->n_out) {
        fr_tensor_copy(&w[0], &t);
        goto out;
    }
    TRY(fr_build_map(layout, z->n, "einsum", &like, &err));
    ours = z->n_axes == z->n_out || adds_one_by_one(z, like);
    if (ours)
        st = trace(z, w, like, &t, &err);
out:
    for (int i = 0; i < z->n; i++)
        fr_tensor_clear(&w[i]);
    fr_layout_unref(like);
    if (!ours && st == FR_OK)
        return FR_VALUE_FALLBACK;
    *result = fr_type_result_scalar(st, &t, &err);
    return FR_VALUE_OK;
}

/* True unless NumPy's loops are known to round products and sums in another way than ufuncs do. */
static int
rounds_apart(void)
{
    static int known = -1;

    if (known < 0) {
        PyObject *module = PyImport_ImportModule("frit._composed");
        PyObject *f = module ? PyObject_CallMethod(module, "einsum_rounds_apart", NULL) : NULL;

        known = f ? PyObject_IsTrue(f) : -1;
        Py_XDECREF(f);
        Py_XDECREF(module);
    }
    return known;
}

static PyObject *
einsum(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    struct fr_value x[MAX_OPERANDS];
    struct einsum   z = {.dtype = FR_BOOL};
    const char     *subscripts = NULL;
    PyObject       *result = NULL;
    int             st = FR_VALUE_FALLBACK, apart;

    (void)module;
    if (nargs >= 2 && nargs <= 1 + MAX_OPERANDS && !kw && PyUnicode_Check(args[0]))
        if (!(subscripts = PyUnicode_AsUTF8(args[0])))
            PyErr_Clear();
    if (subscripts) {
        if ((apart = rounds_apart()) < 0)
            return NULL;
        st = apart ? FR_VALUE_OK : FR_VALUE_FALLBACK;
        for (; st == FR_VALUE_OK && z.n < nargs - 1; z.n += st == FR_VALUE_OK)
            if ((st = fr_value_tensor(args[1 + z.n], &x[z.n])) == FR_VALUE_OK) {
                z.t[z.n] = x[z.n].arg.t;
                z.dtype = z.n ? fr_dtype_promote(z.dtype, z.t[z.n]->dtype) : z.t[0]->dtype;
            }
        if (st == FR_VALUE_OK)
            st = einsum_of(&z, subscripts, &result);
        while (z.n > 0)
            fr_value_clear(&x[--z.n]);
    }
    return st == FR_VALUE_FALLBACK || st == FR_VALUE_DEFER ? fr_fallback_name("einsum", args, nargs, kw) : result;
}

PyMethodDef fr_einsum_methods[] = {
    {"einsum", FR_FAST(einsum),
     "einsum(*operands, **kwargs)\n--\n\n"
     "numpy.einsum: lazy views, maps and sums where their bits are NumPy's, else by NumPy."},
    {NULL, NULL, 0, NULL},
};
