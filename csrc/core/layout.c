#include "core/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* ---- the table of interned layouts ---------------------------------------------------------- */

/* Sweeping costs a pass over the table, so it waits until the table has doubled since the last. */
enum { FIRST_SLOTS = 1024, SWEEP_FLOOR = 4096 };

static struct {
    struct fr_layout **slot;      /* open addressing; NULL is free */
    size_t             n_slots;   /* a power of two */
    size_t             n_used;
    size_t             sweep_at;
} table;

/* The calling thread's own; NULL: those of the table. */
static FR_THREAD_LOCAL struct fr_layouts *own;

static uint32_t
hash_of(int ndim, const int64_t *dims, const int64_t *strides)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ (uint64_t)ndim;

    for (int k = 0; k < ndim; k++) {
        h = (h ^ (uint64_t)dims[k]) * 0xff51afd7ed558ccdu;
        h = (h ^ (h >> 29) ^ (uint64_t)strides[k]) * 0xc4ceb9fe1a85ec53u;
    }
    return (uint32_t)(h ^ (h >> 32));
}

static void
insert(struct fr_layout *l)
{
    size_t i = l->hash & (table.n_slots - 1);

    FR_ASSERT(table.n_used < table.n_slots); /* a search ends at a free slot */
    while (table.slot[i])
        i = (i + 1) & (table.n_slots - 1);
    table.slot[i] = l;
}

/* Moves the live layouts (all of them when `keep_dead`) to a table of n_slots. */
static bool
rebuild(size_t n_slots, bool keep_dead)
{
    struct fr_layout **old = table.slot;
    size_t             n_old = table.n_slots;
    struct fr_layout **slot = fr_calloc(n_slots, sizeof *slot);

    if (!slot)
        return false;
    table.slot = slot;
    table.n_slots = n_slots;
    table.n_used = 0;
    for (size_t i = 0; i < n_old; i++) {
        if (!old[i])
            continue;
        if (old[i]->refs == 0 && !keep_dead) {
            fr_free(old[i]);
        } else {
            insert(old[i]);
            table.n_used++;
        }
    }
    fr_free(old);
    return true;
}

static bool
make_room(void)
{
    if (!table.slot) {
        table.sweep_at = SWEEP_FLOOR;
        return rebuild(FIRST_SLOTS, true);
    }
    if (table.n_used >= table.sweep_at) {
        if (!rebuild(table.n_slots, false))
            return false;
        table.sweep_at = table.n_used * 2 > SWEEP_FLOOR ? table.n_used * 2 : SWEEP_FLOOR;
    }
    if (table.n_used * 2 >= table.n_slots)
        return rebuild(table.n_slots * 2, true);
    return true;
}

static void
fill_flags(struct fr_layout *l)
{
    const int64_t *dims = fr_layout_dims(l), *strides = fr_layout_strides(l);
    int64_t        c = 1, f = 1, span = 1;

    l->n_elems = 1;
    for (int k = 0; k < l->ndim; k++)
        l->n_elems *= dims[k];
    l->c_contig = l->f_contig = l->dense = true;
    if (l->n_elems == 0)
        return;
    for (int k = l->ndim; k-- > 0; c *= dims[k])
        if (dims[k] != 1 && strides[k] != c)
            l->c_contig = false;
    for (int k = 0; k < l->ndim; f *= dims[k], k++)
        if (dims[k] != 1 && strides[k] != f)
            l->f_contig = false;
    /* Dense: taken from the smallest stride up, each stride is the product of the dims before. */
    for (int left = l->ndim; l->dense && left > 0;) {
        int found = -1;

        left = 0;
        for (int k = 0; k < l->ndim; k++) {
            if (dims[k] == 1)
                continue;
            if (strides[k] == span)
                found = k;
            else if (strides[k] > span)
                left++;
        }
        if (found < 0) {
            l->dense = span == l->n_elems;
            break;
        }
        span *= dims[found];
    }
    l->dense = l->dense && span == l->n_elems;
    FR_ASSERT(l->dense || !(l->c_contig || l->f_contig)); /* two ways to count: whoever has asked for one relies on the other */
}

