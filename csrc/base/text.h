/* base/text.h -- printf into a buffer of the caller's that may be too small, as snprintf does it:
 * what does not fit is counted and dropped. */
#ifndef FR_BASE_TEXT_H
#define FR_BASE_TEXT_H

#include <stddef.h>

struct fr_text {
    char  *out; /* NULL: only counts */
    size_t cap;
    int    len; /* of the whole text, without the final NUL */
};

void fr_text_put(struct fr_text *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
