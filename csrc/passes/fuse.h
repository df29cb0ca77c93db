/* passes/fuse.h -- which nodes run together.  Called once per structure by runtime/plan.c.
 *
 * A group becomes one kernel. Its members stand at one of two levels of a common domain D (the dims of
 * its FULL members without axes of size 1): FULL members compute every element of D; KEPT members
 * compute an element for each index of the kept axes K = D minus the reduced axes. */
#ifndef FR_PASSES_FUSE_H
#define FR_PASSES_FUSE_H

#include "ir/graph.h"

enum fr_group_kind {
    FR_GROUP_MAP,       /* no reduction */
    FR_GROUP_ROW,       /* reduces the innermost axes: results are there row by row */
    FR_GROUP_POST,      /* reduces other axes too: results are there after the last row (column sums) */
    FR_GROUP_MIX,       /* row reductions, and column reductions nobody inside reads (layer norm backward) */
    FR_GROUP_SCAN,      /* one scan node, alone */
    FR_GROUP_CALL,      /* one CALL node (a matrix product, a take), alone */
};

enum fr_member_level { FR_MEMBER_FULL, FR_MEMBER_KEPT, FR_MEMBER_AFTER };

struct fr_group {
    uint8_t  kind;              /* enum fr_group_kind */
    uint8_t  ndim;              /* of D */
    uint32_t reduced;           /* mask over D: of the ROW reductions, or of POST's */
    uint32_t columns;           /* MIX: mask of the column reductions */
    const int64_t *dims;        /* D in logical order; a layout's of the graph, or the arena's */
    uint8_t  order[FR_MAX_DIMS];/* ROW, POST, MIX: axes of D from outermost to innermost, as NumPy's */
    int      n_inner;           /* ROW, MIX: how many of the last axes in `order` make up the row */
    bool     ordered;           /* `order` is binding: a float sum depends on it */
    int      first, last;       /* members, by birth; linked through fr_fusion.next */
    int      n_members, n_stores;
    int      n_operands;        /* while fusing: memory operands, or more */
    int      n_results;         /* of those, what is written whoever else is a member */
    int      pos;               /* while fusing: place in a topological order of the groups */
};

struct fr_fusion {
    int              n_groups;
    struct fr_group **group;    /* in an order in which they can run */
    int             *group_of;  /* [n_nodes]; -1: not computed */
    uint8_t         *level;     /* [n_nodes] enum fr_member_level */
    int             *next;      /* [n_nodes]; the next member of the same group, or -1 */
    int             *in_place;  /* [n_nodes]; STORE: 1 writes over its previous version's memory, 0 copies first */
    struct fr_readers readers;  /* of every node; only where some node stores */
    const char     **why;       /* [n_groups] why it was not merged with its heaviest neighbour, or NULL */
};

/* Without `merge` every node stays a group of its own. *out lives in the arena, and no longer than the
 * graph. */
fr_status fr_fuse(const struct fr_graph *, bool merge, struct fr_arena *, struct fr_fusion **out, struct fr_err *);
/* Every computing node is in one group, of its shape, and what it waits for is not in a later one. */
fr_status fr_fusion_verify(const struct fr_graph *, const struct fr_fusion *, struct fr_err *);
/* A line for each group:  group 0 = {%2 %3' %4} row reads %0 writes %4   where ' marks what exists once
 * a row and " what exists after the last one. Returns the length needed. */
int       fr_fusion_print(const struct fr_graph *, const struct fr_fusion *, char *out, size_t cap);

/* The strides of a layout as kernels see them. Where there are no elements they are in C order, not 0 as NumPy's:
 * along an axis of stride 0 a result is accumulated. `room` holds them then. */
const int64_t *fr_walked_strides(const struct fr_layout *, int64_t *room);

/* The strides with which `edge` walks a consumer's axes (`ndim` of `dims`): 0 where it is broadcast
 * or has size 1. */
void      fr_edge_strides(const struct fr_graph *, const struct fr_edge *, int ndim,
                          const int64_t *dims, int64_t *strides);

#endif
