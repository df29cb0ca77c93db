/* passes/push.h -- windows of what is still to be computed are read from memory instead.
 * Called once per structure by passes/pipeline.c. */
#ifndef FR_PASSES_PUSH_H
#define FR_PASSES_PUSH_H

#include "ir/graph.h"

/* What is read through windows only, element by element, need not exist as a whole: each window is computed
 * where it is read, from windows of the arguments. So the channels of a converted image, the transpose of a scaled
 * matrix or the reshaped result of a chain cost neither a store nor a kernel. Every value stays as it is.
 * The graph gets nodes, and those after them other numbers; fr_gnode.given keeps the old ones. FR_ENOMEM. */
fr_status fr_push(struct fr_graph *, struct fr_err *);

#endif
