/* bind/hot/hot.c -- see hot.h: the object that stands where a loop turns in plain calls, what it reads of the frame
 * that runs, and what it writes there. */
#include "bind/hot/hot.h"

#include <frameobject.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/span.h"
#include "base/tune.h"
#include "base/ways.h"
#include "bind/accelerate/accelerate.h"
#include "bind/accelerate/assemble.h"
#include "bind/accelerate/membrane.h"

/* ---- iterators of ranges, whose fields are looked for once */

struct range_iterator {
    PyObject_HEAD
#if PY_VERSION_HEX < 0x030c0000
    long index, start, step, len;
#else
    long start, step, len;
#endif
};

static void
read_iterator(const struct range_iterator *it, union fr_hot_cell cell[3])
{
#if PY_VERSION_HEX < 0x030c0000
    cell[0].i = it->start + it->index * it->step;
    cell[1].i = it->len - it->index;
#else
    cell[0].i = it->start;
    cell[1].i = it->len;
#endif
    cell[2].i = it->step;
}

static void
write_iterator(struct range_iterator *it, const union fr_hot_cell cell[3])
{
#if PY_VERSION_HEX < 0x030c0000
    it->index = it->len - cell[1].i;
#else
    it->start = cell[0].i;
    it->len = cell[1].i;
#endif
}

/* Those over arrays or lists, and enumerate() of these. */
struct array_iterator {
    PyObject_HEAD
    Py_ssize_t index;
    PyObject  *array;
};
struct numbered_iterator {
    PyObject_HEAD
    Py_ssize_t index;
    PyObject  *iterator, *result, *long_index;
};

struct zip_iterator {
    PyObject_HEAD
    Py_ssize_t n;
    PyObject  *iterators;
};

/* The iterators over arrays that an iterator goes over together: how many; 0: it is none of these. */
static int
walked_by(PyObject *it, struct array_iterator *part[FR_HOT_PARTS])
{
    if (Py_IS_TYPE(it, &PyEnum_Type))
        return Py_IS_TYPE(((struct numbered_iterator *)it)->iterator, &PyEnum_Type) ? 0 : walked_by(((struct numbered_iterator *)it)->iterator, part);
    if (Py_IS_TYPE(it, &PySeqIter_Type) || Py_IS_TYPE(it, &PyListIter_Type)) {
        part[0] = (struct array_iterator *)it;
        return part[0]->array != NULL;
    }
    if (!Py_IS_TYPE(it, &PyZip_Type) || ((struct zip_iterator *)it)->n < 2 || ((struct zip_iterator *)it)->n > FR_HOT_PARTS)
        return 0;
    for (int k = 0; k < (int)((struct zip_iterator *)it)->n; k++) {
        PyObject *one = PyTuple_GET_ITEM(((struct zip_iterator *)it)->iterators, k);

        if (!(Py_IS_TYPE(one, &PySeqIter_Type) || Py_IS_TYPE(one, &PyListIter_Type)) || !((struct array_iterator *)one)->array)
            return 0;
        part[k] = (struct array_iterator *)one;
    }
    return (int)((struct zip_iterator *)it)->n;
}

/* What an iterator is to the translation; false: nothing. */
static bool
type_of_iterator(PyObject *it, struct fr_hot_value *v)
{
    struct array_iterator *part[FR_HOT_PARTS];

    *v = (struct fr_hot_value){.kind = FR_HOT_RANGE};
    if (Py_IS_TYPE(it, &PyRangeIter_Type))
        return true;
    *v = (struct fr_hot_value){.kind = FR_HOT_WALK, .is_numbered = Py_IS_TYPE(it, &PyEnum_Type)};
    v->n_parts = (uint8_t)walked_by(it, part);
    for (int k = 0; k < v->n_parts; k++) {
        struct fr_hot_value array;

        fr_hot_type(part[k]->array, &array);
        if (!fr_hot_set_part(v, k, &array) || part[k]->index != part[0]->index)
            return false;
    }
    if (v->is_numbered && v->n_parts) {
        const struct numbered_iterator *e = (struct numbered_iterator *)it;

        return !e->long_index && e->index == part[0]->index;
    }
    return v->n_parts > 0;
}

