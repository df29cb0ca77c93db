/* bind/hot/hot_block.c -- hot.h: what the translation is made of: registers, the stack, blocks and jumps between them. */
#include "bind/hot/hot_int.h"

#include <string.h>

#include "base/alloc.h"

struct fr_hot_ins *
fr_hot_emit(struct reader *r, enum fr_hot_op op, int to, int a, int b)
{
    static struct fr_hot_ins lost;
    struct fr_hot_program   *p = r->p;

    if (p->n_ins >= MOST_INS || !FR_GROW(p->ins, p->cap_ins, (size_t)p->n_ins + 1)) {
        r->failed = true;
        return &lost;
    }
    p->ins[p->n_ins] = (struct fr_hot_ins){.op = (uint8_t)op, .to = (uint16_t)to, .a = (uint16_t)a, .b = (uint16_t)b};
    return &p->ins[p->n_ins++];
}

/* What follows is not translated: Python does it. */
void
fr_hot_leave(struct reader *r)
{
    if (!r->ended)
        fr_hot_emit(r, FR_HOT_EXIT, 0, 0, 0);
    r->ended = true;
}

int
fr_hot_fresh(struct reader *r, int n)
{
    int reg = r->n_regs;

    if (reg + n > FR_HOT_REGS) {
        fr_hot_leave(r);
        return TEMPORARY;
    }
    r->n_regs += n;
    return reg;
}

void
fr_hot_mark(const struct reader *r, struct fr_hot_mark *m)
{
    m->n_ins = r->p->n_ins;
    m->n_items = r->n_items;
    m->n_regs = r->n_regs;
    m->n_blocks = r->p->n_blocks;
    m->s = r->s;
}

bool
fr_hot_back(struct reader *r, const struct fr_hot_mark *m)
{
    const struct fr_hot_program *p = r->p;

    if (!r->ended || r->failed || p->n_blocks != m->n_blocks || r->s.frame != m->s.frame || p->n_ins == m->n_ins ||
        p->ins[p->n_ins - 1].op != FR_HOT_EXIT)
        return false;
    r->p->n_ins = m->n_ins;
    r->n_items = m->n_items;
    r->n_regs = m->n_regs;
    r->s = m->s;
    r->ended = false;
    return true;
}

/* ---- the stack */

void
fr_hot_push(struct reader *r, struct fr_hot_value v)
{
    if (r->s.n_stack == FR_HOT_STACK)
        fr_hot_leave(r);
    else
        r->s.stack[r->s.n_stack++] = v;
}

struct fr_hot_value
fr_hot_pop(struct reader *r)
{
    if (r->s.n_stack == 0) {
        fr_hot_leave(r);
        return (struct fr_hot_value){.kind = FR_HOT_OPAQUE};
    }
    return r->s.stack[--r->s.n_stack];
}

/* Pushes a number that the instruction just written has put into `reg`. */
void
fr_hot_push_new(struct reader *r, int kind, int dtype, int reg)
{
    struct fr_hot_value v = number(kind, dtype, reg);

    v.is_free = true;
    fr_hot_push(r, v);
}

struct fr_hot_value
fr_hot_constant(struct reader *r, int kind, int dtype, union fr_hot_cell c)
{
    int reg = fr_hot_fresh(r, 1);

    fr_hot_emit(r, FR_HOT_CONST, reg, 0, 0)->i = c.i;
    return number(kind, dtype, reg);
}

struct fr_hot_value
fr_hot_whole(struct reader *r, int64_t i)
{
    return fr_hot_constant(r, FR_HOT_PYTHON, FR_I64, (union fr_hot_cell){.i = i});
}

bool
fr_hot_constant_of(const struct reader *r, const struct fr_hot_value *v, union fr_hot_cell *c)
{
    const struct fr_hot_ins *in = r->p->n_ins ? &r->p->ins[r->p->n_ins - 1] : NULL;

    if (!in || in->op != FR_HOT_CONST || in->to != v->reg || !is_number(v))
        return false;
    c->i = in->i;
    return true;
}

/* ---- conversions */

int
fr_hot_as_double(struct reader *r, const struct fr_hot_value *v)
{
    int to;

    if (is_float(v))
        return v->reg;
    to = fr_hot_fresh(r, 1);
    fr_hot_emit(r, FR_HOT_I_TO_F, to, v->reg, 0);
    return to;
}

/* A register that is 1 where the value is true, else 0. */
int
fr_hot_as_truth(struct reader *r, const struct fr_hot_value *v)
{
    int to;

    if (!is_number(v)) {
        fr_hot_leave(r);
        return TEMPORARY;
    }
    if (v->dtype == FR_BOOL && !(v->reg >= STACK_REGS && v->reg < TEMPORARY))
        return v->reg;
    to = fr_hot_fresh(r, 1); /* (of a place on the stack, too: another value may get that before there is a jump) */
    fr_hot_emit(r, is_float(v) ? FR_HOT_F_TRUE : FR_HOT_I_TRUE, to, v->reg, 0);
    return to;
}

