/* jit/emit_gcc_interleave.c -- how large the blocks of a stage are, and how many it works on at once,
 * from its micro code.
 *
 * A chain of dependent operations waits for each result. A processor that starts two vector
 * instructions a cycle is busy while 2 * latency of them are under way, `latency` being the cycles
 * that one element takes from its load to its last value. After a short body it finds them by
 * itself, in the blocks that follow, but not far: what waits for its operands fills the schedulers
 * (64 places for vectors in Zen 4), long before what may be under way at all (320) is.
 * Measured, 32 are found. What is missing has to stand side by side in the body:
 *
 *     U * instructions + 32 >= 2 * latency
 *
 * Eight times x * k + y are 16 instructions and 70 cycles, and U is 7. Whether some value is RARE is looked at once a step,
 * so that U is 2 at least. It is, too, where a block has PAIR instructions, for a few blocks that wait for memory keep the
 * next ones from asking; and beside a sum, whose leaves each begin and end with something else. U is at most what the
 * registers hold, what fills half of a sum's leaf, and what GCC compiles in about half a second.
 *
 * A sum has eight numbers in its registers. A vector of sixteen f32 is taken apart for it, and beside
 * such vectors the processor has one port less; so a block is eight where little else is done with
 * them. Four of those are a step, or the loop around them would be most of the work. */
#include "jit/emit_gcc_int.h"

#include "base/alloc.h"

enum {
    SHORT = 5,               /* instructions for an element that is summed: as much as its sum is */
    SHORT_STEP = 4,          /* blocks of such */
    PAIR = 32,               /* instructions of one block */
    LONG = 200,
    MAX_INSTRUCTIONS = 2400, /* of all blocks of a step */
    MAX_REFERENCES = 500,    /* to memory; GCC vectorises no loop with more than 1000 */
};

/* One block of a stage. */
struct tally {
    int  instructions, latency;
    int  registers;  /* most values alive at once */
    int  references; /* to memory */
    bool scalar;     /* some operation is no vector instruction */
};

/* What a stage computes for one element, as one piece of micro code. A value that comes from memory
 * is an INPUT, one that all elements share a CONST. */
struct body {
    struct fr_mcode code;
    struct fr_mnum  value[FR_MAX_INSTS];
    bool            known[FR_MAX_INSTS];
};

/* Half precision is floats, where the processor makes them of it and rounds them: two instructions, each as long as two
 * conversions. */
static fr_dtype
type_of(const struct emit *e, int i)
{
    return inst(e, i)->dtype == FR_F16 && e->c.has_f16c ? FR_F32 : inst(e, i)->dtype;
}

static fr_mval
convert(struct body *b, fr_dtype to, fr_mval v, int n)
{
    while (n--)
        v = fr_m_emit(&b->code, FR_M_CVT, to, v, 0, 0, 0);
    return v;
}

static fr_status
add_op(const struct emit *e, struct body *b, int i)
{
    const struct fr_inst *in = inst(e, i);
    const fr_dtype        compute = in->op == FR_OP_cast ? in->dtype : fr_nest_compute(e->nest, i);
    struct fr_mnum        x[3] = {{0, 0}};
    fr_status             st;

    for (int k = 0; k < fr_nest_n_args(in); k++)
        x[k] = b->value[in->a[k]];
    if (e->c.has_f16c && fr_emit_is_rounded(e, i)) {
        st = in->op == FR_OP_cast ? FR_OK : fr_recipe_half(&b->code, (fr_op)in->op, x, &x[0]);
        b->value[i].re = convert(b, FR_F32, x[0].re, 4);
        return st;
    }
    if (in->op == FR_OP_cast)
        return fr_recipe_cast(&b->code, type_of(e, in->a[0]), in->dtype, x[0], &b->value[i]);
    if (e->c.has_f16c && compute == FR_F16 && fr_recipe_half_use((fr_op)in->op) != FR_HALF_BITS)
        return fr_recipe_half(&b->code, (fr_op)in->op, x, &b->value[i]);
    for (int k = 0; k < fr_nest_n_args(in); k++)
        if (type_of(e, in->a[k]) != inst(e, in->a[k])->dtype)
            x[k].re = convert(b, FR_U16, x[k].re, 2);
    return fr_recipe_op(&b->code, (fr_op)in->op, compute, x, &b->value[i]);
}

