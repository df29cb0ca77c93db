/* backends/cuda/kernel.h -- a kernel on the device: a nest, and what NVRTC made of its text. */
#ifndef FR_BACKENDS_CUDA_KERNEL_H
#define FR_BACKENDS_CUDA_KERNEL_H

#include "backends/backend.h"
#include "backends/cuda/graph.h"
#include "jit/emit_cuda.h"

/* A function of the device; NULLs until it is made. */
struct fr_cuda_code {
    fr_cuda_module   module;
    fr_cuda_function function;
    struct fr_ahead *ahead;           /* it has been asked for */
    struct fr_cuda_code *next;        /* of those that live as long as the process */
    struct fr_cuda_device *device;    /* where it is */
    int              most_shared;     /* of a form that keeps rows: bytes that a block may have beside what it has anyway */
};

/* Forms of a kernel, which are compiled when they are wanted: bits. */
enum { FR_CUDA_HAS_OUTER = 1, FR_CUDA_WARP_ROWS = 2 /* a row is a warp's */,
       FR_CUDA_SHARED_ROWS = 4 /* what is kept of it is in shared memory */,
       FR_CUDA_VECTORS = 8 /* of a map: elements are taken several at a time */,
       FR_CUDA_SPLIT = 16 /* many blocks share a row or a column */,
       FR_CUDA_SHARED_COLUMNS = 32 /* lines of a block share columns */,
       FR_CUDA_MANY = 64 /* of a map: a launch is of several instances */,
       FR_CUDA_TILED = 128 /* of a map with operands that are turned: blocks go by tiles */,
       FR_CUDA_NARROW = FR_CUDA_WARP_ROWS /* with that: of short rows, which maps do not give to warps */, FR_CUDA_FORMS = 256 };
/* Shared memory of a block for what is kept of its rows, beside what sums and accumulators have there: of a long one, or of
 * several short ones, so that a multiprocessor still has many blocks. */
enum { FR_CUDA_ROW_BYTES = 92 << 10, FR_CUDA_ROWS_BYTES = 40 << 10, FR_CUDA_STATIC_BYTES = 7 << 10 };

struct fr_cuda_kernel {
    struct fr_kernel      k;          /* first */
    struct fr_cuda_layout layout;     /* of its argument */
    struct fr_cuda_code   code[FR_CUDA_FORMS];
    int                   vector;     /* elements of one */
    uint8_t               vector_mask[FR_MAX_OPERANDS];   /* bits of an address that are 0 where vectors of the operand are aligned */
    bool                  overwrites; /* a row's value is stored, maybe where something is loaded: which form it takes is a matter of addresses */
    bool                  has_stages, accumulates, streams, has_tiles, has_deep_tiles;
    bool                  splits, has_lines, rounds;    /* has such forms; some accumulator depends on the order of its rows */
};

fr_status fr_cuda_kernel_new(const struct fr_backend *, const struct fr_nest *, struct fr_kernel **out, struct fr_err *);
void      fr_cuda_kernel_free(struct fr_kernel *);
/* Its function in a form, and where rows are kept the most of shared memory; has it made and loaded first. Within fr_cuda_enter. */
fr_status fr_cuda_kernel_get(struct fr_cuda_kernel *, int form, struct fr_cuda_device *, fr_cuda_function *out, int *most_shared,
                             struct fr_err *);
/* A form of it will be wanted, maybe later than others: it is made by threads of our own, if it is not there. On any thread, within
 * fr_cuda_enter. */
void      fr_cuda_kernel_ask(struct fr_cuda_kernel *, int form, bool is_later, struct fr_cuda_device *);
/* As struct fr_backend has it: whether one of these is still on its way. */
bool      fr_cuda_kernel_waits(const struct fr_kernel *);
/* The kernel of a call or a scan, which lives as long as the process: its name, what writes its text, and for what. */
struct fr_cuda_source {
    const char *name;
    fr_status (*write)(struct fr_text *, const struct fr_cuda_source *, struct fr_err *);
    const char *const *defines;
    fr_op       op;
    fr_dtype    dtype;
};
/* Its function on one of the devices, each of which has its code; has it made and loaded first. Within fr_cuda_enter. */
fr_status fr_cuda_code_get(struct fr_cuda_code code[FR_CUDA_DEVICES], const struct fr_cuda_source *, struct fr_cuda_device *, fr_cuda_function *out,
                           struct fr_err *);
/* All of these. */
void      fr_cuda_codes_free(void);
/* out[...] = combine over the rows, in their order: a kernel that lives as long as the process. op is a REDUCE row. */
fr_status fr_cuda_fold_kernel(struct fr_cuda_device *, fr_op, fr_dtype, struct fr_kernel **out, struct fr_err *);
void      fr_cuda_fold_kernels_free(void);

/* product.c: a matmul. FR_ENOTSUP: not in that order. */
fr_status fr_cuda_product(const struct fr_backend *, const struct fr_call *, char *const *ptr, struct fr_err *);
/* scan.c: FR_ENOTSUP: more axes than its kernel has. */
fr_status fr_cuda_scan_there(const struct fr_backend *, fr_op, fr_dtype, const struct fr_instance *, struct fr_err *);
/* take.c: FR_ENOTSUP: more axes than its kernel has. */
fr_status fr_cuda_take(const struct fr_backend *, const struct fr_call *, char *const *ptr, struct fr_err *);

/* Blocks for n, of which each has so many: at least one, and at most so many. */
static inline unsigned
fr_cuda_blocks(int64_t n, int64_t each, int64_t most)
{
    n = n / each + (n % each != 0);
    return (unsigned)(n < 1 ? 1 : n < most ? n : most);
}

/* launch.c: what instances of such sizes take will be wanted, as fr_cuda_kernel_ask has it, and so much scratch; all is taken to be
 * aligned. */
void      fr_cuda_ask(struct fr_cuda_kernel *, struct fr_instance *, int n, bool is_later, struct fr_cuda_device *);
/* prepared.c, as struct fr_backend has it. */
void      fr_cuda_unbind(void *kept);
/* schedule.c, as struct fr_backend has it: the axes of a map, what of it is turned; rows that fit in shared memory are read once. */
fr_status fr_cuda_schedule(const struct fr_lowered *, bool otherwise, struct fr_arena *, struct fr_lowered **out, bool *close, struct fr_err *);
/* Whether rows of such a nest are better a warp's than a block's. */
bool      fr_cuda_has_warp_rows(int64_t n_rows, int64_t n_inner, int n_multiprocessors);

/* launch.c and on_host.c, as struct fr_backend has them. */
fr_status fr_cuda_launch(struct fr_kernel *, const struct fr_instance *, int n, struct fr_err *);
fr_status fr_cuda_scan(const struct fr_backend *, fr_op, fr_dtype, const struct fr_instance *, struct fr_err *);
fr_status fr_cuda_call(const struct fr_backend *, const struct fr_call *, char *const *ptr, struct fr_err *);

#endif
