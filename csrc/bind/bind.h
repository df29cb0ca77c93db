/* bind/bind.h -- what the files of bind/ share. This folder is the only one that knows Python.
 *
 *   module.c       the module frit._core: start, hooks, list of functions
 *   object.c       the Tensor object and its free list;  tensor_type.c: its type;  flags.c, flat.c: Tensor.flags, .flat
 *   scalar.c       the type of those that stand for NumPy scalars
 *   number.c       operators, comparisons, conversions to Python numbers
 *   value.c        what may stand beside a tensor: Python and NumPy numbers, arrays, lists;  element.c
 *   index.c        t[...] and t[...] = v;  mask.c: with masks;  take.c: with arrays of integers;
 *                  chosen.c: what both have in common where something is assigned
 *   functions.c    one function per row of ir/ops.def, and those made of a few rows
 *   reduce.c       sum, mean, argmax, cumsum, ...;  reductions.c: as functions and as methods
 *   creation.c     asarray and array;  fill.c: zeros, arange, eye, ...
 *   shape.c        reshape, transpose, ... of handles;  views.c: as functions
 *   join.c         concatenate, stack, roll;  spread.c: tile, repeat;  pad.c
 *   methods.c      the methods of Tensor
 *   dispatch.c     __array_ufunc__ and __array_function__;  ufunc.c: frit.add with reduce, at, ...
 *   hand.c         hands a call to NumPy on evaluated data, wraps what comes back;  names.c counts
 *   handles.c      the tensors among objects
 *   handed.c       the functions that are always handed over (python/frit/_numpy.py)
 *   numpy.c        the only import_array(), dtypes;  arrays.c: ndarray in and out;  share.c: memory of ndarrays in use
 *   namesake.c     the function of NumPy that has an operation's name
 *   outside.c      callables of others, which get real arrays and numbers
 *   accelerate.c   the type of accelerated functions;  accelerate_call.c: their calls;  replay.c: those made again,
 *                  capture.c: as they were noted;  enter.c: arguments that hold arrays
 *   dlpack.c       DLPack in and out
 *   errstate.c     what the user's state makes of warnings of arithmetic;  judge.c: which of them are due
 *   errors.c       the only place that raises for a status;  site.c: source lines;  info.c: counters;  engine.c: statistics
 *
 * Everything here runs under the GIL. Functions that return PyObject * return a new reference, or
 * NULL with an exception set; those that return int return -1 with an exception set. */
#ifndef FR_BIND_BIND_H
#define FR_BIND_BIND_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "runtime/tensor.h"

/* Tensors that were made in the same accelerated call, or in none, hang together. */
struct fr_made {
    struct fr_made *next, *prev;
};
/* The first part is as large as NumPy's array or number, and its list of weak references lies where an array's does: so
 * the object can become one (become.c). What it was stays behind that, for whoever still holds a method of it. */
struct fr_tensor_object {
    PyObject_HEAD
    struct fr_made   made;
    void            *of_array[5];
    PyObject        *weakrefs;
    void            *of_array_too[2];
    struct fr_tensor t;
    union {
        struct {
            bool     scalar;   /* stands for a NumPy scalar, and is of fr_number_type; fr_type_set_scalar writes it */
            bool     is_base;  /* what views of its storage have as .base: fr_storage_object */
            bool     locked;   /* read-only because flags.writeable was cleared: may be set again */
            uint8_t  end;      /* enum fr_type_end */
        };
        uint32_t     special;  /* any of the four */
    };
    uint32_t         token;    /* for that end */
};
enum fr_type_end { FR_END_NOTHING,
                   FR_END_HOLD,      /* base of an array that reads: fr_tensor_unhold */
                   FR_END_LOOK,      /* base of an array that may write: fr_storage_unlook */
                   FR_END_LOAN,      /* an argument of an accelerated call: fr_storage_reclaim; token: its array is no view */
                   FR_END_LOAN_RESHAPED }; /* its array gets the shape that was set here */

/* frit.Tensor, and the type below it of what stands for a NumPy scalar; both are final. */
extern FR_HIDDEN PyTypeObject *fr_tensor_type, *fr_number_type;
FR_HIDDEN void fr_type_dealloc(PyObject *tensor);

