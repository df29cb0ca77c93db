/* tests/cuda/ptx_alu.c -- what a warp computes in registers: the rows of ptx.def, made into loops over lanes, and
 * what has no row.
 *
 * Called by ptx_run.c through the pointers that ptx_decode.c puts into instructions. */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

#include "ptx_int.h"

/* Values of lanes that do not run are kept. The arguments may be the result, but are never a part of it. */
#define FOR_LANES(m, BODY) \
    do { \
        if ((m) == UINT32_MAX) { \
            _Pragma("GCC ivdep") for (int i = 0; i < LANES; i++) { BODY } \
        } else { \
            for (uint32_t rest = (m); rest; rest &= rest - 1) { \
                const int i = __builtin_ctz(rest); \
                BODY \
            } \
        } \
    } while (0)

static inline float
nan32(float x)
{
    union { uint32_t u; float f; } nan = {0x7fffffff};

    return x != x ? nan.f : x;
}

/* A result with arguments x and y: the first NaN of them, made quiet. */
static inline double
nan64(double r, double x, double y)
{
    union { uint64_t u; double f; } v = {.f = x != x ? x : y};

    v.u = v.f != v.f ? v.u | 1ull << 51 : 0xfffull << 51;
    return r != r ? v.f : r;
}

static inline int32_t
clamp32(int64_t x)
{
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

static inline uint64_t
high_u(uint64_t x, uint64_t y)
{
    return (uint64_t)((unsigned __int128)x * y >> 64);
}

static inline int64_t
high_s(int64_t x, int64_t y)
{
    return (int64_t)((__int128)x * y >> 64);
}

static inline uint64_t
reverse(uint64_t x)
{
    x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
    x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
    return __builtin_bswap64(x);
}

/* bfe: the sign is that of the last bit of the field, or of the number. */
static inline uint64_t
extract(uint64_t x, uint32_t at, uint32_t n, uint32_t bits, bool is_signed)
{
    uint32_t pos = at & 255, len = n & 255, top = pos + len < bits + 1 ? pos + len - 1 : bits - 1;
    uint64_t sign = is_signed && len && x >> (top < bits ? top : bits - 1) & 1 ? ~0ull : 0;
    uint64_t value = pos < bits ? x >> pos : 0;

    if (pos + len >= bits)
        len = pos < bits ? bits - pos : 0;
    value = len >= 64 ? value : value & ~(~0ull << len);
    return len >= 64 ? value : value | sign << len;
}

static inline uint64_t
insert(uint64_t x, uint64_t into, uint32_t at, uint32_t n, uint32_t bits)
{
    uint32_t pos = at & 255, len = n & 255;
    uint64_t mask;

    if (pos >= bits || len == 0)
        return into;
    mask = (len >= 64 ? ~0ull : ~(~0ull << len)) << pos;
    return (into & ~mask) | (x << pos & mask);
}

static inline float
divide_approx(float x, float y)
{
    float big = fabsf(y);

    if (big > 0x1p126f && big < INFINITY)       /* its reciprocal is flushed */
        return isinf(x) ? NAN : signbit(x) != signbit(y) ? -0.0f : 0.0f;
    return x / y;
}

/* ---- halves: exact in double, then rounded once ---- */

/* x * y + z, rounded to odd: a later rounding to fewer bits gives what one rounding would. */
static inline double
fma_odd(double x, double y, double z)
{
    double p = x * y, s = p + z, back = s - p, low = (p - (s - back)) + (z - back);
    union { double f; uint64_t u; } v = {s};

    if (low != 0 && s - s == 0 && !(v.u & 1))
        v.u += (low > 0) == (s > 0) ? 1 : (uint64_t)-1;
    return v.f;
}

#define HALF(name, read, bfloat) \
    static inline uint16_t name##_add(uint16_t x, uint16_t y) \
    { \
        return ptx_round_half(fma_odd(read(x), 1, read(y)), 0, bfloat); \
    } \
    static inline uint16_t name##_sub(uint16_t x, uint16_t y) \
    { \
        return ptx_round_half(fma_odd(read(x), 1, -read(y)), 0, bfloat); \
    } \
    static inline uint16_t name##_mul(uint16_t x, uint16_t y) \
    { \
        return ptx_round_half((double)read(x) * read(y), 0, bfloat); \
    } \
    static inline uint16_t name##_fma(uint16_t x, uint16_t y, uint16_t z) \
    { \
        return ptx_round_half(fma_odd(read(x), read(y), read(z)), 0, bfloat); \
    } \
    static inline uint16_t name##_pick(uint16_t x, uint16_t y, bool less, bool nan) \
    { \
        float f = read(x), g = read(y); \
        if (f != f || g != g) \
            return nan || (f != f && g != g) ? 0x7fff : f != f ? y : x; \
        if (f == g) \
            return (x >> 15) == less ? x : y; \
        return (f < g) == less ? x : y; \
    } \
    static inline uint16_t name##_min(uint16_t x, uint16_t y) { return name##_pick(x, y, true, false); } \
    static inline uint16_t name##_max(uint16_t x, uint16_t y) { return name##_pick(x, y, false, false); } \
    static inline uint16_t name##_min_nan(uint16_t x, uint16_t y) { return name##_pick(x, y, true, true); } \
    static inline uint16_t name##_max_nan(uint16_t x, uint16_t y) { return name##_pick(x, y, false, true); }
HALF(half, ptx_from_half, false)
HALF(bfloat, ptx_from_bfloat, true)

/* ---- the rows: a function for each ---- */

#define UN(key, id, D, A, E) \
    static void do_##id(struct warp *w, const struct insn *in, uint32_t m) \
    { \
        D *d = at(w, in->d); \
        const A *pa = at(w, in->a); \
        FOR_LANES(m, const A x = pa[i]; d[i] = (D)(E);); \
    }
#define BIN(key, id, D, A, B, E) \
    static void do_##id(struct warp *w, const struct insn *in, uint32_t m) \
    { \
        D *d = at(w, in->d); \
        const A *pa = at(w, in->a); \
        const B *pb = at(w, in->b); \
        FOR_LANES(m, const A x = pa[i]; const B y = pb[i]; (void)x; (void)y; d[i] = (D)(E);); \
    }
#define TER(key, id, D, A, B, C, E) \
    static void do_##id(struct warp *w, const struct insn *in, uint32_t m) \
    { \
        D *d = at(w, in->d); \
        const A *pa = at(w, in->a); \
        const B *pb = at(w, in->b); \
        const C *pc = at(w, in->c); \
        FOR_LANES(m, const A x = pa[i]; const B y = pb[i]; const C z = pc[i]; d[i] = (D)(E);); \
    }
#define QUAD(key, id, D, A, B, C, V, E) \
    static void do_##id(struct warp *w, const struct insn *in, uint32_t m) \
    { \
        D *d = at(w, in->d); \
        const A *pa = at(w, in->a); \
        const B *pb = at(w, in->b); \
        const C *pc = at(w, in->c); \
        const V *pv = at(w, in->e); \
        FOR_LANES(m, const A x = pa[i]; const B y = pb[i]; const C z = pc[i]; const V v = pv[i]; d[i] = (D)(E);); \
    }
#define SEL(key, id, T) \
    static void do_##id(struct warp *w, const struct insn *in, uint32_t m) \
    { \
        T *d = at(w, in->d); \
        const T *pa = at(w, in->a), *pb = at(w, in->b); \
        const uint32_t p = *(uint32_t *)at(w, in->c) ^ (in->not_c ? UINT32_MAX : 0); \
        FOR_LANES(m, const T x = pa[i]; const T y = pb[i]; d[i] = p & 1u << i ? x : y;); \
    }
#define PRED(key, id, E) \
    static void do_##id(struct warp *w, const struct insn *in, uint32_t m) \
    { \
        uint32_t *d = at(w, in->d); \
        const uint32_t x = *(uint32_t *)at(w, in->a), y = *(uint32_t *)at(w, in->b); \
        *d = (*d & ~m) | ((E) & m); \
    }
#define PRED1(key, id, E) \
    static void do_##id(struct warp *w, const struct insn *in, uint32_t m) \
    { \
        uint32_t *d = at(w, in->d); \
        const uint32_t x = *(uint32_t *)at(w, in->a); \
        *d = (*d & ~m) | ((E) & m); \
    }
#define TEST(key, id, A, E) \
    static void do_##id(struct warp *w, const struct insn *in, uint32_t m) \
    { \
        uint32_t *d = at(w, in->d), bits = 0; \
        const A *pa = at(w, in->a); \
        for (int i = 0; i < LANES; i++) { \
            const A x = pa[i]; \
            bits |= (E) ? 1u << i : 0; \
        } \
        *d = (*d & ~m) | (bits & m); \
    }
#define CMP(op, type, id, T, E) \
    static uint32_t cmp_##id(const void *a, const void *b) \
    { \
        const T *pa = a, *pb = b; \
        uint32_t bits = 0; \
        for (int i = 0; i < LANES; i++) { \
            const T x = pa[i], y = pb[i]; \
            bits |= (E) ? 1u << i : 0; \
        } \
        return bits; \
    }
#define CMPH(op, type, id, read, E) \
    static uint32_t cmp_##id(const void *a, const void *b) \
    { \
        const uint16_t *pa = a, *pb = b; \
        uint32_t bits = 0; \
        for (int i = 0; i < LANES; i++) { \
            const float x = read(pa[i]), y = read(pb[i]); \
            bits |= (E) ? 1u << i : 0; \
        } \
        return bits; \
    }
#include "ptx.def"
#undef UN
#undef BIN
#undef TER
#undef QUAD
#undef SEL
#undef PRED
#undef PRED1
#undef TEST
#undef CMP
#undef CMPH

#define UN(key, id, D, A, E)            {key, do_##id, {sizeof(D), sizeof(A)}},
#define BIN(key, id, D, A, B, E)        {key, do_##id, {sizeof(D), sizeof(A), sizeof(B)}},
#define TER(key, id, D, A, B, C, E)     {key, do_##id, {sizeof(D), sizeof(A), sizeof(B), sizeof(C)}},
#define QUAD(key, id, D, A, B, C, V, E) {key, do_##id, {sizeof(D), sizeof(A), sizeof(B), sizeof(C), sizeof(V)}},
#define SEL(key, id, T)                 {key, do_##id, {sizeof(T), sizeof(T), sizeof(T), 1}},
#define PRED(key, id, E)                {key, do_##id, {1, 1, 1}},
#define PRED1(key, id, E)               {key, do_##id, {1, 1}},
#define TEST(key, id, A, E)             {key, do_##id, {1, sizeof(A)}},
#define CMP(op, type, id, T, E)
#define CMPH(op, type, id, read, E)
static const struct alu_row rows[] = {
#include "ptx.def"
};
#undef CMP
#undef CMPH
#define CMP(op, type, id, T, E)     {op, type, cmp_##id},
#define CMPH(op, type, id, read, E) {op, type, cmp_##id},
#undef UN
#undef BIN
#undef TER
#undef QUAD
#undef SEL
#undef PRED
#undef PRED1
#undef TEST
#define UN(key, id, D, A, E)
#define BIN(key, id, D, A, B, E)
#define TER(key, id, D, A, B, C, E)
#define QUAD(key, id, D, A, B, C, V, E)
#define SEL(key, id, T)
#define PRED(key, id, E)
#define PRED1(key, id, E)
#define TEST(key, id, A, E)
static const struct { const char *op; enum type type; compare_fn *fn; } compares[] = {
#include "ptx.def"
};

const struct alu_row *
ptx_alu_find(const char *key)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].key, key))
            return &rows[i];
    return NULL;
}

