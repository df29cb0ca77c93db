/* base/log.h -- one line to stderr when FRIT_DEBUG is at least `level`; one-time warnings; lines that come again. */
#ifndef FR_BASE_LOG_H
#define FR_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

void fr_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says something once per process and `topic`; collected by frit.show_config(). Thread-safe. */
void fr_warn_once(const char *topic, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line of FRIT_LOG that may come again and again: it is said the first time, and then with a count the 10th, the 100th, ... Who
 * says it is for the caller. Thread-safe; lines live as long as the process. */
struct fr_log_line;
struct fr_log_line *fr_log_line(const char *text);       /* NULL: memory is out */
const char *fr_log_text(const struct fr_log_line *);
/* Once more; the count, if that is to be said now, or 0. */
uint64_t    fr_log_again(struct fr_log_line *);
/* Has all said whose last count was not, and begins to count anew. */
void        fr_log_rest(void (*say)(const char *text, uint64_t n));
/* Makes warnings work in children of fork. False when memory is out. */
bool fr_log_init(void);
/* The warnings said so far, one per line, into `out`; returns the length needed. */
int  fr_warnings(char *out, int cap);

#endif