int
fr_hot_number_as(struct reader *r, const struct fr_hot_value *v, fr_dtype as)
{
    int to;

    if (fr_dtype_is_float(as))
        return fr_hot_as_double(r, v);
    if (as == FR_BOOL)
        return fr_hot_as_truth(r, v);
    if (!is_whole(v))
        return -1;
    if (v->dtype == as || v->dtype == FR_BOOL || as == FR_I64)
        return v->reg;
    fr_hot_emit(r, FR_HOT_FIT_I, to = fr_hot_fresh(r, 1), v->reg, 0)->n = (uint8_t)as;
    return to;
}

struct fr_hot_value
fr_hot_new_array(struct reader *r, fr_dtype d, int ndim)
{
    struct fr_hot_value v = number(FR_HOT_ARRAY, d, fr_hot_fresh(r, 1));

    v.ndim = (uint8_t)ndim;
    r->p->makes = true;
    return v;
}

void
fr_hot_as_object(struct reader *r, const struct fr_hot_value *v)
{
    struct fr_hot_ins *in;

    if (v->kind != FR_HOT_ARRAY)
        return;
    in = fr_hot_emit(r, FR_HOT_OWN, 0, v->reg, 0);
    in->n = v->ndim;
    in->c = v->dtype;
    r->p->makes = true;
}

/* ---- lists that are made */

/* What a list's items seem to be, after it got one. */
static void
note_item(struct fr_hot_value *list, const struct fr_hot_value *v)
{
    if (list->n_parts > 0 || v->kind == FR_HOT_NONE)
        return;
    list->part[0].kind = v->kind;
    list->part[0].dtype = v->dtype;
    list->part[0].ndim = v->ndim;
    list->n_parts = 1;
    for (int k = 0; v->kind == FR_HOT_LIST && k < v->n_parts && k + 1 < FR_HOT_PARTS; k++) {
        list->part[k + 1] = v->part[k];
        list->n_parts++;
    }
}

struct fr_hot_value
fr_hot_as_item(struct reader *r, const struct fr_hot_value *v)
{
    struct fr_hot_value item = v->kind == FR_HOT_DISPLAY ? fr_hot_new_list(r, v) : *v;

    if (!is_number(&item) && item.kind != FR_HOT_ARRAY && item.kind != FR_HOT_NONE && item.kind != FR_HOT_LIST)
        fr_hot_leave(r);
    fr_hot_as_object(r, &item);
    return item;
}

void
fr_hot_emit_item(struct reader *r, enum fr_hot_op op, int to, int a, int b, const struct fr_hot_value *item)
{
    struct fr_hot_ins *in = fr_hot_emit(r, op, to, a, b);

    in->n = item->ndim;
    in->i = item->kind | item->dtype << 8;
    r->p->appends = true;
}

int
fr_hot_reg_of(const struct fr_hot_value *item)
{
    return item->kind == FR_HOT_NONE ? TEMPORARY : item->reg;
}

void
fr_hot_append_item(struct reader *r, struct fr_hot_value *list, const struct fr_hot_value *v)
{
    const struct fr_hot_value item = fr_hot_as_item(r, v);

    fr_hot_emit_item(r, FR_HOT_APPEND, list->reg, fr_hot_reg_of(&item), 0, &item);
    note_item(list, &item);
}

struct fr_hot_value
fr_hot_new_list(struct reader *r, const struct fr_hot_value *of)
{
    struct fr_hot_value v = {.kind = FR_HOT_LIST, .reg = (int16_t)fr_hot_fresh(r, 1)};

    fr_hot_emit(r, FR_HOT_NEW_LIST, v.reg, 0, 0);
    r->p->makes = true;
    for (int k = 0; k < of->ndim && !r->ended; k++) {
        const struct fr_hot_value item = r->item[of->items + k];

        fr_hot_append_item(r, &v, &item);
    }
    return v;
}

/* ---- blocks */

bool
fr_hot_same_value(const struct fr_hot_value *a, const struct fr_hot_value *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype || a->ndim != b->ndim || a->object != b->object)
        return false;
    return (a->kind != FR_HOT_WALK && a->kind != FR_HOT_TUPLE && a->kind != FR_HOT_LIST) ||
           (a->n_parts == b->n_parts && a->is_numbered == b->is_numbered && a->lists == b->lists && memcmp(a->part, b->part, a->n_parts * sizeof *a->part) == 0);
}

