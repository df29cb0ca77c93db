/* bind/tensor/device.c -- devices: which there are, where what is new is made, tensors that go from one to another. */
#include "backends/backend.h"
#include "bind/tensor/tensor.h"

int
fr_device_of(const struct fr_tensor *t, fr_device *out)
{
    struct fr_err err;
    fr_status     st = FR_OK;

    if (fr_tensor_device(t) == FR_DEVICE_AUTO) {
        FR_TRACE_HERE();
        st = fr_tensor_eval(&t, 1, &err);
    }
    *out = fr_tensor_place(t);
    if (st == FR_OK && *out == FR_DEVICE_AUTO) /* another thread has stored into it meanwhile */
        *out = FR_DEVICE_HOST;
    return fr_errors_check(st, &err);
}

PyObject *
fr_device_placed(PyObject *o, fr_device device)
{
    const struct fr_tensor *t = o && fr_is_tensor(o) ? fr_of(o) : NULL;
    struct fr_tensor        there;
    struct fr_err           err;
    fr_status               st;
    PyObject               *result;

    if (!t)
        return o;
    if (device == FR_DEVICE_ANY && fr_tensor_is_shared(t))
        return o;
    if (device == FR_DEVICE_ANY)
        device = fr_tensor_is_anywhere(t) ? fr_device_now() : fr_tensor_device(t);
    if (fr_tensor_settle(t, device) || fr_tensor_device(t) == device)
        return o;
    FR_TRACE_HERE();
    st = fr_tensor_to_device(t, device, &there, &err);
    result = fr_type_result(st, &there, &err);
    if (result)
        fr_type_set_scalar(result, fr_object(o)->scalar);
    Py_DECREF(o);
    return result;
}

static struct fr_signature to_device_signature = {
    "to_device", 1, 1, 2, {"device", "stream"}, {NULL}};

