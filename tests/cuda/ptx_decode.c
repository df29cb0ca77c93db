/* tests/cuda/ptx_decode.c -- one instruction of the text: its operands, and the function that does it.
 *
 * What ptx.def has a row for is found by its mnemonic; families with many forms have a function each, in a table at
 * the end. */
#include "ptx_parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- mnemonics ---- */

/* True if the mnemonic has this part, which then is used. */
static bool
has(struct parser *p, const char *mod)
{
    for (int i = 1; i < p->n_mods; i++)
        if (!p->used[i] && !strcmp(p->mods[i], mod))
            return p->used[i] = true;
    return false;
}

static bool
has_any(struct parser *p, const char *const *list)
{
    bool any = false;

    for (; *list; list++)
        any |= has(p, *list);
    return any;
}

/* The next part that is a type, from the left. */
static enum type
next_type(struct parser *p)
{
    for (int i = 1; i < p->n_mods; i++)
        if (!p->used[i] && ptx_type(p->mods[i]) != T_NONE) {
            p->used[i] = true;
            return ptx_type(p->mods[i]);
        }
    ptx_fail(p, "unsupported: %s without a type", p->mnemonic);
}

/* Nothing of the mnemonic is left, and nothing of the operands. */
static void
all_used(struct parser *p, int n_ops)
{
    for (int i = 1; i < p->n_mods; i++)
        if (!p->used[i])
            ptx_fail(p, "unsupported: .%s of %s", p->mods[i], p->mnemonic);
    if (n_ops >= 0 && p->n_ops != n_ops)
        ptx_fail(p, "%s has %d operands, %d are wanted", p->mnemonic, p->n_ops, n_ops);
}

/* The instruction itself: after the operands, which may take instructions of their own. */
static struct insn *
finish(struct parser *p, enum kind kind)
{
    struct insn *in = ptx_emit(p);

    in->kind = (uint8_t)kind;
    in->line = p->at_line;
    in->name = p->mnemonic;
    in->guard = p->guard;
    in->guard_not = p->guard_not;
    return in;
}

/* ---- arithmetic: rows of ptx.def ---- */

static uint32_t
changes(struct parser *p)
{
    return (has(p, "ftz") ? CH_FTZ : 0) | (has(p, "rz") ? CH_RZ : 0) | (has(p, "rm") ? CH_RM : 0) | (has(p, "rp") ? CH_RP : 0) |
           (has(p, "sat") ? CH_SAT : 0);
}

static void
arithmetic(struct parser *p)
{
    const struct alu_row *row;
    const char *family = p->mods[0];
    enum type   t = ptx_type(p->mods[p->n_mods - 1]);
    const bool  is_half = t == T_F16 || t == T_BF16 || t == T_F16X2 || t == T_BF16X2;
    bool        is_float = t == T_F32 || t == T_F64 || is_half, rn = false;
    bool        takes_float = is_float && strcmp(family, "slct") && strcmp(family, "selp") && strcmp(family, "mov");
    uint32_t    change = 0;
    char        key[256];
    ref         r[5] = {NO_REF, NO_REF, NO_REF, NO_REF, NO_REF};
    int         n = 0;
    struct insn *in;

    if (!strcmp(family, "slct") && p->n_mods > 2)
        t = ptx_type(p->mods[1]);               /* the other type is that of the number it asks about */
    if (takes_float) {
        change = changes(p);
        rn = has(p, "rn");
        if (!rn && !(change & CH_ROUND) && !is_half &&
            (!strcmp(family, "add") || !strcmp(family, "sub") || !strcmp(family, "mul")) && !p->fn->contracts_at)
            p->fn->contracts_at = p->at_line;
        if (!rn && !(change & CH_ROUND) && (!strcmp(family, "div") || !strcmp(family, "rcp") || !strcmp(family, "sqrt")) &&
            !(p->n_mods > 1 && (!strcmp(p->mods[1], "approx") || !strcmp(p->mods[1], "full"))))
            ptx_fail(p, "unsupported: %s, which has no rounding", p->mnemonic);
    }
    snprintf(key, sizeof key, "%s", family);
    for (int i = 1; i < p->n_mods; i++)
        if (!p->used[i])
            snprintf(key + strlen(key), sizeof key - strlen(key), ".%s", p->mods[i]);
    if (!(row = ptx_alu_find(key))) {
        if (strstr(p->mnemonic, ".approx"))
            ptx_fail(p, "unsupported instruction %s: what approximations give is not defined to the bit", p->mnemonic);
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    }
    if (strstr(key, ".approx") || strstr(key, ".full"))
        change |= CH_APPROX;
    while (n < 5 && row->wide[n])
        n++;
    if (p->n_ops != n)
        ptx_fail(p, "%s has %d operands, %d are wanted", p->mnemonic, p->n_ops, n);
    for (int k = 1; k < n; k++)                 /* counts of shifts and fields are no floats */
        r[k] = ptx_operand_value(p, k, row->wide[k], row->wide[k] == (uint32_t)ptx_type_bytes(t) ? t : T_NONE);
    r[0] = ptx_operand_target(p, 0, row->wide[0]);
    if (r[0] == NO_REF)
        r[0] = ptx_register(p, 1);
    in = finish(p, K_ALU);
    in->d = r[0];
    in->a = r[1];
    in->b = r[2];
    in->c = r[3];
    in->e = r[4];
    in->width = row->wide[0];
    in->not_c = n > 3 && ptx_operand(p, 3)->negated;
    if (row->wide[0] == 1)                      /* and.pred with a negation */
        for (int k = 1; k < n; k++)
            if (ptx_operand(p, k)->negated)
                ptx_fail(p, "unsupported: a negated operand of %s", p->mnemonic);
    in->fn.alu = row->fn;
    if (change) {
        if (change & CH_FTZ && t != T_F32)
            ptx_fail(p, "unsupported: .ftz of %s", p->mnemonic);
        in->change = change;
        in->changed = row->fn;
        in->fn.alu = ptx_alu_changed;
        in->n = (uint8_t)(n - 1);
    }
}

