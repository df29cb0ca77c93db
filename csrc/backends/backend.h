/* backends/backend.h -- what runtime/ knows of whatever runs kernels: a struct of functions.
 *
 * A backend makes kernels of nests and runs them over memory, which is the host's or its own. Each device has one
 * (fr_backend_of); the host's is fr_backend, which FRIT_BACKEND names. A node says on which device it is computed (ir/node.h), a
 * buffer where it is (core/buffer.h), and runtime/home.c has it brought where it is wanted. runtime/ calls all of this in its turn,
 * one thread at a time, unless something else is said here.
 *
 *     cpu     threads, the block interpreter, machine code                         backends/cpu/
 *     ref     the loop form to the letter, one element at a time                    backends/ref/
 *     apart   as cpu, in memory that nobody may touch between its calls (tests)     backends/apart/
 *     cuda:0  an NVIDIA GPU, and so on                                              backends/cuda/
 *     meta    the host's plans without data, counted and not run                    backends/meta/
 *
 * The same bits come out of all of them; of cuda, where csrc/NUMERICS.md says so. */
#ifndef FR_BACKENDS_BACKEND_H
#define FR_BACKENDS_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "core/device.h"
#include "core/dtype.h"
#include "core/layout.h"
#include "ir/op.h"
#include "jit/lower.h"

struct fr_backend;
struct fr_machine; /* estimate.h */

/* ---- what is run ---- */

enum { FR_LAUNCH_AXES = 32 };

/* A nest and what the backend has made of it, behind this. Plans share it. */
struct fr_kernel {
    struct fr_nest   *nest;
    double            element_ps, row_ps; /* what they are expected to take (expect.h) */
    fr_device         device;   /* whose it is */
    uint64_t          key;      /* a hash of both; this and the rest is runtime/kernels.c's */
    struct fr_kernel *next;
    uint32_t          refs;
};

/* One nest over one set of operands. Sizes and strides are fixed when it is bound (fr_backend.bind); only `ptr`
 * and `scalars` change from run to run.
 * strides are in bytes, [operand][n_outer + 2]: outer axes outermost first, then row, then inner.
 * n_packed operands are loaded with access UNIT although their elements lie side by side along the
 * rows or an outer axis, or along none: what runs sees copies of tiles of them (fr_lowered). Such a nest does not
 * accumulate, and those lie along one axis if its rows must stay whole, else along two at most.
 * joined: the rows are short, and what runs sees many of them as one: of so many axes, the inner one and the last of the
 * outer ones. What is stored lies so; every load of level FULL has access UNIT, and those that lie otherwise are packed.
 * Operands that accumulate (ACCUM, STREAM) have stride 0 along the axes that they reduce: those axes
 * are walked in order, by one thread per accumulator element. Their memory need not be initialised:
 * the backend begins with the identity (sum -0.0 or 0, prod 1, max and min the first element). */
struct fr_instance {
    int32_t        n_outer;
    int32_t        n_packed;
    int64_t        outer[FR_LAUNCH_AXES];
    int64_t        n_rows, n_inner;
    char         **ptr;                   /* [n_operands] at index 0 of every axis */
    const int64_t *stride;                /* [n_operands * (n_outer + 2)] */
    const void    *scalars;               /* 16-byte slots */
    char          *scratch;               /* of a backend that has memory of its own: what a launch takes beside the operands, as many */
    size_t         scratch_bytes;         /* bytes as bind has found; NULL: it gets them itself */
    uint8_t        joined;
    uint8_t        shape;                 /* of the backend's bind: how it runs, */
    int64_t        ps;                    /* and for how long */
    void         **own;                   /* NULL: it runs once; else where the backend keeps what it has made of it, until unbind */
};

/* How many indices an axis of the instance has: the outer ones, then the rows, then the inner one. */
static inline int64_t
fr_instance_dim(const struct fr_instance *in, int axis)
{
    return axis < in->n_outer ? in->outer[axis] : axis == in->n_outer ? in->n_rows : in->n_inner;
}

