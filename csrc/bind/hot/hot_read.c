/* bind/hot/hot_read.c -- hot.h: the instructions of a loop, translated for certain types. */
#include "bind/hot/hot_int.h"

#include <opcode.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "bind/accelerate/crossing.h"

/* ---- instructions */

static int32_t
target_of(const struct fr_asm_instruction *in, int32_t behind, bool back)
{
    return behind + 2 * (back ? -in->arg : in->arg);
}

static void
is_none(struct reader *r, bool wants_none, int32_t to, int32_t next)
{
    struct fr_hot_value v = fr_hot_pop(r);

    if (r->ended)
        return;
    fr_hot_go_to(r, (v.kind == FR_HOT_NONE) == wants_none ? to : next, false);
}

static void
get_iterator(struct reader *r)
{
    struct fr_hot_value v = fr_hot_pop(r);

    if (!r->ended && (v.kind == FR_HOT_TUPLE || v.kind == FR_HOT_DISPLAY) && v.ndim > 0) /* (nobody sees what is gone over) */
        v = fr_hot_new_list(r, &v);
    if (!r->ended && (v.kind == FR_HOT_ARRAY || v.kind == FR_HOT_LIST))
        fr_hot_walk(r, &v, 1);
    else if (!r->ended && (v.kind == FR_HOT_RANGE || v.kind == FR_HOT_WALK))
        fr_hot_push(r, v);
    else
        fr_hot_leave(r);
}

/* FOR_ITER: `behind` is where the loop goes on when its iterator is at its end. */
static void
iterate(struct reader *r, int32_t behind)
{
    struct fr_hot_value it = fr_hot_pop(r);
    struct fr_hot_ins  *in;
    struct state        s;
    int                 to, block;

    if (r->ended || (it.kind != FR_HOT_RANGE && it.kind != FR_HOT_WALK)) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_push(r, it);
    if (!fr_hot_settle(r))
        return;
    it = r->s.stack[r->s.n_stack - 1];
    s = r->s;
#if PY_VERSION_HEX < 0x030d0000
    s.n_stack--;
#endif
    if (fr_hot_is_inside(r, behind)) {
        if ((block = fr_hot_block_of(r, behind, &s)) < 0)
            return;
    } else {
        block = -1;
    }
    in = fr_hot_emit(r, it.kind == FR_HOT_RANGE ? FR_HOT_NEXT : FR_HOT_NEXT_ITEM, to = fr_hot_fresh(r, 1), it.reg, 0);
    in->at = block;
    in->n = it.n_parts;
    in->c = it.lists;
    if (it.kind == FR_HOT_RANGE) {
        fr_hot_push_new(r, FR_HOT_PYTHON, FR_I64, to);
        return;
    }
    if (it.is_numbered)
        fr_hot_push(r, number(FR_HOT_PYTHON, FR_I64, to));
    for (int k = 0; k < it.n_parts; k++) {
        if (it.lists >> k & 1) {
            struct fr_hot_value list = {.kind = FR_HOT_LIST, .n_parts = 1, .reg = (int16_t)(it.reg + k)};

            list.part[0] = it.part[k];
            fr_hot_list_item(r, &list, to);
            continue;
        }
        fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_ARRAY, .dtype = it.part[k].dtype, .ndim = it.part[k].ndim,
                                             .reg = (int16_t)(it.reg + k)});
        fr_hot_push(r, number(FR_HOT_PYTHON, FR_I64, to));
        fr_hot_load_item(r);
    }
    if (it.n_parts > 1)
        fr_hot_build(r, FR_HOT_TUPLE, it.n_parts);
    if (it.is_numbered)
        fr_hot_build(r, FR_HOT_TUPLE, 2);
}

static PyObject *
name_at(const struct reader *r, int i)
{
    return PyTuple_GET_ITEM(frame_of(r)->code->co_names, i);
}

