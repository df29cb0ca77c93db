/* jit/compile.c -- the manager: one thread that takes nests in, looks them up, has helpers compile
 * them and hands code back.
 *
 *     want() --> mailbox --> inbox --> memory, disk --hit--> ready()
 *                                        |miss
 *                                        v
 *                                      todo --> helper 0..n --> load --> ready(), then disk
 *                                          (several at a time)
 *
 * The manager gives way to who computes, so it may be stopped in the middle of anything, with m.lock in its hand: who
 * wants code puts a job into the mailbox, without the lock, and takes that only to start the manager; waking it is
 * somebody else's turn (fr_compile_nudge).
 * Lists change under m.lock only, so that a forked child finds them whole: there all jobs go back
 * to the inbox, and a new manager starts when it is needed. What must not be torn by a fork (the
 * loader's work) happens under `fork_lock`, which forking takes, too; want() never waits for it. The
 * manager polls its helpers in slices instead of being woken through a descriptor: programs that
 * become daemons close those. */
#include "jit/compile.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/background.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "jit/cache.h"
#include "jit/helper.h"
#include "jit/key.h"
#include "jit/load.h"
#include "jit/memo.h"

enum {
    MAX_HELPERS = 8,
    MAX_FEATURES = 48,
    RECYCLE_AFTER = 200, /* compilations; each leaks about 0.5 MB */
    SLICE_MS = 10,       /* between looks at the inbox while helpers work */
    MAX_TRIES = 2,       /* a helper may have died of something else */
    BATCH_INSTS = 256,   /* of the nests of one object: the first must not wait long for the last */
    THREAD_STACK = 512 << 10,
};
/* A nest of 1,200 instructions with 400 sines took 23 s. Where all processors are busy, a helper that gives way to who
 * computes gets a hundredth of one, and is not stopped for that. */
#define DEADLINE_US(n_insts) (30 * 1000000ll + 50000ll * (n_insts))
#define PATIENCE    10
#define IDLE_US     (20 * 1000000ll)
/* Waking the manager costs whoever asks as much as a run of a small kernel, and what is new comes with more of it: so
 * until ATTENTIVE_US after the last request nobody does, and it looks every PEEK_NS. */
#define ATTENTIVE_US (200 * 1000ll)
#define PEEK_NS      2000000

struct job {
    struct job *next;
    void       *nest; /* packed */
    size_t      n_nest;
    int         n_stages;
    bool        lookup_only;
    void (*ready)(void *, const struct fr_nest_code *);
    void         *arg;
    struct fr_key key;
    unsigned      compiler; /* for which the key was made; see m.n_compilers */
    bool          alone;    /* shares its object with no other nest: together there was none */
    int           n_tries;
};

struct list {
    struct job *first, *last;
};

/* Code by key, kept until the process ends; code.rows is NULL where compiling failed for good. */
struct kernel {
    struct fr_key       key;
    struct fr_nest_code code;
};

static struct {
    pthread_mutex_t         lock;
    pthread_cond_t          wake, done;
    pthread_t               thread;
    _Atomic(struct job *)   mailbox; /* the newest first */
    atomic_bool             running;
    atomic_bool             asleep;  /* the manager does not look into the mailbox until it is woken */
    _Atomic(uint64_t)       n_pending;
    bool                    stop, configured;
    int64_t                 asked_us; /* when something was last taken from the inbox */
    struct list             inbox, todo;
    struct job             *current; /* taken from a list, not yet on another */
    struct fr_helper        helper[MAX_HELPERS];
    struct list             work[MAX_HELPERS]; /* what each helper compiles, into one object */
    struct kernel         **kernel;
    size_t                  n_kernels, kernel_cap;
    struct fr_compile_stats stats;
    char                    unavailable[600];
    bool                    is_unavailable;
    char                   *feature[MAX_FEATURES + 1];
    struct fr_helper_setup  setup;
    struct fr_key_maker     maker;
    unsigned                n_compilers; /* that were told of so far: keys hold for the last */
    bool                    helper_hashed, compiler_known, memo_read, swept;
    int                     n_deaths_at_start;
} m = {.lock = PTHREAD_MUTEX_INITIALIZER,
       .wake = PTHREAD_COND_INITIALIZER,
       .done = PTHREAD_COND_INITIALIZER};
