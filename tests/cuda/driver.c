/* tests/cuda/driver.c -- a CUDA driver without a GPU: FRIT_CUDA_LIB names what this is compiled to.
 *
 * It is stricter than a real one, so that what passes here does not pass by luck:
 *
 *     memory    addresses that nobody on the host may touch; accesses of kernels are held against each allocation's bounds
 *     streams   run as late as they may: when somebody waits for them, or another stream for an event of theirs. A copy from the host reads at once, as the real one
 *               does with memory that is not pinned, and late where it is; a copy to the host writes late
 *     pinned    memory of the host, which nobody may free while a copy is to read or write it
 *     contexts  a call without a current context fails
 *     graphs    are what a stream has captured, which may be kernels, copies on the device and work of libraries; kernels of an
 *               executable one get other arguments, also while it runs. A captured stream can do nothing else
 *     kernels   are PTX, run by ptx_run.c: the device is newer than any NVRTC, which therefore gives PTX for it
 *     failures  the n-th call fails (fake_cuda_fail); the device is lost at the n-th launch (fake_cuda_lose): from then on
 *               everything fails
 *
 * FAKE_CUDA_MB: its memory; FAKE_CUDA_TOTAL_KB: what it says of that, so that programs run chunk by chunk whose chunks fit, and others all the same.
 * FAKE_CUDA_IDLE: kernels are not run, for whoever counts what launching them takes.
 * FAKE_CUDA_REPORT: a file to which a line is added when the process ends. What is left at the end, and what kernels did, fake_cuda_counts says. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"
#include "ptx.h"

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
       INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
       CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901,
       LAUNCH_FAILED = 719, UNKNOWN = 999 };

struct block {
    uint64_t      address;
    size_t        n_bytes;
    char         *bytes;          /* the host's copy of it */
    struct block *next;
};

struct pinned {
    size_t         n_bytes;
    struct pinned *next;
    _Alignas(64) char bytes[];
};

struct event {
    uint64_t       n_records, n_done;  /* so often it was recorded, and came to pass */
    struct stream *stream;             /* of the last record */
    int            destroyed, n_users; /* work that names it */
};

enum kind { RECORD, WAIT, COPY_IN, COPY_OUT, COPY, FREE, LAUNCH, CALL /* of another library */ };

struct work {
    enum kind    kind;
    uint64_t     to, from;
    void        *host;            /* of COPY_OUT; of COPY_IN, too, where it is pinned; else a copy of what there was, */
    int          is_copy;         /* ours */
    size_t       n_bytes;
    struct function *function;
    uint32_t     grid[3], block[3], shared;
    void       **params;          /* ours */
    const char *(*call)(void *arg);
    void        *arg;             /* ours, of n_bytes */
    struct event *event;          /* of RECORD and WAIT, */
    uint64_t      record;         /* and which of its records */
    uint64_t      number;         /* of kernels that were launched before, this one included */
    struct work *next;
};

struct graph {
    struct work *first, **last;    /* its nodes */
    struct work *newest;
    int          is_broken;
};

/* With copies of the nodes of a graph, in their order. */
struct executable {
    struct graph *of;
    struct work  *first;
};

struct stream {
    struct work   *first, **last;
    struct graph  *captured;       /* what is put into it goes there */
    int            is_apart;       /* it and the driver's first stream do not wait for each other */
    struct stream *next;
};

struct module {
    struct ptx_module *ptx;
    int                n_users;    /* launches that are still to run */
    int                unloaded;
};

struct function {
    const struct ptx_kernel *kernel;
    struct ptx_facts         facts;
    uint32_t                 most_shared;   /* dynamic, that a launch may ask for */
    struct module           *module;
    struct function         *next;
};

