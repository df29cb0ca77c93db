/* bind/tensor/engine.c -- what the engine did and how it is set: stats, settings, the cache. */
#include <string.h>

#include "backends/cpu/launch.h"
#include "backends/cpu/pool.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/tune.h"
#include "base/ways.h"
#include "bind/tensor/tensor.h"
#include "ir/node.h"
#include "jit/compile.h"
#include "jit/export.h"
#include "jit/nvrtc.h"

/* ---- statistics */

/* Puts a number under a name; false when memory is out. */
static bool
put(PyObject *dict, const char *name, uint64_t v)
{
    PyObject *n = PyLong_FromUnsignedLongLong(v);
    bool      ok = n && PyDict_SetItemString(dict, name, n) == 0;

    Py_XDECREF(n);
    return ok;
}

static bool
put_object(PyObject *dict, const char *name, PyObject *value)
{
    bool ok = value && PyDict_SetItemString(dict, name, value) == 0;

    Py_XDECREF(value);
    return ok;
}

/* Adds an item, which moves in; when memory is out, the list goes. */
static void
append(PyObject **list, PyObject *item)
{
    if (!item || PyList_Append(*list, item) < 0)
        Py_CLEAR(*list);
    Py_XDECREF(item);
}

static PyObject *
stats(PyObject *module, PyObject *unused)
{
    struct fr_stats         s = {0};
    struct fr_compile_stats c = {0};
    struct fr_memory_stats  m = {0};
    struct fr_nvrtc_stats   g;
    PyObject               *d = PyDict_New();
    bool                    ok = d != NULL;
    const struct fr_backend *b = fr_backend_of(fr_device_usual);

    (void)module, (void)unused;
    fr_stats_get(&s);
    fr_compile_stats(&c);
    fr_nvrtc_stats(&g);
    c.n_compiled += g.n_compiled; /* a kernel is one, whoever compiles it */
    c.n_disk_hits += g.n_disk_hits;
    c.n_disk_misses += g.n_disk_misses;
    c.compile_us += g.compile_us;
    b->memory_stats(b, &m);
#define STAT(struct_, field) ok = ok && put(d, #field, struct_.field);
    STAT(s, n_kernels) STAT(s, n_evals) STAT(s, n_nodes) STAT(s, n_forced_by_guard)
    STAT(s, bytes_read) STAT(s, bytes_written)
    STAT(s, pending_nodes) STAT(s, n_judged) STAT(s, peak_planned_bytes)
    STAT(c, n_compiled) STAT(c, n_failed) STAT(c, n_disk_hits) STAT(c, n_disk_misses)
    STAT(c, n_bad_entries) STAT(c, n_helpers_started) STAT(c, compile_us) STAT(c, n_pending)
    STAT(c, n_objects) STAT(c, n_loaded) STAT(c, n_unloaded) STAT(c, code_bytes) STAT(c, code_maps)
    STAT(m, live_bytes) STAT(m, peak_bytes) STAT(m, pooled_bytes) STAT(m, n_allocs)
    STAT(m, n_system) STAT(m, n_copies_in) STAT(m, n_copies_out)
#undef STAT
    for (int i = 0; i < FR_N_WAYS; i++) {
        char key[64];

        snprintf(key, sizeof key, "n_%s", fr_way_rows[i].name);
        ok = ok && put(d, key, fr_ways_taken[i]);
    }
    ok = ok && put(d, "copied_bytes", fr_info_copied_bytes);
    ok = ok && put_object(d, "fallbacks", fr_fallback_names_counts());
    ok = ok && put_object(d, "syncs", fr_info_syncs());
    if (!ok)
        Py_CLEAR(d);
    return d;
}

static PyObject *
counters(PyObject *module, PyObject *unused)
{
    struct fr_call_counters c;

    (void)module, (void)unused;
    fr_info_call_counters(&c);
    return Py_BuildValue("(KKK)", (unsigned long long)c.n_kernels, (unsigned long long)c.n_fallbacks,
                         (unsigned long long)c.n_syncs);
}