/* ---- families ---- */

static void
decode_mov(struct parser *p)
{
    struct operand *d = ptx_operand(p, 0), *a = ptx_operand(p, 1);
    enum type       t = ptx_type(p->mods[p->n_mods - 1]);
    uint32_t        width = (uint32_t)ptx_type_bytes(t), first;
    struct insn    *in;
    ref             r;

    if (d->kind != O_VEC && a->kind != O_VEC) {
        arithmetic(p);
        return;
    }
    next_type(p);
    all_used(p, 2);
    if (width < 4 || width > 8)
        ptx_fail(p, "unsupported: %s of a vector", p->mnemonic);
    struct operand *v = d->kind == O_VEC ? d : a;

    if (v->n * v->v_width != width && v->v_width)
        ptx_fail(p, "a vector of %u bytes, %u are wanted", (uint32_t)v->n * v->v_width, width);
    if (!v->v_width)
        v->v_width = width / (uint32_t)v->n;
    first = ptx_operand_vector(p, v, t, v == d);
    r = v == d ? ptx_operand_value(p, 1, width, t) : ptx_operand_target(p, 0, width);
    in = finish(p, K_ALU);
    in->n = (uint8_t)v->n;
    in->size = (uint8_t)v->v_width;
    in->width = (uint8_t)width;
    in->target = first;
    in->fn.alu = v == d ? ptx_alu_unpack : ptx_alu_pack;
    *(v == d ? &in->a : &in->d) = r;
}

/* setp.lt.and.ftz.f32 p|q, a, b, c and set.lt.u32.f32 d, a, b, c */
static void
decode_setp(struct parser *p)
{
    const bool  set = !strcmp(p->mods[0], "set");
    enum type   to = T_PRED, t;
    compare_fn *fn;
    uint32_t    change = has(p, "ftz") ? CH_FTZ : 0, width;
    int         op = has(p, "and") ? '&' : has(p, "or") ? '|' : has(p, "xor") ? '^' : 0;
    ref         a, b, c = NO_REF, d, d2 = NO_REF;
    struct insn *in;

    if (p->n_mods < 3)
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    p->used[1] = true;
    if (set)
        to = next_type(p);
    t = next_type(p);
    if (!(fn = ptx_compare_find(p->mods[1], t)))
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    all_used(p, op ? 4 : 3);
    width = (uint32_t)ptx_type_bytes(t);
    a = ptx_operand_value(p, 1, width, t);
    b = ptx_operand_value(p, 2, width, t);
    if (op)
        c = ptx_operand_value(p, 3, 1, T_PRED);
    d = ptx_operand_target(p, 0, set ? (uint32_t)ptx_type_bytes(to) : 1);
    if (ptx_operand(p, 0)->second)
        d2 = ptx_operand(p, 0)->second->kind == O_SINK ? NO_REF : ptx_operand(p, 0)->second->reg;
    in = finish(p, K_ALU);
    in->fn.alu = set ? ptx_alu_set : ptx_alu_setp;
    in->compare = fn;
    in->op = (uint8_t)op;
    in->a = a;
    in->b = b;
    in->c = c;
    in->d = d == NO_REF ? ptx_register(p, 1) : d;
    in->d2 = d2;
    in->not_c = op && ptx_operand(p, 3)->negated;
    in->width = (uint8_t)ptx_type_bytes(to);
    in->imm = to == T_F32 ? 0x3f800000 : to == T_F16 ? 0x3c00 : to == T_BF16 ? 0x3f80 : -1;
    if (set && ptx_type_bytes(to) == 8)
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    if (change) {
        if (t != T_F32)
            ptx_fail(p, "unsupported: .ftz of %s", p->mnemonic);
        in->change = change;
        in->changed = in->fn.alu;
        in->fn.alu = ptx_alu_changed;
        in->n = 2;
    }
}

static void
decode_lop3(struct parser *p)
{
    struct insn *in;
    ref          a, b, c, d;

    next_type(p);
    all_used(p, 5);
    a = ptx_operand_value(p, 1, 4, T_B32);
    b = ptx_operand_value(p, 2, 4, T_B32);
    c = ptx_operand_value(p, 3, 4, T_B32);
    d = ptx_operand_target(p, 0, 4);
    in = finish(p, K_ALU);
    in->fn.alu = ptx_alu_lop3;
    in->a = a;
    in->b = b;
    in->c = c;
    in->d = d;
    in->imm = (int64_t)ptx_operand(p, 4)->bits;
    if (ptx_operand(p, 4)->kind != O_IMM)
        ptx_fail(p, "lop3's table is no number");
}

