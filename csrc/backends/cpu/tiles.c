/* backends/cpu/tiles.c -- packed operands: read tile by tile (space.h).
 *
 * The elements of a packed operand lie side by side along an outer axis or the rows, so that a row
 * takes one element of a cache line, and often of a page, and the next comes when the line is gone.
 * Here such an axis becomes a side of a tile; what the operand has of the tile is copied, turned
 * over, into scratch that stays in L2, and the executor runs over the tile with unit strides:
 *
 *     for each index of the other axes, for each tile of slabs x rows x columns:
 *         pack                                  (fr_copy_transposed)
 *         for each slab: run its rows
 *
 * Columns are elements of the row; a tile of rows that must stay whole has all of them. Every row
 * is on its own, so any outer axis can be the rows, and a second one the slabs: for operands that
 * lie along it. What is read ahead of its turn is not written before: a store and a load of one
 * nest meet in no element or in the same one, which is in one tile.
 *
 * An operand of small elements that goes backwards along the row, or takes every other element of it, has no such
 * axis: its part of the tile is copied row by row (fr_copy_gather), and a tile that has no other
 * packed operands is so small that it stays in L1.
 *
 * A nest that only copies such an operand has nothing to run over the tile: it is turned over into its
 * place. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/space.h"
#include "passes/nest_limits.h"

enum { SLAB, ROW, COLUMN, N_SIDES };

enum {
    TILE_BYTES = 64 << 10,  /* of all packed operands together: well within L2; or */
    TILE_WHOLE = 128 << 10, /* of whole rows, where fewer of them would use up no cache line; */
    TILE_RUN = 128,         /* bytes side by side, a pair of cache lines; */
    TILE_SETS = 32 << 10,   /* where lines from memory share sets: fewer, so that they stay, */
    TILE_WHOLE_SETS = 1 << 20, /* or longer ones, for they are gone in any case; */
    TILE_RUN_SETS = 256,
    TILE_DEEP = 512 << 10,  /* with slabs, which are squares of few columns else; */
    TILE_RUN_DEEP = 64,
    TILE_NEAR = 4 << 10,    /* of one where nothing is turned over, and four times as many of all: they stay in L1,
                             * and loads overlap */
    FAR_BYTES = 8 << 20,    /* an operand of so many comes from memory */
    TILE_SIDE = 16,         /* elements at least */
    TILE_COLUMNS = 64,
    PAGE_BYTES = 4096,
    LINE = 64,
};

struct packed {
    int    operand, size;
    int    side;  /* along which its elements lie side by side; COLUMN: along none */
    size_t at;    /* of its tile in scratch */
};

struct side {
    int     axis; /* of the instance; -1: one index */
    int64_t size, tile, n_tiles;
};

struct tiles {
    const struct fr_bound *b;
    struct fr_space        others; /* the axes that are no side */
    struct side            side[N_SIDES];
    int64_t                from[N_SIDES][FR_MAX_OPERANDS]; /* strides in memory */
    int64_t                walk[N_SIDES][FR_MAX_OPERANDS]; /* and as it runs: of packed, in scratch */
    struct packed          packed[FR_MAX_OPERANDS];
    int                    n_packed;
    bool                   turns; /* some operand, which then gave the tile its sides */
    bool                   far;   /* packed operands come from memory, */
    bool                   asks;  /* and a tile asks for what the next one takes */
    int                    copy;  /* the operand that the only packed one is copied to; -1 */
    size_t                 bytes; /* of scratch */
    int64_t                piece; /* columns that are packed at a time */
    int64_t                n_tiles, per_task;
    atomic_int             failed;
};

static int64_t
clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* ---- the form of the tiles ------------------------------------------------------------------- */

/* The outer axis along which the operand's elements lie side by side, not only a few; -1: there is none. */
static int
contiguous_axis(const struct fr_bound *b, int operand, int size)
{
    const int64_t *stride = fr_space_strides(b, operand);
    int            d = b->in->n_outer;

    while (d >= 0 && ((stride[d] != size && stride[d] != -size) ||
                      (d < b->in->n_outer ? b->in->outer[d] : b->in->n_rows) < FR_PACK_EXTENT))
        d--;
    return d;
}

/* Lowering lets them lie along two axes at most. */
static int
find_side(struct tiles *t, int axis)
{
    int s = t->side[ROW].axis == axis || t->side[ROW].axis < 0 ? ROW : SLAB;

    if (axis < 0)
        return COLUMN;
    t->side[s].axis = axis;
    return s;
}

