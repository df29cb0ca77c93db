/* bind/errstate.h -- what the user's state makes of warnings of arithmetic: numpy.errstate and the filters of warnings.
 *
 * Each traced operation asks whether that has changed since the last one (site.c). Flags about which the state warns go
 * with the operation's site, so that it is judged by the state in force where it was traced, whenever it is computed.
 * Where the state says more than that (raise, call, log, print; a filter that makes an error of it or shows it each
 * time), operations are computed as they are traced. */
#ifndef FR_BIND_ERRSTATE_H
#define FR_BIND_ERRSTATE_H

#include "bind/bind.h"

extern FR_HIDDEN uint32_t fr_errstate_bits;   /* of sites: ir/node.h */
int       fr_errstate_init(void);
/* Reads the state anew. */
void      fr_errstate_look(void);
/* The next operation looks anew if it may be another thread's than the last one, of whose state and calls it would be
 * taken. `others`: other threads are in calls. */
void      fr_errstate_follow_threads(bool others);
/* Does what the state says about `text`, of an operation that raised `raised` in all, where FR_FPE_* `flag` is meant and the
 * operation was traced at `site`. -1: an exception is set. */
int       fr_errstate_say(uint32_t site, unsigned flag, unsigned raised, PyObject *text);

/* Where the state is kept: the version of the filters, and the value of NumPy's context variable, as the thread that looked
 * last has it in its context. These are the interpreter's own fields, which is cheaper than to ask. (Later interpreters
 * than those whose fields we know are asked each time.) */
extern FR_HIDDEN const long      *fr_errstate_filters;
extern FR_HIDDEN PyObject *const *fr_errstate_value;
extern FR_HIDDEN long             fr_errstate_seen_filters;
extern FR_HIDDEN PyObject        *fr_errstate_seen_value;

extern FR_HIDDEN const PyThreadState *fr_errstate_seen_thread;
extern FR_HIDDEN uint64_t             fr_errstate_seen_context;

static inline bool
fr_errstate_changed(const PyThreadState *thread)
{
#if PY_VERSION_HEX < 0x030c0000
    return *fr_errstate_filters != fr_errstate_seen_filters || *fr_errstate_value != fr_errstate_seen_value ||
           thread != fr_errstate_seen_thread || thread->context_ver != fr_errstate_seen_context;
#else
    (void)thread;
    return true;
#endif
}

#endif
