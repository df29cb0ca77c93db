/* bind/accelerate/callee.c -- see callee.h. */
#include "base/env.h"
#include "bind/accelerate/callee.h"

#include <structmember.h>

PyTypeObject *fr_accelerated_type;
PyObject     *fr_callee_numpy, *fr_callee_stand_in;

/* ---- what the last call did */

static PyObject *
stats_repr(PyObject *self)
{
    const struct fr_call_stats *s = (struct fr_call_stats *)self;

    return PyUnicode_FromFormat("CallStats(kernels=%llu, fallbacks=%llu, syncs=%llu, calls=%llu)",
                                s->kernels, s->fallbacks, s->syncs, s->calls);
}

static PyMemberDef stats_members[] = {
    {"kernels", T_ULONGLONG, offsetof(struct fr_call_stats, kernels), 0, "Kernels run."},
    {"fallbacks", T_ULONGLONG, offsetof(struct fr_call_stats, fallbacks), 0, "Calls handed to NumPy."},
    {"syncs", T_ULONGLONG, offsetof(struct fr_call_stats, syncs), 0,
     "Values that Python needed on the way."},
    {"calls", T_ULONGLONG, offsetof(struct fr_call_stats, calls), 0, "Calls so far."},
    {"unchanged", T_ULONGLONG, offsetof(struct fr_call_stats, unchanged), 0,
     "Those of them that ran as they are, on NumPy, which was the faster way to the same bits."},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *
get_as_numpy(PyObject *self, void *unused)
{
    const struct fr_call_stats *s = (struct fr_call_stats *)self;

    (void)unused;
    return s->as_numpy ? PyDict_Copy(s->as_numpy) : PyDict_New();
}

static PyGetSetDef stats_getset[] = {
    {"as_numpy", get_as_numpy, NULL, "{reason: how many calls ran as they are, with NumPy}.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static void
stats_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    Py_CLEAR(((struct fr_call_stats *)self)->as_numpy);
    type->tp_free(self);
    Py_DECREF(type);
}

int
fr_callee_ran_as_numpy(struct fr_call_stats *s, PyObject *function, PyObject *reason)
{
    PyObject *old, *new = NULL;
    int       st = -1;

    s->kernels = s->fallbacks = s->syncs = 0;
    s->calls++;
    if (FR_UNLIKELY(fr_env.log_bits & FR_LOG_FALLBACKS)) {
        PyObject *text = PyUnicode_FromFormat("%R runs as it is, with NumPy: %U", function, reason);

        fr_info_log_text(text);
        Py_XDECREF(text);
    }
    if (!s->as_numpy && !(s->as_numpy = PyDict_New()))
        return -1;
    if ((old = PyDict_GetItemWithError(s->as_numpy, reason)) || !PyErr_Occurred())
        new = PyLong_FromSize_t((old ? PyLong_AsSize_t(old) : 0) + 1);
    if (new)
        st = PyDict_SetItem(s->as_numpy, reason, new);
    Py_XDECREF(new);
    return st;
}

static PyType_Slot stats_slots[] = {
    {Py_tp_doc,
     "What the last call of an accelerated function did, and how many calls there were."},
    {Py_tp_repr, stats_repr},
    {Py_tp_members, stats_members},
    {Py_tp_getset, stats_getset},
    {Py_tp_dealloc, stats_dealloc},
    {0, NULL},
};

static PyType_Spec   stats_spec = {"frit.accelerate.CallStats", sizeof(struct fr_call_stats), 0,
                                   Py_TPFLAGS_DEFAULT, stats_slots};
PyTypeObject        *fr_callee_stats_type;

int
fr_callee_init(PyObject *module)
{
    fr_callee_stats_type = (PyTypeObject *)PyType_FromSpec(&stats_spec);
    if (!fr_callee_stats_type)
        return -1;
    return PyModule_AddObjectRef(module, "CallStats", (PyObject *)fr_callee_stats_type);
}

/* ---- the function */

/* Whether it is such a tuple, with the fields in their order. */
static bool
is_call(PyObject *call)
{
    static const char *const names[] = {
#define NAME(name) #name,
        FR_CALLEE_FIELDS(NAME)
#undef NAME
    };
    PyObject *fields = PyTuple_Check(call) ? PyObject_GetAttrString(call, "_fields") : NULL;
    bool      is = fields && PyTuple_Check(fields) && PyTuple_GET_SIZE(fields) == FR_CALLEE_N;

    for (Py_ssize_t i = 0; is && i < FR_CALLEE_N; i++)
        is = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(fields, i), names[i]) == 0;
    PyErr_Clear();
    Py_XDECREF(fields);
    return is && Py_IS_TYPE(FR_CALLEE(call, stats), fr_callee_stats_type);
}

bool
fr_callee_set(struct fr_callee *f, PyObject *call)
{
    if (!is_call(call))
        return false;
    f->call = Py_NewRef(call);
    return true;
}

bool
fr_callee_put_global(PyObject *call, Py_ssize_t i, PyObject *value)
{
    PyObject *globals = PyTuple_GET_ITEM(FR_CALLEE(call, inside), 1);
    PyObject *name = PyTuple_GET_ITEM(FR_CALLEE(call, names), i);

    if (value)
        return PyDict_SetItem(globals, name, value) == 0;
    return !PyDict_GetItemWithError(globals, name) || PyDict_DelItem(globals, name) == 0;
}

bool
fr_callee_put_cell(PyObject *call, Py_ssize_t i, PyObject *value)
{
    PyObject *cells = PyTuple_GET_ITEM(FR_CALLEE(call, inside), 2);

    return PyCell_Set(PyTuple_GET_ITEM(cells, i), value) == 0;
}

bool
fr_callee_closed(PyObject *call, bool *stores, PyObject **attributes)
{
    PyObject *closed = FR_CALLEE(call, closed);

    if (closed == Py_None)
        return false;
    *attributes = PyTuple_GET_ITEM(closed, 0);
    *stores = PyTuple_GET_ITEM(closed, 1) == Py_True;
    return true;
}

bool
fr_callee_is_traced(void)
{
    const PyThreadState *t = PyThreadState_Get();

    return t->c_tracefunc || t->c_profilefunc;
}

bool
fr_callee_is_number(PyObject *o)
{
    if (PyModule_CheckExact(o))
        return o == fr_callee_numpy || o == fr_callee_stand_in;
    return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || o == Py_None ||
           PyUnicode_CheckExact(o) || PyComplex_CheckExact(o) || fr_numpy_is_scalar(o);
}
