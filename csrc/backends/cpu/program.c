/* backends/cpu/program.c -- makes the block interpreter's form of a nest (program.h).
 *
 * Every list of steps is made the same way: choose the instructions, write their steps, then walk
 * the steps once and give each value a register, reusing those whose last reader has passed. The
 * width of a register (how many elements) follows from how many are live, so that they stay in
 * cache. */
#include "backends/cpu/program.h"

#include <string.h>

#include "backends/cpu/launch.h"
#include "backends/cpu/program_int.h"
#include "base/alloc.h"
#include "base/arena.h"

enum {
    BLOCK_MIN = 512, /* elements; below, calling the kernels shows */
    BLOCK_MAX = 4096,
    BLOCK_BYTES = 8192, /* of registers; a quarter of the smallest L1, the rest is for operands */
    FLAT_MIN = 128, /* elements; */
    FLAT_BYTES = 7168, /* of registers and operands: so little that the processor is at the next tile's loads while this
                        * one is computed and stored */
    WHOLE_ROW_BYTES = 512 << 10, /* of registers and loads of a whole row: half of an L2 of 1 MB */
    WHOLE_ROW_MAX = 65536, /* elements */
    PAD_BYTES = 192,   /* between registers, so that they do not share the low 12 address bits */
    SCALAR_BYTES = 16, /* of a SCALAR value */
};
#define NONE 0xffff

struct builder {
    struct fr_program    *p;
    const struct fr_nest *nest;
    struct fr_err        *err;
    struct fr_arena       scratch;
    size_t                cap_steps, n_steps, cap_hazards, n_hazards;
    uint16_t             *order; /* [n_insts] loads, the rest, reductions: the order in a stage */
    uint32_t              n_level[FR_LEVEL_FULL + 1]; /* instructions of each level */
    uint16_t             *expanded; /* [n_insts] place of a value's expansion, or NONE */
    uint8_t              *marked;   /* [n_insts] wanted in the list being made */
    uint8_t              *ready;    /* [n_insts] its expansion has been written in this list */
    uint8_t              *done;     /* [n_insts] in the tile already */
    uint16_t *parent;   /* [n_insts] by place - n_insts: of which value it is the expansion */
    uint32_t *last_use; /* [2 * n_insts] by place: the last step that reads it */
    uint32_t *offset;   /* [2 * n_insts] by register or load: where it begins, or UINT32_MAX */
    uint16_t *reg;      /* [2 * n_insts] by place: its register in this list, or NONE */
    uint8_t  *reg_size; /* [2 * n_insts] of the list's registers: element size */
    uint8_t  *reg_free;
    uint32_t *step_reg; /* [n_steps] by step: its register, or NONE */
    uint32_t  n_regs;
    size_t    scalar_bytes; /* so far */
    int64_t   elem_bytes;   /* of the registers of the widest list made since it was set to 0 */
};

static fr_map_fn *
map_kernel(const struct builder *b, const struct fr_inst *in)
{
    if (in->op == FR_OP_cast)
        return b->p->kernels->cast[b->nest->insts[in->a[0]].dtype][in->dtype];
    return b->p->kernels->map[in->op][fr_nest_compute(b->nest, (int)(in - b->nest->insts))];
}

/* Room for one more of `n` items of `size` bytes, at least `first` to begin with. */
static void *
grow(struct builder *b, void *items, size_t *cap, size_t n, size_t first, size_t size)
{
    void *grown;

    if (n < *cap)
        return items;
    *cap = n ? 2 * n : first;
    if ((grown = fr_arena_room(&b->scratch, *cap * size)) && n)
        memcpy(grown, items, n * size);
    return grown;
}

static struct fr_program_step *
new_step(struct builder *b, int kind)
{
    struct fr_program_step *st;

    if (b->n_steps == b->cap_steps) {
        st = grow(b, b->p->steps, &b->cap_steps, b->n_steps, 2 * (size_t)b->nest->n_insts,
                  sizeof *st);
        if (!st)
            return NULL;
        b->p->steps = st;
    }
    st = &b->p->steps[b->n_steps++];
    *st = (struct fr_program_step){.kind = (uint8_t)kind, .operand = NONE};
    return st;
}

