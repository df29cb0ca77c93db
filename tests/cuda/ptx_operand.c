/* tests/cuda/ptx_operand.c -- operands of instructions: registers, numbers, variables, vectors and addresses. */
#include "ptx_parse.h"

#include <stdio.h>
#include <stdlib.h>

static const struct { const char *name; int which; uint32_t width; } specials[] = {
    {"%tid.x", SP_TID_X, 4}, {"%tid.y", SP_TID_Y, 4}, {"%tid.z", SP_TID_Z, 4}, {"%ntid.x", SP_NTID_X, 4},
    {"%ntid.y", SP_NTID_Y, 4}, {"%ntid.z", SP_NTID_Z, 4}, {"%ctaid.x", SP_CTAID_X, 4}, {"%ctaid.y", SP_CTAID_Y, 4},
    {"%ctaid.z", SP_CTAID_Z, 4}, {"%nctaid.x", SP_NCTAID_X, 4}, {"%nctaid.y", SP_NCTAID_Y, 4}, {"%nctaid.z", SP_NCTAID_Z, 4},
    {"%laneid", SP_LANE, 4}, {"%warpid", SP_WARPID, 4}, {"%nwarpid", SP_NWARPID, 4}, {"%lanemask_eq", SP_LANEMASK_EQ, 4},
    {"%lanemask_lt", SP_LANEMASK_LT, 4}, {"%lanemask_le", SP_LANEMASK_LE, 4}, {"%lanemask_gt", SP_LANEMASK_GT, 4},
    {"%lanemask_ge", SP_LANEMASK_GE, 4}, {"%dynamic_smem_size", SP_DYNAMIC_SIZE, 4}, {"%total_smem_size", SP_TOTAL_SIZE, 4},
    {"%clock", SP_CLOCK, 4}, {"%clock64", SP_CLOCK64, 8}, {"%globaltimer", SP_CLOCK64, 8}, {"%gridid", SP_GRIDID, 4},
};

void
ptx_operand_parse(struct parser *p, struct operand *o, bool in_vector)
{
    *o = (struct operand){.kind = O_NONE};
    if (ptx_take(p, "!"))
        o->negated = true;
    if (ptx_take(p, "[")) {
        o->kind = O_MEM;
        if (p->t == WORD) {
            struct symbol *s = ptx_symbol(p, p->text);

            if (!s)
                ptx_fail(p, "%s is not known", p->text);
            if (s->kind == SYM_REGS) {
                ptx_operand_parse(p, o, false);
                if (o->kind != O_REG)
                    ptx_fail(p, "an address is wanted");
                o->kind = O_MEM;
            } else {
                o->var = s->var;
                ptx_next(p);
            }
        }
        if (ptx_is(p, "+") || ptx_is(p, "-") || p->t == NUMBER) {
            bool     is_float, is_32;
            double   value;

            ptx_take(p, "+");
            o->offset = (int64_t)ptx_number(p, &is_float, &is_32, &value);
        }
        ptx_want(p, "]");
        return;
    }
    if (ptx_take(p, "{")) {
        o->kind = O_VEC;
        while (!ptx_is(p, "}")) {
            struct operand e;

            if (in_vector || o->n == 8)
                ptx_fail(p, "a vector of more than 8");
            ptx_operand_parse(p, &e, true);
            if (e.kind == O_SINK) {
                o->v[o->n++] = NO_REF;
            } else if (e.kind == O_REG) {
                o->v_width = e.width;
                o->v[o->n++] = e.reg;
            } else if (e.kind == O_IMM) {       /* as wide as the vector turns out to be */
                o->v_bits[o->n] = e.bits;
                o->v_imm |= 1u << o->n;
                o->v[o->n++] = 0;
            } else {
                ptx_fail(p, "a register is wanted in the vector");
            }
            if (!ptx_take(p, ","))
                break;
        }
        ptx_want(p, "}");
        return;
    }
    if (p->t == NUMBER || ptx_is(p, "-") || ptx_is(p, "~")) {
        o->kind = O_IMM;
        o->bits = ptx_number(p, &o->is_float, &o->is_32, &o->value);
        return;
    }
    if (p->t != WORD)
        ptx_fail(p, "an operand is wanted, there is '%s'", p->text);
    snprintf(o->name, sizeof o->name, "%.255s", p->text);
    if (!strcmp(p->text, "_")) {
        o->kind = O_SINK;
        ptx_next(p);
        return;
    }
    if (!strcmp(p->text, "WARP_SZ")) {
        o->kind = O_IMM;
        o->bits = LANES;
        o->value = LANES;
        ptx_next(p);
        return;
    }
    struct symbol *s = ptx_symbol(p, p->text);

    if (s && s->kind == SYM_REGS) {
        uint32_t k = s->family ? (uint32_t)strtoul(p->text + strlen(s->name), NULL, 10) : 0;

        o->kind = O_REG;
        o->width = s->width;
        o->reg = IN_FRAME | (s->at + k * (s->width == 1 ? 4 : s->width * LANES));
    } else if (s) {
        o->kind = O_VAR;
        o->var = s->var;
        ptx_next(p);
        if (ptx_is(p, "+") || ptx_is(p, "-")) {
            bool   is_float, is_32;
            double value;

            ptx_take(p, "+");
            o->offset = (int64_t)ptx_number(p, &is_float, &is_32, &value);
        }
        return;
    } else if (*p->text == '%') {
        for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
            if (!strcmp(specials[i].name, p->text)) {
                o->kind = O_REG;
                o->width = specials[i].width;
                o->reg = SPECIAL(specials[i].which);
                if (specials[i].which == SP_CLOCK || specials[i].which == SP_CLOCK64) {
                    struct insn *in = ptx_emit(p);

                    in->kind = K_ALU;
                    in->name = "clock";
                    in->fn.alu = ptx_alu_clock;
                }
            }
        if (o->kind == O_NONE)
            ptx_fail(p, "unsupported: %s", p->text);
    } else if (ptx_function(p, p->text) >= 0) {
        o->kind = O_FUNC;
        o->function = ptx_function(p, p->text);
    } else {
        o->kind = O_NAME;                       /* a label */
    }
    ptx_next(p);
    if (o >= p->ops && o < p->ops + 12 && ptx_take(p, "|")) {
        o->second = &p->extra[o - p->ops];
        ptx_operand_parse(p, o->second, false);
    }
}