static bool
is_same(const struct fr_layout *l, uint32_t hash, int ndim, const int64_t *dims, const int64_t *strides)
{
    return l->hash == hash && l->ndim == ndim && !memcmp(fr_layout_dims(l), dims, (size_t)ndim * sizeof *dims) &&
           !memcmp(fr_layout_strides(l), strides, (size_t)ndim * sizeof *strides);
}

static void
fill(struct fr_layout *l, uint32_t hash, int ndim, const int64_t *dims, const int64_t *strides)
{
    l->refs = 1;
    l->hash = hash;
    l->ndim = (uint8_t)ndim;
    memcpy(l->dims_strides, dims, (size_t)ndim * sizeof *dims);
    memcpy(l->dims_strides + ndim, strides, (size_t)ndim * sizeof *strides);
    fill_flags(l);
}

void
fr_layouts_use(struct fr_layouts *l)
{
    own = l;
}

/* A small graph has a few: they are looked through. */
static FR_COLD struct fr_layout *
get_own(uint32_t hash, int ndim, const int64_t *dims, const int64_t *strides)
{
    struct fr_layout *l;

    for (size_t i = 0; i < own->n; i++)
        if (is_same(own->layout[i], hash, ndim, dims, strides)) {
            own->layout[i]->refs++;
            return own->layout[i];
        }
    if (own->n == own->cap) {
        size_t             cap = own->cap ? 2 * own->cap : 16;
        struct fr_layout **more = fr_arena_room(own->arena, cap * sizeof *more);

        if (!more)
            return NULL;
        if (own->n)
            memcpy(more, own->layout, own->n * sizeof *more);
        own->layout = more;
        own->cap = cap;
    }
    if (!(l = fr_arena_room(own->arena, sizeof *l + 2 * (size_t)ndim * sizeof *dims)))
        return NULL;
    fill(l, hash, ndim, dims, strides);
    return own->layout[own->n++] = l;
}

struct fr_layout *
fr_layout_here(struct fr_layout *l)
{
    return own ? get_own(l->hash, l->ndim, fr_layout_dims(l), fr_layout_strides(l)) : fr_layout_ref(l);
}

struct fr_layout *
fr_layout_get(int ndim, const int64_t *dims, const int64_t *strides)
{
    int64_t           c_order[FR_MAX_DIMS];
    struct fr_layout *l;
    uint32_t          hash;

    if (!strides) {
        fr_strides_c_order(ndim, dims, c_order);
        for (int k = 0; k < ndim; k++)
            if (dims[k] == 0)
                memset(c_order, 0, (size_t)ndim * sizeof *c_order);
        strides = c_order;
    }
    if (!dims) /* none to compare, but memcmp wants an address */
        dims = c_order;
    hash = hash_of(ndim, dims, strides);
    if (FR_UNLIKELY(own))
        return get_own(hash, ndim, dims, strides);
    if (!make_room())
        return NULL;
    for (size_t i = hash & (table.n_slots - 1); (l = table.slot[i]);
         i = (i + 1) & (table.n_slots - 1)) {
        if (is_same(l, hash, ndim, dims, strides)) {
            l->refs++;
            return l;
        }
    }
    if (!(l = fr_malloc(sizeof *l + 2 * (size_t)ndim * sizeof *dims)))
        return NULL;
    fill(l, hash, ndim, dims, strides);
    insert(l);
    table.n_used++;
    return l;
}

/* ---- dims --------------------------------------------------------------------------------- */

char *
fr_dims_print(int ndim, const int64_t *dims, char *buf, int cap)
{
    int n = snprintf(buf, (size_t)cap, "(");

    for (int k = 0; k < ndim && n < cap; k++)
        n += snprintf(buf + n, (size_t)(cap - n), k ? ", %lld" : "%lld", (long long)dims[k]);
    if (n < cap)
        snprintf(buf + n, (size_t)(cap - n), ndim == 1 ? ",)" : ")");
    return buf;
}

