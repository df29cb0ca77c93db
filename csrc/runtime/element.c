/* Single elements that Python asks for, and stores, one by one: done aside, without an evaluation.
 *
 * `if t[i] > t[j]` wants a value of two elements, and `t[i] = max(t[i - 1], 0)` makes one. In a loop over elements each
 * would be traced and run as a graph of some nodes; where that takes a few operations on single elements of memory, the
 * block kernels do them where they are asked for. The bits are those of any other way. Where NumPy's have them too, such
 * a loop goes on in NumPy's numbers. */
#include <string.h>

#include "backends/cpu/direct.h"
#include "backends/cpu/fpe.h"
#include "base/env.h"
#include "runtime/judge.h"
#include "runtime/there.h"

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
        return fr_there_base(id)->op == FR_OP_leaf;
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
map_aside(fr_op op, uint32_t site, const struct fr_direct *to, const struct fr_direct *arg, int n_args)
{
    unsigned raised;

    fr_fpe_begin();
    if (!fr_direct_map(op, to, arg, n_args, 1, 1))
        return false;
    raised = fr_fpe_raised() | (fr_op_info[op].flags & FR_OPF_COSTLY ? fr_judge_unseen : 0);
    return FR_LIKELY(raised == 0) || !fr_judge_would(raised, FR_SITE_WARNS(site));
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
    return fr_node_computes(n) ? NULL : fr_there_memory(id);
}

/* The element of such a node. False: there is no block kernel for it. */
static bool
element_of(fr_ref id, struct fr_scalar_bits *out)
{
    const struct fr_node *n = &fr_nodes[id];
    struct fr_direct      arg[FR_DIRECT_ARGS], to = {(char *)out, 0, fr_dtype_size(n->dtype), n->dtype};
    struct fr_scalar_bits element[FR_DIRECT_ARGS];
    char                 *memory = memory_of(id);

    if (memory) {
        memcpy(out, memory, (size_t)fr_dtype_size(n->dtype));
        return true;
    }
    for (int k = 0; k < n->n_args; k++) {
        const struct fr_node *a = &fr_nodes[n->arg[k]];

        if (fr_arg_is_number(n, k)) {
            element[k] = fr_arg_number(n, k);
            arg[k] = (struct fr_direct){(char *)&element[k], 0, 0, fr_arg_number_dtype(n, k)};
            continue;
        }
        memory = memory_of(n->arg[k]);
        arg[k] = (struct fr_direct){memory ? memory : (char *)&element[k], 0, fr_dtype_size(a->dtype), a->dtype};
        if (!memory && !element_of(n->arg[k], &element[k]))
            return false;
    }
    return map_aside(n->op, n->site, &to, arg, n->n_args);
}

/* Whether operations are done aside at all. */
static bool
works_aside(void)
{
    return fr_env.eager_elems > 0 && !fr_env_waits_for_code() && !fr_env.debug;
}

/* The only element that a tensor shows, and of how many pending nodes it is made. False: they are too many, or others. */
static bool
element_shown(const struct fr_tensor *t, struct fr_scalar_bits *out, int *n_nodes)
{
    const struct fr_node *n = &fr_nodes[t->storage->node];
    int                   size = fr_dtype_size(t->dtype);

    *n_nodes = 0;
    if (n->op != FR_OP_leaf) {
        if (!works_aside() || !is_few(t->storage->node, n_nodes) || !element_of(t->storage->node, out))
            return false;
        if (fr_component_is(t)) /* of the only number that there is */
            memmove(out, (char *)out + t->offset * size, (size_t)size);
        return true;
    }
    memcpy(out, (char *)n->v.buffer->mem + t->offset * size, (size_t)size);
    return true;
}

bool
fr_tensor_peek(const struct fr_tensor *t, uint64_t out[2])
{
    struct fr_scalar_bits element;
    int                   n_nodes;

    if (!fr_turn_is_free() || t->layout->n_elems != 1 || !element_shown(t, &element, &n_nodes))
        return false;
    memcpy(out, &element, (size_t)fr_dtype_size(t->dtype));
    fr_looks_taken++;
    return true;
}

