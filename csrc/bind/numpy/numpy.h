/* bind/numpy/numpy.h -- what touches NumPy: dtypes and numbers, ndarrays in and out, operands, calls that it answers,
 * warnings that it would give. */
#ifndef FR_BIND_NUMPY_NUMPY_H
#define FR_BIND_NUMPY_NUMPY_H

#include "bind/base/base.h"

/* ---- numpy.c, arrays.c */
int       fr_numpy_init(void);
PyObject *fr_numpy_dtype(fr_dtype);                      /* numpy.dtype, borrowed */
/* 1: ours; 0: NumPy has it and we do not; -1: not a dtype. None gives `dflt`. */
int       fr_numpy_to_dtype(PyObject *o, fr_dtype dflt, fr_dtype *out);
bool      fr_numpy_is_array(PyObject *o);                /* an ndarray or of a subclass */
bool      fr_numpy_is_scalar(PyObject *o);               /* np.float64(1.5) and the like */
/* Whether it is an array here and there: neither a number nor what stands for one. */
static inline bool
fr_stands_for_array(PyObject *o)
{
    return fr_is_tensor(o) ? !fr_object(o)->scalar : fr_numpy_is_array(o);
}
bool      fr_numpy_scalar(PyObject *o, struct fr_number *);       /* false: not one of our dtypes */
fr_dtype  fr_numpy_array_dtype(PyObject *array);         /* FR_N_DTYPES: not ours, or byte-swapped */
/* Of a class derived from ndarray, which NumPy's functions give results of: matrices, masked arrays. */
bool      fr_numpy_is_subclass(PyObject *array);
bool      fr_numpy_defers(PyObject *);                   /* wants to answer operators itself */
/* The values of an ndarray as a new handle: the memory is not shared. FR_VALUE_*. */
int       fr_numpy_copy(PyObject *array, struct fr_tensor *out);
/* The same, to be read only: what the ndarray repeats is repeated here too, and so results lie like NumPy's. */
int       fr_numpy_copy_operand(PyObject *array, struct fr_tensor *out);
PyObject *fr_numpy_from_any(PyObject *o);                /* np.asarray(o) */
PyObject *fr_numpy_from_items(PyObject *list, fr_dtype); /* each as it is stored into such an array */
enum fr_view { FR_VIEW_READ,      /* read-only; later stores land elsewhere */
               FR_VIEW_WATCH,     /* read-only; sees later stores */
               FR_VIEW_EXPORT,    /* sees later stores; writable as the tensor is */
               FR_VIEW_OWN };     /* the same of a tensor that is not used any more: it may have the memory itself, and no base */
PyObject *fr_numpy_view(PyObject *tensor, enum fr_view);
PyObject *fr_numpy_view_of(const struct fr_tensor *, enum fr_view);
/* A view for reading that somebody has kept: it looks at its tensor from now on. */
int       fr_numpy_keep(PyObject *view);
/* The tensor's memory stays where it is, also when this view is gone. */
void      fr_numpy_look_forever(PyObject *view);
/* How a tensor shows itself to whoever asks: what stands for a scalar never changes, so nothing needs
 * to be pinned. */
static inline enum fr_view
fr_type_view(PyObject *tensor)
{
    return fr_object(tensor)->scalar ? FR_VIEW_READ : FR_VIEW_EXPORT;
}
/* What a NumPy function returned: a Tensor that adopts it if nobody else can reach the array, else
 * the array itself (somebody's `out`, a view of an ndarray, a dtype that we do not have). An item of
 * the tuple that the function returned (or NULL) may be a part of an array together with others. */
PyObject *fr_numpy_wrap(PyObject *array, PyObject *tuple);
/* The array, if it looks at the memory of `view` with the same dtype, as a window of `tensor`;
 * NULL without an exception if it does not. */
PyObject *fr_numpy_window(PyObject *array, PyObject *view, PyObject *tensor);
/* NumPy's one-element conversion of any Python object, FR_VALUE_*. */
int       fr_numpy_pack(fr_dtype, void *bytes, PyObject *value);
PyObject *fr_numpy_attr(const char *name);               /* numpy.<name>, "linalg.norm" too */
PyObject *fr_numpy_scalar_of(PyObject *tensor);          /* evaluated: NumPy scalar or ndarray copy */
/* What stands for an array as a new array over its memory, to be written as it is, and what stands for a number as that. */
PyObject *fr_numpy_shown(PyObject *tensor);
PyObject *fr_numpy_given(PyObject *tensor);              /* the same of a tensor that is not used any more */
PyObject *fr_numpy_scalar_at(const struct fr_tensor *);  /* the same of one element without axes */
PyObject *fr_numpy_scalar_from(fr_dtype, const void *element);
PyTypeObject *fr_numpy_scalar_type(fr_dtype);            /* numpy.float64 and the like, borrowed */
PyTypeObject *fr_numpy_array_type(void);                 /* numpy.ndarray, borrowed */
/* A Tensor that stands for a NumPy number; the number itself where its dtype is not ours. */
PyObject *fr_numpy_number(PyObject *scalar);