fr_status
fr_dims_count(int ndim, const int64_t *dims, int itemsize, int64_t *n, struct fr_err *err)
{
    int64_t count = 1, bytes = itemsize;
    bool    empty = false;

    for (int k = 0; k < ndim; k++) {
        if (dims[k] < 0)
            return fr_fail(err, FR_EVALUE, "negative dimensions are not allowed");
        if (dims[k] == 0) {
            empty = true;
            continue;
        }
        if (__builtin_mul_overflow(bytes, dims[k], &bytes) ||
            __builtin_mul_overflow(count, dims[k], &count))
            return fr_fail(err, FR_ERANGE,
                           "array is too big; `arr.size * arr.dtype.itemsize` is larger than the "
                           "maximum possible size.");
    }
    *n = empty ? 0 : count;
    return FR_OK;
}

fr_status
fr_dims_broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *n, int64_t *out,
                  const char *what, struct fr_err *err)
{
    int nd = na > nb ? na : nb;

    for (int k = 1; k <= nd; k++) {
        int64_t da = k <= na ? a[na - k] : 1, db = k <= nb ? b[nb - k] : 1;

        if (da != db && da != 1 && db != 1) {
            char sa[200], sb[200];

            return fr_fail(err, FR_EVALUE,
                           "operands could not be broadcast together with shapes %s %s (%s)",
                           fr_dims_print(na, a, sa, sizeof sa), fr_dims_print(nb, b, sb, sizeof sb),
                           what);
        }
        out[nd - k] = da == 1 ? db : da;
    }
    *n = nd;
    return FR_OK;
}

fr_status
fr_dims_product(int na, const int64_t *a, int nb, const int64_t *b, int *n, int64_t *out,
                struct fr_err *err)
{
    static const char signature[] = "(n?,k),(k,m?)->(n?,m?)";
    int               core_a = na > 1 ? 2 : 1, core_b = nb > 1 ? 2 : 1, nd;
    char              sa[200], sb[200];
    fr_status         st;

    if (na == 0 || nb == 0)
        return fr_fail(err, FR_EVALUE,
                       "matmul: Input operand %d does not have enough dimensions (has 0, gufunc core "
                       "with signature %s requires 1)", na != 0, signature);
    if (a[na - 1] != b[nb - core_b])
        return fr_fail(err, FR_EVALUE,
                       "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc "
                       "signature %s (size %lld is different from %lld); the shapes are %s and %s",
                       signature, (long long)b[nb - core_b], (long long)a[na - 1],
                       fr_dims_print(na, a, sa, sizeof sa), fr_dims_print(nb, b, sb, sizeof sb));
    if ((st = fr_dims_broadcast(na - core_a, a, nb - core_b, b, &nd, out, "matmul", NULL)) != FR_OK)
        return fr_fail(err, st, "operands could not be broadcast together with shapes %s %s (matmul)",
                       fr_dims_print(na, a, sa, sizeof sa), fr_dims_print(nb, b, sb, sizeof sb));
    if (core_a == 2)
        out[nd++] = a[na - 2];
    if (core_b == 2)
        out[nd++] = b[nb - 1];
    *n = nd;
    return FR_OK;
}

/* ---- strides ------------------------------------------------------------------------------ */

