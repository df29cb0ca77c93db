#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

static const char *const texts[] = {
#define STATUS(code, text, exc) [FR_##code] = text,
#include "base/status.def"
};

fr_status
fr_fail(struct fr_err *err, fr_status code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        err->code = code;
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

fr_status
fr_no_memory(struct fr_err *err, const char *what)
{
    return fr_fail(err, FR_ENOMEM, "out of memory: %s", what);
}

const char *
fr_status_text(fr_status code)
{
    return (unsigned)code < FR_N_STATUS ? texts[code] : "unknown status";
}

void
fr_status_trace(const char *file, int line, fr_status st)
{
    fr_log(5, "%s:%d: %s", file, line, fr_status_text(st));
}

#ifdef FR_DEBUG
void
fr_assert_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "frit: %s:%d: assertion failed: %s\n", file, line, what);
    abort();
}
#endif
