/* jit/lower.h -- a fused group becomes a nest (jit/loop.h) and the sizes and strides to run it with.
 * Called by runtime/plan.c for each group. */
#ifndef FR_JIT_LOWER_H
#define FR_JIT_LOWER_H

#include "jit/loop.h"
#include "passes/fuse.h"

/* Which memory an operand of the nest is. */
struct fr_operand_source {
    int32_t node;        /* its buffer; -1: an IOTA, whose start is `offset` */
    int32_t moving;      /* >= 0: and so many elements more as this slot says at run time */
    int64_t offset;      /* bytes from the buffer's start */
};

/* What an axis is for: rows are added up along REDUCED ones, of which those that are COLUMNS are reduced after the row's
 * own, INNER ones. Axes of one class change places freely, but for INNER ones. */
enum fr_axis_class { FR_AXIS_KEPT = 0, FR_AXIS_REDUCED = 1, FR_AXIS_COLUMNS = 2, FR_AXIS_INNER = 4 };

/* A nest, which says nothing of sizes, and what it runs over. A backend schedules both (fr_backend.schedule): then axes may
 * have changed places, and what is marked is marked. */
struct fr_lowered {
    struct fr_nest            nest;
    int                       n_axes;    /* the last so many of n_outer + 2; */
    uint8_t                   class_[FR_MAX_DIMS]; /* [n_axes] enum fr_axis_class */
    uint8_t                   kind;      /* enum fr_group_kind; MAP: no row waits for another */
    int                       n_outer, n_packed;
    uint8_t                   joined;    /* short rows of so many axes, to be run as one (struct fr_instance) */
    int64_t                   outer[FR_MAX_DIMS];
    int64_t                   n_rows, n_inner;
    struct fr_operand_source *source;    /* [n_operands] */
    int64_t                  *begins;    /* [n_operands] bytes of its memory before it, just now; FR_BEGINS_ANYWHERE: nobody knows */
    int64_t                  *stride;    /* bytes, [n_operands * (n_outer + 2)] */
    int32_t                  *scalar;    /* [n_scalars] graph scalar of each nest scalar */
    struct fr_lowered        *after;     /* what is left to do when the last row is done, or NULL */
};

enum { FR_LOWER_NO_INST = 0xffff };
#define FR_BEGINS_ANYWHERE INT64_MIN

/* `stored[n]`: node n must reach memory. `value` is scratch for all groups of the graph: [n_nodes],
 * every one FR_LOWER_NO_INST, and so again afterwards. *out lives in the arena. */
fr_status fr_lower(const struct fr_graph *, const struct fr_fusion *, int group, const bool *stored,
                   uint16_t *value, struct fr_arena *, struct fr_lowered **out, struct fr_err *);
#endif
