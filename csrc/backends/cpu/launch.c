/* backends/cpu/launch.c -- runs nests over concrete memory.
 *
 * What an instance has to do is a *space*: its outer axes and its rows, counted as one long sequence of
 * rows. Who may do what at the same time depends on what the nest accumulates:
 *
 *   nothing      every row on its own; rows of a map also in pieces. If the rows are few and very long, they are done
 *                one after the other and each stage of a row is cut (run_long_row).
 *   ACCUM        the outer axes that every accumulator keeps are shared out, and the elements of the row. The
 *                rest is walked in order by one task (accumulate_part).
 *   STREAM       as ACCUM, but a task may not have a part of a row only. If the kept axes are too few, the rows
 *                of a cache-sized block run in parallel, storing to scratch, and then the block is
 *                added to the accumulators in the order of its rows, in parallel over their elements
 *                (run_stream).
 *
 * Small work takes none of this: one call on the caller's thread. */
#include "backends/cpu/launch.h"

#include <pthread.h>
#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/program.h"
#include "backends/ref/ref.h"
#include "base/alloc.h"
#include "base/env.h"

/* Estimated picoseconds (fr_program.ps_full), where a figure is not said to be something else. */
#define SERIAL_PS 20000000ll     /* less work than this does not pay for waking threads */
#define GRAIN_PS 8000000ll       /* of a task at least */
#define TASK_PS 2000000000ll     /* and at most: Ctrl-C is looked for between tasks */
#define POLL_PS 4000000000ll     /* between two looks for Ctrl-C */
enum {
    TASKS_PER_THREAD = 4,        /* so that stealing evens out what the estimate missed */
    TASKS_MAX = 1 << 16,         /* of one instance: work of minutes */
    CUT = 64,                    /* elements: pieces of rows begin at multiples of this */
    LANES_MAX = 16384,           /* accumulators that stay in L2 while rows go by */
    STREAM_BYTES = 512 << 10,    /* of streamed values per thread between two phases; half an L2 of 1 MB */
};

/* ---- scratch: two growing blocks per thread, kept until it ends ---------------------------------- */

enum { SCRATCH_EXEC, SCRATCH_PLAN, SCRATCH_STREAM, N_SCRATCH };

static __thread struct {
    char  *block[N_SCRATCH];
    size_t cap[N_SCRATCH];
} scratch;

static pthread_key_t  scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static bool           scratch_has_key;