/* MAKE_FUNCTION of a comprehension's code, which is called at once; others are Python's. */
static void
make_function(struct reader *r, int flags)
{
    struct fr_hot_value code = fr_hot_pop(r);

    if (PY_VERSION_HEX < 0x030d0000 && flags == 8) /* the cells, which are found by their names */
        fr_hot_pop(r);
    if (r->ended || (PY_VERSION_HEX < 0x030d0000 && flags & ~8) || code.kind != FR_HOT_OBJECT || !PyCode_Check(code.object))
        fr_hot_leave(r);
    else
        fr_hot_push(r, code);
}

static void
step(struct reader *r, const struct fr_asm_instruction *in, int32_t next)
{
    struct fr_hot_value v, w;
    int                 arg = in->arg, local = frame_of(r)->first, i;

    switch (in->op) {
    case NOP:
    case RESUME:
#ifdef PRECALL
    case PRECALL:
#endif
        break;
    case LOAD_FAST:
#ifdef LOAD_FAST_CHECK
    case LOAD_FAST_CHECK:
#endif
    case LOAD_DEREF:
        if (!fr_hot_load_iterator(r, arg))
            fr_hot_load(r, local + arg);
        break;
    case STORE_FAST:
    case STORE_DEREF: fr_hot_store(r, local + arg); break;
#ifdef LOAD_FAST_AND_CLEAR
    case LOAD_FAST_AND_CLEAR: fr_hot_take_variable(r, local + arg); break;
#endif
    case COPY_FREE_VARS:
    case MAKE_CELL: break;
#if LOAD_CLOSURE < 256
    case LOAD_CLOSURE: fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NONE, .reg = -1}); break; /* (found by its name) */
#endif
    case MAKE_FUNCTION: make_function(r, arg); break;
    case LIST_APPEND:
        v = fr_hot_pop(r);
        if (r->ended || arg < 1 || arg > r->s.n_stack)
            fr_hot_leave(r);
        else
            fr_hot_append_to(r, &r->s.stack[r->s.n_stack - arg], &v);
        break;
#ifdef SET_FUNCTION_ATTRIBUTE
    case SET_FUNCTION_ATTRIBUTE: /* its cells lie below it */
        v = fr_hot_pop(r);
        fr_hot_pop(r);
        if (arg == 8)
            fr_hot_push(r, v);
        else
            fr_hot_leave(r);
        break;
#endif
    case RETURN_GENERATOR: fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NONE, .reg = -1}); break;
    case YIELD_VALUE: fr_hot_yield(r, next); break;
#ifdef LOAD_FAST_LOAD_FAST
    case LOAD_FAST_LOAD_FAST:
        fr_hot_load(r, local + (arg >> 4));
        fr_hot_load(r, local + (arg & 15));
        break;
    case STORE_FAST_LOAD_FAST:
        fr_hot_store(r, local + (arg >> 4));
        fr_hot_load(r, local + (arg & 15));
        break;
    case STORE_FAST_STORE_FAST:
        fr_hot_store(r, local + (arg >> 4));
        fr_hot_store(r, local + (arg & 15));
        break;
#endif
    case LOAD_NAME: fr_hot_load_global(r, name_at(r, arg)); break;
    case STORE_NAME:
    case STORE_GLOBAL: fr_hot_store_name(r, name_at(r, arg)); break;
    case LOAD_CONST: fr_hot_load_constant(r, PyTuple_GET_ITEM(frame_of(r)->code->co_consts, arg)); break;
    case LOAD_GLOBAL:
#if PY_VERSION_HEX < 0x030d0000
        if (arg & 1)
            fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NULL, .reg = -1});
        fr_hot_load_global(r, name_at(r, arg >> 1));
#else
        fr_hot_load_global(r, name_at(r, arg >> 1));
        if (arg & 1)
            fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NULL, .reg = -1});
