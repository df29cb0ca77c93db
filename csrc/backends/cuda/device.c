#include "backends/cuda/graph.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/env.h"
#include "base/log.h"

static pthread_mutex_t       lock = PTHREAD_MUTEX_INITIALIZER;
static struct fr_cuda_device devices[FR_CUDA_DEVICES];
static atomic_bool           is_open[FR_CUDA_DEVICES];

static int
ordinal_of(const struct fr_backend *b)
{
    return b->device - FR_DEVICE_CUDA;
}

fr_status
fr_cuda_attribute(const struct fr_cuda_device *d, int which, int *out, struct fr_err *err)
{
    return fr_cuda_check(d->driver->attribute(out, which, d->handle), "an attribute of the device", err);
}

static fr_status
find(struct fr_cuda_device *d, struct fr_err *err)
{
    int       n = 0, major = 0, minor = 0, has_pools = 0;
    fr_status st;

    TRY(fr_cuda_driver(&d->driver, err));
    TRY(fr_cuda_check(d->driver->count(&n), "the number of devices", err));
    if (d->ordinal >= n)
        TRY(fr_fail(err, FR_EDEVICE, n == 0 ? "the CUDA driver has no device" : "there is no device cuda:%d; the last one is cuda:%d",
                    d->ordinal, n - 1));
    TRY(fr_cuda_check(d->driver->get(&d->handle, d->ordinal), "the device", err));
    TRY(fr_cuda_check(d->driver->name(d->name, (int)sizeof d->name, d->handle), "the name of the device", err));
    TRY(fr_cuda_check(d->driver->total_memory(&d->n_bytes, d->handle), "the memory of the device", err));
    TRY(fr_cuda_attribute(d, FR_CUDA_MAJOR, &major, err));
    TRY(fr_cuda_attribute(d, FR_CUDA_MINOR, &minor, err));
    TRY(fr_cuda_attribute(d, FR_CUDA_MULTIPROCESSORS, &d->n_multiprocessors, err));
    TRY(fr_cuda_attribute(d, FR_CUDA_SHARED_OPTIN, &d->shared_bytes, err));
    TRY(fr_cuda_attribute(d, FR_CUDA_HAS_POOLS, &has_pools, err));
    d->arch = 10 * major + minor;
    if (!has_pools)
        TRY(fr_fail(err, FR_EDEVICE, "cuda:%d, %s, has no memory pools", d->ordinal, d->name));
out:
    return st;
}

/* Undoes what open_device has done; NULLs are fine. */
static void
let_go(struct fr_cuda_device *d)
{
    fr_cuda_context ignored;

    if (d->context) {
        if (d->driver->context_push(d->context) == FR_CUDA_OK) {
            fr_cuda_graphs_close(d);
            fr_cublas_close(d);
            fr_cuda_staging_free(d);
            if (d->pool)
                d->driver->pool_free(d->pool);
            if (d->stream)
                d->driver->stream_free(d->stream);
            d->driver->context_pop(&ignored);
        }
        d->driver->context_release(d->handle);
    }
    *d = (struct fr_cuda_device){0};
}

static fr_status
open_device(struct fr_cuda_device *d, struct fr_err *err)
{
    struct fr_cuda_pool_properties of = {.kind = 1, .place = 1};
    uint64_t        all = UINT64_MAX;
    fr_cuda_context ignored;
    bool            entered = false;
    fr_status       st;

    TRY(find(d, err));
    of.ordinal = d->handle;
    TRY(fr_cuda_check(d->driver->context_retain(&d->context, d->handle), "the context of the device", err));
    TRY(fr_cuda_check(d->driver->context_push(d->context), "the context of the device", err));
    entered = true;
    TRY(fr_cuda_check(d->driver->stream_new(&d->stream, FR_CUDA_NON_BLOCKING), "a stream", err));
    TRY(fr_cuda_check(d->driver->pool_new(&d->pool, &of), "a pool of memory", err));
    /* What is free stays: without this every wait would give it back to the system. */
    TRY(fr_cuda_check(d->driver->pool_set(d->pool, FR_CUDA_POOL_KEEPS, &all), "a pool of memory", err));
    if (fr_env.debug >= 1)
        fr_log(1, "cuda:%d is %s, sm_%d, %d multiprocessors, %zu MB; %s", d->ordinal, d->name, d->arch, d->n_multiprocessors,
               d->n_bytes >> 20, fr_cuda_driver_path());
out:
    if (entered)
        d->driver->context_pop(&ignored);
    if (st != FR_OK)
        let_go(d);
    return st;
}

