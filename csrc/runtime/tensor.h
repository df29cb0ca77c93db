/* runtime/tensor.h -- handles and tracing: everything that bind/ needs of the engine.
 *
 * A handle is a window (layout and offset) over a storage; a storage has a current version, which is
 * a node of the graph. Tracing an operation makes a node and a new handle; nothing is computed
 * until fr_tensor_eval. All of this runs under the GIL; fr_tensor_eval releases it while kernels run.
 *
 * Errors of shape and dtype are found here, when the operation is traced, as NumPy's exceptions. */
#ifndef FR_RUNTIME_TENSOR_H
#define FR_RUNTIME_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "core/device.h"
#include "core/dtype.h"
#include "core/layout.h"
#include "core/number.h"
#include "ir/op.h"

struct fr_storage;

struct fr_tensor {                   /* embedded in the Python object */
    struct fr_storage *storage;      /* one reference; NULL: nothing here */
    struct fr_layout  *layout;       /* one reference */
    int64_t            offset;       /* elements from the storage's first element; of a component of a complex
                                        storage, where the dtype is that component's, components */
    union {
        struct {
            fr_dtype   dtype;
            bool       whole;        /* the window is the whole storage in its own layout */
        };
        uint16_t       kind;         /* the two in one */
    };
    bool               readonly;
};

struct fr_arg {                      /* exactly one of the two */
    const struct fr_tensor *t;
    struct fr_number        n;       /* when t is NULL */
};

/* Where the operation being traced stands in the user's code: an id that bind gives and explains.
 * Set by bind before it calls a tracing function. */
extern FR_HIDDEN uint32_t fr_trace_site;
/* Whether operations are evaluated as they are traced, because the user's state makes more of what they raise than a
 * warning. Changed by fr_trace_set_at_once. */
extern FR_HIDDEN bool fr_trace_at_once;
void      fr_trace_set_at_once(bool);

/* ---- tracing. On success *out is a new handle that the caller clears; on failure it is untouched */

/* An element-by-element operation, its arguments broadcast and promoted as NumPy does. */
fr_status fr_trace_map(fr_op, const struct fr_arg *args, int n_args, struct fr_tensor *out,
                       struct fr_err *);
/* The same, into memory of this layout, whose dims are the result's. */
fr_status fr_trace_map_like(fr_op, const struct fr_arg *args, int n_args, struct fr_layout *layout,
                            struct fr_tensor *out, struct fr_err *);
enum { FR_REUSED_BYTES = 256 << 10 };  /* NumPy computes into temporaries of so many bytes and more */
/* The same for two whole arrays of one dtype, which most operations of most programs are. False: this is no
 * such case, or there is something to be said about it; nothing has happened and fr_trace_map will do. */
bool      fr_trace_map_same(size_t op, const struct fr_tensor *a, const struct fr_tensor *b,
                            struct fr_tensor *out);
/* The same for such an array of f32 or f64 beside a Python number, which `weak` says the kind of ('f', or 'i' for an
 * int that a double holds); `first`: the number is the first of the two. */
bool      fr_trace_map_number(size_t op, const struct fr_tensor *, double number, char weak, bool first,
                              struct fr_tensor *out);
/* Adds to the site of what one of these two has just traced. */
void      fr_trace_add_to_site(const struct fr_tensor *, uint32_t bits);
/* The same with dtype= given: computes in that loop (FR_EUFUNC if there is none; FR_ETYPE when inputs do not
 * cast to it same-kind). */
fr_status fr_trace_map_dtype(fr_op, const struct fr_arg *args, int n_args, fr_dtype dtype,
                             struct fr_tensor *out, struct fr_err *);
/* astype; a copy when the dtype is the same. order 'C', 'K' (as NumPy's copies) or 'I' (as NumPy's iterator
 * walks: where broadcast axes stand in the way, not the same as 'K'). */
