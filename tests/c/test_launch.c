/* tests/c/test_launch.c -- the launcher and the block interpreter, without Python.
 *
 * Built twice by tests/test_launch.py: as a shared library whose test_* functions it calls, and as
 * a program (-DTEST_MAIN) that checks what needs C: failing allocations, launches from several
 * threads, cancelling. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/cpu/launch.h"
#include "backends/cpu/shuffle.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/program.h"
#include "backends/expect.h"
#include "backends/ref/ref.h"
#include "base/alloc.h"
#include "base/env.h"

#define EXPORT __attribute__((visibility("default")))

/* The tests link one level only. */
#define LEVEL_(a, b) a##b
#define LEVEL(a, b)  LEVEL_(a, b)
const struct fr_kernels        *fr_kernels = &LEVEL(fr_kernels_, TEST_LEVEL);
const struct fr_reduce_kernels *fr_reduce = &LEVEL(fr_reduce_, TEST_LEVEL);
const struct fr_shuffle_kernels   *fr_shuffle = &LEVEL(fr_shuffle_, TEST_LEVEL);

/* ---- compiled code, played by the interpreter ---------------------------------------------------
 * Entries of compiled code get no context, so there is one kernel at a time, and at most
 * MAX_STAGES. */

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
    fr_interp_rows(played, ptr, row_stride, inner_stride, n_rows, n_inner, scalars,
                   played_scratch());
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
STAGE(0)
STAGE(1) STAGE(2) STAGE(3) MID(0) MID(1) MID(2) MID(3) MID(4)

    static fr_stage_fn *const stages[] = {played_stage_0, played_stage_1, played_stage_2,
                                          played_stage_3};
static fr_mid_fn *const          mids[] = {played_mid_0, played_mid_1, played_mid_2, played_mid_3,
                                           played_mid_4};
static const struct fr_nest_code played_code = {played_rows, stages, mids};

/* ---- what Python calls ----------------------------------------------------------------------- */

EXPORT struct fr_cpu_kernel *
test_new(const char *text, struct fr_err *err)
{
    struct fr_cpu_kernel *k = fr_calloc(1, sizeof *k);

    if (!k)
        return NULL;
    if (fr_nest_parse(text, &k->k.nest, err) == FR_OK &&
        fr_program_build(k->k.nest, &k->program, err) == FR_OK && fr_expect_kernel(&k->k, err) == FR_OK)
        return k;
    fr_program_free(k->program);
    fr_nest_free(k->k.nest);
    fr_free(k);
    return NULL;
}

EXPORT void
test_free(struct fr_cpu_kernel *k)
{
    fr_program_free(k->program);
    fr_nest_free(k->k.nest);
    fr_free(k);
}

/* Allocations that it takes to expect a kernel's time once more: what its operations take is known by then. */
EXPORT long
test_expected_again(struct fr_cpu_kernel *k)
{
    struct fr_err err;
    fr_status     st;
    long          n;

    fr_alloc_fail_at(-1);
    st = fr_expect_kernel(&k->k, &err);
    n = fr_alloc_count();
    fr_alloc_fail_at(0);
    return st == FR_OK ? n : -1;
}

/* Operations of all elements that the interpreter runs for a tile. */
EXPORT int
test_operations(const struct fr_cpu_kernel *k)
{
    int n = 0;

    for (uint32_t i = k->program->tile.first; i < k->program->tile.end; i++)
        n += k->program->steps[i].kind == FR_PROGRAM_OP || k->program->steps[i].kind == FR_PROGRAM_OP_STORE;
    return n;
}

static size_t widest;

static void
note_width(size_t n, void *out, const void *a, const void *b, const void *c, unsigned once)
{
    (void)out, (void)a, (void)b, (void)c, (void)once;
    widest = n > widest ? n : widest;
}

static fr_status
bind_and_launch(struct fr_cpu_kernel *k, struct fr_instance *in, int n, struct fr_err *err)
{
    for (int i = 0; i < n; i++)
        fr_cpu_bind(&k->k, &in[i], 1, false);
    return fr_launch(&k->k, in, n, err);
}

