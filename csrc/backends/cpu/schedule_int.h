/* backends/cpu/schedule_int.h -- what the files of scheduling share: schedule.c, the way in; schedule_rows.c, which rows a
 * nest reads as others; schedule_reach.c, what is known about the caches.  Private to them. */
#ifndef FR_BACKENDS_CPU_SCHEDULE_INT_H
#define FR_BACKENDS_CPU_SCHEDULE_INT_H

#include "jit/lower.h"

struct operand {
    int64_t *stride;    /* elements, [n_axes] */
    uint16_t load;      /* the instruction that loads it, or FR_LOWER_NO_INST */
    bool     packed, turned;  /* which may be by turning it over */
};

/* A lowered group of which everything is a copy that may change. */
struct scheduling {
    struct fr_lowered *l;
    int                n_axes;
    int64_t            dims[FR_MAX_DIMS];
    struct operand    *op;
    struct fr_inst    *inst;
    size_t             n_inst, n_op;
    struct fr_operand *form;                       /* [n_op] */
    const struct fr_operand_source *source;
    bool               otherwise, close;           /* close questions get the other answer; there was one */
};

/* Whether n reaches the bound. Within twice of it, either way, both answers are about as good, so that one of them may be
 * preferred for the code that it has: see fr_backend.schedule. */
static inline bool
fr_schedule_reaches(struct scheduling *z, int64_t n, int64_t bound)
{
    bool close = bound > 0 && bound < INT64_MAX / 2 && n > bound / 2 && n < bound * 2;

    z->close |= close;
    return (n >= bound) != (close && z->otherwise);
}

/* ---- schedule_rows.c */

/* Which of the axes that may be are the rows, and the neighbours that are accumulated together; changed before and after
 * rows are joined. */
void fr_schedule_neighbours(struct scheduling *);
void fr_schedule_longest_rows(struct scheduling *);
/* Packs what runs crosswise; returns how many operands. Not when rows have been joined. */
int  fr_schedule_pack(struct scheduling *);
/* Makes one long row of short ones: what all elements of a row have in common is loaded for each of them. Returns how
 * many axes a short row has, the inner one and the last of those outside of the rows; 0: the rows stay. */
int  fr_schedule_join_rows(struct scheduling *, int *n_packed);

/* ---- schedule_reach.c */

/* What is stored past the caches, and asked for ahead. */
void fr_schedule_reach(struct scheduling *);

#endif
