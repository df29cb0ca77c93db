/* bind/accelerate/whose.c -- whose a class or a function is, and where a function begins.
 *
 * A class whose object comes, and a function that does, is prepared: if it is the user's, its code gets what crossing.c and
 * called.c have for it (python/frit/_membrane.py). */
#include "bind/accelerate/crossing.h"

#include <string.h>

#include "bind/numpy/npy.h"
#include "bind/tensor/tensor.h"

static PyObject *codes;    /* dict: id of code that crosses -> (it, the code that was written, its enter or None) */
static PyObject *prepare;  /* of a class or a function: its code becomes ours if it is the user's; says whose it is */

/* ---- what is known: tables from an address to what is held with it */

static struct fr_known known_types[FR_N_KNOWN], known_codes[FR_N_KNOWN];

struct fr_known *
fr_known_at(struct fr_known *known, const PyObject *what)
{
    return &known[((uintptr_t)what >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

void
fr_known_put(struct fr_known *k, PyObject *what, PyObject *instead, PyObject *plain, unsigned version, int whose)
{
    struct fr_known old = *k;

    *k = (struct fr_known){Py_NewRef(what), Py_XNewRef(instead), Py_XNewRef(plain), version, whose};
    Py_XDECREF(old.what);
    Py_XDECREF(old.instead);
    Py_XDECREF(old.plain);
}

/* Whose it is; -1: an exception. */
int
fr_whose_it_is(PyObject *what)
{
    PyObject *done = PyObject_CallOneArg(prepare, what);
    int       st = done ? (int)PyLong_AsLong(done) : -1;

    Py_XDECREF(done);
    return st;
}

int
fr_whose_class(PyTypeObject *type)
{
    struct fr_known *k = fr_known_at(known_types, (PyObject *)type);
    int           st;

    if (FR_LIKELY(k->what == (PyObject *)type && k->version == type->tp_version_tag))
        return k->whose;
    if ((st = fr_whose_it_is((PyObject *)type)) >= 0)
        fr_known_put(fr_known_at(known_types, (PyObject *)type), (PyObject *)type, NULL, NULL, type->tp_version_tag, st);
    return st;
}

int
fr_whose_function(PyObject *f)
{
    struct fr_known *k = fr_known_at(known_codes, PyFunction_GET_CODE(f));
    int           st;

    if (FR_LIKELY(k->what == PyFunction_GET_CODE(f)))
        return k->whose;
    if ((st = fr_whose_it_is(f)) >= 0)
        fr_known_put(fr_known_at(known_codes, PyFunction_GET_CODE(f)), PyFunction_GET_CODE(f), NULL, NULL, 0, st);
    return st;
}

bool
fr_crossing_is_of(PyObject *code, PyObject *written)
{
    PyObject *id = PyLong_FromVoidPtr(code), *two = id && codes ? PyDict_GetItemWithError(codes, id) : NULL;

    Py_XDECREF(id);
    PyErr_Clear();
    return two && PyTuple_GET_ITEM(two, 1) == written;
}

/* ---- where a function begins: the code that crosses, or what was written */

struct enter {
    PyObject_HEAD
    bool rounds; /* it calls what frit rounds otherwise than NumPy, as far as is known */
};

/* None: the code crosses. */
static PyObject *
enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(fr_membrane_is_active || (fr_membrane_is_plain && ((struct enter *)self)->rounds) ? Py_None : Py_True);
}

static PyObject *
enter_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct enter *e;
    int           harmless;

    if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "_Enter() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "p:_Enter", &harmless))
        return NULL;
    if ((e = (struct enter *)type->tp_alloc(type, 0)))
        e->rounds = !harmless;
    return (PyObject *)e;
}

static PyObject *
enter_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("O(O)", Py_TYPE(self), ((struct enter *)self)->rounds ? Py_False : Py_True);
}

/* The code that runs now has been handed a function that rounds, by another name than NumPy's. */
void
fr_whose_note_rounding(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject  *code = frame ? PyFrame_GetCode(frame) : NULL;
    PyObject      *id = code ? PyLong_FromVoidPtr(code) : NULL, *found = id ? PyDict_GetItemWithError(codes, id) : NULL;

    if (found && PyTuple_GET_ITEM(found, 2) != Py_None)
        ((struct enter *)PyTuple_GET_ITEM(found, 2))->rounds = true;
    PyErr_Clear();
    Py_XDECREF(id);
    Py_XDECREF(code);
}

static PyMethodDef enter_methods[] = {{"__reduce__", enter_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot enter_slots[] = {
    {Py_tp_new, enter_new},
    {Py_tp_methods, enter_methods},
    {Py_mp_subscript, enter},
    {0, NULL},
};

PyType_Spec fr_enter_spec = {"frit._core._Enter", sizeof(struct enter), 0, Py_TPFLAGS_DEFAULT, enter_slots};

bool
fr_whose_crosses(PyObject *code)
{
    PyObject *id = PyLong_FromVoidPtr(code);
    bool      is = id && PyDict_GetItemWithError(codes, id);

    PyErr_Clear();
    Py_XDECREF(id);
    return is;
}

void
fr_whose_set(PyObject *d, PyObject *p)
{
    Py_XSETREF(codes, Py_NewRef(d));
    Py_XSETREF(prepare, Py_NewRef(p));
}