/* ---- share.c */
PyObject *fr_share(PyObject *module, PyObject *array);      /* a Tensor over its memory */
/* The last ndarray in the chain of bases; *tensor is set where the memory is a Tensor's own. */
PyObject *fr_share_root(PyObject *array, PyObject **tensor);
/* The dtype of the storage that an ndarray would be a window of: its own, or where it shows a component of complex
 * numbers, theirs. */
fr_dtype  fr_share_dtype(PyObject *array);
/* The addresses between which the elements of an ndarray lie; equal if there are none. */
void      fr_share_bounds(PyObject *array, char **low, char **high);
/* Whether those of two ndarrays meet. */
bool      fr_share_meet(PyObject *a, PyObject *b);
/* fr_share for the length of a call, in which nobody else uses the memory, until it is given back: then what was
 * stored is there (keep), or what has not been computed of it is forgotten. */
PyObject *fr_share_borrow(PyObject *array);
fr_status fr_share_give_back(PyObject *tensor, bool keep, struct fr_err *);
/* Before that: the array gets the shape that the tensor's was set to, if it was. An exception that is set stays. */
void      fr_share_reshape(PyObject *array, PyObject *tensor);
/* Resizes the array, which is no view, that the argument stands for, and the tensor with it. */
int       fr_share_resize(PyObject *tensor, int ndim, const int64_t *dims);
/* Instead of giving back and the last DECREF: a Tensor that is just as it was borrowed rests until an array that
 * lies like this one is borrowed. False: it is not, and still the caller's. */
bool      fr_share_rest(PyObject *tensor);
/* A loan that only fr_share_rest or an error will end: nothing is to be computed for it. */
bool      fr_share_is_idle(PyObject *tensor);
void      fr_share_died(struct fr_storage *);      /* a hook: fr_hooks.storage_died */

/* ---- value.c */
struct fr_value {
    struct fr_arg    arg;
    struct fr_tensor own;       /* a handle made for this call, if arg.t points here */
    PyObject        *object;    /* borrowed: what it was made from */
};
enum { FR_VALUE_ERROR = -1,   /* an exception is set */
       FR_VALUE_OK,
       FR_VALUE_FALLBACK,         /* NumPy knows what to do with it, we do not */
       FR_VALUE_DEFER };      /* the other object's own operator shall answer */
/* Numbers and tensors only, no error, no allocation: false sends the caller to fr_value_get. */
static inline bool fr_value_fast(PyObject *o, struct fr_arg *arg);
/* Anything that np.asarray takes. For operators (`binary`), objects with operators of their own give
 * FR_VALUE_DEFER. */
int       fr_value_get(PyObject *o, bool binary, struct fr_value *);
/* What an operator does with an object that is no number, ndarray or tensor: an FR_VALUE_*. */
int       fr_value_operand(PyObject *o);
void      fr_value_clear(struct fr_value *);
/* The tensor that an ndarray is in the accelerated call that runs: a new reference. NULL: in none, unless an exception is
 * set; then it is copied, because a lazy expression must see its values as they are now. */
extern FR_HIDDEN PyObject *(*fr_value_lend)(PyObject *array);
/* fr_value_get for n objects, and fr_value_fit; clears them itself unless it returns OK. */
int       fr_value_all(fr_op op, fr_args objects, int n, bool binary, struct fr_value *,
                         struct fr_arg *args);
/* NEP 50: weak Python ints must fit the integer type that `op` computes in. Returns an FR_VALUE_*. */
int       fr_value_fit(fr_op op, struct fr_value *, int n);
/* Whether the Python int is in the range of the integer type. */
bool      fr_value_int_fits(PyObject *, fr_dtype);
/* The number as the dtype has it, converted by NumPy's rules of assignment. */
int       fr_value_store(PyObject *value, fr_dtype, struct fr_number *);
/* The same where `value` is one number; FR_VALUE_FALLBACK: it is not. */
int       fr_value_element(PyObject *value, fr_dtype, struct fr_number *);
/* Any array-like as a tensor handle; FR_VALUE_FALLBACK when its dtype is not ours. */
int       fr_value_tensor(PyObject *o, struct fr_value *);
/* The same for a function whose result has the dtype of `o`: FALLBACK also where that is ours in foreign byte order. */
int       fr_value_kept(PyObject *o, struct fr_value *);