bool
fr_layout_reshape(const struct fr_layout *l, int ndim, const int64_t *dims, int64_t *out)
{
    const int64_t *od = fr_layout_dims(l), *os = fr_layout_strides(l);
    int64_t        d[FR_MAX_DIMS], s[FR_MAX_DIMS];
    int            n = 0, i = 0, j = 0;

    for (int k = 0; k < l->ndim; k++)
        if (od[k] != 1) {
            d[n] = od[k];
            s[n++] = os[k];
        }
    if (l->n_elems == 0)
        return false;
    /* Walk both shapes, matching the smallest groups of axes with equal products. */
    while (i < n && j < ndim) {
        int     i1 = i + 1, j1 = j + 1;
        int64_t pi = d[i], pj = dims[j];

        while (pi != pj) {
            FR_ASSERT(pi < pj ? i1 < n : j1 < ndim); /* both shapes have as many elements */
            if (pi < pj)
                pi *= d[i1++];
            else
                pj *= dims[j1++];
        }
        for (int k = i; k < i1 - 1; k++)
            if (s[k] != s[k + 1] * d[k + 1])
                return false;
        out[j1 - 1] = s[i1 - 1];
        for (int k = j1 - 1; k > j; k--)
            out[k - 1] = out[k] * dims[k];
        i = i1;
        j = j1;
    }
    for (int k = j; k < ndim; k++)      /* trailing axes of size 1 */
        out[k] = k > 0 ? out[k - 1] : 1;
    return true;
}

static int64_t
magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

void
fr_axes_by_stride(int *axes, int n, const int64_t *strides)
{
    for (int k = 1; k < n; k++) {
        int     ax = axes[k], i = k;
        int64_t size = strides[ax] < 0 ? -strides[ax] : strides[ax];

        for (; i > 0; i--) {
            int64_t other = strides[axes[i - 1]];

            if ((other < 0 ? -other : other) >= size)
                break;
            axes[i] = axes[i - 1];
        }
        axes[i] = ax;
    }
}

void
fr_strides_broadcast(const struct fr_layout *l, int ndim, int64_t *out)
{
    int skip = ndim - l->ndim;

    for (int k = 0; k < ndim; k++)
        out[k] = k < skip || fr_layout_dims(l)[k - skip] == 1 ? 0 : fr_layout_strides(l)[k - skip];
}

void
fr_strides_c_order(int ndim, const int64_t *dims, int64_t *out)
{
    int64_t step = 1;

    for (int k = ndim; k-- > 0; step *= dims[k] ? dims[k] : 1)
        out[k] = step;
}

/* Strides in C order of the axes perm[0] (the innermost), perm[1], ...; all 0 where there are no elements. */
static void
fresh_strides(int ndim, const int64_t *dims, const int *perm, int64_t *out)
{
    int64_t step = 1;

    for (int k = 0; k < ndim; step *= dims[perm[k++]])
        out[perm[k]] = step;
    for (int k = 0; step == 0 && k < ndim; k++)
        out[k] = 0;
}

void
fr_axes_inwards(int ndim, const int64_t *dims, int n_operands, const int64_t *const *strides, int *perm)
{
    /* An insertion sort that moves an axis inwards past another only where the operands that
     * tell the two apart agree; the first operand to say "keep" wins, as in NumPy's iterator. */
    for (int k = 0; k < ndim; k++)
        perm[k] = ndim - 1 - k;
    for (int i0 = 1; i0 < ndim; i0++) {
        int ipos = i0, ax0 = perm[i0];

        for (int i1 = i0 - 1; i1 >= 0; i1--) {
            int  ax1 = perm[i1];
            bool ambiguous = true, swap = false;

            for (int op = 0; op < n_operands; op++) {
                int64_t s0 = dims[ax0] == 1 ? 0 : strides[op][ax0];
                int64_t s1 = dims[ax1] == 1 ? 0 : strides[op][ax1];

                if (s0 == 0 || s1 == 0)
                    continue;
                if (magnitude(s1) <= magnitude(s0))
                    swap = false;
                else if (ambiguous)
                    swap = true;
                ambiguous = false;
            }
            if (!ambiguous) {
                if (!swap)
                    break;
                ipos = i1;
            }
        }
        for (int k = i0; k > ipos; k--)
            perm[k] = perm[k - 1];
        perm[ipos] = ax0;
    }
}

