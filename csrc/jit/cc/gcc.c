#include "jit/cc/gcc.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

void
fr_gcc_init(struct fr_gcc *c, const struct fr_gccjit *g, gj_context *ctxt)
{
    *c = (struct fr_gcc){.g = g, .ctxt = ctxt};
    c->t_void = g->context_get_type(ctxt, GJ_VOID);
    c->t_bool = g->context_get_type(ctxt, GJ_BOOL);
    c->t_i64 = g->context_get_int_type(ctxt, 8, 1);
    c->t_bytes = g->type_get_pointer(g->context_get_type(ctxt, GJ_CHAR));
    for (int d = 0; d < FR_N_DTYPES; d++) {
        fr_dtype part = fr_dtype_info[d].component;

        if (part == FR_F32 || part == FR_F64)
            c->memory[d] = g->context_get_type(ctxt, part == FR_F32 ? GJ_FLOAT : GJ_DOUBLE);
        else
            c->memory[d] = g->context_get_int_type(ctxt, fr_dtype_size(part), fr_dtype_kind((fr_dtype)d) == 'i');
    }
}

void
fr_gcc_clear(struct fr_gcc *c)
{
    fr_mcode_clear(&c->code);
    fr_free(c->vals);
    c->vals = NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static gj_type *machine_type(struct fr_gcc *c, fr_dtype d) { return d == FR_BOOL ? c->t_bool : c->memory[d]; }

gj_rvalue *
fr_gcc_bits(struct fr_gcc *c, fr_dtype d, uint64_t bits)
{
    if (d == FR_BOOL)
        return fr_gcc_cast(c, fr_gcc_int(c, fr_gcc_int_type(c, 4), bits != 0), c->t_bool);
    if (fr_dtype_is_float(d)) /* through the integer: exact for infinities and NaNs too */
        return c->g->context_new_bitcast(
            c->ctxt, NULL, fr_gcc_int(c, fr_gcc_int_type(c, fr_dtype_size(d)), (int64_t)bits),
            c->memory[d]);
    return fr_gcc_int(c, c->memory[d], (int64_t)bits);
}

gj_lvalue *
fr_gcc_array(struct fr_gcc *c, gj_type *type, int n)
{
    gj_lvalue *a = fr_gcc_var(c, c->g->context_new_array_type(c->ctxt, NULL, type, n));

    if (c->g->lvalue_set_alignment)
        c->g->lvalue_set_alignment(a, 64);
    return a;
}

/* By address: of an operand in memory GCC takes it that it may be any array that there is, and makes no vectors of the
 * loop before it where that has many. The address comes out again, for without an output libgccjit crashes (GCC 12). */
void
fr_gcc_set_nontemporal(struct fr_gcc *c, int n_bytes, gj_lvalue *to, gj_rvalue *v)
{
    gj_lvalue *at = fr_gcc_var(c, c->t_bytes), *same = fr_gcc_var(c, c->t_bytes);
    gj_asm    *a;

    fr_gcc_set(c, at, fr_gcc_address(c, to));
    a = c->g->block_add_extended_asm(c->at, NULL, n_bytes > 16 ? "vmovntps %2, (%0)" : "movntps %2, (%0)");
    c->g->extended_asm_add_output_operand(a, NULL, "=r", same);
    c->g->extended_asm_add_input_operand(a, NULL, "0", fr_gcc_get(c, at));
    c->g->extended_asm_add_input_operand(a, NULL, n_bytes > 32 ? "v" : "x", v);
    c->g->extended_asm_set_volatile_flag(a, 1);
    c->g->extended_asm_add_clobber(a, "memory");
}

void
fr_gcc_fence(struct fr_gcc *c)
{
    c->g->extended_asm_set_volatile_flag(c->g->block_add_extended_asm(c->at, NULL, "sfence"), 1);
}

void
fr_gcc_convert_vector(struct fr_gcc *c, const char *instruction, gj_lvalue *to, gj_rvalue *from)
{
    char    text[40];
    gj_asm *a;

    snprintf(text, sizeof text, "%s %%1, %%0", instruction);
    a = c->g->block_add_extended_asm(c->at, NULL, text);
    c->g->extended_asm_add_output_operand(a, NULL, "=v", to);
    c->g->extended_asm_add_input_operand(a, NULL, "v", from);
}

gj_lvalue *
fr_gcc_opaque(struct fr_gcc *c, gj_type *vector, gj_rvalue *v)
{
    gj_lvalue *from = fr_gcc_var(c, vector), *to = fr_gcc_var(c, vector);
    gj_asm    *a;

    fr_gcc_set(c, from, v);
    if (!FR_GCC_NONTEMPORAL)
        return from;
    a = c->g->block_add_extended_asm(c->at, NULL, "");
    c->g->extended_asm_add_output_operand(a, NULL, "=v", to);
    c->g->extended_asm_add_input_operand(a, NULL, "0", fr_gcc_get(c, from));
    return to;
}

gj_rvalue *
fr_gcc_lane(struct fr_gcc *c, gj_type *type, gj_lvalue *v, int lane)
{
    return fr_gcc_get(c, fr_gcc_at(c, type, fr_gcc_address(c, v), fr_gcc_i64(c, lane)));
}

void
fr_gcc_prefetch(struct fr_gcc *c, gj_rvalue *at, int locality)
{
    gj_function *f = c->g->context_get_builtin_function(c->ctxt, "__builtin_prefetch");
    gj_type     *t_int = c->g->context_get_int_type(c->ctxt, (int)sizeof(int), 1);
    gj_rvalue   *args[] = {fr_gcc_cast(c, at, c->g->type_get_pointer(c->t_void)),
                           c->g->context_new_rvalue_from_long(c->ctxt, t_int, 0),
                           c->g->context_new_rvalue_from_long(c->ctxt, t_int, locality)};

    c->g->block_add_eval(c->at, NULL, c->g->context_new_call(c->ctxt, NULL, f, 3, args));
}

gj_rvalue *
fr_gcc_keep(struct fr_gcc *c, gj_type *type, gj_rvalue *v)
{
    gj_lvalue *to = fr_gcc_var(c, type);

    fr_gcc_set(c, to, v);
    return fr_gcc_get(c, to);
}

gj_rvalue *
fr_gcc_not(struct fr_gcc *c, gj_rvalue *a)
{
    return fr_gcc_bin(c, GJ_XOR, c->t_bool, a, fr_gcc_bits(c, FR_BOOL, 1));
}

/* Where two ways join, the vectoriser makes one blend, or finds the instruction for the smaller of two integers; of masks
 * it makes up to four instructions. */
gj_rvalue *
fr_gcc_select(struct fr_gcc *c, fr_dtype d, gj_rvalue *cond, gj_rvalue *yes, gj_rvalue *no)
{
    gj_type   *type = c->memory[d];
    gj_block  *other, *done;
    gj_lvalue *v;

    if (d == FR_BOOL)
        return fr_gcc_or(c, fr_gcc_and(c, cond, yes), fr_gcc_and(c, fr_gcc_not(c, cond), no));
    other = fr_gcc_block(c);
    done = fr_gcc_block(c);
    v = fr_gcc_var(c, type);
    no = fr_gcc_keep(c, type, fr_gcc_cast(c, no, type));
    fr_gcc_set(c, v, fr_gcc_cast(c, yes, type));
    fr_gcc_branch(c, cond, done, other);
    c->at = other;
    fr_gcc_set(c, v, no);
    fr_gcc_jump(c, done);
    return fr_gcc_get(c, v);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static gj_rvalue *
next(struct fr_gcc *c, gj_rvalue *i)
{
    return fr_gcc_bin(c, GJ_PLUS, c->t_i64, i, fr_gcc_i64(c, 1));
}

struct fr_gval
fr_gcc_load(struct fr_gcc *c, fr_dtype d, gj_rvalue *base, gj_rvalue *i)
{
    gj_type       *type = c->memory[d];
    struct fr_gval v = {.re = fr_gcc_keep(c, type, fr_gcc_get(c, fr_gcc_at(c, type, base, i)))};

    if (d == FR_BOOL)
        v.re = fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_NE, v.re, fr_gcc_int(c, type, 0)));
    if (fr_dtype_is_complex(d))
        v.im = fr_gcc_keep(c, type, fr_gcc_get(c, fr_gcc_at(c, type, base, next(c, i))));
    return v;
}