void
fr_launch_trim(void)
{
    for (int k = 0; k < N_SCRATCH; k++) {
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

static char *
align64(char *p)
{
    return (char *)(((uintptr_t)p + 63) & ~(uintptr_t)63);
}

static void *
scratch_grow(int which, size_t n_bytes)
{
    char *block;

    pthread_once(&scratch_once, make_key);
    if (scratch_has_key)
        pthread_setspecific(scratch_key, &scratch);
    if (!(block = fr_malloc(n_bytes + 64)))
        return NULL;
    fr_free(scratch.block[which]);
    scratch.block[which] = block;
    scratch.cap[which] = n_bytes;
    return align64(block);
}

/* At least n_bytes, 64-byte aligned, valid until the thread asks for this one again; NULL when memory is out. */
static inline void *
scratch_get(int which, size_t n_bytes)
{
    if (FR_LIKELY(n_bytes <= scratch.cap[which] && scratch.block[which]))
        return align64(scratch.block[which]);
    return scratch_grow(which, n_bytes);
}

/* ---- counters ------------------------------------------------------------------------------------ */

static atomic_ullong n_launches, n_interpreted, n_jitted, n_ref, n_bytes_moved;

void
fr_launch_stats(struct fr_launch_stats *out)
{
    out->n_launches = n_launches;
    out->n_interpreted = n_interpreted;
    out->n_jitted = n_jitted;
    out->n_ref = n_ref;
    out->bytes = n_bytes_moved;
}

static void
count(atomic_ullong *c, uint64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* Elements that the operand really has: broadcast axes are read from cache. */
static uint64_t
operand_bytes(const struct fr_nest *nest, const struct fr_instance *in, int k)
{
    const int64_t *stride = in->stride + (int64_t)k * (in->n_outer + 2);
    uint64_t       n = (uint64_t)fr_dtype_size(nest->operands[k].dtype);

    for (int d = 0; d < in->n_outer; d++)
        if (stride[d])
            n *= (uint64_t)in->outer[d];
    if (stride[in->n_outer])
        n *= (uint64_t)in->n_rows;
    return stride[in->n_outer + 1] ? n * (uint64_t)in->n_inner : n;
}

/* ---- the executor -------------------------------------------------------------------------------- */

struct exec {
    const struct fr_program   *program;
    const struct fr_nest_code *code;        /* NULL: interpret */
    const struct fr_nest      *nest;
    size_t                     scratch_bytes;
};

static void
exec_init(struct exec *e, struct fr_kernel *kernel)
{
    const char *mode = fr_env.jit;

    e->program = kernel->program;
    e->nest = kernel->nest;
    e->code = NULL;
    if (mode[0] != 'o' && mode[0] != 'i') /* off, interpret */
        e->code = atomic_load_explicit(&kernel->code, memory_order_acquire);
    e->scratch_bytes = e->program->scratch_bytes;
    if (e->code && e->program->code_scratch_bytes > e->scratch_bytes)
        e->scratch_bytes = e->program->code_scratch_bytes;
}

static inline void
exec_rows(const struct exec *e, char *const *ptr, const int64_t *row_stride,
          const int64_t *inner_stride, int64_t n_rows, int64_t n_inner, const void *scalars,
          void *mem)
{
    if (e->code)
        e->code->rows(ptr, row_stride, inner_stride, n_rows, n_inner, scalars, mem);
    else
        fr_interp_rows(e->program, ptr, row_stride, inner_stride, n_rows, n_inner, scalars, mem);
}

static void
exec_stage(const struct exec *e, int s, char *const *ptr, const int64_t *inner_stride, int64_t j0,
           int64_t n, const void *scalars, const struct fr_slot *slots, struct fr_slot *out,
           void *mem)
{
    if (e->code)
        e->code->stage[s](ptr, inner_stride, j0, n, scalars, slots, out, mem);
    else
        fr_interp_stage(e->program, s, ptr, inner_stride, j0, n, scalars, slots, out, mem);
}

static void
exec_mid(const struct exec *e, int s, char *const *ptr, const void *scalars, struct fr_slot *slots,
         void *mem)
{
    if (e->code)
        e->code->mid[s](ptr, scalars, slots);
    else
        fr_interp_mid(e->program, s, ptr, scalars, slots, mem);
}

/* ---- estimates ----------------------------------------------------------------------------------- */

static int64_t
saturating(double ps)
{
    return ps < 9e18 ? (int64_t)ps : INT64_MAX;
}

static int64_t
row_ps(const struct fr_program *p, const struct fr_instance *in)
{
    return saturating((double)p->ps_row + (double)p->ps_full * (double)in->n_inner);
}

static int64_t
instance_ps(const struct fr_program *p, const struct fr_instance *in)
{
    double n = (double)in->n_rows;

    for (int d = 0; d < in->n_outer; d++)
        n *= (double)in->outer[d];
    return saturating(n * (double)row_ps(p, in));
}

/* ---- spaces -------------------------------------------------------------------------------------- */

/* Some of an instance's outer axes, outermost first, and perhaps its rows. */
struct space {
    int     n_axes;
    int     axis[FR_LAUNCH_AXES];
    int64_t size[FR_LAUNCH_AXES];
    int64_t n_rows;
    int64_t total;               /* product of all */
};

static void
space_clear(struct space *sp)
{
    sp->n_axes = 0;
    sp->n_rows = sp->total = 1;
}

static void
space_add(struct space *sp, int axis, int64_t size)
{
    sp->axis[sp->n_axes] = axis;
    sp->size[sp->n_axes++] = size;
    sp->total *= size;
}

static void
space_rows(struct space *sp, int64_t n_rows)
{
    sp->n_rows = n_rows;
    sp->total *= n_rows;
}

/* An instance with strides by kind, and what is done with it. */
struct bound {
    const struct fr_instance *in;
    const struct exec        *exec;
    const struct fr_nest     *nest;
    struct space              kept;     /* shared out among tasks */
    struct space              rest;     /* walked in order for each index of `kept`; 1 without accumulators */
    int64_t row_stride[FR_MAX_OPERANDS], inner_stride[FR_MAX_OPERANDS];
};

static bool
is_accumulator(const struct fr_nest *nest, const struct fr_inst *i)
{
    return i->kind == FR_INST_ACCUM ||
           (i->kind == FR_INST_STORE && nest->operands[i->operand].flags & FR_OPERAND_STREAM);
}

static fr_op
accumulator_op(const struct fr_inst *i)
{
    return i->kind == FR_INST_ACCUM || fr_op_info[i->op].class_ == FR_CLASS_REDUCE ? i->op : FR_OP_sum;
}

static const int64_t *
strides_of(const struct bound *b, int operand)
{
    return b->in->stride + (int64_t)operand * (b->in->n_outer + 2);
}

/* Whether some accumulator combines along this axis, so that it must be walked in order. */
static bool
is_reduced(const struct bound *b, int axis)
{
    const struct fr_nest *nest = b->nest;

    if (b->in->outer[axis] == 1)
        return false;
    for (uint32_t i = 0; i < nest->n_insts; i++)
        if (is_accumulator(nest, &nest->insts[i]) &&
            strides_of(b, nest->insts[i].operand)[axis] == 0)
            return true;
    return false;
}

static void
bind_strides(struct bound *b, const struct exec *e, const struct fr_instance *in)
{
    const int64_t *stride = in->stride + in->n_outer;

    b->in = in;
    b->exec = e;
    b->nest = e->nest;
    for (int k = 0; k < e->nest->n_operands; k++, stride += in->n_outer + 2) {
        b->row_stride[k] = stride[0];
        b->inner_stride[k] = stride[1];
    }
}

static void
bind_instance(struct bound *b, const struct exec *e, const struct fr_instance *in)
{
    bool accumulates = e->program->accumulates || e->program->streams;

    bind_strides(b, e, in);
    space_clear(&b->kept);
    space_clear(&b->rest);
    for (int d = 0; d < in->n_outer; d++)
        space_add(accumulates && is_reduced(b, d) ? &b->rest : &b->kept, d, in->outer[d]);
    space_rows(accumulates ? &b->rest : &b->kept, in->n_rows);
}

/* Pointers at index `at` of a space (its rows excluded), from those at index 0. */
static void
move_pointers(const struct bound *b, const struct space *sp, int64_t at, char *const *from, char **to)
{
    int n = b->nest->n_operands;

    memcpy(to, from, (size_t)n * sizeof *to);
    for (int d = sp->n_axes; d-- > 0 && at;) {
        int64_t index = at % sp->size[d];
        at /= sp->size[d];
        if (index)
            for (int k = 0; k < n; k++)
                to[k] = (char *)((uintptr_t)to[k] +
                                 (uintptr_t)(index * strides_of(b, k)[sp->axis[d]]));
    }
}

static void
advance(const struct bound *b, char **ptr, const int64_t *stride, int64_t by)
{
    if (by)
        for (int k = 0; k < b->nest->n_operands; k++)
            ptr[k] = (char *)((uintptr_t)ptr[k] + (uintptr_t)(by * stride[k]));
}

/* Where a block of streamed rows is kept: operand k's rows begin at block[k], `bytes[k]` each. */
struct stream {
    char   *block[FR_MAX_OPERANDS];
    int64_t bytes[FR_MAX_OPERANDS];
    int64_t first_row;          /* of the space that block[] holds */
};

/* Runs rows [lo, hi) of a space, elements [j0, j0 + n) of each. `base` is at index 0 of the space. With `stream`, the
 * operands that it has go to its blocks. */
static void
run_range(const struct bound *b, const struct space *sp, char *const *base, int64_t lo, int64_t hi,
          int64_t j0, int64_t n, const struct stream *stream, void *mem)
{
    char   *ptr[FR_MAX_OPERANDS];
    int64_t row_stride[FR_MAX_OPERANDS], inner_stride[FR_MAX_OPERANDS];
    const int64_t *by_row = b->row_stride, *by = b->inner_stride;

    if (stream) {
        memcpy(row_stride, by_row, sizeof row_stride);
        memcpy(inner_stride, by, sizeof inner_stride);
        for (int k = 0; k < b->nest->n_operands; k++)
            if (stream->block[k]) {
                row_stride[k] = stream->bytes[k];
                inner_stride[k] = fr_dtype_size(b->nest->operands[k].dtype);
            }
        by_row = row_stride;
        by = inner_stride;
    }
    while (lo < hi) {
        int64_t r = lo % sp->n_rows, n_rows = sp->n_rows - r;
        n_rows = n_rows < hi - lo ? n_rows : hi - lo;
        move_pointers(b, sp, lo / sp->n_rows, base, ptr);
        advance(b, ptr, b->row_stride, r);
        advance(b, ptr, b->inner_stride, j0);
        if (stream)
            for (int k = 0; k < b->nest->n_operands; k++)
                if (stream->block[k])
                    ptr[k] = stream->block[k] + (lo - stream->first_row) * stream->bytes[k];
        exec_rows(b->exec, ptr, by_row, by, n_rows, n, b->in->scalars, mem);
        lo += n_rows;
    }
}

/* The pool looks for Ctrl-C within a run that takes long; where work is a series of short runs, this is called after each of
 * about `ps`. */
static bool
is_interrupted(int64_t *since, int64_t ps)
{
    if (ps < POLL_PS && (*since += ps) < POLL_PS)
        return false;
    *since = 0;
    return fr_pool_interrupted && fr_pool_interrupted();
}

/* ---- accumulators -------------------------------------------------------------------------------- */

/* Fills accumulator `i` (its elements [j0, j0 + n)) with the identity, for every index of b->rest. */
static void
fill_accumulator(const struct bound *b, const struct fr_inst *i, char *const *base, int64_t j0,
                 int64_t n)
{
    _Alignas(16) char identity[16];
    struct space      sp;
    char             *ptr[FR_MAX_OPERANDS];
    const int64_t    *stride = strides_of(b, i->operand);
    int               size = fr_dtype_size(i->dtype);

    fr_reduce_identity(accumulator_op(i), i->dtype, 1, identity, NULL);
    space_clear(&sp);
    for (int d = 0; d < b->rest.n_axes; d++)
        if (stride[b->rest.axis[d]])
            space_add(&sp, b->rest.axis[d], b->rest.size[d]);
    for (int64_t at = 0; at < sp.total; at++) {
        move_pointers(b, &sp, at, base, ptr);
        if (i->level == FR_LEVEL_ROW)
            memcpy(ptr[i->operand], identity, (size_t)size);
        else
            fr_copy_2d(1, (size_t)n, size, ptr[i->operand] + j0 * b->inner_stride[i->operand], 0,
                       b->inner_stride[i->operand], identity, 0, 0);
    }
}

static void
fill_accumulators(const struct bound *b, char *const *base, int64_t j0, int64_t n)
{
    for (uint32_t i = 0; i < b->nest->n_insts; i++)
        if (is_accumulator(b->nest, &b->nest->insts[i]))
            fill_accumulator(b, &b->nest->insts[i], base, j0, n);
}

/* Adds rows [first, first + n_rows) of the block, elements [j0, j0 + n), to the accumulators of one streamed store.
 * base is at index 0 of b->rest, whose outer axes change the accumulator where it keeps them. */
static void
fold_stream(const struct bound *b, const struct fr_inst *i, char *const *base,
            const struct stream *stream, int64_t n_rows, int64_t j0, int64_t n, void *mem)
{
    fr_accum_fn *accum = b->exec->program->reduce->accum[FR_REDUCE_ROW(accumulator_op(i))][i->dtype];
    const int    size = fr_dtype_size(i->dtype), k = i->operand;
    int64_t      at = stream->first_row, end = at + n_rows, by = b->inner_stride[k];
    int64_t      per_row = 1;          /* elements that go to one accumulator */
    char        *ptr[FR_MAX_OPERANDS];

    if (i->level == FR_LEVEL_ROW || by == 0) {
        if (j0 != 0)
            return; /* one accumulator: the task with the first elements does it */
        n = 1;
        per_row = stream->bytes[k] / size;
    }
    while (at < end) {
        int64_t count = b->rest.n_rows - at % b->rest.n_rows;
        char   *from = stream->block[k] + (at - stream->first_row) * stream->bytes[k], *acc;
        count = count < end - at ? count : end - at;
        move_pointers(b, &b->rest, at / b->rest.n_rows, base, ptr);
        acc = ptr[k] + j0 * by;
        if (by == size || n == 1) {
            accum((size_t)(count * per_row), (size_t)n, acc, from + j0 * size,
                  stream->bytes[k] / per_row, NULL, 0);
        } else {
            fr_copy_gather((size_t)n, size, mem, acc, by);
            accum((size_t)count, (size_t)n, mem, from + j0 * size, stream->bytes[k], NULL, 0);
            fr_copy_scatter((size_t)n, size, acc, by, mem);
        }
        at += count;
    }
}

static int64_t
streamed_row_bytes(const struct bound *b)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < b->nest->n_insts; i++) {
        const struct fr_inst *in = &b->nest->insts[i];
        if (in->kind == FR_INST_STORE && is_accumulator(b->nest, in))
            n += fr_dtype_size(in->dtype) * (in->level == FR_LEVEL_ROW ? 1 : b->in->n_inner);
    }
    return n;
}

/* Shares `mem` (n_rows * streamed_row_bytes + 64 per stream) among the streamed operands. */
static void
stream_init(struct stream *s, const struct bound *b, char *mem, int64_t n_rows)
{
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < b->nest->n_insts; i++) {
        const struct fr_inst *in = &b->nest->insts[i];
        if (in->kind != FR_INST_STORE || !is_accumulator(b->nest, in))
            continue;
        s->block[in->operand] = mem;
        s->bytes[in->operand] =
            fr_dtype_size(in->dtype) * (in->level == FR_LEVEL_ROW ? 1 : b->in->n_inner);
        mem = align64(mem + n_rows * s->bytes[in->operand]);
    }
}

