/* runtime/plan.h -- from pending nodes to something that can be run again.  Private to runtime/.
 *
 * gather.c takes the nodes that the roots need and writes their structure as words (the key), with what
 * changes from run to run beside it: leaf memory, scalar values, where windows begin.
 * plan.c makes a plan for a key: graph, fusion, kernels, memory. moving.c says where its windows may begin. plan_cache.c keeps
 * the plans, eval.c runs them. */
#ifndef FR_RUNTIME_PLAN_H
#define FR_RUNTIME_PLAN_H

#include "backends/backend.h"
#include "base/env.h"
#include "ir/graph.h"
#include "ir/node.h"
#include "jit/lower.h"
#include "passes/fuse.h"


struct fr_scalar_bits {
    uint64_t word[2];
};

/* Where a window begins: so many elements behind where window number `with` does, which has a lower number, or is this one,
 * with 0 elements: anywhere. -1: behind the beginning of its node. */
struct fr_move {
    int64_t n;
    int32_t with;
};

struct fr_gathered_entry {
    uint32_t at;                         /* its first word in the key */
    uint32_t n_uses;                     /* references from gathered nodes; */
};
#define FR_ENTRY_IS_ROOT (1u << 31)      /* beside them */

/* What one evaluation works on. The arrays are kept from call to call. */
struct fr_gathered {
    fr_ref                   *id;        /* graph nodes: each after those that it reads */
    struct fr_gathered_entry *entry;     /* [n] */
    int                       n;
    uint64_t                 *key;
    size_t                    n_key;
    struct fr_scalar_bits    *scalar;
    int                       n_scalars;
    int64_t                  *moving;    /* the element of its node at which each window begins that is not all of that */
    int                       n_moving;
    fr_ref                   *unsettled; /* leaves over pinned memory that are stored to here, and read */
    int                       n_unsettled;  /* elsewhere too */
    uint32_t                 *site;      /* [n] when fr_gather_structure has filled it */
    /* of gathering alone */
    fr_ref                   *order;     /* computing nodes in order of birth */
    int                       n_order;
    bool                      left_out;  /* one of them reads a computing node that is not there */
    int64_t                   debt;      /* nodes to be gathered before another look at everything pending */
    fr_ref                   *stack, *views;
    size_t                    n_views;
    size_t cap_id, cap_entry, cap_key, cap_scalar, cap_moving, cap_unsettled, cap_order, cap_stack, cap_views, cap_site;
};

/* What a plan is made for: a graph as words. */
struct fr_structure {
    const uint64_t *key;
    size_t          n_key;
    int             n_nodes, n_scalars;
    const struct fr_scalar_bits *scalar; /* [n_scalars] what they are just now; NULL: nothing may follow from that */
    const uint32_t *site;                /* [n_nodes] where in the user's code */
    const int64_t  *moving;              /* [n_moving] */
    int             n_moving;
    const struct fr_move *older;         /* [n_moving] what held so far, of another plan with this key; NULL: there is none */
    int             n_older;             /* plans with it */
    bool            unfused;             /* each node is to be a kernel of its own */
};

enum fr_key_flags { FR_KEY_OUTPUT = 1, FR_KEY_DYING = 2, FR_KEY_PINNED = 4, FR_KEY_OUTSIDE = 8, FR_KEY_FLAGS = 15 };

fr_status fr_gather(struct fr_gathered *, const fr_ref *roots, int n_roots, struct fr_err *);
/* Only this node, whose arguments have been computed. */
fr_status fr_gather_node(struct fr_gathered *, fr_ref, struct fr_err *);
/* What was gathered of AUTO nodes is computed on a device: says the key from here on. */
void      fr_gather_place(struct fr_gathered *, fr_device);
/* The first of the gathered nodes that computes elsewhere than the AUTO one that reads it; FR_NO_NODE: none does. */
fr_ref    fr_gather_elsewhere(const struct fr_gathered *);
/* Every pending node that Python holds; there is room for fr_nodes_pending. Returns how many. */
int       fr_gather_held(fr_ref *out);
/* Keeps of the computing nodes `roots` those that are one of `what` or read one of them. */
fr_status fr_gather_readers(struct fr_gathered *, const fr_ref *what, int n_what, fr_ref *roots,
                            int *n_roots, struct fr_err *);
