/* tests/c/test_cpu.c -- flat entry points into backends/cpu for tests/test_cpu_parts.py (ctypes),
 * and the stress runs that need C: many threads, fork, cancelling. Compiled together with the
 * parts under test into one shared object. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/launch.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/reduce.h"
#include "base/alloc.h"
#include "base/env.h"

/* The map kernels are generated and none of them is called here. */
const struct fr_kernels fr_kernels_generic = {.level = "generic"}, fr_kernels_v2 = {.level = "v2"},
                        fr_kernels_v3 = {.level = "v3"}, fr_kernels_v4 = {.level = "v4"};

static double
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- folds */

static const struct fr_reduce_kernels *
level_named(const char *name)
{
    const struct fr_reduce_kernels *all[] = {&fr_reduce_generic,
#if defined(__x86_64__)
                                             &fr_reduce_v2, &fr_reduce_v3, &fr_reduce_v4
#endif
    };

    for (size_t k = 0; k < FR_LEN(all); k++)
        if (!strcmp(all[k]->level, name))
            return all[k];
    return NULL;
}

int
t_op(const char *name)
{
    return fr_op_find(name, (int)strlen(name));
}

int
t_dtype(const char *name)
{
    return fr_dtype_parse(name, (int)strlen(name));
}

int
t_fold(const char *level, int op, int dtype, size_t n, const void *a, void *out, int64_t *index)
{
    fr_fold_fn *f = level_named(level)->fold[FR_REDUCE_ROW(op)][dtype];

    if (!f)
        return 0;
    f(n, a, out, index);
    return 1;
}

void
t_fold_products(const char *level, int is_f64, size_t n, const void *a, const void *b, void *out)
{
    level_named(level)->fold_products[is_f64](n, a, b, out);
}

int
t_fold_rows(const char *level, int op, int dtype, size_t n_rows, size_t n, const void *a, void *out,
            int64_t *index)
{
    fr_fold_rows_fn *f = level_named(level)->fold_rows[FR_REDUCE_ROW(op)][dtype];

    if (!f)
        return 0;
    f(n_rows, n, a, out, index);
    return 1;
}

int
t_accum(const char *level, int op, int dtype, size_t n_rows, size_t n, void *acc, const void *x,
        ptrdiff_t row_stride, int64_t *index, int64_t i0)
{
    fr_accum_fn *f = level_named(level)->accum[FR_REDUCE_ROW(op)][dtype];

    if (!f)
        return 0;
    f(n_rows, n, acc, x, row_stride, index, i0);
    return 1;
}

/* A whole row by pieces of a tree, joined as they come; with `inner` > 0 each piece is itself
 * walked. */
static void
fold_pieces(const struct fr_reduce_kernels *k, fr_op op, fr_dtype d, int64_t n, int64_t max,
            int64_t inner, const char *a, void *out, int64_t *index)
{
    struct fr_tree       t;
    struct fr_tree_stack s;

    s.top = 0;
    fr_tree_begin(&t, n, max, fr_dtype_is_complex(d));
    while (fr_tree_next(&t)) {
        _Alignas(16) char acc[16];
        int64_t           at = 0;
        const char       *piece = a + t.start * fr_dtype_size(d);

        if (inner)
            fold_pieces(k, op, d, t.n, inner, 0, piece, acc, &at);
        else
            k->fold[FR_REDUCE_ROW(op)][d]((size_t)t.n, piece, acc, &at);
        at += t.start;
        fr_tree_push(&s, &t, op, d, acc, &at);
    }
    memcpy(out, s.value[0].bytes, (size_t)fr_dtype_size(fr_reduce_acc(op, d)));
    *index = s.index[0];
}

void
t_fold_tree(const char *level, int op, int dtype, int64_t n, int64_t max, int64_t inner,
            const void *a, void *out, int64_t *index)
{
    fold_pieces(level_named(level), (fr_op)op, (fr_dtype)dtype, n, max, inner, a, out, index);
}

/* Nanoseconds per call, best of a few. */

