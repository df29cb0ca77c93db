/* jit/emit_gcc_inst.c -- single instructions of a nest, slots and elements of memory as libgccjit
 * calls. */
#include "jit/emit_gcc_int.h"

#include <stdarg.h>
#include <stdio.h>

enum { MAX_PARAMS = 9 };

gj_function *
fr_emit_new_function(struct emit *e, int kind, const char *name, const char *types, ...)
{
    struct fr_gcc *c = &e->c;
    gj_param      *p[MAX_PARAMS];
    char           full[64];
    va_list        ap;
    int            n = 0;

    for (; types[n]; n++) {
        gj_type *type = types[n] == 'i' || types[n] == 'I' ? c->t_i64 : c->t_bytes;

        p[n] = c->g->context_new_param(c->ctxt, NULL, types[n] < 'a' ? c->g->type_get_pointer(type) : type, "p");
    }
    snprintf(full, sizeof full, "%s_%s", name, e->name);
    c->fn = c->g->context_new_function(c->ctxt, NULL, kind, c->t_void, full, n, p, 0);
    c->at = fr_gcc_block(c);
    va_start(ap, types);
    for (int i = 0; i < n; i++)
        *va_arg(ap, gj_rvalue **) = c->g->param_as_rvalue(p[i]);
    va_end(ap);
    return c->fn;
}

/* ---- one instruction ------------------------------------------------------------------------- */

/* The value of `i` in the block that is being written; lower levels have one for all. */
struct fr_gval *
fr_emit_value(struct emit *e, int i)
{
    return &e->val[inst(e, i)->level == FR_LEVEL_FULL ? e->u : 0][i];
}

/* OP instruction `i` for `n` blocks by turns. */
void
fr_emit_ops(struct emit *e, int i, int n)
{
    const struct fr_inst *in = inst(e, i);
    struct fr_gargs       args[MAX_ABREAST] = {{{{.re = NULL}}}};
    struct fr_gval        out[MAX_ABREAST];

    for (e->u = 0; e->u < n; e->u++)
        for (int k = 0; k < fr_nest_n_args(in); k++)
            args[e->u].x[k] = *fr_emit_value(e, in->a[k]);
    if (in->op == FR_OP_cast)
        fr_gcc_casts(&e->c, inst(e, in->a[0])->dtype, in->dtype, n, args, out);
    else
        fr_gcc_ops(&e->c, in->op, fr_nest_compute(e->nest, i), n, args, out);
    for (e->u = 0; e->u < n; e->u++)
        *fr_emit_value(e, i) = out[e->u];
    e->u = 0;
}

/* Marks what the marked instructions need from lower levels, and SCALAR operations' arguments. */
void
fr_emit_close_wanted(struct emit *e)
{
    for (int i = (int)e->nest->n_insts; i-- > 0;) {
        const struct fr_inst *in = inst(e, i);
        bool                  used = in->level == FR_LEVEL_SCALAR ? e->wanted[i] : false;

        for (int k = 0; used && k < fr_nest_n_args(in); k++)
            e->wanted[in->a[k]] = 1;
    }
}

void
fr_emit_scalars(struct emit *e)
{
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);

        if (in->level != FR_LEVEL_SCALAR || !e->wanted[i])
            continue;
        if (in->kind == FR_INST_SCALAR)
            e->val[0][i] = fr_emit_load_slot(e, in->dtype, e->scalars, 16 * in->operand);
        else
            fr_emit_ops(e, i, 1);
    }
}

/* The operation that joins two partial results of `in`, over values of dtype `d`. */
struct fr_gval
fr_emit_combine(struct emit *e, fr_op op, fr_dtype d, struct fr_gval a, struct fr_gval b)
{
    return fr_gcc_op(&e->c, fr_op_info[op].combine, d, (struct fr_gval[]){a, b});
}

/* A slot's or a scalar's bytes as a value. */
struct fr_gval
fr_emit_load_slot(struct emit *e, fr_dtype d, gj_rvalue *table, int64_t offset)
{
    gj_rvalue *at = fr_gcc_offset(&e->c, table, fr_gcc_i64(&e->c, offset));

    return fr_gcc_load(&e->c, d, at, fr_gcc_i64(&e->c, 0));
}

void
fr_emit_store_slot(struct emit *e, fr_dtype d, gj_rvalue *table, int i, struct fr_gval v)
{
    gj_rvalue *at = fr_gcc_offset(&e->c, table, fr_gcc_i64(&e->c, (int64_t)sizeof(struct fr_slot) * i));

    fr_gcc_store(&e->c, d, at, fr_gcc_i64(&e->c, 0), v);
}

