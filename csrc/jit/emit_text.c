/* jit/emit_text.c -- one row per primitive says how it is spelled; the rest is typing.
 *
 * A row's pattern holds % followed by: a b c, the arguments; T, the type; U, the unsigned type of
 * at least 32 bits in which integers of this type wrap; f, the suffix of a function of math.h. Rows
 * differ for floats, integers and bool where C does. */
#include "jit/emit_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

void
fr_text_add(struct fr_text *t, const char *fmt, ...)
{
    va_list ap;
    int     n;

    if (t->st != FR_OK)
        return;
    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !FR_GROW(t->s, t->cap, t->n + (size_t)n + 1)) {
        t->st = FR_ENOMEM;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(t->s + t->n, t->cap - t->n, fmt, ap);
    va_end(ap);
    t->n += (size_t)n;
}

void
fr_text_clear(struct fr_text *t)
{
    fr_free(t->s);
    *t = (struct fr_text){0};
}

const char *
fr_text_memory_type(fr_dtype d)
{
    static const char *const name[FR_N_DTYPES] = {
#define DTYPE(NAME, code, kind, size, comp, ctype) [FR_##NAME] = #ctype,
#include "core/dtype.def"
    };
    return name[d];
}

const char *
fr_text_type(fr_dtype d)
{
    return d == FR_BOOL ? "bool" : fr_text_memory_type(d);
}

/* ---- constants ------------------------------------------------------------------------- */

