/* jit/emit_gcc.c -- loop form to libgccjit calls.
 *
 * Each stage becomes one function over elements [j0, j0 + n) of a row, each `mid` one function over
 * the ROW instructions; frit_rows_<name> calls them row after row. A stage works on blocks of as
 * many elements as a vector register holds of the smallest type in use:
 *
 *     for each block:                          (j, j + B)
 *         for b < B:                           B is a constant: GCC vectorises this loop into
 * straight load, compute, t[b] = value      vector code, and t[] never leaves the registers
 *         operand[j ..] = t                    all stores after all loads, so an output may be an
 * input accumulators += t
 *
 * Where an element takes long because its operations wait for each other, several blocks make a
 * step, and their instructions are mixed (emit_gcc_interleave.c says how many). Whole steps come
 * first, then single blocks:
 *
 *     for each step:                           (j, j + U * B)
 *         for b < B:
 *             load, compute, t[u][b] = value   each operation for u = 0 .. U-1 before the next one
 *         what is done with each block, in order
 *
 * There are no promises about aliasing to be made and no run-time checks: t[] cannot alias. What is
 * left over (n % B) goes through the same code once more: loads from padded copies, stores to pads,
 * of which the valid part is copied out. Hence one copy of the body for blocks and tails, and tails
 * at vector speed.
 *
 * Sums follow NumPy's pairwise tree (csrc/NUMERICS.md): leaves of at most 128 elements
 * with 8 accumulators, joined by an explicit stack. The other reductions keep one accumulator per
 * lane. */
#include "jit/emit_gcc.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "jit/emit_gcc_int.h"

/* ---- functions ------------------------------------------------------------------------------- */

/* Whether somebody outside of mid `s` reads ROW value `i`. */
static bool
read_elsewhere(const struct emit *e, int i, int s)
{
    for (int u = i + 1; u < (int)e->nest->n_insts; u++)
        for (int k = 0; k < fr_nest_n_args(inst(e, u)); k++)
            if (inst(e, u)->a[k] == i && (inst(e, u)->level == FR_LEVEL_FULL || inst(e, u)->stage != s))
                return true;
    return false;
}

static void
emit_row_inst(struct emit *e, int i, int s)
{
    struct fr_gcc        *c = &e->c;
    const struct fr_inst *in = inst(e, i);
    gj_rvalue            *zero = fr_gcc_i64(c, 0);

    for (int k = 0; k < fr_nest_n_args(in); k++)
        if (!e->val[0][in->a[k]].re)
            e->val[0][in->a[k]] = fr_emit_load_slot(e, inst(e, in->a[k])->dtype, e->slots,
                                                    (int64_t)sizeof(struct fr_slot) * in->a[k]);
    switch (in->kind) {
    case FR_INST_LOAD:
        e->val[0][i] = fr_gcc_load(c, in->dtype, fr_emit_entry_bytes(e, in->operand), zero);
        break;
    case FR_INST_IOTA:
        fr_emit_declare_iota(e, in->operand);
        e->val[0][i] = fr_emit_iota(e, in, NULL);
        break;
    case FR_INST_OP:
        fr_emit_ops(e, i, 1);
        break;
    case FR_INST_STORE:
        fr_gcc_store(c, in->dtype, fr_emit_entry_bytes(e, in->operand), zero, e->val[0][in->a[0]]);
        return;
    default:
        return;
    }
    if (read_elsewhere(e, i, s))
        fr_emit_store_slot(e, in->dtype, e->slots, i, e->val[0][i]);
}

/* Returns the fr_mid_fn before the loop of stage `s`. */
static gj_function *
emit_mid(struct emit *e, int s)
{
    struct fr_gcc *c = &e->c;
    gj_function   *fn;
    char           name[24];

    snprintf(name, sizeof name, "mid_%d", s);
    fn = fr_emit_new_function(e, GJ_FUNCTION_INTERNAL, name, "Bbb", &e->ptr, &e->scalars, &e->slots);
    e->stride = NULL;
    memset(e->val, 0, sizeof e->val);
    memset(e->wanted, 0, sizeof e->wanted);
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        for (int k = 0; k < fr_nest_n_args(inst(e, i)); k++)
            if (inst(e, i)->level == FR_LEVEL_ROW && inst(e, i)->stage == s)
                e->wanted[inst(e, i)->a[k]] = 1;
    fr_emit_close_wanted(e);
    fr_emit_scalars(e);
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (inst(e, i)->level == FR_LEVEL_ROW && inst(e, i)->stage == s && inst(e, i)->kind != FR_INST_REDUCE)
            emit_row_inst(e, i, s);
    fr_gcc_return(c);
    return fn;
}