static fr_status
out_of_memory(struct builder *b)
{
    return fr_fail(b->err, FR_ENOMEM, "program for a kernel of %u instructions", b->nest->n_insts);
}

/* ---- steps of one instruction ---------------------------------------------------------------- */

/* The place of value `i` as one element for each of T * n: FULL values are, others are expanded
 * before they are first used. Operations take the single element of a tile of one row as it is
 * (`row_args` of their step); for others it is expanded then, too (`row_args` of the expansion). */
static fr_status
as_full(struct builder *b, uint16_t i, bool always, uint16_t *place)
{
    const struct fr_inst *v = &b->nest->insts[i];
    struct fr_program_step       *st;

    *place = i;
    if (v->level == FR_LEVEL_FULL)
        return FR_OK;
    if (b->expanded[i] == NONE) {
        b->parent[b->p->n_places - b->nest->n_insts] = i;
        b->expanded[i] = (uint16_t)b->p->n_places++;
    }
    *place = b->expanded[i];
    if (b->ready[i]) {
        st = &b->p->steps[b->n_steps - 1];
        while (always && (st->kind != FR_PROGRAM_EXPAND || st->a[0] != i))
            st--;
        st->row_args |= always;
        return FR_OK;
    }
    b->ready[i] = 1;
    if (!(st = new_step(b, FR_PROGRAM_EXPAND)))
        return out_of_memory(b);
    st->size = (uint8_t)fr_dtype_size(v->dtype);
    st->dst = *place;
    st->a[0] = i;
    st->once = v->level == FR_LEVEL_SCALAR;
    st->row_args = always;
    b->p->has_rows = true;
    return FR_OK;
}

static fr_status
emit_op(struct builder *b, uint16_t i, int level)
{
    static const uint8_t  kinds[] = {FR_PROGRAM_ONE_OP, FR_PROGRAM_ROW_OP, FR_PROGRAM_OP};
    const struct fr_inst *in = &b->nest->insts[i];
    fr_map_fn            *fn = map_kernel(b, in);
    int                   n_args = fr_nest_n_args(in);
    struct fr_program_step        made = {0}, *st;
    fr_status             s;

    if (!fn)
        return fr_fail(b->err, FR_ENOTSUP, "no block kernel for %s of %s", fr_op_info[in->op].name,
                       fr_dtype_code(b->nest->insts[in->a[0]].dtype));
    for (int k = 0; k < n_args; k++) {
        int from = b->nest->insts[in->a[k]].level;
        made.a[k] = in->a[k];
        if (from == FR_LEVEL_SCALAR) {
            made.once |= (uint8_t)(1 << k);
        } else if (from == FR_LEVEL_ROW && level == FR_LEVEL_FULL) {
            if ((s = as_full(b, in->a[k], false, &made.a[k])) != FR_OK)
                return s;
            made.row_args |= (uint8_t)(1 << k);
        }
    }
    /* Arguments that the operation does not have point at one that it has. */
    for (int k = n_args; k < 3; k++)
        made.a[k] = made.a[0];
    if (!(st = new_step(b, kinds[level])))
        return out_of_memory(b);
    st->fn.map = fn;
    st->size = (uint8_t)fr_dtype_size(in->dtype);
    st->dst = i;
    st->once = made.once;
    st->row_args = made.row_args;
    memcpy(st->a, made.a, sizeof st->a);
    return FR_OK;
}

static fr_status
emit_reduce(struct builder *b, uint16_t i)
{
    const struct fr_inst *in = &b->nest->insts[i];
    bool                  accum = in->kind == FR_INST_ACCUM;
    uint16_t              of = fr_program_only_counts(b->nest, in->a[0]) ? b->nest->insts[in->a[0]].a[0] : in->a[0], place;
    fr_dtype              from = b->nest->insts[of].dtype;
    struct fr_program_step       *st;
    fr_status             s = as_full(b, of, true, &place);

    if (s != FR_OK)
        return s;
    if (!(st = new_step(b, accum ? FR_PROGRAM_ACCUM : FR_PROGRAM_REDUCE)))
        return out_of_memory(b);
    st->op_row = (uint8_t)FR_REDUCE_ROW(in->op);
    st->in = from;
    st->size = (uint8_t)fr_dtype_size(in->dtype);
    st->dst = i;
    st->inst = i;
    st->a[0] = st->a[1] = st->a[2] = place;
    st->operand = in->operand;
    if (accum)
        st->fn.accum = fr_reduce->accum[st->op_row][from];
    if (accum ? !st->fn.accum || fr_op_finds_index(in->op)
              : !fr_reduce->fold_rows[st->op_row][from])
        return fr_fail(b->err, FR_ENOTSUP, "no %s kernel for %s of %s",
                       accum ? "accumulation" : "reduction", fr_op_info[in->op].name,
                       fr_dtype_code(from));
    return FR_OK;
}

