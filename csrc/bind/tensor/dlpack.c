/* bind/tensor/dlpack.c -- DLPack, the exchange of arrays between libraries, in both directions.
 *
 * The structures are declared here from the specification (versions 1.x and, unversioned, 0.x). */
#include <string.h>

#include "base/alloc.h"
#include "bind/tensor/tensor.h"

struct dl_device {
    int32_t type;       /* 1 is the CPU */
    int32_t id;
};
struct dl_dtype {
    uint8_t  code, bits;
    uint16_t lanes;
};
struct dl_tensor {
    void            *data;
    struct dl_device device;
    int32_t          ndim;
    struct dl_dtype  dtype;
    int64_t         *shape;
    int64_t         *strides;      /* in elements; NULL for row order */
    uint64_t         byte_offset;
};
struct dl_managed {
    struct dl_tensor tensor;
    void            *context;
    void           (*deleter)(struct dl_managed *);
};
struct dl_managed_versioned {
    uint32_t         major, minor;
    void            *context;
    void           (*deleter)(struct dl_managed_versioned *);
    uint64_t         flags;
    struct dl_tensor tensor;
};
enum { DL_CPU = 1, DL_READ_ONLY = 1, DL_IS_COPIED = 2 };
enum { DL_INT, DL_UINT, DL_FLOAT, DL_COMPLEX = 5, DL_BOOL = 6 };

static const char used[] = "used_dltensor", fresh[] = "dltensor";
static const char used_versioned[] = "used_dltensor_versioned", fresh_versioned[] = "dltensor_versioned";

/* ---- out */

/* What a consumer holds: the tensor is kept alive by its own handle. */
struct export {
    struct fr_tensor handle;
    uint32_t         look;
    int64_t          shape[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    union {
        struct dl_managed           plain;
        struct dl_managed_versioned versioned;
    } u;
};

/* Consumers call this from any thread, with or without the GIL. */
static void
free_export(struct export *e)
{
    PyGILState_STATE gil;

    if (!Py_IsInitialized())
        return;
    gil = PyGILState_Ensure();
    fr_storage_unlook(e->handle.storage, e->look);
    fr_tensor_clear(&e->handle);
    fr_free(e);
    PyGILState_Release(gil);
}

static void
delete_plain(struct dl_managed *m)
{
    free_export(m->context);
}

static void
delete_versioned(struct dl_managed_versioned *m)
{
    free_export(m->context);
}

/* A capsule that nobody took still owns the export. */
static void
drop_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, fresh)) {
        struct dl_managed *m = PyCapsule_GetPointer(capsule, fresh);
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, fresh_versioned)) {
        struct dl_managed_versioned *m = PyCapsule_GetPointer(capsule, fresh_versioned);
        m->deleter(m);
    }
}

static void
describe(struct export *e, void *data, struct dl_tensor *d)
{
    const struct fr_tensor *t = &e->handle;
    static const uint8_t    codes[] = {['b'] = DL_BOOL, ['i'] = DL_INT, ['u'] = DL_UINT,
                                       ['f'] = DL_FLOAT, ['c'] = DL_COMPLEX};

    *d = (struct dl_tensor){
        .data = data,
        .device = {DL_CPU, 0},
        .ndim = t->layout->ndim,
        .dtype = {codes[(int)fr_dtype_kind(t->dtype)], (uint8_t)(8 * fr_dtype_size(t->dtype)), 1},
        .shape = e->shape,
        .strides = e->strides,
    };
    memcpy(e->shape, fr_layout_dims(t->layout), t->layout->ndim * sizeof(int64_t));
    memcpy(e->strides, fr_layout_strides(t->layout), t->layout->ndim * sizeof(int64_t));
}

static PyObject *
export_tensor(const struct fr_tensor *t, bool versioned, bool copied)
{
    struct export *e = fr_calloc(1, sizeof *e);
    struct fr_err  err;
    fr_status      st;
    void          *data;
    PyObject      *capsule;

    if (!e)
        return PyErr_NoMemory();
    st = fr_tensor_export(t, !t->readonly, &data, &e->look, &err);
    if (st != FR_OK) {
        fr_free(e);
        return fr_errors_raise(st, &err);
    }
    fr_tensor_copy(t, &e->handle);
    if (versioned) {
        e->u.versioned = (struct dl_managed_versioned){
            .major = 1, .minor = 0, .context = e, .deleter = delete_versioned,
            .flags = (t->readonly ? DL_READ_ONLY : 0) | (copied ? DL_IS_COPIED : 0)};
        describe(e, data, &e->u.versioned.tensor);
        capsule = PyCapsule_New(&e->u.versioned, fresh_versioned, drop_capsule);
    } else {
        e->u.plain = (struct dl_managed){.context = e, .deleter = delete_plain};
        describe(e, data, &e->u.plain.tensor);
        capsule = PyCapsule_New(&e->u.plain, fresh, drop_capsule);
    }
    if (!capsule)
        free_export(e);
    return capsule;
}