compare_fn *
ptx_compare_find(const char *op, enum type type)
{
    for (size_t i = 0; i < sizeof compares / sizeof *compares; i++)
        if (compares[i].type == type && !strcmp(compares[i].op, op))
            return compares[i].fn;
    return NULL;
}

/* ---- .ftz, .sat, roundings, and approximations that are wrong ---- */

static inline uint32_t
flush(uint32_t x)
{
    return x & 0x7f800000 ? x : x & 0x80000000;
}

static ref
flushed(struct warp *w, ref r, int k)
{
    const uint32_t *from = at(w, r);
    uint32_t       *to = (uint32_t *)w->scratch[k];

    for (int i = 0; i < LANES; i++)
        to[i] = flush(from[i]);
    return 3u << 30 | (uint32_t)k * sizeof w->scratch[0];
}

/* By a unit in the last place, up or down or not at all, as the bits of the result have it. */
static uint32_t
blurred(uint32_t x)
{
    uint32_t h = x * 0x9e3779b1u >> 24;

    if ((x & 0x7f800000) == 0x7f800000 || !(x & 0x7f800000) || (x & 0x7fffffff) == 0x00800000)
        return x;
    return h % 3 == 0 ? x + ((x & 0x7fffffff) < 0x7f7fffff) : h % 3 == 1 ? x - 1 : x;
}

