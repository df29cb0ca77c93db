/* bind/base/base.h -- what all files of bind/ may use: errors, lines of user code, arguments, counters, containers. It
 * makes and reads no ndarray. */
#ifndef FR_BIND_BASE_BASE_H
#define FR_BIND_BASE_BASE_H

#include "bind/base/object.h"
#include "ir/node.h"

typedef PyObject *const *fr_args;       /* as METH_FASTCALL passes them */
/* A METH_FASTCALL | METH_KEYWORDS function in a PyMethodDef. */
#define FR_FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS

/* ---- errors.c */
int       fr_errors_init(PyObject *module);
PyObject *fr_errors_raise(fr_status, const struct fr_err *) __attribute__((cold)); /* always NULL */
/* 0, or -1 with the exception: FR_VALUE_OK and FR_VALUE_ERROR. */
static inline int
fr_errors_check(fr_status st, const struct fr_err *err)
{
    if (FR_LIKELY(st == FR_OK))
        return 0;
    fr_errors_raise(st, err);
    return -1;
}
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
/* From here on texts call a file what function(its name) gives; NULL: by its name. */
void      fr_site_name_files(PyObject *function);
/* `text` with every "@123" replaced by the site's text, which does not come twice in a row. */
PyObject *fr_site_explain(const char *text);
void      fr_site_init(const char *package_dir, const char *numpy_dir);  /* code below these is not the user's */
#define FR_TRACE_HERE() (fr_trace_site = fr_site_here())
uint32_t  fr_site_scope(uint32_t id);   /* in which it was traced */

/* ---- scope.c: frit.scope */
enum { FR_MOST_SCOPES = 1 << 15 };
extern FR_THREAD_LOCAL uint32_t fr_scope_now;   /* of this thread; 0: none */
PyObject *fr_scope_text(uint32_t);              /* "outer/inner"; "" of none */
extern PyMethodDef fr_scope_methods[];

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
/* `device=`: a name as fr_device_named has it, of a device that there is, or None, FR_DEVICE_ANY. "auto" is the host
 * where there is no GPU. */
int       fr_args_device(PyObject *o, fr_device *out);
/* What is traced until the end of the block is computed there, unless operands are elsewhere; ANY changes nothing:
 *     FR_ON_DEVICE fr_device before = fr_device_chosen(); */
#define FR_ON_DEVICE __attribute__((cleanup(fr_device_restore)))
static inline void
fr_device_restore(const fr_device *before)
{
    if (FR_UNLIKELY(fr_devices_chosen != 0) && fr_device_chosen() != *before)
        fr_device_choose(*before);
}
/* What is traced of no operands from here on, within FR_ON_DEVICE, is computed where the tensor is. */
static inline void
fr_device_follow(const struct fr_tensor *t)
{
    if (!fr_tensor_is_anywhere(t))
        fr_device_choose(fr_tensor_device(t));
}
/* fr_args_device, and what is traced from here on is computed there. */
int       fr_args_on_device(PyObject *o);
/* Calls NumPy's function without a `device` that is named. */
PyObject *fr_args_call_on_host(PyObject *func, fr_args args, Py_ssize_t nargs, PyObject *kwnames);
/* A module function called with `self` before its arguments. */
PyObject *fr_args_method(PyObject *(*function)(PyObject *, fr_args, Py_ssize_t, PyObject *), PyObject *self,
                         fr_args args, Py_ssize_t nargs, PyObject *kw);

/* ---- element.c: one element in memory, as C's number and as Python's */
void      fr_element_number(fr_dtype, const void *bytes, struct fr_number *);
PyObject *fr_element_python(fr_dtype, const void *bytes);

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
    uint64_t n_kernels, n_fallbacks, n_syncs, n_nodes, n_elems, n_arrays, n_strange, n_evals, n_objects;
};
void      fr_info_call_counters(struct fr_call_counters *);
static inline uint64_t
fr_info_since(uint64_t now, uint64_t before) /* the counters may have been reset meanwhile */
{
    return now > before ? now - before : 0;
}
void      fr_info_sync(enum fr_sync, const struct fr_tensor *);   /* counts if it is pending */
/* Told of each tensor whose value is wanted; NULL: nobody is. */
extern FR_HIDDEN void (*fr_info_wanted)(const struct fr_tensor *);
extern uint64_t fr_info_copied_bytes;      /* of ndarrays that entered expressions */
PyObject *fr_info_syncs(void);              /* a dict */
/* Says a line of FRIT_LOG on sys.stderr, or counts it: a format of a name and, as %U, of the line of user code; or a text. */
void      fr_info_log(const char *format, const char *name);
void      fr_info_log_text(PyObject *text);
/* Says how often those came that have not been said since. */
void      fr_info_log_rest(void);
void      fr_info_reset(void);

/* ---- containers.c: the tensors among objects, borrowed from these */
struct fr_handles {
    const struct fr_tensor **v;        /* `few` until there are more */
    size_t                   n, cap;
    const struct fr_tensor  *few[4];
};
#define FR_HANDLES(self) {.v = (self).few, .cap = FR_LEN((self).few)}
enum { FR_ANY_DEPTH = -1 };
/* Adds each tensor in `o`, itself or at most so many lists, tuples and dicts deep; MemoryError, RecursionError. */
int       fr_containers_add(struct fr_handles *, PyObject *o, int depth);
void      fr_containers_free(struct fr_handles *);
/* Computes all that are in the arguments, so deep, in one plan, and counts why. */
int       fr_containers_eval(fr_args args, Py_ssize_t n_args, int depth, enum fr_sync why);
/* True if a tensor stands somewhere in nested lists: then they are evaluated together. */
bool      fr_containers_hold_tensor(PyObject *o, int depth);
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
PyObject *fr_containers_changed(PyObject *sequence, PyObject *(*change)(void *of, PyObject *), void *of);

static inline bool
fr_is_container(PyObject *o)
{
    return PyTuple_CheckExact(o) || PyList_CheckExact(o) || PyDict_CheckExact(o);
}

#endif
