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
    int            ndim; /* of the domain, without axes of size 1 */
    const int64_t *dims;
    uint8_t        axis[FR_MAX_DIMS]; /* squeezed axis -> axis of the node's own domain */
    int            buffer;            /* node whose memory this node's value lives in */
    int            over;              /* the store that writes over it in place, or -1 */
};

struct fuser {
    const struct fr_graph *g;
    struct fr_fusion      *f;
    struct info           *info;
    struct fr_arena       *arena; /* of the fusion */
    struct fr_arena        scratch;
    const char           **why; /* [n_nodes] by first member: why it was not merged, or NULL */
    struct fr_readers      readers;
    int                    n_edges; /* arguments of computing nodes */
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

/* What must come after node n stands at places 0 to n_after: its readers, and the stores over what
 * it reads. -1: nothing at this place. */
static inline int
fr_fuser_n_after(const struct fuser *z, int n)
{
    return z->readers.first[n + 1] - z->readers.first[n] + z->g->node[n].n_args;
}

static inline int
fr_fuser_after(const struct fuser *z, int n, int place)
{
    int n_readers = z->readers.first[n + 1] - z->readers.first[n], src;

    if (place < n_readers)
        return z->readers.node[z->readers.first[n] + place];
    src = z->g->node[n].arg[place - n_readers].src;
    return src >= 0 && z->info[src].over > n ? z->info[src].over : -1;
}

/* Whether node n writes over what others have read before, and waits for them. */
static inline bool
fr_fuser_stores_over(const struct fuser *z, int n)
{
    const struct fr_gnode *node = &z->g->node[n];

    return node->op == FR_OP_store && z->info[node->arg[0].src].over == n;
}

/* domain.c: the axes over which a node runs, those of size 1 left out */

/* Fills in the domain of node n; false when memory is out. */
bool fr_domain_fill(struct fuser *, int n);
/* Strides of an edge of node c over c's squeezed axes. */
void fr_domain_strides(const struct fuser *, int c, const struct fr_edge *, int64_t *out);

/* merge.c: two groups into one */

/* NULL if `big` and `small` may be one group, with z->merged and z->level_b filled; else the
 * reason, as explain shows it. Of two domains `big` has the larger. */
const char *fr_merge_legal(struct fuser *, struct fr_group *big, struct fr_group *small);
/* Does what fr_merge_legal has just allowed. */
void fr_merge_apply(struct fuser *);

#endif
