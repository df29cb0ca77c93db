/* tests/cuda/ptx_cvt.c -- conversions between all types, with every rounding.
 *
 * Two steps: the source is read into numbers of 64 bits (a double holds each float exactly), then these are written. */
#include <fenv.h>
#include <math.h>

#include "ptx_int.h"

union word { uint32_t u; float f; };
union long_word { uint64_t u; double f; };

float
ptx_from_half(uint16_t h)
{
    union word v = {(uint32_t)(h & 0x7fff) << 13}, scale = {0x77800000}; /* 2^112 */

    if ((h & 0x7c00) == 0x7c00)
        v.u = h & 0x3ff ? 0x7fffffff : 0x7f800000;
    else
        v.f *= scale.f;
    v.u |= v.u == 0x7fffffff ? 0 : (uint32_t)(h & 0x8000) << 16;
    return v.f;
}

float
ptx_from_bfloat(uint16_t h)
{
    union word v = {(uint32_t)h << 16};

    return v.f;
}

/* Any double to a half, rounded once. */
uint16_t
ptx_round_half(double x, int change, bool bfloat)
{
    const int      p = bfloat ? 7 : 10, least = bfloat ? -126 : -14;
    const uint32_t inf = bfloat ? 0x7f80 : 0x7c00;
    union long_word v = {.f = x};
    uint32_t sign = (uint32_t)(v.u >> 63) << 15, r;
    int      e = (int)(v.u >> 52 & 0x7ff) - 1023, shift;
    uint64_t sig = (v.u & ((1ull << 52) - 1)) | 1ull << 52, rest, half;
    bool     up;

    if (x != x)
        return 0x7fff;
    if (e == 1024)
        return (uint16_t)(sign | inf);
    if (v.u << 1 == 0)
        return (uint16_t)sign;
    shift = 52 - p + (e < least ? least - e : 0);
    shift = shift > 60 ? 60 : shift;
    half = 1ull << (shift - 1);
    rest = sig & (2 * half - 1);
    r = (uint32_t)(sig >> shift);
    if (change & CH_RZ)
        up = false;
    else if (change & CH_RM)
        up = rest && sign;
    else if (change & CH_RP)
        up = rest && !sign;
    else
        up = rest > half || (rest == half && r & 1);
    if (e >= least)
        r += (uint32_t)(e - least) << p;        /* the leading one is the exponent's first */
    if (e > 1000 || r + up >= inf) {
        bool away = !(change & CH_ROUND) || (change & CH_RM && sign) || (change & CH_RP && !sign);

        return (uint16_t)(sign | (away ? inf : inf - 1));
    }
    return (uint16_t)(sign | (r + up));
}

static bool
is_float(enum type t)
{
    return t == T_F16 || t == T_BF16 || t == T_F32 || t == T_F64;
}

static bool
is_signed(enum type t)
{
    return t == T_S8 || t == T_S16 || t == T_S32 || t == T_S64;
}

static int
bits_of(enum type t)
{
    return 8 * ptx_type_bytes(t);
}

#define EACH for (int i = 0; i < LANES; i++)

/* Whole numbers extended to 64 bits. */
static void
read_whole(uint64_t *to, const void *p, int width, enum type t)
{
    const int shift = 64 - bits_of(t);

    if (width == 8)
        EACH to[i] = ((const uint64_t *)p)[i];
    else if (width == 4)
        EACH to[i] = ((const uint32_t *)p)[i];
    else
        EACH to[i] = ((const uint16_t *)p)[i];
    if (is_signed(t))
        EACH to[i] = (uint64_t)((int64_t)(to[i] << shift) >> shift);
    else
        EACH to[i] = to[i] << shift >> shift;
}

static void
read_float(double *to, const void *p, int width, enum type t, bool ftz)
{
    uint32_t word[LANES];

    if (t == T_F64) {
        EACH to[i] = ((const double *)p)[i];
        return;
    }
    if (width == 8)
        EACH word[i] = (uint32_t)((const uint64_t *)p)[i];
    else if (width == 4)
        EACH word[i] = ((const uint32_t *)p)[i];
    else
        EACH word[i] = ((const uint16_t *)p)[i];
    if (t == T_F16)
        EACH to[i] = ptx_from_half((uint16_t)word[i]);
    else if (t == T_BF16)
        EACH to[i] = ptx_from_bfloat((uint16_t)word[i]);
    else
        EACH {
            union word v = {ftz && !(word[i] & 0x7f800000) ? word[i] & 0x80000000 : word[i]};

            to[i] = v.f;
        }
}

static void
write_lanes(void *p, int width, const uint64_t *from, uint32_t m)
{
    if (width == 8)
        EACH ((uint64_t *)p)[i] = m >> i & 1 ? from[i] : ((uint64_t *)p)[i];
    else if (width == 4)
        EACH ((uint32_t *)p)[i] = m >> i & 1 ? (uint32_t)from[i] : ((uint32_t *)p)[i];
    else
        EACH ((uint16_t *)p)[i] = m >> i & 1 ? (uint16_t)from[i] : ((uint16_t *)p)[i];
}