/* What is there, for tests. */
struct fake_cuda_counts {
    uint64_t n_calls, n_launches, n_instructions, n_lane_instructions;
    uint64_t load_bytes, store_bytes, load_sectors, store_sectors, ideal_load_sectors, ideal_store_sectors, n_conflicts, n_barriers, n_divergent;
    uint64_t n_blocks_live, bytes_live, bytes_peak, n_streams, n_pools, n_modules, n_contexts, n_graphs, n_executables, n_graph_launches;
    uint64_t n_pinned_copies, n_pinned_live, pinned_live, pinned_peak, n_overlapped;  /* copies that ran before kernels of earlier launches */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool            started;
static struct block   *blocks;
static uint64_t        top = (uint64_t)0xf0 << 48; /* addresses that no processor takes: nobody on the host can touch them */
static const uint64_t  END = (uint64_t)0xf1 << 48;
static size_t          capacity;
static struct pinned  *pins;
static struct fake_cuda_counts counts;
static uint64_t        fail_at, lose_at;          /* the call that fails, the launch that loses the device; 0: none */
static uint64_t        interrupt_at;              /* the call in which Ctrl-C comes */
static int             lost;                      /* the result of all that follows */
static char            why[2000];                 /* what the last kernel did that it may not */
static struct function *functions;
static int             context;                   /* its address is the context */
static __thread int    depth;                     /* of contexts */
static struct stream   usual[2] = {{.last = &usual[0].first, .next = &usual[1]}, {.last = &usual[1].first}};  /* the driver's own */
static struct stream  *streams = usual;

static uint64_t n_failures;                       /* that were asked for and happened */

__attribute__((destructor)) static void
report(void)
{
    const char *path = getenv("FAKE_CUDA_REPORT");
    FILE       *file = path && counts.n_launches ? fopen(path, "a") : NULL;

    if (!file)
        return;
    fprintf(file, "%llu %llu %llu\n", (unsigned long long)counts.n_launches, (unsigned long long)counts.n_lane_instructions,
            (unsigned long long)n_failures);
    fclose(file);
}

EXPORT void fake_cuda_fail(uint64_t n) { fail_at = n ? counts.n_calls + n : 0; }
EXPORT void fake_cuda_lose(uint64_t n) { lose_at = n ? counts.n_launches + n : 0; }
EXPORT void fake_cuda_interrupt(uint64_t n) { interrupt_at = n ? counts.n_calls + n : 0; }
EXPORT const char *fake_cuda_why(void) { return why; }

EXPORT void
fake_cuda_counts(struct fake_cuda_counts *out)
{
    pthread_mutex_lock(&lock);
    *out = counts;
    pthread_mutex_unlock(&lock);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static struct block *
find_block(uint64_t address, size_t n)
{
    for (struct block *b = blocks; b; b = b->next)
        if (address >= b->address && address - b->address <= b->n_bytes && n <= b->n_bytes - (address - b->address))
            return b;
    return NULL;
}

static void *
find_memory(void *arg, uint64_t address, size_t n, bool writes, uint64_t *first, uint64_t *end)
{
    struct block *b = find_block(address, n);

    (void)arg, (void)writes;
    if (!b)
        return NULL;
    *first = b->address;
    *end = b->address + b->n_bytes;
    return b->bytes + (address - b->address);
}

/* Addresses of memory that was freed, which is given out again where fake_cuda_reuse asked for it: else what is used too late is seen. */
enum { FREED = 64 };
static struct { uint64_t address; size_t n_bytes; } freed[FREED];
static int n_freed, reuses;

EXPORT void fake_cuda_reuse(int whether) { reuses = whether; n_freed = 0; }

static uint64_t
find_address(size_t n)
{
    uint64_t address = top;

    for (int i = n_freed; i-- > 0;)
        if (freed[i].n_bytes == n) {
            address = freed[i].address;
            freed[i] = freed[--n_freed];
            return address;
        }
    top += (n + 511) / 512 * 512 + 512;           /* with a gap: what runs over the end is seen */
    return address;
}

static int
drop_block(uint64_t address)
{
    for (struct block **link = &blocks; *link; link = &(*link)->next) {
        struct block *b = *link;

        if (b->address != address)
            continue;
        *link = b->next;
        counts.n_blocks_live--;
        counts.bytes_live -= b->n_bytes;
        if (reuses && n_freed < FREED) {
            freed[n_freed].address = address;
            freed[n_freed++].n_bytes = b->n_bytes;
        }
        free(b->bytes);
        free(b);
        return OK;
    }
    return INVALID_VALUE;
}

/* ---- streams --------------------------------------------------------------------------------- */

static int
bad(int result, const char *what, const char *detail)
{
    snprintf(why, sizeof why, "%s: %s", what, detail);
    lost = result;      /* as on a device, whose context is of no use from then on */
    return result;
}

static int
run_kernel(struct work *w)
{
    struct ptx_launch l = {.dynamic_shared = w->shared, .params = w->params, .n_threads = 1};
    struct ptx_memory memory = {find_memory, NULL};
    struct ptx_counts c;
    char              error[1500];

    memcpy(l.grid, w->grid, sizeof l.grid);
    memcpy(l.block, w->block, sizeof l.block);
    if (lose_at && counts.n_launches >= lose_at)
        return bad(UNKNOWN, "kernel", "the device is lost, as was asked for");
    if (getenv("FAKE_CUDA_IDLE"))
        return OK;
    if (ptx_launch(w->function->kernel, &l, &memory, &c, error, sizeof error))
        return bad(ILLEGAL_ADDRESS, "kernel", error);
    counts.n_instructions += c.n_instructions;
    counts.n_lane_instructions += c.n_lane_instructions;
    counts.load_bytes += c.load_bytes;
    counts.store_bytes += c.store_bytes;
    counts.load_sectors += c.load_sectors;
    counts.store_sectors += c.store_sectors;
    counts.ideal_load_sectors += c.ideal_load_sectors;
    counts.ideal_store_sectors += c.ideal_store_sectors;
    counts.n_conflicts += c.n_conflicts;
    counts.n_barriers += c.n_barriers;
    counts.n_divergent += c.n_divergent;
    return OK;
}

/* Whether a kernel is still to run that was launched before the copy was asked for. */
static bool
is_beside(const struct work *copy)
{
    for (struct stream *s = streams; s; s = s->next)
        for (const struct work *w = s->first; w; w = w->next)
            if (w->kind == LAUNCH && w->number <= copy->number)
                return true;
    return false;
}

static int
run_copy(struct work *w)
{
    struct block *to = w->kind == COPY_OUT ? NULL : find_block(w->to, w->n_bytes);
    struct block *from = w->kind == COPY_IN ? NULL : find_block(w->from, w->n_bytes);

    if ((w->kind != COPY_OUT && !to) || (w->kind != COPY_IN && !from))
        return bad(ILLEGAL_ADDRESS, "copy", "of memory that is not allocated");
    counts.n_overlapped += is_beside(w);
    memmove(to ? to->bytes + (w->to - to->address) : w->host, from ? from->bytes + (w->from - from->address) : w->host, w->n_bytes);
    return OK;
}

static void run_first(struct stream *s);

static void
drop_event(struct event *e)
{
    if (--e->n_users == 0 && e->destroyed)
        free(e);
}

static int
run_event(struct work *w)
{
    struct event *e = w->event;

    if (w->kind == RECORD)
        e->n_done = w->record > e->n_done ? w->record : e->n_done;
    while (w->kind == WAIT && e->n_done < w->record && e->stream->first)
        run_first(e->stream);
    drop_event(e);
    return OK;
}

static int
run_one(struct work *w)
{
    switch (w->kind) {
    case RECORD: case WAIT: return run_event(w);
    case LAUNCH: return run_kernel(w);
    case CALL: {
        const char *wrong = w->call(w->arg);

        return wrong ? bad(ILLEGAL_ADDRESS, "library", wrong) : OK;
    }
    case FREE: return drop_block(w->to) ? bad(INVALID_VALUE, "free", "of memory that is not allocated") : OK;
    default: return run_copy(w);
    }
}

static void
free_module(struct module *m)
{
    struct function **link = &functions, *f;

    while ((f = *link)) {
        if (f->module != m) {
            link = &f->next;
            continue;
        }
        *link = f->next;
        free(f);
    }
    ptx_free(m->ptx);
    free(m);
}

static void
free_work(struct work *w)
{
    if (w->function && --w->function->module->n_users == 0 && w->function->module->unloaded)
        free_module(w->function->module);
    if (w->is_copy)
        free(w->host);
    free(w->params);
    free(w->arg);
    free(w);
}

/* The next thing in the stream. A lost device does nothing more, but memory is let go. */
static void
run_first(struct stream *s)
{
    struct work *w = s->first;

    if (!(s->first = w->next))
        s->last = &s->first;
    if (!lost)
        run_one(w);
    else if (w->kind == FREE)
        drop_block(w->to);
    else if (w->event)
        drop_event(w->event);
    free_work(w);
}

/* All that is in the stream. */
static int
run(struct stream *s)
{
    if (s->captured) {
        s->captured->is_broken = 1;
        return CAPTURE_UNSUPPORTED;
    }
    while (s->first)
        run_first(s);
    return lost;
}

/* The stream of a handle: 0, 1 and 2 are the driver's own; one that is no more is none. */
static struct stream *
stream_at(struct stream *handle)
{
    if ((uintptr_t)handle <= 2)
        return &usual[(uintptr_t)handle == 2];
    for (struct stream *s = streams; s; s = s->next)
        if (s == handle)
            return s;
    return NULL;
}

static struct work *append(struct stream *handle, enum kind kind);

/* What comes into s from now on waits for what is in `before`. */
static void
order(struct stream *s, struct stream *before)
{
    struct event *e = before->first ? calloc(1, sizeof *e) : NULL;
    struct work  *w[2];

    if (!e)
        return;
    *e = (struct event){.n_records = 1, .stream = before, .destroyed = 1, .n_users = 2};
    for (int i = 0; i < 2; i++) {
        struct stream *to = i ? s : before;

        if (!(w[i] = calloc(1, sizeof *w[i])))
            abort();
        *w[i] = (struct work){.kind = i ? WAIT : RECORD, .event = e, .record = 1};
        *to->last = w[i];
        to->last = &w[i]->next;
    }
}

static struct work *
capture(struct graph *g, enum kind kind)
{
    struct work *w = kind == LAUNCH || kind == COPY || kind == CALL ? calloc(1, sizeof *w) : NULL;

    if (!w) {
        g->is_broken = 1;
        return NULL;
    }
    w->kind = kind;
    *g->last = g->newest = w;
    g->last = &w->next;
    return w;
}

static struct work *
append(struct stream *handle, enum kind kind)
{
    struct stream *s = stream_at(handle);
    struct work   *w;

    if (s && s->captured)
        return capture(s->captured, kind);
    if (!(w = s ? calloc(1, sizeof *w) : NULL))
        return NULL;
    for (struct stream *other = streams; other && !s->is_apart; other = other->next)
        if (other != s && !other->is_apart && (other == usual || s == usual))
            order(s, other);
    w->kind = kind;
    *s->last = w;
    s->last = &w->next;
    return w;
}

/* ---- what every call does first -------------------------------------------------------------- */

/* Locks; not OK: the call's result, and it is unlocked again. may_fail: it may be the n-th that fails. */
static int
enter_as(bool needs_context, bool may_fail)
{
    int result = OK;

    pthread_mutex_lock(&lock);
    counts.n_calls++;
    if (interrupt_at && counts.n_calls >= interrupt_at) {
        interrupt_at = 0;
        kill(getpid(), SIGINT);
    }
    if (!started)
        result = NOT_INITIALIZED;
    else if (fail_at && counts.n_calls >= fail_at && may_fail) {
        fail_at = 0;
        n_failures++;
        result = UNKNOWN;
    } else if (needs_context && depth == 0)
        result = INVALID_CONTEXT;
    else if (needs_context && lost)
        result = lost;
    if (result != OK)
        pthread_mutex_unlock(&lock);
    return result;
}

static int
enter(bool needs_context)
{
    return enter_as(needs_context, true);
}

static int
leave(int result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- the driver ------------------------------------------------------------------------------ */

EXPORT int
cuInit(unsigned flags)
{
    const char *mb = getenv("FAKE_CUDA_MB");

    pthread_mutex_lock(&lock);
    if (!started && !flags) {
        capacity = (size_t)(mb ? atol(mb) : 4096) << 20;
        started = true;
    }
    return leave(started ? OK : UNKNOWN);
}

EXPORT int cuDriverGetVersion(int *version) { *version = 13000; return OK; }

EXPORT int
cuGetErrorName(int result, const char **name)
{
    static const struct { int result; const char *name; } names[] = {
        {OK, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"}, {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"}, {INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
        {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}, {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"}, {UNKNOWN, "CUDA_ERROR_UNKNOWN"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].result == result) {
            *name = names[i].name;
            return OK;
        }
    return INVALID_VALUE;
}

EXPORT int
cuGetErrorString(int result, const char **text)
{
    *text = result == OUT_OF_MEMORY ? "out of memory" : *why ? why : "something is wrong";
    return OK;
}

EXPORT int cuDeviceGetCount(int *n) { *n = 2; return enter(false) ? UNKNOWN : leave(OK); }

EXPORT int
cuDeviceGet(int *device, int ordinal)
{
    int result = enter(false);

    *device = ordinal;
    return result ? result : leave(ordinal < 0 || ordinal > 1 ? INVALID_DEVICE : OK);
}

EXPORT int cuDeviceGetName(char *name, int cap, int device) { snprintf(name, (size_t)cap, "no GPU %d", device); return OK; }
EXPORT int
cuDeviceTotalMem_v2(size_t *n, int device)
{
    const char *kb = getenv("FAKE_CUDA_TOTAL_KB");

    (void)device;
    *n = kb ? (size_t)atol(kb) << 10 : capacity;
    return OK;
}

EXPORT int
cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int result = enter(false);

    (void)device;
    *value = attribute == 75 ? 99 : attribute == 76 ? 0 : attribute == 16 ? 4 : attribute == 97 ? 99 << 10 : attribute == 115 ? 1
             : attribute == 13 || attribute == 36 ? 1000000 : attribute == 37 ? 4096 : attribute == 87 ? 2 : 0;
    return result ? result : leave(OK);
}

EXPORT int
cuDevicePrimaryCtxRetain(void **out, int device)
{
    int result = enter(false);

    (void)device;
    if (result)
        return result;
    *out = &context;
    counts.n_contexts++;
    return leave(OK);
}

EXPORT int
cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    pthread_mutex_lock(&lock);
    counts.n_contexts--;
    return leave(OK);
}

EXPORT int
cuCtxPushCurrent_v2(void *c)
{
    int result = enter_as(false, false);

    if (result)
        return result;
    if (c != &context)
        return leave(INVALID_CONTEXT);
    depth++;
    return leave(OK);
}

EXPORT int
cuCtxPopCurrent_v2(void **c)
{
    *c = depth ? &context : NULL;
    if (depth == 0)
        return INVALID_CONTEXT;
    depth--;
    return OK;
}

EXPORT int
cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
    int result = enter(true);

    if (result)
        return result;
    if (attribute != 9 || !find_block(address, 1))
        return leave(INVALID_VALUE);
    *(int *)value = 0;              /* nobody here makes memory elsewhere */
    return leave(OK);
}

EXPORT int
cuMemGetInfo_v2(size_t *n_free, size_t *total)
{
    int result = enter(true);

    *total = capacity;
    *n_free = capacity - counts.bytes_live;
    return result ? result : leave(OK);
}

EXPORT int
cuMemPoolCreate(void **pool, const void *properties)
{
    int result = enter(true);

    (void)properties;
    if (result)
        return result;
    *pool = malloc(1);
    counts.n_pools++;
    return leave(OK);
}

EXPORT int
cuMemPoolDestroy(void *pool)
{
    pthread_mutex_lock(&lock);
    free(pool);
    counts.n_pools--;
    return leave(OK);
}

EXPORT int cuMemPoolSetAttribute(void *pool, int a, void *value) { int r = enter(true); (void)pool, (void)a, (void)value; return r ? r : leave(OK); }
EXPORT int cuMemPoolGetAttribute(void *pool, int a, void *value) { int r = enter(true); (void)pool, (void)a; *(uint64_t *)value = counts.bytes_live; return r ? r : leave(OK); }
EXPORT int cuMemPoolTrimTo(void *pool, size_t keep) { int r = enter(true); (void)pool, (void)keep; return r ? r : leave(OK); }

EXPORT int
cuMemAllocFromPoolAsync(uint64_t *address, size_t n, void *pool, struct stream *s)
{
    int           result = enter(true);
    struct block *b;

    (void)pool, (void)s;
    if (result)
        return result;
    if (n == 0)
        return leave(INVALID_VALUE);
    if (counts.bytes_live + n > capacity || !(b = malloc(sizeof *b)))
        return leave(OUT_OF_MEMORY);
    *b = (struct block){.n_bytes = n, .bytes = malloc(n), .next = blocks};
    if (!b->bytes || n > END - top - 4096) {
        free(b->bytes);
        free(b);
        return leave(OUT_OF_MEMORY);
    }
    b->address = find_address(n);
    memset(b->bytes, 0xa5, n < 4096 ? n : 4096);  /* nobody may count on zeros */
    blocks = b;
    counts.n_blocks_live++;
    counts.bytes_live += n;
    if (counts.bytes_live > counts.bytes_peak)
        counts.bytes_peak = counts.bytes_live;
    *address = b->address;
    return leave(OK);
}

EXPORT int
cuMemFreeAsync(uint64_t address, struct stream *s)
{
    int          result = enter_as(true, false), said = OK;
    struct work *w;

    if (result)
        return result;
    if (fail_at && counts.n_calls >= fail_at) {     /* it may say what failed before, and frees all the same */
        fail_at = 0;
        n_failures++;
        said = UNKNOWN;
    }
    if (!(w = append(s, FREE)))
        return leave(OUT_OF_MEMORY);
    w->to = address;
    return leave(said);
}

/* ---- pinned memory --------------------------------------------------------------------------- */

static bool
is_pinned(const char *at, size_t n)
{
    for (struct pinned *p = pins; p; p = p->next)
        if (at >= p->bytes && (size_t)(at - p->bytes) + n <= p->n_bytes)
            return true;
    return false;
}

/* What nobody else wants to have pinned, FAKE_CUDA_PINNED_MB of it. */
EXPORT int
cuMemHostAlloc(void **out, size_t n, unsigned flags)
{
    int            result = enter(true);
    const char    *mb = getenv("FAKE_CUDA_PINNED_MB");
    struct pinned *p;

    if (result)
        return result;
    if (n == 0 || flags)
        return leave(INVALID_VALUE);
    if ((mb && counts.pinned_live + n > (uint64_t)atol(mb) << 20) || !(p = aligned_alloc(64, (sizeof *p + n + 63) / 64 * 64)))
        return leave(OUT_OF_MEMORY);
    *p = (struct pinned){.n_bytes = n, .next = pins};
    memset(p->bytes, 0xa5, n);
    pins = p;
    counts.n_pinned_live++;
    counts.pinned_live += n;
    if (counts.pinned_live > counts.pinned_peak)
        counts.pinned_peak = counts.pinned_live;
    *out = p->bytes;
    return leave(OK);
}

EXPORT int
cuMemFreeHost(void *at)
{
    pthread_mutex_lock(&lock);
    for (struct pinned **link = &pins, *p; (p = *link); link = &p->next) {
        if (p->bytes != at)
            continue;
        for (struct stream *s = streams; s; s = s->next)
            for (struct work *w = s->first; w; w = w->next)
                if (!w->is_copy && (char *)w->host >= p->bytes && (char *)w->host < p->bytes + p->n_bytes)
                    return leave(bad(INVALID_VALUE, "pinned memory", "is freed while a copy is to read or write it"));
        *link = p->next;
        counts.n_pinned_live--;
        counts.pinned_live -= p->n_bytes;
        free(p);
        return leave(OK);
    }
    return leave(INVALID_VALUE);
}

static int
copy(struct stream *s, enum kind kind, uint64_t to, uint64_t from, void *host, size_t n)
{
    int          result = enter(true);
    struct work *w;

    if (result)
        return result;
    if (!(w = append(s, kind)))
        return leave(OUT_OF_MEMORY);
    w->to = to;
    w->from = from;
    w->host = host;
    w->n_bytes = n;
    w->number = counts.n_launches;
    if (host && is_pinned(host, n)) {
        counts.n_pinned_copies++;
    } else if (kind == COPY_IN) {
        if (!(w->host = malloc(n ? n : 1)))
            return leave(OUT_OF_MEMORY);
        w->is_copy = 1;
        memcpy(w->host, host, n);
    }
    return leave(OK);
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, struct stream *s) { return copy(s, COPY_IN, to, 0, (void *)(uintptr_t)from, n); }
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, struct stream *s) { return copy(s, COPY_OUT, 0, from, to, n); }
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, struct stream *s) { return copy(s, COPY, to, from, NULL, n); }

