#include "ir/insert.h"

#include <string.h>

#include "ir/build.h"

static fr_status
no_memory(struct fr_err *err)
{
    return fr_fail(err, FR_ENOMEM, "out of memory: new nodes of a graph");
}

/* ---- the graph ---------------------------------------------------------------------------- */

void
fr_insert_begin(struct fr_inserter *z, struct fr_graph *g)
{
    *z = (struct fr_inserter){.g = g, .n_given = g->n_nodes, .before = g->n_nodes, .cap = g->n_nodes};
}

/* `n` items of `size` bytes in the graph's memory, with room for `cap`. NULL: memory is out. */
static void *
with_room(struct fr_graph *g, const void *items, size_t n, size_t cap, size_t size)
{
    void *more = fr_arena_alloc(&g->arena, cap * size);

    if (more && n)
        memcpy(more, items, n * size);
    return more;
}

/* Room for one more node. */
static bool
has_room(struct fr_inserter *z)
{
    struct fr_graph *g = z->g;
    int              n_new = g->n_nodes - z->n_given, cap = 2 * g->n_nodes + 16;
    struct fr_gnode *node;
    int32_t         *place;

    if (g->n_nodes < z->cap)
        return true;
    node = with_room(g, g->node, (size_t)g->n_nodes, (size_t)cap, sizeof *node);
    place = with_room(g, z->place, (size_t)n_new, (size_t)(cap - z->n_given), sizeof *place);
    if (!node || !place)
        return false;
    g->node = node;
    z->place = place;
    z->cap = cap;
    return true;
}

static void
drop_layouts(const struct fr_gnode *n)
{
    for (int k = 0; k < 3; k++)
        fr_layout_unref(n->arg[k].layout);
    fr_layout_unref(n->layout);
}

fr_status
fr_insert_node(struct fr_inserter *z, const struct fr_gnode *n, struct fr_err *err)
{
    struct fr_graph *g = z->g;

    if (!has_room(z)) {
        drop_layouts(n);
        return no_memory(err);
    }
    z->place[g->n_nodes - z->n_given] = z->before;
    g->node[g->n_nodes] = *n;
    g->node[g->n_nodes++].given = -1;
    return FR_OK;
}

void
fr_insert_drop(struct fr_inserter *z, int n)
{
    while (z->g->n_nodes > n)
        drop_layouts(&z->g->node[--z->g->n_nodes]);
}

/* Sorts the nodes by their places; those of one place stay in order, and stand before the given node. */
static bool
put_in_place(struct fr_inserter *z)
{
    struct fr_graph *g = z->g;
    struct fr_arena  scratch = {0};
    size_t           n = (size_t)g->n_nodes;
    struct fr_gnode *node = fr_arena_room(&g->arena, n * sizeof *node);
    int32_t         *number = fr_arena_room(&scratch, n * sizeof *number);
    int32_t         *at = fr_arena_alloc(&scratch, ((size_t)z->n_given + 2) * sizeof *at);

    if (!node || !number || !at)
        goto out;
    for (int i = z->n_given; i < g->n_nodes; i++)
        at[z->place[i - z->n_given] + 1]++;
    for (int i = 0; i < z->n_given; i++)     /* at[i]: where what stands before node i begins */
        at[i + 1] += at[i] + 1;
    for (int i = z->n_given; i < g->n_nodes; i++)
        number[i] = at[z->place[i - z->n_given]]++;
    for (int i = 0; i < z->n_given; i++)     /* and now where that ends */
        number[i] = at[i];
    for (int i = 0; i < g->n_nodes; i++) {
        node[number[i]] = g->node[i];
        for (int k = 0; k < 3; k++) {
            struct fr_edge *e = &node[number[i]].arg[k];

            if (!e->layout || e->src < 0)
                continue;
            e->src = number[e->src];
            FR_ASSERT(e->src < number[i]);
        }
    }
    g->node = node;
out:
    fr_arena_clear(&scratch);
    return g->node == node;
}

fr_status
fr_insert_end(struct fr_inserter *z, struct fr_err *err)
{
    bool done = z->g->n_nodes == z->n_given || put_in_place(z);

    while (z->n_kept > 0)
        fr_layout_unref(z->kept[--z->n_kept]);
    return done ? FR_OK : no_memory(err);
}

