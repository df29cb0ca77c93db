/* backends/cpu/pool.c -- see pool.h.
 *
 * A run is described by one static struct. It is `open` while tasks may be left; a worker that
 * wakes enters it by counting itself into `state`, and a worker that wakes too late finds it
 * closed and goes back to wait. So the caller never waits for a thread that has not begun.
 *
 *     state = OPEN | workers inside
 *     caller:  publish, OPEN, generation++, wake; work; close; wait until nobody is inside
 *     worker:  generation changed -> enter if OPEN -> work -> leave
 *
 * Each participant is dealt a range of tasks and takes them in order by counting `next` up; one
 * that is done counts up the ranges of the others. There are no locks: `owned` is set while
 * somebody runs or changes the team. */
#define _GNU_SOURCE
#include "backends/cpu/pool.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "base/fpe.h"
#include "base/alloc.h"
#include "base/background.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/tune.h"

enum {
    MAX_THREADS = 256,
    STACK_BYTES = 1 << 20,
    POLL_NS = 5000000,     /* how often the caller asks whether it is interrupted */
    MOVE_NS = 1000000,     /* how often workers are moved out of its way */
};
static const uint32_t OPEN = 1u << 31;

atomic_uint fr_fpe_others;

struct range {
    _Alignas(64) atomic_llong next;
    long long                 end;
};

static struct {
    void (*task)(void *arg, int64_t i, int worker);
    void                    *arg;
    int                      n_parts;
    int                      id_limit;    /* workers from here on stay out */
    _Alignas(64) atomic_uint state;
    atomic_bool              cancelled;
    atomic_bool              caller_waits;
    struct range             part[MAX_THREADS];
} run;

static struct {
    pthread_t               *thread;
    atomic_int               n;           /* workers, the caller not counted */
    int                      built_for;   /* the size it was started for; 0: not started */
    _Alignas(64) atomic_uint generation;  /* a run has begun, or `stop` is set */
    atomic_uint              n_asleep;
    atomic_bool              stop;
    int                      kept_off;    /* 1 + the processor that workers keep off; 0: none */
    int64_t                  moved_ns;
} team;

static atomic_int  size_wanted;      /* 0: not yet asked for */
static atomic_bool owned;            /* a run, or a change of the team, is under way */
static atomic_bool polling;          /* the owner is in fr_backend_interrupted: it may want the GIL */
static atomic_bool at_fork_installed;

static FR_THREAD_LOCAL bool is_worker; /* one of our threads */
static FR_THREAD_LOCAL bool is_caller; /* inside its own run */
/* What fr_pool_size last told this thread. Its next run has no worker beyond, even if the size
 * was changed from elsewhere since: the caller has made room for so many. */
static FR_THREAD_LOCAL int size_told;

static struct {
    atomic_ullong n_runs, n_tasks;
} stats;

/* ---- waiting -------------------------------------------------------------------------------- */

/* Sleeps while *word == seen, at most `ns` (0: no limit). May return early. */
static void
word_wait(atomic_uint *word, unsigned seen, int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};

#if defined(__linux__)
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, ns ? &t : NULL, NULL, 0);
#else
    /* Without futexes: naps, shorter than anybody would notice. */
    t.tv_sec = 0;
    t.tv_nsec = 200000;
    if (atomic_load(word) == seen)
        nanosleep(&t, NULL);
#endif
}

static void
word_wake(atomic_uint *word, int n)
{
#if defined(__linux__)
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
#else
    (void)word;
    (void)n;
#endif
}

/* Spins until *word != seen or the time for that is over. */
static bool
spin_while(atomic_uint *word, unsigned seen)
{
    int64_t until = fr_now_ns() + fr_tune.spin_ns;

    do {
        for (int k = 0; k < 32; k++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen)
                return true;
            fr_pool_relax();
        }
    } while (fr_now_ns() < until);
    return false;
}

static void
nap(void)
{
    struct timespec t = {0, 50000};

    nanosleep(&t, NULL);
}

static bool
interrupted(void)
{
    bool (*ask)(void) = fr_backend_interrupted;
    bool yes;

    if (!ask || is_worker)
        return false;
    atomic_store(&polling, true);
    yes = ask();
    atomic_store(&polling, false);
    return yes;
}

/* ---- one run -------------------------------------------------------------------------------- */

/* Takes tasks until none is left: first of its own range, then of the others'. */
static void
work(int id)
{
    int64_t polled = id == 0 ? fr_now_ns() : 0;

    for (int k = 0; k < run.n_parts; k++) {
        struct range *r = &run.part[(id + k) % run.n_parts];

        while (atomic_load_explicit(&r->next, memory_order_relaxed) < r->end) {
            long long i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);

            if (i >= r->end)
                break;
            if (atomic_load_explicit(&run.cancelled, memory_order_relaxed))
                return;
            run.task(run.arg, i, id);
            if (id == 0) {
                int64_t now = fr_now_ns();

                if (now - polled > POLL_NS) {
                    if (interrupted())
                        atomic_store(&run.cancelled, true);
                    polled = fr_now_ns();
                }
            }
        }
    }
}

