/* backends/meta/backend.c -- see meta.h. Kernels, schedules and threads are the CPU's, so that plans are, too; they run
 * where values are known (runtime/known.c). */
#include "backends/meta/meta.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/cpu/launch.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/pool.h"
#include "base/alloc.h"

/* No processor has memory at such addresses, so they are none of the host's: those that count as allocated, and the others. */
#define FIRST ((uintptr_t)1 << 56)
#define MIDDLE ((uintptr_t)1 << 61)
#define LAST ((uintptr_t)1 << 62)
enum { LINE = 64 };
static const size_t MOST = (size_t)1 << 46;      /* of one array, as of the host's */

struct known {
    const char   *at, *bytes;
    size_t        n_bytes;
    struct known *next;
};

static pthread_mutex_t        lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t              next_at = FIRST, next_reserved = MIDDLE;
static struct fr_memory_stats memory;
static struct known          *all_known;
static bool                   counts;            /* since fr_meta_begin, when there was: */
static int64_t                meta_at_first, host_at_first;
static uint64_t               peak_before;

/* ---- memory ---- */

static bool
is_ours(const void *p)
{
    return (uintptr_t)p >= FIRST && (uintptr_t)p < LAST;
}

/* The next of them, which end at `last`. Lock held. */
static void *
take(uintptr_t *next, uintptr_t last, size_t n_bytes)
{
    const uintptr_t at = *next;

    if (n_bytes > MOST || n_bytes > last - at - LINE)
        return NULL;
    *next += (n_bytes + LINE) / LINE * LINE; /* empty arrays have addresses of their own, too */
    return (char *)0 + at;
}

void *
fr_meta_reserve(size_t n_bytes)
{
    void *p;

    pthread_mutex_lock(&lock);
    p = take(&next_reserved, LAST, n_bytes);
    pthread_mutex_unlock(&lock);
    return p;
}

static void *
meta_alloc(const struct fr_backend *self, size_t n_bytes, struct fr_err *err)
{
    void *p;

    (void)self;
    err->code = FR_ENOMEM;
    if (fr_alloc_may_fail())
        return NULL;
    pthread_mutex_lock(&lock);
    if ((p = take(&next_at, MIDDLE, n_bytes))) {
        memory.n_allocs++;
        memory.live_bytes += n_bytes;
        if (memory.live_bytes > memory.peak_bytes)
            memory.peak_bytes = memory.live_bytes;
        if (counts)
            fr_memory_count((int64_t)n_bytes);
    }
    pthread_mutex_unlock(&lock);
    return p;
}

static void
meta_free(const struct fr_backend *self, void *p, size_t n_bytes)
{
    (void)self;
    if (!p)
        return;
    fr_meta_forget(p, n_bytes);
    if ((uintptr_t)p >= MIDDLE)
        return;
    pthread_mutex_lock(&lock);
    FR_ASSERT(memory.live_bytes >= n_bytes);
    memory.live_bytes -= n_bytes;
    if (counts)
        fr_memory_count(-(int64_t)n_bytes);
    pthread_mutex_unlock(&lock);
}

static int64_t
host_live(void)
{
    struct fr_memory_stats m;

    fr_memory_stats(&m);
    return (int64_t)m.live_bytes;
}

void
fr_meta_begin(void)
{
    pthread_mutex_lock(&lock);
    counts = true;
    meta_at_first = (int64_t)memory.live_bytes;
    host_at_first = host_live();
    peak_before = fr_memory_take_peak(0);
    pthread_mutex_unlock(&lock);
}

void
fr_meta_end(int64_t *peak_bytes, int64_t *live_bytes)
{
    int64_t live;

    pthread_mutex_lock(&lock);
    counts = false;
    live = (int64_t)memory.live_bytes - meta_at_first;
    *live_bytes = live + host_live() - host_at_first;
    *peak_bytes = (int64_t)fr_memory_take_peak(0) - host_at_first;
    fr_memory_count(-live);
    fr_memory_take_peak(peak_before);
    pthread_mutex_unlock(&lock);
}