/* The most elements that one call of a kernel gets; nothing is computed, now or later. */
EXPORT int
test_widest(struct fr_cpu_kernel *k, struct fr_instance *in)
{
    for (uint32_t i = k->program->tile.first; i < k->program->tile.end; i++)
        if (k->program->steps[i].kind == FR_PROGRAM_OP || k->program->steps[i].kind == FR_PROGRAM_OP_STORE)
            k->program->steps[i].fn.map = note_width;
    widest = 0;
    fr_pool_set_size(1);
    fr_env.jit_bits = FR_JIT_OFF;
    return bind_and_launch(k, in, 1, NULL) == FR_OK ? (int)widest : -1;
}

enum { HOW_INTERPRET, HOW_REF, HOW_CODE };

static fr_status
run_ref(const struct fr_cpu_kernel *k, const struct fr_instance *in, int n, struct fr_err *err)
{
    fr_status st = FR_OK;

    for (int i = 0; i < n && st == FR_OK; i++)
        if (!fr_instance_is_empty(&in[i]) || fr_nest_computes_of_nothing(k->k.nest))
            st = fr_ref_launch(k->k.nest, &in[i], err);
    return st;
}

EXPORT int
test_run(struct fr_cpu_kernel *k, int how, int n_threads, struct fr_instance *in, int n,
         struct fr_err *err)
{
    fr_status st;

    if (n_threads != fr_pool_size())
        fr_pool_set_size(n_threads);
    fr_env.jit_bits = how == HOW_CODE ? FR_JIT_AUTO : FR_JIT_OFF;
    played = k->program;
    atomic_store(&k->code, how == HOW_CODE ? &played_code : NULL);
    st = how == HOW_REF ? run_ref(k, in, n, err) : bind_and_launch(k, in, n, err);
    atomic_store(&k->code, NULL);
    return (int)st;
}

/* Nanoseconds of a launch, the best of `repeat` averages: processor time for one thread, else the
 * clock's. */
EXPORT double
test_time(struct fr_cpu_kernel *k, int n_threads, struct fr_instance *in, int n, int repeat)
{
    clockid_t clock = n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    double    best = 1e18;

    if (n_threads != fr_pool_size())
        fr_pool_set_size(n_threads);
    fr_env.jit_bits = FR_JIT_OFF;
    if (bind_and_launch(k, in, n, NULL) != FR_OK)
        return -1;
    for (int r = 0; r < repeat; r++) {
        struct timespec a, b;
        double          ns;
        int             inner = 20;
        clock_gettime(clock, &a);
        for (int i = 0; i < inner; i++)
            if (fr_launch(&k->k, in, n, NULL) != FR_OK)
                return -1;
        clock_gettime(clock, &b);
        ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / inner;
        best = ns < best ? ns : best;
    }
    return best;
}

/* Tasks that launches became since the last call, where threads shared them. */
EXPORT int
test_tasks(void)
{
    static uint64_t      before;
    struct fr_pool_stats stats;
    int                  n;

    fr_pool_stats(&stats);
    n = (int)(stats.n_tasks - before);
    before = stats.n_tasks;
    return n;
}

/* Tells the interpreter's runs of a kernel what they would have learnt. */
EXPORT void
test_know(struct fr_cpu_kernel *k, double rate, double shared)
{
    k->cost[0].rate = (unsigned)(rate * FR_COST_ONE);
    k->cost[0].shared = (unsigned)(shared * FR_COST_ONE);
}

EXPORT int
test_pays(int64_t us, int n_threads, int awake)
{
    return fr_cost_pays(us * 1000000, n_threads, awake != 0);
}

/* Runs of a kernel that is expected to take `us`, takes `alone` times as long by one thread, `cold` times by several
 * after a run by one, and `shared` times after one by several. How many of `n` were shared, from the first on that
 * knows. The first `n_bad` shared runs are disturbed. */
EXPORT int
test_shared(int64_t us, double alone, double cold, double shared, int n_bad, int n_threads, int n)
{
    struct fr_cost cost = {.n_runs = 0};
    int            n_shared = 0, n_now = 0;

    fr_pool_set_size(n_threads);
    for (int i = 0; i < n + 3; i++) {
        struct fr_cost_run r = {.ps = us * 1000000};
        fr_cost_begin(&r, &cost);
        fr_cost_learn(&r, &cost, r.n_threads == 1 ? alone : n_bad-- > 0 ? 10 : n_now ? shared : cold);
        n_now = r.n_threads > 1;
        n_shared += i >= 3 && r.n_threads > 1;
    }
    return n_shared;
}

