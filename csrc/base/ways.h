/* base/ways.h -- the ways of ways.def: which are left out, and how often each was taken. Called where each is decided. */
#ifndef FR_BASE_WAYS_H
#define FR_BASE_WAYS_H

#include <stdatomic.h>

#include "base/env.h"

enum fr_way {
#define WAY(name, ...) FR_WAY_##name,
#include "base/ways.def"
    FR_N_WAYS
};

/* Those that can be left out, by the order of their words in FRIT_OFF. */
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

struct fr_way_row {
    const char *name, *word, *fits, *runs, *why;
    bool        can_be_off;
};

extern const struct fr_way_row fr_way_rows[FR_N_WAYS];
extern atomic_ullong           fr_ways_taken[FR_N_WAYS];

static inline bool
fr_is_off(enum fr_off way)
{
    return __builtin_expect(fr_env.off_bits >> way & 1, 0);
}

/* The way was taken n times. Each is counted under one lock, Python's or that of evaluations (runtime/lock.c), and others
 * only read: no locked instruction is needed. */
static inline void
fr_count_ways(enum fr_way way, unsigned n)
{
    unsigned long long before = atomic_load_explicit(&fr_ways_taken[way], memory_order_relaxed);

    atomic_store_explicit(&fr_ways_taken[way], before + n, memory_order_relaxed);
}

static inline unsigned long long
fr_way_taken(enum fr_way way)
{
    return atomic_load_explicit(&fr_ways_taken[way], memory_order_relaxed);
}

static inline void
fr_count_way(enum fr_way way)
{
    fr_count_ways(way, 1);
}

void fr_ways_reset(void);

#endif