static int64_t
stream_rows(const struct bound *b, int64_t budget)
{
    int64_t bytes = streamed_row_bytes(b), n;

    n = bytes ? budget / bytes : 1;
    n = n < 1 ? 1 : n;
    return n < b->rest.total ? n : b->rest.total;
}

static size_t
stream_bytes(const struct bound *b, int64_t n_rows)
{
    return (size_t)(n_rows * streamed_row_bytes(b)) + 64 * FR_MAX_OPERANDS;
}

/* ---- tasks --------------------------------------------------------------------------------------- */

/* Indices [lo, hi) of the kept space, elements [j0, j0 + n) of rows, of instance `first`; or (n == 0) all of
 * instances [first, first + n_instances). */
struct task {
    int32_t first, n_instances;
    int64_t lo, hi, j0, n;
};

struct work {
    const struct exec        *exec;
    const struct fr_instance *in;
    struct task              *tasks;
    int64_t                   rest_lo, rest_hi;  /* rows of the space `rest`, of those that accumulate */
    atomic_int                failed;    /* fr_status of the first task that could not run */
};

static void
task_failed(atomic_int *failed, fr_status st)
{
    int ok = FR_OK;

    atomic_compare_exchange_strong(failed, &ok, (int)st);
}

/* One index of b->kept: rows [lo, hi) of b->rest are added to its accumulators. */
static fr_status
accumulate_part(const struct bound *b, char *const *base, int64_t j0, int64_t n, int64_t lo,
                int64_t hi, void *mem)
{
    struct stream s;
    int64_t       block;
    char         *room;

    hi = hi < b->rest.total ? hi : b->rest.total;
    if (lo == 0)
        fill_accumulators(b, base, j0, n);
    if (!b->exec->program->streams) {
        run_range(b, &b->rest, base, lo, hi, j0, n, NULL, mem);
        return FR_OK;
    }
    block = stream_rows(b, STREAM_BYTES);
    if (!(room = scratch_get(SCRATCH_STREAM, stream_bytes(b, block))))
        return FR_ENOMEM;
    stream_init(&s, b, room, block);
    for (int64_t at = lo; at < hi; at += block) {
        int64_t n_rows = hi - at < block ? hi - at : block;
        s.first_row = at;
        run_range(b, &b->rest, base, at, at + n_rows, 0, n, &s, mem);
        for (uint32_t i = 0; i < b->nest->n_insts; i++)
            if (b->nest->insts[i].kind == FR_INST_STORE && s.block[b->nest->insts[i].operand])
                fold_stream(b, &b->nest->insts[i], base, &s, n_rows, 0, n, mem);
    }
    return FR_OK;
}

