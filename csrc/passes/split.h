/* passes/split.h -- what is reshaped has the same axes before and after.
 * Called once per structure by passes/pipeline.c. */
#ifndef FR_PASSES_SPLIT_H
#define FR_PASSES_SPLIT_H

#include "ir/graph.h"

/* Element-wise nodes, reductions and stores that see the same elements through different shapes all walk the axes that
 * every one of those shapes can be put together from, and can be one loop nest. Every value and its memory stay as they
 * are; dims and strides of edges and results change, and with them the axes of reductions. FR_ENOMEM. */
fr_status fr_split(struct fr_graph *, struct fr_err *);

#endif
