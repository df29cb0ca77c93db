/* Eager execution: node by node, for small graphs while they have no plan.
 *
 * A plan costs some microseconds, in which NumPy is through with ten small operations, and pays when it is run often.
 * So what is met for the first time is not planned but run as it was traced, each node by itself, and its plan is made
 * in the background when it comes again (plan_cache.c: expect). The bits are the same, for how nodes are grouped never changes
 * any.
 *
 * Element-wise operations, stores, and reductions in one of two forms are run here as a few rows for the block kernels
 * (backends/host.h), small products and takes by the functions that are the steps of plans. Nothing is kept from one
 * to the next, so that what has not been seen costs no more than what has. Anything else is a graph of one node with a
 * plan. */
#include <string.h>

#include "backends/host.h"
#include "base/alloc.h"
#include "base/tune.h"
#include "base/ways.h"
#include "runtime/plan.h"
#include "runtime/storage.h"
#include "runtime/ready.h"

enum { SMALL_PRODUCT = 1 << 20 };   /* multiplications: some 0.1 ms, for which Python's lock may be kept */

/* Elements that a node makes, and reads of leaves: of what it stores into, a store writes a part. */
static int64_t
n_elems_of(const struct fr_node *n)
{
    int64_t n_elems = (n->op == FR_OP_store ? &fr_nodes[n->arg[2]] : n)->layout->n_elems;

    for (int k = n->op == FR_OP_store; n->op != FR_OP_view && k < n->n_args; k++)
        if (n->arg[k] != FR_SCALAR_HERE && fr_nodes[n->arg[k]].op == FR_OP_leaf)
            n_elems += fr_nodes[n->arg[k]].layout->n_elems;
    return n_elems;
}

/* Whether all nodes together read and write few elements, and of large arrays only parts. */
static bool
are_small(const struct fr_gathered *g)
{
    int64_t n_elems = 0;

    for (int i = 0; i < g->n && n_elems <= fr_env.eager_elems; i++)
        if (fr_nodes[g->id[i]].op != FR_OP_leaf)
            n_elems += n_elems_of(&fr_nodes[g->id[i]]);
    return n_elems <= fr_env.eager_elems;
}

bool
fr_eager_suits(const struct fr_gathered *g)
{
    int64_t n_elems = 0;
    int     n_nodes = 0;

    if (!fr_eager_is_on() || fr_env_waits_for_code())
        return false;
    for (int i = 0; i < g->n; i++) {
        const struct fr_node *n = &fr_nodes[g->id[i]];

        /* Leaves count: what a reduction reads is more than what it writes. */
        n_elems += n->layout->n_elems;
        n_nodes += fr_node_computes(n);
        if (n->site & FR_SITE_MASKED) /* whose warnings depend on another node */
            return false;
        if (n_nodes > FR_EAGER_NODES)
            return false;
    }
    return n_elems <= fr_env.eager_elems || are_small(g);
}

bool
fr_eager_is_alone(fr_ref id)
{
    const struct fr_node *n = &fr_nodes[id];
    int64_t               n_elems = n->layout->n_elems, n_bytes = n_elems * fr_dtype_size(n->dtype);

    if (fr_nodes_pending != 1 || !fr_eager_is_on() || fr_env_waits_for_code() || fr_env.debug)
        return false;
    for (int k = 0; k < n->n_args; k++) {
        const struct fr_node *a = &fr_nodes[n->arg[k]];

        if (fr_arg_is_number(n, k))
            continue;
        n_elems += a->layout->n_elems;
        n_bytes += a->layout->n_elems * fr_dtype_size(a->dtype);
    }
    return n_bytes <= fr_tune.alone_bytes && n_elems <= fr_env.eager_elems &&
           (n_elems <= fr_tune.alone_costly || !(fr_op_info[n->op].flags & FR_OPF_COSTLY));
}

/* ---- what a node reads and writes ---- */

enum { MAX_OPERANDS = 4,
       MAX_CALLS = 16 }; /* of a kernel that takes short rows together */