/* Whether they are where this expects them, after the first of two items. */
static bool
array_iterators_are_known(void)
{
    npy_intp               n = 2;
    PyObject              *array = PyArray_ZEROS(1, &n, NPY_DOUBLE, 0);
    PyObject              *zip = array ? PyObject_CallFunctionObjArgs((PyObject *)&PyZip_Type, array, array, NULL) : NULL;
    PyObject              *e = zip ? PyObject_CallOneArg((PyObject *)&PyEnum_Type, zip) : NULL, *first = e ? PyIter_Next(e) : NULL;
    struct array_iterator *part[FR_HOT_PARTS];
    struct fr_hot_value    v;
    bool known = first && Py_TYPE(e)->tp_basicsize >= (Py_ssize_t)sizeof(struct numbered_iterator) &&
                 PyZip_Type.tp_basicsize >= (Py_ssize_t)sizeof(struct zip_iterator) && PySeqIter_Type.tp_basicsize == sizeof **part && PyListIter_Type.tp_basicsize == sizeof **part &&
                 ((struct numbered_iterator *)e)->index == 1 && ((struct numbered_iterator *)e)->iterator == zip &&
                 !((struct numbered_iterator *)e)->long_index && ((struct zip_iterator *)zip)->n == 2 &&
                 PyTuple_CheckExact(((struct zip_iterator *)zip)->iterators) && PyTuple_GET_SIZE(((struct zip_iterator *)zip)->iterators) == 2;

    known = known && walked_by(e, part) == 2 && part[0]->index == 1 && part[1]->array == array && type_of_iterator(e, &v);
    PyErr_Clear();
    Py_XDECREF(array);
    Py_XDECREF(zip);
    Py_XDECREF(e);
    Py_XDECREF(first);
    return known;
}

/* Whether they are where this expects them: 7, 10 of range(4, 12, 3) after its first; then its last is left. */
static bool
iterators_are_known(void)
{
    PyObject         *range = PyObject_CallFunction((PyObject *)&PyRange_Type, "iii", 4, 12, 3), *it = range ? PyObject_GetIter(range) : NULL;
    PyObject         *first = it ? PyIter_Next(it) : NULL, *last;
    union fr_hot_cell cell[3];
    bool              known = first && Py_IS_TYPE(it, &PyRangeIter_Type) && Py_TYPE(it)->tp_basicsize == sizeof(struct range_iterator);

    if (known) {
        read_iterator((struct range_iterator *)it, cell);
        known = cell[0].i == 7 && cell[1].i == 2 && cell[2].i == 3;
        cell[0].i = 10;
        cell[1].i = 1;
    }
    if (known) {
        write_iterator((struct range_iterator *)it, cell);
        last = PyIter_Next(it);
        known = last && PyLong_AsLong(last) == 10;
        Py_XDECREF(last);
        last = PyIter_Next(it);
        known = known && !last;
        Py_XDECREF(last);
    }
    PyErr_Clear();
    Py_XDECREF(range);
    Py_XDECREF(it);
    Py_XDECREF(first);
    return known;
}

/* ---- loops */

enum { ENTRIES = 24,       /* after so many it is asked whether they are worth it: */
       WORTH_TURNS = 6,    /* turns of an entry, */
       WORTH_NS = 20000,   /* or so long: what it costs to begin is nothing then */
       FUTILE = 6,         /* entries, one after the other, that made none */
       ANEW = 8,           /* translations */
       MOST_GUESSED = 24 };/* of what is asked for, by one entry */

struct loop {
    PyObject_HEAD
    PyCodeObject          *code;
    struct fr_hot_program *program;
    struct fr_hot_source   source;
    uint32_t               n_asked, n_entries, n_futile, n_anew;
    uint64_t               n_turns, ns;
    bool                   is_off, is_running;
};

static bool works;
static struct fr_hot_run *spare;

/* Where the loop's instructions are: up to the last that turns to the same place (a while loop is turned at its end, and by
 * `continue` at its beginning). */