static PyObject *
stats_reset(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    fr_stats_reset();
    for (int d = FR_DEVICE_HOST; d < FR_N_DEVICES; d++)
        fr_backend_of((fr_device)d)->memory_reset_peak(fr_backend_of((fr_device)d));
    fr_fallback_names_reset();
    fr_info_reset();
    Py_RETURN_NONE;
}

/* ---- settings */

static PyObject *
setting_value(const struct fr_setting *s)
{
    return s->as_int ? PyLong_FromLong(*s->as_int) : PyUnicode_FromString(s->as_str);
}

static const struct fr_setting *
find_setting(PyObject *name)
{
    for (const struct fr_setting *s = fr_settings; PyUnicode_Check(name) && s->name; s++)
        if (!PyUnicode_CompareWithASCIIString(name, s->field) || !PyUnicode_CompareWithASCIIString(name, s->name))
            return s;
    PyErr_Format(PyExc_KeyError, "frit has no setting %R", name);
    return NULL;
}

static PyObject *
config_list(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    char      allowed[256];

    (void)module, (void)unused;
    for (const struct fr_setting *s = fr_settings; list && s->name; s++) {
        PyObject *item;

        fr_setting_allowed(s, allowed, sizeof allowed);
        item = Py_BuildValue("{s:s,s:s,s:N,s:s,s:s,s:s}", "name", s->field, "variable", s->name, "value",
                             setting_value(s), "default", s->default_text, "allowed", allowed, "help", s->help);
        append(&list, item);
    }
    return list;
}

static PyObject *
ways(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);

    (void)module, (void)unused;
    for (int i = 0; list && i < FR_N_WAYS; i++) {
        const struct fr_way_row *w = &fr_way_rows[i];
        PyObject *item = Py_BuildValue("{s:s,s:N,s:s,s:s,s:s}", "name", w->name, "can_be_off", PyBool_FromLong(w->can_be_off),
                                       "fits", w->fits, "runs", w->runs, "why", w->why);

        append(&list, item);
    }
    return list;
}

static PyObject *
tuned(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);

    (void)module, (void)unused;
    for (const struct fr_tune_row *r = fr_tune_rows; list && r->name; r++) {
        PyObject *item = Py_BuildValue("{s:s,s:L,s:L,s:L,s:L,s:s,s:s}", "name", r->name, "value", (long long)*r->value,
                                       "default", (long long)r->usual, "least", (long long)r->least, "most",
                                       (long long)r->most, "unit", r->unit, "measured", r->measured);

        append(&list, item);
    }
    return list;
}

static PyObject *
config_get(PyObject *module, PyObject *name)
{
    const struct fr_setting *s = find_setting(name);

    (void)module;
    return s ? setting_value(s) : NULL;
}

/* Texts that are looked at when they are needed, not only when the process starts. */
static bool
may_change(const struct fr_setting *s)
{
    return s->as_int || s->as_bits || s->take || !strcmp(s->field, "skip") || !strcmp(s->field, "backend");
}

static PyObject *
not_allowed(const struct fr_setting *s, PyObject *value)
{
    char allowed[256];

    fr_setting_allowed(s, allowed, sizeof allowed);
    return PyErr_Format(PyExc_ValueError, "the setting %s cannot be %R: it is %s", s->field, value, allowed);
}

static PyObject *
set_number(const struct fr_setting *s, PyObject *value)
{
    int  overflow;
    long v = PyLong_AsLongAndOverflow(value, &overflow);

    if (v == -1 && PyErr_Occurred())
        return NULL;
    if (overflow || !fr_setting_allows_int(s, v))
        return not_allowed(s, value);
    if (s->as_int == &fr_env.num_threads)
        fr_pool_set_size(v ? (int)v : fr_processors());
    *s->as_int = (int)v;
    Py_RETURN_NONE;
}

static PyObject *
set_text(const struct fr_setting *s, PyObject *value)
{
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : NULL;

    if (!text)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "the setting %s is a string", s->field);
    if (!fr_setting_allows_text(s, text))
        return not_allowed(s, value);
    if (!strcmp(s->field, "backend") && !fr_backend_change(text))
        return PyErr_Format(PyExc_ValueError, "%s=%s has memory of its own: set it in the environment", s->name, text);
    if (s->as_bits)
        fr_info_log_rest();
    fr_setting_put_text(s, text);
    Py_RETURN_NONE;
}

