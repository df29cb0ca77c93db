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