static fr_status
emit(struct builder *b, uint16_t i)
{
    static const uint8_t  loads[] = {0, FR_PROGRAM_ROW_LOAD, FR_PROGRAM_LOAD};
    static const uint8_t  stores[] = {0, FR_PROGRAM_ROW_STORE, FR_PROGRAM_STORE};
    static const uint8_t  iotas[] = {0, FR_PROGRAM_ROW_IOTA, FR_PROGRAM_IOTA};
    const struct fr_inst *in = &b->nest->insts[i];
    struct fr_program_step       *st;
    int                   level = in->level, from;

    switch (in->kind) {
    case FR_INST_OP:
        return fr_program_only_counts(b->nest, i) ? FR_OK : emit_op(b, i, level);
    case FR_INST_REDUCE:
    case FR_INST_ACCUM:
        return emit_reduce(b, i);
    case FR_INST_SCALAR:
        st = new_step(b, FR_PROGRAM_SCALAR);
        break;
    case FR_INST_LOAD:
        st = new_step(b, loads[level]);
        break;
    case FR_INST_IOTA:
        st = new_step(b, iotas[level]);
        break;
    default:
        st = new_step(b, stores[level]);
        break;
    }
    if (!st)
        return out_of_memory(b);
    st->size = (uint8_t)fr_dtype_size(in->dtype);
    st->operand = in->operand;
    st->dst = i;
    if (in->kind == FR_INST_STORE) {
        from = b->nest->insts[in->a[0]].level;
        st->a[0] = st->a[1] = st->a[2] = in->a[0];
        st->once = from == FR_LEVEL_SCALAR;
        st->row_args = from == FR_LEVEL_ROW;
    }
    return FR_OK;
}

/* ---- choosing instructions ------------------------------------------------------------------- */

/* The order within one stage: loads, the rest, reductions (which the long form wants at the end).
 */
static void
order_insts(struct builder *b)
{
    const struct fr_inst *insts = b->nest->insts;
    uint32_t              n_loads = 0, n_reduces = 0, n = b->nest->n_insts, at[3];

    for (uint32_t i = 0; i < n; i++) {
        n_loads += insts[i].kind == FR_INST_LOAD;
        n_reduces += insts[i].kind == FR_INST_REDUCE;
        b->n_level[insts[i].level]++;
    }
    at[0] = 0;
    at[1] = n_loads;
    at[2] = n - n_reduces;
    for (uint32_t i = 0; i < n; i++)
        b->order[at[insts[i].kind == FR_INST_LOAD ? 0 : 1 + (insts[i].kind == FR_INST_REDUCE)]++] =
            (uint16_t)i;
}

static fr_status
emit_marked(struct builder *b)
{
    fr_status st;

    for (uint32_t i = 0; i < b->nest->n_insts; i++)
        if (b->marked[b->order[i]] && (st = emit(b, b->order[i])) != FR_OK)
            return st;
    return FR_OK;
}

