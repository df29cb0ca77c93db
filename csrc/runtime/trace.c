/* Tracing: operations become nodes.  Broadcasting, promotion, layouts; see tensor.h.
 *
 * The way in is fr_trace_map. What nearly every operation of a numerical program is, whole arrays of one
 * dtype and numbers beside them whose result has a layout that was met before, goes through `map_quick`:
 * tables answer what promotion would. Everything else goes through `map_node`. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/storage.h"

/* What becomes of operands of one dtype: of arrays, and of an array beside a weak number. */
struct rule {
    uint32_t head;     /* of the new node; 0: the operands would need a conversion, or there is no such loop */
    uint8_t  weak;     /* bits 1 << weak_bit(kind): with such a number in place of the other, no conversion either */
};
enum { RULE_DTYPES = 16 };           /* a power of two makes the index cheap */
_Static_assert((int)FR_N_DTYPES <= (int)RULE_DTYPES, "");

static struct rule rules[FR_N_OPS][RULE_DTYPES];

/* 'b' 'i' 'f' 'c' to 2 1 6 3. */
static inline int
weak_bit(char kind)
{
    return kind & 7;
}

/* True when operands of dtype d are computed with as they are; weak: the second is such a number, or 0. */
static bool
needs_no_cast(fr_op op, fr_dtype d, char weak)
{
    struct fr_op_type t[2] = {{.dtype = d}, {.dtype = d, .weak = weak}};
    fr_dtype          compute;

    return fr_op_resolve(op, t, &compute, NULL) == FR_OK && compute == d &&
           fr_op_arg(op, 0, d) == d && fr_op_arg(op, 1, d) == d;
}

void
fr_trace_init(void)
{
    for (int op = 0; op < FR_N_OPS; op++)
        for (int d = 0; d < FR_N_DTYPES; d++) {
            const struct fr_op_info *info = &fr_op_info[op];
            struct rule             *r = &rules[op][d];
            fr_dtype                 result;

            if (info->class_ != FR_CLASS_MAP || info->arity > 2 ||
                !needs_no_cast((fr_op)op, (fr_dtype)d, 0))
                continue;
            result = fr_op_result((fr_op)op, (fr_dtype)d);
            r->head = (struct fr_node){.op = (uint16_t)op, .dtype = result, .n_args = info->arity}.head;
            for (const char *w = "bifc"; *w && d != FR_C128; w++) /* whose numbers fill two words */
                if (needs_no_cast((fr_op)op, (fr_dtype)d, *w))
                    r->weak |= (uint8_t)(1 << weak_bit(*w));
        }
}

/* ---- layouts of results ------------------------------------------------------------------- */

enum { CACHE_SIZE = 64 };
static struct {
    const struct fr_layout *a, *b;       /* referenced, so the pointers stay theirs */
    struct fr_layout       *out;
} cache[CACHE_SIZE];

static inline size_t
cache_index(const struct fr_layout *a, const struct fr_layout *b)
{
    return (((uintptr_t)a >> 5) * 31 + ((uintptr_t)b >> 5)) % CACHE_SIZE;
}

/* The broadcast layout of an element-wise result over these operand layouts. */
static fr_status
result_layout(struct fr_layout *const *l, int n, const char *what, struct fr_layout **out,
              struct fr_err *err)
{
    int64_t        dims[FR_MAX_DIMS], strides[3][FR_MAX_DIMS], order[FR_MAX_DIMS], count;
    const int64_t *list[3];
    int            ndim = l[0]->ndim;
    size_t         h = 0;
    fr_status      st;

    if (n == 1 && l[0]->dense) {
        *out = fr_layout_ref(l[0]);
        return FR_OK;
    }
    if (n == 2) {
        h = cache_index(l[0], l[1]);
        if (cache[h].a == l[0] && cache[h].b == l[1]) {
            *out = fr_layout_ref(cache[h].out);
            return FR_OK;
        }
    }
    memcpy(dims, fr_layout_dims(l[0]), (size_t)ndim * sizeof *dims);
    for (int i = 1; i < n; i++) {
        int64_t joined[FR_MAX_DIMS];

        st = fr_dims_broadcast(ndim, dims, l[i]->ndim, fr_layout_dims(l[i]), &ndim, joined, what,
                               err);
        if (st != FR_OK)
            return st;
        memcpy(dims, joined, (size_t)ndim * sizeof *dims);
    }
    if ((st = fr_dims_count(ndim, dims, 16, &count, err)) != FR_OK)
        return st;
    for (int i = 0; i < n; i++) {
        int skip = ndim - l[i]->ndim;

        for (int k = 0; k < ndim; k++)
            strides[i][k] = k < skip || fr_layout_dims(l[i])[k - skip] == 1
                                ? 0
                                : fr_layout_strides(l[i])[k - skip];
        list[i] = strides[i];
    }
    fr_strides_keep_order(ndim, dims, n, list, order);
    if (!(*out = fr_layout_get(ndim, dims, order)))
        return fr_no_memory(err, "a layout");
    /* Of two large arrays of one shape, one may be a temporary: not the same answer each time. */
    if (n == 2 && (l[0]->n_elems != l[1]->n_elems ||
                   l[0]->n_elems < FR_REUSED_BYTES / fr_dtype_size(FR_C128))) {
        fr_layout_unref((struct fr_layout *)cache[h].a);
        fr_layout_unref((struct fr_layout *)cache[h].b);
        fr_layout_unref(cache[h].out);
        cache[h].a = fr_layout_ref(l[0]);
        cache[h].b = fr_layout_ref(l[1]);
        cache[h].out = fr_layout_ref(*out);
    }
    return FR_OK;
}

/* ---- element-wise operations -------------------------------------------------------------- */

/* A new computing node with this layout (whose reference moves in, also on failure). */
static fr_ref
new_node(fr_op op, fr_dtype dtype, struct fr_layout *layout, struct fr_err *err)
{
    fr_ref id = fr_node_new(op, dtype, fr_trace_site);

    if (!id) {
        fr_layout_unref(layout);
        fr_no_memory(err, "a node");
        return FR_NO_NODE;
    }
    fr_nodes[id].layout = layout;
    return id;
}

