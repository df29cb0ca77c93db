/* backends/cuda/transfer.c -- large copies, by way of two buffers of pinned memory: while one of them is copied by the
 * device, the host's threads fill or empty the other. (From and to memory that is not pinned the driver does the same
 * with a single thread.)
 *
 * They have streams of their own, one for each direction, so that kernels go on beside them. */
#include "backends/cuda/transfer.h"

#include <pthread.h>
#include <string.h>

#include "backends/cuda/device.h"
#include "base/tune.h"

enum { PIECE = 256 << 10 };     /* bytes that a thread copies at a time */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* of every device's */

/* ---- pinned memory --------------------------------------------------------------------------- */

enum { N_STREAMS = 2, N_EVENTS = 4 };

static void
list(struct fr_cuda_staging *s, fr_cuda_stream **streams, fr_cuda_event **events)
{
    memcpy(streams, (fr_cuda_stream *[]){&s->in, &s->out}, N_STREAMS * sizeof *streams);
    memcpy(events, (fr_cuda_event *[]){&s->done[0], &s->done[1], &s->before, &s->mark}, N_EVENTS * sizeof *events);
}

/* What is under way must have ended. */
static void
let_go(struct fr_cuda_device *d)
{
    struct fr_cuda_staging *s = &d->staging;
    fr_cuda_stream         *stream[N_STREAMS];
    fr_cuda_event          *event[N_EVENTS];

    list(s, stream, event);
    for (int i = 0; i < 2; i++)
        if (s->half[i])
            d->driver->host_free(s->half[i]);
    for (int i = 0; i < N_EVENTS; i++)
        if (*event[i])
            d->driver->event_free(*event[i]);
    for (int i = 0; i < N_STREAMS; i++)
        if (*stream[i])
            d->driver->stream_free(*stream[i]);
    *s = (struct fr_cuda_staging){0};
}

/* False: there is none to be had, now. */
static bool
make(struct fr_cuda_device *d)
{
    struct fr_cuda_staging *s = &d->staging;
    fr_cuda_stream         *stream[N_STREAMS];
    fr_cuda_event          *event[N_EVENTS];
    bool                    well;

    if (s->half[0])
        return true;
    s->n_bytes = (size_t)fr_tune.staging_kb << 10;
    well = s->n_bytes > 0;
    list(s, stream, event);
    for (int i = 0; i < N_STREAMS; i++)
        well = well && d->driver->stream_new(stream[i], FR_CUDA_NON_BLOCKING) == FR_CUDA_OK;
    for (int i = 0; i < N_EVENTS; i++)
        well = well && d->driver->event_new(event[i], FR_CUDA_EVENT_UNTIMED) == FR_CUDA_OK;
    for (int i = 2; i-- > 0;)
        well = well && d->driver->host_alloc((void **)&s->half[i], s->n_bytes, 0) == FR_CUDA_OK;
    if (!well)
        let_go(d);
    return well;
}

/* Until nothing reads or writes pinned memory, whether it went well or not. */
static void
settle(struct fr_cuda_device *d)
{
    struct fr_cuda_staging *s = &d->staging;

    if (s->in)
        d->driver->stream_wait(s->in);
    if (s->out)
        d->driver->stream_wait(s->out);
    s->is_busy[0] = s->is_busy[1] = false;
}

void
fr_cuda_staging_free(struct fr_cuda_device *d)
{
    pthread_mutex_lock(&lock);
    settle(d);
    let_go(d);
    pthread_mutex_unlock(&lock);
}

/* ---- the host's part ------------------------------------------------------------------------- */

struct bytes {
    char       *to;
    const char *from;
    size_t      n;
};

static void
copy_piece(void *arg, int64_t i, int worker)
{
    const struct bytes *b = arg;
    const size_t        at = (size_t)i * PIECE;

    (void)worker;
    memcpy(b->to + at, b->from + at, b->n - at < PIECE ? b->n - at : PIECE);
}

