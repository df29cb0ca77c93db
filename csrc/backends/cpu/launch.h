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

#include "backends/cpu/cost.h"
#include "backends/cpu/duel.h"
#include "base/status.h"
#include "jit/loop.h"

enum { FR_LAUNCH_AXES = 32 };

/* The block interpreter's form of a nest: instructions bound to precompiled kernels, registers
 * assigned. Built once per nest. */
struct fr_program;
fr_status fr_program_build(const struct fr_nest *, struct fr_program **out, struct fr_err *);
/* Before a kernel with this program gets code: fills in what only then is asked for. On any thread. */
void      fr_program_meets_code(struct fr_program *);
void      fr_program_free(struct fr_program *);

/* A nest with all the ways to run it; shared by every plan that holds it. */
struct fr_kernel {
    struct fr_nest                      *nest;
    struct fr_program                   *program;   /* NULL (no block kernels): the reference runs */
    _Atomic(const struct fr_nest_code *) code;      /* NULL until compiled; then never changes back */
    atomic_uint                          n_runs;
    atomic_int                           jit_state; /* owned by jit/compile.c */
    void                                *jit;       /* likewise */
    uint64_t                             key;       /* a hash of the nest */
    struct fr_cost                       cost[2];   /* interpreted, compiled */
    struct fr_duel                       duel;
};

/* One nest over one set of operands. Sizes and strides are fixed when the plan is made; only `ptr`
 * and `scalars` change from run to run.
 * strides are in bytes, [operand][n_outer + 2]: outer axes outermost first, then row, then inner.
 * n_packed operands are loaded with access UNIT although their elements lie side by side along the
 * rows or an outer axis, or along none: what runs sees copies of tiles of them (fr_lowered). Such a nest does not
 * accumulate, and those lie along one axis if its rows must stay whole, else along two at most.
 * joined: the rows are short, and what runs sees many of them as one: of so many axes, the inner one and the last of the
 * outer ones. What is stored lies so; every load of level FULL has access UNIT, and those that lie otherwise are packed.
 * Operands that accumulate (ACCUM, STREAM) have stride 0 along the axes that they reduce: those axes
 * are walked in order, by one thread per accumulator element. Their memory need not be initialised:
 * the launcher begins with the identity (sum -0.0 or 0, prod 1, max and min the first element). */
struct fr_instance {
    int32_t        n_outer;
    int32_t        n_packed;
    int64_t        outer[FR_LAUNCH_AXES];
    int64_t        n_rows, n_inner;
    char         **ptr;                   /* [n_operands] at index 0 of every axis */
    const int64_t *stride;                /* [n_operands * (n_outer + 2)] */
    const void    *scalars;               /* 16-byte slots */
    uint8_t        joined;
};

/* How many indices an axis of the instance has: the outer ones, then the rows, then the inner one. */
static inline int64_t
fr_instance_dim(const struct fr_instance *in, int axis)
{
    return axis < in->n_outer ? in->outer[axis] : axis == in->n_outer ? in->n_rows : in->n_inner;
}

/* The instance has only so many of them, from where its pointers are on. */
static inline void
fr_instance_cut(struct fr_instance *in, int axis, int64_t n)
{
    *(axis < in->n_outer ? &in->outer[axis] : axis == in->n_outer ? &in->n_rows : &in->n_inner) = n;
}

/* Runs `n` independent instances of one kernel as one dispatch ("a table of pointers and sizes").
 * Executor: FRIT_JIT and kernel->code decide; FRIT_BACKEND=ref takes the reference executor.
 * FR_ENOMEM when scratch cannot be had, FR_EINTR when cancelled (outputs are then undefined). */
fr_status fr_launch(struct fr_kernel *, const struct fr_instance *, int n, struct fr_err *);

/* A launch in parts, which are instances by themselves and have elements; whoever calls chooses them and the threads. */
struct fr_launch_parts {
    struct fr_kernel          *kernel;
    const struct fr_nest_code *code;      /* NULL: interpreted */
    struct fr_duel_run         duel;
};
/* Counts the launch of the whole and chooses its executor. */
void      fr_launch_parts_begin(struct fr_launch_parts *, struct fr_kernel *, const struct fr_instance *, int n);
/* One part, on the calling thread alone. FR_ENOMEM. */
fr_status fr_launch_part(const struct fr_launch_parts *, const struct fr_instance *);
/* All parts together took so long. */
void      fr_launch_parts_end(const struct fr_launch_parts *, int64_t ns);

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