static void
find_extent(struct loop *l)
{
    PyObject                 *bytes = PyCode_GetCode(l->code);
    int32_t                   unit = 0, n = bytes ? (int32_t)(PyBytes_GET_SIZE(bytes) / 2) : 0;
    struct fr_asm_instruction in;

    while (bytes && fr_asm_next(fr_bytecode_opcodes, (const uint8_t *)PyBytes_AS_STRING(bytes), n, &unit, &in)) {
        int32_t to = 2 * (fr_asm_behind(fr_bytecode_opcodes, &in) - in.arg);

        if (fr_bytecode_opcodes->jump[in.op] == 2 && to == l->source.header && in.at > l->source.last)
            l->source.last = in.at;
    }
    PyErr_Clear();
    Py_XDECREF(bytes);
}

static PyObject *
loop_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct loop *l;
    PyObject    *code;
    int          header, last, is_for;

    if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "no names are taken");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!iip:_Loop", &PyCode_Type, &code, &header, &last, &is_for) || !(l = (struct loop *)type->tp_alloc(type, 0)))
        return NULL;
    l->code = (PyCodeObject *)Py_NewRef(code);
    l->source = (struct fr_hot_source){.code = l->code, .header = header, .last = last, .is_for = is_for};
    find_extent(l);
    return (PyObject *)l;
}

static void
loop_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    fr_hot_free(((struct loop *)self)->program);
    Py_XDECREF(((struct loop *)self)->code);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
loop_reduce(PyObject *self, PyObject *unused)
{
    const struct loop *l = (struct loop *)self;

    (void)unused;
    return Py_BuildValue("O(OiiO)", Py_TYPE(self), l->code, (int)l->source.header, (int)l->source.last, l->source.is_for ? Py_True : Py_False);
}

/* ---- what is read and written */

/* Whether globals and functions are what the program takes them for. */
static bool
guards_hold(const struct loop *l)
{
    const struct fr_hot_program *p = l->program;

    for (int k = 0; k < p->n_guards; k++) {
        PyObject *of = p->guard[k].of, *name = p->guard[k].name;
        int       owner = p->guard[k].owner;
        PyObject *on = owner ? fr_hot_object(p, &l->source, owner - 1) : NULL;
        PyObject *o = of      ? fr_hot_global_of(&l->source, of, name)
                      : owner ? fr_hot_method(on, name)
                              : fr_hot_global(&l->source, name);

        Py_XDECREF(on);
        if (!fr_hot_guard_holds(p, k, o)) {
            PyErr_Clear();
            return false;
        }
    }
    return true;
}

/* Reads the variables; held: a list of what has memory. False: they cannot be. */
static bool
read_variables(const struct loop *l, struct fr_hot_value *types, struct fr_hot_run *run, PyObject *held, int from)
{
    const struct fr_hot_program *p = l->program;

    for (int i = from; i < p->n_vars; i++) {
        PyObject *o;

        types[i] = (struct fr_hot_value){.kind = FR_HOT_OPAQUE};
        if (!p->is_used[i])
            continue;
        o = fr_hot_object(p, &l->source, i);
        fr_hot_type(o, &types[i]);
        if (p->is_global[i] && !(o && types[i].kind == p->global_type[i].kind && types[i].dtype == p->global_type[i].dtype &&
                                 types[i].ndim == p->global_type[i].ndim)) {
            Py_XDECREF(o);
            return false;
        }
        fr_hot_read_value(o, &types[i], &run->reg[i], &run->view[i]);
        if (o && types[i].kind == FR_HOT_OPAQUE)
            run->view[i] = (struct fr_hot_view){.array = o};
        if (o && (types[i].kind == FR_HOT_ARRAY || types[i].kind == FR_HOT_LIST || types[i].kind == FR_HOT_OPAQUE) && PyList_Append(held, o) < 0) {
            Py_DECREF(o);
            return false;
        }
        Py_XDECREF(o);
    }
    return true;
}

/* Writes variable i. */
static int
write_value(const struct loop *l, PyObject *locals, int i, PyObject *v)
{
    const struct fr_hot_program *p = l->program;
    PyObject                    *o;
    int                          st;

    if (p->is_stored_global[i])
        return PyDict_SetItem(l->source.globals, p->name[i], v);
    if (!p->owner[i])
        return PyObject_SetItem(locals, p->name[i], v);
    if (!(o = fr_hot_object(p, &l->source, p->owner[i] - 1)))
        return -1;
    st = PyObject_SetAttr(o, p->name[i], v);
    Py_DECREF(o);
    return st;
}

