/* backends/cpu/mask.inc.c -- the kernels of mask.h for one level of instructions. Compiled as reduce.inc.c is.
 *
 * A word of 64 bits is all, nothing, or something in between. Where the level has it, a vector of what lies in between
 * is one instruction, or one shuffle by a table, whose vector of results is stored whole, as what is too much is written
 * over by the next. Elsewhere every element is stored and the place moves on by its bit. Neither has a branch that depends
 * on a single element, which for a mask without order is guessed wrong every other time. Where less than a word's room
 * is left, and in the last word, which may be cut off, elements are moved one by one. */
#include "backends/cpu/mask.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

enum { W = FR_MASK_WORD };

/* So few bits of a word are looked for one by one, which takes some 2 cycles for each; */
#if defined(__AVX2__)
enum { FEW = 6 };       /* vectors have 4 to 16 elements, in 3 cycles */
#else
enum { FEW = 20 };      /* an element takes 1 */
#endif

typedef uint8_t  mem_1 __attribute__((may_alias));
typedef uint16_t mem_2 __attribute__((may_alias, aligned(1)));
typedef uint32_t mem_4 __attribute__((may_alias, aligned(1)));
typedef uint64_t mem_8 __attribute__((may_alias, aligned(1)));
typedef uint64_t mem_16 __attribute__((vector_size(16), may_alias, aligned(1)));

/* ---- bytes to bits */

/* The bits of 64 bytes. */
static inline uint64_t
word_of(const char *m)
{
#if defined(__AVX512BW__)
    __m512i v = _mm512_loadu_si512(m);

    return _mm512_test_epi8_mask(v, v);
#elif defined(__AVX2__)
    __m256i a = _mm256_loadu_si256((const void *)m), b = _mm256_loadu_si256((const void *)(m + 32));
    __m256i zero = _mm256_setzero_si256();

    return ~((uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, zero)) |
             (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, zero)) << 32);
#elif defined(__x86_64__)
    uint64_t zeros = 0;

    for (int k = 0; k < 4; k++) {
        __m128i v = _mm_loadu_si128((const void *)(m + 16 * k));

        zeros |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_setzero_si128())) << (16 * k);
    }
    return ~zeros;
#else
    uint64_t bits = 0;

    for (int k = 0; k < W; k++)
        bits |= (uint64_t)(m[k] != 0) << k;
    return bits;
#endif
}

static size_t
pack(size_t n, const void *mask, uint64_t *bits)
{
    const char *m = mask;
    size_t      i = 0, count = 0;

    for (; i + W <= n; i += W) {
        bits[i / W] = word_of(m + i);
        count += (size_t)__builtin_popcountll(bits[i / W]);
    }
    if (i < n) {
        char rest[W] = {0};

        memcpy(rest, m + i, n - i);
        bits[i / W] = word_of(rest);
        count += (size_t)__builtin_popcountll(bits[i / W]);
    }
    return count;
}

/* ---- a part of a word: N elements at `in`, whose bits are the lowest of b; returns where the next one goes */

#define STEP(S) static inline char *step_##S(const char *in, char *out, uint64_t b)
#define BITS(b, N) ((uint32_t)((b) & ((UINT64_C(1) << (N)) - 1)))
#define ON(out, b, N, S) ((out) + (S) * __builtin_popcount(BITS(b, N)))

#if defined(__AVX512BW__)
enum { N_1 = 16, N_2 = 16, N_4 = 16, N_8 = 8, N_16 = 4 };

/* Bytes and pairs go through numbers of 32 bits: their own instruction came later than this level. */
STEP(1)
{
    __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)in));

    v = _mm512_maskz_compress_epi32((__mmask16)b, v);
    _mm_storeu_si128((void *)out, _mm512_cvtepi32_epi8(v));
    return ON(out, b, N_1, 1);
}
STEP(2)
{
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)in));

    v = _mm512_maskz_compress_epi32((__mmask16)b, v);
    _mm256_storeu_si256((void *)out, _mm512_cvtepi32_epi16(v));
    return ON(out, b, N_2, 2);
}
STEP(4)
{
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32((__mmask16)b, _mm512_loadu_si512(in)));
    return ON(out, b, N_4, 4);
}
STEP(8)
{
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi64((__mmask8)b, _mm512_loadu_si512(in)));
    return ON(out, b, N_8, 8);
}
/* Each of four bits twice. */
static const uint8_t twice[16] = {0x00, 0x03, 0x0c, 0x0f, 0x30, 0x33, 0x3c, 0x3f,
                                  0xc0, 0xc3, 0xcc, 0xcf, 0xf0, 0xf3, 0xfc, 0xff};
STEP(16)
{
    __mmask8 both = twice[b & 15];

    _mm512_storeu_si512(out, _mm512_maskz_compress_epi64(both, _mm512_loadu_si512(in)));
    return ON(out, b, N_16, 16);
}
#else