enum form { MAP, STORE, ROWS, COLUMNS };

/* A node as a loop over memory. */
struct loop {
    const struct fr_node   *n;
    enum form               form;
    int                     first_arg, end_args; /* that are read */
    int                     n_operands;          /* of those that are no numbers, and of what is written */
    char                   *mem[MAX_OPERANDS];
    fr_dtype                dtype[MAX_OPERANDS];
    const struct fr_layout *layout[MAX_OPERANDS];/* NULL: of the last one where a reduction writes it */
    int64_t                 stride[MAX_OPERANDS][FR_MAX_DIMS]; /* elements; of `dims`, from the outermost in */
    int64_t                 dims[FR_MAX_DIMS];
    bool                    reduced[FR_MAX_DIMS];
    int                     n_axes;
};

static void
add_operand(struct loop *z, int k)
{
    fr_ref id = z->n->arg[k];
    int    o = z->n_operands++;

    z->dtype[o] = fr_nodes[id].dtype;
    z->layout[o] = fr_nodes[id].layout;
    z->mem[o] = fr_ready_memory(id);
}

/* The arguments. False: a store of what overlaps it. */
static bool
add_arguments(struct loop *z)
{
    const struct fr_node *n = z->n;

    z->first_arg = z->form == STORE;
    z->end_args = z->form == STORE ? 2 : n->n_args;
    z->n_operands = 0;
    for (int k = z->first_arg; k < z->end_args; k++) {
        if (fr_arg_is_number(n, k))
            continue;
        if (z->form == STORE && fr_ready_base(n->arg[k])->v.buffer == fr_nodes[n->arg[0]].v.buffer)
            return false;
        add_operand(z, k);
    }
    return true;
}

/* ---- axes ---- */

/* Where what a reduction writes lies, over the axes of its argument. */
static void
reduced_strides(const struct loop *z, const struct fr_layout *domain, int64_t *out)
{
    const int64_t *own = fr_layout_strides(z->n->layout);

    for (int d = 0, k = 0; d < domain->ndim; d++)
        out[d] = z->n->u.axes >> d & 1 ? 0 : own[k++];
}

/* Axes of D in the order of loops, without those of one element. */
static void
set_order(struct loop *z, const struct fr_layout *domain, const int64_t (*stride)[FR_MAX_DIMS])
{
    const int64_t *dims = fr_layout_dims(domain);
    int            order[FR_MAX_DIMS], perm[FR_MAX_DIMS], n = 0;

    if (z->form == ROWS) { /* NumPy's, in which it adds */
        const int64_t *list[1] = {stride[0]};

        fr_axes_inwards(domain->ndim, dims, 1, list, perm);
        for (int k = domain->ndim; k-- > 0;)
            if (dims[perm[k]] != 1)
                order[n++] = perm[k];
    } else {
        for (int d = 0; d < domain->ndim; d++)
            if (dims[d] != 1)
                order[n++] = d;
        fr_axes_by_stride(order, n, stride[z->n_operands - 1]);
    }
    z->n_axes = n;
    for (int p = 0; p < n; p++) {
        z->dims[p] = dims[order[p]];
        z->reduced[p] = z->form == ROWS && z->n->u.axes >> order[p] & 1;
        for (int o = 0; o < z->n_operands; o++)
            z->stride[o][p] = stride[o][order[p]];
    }
}

static void
coalesce(struct loop *z)
{
    int n = 0;

    for (int p = 1; p < z->n_axes; p++) {
        bool joins = z->reduced[p] == z->reduced[n];

        for (int o = 0; joins && o < z->n_operands; o++)
            joins = z->stride[o][n] == z->stride[o][p] * z->dims[p];
        n += !joins;
        z->dims[n] = joins ? z->dims[n] * z->dims[p] : z->dims[p];
        z->reduced[n] = z->reduced[p];
        for (int o = 0; o < z->n_operands; o++)
            z->stride[o][n] = z->stride[o][p];
    }
    z->n_axes = z->n_axes ? n + 1 : 0;
}