void
fr_gcc_store(struct fr_gcc *c, fr_dtype d, gj_rvalue *base, gj_rvalue *i, struct fr_gval v)
{
    gj_type *type = c->memory[d];

    fr_gcc_set(c, fr_gcc_at(c, type, base, i), d == FR_BOOL ? fr_gcc_cast(c, v.re, type) : v.re);
    if (fr_dtype_is_complex(d))
        fr_gcc_set(c, fr_gcc_at(c, type, base, next(c, i)), v.im);
}

/* ---- control --------------------------------------------------------------------------------- */

void
fr_gcc_jump(struct fr_gcc *c, gj_block *to)
{
    fr_gcc_end(c, to);
    c->at = to;
}

struct fr_gcc_loop
fr_gcc_for(struct fr_gcc *c, gj_rvalue *from, gj_rvalue *to, bool plain)
{
    struct fr_gcc_loop l = {fr_gcc_var(c, c->t_i64), fr_gcc_block(c), fr_gcc_block(c)};
    gj_block          *body = fr_gcc_block(c);

    fr_gcc_set(c, l.i, from);
    fr_gcc_jump(c, l.head);
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LT, fr_gcc_get(c, l.i), to), body, l.done);
    c->at = body;
    if (plain)
        c->g->extended_asm_set_volatile_flag(c->g->block_add_extended_asm(body, NULL, ""), 1);
    return l;
}

