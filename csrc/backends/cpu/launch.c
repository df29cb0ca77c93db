/* backends/cpu/launch.c -- runs nests over concrete memory.
 *
 * What an instance is was chosen when it was bound (shape.c). What the work is cut into depends on what the nest accumulates
 * (space.h has the words):
 *
 *   nothing   every row on its own; rows of a map also in pieces. If the rows are few and very long, they are done
 *             one after the other and each stage of a row is cut (long_rows.c).
 *   ACCUM     the axes that every accumulator keeps are shared out, and the elements of the row. The rest is walked
 *             in order by one task.
 *   STREAM    as ACCUM, but a task may not have only a part of a row. If the kept axes are too few, cache-sized
 *             blocks of rows are shared out, and added to the accumulators in turn (stream.c).
 *
 * Small work takes none of this: one call on the caller's thread. */
#include "backends/cpu/launch.h"

#include <pthread.h>
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/space.h"
#include "base/alloc.h"
#include "base/tune.h"
#include "base/ways.h"
#include "base/processors.h"

enum {
    PIECE_BYTES = 1024, /* of the row of a nest that accumulates, where so few do for all threads */
    SCRATCH_LEAST = 3 << 19, /* bytes, more than nearly all programs want; untouched, they cost nothing */
};

/* ---- scratch --------------------------------------------------------------------------------- */

static FR_THREAD_LOCAL struct {
    char  *block[FR_N_SCRATCH];
    size_t cap[FR_N_SCRATCH];
} scratch;

static pthread_key_t  scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static bool           scratch_has_key;

void
fr_launch_trim(void)
{
    for (int k = 0; k < FR_N_SCRATCH; k++) {
        fr_free(scratch.block[k]);
        scratch.block[k] = NULL;
        scratch.cap[k] = 0;
    }
}

static void
thread_ends(void *arg)
{
    (void)arg;
    fr_launch_trim();
}

static void
make_key(void)
{
    scratch_has_key = pthread_key_create(&scratch_key, thread_ends) == 0;
}

static void *
scratch_grow(enum fr_scratch which, size_t n_bytes)
{
    char *block;

    /* To grow is to give back pages that are there and to have others made. */
    if (which == FR_SCRATCH_EXEC && n_bytes < SCRATCH_LEAST)
        n_bytes = SCRATCH_LEAST;
    pthread_once(&scratch_once, make_key);
    if (scratch_has_key)
        pthread_setspecific(scratch_key, &scratch);
    if (!(block = fr_malloc(n_bytes + 64)))
        return NULL;
    fr_free(scratch.block[which]);
    scratch.block[which] = block;
    scratch.cap[which] = n_bytes;
    return fr_space_align(block);
}

void *
fr_launch_scratch(enum fr_scratch which, size_t n_bytes)
{
    if (FR_LIKELY(n_bytes <= scratch.cap[which] && scratch.block[which]))
        return fr_space_align(scratch.block[which]);
    return scratch_grow(which, n_bytes);
}

void
fr_launch_fail(atomic_int *failed, fr_status st)
{
    int ok = FR_OK;

    atomic_compare_exchange_strong(failed, &ok, (int)st);
}