/* The flags in the key of a leaf that gathered nodes read n_uses times, which a backend will run. */
static inline uint32_t
fr_gather_leaf_flags(const struct fr_node *leaf, uint32_t n_uses, const struct fr_backend *by)
{
    const struct fr_buffer *b = leaf->v.buffer;
    bool                    wanted = leaf->refs > n_uses, ours = b->owner == NULL;

    if (!ours || b->pinned) /* stores must land in this very memory */
        return FR_KEY_PINNED | (wanted ? FR_KEY_OUTSIDE : 0);
    if (wanted)
        return FR_KEY_OUTSIDE;
    /* (A result over memory that is lent to the run would have to be copied back.) */
    return atomic_load_explicit(&b->refs, memory_order_relaxed) == 1 && (b->home ? b->home == by : by->is_host) ? FR_KEY_DYING : 0;
}
/* What was gathered, until the next time. */
fr_status fr_gather_structure(struct fr_gathered *, struct fr_structure *out, struct fr_err *);
/* References to the layouts whose addresses are in the key. *out has room for n + n_views. */
int       fr_gather_layouts(const struct fr_gathered *, struct fr_layout **out);
/* The graph that it is; scalars know which are alike. `apart`: not under the GIL, and with layouts of its own, which the calling thread uses from here
 * on, also after a failure. The key's layouts must be there. */
fr_status fr_structure_graph(const struct fr_structure *, bool apart, struct fr_graph **out, struct fr_err *);

/* ---- kernels, shared by plans ---- */

/* On any thread: the kernel of this nest, with a reference. */
fr_status fr_kernel_get(fr_device, const struct fr_nest *, struct fr_kernel **out, struct fr_err *);
void      fr_kernel_unref(struct fr_kernel *);
/* Whether there is a kernel of this nest that has been compiled. */
bool      fr_kernel_has_code(fr_device, const struct fr_nest *);

/* ---- plans ---- */

enum fr_step_kind { FR_STEP_LAUNCH, FR_STEP_SCAN, FR_STEP_COPY, FR_STEP_CALL };

struct fr_binding {                      /* one operand of one instance */
    int32_t node;                        /* graph node; -1: no memory (iota) */
    int32_t moving;                      /* >= 0: it begins where this slot says, */
    int64_t size;                        /* of elements of so many bytes, */
    int64_t offset;                      /* and so many bytes behind */
};

/* Where it begins in the memory of its node. */
static inline int64_t
fr_binding_at(const struct fr_binding *b, const int64_t *moving)
{
    return b->offset + (b->moving >= 0 ? moving[b->moving] * b->size : 0);
}

struct fr_step {
    uint8_t                  kind;
    bool                     counts;     /* begins a dispatch; false: the later phase of one, or no kernel */
    bool                     overwrites; /* writes over memory that was there before the evaluation */
    fr_op                    op;         /* SCAN */
    fr_dtype                 dtype;      /* SCAN */
    int                      n_instances, cap_instances;
    struct fr_kernel  *kernel;
    struct fr_instance      *instance;
    struct fr_binding      **binding;    /* [n_instances][n_operands] */
    int32_t                **scalar;     /* [n_instances][n_scalars] graph scalars; -1: a constant, which is there */
    int                     *group;      /* [n_instances] */
    struct fr_call           call;       /* CALL */
    int                      band;       /* 1 + the number of the band that it is a part of; 0: of none */
    int32_t                  copy_from, copy_to;   /* COPY: graph nodes */
    int64_t                  copy_bytes;
    uint64_t                 bytes_read, bytes_written;
    int64_t                  ps;                 /* that one thread of the host is expected to take (backends/expect.h) */
};

/* How many operands each instance of the step has. */
static inline int
fr_step_operands(const struct fr_step *s)
{
    switch (s->kind) {
    case FR_STEP_LAUNCH: return s->kernel->nest->n_operands;
    case FR_STEP_SCAN: return 2;
    case FR_STEP_CALL: return s->call.n_in + 1;
    default: return 0;
    }
}

/* The step's nest with operands of its own, in the arena, to be changed; and has the step run that, of as many operands. */
fr_status fr_step_copy_nest(const struct fr_step *, struct fr_arena *, struct fr_nest *out, struct fr_err *);
fr_status fr_step_set_nest(struct fr_step *, const struct fr_nest *, struct fr_err *);

struct fr_place {                        /* memory of one graph node */
    uint8_t kind;                        /* enum fr_place_kind */
    int32_t root;                        /* SAME: the node whose memory it is, never SAME itself */
    int64_t bytes, offset;               /* ARENA, BAND */
};
/* BAND: only what one band needs of it, in the scratch of whoever runs that. */
enum fr_place_kind { FR_PLACE_NONE, FR_PLACE_LEAF, FR_PLACE_NEW, FR_PLACE_ARENA, FR_PLACE_SAME, FR_PLACE_BAND };

/* ---- steps that run band by band: bands.c says what that is ---- */

