/* tests/c/test_launch.c -- the launcher and the block interpreter, without Python.
 *
 * Built twice by tests/test_launch.py: as a shared library whose test_* functions it calls, and as a program
 * (-DTEST_MAIN) that checks what needs C: failing allocations, launches from several threads, cancelling; and
 * with the argument `bench` measures. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/cpu/launch.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/program.h"
#include "base/alloc.h"
#include "base/env.h"

#define EXPORT __attribute__((visibility("default")))

/* The tests link one level only. */
#define LEVEL_(a, b) a##b
#define LEVEL(a, b) LEVEL_(a, b)
const struct fr_kernels        *fr_kernels = &LEVEL(fr_kernels_, TEST_LEVEL);
const struct fr_reduce_kernels *fr_reduce = &LEVEL(fr_reduce_, TEST_LEVEL);

/* ---- compiled code, played by the interpreter ---------------------------------------------------
 * Entries of compiled code get no context, so there is one kernel at a time, and at most MAX_STAGES. */

enum { MAX_STAGES = 4 };
static const struct fr_program *played;
static atomic_int               n_played;

static void *
played_scratch(void)
{
    static __thread char  *mem;
    static __thread size_t cap;

    if (cap < played->scratch_bytes) {
        free(mem);
        cap = played->scratch_bytes;
        mem = aligned_alloc(64, (cap + 63) & ~(size_t)63);
    }
    return mem;
}

static void
played_rows(char *const *ptr, const int64_t *row_stride, const int64_t *inner_stride,
            int64_t n_rows, int64_t n_inner, const void *scalars, void *scratch)
{
    (void)scratch;
    n_played++;
    fr_interp_rows(played, ptr, row_stride, inner_stride, n_rows, n_inner, scalars, played_scratch());
}

#define STAGE(s)                                                                                   \
    static void played_stage_##s(char *const *ptr, const int64_t *inner_stride, int64_t j0,        \
                                 int64_t n, const void *scalars, const struct fr_slot *slots,      \
                                 struct fr_slot *slots_out, void *scratch)                         \
    {                                                                                              \
        (void)scratch;                                                                             \
        n_played++;                                                                                \
        fr_interp_stage(played, s, ptr, inner_stride, j0, n, scalars, slots, slots_out,            \
                        played_scratch());                                                         \
    }
#define MID(s)                                                                                     \
    static void played_mid_##s(char *const *ptr, const void *scalars, struct fr_slot *slots)       \
    {                                                                                              \
        fr_interp_mid(played, s, ptr, scalars, slots, played_scratch());                           \
    }
STAGE(0) STAGE(1) STAGE(2) STAGE(3)
MID(0) MID(1) MID(2) MID(3) MID(4)

static fr_stage_fn *const stages[] = {played_stage_0, played_stage_1, played_stage_2, played_stage_3};
static fr_mid_fn   *const mids[] = {played_mid_0, played_mid_1, played_mid_2, played_mid_3, played_mid_4};
static const struct fr_nest_code played_code = {played_rows, stages, mids};

/* ---- what Python calls -------------------------------------------------------------------------- */

EXPORT struct fr_kernel *
test_new(const char *text, struct fr_err *err)
{
    struct fr_kernel *k = fr_calloc(1, sizeof *k);

    if (!k)
        return NULL;
    if (fr_nest_parse(text, &k->nest, err) == FR_OK &&
        fr_program_build(k->nest, &k->program, err) == FR_OK)
        return k;
    fr_nest_free(k->nest);
    fr_free(k);
    return NULL;
}

EXPORT void
test_free(struct fr_kernel *k)
{
    fr_program_free(k->program);
    fr_nest_free(k->nest);
    fr_free(k);
}

enum { HOW_INTERPRET, HOW_REF, HOW_CODE };

EXPORT int
test_run(struct fr_kernel *k, int how, int n_threads, const struct fr_instance *in, int n,
         struct fr_err *err)
{
    fr_status st;

    if (n_threads != fr_pool_size())
        fr_pool_set_size(n_threads);
    strcpy(fr_env.backend, how == HOW_REF ? "ref" : "cpu");
    strcpy(fr_env.jit, how == HOW_CODE ? "auto" : "off");
    played = k->program;
    atomic_store(&k->code, how == HOW_CODE ? &played_code : NULL);
    st = fr_launch(k, in, n, err);
    atomic_store(&k->code, NULL);
    return (int)st;
}

/* Nanoseconds of the fastest of `repeat` launches. */
EXPORT double
test_time(struct fr_kernel *k, int n_threads, const struct fr_instance *in, int n, int repeat)
{
    double best = 1e18;

    if (n_threads != fr_pool_size())
        fr_pool_set_size(n_threads);
    strcpy(fr_env.backend, "cpu");
    strcpy(fr_env.jit, "off");
    for (int r = 0; r < repeat; r++) {
        struct timespec a, b;
        double          ns;
        int             inner = 20;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < inner; i++)
            if (fr_launch(k, in, n, NULL) != FR_OK)
                return -1;
        clock_gettime(CLOCK_MONOTONIC, &b);
        ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / inner;
        best = ns < best ? ns : best;
    }
    return best;
}

EXPORT int
test_calls_of_code(void)
{
    return atomic_exchange(&n_played, 0);
}
