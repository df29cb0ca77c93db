/* Tracing: operations become nodes, of dtypes and layouts that ir/build.h says; see tensor.h. Here are the element-wise
 * operations; trace_reduce.c, trace_store.c and call.c have the others.
 *
 * The way in is fr_trace_map. What nearly every operation of a numerical program is, whole arrays of one
 * dtype and numbers beside them whose result has a layout that was met before, goes through `map_quick`:
 * tables answer what promotion would. Everything else goes through `fr_trace_map_node`. */
#include <math.h>
#include <string.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "base/fpe.h"
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
            r->head = (struct fr_node){.op = (uint8_t)op, .dtype = result, .n_args = info->arity}.head;
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

/* Whether the layout of an element-wise result over n operands is `out`, which was found in a shorter way. Strides along one
 * index do not matter. */
static FR_DEBUG_ONLY bool
is_broadcast(struct fr_layout *const *l, int n, const struct fr_layout *out)
{
    struct fr_layout *want;
    fr_status         st = fr_build_map(l, n, "", &want, NULL);
    bool              is;

    if (st != FR_OK)
        return st == FR_ENOMEM; /* then nobody knows */
    is = want->ndim == out->ndim;
    for (int k = 0; is && k < want->ndim; k++)
        is = fr_layout_dims(out)[k] == fr_layout_dims(want)[k] &&
             (fr_layout_dims(want)[k] == 1 || fr_layout_strides(out)[k] == fr_layout_strides(want)[k]);
    fr_layout_unref(want);
    return is;
}

fr_status
fr_trace_layout(struct fr_layout *const *l, int n, const char *what, struct fr_layout **out,
                struct fr_err *err)
{
    size_t    h = 0;
    fr_status st;