void
fr_gcc_end_for(struct fr_gcc *c, struct fr_gcc_loop l)
{
    fr_gcc_set(c, l.i, next(c, fr_gcc_get(c, l.i)));
    fr_gcc_end(c, l.head);
    c->at = l.done;
}

/* ---- micro code ------------------------------------------------------------------------------ */

static gj_rvalue *
call(struct fr_gcc *c, fr_dtype d, const char *name_f32, const char *name_f64, int n, gj_rvalue **args)
{
    gj_function *f = c->g->context_get_builtin_function(c->ctxt, d == FR_F32 ? name_f32 : name_f64);

    return c->g->context_new_call(c->ctxt, NULL, f, n, args);
}

/* fmod of the C library. The built-in one is a loop of x87 instructions, which is slow where the quotient is long. */
static gj_rvalue *
call_fmod(struct fr_gcc *c, fr_dtype d, gj_rvalue **args)
{
    gj_type *type = machine_type(c, d);

    if (!c->fmod[d == FR_F64]) {
        gj_param *p[] = {c->g->context_new_param(c->ctxt, NULL, type, "x"),
                         c->g->context_new_param(c->ctxt, NULL, type, "y")};
        c->fmod[d == FR_F64] = c->g->context_new_function(c->ctxt, NULL, GJ_FUNCTION_IMPORTED, type,
                                                          d == FR_F32 ? "fmodf" : "fmod", 2, p, 0);
    }
    return c->g->context_new_call(c->ctxt, NULL, c->fmod[d == FR_F64], 2, args);
}

static gj_rvalue *
unary(struct fr_gcc *c, int op, fr_dtype d, gj_rvalue *a)
{
    return c->g->context_new_unary_op(c->ctxt, NULL, op, machine_type(c, d), a);
}

/* A float with its sign flipped or cleared, through its bits.  To GCC the sign of a NaN means
 * nothing: it makes b - a of -a + b and a * a of fabs(a) * fabs(a), where a NaN has the other
 * sign. */
static gj_rvalue *
change_sign(struct fr_gcc *c, enum fr_mop op, fr_dtype d, gj_rvalue *x)
{
    fr_dtype   bits = d == FR_F32 ? FR_I32 : FR_I64;
    gj_type   *type = c->memory[bits];
    gj_rvalue *sign = fr_gcc_bits(c, bits, d == FR_F32 ? 1ull << 31 : 1ull << 63);
    gj_rvalue *rest = fr_gcc_bits(c, bits, d == FR_F32 ? INT32_MAX : INT64_MAX);

    x = c->g->context_new_bitcast(c->ctxt, NULL, x, type);
    x = op == FR_M_NEG ? fr_gcc_bin(c, GJ_XOR, type, x, sign)
                       : fr_gcc_bin(c, GJ_AND, type, x, rest);
    return c->g->context_new_bitcast(c->ctxt, NULL, fr_gcc_keep(c, type, x), c->memory[d]);
}

/* An operand of fma. Only a negation that GCC can see becomes part of the instruction, as it does
 * in the block kernels. */
static gj_rvalue *
fma_operand(struct fr_gcc *c, fr_dtype d, gj_rvalue *const *vals, fr_mval v)
{
    const struct fr_minst *in = &c->code.inst[v];

    return in->op == FR_M_NEG ? unary(c, GJ_MINUS, d, vals[in->a]) : vals[v];
}