static void
set_axes(struct loop *z, const struct fr_layout *domain)
{
    int64_t stride[MAX_OPERANDS][FR_MAX_DIMS];

    for (int o = 0; o < z->n_operands; o++) {
        const struct fr_layout *l = z->layout[o];

        if (!l) {
            reduced_strides(z, domain, stride[o]);
            continue;
        }
        for (int d = domain->ndim, k = l->ndim; d-- > 0;) {
            k--;
            stride[o][d] = k >= 0 && fr_layout_dims(l)[k] != 1 ? fr_layout_strides(l)[k] : 0;
        }
    }
    set_order(z, domain, stride);
    coalesce(z);
}

/* The form of a reduction: rows of what is reduced, or columns, between axes that are kept. False: another one. */
static bool
set_reduction(struct loop *z)
{
    int last = z->n_axes - 1, at;

    if (last < 0)
        return false;
    at = z->reduced[last] ? last : last - 1;
    z->form = z->reduced[last] ? ROWS : COLUMNS;
    for (int p = 0; p <= last; p++)
        if (z->reduced[p] != (p == at))
            return false;
    return true;
}

/* Whether rows to be reduced lie side by side, and so do their results: those are reduced together. */
static bool
is_one_block(const struct loop *z)
{
    const int64_t *in = z->stride[0], *out = z->stride[1];

    return z->form == ROWS && z->n_axes == 2 && in[1] == 1 && in[0] == z->dims[1] && out[0] == 1;
}

/* Whether rows are few or long, or one block, or a call of a kernel takes them together; and none of what is long lies
 * across memory: the launcher copies that in tiles. */
static bool
has_good_rows(const struct loop *z)
{
    int     last = z->n_axes - 1;
    int64_t n_rows = 1, n_calls = 1, n = z->n_axes ? z->dims[last] : 1;

    for (int p = 0; p < last; p++) {
        n_rows *= z->dims[p];
        n_calls *= p < last - 1 ? z->dims[p] : 1;
    }
    for (int o = 0; o < z->n_operands; o++) {
        int64_t step = z->n_axes ? z->stride[o][last] : 0;

        if (step != 0 && step != 1 && n_rows * n * fr_dtype_size(z->dtype[o]) >= fr_env.pack_bytes)
            return false;
    }
    if (fr_env.pack_bytes <= 0)
        return false;
    return n_rows <= fr_tune.eager_rows || n >= fr_tune.eager_long_row || is_one_block(z) || (z->form != ROWS && n_calls <= MAX_CALLS);
}

/* ---- one node ---- */

/* Lowers the node but for the memory that it writes. False: it takes a plan. */
static bool
lower(struct loop *z)
{
    const struct fr_node   *n = z->n;
    const struct fr_layout *domain = n->layout;
    int                     last;

    switch (fr_op_info[n->op].class_) {
    case FR_CLASS_MAP: z->form = MAP; break;
    case FR_CLASS_REDUCE: z->form = ROWS; break;
    default:
        if (n->op != FR_OP_store && n->op != FR_OP_cast)
            return false;
        z->form = n->op == FR_OP_store ? STORE : MAP;
    }
    if (!add_arguments(z))
        return false;
    last = z->n_operands;
    z->n_operands++;
    z->dtype[last] = n->dtype;
    if (z->form == ROWS) {
        if (fr_arg_is_number(n, 0))
            return false;
        domain = z->layout[0];
        z->layout[last] = NULL;
    } else {
        if (z->form == STORE)
            domain = fr_nodes[n->arg[2]].layout;
        z->layout[last] = domain;
    }
    if (domain->n_elems == 0)
        return false;
    set_axes(z, domain);
    return (z->form != ROWS || set_reduction(z)) && has_good_rows(z);
}

