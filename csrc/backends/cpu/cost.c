/* backends/cpu/cost.c -- see cost.h. */
#include "backends/cpu/cost.h"

#include "backends/cpu/pool.h"
#include "backends/cpu/space.h"
#include "base/clock.h"
#include "base/tune.h"

enum {
    PS_PER_US = 1000000,
    CLOSE_PS = 100000000,   /* up to here what is known is looked at again */
    FOLLOWS_NS = 25000,     /* a worker that had run would still be awake */
    FOLLOWS_TIMES = 3,      /* in a row: then it is woken for the next one */
    FIRST_TIMED = 2,        /* the first runs find cold caches */
    ALONE_EVERY = 8,        /* runs by one thread */
    TRIED_ALONE_EVERY = 64, /* runs by several */
    SLOWER = FR_COST_ONE * 19 / 20, /* threads have to save so much of a run that is CLOSE; longer ones, which memory may
                                     * limit now and not the next minute, must not be slower than the best by one */
    DOUBTFUL = FR_COST_ONE * 7 / 8, /* of those: whether one would take as long by now */
    EXPECTED = FR_COST_ONE * 6 / 10,
    MOST = FR_COST_ONE * 64,
    WORST = FR_COST_ONE * 3 / 2, /* a single run says no more: it may have waited for a processor */
    GATHERED_RUNS = 3, /* by several: then workers are awake and caches hold what each reads; none counts before, */
    HOPELESS = FR_COST_ONE * 2,    /* unless it takes so long */
    LEAST_LOST = FR_COST_ONE / 16, /* of the time of one, where several were of no use */
    WAIT_TIMES = 64, /* as long as the last of the trial's runs lost; a trial is some four, so some 6% are lost; */
    MOST_VAIN = 3,   /* half as much with each further trial in vain, up to so often */
};
static const int64_t MOST_WAIT_PS = 500000000000; /* by then others may have left the processors */

static FR_THREAD_LOCAL struct {
    int64_t ended_ns;
    int     n_times;
} follows;

static unsigned
get(const atomic_uint *of)
{
    return atomic_load_explicit(of, memory_order_relaxed);
}

static void
put(atomic_uint *of, unsigned to)
{
    atomic_store_explicit(of, to, memory_order_relaxed);
}

/* A share of FR_COST_ONE. */
static void
set(atomic_uint *of, double to)
{
    put(of, to < 1 ? 1 : to > MOST ? MOST : (unsigned)to);
}

double
fr_cost_rate(const struct fr_cost *c)
{
    unsigned rate = get(&c->rate);

    return rate ? (double)rate / FR_COST_ONE : 1;
}

/* What the run would take one thread, as far as is known. */
static int64_t
alone_ps(const struct fr_cost_run *r, const struct fr_cost *c)
{
    return fr_expect_saturate((double)r->ps * fr_cost_rate(c));
}

/* As many as have something to do. */
static int
threads_for(int64_t ps, int n_threads)
{
    int64_t n = ps / FR_GRAIN_PS;

    return n < 1 ? 1 : n < n_threads ? (int)n : n_threads;
}

bool
fr_cost_pays(int64_t ps, int n_threads, bool awake)
{
    int64_t n = threads_for(ps, n_threads);

    return n > 1 && ps - ps / n > 1000 * (awake ? fr_tune.awake_ns : fr_tune.asleep_ns);
}

/* Work that pays only if threads are awake comes in loops, or it does not. Where several such
 * launches have followed each other closely, the next will probably, too. */
static bool
follows_closely(void)
{
    bool soon = fr_now_ns() - follows.ended_ns < FOLLOWS_NS;

    follows.n_times = soon ? follows.n_times + 1 : 0;
    return follows.n_times >= FOLLOWS_TIMES;
}

/* From which share of the time of one thread on several are of no use. */
static unsigned
in_vain(int64_t ps)
{
    return ps < CLOSE_PS ? SLOWER : FR_COST_ONE;
}

/* Whether threads were of no use to this kernel of late, as where cores have no cache in common and what one writes
 * comes slowly to the other, or where others use the processors. Tried again after a time in runs by one. */
static bool
were_slower(struct fr_cost *c, int64_t ps)
{
    unsigned wait = get(&c->wait_us), us = (unsigned)(ps / PS_PER_US);

    if (get(&c->shared) <= in_vain(ps))
        return false;
    if (us < wait)
        put(&c->wait_us, wait - us);
    else
        set(&c->shared, in_vain(ps));
    return true;
}

