/* Eager execution: node by node, for small graphs while they have no plan.
 *
 * A plan costs some microseconds, in which NumPy is through with ten small operations, and pays when it is run often.
 * So what is met for the first time is not planned but run as it was traced, each node by itself, and its plan is made
 * in the background when it comes again (plan_cache.c: expect). The bits are the same, for how nodes are grouped never changes
 * any.
 *
 * Element-wise operations, stores, and reductions in one of two forms are kernels of one operation (single.h), which all
 * sizes share, so that what has not been seen costs no more than what has; a row of elements side by side is a call of a
 * block kernel. Small products and takes are done by the functions that are the steps of plans. Anything else is a graph
 * of one node with a plan. */
#include <string.h>

#include "backends/host.h"
#include "base/alloc.h"
#include "base/tune.h"
#include "base/ways.h"
#include "runtime/ready.h"
#include "runtime/single.h"
#include "runtime/storage.h"

enum { SMALL_PRODUCT = 1 << 20 };   /* multiplications: some 0.1 ms, for which Python's lock may be kept */

/* Elements that a node makes, and reads of what is there: of what it stores into, a store writes a part. */
static int64_t
n_elems_of(const struct fr_node *n)
{
    bool    stores = n->op == FR_OP_store;
    int64_t n_elems = (stores ? &fr_nodes[n->arg[2]] : n)->layout->n_elems;

    for (int k = stores; k < n->n_args; k++)
        if (!fr_arg_is_number(n, k) && !fr_node_computes(&fr_nodes[n->arg[k]]))
            n_elems += fr_nodes[n->arg[k]].layout->n_elems;
    return n_elems;
}

int64_t
fr_eager_bytes(const struct fr_gathered *g)
{
    int64_t n_elems = 0, n_bytes = 0;
    int     n_nodes = 0;

    for (int i = 0; i < g->n; i++) {
        const struct fr_node *n = &fr_nodes[g->id[i]];

        if (!fr_node_computes(n))
            continue;
        n_elems += n_elems_of(n);
        if (n_elems > fr_env.eager_elems || ++n_nodes > FR_EAGER_NODES)
            return 0;
        n_bytes += n->layout->n_elems * fr_dtype_size(n->dtype);
    }
    return fr_eager_is_on(FR_DEVICE_HOST) ? n_bytes : 0;
}

bool
fr_eager_suits(const struct fr_gathered *g)
{
    int64_t n_elems = 0;
    int     n_nodes = 0;

    if (!fr_eager_is_on((fr_device)(g->key[g->entry[g->n - 1].at] >> 8 & 0xff)) || fr_env_waits_for_code())
        return false;
    for (int i = 0; i < g->n; i++) {
        const struct fr_node *n = &fr_nodes[g->id[i]];

        if (!fr_node_computes(n))
            continue;
        n_elems += n_elems_of(n);
        /* The warnings of what is masked depend on another node. */
        if (n->site & FR_SITE_MASKED || n_elems > fr_env.eager_elems || ++n_nodes > FR_EAGER_NODES)
            return false;
    }
    return true;
}

