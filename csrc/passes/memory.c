#include "passes/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static int64_t
padded(int64_t n)
{
    return (n + 63) & ~(int64_t)63;
}

struct order {
    int64_t key;
    int     index;
};

static int
by_key(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index - y->index;
}

static int
by_offset(const void *a, const void *b)
{
    const struct fr_interval *x = *(struct fr_interval *const *)a, *y = *(struct fr_interval *const *)b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Places the intervals in this order, each into the tightest gap among those it meets in time. */
static int64_t
place(struct fr_interval *v, int n, const struct order *order, struct fr_interval **met)
{
    int64_t peak = 0;

    for (int i = 0; i < n; i++) {
        struct fr_interval *x = &v[order[i].index];
        int64_t             size = padded(x->n_bytes), end = 0, best = -1, best_gap = INT64_MAX;
        int                 m = 0;

        for (int j = 0; j < i; j++) {
            struct fr_interval *y = &v[order[j].index];

            if (y->from <= x->to && x->from <= y->to)
                met[m++] = y;
        }
        qsort(met, (size_t)m, sizeof *met, by_offset);
        for (int j = 0; j < m; j++) {
            int64_t gap = met[j]->offset - end, top = met[j]->offset + padded(met[j]->n_bytes);

            if (gap >= size && gap < best_gap) {
                best = end;
                best_gap = gap;
            }
            if (top > end)
                end = top;
        }
        x->offset = best >= 0 ? best : end;
        if (x->offset + size > peak)
            peak = x->offset + size;
    }
    return peak;
}

static int64_t
lower_bound(const struct fr_interval *v, int n)
{
    int64_t bound = 0;

    for (int i = 0; i < n; i++) {
        int64_t live = 0;

        for (int j = 0; j < n; j++)
            if (v[j].from <= v[i].from && v[i].from <= v[j].to)
                live += padded(v[j].n_bytes);
        if (live > bound)
            bound = live;
    }
    return bound;
}

fr_status
fr_memory_pack(struct fr_interval *v, int n, int64_t *peak, int64_t *bound, struct fr_err *err)
{
    struct order        *order = fr_malloc(((size_t)n + 1) * sizeof *order);
    struct fr_interval **met = fr_malloc(((size_t)n + 1) * sizeof *met);
    int64_t             *kept = fr_malloc(((size_t)n + 1) * sizeof *kept), by_size, by_start;
    fr_status            st = FR_OK;

    if (!order || !met || !kept) {
        st = fr_fail(err, FR_ENOMEM, "out of memory: placing %d temporaries", n);
        goto out;
    }
    for (int i = 0; i < n; i++)
        order[i] = (struct order){-v[i].n_bytes, i};
    qsort(order, (size_t)n, sizeof *order, by_key);
    by_size = place(v, n, order, met);
    for (int i = 0; i < n; i++) {
        kept[i] = v[i].offset;
        order[i] = (struct order){v[i].from, i};
    }
    qsort(order, (size_t)n, sizeof *order, by_key);
    by_start = place(v, n, order, met);
    if (by_size <= by_start)
        for (int i = 0; i < n; i++)
            v[i].offset = kept[i];
    *peak = by_size <= by_start ? by_size : by_start;
    *bound = lower_bound(v, n);
out:
    fr_free(order);
    fr_free(met);
    fr_free(kept);
    return st;
}
