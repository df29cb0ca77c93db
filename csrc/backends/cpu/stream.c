/* backends/cpu/stream.c -- accumulators: their beginning, and streams into them (space.h).
 *
 * The values of a STREAM operand for a block of rows go to scratch and are then added to the
 * accumulators in the order of the rows: block after block by one task (fr_stream_accumulate); or, if
 * there are too few accumulators to share out, by all threads, each adding its block when it is its turn
 * (fr_stream_run). */
#include <string.h>
#include <time.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/space.h"

enum {
    STREAM_BYTES = 512 << 10, /* of a block; half an L2 of 1 MB */
    MOST_PIECES = 16,         /* of a block, each added in its turn */
    SPINS = 4000,             /* while one waits for it; then the one before may want the processor: */
    NAP_NS = 20000,
    PAGE_BYTES = 4096,
    LINE_BYTES = 64,
    AHEAD_ROWS = 8,
    AHEAD_BYTES = 8192, /* of one operand; the interpreter wants tiles of so much */
    AHEAD_LINES = 4,
    ABREAST_INNER = 1024, /* elements of a row at most, where each row has an accumulator */
    ABREAST_ELEMENTS = 512, /* that go to one row of accumulators */
    ABREAST_ROWS = 64,    /* of each accumulator between two additions; or more, where so many */
    ABREAST_VALUES = 2048,/* are not for all together */
};

/* ---- accumulators ---------------------------------------------------------------------------- */

/* Bytes from the accumulators of one index of b->kept to those of its neighbour. */
static int64_t
neighbour_stride(const struct fr_bound *b, int operand)
{
    return fr_space_strides(b, operand)[b->kept.axis[b->kept.n_axes - 1]];
}

/* Fills accumulator `i` (its elements [j0, j0 + n_inner)) of n neighbours with the identity, for every index of b->rest. */
static void
fill_accumulator(const struct fr_bound *b, const struct fr_inst *i, char *const *base, int64_t n, int64_t j0,
                 int64_t n_inner)
{
    _Alignas(16) char identity[16];
    struct fr_space   sp;
    char             *ptr[FR_MAX_OPERANDS];
    const int64_t    *stride = fr_space_strides(b, i->operand);
    int64_t           by = b->inner_stride[i->operand];
    bool              row = i->level == FR_LEVEL_ROW;

    fr_reduce_identity(fr_space_accumulator_op(i), i->dtype, 1, identity, NULL);
    fr_space_clear(&sp);
    for (int d = 0; d < b->rest.n_axes; d++)
        if (stride[b->rest.axis[d]])
            fr_space_add(&sp, b->rest.axis[d], b->rest.size[d]);
    for (int64_t at = 0; at < sp.total; at++) {
        fr_space_move(b, &sp, at, base, ptr);
        fr_copy_2d((size_t)n, row ? 1 : (size_t)n_inner, fr_dtype_size(i->dtype), ptr[i->operand] + (row ? 0 : j0 * by),
                   n > 1 ? neighbour_stride(b, i->operand) : 0, by, identity, 0, 0);
    }
}

static void
fill_accumulators(const struct fr_bound *b, char *const *base, int64_t n, int64_t j0, int64_t n_inner)
{
    for (uint32_t i = 0; i < b->nest->n_insts; i++)
        if (fr_space_is_accumulator(b->nest, &b->nest->insts[i]))
            fill_accumulator(b, &b->nest->insts[i], base, n, j0, n_inner);
}

/* Adds rows [first, first + n_rows) of the block, elements [j0, j0 + n), to the accumulators of one
 * streamed store. base is at index 0 of b->rest, whose outer axes change the accumulator where it
 * keeps them. */
