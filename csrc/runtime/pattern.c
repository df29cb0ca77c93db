/* Patterns: what was gathered for a plan, in a form in which it is recognised with one look at each pending
 * node. A loop traces the same again and again, with other leaves and numbers, and then neither a key is
 * written nor a graph walked. */
#include "base/alloc.h"
#include "runtime/plan.h"
#include "runtime/storage.h"

enum arg_kind {
    ARG_KNOWN,                 /* an entry that has been met: `what` is its place */
    ARG_LEAF,                  /* one that has not: number `what` of the leaves */
    ARG_NUMBER                 /* in the node itself, of dtype `what` */
};

/* What nearly all nodes are, so that little is to be asked. */
enum form {
    FORM_ANY,
    FORM_KNOWN,                /* two arguments, both known, and no axes */
    FORM_NUMBER                /* one that is known, and a number, in any order; no axes */
};

struct node_pattern {
    uint32_t          head;    /* operation, dtype, number of arguments */
    uint32_t          seq;     /* births after the first node */
    uint32_t          axes;    /* if the operation has any */
    uint32_t          n_uses, entry;
    bool              has_axes, wanted;
    uint8_t           form;    /* enum form */
    uint8_t           number;  /* FORM_NUMBER: which argument it is */
    struct fr_layout *layout;  /* the plan's graph has the reference */
    struct arg_pattern {
        enum arg_kind kind;
        uint32_t      what;
    } arg[3];
};

struct leaf_pattern {
    struct fr_layout *layout;
    fr_dtype          dtype;
    uint32_t          flags, n_uses, entry;
};

struct layout_pattern {
    struct fr_layout *layout;
    uint32_t          n_nodes;
};

struct fr_pattern {
    int                  n_nodes, n_leaves, n_entries, n_numbers, n_sinks, n_buried, n_layouts;
    struct node_pattern *node; /* in order of birth */
    struct leaf_pattern *leaf; /* in the order in which they are met */
    int                 *sink; /* entries that no other reads: roots */
    struct layout_pattern *layout; /* of the n_buried nodes that nobody outside wants: runs of the same */
};

static void
note_leaf(struct fr_pattern *p, const struct fr_gathered *g, const struct fr_node *a)
{
    const struct fr_gathered_entry *e = &g->entry[a->index];
    uint32_t                        n_uses = e->n_uses & ~FR_ENTRY_IS_ROOT;

    p->leaf[p->n_leaves++] = (struct leaf_pattern){.layout = a->layout, .dtype = a->dtype, .n_uses = n_uses,
                                                   .flags = fr_gather_leaf_flags(a, n_uses), .entry = a->index};
}

static enum form
form_of(const struct node_pattern *p, int n_args, uint8_t *number)
{
    if (n_args != 2 || p->has_axes || p->arg[0].kind == ARG_LEAF || p->arg[1].kind == ARG_LEAF)
        return FORM_ANY;
    if (p->arg[0].kind == ARG_KNOWN && p->arg[1].kind == ARG_KNOWN)
        return FORM_KNOWN;
    *number = p->arg[1].kind == ARG_NUMBER;
    return p->arg[!*number].kind == ARG_KNOWN ? FORM_NUMBER : FORM_ANY;
}

static void
note_buried(struct fr_pattern *p, struct fr_layout *layout)
{
    p->n_buried++;
    if (!p->n_layouts || p->layout[p->n_layouts - 1].layout != layout)
        p->layout[p->n_layouts++] = (struct layout_pattern){layout, 0};
    p->layout[p->n_layouts - 1].n_nodes++;
}

