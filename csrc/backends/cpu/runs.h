/* backends/cpu/runs.h -- runs of whole pages in regions of 8 MB.
 *
 * Called by memory.c: blocks of less than a huge page are runs, and so are the slabs of small ones. A run is the first
 * that is long enough, from the lowest page of the oldest region on, and joins what is free beside it when it is
 * given back. So what is alive stays together, whatever sizes come and go, and a run is mostly memory that has just
 * been in use, which is in the caches. With a list of free blocks for each size class, as before, a map of 3,000 arrays
 * of 32 to 240 KB, each of another length, took 3.56 us instead of 3.07, and maps of up to 1.6 MB left 11.6 MB in the
 * lists instead of 2.1.
 *
 * Not thread-safe: the caller has a lock. */
#ifndef FR_BACKENDS_CPU_RUNS_H
#define FR_BACKENDS_CPU_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FR_RUN_MAX ((size_t)2 << 20)

/* n_bytes, up to FR_RUN_MAX, are rounded up to whole pages; `align` is a power of two between a page and
 * FR_RUN_MAX. NULL when memory is out. */
void    *fr_run_take(size_t n_bytes, size_t align);
void     fr_run_give(void *run, size_t n_bytes); /* the size it was asked for with */
/* What lies in free pages that hold memory. */
uint64_t fr_runs_kept(void);
/* Gives such memory back to the system, the newest regions' first, until at most `keep` bytes are left. */
void     fr_runs_drop(uint64_t keep);
/* In a child, where another thread was in the middle of something: what was free is lost, and what is in use is never
 * taken back. */
void     fr_runs_forget(void);

/* What a thread nobody waits for can do, without the lock, before somebody needs it. */
struct fr_runs_ahead {
    char *from, *to;       /* pages to be populated; from == to: none */
    bool  wants_region;    /* the next region is to be mapped: fr_runs_map_ahead, fr_runs_add */
};
bool  fr_runs_are_short(void);    /* is there something to do? */
struct fr_runs_ahead fr_runs_look_ahead(void);   /* takes it as done */
char *fr_runs_map_ahead(void);    /* without the lock. NULL when memory is out */
void  fr_runs_add(char *region);

#endif
