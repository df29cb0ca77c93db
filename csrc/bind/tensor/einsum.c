/* bind/tensor/einsum.c -- einsum: windows, multiplications, sums and products, where those have NumPy's bits.
 *
 * The subscripts give each operand a window over the axes of the result and, behind them, the axes that are summed, in
 * the order of their letters. Those windows are multiplied from left to right and added to zeros, as NumPy's loops do it.
 *   - Nothing is summed: a view of the only operand, or a map.
 *   - NumPy's iterator walks an axis of the result innermost: every element is added up one by one, in the order in which a
 *     sum of the whole product goes.
 *   - What has rows and columns is a matrix product that is added up in the same order. Integers and bools have one sum in
 *     any order. Where NumPy's iterator walks one summed axis innermost, neighbours are added in the lanes of vectors.
 * Other sums of floats along the innermost axis are NumPy's. Halves are rounded at each step, complex numbers multiplied
 * otherwise than by ufuncs: these are NumPy's, as are all keywords, lists of axes in place of subscripts, and everything
 * that is wrong. NumPy's einsum warns of nothing. */
#include "bind/tensor/subscripts.h"
#include "bind/tensor/tensor.h"
#include "ir/build.h"
#include "ir/node.h"

enum { MOST_AT_ONCE = 8192,     /* elements of a row that NumPy's iterator hands on in any case */
       APART = 1,               /* NumPy's loops round a product before it is added, as ufuncs do; */
       IN_LANES = 2 };          /* and add neighbours in lanes as we do */

/* ---- what they say, traced */

static bool
is_float(fr_dtype d)
{
    return d == FR_F32 || d == FR_F64;
}

static int64_t stride(const struct fr_layout *l, int a) { return fr_layout_strides(l)[a]; }
static int64_t dim(const struct fr_layout *l, int a) { return fr_layout_dims(l)[a]; }

/* The axis before `n` along which the layout is walked innermost; -1: all have one element. */
static int
innermost(const struct fr_layout *l, int n)
{
    int inner = -1;

    for (int a = 0; a < n; a++)
        if (dim(l, a) > 1 && (inner < 0 || stride(l, a) < stride(l, inner)))
            inner = a;
    return inner;
}

/* NumPy's iterator would turn round what runs backwards. */
static bool
runs_backwards(const struct fr_einsum *z)
{
    for (int i = 0; i < z->n; i++)
        for (int k = 0; k < z->t[i]->layout->ndim; k++)
            if (stride(z->t[i]->layout, k) < 0)
                return true;
    return false;
}

/* ---- two operands as a matrix product */

/* The axes that both have and that stay make stacks, with those that only one has, but for one of each: rows and columns. */
struct product {
    enum fr_product_order order;
    int                   a, b;                     /* the operand with the rows, and that with the columns */
    int                   row, column;              /* -1: none */
    bool                  has_rows;                 /* which are contiguous in the result, as is wanted but for lanes */
    int                   inner[FR_MAX_DIMS], n_inner, n_long;      /* summed, from outside in; so many of several elements */
};

/* False: it is none. `like`: the map's layout. */
static bool
is_product(const struct fr_einsum *z, const struct fr_tensor *w, const struct fr_layout *like, struct product *p)
{
    int last = innermost(like, z->n_out), only[2] = {-1, -1};

    if (z->n != 2)
        return false;
    for (int a = 0; a < z->n_axes; a++) {
        bool both = fr_einsum_has(z, 0, a) && fr_einsum_has(z, 1, a);

        if (both && dim(w[0].layout, a) != dim(w[1].layout, a))
            return false;
        if (a >= z->n_out && !both)
            return false;
        if (a >= z->n_out) {
            int k = p->n_inner++;

            for (; k > 0 && stride(like, p->inner[k - 1]) < stride(like, a); k--)
                p->inner[k] = p->inner[k - 1];
            p->inner[k] = a;
            p->n_long += dim(like, a) > 1;
        } else if (!both && dim(like, a) > 1) {
            int i = fr_einsum_has(z, 1, a);

            if (only[i] < 0 || stride(like, a) < stride(like, only[i]))
                only[i] = a;
        }
    }
    p->a = last >= 0 && last == only[0];
    p->b = !p->a;
    p->row = only[p->a];
    p->column = only[p->b];
    p->has_rows = p->column == last || last < 0;
    return p->n_inner > 0;
}

/* In which order NumPy adds up what is summed along the innermost axis: neighbours in lanes, others one by one. Summed axes
 * that go on as one in both operands are one there; others it adds up one after the other. */