static fr_status
run_part(const struct bound *b, int64_t lo, int64_t hi, int64_t j0, int64_t n, int64_t rest_lo,
         int64_t rest_hi)
{
    const struct exec *e = b->exec;
    char              *base[FR_MAX_OPERANDS];
    size_t             need = e->scratch_bytes, lanes = e->program->streams ? (size_t)n * 16 : 0;
    void              *mem = scratch_get(SCRATCH_EXEC, need > lanes ? need : lanes);
    fr_status          st = FR_OK;

    if (!mem)
        return FR_ENOMEM;
    if (!e->program->accumulates && !e->program->streams) {
        run_range(b, &b->kept, b->in->ptr, lo, hi, j0, n, NULL, mem);
        return FR_OK;
    }
    for (int64_t at = lo; at < hi && st == FR_OK; at++) {
        move_pointers(b, &b->kept, at, b->in->ptr, base);
        st = accumulate_part(b, base, j0, n, rest_lo, rest_hi, mem);
    }
    return st;
}

static void
run_task(void *arg, int64_t i, int worker)
{
    struct work       *w = arg;
    const struct task *t = &w->tasks[i];
    struct bound       b;
    fr_status          st = FR_OK;

    (void)worker;
    if (atomic_load_explicit(&w->failed, memory_order_relaxed) != FR_OK)
        return;
    for (int k = 0; k < t->n_instances && st == FR_OK; k++) {
        bind_instance(&b, w->exec, &w->in[t->first + k]);
        st = t->n ? run_part(&b, t->lo, t->hi, t->j0, t->n, w->rest_lo, w->rest_hi)
                  : run_part(&b, 0, b.kept.total, 0, b.in->n_inner, w->rest_lo, w->rest_hi);
    }
    if (st != FR_OK)
        task_failed(&w->failed, st);
}

