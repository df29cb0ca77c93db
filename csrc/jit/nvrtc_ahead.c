#include "jit/nvrtc_ahead.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/background.h"
#include "base/processors.h"

enum { MOST_THREADS = 4, STACK_BYTES = 8 << 20, DEFINE_BYTES = 48 };
enum state { WAITS, RUNS, DONE };

struct fr_ahead {
    struct fr_ahead *next;          /* of those that wait */
    enum state       state;
    bool             dropped;       /* whoever runs it ends it */
    bool             quick;
    int              arch;
    char            *text, defines[FR_NVRTC_DEFINES][DEFINE_BYTES];
    struct fr_image  image;
    fr_status        st;
    struct fr_err    err;
};

static pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t   comes = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static struct fr_ahead *first, **last = &first;
static pthread_t        threads[MOST_THREADS];
static int              n_threads, n_idle;
static bool             stopping;

static void
end(struct fr_ahead *a)
{
    fr_image_clear(&a->image);
    fr_free(a->text);
    fr_free(a);
}

/* Without the lock. */
static void
compile(struct fr_ahead *a)
{
    const char *defines[FR_NVRTC_DEFINES];

    for (int i = 0; i < FR_NVRTC_DEFINES; i++)
        defines[i] = *a->defines[i] ? a->defines[i] : NULL;
    a->st = fr_nvrtc_compile(a->text, a->arch, defines, a->quick, &a->image, &a->err);
}

static void *
work(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    while (!stopping) {
        struct fr_ahead *a = first;

        if (!a) {
            n_idle++;
            pthread_cond_wait(&comes, &lock);
            n_idle--;
            continue;
        }
        if (!(first = a->next))
            last = &first;
        a->state = RUNS;
        pthread_mutex_unlock(&lock);
        compile(a);
        pthread_mutex_lock(&lock);
        a->state = DONE;
        if (a->dropped)
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
fr_ahead_ask(char *text, int arch, const char *const *defines, bool quick)
{
    struct fr_ahead *a = fr_calloc(1, sizeof *a);

    if (!a) {
        fr_free(text);
        return NULL;
    }
    a->text = text;
    a->arch = arch;
    a->quick = quick;
    for (int i = 0; i < FR_NVRTC_DEFINES && defines[i]; i++)
        memcpy(a->defines[i], defines[i], strnlen(defines[i], DEFINE_BYTES - 1));
    pthread_mutex_lock(&lock);
    if (stopping || !have_threads()) {
        pthread_mutex_unlock(&lock);
        end(a);
        return NULL;
    }
    *last = a;
    last = &a->next;
    pthread_cond_signal(&comes);
    pthread_mutex_unlock(&lock);
    return a;
}

/* Lock held: takes out what no thread has begun. */
static void
take_out(struct fr_ahead *a)
{
    struct fr_ahead **link = &first;

    while (*link != a)
        link = &(*link)->next;
    if (!(*link = a->next))
        last = link;
}

fr_status
fr_ahead_take(struct fr_ahead *a, struct fr_image *out, struct fr_err *err)
{
    fr_status st;

    pthread_mutex_lock(&lock);
    if (a->state == WAITS) {
        take_out(a);
        pthread_mutex_unlock(&lock);
        compile(a);
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
    if (a->state == WAITS)
        take_out(a);
    a->dropped = a->state == RUNS;
    if (!a->dropped)
        end(a);
    pthread_mutex_unlock(&lock);
}

void
fr_ahead_stop(void)
{
    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_broadcast(&comes);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    n_threads = 0;
    stopping = false;
}
