/* base/ways.c -- see ways.h. */
#include "base/ways.h"

#define IS_OFF    true
#define IS_ALWAYS false

const struct fr_way_row fr_way_rows[FR_N_WAYS] = {
#define WAY(way, off, text, when, what, because) \
    {.name = #way, .word = text, .fits = when, .runs = what, .why = because, .can_be_off = IS_##off},
#include "base/ways.def"
};

atomic_ullong fr_ways_taken[FR_N_WAYS];

void
fr_ways_reset(void)
{
    for (int i = 0; i < FR_N_WAYS; i++)
        atomic_store_explicit(&fr_ways_taken[i], 0, memory_order_relaxed);
}
