/* backends/cpu/schedule_rows.c -- which axis the rows are, and rows that are read as other rows.
 *
 * Operands that run crosswise are packed: the launcher turns them over, and the nest reads the copy along its rows. Rows
 * of a few elements are joined: the nest has one long row of them. */
#include "backends/cpu/schedule_int.h"

#include <string.h>

#include "base/ways.h"
#include "passes/nest_limits.h"

/* ---- the order of axes ---- */

enum {
    FEW_ELEMENTS = 2048, /* of all rows of one call of the executor, a few times as long as the call */
    FEW_ACCUMULATED = 512, /* elements that go into a row of neighbours; what is more keeps to its lines */
    ROWS_LINE = 64,     /* bytes of an operand that lie side by side along the rows: its line would be gone */
};

/* Two axes of one class change places. */
static void
swap_axes(struct scheduling *z, int p, int q)
{
    int64_t size = z->dims[p];

    z->dims[p] = z->dims[q];
    z->dims[q] = size;
    for (size_t o = 0; o < z->n_op; o++) {
        int64_t stride = z->op[o].stride[p];

        z->op[o].stride[p] = z->op[o].stride[q];
        z->op[o].stride[q] = stride;
    }
}

/* The longest of the axes up to `last`. */
static int
longest_axis(const struct scheduling *z, int last)
{
    int longest = last;

    for (int p = last; p >= 0; p--)
        if (z->dims[p] > z->dims[longest])
            longest = p;
    return longest;
}

/* Where rows are short and few, every index of the outer axes would be a call of its own: the longest of them becomes
 * the rows. No row waits for another, whatever axes they have. */
void
fr_schedule_longest_rows(struct scheduling *z)
{
    int row = z->n_axes - 2;

    if (row < 1 || z->dims[row] * z->dims[row + 1] >= FEW_ELEMENTS || z->l->class_[row] == FR_AXIS_INNER)
        return;
    for (size_t o = 0; o < z->n_op; o++)
        if (z->op[o].stride[row] == 1 && z->op[o].stride[row + 1] != 0 &&
            z->dims[row] * fr_dtype_size(z->form[o].dtype) >= ROWS_LINE)
            return;
    swap_axes(z, row, longest_axis(z, row));
}

/* What is short and accumulated into few neighbours is a call for each few as well: the longest of the axes that are
 * kept becomes theirs. Accumulators do not wait for each other. */
void
fr_schedule_neighbours(struct scheduling *z)
{
    int     last = z->n_axes - 2;
    int64_t n = z->dims[z->n_axes - 1];

    for (; last >= 0 && z->l->class_[last] != FR_AXIS_KEPT; last--)
        n *= z->dims[last];
    if (last < 1 || n * z->dims[last] >= FEW_ACCUMULATED)
        return;
    for (int p = 0; p < last; p++)
        if (z->l->class_[p] != FR_AXIS_KEPT)
            return;
    swap_axes(z, last, longest_axis(z, last));
}

/* ---- packing: backends/cpu/tiles.c ---------------------------------------------------------- */

enum {
    PACK_STEP = 64,         /* bytes, a cache line: a row that takes such steps takes one element of each */
    PACK_ROW = 64,          /* elements of a row that is gathered */
    PACK_APART = 4,         /* elements from one to the next, and PACK_WIDE bytes: FR_SHUFFLE_STEP */
    PACK_WIDE = 8,          /* bytes of an element; compiled code puts a vector of such together about as soon */
    PACK_NEAR = 4 << 20,    /* bytes, and more in memory: for more, memory is what a row waits for, unless PACK_WIDE
                             * bytes have several elements */
    PACK_ROWS = 2 << 20,    /* bytes of FR_PACK_EXTENT whole rows, which a tile has where they are reduced */
};

/* Whether the lines of a row's elements, `step` bytes apart, stay in the first cache until the next row wants what lies
 * beside them, among whatever else is there. Lines that are a multiple of 4 KB apart share a set. */
static bool
row_stays(int64_t n, int64_t step)
{
    enum { LINE = 64, SETS = 64, WAYS = 6 };
    int64_t apart = step & -step;

    return n <= WAYS * (apart <= LINE ? SETS : apart < LINE * SETS ? LINE * SETS / apart : 1);
}

/* Whether a row that takes every so many-th element is sooner copied by shuffles of whole vectors than read one by one. */
static bool
is_near(int64_t stride, int64_t step, int64_t bytes)
{
    return stride >= 2 && stride <= PACK_APART && (step < PACK_WIDE || (step == PACK_WIDE && bytes <= PACK_NEAR));
}

/* Whether the nest does nothing but bring elements to other places. */
static bool
only_moves(const struct scheduling *z)
{
    for (size_t i = 0; i < z->n_inst; i++) {
        const struct fr_inst *in = &z->inst[i];
        bool                  same = in->kind == FR_INST_OP && in->op == FR_OP_cast && z->inst[in->a[0]].dtype == in->dtype;

        if (in->kind != FR_INST_LOAD && in->kind != FR_INST_STORE && !same)
            return false;
    }
    return true;
}

