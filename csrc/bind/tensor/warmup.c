/* bind/tensor/warmup.c -- what runtime/warmup.h has, for python/frit/_warmup.py. */
#include "bind/numpy/npy.h"
#include "bind/tensor/tensor.h"
#include "runtime/warmup.h"

static PyObject *
warmup_begin(PyObject *module, PyObject *name)
{
    fr_device d;

    (void)module;
    if (fr_args_device(name, &d) < 0)
        return NULL;
    if (d != FR_DEVICE_HOST && !fr_device_is_cuda(d))
        return PyErr_Format(PyExc_ValueError, "kernels are compiled ahead for the processor or a GPU, not for %R", name);
    if (!fr_warmup_begin(d))
        return PyErr_Format(PyExc_RuntimeError, "frit compiles ahead already: one warmup at a time");
    Py_RETURN_NONE;
}

static PyObject *
warmup_wait(PyObject *module, PyObject *seconds)
{
    double timeout_s = PyFloat_AsDouble(seconds);
    void  *gil;
    int    n;

    (void)module;
    if (timeout_s == -1 && PyErr_Occurred())
        return NULL;
    gil = fr_hooks.release_gil();
    n = fr_warmup_wait(timeout_s, fr_hooks.interrupted);
    fr_hooks.take_gil(gil);
    return PyErr_Occurred() ? NULL : PyLong_FromLong(n);
}

static PyObject *
warmup_end(PyObject *module, PyObject *unused)
{
    struct fr_warmup_counts c;

    (void)module, (void)unused;
    fr_warmup_end(&c);
    return Py_BuildValue("(iiii)", c.n_plans, c.n_kernels, c.n_ready, c.n_with_code);
}

PyMethodDef fr_warmup_methods[] = {
    {"warmup_begin", warmup_begin, METH_O,
     "warmup_begin(device, /)\n--\n\nFrom here on what is evaluated without data is planned for the device, too, and its kernels are\n"
     "compiled. RuntimeError: that is so already."},
    {"warmup_wait", warmup_wait, METH_O,
     "warmup_wait(seconds, /)\n--\n\nWaits until the compiler has answered for all, at most so long. How many kernels are left."},
    {"warmup_end", warmup_end, METH_NOARGS,
     "warmup_end()\n--\n\n(plans made, kernels of all plans, those that had code before, those that have some now)."},
    {NULL, NULL, 0, NULL},
};
