#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"

enum { MAX_WARNINGS = 32, WARNING_LEN = 320 };

static struct {
    char topic[32];
    char text[WARNING_LEN];
} said[MAX_WARNINGS];
static int             n_said;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void
fr_log(int level, const char *fmt, ...)
{
    char    line[1024];
    va_list ap;

    if (fr_env.debug < level)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "frit: %s\n", line);
}

void
fr_warn_once(const char *topic, const char *fmt, ...)
{
    char    line[WARNING_LEN];
    bool    is_new;
    va_list ap;
    int     i;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&lock);
    for (i = 0; i < n_said && strncmp(said[i].topic, topic, sizeof said[i].topic - 1); i++)
        ;
    is_new = i == n_said && n_said < MAX_WARNINGS;
    if (is_new) {
        snprintf(said[i].topic, sizeof said[i].topic, "%s", topic);
        snprintf(said[i].text, sizeof said[i].text, "%s", line);
        n_said++;
    }
    pthread_mutex_unlock(&lock);
    /* Without the lock: whoever reads stderr may take his time. */
    if (is_new && !fr_env.quiet)
        fprintf(stderr, "frit: %s\n", line);
}

/* ---- lines that come again */

enum { BUCKETS = 256 };

struct fr_log_line {
    struct fr_log_line *next;  /* in its bucket */
    uint64_t            n;     /* since counting began, */
    uint64_t            said;  /* and what was said of that */
    char                text[];
};

static struct fr_log_line *lines[BUCKETS];

struct fr_log_line *
fr_log_line(const char *text)
{
    uint32_t            hash = 2166136261u;
    size_t              n = strlen(text) + 1;
    struct fr_log_line *l, **at;

    for (const char *s = text; *s; s++)
        hash = (hash ^ (unsigned char)*s) * 16777619u;
    at = &lines[hash % BUCKETS];
    pthread_mutex_lock(&lock);
    for (l = *at; l && strcmp(l->text, text) != 0; l = l->next)
        ;
    if (!l && (l = fr_malloc(sizeof *l + n))) {
        *l = (struct fr_log_line){.next = *at};
        memcpy(l->text, text, n);
        *at = l;
    }
    pthread_mutex_unlock(&lock);
    return l;
}

const char *
fr_log_text(const struct fr_log_line *l)
{
    return l->text;
}

uint64_t
fr_log_again(struct fr_log_line *l)
{
    uint64_t n, rest;

    pthread_mutex_lock(&lock);
    for (n = rest = ++l->n; rest % 10 == 0; rest /= 10)
        ;
    if (rest == 1)
        l->said = n;
    pthread_mutex_unlock(&lock);
    return rest == 1 ? n : 0;
}

void
fr_log_rest(void (*say)(const char *text, uint64_t n))
{
    for (int i = 0; i < BUCKETS; i++) {
        struct fr_log_line *l;
        uint64_t            n;

        pthread_mutex_lock(&lock);
        l = lines[i];
        pthread_mutex_unlock(&lock);
        for (; l; l = l->next) {
            pthread_mutex_lock(&lock);
            n = l->n > l->said ? l->n : 0;
            l->n = l->said = 0;
            pthread_mutex_unlock(&lock);
            if (n) /* without the lock, as above */
                say(l->text, n);
        }
    }
}

/* In a child of fork the thread that held the lock does not exist; an entry that it was writing is not
 * counted yet. What the parent has counted it will say itself. */
static void
after_fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
    for (int i = 0; i < BUCKETS; i++)
        for (struct fr_log_line *l = lines[i]; l; l = l->next)
            l->n = l->said = 0;
}

bool
fr_log_init(void)
{
    static bool done;

    if (!done)
        done = pthread_atfork(NULL, NULL, after_fork_child) == 0;
    return done;
}

int
fr_warnings(char *out, int cap)
{
    int n = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_said; i++)
        n += snprintf(out && n < cap ? out + n : NULL, out && n < cap ? (size_t)(cap - n) : 0,
                      "%s\n", said[i].text);
    pthread_mutex_unlock(&lock);
    return n;
}