static void
fold_stream(const struct fr_bound *b, const struct fr_inst *i, char *const *base,
            const struct fr_stream *stream, int64_t n_rows, int64_t j0, int64_t n, void *mem)
{
    fr_accum_fn *accum =
        b->exec->program->reduce->accum[FR_REDUCE_ROW(fr_space_accumulator_op(i))][i->dtype];
    const int size = fr_dtype_size(i->dtype), k = i->operand;
    int64_t   at = stream->first_row, end = at + n_rows, by = b->inner_stride[k];
    int64_t   per_row = 1; /* elements that go to one accumulator */
    char     *ptr[FR_MAX_OPERANDS];

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
        fr_space_move(b, &b->rest, at / b->rest.n_rows, base, ptr);
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

/* The same for every streamed store. */
static void
fold_streams(const struct fr_bound *b, char *const *base, const struct fr_stream *stream, int64_t n_rows,
             int64_t j0, int64_t n, void *mem)
{
    for (uint32_t i = 0; i < b->nest->n_insts; i++)
        if (b->nest->insts[i].kind == FR_INST_STORE && stream->block[b->nest->insts[i].operand])
            fold_stream(b, &b->nest->insts[i], base, stream, n_rows, j0, n, mem);
}

static int64_t
streamed_row_bytes(const struct fr_bound *b)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < b->nest->n_insts; i++) {
        const struct fr_inst *in = &b->nest->insts[i];
        if (in->kind == FR_INST_STORE && fr_space_is_accumulator(b->nest, in))
            n += fr_dtype_size(in->dtype) * (in->level == FR_LEVEL_ROW ? 1 : b->in->n_inner);
    }
    return n;
}

/* Shares `mem` (n_rows * streamed_row_bytes + 64 per stream) among the streamed operands. */
static void
stream_init(struct fr_stream *s, const struct fr_bound *b, char *mem, int64_t n_rows)
{
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < b->nest->n_insts; i++) {
        const struct fr_inst *in = &b->nest->insts[i];
        if (in->kind != FR_INST_STORE || !fr_space_is_accumulator(b->nest, in))
            continue;
        s->block[in->operand] = mem;
        s->bytes[in->operand] =
            fr_dtype_size(in->dtype) * (in->level == FR_LEVEL_ROW ? 1 : b->in->n_inner);
        mem = fr_space_align(mem + n_rows * s->bytes[in->operand]);
    }
}

static int64_t
stream_rows(const struct fr_bound *b, int64_t budget)
{
    int64_t bytes = streamed_row_bytes(b), n;

    n = bytes ? budget / bytes : 1;
    n = n < 1 ? 1 : n;
    return n < b->rest.total ? n : b->rest.total;
}

static size_t
stream_bytes(const struct fr_bound *b, int64_t n_rows)
{
    return (size_t)(n_rows * streamed_row_bytes(b)) + 64 * FR_MAX_OPERANDS;
}

/* ---- pieces of rows -------------------------------------------------------------------------- */

/* Asks for the first lines of rows [lo, hi) of b->rest, from element j0 on. */
static void
prefetch_rows(const struct fr_bound *b, char *const *base, int64_t lo, int64_t hi, int64_t j0)
{
    char   *ptr[FR_MAX_OPERANDS];
    int64_t row = lo % b->rest.n_rows, end = row + (hi - lo);

    end = end < b->rest.n_rows ? end : b->rest.n_rows;
    fr_space_move(b, &b->rest, lo / b->rest.n_rows, base, ptr);
    for (int k = 0; k < b->nest->n_operands; k++)
        for (int64_t r = row; b->row_stride[k] && r < end; r++) {
            uintptr_t at =
                (uintptr_t)ptr[k] + (uintptr_t)(r * b->row_stride[k] + j0 * b->inner_stride[k]);
            for (int l = 0; l < AHEAD_LINES; l++)
                __builtin_prefetch((const void *)(at + (uintptr_t)(l * LINE_BYTES)));
        }
}

/* Elements [j0, j0 + n) of rows [lo, hi) of b->rest, straight into their accumulators. Each row's
 * piece is in another page than the one before: neither the processor's own prefetching nor its
 * table of pages goes that way, so the next rows are asked for. exp(x).sum(0) of 4096x1024 f32 in
 * eight pieces takes 1.1 instead of 1.5 ms on two threads, both beside other work. */
