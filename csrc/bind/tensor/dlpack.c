/* bind/tensor/dlpack.c -- DLPack, the exchange of arrays between libraries, in both directions.
 *
 * The structures are declared here from the specification (versions 1.x and, unversioned, 0.x). */
#include <string.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "bind/tensor/tensor.h"

struct dl_device {
    int32_t type;       /* DL_CPU, ... */
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
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 /* the host's, locked for copies */ };
enum { DL_READ_ONLY = 1, DL_IS_COPIED = 2 };
/* Of streams, by the Array API: none is to wait; which one is meant where nobody says it. */
enum { NO_STREAM = -1, LEGACY_STREAM = 1 };
enum { DL_INT, DL_UINT, DL_FLOAT, DL_COMPLEX = 5, DL_BOOL = 6 };

static const char used[] = "used_dltensor", fresh[] = "dltensor";
static const char used_versioned[] = "used_dltensor_versioned", fresh_versioned[] = "dltensor_versioned";

/* ---- out */

/* What a consumer holds: the tensor is kept alive by its own handle. */
struct export {
    struct fr_tensor handle;
    uint32_t         look;
    fr_device        device;       /* of the memory that is shown, */
    long long        stream;       /* and where it is used there; NO_STREAM: anywhere */
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
    if (fr_device_is_cuda(e->device)) { /* what goes on there comes before what the memory is next used for */
        const struct fr_backend *b = fr_backend_of(e->device);
        struct fr_err            ignored;

        b->order(b, (uint64_t)(e->stream == NO_STREAM ? LEGACY_STREAM : e->stream), false, &ignored);
    }
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

static struct dl_device
dl_device_of(fr_device d)
{
    return fr_device_is_cuda(d) ? (struct dl_device){DL_CUDA, d - FR_DEVICE_CUDA} : (struct dl_device){DL_CPU, 0};
}

static void
describe(struct export *e, void *data, struct dl_tensor *d)
{
    const struct fr_tensor *t = &e->handle;
    static const uint8_t    codes[] = {['b'] = DL_BOOL, ['i'] = DL_INT, ['u'] = DL_UINT,
                                       ['f'] = DL_FLOAT, ['c'] = DL_COMPLEX};

    *d = (struct dl_tensor){
        .data = data,
        .device = dl_device_of(e->device),
        .ndim = t->layout->ndim,
        .dtype = {codes[(int)fr_dtype_kind(t->dtype)], (uint8_t)(8 * fr_dtype_size(t->dtype)), 1},
        .shape = e->shape,
        .strides = e->strides,
    };
    memcpy(e->shape, fr_layout_dims(t->layout), t->layout->ndim * sizeof(int64_t));
    memcpy(e->strides, fr_layout_strides(t->layout), t->layout->ndim * sizeof(int64_t));
}

/* Its memory as others get it: its device's, whose stream waits for ours. */
static fr_status
export_memory(const struct fr_tensor *t, struct export *e, void **data, struct fr_err *err)
{
    const struct fr_backend *b = fr_backend_of(e->device);
    fr_status                st;

    if (!fr_device_is_cuda(e->device))
        return fr_tensor_export(t, !t->readonly, data, &e->look, err);
    if ((st = fr_tensor_export_there(t, !t->readonly, data, &e->look, err)) != FR_OK || e->stream == NO_STREAM)
        return st;
    if ((st = b->order(b, (uint64_t)e->stream, true, err)) != FR_OK)
        fr_storage_unlook(t->storage, e->look);
    return st;
}

/* Py_NotImplemented, borrowed: others see its memory on the host. */
static PyObject *
export_tensor(const struct fr_tensor *t, long long stream, bool versioned, bool copied)
{
    struct export *e = fr_calloc(1, sizeof *e);
    struct fr_err  err;
    fr_status      st;
    void          *data;
    PyObject      *capsule;

    if (!e)
        return PyErr_NoMemory();
    e->device = fr_tensor_place(t);
    e->stream = stream;
    st = export_memory(t, e, &data, &err);
    if (st != FR_OK) {
        fr_free(e);
        return st == FR_ENOTSUP ? Py_NotImplemented : fr_errors_raise(st, &err);
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

/* stream= of what is on a device. */
static int
stream_of(PyObject *o, fr_device device, long long *stream)
{
    *stream = LEGACY_STREAM;
    if (fr_args_none(o))
        return 0;
    if (!fr_device_is_cuda(device)) {
        PyErr_SetString(PyExc_RuntimeError, "frit only supports stream=None for what is in the host's memory");
        return -1;
    }
    *stream = PyLong_AsLongLong(o);
    if (*stream == -1 && PyErr_Occurred())
        return -1;
    if (*stream == 0 || *stream < NO_STREAM) {
        PyErr_Format(PyExc_ValueError, "stream cannot be %lld: it is None, -1, 1, 2 or the address of a stream of CUDA's", *stream);
        return -1;
    }
    return 0;
}

static bool
is_of(fr_device d, long type, long id)
{
    struct dl_device of = dl_device_of(d);

    return of.type == type && of.id == id;
}

/* The device that a pair names; ANY: none of ours. */
static fr_device
device_of(long type, long id)
{
    if (type == DL_CPU || type == DL_CUDA_HOST)
        return FR_DEVICE_HOST;
    return type == DL_CUDA && id >= 0 && id < FR_CUDA_DEVICES ? (fr_device)(FR_DEVICE_CUDA + id) : FR_DEVICE_ANY;
}

static PyObject *
dlpack(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[4], *copy = NULL, *capsule;
    fr_device device, to;
    long      major = 0, minor = 0, type, id;
    long long stream;
    bool      must_copy, may_copy;
    struct fr_err err;

    if (fr_device_of(fr_of(self), &device) < 0)
        return NULL;
    type = dl_device_of(device).type;
    id = dl_device_of(device).id;
    if (fr_args_parse(&dlpack_signature, args, nargs, kw, s) < 0 ||
        pair_of(s[1], "max_version", &major, &minor) < 0 ||
        pair_of(s[2], "dl_device", &type, &id) < 0)
        return NULL;
    may_copy = s[3] != Py_False;
    must_copy = s[3] == Py_True || !is_of(device, type, id);
    to = device_of(type, id);
    if (to == FR_DEVICE_ANY || (must_copy && !may_copy) || fr_device_open(to, &err) != FR_OK) {
        PyErr_Format(PyExc_BufferError, "unsupported device (%ld, %ld): the tensor is on %s", type, id, fr_device_name(device));
        return NULL;
    }
    if (stream_of(s[0], to, &stream) < 0)
        return NULL;
    if (fr_of(self)->readonly && major < 1 && !must_copy) {
        PyErr_SetString(PyExc_BufferError,
                        "Cannot export readonly array since signalling readonly is unsupported by "
                        "DLPack (supported by newer DLPack version).");
        return NULL;
    }
    fr_info_sync(FR_SYNC_dlpack, fr_of(self));
    if (!must_copy) {
        capsule = export_tensor(fr_of(self), stream, major >= 1, false);
        if (capsule != Py_NotImplemented)
            return capsule;
        if (!may_copy)
            return PyErr_Format(PyExc_BufferError, "others see the tensor's memory on the host: on %s there is but a copy",
                                fr_device_name(device));
    }
    if (to == device)
        copy = fr_creation_astype(fr_of(self), fr_of(self)->dtype, 'K');
    else
        copy = fr_device_placed(Py_NewRef(self), to);
    if (!copy)
        return NULL;
    capsule = export_tensor(fr_of(copy), stream, major >= 1, true);
    Py_DECREF(copy);
    return capsule;
}

static PyObject *
dlpack_device(PyObject *self, PyObject *unused)
{
    struct dl_device d;
    fr_device        device;

    (void)unused;
    if (fr_device_of(fr_of(self), &device) < 0)
        return NULL;
    d = dl_device_of(device);
    return Py_BuildValue("ii", d.type, d.id);
}

PyMethodDef fr_dlpack_tensor_methods[] = {
    {"__dlpack__", FR_FAST(dlpack),
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule over the tensor's memory, version 1.0 if the consumer takes that. stream: in which\n"
     "it is used on a GPU, whose work from then on waits for ours; dl_device: where it is wanted."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "(1, 0), the CPU, or (2, n), cuda:n."},
    {NULL, NULL, 0, NULL},
};

/* ---- in */

/* Its owner may use memory on a device for something else as soon as it is told: what reads it there is waited for. */
static void
wait_for(const struct dl_tensor *t)
{
    const struct fr_backend *b = fr_backend_of(t->device.type == DL_CUDA ? device_of(t->device.type, t->device.id) : FR_DEVICE_HOST);
    struct fr_err            ignored;

    if (b->wait)
        b->wait(b, &ignored);
}

static void
release_plain(void *owner)
{
    struct dl_managed *m = owner;

    wait_for(&m->tensor);
    if (m->deleter && Py_IsInitialized())
        m->deleter(m);
}

static void
release_versioned(void *owner)
{
    struct dl_managed_versioned *m = owner;

    wait_for(&m->tensor);
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
    fr_device     device = device_of(d->device.type, d->device.id);

    if (device == FR_DEVICE_ANY) {
        PyErr_Format(PyExc_BufferError, "Unsupported device in DLTensor: (%d, %d)", d->device.type, d->device.id);
        return -1;
    }
    if (device != FR_DEVICE_HOST && fr_errors_check(fr_device_open(device, &err), &err) < 0)
        return -1;
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
    st = fr_tensor_from_memory((char *)d->data + d->byte_offset, device == FR_DEVICE_HOST ? FR_DEVICE_ANY : device, dtype, d->ndim,
                               d->shape, strides, readonly, release, owner, out, &err);
    if (st == FR_OK) { /* the producer may look at any time, as long as there is something to see */
        st = (device == FR_DEVICE_HOST ? fr_tensor_export : fr_tensor_export_there)(out, true, &data, &look, &err);
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

/* Where the producer has it: a device of ours, opened, else ANY. -1: an exception. */
static int
producer_device(PyObject *o, fr_device *out)
{
    PyObject     *pair = PyObject_HasAttrString(o, "__dlpack_device__") ? PyObject_CallMethod(o, "__dlpack_device__", NULL) : NULL;
    long          type = DL_CPU, id = 0;
    struct fr_err err;
    int           st = pair ? 0 : PyErr_Occurred() ? -1 : 0;

    *out = FR_DEVICE_ANY;
    if (pair && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2) {
        type = PyLong_AsLong(PyTuple_GET_ITEM(pair, 0)); /* which may be an enum */
        id = PyLong_AsLong(PyTuple_GET_ITEM(pair, 1));
        st = PyErr_Occurred() ? -1 : 0;
    }
    Py_XDECREF(pair);
    if (st == 0 && (*out = device_of(type, id)) >= FR_DEVICE_CUDA)
        st = fr_errors_check(fr_device_open(*out, &err), &err);
    return st;
}

/* The producer's capsule: first in the words of version 1, then as of old. What goes on there is waited for by our stream. */
static PyObject *
ask(PyObject *o, PyObject *copy)
{
    PyObject *f, *kw, *none, *stream = NULL, *capsule = NULL;
    fr_device device;

    if (producer_device(o, &device) < 0 || !(f = PyObject_GetAttrString(o, "__dlpack__")))
        return NULL;
    kw = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
    none = PyTuple_New(0);
    if (kw && device >= FR_DEVICE_CUDA &&
        (!(stream = PyLong_FromUnsignedLongLong(fr_backend_of(device)->stream(fr_backend_of(device)))) ||
         PyDict_SetItemString(kw, "stream", stream) < 0))
        Py_CLEAR(kw);
    if (kw && none && (!copy || copy == Py_None || PyDict_SetItem(kw, fr_str_copy, copy) == 0))
        capsule = PyObject_Call(f, none, kw);
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError) && (!copy || copy == Py_None)) {
        PyErr_Clear();
        if (kw && stream && PyDict_DelItemString(kw, "max_version") == 0)
            capsule = PyObject_Call(f, none, kw);
        else
            capsule = PyObject_CallNoArgs(f);
    }
    Py_DECREF(f);
    Py_XDECREF(stream);
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
     "producer says so or cannot say; a GPU's stays there. device: where it is wanted, a copy where it is\n"
     "not. BufferError for devices and dtypes that frit has not."},
    {NULL, NULL, 0, NULL},
};
