/* backends/cpu/describe.c -- what the launcher must know of a nest, so as to cut its work and to choose between a program
 * and compiled code (program.h). Nothing here looks at the steps of a program. */
#include "backends/cpu/program_int.h"
#include "backends/cpu/space.h"

bool
fr_program_only_counts(const struct fr_nest *nest, uint16_t i)
{
    const struct fr_inst *in = &nest->insts[i];

    if (in->kind != FR_INST_OP || in->op != FR_OP_cast || in->dtype != FR_I64 || in->level != FR_LEVEL_FULL ||
        nest->insts[in->a[0]].dtype != FR_BOOL)
        return false;
    for (uint32_t k = i + 1u; k < nest->n_insts; k++)
        for (int a = 0; a < fr_nest_n_args(&nest->insts[k]); a++)
            if (nest->insts[k].a[a] == i &&
                (nest->insts[k].kind != FR_INST_REDUCE || nest->insts[k].op != FR_OP_sum))
                return false;
    return true;
}

/* Whether all that the nest does is count: compiled code has integers of 64 bits where the fold has bytes. */
static bool
only_counts(const struct fr_nest *nest)
{
    bool counts = false;

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        if (in->kind == FR_INST_OP ? in->op != FR_OP_cast || in->level != FR_LEVEL_FULL
                                   : in->kind == FR_INST_REDUCE && !fr_program_only_counts(nest, in->a[0]))
            return false;
        counts |= in->kind == FR_INST_REDUCE;
    }
    return counts && nest->n_stages == 1;
}

/* Whether all that the nest does is copy, any strides to any. */
static bool
only_copies(const struct fr_nest *nest)
{
    int to = fr_space_copies_to(nest);

    return to >= 0 && nest->insts[0].level == FR_LEVEL_FULL && nest->insts[nest->n_insts - 1].level == FR_LEVEL_FULL &&
           !(nest->operands[to].flags & FR_OPERAND_STREAM) && !(nest->operands[to].schedule & FR_SCHEDULE_NONTEMPORAL);
}

/* Whether all that the nest does is accumulate what it loads. */
static bool
only_accumulates(const struct fr_nest *nest)
{
    const struct fr_inst *load = &nest->insts[0];

    return nest->n_insts == 2 && load->kind == FR_INST_LOAD && load->level == FR_LEVEL_FULL &&
           nest->insts[1].kind == FR_INST_ACCUM;
}

/* Whether all that happens to an element is that it is loaded, and folded into one value of its row. */
static bool
only_folds(const struct fr_nest *nest)
{
    int n_loads = 0, n_folds = 0;

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        if (in->level == FR_LEVEL_FULL && in->kind != FR_INST_LOAD)
            return false;
        n_loads += in->level == FR_LEVEL_FULL;
        n_folds += in->kind == FR_INST_REDUCE;
    }
    return n_loads == 1 && n_folds == 1;
}

/* Whether those are rows as they lie, of which the interpreter's loop takes eight at a time and faster than compiled
 * code, which goes row by row: x.sum(0) of 128 x 32768 f32 in 0.18 ms, not 0.27; of 65536 x 16 in 0.06, not 0.21. Not so
 * products of complex numbers, which it takes row by row, extremes of f32 and f64 (of 64 MB compiled code is faster) and
 * sums and products of half precision, which it rounds one by one. */
static bool
accumulates_rows(const struct fr_nest *nest)
{
    const struct fr_inst *load = &nest->insts[0], *by = &nest->insts[1];
    fr_dtype              d = load->dtype;

    if (!only_accumulates(nest) || nest->operands[load->operand].access != FR_ACCESS_UNIT ||
        nest->operands[by->operand].access != FR_ACCESS_UNIT)
        return false;
    if (by->op == FR_OP_max || by->op == FR_OP_min)
        return d <= FR_F16;
    return d != FR_F16 && (by->op != FR_OP_prod || !fr_dtype_is_complex(d));
}

/* Whether the nest is one call of a precompiled loop that compiled code does not reach. An extreme by
 * itself is a fold that takes no notice of where it comes from until it knows it, half as long; whether any
 * or all are true ends with the first answer; a product waits for nothing but the one before it, where the
 * shuffles that compiled code takes its vectors apart with get in its way; complex numbers are parted by shuffles
 * of whole vectors, where compiled code, whose blocks end with the last number that they want, takes one after
 * the other. */
static bool
is_one_better_loop(const struct fr_nest *nest)
{
    const struct fr_inst *load = &nest->insts[0], *in = &nest->insts[1], *last = &nest->insts[nest->n_insts - 1];

    if (load->kind != FR_INST_LOAD || load->level != FR_LEVEL_FULL || last->kind != FR_INST_STORE ||
        nest->operands[last->operand].schedule & FR_SCHEDULE_NONTEMPORAL)
        return false;
    if (nest->n_insts == 4 && in->op == FR_OP_cast && in->dtype == FR_BOOL)
        return in[1].kind == FR_INST_REDUCE && (in[1].op == FR_OP_any || in[1].op == FR_OP_all);
    if (nest->n_insts != 3)
        return false;
    if (in->kind == FR_INST_REDUCE)
        return in->op == FR_OP_prod ? load->dtype == FR_F32 || load->dtype == FR_F64 : in->op != FR_OP_sum;
    return in->kind == FR_INST_OP && fr_dtype_is_complex(load->dtype) && !fr_dtype_is_complex(in->dtype) &&
           (in->op == FR_OP_cast || in->op == FR_OP_real || in->op == FR_OP_imag);
}

void
fr_program_meets_code(struct fr_program *p)
{
    const struct fr_nest *nest = p->nest;

    p->code_scratch_bytes = fr_nest_scratch(nest);
    p->better_than_code = is_one_better_loop(nest) || only_counts(nest) || only_copies(nest) || accumulates_rows(nest);
}

void
fr_program_describe(struct fr_program *p)
{
    const struct fr_nest *nest = p->nest;

    p->may_cut_inner = !p->stages;
    p->copies = only_copies(nest);
    p->only_accumulates = only_accumulates(nest);
    p->only_folds = only_folds(nest);
    p->only_places = fr_nest_finds_places(nest->insts, nest->n_insts);
    p->accumulates = fr_nest_accumulates(nest);
    for (int k = 0; k < nest->n_operands; k++) {
        p->strided |= nest->operands[k].access == FR_ACCESS_STRIDED;
        p->stores_nontemporal |= (nest->operands[k].schedule & FR_SCHEDULE_NONTEMPORAL) != 0;
        p->is_stencil |= (nest->operands[k].schedule & FR_SCHEDULE_PREFETCH) != 0;
    }
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];
        if (in->kind == FR_INST_STORE && in->level == FR_LEVEL_ROW)
            p->may_cut_inner = false; /* done once per row */
        if (in->kind == FR_INST_STORE && nest->operands[in->operand].flags & FR_OPERAND_STREAM)
            p->streams = true;
    }
    p->may_cut_stages =
        p->stages && !p->accumulates && !p->streams && !(nest->flags & FR_NEST_ROWBUF);
    for (int s = 0; p->stages && s < nest->n_stages; s++)
        if (p->stages[s].ordered || (p->stages[s].wide && p->stages[s].narrow))
            p->may_cut_stages = false;
}
