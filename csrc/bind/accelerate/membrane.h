/* bind/accelerate/membrane.h -- between an accelerated call, which computes with tensors, and what others hold, arrays.
 *
 * The user's functions run with code of ours (python/frit/_membrane.py), in which each value that comes from elsewhere or
 * goes there passes one of the objects of crossing_type.c. They ask the table of lent.c, which for the length of the
 * outermost call has the one tensor of each array that came. Closed functions (python/frit/_closed.py) go other ways. */
#ifndef FR_BIND_ACCELERATE_MEMBRANE_H
#define FR_BIND_ACCELERATE_MEMBRANE_H

#include "bind/accelerate/callee.h"

/* Whether this thread runs within such a call, where arrays come as tensors; or within a plain one, where they come as they
 * are and only what frit rounds otherwise than NumPy is frit's: the bits are the same, and a loop over single elements, or
 * one that looks at each value before it goes on, is nothing but calls from Python, which NumPy answers sooner. */
extern FR_HIDDEN FR_THREAD_LOCAL bool fr_membrane_is_active, fr_membrane_is_plain;
/* Arrays that have come in a plain call and are too large for that. */
extern FR_HIDDEN FR_THREAD_LOCAL uint64_t fr_membrane_n_large;

/* ---- lent.c: the arrays of the outermost call, with references to both */
struct fr_lent {
    struct fr_loan *loan;     /* tensor NULL: the array stays one */
    int             n, room, n_staying;
    int32_t        *slot;     /* by the array's address: number + 1; 2 * room of them, a power of two */
    struct fr_loan *twin;     /* what was lent in a call that became plain: the array, and what its tensor became */
    int             n_twins, n_noted;
    bool            has_parted;
};
/* An outermost call begins; the one that is about to end meanwhile, if any, is put aside. */
void      fr_lent_begin(struct fr_lent *another);
/* The loans that have a tensor; none may be added meanwhile. */
const struct fr_loan *fr_lent_loans(int *n);
/* Arrays of a call that became plain, each with what its tensor has become. */
const struct fr_loan *fr_lent_twins(int *n);
/* Lets go of all, after the loans have been given back. */
void      fr_lent_end(int n_lent, const struct fr_lent *another);
/* The tensor of the array in this call, or the array itself where it has to stay one: a new reference. */
PyObject *fr_lent_come(PyObject *array);
/* The array that the tensor is a loan of, borrowed; NULL: it is none. */
PyObject *fr_lent_array(PyObject *tensor);
/* The call becomes a plain one: all is computed, and tensors become arrays where they are. */
bool      fr_lent_part(void);
/* Whether it has; and from now on arrays come as tensors again. */
bool      fr_lent_has_parted(void);
void      fr_lent_resume(void);
/* Before others may read or write what is lent: what is stored into it and what reads it is computed. */
bool      fr_lent_settle(void);
/* An array that a tensor of this call has become, which the functions may have as it is: it is not lent. */
void      fr_lent_note(PyObject *array);
/* The same for the memory of one loan. */
bool      fr_lent_open(PyObject *tensor);
/* Somebody may look at the array's memory at any time from now on: nothing over it is put off any more. */
bool      fr_lent_keep_loud(PyObject *array);

/* ---- plain.c */
/* Whether calls may run on NumPy's arrays at all now: not where everything is to be seen as it would be with large arrays. */
bool      fr_plain_is_allowed(void);
/* Whether this call of a function with that habit is to be plain from the beginning. */
bool      fr_plain_is(struct fr_habit *, fr_args args, Py_ssize_t n_args);
/* An outermost call begins, which may become plain (or not). */
void      fr_plain_begin(const struct fr_habit *, bool may_be);
/* Looks at the counts since the last look: a call that has been such a loop becomes plain. Called often. */
bool      fr_plain_look(void);
extern FR_HIDDEN FR_THREAD_LOCAL uint64_t fr_plain_look_at; /* nodes made: it is time to */
/* And the other way. False: not yet, for a function runs in the second copy of its code. */
bool      fr_plain_resume(void);
/* In a plain call: whether code goes on in its second copy, where arrays are not looked at; every 61st time it does not. */
bool      fr_plain_is_seldom(void);
/* Whether a call that counted this would cost much less as a plain one. */
bool      fr_plain_is_less(const struct fr_call_counters *before, const struct fr_call_counters *after);
/* Notes what a call has counted that was none, of which `became_plain` may be known. */
void      fr_plain_judge(struct fr_habit *, const struct fr_call_counters *before, const struct fr_call_counters *after,
                         bool became_plain);
/* Whether the call is to be timed; and how long one took. */
bool      fr_plain_is_timed(const struct fr_habit *, bool plain);
void      fr_plain_time(struct fr_habit *, bool plain, int64_t ns);
/* Of a first call that was one: whether loops of it have left Python. */
void      fr_plain_note_first(struct fr_habit *, bool left_python, int64_t ns);
/* Of functions that go other ways: a call that was none took so long; whether it is time to try one; whether that was sooner. */
void      fr_plain_note_other(struct fr_habit *, int64_t ns);
bool      fr_plain_is_tried(const struct fr_habit *);
bool      fr_plain_is_sooner(struct fr_habit *, int64_t ns);
/* A plain call has met large arrays. */
void      fr_plain_met_large(struct fr_habit *);

/* ---- membrane.c */
/* The call: `names` are those of the last arguments. `explained`: it is traced also where it would be plain, and
 * runtime/explain.h is told of its end. */
PyObject *fr_membrane_call(PyObject *function, struct fr_call_stats *, struct fr_habit *, fr_args args, Py_ssize_t n_args,
                           PyObject *names, bool explained);
/* The function itself, in the second copy of its code, with arrays as they are. */
PyObject *fr_membrane_call_plain(PyObject *function, fr_args args, Py_ssize_t n_args, PyObject *names);
extern PyMethodDef fr_membrane_methods[], fr_crossing_methods[];

/* ---- crossing.c, called.c, whose.c, crossing_type.c */
int       fr_crossing_init(PyObject *module);
/* What comes from elsewhere, as the functions of this call have it: a new reference. */
PyObject *fr_crossing_comes(PyObject *);
/* What is called instead of it. */
PyObject *fr_crossing_called(PyObject *);
/* The attribute `name` of an object, to be called. Outside of such calls: as it is. `rounds`: fr_called_rounds(name). */
PyObject *fr_crossing_method(PyObject *o, PyObject *name, bool rounds);
/* Whether the code is the one that crosses instead of the other. */
bool      fr_crossing_is_of(PyObject *code, PyObject *written);
/* `x` as others may hold it: arrays for loans, also in small containers. */
PyObject *fr_crossing_leaves(PyObject *x);
/* Puts arrays for loans, and numbers for what cannot become one, into lists, tuples and dicts, to so many items in all. */
int       fr_crossing_leave_items(PyObject *o, int n_items);

#endif
