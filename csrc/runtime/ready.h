/* runtime/ready.h -- what a node reads where all of that has been computed: numbers, leaves, and views of leaves.
 * Private to eager.c, element.c and judge.c. */
#ifndef FR_RUNTIME_READY_H
#define FR_RUNTIME_READY_H

#include "runtime/plan.h"
#include "runtime/storage.h"

/* Whether argument k is a number; which. */
static inline bool
fr_arg_is_number(const struct fr_node *n, int k)
{
    return n->arg[k] == FR_SCALAR_HERE || fr_nodes[n->arg[k]].op == FR_OP_scalar;
}

static inline fr_dtype
fr_arg_number_dtype(const struct fr_node *n, int k)
{
    return n->arg[k] == FR_SCALAR_HERE ? n->v.number : fr_nodes[n->arg[k]].dtype;
}

static inline struct fr_scalar_bits
fr_arg_number(const struct fr_node *n, int k)
{
    const struct fr_node *a = &fr_nodes[n->arg[k]];

    return n->arg[k] == FR_SCALAR_HERE ? (struct fr_scalar_bits){{n->u.bits, 0}}
                                       : (struct fr_scalar_bits){{a->u.bits, a->v.bits_hi}};
}

/* The leaf that such a node shows. */
static inline const struct fr_node *
fr_ready_base(fr_ref id)
{
    const struct fr_node *n = &fr_nodes[id];

    return n->op == FR_OP_view ? &fr_nodes[n->arg[0]] : n;
}

/* Bytes from the leaf's first element to the first that is shown. */
static inline int64_t
fr_ready_offset(fr_ref id)
{
    const struct fr_node *n = &fr_nodes[id];

    return n->op == FR_OP_view ? n->u.offset * fr_dtype_size(n->dtype) : 0;
}

/* Its first element. */
static inline char *
fr_ready_memory(fr_ref id)
{
    FR_ASSERT(fr_ready_base(id)->op == FR_OP_leaf && !fr_ready_base(id)->v.buffer->home); /* the host reads it */
    return (char *)fr_ready_base(id)->v.buffer->mem + fr_ready_offset(id);
}

#endif
