/* bind/accelerate/become.c -- Tensors that an accelerated call leaves behind become arrays and numbers, in place.
 *
 * What a function stores where nobody looks afterwards, into a list of its module, an attribute of somebody's object, a
 * closure, cannot be replaced. So the object itself changes: a Tensor is as large as an ndarray and takes over the parts
 * of a new one over its memory, under its own address. The Tensors that a call makes hang together in a ring, and those
 * that are left in it at the end have been left somewhere. */
#include "bind/accelerate/accelerate.h"

#include <string.h>

#include "bind/numpy/npy.h"

enum { FRONT = offsetof(struct fr_tensor_object, t) }; /* bytes that are NumPy's afterwards */

static bool      arrays_fit;
static PyObject *nothing; /* its handle is what is left behind a number */

/* ---- what can become */

/* Whether the object can hold one of this type, and the type's own end of it will do. */
static bool
fits(const PyTypeObject *type)
{
    return type->tp_basicsize <= FRONT && type->tp_itemsize == 0 && type->tp_dictoffset == 0 &&
           !(type->tp_flags & (Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HEAPTYPE));
}

static bool
can_become(const struct fr_tensor_object *o)
{
    /* There are but two bools, which NumPy tells by their addresses; what has weak references is no number. */
    return o->scalar ? o->t.dtype != FR_BOOL && !o->weakrefs && fits(fr_numpy_scalar_type(o->t.dtype)) : arrays_fit;
}

/* ---- the ring */

static FR_THREAD_LOCAL struct fr_made ring; /* in the outermost call of this thread, */
static FR_THREAD_LOCAL bool           is_interrupted; /* which ends by Ctrl-C */

static struct fr_tensor_object *
object_of(struct fr_made *m)
{
    return (struct fr_tensor_object *)((char *)m - offsetof(struct fr_tensor_object, made));
}

void
fr_call_begin(void)
{
    if (fr_call_depth++)
        return;
    ring = (struct fr_made){&ring, &ring};
    fr_made_now = &ring;
    is_interrupted = false;
}

void
fr_call_raised(PyObject *type)
{
    is_interrupted = type && fr_call_depth == 1 && PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt);
}

static bool
is_left(const struct fr_tensor_object *o)
{
    return o->end == FR_END_NOTHING && o->t.storage;
}

bool
fr_call_is_interrupted(void)
{
    return is_interrupted;
}

size_t
fr_made_left(const struct fr_tensor **list)
{
    size_t n = 0;

    if (fr_call_depth != 1 || is_interrupted)
        return 0;
    for (struct fr_made *m = ring.next; m != &ring; m = m->next) {
        if (!is_left(object_of(m)))
            continue;
        if (list)
            list[n] = &object_of(m)->t;
        n++;
    }
    return n;
}

bool
fr_made_stay(void)
{
    if (fr_call_depth != 1 || fr_call_keeps)
        return false;
    for (struct fr_made *m = ring.next; m != &ring; m = m->next)
        if (is_left(object_of(m)) && !can_become(object_of(m)))
            return true;
    return false;
}

