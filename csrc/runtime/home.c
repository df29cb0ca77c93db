/* Where buffers are: in the host's memory, or in that of a backend that has its own.
 *
 * What a run makes stays where it was made. Who wants to look at it on the host has it brought there once, and there it
 * stays, for whoever looks may keep its address. With a backend whose memory is the host's nothing of this happens. */
#include <string.h>

#include "backends/backend.h"
#include "backends/host.h"
#include "base/alloc.h"
#include "runtime/storage.h"

static void
release(struct fr_buffer *b)
{
    if (b->home)
        b->home->free(b->mem, b->n_bytes);
    else
        fr_host_free(b->mem, b->n_bytes);
    fr_free(b);
}

static struct fr_buffer *
new_at(const struct fr_backend *home, size_t n_bytes, struct fr_err *err)
{
    struct fr_buffer *b = fr_malloc(sizeof *b); /* not counted as array memory, which plans predict */
    struct fr_err     said = {.code = FR_ENOMEM};

    if (b) {
        *b = (struct fr_buffer){.n_bytes = n_bytes, .refs = 1, .release = release, .home = home};
        if ((b->mem = home ? home->alloc(n_bytes, &said) : fr_host_alloc(n_bytes)))
            return b;
        fr_free(b);
    }
    fr_backend_refused(&said, err, "Unable to allocate %zu bytes for an array", n_bytes);
    return NULL;
}

struct fr_buffer *
fr_buffer_new(size_t n_bytes, struct fr_err *err)
{
    return new_at(FR_LIKELY(fr_backend->is_host) ? NULL : fr_backend, n_bytes, err);
}

struct fr_buffer *
fr_buffer_new_host(size_t n_bytes, struct fr_err *err)
{
    return new_at(NULL, n_bytes, err);
}

fr_status
fr_buffer_bring_now(struct fr_buffer *b, struct fr_err *err)
{
    void     *mem;
    fr_status st;

    FR_ASSERT(!fr_eval_is_unlocked()); /* nobody else brings it at the same time */
    if (!b->home)
        return FR_OK;
    FR_ASSERT(!b->home->is_host);
    if (!(mem = fr_host_alloc(b->n_bytes)))
        return fr_fail(err, FR_ENOMEM, "Unable to allocate %zu bytes for an array", b->n_bytes);
    if ((st = b->home->copy_out(mem, b->mem, b->n_bytes, err)) != FR_OK) {
        fr_host_free(mem, b->n_bytes);
        return st;
    }
    b->home->free(b->mem, b->n_bytes);
    b->mem = mem;
    b->home = NULL;
    return FR_OK;
}

fr_status
fr_buffer_bring_home(struct fr_buffer *b, struct fr_err *err)
{
    fr_status st;

    fr_buffer_ref(b); /* while this thread waits, others may drop it */
    if ((st = fr_eval_lock(err)) == FR_OK) {
        st = fr_buffer_bring_now(b, err);
        fr_eval_unlock();
    }
    fr_buffer_unref(b);
    return st;
}

bool
fr_buffer_read(const struct fr_buffer *b, int64_t offset, size_t n_bytes, void *out)
{
    struct fr_err ignored;

    if (FR_UNLIKELY(b->home != NULL))
        return b->home->copy_out(out, (char *)b->mem + offset, n_bytes, &ignored) == FR_OK;
    memcpy(out, (char *)b->mem + offset, n_bytes);
    return true;
}