static bool
is_ordered(const struct fr_tensor *w, struct product *p, bool lanes)
{
    int64_t first[2] = {0, 0}, next[2] = {0, 0}, n = 1;

    if (w[0].dtype != w[1].dtype)
        return false;
    for (int i = p->n_inner; i-- > 0;) {
        int64_t count = dim(w[0].layout, p->inner[i]);

        for (int k = 0; k < 2 && count > 1; k++) {
            int64_t by = stride(w[k].layout, p->inner[i]);

            if (by == 0 || (n > 1 && by != next[k]))
                return false;
            first[k] = n > 1 ? first[k] : by;
            next[k] = by * count;
        }
        n *= count;
    }
    if (n > MOST_AT_ONCE)
        return false;
    p->order = first[0] == 1 && first[1] == 1 ? FR_PRODUCT_IN_LANES : FR_PRODUCT_IN_ORDER;
    return p->order == FR_PRODUCT_IN_LANES ? lanes : p->has_rows && p->row >= 0;
}

/* The operand as a stack of matrices: rows by inner axis, or inner axis by columns. */
static fr_status
as_matrices(const struct fr_einsum *z, const struct product *p, const struct fr_tensor *w, bool columns, struct fr_tensor *out,
            struct fr_err *err)
{
    int64_t          dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], merged[FR_MAX_DIMS];
    int              own = columns ? p->column : p->row, n = 0, n_stack;
    struct fr_tensor t;
    fr_status        st;

#define ADD(a)                                                                                     \
    do {                                                                                           \
        dims[n] = (a) < 0 ? 1 : dim(w->layout, a);                                                 \
        strides[n++] = (a) < 0 ? 1 : stride(w->layout, a);                                         \
    } while (0)
    for (int a = 0; a < z->n_out; a++)
        if (a != p->row && a != p->column)
            ADD(a);
    n_stack = n;
    if (!columns)
        ADD(own);
    for (int i = 0; i < p->n_inner; i++)
        if (dim(w->layout, p->inner[i]) > 1)
            ADD(p->inner[i]);
    if (!p->n_long)
        ADD(-1);
    if (columns)
        ADD(own);
#undef ADD
    if ((st = fr_tensor_window(w, n, dims, strides, 0, &t, err)) != FR_OK || p->n_long <= 1) {
        *out = t;
        return st;
    }
    memcpy(merged, dims, (size_t)n_stack * sizeof *dims);
    merged[n_stack] = columns ? 1 : dims[n_stack];
    merged[n_stack + 1] = columns ? dims[n - 1] : 1;
    for (int k = 0; k < p->n_long; k++)
        merged[n_stack + !columns] *= dims[n_stack + !columns + k];
    st = fr_tensor_reshape(&t, n_stack + 2, merged, out, err);
    fr_tensor_clear(&t);
    return st;
}

/* The product, its result over the axes of einsum's, in the layout that NumPy's has. */
static fr_status
trace_product(const struct fr_einsum *z, const struct product *p, const struct fr_tensor *const *one, const struct fr_layout *like,
              struct fr_tensor *out, struct fr_err *err)
{
    int64_t           dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], kept[FR_MAX_DIMS];
    const int64_t    *list[1] = {fr_layout_strides(like)};
    struct fr_tensor  a = {.storage = NULL}, b = {.storage = NULL}, made = {.storage = NULL};
    struct fr_layout *l = NULL;
    int               n = 0, core[2] = {p->row, p->column};
    fr_status         st;

    fr_strides_keep_order(z->n_out, fr_layout_dims(like), 1, list, kept);
    for (int k = 0; k < z->n_out; k++)
        if (k != p->row && k != p->column) {
            dims[n] = dim(like, k);
            strides[n++] = kept[k];
        }
    for (int k = 0; k < 2; k++) {
        dims[n] = core[k] < 0 ? 1 : dim(like, core[k]);
        strides[n++] = core[k] < 0 ? 1 : kept[core[k]];
    }
    if (!(l = fr_layout_get(n, dims, strides)))
        TRY(fr_fail(err, FR_ENOMEM, "out of memory: a layout"));
    TRY(as_matrices(z, p, one[p->a], false, &a, err));
    TRY(as_matrices(z, p, one[p->b], true, &b, err));
    TRY(fr_trace_product(&a, &b, l, p->order, &made, err));
    TRY(fr_tensor_window(&made, z->n_out, fr_layout_dims(like), kept, 0, out, err));
out:
    fr_layout_unref(l);
    fr_tensor_clear(&a);
    fr_tensor_clear(&b);
    fr_tensor_clear(&made);
    return st;
}

/* ---- the map, and its sum */

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
sum(const struct fr_einsum *z, const struct fr_tensor *t, struct fr_tensor *out, struct fr_err *err)
{
    uint32_t axes = 0;

    for (int a = z->n_out; a < z->n_axes; a++)
        axes |= 1u << a;
    return z->dtype == FR_BOOL ? fr_trace_reduce(FR_OP_any, t, axes, false, FR_N_DTYPES, out, err)
                               : fr_trace_reduce(FR_OP_sum, t, axes, false, z->dtype, out, err);
}

/* The windows multiplied, and summed, or as a product. */
static fr_status
trace(const struct fr_einsum *z, const struct fr_tensor *w, struct fr_layout *like, const struct product *p, struct fr_tensor *out,
      struct fr_err *err)
{
    struct fr_tensor        cast[FR_EINSUM_OPERANDS] = {{.storage = NULL}}, made[2] = {{.storage = NULL}};
    const struct fr_tensor *one[FR_EINSUM_OPERANDS] = {w}, *all;
    bool             sums = z->n_axes > z->n_out, zero = !sums && is_float(z->dtype);
    fr_status        st = FR_OK;

