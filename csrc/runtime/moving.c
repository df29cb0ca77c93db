/* runtime/moving.c -- which windows of a plan move, and which of them together.
 *
 * An integer of the user's is where a window begins, x[i] or u[n + 1, 1:-1], and mostly changes from run to run. So a key
 * does not have it, and a plan is for all runs that its fr_move rules hold for. Rules let passes see what they may rely on:
 * a window that does not move begins at a known offset, and two that move together keep their distance, so whether they are
 * the same or meet is known.
 *
 * What holds is learnt. At first windows stand still, but for those of arrays that nobody stores to, where little follows from
 * that. Where a run does not begin there, the next plan keeps of the rules those that hold for it, too: h[t + 1] and h[t] are
 * then one moving window and another one beside it. Each plan asks for less than the one before, at last for nothing, so there
 * are few for one key, whatever integers come. Windows of which nothing is known count as meeting. */
#include "runtime/plan.h"

enum {
    LOOK_BACK = 64,     /* windows that move, over the same memory, which another one may move with */
    MAX_APART = 6,      /* plans that ask for distances between windows that move, */
    MAX_ASKING = 10     /* and for anything: what holds by chance has gone by then */
};

struct settling {
    struct fr_graph           *g;
    const struct fr_structure *of;
    struct fr_move            *move;
    bool                       stores;    /* the graph does */
    int32_t                   *memory;    /* [n_nodes] the first version of each node's array */
    int32_t                   *last;      /* [n_nodes] over such a version, the last window that moves by itself; -1 */
    int32_t                   *previous;  /* [n_moving] the one before that */
    struct fr_layout         **layout;    /* [n_moving] */
};

/* Whether window i, over that memory, has always begun so far from window j, which moves. */
static bool
moves_with(const struct settling *z, int32_t i, int32_t j)
{
    const int64_t        *at = z->of->moving;
    const struct fr_move *older = z->of->older;

    if (!older)
        return at[i] == at[j] && z->layout[i] == z->layout[j];
    return older[i].with == older[j].with && at[i] - at[j] == older[i].n - older[j].n &&
           (at[i] == at[j] || z->of->n_older < MAX_APART);
}

static bool
stands_still(const struct settling *z, int32_t i, int memory)
{
    const struct fr_move *older = z->of->older;

    return older ? older[i].with < 0 && older[i].n == z->of->moving[i]
                 : z->stores || z->g->node[memory].op != FR_OP_leaf;
}

/* The rule of window i. */
static struct fr_move
rule(struct settling *z, int32_t i, int memory)
{
    const int64_t *at = z->of->moving;
    int            n_looked = 0;
    bool           asks = z->of->n_older < MAX_ASKING;

    if (asks && stands_still(z, i, memory))
        return (struct fr_move){at[i], -1};
    for (int32_t j = z->last[memory]; asks && j >= 0 && n_looked++ < LOOK_BACK; j = z->previous[j])
        if (moves_with(z, i, j))
            return (struct fr_move){at[i] - at[j], j};
    z->previous[i] = z->last[memory];
    z->last[memory] = i;
    return (struct fr_move){0, i};
}

static void
settle_edge(struct settling *z, struct fr_edge *e)
{
    int32_t i = e->moving;
    int     memory = z->memory[e->src];

    z->layout[i] = e->layout;
    z->move[i] = rule(z, i, memory);
    e->moving = z->move[i].with;
    e->offset = z->move[i].n;
}

fr_status
fr_moving_settle(struct fr_graph *g, const struct fr_structure *of, struct fr_move **out, struct fr_err *err)
{
    size_t          n_nodes = (size_t)g->n_nodes + 1, n_moving = (size_t)g->n_moving + 1;
    struct fr_arena scratch = {0};
    struct settling z = {.g = g, .of = of, .stores = fr_graph_stores(g)};
    fr_status       st = FR_OK;

    *out = NULL;
    if (g->n_moving == 0)
        return FR_OK;
    z.move = fr_arena_room(&g->arena, n_moving * sizeof *z.move);
    z.memory = fr_arena_room(&scratch, n_nodes * sizeof *z.memory);
    z.last = fr_arena_room(&scratch, n_nodes * sizeof *z.last);
    z.previous = fr_arena_room(&scratch, n_moving * sizeof *z.previous);
    z.layout = fr_arena_room(&scratch, n_moving * sizeof *z.layout);
    if (!z.move || !z.memory || !z.last || !z.previous || !z.layout) {
        st = fr_no_memory(err, "the windows of a plan");
        goto out;
    }
    for (int n = 0; n < g->n_nodes; n++) {
        struct fr_gnode *node = &g->node[n];

        z.memory[n] = node->op == FR_OP_store ? z.memory[node->arg[0].src] : n;
        z.last[n] = -1;
        for (int k = 0; k < (int)FR_LEN(node->arg); k++)
            if (node->arg[k].layout && node->arg[k].moving >= 0)
                settle_edge(&z, &node->arg[k]);
    }
    FR_ASSERT(fr_moving_holds(z.move, of->moving, of->n_moving));
    *out = z.move;
out:
    fr_arena_clear(&scratch);
    return st;
}
