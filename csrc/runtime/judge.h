/* runtime/judge.h -- which warnings of arithmetic an evaluation owes.
 *
 * Kernels leave the processor's flags as they are (base/fpe.h). Where an evaluation has raised one that the user's
 * state does not ignore, its nodes are given to bind as they were traced, with what is still there of the memory that
 * they read, and NumPy computes them once more, one by one: what it warns about is said at the line of that node. eval.c
 * and captured.c ask; bind/numpy/judge.c answers. */
#ifndef FR_RUNTIME_JUDGE_H
#define FR_RUNTIME_JUDGE_H

#include "runtime/plan.h"

struct fr_judged_arg {
    int32_t                 node;     /* of `node`; -1: a number, `bits` */
    fr_dtype                dtype;
    uint64_t                bits[2];
    const struct fr_layout *layout;   /* as it is seen, from `offset` elements on */
    int64_t                 offset;
};

struct fr_judged_node {
    fr_op                   op;
    fr_dtype                dtype;
    uint8_t                 n_args;
    uint32_t                axes, site;
    const struct fr_layout *layout;
    char                   *memory;   /* of a leaf, unless it was overwritten, or of a result; NULL: it is gone */
    struct fr_judged_arg    arg[3];
};

struct fr_judged {
    int                    n;
    struct fr_judged_node *node;      /* each after those that it reads */
    unsigned               raised;    /* FR_FPE_* */
};

enum { FR_JUDGE_FEW = 512 };  /* bytes that are kept of each run: less than a call costs */
struct fr_judge_few {
    _Alignas(16) char bytes[FR_JUDGE_FEW];
};

/* Counts changes of filters: what was said before may have to be said again. Set by bind. */
extern FR_HIDDEN uint64_t fr_judge_epoch;

/* What the state warns about though polynomials do not always raise it: FR_FPE_UNDER, or 0. Set by bind. */
extern FR_HIDDEN unsigned fr_judge_unseen;

/* Whether that is a question at all. */
bool      fr_judge_would(unsigned raised, unsigned warns);
/* Whether somebody was asked about the same lines of late. */
struct fr_judge_memory {
    uint64_t lines, epoch;            /* which, under which filters, */
    unsigned warns, raised;           /* what the state warned about, and what was raised; */
    uint32_t n_asked, n_passed;       /* how often that was, and how many runs that raised something went by since */
};
/* Whether somebody should ask about a run that raised this, where the state warns about that; then it is remembered that
 * somebody did. */
bool      fr_judge_is_due(struct fr_judge_memory *, unsigned raised, unsigned warns);
/* The same of nodes that have just been computed. */
bool      fr_judge_are_due(const fr_ref *id, int n, unsigned raised);
/* Before a run of the nodes id[], or, NULL, of leaves whose memory is in p->base: takes a copy of those that will be
 * overwritten, where that costs little; else, and where there are none, NULL. */
char     *fr_judge_keep_lost(struct fr_plan *, const fr_ref *id, struct fr_judge_few *);
void      fr_judge_free_lost(char *kept, struct fr_judge_few *);
static inline char *
fr_judge_keep(struct fr_plan *p, const fr_ref *id, struct fr_judge_few *few)
{
    return FR_LIKELY(p->n_lost == 0) || !fr_plan_by(p)->warns ? NULL : fr_judge_keep_lost(p, id, few);
}
static inline void
fr_judge_let_go(char *kept, struct fr_judge_few *few)
{
    if (FR_UNLIKELY(kept != NULL))
        fr_judge_free_lost(kept, few);
}
/* Puts them back. */
void      fr_judge_undo(const struct fr_plan *, const char *kept);
/* Asks about the nodes id[0 .. n-1], which are due, each after those that it reads, that the plan has just computed; nothing has been
 * realised. `kept`: what was overwritten, or NULL. */
void      fr_judge_plan(struct fr_plan *, const fr_ref *id, int n, const char *kept, unsigned raised);
/* The same where no node is left and nothing was kept: believes the flags. site[]: of what the plan was given. */
void      fr_judge_blindly(struct fr_plan *, const uint32_t *site, unsigned raised, unsigned warns);
/* The same of one node, whose arguments are there or converted for it alone; `out` is its memory. */
void      fr_judge_node(fr_ref, const struct fr_buffer *out, unsigned raised);
extern FR_HIDDEN bool fr_judge_found;  /* something, in this turn */
fr_status fr_judge_say(void);
/* After the turn: says what has been found. */
static inline fr_status
fr_judge_end(void)
{
    return FR_LIKELY(!fr_judge_found) ? FR_OK : fr_judge_say();
}

#endif