static void
accumulate_pieces(const struct fr_bound *b, char *const *base, int64_t lo, int64_t hi, int64_t j0,
                  int64_t n, void *mem)
{
    int64_t bytes = fr_space_bytes(b, n), rows = hi - lo;

    if (n < b->in->n_inner && bytes < PAGE_BYTES) {
        rows = AHEAD_BYTES / (bytes ? bytes : 1);
        rows = rows > AHEAD_ROWS ? rows : AHEAD_ROWS;
    }
    for (int64_t at = lo, to; at < hi; at = to) {
        to = hi - at < rows ? hi : at + rows;
        if (to < hi)
            prefetch_rows(b, base, to, hi - to < rows ? hi : to + rows, j0);
        fr_space_run(b, &b->rest, base, at, to, j0, n, NULL, mem);
    }
}

/* ---- neighbours abreast ------------------------------------------------------------------------
 *
 * Short rows, a few to each accumulator, as in x.reshape(h, 2, w, 2).mean((1, 3)) or x.reshape(n, 3, 3).sum(1): the
 * rows that go first into so many neighbouring accumulators are one call of the executor, those that go second are the
 * next, and each accumulator still takes its rows in order. */

bool
fr_stream_is_abreast(const struct fr_bound *b)
{
    const struct fr_program *p = b->exec->program;
    int64_t                  n_inner = b->in->n_inner, rows = b->rest.total;

    if (!b->kept.n_axes || rows == 0 || n_inner == 0 || (p->streams && p->accumulates) ||
        n_inner > (p->streams ? ABREAST_INNER : ABREAST_ELEMENTS / rows))
        return false;
    for (uint32_t i = 0; i < b->nest->n_insts; i++) {
        const struct fr_inst *in = &b->nest->insts[i];

        if (!fr_space_is_accumulator(b->nest, in))
            continue;
        if (b->row_stride[in->operand] ||
            (p->streams ? in->level != FR_LEVEL_ROW : n_inner > 1 && b->inner_stride[in->operand] == 0))
            return false;
        for (int d = 0; d < b->rest.n_axes; d++)
            if (fr_space_strides(b, in->operand)[b->rest.axis[d]])
                return false;
    }
    return true;
}

int64_t
fr_stream_abreast(const struct fr_bound *b, int64_t at, int64_t hi)
{
    int64_t size = b->kept.size[b->kept.n_axes - 1], n = size - at % size < hi - at ? size - at % size : hi - at;
    int64_t rows = b->rest.total < ABREAST_ROWS ? b->rest.total : ABREAST_ROWS;
    int64_t each = b->exec->program->streams ? streamed_row_bytes(b) * rows : 16 * b->in->n_inner;

    return n * each <= STREAM_BYTES ? n : STREAM_BYTES / each;
}

/* Whether neighbours of one row, then those of the next, are rows one behind the other to every operand: values that
 * are streamed are, in their blocks. */
static bool
are_one_axis(const struct fr_bound *b, const int64_t *by, int64_t n, const struct fr_stream *s)
{
    for (int k = 0; k < b->nest->n_operands; k++)
        if (!s->block[k] && b->row_stride[k] != n * by[k])
            return false;
    return true;
}

/* Elements [j0, j0 + n_inner) of rows [lo, hi) of b->rest, for each of n neighbours; streams to the blocks of `s`. Where
 * all is streamed, no row waits for another yet: then a call of the executor is for as many as can be. */
static void
run_abreast(const struct fr_bound *b, char *const *base, int64_t n, int64_t j0, int64_t n_inner, int64_t lo, int64_t hi,
            const struct fr_stream *s, void *mem)
{
    int64_t by[FR_MAX_OPERANDS], down[FR_MAX_OPERANDS], n_rows = b->rest.n_rows, m;
    bool    streams = b->exec->program->streams, one;
    char   *ptr[FR_MAX_OPERANDS];

    for (int k = 0; k < b->nest->n_operands; k++) {
        by[k] = s->block[k] ? s->bytes[k] : neighbour_stride(b, k);
        down[k] = s->block[k] ? n * s->bytes[k] : b->row_stride[k];
    }
    one = streams && are_one_axis(b, by, n, s);
    for (int64_t r = lo; r < hi; r += m) {
        m = n_rows - r % n_rows < hi - r ? n_rows - r % n_rows : hi - r;
        m = streams && (one || m > n) ? m : 1;
        fr_space_move(b, &b->rest, r / n_rows, base, ptr);
        fr_space_advance(b, ptr, b->row_stride, r % n_rows);
        fr_space_advance(b, ptr, b->inner_stride, j0);
        for (int k = 0; k < b->nest->n_operands; k++)
            if (s->block[k])
                ptr[k] = s->block[k] + (r - lo) * down[k];
        if (one || m == 1) {
            fr_exec_rows(b->exec, ptr, by, b->inner_stride, m * n, n_inner, b->in->scalars, mem);
            continue;
        }
        for (int64_t i = 0; i < n; i++, fr_space_advance(b, ptr, by, 1))
            fr_exec_rows(b->exec, ptr, down, b->inner_stride, m, n_inner, b->in->scalars, mem);
    }
}

