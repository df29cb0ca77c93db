/* bind/contest.c -- whether an accelerated function had better run as it is. Called by accelerate_call.c.
 *
 * A loop over single elements, or one that looks at each value before it goes on, is nothing but calls from Python, and
 * NumPy's own scalars answer those sooner than a graph can be traced. Where all that a function does has one right result
 * (python/frit/_exact.py), both ways have the same bits, and the clock chooses: calls whose time goes into many small
 * operations take turns a few times, for each kind of arguments, and later one in many looks whether it is still so. What
 * spends its time in larger ones is never in question, nor is a call that is made again without running (replay.c). */
#include <string.h>

#include "base/clock.h"
#include "base/env.h"
#include "bind/bind.h"
#include "bind/npy.h"

enum {
    MOST_PARTS = 1024,     /* of arguments that are looked at: it takes a microsecond or two */
    FIRST_CALLS = 4,       /* ours; */
    WAITS_CALLS = 32,      /* and of what may be replayed before long: NumPy's first run would take longer than these; */
    WAITS_NODES = 64,      /* with more, it is a loop over elements; */
    LONG_NS = 300000,      /* one, if it takes so long: it is too much to be replayed */
    N_TURNS = 4,           /* theirs, ours, theirs, ours */
    LOOK_EVERY = 64,       /* calls, whether ours is the faster one meanwhile; */
    SEE_EVERY = 256,       /* whether theirs is, if it was not much slower */
    FORGETS = 64,          /* a part of the time of one call */
    SMALL_NODE_NS = 700,   /* a node of ours; with more, the elements count and not the calls; */
    SMALL_HANDED_NS = 10000 /* the same of what is handed to NumPy */
};

static uint64_t
mixed(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static bool add_to_key(PyObject *, bool real, int *n_left, uint64_t *h);

static bool
add_dict(PyObject *dict, bool real, int *n_left, uint64_t *h)
{
    PyObject  *k, *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(dict, &at, &k, &value))
        if (!PyUnicode_CheckExact(k) || !add_to_key(value, real, n_left, h))
            return false;
    return true;
}

static bool
add_to_key(PyObject *o, bool real, int *n_left, uint64_t *h)
{
    int64_t v = 0;

    if (--*n_left < 0)
        return false;
    if (PyArray_CheckExact(o)) {
        PyArrayObject *a = fr_array(o);

        if (real && PyArray_ISCOMPLEX(a))
            return false;
        *h = mixed(*h, (uint64_t)PyArray_TYPE(a) << 8 | (uint64_t)PyArray_NDIM(a));
        for (int k = 0; k < PyArray_NDIM(a); k++)
            *h = mixed(*h, (uint64_t)PyArray_DIM(a, k));
        return true;
    }
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
        *h = mixed(*h, (uint64_t)PySequence_Fast_GET_SIZE(o));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
            if (!add_to_key(PySequence_Fast_GET_ITEM(o, i), real, n_left, h))
                return false;
        return true;
    }
    if (PyDict_CheckExact(o))
        return add_dict(o, real, n_left, h);
    if (!fr_accelerate_is_number(o) || PyModule_CheckExact(o) || (real && PyComplex_Check(o)))
        return false;
    if (PyLong_CheckExact(o))
        fr_value_small_int(o, &v);
    *h = mixed(*h, (uint64_t)v);
    return true;
}

uint64_t
fr_contest_key(fr_args args, Py_ssize_t n_args, PyObject *names, bool real)
{
    uint64_t h = mixed(1, (uint64_t)(names ? PyTuple_GET_SIZE(names) : 0));
    int      n_left = MOST_PARTS;

    for (Py_ssize_t i = 0; i < n_args; i++)
        if (!add_to_key(args[i], real, &n_left, &h))
            return 0;
    return h | 1;
}

static uint64_t
n_calls_of(const struct fr_contest *c)
{
    return c->n_calls + c->n_waited;
}

/* Of the four, that of the key, or the one with the fewest calls. */
static struct fr_contest *
find(struct fr_contest *c, uint64_t key)
{
    struct fr_contest *least = c;

    for (int i = 0; i < FR_CONTESTS; i++) {
        if (c[i].key == key)
            return &c[i];
        if (n_calls_of(&c[i]) < n_calls_of(least))
            least = &c[i];
    }
    *least = (struct fr_contest){.key = key};
    return least;
}

/* Whoever is better by a tenth; else it is ours. */
static int
better(const struct fr_contest *c)
{
    return c->best_ns[FR_CONTEST_THEIRS] && c->best_ns[FR_CONTEST_THEIRS] * 10 < c->best_ns[FR_CONTEST_OURS] * 9
               ? FR_CONTEST_THEIRS
               : FR_CONTEST_OURS;
}

void
fr_contest_begin(struct fr_contest_run *r, struct fr_contest *contests, uint64_t key, bool waits)
{
    uint64_t n;
    bool     is_long, is_short;
    struct fr_call_counters c;

    if (fr_env.eager_elems == 0 || fr_env_waits_for_code())
        return;
    r->of = find(contests, key);
    is_long = r->of->best_ns[FR_CONTEST_OURS] > LONG_NS;
    is_short = r->of->n_nodes > 0 && r->of->n_nodes <= WAITS_NODES && !is_long;
    if (waits && is_short && r->of->n_waited < WAITS_CALLS) {
        r->of->n_waited++;
        r->of = NULL; /* to look at the clock takes as long as a part of such a call */
        return;
    }
    n = r->of->n_calls++;
    /* They go on from where they began, though what was long because it was disturbed is so no more. */
    if (!r->of->first_turn && r->of->best_ns[FR_CONTEST_OURS] && n >= (is_long ? 1 : FIRST_CALLS)) /* 0: its operations are not small */
        r->of->first_turn = n;
    if (r->of->first_turn) {
        if (n < r->of->first_turn + N_TURNS)
            r->who = (n - r->of->first_turn) % 2 ? FR_CONTEST_OURS : FR_CONTEST_THEIRS;
        else if ((n & (n - 1)) == 0 || n % LOOK_EVERY == 0) /* code comes late, and machines have moods */
            r->who = FR_CONTEST_OURS;
        else if (n % SEE_EVERY == 1 && r->of->best_ns[FR_CONTEST_THEIRS] < 2 * r->of->best_ns[FR_CONTEST_OURS])
            r->who = FR_CONTEST_THEIRS;
        else
            r->who = better(r->of);
    }
    fr_info_call_counters(&c);
    r->began_nodes = c.n_nodes + c.n_elements;
    r->began_handed = c.n_fallbacks;
    r->began_ns = fr_now_ns();
}

/* A call that took less than was known is right: others were disturbed. What is known is forgotten little by little. */
void
fr_contest_end(const struct fr_contest_run *r)
{
    int64_t                 took, known, *best;
    struct fr_call_counters c;

    if (!r->of)
        return;
    took = fr_now_ns() - r->began_ns;
    best = &r->of->best_ns[r->who];
    fr_info_call_counters(&c);
    r->of->n_nodes = c.n_nodes + c.n_elements - r->began_nodes;
    if (r->who == FR_CONTEST_OURS && !*best &&
        took > (int64_t)r->of->n_nodes * SMALL_NODE_NS +
                   (int64_t)(c.n_fallbacks - r->began_handed) * SMALL_HANDED_NS) {
        if (r->of->n_calls >= FIRST_CALLS) /* had it been disturbed, no turn would be lost */
            r->of->n_calls = FIRST_CALLS - 1;
        return;
    }
    known = *best + *best / FORGETS;
    *best = *best && took > known ? known : took;
}