static bool
mid_does_something(const struct emit *e, int s)
{
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (inst(e, i)->level == FR_LEVEL_ROW && inst(e, i)->stage == s && inst(e, i)->kind != FR_INST_REDUCE)
            return true;
    return false;
}

/* Partial results of a whole row become results, in place: what the launcher does for long rows. */
static void
finish_reductions(struct emit *e, int s, gj_rvalue *slots)
{
    struct fr_gcc *c = &e->c;

    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);
        bool                  half = in->dtype == FR_F16;
        fr_dtype              acc = half ? FR_F32 : in->dtype;
        enum how              how;
        int64_t               at = (int64_t)sizeof(struct fr_slot) * i;
        struct fr_gval        v;

        if (in->kind != FR_INST_REDUCE || in->stage != s + 1)
            continue;
        how = fr_emit_reduce_how(e, in);
        if (fr_op_finds_index(in->op)) {
            v = fr_emit_load_slot(e, FR_I64, slots, at + (int64_t)offsetof(struct fr_slot, index));
        } else if (how == HOW_TREE) {
            fr_dtype   m = fr_machine_type(acc);
            gj_rvalue *zero = fr_gcc_bits(c, m, 0);

            v = fr_emit_load_slot(e, acc, slots, at);
            v.re = fr_gcc_keep(c, c->memory[m], fr_gcc_bin(c, GJ_PLUS, c->memory[m], zero, v.re));
            if (v.im)
                v.im = fr_gcc_keep(c, c->memory[m], fr_gcc_bin(c, GJ_PLUS, c->memory[m], zero, v.im));
        } else if (how == HOW_SEQ && half) {
            v = fr_emit_load_slot(e, acc, slots, at);
        } else {
            continue;
        }
        if (half && how != HOW_PICK)
            v = fr_gcc_convert(c, FR_F32, FR_F16, v);
        fr_emit_store_slot(e, in->dtype, slots, i, v);
    }
}

static void
call_function(struct emit *e, gj_function *fn, int n, gj_rvalue **args)
{
    struct fr_gcc *c = &e->c;

    c->g->block_add_eval(c->at, NULL, c->g->context_new_call(c->ctxt, NULL, fn, n, args));
}

static gj_rvalue *
first_elem(struct emit *e, gj_lvalue *array)
{
    return e->c.g->lvalue_get_address(fr_gcc_elem(&e->c, array, fr_gcc_i64(&e->c, 0)), NULL);
}

/* Each operand goes on by its step. */
static void
step_rows(struct emit *e, gj_lvalue *row, gj_rvalue *const *step)
{
    struct fr_gcc *c = &e->c;

    for (int k = 0; k < e->nest->n_operands; k++) {
        gj_lvalue *at = fr_gcc_elem(c, row, fr_gcc_i64(c, k));

        fr_gcc_set(c, at, fr_gcc_offset(c, fr_gcc_get(c, at), step[k]));
    }
}

/* Rows that go together, where they do: `n_rows` at a time. Returns how many are left. */
static gj_rvalue *
emit_rows_together(struct emit *e, gj_function *together, gj_lvalue *row, gj_rvalue *const *step, gj_rvalue *stride,
                   gj_rvalue *n_rows, gj_rvalue *n, gj_rvalue *scalars)
{
    struct fr_gcc     *c = &e->c;
    gj_type           *i64 = c->t_i64;
    gj_rvalue         *size = fr_gcc_i64(c, e->unroll), *steps[FR_MAX_OPERANDS];
    gj_lvalue         *n_steps = fr_gcc_var(c, i64);
    gj_block          *some = fr_gcc_block(c), *go = fr_gcc_block(c);
    struct fr_gcc_loop l;

    for (int k = 0; k < e->nest->n_operands; k++)
        steps[k] = fr_gcc_keep(c, i64, times(e, step[k], e->unroll));
    fr_gcc_set(c, n_steps, fr_gcc_i64(c, 0));
    fr_gcc_branch(c, fr_emit_if_together(e, step, n_rows, n), some, go);
    c->at = some;
    fr_gcc_set(c, n_steps, fr_gcc_bin(c, GJ_DIVIDE, i64, n_rows, size));
    fr_gcc_jump(c, go);
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_get(c, n_steps), true);
    call_function(e, together, 5, (gj_rvalue *[]){first_elem(e, row), stride, e->row_stride, n, scalars});
    step_rows(e, row, steps);
    fr_gcc_end_for(c, l);
    return fr_gcc_keep(c, i64, minus(e, n_rows, fr_gcc_bin(c, GJ_MULT, i64, fr_gcc_get(c, n_steps), size)));
}