static void *
worker_main(void *arg)
{
    int      id = (int)(intptr_t)arg;
    unsigned seen = 0;

    is_worker = true;
    for (;;) {
        unsigned s;

        while (atomic_load_explicit(&team.generation, memory_order_acquire) == seen) {
            if (spin_while(&team.generation, seen))
                break;
            atomic_fetch_add(&team.n_asleep, 1);
            word_wait(&team.generation, seen, 0);
            atomic_fetch_sub(&team.n_asleep, 1);
        }
        seen = atomic_load_explicit(&team.generation, memory_order_acquire);
        if (atomic_load(&team.stop))
            return NULL;
        s = atomic_load(&run.state);
        while (s & OPEN)
            if (atomic_compare_exchange_weak(&run.state, &s, s + 1)) {
                if (id < run.id_limit) {
                    work(id);
                    fr_fpe_add();
                }
                if (atomic_fetch_sub(&run.state, 1) == 1 && atomic_load(&run.caller_waits))
                    word_wake(&run.state, 1);
                break;
            }
    }
}

static bool
run_serial(void (*task)(void *arg, int64_t i, int worker), void *arg, int64_t n)
{
    int64_t polled;

    if (n == 1) {
        task(arg, 0, 0);
        return true;
    }
    polled = fr_now_ns();
    for (int64_t i = 0; i < n; i++) {
        int64_t now;

        task(arg, i, 0);
        now = fr_now_ns();
        if (now - polled > POLL_NS) {
            if (interrupted())
                return false;
            polled = fr_now_ns();
        }
    }
    return true;
}

/* Workers keep off the processor of the caller, which is busy with its own tasks: the scheduler wakes some
 * there, as while a compiler has the other one, and leaves them for tens of milliseconds. (Of 12 processes that
 * ran gelu on 10^6 f64 on two processors, 7 took as long as one thread for 45 to 355 of 355 runs.) They are our
 * threads, and may run wherever else the caller may; where that is too few they are left alone. */
static void
keep_off_caller(void)
{
#if defined(__linux__)
    int       cpu = sched_getcpu();
    int64_t   now;
    cpu_set_t set;

    if (cpu < 0 || team.kept_off == cpu + 1 || (now = fr_now_ns()) - team.moved_ns < MOVE_NS)
        return;
    team.kept_off = cpu + 1;
    team.moved_ns = now;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) <= team.n)
        return;
    CPU_CLR(cpu, &set);
    for (int k = 0; k < team.n; k++)
        pthread_setaffinity_np(team.thread[k], sizeof set, &set); /* may fail: the cpuset has changed */
#endif
}

static void
run_parallel(void (*task)(void *arg, int64_t i, int worker), void *arg, int64_t n)
{
    unsigned s;
    int      team_size = team.n + 1 < size_told ? team.n + 1 : size_told;
    int      parts = team_size < n ? team_size : (int)n, asleep;

    run.task = task;
    run.arg = arg;
    run.n_parts = parts;
    run.id_limit = size_told;
    atomic_store(&run.cancelled, false);
    atomic_store(&run.caller_waits, false);
    for (int k = 0; k < parts; k++) {
        /* n / parts each, the first n % parts one more; no product that could overflow. */
        int64_t each = n / parts, more = n % parts;

        atomic_store_explicit(&run.part[k].next, k * each + (k < more ? k : more),
                              memory_order_relaxed);
        run.part[k].end = (k + 1) * each + (k + 1 < more ? k + 1 : more);
    }
    keep_off_caller();
    atomic_store(&run.state, OPEN);
    atomic_fetch_add(&team.generation, 1);
    /* Only now: one that falls asleep meanwhile has seen the new generation, or is counted. */
    asleep = parts - 1 - fr_pool_awake();
    if (asleep > 0)
        word_wake(&team.generation, asleep); /* any of them: each may take from every range */
    work(0);
    atomic_fetch_and(&run.state, ~OPEN);
    s = atomic_load(&run.state);
    while (s != 0) {
        if (!spin_while(&run.state, s)) {
            atomic_store(&run.caller_waits, true);
            word_wait(&run.state, s, POLL_NS);
            if (interrupted())
                atomic_store(&run.cancelled, true);
        }
        s = atomic_load(&run.state);
    }
}

/* ---- the team ------------------------------------------------------------------------------- */

static int
pool_size(void)
{
    int n = atomic_load_explicit(&size_wanted, memory_order_relaxed);

    if (n == 0) {
        n = fr_env.num_threads > 0 ? fr_env.num_threads : fr_processors();
        n = n > MAX_THREADS ? MAX_THREADS : n;
        atomic_store(&size_wanted, n);
    }
    return n;
}

