/* bind/replay.c -- accelerated calls that are made again without running the function.
 *
 * A closed function (python/frit/_closed.py) looks at nothing but its arguments and does nothing but compute. If
 * it did not look at a value either, then what it traced follows from how its arguments lie and from the numbers
 * among them and among the globals that it reads. The next call with the same of all that is the same evaluation
 * over other memory: neither is the function run nor an operation traced. */
#include "bind/bind.h"

#include "bind/npy.h"

enum {
    MAX_RECORDS = 8,    /* of a function; the one that was used longest ago goes */
    MAX_MADE = 64,      /* of which so many are made if none is ever used: numbers that change with each call */
    MAX_ARGS = 32,
    MAX_RESULTS = 32
};

/* How an argument looked. */
struct seen_arg {
    PyObject      *value;           /* a number, else NULL: an array */
    PyArray_Descr *descr;           /* reference */
    int            same_as;         /* the first argument that is the same array: itself, as a rule */
    bool           written;
    int            ndim;
    npy_intp       lies[2 * FR_MAX_DIMS]; /* dims, then strides */
};

/* Where a part of the result comes from. */
struct part {
    enum { PART_ARG, PART_VALUE, PART_RESULT, PART_SCALAR, PART_AGAIN } from;
    int       index;                /* argument, result of the recording, or earlier part */
    PyObject *value;
};

struct fr_record {
    struct fr_recording *recording;
    int                  n_args, n_outside, n_parts, n_results;
    bool                 is_tuple, writes;
    uint64_t             used;
    struct part          part[MAX_RESULTS];
    PyObject           **outside;   /* [n_outside] what the names and cells held; NULL: nothing */
    struct seen_arg      arg[];
};

struct fr_replays {
    int            refs;            /* calls that are in one of them, and the function */
    int            n, n_made;
    uint64_t       n_used;
    struct fr_record *record[MAX_RECORDS];
};

static void
record_free(struct fr_record *r)
{
    fr_recording_free(r->recording);
    for (int i = 0; i < r->n_args; i++) {
        Py_XDECREF(r->arg[i].value);
        Py_XDECREF(r->arg[i].descr);
    }
    for (int i = 0; i < r->n_outside; i++)
        Py_XDECREF(r->outside[i]);
    for (int i = 0; i < r->n_parts; i++)
        Py_XDECREF(r->part[i].value);
    PyMem_Free(r->outside);
    PyMem_Free(r);
}

void
fr_replays_drop(struct fr_replays *s)
{
    if (!s || --s->refs > 0)
        return;
    for (int i = 0; i < s->n; i++)
        record_free(s->record[i]);
    PyMem_Free(s);
}

/* ---- the same again? */

/* Whether two numbers are of one type and the same to every operation. */
static bool
same_number(PyObject *a, PyObject *b)
{
    if (a == b)
        return true;
    if (Py_TYPE(a) != Py_TYPE(b))
        return false;
    if (PyFloat_CheckExact(a)) {
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return memcmp(&x, &y, sizeof x) == 0;
    }
    if (PyLong_CheckExact(a)) {
        int overflow_a, overflow_b;
        long long x = PyLong_AsLongLongAndOverflow(a, &overflow_a), y = PyLong_AsLongLongAndOverflow(b, &overflow_b);
        return !overflow_a && !overflow_b && x == y;
    }
    return PyUnicode_CheckExact(a) && PyUnicode_Compare(a, b) == 0;
}

static inline bool
fits(const struct seen_arg *s, fr_args args, int i)
{
    PyArrayObject *a;

    if (s->value)
        return same_number(s->value, args[i]);
    if (!PyArray_CheckExact(args[i]))
        return false;
    a = fr_array(args[i]);
    if (PyArray_DESCR(a) != s->descr || PyArray_NDIM(a) != s->ndim || !PyArray_ISALIGNED(a))
        return false;
    for (int k = 0; k < s->ndim; k++)
        if (PyArray_DIM(a, k) != s->lies[k] || PyArray_STRIDE(a, k) != s->lies[s->ndim + k])
            return false;
    return true;
}

/* Whether arrays are the same objects just where they were. */
static bool
same_twins(const struct fr_record *r, fr_args args)
{
    for (int i = 1; i < r->n_args; i++) {
        int k = 0;

        if (r->arg[i].value)
            continue;
        while (args[k] != args[i])
            k++;
        if (k != r->arg[i].same_as)
            return false;
    }
    return true;
}

/* Whether what will be written may be, and is apart from all other arguments. */
static bool
may_write(const struct fr_record *r, fr_args args)
{
    char *low[MAX_ARGS], *high[MAX_ARGS];

    for (int i = 0; i < r->n_args; i++)
        if (!r->arg[i].value)
            fr_share_bounds(args[i], &low[i], &high[i]);
    for (int i = 0; i < r->n_args; i++) {
        if (!r->arg[i].written)
            continue;
        if (!PyArray_ISWRITEABLE(fr_array(args[i])))
            return false;
        for (int k = 0; k < r->n_args; k++)
            if (!r->arg[k].value && r->arg[k].same_as != i && low[i] < high[k] && low[k] < high[i])
                return false;
    }
    return true;
}