#endif
        break;
    case PUSH_NULL: fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NULL, .reg = -1}); break;
    case POP_TOP: fr_hot_pop(r); break;
    case COPY:
        if (arg < 1 || arg > r->s.n_stack) {
            fr_hot_leave(r);
            break;
        }
        r->s.stack[r->s.n_stack - arg].is_free = false;
        if (arg == 1)
            fr_hot_as_object(r, &r->s.stack[r->s.n_stack - 1]);
        fr_hot_push(r, r->s.stack[r->s.n_stack - arg]);
        break;
    case SWAP:
        if (arg < 1 || arg > r->s.n_stack) {
            fr_hot_leave(r);
            break;
        }
        v = r->s.stack[r->s.n_stack - 1];
        r->s.stack[r->s.n_stack - 1] = r->s.stack[r->s.n_stack - arg];
        r->s.stack[r->s.n_stack - arg] = v;
        break;
    case BINARY_OP:
        if (arg == 26)
            fr_hot_load_item(r);
        else
            fr_hot_operate(r, arg % N_OPERATORS, arg >= N_OPERATORS);
        break;
    case COMPARE_OP: fr_hot_compare(r, PY_VERSION_HEX < 0x030c0000 ? arg : PY_VERSION_HEX < 0x030d0000 ? arg >> 4 : arg >> 5); break;
    case UNARY_NEGATIVE: fr_hot_negate(r); break;
    case UNARY_INVERT: fr_hot_invert(r); break;
    case UNARY_NOT:
        v = fr_hot_pop(r);
        i = fr_hot_as_truth(r, &v);
        if (!r->ended) {
            int to = fr_hot_fresh(r, 1);

            fr_hot_emit(r, FR_HOT_NOT, to, i, 0);
            fr_hot_push_new(r, FR_HOT_PYTHON, FR_BOOL, to);
        }
        break;
#ifdef TO_BOOL
    case TO_BOOL:
        v = fr_hot_pop(r);
        i = fr_hot_as_truth(r, &v);
        fr_hot_push(r, number(FR_HOT_PYTHON, FR_BOOL, i));
        break;
#endif
    case IS_OP:
        v = fr_hot_pop(r);
        w = fr_hot_pop(r);
        if (r->ended || (v.kind != FR_HOT_NONE && w.kind != FR_HOT_NONE)) {
            fr_hot_leave(r);
            break;
        }
        fr_hot_push(r, fr_hot_constant(r, FR_HOT_PYTHON, FR_BOOL, (union fr_hot_cell){.i = (v.kind == w.kind) != arg}));
        break;
#ifdef BINARY_SUBSCR
    case BINARY_SUBSCR: fr_hot_load_item(r); break;
#endif
    case STORE_SUBSCR: fr_hot_store_item(r); break;
    case DELETE_SUBSCR: fr_hot_delete_item(r); break;
    case BUILD_TUPLE: fr_hot_build(r, FR_HOT_TUPLE, arg); break;
    case BUILD_LIST: fr_hot_build(r, FR_HOT_DISPLAY, arg); break;
    case LIST_EXTEND:
        if (arg == 1)
            fr_hot_extend(r);
        else
            fr_hot_leave(r);
        break;
    case BUILD_SLICE: fr_hot_build_slice(r, arg); break;
#ifdef STORE_SLICE
    case STORE_SLICE:
        fr_hot_build_slice(r, 2);
        fr_hot_store_item(r);
        break;
#endif
#ifdef BINARY_SLICE
    case BINARY_SLICE:
        fr_hot_build_slice(r, 2);
        fr_hot_load_item(r);
        break;
#endif
    case UNPACK_SEQUENCE: fr_hot_unpack(r, arg); break;
#ifdef LOAD_METHOD
#if LOAD_METHOD < 256
    case LOAD_METHOD: fr_hot_load_attribute(r, name_at(r, arg), true); break;
#endif
#endif
    case LOAD_ATTR:
#if PY_VERSION_HEX < 0x030c0000
        fr_hot_load_attribute(r, name_at(r, arg), false);
#else
        fr_hot_load_attribute(r, name_at(r, arg >> 1), arg & 1);
#endif
        break;
    case RETURN_VALUE: fr_hot_return(r); break;
#ifdef RETURN_CONST
    case RETURN_CONST:
        fr_hot_load_constant(r, PyTuple_GET_ITEM(frame_of(r)->code->co_consts, arg));
        fr_hot_return(r);
        break;
#endif
    case STORE_ATTR: fr_hot_store_attribute(r, name_at(r, arg)); break;
    case CALL: fr_hot_call(r, arg, next); break;
