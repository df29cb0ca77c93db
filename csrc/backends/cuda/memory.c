/* backends/cuda/memory.c -- array memory on the device, out of the driver's stream-ordered pool: what is freed may be had again
 * by whoever comes later in the stream, without waiting. */
#include <pthread.h>

#include "backends/backend.h"
#include "backends/cuda/graph.h"
#include "base/alloc.h"
#include "base/env.h"

static pthread_mutex_t        lock = PTHREAD_MUTEX_INITIALIZER;
static struct fr_memory_stats memories[FR_CUDA_DEVICES];

static struct fr_memory_stats *
memory_of(const struct fr_backend *self)
{
    return &memories[self->device - FR_DEVICE_CUDA];
}

static size_t
rounded(size_t n_bytes)
{
    return n_bytes ? (n_bytes + 63) / 64 * 64 : 64;
}

/* What users say that arrays may have there; else all of it. */
static size_t
limit_of(const struct fr_cuda_device *d)
{
    const size_t limit = (size_t)fr_env.device_mb << 20;

    return limit && limit < d->n_bytes ? limit : d->n_bytes;
}

/* Of that. */
static size_t
left_of(const struct fr_cuda_device *d)
{
    const size_t limit = limit_of(d);
    size_t       live;

    pthread_mutex_lock(&lock);
    live = memories[d->ordinal].live_bytes;
    pthread_mutex_unlock(&lock);
    return live < limit ? limit - live : 0;
}

/* What the driver could give, where it says so. */
static size_t
measure(const struct fr_backend *self, size_t left)
{
    struct fr_cuda_device *d;
    struct fr_err          ignored;
    size_t                 n_free = 0, n_all;
    uint64_t               has = 0, uses = 0;

    if (fr_cuda_enter(self, &d, &ignored) != FR_OK)
        return left;
    if (d->driver->memory_info(&n_free, &n_all) == FR_CUDA_OK &&
        d->driver->pool_get(d->pool, FR_CUDA_POOL_HAS, &has) == FR_CUDA_OK &&
        d->driver->pool_get(d->pool, FR_CUDA_POOL_USES, &uses) == FR_CUDA_OK && n_free + (has - uses) < left)
        left = n_free + (has - uses);
    fr_cuda_leave(d);
    return left;
}

/* What others have there is only asked for where it may matter: that takes a while, and this is called for each evaluation. */
size_t
fr_cuda_room(const struct fr_backend *self, size_t wanted)
{
    const struct fr_cuda_device *d = fr_cuda_opened(self);
    size_t                       left;

    if (!d) /* who allocates will say why */
        return wanted;
    left = left_of(d);
    if (wanted > left / 4)
        left = measure(self, left);
    return left < wanted ? left : wanted;
}

int
fr_cuda_alloc_there(struct fr_cuda_device *d, size_t n_bytes, uint64_t *address)
{
    int result;

    *address = 0;
    if (fr_alloc_may_fail())
        return FR_CUDA_OUT_OF_MEMORY;
    result = d->driver->alloc(address, n_bytes, d->pool, d->stream);
    if (result == FR_CUDA_OUT_OF_MEMORY) {
        if (d->driver->stream_wait(d->stream) == FR_CUDA_OK)
            d->driver->pool_trim(d->pool, 0);
        result = d->driver->alloc(address, n_bytes, d->pool, d->stream);
    }
    if (result != FR_CUDA_OK)
        *address = 0;
    return result;
}

void *
fr_cuda_alloc(const struct fr_backend *self, size_t n_bytes, struct fr_err *err)
{
    struct fr_memory_stats *m = memory_of(self);
    struct fr_cuda_device  *d;
    uint64_t               address = 0;
    size_t                 n = rounded(n_bytes);
    int                    result;

    if (fr_cuda_enter(self, &d, err) != FR_OK)
        return NULL;
    result = fr_env.device_mb && n > left_of(d) ? FR_CUDA_OUT_OF_MEMORY : fr_cuda_alloc_there(d, n, &address);
    fr_cuda_leave(d);
    if (fr_cuda_check(result, "memory of the device", err) != FR_OK)
        return NULL;
    pthread_mutex_lock(&lock);
    m->n_allocs++;
    m->live_bytes += n;
    if (m->live_bytes > m->peak_bytes)
        m->peak_bytes = m->live_bytes;
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)address;
}

/* In a child of the process that has the device there is nothing to free. */
void
fr_cuda_free(const struct fr_backend *self, void *p, size_t n_bytes)
{
    struct fr_cuda_device *d;
    struct fr_err          ignored;

    if (!p)
        return;
    if (fr_cuda_enter(self, &d, &ignored) == FR_OK) {
        d->driver->free((uint64_t)(uintptr_t)p, d->stream);
        fr_cuda_leave(d);
    }
    pthread_mutex_lock(&lock);
    memory_of(self)->live_bytes -= rounded(n_bytes);
    pthread_mutex_unlock(&lock);
}