void
fr_hot_move(struct reader *r, const struct fr_hot_value *v, int to)
{
    if (v->reg == to)
        return;
    if (v->is_borrowed)
        fr_hot_emit(r, FR_HOT_HOLD, 0, v->reg, 0);
    switch (v->kind) {
    case FR_HOT_PYTHON:
    case FR_HOT_NUMPY: fr_hot_emit(r, FR_HOT_MOVE, to, v->reg, 0); break;
    case FR_HOT_TUPLE: /* between blocks */
        for (int k = 0; k < v->n_parts; k++)
            fr_hot_move(r, &(struct fr_hot_value){.kind = v->part[k].kind, .reg = (int16_t)(v->reg + k)}, to + k);
        break;
    case FR_HOT_RANGE: fr_hot_emit(r, FR_HOT_MOVE3, to, v->reg, 0); break;
    case FR_HOT_WALK:
        fr_hot_emit(r, FR_HOT_MOVE, to, v->reg, 0);
        for (int k = 0; k < v->n_parts; k++)
            fr_hot_emit(r, FR_HOT_MOVE_VIEW, to + k, v->reg + k, 0);
        break;
    case FR_HOT_ARRAY:
    case FR_HOT_LIST:
    case FR_HOT_SHAPE: fr_hot_emit(r, FR_HOT_MOVE_VIEW, to, v->reg, 0); break;
    default: break;
    }
}

/* Whether it is a list whose items are no lists. */
static bool
is_flat(const struct fr_hot_value *v)
{
    return v->kind == FR_HOT_LIST && (v->n_parts == 0 || v->part[0].kind != FR_HOT_LIST);
}
_Static_assert(FR_HOT_SLICE < 16 && FR_HOT_AXES < 16, "a kind and a number of axes are in a byte");

/* A tuple of few values is on the stack from one block to another in the registers of its place; others are not. */
static bool
spread(struct reader *r, struct fr_hot_value *v)
{
    int to = fr_hot_fresh(r, FR_HOT_CELLS);

    if (v->kind != FR_HOT_TUPLE || v->ndim > FR_HOT_PARTS)
        return false;
    for (int i = 0; i < v->ndim; i++) {
        const struct fr_hot_value *item = &r->item[v->items + i];

        if (!is_number(item) && item->kind != FR_HOT_ARRAY && item->kind != FR_HOT_NONE && !is_flat(item))
            return false;
        if (item->reg >= 0 && item->reg < FR_HOT_VARS)
            fr_hot_as_object(r, item);
        v->part[i].kind = item->kind;
        v->part[i].dtype = item->dtype;
        v->part[i].ndim = item->ndim;
        if (item->kind == FR_HOT_LIST && item->n_parts) { /* what its items seem to be */
            v->part[i].dtype = item->part[0].dtype;
            v->part[i].ndim = (uint8_t)(item->part[0].kind << 4 | item->part[0].ndim);
        }
        fr_hot_move(r, item, to + i);
    }
    v->n_parts = v->ndim;
    v->reg = (int16_t)to;
    return true;
}

/* The other way, at the beginning of a block. */
void
fr_hot_gather(struct reader *r)
{
    for (int k = 0; k < r->s.n_stack; k++) {
        struct fr_hot_value *v = &r->s.stack[k];

        if (v->kind != FR_HOT_TUPLE)
            continue;
        v->items = (int16_t)r->n_items;
        for (int i = 0; i < v->n_parts; i++) {
            struct fr_hot_value item = {.kind = v->part[i].kind, .dtype = v->part[i].dtype, .ndim = v->part[i].ndim, .reg = (int16_t)(v->reg + i)};

            if (item.kind == FR_HOT_LIST && item.ndim) {
                item.part[0].kind = item.ndim >> 4;
                item.part[0].dtype = item.dtype;
                item.part[0].ndim = item.ndim & 15;
                item.n_parts = 1;
            }
            if (item.kind == FR_HOT_LIST)
                item.dtype = item.ndim = 0;
            r->item[r->n_items++] = item;
        }
    }
}
_Static_assert((int)FR_HOT_PARTS <= (int)FR_HOT_CELLS, "they lie in the registers of one place");

/* Puts the values of the stack where the next block has them. */
bool
fr_hot_settle(struct reader *r)
{
    struct state *s = &r->s;

    for (int k = 0; k < s->n_stack; k++) {
        struct fr_hot_value *v = &s->stack[k];

        if (v->kind == FR_HOT_DISPLAY) {
            const struct fr_hot_value list = fr_hot_new_list(r, v);

            *v = list;
        }
        if ((v->kind == FR_HOT_TUPLE || v->kind == FR_HOT_SLICE) && !spread(r, v)) {
            fr_hot_leave(r);
            return false;
        }
        if (v->reg >= STACK_REGS && v->reg < TEMPORARY && v->reg != STACK_REGS + k * FR_HOT_CELLS) { /* another may want that place */
            int to = fr_hot_fresh(r, FR_HOT_CELLS);

            fr_hot_move(r, v, to);
            v->reg = (int16_t)to;
        }
    }
    for (int k = 0; k < s->n_stack; k++) {
        fr_hot_move(r, &s->stack[k], STACK_REGS + k * FR_HOT_CELLS);
        s->stack[k].reg = (int16_t)(STACK_REGS + k * FR_HOT_CELLS);
        s->stack[k].is_free = s->stack[k].is_borrowed = false;
    }
    return !r->ended;
}