#ifdef KW_NAMES
    case KW_NAMES: r->names = PyTuple_GET_ITEM(frame_of(r)->code->co_consts, arg); break;
#endif
#ifdef CALL_KW
    case CALL_KW:
        v = fr_hot_pop(r);
        r->names = v.kind == FR_HOT_OBJECT && PyTuple_CheckExact(v.object) ? v.object : NULL;
        if (r->names)
            fr_hot_call(r, arg, next);
        else
            fr_hot_leave(r);
        break;
#endif
    case GET_ITER: get_iterator(r); break;
    case CONTAINS_OP: fr_hot_contains(r, arg); break;
    case FOR_ITER:
#if PY_VERSION_HEX < 0x030c0000
        iterate(r, target_of(in, next, false));
#else
        iterate(r, target_of(in, next, false) + 2); /* behind END_FOR */
#endif
        break;
    case JUMP_FORWARD: fr_hot_go_to(r, target_of(in, next, false), false); break;
    case JUMP_BACKWARD: fr_hot_go_to(r, target_of(in, next, true), true); break;
#define POP_JUMP(name, back, unless)                                                                                            \
    case name:                                                                                                                  \
        v = fr_hot_pop(r);                                                                                                      \
        i = fr_hot_as_truth(r, &v);                                                                                             \
        fr_hot_branch(r, i, unless, target_of(in, next, back), next);                                                           \
        break;
#ifdef POP_JUMP_IF_TRUE
        POP_JUMP(POP_JUMP_IF_TRUE, false, false)
        POP_JUMP(POP_JUMP_IF_FALSE, false, true)
    case POP_JUMP_IF_NONE: is_none(r, true, target_of(in, next, false), next); break;
    case POP_JUMP_IF_NOT_NONE: is_none(r, false, target_of(in, next, false), next); break;
#else
        POP_JUMP(POP_JUMP_FORWARD_IF_TRUE, false, false)
        POP_JUMP(POP_JUMP_FORWARD_IF_FALSE, false, true)
        POP_JUMP(POP_JUMP_BACKWARD_IF_TRUE, true, false)
        POP_JUMP(POP_JUMP_BACKWARD_IF_FALSE, true, true)
    case POP_JUMP_FORWARD_IF_NONE: is_none(r, true, target_of(in, next, false), next); break;
    case POP_JUMP_FORWARD_IF_NOT_NONE: is_none(r, false, target_of(in, next, false), next); break;
#endif
#ifdef JUMP_IF_TRUE_OR_POP
    case JUMP_IF_TRUE_OR_POP:
    case JUMP_IF_FALSE_OR_POP:
        v = fr_hot_pop(r);
        i = fr_hot_as_truth(r, &v);
        if (r->ended)
            break;
        { /* the value stays where it jumps */
            struct state s;

            fr_hot_push(r, v);
            if (!fr_hot_settle(r))
                break;
            s = r->s;
            fr_hot_jump(r, in->op == JUMP_IF_TRUE_OR_POP ? FR_HOT_IF : FR_HOT_UNLESS, i, target_of(in, next, false), &s);
            fr_hot_pop(r);
        }
        break;
#endif
    default: fr_hot_leave(r); break;
    }
}