/* Keeps a layout, whose reference moves in, for edges. */
static fr_status
keep(struct fr_inserter *z, struct fr_layout *l, struct fr_err *err)
{
    if (z->n_kept == z->cap_kept) {
        size_t             cap = 2 * z->cap_kept + 8;
        struct fr_layout **more = with_room(z->g, z->kept, z->n_kept, cap, sizeof *more);

        if (!more) {
            fr_layout_unref(l);
            return no_memory(err);
        }
        z->kept = more;
        z->cap_kept = cap;
    }
    z->kept[z->n_kept++] = l;
    return FR_OK;
}

/* A new node over these arguments; *out shows all of it. The layout's reference moves in, also on failure. */
static fr_status
add(struct fr_inserter *z, fr_op op, fr_dtype dtype, struct fr_layout *layout, uint32_t axes, const struct fr_edge *args,
    int n_args, struct fr_edge *out, struct fr_err *err)
{
    struct fr_gnode n = {.op = op, .dtype = dtype, .n_args = (uint8_t)n_args, .axes = axes, .site = z->site,
                         .layout = layout};
    fr_status       st;

    for (int k = 0; k < n_args; k++) {
        n.arg[k] = args[k];
        if (args[k].layout)
            fr_layout_ref(args[k].layout);
    }
    if ((st = fr_insert_node(z, &n, err)) == FR_OK)
        *out = fr_insert_whole(z, z->g->n_nodes - 1);
    return st;
}

/* ---- edges -------------------------------------------------------------------------------- */

static fr_dtype
dtype_of(const struct fr_inserter *z, const struct fr_edge *e)
{
    return e->src < 0 ? z->g->scalar_dtype[e->scalar] : z->g->node[e->src].dtype;
}

struct fr_edge
fr_insert_whole(const struct fr_inserter *z, int n)
{
    return (struct fr_edge){.src = n, .layout = z->g->node[n].layout, .moving = -1, .whole = true};
}

/* A scalar with this value. Each value is there once. */
static fr_status
constant(struct fr_graph *g, fr_dtype dtype, const uint64_t bits[2], int32_t *out, struct fr_err *err)
{
    size_t           n = (size_t)g->n_scalars, more = n + 1;
    fr_dtype        *dtypes;
    const uint64_t **values;
    uint64_t        *value;

    for (*out = 0; *out < g->n_scalars; ++*out) {
        const uint64_t *other = fr_graph_constant(g, *out);

        if (other && g->scalar_dtype[*out] == dtype && other[0] == bits[0] && other[1] == bits[1])
            return FR_OK;
    }
    dtypes = with_room(g, g->scalar_dtype, n, more, sizeof *dtypes);
    values = with_room(g, g->scalar_value, g->scalar_value ? n : 0, more, sizeof *values);
    value = with_room(g, bits, 2, 2, sizeof *value);
    if (g->scalar_like) {
        int32_t *like = with_room(g, g->scalar_like, n, more, sizeof *like);
        bool    *must = with_room(g, g->scalar_must, n, more, sizeof *must);

        if (!like || !must)
            return no_memory(err);
        like[n] = (int32_t)n;
        g->scalar_like = like;
        g->scalar_must = must;
    }
    if (!dtypes || !values || !value)
        return no_memory(err);
    dtypes[n] = dtype;
    values[n] = value;
    g->scalar_dtype = dtypes;
    g->scalar_value = values;
    g->n_scalars++;
    return FR_OK;
}

fr_status
fr_insert_number(struct fr_inserter *z, const struct fr_number *v, fr_dtype dtype, struct fr_edge *out,
                 struct fr_err *err)
{
    uint64_t  bits[2];
    int32_t   scalar;
    fr_status st;

    TRY(fr_number_bits(v, dtype, bits, err));
    TRY(constant(z->g, dtype, bits, &scalar, err));
    *out = (struct fr_edge){.src = FR_SRC_SCALAR, .scalar = scalar, .moving = -1};
out:
    return st;
}

