#include "ir/node.h"

#include "base/alloc.h"

struct fr_node *fr_nodes;
uint32_t        fr_nodes_cap;
uint32_t        fr_nodes_pending;
uint64_t        fr_nodes_made;

static uint32_t free_list;
static uint32_t next_seq;

static bool
grow(void)
{
    size_t          cap = fr_nodes_cap ? (size_t)fr_nodes_cap * 2 : 1024;
    struct fr_node *slab;

    if (cap >= FR_SCALAR_HERE)
        return false;
    if (!(slab = fr_realloc(fr_nodes, cap * sizeof *slab)))
        return false;
    /* The lowest ids come off the list first, so that a loop keeps using the same few lines. */
    for (size_t id = cap; id-- > (fr_nodes_cap ? fr_nodes_cap : 1);) {
        slab[id].index = free_list;
        slab[id].refs = 0;
        slab[id].op = FR_N_OPS;
        free_list = (uint32_t)id;
    }
    fr_nodes = slab;
    fr_nodes_cap = (uint32_t)cap;
    return true;
}

fr_ref
fr_node_new(fr_op op, fr_dtype dtype, uint32_t site)
{
    struct fr_node *n;
    fr_ref          id = free_list;

    if (FR_UNLIKELY(id == FR_NO_NODE)) {
        if (!grow())
            return FR_NO_NODE;
        id = free_list;
    }
    n = &fr_nodes[id];
    free_list = n->index;
    *n = (struct fr_node){.op = op, .dtype = dtype, .site = site, .seq = next_seq++};
    fr_nodes_made++;
    fr_nodes_pending += fr_node_computes(n);
    return id;
}

void
fr_node_set_arg(fr_ref id, int k, fr_ref arg)
{
    struct fr_node *n = &fr_nodes[id];

    n->arg[k] = arg;
    if (arg != FR_SCALAR_HERE) {
        struct fr_node *a = &fr_nodes[arg];

        a->refs++;
        if (a->height >= n->height && a->height < UINT16_MAX && a->op != FR_OP_leaf)
            n->height = (uint16_t)(a->height + 1);
    }
}

/* Releases what the node holds and puts dead arguments on the list that starts at *dead. */
static void
drop_contents(struct fr_node *n, fr_ref *dead)
{
    for (int k = 0; k < n->n_args; k++) {
        fr_ref a = n->arg[k];

        if (a != FR_SCALAR_HERE && --fr_nodes[a].refs == 0) {
            fr_nodes[a].index = *dead;
            *dead = a;
        }
    }
    n->n_args = 0;
}

static void
free_dead(fr_ref dead)
{
    while (dead != FR_NO_NODE) {
        fr_ref          id = dead;
        struct fr_node *n = &fr_nodes[id];

        dead = n->index;
        fr_nodes_pending -= fr_node_computes(n);
        drop_contents(n, &dead);
        fr_layout_unref(n->layout);
        if (n->op == FR_OP_leaf)
            fr_buffer_unref(n->v.buffer); /* runs no foreign code: see runtime/tensor.c */
        n->op = FR_N_OPS;
        n->index = free_list;
        free_list = id;
    }
}

void
fr_node_unref(fr_ref id)
{
    struct fr_node *n = &fr_nodes[id];

    FR_ASSERT(n->refs > 0);
    if (--n->refs == 0) {
        n->index = FR_NO_NODE;
        free_dead(id);
    }
}

void
fr_node_realise(fr_ref id, struct fr_buffer *buffer)
{
    struct fr_node *n = &fr_nodes[id];
    fr_ref          dead = FR_NO_NODE;

    fr_nodes_pending -= fr_node_computes(n);
    drop_contents(n, &dead);
    n->op = FR_OP_leaf;
    n->height = 0;
    n->v.buffer = buffer;
    free_dead(dead);
}