static void
decode_prmt(struct parser *p)
{
    static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    struct insn *in;
    int          mode = 0;
    ref          a, b, c, d;

    next_type(p);
    for (int i = 0; i < 6; i++)
        if (has(p, modes[i]))
            mode = i + 1;
    all_used(p, 4);
    a = ptx_operand_value(p, 1, 4, T_B32);
    b = ptx_operand_value(p, 2, 4, T_B32);
    c = ptx_operand_value(p, 3, 4, T_B32);
    d = ptx_operand_target(p, 0, 4);
    in = finish(p, K_ALU);
    in->fn.alu = ptx_alu_prmt;
    in->a = a;
    in->b = b;
    in->c = c;
    in->d = d;
    in->mode = (uint8_t)mode;
}

/* add.cc, addc, sub.cc, subc, mad.lo.cc, madc.hi.cc */
static void
decode_carry(struct parser *p)
{
    const char *f = p->mods[0];
    int         op = f[0] == 'a' ? '+' : f[0] == 's' ? '-' : 'm', mode = f[strlen(f) - 1] == 'c' ? 1 : 0;
    enum type   t;
    uint32_t    width;
    ref         a, b, c = NO_REF, d;
    struct insn *in;

    mode |= has(p, "cc") ? 2 : 0;
    if (op == 'm')
        op = has(p, "hi") ? 'h' : has(p, "lo") ? 'l' : 0;
    t = next_type(p);
    all_used(p, op == '+' || op == '-' ? 3 : 4);
    width = (uint32_t)ptx_type_bytes(t);
    if (width < 4 || !op || t == T_F32 || t == T_F64)
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    a = ptx_operand_value(p, 1, width, t);
    b = ptx_operand_value(p, 2, width, t);
    if (op == 'h' || op == 'l')
        c = ptx_operand_value(p, 3, width, t);
    d = ptx_operand_target(p, 0, width);
    in = finish(p, K_ALU);
    in->fn.alu = ptx_alu_carry;
    in->op = (uint8_t)op;
    in->mode = (uint8_t)mode;
    in->width = (uint8_t)width;
    in->is_signed = t == T_S32 || t == T_S64;
    in->a = a;
    in->b = b;
    in->c = c;
    in->d = d;
}

static bool
is_float_type(enum type t)
{
    return t == T_F16 || t == T_BF16 || t == T_F32 || t == T_F64;
}

static void
decode_cvt(struct parser *p)
{
    const struct alu_row *row;
    enum type   to, from;
    int         mode = 0, rn = 0;
    uint32_t    change, size, width;
    ref         a, b = NO_REF, d;
    struct insn *in;

    mode = has(p, "rni") ? 'n' : has(p, "rzi") ? 'z' : has(p, "rmi") ? 'm' : has(p, "rpi") ? 'p' : 0;
    rn = has(p, "rn");
    change = changes(p);
    to = next_type(p);
    from = next_type(p);
    if (to == T_F16X2 || to == T_BF16X2) {
        if (from != T_F32 || !(rn || change & CH_RZ))
            ptx_fail(p, "unsupported instruction %s", p->mnemonic);
        all_used(p, 3);
        a = ptx_operand_value(p, 1, 4, T_F32);
        b = ptx_operand_value(p, 2, 4, T_F32);
        d = ptx_operand_target(p, 0, 4);
        in = finish(p, K_ALU);
        in->n = 2;
        in->b = b;
        size = width = 4;
    } else {
        all_used(p, 2);
        if (to == T_PRED || from == T_PRED || to == T_B128 || from == T_B128)
            ptx_fail(p, "unsupported instruction %s", p->mnemonic);
        if (is_float_type(from) && !is_float_type(to) && !mode)
            ptx_fail(p, "unsupported: %s without a rounding", p->mnemonic);
        if (!is_float_type(from) && is_float_type(to) && !rn && !(change & CH_ROUND))
            ptx_fail(p, "unsupported: %s without a rounding", p->mnemonic);
        if (is_float_type(from) && is_float_type(to) && ptx_type_bytes(to) < ptx_type_bytes(from) && !rn &&
            !(change & CH_ROUND))
            ptx_fail(p, "unsupported: %s without a rounding", p->mnemonic);
        a = ptx_operand_wide(p, 1, (uint32_t)ptx_type_bytes(from), from, &size);
        d = ptx_operand_target(p, 0, 0);
        width = ptx_operand(p, 0)->kind == O_SINK ? (uint32_t)ptx_type_bytes(to) : ptx_operand(p, 0)->width;
        if (width == 1 || width < (uint32_t)ptx_type_bytes(to))
            ptx_fail(p, "the first operand has %u bytes, %u are wanted", width, (uint32_t)ptx_type_bytes(to));
        in = finish(p, K_ALU);
        row = ptx_alu_find(p->mnemonic);
        if (row && row->wide[0] == width && row->wide[1] == size) {
            in->fn.alu = row->fn;
            in->a = a;
            in->d = d;
            return;
        }
    }
    in->fn.alu = ptx_cvt;
    in->a = a;
    in->d = d;
    in->type = (uint8_t)from;
    in->op = (uint8_t)to;
    in->mode = (uint8_t)mode;
    in->size = (uint8_t)size;
    in->width = (uint8_t)width;
    in->change = change;
}