enum { FR_BAND_ITEMS = 48, FR_BAND_NEEDS = 256 };

/* What an item reads of what another one makes: index i of that one's axis is the bytes from i * made on, and index j
 * of ours wants those from low + j * read up to high + j * read. */
struct fr_band_need {
    int     item;
    int64_t made, read, low, high;
};

/* An operand in the scratch of a band: index `low` of the item that makes it is at `offset`. */
struct fr_band_inner {
    int     item;                        /* -1: it has memory of its own */
    int64_t made, offset;
};

struct fr_band_item {                    /* one instance of a step */
    int                   step, instance;
    int                   outer_axis;    /* of the instance (fr_instance_dim), of which a band has one unit: so many */
    int64_t               outer_per;     /* indices; -1: there is none */
    int                   axis;          /* of that, which is cut */
    int64_t               n, per;        /* its indices, and those of one unit */
    bool                  whole;         /* the bands are a partition of it; else each has what it needs */
    int                   first_need, n_needs;
    struct fr_band_inner *inner;         /* [n_operands] */
    const int64_t        *stride;        /* as of the instance, but of what is in scratch */
};

struct fr_band {                         /* some steps, one after the other */
    int                  first, n_steps;
    int                  n_items, n_needs;
    struct fr_band_item *item;           /* each after those that it needs */
    struct fr_band_need *need;
    int64_t              n_outer;        /* units that are cut by themselves, into: */
    int64_t              n_units, units, n_bands; /* `units` of them are a band, fewer the last one */
    int64_t              n_bytes;        /* scratch of one who runs them */
};

/* The node whose memory it is. */
static inline int
fr_place_root(const struct fr_place *place, int n)
{
    while (place[n].kind == FR_PLACE_SAME) /* more than one of them only while memory is shared out */
        n = place[n].root;
    return n;
}

struct fr_alike {                        /* two scalars that must have one value */
    int32_t a, b;
};

struct fr_plan {
    uint64_t         hash[2];
    uint64_t        *key;
    size_t           n_key;
    struct fr_plan  *next;               /* same bucket */
    uint32_t         slot;               /* plan_cache.c: where it is kept */
    fr_device        device;             /* that runs it */
    struct fr_graph *graph;              /* in whose arena everything lies, this too */
    struct fr_fusion *fusion;
    int32_t         *given;              /* [n_nodes] numbers of what was gathered; -1: a pass made it */
    int              n_steps;
    struct fr_step  *step;
    struct fr_place *place;              /* [n_nodes] */
    char           **base;               /* [n_nodes] while running */
    struct fr_buffer **fresh;            /* [n_nodes] while running: NEW memory */
    int              n_new, n_outputs, n_arena;
    int32_t         *new_;               /* nodes with NEW memory */
    int32_t         *output;             /* nodes to be realised */
    int32_t         *placed;             /* [n_placed] nodes with memory: leaves first, those of kind SAME last */
    int              n_placed, n_leaves;
    int              n_lost;             /* leaves that are overwritten, */
    int32_t         *lost;               /* [n_lost] which, */
    int64_t          lost_bytes;         /* and their bytes */
    uint32_t         n_kept;             /* judge.c: runs of which these were kept */
    int              n_instances;        /* of launches */
    void           **own;                /* [n_instances] the backend's (fr_instance.own) */
    int              n_bands;
    struct fr_band  *band;
    int64_t          arena_bytes, arena_bound, new_bytes;
    int64_t          band_bytes;         /* more of the arena, for each thread, */
    int64_t          scratch_bytes;      /* and for launches, one after the other */
    void            *recorded;           /* the backend's (struct fr_recorder) */
    bool             is_unfused;         /* each node is a kernel of its own */
    bool             may_wait;           /* launches may still have to wait for a compiler: */
    struct fr_plan  *unfused;            /* this runs meanwhile, if code for its kernels is there; NULL: it is not made yet */
    int64_t          ps;                 /* of all steps */
    int              n_kernels;          /* dispatches */
    int              n_products;         /* matrix products */
    int              n_alike;
    struct fr_alike *alike;              /* [n_alike] what it is for, */
    int              n_moving;
    struct fr_move  *move;               /* [n_moving] as this is */
    uint32_t         recorded_in;        /* record.c: the last recording in which it ran, */
    int32_t          recorded_as;        /* and what of it is there */
    bool             running;
    bool             begun;              /* steps of the last run, which may have failed */
    uint32_t         n_captured;       /* that hold it */
    struct fr_layout **held;             /* references to the key's layouts if the graph has others */
    int              n_held;
    void            *room;               /* what these are in; fr_malloc'ed */
};