bool
fr_launch_interrupted(int64_t *since, int64_t ps)
{
    if (ps < FR_POLL_PS && (*since += ps) < FR_POLL_PS)
        return false;
    *since = 0;
    return fr_backend_interrupted && fr_backend_interrupted();
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Indices [lo, hi) of the kept space, elements [j0, j0 + n) of rows, of instance `first`; or (n ==
 * 0) all of instances [first, first + n_instances). */
struct task {
    int32_t first, n_instances;
    int64_t lo, hi, j0, n;
};

struct work {
    const struct fr_exec     *exec;
    const struct fr_instance *in;
    struct task              *tasks;
    int64_t    rest_lo, rest_hi; /* rows of the space `rest`, of those that accumulate */
    atomic_int failed;           /* fr_status of the first task that could not run */
};

static fr_status
run_part(const struct fr_bound *b, int64_t lo, int64_t hi, int64_t j0, int64_t n, int64_t rest_lo,
         int64_t rest_hi)
{
    const struct fr_exec *e = b->exec;
    char                 *base[FR_MAX_OPERANDS];
    size_t                need = e->scratch_bytes, lanes = e->program->streams ? (size_t)n * 16 : 0;
    void                 *mem = fr_launch_scratch(FR_SCRATCH_EXEC, need > lanes ? need : lanes);
    fr_status             st = FR_OK;

    FR_ASSERT(lo >= 0 && hi <= b->kept.total && j0 >= 0 && j0 + n <= b->in->n_inner);
    FR_ASSERT(rest_lo >= 0 && rest_lo <= rest_hi);
    if (!mem)
        return FR_ENOMEM;
    if (b->in->shape != FR_SHAPE_ACCUM && b->in->shape != FR_SHAPE_ABREAST) {
        fr_space_run(b, &b->kept, b->in->ptr, lo, hi, j0, n, NULL, mem);
        return FR_OK;
    }
    for (int64_t at = lo, n_abreast; at < hi && st == FR_OK; at += n_abreast) {
        fr_space_move(b, &b->kept, at, b->in->ptr, base);
        n_abreast = b->in->shape == FR_SHAPE_ABREAST ? fr_stream_abreast(b, at, hi) : 1;
        st = fr_stream_accumulate(b, base, n_abreast, j0, n, rest_lo, rest_hi, mem);
    }
    return st;
}

static fr_status
run_call(const struct fr_exec *e, const struct fr_instance *in)
{
    int64_t row_stride[FR_MAX_OPERANDS], inner_stride[FR_MAX_OPERANDS];
    void   *mem = fr_launch_scratch(FR_SCRATCH_EXEC, e->scratch_bytes);

    if (!mem)
        return FR_ENOMEM;
    for (int k = 0; k < e->kernel->nest->n_operands; k++) {
        row_stride[k] = in->stride[2 * k];
        inner_stride[k] = in->stride[2 * k + 1];
    }
    fr_exec_rows(e, in->ptr, row_stride, inner_stride, in->n_rows, in->n_inner, in->scalars, mem);
    return FR_OK;
}

/* An instance on this thread, in one piece. */
static fr_status
run_whole(const struct fr_exec *e, const struct fr_instance *in, int64_t rest_lo, int64_t rest_hi)
{
    struct fr_bound b;

    switch ((enum fr_shape)in->shape) {
    case FR_SHAPE_NOTHING: return FR_OK;
    case FR_SHAPE_CALL: return run_call(e, in);
    case FR_SHAPE_JOINED: fr_space_bind(&b, e, in); return fr_short_rows_run(&b, 1);
    case FR_SHAPE_TILES: fr_space_bind(&b, e, in); return fr_tiles_run(&b, 1);
    default: FR_ASSERT(in->shape != FR_SHAPE_UNBOUND);
    }
    fr_space_bind(&b, e, in);
    return run_part(&b, 0, b.kept.total, 0, in->n_inner, rest_lo, rest_hi);
}

static void
run_task(void *arg, int64_t i, int worker)
{
    struct work       *w = arg;
    const struct task *t = &w->tasks[i];
    struct fr_bound    b;
    fr_status          st = FR_OK;

    (void)worker;
    if (atomic_load_explicit(&w->failed, memory_order_relaxed) != FR_OK)
        return;
    for (int k = 0; k < t->n_instances && st == FR_OK; k++) {
        const struct fr_instance *in = &w->in[t->first + k];

        if (t->n == 0) {
            st = run_whole(w->exec, in, w->rest_lo, w->rest_hi);
            continue;
        }
        fr_space_bind(&b, w->exec, in);
        st = run_part(&b, t->lo, t->hi, t->j0, t->n, w->rest_lo, w->rest_hi);
    }
    if (st != FR_OK)
        fr_launch_fail(&w->failed, st);
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* How one instance is cut: tasks of `rows` indices of the kept space and `lanes` elements. */
struct cut {
    int64_t rows, lanes, n_row_tasks, n_lane_tasks;
};

/* Elements of a row may go to different tasks, unless they have an accumulator in common. */
static bool
may_cut_inner(const struct fr_bound *b)
{
    const struct fr_nest *nest = b->nest;

    if (!b->exec->program->may_cut_inner || b->exec->program->streams)
        return false;
    for (uint32_t i = 0; b->exec->program->accumulates && i < nest->n_insts; i++)
        if (nest->insts[i].kind == FR_INST_ACCUM && b->inner_stride[nest->insts[i].operand] == 0)
            return false;
    return true;
}

static int64_t
at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* Each task that accumulates goes down the rows in steps of a whole row, which memory serves the
 * worse the smaller the pieces are: exp(x).sum(0) of 4096x1024 f32 on two threads takes 0.74 ms in
 * four pieces and 1.17 in eight. */
static int64_t
most_pieces(const struct fr_bound *b, int n_threads)
{
    int64_t n = fr_space_bytes(b, b->in->n_inner) / PIECE_BYTES;

    return n > n_threads ? n : n_threads;
}

static void
cut_instance(struct cut *c, const struct fr_bound *b, int64_t ps, int n_threads)
{
    const struct fr_program *p = b->exec->program;
    int64_t                  n = fr_space_tasks(ps, n_threads), total = b->kept.total;
    int64_t                  n_inner = b->in->n_inner, pieces = 1;

    c->lanes = n_inner;
    if (may_cut_inner(b)) {
        if (total < n)
            pieces = (n + total - 1) / (total ? total : 1);
        if (p->accumulates && b->rest.total > 1)
            pieces = at_most(pieces, most_pieces(b, n_threads));
        c->lanes = fr_space_share(n_inner, pieces, FR_CUT);
        if (p->accumulates && c->lanes > fr_tune.lanes && b->rest.total > 1)
            c->lanes = fr_tune.lanes;
    }
    c->n_lane_tasks = n_inner ? (n_inner + c->lanes - 1) / c->lanes : 1;
    n = (n + c->n_lane_tasks - 1) / c->n_lane_tasks;
    c->rows = fr_space_share(total, n, n_inner < FR_CUT ? FR_CUT : 1);
    c->n_row_tasks = (total + c->rows - 1) / c->rows;
}

/* Whether so many tasks of `each` have all n between them, and none of them is empty. */
static FR_DEBUG_ONLY bool
covers(int64_t n, int64_t each, int64_t n_tasks)
{
    return n == 0 || (each > 0 && n_tasks * each >= n && (n_tasks - 1) * each < n);
}

/* Writes the tasks of all instances (counts them if tasks is NULL). Small instances fr_space_share
 * one. */
static int64_t
make_tasks(const struct fr_exec *e, const struct fr_instance *in, int n, int n_threads,
           struct task *tasks)
{
    struct fr_bound b;
    struct cut      c;
    int64_t         n_tasks = 0, pending_ps = 0;
    int             first = 0;

    for (int i = 0; i <= n; i++) {
        int64_t ps = i < n ? fr_space_cost(e, &in[i]) : INT64_MAX;
        if (ps < FR_GRAIN_PS && pending_ps + ps < 2 * FR_GRAIN_PS) {
            pending_ps += ps;
            continue;
        }
        if (i > first) {
            if (tasks)
                tasks[n_tasks] = (struct task){.first = first, .n_instances = i - first};
            n_tasks++;
        }
        first = i;
        pending_ps = ps;
        if (i == n || ps < FR_GRAIN_PS)
            continue;
        pending_ps = 0;
        first = i + 1;
        fr_space_bind(&b, e, &in[i]);
        cut_instance(&c, &b, ps, n_threads);
        FR_ASSERT(covers(b.kept.total, c.rows, c.n_row_tasks) && covers(b.in->n_inner, c.lanes, c.n_lane_tasks));
        FR_ASSERT(c.n_lane_tasks == 1 || c.lanes % FR_CUT == 0);
        for (int64_t r = 0; r < c.n_row_tasks; r++)
            for (int64_t l = 0; l < c.n_lane_tasks; l++, n_tasks++) {
                int64_t lo = r * c.rows, j0 = l * c.lanes;
                if (!tasks)
                    continue;
                tasks[n_tasks].first = i;
                tasks[n_tasks].n_instances = 1;
                tasks[n_tasks].lo = lo;
                tasks[n_tasks].hi = b.kept.total - lo < c.rows ? b.kept.total : lo + c.rows;
                tasks[n_tasks].j0 = j0;
                tasks[n_tasks].n = b.in->n_inner - j0 < c.lanes ? b.in->n_inner - j0 : c.lanes;
            }
    }
    return n_tasks;
}

/* Tasks that accumulate cannot have fewer rows than their accumulators, so the rows are taken in
 * sections between which Ctrl-C is looked for. Returns the most rows that an instance has. */
static int64_t
cut_rest(const struct fr_exec *e, const struct fr_instance *in, int n, int64_t n_tasks,
         int64_t *section)
{
    struct fr_bound b;
    double          ps = 0, n_sections;
    int64_t         longest = 1;

    for (int i = 0; i < n; i++) {
        fr_space_bind(&b, e, &in[i]);
        ps += (double)in[i].ps;
        longest = b.rest.total > longest ? b.rest.total : longest;
    }
    n_sections = ps / (double)n_tasks / (8 * FR_TASK_PS);
    *section = n_sections > 1 ? (int64_t)((double)longest / n_sections) + 1 : longest;
    return longest;
}

static fr_status
run_tasks(const struct fr_exec *e, const struct fr_instance *in, int n, int n_threads)
{
    struct work w = {.exec = e, .in = in};
    int64_t     n_tasks = make_tasks(e, in, n, n_threads, NULL), longest, section = 1;
    int64_t     since_poll = 0;

    if (!n_tasks)
        return FR_OK;
    if (!(w.tasks = fr_launch_scratch(FR_SCRATCH_PLAN, (size_t)n_tasks * sizeof *w.tasks)))
        return FR_ENOMEM;
    make_tasks(e, in, n, n_threads, w.tasks);
    longest = e->program->accumulates ? cut_rest(e, in, n, n_tasks, &section) : 1;
    do {
        w.rest_hi = longest - w.rest_lo > section ? w.rest_lo + section : INT64_MAX;
        if (!fr_pool_run(run_task, &w, n_tasks) ||
            (section < longest && fr_launch_interrupted(&since_poll, FR_POLL_PS)))
            return FR_EINTR;
        w.rest_lo = w.rest_hi;
    } while (w.rest_lo < longest && w.failed == FR_OK);
    return (fr_status)w.failed;
}

typedef fr_status own_way(const struct fr_bound *, int n_threads);

/* How an instance is cut that is not cut into tasks beside others; NULL: it is. */
static own_way *
way_of_its_own(const struct fr_bound *b, int n_threads)
{
    switch ((enum fr_shape)b->in->shape) {
    case FR_SHAPE_JOINED: return fr_short_rows_run;
    case FR_SHAPE_TILES: return fr_tiles_run;
    case FR_SHAPE_LONG: return fr_long_rows_wanted(b, n_threads) ? fr_long_rows_run : NULL;
    case FR_SHAPE_ACCUM:
    case FR_SHAPE_ABREAST: return fr_stream_wanted(b, n_threads) ? fr_stream_run : NULL;
    default: return NULL;
    }
}

/* What is not small: those that have a way of their own go one after the other, what lies between them together. */
static fr_status
run_shared(const struct fr_exec *e, const struct fr_instance *in, int n, int n_threads)
{
    struct fr_bound b;
    own_way        *way;
    int             first = 0;
    fr_status       st = FR_OK;

    for (int i = 0; i < n && st == FR_OK; i++) {
        fr_space_bind(&b, e, &in[i]);
        if (!(way = way_of_its_own(&b, n_threads)))
            continue;
        st = run_tasks(e, in + first, i - first, n_threads);
        first = i + 1;
        if (st == FR_OK)
            st = way(&b, n_threads);
    }
    return st == FR_OK ? run_tasks(e, in + first, n - first, n_threads) : st;
}

/* Whether there is something faster than the code of the kernel; `run` is to end with the launch. */
static bool
is_better_interpreted(const struct fr_program *p, struct fr_cpu_kernel *kernel, const struct fr_instance *in, int64_t ps,
                      struct fr_duel_run *run)
{
    if (p->better_than_code)
        return true;
    if (ps < 1000 * fr_tune.duel_ns || fr_is_off(FR_OFF_duel))
        return false;
    fr_count_way(FR_WAY_duel);
    return fr_duel_begin(run, &kernel->duel, ps, fr_instance_row(&in[0])) == FR_DUEL_INTERPRETED;
}

static size_t
scratch_bytes(const struct fr_program *p, const struct fr_nest_code *code)
{
    return code && p->code_scratch_bytes > p->scratch_bytes ? p->code_scratch_bytes : p->scratch_bytes;
}

static void
choose_executor(struct fr_exec *e, struct fr_cpu_kernel *kernel, const struct fr_instance *in, int64_t ps,
                struct fr_duel_run *run)
{
    e->program = kernel->program;
    e->kernel = &kernel->k;
    e->code = NULL;
    if (fr_env_uses_code())
        e->code = atomic_load_explicit(&kernel->code, memory_order_acquire);
    run->of = NULL;
    if (e->code && fr_env.jit_bits == FR_JIT_AUTO && is_better_interpreted(e->program, kernel, in, ps, run))
        e->code = NULL;
    e->scratch_bytes = scratch_bytes(e->program, e->code);
}

/* Counts what is packed, and adds up what all take. */
static int64_t
begin(const struct fr_instance *in, int n)
{
    double ps = 0;

    for (int i = 0; i < n; i++) {
        ps += (double)in[i].ps;
        fr_count_ways(FR_WAY_joined, in[i].shape == FR_SHAPE_JOINED);
        fr_count_ways(FR_WAY_packed, (unsigned)in[i].n_packed);
    }
    return fr_expect_saturate(ps);
}

fr_status
fr_launch(struct fr_kernel *k, const struct fr_instance *in, int n, struct fr_err *err)
{
    struct fr_cpu_kernel *kernel = (struct fr_cpu_kernel *)k;
    struct fr_exec        e;
    struct fr_cost_run    run = {.n_threads = 1};
    struct fr_duel_run    duel;
    struct fr_cost       *cost;
    fr_status             st = FR_OK;

    for (; n > 0 && in->shape == FR_SHAPE_NOTHING; n--)
        in++;
    if (n == 0)
        return FR_OK;
    run.ps = begin(in, n);
    choose_executor(&e, kernel, in, run.ps, &duel);
    fr_count_way(e.code ? FR_WAY_jitted : FR_WAY_interpreted);
    cost = &kernel->cost[e.code != NULL];
    e.rate = fr_cost_rate(cost);
    fr_cost_begin(&run, cost);
    fr_count_ways(FR_WAY_shared, run.n_threads > 1);
    if (run.n_threads > 1 || run.ps >= FR_TASK_PS)
        st = run_shared(&e, in, n, run.n_threads);
    else
        for (int i = 0; i < n && st == FR_OK; i++)
            st = run_whole(&e, &in[i], 0, INT64_MAX);
    fr_cost_end(&run, cost);
    fr_duel_end(&duel, run.n_threads);
    if (st == FR_ENOMEM)
        return fr_fail(err, st, "scratch of %zu bytes for a kernel", e.scratch_bytes);
    if (st == FR_EINTR)
        return fr_fail(err, st, "interrupted");
    return st;
}

/* ---- in parts -------------------------------------------------------------------------------- */

/* What fr_parts has for its backend. */
struct __attribute__((may_alias)) parts {
    const struct fr_nest_code *code;      /* NULL: interpreted */
    struct fr_duel_run         duel;
};
_Static_assert(sizeof(struct parts) <= sizeof ((struct fr_parts *)0)->own, "there is room for it");

void
fr_launch_parts_begin(struct fr_parts *l, struct fr_kernel *k, const struct fr_instance *in, int n)
{
    struct fr_cpu_kernel *kernel = (struct fr_cpu_kernel *)k;
    struct parts         *own = (struct parts *)l->own;
    struct fr_exec        e;

    *l = (struct fr_parts){.kernel = k};
    choose_executor(&e, kernel, in, begin(in, n), &own->duel);
    own->code = e.code;
    fr_count_way(e.code ? FR_WAY_jitted : FR_WAY_interpreted);
}

fr_status
fr_launch_part(const struct fr_parts *l, const struct fr_instance *in)
{
    const struct fr_cpu_kernel *kernel = (const struct fr_cpu_kernel *)l->kernel;
    const struct fr_program    *p = kernel->program;
    struct fr_exec              e = {.program = p, .kernel = &kernel->k, .code = ((const struct parts *)l->own)->code};

    e.rate = fr_cost_rate(&kernel->cost[e.code != NULL]);
    e.scratch_bytes = scratch_bytes(p, e.code);
    return run_whole(&e, in, 0, INT64_MAX);
}

void
fr_launch_parts_end(const struct fr_parts *l, int64_t ns)
{
    const struct fr_duel_run *duel = &((const struct parts *)l->own)->duel;

    if (duel->of)
        fr_duel_learn(duel, (double)ns * 1000 / (double)duel->ps);
}
