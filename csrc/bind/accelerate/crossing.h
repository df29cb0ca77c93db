/* bind/accelerate/crossing.h -- what the files share whose objects stand in the code of the user's functions (membrane.h). */
#ifndef FR_BIND_ACCELERATE_CROSSING_H
#define FR_BIND_ACCELERATE_CROSSING_H

#include "bind/accelerate/membrane.h"

/* ---- whose.c: whose a class or a function is */
enum fr_whose { FR_USERS, FR_OTHERS, FR_UNTOLD }; /* FR_UNTOLD: a class of callables, of which each may be anybody's */
/* Tables from an address to what is held with it. */
enum { FR_N_KNOWN = 1024 };
struct fr_known {
    PyObject *what;          /* a class, code, or something that is called; a reference */
    PyObject *instead;       /* of what is called, and the same in a plain call; references */
    PyObject *plain;
    unsigned  version;       /* of a class */
    int       whose;
};
/* The place of `what`, or the one that it is to have. */
struct fr_known *fr_known_at(struct fr_known *table, const PyObject *what);
void      fr_known_put(struct fr_known *at, PyObject *what, PyObject *instead, PyObject *plain, unsigned version, int whose);
/* Whose it is, after its functions have been prepared if it is the user's; -1: an exception. */
int       fr_whose_it_is(PyObject *what);
int       fr_whose_class(PyTypeObject *);
int       fr_whose_function(PyObject *f);
/* Whether code crosses that has this address. */
bool      fr_whose_crosses(PyObject *code);
/* The code that was written, of one that crosses; any other itself: borrowed. */
PyObject *fr_whose_written(PyObject *code);
/* Whether each function that runs is in the copy of its code in which values cross. */
bool      fr_whose_all_cross(void);
void      fr_whose_set(PyObject *codes, PyObject *prepare, PyObject *search);
/* Before calls are plain: prepares what may be called where nobody sees it. False: an exception is set. */
bool      fr_whose_search(void);

/* ---- crossing.c */
PyObject *fr_crossing_made(PyObject *);
/* What leaves, of a pair of a value and what it becomes an item of. */
PyObject *fr_crossing_stored(PyObject *two);
PyObject *fr_crossing_shown(PyObject *);
/* Before a loop goes over it: what is stored is there at each step where code of others runs in between. */
PyObject *fr_crossing_iterated(PyObject *);
int       fr_crossing_steps_init(void);
bool      fr_crossing_is_partial(PyObject *);

/* ---- called.c */
int       fr_called_init(PyObject *module);
/* What is called instead of a callable that is no method, as Python has found it once: a new reference. */
PyObject *fr_called_instead(PyObject *);
/* Whether arrays have a method of that name that rounds otherwise than NumPy's; -1: an exception. */
int       fr_called_rounds(PyObject *name);
/* a ** b of a pair, or in place. */
PyObject *fr_called_power(PyObject *two, bool in_place);
void      fr_called_set(PyObject *find, PyObject *rounded);
extern PyMethodDef fr_called_methods[], fr_bytecode_methods[];

#endif