fr_status fr_trace_cast(const struct fr_tensor *, fr_dtype, char order, struct fr_tensor *out,
                        struct fr_err *);
/* axes: bit k set reduces axis k (of the tensor's ndim); keepdims leaves size 1. dtype: FR_N_DTYPES for
 * NumPy's default. ddof is for var and std only. FR_EVALUE for max, min, argmax of nothing. */
fr_status fr_trace_reduce(fr_op, const struct fr_tensor *, uint32_t axes, bool keepdims,
                          fr_dtype dtype, struct fr_tensor *out, struct fr_err *);
fr_status fr_trace_mean(const struct fr_tensor *, uint32_t axes, bool keepdims, fr_dtype dtype,
                        struct fr_tensor *out, struct fr_err *);
fr_status fr_trace_var(const struct fr_tensor *, uint32_t axes, bool keepdims, fr_dtype dtype,
                       double ddof, bool take_sqrt, struct fr_tensor *out, struct fr_err *);
fr_status fr_trace_scan(fr_op, const struct fr_tensor *, int axis, fr_dtype dtype,
                        struct fr_tensor *out, struct fr_err *);
/* a @ b with the shape, dtype and layout of numpy.matmul, or in the layout `like`, which has that shape; added up in an
 * fr_product_order. FR_EVALUE: the shapes do not fit. */
fr_status fr_trace_product(const struct fr_tensor *a, const struct fr_tensor *b, struct fr_layout *like, int order,
                           struct fr_tensor *out, struct fr_err *);
/* t ** exponent in f32 or f64, of a tensor without axes that stands for a NumPy number. */
fr_status fr_trace_number_power(const struct fr_tensor *t, fr_dtype, float exponent, struct fr_tensor *out, struct fr_err *);
/* The slices t[..., index[i], ...] along `axis`; the index's axes take the axis' place. order 'C', or 'K' as
 * NumPy lays t[index] out. The index is looked at now, and computed if need be: FR_EINDEX when one is out of
 * bounds. FR_ENOTSUP: not a whole number, or NumPy lays the result out in a way of its own. */
fr_status fr_trace_take(const struct fr_tensor *t, const struct fr_tensor *index, int axis, char order,
                        struct fr_tensor *out, struct fr_err *);
/* One index array for several axes that follow one another: index[0][i] * n1 * ... + index[1][i] * ... + ...
 * for axes of sizes dims[0 .. n-1], the first of which is axis `first` of the array (for messages). The index
 * arrays broadcast. Errors as above. */
fr_status fr_trace_joint_index(const struct fr_tensor *const *index, const int64_t *dims, int n, int first,
                               struct fr_tensor *out, struct fr_err *);
/* What a mask of bools, of t's first axes, chooses: as t[mask], t[mask] = value; and t[..., index, ...] = value for an
 * index along `axis` as fr_trace_joint_index gives it, the last of several values for one place wins. Everything is
 * computed now, and the value has t's dtype. FR_ENOTSUP, and nothing was written: shapes that do not fit, or a layout
 * that is left to NumPy. fr_choose_scatter wants handles of the caller's own. Where its op is not FR_OP_store, what is
 * there and the value are joined by it, one index after the other; *raised: FR_FPE_* of that. */
fr_status fr_choose_get(const struct fr_tensor *t, const struct fr_tensor *mask, struct fr_tensor *out,
                        struct fr_err *);
fr_status fr_choose_put(const struct fr_tensor *t, const struct fr_tensor *mask, const struct fr_tensor *value,
                        struct fr_err *);
fr_status fr_choose_scatter(const struct fr_tensor *t, const struct fr_tensor *index, int axis,
                            const struct fr_tensor *value, fr_op op, unsigned *raised, struct fr_err *);