/* Translates one block. */
static void
read_block(struct reader *r, int k)
{
    int32_t                   unit, at = r->p->block[k].at, header;
    struct fr_asm_instruction in;
    PyObject                 *code;

    fr_hot_block_state(&r->p->block[k], &r->s);
    code = frame_of(r)->bytes;
    header = r->s.frame == 0 ? r->source->header : -1;
    r->p->block[k].ins = r->p->n_ins;
    r->n_items = 0;
    r->n_regs = TEMPORARY;
    r->ended = false;
    r->names = NULL;
    fr_hot_gather(r);
    if (at == header) {
        struct fr_hot_program *p = r->p;

        if (!FR_GROW(p->head, p->cap_heads, (size_t)p->n_heads + 1)) {
            r->failed = true;
            return;
        }
        memcpy(p->head[p->n_heads].var, r->s.var, sizeof r->s.var);
        p->head[p->n_heads].iterator = r->source->iterator;
        p->head[p->n_heads].at = p->n_ins;
        fr_hot_emit(r, FR_HOT_TURN, 0, 0, 0)->i = p->n_heads++;
    }
    for (unit = at / 2; !r->ended && !r->failed;) {
        int32_t before = 2 * unit;

        if (!fr_hot_is_inside(r, before) || (before != at && before == header)) {
            fr_hot_go_to(r, before, false);
            break;
        }
        if (!fr_asm_next(fr_bytecode_opcodes, (const uint8_t *)PyBytes_AS_STRING(code), (int32_t)(PyBytes_GET_SIZE(code) / 2), &unit, &in)) {
            fr_hot_leave(r);
            break;
        }
        unit = fr_asm_behind(fr_bytecode_opcodes, &in);
        r->at = in.at;
        step(r, &in, 2 * unit);
        if (fr_env.debug >= 2 && r->ended && r->p->n_ins && r->p->ins[r->p->n_ins - 1].op == FR_HOT_EXIT)
            fr_log(2, "%s leaves opcode %d in line %d to Python", PyUnicode_AsUTF8(frame_of(r)->code->co_name), in.op,
                   PyCode_Addr2Line(frame_of(r)->code, in.at));
    }
}

/* Jumps lead to blocks by their numbers (-1: out of the loop); now to instructions. */
static void
link_blocks(struct reader *r, int32_t from)
{
    struct fr_hot_program *p = r->p;
    int32_t                out = p->n_ins;

    fr_hot_emit(r, FR_HOT_EXIT, 0, 0, 0);
    for (int32_t i = from; i < out; i++) {
        struct fr_hot_ins *in = &p->ins[i];

        switch (in->op) {
        case FR_HOT_JUMP:
        case FR_HOT_JUMP_BACK:
        case FR_HOT_IF:
        case FR_HOT_UNLESS:
        case FR_HOT_NEXT:
        case FR_HOT_NEXT_ITEM: in->at = in->at == -1 ? out : in->at < -1 ? -2 - in->at : p->block[in->at].ins; break;
        default: break;
        }
    }
}

int
fr_hot_head_of(struct fr_hot_program *p, const struct fr_hot_source *source, const struct fr_hot_value *vars)
{
    struct reader *r;
    struct state   s = {.n_stack = source->is_for};
    int32_t        n_before = p->n_ins;
    int            root, head = -1;

    memcpy(s.var, vars, sizeof s.var);
    for (int i = 0; i < FR_HOT_VARS; i++)
        if (i >= p->n_vars || p->is_inner[i])
            s.var[i] = (struct fr_hot_value){.kind = FR_HOT_UNBOUND};
    if (source->is_for)
        s.stack[0] = source->iterator;
    s.stack[0].reg = STACK_REGS;
    for (int k = 0; k < p->n_heads && !p->is_broken; k++) {
        bool same = !source->is_for || fr_hot_same_value(&p->head[k].iterator, &source->iterator);

        for (int i = 0; i < p->n_vars && same; i++)
            same = p->is_global[i] || fr_hot_same_value(&p->head[k].var[i], &s.var[i]);
        if (same)
            return k;
    }
    if (p->is_broken || p->n_heads >= MOST_HEADS || !(r = fr_malloc(sizeof *r)))
        return -1;
    *r = (struct reader){.p = p, .source = source, .low = source->header, .high = source->last, .todo = p->n_blocks};
    root = fr_hot_block_of(r, source->header, &s);
    for (; !r->failed && r->todo < p->n_blocks; r->todo++)
        if (p->block[r->todo].ins < 0)
            read_block(r, r->todo);
    if (!r->failed)
        link_blocks(r, n_before);
    p->is_broken = r->failed;
    if (!r->failed)
        for (int k = 0; k < p->n_heads; k++)
            head = p->head[k].at == p->block[root].ins ? k : head;
    fr_free(r);
    return head;
}

/* ---- a program */