static bool
note_node(struct fr_pattern *p, const struct fr_gathered *g, fr_ref id, uint32_t epoch)
{
    const struct fr_node *n = &fr_nodes[id];
    struct node_pattern  *out = &p->node[p->n_nodes++];
    uint32_t              n_uses = g->entry[n->index].n_uses & ~FR_ENTRY_IS_ROOT;

    *out = (struct node_pattern){.head = n->head, .seq = n->seq - fr_nodes[g->order[0]].seq, .layout = n->layout,
                                 .n_uses = n_uses, .entry = n->index, .wanted = n->refs > n_uses,
                                 .has_axes = fr_op_has_axes((fr_op)n->op)};
    if (out->has_axes)
        out->axes = n->u.axes;
    if (n_uses == 0)
        p->sink[p->n_sinks++] = (int)n->index;
    for (int k = 0; k < n->n_args; k++) {
        struct fr_node *a = &fr_nodes[n->arg[k]];

        if (n->arg[k] == FR_SCALAR_HERE) {
            out->arg[k].kind = ARG_NUMBER;
            out->arg[k].what = n->v.number;
            p->n_numbers++;
        } else if (a->op == FR_OP_scalar || a->op == FR_OP_view) {
            return false;
        } else if (a->op == FR_OP_leaf && a->mark != epoch) {
            a->mark = epoch;
            out->arg[k].kind = ARG_LEAF;
            out->arg[k].what = (uint32_t)p->n_leaves;
            note_leaf(p, g, a);
        } else {
            out->arg[k].kind = ARG_KNOWN;
            out->arg[k].what = a->index;
        }
    }
    out->form = form_of(out, n->n_args, &out->number);
    if (!out->wanted)
        note_buried(p, n->layout);
    return true;
}

struct fr_pattern *
fr_pattern_new(const struct fr_gathered *g, struct fr_arena *arena)
{
    size_t             n = (size_t)g->n_order, n_leaves = (size_t)(g->n - g->n_order);
    struct fr_pattern *p;
    uint32_t           epoch;

    if (g->has_store || g->n_views || g->n_moving || n == 0)
        return NULL;
    p = fr_arena_alloc(arena, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct fr_pattern){.n_entries = g->n,
                             .node = fr_arena_alloc(arena, n * sizeof *p->node),
                             .leaf = fr_arena_alloc(arena, (n_leaves + 1) * sizeof *p->leaf),
                             .sink = fr_arena_alloc(arena, n * sizeof *p->sink),
                             .layout = fr_arena_alloc(arena, n * sizeof *p->layout)};
    if (!p->node || !p->leaf || !p->sink || !p->layout)
        return NULL;
    epoch = fr_gather_epoch();
    for (size_t i = 0; i < n; i++)
        if (!note_node(p, g, g->order[i], epoch))
            return NULL;
    return p;
}

/* The birth of the oldest pending node. */
static bool
find_first(uint32_t *seq)
{
    enum { PATIENCE = 64 };
    uint32_t from = (uint32_t)fr_born_from;

    if (fr_nodes_made - fr_born_from > FR_MAX_BORN)
        return false;
    for (int i = 0; i < PATIENCE; i++, from++) {
        const struct fr_node *n = &fr_nodes[fr_born[from % FR_MAX_BORN]];

        if (n->seq == from && n->op != FR_N_OPS && fr_node_computes(n)) {
            *seq = from;
            return true;
        }
    }
    return false;
}

static bool
fits_leaf(const struct leaf_pattern *want, fr_ref id, uint32_t epoch, struct fr_gathered *z)
{
    struct fr_node *a = &fr_nodes[id];

    if (a->op != FR_OP_leaf || a->dtype != want->dtype || a->layout != want->layout || a->mark == epoch ||
        fr_gather_leaf_flags(a, want->n_uses) != want->flags)
        return false;
    a->mark = epoch;           /* two leaves are not one */
    z->id[want->entry] = id;
    return true;
}

static bool
fits_arg(const struct fr_pattern *p, const struct arg_pattern *want, const struct fr_node *n, int k,
         uint32_t epoch, struct fr_gathered *z)
{
    switch (want->kind) {
    case ARG_KNOWN:
        return z->id[want->what] == n->arg[k];
    case ARG_LEAF:
        return fits_leaf(&p->leaf[want->what], n->arg[k], epoch, z);
    default:
        z->scalar[z->n_scalars++] = (struct fr_scalar_bits){{n->u.bits, 0}};
        return n->arg[k] == FR_SCALAR_HERE && n->v.number == want->what;
    }
}

