/* base/ways.h -- the ways of ways.def: which are left out. Called where each is decided. */
#ifndef FR_BASE_WAYS_H
#define FR_BASE_WAYS_H

#include "base/env.h"

enum fr_off {
#define OFF_OFF(name) FR_OFF_##name,
#define OFF_ALWAYS(name)
#define WAY(name, off, ...) OFF_##off(name)
#include "base/ways.def"
#undef OFF_OFF
#undef OFF_ALWAYS
    FR_N_OFF
};
_Static_assert(FR_N_OFF <= 32, "the bits of FRIT_OFF are those of an unsigned");

static inline bool
fr_is_off(enum fr_off way)
{
    return __builtin_expect(fr_env.off_bits >> way & 1, 0);
}

#endif
