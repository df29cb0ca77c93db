/* jit/recipe.c -- finds the recipe of an operation, takes half precision in and out, and states
 * casts.  The recipes themselves are in the other recipe_*.c. */
#include "jit/recipe.h"

#include <math.h>

#include "jit/recipe_int.h"

static fr_recipe_fn *const recipes[FR_N_OPS] = {
#define OP(name, n, rule, kinds, recipe, ...) [FR_OP_##name] = recipe_##recipe,
#include "ir/ops.def"
};

/* Half precision has these of its own, which take it as F32. */
static fr_recipe_fn *const half_recipes[FR_N_OPS] = {
#define HALF(name) [FR_OP_##name] = recipe_half_##name,
    FR_HALF_RECIPES(HALF)
#undef HALF
};

bool
fr_recipe_exists(fr_op op, fr_dtype in)
{
    if (op >= FR_N_OPS || in >= FR_N_DTYPES || !recipes[op] || !fr_op_takes(op, in))
        return false;
    /* Streams of random numbers have their own widths. */
    return fr_op_info[op].rule != FR_RULE_RANDOM || fr_dtype_size(in) == 8 || in == FR_F32;
}

enum fr_half_use
fr_recipe_half_use(fr_op op)
{
    if (fr_op_info[op].flags & (FR_OPF_BITS | FR_OPF_MOVES))
        return fr_op_info[op].flags & FR_OPF_BITS ? FR_HALF_BITS : FR_HALF_MOVED;
    return fr_op_result(op, FR_F16) == FR_F16 ? FR_HALF_ROUNDED : FR_HALF_READ;
}

fr_status
fr_recipe_half(struct fr_mcode *code, fr_op op, const struct fr_mnum *args, struct fr_mnum *result)
{
    struct fr_mnum wide[3] = {{0, 0}};

    for (int k = 0; k < fr_op_info[op].arity; k++) {
        wide[k] = args[k];
        if (m_type(code, args[k].re) == FR_U16)
            wide[k].re = fr_half_widen(code, args[k].re);
    }
    return (half_recipes[op] ? half_recipes : recipes)[op](code, FR_F32, wide, result);
}

