/* bind/base/errstate.h -- what the user's state makes of warnings of arithmetic: numpy.errstate and the filters of
 * warnings.
 *
 * Each traced operation asks whether that has changed since the last one (site.c). Flags about which the state warns go
 * with the operation's site, so that it is judged by the state in force where it was traced, whenever it is computed.
 * Where the state says more than that (raise, call, log, print; a filter that makes an error of it or shows it each
 * time), operations are computed as they are traced. */
#ifndef FR_BIND_BASE_ERRSTATE_H
#define FR_BIND_BASE_ERRSTATE_H

#include "bind/base/base.h"

extern FR_HIDDEN uint32_t fr_errstate_bits;   /* of sites: ir/node.h */
int       fr_errstate_init(void);
/* Reads the state anew. */
void      fr_errstate_look(void);
/* Does what the state says about `text`, of an operation that raised `raised` in all, where FR_FPE_* `flag` is meant. 1: it
 * is to be warned of; -1: an exception is set. */
int       fr_errstate_say(unsigned flag, unsigned raised, PyObject *text);

/* The interpreters of which we know the fields that tell of changes. Others are asked at each operation, which costs as much
 * as tracing it does. */
#if PY_VERSION_HEX < 0x030e0000 && !defined(Py_GIL_DISABLED)
#define FR_ERRSTATE_IS_TOLD
#endif

/* NumPy's context variable remembers the last look at it, which saves the interpreter a search: its value in a context of
 * this version of this thread. */
struct fr_errstate_cached {
    PyObject *value;
    uint64_t  thread, context;
};
extern FR_HIDDEN const struct fr_errstate_cached *fr_errstate_cached;
/* What the state was read from: that value, and the version of the filters. */
extern FR_HIDDEN struct fr_errstate_seen {
    PyObject *value;
    long      filters;
} fr_errstate_seen;

#endif
