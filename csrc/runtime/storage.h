/* runtime/storage.h -- storages and handles from the inside.  Private to runtime/. */
#ifndef FR_RUNTIME_STORAGE_H
#define FR_RUNTIME_STORAGE_H

#include "ir/node.h"
#include "runtime/tensor.h"

struct fr_storage {
    uint32_t          refs;        /* handles */
    fr_ref            node;        /* the current version; one reference, counted as held */
    struct fr_layout *layout;      /* of every version, whose reference it is; dense */
    fr_dtype          dtype;
    bool              dirty;       /* shared, with stores not yet computed: on the dirty list */
    union {
        struct {
            bool      shared;      /* memory belongs to somebody else: stores must reach it */
            bool      exported;    /* somebody may look at the memory at any time */
        };
        uint16_t      pinned;      /* one of the two */
    };
    struct fr_storage *next_dirty; /* of that list, which holds a reference; also links free storages, whose
                                      three flags are false */
};

extern FR_HIDDEN struct fr_storage *fr_storages_free;      /* linked by next_dirty */

/* A new storage with `node` as its version; takes a reference on it. NULL: no memory. */
struct fr_storage *fr_storage_new(fr_ref node);
/* Moves the storage to another version (takes a reference on it). */
void      fr_storage_advance(struct fr_storage *, fr_ref node);
/* Lets go of shared storages whose stores have all reached their memory. */
void      fr_storages_settle(void);
/* The node to read for what the handle shows: the version itself, or a new VIEW node of it. */
fr_status fr_tensor_node(const struct fr_tensor *, fr_ref *out, struct fr_err *);
/* A handle over a whole new storage whose version is `node` (whose layout is the storage's). */
fr_status fr_tensor_wrap(fr_ref node, struct fr_tensor *out, struct fr_err *);
/* A node that is dropped again unless somebody took a reference meanwhile. */
void      fr_node_drop_new(fr_ref id);
fr_status fr_no_memory(struct fr_err *, const char *what);
/* Called after tracing: evaluates what must not stay pending (bounded laziness, exported memory). */
fr_status fr_guard(const struct fr_tensor *, struct fr_err *);
/* Called before a matrix product of so many multiplications is traced: evaluates when much is pending. begins:
 * it looks like the first one of a step, over data and parameters. */
fr_status fr_guard_products(int64_t work, bool begins, struct fr_err *);
enum { FR_MAX_HEIGHT = 400 };       /* nodes on the longest way down; a higher one is computed at once */
extern FR_HIDDEN uint32_t fr_pending_max;     /* more computing nodes than these, and all that is held is computed */
/* True if fr_guard will do nothing for a new handle over one more node of this height. */
static inline bool
fr_guard_rests(int height)
{
    return height <= FR_MAX_HEIGHT && fr_nodes_pending + 1 < fr_pending_max;
}

/* runtime/eval.c */
void      fr_trace_init(void);
fr_status fr_eval_nodes(const fr_ref *roots, int n, struct fr_err *);
fr_status fr_eval_all(struct fr_err *);
struct fr_buffer *fr_buffer_new(size_t n_bytes, struct fr_err *);   /* from the pool */
extern uint64_t fr_n_guard_forces;
void      fr_fresh_add(size_t n_bytes);   /* brought in by fr_tensor_from_* */

#endif