/* ---- long rows ----------------------------------------------------------------------------------- */

struct piece {
    int64_t start, n;
};

struct long_row {
    const struct bound   *b;
    char *const          *ptr;        /* at the row */
    int                   stage;
    const struct fr_slot *slots;
    struct piece         *pieces;
    struct fr_slot       *partial;    /* [piece][reduction of the stage] */
    atomic_int            failed;
};

static size_t
slots_bytes(const struct fr_nest *nest)
{
    return (nest->n_insts * sizeof(struct fr_slot) + 63) & ~(size_t)63;
}

static uint32_t
stage_reduces(const struct fr_long_stage *s)
{
    return s->full.end - s->first_reduce;
}

static void
run_piece(void *arg, int64_t i, int worker)
{
    struct long_row            *row = arg;
    const struct exec          *e = row->b->exec;
    const struct fr_program    *p = e->program;
    const struct fr_long_stage *s = &p->stages[row->stage];
    uint32_t                    n_reduces = stage_reduces(s);
    size_t                      n_slots = slots_bytes(e->nest);
    char                       *mem = scratch_get(SCRATCH_EXEC, e->scratch_bytes + n_slots);
    struct fr_slot             *out;

    (void)worker;
    if (!mem) {
        task_failed(&row->failed, FR_ENOMEM);
        return;
    }
    out = (struct fr_slot *)mem;
    exec_stage(e, row->stage, row->ptr, row->b->inner_stride, row->pieces[i].start,
               row->pieces[i].n, row->b->in->scalars, row->slots, out, mem + n_slots);
    for (uint32_t k = 0; k < n_reduces; k++)
        row->partial[i * n_reduces + k] = out[p->steps[s->first_reduce + k].inst];
}

/* The result of reduction k from its partial results, joined in the order of the tree. */
static void
join_pieces(const struct fr_long_stage *s, const struct fr_step *st, int64_t n, int64_t max,
            const struct fr_slot *partial, uint32_t n_reduces, struct fr_slot *out)
{
    fr_op                op = (fr_op)(FR_OP_sum + st->op_row);
    bool                 indexed = op == FR_OP_argmax || op == FR_OP_argmin;
    struct fr_tree       t;
    struct fr_tree_stack stack;

    stack.top = 0;
    fr_tree_begin(&t, n, max, s->wide);
    for (; fr_tree_next(&t); partial += n_reduces)
        fr_tree_push(&stack, &t, op, st->in, partial->v.bytes, indexed ? &partial->index : NULL);
    fr_reduce_finish(op, st->in, stack.value[0].bytes, indexed ? &stack.index[0] : NULL, out->v.bytes);
}

/* One row, stage by stage, each stage in pieces of about `max` elements. */
static fr_status
run_long_row(const struct bound *b, char *const *ptr, int64_t max, struct fr_slot *slots,
             char *room, void *mem)
{
    const struct exec       *e = b->exec;
    const struct fr_program *p = e->program;
    int64_t                  n_inner = b->in->n_inner;
    struct long_row          row = {.b = b, .ptr = ptr, .slots = slots};
    int                      n_stages = e->nest->n_stages;

    for (int s = 0; s < n_stages; s++) {
        const struct fr_long_stage *stage = &p->stages[s];
        uint32_t                    n_reduces = stage_reduces(stage);
        int64_t                     n = 0;
        exec_mid(e, s, ptr, b->in->scalars, slots, mem);
        if (stage->full.first == stage->full.end)
            continue;
        row.stage = s;
        row.pieces = (struct piece *)room;
        if (n_reduces) {
            struct fr_tree t;
            fr_tree_begin(&t, n_inner, max, stage->wide);
            while (fr_tree_next(&t))
                row.pieces[n++] = (struct piece){t.start, t.n};
        } else {
            int64_t len = max & ~(int64_t)(CUT - 1);
            for (int64_t j = 0; j < n_inner; j += len)
                row.pieces[n++] = (struct piece){j, n_inner - j < len ? n_inner - j : len};
        }
        row.partial = (struct fr_slot *)align64((char *)(row.pieces + n));
        if (!fr_pool_run(run_piece, &row, n))
            return FR_EINTR;
        if (row.failed != FR_OK)
            return (fr_status)row.failed;
        for (uint32_t k = 0; k < n_reduces; k++) {
            const struct fr_step *st = &p->steps[stage->first_reduce + k];
            join_pieces(stage, st, n_inner, max, row.partial + k, n_reduces, &slots[st->inst]);
        }
    }
    exec_mid(e, n_stages, ptr, b->in->scalars, slots, mem);
    return FR_OK;
}

