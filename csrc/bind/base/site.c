/* bind/base/site.c -- the line of user code that an operation was traced at, as a small number.
 *
 * Asked for at every traced operation, so it costs a few nanoseconds: the running instruction's
 * address is looked up in a table. The table keeps its code objects alive (an address must not be
 * reused while it is a key); when it is full and no operation waits for its evaluation, which may
 * warn at its line, and nobody records lines, it starts over, and ids from before lose their text.
 * Code of this package and of NumPy is skipped: its caller's line counts.
 *
 * This is the one file that looks at the interpreter's own frames. */
#include "bind/base/errstate.h"

#define Py_BUILD_CORE
#undef _PyGC_FINALIZED      /* defined again by the headers of the interpreter itself */
#if PY_VERSION_HEX < 0x030c0000
#include "internal/pycore_frame.h"
#include "internal/pycore_pystate.h"
#endif
#ifdef FR_ERRSTATE_IS_TOLD
#include "internal/pycore_interp.h"
#endif
#undef Py_BUILD_CORE

#include <opcode.h>
#undef CALL                 /* ir/op.h has one of its own */
#include <string.h>

#include "base/alloc.h"
#include "bind/base/base.h"
#include "ir/node.h"
#include "runtime/record.h"

enum { LINES = FR_SITE_LINE(~0u) /* ids are below */ };
enum { MAX_SITES = 8192, MAX_WAITED_FOR = 16 * MAX_SITES /* however many operations wait */ };
enum { SPARSE = 4 /* slots for each site */, FIRST_SITES = 256, RECENT = 512 };
#define SKIP ((uintptr_t)1)    /* added to a key of our own code, which is even: ask its caller */
enum { SCOPE_SHIFT = 48 };     /* addresses of user code are below; above them is the scope (scope.c) */

struct site {
    uintptr_t     key;      /* of the instruction in its scope, and SKIP */
    PyCodeObject *code;
    PyObject     *globals;  /* of the frame */
    int           lasti;    /* byte offset of the instruction */
};

/* Sites lie in the order in which they were met, and there are as many slots as they need: a page that is touched
 * for the first time costs more than tracing an operation. */
static struct site  no_site, *sites = &no_site;     /* [n_sites]; the first is nobody's */
static uint32_t     no_slot, *slots = &no_slot;     /* [last_slot + 1], a power of two: places in `sites`, or 0 */
static uint32_t     last_slot, n_sites = 1, cap_sites;
static uint32_t     first_id;                       /* id of the first site */
static char         skipped[2][1024];               /* folders */

/* Sites that operations were traced at of late, by bits of their keys: all that one traced again asks for. */
static struct recent {
    uintptr_t key;
    uint32_t  id;
} recent[RECENT];

#if PY_VERSION_HEX < 0x030c0000

typedef struct _PyInterpreterFrame *frame_t;

static inline const PyThreadState *
current_thread(void)
{
    return _PyThreadState_GET();
}

static inline frame_t
frame_of(const PyThreadState *t)
{
    return t->cframe->current_frame;
}

static inline frame_t
outer_frame(frame_t f)
{
    return f->previous;
}

static inline uintptr_t
frame_key(frame_t f)
{
    return (uintptr_t)f->prev_instr;
}

static PyCodeObject *
frame_code(frame_t f)
{
    return (PyCodeObject *)Py_NewRef((PyObject *)f->f_code);
}

static PyObject *
frame_globals(frame_t f)
{
    return Py_NewRef(f->f_globals);
}

static int
frame_lasti(frame_t f)
{
    return _PyInterpreterFrame_LASTI(f) * (int)sizeof(_Py_CODEUNIT);
}

#else

/* From 3.12 on, public functions answer; stepping outwards goes through frame objects, which happens
 * only for code of this package. */
typedef struct _PyInterpreterFrame *frame_t;

static inline const PyThreadState *
current_thread(void)
{
    return PyThreadState_Get();
}

static inline frame_t
frame_of(const PyThreadState *t)
{
#if PY_VERSION_HEX < 0x030d0000
    return t->cframe->current_frame;
#else
    return t->current_frame;
#endif
}

static PyCodeObject *
frame_code(frame_t f)
{
    return (PyCodeObject *)PyUnstable_InterpreterFrame_GetCode(f);
}

/* Of the running frame, which is the only one that is asked about. */
static PyObject *
frame_globals(frame_t f)
{
    PyFrameObject *running = PyThreadState_GetFrame(PyThreadState_Get());
    PyObject      *globals = running ? PyFrame_GetGlobals(running) : NULL;

    (void)f;
    Py_XDECREF(running);
    return globals ? globals : PyDict_New();
}

