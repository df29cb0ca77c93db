/* Plans that are made in the background, for what runs node by node meanwhile (eager.c).
 *
 * One thread, which takes what is asked for from a ring. Waking it up costs whoever asks some microseconds, as much as
 * an operation, so it is rarely woken: in a burst it looks by itself, every PAUSE, and when nothing has come for LINGER,
 * every NAP while anything is evaluated. It sleeps when nothing has been for IDLE. For the same reason it is who wakes
 * the thread that manages compilation. Where graphs are new, results are, too: so it also looks whether there is memory
 * for more of them.
 *
 * A plan that is made here has layouts of its own (struct fr_layouts); beside them it shares with the rest of the
 * process only the kernels and the blocks of arenas, each under its lock.
 *
 * A child of fork has no such thread, and begins one when it asks. The fork waits for the end of what is being made, so
 * nothing is torn, and no lock held. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/background.h"
#include "base/clock.h"
#include "base/processors.h"
#include "base/span.h"
#include "jit/compile.h"
#include "runtime/plan.h"
#include "runtime/storage.h"

enum {
    N_RING = 256,
    PAUSE_NS = 100000,
    LINGER_US = 20000,
    NAP_NS = 2000000,      /* which takes some 5 us of a processor */
    IDLE_US = 200000,
    STACK = 1 << 20
};

struct fr_draft {
    atomic_bool         done;
    struct fr_structure of;     /* in the same memory */
    struct fr_plan     *plan;   /* NULL: it failed */
    struct fr_layout  **held;   /* references to the key's layouts, in the same memory */
    int                 n_held;
    uint64_t            words[];
};

static struct {
    pthread_t        thread;
    bool             running;   /* under the GIL, as all but the thread itself */
    atomic_bool      stop, asleep;
    sem_t            wake;
    pthread_mutex_t  busy;      /* held while anything is done */
    struct fr_draft *ring[N_RING];
    atomic_uint      n_asked, n_taken;
    atomic_uint      n_evaluated;
} p = {.busy = PTHREAD_MUTEX_INITIALIZER};

/* ---- the thread ---- */

static bool
is_empty(void)
{
    return atomic_load(&p.n_taken) == atomic_load(&p.n_asked);
}

static void
make_next(void)
{
    const struct fr_span_mark mark = fr_span_begin();
    struct fr_draft          *d;

    pthread_mutex_lock(&p.busy);
    d = p.ring[atomic_load(&p.n_taken) % N_RING];
    if (fr_plan_build(&d->of, true, &d->plan, NULL) != FR_OK)
        d->plan = NULL;
    fr_layouts_use(NULL);
    if (FR_UNLIKELY(mark.begin != 0))
        fr_span_end(&mark, FR_SPAN_plan, fr_span_name("beside Python"), 0, (uint64_t)d->of.n_nodes);
    atomic_store(&d->done, true);
    atomic_fetch_add(&p.n_taken, 1);
    pthread_mutex_unlock(&p.busy);
}

static void
sleep_until_asked(void)
{
    atomic_store(&p.asleep, true);
    fr_compile_nudge(); /* whoever wanted code before could not see that we sleep */
    if (is_empty() && !atomic_load(&p.stop))
        sem_wait(&p.wake);
    atomic_store(&p.asleep, false);
}

/* What takes a tenth of a millisecond and more, once, and somebody will want: a thread more, and files that are read. */
static void
begin_others(void)
{
    if (fr_device_usual < FR_DEVICE_CUDA)
        fr_backend->begin();
    fr_last_cache();
}

static void *
make_plans(void *arg)
{
    const struct timespec pause = {0, PAUSE_NS}, nap = {0, NAP_NS};
    int64_t               last = fr_now_us(), last_evaluated = last;
    unsigned              n_seen = 0;

    (void)arg;
    fr_background(0);
    begin_others();
    while (!atomic_load(&p.stop)) {
        unsigned n_evaluated;
        int64_t  now;

        pthread_mutex_lock(&p.busy);
        fr_backend->look_ahead();
        pthread_mutex_unlock(&p.busy);
        now = fr_now_us();
        n_evaluated = atomic_load_explicit(&p.n_evaluated, memory_order_relaxed);
        if (n_evaluated != n_seen)
            last_evaluated = now;
        n_seen = n_evaluated;
        if (!is_empty()) {
            make_next();
            last = fr_now_us();
        } else if (now - last < LINGER_US) {
            nanosleep(&pause, NULL);
        } else if (now - last_evaluated < IDLE_US) {
            nanosleep(&nap, NULL);
        } else {
            sleep_until_asked();
            last = fr_now_us();
        }
    }
    return NULL;
}