int
fr_hot_line(const struct fr_hot_program *p, int32_t ins)
{
    const struct fr_hot_block *found = NULL;

    for (int k = 0; k < p->n_blocks; k++)
        if (p->block[k].ins >= 0 && p->block[k].ins <= ins && (!found || p->block[k].ins > found->ins))
            found = &p->block[k];
    return found ? PyCode_Addr2Line(p->frame[found->frame].code, found->at) : -1;
}

static void
note_variables(struct fr_hot_program *p, const struct fr_hot_source *source, const uint8_t *code, int32_t n_units)
{
    struct fr_asm_instruction in;
    const int                 n_locals = p->n_vars;

    for (int32_t unit = source->header / 2; fr_asm_next(fr_bytecode_opcodes, code, n_units, &unit, &in) && in.at <= source->last;) {
        bool loads = false, stores = false;
        int  i = in.arg;

        switch (in.op) {
        case STORE_FAST: stores = true; break;
        case LOAD_FAST:
#ifdef LOAD_FAST_CHECK
        case LOAD_FAST_CHECK:
#endif
        case LOAD_DEREF: loads = true; break;
#if LOAD_CLOSURE < 256
        case LOAD_CLOSURE: loads = true; break;
#endif
        case STORE_DEREF: stores = true; break;
#ifdef LOAD_FAST_LOAD_FAST
        case LOAD_FAST_LOAD_FAST:
            p->is_used[i >> 4] = p->is_used[i & 15] = true;
            break;
        case STORE_FAST_LOAD_FAST:
            p->is_used[i >> 4] = p->is_set[i >> 4] = p->is_used[i & 15] = true;
            break;
        case STORE_FAST_STORE_FAST:
            p->is_used[i >> 4] = p->is_set[i >> 4] = p->is_used[i & 15] = p->is_set[i & 15] = true;
            break;
#endif
        case STORE_NAME:
        case STORE_GLOBAL: {
            PyObject *name = PyTuple_GET_ITEM(source->code->co_names, i);

            for (i = in.op == STORE_GLOBAL ? n_locals : 0; i < p->n_vars && p->name[i] != name; i++)
                ;
            if (i == p->n_vars && i < FR_HOT_VARS) {
                p->is_stored_global[i] = in.op == STORE_GLOBAL;
                p->name[p->n_vars++] = Py_NewRef(name);
            }
            stores = i < FR_HOT_VARS;
            break;
        }
        default: break;
        }
        if (loads || stores)
            p->is_used[i] = true;
        if (stores)
            p->is_set[i] = true;
    }
}

/* Code in which attributes are looked for; root: the variable that has what its first parameter is; -1: it is the loop's. */
struct code_part {
    PyCodeObject  *code;
    const uint8_t *bytes;
    int32_t        n_units, from, to;
    int            root;
};

/* Whether a variable has an object whose attributes may be variables. */
static bool
has_attributes(const struct fr_hot_program *p, const struct fr_hot_source *source, int var)
{
    PyObject           *o = fr_hot_object(p, source, var);
    struct fr_hot_value v = {.kind = FR_HOT_UNBOUND};

    if (o)
        fr_hot_type(o, &v);
    if (v.kind == FR_HOT_OPAQUE && (fr_hot_may_hold(o) || Py_TYPE(o)->tp_getattro != PyObject_GenericGetAttr))
        v.kind = FR_HOT_UNBOUND;
    Py_XDECREF(o);
    return v.kind == FR_HOT_OPAQUE;
}

/* The variable that a global with an object is, whose attributes are looked for; -1: it is another one. */
static int
note_global(struct fr_hot_program *p, const struct fr_hot_source *source, PyObject *name)
{
    int i = p->n_vars;

    for (int k = 0; k < p->n_vars; k++)
        if (p->name[k] == name && !p->owner[k] && (p->is_global[k] || p->is_stored_global[k] || !(source->code->co_flags & CO_OPTIMIZED)))
            return k;
    if (i == FR_HOT_VARS)
        return -1;
    p->is_global[i] = true;
    p->name[i] = name;
    if (!has_attributes(p, source, i)) {
        p->is_global[i] = false;
        p->name[i] = NULL;
        return -1;
    }
    Py_INCREF(name);
    p->is_used[i] = true;
    p->global_type[i] = (struct fr_hot_value){.kind = FR_HOT_OPAQUE};
    return p->n_vars++;
}