static PyObject *
config_set(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    const struct fr_setting *s;

    (void)module;
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "config_set() takes a name and a value");
        return NULL;
    }
    if (!(s = find_setting(args[0])))
        return NULL;
    if (!may_change(s))
        return PyErr_Format(PyExc_ValueError, "%s is read when frit is imported: set it in the environment", s->name);
    return s->as_int ? set_number(s, args[1]) : set_text(s, args[1]);
}

static PyObject *
list_of(const char *const *strings)
{
    PyObject *list = PyList_New(0);

    for (; list && strings && *strings; strings++)
        append(&list, PyUnicode_FromString(*strings));
    return list;
}

static PyObject *
text_or_none(const char *s)
{
    return s ? PyUnicode_FromString(s) : Py_NewRef(Py_None);
}

static PyObject *
show_config(PyObject *module, PyObject *unused)
{
    char      warnings[8192];
    PyObject *d = PyDict_New();
    bool      ok = d != NULL;

    (void)module, (void)unused;
    warnings[0] = '\0';
    fr_warnings(warnings, sizeof warnings);
    ok = ok && put_object(d, "isa", PyUnicode_FromString(fr_cpu_isa()));
    ok = ok && put_object(d, "isa_levels", list_of(fr_cpu_isa_all()));
    ok = ok && put_object(d, "features", list_of(fr_cpu_features()));
    ok = ok && put(d, "threads", (uint64_t)fr_backend->n_workers());
    ok = ok && put_object(d, "compile_unavailable", text_or_none(fr_compile_unavailable()));
    ok = ok && put_object(d, "warnings", PyUnicode_DecodeUTF8(warnings, (Py_ssize_t)strlen(warnings),
                                                             "replace"));
    ok = ok && put_object(d, "settings", config_list(NULL, NULL));
    if (!ok)
        Py_CLEAR(d);
    return d;
}

/* ---- kernel cache and compilation */

static PyObject *
cache_info(PyObject *module, PyObject *unused)
{
    char     dir[1024];
    uint64_t n_entries = 0, n_bytes = 0;

    (void)module, (void)unused;
    dir[0] = '\0';
    fr_cache_info(dir, sizeof dir, &n_entries, &n_bytes);
    return Py_BuildValue("{s:N,s:K,s:K}", "directory", PyUnicode_DecodeFSDefault(dir), "entries",
                         (unsigned long long)n_entries, "bytes", (unsigned long long)n_bytes);
}

static PyObject *
cache_clear(PyObject *module, PyObject *unused)
{
    struct fr_err err;
    fr_status     st = fr_cache_clear(&err);

    (void)module, (void)unused;
    return st == FR_OK ? Py_NewRef(Py_None) : fr_errors_raise(st, &err);
}

static PyObject *
cache_export(PyObject *module, PyObject *version)
{
    const char   *text = PyUnicode_AsUTF8(version);
    struct fr_err err;
    void         *gil, *bytes = NULL;
    size_t        n = 0;
    uint64_t      n_kernels = 0;
    PyObject     *out;
    fr_status     st;

    (void)module;
    if (!text)
        return NULL;
    gil = fr_hooks.release_gil();
    st = fr_export_make(text, &bytes, &n, &n_kernels, &err);
    fr_hooks.take_gil(gil);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    out = Py_BuildValue("y#K", bytes, (Py_ssize_t)n, (unsigned long long)n_kernels);
    fr_free(bytes);
    return out;
}

static PyObject *
cache_load(PyObject *module, PyObject *args)
{
    const char   *version;
    struct fr_err err;
    Py_buffer     export;
    uint64_t      n_kernels;
    void         *gil;
    fr_status     st;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*s:cache_load", &export, &version))
        return NULL;
    gil = fr_hooks.release_gil();
    st = fr_export_take(export.buf, (size_t)export.len, version, &n_kernels, &err);
    fr_hooks.take_gil(gil);
    PyBuffer_Release(&export);
    return st == FR_OK ? PyLong_FromUnsignedLongLong(n_kernels) : fr_errors_raise(st, &err);
}

