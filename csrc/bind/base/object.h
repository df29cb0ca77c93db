/* bind/base/object.h -- the Tensor object, of which all of bind/ knows the fields.
 *
 * Everything in bind/ runs under the GIL. Functions that return PyObject * return a new reference, or
 * NULL with an exception set; those that return int return -1 with an exception set. */
#ifndef FR_BIND_BASE_OBJECT_H
#define FR_BIND_BASE_OBJECT_H

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
                   FR_END_LOAN_RESHAPED, /* its array gets the shape that was set here */
                   FR_END_STANDS };  /* it stands for an array in an accelerated call, and nothing over its memory is put off */

/* frit.Tensor, and the type below it of what stands for a NumPy scalar; both are final. */
extern FR_HIDDEN PyTypeObject *fr_tensor_type, *fr_number_type;
FR_HIDDEN void fr_type_dealloc(PyObject *tensor);

static inline bool
fr_is_tensor(PyObject *o)
{
    return Py_TYPE(o)->tp_dealloc == fr_type_dealloc;    /* no other type has it */
}
/* What keeps the memory of an array that a tensor is shown as, and is its base: an object as a Tensor is, which is none. */
extern FR_HIDDEN PyTypeObject *fr_memory_type;
static inline bool
fr_is_memory(PyObject *o)
{
    return Py_IS_TYPE(o, fr_memory_type);
}
int       fr_memory_init(void);
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
extern FR_HIDDEN uint64_t fr_type_made;    /* objects so far */
/* An empty Tensor; the caller fills .t. */
static inline struct fr_tensor_object *
fr_type_new(void)
{
    struct fr_tensor_object *o;

    fr_type_made++;
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
bool      fr_type_is_view(PyObject *tensor);  /* it has a base */

/* Accelerated calls that this thread is in (accelerate/become.c). */
extern FR_HIDDEN FR_THREAD_LOCAL int fr_call_depth;
/* Tensors of this thread's calls, all but those that are lent, stay tensors when these have ended. */
extern FR_HIDDEN FR_THREAD_LOCAL bool fr_call_keeps;

#endif
