/* The invariants of a graph, one function each. */
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/graph.h"

static const char *
check_order(const struct fr_graph *g, const struct fr_gnode *n, int i)
{
    for (int k = 0; k < n->n_args; k++)
        if (n->arg[k].src >= i || n->arg[k].src < FR_SRC_SCALAR)
            return "reads a node that comes later";
    (void)g;
    return NULL;
}

static const char *
check_alive(const struct fr_graph *g, const struct fr_gnode *n, int i)
{
    for (int k = 0; k < n->n_args; k++)
        if (n->arg[k].src >= 0 && g->node[n->arg[k].src].dead)
            return "reads a dead node";
    (void)i;
    return NULL;
}

static const char *
check_arity(const struct fr_graph *g, const struct fr_gnode *n, int i)
{
    (void)g;
    (void)i;
    if (n->op == FR_OP_scalar || n->op == FR_OP_view)
        return "is not a node of a closed graph";
    return n->n_args == fr_op_info[n->op].arity ? NULL : "has the wrong number of arguments";
}

static const char *
check_dense(const struct fr_graph *g, const struct fr_gnode *n, int i)
{
    (void)g;
    (void)i;
    return n->layout && n->layout->dense ? NULL : "has a result that is not dense";
}

static const char *
check_scalars(const struct fr_graph *g, const struct fr_gnode *n, int i)
{
    for (int k = 0; k < n->n_args; k++) {
        if (n->arg[k].src == FR_SRC_SCALAR && n->arg[k].scalar >= g->n_scalars)
            return "reads a scalar that there is not";
        if (n->arg[k].moving >= g->n_moving)
            return "reads through an offset that there is not";
    }
    (void)i;
    return NULL;
}

/* A window stays inside the memory of its node. */
static const char *
check_bounds(const struct fr_graph *g, const struct fr_gnode *n, int i)
{
    for (int k = 0; k < 3; k++) {
        const struct fr_edge *e = &n->arg[k];
        int64_t               low, high;

        if (!e->layout || e->src < 0 || (e->moving >= 0 && !g->moving_at) || e->layout->n_elems == 0)
            continue;
        low = high = e->offset + (e->moving < 0 ? 0 : g->moving_at[e->moving]);
        for (int d = 0; d < e->layout->ndim; d++) {
            int64_t reach = (fr_layout_dims(e->layout)[d] - 1) * fr_layout_strides(e->layout)[d];

            if (reach < 0)
                low += reach;
            else
                high += reach;
        }
        if (low < 0 || high >= g->node[e->src].layout->n_elems)
            return "reads outside of a node's memory";
    }
    (void)i;
    return NULL;
}

static const char *
check_axes(const struct fr_graph *g, const struct fr_gnode *n, int i)
{
    int kept = 0;

    (void)g;
    (void)i;
    if (!fr_op_reduces(n->op))
        return NULL;
    for (int d = 0; d < n->arg[0].layout->ndim; d++)
        if (!(n->axes >> d & 1)) {
            if (kept >= n->layout->ndim ||
                fr_layout_dims(n->layout)[kept] != fr_layout_dims(n->arg[0].layout)[d])
                return "keeps other axes than its result has";
            kept++;
        }
    return kept == n->layout->ndim ? NULL : "keeps other axes than its result has";
}

static const char *
check_dtypes(const struct fr_graph *g, const struct fr_gnode *n, int i)
{
    const struct fr_op_info *info = &fr_op_info[n->op];

    (void)i;
    if (info->class_ != FR_CLASS_MAP || info->rule == FR_RULE_SELECT || info->rule == FR_RULE_LDEXP)
        return NULL;
    for (int k = 1; k < n->n_args; k++) {
        const struct fr_edge *a = &n->arg[0], *b = &n->arg[k];
        fr_dtype da = a->src < 0 ? g->scalar_dtype[a->scalar] : g->node[a->src].dtype;
        fr_dtype db = b->src < 0 ? g->scalar_dtype[b->scalar] : g->node[b->src].dtype;

        if (da != db)
            return "has arguments of different dtypes";
    }
    return NULL;
}