/* frit_rows: every row through all stages. */
static void
emit_rows(struct emit *e, gj_function *const *stage, gj_function *const *mid, gj_function *together)
{
    struct fr_gcc     *c = &e->c;
    gj_type           *bytes = c->t_bytes, *i64 = c->t_i64;
    gj_rvalue         *ptr, *row_stride, *stride, *n_rows, *n, *scalars, *scratch, *slots, *row_ptr;
    int                n_operands = e->nest->n_operands ? e->nest->n_operands : 1;
    gj_lvalue         *row, *slot_array, *ahead;
    gj_rvalue         *step[FR_MAX_OPERANDS];
    struct fr_gcc_loop l;

    fr_emit_new_function(e, GJ_FUNCTION_EXPORTED, "frit_rows", "BIIiibb", &ptr, &row_stride, &stride, &n_rows, &n, &scalars,
                         &scratch);
    row = fr_gcc_array(c, bytes, n_operands);
    slot_array = fr_gcc_array(c, i64, (int)(sizeof(struct fr_slot) / 8 * e->nest->n_insts));
    slots = fr_gcc_place(c, slot_array, 0);
    row_ptr = first_elem(e, row);
    for (int k = 0; k < e->nest->n_operands; k++) {
        fr_gcc_set(c, fr_gcc_elem(c, row, fr_gcc_i64(c, k)), fr_emit_table_entry(e, ptr, bytes, k));
        step[k] = fr_emit_table_entry(e, row_stride, i64, k);
    }
    ahead = fr_emit_ahead_of_rows(e, row_stride, n_rows, n);
    e->row_stride = row_stride;
    if (together)
        n_rows = emit_rows_together(e, together, row, step, stride, n_rows, n, scalars);
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), n_rows, true);
    for (int s = 0; s <= e->nest->n_stages; s++) {
        if (mid[s])
            call_function(e, mid[s], 3, (gj_rvalue *[]){row_ptr, scalars, slots});
        if (s == e->nest->n_stages)
            break;
        call_function(
            e, stage[s], 9,
            (gj_rvalue *[]){row_ptr, stride, fr_gcc_i64(c, 0), n, scalars, slots, slots, scratch,
                            first_elem(e, ahead)});
        finish_reductions(e, s, slots);
    }
    step_rows(e, row, step);
    fr_gcc_end_for(c, l);
    if (e->stores_nontemporal)
        fr_gcc_fence(c);
    fr_gcc_return(c);
}

/* The fr_stage_fn of a stage. */
static gj_function *
emit_piece(struct emit *e, int s, gj_function *stage)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *args[9];
    gj_function   *fn;
    char           name[24];

    snprintf(name, sizeof name, "piece_%d", s);
    fn = fr_emit_new_function(e, GJ_FUNCTION_INTERNAL, name, "BIiibbbb", &args[0], &args[1], &args[2], &args[3], &args[4],
                              &args[5], &args[6], &args[7]);
    args[8] = first_elem(e, fr_emit_ahead_in_row(e, args[3]));
    call_function(e, stage, 9, args);
    fr_gcc_return(c);
    return fn;
}

/* frit_stages: the table of stage and mid functions. */
static void
emit_table(struct emit *e, gj_function *const *stage, gj_function *const *mid)
{
    struct fr_gcc *c = &e->c;
    gj_type       *pointer = c->g->context_get_type(c->ctxt, GJ_VOID_PTR), *type;
    gj_rvalue     *entry[2 * UINT8_MAX + 1];
    size_t         n = 0;
    char           name[64];

    for (int s = 0; s < e->nest->n_stages; s++)
        entry[n++] = fr_gcc_cast(c, c->g->function_get_address(emit_piece(e, s, stage[s]), NULL), pointer);
    for (int s = 0; s <= e->nest->n_stages; s++)
        entry[n++] = fr_gcc_cast(c, c->g->function_get_address(mid[s], NULL), pointer);
    type = c->g->context_new_array_type(c->ctxt, NULL, pointer, (int)n);
    snprintf(name, sizeof name, "frit_stages_%s", e->name);
    c->g->global_set_initializer_rvalue(
        c->g->context_new_global(c->ctxt, NULL, GJ_GLOBAL_EXPORTED, type, name),
        c->g->context_new_array_constructor(c->ctxt, NULL, type, n, entry));
}

/* Only frit_rows has a fence at its end, not the functions of the table. */
static bool
stores_nontemporal(const struct fr_nest *nest, bool table)
{
    bool any = false;

    for (int k = 0; k < nest->n_operands; k++)
        any |= nest->operands[k].schedule & FR_SCHEDULE_NONTEMPORAL_ANY;
    return FR_GCC_NONTEMPORAL && any && !table;
}

