/* passes/outer.h -- products of columns and rows are broadcast multiplications.
 * Called once per structure by passes/pipeline.c, first of all passes. */
#ifndef FR_PASSES_OUTER_H
#define FR_PASSES_OUTER_H

#include "ir/graph.h"

/* A product whose inner axis has one element becomes the multiplication that it is, which fuses with what is around it.
 * The node keeps its number, its layout and its bits. */
fr_status fr_outer(struct fr_graph *, struct fr_err *);

#endif
