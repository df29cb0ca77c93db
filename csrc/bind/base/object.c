/* bind/base/object.c -- the Tensor object: its life, and the list of dead ones.
 *
 * A Tensor owns one handle (runtime/tensor.h) and no Python object, so it takes no part in garbage
 * collection. Dead Tensors keep their type and wait in a free list: making one for a traced
 * operation is a pop. */
#include "bind/base/base.h"

#include <string.h>

PyTypeObject *fr_tensor_type, *fr_number_type, *fr_memory_type;

#if !defined(Py_GIL_DISABLED) && !defined(Py_TRACE_REFS)
struct fr_tensor_object *fr_type_waiting[FR_TYPE_WAITING_MAX];
size_t                   fr_type_n_waiting;
#endif
uint64_t fr_type_made;

struct fr_made                  fr_made_outside = {&fr_made_outside, &fr_made_outside};
FR_THREAD_LOCAL struct fr_made *fr_made_now = &fr_made_outside;
FR_THREAD_LOCAL int             fr_call_depth;
FR_THREAD_LOCAL bool            fr_call_keeps;

struct fr_tensor_object *
fr_type_alloc(void)
{
    struct fr_tensor_object *o = PyObject_New(struct fr_tensor_object, fr_tensor_type);

    if (!o)
        return NULL;
    /* C code that takes any object for an array (numpy.random's out=) finds one that may not be written to. */
    memset(o->of_array, 0, sizeof o->of_array);
    memset(o->of_array_too, 0, sizeof o->of_array_too);
    o->t.storage = NULL;
    o->weakrefs = NULL;
    o->special = 0;
    return o;
}

/* The waiting list is full. */
static FR_COLD void
discard(struct fr_tensor_object *o)
{
    PyTypeObject *type = Py_TYPE(o);

    fr_tensor_clear(&o->t);
    PyObject_Free(o);
    Py_DECREF(type);
}

/* The last of an object that is a handle and nothing more. */
FR_INLINE void
recycle(struct fr_tensor_object *o)
{
    fr_made_unlink(&o->made);
#if !defined(Py_GIL_DISABLED) && !defined(Py_TRACE_REFS)
    if (FR_LIKELY(fr_type_n_waiting < FR_TYPE_WAITING_MAX)) {
        struct fr_storage *s = o->t.storage;

        o->t.storage = NULL;
        fr_type_waiting[fr_type_n_waiting++] = o;
        if (FR_LIKELY(s != NULL)) /* last: it may let go of memory of others, and so run any code */
            fr_storage_leave(s, o->t.layout);
        return;
    }
#endif
    discard(o);
}

/* Weak references, flags, or something left to do. */
static FR_COLD void
dealloc_special(struct fr_tensor_object *o)
{
    enum fr_type_end end = o->end;

    fr_type_set_scalar((PyObject *)o, false);
    if (o->weakrefs) /* that it has as an array, also if it became a number later */
        PyObject_ClearWeakRefs((PyObject *)o);
    if (o->is_base)
        fr_type_be_no_base((PyObject *)o);
    o->special = 0;
    if (end == FR_END_HOLD)
        fr_tensor_unhold(o->token);
    else if (end == FR_END_LOOK)
        fr_storage_unlook(o->t.storage, o->token);
    else if (end == FR_END_LOAN || end == FR_END_LOAN_RESHAPED) /* never given back: not the place to compute anything */
        fr_storage_reclaim(o->t.storage, false, NULL);
    recycle(o);
}

void
fr_type_dealloc(PyObject *self)
{
    struct fr_tensor_object *o = fr_object(self);

    if (FR_LIKELY(!o->weakrefs) && FR_LIKELY(!o->special))
        recycle(o);
    else
        dealloc_special(o);
}

static void
memory_dealloc(PyObject *self)
{
    Py_SET_TYPE(self, fr_tensor_type); /* to which it has a reference */
    fr_type_dealloc(self);
}

int
fr_memory_init(void)
{
    static PyType_Slot slots[] = {
        {Py_tp_doc, "What keeps the memory of an ndarray that a tensor was shown as."},
        {Py_tp_dealloc, memory_dealloc},
        {0, NULL},
    };
    static PyType_Spec spec = {"frit.Memory", sizeof(struct fr_tensor_object), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};

    fr_memory_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return fr_memory_type ? 0 : -1;
}

PyObject *
fr_type_take(struct fr_tensor *t)
{
    struct fr_tensor_object *o = fr_type_new();

    if (!o) {
        fr_tensor_clear(t);
        return NULL;
    }
    o->t = *t;
    t->storage = NULL;
    return (PyObject *)o;
}

PyObject *
fr_type_result(fr_status st, struct fr_tensor *t, const struct fr_err *err)
{
    return st == FR_OK ? fr_type_take(t) : fr_errors_raise(st, err);
}

void
fr_type_be_no_base(PyObject *self)
{
    if (fr_object(self)->is_base)
        fr_storage_set_object(fr_of(self)->storage, NULL);
    fr_object(self)->is_base = false;
}

void
fr_type_become_base(PyObject *self)
{
    struct fr_tensor *t = fr_of(self);

    if (t->whole && !fr_object(self)->is_base && !fr_storage_object(t->storage)) {
        fr_object(self)->is_base = true;
        fr_storage_set_object(t->storage, self);
    }
}

PyObject *
fr_type_first_view_of(PyObject *self, PyObject *view, bool array)
{
    struct fr_err err;
    fr_status     st;

    if (view == self || !fr_is_tensor(self) || !fr_is_tensor(view))
        return view;
    if (!fr_object(self)->scalar) {
        if (fr_of(view)->storage == fr_of(self)->storage)
            fr_type_become_base(self);
        return view;
    }
    if (fr_of(view)->storage == fr_of(self)->storage &&
        (st = fr_tensor_set_apart(fr_of(view), &err)) != FR_OK) {
        Py_DECREF(view);
        return fr_errors_raise(st, &err);
    }
    fr_type_set_scalar(view, !array && fr_of(view)->layout->ndim == 0);
    return view;
}

bool
fr_type_is_view(PyObject *self)
{
    PyObject *base = fr_storage_object(fr_of(self)->storage);

    return base != self && !fr_object(self)->scalar && (base || !fr_of(self)->whole);
}