/* ---- forking ---- */

static void
before_fork(void)
{
    pthread_mutex_lock(&p.busy);
}

static void
after_fork_parent(void)
{
    pthread_mutex_unlock(&p.busy);
}

static void
after_fork_child(void)
{
    pthread_mutex_init(&p.busy, NULL);
    p.running = false;
    atomic_store(&p.asleep, false);
}

/* ---- for those who ask ---- */

static void
wake(void)
{
    if (atomic_load(&p.asleep))
        sem_post(&p.wake);
}

bool
fr_planner_start(void)
{
    static bool prepared;

    if (p.running)
        return true;
    if (!prepared)
        prepared = pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0;
    if (!prepared || sem_init(&p.wake, 0, 0) != 0)
        return false;
    atomic_store(&p.stop, false);
    fr_backend_wants = wake;
    fr_backend_is_tended = fr_planner_is_up;
    return p.running = fr_thread_start(&p.thread, make_plans, NULL, STACK) == 0;
}

void
fr_planner_notice(void)
{
    unsigned n = atomic_load_explicit(&p.n_evaluated, memory_order_relaxed);

    atomic_store_explicit(&p.n_evaluated, n + 1, memory_order_relaxed);
}

bool
fr_planner_is_up(void)
{
    return p.running && !atomic_load(&p.asleep);
}

struct fr_draft *
fr_planner_ask(struct fr_gathered *g, const struct fr_move *older)
{
    struct fr_structure of;
    struct fr_draft    *d;
    int64_t            *moving;
    struct fr_move     *move;
    struct fr_scalar_bits *scalar;
    uint32_t           *site;
    unsigned            n_asked = atomic_load_explicit(&p.n_asked, memory_order_relaxed);

    if (n_asked - atomic_load(&p.n_taken) == N_RING || !fr_planner_start() ||
        fr_gather_structure(g, &of, NULL) != FR_OK ||
        !(d = fr_malloc(sizeof *d + of.n_key * sizeof *of.key + (size_t)of.n_nodes * sizeof *of.site +
                        (size_t)of.n_moving * (sizeof *of.moving + sizeof *of.older) + (size_t)of.n_scalars * sizeof *of.scalar +
                        ((size_t)of.n_nodes + g->n_views) * sizeof *d->held)))
        return NULL;
    memcpy(d->words, of.key, of.n_key * sizeof *of.key);
    d->held = (struct fr_layout **)(d->words + of.n_key);
    moving = (int64_t *)(void *)(d->held + of.n_nodes + g->n_views);
    move = (struct fr_move *)(moving + of.n_moving);
    scalar = (struct fr_scalar_bits *)(move + of.n_moving);
    site = (uint32_t *)(scalar + of.n_scalars);
    if (of.n_scalars)
        memcpy(scalar, of.scalar, (size_t)of.n_scalars * sizeof *scalar);
    if (of.n_moving)
        memcpy(moving, of.moving, (size_t)of.n_moving * sizeof *moving);
    if (of.n_moving && older)
        memcpy(move, older, (size_t)of.n_moving * sizeof *move);
    memcpy(site, of.site, (size_t)of.n_nodes * sizeof *site);
    d->of = of;
    d->of.key = d->words;
    d->of.site = site;
    d->of.moving = moving;
    d->of.older = older ? move : NULL;
    d->of.scalar = scalar;
    d->plan = NULL;
    d->n_held = fr_gather_layouts(g, d->held);
    atomic_init(&d->done, false);
    p.ring[n_asked % N_RING] = d;
    atomic_store(&p.n_asked, n_asked + 1);
    wake();
    return d;
}

bool
fr_planner_done(struct fr_draft *d, struct fr_plan **out)
{
    if (!atomic_load(&d->done)) {
        fr_planner_start(); /* in a child of fork */
        return false;
    }
    if ((*out = d->plan)) {
        d->plan->held = d->held;
        d->plan->n_held = d->n_held;
        d->plan->room = d;
        return true;
    }
    for (int i = 0; i < d->n_held; i++)
        fr_layout_unref(d->held[i]);
    fr_free(d);
    return true;
}

bool
fr_planner_wait(double timeout_s)
{
    const struct timespec pause = {0, PAUSE_NS};
    int64_t               end = fr_now_us() + (int64_t)(timeout_s * 1e6);

    while (p.running && !is_empty() && fr_now_us() < end)
        nanosleep(&pause, NULL);
    return !p.running || is_empty();
}

void
fr_planner_stop(void)
{
    if (!p.running)
        return;
    atomic_store(&p.stop, true);
    sem_post(&p.wake);
    pthread_join(p.thread, NULL);
    p.running = false;
}