static inline bool
fr_is_tensor(PyObject *o)
{
    return Py_TYPE(o)->tp_dealloc == fr_type_dealloc;    /* no other type has it */
}
static inline struct fr_tensor_object *
fr_object(PyObject *o)
{
    return (struct fr_tensor_object *)o;
}
static inline struct fr_tensor *
fr_of(PyObject *o)
{
    return &((struct fr_tensor_object *)o)->t;
}

typedef PyObject *const *fr_args;       /* as METH_FASTCALL passes them */

/* ---- errors.c */
int       fr_errors_init(void);
PyObject *fr_errors_raise(fr_status, const struct fr_err *) __attribute__((cold)); /* always NULL */
/* Puts what PyErr_Fetch gave, and steals it, behind the exception that is set now. */
void      fr_errors_add_context(PyObject *type, PyObject *value, PyObject *trace);
/* AxisError; name: the parameter to put before the message, or NULL. Always NULL. */
PyObject *fr_errors_axis(long axis, int ndim, const char *name);

/* ---- site.c */
uint32_t  fr_site_here(void);           /* id of the line of user code that runs now */
uintptr_t fr_site_instruction(void);    /* the one of Python's that runs now: all that C code does is by one */
/* Whether it is x[i], by which what is no tensor may ask what i is. */
bool      fr_site_takes_item(void);
/* Whether it is x[i] = v where i is a constant or a slice, of which nothing is to be asked. */
bool      fr_site_stores_plainly(void);
/* Warns at that line, as the filters in force have it; -1: with an exception. */
int       fr_site_warn(uint32_t id, PyObject *category, PyObject *text);
PyObject *fr_site_text(uint32_t id);    /* "file.py:12 in name" */
/* `text` with every "@123" replaced by the site's text. */
PyObject *fr_site_explain(const char *text);
void      fr_site_init(const char *package_dir, const char *numpy_dir);  /* code below these is not the user's */

/* ---- judge.c: hooks */
struct fr_judged;
bool      fr_judge_by_numpy(const struct fr_judged *);
fr_status fr_judge_speak(void);
fr_status fr_judge_discards(void);
fr_status fr_judge_overflows(void);
int       fr_judge_init(void);

#define FR_TRACE_HERE() (fr_trace_site = fr_site_here())

/* ---- tensor_type.c, flags.c */
int       fr_type_init(PyObject *module);
int       fr_scalar_type_init(PyObject *module);  /* scalar_type.c */
/* An empty Tensor from the allocator. */
struct fr_tensor_object *fr_type_alloc(void);
/* Dead Tensors wait to be used again, with all fields as fr_type_alloc leaves them. That needs the plain
 * reference count of a build with the GIL. */
#if !defined(Py_GIL_DISABLED) && !defined(Py_TRACE_REFS)
enum { FR_TYPE_WAITING_MAX = 1024 };
extern FR_HIDDEN struct fr_tensor_object *fr_type_waiting[FR_TYPE_WAITING_MAX];
extern FR_HIDDEN size_t                   fr_type_n_waiting;
#endif
/* The ring of Tensors that this thread makes now (become.c). */
extern FR_HIDDEN FR_THREAD_LOCAL struct fr_made *fr_made_now;
extern FR_HIDDEN struct fr_made                   fr_made_outside;   /* of those made in no call */
static inline void
fr_made_link_behind(struct fr_made *before, struct fr_made *m)
{
    struct fr_made *next = before->next;

    FR_ASSERT(next->prev == before);
    m->next = next;
    m->prev = before;
    before->next = next->prev = m;
}
static inline void
fr_made_link(struct fr_made *m)
{
    fr_made_link_behind(fr_made_now, m);
}
static inline void
fr_made_unlink(struct fr_made *m)
{
    struct fr_made *next = m->next, *prev = m->prev;

    FR_ASSERT(prev->next == m && next->prev == m); /* it is linked, and once */
    prev->next = next;
    next->prev = prev;
}
/* An empty Tensor; the caller fills .t. */
static inline struct fr_tensor_object *
fr_type_new(void)
{
    struct fr_tensor_object *o;

#if !defined(Py_GIL_DISABLED) && !defined(Py_TRACE_REFS)
    if (FR_LIKELY(fr_type_n_waiting)) {
        o = fr_type_waiting[--fr_type_n_waiting];
        Py_SET_REFCNT((PyObject *)o, 1);
    } else
#endif
        if (!(o = fr_type_alloc()))
            return NULL;
    FR_ASSERT(!o->t.storage && !o->special && !o->weakrefs);
    fr_made_link(&o->made);
    return o;
}
/* What the object stands for from now on: a NumPy scalar, or an array. */
static inline void
fr_type_set_scalar(PyObject *tensor, bool scalar)
{
    fr_object(tensor)->scalar = scalar;
    /* Every object owns a reference to fr_tensor_type, which it gives back as one of these; fr_number_type stays. */
    Py_SET_TYPE(tensor, scalar ? fr_number_type : fr_tensor_type);
}
/* A Tensor that takes over the handle; clears it on failure. */
PyObject *fr_type_take(struct fr_tensor *);
/* Turns the status of a tracing call into its result: the handle as a Tensor, or the exception. */
PyObject *fr_type_result(fr_status, struct fr_tensor *, const struct fr_err *);
/* The tensor is what views of its storage have as .base, unless it is a view itself. */
void      fr_type_become_base(PyObject *);
/* It is that no longer: it dies, or gets other memory. */
void      fr_type_be_no_base(PyObject *);
/* A new view of self, as it is to be seen: self is its base, unless it is a view itself; that of a number is of its own,
 * for numbers do not change, and without axes it is one itself, or if `array` an array. NULL stays NULL. */
