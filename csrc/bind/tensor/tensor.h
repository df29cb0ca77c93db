/* bind/tensor/tensor.h -- what people call: the type of Tensors, its operators, methods and functions. */
#ifndef FR_BIND_TENSOR_TENSOR_H
#define FR_BIND_TENSOR_TENSOR_H

#include "bind/numpy/numpy.h"

/* ---- tensor_type.c, scalar_type.c */
int       fr_type_init(PyObject *module);
int       fr_scalar_type_init(PyObject *module);

/* ---- scalar.c */
PyObject *fr_scalar_value(PyObject *tensor);      /* computed now: NumPy's number */
/* numpy.float64 and the like, or numpy.ndarray. */
PyObject *fr_scalar_class(PyObject *tensor);
/* Whether numbers that this thread makes are NumPy's at once, from now on. Returns whether they were. */
extern FR_HIDDEN int fr_scalar_n_at_once;         /* threads for which they are */
FR_HIDDEN bool       fr_scalar_set_at_once(bool);
static inline bool
fr_scalar_at_once(bool on)
{
    return (on || fr_scalar_n_at_once) && fr_scalar_set_at_once(on);
}
/* What stands for a number, or that number if they are to be at once. Takes over the reference; NULL stays NULL. */
FR_HIDDEN PyObject  *fr_scalar_real(PyObject *);
static inline PyObject *
fr_scalar_result(PyObject *o)
{
    return FR_LIKELY(!fr_scalar_n_at_once) ? o : fr_scalar_real(o);
}
/* The same of what a function has come to, which may be anything else. */
static inline PyObject *
fr_type_number(PyObject *o)
{
    return o && fr_is_tensor(o) && fr_object(o)->scalar ? fr_scalar_result(o) : o;
}
/* Whether an array that is none of ours asks what number it gets by x[...] = number: NumPy stores a number otherwise than
 * an array, and takes for an array what has any array's protocol. (By x[mask] = number it casts both.) */
bool      fr_scalar_is_stored(PyObject *tensor);
PyObject *fr_scalar_as_stored(PyObject *tensor, PyObject *dtype);
/* Whether `sequence * tensor` repeats a list, tuple or string. */
bool      fr_scalar_repeats(PyObject *tensor, PyObject *sequence);
/* As fr_type_result; a result without axes stands for a NumPy scalar, and may be one. */
PyObject *fr_type_result_scalar(fr_status, struct fr_tensor *, const struct fr_err *);

/* ---- html.c */
/* For notebooks; None in an accelerated call, where it stands for an array. */
PyObject *fr_html(PyObject *self, PyObject *unused);

/* ---- flags.c */
PyObject *fr_flags_new(PyObject *tensor);
int       fr_flags_init(PyObject *module);
int       fr_flags_set_writeable(PyObject *tensor, bool on);

/* ---- flat.c */
int       fr_flat_init(PyObject *module);
PyObject *fr_flat_new(PyObject *tensor, PyObject *theirs);      /* theirs: NumPy's iterator over its memory */

/* ---- iterate.c */
int       fr_iterate_init(void);
PyObject *fr_iterate(PyObject *tensor);

/* ---- number.c */
extern PyType_Slot fr_number_slots[], fr_power_slots[], fr_product_slots[];   /* operators */
/* An operation over any operands; `binary`: it is an operator, which may leave the answer to others. */
PyObject *fr_number_map(fr_op, fr_args objects, int n, bool binary);
PyObject *fr_number_complex(PyObject *self, PyObject *unused);
PyObject *fr_number_richcompare(PyObject *a, PyObject *b, int op);
/* FR_SITE_UFUNC unless the operator is one of numbers: those have operators of their own in NumPy, which one array among
 * the operands leaves to the ufunc. */
uint32_t  fr_number_how(PyObject *a, PyObject *b);
/* One operation over arguments that are ready, a new Tensor, or into `self`; `how` is added to its site. */
PyObject *fr_number_trace(fr_op, const struct fr_arg *args, int n, uint32_t how);
PyObject *fr_number_into(fr_op, const struct fr_arg *args, int n, PyObject *self, uint32_t how);

/* ---- power.c */
/* a ** b, stored into `into` unless that is NULL; `binary`: it is the operator. */
PyObject *fr_power(PyObject *a, PyObject *b, PyObject *into, bool binary);
/* The operation that gives NumPy's bits of a power with a number as exponent: square, sqrt, reciprocal, positive and so on;
 * `plain`: of an array, by the operator. Adds to *how what its site needs. */