/* ---- loops ---- */

enum { LOOP = 64,           /* loads, or stores, of single elements: it is a loop over them; */
       LONG_LOOP = 2048 };  /* and too long to be noted (replay.c) */

static struct {
    bool     recorded;
    uint32_t n, evaluate_at;
    uint64_t looks;         /* that had been taken when it began */
    uint32_t n_done;        /* without a node, */
    uint64_t first_node;    /* and the first node after the first of them */
} call = {.evaluate_at = LOOP};

static FR_THREAD_LOCAL bool may_be_numbers;

uint64_t fr_elements_done;

void
fr_element_loops_begin(bool recorded)
{
    call.recorded = recorded;
    call.n = call.n_done = 0;
    call.evaluate_at = LOOP;
    call.looks = fr_looks_taken;
}

bool
fr_element_numbers(bool may_be)
{
    bool before = may_be_numbers;

    may_be_numbers = may_be;
    return before;
}

/* Whether an element of this dtype may be a number of NumPy's, now. */
static bool
may_be_number(fr_dtype d)
{
    return may_be_numbers && !fr_dtype_is_complex(d) && works_aside() && fr_turn_is_free();
}

/* Whether this one is of a loop over elements, whose call will not be noted, or has looked at values anyway. */
static bool
is_in_loop(void)
{
    uint32_t n = ++call.n;

    return n >= LOOP && (!call.recorded || n >= LONG_LOOP || fr_looks_taken != call.looks);
}

/* The first element that is not traced finds those before it pending, and others that came with them. Where more follow
 * that must be, it is tried ever more rarely. */
static bool
becomes_memory(struct fr_storage *s)
{
    struct fr_err ignored;

    if (fr_nodes[s->node].op != FR_OP_leaf && call.n >= call.evaluate_at) {
        call.evaluate_at = 2 * call.n;
        if ((may_be_numbers ? fr_runtime_eval_all(&ignored) : fr_eval_nodes(&s->node, 1, &ignored)) != FR_OK)
            return false; /* as pending as before */
    }
    return fr_nodes[s->node].op == FR_OP_leaf;
}

/* Notes an element that is seen or written without a node: the call will not be made again without running. */
static void
note_element(void)
{
    if (call.n_done++ == 0)
        call.first_node = fr_nodes_made;
    fr_looks_taken++;
    fr_elements_done++;
}

bool
fr_element_load(const struct fr_tensor *t, int64_t offset, uint64_t out[2])
{
    size_t size = (size_t)fr_dtype_size(t->dtype);

    if (!may_be_number(t->dtype) || !is_in_loop() || !becomes_memory(t->storage))
        return false;
    memcpy(out, (char *)fr_nodes[t->storage->node].v.buffer->mem + (t->offset + offset) * (int64_t)size, size);
    note_element();
    return true;
}

bool
fr_element_result(const struct fr_tensor *t, uint64_t out[2])
{
    struct fr_err ignored;

    if (call.n_done == 0 || 2 * (uint64_t)call.n_done + LOOP < fr_nodes_made - call.first_node || t->layout->ndim > 0 ||
        !may_be_number(t->dtype) || fr_nodes_pending > FEW_NODES)
        return false;
    if (!fr_tensor_peek(t, out) &&
        (fr_eval_nodes(&t->storage->node, 1, &ignored) != FR_OK || !fr_tensor_peek(t, out)))
        return false; /* who needs it will say why */
    note_element();
    return true;
}

