#include "passes/forward.h"

#include <limits.h>
#include <string.h>

/* The edge shows exactly the elements that the store has written, in the same arrangement. */
static bool
reads_window(const struct fr_edge *e, const struct fr_gnode *store)
{
    return fr_edges_same(e, &store->arg[2]);
}

/* The stored value can stand for the window: a pure result of the window's own shape, whose memory is not
 * stored over before node `reader`. A sum depends on how its operand lies, so for reductions (and matrix
 * products, which choose their routine by it) the value must lie as the window does; a scan is a kernel of its own and reads what is in memory anyway. */
static bool
can_forward(const struct fr_graph *g, const struct fr_gnode *store, int reader, const int *stored_over)
{
    const struct fr_edge    *v = &store->arg[1];
    const struct fr_layout  *w = store->arg[2].layout;

    if (v->src < 0 || !v->whole || !fr_gnode_computes(&g->node[v->src]) ||
        g->node[v->src].op == FR_OP_store || stored_over[v->src] <= reader)
        return false;
    switch (fr_op_info[g->node[reader].op].class_) {
    case FR_CLASS_REDUCE:
    case FR_CLASS_CALL: return v->layout == w;
    case FR_CLASS_SCAN: return false;
    default: break;
    }
    return v->layout->ndim == w->ndim &&
           !memcmp(fr_layout_dims(v->layout), fr_layout_dims(w), w->ndim * sizeof(int64_t));
}

static void
replace(struct fr_edge *e, const struct fr_edge *by)
{
    fr_layout_unref(e->layout);
    *e = *by;
    fr_layout_ref(e->layout);
}

fr_status
fr_forward(struct fr_graph *g, struct fr_err *err)
{
    struct fr_arena scratch = {0};
    int            *stored_over, *n_readers;

    if (!fr_graph_stores(g))
        return FR_OK;
    stored_over = fr_arena_room(&scratch, ((size_t)g->n_nodes + 1) * sizeof *stored_over);
    n_readers = fr_arena_alloc(&scratch, ((size_t)g->n_nodes + 1) * sizeof *n_readers);
    if (!stored_over || !n_readers) {
        fr_arena_clear(&scratch);
        return fr_fail(err, FR_ENOMEM, "out of memory: forwarding stores");
    }
    for (int n = 0; n < g->n_nodes; n++)
        stored_over[n] = INT_MAX;
    for (int n = g->n_nodes; n-- > 0;)
        if (!g->node[n].dead && g->node[n].op == FR_OP_store)
            stored_over[g->node[n].arg[0].src] = n;
    for (int n = 0; n < g->n_nodes; n++)
        for (int k = 0; !g->node[n].dead && k < g->node[n].n_args; k++) {
            struct fr_edge *e = &g->node[n].arg[k];

            if (e->src < 0)
                continue;
            if (g->node[e->src].op == FR_OP_store && !(g->node[n].op == FR_OP_store && k == 0) &&
                reads_window(e, &g->node[e->src]) &&
                can_forward(g, &g->node[e->src], n, stored_over))
                replace(e, &g->node[e->src].arg[1]);
            n_readers[e->src]++;
        }
    /* From the last store to the first, so that a chain of overwritten versions goes as a whole. */
    for (int n = g->n_nodes; n-- > 0;) {
        struct fr_gnode *s = &g->node[n], *prev;

        if (s->dead || s->op != FR_OP_store || s->arg[2].layout != s->layout ||
            s->arg[2].offset != 0 || s->arg[2].moving >= 0)
            continue;
        for (;;) {
            int p = s->arg[0].src;

            prev = &g->node[p];
            if (prev->op != FR_OP_store || prev->output || prev->outside || n_readers[p] != 1)
                break;
            prev->dead = true;
            for (int k = 0; k < prev->n_args; k++)
                if (prev->arg[k].src >= 0)
                    n_readers[prev->arg[k].src]--;
            n_readers[prev->arg[0].src]++;
            replace(&s->arg[0], &prev->arg[0]);
            s->arg[2].src = s->arg[0].src;
        }
    }
    fr_arena_clear(&scratch);
    return FR_OK;
}
