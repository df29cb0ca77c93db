/* base/alloc.h -- the only malloc of the project.  Any allocation can be made to fail, so tests
 * sweep n and see every error path.  Array memory (large, pooled) comes from backends/cpu/memory.h,
 * which asks fr_alloc_may_fail() first. */
#ifndef FR_BASE_ALLOC_H
#define FR_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

void  *fr_malloc(size_t n_bytes);
void  *fr_calloc(size_t n, size_t n_bytes);
void  *fr_realloc(void *p, size_t n_bytes);
void   fr_free(void *p);                         /* NULL is fine */

/* A block of FR_BLOCK_BYTES for work that comes again and again. The first ones are there from the beginning, pages and
 * all: a page that is touched for the first time takes as long as a pass over a small graph. A few of the others are
 * kept for the next who asks when they are put back, and do not count as live. On any thread. */
enum { FR_BLOCK_BYTES = 8192 };
void   fr_blocks_init(void);                     /* without memory there are no first ones */
void  *fr_block_get(void);
void   fr_block_put(void *);

/* Has the C library keep up to some 16 MB of its heap that are freed, as it does by itself once a block of 8 MB was freed:
 * programs whose temporaries are smaller than that would clear their pages anew each time. */
void   fr_alloc_keep_heap(void);

/* True when the running simulation wants this system call or allocation to fail. */
bool   fr_alloc_may_fail(void);
/* Makes the n-th call from now on fail (1 is the next); 0 switches the simulation off. */
void   fr_alloc_fail_at(long n);
/* How many calls have been asked for since fr_alloc_fail_at. */
long   fr_alloc_count(void);
/* Allocations that are live now: a test that compares before and after finds leaks. */
long   fr_alloc_live(void);

/* Grows *p to hold at least n items of `size` bytes; *cap counts items. False when memory is out. */
bool   fr_grow(void *p, size_t *cap, size_t n, size_t size);
/* Makes room for one more item in a growable array. */
#define FR_GROW(array, cap, n) ((n) <= (cap) || fr_grow(&(array), &(cap), (n), sizeof *(array)))

#endif
