#include "base/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void
fr_text_put(struct fr_text *t, const char *fmt, ...)
{
    bool    room = t->out && (size_t)t->len < t->cap;
    va_list ap;
    int     n;

    va_start(ap, fmt);
    n = vsnprintf(room ? t->out + t->len : NULL, room ? t->cap - (size_t)t->len : 0, fmt, ap);
    va_end(ap);
    t->len += n > 0 ? n : 0;
}