static int
frame_lasti(frame_t f)
{
    return PyUnstable_InterpreterFrame_GetLasti(f);
}

static inline uintptr_t
frame_key(frame_t f)
{
    PyObject *code = PyUnstable_InterpreterFrame_GetCode(f);
    uintptr_t key = (uintptr_t)code + (uintptr_t)PyUnstable_InterpreterFrame_GetLasti(f);

    Py_DECREF(code);
    return key;
}

#endif

/* The running instruction of the frame, in the scope of this thread. */
static inline uintptr_t
key_of(frame_t f)
{
    return frame_key(f) | (uintptr_t)fr_scope_now << SCOPE_SHIFT;
}

void
fr_site_init(const char *package_dir, const char *numpy_dir)
{
    snprintf(skipped[0], sizeof skipped[0], "%s", package_dir);
    snprintf(skipped[1], sizeof skipped[1], "%s", numpy_dir);
}

static void
forget_all(void)
{
    struct site *old = sites;
    uint32_t     n = n_sites;

    /* A code object that dies here may run Python code: the table is consistent before. */
    memset(slots, 0, ((size_t)last_slot + 1) * sizeof *slots);
    memset(recent, 0, sizeof recent);
    sites = &no_site;
    first_id = (first_id + n) & LINES;
    n_sites = 1;
    cap_sites = 0;
    for (uint32_t i = 1; i < n; i++) {
        Py_DECREF(old[i].code);
        Py_XDECREF(old[i].globals);
    }
    fr_free(old);
}

/* The instructions of a line are near each other here, and in the table of recent ones. */
static inline uintptr_t
hash_of(uintptr_t key)
{
    return (key ^ key >> 10 ^ key >> (SCOPE_SHIFT - 2)) >> 2;
}

static inline struct recent *
recent_of(uintptr_t key)
{
    return &recent[(key ^ key >> (SCOPE_SHIFT - 2)) / 4 % RECENT];
}

/* Puts site i into a slot. */
static void
enter(uint32_t i)
{
    uint32_t at = hash_of(sites[i].key) & last_slot;

    while (slots[at])
        at = (at + 1) & last_slot;
    slots[at] = i;
}

/* Room for twice as many sites; false when memory is out. */
static bool
more_room(void)
{
    uint32_t     cap = cap_sites ? 2 * cap_sites : FIRST_SITES, n = SPARSE * cap;
    struct site *grown = fr_malloc(cap * sizeof *grown);
    uint32_t    *fresh = fr_calloc(n, sizeof *fresh);

    if (!grown || !fresh) {
        fr_free(grown);
        fr_free(fresh);
        return false;
    }
    memcpy(grown, sites, n_sites * sizeof *sites);
    if (sites != &no_site)
        fr_free(sites);
    if (slots != &no_slot)
        fr_free(slots);
    sites = grown;
    slots = fresh;
    cap_sites = cap;
    last_slot = n - 1;
    for (uint32_t i = 1; i < n_sites; i++)
        enter(i);
    return true;
}

/* For one more site. */
static bool
make_room(void)
{
    if (n_sites >= (fr_nodes_pending || fr_record_is_on ? MAX_WAITED_FOR : MAX_SITES))
        forget_all();
    return n_sites < cap_sites || more_room();
}

/* The id of site i, which will be asked for again. */
static uint32_t
remember(uint32_t i)
{
    struct recent *at = recent_of(sites[i].key);

    at->key = sites[i].key;
    return at->id = (first_id + i) & LINES;
}

/* True if the code belongs to this package's own Python files. */
static bool
is_ours(PyCodeObject *code)
{
    const char *file;
    bool        ours = false;

    if (!PyUnicode_Check(code->co_filename))
        return false;
    file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) {
        PyErr_Clear();
        return false;
    }
    for (size_t i = 0; i < FR_LEN(skipped); i++) {
        size_t n = strlen(skipped[i]);

        ours |= n && !strncmp(file, skipped[i], n) && file[n] == '/';
    }
    return ours;
}

/* The place of a new key; 0 when memory is out. Takes the references. */
static uint32_t
add(uintptr_t key, PyCodeObject *code, PyObject *globals, int lasti)
{
    if (!make_room()) {
        Py_DECREF(code);
        Py_XDECREF(globals);
        return 0;
    }
    sites[n_sites] = (struct site){key, code, globals, lasti};
    enter(n_sites);
    return n_sites++;
}

static FR_COLD uint32_t
intern(frame_t f, uintptr_t key)
{
    PyCodeObject      *code = frame_code(f);
    const struct site *last = &sites[n_sites - 1];
    bool               ours = last->code == code ? last->key & SKIP : is_ours(code);

    return add(ours ? key | SKIP : key, code, frame_globals(f), frame_lasti(f));
}