static const char *
ordinal(int k)
{
    static const char *const names[] = {"first", "second", "third", "fourth", "fifth", "sixth"};

    return k < 6 ? names[k] : "last";
}

struct operand *
ptx_operand(struct parser *p, int k)
{
    if (k >= p->n_ops)
        ptx_fail(p, "the %s operand is missing", ordinal(k));
    return &p->ops[k];
}

/* A register to write. */
ref
ptx_operand_target(struct parser *p, int k, uint32_t width)
{
    struct operand *o = ptx_operand(p, k);

    if (o->kind == O_SINK)
        return width == 1 ? NO_REF : ptx_register(p, width);
    if (o->kind != O_REG || o->reg >> 30 != 0)
        ptx_fail(p, "the %s operand is no register", ordinal(k));
    if (width && o->width != width)
        ptx_fail(p, "the %s operand has %u bytes, %u are wanted", ordinal(k), o->width, width);
    return o->reg;
}

/* A temporary register = `from` + imm; from == NO_REF: the place of a .local variable. */
static ref
temporary(struct parser *p, uint32_t width, ref from, uint32_t from_width, int64_t imm)
{
    ref          r = ptx_register(p, width);
    struct insn *in = ptx_emit(p);

    in->kind = K_ALU;
    in->fn.alu = from == NO_REF ? ptx_alu_local : ptx_alu_space;
    in->op = '+';
    in->d = r;
    in->a = from;
    in->size = (uint8_t)from_width;
    in->width = (uint8_t)width;
    in->imm = imm;
    in->name = "address";
    return r;
}

/* The address of a variable in its space. */
static ref
address(struct parser *p, const struct variable *v, int64_t offset, uint32_t width)
{
    switch (v->space) {
    case S_SHARED:
        if (v->is_open)
            return temporary(p, width, SPECIAL(SP_DYNAMIC_AT), 8, offset);
        return ptx_constant(p, v->at + (uint64_t)offset, width);
    case S_LOCAL:
        return temporary(p, width, NO_REF, 8, (int64_t)v->at + offset);
    case S_PARAM:
        return ptx_constant(p, PARAM_BASE + v->at + (uint64_t)offset, width);
    case S_GLOBAL:
    case S_CONST:
        return ptx_constant(p, (uint64_t)(uintptr_t)p->m->memory + v->at + (uint64_t)offset, width);
    default:
        ptx_fail(p, "unsupported: the address of a parameter of a function");
    }
}

