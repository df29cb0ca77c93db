#include "runtime/place.h"

#include <string.h>

#include "base/alloc.h"
#include "base/tune.h"
#include "base/ways.h"
#include "passes/pipeline.h"
#include "runtime/spread.h"
#include "runtime/storage.h"

/* One decision. */
struct place {
    struct fr_gathered *g;
    struct fr_err      *err;
    struct fr_graph    *graph;
    struct fr_fusion   *fusion;
    struct fr_spread    spread;
    fr_device           device[FR_SPREAD_DEVICES];
    struct fr_machine   machine[FR_SPREAD_DEVICES];
    bool               *stays;       /* [g->n] on the host, which has other bits */
    int                *on;          /* [g->n] number of its device; -1: not known yet */
    struct fr_arena     arena;
};

static fr_status
no_memory(struct fr_err *err)
{
    return fr_no_memory(err, "the choice of devices");
}

/* ---- what is there ---- */

static fr_device
home_of(const struct fr_node *leaf)
{
    const struct fr_backend *home = leaf->v.buffer->home;

    return home ? home->device : FR_DEVICE_HOST;
}

static void
add_device(struct place *z, fr_device d)
{
    int n = z->spread.n_devices;

    for (int i = 0; i < n; i++)
        if (z->device[i] == d)
            return;
    /* (A child of the process that opened it has none.) */
    if (n == FR_SPREAD_DEVICES || fr_machine_of(d, &z->machine[n], NULL) != FR_OK)
        return;
    z->device[n] = d;
    z->spread.n_devices++;
}

/* The host, the GPU of AUTO, and those that have a leaf. */
static void
find_devices(struct place *z)
{
    fr_device gpu = fr_device_auto();

    z->spread.n_devices = 0;
    add_device(z, FR_DEVICE_HOST);
    if (gpu == FR_DEVICE_ANY)
        return;
    add_device(z, gpu);
    for (int i = 0; i < z->g->n; i++)
        if (fr_nodes[z->g->id[i]].op == FR_OP_leaf)
            add_device(z, home_of(&fr_nodes[z->g->id[i]]));
}

static uint8_t
devices_with(const struct place *z, const struct fr_node *leaf)
{
    uint8_t at = leaf->v.buffer->watched ? 1 : 0; /* only a copy goes, and no longer than for a run */

    for (int d = 0; d < z->spread.n_devices; d++)
        if (z->device[d] == home_of(leaf))
            at |= (uint8_t)(1 << d);
    return at ? at : 1;
}

/* Whether a store has to land in memory that others see. */
static bool
stores_outside(const struct fr_gathered *g)
{
    for (int i = 0; i < g->n; i++) {
        const struct fr_node *n = &fr_nodes[g->id[i]];

        if (n->op != FR_OP_store)
            continue;
        while (n->op == FR_OP_store)
            n = fr_node_base(n->arg[0]);
        if (n->op == FR_OP_leaf && (n->v.buffer->owner || n->v.buffer->pinned))
            return true;
    }
    return false;
}

/* ---- what is to be done ---- */

static double
bytes_of(const struct fr_layout *l, fr_dtype d)
{
    return (double)l->n_elems * fr_dtype_size(d);
}

static double
times(const struct fr_gnode *n)
{
    const int64_t *dims = n->op == FR_OP_matmul ? fr_layout_dims(n->arg[0].layout) : NULL;

    return dims && n->arg[0].layout->ndim ? 2 * (double)dims[n->arg[0].layout->ndim - 1] : 1;
}

static bool
differs(const struct place *z, const struct fr_gnode *n)
{
    for (int d = 1; d < z->spread.n_devices; d++)
        if (fr_backend_of(z->device[d])->differs(n))
            return true;
    return false;
}

