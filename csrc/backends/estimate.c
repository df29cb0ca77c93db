#include "backends/estimate.h"

#include "base/tune.h"

/* So many times longer than a plain operation takes a division, and an exponential (backends/cpu/describe.c). */
enum { SLOW_TIMES = 3, COSTLY_TIMES = 10 };

void
fr_work_add(struct fr_work *w, fr_op op, fr_dtype d, double n)
{
    const unsigned flags = fr_op_info[op].flags;
    const int      class_ = flags & FR_OPF_COSTLY ? FR_WORK_COSTLY : flags & FR_OPF_SLOW ? FR_WORK_SLOW : FR_WORK_PLAIN;

    if (d == FR_F64 || d == FR_C128)
        w->wide[class_] += d == FR_C128 ? 2 * n : n;
    else
        w->ops[class_] += fr_dtype_size(d) > 4 ? 2 * n : n;
}

/* ---- what runs ---- */

/* Bytes that operand k of an instance has, of elements of so many. */
static double
operand_bytes(const struct fr_instance *in, int k, int64_t size)
{
    const int64_t *stride = in->stride + (int64_t)k * (in->n_outer + 2);
    double         n = (double)size;

    for (int a = 0; a < in->n_outer + 2; a++)
        if (stride[a] != 0)
            n *= (double)fr_instance_dim(in, a);
    return n;
}

static double
n_rows(const struct fr_instance *in)
{
    double n = (double)in->n_rows;

    for (int a = 0; a < in->n_outer; a++)
        n *= (double)in->outer[a];
    return n;
}

void
fr_work_add_nest(struct fr_work *w, const struct fr_nest *nest, const struct fr_instance *in)
{
    const double rows = n_rows(in), n_of_level[] = {[FR_LEVEL_SCALAR] = 1, [FR_LEVEL_ROW] = rows, [FR_LEVEL_FULL] = rows * (double)in->n_inner};
    uint8_t      seen[FR_MAX_OPERANDS] = {0};

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *x = &nest->insts[i];

        if ((x->kind == FR_INST_LOAD || fr_inst_writes(x)) && !seen[x->operand]) {
            seen[x->operand] = 1;
            w->bytes += operand_bytes(in, x->operand, fr_dtype_size(nest->operands[x->operand].dtype));
        }
        if (x->kind == FR_INST_OP)
            fr_work_add(w, x->op, x->op == FR_OP_cast ? x->dtype : fr_nest_compute(nest, (int)i), n_of_level[x->level]);
        else if (x->kind == FR_INST_REDUCE || x->kind == FR_INST_ACCUM)
            fr_work_add(w, fr_op_info[x->op].combine, nest->insts[x->a[0]].dtype, n_of_level[FR_LEVEL_FULL]);
    }
}

void
fr_work_add_call(struct fr_work *w, const struct fr_call *c)
{
    const int64_t size = fr_dtype_size(c->dtype), n_out = c->out->n_elems;

    w->bytes += (double)(n_out * size);
    if (c->op != FR_OP_matmul) {
        w->bytes += (double)(n_out * size) + (c->n_in > 1 ? (double)(c->in[1]->n_elems * fr_dtype_size(c->index)) : 0);
        fr_work_add(w, c->op, c->dtype, (double)n_out);
        return;
    }
    for (int k = 0; k < c->n_in; k++)
        w->bytes += (double)(c->in[k]->n_elems * size);
    fr_work_add(w, FR_OP_add, c->dtype, 2 * (double)n_out * (double)fr_layout_dims(c->in[0])[c->in[0]->ndim - 1]);
}

void
fr_work_add_scan(struct fr_work *w, fr_op op, fr_dtype d, const struct fr_instance *in)
{
    const double n = n_rows(in) * (double)in->n_inner;

    w->bytes += operand_bytes(in, 0, fr_dtype_size(d)) + operand_bytes(in, 1, fr_dtype_size(d));
    fr_work_add(w, fr_op_info[op].combine, d, n);
}

double
fr_work_ops(const struct fr_work *w)
{
    double n = 0;

    for (int c = 0; c < FR_N_WORK; c++)
        n += w->ops[c] + w->wide[c];
    return n;
}

/* ---- how long it takes ---- */

double
fr_estimate_us(const struct fr_machine *m, const struct fr_work *w)
{
    double memory = w->bytes / m->gbs, arithmetic = 0;

    for (int c = 0; c < FR_N_WORK; c++)
        arithmetic += (w->ops[c] + m->wide * w->wide[c]) / m->gops[c];
    return m->launch_us + (memory > arithmetic ? memory : arithmetic) / 1000;
}

double
fr_estimate_copy_us(const struct fr_machine *from, const struct fr_machine *to, double n_bytes)
{
    double us = 0;

    if (from)
        us += from->copy_us + n_bytes / from->copy_gbs / 1000;
    if (to)
        us += to->copy_us + n_bytes / to->copy_gbs / 1000;
    return us;
}

static void
figures_of_host(struct fr_machine *m)
{
    const double n = fr_backend->n_workers(), gbs = (double)fr_tune.host_gbs * n;

    *m = (struct fr_machine){
        .launch_us = (double)(n > 1 ? fr_tune.awake_ns : fr_tune.alone_below_ns) / 1000,
        .gbs = gbs < (double)fr_tune.host_most_gbs ? gbs : (double)fr_tune.host_most_gbs,
        .gops[FR_WORK_PLAIN] = n * 1000 / (4 * (double)fr_tune.host_byte_ps), /* 1 / ps is 1000 Gop/s */
        .wide = 2,
    };
}

fr_status
fr_machine_of(fr_device d, struct fr_machine *m, struct fr_err *err)
{
    const struct fr_backend *b = fr_backend_of(d);
    fr_status                st = FR_OK;

    if (b->figures)
        st = b->figures(b, m, err);
    else
        figures_of_host(m);
    if (st != FR_OK)
        return st;
    m->gops[FR_WORK_SLOW] = m->gops[FR_WORK_PLAIN] / SLOW_TIMES;
    m->gops[FR_WORK_COSTLY] = m->gops[FR_WORK_PLAIN] / COSTLY_TIMES;
    return FR_OK;
}
