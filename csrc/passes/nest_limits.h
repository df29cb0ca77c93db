/* passes/nest_limits.h -- how large a group may grow; below the limits of the loop form. */
#ifndef FR_PASSES_NEST_LIMITS_H
#define FR_PASSES_NEST_LIMITS_H

enum { FR_FUSE_OPERANDS = 80,    /* memory operands; jit/loop.h allows 96 */
       FR_FUSE_MEMBERS = 600 };  /* nodes; each gives at most three instructions */

#endif