void
fr_cuda_memory_stats(const struct fr_backend *self, struct fr_memory_stats *out)
{
    pthread_mutex_lock(&lock);
    *out = *memory_of(self);
    pthread_mutex_unlock(&lock);
}

void
fr_cuda_memory_reset_peak(const struct fr_backend *self)
{
    pthread_mutex_lock(&lock);
    memory_of(self)->peak_bytes = memory_of(self)->live_bytes;
    pthread_mutex_unlock(&lock);
}

void
fr_cuda_memory_trim(const struct fr_backend *self)
{
    struct fr_cuda_device *d;
    struct fr_err          ignored;

    if (!fr_cuda_is_open(self) || fr_cuda_enter(self, &d, &ignored) != FR_OK) /* nobody has wanted a device yet */
        return;
    if (fr_cuda_wait(d, &ignored) == FR_OK)
        d->driver->pool_trim(d->pool, 0);
    fr_cuda_staging_free(d);
    fr_cuda_leave(d);
}

static void
count(uint64_t *n)
{
    pthread_mutex_lock(&lock);
    ++*n;
    pthread_mutex_unlock(&lock);
}

/* The driver has read the host's memory when it returns, which is not pinned. */
static fr_status
copy_in(const struct fr_backend *self, void *to, const void *host, size_t n_bytes, bool beside, struct fr_err *err)
{
    struct fr_cuda_device *d;
    fr_status              st = fr_cuda_enter(self, &d, err);

    if (st != FR_OK)
        return st;
    if ((st = fr_cuda_needs_host(d, err)) == FR_OK)
        st = fr_cuda_bring_in(d, to, host, n_bytes, beside, err);
    if (st == FR_ENOTSUP)
        st = n_bytes == 0 ? FR_OK
                          : fr_cuda_check(d->driver->copy_in((uint64_t)(uintptr_t)to, host, n_bytes, d->stream), "a copy to the device", err);
    fr_cuda_leave(d);
    count(&memory_of(self)->n_copies_in);
    return st;
}

static fr_status
copy_out(const struct fr_backend *self, void *host, const void *from, size_t n_bytes, bool beside, struct fr_err *err)
{
    struct fr_cuda_device *d;
    fr_status              st = fr_cuda_enter(self, &d, err);

    if (st != FR_OK)
        return st;
    if ((st = fr_cuda_needs_host(d, err)) == FR_OK)
        st = fr_cuda_bring_out(d, host, from, n_bytes, beside, err);
    if (st == FR_ENOTSUP) {
        st = n_bytes == 0 ? FR_OK
                          : fr_cuda_check(d->driver->copy_out(host, (uint64_t)(uintptr_t)from, n_bytes, d->stream), "a copy from the device", err);
        if (st == FR_OK)
            st = fr_cuda_wait(d, err);
    }
    fr_cuda_leave(d);
    count(&memory_of(self)->n_copies_out);
    return st;
}

fr_status
fr_cuda_copy_in(const struct fr_backend *self, void *to, const void *host, size_t n_bytes, struct fr_err *err)
{
    return copy_in(self, to, host, n_bytes, false, err);
}

fr_status
fr_cuda_copy_out(const struct fr_backend *self, void *host, const void *from, size_t n_bytes, struct fr_err *err)
{
    return copy_out(self, host, from, n_bytes, false, err);
}

fr_status
fr_cuda_copy_in_beside(const struct fr_backend *self, void *to, const void *host, size_t n_bytes, struct fr_err *err)
{
    return copy_in(self, to, host, n_bytes, true, err);
}

fr_status
fr_cuda_copy_out_beside(const struct fr_backend *self, void *host, const void *from, size_t n_bytes, struct fr_err *err)
{
    return copy_out(self, host, from, n_bytes, true, err);
}

fr_status
fr_cuda_mark(const struct fr_backend *self, struct fr_err *err)
{
    struct fr_cuda_device *d;
    fr_status              st = fr_cuda_enter(self, &d, err);

    if (st != FR_OK)
        return st;
    st = fr_cuda_set_mark(d, err);
    fr_cuda_leave(d);
    return st;
}

fr_status
fr_cuda_copy(const struct fr_backend *self, void *to, const void *from, size_t n_bytes, struct fr_err *err)
{
    struct fr_cuda_device *d;
    fr_status              st = fr_cuda_enter(self, &d, err);

    if (st != FR_OK)
        return st;
    st = fr_cuda_start_copy(d, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, n_bytes, err);
    fr_cuda_leave(d);
    return st;
}
