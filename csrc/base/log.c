#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

/* In a child of fork the thread that held the lock does not exist; an entry that it was writing is not
 * counted yet. */
static void
after_fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
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
