/* backends/cpu/mask.h -- elements that a mask of bools chooses: brought together, and put where they belong.
 *
 * Called by runtime/choose.c. The mask is read once, into a bit for each element, so that what was counted is what is
 * moved, whoever writes to the mask meanwhile. mask.inc.c is compiled once per instruction-set level, as
 * reduce.inc.c is. Memory need not be aligned to the element size; source and destination do not overlap. */
#ifndef FR_BACKENDS_CPU_MASK_H
#define FR_BACKENDS_CPU_MASK_H

#include <stddef.h>
#include <stdint.h>

#include "backends/host.h"

/* Bit i is set where mask[i] is not 0; those of the last word that are beyond n are not. Returns how many are set. */
typedef size_t fr_mask_pack_fn(size_t n, const void *mask, uint64_t *bits);

/* out becomes the elements of `in` whose bits are set, one after the other: `count` of them, and not more is written. */
typedef void fr_mask_compress_fn(size_t n_words, const uint64_t *bits, size_t count, const char *in, char *out);

/* The other way round: the elements of out whose bits are set become those of `in`, of which there are `count`, and no
 * others are written to. */
typedef void fr_mask_expand_fn(size_t n_words, const uint64_t *bits, size_t count, const char *in, char *out);

/* By the size of an element: 1, 2, 4, 8, 16 bytes. */
struct fr_mask_kernels {
    fr_mask_pack_fn     *pack;
    fr_mask_compress_fn *compress[17];
    fr_mask_expand_fn   *expand[17];
};
extern const struct fr_mask_kernels fr_mask_v2, fr_mask_v3, fr_mask_v4, fr_mask_generic;
extern const struct fr_mask_kernels *fr_mask;        /* the level in use, as fr_reduce */

#endif