/* What a member of the group reads of others, and does. `seen`: the group by which an array was last seen, plus 1. */
static void
add_member(struct place *z, int group, int node, int *reads, int *seen)
{
    const struct fr_gnode *n = &z->graph->node[node];
    struct fr_load        *l = &z->spread.load[group];

    for (int k = 0; k < n->n_args; k++) {
        const int src = n->arg[k].src;

        if (src < 0 || z->fusion->group_of[src] == group || z->graph->node[src].op == FR_OP_empty)
            continue;
        if (n->op != FR_OP_store || k > 0) /* of what it stores into, it writes a part */
            l->work.bytes += bytes_of(n->arg[k].layout, z->graph->node[src].dtype);
        if (seen[src] == group + 1)
            continue;
        seen[src] = group + 1;
        reads[l->first + l->n++] = src;
    }
    fr_work_add(&l->work, n->op, n->dtype, (double)fr_gnode_domain(n)->n_elems * times(n));
    if (n->given >= 0 ? z->stays[n->given] : differs(z, n))
        l->may = 1;
}

static bool
is_read_by_others(const struct place *z, const struct fr_readers *readers, int node)
{
    for (int i = readers->first[node]; i < readers->first[node + 1]; i++)
        if (z->fusion->group_of[readers->node[i]] != z->fusion->group_of[node])
            return true;
    return false;
}

static fr_status
describe(struct place *z, bool shown)
{
    const struct fr_graph *g = z->graph;
    struct fr_spread      *s = &z->spread;
    const size_t           n = (size_t)g->n_nodes + 1;
    struct fr_value       *value = fr_arena_alloc(&z->arena, n * sizeof *value);
    int                   *reads = fr_arena_room(&z->arena, 3 * n * sizeof *reads);
    int                   *seen = fr_arena_alloc(&z->arena, n * sizeof *seen);
    struct fr_readers      readers;
    int                    n_reads = 0;
    fr_status              st;

    s->n_loads = z->fusion->n_groups;
    s->n_values = g->n_nodes;
    s->load = fr_arena_alloc(&z->arena, ((size_t)s->n_loads + 1) * sizeof *s->load);
    s->ready = fr_arena_room(&z->arena, n * sizeof *s->ready);
    s->copied = fr_arena_room(&z->arena, n);
    s->machine = z->machine;
    s->value = value;
    s->reads = reads;
    if (!value || !reads || !seen || !s->load || !s->ready || !s->copied)
        return no_memory(z->err);
    if ((st = fr_graph_readers(g, &z->arena, &readers, z->err)) != FR_OK)
        return st;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct fr_gnode *node = &g->node[i];

        value[i] = (struct fr_value){.bytes = bytes_of(node->layout, node->dtype), .next = -1, .at = 1,
                                     .shown = node->output && (shown || s->together)};
        if (node->op == FR_OP_leaf)
            value[i].at = devices_with(z, &fr_nodes[z->g->id[node->given]]);
    }
    for (int i = 0; i < s->n_loads; i++) {
        struct fr_load *l = &s->load[i];

        *l = (struct fr_load){.first = n_reads, .makes = -1, .may = (uint8_t)((1 << s->n_devices) - 1)};
        for (int m = z->fusion->group[i]->first; m >= 0; m = z->fusion->next[m]) {
            const struct fr_gnode *node = &g->node[m];

            add_member(z, i, m, reads, seen);
            if (!node->output && !is_read_by_others(z, &readers, m))
                continue;
            l->work.bytes += bytes_of(node->op == FR_OP_store ? node->arg[2].layout : node->layout, node->dtype);
            value[m].next = l->makes;
            l->makes = m;
        }
        n_reads += l->n;
    }
    return FR_OK;
}

/* The groups that it will have if it stays one, and what of it stays on the host. */
static fr_status
find_groups(struct place *z)
{
    struct fr_structure of;
    struct fr_move     *move;
    fr_status           st;

    if ((st = fr_gather_structure(z->g, &of, z->err)) != FR_OK ||
        (st = fr_structure_graph(&of, false, &z->graph, z->err)) != FR_OK ||
        (st = fr_moving_settle(z->graph, &of, &move, z->err)) != FR_OK)
        return st;
    for (int i = 0; i < z->g->n; i++)
        z->stays[i] = differs(z, &z->graph->node[i]);
    return fr_passes_run(z->graph, false, &z->arena, &z->fusion, z->err);
}

