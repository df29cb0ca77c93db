#include "backends/expect.h"

#include "jit/work.h"

/* For a byte of vector instructions of each kind (jit/work.h), and so on: about what python -m frit.machine calibrate finds of
 * processors whose vectors have 32 bytes. What is loaded comes from the second cache. */
static const double kind_ps[FR_N_WORK_KINDS] = {
    [FR_MK_FLOAT] = 3,    [FR_MK_BITS] = 3, [FR_MK_CONVERT] = 2, [FR_MK_DIVIDE] = 2, [FR_MK_ROOT] = 2,  [FR_MK_WHOLE] = 4,
    [FR_MK_SCALAR] = 300, [FR_WK_SUM] = 65, [FR_WK_FOLD] = 8,    [FR_WK_FIND] = 40,  [FR_WK_HALF] = 47, [FR_WK_APART] = 250,
};
enum { LOAD_PS = 9, STORE_PS = 13, BETWEEN_PS = 10, ROW_PS = 2000, LOOP_PS = 500, WAIT_PS = 160, SCAN_PS = 1000,
       CALL_PS = 2000, /* an element */
       PRODUCT_PS = 5 /* a byte of one multiplication's result */ };

static double
share_ps(const struct fr_nest_share *s)
{
    double ps = LOAD_PS * s->loaded + STORE_PS * s->stored + BETWEEN_PS * s->between;

    for (int k = 0; k < FR_N_WORK_KINDS; k++)
        ps += kind_ps[k] * s->kind[k];
    return ps;
}

fr_status
fr_expect_kernel(struct fr_kernel *k, struct fr_err *err)
{
    struct fr_nest_work  w;
    struct fr_nest_share element = {0};
    fr_status            st;

    TRY(fr_nest_count(k->nest, &w, err));
    for (int l = 0; l < FR_MOST_LOOPS; l++)
        fr_nest_share_add(&element, &w.loop[l], 1);
    k->element_ps = share_ps(&element);
    k->row_ps = share_ps(&w.row) + ROW_PS + LOOP_PS * w.n_loops + (w.n_folds ? WAIT_PS * element.latency : 0);
out:
    return st;
}

static double
row_ps(const struct fr_kernel *k, const struct fr_instance *in)
{
    return k->row_ps + k->element_ps * (double)fr_instance_row(in);
}

int64_t
fr_expect_row(const struct fr_kernel *k, const struct fr_instance *in)
{
    return fr_expect_saturate(row_ps(k, in));
}

int64_t
fr_expect_instance(const struct fr_kernel *k, const struct fr_instance *in)
{
    return fr_expect_saturate(fr_instance_n_rows(in) * row_ps(k, in));
}

int64_t
fr_expect_scan(fr_dtype d, const struct fr_instance *in)
{
    return fr_expect_saturate(fr_instance_n_rows(in) * (double)fr_instance_row(in) * (SCAN_PS + (LOAD_PS + STORE_PS) * fr_dtype_size(d)));
}

int64_t
fr_expect_copy(int64_t n_bytes)
{
    return fr_expect_saturate((LOAD_PS + STORE_PS) * (double)n_bytes);
}

int64_t
fr_expect_call(const struct fr_call *c)
{
    const double n_bytes = (double)c->out->n_elems * fr_dtype_size(c->dtype);

    if (c->op == FR_OP_matmul)
        return fr_expect_saturate(PRODUCT_PS * n_bytes * (double)fr_layout_dims(c->in[0])[c->in[0]->ndim - 1]);
    return fr_expect_saturate(CALL_PS * (double)c->out->n_elems + (LOAD_PS + STORE_PS) * n_bytes);
}
