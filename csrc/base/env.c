#include "base/env.h"

#include <stdio.h>
#include <stdlib.h>

struct fr_env fr_env;

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
        fprintf(stderr, "frit: %s=%s is not a whole number; using %d\n", name, s, dflt);
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
}
