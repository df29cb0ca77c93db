/* bind/accelerate/bytecode.c -- code objects read and put together: what takes long of python/frit/_bytecode.py and
 * _assemble.py, for it is part of a first call. */
#include "bind/accelerate/accelerate.h"

#include "base/alloc.h"
#include "bind/accelerate/assemble.h"

static struct fr_asm_opcodes opcodes;
const struct fr_asm_opcodes *const fr_bytecode_opcodes = &opcodes;
/* What else an opcode is, by letters of _bytecode.py. */
static uint8_t kind[256], push_null;
enum { NULL_ABOVE = PY_VERSION_HEX >= 0x030d0000 }; /* of the callable, in a call; before that below it */

static PyObject *
set_opcodes(PyObject *module, PyObject *args)
{
    Py_buffer caches, jumps, kinds;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*bb:set_opcodes", &caches, &jumps, &kinds, &opcodes.prefix, &opcodes.nothing))
        return NULL;
    if (caches.len == 256 && jumps.len == 256 && kinds.len == 256) {
        memcpy(opcodes.n_caches, caches.buf, 256);
        memcpy(opcodes.jump, jumps.buf, 256);
        memcpy(kind, kinds.buf, 256);
        for (int op = 0; op < 256; op++)
            push_null = kind[op] == 'n' ? (uint8_t)op : push_null;
    } else {
        PyErr_SetString(PyExc_ValueError, "a byte for each opcode is wanted");
    }
    PyBuffer_Release(&caches);
    PyBuffer_Release(&jumps);
    PyBuffer_Release(&kinds);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* ---- code read */

enum { MERGED = -3 }; /* instead of an opcode: a value that comes from one of several instructions */

static PyObject *
decoded(PyObject *module, PyObject *bytes)
{
    struct fr_asm_instruction in;
    PyObject                 *list = PyBytes_Check(bytes) ? PyList_New(0) : NULL;
    int32_t                   i = 0;

    (void)module;
    if (!list && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "bytes are wanted");
    while (list && fr_asm_next(&opcodes, (const uint8_t *)PyBytes_AS_STRING(bytes), (int32_t)(PyBytes_GET_SIZE(bytes) / 2), &i, &in)) {
        PyObject *one = Py_BuildValue("iii", in.at, in.op, in.arg);

        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

/* How many values more are on the stack afterwards. */
static int
effect(const struct fr_asm_instruction *in, bool jump)
{
    if (kind[in->op] == 'p') /* PRECALL */
        return 0;
    return kind[in->op] == 'c' ? -in->arg - 1 : PyCompile_OpcodeStackEffectWithJump(in->op, in->arg, jump);
}

/* The stack, as which instruction put each value there. */
struct stack {
    struct fr_asm_instruction *v;
    int32_t                    n, cap;
    bool                       failed;
};

static void
resize(struct stack *s, int32_t n, struct fr_asm_instruction with)
{
    n = n < 0 ? 0 : n;
    if (n > s->cap) {
        struct fr_asm_instruction *v = fr_realloc(s->v, 2 * (size_t)n * sizeof *v);

        if (!v) {
            s->failed = true;
            return;
        }
        s->v = v;
        s->cap = 2 * n;
    }
    while (s->n < n)
        s->v[s->n++] = with;
    s->n = n;
}

static int
note(PyObject *set, int32_t at)
{
    PyObject *o = PyLong_FromLong(at);
    int       st = o ? PySet_Add(set, o) : -1;

    Py_XDECREF(o);
    return st;
}

/* Notes what the call calls, if the stack says so. */
static int
note_callee(const struct stack *s, const struct fr_asm_instruction *in, PyObject *found, PyObject *merged)
{
    int32_t                          place = s->n + effect(in, false) - 1; /* of the first of the two that are the callable and a NULL */
    const struct fr_asm_instruction *value, *null;

    if (place < 0 || place + 1 >= s->n)
        return 0;
    value = &s->v[place + !NULL_ABOVE];
    null = &s->v[place + NULL_ABOVE];
    if (null->op < 0 || kind[null->op] != 'n')
        return 0;
    return note(value->op == MERGED ? merged : found, value->at);
}

/* How an instruction leaves the stack. */
static void
step(struct stack *s, const struct fr_asm_instruction *in)
{
    int32_t before = s->n, after;

    if (kind[in->op] == 's' && in->arg <= s->n && in->arg > 0) { /* SWAP */
        struct fr_asm_instruction top = s->v[s->n - 1];

        s->v[s->n - 1] = s->v[s->n - in->arg];
        s->v[s->n - in->arg] = top;
        return;
    }
    if (kind[in->op] == 'y' && in->arg <= s->n && in->arg > 0) { /* COPY */
        resize(s, s->n + 1, s->v[s->n - in->arg]);
        return;
    }
    after = before + effect(in, false);
    resize(s, after, *in);
    if (s->failed)
        return;
    if (kind[in->op] == 'g' && in->arg & 1 && s->n > 1) /* LOAD_GLOBAL with a NULL */
        s->v[s->n - (NULL_ABOVE ? 1 : 2)] = (struct fr_asm_instruction){in->at, push_null, 0};
    if (s->n && (kind[in->op] == 'm' || kind[in->op] == 'c' || kind[in->op] == 'k'))
        s->v[s->n - 1] = *in;
}

/* Follows the stack from each instruction to the next; `height` has for each unit how many values a jump brings there. */
static int
follow(const uint8_t *code, int32_t n, int32_t *height, struct stack *s, PyObject *found, PyObject *merged)
{
    static const struct fr_asm_instruction nothing = {-2, -2, 0};
    struct fr_asm_instruction              in;
    bool                                   goes_on = true;

    for (int32_t i = 0; fr_asm_next(&opcodes, code, n, &i, &in);) {
        int32_t here = height[in.at / 2], to;

        if (here >= 0) {
            resize(s, here, nothing);
            if (s->n)
                s->v[s->n - 1] = (struct fr_asm_instruction){in.at, MERGED, 0};
        } else if (!goes_on) {
            s->n = 0;
        }
        goes_on = kind[in.op] != 'e';
        to = in.at / 2 + 1 + opcodes.n_caches[in.op] + (opcodes.jump[in.op] == 2 ? -in.arg : in.arg);
        if (opcodes.jump[in.op] && to >= 0 && to < n && height[to] < 0) {
            int32_t there = s->n + effect(&in, true);

            height[to] = there > 0 ? there : 0;
        }
        if ((kind[in.op] == 'c' || kind[in.op] == 'k') && note_callee(s, &in, found, merged) < 0)
            return -1;
        step(s, &in);
        if (s->failed) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

static PyObject *
called_values(PyObject *module, PyObject *bytes)
{
    struct stack s = {NULL, 0, 0, false};
    int32_t      n = PyBytes_Check(bytes) ? (int32_t)(PyBytes_GET_SIZE(bytes) / 2) : 0;
    int32_t     *height = fr_malloc(((size_t)n + 1) * sizeof *height);
    PyObject    *found = PySet_New(NULL), *merged = found ? PySet_New(NULL) : NULL, *result = NULL;

    (void)module;
    if (!height)
        PyErr_NoMemory();
    for (int32_t i = 0; height && i < n; i++)
        height[i] = -1;
    if (height && merged && follow((const uint8_t *)PyBytes_AS_STRING(bytes), n, height, &s, found, merged) == 0)
        result = PyTuple_Pack(2, found, merged);
    fr_free(height);
    fr_free(s.v);
    Py_XDECREF(found);
    Py_XDECREF(merged);
    return result;
}

/* ---- and put together */

struct words {
    int32_t *v;
    size_t   n, cap;
};

static bool
add_word(struct words *w, PyObject *o)
{
    long v = PyLong_AsLong(o);

    if (v == -1 && PyErr_Occurred())
        return false;
    if (!FR_GROW(w->v, w->cap, w->n + 1)) {
        PyErr_NoMemory();
        return false;
    }
    w->v[w->n++] = (int32_t)v;
    return true;
}

/* [(offset, [(opcode, argument), ..]), ..] as assemble.h has it. */
static bool
read_changes(PyObject *list, struct words *w)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject  *pair = PyList_GET_ITEM(list, i), *offset, *instead;
        Py_ssize_t n;

        if (!PyArg_ParseTuple(pair, "OO!", &offset, &PyList_Type, &instead) || !add_word(w, offset))
            return false;
        n = PyList_GET_SIZE(instead);
        if (!FR_GROW(w->v, w->cap, w->n + 1)) {
            PyErr_NoMemory();
            return false;
        }
        w->v[w->n++] = (int32_t)n;
        for (Py_ssize_t k = 0; k < n; k++) {
            PyObject *two = PyList_GET_ITEM(instead, k);

            if (!PyTuple_CheckExact(two) || PyTuple_GET_SIZE(two) != 2) {
                PyErr_SetString(PyExc_TypeError, "an instruction is (opcode, argument)");
                return false;
            }
            if (!add_word(w, PyTuple_GET_ITEM(two, 0)) || !add_word(w, PyTuple_GET_ITEM(two, 1)))
                return false;
        }
    }
    return true;
}

static PyObject *
assembled(PyObject *module, PyObject *args)
{
    struct words         words[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    Py_buffer            code, exceptions, lines;
    PyObject            *changes, *more, *result = NULL;
    struct fr_asm_code   in;
    struct fr_asm_result out;
    int                  again;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*O!iO!:assembled", &code, &exceptions, &lines, &PyList_Type, &changes, &again, &PyList_Type,
                          &more))
        return NULL;
    if (read_changes(changes, &words[0]) && read_changes(more, &words[1])) {
        in = (struct fr_asm_code){code.buf, exceptions.buf, lines.buf, (size_t)code.len, (size_t)exceptions.len, (size_t)lines.len,
                                  {words[0].v, words[1].v}, {words[0].n, words[1].n}, again};
        if (fr_asm_replace(&opcodes, &in, &out))
            result = Py_BuildValue("y#y#y#i", out.code.v, (Py_ssize_t)out.code.n, out.exceptions.v ? (char *)out.exceptions.v : "",
                                   (Py_ssize_t)out.exceptions.n, out.lines.v ? (char *)out.lines.v : "", (Py_ssize_t)out.lines.n,
                                   (int)out.second);
        else
            PyErr_NoMemory();
        fr_asm_free(&out);
    }
    fr_free(words[0].v);
    fr_free(words[1].v);
    PyBuffer_Release(&code);
    PyBuffer_Release(&exceptions);
    PyBuffer_Release(&lines);
    return result;
}

PyMethodDef fr_bytecode_methods[] = {
    {"set_opcodes", set_opcodes, METH_VARARGS,
     "set_opcodes(caches, jumps, kinds, prefix, nothing, /)\n--\n\nWhat the others are to know of the running Python."},
    {"decoded", decoded, METH_O, "decoded(code, /)\n--\n\n[(offset, opcode, argument)] of co_code."},
    {"called_values", called_values, METH_O,
     "called_values(code, /)\n--\n\nOffsets of the instructions whose result, on top of the stack, is what a later one calls, and of those\n"
     "before which such a value has come by a jump; methods, which have their object beside them, are not among them."},
    {"assembled", assembled, METH_VARARGS,
     "assembled(code, exceptions, lines, changes, again, changes_again, /)\n--\n\n_assemble.replace() of these parts of a code object."},
    {NULL, NULL, 0, NULL},
};
