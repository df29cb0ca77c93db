/* jit/compile_job.c -- a job of the manager, from its key to its answer: lists, what is known of keys, the disk. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/span.h"
#include "jit/cache.h"
#include "jit/compile_int.h"
#include "jit/exec.h"
#include "jit/load.h"

static struct fr_manager *const m = &fr_manager;

#define PAUSE_US 1000000ll /* the first one */
enum { MAX_DOUBLINGS = 8 };

void
fr_jobs_push(struct fr_jobs *l, struct fr_job *j)
{
    j->next = NULL;
    *(l->first ? &l->last->next : &l->first) = j;
    l->last = j;
}

struct fr_job *
fr_jobs_pop(struct fr_jobs *l)
{
    struct fr_job *j = l->first;

    if (j)
        l->first = j->next;
    return j;
}

bool
fr_jobs_take(struct fr_jobs *l)
{
    pthread_mutex_lock(&m->lock);
    m->current = fr_jobs_pop(l);
    pthread_mutex_unlock(&m->lock);
    return m->current != NULL;
}

void
fr_jobs_put(struct fr_jobs *l)
{
    pthread_mutex_lock(&m->lock);
    fr_jobs_push(l, m->current);
    m->current = NULL;
    pthread_mutex_unlock(&m->lock);
}

void
fr_job_free(struct fr_job *j)
{
    if (j)
        fr_free(j->nest);
    fr_free(j);
}

void
fr_compile_say(const struct fr_key *key, const char *what, int64_t us)
{
    char                text[64];
    struct fr_log_line *line;
    uint64_t            n;

    if (!(fr_env.log_bits & FR_LOG_COMPILES))
        return;
    snprintf(text, sizeof text, "%s kernel %02x%02x%02x%02x", what, key->bytes[0], key->bytes[1], key->bytes[2], key->bytes[3]);
    n = (line = fr_log_line(text)) ? fr_log_again(line) : 0;
    if (n == 1)
        fprintf(stderr, "frit: %s, %.1f ms\n", text, (double)us * 1e-3);
    else if (n)
        fprintf(stderr, "frit: %s, %llu times\n", text, (unsigned long long)n);
}

void
fr_compile_seen(const char *what, int64_t us, int n_kernels)
{
    if (fr_spans_on())
        fr_span_beside(FR_SPAN_compile, fr_span_name(what), 1000 * us, (uint64_t)n_kernels);
}

/* ---- what is known of keys ------------------------------------------------------------------- */

enum { MAX_KNOWN = 4096 };    /* more than so many keys are known only as long as somebody holds their code */

static atomic_uint_fast64_t clock_;

struct fr_known_code *
fr_job_known(const struct fr_key *key)
{
    for (size_t i = 0; i < m->n_known; i++)
        if (fr_key_equal(&m->known[i]->key, key))
            return m->known[i];
    return NULL;
}

static void
unload(struct fr_object *o)
{
    pthread_mutex_lock(&m->fork_lock);
    fr_object_unref(o);
    pthread_mutex_unlock(&m->fork_lock);
}

/* Forgets what nobody holds for longer than all else; false if all is held. */
static bool
forget_oldest(void)
{
    struct fr_known_code *k = NULL;
    size_t                oldest = m->n_known;

    for (size_t i = 0; i < m->n_known; i++)
        if (m->known[i]->n_holders == 0 && (oldest == m->n_known || m->known[i]->let_go < m->known[oldest]->let_go))
            oldest = i;
    if (oldest == m->n_known)
        return false;
    pthread_mutex_lock(&m->lock);
    k = m->known[oldest];
    m->known[oldest] = m->known[--m->n_known];
    m->stats.n_unloaded += k->object != NULL;
    pthread_mutex_unlock(&m->lock);
    unload(k->object);
    fr_free(k);
    return true;
}

static bool
is_too_much(void)
{
    uint64_t n_bytes, n_maps;

    fr_exec_stats(&n_bytes, &n_maps);
    return n_bytes >> 10 > (uint64_t)fr_env.code_kb || m->n_known > MAX_KNOWN;
}

/* Remembers what came of a key, and has the object, if there is one. Without memory it is forgotten, which costs a second
 * compilation. */
static struct fr_known_code *
keep(const struct fr_key *key, const struct fr_nest_code *code, struct fr_object *object)
{
    struct fr_known_code *k = fr_calloc(1, sizeof *k);
    bool                  kept = false;

    pthread_mutex_lock(&m->lock);
    if (k && FR_GROW(m->known, m->known_cap, m->n_known + 1)) {
        k->key = *key;
        k->code = *code;
        k->object = object;
        k->let_go = ++clock_;
        m->known[m->n_known++] = k;
        kept = true;
    }
    pthread_mutex_unlock(&m->lock);
    if (kept)
        return k;
    fr_free(k);
    unload(object);
    return NULL;
}

