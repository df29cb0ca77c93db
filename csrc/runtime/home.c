/* Where buffers are: in the host's memory, or in that of a backend that has its own.
 *
 * What a run makes stays where it was made, and what it reads goes there once and stays, unless somebody outside may look at it at
 * any time. Who wants to look at it on the host has it brought there, to the address that was given out if one was. What others
 * see on the device stays there: on the host there is a copy of it, made for each look. With a backend whose memory is the host's
 * nothing of this happens. */
#include <string.h>

#include "backends/backend.h"
#include "backends/host.h"
#include "backends/meta/meta.h"
#include "base/alloc.h"
#include "runtime/storage.h"

atomic_int fr_buffers_elsewhere;

static void
count_elsewhere(int change)
{
    int n = atomic_fetch_add_explicit(&fr_buffers_elsewhere, change, memory_order_relaxed);

    (void)n;
    FR_ASSERT(n + change >= 0);
}

static void
release(struct fr_buffer *b)
{
    void *on_host = b->home ? b->host : b->mem;

    if (FR_UNLIKELY(b->home && b->home->has_no_data)) {
        fr_buffer_leave(b);
        on_host = b->mem;
    }
    if (b->home) {
        b->home->free(b->home, b->mem, b->n_bytes);
        count_elsewhere(-1);
    }
    if (on_host)
        fr_host_free(on_host, b->n_bytes);
    fr_free(b);
}

static struct fr_buffer *
new_at(const struct fr_backend *home, size_t n_bytes, struct fr_err *err)
{
    struct fr_buffer *b = fr_malloc(sizeof *b); /* not counted as array memory, which plans predict */
    struct fr_err     said = {.code = FR_ENOMEM};

    if (b) {
        *b = (struct fr_buffer){.n_bytes = n_bytes, .refs = 1, .release = release, .home = home};
        if ((b->mem = home ? home->alloc(home, n_bytes, &said) : fr_host_alloc(n_bytes))) {
            if (FR_UNLIKELY(home != NULL))
                count_elsewhere(1);
            return b;
        }
        fr_free(b);
    }
    fr_backend_refused(&said, err, "Unable to allocate %zu bytes for an array", n_bytes);
    return NULL;
}

struct fr_buffer *
fr_buffer_new(const struct fr_backend *by, size_t n_bytes, struct fr_err *err)
{
    return new_at(FR_LIKELY(by->is_host) ? NULL : by, n_bytes, err);
}

struct fr_buffer *
fr_buffer_new_host(size_t n_bytes, struct fr_err *err)
{
    return new_at(NULL, n_bytes, err);
}

/* A copy on the host of what stays away. */
static fr_status
show(struct fr_buffer *b, struct fr_err *err)
{
    if (!b->host && !(b->host = fr_host_alloc(b->n_bytes)))
        return fr_fail(err, FR_ENOMEM, "Unable to allocate %zu bytes for an array", b->n_bytes);
    return b->home->copy_out(b->home, b->host, b->mem, b->n_bytes, err);
}

/* What is known of an array without data: a copy beside the memory that counts, which is what is known from here on, so that what
 * others store there is. */
static FR_COLD fr_status
show_known(struct fr_buffer *b, struct fr_err *err)
{
    const void *bytes = fr_meta_known(b->mem, b->n_bytes);

    if (!bytes && b->n_bytes)
        return b->home->copy_out(b->home, NULL, b->mem, b->n_bytes, err);
    if (b->host && (bytes == b->host || !b->n_bytes))
        return FR_OK;
    if (!b->host && !(b->host = fr_malloc(b->n_bytes + 1)))
        return fr_no_memory(err, "known values");
    if (!b->n_bytes)
        return FR_OK;
    memcpy(b->host, bytes, b->n_bytes);
    return fr_meta_know(b->mem, b->host, b->n_bytes, false, err);
}

fr_status
fr_buffer_bring_now(struct fr_buffer *b, struct fr_err *err)
{
    void     *mem = b->host;
    fr_status st = FR_OK;

    FR_ASSERT(!fr_eval_is_unlocked()); /* nobody else brings it at the same time */
    if (!b->home)
        return FR_OK;
    if (FR_UNLIKELY(b->home->has_no_data))
        return show_known(b, err);
    if (b->away)
        return show(b, err);
    FR_ASSERT(!b->home->is_host && (b->host || !b->stale));
    if (!mem && !(mem = fr_host_alloc(b->n_bytes)))
        return fr_fail(err, FR_ENOMEM, "Unable to allocate %zu bytes for an array", b->n_bytes);
    if ((!b->host || b->stale) && (st = b->home->copy_out(b->home, mem, b->mem, b->n_bytes, err)) != FR_OK) {
        if (!b->host)
            fr_host_free(mem, b->n_bytes);
        return st;
    }
    fr_buffer_leave(b);
    b->mem = mem;
    return FR_OK;
}

