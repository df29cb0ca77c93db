/* bind/base/errstate.c -- see errstate.h. */
#include "bind/base/errstate.h"

#ifdef FR_ERRSTATE_IS_TOLD
#define Py_BUILD_CORE
#undef _PyGC_FINALIZED      /* defined again by the headers of the interpreter itself */
#include "internal/pycore_context.h"
#include "internal/pycore_interp.h"
#undef Py_BUILD_CORE
#endif

#include "base/fpe.h"
#include "ir/node.h"
#include "runtime/judge.h"

uint32_t fr_errstate_bits = (FR_FPE_DIVIDE | FR_FPE_OVER | FR_FPE_INVALID) << 28;

/* Until there is a state to read. */
static const struct fr_errstate_cached nothing_cached;
const struct fr_errstate_cached       *fr_errstate_cached = &nothing_cached;
struct fr_errstate_seen                fr_errstate_seen = {NULL, -1};

enum mode { IGNORE, WARN, RAISE, CALL, PRINT, LOG };

static const char *const mode_names[] = {"ignore", "warn", "raise", "call", "print", "log"};

static const struct {
    unsigned    flag;
    const char *key, *name;
} kinds[] = {{FR_FPE_DIVIDE, "divide", "divide by zero"},
             {FR_FPE_OVER, "over", "overflow"},
             {FR_FPE_UNDER, "under", "underflow"},
             {FR_FPE_INVALID, "invalid", "invalid value"}};

static struct {
    enum mode mode[4];
    PyObject *call;           /* for CALL and LOG */
} state = {{WARN, WARN, IGNORE, WARN}, NULL};

static PyObject *read_state, *warnings_dict, *variable;

#ifdef FR_ERRSTATE_IS_TOLD
#define SAME_PLACE(field, theirs)                                                                                      \
    _Static_assert(offsetof(struct _pycontextvarobject, theirs) - offsetof(struct _pycontextvarobject, var_cached) ==  \
                   offsetof(struct fr_errstate_cached, field), "the interpreter's own")
SAME_PLACE(thread, var_cached_tsid);
SAME_PLACE(context, var_cached_tsver);
#endif

int
fr_errstate_init(void)
{
    PyObject *umath = PyImport_ImportModule("numpy._core.umath"), *warnings = PyImport_ImportModule("warnings");

    variable = umath ? PyObject_GetAttrString(umath, "_extobj_contextvar") : NULL; /* NumPy's for good */
    if (variable && warnings && (read_state = PyObject_GetAttrString(umath, "_get_extobj_dict"))) {
        warnings_dict = Py_NewRef(PyModule_GetDict(warnings));
#ifdef FR_ERRSTATE_IS_TOLD
        fr_errstate_cached = (struct fr_errstate_cached *)((char *)variable + offsetof(struct _pycontextvarobject, var_cached));
#endif
        fr_errstate_look();
    }
    Py_XDECREF(umath);
    Py_XDECREF(warnings);
    return read_state ? 0 : -1;
}

/* ---- reading ---- */

static void
read_modes(void)
{
    PyObject *d = PyObject_CallNoArgs(read_state), *v;

    for (size_t i = 0; d && i < FR_LEN(kinds); i++)
        for (size_t m = 0; (v = PyDict_GetItemString(d, kinds[i].key)) && m < FR_LEN(mode_names); m++)
            if (PyUnicode_Check(v) && PyUnicode_CompareWithASCIIString(v, mode_names[m]) == 0)
                state.mode[i] = (enum mode)m;
    if (d && (v = PyDict_GetItemString(d, "call")))
        Py_XSETREF(state.call, Py_NewRef(v));
    Py_XDECREF(d);
}

/* What the filters make of a RuntimeWarning of any text and place: the first that is about such. */
enum filtered { SHOWN_ONCE, HIDDEN, WANTED };

static enum filtered
read_filter(PyObject *filter, bool *decides)
{
    PyObject *action, *category;
    int       is_ours;

    *decides = false;
    if (!PyTuple_Check(filter) || PyTuple_GET_SIZE(filter) != 5)
        return SHOWN_ONCE;
    action = PyTuple_GET_ITEM(filter, 0);
    category = PyTuple_GET_ITEM(filter, 2);
    is_ours = PyUnicode_Check(action) ? PyObject_IsSubclass(PyExc_RuntimeWarning, category) : 0;
    if (is_ours <= 0)
        return SHOWN_ONCE;
    if (PyUnicode_CompareWithASCIIString(action, "error") == 0 || PyUnicode_CompareWithASCIIString(action, "always") == 0 ||
        PyUnicode_CompareWithASCIIString(action, "all") == 0) {
        *decides = true; /* also where it is for some texts or modules only: then it may be */
        return WANTED;
    }
    *decides = PyTuple_GET_ITEM(filter, 1) == Py_None && PyTuple_GET_ITEM(filter, 3) == Py_None;
    return PyUnicode_CompareWithASCIIString(action, "ignore") == 0 ? HIDDEN : SHOWN_ONCE;
}

