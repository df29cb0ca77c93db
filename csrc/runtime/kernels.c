/* The kernels of the process: one per packed nest, shared by plans; when each is compiled. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "jit/compile.h"
#include "runtime/plan.h"
#include "runtime/storage.h"

enum {
    N_BUCKETS = 4096,
    /* What a kernel has cost so far, roughly in us, of which a tiny run counts for a few. Looking into
     * the cache is a read and a check of some 20 KB on another thread, compiling is 30 ms and more. */
    RUN_COST = 8,
    BYTES_PER_COST = 2048,
    WORTH_LOOKING = 24,
    WORTH_COMPILING = 250,
    WORTH_AT_ONCE_US = 50000 /* a single run as long as this */
};

/* Where a kernel stands with the compiler. */
enum { JIT_NONE, JIT_LOOKING, JIT_MISSED, JIT_COMPILING, JIT_DONE };

/* Plans are made on two threads (planner.c, which also keeps the lock from being held over a fork). */
static pthread_mutex_t         lock = PTHREAD_MUTEX_INITIALIZER;
static struct fr_kernel_entry *buckets[N_BUCKETS];
/* Those that lost their last plan while the compiler worked on them: the answer is written into them. */
static struct fr_kernel_entry *left_behind;

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
hash_nest(const struct fr_nest *nest)
{
    uint64_t h = nest->n_insts | (uint64_t)nest->n_operands << 32 | (uint64_t)nest->n_scalars << 48;

    h = mix(h, nest->n_stages | (uint64_t)nest->flags << 8);
    h = mix_bytes(h, nest->insts, nest->n_insts * sizeof *nest->insts);
    h = mix_bytes(h, nest->operands, nest->n_operands * sizeof *nest->operands);
    return mix_bytes(h, nest->scalar_dtype, nest->n_scalars * sizeof *nest->scalar_dtype);
}

/* FRIT_JIT is neither off nor interpret. */
static bool
may_compile(void)
{
    return fr_env.jit[0] != 'o' && fr_env.jit[0] != 'i';
}

void
fr_kernels_begin(void)
{
    if (may_compile())
        fr_compile_start();
}

static void
entry_free(struct fr_kernel_entry *e)
{
    if (atomic_load(&e->k.code))
        fr_compile_release(e->k.code);
    fr_program_free(e->k.program);
    fr_nest_free(e->k.nest);
    fr_free(e);
}

/* Takes a reference. Lock held. */
static struct fr_kernel_entry *
find(const struct fr_nest *nest, uint64_t key)
{
    struct fr_kernel_entry *e = buckets[key % N_BUCKETS];

    while (e && (e->k.key != key || !fr_nest_same(e->k.nest, nest)))
        e = e->next;
    if (e)
        e->refs++;
    return e;
}

/* Lock held. */
static void
unlink_entry(struct fr_kernel_entry *e)
{
    struct fr_kernel_entry **link = &buckets[e->k.key % N_BUCKETS];

    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
}

/* Frees those that were left behind and have their answer now, unless a plan has found them again. */
static void
sweep(void)
{
    struct fr_kernel_entry **link = &left_behind, *e, *gone = NULL;

    pthread_mutex_lock(&lock);
    while ((e = *link)) {
        if (atomic_load(&e->n_asked) > 0) {
            link = &e->next_left;
            continue;
        }
        *link = e->next_left;
        e->is_left = false;
        if (e->refs == 0) {
            unlink_entry(e);
            e->next_left = gone;
            gone = e;
        }
    }
    pthread_mutex_unlock(&lock);
    for (; gone; gone = e) {
        e = gone->next_left;
        entry_free(gone);
    }
}

fr_status
fr_kernel_get(const struct fr_nest *nest, struct fr_kernel_entry **out, struct fr_err *err)
{
    struct fr_kernel_entry *e;
    uint64_t                key = hash_nest(nest);
    fr_status               st = FR_OK;

    pthread_mutex_lock(&lock);
    *out = find(nest, key);
    pthread_mutex_unlock(&lock);
    if (*out)
        return FR_OK;
    sweep();
    if (!(e = fr_calloc(1, sizeof *e)))
        return fr_no_memory(err, "a kernel");
    e->k.key = key;
    e->refs = 1;
    TRY(fr_nest_copy(nest, &e->k.nest, err));
    TRY(fr_program_build(e->k.nest, &e->k.program, err));
    pthread_mutex_lock(&lock);
    if (!(*out = find(nest, key))) { /* else the other thread has made it meanwhile */
        e->next = buckets[key % N_BUCKETS];
        buckets[key % N_BUCKETS] = *out = e;
        e = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (e)
        entry_free(e);
    fr_kernels_begin();
    return FR_OK;
out:
    entry_free(e);
    return st;
}

void
fr_kernel_unref(struct fr_kernel_entry *e)
{
    bool gone;

    pthread_mutex_lock(&lock);
    gone = --e->refs == 0 && !e->is_left;
    if (gone && atomic_load(&e->n_asked) > 0) {
        e->next_left = left_behind;
        left_behind = e;
        e->is_left = true;
        gone = false;
    }
    if (gone)
        unlink_entry(e);
    pthread_mutex_unlock(&lock);
    if (gone)
        entry_free(e);
}

/* On the manager thread. A kernel may have been asked for twice, for a look into the cache and then for
 * compilation: only the last answer says that there is no code. */
static void
code_ready(void *arg, const struct fr_nest_code *code)
{
    struct fr_kernel_entry *e = arg;

    if (code && atomic_load(&e->k.code)) {
        fr_compile_release(code); /* it has the same already */
    } else if (code) {
        if (e->k.program)
            fr_program_meets_code(e->k.program);
        atomic_store_explicit(&e->k.code, code, memory_order_release);
        atomic_store(&e->k.jit_state, JIT_DONE);
    } else if (atomic_load(&e->n_asked) == 1) {
        int looking = JIT_LOOKING;

        /* For now is not for good. */
        if (!atomic_compare_exchange_strong(&e->k.jit_state, &looking, JIT_MISSED))
            atomic_store(&e->k.jit_state, fr_compile_is_paused() ? JIT_MISSED : JIT_DONE);
    }
    atomic_fetch_sub(&e->n_asked, 1);
}

static void
ask(struct fr_kernel_entry *e, int state)
{
    atomic_store(&e->k.jit_state, state);
    atomic_fetch_add(&e->n_asked, 1);
    fr_compile_want(e->k.nest, state == JIT_LOOKING, code_ready, e);
    if (!fr_planner_is_up())
        fr_compile_nudge();
}

void
fr_kernel_ran(struct fr_kernel_entry *e, uint64_t elapsed_us, uint64_t n_bytes)
{
    int      state = atomic_load_explicit(&e->k.jit_state, memory_order_relaxed);
    uint64_t cost = elapsed_us ? elapsed_us : n_bytes / BYTES_PER_COST;

    if (FR_LIKELY(state == JIT_DONE || state == JIT_COMPILING) || !may_compile())
        return;
    if (elapsed_us >= WORTH_AT_ONCE_US) {
        ask(e, JIT_COMPILING);
        return;
    }
    e->cost += cost + RUN_COST;
    if (state == JIT_NONE && e->cost >= WORTH_LOOKING)
        ask(e, JIT_LOOKING);
    else if (state != JIT_NONE && e->cost >= WORTH_COMPILING && !fr_compile_is_paused())
        ask(e, JIT_COMPILING);
}