    if (n == 1 && l[0]->dense && l[0]->n_elems) {
        FR_ASSERT(is_broadcast(l, n, l[0]));
        *out = fr_layout_ref(l[0]);
        return FR_OK;
    }
    if (n == 2) {
        h = cache_index(l[0], l[1]);
        if (cache[h].a == l[0] && cache[h].b == l[1]) {
            FR_ASSERT(is_broadcast(l, n, cache[h].out));
            *out = fr_layout_ref(cache[h].out);
            return FR_OK;
        }
    }
    if ((st = fr_build_map(l, n, what, out, err)) != FR_OK)
        return st;
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

/* ---- devices ------------------------------------------------------------------------------ */

static FR_COLD fr_status
different_devices(const char *what, const struct fr_tensor *const *t, int n, fr_device a, fr_device b,
                  struct fr_err *err)
{
    for (int k = 0; k < n; k++)
        if (t[k] && fr_storage_device(t[k]->storage) == FR_DEVICE_AUTO)
            return FR_OK; /* which can be computed anywhere */
    return fr_fail(err, FR_EVALUE, "%s of tensors on different devices, %s and %s: bring them together with to_device", what,
                   fr_device_name(a), fr_device_name(b));
}

fr_status
fr_trace_together(const char *what, const struct fr_tensor *const *t, int n, struct fr_err *err)
{
    fr_device device = FR_DEVICE_ANY, other;

    for (int k = 0; k < n; k++) {
        if (!t[k] || (other = fr_storage_device(t[k]->storage)) == FR_DEVICE_ANY)
            continue;
        if (FR_UNLIKELY(device != FR_DEVICE_ANY && device != other))
            return different_devices(what, t, n, device, other, err);
        device = other;
    }
    return FR_OK;
}

static FR_COLD fr_status
args_together(fr_op op, const struct fr_arg *args, int n_args, struct fr_err *err)
{
    const struct fr_tensor *t[3] = {NULL, NULL, NULL};

    for (int k = 0; k < n_args; k++)
        t[k] = args[k].t;
    return fr_trace_together(fr_op_info[op].name, t, n_args, err);
}

/* ---- element-wise operations -------------------------------------------------------------- */

fr_ref
fr_trace_node(fr_op op, fr_dtype dtype, struct fr_layout *layout, struct fr_err *err)
{
    fr_ref id = fr_node_new(op, dtype, fr_trace_site);

    if (!id) {
        fr_layout_unref(layout);
        fr_no_memory(err, "a node");
        return FR_NO_NODE;
    }
    fr_nodes[id].layout = layout;
    fr_elems_made += (uint64_t)layout->n_elems;
    fr_arrays_made += layout->ndim > 0;
    return id;
}

fr_ref
fr_trace_scalar(const uint64_t bits[2], fr_dtype dtype, struct fr_err *err)
{
    struct fr_layout *l = fr_layout_get(0, NULL, NULL);
    fr_ref            id;

    if (!l) {
        fr_no_memory(err, "a layout");
        return FR_NO_NODE;
    }
    if ((id = fr_trace_node(FR_OP_scalar, dtype, l, err))) {
        fr_nodes[id].u.bits = bits[0];
        fr_nodes[id].v.bits_hi = bits[1];
    }
    return id;
}

/* False: that complex numbers lose their imaginary part is an error. */
static FR_COLD bool
may_discard(fr_dtype to, struct fr_err *err)
{
    if (fr_dtype_is_complex(to) || to == FR_BOOL || !fr_hooks.discards || fr_hooks.discards() == FR_OK)
        return true;
    fr_fail(err, FR_ERAISED, "a warning is an error");
    return false;
}

fr_ref
fr_trace_convert(fr_ref from, fr_dtype dtype, struct fr_layout *layout, struct fr_err *err)
{
    const fr_dtype was = fr_nodes[from].dtype;
    fr_ref         id;

    if (was != dtype && FR_UNLIKELY(fr_dtype_is_complex(was)) && !may_discard(dtype, err)) {
        fr_layout_unref(layout);
        return FR_NO_NODE;
    }
    id = fr_trace_node(FR_OP_cast, dtype, layout, err);
    if (id) {
        fr_nodes[id].n_args = 1;
        fr_nodes[id].u.axes = 0;
        fr_node_set_arg(id, 0, from);
    }
    return id;
}

fr_status
fr_trace_arg(const struct fr_tensor *t, fr_dtype want, fr_op part_of, fr_ref *out, struct fr_err *err)
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
    if ((st = fr_trace_layout(list, 1, "cast", &l, err)) == FR_OK) {
        if ((*out = fr_trace_convert(raw, want, l, err)))
            fr_nodes[*out].u.axes = part_of == FR_OP_cast ? 0 : part_of + 1;
        else
            st = FR_ENOMEM;
    }
    if (st != FR_OK && !t->whole)
        fr_node_drop_new(raw);
    return st;
}

/* True when np.clip takes both bounds for numbers, not for arrays: they have one element. If the result
 * has only one element as well, NumPy's short way does not ask; the iterator comes in when an operand
 * lacks leading axes, or has several and must be cast. */
static bool
bounds_are_numbers(const struct fr_arg *args, fr_dtype compute, const struct fr_layout *result)
{
    bool one = true, scalars = true, short_way = result->n_elems == 1;

    for (int k = 0; k < 3; k++) {
        const struct fr_layout *l = args[k].t ? args[k].t->layout : NULL;

        if (l && ((l->ndim && l->ndim < result->ndim) || (l->ndim > 1 && args[k].t->dtype != compute)))
            short_way = false;
        if (k && l) {
            one &= l->n_elems == 1;
            scalars &= l->ndim == 0;
        }
    }
    return short_way ? scalars : one;
}

static bool
is_u64(const struct fr_arg *arg)
{
    return arg->t ? arg->t->dtype == FR_U64 : arg->n.dtype == FR_U64 && !arg->n.weak;
}

static bool
is_signed(const struct fr_arg *arg)
{
    return arg->t ? fr_dtype_kind(arg->t->dtype) == 'i' : fr_dtype_kind(arg->n.dtype) == 'i' && !arg->n.weak;
}

