/* runtime/place.h -- on which devices a graph of AUTO nodes is computed.  Called by eval.c and explain.c, in the
 * runtime's turn.
 *
 * The passes say which groups it will have, and spread.h where each of them goes; each traced node goes with its
 * group. The nodes of one device that need nothing of a later part are a part, which is evaluated by itself, as if
 * all of it belonged to that device: what it leaves to other parts it computes like results, and home.c brings them
 * over. What has other bits on a GPU stays on the host, so that no bits depend on an estimate (csrc/NUMERICS.md). A
 * graph that stores into memory that others see is one part.
 *
 * What was decided is kept for as long as the same graph comes with its leaves on the same devices. */
#ifndef FR_RUNTIME_PLACE_H
#define FR_RUNTIME_PLACE_H

#include "jit/emit_text.h"
#include "runtime/plan.h"

struct fr_placement {
    int        n_parts;
    fr_device *device;     /* [n_parts] */
    int       *part;       /* [n] of each gathered node that computes, after those that it reads */
};

/* Of what was gathered, whose nodes are all AUTO. `shown`: results go to the host when they are computed. *out lives
 * until the next call. */
fr_status fr_place(struct fr_gathered *, bool shown, const struct fr_placement **out, struct fr_err *);
/* The nodes of a part that others need: later parts, the roots, and who is outside. There is room for all gathered
 * ones. Returns how many. */
int       fr_place_roots(const struct fr_placement *, const struct fr_gathered *, int part, fr_ref *out);
/* The same without keeping it, and adds lines on each group. */
fr_status fr_place_explain(struct fr_gathered *, struct fr_text *, fr_device *out, struct fr_err *);

#endif
