/* backends/ref/micro_eval.c -- micro code (jit/micro.h) interpreted, one element at a time. */
#include "backends/ref/ref.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

/* A value is kept as its bits; these go back and forth for one C type. */
#define VALUE(suffix, ctype)                                                                       \
    static inline ctype get_##suffix(uint64_t bits)                                                \
    {                                                                                              \
        ctype v;                                                                                   \
        memcpy(&v, &bits, sizeof v);                                                               \
        return v;                                                                                  \
    }                                                                                              \
    static inline uint64_t put_##suffix(ctype v)                                                   \
    {                                                                                              \
        uint64_t bits = 0;                                                                         \
        memcpy(&bits, &v, sizeof v);                                                               \
        return bits;                                                                               \
    }
VALUE(I8, int8_t) VALUE(I16, int16_t) VALUE(I32, int32_t) VALUE(I64, int64_t)
VALUE(U8, uint8_t) VALUE(U16, uint16_t) VALUE(U32, uint32_t) VALUE(U64, uint64_t)
VALUE(F32, float) VALUE(F64, double)
#undef VALUE

#define INT_TYPES(T) T(I8) T(I16) T(I32) T(I64) T(U8) T(U16) T(U32) T(U64)

/* Integers wrap, so they are computed unsigned in 64 bits and cut to their width. */
static uint64_t
cut(fr_dtype type, uint64_t v)
{
    int n = 8 * fr_dtype_size(type);

    if (type == FR_BOOL)
        return v & 1;
    return n == 64 ? v : v & ((1ull << n) - 1);
}

static int64_t
as_signed(fr_dtype type, uint64_t bits)
{
    switch (type) {
#define T(t) case FR_##t: return (int64_t)get_##t(bits);
    INT_TYPES(T)
#undef T
    default: return (int64_t)bits;
    }
}

static uint64_t
eval_int(enum fr_mop op, fr_dtype type, uint64_t a, uint64_t b)
{
    bool    is_signed = fr_dtype_kind(type) == 'i';
    int64_t sa = as_signed(type, a), sb = as_signed(type, b);

    switch (op) {
    case FR_M_ADD: return a + b;
    case FR_M_SUB: return a - b;
    case FR_M_MUL: return a * b;
    case FR_M_NEG: return 0 - a;
    case FR_M_AND: return a & b;
    case FR_M_OR: return a | b;
    case FR_M_XOR: return a ^ b;
    case FR_M_NOT: return ~a;
    case FR_M_SHL: return a << b;
    case FR_M_SHR: return is_signed ? (uint64_t)(sa >> b) : a >> b;
    case FR_M_IDIV: return is_signed ? (uint64_t)(sa / sb) : a / b;
    case FR_M_IREM: return is_signed ? (uint64_t)(sa % sb) : a % b;
    case FR_M_MULHI: return (a * b) >> 32;
    case FR_M_ABS: return sa < 0 ? 0 - a : a;
    default: FR_ASSERT(!"an integer instruction"); return 0;
    }
}

#define EVAL_FLOAT(suffix, ctype, f)                                                               \
    static uint64_t eval_##suffix(enum fr_mop op, ctype a, ctype b, ctype c)                       \
    {                                                                                              \
        switch (op) {                                                                              \
        case FR_M_ADD: return put_##suffix(a + b);                                                 \
        case FR_M_SUB: return put_##suffix(a - b);                                                 \
        case FR_M_MUL: return put_##suffix(a * b);                                                 \
        case FR_M_DIV:                                                                             \
        case FR_M_DIVFEW:                                                                          \
        case FR_M_DIVBY: return put_##suffix(a / b);                                               \
        case FR_M_NEG: return put_##suffix(-a);                                                    \
        case FR_M_FMA: return put_##suffix(fma##f(a, b, c));                                       \
        case FR_M_FMOD: return put_##suffix(fmod##f(a, b));                                        \
        case FR_M_SQRT: return put_##suffix(sqrt##f(a));                                           \
        case FR_M_ABS: return put_##suffix(fabs##f(a));                                            \
        case FR_M_FLOOR: return put_##suffix(floor##f(a));                                         \
        case FR_M_CEIL: return put_##suffix(ceil##f(a));                                           \
        case FR_M_TRUNC: return put_##suffix(trunc##f(a));                                         \
        case FR_M_RINT: return put_##suffix(rint##f(a));                                           \
        default: FR_ASSERT(!"a float instruction"); return 0;                                      \
        }                                                                                          \
    }