/* Whether one is u64 and the other a signed integer. */
static bool
differ_in_sign(const struct fr_arg *args)
{
    return (args[0].t || args[1].t) &&
           ((is_u64(&args[0]) && is_signed(&args[1])) || (is_signed(&args[0]) && is_u64(&args[1])));
}

/* `op` of two tensors. */
static fr_status
node_of_two(fr_op op, const struct fr_tensor *a, const struct fr_tensor *b, fr_dtype compute, struct fr_layout *layout,
            fr_ref *out, struct fr_err *err)
{
    return fr_trace_map_node(op, (struct fr_arg[]){{.t = a}, {.t = b}}, 2, compute, layout, out, err);
}

/* u64 beside signed integers, whose common dtype f64 does not hold them all: compared as u64, unless the signed one
 * is negative. */
static fr_status
compare_signs(fr_op op, const struct fr_arg *args, struct fr_layout *layout, fr_ref *out, struct fr_err *err)
{
    int               s = is_signed(&args[0]) ? 0 : 1;
    bool              below = s == 0 ? op == FR_OP_less || op == FR_OP_less_equal
                                     : op == FR_OP_greater || op == FR_OP_greater_equal;
    bool              if_negative = below || op == FR_OP_not_equal;
    struct fr_arg     beside_0[] = {args[s], {.n = {.dtype = FR_I64, .weak = 'i'}}}, as_u64[] = {args[0], args[1]};
    struct fr_tensor  sign = {0}, size = {0};
    fr_ref            id;
    fr_status         st;

    if (!args[s].t && args[s].n.v.i64 < 0)
        return node_of_two(if_negative ? FR_OP_equal : FR_OP_not_equal, args[1 - s].t, args[1 - s].t, FR_U64, layout, out,
                           err);
    as_u64[s].n.dtype = FR_U64;
    if (!args[s].t)
        return fr_trace_map_node(op, as_u64, 2, FR_U64, layout, out, err);
    TRY(fr_trace_map_node(if_negative ? FR_OP_less : FR_OP_greater_equal, beside_0, 2, args[s].t->dtype, NULL, &id, err));
    TRY(fr_tensor_wrap(id, &sign, err));
    TRY(fr_trace_map_node(op, as_u64, 2, FR_U64, NULL, &id, err));
    TRY(fr_tensor_wrap(id, &size, err));
    st = node_of_two(if_negative ? FR_OP_logical_or : FR_OP_logical_and, &sign, &size, FR_BOOL, layout, out, err);
out:
    fr_tensor_clear(&sign);
    fr_tensor_clear(&size);
    return st;
}

static fr_status
clip_node(const struct fr_arg *args, fr_dtype compute, struct fr_layout *layout, fr_ref *out,
          struct fr_err *err);

fr_status
fr_trace_map_node(fr_op op, const struct fr_arg *args, int n_args, fr_dtype compute,
                  struct fr_layout *into, fr_ref *out, struct fr_err *err)
{
    struct fr_layout *l[3], *layout = NULL;
    fr_ref            arg[3] = {0, 0, 0}, id = FR_NO_NODE;
    bool              embedded = false;
    uint64_t          bits[2], here = 0;
    fr_dtype          number = FR_BOOL;
    int               n_tensors = 0;
    fr_device         device = FR_DEVICE_ANY;
    fr_status         st = FR_OK;