static gj_rvalue *
value_conversion(struct fr_gcc *c, fr_dtype from, fr_dtype to, gj_rvalue *v)
{
    if (from == to)
        return v;
    if (to == FR_BOOL)
        return fr_gcc_cmp(c, GJ_NE, v, fr_gcc_bits(c, from, 0));
    if (from == FR_BOOL && fr_dtype_is_float(to))
        v = fr_gcc_cast(c, v, fr_gcc_int_type(c, fr_dtype_size(to)));
    return fr_gcc_cast(c, v, c->memory[to]);
}

static gj_rvalue *
one_of(struct fr_gcc *c, fr_dtype d)
{
    return fr_gcc_bits(c, d, d == FR_F32 ? 0x3f800000 : 0x3ffull << 52);
}

/* a / b by its inverse: see the helpers of jit/emit_text.c. */
static gj_rvalue *
divide_by(struct fr_gcc *c, fr_dtype d, gj_rvalue *a, gj_rvalue *b, gj_rvalue *inverse)
{
    gj_type   *type = c->memory[d];
    gj_rvalue *q, *x[3];

    if (!c->has_fma)
        return fr_gcc_bin(c, GJ_DIVIDE, type, a, b);
    q = fr_gcc_keep(c, type, fr_gcc_bin(c, GJ_MULT, type, a, inverse));
    memcpy(x, (gj_rvalue *[]){unary(c, GJ_MINUS, d, q), b, a}, sizeof x);
    x[0] = fr_gcc_keep(c, type, call(c, d, "__builtin_fmaf", "__builtin_fma", 3, x));
    x[1] = inverse;
    x[2] = q;
    return call(c, d, "__builtin_fmaf", "__builtin_fma", 3, x);
}

/* The same of so few digits that two products are enough; GCC makes the second factor once for a row. */
static gj_rvalue *
divide_few(struct fr_gcc *c, fr_dtype d, gj_rvalue *a, gj_rvalue *b, gj_rvalue *inverse)
{
    gj_type   *type = c->memory[d];
    gj_rvalue *x[3], *low;

    if (!c->has_fma)
        return fr_gcc_bin(c, GJ_DIVIDE, type, a, b);
    x[0] = unary(c, GJ_MINUS, d, b);
    x[1] = inverse;
    x[2] = one_of(c, d);
    low = fr_gcc_keep(c, type, call(c, d, "__builtin_fmaf", "__builtin_fma", 3, x));
    low = fr_gcc_keep(c, type, fr_gcc_bin(c, GJ_MULT, type, low, inverse));
    x[0] = a;
    x[2] = fr_gcc_keep(c, type, fr_gcc_bin(c, GJ_MULT, type, a, low));
    return call(c, d, "__builtin_fmaf", "__builtin_fma", 3, x);
}

static gj_rvalue *
high_half(struct fr_gcc *c, gj_rvalue *a, gj_rvalue *b)
{
    gj_type   *wide = c->memory[FR_U64];
    gj_rvalue *p = fr_gcc_bin(c, GJ_MULT, wide, fr_gcc_cast(c, a, wide), fr_gcc_cast(c, b, wide));

    return fr_gcc_cast(c, fr_gcc_bin(c, GJ_RSHIFT, wide, p, fr_gcc_int(c, wide, 32)), c->memory[FR_U32]);
}

/* rint is the only rounding that libgccjit vectorises for x86-64; the others correct it by one. The
 * sign is that of the argument in each case (ceil(-0.7) is -0.0). */