static void
find_packed(struct tiles *t)
{
    const struct fr_bound *b = t->b;

    for (uint32_t i = 0; i < b->nest->n_insts; i++) {
        const struct fr_inst *in = &b->nest->insts[i];
        int                   size = fr_dtype_size(in->dtype);
        if (in->kind == FR_INST_LOAD && in->level == FR_LEVEL_FULL &&
            b->nest->operands[in->operand].access == FR_ACCESS_UNIT &&
            b->inner_stride[in->operand] != size)
            t->packed[t->n_packed++] = (struct packed){
                .operand = in->operand,
                .size = size,
                .side = find_side(t, contiguous_axis(b, in->operand, size))};
    }
}

static void
find_axes(struct tiles *t)
{
    const struct fr_instance *in = t->b->in;

    t->turns = t->side[ROW].axis >= 0;
    if (!t->turns)
        t->side[ROW].axis = in->n_outer;
    for (int s = SLAB; s <= ROW; s++) {
        int axis = t->side[s].axis;
        t->side[s].size = axis < 0 ? 1 : axis < in->n_outer ? in->outer[axis] : in->n_rows;
    }
    t->side[COLUMN].axis = in->n_outer + 1;
    t->side[COLUMN].size = in->n_inner;
    fr_space_clear(&t->others);
    for (int d = 0; d <= in->n_outer; d++)
        if (d != t->side[SLAB].axis && d != t->side[ROW].axis)
            fr_space_add(&t->others, d, d < in->n_outer ? in->outer[d] : in->n_rows);
    for (int s = SLAB; s < N_SIDES; s++)
        for (int k = 0; k < t->b->nest->n_operands; k++)
            t->from[s][k] = t->walk[s][k] =
                t->side[s].axis < 0 ? 0 : fr_space_strides(t->b, k)[t->side[s].axis];
}

/* Whether all that happens is a copy to elements side by side, each along every side of the tile. Rows that are
 * a multiple of a page apart share one set of the cache: those go by way of the tile. */
static void
find_copy(struct tiles *t)
{
    int k = fr_space_copies_to(t->b->nest);

    t->copy = -1;
    if (t->n_packed != 1 || k < 0)
        return;
    for (int s = SLAB; s < COLUMN; s++)
        if (t->side[s].size > 1 &&
            (!t->from[s][t->packed[0].operand] || (t->turns && t->from[s][k] % PAGE_BYTES == 0)))
            return;
    if (t->from[COLUMN][k] == t->packed[0].size)
        t->copy = k;
}

static void
count_tiles(struct tiles *t)
{
    t->n_tiles = t->others.total;
    for (int s = SLAB; s < N_SIDES; s++) {
        t->side[s].n_tiles = (t->side[s].size + t->side[s].tile - 1) / t->side[s].tile;
        t->n_tiles *= t->side[s].n_tiles;
    }
}

/* Where every packed operand only takes steps along the row: as much of a row, or as many rows, as
 * L1 holds. */
static void
choose_row_sizes(struct tiles *t)
{
    struct side *row = &t->side[ROW], *column = &t->side[COLUMN];
    int64_t      all = 0, bytes = 0;

    for (int i = 0; i < t->n_packed; i++) {
        all += t->packed[i].size;
        bytes = bytes > t->packed[i].size ? bytes : t->packed[i].size;
    }
    bytes = bytes > all / 4 ? bytes : all / 4;
    t->side[SLAB].tile = 1;
    column->tile = column->size;
    if (t->b->exec->program->may_cut_inner)
        column->tile = clamp(TILE_NEAR / bytes & -TILE_COLUMNS, TILE_COLUMNS, column->size);
    row->tile = clamp(TILE_NEAR / (bytes * column->tile), 1, row->size);
    t->piece = column->tile;
}

/* Whether the lines of a column of the tile are a multiple of a page apart in memory, and share sets of the caches. */
static bool
shares_sets(const struct tiles *t)
{
    for (int i = 0; i < t->n_packed; i++)
        if (t->packed[i].side != COLUMN && t->from[COLUMN][t->packed[i].operand] % PAGE_BYTES == 0)
            return true;
    return false;
}

