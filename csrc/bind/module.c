/* bind/module.c -- the module frit._core: starts the engine, sets the hooks, lists the functions. */
#include <string.h>

#include "backends/cpu/launch.h"
#include "backends/cpu/pool.h"
#include "base/env.h"
#include "base/library.h"
#include "bind/accelerate/crossing.h"
#include "bind/base/errstate.h"
#include "bind/hot/hot.h"
#include "bind/tensor/tensor.h"
#include "jit/compile.h"

/* ---- hooks: the engine below never sees Python */

static void *
release_gil(void)
{
    return PyEval_SaveThread();
}

static void
take_gil(void *state)
{
    PyEval_RestoreThread(state);
}

/* Asked while kernels run and while compiles are awaited. A signal's handler runs here; when it raises,
 * the exception stays set in this thread and errors.c lets it through. */
static bool
interrupted(void)
{
    PyGILState_STATE gil;
    bool             yes;

    if (!PyGILState_GetThisThreadState()) /* not a Python thread: signals are not for it */
        return false;
    gil = PyGILState_Ensure();
    yes = PyErr_Occurred() || PyErr_CheckSignals() < 0;
    PyGILState_Release(gil);
    return yes;
}

/* ---- start and stop */

static PyObject *
stop(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    Py_BEGIN_ALLOW_THREADS
    fr_compile_stop();
    Py_END_ALLOW_THREADS
    fr_info_log_rest();
    fr_runtime_stop();
    Py_RETURN_NONE;
}

/* Pending stores into memory that others see happen before the process splits. */
static PyObject *
before_fork(PyObject *module, PyObject *unused)
{
    struct fr_err err;

    (void)module, (void)unused;
    if (fr_runtime_flush(&err) != FR_OK)
        PyErr_Clear();
    fr_runtime_before_fork();
    if (PyErr_Occurred())
        return NULL; /* Ctrl-C while another thread computed: Python reports it and goes on */
    Py_RETURN_NONE;
}

static PyObject *
after_fork(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    fr_runtime_after_fork();
    Py_RETURN_NONE;
}

static PyMethodDef own_methods[] = {
    {"_stop", stop, METH_NOARGS, "Ends threads and helpers; called at exit."},
    {"_before_fork", before_fork, METH_NOARGS, "Called before os.fork."},
    {"_after_fork", after_fork, METH_NOARGS, "Called after os.fork, in both processes."},
    {NULL, NULL, 0, NULL},
};

static int
add_methods(PyObject *module)
{
    PyMethodDef *tables[] = {
        own_methods,
        fr_fallback_methods, fr_fallback_always_functions, fr_share_methods,
        fr_functions_methods, fr_reductions_methods, fr_creation_methods, fr_fill_methods, fr_views_methods, fr_join_methods,
        fr_spread_methods, fr_pad_methods, fr_product_methods, fr_dot_methods, fr_einsum_methods,
        fr_take_methods, fr_mask_methods, fr_scalar_functions,
        fr_dlpack_methods, fr_engine_methods, fr_explain_methods, fr_record_methods, fr_scope_methods, fr_warmup_methods, fr_device_methods,
        fr_accelerate_methods, fr_finish_methods, fr_membrane_methods, fr_crossing_methods, fr_called_methods, fr_convert_methods, fr_outside_methods,
        fr_bytecode_methods,
    };

    for (size_t i = 0; i < FR_LEN(tables); i++)
        if (PyModule_AddFunctions(module, tables[i]) < 0)
            return -1;
    return 0;
}

