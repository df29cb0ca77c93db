/* runtime/storage.h -- storages and handles from the inside, and what else the files of runtime/ share about
 * tracing and evaluating (plans: plan.h).  Private to runtime/.
 *
 * Laziness must not be seen through memory. So a storage knows who else looks at its memory:
 *
 *   nobody    A store makes a new version, which may lie anywhere.
 *   a hold    An array reads what it was given and sees no later store: later versions lie elsewhere.
 *   looks     Arrays, buffers and capsules go on seeing the tensor: the storage stays at its address, and a store is
 *             computed on its line. If the other side may write, the memory is loud: operations that read it are
 *             computed on their line. A look ends with the array that looks; a bare address looks for ever.
 *   a loan    The caller of an accelerated function waits, so older looks are quiet and everything is lazy until the
 *             memory is given back (bind/accelerate/finish.c). Stores that fail or are interrupted are taken back.
 *
 * None of this costs an operation anything: it hangs on the one comparison of fr_guard, whose bound is 0 while any
 * memory is loud. */
#ifndef FR_RUNTIME_STORAGE_H
#define FR_RUNTIME_STORAGE_H

#include "ir/build.h"
#include "ir/node.h"
#include "runtime/tensor.h"

struct fr_storage {
    uint32_t          refs;        /* handles */
    fr_ref            node;        /* the current version; one reference, counted as held */
    struct fr_layout *layout;      /* of every version, whose reference it is; dense */
    fr_dtype          dtype;
    bool              dirty;       /* pinned, with stores that others do not see yet: on the dirty list */
    union {
        struct {
            bool      shared;      /* memory belongs to somebody else: stores must reach it */
            bool      looked_at;   /* somebody outside sees the memory: there are looks */
        };
        uint16_t      pinned;      /* one of the two */
    };
    uint32_t          counted;     /* fr_storages_count: by the last one, or another; so many */
    int64_t           n_bytes;
    struct fr_storage *next_dirty; /* of that list, which holds a reference; also links free storages, whose
                                      three flags and what follows are zero */
    uint32_t          looks[2];    /* foreign arrays, capsules, addresses that see the memory; */
    uint32_t          fresh[2];    /* those of them that came since `era` began. [1]: may write */
    uint32_t          n_loans;     /* calls that borrow it: older looks are quiet so long */
    uint32_t          era;         /* counts loans */
    struct fr_buffer *seen;        /* the memory, one reference, while there are looks */
    void             *object;      /* see fr_storage_object */
};

extern FR_HIDDEN struct fr_storage *fr_storages_free;      /* linked by next_dirty */

/* Moves the storage to another version (takes a reference on it). */
void      fr_storage_advance(struct fr_storage *, fr_ref node);
/* Whether somebody who does not wait for us looks at the memory: stores are computed at once. */
bool      fr_storage_is_watched(const struct fr_storage *);
/* Lets go of shared storages whose stores have all reached their memory; versions of the others, so many. */
void      fr_storages_settle(void);
int       fr_storages_dirty(fr_ref *nodes, int at_most);
/* Whether somebody who looks at it may write to it at any time. */
bool      fr_storage_is_loud(const struct fr_storage *);
/* Somebody looks at the version, which is a leaf, from now on; for fr_storage_unlook. */
uint32_t  fr_storage_look(struct fr_storage *, bool writes);
/* The end of fr_storage_lend. */
void      fr_storage_end_loan(struct fr_storage *);
/* Memory of others; `release(owner)` is called, by fr_release_foreign, when nothing reads it any more, from fr_foreign_own on.
 * NULL: memory is out. */
struct fr_buffer *fr_foreign_new(void *mem, size_t n_bytes);
void      fr_foreign_own(struct fr_buffer *, void (*release)(void *), void *owner);
/* A handle over a whole new storage whose version is `node` (whose layout is the storage's). */
fr_status fr_tensor_wrap(fr_ref node, struct fr_tensor *out, struct fr_err *);
/* A node that is dropped again unless somebody took a reference meanwhile. */
void      fr_node_drop_new(fr_ref id);
/* Releases foreign memory that nothing reads any more. That runs foreign code, which may trace and
 * evaluate: called where no slab pointer is held and every list is whole. */
void      fr_release_foreign(void);

/* ---- tensor.c */

static inline fr_device
fr_storage_device(const struct fr_storage *s)
{
    return fr_nodes[s->node].device;
}
/* FR_EVALUE: these tensors (NULL: numbers) are on different devices; `what` is to be done with them. */
fr_status fr_trace_together(const char *what, const struct fr_tensor *const *, int n, struct fr_err *);
/* A leaf over `buffer` (its reference moves in, also on failure) that belongs on a device, as a new storage of this layout. */
fr_status fr_tensor_from_buffer(struct fr_buffer *buffer, fr_device, fr_dtype, struct fr_layout *, struct fr_tensor *out, struct fr_err *);