static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;

static void
push(struct list *l, struct job *j)
{
    j->next = NULL;
    *(l->first ? &l->last->next : &l->first) = j;
    l->last = j;
}

static struct job *
pop(struct list *l)
{
    struct job *j = l->first;

    if (j)
        l->first = j->next;
    return j;
}

static struct list *
work_of(const struct fr_helper *h)
{
    return &m.work[h - m.helper];
}

static void
job_free(struct job *j)
{
    if (j)
        fr_free(j->nest);
    fr_free(j);
}

static void __attribute__((format(printf, 1, 2))) warn(const char *fmt, ...)
{
    char    line[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fr_warn_once("compile", "%s", line);
}

static void
say_compile(const struct fr_key *key, const char *what, int64_t us)
{
    if (strstr(fr_env.log, "compiles"))
        fprintf(stderr, "frit: %s kernel %02x%02x%02x%02x, %.1f ms\n", what, key->bytes[0],
                key->bytes[1], key->bytes[2], key->bytes[3], (double)us * 1e-3);
}

/* ---- finished jobs --------------------------------------------------------------------------- */

static struct kernel *
find_kernel(const struct fr_key *key)
{
    for (size_t i = 0; i < m.n_kernels; i++)
        if (fr_key_equal(&m.kernel[i]->key, key))
            return m.kernel[i];
    return NULL;
}

/* Remembers what came of a key; without memory it is forgotten, which costs a second compilation.
 */
static const struct kernel *
keep_kernel(const struct fr_key *key, const struct fr_nest_code *code)
{
    struct kernel *k = fr_calloc(1, sizeof *k);

    pthread_mutex_lock(&m.lock);
    if (k && FR_GROW(m.kernel, m.kernel_cap, m.n_kernels + 1)) {
        k->key = *key;
        k->code = *code;
        m.kernel[m.n_kernels++] = k;
    } else {
        fr_free(k);
        k = NULL;
    }
    pthread_mutex_unlock(&m.lock);
    return k;
}

/* Answers m.current and forgets it. */
static void
answer(const struct fr_nest_code *code)
{
    struct job *j = m.current;

    j->ready(j->arg, code);
    pthread_mutex_lock(&m.lock);
    m.current = NULL;
    m.n_pending--;
    pthread_cond_broadcast(&m.done);
    pthread_mutex_unlock(&m.lock);
    job_free(j);
}

static void
count(uint64_t *what, uint64_t n)
{
    pthread_mutex_lock(&m.lock);
    *what += n;
    pthread_mutex_unlock(&m.lock);
}

/* Loads bytes for m.current, counts it as `what` and answers it; false when they are no good. */
static bool
answer_with(const void *bytes, size_t n, uint64_t *what, struct fr_err *err)
{
    struct fr_nest_code  code;
    const struct kernel *k;
    char                 name[FR_KERNEL_NAME];
    fr_status            st;

    fr_key_name(&m.current->key, name);
    pthread_mutex_lock(&fork_lock);
    st = fr_load_code(bytes, n, name, m.current->n_stages, &code, err);
    pthread_mutex_unlock(&fork_lock);
    if (st != FR_OK)
        return false;
    k = keep_kernel(&m.current->key, &code);
    count(what, 1);
    answer(k ? &k->code : NULL);
    return true;
}

/* m.current has no code and never will have. */
static void
give_up(bool for_good)
{
    static const struct fr_nest_code none = {NULL, NULL, NULL};

    if (for_good) {
        keep_kernel(&m.current->key, &none);
        count(&m.stats.n_failed, 1);
    }
    answer(NULL);
}

static void
set_unavailable(const char *why)
{
    pthread_mutex_lock(&m.lock);
    if (!m.is_unavailable)
        snprintf(m.unavailable, sizeof m.unavailable, "%s", why);
    m.is_unavailable = true;
    pthread_mutex_unlock(&m.lock);
    warn("kernels are interpreted, not compiled: %s", why);
}

/* ---- which compiler -------------------------------------------------------------------------- */

static void
set_compiler(const uint8_t *digest)
{
    memcpy(m.maker.compiler, digest, FR_DIGEST_BYTES);
    m.compiler_known = true;
    m.n_compilers++;
}

/* The hello of a helper: the digest of its compiler, then the path. */
static void
learn_compiler(const char *hello, size_t n)
{
    uint8_t digest[FR_DIGEST_BYTES];

    if (n <= sizeof digest)
        return;
    memcpy(digest, hello, sizeof digest);
    if (m.compiler_known && !memcmp(digest, m.maker.compiler, sizeof digest))
        return;
    set_compiler(digest);
    fr_memo_write(&m.maker, hello + sizeof digest, n - sizeof digest);
}

/* Whether keys can be made; if not, the first helper will tell. */
static bool
know_compiler(void)
{
    uint8_t       digest[FR_DIGEST_BYTES];
    struct fr_err err;

    if (!m.helper_hashed && !m.is_unavailable) {
        if (fr_key_hash_file(m.setup.program, m.maker.helper, &err) == FR_OK)
            m.helper_hashed = true;
        else
            set_unavailable(err.text);
    }
    if (m.helper_hashed && !m.compiler_known && !m.memo_read) {
        m.memo_read = true;
        if (fr_memo_read(&m.maker, digest))
            set_compiler(digest);
    }
    return m.compiler_known;
}

/* ---- looking up ------------------------------------------------------------------------------ */

static void
make_key(struct job *j)
{
    if (j->compiler == m.n_compilers)
        return;
    fr_key_of_nest(&j->key, &m.maker, (const char *const *)m.feature, j->nest, j->n_nest);
    j->compiler = m.n_compilers;
}

/* Answers m.current from memory or disk if possible. */
static bool
look_up(void)
{
    struct job    *j = m.current;
    struct kernel *k;
    struct fr_err  err;
    void          *bytes;
    size_t         n;
    int64_t        start = fr_now_us();
    bool           ok;

    make_key(j);
    if ((k = find_kernel(&j->key))) {
        answer(k->code.rows ? &k->code : NULL);
        return true;
    }
    switch (fr_cache_get(&j->key, &bytes, &n, &err)) {
    case FR_OK:
        ok = answer_with(bytes, n, &m.stats.n_disk_hits, &err);
        fr_free(bytes);
        if (ok)
            return true;
        fr_cache_drop(&j->key); /* as good as damaged */
        __attribute__((fallthrough));
    case FR_EBUG:
        count(&m.stats.n_bad_entries, 1);
        say_compile(&j->key, "bad cache entry for", fr_now_us() - start);
        return false;
    default:
        count(&m.stats.n_disk_misses, 1);
        return false;
    }
}

/* Takes a job in: answers it, or puts it where it waits for a helper. */
static void
take_in(void)
{
    bool known = know_compiler();

    if (known && look_up())
        return;
    /* What was never compiled by this program cannot be in the cache. */
    if (m.current->lookup_only || m.is_unavailable) {
        answer(NULL);
        return;
    }
    pthread_mutex_lock(&m.lock);
    push(&m.todo, m.current);
    m.current = NULL;
    pthread_mutex_unlock(&m.lock);
}

/* ---- helpers --------------------------------------------------------------------------------- */

static int
max_helpers(void)
{
    return fr_env.helpers < 1 ? 1 : fr_env.helpers > MAX_HELPERS ? MAX_HELPERS : fr_env.helpers;
}

static void
stop_helper(struct fr_helper *h)
{
    if (h->pid)
        fr_helper_stop(h);
}

/* Takes the next job of a list, as m.current. */
static bool
take_from(struct list *l)
{
    pthread_mutex_lock(&m.lock);
    m.current = pop(l);
    pthread_mutex_unlock(&m.lock);
    return m.current != NULL;
}

/* Puts m.current at the end of a list. */
static void
put_into(struct list *l)
{
    pthread_mutex_lock(&m.lock);
    push(l, m.current);
    m.current = NULL;
    pthread_mutex_unlock(&m.lock);
}

static bool
is_batch(const struct list *l)
{
    return l->first && l->first->next;
}

/* Whatever went wrong with the object of several nests, each is compiled again, alone. */
static void
part_batch(struct list *l)
{
    while (take_from(l)) {
        m.current->alone = true;
        put_into(&m.todo);
    }
}

/* A helper is gone, or too late. Its jobs get a second chance with another one. */
static void
bury(struct fr_helper *h, bool late, const char *why)
{
    struct list *work = work_of(h);
    bool         greeted = h->greeted;

    stop_helper(h);
    warn("a compiler helper %s: %s", late ? "took too long" : "died", why);
    if (!greeted && ++m.n_deaths_at_start >= MAX_TRIES)
        set_unavailable("the compiler helper does not start");
    if (is_batch(work) && !m.is_unavailable) {
        part_batch(work);
        return;
    }
    while (take_from(work)) {
        if (late || ++m.current->n_tries >= MAX_TRIES || m.is_unavailable)
            give_up(!m.is_unavailable);
        else
            put_into(&m.todo);
    }
}

static bool
start_helper(struct fr_helper *h)
{
    struct fr_err err;

    if (!m.swept) {
        m.swept = true;
        fr_helper_sweep(&m.setup);
    }
    if (fr_helper_start(h, &m.setup, &err) != FR_OK) {
        set_unavailable(err.text);
        return false;
    }
    h->since_us = fr_now_us();
    count(&m.stats.n_helpers_started, 1);
    return true;
}

static bool
in_progress(const struct fr_key *key)
{
    for (int i = 0; i < MAX_HELPERS; i++)
        for (const struct job *j = m.work[i].first; j; j = j->next)
            if (fr_key_equal(&j->key, key))
                return true;
    return false;
}

static int
n_insts(const struct job *j)
{
    return (int)(j->n_nest / sizeof(struct fr_inst));
}

/* Takes the first job that no helper works on yet out of the todo list, as m.current; of those that
 * may join `others`, if there are any. */
static bool
take_todo(const struct list *others, int room)
{
    struct list passed = {NULL, NULL};
    struct job *j;

    pthread_mutex_lock(&m.lock);
    while (!m.current && (j = pop(&m.todo))) {
        make_key(j);
        if (in_progress(&j->key) || (others->first && (j->alone || n_insts(j) > room)))
            push(&passed, j);
        else
            m.current = j;
    }
    if (passed.first) { /* they keep their places before the rest */
        passed.last->next = m.todo.first;
        if (m.todo.first)
            passed.last = m.todo.last;
        m.todo = passed;
    }
    pthread_mutex_unlock(&m.lock);
    return m.current != NULL;
}

static void
fail_todo(void)
{
    while (take_from(&m.todo))
        answer(NULL);
}

/* How many nests the next object is for: assembler and linker cost as much for one as for eight,
 * but no helper shall be idle while another one has several. */
static int
batch_size(void)
{
    int n = 0, share;

    for (const struct job *j = m.todo.first; j; j = j->next)
        n++;
    share = (n + max_helpers() - 1) / max_helpers();
    return share < FR_BATCH_MAX ? share : FR_BATCH_MAX;
}

/* Gives waiting jobs to helper `h`, which is idle. */
static void
assign(struct fr_helper *h)
{
    struct fr_packed_nest nest[FR_BATCH_MAX];
    struct list          *work = work_of(h);
    struct fr_err         err;
    int                   n = 0, size = batch_size(), room = BATCH_INSTS;

    while (n < size && take_todo(work, room)) {
        struct job    *j = m.current;
        struct kernel *k = find_kernel(&j->key); /* another job may have had the same nest */

        if (k) {
            answer(k->code.rows ? &k->code : NULL);
            continue;
        }
        nest[n].bytes = j->nest;
        nest[n].n_bytes = j->n_nest;
        fr_key_name(&j->key, nest[n++].name);
        room -= n_insts(j);
        if (j->alone)
            size = n;
        put_into(work);
    }
    if (n == 0)
        return;
    h->since_us = fr_now_us();
    if (fr_helper_request(h, (const char *const *)m.feature, nest, (uint32_t)n, &err) != FR_OK)
        bury(h, false, err.text);
}

/* Hands jobs to idle helpers, and starts more of those while there is more to do. */
static void
distribute(void)
{
    if (m.is_unavailable)
        fail_todo();
    for (int i = 0; i < max_helpers() && m.todo.first && !m.is_unavailable; i++) {
        struct fr_helper *h = &m.helper[i];

        if (!h->pid && (!start_helper(h) || !m.compiler_known))
            return;
        if (h->greeted && !work_of(h)->first && m.compiler_known)
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
    int64_t       us = fr_now_us() - h->since_us;
    struct list  *work = work_of(h);
    bool          batch = is_batch(work), first = true;
    struct fr_key key;
    struct fr_err err;

    h->n_compiles++;
    count(&m.stats.compile_us, (uint64_t)us);
    count(&m.stats.n_objects, 1);
    while (take_from(work)) {
        key = m.current->key;
        if (answer_with(h->bytes, h->head.n_bytes, &m.stats.n_compiled, &err)) {
            say_compile(&key, batch ? "compiled with others" : "compiled", us);
            fr_cache_put(&key, h->bytes, h->head.n_bytes, &err);
        } else if (batch) {
            m.current->alone = first;
            put_into(&m.todo);
        } else {
            warn("%s", err.text);
            give_up(true);
        }
        first = false;
    }
}

/* There is no object. */
static void
fail_compile(struct fr_helper *h)
{
    struct list *work = work_of(h);

    if (is_batch(work)) {
        part_batch(work);
        return;
    }
    take_from(work);
    fr_log(1, "a kernel stays with the interpreter: %s", h->bytes);
    say_compile(&m.current->key, "no code for", fr_now_us() - h->since_us);
    give_up(true);
}

static void
on_frame(struct fr_helper *h)
{
    struct fr_helper *end = h;
    bool              had_job = work_of(h)->first != NULL;

    switch (h->head.kind) {
    case FR_FRAME_HELLO:
        h->greeted = true;
        m.n_deaths_at_start = 0;
        learn_compiler(h->bytes, h->head.n_bytes);
        end = NULL;
        break;
    case FR_FRAME_OBJECT:
        if (!had_job)
            break;
        finish_compile(h);
        end = NULL;
        break;
    case FR_FRAME_FAILED:
        if (!had_job)
            break;
        fail_compile(h);
        end = NULL;
        break;
    case FR_FRAME_NO_COMPILER:
        set_unavailable(h->bytes);
        while (take_from(work_of(h)))
            answer(NULL);
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

/* Whether some helper owes an answer. */
static bool
somebody_works(void)
{
    for (int i = 0; i < MAX_HELPERS; i++)
        if (m.helper[i].pid && (m.work[i].first || !m.helper[i].greeted))
            return true;
    return false;
}

/* How long it may take for what it is doing. */
static int64_t
deadline_us(const struct fr_helper *h)
{
    int64_t n = 0;

    for (const struct job *j = work_of(h)->first; j; j = j->next)
        n += n_insts(j);
    return DEADLINE_US(n) * (fr_env_waits_for_code() ? 1 : PATIENCE);
}

static void
hear_helpers(bool may_wait)
{
    struct pollfd     pfd[MAX_HELPERS];
    struct fr_helper *who[MAX_HELPERS];
    int               n = 0;

    for (int i = 0; i < MAX_HELPERS; i++)
        if (m.helper[i].pid) {
            who[n] = &m.helper[i];
            pfd[n++] = (struct pollfd){m.helper[i].fd, POLLIN, 0};
        }
    if (!n)
        return;
    if (poll(pfd, (nfds_t)n, may_wait && somebody_works() ? SLICE_MS : 0) < 0)
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

/* ---- the thread ------------------------------------------------------------------------------ */

/* Into the inbox, the oldest first. Lock held. */
static void
empty_mailbox(void)
{
    struct job *j = atomic_exchange(&m.mailbox, NULL), *next, *oldest = NULL;

    for (; j; j = next) {
        next = j->next;
        j->next = oldest;
        oldest = j;
    }
    for (; oldest; oldest = next) {
        next = oldest->next;
        push(&m.inbox, oldest);
    }
}

/* Waits for a job while helpers have nothing to do; they are looked at every now and then. */
static void
wait_for_work(void)
{
    bool            attentive = fr_now_us() - m.asked_us < ATTENTIVE_US, helpers = false;
    struct timespec until = fr_time_in_ns(attentive ? PEEK_NS : 1000000000);

    for (int i = 0; i < MAX_HELPERS; i++)
        helpers |= m.helper[i].pid != 0;
    m.asleep = !attentive;
    /* Who put something there before could not see that we sleep. */
    if (!m.mailbox && (attentive || helpers))
        pthread_cond_timedwait(&m.wake, &m.lock, &until);
    else if (!m.mailbox)
        pthread_cond_wait(&m.wake, &m.lock);
    m.asleep = false;
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

        pthread_mutex_lock(&m.lock);
        empty_mailbox();
        while (!m.stop && !m.inbox.first && !m.todo.first && !somebody_works()) {
            wait_for_work();
            empty_mailbox();
            if (!m.inbox.first)
                break;
        }
        stop = m.stop;
        if (!stop && (m.current = pop(&m.inbox)))
            m.asked_us = fr_now_us();
        more = m.inbox.first;
        pthread_mutex_unlock(&m.lock);
        if (stop)
            break;
        if (m.current)
            take_in();
        distribute();
        hear_helpers(!more);
    }
    for (int i = 0; i < MAX_HELPERS; i++) {
        while (take_from(&m.work[i]))
            put_into(&m.inbox);
        stop_helper(&m.helper[i]);
    }
    return unused;
}

/* Starts the manager. Lock held. */
static bool
start_manager(void)
{
    if (!m.running) {
        m.stop = false;
        m.running = fr_thread_start(&m.thread, manage, NULL, THREAD_STACK) == 0;
    }
    return m.running;
}

/* ---- forking --------------------------------------------------------------------------------- */

static void
before_fork(void)
{
    pthread_mutex_lock(&fork_lock);
    pthread_mutex_lock(&m.lock);
}

static void
after_fork_parent(void)
{
    pthread_mutex_unlock(&m.lock);
    pthread_mutex_unlock(&fork_lock);
}

/* There is no manager here, and helpers and their directories are the parent's. */
static void
after_fork_child(void)
{
    struct job *j;

    pthread_mutex_init(&m.lock, NULL);
    pthread_mutex_init(&fork_lock, NULL);
    pthread_cond_init(&m.wake, NULL);
    pthread_cond_init(&m.done, NULL);
    fr_cache_after_fork();
    m.running = m.asleep = m.stop = false;
    m.memo_read = m.compiler_known;
    if (m.current)
        push(&m.inbox, m.current);
    m.current = NULL;
    while ((j = pop(&m.todo)))
        push(&m.inbox, j);
    for (int i = 0; i < MAX_HELPERS; i++) {
        while ((j = pop(&m.work[i])))
            push(&m.inbox, j);
        if (m.helper[i].pid)
            fr_helper_abandon(&m.helper[i]);
    }
    empty_mailbox();
    m.n_pending = 0; /* a thread that was about to put something there is not here */
    for (j = m.inbox.first; j; j = j->next)
        m.n_pending++;
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
    pthread_mutex_lock(&m.lock);
    if (!at_fork_set)
        at_fork_set = pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0;
    for (int i = 0; i < MAX_FEATURES; i++) {
        fr_free(m.feature[i]);
        m.feature[i] = NULL;
    }
    m.helper_hashed = m.compiler_known = m.memo_read = m.is_unavailable = false;
    m.unavailable[0] = '\0';
    m.n_deaths_at_start = 0;
    m.configured = fr_helper_prepare(&m.setup, helper_path, &err) == FR_OK;
    for (; m.configured && features && features[n] && n < MAX_FEATURES; n++) {
        size_t len = strlen(features[n]) + 1;

        if ((m.feature[n] = fr_malloc(len)))
            memcpy(m.feature[n], features[n], len);
        else
            m.configured = false;
    }
    pthread_mutex_unlock(&m.lock);
    if (!m.configured)
        set_unavailable("out of memory at import");
}

static struct job *
new_job(const struct fr_nest *nest)
{
    struct job *j = fr_calloc(1, sizeof *j);

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
    struct job *j = new_job(nest);

    fr_compile_start();
    if (!j || !m.running) { /* nobody else will answer */
        job_free(j);
        ready(arg, NULL);
        return;
    }
    j->lookup_only = lookup_only;
    j->ready = ready;
    j->arg = arg;
    m.n_pending++;
    j->next = m.mailbox;
    while (!atomic_compare_exchange_weak(&m.mailbox, &j->next, j))
        ;
}

void
fr_compile_nudge(void)
{
    if (m.mailbox && m.asleep) {
        pthread_mutex_lock(&m.lock);
        pthread_cond_signal(&m.wake);
        pthread_mutex_unlock(&m.lock);
    }
}

void
fr_compile_start(void)
{
    if (m.running)
        return;
    pthread_mutex_lock(&m.lock);
    if (m.configured)
        start_manager();
    pthread_mutex_unlock(&m.lock);
}

bool
fr_compile_wait(double timeout_s, bool (*interrupted)(void))
{
    int64_t end = fr_now_us() + (int64_t)(timeout_s * 1e6);
    bool    idle = false, asked = false;

    while (!idle && !asked && fr_now_us() < end) {
        struct timespec until;

        pthread_mutex_lock(&m.lock);
        if (m.n_pending && start_manager()) {
            pthread_cond_signal(&m.wake);
            until = fr_time_in_ns((int64_t)(timeout_s < 0.05 ? timeout_s * 1e9 : 5e7));
            pthread_cond_timedwait(&m.done, &m.lock, &until);
        }
        idle = m.n_pending == 0;
        pthread_mutex_unlock(&m.lock);
        asked = interrupted && interrupted();
    }
    return idle;
}

void
fr_compile_stats(struct fr_compile_stats *out)
{
    pthread_mutex_lock(&m.lock);
    *out = m.stats;
    out->n_pending = m.n_pending;
    pthread_mutex_unlock(&m.lock);
}

const char *
fr_compile_unavailable(void)
{
    const char *why;

    pthread_mutex_lock(&m.lock);
    why = m.is_unavailable ? m.unavailable : NULL; /* written once, then left alone */
    pthread_mutex_unlock(&m.lock);
    return why;
}

void
fr_compile_stop(void)
{
    struct job *j;
    bool        running;

    pthread_mutex_lock(&m.lock);
    running = m.running;
    m.stop = true;
    pthread_cond_broadcast(&m.wake);
    pthread_mutex_unlock(&m.lock);
    if (running)
        pthread_join(m.thread, NULL);
    pthread_mutex_lock(&m.lock);
    m.running = m.stop = false;
    empty_mailbox();
    while ((j = pop(&m.inbox)) || (j = pop(&m.todo))) {
        m.n_pending--;
        job_free(j);
    }
    pthread_cond_broadcast(&m.done);
    pthread_mutex_unlock(&m.lock);
}
