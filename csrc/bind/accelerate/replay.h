/* bind/accelerate/replay.h -- what a captured call looked at and gave, as replay.c checks and makes it again and
 * capture.c notes it.  Private to these two. */
#ifndef FR_BIND_ACCELERATE_REPLAY_H
#define FR_BIND_ACCELERATE_REPLAY_H

#include "bind/accelerate/callee.h"

#include "bind/numpy/npy.h"

enum {
    FR_REPLAY_LOOKS = 256,     /* values that one call looks at, */
    FR_REPLAY_RESULTS = 128,   /* gives, */
    FR_REPLAY_PARTS = 256      /* and parts that these are put together from */
};

/* One value that the function can reach, checked in the order in which they were found: whatever it is fetched from
 * was checked before. */
struct fr_look {
    enum { FROM_ARG, FROM_NAME, FROM_CELL,         /* number `at` of the arguments, globals, cells */
           FROM_ITEM, FROM_KEY, FROM_ATTR } from;  /* of value `of`: item `at`, or `key` */
    enum { IS_NOTHING, IS_NUMBER, IS_ARRAY, IS_TUPLE, IS_LIST, IS_DICT, IS_OBJECT } is;
    int            of, same_as;    /* same_as: the first value that is the same object */
    Py_ssize_t     at, size;       /* size of a container */
    PyObject      *key, *value;    /* value: the number; the type of an object; an array that must be this very one */
    PyArray_Descr *descr;          /* of an array, whose dims and then strides lie as this says: */
    npy_intp      *lies;
    int            ndim;
    bool           written;
    bool           outside;        /* not reached through an argument */
};

/* The result, and what is stored into containers, in postfix. */
struct fr_part {
    enum { PART_LOOK, PART_VALUE, PART_RESULT, PART_SCALAR, /* one more: value number `index`, a constant, result */
           PART_TUPLE, PART_LIST, PART_DICT } from;         /* number `index`; or a container of the last `index` */
    int       index;
    PyObject *value;               /* or the keys of a dict */
};

struct fr_effect {
    int            into;           /* value that was looked at: a list, a dict or an object */
    Py_ssize_t     at;
    PyObject      *key;
    struct fr_part part;
};

struct fr_captured_call {
    struct fr_captured *evaluation;
    int                  n_looks, n_parts, n_effects, n_results;
    Py_ssize_t           n_args;   /* with those that were named, by `names`: a tuple or NULL */
    PyObject            *names;
    bool                 writes;
    uint64_t             used;
    struct fr_look      *look;
    struct fr_part      *part;
    struct fr_effect    *effect;
    uint64_t             looks, takes, fallbacks; /* counters when the function began to run */
};

/* A call while it is noted. */
struct fr_watch {
    struct fr_captured_call *captured;
    size_t            room;                   /* looks for which it has memory */
    PyObject         *found[FR_REPLAY_LOOKS]; /* [n_looks] references to what the looks fetched */
    PyObject         *call;                   /* the tuple that was called */
    PyObject         *attributes;             /* names, borrowed from it */
    bool              stores;                 /* the function may store into containers that it is not given */
    bool              sees_outside;           /* arrays that it is not given */
    bool              looked;                 /* at values, while it ran */
    struct fr_callee *into;                   /* where the captured call is to be kept; NULL: nowhere, or not yet */
};

void fr_capture_free(struct fr_captured_call *);
/* What a look fetches: borrowed; NULL: nothing, without an exception. `found`: what was fetched before. */
PyObject *fr_look_attribute(PyObject *o, PyObject *name);
PyObject *fr_look_fetch(const struct fr_look *, PyObject *call, fr_args args, PyObject *const *found);

#endif
