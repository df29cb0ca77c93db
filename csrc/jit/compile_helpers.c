/* jit/compile_helpers.c -- who compiles for the manager: which helper gets which jobs, what comes back, and what becomes
 * of the jobs of one that dies, talks nonsense or takes too long.
 *
 * Starting the compiler, assembler and linker is most of a small kernel, so jobs that wait become one object, up to
 * FR_BATCH_MAX of them, shared out among the helpers; large ones stay alone. Functions are named by their kernels'
 * keys, and each kernel has the whole object as its own entry of the cache, so nothing else knows of batches. */
#include <poll.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "jit/cache.h"
#include "jit/compile_int.h"

enum {
    RECYCLE_AFTER = 200, /* compilations; each leaks about 0.5 MB */
    SLICE_MS = 10,       /* between looks at the inbox while helpers work */
    MAX_TRIES = 2,       /* a helper may have died of something else */
    BATCH_INSTS = 256,   /* of the nests of one object: the first must not wait long for the last */
};
/* A nest of 1,200 instructions with 400 sines took 23 s. Where all processors are busy, a helper that gives way to who
 * computes gets a hundredth of one, and is not stopped for that. */
#define DEADLINE_US(n_insts) (30 * 1000000ll + 50000ll * (n_insts))
#define PATIENCE    10
#define IDLE_US     (20 * 1000000ll)

static struct fr_manager *const m = &fr_manager;

static struct fr_jobs *work_of(const struct fr_helper *h) { return &m->work[h - m->helper]; }

static int
max_helpers(void)
{
    return fr_env.helpers < 1 ? 1 : fr_env.helpers > FR_MAX_HELPERS ? FR_MAX_HELPERS : fr_env.helpers;
}

static void
stop_helper(struct fr_helper *h)
{
    if (h->pid)
        fr_helper_stop(h);
}

static bool is_batch(const struct fr_jobs *l) { return l->first && l->first->next; }

/* Whatever went wrong with the object of several nests, each is compiled again, alone. */
static void
part_batch(struct fr_jobs *l)
{
    while (fr_jobs_take(l)) {
        m->current->alone = true;
        fr_jobs_put(&m->todo);
    }
}

/* A helper is gone, or too late. Its jobs get a second chance with another one. */
static void
bury(struct fr_helper *h, bool late, const char *why)
{
    struct fr_jobs *work = work_of(h);
    bool            greeted = h->greeted;

    stop_helper(h);
    fr_warn_once("compile", "a compiler helper %s: %s", late ? "took too long" : "died", why);
    if (!greeted && ++m->n_deaths_at_start >= MAX_TRIES) {
        m->n_deaths_at_start = 0;
        fr_compile_pause("the compiler helper does not start");
    }
    if (is_batch(work) && !fr_compile_is_stopped()) {
        part_batch(work);
        return;
    }
    while (fr_jobs_take(work)) {
        if (late || ++m->current->n_tries >= MAX_TRIES || fr_compile_is_stopped())
            fr_job_give_up(!fr_compile_is_stopped());
        else
            fr_jobs_put(&m->todo);
    }
}

static bool
start_helper(struct fr_helper *h)
{
    struct fr_err err;

    if (!m->swept) {
        m->swept = true;
        fr_helper_sweep(&m->setup);
    }
    if (fr_helper_start(h, &m->setup, &err) != FR_OK) {
        fr_compile_pause(err.text);
        return false;
    }
    h->since_us = fr_now_us();
    fr_compile_count(&m->stats.n_helpers_started, 1);
    return true;
}

static bool
in_progress(const struct fr_key *key)
{
    for (int i = 0; i < FR_MAX_HELPERS; i++)
        for (const struct fr_job *j = m->work[i].first; j; j = j->next)
            if (fr_key_equal(&j->key, key))
                return true;
    return false;
}

static int n_insts(const struct fr_job *j) { return (int)(j->n_nest / sizeof(struct fr_inst)); }

/* Takes the first job that no helper works on yet out of the todo list, as m->current; of those that
 * may join `others`, if there are any. */