static fr_status
run_long_rows(const struct bound *b, int64_t max)
{
    const struct exec *e = b->exec;
    size_t             n_slots = slots_bytes(e->nest), most_reduces = 0, n_pieces;
    char              *ptr[FR_MAX_OPERANDS], *room;
    void              *mem;
    int64_t            since_poll = 0;
    fr_status          st = FR_OK;

    for (int s = 0; s < e->nest->n_stages; s++)
        if (stage_reduces(&e->program->stages[s]) > most_reduces)
            most_reduces = stage_reduces(&e->program->stages[s]);
    /* A tree cuts into at most twice as many pieces as even cutting (complex numbers: four times). */
    n_pieces = (size_t)(b->in->n_inner / max + 1) * 4 + 4;
    room = scratch_get(SCRATCH_PLAN, e->scratch_bytes + n_slots + 128 +
                                         n_pieces * (sizeof(struct piece) +
                                                     most_reduces * sizeof(struct fr_slot)));
    if (!room)
        return FR_ENOMEM;
    mem = room;
    room += (e->scratch_bytes + 63) & ~(size_t)63;
    for (int64_t r = 0; r < b->kept.total && st == FR_OK; r++) {
        move_pointers(b, &b->kept, r / b->kept.n_rows, b->in->ptr, ptr);
        advance(b, ptr, b->row_stride, r % b->kept.n_rows);
        st = run_long_row(b, ptr, max, (struct fr_slot *)room, room + n_slots, mem);
        if (st == FR_OK && is_interrupted(&since_poll, row_ps(e->program, b->in)))
            st = FR_EINTR;
    }
    return st;
}

/* ---- streams in two phases ----------------------------------------------------------------------- */

struct phases {
    const struct bound *b;
    char *const        *base;
    struct stream       s;
    int64_t             n_rows;        /* of the block now */
    int64_t             rows_each, lanes_each;
    atomic_int          failed;
};

static void
stream_rows_task(void *arg, int64_t i, int worker)
{
    struct phases      *ph = arg;
    const struct bound *b = ph->b;
    int64_t             lo = i * ph->rows_each, hi = lo + ph->rows_each;
    void               *mem = scratch_get(SCRATCH_EXEC, b->exec->scratch_bytes);

    (void)worker;
    hi = hi < ph->n_rows ? hi : ph->n_rows;
    if (!mem)
        task_failed(&ph->failed, FR_ENOMEM);
    else
        run_range(b, &b->rest, ph->base, ph->s.first_row + lo, ph->s.first_row + hi, 0,
                  b->in->n_inner, &ph->s, mem);
}

static void
stream_lanes_task(void *arg, int64_t i, int worker)
{
    struct phases      *ph = arg;
    const struct bound *b = ph->b;
    int64_t             j0 = i * ph->lanes_each, n = b->in->n_inner - j0;
    void               *mem;

    (void)worker;
    n = n < ph->lanes_each ? n : ph->lanes_each;
    if (!(mem = scratch_get(SCRATCH_EXEC, (size_t)n * 16))) {
        task_failed(&ph->failed, FR_ENOMEM);
        return;
    }
    for (uint32_t k = 0; k < b->nest->n_insts; k++)
        if (b->nest->insts[k].kind == FR_INST_STORE && ph->s.block[b->nest->insts[k].operand])
            fold_stream(b, &b->nest->insts[k], ph->base, &ph->s, ph->n_rows, j0, n, mem);
}

static int64_t
share(int64_t n, int64_t parts, int64_t multiple)
{
    int64_t each = (n + parts - 1) / parts;

    each = (each + multiple - 1) / multiple * multiple;
    return each ? each : multiple;
}

static fr_status
run_phases(const struct bound *b, char *const *base, char *room, int64_t block, int n_threads,
           int64_t *since_poll)
{
    struct phases ph = {.b = b, .base = base};
    int64_t       n_inner = b->in->n_inner, n, block_ps;

    block_ps = saturating((double)row_ps(b->exec->program, b->in) * (double)block);
    fill_accumulators(b, base, 0, n_inner);
    stream_init(&ph.s, b, room, block);
    ph.lanes_each = share(n_inner, n_threads, CUT);
    for (int64_t at = 0; at < b->rest.total; at += block) {
        ph.s.first_row = at;
        ph.n_rows = b->rest.total - at < block ? b->rest.total - at : block;
        ph.rows_each = share(ph.n_rows, n_threads * TASKS_PER_THREAD, 1);
        n = (ph.n_rows + ph.rows_each - 1) / ph.rows_each;
        if (!fr_pool_run(stream_rows_task, &ph, n))
            return FR_EINTR;
        n = (n_inner + ph.lanes_each - 1) / ph.lanes_each;
        if (!fr_pool_run(stream_lanes_task, &ph, n ? n : 1) || is_interrupted(since_poll, block_ps))
            return FR_EINTR;
        if (ph.failed != FR_OK)
            return (fr_status)ph.failed;
    }
    return FR_OK;
}

