/* One evaluation at a time: threads take turns, and a fork takes one, too. Called by eval.c, and by bind around
 * a fork. */
#include <pthread.h>

#include "base/clock.h"
#include "runtime/storage.h"

/* The mutex guards these few words and is never held for long. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t  free;
    bool            busy;
    bool            forking;   /* taken for a fork: the thread that forks may still evaluate */
    pthread_t       owner;
} turn = {.mutex = PTHREAD_MUTEX_INITIALIZER, .free = PTHREAD_COND_INITIALIZER};

enum { SLICE_MS = 50 };        /* between looks for Ctrl-C while another thread evaluates */

enum whose_turn { TURN_TAKEN, TURN_MINE, TURN_OTHERS };

/* Takes the turn if it is free; MINE: this thread has it already. */
static enum whose_turn
take_turn(void)
{
    enum whose_turn whose = TURN_TAKEN;

    pthread_mutex_lock(&turn.mutex);
    if (turn.busy)
        whose = pthread_equal(turn.owner, pthread_self()) ? TURN_MINE : TURN_OTHERS;
    turn.busy = true;
    if (whose == TURN_TAKEN)
        turn.owner = pthread_self();
    pthread_mutex_unlock(&turn.mutex);
    return whose;
}

static void
end_turn(void)
{
    pthread_mutex_lock(&turn.mutex);
    turn.busy = false;
    pthread_cond_signal(&turn.free);
    pthread_mutex_unlock(&turn.mutex);
}

/* Sleeps until the turn may be free, a slice at most. */
static void
wait_slice(void)
{
    struct timespec until = fr_time_in_ns(SLICE_MS * 1000000);

    pthread_mutex_lock(&turn.mutex);
    if (turn.busy)
        pthread_cond_timedwait(&turn.free, &turn.mutex, &until);
    pthread_mutex_unlock(&turn.mutex);
}

/* Without the GIL, which the thread that evaluates will want. */
static fr_status
wait_turn(struct fr_err *err)
{
    void     *gil = fr_hooks.release_gil ? fr_hooks.release_gil() : NULL;
    fr_status st = FR_OK;

    while (st == FR_OK) {
        wait_slice();
        if (take_turn() == TURN_TAKEN)
            break;
        if (fr_hooks.interrupted && fr_hooks.interrupted())
            st = fr_fail(err, FR_EINTR, "interrupted while another thread computed");
    }
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

void
fr_turn_leave(void)
{
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
    pthread_cond_init(&turn.free, NULL);
    if (!turn.busy || !pthread_equal(turn.owner, pthread_self()))
        turn.busy = turn.forking = false;
}

fr_status
fr_turn_init(struct fr_err *err)
{
    if (pthread_atfork(NULL, NULL, forget_other_threads) != 0)
        return fr_no_memory(err, "the fork handler");
    return FR_OK;
}
