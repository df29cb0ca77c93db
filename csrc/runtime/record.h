/* runtime/record.h -- what is computed while somebody records it: each step of each plan, with its lines of user code, its bytes and
 * operations, how often it ran and how long that took.  Called by run.c; bind/ shows it.
 *
 * A step is described when it first runs in a recording; then it only counts. What a backend without data does not run has the
 * time that it is estimated to take. */
#ifndef FR_RUNTIME_RECORD_H
#define FR_RUNTIME_RECORD_H

#include "backends/estimate.h"
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
    double      us;              /* and took so long, all together */
};

struct fr_recording {
    int               n;
    struct fr_record *of;
    bool              is_full;   /* memory was out: some are missing */
    uint64_t          n_evals, n_nodes;   /* evaluations; nodes that were traced */
    int64_t           peak_bytes;     /* of results and temporaries of one evaluation, the most */
    uint64_t          first_peak_bytes;   /* of all memory, the most, where small evaluations go node by node; 0: none does */
};

/* Whether somebody records. */
extern FR_HIDDEN bool fr_record_is_on;

/* Begins. False: it had begun. */
bool      fr_record_begin(void);
/* Ends, and gives what was recorded; fr_recording_clear ends that. */
void      fr_record_end(struct fr_recording *out);
void      fr_recording_clear(struct fr_recording *);

/* ---- for run.c ---- */

/* An evaluation begins. */
void      fr_record_eval(const struct fr_plan *, int64_t n_temporary);
/* An evaluation of what is without data, which node by node would have so many bytes at most. */
void      fr_record_first(const struct fr_backend *, int64_t n_bytes);
/* A step ran, in `us`; below 0: in as long as it is estimated to take. */
void      fr_record_step(struct fr_plan *, int step, double us);

#endif
