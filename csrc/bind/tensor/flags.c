/* bind/tensor/flags.c -- Tensor.flags: what numpy.ndarray.flags says, without computing the tensor. */
#include <string.h>

#include "bind/tensor/tensor.h"

struct flags_object {
    PyObject_HEAD
    PyObject *tensor;
};

static PyTypeObject *flags_type;

enum flag { C_CONTIGUOUS, F_CONTIGUOUS, OWNDATA, WRITEABLE, ALIGNED, WRITEBACKIFCOPY, FNC, FORC,
            BEHAVED, CARRAY, FARRAY, N_FLAGS };

static const struct {
    const char *attribute, *key, *short_key;
} names[N_FLAGS] = {
    [C_CONTIGUOUS] = {"c_contiguous", "C_CONTIGUOUS", "C"},
    [F_CONTIGUOUS] = {"f_contiguous", "F_CONTIGUOUS", "F"},
    [OWNDATA] = {"owndata", "OWNDATA", "O"},
    [WRITEABLE] = {"writeable", "WRITEABLE", "W"},
    [ALIGNED] = {"aligned", "ALIGNED", "A"},
    [WRITEBACKIFCOPY] = {"writebackifcopy", "WRITEBACKIFCOPY", "X"},
    [FNC] = {"fnc", "FNC", "FNC"},
    [FORC] = {"forc", "FORC", "FORC"},
    [BEHAVED] = {"behaved", "BEHAVED", "B"},
    [CARRAY] = {"carray", "CARRAY", "CA"},
    [FARRAY] = {"farray", "FARRAY", "FA"},
};

static bool
flag(PyObject *self, int which)
{
    PyObject               *tensor = ((struct flags_object *)self)->tensor;
    const struct fr_tensor *t = fr_of(tensor);
    bool                    c = t->layout->c_contig, f = t->layout->f_contig, w = !t->readonly && !fr_object(tensor)->scalar;

    switch (which) {
    case C_CONTIGUOUS: return c;
    case F_CONTIGUOUS: return f;
    case OWNDATA: return t->whole && !fr_type_is_view(tensor);
    case WRITEABLE: return w;
    case ALIGNED: return true;
    case FNC: return f && !c;
    case FORC: return f || c;
    case BEHAVED: return w;
    case CARRAY: return w && c;
    case FARRAY: return w && f && !c;
    default: return false;
    }
}

static PyObject *
get_flag(PyObject *self, void *which)
{
    return PyBool_FromLong(flag(self, (int)(intptr_t)which));
}

static int
set_flag(PyObject *self, int which, PyObject *value)
{
    int on = value ? PyObject_IsTrue(value) : -1;

    if (on < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_AttributeError, "Cannot delete flags");
        return -1;
    }
    if (which != WRITEABLE) {
        PyErr_Format(PyExc_AttributeError, "attribute '%s' of 'flags' objects is not writable",
                     names[which].attribute);
        return -1;
    }
    return fr_flags_set_writeable(((struct flags_object *)self)->tensor, on);
}

int
fr_flags_set_writeable(PyObject *tensor, bool on)
{
    /* What is read-only was made so by its owner, or is many elements in one place. */
    if (on && fr_of(tensor)->readonly && !fr_object(tensor)->locked) {
        PyErr_SetString(PyExc_ValueError, "cannot set WRITEABLE flag to True of this array");
        return -1;
    }
    if (!on && !fr_of(tensor)->readonly)
        fr_object(tensor)->locked = true;
    fr_of(tensor)->readonly = !on;
    return 0;
}

static int
set_writeable(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    return set_flag(self, WRITEABLE, value);
}

static int
find_key(PyObject *key)
{
    const char *s = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;

    for (int i = 0; s && i < N_FLAGS; i++)
        if (!strcmp(s, names[i].key) || !strcmp(s, names[i].short_key))
            return i;
    if (s && (!strcmp(s, "CONTIGUOUS") || !strcmp(s, "FORTRAN")))
        return *s == 'C' ? C_CONTIGUOUS : F_CONTIGUOUS;
    PyErr_SetString(PyExc_KeyError, "Unknown flag");
    return -1;
}