static void
choose_sizes(struct tiles *t)
{
    struct side *slab = &t->side[SLAB], *row = &t->side[ROW], *column = &t->side[COLUMN];
    int64_t      run = TILE_RUN, cut = TILE_BYTES, whole = TILE_WHOLE, size = 16, bytes = 0;

    for (int i = 0; i < t->n_packed; i++)
        size = size < t->packed[i].size ? size : t->packed[i].size;
    t->far = t->asks = t->others.total * slab->size * row->size * column->size * size >= FAR_BYTES;
    if (slab->axis >= 0) {
        run = TILE_RUN_DEEP;
        cut = TILE_DEEP;
    } else if (t->far && shares_sets(t)) {
        run = TILE_RUN_SETS;
        cut = TILE_SETS;
        whole = TILE_WHOLE_SETS;
        t->asks = t->b->exec->program->may_cut_inner; /* of more columns the next lines would be gone again */
    }
    slab->tile = clamp(run / size, TILE_SIDE, slab->size);
    row->tile = clamp(run / size, TILE_SIDE, row->size);
    for (int i = 0; i < t->n_packed; i++)
        bytes += t->packed[i].size *
                 (t->from[SLAB][t->packed[i].operand] ? slab->tile : 1) *
                 (t->from[ROW][t->packed[i].operand] ? row->tile : 1);
    column->tile = column->size;
    if (t->b->exec->program->may_cut_inner)
        column->tile = clamp(cut / bytes & -TILE_COLUMNS, TILE_COLUMNS, column->size);
    else if (bytes * column->size > whole)
        row->tile = clamp(row->tile * whole / (bytes * column->size) & -TILE_SIDE, TILE_SIDE, row->tile);
    t->piece = t->far ? LINE / size : column->tile;
}