/* ---- trace.c: what tracing functions are made of. A new node has no reference yet */

void      fr_trace_init(void);   /* once, before anything is traced */
/* A node with this layout, whose reference moves in, also on failure. */
fr_ref    fr_trace_node(fr_op, fr_dtype, struct fr_layout *, struct fr_err *);
/* The node of one number. */
fr_ref    fr_trace_scalar(const uint64_t bits[2], fr_dtype, struct fr_err *);
/* `from` converted to a dtype. The layout, which is the result's, moves in as above. */
fr_ref    fr_trace_convert(fr_ref from, fr_dtype, struct fr_layout *, struct fr_err *);
/* What to read for a handle in this dtype: its node, or a new one that converts it; `part_of`: for which operation, if that
 * is one call with it, or FR_OP_cast. */
fr_status fr_trace_arg(const struct fr_tensor *, fr_dtype want, fr_op part_of, fr_ref *out, struct fr_err *);
/* fr_build_map, but what was asked for often is at hand. */
fr_status fr_trace_layout(struct fr_layout *const *, int n, const char *what, struct fr_layout **out,
                          struct fr_err *);
/* The dtype in which an element-wise operation computes. */
fr_status fr_trace_resolve(fr_op, const struct fr_arg *args, int n_args, fr_dtype *compute,
                           struct fr_err *);
/* The operation over these arguments in dtype `compute`; its layout is `into` unless that is NULL. */
fr_status fr_trace_map_node(fr_op, const struct fr_arg *args, int n_args, fr_dtype compute,
                            struct fr_layout *into, fr_ref *out, struct fr_err *);
/* `seq` of the last store that was traced. */
extern FR_HIDDEN uint32_t fr_trace_last_store;
/* Whether any store was traced since this node was: what it reads may since hold something else. */
static inline bool
fr_trace_stored_since(fr_ref id)
{
    return (int32_t)(fr_trace_last_store - fr_nodes[id].seq) > 0;
}
/* Wraps a new node and applies the guards of bounded laziness. */
fr_status fr_trace_finish(fr_ref, struct fr_tensor *out, struct fr_err *);

/* ---- values.c */

/* Gives the storage, whose version is computed, memory that nobody else reads. */
fr_status fr_storage_move_to_copy(struct fr_storage *, struct fr_err *err);

/* ---- component.c */

static inline bool
fr_component_is(const struct fr_tensor *t)
{
    return t->dtype != t->storage->dtype;
}
/* The complex numbers of which the component's window shows the real parts, or the imaginary ones. */
fr_status fr_component_numbers(const struct fr_tensor *, struct fr_tensor *out, bool *imag, struct fr_err *);
/* The node to read for what the handle shows: the version itself, or a new one, nearly always a VIEW of it. */
fr_status fr_tensor_node(const struct fr_tensor *, fr_ref *out, struct fr_err *);

/* ---- call.c */

/* Whether an array of indices can be used as it is: all of them below n, and from 0 on or, unless they are i64, from -n. */
bool      fr_index_fits(fr_dtype, const void *index, int64_t n_elems, int64_t n);
/* What this leaf holds will be seen by somebody who may change it. */
void      fr_index_forget(fr_ref node);

/* ---- run.c, eval.c */

/* What fr_stats_get says of evaluations. */
extern FR_HIDDEN struct fr_stats fr_counted;
fr_status fr_eval_nodes(const fr_ref *roots, int n, struct fr_err *);
/* The same for fr_tensor_eval_shown, and for fr_tensor_eval_again. */
fr_status fr_eval_shown(const fr_ref *roots, int n, struct fr_err *);
fr_status fr_eval_again(const fr_ref *roots, int n, struct fr_err *);
/* The same; when that fails, each by itself, so that one failure does not keep the others. */
fr_status fr_eval_each(const fr_ref *roots, int n, struct fr_err *);
/* Those of the nodes that are computed on a device come first; returns how many they are. */
int       fr_eval_of_device(fr_ref *nodes, int n, fr_device);
/* The storage's version, and all held nodes that read it. */
fr_status fr_eval_readers(const struct fr_storage *, struct fr_err *);

/* ---- home.c */

/* Memory of a backend, to be written by it; and of the host. NULL: memory is out. */
struct fr_buffer *fr_buffer_new(const struct fr_backend *, size_t n_bytes, struct fr_err *);
struct fr_buffer *fr_buffer_new_host(size_t n_bytes, struct fr_err *);
/* How many buffers are in memory of another than the host. */
extern FR_HIDDEN atomic_int fr_buffers_elsewhere;
/* Has it in the host's memory from here on; _now: in this thread's turn. */
fr_status fr_buffer_bring_home(struct fr_buffer *, struct fr_err *);
fr_status fr_buffer_bring_now(struct fr_buffer *, struct fr_err *);
/* Has it in the memory of a backend from here on, in this thread's turn; where somebody looks at it on the host at any time, it
 * stays there. */