void
ptx_alu_changed(struct warp *w, const struct insn *in, uint32_t m)
{
    const uint32_t change = in->change;
    struct insn    t = *in;

    if (change & CH_FTZ) {
        ref *const args[] = {&t.a, &t.b, &t.c};

        for (int k = 0; k < in->n; k++)
            *args[k] = flushed(w, *args[k], k);
    }
    if (change & CH_ROUND)
        fesetround(change & CH_RZ ? FE_TOWARDZERO : change & CH_RM ? FE_DOWNWARD : FE_UPWARD);
    in->changed(w, &t, m);
    if (change & CH_ROUND)
        fesetround(FE_TONEAREST);
    if (change & CH_APPROX && w->w->s->l->blurs) {
        uint32_t *d = at(w, in->d);

        FOR_LANES(m, d[i] = blurred(d[i]););
    }
    if (change & CH_FTZ && !in->compare) {
        uint32_t *d = at(w, in->d);

        FOR_LANES(m, d[i] = flush(d[i]););
    }
    if (change & CH_SAT && in->width == 4) {
        float *d = at(w, in->d);

        FOR_LANES(m, d[i] = d[i] > 0 ? (d[i] < 1 ? d[i] : 1) : 0;);
    } else if (change & CH_SAT && in->width == 8) {
        double *d = at(w, in->d);

        FOR_LANES(m, d[i] = d[i] > 0 ? (d[i] < 1 ? d[i] : 1) : 0;);
    } else if (change & CH_SAT) {
        uint16_t *d = at(w, in->d);

        FOR_LANES(m, float f = ptx_from_half(d[i]); d[i] = f > 0 ? (f < 1 ? d[i] : 0x3c00) : 0;);
    }
}

