/* jit/nvrtc_ahead.h -- NVRTC on threads of our own: several kernels at once, before they are wanted.
 *
 * Whoever makes a plan asks; whoever launches takes, and waits only for what is still under way. */
#ifndef FR_JIT_NVRTC_AHEAD_H
#define FR_JIT_NVRTC_AHEAD_H

#include "jit/nvrtc.h"

struct fr_ahead;

/* Asks for code, which is there at once if the cache has it; the text becomes ours (fr_malloc'ed). is_later: behind all that is not,
 * by one thread at a time, and for the cache, even if nobody wants it any more. NULL: no memory, or no thread; the text is gone. */
struct fr_ahead *fr_ahead_ask(struct fr_nvrtc_source *, bool is_later);
/* It is not for later, after all. */
void      fr_ahead_hurry(struct fr_ahead *);
/* Whether it can be taken without a wait. */
bool      fr_ahead_is_done(const struct fr_ahead *);
/* What came of it, when it is there; what no thread has begun is compiled by the caller. Ends it. */
fr_status fr_ahead_take(struct fr_ahead *, struct fr_image *out, struct fr_err *);
/* Nobody wants it any more; NULL is fine. */
void      fr_ahead_drop(struct fr_ahead *);
/* Ends the threads when they are done with what they have begun. */
void      fr_ahead_stop(void);

#endif