/* Rows as an executor sees them, which are longer and fewer where they are joined: elements of one, and how many. */
static inline int64_t
fr_instance_row(const struct fr_instance *in)
{
    return in->joined ? in->n_rows * in->n_inner : in->n_inner;
}

static inline double
fr_instance_n_rows(const struct fr_instance *in)
{
    double n = in->joined ? 1 : (double)in->n_rows;

    for (int a = 0; a < in->n_outer; a++)
        n *= (double)in->outer[a];
    return n;
}

/* Elements of operand k that are not the same: along an axis without a stride all are one. */
static inline int64_t
fr_instance_touched(const struct fr_instance *in, int k)
{
    const int64_t *stride = in->stride + (size_t)k * (size_t)(in->n_outer + 2);
    int64_t        n = 1;

    for (int a = 0; a < in->n_outer + 2; a++)
        if (stride[a] != 0)
            n *= fr_instance_dim(in, a);
    return n;
}

static inline bool
fr_instance_is_empty(const struct fr_instance *in)
{
    for (int a = 0; a < in->n_outer; a++)
        if (in->outer[a] == 0)
            return true;
    return in->n_rows == 0 || in->n_inner == 0;
}

/* The instance has only so many of them, from where its pointers are on; it is to be bound again before it runs. */
static inline void
fr_instance_cut(struct fr_instance *in, int axis, int64_t n)
{
    *(axis < in->n_outer ? &in->outer[axis] : axis == in->n_outer ? &in->n_rows : &in->n_inner) = n;
}

/* A step that is no loop nest: a CALL row of ir/ops.def. */
struct fr_call {
    fr_op                   op;
    fr_dtype                dtype;       /* of the result */
    int                     n_in;
    int                     axis;        /* of a take; of a power, the bits of the exponent; of a product, fr_product_order */
    fr_dtype                index;       /* of the indices; below 0 they count from the end, but for i64 */
    bool                    wary;        /* others may write to them at any time */
    const struct fr_layout *in[2], *out; /* borrowed from the graph */
};

/* A launch in parts, which are instances by themselves and have elements; whoever calls chooses them and the threads. */
struct fr_parts {
    struct fr_kernel *kernel;
    uint64_t          own[5];            /* the backend's */
};

/* A mask in C order, of so many elements, in the memory of a backend. */
struct fr_mask {
    const void *at;
    int64_t     n;
    int64_t     count;       /* of those that are set: fr_chooser.count has found out, */
    void       *ranks;       /* and left what the others want, so many bytes that the caller frees; NULL: nothing */
    size_t      ranks_bytes;
};

enum fr_chosen { FR_CHOSEN_GET, FR_CHOSEN_PUT, FR_CHOSEN_PLACES };

/* An array of indices, along axes, outermost first, whose strides are in bytes; below 0 they count from the end. */
struct fr_look {
    const void *at;
    fr_dtype    dtype;
    bool        is_strict;   /* none may be below 0 */
    int64_t     size;        /* of the axis that they are for */
    int64_t    *out;         /* NULL, or becomes the indices from 0 on, times `scale`; or these are added to it */
    int64_t     scale;
    bool        adds;
    int         n_axes;
    int64_t     dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
};

/* Rows of a value, put where indices say along an axis, for each index of the axes before. */
struct fr_scatter {
    const int64_t *index;    /* in C order; those outside [0, last] are taken for `last` */
    int64_t        n, last;
    char          *to;
    const char    *value;    /* in C order, unless `same` */
    fr_dtype       dtype;
    size_t         row;      /* bytes that lie side by side */
    int64_t        step;     /* bytes from one row of the axis to the next */
    bool           same;     /* the value is one element, which all become, or are joined with */
    fr_op          op;       /* store: the last of several values stays; or it joins, one index after the other */
    int            n_outer;
    const int64_t *dims;     /* of the axes before, */
    const ptrdiff_t *outer;  /* and bytes from one of their indices to the next */
};

/* What masks and indices choose of the memory of a backend, in the runtime's turn. All return FR_ENOTSUP where they have done
 * nothing, and the host does it (backends/host.h); FR_ENOMEM before anything has been written; FR_EDEVICE. */