/* Whether nobody needs the argument any more, and the result fits into its memory just so. */
static bool
makes_way(const struct fr_node *a, const struct fr_node *n)
{
    return a->op == FR_OP_leaf && a->refs == 1 && a->dtype == n->dtype && a->layout == n->layout &&
           fr_gather_leaf_flags(a, 1) == FR_KEY_DYING;
}

/* Whether the flags that the operation raises may be other ones than NumPy's: then its arguments stay, so that NumPy can
 * be asked. */
static bool
raises_more(fr_op op)
{
    return fr_op_info[op].flags & (FR_OPF_COSTLY | FR_OPF_QUOTIENT);
}

/* What the result is written to. */
static struct fr_buffer *
result_memory(const struct fr_node *n, struct fr_err *err)
{
    int n_args = raises_more((fr_op)n->op) ? 0 : n->n_args;

    for (int k = 0; k < n_args; k++)
        if (n->arg[k] != FR_SCALAR_HERE && makes_way(&fr_nodes[n->arg[k]], n))
            return fr_buffer_ref(fr_nodes[n->arg[k]].v.buffer);
    return fr_buffer_new((size_t)(n->layout->n_elems * fr_dtype_size(n->dtype)), err);
}

/* The memory of what a store stores into: its own if nobody wants to see it as it was, else a copy. */
static struct fr_buffer *
stored_into(const struct fr_node *n, struct fr_err *err)
{
    const struct fr_node *before = &fr_nodes[n->arg[0]], *window = &fr_nodes[n->arg[2]];
    bool                  ours = n->arg[2] != n->arg[0] && window->arg[0] == n->arg[0] && window->refs == 1;
    uint32_t              flags = fr_gather_leaf_flags(before, 1u + ours);
    struct fr_buffer     *b;

    if (flags & (FR_KEY_PINNED | FR_KEY_DYING))
        return fr_buffer_ref(before->v.buffer);
    if ((b = fr_buffer_new((size_t)(n->layout->n_elems * fr_dtype_size(n->dtype)), err)))
        memcpy(b->mem, before->v.buffer->mem, b->n_bytes);
    return b;
}

/* Operand o at these indices of the outer axes. */
static struct fr_host_operand
direct(const struct loop *z, int o, const int64_t *index)
{
    int64_t          size = fr_dtype_size(z->dtype[o]);
    int              n = z->n_axes;
    struct fr_host_operand d = {.mem = z->mem[o], .dtype = z->dtype[o]};

    for (int p = 0; p < n - 2; p++)
        d.mem += index[p] * z->stride[o][p] * size;
    d.row = n > 1 ? z->stride[o][n - 2] * size : 0;
    d.step = n > 0 ? z->stride[o][n - 1] * size : 0;
    return d;
}

/* The rows at these indices of the outer axes. */
static bool
run_rows(const struct loop *z, struct fr_scalar_bits *number, const int64_t *index)
{
    int              n_args = 0, o = 0;
    size_t           n_rows = z->n_axes > 1 ? (size_t)z->dims[z->n_axes - 2] : 1;
    size_t           n = z->n_axes ? (size_t)z->dims[z->n_axes - 1] : 1;
    struct fr_host_operand out = direct(z, z->n_operands - 1, index), arg[FR_HOST_ARGS];

    for (int k = z->first_arg; k < z->end_args; k++)
        arg[n_args++] = fr_arg_is_number(z->n, k)
                            ? (struct fr_host_operand){.mem = (char *)number++, .dtype = fr_arg_number_dtype(z->n, k)}
                            : direct(z, o++, index);
    switch (z->form) {
    case ROWS: return fr_host_reduce(z->n->op, &out, arg, n_rows, n);
    case COLUMNS: return fr_host_reduce_columns(z->n->op, &out, arg, n_rows, n);
    default:
        if (z->n_axes == 0) /* the one element has no step to anything */
            out.step = fr_dtype_size(out.dtype);
        return fr_host_map(z->form == STORE ? FR_OP_cast : z->n->op, &out, arg, n_args, n_rows, n);
    }
}

