/* bind/tensor/record.c -- what runtime/record.h has, and arrays without data, for python/frit/estimate.py. */
#include "backends/backend.h"
#include "backends/meta/meta.h"
#include "bind/numpy/npy.h"
#include "bind/tensor/tensor.h"
#include "runtime/record.h"
#include "runtime/storage.h"

typedef unsigned long long ull;     /* as Py_BuildValue has it */

/* A list of n things that item(i, what) gives. */
static PyObject *
list_of(Py_ssize_t n, PyObject *(*item)(Py_ssize_t i, const void *what), const void *what)
{
    PyObject *list = PyList_New(n);

    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *x = item(i, what);

        if (x)
            PyList_SET_ITEM(list, i, x);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* (its text, its scope) of a site, at the places of two N. */
static bool
site_parts(uint32_t site, PyObject **where, PyObject **scope)
{
    *where = fr_site_text(site);
    *scope = fr_scope_text(fr_site_scope(site));
    if (*where && *scope)
        return true;
    Py_CLEAR(*where);
    Py_CLEAR(*scope);
    return false;
}

static PyObject *
line_of(Py_ssize_t i, const void *of)
{
    const struct fr_record_line *line = &((const struct fr_record *)of)->line[i];
    PyObject                    *where, *scope;

    return site_parts(line->site, &where, &scope) ? Py_BuildValue("(NdN)", where, line->share, scope) : NULL;
}

/* What a loop of a kernel does: kinds of work, then bytes loaded and stored (jit/work.h). */
static PyObject *
loop_of(Py_ssize_t i, const void *of)
{
    const struct fr_nest_share *loop = &((const struct fr_record *)of)->work.loop[i];
    PyObject                   *t = PyTuple_New(FR_N_WORK_KINDS + 2);

    for (int k = 0; t && k < FR_N_WORK_KINDS + 2; k++)
        PyTuple_SET_ITEM(t, k, PyFloat_FromDouble(k < FR_N_WORK_KINDS ? loop->kind[k] : k > FR_N_WORK_KINDS ? loop->stored : loop->loaded));
    return t;
}

static PyObject *
row_of(const struct fr_record *r)
{
    PyObject *lines = list_of(r->n_lines, line_of, r), *work = list_of(FR_MOST_LOOPS + 1, loop_of, r);

    if (!lines || !work) {
        Py_XDECREF(lines);
        Py_XDECREF(work);
        return NULL;
    }
    return Py_BuildValue("{s:s,s:s,s:z,s:s,s:s,s:s,s:O,s:i,s:N,s:K,s:K,s:d,s:d,s:K,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:N,s:K,s:K,s:d}",
                         "kind", r->kind, "tier", r->tier, "why", r->why, "operations", r->ops, "shape", r->dims, "device", fr_device_name(r->device),
                         "is_kernel", r->counts ? Py_True : Py_False, "arrays", r->n_arrays, "lines", lines,
                         "bytes_read", (ull)r->bytes_read, "bytes_written", (ull)r->bytes_written,
                         "bytes", r->work.bytes, "ops", fr_work_ops(&r->work), "runs", (ull)r->n_runs, "us", r->us,
                         "rows", r->work.rows, "loops", r->work.loops, "tails", r->work.tails, "waits", r->work.waits,
                         "fill", r->work.elements > 0 ? r->work.filled / r->work.elements : 1.0, "product", r->work.product,
                         "work", work, "ticks", (ull)r->ticks, "threads", (ull)r->threads, "limit_us", r->limit_us);
}

static PyObject *
record_begin(PyObject *module, PyObject *args)
{
    Py_ssize_t    n_spans = -1;
    struct fr_err err;
    bool          begins;

    (void)module;
    if (!PyArg_ParseTuple(args, "|n", &n_spans) || fr_errors_check(fr_eval_lock(&err), &err) < 0)
        return NULL;
    begins = fr_record_begin();
    fr_eval_unlock();
    if (!begins)
        return PyErr_Format(PyExc_RuntimeError, "frit records already: one estimate or profile at a time");
    if (n_spans >= 0 && !fr_spans_begin((size_t)n_spans)) {
        struct fr_recording r;

        fr_record_end(&r);
        fr_recording_clear(&r);
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

static PyObject *
recorded_row(Py_ssize_t i, const void *of)
{
    return row_of(&((const struct fr_recording *)of)->of[i]);
}

static PyObject *
array_of(Py_ssize_t i, const void *of)
{
    const struct fr_record_array *a = &((const struct fr_recording *)of)->array[i];
    PyObject                     *where, *scope, *shape = PyTuple_New(a->ndim);

    for (int k = 0; shape && k < a->ndim; k++)
        PyTuple_SET_ITEM(shape, k, PyLong_FromLongLong(a->dims[k]));
    if (!shape || !site_parts(a->site, &where, &scope)) {
        Py_XDECREF(shape);
        return NULL;
    }
    return Py_BuildValue("(NNOLN)", where, shape, fr_numpy_dtype(a->dtype), (long long)a->n_bytes, scope);
}

/* ---- spans */

static const char *
span_name(uint8_t kind, uint32_t name)
{
    return kind == FR_SPAN_kernel ? NULL : fr_span_text(name);
}

/* (kind, name or the number of a row, line or None, thread, number, n, ticks, self ticks) */
static PyObject *
sum_of(Py_ssize_t i, const void *of)
{
    const struct fr_span_sum *s = &((const struct fr_spans *)of)->sum[i];
    PyObject                 *where = s->site ? fr_site_text(s->site) : Py_NewRef(Py_None);

    if (!where)
        return NULL;
    return Py_BuildValue("(szINiKKKK)", fr_span_kinds[s->kind], span_name(s->kind, s->name), (unsigned)s->name, where,
                         (int)s->thread, (ull)s->number, (ull)s->n, (ull)s->ticks, (ull)s->self);
}

/* (kind, name or the number of a row, site, thread, number, begin, end) */
static PyObject *
span_of(Py_ssize_t i, const void *of)
{
    const struct fr_spans *all = of;
    const size_t           at = all->first + (size_t)i;
    const struct fr_span  *s = &all->ring[at < all->n ? at : at - all->n];

    return Py_BuildValue("(szIIiKKK)", fr_span_kinds[s->kind], span_name(s->kind, s->name), (unsigned)s->name,
                         (unsigned)s->site, (int)s->thread, (ull)s->number, (ull)(s->begin - all->begin), (ull)(s->end - all->begin));
}

static PyObject *
memory_of(Py_ssize_t i, const void *of)
{
    const struct fr_spans *all = of;

    return Py_BuildValue("(KK)", (ull)(all->memory[i].at - all->begin), (ull)all->memory[i].bytes);
}

/* What of the spans is there, in a dict. */
static bool
add_spans(PyObject *d)
{
    struct fr_spans of;
    PyObject       *more = NULL;
    int             st;

    if (!fr_spans_end(&of))
        return true;
    more = Py_BuildValue("{s:N,s:N,s:N,s:K,s:K,s:K,s:L,s:L}", "sums", list_of((Py_ssize_t)of.n_sums, sum_of, &of), "spans",
                         list_of((Py_ssize_t)of.n, span_of, &of), "memory", list_of((Py_ssize_t)of.n_memory, memory_of, &of), "lost",
                         (ull)of.n_lost, "live_peak_bytes", (ull)of.peak_bytes, "ticks",
                         (ull)(of.end - of.begin), "begin_ns", (long long)of.begin_ns, "end_ns", (long long)of.end_ns);
    fr_spans_clear(&of);
    st = more ? PyDict_Update(d, more) : -1;
    Py_XDECREF(more);
    return st == 0;
}

static PyObject *
record_end(PyObject *module, PyObject *unused)
{
    struct fr_recording r;
    struct fr_err       err;
    PyObject           *rows;

    (void)module, (void)unused;
    if (fr_errors_check(fr_eval_lock(&err), &err) < 0)
        return NULL;
    fr_record_end(&r);
    fr_eval_unlock();
    rows = r.is_full ? PyErr_NoMemory() : list_of(r.n, recorded_row, &r);
    if (rows)
        rows = Py_BuildValue("{s:N,s:K,s:K,s:L,s:K,s:N,s:L}", "rows", rows, "nodes", (ull)r.n_nodes, "evals",
                             (ull)r.n_evals, "peak_bytes", (long long)r.peak_bytes, "first_peak_bytes",
                             (ull)r.first_peak_bytes, "arrays", list_of(r.n_arrays, array_of, &r), "temporary_bytes",
                             (long long)r.at_peak_temporary);
    fr_recording_clear(&r);
    if (!rows) {
        struct fr_spans of;

        if (fr_spans_end(&of))
            fr_spans_clear(&of);
    } else if (!add_spans(rows)) {
        Py_CLEAR(rows);
    }
    return rows;
}

static PyObject *
meta_begin(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    fr_meta_begin();
    fr_storages_count();
    Py_RETURN_NONE;
}

static PyObject *
meta_end(PyObject *module, PyObject *unused)
{
    int64_t peak, live;

    (void)module, (void)unused;
    fr_meta_end(&peak, &live);
    return Py_BuildValue("(LLL)", (long long)peak, (long long)live, (long long)fr_storages_counted());
}

/* ---- values of arrays without data */

static PyObject *assume;        /* gives the bytes of an element for a dtype; or NULL */

/* Whoever reads the value says what went wrong. */
static void
be_assumed(const struct fr_tensor *t)
{
    PyObject     *type, *value, *trace, *bytes;
    struct fr_err ignored;

    if (fr_tensor_device(t) != FR_DEVICE_META)
        return;
    PyErr_Fetch(&type, &value, &trace);
    bytes = PyObject_CallOneArg(assume, fr_numpy_dtype(t->dtype));
    if (bytes && PyBytes_Check(bytes) && PyBytes_GET_SIZE(bytes) == fr_dtype_size(t->dtype))
        fr_known_assume(t, PyBytes_AS_STRING(bytes), &ignored);
    Py_XDECREF(bytes);
    PyErr_Restore(type, value, trace);
}

PyObject *
fr_text_without_data(PyObject *self)
{
    const struct fr_tensor *t = fr_of(self);
    struct fr_err           err;
    bool                    is_known = true;
    PyObject               *shape, *text;

    if (FR_LIKELY(fr_tensor_device(t) != FR_DEVICE_META) || fr_errors_check(fr_known_is(t, &is_known, &err), &err) < 0 || is_known ||
        !(shape = PyObject_GetAttrString(self, "shape")))
        return NULL;
    text = PyUnicode_FromFormat("<frit.Tensor %S %S without data>", fr_numpy_dtype(t->dtype), shape);
    Py_DECREF(shape);
    return text;
}

static PyObject *
meta_values(PyObject *module, PyObject *args)
{
    PyObject *function, *hand_over;
    int       all;

    (void)module;
    if (!PyArg_ParseTuple(args, "pOO", &all, &function, &hand_over))
        return NULL;
    fr_known_all = all;
    Py_XSETREF(assume, function == Py_None ? NULL : Py_NewRef(function));
    fr_info_wanted = assume ? be_assumed : NULL;
    Py_XSETREF(fr_fallback_instead, hand_over == Py_None ? NULL : Py_NewRef(hand_over));
    Py_RETURN_NONE;
}

static PyObject *
meta_known(PyObject *module, PyObject *tensor)
{
    struct fr_err err;
    bool          yes = true;

    (void)module;
    if (fr_is_tensor(tensor) && fr_errors_check(fr_known_is(fr_of(tensor), &yes, &err), &err) < 0)
        return NULL;
    return PyBool_FromLong(yes);
}

/* ---- the machine */

static bool
numbers(PyObject *d, const char *name, int n, double *out)
{
    PyObject *list = PyDict_GetItemString(d, name), *fast;
    bool      ok;

    if (!list || !(fast = PySequence_Fast(list, "a list of numbers is wanted")))
        return list ? false : (PyErr_Format(PyExc_ValueError, "a machine without %s", name), false);
    ok = PySequence_Fast_GET_SIZE(fast) == n;
    for (int i = 0; i < n && ok; i++) {
        out[i] = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(fast, i));
        ok = !PyErr_Occurred() && out[i] >= 0;
    }
    Py_DECREF(fast);
    if (!ok && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "a machine whose %s is not %d numbers", name, n);
    return ok;
}

static bool
levels(PyObject *d, const char *name, int n, struct fr_machine_level *out)
{
    double x[4 * FR_MOST_LEVELS];

    if (!numbers(d, name, 4 * n, x))
        return false;
    for (int i = 0; i < n; i++) {
        const double *at = &x[4 * i];

        out[i] = (struct fr_machine_level){at[0], at[1], at[2], at[3]};
        if (!(at[0] > 0 && at[1] > 0 && at[2] > 0 && at[3] > 0) || (i > 0 && at[0] <= at[-4])) {
            PyErr_Format(PyExc_ValueError, "a machine whose %s do not grow, or are 0", name);
            return false;
        }
    }
    return true;
}

/* launch us, GB/s, Gop/s of f32, how many times longer f64 takes, then the fields of struct fr_machine in their order. */
static bool
gpu(PyObject *d, struct fr_machine *m)
{
    double x[9];

    if (!numbers(d, "gpu", 9, x))
        return false;
    for (int i = 1; i < 9; i++)
        if (!(x[i] > 0) && i != 5) {
            PyErr_Format(PyExc_ValueError, "a machine whose gpu has no number %d", i);
            return false;
        }
    *m = (struct fr_machine){.launch_us = x[0], .gbs = x[1], .gops = {x[2]}, .wide = x[3], .n_multiprocessors = x[4], .output_us = x[5],
                             .l2_bytes = x[6], .rows_in_flight = x[7], .onchip_gbs = x[8]};
    return true;
}

static PyObject *
machine_set(PyObject *module, PyObject *d)
{
    struct fr_machine m = {.n_levels = 0};
    double            x[10];
    PyObject         *list;

    (void)module;
    if (d != Py_None && !PyDict_Check(d))
        return PyErr_Format(PyExc_TypeError, "a machine is a dict or None");
    if (d != Py_None && PyDict_GetItemString(d, "gpu")) {
        if (!gpu(d, &m))
            return NULL;
    } else if (d != Py_None) {
        list = PyDict_GetItemString(d, "levels");
        m.n_levels = list ? (int)(PySequence_Size(list) / 4) : 0;
        if (PyErr_Occurred())
            return NULL;
        if (m.n_levels < 1 || m.n_levels > FR_MOST_LEVELS)
            return PyErr_Format(PyExc_ValueError, "a machine of 1 to %d levels, not %d", FR_MOST_LEVELS, m.n_levels);
        if (!levels(d, "levels", m.n_levels, m.level) || !levels(d, "all_levels", m.n_levels, m.all_level) ||
            !numbers(d, "kind_ps", FR_N_WORK_KINDS, m.kind_ps) || !numbers(d, "figures", 10, x) || !numbers(d, "product_gops", 2, m.product_gops) ||
            !numbers(d, "all_product_gops", 2, m.all_product_gops))
            return NULL;
        if (!(m.product_gops[0] > 0 && m.product_gops[1] > 0 && m.all_product_gops[0] > 0 && m.all_product_gops[1] > 0))
            return PyErr_Format(PyExc_ValueError, "a machine that does nothing");
        if (!(x[7] == 0 || x[7] >= 1))
            return PyErr_Format(PyExc_ValueError, "a machine whose vectors have less than a byte");
        m.launch_us = x[0];
        m.load_ps = x[1];
        m.store_ps = x[2];
        m.row_ns = x[3];
        m.loop_ns = x[4];
        m.tail_ns = x[5];
        m.wait_ns = x[6];
        m.vector_bytes = x[7];
        m.threads = x[8];
        m.shared_us = x[9];
    }
    fr_machine_measured(&m);
    Py_RETURN_NONE;
}

static PyObject *
estimate_us(PyObject *module, PyObject *args)
{
    struct fr_machine m;
    struct fr_work    w = {0};
    struct fr_err     err;

    (void)module;
    if (!PyArg_ParseTuple(args, "ddddddddd", &w.read, &w.written, &w.ops[FR_WORK_PLAIN], &w.ops[FR_WORK_SLOW], &w.ops[FR_WORK_COSTLY],
                          &w.outputs, &w.passes, &w.row_bytes, &w.row_threads))
        return NULL;
    w.bytes = w.read + w.written;
    if (fr_errors_check(fr_machine_of(FR_DEVICE_META, &m, &err), &err) < 0)
        return NULL;
    return PyFloat_FromDouble(fr_estimate_us(&m, &w));
}

/* ---- arrays without data */

struct without {
    PyObject *array;        /* whose values are known; or NULL */
    void     *at;
    size_t    n_bytes;
};

static void
forget(void *owner)
{
    struct without  *w = owner;
    PyGILState_STATE gil;

    if (!Py_IsInitialized())
        return;
    fr_meta_forget(w->at, w->n_bytes);
    gil = PyGILState_Ensure();
    Py_XDECREF(w->array);
    PyGILState_Release(gil);
    PyMem_RawFree(w);
}

static PyObject *
meta_like(PyObject *module, PyObject *args)
{
    PyObject        *shape, *type, *array;
    int              columns;
    int64_t          dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], size, n = 1;
    int              ndim, known;
    fr_dtype         dtype;
    struct without  *w;
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        st = FR_OK;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOOp", &shape, &type, &array, &columns) || fr_args_dims(shape, false, &ndim, dims) < 0 ||
        (known = fr_numpy_to_dtype(type, FR_F64, &dtype)) < 0)
        return NULL;
    if (!known)
        return PyErr_Format(PyExc_TypeError, "arrays of %R are NumPy's: there are none without data", type);
    size = fr_dtype_size(dtype);
    if (fr_errors_check(fr_dims_count(ndim, dims, (int)size, &n, &err), &err) < 0)
        return NULL;
    n = size;
    for (int i = 0, k; i < ndim; i++, n *= dims[k]) {
        k = columns ? i : ndim - 1 - i;
        strides[k] = n;
    }
    if (!(w = PyMem_RawMalloc(sizeof *w)))
        return PyErr_NoMemory();
    *w = (struct without){.array = array == Py_None ? NULL : Py_NewRef(array), .n_bytes = (size_t)n};
    if (!(w->at = fr_meta_reserve(w->n_bytes)))
        st = fr_fail(&err, FR_ENOMEM, "an array of %lld bytes", (long long)n);
    if (st == FR_OK && w->array)
        st = fr_meta_know(w->at, PyArray_BYTES(fr_array(array)), w->n_bytes, false, &err);
    if (st == FR_OK)
        st = fr_tensor_from_memory(w->at, FR_DEVICE_META, dtype, ndim, dims, strides, false, forget, w, &t, &err);
    if (st != FR_OK)
        forget(w);
    return fr_type_result(st, &t, &err);
}