EXPORT int
cuStreamCreate(struct stream **out, unsigned flags)
{
    int result = enter(true);

    if (result)
        return result;
    if (flags > 1)
        return leave(INVALID_VALUE);
    if (!(*out = calloc(1, sizeof **out)))
        return leave(OUT_OF_MEMORY);
    (*out)->last = &(*out)->first;
    (*out)->is_apart = flags == 1;
    (*out)->next = streams;
    streams = *out;
    counts.n_streams++;
    return leave(OK);
}

EXPORT int
cuStreamDestroy_v2(struct stream *s)
{
    pthread_mutex_lock(&lock);
    run(s);
    for (struct stream **link = &streams; *link; link = &(*link)->next)
        if (*link == s) {
            *link = s->next;
            break;
        }
    free(s);
    counts.n_streams--;
    return leave(OK);
}

EXPORT int
cuEventCreate(struct event **out, unsigned flags)
{
    int result = enter(true);

    if (result)
        return result;
    if (flags != 2 || !(*out = calloc(1, sizeof **out)))
        return leave(flags != 2 ? INVALID_VALUE : OUT_OF_MEMORY);
    return leave(OK);
}

EXPORT int
cuEventDestroy_v2(struct event *e)
{
    pthread_mutex_lock(&lock);
    e->destroyed = 1;
    if (e->n_users == 0)
        free(e);
    return leave(OK);
}

