/* bind/numpy/fallback_names.c -- the NumPy functions that calls were handed to: found once, counted by name.
 *
 * Our own files hand over by string literals, so a literal's address is the key of a small table; what
 * arrives as a Python function is counted in a dict by its name. */
#include <string.h>

#include "base/span.h"
#include "base/ways.h"
#include "bind/numpy/numpy.h"
#include "runtime/explain.h"

enum { N_NAMES = 1024 };       /* slots; about 250 literals exist */

static struct fr_name names[N_NAMES];
uint32_t              fr_fallback_span;
static PyObject      *counts;  /* of functions that came as objects: text -> int */

int
fr_fallback_names_init(void)
{
    counts = PyDict_New();
    return counts ? 0 : -1;
}

static void
log_call(const char *name, bool method)
{
    fr_fallback_span = FR_UNLIKELY(fr_spans_on()) ? fr_span_name(name) : 0;
    fr_count_way(FR_WAY_handed);
    if (FR_UNLIKELY(fr_explain_is_on)) {
        char text[80];

        snprintf(text, sizeof text, "ndarray.%s", name);
        fr_explain_handed(method ? text : name, fr_site_here());
    }
    if (FR_UNLIKELY(fr_env.log_bits & FR_LOG_FALLBACKS))
        fr_info_log("%s is NumPy's, at %U", name);
}

struct fr_name *
fr_fallback_names_get(const char *name, bool method)
{
    struct fr_name *e;
    uint32_t        i = (uint32_t)(((uintptr_t)name * 0x9e3779b97f4a7c15u) >> 40) + method;

    for (;; i++) {
        e = &names[i % N_NAMES];
        if (!e->name || (e->name == name && e->method == method))
            break;
    }
    if (!e->name) {
        e->object = method ? PyUnicode_InternFromString(name) : fr_numpy_attr(name);
        if (!e->object)
            return NULL;
        e->name = name;
        e->method = method;
    }
    return e;
}

void
fr_fallback_names_count(struct fr_name *e)
{
    e->n_calls++;
    log_call(e->name, e->method);
}

/* Adds to the count of a text; a statistic must not fail the call. */
static void
add(PyObject *dict, const char *text, uint64_t n_calls)
{
    PyObject *old = PyDict_GetItemString(dict, text);
    PyObject *n = PyLong_FromUnsignedLongLong(n_calls + (old ? PyLong_AsUnsignedLongLong(old) : 0));

    if (!n || PyDict_SetItemString(dict, text, n) < 0)
        PyErr_Clear();
    Py_XDECREF(n);
}

/* "matmul", "linalg.norm", "scipy.special.expit". */
void
fr_fallback_names_count_function(PyObject *func)
{
    PyObject   *name, *module, *full = NULL;
    const char *text = NULL;

    if (!(name = PyObject_GetAttrString(func, "__name__")))
        PyErr_Clear();
    if (!(module = PyObject_GetAttrString(func, "__module__")))
        PyErr_Clear();
    if (name && module && PyUnicode_Check(module) &&
        PyUnicode_CompareWithASCIIString(module, "numpy") != 0)
        full = PyUnicode_FromFormat("%U.%S", module, name);
    else if (name)
        full = PyObject_Str(name);
    if (full)
        text = PyUnicode_AsUTF8(full);
    if (!text) {
        PyErr_Clear();
        text = "?";
    }
    text += strncmp(text, "numpy.", 6) ? 0 : 6;
    add(counts, text, 1);
    log_call(text, false);
    Py_XDECREF(name);
    Py_XDECREF(module);
    Py_XDECREF(full);
}

PyObject *
fr_fallback_names_counts(void)
{
    PyObject *dict = PyDict_Copy(counts);
    char      text[80];

    for (int i = 0; dict && i < N_NAMES; i++)
        if (names[i].n_calls) {
            snprintf(text, sizeof text, "%s%s", names[i].method ? "ndarray." : "", names[i].name);
            add(dict, text, names[i].n_calls);
        }
    return dict;
}

void
fr_fallback_names_reset(void)
{
    PyDict_Clear(counts);
    for (int i = 0; i < N_NAMES; i++)
        names[i].n_calls = 0;
}