/* Whether a block is that of an offset with the types of `s`. */
static bool
is_block(const struct fr_hot_program *p, const struct fr_hot_block *b, int32_t at, const struct state *s)
{
    static const struct fr_hot_value unbound = {.kind = FR_HOT_UNBOUND};

    if (b->at != at || b->n_stack != s->n_stack || b->frame != s->frame)
        return false;
    for (int i = 0; i < p->n_vars; i++)
        if (!p->is_global[i] && !fr_hot_same_value(i < b->n_vars ? &b->value[i] : &unbound, &s->var[i]))
            return false;
    for (int i = 0; i < s->n_stack; i++)
        if (!fr_hot_same_value(&b->value[b->n_vars + i], &s->stack[i]))
            return false;
    return true;
}

/* The number of the block at an offset with the types of `s`; -1: memory is out. */
int
fr_hot_block_of(struct reader *r, int32_t at, const struct state *s)
{
    struct fr_hot_program *p = r->p;
    struct fr_hot_block   *b;

    for (int k = 0; k < p->n_blocks; k++)
        if (is_block(p, &p->block[k], at, s))
            return k;
    if (p->n_blocks >= MOST_BLOCKS || !FR_GROW(p->block, p->cap_blocks, (size_t)p->n_blocks + 1)) {
        r->failed = true;
        return -1;
    }
    b = &p->block[p->n_blocks];
    *b = (struct fr_hot_block){.at = at, .ins = -1, .n_vars = p->n_vars, .n_stack = s->n_stack, .frame = s->frame};
    if (!(b->value = fr_malloc((size_t)(b->n_vars + b->n_stack + 1) * sizeof *b->value))) {
        r->failed = true;
        return -1;
    }
    memcpy(b->value, s->var, (size_t)b->n_vars * sizeof *s->var);
    memcpy(b->value + b->n_vars, s->stack, (size_t)b->n_stack * sizeof *s->stack);
    return p->n_blocks++;
}

void
fr_hot_block_state(const struct fr_hot_block *b, struct state *s)
{
    memset(s->var, 0, sizeof s->var);
    _Static_assert(FR_HOT_UNBOUND == 0, "what is beyond n_vars is unbound");
    memcpy(s->var, b->value, (size_t)b->n_vars * sizeof *s->var);
    memcpy(s->stack, b->value + b->n_vars, (size_t)b->n_stack * sizeof *s->stack);
    s->n_stack = b->n_stack;
    s->frame = b->frame;
}

bool
fr_hot_is_inside(const struct reader *r, int32_t at)
{
    return r->s.frame > 0 || (at >= r->low && at <= r->high);
}

/* Ends the block with a jump, where `op` is one with the condition in register `a`, or goes on to it. Jumps lead to blocks by
 * their numbers until all are translated. */
void
fr_hot_jump(struct reader *r, enum fr_hot_op op, int a, int32_t to, const struct state *s)
{
    int block;

    if (r->ended)
        return;
    if (!fr_hot_is_inside(r, to)) { /* the loop is left: Python does it, from the last turn on */
        struct fr_hot_ins *in;

        if (op == FR_HOT_JUMP || op == FR_HOT_JUMP_BACK) {
            fr_hot_leave(r);
            return;
        }
        in = fr_hot_emit(r, op, 0, a, 0);
        in->at = -1;
        return;
    }
    if ((block = fr_hot_block_of(r, to, s)) < 0)
        return;
    fr_hot_emit(r, op, 0, a, 0)->at = block;
}

void
fr_hot_go_to(struct reader *r, int32_t to, bool back)
{
    if (!r->ended && fr_hot_settle(r))
        fr_hot_jump(r, back ? FR_HOT_JUMP_BACK : FR_HOT_JUMP, 0, to, &r->s);
    r->ended = true;
}

/* Both ways from here: to `to` where the register is true (or false, `unless`), else to what follows. */
void
fr_hot_branch(struct reader *r, int reg, bool unless, int32_t to, int32_t next)
{
    if (r->ended || !fr_hot_settle(r))
        return;
    fr_hot_jump(r, unless ? FR_HOT_UNLESS : FR_HOT_IF, reg, to, &r->s);
    fr_hot_jump(r, FR_HOT_JUMP, 0, next, &r->s);
    r->ended = true;
}
