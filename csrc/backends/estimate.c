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
