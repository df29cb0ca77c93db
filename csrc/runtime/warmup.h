/* runtime/warmup.h -- plans and machine code ahead: while it is on, what is evaluated without data (backends/meta/) gets, beside
 * the plan by which it is counted, the one that a device runs, and the compiler is asked for the kernels of that.  Called by
 * eval.c, in the runtime's turn; bind/ begins, waits and counts, under the GIL. */
#ifndef FR_RUNTIME_WARMUP_H
#define FR_RUNTIME_WARMUP_H

#include "runtime/plan.h"

struct fr_warmup_counts {
    int n_plans;    /* that were made; others were there */
    int n_kernels;  /* of all of them, each counted once, */
    int n_ready;    /* those that had code before, */
    int n_with_code; /* and those that have some now */
};

extern FR_HIDDEN bool fr_warmup_is_on;

/* Plans are those of this device, which is the host or a GPU that has been opened. False: it is on already. */
bool      fr_warmup_begin(fr_device);
/* Plans what was gathered, if that has no data, and asks for code. FR_ENOMEM, or what the device says. */
fr_status fr_warmup_plan(struct fr_gathered *, struct fr_err *);
/* Waits until there is an answer for all, at most so many seconds. How many kernels there is none for. */
int       fr_warmup_wait(double timeout_s, bool (*interrupted)(void));
/* Ends, and says what there was. The plans stay as any others do. */
void      fr_warmup_end(struct fr_warmup_counts *out);

#endif