/* The axis along which the elements of a crosswise operand lie side by side; or the row itself where that takes every
 * second to fourth one, or goes backwards, and has no access for it: copies of those are shuffles of whole vectors. -1: not
 * worth packing. */
static int
pack_axis(struct scheduling *z, int operand, bool whole_rows, bool moves)
{
    const struct operand *o = &z->op[operand];
    int     size = fr_dtype_size(z->form[operand].dtype), inner = z->n_axes - 1, axis = inner - 1;
    int64_t bytes = size, step, row;
    bool    near, small;

    if (inner < 0 || o->stride[inner] == 0 || o->stride[inner] == 1)
        return -1;
    while (axis >= 0 && ((o->stride[axis] != 1 && o->stride[axis] != -1) || z->dims[axis] < FR_PACK_EXTENT))
        axis--;
    row = z->dims[inner] * size;
    step = (o->stride[inner] < 0 ? -o->stride[inner] : o->stride[inner]) * size;
    for (int p = 0; p < z->n_axes; p++)
        bytes *= o->stride[p] ? z->dims[p] : 1;
    if (whole_rows && row * FR_PACK_EXTENT > PACK_ROWS)
        return -1;
    near = moves ? o->stride[inner] >= 2 && o->stride[inner] <= PACK_APART : is_near(o->stride[inner], step, bytes);
    if (axis < 0)
        small = !((o->stride[inner] == -1 || near) && (moves || z->form[operand].access == FR_ACCESS_STRIDED)) ||
                z->dims[inner] < PACK_ROW || (moves ? size > PACK_WIDE : size >= PACK_WIDE);
    else
        small = step < PACK_STEP || z->dims[inner] < FR_PACK_EXTENT ||
                (size >= PACK_WIDE && row_stays(z->dims[inner], step));
    if (fr_env.pack_bytes > 0 && (small || !fr_schedule_reaches(z, bytes, fr_env.pack_bytes)))
        return -1;
    return axis < 0 ? inner : axis;
}

/* Says which operands the launcher is to pack: what runs then finds them as if they were contiguous. A tile has
 * two sides beside the row, and but one where it must hold whole rows. Accumulators keep their rows in order. */
int
fr_schedule_pack(struct scheduling *z)
{
    bool whole_rows = false, moves = only_moves(z);
    int  side[2], n_sides = 0, n_packed = 0;

    for (int p = 0; p < z->n_axes; p++)
        if (z->dims[p] == 0)
            return 0; /* there is nothing to cut into tiles */
    if (z->n_axes > 1 && fr_nest_finds_places(z->inst, z->n_inst) && z->op[z->inst[0].operand].stride[z->n_axes - 2] == 1 &&
        z->dims[z->n_axes - 2] >= FR_PACK_EXTENT)
        return 0; /* read where they lie, many rows at once */
    for (size_t i = 0; i < z->n_inst; i++) {
        const struct fr_inst *in = &z->inst[i];
        bool                  stores = in->kind == FR_INST_STORE;

        whole_rows |= in->kind == FR_INST_REDUCE || (stores && in->level != FR_LEVEL_FULL);
        if (in->kind == FR_INST_ACCUM || (stores && z->form[in->operand].flags & FR_OPERAND_STREAM))
            return 0;
    }
    for (size_t i = 0; i < z->n_inst; i++) {
        int operand = z->inst[i].operand, axis, s = 0;

        if (z->inst[i].kind != FR_INST_LOAD || z->inst[i].level != FR_LEVEL_FULL ||
            (axis = pack_axis(z, operand, whole_rows, moves)) < 0)
            continue;
        if (axis < z->n_axes - 1) {
            while (s < n_sides && side[s] != axis)
                s++;
            if (s == (whole_rows ? 1 : 2))
                continue;
            side[s] = axis;
            n_sides += s == n_sides;
            z->op[operand].turned = true;
        }
        z->op[operand].packed = true;
        n_packed++;
    }
    return n_packed;
}

/* ---- joining: backends/cpu/short_rows.c -------------------------------------------------- */

enum {
    JOIN_MOVED = 1024, /* elements of a row that nothing is computed of (FR_TURN_ROW); */
    JOIN_COMPUTED = 256, /* of one that crosswise elements are brought to; */
    JOIN_MORE = 128,  /* of any other, and bytes of one whose elements have another order; */
    JOIN_LESS = 16,   /* of one beside gaps, over which compiled code steps otherwise */
    JOIN_SPAN = 128,  /* bytes from one end to the other of what a row takes: two of the widest vectors */
};

/* How many elements lie from one end to the other of what the operand has of the axes from `first` on. */
static int64_t
row_span(const struct scheduling *z, int operand, int first)
{
    int64_t span = 1;

    for (int p = first; p < z->n_axes; p++) {
        int64_t stride = z->op[operand].stride[p];

        span += (z->dims[p] - 1) * (stride < 0 ? -stride : stride);
    }
    return span;
}

