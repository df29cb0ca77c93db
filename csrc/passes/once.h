/* passes/once.h -- what is stored into a larger array is not kept by itself as well.
 * Called once per structure by passes/pipeline.c, last of all passes: it has to know who runs together. */
#ifndef FR_PASSES_ONCE_H
#define FR_PASSES_ONCE_H

#include "passes/fuse.h"

/* Values that a group only stores into windows, and that later groups read: those read the window instead, where all of
 * them can, so the value reaches memory once. forward lets them take the value, which pays within the group. Of
 * `p = np.pad(u, 1)` and `np.diff(u, prepend=0)`, the next step of a loop reads u in the middle of the padded array. */
fr_status fr_once(struct fr_graph *, const struct fr_fusion *, struct fr_err *);

#endif
