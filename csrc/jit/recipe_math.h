/* jit/recipe_math.h -- the real transcendental functions as micro code.
 * Private to recipe*.c: recipe.c takes half precision through F32 to these, and builds the complex
 * functions on them.  What each promises is in csrc/NUMERICS.md: at most 1 ULP, C99's special
 * values, any argument, the same bits everywhere. */
#ifndef FR_JIT_RECIPE_MATH_H
#define FR_JIT_RECIPE_MATH_H

#include "jit/build.h"

/* REAL(name, arity): every function here. */
#define FR_REAL_FUNCTIONS(REAL)                                                                    \
    REAL(exp, 1) REAL(exp2, 1) REAL(expm1, 1) REAL(log, 1) REAL(log2, 1) REAL(log10, 1)            \
    REAL(log1p, 1) REAL(sin, 1) REAL(cos, 1) REAL(tan, 1) REAL(arcsin, 1) REAL(arccos, 1)          \
    REAL(arctan, 1) REAL(sinh, 1) REAL(cosh, 1) REAL(tanh, 1) REAL(arcsinh, 1) REAL(arccosh, 1)    \
    REAL(arctanh, 1) REAL(cbrt, 1) REAL(erf, 1) REAL(erfc, 1) REAL(sigmoid, 1) REAL(softplus, 1)   \
    REAL(arctan2, 2) REAL(hypot, 2) REAL(power, 2) REAL(cube, 1) REAL(fourth, 1) REAL(logaddexp, 2) REAL(logaddexp2, 2)

/* Appends out->re = function(x[0].re, ...) for `in` F32 or F64. */
typedef fr_status (*fr_recipe_real)(code_t c, fr_dtype in, const struct fr_mnum *x,
                                    struct fr_mnum *out);

#define FR_REAL_PROTOTYPE(name, arity)                                                             \
    fr_status recipe_real_##name(code_t c, fr_dtype in, const struct fr_mnum *x,                   \
                                 struct fr_mnum *out);
FR_REAL_FUNCTIONS(FR_REAL_PROTOTYPE)
#undef FR_REAL_PROTOTYPE

#endif