/* Whether that lies in order, without a gap. */
static bool
adjoins(const struct scheduling *z, int operand, int first)
{
    int64_t n = 1;

    for (int p = z->n_axes - 1; p >= first; n *= z->dims[p--])
        if (z->op[operand].stride[p] != n)
            return false;
    return true;
}

/* Whether the axes from `first` on are short rows of the axis before them, which has many; what is stored is adjoining
 * rows; and it is made of what lies otherwise: a number for each row, one row for all, elements in another order or
 * beside gaps. */
static bool
can_join(const struct scheduling *z, int first)
{
    int     row = first - 1;
    int64_t most = 0, n = 1, n_row = 1;
    bool    computes = false, repeats = false, several = first < z->n_axes - 1, turns = several, far = false;
    bool    crosswise = false, steps = true;

    for (int p = 0; p < z->n_axes; p++) {
        n *= z->dims[p];
        n_row *= p < first ? 1 : z->dims[p];
    }
    if (n == 0 || n_row == 1 || n_row > JOIN_MOVED || (z->dims[row] < FR_JOIN_ROWS && fr_env.pack_bytes > 0))
        return false;
    for (size_t i = 0; i < z->n_inst; i++) {
        const struct fr_inst *in = &z->inst[i];

        if (in->kind == FR_INST_STORE) {
            if (in->level != FR_LEVEL_FULL || (z->form[in->operand].flags & FR_OPERAND_STREAM) ||
                !adjoins(z, in->operand, row))
                return false;
            most = fr_dtype_size(in->dtype) > most ? fr_dtype_size(in->dtype) : most;
        } else if (in->kind == FR_INST_OP) {
            computes |= in->op != FR_OP_cast;
        } else if (in->kind == FR_INST_LOAD) {
            int64_t span = row_span(z, in->operand, first);
            bool    common = z->op[in->operand].stride[row] == 0;

            repeats |= common != (span == 1);
            turns |= span > 1 && !adjoins(z, in->operand, first);
            far |= !common && span * fr_dtype_size(in->dtype) > JOIN_SPAN;
            if (!common && span > 1 && !adjoins(z, in->operand, row)) {
                crosswise |= z->op[in->operand].stride[z->n_axes - 1] != 1;
                steps &= z->op[in->operand].stride[z->n_axes - 1] != 1;
            }
        } else if (in->kind != FR_INST_SCALAR) {
            return false;
        }
    }
    if (most == 0 || n * most < fr_env.pack_bytes || (repeats && !computes && !turns)) /* which is a copy by itself */
        return false;
    /* What is not where it is by whole pieces is brought there one by one, be it here or there. */
    if ((several || n_row <= FR_PACK_EXTENT) && crosswise && steps && (n_row <= JOIN_COMPUTED || only_moves(z)))
        return true;
    if (n_row > JOIN_MORE)
        return false;
    if (several && z->dims[z->n_axes - 1] * most <= FR_JOIN_BYTES)
        return !far && n_row * most <= FR_JOIN_MOST;
    return (repeats && !several && n_row * most <= FR_JOIN_BYTES) ||
           (!far && n_row * most <= (turns ? JOIN_MORE : JOIN_LESS));
}

/* Moves one axis inwards, to position `to`. */
static void
move_axis(struct scheduling *z, int from, int to)
{
    int64_t size = z->dims[from];
    uint8_t class_ = z->l->class_[from];

    memmove(z->dims + from, z->dims + from + 1, (size_t)(to - from) * sizeof *z->dims);
    memmove(z->l->class_ + from, z->l->class_ + from + 1, (size_t)(to - from));
    z->dims[to] = size;
    z->l->class_[to] = class_;
    for (size_t o = 0; o < z->n_op; o++) {
        int64_t *stride = z->op[o].stride, moved = stride[from];

        memmove(stride + from, stride + from + 1, (size_t)(to - from) * sizeof *stride);
        stride[to] = moved;
    }
}

int
fr_schedule_join_rows(struct scheduling *z, int *n_packed)
{
    int first = z->n_axes - 1;

    while (first > 0 && !can_join(z, first))
        first--;
    if (first <= 0 || fr_is_off(FR_OFF_joined))
        return 0;
    for (size_t i = 0; i < z->n_inst; i++) {
        struct fr_inst *in = &z->inst[i];
        struct operand *o = &z->op[in->operand];

        if (in->kind != FR_INST_LOAD || adjoins(z, in->operand, first - 1) ||
            (in->level != FR_LEVEL_FULL && o->stride[first - 1] == 0 && row_span(z, in->operand, first) == 1))
            continue;
        in->level = FR_LEVEL_FULL;
        o->packed = true;
        ++*n_packed;
    }
    move_axis(z, first - 1, z->n_axes - 2);
    return z->n_axes - first;
}