/* Writes what the loop assigns, as it was at the last turn. */
static bool
write_variables(const struct loop *l, PyFrameObject *frame, PyObject *locals, const struct fr_hot_run *run)
{
    const struct fr_hot_program *p = l->program;
    const struct fr_hot_head    *head = &p->head[run->head];

    for (int i = 0; i < p->n_vars; i++) {
        PyObject *o;
        int       st;

        if (!p->is_set[i] || head->var[i].kind == FR_HOT_UNBOUND || head->var[i].kind == FR_HOT_OPAQUE ||
            head->var[i].kind == FR_HOT_OWNER)
            continue;
        if (!(o = fr_hot_boxed(&run->saved[i], p->has_views ? &run->saved_view[i] : &run->view[i], &head->var[i])))
            return false;
        st = write_value(l, locals, i, o);
        Py_DECREF(o);
        if (st < 0)
            return false;
    }
#if PY_VERSION_HEX < 0x030d0000
    if (l->code->co_flags & CO_OPTIMIZED)
        PyFrame_LocalsToFast(frame, 0);
#else
    (void)frame;
#endif
    return true;
}

/* The frame's dictionary of local variables holds what these were: it is emptied, if it is nobody else's. */
static void
forget(const struct loop *l, PyObject *locals)
{
    if (l->code->co_flags & CO_OPTIMIZED && PyDict_CheckExact(locals) && Py_REFCNT(locals) == 2)
        PyDict_Clear(locals);
}

static void
note_run(struct loop *l, const struct fr_hot_run *run, enum fr_hot_end end)
{
    static const char *const names[] = {
#define X(name) #name,
        FR_HOT_OPS(X)
#undef X
    };
    int64_t n = run->n_turns;

    if (l->program->is_outdated) /* (it was left to be translated anew) */
        return;
    l->n_entries++;
    l->n_turns += (uint64_t)n;
    l->ns += (uint64_t)run->ns;
    l->n_futile = n > 0 ? 0 : l->n_futile + 1;
    l->is_off |= l->n_futile >= FUTILE || end == FR_HOT_TOO_LONG ||
                 (l->n_entries == ENTRIES && l->n_turns < (uint64_t)WORTH_TURNS * ENTRIES && l->ns < (uint64_t)WORTH_NS * ENTRIES);
    if (n > 0)
        fr_count_way(FR_WAY_hot);
    if (fr_env.debug >= 1 && (l->is_off || l->n_entries == 1))
        fr_log(1, "a loop of %s made %lld turns without Python, to %s in line %d%s", PyUnicode_AsUTF8(l->code->co_name), (long long)n,
               names[l->program->ins[run->left].op], fr_hot_line(l->program, run->left), l->is_off ? ", and makes no more" : "");
}

/* Finds where the loop begins for the variables as they are, which it reads: -1: nowhere, unless an exception is set. */
static int
find_head(struct loop *l, struct fr_hot_run *run, PyObject *held)
{
    struct fr_hot_value types[FR_HOT_VARS];
    int                 head, n_vars;

    if (!l->program && !(l->program = fr_hot_new(&l->source)))
        return -1;
    n_vars = l->program->n_vars;
    if (!guards_hold(l) || !read_variables(l, types, run, held, 0))
        return -1;
    head = fr_hot_head_of(l->program, &l->source, types);
    if (head >= 0 && l->program->n_vars > n_vars && !read_variables(l, types, run, held, n_vars)) /* globals that were met */
        return -1;
    return head;
}

static void
enter_iterator(PyObject *it, struct fr_hot_run *run)
{
    union fr_hot_cell     *cell = &run->reg[FR_HOT_STACK_REGS];
    struct array_iterator *part[FR_HOT_PARTS];
    int                    n;

    if (Py_IS_TYPE(it, &PyRangeIter_Type)) {
        read_iterator((struct range_iterator *)it, cell);
        return;
    }
    n = walked_by(it, part);
    cell->i = part[0]->index;
    for (int k = 0; k < n; k++)
        fr_hot_read_any(part[k]->array, &run->view[FR_HOT_STACK_REGS + k]);
}