fr_status
fr_insert_window(struct fr_inserter *z, const struct fr_edge *of, int ndim, const int64_t *dims,
                 const int64_t *strides, int64_t offset, struct fr_edge *out, struct fr_err *err)
{
    struct fr_layout *l = fr_layout_get(ndim, dims, strides);
    struct fr_edge    e = *of;
    fr_status         st;

    FR_ASSERT(of->src >= 0);
    if (!l)
        return no_memory(err);
    TRY(keep(z, l, err));
    e.layout = l;
    e.offset += offset;
    e.whole = l == z->g->node[e.src].layout && e.offset == 0 && e.moving < 0;
    *out = e;
out:
    return st;
}

fr_status
fr_insert_flip(struct fr_inserter *z, const struct fr_edge *of, int axis, struct fr_edge *out, struct fr_err *err)
{
    const struct fr_layout *l = of->layout;
    int64_t                 strides[FR_MAX_DIMS], n = fr_layout_dims(l)[axis];

    memcpy(strides, fr_layout_strides(l), l->ndim * sizeof *strides);
    strides[axis] = -strides[axis];
    return fr_insert_window(z, of, l->ndim, fr_layout_dims(l), strides, n ? (1 - n) * strides[axis] : 0, out, err);
}

fr_status
fr_insert_broadcast(struct fr_inserter *z, const struct fr_edge *of, int ndim, const int64_t *dims, struct fr_edge *out,
                    struct fr_err *err)
{
    struct fr_layout *l;
    int64_t           strides[FR_MAX_DIMS];
    fr_status         st = FR_OK;

    if (!(l = fr_layout_get(ndim, dims, NULL)))
        return no_memory(err);
    TRY(keep(z, l, err));
    if (of->src < 0)
        return add(z, FR_OP_cast, dtype_of(z, of), fr_layout_ref(l), 0, of, 1, out, err);
    TRY(fr_build_out_layout(of->layout, l, err));
    fr_strides_broadcast(of->layout, ndim, strides);
    return fr_insert_window(z, of, ndim, dims, strides, 0, out, err);
out:
    return st;
}

fr_status
fr_insert_reshape(struct fr_inserter *z, const struct fr_edge *of, int ndim, const int64_t *dims, struct fr_edge *out,
                  struct fr_err *err)
{
    struct fr_edge copy;
    int64_t        strides[FR_MAX_DIMS];
    fr_status      st;

    if (of->src >= 0 && fr_layout_reshape(of->layout, ndim, dims, strides))
        return fr_insert_window(z, of, ndim, dims, strides, 0, out, err);
    TRY(fr_insert_cast(z, of, dtype_of(z, of), 'C', &copy, err));
    return fr_insert_window(z, &copy, ndim, dims, NULL, 0, out, err);
out:
    return st;
}

/* ---- nodes -------------------------------------------------------------------------------- */

/* The operand as an array: a number becomes one without axes. */
static fr_status
as_array(struct fr_inserter *z, const struct fr_edge *e, struct fr_edge *out, struct fr_err *err)
{
    *out = *e;
    return e->src < 0 ? fr_insert_broadcast(z, e, 0, NULL, out, err) : FR_OK;
}

/* The operand in this dtype. */
static fr_status
as_dtype(struct fr_inserter *z, const struct fr_edge *e, fr_dtype dtype, struct fr_edge *out, struct fr_err *err)
{
    *out = *e;
    return dtype_of(z, e) == dtype ? FR_OK : fr_insert_cast(z, e, dtype, 'I', out, err);
}

fr_status
fr_insert_cast(struct fr_inserter *z, const struct fr_edge *e, fr_dtype dtype, char order, struct fr_edge *out,
               struct fr_err *err)
{
    struct fr_layout *l;
    fr_status         st = FR_OK;

    if (e->src >= 0)
        TRY(fr_build_copy(e->layout, order, &l, err));
    else if (!(l = fr_layout_get(0, NULL, NULL)))
        TRY(no_memory(err));
    return add(z, FR_OP_cast, dtype, l, 0, e, 1, out, err);
out:
    return st;
}