static const double SLICE_S = 0.05; /* after which a waiting thread looks for Ctrl-C */

static PyObject *
wait_compiles(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    double  seconds = n ? PyFloat_AsDouble(args[0]) : 1e9;
    int64_t end;
    void   *gil;
    bool    done, asked = false;

    (void)module;
    if (seconds == -1 && PyErr_Occurred())
        return NULL;
    gil = fr_hooks.release_gil();
    end = fr_now_us() + (int64_t)(seconds * 1e6);
    while (!(done = fr_planner_wait(seconds < SLICE_S ? seconds : SLICE_S)) && !asked && fr_now_us() < end)
        asked = fr_hooks.interrupted();
    done = done && fr_compile_wait((double)(end - fr_now_us()) * 1e-6, fr_hooks.interrupted);
    fr_hooks.take_gil(gil);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(done);
}

/* ---- evaluation of several tensors */

static PyObject *
eval_all(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    FR_TRACE_HERE();
    if (fr_containers_eval(args, n, FR_ANY_DEPTH, FR_SYNC_eval) < 0)
        return NULL;
    return n == 1 ? Py_NewRef(args[0]) : fr_args_tuple(args, n);
}

static PyObject *
site_text(PyObject *module, PyObject *id)
{
    unsigned long v = PyLong_AsUnsignedLong(id);

    (void)module;
    return v == (unsigned long)-1 && PyErr_Occurred() ? NULL : fr_site_text((uint32_t)v);
}

static PyObject *
site_name_files(PyObject *module, PyObject *function)
{
    (void)module;
    fr_site_name_files(function == Py_None ? NULL : function);
    Py_RETURN_NONE;
}

static PyObject *
site_here(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromUnsignedLong(fr_site_here());
}

/* ---- for tests */

static PyObject *
alloc_fail_at(PyObject *module, PyObject *n)
{
    long v = PyLong_AsLong(n);

    (void)module;
    if (v == -1 && PyErr_Occurred())
        return NULL;
    fr_alloc_fail_at(v);
    Py_RETURN_NONE;
}

static PyObject *
alloc_count(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLong(fr_alloc_count());
}

static PyObject *
alloc_live(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLong(fr_alloc_live());
}

static PyObject *
memory_trim(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    for (int d = FR_DEVICE_HOST; d < FR_N_DEVICES; d++)
        fr_backend_of((fr_device)d)->memory_trim(fr_backend_of((fr_device)d));
    Py_RETURN_NONE;
}

