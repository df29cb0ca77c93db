#include "ir/graph.h"

#include "base/alloc.h"

void
fr_graph_free(struct fr_graph *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < 3; k++)
            fr_layout_unref(g->node[i].arg[k].layout);
        fr_layout_unref(g->node[i].layout);
    }
    fr_arena_clear(&g->arena);
    fr_free(g);
}

/* True if argument k reads a node that no earlier argument reads. */
static bool
reads_first(const struct fr_gnode *n, int k)
{
    for (int j = 0; j < k; j++)
        if (n->arg[j].src == n->arg[k].src)
            return false;
    return n->arg[k].src >= 0;
}

bool
fr_graph_stores(const struct fr_graph *g)
{
    for (int n = 0; n < g->n_nodes; n++)
        if (g->node[n].op == FR_OP_store && !g->node[n].dead)
            return true;
    return false;
}

fr_status
fr_graph_readers(const struct fr_graph *g, struct fr_arena *arena, struct fr_readers *out,
                 struct fr_err *err)
{
    int *first = fr_arena_alloc(arena, ((size_t)g->n_nodes + 2) * sizeof *first), *node;

    if (!first)
        return fr_fail(err, FR_ENOMEM, "out of memory: readers of %d nodes", g->n_nodes);
    /* Counted one place further on, so that filling in moves each beginning to where it belongs. */
    for (int n = 0; n < g->n_nodes; n++)
        for (int k = 0, n_args = g->node[n].dead ? 0 : g->node[n].n_args; k < n_args; k++)
            if (reads_first(&g->node[n], k))
                first[g->node[n].arg[k].src + 2]++;
    for (int n = 0; n < g->n_nodes; n++)
        first[n + 2] += first[n + 1];
    if (!(node = fr_arena_room(arena, ((size_t)first[g->n_nodes + 1] + 1) * sizeof *node)))
        return fr_fail(err, FR_ENOMEM, "out of memory: readers of %d nodes", g->n_nodes);
    for (int n = 0; n < g->n_nodes; n++)
        for (int k = 0, n_args = g->node[n].dead ? 0 : g->node[n].n_args; k < n_args; k++)
            if (reads_first(&g->node[n], k))
                node[first[g->node[n].arg[k].src + 1]++] = n;
    *out = (struct fr_readers){first, node};
    return FR_OK;
}
