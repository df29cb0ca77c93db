/* base/status.h -- how calls fail: a status code and a message, never an exit.
 * Used by every folder; bind/base/errors.c turns a status into a Python exception. */
#ifndef FR_BASE_STATUS_H
#define FR_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum fr_status {
#define STATUS(code, text, exc) FR_##code,
#include "base/status.def"
    FR_N_STATUS
} fr_status;

struct fr_err {
    fr_status code;
    char      text[480];
};

/* Fills `err` (NULL is fine) with a printf-style message and returns `code`. Cold, so that the compiler puts
 * whatever leads there out of the way: what runs for the first time waits for each line of its code. */
fr_status   fr_fail(struct fr_err *err, fr_status code, const char *fmt, ...)
    __attribute__((cold, format(printf, 3, 4)));
/* FR_ENOMEM: "out of memory: what". */
fr_status   fr_no_memory(struct fr_err *, const char *what) __attribute__((cold));
const char *fr_status_text(fr_status code);

/* Called by TRY when a call failed; logs the place at FRIT_DEBUG >= 5. */
void        fr_status_trace(const char *file, int line, fr_status st) __attribute__((cold));

/* A broken invariant of ours: aborts in debug builds, and costs nothing in release builds, which compile the expression
 * and never evaluate it. A check that is more than an expression is a static function that only this calls. */
#ifdef FR_DEBUG
void        fr_assert_failed(const char *what, const char *file, int line)
    __attribute__((noreturn));
#define FR_ASSERT(x) ((x) ? (void)0 : fr_assert_failed(#x, __FILE__, __LINE__))
#else
#define FR_ASSERT(x) ((void)sizeof(!(x)))
#endif
#define FR_DEBUG_ONLY __attribute__((unused))    /* on such a function */

/* Runs a call that returns fr_status; on failure leaves it in `st` and goes to `out`. */
#define TRY(call)                                      \
    do {                                               \
        if ((st = (call)) != FR_OK) {                  \
            fr_status_trace(__FILE__, __LINE__, st);   \
            goto out;                                  \
        }                                              \
    } while (0)

#define FR_LIKELY(x)   __builtin_expect(!!(x), 1)
#define FR_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FR_INLINE      static inline __attribute__((always_inline))
#define FR_COLD        __attribute__((noinline, cold))
/* On the declaration of a variable: it is reached directly, not through a table of the dynamic linker. */
#define FR_HIDDEN      __attribute__((visibility("hidden")))
/* A thread's own variable, at an address from the thread's own: no function of the dynamic linker is asked for it. */
#define FR_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#define FR_LEN(array)  (sizeof(array) / sizeof((array)[0]))

#endif