static fr_ref
scalar_node(const uint64_t bits[2], fr_dtype dtype, struct fr_err *err)
{
    struct fr_layout *l = fr_layout_get(0, NULL, NULL);
    fr_ref            id;

    if (!l) {
        fr_no_memory(err, "a layout");
        return FR_NO_NODE;
    }
    if ((id = new_node(FR_OP_scalar, dtype, l, err))) {
        fr_nodes[id].u.bits = bits[0];
        fr_nodes[id].v.bits_hi = bits[1];
    }
    return id;
}

/* `from` converted to dtype, with `layout` (reference moves in) as the result's. */
static fr_ref
cast_node(fr_ref from, fr_dtype dtype, struct fr_layout *layout, struct fr_err *err)
{
    fr_ref id = new_node(FR_OP_cast, dtype, layout, err);

    if (id) {
        fr_nodes[id].n_args = 1;
        fr_node_set_arg(id, 0, from);
    }
    return id;
}

/* The node of one tensor argument at dtype `want`. */
static fr_status
tensor_arg(const struct fr_tensor *t, fr_dtype want, fr_ref *out, struct fr_err *err)
{
    struct fr_layout *l = t->layout, *const list[1] = {l};
    fr_ref            raw;
    fr_status         st;

    if ((st = fr_tensor_node(t, &raw, err)) != FR_OK)
        return st;
    if (t->dtype == want) {
        *out = raw;
        return FR_OK;
    }
    if ((st = result_layout(list, 1, "cast", &l, err)) == FR_OK &&
        !(*out = cast_node(raw, want, l, err)))
        st = FR_ENOMEM;
    if (st != FR_OK && !t->whole)
        fr_node_drop_new(raw);
    return st;
}

/* True when np.clip takes both bounds for numbers, not for arrays: they have one element. If the result
 * has only one element as well, NumPy's short way does not ask; the iterator comes in when an operand
 * lacks leading axes. */
static bool
bounds_are_numbers(const struct fr_arg *args, const struct fr_layout *result)
{
    bool one = true, scalars = true, short_way = result->n_elems == 1;

    for (int k = 0; k < 3; k++) {
        const struct fr_layout *l = args[k].t ? args[k].t->layout : NULL;

        if (l && l->ndim && l->ndim < result->ndim)
            short_way = false;
        if (k && l) {
            one &= l->n_elems == 1;
            scalars &= l->ndim == 0;
        }
    }
    return short_way ? scalars : one;
}

static fr_status
clip_node(const struct fr_arg *args, fr_dtype compute, struct fr_layout *layout, fr_ref *out,
          struct fr_err *err);

/* `op` over these arguments in dtype `compute`; its layout is `into` unless that is NULL. */
static fr_status
map_node(fr_op op, const struct fr_arg *args, int n_args, fr_dtype compute, struct fr_layout *into,
         fr_ref *out, struct fr_err *err)
{
    struct fr_layout *l[3], *layout = NULL;
    fr_ref            arg[3] = {0, 0, 0}, id = FR_NO_NODE;
    bool              embedded = false;
    uint64_t          bits[2], here = 0;
    fr_dtype          number = FR_BOOL;
    int               n_tensors = 0;
    fr_status         st = FR_OK;

    for (int k = 0; k < n_args; k++)
        if (args[k].t)
            l[n_tensors++] = args[k].t->layout;
    if (into)
        layout = fr_layout_ref(into);
    else if (n_tensors)
        TRY(result_layout(l, n_tensors, fr_op_info[op].name, &layout, err));
    else if (!(layout = fr_layout_get(0, NULL, NULL)))
        TRY(fr_no_memory(err, "a layout"));
    if (FR_UNLIKELY(op == FR_OP_clip) && (compute == FR_F32 || compute == FR_F64) &&
        !bounds_are_numbers(args, layout)) {
        st = clip_node(args, compute, layout, out, err);
        goto out;
    }
    for (int k = 0; k < n_args; k++) {
        fr_dtype want = fr_op_arg(op, k, compute);

        if (args[k].t) {
            TRY(tensor_arg(args[k].t, want, &arg[k], err));
            /* Held while the others are made, so that nothing is lost when one fails. */
            fr_nodes[arg[k]].refs++;
            continue;
        }
        TRY(fr_number_bits(&args[k].n, want, bits, err));
        if (!embedded && n_tensors && want != FR_C128) {
            embedded = true;
            here = bits[0];
            number = want;
            arg[k] = FR_SCALAR_HERE;
        } else {
            if (!(arg[k] = scalar_node(bits, want, err)))
                TRY(FR_ENOMEM);
            fr_nodes[arg[k]].refs++;
        }
    }
    id = new_node(op, fr_op_result(op, compute), fr_layout_ref(layout), err);
    if (!id)
        TRY(FR_ENOMEM);
    for (int k = 0; k < n_args; k++)
        fr_node_set_arg(id, k, arg[k]);
    fr_nodes[id].n_args = (uint8_t)n_args;
    fr_nodes[id].u.bits = here;
    fr_nodes[id].v.number = number;
    *out = id;
out:
    for (int k = 0; k < n_args; k++)
        if (arg[k] && arg[k] != FR_SCALAR_HERE)
            fr_node_unref(arg[k]);
    fr_layout_unref(layout);
    return st;
}

/* Where a bound is an array, np.clip returns the bound when it equals the number, as maximum and minimum
 * do, whereas a bound that is one number loses. The two zeros tell. */
static fr_status
clip_node(const struct fr_arg *args, fr_dtype compute, struct fr_layout *layout, fr_ref *out,
          struct fr_err *err)
{
    struct fr_tensor larger;
    struct fr_arg    rest[2] = {{.t = &larger}, args[2]};
    fr_ref           id;
    fr_status        st;

