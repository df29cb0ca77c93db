/* backends/cpu/short_rows.c -- many rows of a few elements, run as one long row (space.h).
 *
 * The pixels of an image, the coordinates of points: what is computed lies row after row without a gap, and so
 * does most of what is read. The rest -- a number for each row, a row that all have in common, a part of longer
 * rows, rows backwards, small matrices transposed -- is packed: copied, for as many rows as stay in L1, to scratch
 * where its rows lie so, too. The executor then sees a row of hundreds of elements side by side, whatever the operands
 * were. A nest that only copies such an operand has nothing to run: what would be packed is copied to its place.
 *
 * What is read ahead of its turn is not written before: a store and a load of one nest meet in no element or in
 * the same one, which is of one row. */
#include "backends/cpu/copy.h"
#include "backends/cpu/shuffle.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/space.h"
#include "base/tune.h"

enum {
    LONG_BYTES = 16 << 10,  /* of so long rows that they are no more than a few */
    TILE_ROWS = 64,       /* a multiple: so that each tile is stored from a cache line on, if the first one is */
    MAX_TURNS = 16,       /* operands: a plan is a few hundred bytes */
};

struct packed {
    int             operand, size;
    bool            common; /* one row for all */
    bool            same;   /* one element for the row */
    struct fr_turn *turn;   /* NULL: it is copied in another way */
    size_t          at;     /* in scratch; */
    size_t          places; /* there, too: where the elements of a row lie, unless they are the same */
};

struct short_rows {
    const struct fr_bound *b;
    struct fr_space        others; /* all axes but the rows and theirs */
    int64_t                n_inner; /* elements of a short row */
    struct packed          packed[FR_MAX_OPERANDS];
    struct fr_turn         turn[MAX_TURNS];
    int                    n_packed, n_turns;
    int64_t                step[FR_MAX_OPERANDS]; /* along the long row */
    int                    copy;                  /* the operand that the only packed one is copied to; -1 */
    size_t                 bytes;                 /* of scratch */
    int64_t                tile;                  /* rows */
    int64_t                n_tiles;               /* of each index of `others`; */
    int64_t                n_all, per_task;       /* of all; of a task */
    atomic_int             failed;
};

/* Where the elements of a row lie, in bytes from the first one. */
static void
find_offsets(const struct short_rows *s, int operand, int64_t *offset)
{
    const struct fr_instance *in = s->b->in;
    const int64_t            *stride = fr_space_strides(s->b, operand);
    int64_t                   n = in->n_inner;

    for (int64_t i = 0; i < n; i++)
        offset[i] = i * s->b->inner_stride[operand];
    for (int d = in->n_outer; --d > in->n_outer - in->joined; n *= in->outer[d])
        for (int64_t i = 1; i < in->outer[d]; i++) /* from the innermost of its other axes on */
            for (int64_t e = 0; e < n; e++)
                offset[i * n + e] = offset[e] + i * stride[d];
}

static void
find_packed(struct short_rows *s)
{
    const struct fr_bound *b = s->b;

    for (uint32_t i = 0; i < b->nest->n_insts; i++) {
        const struct fr_inst *in = &b->nest->insts[i];
        int                   k = in->operand, size = fr_dtype_size(in->dtype);
        int64_t               offset[FR_TURN_ROW];
        bool                  adjoins, same = true;
        struct packed        *p;

        if ((in->kind != FR_INST_LOAD && in->kind != FR_INST_STORE) || in->level != FR_LEVEL_FULL)
            continue;
        find_offsets(s, k, offset);
        adjoins = b->row_stride[k] == size * s->n_inner;
        for (int64_t e = 0; e < s->n_inner; e++) {
            adjoins &= offset[e] == e * size;
            same &= offset[e] == 0;
        }
        s->step[k] = size;
        if (adjoins)
            continue;
        p = &s->packed[s->n_packed++];
        *p = (struct packed){.operand = k, .size = size, .common = b->row_stride[k] == 0, .same = same};
        if (!same && b->row_stride[k] > 0 && s->n_turns < MAX_TURNS &&
            fr_shuffle->plan_turn(&s->turn[s->n_turns], size, (int)s->n_inner, offset, b->row_stride[k]))
            p->turn = &s->turn[s->n_turns++];
    }
}

/* Where nothing is computed what would be packed goes to its place; a row that all have is better taken from L1. */
static void
find_copy(struct short_rows *s)
{
    int k = fr_space_copies_to(s->b->nest);

    s->copy = s->n_packed == 1 && s->packed[0].operand != k && !s->packed[0].common ? k : -1;
}

static void
choose_tile(struct short_rows *s)
{
    int64_t n_rows = s->b->in->n_rows, bytes = 0, usual = s->copy < 0 ? fr_tune.rows_tile : fr_tune.rows_copy;
    int64_t most = s->copy < 0 ? LONG_BYTES : fr_tune.rows_copy;

    for (int i = 0; i < s->n_packed; i++)
        bytes += s->packed[i].size * s->n_inner;
    s->tile = usual / bytes & -TILE_ROWS;
    if (s->tile < TILE_ROWS)
        s->tile = bytes * TILE_ROWS <= most ? TILE_ROWS : most / bytes < 1 ? 1 : most / bytes;
    s->tile = s->tile < n_rows ? s->tile : n_rows;
    s->n_tiles = (n_rows + s->tile - 1) / s->tile;
    for (int i = 0; i < s->n_packed && s->copy < 0; i++) {
        s->packed[i].at = s->bytes;
        s->bytes += (size_t)((s->packed[i].size * s->n_inner * s->tile + 63) & ~(int64_t)63);
        s->bytes += s->packed[i].turn ? FR_TURN_ROOM : 0;
    }
    for (int i = 0; i < s->n_packed; i++) {
        s->packed[i].places = s->bytes;
        s->bytes += s->packed[i].same ? 0 : (size_t)s->n_inner * sizeof(int64_t);
    }
}

