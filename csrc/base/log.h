/* base/log.h -- one line to stderr when FRIT_DEBUG is at least `level`; one-time warnings. */
#ifndef FR_BASE_LOG_H
#define FR_BASE_LOG_H

#include <stdbool.h>

void fr_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says something once per process and `topic`; collected by frit.show_config(). Thread-safe. */
void fr_warn_once(const char *topic, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes warnings work in children of fork. False when memory is out. */
bool fr_log_init(void);
/* The warnings said so far, one per line, into `out`; returns the length needed. */
int  fr_warnings(char *out, int cap);

#endif