    if ((st = map_node(FR_OP_maximum, args, 2, compute, NULL, &id, err)) != FR_OK ||
        (st = fr_tensor_wrap(id, &larger, err)) != FR_OK)
        return st;
    st = map_node(FR_OP_minimum, rest, 2, compute, layout, out, err);
    fr_tensor_clear(&larger);
    return st;
}

static fr_status
resolve(fr_op op, const struct fr_arg *args, int n_args, fr_dtype *compute, struct fr_err *err)
{
    struct fr_op_type types[3];

    for (int k = 0; k < n_args; k++)
        types[k] = args[k].t ? (struct fr_op_type){.dtype = args[k].t->dtype}
                             : (struct fr_op_type){args[k].n.dtype, args[k].n.weak};
    return fr_op_resolve(op, types, compute, err);
}

/* Wraps a new node and applies the guards of bounded laziness. */
static fr_status
finish(fr_ref id, struct fr_tensor *out, struct fr_err *err)
{
    struct fr_tensor t = {0};
    fr_status        st = fr_tensor_wrap(id, &t, err);

    if (st != FR_OK)
        return st;
    if ((st = fr_guard(id, NULL, err)) != FR_OK)
        fr_tensor_clear(&t);
    else
        *out = t;
    return st;
}

enum quick { QUICK_ONE, QUICK_TWO, QUICK_NUMBER };

/* A node and its handle from the free lists, as new_node and finish would make them. Whatever is out of
 * the common is left to those: a list is empty, a guard would act. Then nothing has happened. (What the free
 * node and *out hold by then is nobody's.) */
FR_INLINE bool
map_quick(uint32_t head, enum quick how, struct fr_layout *layout, fr_ref a, fr_ref b, uint64_t bits,
          fr_dtype number, struct fr_tensor *out)
{
    struct fr_storage *s = fr_storages_free;
    struct fr_node    *n, *x, *y;
    fr_ref             id = fr_nodes_free;
    int                height;

    if (FR_UNLIKELY(!s))
        return false;
    x = &fr_nodes[a];
    y = &fr_nodes[b];
    height = how != QUICK_ONE && y->height > x->height ? y->height + 1 : x->height + 1;
    if (FR_UNLIKELY(id == FR_NO_NODE))
        return false;
    n = &fr_nodes[id];
    n->arg[0] = a;
    out->layout = layout;
    if (FR_UNLIKELY(!fr_guard_rests(height)))
        return false;
    if (how != QUICK_ONE)
        n->arg[1] = b;
    if (how == QUICK_NUMBER) {
        n->u.bits = bits;
        n->v.number = number;
    }
    x->refs++;
    if (how != QUICK_ONE)
        y->refs++;
    fr_nodes_pending++;
    fr_nodes_free = n->index;
    fr_storages_free = s->next_dirty;
    layout->refs += 2;                  /* of node and handle */
    n->head = head;
    n->refs = 1;
    n->held = 1;
    n->height = (uint16_t)height;
    n->seq = (uint32_t)fr_nodes_made++;
    fr_born[n->seq % FR_MAX_BORN] = id;
    n->site = fr_trace_site;
    n->layout = layout;
    s->refs = 1;
    s->node = id;
    s->layout = layout;
    s->dtype = n->dtype;
    out->storage = s;
    out->offset = 0;
    out->dtype = n->dtype;
    out->whole = true;
    out->readonly = false;
    return true;
}

bool
fr_trace_map_same(unsigned op, const struct fr_tensor *a, const struct fr_tensor *b,
                  struct fr_tensor *out)
{
    const struct rule *r = &rules[op][a->dtype];
    struct fr_layout  *layout = a->layout;

    if (FR_UNLIKELY(a->kind != b->kind))
        return false;
    if (FR_UNLIKELY(!a->whole))
        return false;
    if (FR_UNLIKELY(!r->head))
        return false;
    if (FR_UNLIKELY(layout != b->layout)) {
        size_t h = cache_index(layout, b->layout);

        if (cache[h].a != layout || cache[h].b != b->layout)
            return false;
        layout = cache[h].out;
    }
    return map_quick(r->head, QUICK_TWO, layout, a->storage->node, b->storage->node, 0, 0,
                     out);
}

/* The bits of a weak number beside an array of dtype d, if that cannot fail. */
static inline bool
quick_bits(const struct fr_number *n, fr_dtype d, uint64_t *bits)
{
    double v;
    float  f;

    if (n->huge || (n->weak != 'f' && n->weak != 'i') || (d != FR_F32 && d != FR_F64)) {
        uint64_t both[2];

        if (fr_number_bits(n, d, both, NULL) != FR_OK)
            return false;
        *bits = both[0];
        return true;
    }
    v = n->weak == 'f' ? n->v.f64 : (double)n->v.i64;
    *bits = 0;
    if (d == FR_F64) {
        memcpy(bits, &v, sizeof v);
    } else {
        f = (float)v;
        memcpy(bits, &f, sizeof f);
    }
    return true;
}

static bool
map_one(fr_op op, const struct fr_arg *args, int n_args, struct fr_tensor *out)
{
    const struct fr_tensor *t = args[0].t ? args[0].t : n_args > 1 ? args[1].t : NULL;
    const struct fr_number *n = args[0].t ? &args[1].n : &args[0].n;
    const struct rule      *r;
    uint64_t                bits = 0;
    fr_ref                  node;

    if (!t || !t->whole)
        return false;
    r = &rules[op][t->dtype];
    node = t->storage->node;
    if (!r->head)
        return false;
    if (n_args == 1)
        return map_quick(r->head, QUICK_ONE, t->layout, node, FR_NO_NODE, 0, 0, out);
    if (!n->weak || !(r->weak >> weak_bit(n->weak) & 1) || !quick_bits(n, t->dtype, &bits))
        return false;
    return map_quick(r->head, QUICK_NUMBER, t->layout, args[0].t ? node : FR_SCALAR_HERE,
                     args[0].t ? FR_SCALAR_HERE : node, bits, t->dtype, out);
}