static void
place_packed(struct tiles *t)
{
    for (int i = 0; i < t->n_packed; i++) {
        struct packed *p = &t->packed[i];
        /* Rows are an odd number of cache lines apart, lest they share the cache's sets. */
        int64_t next = ((t->side[COLUMN].tile * p->size + LINE - 1) & -LINE) | LINE;
        t->walk[COLUMN][p->operand] = p->size;
        for (int s = ROW; s >= SLAB; s--)
            if (t->from[s][p->operand]) {
                t->walk[s][p->operand] = next;
                next *= t->side[s].tile;
            }
        p->at = t->bytes;
        t->bytes += (size_t)next;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* What takes steps along the row: each of its rows in the tile. to_walk: strides of `to`. */
static void
gather(const struct tiles *t, const struct packed *p, const char *from, char *to, const int64_t *to_walk,
       const int64_t *n)
{
    int     k = p->operand;
    int64_t n_slabs = t->from[SLAB][k] ? n[SLAB] : 1, n_rows = t->from[ROW][k] ? n[ROW] : 1;

    for (int64_t i = 0; i < n_slabs; i++)
        for (int64_t r = 0; r < n_rows; r++)
            fr_copy_gather((size_t)n[COLUMN], p->size, to + i * to_walk[SLAB] + r * to_walk[ROW],
                           from + i * t->from[SLAB][k] + r * t->from[ROW][k], t->from[COLUMN][k]);
}

/* n elements along each side, to where operand `as` has them. n_next of its side, `next` bytes further on, are what the
 * next tile takes. */
static void
pack(const struct tiles *t, const struct packed *p, const char *from, char *to, int as, const int64_t *n, int64_t next,
     int64_t n_next)
{
    const int64_t to_walk[N_SIDES] = {t->walk[SLAB][as], t->walk[ROW][as], t->walk[COLUMN][as]};
    int           k = p->operand, other = p->side == ROW ? SLAB : ROW;
    int64_t       n_times = t->from[other][k] ? n[other] : 1, by = to_walk[p->side];

    if (p->side == COLUMN) {
        gather(t, p, from, to, to_walk, n);
        return;
    }
    if (t->from[p->side][k] < 0) { /* backwards, which is forwards from the other end */
        from += (n[p->side] - 1) * t->from[p->side][k];
        to += (n[p->side] - 1) * by;
        by = -by;
    }
    for (int64_t i = 0; i < n_times; i++)
        fr_copy_transposed((size_t)n[p->side], (size_t)n[COLUMN], p->size, to + i * to_walk[other], by,
                       from + i * t->from[other][k], t->from[COLUMN][k], next, (size_t)n_next);
}

/* What else the rows of the tile read of columns [j, j + n), which begins on its way while memory has no more to do for
 * what is packed. By itself the processor would not see a few lines of each of so many rows come. */
static void
ask_for_others(const struct tiles *t, char *const *ptr, int64_t j, int64_t n, int64_t n_rows)
{
    for (int k = 0; k < t->b->nest->n_operands; k++) {
        const struct fr_operand *o = &t->b->nest->operands[k];
        int64_t                  size = fr_dtype_size(o->dtype);

        if (o->flags & FR_OPERAND_WRITTEN || o->access != FR_ACCESS_UNIT || t->from[COLUMN][k] != size)
            continue;
        for (int64_t r = 0; r < n_rows; r++)
            for (int64_t i = 0; i < n * size; i += LINE)
                __builtin_prefetch((const void *)((uintptr_t)ptr[k] + (uintptr_t)(r * t->from[ROW][k] + j * size + i)), 0, 2);
    }
    __asm__ volatile("" ::: "memory"); /* to GCC a function that only prefetches does nothing */
}

/* Where a tile begins, and its elements along each side. */
struct place {
    char   *ptr[FR_MAX_OPERANDS];
    int64_t n[N_SIDES];
};

/* Tiles are counted along the row first: what is not packed is read and written in order. But from memory the lines come
 * in time that the tile before asked for: then along the rows, so that they are few enough to stay in L2. */
static void
find_place(const struct tiles *t, int64_t at, struct place *p)
{
    static const int near[N_SIDES] = {COLUMN, ROW, SLAB}, far[N_SIDES] = {ROW, COLUMN, SLAB};
    const int       *order = t->asks ? far : near;
    int64_t          first[N_SIDES];

    for (int i = 0; i < N_SIDES; i++) {
        const struct side *s = &t->side[order[i]];
        first[order[i]] = at % s->n_tiles * s->tile;
        p->n[order[i]] = clamp(s->size - first[order[i]], 0, s->tile);
        at /= s->n_tiles;
    }
    fr_space_move(t->b, &t->others, at, t->b->in->ptr, p->ptr);
    for (int s = SLAB; s < N_SIDES; s++)
        fr_space_advance(t->b, p->ptr, t->from[s], first[s]);
}

static void
pack_all(const struct tiles *t, const struct place *here, const struct place *next, char *scratch)
{
    int64_t part[N_SIDES] = {here->n[SLAB], here->n[ROW], t->piece};

    for (int64_t j = 0; j < here->n[COLUMN]; j += t->piece) {
        part[COLUMN] = clamp(here->n[COLUMN] - j, 0, t->piece);
        for (int i = 0; i < t->n_packed; i++) {
            const struct packed *p = &t->packed[i];
            int                  k = p->operand;

            pack(t, p, here->ptr[k] + j * t->from[COLUMN][k], scratch + p->at + j * p->size, k, part,
                 next->ptr[k] - here->ptr[k], t->asks ? next->n[p->side] : 0);
        }
        if (t->far)
            ask_for_others(t, here->ptr, j, part[COLUMN], here->n[ROW]);
    }
}

static void
run_tile(const struct tiles *t, struct place *here, const struct place *next, char *scratch, void *mem)
{
    if (t->copy >= 0) {
        int k = t->packed[0].operand;

        pack(t, t->packed, here->ptr[k], here->ptr[t->copy], t->copy, here->n, next->ptr[k] - here->ptr[k],
             t->asks ? next->n[t->packed[0].side] : 0);
        return;
    }
    pack_all(t, here, next, scratch);
    for (int i = 0; i < t->n_packed; i++)
        here->ptr[t->packed[i].operand] = scratch + t->packed[i].at;
    for (int64_t i = 0; i < here->n[SLAB]; i++) {
        fr_exec_rows(t->b->exec, here->ptr, t->walk[ROW], t->walk[COLUMN], here->n[ROW], here->n[COLUMN],
                     t->b->in->scalars, mem);
        fr_space_advance(t->b, here->ptr, t->walk[SLAB], 1);
    }
}

static void
run_tiles(void *arg, int64_t i, int worker)
{
    struct tiles *t = arg;
    int64_t       end = (i + 1) * t->per_task;
    char         *scratch = fr_launch_scratch(FR_SCRATCH_TILE, t->bytes);
    void         *mem = fr_launch_scratch(FR_SCRATCH_EXEC, t->b->exec->scratch_bytes);
    struct place  here, next;

    (void)worker;
    if (!scratch || !mem) {
        fr_launch_fail(&t->failed, FR_ENOMEM);
        return;
    }
    end = end < t->n_tiles ? end : t->n_tiles;
    find_place(t, i * t->per_task, &next);
    for (int64_t at = i * t->per_task; at < end; at++) {
        here = next;
        if (at + 1 < end)
            find_place(t, at + 1, &next);
        run_tile(t, &here, &next, scratch, mem);
    }
}

fr_status
fr_tiles_run(const struct fr_bound *b, int n_threads)
{
    struct tiles t = {.b = b, .side = {[SLAB] = {.axis = -1}, [ROW] = {.axis = -1}}};
    int64_t      n = fr_space_tasks(b->in->ps, n_threads);

    find_packed(&t);
    find_axes(&t);
    find_copy(&t);
    if (t.turns)
        choose_sizes(&t);
    else
        choose_row_sizes(&t);
    count_tiles(&t);
    place_packed(&t);
    t.per_task = fr_space_share(t.n_tiles, n, 1);
    if (!fr_pool_run(run_tiles, &t, (t.n_tiles + t.per_task - 1) / t.per_task))
        return FR_EINTR;
    return (fr_status)t.failed;
}