    for (int i = 0; i < z->n; i++) {
        one[i] = &w[i];
        if (w[i].dtype != z->dtype) {
            TRY(fr_trace_cast(&w[i], z->dtype, 'K', &cast[i], err));
            one[i] = &cast[i];
        }
    }
    if (p) {
        st = trace_product(z, p, one, like, out, err);
        goto out;
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
einsum_of(struct fr_einsum *z, const char *subscripts, int rounding, PyObject **result)
{
    int64_t           dims[FR_EINSUM_OPERANDS][FR_MAX_DIMS], strides[FR_EINSUM_OPERANDS][FR_MAX_DIMS];
    struct fr_tensor  w[FR_EINSUM_OPERANDS] = {{.storage = NULL}}, t = {.storage = NULL};
    struct fr_layout *layout[FR_EINSUM_OPERANDS], *like = NULL;
    struct fr_err     err;
    struct product    p = {.order = FR_PRODUCT_NUMPYS};
    fr_status         st = FR_OK;
    bool              ours, multiplies = false;

    *result = NULL;
    if (!fr_einsum_parse(z, subscripts))
        return FR_VALUE_FALLBACK;
    for (int i = 0; i < z->n; i++)
        if (!fr_einsum_window(z, i, dims[i], strides[i]))
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
    if (z->n_axes > z->n_out) {
        /* A sum of the map is as good where there are no rows, or no columns. */
        multiplies = is_product(z, w, like, &p);
        if (is_float(z->dtype)) {
            ours = !runs_backwards(z);
            p.order = FR_PRODUCT_IN_ORDER;
            if (ours && innermost(like, z->n_axes) >= z->n_out)
                ours = multiplies = multiplies && is_ordered(w, &p, rounding & IN_LANES);
            else
                multiplies = multiplies && p.has_rows && p.row >= 0 && p.column >= 0;
        } else {
            multiplies = multiplies && p.has_rows && (p.row >= 0 || p.column >= 0);
        }
    }
    if (ours)
        st = trace(z, w, like, multiplies ? &p : NULL, &t, &err);
out:
    for (int i = 0; i < z->n; i++)
        fr_tensor_clear(&w[i]);
    fr_layout_unref(like);
    if (!ours && st == FR_OK)
        return FR_VALUE_FALLBACK;
    *result = fr_type_result_scalar(st, &t, &err);
    return FR_VALUE_OK;
}

/* What is known of NumPy's loops: bits, or -1 with an exception. */
static int
rounding_of_numpys(void)
{
    static int known = -1;

    if (known < 0) {
        PyObject *module = PyImport_ImportModule("frit._composed");
        PyObject *f = module ? PyObject_CallMethod(module, "einsum_rounding", NULL) : NULL;

        known = f ? (int)PyLong_AsLong(f) : -1;
        Py_XDECREF(f);
        Py_XDECREF(module);
    }
    return known;
}

static PyObject *
einsum(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    struct fr_value x[FR_EINSUM_OPERANDS];
    struct fr_einsum   z = {.dtype = FR_BOOL};
    const char     *subscripts = NULL;
    PyObject       *result = NULL;
    int             st = FR_VALUE_FALLBACK, rounding = 0;

    (void)module;
    if (nargs >= 2 && nargs <= 1 + FR_EINSUM_OPERANDS && !kw && PyUnicode_Check(args[0]))
        if (!(subscripts = PyUnicode_AsUTF8(args[0])))
            PyErr_Clear();
    if (subscripts) {
        if ((rounding = rounding_of_numpys()) < 0)
            return NULL;
        st = rounding & APART ? FR_VALUE_OK : FR_VALUE_FALLBACK;
        for (; st == FR_VALUE_OK && z.n < nargs - 1; z.n += st == FR_VALUE_OK)
            if ((st = fr_value_tensor(args[1 + z.n], &x[z.n])) == FR_VALUE_OK) {
                z.t[z.n] = x[z.n].arg.t;
                z.dtype = z.n ? fr_dtype_promote(z.dtype, z.t[z.n]->dtype) : z.t[0]->dtype;
            }
        if (st == FR_VALUE_OK)
            st = einsum_of(&z, subscripts, rounding, &result);
        while (z.n > 0)
            fr_value_clear(&x[--z.n]);
    }
    return st == FR_VALUE_FALLBACK || st == FR_VALUE_DEFER ? fr_fallback_name("einsum", args, nargs, kw) : result;
}

PyMethodDef fr_einsum_methods[] = {
    {"einsum", FR_FAST(einsum),
     "einsum(*operands, **kwargs)\n--\n\n"
     "numpy.einsum: lazy views, maps and sums where their bits are NumPy's, else by NumPy, with its shapes, dtypes and errors."},
    {NULL, NULL, 0, NULL},
};
