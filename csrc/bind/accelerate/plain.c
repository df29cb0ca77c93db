/* bind/accelerate/plain.c -- whether a call is a plain one (membrane.h), as counts tell: of the function's last calls, and of
 * the call itself on the way. Where counts leave it open, long calls are timed, a few of each kind. */
#include "bind/accelerate/crossing.h"

#include "base/env.h"
#include "base/log.h"
#include "base/tune.h"
#include "base/ways.h"
#include "bind/numpy/npy.h"
#include "ir/node.h"

enum {
    LARGE = 1 << 16, /* elements of an argument: with more a call is never plain */
    LOOK_AFTER = 64, /* plain calls to see whether that is still right, and then after 8 times as many */
    UNPLANNED = 12288,/* nodes: a plan of them takes longer than NumPy if each has fewer elements than */
    FEW_ELEMS = 32,
    OPEN = 2,         /* times the cost: then it is still open who is sooner; */
    OPEN_FEW = 12,    /* and where operations have few elements, so that loops may leave Python, as FEW on an average */
    FEW = 256,
    LATE = 32,        /* calls, after which it is always open */
    SETTLED = 8,      /* calls, and */
    SETTLED_LOOKS = 16, /* looks, in which plans are made that may come back */
    LOST = 16,       /* values that Python needed and calls handed to NumPy: with fewer it makes no difference */
    TURNS = 2        /* from then on it stays as it is */
};

/* What things cost, in hundredths of a microsecond, as a fit to 37 programs of benchmarks.public has them that ran both ways: of
 * a traced call the tensors that are made, of operations and of views, evaluations, calls handed to NumPy, nodes of graphs
 * without a known plan, and each thousand elements; of a plain one operations on arrays and on numbers, views, and the like. */
enum { OBJECT = 17, EVALUATED = 65, HANDED = 125, STRANGE = 70, ELEMENTS = 30 };
enum { OF_ARRAYS = 29, OF_NUMBERS = 2, OF_VIEWS = 39, OF_HANDED = 275, OF_ELEMENTS = 140 };

/* Calls that are timed: after some that compile and plan a few of the one kind, and then of the other. What else goes on
 * meanwhile may mislead, a compiler above all: the same is done again when there have been twice as many calls. */
enum { WARM = 1, TIMED = 1, LATELY = 8, TRIED = 2, LATE_TIMED = 2, TOO_SHORT = 200000 /* ns */ };

/* What a call, or a part of one, cost as it was traced, and what it would cost as a plain one. */
struct costs {
    uint64_t traced, plain;
};

/* Values that Python needed and calls handed to NumPy. */
static uint64_t
lost_of(const struct fr_call_counters *a, const struct fr_call_counters *b)
{
    return fr_info_since(b->n_syncs, a->n_syncs) + fr_info_since(b->n_fallbacks, a->n_fallbacks);
}

/* `settled`: what has no plan by now will have none the next time either. */
static struct costs
costs_of(const struct fr_call_counters *a, const struct fr_call_counters *b, bool settled)
{
    uint64_t nodes = b->n_nodes - a->n_nodes, arrays = b->n_arrays - a->n_arrays, objects = b->n_objects - a->n_objects;
    uint64_t handed = fr_info_since(b->n_fallbacks, a->n_fallbacks), elems = b->n_elems - a->n_elems;
    uint64_t strange = settled ? fr_info_since(b->n_strange, a->n_strange) : 0;

    return (struct costs){
        .traced = OBJECT * objects + EVALUATED * fr_info_since(b->n_evals, a->n_evals) + HANDED * handed + STRANGE * strange +
                  (uint64_t)fr_tune.needed_10ns * fr_info_since(b->n_syncs, a->n_syncs) + ELEMENTS * elems / 1000,
        .plain = OF_ARRAYS * arrays + OF_NUMBERS * (nodes > arrays ? nodes - arrays : 0) +
                 OF_VIEWS * (objects > nodes ? objects - nodes : 0) + OF_HANDED * handed + OF_ELEMENTS * elems / 1000};
}

/* Whether it made many small arrays. */
static bool
has_few_elements(const struct fr_call_counters *a, const struct fr_call_counters *b)
{
    return b->n_nodes - a->n_nodes >= (uint64_t)fr_tune.plain_nodes && b->n_elems - a->n_elems < FEW * (b->n_nodes - a->n_nodes);
}

