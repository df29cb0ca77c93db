/* backends/cpu/interp.c -- the block interpreter: runs programs (program.h) over tiles of rows, and over
 * blocks of long rows (interp_long.c).
 *
 * Called by launch.c, which treats it and compiled code alike. The inner loop is `fr_frame_run`: it walks a
 * list of steps, each one call of a precompiled kernel over all elements of the tile. Nothing here
 * allocates or fails. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/interp_int.h"
#include "backends/cpu/shuffle.h"

enum {
    MOST_PREFETCH = 8,    /* operands that are prefetched while others go past the caches */
    TRANSPOSED_ROWS = 32, /* of a tile that is reduced, when an operand lies along the columns */
    FOLD_ROW = 16,        /* elements; shorter rows are folded some at once, in blocks that stay in L1 */
    EXPAND_ONE_ROW = 512, /* elements; longer rows run one by one rather than expand ROW values */
    FLAT_ROW = 512,       /* elements of rows with gaps between them that are run one by one, */
    FLAT_COPIED = 1500,   /* or bytes of one that tiles of several rows would copy, */
    FLAT_CALL = 250,      /* and more for each step that is called for one row then */
    PLACED_ROWS = 5,      /* whose places are found side by side, */
    PLACED_WIDE = 8,      /* the same of elements of 8 bytes */
    PLACED_AT_ONCE = FR_REDUCE_ROOM / 16, /* of them, at most */
};

/* How a load is served, by its number. */
enum {
    LOAD_COPIED = 1, /* its memory is overwritten before its last use (fr_hazard) */
    LOAD_FILLED = 2, /* the same row for all: its register holds it T times already */
};

