/* backends/cpu/cost.h -- how long a launch takes, and whether threads make it shorter. Called by
 * launch.c.
 *
 * What a nest's instructions let expect (backends/expect.h) is off by up to four times
 * for programs that nobody has looked at. So runs of a kernel are timed now and then: by one
 * thread, which corrects the expectation, and by all, which tells whether they were worth it, on
 * this machine and beside whatever else it does. Only launches of a microsecond or more are timed,
 * and only where there are threads to choose. */
#ifndef FR_BACKENDS_CPU_COST_H
#define FR_BACKENDS_CPU_COST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { FR_COST_ONE = 1024 };

/* What is known of one kernel with one executor. All zero: nothing. */
struct fr_cost {
    atomic_uint n_runs;   /* with threads to choose */
    atomic_uint n_shared; /* the last ones by several threads, one after the other */
    atomic_uint rate;     /* time by one thread over time expected, in units of FR_COST_ONE */
    atomic_uint shared;   /* time by several threads over time by one, likewise */
    atomic_uint wait_us;  /* of runs by one thread, until several are tried again */
    atomic_uint n_vain;   /* trials of several, one after the other, that were of no use */
};

enum fr_cost_timed { FR_COST_UNTIMED, FR_COST_ALONE, FR_COST_SHARED };

/* One launch. */
struct fr_cost_run {
    int64_t            ps; /* as expected from the instructions */
    int                n_threads;
    enum fr_cost_timed timed;
    int64_t            began_ns;
    bool               again; /* note when it ends: the next may follow at once */
};

/* Whether n_threads finish `ps` of work sooner than one. */
bool fr_cost_pays(int64_t ps, int n_threads, bool awake);

/* Before a run that is expected to take r->ps: chooses r->n_threads. */
void fr_cost_begin(struct fr_cost_run *r, struct fr_cost *);
/* After it. */
void fr_cost_end(const struct fr_cost_run *r, struct fr_cost *);

/* What fr_cost_end does with the clock's answer: a run took `times` as long as r->ps says. */
void fr_cost_learn(const struct fr_cost_run *r, struct fr_cost *, double times);
/* By what to multiply an expected time, as far as is known. */
double fr_cost_rate(const struct fr_cost *);

#endif