/* Whether a call was a loop over elements, or looked at each value, as far as counts tell. */
static bool
was_plain(const struct fr_call_counters *a, const struct fr_call_counters *b, bool settled)
{
    struct costs c = costs_of(a, b, settled);

    return (lost_of(a, b) >= LOST || b->n_nodes - a->n_nodes >= (uint64_t)fr_tune.plain_nodes) && c.traced > c.plain + c.plain / 8;
}

bool
fr_plain_is_less(const struct fr_call_counters *before, const struct fr_call_counters *after)
{
    struct costs c = costs_of(before, after, false);

    return was_plain(before, after, false) && c.traced > 3 * c.plain / 2;
}

bool
fr_plain_is_allowed(void)
{
    return !fr_is_off(FR_OFF_unchanged) && !fr_call_keeps && fr_env.eager_elems > 0 && !fr_env_waits_for_code() && !fr_callee_is_traced();
}

static bool
may_be_plain(const struct fr_habit *h)
{
    return (h->n_turns < TURNS || h->is_timed) && fr_plain_is_allowed();
}

static bool
has_large(fr_args args, Py_ssize_t n_args)
{
    for (Py_ssize_t i = 0; i < n_args; i++)
        if (PyArray_Check(args[i]) && PyArray_SIZE(fr_array(args[i])) > LARGE)
            return true;
    return false;
}

bool
fr_plain_is_tried(const struct fr_habit *h)
{
    return h->is_open && !h->is_settled && h->n_other >= WARM + TIMED && h->n_other >= h->try_at && h->other_ns >= TOO_SHORT;
}

/* Whether this call is to be. */
bool
fr_plain_is(struct fr_habit *h, fr_args args, Py_ssize_t n_args)
{
    if (FR_LIKELY(!h->is_plain && !h->begins && !fr_plain_is_tried(h)) || !may_be_plain(h) || has_large(args, n_args)) {
        h->begins = false;
        return false;
    }
    if (!h->is_plain || h->n_plain++ < h->look_at)
        return true;
    h->look_at = 8 * h->look_at;
    return false;
}

bool
fr_plain_is_timed(const struct fr_habit *h, bool plain)
{
    if (plain)
        return !h->is_plain || h->begins || h->n_turns > 0 || h->n_plain + 1 >= h->look_at;
    return h->is_timed || (h->is_open && !h->is_settled && h->n_other >= WARM && h->n_other + LATELY >= h->try_at) ||
           (h->n_turns == TURNS && h->n_late <= LATE_TIMED);
}

/* Whether plain calls are sooner, and by more than calls differ. */
static bool
is_sooner(const struct fr_habit *h)
{
    return h->plain_ns && h->plain_ns < h->other_ns - h->other_ns / 16;
}

/* From now on calls are plain since that is sooner. */
static void
settle(struct fr_habit *h)
{
    if (fr_env.debug >= 1)
        fr_log(1, "calls took %lld ns as plain ones, and %lld", (long long)h->plain_ns, (long long)h->other_ns);
    if (!is_sooner(h))
        return;
    h->is_plain = h->is_timed = true;
    h->n_plain = 0;
    h->look_at = LOOK_AFTER / 8;
}

/* Notes how long a plain call took that was made for that. False: it is to be made once more. */
static bool
note_try(struct fr_habit *h, int64_t ns)
{
    bool first = h->n_tried++ == 0;

    h->plain_ns = first || ns < h->plain_ns ? ns : h->plain_ns;
    if (h->n_tried < TRIED && ns >= 3 * h->other_ns / 4 && ns < 2 * h->other_ns)
        return false;
    h->n_tried = 0;
    h->try_at = 2 * h->n_other;
    h->is_settled = h->plain_ns >= 3 * h->other_ns / 2;
    return true;
}

void
fr_plain_time(struct fr_habit *h, bool plain, int64_t ns)
{
    int64_t *least = plain ? &h->plain_ns : &h->other_ns;

    if (plain && !h->is_plain) {
        if (!note_try(h, ns))
            return;
        settle(h);
        if (!h->is_plain)
            h->other_ns = 0; /* of those that come until it is tried again */
    } else { /* once calls have been settled for long the last one counts */
        *least = *least && *least < ns && !h->is_timed ? *least : ns;
    }
}

void
fr_plain_note_first(struct fr_habit *h, bool left_python, int64_t ns)
{
    h->begins = false;
    if (!left_python)
        return;
    h->is_plain = h->is_timed = true;
    h->plain_ns = ns;
    h->n_plain = 0;
    h->look_at = LOOK_AFTER;
}

void
fr_plain_note_other(struct fr_habit *h, int64_t ns)
{
    if (h->n_other++ >= WARM)
        fr_plain_time(h, false, ns);
    h->is_open = !fr_is_off(FR_OFF_unchanged);
}