static void
memory_stats(const struct fr_backend *self, struct fr_memory_stats *out)
{
    (void)self;
    pthread_mutex_lock(&lock);
    *out = memory;
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

static void
memory_trim(const struct fr_backend *self)
{
    (void)self;
}

/* ---- what is known ---- */

fr_status
fr_meta_know(const void *at, const void *bytes, size_t n_bytes, bool is_copied, struct fr_err *err)
{
    struct known *k = fr_malloc(sizeof *k + (is_copied ? n_bytes : 0));

    if (!k)
        return fr_no_memory(err, "known values");
    *k = (struct known){.at = at, .n_bytes = n_bytes, .bytes = is_copied ? (char *)(k + 1) : bytes};
    if (is_copied && n_bytes)
        memcpy(k + 1, bytes, n_bytes);
    fr_meta_forget(at, n_bytes);
    pthread_mutex_lock(&lock);
    k->next = all_known;
    all_known = k;
    pthread_mutex_unlock(&lock);
    return FR_OK;
}

void
fr_meta_forget(const void *at, size_t n_bytes)
{
    struct known **k = &all_known;

    pthread_mutex_lock(&lock);
    while (*k) {
        struct known *old = *k;

        if (old->at < (const char *)at + n_bytes && (const char *)at < old->at + old->n_bytes) {
            *k = old->next;
            fr_free(old);
        } else {
            k = &old->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* Lock held. */
static const char *
find(const char *at, size_t n_bytes)
{
    for (const struct known *k = all_known; k; k = k->next)
        if (at >= k->at && n_bytes <= k->n_bytes && (size_t)(at - k->at) <= k->n_bytes - n_bytes)
            return k->bytes + (at - k->at);
    return NULL;
}

const void *
fr_meta_known(const void *at, size_t n_bytes)
{
    const void *bytes;

    if (!is_ours(at))
        return at;
    pthread_mutex_lock(&lock);
    bytes = find(at, n_bytes);
    pthread_mutex_unlock(&lock);
    return bytes;
}

/* ---- copies ---- */

static fr_status
copy_in(const struct fr_backend *self, void *to, const void *host, size_t n_bytes, struct fr_err *err)
{
    (void)self;
    return fr_meta_know(to, host, n_bytes, true, err);
}

static fr_status
copy_out(const struct fr_backend *self, void *host, const void *from, size_t n_bytes, struct fr_err *err)
{
    const char *bytes;

    if (!is_ours(from))
        return fr_cpu_copy(self, host, from, n_bytes, err);
    pthread_mutex_lock(&lock);
    if ((bytes = find(from, n_bytes)))
        memcpy(host, bytes, n_bytes);
    pthread_mutex_unlock(&lock);
    return bytes || n_bytes == 0 ? FR_OK : fr_fail(err, FR_ENODATA, "a value is needed, and the array has no data (device \"meta\")");
}

static fr_status
copy(const struct fr_backend *self, void *to, const void *from, size_t n_bytes, struct fr_err *err)
{
    if (!is_ours(to))
        return fr_cpu_copy(self, to, from, n_bytes, err);
    fr_meta_forget(to, n_bytes);
    return FR_OK;
}

static fr_status
order(const struct fr_backend *self, uint64_t stream, bool ours_first, struct fr_err *err)
{
    (void)self, (void)stream, (void)ours_first, (void)err;
    return FR_OK;
}

/* What a kernel costs is no reason to compile it here. */
static void
kernel_ran(struct fr_kernel *k, uint64_t us)
{
    (void)k, (void)us;
}

const struct fr_backend fr_meta_backend = {
    .name = "meta", .device = FR_DEVICE_META, .has_no_data = true,
    .alloc = meta_alloc, .free = meta_free, .memory_stats = memory_stats, .memory_reset_peak = memory_reset_peak,
    .memory_trim = memory_trim, .order = order, .copy_in = copy_in, .copy_out = copy_out, .copy = copy,
    .schedule = fr_cpu_schedule, .schedule_dispatch = fr_cpu_schedule_dispatch, .schedule_near = fr_cpu_schedule_near,
    .kernel_new = fr_cpu_kernel_new, .kernel_free = fr_cpu_kernel_free, .bind = fr_cpu_bind, .kernel_ran = kernel_ran,
    .kernel_wait = fr_cpu_kernel_wait, .kernel_is_compiled = fr_cpu_kernel_is_compiled,
    .launch = fr_launch, .scan = fr_cpu_scan, .call = fr_cpu_call, .chooser = &fr_meta_chooser, .n_workers = fr_pool_size, .share = fr_pool_run,
    .parts_begin = fr_launch_parts_begin, .part = fr_launch_part, .parts_end = fr_launch_parts_end,
};
