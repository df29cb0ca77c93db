/* runtime/record.h -- what is computed while somebody records it: each step of each plan and each node that runs by itself,
 * with its lines of user code, its bytes and operations, how often it ran and how long that took.  Called by run.c and eval.c;
 * bind/ shows it.
 *
 * The steps of a plan are described when it first runs in a recording for these lines; then they only count. A plan serves all that
 * have its structure, wherever they were written, so what it was given says the lines. What a backend without data does not run has
 * the time that it is estimated to take. */
#ifndef FR_RUNTIME_RECORD_H
#define FR_RUNTIME_RECORD_H

#include "backends/estimate.h"
#include "base/span.h"
#include "runtime/plan.h"

struct fr_record_line {
    uint32_t site;
    double   share;              /* of the step's work; those of a step add up to 1 */
};

struct fr_record {
    const char *kind;            /* what kind of group it is */
    const char *tier;            /* who runs it: a word of base/ways.def */
    const char *why;             /* it was not merged with its neighbour; NULL: it has none */
    char       *ops;             /* names of its operations, a space between them */
    char       *dims;            /* of its domain, as text */
    fr_device   device;
    bool        counts;          /* as a kernel */
    int         n_arrays;        /* done at once */
    int         n_lines;
    struct fr_record_line *line;
    struct fr_work work;         /* of one run, */
    uint64_t    bytes_read, bytes_written;
    uint64_t    n_runs;          /* of which there were so many, */
    double      us;              /* and took so long, all together, by the estimate */
    uint64_t    ticks;           /* or by the clock (base/span.h), if somebody looks at it, */
    uint64_t    threads;         /* on so many threads, one run after the other */
    double      limit_us;        /* of one run: the machine cannot do it sooner; 0: nobody has measured it */
    int32_t     next;            /* the same run by another executor; -1: by none */
};

/* What memory there is when there is the most. */
struct fr_record_array {
    const void             *memory;  /* while it is there */
    uint32_t                site;    /* of what made it */
    fr_dtype                dtype;
    int                     ndim;
    int64_t                 dims[FR_MAX_DIMS], n_bytes;
};
enum { FR_RECORD_ARRAYS = 16 };

struct fr_recording {
    int               n;
    struct fr_record *of;
    bool              is_full;   /* memory was out: some are missing */
    uint64_t          n_evals, n_nodes;   /* evaluations; nodes that were traced */
    int64_t           peak_bytes;     /* of results and temporaries of one evaluation, the most */
    uint64_t          first_peak_bytes;   /* of all memory, the most, where small evaluations go node by node; 0: none does */
    /* The largest arrays at the time of the peak of memory, where somebody looks at the clock; and the temporaries of its run. */
    struct fr_record_array array[FR_RECORD_ARRAYS];
    int               n_arrays;
    int64_t           at_peak_temporary;
    uint64_t          at_peak_bytes;
};

/* Whether somebody records. */
extern FR_HIDDEN bool fr_record_is_on;

/* Begins. False: it had begun. This and the end are in the turn of evaluations. */
bool      fr_record_begin(void);
/* Ends, and gives what was recorded; fr_recording_clear ends that. */
void      fr_record_end(struct fr_recording *out);
void      fr_recording_clear(struct fr_recording *);

/* ---- for run.c and eval.c ---- */

/* An evaluation begins, whose memory is there. */
void      fr_record_eval(const struct fr_plan *, int64_t n_temporary);
/* An evaluation of what is without data, which node by node would have so many bytes at most. */
void      fr_record_first(const struct fr_backend *, int64_t n_bytes);
/* The first of the records of the plan's steps, for what it is given; -1: memory is out. */
int       fr_record_run(struct fr_plan *, const struct fr_inputs *);
/* All steps count, in as long as they are estimated to take. */
void      fr_record_estimated(struct fr_plan *, int first);

/* Something begins to run. */
struct fr_record_mark {
    struct fr_span_mark span;
    uint64_t            jitted, interpreted, shared;
};
struct fr_record_mark fr_record_begun(void);
/* It was these steps, from `step` on, of which each took the part share[k] of the time; NULL: the part that is estimated. */
void      fr_record_ran(struct fr_plan *, int first, int step, int n, const int64_t *share, const struct fr_record_mark *);
/* It was a node by itself. */
void      fr_record_node(const struct fr_node *, const struct fr_record_mark *);
/* How much memory is in use now, at the end of something. */
void      fr_record_memory(const struct fr_backend *);

#endif
