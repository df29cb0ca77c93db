#include "backends/cuda/graph.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ways.h"

/* Recordings of a plan; fewer launches than WORTH take no longer than a graph's; one that fits so seldom is not made any more. */
enum { FEW = 4, WORTH = 3, PATIENCE = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* of the list of what is kept */

enum kind { KERNEL, OTHER, GIFT };

/* What was begun, and in what order. */
struct item {
    enum kind           kind;
    fr_cuda_function    function;
    fr_cuda_node        node;
    struct fr_cuda_grid grid;
    unsigned            shared;
    char               *there;          /* GIFT: its memory on the device */
    size_t              at, n_bytes;    /* its argument, in bytes[]; of a gift what it holds, of others what describes them */
};

struct recording {
    fr_cuda_graph      graph;           /* whose nodes the items name */
    fr_cuda_executable executable;      /* NULL: there is nothing here */
    uint64_t           key, last;       /* of its memory; the run that had it last */
    bool               is_fixed;        /* some of it has addresses that stay */
    int                n;
    size_t             cap, n_bytes, cap_bytes;
    struct item       *item;
    char              *bytes;
};

/* COUNTS: things are begun, and counted. RECORDS: they are recorded. REPLAYS: they are looked for in the recording. MISSES: that is
 * not what is asked for. FAILS: they can not be recorded. In these two nothing is begun any more. */
enum mode { COUNTS, RECORDS, REPLAYS, MISSES, FAILS };

/* What is kept of a plan. */
struct fr_cuda_kept {
    struct fr_cuda_device *device;
    struct fr_cuda_kept   *next;        /* of the device's; NULL at `device`: it is no more */
    enum mode              mode;
    bool                   never;
    int                    n_begun, n_counted;  /* in this run, and in one that was not recorded */
    int                    n_missed, at;        /* recordings that came to nothing yet; where a replay is */
    uint64_t               n_runs;
    struct recording      *now;
    struct recording       of[FEW];
};

/* ---- recordings ------------------------------------------------------------------------------ */

/* In the device's context. What runs is not disturbed. */
static void
clear(struct fr_cuda_device *d, struct recording *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->item[i].there)
            fr_cuda_free(d->backend, r->item[i].there, r->item[i].n_bytes);
    if (r->executable)
        d->driver->executable_free(r->executable);
    if (r->graph)
        d->driver->graph_free(r->graph);
    fr_free(r->item);
    fr_free(r->bytes);
    *r = (struct recording){0};
}

static struct item *
add(struct recording *r, enum kind kind, const void *bytes, size_t n_bytes)
{
    struct item *i;

    if (!FR_GROW(r->item, r->cap, (size_t)r->n + 1) || !FR_GROW(r->bytes, r->cap_bytes, r->n_bytes + n_bytes + 1))
        return NULL;
    i = &r->item[r->n++];
    *i = (struct item){.kind = kind, .at = r->n_bytes, .n_bytes = n_bytes};
    memcpy(r->bytes + i->at, bytes, n_bytes);
    r->n_bytes += n_bytes;
    return i;
}

/* Whether the next item is such a one; it is then the one that was asked for. */
static struct item *
next(struct fr_cuda_kept *k, enum kind kind, size_t n_bytes)
{
    struct recording *r = k->now;
    struct item      *i = k->at < r->n ? &r->item[k->at] : NULL;

    if (!i || i->kind != kind || i->n_bytes != n_bytes) {
        k->mode = MISSES;
        return NULL;
    }
    k->at++;
    return i;
}

static fr_status
again(struct fr_err *err)
{
    return fr_fail(err, FR_EAGAIN, "CUDA: what is begun is not what was recorded");
}

/* No graph will be made of this plan. */
static fr_status
fail(struct fr_cuda_kept *k, struct fr_err *err)
{
    k->mode = FAILS;
    return again(err);
}

/* How it goes on: true, with *st to be returned, where nothing is to be begun. */
static bool
is_over(const struct fr_cuda_kept *k, fr_status *st, struct fr_err *err)
{
    if (k->mode != MISSES && k->mode != FAILS)
        return false;
    *st = again(err);
    return true;
}

/* ---- what is begun --------------------------------------------------------------------------- */

/* The node of what was recorded last. */
static int
last_node(const struct fr_cuda_device *d, fr_cuda_node *out)
{
    const fr_cuda_node *on = NULL;
    size_t              n = 0;
    int                 status = 0;
    uint64_t            id;
    fr_cuda_graph       graph;
    int                 result = d->driver->capture_info(d->recorder, &status, &id, &graph, &on, &n);

    if (result == FR_CUDA_OK && (status != FR_CUDA_CAPTURES || n != 1))
        return FR_CUDA_UNKNOWN;
    if (result == FR_CUDA_OK)
        *out = on[0];
    return result;
}