fr_status
fr_trace_map(fr_op op, const struct fr_arg *args, int n_args, struct fr_tensor *out,
             struct fr_err *err)
{
    fr_dtype  compute;
    fr_ref    id;
    fr_status st;

    if (n_args == 2 && args[0].t && args[1].t) {
        if (fr_trace_map_same(op, args[0].t, args[1].t, out))
            return FR_OK;
    } else if (n_args <= 2 && map_one(op, args, n_args, out)) {
        return FR_OK;
    }
    if ((st = resolve(op, args, n_args, &compute, err)) != FR_OK ||
        (st = map_node(op, args, n_args, compute, NULL, &id, err)) != FR_OK)
        return st;
    return finish(id, out, err);
}

fr_status
fr_trace_map_like(fr_op op, const struct fr_arg *args, int n_args, struct fr_layout *layout,
                  struct fr_tensor *out, struct fr_err *err)
{
    fr_dtype  compute;
    fr_ref    id;
    fr_status st;

    if ((st = resolve(op, args, n_args, &compute, err)) != FR_OK ||
        (st = map_node(op, args, n_args, compute, layout, &id, err)) != FR_OK)
        return st;
    return finish(id, out, err);
}

fr_status
fr_trace_map_dtype(fr_op op, const struct fr_arg *args, int n_args, fr_dtype dtype,
                   struct fr_tensor *out, struct fr_err *err)
{
    struct fr_op_type types[3];
    fr_dtype          compute;
    fr_ref            id;
    fr_status         st;

    for (int k = 0; k < n_args; k++)
        types[k] = (struct fr_op_type){.dtype = fr_op_arg(op, k, dtype)};
    if (fr_op_arg(op, 0, dtype) != dtype && fr_op_info[op].rule == FR_RULE_SAME)
        compute = dtype; /* random numbers: their inputs are counters whatever they compute */
    else if ((st = fr_op_resolve(op, types, &compute, err)) != FR_OK)
        return st;
    if (compute != dtype && fr_op_result(op, compute) != dtype)
        return fr_fail(err, FR_EUFUNC, "no loop of '%s' computes in %s", fr_op_info[op].name,
                       fr_dtype_name(dtype));
    for (int k = 0; k < n_args; k++) {
        fr_dtype from = args[k].t ? args[k].t->dtype : args[k].n.dtype;

        if (!args[k].t && args[k].n.weak == 'i' && fr_op_arg(op, k, compute) != FR_BOOL)
            continue; /* it fits, or overflows */
        if (!fr_dtype_same_kind(from, fr_op_arg(op, k, compute)))
            return fr_fail(err, FR_EUFUNC,
                           "Cannot cast ufunc '%s' input %d from %s to %s with casting rule "
                           "'same_kind'",
                           fr_op_info[op].name, k, fr_dtype_name(from), fr_dtype_name(compute));
    }
    if ((st = map_node(op, args, n_args, compute, NULL, &id, err)) != FR_OK)
        return st;
    return finish(id, out, err);
}

fr_status
fr_trace_cast(const struct fr_tensor *t, fr_dtype dtype, char order, struct fr_tensor *out,
              struct fr_err *err)
{
    struct fr_layout *l = t->layout;
    int64_t           strides[FR_MAX_DIMS];
    fr_ref            raw, id;
    fr_status         st;

    if (order == 'C' || l->dense) {
        l = l->c_contig || order != 'C' ? fr_layout_ref(l)
                                        : fr_layout_get(l->ndim, fr_layout_dims(l), NULL);
    } else if (order == 'I') {
        if ((st = result_layout(&l, 1, "cast", &l, err)) != FR_OK)
            return st;
    } else {
        fr_strides_copy_order(l->ndim, fr_layout_dims(l), fr_layout_strides(l), strides);
        l = fr_layout_get(l->ndim, fr_layout_dims(l), strides);
    }
    if (!l)
        return fr_no_memory(err, "a layout");
    if ((st = fr_tensor_node(t, &raw, err)) != FR_OK) {
        fr_layout_unref(l);
        return st;
    }
    fr_nodes[raw].refs++;
    id = cast_node(raw, dtype, l, err);
    fr_node_unref(raw);
    return id ? finish(id, out, err) : FR_ENOMEM;
}

/* ---- reductions --------------------------------------------------------------------------- */

/* Axes of `l` in the order in which NumPy's iterator walks them, innermost first. */
static void
walk_order(const struct fr_layout *l, int *perm)
{
    int64_t        rank[FR_MAX_DIMS];
    const int64_t *list[1] = {fr_layout_strides(l)};

    /* The rank of each axis, as strides of an all-twos array: distinct powers of two. */
    int64_t twos[FR_MAX_DIMS], strides[FR_MAX_DIMS];

    for (int k = 0; k < l->ndim; k++) {
        twos[k] = 2;
        strides[k] = fr_layout_dims(l)[k] == 1 ? 0 : list[0][k];
    }
    list[0] = strides;
    fr_strides_keep_order(l->ndim, twos, 1, list, rank);
    for (int k = 0; k < l->ndim; k++)
        perm[63 - __builtin_clzll((uint64_t)rank[k])] = k;
}

/* The layout of a reduction's result without the axes in the mask. */
static struct fr_layout *
reduced_layout(const struct fr_layout *l, uint32_t axes, bool c_order)
{
    int64_t dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], full[FR_MAX_DIMS], step = 1;
    int     perm[FR_MAX_DIMS], n = 0;

    walk_order(l, perm);
    for (int i = 0; i < l->ndim; i++)
        if (!(axes >> perm[i] & 1)) {
            full[perm[i]] = step;
            step *= fr_layout_dims(l)[perm[i]] ? fr_layout_dims(l)[perm[i]] : 1;
        }
    for (int k = 0; k < l->ndim; k++)
        if (!(axes >> k & 1)) {
            dims[n] = fr_layout_dims(l)[k];
            strides[n++] = full[k];
        }
    /* NumPy gives every array without elements the strides 0, so nothing but C order is left. */
    return fr_layout_get(n, dims, c_order || l->n_elems == 0 ? NULL : strides);
}

