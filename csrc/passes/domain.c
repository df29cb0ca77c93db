/* Domains: over which axes a node runs, and how an edge walks its operand along them. */
#include "passes/fuser.h"

/* The axis that stays in the domain although it has size 1: a reduction keeps one to reduce. */
static int
kept_single(const struct fr_gnode *n, const struct fr_layout *l)
{
    int last = -1;

    if (!fr_op_reduces(n->op))
        return -1;
    for (int k = 0; k < l->ndim; k++)
        if (n->axes >> k & 1) {
            if (fr_layout_dims(l)[k] != 1)
                return -1;
            last = k;
        }
    return last;
}

bool
fr_domain_fill(struct fuser *z, int n)
{
    const struct fr_gnode  *node = &z->g->node[n];
    const struct fr_layout *l = fr_gnode_domain(node);
    struct info            *i = &z->info[n];
    int                     keep = kept_single(node, l);
    int64_t                *dims;

    i->ndim = 0;
    for (int k = 0; k < l->ndim; k++)
        if (fr_layout_dims(l)[k] != 1 || k == keep)
            i->axis[i->ndim++] = (uint8_t)k;
    i->dims = fr_layout_dims(l);
    if (i->ndim == l->ndim)
        return true;
    if (!(dims = fr_arena_room(z->arena, (size_t)i->ndim * sizeof *dims)))
        return false;
    for (int k = 0; k < i->ndim; k++)
        dims[k] = fr_layout_dims(l)[i->axis[k]];
    i->dims = dims;
    return true;
}

const int64_t *
fr_walked_strides(const struct fr_layout *l, int64_t *room)
{
    if (l->n_elems)
        return fr_layout_strides(l);
    fr_strides_c_order(l->ndim, fr_layout_dims(l), room);
    return room;
}

void
fr_edge_strides(const struct fr_graph *g, const struct fr_edge *e, int ndim, const int64_t *dims, int64_t *strides)
{
    const struct fr_layout *l = e->layout;
    int64_t                 room[FR_MAX_DIMS];
    const int64_t          *own = fr_walked_strides(l, room);
    int                     skip = ndim - l->ndim;

    (void)g;
    for (int k = 0; k < ndim; k++)
        strides[k] = k < skip || dims[k] == 1 || fr_layout_dims(l)[k - skip] == 1
                         ? 0
                         : own[k - skip];
}

void
fr_domain_strides(const struct fuser *z, int c, const struct fr_edge *e, int64_t *out)
{
    const struct fr_layout *l = fr_gnode_domain(&z->g->node[c]);
    const struct info      *i = &z->info[c];
    int64_t                 all[FR_MAX_DIMS];

    fr_edge_strides(z->g, e, l->ndim, fr_layout_dims(l), all);
    for (int k = 0; k < i->ndim; k++)
        out[k] = all[i->axis[k]];
}