bool
fr_made_leave(PyObject *tensor)
{
    PyObject *type, *value, *trace;
    bool      done;

    PyErr_Fetch(&type, &value, &trace);
    done = fr_become(tensor) >= 0; /* else it stays a Tensor, which says the same when it is asked */
    if (!done && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        PyErr_SetInterrupt();
    if (!done)
        PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return done;
}

void
fr_made_leave_all(void (*note)(PyObject *))
{
    struct fr_made *m = ring.next;

    while (fr_call_depth == 1 && m != &ring) {
        struct fr_tensor_object *o = object_of(m);

        if (!is_left(o) || !can_become(o)) {
            m = m->next;
            continue;
        }
        Py_INCREF(o);
        if (!fr_made_leave((PyObject *)o)) {
            m = &ring;
        } else {
            if (note)
                note((PyObject *)o);
            m = ring.next; /* what others let go of meanwhile is gone */
        }
        Py_DECREF(o);
    }
}

void
fr_call_end(void)
{
    struct fr_made made;
    bool           goes_well = true;

    FR_ASSERT(fr_call_depth > 0);
    if (--fr_call_depth)
        return;
    FR_ASSERT(fr_made_now == &ring);
    fr_made_link_behind(&ring, &made);
    fr_made_unlink(&ring);
    fr_made_now = &fr_made_outside;
    /* Others may drop some meanwhile, for computing lets them run. */
    while (made.next != &made) {
        struct fr_tensor_object *o = object_of(made.next);

        fr_made_unlink(&o->made);
        fr_made_link(&o->made);
        if (!goes_well || !is_left(o) || fr_call_keeps || (is_interrupted && fr_tensor_is_pending(&o->t)))
            continue;
        Py_INCREF(o);
        goes_well = fr_made_leave((PyObject *)o);
        Py_DECREF(o);
    }
    FR_ASSERT(made.prev == &made); /* whoever is dropped leaves both ways */
    is_interrupted = false;
}

/* ---- becoming */

/* The parts of `from`, which is nobody else's, behind the head. */
static void
take_over(PyObject *o, PyObject *from)
{
    enum { HEAD = sizeof(PyObject) };

    memcpy((char *)o + HEAD, (char *)from + HEAD, (size_t)Py_TYPE(from)->tp_basicsize - HEAD);
    Py_SET_TYPE(o, Py_TYPE(from));
    Py_DECREF(fr_tensor_type);
}

static int
become_number(struct fr_tensor_object *o)
{
    PyObject *number;

    if (!(number = fr_numpy_scalar_of((PyObject *)o)))
        return -1;
    fr_made_unlink(&o->made);
    fr_tensor_clear(&o->t);
    take_over((PyObject *)o, number);
    Py_DECREF(number);
    o->t = *fr_of(nothing);
    o->special = 0;
    return 1;
}

static int
become_array(struct fr_tensor_object *o)
{
    PyObject        *view, *weakrefs = o->weakrefs;
    struct fr_tensor t = o->t;

    if (!(view = fr_numpy_view((PyObject *)o, FR_VIEW_OWN)))
        return -1;
    if (!PyArray_BASE(fr_array(view))) /* it has the memory */
        t = *fr_of(nothing);
    fr_type_be_no_base((PyObject *)o);
    fr_made_unlink(&o->made);
    take_over((PyObject *)o, view);
    o->weakrefs = weakrefs;
    PyArray_Type.tp_free(view); /* what it referred to is the object's now */
    /* The array's base has the same handle and lives as long as the array. */
    fr_tensor_clear(&o->t);
    o->t = t;
    o->special = 0;
    return 1;
}

int
fr_become(PyObject *tensor)
{
    struct fr_tensor_object *o = fr_object(tensor);

    return !can_become(o) ? 0 : o->scalar ? become_number(o) : become_array(o);
}

PyObject *
fr_shown(PyObject *tensor)
{
    int st = fr_call_keeps ? 1 : fr_become(tensor);

    if (st)
        return st > 0 ? Py_NewRef(tensor) : NULL;
    return fr_numpy_shown(tensor);
}

PyObject *
fr_shown_last(PyObject *tensor)
{
    if (Py_REFCNT(tensor) > 1 || fr_call_keeps) /* somebody else has it, too: it is one object here and there */
        return fr_shown(tensor);
    return fr_numpy_given(tensor);
}

int
fr_become_init(void)
{
    static const int64_t none[1];
    const double         nan = Py_NAN;
    struct fr_tensor     t;
    struct fr_err        err;

#ifndef Py_TRACE_REFS
    arrays_fit = fits(&PyArray_Type) && PyArray_Type.tp_weaklistoffset == offsetof(struct fr_tensor_object, weakrefs);
#endif
    return (nothing = fr_type_result(fr_tensor_from_copy(&nan, FR_F64, 0, none, none, &t, &err), &t, &err)) ? 0 : -1;
}