PyObject *
fr_device_to(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[2];
    fr_device device;

    if (fr_args_parse(&to_device_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (!PyUnicode_Check(s[0]))
        return PyErr_Format(PyExc_TypeError, "to_device() argument 1 must be str, not %s", Py_TYPE(s[0])->tp_name);
    if (fr_args_device(s[0], &device) < 0)
        return NULL;
    if (!fr_args_none(s[1])) {
        PyErr_SetString(PyExc_ValueError, "The stream argument in to_device() is not supported");
        return NULL;
    }
    return fr_device_placed(Py_NewRef(self), device);
}

/* ---- of the process -------------------------------------------------------------------------- */

static PyObject *
device_names(PyObject *module, PyObject *unused)
{
    const int n = 1 + fr_device_count();
    PyObject *names = PyTuple_New(n), *name;

    (void)module, (void)unused;
    for (int i = 0; names && i < n; i++) {
        if ((name = PyUnicode_FromString(fr_device_name((fr_device)(i ? FR_DEVICE_CUDA + i - 1 : FR_DEVICE_HOST)))))
            PyTuple_SET_ITEM(names, i, name);
        else
            Py_CLEAR(names);
    }
    return names;
}

static PyObject *
device_open(PyObject *module, PyObject *name)
{
    fr_device d;

    (void)module;
    return fr_args_device(name, &d) < 0 ? NULL : PyUnicode_FromString(fr_device_name(d == FR_DEVICE_ANY ? fr_device_now() : d));
}

/* Devices that were chosen by blocks of this thread that have not ended. */
enum { MOST_BLOCKS = 256 };
static _Thread_local fr_device blocks[MOST_BLOCKS];
static _Thread_local int       n_blocks;

static PyObject *
device_enter(PyObject *module, PyObject *name)
{
    fr_device d;

    (void)module;
    if (fr_args_device(name, &d) < 0)
        return NULL;
    if (n_blocks == MOST_BLOCKS)
        return PyErr_Format(PyExc_RecursionError, "more than %d blocks that choose a device, one in the other", MOST_BLOCKS);
    blocks[n_blocks++] = fr_device_chosen();
    fr_device_choose(d);
    Py_RETURN_NONE;
}

static PyObject *
device_leave(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (n_blocks == 0)
        return PyErr_Format(PyExc_RuntimeError, "no device was chosen by a block of this thread");
    fr_device_choose(blocks[--n_blocks]);
    Py_RETURN_NONE;
}

static PyObject *
device_stream(PyObject *module, PyObject *name)
{
    const struct fr_backend *b;
    fr_device                d;

    (void)module;
    if (fr_args_device(name, &d) < 0)
        return NULL;
    b = fr_backend_of(d);
    return b->stream ? PyLong_FromUnsignedLongLong(b->stream(b)) : Py_NewRef(Py_None);
}

static PyObject *
device_memory(PyObject *module, PyObject *name)
{
    struct fr_memory_stats   m = {0};
    const struct fr_backend *b;
    fr_device                d;

    (void)module;
    if (fr_args_device(name, &d) < 0)
        return NULL;
    b = fr_backend_of(d);
    b->memory_stats(b, &m);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "live_bytes", (unsigned long long)m.live_bytes, "peak_bytes",
                         (unsigned long long)m.peak_bytes, "pooled_bytes", (unsigned long long)m.pooled_bytes, "n_allocs",
                         (unsigned long long)m.n_allocs, "n_copies_in", (unsigned long long)m.n_copies_in, "n_copies_out",
                         (unsigned long long)m.n_copies_out);
}

static PyObject *
synchronize(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    struct fr_err err;
    fr_status     st = FR_OK;
    fr_device     device = FR_DEVICE_ANY;
    void         *gil;

    (void)module;
    if (n > 1)
        return PyErr_Format(PyExc_TypeError, "synchronize() takes at most one device");
    if (n == 1 && fr_args_device(args[0], &device) < 0)
        return NULL;
    if (device == FR_DEVICE_AUTO)
        device = fr_device_auto();
    gil = fr_hooks.release_gil();
    for (int d = FR_DEVICE_HOST; d < FR_N_DEVICES && st == FR_OK; d++) {
        const struct fr_backend *b = fr_backend_of((fr_device)d);

        if (b->wait && (device == FR_DEVICE_ANY || device == d))
            st = b->wait(b, &err);
    }
    fr_hooks.take_gil(gil);
    if (fr_errors_check(st, &err) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyMethodDef fr_device_methods[] = {
    {"device_names", device_names, METH_NOARGS, "device_names()\n--\n\nOf all that there are, the processor first."},
    {"device_open", device_open, METH_O,
     "device_open(name, /)\n--\n\n"
     "The full name of a device that there is, \"cuda:0\" for \"cuda\"; without a GPU \"cpu\" for \"auto\"; None: of the one in use.\n"
     "ValueError: that is no name of one; RuntimeError: there is no such device, and why."},
    {"device_enter", device_enter, METH_O,
     "device_enter(name, /)\n--\n\nWhat this thread makes from here on is made there, until device_leave()."},
    {"device_leave", device_leave, METH_NOARGS, "device_leave()\n--\n\nThe end of the last device_enter()."},
    {"device_stream", device_stream, METH_O,
     "device_stream(name, /)\n--\n\nThe handle of the stream in which frit computes there; None: there are no streams."},
    {"device_memory", device_memory, METH_O,
     "device_memory(name, /)\n--\n\nWhat frit has of a device's memory, as a dict: bytes in use, the most of them, bytes kept for\n"
     "reuse, allocations, copies from and to the host's memory."},
    {"synchronize", (PyCFunction)(void (*)(void))synchronize, METH_FASTCALL,
     "synchronize(device=None, /)\n--\n\n"
     "Waits until a device, or all of them, have done what they were given. What is pending is not\n"
     "computed: see frit.eval. Nothing for the processor. RuntimeError: something failed there."},
    {NULL, NULL, 0, NULL},
};
