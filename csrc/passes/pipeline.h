/* passes/pipeline.h -- from a gathered graph to groups.  Called once per structure by runtime/plan.c.
 *
 * Runs the passes of passes.def. FRIT_SKIP leaves some out, FRIT_VERIFY=1 checks every invariant after
 * each, FRIT_DEBUG>=3 prints the graph after each. */
#ifndef FR_PASSES_PIPELINE_H
#define FR_PASSES_PIPELINE_H

#include "passes/fuse.h"

/* `unfused`: every node is a group of its own. *out lives in the arena, and no longer than the graph. */
fr_status fr_passes_run(struct fr_graph *, bool unfused, struct fr_arena *, struct fr_fusion **out, struct fr_err *);

#endif