struct fr_chooser {
    /* Waits until it is known how many elements are set. */
    fr_status (*count)(const struct fr_backend *self, struct fr_mask *, struct fr_err *);
    /* GET: out = the rows of `in`, of so many bytes, that are set. PUT: those of `out` become the rows of `in`. PLACES: out = the
     * i64 along each of the axes of the mask, for each that is set. They go on with what was counted, whatever the mask is. */
    fr_status (*move)(const struct fr_backend *self, enum fr_chosen, const struct fr_mask *, size_t row, int ndim, const int64_t *dims,
                      const void *in, void *out, struct fr_err *);
    /* Looks at n arrays one after the other, of as many indices, and waits. *which: the first of them with one that is out of
     * bounds, *wrong: which index of it that is, in C order; -1: none. */
    fr_status (*look)(const struct fr_backend *self, const struct fr_look *, int n, int *which, int64_t *wrong, struct fr_err *);
    fr_status (*scatter)(const struct fr_backend *self, const struct fr_scatter *, struct fr_err *);
};

/* What is run again and again, with other addresses and numbers, in the runtime's turn: launches, scans, calls and copies from begin
 * to end, which waits for nothing. What is kept of them is at *kept, NULL at first, and ends with drop. `key` says with which memory
 * they work. *once_more, whatever the status: nothing has been done, and all is to be called again, from begin on. */
struct fr_recorder {
    void      (*begin)(const struct fr_backend *self, void **kept, uint64_t key);
    fr_status (*end)(const struct fr_backend *self, void **kept, fr_status, bool *once_more, struct fr_err *);
    void      (*drop)(void *kept);
};

/* ---- who runs it ---- */

struct fr_memory_stats {
    uint64_t live_bytes;      /* asked for and not freed */
    uint64_t peak_bytes;      /* highest live_bytes since the last reset */
    uint64_t pooled_bytes;    /* free, kept for reuse */
    uint64_t n_allocs, n_system;   /* calls; those that went to the system */
    uint64_t n_copies_in, n_copies_out; /* between the host's memory and its own */
};

/* `self` is the backend itself, where nothing else says which it is. */
struct fr_backend {
    const char *name;
    fr_device   device;
    bool        is_host;      /* its memory is the host's, which reads and writes it as it likes */
    bool        has_no_data;  /* nothing is in its memory, and what it runs reads and writes nothing, wherever that is */
    bool        warns;        /* its arithmetic raises the processor's flags, about which NumPy may have to warn */
    bool        runs_nodes;   /* small graphs go node by node, and single elements through backends/host.h, with its bits */

    /* At import, and when the process ends, of the host's alone; begin: kernels will soon be wanted, on any thread. */
    fr_status (*start)(struct fr_err *);
    void      (*begin)(void);
    void      (*stop)(void);
    void      (*look_ahead)(void);              /* makes memory ready that will be wanted; on a thread that nobody waits for */