static enum space
space_of_mods(struct parser *p)
{
    return has(p, "global") ? S_GLOBAL : has(p, "shared") || has(p, "shared::cta") ? S_SHARED : has(p, "local") ? S_LOCAL
           : has(p, "param") || has(p, "param::entry") || has(p, "param::func") ? S_PARAM : has(p, "const") ? S_CONST : S_GENERIC;
}

static uint64_t
window(struct parser *p, enum space s)
{
    if (s == S_GENERIC)
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    return s == S_SHARED ? SHARED_BASE : s == S_LOCAL ? LOCAL_BASE : 0; /* the others are their own windows */
}

static void
decode_cvta(struct parser *p)
{
    bool       to = has(p, "to");
    enum space s = space_of_mods(p);
    enum type  t = next_type(p);
    uint32_t   width = (uint32_t)ptx_type_bytes(t);
    struct insn *in;
    ref        a, d;

    all_used(p, 2);
    if (width != 8)
        ptx_fail(p, "unsupported: addresses are of 64 bits here");
    a = ptx_operand_value(p, 1, 8, t);
    d = ptx_operand_target(p, 0, 8);
    in = finish(p, K_ALU);
    in->imm = (int64_t)window(p, s);
    in->op = to ? '-' : '+';
    in->size = in->width = 8;
    in->a = a;
    in->d = d;
    in->fn.alu = in->imm ? ptx_alu_space : ptx_alu_find("mov.b64")->fn;
}

static void
decode_isspacep(struct parser *p)
{
    enum space   s = space_of_mods(p);
    struct insn *in;
    ref          a, d;

    all_used(p, 2);
    if (s == S_CONST)
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    a = ptx_operand_value(p, 1, 8, T_U64);
    d = ptx_operand_target(p, 0, 1);
    in = finish(p, K_ALU);
    in->fn.alu = ptx_alu_space;
    in->op = 'p';
    in->imm = s == S_PARAM ? (int64_t)PARAM_BASE : (int64_t)window(p, s);
    in->a = a;
    in->d = d == NO_REF ? ptx_register(p, 1) : d;
}