fr_status
fr_insert_map(struct fr_inserter *z, fr_op op, const struct fr_edge *args, struct fr_edge *out, struct fr_err *err)
{
    struct fr_op_type types[3] = {{0}};
    struct fr_edge    arg[3];
    struct fr_layout *of[3], *l;
    fr_dtype          compute;
    int               n_args = fr_op_info[op].arity, n = 0;
    fr_status         st;

    for (int k = 0; k < n_args; k++) {
        types[k] = (struct fr_op_type){.dtype = dtype_of(z, &args[k])};
        if (args[k].src >= 0)
            of[n++] = args[k].layout;
    }
    TRY(fr_op_resolve(op, types, &compute, err));
    for (int k = 0; k < n_args; k++)
        TRY(as_dtype(z, &args[k], fr_op_arg(op, k, compute), &arg[k], err));
    if (n)
        TRY(fr_build_map(of, n, fr_op_info[op].name, &l, err));
    else if (!(l = fr_layout_get(0, NULL, NULL)))
        TRY(no_memory(err));
    return add(z, op, fr_op_result(op, compute), l, 0, arg, n_args, out, err);
out:
    return st;
}

fr_status
fr_insert_reduce(struct fr_inserter *z, fr_op op, const struct fr_edge *e, uint32_t axes, bool keepdims, fr_dtype dtype,
                 struct fr_edge *out, struct fr_err *err)
{
    struct fr_edge      of, got;
    struct fr_reduction r;
    int64_t             dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    int                 ndim;
    fr_status           st;

    TRY(as_array(z, e, &of, err));
    ndim = of.layout->ndim;
    TRY(fr_build_reduce(op, dtype_of(z, &of), of.layout, axes, dtype, &r, err));
    TRY(keep(z, r.layout, err));
    if (r.order == FR_SUM_COPY_C) /* which of equals is the first depends on it */
        TRY(fr_insert_cast(z, &of, dtype_of(z, &of), 'C', &of, err));
    TRY(as_dtype(z, &of, r.compute, &of, err));
    TRY(add(z, op, r.result, fr_layout_ref(r.layout), axes, &of, 1, &got, err));
    if (!keepdims) {
        *out = got;
        return FR_OK;
    }
    fr_build_keep_dims(got.layout, ndim, axes, dims, strides);
    return fr_insert_window(z, &got, ndim, dims, strides, 0, out, err);
out:
    return st;
}

fr_status
fr_insert_scan(struct fr_inserter *z, fr_op op, const struct fr_edge *e, int axis, fr_dtype dtype, struct fr_edge *out,
               struct fr_err *err)
{
    struct fr_edge    of;
    struct fr_layout *l;
    fr_status         st;

    TRY(as_array(z, e, &of, err));
    dtype = fr_build_scan(op, dtype_of(z, &of), dtype);
    TRY(as_dtype(z, &of, dtype, &of, err));
    TRY(fr_build_map(&of.layout, 1, "scan", &l, err));
    return add(z, op, dtype, l, (uint32_t)axis, &of, 1, out, err);
out:
    return st;
}

fr_status
fr_insert_product(struct fr_inserter *z, const struct fr_edge *a, const struct fr_edge *b, struct fr_edge *out,
                  struct fr_err *err)
{
    fr_dtype          dtype = fr_dtype_promote(dtype_of(z, a), dtype_of(z, b));
    struct fr_edge    arg[2] = {*a, *b};
    struct fr_layout *l;
    fr_status         st;

    FR_ASSERT(a->src >= 0 && b->src >= 0);
    for (int k = 0; k < 2; k++)
        if (dtype_of(z, &arg[k]) != dtype)
            TRY(fr_insert_cast(z, &arg[k], dtype, 'C', &arg[k], err));
    TRY(fr_build_product(a->layout, b->layout, &l, err));
    return add(z, FR_OP_matmul, dtype, l, 0, arg, 2, out, err);
out:
    return st;
}

fr_status
fr_insert_store(struct fr_inserter *z, const struct fr_edge *window, const struct fr_edge *value, struct fr_edge *out,
                struct fr_err *err)
{
    struct fr_edge arg[3] = {fr_insert_whole(z, window->src), *value, *window};
    fr_dtype       dtype = dtype_of(z, window);
    fr_status      st;

    if (value->src >= 0)
        TRY(fr_build_store(window->layout, value->layout->ndim, fr_layout_dims(value->layout), err));
    TRY(as_dtype(z, value, dtype, &arg[1], err));
    TRY(add(z, FR_OP_store, dtype, fr_layout_ref(arg[0].layout), 0, arg, 3, out, err));
    z->g->node[out->src].n_args = 2;
out:
    return st;
}
