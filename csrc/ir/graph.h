/* ir/graph.h -- a closed graph, taken out of the traced nodes to be planned.
 *
 * Windows are resolved: an argument says which node's memory it reads and through which layout. Made
 * by runtime/gather.c (from traced nodes) and ir/parse.c (from text); read by every pass. Nodes are in order of
 * birth, which is topological. A pass may replace arguments, mark nodes dead, and add nodes by ir/insert.h, which says
 * where they may stand. */
#ifndef FR_IR_GRAPH_H
#define FR_IR_GRAPH_H

#include <stddef.h>

#include "base/arena.h"
#include "core/device.h"
#include "core/layout.h"
#include "ir/op.h"

enum { FR_SRC_SCALAR = -1 };        /* the argument is run-time scalar `scalar` */

struct fr_edge {
    int32_t           src;          /* node, or FR_SRC_SCALAR */
    int32_t           scalar;
    struct fr_layout *layout;       /* as it is seen; the node's own layout when `whole` */
    int64_t           offset;       /* elements from the node's first, or from where it moves to: */
    int32_t           moving;       /* >= 0: a place in the node that is an argument at run time, in this slot */
    bool              whole;
};

struct fr_gnode {
    fr_op             op;
    fr_dtype          dtype;
    uint8_t           n_args;       /* without a STORE's third */
    bool              output;       /* somebody wants its memory afterwards */
    bool              dying;        /* LEAF: nobody needs its memory after this graph, and it is the pool's */
    bool              pinned;       /* LEAF: stores must land in this very memory */
    bool              outside;      /* somebody outside of this graph reads it: a store over it copies */
    bool              dead;         /* replaced by a pass */
    int32_t           given;        /* its number in the graph that the passes were given */
    uint32_t          axes;         /* REDUCE: mask; SCAN, IOTA, TAKE: axis */
    uint32_t          site;
    struct fr_layout *layout;       /* of the result, dense */
    struct fr_edge    arg[3];       /* STORE: previous version, value, window over the result */
};

struct fr_graph {
    struct fr_arena   arena;
    int               n_nodes, n_scalars, n_moving;
    fr_device         device;       /* on which all of it is computed */
    struct fr_gnode  *node;
    fr_dtype         *scalar_dtype;
    const uint64_t  **scalar_value; /* [n_scalars] of a constant its bits, 16 bytes; else NULL. Or NULL: there are none */
    int32_t          *scalar_like;  /* [n_scalars] the first with the same dtype and, just now, the same value; or NULL */
    bool             *scalar_must;  /* [n_scalars] it must go on having that value: fold took it for the same */
    int64_t          *moving_at;    /* [n_moving] where those places are just now, for what only speed depends on; or NULL */
    struct fr_layouts own;          /* where the graph was not made under the GIL: its layouts */
};

/* True for nodes that something has to run for. */
static inline bool
fr_gnode_computes(const struct fr_gnode *n)
{
    return !n->dead && n->op != FR_OP_leaf && n->op != FR_OP_empty;
}

/* The layout over whose axes a node of a loop nest runs. */
static inline const struct fr_layout *
fr_gnode_domain(const struct fr_gnode *n)
{
    return n->op == FR_OP_store ? n->arg[2].layout : fr_op_reduces(n->op) ? n->arg[0].layout : n->layout;
}

/* The bits of a scalar that is known when the graph is made, or NULL. */
static inline const uint64_t *
fr_graph_constant(const struct fr_graph *g, int32_t scalar)
{
    return g->scalar_value ? g->scalar_value[scalar] : NULL;
}

/* Two windows over the same memory: whether they show the same elements, arranged in the same way, and whether they may have an
 * element in common. Of those that move, but not together, nothing is known. */
static inline bool
fr_edges_same(const struct fr_edge *a, const struct fr_edge *b)
{
    return a->layout == b->layout && a->offset == b->offset && a->moving == b->moving;
}

static inline bool
fr_edges_meet(const struct fr_edge *a, const struct fr_edge *b)
{
    return a->moving != b->moving || fr_overlap(a->layout, a->offset, b->layout, b->offset);
}

/* Whether a node stores. */
bool      fr_graph_stores(const struct fr_graph *);

/* Who reads a node: node[first[n]] .. node[first[n + 1] - 1], in order of birth, each once. */
struct fr_readers {
    int *first;                     /* [n_nodes + 1] */
    int *node;
};
/* The readers of every node, in memory of `arena`. FR_ENOMEM. */
fr_status fr_graph_readers(const struct fr_graph *, struct fr_arena *arena, struct fr_readers *out,
                           struct fr_err *);

void      fr_graph_free(struct fr_graph *);             /* drops the layouts' references; NULL is fine */
/* Text form, one line a node:  %2 = add f32[64,128] %0 %1{strides=0,1}   Returns the length needed. */
int       fr_graph_print(const struct fr_graph *, char *out, size_t cap);
/* The same text back; FR_EVALUE names the line. */
fr_status fr_graph_parse(const char *text, struct fr_graph **out, struct fr_err *);
/* Every invariant of this header; FR_EBUG says which one is broken and where. */
fr_status fr_graph_verify(const struct fr_graph *, struct fr_err *);

#endif