/* Calls module.name(argument or keyword=argument). */
static int
call_with(const char *module, const char *name, PyObject *argument, const char *keyword)
{
    PyObject *m = PyImport_ImportModule(module), *f = NULL, *args = NULL, *kw = NULL, *r = NULL;

    if (m && argument && (f = PyObject_GetAttrString(m, name)) &&
        (args = keyword ? PyTuple_New(0) : PyTuple_Pack(1, argument)) &&
        (!keyword || (kw = Py_BuildValue("{s:O}", keyword, argument))))
        r = PyObject_Call(f, args, kw);
    Py_XDECREF(m);
    Py_XDECREF(f);
    Py_XDECREF(args);
    Py_XDECREF(kw);
    Py_XDECREF(argument);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

/* Asks frit._libraries. */
static void
look_for_library(const char *name, char *files, size_t cap)
{
    PyObject *module = PyImport_ImportModule("frit._libraries"), *found = NULL;
    size_t    at = 0;

    if (module)
        found = PyObject_CallMethod(module, "find", "s", name);
    for (Py_ssize_t i = 0; found && PyList_Check(found) && i < PyList_GET_SIZE(found); i++) {
        const char *file = PyUnicode_AsUTF8(PyList_GET_ITEM(found, i));

        if (file && at + strlen(file) + 2 <= cap)
            at += (size_t)snprintf(files + at, cap - at, "%s", file) + 1;
    }
    files[at] = '\0';
    Py_XDECREF(found);
    Py_XDECREF(module);
    PyErr_Clear(); /* whoever wants a library and finds none says so */
}

/* The folder of a package, of which this is a module; in ours the helper program lies too. */
static int
find_package(PyObject *module, char *dir, size_t cap)
{
    PyObject   *file = PyModule_GetFilenameObject(module), *bytes = NULL;
    const char *slash;

    if (!file || !PyUnicode_FSConverter(file, &bytes)) {
        Py_XDECREF(file);
        return -1;
    }
    Py_DECREF(file);
    snprintf(dir, cap, "%s", PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    slash = strrchr(dir, '/');
    dir[slash ? slash - dir : 0] = '\0';
    return 0;
}

static int
start_engine(PyObject *module)
{
    char          dir[900], numpy_dir[900], helper[1000];
    PyObject     *numpy = PyImport_ImportModule("numpy");
    struct fr_err err;
    int           found = numpy ? find_package(numpy, numpy_dir, sizeof numpy_dir) : -1;

    Py_XDECREF(numpy);
    if (found < 0 || find_package(module, dir, sizeof dir) < 0)
        return -1;
    fr_hooks = (struct fr_hooks){release_gil, take_gil, interrupted, fr_share_died, fr_judge_by_numpy, fr_judge_speak,
                                 fr_judge_discards, fr_judge_overflows};
    fr_backend_interrupted = interrupted;
    fr_library_look = look_for_library;
    fr_env_load();
    if (fr_errors_check(fr_runtime_init(&err), &err) < 0)
        return -1;
    snprintf(helper, sizeof helper, "%s/frit-cc", dir);
    fr_compile_configure(helper, fr_cpu_features());
    fr_site_init(dir, numpy_dir);
    return 0;
}

static int
exec_module(PyObject *module)
{
    if (fr_tensor_type) { /* NumPy allows one copy per process, and so do we */
        PyErr_SetString(PyExc_ImportError, "frit._core can be loaded once per process");
        return -1;
    }
    if (fr_numpy_init() < 0 || fr_args_init() < 0 || fr_errors_init(module) < 0 || fr_fallback_names_init() < 0 ||
        fr_reductions_init() < 0 || fr_judge_init() < 0 || fr_errstate_init() < 0 || fr_product_init() < 0)
        return -1;
    if (start_engine(module) < 0)
        return -1;
    fr_functions_init();
    fr_methods_init();
    if (fr_type_init(module) < 0 || fr_become_init() < 0 || fr_iterate_init() < 0 || fr_flags_init(module) < 0 ||
        fr_flat_init(module) < 0 || fr_accelerate_init(module) < 0 ||
        fr_outside_init() < 0 || fr_method_init(module) < 0 || fr_hot_init(module) < 0 || fr_crossing_init(module) < 0 || fr_ufunc_init(module) < 0 || add_methods(module) < 0 ||
        fr_dispatch_init(module) < 0)
        return -1;
    if (call_with("atexit", "register", PyObject_GetAttrString(module, "_stop"), NULL) < 0)
        return -1;
    static const char *const hooks[][2] = {{"before", "_before_fork"},
                                           {"after_in_parent", "_after_fork"},
                                           {"after_in_child", "_after_fork"}};

    for (size_t i = 0; i < FR_LEN(hooks); i++)
        if (call_with("os", "register_at_fork", PyObject_GetAttrString(module, hooks[i][1]),
                      hooks[i][0]) < 0)
            return -1;
    return 0;
}

PyDoc_STRVAR(module_doc, "The compiled part of frit. Use the names in the package frit.");

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, exec_module},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "frit._core",
    .m_doc = module_doc,
    .m_size = 0,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
