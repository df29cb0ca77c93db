/* backends/cuda/schedule.c -- a lowered group as the device runs it best; no choice changes a bit of the results.
 *
 * Of a map's axes any may be the inner one, along which the threads of a warp lie: the one along which most bytes are
 * neighbours. What still lies along another axis is turned (jit/emit_tile.c): along the rows, or a third axis. */
#include "backends/cuda/kernel.h"

#include <string.h>

#include "base/arena.h"

enum { SHORT_ROW = 256, LONG_ROW = 1024, ROWS_EACH = 32 };  /* elements; rows for each multiprocessor */

bool
fr_cuda_has_warp_rows(int64_t n_rows, int64_t n_inner, int n_multiprocessors)
{
    return n_inner <= SHORT_ROW || (n_inner <= LONG_ROW && n_rows >= (int64_t)ROWS_EACH * n_multiprocessors);
}

/* ---- maps ------------------------------------------------------------------------------------ */

enum {
    SECTOR = 32,                /* bytes that memory moves at once */
    WORTH_TURNING = 1 << 12,    /* elements: of fewer a launch takes as long as it takes anyway */
    MANY_ROWS = 32,             /* of a tile; of fewer, and of no more elements, the lines of a square stay in the first cache */
    MOST_AXES = 8,              /* of a map that is asked about a third axis: all triples are looked at */
    MOST_TURNED = 8,            /* operands: a thread has four elements of each in registers */
};

/* A map whose axes may change places: the last is the inner one, the one before it the rows. */
struct map {
    struct fr_lowered *l;
    int                n_axes;
    bool               moves[FR_MAX_OPERANDS];   /* it is loaded or stored */
};

static int64_t
dim(const struct fr_lowered *l, int axis)
{
    return axis < l->n_outer ? l->outer[axis] : axis == l->n_outer ? l->n_rows : l->n_inner;
}

static int64_t
stride(const struct map *m, int k, int axis)
{
    const int64_t s = m->l->stride[(size_t)k * (size_t)m->n_axes + (size_t)axis];

    return s < 0 ? -s : s;
}

static int
size_of(const struct map *m, int k)
{
    return fr_dtype_size(m->l->nest.operands[k].dtype);
}

/* Bytes that memory moves for an element, if a warp lies along one axis: a sector may have other elements that the warp takes, or,
 * where the axis is short, the next index of the other axis. */
static double
moved_bytes(const struct map *m, int k, int along, int across)
{
    const int64_t step = stride(m, k, along), next = stride(m, k, across), n = dim(m->l, along);
    const double  size = size_of(m, k);
    double        bytes;

    if (step == 0)
        return size;
    bytes = step < SECTOR ? (double)step : SECTOR;
    if (n * step < SECTOR && (double)(next < SECTOR ? next : SECTOR) > bytes * (double)n)
        bytes = (double)(next < SECTOR ? next : SECTOR) / (double)n;
    return bytes < size ? size : bytes;
}

static bool
can_tile(const struct map *m, int inner, int rows)
{
    const int64_t n = dim(m->l, inner);

    return dim(m->l, rows) >= MANY_ROWS && (n + FR_CUDA_TILE_WIDE - 1) / FR_CUDA_TILE_WIDE <= INT32_MAX;
}

/* Whether an operand is better walked along the rows: half as many bytes move. */
static bool
is_crosswise(const struct map *m, int k, int inner, int rows)
{
    return m->moves[k] && stride(m, k, inner) && stride(m, k, rows) &&
           2 * moved_bytes(m, k, rows, inner) <= moved_bytes(m, k, inner, rows);
}

/* Whether it is better walked along a third axis than along the inner one or the rows. */
static bool
is_deepwise(const struct map *m, int k, int inner, int rows, int deep)
{
    double moved;

    if (deep < 0 || !m->moves[k] || !stride(m, k, inner) || !stride(m, k, deep))
        return false;
    moved = moved_bytes(m, k, deep, inner);
    return 2 * moved <= moved_bytes(m, k, inner, rows) && 2 * moved <= moved_bytes(m, k, rows, inner);
}

/* Bytes that move. To turn an operand is worth a quarter of it; and of a tile with a third axis no operand has more than eight elements
 * side by side. */
static double
cost(const struct map *m, int inner, int rows, int deep, bool tiles)
{
    double all = 0;

    for (int k = 0; k < m->l->nest.n_operands; k++) {
        double n = 1, moved = moved_bytes(m, k, inner, rows);

        if (m->l->source[k].node < 0)
            continue;
        for (int a = 0; a < m->n_axes; a++)
            n *= stride(m, k, a) ? (double)dim(m->l, a) : 1;
        if (is_deepwise(m, k, inner, rows, deep))
            moved = moved_bytes(m, k, deep, inner) + size_of(m, k) / 4.0;
        else if (tiles && is_crosswise(m, k, inner, rows))
            moved = moved_bytes(m, k, rows, inner) + size_of(m, k) / 4.0;
        all += n * (deep >= 0 && moved < SECTOR / 8 ? SECTOR / 8 : moved);
    }
    return all;
}

