/* backends/cpu/pool.h -- the threads that run kernels.  Called by launch.c and the forms of a launch that share out
 * by themselves (tiles.c, short_rows.c, long_rows.c, stream.c); its size, by whoever plans for threads.
 *
 * A fixed team, started at the first parallel run, never touching Python.  All signals are blocked
 * in its threads. After fork the child starts a new team when it needs one; at exit and at
 * fr_pool_stop the threads are joined.  The caller takes part in its own run. */
#ifndef FR_BACKENDS_CPU_POOL_H
#define FR_BACKENDS_CPU_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/backend.h"
#include "base/status.h"

/* Threads that a run may use, the caller included: FRIT_NUM_THREADS or the usable processors. The
 * next run of the thread that asks has no more, so it may prepare scratch for so many workers. */
int       fr_pool_size(void);
/* 1 .. 256; joins the old team. Waits for a run that is under way, unless its caller is being
 * asked for an interrupt: then the next run changes the team. */
void      fr_pool_set_size(int n);

/* Calls task(arg, i, worker) for each i in [0, n), each exactly once, in parallel; `worker` is in
 * [0, fr_pool_size()) and at most one task at a time runs with it. Chunks are dealt out statically
 * and stolen when a worker is idle. Serial (worker 0) when n is 1, when the team has one thread,
 * when another thread's run is under way, or when threads cannot be made.
 * Returns false when the run was cancelled: tasks not yet begun are then skipped. */
bool      fr_pool_run(void (*task)(void *arg, int64_t i, int worker), void *arg, int64_t n);

/* Workers that wait for the next run without sleeping: they begin within a microsecond. */
int       fr_pool_awake(void);

struct fr_pool_stats {
    uint64_t n_runs, n_tasks; /* that were shared out, and what they consisted of */
};
void      fr_pool_stats(struct fr_pool_stats *);

/* Between two looks at what another thread is about to write. */
static inline void
fr_pool_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void      fr_pool_stop(void);
/* Idle the team before fork and forget it in the child: installed by fr_pool_init. */
fr_status fr_pool_init(struct fr_err *);

#endif
