/* bind/accelerate/reach.c -- whether arrays that are arguments are also in reach by other names: in a container or an
 * object that a function sees as a global, in a cell or as a default. What it does to them there, NumPy does at once,
 * and what it does to the argument is computed later; so such a call runs as it is.
 *
 * What an object refers to its own type tells, as it tells the garbage collector. The walk goes outwards, what is near
 * first, and ends after MAX_OBJECTS. Nothing of it runs code of others. */
#include "bind/accelerate/callee.h"
#include "bind/numpy/npy.h"

enum { MAX_OBJECTS = 1000, SLOTS = 4096, MAX_ARGUMENTS = 256 };

static struct walk {
    struct {
        char *low, *high;
    }                argument[MAX_ARGUMENTS];
    Py_ssize_t       n_arguments;
    PyObject        *todo[MAX_OBJECTS];          /* borrowed: nothing is changed meanwhile */
    int              n;
    bool             meets;
    struct {
        PyObject *object;
        uint32_t  walk;                          /* in which it was seen */
    } seen[SLOTS];
    uint32_t         number;
} walk;

/* Whether others may be found behind it. Functions are seen as their closures and defaults, see follow(). */
static bool
leads_on(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);

    return type->tp_traverse && !PyType_Check(o) && !PyModule_Check(o) && !PyCode_Check(o) && !PyFrame_Check(o) &&
           !PyWeakref_Check(o) && !fr_is_accelerated(o);
}

/* True the first time. */
static bool
is_new(PyObject *o)
{
    size_t at = ((uintptr_t)o >> 4) * 0x9E3779B97F4A7C15u >> 52;

    for (; walk.seen[at].walk == walk.number; at = (at + 1) % SLOTS)
        if (walk.seen[at].object == o)
            return false;
    walk.seen[at].object = o;
    walk.seen[at].walk = walk.number;
    return true;
}

static int
visit(PyObject *o, void *unused)
{
    (void)unused;
    if (PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyUnicode_CheckExact(o))
        return 0;
    if (PyArray_Check(o)) {
        char *low, *high;

        fr_share_bounds(o, &low, &high);
        for (Py_ssize_t i = 0; i < walk.n_arguments; i++)
            walk.meets |= low < walk.argument[i].high && walk.argument[i].low < high;
        return walk.meets;
    }
    if (walk.n < MAX_OBJECTS && leads_on(o) && is_new(o))
        walk.todo[walk.n++] = o;
    return 0;
}

static int
visit_items(PyObject *tuple)
{
    int st = 0;

    for (Py_ssize_t i = 0; tuple && st == 0 && i < PyTuple_GET_SIZE(tuple); i++)
        st = visit(PyTuple_GET_ITEM(tuple, i), NULL);
    return st;
}

static void
follow(PyObject *o)
{
    const PyFunctionObject *f = (PyFunctionObject *)o;

    if (!PyFunction_Check(o)) {
        Py_TYPE(o)->tp_traverse(o, visit, NULL);
    } else if (visit_items(f->func_closure) == 0 && visit_items(f->func_defaults) == 0 && f->func_kwdefaults) {
        visit(f->func_kwdefaults, NULL);
    }
}

void
fr_reach_begin(PyObject *const *args, Py_ssize_t n)
{
    if (++walk.number == 0)
        walk.number = 1; /* what a walk of that number has seen long ago may be passed over */
    walk.n = 0;
    walk.n_arguments = 0;
    walk.meets = n > MAX_ARGUMENTS; /* too many to tell */
    for (Py_ssize_t i = 0; i < n && !walk.meets; i++)
        if (PyArray_Check(args[i])) {
            fr_share_bounds(args[i], &walk.argument[walk.n_arguments].low, &walk.argument[walk.n_arguments].high);
            walk.n_arguments++;
        }
}

void
fr_reach_add(PyObject *o)
{
    visit(o, NULL);
}

bool
fr_reach_meets(void)
{
    for (int i = 0; i < walk.n && !walk.meets; i++)
        follow(walk.todo[i]);
    return walk.meets;
}

static PyObject *
reaches(PyObject *module, PyObject *args)
{
    PyObject *values, *arrays;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &values, &PyList_Type, &arrays))
        return NULL;
    fr_reach_begin(PySequence_Fast_ITEMS(arrays), PyList_GET_SIZE(arrays));
    visit_items(values);
    return PyBool_FromLong(fr_reach_meets());
}

PyMethodDef fr_reach_methods[] = {
    {"reaches", reaches, METH_VARARGS,
     "reaches(values, arrays, /)\n--\n\nWhether something that the tuple `values` leads to sees memory of one of the list of arrays."},
    {NULL, NULL, 0, NULL},
};
