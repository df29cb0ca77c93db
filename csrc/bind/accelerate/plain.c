/* bind/accelerate/plain.c -- whether a call is a plain one (membrane.h), as counts tell: of the function's last calls, and of
 * the call itself on the way. The clock has no say, for the result is not to depend on it. */
#include "bind/accelerate/membrane.h"

#include "base/env.h"
#include "base/tune.h"
#include "base/ways.h"
#include "bind/numpy/npy.h"

enum {
    LARGE = 1 << 16, /* elements of an argument: with more a call is never plain */
    LOOK_AFTER = 64, /* plain calls to see whether that is still right, and then after 8 times as many */
    LOST = 16,       /* values that Python needed and calls handed to NumPy: with fewer it makes no difference */
    TURNS = 2        /* from then on it stays as it is */
};

/* What an operation costs, in hundredths of a microsecond (benchmarks.public, benchmarks.operations): for frit to trace it, and
 * to plan it; for NumPy on numbers, on arrays, and for each 10 elements of these. */
enum { TRACED = 20, PLANNED = 60, OF_NUMBERS = 9, OF_ARRAYS = 90 };

/* Whether a call was a loop over elements, or looked at each value, as far as counts tell. */
static bool
was_plain(const struct fr_call_counters *a, const struct fr_call_counters *b)
{
    uint64_t lost = b->n_syncs - a->n_syncs + b->n_fallbacks - a->n_fallbacks, nodes = b->n_nodes - a->n_nodes;
    uint64_t arrays = b->n_arrays - a->n_arrays, numbers = nodes > arrays ? nodes - arrays : 0;

    uint64_t plans = fr_info_since(b->n_plans, a->n_plans), evals = fr_info_since(b->n_evals, a->n_evals) + 1;

    return (lost >= LOST || nodes >= (uint64_t)fr_tune.plain_nodes) &&
           TRACED * nodes + PLANNED * nodes * plans / evals + (uint64_t)fr_tune.needed_10ns * lost >
               OF_NUMBERS * numbers + OF_ARRAYS * arrays + (b->n_elems - a->n_elems) / 10;
}

/* Whether such calls may be plain: not where all is to be seen as it would be with large arrays. */
static bool
may_be_plain(const struct fr_habit *h)
{
    const PyThreadState *t = PyThreadState_Get();

    return h->n_turns < TURNS && !fr_is_off(FR_OFF_unchanged) && fr_env.eager_elems > 0 && !fr_env_waits_for_code() &&
           !t->c_tracefunc && !t->c_profilefunc;
}

/* Whether this call is to be. */
bool
fr_plain_is(struct fr_habit *h, fr_args args, Py_ssize_t n_args)
{
    if (FR_LIKELY(!h->is_plain) || !may_be_plain(h))
        return false;
    for (Py_ssize_t i = 0; i < n_args; i++)
        if (PyArray_Check(args[i]) && PyArray_SIZE(fr_array(args[i])) > LARGE)
            return false;
    if (h->n_plain++ < h->look_at)
        return true;
    h->look_at = 8 * h->look_at;
    return false;
}

FR_THREAD_LOCAL uint64_t fr_plain_look_at;
static FR_THREAD_LOCAL struct look {
    struct fr_call_counters at;     /* the last look */
    int                     n_plain; /* looks, one after the other, that found such a loop */
    int                     n_turns; /* back from plain */
} look;
enum { LOOKS = 2 };

void
fr_plain_begin(const struct fr_habit *h, bool may_be)
{
    may_be = may_be && may_be_plain(h);
    fr_info_call_counters(&look.at);
    look.n_plain = look.n_turns = 0;
    fr_plain_look_at = may_be ? look.at.n_nodes + 2 * (uint64_t)fr_tune.plain_nodes : UINT64_MAX;
}

/* In a plain call that has become one: whether arrays are too large for that again. What is traced from then on is looked at
 * less often, so that a program that does both does not turn all the time. */
void
fr_plain_resume(void)
{
    look.n_turns++;
    fr_membrane_is_plain = false;
    fr_membrane_is_active = true;
    fr_lent_resume();
    fr_info_call_counters(&look.at);
    look.n_plain = 0;
    fr_plain_look_at = look.at.n_nodes + ((uint64_t)fr_tune.plain_nodes << (look.n_turns < 20 ? look.n_turns : 20));
}

bool
fr_plain_look(void)
{
    struct fr_call_counters now;

    fr_info_call_counters(&now);
    look.n_plain = was_plain(&look.at, &now) ? look.n_plain + 1 : 0;
    look.at = now;
    fr_plain_look_at = now.n_nodes + 2 * (uint64_t)fr_tune.plain_nodes;
    if (look.n_plain < LOOKS)
        return true;
    fr_plain_look_at = UINT64_MAX;
    return fr_lent_part();
}

void
fr_plain_judge(struct fr_habit *h, const struct fr_call_counters *before, const struct fr_call_counters *after,
                  bool became_plain)
{
    bool plain = may_be_plain(h) && (became_plain || was_plain(before, after));

    h->n_turns += h->is_plain && !plain;
    h->is_plain = plain;
    if (plain && !h->look_at)
        h->look_at = LOOK_AFTER;
}