EVAL_FLOAT(F32, float, f)
EVAL_FLOAT(F64, double, )
#undef EVAL_FLOAT

#define COMPARE(op, a, b)                                                                          \
    ((op) == FR_M_EQ ? (a) == (b) : (op) == FR_M_NE ? (a) != (b) : (op) == FR_M_LT ? (a) < (b)     \
                                                                                  : (a) <= (b))

static bool
compare(enum fr_mop op, fr_dtype type, uint64_t a, uint64_t b)
{
    if (type == FR_F32)
        return COMPARE(op, get_F32(a), get_F32(b));
    if (type == FR_F64)
        return COMPARE(op, get_F64(a), get_F64(b));
    if (fr_dtype_kind(type) == 'i')
        return COMPARE(op, as_signed(type, a), as_signed(type, b));
    return COMPARE(op, a, b);
}

/* As the instructions of x86-64, of which there are two: what is out of range is the smallest integer, and raises a flag. */
static int64_t
truncate_float(double v, fr_dtype to)
{
    bool   is_long = to == FR_I64 || to == FR_U64 || to == FR_U32;
    double limit = is_long ? 0x1p63 : 0x1p31;

    if (v >= -limit && v < limit)
        return (int64_t)v;
    feraiseexcept(FE_INVALID);
    return is_long ? INT64_MIN : INT32_MIN;
}

static uint64_t
convert(fr_dtype from, fr_dtype to, uint64_t v)
{
    bool is_signed = fr_dtype_kind(from) == 'i';

    if (fr_dtype_is_float(from)) {
        double d = from == FR_F32 ? (double)get_F32(v) : get_F64(v);

        if (to == FR_F32)
            return put_F32(from == FR_F32 ? get_F32(v) : (float)d);
        if (to == FR_F64)
            return put_F64(d);
        if (to == FR_BOOL)
            return d != 0;
        if (to == FR_U64 && d >= 0x1p63)
            return d < 0x1p64 ? (uint64_t)d : 0;
        return (uint64_t)truncate_float(d, to);
    }
    if (to == FR_F32)
        return put_F32(is_signed ? (float)as_signed(from, v) : (float)v);
    if (to == FR_F64)
        return put_F64(is_signed ? (double)as_signed(from, v) : (double)v);
    if (to == FR_BOOL)
        return v != 0;
    return is_signed ? (uint64_t)as_signed(from, v) : v;
}

void
fr_micro_eval(const struct fr_mcode *code, const uint64_t *inputs, uint64_t *values)
{
    if (code->n)
        values[0] = 0; /* read in vain by instructions without arguments */
    for (size_t i = 0; i < code->n; i++) {
        const struct fr_minst *in = &code->inst[i];
        uint64_t               a = values[in->a], b = values[in->b], c = values[in->c], r;
        fr_dtype               from = code->inst[in->a].type;

        switch (in->op) {
        case FR_M_INPUT: r = inputs[in->imm]; break;
        case FR_M_CONST: r = in->imm; break;
        case FR_M_EQ:
        case FR_M_NE:
        case FR_M_LT:
        case FR_M_LE: r = compare(in->op, from, a, b); break;
        case FR_M_SELECT:
        case FR_M_RARE: r = a ? b : c; break;
        case FR_M_CVT: r = convert(from, in->type, a); break;
        case FR_M_BITCAST: r = a; break;
        default:
            if (in->type == FR_F32)
                r = eval_F32(in->op, get_F32(a), get_F32(b), get_F32(c));
            else if (in->type == FR_F64)
                r = eval_F64(in->op, get_F64(a), get_F64(b), get_F64(c));
            else
                r = eval_int(in->op, in->type, a, b);
            break;
        }
        values[i] = cut(in->type, r);
    }
}
