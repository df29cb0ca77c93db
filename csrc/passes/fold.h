/* passes/fold.h -- fewer nodes with the same bits.  Called once per structure by passes/pipeline.c.
 *
 * Rewrites by the rules of fold.def, makes equal nodes one, and marks dead what nobody reads any more.
 * Nodes keep their numbers. Whoever needs the memory of a node (an output, a version that is stored
 * over) finds it there: such a node becomes a copy of what it equals. */
#ifndef FR_PASSES_FOLD_H
#define FR_PASSES_FOLD_H

#include "ir/graph.h"

fr_status fr_fold(struct fr_graph *, struct fr_err *);

#endif
