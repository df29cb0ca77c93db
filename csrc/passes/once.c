#include "passes/once.h"

#include <string.h>

enum { MIN_ROW = 64,      /* elements that lie one behind the other; shorter rows are slower than a second array */
       MOST = 64 };       /* versions, readers and members that are looked at: planning stays linear */

struct once {
    struct fr_graph        *g;
    const struct fr_fusion *f;
    int                    *after;  /* [n_nodes] the store over a node's memory, in place, or -1 */
};

static bool
is_in_place(const struct once *z, int n)
{
    return !z->g->node[n].dead && z->g->node[n].op == FR_OP_store && z->f->in_place[n];
}

/* Whether long rows of the window lie one behind the other. */
static bool
has_long_rows(const struct fr_layout *w)
{
    int64_t row = 1;

    for (int k = w->ndim; k-- > 0 && (fr_layout_dims(w)[k] == 1 || fr_layout_strides(w)[k] == row);)
        row *= fr_layout_dims(w)[k];
    return row >= MIN_ROW;
}

/* Whether the store writes a value of its own group, as it is, into a window that others can read it from. */
static bool
keeps(const struct once *z, int s, int value)
{
    const struct fr_gnode *store = &z->g->node[s], *v = &z->g->node[value];
    const struct fr_edge  *w = &store->arg[2];

    return store->op == FR_OP_store && store->arg[1].src == value && store->arg[1].whole && store->dtype == v->dtype &&
           z->f->group_of[s] == z->f->group_of[value] && fr_layout_same_dims(w->layout, v->layout) &&
           has_long_rows(w->layout);
}

static bool
group_reads(const struct once *z, int grp, int src)
{
    int n_looked = 0;

    for (int n = z->f->group[grp]->first; n >= 0 && n_looked++ < MOST; n = z->f->next[n])
        for (int k = 0; k < z->g->node[n].n_args; k++)
            if (z->g->node[n].arg[k].src == src && !(z->g->node[n].op == FR_OP_store && k == 0))
                return true;
    return false;
}

/* Whether node `reader` may read version v: it is made before, and stored over only after the reader's group. */
static bool
is_there(const struct once *z, int v, int reader)
{
    int by = z->f->group_of[reader], next = z->after[v];

    return v < reader && z->f->group_of[v] < by &&
           (next < 0 || (next > reader && z->f->group_of[next] != by && group_reads(z, by, v)));
}

/* The last version of the array in which the window of store s is as s wrote it, and that the reader may read; -1. */
static int
version_for(const struct once *z, int s, int reader)
{
    const struct fr_edge *w = &z->g->node[s].arg[2];
    int                   best = -1, n_looked = 0;

    for (int v = s; v >= 0 && n_looked++ < MOST; v = z->after[v]) {
        const struct fr_edge *over = &z->g->node[v].arg[2];

        if (v != s && fr_edges_meet(over, w))
            break;
        if (is_there(z, v, reader))
            best = v;
    }
    return best;
}

/* Whether the edge reads the value where only its elements count, not how they lie. */
static bool
may_read_elsewhere(const struct fr_gnode *reader, int k)
{
    return reader->arg[k].whole && (reader->op == FR_OP_store ? k == 1 : fr_op_by_element(reader->op));
}

/* For each reader of the value in other groups: lets it read the window of store s (`change`), or says whether all can. */
static bool
read_window(struct once *z, int value, int s, bool change)
{
    const int *reader = z->f->readers.node + z->f->readers.first[value],
              *end = z->f->readers.node + z->f->readers.first[value + 1];
    bool       any = false;

    for (; reader < end; reader++) {
        struct fr_gnode *node = &z->g->node[*reader];
        int              v;

        if (node->dead || z->f->group_of[*reader] == z->f->group_of[value])
            continue;
        if ((v = version_for(z, s, *reader)) < 0)
            return false;
        for (int k = 0; k < node->n_args; k++) {
            struct fr_edge *e = &node->arg[k];

            if (e->src != value)
                continue;
            if (!may_read_elsewhere(node, k))
                return false;
            if (change) {
                fr_layout_unref(e->layout);
                *e = z->g->node[s].arg[2];
                e->src = v;
                e->whole = e->layout == z->g->node[v].layout && e->offset == 0 && e->moving < 0;
                fr_layout_ref(e->layout);
            }
            any = true;
        }
    }
    return any;
}

fr_status
fr_once(struct fr_graph *g, const struct fr_fusion *f, struct fr_err *err)
{
    struct fr_arena scratch = {0};
    struct once     z = {.g = g, .f = f};

    if (!fr_graph_stores(g))
        return FR_OK;
    if (!(z.after = fr_arena_room(&scratch, ((size_t)g->n_nodes + 1) * sizeof *z.after))) {
        fr_arena_clear(&scratch);
        return fr_fail(err, FR_ENOMEM, "out of memory: reading what is stored");
    }
    memset(z.after, 0xff, (size_t)g->n_nodes * sizeof *z.after);
    for (int n = 0; n < g->n_nodes; n++)
        if (is_in_place(&z, n))
            z.after[g->node[n].arg[0].src] = n;
    for (int n = 0; n < g->n_nodes; n++) {
        const struct fr_gnode *node = &g->node[n];
        int                    first = f->readers.first[n], n_readers = f->readers.first[n + 1] - first;

        if (!fr_gnode_computes(node) || node->output || node->outside || !fr_op_by_element(node->op) || z.after[n] >= 0 ||
            n_readers < 2 || n_readers > MOST)
            continue;
        for (int i = 0; i < n_readers; i++)
            if (keeps(&z, f->readers.node[first + i], n) && read_window(&z, n, f->readers.node[first + i], false)) {
                read_window(&z, n, f->readers.node[first + i], true);
                break;
            }
    }
    fr_arena_clear(&scratch);
    return FR_OK;
}