int
fr_pool_size(void)
{
    return size_told = pool_size();
}

/* Under `owned`. Starts as many of the size - 1 workers as the system grants. */
static void
team_start(void)
{
    int want = pool_size() - 1, error = 0;

    team.built_for = want + 1;
    if (want < 1 || !(team.thread = fr_calloc((size_t)want, sizeof *team.thread)))
        return;
    atomic_store(&team.stop, false);
    atomic_store(&team.generation, 0);
    atomic_store(&team.n_asleep, 0);
    team.kept_off = 0;
    while (team.n < want && error == 0) {
        error = fr_thread_start(&team.thread[team.n], worker_main, (void *)(intptr_t)(team.n + 1), STACK_BYTES);
        if (error == 0) {
#if defined(__linux__)
            char name[32];

            snprintf(name, sizeof name, "frit-%d", team.n);
            pthread_setname_np(team.thread[team.n], name);
#endif
            team.n++;
        }
    }
    if (error != 0)
        fr_warn_once("threads", "only %d of %d threads could be started (%s)", team.n + 1, want + 1,
                     strerror(error));
}

/* Under `owned`. */
static void
team_end(void)
{
    atomic_store(&team.stop, true);
    atomic_fetch_add(&team.generation, 1);
    word_wake(&team.generation, INT_MAX);
    for (int k = 0; k < team.n; k++)
        pthread_join(team.thread[k], NULL);
    fr_free(team.thread);
    team.thread = NULL;
    team.n = 0;
    team.built_for = 0;
}

static bool
own(void)
{
    bool no = false;

    return atomic_compare_exchange_strong(&owned, &no, true);
}

static void
disown(void)
{
    atomic_store(&owned, false);
}

/* Waits for the run that is under way. False when its caller is asking for an interrupt: that may
 * need the GIL, which the thread that waits here may hold. */
static bool
own_patiently(void)
{
    while (!own()) {
        if (atomic_load(&polling))
            return false;
        nap();
    }
    return true;
}

int
fr_pool_awake(void)
{
    return team.n - (int)atomic_load(&team.n_asleep);
}

void
fr_pool_stats(struct fr_pool_stats *out)
{
    out->n_runs = atomic_load(&stats.n_runs);
    out->n_tasks = atomic_load(&stats.n_tasks);
}

bool
fr_pool_run(void (*task)(void *arg, int64_t i, int worker), void *arg, int64_t n)
{
    bool done;

    if (n <= 0)
        return true;
    if (n == 1 || is_worker || is_caller || pool_size() == 1 || !own())
        return run_serial(task, arg, n);
    if (team.built_for != pool_size()) {
        team_end();
        team_start();
    }
    if (size_told == 0)
        size_told = pool_size();
    if (team.n == 0) {
        disown();
        return run_serial(task, arg, n);
    }
    is_caller = true;
    atomic_fetch_add_explicit(&stats.n_runs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats.n_tasks, (unsigned long long)n, memory_order_relaxed);
    run_parallel(task, arg, n);
    is_caller = false;
    done = !atomic_load(&run.cancelled);
    disown();
    return done;
}

void
fr_pool_set_size(int n)
{
    n = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
    atomic_store(&size_wanted, n);
    /* Where waiting is not possible, the next run changes the team. */
    if (is_worker || is_caller || !own_patiently())
        return;
    if (team.built_for != n)
        team_end();
    disown();
}

void
fr_pool_stop(void)
{
    if (is_worker || is_caller || !own_patiently())
        return;
    team_end();
    disown();
}

/* ---- fork ----------------------------------------------------------------------------------- */

static bool owned_for_fork;

static void
before_fork(void)
{
    /* From inside a run (a signal handler that Python runs while we poll) there is nothing to
     * wait for. */
    owned_for_fork = !is_caller && own_patiently();
}

static void
after_fork_parent(void)
{
    if (owned_for_fork)
        disown();
}

/* The threads do not exist here. A run that this thread was in has lost the tasks that they had
 * taken, so it ends as cancelled; its owner lets go of it as usual. */
static void
after_fork_child(void)
{
    fr_free(team.thread);
    team.thread = NULL;
    team.n = 0;
    team.built_for = 0;
    atomic_store(&polling, false);
    atomic_store(&run.cancelled, true);
    atomic_store(&run.state, 0);
    atomic_store(&owned, is_caller);
}

fr_status
fr_pool_init(struct fr_err *err)
{
    bool no = false;
    int  error;

    if (!atomic_compare_exchange_strong(&at_fork_installed, &no, true))
        return FR_OK;
    error = fr_alloc_may_fail() ? ENOMEM
                                : pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    if (error != 0) {
        atomic_store(&at_fork_installed, false);
        return fr_fail(err, FR_ENOMEM, "no room for the fork handlers of the thread pool");
    }
    return FR_OK;
}