void
fr_strides_keep_order(int ndim, const int64_t *dims, int n_operands, const int64_t *const *strides,
                      int64_t *out)
{
    int perm[FR_MAX_DIMS];

    fr_axes_inwards(ndim, dims, n_operands, strides, perm);
    fresh_strides(ndim, dims, perm, out);
}

void
fr_strides_copy_order(int ndim, const int64_t *dims, const int64_t *strides, int64_t *out)
{
    int perm[FR_MAX_DIMS];

    for (int k = 0; k < ndim; k++) {
        int i = k, ax = ndim - 1 - k;

        for (; i > 0 && magnitude(strides[perm[i - 1]]) > magnitude(strides[ax]); i--)
            perm[i] = perm[i - 1];
        perm[i] = ax;
    }
    fresh_strides(ndim, dims, perm, out);
}

/* ---- overlap ------------------------------------------------------------------------------ */

struct term {
    int64_t a, ub;      /* a * x with 0 <= x <= ub; a > 0 */
};

static int64_t
gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

static int
by_size(const void *x, const void *y)
{
    int64_t a = ((const struct term *)x)->a, b = ((const struct term *)y)->a;

    return a < b ? 1 : a > b ? -1 : 0;
}

/* Is there x with sum a[k] x[k] == rest?  Largest coefficients first; bounded effort. */
static bool
solve(const struct term *t, int n, int64_t rest, const int64_t *reach, const int64_t *g, int *budget)
{
    int64_t lo, hi;

    if (n == 0)
        return rest == 0;
    if (rest < 0 || rest > reach[0] || rest % g[0] != 0)
        return false;
    if (--*budget < 0)
        return true; /* not known: counts as overlap */
    hi = rest / t->a < t->ub ? rest / t->a : t->ub;
    lo = rest - reach[1] <= 0 ? 0 : (rest - reach[1] + t->a - 1) / t->a;
    for (int64_t x = hi; x >= lo; x--)
        if (solve(t + 1, n - 1, rest - t->a * x, reach + 1, g + 1, budget))
            return true;
    return false;
}

/* Adds the window's axes as non-negative terms; *low is its lowest element's position. */
static void
add_terms(const struct fr_layout *l, int64_t sign, struct term *t, int *n, int64_t *low)
{
    const int64_t *dims = fr_layout_dims(l), *strides = fr_layout_strides(l);

    for (int k = 0; k < l->ndim; k++) {
        int64_t s = strides[k] * sign;

        if (dims[k] == 1 || s == 0)
            continue;
        if (s < 0) {
            *low += s * (dims[k] - 1);
            s = -s;
        }
        t[(*n)++] = (struct term){s, dims[k] - 1};
    }
}

bool
fr_overlap(const struct fr_layout *a, int64_t offset_a, const struct fr_layout *b, int64_t offset_b)
{
    struct term t[2 * FR_MAX_DIMS];
    int64_t     reach[2 * FR_MAX_DIMS + 1], g[2 * FR_MAX_DIMS + 1];
    int64_t     low = offset_a - offset_b;
    int         n = 0, budget = 20000;

    if (a->n_elems == 0 || b->n_elems == 0)
        return false;
    /* a + sum s x == b + sum t y  <=>  low + sum |s| x' + sum |t| y' == 0 after substitution. */
    add_terms(a, 1, t, &n, &low);
    add_terms(b, -1, t, &n, &low);
    qsort(t, (size_t)n, sizeof *t, by_size);
    reach[n] = 0;
    g[n] = 1;
    for (int k = n; k-- > 0;) {
        if (__builtin_mul_overflow(t[k].a, t[k].ub, &reach[k]) ||
            __builtin_add_overflow(reach[k], reach[k + 1], &reach[k]))
            return true;
        g[k] = k == n - 1 ? t[k].a : gcd(t[k].a, g[k + 1]);
    }
    return solve(t, n, -low, reach, g, &budget);
}