/* Where a mask with axes is true: a row of i64 for each such element, with its index along each axis. */
fr_status fr_choose_places(const struct fr_tensor *mask, struct fr_tensor *out, struct fr_err *);
/* New arrays. fill: every element the number, converted to dtype. iota: start + step * i along `axis`. */
fr_status fr_trace_fill(int ndim, const int64_t *dims, fr_dtype, const struct fr_number *,
                        struct fr_tensor *out, struct fr_err *);
fr_status fr_trace_iota(int ndim, const int64_t *dims, int axis, fr_dtype,
                        struct fr_tensor *out, struct fr_err *);
fr_status fr_trace_empty(int ndim, const int64_t *dims, const int64_t *strides, fr_dtype,
                         struct fr_tensor *out, struct fr_err *);

/* ---- windows: no computation. `strides` and `offset` count elements relative to the window given */
fr_status fr_tensor_window(const struct fr_tensor *, int ndim, const int64_t *dims,
                           const int64_t *strides, int64_t offset, struct fr_tensor *out,
                           struct fr_err *);
/* A view when NumPy would give one, else a C-ordered copy. dims has no -1. */
fr_status fr_tensor_reshape(const struct fr_tensor *, int ndim, const int64_t *dims,
                            struct fr_tensor *out, struct fr_err *);
fr_status fr_tensor_broadcast(const struct fr_tensor *, int ndim, const int64_t *dims,
                              struct fr_tensor *out, struct fr_err *);

/* The handle becomes one of a storage of its own, which shows what the other one does now. */
fr_status fr_tensor_set_apart(struct fr_tensor *, struct fr_err *);
/* The real or the imaginary parts of complex numbers, as a window of the same memory. */
fr_status fr_tensor_component(const struct fr_tensor *, bool imag, struct fr_tensor *out, struct fr_err *);
/* Whether the handle is such a window. */
bool      fr_tensor_is_component(const struct fr_tensor *);
/* Whether a window of the handle may have these strides: a component's do not lead from one to the other. */
bool      fr_tensor_may_walk(const struct fr_tensor *, int ndim, const int64_t *dims, const int64_t *strides);
/* Whether two windows have an element or a part of one in common. */
bool      fr_tensors_meet(const struct fr_tensor *, const struct fr_tensor *);

/* dst[...] = value: broadcast and cast (any cast, as NumPy's setitem). Every window of dst's storage
 * sees it. Overlap of value's inputs with dst is handled. FR_EVALUE: read-only, or shapes differ. */
fr_status fr_trace_store(const struct fr_tensor *dst, const struct fr_arg *value, struct fr_err *);
/* dst = op(args) in place (x += y, out=dst): FR_EUFUNC unless the result casts same-kind to dst. */
fr_status fr_trace_map_into(fr_op, const struct fr_arg *args, int n_args,
                            const struct fr_tensor *dst, struct fr_err *);

/* ---- values */

/* Computes what the handles show. FR_ENOMEM, FR_EINTR: the handles stay pending and can be evaluated again. */
fr_status fr_tensor_eval(const struct fr_tensor *const *, int n, struct fr_err *);
/* The same for what goes to the host then, where it is looked at. */
fr_status fr_tensor_eval_shown(const struct fr_tensor *const *, int n, struct fr_err *);
/* The same for what the caller will ask for again and again, and can by the plan in less time than it takes to trace it:
 * a single small operation gets a plan, too, and any graph has it the second time. */
fr_status fr_tensor_eval_again(const struct fr_tensor *const *, int n, struct fr_err *);
/* Evaluates, then: address of the window's first element. Valid while a reference to the storage is held
 * and nothing is stored through frit. */
fr_status fr_tensor_data(const struct fr_tensor *, void **data, struct fr_err *);
/* Evaluates, then: the memory of a tensor that is all of it, and all that sees it: a reference. NULL without an error: it is
 * not, or has no element. What is done with the handle afterwards is none of the memory's. */
struct fr_buffer *fr_tensor_take(const struct fr_tensor *, fr_status *, struct fr_err *);
/* The element of a tensor that has one, where it takes no more than a few operations on single elements of memory: they
 * are done aside, and the tensor stays as pending as it was. False: fr_tensor_data will do. */