static gj_rvalue *
round_to(struct fr_gcc *c, enum fr_mop op, fr_dtype d, gj_rvalue *x)
{
    fr_dtype   bits = d == FR_F32 ? FR_I32 : FR_I64;
    gj_type   *type = c->memory[d], *int_type = c->memory[bits];
    gj_rvalue *sign = fr_gcc_bits(c, bits, d == FR_F32 ? 1ull << 31 : 1ull << 63);
    gj_rvalue *one = one_of(c, d), *r, *off, *fixed;
    gj_rvalue *from = x;

    if (op == FR_M_TRUNC)
        from = fr_gcc_keep(c, type, call(c, d, "__builtin_fabsf", "__builtin_fabs", 1, &x));
    r = fr_gcc_keep(c, type, call(c, d, "__builtin_rintf", "__builtin_rint", 1, &from));
    off = fr_gcc_keep_bool(c, fr_gcc_cmp(c, op == FR_M_CEIL ? GJ_LT : GJ_GT, r, from));
    fixed = fr_gcc_bin(c, op == FR_M_CEIL ? GJ_PLUS : GJ_SUB, type, r, one);
    r = fr_gcc_select(c, d, off, fr_gcc_keep(c, type, fixed), r);
    r = c->g->context_new_bitcast(c->ctxt, NULL, fr_gcc_keep(c, type, r), int_type);
    x = c->g->context_new_bitcast(c->ctxt, NULL, x, int_type);
    r = fr_gcc_bin(c, GJ_OR, int_type, r, fr_gcc_bin(c, GJ_AND, int_type, x, sign));
    return c->g->context_new_bitcast(c->ctxt, NULL, fr_gcc_keep(c, int_type, r), type);
}

/* The usual side, and a note if this element wants the other one. */
static gj_rvalue *
usual_value(struct fr_gcc *c, const struct fr_minst *in, gj_rvalue *const *vals)
{
    const struct fr_minst *cond = &c->code.inst[in->a];
    int                    size = fr_dtype_size(c->code.inst[cond->a].type);
    gj_type               *type = fr_gcc_int_type(c, size);
    gj_lvalue             *note = c->rare[size];

    fr_gcc_set(c, note, fr_gcc_bin(c, GJ_OR, type, fr_gcc_get(c, note), fr_gcc_cast(c, vals[in->a], type)));
    return vals[in->c];
}

static gj_rvalue *
expand(struct fr_gcc *c, const struct fr_minst *in, gj_rvalue *const *vals, const struct fr_gval *args)
{
    enum { BINARY = 1, COMPARES };
    static const struct {
        uint8_t kind, gj;
    } plain[FR_N_MOPS] = {
        [FR_M_ADD] = {BINARY, GJ_PLUS},   [FR_M_SUB] = {BINARY, GJ_SUB},     [FR_M_MUL] = {BINARY, GJ_MULT},
        [FR_M_DIV] = {BINARY, GJ_DIVIDE}, [FR_M_IDIV] = {BINARY, GJ_DIVIDE}, [FR_M_IREM] = {BINARY, GJ_MODULO},
        [FR_M_AND] = {BINARY, GJ_AND},    [FR_M_OR] = {BINARY, GJ_OR},       [FR_M_XOR] = {BINARY, GJ_XOR},
        [FR_M_SHL] = {BINARY, GJ_LSHIFT}, [FR_M_SHR] = {BINARY, GJ_RSHIFT},  [FR_M_EQ] = {COMPARES, GJ_EQ},
        [FR_M_NE] = {COMPARES, GJ_NE},    [FR_M_LT] = {COMPARES, GJ_LT},     [FR_M_LE] = {COMPARES, GJ_LE},
    };
    const fr_dtype d = in->type;
    gj_rvalue     *x[3] = {vals[in->a], vals[in->b], vals[in->c]};
    fr_dtype       from = c->code.inst[in->a].type;

    c->needs_libm |= in->op == FR_M_FMOD || (in->op == FR_M_FMA && !c->has_fma);
    if (plain[in->op].kind == BINARY)
        return fr_gcc_bin(c, plain[in->op].gj, machine_type(c, d), x[0], x[1]);
    if (plain[in->op].kind == COMPARES)
        return fr_gcc_cmp(c, plain[in->op].gj, x[0], x[1]);
    switch ((enum fr_mop)in->op) {
    case FR_M_INPUT:
        if ((d == FR_F32 || d == FR_I32) && args[in->imm / 2].wide)
            return args[in->imm / 2].wide;
        return in->imm & 1 ? args[in->imm / 2].im : args[in->imm / 2].re;
    case FR_M_CONST: return fr_gcc_bits(c, d, in->imm);
    case FR_M_NEG: return fr_dtype_is_float(d) ? change_sign(c, FR_M_NEG, d, x[0]) : unary(c, GJ_MINUS, d, x[0]);
    case FR_M_NOT: return d == FR_BOOL ? fr_gcc_not(c, x[0]) : unary(c, GJ_BITWISE_NEGATE, d, x[0]);
    case FR_M_FMA:
        for (int k = 0; k < 3; k++)
            x[k] = fma_operand(c, d, vals, (fr_mval[]){in->a, in->b, in->c}[k]);
        return call(c, d, "__builtin_fmaf", "__builtin_fma", 3, x);
    case FR_M_DIVBY: return divide_by(c, d, x[0], x[1], x[2]);
    case FR_M_DIVFEW: return divide_few(c, d, x[0], x[1], x[2]);
    case FR_M_FMOD: return call_fmod(c, d, x);
    case FR_M_SQRT: return call(c, d, "__builtin_sqrtf", "__builtin_sqrt", 1, x);
    case FR_M_ABS: return change_sign(c, FR_M_ABS, d, x[0]);
    case FR_M_FLOOR:
    case FR_M_CEIL:
    case FR_M_TRUNC: return round_to(c, in->op, d, x[0]);
    case FR_M_RINT: return call(c, d, "__builtin_rintf", "__builtin_rint", 1, x);
    case FR_M_MULHI: return high_half(c, x[0], x[1]);
    case FR_M_RARE: return c->usual ? usual_value(c, in, vals) : fr_gcc_select(c, d, x[0], x[1], x[2]);
    case FR_M_SELECT: return fr_gcc_select(c, d, x[0], x[1], x[2]);
    case FR_M_CVT: return value_conversion(c, from, d, x[0]);
    case FR_M_BITCAST: return c->g->context_new_bitcast(c->ctxt, NULL, x[0], c->memory[d]);
    default: break;
    }
    c->st = FR_ENOTSUP;
    return x[0];
}