/* Which axes a map has for what: a third one, or -1, only where tiles have it; what lies crosswise is turned, or not. */
struct choice {
    int  inner, rows, deep;
    bool tiles;
};

static bool
is_possible(const struct map *m, const struct choice *c)
{
    if (c->inner == c->rows || c->deep == c->inner || c->deep == c->rows || dim(m->l, c->inner) < 2 || dim(m->l, c->rows) < 2)
        return false;
    if (c->deep < 0)
        return !c->tiles || can_tile(m, c->inner, c->rows);
    if (!c->tiles || dim(m->l, c->inner) < FR_CUDA_TILE_NARROW || dim(m->l, c->rows) < FR_CUDA_TILE_LOW || dim(m->l, c->deep) < FR_CUDA_TILE_DEEP)
        return false;
    for (int k = 0; k < m->l->nest.n_operands; k++)
        if (is_deepwise(m, k, c->inner, c->rows, c->deep))
            return true;
    return false;
}

/* The best; the present axes, unless others are better by a tenth. */
static struct choice
choose_axes(const struct map *m)
{
    struct choice best = {m->n_axes - 1, m->n_axes - 2, -1, false}, c;
    double        least = 0.9 * cost(m, best.inner, best.rows, -1, false), bytes;

    for (c.deep = -1; c.deep < (m->n_axes <= MOST_AXES ? m->n_axes : 0); c.deep++)
        for (c.inner = m->n_axes - 1; c.inner >= 0; c.inner--)
            for (c.rows = m->n_axes - 1; c.rows >= 0; c.rows--)
                for (int t = 0; t < 2; t++) {
                    c.tiles = t;
                    if (!is_possible(m, &c) || (bytes = cost(m, c.inner, c.rows, c.deep, t)) >= least)
                        continue;
                    least = bytes;
                    best = c;
                }
    return best;
}

/* The strides and sizes of axis from[a] become those of axis a. */
static void
permute(struct map *m, const int *from)
{
    struct fr_lowered      *l = m->l;
    const struct fr_lowered was = *l;
    const int               hidden = m->n_axes - l->n_axes;    /* of one index each, in front, where there are fewer than two */
    int64_t                 s[FR_MAX_DIMS + 2];

    for (int a = 0; a < m->n_axes; a++) {
        *(a < l->n_outer ? &l->outer[a] : a == l->n_outer ? &l->n_rows : &l->n_inner) = dim(&was, from[a]);
        if (a >= hidden && from[a] >= hidden)
            l->class_[a - hidden] = was.class_[from[a] - hidden];
    }
    for (int k = 0; k < l->nest.n_operands; k++) {
        int64_t *of = l->stride + (size_t)k * (size_t)m->n_axes;

        for (int a = 0; a < m->n_axes; a++)
            s[a] = of[from[a]];
        memcpy(of, s, (size_t)m->n_axes * sizeof *of);
    }
}

static bool
is_stored(const struct fr_nest *nest, uint32_t i)
{
    bool is = false;

    for (uint32_t u = i + 1; u < nest->n_insts; u++)
        is |= nest->insts[u].kind == FR_INST_STORE && nest->insts[u].a[0] == i;
    return is;
}

/* Levels and accesses along the new inner axis. What a row has in common is loaded once for it, unless it is stored as it is. */
static void
set_levels(struct map *m)
{
    struct fr_nest *nest = &m->l->nest;

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        struct fr_inst    *in = &nest->insts[i];
        struct fr_operand *o = &nest->operands[in->operand];
        const int64_t      step = fr_inst_has_operand(in) ? m->l->stride[((size_t)in->operand + 1) * (size_t)m->n_axes - 1] : 0;
        const int          size = fr_dtype_size(in->dtype);

        if (in->kind == FR_INST_OP && in->level == FR_LEVEL_ROW) {
            for (int k = 0; k < fr_nest_n_args(in); k++)
                if (nest->insts[in->a[k]].level == FR_LEVEL_FULL)
                    in->level = FR_LEVEL_FULL;
        } else if (in->kind == FR_INST_LOAD || in->kind == FR_INST_IOTA) {
            in->level = step || is_stored(nest, i) ? FR_LEVEL_FULL : FR_LEVEL_ROW;
        }
        if (!fr_inst_has_operand(in))
            continue;
        o->access = in->level != FR_LEVEL_FULL                        ? FR_ACCESS_ZERO
                    : in->kind == FR_INST_LOAD && step % size == 0    ? fr_access_of(in->dtype, step / size)
                    : step == (in->kind == FR_INST_IOTA ? 1 : size)   ? FR_ACCESS_UNIT
                                                                      : FR_ACCESS_STRIDED;
    }
}

/* Marks what lies crosswise: the largest elements first, as long as there is room for them. Without any along a third axis the tile
 * has two, so that one of those comes before all others. */