static struct fr_signature dlpack_signature = {
    "__dlpack__", 0, 0, 4, {"stream", "max_version", "dl_device", "copy"}, {NULL}};

/* A pair of ints, or None. */
static int
pair_of(PyObject *o, const char *what, long *a, long *b)
{
    if (fr_args_none(o))
        return 0;
    if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) != 2) {
        PyErr_Format(PyExc_TypeError, "%s must be None or a pair of integers", what);
        return -1;
    }
    *a = PyLong_AsLong(PyTuple_GET_ITEM(o, 0));
    *b = PyLong_AsLong(PyTuple_GET_ITEM(o, 1));
    return PyErr_Occurred() ? -1 : 1;
}

static PyObject *
dlpack(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[4], *copy, *capsule;
    long      major = 0, minor = 0, type = DL_CPU, id = 0;

    if (fr_args_parse(&dlpack_signature, args, nargs, kw, s) < 0 ||
        pair_of(s[1], "max_version", &major, &minor) < 0 ||
        pair_of(s[2], "dl_device", &type, &id) < 0)
        return NULL;
    if (!fr_args_none(s[0])) {
        PyErr_SetString(PyExc_RuntimeError, "frit only supports stream=None.");
        return NULL;
    }
    if (type != DL_CPU || id != 0) {
        PyErr_SetString(PyExc_BufferError, "unsupported device: frit's tensors are in host memory");
        return NULL;
    }
    if (fr_of(self)->readonly && major < 1 && (!s[3] || s[3] != Py_True)) {
        PyErr_SetString(PyExc_BufferError,
                        "Cannot export readonly array since signalling readonly is unsupported by "
                        "DLPack (supported by newer DLPack version).");
        return NULL;
    }
    fr_info_sync(FR_SYNC_dlpack, fr_of(self));
    if (s[3] != Py_True)
        return export_tensor(fr_of(self), major >= 1, false);
    copy = fr_creation_astype(fr_of(self), fr_of(self)->dtype, 'K');
    if (!copy)
        return NULL;
    capsule = export_tensor(fr_of(copy), major >= 1, true);
    Py_DECREF(copy);
    return capsule;
}

static PyObject *
dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return Py_BuildValue("ii", DL_CPU, 0);
}

