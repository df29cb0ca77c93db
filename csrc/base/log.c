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
    va_list ap;
    int     i;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&lock);
    for (i = 0; i < n_said && strncmp(said[i].topic, topic, sizeof said[i].topic - 1); i++)
        ;
    if (i == n_said && n_said < MAX_WARNINGS) {
        snprintf(said[i].topic, sizeof said[i].topic, "%s", topic);
        snprintf(said[i].text, sizeof said[i].text, "%s", line);
        n_said++;
        if (!fr_env.quiet)
            fprintf(stderr, "frit: %s\n", line);
    }
    pthread_mutex_unlock(&lock);
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