/* Who runs it. */
static inline const struct fr_backend *
fr_plan_by(const struct fr_plan *p)
{
    return fr_backend_of(p->device);
}

/* Who runs it: a word of base/ways.def; what kind of group it is. */
const char *fr_step_tier(const struct fr_plan *, const struct fr_step *);
const char *fr_group_kind(const struct fr_group *);
/* A plan for the graph, which it owns from here on, also on failure. It has no key. `unfused`: each node is to be a kernel of its
 * own. */
fr_status fr_plan_make(struct fr_graph *, bool unfused, struct fr_plan **out, struct fr_err *);
/* A plan with this key. `apart` as above: the plan does not keep the key's layouts. */
fr_status fr_plan_build(const struct fr_structure *, bool apart, struct fr_plan **out, struct fr_err *);
void      fr_plan_free(struct fr_plan *);
/* Bytes of temporaries that a run by so many threads has. */
int64_t   fr_plan_temporary_bytes(const struct fr_plan *, int n_threads);
/* ---- moving.c ---- */

/* Finds where the graph's windows may begin, in its arena, for a plan that is to serve as many runs as may be, and writes it into
 * the edges. Whatever it says holds just now. */
fr_status fr_moving_settle(struct fr_graph *, const struct fr_structure *, struct fr_move **out, struct fr_err *);
/* Whether the windows begin where they may. */
static inline bool
fr_moving_holds(const struct fr_move *m, const int64_t *moving, int n)
{
    for (int i = 0; i < n; i++)
        if (moving[i] != m[i].n + (m[i].with < 0 ? 0 : moving[m[i].with]))
            return false;
    return true;
}

enum fr_find { FR_FIND_MADE,             /* it is made if it is a new one */
               FR_FIND_NODE,             /* the same for a node of a graph that has no plan: nothing is expected to follow */
               FR_FIND_LATER,            /* where fr_eager_suits, it is made in the background; *out is NULL until it is there */
               FR_FIND_SOON };           /* the same for what will come again: the second time is often enough */
/* Of a key of n words. */
void      fr_key_hash(const uint64_t *, size_t n, uint64_t out[2]);
/* The plan for the gathered nodes, counted. It lives until another is built, at least. */
fr_status fr_plan_cache_find(struct fr_gathered *, enum fr_find, struct fr_plan **out, struct fr_err *);
/* The plan that was found last; NULL: it is no more. */
struct fr_plan *fr_plan_cache_last(void);

/* ---- unfused.c ---- */

/* The plan of what was gathered that is to run now: this one, of a device, or p->unfused. */
struct fr_plan *fr_plan_without_wait(struct fr_plan *, struct fr_gathered *);

/* ---- verify.c, for FR_ASSERT ---- */

/* Each step reads what was made for it, within its memory, and temporaries live while they are used: root r from step
 * from[r] to step to[r]. `room`: [2 * n_nodes]. */
bool      fr_plan_is_sound(const struct fr_plan *, const int32_t *from, const int32_t *to, int32_t *room);
/* Operands stay within the memory of their nodes, also of windows that begin as `moving` says; NULL: of others. */
bool      fr_plan_stays_within(const struct fr_plan *, const int64_t *moving);

/* ---- bands.c, band_run.c ---- */

/* Which steps run band by band, before memory is shared out: temporaries that only these see become BAND. `to`: the
 * last step that touches the memory of each node. */
fr_status fr_bands_find(struct fr_plan *, const int32_t *to, struct fr_arena *scratch, struct fr_err *);
/* The indices low[i] up to high[i] that band number t of an outer unit has of each item. False: not all that it needs of one that is
 * whole. */
bool      fr_band_ranges(const struct fr_band *, int64_t t, int64_t *low, int64_t *high);
/* Runs its steps, whose instances are bound. `scratch`: n_bytes for each of so many workers, as many as the pool had;
 * ns[k]: how long step first + k took, all threads together. */
fr_status fr_band_run(struct fr_plan *, const struct fr_band *, char *scratch, int n_workers, int64_t *ns,
                      struct fr_err *);

/* ---- planner.c ---- */

/* Has the thread begun; false: there is none. */
bool      fr_planner_start(void);
/* Another evaluation: the thread does not sleep while they go on. From one thread at a time. */
void      fr_planner_notice(void);
/* Whether the thread looks by itself for what there is to do, and nudges who has something to compile. */
bool      fr_planner_is_up(void);
struct fr_draft;
/* Has a plan made for what was gathered, on another thread; `older` as in fr_structure. NULL: memory is out, or there is no
 * thread. */