/* The SCALAR instructions, or the ROW instructions of a stage that are not reductions. */
static fr_status
emit_level(struct builder *b, int level, int stage)
{
    fr_status st;

    for (uint32_t i = 0; i < b->nest->n_insts && b->n_level[level]; i++) {
        const struct fr_inst *in = &b->nest->insts[b->order[i]];

        if (in->level == level && in->kind != FR_INST_REDUCE &&
            (level == FR_LEVEL_SCALAR || in->stage == stage) &&
            (st = emit(b, b->order[i])) != FR_OK)
            return st;
    }
    return FR_OK;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* A value that is stored in this list is computed where the first of its stores wants it, unless it is stored past
 * the caches. */
static void
forward_stores(struct builder *b, struct fr_program_steps l)
{
    struct fr_program_step *steps = b->p->steps;

    for (uint32_t i = l.first; i < l.end; i++) {
        if (steps[i].kind != FR_PROGRAM_STORE || steps[i].once || steps[i].row_args ||
            b->nest->operands[steps[i].operand].schedule & FR_SCHEDULE_NONTEMPORAL)
            continue;
        for (uint32_t k = i; k-- > l.first;) {
            if (steps[k].dst != steps[i].a[0])
                continue;
            if (steps[k].kind == FR_PROGRAM_OP) {
                steps[k].kind = FR_PROGRAM_OP_STORE;
                steps[k].operand = steps[i].operand;
            }
            break;
        }
    }
}

static bool
makes_value(const struct fr_program_step *st)
{
    return st->kind != FR_PROGRAM_STORE && st->kind != FR_PROGRAM_ROW_STORE && st->kind != FR_PROGRAM_ACCUM;
}

static bool
is_load(const struct fr_program_step *st)
{
    return st->kind == FR_PROGRAM_LOAD || st->kind == FR_PROGRAM_ROW_LOAD;
}

static void
find_last_uses(struct builder *b, struct fr_program_steps l)
{
    struct fr_program_step *steps = b->p->steps;

    for (uint32_t i = l.first; i < l.end; i++) {
        b->last_use[steps[i].dst] = i;
        for (int k = 0; k < fr_step_args(&steps[i]); k++)
            b->last_use[steps[i].a[k]] = i;
    }
    /* The ROW values of a nest that may cut its rows are computed once for all pieces. */
    if (!b->p->stages)
        for (uint32_t i = l.first; i < b->p->tile_rows_end; i++)
            b->last_use[steps[i].dst] = l.end;
    /* An expansion may be its argument itself, so the argument lives as long. */
    for (uint32_t i = l.end; i-- > l.first;)
        if (steps[i].kind == FR_PROGRAM_EXPAND &&
            b->last_use[steps[i].a[0]] < b->last_use[steps[i].dst])
            b->last_use[steps[i].a[0]] = b->last_use[steps[i].dst];
}

static uint16_t
take_register(struct builder *b, int size)
{
    for (uint32_t r = b->n_regs; r-- > 0;)
        if (b->reg_free[r] && b->reg_size[r] == size) {
            b->reg_free[r] = 0;
            return (uint16_t)r;
        }
    b->reg_size[b->n_regs] = (uint8_t)size;
    b->reg_free[b->n_regs] = 0;
    return (uint16_t)b->n_regs++;
}

static inline void
release(struct builder *b, uint16_t place, uint32_t at)
{
    for (;; place = b->parent[place - b->nest->n_insts]) {
        if (b->reg[place] != NONE && b->last_use[place] == at) {
            b->reg_free[b->reg[place]] = 1;
            b->reg[place] = NONE;
        }
        if (place < b->nest->n_insts)
            break;
    }
}

/* Gives registers to the values of a list; step_reg keeps them until their width is known. In lists
 * of the long form ROW values live in slots. */
static void
assign_registers(struct builder *b, struct fr_program_steps l, bool rows_in_slots)
{
    struct fr_program_step *steps = b->p->steps;
    int64_t         bytes = 0;

    find_last_uses(b, l);
    memset(b->reg, 0xff, 2 * b->nest->n_insts * sizeof *b->reg);
    b->n_regs = 0;
    for (uint32_t i = l.first; i < l.end; i++) {
        struct fr_program_step *st = &steps[i];
        bool            row = st->kind == FR_PROGRAM_ROW_OP || st->kind == FR_PROGRAM_ROW_IOTA || fr_step_reduces(st);
        b->step_reg[i] = NONE;
        if (makes_value(st) && !is_load(st) && !(row && rows_in_slots)) {
            uint16_t r = NONE;
            /* In place where an argument of this size is read for the last time. */
            if (st->kind == FR_PROGRAM_OP || st->kind == FR_PROGRAM_OP_STORE ||
                st->kind == FR_PROGRAM_ROW_OP)
                for (int k = 0; k < 3 && r == NONE; k++)
                    if (b->reg[st->a[k]] != NONE && b->last_use[st->a[k]] == i &&
                        b->reg_size[b->reg[st->a[k]]] == st->size) {
                        r = b->reg[st->a[k]];
                        b->reg[st->a[k]] = NONE;
                    }
            if (r == NONE)
                r = take_register(b, st->size);
            b->reg[st->dst] = r;
            b->step_reg[i] = r;
        }
        for (int k = 0; k < fr_step_args(st); k++)
            release(b, st->a[k], i);
        if (makes_value(st))
            release(b, st->dst, i);
    }
    for (uint32_t r = 0; r < b->n_regs; r++)
        bytes += b->reg_size[r];
    if (bytes > b->elem_bytes)
        b->elem_bytes = bytes;
}

/* Turns register numbers into offsets, `cap` elements each, and returns the end of the registers.
 * The registers of a list have been numbered in the order in which their steps come. */
static size_t
place_registers(struct builder *b, struct fr_program_steps l, size_t at, int64_t cap)
{
    struct fr_program_step *steps = b->p->steps;
    size_t          end = at;

    memset(b->offset, 0xff, 2 * b->nest->n_insts * sizeof *b->offset);
    for (uint32_t i = l.first; i < l.end; i++) {
        uint32_t r = b->step_reg[i];
        if (r == NONE)
            continue;
        if (b->offset[r] == UINT32_MAX) {
            b->offset[r] = (uint32_t)end;
            end += (((size_t)cap * steps[i].size + 63) & ~(size_t)63) + PAD_BYTES;
        }
        steps[i].offset = b->offset[r];
    }
    return end;
}

/* Which loads would see what the list has already written, if they are not copied first. The last
 * uses are those that assign_registers has just found. */
static fr_status
find_hazards(struct builder *b, struct fr_program_steps l)
{
    struct fr_program_step *steps = b->p->steps;
    uint32_t        first_write = l.first;

    while (first_write < l.end && !fr_step_writes(&steps[first_write]))
        first_write++;
    for (uint32_t i = l.first; i < l.end; i++) {
        if (!is_load(&steps[i]))
            continue;
        for (uint32_t k = first_write; k < b->last_use[steps[i].dst]; k++) {
            struct fr_hazard *hazards;

            if (!fr_step_writes(&steps[k]) || b->nest->operands[steps[k].operand].dtype !=
                                                 b->nest->operands[steps[i].operand].dtype)
                continue;
            if (!(hazards =
                      grow(b, b->p->hazards, &b->cap_hazards, b->n_hazards, 16, sizeof *hazards)))
                return out_of_memory(b);
            b->p->hazards = hazards;
            hazards[b->n_hazards++] =
                (struct fr_hazard){steps[i].load, steps[i].operand, steps[k].operand};
        }
    }
    return FR_OK;
}

static void
begin_list(struct builder *b, struct fr_program_steps *l)
{
    l->first = (uint32_t)b->n_steps;
    memset(b->ready, 0, b->nest->n_insts);
}

/* The list that was made last has all its operations. */
static void
finish_list(struct builder *b, struct fr_program_steps *l)
{
    forward_stores(b, *l);
    l->end = fr_pairs_join(b->nest, b->p->kernels, b->p->steps, *l, b->reg, b->last_use);
    b->n_steps = l->end;
}

/* Numbers the loads, each with a register of its own (which it uses only if its elements must be
 * moved together); the same load has the same register in every list. */
static fr_status
number_loads(struct builder *b)
{
    uint16_t *load_of = fr_arena_room(&b->scratch, b->nest->n_insts * sizeof *load_of);

    b->step_reg = fr_arena_room(&b->scratch, b->n_steps * sizeof *b->step_reg);
    if (!load_of || !b->step_reg)
        return out_of_memory(b);
    memset(load_of, 0xff, b->nest->n_insts * sizeof *load_of);
    for (size_t i = 0; i < b->n_steps; i++) {
        struct fr_program_step *st = &b->p->steps[i];
        if (!is_load(st))
            continue;
        if (load_of[st->dst] == NONE)
            load_of[st->dst] = (uint16_t)b->p->n_loads++;
        st->load = load_of[st->dst];
    }
    return FR_OK;
}

static size_t
place_loads(struct builder *b, uint32_t first, size_t at, int64_t cap)
{
    struct fr_program_step *steps = b->p->steps;
    size_t          end = at;

    memset(b->offset, 0xff, 2 * b->nest->n_insts * sizeof *b->offset);
    for (uint32_t i = first; i < b->n_steps; i++) {
        if (!is_load(&steps[i]))
            continue;
        if (b->offset[steps[i].load] == UINT32_MAX) {
            b->offset[steps[i].load] = (uint32_t)end;
            end += (((size_t)cap * steps[i].size + 63) & ~(size_t)63) + PAD_BYTES;
        }
        steps[i].offset = b->offset[steps[i].load];
    }
    return end;
}

/* ---- the lists ------------------------------------------------------------------------------- */

static fr_status
build_once(struct builder *b)
{
    struct fr_program *p = b->p;
    fr_status          st;

    begin_list(b, &p->once);
    if ((st = emit_level(b, FR_LEVEL_SCALAR, -1)) != FR_OK)
        return st;
    p->once.end = (uint32_t)b->n_steps;
    for (uint32_t i = p->once.first; i < p->once.end; i++) {
        p->steps[i].offset = (uint32_t)b->scalar_bytes;
        b->scalar_bytes += SCALAR_BYTES;
    }
    b->scalar_bytes = (b->scalar_bytes + 63) & ~(size_t)63;
    return FR_OK;
}

static fr_status
build_tile(struct builder *b)
{
    struct fr_program *p = b->p;
    fr_status          st;

    begin_list(b, &p->tile);
    for (int s = 0; s <= b->nest->n_stages; s++) {
        if ((st = emit_level(b, FR_LEVEL_ROW, s)) != FR_OK)
            return st;
        if (s == 0)
            p->tile_rows_end = (uint32_t)b->n_steps;
        if (s == b->nest->n_stages)
            break;
        fr_nest_stage_runs(b->nest, s, false, b->marked);
        for (uint32_t i = 0; i < b->nest->n_insts; i++) {
            b->marked[i] &= !b->done[i];
            b->done[i] |= b->marked[i];
        }
        if ((st = emit_marked(b)) != FR_OK)
            return st;
    }
    p->tile.end = (uint32_t)b->n_steps;
    finish_list(b, &p->tile);
    return FR_OK;
}

static void
describe_stage(struct builder *b, struct fr_long_stage *stage)
{
    stage->first_reduce = stage->full.end;
    for (uint32_t i = stage->full.end; i-- > stage->full.first;) {
        const struct fr_program_step *st = &b->p->steps[i];
        fr_op                 op = (fr_op)(FR_OP_sum + st->op_row);
        if (!fr_step_reduces(st))
            break;
        stage->first_reduce = i;
        if (op == FR_OP_prod && st->in >= FR_F16)
            stage->ordered = true;
        if (op == FR_OP_sum && fr_dtype_is_complex(st->in))
            stage->wide = true;
        else
            stage->narrow = true;
    }
}

static fr_status
build_stages(struct builder *b)
{
    struct fr_program *p = b->p;
    fr_status          st;

    if (!(p->stages = fr_arena_alloc(&b->scratch, (b->nest->n_stages + 1u) * sizeof *p->stages)))
        return out_of_memory(b);
    for (int s = 0; s <= b->nest->n_stages; s++) {
        struct fr_long_stage *stage = &p->stages[s];
        begin_list(b, &stage->rows);
        if ((st = emit_level(b, FR_LEVEL_ROW, s)) != FR_OK)
            return st;
        stage->rows.end = (uint32_t)b->n_steps;
        begin_list(b, &stage->full);
        if (s < b->nest->n_stages) {
            fr_nest_stage_runs(b->nest, s, false, b->marked);
            if ((st = emit_marked(b)) != FR_OK)
                return st;
        }
        stage->full.end = (uint32_t)b->n_steps;
        finish_list(b, &stage->full);
        describe_stage(b, stage);
    }
    return FR_OK;
}

static int64_t
clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

static int64_t
block_elements(int64_t elem_bytes)
{
    return clamp(elem_bytes ? BLOCK_BYTES / elem_bytes : BLOCK_MAX, BLOCK_MIN, BLOCK_MAX) & ~63;
}

/* How many elements of maps alone a tile has, where what they read and write lies side by side; 0: other steps. A single
 * operation has no reason to stop. */
static int64_t
flat_elements(const struct fr_program *p, int64_t elem_bytes)
{
    int n_ops = 0;

    for (uint32_t i = p->tile.first; i < p->tile.end; i++) {
        const struct fr_program_step *st = &p->steps[i];

        if ((st->kind != FR_PROGRAM_LOAD && st->kind != FR_PROGRAM_OP && st->kind != FR_PROGRAM_OP_STORE &&
             st->kind != FR_PROGRAM_STORE) || st->row_args || (st->kind == FR_PROGRAM_STORE && st->once))
            return 0;
        n_ops += st->kind == FR_PROGRAM_OP || st->kind == FR_PROGRAM_OP_STORE;
        elem_bytes += st->kind == FR_PROGRAM_OP ? 0 : st->size;
    }
    if (p->stages || !n_ops)
        return 0;
    return n_ops == 1 ? BLOCK_MAX : clamp(FLAT_BYTES / elem_bytes, FLAT_MIN, BLOCK_MAX) & ~63;
}

static uint32_t
count_ops(const struct fr_program *p, struct fr_program_steps l)
{
    uint32_t n = 0;

    for (uint32_t i = l.first; i < l.end; i++)
        n += p->steps[i].kind == FR_PROGRAM_OP || p->steps[i].kind == FR_PROGRAM_OP_STORE;
    return n;
}

/* The longest row that is kept whole. If the long form would compute values again, that is as long
 * as the row stays in cache. */
static int64_t
whole_row(const struct builder *b)
{
    const struct fr_program *p = b->p;
    int64_t                  bytes = b->elem_bytes, max = FR_ROWBUF_MAX;
    uint32_t                 n_ops = 0;

    for (uint32_t i = p->tile.first; i < p->tile.end; i++)
        if (p->steps[i].kind == FR_PROGRAM_LOAD)
            bytes += p->steps[i].size;
    for (int s = 0; s < b->nest->n_stages; s++)
        n_ops += count_ops(p, p->stages[s].full);
    if (n_ops > count_ops(p, p->tile))
        max = WHOLE_ROW_MAX;
    max = clamp(WHOLE_ROW_BYTES / (bytes ? bytes : 1), p->tile_want, max) & ~63;
    /* What has a row buffer must not be computed again: its loads may have been overwritten. */
    if (b->nest->flags & FR_NEST_ROWBUF && max < FR_ROWBUF_MAX)
        max = FR_ROWBUF_MAX;
    return max;
}

/* Gives every step its register, now that all lists are there. */
static fr_status
place_all(struct builder *b)
{
    struct fr_program *p = b->p;
    size_t             at = b->scalar_bytes, end, high;
    int64_t            cap;
    fr_status          st;

    assign_registers(b, p->tile, false);
    if ((st = find_hazards(b, p->tile)) != FR_OK)
        return st;
    p->tile_end_hazard = (uint32_t)b->n_hazards;
    p->tile_want = block_elements(b->elem_bytes);
    p->tile_cap = p->tile_want;
    p->flat_want = flat_elements(p, b->elem_bytes);
    p->flat_want = p->flat_want < p->tile_want ? p->flat_want : p->tile_want;
    if (p->stages)
        p->tile_cap = whole_row(b);
    high = place_registers(b, p->tile, at, p->tile_cap);

    cap = p->tile_cap;
    if (p->stages) {
        b->elem_bytes = 0;
        for (int s = 0; s <= b->nest->n_stages; s++) {
            assign_registers(b, p->stages[s].full, true);
            p->stages[s].first_hazard = (uint32_t)b->n_hazards;
            if ((st = find_hazards(b, p->stages[s].full)) != FR_OK)
                return st;
            p->stages[s].end_hazard = (uint32_t)b->n_hazards;
        }
        p->block_cap = block_elements(b->elem_bytes);
        for (int s = 0; s <= b->nest->n_stages; s++) {
            end = place_registers(b, p->stages[s].full, at, p->block_cap);
            if (end > high)
                high = end;
        }
        if (cap < p->block_cap)
            cap = p->block_cap;
    }
    p->temp_at = p->registers_at + place_loads(b, p->once.end, high, cap);
    return FR_OK;
}

static fr_status
list_row_values(struct builder *b)
{
    struct fr_program *p = b->p;

    if (!(p->row_values = fr_arena_room(&b->scratch, b->nest->n_insts * sizeof *p->row_values)))
        return out_of_memory(b);
    for (uint32_t i = 0; i < b->nest->n_insts; i++) {
        const struct fr_inst *in = &b->nest->insts[i];
        if (in->level == FR_LEVEL_ROW && in->kind != FR_INST_STORE && in->kind != FR_INST_ACCUM)
            p->row_values[p->n_row_values++] = (uint16_t)i;
    }
    return FR_OK;
}

static fr_status
make_room(struct builder *b)
{
    size_t n = b->nest->n_insts;

    b->order = fr_arena_room(&b->scratch, n * sizeof *b->order);
    b->expanded = fr_arena_room(&b->scratch, n * sizeof *b->expanded);
    b->reg = fr_arena_room(&b->scratch, 2 * n * sizeof *b->reg);
    b->parent = fr_arena_room(&b->scratch, n * sizeof *b->parent);
    b->marked = fr_arena_alloc(&b->scratch, n);
    b->ready = fr_arena_room(&b->scratch, n);
    b->done = fr_arena_alloc(&b->scratch, n);
    b->reg_size = fr_arena_room(&b->scratch, 2 * n);
    b->reg_free = fr_arena_room(&b->scratch, 2 * n);
    b->last_use = fr_arena_room(&b->scratch, 2 * n * sizeof *b->last_use);
    b->offset = fr_arena_room(&b->scratch, 2 * n * sizeof *b->offset);
    if (!b->order || !b->expanded || !b->reg || !b->parent || !b->marked || !b->ready || !b->done ||
        !b->reg_size || !b->reg_free || !b->last_use || !b->offset)
        return out_of_memory(b);
    memset(b->expanded, 0xff, n * sizeof *b->expanded);
    return FR_OK;
}

/* Appends a table of the program to its block of memory. */
static void *
move(char **at, const void *items, size_t n_bytes)
{
    void *moved = *at;

    if (!items)
        return NULL;
    memcpy(moved, items, n_bytes);
    *at += (n_bytes + 15) & ~(size_t)15;
    return moved;
}

/* The program with its tables in one block of memory. */
static struct fr_program *
move_program(const struct builder *b)
{
    const struct fr_program *p = b->p;
    size_t                   steps = b->n_steps * sizeof *p->steps;
    size_t                   hazards = b->n_hazards * sizeof *p->hazards;
    size_t                   stages = (b->nest->n_stages + 1u) * sizeof *p->stages;
    size_t                   row_values = p->n_row_values * sizeof *p->row_values;
    char              *at = fr_malloc(sizeof *p + steps + hazards + stages + row_values + 5 * 16);
    struct fr_program *q;

    if (!at)
        return NULL;
    q = move(&at, p, sizeof *p);
    q->steps = move(&at, p->steps, steps);
    q->hazards = move(&at, p->hazards, hazards);
    q->stages = move(&at, p->stages, stages);
    q->row_values = move(&at, p->row_values, row_values);
    return q;
}

fr_status
fr_program_build(const struct fr_nest *nest, struct fr_program **out, struct fr_err *err)
{
    struct fr_program p = {
        .nest = nest, .kernels = fr_kernels, .reduce = fr_reduce, .n_places = nest->n_insts};
    struct builder b = {.nest = nest, .p = &p, .err = err};
    fr_status      st = FR_OK;

    if (!fr_kernels || !fr_reduce)
        return fr_fail(err, FR_EBUG, "the block kernels have not been chosen (fr_cpu_init)");
    TRY(make_room(&b));
    order_insts(&b);
    TRY(build_once(&b));
    TRY(build_tile(&b));
    if (nest->flags & FR_NEST_REDUCES) {
        TRY(build_stages(&b));
        TRY(list_row_values(&b));
    }
    TRY(number_loads(&b));
    p.registers_at = fr_interp_frame_bytes(&p);
    TRY(place_all(&b));
    p.scratch_bytes = p.temp_at + fr_interp_temp_bytes(&p);
    fr_program_describe(&p);
    if (!(*out = move_program(&b)))
        st = out_of_memory(&b);
out:
    fr_arena_clear(&b.scratch);
    return st;
}

void
fr_program_free(struct fr_program *p)
{
    fr_free(p);
}