enum sum_order { ORDER_OURS, ORDER_COPY, ORDER_NUMPY };

enum { NUMPY_BUFFER = 8192 };     /* elements in NumPy's iterator buffer */

/* Who can add up in NumPy's order: our kernels as it is, our kernels after a copy to dense memory, or only
 * NumPy, whose iterator then cuts rows into buffers (csrc/README.md, "Numerics"). */
static enum sum_order
sum_order(fr_op op, fr_dtype dtype, const struct fr_layout *l, uint32_t axes, bool cast)
{
    const int64_t *dims = fr_layout_dims(l), *strides = fr_layout_strides(l);
    int            perm[FR_MAX_DIMS], p = 0, i = 0;
    int64_t        first = 1, all = 1, size = 1, stride = 0;
    bool           more = false;

    if (l->n_elems == 0)
        return ORDER_OURS;
    walk_order(l, perm);
    for (; i < l->ndim; i++) {
        int ax = perm[i];

        if (dims[ax] == 1)
            continue;
        if (!(axes >> ax & 1))
            break;
        if (p == 0 || strides[ax] != size * stride) {
            p++;
            size = dims[ax];
            stride = strides[ax];
        } else {
            size *= dims[ax];
        }
        if (p == 1)
            first = size;
        all *= dims[ax];
    }
    if (p == 0)
        return ORDER_OURS;
    for (; i < l->ndim; i++)
        more |= dims[perm[i]] != 1 && (axes >> perm[i] & 1);
    /* Rows that are added up one after the other: a product goes on from row to row element by element,
     * and half precision is rounded once per row; the loop form says neither. */
    more |= p > 1 && first > NUMPY_BUFFER / 2;
    if (more && (op == FR_OP_prod || dtype == FR_F16))
        return ORDER_NUMPY;
    if (p == 1 && !cast)
        return ORDER_OURS;
    if (cast)
        return all <= NUMPY_BUFFER ? ORDER_OURS : ORDER_NUMPY;
    if (first > NUMPY_BUFFER / 2)
        return ORDER_OURS;
    return all <= NUMPY_BUFFER ? ORDER_COPY : ORDER_NUMPY;
}

/* True when adding up `n` elements of dtype `from` in float64 never rounds. */
static bool
sum_is_exact(fr_dtype from, fr_dtype to, int64_t n)
{
    if (fr_dtype_is_int(to) || to == FR_BOOL)
        return true;
    return to == FR_F64 && from < FR_F16 && fr_dtype_size(from) <= 4 &&
           n < 1ll << (53 - 8 * fr_dtype_size(from));
}

/* Gives the reduced result back its axes of size 1. */
static fr_status
keep_dims(struct fr_tensor *t, const struct fr_layout *from, uint32_t axes, struct fr_err *err)
{
    int64_t          dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    struct fr_tensor window;
    fr_status        st;
    int              j = 0;

    for (int k = 0; k < from->ndim; k++) {
        bool gone = axes >> k & 1;

        dims[k] = gone ? 1 : fr_layout_dims(t->layout)[j];
        strides[k] = gone ? 0 : fr_layout_strides(t->layout)[j++];
    }
    if ((st = fr_tensor_window(t, from->ndim, dims, strides, 0, &window, err)) == FR_OK) {
        fr_tensor_clear(t);
        *t = window;
    }
    return st;
}

static int64_t
reduced_count(const struct fr_tensor *t, uint32_t axes)
{
    int64_t n = 1;

    for (int k = 0; k < t->layout->ndim; k++)
        if (axes >> k & 1)
            n *= fr_layout_dims(t->layout)[k];
    return n;
}

fr_status
fr_trace_reduce(fr_op op, const struct fr_tensor *t, uint32_t axes, bool keepdims, fr_dtype dtype,
                struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_op_info *info = &fr_op_info[op];
    fr_dtype                 result, compute = t->dtype;
    struct fr_layout        *l;
    struct fr_tensor         got;
    fr_ref                   arg, id;
    fr_status                st;
    char                     copy_order = 0;

    result = fr_op_result(op, t->dtype);
    if (info->rule == FR_RULE_SUM) {
        if (dtype != FR_N_DTYPES)
            result = dtype;
        compute = result; /* the loop form wants its operand in the accumulator's dtype */
    } else if (dtype != FR_N_DTYPES && info->rule == FR_RULE_SAME) {
        compute = result = dtype;
    } else if (info->rule == FR_RULE_TRUTH) {
        compute = FR_BOOL; /* anything but zero, NaN included, is true */
    }
    if (info->rule == FR_RULE_SAME || info->rule == FR_RULE_INDEX) {
        for (int k = 0; k < t->layout->ndim; k++)
            if ((axes >> k & 1) && fr_layout_dims(t->layout)[k] == 0)
                return info->rule == FR_RULE_SAME
                           ? fr_fail(err, FR_EVALUE,
                                     "zero-size array to reduction operation %simum which has no "
                                     "identity",
                                     info->name)
                           : fr_fail(err, FR_EVALUE,
                                     "attempt to get %s of an empty sequence", info->name);
    }
    if (info->rule == FR_RULE_INDEX && __builtin_popcount(axes) > 1 && !t->layout->c_contig)
        copy_order = 'C'; /* NumPy walks a flattened argmax in C order. */
    if (info->rule == FR_RULE_SUM && !sum_is_exact(t->dtype, compute, reduced_count(t, axes))) {
        switch (sum_order(op, compute, t->layout, axes, compute != t->dtype)) {
        case ORDER_OURS: break;
        case ORDER_COPY: copy_order = 'I'; break;
        case ORDER_NUMPY:
            return fr_fail(err, FR_ENOTSUP, "%s in the order of NumPy's buffered iterator",
                           info->name);
        }
    }
    if (copy_order) {
        struct fr_tensor copy;

        if ((st = fr_trace_cast(t, t->dtype, copy_order, &copy, err)) != FR_OK)
            return st;
        st = fr_trace_reduce(op, &copy, axes, keepdims, dtype, out, err);
        fr_tensor_clear(&copy);
        return st;
    }
    if ((st = tensor_arg(t, compute, &arg, err)) != FR_OK)
        return st;
    fr_nodes[arg].refs++;
    l = reduced_layout(t->layout, axes, info->rule == FR_RULE_INDEX);
    id = l ? new_node(op, result, l, err) : FR_NO_NODE;
    if (!id) {
        fr_node_unref(arg);
        return fr_no_memory(err, "a reduction");
    }
    fr_nodes[id].n_args = 1;
    fr_nodes[id].u.axes = axes;
    fr_node_set_arg(id, 0, arg);
    fr_node_unref(arg);
    if ((st = finish(id, &got, err)) != FR_OK)
        return st;
    if (keepdims && (st = keep_dims(&got, t->layout, axes, err)) != FR_OK) {
        fr_tensor_clear(&got);
        return st;
    }
    *out = got;
    return FR_OK;
}

