/* base/env.h -- the settings of env.def as one struct, filled at import, and as a table of what each may be. */
#ifndef FR_BASE_ENV_H
#define FR_BASE_ENV_H

#include <stdbool.h>
#include <stddef.h>

#define FR_ENV_STR_LEN 1024

struct fr_env {
#define ENV_INT(field) int field;
#define ENV_STR(field) char field[FR_ENV_STR_LEN];
#define ENV_SET(field) char field[FR_ENV_STR_LEN]; unsigned field##_bits;
#define ENV(kind, name, field, dflt, allowed, help) ENV_##kind(field)
#include "base/env.def"
#undef ENV_INT
#undef ENV_STR
#undef ENV_SET
};

extern struct fr_env fr_env;

struct fr_setting {
    const char *name, *field, *default_text, *help;
    int        *as_int; /* one of the two */
    char       *as_str;
    unsigned   *as_bits;     /* of a text that is a set: bit i is word i */
    int         least, most; /* of a number */
    const char *words;       /* of a text, with commas between them; NULL: any text */
    bool        several;     /* any number of the words */
    bool      (*take)(const char *text, bool apply); /* of a text that is more than words: whether it may be that, and is, if applied */
};

/* Every setting; the last has no name. */
extern const struct fr_setting fr_settings[];

/* Where the environment has what a setting may not be, it stays the default, and a line on stderr says so. */
void fr_env_load(void);

bool fr_setting_allows_int(const struct fr_setting *s, long value);
bool fr_setting_allows_text(const struct fr_setting *s, const char *text);
/* Sets a text that is allowed. */
void fr_setting_put_text(const struct fr_setting *s, const char *text);

/* What a setting may be, in words: "one of cpu, ref". */
void fr_setting_allowed(const struct fr_setting *s, char *out, size_t cap);

/* The words of FRIT_JIT, of which one is set, and of FRIT_LOG, in their order. */
enum { FR_JIT_AUTO = 1, FR_JIT_OFF = 2, FR_JIT_INTERPRET = 4, FR_JIT_ALWAYS = 8 };
enum { FR_LOG_COMPILES = 1, FR_LOG_FALLBACKS = 2, FR_LOG_SYNCS = 4 };

/* FRIT_JIT=always: whoever computes waits for machine code. */
static inline bool
fr_env_waits_for_code(void)
{
    return fr_env.jit_bits == FR_JIT_ALWAYS;
}

/* Whether machine code may run, and be asked for. */
static inline bool
fr_env_uses_code(void)
{
    return (fr_env.jit_bits & (FR_JIT_AUTO | FR_JIT_ALWAYS)) != 0;
}

#endif
