#include "core/dtype.h"

#include <string.h>

const struct fr_dtype_info fr_dtype_info[FR_N_DTYPES] = {
#define DTYPE(name, code, kind, size, comp, ctype) [FR_##name] = {code, kind, size, FR_##comp},
#include "core/dtype.def"
};

const char *
fr_dtype_name(fr_dtype d)
{
    static const char *const names[FR_N_DTYPES] = {
        [FR_BOOL] = "bool",   [FR_I8] = "int8",         [FR_I16] = "int16",   [FR_I32] = "int32",
        [FR_I64] = "int64",   [FR_U8] = "uint8",        [FR_U16] = "uint16",  [FR_U32] = "uint32",
        [FR_U64] = "uint64",  [FR_F16] = "float16",     [FR_F32] = "float32", [FR_F64] = "float64",
        [FR_C64] = "complex64", [FR_C128] = "complex128",
    };

    return names[d];
}

/* The signed integer that holds every value of an unsigned one; u64 has none, so float64. */
static fr_dtype
signed_above(fr_dtype u)
{
    switch (u) {
    case FR_U8: return FR_I16;
    case FR_U16: return FR_I32;
    case FR_U32: return FR_I64;
    default: return FR_F64;
    }
}

fr_dtype
fr_dtype_to_float(fr_dtype d)
{
    if (d >= FR_F16)
        return d;
    switch (fr_dtype_size(d)) {
    case 1: return FR_F16;
    case 2: return FR_F32;
    default: return FR_F64;
    }
}

static fr_dtype
complex_of(fr_dtype real)
{
    return real == FR_F64 ? FR_C128 : FR_C64;
}

fr_dtype
fr_dtype_promote(fr_dtype a, fr_dtype b)
{
    char ka, kb;

    if (a == b)
        return a;
    if (a > b) {
        fr_dtype t = a;
        a = b;
        b = t;
    }
    /* From here on a < b in the order of dtype.def: bool, signed, unsigned, float, complex. */
    if (a == FR_BOOL)
        return b;
    ka = fr_dtype_kind(a);
    kb = fr_dtype_kind(b);
    if (ka == kb)
        return b;
    if (ka == 'i' && kb == 'u') {
        fr_dtype s = signed_above(b);
        return s == FR_F64 || fr_dtype_size(s) >= fr_dtype_size(a) ? s : a;
    }
    if (kb == 'f') {
        fr_dtype f = fr_dtype_to_float(a);
        return f > b ? f : b;
    }
    return fr_dtype_promote(complex_of(fr_dtype_to_float(fr_dtype_info[a].component)), b);
}

fr_dtype
fr_dtype_promote_weak(fr_dtype d, char kind)
{
    char k = fr_dtype_kind(d);

    switch (kind) {
    case 'b': return d;
    case 'i': return k == 'b' ? FR_I64 : d;
    case 'f': return k == 'f' || k == 'c' ? d : FR_F64;
    default: /* complex */
        if (k == 'c')
            return d;
        return k == 'f' && d != FR_F64 ? FR_C64 : FR_C128;
    }
}

static int
kind_rank(char kind)
{
    return (int)(strchr("buifc", kind) - "buifc");
}

bool
fr_dtype_same_kind(fr_dtype from, fr_dtype to)
{
    char kf = fr_dtype_kind(from), kt = fr_dtype_kind(to);

    return kind_rank(kf) <= kind_rank(kt);
}

fr_dtype
fr_dtype_parse(const char *code, int len)
{
    for (int d = 0; d < FR_N_DTYPES; d++)
        if ((int)strlen(fr_dtype_info[d].code) == len && !memcmp(fr_dtype_info[d].code, code, len))
            return (fr_dtype)d;
    return FR_N_DTYPES;
}