/* The rows of the operation table, for tests that loop over them. */
static PyObject *
op_table(PyObject *module, PyObject *unused)
{
    static const char *const classes[] = {"map", "reduce", "scan", "call", "node"};
    static const char *const domains[] = {"any", "pos", "unit", "ge1", "gtm1", "small", "nonneg"};
    static const char *const rules[] = {"same",   "float", "truediv", "truth", "component", "select",
                                        "ldexp", "count", "random",  "sum",   "index"};
    PyObject                *list = PyList_New(0);

    (void)module, (void)unused;
    for (int op = 0; list && op < FR_N_OPS; op++) {
        const struct fr_op_info *i = &fr_op_info[op];
        bool      joins = i->class_ == FR_CLASS_REDUCE || i->class_ == FR_CLASS_SCAN;
        PyObject *row = Py_BuildValue("{s:s,s:s,s:i,s:s,s:s,s:s,s:z,s:N,s:N,s:N,s:N}", "name", i->name, "class",
                                      classes[i->class_], "arity", i->arity, "rule", rules[i->rule], "kinds", i->kinds,
                                      "domain", domains[i->domain], "combine",
                                      joins ? fr_op_info[i->combine].name : NULL, "inner", PyBool_FromLong(i->flags & FR_OPF_INNER),
                                      "commutative", PyBool_FromLong(i->flags & FR_OPF_COMM), "costly",
                                      PyBool_FromLong(i->flags & FR_OPF_COSTLY), "picks",
                                      PyBool_FromLong(fr_op_picks((fr_op)op)));
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

#define PLAIN(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL

PyMethodDef fr_engine_methods[] = {
    {"stats", stats, METH_NOARGS,
     "stats()\n--\n\nCounts since the start or stats_reset(): kernels run and by which executor,\n"
     "plans, compilations, cache hits, bytes, and as dicts fallbacks (NumPy functions that were\n"
     "called, by name) and syncs (why pending values were computed)."},
    {"counters", counters, METH_NOARGS,
     "counters()\n--\n\n(kernels run, fallbacks, syncs)."},
    {"stats_reset", stats_reset, METH_NOARGS, "stats_reset()\n--\n\nSets the counts to zero."},
    {"config_list", config_list, METH_NOARGS,
     "config_list()\n--\n\nEvery setting as a dict: name, variable, value, default, help."},
    {"tuned", tuned, METH_NOARGS, "tuned()\n--\n\nThe numbers that depend on the machine, as dicts."},
    {"ways", ways, METH_NOARGS,
     "ways()\n--\n\nThe ways in which calls and evaluations are answered, as dicts."},
    {"config_get", config_get, METH_O, "config_get(name, /)\n--\n\nA setting's value; KeyError."},
    {"config_set", PLAIN(config_set),
     "config_set(name, value, /)\n--\n\n"
     "Changes a setting. ValueError for those that are read at import only."},
    {"show_config", show_config, METH_NOARGS,
     "show_config()\n--\n\nWhat frit found on this machine: instruction sets, threads, why there\n"
     "is no compiler (or None), warnings said so far, settings."},
    {"cache_info", cache_info, METH_NOARGS,
     "cache_info()\n--\n\nThe kernel cache on disk: directory ('' if in memory only), entries, bytes."},
    {"cache_clear", cache_clear, METH_NOARGS, "cache_clear()\n--\n\nEmpties the kernel cache on disk."},
    {"cache_export", cache_export, METH_O,
     "cache_export(version, /)\n--\n\nThe kernels on disk as bytes, and how many they are."},
    {"cache_load", cache_load, METH_VARARGS,
     "cache_load(export, version, /)\n--\n\nTakes the kernels of an export; how many run here."},
    {"wait_compiles", PLAIN(wait_compiles),
     "wait_compiles(timeout=None, /)\n--\n\n"
     "Waits until no kernel is being compiled; False when the seconds run out first."},
    {"eval", PLAIN(eval_all),
     "eval(*tensors)\n--\n\n"
     "Computes the tensors, at any depth of lists, tuples and dicts, together in one plan.\n\n"
     "Returns its argument, or the tuple of them. What else they hold is left alone. MemoryError: the results or\n"
     "temporaries do not fit; tensors are then as they were."},
    {"site_text", site_text, METH_O,
     "site_text(id, /)\n--\n\n'file.py:12 in name' of an operation's site."},
    {"site_name_files", site_name_files, METH_O,
     "site_name_files(function, /)\n--\n\nTexts call a file what function(its name) gives, from here on; None: by its name."},
    {"site_here", site_here, METH_NOARGS, "site_here()\n--\n\nThe id of the caller's line."},
    {"alloc_fail_at", alloc_fail_at, METH_O,
     "alloc_fail_at(n, /)\n--\n\nMakes the n-th allocation from now fail; 0 stops that."},
    {"alloc_count", alloc_count, METH_NOARGS,
     "alloc_count()\n--\n\nAllocations asked for since alloc_fail_at."},
    {"alloc_live", alloc_live, METH_NOARGS, "alloc_live()\n--\n\nAllocations that are live now."},
    {"memory_trim", memory_trim, METH_NOARGS,
     "memory_trim()\n--\n\nGives pooled memory back to the system."},
    {"op_table", op_table, METH_NOARGS, "op_table()\n--\n\nThe rows of the operation table."},
    {NULL, NULL, 0, NULL},
};