bool
fr_eager_is_alone(fr_ref id)
{
    const struct fr_node *n = &fr_nodes[id];
    int64_t               n_elems = n->layout->n_elems, n_bytes = n_elems * fr_dtype_size(n->dtype);

    if (fr_nodes_pending != 1 || !fr_eager_is_on(n->device) || fr_env_waits_for_code() || fr_env.debug)
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

/* A node on its way to become a loop over memory. */
struct loop {
    struct fr_single        of;
    const struct fr_node   *n;
    bool                    stores, is_row;
    const struct fr_layout *layout[FR_SINGLE_ARGS + 1]; /* of operands; NULL: of the last one where a reduction writes it */
    bool                    reduced[FR_MAX_DIMS];
};

/* The arguments. False: a store of what overlaps it. */
static bool
add_arguments(struct loop *z)
{
    const struct fr_node *n = z->n;
    const fr_ref         *arg = n->arg + z->stores;

    for (int k = 0; k < z->of.n_args; k++) {
        if (fr_arg_is_number(n, k + z->stores)) {
            fr_single_number(&z->of, k, fr_arg_number_dtype(n, k + z->stores), fr_arg_number(n, k + z->stores));
            continue;
        }
        if (z->stores && fr_ready_base(arg[k])->v.buffer == fr_nodes[n->arg[0]].v.buffer)
            return false;
        if (k > 0 && arg[k] == arg[k - 1]) {
            fr_single_is(&z->of, k, z->of.operand[k - 1]);
            continue;
        }
        z->layout[z->of.n_operands] = fr_nodes[arg[k]].layout;
        fr_single_operand(&z->of, k, fr_nodes[arg[k]].dtype, fr_ready_memory(arg[k]));
    }
    return true;
}

/* ---- axes ---- */

/* Where operand o lies, over all axes of the domain. */
static void
strides_of(const struct loop *z, int o, const struct fr_layout *domain, int64_t *out)
{
    const int64_t *own = fr_layout_strides(z->n->layout);

    if (z->layout[o])
        fr_strides_broadcast(z->layout[o], domain->ndim, out);
    else
        for (int d = 0, k = 0; d < domain->ndim; d++)
            out[d] = z->n->u.axes >> d & 1 ? 0 : own[k++];
}

/* Axes of the domain in the order of loops, without those of one element; neighbours become one where all operands allow it. An
 * index is found in a row, whatever its elements are apart: that axis is the last one. */
static void
set_axes(struct loop *z, const struct fr_layout *domain)
{
    struct fr_single *of = &z->of;
    uint32_t          gone = of->form == FR_SINGLE_MAP ? 0 : z->n->u.axes, late = fr_op_finds_index(of->op) ? gone : 0;
    const int64_t    *dims = fr_layout_dims(domain), *list[1];
    int               order[FR_MAX_DIMS], perm[FR_MAX_DIMS], n = 0, m = 0;
    int64_t           stride[FR_SINGLE_ARGS + 1][FR_MAX_DIMS];

    for (int o = 0; o < of->n_operands; o++)
        strides_of(z, o, domain, stride[o]);
    list[0] = stride[0];
    if (gone) /* NumPy's order, in which it adds */
        fr_axes_inwards(domain->ndim, dims, 1, list, perm);
    for (uint32_t pass = 0; pass <= (late != 0); pass++)
        for (int d = 0; d < domain->ndim; d++) {
            int axis = gone ? perm[domain->ndim - 1 - d] : d;

            if (dims[axis] != 1 && (late >> axis & 1) == pass)
                order[n++] = axis;
        }
    if (!gone)
        fr_axes_by_stride(order, n, stride[of->n_operands - 1]);
    for (int p = 0; p < n; p++) {
        int  axis = order[p];
        bool reduced = gone >> axis & 1, joins = m > 0 && reduced == z->reduced[m - 1];

        for (int o = 0; joins && o < of->n_operands; o++)
            joins = of->stride[o][m - 1] == stride[o][axis] * dims[axis];
        m += !joins;
        of->dims[m - 1] = joins ? of->dims[m - 1] * dims[axis] : dims[axis];
        z->reduced[m - 1] = reduced;
        for (int o = 0; o < of->n_operands; o++)
            of->stride[o][m - 1] = stride[o][axis];
    }
    of->n_axes = m;
}

/* Whether it is what most are: all operands lie alike, without a gap, or are one element, or one is reduced to that. Then it
 * has its axis. */
static bool
is_row(struct loop *z, const struct fr_layout *domain)
{
    bool reduces = z->of.form != FR_SINGLE_MAP;
    int  last = z->of.n_operands - 1;

    if (!domain->dense || (reduces && (domain->n_elems == 1 || z->n->layout->n_elems != 1)))
        return false;
    for (int o = 0; o < last; o++) {
        z->of.stride[o][0] = z->layout[o] == domain;
        if (z->layout[o] != domain && z->layout[o]->n_elems != 1)
            return false;
    }
    z->of.stride[last][0] = !reduces;
    z->of.n_axes = 1;
    z->of.dims[0] = domain->n_elems;
    z->reduced[0] = reduces;
    return true;
}

/* The form of a reduction: rows of what is reduced, or columns, between axes that are kept. False: another one. */
static bool
set_reduction(struct loop *z)
{
    struct fr_single *of = &z->of;
    int               last = of->n_axes - 1, at = last >= 0 && z->reduced[last] ? last : last - 1;

    if (at < 0)
        return false;
    for (int p = 0; p <= last; p++)
        if (z->reduced[p] != (p == at))
            return false;
    if (at != last)
        of->form = FR_SINGLE_ACCUM;
    return true;
}

/* ---- one node ---- */

/* Lowers the node but for the memory that it writes. False: it takes a plan. */
static bool
lower(struct loop *z)
{
    const struct fr_node   *n = z->n;
    const struct fr_layout *domain = n->layout;
    int                     last;

    z->stores = n->op == FR_OP_store;
    if (z->stores)
        fr_single_begin(&z->of, FR_OP_cast, FR_SINGLE_MAP, 1);
    else if (fr_op_by_element(n->op))
        fr_single_begin(&z->of, n->op, FR_SINGLE_MAP, n->n_args);
    else if (fr_op_info[n->op].class_ == FR_CLASS_REDUCE)
        fr_single_begin(&z->of, n->op, FR_SINGLE_FOLD, 1);
    else
        return false;
    if (!add_arguments(z))
        return false;
    last = z->of.n_operands++;
    z->of.dtype[last] = n->dtype;
    if (z->of.form == FR_SINGLE_FOLD) {
        if (z->of.n_numbers)
            return false;
        domain = z->layout[0];
        z->layout[last] = NULL;
    } else {
        if (z->stores)
            domain = fr_nodes[n->arg[2]].layout;
        z->layout[last] = domain;
    }
    if (domain->n_elems == 0)
        return false;
    if ((z->is_row = is_row(z, domain)))
        return true;
    set_axes(z, domain);
    return z->of.form == FR_SINGLE_MAP || set_reduction(z);
}

/* Whether nobody needs the argument any more, and the result fits into its memory just so. */
static bool
makes_way(const struct fr_node *a, const struct fr_node *n)
{
    return a->op == FR_OP_leaf && a->refs == 1 && a->dtype == n->dtype && a->layout == n->layout &&
           fr_gather_leaf_flags(a, 1, fr_backend) == FR_KEY_DYING;
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
    return fr_buffer_new(fr_backend, (size_t)(n->layout->n_elems * fr_dtype_size(n->dtype)), err);
}

/* The memory of what a store stores into: its own if nobody wants to see it as it was, else a copy. */
static struct fr_buffer *
stored_into(const struct fr_node *n, struct fr_err *err)
{
    const struct fr_node *before = &fr_nodes[n->arg[0]], *window = &fr_nodes[n->arg[2]];
    bool                  ours = n->arg[2] != n->arg[0] && window->arg[0] == n->arg[0] && window->refs == 1;
    uint32_t              flags = fr_gather_leaf_flags(before, 1u + ours, fr_backend);
    struct fr_buffer     *b;

    if (flags & (FR_KEY_PINNED | FR_KEY_DYING))
        return fr_buffer_ref(before->v.buffer);
    if ((b = fr_buffer_new(fr_backend, (size_t)(n->layout->n_elems * fr_dtype_size(n->dtype)), err)))
        memcpy(b->mem, before->v.buffer->mem, b->n_bytes);
    return b;
}

/* A row as one call of a block kernel. False: there is none. */
static bool
run_row(struct fr_single *z)
{
    int      last = z->n_operands - 1, n_numbers = 0;
    size_t   n = (size_t)z->dims[0];
    char    *arg[FR_SINGLE_ARGS];
    fr_dtype dtype[FR_SINGLE_ARGS];
    unsigned once = 0;

    if (fr_is_off(FR_OFF_row))
        return false;
    for (int k = 0; k < z->n_args; k++) {
        int o = z->operand[k];

        arg[k] = o < 0 ? (char *)&z->number[n_numbers] : z->mem[o];
        dtype[k] = o < 0 ? z->number_dtype[n_numbers++] : z->dtype[o];
        once |= (unsigned)(o < 0 || z->stride[o][0] == 0) << k;
    }
    if (!(z->form == FR_SINGLE_FOLD ? fr_host_fold(z->op, n, dtype[0], arg[0], z->mem[last])
                                    : fr_host_map(z->op, n, dtype, z->n_args, arg, once, z->dtype[last], z->mem[last])))
        return false;
    fr_count_way(FR_WAY_row);
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
    struct fr_buffer *b = fr_buffer_new(fr_backend, (size_t)(n->layout->n_elems * fr_dtype_size(n->dtype)), err);
    char             *ptr[FR_LEN(c.in) + 1];
    fr_status         st;

    if (!b)
        return FR_ENOMEM;
    for (int k = 0; k < n->n_args; k++) {
        c.in[k] = fr_nodes[n->arg[k]].layout;
        ptr[k] = fr_ready_memory(n->arg[k]);
        if (n->op == FR_OP_take && k == 1) {
            c.index = fr_nodes[n->arg[k]].dtype;
            c.wary = (fr_gather_leaf_flags(fr_ready_base(n->arg[k]), 0, fr_backend) & FR_KEY_PINNED) != 0;
        }
    }
    ptr[n->n_args] = b->mem;
    if ((st = fr_backend->call(fr_backend, &c, ptr, err)) == FR_OK)
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
    fr_status             st;

    *out = NULL;
    if (is_there(n))
        return (*out = stored_into(n, err)) ? FR_OK : FR_ENOMEM;
    if (is_small_call(n))
        return run_call(n, out, err);
    if (!lower(&z))
        return FR_OK;
    if (!(b = z.stores ? stored_into(n, err) : result_memory(n, err)))
        return FR_ENOMEM;
    z.of.mem[z.of.n_operands - 1] = (char *)b->mem + (z.stores ? fr_ready_offset(n->arg[2]) : 0);
    st = z.is_row && run_row(&z.of) ? FR_OK : fr_single_run(&z.of, err);
    if (st == FR_OK)
        *out = b;
    else
        fr_buffer_unref(b);
    return st;
}
