#include "base/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct fr_env fr_env;

/* The caches hold the operands of a loop as well as its result, and others' data. */
static int
past_bytes(void)
{
    long least = 24L << 20, most = 1L << 30, share = 0;

#ifdef _SC_LEVEL3_CACHE_SIZE
    share = sysconf(_SC_LEVEL3_CACHE_SIZE) / 12;
#endif
    return (int)(share < least ? least : share > most ? most : share);
}

static void
load_int(int *field, const char *name, int dflt)
{
    const char *s = getenv(name);
    char       *end;
    long        v;

    *field = dflt;
    if (!s || !*s)
        return;
    v = strtol(s, &end, 10);
    if (*end == '\0' && v >= 0 && v <= 1 << 30)
        *field = (int)v;
    else
        fprintf(stderr, "frit: %s=%s is not a whole number up to 2^30; using the default\n", name, s);
}

static void
load_str(char *field, const char *name, const char *dflt)
{
    const char *s = getenv(name);

    snprintf(field, FR_ENV_STR_LEN, "%s", s && *s ? s : dflt);
}

void
fr_env_load(void)
{
#define ENV_INT(field, name, dflt) load_int(&fr_env.field, name, dflt);
#define ENV_STR(field, name, dflt) load_str(fr_env.field, name, dflt);
#define ENV(kind, name, field, dflt, help) ENV_##kind(field, name, dflt)
#include "base/env.def"
#undef ENV_INT
#undef ENV_STR
    if (fr_env.past_bytes < 0)
        fr_env.past_bytes = past_bytes();
}