fr_status fr_buffer_send(struct fr_buffer *, const struct fr_backend *, struct fr_err *);
/* The memory of others is there, and stays. */
void      fr_buffer_is_there(struct fr_buffer *, const struct fr_backend *);
/* Has it there for as long as others look at it, who get its address. FR_ENOTSUP: others see it on the host. */
fr_status fr_buffer_keep_away(struct fr_buffer *, const struct fr_backend *, struct fr_err *);
/* Nobody looks at it there any more. */
void      fr_buffer_come_back(struct fr_buffer *);
/* For whoever frees it: gives back its memory there, whatever is in it. */
void      fr_buffer_leave(struct fr_buffer *);
/* Has it in the memory of a backend without data, with its values, until somebody stores over them there; the host's stay as they
 * are, and come back with fr_buffer_leave. */
fr_status fr_buffer_shadow(struct fr_buffer *, const struct fr_backend *by, struct fr_err *);
static inline fr_status
fr_buffer_bring(struct fr_buffer *b, struct fr_err *err)
{
    return FR_LIKELY(!b->home) ? FR_OK : fr_buffer_bring_home(b, err);
}
/* A few bytes of it, wherever it is. */
bool      fr_buffer_read(const struct fr_buffer *, int64_t offset, size_t n_bytes, void *out);

/* ---- guard.c: bounded laziness */

/* Called after tracing a node, for which the caller has a reference: evaluates what must not stay pending
 * (bounded laziness, loud memory). stored_to: the storage whose new version it is, or NULL. */
fr_status fr_guard(fr_ref id, const struct fr_storage *stored_to, struct fr_err *);
/* Called before a matrix product of so many multiplications is traced: evaluates when much is pending. begins:
 * it looks like the first one of a step, over data and parameters. */
fr_status fr_guard_products(int64_t work, bool begins, struct fr_err *);
enum { FR_MAX_HEIGHT = 400 };       /* nodes on the longest way down; a higher one is computed at once */
/* With this many computing nodes there is something to look after: bounds are reached, or memory is loud. */
extern FR_HIDDEN uint32_t fr_pending_max;
/* True if fr_guard will do nothing for a new handle over one more node of this height. */
static inline bool
fr_guard_rests(int height)
{
    return height <= FR_MAX_HEIGHT && fr_nodes_pending + 1 < fr_pending_max;
}
/* The bound where loud memory is nothing to look after. */
extern FR_HIDDEN uint32_t fr_pending_max_loud;
static inline bool
fr_node_is_loud(const struct fr_node *n)
{
    return n->op == FR_OP_leaf && n->v.buffer->loud;
}
/* The same as fr_guard_rests also where memory is loud: for a node that reads these two, and no windows of them. */
static inline bool
fr_guard_lets(int height, const struct fr_node *a, const struct fr_node *b)
{
    return height <= FR_MAX_HEIGHT && fr_nodes_pending + 1 < fr_pending_max_loud && !fr_node_is_loud(a) &&
           !fr_node_is_loud(b);
}
/* Storages with looks that are not quiet: one more or less. */
extern FR_HIDDEN int fr_n_loud;
static inline void
fr_guard_loud(int change)
{
    FR_ASSERT(fr_n_loud + change >= 0); /* each look that ends has begun */
    fr_n_loud += change;
    fr_pending_max = fr_n_loud ? 0 : fr_pending_max_loud;
}
/* Counts one that belongs to the device "meta" since it was made. */
void      fr_storage_count(struct fr_storage *);
/* Whether every new handle comes by fr_guard: no node is made the quick way. */
void      fr_guard_all(bool on);
/* So many bytes were brought in by fr_tensor_from_*. */
void      fr_guard_fresh(size_t n_bytes);
/* An evaluation begins: what was brought in and traced so far does not count any more. */
void      fr_guard_restart(void);
extern uint64_t fr_n_guard_forces;   /* counted in fr_stats */

/* ---- lock.c */

/* Waits, without the GIL, until no other thread evaluates, and keeps others out until fr_eval_unlock. FR_EINTR;
 * FR_EBUG: this thread is in an evaluation already. */
fr_status fr_eval_lock(struct fr_err *);
void      fr_eval_unlock(void);
/* Whether no thread evaluates: what is in memory stays so while the GIL is held. */
bool      fr_eval_is_unlocked(void);
fr_status fr_eval_lock_init(struct fr_err *);

#endif