static enum filtered
read_filters(void)
{
    PyObject     *filters = warnings_dict ? PyDict_GetItemString(warnings_dict, "filters") : NULL;
    enum filtered f = SHOWN_ONCE;
    bool          decides = false;

    if (!filters || !PyList_Check(filters))
        return SHOWN_ONCE;
    Py_INCREF(filters);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters) && !decides; i++)
        f = read_filter(PyList_GET_ITEM(filters, i), &decides);
    Py_DECREF(filters);
    return decides ? f : SHOWN_ONCE;
}

#ifdef FR_ERRSTATE_IS_TOLD
static bool
look_at_filters(void)
{
    long version = PyInterpreterState_Get()->warnings.filters_version;
    bool other = version != fr_errstate_seen.filters;

    fr_errstate_seen.filters = version;
    return other;
}
#else
static bool
look_at_filters(void)
{
    static PyObject  *list, *first;
    static Py_ssize_t n;
    PyObject         *now = PyDict_GetItemString(warnings_dict, "filters");
    Py_ssize_t        size = now && PyList_Check(now) ? PyList_GET_SIZE(now) : 0;
    PyObject         *head = size ? PyList_GET_ITEM(now, 0) : NULL;

    if (now == list && size == n && head == first)
        return false;
    Py_XSETREF(list, Py_XNewRef(now));
    Py_XSETREF(first, Py_XNewRef(head));
    n = size;
    return true;
}
#endif

/* A context that has no value of its own gets the one that it has anyway: the interpreter remembers no other. */
static bool
look_at_value(void)
{
    PyObject *value = NULL, *token = NULL;
    int       st = PyContextVar_Get(variable, variable, &value);
    bool      other;

    if (value == variable) {
        Py_CLEAR(value);
        if ((st = PyContextVar_Get(variable, NULL, &value)) == 0 && !(token = PyContextVar_Set(variable, value)))
            st = -1;
        Py_XDECREF(token);
    }
    if (st < 0)
        PyErr_Clear();
    other = value != fr_errstate_seen.value;
    Py_XSETREF(fr_errstate_seen.value, value); /* no other one is at its address */
    return other;
}

/* Whether the state, and of that *filters, is another one than when this was asked last. */
static bool
look_at(bool *filters)
{
    bool value = look_at_value();

    *filters = look_at_filters();
    return value || *filters;
}

/* Computes what is pending, which belongs to the state that was. Its warnings cannot be raised here, nor Ctrl-C. */
static void
flush(void)
{
    struct fr_err err;
    fr_status     st = fr_eval_all(&err);

    if (st == FR_EINTR)
        PyErr_SetInterrupt();
    if (st == FR_ERAISED)
        PyErr_WriteUnraisable(NULL);
    PyErr_Clear();
}

void
fr_errstate_look(void)
{
    static bool          looking;
    static enum filtered filter;
    PyObject            *type, *value, *trace;
    unsigned             warns = 0;
    bool                 at_once = false, filtered_anew;

    if (looking || !read_state || !look_at(&filtered_anew))
        return;
    looking = true;
    PyErr_Fetch(&type, &value, &trace);
    if (filtered_anew && fr_errstate_bits)
        flush();
    read_modes();
    filter = filtered_anew ? read_filters() : filter;
    for (size_t i = 0; i < FR_LEN(kinds); i++) {
        bool said = state.mode[i] != IGNORE && !(state.mode[i] == WARN && filter == HIDDEN);

        warns |= said ? kinds[i].flag : 0;
        at_once |= said && (state.mode[i] != WARN || filter == WANTED);
    }
    if (at_once && !fr_trace_at_once)
        flush();
    fr_errstate_bits = warns << 28 | (fr_errstate_bits & FR_SITE_INSTEAD);
    fr_judge_epoch += filtered_anew;
    fr_judge_unseen = warns & FR_FPE_UNDER;
    fr_trace_set_at_once(at_once);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    looking = false;
}

/* ---- saying ---- */

static int
say_called(enum mode mode, const char *name, unsigned raised, PyObject *text)
{
    PyObject *call = state.call && state.call != Py_None ? Py_NewRef(state.call) : NULL, *done, *line = NULL;

    if (!call) {
        PyErr_Format(PyExc_NameError, "%s specified for %s but no %s found.", mode == LOG ? "log" : "python callback",
                     name, mode == LOG ? "object with write method" : "function");
        return -1;
    }
    if (mode == CALL) {
        done = PyObject_CallFunction(call, "sI", name, raised);
    } else {
        line = PyUnicode_FromFormat("Warning: %U\n", text);
        done = line ? PyObject_CallMethod(call, "write", "O", line) : NULL;
    }
    Py_XDECREF(line);
    Py_DECREF(call);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int
fr_errstate_say(unsigned flag, unsigned raised, PyObject *text)
{
    const char *utf8;
    int         k = 0;

    while (kinds[k].flag != flag)
        k++;
    switch (fr_trace_at_once ? state.mode[k] : WARN) {
    case RAISE: PyErr_SetObject(PyExc_FloatingPointError, text); return -1;
    case CALL: return say_called(CALL, kinds[k].name, raised, text);
    case LOG: return say_called(LOG, kinds[k].name, raised, text);
    case PRINT:
        if (!(utf8 = PyUnicode_AsUTF8(text)))
            return -1;
        fprintf(stderr, "Warning: %s\n", utf8);
        return 0;
    case IGNORE: return 0;
    default: return 1;
    }
}