/* What a recipe gives: the value, and for half precision what `wide` and `exact` are, or NONE. */
struct given {
    struct fr_mnum r;
    fr_mval        wide, exact;
};
enum { NONE = UINT16_MAX };

/* Writes the code that a recipe has left in c->code for `n` elements, each instruction for all of
 * them before the next one. */
static void
flush(struct fr_gcc *c, fr_status st, fr_dtype result, struct given given, int n,
      const struct fr_gargs *args, struct fr_gval *out)
{
    struct fr_mnum r = given.r;
    size_t   len = c->code.n;
    uint8_t *needed = NULL;

    memset(out, 0, (size_t)n * sizeof *out);
    if (st == FR_OK && c->code.st != FR_OK)
        st = c->code.st;
    if (st == FR_OK && (!FR_GROW(c->vals, c->vals_cap, (size_t)n * len) ||
                        !(needed = fr_calloc(len, sizeof *needed))))
        st = FR_ENOMEM;
    if (st != FR_OK) {
        c->st = st;
        return;
    }
    needed[r.re] = needed[fr_dtype_is_complex(result) ? r.im : r.re] = 1;
    if (given.wide != NONE)
        needed[given.wide] = 1;
    if (given.exact != NONE)
        needed[given.exact] = 1;
    fr_m_needed(&c->code, c->usual ? FR_SIDES_NOTED : FR_SIDES_ALL, needed);
    for (size_t i = 0; i < len; i++) {
        const struct fr_minst *in = &c->code.inst[i];

        for (int u = 0; u < n && needed[i]; u++) {
            gj_rvalue **vals = c->vals + (size_t)u * len;

            vals[i] = expand(c, in, vals, args[u].x);
            if (in->op != FR_M_INPUT && in->op != FR_M_CONST)
                vals[i] = fr_gcc_keep(c, machine_type(c, in->type), vals[i]);
        }
    }
    for (int u = 0; u < n; u++) {
        out[u].re = c->vals[(size_t)u * len + r.re];
        if (fr_dtype_is_complex(result))
            out[u].im = c->vals[(size_t)u * len + r.im];
        if (given.wide != NONE)
            out[u].wide = c->vals[(size_t)u * len + given.wide];
        if (given.exact != NONE)
            out[u].exact = c->vals[(size_t)u * len + given.exact];
    }
    fr_free(needed);
}

/* The 16 bits, and both floats; what nobody reads GCC leaves out. */
static fr_status
give_half(struct fr_gcc *c, struct fr_mnum exact, struct given *given)
{
    given->exact = exact.re;
    given->wide = fr_recipe_round_half(&c->code, exact.re);
    return fr_recipe_cast(&c->code, FR_F32, FR_F16, exact, &given->r);
}

static bool
all_wide(int n, const struct fr_gargs *args, int k)
{
    for (int u = 0; u < n; u++)
        if (!args[u].x[k].wide)
            return false;
    return true;
}

