/* backends/cpu/chosen.h -- rows of any size that the bits of a mask or indices choose.
 *
 * Called by runtime/choose.c. A row of 1, 2, 4, 8 or 16 bytes is an element to these. Source and destination do not
 * overlap, and need not be aligned. */
#ifndef FR_BACKENDS_CPU_CHOSEN_H
#define FR_BACKENDS_CPU_CHOSEN_H

#include <stddef.h>
#include <stdint.h>

/* out becomes the rows of `in` whose bits are set, `count` of them. bits: as mask.h makes them. */
void fr_chosen_gather(size_t n_words, const uint64_t *bits, size_t count, size_t row, const char *in, char *out);
/* The rows of out whose bits are set become those of `in`. */
void fr_chosen_spread(size_t n_words, const uint64_t *bits, size_t count, size_t row, const char *in, char *out);
/* The row at out + index[i] * step becomes the one at in + i * from (0: they are all the same), for i from 0 to n - 1. */
void fr_chosen_scatter(size_t n, size_t row, char *out, ptrdiff_t step, const int64_t *index, const char *in,
                       ptrdiff_t from);

#endif