static struct fr_number
weak_float(double v)
{
    return (struct fr_number){.dtype = FR_F64, .weak = 'f', .v.f64 = v};
}

static fr_status
recast(struct fr_tensor *t, fr_dtype dtype, struct fr_err *err)
{
    struct fr_tensor got;
    fr_status        st;

    if (t->dtype == dtype)
        return FR_OK;
    if ((st = fr_trace_cast(t, dtype, 'K', &got, err)) == FR_OK) {
        fr_tensor_clear(t);
        *t = got;
    }
    return st;
}

/* t becomes t / n of dtype `dtype`. NumPy divides by a typed count: in float64 (complex128), rounded
 * afterwards. Up to 2^24 a float32 holds the count, and dividing in float32 rounds to the same. */
static fr_status
divide_by(struct fr_tensor *t, double n, fr_dtype dtype, struct fr_err *err)
{
    fr_dtype         wide = fr_dtype_is_complex(dtype) ? FR_C128 : FR_F64;
    struct fr_arg    args[2] = {{.t = t}, {.n = weak_float(n)}};
    struct fr_tensor q;
    fr_status        st;

    if (!(dtype == FR_F32 && n <= 1 << 24))
        if ((st = recast(t, wide, err)) != FR_OK)
            return st;
    if ((st = fr_trace_map(FR_OP_divide, args, 2, &q, err)) != FR_OK)
        return st;
    fr_tensor_clear(t);
    *t = q;
    return recast(t, dtype, err);
}

fr_status
fr_trace_mean(const struct fr_tensor *t, uint32_t axes, bool keepdims, fr_dtype dtype,
              struct fr_tensor *out, struct fr_err *err)
{
    fr_dtype         sum = dtype, result = dtype;
    struct fr_tensor s = {0};
    fr_status        st;

    /* As numpy.mean: integers in float64, half precision through float32. */
    if (dtype == FR_N_DTYPES) {
        result = t->dtype < FR_F16 ? FR_F64 : t->dtype;
        sum = t->dtype == FR_F16 ? FR_F32 : result;
    }
    TRY(fr_trace_reduce(FR_OP_sum, t, axes, keepdims, sum, &s, err));
    TRY(divide_by(&s, (double)reduced_count(t, axes), sum < FR_F16 ? FR_F64 : sum, err));
    TRY(recast(&s, result, err));
    *out = s;
    s.storage = NULL;
out:
    fr_tensor_clear(&s);
    return st;
}

fr_status
fr_trace_var(const struct fr_tensor *t, uint32_t axes, bool keepdims, fr_dtype dtype, double ddof,
             bool take_sqrt, struct fr_tensor *out, struct fr_err *err)
{
    double           n = (double)reduced_count(t, axes), free_n = n - ddof > 0 ? n - ddof : 0;
    struct fr_tensor mean = {0}, dev = {0}, sq = {0}, var = {0};
    fr_dtype         work = dtype != FR_N_DTYPES ? dtype : t->dtype < FR_F16 ? FR_F64 : t->dtype;
    fr_dtype         real = fr_dtype_info[work].component;
    fr_status        st;

    if (work < FR_F16)
        return fr_fail(err, FR_ENOTSUP, "var with an integer dtype");
    TRY(fr_trace_reduce(FR_OP_sum, t, axes, true, work, &mean, err));
    TRY(divide_by(&mean, n, work, err));
    TRY(fr_trace_map(FR_OP_subtract, (struct fr_arg[]){{.t = t}, {.t = &mean}}, 2, &dev, err));
    if (fr_dtype_is_complex(dev.dtype)) {
        struct fr_tensor re = {0}, im = {0}, re2 = {0}, im2 = {0};

        /* |dev|^2 as NumPy adds it up: real part squared, then the imaginary part's square. */
        st = fr_trace_map(FR_OP_real, (struct fr_arg[]){{.t = &dev}}, 1, &re, err);
        if (st == FR_OK)
            st = fr_trace_map(FR_OP_imag, (struct fr_arg[]){{.t = &dev}}, 1, &im, err);
        if (st == FR_OK)
            st = fr_trace_map(FR_OP_multiply, (struct fr_arg[]){{.t = &re}, {.t = &re}}, 2, &re2, err);
        if (st == FR_OK)
            st = fr_trace_map(FR_OP_multiply, (struct fr_arg[]){{.t = &im}, {.t = &im}}, 2, &im2, err);
        if (st == FR_OK)
            st = fr_trace_map(FR_OP_add, (struct fr_arg[]){{.t = &re2}, {.t = &im2}}, 2, &sq, err);
        fr_tensor_clear(&re);
        fr_tensor_clear(&im);
        fr_tensor_clear(&re2);
        fr_tensor_clear(&im2);
        TRY(st);
    } else {
        TRY(fr_trace_map(FR_OP_multiply, (struct fr_arg[]){{.t = &dev}, {.t = &dev}}, 2, &sq, err));
    }
    TRY(fr_trace_reduce(FR_OP_sum, &sq, axes, keepdims, real, &var, err));
    TRY(divide_by(&var, free_n, real, err));
    if (take_sqrt)
        TRY(fr_trace_map(FR_OP_sqrt, (struct fr_arg[]){{.t = &var}}, 1, out, err));
    else
        fr_tensor_copy(&var, out);
out:
    fr_tensor_clear(&mean);
    fr_tensor_clear(&dev);
    fr_tensor_clear(&sq);
    fr_tensor_clear(&var);
    return st;
}