static void note_method(struct fr_hot_program *, const struct fr_hot_source *, int of, PyObject *name, int n_locals, int depth);

/* The attributes of what is in a variable that the loop does not assign are variables, too; none that others may be. */
static void
note_attributes_of(struct fr_hot_program *p, const struct fr_hot_source *source, const struct code_part *c, int n_locals, int depth)
{
    struct fr_asm_instruction in;
    int                       owner = -1;

    for (int32_t unit = c->from / 2; fr_asm_next(fr_bytecode_opcodes, c->bytes, c->n_units, &unit, &in) && in.at <= c->to;) {
        PyObject *name = NULL;
        bool      as_method = false;
        int       k, of = owner;

        if (in.op == STORE_ATTR) {
            name = PyTuple_GET_ITEM(c->code->co_names, in.arg);
        } else if (in.op == LOAD_ATTR) {
            name = PyTuple_GET_ITEM(c->code->co_names, PY_VERSION_HEX < 0x030c0000 ? in.arg : in.arg >> 1);
            as_method = PY_VERSION_HEX >= 0x030c0000 && in.arg & 1;
        }
#ifdef LOAD_METHOD
#if LOAD_METHOD < 256
        if (in.op == LOAD_METHOD) {
            name = PyTuple_GET_ITEM(c->code->co_names, in.arg);
            as_method = true;
        }
#endif
#endif
        if (in.op == COPY && in.arg == 1) /* of an attribute that is changed in place */
            continue;
        owner = in.op == LOAD_FAST || in.op == LOAD_DEREF ? in.arg : -1;
#ifdef LOAD_FAST_LOAD_FAST
        owner = in.op == LOAD_FAST_LOAD_FAST || in.op == STORE_FAST_LOAD_FAST ? in.arg & 15 : owner;
#endif
        if (c->root >= 0) /* a method's: its first parameter is what the loop's variable has */
            owner = owner == 0 && in.op != LOAD_DEREF ? c->root : -1;
        else if (in.op == LOAD_GLOBAL || in.op == LOAD_NAME)
            owner = note_global(p, source, PyTuple_GET_ITEM(c->code->co_names, in.op == LOAD_GLOBAL ? in.arg >> 1 : in.arg));
        if (as_method && of >= 0 && !p->is_set[of] && depth < 3)
            note_method(p, source, of, name, n_locals, depth + 1);
        if (as_method)
            continue;
        if (!name || p->n_vars == FR_HOT_VARS)
            continue;
        for (k = n_locals; k < p->n_vars && !(p->name[k] == name && (in.op == STORE_ATTR || p->owner[k] == of + 1)); k++)
            ;
        if (in.op == STORE_ATTR) { /* (the object was loaded long before) */
            for (int l = n_locals; l < p->n_vars; l++)
                p->is_set[l] |= p->name[l] == name;
        }
        if (of >= 0 && !p->is_set[of] && k == p->n_vars) {
            p->is_set[p->n_vars] = in.op == STORE_ATTR;
            p->name[p->n_vars] = Py_NewRef(name);
            p->is_used[p->n_vars] = true;
            p->owner[p->n_vars++] = (uint8_t)(of + 1);
        }
        if (of >= 0 && k < p->n_vars && in.op != STORE_ATTR && !p->is_set[k] && has_attributes(p, source, k))
            owner = k; /* of an attribute, in turn */
    }
}

/* Those of a method that the loop calls. */
static void
note_method(struct fr_hot_program *p, const struct fr_hot_source *source, int of, PyObject *name, int n_locals, int depth)
{
    PyObject        *o = fr_hot_object(p, source, of), *f = fr_hot_method(o, name), *bytes;
    struct code_part c = {.root = of, .to = INT32_MAX};

    Py_XDECREF(o); /* (the frame has it) */
    if (!f)
        return;
    c.code = (PyCodeObject *)fr_whose_written(PyFunction_GET_CODE(f));
    if (c.code->co_argcount < 1 || !(bytes = PyCode_GetCode(c.code)))
        return;
    c.bytes = (const uint8_t *)PyBytes_AS_STRING(bytes);
    c.n_units = (int32_t)(PyBytes_GET_SIZE(bytes) / 2);
    note_attributes_of(p, source, &c, n_locals, depth);
    Py_DECREF(bytes);
}