static int
append_event(struct stream *handle, struct event *e, enum kind kind)
{
    int            result = enter(true);
    struct stream *s;
    struct work   *w;

    if (result)
        return result;
    if (!(s = stream_at(handle)))
        return leave(INVALID_HANDLE);
    if (kind == WAIT && e->n_records == 0)
        return leave(OK);
    if (!(w = append(s, kind)))
        return leave(OUT_OF_MEMORY);
    if (kind == RECORD) {
        e->n_records++;
        e->stream = s;
    }
    e->n_users++;
    w->event = e;
    w->record = e->n_records;
    return leave(OK);
}

EXPORT int cuEventRecord(struct event *e, struct stream *s) { return append_event(s, e, RECORD); }
EXPORT int cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags) { (void)flags; return append_event(s, e, WAIT); }

EXPORT int
cuEventSynchronize(struct event *e)
{
    int result = enter(true);

    if (result)
        return result;
    while (e->n_done < e->n_records && e->stream->first)
        run_first(e->stream);
    return leave(lost);
}

EXPORT int
cuCtxSynchronize(void)
{
    int result = enter(true);

    if (result)
        return result;
    for (struct stream *s = streams; s; s = s->next)
        run(s);
    return leave(lost);
}

EXPORT int cuStreamSynchronize(struct stream *s) { int r = enter(true); return r ? r : leave(stream_at(s) ? run(stream_at(s)) : INVALID_HANDLE); }
EXPORT int cuStreamQuery(struct stream *s) { int r = enter(true); return r ? r : leave(!stream_at(s) ? INVALID_HANDLE : stream_at(s)->first ? NOT_READY : OK); }

