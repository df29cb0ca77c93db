/* backends/cpu/chosen.c -- rows of any size that the bits of a mask or indices choose. */
#include "backends/host.h"

#include <stdbool.h>
#include <string.h>

#include "backends/cpu/mask.h"

static bool
is_element(size_t row)
{
    return row <= 16 && (row & (row - 1)) == 0;
}

/* The next run of set bits: where it begins and how long it is; they are no longer set afterwards. */
static int
next_run(uint64_t *bits, int *n)
{
    int      first = __builtin_ctzll(*bits);
    uint64_t rest = ~(*bits >> first);

    *n = rest ? __builtin_ctzll(rest) : FR_MASK_WORD; /* the shift brings zeros in: it is all only from bit 0 on */
    *bits &= *n == FR_MASK_WORD ? 0 : ~(((UINT64_C(1) << *n) - 1) << first);
    return first;
}

void
fr_host_compress(size_t n_words, const uint64_t *bits, size_t count, size_t row, const char *in, char *out)
{
    if (is_element(row)) {
        fr_mask->compress[row](n_words, bits, count, in, out);
        return;
    }
    for (size_t w = 0; w < n_words; w++, in += FR_MASK_WORD * row) {
        int n;

        for (uint64_t b = bits[w]; b; out += (size_t)n * row) {
            int first = next_run(&b, &n);

            memcpy(out, in + (size_t)first * row, (size_t)n * row);
        }
    }
}

void
fr_host_expand(size_t n_words, const uint64_t *bits, size_t count, size_t row, const char *in, char *out)
{
    if (is_element(row)) {
        fr_mask->expand[row](n_words, bits, count, in, out);
        return;
    }
    for (size_t w = 0; w < n_words; w++, out += FR_MASK_WORD * row) {
        int n;

        for (uint64_t b = bits[w]; b; in += (size_t)n * row) {
            int first = next_run(&b, &n);

            memcpy(out + (size_t)first * row, in, (size_t)n * row);
        }
    }
}

typedef uint8_t  mem_1 __attribute__((may_alias));
typedef uint16_t mem_2 __attribute__((may_alias, aligned(1)));
typedef uint32_t mem_4 __attribute__((may_alias, aligned(1)));
typedef uint64_t mem_8 __attribute__((may_alias, aligned(1)));
typedef uint64_t mem_16 __attribute__((vector_size(16), may_alias, aligned(1)));

void
fr_host_scatter(size_t n, size_t row, char *out, ptrdiff_t step, const int64_t *index, const char *in, ptrdiff_t from)
{
#define CASE(S)                                                                                    \
    case S:                                                                                        \
        for (size_t i = 0; i < n; i++, in += from)                                                 \
            *(mem_##S *)(out + index[i] * step) = *(const mem_##S *)in;                            \
        break;
    switch (row) {
        CASE(1) CASE(2) CASE(4) CASE(8) CASE(16)
    default:
        for (size_t i = 0; i < n; i++, in += from)
            memcpy(out + index[i] * step, in, row);
    }
#undef CASE
}