/* What a global or a cell of the function holds: borrowed, NULL: nothing. */
static PyObject *
outside(PyObject *globals, PyObject *names, PyObject *cells, int i)
{
    int n = (int)PyTuple_GET_SIZE(names);

    return i < n ? PyDict_GetItemWithError(globals, PyTuple_GET_ITEM(names, i))
                 : PyCell_GET(PyTuple_GET_ITEM(cells, i - n));
}

const struct fr_record *
fr_replays_find(struct fr_replays *s, PyObject *globals, PyObject *names, PyObject *cells, fr_args args,
                Py_ssize_t n_args)
{
    for (int i = 0; i < s->n; i++) {
        struct fr_record *r = s->record[i];
        int            k = 0;

        if (r->n_args != n_args)
            continue;
        while (k < r->n_args && fits(&r->arg[k], args, k))
            k++;
        if (k < r->n_args || !same_twins(r, args) || (r->writes && !may_write(r, args)))
            continue;
        for (k = 0; k < r->n_outside && outside(globals, names, cells, k) == r->outside[k];)
            k++;
        if (k < r->n_outside)
            continue;
        r->used = ++s->n_used;
        return r;
    }
    return NULL;
}

/* ---- a call */

static PyObject *
part_of(const struct part *p, fr_args args, PyObject *const *results)
{
    switch (p->from) {
    case PART_ARG: return Py_NewRef(args[p->index]);
    case PART_VALUE: return Py_NewRef(p->value);
    default: return Py_NewRef(results[p->index]);
    }
}

/* The results as arrays and NumPy scalars, each once. The handles are cleared. */
static bool
show_results(const struct fr_record *r, struct fr_tensor *t, PyObject **out)
{
    int n = 0;

    for (int i = 0; i < r->n_parts; i++) {
        const struct part *p = &r->part[i];

        if (p->from != PART_RESULT && p->from != PART_SCALAR)
            continue;
        out[p->index] = p->from == PART_SCALAR ? fr_numpy_scalar_at(&t[p->index])
                                               : fr_numpy_view_of(&t[p->index], FR_VIEW_EXPORT);
        n += out[p->index] != NULL;
    }
    for (int i = 0; i < r->n_results; i++)
        fr_tensor_clear(&t[i]);
    return n == r->n_results;
}

PyObject *
fr_replays_call(struct fr_replays *s, const struct fr_record *r, fr_args args, uint64_t *n_kernels)
{
    struct fr_tensor t[MAX_RESULTS];
    PyObject        *shown[MAX_RESULTS] = {NULL}, *out = NULL;
    char            *memory[MAX_ARGS];
    struct fr_err    err;
    fr_status        st;
    int              n_memory = 0;

    for (int i = 0; i < r->n_args; i++)
        if (!r->arg[i].value && r->arg[i].same_as == i)
            memory[n_memory++] = PyArray_BYTES(fr_array(args[i]));
    FR_TRACE_HERE();
    s->refs++; /* another thread may put an end to them while kernels run */
    *n_kernels = (uint64_t)fr_recording_kernels(r->recording);
    if ((st = fr_replay(r->recording, memory, t, &err)) != FR_OK) {
        fr_errors_raise(st, &err);
    } else if (show_results(r, t, shown)) {
        if (!r->is_tuple)
            out = part_of(&r->part[0], args, shown);
        else if ((out = PyTuple_New(r->n_parts)) != NULL)
            for (int i = 0; i < r->n_parts; i++)
                PyTuple_SET_ITEM(out, i, part_of(&r->part[i], args, shown));
    }
    for (int i = 0; i < MAX_RESULTS && i < r->n_results; i++)
        Py_XDECREF(shown[i]);
    fr_replays_drop(s);
    return out;
}

/* ---- a new one */

/* How the arguments lie. Collects the tensors that stand for the different arrays among them. */
static int
note_args(struct fr_record *r, fr_args args, fr_args in, const struct fr_tensor **tensor)
{
    int n = 0;

    for (int i = 0; i < r->n_args; i++) {
        struct seen_arg *s = &r->arg[i];
        PyArrayObject   *a = fr_array(args[i]);

        if (!PyArray_CheckExact(args[i])) {
            s->value = Py_NewRef(args[i]);
            continue;
        }
        s->descr = PyArray_DESCR(a);
        Py_INCREF(s->descr);
        while (args[s->same_as] != args[i])
            s->same_as++;
        s->ndim = PyArray_NDIM(a);
        for (int k = 0; k < s->ndim; k++) {
            s->lies[k] = PyArray_DIM(a, k);
            s->lies[s->ndim + k] = PyArray_STRIDE(a, k);
        }
        if (s->same_as == i)
            tensor[n++] = fr_of(in[i]);
    }
    return n;
}

