/* The invariants of a fusion, one function each. */
#include "base/alloc.h"
#include "passes/fuse.h"

static fr_status
broken(struct fr_err *err, const struct fr_graph *g, int n, const char *what)
{
    return fr_fail(err, FR_EBUG, "fusion: %%%d = %s %s", n, fr_op_info[g->node[n].op].name, what);
}

/* The lists of members, and group_of, say the same; and they say it of every computing node. */
static fr_status
check_members(const struct fr_graph *g, const struct fr_fusion *f, struct fr_err *err)
{
    int n_listed = 0, n_computing = 0;

    for (int i = 0; i < f->n_groups; i++) {
        int count = 0;

        for (int n = f->group[i]->first, before = -1; n >= 0; before = n, n = f->next[n]) {
            if (f->group_of[n] != i)
                return broken(err, g, n, "is listed by another group than its own");
            if (n <= before)
                return broken(err, g, n, "is not listed in order of birth");
            if (f->next[n] < 0 && f->group[i]->last != n)
                return broken(err, g, n, "is the last of its group, which does not know it");
            count++;
        }
        if (count != f->group[i]->n_members)
            return fr_fail(err, FR_EBUG, "fusion: group %d lists %d of %d members", i, count, f->group[i]->n_members);
        n_listed += count;
    }
    for (int n = 0; n < g->n_nodes; n++) {
        n_computing += fr_gnode_computes(&g->node[n]);
        if (fr_gnode_computes(&g->node[n]) != (f->group_of[n] >= 0))
            return broken(err, g, n, "computes and has no group, or the other way round");
    }
    return n_listed == n_computing ? FR_OK
                                   : fr_fail(err, FR_EBUG, "fusion: %d of %d nodes are in groups",
                                             n_listed, n_computing);
}

/* Groups run in order: what a member reads is there, and nobody comes too late for an old version. */
static fr_status
check_order(const struct fr_graph *g, const struct fr_fusion *f, struct fr_err *err)
{
    int      *reader = fr_malloc(((size_t)g->n_nodes + 1) * sizeof *reader);
    fr_status st = FR_OK;

    if (!reader)
        return fr_fail(err, FR_ENOMEM, "out of memory: verifying %d nodes", g->n_nodes);
    for (int n = 0; n < g->n_nodes; n++)
        reader[n] = -1;              /* the last group that reads it */
    for (int n = 0; n < g->n_nodes && st == FR_OK; n++) {
        const struct fr_gnode *node = &g->node[n];

        if (f->group_of[n] < 0)
            continue;
        if (node->op == FR_OP_store && f->in_place[n] && reader[node->arg[0].src] > f->group_of[n])
            st = broken(err, g, n, "stores over what a later group reads");
        for (int k = 0; k < node->n_args && st == FR_OK; k++) {
            int src = node->arg[k].src;

            if (src < 0)
                continue;
            if (f->group_of[src] > f->group_of[n])
                st = broken(err, g, n, "reads what a later group computes");
            if (f->group_of[n] > reader[src])
                reader[src] = f->group_of[n];
        }
    }
    fr_free(reader);
    return st;
}

/* A FULL member has the domain of its group; so has a reduction of any level. */
static fr_status
check_domain(const struct fr_graph *g, const struct fr_fusion *f, struct fr_err *err)
{
    for (int n = 0; n < g->n_nodes; n++) {
        const struct fr_gnode  *node = &g->node[n];
        const struct fr_layout *l = fr_gnode_domain(node);
        int64_t                 n_elems = 1;

        if (f->group_of[n] < 0 || (f->level[n] != FR_MEMBER_FULL && !fr_op_reduces(node->op)))
            continue;
        for (int k = 0; k < f->group[f->group_of[n]]->ndim; k++)
            n_elems *= f->group[f->group_of[n]]->dims[k];
        if (n_elems != l->n_elems)
            return broken(err, g, n, "has another shape than its group");
    }
    return FR_OK;
}

fr_status
fr_fusion_verify(const struct fr_graph *g, const struct fr_fusion *f, struct fr_err *err)
{
    fr_status st;

    TRY(check_members(g, f, err));
    TRY(check_order(g, f, err));
    TRY(check_domain(g, f, err));
out:
    return st;
}
