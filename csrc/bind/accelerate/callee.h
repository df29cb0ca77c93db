/* bind/accelerate/callee.h -- what an accelerated function runs, as python/frit/accelerate.py describes it. For the
 * files that make, end, note and repeat its calls. */
#ifndef FR_BIND_ACCELERATE_CALLEE_H
#define FR_BIND_ACCELERATE_CALLEE_H

#include "bind/accelerate/accelerate.h"

struct fr_replays;
/* Whether the calls of a function are plain (membrane.h), as the last ones have told by their counts, or, where these leave
 * it open, by a few of each kind that were timed: both give the same bits. */
struct fr_habit {
    bool     is_plain;
    bool     is_open;   /* as the counts of the last call say */
    bool     is_timed;  /* it is plain since that was sooner */
    uint8_t  n_turns;   /* how often they were and are no longer */
    uint8_t  n_tried;   /* plain calls that were made to be timed, of the trial that goes on */
    bool     is_settled;/* no more of them are made */
    bool     begins;    /* the next call is plain: the function looks like loops over elements, and if loops leave Python so are all */
    uint8_t  n_late;    /* calls that were not, after the last turn */
    uint32_t n_plain;   /* calls that were, */
    uint32_t look_at;   /* and with which number one is made otherwise, to see whether that is still right */
    uint32_t n_other;   /* calls that were not, */
    uint32_t try_at;    /* and with which number one is made plain, to see whether that is sooner */
    int64_t  plain_ns, other_ns; /* the shortest of those that were timed lately; 0: none */
};
/* The named tuple _Call of accelerate.py as the function has it now, and calls captured with it. */
struct fr_callee {
    PyObject          *call;
    struct fr_replays *replays;
    int64_t            n_loop;     /* with so many elements of arguments, or fewer, it is a loop over elements */
    bool               gives_more; /* than arrays and numbers, once: lists or dicts of them */
    bool               is_planned; /* the last call was: before, it is too early to note one */
    bool               is_inside;  /* a thread is in the copy for calls that are noted, whose globals are that call's */
    uint64_t           n_operations; /* nodes that a call has made, at most */
    struct fr_habit    habit;        /* also of a function that is not closed */
};
/* Makes it the callee of the tuple that stands for a function whose calls may go the short way; false: it is none. */
bool      fr_callee_set(struct fr_callee *, PyObject *call);

/* The type of accelerated functions (accelerate.c). */
extern FR_HIDDEN PyTypeObject *fr_accelerated_type;
static inline bool
fr_is_accelerated(PyObject *o)
{
    return Py_IS_TYPE(o, fr_accelerated_type);
}

/* What the last call did. */
struct fr_call_stats {
    PyObject_HEAD unsigned long long kernels, fallbacks, syncs, calls, unchanged;
    PyObject *as_numpy; /* dict: why calls ran as they are, with NumPy -> how many; NULL: none did */
};
extern FR_HIDDEN PyTypeObject *fr_callee_stats_type;
/* One more that does, for this reason. */
int       fr_callee_ran_as_numpy(struct fr_call_stats *, PyObject *function, PyObject *reason);

/* What stands for a function: the named tuple _Call of accelerate.py, which says what its fields are. */
#define FR_CALLEE_FIELDS(F)                                                                                            \
    F(copy) F(globals) F(names) F(cells) F(watched) F(replaced) F(functions) F(exact) F(closed) F(inside)              \
    F(takes_module) F(elements) F(stats)
enum {
#define AT(name) FR_CALLEE_##name,
    FR_CALLEE_FIELDS(AT)
#undef AT
    FR_CALLEE_N
};
#define FR_CALLEE(call, name) PyTuple_GET_ITEM(call, FR_CALLEE_##name)     /* borrowed */

/* Number i of the globals and of the cells that the function sees: borrowed; NULL: nothing, without an exception. */
static inline Py_ssize_t
fr_callee_n_globals(PyObject *call)
{
    return PyTuple_GET_SIZE(FR_CALLEE(call, names));
}

static inline PyObject *
fr_callee_global(PyObject *call, Py_ssize_t i)
{
    return PyDict_GetItemWithError(FR_CALLEE(call, globals), PyTuple_GET_ITEM(FR_CALLEE(call, names), i));
}

static inline Py_ssize_t
fr_callee_n_cells(PyObject *call)
{
    return PyTuple_GET_SIZE(FR_CALLEE(call, cells));
}

static inline PyObject *
fr_callee_cell(PyObject *call, Py_ssize_t i)
{
    return PyCell_GET(PyTuple_GET_ITEM(FR_CALLEE(call, cells), i));
}

/* The copy of a closed function that sees, by global name and in cells, what is put there for one call (borrowed; NULL:
 * there is none, and no array may be looked at by such a name). */
static inline PyObject *
fr_callee_inside(PyObject *call)
{
    PyObject *inside = FR_CALLEE(call, inside);

    return inside == Py_None ? NULL : PyTuple_GET_ITEM(inside, 0);
}

/* Puts it where the function inside sees it; NULL stands for nothing. False: an exception is set. */
bool      fr_callee_put_global(PyObject *call, Py_ssize_t i, PyObject *value);
bool      fr_callee_put_cell(PyObject *call, Py_ssize_t i, PyObject *value);
/* Whether the function is closed; what attributes it reads (borrowed tuple) and whether it may store into containers
 * that it is not given. */
bool      fr_callee_closed(PyObject *call, bool *stores, PyObject **attributes);
bool      fr_callee_is_number(PyObject *);    /* a Python or NumPy number, None, a str, NumPy */
/* NumPy, and what stands in for it where a function takes it as an argument. */
extern FR_HIDDEN PyObject *fr_callee_numpy, *fr_callee_stand_in;
/* Whether somebody follows the lines of the functions that run: a debugger or a profiler. */
bool      fr_callee_is_traced(void);
int       fr_callee_init(PyObject *module);

#endif