/* The place of the key, or 0. */
static uint32_t
look_up(uintptr_t key)
{
    for (uint32_t at = hash_of(key) & last_slot; slots[at]; at = (at + 1) & last_slot)
        if ((sites[slots[at]].key & ~SKIP) == key)
            return slots[at];
    return 0;
}

#if PY_VERSION_HEX < 0x030c0000

static FR_COLD uint32_t
look_further(frame_t f)
{
    for (; f; f = outer_frame(f)) {
        uintptr_t key = key_of(f);
        uint32_t  i = look_up(key);

        if (!i && !(i = intern(f, key)))
            return 0;
        if (!(sites[i].key & SKIP))
            return remember(i);
    }
    return 0;
}

#else

/* The nearest caller outside this package, by frame objects. */
static FR_COLD uint32_t
look_outwards(void)
{
    PyFrameObject *f = PyThreadState_GetFrame(PyThreadState_Get()), *back;
    uint32_t       id = 0;

    while (f) {
        PyCodeObject *code = PyFrame_GetCode(f);
        int           lasti = PyFrame_GetLasti(f);
        uintptr_t     key = ((uintptr_t)code + (uintptr_t)lasti) | (uintptr_t)fr_scope_now << SCOPE_SHIFT;
        bool          ours = is_ours(code);
        uint32_t      i = ours ? 0 : look_up(key);

        if (!ours && !i)
            i = add(key, (PyCodeObject *)Py_NewRef((PyObject *)code), PyFrame_GetGlobals(f), lasti);
        if (i)
            id = (first_id + i) & LINES;
        Py_DECREF(code);
        if (!ours)
            break;
        back = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = back;
    }
    Py_XDECREF(f);
    return id;
}

static FR_COLD uint32_t
look_further(frame_t f)
{
    uintptr_t key = key_of(f);
    uint32_t  i = look_up(key);

    if (!i && !(i = intern(f, key)))
        return 0;
    return sites[i].key & SKIP ? look_outwards() : remember(i);
}

#endif

/* True if the user's state may be another one than when it was read last. */
static inline bool
has_changed(const PyThreadState *thread)
{
#ifdef FR_ERRSTATE_IS_TOLD
    const struct fr_errstate_cached *now = fr_errstate_cached;

    return thread->interp->warnings.filters_version != fr_errstate_seen.filters || now->value != fr_errstate_seen.value ||
           now->thread != thread->id || now->context != thread->context_ver;
#else
    (void)thread;
    return true;
#endif
}

static FR_COLD uint32_t
look_anew(frame_t f)
{
    const uintptr_t      key = key_of(f);
    const struct recent *at = recent_of(key);

    fr_errstate_look();
    return (at->key == key ? at->id : look_further(f)) | fr_errstate_bits;
}

uint32_t
fr_site_here(void)
{
    const PyThreadState *thread = current_thread();
    frame_t              f = frame_of(thread);
    const struct recent *at;
    uintptr_t            key;

    if (FR_UNLIKELY(!f))
        return 0;
    if (FR_UNLIKELY(has_changed(thread)))
        return look_anew(f);
    key = key_of(f);
    at = recent_of(key);
    return (FR_LIKELY(at->key == key) ? at->id : look_further(f)) | fr_errstate_bits;
}

uintptr_t
fr_site_instruction(void)
{
    frame_t f = frame_of(current_thread());

    return f ? frame_key(f) : 0;
}

/* The running instruction and, in the byte above, the one before it; -1 if they are not known. */
static int
running(void)
{
    frame_t       f = frame_of(current_thread());
    PyCodeObject *code = f ? frame_code(f) : NULL;
    PyObject     *bytes = code ? PyCode_GetCode(code) : NULL;
    int           at = bytes ? frame_lasti(f) : -1, ops = -1;

    if (at >= 2 && at < PyBytes_GET_SIZE(bytes)) {
        const unsigned char *b = (const unsigned char *)PyBytes_AS_STRING(bytes);
        ops = b[at] | b[at - 2] << 8;
    }
    if (code && !bytes)
        PyErr_Clear();
    Py_XDECREF(bytes);
    Py_XDECREF(code);
    return ops;
}

bool
fr_site_takes_item(void)
{
#ifdef BINARY_SUBSCR
    return (running() & 255) == BINARY_SUBSCR;
#else
    return (running() & 255) == BINARY_OP;
#endif
}

