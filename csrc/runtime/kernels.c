/* The kernels of the process: one per packed nest, shared by plans, which are made on two threads (planner.c, which
 * also keeps the lock from being held over a fork). */
#include <pthread.h>
#include <string.h>

#include "backends/expect.h"
#include "base/env.h"
#include "runtime/plan.h"

enum { N_BUCKETS = 4096 };

static pthread_mutex_t   lock = PTHREAD_MUTEX_INITIALIZER;
static struct fr_kernel *buckets[N_BUCKETS];

static inline uint64_t
mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

static uint64_t
mix_bytes(uint64_t h, const void *bytes, size_t n)
{
    const char *p = bytes;
    uint64_t    v;

    for (; n >= sizeof v; p += sizeof v, n -= sizeof v) {
        memcpy(&v, p, sizeof v);
        h = mix(h, v);
    }
    v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | (uint8_t)p[i];
    return mix(h, v);
}

static uint64_t
hash_nest(fr_device device, const struct fr_nest *nest)
{
    uint64_t h = nest->n_insts | (uint64_t)nest->n_operands << 32 | (uint64_t)nest->n_scalars << 48;

    h = mix(h, nest->n_stages | (uint64_t)nest->flags << 8 | (uint64_t)device << 16);
    h = mix_bytes(h, nest->insts, nest->n_insts * sizeof *nest->insts);
    h = mix_bytes(h, nest->operands, nest->n_operands * sizeof *nest->operands);
    return mix_bytes(h, nest->scalar_dtype, nest->n_scalars * sizeof *nest->scalar_dtype);
}

/* Takes a reference. Lock held. */
static struct fr_kernel *
find(fr_device device, const struct fr_nest *nest, uint64_t key)
{
    struct fr_kernel *k = buckets[key % N_BUCKETS];

    while (k && (k->key != key || k->device != device || !fr_nest_same(k->nest, nest)))
        k = k->next;
    if (k)
        k->refs++;
    return k;
}

fr_status
fr_kernel_get(fr_device device, const struct fr_nest *nest, struct fr_kernel **out, struct fr_err *err)
{
    struct fr_kernel *k;
    uint64_t          key = hash_nest(device, nest);
    fr_status         st;

    pthread_mutex_lock(&lock);
    *out = find(device, nest, key);
    pthread_mutex_unlock(&lock);
    if (*out)
        return FR_OK;
    if ((st = fr_backend_of(device)->kernel_new(fr_backend_of(device), nest, &k, err)) != FR_OK)
        return st;
    if ((st = fr_expect_kernel(k, err)) != FR_OK) {
        fr_backend_of(device)->kernel_free(k);
        return st;
    }
    k->device = device;
    k->key = key;
    k->refs = 1;
    pthread_mutex_lock(&lock);
    if (!(*out = find(device, nest, key))) { /* else the other thread has made it meanwhile */
        k->next = buckets[key % N_BUCKETS];
        buckets[key % N_BUCKETS] = *out = k;
        k = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (k)
        fr_backend_of(device)->kernel_free(k);
    return FR_OK;
}

void
fr_kernel_unref(struct fr_kernel *k)
{
    bool gone;

    pthread_mutex_lock(&lock);
    if ((gone = --k->refs == 0)) {
        struct fr_kernel **link = &buckets[k->key % N_BUCKETS];

        while (*link != k)
            link = &(*link)->next;
        *link = k->next;
    }
    pthread_mutex_unlock(&lock);
    if (gone)
        fr_backend_of(k->device)->kernel_free(k);
}

bool
fr_kernel_has_code(fr_device device, const struct fr_nest *nest)
{
    struct fr_kernel *k;
    bool              has = false;

    if (!fr_env_uses_code())
        return false;
    pthread_mutex_lock(&lock);
    if ((k = find(device, nest, hash_nest(device, nest)))) {
        has = fr_backend_of(device)->kernel_is_compiled(k);
        k->refs--; /* others have some, or it would not be there */
    }
    pthread_mutex_unlock(&lock);
    return has;
}

/* ---- the nest of a step ---- */

fr_status
fr_step_copy_nest(const struct fr_step *s, struct fr_arena *arena, struct fr_nest *out, struct fr_err *err)
{
    const struct fr_nest *nest = s->kernel->nest;

    *out = *nest;
    if (!(out->operands = fr_arena_room(arena, nest->n_operands * sizeof *out->operands)))
        return fr_no_memory(err, "a plan");
    memcpy(out->operands, nest->operands, nest->n_operands * sizeof *out->operands);
    return FR_OK;
}

fr_status
fr_step_set_nest(struct fr_step *s, const struct fr_nest *nest, struct fr_err *err)
{
    struct fr_kernel *kernel;
    fr_status         st = fr_kernel_get(s->kernel->device, nest, &kernel, err);

    if (st != FR_OK)
        return st;
    fr_kernel_unref(s->kernel);
    s->kernel = kernel;
    return FR_OK;
}
