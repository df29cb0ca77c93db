/* jit/recipe_int.h -- what the recipe_*.c files share: one function per name in the recipe column of
 * ops.def, and the spellings that several of them need.
 *
 * A recipe appends the instructions of one operation to `c`.  `in` is the compute dtype; a half
 * precision operand has been widened to F32 by recipe.c, except for the few recipes listed there,
 * which take its bits. */
#ifndef FR_JIT_RECIPE_INT_H
#define FR_JIT_RECIPE_INT_H

#include "ir/op.h"
#include "jit/build.h"
#include "jit/recipe.h"

typedef fr_status fr_recipe_fn(code_t c, fr_dtype in, const struct fr_mnum *x, struct fr_mnum *out);

#define OP(name, n, rule, kinds, recipe, ...) fr_recipe_fn recipe_##recipe;
#include "ir/ops.def"

/* Real functions in F32 and F64 (recipe_math_*.c): x[k].re in, out->re out. What each promises is in csrc/NUMERICS.md: at
 * most 1 ULP, C99's special values, any argument, the same bits everywhere. */
#define FR_REAL_RECIPES(REAL)                                                                      \
    REAL(cbrt) REAL(exp) REAL(exp2) REAL(expm1) REAL(log) REAL(log2) REAL(log10) REAL(log1p)       \
    REAL(sin) REAL(cos) REAL(tan) REAL(arcsin) REAL(arccos) REAL(arctan) REAL(sinh) REAL(cosh)     \
    REAL(tanh) REAL(arcsinh) REAL(arccosh) REAL(arctanh) REAL(erf) REAL(erfc) REAL(sigmoid)        \
    REAL(softplus) REAL(arctan2) REAL(hypot) REAL(power) REAL(cube) REAL(fourth) REAL(logaddexp) REAL(logaddexp2)
#define REAL(name) fr_recipe_fn recipe_real_##name;
FR_REAL_RECIPES(REAL)
#undef REAL

/* The same for half precision as F32: short forms of some (recipe_math_half.c), and what of two zeros is the first,
 * not the second (recipe_arith.c). */
#define FR_HALF_RECIPES(HALF)                                                                      \
    HALF(log) HALF(log2) HALF(log10) HALF(exp) HALF(exp2) HALF(expm1) HALF(sinh) HALF(cosh)        \
    HALF(sin) HALF(cos) HALF(tan) HALF(arctan) HALF(arcsinh) HALF(arctanh) HALF(cbrt)  \
    HALF(maximum) HALF(minimum) HALF(fmax) HALF(fmin)
#define HALF(name) fr_recipe_fn recipe_half_##name;
FR_HALF_RECIPES(HALF)
#undef HALF

/* Complex forms of operations that recipe_arith.c states for the other dtypes (recipe_complex.c). */
#define FR_COMPLEX_RECIPES(COMPLEX)                                                                \
    COMPLEX(absolute) COMPLEX(sign) COMPLEX(square) COMPLEX(sqrt) COMPLEX(reciprocal)              \
    COMPLEX(multiply) COMPLEX(divide) COMPLEX(power)
#define COMPLEX(name) fr_recipe_fn recipe_complex_##name;
FR_COMPLEX_RECIPES(COMPLEX)
#undef COMPLEX

/* Defines a recipe: the body fills *out; its status is that of the code it appends to. */
#define RECIPE_OF(name, in, x)                                                                     \
    static void body_##name(code_t c, fr_dtype in, const struct fr_mnum *x, struct fr_mnum *out);  \
    fr_status recipe_##name(code_t c, fr_dtype in, const struct fr_mnum *x, struct fr_mnum *out)   \
    {                                                                                              \
        body_##name(c, in, x, out);                                                                \
        return c->st;                                                                              \
    }                                                                                              \
    static void body_##name(__attribute__((unused)) code_t c, __attribute__((unused)) fr_dtype in, \
                            __attribute__((unused)) const struct fr_mnum *x, struct fr_mnum *out)
#define RECIPE(name) RECIPE_OF(name, in, x)
#define REAL_RECIPE(name) RECIPE_OF(real_##name, t, in)    /* of F32 and F64 */

/* A value converted to the number `v` of its own type; floats round once. */
static inline fr_mval
m_num(code_t c, fr_dtype type, double v)
{
    return fr_dtype_is_float(type) ? m_real(c, type, v) : m_int(c, type, (int64_t)v);
}

/* An integer between two others, which every compiler makes of it in two steps. */
static inline fr_mval
m_clamp(code_t c, fr_mval v, int64_t lo, int64_t hi)
{
    fr_mval l = m_int(c, m_type(c, v), lo), h = m_int(c, m_type(c, v), hi);

    v = m_select(c, m_lt(c, v, l), l, v);
    return m_select(c, m_lt(c, h, v), h, v);
}

/* One real function of one or two values, from within another recipe. */
static inline fr_mval
m_call2(code_t c, fr_recipe_fn *f, fr_mval a, fr_mval b)
{
    struct fr_mnum x[2] = {{a, 0}, {b, 0}}, out = {0, 0};
    fr_status      st = f(c, m_type(c, a), x, &out);

    if (c->st == FR_OK)
        c->st = st;
    return out.re;
}
static inline fr_mval m_call(code_t c, fr_recipe_fn *f, fr_mval a) { return m_call2(c, f, a, a); }
static inline bool is_signed(fr_dtype t) { return fr_dtype_kind(t) == 'i'; }

/* The unsigned integer as wide as `type`. */
static inline fr_dtype
m_uint_of(fr_dtype type)
{
    switch (fr_dtype_size(type)) {
    case 1: return FR_U8;
    case 2: return FR_U16;
    case 4: return FR_U32;
    default: return FR_U64;
    }
}

static inline fr_mval m_isnan(code_t c, fr_mval v) { return m_ne(c, v, v); }
/* Magnitude of the first, sign of the second: floats. */
fr_mval m_copysign(code_t c, fr_mval magnitude, fr_mval sign);

/* The 16 bits of a half precision number to F32, exactly, and back from F32 or F64, rounding once to
 * nearest even (recipe_half.c). */
fr_mval fr_half_widen(code_t c, fr_mval bits);
fr_mval fr_half_narrow(code_t c, fr_mval v);

#endif
