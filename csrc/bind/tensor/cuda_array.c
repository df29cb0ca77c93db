/* bind/tensor/cuda_array.c -- __cuda_array_interface__, version 3: memory on a GPU as Numba, CuPy and PyTorch describe it.
 *
 * It names an address and says nothing of when that is used no longer: what we show stays for ever. */
#include <string.h>

#include "backends/backend.h"
#include "bind/tensor/tensor.h"

/* ---- out */

static const char kind_letters[] = "biufc";

/* "<f4" and the like. */
static void
type_string(fr_dtype d, char out[8])
{
    snprintf(out, 8, "%c%c%d", fr_dtype_size(d) == 1 ? '|' : '<', fr_dtype_kind(d), fr_dtype_size(d));
}

static PyObject *
tuple_of(int n, const int64_t *values, int64_t scale)
{
    PyObject *t = PyTuple_New(n), *v;

    for (int i = 0; t && i < n; i++) {
        if ((v = PyLong_FromLongLong(values[i] * scale)))
            PyTuple_SET_ITEM(t, i, v);
        else
            Py_CLEAR(t);
    }
    return t;
}

PyObject *
fr_cuda_array_get(PyObject *self, void *unused)
{
    const struct fr_tensor  *t = fr_of(self);
    const struct fr_layout  *l = t->layout;
    const struct fr_backend *b;
    fr_device                device;
    char                     type[8];
    struct fr_err            err;
    fr_status                st;
    uint32_t                 look;
    void                    *data;

    (void)unused;
    if (fr_device_of(t, &device) < 0)
        return NULL;
    b = fr_backend_of(device);
    if (!fr_device_is_cuda(device)) /* as if it were not there: others take arrays by asking for it */
        return PyErr_Format(PyExc_AttributeError, "the tensor is on %s: __cuda_array_interface__ is about memory of a GPU",
                            fr_device_name(device));
    fr_info_sync(FR_SYNC_dlpack, t);
    st = fr_tensor_export_there(t, !t->readonly, &data, &look, &err);
    if (st == FR_ENOTSUP)
        return PyErr_Format(PyExc_BufferError, "others see the tensor's memory on the host: on %s there would be but a copy",
                            fr_device_name(device));
    if (fr_errors_check(st, &err) < 0)
        return NULL;
    type_string(t->dtype, type);
    return Py_BuildValue("{s:i,s:N,s:s,s:(KO),s:N,s:K}", "version", 3, "shape", tuple_of(l->ndim, fr_layout_dims(l), 1), "typestr",
                         type, "data", (unsigned long long)(l->n_elems ? (uintptr_t)data : 0), t->readonly ? Py_True : Py_False,
                         "strides", tuple_of(l->ndim, fr_layout_strides(l), fr_dtype_size(t->dtype)), "stream",
                         (unsigned long long)b->stream(b));
}

/* ---- in */

struct described {
    fr_dtype  dtype;
    int       ndim;
    int64_t   shape[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    uint64_t  address, stream;
    bool      readonly;
};

static bool
is_wrong(const char *what)
{
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "__cuda_array_interface__: %s is not as the interface has it, or of no kind that frit has", what);
    return false;
}

/* A tuple of ints, or None, which leaves it. Its length; -1: something else. */
static int
ints_of(PyObject *o, int64_t *out)
{
    if (!o || o == Py_None)
        return 0;
    if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) > FR_MAX_DIMS)
        return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(o, i));
    return PyErr_Occurred() ? -1 : (int)PyTuple_GET_SIZE(o);
}

static fr_dtype
dtype_of(PyObject *o)
{
    const char *s = o && PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : NULL;
    char        want[8];

    for (int d = 0; s && s[0] && strchr(kind_letters, s[1]) && d < FR_N_DTYPES; d++) {
        type_string((fr_dtype)d, want);
        if (!strcmp(want + 1, s + 1) && s[0] != '>')
            return (fr_dtype)d;
    }
    return FR_N_DTYPES;
}