static inline bool
fr_value_small_int(PyObject *o, int64_t *v)
{
#if PY_VERSION_HEX >= 0x030c0000
    if (!PyUnstable_Long_IsCompact((PyLongObject *)o))
        return false;
    *v = PyUnstable_Long_CompactValue((PyLongObject *)o);
#else
    Py_ssize_t n = Py_SIZE(o);

    if (n < -1 || n > 1)
        return false;
    *v = n ? (int64_t)n * (int64_t)((PyLongObject *)o)->ob_digit[0] : 0;
#endif
    return true;
}

static inline bool
fr_value_fast(PyObject *o, struct fr_arg *arg)
{
    if (fr_is_tensor(o)) {
        arg->t = fr_of(o);
        return true;
    }
    arg->t = NULL;
    arg->n.huge = arg->n.negative = false;
    if (PyFloat_CheckExact(o)) {
        arg->n.dtype = FR_F64;
        arg->n.weak = 'f';
        arg->n.v.f64 = PyFloat_AS_DOUBLE(o);
        return true;
    }
    /* Beyond 127 an int may be too large for the other operand's dtype: fr_value_fit looks. */
    if (PyLong_CheckExact(o) && fr_value_small_int(o, &arg->n.v.i64) &&
        (uint64_t)arg->n.v.i64 <= 127) {
        arg->n.dtype = FR_I64;
        arg->n.weak = 'i';
        return true;
    }
    return false;
}

/* ---- fallback_names.c */
struct fr_name {
    const char *name;          /* a literal: its address is the key */
    bool        method;
    PyObject   *object;        /* numpy.<name>, or the interned name of a method */
    uint64_t    n_calls;
};
extern FR_HIDDEN uint32_t fr_fallback_span;    /* the name of the last one that was counted, for a span (base/span.h) */
int       fr_fallback_names_init(void);
/* `name` lives as long as the process. NULL with an exception if NumPy lacks it. */
struct fr_name *fr_fallback_names_get(const char *name, bool method);
void      fr_fallback_names_count(struct fr_name *);
void      fr_fallback_names_count_function(PyObject *func);
PyObject *fr_fallback_names_counts(void);
void      fr_fallback_names_reset(void);

/* ---- fallback.c */
/* func(*args, **kw) with every tensor in it, at any depth, as an evaluated ndarray: writable, for a function that is not
 * NumPy's. */
/* Calls what stands for `func` where that is written in Python of functions that are ours (python/frit/_composed.py), and
 * has a tensor among its arguments. False: there is nothing such. */
bool      fr_fallback_composed(PyObject *func, fr_args args, Py_ssize_t n, PyObject *kwnames, PyObject **result);
/* Asked before NumPy is called, as _core.meta_values says; NULL: nobody is. */
extern FR_HIDDEN PyObject *fr_fallback_instead;
/* What it says of a call of func, or of NumPy's function of that name; NULL without an exception: nothing. */
PyObject *fr_fallback_ask(PyObject *func, PyObject *name, fr_args args, Py_ssize_t n, PyObject *kwnames);
PyObject *fr_fallback_call(PyObject *func, fr_args args, Py_ssize_t n, PyObject *kwnames);
PyObject *fr_fallback_dict(PyObject *func, PyObject *args, PyObject *kwargs);
/* numpy.<name>(...) in the same way. */
PyObject *fr_fallback_name(const char *name, fr_args args, Py_ssize_t n, PyObject *kwnames);
/* What a function does with its first argument beyond reading it. */
enum fr_intent { FR_READS, FR_WRITES,   /* during the call */
                 FR_EXPORTS,            /* returns another look at its memory */
                 FR_TOUCHES };          /* whatever it likes, and with all other arguments, too */
/* ndarray.<name>: a method of args[0], with this intent on it. */
PyObject *fr_fallback_method(const char *name, enum fr_intent, fr_args args, Py_ssize_t n,
                             PyObject *kwnames);

extern PyMethodDef fr_fallback_methods[], fr_share_methods[], fr_fallback_always_functions[], fr_fallback_always_methods[];

/* ---- namesake.c */
bool      fr_namesake_exists(fr_op);
/* The call of an operation's function by NumPy; TypeError where it has no such function. */
PyObject *fr_namesake_call(fr_op, fr_args args, Py_ssize_t nargs, PyObject *kwnames);
/* fr_errors_raise for an operation (out, dtype: NULL if not given): casting errors are NumPy's own. */
PyObject *fr_namesake_refuse(fr_status, const struct fr_err *, fr_op, const struct fr_arg *, int n,
                             const struct fr_tensor *out, PyObject *dtype) __attribute__((cold));

/* ---- judge.c: hooks */
struct fr_judged;
bool      fr_judge_by_numpy(const struct fr_judged *);
fr_status fr_judge_speak(void);
fr_status fr_judge_discards(void);
fr_status fr_judge_overflows(void);
int       fr_judge_init(void);

#endif