/* ---- what has no row ---- */

/* Predicates d and d2 = compare(a, b) `op` c, and not that. */
void
ptx_alu_setp(struct warp *w, const struct insn *in, uint32_t m)
{
    uint32_t bits = in->compare(at(w, in->a), at(w, in->b)), other = ~bits, c, *d;

    if (in->op) {
        c = *(uint32_t *)at(w, in->c) ^ (in->not_c ? UINT32_MAX : 0);
        bits = in->op == '&' ? bits & c : in->op == '|' ? bits | c : bits ^ c;
        other = in->op == '&' ? other & c : in->op == '|' ? other | c : other ^ c;
    }
    d = at(w, in->d);
    *d = (*d & ~m) | (bits & m);
    if (in->d2 != NO_REF) {
        d = at(w, in->d2);
        *d = (*d & ~m) | (other & m);
    }
}

/* The same as a number: all ones, or 1.0. */
void
ptx_alu_set(struct warp *w, const struct insn *in, uint32_t m)
{
    uint32_t bits = in->compare(at(w, in->a), at(w, in->b)), c, *d = at(w, in->d);
    uint16_t *half = at(w, in->d);

    if (in->op) {
        c = *(uint32_t *)at(w, in->c) ^ (in->not_c ? UINT32_MAX : 0);
        bits = in->op == '&' ? bits & c : in->op == '|' ? bits | c : bits ^ c;
    }
    if (in->width == 2)
        FOR_LANES(m, half[i] = bits >> i & 1 ? (uint16_t)in->imm : 0;);
    else
        FOR_LANES(m, d[i] = bits >> i & 1 ? (uint32_t)in->imm : 0;);
}

