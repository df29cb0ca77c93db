/* bind/hot/hot_frame.c -- hot.h: code that is read where it is called: the user's functions, comprehensions. */
#include "bind/hot/hot_int.h"

#include <opcode.h>
#include <string.h>

#include "bind/accelerate/crossing.h"

/* ---- functions */

/* The module whose globals a function has (NULL: those of the loop's own function); false: it is none that can be found again. */
static bool
module_of(const struct reader *r, PyObject *f, PyObject **module)
{
    PyObject *name = ((PyFunctionObject *)f)->func_module, *found = NULL;

    *module = NULL;
    if (PyFunction_GET_GLOBALS(f) == r->source->globals)
        return true;
    found = name && PyUnicode_Check(name) ? PyImport_GetModule(name) : NULL;
    PyErr_Clear();
    Py_XDECREF(found); /* (sys.modules has it) */
    *module = found;
    return found && PyModule_Check(found) && PyModule_GetDict(found) == PyFunction_GET_GLOBALS(f);
}

/* Whether code may be read here: not within itself, and not too far in. */
static bool
may_nest(const struct reader *r, const PyCodeObject *code)
{
    int depth = 0;

    for (int k = r->s.frame; k > 0; k = r->p->frame[k].caller)
        if (r->p->frame[k].code == code || ++depth == 4)
            return false;
    return true;
}

/* Whether a function's code may be read where it is called: nothing but parameters by their places. */
static bool
is_simple(const struct reader *r, PyObject *f, PyCodeObject *code, PyObject **module)
{
    if (!may_nest(r, code))
        return false;
    return module_of(r, f, module) && code->co_flags & CO_OPTIMIZED && code->co_argcount <= FR_HOT_MOST_ARGS &&
           code->co_kwonlyargcount == 0 && code != r->p->frame[0].code && code->co_nlocals == PyTuple_GET_SIZE(code->co_localsplusnames) &&
           !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR));
}

/* Puts arguments in the places of parameters, those by names too, and what parameters are by themselves; false: some is
 * missing, or is there twice. */
static bool
place_arguments(struct reader *r, PyObject *f, PyCodeObject *code, struct fr_hot_value *arg, int n, PyObject *names)
{
    struct fr_hot_value given[FR_HOT_MOST_ARGS];
    PyObject           *defaults = PyFunction_GET_DEFAULTS(f);
    int                 n_names = names ? (int)PyTuple_GET_SIZE(names) : 0, total = code->co_argcount, n_places = n - n_names;
    int                 n_defaults = defaults && fr_hot_defaults_hold(r, code, defaults) ? (int)PyTuple_GET_SIZE(defaults) : 0;
    bool                is_there[FR_HOT_MOST_ARGS] = {false};

    if (n_places > total)
        return false;
    memcpy(given, arg, (size_t)n * sizeof *arg);
    for (int k = 0; k < n_places; k++)
        is_there[k] = true;
    for (int k = 0; k < n_names; k++) {
        int i = code->co_posonlyargcount;

        while (i < total && PyTuple_GET_ITEM(code->co_localsplusnames, i) != PyTuple_GET_ITEM(names, k)) /* (both are interned) */
            i++;
        if (i == total || is_there[i])
            return false;
        arg[i] = given[n_places + k];
        is_there[i] = true;
    }
    for (int i = 0; i < total; i++) {
        if (is_there[i])
            continue;
        if (i < total - n_defaults)
            return false;
        fr_hot_load_constant(r, PyTuple_GET_ITEM(defaults, i - total + n_defaults));
        arg[i] = fr_hot_pop(r);
    }
    return !r->ended;
}

/* The number of the frame of a function that is called here; -1: there are too many of them. */
static int
frame_for(struct reader *r, PyCodeObject *code, PyObject *module, int32_t back)
{
    struct fr_hot_program *p = r->p;
    PyObject              *bytes;
    int                    n = (int)PyTuple_GET_SIZE(code->co_localsplusnames);

    for (int k = 1; k < p->n_frames; k++)
        if (p->frame[k].code == code && p->frame[k].caller == r->s.frame && p->frame[k].back == back)
            return k;
    if (p->n_frames == FR_HOT_FRAMES || p->n_vars + n > FR_HOT_VARS)
        return -1;
    if (!(bytes = PyCode_GetCode(code))) {
        PyErr_Clear();
        return -1;
    }
    p->frame[p->n_frames] = (struct fr_hot_frame){.code = (PyCodeObject *)Py_NewRef(code), .bytes = bytes, .module = Py_XNewRef(module),
                                                  .caller = r->s.frame, .back = back, .first = p->n_vars, .n_vars = n,
                                                  .base = r->s.n_stack};
    for (int k = 0; k < n; k++, p->n_vars++) {
        p->name[p->n_vars] = Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, k));
        p->is_inner[p->n_vars] = true;
        r->s.var[p->n_vars] = (struct fr_hot_value){.kind = FR_HOT_UNBOUND};
    }
    return p->n_frames++;
}