static void
emit_nest(struct emit *e)
{
    const struct fr_nest *nest = e->nest;
    gj_function          *stage[UINT8_MAX], *mid[UINT8_MAX + 1];
    bool                  reduces = nest->flags & FR_NEST_REDUCES;
    /* Code for parts of rows would read no row buffers, so it would be all of the stages once more.
     * A nest with row buffers has short rows, which need not be cut. */
    bool table = reduces && !fr_nest_scratch(nest);

    e->stores_nontemporal = stores_nontemporal(nest, table);
    for (int s = 0; s < nest->n_stages; s++)
        stage[s] = fr_emit_stage(e, s);
    for (int s = 0; s <= nest->n_stages; s++)
        mid[s] = table || mid_does_something(e, s) ? emit_mid(e, s) : NULL;
    emit_rows(e, stage, mid, fr_emit_together(e));
    if (table)
        emit_table(e, stage, mid);
}

/* ---- the compiler ---------------------------------------------------------------------------- */

/* With vectorised loops -O1 makes as fast code as -O2 in two thirds of the time. */
static const char *const options[] = {
    "-fexpensive-optimizations", "-ftree-loop-vectorize", "-fno-tree-slp-vectorize", "-fvect-cost-model=dynamic",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fno-strict-aliasing",
    "-fno-tree-loop-distribute-patterns", "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-fcf-protection=none",
    "-fno-thread-jumps", /* ways that join (fr_gcc_select) shall be seen as such */
};
/* For steps of several blocks. Each of the many constants would get another register or place on
 * the stack in every loop, which takes a third of the compilation. */
static const char *const step_options[] = {"-fira-region=one"};
/* Short bodies run in the order in which they are written, by turns: nothing is moved to the only
 * place where it is used. */
static const char *const order_options[] = {"-fno-tree-ter"};
/* In long bodies the scheduler finds more that can run side by side. In short ones it puts constants before everything
 * else, and rows of few elements take longer. */
static const char *const schedule_options[] = {"-fschedule-insns", "-fsched-pressure"};
/* The vector of a number by which a loop shifts is made in the loop, where this does not take it out. */
static const char *const shift_options[] = {"-fgcse"};
/* Where vectors are as long as a cache line, one that does not begin with a line is in two of them, as in all large arrays
 * of NumPy's, which begin 16 bytes after one. By the costs of generic processors what is used twice is loaded twice. */
static const char *const wide_options[] = {"-mprefer-vector-width=512", "-mtune=icelake-server"};
/* What objects begin with a multiple of. */
#if defined __aarch64__
#define PAGE "4096" /* adrp takes the page of a constant from that of the code, so both must lie as they were linked */
#else
#define PAGE "64"
#endif
/* No libraries: what little a kernel may call (memcpy) is in every process, and the machine need
 * not have the files that linking against libc takes. Segments lie close to each other, for jit/load.c packs objects
 * into shared pages, and names are in the table that says how many they are. */
static const char *const link_options[] = {
    "-nostartfiles", "-nodefaultlibs", "-Wl,--build-id=none", "-Wl,-z,noexecstack", "-Wl,-z,now", "-Wl,-z,noseparate-code",
    "-Wl,-z,norelro", "-Wl,-z,max-page-size=" PAGE, "-Wl,-z,common-page-size=" PAGE, "-Wl,--hash-style=sysv", "-Wl,-s",
};
#if defined __x86_64__
enum { FMA_IS_AN_OPTION = 1 };
#else
enum { FMA_IS_AN_OPTION = 0 };
#endif

static void
add_options(const struct fr_gccjit *g, gj_context *ctxt, const char *const *option, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g->context_add_command_line_option(ctxt, option[i]);
}

static void
set_options(const struct fr_gccjit *g, gj_context *ctxt, const char *const *features)
{
    g->context_set_str_option(ctxt, GJ_STR_PROGNAME, "frit-cc");
    g->context_set_int_option(ctxt, GJ_INT_OPTIMIZATION_LEVEL, 1);
    if (g->context_set_bool_print_errors_to_stderr)
        g->context_set_bool_print_errors_to_stderr(ctxt, 0);
    add_options(g, ctxt, options, FR_LEN(options));
    for (size_t i = 0; i < FR_LEN(link_options); i++)
        g->context_add_driver_option(ctxt, link_options[i]);
    for (; *features; features++) {
        g->context_add_command_line_option(ctxt, *features);
        if (!strcmp(*features, "-mavx512f"))
            add_options(g, ctxt, wide_options, FR_LEN(wide_options));
    }
}