PyObject *fr_type_first_view_of(PyObject *self, PyObject *view, bool array);
static inline PyObject *
fr_type_view_of(PyObject *self, PyObject *view, bool array)
{
    return !view || (fr_is_tensor(self) && fr_object(self)->is_base) ? view : fr_type_first_view_of(self, view, array);
}
/* As fr_type_result; a result without axes stands for a NumPy scalar, and may be one. */
PyObject *fr_type_result_scalar(fr_status, struct fr_tensor *, const struct fr_err *);
/* ---- become.c: what an accelerated call leaves behind */
int       fr_become_init(void);
/* Turns a Tensor that is nobody's loan into the array or number that it stands for, in place: 1. 0: it stays what it is,
 * a bool, of which NumPy has but two, or where this NumPy's objects are of another form. -1: an exception is set. */
int       fr_become(PyObject *tensor);
/* How many accelerated calls this thread is in; fr_call_begin and fr_call_end count them. The end of the outermost makes
 * what is left of its Tensors arrays and numbers; an exception that is set stays. */
extern FR_HIDDEN FR_THREAD_LOCAL int fr_call_depth;
void      fr_call_begin(void);
void      fr_call_end(void);
/* The same for one of them. False: that cannot be done now. */
bool      fr_made_leave(PyObject *tensor);
/* How many Tensors of this call live that are no loans; their handles go into `list`, which may be NULL. Of a call within
 * another one none, for what lives may be the other one's. */
size_t    fr_made_left(const struct fr_tensor **list);
/* Whether one of these cannot become what it stands for. */
bool      fr_made_stay(void);
/* What the caller of an accelerated function gets for a Tensor that is nobody's loan: a new reference, to the very object
 * where it can become what it stands for. */
PyObject *fr_shown(PyObject *tensor);

/* ---- finish.c: how an accelerated call ends */
struct fr_loan {               /* an array, and the tensor (a reference) that stands for it during a call */
    PyObject *array, *tensor;
};
enum { FR_LOANS_MAX = 256 };
/* Whether no two of the arrays can see one memory as different types: no storage does that. */
bool      fr_loans_are_apart(PyObject *const *array, int n);
/* Computes what was stored into the arguments' memory and all that the call has left; `result` (may be NULL): of a call
 * within another one. `again`: as fr_tensor_eval_again. */
fr_status fr_loans_eval(const struct fr_loan *, int n, PyObject *result, bool again, struct fr_err *);
/* Ends the loans for which something may be left to do. On false an exception is set. */
bool      fr_loans_give_back(const struct fr_loan *, int n, bool keep);
/* After that: whether somebody has kept a tensor of these, or one that cannot become what it stands for; and then, puts
 * that where the function of this `call` or `values` lead to it. On false an exception is set. */