static fr_status
launch(const struct fr_cuda_device *d, fr_cuda_stream stream, fr_cuda_function f, const struct fr_cuda_grid *g, unsigned shared,
       const void *argument, const char *what, struct fr_err *err)
{
    void *arguments[] = {(void *)(uintptr_t)argument};

    return fr_cuda_check(d->driver->launch(f, g->x, g->y, g->z, g->block_x, g->block_y, 1, shared, stream, arguments, NULL), what, err);
}

static bool
is_grid(const struct fr_cuda_grid *a, const struct fr_cuda_grid *b)
{
    return a->x == b->x && a->y == b->y && a->z == b->z && a->block_x == b->block_x && a->block_y == b->block_y;
}

static fr_status
record_kernel(struct fr_cuda_device *d, fr_cuda_function f, const struct fr_cuda_grid *g, unsigned shared, const void *argument,
              size_t n_bytes, const char *what, struct fr_err *err)
{
    struct fr_cuda_kept *k = d->kept;
    struct item         *i = add(k->now, KERNEL, argument, n_bytes);

    if (!i || launch(d, d->recorder, f, g, shared, argument, what, err) != FR_OK || last_node(d, &i->node) != FR_CUDA_OK)
        return fail(k, err);
    i->function = f;
    i->grid = *g;
    i->shared = shared;
    return FR_OK;
}

static fr_status
replay_kernel(struct fr_cuda_device *d, fr_cuda_function f, const struct fr_cuda_grid *g, unsigned shared, const void *argument,
              size_t n_bytes, struct fr_err *err)
{
    struct fr_cuda_kept *k = d->kept;
    struct item         *i = next(k, KERNEL, n_bytes);
    void                *arguments[] = {(void *)(uintptr_t)argument};

    if (!i || i->function != f) {
        k->mode = MISSES;
        return again(err);
    }
    if (FR_LIKELY(memcmp(k->now->bytes + i->at, argument, n_bytes) == 0) && is_grid(&i->grid, g) && i->shared == shared)
        return FR_OK;
    if (d->driver->kernel_set(k->now->executable, i->node,
                              &(struct fr_cuda_kernel_node){.function = f, .grid = {g->x, g->y, g->z}, .block = {g->block_x, g->block_y, 1},
                                                            .shared_bytes = shared, .arguments = arguments}) != FR_CUDA_OK)
        return fail(k, err);
    memcpy(k->now->bytes + i->at, argument, n_bytes);
    i->grid = *g;
    i->shared = shared;
    return FR_OK;
}

fr_status
fr_cuda_start(struct fr_cuda_device *d, fr_cuda_function f, const struct fr_cuda_grid *g, unsigned shared, const void *argument,
              size_t n_bytes, const char *what, struct fr_err *err)
{
    struct fr_cuda_kept *k = d->kept;
    fr_status            st;

    if (k && is_over(k, &st, err))
        return st;
    if (k)
        k->n_begun++;
    if (!k || k->mode == COUNTS)
        return launch(d, d->stream, f, g, shared, argument, what, err);
    return k->mode == RECORDS ? record_kernel(d, f, g, shared, argument, n_bytes, what, err)
                              : replay_kernel(d, f, g, shared, argument, n_bytes, err);
}

bool
fr_cuda_start_other(struct fr_cuda_device *d, const void *of, size_t n_bytes, fr_cuda_stream *in)
{
    struct fr_cuda_kept *k = d->kept;
    struct item         *i;

    *in = d->stream;
    if (!k)
        return true;
    k->n_begun++;
    switch (k->mode) {
    case COUNTS: return true;
    case RECORDS:
        *in = d->recorder;
        k->now->is_fixed = true;
        if (!add(k->now, OTHER, of, n_bytes))
            k->mode = FAILS;
        return k->mode == RECORDS;
    case REPLAYS:
        if ((i = next(k, OTHER, n_bytes)) && memcmp(k->now->bytes + i->at, of, n_bytes) != 0)
            k->mode = MISSES;
        return false;
    default: return false;
    }
}

fr_status
fr_cuda_start_copy(struct fr_cuda_device *d, uint64_t to, uint64_t from, size_t n_bytes, struct fr_err *err)
{
    const uint64_t of[3] = {to, from, n_bytes};
    fr_cuda_stream stream;

    if (n_bytes == 0 || !fr_cuda_start_other(d, of, sizeof of, &stream))
        return FR_OK;
    return fr_cuda_check(d->driver->copy(to, from, n_bytes, stream), "a copy on the device", err);
}

