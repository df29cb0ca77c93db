/* bind/site.c -- the line of user code that an operation was traced at, as a small number.
 *
 * Asked for at every traced operation, so it costs a few nanoseconds: the running instruction's
 * address is looked up in a table. The table keeps its code objects alive (an address must not be
 * reused while it is a key); when it is full it starts over, and ids from before lose their text.
 * Code of this package is skipped: its caller's line counts.
 *
 * This is the one file that looks at the interpreter's own frames. */
#include <Python.h>
#if PY_VERSION_HEX < 0x030c0000
#define Py_BUILD_CORE
#undef _PyGC_FINALIZED      /* defined again by the headers of the interpreter itself */
#include "internal/pycore_frame.h"
#include "internal/pycore_pystate.h"
#undef Py_BUILD_CORE
#endif

#include <string.h>

#include "base/alloc.h"
#include "bind/bind.h"

enum { N_SITES = 8192, N_SLOTS = 4 * N_SITES };
#define SKIP UINT32_MAX

struct slot {
    uintptr_t key;      /* 0: empty */
    uint32_t  id;       /* SKIP: ours, ask its caller */
};

struct site {
    PyCodeObject *code;
    int           lasti;    /* byte offset of the instruction */
};

static struct slot  slots[N_SLOTS];
static struct site *sites;          /* of ids first_id .. first_id + n_sites - 1 */
static uint32_t     first_id = 1, n_sites;
static uint32_t     n_used;         /* slots taken, those of our own code too */
static PyObject   **skipped;        /* code objects of this package that are keys */
static uint32_t     n_skipped;
static char         package_dir[1024];

#if PY_VERSION_HEX < 0x030c0000

typedef struct _PyInterpreterFrame *frame_t;