/* A value to read: of a register as wide as wanted, or a constant. */
static ref
value_of(struct parser *p, struct operand *o, int k, uint32_t width, enum type t)
{
    switch (o->kind) {
    case O_REG:
        if (o->width != width)
            ptx_fail(p, "the %s operand has %u bytes, %u are wanted", ordinal(k), o->width, width);
        return o->reg;
    case O_IMM: {
        uint64_t bits = o->bits;

        const bool any = t == T_NONE || t == T_B32 || t == T_B64;

        if (t == T_F32 || (any && o->is_float && width == 4)) {
            union { uint32_t u; float f; } v = {(uint32_t)bits};

            if (!o->is_32)
                v.f = (float)o->value;
            bits = v.u;
        } else if (t == T_F64 || (any && o->is_float && width == 8)) {
            union { uint64_t u; double f; } v = {.f = o->value};

            bits = v.u;
        } else if (o->is_float) {
            ptx_fail(p, "a whole number is wanted as %s operand", ordinal(k));
        }
        return ptx_constant(p, bits, width);
    }
    case O_VAR:
        return address(p, o->var, o->offset, width);
    case O_FUNC:
        return ptx_constant(p, CODE_BASE + 16 * (uint64_t)o->function, width);
    case O_SINK:
        ptx_fail(p, "the %s operand is read", ordinal(k));
    default:
        if (o->kind == O_NAME)
            ptx_fail(p, "%s is not known", o->name);
        ptx_fail(p, "the %s operand is no value", ordinal(k));
    }
}

ref
ptx_operand_value(struct parser *p, int k, uint32_t width, enum type t)
{
    return value_of(p, ptx_operand(p, k), k, width, t);
}

/* A value of any width, for what may be narrower than its register. */
ref
ptx_operand_wide(struct parser *p, int k, uint32_t least, enum type t, uint32_t *width)
{
    struct operand *o = ptx_operand(p, k);

    *width = o->kind == O_REG ? o->width : least < 2 ? 2 : least;
    if (*width < least || *width == 1)
        ptx_fail(p, "the %s operand has %u bytes, at least %u are wanted", ordinal(k), *width, least);
    return ptx_operand_value(p, k, *width, t);
}

uint32_t
ptx_operand_vector(struct parser *p, struct operand *o, enum type t, bool writes)
{
    struct ptx_module *m = p->m;
    const uint32_t     least = ptx_type_bytes(t) < 2 ? 2 : (uint32_t)ptx_type_bytes(t);
    const uint32_t     first = m->n_refs, width = o->v_width ? o->v_width : least;

    for (int k = 0; k < o->n; k++) {
        if (o->v_imm >> k & 1) {
            struct operand e = {.kind = O_IMM, .bits = o->v_bits[k]};

            if (writes)
                ptx_fail(p, "a number is written");
            o->v[k] = ptx_constant(p, e.bits, width);
        }
        m->refs = ptx_grow(p, m->refs, m->n_refs, sizeof *m->refs);
        m->refs[m->n_refs++] = o->v[k];
    }
    return first;
}

/* [register + n], [variable + n] or [n]: the base and offset. */
ref
ptx_operand_memory(struct parser *p, int k, enum space *space, int64_t *imm, uint8_t *width, uint32_t n_bytes)
{
    struct operand *o = ptx_operand(p, k);

    if (o->kind != O_MEM)
        ptx_fail(p, "the %s operand is no address", ordinal(k));
    *imm = o->offset;
    *width = 8;
    if (o->var) {
        const struct variable *v = o->var;
        const bool             same = *space == v->space || (*space == S_PARAM && v->space == S_FRAME);

        if (!same && *space != S_GENERIC)
            ptx_fail(p, "%s is in another space", v->name);
        if (*space == S_GENERIC && v->space != S_GLOBAL && v->space != S_CONST)
            ptx_fail(p, "%s has no generic address without cvta", v->name);
        if (v->space == S_PARAM || v->space == S_FRAME) {
            if (o->offset < 0 || (uint64_t)o->offset + n_bytes > v->n_bytes)
                ptx_fail(p, "%u bytes at %lld of %s, which has %u", n_bytes, (long long)o->offset, v->name, v->n_bytes);
            *space = (enum space)v->space;
            *imm += (int64_t)v->at;
            return NO_REF;
        }
        if (!v->is_open && v->space != S_LOCAL) { /* an offset suffices */
            *imm += (int64_t)v->at;
            if (v->space != S_SHARED)
                return ptx_constant(p, (uint64_t)(uintptr_t)p->m->memory, 8);
            return ptx_constant(p, 0, 8);
        }
        *imm = 0;
        return address(p, v, o->offset, 8);
    }
    if (o->width == 0)
        return ptx_constant(p, 0, 8);
    if (o->width != 8 && o->width != 4)
        ptx_fail(p, "an address of %u bytes", o->width);
    *width = (uint8_t)o->width;
    return o->reg;
}