static void
leave_iterator(PyObject *it, const struct fr_hot_run *run)
{
    const union fr_hot_cell *cell = &run->saved[FR_HOT_STACK_REGS];
    struct array_iterator   *part[FR_HOT_PARTS];

    if (Py_IS_TYPE(it, &PyRangeIter_Type)) {
        write_iterator((struct range_iterator *)it, cell);
        return;
    }
    if (Py_IS_TYPE(it, &PyEnum_Type))
        ((struct numbered_iterator *)it)->index = (Py_ssize_t)cell->i;
    for (int k = walked_by(it, part); k-- > 0;)
        part[k]->index = (Py_ssize_t)cell->i;
}

/* NumPy raises where it would warn, while functions are asked: Python makes that turn then, and the warning is of its line. A
 * context that was entered; NULL: an exception is set. */
static PyObject *
begin_to_raise(void)
{
    static PyObject *geterr, *errstate;
    PyObject        *as_it_is, *named, *raise = NULL, *context = NULL, *entered = NULL, *key, *value;
    Py_ssize_t       at = 0;

    if ((!geterr && !(geterr = fr_numpy_attr("geterr"))) || (!errstate && !(errstate = fr_numpy_attr("errstate"))))
        return NULL;
    as_it_is = PyObject_CallNoArgs(geterr);
    named = PyDict_New();
    raise = PyUnicode_FromString("raise");
    while (as_it_is && named && raise && PyDict_Next(as_it_is, &at, &key, &value))
        if (PyUnicode_CompareWithASCIIString(value, "ignore") != 0 && PyDict_SetItem(named, key, raise) < 0)
            Py_CLEAR(named);
    if (as_it_is && named && raise)
        context = PyObject_VectorcallDict(errstate, NULL, 0, named);
    entered = context ? PyObject_CallMethod(context, "__enter__", NULL) : NULL;
    Py_XDECREF(as_it_is);
    Py_XDECREF(named);
    Py_XDECREF(raise);
    if (!entered)
        Py_CLEAR(context);
    Py_XDECREF(entered);
    return context;
}

/* False: an exception is set, as it may have been before. */
static bool
end_to_raise(PyObject *context)
{
    PyObject *type, *value, *trace, *done;

    PyErr_Fetch(&type, &value, &trace);
    done = PyObject_CallMethod(context, "__exit__", "OOO", Py_None, Py_None, Py_None);
    Py_DECREF(context);
    if (type) {
        PyErr_Clear();
        PyErr_Restore(type, value, trace);
    }
    Py_XDECREF(done);
    return done && !type;
}

/* Runs the program from its beginning for the variables as they are. False: an exception is set. */
static bool
run_program(struct loop *l, PyFrameObject *frame, PyObject *locals, PyObject *iterator, struct fr_hot_run *run, int head)
{
    const struct fr_span_mark mark = fr_span_begin();
    PyObject       *context = NULL;
    enum fr_hot_end end;
    bool            ok = true;

    if (l->program->asks && !(context = begin_to_raise()))
        return false;
    if (l->source.is_for)
        enter_iterator(iterator, run);
    end = fr_hot_go(l->program, run, head);
    ok = end != FR_HOT_RAISED;
    if (run->n_turns > 0) {
        PyObject *type, *value, *trace;

        PyErr_Fetch(&type, &value, &trace);
        if (l->source.is_for)
            leave_iterator(iterator, run);
        if (!write_variables(l, frame, locals, run))
            ok = false;
        if (type)
            PyErr_Restore(type, value, trace);
    }
    fr_hot_run_end(run);
    if (context && !end_to_raise(context))
        ok = false;
    note_run(l, run, end);
    if (FR_UNLIKELY(mark.begin != 0))
        fr_span_end(&mark, FR_SPAN_loop, fr_span_name(PyUnicode_AsUTF8(l->code->co_qualname)), 0, (uint64_t)run->n_turns);
    return ok;
}

