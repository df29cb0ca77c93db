/* runtime/chunks.h -- a plan whose data is larger than the memory of its backend, in chunks.
 * Private to chunks.c, which says what a chunk is, and chunk_run.c, which runs them. */
#ifndef FR_RUNTIME_CHUNKS_H
#define FR_RUNTIME_CHUNKS_H

#include "base/arena.h"
#include "runtime/plan.h"

/* What is known of the memory of a node, which is a root. */
struct fr_chunk_root {
    bool    is_touched, is_read, is_written;
    bool    is_there;        /* a leaf that has its memory there */
    bool    moves;           /* a chunk has some of it: unit u is, of its bytes, */
    int64_t pitch;           /* those from u * pitch + low up to u * pitch + high; if it does not move, */
    int64_t low, high;       /* those from low up to high are touched */
    bool    is_filled;       /* a step writes all of a unit, and nothing reads it */
    bool    may_stay;        /* a leaf that is only read: it need not move */
    int     once;            /* 1 + the step that writes it, all of it, in the first chunk alone; 0: there is none */
};

/* An instance of a step. */
struct fr_chunk_item {
    int     axis;            /* that is cut (fr_instance_dim; of a call the first one of its result, 0); -1: none is, */
    int64_t per;             /* and it runs in the first chunk; the indices of a unit */
};

struct fr_chunks {
    struct fr_arena        arena;   /* where all of this lies, but for itself */
    const struct fr_plan  *p;
    const int64_t         *moving;
    int64_t                n_units, units;   /* a chunk has so many of them, fewer the last one */
    struct fr_chunk_root  *root;    /* [n_nodes] */
    struct fr_chunk_item **item;    /* [n_steps][n_instances] */
};

/* The bytes of a root that so many units have. */
static inline int64_t
fr_chunk_bytes(const struct fr_chunk_root *r, int64_t units)
{
    return r->high - r->low + (r->moves ? (units - 1) * (r->pitch < 0 ? -r->pitch : r->pitch) : 0);
}

/* Where they begin, from unit `first` on. */
static inline int64_t
fr_chunk_first(const struct fr_chunk_root *r, int64_t first, int64_t units)
{
    return r->low + (r->moves ? (r->pitch < 0 ? first + units - 1 : first) * r->pitch : 0);
}

/* How many chunks of a root there is memory for: two of what is copied while another one is computed. */
static inline int
fr_chunk_slots(const struct fr_chunks *c, int node)
{
    return c->root[node].moves && c->p->place[node].kind != FR_PLACE_ARENA ? 2 : 1;
}

/* Whether operand k of a call, or its result, goes along with the first axis of that. */
bool      fr_chunk_cuts(const struct fr_call *, int k);
/* Bytes from one unit to the next of operand k of an instance; 0 where it is not cut. */
int64_t   fr_chunk_step(const struct fr_chunks *, int step, int instance, int k);
/* How the plan is cut, in so many bytes of memory; is_there[i]: the i-th leaf is there already. FR_ENOTSUP, without a
 * message: it can not be. Whatever is returned, the arena is to be cleared. */
fr_status fr_chunks_find(struct fr_chunks *, const struct fr_plan *, const int64_t *moving, const bool *is_there,
                         int64_t room, struct fr_err *);

#endif