bool      fr_tensor_peek(const struct fr_tensor *, uint64_t out[2]);
/* As fr_tensor_data, and somebody outside looks at the memory from now on, until fr_storage_unlook is
 * called with *look. So it stays the storage's memory, and because the other side may read at any
 * time, stores into it are computed at once; if it may write, too, so are operations that read it. For
 * the buffer protocol, DLPack, np.asarray. A look that never ends pins the memory for good. */
fr_status fr_tensor_export(const struct fr_tensor *, bool writes, void **data, uint32_t *look,
                           struct fr_err *);
void      fr_storage_unlook(struct fr_storage *, uint32_t look);
/* Between lend and reclaim, whoever looked at the memory before waits for us (the caller of an accelerated
 * function), so it is lazy like any other; fr_runtime_flush lets stores reach it. Reclaiming computes
 * what is stored into it and what reads it, or (compute false, or that failed) takes back the stores. */
void      fr_storage_lend(struct fr_storage *);
fr_status fr_storage_reclaim(struct fr_storage *, bool compute, struct fr_err *);
/* Before that: what is pending and reads the memory reads a copy from here on, so that nobody has to wait for it. Does nothing
 * where there is no memory for one, or something is stored into it. */
void      fr_storage_copy_for_readers(struct fr_storage *);
/* Whether a lent storage over foreign memory is as it was made: one handle, nothing to compute, and nobody but
 * the owner of the memory looks at it. Then it can be used again over other memory of the same size. */
bool      fr_storage_is_idle(const struct fr_storage *);
void      fr_storage_exchange(struct fr_storage *, void *memory);
bool      fr_tensor_is_pending(const struct fr_tensor *);
/* How many operations are to be done before it has its values, and the bytes of all that these give, each by itself: none is
 * done. FR_ENOMEM */
fr_status fr_tensor_waits_for(const struct fr_tensor *, int64_t *n_nodes, int64_t *n_bytes, struct fr_err *);
/* The integers that the elements are, or are just converted from without becoming infinite; else the tensor's dtype. */
fr_dtype  fr_tensor_whole_numbers(const struct fr_tensor *);
bool      fr_tensor_is_alone(const struct fr_tensor *);  /* a whole array that no other handle and nobody else sees */
bool      fr_tensor_has_storage_alone(const struct fr_tensor *); /* no other handle and nobody else sees its storage */
/* Whether it is no view as far as is known: what reshapes itself, or is made as another shape of something new, is none;
 * `object`: whose handle it is. */
bool      fr_tensor_owns(const struct fr_tensor *, const void *object);
/* The same of the tensor's memory on its device, by its address there: it stays there. FR_ENOTSUP: others see it on the host. And
 * whether such a look goes on: then the host has but copies, of which fr_tensor_data makes one. */
fr_status fr_tensor_export_there(const struct fr_tensor *, bool writes, void **data, uint32_t *look, struct fr_err *);
bool      fr_tensor_is_away(const struct fr_tensor *);
/* The memory that fr_tensor_data showed stays as it is while somebody reads it: no store lands
 * in it and nothing else takes its place. */
uint32_t  fr_tensor_hold(const struct fr_tensor *);
void      fr_tensor_unhold(uint32_t hold);

/* A handle over memory that somebody else owns; `release(owner)` is called when nothing reads the memory
 * any more, never if making the handle fails. Stores reach the memory at fr_runtime_flush at the latest.
 * Strides in bytes must be multiples of the item size (FR_EVALUE). device: in whose memory it is, ANY: the host's. from_copy takes
 * the values over. */
fr_status fr_tensor_from_memory(void *data, fr_device, fr_dtype, int ndim, const int64_t *dims,
                                const int64_t *byte_strides, bool readonly,
                                void (*release)(void *owner), void *owner, struct fr_tensor *out,
                                struct fr_err *);
