/* bind/accelerate/membrane.h -- between an accelerated call, which computes with tensors, and what others hold, arrays.
 *
 * The user's functions run with code of ours (python/frit/_membrane.py), in which each value that comes from elsewhere or
 * goes there passes one of the objects of crossing.c. They ask the table of membrane.c, which for the length of the
 * outermost call has the one tensor of each array that came. Closed functions (python/frit/_closed.py) go other ways. */
#ifndef FR_BIND_ACCELERATE_MEMBRANE_H
#define FR_BIND_ACCELERATE_MEMBRANE_H

#include "bind/accelerate/callee.h"

/* Whether this thread runs within such a call. */
extern FR_HIDDEN FR_THREAD_LOCAL bool fr_membrane_is_active;

/* ---- lent.c: the arrays of the outermost call, with references to both */
struct fr_lent {
    struct fr_loan *loan;     /* tensor NULL: the array stays one */
    int             n, room, n_staying;
    int32_t        *slot;     /* by the array's address: number + 1; 2 * room of them, a power of two */
};
/* An outermost call begins; the one that is about to end meanwhile, if any, is put aside. */
void      fr_lent_begin(struct fr_lent *another);
/* The loans that have a tensor; none may be added meanwhile. */
const struct fr_loan *fr_lent_loans(int *n);
/* Lets go of all, after the loans have been given back. */
void      fr_lent_end(int n_lent, const struct fr_lent *another);
/* The tensor of the array in this call, or the array itself where it has to stay one: a new reference. */
PyObject *fr_lent_come(PyObject *array);
/* The array that the tensor is a loan of, borrowed; NULL: it is none. */
PyObject *fr_lent_array(PyObject *tensor);
/* Before others may read or write what is lent: what is stored into it and what reads it is computed. */
bool      fr_lent_settle(void);

/* ---- membrane.c */
/* The call: `names` are those of the last arguments. `describe` (may be NULL) is what explain() asks: it gets a list of
 * what would be computed at the end, and its result is the call's. */
PyObject *fr_membrane_call(PyObject *function, struct fr_call_stats *, fr_args args, Py_ssize_t n_args, PyObject *names,
                           PyObject *describe);
extern PyMethodDef fr_membrane_methods[], fr_crossing_methods[];

/* ---- crossing.c */
int       fr_crossing_init(PyObject *module);
/* What comes from elsewhere, as the functions of this call have it: a new reference. */
PyObject *fr_crossing_comes(PyObject *);
/* What is called instead of it. */
PyObject *fr_crossing_called(PyObject *);
/* The attribute `name` of an object, to be called. Outside of such calls: as it is. */
PyObject *fr_crossing_method(PyObject *o, PyObject *name);
/* Whether the code is the one that crosses instead of the other. */
bool      fr_crossing_is_of(PyObject *code, PyObject *written);
/* `x` as others may hold it: arrays for loans, also in small containers. */
PyObject *fr_crossing_leaves(PyObject *x);
/* Puts arrays for loans, and numbers for what cannot become one, into lists, tuples and dicts, to so many items in all. */
int       fr_crossing_leave_items(PyObject *o, int n_items);

#endif