PyMethodDef fr_dlpack_tensor_methods[] = {
    {"__dlpack__", FR_FAST(dlpack),
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule over the tensor's memory, version 1.0 if the consumer takes that."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "(1, 0): the CPU."},
    {NULL, NULL, 0, NULL},
};

/* ---- in */

static void
release_plain(void *owner)
{
    struct dl_managed *m = owner;

    if (m->deleter && Py_IsInitialized())
        m->deleter(m);
}

static void
release_versioned(void *owner)
{
    struct dl_managed_versioned *m = owner;

    if (m->deleter && Py_IsInitialized())
        m->deleter(m);
}

static fr_dtype
dtype_of(struct dl_dtype t)
{
    static const char kinds[] = {[DL_INT] = 'i', [DL_UINT] = 'u', [DL_FLOAT] = 'f',
                                 [DL_COMPLEX] = 'c', [DL_BOOL] = 'b'};

    if (t.lanes != 1 || t.code >= sizeof kinds || !kinds[t.code])
        return FR_N_DTYPES;
    for (int d = 0; d < FR_N_DTYPES; d++)
        if (fr_dtype_kind((fr_dtype)d) == kinds[t.code] &&
            8 * fr_dtype_size((fr_dtype)d) == t.bits)
            return (fr_dtype)d;
    return FR_N_DTYPES;
}

/* The imported memory as a handle; the producer's structure is the storage's owner. */
static int
import_tensor(const struct dl_tensor *d, bool readonly, void (*release)(void *), void *owner,
              struct fr_tensor *out)
{
    int64_t       strides[FR_MAX_DIMS];
    fr_dtype      dtype = dtype_of(d->dtype);
    int64_t       step = 1;
    struct fr_err err;
    fr_status     st;
    uint32_t      look;
    void         *data;
    bool          empty = false, too_far = false;

    if (d->device.type != DL_CPU) {
        PyErr_SetString(PyExc_BufferError, "Unsupported device in DLTensor: only the CPU's memory");
        return -1;
    }
    if (dtype == FR_N_DTYPES || d->ndim < 0 || d->ndim > FR_MAX_DIMS) {
        PyErr_Format(PyExc_BufferError, "Unsupported dtype or number of dimensions in DLTensor "
                     "(code %d, %d bits, %d lanes, %d dimensions)", d->dtype.code, d->dtype.bits,
                     d->dtype.lanes, (int)d->ndim);
        return -1;
    }
    for (int i = 0; i < d->ndim; i++)
        empty |= d->shape[i] == 0;
    /* The shape itself is looked at by fr_tensor_from_memory. Strides along which nobody steps may be anything. */
    for (int i = d->ndim - 1; i >= 0; i--) {
        if (__builtin_mul_overflow(d->strides ? d->strides[i] : step, fr_dtype_size(dtype), &strides[i])) {
            strides[i] = fr_dtype_size(dtype);
            too_far |= d->strides && d->shape[i] > 1 && !empty;
        }
        if (__builtin_mul_overflow(step, d->shape[i], &step))
            step = 0;
    }
    if (too_far) {
        PyErr_SetString(PyExc_BufferError, "DLTensor: the strides in bytes do not fit into 64 bits");
        return -1;
    }
    st = fr_tensor_from_memory((char *)d->data + d->byte_offset, dtype, d->ndim, d->shape, strides,
                               readonly, release, owner, out, &err);
    if (st == FR_OK) { /* the producer may look at any time, as long as there is something to see */
        st = fr_tensor_export(out, true, &data, &look, &err);
        if (st != FR_OK)
            fr_tensor_clear(out);
    }
    return fr_errors_check(st, &err);
}

static PyObject *
from_capsule(PyObject *capsule)
{
    struct fr_tensor t;

    if (PyCapsule_IsValid(capsule, fresh_versioned)) {
        struct dl_managed_versioned *m = PyCapsule_GetPointer(capsule, fresh_versioned);
        if (m->major > 1) {
            PyErr_SetString(PyExc_BufferError, "from_dlpack(): the exported DLPack major version is "
                                               "too high to be imported");
            return NULL;
        }
        if (import_tensor(&m->tensor, m->flags & DL_READ_ONLY, release_versioned, m, &t) < 0)
            return NULL;
        PyCapsule_SetName(capsule, used_versioned);
    } else {
        struct dl_managed *m = PyCapsule_GetPointer(capsule, fresh);
        /* Without a version nothing says whether writing is allowed: as NumPy, we do not. */
        if (!m || import_tensor(&m->tensor, true, release_plain, m, &t) < 0)
            return NULL;
        PyCapsule_SetName(capsule, used);
    }
    return fr_type_take(&t);
}

/* The producer's capsule: first in the words of version 1, then as of old. */
static PyObject *
ask(PyObject *o, PyObject *copy)
{
    PyObject *f = PyObject_GetAttrString(o, "__dlpack__"), *kw, *none, *capsule = NULL;

    if (!f)
        return NULL;
    kw = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
    none = PyTuple_New(0);
    if (kw && none && (!copy || copy == Py_None || PyDict_SetItem(kw, fr_str_copy, copy) == 0))
        capsule = PyObject_Call(f, none, kw);
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError) && (!copy || copy == Py_None)) {
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(f);
    }
    Py_DECREF(f);
    Py_XDECREF(kw);
    Py_XDECREF(none);
    return capsule;
}

static struct fr_signature from_signature = {"from_dlpack", 1, 1, 3, {"x", "device", "copy"}, {NULL}};

static PyObject *
from_dlpack(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[3], *capsule, *o;
    fr_device device;

    (void)module;
    if (fr_args_parse(&from_signature, args, nargs, kw, s) < 0 || fr_args_device(s[1], &device) < 0)
        return NULL;
    if (fr_is_tensor(s[0]) && s[2] != Py_True) /* another array over the same memory */
        return fr_device_placed(PyObject_CallMethod(s[0], "view", NULL), device);
    capsule = ask(s[0], s[2]);
    if (!capsule)
        return NULL;
    if (!PyCapsule_CheckExact(capsule)) {
        Py_DECREF(capsule);
        PyErr_SetString(PyExc_TypeError, "__dlpack__() did not return a capsule");
        return NULL;
    }
    o = from_capsule(capsule);
    Py_DECREF(capsule);
    return device == FR_DEVICE_ANY ? o : fr_device_placed(o, device);
}

PyMethodDef fr_dlpack_methods[] = {
    {"from_dlpack", FR_FAST(from_dlpack),
     "from_dlpack(x, /, *, device=None, copy=None)\n--\n\n"
     "A tensor over the memory of another library's array, by its __dlpack__. Read-only where the\n"
     "producer says so or cannot say. BufferError for other devices and dtypes."},
    {NULL, NULL, 0, NULL},
};