double
t_time_fold(const char *level, int op, int dtype, size_t n, const void *a)
{
    fr_fold_fn *f = level_named(level)->fold[FR_REDUCE_ROW(op)][dtype];
    double      best = 1e30;
    char        out[16];
    int64_t     index;
    int         reps = n < 200000 ? (int)(2000000 / (n + 20)) + 1 : 3;

    for (int k = 0; k < 7; k++) {
        double t0 = now_ns(), t;

        for (int r = 0; r < reps; r++)
            f(n, a, out, &index);
        t = (now_ns() - t0) / reps;
        best = t < best ? t : best;
    }
    return best;
}

double
t_time_rows(const char *level, int op, int dtype, size_t n_rows, size_t n, const void *a, void *out)
{
    fr_fold_rows_fn *f = level_named(level)->fold_rows[FR_REDUCE_ROW(op)][dtype];
    double           best = 1e30;
    static int64_t   index[65536];

    for (int k = 0; k < 7; k++) {
        double t0 = now_ns(), t;

        for (int r = 0; r < 200; r++)
            f(n_rows, n, a, out, index);
        t = (now_ns() - t0) / 200;
        best = t < best ? t : best;
    }
    return best;
}

double
t_time_accum(const char *level, int op, int dtype, size_t n_rows, size_t n, void *acc,
             const void *x, ptrdiff_t stride)
{
    fr_accum_fn   *f = level_named(level)->accum[FR_REDUCE_ROW(op)][dtype];
    double         best = 1e30;
    static int64_t index[65536];

    for (int k = 0; k < 7; k++) {
        double t0 = now_ns(), t;

        for (int r = 0; r < 200; r++)
            f(n_rows, n, acc, x, stride, index, 0);
        t = (now_ns() - t0) / 200;
        best = t < best ? t : best;
    }
    return best;
}

/* ---- memory */

/* Nanoseconds for one alloc and free of n_bytes. */
double
t_time_memory(size_t n_bytes)
{
    double best = 1e30;

    for (int k = 0; k < 7; k++) {
        double t0 = now_ns(), t;

        for (int r = 0; r < 100000; r++)
            fr_memory_free(fr_memory_alloc(n_bytes), n_bytes);
        t = (now_ns() - t0) / 100000;
        best = t < best ? t : best;
    }
    return best;
}

struct churn {
    unsigned seed;
    int      n_rounds;
    int      bad;
};

/* Random blocks, each filled with its own mark, freed in random order: none may share a byte. */
static void *
churn(void *arg)
{
    enum { LIVE = 200 };
    struct churn  *c = arg;
    unsigned char *p[LIVE] = {0};
    size_t         n[LIVE] = {0};

    for (int r = 0; r < c->n_rounds; r++) {
        int           k = rand_r(&c->seed) % LIVE;
        unsigned char mark = (unsigned char)(k * 7 + (int)(c->seed & 0x80));

        if (p[k]) {
            for (size_t i = 0; i < n[k]; i += n[k] / 50 + 1)
                c->bad += p[k][i] != p[k][0];
            c->bad += n[k] && p[k][n[k] - 1] != p[k][0];
            fr_memory_free(p[k], n[k]);
            p[k] = NULL;
        } else {
            int kind = rand_r(&c->seed) % 10;

            n[k] = (size_t)rand_r(&c->seed) % (kind < 6 ? 2000 : kind < 9 ? 60000 : 5000000);
            p[k] = fr_memory_alloc(n[k]);
            if (!p[k])
                continue;
            c->bad += (uintptr_t)p[k] % 64 != 0;
            c->bad += n[k] >= 2 << 20 && (uintptr_t)p[k] % (2 << 20) >= 4096;
            memset(p[k], mark, n[k]);
        }
    }
    for (int k = 0; k < LIVE; k++)
        fr_memory_free(p[k], n[k]);
    return NULL;
}

int
t_memory_churn(int n_threads, int n_rounds)
{
    pthread_t    t[16];
    struct churn c[16];
    int          bad = 0;

    for (int k = 0; k < n_threads; k++) {
        c[k] = (struct churn){(unsigned)k + 1, n_rounds, 0};
        pthread_create(&t[k], NULL, churn, &c[k]);
    }
    for (int k = 0; k < n_threads; k++) {
        pthread_join(t[k], NULL);
        bad += c[k].bad;
    }
    return bad;
}

static atomic_bool stop_churn;

static void *
churn_on(void *arg)
{
    struct churn *c = arg;

    while (!atomic_load(&stop_churn))
        churn(c);
    return NULL;
}

