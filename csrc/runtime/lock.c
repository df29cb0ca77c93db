/* One evaluation at a time: threads and forks take one lock in turn. Called by eval.c, and by bind around
 * a fork. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/span.h"
#include "runtime/storage.h"

/* Each evaluation takes the lock, and nearly always nobody wants it at the same time: one exchange each way. The
 * mutex is for those who sleep; it is handed to one of them, or a thread in a loop would always be sooner. */
enum { FREE, TAKEN, WANTED };  /* WANTED: taken, and somebody waits, or has waited, for its end */

static struct {
    atomic_int       state;
    atomic_uintptr_t owner;    /* the thread, while it is taken; else 0 */
    bool             forking;  /* taken for a fork: the thread that forks may still evaluate */
    pthread_mutex_t  mutex;    /* guards what follows */
    pthread_cond_t   end;
    int              n_asleep;
    bool             handed;   /* to one of them: it has ended, and is not free */
} lock = {.mutex = PTHREAD_MUTEX_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};

enum { SLICE_MS = 50 };        /* between looks for Ctrl-C while another thread evaluates */

enum lock_state { LOCK_TAKEN, LOCK_MINE, LOCK_OTHERS };

static uintptr_t
this_thread(void)
{
    return (uintptr_t)pthread_self();
}

/* Takes the lock if it is free; MINE: this thread has it already. */
static enum lock_state
take(void)
{
    int state = FREE;

    if (atomic_compare_exchange_strong(&lock.state, &state, TAKEN)) {
        atomic_store_explicit(&lock.owner, this_thread(), memory_order_relaxed);
        return LOCK_TAKEN;
    }
    return atomic_load(&lock.owner) == this_thread() ? LOCK_MINE : LOCK_OTHERS;
}

static void
release(void)
{
    int state = TAKEN;

    atomic_store_explicit(&lock.owner, 0, memory_order_relaxed);
    if (atomic_compare_exchange_strong(&lock.state, &state, FREE))
        return;
    pthread_mutex_lock(&lock.mutex);
    lock.handed = lock.n_asleep > 0;
    if (lock.handed)
        pthread_cond_signal(&lock.end);
    else
        atomic_store(&lock.state, FREE);
    pthread_mutex_unlock(&lock.mutex);
}

/* Takes the lock, or sleeps until it is handed over, a slice at most. */
static bool
take_or_sleep(void)
{
    struct timespec until = fr_time_in_ns(SLICE_MS * 1000000);
    bool            taken;

    pthread_mutex_lock(&lock.mutex);
    taken = atomic_exchange(&lock.state, WANTED) == FREE;
    if (!taken) {
        lock.n_asleep++;
        if (!lock.handed)
            pthread_cond_timedwait(&lock.end, &lock.mutex, &until);
        lock.n_asleep--;
        taken = lock.handed;
        lock.handed = false;
    }
    pthread_mutex_unlock(&lock.mutex);
    if (taken)
        atomic_store(&lock.owner, this_thread());
    return taken;
}

/* Without the GIL, which the thread that evaluates will want. */
static fr_status
wait_for(struct fr_err *err)
{
    const struct fr_span_mark mark = fr_span_begin();
    void                     *gil = fr_hooks.release_gil ? fr_hooks.release_gil() : NULL;
    fr_status                 st = FR_OK;

    while (st == FR_OK && !take_or_sleep())
        if (fr_hooks.interrupted && fr_hooks.interrupted())
            st = fr_fail(err, FR_EINTR, "interrupted while another thread computed");
    if (gil)
        fr_hooks.take_gil(gil);
    fr_span_end(&mark, FR_SPAN_turn, 0, 0, 0);
    return st;
}

fr_status
fr_eval_lock(struct fr_err *err)
{
    switch (take()) {
    case LOCK_TAKEN: return FR_OK;
    case LOCK_OTHERS: return wait_for(err);
    default:
        return lock.forking ? FR_OK : fr_fail(err, FR_EBUG, "evaluation from inside an evaluation");
    }
}

bool
fr_eval_is_unlocked(void)
{
    return atomic_load_explicit(&lock.state, memory_order_acquire) == FREE;
}

void
fr_eval_unlock(void)
{
    FR_ASSERT(!fr_eval_is_unlocked() && (lock.forking || atomic_load(&lock.owner) == this_thread()));
    if (!lock.forking)
        release();
}

void
fr_runtime_before_fork(void)
{
    enum lock_state whose = take();

    /* From inside an evaluation (a signal's handler) there is nothing to wait for. */
    if (whose == LOCK_TAKEN || (whose == LOCK_OTHERS && wait_for(NULL) == FR_OK))
        lock.forking = true;
}

void
fr_runtime_after_fork(void)
{
    if (lock.forking) { /* set by this thread: it had the lock */
        lock.forking = false;
        release();
    }
}

/* In a child of fork only the forking thread lives on. What it was in goes on here; a run that another
 * thread was in (where fork was called without Python's hooks) never ends. */
static void
forget_other_threads(void)
{
    pthread_mutex_init(&lock.mutex, NULL);
    pthread_cond_init(&lock.end, NULL);
    lock.n_asleep = 0;
    lock.handed = false;
    if (atomic_load(&lock.owner) != this_thread()) {
        atomic_store(&lock.owner, 0);
        atomic_store(&lock.state, FREE);
        lock.forking = false;
    }
}

fr_status
fr_eval_lock_init(struct fr_err *err)
{
    if (pthread_atfork(NULL, NULL, forget_other_threads) != 0)
        return fr_no_memory(err, "the fork handler");
    return FR_OK;
}