fr_op     fr_power_op(const struct fr_arg *base, const struct fr_arg *exponent, bool plain, uint32_t *how);
int       fr_power_check(const struct fr_arg *base, const struct fr_arg *exponent);

/* ---- functions.c */
void      fr_functions_init(void);
/* One row's function with all the keywords of a ufunc. */
PyObject *fr_functions_map(fr_op, fr_args args, Py_ssize_t nargs, PyObject *kwnames);
/* The operation of a function of ours, if it is one that can be done at once; else FR_N_OPS. */
fr_op     fr_functions_op(PyObject *function);
/* The operation on as many numbers or small arrays as it takes, as NumPy's number or array; NULL without an exception: it goes
 * another way, also where there is something to warn about. */
PyObject *fr_functions_at_once(fr_op, fr_args args);
PyObject *fr_functions_clip(PyObject *module, fr_args, Py_ssize_t, PyObject *kwnames);
PyObject *fr_functions_round(PyObject *module, fr_args, Py_ssize_t, PyObject *kwnames);

/* ---- ufunc.c */
int       fr_ufunc_init(PyObject *module);

/* ---- device.c */
/* `o` on a device, or, if that is ANY, where new arrays are made unless it is committed to one already; copied only where it must
 * be. Takes over the reference; NULL and what is no tensor stay. */
/* Where the tensor is, for who takes its memory: one that is AUTO is computed first. */
int       fr_device_of(const struct fr_tensor *, fr_device *out);
PyObject *fr_device_placed(PyObject *o, fr_device);
PyObject *fr_device_to(PyObject *self, fr_args, Py_ssize_t, PyObject *kwnames);
extern PyMethodDef fr_device_methods[];

/* ---- cuda_array.c: __cuda_array_interface__. _from: a tensor over the memory of another library's array on a GPU. */
PyObject *fr_cuda_array_get(PyObject *self, void *unused);
PyObject *fr_cuda_array_from(PyObject *);

/* ---- product.c */
int       fr_product_init(void);                   /* finds NumPy's routines */

/* ---- index.c */
PyObject *fr_index_get(PyObject *self, PyObject *key);
int       fr_index_set(PyObject *self, PyObject *key, PyObject *value);
Py_ssize_t fr_index_length(PyObject *self);
PyObject *fr_index_item(PyObject *self, Py_ssize_t i);
int       fr_index_contains(PyObject *self, PyObject *value);
/* dst[...] = value, any value. */
int       fr_index_assign(struct fr_tensor *dst, PyObject *value);
int       fr_index_assign_number(struct fr_tensor *dst, PyObject *value);   /* one number only */

/* ---- chosen.c */
/* What is assigned to places that are chosen, in t's dtype: a new handle. FR_VALUE_FALLBACK: not an array or number whose
 * kind fits, of which NumPy would have something to say. */
int       fr_chosen_value(const struct fr_tensor *t, PyObject *value, struct fr_tensor *out);
/* Whether the array or tensor may show some of t's elements. NumPy, which reads it while it writes into t, then has
 * results of its own. */
bool      fr_chosen_meets(const struct fr_tensor *t, PyObject *o);
/* One or more of these are computed for an index, which is counted once. */
void      fr_chosen_sync(const struct fr_tensor *const *, int n);

/* ---- mask.c: a key that is one array of bools, beside whole slices. FR_VALUE_FALLBACK: it is something else, or left to
 * NumPy. fr_mask_places: where the mask is true, new handles, one for each of its axes; 0, or -1 with an exception. */
int       fr_mask_get(PyObject *self, PyObject *key, PyObject **result);
int       fr_mask_set(PyObject *self, PyObject *key, PyObject *value);
int       fr_mask_places(const struct fr_tensor *mask, struct fr_tensor *columns);
/* nonzero(args[0]), of which where() with one argument is another `name`. */
PyObject *fr_mask_nonzero(const char *name, fr_args args, Py_ssize_t nargs, PyObject *kw);

/* ---- take.c */
/* t[..., index[0], index[1], ..., ...]: the first array stands for `axis`, the others for those after it.
 * order as in fr_trace_take. FR_VALUE_*. */
int       fr_take_joint(const struct fr_tensor *t, const struct fr_tensor *const *index, int n, int axis,
                        char order, PyObject **result);
/* The same as the target of an assignment, now; any_order: no place gets two values that differ. An op that is not
 * FR_OP_store joins what is there with the value, as a ufunc's `at` does. FR_VALUE_FALLBACK: nothing was written. */
