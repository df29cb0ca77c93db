/* base/env.h -- the settings of env.def as one struct, filled at import. */
#ifndef FR_BASE_ENV_H
#define FR_BASE_ENV_H

#include <stdbool.h>

#define FR_ENV_STR_LEN 512

struct fr_env {
#define ENV_INT(field) int field;
#define ENV_STR(field) char field[FR_ENV_STR_LEN];
#define ENV(kind, name, field, dflt, help) ENV_##kind(field)
#include "base/env.def"
#undef ENV_INT
#undef ENV_STR
};

extern struct fr_env fr_env;

void fr_env_load(void);

/* FRIT_JIT=always: whoever computes waits for machine code. */
static inline bool
fr_env_waits_for_code(void)
{
    return fr_env.jit[1] == 'l';
}

#endif