fr_status
fr_trace_scan(fr_op op, const struct fr_tensor *t, int axis, fr_dtype dtype, struct fr_tensor *out,
              struct fr_err *err)
{
    fr_dtype          result = dtype != FR_N_DTYPES ? dtype : fr_op_result(op, t->dtype);
    struct fr_layout *l, *const list[1] = {t->layout};
    fr_ref            arg, id;
    fr_status         st;

    if ((st = tensor_arg(t, result, &arg, err)) != FR_OK)
        return st;
    fr_nodes[arg].refs++;
    st = result_layout(list, 1, "scan", &l, err);
    id = st == FR_OK ? new_node(op, result, l, err) : FR_NO_NODE;
    if (id) {
        fr_nodes[id].n_args = 1;
        fr_nodes[id].u.axes = (uint32_t)axis;
        fr_node_set_arg(id, 0, arg);
    }
    fr_node_unref(arg);
    return id ? finish(id, out, err) : st != FR_OK ? st : FR_ENOMEM;
}

/* ---- new arrays --------------------------------------------------------------------------- */

/* A node without arguments over a checked shape. */
static fr_status
source(fr_op op, int ndim, const int64_t *dims, const int64_t *strides, fr_dtype dtype, fr_ref *out,
       struct fr_err *err)
{
    struct fr_layout *l;
    int64_t           n;
    fr_status         st = fr_dims_count(ndim, dims, fr_dtype_size(dtype), &n, err);

    if (st != FR_OK)
        return st;
    if (!(l = fr_layout_get(ndim, dims, strides)))
        return fr_no_memory(err, "a layout");
    return (*out = new_node(op, dtype, l, err)) ? FR_OK : FR_ENOMEM;
}

fr_status
fr_trace_fill(int ndim, const int64_t *dims, fr_dtype dtype, const struct fr_number *v,
              struct fr_tensor *out, struct fr_err *err)
{
    uint64_t  bits[2];
    fr_ref    id = FR_NO_NODE, number;
    fr_status st;

    if ((st = fr_number_bits(v, dtype, bits, err)) != FR_OK)
        return st;
    if ((st = source(FR_OP_cast, ndim, dims, NULL, dtype, &id, err)) != FR_OK)
        return st;
    if (dtype == FR_C128) {
        if (!(number = scalar_node(bits, dtype, err))) {
            fr_node_drop_new(id);
            return FR_ENOMEM;
        }
    } else {
        number = FR_SCALAR_HERE;
        fr_nodes[id].u.bits = bits[0];
        fr_nodes[id].v.number = dtype;
    }
    fr_nodes[id].n_args = 1;
    fr_node_set_arg(id, 0, number);
    return finish(id, out, err);
}

fr_status
fr_trace_iota(int ndim, const int64_t *dims, int axis, fr_dtype dtype, struct fr_tensor *out,
              struct fr_err *err)
{
    struct fr_tensor t;
    fr_ref           id;
    fr_status        st;

    if ((st = source(FR_OP_iota, ndim, dims, NULL, FR_I64, &id, err)) != FR_OK)
        return st;
    fr_nodes[id].u.axes = (uint32_t)axis;
    if ((st = finish(id, &t, err)) != FR_OK)
        return st;
    if (dtype == FR_I64) {
        *out = t;
        return FR_OK;
    }
    st = fr_trace_cast(&t, dtype, 'K', out, err);
    fr_tensor_clear(&t);
    return st;
}

fr_status
fr_trace_empty(int ndim, const int64_t *dims, const int64_t *strides, fr_dtype dtype,
               struct fr_tensor *out, struct fr_err *err)
{
    fr_ref    id = FR_NO_NODE;
    fr_status st = source(FR_OP_empty, ndim, dims, strides, dtype, &id, err);

    return st == FR_OK ? finish(id, out, err) : st;
}

/* ---- stores ------------------------------------------------------------------------------- */

static fr_status
check_target(const struct fr_tensor *dst, int ndim, const int64_t *dims, struct fr_err *err)
{
    const int64_t *d = fr_layout_dims(dst->layout);
    char           from[200], to[200];
    int            extra = ndim - dst->layout->ndim;

    if (dst->readonly)
        return fr_fail(err, FR_EVALUE, "assignment destination is read-only");
    for (int k = 0; k < ndim; k++)
        if (k < extra ? dims[k] != 1 : dims[k] != 1 && dims[k] != d[k - extra])
            return fr_fail(err, FR_EVALUE, "could not broadcast input array from shape %s into shape %s",
                           fr_dims_print(ndim, dims, from, sizeof from),
                           fr_dims_print(dst->layout->ndim, d, to, sizeof to));
    return FR_OK;
}

/* Makes `value` (of dst's dtype, dims that broadcast to dst's) the window's new content. */
static fr_status
store_node(const struct fr_tensor *dst, fr_ref value, struct fr_err *err)
{
    struct fr_storage *s = dst->storage;
    struct fr_tensor   as_view = *dst;
    fr_ref             view, id;
    fr_status          st;

    as_view.whole = false;
    fr_nodes[value].refs++;
    if ((st = fr_tensor_node(&as_view, &view, err)) != FR_OK) {
        fr_node_unref(value);
        return st;
    }
    fr_nodes[view].refs++;
    id = new_node(FR_OP_store, s->dtype, fr_layout_ref(s->layout), err);
    if (id) {
        fr_nodes[id].n_args = 3;
        fr_node_set_arg(id, 0, s->node);
        fr_node_set_arg(id, 1, value);
        fr_node_set_arg(id, 2, view);
        fr_storage_advance(s, id);
    }
    fr_node_unref(value);
    fr_node_unref(view);
    if (!id)
        return FR_ENOMEM;
    st = fr_guard(id, s, err);
    if (st != FR_OK && s->node == id && fr_nodes[id].op == FR_OP_store)
        fr_storage_advance(s, fr_nodes[id].arg[0]); /* an assignment that fails has not happened */
    fr_release_foreign();
    return st;
}

