/* ir/insert.h -- nodes that a pass adds to a closed graph, and the edges and numbers that they read.
 *
 *     TRY(fr_insert_map(&z, FR_OP_cos, &x, &t, err));
 *     TRY(fr_insert_map(&z, FR_OP_multiply, (struct fr_edge[]){g, t}, &t, err));     multiply(g, cos(x))
 *
 * Dtypes, shapes and layouts are those of ir/build.h, as if the user had written it; but a sum goes in the order
 * that is fastest for us where NumPy's would be another, for there is nothing of NumPy's to compare it with.
 *
 * While a pass adds nodes, the others keep their numbers, and new ones are numbered from `n_given` on. fr_insert_end puts
 * each where it belongs. A new node stands before node `before`, behind those that were put there earlier. It may
 *   - read what is older: given nodes before that place, and new ones at that place or before;
 *   - not read a version behind the store over it: what reads it has to stand before that store. The store that a
 *     pass adds to a given node must likewise stand behind all of that node's readers.
 *
 * Operands and results are edges. Their layouts are the graph's, or are kept until fr_insert_end: a pass may copy edges,
 * and forget them. Where a function fails (FR_ENOMEM, or as in ir/build.h), what was added so far stays. */
#ifndef FR_IR_INSERT_H
#define FR_IR_INSERT_H

#include "core/number.h"
#include "ir/graph.h"

struct fr_inserter {
    struct fr_graph   *g;
    int                n_given;
    int                before;      /* where the next node goes; n_given: at the end */
    uint32_t           site;        /* of the next node */
    int                cap;         /* nodes that there is room for */
    int32_t           *place;       /* [cap - n_given] what each new node stands before */
    struct fr_layout **kept;        /* layouts of edges */
    size_t             n_kept, cap_kept;
};

/* New nodes go to the end. */
void      fr_insert_begin(struct fr_inserter *, struct fr_graph *);
/* Puts the new nodes into their places. To be called in any case; on failure the graph can only be freed. */
fr_status fr_insert_end(struct fr_inserter *, struct fr_err *);

/* This node, whose layouts' references move in, also on failure; its arguments are numbered as above. */
fr_status fr_insert_node(struct fr_inserter *, const struct fr_gnode *, struct fr_err *);
/* Drops the new nodes from number n on, which nothing else reads. */
void      fr_insert_drop(struct fr_inserter *, int n);

/* ---- edges: no node */

/* All of a node. */
struct fr_edge fr_insert_whole(const struct fr_inserter *, int n);
/* A number of this dtype, as typed as an array is. It is the same in every run of the graph. */
fr_status fr_insert_number(struct fr_inserter *, const struct fr_number *, fr_dtype, struct fr_edge *out, struct fr_err *);
/* A window of what the edge shows, by strides and offset in elements of the memory that it reads. */
fr_status fr_insert_window(struct fr_inserter *, const struct fr_edge *, int ndim, const int64_t *dims,
                           const int64_t *strides, int64_t offset, struct fr_edge *out, struct fr_err *);
/* The same elements along that axis from the last to the first: a scan between two of these is one from behind. */
fr_status fr_insert_flip(struct fr_inserter *, const struct fr_edge *, int axis, struct fr_edge *out, struct fr_err *);
/* Broadcast to these dims; FR_EVALUE. A number becomes a node. */
fr_status fr_insert_broadcast(struct fr_inserter *, const struct fr_edge *, int ndim, const int64_t *dims,
                              struct fr_edge *out, struct fr_err *);
/* The elements in C order as an array of these dims, of as many elements. It is a node where no window shows that. */
fr_status fr_insert_reshape(struct fr_inserter *, const struct fr_edge *, int ndim, const int64_t *dims,
                            struct fr_edge *out, struct fr_err *);

/* ---- nodes */

fr_status fr_insert_map(struct fr_inserter *, fr_op, const struct fr_edge *args, struct fr_edge *out, struct fr_err *);
/* The elements in another dtype; of the same one, a copy. The order is fr_build_copy's. */
fr_status fr_insert_cast(struct fr_inserter *, const struct fr_edge *, fr_dtype, char order, struct fr_edge *out,
                         struct fr_err *);
/* dtype: FR_N_DTYPES, or as in ir/build.h. */
fr_status fr_insert_reduce(struct fr_inserter *, fr_op, const struct fr_edge *, uint32_t axes, bool keepdims, fr_dtype,
                           struct fr_edge *out, struct fr_err *);
fr_status fr_insert_scan(struct fr_inserter *, fr_op, const struct fr_edge *, int axis, fr_dtype, struct fr_edge *out,
                         struct fr_err *);
fr_status fr_insert_product(struct fr_inserter *, const struct fr_edge *a, const struct fr_edge *b, struct fr_edge *out,
                            struct fr_err *);
/* A new version of the node that the edge `window` shows a part of, that part overwritten: by a number 0 it is zeroed. */
fr_status fr_insert_store(struct fr_inserter *, const struct fr_edge *window, const struct fr_edge *value,
                          struct fr_edge *out, struct fr_err *);

#endif