static bool
read_description(PyObject *of, struct described *d)
{
    PyObject *data = PyDict_GetItemString(of, "data"), *stream = PyDict_GetItemString(of, "stream");
    PyObject *mask = PyDict_GetItemString(of, "mask");
    int64_t   step;
    int       n_strides;

    if ((d->ndim = ints_of(PyDict_GetItemString(of, "shape"), d->shape)) < 0 || !PyDict_GetItemString(of, "shape"))
        return is_wrong("shape");
    if ((d->dtype = dtype_of(PyDict_GetItemString(of, "typestr"))) == FR_N_DTYPES)
        return is_wrong("typestr");
    if (!data || !PyTuple_Check(data) || PyTuple_GET_SIZE(data) != 2)
        return is_wrong("data");
    d->address = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(data, 0));
    d->readonly = PyObject_IsTrue(PyTuple_GET_ITEM(data, 1));
    if (PyErr_Occurred())
        return is_wrong("data");
    d->stream = stream && stream != Py_None ? PyLong_AsUnsignedLongLong(stream) : 0;
    if (PyErr_Occurred())
        return is_wrong("stream");
    if (mask && mask != Py_None)
        return is_wrong("mask");
    if ((n_strides = ints_of(PyDict_GetItemString(of, "strides"), d->strides)) < 0 || (n_strides && n_strides != d->ndim))
        return is_wrong("strides");
    step = fr_dtype_size(d->dtype);
    for (int i = d->ndim - 1; n_strides == 0 && i >= 0; i--) {
        d->strides[i] = step;
        if (d->shape[i] < 0 || __builtin_mul_overflow(step, d->shape[i], &step))
            return is_wrong("shape");
    }
    return true;
}

/* The object, of which our stream may still read. */
static void
release(void *owner)
{
    PyGILState_STATE gil;
    struct fr_err    ignored;

    if (!Py_IsInitialized())
        return;
    for (int d = FR_DEVICE_CUDA; fr_device_is_cuda((fr_device)d); d++)
        fr_cuda_backends[d - FR_DEVICE_CUDA].wait(&fr_cuda_backends[d - FR_DEVICE_CUDA], &ignored);
    gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)owner);
    PyGILState_Release(gil);
}

PyObject *
fr_cuda_array_from(PyObject *o)
{
    PyObject                *of = PyObject_GetAttrString(o, "__cuda_array_interface__");
    const struct fr_backend *b;
    struct described         d;
    struct fr_tensor         t;
    struct fr_err            err;
    fr_device                device = fr_device_now();
    fr_status                st = FR_OK;
    uint32_t                 look;
    void                    *data;
    bool                     ok = of && (PyDict_Check(of) ? read_description(of, &d) : is_wrong("the object"));

    Py_XDECREF(of);
    if (!ok)
        return NULL;
    if (d.address)
        st = fr_device_at(d.address, &device, &err);
    else if (device < FR_DEVICE_CUDA) /* nothing is anywhere */
        device = FR_DEVICE_CUDA;
    if (st == FR_OK && (st = fr_device_open(device, &err)) == FR_OK && d.stream) {
        b = fr_backend_of(device);
        st = b->order(b, d.stream, false, &err);
    }
    if (st == FR_OK)
        st = fr_tensor_from_memory((void *)(uintptr_t)d.address, device, d.dtype, d.ndim, d.shape, d.strides, d.readonly, release, o, &t,
                                   &err);
    if (fr_errors_check(st, &err) < 0)
        return NULL;
    Py_INCREF(o); /* until nothing reads the memory any more */
    if ((st = fr_tensor_export_there(&t, true, &data, &look, &err)) != FR_OK) { /* the owner may look at any time */
        fr_tensor_clear(&t);
        return fr_errors_raise(st, &err);
    }
    return fr_type_take(&t);
}