    /* Memory, not zeroed, aligned to 64 bytes. On any thread. alloc: NULL when it is out, FR_ENOMEM, of which the caller
     * says what it was for, or when the device fails, FR_EDEVICE: fr_backend_refused. */
    void     *(*alloc)(const struct fr_backend *self, size_t n_bytes, struct fr_err *);
    void      (*free)(const struct fr_backend *self, void *, size_t n_bytes);  /* the size that it was asked for with */
    /* How many of so many bytes could be had now; NULL: nobody knows. */
    size_t    (*room)(const struct fr_backend *self, size_t wanted);
    void      (*memory_stats)(const struct fr_backend *self, struct fr_memory_stats *);
    void      (*memory_reset_peak)(const struct fr_backend *self);
    void      (*memory_trim)(const struct fr_backend *self);             /* gives back what is kept for reuse */
    /* Until all that was begun there is done; NULL: nothing goes on behind a call. On any thread. FR_EDEVICE */
    fr_status (*wait)(const struct fr_backend *self, struct fr_err *);
    /* NULL: there are no streams. Work of others in a stream of theirs, by its handle (0: the one that all others wait for): what has
     * been begun here comes before all that is begun there from now on; or the other way round. The handle of our own. */
    fr_status (*order)(const struct fr_backend *self, uint64_t stream, bool ours_first, struct fr_err *);
    uint64_t  (*stream)(const struct fr_backend *self);
    /* Between its memory and the host's, and within its own. */
    fr_status (*copy_in)(const struct fr_backend *self, void *to, const void *host, size_t n_bytes, struct fr_err *);
    fr_status (*copy_out)(const struct fr_backend *self, void *host, const void *from, size_t n_bytes, struct fr_err *);
    fr_status (*copy)(const struct fr_backend *self, void *to, const void *from, size_t n_bytes, struct fr_err *);
    /* NULL, or copies beside what has been begun since the last mark: they wait only for what came before it, and what is
     * begun afterwards waits for those that go in. Of memory that was there at that mark. */
    fr_status (*mark)(const struct fr_backend *self, struct fr_err *);
    fr_status (*copy_in_beside)(const struct fr_backend *self, void *to, const void *host, size_t n_bytes, struct fr_err *);
    fr_status (*copy_out_beside)(const struct fr_backend *self, void *host, const void *from, size_t n_bytes, struct fr_err *);

    /* A lowered group as it is best run, in the arena: its nest is what kernel_new gets. Where the choice is a *close one,
     * `otherwise` gives another, for whoever has code for that already. NULL: as it is. */
    fr_status (*schedule)(const struct fr_lowered *, bool otherwise, struct fr_arena *, struct fr_lowered **out, bool *close,
                          struct fr_err *);
    /* The same for a nest that is run over several arrays, in all so many bytes, one after the other; and for an operand
     * that stays in the caches. False: nothing has changed. */
    bool      (*schedule_dispatch)(struct fr_nest *, int64_t bytes);
    bool      (*schedule_near)(struct fr_nest *, int operand);
    /* A kernel, whose nest is a copy of this one; on any thread, and so is its end. */
    fr_status (*kernel_new)(const struct fr_backend *self, const struct fr_nest *, struct fr_kernel **out, struct fr_err *);
    void      (*kernel_free)(struct fr_kernel *);
    /* Before instances of it run, which are launched together, when their sizes are known: the backend chooses how. is_later: others
     * are wanted sooner. */
    void      (*bind)(const struct fr_kernel *, struct fr_instance *, int n, bool is_later);
    /* The end of what is kept at `own`, where that is not NULL; NULL: nothing is. */
    void      (*unbind)(void *kept);
    /* It has run for so long, or is expected to have: machine code may be worth while now. UINT64_MAX: it is. */
    void      (*kernel_ran)(struct fr_kernel *, uint64_t us);
    /* Waits until whatever was asked for has come. FR_EINTR */
    fr_status (*kernel_wait)(struct fr_kernel *, struct fr_err *);
    bool      (*kernel_is_compiled)(const struct fr_kernel *);
    /* Whether launches of what has been bound would wait for a compiler; NULL: none ever does. */
    bool      (*kernel_waits)(const struct fr_kernel *);

    /* `n` independent instances of one kernel as one dispatch; empty ones only where that computes something
     * (fr_nest_computes_of_nothing). FR_ENOMEM when scratch cannot be had, FR_EINTR when
     * cancelled (outputs are then undefined). */
    fr_status (*launch)(struct fr_kernel *, const struct fr_instance *, int n, struct fr_err *);
    /* Running results along the inner axis of each row: op is a SCAN row. Operand 0 is read, operand 1 written. */
    fr_status (*scan)(const struct fr_backend *self, fr_op, fr_dtype, const struct fr_instance *, struct fr_err *);
    /* ptr: the operands' first elements, then the result's, which overlaps none of them. FR_ENOMEM, FR_EINTR; FR_EINDEX: an
     * index is out of bounds, the result is not what it should be. */
    fr_status (*call)(const struct fr_backend *self, const struct fr_call *, char *const *ptr, struct fr_err *);