fr_status fr_tensor_from_copy(const void *data, fr_dtype, int ndim, const int64_t *dims,
                              const int64_t *byte_strides, struct fr_tensor *out, struct fr_err *);

void      fr_tensor_copy(const struct fr_tensor *, struct fr_tensor *out);   /* another reference */
void      fr_storage_leave(struct fr_storage *, struct fr_layout *);   /* drops what a handle refers to */
static inline void
fr_tensor_clear(struct fr_tensor *t)            /* NULL storage is fine */
{
    struct fr_storage *s = t->storage;

    if (s) {
        t->storage = NULL;
        fr_storage_leave(s, t->layout);
    }
}
/* What bind has put there: the object that others are views of, while it lives. */
void     *fr_storage_object(const struct fr_storage *);
void      fr_storage_set_object(struct fr_storage *, void *);
/* A handle over all of the storage. */
void      fr_storage_whole(struct fr_storage *, struct fr_tensor *out);
/* Where it is computed, or belongs. (On the host: what belongs anywhere.) */
fr_device fr_tensor_device(const struct fr_tensor *);
/* Where it is, if it is AUTO and has been computed; else the same. */
fr_device fr_tensor_place(const struct fr_tensor *);
/* Whether that is anywhere: memory of NumPy's; whether others see it, so that it has to stay there. */
bool      fr_tensor_is_anywhere(const struct fr_tensor *);
bool      fr_tensor_is_shared(const struct fr_tensor *);
/* What belongs anywhere, and is nobody else's memory, belongs to a device from here on; where it cannot, false. */
bool      fr_tensor_settle(const struct fr_tensor *, fr_device);
/* What has just been traced of no operands is computed wherever it is wanted. */
void      fr_tensor_set_anywhere(const struct fr_tensor *);
/* A new handle of the same values on a device: the same window if it is there, else a copy, computed now. */
fr_status fr_tensor_to_device(const struct fr_tensor *, fr_device, struct fr_tensor *out, struct fr_err *);
/* The owner of the memory has handed it over (fr_tensor_from_memory): nobody looks at it but through
 * handles, so stores into it need not reach it. */
void      fr_storage_claim(struct fr_storage *);
/* True while somebody outside may look at the memory at any time. */
bool      fr_storage_pinned(const struct fr_storage *);
/* Evaluates every pending store into pinned storages: before control goes to foreign code. */
fr_status fr_runtime_flush(struct fr_err *);
/* Evaluates everything that Python holds. What fails stays pending, and the rest is computed all the same. */
fr_status fr_eval_all(struct fr_err *);

/* ---- captured evaluations (captured.c): an evaluation that is made again over other memory, without tracing */

struct fr_captured;
/* How often values were computed or shown so far. What was traced while it stood still depends on no value, only on
 * operations, layouts and numbers. */
extern FR_HIDDEN uint64_t fr_looks_taken;
/* How often an array was looked at and then used as the index of a take: not counted above, for that is repeated. */
extern FR_HIDDEN uint64_t fr_takes_plain;
struct fr_reach {              /* an array: its first element, and between which addresses all of them lie */
    char    *first, *low, *high;
    fr_dtype dtype;
};
/* The evaluation that has just ended, if it computed exactly the `results`, in memory of their own, and read and wrote
 * no other memory than that of the arrays `args`, which somebody holds. Sets writes[n_args]:
 * whose memory it wrote. n_takes: of fr_takes_plain. NULL: it did something else, or memory is out. */
struct fr_captured *fr_capture(const struct fr_reach *args, int n_args, bool *writes,
                               const struct fr_tensor *const *results, int n_results, uint64_t n_takes);
/* Whether all numbers in memory of the arguments that are indices of takes can be such, [n_args] as below; or fr_replay
 * will tell, by FR_EINDEX, for nothing else is written than results. */