/* Each node goes with its group, or, where passes have left nothing of it, with who reads it last. */
static void
place_nodes(struct place *z)
{
    const struct fr_gathered *g = z->g;

    for (int i = 0; i < z->graph->n_nodes; i++) {
        const struct fr_gnode *n = &z->graph->node[i];

        if (fr_gnode_computes(n) && n->given >= 0)
            z->on[n->given] = z->spread.load[z->fusion->group_of[i]].on;
    }
    for (int i = g->n; i-- > 0;) {
        const struct fr_node *n = &fr_nodes[g->id[i]];

        if (n->op == FR_OP_leaf)
            continue;
        if (z->on[i] < 0 || z->stays[i])
            z->on[i] = 0;
        for (int k = 0; k < n->n_args; k++) {
            const struct fr_node *a = n->arg[k] == FR_SCALAR_HERE ? NULL : fr_node_base(n->arg[k]);

            if (a && fr_node_computes(a) && z->on[a->index] < 0)
                z->on[a->index] = z->on[i];
        }
    }
}

/* Fills in `on`. */
static fr_status
choose(struct place *z, bool shown)
{
    const size_t n = (size_t)z->g->n + 1;
    bool         stays = false;
    fr_status    st;

    z->on = fr_arena_room(&z->arena, n * sizeof *z->on);
    z->stays = fr_arena_alloc(&z->arena, n);
    if (!z->on || !z->stays)
        return no_memory(z->err);
    memset(z->on, 0xff, n * sizeof *z->on);
    z->spread.together = stores_outside(z->g);
    find_devices(z);
    if ((st = find_groups(z)) != FR_OK || (st = describe(z, shown)) != FR_OK)
        return st;
    for (int i = 0; i < z->g->n; i++)
        stays |= z->stays[i];
    if (z->spread.together && stays)
        for (int i = 0; i < z->spread.n_loads; i++)
            z->spread.load[i].may = 1;
    fr_spread_over(&z->spread);
    place_nodes(z);
    return FR_OK;
}

/* Parts take turns: those of the last device first, which work while the host does its own. `part` becomes what
 * struct fr_placement has; returns how many there are, device[k] being that of part k, in the same room as `turn` of
 * each. */
static int
divide(const struct place *z, int *part, fr_device *device, int *number)
{
    const int n_devices = z->spread.n_devices;
    int       n_turns = 0, n_parts = 0;

    for (int i = 0; i < z->g->n; i++) {
        const struct fr_node *n = &fr_nodes[z->g->id[i]];
        int                   turn;

        part[i] = -1;
        if (n->op == FR_OP_leaf)
            continue;
        turn = n_devices - 1 - z->on[i];
        for (int k = 0; k < n->n_args; k++) {
            const struct fr_node *a = n->arg[k] == FR_SCALAR_HERE ? NULL : fr_node_base(n->arg[k]);

            while (a && fr_node_computes(a) && turn < part[a->index])
                turn += n_devices;
        }
        part[i] = turn;
        n_turns = turn >= n_turns ? turn + 1 : n_turns;
    }
    for (int t = 0; t < n_turns; t++)
        number[t] = -1;
    for (int i = 0; i < z->g->n; i++)
        if (part[i] >= 0)
            number[part[i]] = 0;
    for (int t = 0; t < n_turns; t++)
        if (number[t] == 0) {
            device[n_parts] = z->device[n_devices - 1 - t % n_devices];
            number[t] = n_parts++;
        }
    for (int i = 0; i < z->g->n; i++)
        part[i] = part[i] < 0 ? -1 : number[part[i]];
    return n_parts;
}

static void
end(struct place *z)
{
    fr_graph_free(z->graph);
    fr_arena_clear(&z->arena);
}

/* ---- what was decided ---- */

enum { N_KEPT = 256 };

/* A decision, in one block with what it was made for. */
struct kept {
    struct fr_placement is;
    size_t              n_key, n_homes;
    uint64_t           *key;         /* and how it is set */
    fr_device          *home;        /* [n_homes] of each leaf */
    int                 n_layouts;
    struct fr_layout  **layout;      /* references to those in the key */
    bool                shown;
    uint64_t            off;
};

static struct kept *kept[N_KEPT];

static size_t
slot_of(const struct fr_gathered *g)
{
    uint64_t hash[2];

    fr_key_hash(g->key, g->n_key, hash);
    return hash[0] % N_KEPT;
}

