/* jit/compile.c -- the manager: one thread that takes nests in, looks them up, has helpers compile
 * them and hands code back.
 *
 *     want() --> mailbox --> inbox --> memory, disk --hit--> ready()
 *                                        |miss
 *                                        v
 *                                      todo --> helper 0..n --> load --> ready(), then disk
 *                                          (several at a time)
 *
 * The manager gives way to who computes, so it may be stopped in the middle of anything, with its lock in its hand: who
 * wants code puts a job into the mailbox, without the lock, and takes that only to start the manager; waking it is
 * somebody else's turn (fr_compile_nudge).
 * Lists change under the lock only, so that a forked child finds them whole: there all jobs go back
 * to the inbox, and a new manager starts when it is needed. What must not be torn by a fork (the
 * loader's work) happens under `fork_lock`, which forking takes, too; want() never waits for it. The
 * manager polls its helpers in slices instead of being woken through a descriptor: programs that
 * become daemons close those. */
#include "jit/compile_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/background.h"
#include "base/clock.h"
#include "base/env.h"
#include "jit/cache.h"
#include "jit/exec.h"

enum { THREAD_STACK = 512 << 10 };
/* Waking the manager costs whoever asks as much as a run of a small kernel, and what is new comes with more of it: so
 * until ATTENTIVE_US after the last request nobody does, and it looks every PEEK_NS. */
#define ATTENTIVE_US (200 * 1000ll)
#define PEEK_NS      2000000

struct fr_manager fr_manager = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                .fork_lock = PTHREAD_MUTEX_INITIALIZER,
                                .wake = PTHREAD_COND_INITIALIZER,
                                .done = PTHREAD_COND_INITIALIZER};
static struct fr_manager *const m = &fr_manager;

/* ---- the thread ------------------------------------------------------------------------------ */

/* Into the inbox, the oldest first. Lock held. */
static void
empty_mailbox(void)
{
    struct fr_job *j = atomic_exchange(&m->mailbox, NULL), *next, *oldest = NULL;

    for (; j; j = next) {
        next = j->next;
        j->next = oldest;
        oldest = j;
    }
    for (; oldest; oldest = next) {
        next = oldest->next;
        fr_jobs_push(&m->inbox, oldest);
    }
}

/* Waits for a job while helpers have nothing to do; they are looked at every now and then. */
static void
wait_for_work(void)
{
    bool            attentive = fr_now_us() - m->asked_us < ATTENTIVE_US, helpers = false;
    struct timespec until = fr_time_in_ns(attentive ? PEEK_NS : 1000000000);

    for (int i = 0; i < FR_MAX_HELPERS; i++)
        helpers |= m->helper[i].pid != 0;
    m->asleep = !attentive;
    /* Who put something there before could not see that we sleep. */
    if (!m->mailbox && (attentive || helpers))
        pthread_cond_timedwait(&m->wake, &m->lock, &until);
    else if (!m->mailbox)
        pthread_cond_wait(&m->wake, &m->lock);
    m->asleep = false;
}

/* Where processors are few, whoever interprets comes first: looking kernels up, digesting the helper's files
 * and starting helpers took milliseconds from first calls. */
static void
step_back(void)
{
    if (!fr_env_waits_for_code())
        fr_background(10);
}

static void *
manage(void *unused)
{
    step_back();
    for (;;) {
        bool stop, more;

        pthread_mutex_lock(&m->lock);
        empty_mailbox();
        while (!m->stop && !m->inbox.first && !m->todo.first && !fr_helpers_work()) {
            wait_for_work();
            empty_mailbox();
            if (!m->inbox.first)
                break;
        }
        stop = m->stop;
        if (!stop && (m->current = fr_jobs_pop(&m->inbox)))
            m->asked_us = fr_now_us();
        more = m->inbox.first;
        pthread_mutex_unlock(&m->lock);
        if (stop)
            break;
        if (m->current)
            fr_job_take_in();
        fr_helpers_distribute();
        fr_helpers_hear(!more);
    }
    fr_helpers_stop();
    return unused;
}

/* Starts the manager. Lock held. */
static bool
start_manager(void)
{
    if (!m->running) {
        m->stop = false;
        m->running = fr_thread_start(&m->thread, manage, NULL, THREAD_STACK) == 0;
    }
    return m->running;
}

/* ---- forking --------------------------------------------------------------------------------- */

static void
before_fork(void)
{
    pthread_mutex_lock(&m->fork_lock);
    pthread_mutex_lock(&m->lock);
}

static void
after_fork_parent(void)
{
    fr_exec_forked();
    pthread_mutex_unlock(&m->lock);
    pthread_mutex_unlock(&m->fork_lock);
}

/* There is no manager here, and helpers and their directories are the parent's. */
static void
after_fork_child(void)
{
    struct fr_job *j;

    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->fork_lock, NULL);
    pthread_cond_init(&m->wake, NULL);
    pthread_cond_init(&m->done, NULL);
    fr_cache_after_fork();
    fr_exec_forked();
    m->running = m->asleep = m->stop = m->imports_read = false;
    m->memo_read = m->compiler_known;
    if (m->current)
        fr_jobs_push(&m->inbox, m->current);
    m->current = NULL;
    while ((j = fr_jobs_pop(&m->todo)))
        fr_jobs_push(&m->inbox, j);
    fr_helpers_abandon();
    empty_mailbox();
    m->n_pending = 0; /* a thread that was about to put something there is not here */
    for (j = m->inbox.first; j; j = j->next)
        m->n_pending++;
}

