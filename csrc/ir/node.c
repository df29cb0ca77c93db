#include "ir/node.h"

#include "base/alloc.h"

struct fr_node *fr_nodes;
uint32_t        fr_nodes_cap;
uint32_t        fr_nodes_pending;
uint64_t        fr_nodes_made, fr_elems_made, fr_arrays_made;
fr_ref          fr_nodes_free;
fr_ref          fr_born[FR_MAX_BORN];
uint64_t        fr_born_from;
fr_device       fr_device_usual = FR_DEVICE_HOST;
int             fr_devices_chosen;

static _Thread_local fr_device chosen;

fr_device
fr_device_of_thread(void)
{
    return chosen;
}

void
fr_device_choose(fr_device d)
{
    fr_devices_chosen += (d != FR_DEVICE_ANY) - (chosen != FR_DEVICE_ANY);
    FR_ASSERT(fr_devices_chosen >= 0);
    chosen = d;
}

void
fr_node_follow(struct fr_node *n, int k)
{
    n->device = fr_nodes[n->arg[k]].device;
    for (int i = 0; i < k; i++)
        if (fr_nodes[n->arg[i]].device == FR_DEVICE_AUTO)
            n->device = FR_DEVICE_AUTO;
}

bool
fr_nodes_grow(void)
{
    size_t          cap = fr_nodes_cap ? (size_t)fr_nodes_cap * 2 : 1024;
    struct fr_node *slab;

    if (cap > UINT32_MAX || !(slab = fr_realloc(fr_nodes, cap * sizeof *slab)))
        return false;
    if (!fr_nodes_cap) {
        slab[FR_NO_NODE] = (struct fr_node){.op = FR_N_OPS};
        slab[FR_SCALAR_HERE] = (struct fr_node){.op = FR_OP_scalar, .refs = 1};
        fr_nodes_cap = FR_SCALAR_HERE + 1;
    }
    /* The lowest ids come off the list first, so that a loop keeps using the same few lines. */
    for (size_t id = cap; id-- > fr_nodes_cap;) {
        slab[id].index = fr_nodes_free;
        slab[id].refs = 0;
        slab[id].mark = 0;
        slab[id].op = FR_N_OPS;
        fr_nodes_free = (uint32_t)id;
    }
    fr_nodes = slab;
    fr_nodes_cap = (uint32_t)cap;
    return true;
}

FR_INLINE void
drop_arg(struct fr_node *nodes, fr_ref a, fr_ref *dead)
{
    FR_ASSERT(nodes[a].refs > 0 && nodes[a].op != FR_N_OPS);
    if (FR_UNLIKELY(--nodes[a].refs == 0)) {
        nodes[a].index = *dead;
        *dead = a;
    }
}

/* Drops the node's references on its arguments. Those that are dead now go on the list *dead. */
FR_INLINE void
drop_args(struct fr_node *nodes, const struct fr_node *n, fr_ref *dead)
{
    if (n->n_args > 0)
        drop_arg(nodes, n->arg[0], dead);
    if (n->n_args > 1)
        drop_arg(nodes, n->arg[1], dead);
    if (FR_UNLIKELY(n->n_args > 2))
        drop_arg(nodes, n->arg[2], dead);
}

/* Dead leaves. (Letting go of foreign memory runs no foreign code here: see fr_release_foreign.) */
static FR_COLD void
free_leaves(fr_ref dead)
{
    while (dead != FR_NO_NODE) {
        struct fr_node   *n = &fr_nodes[dead];
        struct fr_buffer *buffer = n->v.buffer;
        fr_ref            next = n->index;

        n->layout->refs--;
        fr_node_put_back(n, dead);
        fr_buffer_unref(buffer);
        dead = next;
    }
}

/* Frees the nodes of a list. */
static void
free_list(fr_ref dead)
{
    struct fr_node *nodes = fr_nodes;
    fr_ref          leaves = FR_NO_NODE;

    while (dead != FR_NO_NODE) {
        fr_ref          id = dead;
        struct fr_node *n = &nodes[id];

        dead = n->index;
        FR_ASSERT(n->refs == 0 && n->held == 0);
        if (n->op == FR_OP_leaf) {
            n->index = leaves;
            leaves = id;
            continue;
        }
        fr_nodes_pending -= fr_node_computes(n);
        drop_args(nodes, n, &dead);
        n->layout->refs--;
        fr_node_put_back(n, id);
    }
    if (leaves != FR_NO_NODE)
        free_leaves(leaves);
}

void
fr_node_free(fr_ref id)
{
    if (FR_LIKELY(fr_node_free_usual(id)))
        return;
    fr_nodes[id].index = FR_NO_NODE;
    free_list(id);
}

void
fr_node_realise(fr_ref id, struct fr_buffer *buffer)
{
    struct fr_node *n = &fr_nodes[id];
    fr_ref          dead = FR_NO_NODE;

    FR_ASSERT(n->op != FR_OP_leaf && n->refs > 0);
    FR_ASSERT(buffer->n_bytes >= (size_t)(n->layout->n_elems * fr_dtype_size(n->dtype)));
    fr_nodes_pending -= fr_node_computes(n);
    drop_args(fr_nodes, n, &dead);
    n->n_args = 0;
    n->op = FR_OP_leaf;
    n->device = buffer->owner && buffer->pinned && !buffer->away ? FR_DEVICE_ANY : n->device;
    n->height = 0;
    n->v.buffer = buffer;
    if (dead != FR_NO_NODE)
        free_list(dead);
}