static bool
take_todo(const struct fr_jobs *others, int room)
{
    struct fr_jobs passed = {NULL, NULL};
    struct fr_job *j;

    pthread_mutex_lock(&m->lock);
    while (!m->current && (j = fr_jobs_pop(&m->todo))) {
        fr_job_key(j);
        if (in_progress(&j->key) || (others->first && (j->alone || n_insts(j) > room)))
            fr_jobs_push(&passed, j);
        else
            m->current = j;
    }
    if (passed.first) { /* they keep their places before the rest */
        passed.last->next = m->todo.first;
        if (m->todo.first)
            passed.last = m->todo.last;
        m->todo = passed;
    }
    pthread_mutex_unlock(&m->lock);
    return m->current != NULL;
}

static void
fail_todo(void)
{
    while (fr_jobs_take(&m->todo))
        fr_job_answer(NULL);
}

/* How many nests the next object is for: assembler and linker cost as much for one as for eight,
 * but no helper shall be idle while another one has several. */
static int
batch_size(void)
{
    int n = 0, share;

    for (const struct fr_job *j = m->todo.first; j; j = j->next)
        n++;
    share = (n + max_helpers() - 1) / max_helpers();
    return share < FR_BATCH_MAX ? share : FR_BATCH_MAX;
}

/* Gives waiting jobs to helper `h`, which is idle. */
static void
assign(struct fr_helper *h)
{
    struct fr_packed_nest nest[FR_BATCH_MAX];
    struct fr_jobs       *work = work_of(h);
    struct fr_err         err;
    int                   n = 0, size = batch_size(), room = BATCH_INSTS;

    while (n < size && take_todo(work, room)) {
        struct fr_job        *j = m->current;
        struct fr_known_code *k = fr_job_known(&j->key); /* another job may have had the same nest */

        if (k) {
            fr_job_answer_known(k);
            continue;
        }
        nest[n].bytes = j->nest;
        nest[n].n_bytes = j->n_nest;
        fr_key_name(&j->key, nest[n++].name);
        room -= n_insts(j);
        if (j->alone)
            size = n;
        fr_jobs_put(work);
    }
    if (n == 0)
        return;
    h->since_us = fr_now_us();
    if (fr_helper_request(h, (const char *const *)m->feature, nest, (uint32_t)n, &err) != FR_OK)
        bury(h, false, err.text);
}

void
fr_helpers_distribute(void)
{
    if (fr_compile_is_stopped())
        fail_todo();
    for (int i = 0; i < max_helpers() && m->todo.first && !fr_compile_is_stopped(); i++) {
        struct fr_helper *h = &m->helper[i];

        if (!h->pid && (!start_helper(h) || !m->compiler_known))
            return;
        if (h->greeted && !work_of(h)->first && m->compiler_known)
            assign(h);
        if (!h->greeted)
            return; /* one after another: the first may tell that there is no compiler */
    }
}

/* Each kernel of the object has it as its own entry of the cache. The first one is there; others
 * that are not go back to where they came from, and will be first. */
static void
finish_compile(struct fr_helper *h)
{
    int64_t         us = fr_now_us() - h->since_us;
    struct fr_jobs *work = work_of(h);
    bool            batch = is_batch(work), first = true;
    int             n_kernels = 0;
    struct fr_key   key;
    struct fr_err   err;

    h->n_compiles++;
    m->n_pauses = 0;
    fr_compile_count(&m->stats.compile_us, (uint64_t)us);
    fr_compile_count(&m->stats.n_objects, 1);
    m->n_pending++; /* whoever waits for compilers finds their entries on disk (frit.cache.export) */
    while (fr_jobs_take(work)) {
        key = m->current->key;
        if (fr_job_answer_with(h->bytes, h->head.n_bytes, &m->stats.n_compiled, &err) != FR_EBUG) {
            fr_compile_say(&key, batch ? "compiled with others" : "compiled", us);
            fr_cache_put(&key, &m->origin, h->bytes, h->head.n_bytes, &err);
            n_kernels++;
        } else if (batch) {
            m->current->alone = first;
            fr_jobs_put(&m->todo);
        } else {
            fr_warn_once("compile", "%s", err.text);
            fr_job_give_up(true);
        }
        first = false;
    }
    fr_compile_seen("compiled", us, n_kernels);
    pthread_mutex_lock(&m->lock);
    m->n_pending--;
    pthread_cond_broadcast(&m->done);
    pthread_mutex_unlock(&m->lock);
}