    for (int k = 0; k < n_args; k++)
        if (args[k].t) {
            fr_device other = fr_storage_device(args[k].t->storage);

            l[n_tensors++] = args[k].t->layout;
            if (FR_UNLIKELY(device && other && device != other))
                TRY(args_together(op, args, n_args, err));
            device |= other;
        }
    if (into)
        layout = fr_layout_ref(into);
    else if (n_tensors)
        TRY(fr_trace_layout(l, n_tensors, fr_op_info[op].name, &layout, err));
    else if (!(layout = fr_layout_get(0, NULL, NULL)))
        TRY(fr_no_memory(err, "a layout"));
    if (FR_UNLIKELY(op == FR_OP_clip) && (compute == FR_F32 || compute == FR_F64) &&
        !bounds_are_numbers(args, compute, layout)) {
        st = clip_node(args, compute, layout, out, err);
        goto out;
    }
    if (FR_UNLIKELY(compute == FR_F64) && (fr_op_info[op].flags & FR_OPF_COMPARES) && differ_in_sign(args)) {
        st = compare_signs(op, args, layout, out, err);
        goto out;
    }
    for (int k = 0; k < n_args; k++) {
        fr_dtype want = fr_op_arg(op, k, compute);

        if (args[k].t) {
            /* What is no larger than its buffer NumPy converts first. */
            TRY(fr_trace_arg(args[k].t, want, args[k].t->layout->n_elems > FR_NUMPY_BUFFER ? op : FR_OP_cast, &arg[k], err));
            /* Held while the others are made, so that nothing is lost when one fails. */
            fr_nodes[arg[k]].refs++;
            continue;
        }
        TRY(fr_number_bits(&args[k].n, want, bits, err));
        if (FR_UNLIKELY(fr_number_overflows(&args[k].n, want, bits)) && fr_hooks.overflows && fr_hooks.overflows() != FR_OK)
            TRY(fr_fail(err, FR_ERAISED, "a warning is an error"));
        if (!embedded && n_tensors && want != FR_C128) {
            embedded = true;
            here = bits[0];
            number = want;
            arg[k] = FR_SCALAR_HERE;
        } else {
            if (!(arg[k] = fr_trace_scalar(bits, want, err)))
                TRY(FR_ENOMEM);
            fr_nodes[arg[k]].refs++;
        }
    }
    id = fr_trace_node(op, fr_op_result(op, compute), fr_layout_ref(layout), err);
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

    if ((st = fr_trace_map_node(FR_OP_maximum, args, 2, compute, NULL, &id, err)) != FR_OK ||
        (st = fr_tensor_wrap(id, &larger, err)) != FR_OK)
        return st;
    st = fr_trace_map_node(FR_OP_minimum, rest, 2, compute, layout, out, err);
    fr_tensor_clear(&larger);
    return st;
}

fr_status
fr_trace_resolve(fr_op op, const struct fr_arg *args, int n_args, fr_dtype *compute,
                 struct fr_err *err)
{
    struct fr_op_type types[3];

    for (int k = 0; k < n_args; k++)
        types[k] = args[k].t ? (struct fr_op_type){.dtype = args[k].t->dtype}
                             : (struct fr_op_type){args[k].n.dtype, args[k].n.weak};
    return fr_op_resolve(op, types, compute, err);
}

fr_status
fr_trace_finish(fr_ref id, struct fr_tensor *out, struct fr_err *err)
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

/* A node and its handle from the free lists, as fr_trace_node and fr_trace_finish would make them. Whatever
 * is out of the common is left to those: a list is empty, a guard would act. Then nothing has happened.
 * (What the free node and *out hold by then is nobody's.) This calls no function, so that no registers are saved. */