/* Opens it, if that has not been done. */
static fr_status
open_once(const struct fr_backend *b, struct fr_err *err)
{
    const int ordinal = ordinal_of(b);
    fr_status st = FR_OK;

    pthread_mutex_lock(&lock);
    if (!is_open[ordinal]) {
        devices[ordinal].backend = b;
        devices[ordinal].ordinal = ordinal;
        if ((st = open_device(&devices[ordinal], err)) == FR_OK)
            is_open[ordinal] = true;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

fr_status
fr_cuda_enter(const struct fr_backend *b, struct fr_cuda_device **out, struct fr_err *err)
{
    const int                    ordinal = ordinal_of(b);
    const struct fr_cuda_driver *driver;
    fr_status                    st = FR_OK;

    *out = NULL;
    if (FR_UNLIKELY(!is_open[ordinal]))
        st = open_once(b, err);
    if (st != FR_OK || (st = fr_cuda_driver(&driver, err)) != FR_OK || /* a child of the process that opened it? */
        (st = fr_cuda_check(driver->context_push(devices[ordinal].context), "the context of the device", err)) != FR_OK)
        return st;
    *out = &devices[ordinal];
    return FR_OK;
}

const struct fr_cuda_device *
fr_cuda_opened(const struct fr_backend *b)
{
    struct fr_err ignored;

    return is_open[ordinal_of(b)] || open_once(b, &ignored) == FR_OK ? &devices[ordinal_of(b)] : NULL;
}

void
fr_cuda_leave(struct fr_cuda_device *d)
{
    fr_cuda_context ignored;

    d->driver->context_pop(&ignored);
}

fr_status
fr_cuda_wait(struct fr_cuda_device *d, struct fr_err *err)
{
    return fr_cuda_check(d->driver->stream_wait(d->stream), "work on the device", err);
}

/* A handle that others made may be one of a stream that is no more, and the driver does not tell: whoever names such a one waits
 * for all of the device. 1 and 2 are the driver's names of streams that are always there. */
enum { ANY_STREAM, LEGACY_STREAM, STREAM_OF_THREAD };

fr_status
fr_cuda_order(const struct fr_backend *b, uint64_t stream, bool ours_first, struct fr_err *err)
{
    struct fr_cuda_device *d;
    fr_cuda_stream         theirs = (fr_cuda_stream)(uintptr_t)(stream == ANY_STREAM ? LEGACY_STREAM : stream);
    fr_cuda_event          event = NULL;
    fr_status              st = fr_cuda_enter(b, &d, err);

    if (st != FR_OK)
        return st;
    if (!ours_first && stream > STREAM_OF_THREAD) {
        st = fr_cuda_check(d->driver->context_wait(), "work on the device", err);
        goto out;
    }
    TRY(fr_cuda_check(d->driver->event_new(&event, FR_CUDA_EVENT_UNTIMED), "an event", err));
    TRY(fr_cuda_check(d->driver->event_record(event, ours_first ? d->stream : theirs), "an event", err));
    TRY(fr_cuda_check(d->driver->stream_wait_event(ours_first ? theirs : d->stream, event, 0), "an event", err));
out:
    if (event)
        d->driver->event_free(event);
    fr_cuda_leave(d);
    return st;
}

fr_status
fr_cuda_at(uint64_t address, int *ordinal, struct fr_err *err)
{
    struct fr_cuda_device *d;
    fr_status              st = fr_cuda_enter(&fr_cuda_backends[0], &d, err);

    if (st != FR_OK)
        return st;
    if (d->driver->pointer(ordinal, FR_CUDA_POINTER_ORDINAL, address) != FR_CUDA_OK || *ordinal >= FR_CUDA_DEVICES)
        st = fr_fail(err, FR_EVALUE, "there is no memory of a CUDA device at %#llx", (unsigned long long)address);
    fr_cuda_leave(d);
    return st;
}

uint64_t
fr_cuda_stream_of(const struct fr_backend *b)
{
    return (uint64_t)(uintptr_t)devices[ordinal_of(b)].stream;
}

bool
fr_cuda_is_open(const struct fr_backend *b)
{
    return is_open[ordinal_of(b)];
}

int
fr_cuda_count(void)
{
    const struct fr_cuda_driver *driver;
    struct fr_err                ignored;
    int                          n = 0;

    pthread_mutex_lock(&lock);
    if (fr_cuda_driver(&driver, &ignored) != FR_OK || driver->count(&n) != FR_CUDA_OK)
        n = 0;
    pthread_mutex_unlock(&lock);
    return n < FR_CUDA_DEVICES ? n : FR_CUDA_DEVICES;
}

void
fr_cuda_close(void)
{
    const struct fr_cuda_driver *driver;
    struct fr_err                ignored;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < FR_CUDA_DEVICES; i++) {
        if (is_open[i] && fr_cuda_driver(&driver, &ignored) == FR_OK) {
            driver->stream_wait(devices[i].stream);
            let_go(&devices[i]);
        }
        is_open[i] = false;
    }
    pthread_mutex_unlock(&lock);
}