EXPORT int
cuModuleLoadDataEx(struct module **out, const void *image, unsigned n, int *options, void **values)
{
    int   result = enter(true);
    char  error[1500];

    if (result)
        return result;
    if (!(*out = calloc(1, sizeof **out)))
        return leave(OUT_OF_MEMORY);
    if (!((*out)->ptx = ptx_parse(image, error, sizeof error))) {
        for (unsigned i = 0; i + 1 < n; i++)
            if (options[i] == 5 && options[i + 1] == 6)
                snprintf(values[i], (size_t)(uintptr_t)values[i + 1], "%s", error);
        snprintf(why, sizeof why, "PTX: %s", error);
        free(*out);
        *out = NULL;
        return leave(INVALID_PTX);
    }
    counts.n_modules++;
    return leave(OK);
}

EXPORT int
cuModuleUnload(struct module *m)
{
    pthread_mutex_lock(&lock);
    counts.n_modules--;
    m->unloaded = 1;
    if (m->n_users == 0)
        free_module(m);
    return leave(OK);
}

EXPORT int
cuModuleGetFunction(struct function **out, struct module *m, const char *name)
{
    int              result = enter(true);
    struct function *f;

    if (result)
        return result;
    if (!(f = calloc(1, sizeof *f)))
        return leave(OUT_OF_MEMORY);
    f->module = m;
    if (!(f->kernel = ptx_find(m->ptx, name))) {
        free(f);
        return leave(NOT_FOUND);
    }
    ptx_facts(f->kernel, &f->facts);
    f->most_shared = (48 << 10) - f->facts.shared_bytes;
    f->next = functions;
    functions = f;
    *out = f;
    return leave(OK);
}