FR_INLINE bool
map_quick(uint32_t head, enum quick how, struct fr_layout *layout, fr_ref a, fr_ref b, uint64_t bits,
          fr_dtype number, struct fr_tensor *out)
{
    fr_ref             id = fr_nodes_free;
    struct fr_node    *n = &fr_nodes[id], *x = &fr_nodes[a], *y = &fr_nodes[b];
    struct fr_storage *s;
    uint32_t           device = x->head & FR_DEVICES_HEAD, other = y->head & FR_DEVICES_HEAD;
    int                height;

    if (FR_UNLIKELY(id == FR_NO_NODE))
        return false;
    if (how != QUICK_ONE && FR_UNLIKELY(device != other)) { /* (a number is anywhere) */
        if (device && other)
            return false;
        device |= other;
    }
    if (FR_UNLIKELY(!device)) {
        if (fr_devices_chosen)
            return false;
        device = FR_DEVICE_HEAD(fr_device_usual);
    }
    FR_ASSERT(n->op == FR_N_OPS);
    n->arg[0] = a;
    if (how == QUICK_NUMBER) {
        n->u.bits = bits;
        n->v.number = number;
    }
    out->layout = layout;
    s = fr_storages_free;
    if (FR_UNLIKELY(!s))
        return false;
    if (how != QUICK_ONE)
        n->arg[1] = b;
    height = how != QUICK_ONE && y->height > x->height ? y->height + 1 : x->height + 1;
    n->height = (uint16_t)height;
    if (FR_UNLIKELY(!fr_guard_rests(height)) && !fr_guard_lets(height, x, how == QUICK_ONE ? x : y))
        return false;
    x->refs++;
    if (how != QUICK_ONE)
        y->refs++;
    fr_nodes_pending++;
    fr_nodes_free = n->index;
    fr_storages_free = s->next_dirty;
    layout->refs += 2;                  /* of node and handle */
    fr_elems_made += (uint64_t)layout->n_elems;
    fr_arrays_made += layout->ndim > 0;
    n->head = head | device;
    n->refs = 1;
    n->held = 1;
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

/* Whether that is what fr_trace_map_node and fr_trace_finish would have made. */
static FR_DEBUG_ONLY bool
is_as_traced(fr_op op, const struct fr_arg *args, int n_args, const struct fr_tensor *out)
{
    const struct fr_node *n = &fr_nodes[out->storage->node];
    struct fr_layout     *l[2];
    uint64_t              bits[2];
    fr_dtype              compute;
    fr_device             device = FR_DEVICE_ANY;
    int                   n_tensors = 0, height = 0;

    for (int k = 0; k < n_args; k++)
        device |= args[k].t ? fr_nodes[n->arg[k]].device : FR_DEVICE_ANY;
    if (n->device != (device ? device : fr_device_now()) || fr_trace_resolve(op, args, n_args, &compute, NULL) != FR_OK || n->op != op || n->n_args != n_args ||
        n->dtype != fr_op_result(op, compute))
        return false;
    for (int k = 0; k < n_args; k++) {
        const struct fr_tensor *t = args[k].t;
        fr_dtype                want = fr_op_arg(op, k, compute);

        if (t) {
            if (n->arg[k] != t->storage->node || t->dtype != want || t->layout != t->storage->layout)
                return false;
            l[n_tensors++] = t->layout;
            height = fr_nodes[n->arg[k]].height > height ? fr_nodes[n->arg[k]].height : height;
        } else if (n->arg[k] != FR_SCALAR_HERE || n->v.number != want ||
                   fr_number_bits(&args[k].n, want, bits, NULL) != FR_OK || n->u.bits != bits[0] ||
                   (fr_number_overflows(&args[k].n, want, bits) && FR_SITE_WARNS(n->site) & FR_FPE_OVER)) {
            return false; /* or what has to be said of it would not be */
        }
    }
    return n->height == height + 1 && n->layout == out->layout && is_broadcast(l, n_tensors, out->layout);
}

/* The number that is `v`, a Python int or float. */
static FR_DEBUG_ONLY struct fr_number
weak_number(double v, char weak)
{
    return weak == 'i' ? (struct fr_number){.dtype = FR_I64, .weak = 'i', .v.i64 = (int64_t)v}
                       : (struct fr_number){.dtype = FR_F64, .weak = weak, .v.f64 = v};
}

bool
fr_trace_map_same(size_t op, const struct fr_tensor *a, const struct fr_tensor *b,
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
    if (!map_quick(r->head, QUICK_TWO, layout, a->storage->node, b->storage->node, 0, 0, out))
        return false;
    FR_ASSERT(is_as_traced((fr_op)op, (struct fr_arg[]){{.t = a}, {.t = b}}, 2, out));
    return true;
}

bool
fr_trace_map_number(size_t op, const struct fr_tensor *t, double v, char weak, bool first, struct fr_tensor *out)
{
    const struct rule *r = &rules[op][t->dtype];
    fr_ref             node = t->storage->node;
    uint64_t           bits = 0;
    float              f = (float)v;

    if (FR_UNLIKELY(!t->whole) || FR_UNLIKELY(!(r->weak >> weak_bit(weak) & 1)))
        return false;
    if (t->dtype == FR_F64)
        memcpy(&bits, &v, sizeof v);
    else if (FR_LIKELY(t->dtype == FR_F32 && (!isinf(f) || isinf(v)))) /* else NumPy's cast of it warns */
        memcpy(&bits, &f, sizeof f);
    else
        return false;
    if (!map_quick(r->head, QUICK_NUMBER, t->layout, first ? FR_SCALAR_HERE : node, first ? node : FR_SCALAR_HERE, bits,
                   t->dtype, out))
        return false;
    FR_ASSERT(is_as_traced((fr_op)op, first ? (struct fr_arg[]){{.n = weak_number(v, weak)}, {.t = t}}
                                            : (struct fr_arg[]){{.t = t}, {.n = weak_number(v, weak)}}, 2, out));
    return true;
}

void
fr_trace_add_to_site(const struct fr_tensor *t, uint32_t bits)
{
    fr_nodes[t->storage->node].site |= bits;
}

static bool
map_one(fr_op op, const struct fr_arg *args, int n_args, struct fr_tensor *out)
{
    const struct fr_tensor *t = args[0].t ? args[0].t : n_args > 1 ? args[1].t : NULL;
    const struct fr_number *n = args[0].t ? &args[1].n : &args[0].n;
    const struct rule      *r;
    uint64_t                bits[2];
    fr_ref                  node;

    if (!t || !t->whole)
        return false;
    r = &rules[op][t->dtype];
    node = t->storage->node;
    if (!r->head)
        return false;
    if (n_args == 1)
        return map_quick(r->head, QUICK_ONE, t->layout, node, FR_NO_NODE, 0, 0, out);
    if (!n->weak || !(r->weak >> weak_bit(n->weak) & 1) || fr_number_bits(n, t->dtype, bits, NULL) != FR_OK ||
        fr_number_overflows(n, t->dtype, bits))
        return false;
    return map_quick(r->head, QUICK_NUMBER, t->layout, args[0].t ? node : FR_SCALAR_HERE,
                     args[0].t ? FR_SCALAR_HERE : node, bits[0], t->dtype, out);
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
        FR_ASSERT(is_as_traced(op, args, n_args, out));
        return FR_OK;
    }
    if ((st = fr_trace_resolve(op, args, n_args, &compute, err)) != FR_OK ||
        (st = fr_trace_map_node(op, args, n_args, compute, NULL, &id, err)) != FR_OK)
        return st;
    return fr_trace_finish(id, out, err);
}

