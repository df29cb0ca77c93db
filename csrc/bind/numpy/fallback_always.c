/* bind/numpy/fallback_always.c -- functions and methods that are always NumPy's, under the same names:
 * python/frit/_numpy.py has them. */
#include "bind/numpy/numpy.h"

#define HANDED(name, signature, how)                                                               \
    static PyObject *function_##name(PyObject *module, fr_args args, Py_ssize_t n, PyObject *kw)   \
    {                                                                                              \
        (void)module;                                                                              \
        return fr_fallback_name(#name, args, n, kw);                                               \
    }
#include "numpy_names.def"

PyMethodDef fr_fallback_always_functions[] = {
#define TEXT_HANDED "The arguments are computed; counted in stats()[\"fallbacks\"]."
#define TEXT_COMPOSED                                                                              \
    "Recorded where NumPy's own steps are operations of frit's; else the arguments are computed, and it is counted in\n" \
    "stats()[\"fallbacks\"]."
#define HANDED(name, signature, how)                                                               \
    {#name, FR_FAST(function_##name),                                                              \
     #name "(" signature ")\n--\n\n"                                                                \
     "numpy." #name ": its arguments, results and errors; new arrays among the results are tensors.\n" TEXT_##how},
#include "numpy_names.def"
    {NULL, NULL, 0, NULL},
};

static PyObject *
method(const char *name, enum fr_intent intent, PyObject *self, fr_args args, Py_ssize_t n, PyObject *kw)
{
    PyObject  *all[32];
    Py_ssize_t n_all = n + (kw ? PyTuple_GET_SIZE(kw) : 0);

    if (n_all >= (Py_ssize_t)FR_LEN(all)) {
        PyErr_Format(PyExc_TypeError, "%s() got too many arguments", name);
        return NULL;
    }
    all[0] = self;
    for (Py_ssize_t i = 0; i < n_all; i++)
        all[i + 1] = args[i];
    return fr_fallback_method(name, intent, all, n + 1, kw);
}

#define METHOD(name, intent)                                                                       \
    static PyObject *method_##name(PyObject *self, fr_args args, Py_ssize_t n, PyObject *kw)       \
    {                                                                                              \
        return method(#name, FR_##intent, self, args, n, kw);                                          \
    }
#include "numpy_names.def"

PyMethodDef fr_fallback_always_methods[] = {
#define METHOD(name, intent)                                                                       \
    {#name, FR_FAST(method_##name),                                                                \
     #name "($self, *args, **kwargs)\n--\n\nnumpy.ndarray." #name " on evaluated data; counted."},
#include "numpy_names.def"
    {NULL, NULL, 0, NULL},
};