bool      fr_loans_are_kept(const struct fr_loan *, int n);
bool      fr_loans_replace(PyObject *call, const struct fr_loan *, int n, PyObject *values);
void      fr_loans_end(const struct fr_loan *, int n);   /* lets go of the tensors, after that */
struct fr_callee;
struct fr_watch;
/* All of that, for a result (stolen) of tensors and numbers: what the caller gets, or NULL. `watch`: what is noted of the
 * call, or NULL; `repeated`: it will be, as soon as there is a plan. */
PyObject *fr_finish(struct fr_callee *, const struct fr_loan *, int n, PyObject *result, struct fr_watch *watch,
                    bool repeated);
/* For any other result, by accelerate.py; and after an exception, which stays. */
PyObject *fr_finish_long(PyObject *call, const struct fr_loan *, int n, PyObject *result);
void      fr_finish_raised(PyObject *call, const struct fr_loan *, int n);

extern PyMethodDef fr_convert_methods[];    /* convert.c */

/* ---- iterate.c */
int       fr_iterate_init(void);
PyObject *fr_iterate(PyObject *tensor);

/* ---- reach.c: whether values that are added lead to memory of arrays among `args`. Nothing may run in between. */
void      fr_reach_begin(PyObject *const *args, Py_ssize_t n);
void      fr_reach_add(PyObject *);
bool      fr_reach_meets(void);
extern PyMethodDef fr_reach_methods[];

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

bool      fr_type_is_view(PyObject *tensor);  /* it has a base */
PyObject *fr_flags_new(PyObject *tensor);
int       fr_flags_init(PyObject *module);
int       fr_flags_set_writeable(PyObject *tensor, bool on);

/* ---- value.c */
struct fr_value {
    struct fr_arg    arg;
    struct fr_tensor own;       /* a handle made for this call, if arg.t points here */
    PyObject        *object;    /* borrowed: what it was made from */
};
enum { FR_VALUE_ERROR = -1,   /* an exception is set */
       FR_VALUE_OK,
       FR_VALUE_HAND,         /* NumPy knows what to do with it, we do not */
       FR_VALUE_DEFER };      /* the other object's own operator shall answer */
/* Numbers and tensors only, no error, no allocation: false sends the caller to fr_value_get. */
static inline bool fr_value_fast(PyObject *o, struct fr_arg *arg);
/* Anything that np.asarray takes. For operators (`binary`), objects with operators of their own give
 * FR_VALUE_DEFER. */
int       fr_value_get(PyObject *o, bool binary, struct fr_value *);
/* What an operator does with an object that is no number, ndarray or tensor: an FR_VALUE_*. */
int       fr_value_operand(PyObject *o);
void      fr_value_clear(struct fr_value *);
/* fr_value_get for n objects, and fr_value_fit; clears them itself unless it returns OK. */
int       fr_value_all(fr_op op, fr_args objects, int n, bool binary, struct fr_value *,
                         struct fr_arg *args);
/* NEP 50: weak Python ints must fit the integer type that `op` computes in. Returns an FR_VALUE_*. */
int       fr_value_fit(fr_op op, struct fr_value *, int n);
/* Whether the Python int is in the range of the integer type. */
bool      fr_value_int_fits(PyObject *, fr_dtype);
/* The number as the dtype has it, converted by NumPy's rules of assignment. */
int       fr_value_store(PyObject *value, fr_dtype, struct fr_number *);
/* The same where `value` is one number; FR_VALUE_HAND: it is not. */
int       fr_value_element(PyObject *value, fr_dtype, struct fr_number *);
/* Any array-like as a tensor handle; FR_VALUE_HAND when its dtype is not ours. */
int       fr_value_tensor(PyObject *o, struct fr_value *);
/* The same for a function whose result has the dtype of `o`: HAND also where that is ours in foreign byte order. */
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

/* ---- element.c: one element in memory, as C's number and as Python's */
void      fr_element_number(fr_dtype, const void *bytes, struct fr_number *);
PyObject *fr_element_python(fr_dtype, const void *bytes);

/* ---- divisors.c: the number that each line of user code divided by last */
/* Whether the line that runs now divides by this number always, as far as is known. */
bool      fr_divisors_alike(double);
/* Whether the product with this number, traced there, stands for a division by its inverse. */
bool      fr_divisors_inverse(uint32_t site, double inverse);