static inline frame_t
current_frame(void)
{
    return _PyThreadState_GET()->cframe->current_frame;
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

static int
frame_lasti(frame_t f)
{
    return _PyInterpreterFrame_LASTI(f) * (int)sizeof(_Py_CODEUNIT);
}

#else

/* From 3.12 on, public functions answer; stepping outwards goes through frame objects, which happens
 * only for code of this package. */
typedef struct _PyInterpreterFrame *frame_t;

static inline frame_t
current_frame(void)
{
#if PY_VERSION_HEX < 0x030d0000
    return PyThreadState_Get()->cframe->current_frame;
#else
    return PyThreadState_Get()->current_frame;
#endif
}

static PyCodeObject *
frame_code(frame_t f)
{
    return (PyCodeObject *)PyUnstable_InterpreterFrame_GetCode(f);
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

void
fr_site_init(const char *dir)
{
    snprintf(package_dir, sizeof package_dir, "%s", dir);
}

static void
forget_all(void)
{
    struct site *old = sites;
    PyObject   **old_skipped = skipped;
    uint32_t     n = n_sites, m = n_skipped;

    /* A code object that dies here may run Python code: the table is consistent before. */
    memset(slots, 0, sizeof slots);
    sites = NULL;
    skipped = NULL;
    first_id += n;
    n_sites = n_used = n_skipped = 0;
    for (uint32_t i = 0; i < n; i++)
        Py_DECREF(old[i].code);
    for (uint32_t i = 0; i < m; i++)
        Py_DECREF(old_skipped[i]);
    fr_free(old);
    fr_free(old_skipped);
}

static bool
make_room(void)
{
    if (n_used >= N_SITES)
        forget_all();
    if (sites)
        return true;
    sites = fr_calloc(N_SITES, sizeof *sites);
    skipped = fr_calloc(N_SITES, sizeof *skipped);
    if (sites && skipped)
        return true;
    fr_free(sites);
    fr_free(skipped);
    sites = NULL;
    skipped = NULL;
    return false;
}

static inline uint32_t
slot_of(uintptr_t key)
{
    return (uint32_t)(((uint64_t)key * 0x9e3779b97f4a7c15u) >> 40) % N_SLOTS;
}

/* True if the code belongs to this package's own Python files. */
static bool
is_ours(PyCodeObject *code)
{
    size_t      n = strlen(package_dir);
    const char *file;

    if (!n || !PyUnicode_Check(code->co_filename))
        return false;
    file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) {
        PyErr_Clear();
        return false;
    }
    return !strncmp(file, package_dir, n) && file[n] == '/';
}

/* The id of a new key; 0 when memory is out. */
static FR_COLD uint32_t
intern(frame_t f, uintptr_t key)
{
    PyCodeObject *code;
    uint32_t      i, id;

    if (!make_room())
        return 0;
    code = frame_code(f);
    if (is_ours(code)) {
        skipped[n_skipped++] = (PyObject *)code;
        id = SKIP;
    } else {
        sites[n_sites] = (struct site){code, frame_lasti(f)};
        id = first_id + n_sites++;
    }
    n_used++;
    for (i = slot_of(key); slots[i].key; i = (i + 1) % N_SLOTS)
        ;
    slots[i] = (struct slot){key, id};
    return id;
}

static uint32_t
look_up(frame_t f)
{
    uintptr_t key = frame_key(f);

    for (uint32_t i = slot_of(key);; i = (i + 1) % N_SLOTS) {
        if (slots[i].key == key)
            return slots[i].id;
        if (!slots[i].key)
            return intern(f, key);
    }
}

/* True if the key is where it belongs: nearly always, in a table that is at most a quarter full. */
static inline bool
look_first(frame_t f, uint32_t *id)
{
    uintptr_t          key = frame_key(f);
    const struct slot *s = &slots[slot_of(key)];

    *id = s->id;
    return FR_LIKELY(s->key == key) && FR_LIKELY(s->id != SKIP);
}

#if PY_VERSION_HEX < 0x030c0000

static FR_COLD uint32_t
look_further(frame_t f)
{
    for (; f; f = outer_frame(f)) {
        uint32_t id = look_up(f);
        if (id != SKIP)
            return id;
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
        uintptr_t     key = (uintptr_t)code + (uintptr_t)PyFrame_GetLasti(f);
        bool          ours = is_ours(code);
        uint32_t      i;

        if (!ours && make_room()) {
            for (i = slot_of(key); slots[i].key && slots[i].key != key; i = (i + 1) % N_SLOTS)
                ;
            if (!slots[i].key) {
                sites[n_sites] = (struct site){(PyCodeObject *)Py_NewRef((PyObject *)code),
                                               PyFrame_GetLasti(f)};
                slots[i] = (struct slot){key, first_id + n_sites++};
                n_used++;
            }
            id = slots[i].id;
        }
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
    uint32_t id = look_up(f);

    return id != SKIP ? id : look_outwards();
}

#endif

uint32_t
fr_site_here(void)
{
    frame_t  f = current_frame();
    uint32_t id;

    if (FR_UNLIKELY(!f))
        return 0;
    return FR_LIKELY(look_first(f, &id)) ? id : look_further(f);
}

PyObject *
fr_site_text(uint32_t id)
{
    const struct site *s;

    if (id < first_id || id - first_id >= n_sites)
        return PyUnicode_FromString(id ? "a line no longer remembered" : "an unknown line");
    s = &sites[id - first_id];
    return PyUnicode_FromFormat("%U:%d in %U", s->code->co_filename,
                                PyCode_Addr2Line(s->code, s->lasti), s->code->co_qualname);
}

PyObject *
fr_site_explain(const char *text)
{
    PyObject   *parts = PyList_New(0), *empty, *joined = NULL, *part;
    const char *at;

    if (!parts)
        return NULL;
    for (; *text; Py_DECREF(part)) {
        size_t n;

        if (*text == '@' && text[1] >= '0' && text[1] <= '9') {
            char *end;
            part = fr_site_text((uint32_t)strtoul(text + 1, &end, 10));
            text = end;
        } else {
            at = strchr(text + 1, '@');
            n = at ? (size_t)(at - text) : strlen(text);
            part = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "replace");
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
