/* backends/cpu/copy.h -- moves elements between strided and contiguous memory; converts nothing.
 *
 * Called by the block interpreter (loads and stores of strided operands) and by whoever
 * materialises a view. Strides are in bytes, any sign, zero too (a source that is broadcast).
 * Element sizes are 1, 2, 4, 8 and 16. Memory need not be aligned to the element size. Source and
 * destination do not overlap. */
#ifndef FR_BACKENDS_CPU_COPY_H
#define FR_BACKENDS_CPU_COPY_H

#include <stddef.h>

/* dst[i] = src[i * stride], dst contiguous. */
void fr_copy_gather(size_t n, int size, void *dst, const void *src, ptrdiff_t stride);
/* dst[i * stride] = src[i], src contiguous. */
void fr_copy_scatter(size_t n, int size, void *dst, ptrdiff_t stride, const void *src);
/* n_bytes of src, past the caches; what another thread reads has been settled after the last of these. Memory would
 * have no more to do meanwhile, so it is asked for as many from each of `ahead`, which need not be there. */
void fr_copy_nontemporal(void *dst, const void *src, size_t n_bytes, const char *const *ahead, int n_ahead);
void fr_copy_settle(void);
/* dst[i] = *src. */
void fr_copy_fill(size_t n, int size, void *dst, const void *src);
/* dst[r * dst_row + c * dst_col] = src[r * src_row + c * src_col]; tiled when one side runs along
 * rows and the other along columns. */
void fr_copy_2d(size_t n_rows, size_t n_cols, int size, void *dst, ptrdiff_t dst_row,
                ptrdiff_t dst_col, const void *src, ptrdiff_t src_row, ptrdiff_t src_col);

/* Row r of dst, n elements side by side and the rows too, becomes the elements at offset[0 .. n - 1] bytes from
 * src + r * src_row. */
void fr_copy_picked(size_t n_rows, size_t n, int size, void *dst, const void *src, ptrdiff_t src_row,
                    const ptrdiff_t *offset);

/* A transposition: row r of dst, whose elements lie side by side, is element r of each column of
 * src, whose elements do so, too. For tiles of some cache lines' height, read from afar and written
 * near: each line of src is brought in once, ahead of its use. Where n_next elements of each column, `next` bytes
 * further on, are what is read next, those are asked for; 0: the columns that follow. */
void fr_copy_transposed(size_t n_rows, size_t n_cols, int size, void *dst, ptrdiff_t dst_row,
                    const void *src, ptrdiff_t src_col, ptrdiff_t next, size_t n_next);

#endif
