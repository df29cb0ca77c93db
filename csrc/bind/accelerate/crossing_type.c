/* bind/accelerate/crossing_type.c -- the objects that stand in the code of the user's functions (python/frit/_membrane.py).
 *
 * COMES[value] stands behind each instruction that brings something in from elsewhere, MADE[value] behind calls, LEAVES[value]
 * before each that stores where others may look, STORED[value, container] before each that stores an item, CALLED[value] behind what is about to be called,
 * SHOWN[value] before what is shown as text, ITERATED[value] before a loop over it, POWER[a, b] instead of a ** b.
 * Outside of accelerated calls each gives its value back. */
#include "bind/accelerate/crossing.h"

#define CROSSINGS(C)                                                                                                    \
    C(COMES, fr_crossing_comes(x)) C(MADE, fr_crossing_made(x)) C(LEAVES, fr_crossing_leaves(x)) C(STORED, fr_crossing_stored(x)) \
    C(CALLED, fr_crossing_called(x)) C(SHOWN, fr_crossing_shown(x))                                                     \
    C(ITERATED, fr_crossing_iterated(x)) C(POWER, fr_called_power(x, false)) C(POWERED, fr_called_power(x, true))

/* By name: code that has them is pickled by some. */
#define CROSSING(name, expression)                                                                                      \
    static PyObject *name(PyObject *self, PyObject *x)                                                                  \
    {                                                                                                                   \
        (void)self;                                                                                                     \
        return expression;                                                                                              \
    }                                                                                                                   \
    static PyObject *reduce_##name(PyObject *self, PyObject *unused)                                                    \
    {                                                                                                                   \
        (void)self, (void)unused;                                                                                       \
        return PyUnicode_FromString(#name);                                                                             \
    }                                                                                                                   \
    static PyMethodDef name##_methods[] = {{"__reduce__", reduce_##name, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};    \
    static PyType_Slot name##_slots[] = {{Py_mp_subscript, name}, {Py_tp_methods, name##_methods}, {0, NULL}};          \
    static PyType_Spec name##_spec = {"frit._core._" #name, sizeof(PyObject), 0,                                        \
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, name##_slots};
CROSSINGS(CROSSING)
#undef CROSSING

/* ENTER is true where code goes on in its second copy: outside of calls, and in plain ones all but now and then. */
static int
enter(PyObject *self)
{
    (void)self;
    return !fr_membrane_is_active && (!fr_membrane_is_plain || fr_plain_is_seldom());
}

static PyObject *
reduce_enter(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyUnicode_FromString("ENTER");
}

static PyMethodDef enter_methods[] = {{"__reduce__", reduce_enter, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot enter_slots[] = {{Py_nb_bool, enter}, {Py_tp_methods, enter_methods}, {0, NULL}};
static PyType_Spec enter_spec = {"frit._core._ENTER", sizeof(PyObject), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, enter_slots};

static PyObject *
set_crossing(PyObject *module, PyObject *args)
{
    PyObject *codes, *prepare, *search, *find, *rounded;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!OOOO!:set_crossing", &PyDict_Type, &codes, &prepare, &search, &find, &PyFrozenSet_Type, &rounded))
        return NULL;
    fr_whose_set(codes, prepare, search);
    fr_called_set(find, rounded);
    Py_RETURN_NONE;
}

PyMethodDef fr_crossing_methods[] = {
    {"set_crossing", set_crossing, METH_VARARGS,
     "set_crossing(codes, prepare, search, find_callable, rounded, /)\n--\n\nWhat _membrane.py knows."},
    {NULL, NULL, 0, NULL},
};

int
fr_crossing_init(PyObject *module)
{
    struct {
        const char  *name;
        PyType_Spec *spec;
    } all[] = {
#define CROSSING(name, expression) {#name, &name##_spec},
        CROSSINGS(CROSSING) {"ENTER", &enter_spec},
#undef CROSSING
    };

    if (fr_crossing_steps_init() < 0 || fr_called_init(module) < 0)
        return -1;
    for (size_t i = 0; i < FR_LEN(all); i++) {
        PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(all[i].spec);
        PyObject     *crossing = type ? type->tp_alloc(type, 0) : NULL;
        int           st = crossing ? PyModule_AddObjectRef(module, all[i].name, crossing) : -1;

        Py_XDECREF(crossing);
        Py_XDECREF(type);
        if (st < 0)
            return -1;
    }
    return 0;
}
