/* passes/fuser.h -- the state that fuse.c (which merges are tried, and the order of the groups),
 * merge.c (what is legal) and domain.c (over which axes a node runs) share. Nobody else includes
 * it. */
#ifndef FR_PASSES_FUSER_H
#define FR_PASSES_FUSER_H

#include "passes/fuse.h"

#include "base/alloc.h"
#include "passes/nest_limits.h"

/* What fusing needs to know about one node. */
struct info {
    int     ndim; /* of the domain, without axes of size 1 */
    int64_t dims[FR_MAX_DIMS];
    int     axis[FR_MAX_DIMS];  /* squeezed axis -> axis of the node's own domain */
    int     first_succ, n_succ; /* in fuser.succ: readers, and stores that must come later */
    int     first_pred, n_pred; /* in fuser.pred: the same the other way round */
    int     buffer;             /* node whose memory this node's value lives in */
};

struct fuser {
    const struct fr_graph *g;
    struct fr_fusion      *f;
    struct info           *info;
    int                   *succ, *pred;
    struct fr_readers      readers;
    struct fr_group      **of;   /* [n_nodes] */
    unsigned              *seen; /* [n_nodes], by first member of a group */
    unsigned               stamp;
    struct fr_group      **before, **after; /* [n_nodes] of a search; see path_around in merge.c */
    int                    n_before;
    int                   *position; /* [n_nodes] scratch */
    struct fr_group       *a, *b;    /* the merge under test */
    struct fr_group        merged;
    uint8_t                level_b; /* of the members of b in it that were FULL */
};

static inline bool
fr_fuser_reduces(const struct fr_gnode *n)
{
    return fr_op_info[n->op].class_ == FR_CLASS_REDUCE;
}

/* domain.c: the axes over which a node runs, those of size 1 left out */

const struct fr_layout *fr_domain_layout(const struct fr_gnode *);
void                    fr_domain_fill(const struct fr_gnode *, struct info *);
/* Strides of an edge of node c over c's squeezed axes. */
void fr_domain_strides(const struct fuser *, int c, const struct fr_edge *, int64_t *out);

/* merge.c: two groups into one */

/* NULL if `big` and `small` may be one group, with z->merged and z->level_b filled; else the
 * reason, as explain shows it. Of two domains `big` has the larger. */
const char *fr_merge_legal(struct fuser *, struct fr_group *big, struct fr_group *small);
/* Does what fr_merge_legal has just allowed. */
void fr_merge_apply(struct fuser *);

#endif