struct fr_draft *fr_planner_ask(struct fr_gathered *, const struct fr_move *older);
/* Whether it is done; then *out is the plan, or NULL if that failed, and the draft is no more. */
bool      fr_planner_done(struct fr_draft *, struct fr_plan **out);
/* Ends the thread; the next one who asks begins another. */
void      fr_planner_stop(void);

/* ---- eager.c ---- */

enum { FR_EAGER_NODES = 2048 };          /* at most; a plan for so many takes milliseconds */
/* Whether anything is. */
static inline bool
fr_eager_is_on(fr_device d)
{
    return fr_env.eager_elems > 0 && fr_backend_of(d)->runs_nodes;
}
/* Whether these are so few and so small that they are run node by node while they have no plan. */
bool      fr_eager_suits(const struct fr_gathered *);
/* How much memory these have at most where the host runs them node by node; 0: it does not. */
int64_t   fr_eager_bytes(const struct fr_gathered *);
/* Whether the node is pending alone, but for conversions of what it reduces, and so small that it is run without looking for
 * a plan: a plan would save nothing. */
bool      fr_eager_is_alone(fr_ref);
/* Computes a node whose arguments have been computed, or which is alone; *out: its memory, or NULL where that takes a plan. */
fr_status fr_eager_run(fr_ref, struct fr_buffer **out, struct fr_err *);

/* ---- lend.c ---- */

/* What is lent to a run by a backend with memory of its own: p->base of leaves on the host becomes where a copy is. */
struct fr_lent;
typedef fr_status fr_lend_fn(struct fr_plan *, const void *what, struct fr_lent *, struct fr_err *);
/* One leaf, of which so many bytes, from `first` on, are in memory; all those of these nodes. */
fr_status fr_lend(struct fr_plan *, struct fr_lent *, int node, int64_t first, int64_t n_bytes, struct fr_err *);
fr_status fr_lend_leaves(struct fr_plan *, const void *id, struct fr_lent *, struct fr_err *);
struct fr_inputs;
/* fr_plan_run by such a backend, over what is lent by the function; then what was written over is copied back, and p->base
 * is as before. Or chunk by chunk, where there is no memory for all of it. id: the nodes whose buffers its leaves have;
 * NULL: they are on the host. */
fr_status fr_plan_run_apart(struct fr_plan *, const struct fr_inputs *, const fr_ref *id, fr_lend_fn *,
                            const void *what, struct fr_err *);

/* ---- chunk_run.c ---- */

/* The same, chunk by chunk, with a backend that says what room it has. p->base of leaves is where they are: there, or on the
 * host. FR_ENOTSUP, without a message: it can not be. */
fr_status fr_plan_run_chunks(struct fr_plan *, const struct fr_inputs *, const bool *is_there, struct fr_err *);

/* ---- run.c ---- */

/* What changes from run to run of a plan, beside the memory of its leaves. */
struct fr_inputs {
    const struct fr_scalar_bits *scalar;
    const int64_t               *moving;
    const fr_ref                *id;     /* [n] what it was given, or else, if that is no more, */
    const uint32_t              *site;   /* [n] its sites; NULL: as when the plan was made */
    int                          n;
};

/* The site of node number i of what the plan is given. */
static inline uint32_t
fr_inputs_site(const struct fr_inputs *in, int i)
{
    return in->id ? fr_nodes[in->id[i]].site : in->site[i];
}
/* Runs it over the leaves' memory, which is in p->base, in this thread's turn. Results are in p->fresh, to be taken
 * or dropped; on failure nothing is there. */
fr_status fr_plan_run(struct fr_plan *, const struct fr_inputs *, struct fr_err *);
void      fr_plan_drop_fresh(struct fr_plan *);
/* Its steps, over the memory that is in p->base; they are not counted. */
fr_status fr_plan_run_steps(struct fr_plan *, const struct fr_inputs *, char *arena, int64_t n_temporary, struct fr_err *);

/* ---- known.c ---- */

/* Runs it on the side, for a backend without data, if it is small and the values of all its leaves are known; then those of its
 * results are, too. */
fr_status fr_known_run(struct fr_plan *, const struct fr_inputs *, int64_t n_temporary, bool *has_run, struct fr_err *);

/* ---- run.c, for others ---- */

/* The numbers of a launch. */
void      fr_step_bind_scalars(const struct fr_step *, const struct fr_inputs *);
/* Counts the way of one that has been run. */
void      fr_step_count_way(const struct fr_step *);

/* ---- eval.c ---- */

/* What the last evaluation worked on: lasts until the next begins. */
const struct fr_gathered *fr_eval_gathered(void);

#endif
