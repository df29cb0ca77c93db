/* base/tune.c -- see tune.h. */
#include "base/tune.h"

#include <stdlib.h>
#include <string.h>

struct fr_tune fr_tune = {
#define TUNE(name, usual, ...) .name = usual,
#include "base/tune.def"
};

const struct fr_tune_row fr_tune_rows[] = {
#define TUNE(number, dflt, lo, hi, of, how) \
    {.name = #number, .unit = of, .measured = how, .usual = dflt, .least = lo, .most = hi, .value = &fr_tune.number},
#include "base/tune.def"
    {.name = NULL},
};

/* The row of a name of n letters, or the last. */
static const struct fr_tune_row *
find(const char *name, size_t n)
{
    const struct fr_tune_row *r = fr_tune_rows;

    while (r->name && !(strlen(r->name) == n && memcmp(r->name, name, n) == 0))
        r++;
    return r;
}

bool
fr_tune_take(const char *text, bool apply)
{
    for (const struct fr_tune_row *r = fr_tune_rows; r->name && apply; r++)
        *r->value = r->usual;
    for (text += strspn(text, ", "); *text; text += strspn(text, ", ")) {
        size_t                    n = strcspn(text, "=");
        const struct fr_tune_row *r = find(text, n);
        char                     *end;
        long long                 value;

        if (!r->name || !text[n] || !strchr("0123456789", text[n + 1]))
            return false;
        value = strtoll(text + n + 1, &end, 10);
        if (end == text + n + 1 || (*end && !strchr(", ", *end)) || value < r->least || value > r->most)
            return false;
        if (apply)
            *r->value = value;
        text = end;
    }
    return true;
}
