/* The CPU behind a wall, for tests: its memory is mapped without access between calls, as that of another device would be.
 *
 * Whatever touches an array on the host without having it copied there first ends the process with SIGSEGV; so the tests
 * that pass with FRIT_BACKEND=apart show that nothing does. Calls open the wall, on all threads, until they return. */
#include "backends/backend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/call.h"
#include "backends/cpu/launch.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/pool.h"
#include "base/alloc.h"

enum { N_CLASSES = 64, LEAST_BITS = 6 };        /* blocks of 64 bytes, and each class twice the one before */
static const size_t REGION = (size_t)1 << 36;   /* addresses, not memory */
static const size_t STEP = (size_t)1 << 21;     /* by which what may be opened grows: huge pages */

/* A free block, noted beside the memory, which may not be touched. */
struct block {
    void         *at;
    struct block *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char           *region, *top;            /* what is in use ends at top */
static size_t          n_open_bytes;            /* that calls open: up to top, in steps */
static int             n_calls;                 /* that hold it open */
static struct block   *free_blocks[N_CLASSES], *spare;
static struct fr_memory_stats memory;
static atomic_ullong   n_in, n_out;

/* ---- the wall ---- */

static bool
protect(int how)
{
    return n_open_bytes == 0 || mprotect(region, n_open_bytes, how) == 0;
}

static void
enter(void)
{
    pthread_mutex_lock(&lock);
    if (n_calls++ == 0)
        protect(PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&lock);
}

static void
leave(void)
{
    pthread_mutex_lock(&lock);
    if (--n_calls == 0)
        protect(PROT_NONE);
    pthread_mutex_unlock(&lock);
}

/* ---- memory ---- */

static int
class_of(size_t n_bytes)
{
    int c = 0;

    while (((size_t)1 << (LEAST_BITS + c)) < n_bytes)
        c++;
    return c;
}

/* More of the region, if it has so much. Lock held. */
static void *
take_new(size_t n)
{
    size_t used;
    void  *p = top;

    if (!region) {
        char *at = mmap(NULL, REGION + STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (at == MAP_FAILED)
            return NULL;
        region = at + (-(uintptr_t)at & (STEP - 1));
        madvise(region, REGION, MADV_HUGEPAGE); /* of which few entries change when the wall is opened */
        p = top = region;
    }
    if (n > REGION - (size_t)(top - region))
        return NULL;
    top += n;
    used = (size_t)(top - region);
    if (used > n_open_bytes) {
        n_open_bytes = (used + STEP - 1) / STEP * STEP;
        if (n_calls)
            protect(PROT_READ | PROT_WRITE);
    }
    return p;
}

static void *
apart_alloc(const struct fr_backend *self, size_t n_bytes, struct fr_err *err)
{
    int           c = class_of(n_bytes);
    struct block *b;
    void         *p = NULL;

    (void)self;
    err->code = FR_ENOMEM;
    if (n_bytes > REGION || fr_alloc_may_fail())
        return NULL;
    pthread_mutex_lock(&lock);
    if ((b = free_blocks[c])) {
        free_blocks[c] = b->next;
        b->next = spare;
        spare = b;
        p = b->at;
        memory.pooled_bytes -= (size_t)1 << (LEAST_BITS + c);
    } else if ((b = fr_malloc(sizeof *b))) { /* to note it with when it is free */
        b->next = spare;
        spare = b;
        p = take_new((size_t)1 << (LEAST_BITS + c));
        memory.n_system++;
    }
    if (p) {
        memory.n_allocs++;
        memory.live_bytes += (n_bytes + 63) / 64 * 64;
        if (memory.live_bytes > memory.peak_bytes)
            memory.peak_bytes = memory.live_bytes;
    }
    pthread_mutex_unlock(&lock);
    return p;
}

static void
apart_free(const struct fr_backend *self, void *p, size_t n_bytes)
{
    int           c = class_of(n_bytes);
    struct block *b;

    (void)self;
    if (!p)
        return;
    pthread_mutex_lock(&lock);
    b = spare; /* there is one for each block */
    spare = b->next;
    *b = (struct block){p, free_blocks[c]};
    free_blocks[c] = b;
    memory.live_bytes -= (n_bytes + 63) / 64 * 64;
    memory.pooled_bytes += (size_t)1 << (LEAST_BITS + c);
    pthread_mutex_unlock(&lock);
}

static void
memory_stats(const struct fr_backend *self, struct fr_memory_stats *out)
{
    (void)self;
    pthread_mutex_lock(&lock);
    *out = memory;
    out->n_copies_in = n_in;
    out->n_copies_out = n_out;
    pthread_mutex_unlock(&lock);
}

static void
memory_reset_peak(const struct fr_backend *self)
{
    (void)self;
    pthread_mutex_lock(&lock);
    memory.peak_bytes = memory.live_bytes;
    pthread_mutex_unlock(&lock);
}

static fr_status
copy(const struct fr_backend *self, void *to, const void *from, size_t n_bytes, struct fr_err *err)
{
    (void)self, (void)err;
    enter();
    memcpy(to, from, n_bytes);
    leave();
    return FR_OK;
}

static fr_status
copy_in(const struct fr_backend *self, void *to, const void *host, size_t n_bytes, struct fr_err *err)
{
    atomic_fetch_add(&n_in, 1);
    return copy(self, to, host, n_bytes, err);
}

static fr_status
copy_out(const struct fr_backend *self, void *host, const void *from, size_t n_bytes, struct fr_err *err)
{
    atomic_fetch_add(&n_out, 1);
    return copy(self, host, from, n_bytes, err);
}

/* ---- the CPU's functions, with the wall open ---- */

static fr_status
launch(struct fr_kernel *k, const struct fr_instance *in, int n, struct fr_err *err)
{
    fr_status st;

    enter();
    st = fr_launch(k, in, n, err);
    leave();
    return st;
}

static fr_status
scan(const struct fr_backend *self, fr_op op, fr_dtype d, const struct fr_instance *in, struct fr_err *err)
{
    fr_status st;

    (void)self;
    enter();
    st = fr_launch_scan(op, d, in, err);
    leave();
    return st;
}

static fr_status
call(const struct fr_backend *self, const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    fr_status st;

    (void)self;
    enter();
    st = fr_call_run(c, ptr, err);
    leave();
    return st;
}

static fr_status
part(const struct fr_parts *l, const struct fr_instance *in)
{
    fr_status st;

    enter();
    st = fr_launch_part(l, in);
    leave();
    return st;
}

static bool
share(void (*task)(void *arg, int64_t i, int worker), void *arg, int64_t n)
{
    bool done;

    enter();
    done = fr_pool_run(task, arg, n);
    leave();
    return done;
}

const struct fr_backend fr_apart_backend = {
    FR_CPU_KERNELS, .name = "apart",
    .alloc = apart_alloc, .free = apart_free, .memory_stats = memory_stats, .memory_reset_peak = memory_reset_peak,
    .copy_in = copy_in, .copy_out = copy_out, .copy = copy,
    .schedule = fr_cpu_schedule, .schedule_dispatch = fr_cpu_schedule_dispatch, .schedule_near = fr_cpu_schedule_near,
    .kernel_ran = fr_cpu_kernel_ran, .kernel_wait = fr_cpu_kernel_wait, .kernel_is_compiled = fr_cpu_kernel_is_compiled,
    .launch = launch, .scan = scan, .call = call, .share = share,
    .parts_begin = fr_launch_parts_begin, .part = part, .parts_end = fr_launch_parts_end,
};
