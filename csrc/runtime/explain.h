/* runtime/explain.h -- what is computed while somebody has it explained: each evaluation with its plan, why it came, and what
 * was handed to NumPy between; and what would be computed of handles.  Called by eval.c and guard.c; bind/ says why, and shows it.
 *
 * Evaluations run as they do without: one that goes node by node is described by the plan that it would have, which is not kept. */
#ifndef FR_RUNTIME_EXPLAIN_H
#define FR_RUNTIME_EXPLAIN_H

#include "ir/node.h"
#include "runtime/tensor.h"

/* HANDED: a call of NumPy. READ: a value that Python needed and that took no evaluation. END: the function is over, and what it
 * has left pending follows. */
enum fr_event_kind { FR_EVENT_EVALUATION, FR_EVENT_HANDED, FR_EVENT_READ, FR_EVENT_END };

/* What happened, once or several times. */
struct fr_event {
    uint8_t     kind;
    bool        failed;          /* EVALUATION */
    const char *why;             /* EVALUATION: the sync, or what else it is for; READ: the sync; "" */
    const char *way;             /* EVALUATION: how it ran: "plan", "nodes", "alone", "unfused", or "pending": it has not */
    int         name;            /* HANDED, and EVALUATION for such a call: of fr_explanation.name; -1 */
    int         plan;            /* EVALUATION: of fr_explanation.plan; -1 */
    uint32_t    site;            /* the line of user code; 0: none is known */
    uint32_t    n_syncs;         /* values that Python needed */
    uint64_t    n_kernels, bytes_read, bytes_written;   /* as they were counted */
};

struct fr_described {
    uint64_t id[2];              /* of what was gathered, with its lines */
    char    *text;               /* of the kind that was asked for; sites are written "@123" */
    char    *json;               /* graph, groups, steps and memory; sites are numbers */
};

struct fr_explanation {
    const char          *kind;   /* as fr_explain has it */
    int                  n_events, n_plans, n_names;
    size_t               n_order;
    struct fr_event     *event;  /* distinct ones, */
    uint32_t            *order;  /* [n_order] and which of them happened, one after the other */
    struct fr_described *plan;
    char               **name;
    uint32_t            *slot;   /* a table of events by what they are: 1 + number */
    size_t               n_slots, cap_events, cap_order, cap_plans, cap_names;
    fr_status            st;     /* memory was out, or a plan could not be described: something is missing, */
    struct fr_err        err;    /* as this says */
};

/* Whether somebody has it explained. */
extern FR_HIDDEN bool fr_explain_is_on;

/* What evaluating these handles would do. `kind`: "plan", "graph", "loops", "c" or "cuda"; FR_EVALUE: another one. The plans are
 * made and kept, but not run. fr_explanation_clear ends *out, also after a failure. */
fr_status fr_explain(const struct fr_tensor *const *, int n, const char *kind, struct fr_explanation *out, struct fr_err *);
/* From here on, on this thread: what is computed. here(): the line of user code that runs. FR_EVALUE as above. It had not begun. */
fr_status fr_explain_begin(const char *kind, uint32_t (*here)(void), struct fr_err *);
void      fr_explain_end(struct fr_explanation *out);
void      fr_explanation_clear(struct fr_explanation *);

/* ---- while it is on; on other threads nothing */

/* Python needs a value that is pending; a call of NumPy begins; the function is over, and values are no longer needed for it. */
void      fr_explain_sync(const char *why, uint32_t site);
void      fr_explain_handed(const char *name, uint32_t site);
void      fr_explain_over(void);
/* The value was read without an evaluation. */
void      fr_explain_read(void);
/* The next evaluation comes unasked, and why. */
void      fr_explain_because(const char *why);

/* The turn of evaluations comes. */
void      fr_explain_asked(void);
struct fr_gathered;
struct fr_plan;
/* An evaluation begins: of what was gathered, which has this plan, or NULL and goes node by node; or of a node alone. */
void      fr_explain_evaluation(struct fr_gathered *, const struct fr_plan *);
void      fr_explain_alone(fr_ref);
/* Where it will be computed, with times: AUTO nodes. */
void      fr_explain_placement(struct fr_gathered *);
/* It has ended. */
void      fr_explain_ran(fr_status);

#endif