/* ---- gifts ----------------------------------------------------------------------------------- */

static fr_status
fill(struct fr_cuda_device *d, const struct fr_cuda_gift *g, struct fr_err *err)
{
    const uint64_t to = (uint64_t)(uintptr_t)g->there;
    int            result = d->driver->copy_in(to, g->of[0], g->n_bytes[0], d->stream);

    if (result == FR_CUDA_OK && g->n_bytes[1])
        result = d->driver->copy_in(to + g->n_bytes[0], g->of[1], g->n_bytes[1], d->stream);
    return fr_cuda_check(result, "a copy of arguments", err);
}

static bool
is_same(const struct fr_cuda_gift *g, const char *bytes)
{
    return memcmp(bytes, g->of[0], g->n_bytes[0]) == 0 && (g->n_bytes[1] == 0 || memcmp(bytes + g->n_bytes[0], g->of[1], g->n_bytes[1]) == 0);
}

static void
keep(const struct fr_cuda_gift *g, char *bytes)
{
    memcpy(bytes, g->of[0], g->n_bytes[0]);
    if (g->n_bytes[1])
        memcpy(bytes + g->n_bytes[0], g->of[1], g->n_bytes[1]);
}

static fr_status
get(struct fr_cuda_device *d, struct fr_cuda_gift *g, struct fr_err *err)
{
    const size_t  n = g->n_bytes[0] + g->n_bytes[1];
    struct fr_err said;
    fr_status     st;

    if (!(g->there = fr_cuda_alloc(d->backend, n, &said)))
        return fr_backend_refused(&said, err, "Unable to allocate %zu bytes for the arguments of a kernel", n);
    if ((st = fill(d, g, err)) != FR_OK)
        fr_cuda_free(d->backend, g->there, n);
    return st;
}

fr_status
fr_cuda_give(struct fr_cuda_device *d, struct fr_cuda_gift *g, struct fr_err *err)
{
    struct fr_cuda_kept *k = d->kept;
    const size_t         n = g->n_bytes[0] + g->n_bytes[1];
    struct item         *i;
    fr_status            st;

    if (k && is_over(k, &st, err))
        return st;
    g->stays = k && k->mode != COUNTS;
    if (!g->stays)
        return get(d, g, err);
    if (k->mode == RECORDS) {
        if (get(d, g, err) != FR_OK)
            return fail(k, err);
        if (!(i = add(k->now, GIFT, g->of[0], g->n_bytes[0])) || !FR_GROW(k->now->bytes, k->now->cap_bytes, i->at + n)) {
            fr_cuda_free(d->backend, g->there, n);
            return fail(k, err);
        }
        keep(g, k->now->bytes + i->at);
        i->n_bytes = n;
        k->now->n_bytes = i->at + n;
        i->there = g->there;
        return FR_OK;
    }
    if (!(i = next(k, GIFT, n)))
        return again(err);
    g->there = i->there;
    if (FR_LIKELY(is_same(g, k->now->bytes + i->at)))
        return FR_OK;
    keep(g, k->now->bytes + i->at);
    return fill(d, g, err) == FR_OK ? FR_OK : fail(k, err);
}

void
fr_cuda_given(struct fr_cuda_device *d, const struct fr_cuda_gift *g)
{
    if (!g->stays)
        fr_cuda_free(d->backend, g->there, g->n_bytes[0] + g->n_bytes[1]);
}

fr_status
fr_cuda_needs_host(struct fr_cuda_device *d, struct fr_err *err)
{
    struct fr_cuda_kept *k = d->kept;

    return !k || k->mode == COUNTS ? FR_OK : fail(k, err);
}

/* ---- runs of a plan -------------------------------------------------------------------------- */

static struct fr_cuda_kept *
kept_new(struct fr_cuda_device *d)
{
    struct fr_cuda_kept *k = fr_calloc(1, sizeof *k);

    if (k) {
        k->device = d;
        pthread_mutex_lock(&lock);
        k->next = d->all_kept;
        d->all_kept = k;
        pthread_mutex_unlock(&lock);
    }
    return k;
}

/* The recording of this memory; else one whose arguments can be changed; else a place for a new one, *out, and false. */
static bool
find(struct fr_cuda_kept *k, uint64_t key, struct recording **out)
{
    *out = &k->of[0];
    for (int i = 0; i < FEW; i++) {
        struct recording *r = &k->of[i];

        if (r->executable && (r->key == key || !r->is_fixed)) {
            *out = r;
            return true;
        }
        if (!r->executable ? (*out)->executable != NULL : (*out)->executable && r->last < (*out)->last)
            *out = r;
    }
    return false;
}