/* Stores each element, and stays where it is if its bit is not set. */
#define SCALAR_STEP(S, N)                                                                          \
    enum { N_##S = N };                                                                            \
    STEP(S)                                                                                        \
    {                                                                                              \
        for (int k = 0; k < N; k++, b >>= 1) {                                                     \
            *(mem_##S *)out = ((const mem_##S *)in)[k];                                            \
            out += (b & 1) * S;                                                                    \
        }                                                                                          \
        return out;                                                                                \
    }
SCALAR_STEP(1, 8)
SCALAR_STEP(2, 8)
SCALAR_STEP(16, 4)

#if defined(__AVX2__)
/* Of eight bits m, the places of those that are set, as bytes in their order. */
#define PLACE(m, k)                                                                                \
    ((m) >> (k) & 1 ? UINT64_C(k) << 8 * __builtin_popcount((m) & ((1 << (k)) - 1)) : 0)
#define PLACES(m)                                                                                  \
    (PLACE(m, 0) | PLACE(m, 1) | PLACE(m, 2) | PLACE(m, 3) | PLACE(m, 4) | PLACE(m, 5) |           \
     PLACE(m, 6) | PLACE(m, 7))
#define PLACES_4(m) PLACES(m), PLACES(m + 1), PLACES(m + 2), PLACES(m + 3)
#define PLACES_16(m) PLACES_4(m), PLACES_4(m + 4), PLACES_4(m + 8), PLACES_4(m + 12)
#define PLACES_64(m) PLACES_16(m), PLACES_16(m + 16), PLACES_16(m + 32), PLACES_16(m + 48)
static const uint64_t places[256] = {PLACES_64(0), PLACES_64(64), PLACES_64(128), PLACES_64(192)};

enum { N_4 = 8, N_8 = 4 };

static inline void
shuffle_8(const char *in, char *out, uint64_t lanes)
{
    __m256i at = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)lanes));

    _mm256_storeu_si256((void *)out, _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const void *)in), at));
}
STEP(4)
{
    shuffle_8(in, out, places[BITS(b, 8)]);
    return ON(out, b, N_4, 4);
}
/* Each of four bits twice: numbers of 64 bits are two of 32. */
static const uint8_t twice[16] = {0x00, 0x03, 0x0c, 0x0f, 0x30, 0x33, 0x3c, 0x3f,
                                  0xc0, 0xc3, 0xcc, 0xcf, 0xf0, 0xf3, 0xfc, 0xff};
STEP(8)
{
    shuffle_8(in, out, places[twice[BITS(b, 4)]]);
    return ON(out, b, N_8, 8);
}
#else
SCALAR_STEP(4, 8)
SCALAR_STEP(8, 8)
#endif
#endif

/* ---- all of it */

#define COMPRESS(S)                                                                                \
    static void compress_##S(size_t n_words, const uint64_t *bits, size_t count, const char *in, char *out) \
    {                                                                                              \
        const char *end = out + count * S;                                                         \
                                                                                                   \
        for (size_t w = 0; w < n_words; w++, in += W * S) {                                        \
            uint64_t b = bits[w];                                                                  \
                                                                                                   \
            if (b == UINT64_MAX) {                                                                 \
                memcpy(out, in, W * S);                                                            \
                out += W * S;                                                                      \
            } else if (__builtin_popcountll(b) <= FEW || w + 1 == n_words || end - out < W * S) {  \
                for (; b; b &= b - 1, out += S)                                                    \
                    *(mem_##S *)out = ((const mem_##S *)in)[__builtin_ctzll(b)];                   \
            } else {                                                                               \
                for (int k = 0; k < W; k += N_##S)                                                 \
                    out = step_##S(in + k * S, out, b >> k);                                       \
            }                                                                                      \
        }                                                                                          \
    }
COMPRESS(1)
COMPRESS(2)
COMPRESS(4)
COMPRESS(8)
COMPRESS(16)

/* A vector of what is put in is spread by one instruction, and stored where its bits are set. */
#if defined(__AVX512BW__)
static inline const char *
spread_4(const char *in, char *out, uint64_t b)
{
    _mm512_mask_storeu_epi32(out, (__mmask16)b, _mm512_maskz_expand_epi32((__mmask16)b, _mm512_loadu_si512(in)));
    return ON(in, b, N_4, 4);
}
static inline const char *
spread_8(const char *in, char *out, uint64_t b)
{
    _mm512_mask_storeu_epi64(out, (__mmask8)b, _mm512_maskz_expand_epi64((__mmask8)b, _mm512_loadu_si512(in)));
    return ON(in, b, N_8, 8);
}
#define SPREADS(S) (S == 4 || S == 8) /* of 16 bytes it takes longer than one by one */
#else
#define SPREADS(S) 0
#define spread_4(in, out, b) (in)
#define spread_8(in, out, b) (in)
#endif
#define spread_1(in, out, b) (in)
#define spread_2(in, out, b) (in)
#define spread_16(in, out, b) (in)

#define EXPAND(S)                                                                                  \
    static void expand_##S(size_t n_words, const uint64_t *bits, size_t count, const char *in, char *out) \
    {                                                                                              \
        const char *end = in + count * S;                                                          \
                                                                                                   \
        for (size_t w = 0; w < n_words; w++, out += W * S) {                                       \
            uint64_t b = bits[w];                                                                  \
                                                                                                   \
            if (b == UINT64_MAX) {                                                                 \
                memcpy(out, in, W * S);                                                            \
                in += W * S;                                                                       \
            } else if (!SPREADS(S) || __builtin_popcountll(b) <= FEW || end - in < W * S) {        \
                for (; b; b &= b - 1, in += S)                                                     \
                    ((mem_##S *)out)[__builtin_ctzll(b)] = *(const mem_##S *)in;                   \
            } else {                                                                               \
                for (int k = 0; k < W; k += N_##S)                                                 \
                    in = spread_##S(in, out + k * S, b >> k);                                      \
            }                                                                                      \
        }                                                                                          \
    }
EXPAND(1)
EXPAND(2)
EXPAND(4)
EXPAND(8)
EXPAND(16)

#define BY_SIZE(name) {[1] = name##_1, [2] = name##_2, [4] = name##_4, [8] = name##_8, [16] = name##_16}

const struct fr_mask_kernels PASTE(fr_mask_, FR_LEVEL) = {
    .pack = pack, .compress = BY_SIZE(compress), .expand = BY_SIZE(expand),
};