void
fr_compile_release(const struct fr_nest_code *code)
{
    struct fr_known_code *k = (struct fr_known_code *)((char *)code - offsetof(struct fr_known_code, code));

    k->let_go = ++clock_;
    k->n_holders--; /* the last access: it may be gone from now on */
}

/* ---- finished jobs --------------------------------------------------------------------------- */

void
fr_job_answer(const struct fr_nest_code *code)
{
    struct fr_job *j = m->current;

    j->ready(j->arg, code);
    pthread_mutex_lock(&m->lock);
    m->current = NULL;
    m->n_pending--;
    pthread_cond_broadcast(&m->done);
    pthread_mutex_unlock(&m->lock);
    fr_job_free(j);
}

void
fr_job_answer_known(struct fr_known_code *k)
{
    if (k->code.rows)
        k->n_holders++; /* until fr_compile_release */
    fr_job_answer(k->code.rows ? &k->code : NULL);
}

void
fr_compile_count(uint64_t *what, uint64_t n)
{
    pthread_mutex_lock(&m->lock);
    *what += n;
    pthread_mutex_unlock(&m->lock);
}

static fr_status
load(const void *bytes, size_t n, struct fr_object **out, struct fr_err *err)
{
    fr_status st;

    pthread_mutex_lock(&m->fork_lock);
    st = fr_object_get(bytes, n, out, err);
    pthread_mutex_unlock(&m->fork_lock);
    return st;
}

fr_status
fr_job_answer_with(const void *bytes, size_t n, uint64_t *what, struct fr_err *err)
{
    struct fr_nest_code   code;
    struct fr_known_code *k = NULL;
    struct fr_object     *object;
    char                  name[FR_KERNEL_NAME];
    fr_status             st;

    fr_key_name(&m->current->key, name);
    st = load(bytes, n, &object, err);
    if (st != FR_OK && st != FR_EBUG) { /* no room, unless what nobody holds makes some */
        while (forget_oldest())
            ;
        st = load(bytes, n, &object, err);
    }
    if (st == FR_OK && (st = fr_object_find(object, name, m->current->n_stages, &code, err)) != FR_OK)
        unload(object);
    if (st == FR_EBUG)
        return st;
    if (st == FR_OK)
        k = keep(&m->current->key, &code, object);
    else
        fr_warn_once("room", "a kernel is interpreted: %s", err->text);
    fr_compile_count(what, 1);
    if (k)
        fr_job_answer_known(k);
    else
        fr_job_answer(NULL);
    while (is_too_much() && forget_oldest())
        ;
    return st;
}

void
fr_job_give_up(bool for_good)
{
    static const struct fr_nest_code none = {NULL, NULL, NULL};

    if (for_good) {
        keep(&m->current->key, &none, NULL);
        fr_compile_count(&m->stats.n_failed, 1);
    }
    fr_job_answer(NULL);
}

void
fr_compile_set_unavailable(const char *why)
{
    pthread_mutex_lock(&m->lock);
    if (!m->is_unavailable)
        snprintf(m->unavailable, sizeof m->unavailable, "%s", why);
    m->is_unavailable = true;
    pthread_mutex_unlock(&m->lock);
    fr_warn_once("compile", "kernels are interpreted, not compiled: %s", why);
}

void
fr_compile_pause(const char *why)
{
    pthread_mutex_lock(&m->lock);
    if (!m->pause_reason[0]) /* written once, for who reads it has no lock */
        snprintf(m->pause_reason, sizeof m->pause_reason, "%s", why);
    m->resume_us = fr_now_us() + (PAUSE_US << (m->n_pauses < MAX_DOUBLINGS ? m->n_pauses++ : MAX_DOUBLINGS));
    pthread_mutex_unlock(&m->lock);
    fr_warn_once("compile", "kernels are interpreted for now, not compiled: %s", why);
}

bool
fr_compile_is_paused(void)
{
    int64_t until = atomic_load_explicit(&m->resume_us, memory_order_relaxed);

    return until && fr_now_us() < until;
}

bool
fr_compile_is_stopped(void)
{
    return m->is_unavailable || fr_compile_is_paused();
}

/* ---- which compiler -------------------------------------------------------------------------- */

