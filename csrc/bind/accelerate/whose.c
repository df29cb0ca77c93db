/* bind/accelerate/whose.c -- whose a class or a function is.
 *
 * A class whose object comes, and a function that does, is prepared: if it is the user's, its code gets what crossing.c and
 * called.c have for it (python/frit/_membrane.py). */
#include "bind/accelerate/crossing.h"

#include <string.h>

#include "bind/numpy/npy.h"
#include "bind/tensor/tensor.h"

static PyObject *codes;    /* dict: id of code that crosses -> (it, the code that was written, where its second copy begins) */
static PyObject *prepare;  /* of a class or a function: its code becomes ours if it is the user's; says whose it is */

static PyObject *search;   /* see fr_whose_search */
static unsigned  n_prepared, n_searched;

/* ---- what is known: tables from an address to what is held with it */

enum { PLACES = 4 }; /* where something may be, which its address says */
static struct fr_known known_types[FR_N_KNOWN], known_codes[FR_N_KNOWN];

struct fr_known *
fr_known_at(struct fr_known *known, const PyObject *what)
{
    static unsigned  turn;
    struct fr_known *k = &known[(((uintptr_t)what >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54) & ~(uint64_t)(PLACES - 1)];

    _Static_assert(FR_N_KNOWN == 1 << 10, "of which a hash has 10 bits");
    for (int i = 0; i < PLACES; i++)
        if (k[i].what == what)
            return &k[i];
    for (int i = 0; i < PLACES; i++)
        if (!k[i].what)
            return &k[i];
    return &k[turn++ % PLACES];
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

    n_prepared++;
    Py_XDECREF(done);
    return st;
}

bool
fr_whose_search(void)
{
    PyObject *done;

    if (n_searched == n_prepared)
        return true;
    done = PyObject_CallNoArgs(search);
    n_searched = n_prepared;
    Py_XDECREF(done);
    return done != NULL;
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

/* The entry of code that crosses: borrowed; NULL: it is none. */
static PyObject *
entry_of(PyObject *code)
{
    PyObject *id = PyLong_FromVoidPtr(code), *found = id && codes ? PyDict_GetItemWithError(codes, id) : NULL;

    Py_XDECREF(id);
    PyErr_Clear();
    return found;
}

bool
fr_whose_crosses(PyObject *code)
{
    return entry_of(code) != NULL;
}

PyObject *
fr_whose_written(PyObject *code)
{
    PyObject *found = entry_of(code);

    return found ? PyTuple_GET_ITEM(found, 1) : code;
}

bool
fr_crossing_is_of(PyObject *code, PyObject *written)
{
    PyObject *found = entry_of(code);

    return found && PyTuple_GET_ITEM(found, 1) == written;
}

bool
fr_whose_all_cross(void)
{
    PyFrameObject *f = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    bool           all = true;

    while (f && all) {
        PyCodeObject  *code = PyFrame_GetCode(f);
        PyObject      *found = entry_of((PyObject *)code);
        PyFrameObject *caller = PyFrame_GetBack(f);

        all = !found || PyFrame_GetLasti(f) < PyLong_AsLong(PyTuple_GET_ITEM(found, 2));
        Py_DECREF(code);
        Py_DECREF(f);
        f = caller;
    }
    Py_XDECREF(f);
    return all;
}

void
fr_whose_set(PyObject *d, PyObject *p, PyObject *s)
{
    Py_XSETREF(codes, Py_NewRef(d));
    Py_XSETREF(prepare, Py_NewRef(p));
    Py_XSETREF(search, Py_NewRef(s));
}