static bool
holds(const struct kept *k, const struct fr_gathered *g, bool shown)
{
    size_t n = 0;

    if (!k || k->n_key != g->n_key || k->shown != shown || k->off != fr_env.off_bits ||
        memcmp(k->key, g->key, g->n_key * sizeof *k->key) != 0)
        return false;
    for (int i = 0; i < g->n; i++)
        if (fr_nodes[g->id[i]].op == FR_OP_leaf && k->home[n++] != home_of(&fr_nodes[g->id[i]]))
            return false;
    return true;
}

static void
forget(struct kept *k)
{
    for (int i = 0; k && i < k->n_layouts; i++)
        fr_layout_unref(k->layout[i]);
    fr_free(k);
}

static void *
part_of(char *room, size_t *at, size_t n_bytes)
{
    void *p = room ? room + *at : NULL;

    *at += (n_bytes + 7) & ~(size_t)7;
    return p;
}

/* Where everything of it is, in a block; NULL: how large that is. */
static size_t
lay_out(struct kept *k, const struct fr_gathered *g)
{
    const size_t n = (size_t)g->n + 1;
    char        *room = (char *)k;
    struct kept  none, *to = k ? k : &none;
    size_t       at = sizeof *k;

    to->is.device = part_of(room, &at, n * FR_SPREAD_DEVICES);
    to->is.part = part_of(room, &at, n * sizeof *to->is.part);
    to->key = part_of(room, &at, g->n_key * sizeof *to->key);
    to->home = part_of(room, &at, n);
    to->layout = part_of(room, &at, (n + g->n_views) * sizeof *to->layout);
    return at;
}

/* What was decided, and for what; it has no layouts yet. */
static struct kept *
keep(struct place *z, bool shown, int *number)
{
    const struct fr_gathered *g = z->g;
    struct kept              *k = fr_calloc(1, lay_out(NULL, g));

    if (!k)
        return NULL;
    lay_out(k, g);
    k->n_key = g->n_key;
    k->shown = shown;
    k->off = fr_env.off_bits;
    memcpy(k->key, g->key, g->n_key * sizeof *k->key);
    for (int i = 0; i < g->n; i++)
        if (fr_nodes[g->id[i]].op == FR_OP_leaf)
            k->home[k->n_homes++] = home_of(&fr_nodes[g->id[i]]);
    k->is.n_parts = divide(z, k->is.part, k->is.device, number);
    return k;
}

/* Whether it is the host's without a question: what arithmetic raises is an error, and a GPU does not say what its
 * own has raised; or nothing is there, and the host is done before an operand would be. */
static bool
is_for_host(const struct fr_gathered *g)
{
    struct fr_machine host;
    struct fr_work    w = {0};

    if (fr_trace_at_once)
        return true;
    for (int i = 0; i < g->n; i++) {
        const struct fr_node *n = &fr_nodes[g->id[i]];
        const bool            stores = n->op == FR_OP_store; /* a part of what is there */
        double                n_elems = (double)(stores ? &fr_nodes[n->arg[2]] : n)->layout->n_elems;

        if (n->op == FR_OP_matmul || (n->op == FR_OP_leaf && n->v.buffer->home))
            return false;
        if (n->op == FR_OP_leaf)
            continue;
        for (int k = stores; k < n->n_args; k++) {
            const struct fr_node *a = &fr_nodes[n->arg[k]];

            if (a->op == FR_OP_scalar)
                continue;
            w.bytes += bytes_of(a->layout, a->dtype);
            n_elems = fr_op_reduces(n->op) ? (double)a->layout->n_elems : n_elems;
        }
        w.bytes += n_elems * fr_dtype_size(n->dtype);
        fr_work_add(&w, n->op, n->dtype, n_elems);
    }
    return fr_machine_of(FR_DEVICE_HOST, &host, NULL) == FR_OK &&
           fr_estimate_us(&host, &w) <= (double)(fr_tune.gpu_launch_us + fr_tune.gpu_copy_us);
}

static const struct fr_placement *
on_host(void)
{
    static fr_device                 host = FR_DEVICE_HOST;
    static const struct fr_placement is = {.n_parts = 1, .device = &host};

    return &is;
}