/* Cut to the type, or clamped to what it can hold; then as wide as the register. */
static void
whole_to_whole(uint64_t *v, enum type from, enum type to, bool sat)
{
    const int     n = bits_of(to), shift = 64 - n;
    const int64_t most = is_signed(to) ? (int64_t)(~0ull >> 1 >> shift) : (int64_t)(~0ull >> 1), least = -most - 1;

    if (sat && is_signed(to)) {
        EACH if (!is_signed(from) && v[i] > (uint64_t)most)
            v[i] = (uint64_t)most;
        else if (is_signed(from))
            v[i] = (int64_t)v[i] > most ? (uint64_t)most : (int64_t)v[i] < least ? (uint64_t)least : v[i];
    } else if (sat) {
        EACH if (is_signed(from) && (int64_t)v[i] < 0)
            v[i] = 0;
        else if (v[i] > ~0ull >> shift)
            v[i] = ~0ull >> shift;
    }
    if (is_signed(to))
        EACH v[i] = (uint64_t)((int64_t)(v[i] << shift) >> shift);
    else
        EACH v[i] = v[i] << shift >> shift;
}

static double
rounded(double x, int mode)
{
    return mode == 'z' ? trunc(x) : mode == 'm' ? floor(x) : mode == 'p' ? ceil(x) : nearbyint(x);
}

static uint64_t
float_to_whole(double x, enum type from, enum type to)
{
    const int    n = bits_of(to);
    const double top = ldexp(1, is_signed(to) ? n - 1 : n), bottom = is_signed(to) ? -top : 0;

    if (x != x)
        return from == T_F64 || n == 64 ? (uint64_t)-1 << (n - 1) & (is_signed(to) ? ~0ull : ~0ull >> (64 - n)) : 0;
    if (x >= top)
        return is_signed(to) ? ~0ull >> (65 - n) : ~0ull >> (64 - n);
    if (x <= bottom)
        return is_signed(to) ? ~0ull << (n - 1) : 0;
    return is_signed(to) ? (uint64_t)(int64_t)x : (uint64_t)x;
}

/* A whole number as a double that keeps, in its last bit, whether something was cut off. */
static double
odd_double(uint64_t u, bool is_negative)
{
    int      cut = u >> 53 ? 11 - __builtin_clzll(u) : 0;
    uint64_t kept = u >> cut;
    double   x;

    if (cut && u & ((1ull << cut) - 1))
        kept |= 1;
    x = ldexp((double)kept, cut);
    return is_negative ? -x : x;
}

static void
whole_to_float(uint64_t *v, enum type from, enum type to, int change)
{
    const bool sign = is_signed(from);

    if (to == T_F16 || to == T_BF16) {
        EACH {
            bool less = sign && (int64_t)v[i] < 0;

            v[i] = ptx_round_half(odd_double(less ? 0 - v[i] : v[i], less), change, to == T_BF16);
        }
        return;
    }
    if (change & CH_ROUND)
        fesetround(change & CH_RZ ? FE_TOWARDZERO : change & CH_RM ? FE_DOWNWARD : FE_UPWARD);
    if (to == T_F32)
        EACH {
            union word w = {.f = sign ? (float)(int64_t)v[i] : (float)v[i]};

            v[i] = w.u;
        }
    else
        EACH {
            union long_word w = {.f = sign ? (double)(int64_t)v[i] : (double)v[i]};

            v[i] = w.u;
        }
    if (change & CH_ROUND)
        fesetround(FE_TONEAREST);
}

static void
double_to_float(uint64_t *v, double *f, enum type to, int change)
{
    const bool sat = change & CH_SAT;

    if (sat)
        EACH f[i] = f[i] > 0 ? (f[i] < 1 ? f[i] : 1) : 0;
    if (to == T_F16 || to == T_BF16) {
        EACH v[i] = ptx_round_half(f[i], change, to == T_BF16);
        return;
    }
    if (to == T_F64) {
        EACH {
            union long_word w = {.f = f[i]};

            v[i] = w.u;
        }
        return;
    }
    if (change & CH_ROUND)
        fesetround(change & CH_RZ ? FE_TOWARDZERO : change & CH_RM ? FE_DOWNWARD : FE_UPWARD);
    EACH {
        union word w = {.f = (float)f[i]};

        w.u = f[i] != f[i] ? 0x7fffffff : w.u;
        v[i] = change & CH_FTZ && !(w.u & 0x7f800000) ? w.u & 0x80000000 : w.u;
    }
    if (change & CH_ROUND)
        fesetround(FE_TONEAREST);
}

/* d of type `op` = a of type `type`; mode is the rounding to a whole number. With n == 2: a pair of halves, a above
 * b. */
void
ptx_cvt(struct warp *w, const struct insn *in, uint32_t m)
{
    const enum type from = (enum type)in->type, to = (enum type)in->op;
    uint64_t v[LANES], low[LANES];
    double   f[LANES];

    if (in->n == 2) {
        const enum type half = to == T_F16X2 ? T_F16 : T_BF16;

        read_float(f, at(w, in->a), 4, T_F32, false);
        double_to_float(v, f, half, (int)in->change);
        read_float(f, at(w, in->b), 4, T_F32, false);
        double_to_float(low, f, half, (int)in->change);
        EACH v[i] = v[i] << 16 | low[i];
        write_lanes(at(w, in->d), 4, v, m);
        return;
    }
    if (!is_float(from)) {
        read_whole(v, at(w, in->a), in->size, from);
        if (is_float(to))
            whole_to_float(v, from, to, (int)in->change);
        else
            whole_to_whole(v, from, to, in->change & CH_SAT);
    } else {
        read_float(f, at(w, in->a), in->size, from, in->change & CH_FTZ);
        if (in->mode)
            EACH f[i] = rounded(f[i], in->mode);
        if (is_float(to))
            double_to_float(v, f, to, (int)in->change);
        else
            EACH v[i] = float_to_whole(f[i], from, to);
    }
    write_lanes(at(w, in->d), in->width, v, m);
}