/* As many rows as are streamed between two additions. */
static int64_t
abreast_rows(const struct fr_bound *b, int64_t n)
{
    int64_t most = n * ABREAST_ROWS > ABREAST_VALUES ? ABREAST_ROWS : ABREAST_VALUES / n;

    return most < b->rest.total ? most : b->rest.total;
}

/* Adds n_rows rows of n values each to the n accumulators of one streamed store; `room` is for n elements. */
static void
fold_abreast(const struct fr_bound *b, const struct fr_inst *i, char *const *base, const struct fr_stream *s,
             int64_t n_rows, int64_t n, char *room)
{
    const struct fr_reduce_kernels *kernels = b->exec->program->reduce;
    fr_op                           op = fr_space_accumulator_op(i);
    int                             k = i->operand, size = fr_dtype_size(i->dtype);
    int64_t                         by = neighbour_stride(b, k);
    char                           *acc = by == size ? base[k] : room;

    if (acc == room)
        fr_copy_gather((size_t)n, size, room, base[k], by);
    kernels->accum[FR_REDUCE_ROW(op)][i->dtype]((size_t)n_rows, (size_t)n, acc, s->block[k], n * size, NULL, 0);
    if (acc == room)
        fr_copy_scatter((size_t)n, size, base[k], by, room);
}

fr_status
fr_stream_accumulate(const struct fr_bound *b, char *const *base, int64_t n, int64_t j0, int64_t n_inner, int64_t lo,
                     int64_t hi, void *mem)
{
    static const struct fr_stream none;
    struct fr_stream              s;
    size_t                        bytes;
    char                         *room;
    int64_t                       block;

    hi = hi < b->rest.total ? hi : b->rest.total;
    if (lo == 0)
        fill_accumulators(b, base, n, j0, n_inner);
    if (!b->exec->program->streams) {
        if (n > 1)
            run_abreast(b, base, n, j0, n_inner, lo, hi, &none, mem);
        else
            accumulate_pieces(b, base, lo, hi, j0, n_inner, mem);
        return FR_OK;
    }
    block = n > 1 ? abreast_rows(b, n) : stream_rows(b, STREAM_BYTES);
    bytes = stream_bytes(b, block * n);
    if (!(room = fr_launch_scratch(FR_SCRATCH_STREAM, bytes + 16 * (size_t)n)))
        return FR_ENOMEM;
    stream_init(&s, b, room, block * n);
    for (int64_t at = lo, end; at < hi; at = end) {
        end = hi - at < block ? hi : at + block;
        s.first_row = at;
        if (n == 1) {
            fr_space_run(b, &b->rest, base, at, end, 0, n_inner, &s, mem);
            fold_streams(b, base, &s, end - at, 0, n_inner, mem);
            continue;
        }
        run_abreast(b, base, n, 0, n_inner, at, end, &s, mem);
        for (uint32_t i = 0; i < b->nest->n_insts; i++)
            if (fr_space_is_accumulator(b->nest, &b->nest->insts[i]))
                fold_abreast(b, &b->nest->insts[i], base, &s, end - at, n, room + bytes);
    }
    return FR_OK;
}

/* ---- blocks of rows in turn --------------------------------------------------------------------
 *
 * Whoever takes a block computes its rows into memory of its own and adds them to the accumulators when the block
 * before it has been added, piece by piece of a row: rows stay where they were computed, only the accumulators go from
 * core to core, and in the order of the rows. */