int       fr_take_assign(const struct fr_tensor *t, const struct fr_tensor *const *index, int n, int axis,
                         PyObject *value, bool any_order, fr_op op);

/* ---- shape.c */
/* The shape that `o` asks of t's elements, -1 filled in. */
int       fr_shape_resolve(const struct fr_tensor *, PyObject *o, int *ndim, int64_t *dims);
PyObject *fr_shape_transpose(const struct fr_tensor *, const int *axes);   /* NULL: reversed */
PyObject *fr_shape_transpose_by(const struct fr_tensor *, PyObject *axes);
PyObject *fr_shape_swapaxes(const struct fr_tensor *, PyObject *axis1, PyObject *axis2);
/* copy: -1 where needed, 0 never (ValueError), 1 always. dims may hold one -1. */
PyObject *fr_shape_reshape(const struct fr_tensor *, int ndim, int64_t *dims, char order, int copy);
PyObject *fr_shape_ravel(const struct fr_tensor *, char order, bool copy);
PyObject *fr_shape_squeezed(PyObject *tensor, PyObject *axis);    /* the tensor itself where there is nothing to squeeze */
/* New axes of size 1 at the places in `mask` of the ndim that the result has. */
PyObject *fr_shape_expand(const struct fr_tensor *, uint32_t mask, int ndim);
PyObject *fr_shape_broadcast(const struct fr_tensor *, int ndim, const int64_t *dims);
PyObject *fr_shape_flip(const struct fr_tensor *, PyObject *axis);
/* A read-only window with these strides in bytes, from t's first element on; NotImplemented: it leaves t. */
PyObject *fr_shape_strided(const struct fr_tensor *, int ndim, const int64_t *dims, const int64_t *byte_strides);
PyObject *fr_shape_diagonal(const struct fr_tensor *, int64_t offset, int axis1, int axis2);

/* ---- resize.c */
PyObject *fr_resize_method(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw);

/* ---- reductions.c: methods */
int       fr_reductions_init(void);
#define FR_REDUCTIONS_METHODS(M)                                                                       \
    M(sum) M(prod) M(max) M(min) M(any) M(all) M(argmax) M(argmin) M(mean) M(var) M(std)           \
    M(cumsum) M(cumprod)
#define FR_REDUCTIONS_METHOD(name)                                                                     \
    PyObject *fr_reductions_##name(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw);
FR_REDUCTIONS_METHODS(FR_REDUCTIONS_METHOD)
#undef FR_REDUCTIONS_METHOD
PyObject *fr_reductions_trace(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw);
extern PyObject *fr_no_value;      /* numpy._NoValue: an argument that was not given; reductions.c */

/* ---- creation.c, spread.c */
/* Name -> function, for code that says np.asarray and means a view of an ndarray. */
PyObject *fr_creation_behind_numpy(PyObject *module);
int       fr_creation_like(PyObject *o);      /* like=: only what we are like */
/* x.astype(...) */
PyObject *fr_creation_astype_method(PyObject *self, fr_args, Py_ssize_t, PyObject *kwnames);
PyObject *fr_creation_astype(const struct fr_tensor *, fr_dtype, char order);
PyObject *fr_spread_repeat(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw);

/* ---- engine.c, explain.c */
extern PyMethodDef fr_engine_methods[], fr_explain_methods[], fr_record_methods[], fr_warmup_methods[];

/* ---- record.c */
/* What str() says of an array without data, whose values are not known: a new reference; NULL without an exception: it has some. */
PyObject *fr_text_without_data(PyObject *tensor);

/* ---- tables of functions, one per file */
extern PyMethodDef fr_functions_methods[], fr_reductions_methods[], fr_creation_methods[],
    fr_fill_methods[], fr_views_methods[], fr_join_methods[], fr_spread_methods[], fr_pad_methods[],
    fr_dlpack_methods[], fr_product_methods[], fr_dot_methods[], fr_einsum_methods[], fr_take_methods[], fr_mask_methods[],
    fr_scalar_functions[];
/* Methods of Tensor; fr_methods_init joins the tables. */
extern PyMethodDef fr_tensor_methods[], fr_dispatch_tensor_methods[],
    fr_dlpack_tensor_methods[], fr_dot_tensor_methods[],
    fr_take_tensor_methods[], fr_mask_tensor_methods[];
void      fr_methods_init(void);
int       fr_dispatch_init(PyObject *module);

#endif