static size_t
round_up(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static uint32_t
most_reduces(const struct fr_program *p)
{
    uint32_t most = 0;

    for (int s = 0; p->stages && s < p->nest->n_stages; s++) {
        uint32_t n = p->stages[s].full.end - p->stages[s].first_reduce;
        most = n > most ? n : most;
    }
    return most;
}

size_t
fr_interp_frame_bytes(const struct fr_program *p)
{
    size_t n = round_up(sizeof(struct fr_frame)) + round_up(p->n_places * sizeof(char *)) +
               round_up(p->n_loads);

    if (p->stages)
        n += round_up(p->nest->n_insts * sizeof(struct fr_slot)) +
             round_up(most_reduces(p) * sizeof(struct fr_tree_stack));
    return n;
}

size_t
fr_interp_temp_bytes(const struct fr_program *p)
{
    int64_t cap = p->tile_cap > p->block_cap ? p->tile_cap : p->block_cap;
    size_t  accum = ((size_t)cap + 1) * 16;

    return FR_REDUCE_ROOM > accum ? FR_REDUCE_ROOM : accum;
}

/* Not past the caches, where it is already, goes what is read as well. Operands beyond the 64th are stored as ever. */
static uint64_t
stored_nontemporal(const struct fr_nest *nest, char *const *ptr)
{
    uint64_t nontemporal = 0;

    for (int i = 0; i < nest->n_operands && i < 64; i++) {
        bool shared = false;

        for (int k = 0; k < nest->n_operands; k++)
            shared |= k != i && ptr[k] == ptr[i];
        if (nest->operands[i].schedule & FR_SCHEDULE_NONTEMPORAL && !shared)
            nontemporal |= UINT64_C(1) << i;
    }
    return nontemporal;
}

struct fr_frame *
fr_frame_begin(const struct fr_program *p, char *const *ptr, const int64_t *row_stride,
               const int64_t *inner_stride, const void *scalars, void *scratch)
{
    struct fr_frame *f = scratch;
    char            *next = (char *)scratch + round_up(sizeof *f);

    f->p = p;
    f->ptr = ptr;
    f->row_stride = row_stride;
    f->inner_stride = inner_stride;
    f->scalars = scalars;
    f->at = (char **)next;
    next += round_up(p->n_places * sizeof(char *));
    f->loads = (uint8_t *)next;
    next += round_up(p->n_loads);
    if (p->stages) {
        f->slots = (struct fr_slot *)next;
        next += round_up(p->nest->n_insts * sizeof(struct fr_slot));
        f->stacks = (struct fr_tree_stack *)next;
    }
    f->registers = (char *)scratch + p->registers_at;
    FR_ASSERT(next <= f->registers && fr_interp_frame_bytes(p) <= p->registers_at);
    f->temp = (char *)scratch + p->temp_at;
    f->row0 = f->j0 = 0;
    f->n_rows = f->n = 1;
    f->quiet = false;
    f->nontemporal = p->stores_nontemporal ? stored_nontemporal(p->nest, ptr) : 0;
    return f;
}

static int64_t
row_stride(const struct fr_frame *f, uint32_t operand)
{
    return f->n_rows > 1 ? f->row_stride[operand] : 0;
}

static int64_t
inner_stride(const struct fr_frame *f, uint32_t operand)
{
    return f->n > 1 ? f->inner_stride[operand] : 0;
}

/* Whether n_rows of n elements lie side by side, row after row. */
static bool
lies_in_one(const struct fr_frame *f, uint32_t operand, int size, int64_t n_rows, int64_t n)
{
    return (n == 1 || f->inner_stride[operand] == size) && (n_rows == 1 || f->row_stride[operand] == n * size);
}

/* Whether those of the tile do. */
static bool
is_contiguous(const struct fr_frame *f, uint32_t operand, int size)
{
    return lies_in_one(f, operand, size, f->n_rows, f->n);
}

/* Whether the registers, behind which others have their room, hold n elements where the step puts its own. */
static FR_DEBUG_ONLY bool
fits_register(const struct fr_frame *f, const struct fr_program_step *st, int64_t n)
{
    return n >= 0 && f->p->registers_at + st->offset + (size_t)n * st->size <= f->p->temp_at;
}

/* ---- steps that are more than a call --------------------------------------------------------- */

static char *
load(struct fr_frame *f, const struct fr_program_step *st)
{
    char   *from = fr_frame_address(f, st->operand, true), *to = f->registers + st->offset;
    uint8_t how = f->loads[st->load];

    if (!(how & LOAD_COPIED)) {
        if (is_contiguous(f, st->operand, st->size))
            return from;
        if (how & LOAD_FILLED)
            return to;
        /* Tiles of several rows begin with the largest. */
        if (f->n_rows > 1 && f->row_stride[st->operand] == 0)
            f->loads[st->load] |= LOAD_FILLED;
    }
    FR_ASSERT(fits_register(f, st, f->n_rows * f->n));
    fr_copy_2d((size_t)f->n_rows, (size_t)f->n, st->size, to, f->n * st->size, st->size, from,
               row_stride(f, st->operand), inner_stride(f, st->operand));
    return to;
}

static char *
row_load(struct fr_frame *f, const struct fr_program_step *st)
{
    char *from = fr_frame_address(f, st->operand, false), *to = f->registers + st->offset;

    if (!(f->loads[st->load] & LOAD_COPIED) &&
        (f->n_rows == 1 || f->row_stride[st->operand] == st->size))
        return from;
    FR_ASSERT(fits_register(f, st, f->n_rows));
    fr_copy_gather((size_t)f->n_rows, st->size, to, from, row_stride(f, st->operand));
    return to;
}

/* Addresses of what is prefetched, for as many elements as the tile has: of a stencil what each row that it reads
 * has a row later, else what the next tile reads. Returns how many. */
static int
find_prefetches(const struct fr_frame *f, const char **prefetch)
{
    const struct fr_nest *nest = f->p->nest;
    const bool            rows = f->p->is_stencil && f->row_stride;
    const int64_t         n = f->n_rows * f->n;
    int                   n_prefetch = 0;

    for (uint32_t k = 0; k < nest->n_operands && n_prefetch < MOST_PREFETCH; k++) {
        const struct fr_operand *o = &nest->operands[k];
        int                      bytes = fr_dtype_size(o->dtype);

        if (o->access != FR_ACCESS_UNIT || o->flags & FR_OPERAND_WRITTEN || !is_contiguous(f, k, bytes))
            continue;
        if (!rows)
            prefetch[n_prefetch++] = fr_frame_address(f, k, true) + n * bytes;
        else if (o->schedule & (FR_SCHEDULE_PREFETCH | FR_SCHEDULE_PREFETCH_ROW))
            prefetch[n_prefetch++] = fr_frame_address(f, k, true) + f->row_stride[k];
    }
    return n_prefetch;
}

/* The tile's value, past the caches, while what comes later is on its way. */
static void
store_nontemporal(struct fr_frame *f, char *to, const char *from, int size)
{
    const char *prefetch[MOST_PREFETCH];
    int         n_prefetch = find_prefetches(f, prefetch);

    fr_copy_nontemporal(to, from, (size_t)(f->n_rows * f->n * size), prefetch, n_prefetch);
}

static void
store(struct fr_frame *f, const struct fr_program_step *st)
{
    char     *to = fr_frame_address(f, st->operand, true), *from = f->at[st->a[0]];
    bool      broadcast = st->once || st->row_args;
    ptrdiff_t from_col = broadcast ? 0 : st->size;
    ptrdiff_t from_row = st->once ? 0 : st->row_args ? st->size : f->n * st->size;

    if (from == to && !broadcast)
        return; /* computed in place */
    if (!broadcast && is_contiguous(f, st->operand, st->size)) {
        if (st->operand < 64 && f->nontemporal >> st->operand & 1)
            store_nontemporal(f, to, from, st->size);
        else
            memmove(to, from, (size_t)(f->n_rows * f->n * st->size));
    } else {
        fr_copy_2d((size_t)f->n_rows, (size_t)f->n, st->size, to, row_stride(f, st->operand),
                   inner_stride(f, st->operand), from, from_row, from_col);
    }
}

static void
row_store(struct fr_frame *f, const struct fr_program_step *st)
{
    fr_copy_2d((size_t)f->n_rows, 1, st->size, fr_frame_address(f, st->operand, false),
               row_stride(f, st->operand), 0, f->at[st->a[0]], st->once ? 0 : st->size, 0);
}

static char *
expand(struct fr_frame *f, const struct fr_program_step *st)
{
    const int64_t n_rows = f->n_rows, n = f->n;
    char         *from = f->at[st->a[0]], *to = f->registers + st->offset;

    if (st->once) {
        fr_copy_fill((size_t)(n_rows * n), st->size, to, from);
        return to;
    }
    if (n_rows == 1) {
        /* Operations take it as one element, a reduction needs n of them. */
        if (!st->row_args)
            return from;
        fr_copy_fill((size_t)n, st->size, to, from);
        return to;
    }
    if (n == 1)
        return from;
    FR_ASSERT(fits_register(f, st, n_rows * n));
    fr_copy_2d((size_t)n_rows, (size_t)n, st->size, to, n * st->size, st->size, from, st->size, 0);
    return to;
}

static char *
iota(struct fr_frame *f, const struct fr_program_step *st, bool full)
{
    int64_t  at = (int64_t)fr_frame_address(f, st->operand, full), n = full ? f->n : 1;
    int64_t  by_row = row_stride(f, st->operand), by = full ? inner_stride(f, st->operand) : 0;
    int64_t *to = (int64_t *)(f->registers + st->offset);

    FR_ASSERT(fits_register(f, st, f->n_rows * n));
    for (int64_t t = 0; t < f->n_rows; t++)
        for (int64_t j = 0; j < n; j++)
            to[t * n + j] = (int64_t)((uint64_t)at + (uint64_t)(t * by_row) + (uint64_t)(j * by));
    return (char *)to;
}

/* One result per row of the tile. */
static char *
reduce(struct fr_frame *f, const struct fr_program_step *st)
{
    char *to = f->registers + st->offset;

    FR_ASSERT(fits_register(f, st, f->n_rows));
    fr_reduce_rows(fr_step_reduce_op(st), st->in, (size_t)f->n_rows, (size_t)f->n, f->at[st->a[0]], to, f->temp);
    return to;
}

static char *
sum_products(struct fr_frame *f, const struct fr_program_step *st)
{
    char *to = f->registers + st->offset;

    fr_reduce_products(st->in, (size_t)f->n_rows, (size_t)f->n, f->at[st->a[0]], f->at[st->a[1]], to, f->temp);
    return to;
}

/* Each row of the tile into accumulators of its own. */
static void
accumulate_apart(struct fr_frame *f, const struct fr_program_step *st, char *to, const char *from)
{
    int64_t n = f->n, n_rows = f->n_rows;

    if (is_contiguous(f, st->operand, st->size)) {
        n *= n_rows;
        n_rows = 1;
    }
    for (int64_t r = 0; r < n_rows; r++, to += f->row_stride[st->operand], from += n * fr_dtype_size(st->in)) {
        bool dense = n == 1 || f->inner_stride[st->operand] == st->size;

        if (!dense)
            fr_copy_gather((size_t)n, st->size, f->temp, to, f->inner_stride[st->operand]);
        st->fn.accum(1, (size_t)n, dense ? to : f->temp, from, 0, NULL, 0);
        if (!dense)
            fr_copy_scatter((size_t)n, st->size, to, f->inner_stride[st->operand], f->temp);
    }
}

static void
accumulate(struct fr_frame *f, const struct fr_program_step *st)
{
    char     *to = fr_frame_address(f, st->operand, true), *from = f->at[st->a[0]];
    int       size = fr_dtype_size(st->in);
    ptrdiff_t by = inner_stride(f, st->operand);

    if (f->n == 0 || f->n_rows == 0)
        return;
    if (row_stride(f, st->operand)) {
        accumulate_apart(f, st, to, from);
    } else if (f->n == 1 || by == st->size) {
        st->fn.accum((size_t)f->n_rows, (size_t)f->n, to, from, f->n * size, NULL, 0);
    } else if (by == 0) { /* one accumulator for all elements of all rows */
        st->fn.accum((size_t)(f->n_rows * f->n), 1, to, from, size, NULL, 0);
    } else {
        fr_copy_gather((size_t)f->n, st->size, f->temp, to, by);
        st->fn.accum((size_t)f->n_rows, (size_t)f->n, f->temp, from, f->n * size, NULL, 0);
        fr_copy_scatter((size_t)f->n, st->size, to, by, f->temp);
    }
}

/* ---- lists of steps -------------------------------------------------------------------------- */

void
fr_frame_run(struct fr_frame *f, uint32_t first, uint32_t end)
{
    const struct fr_program_step *st = f->p->steps + first, *stop = f->p->steps + end;
    const size_t          n_rows = (size_t)f->n_rows, n = n_rows * (size_t)f->n;
    const unsigned        row_mask = n_rows == 1 ? 7 : 0;
    char                **at = f->at, *out;

    for (; st < stop; st++) {
        switch (st->kind) {
        case FR_PROGRAM_OP:
            FR_ASSERT(fits_register(f, st, (int64_t)n));
            out = f->registers + st->offset;
            st->fn.map(n, out, at[st->a[0]], at[st->a[1]], at[st->a[2]],
                       st->once | (st->row_args & row_mask));
            at[st->dst] = out;
            break;
        case FR_PROGRAM_OP_STORE:
            out = f->registers + st->offset;
            if (!f->quiet && is_contiguous(f, st->operand, st->size))
                out = fr_frame_address(f, st->operand, true);
            else
                FR_ASSERT(fits_register(f, st, (int64_t)n));
            st->fn.map(n, out, at[st->a[0]], at[st->a[1]], at[st->a[2]],
                       st->once | (st->row_args & row_mask));
            at[st->dst] = out;
            break;
        case FR_PROGRAM_LOAD:
            at[st->dst] = load(f, st);
            break;
        case FR_PROGRAM_STORE:
            if (!f->quiet)
                store(f, st);
            break;
        case FR_PROGRAM_EXPAND:
            at[st->dst] = expand(f, st);
            break;
        case FR_PROGRAM_IOTA:
            at[st->dst] = iota(f, st, true);
            break;
        case FR_PROGRAM_REDUCE:
            at[st->dst] = reduce(f, st);
            break;
        case FR_PROGRAM_SUM_PRODUCTS:
            at[st->dst] = sum_products(f, st);
            break;
        case FR_PROGRAM_ACCUM:
            if (!f->quiet)
                accumulate(f, st);
            break;
        case FR_PROGRAM_ROW_OP:
            out = f->registers + st->offset;
            st->fn.map(n_rows, out, at[st->a[0]], at[st->a[1]], at[st->a[2]], st->once);
            at[st->dst] = out;
            break;
        case FR_PROGRAM_ROW_LOAD:
            at[st->dst] = row_load(f, st);
            break;
        case FR_PROGRAM_ROW_STORE:
            row_store(f, st);
            break;
        case FR_PROGRAM_ROW_IOTA:
            at[st->dst] = iota(f, st, false);
            break;
        case FR_PROGRAM_ONE_OP:
            out = f->registers + st->offset;
            st->fn.map(1, out, at[st->a[0]], at[st->a[1]], at[st->a[2]], 0);
            at[st->dst] = out;
            break;
        case FR_PROGRAM_SCALAR:
            at[st->dst] = (char *)f->scalars + 16 * st->operand;
            break;
        }
    }
}

void
fr_frame_begin_list(struct fr_frame *f, uint32_t first_hazard, uint32_t end_hazard)
{
    const struct fr_hazard *h = f->p->hazards;

    memset(f->loads, 0, f->p->n_loads);
    for (uint32_t i = first_hazard; i < end_hazard; i++)
        if (f->ptr[h[i].load_operand] == f->ptr[h[i].store_operand])
            f->loads[h[i].load] = LOAD_COPIED;
}

/* Whether some operand lies along the columns, so that one row touches a cache line for each element. (Not if
 * an accumulator wants the elements of a row one after the other.) */
static bool
is_transposed(const struct fr_frame *f)
{
    const struct fr_program *p = f->p;
    bool                     found = false;

    for (uint32_t i = p->tile.first; i < p->tile.end; i++) {
        const struct fr_program_step *st = &p->steps[i];
        if (st->kind == FR_PROGRAM_LOAD || st->kind == FR_PROGRAM_STORE) {
            int64_t by_row = f->row_stride[st->operand], by = f->inner_stride[st->operand];
            found |= (by_row == st->size || by_row == -st->size) && (by >= 32 || by <= -32);
        } else if (st->kind == FR_PROGRAM_ACCUM && f->inner_stride[st->operand] == 0) {
            return false;
        }
    }
    return found;
}

/* Whether each element is folded where it lies, row after row: then no register is a reason to stop in between. */
static bool
folds_in_place(const struct fr_frame *f, int64_t n_rows, int64_t n_inner)
{
    const struct fr_program_step *st = &f->p->steps[f->p->tile.first];

    if (!f->p->only_folds)
        return false;
    while (st->kind != FR_PROGRAM_LOAD)
        st++;
    return lies_in_one(f, st->operand, st->size, n_rows, n_inner);
}

/* How many rows a tile has, and how many elements of each. */
static int64_t
choose_tile(struct fr_frame *f, int64_t n_rows, int64_t n_inner, int64_t *piece)
{
    const struct fr_program *p = f->p;
    int64_t                  n = 1;

    *piece = p->stages ? n_inner : fr_even_piece(n_inner, p->tile_want);
    if (n_inner >= FOLD_ROW && folds_in_place(f, n_rows, n_inner))
        n = p->tile_cap / n_inner;
    else if (n_inner <= p->tile_want / 2 && !(p->has_rows && n_inner >= EXPAND_ONE_ROW))
        n = p->tile_want / (n_inner ? n_inner : 1);
    if (p->stages && p->strided && n < TRANSPOSED_ROWS && n_rows > 1 && is_transposed(f))
        n = TRANSPOSED_ROWS < p->tile_cap / n_inner ? TRANSPOSED_ROWS : p->tile_cap / n_inner;
    n = n < n_rows ? n : n_rows;
    return n > 1 ? n : 1;
}

/* A copy as a whole, without a stop in a register on the way; not within one operand, which is read before it
 * is written there. */
static bool
copied(const struct fr_frame *f, int64_t n_rows, int64_t n_inner)
{
    const struct fr_program_step *from = &f->p->steps[f->p->tile.first], *to = &f->p->steps[f->p->tile.end - 1];
    uint32_t              a = from->operand, b = to->operand;

    if (!f->p->copies || f->ptr[a] == f->ptr[b])
        return false;
    fr_copy_2d((size_t)n_rows, (size_t)n_inner, to->size, f->ptr[b], n_rows > 1 ? f->row_stride[b] : 0,
               n_inner > 1 ? f->inner_stride[b] : 0, f->ptr[a], n_rows > 1 ? f->row_stride[a] : 0,
               n_inner > 1 ? f->inner_stride[a] : 0);
    return true;
}

/* Rows that are accumulated as they lie: many at a time, so that the accumulators are read and written once for
 * all of them. */
static bool
accumulated(struct fr_frame *f, int64_t n_rows, int64_t n_inner)
{
    const struct fr_program_step *from = &f->p->steps[f->p->tile.first], *by = &f->p->steps[f->p->tile.end - 1];

    if (!f->p->only_accumulates || f->inner_stride[from->operand] != from->size ||
        f->inner_stride[by->operand] != by->size || (n_rows > 1 && f->row_stride[by->operand]))
        return false;
    by->fn.accum((size_t)n_rows, (size_t)n_inner, f->ptr[by->operand], f->ptr[from->operand],
                 n_rows > 1 ? f->row_stride[from->operand] : 0, NULL, 0);
    return true;
}

/* Places of extremes of rows that lie crosswise, where all of an index lie side by side: those of some rows at once. */
static bool
placed(struct fr_frame *f, int64_t n_rows, int64_t n_inner)
{
    const struct fr_inst *load = &f->p->nest->insts[0], *by = load + 1, *to = load + 2;
    const int             size = fr_dtype_size(load->dtype);
    const ptrdiff_t       step = f->inner_stride[load->operand], by_row = f->row_stride[to->operand];
    char                 *from = f->ptr[load->operand], *out = f->ptr[to->operand];
    int64_t              *index = (int64_t *)(f->temp + PLACED_AT_ONCE * 8);

    if (n_inner < 2 || n_rows < (size < 8 ? PLACED_ROWS : PLACED_WIDE) || f->row_stride[load->operand] != size ||
        step == size)
        return false;
    for (int64_t m; n_rows > 0; n_rows -= m, from += m * size, out += m * by_row) {
        m = n_rows < PLACED_AT_ONCE ? n_rows : PLACED_AT_ONCE;
        memcpy(f->temp, from, (size_t)(m * size));
        memset(index, 0, (size_t)m * sizeof *index);
        f->p->reduce->accum[FR_REDUCE_ROW(by->op)][load->dtype]((size_t)(n_inner - 1), (size_t)m, f->temp, from + step, step,
                                                                 index, 1);
        fr_copy_scatter((size_t)m, sizeof *index, out, by_row, index);
    }
    return true;
}

/* Whether what the steps of the tile read and write lies side by side over so many rows, and is not copied first. */
static bool
lies_flat(const struct fr_frame *f, int64_t n_rows, int64_t n_inner)
{
    const struct fr_program *p = f->p;

    if (n_inner == 1 && n_rows > 1)
        return false;
    for (uint32_t i = p->tile.first; i < p->tile.end; i++) {
        const struct fr_program_step *st = &p->steps[i];

        if (st->kind != FR_PROGRAM_OP && (!lies_in_one(f, st->operand, st->size, n_rows, n_inner) ||
                                       (st->kind == FR_PROGRAM_LOAD && f->loads[st->load])))
            return false;
    }
    return true;
}

/* Whether rows, each of which lies flat, are sooner run one by one than some at a time: those bring together what lies
 * beside gaps. (Five points of 500 x 500 f64 take 75 us, not 175.) */
static bool
apart_is_sooner(const struct fr_frame *f, int64_t n_inner)
{
    const struct fr_program *p = f->p;
    int64_t                  copied = 0, calls = 0;

    if (n_inner >= FLAT_ROW)
        return true;
    for (uint32_t i = p->tile.first; i < p->tile.end; i++) {
        const struct fr_program_step *st = &p->steps[i];

        calls += st->fn.map != NULL;
        if (st->kind != FR_PROGRAM_OP && f->row_stride[st->operand] && f->row_stride[st->operand] != n_inner * st->size)
            copied += n_inner * st->size;
    }
    return copied >= FLAT_COPIED + FLAT_CALL * calls;
}

/* Such, from a row on, in tiles of `most` elements: every place is a register or moves on through memory, so that no more
 * is done for a step than its call. */
static void
run_flat(struct fr_frame *f, int64_t row, int64_t n_all, int64_t most)
{
    const struct fr_program *p = f->p;
    const struct fr_program_step    *first = p->steps + p->tile.first, *stop = p->steps + p->tile.end;
    char                   **at = f->at;

    f->row0 = row;
    f->j0 = 0;
    f->n_rows = 1;
    f->n = fr_even_piece(n_all, most);
    for (const struct fr_program_step *st = first; st < stop; st++)
        if (st->kind != FR_PROGRAM_STORE)
            at[st->dst] = st->kind == FR_PROGRAM_OP ? f->registers + st->offset : fr_frame_address(f, st->operand, true);
    for (;;) {
        f->n = f->n < n_all - f->j0 ? f->n : n_all - f->j0;
        for (const struct fr_program_step *st = first; st < stop; st++) {
            FR_ASSERT(st->kind != FR_PROGRAM_OP || fits_register(f, st, f->n));
            if (st->fn.map)
                st->fn.map((size_t)f->n, at[st->dst], at[st->a[0]], at[st->a[1]], at[st->a[2]], st->once);
            else if (st->kind == FR_PROGRAM_STORE)
                store(f, st);
        }
        if ((f->j0 += f->n) >= n_all)
            return;
        for (const struct fr_program_step *st = first; st < stop; st++)
            if (st->kind == FR_PROGRAM_LOAD || st->kind == FR_PROGRAM_OP_STORE)
                at[st->dst] += f->n * st->size;
    }
}

static void
run_tiles(struct fr_frame *f, int64_t n_rows, int64_t n_inner)
{
    const struct fr_program *p = f->p;
    int64_t                  piece, tile_rows;

    if (copied(f, n_rows, n_inner) || accumulated(f, n_rows, n_inner))
        return;
    fr_frame_begin_list(f, 0, p->tile_end_hazard);
    if (p->flat_want && lies_flat(f, n_rows, n_inner)) {
        run_flat(f, 0, n_rows * n_inner, n_rows * n_inner <= p->tile_want ? p->tile_want : p->flat_want);
        return;
    }
    if (p->flat_want && apart_is_sooner(f, n_inner) && lies_flat(f, 1, n_inner)) {
        /* Operands may be windows over the same lines, and take less than was counted. Of lines at the ends of tiles only
         * parts go past the caches, which is slow: as few as possible. */
        int64_t most = f->nontemporal || 2 * p->flat_want > p->tile_want ? p->tile_want : 2 * p->flat_want;

        for (int64_t r = 0; r < n_rows; r++)
            run_flat(f, r, n_inner, most);
        return;
    }
    tile_rows = choose_tile(f, n_rows, n_inner, &piece);
    f->n_rows = tile_rows;
    f->n = piece;
    for (int64_t r = 0; r < n_rows; r += tile_rows) {
        f->row0 = r;
        f->n_rows = n_rows - r < tile_rows ? n_rows - r : tile_rows;
        f->j0 = 0;
        f->n = piece;
        fr_frame_run(f, p->tile.first, p->tile.end);
        for (int64_t j = piece; j < n_inner; j += piece) {
            f->j0 = j;
            f->n = n_inner - j < piece ? n_inner - j : piece;
            fr_frame_run(f, p->tile_rows_end, p->tile.end);
        }
    }
}

void
fr_interp_rows(const struct fr_program *p, char *const *ptr, const int64_t *row_stride,
               const int64_t *inner_stride, int64_t n_rows, int64_t n_inner, const void *scalars,
               void *scratch)
{
    struct fr_frame *f = fr_frame_begin(p, ptr, row_stride, inner_stride, scalars, scratch);

    if (n_rows <= 0)
        return;
    fr_frame_run(f, p->once.first, p->once.end);
    if (p->only_places && placed(f, n_rows, n_inner))
        return;
    if (p->stages && n_inner > p->tile_cap)
        fr_frame_run_long(f, n_rows, n_inner);
    else
        run_tiles(f, n_rows, n_inner);
    if (p->stores_nontemporal)
        fr_copy_settle();
}