/* ---- args.c: parsing. A signature lists parameter names; the first n_pos may be positional. */
enum { FR_MAX_PARAMS = 12 };
extern PyObject *fr_str_out, *fr_str_dtype, *fr_str_axis, *fr_str_copy;   /* interned names */
int       fr_args_init(void);
struct fr_signature {
    const char *name;
    int         n_required, n_pos, n;
    const char *params[FR_MAX_PARAMS];
    PyObject   *interned[FR_MAX_PARAMS];
};
/* Fills slots[0 .. n-1] with borrowed references, NULL where absent. */
int       fr_args_parse(struct fr_signature *, fr_args args, Py_ssize_t nargs, PyObject *kwnames,
                        PyObject **slots);
extern PyObject *fr_no_value;      /* numpy._NoValue: an argument that was not given; reductions.c */
PyObject *fr_args_tuple(fr_args args, Py_ssize_t n);   /* of the first n */
static inline bool fr_args_none(PyObject *o) { return !o || o == Py_None; }
int       fr_args_bool(PyObject *o, bool dflt, bool *out);
/* casting=: 'same_kind' or, which is noted, 'unsafe'; false where it is something else. */
bool      fr_args_casting(PyObject *o, bool *unsafe);
/* An int or a sequence of ints: a shape (no negative sizes unless allow_unknown, then -1 may occur). */
int       fr_args_dims(PyObject *o, bool allow_unknown, int *ndim, int64_t *dims);
/* A method's arguments: (2, 3) or ((2, 3),). */
int       fr_args_dims_packed(fr_args args, Py_ssize_t n, bool allow_unknown, int *ndim,
                              int64_t *dims);
int       fr_args_axis(PyObject *o, int ndim, int *axis);          /* one axis, normalised */
int       fr_args_axis_named(PyObject *o, int ndim, const char *name, int *axis);
int       fr_args_axes(PyObject *o, int ndim, uint32_t *mask);     /* None: all of them */
/* `name`: the parameter, for messages; "axis" is not mentioned. */
int       fr_args_axis_list(PyObject *o, int ndim, const char *name, int *n, int *axes);
int       fr_args_order(PyObject *o, const char *allowed, char dflt, char *out);
/* out=: TypeError for a tensor that stands for a scalar, which nothing can be stored into. */
int       fr_args_out(PyObject *out);
/* `device=`: None or "cpu". */
int       fr_args_device(PyObject *o);
/* A module function called with `self` before its arguments. */
PyObject *fr_args_method(PyObject *(*function)(PyObject *, fr_args, Py_ssize_t, PyObject *), PyObject *self,
                         fr_args args, Py_ssize_t nargs, PyObject *kw);

/* ---- numpy.c */
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
               FR_VIEW_EXPORT };  /* sees later stores; writable as the tensor is */
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
PyObject *fr_numpy_scalar_at(const struct fr_tensor *);  /* the same of one element without axes */
PyObject *fr_numpy_scalar_from(fr_dtype, const void *element);
PyTypeObject *fr_numpy_scalar_type(fr_dtype);            /* numpy.float64 and the like, borrowed */
PyTypeObject *fr_numpy_array_type(void);                 /* numpy.ndarray, borrowed */
/* A Tensor that stands for a NumPy number; the number itself where its dtype is not ours. */
PyObject *fr_numpy_number(PyObject *scalar);

/* ---- share.c */
PyObject *fr_share(PyObject *module, PyObject *array);
/* The last ndarray in the chain of bases; *tensor is set where the memory is a Tensor's own. */
PyObject *fr_share_root(PyObject *array, PyObject **tensor);
/* The dtype of the storage that an ndarray would be a window of: its own, or where it shows a component of complex
 * numbers, theirs. */
fr_dtype  fr_share_dtype(PyObject *array);
/* The addresses between which the elements of an ndarray lie; equal if there are none. */
void      fr_share_bounds(PyObject *array, char **low, char **high);
/* Whether those of two ndarrays meet. */
bool      fr_share_meet(PyObject *a, PyObject *b);
/* The same for the length of a call, in which nobody else uses the memory, until it is given back: then what was
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

/* ---- accelerate.c, accelerate_call.c */
int       fr_accelerate_init(PyObject *module);
struct fr_replays;
/* A call by the short way: positional arguments, then those named. Gives the tuple back where that is too much for it,
 * which no function returns. */