static PyObject *
flags_subscript(PyObject *self, PyObject *key)
{
    int i = find_key(key);

    return i < 0 ? NULL : PyBool_FromLong(flag(self, i));
}

static int
flags_assign(PyObject *self, PyObject *key, PyObject *value)
{
    int i = find_key(key);

    return i < 0 ? -1 : set_flag(self, i, value);
}

static PyObject *
get_num(PyObject *self, void *unused)
{
    /* NumPy's bits, which are public: NPY_ARRAY_C_CONTIGUOUS and so on. */
    static const int bits[] = {[C_CONTIGUOUS] = 0x1, [F_CONTIGUOUS] = 0x2, [OWNDATA] = 0x4,
                               [WRITEABLE] = 0x400, [ALIGNED] = 0x100};
    long             num = 0;

    (void)unused;
    for (int i = 0; i <= ALIGNED; i++)
        num |= flag(self, i) ? bits[i] : 0;
    return PyLong_FromLong(num);
}

/* Equal to flags, NumPy's too, that say the same. */
static PyObject *
flags_richcompare(PyObject *self, PyObject *other, int op)
{
    PyObject *a, *b, *result = NULL;

    if ((op != Py_EQ && op != Py_NE) || !(b = PyObject_GetAttrString(other, "num"))) {
        PyErr_Clear();
        Py_RETURN_NOTIMPLEMENTED;
    }
    if ((a = get_num(self, NULL)))
        result = PyObject_RichCompare(a, b, op);
    Py_XDECREF(a);
    Py_DECREF(b);
    return result;
}

static PyObject *
flags_repr(PyObject *self)
{
    PyObject *text = PyUnicode_FromString("");

    for (int i = 0; text && i <= WRITEBACKIFCOPY; i++)
        Py_SETREF(text, PyUnicode_FromFormat("%U  %s : %s\n", text, names[i].key,
                                             flag(self, i) ? "True" : "False"));
    return text;
}

static void
flags_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    Py_XDECREF(((struct flags_object *)self)->tensor);
    PyObject_Free(self);
    Py_DECREF(type);
}

#define FLAG(name, which) {name, get_flag, NULL, NULL, (void *)(intptr_t)(which)}
static PyGetSetDef getset[] = {
    FLAG("c_contiguous", C_CONTIGUOUS),
    FLAG("contiguous", C_CONTIGUOUS),
    FLAG("f_contiguous", F_CONTIGUOUS),
    FLAG("fortran", F_CONTIGUOUS),
    FLAG("owndata", OWNDATA),
    FLAG("aligned", ALIGNED),
    FLAG("writebackifcopy", WRITEBACKIFCOPY),
    FLAG("fnc", FNC),
    FLAG("forc", FORC),
    FLAG("behaved", BEHAVED),
    FLAG("carray", CARRAY),
    FLAG("farray", FARRAY),
    {"writeable", get_flag, set_writeable, NULL, (void *)(intptr_t)WRITEABLE},
    {"num", get_num, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
#undef FLAG

PyObject *
fr_flags_new(PyObject *tensor)
{
    struct flags_object *o = PyObject_New(struct flags_object, flags_type);

    if (o)
        o->tensor = Py_NewRef(tensor);
    return (PyObject *)o;
}

int
fr_flags_init(PyObject *module)
{
    static PyType_Slot slots[] = {
        {Py_tp_doc, "Memory layout of a Tensor; attributes and keys as numpy.ndarray.flags."},
        {Py_tp_dealloc, flags_dealloc},
        {Py_tp_repr, flags_repr},
        {Py_tp_richcompare, flags_richcompare},
        {Py_tp_hash, PyObject_HashNotImplemented},
        {Py_tp_getset, getset},
        {Py_mp_subscript, flags_subscript},
        {Py_mp_ass_subscript, flags_assign},
        {0, NULL},
    };
    static PyType_Spec spec = {
        .name = "frit._core.Flags",
        .basicsize = sizeof(struct flags_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };

    flags_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return flags_type ? 0 : -1;
}