static void
turn(struct map *m, bool has_deep)
{
    const int          inner = m->n_axes - 1, rows = inner - 1, deep = has_deep ? rows - 1 : -1;
    struct fr_operand *op = m->l->nest.operands;
    int                n = 0, n_bytes = 0;

    for (int pass = has_deep ? 0 : 1; pass < 2; pass++)
        for (int size = 16; size >= 1; size /= 2)
            for (int k = 0; k < m->l->nest.n_operands; k++) {
                const bool deepwise = is_deepwise(m, k, inner, rows, deep);
                const int  bytes = fr_cuda_tile_bytes(op[k].dtype, has_deep);

                if (size_of(m, k) != size || deepwise != (pass == 0) || (!deepwise && !is_crosswise(m, k, inner, rows)) ||
                    op[k].access == FR_ACCESS_UNIT || n == MOST_TURNED || n_bytes + bytes > FR_CUDA_TILE_BYTES)
                    continue;
                op[k].schedule = deepwise ? FR_SCHEDULE_TURNED_DEEP : FR_SCHEDULE_TURNED;
                n_bytes += bytes;
                n++;
            }
}

/* Whether no element waits for another, whatever the order, and none is a row's. */
static bool
is_map(const struct fr_nest *nest)
{
    bool is = fr_cuda_has_many(nest);

    for (uint32_t i = 0; i < nest->n_insts && is; i++)
        is = nest->insts[i].kind != FR_INST_STORE ||
             (nest->insts[i].level == FR_LEVEL_FULL && !(nest->operands[nest->insts[i].operand].flags & FR_OPERAND_STREAM));
    return is;
}

static bool
reaches(const struct fr_lowered *l, bool otherwise, bool *close)
{
    double n = (double)l->n_rows * (double)l->n_inner;

    for (int a = 0; a < l->n_outer; a++)
        n *= (double)l->outer[a];
    *close = n > WORTH_TURNING / 2 && n < 2 * WORTH_TURNING;
    return (n >= WORTH_TURNING) != (*close && otherwise);
}

static void *
copy_of(struct fr_arena *arena, const void *from, size_t n)
{
    void *to = fr_arena_room(arena, n);

    return to ? memcpy(to, from, n) : NULL;
}

static fr_status
schedule_map(struct fr_lowered *l, bool otherwise, struct fr_arena *arena, bool *close, struct fr_err *err)
{
    struct fr_nest *nest = &l->nest;
    struct map      m = {.l = l, .n_axes = l->n_outer + 2};
    int             from[FR_MAX_DIMS + 2], n = 0;
    struct choice   c;

    if (!nest->n_operands || !reaches(l, otherwise, close))
        return FR_OK;
    for (uint32_t i = 0; i < nest->n_insts; i++)
        if (nest->insts[i].kind == FR_INST_LOAD || nest->insts[i].kind == FR_INST_STORE)
            m.moves[nest->insts[i].operand] = true;
    c = choose_axes(&m);
    if (!c.tiles && c.inner == m.n_axes - 1 && c.rows == m.n_axes - 2)
        return FR_OK;
    nest->insts = copy_of(arena, nest->insts, nest->n_insts * sizeof *nest->insts);
    nest->operands = copy_of(arena, nest->operands, nest->n_operands * sizeof *nest->operands);
    l->stride = copy_of(arena, l->stride, nest->n_operands * (size_t)m.n_axes * sizeof *l->stride);
    if (!nest->insts || !nest->operands || !l->stride)
        return fr_no_memory(err, "a kernel");
    for (int a = 0; a < m.n_axes; a++)
        if (a != c.inner && a != c.rows && a != c.deep)
            from[n++] = a;
    if (c.deep >= 0)
        from[n++] = c.deep;
    from[n++] = c.rows;
    from[n] = c.inner;
    permute(&m, from);
    if (c.inner != m.n_axes - 1)
        set_levels(&m);
    if (c.tiles)
        turn(&m, c.deep >= 0);
    return FR_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

fr_status
fr_cuda_schedule(const struct fr_lowered *from, bool otherwise, struct fr_arena *arena, struct fr_lowered **out, bool *close,
                 struct fr_err *err)
{
    struct fr_lowered *l = fr_arena_room(arena, sizeof *l);
    fr_status          st = FR_OK;

    if (!l)
        return fr_no_memory(err, "a kernel");
    *l = *from;
    *close = false;
    *out = l;
    if (is_map(&l->nest)) {
        st = schedule_map(l, otherwise, arena, close, err);
    } else if (l->nest.n_stages > 1 && !fr_nest_accumulates(&l->nest)) {
        l->nest.flags |= FR_NEST_ROWBUF | FR_NEST_KEEPS_LOADS;
        if (fr_cuda_row_bytes(&l->nest, l->n_inner) > FR_CUDA_ROW_BYTES)
            l->nest.flags &= (uint8_t)~(FR_NEST_ROWBUF | FR_NEST_KEEPS_LOADS);
    }
    FR_ASSERT(st != FR_OK || fr_nest_verify(&l->nest, NULL) == FR_OK);
    return st;
}