fr_status
fr_trace_map_like(fr_op op, const struct fr_arg *args, int n_args, struct fr_layout *layout,
                  struct fr_tensor *out, struct fr_err *err)
{
    fr_dtype  compute;
    fr_ref    id;
    fr_status st;

    if ((st = fr_trace_resolve(op, args, n_args, &compute, err)) != FR_OK ||
        (st = fr_trace_map_node(op, args, n_args, compute, layout, &id, err)) != FR_OK)
        return st;
    return fr_trace_finish(id, out, err);
}

/* Whether the argument is a Python int that is to become a number of dtype `want`. */
static bool
is_plain_int(const struct fr_arg *arg, fr_dtype want)
{
    return !arg->t && arg->n.weak == 'i' && want != FR_BOOL;
}

fr_status
fr_trace_map_dtype(fr_op op, const struct fr_arg *args, int n_args, fr_dtype dtype,
                   struct fr_tensor *out, struct fr_err *err)
{
    uint64_t  bits[2];
    fr_dtype  compute;
    fr_ref    id;
    fr_status st;

    if ((st = fr_build_map_as(op, n_args, dtype, &compute, err)) != FR_OK)
        return st;
    /* A Python int fits, or overflows before anything is said about the others. */
    for (int k = 0; k < n_args; k++)
        if (is_plain_int(&args[k], fr_op_arg(op, k, compute)) &&
            (st = fr_number_bits(&args[k].n, fr_op_arg(op, k, compute), bits, err)) != FR_OK)
            return st;
    for (int k = 0; k < n_args; k++)
        if (!is_plain_int(&args[k], fr_op_arg(op, k, compute)) &&
            (st = fr_build_map_arg(op, k, args[k].t ? args[k].t->dtype : args[k].n.dtype, compute, err)) != FR_OK)
            return st;
    if ((st = fr_trace_map_node(op, args, n_args, compute, NULL, &id, err)) != FR_OK)
        return st;
    return fr_trace_finish(id, out, err);
}