void
ptx_alu_lop3(struct warp *w, const struct insn *in, uint32_t m)
{
    uint32_t       *d = at(w, in->d);
    const uint32_t *a = at(w, in->a), *b = at(w, in->b), *c = at(w, in->c);
    uint32_t        use[8];

    for (int k = 0; k < 8; k++)
        use[k] = in->imm >> k & 1 ? UINT32_MAX : 0;
    FOR_LANES(m, const uint32_t x = a[i]; const uint32_t y = b[i]; const uint32_t z = c[i];
              d[i] = (use[0] & ~x & ~y & ~z) | (use[1] & ~x & ~y & z) | (use[2] & ~x & y & ~z) | (use[3] & ~x & y & z) |
                     (use[4] & x & ~y & ~z) | (use[5] & x & ~y & z) | (use[6] & x & y & ~z) | (use[7] & x & y & z););
}

static uint32_t
permute(uint32_t x, uint32_t y, uint32_t how, int mode)
{
    /* The bytes that each mode takes for the four values of its selector. */
    static const uint16_t modes[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                         {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                         {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    uint64_t both = (uint64_t)y << 32 | x;
    uint32_t r = 0, chosen = mode ? modes[mode - 1][how & 3] : how;

    for (int k = 0; k < 4; k++) {
        uint32_t s = chosen >> 4 * k & 15, byte = (uint32_t)(both >> 8 * (s & 7)) & 255;

        r |= (s & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * k;
    }
    return r;
}

void
ptx_alu_prmt(struct warp *w, const struct insn *in, uint32_t m)
{
    uint32_t       *d = at(w, in->d);
    const uint32_t *a = at(w, in->a), *b = at(w, in->b), *c = at(w, in->c);

    FOR_LANES(m, d[i] = permute(a[i], b[i], c[i], in->mode););
}

static inline uint64_t
lane_get(const void *p, int width, int i)
{
    return width == 8 ? ((const uint64_t *)p)[i] : width == 4 ? ((const uint32_t *)p)[i] : ((const uint16_t *)p)[i];
}

static inline void
lane_set(void *p, int width, int i, uint64_t value)
{
    if (width == 8)
        ((uint64_t *)p)[i] = value;
    else if (width == 4)
        ((uint32_t *)p)[i] = (uint32_t)value;
    else
        ((uint16_t *)p)[i] = (uint16_t)value;
}

/* d = the n registers of a vector, and back. */
void
ptx_alu_pack(struct warp *w, const struct insn *in, uint32_t m)
{
    const ref *v = w->w->s->m->refs + in->target;
    uint64_t   sum[LANES] = {0};

    for (int k = 0; k < in->n; k++) {
        const void *p = at(w, v[k]);

        for (int i = 0; i < LANES; i++)
            sum[i] |= lane_get(p, in->size, i) << 8 * in->size * k;
    }
    for (int i = 0; i < LANES; i++)
        if (m >> i & 1)
            lane_set(at(w, in->d), in->width, i, sum[i]);
}

void
ptx_alu_unpack(struct warp *w, const struct insn *in, uint32_t m)
{
    const ref  *v = w->w->s->m->refs + in->target;
    const void *p = at(w, in->a);
    uint64_t    whole[LANES];

    for (int i = 0; i < LANES; i++)
        whole[i] = lane_get(p, in->width, i);
    for (int k = 0; k < in->n; k++)
        for (int i = 0; i < LANES; i++)
            if (m >> i & 1 && v[k] != NO_REF)
                lane_set(at(w, v[k]), in->size, i, whole[i] >> 8 * in->size * k);
}

/* The address of a .local variable, which depends on the call. */
void
ptx_alu_local(struct warp *w, const struct insn *in, uint32_t m)
{
    const uint64_t value = w->current->local_at + (uint64_t)in->imm;

    for (int i = 0; i < LANES; i++)
        if (m >> i & 1)
            lane_set(at(w, in->d), in->width, i, value);
}

/* cvta, to or from a window; isspacep. */
void
ptx_alu_space(struct warp *w, const struct insn *in, uint32_t m)
{
    const uint64_t base = (uint64_t)in->imm;

    if (in->op == 'p') {
        const uint64_t *a = at(w, in->a);
        uint32_t       *d = at(w, in->d), bits = 0;

        for (int i = 0; i < LANES; i++)
            bits |= (a[i] & SPACE_MASK) == base ? 1u << i : 0;
        *d = (*d & ~m) | (bits & m);
        return;
    }
    for (int i = 0; i < LANES; i++)
        if (m >> i & 1) {
            uint64_t x = lane_get(at(w, in->a), in->size, i);

            lane_set(at(w, in->d), in->width, i, in->op == '+' ? x + base : x - base);
        }
}

/* Instructions so far stand for cycles. */
void
ptx_alu_clock(struct warp *w, const struct insn *in, uint32_t m)
{
    (void)in;
    (void)m;
    for (int i = 0; i < LANES; i++) {
        ((uint32_t *)at(w, SPECIAL(SP_CLOCK)))[i] = (uint32_t)(w->w->n_done + w->n_since);
        ((uint64_t *)at(w, SPECIAL(SP_CLOCK64)))[i] = (w->w->n_done + w->n_since);
    }
}

void
ptx_alu_activemask(struct warp *w, const struct insn *in, uint32_t m)
{
    uint32_t *d = at(w, in->d);

    FOR_LANES(m, d[i] = m;);
}

/* add.cc, addc and the like: the carry is a predicate at the beginning of each frame. */
void
ptx_alu_carry(struct warp *w, const struct insn *in, uint32_t m)
{
    uint32_t *cc = at(w, IN_FRAME);

    for (uint32_t rest = m; rest; rest &= rest - 1) {
        const int      i = __builtin_ctz(rest);
        const uint64_t x = lane_get(at(w, in->a), in->width, i), y = lane_get(at(w, in->b), in->width, i);
        const uint64_t ones = in->width == 8 ? ~0ull : 0xffffffff, carry = in->mode & 1 ? *cc >> i & 1 : 0;
        unsigned __int128 sum;

        if (in->op == '+') {
            sum = (unsigned __int128)x + y + carry;
        } else if (in->op == '-') {             /* the carry is a borrow */
            sum = (unsigned __int128)x - y - carry;
        } else {                                /* mad: 'l' or 'h' is the half of the product */
            unsigned __int128 product = (unsigned __int128)x * y;

            if (in->is_signed && in->op == 'h') {
                const int64_t sx = in->width == 8 ? (int64_t)x : (int32_t)x;
                const int64_t sy = in->width == 8 ? (int64_t)y : (int32_t)y;

                product = (unsigned __int128)((__int128)sx * sy);
            }
            product = in->op == 'h' ? product >> 8 * in->width : product;
            sum = (unsigned __int128)((uint64_t)product & ones) + lane_get(at(w, in->c), in->width, i) + carry;
        }
        lane_set(at(w, in->d), in->width, i, (uint64_t)sum & ones);
        if (in->mode & 2)
            *cc = (*cc & ~(1u << i)) | (uint32_t)(sum >> 8 * in->width & 1) << i;
    }
}