bool
fr_site_stores_plainly(void)
{
    int ops = running(), key = ops >> 8;

    if (ops < 0)
        return false;
#ifdef STORE_SLICE
    if ((ops & 255) == STORE_SLICE)
        return true;
#endif
#ifdef LOAD_SMALL_INT
    if (key == LOAD_SMALL_INT)
        key = LOAD_CONST;
#endif
    return (ops & 255) == STORE_SUBSCR && (key == LOAD_CONST || key == BUILD_SLICE);
}

/* The site with this id; NULL: it is not remembered. */
static const struct site *
site_of(uint32_t id)
{
    uint32_t i = (id - first_id) & LINES;

    return i > 0 && i < n_sites ? &sites[i] : NULL;
}

int
fr_site_warn(uint32_t id, PyObject *category, PyObject *text)
{
    const struct site *s = site_of(id);
    PyObject          *registry, *module, *file, *globals;
    int                line, st = -1;

    if (!s || !s->globals || !PyDict_Check(s->globals))
        return PyErr_WarnEx(category, PyUnicode_AsUTF8(text), 1);
    globals = Py_NewRef(s->globals); /* a filter's code may trace, and the table start over */
    file = Py_NewRef(s->code->co_filename);
    line = PyCode_Addr2Line(s->code, s->lasti);
    registry = PyDict_GetItemString(globals, "__warningregistry__");
    Py_XINCREF(registry);
    if (!registry && (registry = PyDict_New()) && PyDict_SetItemString(globals, "__warningregistry__", registry) < 0)
        Py_CLEAR(registry);
    module = PyDict_GetItemString(globals, "__name__");
    Py_XINCREF(module);
    if (registry)
        st = PyErr_WarnExplicitObject(category, text, file, line, module, registry);
    Py_XDECREF(module);
    Py_XDECREF(registry);
    Py_DECREF(file);
    Py_DECREF(globals);
    return st;
}

uint32_t
fr_site_scope(uint32_t id)
{
    const struct site *s = site_of(id);

    return s ? (uint32_t)(s->key >> SCOPE_SHIFT) : 0;
}

static PyObject *name_file;      /* name_file(file) is what texts call it; NULL: as it is */

void
fr_site_name_files(PyObject *function)
{
    Py_XSETREF(name_file, Py_XNewRef(function));
}

/* What people call a file: a new reference. */
static PyObject *
file_name(PyObject *file)
{
    PyObject *name = name_file ? PyObject_CallOneArg(name_file, file) : Py_NewRef(file);

    if (name && !PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "a file's name is a string, not %s", Py_TYPE(name)->tp_name);
        Py_CLEAR(name);
    }
    return name;
}

PyObject *
fr_site_text(uint32_t id)
{
    const struct site *s = site_of(id);
    PyCodeObject      *code;
    PyObject          *name, *text = NULL;
    int                line;

    if (!s)
        return PyUnicode_FromString(FR_SITE_LINE(id) ? "a line no longer remembered" : "an unknown line");
    line = PyCode_Addr2Line(s->code, s->lasti);
    code = (PyCodeObject *)Py_NewRef((PyObject *)s->code); /* who names it may trace, and the table start over */
    if ((name = file_name(code->co_filename)))
        text = PyUnicode_FromFormat("%U:%d in %U", name, line, code->co_qualname);
    Py_XDECREF(name);
    Py_DECREF(code);
    return text;
}

PyObject *
fr_site_explain(const char *text)
{
    PyObject   *parts = PyList_New(0), *empty, *joined = NULL, *part, *before = NULL;
    const char *at;

    if (!parts)
        return NULL;
    for (; *text; Py_DECREF(part)) {
        size_t n;

        if (*text == '@' && text[1] >= '0' && text[1] <= '9') {
            char *end;
            part = fr_site_text((uint32_t)strtoul(text + 1, &end, 10));
            text = end;
            if (part && before && PyUnicode_Compare(part, before) == 0) { /* instructions of one line */
                if (PyList_SetSlice(parts, PyList_GET_SIZE(parts) - 1, PyList_GET_SIZE(parts), NULL) < 0)
                    Py_CLEAR(part);
                else
                    continue;
            }
            before = part;
        } else {
            at = strchr(text + 1, '@');
            n = at ? (size_t)(at - text) : strlen(text);
            part = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "replace");
            before = n == 1 && *text == ' ' ? before : NULL;
            text += n;
        }
        if (!part || PyList_Append(parts, part) < 0) {
            Py_XDECREF(part);
            goto out;
        }
    }
    empty = PyUnicode_FromString("");
    if (empty)
        joined = PyUnicode_Join(empty, parts);
    Py_XDECREF(empty);
out:
    Py_DECREF(parts);
    return joined;
}
