#include "jit/nvrtc_ahead.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/background.h"
#include "base/processors.h"

enum { MOST_THREADS = 4, STACK_BYTES = 8 << 20, MOST_DROPPED = 1024 };
enum state { WAITS, RUNS, DONE };

struct fr_ahead {
    struct fr_ahead       *next;          /* of those that wait */
    enum state             state;
    bool                   is_later, is_dropped;
    struct fr_nvrtc_source of;
    struct fr_image        image;
    fr_status              st;
    struct fr_err          err;
};

/* What waits, first come, first served. */
struct line {
    struct fr_ahead *first, **last;
};

static pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t   comes = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static struct line      lines[2] = {{NULL, &lines[0].first}, {NULL, &lines[1].first}};   /* soon, later */
static pthread_t        threads[MOST_THREADS];
static int              n_threads, n_idle, n_later /* that run */, n_dropped /* that wait */;
static bool             stopping;

static void
end(struct fr_ahead *a)
{
    fr_image_clear(&a->image);
    fr_free((char *)(uintptr_t)a->of.text);
    fr_free(a);
}

/* ---- lines; the lock is held ---- */

static void
put_in(struct fr_ahead *a)
{
    struct line *l = &lines[a->is_later];

    a->next = NULL;
    *l->last = a;
    l->last = &a->next;
}

static void
take_out(struct fr_ahead *a)
{
    struct line      *l = &lines[a->is_later];
    struct fr_ahead **link = &l->first;

    while (*link != a)
        link = &(*link)->next;
    if (!(*link = a->next))
        l->last = link;
}

/* What a thread is to do next; NULL: nothing. */
static struct fr_ahead *
next(void)
{
    struct fr_ahead *a = lines[0].first ? lines[0].first : n_later == 0 ? lines[1].first : NULL;

    if (a)
        take_out(a);
    return a;
}

static bool
same(const struct fr_nvrtc_source *a, const struct fr_nvrtc_source *b)
{
    return a->arch == b->arch && a->is_quick == b->is_quick && !memcmp(a->defines, b->defines, sizeof a->defines) &&
           !strcmp(a->text, b->text);
}

/* One that was dropped, and waits to be compiled for the cache. */
static struct fr_ahead *
find_dropped(const struct fr_nvrtc_source *of)
{
    struct fr_ahead *a = n_dropped ? lines[1].first : NULL;

    while (a && !(a->is_dropped && same(&a->of, of)))
        a = a->next;
    return a;
}

/* ---- threads ---- */

static void *
work(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    while (!stopping) {
        struct fr_ahead *a = next();

        if (!a) {
            n_idle++;
            pthread_cond_wait(&comes, &lock);
            n_idle--;
            continue;
        }
        n_later += a->is_later;
        n_dropped -= a->is_dropped;
        a->state = RUNS;
        pthread_mutex_unlock(&lock);
        a->st = fr_nvrtc_compile(&a->of, &a->image, &a->err);
        pthread_mutex_lock(&lock);
        a->state = DONE;
        n_later -= a->is_later;
        if (a->is_dropped)
            end(a);
        pthread_cond_broadcast(&done);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Lock held: another thread, if all are busy and there may be more. False: there is none at all. */
static bool
have_threads(void)
{
    int most = fr_processors() < MOST_THREADS ? fr_processors() : MOST_THREADS;

    if (n_idle == 0 && n_threads < most && fr_thread_start(&threads[n_threads], work, NULL, STACK_BYTES) == 0)
        n_threads++;
    return n_threads > 0;
}

struct fr_ahead *
fr_ahead_ask(struct fr_nvrtc_source *of, bool is_later)
{
    struct fr_ahead *a = fr_calloc(1, sizeof *a), *old;

    if (!a) {
        fr_free((char *)(uintptr_t)of->text);
        return NULL;
    }
    a->of = *of;
    a->is_later = is_later;
    /* (An error comes from the thread, or from who takes it.) */
    if (fr_nvrtc_find(&a->of, &a->image, &a->err) == FR_OK && a->image.bytes) {
        a->state = DONE;
        return a;
    }
    pthread_mutex_lock(&lock);
    if ((old = find_dropped(&a->of))) {
        old->is_dropped = false;
        n_dropped--;
        pthread_mutex_unlock(&lock);
        end(a);
        if (!is_later)
            fr_ahead_hurry(old);
        return old;
    }
    if (stopping || !have_threads()) {
        pthread_mutex_unlock(&lock);
        end(a);
        return NULL;
    }
    put_in(a);
    pthread_cond_signal(&comes);
    pthread_mutex_unlock(&lock);
    return a;
}

void
fr_ahead_hurry(struct fr_ahead *a)
{
    pthread_mutex_lock(&lock);
    if (a->state == WAITS && a->is_later) {
        take_out(a);
        a->is_later = false;
        put_in(a);
        pthread_cond_signal(&comes);
    }
    pthread_mutex_unlock(&lock);
}

bool
fr_ahead_is_done(const struct fr_ahead *a)
{
    bool is;

    pthread_mutex_lock(&lock);
    is = a->state == DONE;
    pthread_mutex_unlock(&lock);
    return is;
}

fr_status
fr_ahead_take(struct fr_ahead *a, struct fr_image *out, struct fr_err *err)
{
    fr_status st;

    pthread_mutex_lock(&lock);
    if (a->state == WAITS) {
        take_out(a);
        pthread_mutex_unlock(&lock);
        a->st = fr_nvrtc_compile(&a->of, &a->image, &a->err);
        pthread_mutex_lock(&lock);
        a->state = DONE;
    }
    while (a->state != DONE)
        pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    *out = a->image;
    a->image = (struct fr_image){0};
    if ((st = a->st) != FR_OK && err)
        *err = a->err;
    end(a);
    return st;
}

void
fr_ahead_drop(struct fr_ahead *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&lock);
    if (a->state == WAITS && a->is_later && n_threads > 0 && n_dropped < MOST_DROPPED) {
        a->is_dropped = true;
        n_dropped++;
    } else if (a->state == RUNS) {
        a->is_dropped = true;
    } else {
        if (a->state == WAITS)
            take_out(a);
        end(a);
    }
    pthread_mutex_unlock(&lock);
}

void
fr_ahead_stop(void)
{
    struct fr_ahead *a;

    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_broadcast(&comes);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    n_threads = 0;
    /* Those that others hold are theirs. */
    for (struct fr_ahead **link = &lines[1].first; (a = *link);)
        if (a->is_dropped) {
            take_out(a);
            end(a);
        } else {
            link = &a->next;
        }
    n_dropped = 0;
    stopping = false;
}