/* Notes what the function sees outside; false if that is more than numbers. */
static bool
note_outside(struct fr_record *r, PyObject *globals, PyObject *names, PyObject *cells)
{
    int n = (int)(PyTuple_GET_SIZE(names) + PyTuple_GET_SIZE(cells));

    if (!(r->outside = PyMem_Calloc((size_t)n + 1, sizeof *r->outside)))
        return false;
    for (; r->n_outside < n; r->n_outside++) {
        PyObject *v = outside(globals, names, cells, r->n_outside);

        if (v && !fr_accelerate_is_number(v))
            return false;
        r->outside[r->n_outside] = Py_XNewRef(v);
    }
    return true;
}

/* Notes where each part of the result comes from; collects the tensors that were computed for it. False if one
 * is something else. */
static bool
note_parts(struct fr_record *r, fr_args in, PyObject *result, const struct fr_tensor **computed)
{
    PyObject *const *list = &result;

    r->n_parts = 1;
    if ((r->is_tuple = PyTuple_CheckExact(result))) {
        if (PyTuple_GET_SIZE(result) > MAX_RESULTS)
            return r->n_parts = 0, false;
        list = ((PyTupleObject *)result)->ob_item;
        r->n_parts = (int)PyTuple_GET_SIZE(result);
    }
    for (int i = 0; i < r->n_parts; i++) {
        struct part *p = &r->part[i];
        int          k = 0;

        if (!fr_is_tensor(list[i])) {
            *p = (struct part){PART_VALUE, 0, Py_NewRef(list[i])};
            if (!fr_accelerate_is_number(list[i]))
                return false;
            continue;
        }
        while (k < r->n_args && in[k] != list[i])
            k++;
        if (k < r->n_args) {
            *p = (struct part){PART_ARG, k, NULL};
            continue;
        }
        for (k = 0; k < i && list[k] != list[i];)
            k++;
        *p = (struct part){PART_AGAIN, 0, NULL};
        if (k < i) {
            p->index = r->part[k].index;
        } else {
            p->from = fr_object(list[i])->scalar ? PART_SCALAR : PART_RESULT;
            p->index = r->n_results;
            computed[r->n_results++] = fr_of(list[i]);
            if (p->from == PART_SCALAR && fr_of(list[i])->layout->ndim > 0)
                return false;
        }
    }
    return true;
}

static struct fr_replays *
replays_new(void)
{
    struct fr_replays *s = PyMem_Calloc(1, sizeof *s);

    if (s)
        s->refs = 1;
    return s;
}

/* The place for one more. */
static struct fr_record **
place_for(struct fr_replays *s)
{
    int oldest = 0;

    if (s->n < MAX_RECORDS)
        return &s->record[s->n++];
    for (int i = 1; i < s->n; i++)
        if (s->record[i]->used < s->record[oldest]->used)
            oldest = i;
    record_free(s->record[oldest]);
    return &s->record[oldest];
}

bool
fr_replays_wanted(const struct fr_replays *s, Py_ssize_t n_args)
{
    return n_args <= MAX_ARGS && (!s || s->n_made < MAX_MADE || s->n_used > 4 * (uint64_t)s->n_made);
}

void
fr_replays_add(struct fr_replays **replays, PyObject *globals, PyObject *names, PyObject *cells, fr_args args,
               fr_args in, Py_ssize_t n_args, PyObject *result)
{
    const struct fr_tensor *tensor[MAX_ARGS], *computed[MAX_RESULTS];
    bool                    writes[MAX_ARGS] = {false};
    struct fr_record          *r = PyMem_Calloc(1, sizeof *r + (size_t)n_args * sizeof r->arg[0]);
    int                     n;

    if (*replays && (*replays)->refs > 1) { /* another thread is in one of them */
        PyMem_Free(r);
        return;
    }
    if (!r || !(*replays || (*replays = replays_new()))) {
        PyMem_Free(r);
        return;
    }
    (*replays)->n_made++;
    r->n_args = (int)n_args;
    n = note_args(r, args, in, tensor);
    if (note_outside(r, globals, names, cells) && note_parts(r, in, result, computed) &&
        (r->recording = fr_record(tensor, n, writes, computed, r->n_results))) {
        for (int i = 0, k = 0; i < r->n_args; i++)
            if (!r->arg[i].value && r->arg[i].same_as == i)
                r->writes |= r->arg[i].written = writes[k++];
        r->used = ++(*replays)->n_used;
        *place_for(*replays) = r;
    } else {
        record_free(r);
    }
}