/* False: it takes a plan. */
static bool
run_all(const struct loop *z)
{
    struct fr_scalar_bits number[FR_HOST_ARGS];
    int64_t               index[FR_MAX_DIMS] = {0};
    int                   n_numbers = 0, p;

    for (int k = z->first_arg; k < z->end_args; k++)
        if (fr_arg_is_number(z->n, k))
            number[n_numbers++] = fr_arg_number(z->n, k);
    do {
        if (!run_rows(z, number, index))
            return false; /* at once, or never */
        for (p = z->n_axes - 3; p >= 0 && ++index[p] == z->dims[p]; p--)
            index[p] = 0;
    } while (p >= 0);
    fr_count_way(FR_WAY_interpreted);
    return true;
}

/* ---- products and takes ---- */

/* Whether a CALL is for run_call: small, and all of it there. */
static bool
is_small_call(const struct fr_node *n)
{
    const struct fr_layout *a;

    if (fr_op_info[n->op].class_ != FR_CLASS_CALL || n->layout->n_elems == 0)
        return false;
    for (int k = 0; k < n->n_args; k++)
        if (fr_arg_is_number(n, k) || fr_nodes[n->arg[k]].layout->n_elems == 0)
            return false;
    a = fr_nodes[n->arg[0]].layout;
    return n->op != FR_OP_matmul || n->layout->n_elems <= SMALL_PRODUCT / fr_layout_dims(a)[a->ndim - 1];
}

static fr_status
run_call(const struct fr_node *n, struct fr_buffer **out, struct fr_err *err)
{
    struct fr_call    c = {.op = n->op, .dtype = n->dtype, .axis = (int)n->u.axes, .n_in = n->n_args, .out = n->layout};
    struct fr_buffer *b = fr_buffer_new((size_t)(n->layout->n_elems * fr_dtype_size(n->dtype)), err);
    char             *ptr[FR_LEN(c.in) + 1];
    fr_status         st;

    if (!b)
        return FR_ENOMEM;
    for (int k = 0; k < n->n_args; k++) {
        c.in[k] = fr_nodes[n->arg[k]].layout;
        ptr[k] = fr_ready_memory(n->arg[k]);
        if (n->op == FR_OP_take && k == 1) {
            c.index = fr_nodes[n->arg[k]].dtype;
            c.wary = (fr_gather_leaf_flags(fr_ready_base(n->arg[k]), 0) & FR_KEY_PINNED) != 0;
        }
    }
    ptr[n->n_args] = b->mem;
    if ((st = fr_backend->call(&c, ptr, err)) == FR_OK)
        *out = b;
    else
        fr_buffer_unref(b);
    return st;
}

/* Whether a store puts what is there into its place again, as the second half of x[i] += y does. */
static bool
is_there(const struct fr_node *n)
{
    const struct fr_node *value, *window;

    if (n->op != FR_OP_store)
        return false;
    value = &fr_nodes[n->arg[1]];
    window = &fr_nodes[n->arg[2]];
    return value->op == FR_OP_view && window->op == FR_OP_view && value->arg[0] == n->arg[0] &&
           value->layout == window->layout && value->u.offset == window->u.offset;
}

fr_status
fr_eager_run(fr_ref id, struct fr_buffer **out, struct fr_err *err)
{
    struct loop           z;
    const struct fr_node *n = z.n = &fr_nodes[id];
    struct fr_buffer     *b;

    *out = NULL;
    if (is_there(n))
        return (*out = stored_into(n, err)) ? FR_OK : FR_ENOMEM;
    if (is_small_call(n))
        return run_call(n, out, err);
    if (!lower(&z))
        return FR_OK;
    b = z.form == STORE ? stored_into(n, err) : result_memory(n, err);
    if (!b)
        return FR_ENOMEM;
    z.mem[z.n_operands - 1] = (char *)b->mem + (z.form == STORE ? fr_ready_offset(n->arg[2]) : 0);
    if (run_all(&z))
        *out = b;
    else
        fr_buffer_unref(b);
    return FR_OK;
}