/* Writes the body of the stage; stops when it has become too long for two blocks at once. */
static fr_status
write_body(const struct emit *e, struct body *b)
{
    fr_status st = FR_OK;

    for (int i = 0; i < (int)e->nest->n_insts && b->code.n <= MAX_INSTRUCTIONS; i++) {
        const struct fr_inst *in = inst(e, i);

        if (!e->runs[i])
            continue;
        for (int k = 0; k < fr_nest_n_args(in); k++) {
            int  a = in->a[k];
            bool full = inst(e, a)->level == FR_LEVEL_FULL;

            if (!b->known[a])
                b->value[a] = fr_m_number(&b->code, full ? FR_M_INPUT : FR_M_CONST, type_of(e, a), a);
            b->known[a] = true;
        }
        if (in->kind == FR_INST_OP)
            TRY(add_op(e, b, i));
        else if (in->kind == FR_INST_LOAD || in->kind == FR_INST_IOTA)
            b->value[i] = fr_m_number(&b->code, FR_M_INPUT, type_of(e, i), i);
        b->known[i] = true;
    }
    st = b->code.st;
out:
    return st;
}

/* Registers for a block of machine type `d`; truth values have registers of their own. */
static int
width(const struct emit *e, fr_dtype d)
{
    int n = e->block * fr_dtype_size(d) / e->vector_bytes;

    return d == FR_BOOL ? 0 : n ? n : 1;
}

static void
count_instruction(const struct emit *e, struct tally *t, const struct fr_minst *in, fr_dtype from, int *ready)
{
    struct fr_mcost cost = fr_m_cost((enum fr_mop)in->op, in->type, from);
    int             n = width(e, in->type) > width(e, from) ? width(e, in->type) : width(e, from);

    t->scalar |= fr_m_is_scalar((enum fr_mop)in->op) || (in->op == FR_M_FMA && !e->c.has_fma);
    t->instructions += (n ? n : 1) * cost.slots;
    *ready += cost.latency;
    if (*ready > t->latency)
        t->latency = *ready;
}

/* Which instructions there are, and the last of them that reads each one's result; the end for what a
 * sink takes, because memory is written only then. */
static void
find_last_readers(const struct emit *e, const struct body *b, int *last, uint8_t *needed)
{
    int n = (int)b->code.n;

    for (int s = 0; s < e->n_sinks; s++) {
        const struct fr_inst *in = inst(e, e->sinks[s].inst);
        bool                  takes = in->kind == FR_INST_REDUCE || fr_inst_writes(in);
        int                   i = takes ? in->a[0] : e->sinks[s].inst;

        last[b->value[i].re] = n;
        if (fr_dtype_is_complex(inst(e, i)->dtype))
            last[b->value[i].im] = n;
    }
    for (int i = 0; i < n; i++)
        needed[i] = last[i] == n;
    fr_m_needed(&b->code, e->has_rare ? FR_SIDES_NOTED : FR_SIDES_ALL, needed);
    for (int i = 0; i < n; i++) {
        const struct fr_minst *in = &b->code.inst[i];
        const fr_mval          args[] = {in->a, in->b, in->c};

        for (int k = 0; needed[i] && k < fr_mop_arity[in->op]; k++)
            if (needed[args[k]] && last[args[k]] < n)
                last[args[k]] = i;
    }
}

/* Goes through the code as if each instruction began as soon as its arguments are ready. `ready`,
 * `last` and `needed` have an entry for each. */
static struct tally
count(const struct emit *e, const struct body *b, int *ready, int *last, uint8_t *needed)
{
    const struct fr_minst *code = b->code.inst;
    struct tally           t = {0};
    int                    alive = 0;

    find_last_readers(e, b, last, needed);
    for (int i = 0; i < (int)b->code.n; i++) {
        const fr_mval args[] = {code[i].a, code[i].b, code[i].c};

        if (code[i].op == FR_M_CONST || !needed[i])
            continue;
        for (int k = 0; k < fr_mop_arity[code[i].op]; k++) {
            ready[i] = ready[args[k]] > ready[i] ? ready[args[k]] : ready[i];
            if (last[args[k]] == i && code[args[k]].op != FR_M_CONST) {
                alive -= width(e, code[args[k]].type);
                last[args[k]] = -1;
            }
        }
        alive += width(e, code[i].type);
        t.registers = alive > t.registers ? alive : t.registers;
        if (code[i].op == FR_M_INPUT) {
            ready[i] = FR_LOAD_LATENCY;
            t.references++;
        } else {
            count_instruction(e, &t, &code[i], code[args[0]].type, &ready[i]);
        }
    }
    return t;
}

/* A quarter more values than there are registers do no harm: the scheduler moves reads apart, and
 * of what waits in memory there is little. */
static int
choose(const struct emit *e, const struct tally *t)
{
    int n = fr_m_unroll(t->instructions, t->latency);
    int registers = e->vector_bytes == 64 ? 32 : 16;

    if (n < 2 && (e->has_rare || t->instructions >= PAIR || fr_emit_stage_has(e, HOW_TREE)))
        n = 2;
    if (t->scalar || t->registers == 0 || t->instructions == 0 || n < 2)
        return 1;
    n = least(n, MAX_ABREAST);
    n = least(n, registers * 5 / 4 / t->registers);
    n = least(n, MAX_INSTRUCTIONS / t->instructions);
    n = least(n, MAX_REFERENCES / (t->references + e->n_sinks));
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].how == HOW_TREE)
            n = least(n, LEAF / 2 / (e->sinks[s].parts * e->block));
    return n < 1 ? 1 : n;
}