bool
fr_plain_is_sooner(struct fr_habit *h, int64_t ns)
{
    bool tried = note_try(h, ns), sooner = tried && is_sooner(h);

    if (tried && !sooner)
        h->other_ns = 0;
    return sooner;
}

void
fr_plain_met_large(struct fr_habit *h)
{
    if (!h->is_plain || h->is_timed)
        return;
    h->n_turns++;
    h->is_plain = false;
    h->n_late = 0;
}

FR_THREAD_LOCAL uint64_t fr_plain_look_at;
static FR_THREAD_LOCAL struct look {
    struct fr_call_counters at;     /* the last look */
    int                     n_looks;
    int                     n_plain; /* looks, one after the other, that found such a loop */
    int                     n_turns; /* back from plain */
} look;
enum { LOOKS = 2, SELDOM = 61 };
static FR_THREAD_LOCAL unsigned n_asked;
static FR_THREAD_LOCAL bool     resuming; /* as soon as no function is in the second copy of its code */

void
fr_plain_begin(const struct fr_habit *h, bool may_be)
{
    may_be = may_be && may_be_plain(h) && !(h->try_at && !h->is_plain);
    fr_info_call_counters(&look.at);
    look.n_plain = look.n_turns = look.n_looks = 0;
    resuming = false;
    fr_plain_look_at = may_be ? look.at.n_nodes + 2 * (uint64_t)fr_tune.plain_nodes : UINT64_MAX;
}

/* In a plain call that has become one: whether arrays are too large for that again. What is traced from then on is looked at
 * less often, so that a program that does both does not turn all the time. */
bool
fr_plain_resume(void)
{
    resuming = !fr_whose_all_cross();
    if (resuming)
        return false;
    look.n_turns++;
    fr_membrane_is_plain = false;
    fr_membrane_is_active = true;
    fr_lent_resume();
    fr_info_call_counters(&look.at);
    look.n_plain = 0;
    fr_plain_look_at = look.at.n_nodes + ((uint64_t)fr_tune.plain_nodes << (look.n_turns < 20 ? look.n_turns : 20));
    return true;
}

bool
fr_plain_is_seldom(void)
{
    return ++n_asked % SELDOM != 0 && !resuming;
}

/* Whether what is pending is more than any loop that comes back the same: it will be planned, once, and for this call alone. */
static bool
is_unplanned(const struct fr_call_counters *a, const struct fr_call_counters *b)
{
    return fr_nodes_pending >= UNPLANNED && b->n_elems - a->n_elems < FEW_ELEMS * (b->n_nodes - a->n_nodes);
}

bool
fr_plain_look(void)
{
    struct fr_call_counters now;

    fr_info_call_counters(&now);
    look.n_plain = was_plain(&look.at, &now, ++look.n_looks > SETTLED_LOOKS) || is_unplanned(&look.at, &now) ? look.n_plain + 1 : 0;
    look.at = now;
    fr_plain_look_at = now.n_nodes + 2 * (uint64_t)fr_tune.plain_nodes;
    if (look.n_plain < LOOKS)
        return true;
    if (fr_env.debug >= 1)
        fr_log(1, "a call is a plain one from here on: %d nodes are pending", (int)fr_nodes_pending);
    fr_plain_look_at = UINT64_MAX;
    return fr_whose_search() && fr_lent_part();
}

void
fr_plain_judge(struct fr_habit *h, const struct fr_call_counters *before, const struct fr_call_counters *after,
               bool became_plain)
{
    bool         settled = h->n_other >= SETTLED;
    bool         plain = may_be_plain(h) && (became_plain || was_plain(before, after, settled) || (h->is_timed && is_sooner(h)));
    struct costs c = costs_of(before, after, settled);

    if (fr_env.debug >= 1)
        fr_log(1, "a call is %s next time: %llu against %llu", plain ? "a plain one" : "traced", (unsigned long long)c.traced,
               (unsigned long long)c.plain);
    h->n_turns += h->is_plain && !plain;
    h->is_plain = plain;
    h->is_timed &= plain;
    if (h->n_turns == TURNS && ++h->n_late == LATE_TIMED + 1 && h->plain_ns) /* the last word */
        settle(h);
    h->is_open = c.plain < (has_few_elements(before, after) ? OPEN_FEW : OPEN) * c.traced || h->n_other >= LATE;
    h->n_other++;
    if (plain && !h->look_at)
        h->look_at = LOOK_AFTER;
}