PyObject *fr_accelerate_call(struct fr_callee *, fr_args args, Py_ssize_t n_args, PyObject *names);
extern PyMethodDef fr_accelerate_methods[], fr_finish_methods[];

static inline bool
fr_is_container(PyObject *o)
{
    return PyTuple_CheckExact(o) || PyList_CheckExact(o) || PyDict_CheckExact(o);
}

/* ---- replay.c: calls of one closed function that need not run it again */
struct fr_captured_call;
/* Makes the call again if one like it is kept: true, with *result (NULL: an exception) and how many kernels ran. */
bool      fr_replays_call(struct fr_replays *, PyObject *call, fr_args args, Py_ssize_t n_args, PyObject *names,
                          PyObject **result, uint64_t *n_kernels);
/* Whether one more would be kept. */
bool      fr_replays_wanted(const struct fr_replays *);
/* Keeps the captured call, or counts that there was none (NULL). False: it is still the caller's. */
bool      fr_replays_add(struct fr_replays **, struct fr_captured_call *);
void      fr_replays_drop(struct fr_replays *);
int       fr_replays_traverse(const struct fr_replays *, visitproc, void *arg);  /* NULL is fine */

/* ---- capture.c: how a call comes to be kept */
struct fr_watch;
/* Before anything is lent: notes all that the function can reach. NULL, without an exception: it cannot be noted. */
struct fr_watch *fr_capture_watch(PyObject *call, fr_args args, Py_ssize_t n_args, PyObject *names);
void      fr_capture_begin(struct fr_watch *);   /* the function is about to run; */
void      fr_capture_ran(struct fr_watch *);     /* it has, and what it left is not computed yet */
/* After the evaluation, while tensors still stand for the arrays: the call will be kept, if it can be made again. */
void      fr_capture_keep(struct fr_watch *, struct fr_callee *into, const struct fr_loan *, int n_loans,
                         PyObject *result);
void      fr_capture_end(struct fr_watch *);     /* keeps or forgets it; NULL is fine */

/* ---- enter.c: a call whose arguments hold arrays in lists, dicts and objects, or that sees arrays by other names */
/* Runs the function with tensors for arrays and shows what it gave and stored as arrays; `again`: its calls come again
 * and again. Then what is computed has a plan made, and the call is kept if the last one had its plan. *refused: it is
 * not for this way, nothing was done. *body: the counters when the function ended. */
struct fr_call_counters;
PyObject *fr_enter_call(struct fr_callee *, struct fr_watch *, Py_ssize_t n_args, PyObject *names, bool again,
                        bool *refused, struct fr_call_counters *body);

/* ---- hand.c */
/* func(*args, **kw) with every tensor in it, at any depth, as an evaluated ndarray: writable, for a function that is not
 * NumPy's. */
PyObject *fr_hand_call(PyObject *func, fr_args args, Py_ssize_t n, PyObject *kwnames);
PyObject *fr_hand_dict(PyObject *func, PyObject *args, PyObject *kwargs);
/* numpy.<name>(...) in the same way. */
PyObject *fr_hand_name(const char *name, fr_args args, Py_ssize_t n, PyObject *kwnames);
/* What a function does with its first argument beyond reading it. */
enum fr_intent { FR_READS, FR_WRITES,   /* during the call */
                 FR_EXPORTS,            /* returns another look at its memory */
                 FR_TOUCHES };          /* whatever it likes, and with all other arguments, too */
/* ndarray.<name>: a method of args[0], with this intent on it. */
PyObject *fr_hand_method(const char *name, enum fr_intent, fr_args args, Py_ssize_t n,
                         PyObject *kwnames);

/* ---- namesake.c */
bool      fr_namesake_exists(fr_op);
/* The call of an operation's function by NumPy; TypeError where it has no such function. */
PyObject *fr_namesake_call(fr_op, fr_args args, Py_ssize_t nargs, PyObject *kwnames);
/* fr_errors_raise for an operation (out, dtype: NULL if not given): casting errors are NumPy's own. */
PyObject *fr_namesake_refuse(fr_status, const struct fr_err *, fr_op, const struct fr_arg *, int n,
                             const struct fr_tensor *out, PyObject *dtype) __attribute__((cold));

