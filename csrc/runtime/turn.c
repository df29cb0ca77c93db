/* One evaluation at a time: threads take turns, and a fork takes one, too. Called by eval.c, and by bind around
 * a fork. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "runtime/storage.h"

/* Each evaluation takes a turn, and nearly always nobody wants it at the same time: one exchange each way. The
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
} turn = {.mutex = PTHREAD_MUTEX_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};

enum { SLICE_MS = 50 };        /* between looks for Ctrl-C while another thread evaluates */

enum whose_turn { TURN_TAKEN, TURN_MINE, TURN_OTHERS };

static uintptr_t
this_thread(void)
{
    return (uintptr_t)pthread_self();
}

/* Takes the turn if it is free; MINE: this thread has it already. */
static enum whose_turn
take_turn(void)
{
    int state = FREE;

    if (atomic_compare_exchange_strong(&turn.state, &state, TAKEN)) {
        atomic_store_explicit(&turn.owner, this_thread(), memory_order_relaxed);
        return TURN_TAKEN;
    }
    return atomic_load(&turn.owner) == this_thread() ? TURN_MINE : TURN_OTHERS;
}

static void
end_turn(void)
{
    int state = TAKEN;

    atomic_store_explicit(&turn.owner, 0, memory_order_relaxed);
    if (atomic_compare_exchange_strong(&turn.state, &state, FREE))
        return;
    pthread_mutex_lock(&turn.mutex);
    turn.handed = turn.n_asleep > 0;
    if (turn.handed)
        pthread_cond_signal(&turn.end);
    else
        atomic_store(&turn.state, FREE);
    pthread_mutex_unlock(&turn.mutex);
}

/* Takes the turn, or sleeps until it is handed over, a slice at most. */
static bool
take_or_sleep(void)
{
    struct timespec until = fr_time_in_ns(SLICE_MS * 1000000);
    bool            taken;

    pthread_mutex_lock(&turn.mutex);
    taken = atomic_exchange(&turn.state, WANTED) == FREE;
    if (!taken) {
        turn.n_asleep++;
        if (!turn.handed)
            pthread_cond_timedwait(&turn.end, &turn.mutex, &until);
        turn.n_asleep--;
        taken = turn.handed;
        turn.handed = false;
    }
    pthread_mutex_unlock(&turn.mutex);
    if (taken)
        atomic_store(&turn.owner, this_thread());
    return taken;
}

/* Without the GIL, which the thread that evaluates will want. */
static fr_status
wait_turn(struct fr_err *err)
{
    void     *gil = fr_hooks.release_gil ? fr_hooks.release_gil() : NULL;
    fr_status st = FR_OK;

    while (st == FR_OK && !take_or_sleep())
        if (fr_hooks.interrupted && fr_hooks.interrupted())
            st = fr_fail(err, FR_EINTR, "interrupted while another thread computed");
    if (gil)
        fr_hooks.take_gil(gil);
    return st;
}

fr_status
fr_turn_enter(struct fr_err *err)
{
    switch (take_turn()) {
    case TURN_TAKEN: return FR_OK;
    case TURN_OTHERS: return wait_turn(err);
    default:
        return turn.forking ? FR_OK : fr_fail(err, FR_EBUG, "evaluation from inside an evaluation");
    }
}

bool
fr_turn_is_free(void)
{
    return atomic_load_explicit(&turn.state, memory_order_acquire) == FREE;
}

void
fr_turn_leave(void)
{
    FR_ASSERT(!fr_turn_is_free() && (turn.forking || atomic_load(&turn.owner) == this_thread()));
    if (!turn.forking)
        end_turn();
}

void
fr_runtime_before_fork(void)
{
    enum whose_turn whose = take_turn();

    /* From inside an evaluation (a signal's handler) there is nothing to wait for. */
    if (whose == TURN_TAKEN || (whose == TURN_OTHERS && wait_turn(NULL) == FR_OK))
        turn.forking = true;
}

void
fr_runtime_after_fork(void)
{
    if (turn.forking) { /* set by this thread: it was its turn */
        turn.forking = false;
        end_turn();
    }
}

/* In a child of fork only the forking thread lives on. What it was in goes on here; a run that another
 * thread was in (where fork was called without Python's hooks) never ends. */
static void
forget_other_threads(void)
{
    pthread_mutex_init(&turn.mutex, NULL);
    pthread_cond_init(&turn.end, NULL);
    turn.n_asleep = 0;
    turn.handed = false;
    if (atomic_load(&turn.owner) != this_thread()) {
        atomic_store(&turn.owner, 0);
        atomic_store(&turn.state, FREE);
        turn.forking = false;
    }
}

fr_status
fr_turn_init(struct fr_err *err)
{
    if (pthread_atfork(NULL, NULL, forget_other_threads) != 0)
        return fr_no_memory(err, "the fork handler");
    return FR_OK;
}