/* There is no object. */
static void
fail_compile(struct fr_helper *h)
{
    struct fr_jobs *work = work_of(h);

    if (is_batch(work)) {
        part_batch(work);
        return;
    }
    fr_jobs_take(work);
    fr_log(1, "a kernel stays with the interpreter: %s", h->bytes);
    fr_compile_say(&m->current->key, "no code for", fr_now_us() - h->since_us);
    fr_compile_seen("left to the interpreter", fr_now_us() - h->since_us, 1);
    fr_job_give_up(true);
}

static void
on_frame(struct fr_helper *h)
{
    struct fr_helper *end = h;
    bool              had_job = work_of(h)->first != NULL;

    switch (h->head.kind) {
    case FR_PACKET_HELLO:
        h->greeted = true;
        m->n_deaths_at_start = 0;
        fr_compile_learn_compiler(h->bytes, h->head.n_bytes);
        end = NULL;
        break;
    case FR_PACKET_OBJECT:
        if (!had_job)
            break;
        finish_compile(h);
        end = NULL;
        break;
    case FR_PACKET_FAILED:
        if (!had_job)
            break;
        fail_compile(h);
        end = NULL;
        break;
    case FR_PACKET_NO_ROOM:
        fr_compile_pause(h->bytes);
        while (fr_jobs_take(work_of(h)))
            fr_job_answer(NULL);
        break;
    case FR_PACKET_NO_COMPILER:
        fr_compile_set_unavailable(h->bytes);
        while (fr_jobs_take(work_of(h)))
            fr_job_answer(NULL);
        break;
    default:
        break;
    }
    fr_helper_consume(h);
    h->since_us = fr_now_us();
    if (end || h->n_compiles >= RECYCLE_AFTER) {
        if (work_of(h)->first)
            bury(h, false, "it talks nonsense");
        else
            stop_helper(h);
    }
}

static void
listen_to(struct fr_helper *h)
{
    struct fr_err err;
    bool          ready = true;

    while (h->pid && ready) {
        if (fr_helper_receive(h, &ready, &err) != FR_OK) {
            /* One that ends while it has nothing to do is not missed. */
            if (work_of(h)->first || !h->greeted)
                bury(h, false, err.text);
            else
                stop_helper(h);
            return;
        }
        if (ready)
            on_frame(h);
    }
}

bool
fr_helpers_work(void)
{
    for (int i = 0; i < FR_MAX_HELPERS; i++)
        if (m->helper[i].pid && (m->work[i].first || !m->helper[i].greeted))
            return true;
    return false;
}

/* How long it may take for what it is doing. */
static int64_t
deadline_us(const struct fr_helper *h)
{
    int64_t n = 0;

    for (const struct fr_job *j = work_of(h)->first; j; j = j->next)
        n += n_insts(j);
    return DEADLINE_US(n) * (fr_env_waits_for_code() ? 1 : PATIENCE);
}

void
fr_helpers_hear(bool may_wait)
{
    struct pollfd     pfd[FR_MAX_HELPERS];
    struct fr_helper *who[FR_MAX_HELPERS];
    int               n = 0;

    for (int i = 0; i < FR_MAX_HELPERS; i++)
        if (m->helper[i].pid) {
            who[n] = &m->helper[i];
            pfd[n++] = (struct pollfd){m->helper[i].fd, POLLIN, 0};
        }
    if (!n)
        return;
    if (poll(pfd, (nfds_t)n, may_wait && fr_helpers_work() ? SLICE_MS : 0) < 0)
        return;
    for (int i = 0; i < n; i++) {
        bool works = work_of(who[i])->first || !who[i]->greeted;

        if (pfd[i].revents)
            listen_to(who[i]);
        else if (works && fr_now_us() - who[i]->since_us > deadline_us(who[i]))
            bury(who[i], true, "it is stopped");
        else if (!works && fr_now_us() - who[i]->since_us > IDLE_US)
            stop_helper(who[i]);
    }
}

void
fr_helpers_stop(void)
{
    for (int i = 0; i < FR_MAX_HELPERS; i++) {
        while (fr_jobs_take(&m->work[i]))
            fr_jobs_put(&m->inbox);
        stop_helper(&m->helper[i]);
    }
}

void
fr_helpers_abandon(void)
{
    struct fr_job *j;

    for (int i = 0; i < FR_MAX_HELPERS; i++) {
        while ((j = fr_jobs_pop(&m->work[i])))
            fr_jobs_push(&m->inbox, j);
        if (m->helper[i].pid)
            fr_helper_abandon(&m->helper[i]);
    }
}
