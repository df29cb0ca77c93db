/* backends/cpu/memory.h -- where array memory comes from: a pool of huge pages.
 *
 * Called by runtime (results, arenas of plans). Everything is 64-byte aligned and padded to a
 * multiple of 64 bytes; all lie in huge pages (MADV_HUGEPAGE), blocks of 2 MB and more near the beginning of one.
 * Freed blocks are reused, and given back to the system beyond a cap (a share of what is live). Thread-safe. Memory is
 * not zeroed. */
#ifndef FR_BACKENDS_CPU_MEMORY_H
#define FR_BACKENDS_CPU_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"

/* NULL when memory is out (after the pool's own free blocks have been given back). n_bytes may be 0. */
void *fr_memory_alloc(size_t n_bytes);
void  fr_memory_free(void *p, size_t n_bytes);  /* the size it was asked for with */

/* On a thread that nobody waits for: has the pages that the next blocks will need, which takes as long as many small
 * evaluations (a huge page 30 us, 5 ms where the kernel has to make room for one). */
void  fr_memory_look_ahead(void);
void  fr_memory_stats(struct fr_memory_stats *);
void  fr_memory_reset_peak(void);
/* So many bytes more, or less, count as live where the peak is taken, though they are no memory of ours. */
void  fr_memory_count(int64_t n_bytes);
/* The peak so far; from here on it is this, if not more is live. */
uint64_t fr_memory_take_peak(uint64_t peak);
/* Gives every free block back to the system. */
void  fr_memory_trim(void);

#endif