struct turns {
    const struct fr_bound *b;
    char *const           *base;
    int64_t                block; /* rows */
    int64_t                lanes; /* elements of a piece */
    int                    n_pieces;
    atomic_int_least64_t   next;               /* block that nobody has taken */
    atomic_int_least64_t   added[MOST_PIECES]; /* blocks, by piece */
    atomic_int             failed;
};

/* A block is taken when memory for it is there, and then added in any case: who waits for it does not wait in vain. */
static void
await_turn(const atomic_int_least64_t *added, int64_t turn)
{
    static const struct timespec nap = {.tv_nsec = NAP_NS};

    for (int spins = 0; atomic_load_explicit(added, memory_order_acquire) != turn; spins++)
        if (spins < SPINS)
            fr_pool_relax();
        else
            nanosleep(&nap, NULL);
}

static void
run_turn(void *arg, int64_t i, int worker)
{
    struct turns          *t = arg;
    const struct fr_bound *b = t->b;
    int64_t                n_inner = b->in->n_inner, n_rows;
    size_t                 lanes = (size_t)n_inner * 16, need = b->exec->scratch_bytes;
    void                  *mem = fr_launch_scratch(FR_SCRATCH_EXEC, need > lanes ? need : lanes);
    char                  *room = fr_launch_scratch(FR_SCRATCH_STREAM, stream_bytes(b, t->block));
    struct fr_stream       s;

    (void)i, (void)worker;
    if (!mem || !room) {
        fr_launch_fail(&t->failed, FR_ENOMEM);
        return;
    }
    if (atomic_load_explicit(&t->failed, memory_order_relaxed) != FR_OK)
        return;
    i = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
    stream_init(&s, b, room, t->block);
    s.first_row = i * t->block;
    n_rows = b->rest.total - s.first_row < t->block ? b->rest.total - s.first_row : t->block;
    fr_space_run(b, &b->rest, t->base, s.first_row, s.first_row + n_rows, 0, n_inner, &s, mem);
    for (int p = 0; p < t->n_pieces; p++) {
        int64_t j0 = p * t->lanes, n = n_inner - j0 < t->lanes ? n_inner - j0 : t->lanes;

        await_turn(&t->added[p], i);
        fold_streams(b, t->base, &s, n_rows, j0, n, mem);
        atomic_store_explicit(&t->added[p], i + 1, memory_order_release);
    }
}

fr_status
fr_stream_run(const struct fr_bound *b, int n_threads)
{
    int64_t      n_inner = b->in->n_inner, most = stream_rows(b, STREAM_BYTES);
    int64_t      block = fr_space_share(b->rest.total, (int64_t)n_threads * FR_TASKS_PER_THREAD, 1);
    struct turns t = {.b = b, .block = block < most ? block : most};
    int64_t      n_blocks = (b->rest.total + t.block - 1) / t.block;
    char        *base[FR_MAX_OPERANDS];

    t.base = base;
    t.lanes = fr_space_share(n_inner, n_threads < MOST_PIECES ? n_threads : MOST_PIECES, FR_CUT);
    t.n_pieces = n_inner ? (int)((n_inner + t.lanes - 1) / t.lanes) : 1;
    for (int64_t at = 0; at < b->kept.total && t.failed == FR_OK; at++) {
        fr_space_move(b, &b->kept, at, b->in->ptr, base);
        fill_accumulators(b, base, 1, 0, n_inner);
        atomic_store(&t.next, 0);
        for (int p = 0; p < t.n_pieces; p++)
            atomic_store(&t.added[p], 0);
        if (!fr_pool_run(run_turn, &t, n_blocks))
            return FR_EINTR;
    }
    return (fr_status)t.failed;
}

bool
fr_stream_wanted(const struct fr_bound *b, int n_threads)
{
    int64_t ps = fr_space_cost(b->exec, b->in);

    return b->exec->program->streams && b->rest.total > 1 && b->kept.total > 0 &&
           (ps / b->kept.total > 8 * FR_TASK_PS || (ps > FR_PHASE_PS && b->kept.total < n_threads));
}