/* ---- resize.c */
PyObject *fr_resize_method(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw);

/* ---- method.c */
int       fr_method_init(PyObject *module);

/* ---- outside.c */
int       fr_outside_init(void);
/* What is called instead of a callable of others: it gets arrays and numbers for tensors. */
PyObject *fr_outside_of(PyObject *callable);

/* ---- names.c */
struct fr_name {
    const char *name;          /* a literal: its address is the key */
    bool        method;
    PyObject   *object;        /* numpy.<name>, or the interned name of a method */
    uint64_t    n_calls;
};
int       fr_names_init(void);
/* `name` lives as long as the process. NULL with an exception if NumPy lacks it. */
struct fr_name *fr_names_get(const char *name, bool method);
void      fr_names_count(struct fr_name *);
void      fr_names_count_function(PyObject *func);
PyObject *fr_names_counts(void);
void      fr_names_reset(void);

/* ---- info.c: why a value was computed, counted */
#define FR_SYNCS(SYNC)                                                                             \
    SYNC(bool) SYNC(number) SYNC(item) SYNC(print) SYNC(iteration) SYNC(buffer) SYNC(dlpack)       \
    SYNC(numpy) SYNC(pickle) SYNC(index) SYNC(eval) SYNC(fallback)
enum fr_sync {
#define FR_SYNC_ENUM(name) FR_SYNC_##name,
    FR_SYNCS(FR_SYNC_ENUM)
#undef FR_SYNC_ENUM
    FR_N_SYNCS
};
/* What an accelerated call compares before and after. */
struct fr_call_counters {
    uint64_t n_kernels, n_fallbacks, n_syncs, n_nodes;
};
void      fr_info_call_counters(struct fr_call_counters *);
void      fr_info_sync(enum fr_sync, const struct fr_tensor *);   /* counts if it is pending */
extern uint64_t fr_info_copied_bytes;      /* of ndarrays that entered expressions */
PyObject *fr_info_syncs(void);              /* a dict */
void      fr_info_reset(void);

/* ---- engine.c */
PyObject *fr_engine_explain(PyObject *tensors, const char *kind);
extern PyMethodDef fr_engine_methods[];

/* ---- handles.c: the tensors among objects, borrowed from these */
struct fr_handles {
    const struct fr_tensor **v;        /* `few` until there are more */
    size_t                   n, cap;
    const struct fr_tensor  *few[4];
};
#define FR_HANDLES(self) {.v = (self).few, .cap = FR_LEN((self).few)}
enum { FR_ANY_DEPTH = -1 };
/* Adds each tensor in `o`, itself or at most so many lists, tuples and dicts deep; MemoryError, RecursionError. */
int       fr_handles_add(struct fr_handles *, PyObject *o, int depth);
void      fr_handles_free(struct fr_handles *);
/* Computes all that are in the arguments, so deep, in one plan, and counts why. */
int       fr_handles_eval(fr_args args, Py_ssize_t n_args, int depth, enum fr_sync why);
/* True if a tensor stands somewhere in nested lists: then they are evaluated together. */
bool      fr_handles_hold_tensor(PyObject *o, int depth);
/* Tensors for which a call gets something else: an array or a number. */
struct fr_guests {
    struct fr_guest {
        PyObject *tensor, *shown;
    } *v;                               /* `few` until there are more */
    size_t          n, cap;
    struct fr_guest few[4];             /* most calls have fewer tensors */
};
/* One more, which takes the reference to what is shown; that, as a new one, or NULL, as for NULL. */
PyObject *fr_guests_add(struct fr_guests *, PyObject *tensor, PyObject *shown);
void      fr_guests_free(struct fr_guests *);
/* The items of a list or tuple as change(of, item) has them, as a list; the sequence itself if that changes none. */
PyObject *fr_handles_changed(PyObject *sequence, PyObject *(*change)(void *of, PyObject *), void *of);

extern PyType_Slot fr_number_slots[], fr_power_slots[], fr_product_slots[];   /* operators */

/* ---- number.c */
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
PyObject *fr_functions_clip(PyObject *module, fr_args, Py_ssize_t, PyObject *kwnames);
PyObject *fr_functions_round(PyObject *module, fr_args, Py_ssize_t, PyObject *kwnames);