/* Makes `id`, a new node of the storage's layout, its next version. */
static fr_status
replace_version(struct fr_storage *s, fr_ref id, struct fr_err *err)
{
    fr_status st;

    fr_nodes[id].refs++;
    if ((st = fr_guard(id, NULL, err)) == FR_OK)
        fr_storage_advance(s, id);
    fr_node_unref(id);
    fr_release_foreign();
    return st;
}

/* True when a value of the window's shape simply becomes the storage's next version. */
static bool
replaces(const struct fr_tensor *dst)
{
    return dst->whole && !fr_storage_pinned(dst->storage);
}

/* x[1:] = x[:-1]: the value is other elements of the very memory that is written. */
static bool
overlaps_itself(const struct fr_tensor *dst, const struct fr_tensor *value)
{
    if (value->storage != dst->storage ||
        (value->layout == dst->layout && value->offset == dst->offset))
        return false;
    return fr_overlap(value->layout, value->offset, dst->layout, dst->offset);
}

fr_status
fr_trace_store(const struct fr_tensor *dst, const struct fr_arg *value, struct fr_err *err)
{
    struct fr_layout *l = value->t ? value->t->layout : NULL;
    fr_ref            id;
    fr_status         st;

    if ((st = check_target(dst, l ? l->ndim : 0, l ? fr_layout_dims(l) : NULL, err)) != FR_OK)
        return st;
    if (dst->layout->n_elems == 0)
        return FR_OK;
    if (value->t && !replaces(dst) && overlaps_itself(dst, value->t)) {
        struct fr_tensor copy;

        if ((st = fr_trace_cast(value->t, dst->dtype, 'K', &copy, err)) != FR_OK)
            return st;
        st = fr_trace_store(dst, &(struct fr_arg){.t = &copy}, err);
        fr_tensor_clear(&copy);
        return st;
    }
    if (!value->t) {
        uint64_t bits[2];

        if ((st = fr_number_bits(&value->n, dst->dtype, bits, err)) != FR_OK)
            return st;
        if (!(id = scalar_node(bits, dst->dtype, err)))
            return FR_ENOMEM;
    } else if ((st = tensor_arg(value->t, dst->dtype, &id, err)) != FR_OK) {
        return st;
    }
    if (replaces(dst)) {
        fr_ref copy;

        fr_nodes[id].refs++;
        copy = cast_node(id, dst->dtype, fr_layout_ref(dst->layout), err);
        fr_node_unref(id);
        return copy ? replace_version(dst->storage, copy, err) : FR_ENOMEM;
    }
    return store_node(dst, id, err);
}

fr_status
fr_trace_map_into(fr_op op, const struct fr_arg *args, int n_args, const struct fr_tensor *dst,
                  struct fr_err *err)
{
    struct fr_layout *l[3], *layout = NULL;
    fr_dtype          compute, result;
    fr_ref            id;
    int               n = 0;
    fr_status         st;

    if (dst->readonly)
        return fr_fail(err, FR_EVALUE, "output array is read-only");
    if ((st = resolve(op, args, n_args, &compute, err)) != FR_OK)
        return st;
    result = fr_op_result(op, compute);
    if (!fr_dtype_same_kind(result, dst->dtype))
        return fr_fail(err, FR_EUFUNC,
                       "Cannot cast ufunc '%s' output from %s to %s with casting rule 'same_kind'",
                       fr_op_info[op].name, fr_dtype_name(result), fr_dtype_name(dst->dtype));
    for (int k = 0; k < n_args; k++)
        if (args[k].t)
            l[n++] = args[k].t->layout;
    if (n && (st = result_layout(l, n, fr_op_info[op].name, &layout, err)) != FR_OK)
        return st;
    st = FR_OK;
    if (layout) {
        /* Unlike an assignment, out= never drops leading axes, and must have the full shape. */
        bool fits = layout->ndim <= dst->layout->ndim;
        int  extra = dst->layout->ndim - layout->ndim;

        for (int k = 0; fits && k < layout->ndim; k++)
            fits = fr_layout_dims(layout)[k] == fr_layout_dims(dst->layout)[k + extra] ||
                   fr_layout_dims(layout)[k] == 1;
        if (!fits) {
            char from[200], to[200];

            st = fr_fail(err, FR_EVALUE,
                         "non-broadcastable output operand with shape %s doesn't match the "
                         "broadcast shape %s",
                         fr_dims_print(dst->layout->ndim, fr_layout_dims(dst->layout), to, sizeof to),
                         fr_dims_print(layout->ndim, fr_layout_dims(layout), from, sizeof from));
        }
    }
    if (st == FR_OK && dst->layout->n_elems != 0) {
        bool same = layout && layout->ndim == dst->layout->ndim &&
                    !memcmp(fr_layout_dims(layout), fr_layout_dims(dst->layout),
                            (size_t)layout->ndim * sizeof(int64_t));

        if (replaces(dst) && same && result == dst->dtype) {
            st = map_node(op, args, n_args, compute, dst->layout, &id, err);
            if (st == FR_OK)
                st = replace_version(dst->storage, id, err);
        } else if ((st = map_node(op, args, n_args, compute, NULL, &id, err)) == FR_OK) {
            struct fr_tensor value;

            if ((st = fr_tensor_wrap(id, &value, err)) == FR_OK) {
                st = fr_trace_store(dst, &(struct fr_arg){.t = &value}, err);
                fr_tensor_clear(&value);
            }
        }
    }
    fr_layout_unref(layout);
    return st;
}