/* Element k of an array of pointers or of int64_t that is a parameter. */
gj_rvalue *
fr_emit_table_entry(struct emit *e, gj_rvalue *table, gj_type *type, int k)
{
    gj_lvalue *at = e->c.g->context_new_array_access(e->c.ctxt, NULL, table, fr_gcc_i64(&e->c, k));

    return fr_gcc_keep(&e->c, type, fr_gcc_get(&e->c, at));
}

gj_type *
fr_emit_vector_of(struct emit *e, gj_type *type, int lanes)
{
    return lanes == 1 ? type : e->c.g->type_get_vector(type, (size_t)lanes);
}

/* Lanes [lane, lane + n) of a local array, or of memory, as one vector that need not be aligned. */
gj_lvalue *
fr_emit_vector_at(struct emit *e, gj_type *vector, int elem_bytes, gj_lvalue *first)
{
    struct fr_gcc *c = &e->c;
    gj_type       *loose = c->g->type_get_aligned(vector, (size_t)elem_bytes);

    return c->g->rvalue_dereference(
        fr_gcc_cast(c, c->g->lvalue_get_address(first, NULL), c->g->type_get_pointer(loose)), NULL);
}

gj_lvalue *
fr_emit_array_vector(struct emit *e, gj_type *vector, int elem_bytes, gj_lvalue *array, int64_t lane)
{
    return fr_emit_vector_at(e, vector, elem_bytes, fr_gcc_elem(&e->c, array, fr_gcc_i64(&e->c, lane)));
}

gj_rvalue *
fr_emit_splat(struct emit *e, gj_type *vector, int lanes, gj_rvalue *v)
{
    gj_rvalue *all[MAX_BLOCK];

    if (lanes == 1)
        return v;
    for (int k = 0; k < lanes; k++)
        all[k] = v;
    return e->c.g->context_new_rvalue_from_vector(e->c.ctxt, NULL, vector, (size_t)lanes, all);
}

/* Element `j` of memory that begins at `from` and has `step` bytes between elements (NULL: no
 * gaps). */
struct fr_gval
fr_emit_load_element(struct emit *e, fr_dtype d, gj_rvalue *from, gj_rvalue *step, gj_rvalue *j)
{
    struct fr_gcc *c = &e->c;

    if (!step)
        return fr_gcc_load(c, d, from, times(e, j, n_parts(d)));
    return fr_gcc_load(c, d, fr_gcc_offset(c, from, fr_gcc_bin(c, GJ_MULT, c->t_i64, j, step)), fr_gcc_i64(c, 0));
}

void
fr_emit_store_element(struct emit *e, fr_dtype d, gj_rvalue *to, gj_rvalue *step, gj_rvalue *j, struct fr_gval v)
{
    struct fr_gcc *c = &e->c;

    if (!step)
        fr_gcc_store(c, d, to, times(e, j, n_parts(d)), v);
    else
        fr_gcc_store(c, d, fr_gcc_offset(c, to, fr_gcc_bin(c, GJ_MULT, c->t_i64, j, step)), fr_gcc_i64(c, 0), v);
}

gj_lvalue *
fr_emit_copied(struct emit *e, gj_type *type, gj_rvalue *v)
{
    gj_lvalue *to = fr_gcc_var(&e->c, type);

    fr_gcc_set(&e->c, to, v);
    return to;
}

gj_rvalue *
fr_emit_entry_bytes(struct emit *e, int operand)
{
    return fr_emit_table_entry(e, e->ptr, e->c.t_bytes, operand);
}

gj_rvalue *
fr_emit_entry_step(struct emit *e, int operand)
{
    return fr_emit_table_entry(e, e->stride, e->c.t_i64, operand);
}

struct fr_gval
fr_emit_iota(struct emit *e, const struct fr_inst *in, gj_rvalue *j)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *start = e->iota_start[in->operand], *v = start;

    if (j)
        v = plus(e, start, fr_gcc_bin(c, GJ_MULT, c->t_i64, j, e->iota_step[in->operand]));
    return (struct fr_gval){.re = fr_gcc_keep_i64(c, v)};
}

/* Where an iota starts travels as the operand's pointer. */
void
fr_emit_declare_iota(struct emit *e, int operand)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *table = fr_gcc_cast(c, e->ptr, c->g->type_get_pointer(c->t_i64));

    e->iota_start[operand] = fr_emit_table_entry(e, table, c->t_i64, operand);
    e->iota_step[operand] = e->stride ? fr_emit_entry_step(e, operand) : NULL;
}