/* A value becomes variable `to`; false: it cannot be one. */
static bool
give(struct reader *r, struct fr_hot_value *v, int to)
{
    if (v->kind == FR_HOT_DISPLAY)
        *v = fr_hot_new_list(r, v);
    if (!is_number(v) && v->kind != FR_HOT_ARRAY && v->kind != FR_HOT_LIST && v->kind != FR_HOT_NONE && v->kind != FR_HOT_OWNER)
        return false;
    if (v->reg < FR_HOT_VARS)
        fr_hot_as_object(r, v);
    fr_hot_move(r, v, to);
    r->p->has_views |= v->kind == FR_HOT_ARRAY || v->kind == FR_HOT_LIST;
    r->s.var[to] = *v;
    r->s.var[to].reg = (int16_t)to;
    r->s.var[to].is_free = r->s.var[to].is_borrowed = false;
    return true;
}

/* Goes on at the beginning of a frame. */
static void
begin(struct reader *r, int frame)
{
    if (!fr_hot_settle(r))
        return;
    r->s.frame = frame;
    fr_hot_go_to(r, 0, false);
}

void
fr_hot_enter(struct reader *r, PyObject *f, struct fr_hot_value *arg, int n, PyObject *names, int32_t next)
{
    PyCodeObject *code = (PyCodeObject *)fr_whose_written(PyFunction_GET_CODE(f));
    PyObject     *module = NULL;
    int           frame = is_simple(r, f, code, &module) && place_arguments(r, f, code, arg, n, names) ? frame_for(r, code, module, next) : -1;

    if (frame < 0) {
        fr_hot_leave(r);
        return;
    }
    for (int k = 0; k < code->co_argcount; k++)
        if (!give(r, &arg[k], r->p->frame[frame].first + k)) {
            fr_hot_leave(r);
            return;
        }
    begin(r, frame);
}

#ifdef PRECALL
#define IS_PRECALL(op) ((op) == PRECALL)
#else
#define IS_PRECALL(op) false
#endif

/* ---- comprehensions, whose code is a function's until Python 3.12 */

/* What takes a generator's values, at once: functions that want all of them, as a list, or the first that decides. `behind`: where
 * the code goes on after the call. */
static enum fr_hot_taker
taker_of(const struct reader *r, int32_t next, int32_t *behind)
{
    static const struct { const char *name; enum fr_hot_taker taker; } all[] = {
        {"sum", FR_HOT_ALL_TAKEN}, {"max", FR_HOT_ALL_TAKEN}, {"min", FR_HOT_ALL_TAKEN}, {"list", FR_HOT_ALL_TAKEN}, {"sorted", FR_HOT_ALL_TAKEN},
        {"any", FR_HOT_ANY}, {"all", FR_HOT_ALL}};
    const PyObject           *bytes = frame_of(r)->bytes;
    struct fr_asm_instruction in = {.op = 0};
    int32_t                   unit = next / 2;

    do {
        if (!fr_asm_next(fr_bytecode_opcodes, (const uint8_t *)PyBytes_AS_STRING(bytes), (int32_t)(PyBytes_GET_SIZE(bytes) / 2), &unit, &in))
            return FR_HOT_NO_TAKER;
        unit = fr_asm_behind(fr_bytecode_opcodes, &in);
    } while (IS_PRECALL(in.op));
    *behind = 2 * unit;
    if (in.op != CALL || in.arg != 1)
        return FR_HOT_NO_TAKER;
    for (int k = r->s.n_stack - 1; k >= 0 && k >= r->s.n_stack - 2; k--)
        for (size_t i = 0; i < FR_LEN(all) && PyDict_Check(r->source->builtins) && r->s.stack[k].kind == FR_HOT_OBJECT; i++)
            if (PyDict_GetItemString(r->source->builtins, all[i].name) == r->s.stack[k].object)
                return all[i].taker;
    return FR_HOT_NO_TAKER;
}

/* The variable of the frame that has that name; -1: none. */
static int
variable_of(const struct fr_hot_frame *f, PyObject *name)
{
    PyObject *all = f->code->co_localsplusnames;

    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all); i++)
        if (PyTuple_GET_ITEM(all, i) == name)
            return f->first + (int)i;
    return -1;
}