/* The number that is argument k of node n, as a value of dtype `to`; false: as it is not exactly that, nor rounded once. */
static bool
number_as(const struct fr_node *n, int k, fr_dtype to, uint64_t bits[2])
{
    bool             here = n->arg[k] == FR_SCALAR_HERE;
    fr_dtype         from = here ? n->v.number : fr_nodes[n->arg[k]].dtype;
    uint64_t         value = here ? n->u.bits : fr_nodes[n->arg[k]].u.bits;
    struct fr_number number = {.dtype = from, .weak = from == FR_I64 ? 'i' : 'f'};

    if (!here && fr_nodes[n->arg[k]].op != FR_OP_scalar)
        return false;
    if (from == FR_I64) {
        number.v.i64 = (int64_t)value;
        if (number.v.i64 < -(1 << 24) || number.v.i64 > 1 << 24)
            return false;
    } else {
        memcpy(&number.v.f64, &value, sizeof value);
        if (from != FR_F64 || !fr_dtype_is_float(to) || number.v.f64 != number.v.f64)
            return false;
    }
    return fr_number_bits(&number, to, bits, NULL) == FR_OK;
}

/* where(c, 255, 0).astype("u1"): one of two numbers that are of that dtype to begin with, and not of a wider one on the
 * way. *out is 0 where the node is no such choice, or lies in another way. */
static fr_status
choose_as(fr_ref node, fr_dtype to, struct fr_layout *layout, fr_ref *out, struct fr_err *err)
{
    const struct fr_node *n = &fr_nodes[node];
    uint64_t              bits[2][2];
    fr_ref                number[2] = {0, 0}, condition = n->arg[0];
    fr_status             st = FR_OK;

    *out = 0;
    if (n->op != FR_OP_where || n->layout != layout || condition == FR_SCALAR_HERE || fr_trace_stored_since(node) ||
        !number_as(n, 1, to, bits[0]) || !number_as(n, 2, to, bits[1]))
        return FR_OK;
    for (int i = 0; i < 2; i++) {
        if (!(number[i] = fr_trace_scalar(bits[i], to, err)))
            TRY(FR_ENOMEM);
        fr_nodes[number[i]].refs++;
    }
    if (!(*out = fr_trace_node(FR_OP_where, to, fr_layout_ref(layout), err)))
        TRY(FR_ENOMEM);
    fr_nodes[*out].n_args = 3;
    fr_node_set_arg(*out, 0, condition);
    for (int i = 0; i < 2; i++)
        fr_node_set_arg(*out, i + 1, number[i]);
out:
    for (int i = 0; i < 2; i++)
        if (number[i])
            fr_node_unref(number[i]);
    return st;
}

fr_status
fr_trace_cast(const struct fr_tensor *t, fr_dtype dtype, char order, struct fr_tensor *out,
              struct fr_err *err)
{
    struct fr_layout *l;
    fr_ref            raw, id;
    fr_status         st;

    if ((st = fr_build_copy(t->layout, order, &l, err)) != FR_OK)
        return st;
    if ((st = fr_tensor_node(t, &raw, err)) != FR_OK) {
        fr_layout_unref(l);
        return st;
    }
    fr_nodes[raw].refs++;
    st = choose_as(raw, dtype, l, &id, err);
    if (st == FR_OK && !id)
        id = fr_trace_convert(raw, dtype, l, err); /* which has the layout, whatever comes of it */
    else
        fr_layout_unref(l);
    fr_node_unref(raw);
    return id ? fr_trace_finish(id, out, err) : FR_ENOMEM;
}