PyMethodDef fr_record_methods[] = {
    {"record_begin", record_begin, METH_VARARGS,
     "record_begin(n_spans=-1, /)\n--\n\nRecords what is computed from here on; and, unless n_spans is below 0, what takes how long:\n"
     "the last so many spans one by one, and the sums of all. RuntimeError: it does so already."},
    {"record_end", record_end, METH_NOARGS,
     "record_end()\n--\n\nWhat was recorded, as a dict: `rows`, one for each step of a plan that ran, and totals; `sums` and `spans`\n"
     "of base/span.def."},
    {"machine_set", machine_set, METH_O,
     "machine_set(machine, /)\n--\n\nWhat the processor is taken to be, as python/frit/machine.py has it; None: what nobody has measured.\n"
     "ValueError: it is no such machine."},
    {"estimate_us", estimate_us, METH_VARARGS,
     "estimate_us(read, written, plain, slow, costly, outputs, passes, row_bytes, row_threads, /)\n--\n\n"
     "How long a kernel takes that reads and writes so many bytes, does so many operations and goes so often through rows, on the\n"
     "machine that was set."},
    {"meta_begin", meta_begin, METH_NOARGS,
     "meta_begin()\n--\n\nFrom here on arrays without data count in the peak of memory as if they were there."},
    {"meta_end", meta_end, METH_NOARGS,
     "meta_end()\n--\n\n(the most bytes of arrays with and without data since meta_begin(), those in use now), beside those at its time; and the\n"
     "most that NumPy would have had for results and temporaries without data."},
    {"meta_values", meta_values, METH_VARARGS,
     "meta_values(all, assume, instead, /)\n--\n\n"
     "How values of arrays without data are found: whether all that follows from known ones is computed; assume(dtype) gives the bytes\n"
     "of an element where one that is not known is wanted; instead(function or name, args, kwargs) is asked before NumPy is called with\n"
     "such arrays, and gives the result or NotImplemented. None: nobody is asked."},
    {"meta_known", meta_known, METH_O, "meta_known(tensor, /)\n--\n\nWhether its values are known, computed as far as can be."},
    {"meta_like", meta_like, METH_VARARGS,
     "meta_like(shape, dtype, array, columns, /)\n--\n\n"
     "A Tensor without data, in C order, or with `columns` in Fortran's; its values are those of the array, which lies so, unless that\n"
     "is None, until something is stored over them."},
    {NULL, NULL, 0, NULL},
};