/* A trial was in vain: several take `shared` times as long as one. */
static void
wait_longer(struct fr_cost *c, double shared, int64_t ps)
{
    unsigned n_vain = get(&c->n_vain);
    double   lost = shared - FR_COST_ONE < LEAST_LOST ? LEAST_LOST : shared - FR_COST_ONE;
    double   wait = (double)ps * lost / FR_COST_ONE * (WAIT_TIMES << n_vain);

    wait = wait < MOST_WAIT_PS ? wait : MOST_WAIT_PS;
    put(&c->wait_us, (unsigned)(wait / PS_PER_US));
    if (n_vain < MOST_VAIN)
        put(&c->n_vain, n_vain + 1);
}

/* How to find out more by this run. The first ones find cold caches. */
static enum fr_cost_timed
what_to_time(const struct fr_cost *c, unsigned n_runs, int64_t ps, bool pays)
{
    bool known = get(&c->rate) != 0;

    if (n_runs % ALONE_EVERY == FIRST_TIMED && (!pays || !known))
        return FR_COST_ALONE;
    if (n_runs % TRIED_ALONE_EVERY == FIRST_TIMED && ps < CLOSE_PS)
        return FR_COST_ALONE;
    if (n_runs % ALONE_EVERY == FIRST_TIMED && ps >= CLOSE_PS && get(&c->shared) > DOUBTFUL)
        return FR_COST_ALONE;
    return pays && known ? FR_COST_SHARED : FR_COST_UNTIMED;
}

void
fr_cost_begin(struct fr_cost_run *r, struct fr_cost *c)
{
    int      n_threads = fr_pool_size();
    unsigned n_runs;
    int64_t  ps;
    bool     pays;

    r->n_threads = 1;
    r->timed = FR_COST_UNTIMED;
    r->again = false;
    if (n_threads == 1 || r->ps < 1000 * fr_tune.alone_below_ns)
        return;
    n_runs = get(&c->n_runs);
    put(&c->n_runs, n_runs + 1);
    ps = alone_ps(r, c);
    if (ps >= fr_tune.shared_above_us * PS_PER_US) {
        r->n_threads = n_threads;
        return;
    }
    n_threads = threads_for(ps, n_threads);
    r->again = fr_cost_pays(ps, n_threads, true);
    pays = fr_cost_pays(ps, n_threads, fr_pool_awake() >= n_threads - 1);
    pays |= r->again && follows_closely();
    pays = pays && !were_slower(c, ps);
    r->timed = what_to_time(c, n_runs, ps, pays);
    if (pays && r->timed != FR_COST_ALONE)
        r->n_threads = n_threads;
    put(&c->n_shared, r->n_threads > 1 ? get(&c->n_shared) + 1 : 0);
    if (r->timed != FR_COST_UNTIMED)
        r->began_ns = fr_now_ns();
}

/* A run that took less than was thought is right: others were disturbed. Where memory is what they wait for, it may have
 * become slower for all. */
static void
ran_alone(struct fr_cost *c, double rate)
{
    unsigned known = get(&c->rate);
    int      part = get(&c->shared) > DOUBTFUL ? 3 : 8;

    if (known && rate > 2.0 * known)
        rate = 2.0 * known;
    set(&c->rate, !known || rate < known ? rate : known + (rate - known) / part);
}

static void
ran_shared(struct fr_cost *c, double shared, int64_t ps)
{
    double known = get(&c->shared) ? get(&c->shared) : EXPECTED;

    if (get(&c->n_shared) <= GATHERED_RUNS && shared < HOPELESS)
        return;
    shared = shared < WORST ? shared : WORST;
    known += (shared - known) / 8;
    set(&c->shared, known);
    if (known > in_vain(ps))
        wait_longer(c, shared, ps);
    else
        put(&c->n_vain, 0);
}

void
fr_cost_learn(const struct fr_cost_run *r, struct fr_cost *c, double times)
{
    if (r->timed == FR_COST_ALONE)
        ran_alone(c, times * FR_COST_ONE);
    else if (r->timed == FR_COST_SHARED)
        ran_shared(c, times / fr_cost_rate(c) * FR_COST_ONE, alone_ps(r, c));
}

void
fr_cost_end(const struct fr_cost_run *r, struct fr_cost *c)
{
    int64_t now;

    if (r->timed == FR_COST_UNTIMED && !r->again)
        return;
    now = fr_now_ns();
    if (r->again)
        follows.ended_ns = now;
    if (r->timed != FR_COST_UNTIMED)
        fr_cost_learn(r, c, (double)(now - r->began_ns) * 1000 / (double)r->ps);
}