/* Gives back its memory on the device. b->mem is what it was on the host, if that is known. */
void
fr_buffer_leave(struct fr_buffer *b)
{
    if (!b->home)
        return;
    count_elsewhere(-1);
    if (FR_UNLIKELY(b->home->has_no_data)) {
        b->home->free(b->home, b->mem, b->n_bytes);
        fr_free(b->host);
        b->mem = b->shadowed;
        b->home = NULL;
        b->host = b->shadowed = NULL;
        return;
    }
    if (b->away && b->owner) {
        if (b->host)
            fr_host_free(b->host, b->n_bytes);
        return;
    }
    b->home->free(b->home, b->mem, b->n_bytes);
    b->mem = b->host;
    b->home = NULL;
    b->host = NULL;
    b->stale = false;
}

fr_status
fr_buffer_shadow(struct fr_buffer *b, const struct fr_backend *by, struct fr_err *err)
{
    void     *mem;
    fr_status st;

    if (b->home == by)
        return FR_OK;
    if (b->home && (st = fr_buffer_bring_now(b, err)) != FR_OK)
        return st;
    if (!(mem = fr_meta_reserve(b->n_bytes)))
        return fr_no_memory(err, "an array without data");
    if ((st = fr_meta_know(mem, b->mem, b->n_bytes, false, err)) != FR_OK)
        return st;
    b->home = by;
    b->shadowed = b->mem;
    b->mem = mem;
    count_elsewhere(1);
    return FR_OK;
}

fr_status
fr_buffer_send(struct fr_buffer *b, const struct fr_backend *by, struct fr_err *err)
{
    struct fr_err said;
    void         *mem;
    fr_status     st;

    FR_ASSERT(!fr_eval_is_unlocked() && !by->is_host && b->home != by && !b->away);
    if (b->home && (st = fr_buffer_bring_now(b, err)) != FR_OK)
        return st;
    if (b->watched)
        return FR_OK;
    if (!(mem = by->alloc(by, b->n_bytes, &said)))
        return fr_backend_refused(&said, err, "Unable to allocate %zu bytes for an operand", b->n_bytes);
    if ((st = by->copy_in(by, mem, b->mem, b->n_bytes, err)) != FR_OK) {
        by->free(by, mem, b->n_bytes);
        return st;
    }
    if (b->owner || b->pinned || b->shown)
        b->host = b->mem;
    else
        fr_host_free(b->mem, b->n_bytes);
    b->mem = mem;
    b->home = by;
    count_elsewhere(1);
    return FR_OK;
}