static void
note_features(struct emit *e, const char *const *features)
{
    e->vector_bytes = 16;
    e->c.has_fma = !FMA_IS_AN_OPTION;
    for (; *features; features++) {
        if (!strcmp(*features, "-mavx512f"))
            e->vector_bytes = 64;
        e->c.has_fma |= !strcmp(*features, "-mfma");
        e->c.has_f16c |= !strcmp(*features, "-mf16c");
        if (!strcmp(*features, "-mavx2") && e->vector_bytes < 32)
            e->vector_bytes = 32;
    }
}

/* What a nest wants of the object that it is in. */
struct wants {
    bool needs_libm; /* or another one of the object does */
    bool shifts;
    enum steps { STEPS_NONE, STEPS_SHORT, STEPS_LONG } steps; /* which decide on options */
};

static bool
nest_shifts(const struct fr_nest *nest)
{
    for (uint32_t i = 0; i < nest->n_insts; i++)
        if (nest->insts[i].kind == FR_INST_OP &&
            (nest->insts[i].op == FR_OP_left_shift || nest->insts[i].op == FR_OP_right_shift))
            return true;
    return false;
}

/* Adds the functions of one nest to the context. */
static fr_status
add_nest(const struct fr_gccjit *g, gj_context *ctxt, const struct fr_named_nest *named,
         const char *const *features, struct wants *wants, struct fr_err *err)
{
    struct emit *e = fr_calloc(1, sizeof *e);
    fr_status    st;

    if (!e)
        return fr_fail(err, FR_ENOMEM, "compiling a nest of %u instructions", named->nest->n_insts);
    fr_gcc_init(&e->c, g, ctxt);
    e->nest = named->nest;
    e->name = named->name;
    e->err = err;
    note_features(e, features);
    emit_nest(e);
    if ((st = e->c.st) != FR_OK)
        fr_fail(err, st, "nest of %u instructions: %s", named->nest->n_insts, fr_status_text(st));
    wants->needs_libm |= e->c.needs_libm;
    wants->shifts = nest_shifts(named->nest);
    wants->steps = !e->has_steps ? STEPS_NONE : e->has_long_steps ? STEPS_LONG : STEPS_SHORT;
    fr_gcc_clear(&e->c);
    fr_free(e);
    return st;
}

/* What a nest wants is known when it has been added: to a context that is thrown away. */
static fr_status
find_wants(const struct fr_gccjit *g, const struct fr_named_nest *named,
           const char *const *features, struct wants *wants, struct fr_err *err)
{
    gj_context *ctxt = g->context_acquire();
    fr_status   st;

    if (!ctxt)
        return fr_fail(err, FR_ENOMEM, "a nest's options");
    st = add_nest(g, ctxt, named, features, wants, err);
    g->context_release(ctxt);
    return st;
}

fr_status
fr_emit_gcc(const struct fr_gccjit *g, const struct fr_named_nest *nests, int n,
            const char *const *features, const char *path, struct fr_err *err)
{
    gj_context  *ctxt = g->context_acquire();
    struct wants wants = {.needs_libm = false}, other = wants;
    const char  *text;
    fr_status    st;

    if (!ctxt)
        return fr_fail(err, FR_ENOMEM, "compiling %d nests", n);
    set_options(g, ctxt, features);
    for (int i = 0; i < n; i++) {
        if (i > 0) {
            TRY(find_wants(g, &nests[i], features, &other, err));
            if (other.steps != wants.steps || other.shifts != wants.shifts)
                continue;
        }
        TRY(add_nest(g, ctxt, &nests[i], features, &wants, err));
    }
    if (wants.steps != STEPS_NONE)
        add_options(g, ctxt, step_options, FR_LEN(step_options));
    if (wants.steps == STEPS_SHORT)
        add_options(g, ctxt, order_options, FR_LEN(order_options));
    if (wants.steps == STEPS_LONG)
        add_options(g, ctxt, schedule_options, FR_LEN(schedule_options));
    if (wants.shifts)
        add_options(g, ctxt, shift_options, FR_LEN(shift_options));
    if (wants.needs_libm)
        g->context_add_driver_option(ctxt, "-l:libm.so.6");
    g->context_compile_to_file(ctxt, GJ_OUTPUT_DYNAMIC_LIBRARY, path);
    if ((text = g->context_get_first_error(ctxt)))
        st = fr_fail(err, FR_EOS, "libgccjit: %s", text);
out:
    g->context_release(ctxt);
    return st;
}