/* ---- flat.c */
int       fr_flat_init(PyObject *module);
PyObject *fr_flat_new(PyObject *tensor, PyObject *theirs);      /* theirs: NumPy's iterator over its memory */

/* ---- ufunc.c */
int       fr_ufunc_init(PyObject *module);

/* A METH_FASTCALL | METH_KEYWORDS function in a PyMethodDef. */
#define FR_FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS

/* ---- product.c */
int       fr_product_init(void);                   /* finds NumPy's routines */

/* ---- take.c */
/* t[..., index[0], index[1], ..., ...]: the first array stands for `axis`, the others for those after it.
 * order as in fr_trace_take. FR_VALUE_*. */
int       fr_take_joint(const struct fr_tensor *t, const struct fr_tensor *const *index, int n, int axis,
                        char order, PyObject **result);
/* The same as the target of an assignment, now. FR_VALUE_HAND: nothing was written. */
int       fr_take_assign(const struct fr_tensor *t, const struct fr_tensor *const *index, int n, int axis,
                         PyObject *value);

/* ---- chosen.c */
/* What is assigned to places that are chosen, in t's dtype: a new handle. FR_VALUE_HAND: not an array or number whose
 * kind fits, of which NumPy would have something to say. */
int       fr_chosen_value(const struct fr_tensor *t, PyObject *value, struct fr_tensor *out);
/* Whether the array or tensor may show some of t's elements. NumPy, which reads it while it writes into t, then has
 * results of its own. */
bool      fr_chosen_meets(const struct fr_tensor *t, PyObject *o);
/* One or more of these are computed for an index, which is counted once. */
void      fr_chosen_sync(const struct fr_tensor *const *, int n);

/* ---- mask.c: a key that is one array of bools. FR_VALUE_HAND: it is something else, or left to NumPy */
int       fr_mask_get(PyObject *self, PyObject *key, PyObject **result);
int       fr_mask_set(PyObject *self, PyObject *key, PyObject *value);
/* nonzero(args[0]), of which where() with one argument is another `name`. */
PyObject *fr_mask_nonzero(const char *name, fr_args args, Py_ssize_t nargs, PyObject *kw);

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
PyObject *fr_shape_diagonal(const struct fr_tensor *, int64_t offset, int axis1, int axis2);

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

/* ---- creation.c, spread.c */
/* Name -> function, for code that says np.asarray and means a view of an ndarray. */
PyObject *fr_creation_behind_numpy(PyObject *module);
int       fr_creation_like(PyObject *o);      /* like=: only what we are like */
/* x.astype(...) */
PyObject *fr_creation_astype_method(PyObject *self, fr_args, Py_ssize_t, PyObject *kwnames);
PyObject *fr_creation_astype(const struct fr_tensor *, fr_dtype, char order);
PyObject *fr_spread_repeat(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw);

/* ---- index.c */
PyObject *fr_index_get(PyObject *self, PyObject *key);
int       fr_index_set(PyObject *self, PyObject *key, PyObject *value);
Py_ssize_t fr_index_length(PyObject *self);
PyObject *fr_index_item(PyObject *self, Py_ssize_t i);
int       fr_index_contains(PyObject *self, PyObject *value);
/* dst[...] = value, any value. */
int       fr_index_assign(struct fr_tensor *dst, PyObject *value);
int       fr_index_assign_number(struct fr_tensor *dst, PyObject *value);   /* one number only */

/* ---- tables of functions, one per file */
extern PyMethodDef fr_functions_methods[], fr_reductions_methods[], fr_creation_methods[],
    fr_fill_methods[], fr_views_methods[], fr_join_methods[], fr_spread_methods[], fr_pad_methods[],
    fr_dlpack_methods[], fr_hand_methods[], fr_share_methods[], fr_handed_functions[],
    fr_product_methods[], fr_take_methods[], fr_mask_methods[], fr_scalar_functions[], fr_outside_methods[];
/* Methods of Tensor; fr_methods_init joins the tables. */
extern PyMethodDef fr_tensor_methods[], fr_handed_methods[], fr_dispatch_tensor_methods[],
    fr_dlpack_tensor_methods[], fr_product_tensor_methods[],
    fr_take_tensor_methods[], fr_mask_tensor_methods[];
void      fr_methods_init(void);
int       fr_dispatch_init(PyObject *module);

#endif
