/* passes/nest_limits.h -- how large a group may grow; below the limits of the loop form. And which short rows are joined
 * and what is turned over (backends/cpu/schedule_rows.c), for which groups are made (merge.c: walks_in_bits) and as the launcher has it
 * (backends/cpu/tiles.c). */
#ifndef FR_PASSES_NEST_LIMITS_H
#define FR_PASSES_NEST_LIMITS_H

enum { FR_FUSE_OPERANDS = 80,    /* memory operands; jit/loop.h allows 96 */
       FR_FUSE_MEMBERS = 600 };  /* nodes; each gives at most three instructions */

enum { FR_JOIN_BYTES = 48,       /* of a row at most: longer ones are vectors by themselves; */
       FR_JOIN_MOST = 512,       /* of one that several axes make up, the innermost of FR_JOIN_BYTES at most */
       FR_JOIN_ROWS = 64 };      /* that there are at least */

enum { FR_PACK_EXTENT = 16 };    /* elements along the row and along the line, or there is nothing to turn over */

#endif