/* Runs of a kernel with code that take so many times `us`: how many of `n` were compiled. From run `n` / 2 on the
 * times are `interpreted_then` and `compiled_then`. */
EXPORT int
test_duel(int64_t us, int64_t n_inner, double interpreted, double compiled, double interpreted_then, double compiled_then,
          int n)
{
    struct fr_duel duel = {.of[0].n_runs = 0};
    int            n_compiled = 0;

    for (int i = 0; i < n; i++) {
        struct fr_duel_run r;
        int                code = fr_duel_begin(&r, &duel, us * 1000000, n_inner) == FR_DUEL_COMPILED;
        bool               first = i < n / 2;

        if (r.of)
            fr_duel_learn(&r, code ? (first ? compiled : compiled_then) : first ? interpreted : interpreted_then);
        n_compiled += code;
    }
    return n_compiled;
}

EXPORT int
test_calls_of_code(void)
{
    return atomic_exchange(&n_played, 0);
}

#ifdef TEST_MAIN
/* ---- what needs C ---------------------------------------------------------------------------- */

static int n_failed;

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            n_failed++;                                                                            \
        }                                                                                          \
    } while (0)

static const char norm_text[] = "nest 2 stages reduces\n"
                                "[0] f64 unit\n"
                                "[1] f64 unit written\n"
                                "%0 = load [0] f64 FULL stage 0\n"
                                "%1 = multiply %0 %0 f64 FULL stage 0\n"
                                "%2 = reduce sum %1 f64 ROW stage 1\n"
                                "%3 = divide %0 %2 f64 FULL stage 1\n"
                                "%4 = store [1] %3 f64 FULL stage 1\n";
static const char stream_text[] = "nest 2 stages reduces\n"
                                  "[0] f64 unit\n"
                                  "[1] f64 unit written stream\n"
                                  "%0 = load [0] f64 FULL stage 0\n"
                                  "%1 = multiply %0 %0 f64 FULL stage 0\n"
                                  "%2 = reduce sum %1 f64 ROW stage 1\n"
                                  "%3 = divide %0 %2 f64 FULL stage 1\n"
                                  "%4 = store sum [1] %3 f64 FULL stage 1\n";
static const char column_text[] = "nest 1 stage\n"
                                  "[0] f64 unit\n"
                                  "[1] f64 unit written\n"
                                  "%0 = load [0] f64 FULL stage 0\n"
                                  "%1 = accum sum [1] %0 f64 FULL stage 0\n";

struct job {
    struct fr_cpu_kernel *k;
    const double     *x;
    double           *out;
    int64_t           n_rows, n_inner;
    bool              accumulates, same_row;
    fr_status         st;
    long              fail_at;
};

static void *
run_job(void *arg)
{
    struct job        *j = arg;
    char              *ptr[2] = {(char *)j->x, (char *)j->out};
    int64_t            by_row = j->n_inner * 8;
    int64_t            stride[4] = {j->same_row ? 0 : by_row, 8, j->accumulates ? 0 : by_row, 8};
    struct fr_instance in = {
        .n_rows = j->n_rows, .n_inner = j->n_inner, .ptr = ptr, .stride = stride};

    if (j->fail_at)
        fr_alloc_fail_at(j->fail_at);
    j->st = bind_and_launch(j->k, &in, 1, NULL);
    if (j->fail_at)
        fr_alloc_fail_at(0);
    return NULL;
}

static void
in_new_thread(struct job *j)
{
    pthread_t t;

    CHECK(pthread_create(&t, NULL, run_job, j) == 0);
    pthread_join(t, NULL);
}

static double *
numbers(int64_t n)
{
    double *x = malloc((size_t)n * sizeof *x);

    for (int64_t i = 0; i < n; i++)
        x[i] = 1.0 + (double)(i * 7919 % 1000) / 128;
    return x;
}

static struct fr_cpu_kernel *
new_kernel(const char *text)
{
    struct fr_err     err = {0};
    struct fr_cpu_kernel *k = test_new(text, &err);

    if (!k)
        fprintf(stderr, "%s\n", err.text);
    return k;
}

/* The n-th allocation fails, n = 1, 2, ... until nothing did: each time it says so and leaves
 * nothing behind. */
