/* bind/tensor/explain.c -- what runtime/explain.h has, for python/frit/explain.py. */
#include "bind/tensor/tensor.h"
#include "runtime/explain.h"

/* (kind, failed, why, way, name or None, number of the plan or -1, site, syncs, kernels, bytes read, written) */
static PyObject *
event_of(const struct fr_explanation *e, const struct fr_event *a)
{
    static const char *const kinds[] = {"evaluation", "handed", "read", "end"};

    return Py_BuildValue("(sOsszikIKKK)", kinds[a->kind], a->failed ? Py_True : Py_False, a->why, a->way,
                         a->name < 0 ? NULL : e->name[a->name], a->plan, (unsigned long)a->site, a->n_syncs, (unsigned long long)a->n_kernels,
                         (unsigned long long)a->bytes_read, (unsigned long long)a->bytes_written);
}

/* A list of n items; NULL: an exception. */
static PyObject *
list_of(size_t n, PyObject *(*item)(const struct fr_explanation *, size_t), const struct fr_explanation *e)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *o = item(e, i);

        if (o)
            PyList_SET_ITEM(list, (Py_ssize_t)i, o);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *
event_at(const struct fr_explanation *e, size_t i)
{
    return event_of(e, &e->event[i]);
}

static PyObject *
order_at(const struct fr_explanation *e, size_t i)
{
    return PyLong_FromUnsignedLong(e->order[i]);
}

static PyObject *
plan_at(const struct fr_explanation *e, size_t i)
{
    PyObject *text = fr_site_explain(e->plan[i].text ? e->plan[i].text : "");

    return text ? Py_BuildValue("(Ns)", text, e->plan[i].json) : NULL;
}

/* All of it as a dict; ends it. */
static PyObject *
result_of(struct fr_explanation *e)
{
    PyObject *events = NULL, *order = NULL, *plans = NULL, *result = NULL;

    if (e->st != FR_OK)
        fr_errors_raise(e->st, &e->err);
    else if ((events = list_of((size_t)e->n_events, event_at, e)) && (order = list_of(e->n_order, order_at, e)) &&
             (plans = list_of((size_t)e->n_plans, plan_at, e)))
        result = Py_BuildValue("{s:O,s:O,s:O}", "events", events, "order", order, "plans", plans);
    Py_XDECREF(events);
    Py_XDECREF(order);
    Py_XDECREF(plans);
    fr_explanation_clear(e);
    return result;
}

static int
explain(PyObject *tensors, const char *kind, struct fr_explanation *out)
{
    struct fr_handles h = FR_HANDLES(h);
    struct fr_err     err;
    int               st = fr_containers_add(&h, tensors, FR_ANY_DEPTH);

    *out = (struct fr_explanation){.kind = kind};
    if (st == 0)
        st = fr_errors_check(fr_explain(h.v, (int)h.n, kind, out, &err), &err);
    fr_containers_free(&h);
    if (st < 0)
        fr_explanation_clear(out);
    return st;
}

/* tensors and a kind; NULL: an exception. */
static const char *
kind_of(PyObject *const *args, Py_ssize_t n)
{
    if (n == 1)
        return "plan";
    if (n == 2)
        return PyUnicode_AsUTF8(args[1]);
    PyErr_SetString(PyExc_TypeError, "tensors and a kind are wanted");
    return NULL;
}

static PyObject *
explain_text(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    const char           *kind = kind_of(args, n);
    struct fr_explanation e;
    PyObject             *text;

    (void)module;
    if (!kind || explain(args[0], kind, &e) < 0)
        return NULL;
    text = PyUnicode_FromString(e.n_order ? "" : "nothing is pending: no kernel would run\n");
    for (size_t i = 0; text && i < e.n_order; i++)
        PyUnicode_AppendAndDel(&text, fr_site_explain(e.plan[e.event[e.order[i]].plan].text));
    fr_explanation_clear(&e);
    return text;
}

static PyObject *
explain_pending(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    const char           *kind = kind_of(args, n);
    struct fr_explanation e;

    (void)module;
    return kind && explain(args[0], kind, &e) == 0 ? result_of(&e) : NULL;
}

static PyObject *kind_now;     /* whose text runtime/explain.c keeps */

static PyObject *
explain_begin(PyObject *module, PyObject *kind)
{
    const char   *text = PyUnicode_AsUTF8(kind);
    struct fr_err err;

    (void)module;
    if (!text)
        return NULL;
    if (fr_explain_is_on)
        return PyErr_Format(PyExc_RuntimeError, "frit explains a call already: one at a time");
    if (fr_errors_check(fr_explain_begin(text, fr_site_here, &err), &err) < 0)
        return NULL;
    Py_XSETREF(kind_now, Py_NewRef(kind));
    Py_RETURN_NONE;
}

static PyObject *
explain_end(PyObject *module, PyObject *unused)
{
    struct fr_explanation e;

    (void)module, (void)unused;
    if (!fr_explain_is_on)
        return PyErr_Format(PyExc_RuntimeError, "explain_begin() has not been called");
    fr_explain_end(&e);
    return result_of(&e);
}

#define PLAIN(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL

PyMethodDef fr_explain_methods[] = {
    {"explain_text", PLAIN(explain_text),
     "explain_text(tensors, kind='plan', /)\n--\n\nWhat computing them would do, as text: 'plan', 'graph', 'loops', 'c' or 'cuda'."},
    {"explain_pending", PLAIN(explain_pending),
     "explain_pending(tensors, kind='plan', /)\n--\n\nThe same as explain_end() has it."},
    {"explain_begin", explain_begin, METH_O,
     "explain_begin(kind, /)\n--\n\nFrom here on, what is computed on this thread is noted. RuntimeError: it is already."},
    {"explain_end", explain_end, METH_NOARGS,
     "explain_end()\n--\n\nA dict: `events`, distinct ones, as tuples (kind, failed, why, way, name, number of the plan, site, syncs,\n"
     "kernels, bytes read, bytes written); `order`, their numbers as they happened; `plans` as (text, JSON)."},
    {NULL, NULL, 0, NULL},
};