bool
fr_element_map(fr_op op, const struct fr_arg *args, int n, fr_dtype *d, uint64_t out[2])
{
    struct fr_direct      arg[FR_DIRECT_ARGS], to = {.mem = (char *)out};
    struct fr_scalar_bits element[FR_DIRECT_ARGS];
    fr_dtype              compute;
    struct fr_err         ignored; /* what tracing it will say again */

    if (call.n_done == 0 || fr_op_info[op].class_ != FR_CLASS_MAP || fr_op_info[op].rule == FR_RULE_SELECT ||
        fr_op_info[op].rule == FR_RULE_LDEXP ||
        fr_trace_resolve(op, args, n, &compute, &ignored) != FR_OK || !may_be_number(compute))
        return false;
    for (int k = 0; k < n; k++) {
        if (fr_number_bits(&args[k].n, compute, element[k].word, &ignored) != FR_OK ||
            fr_number_overflows(&args[k].n, compute, element[k].word))
            return false;
        arg[k] = (struct fr_direct){(char *)&element[k], 0, 0, compute};
    }
    *d = to.dtype = fr_op_result(op, compute);
    to.step = fr_dtype_size(to.dtype);
    return map_aside(op, fr_trace_site, &to, arg, n);
}

/* ---- stores ---- */

/* The value, of its own dtype, and how many pending nodes it is made of. */
static bool
value_of(const struct fr_arg *value, fr_dtype d, struct fr_scalar_bits *out, fr_dtype *dtype, int *n_nodes)
{
    struct fr_err ignored; /* what tracing the store will say again */

    *n_nodes = 0;
    *dtype = value->t ? value->t->dtype : d;
    return value->t ? value->t->layout->ndim == 0 && element_shown(value->t, out, n_nodes)
                    : fr_number_bits(&value->n, d, out->word, &ignored) == FR_OK;
}

/* The elements that a node of few reads become memory of their own. */
static fr_status
detach(fr_ref id)
{
    fr_status st = FR_OK;

    if (fr_nodes[id].op == FR_OP_view) {
        size_t            size = (size_t)fr_dtype_size(fr_nodes[id].dtype);
        struct fr_err     ignored;
        struct fr_buffer *b = fr_buffer_new(size, &ignored);

        if (!b)
            return FR_ENOMEM;
        memcpy(b->mem, fr_there_memory(id), size);
        fr_node_realise(id, b);
        return FR_OK;
    }
    for (int k = 0; fr_node_computes(&fr_nodes[id]) && k < fr_nodes[id].n_args && st == FR_OK; k++)
        if (!fr_arg_is_number(&fr_nodes[id], k))
            st = detach(fr_nodes[id].arg[k]);
    return st;
}

/* Whether nobody else reads the memory of the leaf, of which the storage has a reference: no node, and no other array. */
static bool
is_only_its(const struct fr_node *leaf)
{
    return leaf->refs == 1 && fr_gather_leaf_flags(leaf, 1) & (FR_KEY_PINNED | FR_KEY_DYING);
}

bool
fr_element_store(const struct fr_tensor *dst, const struct fr_arg *value)
{
    struct fr_scalar_bits element;
    struct fr_direct      to, from;
    fr_ref                id;
    int                   n_nodes, size = fr_dtype_size(dst->dtype);

    if (dst->layout->ndim != 0 || !is_in_loop() || !works_aside() || !fr_turn_is_free() || !becomes_memory(dst->storage))
        return false;
    id = dst->storage->node;
    from = (struct fr_direct){.mem = (char *)&element};
    if (!value_of(value, dst->dtype, &element, &from.dtype, &n_nodes) || fr_nodes_pending != (uint32_t)n_nodes)
        return false; /* what is pending may read the memory, also as somebody else's */
    if (fr_nodes[id].refs > 1 && n_nodes > 0 && detach(value->t->storage->node) != FR_OK)
        return false;
    if (!is_only_its(&fr_nodes[id]))
        return false;
    to = (struct fr_direct){(char *)fr_nodes[id].v.buffer->mem + dst->offset * size, 0, size, dst->dtype};
    from.step = fr_dtype_size(from.dtype);
    if (from.dtype == dst->dtype)
        memcpy(to.mem, &element, (size_t)size);
    else if (!map_aside(FR_OP_cast, fr_trace_site, &to, &from, 1))
        return false;
    fr_index_forget(id);
    note_element();
    return true;
}
