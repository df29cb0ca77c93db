/* Single elements that Python asks for: done aside, without an evaluation.
 *
 * `if t[i] > t[j]` wants a value of two elements. Where that takes a few operations on single elements of memory, the
 * block kernels do them where they are asked for. The bits are those of any other way. */
#include <string.h>

#include "backends/host.h"
#include "base/fpe.h"
#include "base/ways.h"
#include "runtime/explain.h"
#include "runtime/judge.h"
#include "runtime/ready.h"

enum { FEW_NODES = 8 };     /* computed once more for each value that is asked for; with more, it is better to keep them */

/* Whether the node is an element of memory, or few operations on such. */
static bool
is_few(fr_ref id, int *n_nodes)
{
    const struct fr_node *n = &fr_nodes[id];

    if (n->op == FR_OP_scalar)
        return true;
    if (n->layout->n_elems != 1)
        return false;
    if (!fr_node_computes(n))
        return fr_ready_base(id)->op == FR_OP_leaf && !fr_ready_base(id)->v.buffer->home;
    if (!fr_op_by_element(n->op) || ++*n_nodes > FEW_NODES)
        return false;
    for (int k = 0; k < n->n_args; k++)
        if (!is_few(n->arg[k], n_nodes))
            return false;
    return true;
}

/* One operation on single elements. False: there is no block kernel for it, or it raises what the state warns about: then
 * it is to be evaluated like any other. */
static bool
map_aside(const struct fr_node *n, const fr_dtype *dtype, char *const *arg, void *out)
{
    unsigned raised;

    fr_fpe_begin();
    if (!fr_host_map(n->op, 1, dtype, n->n_args, arg, 0, n->dtype, out))
        return false;
    raised = fr_fpe_raised() | (fr_op_info[n->op].flags & FR_OPF_COSTLY ? fr_judge_unseen : 0);
    return FR_LIKELY(raised == 0) || !fr_judge_would(raised, FR_SITE_WARNS(n->site));
}

/* The memory in which such a node's element is, or a copied one; NULL: it is to be computed. */
static char *
memory_of(fr_ref id)
{
    const struct fr_node *n = &fr_nodes[id], *from = &fr_nodes[n->arg[0]];

    if (n->op == FR_OP_cast && from->dtype == n->dtype && from->op != FR_OP_scalar) {
        id = n->arg[0];
        n = from;
    }
    return fr_node_computes(n) ? NULL : fr_ready_memory(id);
}

/* The element of such a node. False: as map_aside. */
static bool
element_of(fr_ref id, struct fr_scalar_bits *out)
{
    const struct fr_node *n = &fr_nodes[id];
    struct fr_scalar_bits element[FR_HOST_ARGS];
    char                 *memory = memory_of(id), *arg[FR_HOST_ARGS];
    fr_dtype              dtype[FR_HOST_ARGS];

    if (memory) {
        memcpy(out, memory, (size_t)fr_dtype_size(n->dtype));
        return true;
    }
    for (int k = 0; k < n->n_args; k++) {
        arg[k] = (char *)&element[k];
        if (fr_arg_is_number(n, k)) {
            dtype[k] = fr_arg_number_dtype(n, k);
            element[k] = fr_arg_number(n, k);
            continue;
        }
        dtype[k] = fr_nodes[n->arg[k]].dtype;
        if ((memory = memory_of(n->arg[k])))
            arg[k] = memory;
        else if (!element_of(n->arg[k], &element[k]))
            return false;
    }
    return map_aside(n, dtype, arg, out);
}

/* Whether operations are done aside at all. */
static bool
works_aside(fr_device d)
{
    return fr_eager_is_on(d) && !fr_env_waits_for_code() && !fr_env.debug;
}

bool
fr_tensor_peek(const struct fr_tensor *t, uint64_t out[2])
{
    const struct fr_node *n = &fr_nodes[t->storage->node];
    struct fr_scalar_bits element;
    size_t                size = (size_t)fr_dtype_size(t->dtype);
    int                   n_nodes = 0;

    if (!fr_eval_is_unlocked() || t->layout->n_elems != 1)
        return false;
    if (n->op == FR_OP_leaf) {
        if (!fr_buffer_read(n->v.buffer, t->offset * (int64_t)size, size, out))
            return false;
    } else {
        if (!works_aside(n->device) || !is_few(t->storage->node, &n_nodes) || !element_of(t->storage->node, &element))
            return false;
        /* (A component is one of the only number that there is.) */
        memcpy(out, (char *)&element + (fr_component_is(t) ? t->offset * (int64_t)size : 0), size);
    }
    fr_looks_taken++;
    if (FR_UNLIKELY(fr_explain_is_on))
        fr_explain_read();
    fr_count_way(FR_WAY_peeked);
    return true;
}
