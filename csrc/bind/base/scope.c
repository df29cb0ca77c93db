/* bind/base/scope.c -- frit.scope: names that user code gives to parts of what it does, within each other.
 *
 * The scope of a thread is a part of the key of a line (site.c), so that a line has a site for each scope that it is traced in, and
 * what is computed later knows it. There are as many as FR_MOST_SCOPES; what would be more belongs to the scope around it. */
#include <string.h>

#include "base/alloc.h"
#include "base/span.h"
#include "bind/base/base.h"

struct scope {
    uint32_t parent, next;      /* with the same hash; 0: none */
    char    *name;
};

enum { SLOTS = 1024 };

static struct scope *scopes;    /* [n]; the first is nobody's */
static size_t        n = 1, cap;
static uint32_t      slot[SLOTS];

FR_THREAD_LOCAL uint32_t fr_scope_now;

/* The scope of this name within another; that one itself where there is no room for one more. */
static uint32_t
scope_of(uint32_t parent, const char *name)
{
    uint32_t     h = parent;
    const size_t size = strlen(name) + 1;
    char        *copy;

    for (const char *c = name; *c; c++)
        h = h * 31 + (unsigned char)*c;
    h %= SLOTS;
    for (uint32_t i = slot[h]; i; i = scopes[i].next)
        if (scopes[i].parent == parent && strcmp(scopes[i].name, name) == 0)
            return i;
    if (n == FR_MOST_SCOPES || !FR_GROW(scopes, cap, n + 1) || !(copy = fr_malloc(size)))
        return parent;
    scopes[n] = (struct scope){parent, slot[h], memcpy(copy, name, size)};
    return slot[h] = (uint32_t)n++;
}

PyObject *
fr_scope_text(uint32_t scope)
{
    PyObject *text = PyUnicode_FromString("");

    for (uint32_t i = scope; text && i > 0 && i < n; i = scopes[i].parent) {
        PyObject *longer = i == scope ? PyUnicode_FromString(scopes[i].name) : PyUnicode_FromFormat("%s/%U", scopes[i].name, text);

        Py_SETREF(text, longer);
    }
    return text;
}

static PyObject *
scope_enter(PyObject *module, PyObject *name)
{
    const char         *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    const uint32_t      before = fr_scope_now;
    struct fr_span_mark mark;

    (void)module;
    if (!text)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a scope's name is a str, not %s", Py_TYPE(name)->tp_name);
    fr_scope_now = scope_of(before, text);
    mark = fr_span_begin();
    return Py_BuildValue("IKK", (unsigned)before, (unsigned long long)mark.begin, (unsigned long long)mark.within);
}

static PyObject *
scope_leave(PyObject *module, PyObject *args)
{
    unsigned           before;
    unsigned long long begin, within;
    PyObject          *path;
    const char        *text;

    (void)module;
    if (!PyArg_ParseTuple(args, "IKK", &before, &begin, &within))
        return NULL;
    if (begin && fr_spans_on()) {
        const struct fr_span_mark mark = {begin, within};

        if (!(path = fr_scope_text(fr_scope_now)) || !(text = PyUnicode_AsUTF8(path))) {
            Py_XDECREF(path);
            return NULL;
        }
        fr_span_end(&mark, FR_SPAN_scope, fr_span_name(text), 0, 0);
        Py_DECREF(path);
    }
    fr_scope_now = before < n ? before : 0;
    Py_RETURN_NONE;
}

PyMethodDef fr_scope_methods[] = {
    {"scope_enter", scope_enter, METH_O,
     "scope_enter(name, /)\n--\n\nBegins a scope within the one of this thread. What scope_leave takes. TypeError: the name is no str."},
    {"scope_leave", scope_leave, METH_VARARGS, "scope_leave(before, begin, within, /)\n--\n\nEnds it."},
    {NULL, NULL, 0, NULL},
};
