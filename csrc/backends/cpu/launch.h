/* backends/cpu/launch.h -- runs a nest over concrete memory: threads, outer axes, long rows.
 *
 * The one entry of the CPU backend for kernels. It picks the executor of the moment (block
 * interpreter, or compiled code once there is some), cuts the work into tasks and runs them.
 * The same bits come out for every executor, thread count and cut. */
#ifndef FR_BACKENDS_CPU_LAUNCH_H
#define FR_BACKENDS_CPU_LAUNCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backends/backend.h"
#include "backends/cpu/cost.h"
#include "backends/cpu/duel.h"

/* The block interpreter's form of a nest: instructions bound to precompiled kernels, registers
 * assigned. Built once per nest. */
struct fr_program;
fr_status fr_program_build(const struct fr_nest *, struct fr_program **out, struct fr_err *);
/* Before a kernel with this program gets code: fills in what only then is asked for. On any thread. */
void      fr_program_meets_code(struct fr_program *);
void      fr_program_free(struct fr_program *);

/* A nest with all the ways to run it. */
struct fr_cpu_kernel {
    struct fr_kernel                     k;         /* first */
    struct fr_program                   *program;
    _Atomic(const struct fr_nest_code *) code;      /* NULL until compiled; then never changes back */
    struct fr_cost                       cost[2];   /* interpreted, compiled */
    struct fr_duel                       duel;
    /* of kernel.c: */
    atomic_int                           jit_state;
    atomic_int                           n_asked;   /* answers of the compiler that are still to come */
    uint64_t                             spent;     /* in runs before it was compiled */
    struct fr_cpu_kernel                *next_left;
};

/* kernel.c: for fr_backend. */
fr_status fr_cpu_kernel_new(const struct fr_backend *, const struct fr_nest *, struct fr_kernel **out, struct fr_err *);
void      fr_cpu_kernel_free(struct fr_kernel *);
void      fr_cpu_kernel_ran(struct fr_kernel *, uint64_t us);
fr_status fr_cpu_kernel_wait(struct fr_kernel *, struct fr_err *);
bool      fr_cpu_kernel_is_compiled(const struct fr_kernel *);
/* Has the compiler's manager begun, while nobody is in a hurry yet. */
void      fr_cpu_kernels_begin(void);

/* schedule.c, schedule_reach.c: for fr_backend. */
fr_status fr_cpu_schedule(const struct fr_lowered *, bool otherwise, struct fr_arena *, struct fr_lowered **out, bool *close,
                          struct fr_err *);
bool      fr_cpu_schedule_dispatch(struct fr_nest *, int64_t bytes);
bool      fr_cpu_schedule_near(struct fr_nest *, int operand);

/* backend.c: these, for other backends whose kernels are the CPU's, too. */
fr_status fr_cpu_start(struct fr_err *);
void      fr_cpu_stop(void);
void      fr_cpu_look_ahead(void);
void     *fr_cpu_alloc(const struct fr_backend *, size_t n_bytes, struct fr_err *);
void      fr_cpu_free(const struct fr_backend *, void *, size_t n_bytes);
void      fr_cpu_memory_stats(const struct fr_backend *, struct fr_memory_stats *);
void      fr_cpu_memory_reset_peak(const struct fr_backend *);
void      fr_cpu_memory_trim(const struct fr_backend *);
fr_status fr_cpu_copy(const struct fr_backend *, void *to, const void *from, size_t n_bytes, struct fr_err *);
fr_status fr_cpu_scan(const struct fr_backend *, fr_op, fr_dtype, const struct fr_instance *, struct fr_err *);
fr_status fr_cpu_call(const struct fr_backend *, const struct fr_call *, char *const *ptr, struct fr_err *);
/* What those have of it in their struct fr_backend. */
#define FR_CPU_KERNELS                                                                                                 \
    .device = FR_DEVICE_HOST, .warns = true, .start = fr_cpu_start, .begin = fr_cpu_kernels_begin,                     \
    .stop = fr_cpu_stop, .look_ahead = fr_cpu_look_ahead, .kernel_new = fr_cpu_kernel_new,                             \
    .kernel_free = fr_cpu_kernel_free, .bind = fr_cpu_bind, .n_workers = fr_pool_size,                                 \
    .memory_trim = fr_cpu_memory_trim
/* And of its memory and its calls. */
#define FR_CPU_MEMORY                                                                                                  \
    .is_host = true, .alloc = fr_cpu_alloc, .free = fr_cpu_free, .memory_stats = fr_cpu_memory_stats,                   \
    .memory_reset_peak = fr_cpu_memory_reset_peak, .copy_in = fr_cpu_copy, .copy_out = fr_cpu_copy,                     \
    .copy = fr_cpu_copy, .scan = fr_cpu_scan, .call = fr_cpu_call, .share = fr_pool_run

/* shape.c: for fr_backend. */
void      fr_cpu_bind(const struct fr_kernel *, struct fr_instance *, int n, bool is_later);

/* The next four are as struct fr_backend has them. FRIT_JIT and the kernel's code decide on the executor. */
fr_status fr_launch(struct fr_kernel *, const struct fr_instance *, int n, struct fr_err *);

void      fr_launch_parts_begin(struct fr_parts *, struct fr_kernel *, const struct fr_instance *, int n);
fr_status fr_launch_part(const struct fr_parts *, const struct fr_instance *);
void      fr_launch_parts_end(const struct fr_parts *, int64_t ns);

/* Frees what the calling thread keeps for its next launch. */
void fr_launch_trim(void);

/* Scans: cumsum, cumprod, cummax, cummin along the inner axis of each row (op is a SCAN row). Element
 * after element in order, as NumPy's accumulate. operand 0 is read, operand 1 written, same dtype. */
fr_status fr_launch_scan(fr_op op, fr_dtype, const struct fr_instance *, struct fr_err *);

/* The instruction-set level in use: "v2", "v3", "v4" or "generic". Chosen at fr_cpu_init. */
const char *fr_cpu_isa(void);
/* Every level that this machine can run, lowest first, NULL-terminated. */
const char *const *fr_cpu_isa_all(void);
/* The features compiled code may use, as gcc -m options ("-mavx2 -mfma ..."), NULL-terminated. */
const char *const *fr_cpu_features(void);
fr_status   fr_cpu_init(struct fr_err *);

#endif