static double
float_of(fr_dtype t, uint64_t bits)
{
    double   d;
    float    f;
    uint32_t low = (uint32_t)bits;

    if (t == FR_F32) {
        memcpy(&f, &low, sizeof f);
        return f;
    }
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* A short decimal fraction when it is exactly the number: digits / 10^k, both exact, divided once,
 * is what a compiler reads back. */
static bool
add_decimal(struct fr_text *out, fr_dtype t, double v)
{
    double limit = t == FR_F32 ? 16777216.0 : 9007199254740992.0;
    double scale = 1.0;

    for (int k = 0; k <= 9; k++, scale *= 10.0) {
        double  digits = v * scale;
        int64_t n;
        double  back;

        if (digits >= limit)
            return false;
        n = (int64_t)(digits + 0.5);
        if ((double)n >= limit)
            return false;
        back = t == FR_F32 ? (double)((float)n / (float)scale) : (double)n / scale;
        if (back != v)
            continue;
        if (k == 0)
            fr_text_add(out, "%lld.0", (long long)n);
        else
            fr_text_add(out, "%lld.%0*lld", (long long)n / (long long)scale, k, (long long)n % (long long)scale);
        return true;
    }
    return false;
}

static void
add_hex(struct fr_text *out, double v)
{
    uint64_t bits, fraction;
    int      exponent, digits = 13;

    memcpy(&bits, &v, sizeof bits);
    fraction = bits & 0xfffffffffffffull;
    exponent = (int)(bits >> 52 & 0x7ff);
    for (; digits > 1 && !(fraction & 15); digits--)
        fraction >>= 4;
    fr_text_add(out, "0x%d.%0*llxp%+d", exponent != 0, digits, (unsigned long long)fraction,
                exponent ? exponent - 1023 : -1022);
}

static void
add_float(struct fr_text *out, fr_dtype t, uint64_t bits)
{
    double v = float_of(t, bits);
    bool   negative = bits >> (t == FR_F32 ? 31 : 63) & 1;

    if (negative) {
        fr_text_add(out, "-");
        v = -v;
    }
    if (!add_decimal(out, t, v))
        add_hex(out, v);
    if (t == FR_F32)
        fr_text_add(out, "f");
}

static int64_t
sign_extend(fr_dtype t, uint64_t bits)
{
    int shift = 64 - 8 * fr_dtype_size(t);

    return (int64_t)(bits << shift) >> shift;
}

static void add_bitcast(struct fr_text *, fr_dtype to, fr_dtype from);

void
fr_text_const(struct fr_text *out, fr_dtype t, uint64_t bits)
{
    uint64_t exponent = t == FR_F32 ? 0x7f800000u : 0x7ff0000000000000ull;

    switch (fr_dtype_kind(t)) {
    case 'b':
        fr_text_add(out, bits & 1 ? "true" : "false");
        break;
    case 'i':
        if (t == FR_I64 && bits == 1ull << 63)
            fr_text_add(out, "(-9223372036854775807ll - 1)");
        else if (t == FR_I32 && (uint32_t)bits == 1u << 31)
            fr_text_add(out, "(-2147483647 - 1)");
        else
            fr_text_add(out, "%lld%s", (long long)sign_extend(t, bits), t == FR_I64 ? "ll" : "");
        break;
    case 'u':
        if (fr_dtype_size(t) < 4)
            fr_text_add(out, "%llu", (unsigned long long)bits);
        else
            fr_text_add(out, bits > 9999 ? "0x%llx%s" : "%llu%s", (unsigned long long)bits,
                        t == FR_U64 ? "ull" : "u");
        break;
    default:
        if ((bits & exponent) != exponent) {
            add_float(out, t, bits);
            break;
        }
        /* Infinities and NaNs (with their payload) have no literal. */
        add_bitcast(out, t, t == FR_F32 ? FR_U32 : FR_U64);
        fr_text_add(out, "(0x%llx%s)", (unsigned long long)bits, t == FR_F32 ? "u" : "ull");
    }
}

/* ---- helper functions that the text calls ----------------------------------------------- */

/* HELPER(name, body of the function after "static inline ", for C; for CUDA) */
#define AS(to, to_t, from, from_t)                                                                 \
    HELPER(as_##to##_##from,                                                                       \
           #to_t "\nas_" #to "_" #from "(" #from_t " x)\n{\n    " #to_t " r;\n\n"                  \
           "    memcpy(&r, &x, sizeof r);\n    return r;\n}\n")
/* Out of range, all targets give what the instruction of x86-64 gives: the smallest integer. */
#define CVT_SIGNED(to, to_t, from, from_t, limit, smallest)                                        \
    HELPER(to##_##from,                                                                            \
           #to_t "\n" #to "_" #from "(" #from_t " x)\n{\n#ifdef __x86_64__\n"                      \
           "    return (" #to_t ")x;\n#else\n"                                                     \
           "    return x >= -" limit " && x < " limit " ? (" #to_t ")x : " smallest ";\n"          \
           "#endif\n}\n")
/* Written with signed conversions only: AVX-512 has an unsigned one that differs out of range. */
#define CVT_U64(from, from_t, limit)                                                               \
    HELPER(u64_##from,                                                                             \
           "uint64_t\nu64_" #from "(" #from_t " x)\n{\n"                                           \
           "    return x >= " limit " ? (uint64_t)i64_" #from "(x - " limit ") ^ 1ull << 63\n"     \
           "                      : (uint64_t)i64_" #from "(x);\n}\n")

/* With the inverse at hand: the quotient is at most 1.5 ulp off, what it leaves is a float, and rounding the sum
 * of both parts of the quotient rounds as the division would (Brisebarre, Muller, Raina: Accelerating correctly rounded
 * floating-point division when the divisor is known in advance, IEEE Transactions on Computers 53, 2004). */
#define DIVIDE_BY(t, type, f, FAST)                                                                \
    HELPER(by_##t##_##t,                                                                           \
           #type "\nby_" #t "_" #t "(" #type " x, " #type " y, " #type " inverse)\n{\n"            \
           "#if defined " #FAST " || defined __CUDACC__\n"                                         \
           "    " #type " q = x * inverse;\n\n    return fma" #f "(fma" #f "(-q, y, x), inverse, q);\n" \
           "#else\n    (void)inverse;\n    return x / y;\n#endif\n}\n")

/* With the inverse as a sum of two, which is 1 / y to 3 * 2^-2p of it, p being the bits of a float: with both products
 * the quotient before it is rounded, to as much. It is no nearer to the middle m of two floats: x - y m is a whole multiple
 * of what y m is an odd one of, which is no more than 2^(p + 1) * 2^FR_FEW_DIGITS of those; and it is not 0, as x is no
 * odd multiple of so many. For p = 24 that is 2^-46 of the quotient. */
#define DIVIDE_FEW(t, type, f, FAST)                                                               \
    HELPER(few_##t##_##t,                                                                          \
           #type "\nfew_" #t "_" #t "(" #type " x, " #type " y, " #type " inverse)\n{\n"          \
           "#if defined " #FAST " || defined __CUDACC__\n"                                         \
           "    return fma" #f "(x, inverse, x * (fma" #f "(-y, inverse, 1) * inverse));\n"        \
           "#else\n    (void)inverse;\n    return x / y;\n#endif\n}\n")

#define HELPERS                                                                                    \
    AS(u32, uint32_t, f32, float) AS(i32, int32_t, f32, float)                                     \
    AS(f32, float, u32, uint32_t) AS(f32, float, i32, int32_t)                                     \
    AS(u64, uint64_t, f64, double) AS(i64, int64_t, f64, double)                                   \
    AS(f64, double, u64, uint64_t) AS(f64, double, i64, int64_t)                                   \
    CVT_SIGNED(i32, int32_t, f32, float, "0x1p31f", "(-2147483647 - 1)")                           \
    CVT_SIGNED(i32, int32_t, f64, double, "0x1p31", "(-2147483647 - 1)")                           \
    CVT_SIGNED(i64, int64_t, f32, float, "0x1p63f", "(-9223372036854775807ll - 1)")                \
    CVT_SIGNED(i64, int64_t, f64, double, "0x1p63", "(-9223372036854775807ll - 1)")                \
    CVT_U64(f32, float, "0x1p63f") CVT_U64(f64, double, "0x1p63")                                  \
    DIVIDE_BY(f32, float, f, __FP_FAST_FMAF) DIVIDE_BY(f64, double, , __FP_FAST_FMA)               \
    DIVIDE_FEW(f32, float, f, __FP_FAST_FMAF) DIVIDE_FEW(f64, double, , __FP_FAST_FMA)

enum {
#define HELPER(name, text) HELPER_##name,
    HELPERS
#undef HELPER
    N_HELPERS
};

static const struct {
    const char *name, *text;
} helper_info[N_HELPERS] = {
#define HELPER(name, text) [HELPER_##name] = {#name, text},
    HELPERS
#undef HELPER
};

/* Prints the name of a helper and remembers that it is needed. */
static void
add_helper(struct fr_text *out, const char *kind, fr_dtype to, fr_dtype from)
{
    char name[24];

    snprintf(name, sizeof name, "%s%s_%s", kind, fr_dtype_code(to), fr_dtype_code(from));
    for (int i = 0; i < N_HELPERS; i++)
        if (!strcmp(name, helper_info[i].name))
            out->helpers |= 1u << i;
    fr_text_add(out, "%s", name);
}

static void
add_bitcast(struct fr_text *out, fr_dtype to, fr_dtype from)
{
    if (fr_dtype_is_float(to) != fr_dtype_is_float(from))
        add_helper(out, "as_", to, from);
    else
        fr_text_add(out, "(%s)", fr_text_type(to));
}

void
fr_text_head(struct fr_text *out, enum fr_dialect dialect, uint32_t helpers)
{
    if (helpers & 1u << HELPER_u64_f32)
        helpers |= 1u << HELPER_i64_f32;
    if (helpers & 1u << HELPER_u64_f64)
        helpers |= 1u << HELPER_i64_f64;
    if (dialect == FR_DIALECT_C)
        fr_text_add(out, "#include <math.h>\n#include <stdbool.h>\n#include <stddef.h>\n"
                         "#include <stdint.h>\n#include <string.h>\n");
    else
        fr_text_add(out, "typedef signed char int8_t;\ntypedef short int16_t;\n"
                         "typedef int int32_t;\ntypedef long long int64_t;\n"
                         "typedef unsigned char uint8_t;\ntypedef unsigned short uint16_t;\n"
                         "typedef unsigned int uint32_t;\n"
                         "typedef unsigned long long uint64_t;\n");
    for (int i = 0; i < N_HELPERS; i++)
        if (helpers & 1u << i)
            fr_text_add(out, "\nstatic inline %s%s",
                        dialect == FR_DIALECT_CUDA ? "__device__ " : "", helper_info[i].text);
}

/* ---- primitives ------------------------------------------------------------------------- */

/* Patterns for floats, for integers and for bool; NULL where the primitive does not exist. */
static const struct {
    const char *real, *integer, *truth;
} spelling[FR_N_MOPS] = {
    [FR_M_ADD] = {"%a + %b", "(%T)((%U)%a + (%U)%b)", NULL},
    [FR_M_SUB] = {"%a - %b", "(%T)((%U)%a - (%U)%b)", NULL},
    [FR_M_MUL] = {"%a * %b", "(%T)((%U)%a * (%U)%b)", NULL},
    [FR_M_NEG] = {"-(%a)", "(%T)(0 - (%U)%a)", NULL},
    [FR_M_DIV] = {"%a / %b", NULL, NULL},
    [FR_M_IDIV] = {NULL, "(%T)(%a / %b)", NULL},
    [FR_M_IREM] = {NULL, "(%T)(%a %% %b)", NULL},
    [FR_M_FMA] = {"fma%f(%a, %b, %c)", NULL, NULL},
    [FR_M_FMOD] = {"fmod%f(%a, %b)", NULL, NULL},
    [FR_M_SQRT] = {"sqrt%f(%a)", NULL, NULL},
    [FR_M_ABS] = {"fabs%f(%a)", NULL, NULL},
    [FR_M_FLOOR] = {"floor%f(%a)", NULL, NULL},
    [FR_M_CEIL] = {"ceil%f(%a)", NULL, NULL},
    [FR_M_TRUNC] = {"trunc%f(%a)", NULL, NULL},
    [FR_M_RINT] = {"rint%f(%a)", NULL, NULL},
    [FR_M_AND] = {NULL, "%a & %b", "%a & %b"},
    [FR_M_OR] = {NULL, "%a | %b", "%a | %b"},
    [FR_M_XOR] = {NULL, "%a ^ %b", "%a ^ %b"},
    [FR_M_NOT] = {NULL, "(%T)~%a", "!%a"},
    [FR_M_SHL] = {NULL, "(%T)((%U)%a << %b)", NULL},
    [FR_M_SHR] = {NULL, "(%T)(%a >> %b)", NULL},
    [FR_M_MULHI] = {NULL, "(uint32_t)((uint64_t)%a * %b >> 32)", NULL},
    [FR_M_EQ] = {NULL, NULL, "%a == %b"},
    [FR_M_NE] = {NULL, NULL, "%a != %b"},
    [FR_M_LT] = {NULL, NULL, "%a < %b"},
    [FR_M_LE] = {NULL, NULL, "%a <= %b"},
    /* Of truths: NVRTC 12.9 makes (a & b) | (!a & c) a, for sm_100 and newer, where a and c are the same comparison. */
    [FR_M_SELECT] = {"%a ? %b : %c", "%a ? %b : %c", "%c ^ (%a & (%b ^ %c))"},
    [FR_M_RARE] = {"%a ? %b : %c", "%a ? %b : %c", "%c ^ (%a & (%b ^ %c))"},
};

/* Micro code on its way out; number[v] is what temporary v is called by, 0 if it gets no line. */
struct printer {
    const struct fr_mcode      *code;
    const struct fr_text_lines *lines;
    uint16_t                   *number;
    char                        lane[12]; /* what names end in */
};

static void
add_value(struct fr_text *out, const struct printer *pr, fr_mval v)
{
    const struct fr_minst *in = &pr->code->inst[v];

    for (int r = 0; r < pr->lines->n_roots; r++)
        if (pr->lines->roots[r] == v && in->op != FR_M_INPUT && in->op != FR_M_CONST) {
            fr_text_add(out, "%s%s", pr->lines->root_names[r], pr->lane);
            return;
        }
    if (in->op == FR_M_INPUT)
        fr_text_add(out, "%s%s", pr->lines->inputs[in->imm], pr->lane);
    else if (in->op == FR_M_CONST)
        fr_text_const(out, in->type, in->imm);
    else
        fr_text_add(out, "%s_%d%s", pr->lines->prefix, pr->number[v], pr->lane);
}

static void
add_convert(struct fr_text *out, const struct printer *pr, const struct fr_minst *in)
{
    fr_dtype from = pr->code->inst[in->a].type, to = in->type;

    if (to == FR_BOOL) {
        add_value(out, pr, in->a);
        fr_text_add(out, " != 0");
        return;
    }
    if (from == FR_BOOL) { /* as GCC vectorises it */
        add_value(out, pr, in->a);
        fr_text_add(out, " ? 1 : 0");
        return;
    }
    fr_text_add(out, "(%s)", fr_text_type(to));
    if (fr_dtype_is_float(from) && fr_dtype_is_int(to)) {
        fr_dtype wide = to == FR_I64 || to == FR_U32 ? FR_I64 : to == FR_U64 ? FR_U64 : FR_I32;

        add_helper(out, "", wide, from);
        fr_text_add(out, "(");
        add_value(out, pr, in->a);
        fr_text_add(out, ")");
        return;
    }
    add_value(out, pr, in->a);
}

static void
add_pattern(struct fr_text *out, const struct printer *pr, const struct fr_minst *in, const char *pattern)
{
    for (const char *p = pattern; *p; p++) {
        if (*p != '%') {
            fr_text_add(out, "%c", *p);
            continue;
        }
        switch (*++p) {
        case 'a': add_value(out, pr, in->a); break;
        case 'b': add_value(out, pr, in->b); break;
        case 'c': add_value(out, pr, in->c); break;
        case 'T': fr_text_add(out, "%s", fr_text_type(in->type)); break;
        case 'U': fr_text_add(out, fr_dtype_size(in->type) == 8 ? "uint64_t" : "uint32_t"); break;
        case 'f': fr_text_add(out, in->type == FR_F32 ? "f" : ""); break;
        default: fr_text_add(out, "%c", *p); break;
        }
    }
}

static void
add_expression(struct fr_text *out, const struct printer *pr, fr_mval v)
{
    const struct fr_minst *in = &pr->code->inst[v];
    const char            *pattern;

    switch (in->op) {
    case FR_M_INPUT:
    case FR_M_CONST:
        add_value(out, pr, v);
        return;
    case FR_M_RARE:
        if (!pr->lines->usual)
            break;
        add_value(out, pr, in->c);
        return;
    case FR_M_CVT:
        add_convert(out, pr, in);
        return;
    case FR_M_DIVBY:
    case FR_M_DIVFEW:
        add_helper(out, in->op == FR_M_DIVBY ? "by_" : "few_", in->type, in->type);
        add_pattern(out, pr, in, "(%a, %b, %c)");
        return;
    case FR_M_BITCAST:
        add_bitcast(out, in->type, pr->code->inst[in->a].type);
        fr_text_add(out, "(");
        add_value(out, pr, in->a);
        fr_text_add(out, ")");
        return;
    }
    pattern = in->type == FR_BOOL              ? spelling[in->op].truth
              : fr_dtype_is_float(in->type) ? spelling[in->op].real
                                               : spelling[in->op].integer;
    FR_ASSERT(pattern);
    if (!pattern) {
        out->st = FR_EBUG;
        return;
    }
    add_pattern(out, pr, in, pattern);
}

void
fr_text_needed(const struct fr_mcode *code, const fr_mval *roots, int n_roots, bool usual, uint8_t *needed)
{
    memset(needed, 0, code->n);
    for (int r = 0; r < n_roots; r++)
        needed[roots[r]] = 1;
    fr_m_needed(code, usual ? FR_SIDES_USUAL : FR_SIDES_ALL, needed);
}

/* Which values get a line and under what number: those needed that are no input and no constant. */
static bool
number_lines(struct printer *pr)
{
    const struct fr_mcode *code = pr->code;
    uint8_t               *needed = fr_malloc(code->n);
    unsigned               n = 0;

    pr->number = fr_calloc(code->n, sizeof *pr->number);
    if (needed && pr->number) {
        fr_text_needed(code, pr->lines->roots, pr->lines->n_roots, pr->lines->usual, needed);
        for (size_t i = 0; i < code->n; i++)
            if (needed[i] && code->inst[i].op != FR_M_INPUT && code->inst[i].op != FR_M_CONST)
                pr->number[i] = (uint16_t)++n;
    }
    fr_free(needed);
    return needed && pr->number;
}

/* The lines of one value: under its number, or under the names that it has as a root. */
static void
add_lines(struct fr_text *out, const struct printer *pr, fr_mval v)
{
    const struct fr_text_lines *lines = pr->lines;
    const char                 *type = fr_text_type(pr->code->inst[v].type);
    bool                        done = false;

    for (int r = 0; r < lines->n_roots; r++) {
        if (lines->roots[r] != v)
            continue;
        fr_text_add(out, "%sconst %s %s%s = ", lines->indent, type, lines->root_names[r], pr->lane);
        if (done)
            add_value(out, pr, v);
        else
            add_expression(out, pr, v);
        fr_text_add(out, ";\n");
        done = true;
    }
    if (done || !pr->number[v])
        return;
    fr_text_add(out, "%sconst %s %s_%d%s = ", lines->indent, type, lines->prefix, pr->number[v], pr->lane);
    add_expression(out, pr, v);
    fr_text_add(out, ";\n");
}

void
fr_text_micro(struct fr_text *out, const struct fr_mcode *code, const struct fr_text_lines *lines)
{
    struct printer pr = {code, lines, NULL, ""};

    if (code->st != FR_OK || !number_lines(&pr)) {
        out->st = code->st != FR_OK ? code->st : FR_ENOMEM;
        fr_free(pr.number);
        return;
    }
    for (size_t i = 0; i < code->n; i++)
        if (lines->unroll == 0)
            add_lines(out, &pr, (fr_mval)i);
        else
            for (int k = 0; k < lines->unroll; k++) {
                snprintf(pr.lane, sizeof pr.lane, "_%d", k);
                add_lines(out, &pr, (fr_mval)i);
            }
    fr_free(pr.number);
}