bool      fr_captured_fits(const struct fr_captured *, char *const *memory);
void      fr_captured_free(struct fr_captured *);
/* FR_EASKED: a warning may be due, and nothing was written: the call is to be made the long way.
 * The same over other memory: [n_args] addresses of the first element of what lies like the arguments did; what is
 * written is nobody else's. Makes [n_results] new handles, computed, which the caller clears; none on failure. */
fr_status fr_replay(struct fr_captured *, char *const *memory, struct fr_tensor *results, struct fr_err *);
/* Kernels that it runs. */
int       fr_captured_kernels(const struct fr_captured *);

/* ---- hooks that bind fills in: the engine below never sees Python */
struct fr_judged;
struct fr_hooks {
    void *(*release_gil)(void);          /* PyEval_SaveThread */
    void  (*take_gil)(void *);
    bool  (*interrupted)(void);          /* takes the GIL itself; true when a signal is pending */
    void  (*storage_died)(struct fr_storage *);  /* the last handle of a storage over memory of others
                                            is gone; the memory may be read until its release() */
    /* What of this NumPy warns about; false: nothing. Under the GIL, in the turn of the evaluation. */
    bool  (*judge)(const struct fr_judged *);
    /* Says what was found, after the turn: FR_ERAISED with an exception set. */
    fr_status (*speak)(void);
    /* Warns that imaginary parts are discarded by what is being traced. */
    fr_status (*discards)(void);
    /* Warns that a number is too large for the dtype of what is being traced. */
    fr_status (*overflows)(void);
};
extern struct fr_hooks fr_hooks;

struct fr_stats {
    uint64_t n_kernels;        /* dispatches run */
    uint64_t n_evals, n_nodes, n_forced_by_guard;
    uint64_t bytes_read, bytes_written;        /* by kernels, from operand sizes */
    uint64_t n_compiled, n_disk_hits, n_pending_compiles;
    uint64_t pending_nodes;
    uint64_t n_strange;        /* nodes, with their leaves, of graphs for which no plan was known */
    uint64_t n_judged;         /* evaluations whose flags were asked about: done again by NumPy */
    uint64_t peak_planned_bytes;               /* highest arena + outputs of one plan */
};
void      fr_stats_get(struct fr_stats *);
uint64_t  fr_stats_kernels(void);       /* some of them, sooner */
uint64_t  fr_stats_evals(void);
uint64_t  fr_stats_strange(void);
void      fr_stats_reset(void);

/* Arrays that have been brought in so far somebody keeps anyway: however large they are, what reads them may stay pending. */
void      fr_guard_kept(void);

/* ---- storage.c: what NumPy would have ---- */

/* From here on until the end, the bytes of arrays without data that handles show are counted: those of NumPy's results and
 * temporaries. The most of them. */
void      fr_storages_count(void);
int64_t   fr_storages_counted(void);

/* ---- known.c: values of arrays on the device "meta" ---- */

/* Whether all that follows from known values is computed, and not only what is small. */
extern FR_HIDDEN bool fr_known_all;
/* Whether they are known of a tensor's whole storage, which is computed as far as can be. */
fr_status fr_known_is(const struct fr_tensor *, bool *yes, struct fr_err *);
/* If they are not known: each element of it is taken to be this one from here on. */
fr_status fr_known_assume(const struct fr_tensor *, const void *element, struct fr_err *);

fr_status fr_runtime_init(struct fr_err *);
void      fr_runtime_stop(void);
/* Whether the last evaluation had a plan, and ran that, neither node by node nor in kernels that serve until there is code for
 * its own. */
bool      fr_eval_had_plan(void);
/* Waits until the plans that were asked for are made (planner.c), without the GIL; false: the time is over. */
bool      fr_planner_wait(double timeout_s);
/* Around a fork, in both processes: no evaluation is half done in the child. Waits without the GIL. */
void      fr_runtime_before_fork(void);
void      fr_runtime_after_fork(void);

#endif
