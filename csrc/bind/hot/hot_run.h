/* bind/hot/hot_run.h -- what the files share that run translations of loops (hot.h): what was stored since the last turn,
 * and operations on arrays. */
#ifndef FR_BIND_HOT_HOT_RUN_H
#define FR_BIND_HOT_HOT_RUN_H

#include "bind/hot/hot.h"

#include <string.h>

/* ---- what was stored since the last turn */

enum fr_hot_stored {
    FR_HOT_BYTES,    /* so many; `bits` are what was there, of more than 8: where among `bytes` they are kept */
    FR_HOT_SPREAD,   /* elements of so many bytes that lie apart, `bits` as above: struct fr_hot_spread stands before them there */
    FR_HOT_APPENDED, /* an object to a list; and with objects that are held: */
    FR_HOT_REPLACED, /* an item of a list: the old one */
    FR_HOT_TAKEN_OUT,/* of a list: an item */
    FR_HOT_REORDERED,/* a list: what was in it, as a list */
    FR_HOT_KEYED     /* an item of a dictionary: a tuple of its key, and the old one, if there was one */
};
struct fr_hot_old {
    char    *at;     /* of memory, or the list or dictionary */
    uint64_t bits;
    int32_t  size;   /* in bytes; or the place of an item */
    uint8_t  what;
};
struct fr_hot_spread {
    int64_t n, stride;
};
enum { FR_HOT_MOST_STORES = 1 << 20, FR_HOT_MOST_BYTES = 1 << 24 };

struct fr_hot_log {
    struct fr_hot_old *v;
    size_t             n, cap;
    char              *bytes;
    size_t             n_bytes, cap_bytes;
};

/* Remembers what is at `at`; false: that is too much. */
bool fr_hot_log_add(struct fr_hot_log *, char *at, int32_t size);
/* Notes what was done to a list or a dictionary; what is held becomes the log's, also if that is too much. */
bool fr_hot_log_note(struct fr_hot_log *, enum fr_hot_stored, PyObject *of, Py_ssize_t place, PyObject *object);
/* Puts all back. */
void fr_hot_log_undo(const struct fr_hot_log *);
/* What is held is let go of. */
void fr_hot_log_forget(const struct fr_hot_log *);
void fr_hot_log_free(struct fr_hot_log *);

/* Remembers all of a window. */
bool fr_hot_log_view(struct fr_hot_log *, const struct fr_hot_view *, int ndim, int size);

/* ---- arrays and lists that a run holds */

/* Takes a reference to an array or a list: its place, + 1; 0: memory is out, and it is let go of. */
int32_t fr_hot_take(struct fr_hot_run *, PyObject *, bool is_held);
/* view[to] becomes that array or list, whose reference is the run's from now on; others may have it, too. */
bool    fr_hot_give(struct fr_hot_run *, PyObject *, int to);
/* view[to] becomes a new array, with anything in it. */
bool    fr_hot_make(struct fr_hot_run *, fr_dtype, int ndim, const int64_t *dims, int to);

/* Whether nothing has to be put back that is written to a view, or appended to a list: there was none at the last turn. */
static inline bool
fr_hot_is_new(const struct fr_hot_run *run, const struct fr_hot_view *v)
{
    return v->made && run->pool.v[v->made - 1].turn == run->n_turns;
}

static inline void
fr_hot_write_number(const union fr_hot_cell *cell, fr_dtype d, char *to)
{
    float f = d == FR_F32 ? (float)cell->f : 0;

    memcpy(to, d == FR_F32 ? (const void *)&f : (const void *)cell, (size_t)fr_dtype_size(d)); /* (the machine is little-endian) */
}

/* ---- operations on arrays (hot_array_run.c), and with objects (hot_object_run.c): false: Python is to do it, and nothing was done */

bool fr_hot_run_map(struct fr_hot_run *, const struct fr_hot_map *, int to);
bool fr_hot_run_fold(struct fr_hot_run *, const struct fr_hot_map *, int to);
/* Of two axes, along one. */
bool fr_hot_run_fold_axis(struct fr_hot_run *, const struct fr_hot_map *, int axis, int to);
/* view[to][...] = the argument. */
bool fr_hot_run_copy(struct fr_hot_run *, struct fr_hot_log *, const struct fr_hot_map *, int to);
bool fr_hot_run_make(struct fr_hot_run *, const struct fr_hot_ins *);
void fr_hot_run_put(struct fr_hot_run *, const struct fr_hot_ins *);
bool fr_hot_run_product(struct fr_hot_run *, const struct fr_hot_ins *);
bool fr_hot_run_append(struct fr_hot_run *, struct fr_hot_log *, const struct fr_hot_ins *);
/* Items of lists have to be what they seemed to be. */
bool fr_hot_run_hold(struct fr_hot_run *, const struct fr_hot_ins *);
bool fr_hot_run_list_item(struct fr_hot_run *, const struct fr_hot_ins *);
bool fr_hot_run_list_store(struct fr_hot_run *, struct fr_hot_log *, const struct fr_hot_ins *);
bool fr_hot_run_new_list(struct fr_hot_run *, const struct fr_hot_ins *);
/* A list of numbers as an array of dtype c. */
bool fr_hot_run_list_array(struct fr_hot_run *, const struct fr_hot_ins *);
/* An exception that is set is no fault of the function's: somebody wants to end all of it. */
bool fr_hot_run_ask(struct fr_hot_program *, struct fr_hot_run *, struct fr_hot_log *, const struct fr_hot_ask *, int to);
/* Fills the array at `to`, which was made just now, with numbers that are drawn. */
bool fr_hot_run_draw(struct fr_hot_run *, const struct fr_hot_ins *);
/* A function of Python's math, of n doubles. */
bool fr_hot_run_math(struct fr_hot_run *, const struct fr_hot_ins *);
/* A window that is about to be in two places becomes an array of its own: it is one object in both. */
bool fr_hot_run_own(struct fr_hot_run *, const struct fr_hot_ins *);

/* Before the first instruction: what is left of earlier runs is forgotten. */
void fr_hot_pool_begin(const struct fr_hot_program *, struct fr_hot_run *);
/* Finds out which arrays nobody has any more; `turns`: nothing is put back that came before, and those that others have
 * are theirs from now on. */
void fr_hot_pool_look(const struct fr_hot_program *, struct fr_hot_run *, bool turns);
enum { FR_HOT_POOL_LOOK = 12 };
#endif