/* Whether argument k was computed: its NaNs are quiet, as the processor's widening leaves them. */
static bool
all_computed(int n, const struct fr_gargs *args, int k)
{
    for (int u = 0; u < n; u++)
        if (!args[u].x[k].exact)
            return false;
    return all_wide(n, args, k);
}

/* The same of floats, beside the bits, of an operation that hands on one of its arguments: if those are floats. */
static fr_status
give_moved(struct fr_gcc *c, fr_op op, int n, const struct fr_gargs *args, struct given *given)
{
    struct fr_mnum x[3] = {{0, 0}}, moved;
    bool           computed = true;
    fr_status      st;

    for (int k = 0; k < fr_op_info[op].arity; k++) {
        const fr_dtype d = fr_op_arg(op, k, FR_F16);

        if (d == FR_F16 && !all_wide(n, args, k))
            return FR_OK;
        computed &= d != FR_F16 || all_computed(n, args, k);
        x[k] = fr_m_number(&c->code, FR_M_INPUT, d == FR_F16 ? FR_F32 : d, k);
    }
    st = fr_recipe_half(&c->code, op, x, &moved);
    given->wide = moved.re;
    given->exact = computed ? moved.re : NONE;
    return st;
}

void
fr_gcc_ops(struct fr_gcc *c, fr_op op, fr_dtype in, int n, const struct fr_gargs *args, struct fr_gval *out)
{
    const enum fr_half_use use = c->has_f16c && in == FR_F16 ? fr_recipe_half_use(op) : FR_HALF_BITS;
    struct fr_mnum         x[3] = {{0, 0}}, exact;
    struct given           given = {{0, 0}, NONE, NONE};
    fr_status              st;

    c->code.n = 0;
    for (int k = 0; k < fr_op_info[op].arity; k++) {
        fr_dtype d = fr_op_arg(op, k, in);

        if ((use == FR_HALF_ROUNDED || use == FR_HALF_READ) && d == FR_F16 && all_wide(n, args, k))
            d = FR_F32;
        x[k] = fr_m_number(&c->code, FR_M_INPUT, d, k);
    }
    switch (use) {
    case FR_HALF_ROUNDED:
        if ((st = fr_recipe_half(&c->code, op, x, &exact)) == FR_OK)
            st = give_half(c, exact, &given);
        break;
    case FR_HALF_READ:
        st = fr_recipe_half(&c->code, op, x, &given.r);
        break;
    default:
        if ((st = fr_recipe_op(&c->code, op, in, x, &given.r)) == FR_OK && use == FR_HALF_MOVED)
            st = give_moved(c, op, n, args, &given);
    }
    flush(c, st, fr_op_result(op, in), given, n, args, out);
}

void
fr_gcc_casts(struct fr_gcc *c, fr_dtype from, fr_dtype to, int n, const struct fr_gargs *args, struct fr_gval *out)
{
    struct fr_mnum x;
    struct given   given = {{0, 0}, NONE, NONE};
    fr_status      st;

    c->code.n = 0;
    if (from == FR_F16 && (to == FR_F32 || to == FR_F64) && all_computed(n, args, 0))
        from = FR_F32;
    if (fr_dtype_is_int(from) && fr_dtype_size(from) < 4 && fr_gcc_keeps_word(to) && all_wide(n, args, 0))
        from = FR_I32;
    x = fr_m_number(&c->code, FR_M_INPUT, from, 0);
    if (c->has_f16c && from == FR_F32 && to == FR_F16)
        st = give_half(c, x, &given);
    else
        st = fr_recipe_cast(&c->code, from, to, x, &given.r);
    flush(c, st, to, given, n, args, out);
}

struct fr_gval
fr_gcc_op(struct fr_gcc *c, fr_op op, fr_dtype in, const struct fr_gval *args)
{
    struct fr_gargs all = {{{.re = NULL}}};
    struct fr_gval  v;

    memcpy(all.x, args, (size_t)fr_op_info[op].arity * sizeof *args);
    fr_gcc_ops(c, op, in, 1, &all, &v);
    return v;
}

struct fr_gval
fr_gcc_convert(struct fr_gcc *c, fr_dtype from, fr_dtype to, struct fr_gval v)
{
    if (from != to)
        fr_gcc_casts(c, from, to, 1, &(struct fr_gargs){{v}}, &v);
    return v;
}