/* Operands and result of a matrix product belong together. */
static const char *
check_product(const struct fr_graph *g, const struct fr_gnode *n, int i)
{
    const struct fr_layout *a = n->arg[0].layout, *b = n->arg[1].layout;
    int64_t                 dims[FR_MAX_DIMS];
    int                     nd;

    (void)i;
    if (n->op != FR_OP_matmul)
        return NULL;
    for (int k = 0; k < 2; k++)
        if (n->arg[k].src < 0 || g->node[n->arg[k].src].dtype != n->dtype)
            return "has an operand that is no array of its dtype";
    if (fr_dims_product(a->ndim, fr_layout_dims(a), b->ndim, fr_layout_dims(b), &nd, dims, NULL) !=
            FR_OK || nd != n->layout->ndim ||
        memcmp(dims, fr_layout_dims(n->layout), (size_t)nd * sizeof *dims) != 0)
        return "has another shape than its operands' product";
    return NULL;
}

/* The chosen axis of the first operand gives way to the axes of the index. */
static const char *
check_take(const struct fr_graph *g, const struct fr_gnode *n, int i)
{
    const struct fr_layout *a = n->arg[0].layout, *index = n->arg[1].layout;
    const int64_t          *dims = fr_layout_dims(n->layout);
    int                     axis = (int)n->axes, more;

    (void)i;
    if (n->op != FR_OP_take)
        return NULL;
    if (n->arg[0].src < 0 || n->arg[1].src < 0 || g->node[n->arg[0].src].dtype != n->dtype ||
        !fr_dtype_is_int(g->node[n->arg[1].src].dtype) || g->node[n->arg[1].src].dtype == FR_U64)
        return "takes from something of another dtype, or by something else than whole numbers";
    if (axis >= a->ndim || n->layout->ndim != a->ndim + index->ndim - 1 || !index->c_contig)
        return "has another shape than what it takes";
    more = index->ndim - 1;
    for (int k = 0; k < n->layout->ndim; k++)
        if (dims[k] != (k < axis              ? fr_layout_dims(a)[k]
                        : k > axis + more     ? fr_layout_dims(a)[k - more]
                                              : fr_layout_dims(index)[k - axis]))
            return "has another shape than what it takes";
    return NULL;
}

/* Every reader of a version is older than the store that may write over it. */
static fr_status
check_versions(const struct fr_graph *g, struct fr_err *err)
{
    int      *over = fr_malloc(((size_t)g->n_nodes + 1) * sizeof *over);
    fr_status st = FR_OK;

    if (!over)
        return fr_fail(err, FR_ENOMEM, "out of memory: verifying %d nodes", g->n_nodes);
    for (int n = 0; n < g->n_nodes; n++)
        over[n] = INT_MAX;
    for (int n = 0; n < g->n_nodes && st == FR_OK; n++) {
        const struct fr_gnode *node = &g->node[n];

        for (int k = 0; !node->dead && k < node->n_args && st == FR_OK; k++)
            if (node->arg[k].src >= 0 && over[node->arg[k].src] < n)
                st = fr_fail(err, FR_EBUG, "graph: %%%d = %s reads %%%d after %%%d stored over it", n,
                             fr_op_info[node->op].name, node->arg[k].src,
                             over[node->arg[k].src]);
        if (!node->dead && node->op == FR_OP_store && over[node->arg[0].src] == INT_MAX)
            over[node->arg[0].src] = n;
    }
    fr_free(over);
    return st;
}

fr_status
fr_graph_verify(const struct fr_graph *g, struct fr_err *err)
{
    static const char *(*const checks[])(const struct fr_graph *, const struct fr_gnode *, int) = {
        check_order, check_alive, check_arity, check_dense, check_scalars, check_bounds, check_axes,
        check_dtypes, check_product, check_take,
    };

    for (int i = 0; i < g->n_nodes; i++) {
        if (g->node[i].dead)
            continue;
        for (size_t c = 0; c < FR_LEN(checks); c++) {
            const char *why = checks[c](g, &g->node[i], i);

            if (why)
                return fr_fail(err, FR_EBUG, "graph: %%%d = %s %s", i,
                               fr_op_info[g->node[i].op].name, why);
        }
    }
    return check_versions(g, err);
}