static fr_status
run_stream(const struct bound *b, int n_threads)
{
    int64_t   block = stream_rows(b, (int64_t)STREAM_BYTES * n_threads);
    char     *room = scratch_get(SCRATCH_STREAM, stream_bytes(b, block));
    char     *base[FR_MAX_OPERANDS];
    int64_t   since_poll = 0;
    fr_status st = FR_OK;

    if (!room)
        return FR_ENOMEM;
    for (int64_t at = 0; at < b->kept.total && st == FR_OK; at++) {
        move_pointers(b, &b->kept, at, b->in->ptr, base);
        st = run_phases(b, base, room, block, n_threads, &since_poll);
    }
    return st;
}

/* ---- cutting ------------------------------------------------------------------------------------- */

/* How many tasks work of `ps` should become. */
static int64_t
want_tasks(int64_t ps, int n_threads)
{
    int64_t fine = ps / GRAIN_PS, even = (int64_t)n_threads * TASKS_PER_THREAD, most = ps / TASK_PS;

    if (n_threads == 1 || ps < SERIAL_PS)
        fine = 1;
    fine = fine < even ? fine : even;
    fine = fine > most ? fine : most;
    return fine < 1 ? 1 : fine < TASKS_MAX ? fine : TASKS_MAX;
}

/* How one instance is cut: tasks of `rows` indices of the kept space and `lanes` elements. */
struct cut {
    int64_t rows, lanes, n_row_tasks, n_lane_tasks;
};

/* Elements of a row may go to different tasks, unless they have an accumulator in common. */
static bool
may_cut_inner(const struct bound *b)
{
    const struct fr_nest *nest = b->nest;

    if (!b->exec->program->may_cut_inner || b->exec->program->streams)
        return false;
    for (uint32_t i = 0; b->exec->program->accumulates && i < nest->n_insts; i++)
        if (nest->insts[i].kind == FR_INST_ACCUM && b->inner_stride[nest->insts[i].operand] == 0)
            return false;
    return true;
}

static void
cut_instance(struct cut *c, const struct bound *b, int64_t ps, int n_threads)
{
    const struct fr_program *p = b->exec->program;
    int64_t                  n = want_tasks(ps, n_threads), total = b->kept.total;
    int64_t                  n_inner = b->in->n_inner, pieces = 1;

    c->lanes = n_inner;
    if (may_cut_inner(b)) {
        if (total < n)
            pieces = (n + total - 1) / (total ? total : 1);
        c->lanes = share(n_inner, pieces, CUT);
        if (p->accumulates && c->lanes > LANES_MAX && b->rest.total > 1)
            c->lanes = LANES_MAX;
    }
    c->n_lane_tasks = n_inner ? (n_inner + c->lanes - 1) / c->lanes : 1;
    n = (n + c->n_lane_tasks - 1) / c->n_lane_tasks;
    c->rows = share(total, n, n_inner < CUT ? CUT : 1);
    c->n_row_tasks = (total + c->rows - 1) / c->rows;
}

static bool
is_long_row(const struct bound *b, int n_threads)
{
    const struct fr_program *p = b->exec->program;
    int64_t                  ps = row_ps(p, b->in);

    return p->may_cut_stages && b->in->n_inner > p->tile_cap &&
           ((b->kept.total < n_threads && ps > 2 * SERIAL_PS) || ps > 2 * TASK_PS);
}

/* The most elements of a piece of a long row. */
static int64_t
long_piece(const struct bound *b, int n_threads)
{
    int64_t n = want_tasks(row_ps(b->exec->program, b->in), n_threads);
    int64_t each = share(b->in->n_inner, n, CUT);

    return each < 4096 ? 4096 : each;
}

static bool
needs_phases(const struct bound *b, int64_t ps, int n_threads)
{
    return b->exec->program->streams && b->rest.total > 1 && b->kept.total > 0 &&
           (ps / b->kept.total > 8 * TASK_PS ||
            (n_threads > 1 && ps > SERIAL_PS && b->kept.total < n_threads));
}

