/* passes/forward.h -- values that were stored are read from where they came.
 * Called once per structure by passes/pipeline.c. */
#ifndef FR_PASSES_FORWARD_H
#define FR_PASSES_FORWARD_H

#include "ir/graph.h"

/* Two rewrites, in order of birth, which leave every value as it is:
 *   - a reader of just the window that a store wrote takes the stored value itself;
 *   - a version that is stored over completely, and that nobody reads, is not made at all.
 * An in-place update of momentum and parameter (v *= m; v -= g; w += v) so becomes one kernel. */
fr_status fr_forward(struct fr_graph *, struct fr_err *);

#endif
