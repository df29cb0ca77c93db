/* jit/build.h -- short spellings for writing recipes: each returns the value it appends.
 * The type of an operation is its first argument's, unless it is named. Private to recipe_*.c. */
#ifndef FR_JIT_BUILD_H
#define FR_JIT_BUILD_H

#include <string.h>

#include "jit/micro.h"

typedef struct fr_mcode *code_t;

static inline fr_dtype m_type(code_t c, fr_mval v) { return c->n > v ? c->inst[v].type : FR_BOOL; }

#define M_UNARY(name, OP)                                                                          \
    static inline fr_mval m_##name(code_t c, fr_mval a)                                            \
    {                                                                                              \
        return fr_m_emit(c, FR_M_##OP, m_type(c, a), a, 0, 0, 0);                                  \
    }
#define M_BINARY(name, OP)                                                                         \
    static inline fr_mval m_##name(code_t c, fr_mval a, fr_mval b)                                 \
    {                                                                                              \
        return fr_m_emit(c, FR_M_##OP, m_type(c, a), a, b, 0, 0);                                  \
    }
#define M_COMPARE(name, OP)                                                                        \
    static inline fr_mval m_##name(code_t c, fr_mval a, fr_mval b)                                 \
    {                                                                                              \
        return fr_m_emit(c, FR_M_##OP, FR_BOOL, a, b, 0, 0);                                       \
    }
M_UNARY(neg, NEG) M_UNARY(sqrt, SQRT) M_UNARY(abs, ABS) M_UNARY(floor, FLOOR) M_UNARY(ceil, CEIL)
M_UNARY(trunc, TRUNC) M_UNARY(rint, RINT) M_UNARY(not, NOT)
M_BINARY(add, ADD) M_BINARY(sub, SUB) M_BINARY(mul, MUL) M_BINARY(div, DIV) M_BINARY(idiv, IDIV)
M_BINARY(irem, IREM) M_BINARY(fmod, FMOD) M_BINARY(and, AND) M_BINARY(or, OR) M_BINARY(xor, XOR)
M_BINARY(shl, SHL) M_BINARY(shr, SHR) M_BINARY(mulhi, MULHI)
M_COMPARE(eq, EQ) M_COMPARE(ne, NE) M_COMPARE(lt, LT) M_COMPARE(le, LE)
#undef M_UNARY
#undef M_BINARY
#undef M_COMPARE

static inline fr_mval m_gt(code_t c, fr_mval a, fr_mval b) { return m_lt(c, b, a); }
static inline fr_mval m_ge(code_t c, fr_mval a, fr_mval b) { return m_le(c, b, a); }
static inline fr_mval
m_fma(code_t c, fr_mval x, fr_mval y, fr_mval z)
{
    return fr_m_emit(c, FR_M_FMA, m_type(c, x), x, y, z, 0);
}
/* x / y, inverse being 1 / y rounded. */
static inline fr_mval
m_divby(code_t c, fr_mval x, fr_mval y, fr_mval inverse)
{
    return fr_m_emit(c, FR_M_DIVBY, m_type(c, x), x, y, inverse, 0);
}
/* The same of a whole number of 16 bits and y > 0 of FR_FEW_DIGITS. */
static inline fr_mval
m_divfew(code_t c, fr_mval x, fr_mval y, fr_mval inverse)
{
    return fr_m_emit(c, FR_M_DIVFEW, m_type(c, x), x, y, inverse, 0);
}
static inline fr_mval
m_select(code_t c, fr_mval cond, fr_mval yes, fr_mval no)
{
    return fr_m_emit(c, FR_M_SELECT, m_type(c, yes), cond, yes, no, 0);
}
static inline fr_mval
m_rare(code_t c, fr_mval cond, fr_mval yes, fr_mval no)
{
    return fr_m_emit(c, FR_M_RARE, m_type(c, yes), cond, yes, no, 0);
}
static inline fr_mval
m_cvt(code_t c, fr_dtype to, fr_mval a)
{
    return m_type(c, a) == to ? a : fr_m_emit(c, FR_M_CVT, to, a, 0, 0, 0);
}
static inline fr_mval
m_bitcast(code_t c, fr_dtype to, fr_mval a)
{
    return m_type(c, a) == to ? a : fr_m_emit(c, FR_M_BITCAST, to, a, 0, 0, 0);
}
static inline fr_mval
m_input(code_t c, fr_dtype type, int k)
{
    return fr_m_emit(c, FR_M_INPUT, type, 0, 0, 0, (uint64_t)k);
}
static inline fr_mval
m_bits(code_t c, fr_dtype type, uint64_t bits)
{
    return fr_m_emit(c, FR_M_CONST, type, 0, 0, 0, bits);
}
/* An integer constant, kept as the low bits of its type. */
static inline fr_mval
m_int(code_t c, fr_dtype type, int64_t v)
{
    int n = fr_dtype_size(type);

    return m_bits(c, type, n == 8 ? (uint64_t)v : (uint64_t)v & ((1ull << 8 * n) - 1));
}
/* A float constant of type F32 (rounded once from v) or F64. */
static inline fr_mval
m_real(code_t c, fr_dtype type, double v)
{
    uint64_t bits = 0;

    if (type == FR_F32) {
        float f = (float)v;
        memcpy(&bits, &f, sizeof f);
    } else {
        memcpy(&bits, &v, sizeof v);
    }
    return m_bits(c, type, bits);
}

#endif