fr_status
fr_place(struct fr_gathered *g, bool shown, const struct fr_placement **out, struct fr_err *err)
{
    struct place  z = {.g = g, .err = err};
    struct kept **slot;
    int          *number;
    fr_status     st;

    *out = on_host();
    if (is_for_host(g) || fr_device_auto() == FR_DEVICE_ANY)
        return FR_OK;
    slot = &kept[slot_of(g)];
    if (holds(*slot, g, shown)) {
        *out = &(*slot)->is;
        return FR_OK;
    }
    forget(*slot);
    *slot = NULL;
    fr_count_way(FR_WAY_weighed);
    TRY(choose(&z, shown));
    number = fr_arena_room(&z.arena, ((size_t)g->n + 1) * FR_SPREAD_DEVICES * sizeof *number);
    if (!number || !(*slot = keep(&z, shown, number)))
        TRY(no_memory(err));
    (*slot)->n_layouts = fr_gather_layouts(g, (*slot)->layout);
    *out = &(*slot)->is;
out:
    end(&z);
    return st;
}

int
fr_place_roots(const struct fr_placement *p, const struct fr_gathered *g, int part, fr_ref *out)
{
    int n = 0;

    /* (Of readers, each array is looked at once: `index` of a node is its number.) */
    for (int i = 0; i < g->n; i++)
        if (p->part[i] == part && g->entry[i].n_uses & FR_ENTRY_IS_ROOT)
            out[n++] = g->id[i];
    for (int i = 0; i < g->n; i++) {
        const struct fr_node *r = &fr_nodes[g->id[i]];

        for (int k = 0; p->part[i] > part && k < r->n_args; k++) {
            const struct fr_node *a = r->arg[k] == FR_SCALAR_HERE ? NULL : fr_node_base(r->arg[k]);
            int                   seen = 0;

            if (!a || !fr_node_computes(a) || p->part[a->index] != part)
                continue;
            while (seen < n && out[seen] != g->id[a->index])
                seen++;
            if (seen == n)
                out[n++] = g->id[a->index];
        }
    }
    return n;
}

/* ---- explained ---- */

static void
put_group(struct fr_text *t, const struct place *z, int group)
{
    const struct fr_load *l = &z->spread.load[group];

    fr_text_add(t, "on %s:", fr_device_name(z->device[l->on]));
    for (int n = z->fusion->group[group]->first; n >= 0; n = z->fusion->next[n])
        fr_text_add(t, " %s", fr_op_info[z->graph->node[n].op].name);
    for (int d = 0; d < z->spread.n_devices; d++)
        fr_text_add(t, "%s %.1f us on %s", d ? "," : "; about", l->us[d], fr_device_name(z->device[d]));
    if (l->may == 1)
        fr_text_add(t, "; it stays on the host, whose bits it has");
    fr_text_add(t, "\n");
}

fr_status
fr_place_explain(struct fr_gathered *g, struct fr_text *t, fr_device *out, struct fr_err *err)
{
    struct place z = {.g = g, .err = err};
    fr_device   *device;
    int         *room, n_parts;
    fr_status    st;

    *out = FR_DEVICE_HOST;
    if (fr_device_auto() == FR_DEVICE_ANY)
        return FR_OK;
    if (is_for_host(g)) {
        fr_text_add(t, "on cpu: a GPU would wait for longer, or arithmetic raises errors\n");
        return FR_OK;
    }
    TRY(choose(&z, false));
    if (!(room = fr_arena_room(&z.arena, 2 * ((size_t)g->n + 1) * FR_SPREAD_DEVICES * sizeof *room)) ||
        !(device = fr_arena_room(&z.arena, ((size_t)g->n + 1) * FR_SPREAD_DEVICES)))
        TRY(no_memory(err));
    n_parts = divide(&z, room, device, room + g->n + 1);
    for (int i = 0; i < z.spread.n_loads; i++)
        put_group(t, &z, i);
    fr_text_add(t, "with copies, all of it takes about");
    for (int d = 0; d < z.spread.n_devices; d++)
        fr_text_add(t, "%s %.1f us on %s", d ? "," : "", z.spread.us[d], fr_device_name(z.device[d]));
    if (n_parts > 1)
        fr_text_add(t, ", and %.1f us in these %d parts; as one it would be:", z.spread.us_spread, n_parts);
    fr_text_add(t, "\n");
    if (n_parts == 1)
        *out = device[0];
out:
    end(&z);
    return st;
}