    const struct fr_chooser *chooser;           /* NULL: its memory is the host's */
    const struct fr_recorder *recorder;         /* NULL: nothing is gained by one */

    /* For who chooses a device (runtime/place.h); NULL: the host's. What is known of it; whether what it makes of the
     * node may have other bits than on the host, or has to go there in the middle. */
    fr_status (*figures)(const struct fr_backend *self, struct fr_machine *out, struct fr_err *);
    bool      (*differs)(const struct fr_gnode *);

    /* How many may work at once; the next run of the thread that asks has no more. */
    int       (*n_workers)(void);
    /* Launches in parts, on threads of `share`; NULL: there are none, and steps are not run in bands. One part runs on
     * the calling thread alone; FR_ENOMEM. All together took so long. */
    void      (*parts_begin)(struct fr_parts *, struct fr_kernel *, const struct fr_instance *, int n);
    fr_status (*part)(const struct fr_parts *, const struct fr_instance *);
    void      (*parts_end)(const struct fr_parts *, int64_t ns);
    /* task(arg, i, worker) for each i in [0, n), each once, at the same time as others; false: cancelled. */
    bool      (*share)(void (*task)(void *arg, int64_t i, int worker), void *arg, int64_t n);
};

extern FR_HIDDEN const struct fr_backend fr_cpu_backend, fr_ref_backend, fr_apart_backend, fr_meta_backend,
                                         fr_cuda_backends[FR_CUDA_DEVICES];
extern FR_HIDDEN const struct fr_backend *fr_backend;   /* the host's; cpu until fr_backend_init */

/* Who runs what is computed on a device. */
static inline const struct fr_backend *
fr_backend_of(fr_device d)
{
    return FR_LIKELY(d < FR_DEVICE_CUDA) ? fr_backend : fr_device_is_cuda(d) ? &fr_cuda_backends[d - FR_DEVICE_CUDA] : &fr_meta_backend;
}

/* "cpu", "cuda" (cuda:0), "cuda:3", "meta" or "auto"; FR_EVALUE. Whether there is such a device is another question:
 * fr_device_open. */
fr_status fr_device_named(const char *name, fr_device *out, struct fr_err *);
/* "cpu", "cuda:3", "auto" */
const char *fr_device_name(fr_device);
/* These two look for libraries when they are first called, in Python's turn. FR_EDEVICE: there is no such device, and why. */
fr_status fr_device_open(fr_device, struct fr_err *);
/* The GPU of AUTO: the first that can be opened, which is found out once; ANY: there is none, or fr_device_auto_fails
 * was called. Then what nobody says anything of is the host's, if it was AUTO's. */
fr_device fr_device_auto(void);
/* Nothing more is computed on that GPU unless somebody names it; says why, once. */
void      fr_device_auto_fails(const struct fr_err *why);
/* The device in whose memory an address is. FR_EVALUE: it is in none's. */
fr_status fr_device_at(uint64_t address, fr_device *out, struct fr_err *);
/* How many GPUs there are; 0 also where there is no driver for them. */
int       fr_device_count(void);

/* What alloc said, in the caller's words if memory is out. */
fr_status fr_backend_refused(const struct fr_err *said, struct fr_err *, const char *fmt, ...) __attribute__((cold, format(printf, 3, 4)));
/* Chooses the host's by FRIT_BACKEND and starts it; and FRIT_DEVICE names where what nobody says anything of is computed. */
fr_status fr_backend_init(struct fr_err *);
void      fr_backend_stop(void);
/* From here on the host's is another one; false: memory would be elsewhere. */
bool      fr_backend_change(const char *name);

/* Asked from the calling thread every few milliseconds while a backend works; true cancels the run. Set by bind (Ctrl-C);
 * NULL: nobody is asked. */
extern FR_HIDDEN bool (*fr_backend_interrupted)(void);
/* Called when look_ahead has something to do; NULL at first. */
extern FR_HIDDEN void (*fr_backend_wants)(void);
/* Whether a thread calls look_ahead soon, unasked; NULL: there is none. */
extern FR_HIDDEN bool (*fr_backend_is_tended)(void);

#endif