void
fr_hot_enter_nested(struct reader *r, PyCodeObject *code, const struct fr_hot_value *iterator, int32_t next)
{
    bool              generates = code->co_flags & CO_GENERATOR;
    int32_t           behind = next;
    enum fr_hot_taker taker = generates ? taker_of(r, next, &behind) : FR_HOT_NO_TAKER;
    int               n = (int)PyTuple_GET_SIZE(code->co_localsplusnames), frame;

    if ((iterator->kind != FR_HOT_WALK && iterator->kind != FR_HOT_RANGE) || !may_nest(r, code) || code->co_argcount != 1 ||
        strcmp(PyUnicode_AsUTF8(code->co_name), generates ? "<genexpr>" : "<listcomp>") != 0 || (generates && taker == FR_HOT_NO_TAKER) ||
        (frame = frame_for(r, code, frame_of(r)->module, taker > FR_HOT_ALL_TAKEN ? behind : next)) < 0) {
        fr_hot_leave(r);
        return;
    }
    for (int k = n - code->co_nfreevars; k < n; k++) { /* what it has of the code around it */
        int                 from = variable_of(frame_of(r), PyTuple_GET_ITEM(code->co_localsplusnames, k));
        struct fr_hot_value v;

        if (from < 0) {
            fr_hot_leave(r);
            return;
        }
        fr_hot_load(r, from);
        v = fr_hot_pop(r);
        if (r->ended || !give(r, &v, r->p->frame[frame].first + k)) {
            fr_hot_leave(r);
            return;
        }
    }
    r->p->frame[frame].is_nested = true;
    r->p->frame[frame].taker = taker;
    fr_hot_push(r, *iterator);
    begin(r, frame);
}

bool
fr_hot_load_iterator(struct reader *r, int i)
{
    struct fr_hot_value it, below = {.kind = FR_HOT_DISPLAY, .reg = -1};

    if (!frame_of(r)->is_nested || i != 0)
        return false;
    if (frame_of(r)->taker == FR_HOT_NO_TAKER)
        below = fr_hot_pop(r);
    it = fr_hot_pop(r);
    fr_hot_push(r, below);
    fr_hot_push(r, it);
    return true;
}

/* Goes on where the frame was called, with a value there. */
static void
end(struct reader *r, struct fr_hot_value v)
{
    const struct fr_hot_frame *f = frame_of(r);

    for (int k = 0; k < f->n_vars; k++)
        r->s.var[f->first + k] = (struct fr_hot_value){.kind = FR_HOT_UNBOUND};
    r->s.frame = f->caller;
    v.is_free = false;
    fr_hot_push(r, v);
    fr_hot_go_to(r, f->back, false);
}

/* any() or all() of a generator gives that: they lie below what is on the stack since it began. */
static void
end_taken(struct reader *r, bool found)
{
    const struct fr_hot_frame *f = frame_of(r);

    r->s.n_stack = f->base - 2;
    end(r, fr_hot_constant(r, FR_HOT_PYTHON, FR_BOOL, (union fr_hot_cell){.i = found == (f->taker == FR_HOT_ANY)}));
}

void
fr_hot_yield(struct reader *r, int32_t next)
{
    struct fr_hot_value        v = fr_hot_pop(r);
    const struct fr_hot_frame *f = frame_of(r);
    int                        truth;

    if (r->ended || f->taker == FR_HOT_NO_TAKER || f->base >= r->s.n_stack) {
        fr_hot_leave(r);
    } else if (f->taker == FR_HOT_ALL_TAKEN) {
        fr_hot_append_to(r, &r->s.stack[f->base], &v);
        fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NONE, .reg = -1});
    } else {
        truth = fr_hot_as_truth(r, &v);
        fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NONE, .reg = -1});
        if (r->ended || !fr_hot_settle(r))
            return;
        fr_hot_jump(r, f->taker == FR_HOT_ANY ? FR_HOT_UNLESS : FR_HOT_IF, truth, next, &r->s);
        end_taken(r, true);
    }
}

void
fr_hot_return(struct reader *r)
{
    struct fr_hot_value v = fr_hot_pop(r);

    if (!r->ended && frame_of(r)->taker > FR_HOT_ALL_TAKEN) {
        end_taken(r, false);
        return;
    }
    if (!r->ended && frame_of(r)->taker == FR_HOT_ALL_TAKEN)
        v = fr_hot_pop(r);
    if (!r->ended && v.kind == FR_HOT_DISPLAY)
        v = fr_hot_new_list(r, &v);
    if (r->ended || r->s.frame == 0 || (!is_number(&v) && v.kind != FR_HOT_ARRAY && v.kind != FR_HOT_LIST && v.kind != FR_HOT_NONE && v.kind != FR_HOT_TUPLE))
        fr_hot_leave(r);
    else
        end(r, v);
}