static void
check_failing_allocations(const char *text, int64_t n_rows, int64_t n_inner, bool accumulates)
{
    double *x = numbers(n_rows * n_inner), *out = calloc((size_t)(n_rows * n_inner), sizeof *out);
    bool    failed = true;

    for (long n = 1; failed && n < 100; n++) {
        long              live = fr_alloc_live();
        struct fr_cpu_kernel *k;
        fr_alloc_fail_at(n);
        k = test_new(text, NULL);
        failed = fr_alloc_count() >= n;
        fr_alloc_fail_at(0);
        CHECK(!failed == (k != NULL));
        if (k)
            test_free(k);
        CHECK(fr_alloc_live() == live);
    }
    CHECK(!failed);
    failed = true;
    for (long n = 1; failed && n < 100; n++) {
        struct job j = {.k = new_kernel(text),
                        .x = x,
                        .out = out,
                        .n_rows = n_rows,
                        .n_inner = n_inner,
                        .accumulates = accumulates,
                        .fail_at = n};
        in_new_thread(&j);
        failed = j.st == FR_ENOMEM;
        CHECK(failed || j.st == FR_OK);
        test_free(j.k);
    }
    CHECK(!failed);
    free(x);
    free(out);
}

/* Several threads launch one kernel at the same time. */
static void
check_concurrent_launches(void)
{
    enum { N = 4 };
    const int64_t     n = 300000;
    double           *x = numbers(n), *out[N];
    struct fr_cpu_kernel *k = new_kernel(norm_text);
    pthread_t         t[N];
    struct job        j[N];

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < N; i++) {
            out[i] = calloc((size_t)n, sizeof **out);
            j[i] = (struct job){.k = k,
                                .x = x,
                                .out = out[i],
                                .n_rows = i % 2 ? 1 : 30,
                                .n_inner = i % 2 ? n : n / 30};
            CHECK(pthread_create(&t[i], NULL, run_job, &j[i]) == 0);
        }
        for (int i = 0; i < N; i++) {
            pthread_join(t[i], NULL);
            CHECK(j[i].st == FR_OK);
        }
        CHECK(!memcmp(out[0], out[2], (size_t)n * 8) && !memcmp(out[1], out[3], (size_t)n * 8));
        for (int i = 0; i < N; i++)
            free(out[i]);
    }
    test_free(k);
    free(x);
}

static bool
interrupt(void)
{
    return true;
}

/* More than 100 ms of work; accumulations read the same row again and again. */
static void
check_cancel(const char *text, int64_t n_rows, int64_t n_inner, bool accumulates)
{
    int64_t           n = accumulates ? n_inner : n_rows * n_inner;
    double           *x = numbers(n), *out = calloc((size_t)n, sizeof *out);
    struct fr_cpu_kernel *k = new_kernel(text);
    struct job        j = {.k = k,
                           .x = x,
                           .out = out,
                           .n_rows = n_rows,
                           .n_inner = n_inner,
                           .accumulates = accumulates,
                           .same_row = accumulates};

    fr_backend_interrupted = interrupt;
    run_job(&j);
    CHECK(j.st == FR_EINTR);
    fr_backend_interrupted = NULL;
    j.n_rows = j.n_rows > 1000 ? 1000 : j.n_rows;
    run_job(&j);
    CHECK(j.st == FR_OK);
    test_free(k);
    free(x);
    free(out);
}

int
main(void)
{
    fr_env_load();
    fr_env.jit_bits = FR_JIT_OFF;
    for (int threads = 1; threads <= 2; threads++) {
        fr_pool_set_size(threads);
        check_failing_allocations(norm_text, 3, 100, false);
        check_failing_allocations(norm_text, 2, 300000, false);
        check_failing_allocations(stream_text, 1000, 300, true);
        check_failing_allocations(column_text, 1000, 300, true);
        check_concurrent_launches();
        check_cancel(norm_text, 20000, 1000, false);
        check_cancel(norm_text, 2, 10000000, false);
        check_cancel(stream_text, 500000, 1000, true);
        check_cancel(column_text, 100000000, 10, true);
    }
    fr_pool_stop();
    fr_launch_trim();
    CHECK(fr_alloc_live() == 0);
    return n_failed != 0;
}
#endif
