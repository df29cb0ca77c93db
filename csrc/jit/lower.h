/* jit/lower.h -- a fused group becomes a nest (jit/loop.h) and the sizes and strides to run it with.
 * Called by runtime/plan.c for each group. */
#ifndef FR_JIT_LOWER_H
#define FR_JIT_LOWER_H

#include "jit/loop.h"
#include "passes/fuse.h"

/* Which memory an operand of the nest is. */
struct fr_operand_source {
    int32_t node;        /* its buffer; -1: an IOTA, whose start is `offset` */
    int32_t moving;      /* >= 0: add the run-time offset of this slot (elements) */
    int64_t offset;      /* bytes from the buffer's start */
};

struct fr_lowered {
    struct fr_nest            nest;
    int                       n_outer, n_packed;
    uint8_t                   joined;    /* short rows of so many axes, to be run as one (struct fr_instance) */
    int64_t                   outer[FR_MAX_DIMS];
    int64_t                   n_rows, n_inner;
    struct fr_operand_source *source;    /* [n_operands] */
    int64_t                  *stride;    /* bytes, [n_operands * (n_outer + 2)] */
    int32_t                  *scalar;    /* [n_scalars] graph scalar of each nest scalar */
    struct fr_lowered        *after;     /* what is left to do when the last row is done, or NULL */
};

enum { FR_LOWER_NO_INST = 0xffff };

/* `stored[n]`: node n must reach memory. `value` is scratch for all groups of the graph: [n_nodes],
 * every one FR_LOWER_NO_INST, and so again afterwards. *out lives in the arena. */
fr_status fr_lower(const struct fr_graph *, const struct fr_fusion *, int group, const bool *stored,
                   uint16_t *value, struct fr_arena *, struct fr_lowered **out, struct fr_err *);
/* Marks what the nest stores to go past the caches, where it is run over several arrays, in all so many bytes, one after
 * the other. False: it stays as it is. */
bool      fr_lower_past(struct fr_nest *, int64_t bytes);

#endif