/* Runs what is left of the loop in this frame, as far as it is translated. False: an exception is set. */
static bool
run_once(struct loop *l, PyFrameObject *frame, PyObject *locals, PyObject *iterator, struct fr_hot_run *run)
{
    PyObject *held = PyList_New(0);
    bool      ok = held != NULL, was_there = l->program != NULL;
    int       head = ok ? find_head(l, run, held) : -1;

    if (ok && head < 0 && was_there && !PyErr_Occurred() && l->n_anew < ANEW) { /* globals are others */
        fr_hot_free(l->program);
        l->program = NULL;
        l->n_anew++;
        head = find_head(l, run, held);
    }
    ok = !PyErr_Occurred();
    if (ok && head >= 0 && !fr_hot_draws_begin(l->program, &l->source, run)) {
        ok = !PyErr_Occurred();
        head = -1;
    }
    if (ok && head >= 0) {
        ok = run_program(l, frame, locals, iterator, run, head);
        ok = fr_hot_draws_end(run) && ok;
    } else {
        l->is_off |= ++l->n_futile >= FUTILE || (l->program && l->program->is_broken);
    }
    Py_XDECREF(held);
    return ok;
}

/* Runs what is left of the loop in this frame. False: an exception is set. */
static bool
run_loop(struct loop *l, PyFrameObject *frame, PyObject *iterator, struct fr_hot_run *run)
{
    bool ok = true;

    for (int k = 0; ok && k < MOST_GUESSED; k++) { /* what is asked for shows what it is one after the other */
        PyObject *locals = PyFrame_GetLocals(frame); /* (each is written to the frame once) */

        l->source.locals = locals;
        ok = locals && run_once(l, frame, locals, iterator, run);
        if (locals)
            forget(l, locals);
        Py_XDECREF(locals);
        if (!l->program || !l->program->is_outdated)
            break;
        fr_hot_renew(l->program);
    }
    return ok;
}

static bool
is_watched(void)
{
    return PyThreadState_Get()->c_tracefunc || PyThreadState_Get()->c_profilefunc;
}

/* The loop is about to turn; `top` is on top of the stack: its iterator, or a while loop's condition, or this object. */
static PyObject *
loop_turn(PyObject *self, PyObject *top)
{
    struct loop       *l = (struct loop *)self;
    struct fr_hot_run *run;
    PyFrameObject     *frame;
    bool               ok = true;

    if (FR_LIKELY(l->is_off || ++l->n_asked < (uint32_t)fr_tune.hot_turns) || !fr_membrane_is_plain || l->is_running)
        return Py_NewRef(Py_None);
    if (l->source.is_for ? !type_of_iterator(top, &l->source.iterator) : top != self && top != Py_True && top != PyArrayScalar_True)
        return Py_NewRef(Py_None);
    if (!works || fr_is_off(FR_OFF_hot) || is_watched())
        return Py_NewRef(Py_None);
    frame = PyEval_GetFrame();
    if (!frame || !(run = spare ? spare : fr_calloc(1, sizeof *run)))
        return Py_NewRef(Py_None);
    spare = NULL;
    l->is_running = true;
    l->source.globals = PyFrame_GetGlobals(frame);
    l->source.builtins = PyFrame_GetBuiltins(frame);
    if (l->source.globals && l->source.builtins)
        ok = run_loop(l, frame, top, run);
    Py_XDECREF(l->source.globals);
    Py_XDECREF(l->source.builtins);
    l->is_running = false;
    if (spare)
        fr_free(run);
    else
        spare = run;
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef loop_methods[] = {{"__reduce__", loop_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot loop_slots[] = {
    {Py_tp_methods, loop_methods},
    {Py_tp_doc, "_Loop(code, header, last, is_for)[top of the stack]: a loop of that code turns."},
    {Py_tp_new, loop_new},
    {Py_tp_dealloc, loop_dealloc},
    {Py_mp_subscript, loop_turn},
    {0, NULL},
};

static PyType_Spec loop_spec = {"frit._core._Loop", sizeof(struct loop), 0, Py_TPFLAGS_DEFAULT, loop_slots};

int
fr_hot_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&loop_spec);
    int       st = type ? PyModule_AddObjectRef(module, "_Loop", type) : -1;

    Py_XDECREF(type);
    works = iterators_are_known() && array_iterators_are_known();
    return st;
}