/* Forks while threads allocate; the children must be able to. How many could not. */
int
t_memory_fork(int n)
{
    pthread_t    t[3];
    struct churn c[3];
    int          bad = 0;

    atomic_store(&stop_churn, false);
    for (int k = 0; k < 3; k++) {
        c[k] = (struct churn){(unsigned)k + 1, 300, 0};
        pthread_create(&t[k], NULL, churn_on, &c[k]);
    }
    for (int k = 0; k < n; k++) {
        int   status = 0;
        pid_t pid = fork();

        if (pid == 0) {
            struct churn own = {(unsigned)k, 300, 0};

            alarm(20);
            churn(&own);
            fr_memory_trim();
            churn(&own);
            _exit(own.bad != 0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            bad++;
    }
    atomic_store(&stop_churn, true);
    for (int k = 0; k < 3; k++) {
        pthread_join(t[k], NULL);
        bad += c[k].bad;
    }
    return bad;
}

/* ---- pool */

struct counted {
    atomic_int *seen;             /* [n] how often each task ran */
    atomic_int  busy[256];        /* per worker: inside a task */
    atomic_int  bad;
    atomic_int  workers_used[256];
    int         size;
    int         spin;             /* length of a task */
    int         nested;           /* tasks of a run inside each task */
};

static void
nested_task(void *arg, int64_t i, int worker)
{
    struct counted *c = arg;

    (void)i;
    if (worker != 0)
        atomic_fetch_add(&c->bad, 1);
}

static void
counted_task(void *arg, int64_t i, int worker)
{
    struct counted *c = arg;

    if (worker < 0 || worker >= c->size || atomic_fetch_add(&c->busy[worker], 1) != 0)
        atomic_fetch_add(&c->bad, 1);
    atomic_fetch_add(&c->seen[i], 1);
    atomic_store(&c->workers_used[worker], 1);
    for (volatile int k = 0; k < c->spin; k++)
        ;
    if (c->nested && !fr_pool_run(nested_task, c, c->nested))
        atomic_fetch_add(&c->bad, 1);
    atomic_fetch_sub(&c->busy[worker], 1);
}

/* Runs n tasks; the number of broken promises, or -1 - (tasks that ran) if it was cancelled. */
int
t_pool_run(int64_t n, int spin, int nested)
{
    struct counted *c = calloc(1, sizeof *c);
    int             bad = 0, ran = 0;
    bool            done;

    c->seen = calloc((size_t)n + 1, sizeof *c->seen);
    c->size = fr_pool_size();
    c->spin = spin;
    c->nested = nested;
    done = fr_pool_run(counted_task, c, n);
    for (int64_t i = 0; i < n; i++) {
        ran += c->seen[i];
        bad += done ? c->seen[i] != 1 : c->seen[i] > 1;
    }
    bad += c->bad;
    free(c->seen);
    free(c);
    return done || bad ? bad : -1 - ran;
}

int
t_pool_workers(int64_t n, int spin)
{
    struct counted *c = calloc(1, sizeof *c);
    int             used = 0;

    c->seen = calloc((size_t)n + 1, sizeof *c->seen);
    c->size = fr_pool_size();
    c->spin = spin;
    fr_pool_run(counted_task, c, n);
    for (int k = 0; k < 256; k++)
        used += c->workers_used[k];
    free(c->seen);
    free(c);
    return used;
}

static atomic_bool stop_hammer;
static atomic_int  hammer_bad;

static void *
hammer(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop_hammer))
        atomic_fetch_add(&hammer_bad, t_pool_run(37, 500, 0) != 0);
    return NULL;
}

/* Several threads run at once while the size changes under them. */
int
t_pool_concurrent(int n_threads, int ms)
{
    pthread_t t[16];
    double    end = now_ns() + ms * 1e6;
    int       size = fr_pool_size(), k = 0;

    atomic_store(&stop_hammer, false);
    atomic_store(&hammer_bad, 0);
    for (int i = 0; i < n_threads; i++)
        pthread_create(&t[i], NULL, hammer, NULL);
    while (now_ns() < end) {
        fr_pool_set_size(1 + k++ % 5);
        usleep(2000);
    }
    atomic_store(&stop_hammer, true);
    for (int i = 0; i < n_threads; i++)
        pthread_join(t[i], NULL);
    fr_pool_set_size(size);
    return atomic_load(&hammer_bad);
}