static bool
is_short(const struct body *b)
{
    int n = 0;

    for (int i = 0; i < (int)b->code.n; i++)
        n += b->code.inst[i].op != FR_M_INPUT && b->code.inst[i].op != FR_M_CONST;
    return n <= SHORT;
}

/* Whether sums of numbers are most of what the stage does; narrow numbers fill vectors better, and what is made wider
 * for the sum leaves them as halves of vectors, which come late when eight of them are read as a whole. */
static bool
mostly_sums(const struct emit *e, const struct body *b)
{
    int  smallest = fr_emit_smallest_number(e);
    bool sums = smallest >= 4 && !e->halves_are_floats && is_short(b);

    for (int s = 0; s < e->n_sinks; s++)
        sums &= e->sinks[s].how == HOW_TREE && e->sinks[s].parts == 1 &&
                fr_dtype_size(e->sinks[s].dtype) == smallest;
    for (int i = 0; sums && i < (int)e->nest->n_insts; i++)
        sums = !(e->runs[i] && inst(e, i)->kind == FR_INST_LOAD && fr_emit_is_wide_integer(e, inst(e, i)->operand));
    return sums;
}

/* Sets e->has_rare, and *t unless the body is too long for a step. */
static bool
measure(struct emit *e, const struct body *b, struct tally *t)
{
    bool     fits = b->code.n <= MAX_INSTRUCTIONS;
    int     *room = fr_calloc(2 * b->code.n + 1, sizeof *room);
    uint8_t *needed = fr_calloc(b->code.n + 1, sizeof *needed);

    e->has_rare = fits && fr_m_has_rare(&b->code);
    for (int s = 0; s < e->n_sinks; s++)
        e->has_rare &= !e->sinks[s].in_lanes; /* what is in lanes already cannot be taken back */
    if (!room || !needed)
        e->c.st = FR_ENOMEM;
    else if (fits)
        *t = count(e, b, room, room + b->code.n, needed);
    fits &= e->c.st == FR_OK;
    fr_free(room);
    fr_free(needed);
    return fits;
}

/* The body of the stage, or NULL. */
static struct body *
new_body(struct emit *e)
{
    struct body *b = fr_calloc(1, sizeof *b);
    fr_status    st = b ? write_body(e, b) : FR_ENOMEM;

    if (st == FR_OK)
        return b;
    e->c.st = st;
    if (b)
        fr_mcode_clear(&b->code);
    fr_free(b);
    return NULL;
}

static void
free_body(struct body *b)
{
    fr_mcode_clear(&b->code);
    fr_free(b);
}

bool
fr_emit_is_long(struct emit *e)
{
    struct body *b = new_body(e);
    bool         is_long = b && b->code.n >= LONG;

    if (b)
        free_body(b);
    return is_long;
}

/* As many elements as a register holds of the smallest number; where halves are rounded between loops, as it holds
 * floats, of which GCC makes no loop. */
static void
choose_block(struct emit *e)
{
    fr_emit_find_passes(e);
    e->block = e->vector_bytes / (e->n_passes > 1 ? 4 : fr_emit_smallest_number(e));
    e->unroll = 1;
}

void
fr_emit_choose_blocks(struct emit *e)
{
    struct body *b = new_body(e);
    int          n = 1;
    struct tally t;
    bool         sums, extremes;

    choose_block(e);
    if (!b)
        return;
    sums = mostly_sums(e, b);
    extremes = fr_emit_stage_has(e, HOW_EXTREME) && is_short(b);
    if (sums || (fr_emit_stage_has(e, HOW_TREE) && e->block < 8))
        e->block = 8;
    if (measure(e, b, &t)) {
        n = choose(e, &t);
        e->has_steps |= n > 1;
        e->has_long_steps |= n > 1 && t.instructions >= LONG;
    }
    e->unroll = (sums || extremes) && n < SHORT_STEP ? SHORT_STEP : n;
    free_body(b);
}

void
fr_emit_choose_rows(struct emit *e)
{
    struct body *b = new_body(e);
    int          n = MAX_ABREAST, registers = e->vector_bytes == 64 ? 32 : 16;
    struct tally t;

    choose_block(e);
    if (!b)
        return;
    if (measure(e, b, &t) && !t.scalar)
        while (n > 1 && (n * t.references > MAX_ROWS || n * t.registers > registers || n * t.instructions > LONG))
            n /= 2;
    else
        n = 1;
    e->unroll = n;
    free_body(b);
}
