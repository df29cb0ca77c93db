/* bind/accelerate/accelerate.h -- what an accelerated call does: what goes in, what comes out, how it is made again. */
#ifndef FR_BIND_ACCELERATE_ACCELERATE_H
#define FR_BIND_ACCELERATE_ACCELERATE_H

#include "bind/numpy/numpy.h"

struct fr_callee;
struct fr_replays;
struct fr_watch;

/* ---- accelerate.c, accelerate_call.c */
int       fr_accelerate_init(PyObject *module);
/* Whether what the function was found to be still holds. */
bool      fr_accelerate_is_current(PyObject *call);
/* Whether the next call of a closed function is a plain one. */
bool      fr_accelerate_is_plain(struct fr_callee *, fr_args args, Py_ssize_t n_args);
/* A call of a closed function: positional arguments, then those named. Gives the tuple back where that is too much for
 * it, which no function returns. */
PyObject *fr_accelerate_call(struct fr_callee *, fr_args args, Py_ssize_t n_args, PyObject *names);
extern PyMethodDef fr_accelerate_methods[], fr_finish_methods[], fr_convert_methods[], fr_outside_methods[];

/* ---- finish.c: how an accelerated call ends */
struct fr_loan {               /* an array, and the tensor (a reference) that stands for it during a call */
    PyObject *array, *tensor;
};
enum { FR_LOANS_MAX = 256 };
/* Whether no two of the arrays can see one memory as different types: no storage does that. */
bool      fr_loans_are_apart(PyObject *const *array, int n);
/* Computes what was stored into the arguments' memory and all that the call has left; `result` (may be NULL): of a call
 * within another one. `again`: as fr_tensor_eval_again. */
fr_status fr_loans_eval(const struct fr_loan *, int n, PyObject *result, bool again, struct fr_err *);
/* Ends the loans for which something may be left to do. On false an exception is set. */
bool      fr_loans_give_back(const struct fr_loan *, int n, bool keep);
/* After that: whether somebody has kept a tensor of these, or one that cannot become what it stands for; and then, puts
 * that where the function or the values lead to it. On false an exception is set. */
bool      fr_loans_are_kept(const struct fr_loan *, int n);
bool      fr_loans_replace(const struct fr_loan *, int n, PyObject *function, PyObject *values);
void      fr_loans_end(const struct fr_loan *, int n);   /* lets go of the tensors, after that */
/* All of that, for a result (stolen): what the caller gets, or NULL. `watch`: what is noted of the call, or NULL;
 * `repeated`: it will be, as soon as there is a plan. */
PyObject *fr_finish(struct fr_callee *, const struct fr_loan *, int n, PyObject *result, struct fr_watch *watch,
                    bool repeated);
/* And after an exception, which stays. */
void      fr_finish_raised(PyObject *call, const struct fr_loan *, int n);

/* ---- become.c: what an accelerated call leaves behind */
int       fr_become_init(void);
/* Turns a Tensor that is nobody's loan into the array or number that it stands for, in place: 1. 0: it stays what it is,
 * a bool, of which NumPy has but two, or where this NumPy's objects are of another form. -1: an exception is set. */
int       fr_become(PyObject *tensor);
/* Count the accelerated calls that this thread is in. The end of the outermost makes what is left of its Tensors arrays
 * and numbers; an exception that is set stays. */
void      fr_call_begin(void);
void      fr_call_end(void);
/* What has ended the call, unless that is NULL. After Ctrl-C nobody waits for what it leaves pending: that stays a Tensor, which
 * is computed when somebody asks it. */
void      fr_call_raised(PyObject *type);
bool      fr_call_is_interrupted(void);
/* The same for one of them. False: that cannot be done now. */
bool      fr_made_leave(PyObject *tensor);
/* All Tensors of this call that are no loans, evaluated ones, become what they stand for now, arrays and numbers, of each of
 * which `note` (may be NULL) is told. */
void      fr_made_leave_all(void (*note)(PyObject *));
/* How many Tensors of this call live that are no loans; their handles go into `list`, which may be NULL. Of a call within
 * another one none, for what lives may be the other one's. */
size_t    fr_made_left(const struct fr_tensor **list);
/* Whether one of these cannot become what it stands for. */
bool      fr_made_stay(void);
/* What the caller of an accelerated function gets for a Tensor that is nobody's loan: a new reference, to the very object
 * where it can become what it stands for, or is to stay. */
PyObject *fr_shown(PyObject *tensor);
/* The same for one that the call has no further use for. */
PyObject *fr_shown_last(PyObject *tensor);

/* ---- replay.c: calls of one closed function that need not run it again */
struct fr_captured_call;
/* Makes the call again if one like it is kept: true, with *result (NULL: an exception) and how many kernels ran. */
bool      fr_replays_call(struct fr_replays *, PyObject *call, fr_args args, Py_ssize_t n_args, PyObject *names,
                          PyObject **result, uint64_t *n_kernels);
/* Whether one more would be kept. */
bool      fr_replays_wanted(const struct fr_replays *);
/* Keeps the captured call, or counts that there was none (NULL). False: it is still the caller's. */
bool      fr_replays_add(struct fr_replays **, struct fr_captured_call *);
void      fr_replays_drop(struct fr_replays *);
int       fr_replays_traverse(const struct fr_replays *, visitproc, void *arg);  /* NULL is fine */

/* ---- capture.c: how a call comes to be kept */
/* Before anything is lent: notes all that the function can reach. NULL, without an exception: it cannot be noted. */
struct fr_watch *fr_capture_watch(PyObject *call, fr_args args, Py_ssize_t n_args, PyObject *names);
void      fr_capture_begin(struct fr_watch *);   /* the function is about to run; */
void      fr_capture_ran(struct fr_watch *);     /* it has, and what it left is not computed yet */
/* After the evaluation, while tensors still stand for the arrays: the call will be kept, if it can be made again. */
void      fr_capture_keep(struct fr_watch *, struct fr_callee *into, const struct fr_loan *, int n_loans,
                         PyObject *result);
void      fr_capture_end(struct fr_watch *);     /* keeps or forgets it; NULL is fine */

/* ---- enter.c: a call whose arguments hold arrays in lists, dicts and objects, or that sees arrays by other names */
/* Runs the function with tensors for arrays and shows what it gave and stored as arrays; `again`: its calls come again
 * and again. Then what is computed has a plan made, and the call is kept if the last one had its plan. *refused: it is
 * not for this way, nothing was done. *body: the counters when the function ended. */
PyObject *fr_enter_call(struct fr_callee *, struct fr_watch *, Py_ssize_t n_args, PyObject *names, bool again,
                        bool *refused, struct fr_call_counters *body);

/* ---- outside.c */
int       fr_outside_init(void);
/* What is called instead of a callable of others: it gets arrays and numbers for tensors. */
PyObject *fr_outside_of(PyObject *callable);
bool      fr_is_outside(PyObject *);
/* Whether a class belongs to neither Python nor frit; of NumPy's those with the protocols are no strangers. */
bool      fr_outside_is_strange(PyTypeObject *);
/* An object of others has come: where it may be asked for its parts by numbers, these are NumPy's at once from now on. */
void      fr_outside_met(PyObject *);

/* ---- method.c */
int       fr_method_init(PyObject *module);
/* bytecode.c: the running interpreter's. */
struct fr_asm_opcodes;
extern FR_HIDDEN const struct fr_asm_opcodes *const fr_bytecode_opcodes;

#endif
