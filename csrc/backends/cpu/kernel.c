/* backends/cpu/kernel.c -- a kernel's life: the block interpreter's program, and when machine code is asked for. */
#include <pthread.h>
#include <string.h>

#include "backends/cpu/launch.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "jit/compile.h"

enum {
    /* What a kernel has cost so far, roughly in us, of which a tiny run counts for a few. Looking into
     * the cache is a read and a check of some 20 KB on another thread, compiling is 30 ms and more. */
    RUN_COST = 8,
    WORTH_LOOKING = 24,
    WORTH_COMPILING = 250,
    WORTH_AT_ONCE_US = 50000, /* a single run as long as this */
    WAIT_US = 120000000
};

/* Where a kernel stands with the compiler. */
enum { JIT_NONE, JIT_LOOKING, JIT_MISSED, JIT_COMPILING, JIT_DONE };

/* Those that ended while the compiler worked on them: the answer is written into them. */
static pthread_mutex_t       lock = PTHREAD_MUTEX_INITIALIZER;
static struct fr_cpu_kernel *left_behind;

static struct fr_cpu_kernel *
own(struct fr_kernel *k)
{
    return (struct fr_cpu_kernel *)k;
}

void
fr_cpu_kernels_begin(void)
{
    if (fr_env_uses_code())
        fr_compile_start();
}

static void
release(struct fr_cpu_kernel *c)
{
    if (atomic_load(&c->code))
        fr_compile_release(c->code);
    fr_program_free(c->program);
    fr_nest_free(c->k.nest);
    fr_free(c);
}

/* Those that were left behind and have their answer now. */
static void
sweep(void)
{
    struct fr_cpu_kernel **link = &left_behind, *c, *gone = NULL;

    pthread_mutex_lock(&lock);
    while ((c = *link)) {
        if (atomic_load(&c->n_asked) > 0) {
            link = &c->next_left;
            continue;
        }
        *link = c->next_left;
        c->next_left = gone;
        gone = c;
    }
    pthread_mutex_unlock(&lock);
    for (; gone; gone = c) {
        c = gone->next_left;
        release(gone);
    }
}

fr_status
fr_cpu_kernel_new(const struct fr_backend *self, const struct fr_nest *nest, struct fr_kernel **out, struct fr_err *err)
{
    struct fr_cpu_kernel *c = fr_calloc(1, sizeof *c);
    fr_status             st;

    (void)self;
    if (!c)
        return fr_fail(err, FR_ENOMEM, "out of memory for a kernel");
    sweep();
    TRY(fr_nest_copy(nest, &c->k.nest, err));
    TRY(fr_program_build(c->k.nest, &c->program, err));
    *out = &c->k;
    return FR_OK;
out:
    release(c);
    return st;
}

void
fr_cpu_kernel_free(struct fr_kernel *k)
{
    struct fr_cpu_kernel *c = own(k);

    if (atomic_load(&c->n_asked) == 0) {
        release(c);
        return;
    }
    pthread_mutex_lock(&lock);
    c->next_left = left_behind;
    left_behind = c;
    pthread_mutex_unlock(&lock);
}

bool
fr_cpu_kernel_is_compiled(const struct fr_kernel *k)
{
    return atomic_load(&((const struct fr_cpu_kernel *)k)->code) != NULL;
}

/* On the manager thread. A kernel may have been asked for twice, for a look into the cache and then for
 * compilation: only the last answer says that there is no code. */
static void
code_ready(void *arg, const struct fr_nest_code *code)
{
    struct fr_cpu_kernel *c = arg;

    if (code && atomic_load(&c->code)) {
        fr_compile_release(code); /* it has the same already */
    } else if (code) {
        fr_program_meets_code(c->program);
        atomic_store_explicit(&c->code, code, memory_order_release);
        atomic_store(&c->jit_state, JIT_DONE);
    } else if (atomic_load(&c->n_asked) == 1) {
        int looking = JIT_LOOKING;

        /* For now is not for good. */
        if (!atomic_compare_exchange_strong(&c->jit_state, &looking, JIT_MISSED))
            atomic_store(&c->jit_state, fr_compile_is_paused() ? JIT_MISSED : JIT_DONE);
    }
    atomic_fetch_sub(&c->n_asked, 1);
}

static void
ask(struct fr_cpu_kernel *c, int state)
{
    atomic_store(&c->jit_state, state);
    atomic_fetch_add(&c->n_asked, 1);
    fr_compile_want(c->k.nest, state == JIT_LOOKING, code_ready, c);
    if (!fr_backend_is_tended || !fr_backend_is_tended())
        fr_compile_nudge();
}

void
fr_cpu_kernel_ran(struct fr_kernel *k, uint64_t us)
{
    struct fr_cpu_kernel *c = own(k);
    int                   state = atomic_load_explicit(&c->jit_state, memory_order_relaxed);

    if (FR_LIKELY(state == JIT_DONE || state == JIT_COMPILING) || !fr_env_uses_code())
        return;
    if (us >= WORTH_AT_ONCE_US) {
        ask(c, JIT_COMPILING);
        return;
    }
    c->spent += us + RUN_COST;
    if (state == JIT_NONE && c->spent >= WORTH_LOOKING)
        ask(c, JIT_LOOKING);
    else if (state != JIT_NONE && c->spent >= WORTH_COMPILING && !fr_compile_is_paused())
        ask(c, JIT_COMPILING);
}

fr_status
fr_cpu_kernel_wait(struct fr_kernel *k, struct fr_err *err)
{
    int64_t end = fr_now_us() + WAIT_US;

    while (atomic_load(&own(k)->n_asked) > 0 && fr_now_us() < end) {
        fr_compile_wait(0.02, NULL);
        if (fr_backend_interrupted && fr_backend_interrupted())
            return fr_fail(err, FR_EINTR, "interrupted while kernels were compiled");
    }
    return FR_OK;
}