/* Whether all that is pending is what the pattern says. Then it is in z as if it had been gathered, but for the key. */
static bool
fits_nodes(const struct fr_pattern *p, uint32_t first, struct fr_gathered *z)
{
    const struct fr_node *nodes = fr_nodes;
    fr_ref               *ids = z->id;
    uint32_t              epoch = fr_gather_epoch();

    z->n_scalars = 0;
    for (const struct node_pattern *want = p->node, *end = want + p->n_nodes; want < end; want++) {
        uint32_t              seq = first + want->seq;
        fr_ref                id = fr_born[seq % FR_MAX_BORN];
        const struct fr_node *n = &nodes[id];

        if (n->seq != seq || n->head != want->head || n->layout != want->layout ||
            (n->refs > want->n_uses) != want->wanted)
            return false;
        ids[want->entry] = id;
        if (FR_LIKELY(want->form == FORM_KNOWN)) {
            if (ids[want->arg[0].what] != n->arg[0] || ids[want->arg[1].what] != n->arg[1])
                return false;
            continue;
        }
        if (FR_LIKELY(want->form == FORM_NUMBER)) {
            int k = want->number;

            if (ids[want->arg[!k].what] != n->arg[!k] || n->arg[k] != FR_SCALAR_HERE ||
                n->v.number != want->arg[k].what)
                return false;
            z->scalar[z->n_scalars++] = (struct fr_scalar_bits){{n->u.bits, 0}};
            continue;
        }
        if (want->has_axes && n->u.axes != want->axes)
            return false;
        for (int k = 0; k < n->n_args; k++)
            if (!fits_arg(p, &want->arg[k], n, k, epoch, z))
                return false;
    }
    return true;
}

static bool
is_root(fr_ref id, const fr_ref *roots, int n_roots)
{
    for (int i = 0; i < n_roots; i++)
        if (roots[i] == id)
            return true;
    return false;
}

bool
fr_pattern_fits(const struct fr_pattern *p, const fr_ref *roots, int n_roots, struct fr_gathered *z)
{
    uint32_t first;

    if (fr_nodes_pending != (uint32_t)p->n_nodes || p->n_sinks > n_roots || !find_first(&first) ||
        !FR_GROW(z->id, z->cap_id, (size_t)p->n_entries) ||
        !FR_GROW(z->scalar, z->cap_scalar, (size_t)p->n_numbers) || !fits_nodes(p, first, z))
        return false;
    for (int i = 0; i < p->n_sinks; i++)
        if (!is_root(z->id[p->sink[i]], roots, n_roots))
            return false;
    z->n = p->n_entries;
    z->n_moving = z->n_unsettled = 0;
    z->n_key = 0;
    return true;
}

void
fr_pattern_bury(const struct fr_pattern *p, const fr_ref *id)
{
    struct fr_node *nodes = fr_nodes;
    fr_ref          free = fr_nodes_free;

    /* The youngest first, so that their places are given out again in the order of these births. */
    for (int i = p->n_nodes; i-- > 0;) {
        const struct node_pattern *at = &p->node[i];
        fr_ref                     it = id[at->entry];

        if (FR_UNLIKELY(at->wanted)) {
            nodes[it].refs -= at->n_uses;
            nodes[it].n_args = 0;
        } else {
            fr_node_put_before(&nodes[it], free);
            free = it;
        }
    }
    fr_nodes_free = free;
    fr_nodes_pending -= (uint32_t)p->n_buried;
    for (int i = 0; i < p->n_layouts; i++)
        p->layout[i].layout->refs -= p->layout[i].n_nodes;
    fr_nodes[FR_SCALAR_HERE].refs -= (uint32_t)p->n_numbers;
    for (int i = 0; i < p->n_leaves; i++) {
        fr_ref leaf = id[p->leaf[i].entry];

        if ((fr_nodes[leaf].refs -= p->leaf[i].n_uses) == 0)
            fr_node_free(leaf);
    }
}