static bool
begin_recording(struct fr_cuda_device *d, struct recording *r, uint64_t key)
{
    clear(d, r);
    if (!d->recorder && d->driver->stream_new(&d->recorder, FR_CUDA_NON_BLOCKING) != FR_CUDA_OK) {
        d->recorder = NULL;
        return false;
    }
    r->key = key;
    return d->driver->capture_begin(d->recorder, FR_CUDA_CAPTURE_RELAXED) == FR_CUDA_OK;
}

static void
begin(const struct fr_backend *self, void **kept, uint64_t key)
{
    struct fr_cuda_device *d;
    struct fr_cuda_kept   *k;
    struct fr_err          ignored;

    if (fr_is_off(FR_OFF_device_graphs) || fr_cuda_enter(self, &d, &ignored) != FR_OK)
        return;
    FR_ASSERT(!d->kept);
    if ((k = *kept) || (k = *kept = kept_new(d))) {
        k->mode = COUNTS;
        k->at = 0;
        if (!k->never && k->n_counted >= WORTH) {
            if (find(k, key, &k->now))
                k->mode = REPLAYS;
            else if (begin_recording(d, k->now, key))
                k->mode = RECORDS;
        }
        k->n_begun = 0;
        d->kept = k->never ? NULL : k;
    }
    fr_cuda_leave(d);
}

/* The end of a recording, of which a graph is made if it is a good one. */
static bool
end_recording(struct fr_cuda_device *d, struct recording *r, bool is_good)
{
    if (d->driver->capture_end(d->recorder, &r->graph) != FR_CUDA_OK) {
        r->graph = NULL;
        return false;
    }
    if (is_good && d->driver->executable_new(&r->executable, r->graph, 0) != FR_CUDA_OK)
        r->executable = NULL;
    return r->executable != NULL;
}

/* What was recorded, or fitted, begins. False: it did not, and all is to be begun again. */
static bool
finish(struct fr_cuda_device *d, struct fr_cuda_kept *k, bool went_well)
{
    struct recording *r = k->now;
    const bool        is_new = !r->executable;
    bool              fits = went_well && (is_new ? k->mode == RECORDS : k->mode == REPLAYS && k->at == r->n);

    if (is_new)
        fits = end_recording(d, r, fits);
    if (fits && d->driver->executable_launch(r->executable, d->stream) == FR_CUDA_OK) {
        r->last = k->n_runs;
        k->n_missed += is_new ? 1 : k->n_missed > 0 ? -1 : 0;
        k->never = k->n_missed > PATIENCE;
        return true;
    }
    k->never |= fits || is_new || k->mode == FAILS;
    clear(d, r);
    return false;
}

static fr_status
end(const struct fr_backend *self, void **kept, fr_status st, bool *once_more, struct fr_err *err)
{
    struct fr_cuda_kept   *k = *kept;
    struct fr_cuda_device *d = k ? k->device : NULL;
    fr_status              entered;

    *once_more = false;
    if (!k || d->kept != k)
        return st;
    d->kept = NULL;
    k->n_runs++;
    if (k->mode == COUNTS) {
        k->n_counted = k->n_begun;
        return st;
    }
    if ((entered = fr_cuda_enter(self, &d, err)) != FR_OK) /* and nothing has begun */
        return entered;
    *once_more = !finish(d, k, st == FR_OK);
    if (!*once_more)
        fr_count_way(FR_WAY_device_graphs);
    fr_cuda_leave(d);
    return st;
}

static void
drop(void *kept)
{
    struct fr_cuda_kept   *k = kept;
    struct fr_cuda_device *d;
    struct fr_err          ignored;

    if (k->device && fr_cuda_enter(k->device->backend, &d, &ignored) == FR_OK) {
        for (int i = 0; i < FEW; i++)
            clear(d, &k->of[i]);
        pthread_mutex_lock(&lock);
        for (struct fr_cuda_kept **link = &d->all_kept; *link; link = &(*link)->next)
            if (*link == k) {
                *link = k->next;
                break;
            }
        pthread_mutex_unlock(&lock);
        fr_cuda_leave(d);
    }
    fr_free(k);
}

void
fr_cuda_graphs_close(struct fr_cuda_device *d)
{
    for (struct fr_cuda_kept *k = d->all_kept; k; k = k->next) {
        for (int i = 0; i < FEW; i++)
            clear(d, &k->of[i]);
        k->device = NULL;
    }
    d->all_kept = NULL;
    if (d->recorder)
        d->driver->stream_free(d->recorder);
    d->recorder = NULL;
}

const struct fr_recorder fr_cuda_recorder = {.begin = begin, .end = end, .drop = drop};
