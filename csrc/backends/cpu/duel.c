/* backends/cpu/duel.c -- see duel.h. */
#include "backends/cpu/duel.h"

#include "base/clock.h"

enum {
    ONE = 1024,
    MOST = ONE * 1024,
    FIRST_RUNS = 10,      /* by turns: the first of each finds cold caches, the best of the others counts */
    CLOSE_EVERY = 256,    /* runs; where the slower one takes up to half as long again */
    FAR_EVERY = 4096,
    FEW = 32,             /* elements of a row */
    MANY = 256,
};
static const int64_t LONG_PS = 50000000;

static unsigned
get(const atomic_uint *of)
{
    return atomic_load_explicit(of, memory_order_relaxed);
}

static struct fr_duel_class *
class_of(struct fr_duel *d, int64_t ps, int64_t n_inner)
{
    return &d->of[(n_inner > FEW) + (n_inner > MANY) + 3 * (ps > LONG_PS)];
}

/* Within a twentieth code is taken: it does not get slower with more operands. */
static int
faster(const struct fr_duel_class *c)
{
    return (double)get(&c->rate[FR_DUEL_INTERPRETED]) < 0.95 * (double)get(&c->rate[FR_DUEL_COMPILED])
               ? FR_DUEL_INTERPRETED
               : FR_DUEL_COMPILED;
}

static bool
is_close(const struct fr_duel_class *c, int best)
{
    return (double)get(&c->rate[1 - best]) < 1.5 * (double)get(&c->rate[best]);
}

int
fr_duel_begin(struct fr_duel_run *r, struct fr_duel *d, int64_t ps, int64_t n_inner)
{
    struct fr_duel_class *c = class_of(d, ps, n_inner);
    unsigned              n = get(&c->n_runs), turn;

    atomic_store_explicit(&c->n_runs, n + 1, memory_order_relaxed);
    *r = (struct fr_duel_run){.of = c, .ps = ps};
    if (n < FIRST_RUNS) {
        r->executor = n % 2 ? FR_DUEL_INTERPRETED : FR_DUEL_COMPILED;
    } else {
        r->executor = faster(c);
        turn = n % (is_close(c, r->executor) ? CLOSE_EVERY : FAR_EVERY);
        if (turn == 0)
            r->executor = 1 - r->executor;
        else if (turn != 1)
            r->of = NULL;
    }
    if (r->of)
        r->began_ns = fr_now_ns();
    return r->executor;
}

/* A run that took less than was known is right: others were disturbed. */
void
fr_duel_learn(const struct fr_duel_run *r, double times)
{
    atomic_uint *rate = &r->of->rate[r->executor];
    double       known = get(rate), took = times * ONE;

    if (known > 0 && took > known)
        took = get(&r->of->n_runs) <= FIRST_RUNS ? known : known + (took - known) / 4;
    atomic_store_explicit(rate, took < 1 ? 1 : took > MOST ? MOST : (unsigned)took, memory_order_relaxed);
}

void
fr_duel_end(const struct fr_duel_run *r, int n_threads)
{
    if (r->of)
        fr_duel_learn(r, (double)(fr_now_ns() - r->began_ns) * 1000 * n_threads / (double)r->ps);
}