static const char *const ignored[] = {"weak", "relaxed", "acquire", "release", "acq_rel", "sc", "volatile", "cta", "cluster",
                                      "gpu", "sys", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified", NULL};

/* Cache hints: L1::no_allocate, L2::128B. */
static void
use_hints(struct parser *p)
{
    has_any(p, ignored);
    for (int i = 1; i < p->n_mods; i++)
        if ((!strncmp(p->mods[i], "L1::", 4) || !strncmp(p->mods[i], "L2::", 4)) && strcmp(p->mods[i], "L2::cache_hint"))
            p->used[i] = true;
}

static void
decode_memory(struct parser *p)
{
    const bool loads = !strcmp(p->mods[0], "ld") || !strcmp(p->mods[0], "ldu");
    enum space space = space_of_mods(p);
    int        n = has(p, "v2") ? 2 : has(p, "v4") ? 4 : has(p, "v8") ? 8 : 1;
    enum type  t;
    uint32_t   size, width = 0, first = 0;
    int64_t    imm;
    uint8_t    address_width;
    struct operand *v = ptx_operand(p, loads ? 0 : 1);
    ref        base, r = NO_REF;
    struct insn *in;

    use_hints(p);
    t = next_type(p);
    all_used(p, 2);
    size = (uint32_t)ptx_type_bytes(t);
    if (t == T_PRED || t == T_B128 || size * (uint32_t)n > (space == S_GLOBAL ? 32 : 16))
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    base = ptx_operand_memory(p, loads ? 1 : 0, &space, &imm, &address_width, size * (uint32_t)n);
    if (space == S_PARAM && base != NO_REF)
        space = S_GENERIC;                      /* by its address, which cvta.param leaves as it is */
    if (n > 1) {
        if (v->kind != O_VEC || v->n != n)
            ptx_fail(p, "a vector of %d is wanted", n);
        width = v->v_width ? v->v_width : size < 2 ? 2 : size;
        if (width < size || width == 1)
            ptx_fail(p, "registers of %u bytes, at least %u are wanted", width, size);
        first = ptx_operand_vector(p, v, t, loads);
    } else if (loads) {
        r = ptx_operand_target(p, 0, 0);
        width = v->kind == O_SINK ? (size < 2 ? 2 : size) : v->width;
        if (width < size || width == 1)
            ptx_fail(p, "a register of %u bytes, at least %u are wanted", width, size);
        if (v->kind == O_SINK)
            r = ptx_register(p, width);
    } else {
        r = ptx_operand_wide(p, 1, size, t, &width);
    }
    if (!loads && (space == S_CONST || space == S_PARAM))
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    in = finish(p, K_MEM);
    in->fn.mem = space == S_PARAM ? ptx_load_param : space == S_FRAME ? (loads ? ptx_load_frame : ptx_store_frame)
                 : loads ? ptx_load : ptx_store;
    in->a = base;
    *(loads ? &in->d : &in->b) = r;
    in->space = (uint8_t)space;
    in->n = (uint8_t)n;
    in->size = (uint8_t)size;
    in->width = (uint8_t)width;
    in->is_signed = t == T_S8 || t == T_S16 || t == T_S32;
    in->address_width = address_width;
    in->imm = imm;
    in->target = first;
    in->site = p->m->n_sites++;
}

static void
decode_atomic(struct parser *p)
{
    static const struct { const char *name; int op; } ops[] = {{"add", 'a'}, {"min", 'n'}, {"max", 'x'}, {"and", '&'},
        {"or", '|'}, {"xor", '^'}, {"exch", 'e'}, {"cas", 'c'}, {"inc", 'i'}, {"dec", 'd'}};
    const bool red = !strcmp(p->mods[0], "red");
    const int  first = red ? 0 : 1;
    enum space space = space_of_mods(p);
    enum type  t;
    int        op = 0;
    uint32_t   size;
    int64_t    imm;
    uint8_t    address_width;
    ref        base, b, c = NO_REF, d = NO_REF;
    struct insn *in;

    use_hints(p);
    has(p, "noftz");
    for (size_t i = 0; i < sizeof ops / sizeof *ops && !op; i++)
        if (has(p, ops[i].name))
            op = ops[i].op;
    t = next_type(p);
    size = (uint32_t)ptx_type_bytes(t);
    all_used(p, first + 2 + (op == 'c'));
    if (!op || size < 2 || size > 8 || (is_float_type(t) && op != 'a') || space == S_LOCAL || space == S_PARAM ||
        space == S_CONST)
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    base = ptx_operand_memory(p, first, &space, &imm, &address_width, size);
    b = ptx_operand_value(p, first + 1, size, t);
    if (op == 'c')
        c = ptx_operand_value(p, first + 2, size, t);
    if (!red && ptx_operand(p, 0)->kind != O_SINK)
        d = ptx_operand_target(p, 0, size);
    in = finish(p, K_MEM);
    in->fn.mem = ptx_atomic;
    in->a = base;
    in->b = b;
    in->c = c;
    in->d = d;
    in->op = (uint8_t)op;
    in->type = (uint8_t)t;
    in->mode = t == T_F32 && space != S_SHARED;
    in->space = (uint8_t)space;
    in->size = in->width = (uint8_t)size;
    in->address_width = address_width;
    in->imm = imm;
    in->site = p->m->n_sites++;
}

/* cp.async.ca.shared.global [to], [from], n {, of which are read} */
static void
decode_cp(struct parser *p)
{
    struct insn *in;
    int64_t      to_imm, from_imm;
    uint8_t      to_width, from_width;
    enum space   shared = S_SHARED, global = S_GLOBAL;
    ref          a, b, c = NO_REF;

    if (!has(p, "async"))
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    if (has(p, "commit_group") || has(p, "wait_group") || has(p, "wait_all")) {
        all_used(p, -1);
        finish(p, K_NOP);
        return;
    }
    use_hints(p);
    if (!has(p, "shared") && !has(p, "shared::cta"))
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    has(p, "global");
    all_used(p, -1);
    a = ptx_operand_memory(p, 0, &shared, &to_imm, &to_width, 0);
    b = ptx_operand_memory(p, 1, &global, &from_imm, &from_width, 0);
    if (p->n_ops < 3 || p->n_ops > 4 || ptx_operand(p, 2)->kind != O_IMM ||
        (ptx_operand(p, 2)->bits != 4 && ptx_operand(p, 2)->bits != 8 && ptx_operand(p, 2)->bits != 16))
        ptx_fail(p, "%s copies 4, 8 or 16 bytes", p->mnemonic);
    if (p->n_ops == 4)
        c = ptx_operand_value(p, 3, 4, T_U32);
    in = finish(p, K_MEM);
    in->fn.mem = ptx_copy_async;
    in->a = a;
    in->b = b;
    in->c = c;
    in->imm = from_imm;
    in->target = (uint32_t)to_imm;
    in->address_width = to_width;
    in->mode = from_width;
    in->space = S_SHARED;
    in->n = (uint8_t)ptx_operand(p, 2)->bits;
    in->size = 4;
    in->site = p->m->n_sites++;
}

static void
decode_nothing(struct parser *p)
{
    finish(p, K_NOP);
}

static void
decode_bra(struct parser *p)
{
    has(p, "uni");
    all_used(p, 1);
    if (ptx_operand(p, 0)->kind != O_NAME)
        ptx_fail(p, "%s has no label", p->mnemonic);
    finish(p, K_BRA);
    ptx_fix(p, ptx_operand(p, 0)->name, p->m->n_code - 1, false, 0, 0);
}

static void
decode_brx(struct parser *p)
{
    struct insn   *in;
    struct symbol *s;
    ref            a;

    has(p, "idx");
    has(p, "uni");
    all_used(p, 2);
    a = ptx_operand_value(p, 0, 4, T_U32);
    if (ptx_operand(p, 1)->kind != O_NAME)
        ptx_fail(p, "brx.idx has no list of labels");
    for (s = p->symbols + p->n_symbols - 1; s >= p->symbols; s--)
        if (s->kind == SYM_TARGETS && !strcmp(s->name, ptx_operand(p, 1)->name))
            break;
    if (s < p->symbols)
        ptx_fail(p, "there is no list %s", ptx_operand(p, 1)->name);
    in = finish(p, K_BRX);
    in->a = a;
    in->target = s->at;
}

static void
passed(struct parser *p, struct passed *to, bool is_result)
{
    struct operand *o = &p->ops[0];

    ptx_operand_parse(p, o, false);
    *to = (struct passed){0};
    if (o->kind == O_VAR && o->var->space == S_FRAME) {
        to->at = (uint32_t)o->var->at;
        to->n_bytes = o->var->n_bytes;
    } else if (o->kind == O_REG && o->width > 1) {
        to->is_reg = true;
        to->reg = o->reg;
        to->n_bytes = o->width;
    } else if (o->kind == O_IMM && !is_result) {
        to->is_reg = true;
        to->n_bytes = o->is_32 ? 4 : 8;
        to->reg = ptx_constant(p, o->bits, to->n_bytes);
    } else {
        ptx_fail(p, "unsupported argument of a call");
    }
}

/* call (results), function, (arguments) {, prototype}; the text is at its first operand. */
static void
decode_call(struct parser *p)
{
    struct call *c = calloc(1, sizeof *c);
    struct insn *in;
    ref          a = NO_REF;
    int          fn = -1;

    if (!c)
        ptx_fail(p, "out of memory");
    p->m->calls = ptx_grow(p, p->m->calls, (size_t)p->m->n_calls, sizeof *p->m->calls);
    p->m->calls[p->m->n_calls++] = c;
    has(p, "uni");
    all_used(p, -1);
    if (ptx_take(p, "(")) {
        while (!ptx_is(p, ")")) {
            if (c->n_out == 4)
                ptx_fail(p, "unsupported: more than 4 results");
            passed(p, &c->out[c->n_out++], true);
            if (!ptx_take(p, ","))
                break;
        }
        ptx_want(p, ")");
        ptx_want(p, ",");
    }
    ptx_operand_parse(p, &p->ops[0], false);
    if (p->ops[0].kind == O_FUNC)
        fn = p->ops[0].function;
    else if (p->ops[0].kind == O_REG && p->ops[0].width == 8)
        a = p->ops[0].reg;
    else
        ptx_fail(p, "there is no function %s", p->ops[0].name);
    if (ptx_take(p, ",")) {
        if (ptx_take(p, "(")) {
            while (!ptx_is(p, ")")) {
                if (c->n_in == MAX_PASSED)
                    ptx_fail(p, "unsupported: more than %d arguments", MAX_PASSED);
                passed(p, &c->in[c->n_in++], false);
                if (!ptx_take(p, ","))
                    break;
            }
            ptx_want(p, ")");
            if (ptx_take(p, ","))               /* the prototype, which the function itself is */
                ptx_next(p);
        } else {
            ptx_next(p);
        }
    }
    if (fn >= 0) {
        const struct ptx_kernel *f = p->m->functions[fn];

        if (f->n_params != c->n_in || f->n_results < c->n_out)
            ptx_fail(p, "%s has %d parameters and %d results", f->name, f->n_params, f->n_results);
        for (int i = 0; i < c->n_in; i++)
            if (f->params[i].n_bytes > c->in[i].n_bytes)
                ptx_fail(p, "argument %d has %u bytes, %u are wanted", i, c->in[i].n_bytes, f->params[i].n_bytes);
        p->fn->calls = ptx_grow(p, p->fn->calls, (size_t)p->fn->n_calls, sizeof *p->fn->calls);
        p->fn->calls[p->fn->n_calls++] = (uint32_t)fn;
    } else {
        p->fn->calls_any = true;
    }
    in = finish(p, K_CALL);
    in->a = a;
    in->imm = fn;
    in->target = (uint32_t)p->m->n_calls - 1;
}

static void
decode_ret(struct parser *p)
{
    has(p, "uni");
    all_used(p, 0);
    finish(p, !strcmp(p->mods[0], "exit") ? K_EXIT : K_RET);
}

static void
decode_trap(struct parser *p)
{
    all_used(p, 0);
    finish(p, K_TRAP);
}

/* bar.sync a {,n}; bar.arrive a, n; bar.red.popc.u32 d, a {,n}, p; barrier.sync.aligned ...; bar.warp.sync mask */
static void
decode_bar(struct parser *p)
{
    struct insn *in;
    bool         aligned = !strcmp(p->mods[0], "bar"), arrive, red;
    int          op = 0, k = 0;
    ref          a, b = NO_REF, c = NO_REF, d = NO_REF;

    if (has(p, "warp")) {
        has(p, "sync");
        all_used(p, 1);
        a = ptx_operand_value(p, 0, 4, T_B32);
        in = finish(p, K_SYNC);
        in->e = a;
        in->mode = 'b';
        return;
    }
    has(p, "cta");
    aligned |= has(p, "aligned");
    arrive = has(p, "arrive");
    red = has(p, "red");
    if (!arrive && !red && !has(p, "sync"))
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    if (red) {
        op = has(p, "popc") ? 'p' : has(p, "and") ? '&' : has(p, "or") ? '|' : 0;
        next_type(p);
        if (!op)
            ptx_fail(p, "unsupported instruction %s", p->mnemonic);
        d = ptx_operand_target(p, k++, op == 'p' ? 4 : 1);
        if (d == NO_REF)
            d = ptx_register(p, 1);
    }
    all_used(p, -1);
    a = ptx_operand_value(p, k++, 4, T_U32);
    if (p->n_ops > k + red)
        b = ptx_operand_value(p, k++, 4, T_U32);
    if (red)
        c = ptx_operand_value(p, k++, 1, T_PRED);
    if (p->n_ops != k || (arrive && b == NO_REF))
        ptx_fail(p, "%s has %d operands", p->mnemonic, p->n_ops);
    in = finish(p, K_BAR);
    in->a = a;
    in->b = b;
    in->c = c;
    in->d = d;
    in->op = (uint8_t)op;
    in->n = arrive;
    in->mode = aligned;
    in->not_c = red && ptx_operand(p, k - 1)->negated;
}

static ref
second_predicate(struct parser *p)
{
    struct operand *o = ptx_operand(p, 0)->second;

    if (!o || o->kind == O_SINK)
        return NO_REF;
    if (o->kind != O_REG || o->width != 1)
        ptx_fail(p, "the second result is no predicate");
    return o->reg;
}

/* Of what the lanes of a warp do together. */
static void
decode_warp(struct parser *p)
{
    const char *f = p->mods[0];
    struct insn *in;
    int         op = 0, mask = 0;
    enum type   t = T_B32;
    ref         a = NO_REF, b = NO_REF, c = NO_REF, d, d2 = NO_REF, e;

    if (!has(p, "sync"))
        ptx_fail(p, "unsupported: %s without .sync", p->mnemonic);
    if (!strcmp(f, "shfl")) {
        op = has(p, "up") ? 'u' : has(p, "down") ? 'd' : has(p, "bfly") ? 'x' : has(p, "idx") ? 'i' : 0;
        next_type(p);
        d2 = second_predicate(p);
        a = ptx_operand_value(p, 1, 4, T_B32);
        b = ptx_operand_value(p, 2, 4, T_U32);
        c = ptx_operand_value(p, 3, 4, T_U32);
        d = ptx_operand_target(p, 0, 4);
        mask = 4;
    } else if (!strcmp(f, "vote")) {
        op = has(p, "all") ? '&' : has(p, "any") ? '|' : has(p, "uni") ? '=' : has(p, "ballot") ? 'b' : 0;
        next_type(p);
        a = ptx_operand_value(p, 1, 1, T_PRED);
        d = ptx_operand_target(p, 0, op == 'b' ? 4 : 1);
        mask = 2;
    } else if (!strcmp(f, "match")) {
        op = has(p, "all") ? '&' : has(p, "any") ? '|' : 0;
        t = next_type(p);
        d2 = second_predicate(p);
        a = ptx_operand_value(p, 1, (uint32_t)ptx_type_bytes(t), t);
        d = ptx_operand_target(p, 0, 4);
        mask = 2;
    } else if (!strcmp(f, "redux")) {
        op = has(p, "add") ? 'a' : has(p, "min") ? 'n' : has(p, "max") ? 'x' : has(p, "and") ? '&' : has(p, "or") ? '|'
             : has(p, "xor") ? '^' : 0;
        t = next_type(p);
        if (ptx_type_bytes(t) != 4 || t == T_F32)
            op = 0;
        a = ptx_operand_value(p, 1, 4, t);
        d = ptx_operand_target(p, 0, 4);
        mask = 2;
    } else {
        op = 'e';
        d2 = second_predicate(p);
        d = ptx_operand(p, 0)->kind == O_SINK ? NO_REF : ptx_operand_target(p, 0, 4);
        mask = 1;
    }
    if (!op)
        ptx_fail(p, "unsupported instruction %s", p->mnemonic);
    all_used(p, mask + 1);
    e = ptx_operand_value(p, mask, 4, T_B32);
    in = finish(p, K_SYNC);
    in->mode = (uint8_t)f[0];
    in->op = (uint8_t)op;
    in->a = a;
    in->b = b;
    in->c = c;
    in->d = d;
    in->d2 = d2;
    in->e = e;
    in->width = (uint8_t)ptx_type_bytes(t);
    in->is_signed = t == T_S32;
    in->not_c = *f == 'v' && ptx_operand(p, 1)->negated;
}

static void
decode_activemask(struct parser *p)
{
    struct insn *in;
    ref          d;

    next_type(p);
    all_used(p, 1);
    d = ptx_operand_target(p, 0, 4);
    in = finish(p, K_ALU);
    in->fn.alu = ptx_alu_activemask;
    in->d = d;
}

static const struct { const char *name; void (*decode)(struct parser *); } families[] = {
    {"mov", decode_mov}, {"setp", decode_setp}, {"set", decode_setp}, {"lop3", decode_lop3}, {"prmt", decode_prmt},
    {"addc", decode_carry}, {"subc", decode_carry}, {"madc", decode_carry}, {"cvt", decode_cvt}, {"cvta", decode_cvta},
    {"isspacep", decode_isspacep}, {"ld", decode_memory}, {"ldu", decode_memory}, {"st", decode_memory}, {"atom", decode_atomic},
    {"red", decode_atomic}, {"cp", decode_cp}, {"bra", decode_bra}, {"brx", decode_brx}, {"ret", decode_ret}, {"exit", decode_ret},
    {"trap", decode_trap}, {"bar", decode_bar}, {"barrier", decode_bar}, {"shfl", decode_warp}, {"vote", decode_warp},
    {"match", decode_warp}, {"redux", decode_warp}, {"elect", decode_warp}, {"activemask", decode_activemask},
    {"membar", decode_nothing}, {"fence", decode_nothing}, {"prefetch", decode_nothing}, {"prefetchu", decode_nothing},
    {"nanosleep", decode_nothing}, {"pmevent", decode_nothing}, {"discard", decode_nothing}, {"applypriority", decode_nothing},
    {"griddepcontrol", decode_nothing}, {"brkpt", decode_nothing},
};

/* ---- a statement ---- */

static void
split_mnemonic(struct parser *p)
{
    const char *s = p->text;

    p->n_mods = 0;
    memset(p->used, 0, sizeof p->used);
    while (*s) {
        size_t n = strcspn(s, ".");

        if (p->n_mods == 24 || n >= sizeof p->mods[0])
            ptx_fail(p, "unsupported instruction %s", p->text);
        memcpy(p->mods[p->n_mods], s, n);
        p->mods[p->n_mods++][n] = 0;
        s += n + (s[n] == '.');
    }
    p->used[0] = true;
}

/* name: .branchtargets a, b; or .callprototype ...; */
static void
list_directive(struct parser *p, const char *name)
{
    struct symbol *s;
    struct table  *t;

    if (!ptx_take(p, ".branchtargets")) {
        while (!ptx_is(p, ";") && p->t != END)  /* the functions themselves are checked when they are called */
            ptx_next(p);
        ptx_want(p, ";");
        return;
    }
    p->m->tables = ptx_grow(p, p->m->tables, (size_t)p->m->n_tables, sizeof *p->m->tables);
    t = &p->m->tables[p->m->n_tables++];
    *t = (struct table){0};
    do {
        t->target = ptx_grow(p, t->target, t->n, sizeof *t->target);
        ptx_fix(p, p->text, 0, true, (uint32_t)p->m->n_tables - 1, t->n++);
        ptx_next(p);
    } while (ptx_take(p, ","));
    ptx_want(p, ";");
    p->symbols = ptx_grow(p, p->symbols, (size_t)p->n_symbols, sizeof *p->symbols);
    s = &p->symbols[p->n_symbols++];
    *s = (struct symbol){.name = ptx_copy(p, name), .kind = SYM_TARGETS, .at = (uint32_t)p->m->n_tables - 1};
}

void
ptx_fix(struct parser *p, const char *label, uint32_t insn, bool in_table, uint32_t table, uint32_t row)
{
    p->fixups = ptx_grow(p, p->fixups, (size_t)p->n_fixups, sizeof *p->fixups);
    p->fixups[p->n_fixups++] =
        (struct fixup){ptx_copy(p, label), p->scopes[p->depth - 1], p->t_line, insn, table, row, in_table};
}

void
ptx_instruction(struct parser *p)
{
    void (*decode)(struct parser *) = NULL;
    bool carry;

    p->guard = NO_REF;
    p->guard_not = false;
    p->n_ops = 0;
    if (ptx_take(p, "@")) {
        p->guard_not = ptx_take(p, "!");
        ptx_operand_parse(p, &p->ops[0], false);
        if (p->ops[0].kind != O_REG || p->ops[0].width != 1)
            ptx_fail(p, "a predicate is wanted after @");
        p->guard = p->ops[0].reg;
    }
    if (p->t != WORD)
        ptx_fail(p, "an instruction is wanted, there is '%s'", p->text);
    p->at_line = p->t_line;
    p->mnemonic = ptx_copy(p, p->text);
    ptx_next(p);
    if (ptx_is(p, ":")) {
        char *name = p->mnemonic;

        ptx_next(p);
        if (p->t == WORD && *p->text == '.' && (ptx_is(p, ".branchtargets") || ptx_is(p, ".callprototype") ||
                                                ptx_is(p, ".calltargets"))) {
            list_directive(p, name);
            return;
        }
        p->labels = ptx_grow(p, p->labels, (size_t)p->n_labels, sizeof *p->labels);
        p->labels[p->n_labels++] = (struct label){name, p->scopes[p->depth - 1], p->m->n_code};
        return;
    }
    {
        char rest[sizeof p->text];

        strcpy(rest, p->text);
        strcpy(p->text, p->mnemonic);
        split_mnemonic(p);
        strcpy(p->text, rest);
    }
    if (!strcmp(p->mods[0], "call")) {
        decode_call(p);
        ptx_want(p, ";");
        return;
    }
    while (!ptx_is(p, ";")) {
        if (p->n_ops == 12)
            ptx_fail(p, "too many operands");
        p->ops[p->n_ops] = (struct operand){0};
        ptx_operand_parse(p, &p->ops[p->n_ops++], false);
        if (!ptx_take(p, ","))
            break;
    }
    if (!ptx_is(p, ";"))
        ptx_fail(p, "';' is wanted, there is '%s'", p->text);
    carry = p->n_mods > 2 && (!strcmp(p->mods[1], "cc") || !strcmp(p->mods[2], "cc"));
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].name, p->mods[0]))
            decode = families[i].decode;
    (carry ? decode_carry : decode ? decode : arithmetic)(p);
    ptx_next(p);
}