static void
note_attributes(struct fr_hot_program *p, const struct fr_hot_source *source, const uint8_t *code, int32_t n_units)
{
    const struct code_part c = {source->code, code, n_units, source->header, source->last, -1};
    int                    n_locals = p->n_vars;

    note_attributes_of(p, source, &c, n_locals, 0);
    for (int k = n_locals; k < p->n_vars; k++) /* two variables may have the same object */
        for (int l = n_locals; l < p->n_vars; l++)
            if (l != k && p->name[l] == p->name[k] && p->is_set[k])
                p->is_used[k] = p->is_used[l] = false;
}

struct fr_hot_program *
fr_hot_new(const struct fr_hot_source *source)
{
    struct fr_hot_program *p = fr_malloc(sizeof *p);
    PyObject              *code = p ? PyCode_GetCode(source->code) : NULL;
    bool                   done = code != NULL;

    if (p)
        *p = (struct fr_hot_program){.n_ins = 0};
    if (done && source->code->co_flags & CO_OPTIMIZED) {
        PyObject *all = source->code->co_localsplusnames;

        done = PyTuple_Check(all) && PyTuple_GET_SIZE(all) <= FR_HOT_VARS - 8;
        for (Py_ssize_t i = 0; done && i < PyTuple_GET_SIZE(all); i++)
            p->name[p->n_vars++] = Py_NewRef(PyTuple_GET_ITEM(all, i));
    }
    if (done)
        note_variables(p, source, (const uint8_t *)PyBytes_AS_STRING(code), (int32_t)(PyBytes_GET_SIZE(code) / 2));
    if (done)
        note_attributes(p, source, (const uint8_t *)PyBytes_AS_STRING(code), (int32_t)(PyBytes_GET_SIZE(code) / 2));
    if (done) {
        p->frame[0] = (struct fr_hot_frame){.code = (PyCodeObject *)Py_NewRef(source->code), .bytes = Py_NewRef(code), .n_vars = p->n_vars};
        p->n_frames = 1;
    }
    Py_XDECREF(code);
    PyErr_Clear();
    if (done)
        return p;
    fr_hot_free(p);
    return NULL;
}

void
fr_hot_renew(struct fr_hot_program *p)
{
    while (p->maps) {
        struct fr_hot_map *next = p->maps->next;

        fr_free(p->maps);
        p->maps = next;
    }
    while (p->asks) {
        struct fr_hot_ask *next = p->asks->next;

        Py_DECREF(p->asks->function);
        Py_XDECREF(p->asks->names);
        fr_free(p->asks);
        p->asks = next;
    }
    for (int i = 0; i < p->n_blocks; i++)
        fr_free(p->block[i].value);
    p->n_ins = p->n_heads = p->n_blocks = 0;
    p->is_outdated = false;
}

void
fr_hot_free(struct fr_hot_program *p)
{
    if (!p)
        return;
    fr_hot_renew(p);
    for (int i = 0; i < p->n_vars; i++)
        Py_XDECREF(p->name[i]);
    for (int i = 0; i < p->n_guards; i++) {
        Py_XDECREF(p->guard[i].name);
        Py_XDECREF(p->guard[i].of);
        Py_XDECREF(p->guard[i].value);
        Py_XDECREF(p->guard[i].code);
        Py_XDECREF(p->guard[i].defaults);
    }
    for (int i = 0; i < p->n_drawers; i++)
        Py_XDECREF(p->drawer[i].object);
    for (int i = 0; i < p->n_frames; i++) {
        Py_XDECREF(p->frame[i].code);
        Py_XDECREF(p->frame[i].bytes);
        Py_XDECREF(p->frame[i].module);
    }
    fr_free(p->ins);
    fr_free(p->head);
    fr_free(p->block);
    fr_free(p);
}