/* Writes the tasks of all instances (counts them if tasks is NULL). Small instances share one. */
static int64_t
make_tasks(const struct exec *e, const struct fr_instance *in, int n, int n_threads, struct task *tasks)
{
    struct bound b;
    struct cut   c;
    int64_t      n_tasks = 0, pending_ps = 0;
    int          first = 0;

    for (int i = 0; i <= n; i++) {
        int64_t ps = i < n ? instance_ps(e->program, &in[i]) : INT64_MAX;
        if (ps < GRAIN_PS && pending_ps + ps < 2 * GRAIN_PS) {
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
        if (i == n || ps < GRAIN_PS)
            continue;
        pending_ps = 0;
        first = i + 1;
        bind_instance(&b, e, &in[i]);
        cut_instance(&c, &b, ps, n_threads);
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

/* Tasks that accumulate cannot have fewer rows than their accumulators, so the rows are taken in sections
 * between which Ctrl-C is looked for. Returns the most rows that an instance has. */
static int64_t
cut_rest(const struct exec *e, const struct fr_instance *in, int n, int64_t n_tasks, int64_t *section)
{
    struct bound b;
    double       ps = 0, n_sections;
    int64_t      longest = 1;

    for (int i = 0; i < n; i++) {
        bind_instance(&b, e, &in[i]);
        ps += (double)instance_ps(e->program, &in[i]);
        longest = b.rest.total > longest ? b.rest.total : longest;
    }
    n_sections = ps / (double)n_tasks / (8 * TASK_PS);
    *section = n_sections > 1 ? (int64_t)((double)longest / n_sections) + 1 : longest;
    return longest;
}

static fr_status
run_tasks(const struct exec *e, const struct fr_instance *in, int n, int n_threads)
{
    struct work w = {.exec = e, .in = in};
    int64_t     n_tasks = make_tasks(e, in, n, n_threads, NULL), longest, section = 1;
    int64_t     since_poll = 0;

    if (!n_tasks)
        return FR_OK;
    if (!(w.tasks = scratch_get(SCRATCH_PLAN, (size_t)n_tasks * sizeof *w.tasks)))
        return FR_ENOMEM;
    make_tasks(e, in, n, n_threads, w.tasks);
    longest = e->program->accumulates ? cut_rest(e, in, n, n_tasks, &section) : 1;
    do {
        w.rest_hi = longest - w.rest_lo > section ? w.rest_lo + section : INT64_MAX;
        if (!fr_pool_run(run_task, &w, n_tasks) ||
            (section < longest && is_interrupted(&since_poll, POLL_PS)))
            return FR_EINTR;
        w.rest_lo = w.rest_hi;
    } while (w.rest_lo < longest && w.failed == FR_OK);
    return (fr_status)w.failed;
}

/* Everything that is not one small call. */
static fr_status
launch_all(const struct exec *e, const struct fr_instance *in, int n)
{
    int          n_threads = fr_pool_size(), first = 0;
    struct bound b;
    fr_status    st = FR_OK;
    double       total_ps = 0;

    for (int i = 0; i < n; i++)
        total_ps += (double)instance_ps(e->program, &in[i]);
    if (total_ps < (n_threads == 1 ? TASK_PS : SERIAL_PS)) {
        for (int i = 0; i < n && st == FR_OK; i++) {
            bind_instance(&b, e, &in[i]);
            st = run_part(&b, 0, b.kept.total, 0, b.in->n_inner, 0, INT64_MAX);
        }
        return st;
    }
    /* Those that are cut in a way of their own go one after the other, what lies between them together. */
    for (int i = 0; i <= n && st == FR_OK; i++) {
        bool is_long = false, in_phases = false;
        if (i < n && (e->program->streams || e->program->may_cut_stages)) {
            bind_instance(&b, e, &in[i]);
            is_long = is_long_row(&b, n_threads);
            in_phases = needs_phases(&b, instance_ps(e->program, &in[i]), n_threads);
        }
        if (i < n && !is_long && !in_phases)
            continue;
        if (i > first)
            st = run_tasks(e, in + first, i - first, n_threads);
        first = i + 1;
        if (is_long && st == FR_OK)
            st = run_long_rows(&b, long_piece(&b, n_threads));
        else if (in_phases && st == FR_OK)
            st = run_stream(&b, n_threads);
    }
    return st;
}

static fr_status
launch_ref(struct fr_kernel *kernel, const struct fr_instance *in, int n, struct fr_err *err)
{
    fr_status st = FR_OK;

    for (int i = 0; i < n && st == FR_OK; i++)
        st = fr_ref_launch(kernel->nest, &in[i], err);
    count(&n_ref, 1);
    return st;
}

fr_status
fr_launch(struct fr_kernel *kernel, const struct fr_instance *in, int n, struct fr_err *err)
{
    struct exec             e;
    const struct fr_program *p = kernel->program;
    uint64_t                bytes = 0;
    fr_status               st;

    atomic_fetch_add_explicit(&kernel->n_runs, 1, memory_order_relaxed);
    count(&n_launches, 1);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < kernel->nest->n_operands; k++)
            bytes += operand_bytes(kernel->nest, &in[i], k);
    count(&n_bytes_moved, bytes);
    if (fr_env.backend[0] == 'r')
        return launch_ref(kernel, in, n, err);
    exec_init(&e, kernel);
    count(e.code ? &n_jitted : &n_interpreted, 1);
    if (n == 1 && in->n_outer == 0 && !p->accumulates && !p->streams &&
        instance_ps(p, in) < SERIAL_PS) {
        int64_t row_stride[FR_MAX_OPERANDS], inner_stride[FR_MAX_OPERANDS];
        void   *mem = scratch_get(SCRATCH_EXEC, e.scratch_bytes);
        if (!mem)
            return fr_fail(err, FR_ENOMEM, "scratch of %zu bytes", e.scratch_bytes);
        for (int k = 0; k < e.nest->n_operands; k++) {
            row_stride[k] = in->stride[2 * k];
            inner_stride[k] = in->stride[2 * k + 1];
        }
        exec_rows(&e, in->ptr, row_stride, inner_stride, in->n_rows, in->n_inner, in->scalars, mem);
        return FR_OK;
    }
    st = launch_all(&e, in, n);
    if (st == FR_ENOMEM)
        return fr_fail(err, st, "scratch of %zu bytes for a kernel", e.scratch_bytes);
    if (st == FR_EINTR)
        return fr_fail(err, st, "interrupted");
    return st;
}