void
fr_buffer_is_there(struct fr_buffer *b, const struct fr_backend *by)
{
    b->home = by;
    b->away = !by->has_no_data;
    count_elsewhere(1);
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

fr_status
fr_buffer_keep_away(struct fr_buffer *b, const struct fr_backend *by, struct fr_err *err)
{
    fr_status st = fr_eval_lock(err);

    if (st != FR_OK)
        return st;
    if (b->home != by && !b->pinned && !b->shown)
        st = fr_buffer_send(b, by, err);
    if (st == FR_OK && (b->home != by || (b->host && !b->away)))
        st = FR_ENOTSUP;
    if (st == FR_OK)
        b->away = true;
    fr_eval_unlock();
    return st;
}

void
fr_buffer_come_back(struct fr_buffer *b)
{
    if (!b->away || b->owner)
        return;
    if (b->host)
        fr_host_free(b->host, b->n_bytes);
    b->host = NULL;
    b->away = false;
}

bool
fr_buffer_read(const struct fr_buffer *b, int64_t offset, size_t n_bytes, void *out)
{
    struct fr_err ignored;

    if (FR_UNLIKELY(b->home != NULL))
        return b->home->copy_out(b->home, out, (char *)b->mem + offset, n_bytes, &ignored) == FR_OK;
    memcpy(out, (char *)b->mem + offset, n_bytes);
    return true;
}

/* ---- tensors that go to another device ------------------------------------------------------- */

fr_device
fr_tensor_device(const struct fr_tensor *t)
{
    fr_device d = fr_storage_device(t->storage);

    return d == FR_DEVICE_ANY ? FR_DEVICE_HOST : d;
}

fr_device
fr_tensor_place(const struct fr_tensor *t)
{
    const struct fr_node *n = &fr_nodes[t->storage->node];

    if (n->device != FR_DEVICE_AUTO || n->op != FR_OP_leaf)
        return fr_tensor_device(t);
    return n->v.buffer->home ? n->v.buffer->home->device : FR_DEVICE_HOST;
}

bool
fr_tensor_is_anywhere(const struct fr_tensor *t)
{
    return fr_storage_device(t->storage) == FR_DEVICE_ANY;
}

bool
fr_tensor_is_shared(const struct fr_tensor *t)
{
    return t->storage->shared;
}

bool
fr_tensor_settle(const struct fr_tensor *t, fr_device device)
{
    struct fr_node *n = &fr_nodes[t->storage->node];

    if (n->device == FR_DEVICE_ANY && n->op == FR_OP_leaf && !fr_storage_pinned(t->storage))
        n->device = device;
    if (FR_UNLIKELY(device == FR_DEVICE_META))
        fr_storage_count(t->storage);
    return n->device == device;
}

void
fr_tensor_set_anywhere(const struct fr_tensor *t)
{
    fr_nodes[t->storage->node].device = FR_DEVICE_ANY;
}

/* Between two devices bytes pass through the host's memory. */
static fr_status
copy_bytes(struct fr_buffer *to, const struct fr_buffer *from, struct fr_err *err)
{
    void     *between;
    fr_status st;

    if (from->home && from->home == to->home)
        return to->home->copy(to->home, to->mem, from->mem, to->n_bytes, err);
    if (!from->home) {
        if (to->home)
            return to->home->copy_in(to->home, to->mem, from->mem, to->n_bytes, err);
        memcpy(to->mem, from->mem, to->n_bytes);
        return FR_OK;
    }
    if (!to->home)
        return from->home->copy_out(from->home, to->mem, from->mem, to->n_bytes, err);
    if (!(between = fr_host_alloc(to->n_bytes)))
        return fr_fail(err, FR_ENOMEM, "Unable to allocate %zu bytes for a copy between devices", to->n_bytes);
    if ((st = from->home->copy_out(from->home, between, from->mem, to->n_bytes, err)) == FR_OK)
        st = to->home->copy_in(to->home, to->mem, between, to->n_bytes, err);
    fr_host_free(between, to->n_bytes);
    return st;
}

/* A new storage with these bytes, of a leaf. */
static fr_status
copy_leaf(fr_ref leaf, fr_device device, struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_node    *n = &fr_nodes[leaf];
    const struct fr_backend *by = fr_backend_of(device);
    struct fr_buffer        *b;
    fr_status                st;

    if (device == FR_DEVICE_AUTO && n->v.buffer->home) /* then it stays where it is */
        by = n->v.buffer->home;
    if (!(b = fr_buffer_new(by, (size_t)(n->layout->n_elems * fr_dtype_size(n->dtype)), err)))
        return err->code;
    if ((st = copy_bytes(b, n->v.buffer, err)) != FR_OK) {
        fr_buffer_unref(b);
        return st;
    }
    return fr_tensor_from_buffer(b, device, n->dtype, n->layout, out, err);
}

fr_status
fr_tensor_to_device(const struct fr_tensor *t, fr_device device, struct fr_tensor *out, struct fr_err *err)
{
    struct fr_tensor whole;
    fr_status        st = FR_OK;

    if (fr_tensor_device(t) == device) {
        fr_tensor_copy(t, out);
        return FR_OK;
    }
    if (t->whole)
        fr_tensor_copy(t, &whole);
    else if ((st = fr_trace_cast(t, t->dtype, 'K', &whole, err)) != FR_OK)
        return st;
    fr_looks_taken++;
    do { /* while kernels run, another thread may store into it */
        st = fr_eval_nodes(&whole.storage->node, 1, err);
        if (st == FR_OK && (st = fr_eval_lock(err)) == FR_OK) {
            if (!fr_tensor_is_pending(&whole))
                st = copy_leaf(whole.storage->node, device, out, err);
            fr_eval_unlock();
        }
    } while (st == FR_OK && fr_tensor_is_pending(&whole));
    fr_tensor_clear(&whole);
    return st;
}