EXPORT int
cuFuncGetAttribute(int *value, int attribute, struct function *f)
{
    int result = enter(true);

    *value = attribute == 1 ? (int)f->facts.shared_bytes : 0;
    return result ? result : leave(OK);
}

EXPORT int
cuFuncSetAttribute(struct function *f, int attribute, int value)
{
    int result = enter(true);

    if (result)
        return result;
    if (attribute != 8 || value < 0 || value + (int)f->facts.shared_bytes > 99 << 10)
        return leave(INVALID_VALUE);
    f->most_shared = (uint32_t)value;
    return leave(OK);
}

/* The parameters as they are now. */
static void **
keep_params(const struct ptx_facts *facts, void **params)
{
    void **kept = calloc(1, (size_t)facts->n_params * sizeof *kept + facts->all_params_bytes + 64);
    char  *bytes = kept ? (char *)(kept + facts->n_params) : NULL;

    for (int i = 0; kept && i < facts->n_params; i++) {
        kept[i] = bytes + facts->param_offset[i];
        memcpy(kept[i], params[i], facts->param_bytes[i]);
    }
    return kept;
}

EXPORT int
cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
               struct stream *s, void **params, void **extra)
{
    int          result = enter(true);
    struct work *w;

    if (result)
        return result;
    counts.n_launches += !stream_at(s) || !stream_at(s)->captured;
    if (extra || !gx || !gy || !gz || !bx || !by || !bz || gy > 65535 || gz > 65535 || gx > 0x7fffffff || bx * by * bz > 1024)
        return leave(INVALID_VALUE);
    if (bx * by * bz > f->facts.max_threads || f->facts.all_params_bytes > 4096 || shared > f->most_shared)
        return leave(INVALID_VALUE);
    if (!(w = append(s, LAUNCH)) || !(w->params = keep_params(&f->facts, params)))
        return leave(OUT_OF_MEMORY);
    w->function = f;
    w->number = counts.n_launches;
    f->module->n_users++;
    memcpy(w->grid, (uint32_t[]){gx, gy, gz}, sizeof w->grid);
    memcpy(w->block, (uint32_t[]){bx, by, bz}, sizeof w->block);
    w->shared = shared;
    return leave(OK);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

EXPORT int
cuStreamBeginCapture_v2(struct stream *s, int mode)
{
    int result = enter(true);

    if (result)
        return result;
    if (mode != 2 || s->captured || s->first)
        return leave(INVALID_VALUE);
    if (!(s->captured = calloc(1, sizeof *s->captured)))
        return leave(OUT_OF_MEMORY);
    s->captured->last = &s->captured->first;
    counts.n_graphs++;
    return leave(OK);
}

static void
free_graph(struct graph *g)
{
    for (struct work *w = g->first, *next; w; w = next) {
        next = w->next;
        free_work(w);
    }
    free(g);
    counts.n_graphs--;
}

EXPORT int
cuStreamEndCapture(struct stream *s, struct graph **out)
{
    int           result = enter_as(true, false);   /* (the real one ends it, too, when it fails) */
    struct graph *g;

    *out = NULL;
    if (result)
        return result;
    if (!(g = s->captured))
        return leave(INVALID_VALUE);
    s->captured = NULL;
    if (fail_at && counts.n_calls >= fail_at) {
        fail_at = 0;
        n_failures++;
        result = UNKNOWN;
    } else if (g->is_broken) {
        result = CAPTURE_INVALIDATED;
    }
    if (result)
        free_graph(g);
    else
        *out = g;
    return leave(result);
}

EXPORT int
cuStreamGetCaptureInfo_v2(struct stream *s, int *status, uint64_t *id, struct graph **graph, struct work *const **last, size_t *n)
{
    int result = enter(true);

    if (result)
        return result;
    *status = !s->captured ? 0 : s->captured->is_broken ? 2 : 1;
    *id = 1;
    *graph = s->captured;
    *last = s->captured ? &s->captured->newest : NULL;
    *n = s->captured && s->captured->newest;
    return leave(OK);
}

EXPORT int
cuGraphDestroy(struct graph *g)
{
    pthread_mutex_lock(&lock);
    free_graph(g);
    return leave(OK);
}

static void **keep_params(const struct ptx_facts *facts, void **params);

/* Becomes what does the same by itself. False: no memory. */
static bool
fill_work(struct work *w, const struct work *from)
{
    *w = *from;
    w->next = NULL;
    if (from->function) {
        w->params = keep_params(&from->function->facts, from->params);
        w->function->module->n_users++;
    }
    if (from->arg && (w->arg = malloc(from->n_bytes)))
        memcpy(w->arg, from->arg, from->n_bytes);
    return (!from->arg || w->arg) && (!from->params || w->params);
}

EXPORT int
cuGraphInstantiateWithFlags(struct executable **out, struct graph *g, unsigned long long flags)
{
    int           result = enter(true);
    struct work **last;

    if (result)
        return result;
    if (flags || !g->first || !(*out = calloc(1, sizeof **out)))
        return leave(INVALID_VALUE);
    (*out)->of = g;
    last = &(*out)->first;
    for (struct work *w = g->first; w; w = w->next) {
        if (!(*last = calloc(1, sizeof **last)) || !fill_work(*last, w))
            return leave(OUT_OF_MEMORY);
        last = &(*last)->next;
    }
    counts.n_executables++;
    return leave(OK);
}

EXPORT int
cuGraphExecDestroy(struct executable *e)
{
    pthread_mutex_lock(&lock);
    for (struct work *w = e->first, *next; w; w = next) {
        next = w->next;
        free_work(w);
    }
    free(e);
    counts.n_executables--;
    return leave(OK);
}

struct kernel_node {
    struct function *function;
    unsigned         grid[3], block[3], shared;
    void           **params, **extra;
    void            *of_library, *context;
};

EXPORT int
cuGraphExecKernelNodeSetParams_v2(struct executable *e, struct work *node, const struct kernel_node *p)
{
    int          result = enter(true);
    struct work *w = e->first, *of = e->of->first;

    if (result)
        return result;
    for (; of && of != node; of = of->next)
        w = w->next;
    if (!of || w->kind != LAUNCH || w->function != p->function || p->extra || p->of_library || p->shared > p->function->most_shared)
        return leave(INVALID_VALUE);
    free(w->params);
    if (!(w->params = keep_params(&w->function->facts, p->params)))
        return leave(OUT_OF_MEMORY);
    memcpy(w->grid, p->grid, sizeof w->grid);
    memcpy(w->block, p->block, sizeof w->block);
    w->shared = p->shared;
    return leave(OK);
}

EXPORT int
cuGraphLaunch(struct executable *e, struct stream *s)
{
    int          result = enter(true);
    struct work *w;

    if (result)
        return result;
    for (const struct work *of = e->first; of; of = of->next) {
        if (!(w = append(s, of->kind)) || !fill_work(w, of))
            return leave(OUT_OF_MEMORY);
        counts.n_launches += of->kind == LAUNCH;
    }
    counts.n_graph_launches++;
    return leave(OK);
}

/* ---- for libraries over it (fake.h) ---------------------------------------------------------- */

int
fake_begin(void)
{
    pthread_mutex_lock(&lock);
    return !started ? NOT_INITIALIZED : depth == 0 ? INVALID_CONTEXT : lost;
}

void
fake_end(void)
{
    pthread_mutex_unlock(&lock);
}

void *
fake_memory(uint64_t address, size_t n)
{
    struct block *b = find_block(address, n);

    return b ? b->bytes + (address - b->address) : NULL;
}

bool
fake_later(struct stream *s, const char *(*call)(void *arg), void *arg, size_t n_bytes)
{
    struct work *w = append(s, CALL);

    if (!w)
        return false;
    w->call = call;
    w->arg = arg;
    w->n_bytes = n_bytes;
    return true;
}