/* Whole turns that write nothing behind the rows; `row`: bytes of one. */
static int64_t
turn_in_place(const struct fr_turn *t, int64_t n_rows, int64_t n_more, int64_t row, char *to, const char *from, int64_t by)
{
    int64_t n = n_rows - ((int64_t)t->spare + row - 1) / row;

    n -= n > 0 ? n % t->n_rows : n;
    return n ? (int64_t)fr_shuffle->turn(t, (size_t)n, (size_t)(n_more + n_rows - n), to, from, by) : 0;
}

/* `n_more` rows follow. */
static void
pack(const struct short_rows *s, const struct packed *p, int64_t n_rows, int64_t n_more, char *to, const char *from,
     const int64_t *places)
{
    int64_t n = s->n_inner, row = p->size * n, by = s->b->row_stride[p->operand], done = 0;

    if (p->turn && s->copy < 0)
        done = (int64_t)fr_shuffle->turn(p->turn, (size_t)n_rows, (size_t)n_more, to, from, by);
    else if (p->turn)
        done = turn_in_place(p->turn, n_rows, n_more, row, to, from, by);
    if (done == n_rows)
        return;
    to += done * row;
    from += done * by;
    n_rows -= done;
    if (p->same)
        fr_copy_2d((size_t)n_rows, (size_t)n, p->size, to, row, p->size, from, by, 0);
    else
        fr_copy_picked((size_t)n_rows, (size_t)n, p->size, to, from, by, places);
}

static void
run_task(void *arg, int64_t i, int worker)
{
    static const int64_t   none[FR_MAX_OPERANDS];
    struct short_rows     *s = arg;
    const struct fr_bound *b = s->b;
    char                  *base[FR_MAX_OPERANDS], *ptr[FR_MAX_OPERANDS];
    char                  *scratch = fr_launch_scratch(FR_SCRATCH_TILE, s->bytes);
    void                  *mem = fr_launch_scratch(FR_SCRATCH_EXEC, b->exec->scratch_bytes);
    int64_t                end = (i + 1) * s->per_task, here = -1;

    (void)worker;
    if (!scratch || !mem) {
        fr_launch_fail(&s->failed, FR_ENOMEM);
        return;
    }
    for (int p = 0; p < s->n_packed; p++)
        if (!s->packed[p].same)
            find_offsets(s, s->packed[p].operand, (int64_t *)(void *)(scratch + s->packed[p].places));
    end = end < s->n_all ? end : s->n_all;
    for (int64_t at = i * s->per_task; at < end; at++) {
        int64_t first = at % s->n_tiles * s->tile, left = b->in->n_rows - first;
        bool    moved = at / s->n_tiles != here;

        here = at / s->n_tiles;
        if (moved)
            fr_space_move(b, &s->others, here, b->in->ptr, base);
        for (int k = 0; k < b->nest->n_operands; k++)
            ptr[k] = base[k] + first * b->row_stride[k];
        left = left < s->tile ? left : s->tile;
        for (int p = 0; p < s->n_packed; p++) {
            const struct packed *k = &s->packed[p];
            const int64_t       *places = (const int64_t *)(const void *)(scratch + k->places);
            char                *to = s->copy < 0 ? scratch + k->at : ptr[s->copy];

            if (moved || !k->common)
                pack(s, k, k->common ? s->tile : left, b->in->n_rows - first - left, to, ptr[k->operand], places);
            ptr[k->operand] = scratch + k->at;
        }
        if (s->copy < 0)
            fr_exec_rows(b->exec, ptr, none, s->step, 1, left * s->n_inner, b->in->scalars, mem);
    }
}

fr_status
fr_short_rows_run(const struct fr_bound *b, int n_threads)
{
    struct short_rows s;
    int64_t           n = fr_space_tasks(b->in->ps, n_threads);

    s.b = b;
    s.n_inner = b->in->n_inner;
    s.n_packed = s.n_turns = 0;
    s.bytes = 0;
    s.failed = FR_OK;
    fr_space_clear(&s.others);
    for (int d = 0; d < b->in->n_outer; d++)
        if (d < b->in->n_outer - b->in->joined + 1)
            fr_space_add(&s.others, d, b->in->outer[d]);
        else
            s.n_inner *= b->in->outer[d];
    FR_ASSERT(s.n_inner <= FR_TURN_ROW);
    find_packed(&s);
    find_copy(&s);
    choose_tile(&s);
    s.n_all = s.others.total * s.n_tiles;
    s.per_task = fr_space_share(s.n_all, n, 1);
    if (!fr_pool_run(run_task, &s, (s.n_all + s.per_task - 1) / s.per_task))
        return FR_EINTR;
    return (fr_status)s.failed;
}