/* ---- the interface --------------------------------------------------------------------------- */

void
fr_compile_configure(const char *helper_path, const char *const *features)
{
    static bool   at_fork_set;
    struct fr_err err;
    int           n = 0;

    fr_compile_stop();
    fr_cache_configure();
    pthread_mutex_lock(&m->lock);
    if (!at_fork_set)
        at_fork_set = pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0;
    for (int i = 0; i < FR_MAX_FEATURES; i++) {
        fr_free(m->feature[i]);
        m->feature[i] = NULL;
    }
    m->helper_hashed = m->compiler_known = m->memo_read = m->imports_read = m->is_unavailable = false;
    m->n_imports = 0;
    m->unavailable[0] = m->pause_reason[0] = '\0';
    m->n_deaths_at_start = m->n_pauses = 0;
    m->resume_us = 0;
    m->configured = fr_helper_prepare(&m->setup, helper_path, &err) == FR_OK;
    for (; m->configured && features && features[n] && n < FR_MAX_FEATURES; n++) {
        size_t len = strlen(features[n]) + 1;

        if ((m->feature[n] = fr_malloc(len)))
            memcpy(m->feature[n], features[n], len);
        else
            m->configured = false;
    }
    m->configured = m->configured && fr_key_set_features(&m->origin, (const char *const *)m->feature);
    pthread_mutex_unlock(&m->lock);
    if (!m->configured)
        fr_compile_set_unavailable("out of memory at import");
}

static struct fr_job *
new_job(const struct fr_nest *nest)
{
    struct fr_job *j = fr_calloc(1, sizeof *j);

    if (!j)
        return NULL;
    j->n_nest = fr_nest_pack(nest, NULL, 0);
    j->n_stages = nest->n_stages;
    if (!(j->nest = fr_malloc(j->n_nest))) {
        fr_free(j);
        return NULL;
    }
    fr_nest_pack(nest, j->nest, j->n_nest);
    return j;
}

void
fr_compile_want(const struct fr_nest *nest, bool lookup_only,
                void (*ready)(void *arg, const struct fr_nest_code *code), void *arg)
{
    struct fr_job *j = new_job(nest);

    fr_compile_start();
    if (!j || !m->running) { /* nobody else will answer */
        fr_job_free(j);
        ready(arg, NULL);
        return;
    }
    j->lookup_only = lookup_only;
    j->ready = ready;
    j->arg = arg;
    m->n_pending++;
    j->next = m->mailbox;
    while (!atomic_compare_exchange_weak(&m->mailbox, &j->next, j))
        ;
}

void
fr_compile_nudge(void)
{
    if (m->mailbox && m->asleep) {
        pthread_mutex_lock(&m->lock);
        pthread_cond_signal(&m->wake);
        pthread_mutex_unlock(&m->lock);
    }
}

void
fr_compile_start(void)
{
    if (m->running)
        return;
    pthread_mutex_lock(&m->lock);
    if (m->configured)
        start_manager();
    pthread_mutex_unlock(&m->lock);
}

bool
fr_compile_wait(double timeout_s, bool (*interrupted)(void))
{
    int64_t end = fr_now_us() + (int64_t)(timeout_s * 1e6);
    bool    idle = false, asked = false;

    while (!idle && !asked && fr_now_us() < end) {
        struct timespec until;

        pthread_mutex_lock(&m->lock);
        if (m->n_pending && start_manager()) {
            pthread_cond_signal(&m->wake);
            until = fr_time_in_ns((int64_t)(timeout_s < 0.05 ? timeout_s * 1e9 : 5e7));
            pthread_cond_timedwait(&m->done, &m->lock, &until);
        }
        idle = m->n_pending == 0;
        pthread_mutex_unlock(&m->lock);
        asked = interrupted && interrupted();
    }
    return idle;
}

void
fr_compile_stats(struct fr_compile_stats *out)
{
    pthread_mutex_lock(&m->lock);
    *out = m->stats;
    out->n_pending = m->n_pending;
    for (size_t i = 0; i < m->n_known; i++)
        out->n_loaded += m->known[i]->object != NULL;
    fr_exec_stats(&out->code_bytes, &out->code_maps);
    pthread_mutex_unlock(&m->lock);
}

const char *
fr_compile_unavailable(void)
{
    const char *why;

    pthread_mutex_lock(&m->lock);
    why = m->is_unavailable ? m->unavailable : fr_compile_is_paused() ? m->pause_reason : NULL;
    pthread_mutex_unlock(&m->lock);
    return why;
}

void
fr_compile_stop(void)
{
    struct fr_job *j;
    bool           running;

    pthread_mutex_lock(&m->lock);
    running = m->running;
    m->stop = true;
    pthread_cond_broadcast(&m->wake);
    pthread_mutex_unlock(&m->lock);
    if (running)
        pthread_join(m->thread, NULL);
    pthread_mutex_lock(&m->lock);
    m->running = m->stop = false;
    empty_mailbox();
    while ((j = fr_jobs_pop(&m->inbox)) || (j = fr_jobs_pop(&m->todo))) {
        m->n_pending--;
        fr_job_free(j);
    }
    pthread_cond_broadcast(&m->done);
    pthread_mutex_unlock(&m->lock);
}
