/* base/tune.h -- the numbers of tune.def as one struct, and as a table of what each may be. */
#ifndef FR_BASE_TUNE_H
#define FR_BASE_TUNE_H

#include <stdbool.h>
#include <stdint.h>

struct fr_tune {
#define TUNE(name, ...) int64_t name;
#include "base/tune.def"
};

extern struct fr_tune fr_tune;

struct fr_tune_row {
    const char *name, *unit, *measured;
    int64_t     usual, least, most, *value;
};

/* Every number; the last has no name. */
extern const struct fr_tune_row fr_tune_rows[];

/* Whether a text is a list of name=value; if it is to be applied, it sets these, and all others are what they usually are. */
bool fr_tune_take(const char *text, bool apply);

#endif