/* By all threads, where the host has some. Nobody is asked for an interrupt: a copy is short, and is made whole. */
static void
copy_on_host(char *to, const char *from, size_t n)
{
    struct bytes b = {to, from, n};
    bool       (*poll)(void) = fr_backend_interrupted;
    bool         done;

    if (!fr_backend->share || n <= PIECE) {
        memcpy(to, from, n);
        return;
    }
    fr_backend_interrupted = NULL;
    done = fr_backend->share(copy_piece, &b, (int64_t)((n + PIECE - 1) / PIECE));
    fr_backend_interrupted = poll;
    if (!done) /* (a child of this process has no such threads) */
        memcpy(to, from, n);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static fr_status
wait_for(struct fr_cuda_device *d, int i, struct fr_err *err)
{
    struct fr_cuda_staging *s = &d->staging;
    fr_status               st = FR_OK;

    if (s->is_busy[i])
        st = fr_cuda_check(d->driver->event_wait(s->done[i]), "a copy between host and device", err);
    s->is_busy[i] &= st != FR_OK;
    return st;
}

/* A half is busy from here on, until what was begun in the stream is done. */
static fr_status
note_busy(struct fr_cuda_device *d, int i, fr_cuda_stream stream, struct fr_err *err)
{
    d->staging.is_busy[i] = true;
    return fr_cuda_check(d->driver->event_record(d->staging.done[i], stream), "an event", err);
}

/* What comes in the stream of a copy waits for what was begun there. */
static fr_status
begin(struct fr_cuda_device *d, fr_cuda_stream stream, bool beside, struct fr_err *err)
{
    struct fr_cuda_staging *s = &d->staging;
    fr_status               st = FR_OK;

    if (!beside)
        TRY(fr_cuda_check(d->driver->event_record(s->before, d->stream), "an event", err));
    TRY(fr_cuda_check(d->driver->stream_wait_event(stream, beside ? s->mark : s->before, 0), "an event", err));
out:
    return st;
}

static fr_status
bring_in(struct fr_cuda_device *d, uint64_t to, const char *host, size_t n_bytes, bool beside, struct fr_err *err)
{
    struct fr_cuda_staging *s = &d->staging;
    int                     i = 0;
    fr_status               st;

    TRY(begin(d, s->in, beside, err));
    for (size_t at = 0, n; at < n_bytes; at += n, i ^= 1) {
        n = n_bytes - at < s->n_bytes ? n_bytes - at : s->n_bytes;
        TRY(wait_for(d, i, err));
        copy_on_host(s->half[i], host + at, n);
        TRY(fr_cuda_check(d->driver->copy_in(to + at, s->half[i], n, s->in), "a copy to the device", err));
        TRY(note_busy(d, i, s->in, err));
    }
    TRY(fr_cuda_check(d->driver->stream_wait_event(d->stream, s->done[i ^ 1], 0), "an event", err));
out:
    return st;
}

/* The next bytes come into a half: as many as it has room for, or as there are. */
static fr_status
begin_out(struct fr_cuda_device *d, int i, uint64_t from, size_t n, size_t *begun, struct fr_err *err)
{
    struct fr_cuda_staging *s = &d->staging;
    const size_t            at = *begun;
    fr_status               st;

    n = n - at < s->n_bytes ? n - at : s->n_bytes;
    TRY(wait_for(d, i, err));
    TRY(fr_cuda_check(d->driver->copy_out(s->half[i], from + at, n, s->out), "a copy from the device", err));
    TRY(note_busy(d, i, s->out, err));
    *begun = at + n;
out:
    return st;
}

static fr_status
bring_out(struct fr_cuda_device *d, char *host, uint64_t from, size_t n_bytes, bool beside, struct fr_err *err)
{
    struct fr_cuda_staging *s = &d->staging;
    size_t                  begun = 0, next;
    int                     i = 0;
    fr_status               st;

    TRY(begin(d, s->out, beside, err));
    TRY(begin_out(d, 0, from, n_bytes, &begun, err));
    for (size_t at = 0; at < n_bytes; at = next, i ^= 1) {
        next = begun;
        if (begun < n_bytes)
            TRY(begin_out(d, i ^ 1, from, n_bytes, &begun, err));
        TRY(wait_for(d, i, err));
        copy_on_host(host + at, s->half[i], next - at);
    }
out:
    return st;
}

/* Copies beside kernels are as large as whoever asks for them wants; they never make what would have to be marked. */
static bool
suits(struct fr_cuda_device *d, size_t n_bytes, bool beside)
{
    if (beside)
        return d->staging.is_marked && n_bytes > 0;
    return n_bytes > 0 && n_bytes >= (size_t)fr_tune.staged_kb << 10 && make(d);
}

fr_status
fr_cuda_bring_in(struct fr_cuda_device *d, void *to, const void *host, size_t n_bytes, bool beside, struct fr_err *err)
{
    fr_status st = FR_ENOTSUP;

    pthread_mutex_lock(&lock);
    if (suits(d, n_bytes, beside) && (st = bring_in(d, (uint64_t)(uintptr_t)to, host, n_bytes, beside, err)) != FR_OK)
        settle(d);
    pthread_mutex_unlock(&lock);
    return st;
}

fr_status
fr_cuda_bring_out(struct fr_cuda_device *d, void *host, const void *from, size_t n_bytes, bool beside,
                  struct fr_err *err)
{
    fr_status st = FR_ENOTSUP;

    pthread_mutex_lock(&lock);
    if (suits(d, n_bytes, beside) &&
        (st = bring_out(d, host, (uint64_t)(uintptr_t)from, n_bytes, beside, err)) != FR_OK)
        settle(d);
    pthread_mutex_unlock(&lock);
    return st;
}

fr_status
fr_cuda_set_mark(struct fr_cuda_device *d, struct fr_err *err)
{
    fr_status st = FR_OK;

    pthread_mutex_lock(&lock);
    if (make(d)) {
        st = fr_cuda_check(d->driver->event_record(d->staging.mark, d->stream), "an event", err);
        d->staging.is_marked = st == FR_OK;
    }
    pthread_mutex_unlock(&lock);
    return st;
}