static void
set_compiler(const uint8_t *digest)
{
    memcpy(m->origin.maker.compiler, digest, FR_DIGEST_BYTES);
    m->compiler_known = true;
    m->n_compilers++;
}

void
fr_compile_learn_compiler(const char *hello, size_t n)
{
    uint8_t digest[FR_DIGEST_BYTES];

    if (n <= sizeof digest)
        return;
    memcpy(digest, hello, sizeof digest);
    if (m->compiler_known && !memcmp(digest, m->origin.maker.compiler, sizeof digest))
        return;
    set_compiler(digest);
    fr_memo_write(&m->origin.maker, hello + sizeof digest, n - sizeof digest);
}

/* Whether keys can be made; if not, the first helper will tell. */
static bool
know_compiler(void)
{
    uint8_t       digest[FR_DIGEST_BYTES];
    struct fr_err err;

    if (!m->helper_hashed && !m->is_unavailable) {
        if (fr_key_hash_file(m->setup.program, m->origin.maker.helper, &err) == FR_OK)
            m->helper_hashed = true;
        else
            fr_compile_set_unavailable(err.text);
    }
    if (m->helper_hashed && !m->compiler_known && !m->memo_read) {
        m->memo_read = true;
        if (fr_memo_read(&m->origin.maker, digest))
            set_compiler(digest);
    }
    return m->compiler_known;
}

/* ---- looking up ------------------------------------------------------------------------------ */

void
fr_job_key(struct fr_job *j)
{
    if (j->compiler == m->n_compilers)
        return;
    fr_key_of_nest(&j->key, &m->origin, j->nest, j->n_nest);
    j->compiler = m->n_compilers;
}

/* Where entries come from that were loaded and run here; what does not is left out. */
static int
imports(void)
{
    int n, kept = 0;

    if (m->imports_read || !m->helper_hashed)
        return m->n_imports;
    m->imports_read = true;
    n = fr_memo_origins(&m->origin.maker, m->import);
    for (int i = 0; i < n; i++)
        if (!fr_key_missing_feature(&m->import[i], &m->origin))
            m->import[kept++] = m->import[i];
    return m->n_imports = kept;
}

/* Answers m->current from memory or disk, by its key. FR_EINDEX: there is nothing; FR_EBUG: nothing usable. */
static fr_status
look_up_key(void)
{
    struct fr_job        *j = m->current;
    struct fr_known_code *k;
    struct fr_err         err;
    void                 *bytes;
    size_t                n;
    int64_t               start = fr_now_us();
    fr_status             st;

    if ((k = fr_job_known(&j->key))) {
        fr_job_answer_known(k);
        return FR_OK;
    }
    switch (fr_cache_get(&j->key, NULL, &bytes, &n, &err)) {
    case FR_OK:
        fr_compile_seen("from disk", fr_now_us() - start, 1); /* before the answer, which may end what is profiled */
        st = fr_job_answer_with(bytes, n, &m->stats.n_disk_hits, &err);
        fr_free(bytes);
        if (st != FR_EBUG)
            return FR_OK;
        fr_cache_drop(&j->key); /* as good as damaged */
        __attribute__((fallthrough));
    case FR_EBUG:
        fr_compile_count(&m->stats.n_bad_entries, 1);
        fr_compile_say(&j->key, "bad cache entry for", fr_now_us() - start);
        return FR_EBUG;
    default:
        return FR_EINDEX;
    }
}

/* Answers m->current from memory or disk if possible: what the compiler of this machine made, then what came from
 * elsewhere. */
static bool
look_up(void)
{
    struct fr_job *j = m->current;
    bool           known = know_compiler();
    fr_status      st = FR_EBUG;

    if (known) {
        fr_job_key(j);
        st = look_up_key();
    }
    for (int i = 0; st != FR_OK && i < imports(); i++) {
        if (known && !memcmp(&m->import[i], &m->origin, sizeof m->origin))
            continue;
        fr_key_of_nest(&j->key, &m->import[i], j->nest, j->n_nest);
        j->compiler = 0; /* it is not the key of this machine's compiler */
        if (look_up_key() == FR_OK)
            st = FR_OK;
    }
    if (st == FR_EINDEX)
        fr_compile_count(&m->stats.n_disk_misses, 1);
    return st == FR_OK;
}

void
fr_job_take_in(void)
{
    if (look_up())
        return;
    if (m->current->lookup_only || fr_compile_is_stopped()) {
        fr_job_answer(NULL);
        return;
    }
    fr_jobs_put(&m->todo);
}