/* Forks n times while another thread keeps the pool busy; each child must be able to run. The
 * number of children that failed or hung. */
int
t_pool_fork(int n)
{
    pthread_t t;
    int       bad = 0;

    atomic_store(&stop_hammer, false);
    atomic_store(&hammer_bad, 0);
    pthread_create(&t, NULL, hammer, NULL);
    for (int k = 0; k < n; k++) {
        int   status = 0;
        pid_t pid;

        usleep((unsigned)(k * 37 % 900));
        pid = fork();
        if (pid == 0) {
            alarm(10);
            for (int r = 0; r < 5; r++)
                if (t_pool_run(100, 200, 0) != 0)
                    _exit(1);
            fr_memory_free(fr_memory_alloc(100), 100);
            _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            bad++;
    }
    atomic_store(&stop_hammer, true);
    pthread_join(t, NULL);
    return bad + atomic_load(&hammer_bad);
}

static atomic_int asked, ask_limit;
static atomic_int forked_status;

static bool
interrupt_after(void)
{
    return atomic_fetch_add(&asked, 1) + 1 >= ask_limit;
}

/* A Python signal handler may fork: the child sees its run end as cancelled, the parent's goes
 * on. */
static bool
fork_while_asked(void)
{
    if (atomic_fetch_add(&asked, 1) == 0) {
        pid_t pid = fork();
        int   status = -1;

        if (pid == 0) {
            alarm(10);
            atomic_store(&forked_status, -1);
            return false;
        }
        waitpid(pid, &status, 0);
        atomic_store(&forked_status, status);
    }
    return false;
}

/* Cancels at the limit-th question. As t_pool_run. */
int
t_pool_cancel(int64_t n, int spin, int limit)
{
    int r;

    atomic_store(&asked, 0);
    atomic_store(&ask_limit, limit);
    fr_backend_interrupted = interrupt_after;
    r = t_pool_run(n, spin, 0);
    fr_backend_interrupted = NULL;
    return r;
}

int
t_pool_fork_inside(int64_t n, int spin)
{
    pid_t me = getpid();
    int   r;

    atomic_store(&asked, 0);
    fr_backend_interrupted = fork_while_asked;
    r = t_pool_run(n, spin, 0);
    fr_backend_interrupted = NULL;
    if (getpid() != me)
        _exit(r < 0 && t_pool_run(50, 100, 0) == 0 ? 0 : 1);
    return r != 0 ? 1000 : atomic_load(&forked_status);
}

static void
empty_task(void *arg, int64_t i, int worker)
{
    (void)arg;
    (void)i;
    (void)worker;
}

/* Microseconds of an empty run of 2 tasks: best, and typical after `idle_us` without runs. */
double
t_time_pool(int idle_us, int n)
{
    double sum = 0;

    for (int k = 0; k < n; k++) {
        double t0;

        if (idle_us)
            usleep((unsigned)idle_us);
        t0 = now_ns();
        fr_pool_run(empty_task, NULL, 2);
        sum += now_ns() - t0;
    }
    return sum / n / 1000;
}

/* ---- scans: strides has 2 * (n_outer + 2) entries */

int
t_scan(int op, int dtype, int n_outer, const int64_t *outer, int64_t n_rows, int64_t n_inner,
       char *in, char *out, const int64_t *stride)
{
    struct fr_instance it = {0};
    struct fr_err      err = {0};
    char              *ptr[2] = {in, out};

    it.n_outer = n_outer;
    memcpy(it.outer, outer, (size_t)n_outer * sizeof *outer);
    it.n_rows = n_rows;
    it.n_inner = n_inner;
    it.ptr = ptr;
    it.stride = stride;
    return (int)fr_launch_scan((fr_op)op, (fr_dtype)dtype, &it, &err);
}

const char *
t_isa(const char *wanted)
{
    struct fr_err err = {0};

    strcpy(fr_env.isa, wanted);
    fr_env.quiet = 1;
    return fr_cpu_init(&err) == FR_OK && !strcmp(fr_kernels->level, fr_cpu_isa()) &&
                   !strcmp(fr_reduce->level, fr_cpu_isa())
               ? fr_cpu_isa()
               : "failed";
}