fr_status
fr_recipe_op(struct fr_mcode *code, fr_op op, fr_dtype in, const struct fr_mnum *args, struct fr_mnum *result)
{
    fr_status st = FR_OK;

    if (!fr_recipe_exists(op, in))
        return FR_ENOTSUP;
    if (in != FR_F16 || fr_recipe_half_use(op) > FR_HALF_READ)
        return recipes[op](code, in, args, result);
    TRY(fr_recipe_half(code, op, args, result));
    if (fr_recipe_half_use(op) == FR_HALF_ROUNDED)
        result->re = fr_half_narrow(code, result->re);
    st = code->st;
out:
    return st;
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* Whether |v| < 2^bits.  Else the first product is infinite and the second no number, comparing which raises the
 * processor's flag: a conversion in a vector does not where its result is not taken. */
static fr_mval
is_below(code_t c, fr_mval v, int bits)
{
    fr_dtype type = m_type(c, v);
    fr_mval  zero = m_real(c, type, 0);
    fr_mval  large = m_mul(c, m_abs(c, v), m_real(c, type, ldexp(1, (type == FR_F32 ? 128 : 1024) - bits)));

    return m_le(c, m_mul(c, large, zero), zero);
}

/* The truncating conversion of x86-64: everything outside the range gives the smallest number.  The range is tested
 * here, so that every emitter and device agrees; what a conversion gives there is not looked at. */
static fr_mval
float_to_signed(code_t c, fr_dtype to, fr_mval v)
{
    fr_mval fits = is_below(c, v, to == FR_I32 ? 31 : 63);

    return m_select(c, fits, m_cvt(c, to, v), m_int(c, to, to == FR_I32 ? INT32_MIN : INT64_MIN));
}

/* As compilers do it for x86-64: small integers keep the low bits of i32; u32 and u64 shift their
 * upper half down to the signed range.  (NumPy's own u32 differs between vector and scalar loops
 * where the value is out of range; this is the vector loop.) */
static fr_mval
float_to_int(code_t c, fr_dtype to, fr_mval v)
{
    fr_dtype type = m_type(c, v), s = fr_dtype_size(to) == 8 ? FR_I64 : FR_I32;
    fr_mval  zero = m_real(c, type, 0), low, top, high, is_high;

    if (to != FR_U32 && to != FR_U64)
        return m_cvt(c, to, float_to_signed(c, s, v));
    top = m_real(c, type, to == FR_U32 ? 0x1p31 : 0x1p63);
    is_high = m_le(c, top, v);
    low = float_to_signed(c, s, m_select(c, is_high, zero, v));
    high = float_to_signed(c, s, m_select(c, is_high, m_sub(c, v, top), zero));
    high = m_xor(c, high, m_int(c, s, s == FR_I32 ? INT32_MIN : INT64_MIN));
    return m_bitcast(c, to, m_select(c, is_high, high, low));
}

/* All half precision numbers fit i32, which vectors convert where they cannot convert i64.  What
 * has no integer becomes the smallest i64, cut to the width; as u64 +inf is 0 (float_to_int). */
static fr_mval
half_to_int(code_t c, fr_dtype to, fr_mval v)
{
    fr_mval fits = is_below(c, v, 31);
    fr_mval other = m_int(c, to, INT64_MIN);

    if (to == FR_U64)
        other = m_select(c, m_lt(c, m_real(c, FR_F32, 0), v), m_int(c, to, 0), other);
    return m_select(c, fits, m_cvt(c, to, m_cvt(c, FR_I32, v)), other);
}

/* Beyond 65,520 everything is infinite, so wide integers are brought near it first. */
static fr_mval
int_to_half(code_t c, fr_dtype from, fr_mval v)
{
    fr_mval high, low;

    if (fr_dtype_size(from) == 8 || from == FR_U32) {
        high = m_int(c, from, 70000);
        v = m_select(c, m_lt(c, high, v), high, v);
        if (is_signed(from)) {
            low = m_int(c, from, -70000);
            v = m_select(c, m_lt(c, v, low), low, v);
        }
        v = m_cvt(c, FR_I32, v);
    }
    return fr_half_narrow(c, m_cvt(c, FR_F32, v));
}

static fr_mval
cast_real(code_t c, fr_dtype from, fr_dtype to, fr_mval v)
{
    if (from == to)
        return v;
    if (from == FR_F16 && (to == FR_U32 || fr_dtype_size(to) == 8) && !fr_dtype_is_float(to))
        return half_to_int(c, to, fr_half_widen(c, v));
    if (from == FR_F16)
        return cast_real(c, FR_F32, to, fr_half_widen(c, v));
    if (to == FR_BOOL)
        return m_ne(c, v, m_num(c, from, 0));
    if (to == FR_F16 && !fr_dtype_is_float(from))
        return int_to_half(c, from, v);
    if (to == FR_F16)
        return fr_half_narrow(c, v);
    if (fr_dtype_is_float(from) && !fr_dtype_is_float(to))
        return float_to_int(c, to, v);
    return m_cvt(c, to, v);
}

fr_status
fr_recipe_cast(struct fr_mcode *code, fr_dtype from, fr_dtype to, struct fr_mnum arg, struct fr_mnum *result)
{
    fr_dtype part = fr_dtype_info[from].component, to_part = fr_dtype_info[to].component;
    bool     was_complex = fr_dtype_is_complex(from);

    result->re = cast_real(code, part, to_part, arg.re);
    if (fr_dtype_is_complex(to))
        result->im = was_complex ? cast_real(code, part, to_part, arg.im)
                                 : m_real(code, to_part, 0.0);
    else if (was_complex && to == FR_BOOL)
        result->re = m_or(code, result->re, cast_real(code, part, FR_BOOL, arg.im));
    return code->st;
}
