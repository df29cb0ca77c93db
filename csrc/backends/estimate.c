#include "backends/estimate.h"

#include <math.h>

#include "base/tune.h"

/* So many times longer than a plain operation takes a division, and an exponential. */
enum { SLOW_TIMES = 3, COSTLY_TIMES = 10 };
/* The same on a GPU: bounds that measured kernels of memory's speed leave open (benchmarks.neusight). */
enum { GPU_SLOW_TIMES = 16, GPU_COSTLY_TIMES = 50 };
enum { REGISTER_ROW = 1024, ROW_THREADS = 128, LINE = 64, VECTOR = 32,
       LEAST_LANES = 64, /* of a thread that accumulates (backends/cpu/space.h) */
       FORWARDED = 30,   /* cycles until a load has what was stored as smaller pieces */
       INTERPRETED_ROW_NS = 1, INTERPRETED_FOLD_NS = 9 /* a row that is added to accumulators */ };

static struct fr_machine measured;       /* or a GPU; by which arrays without data are estimated */

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

static void
add_bytes(struct fr_work *w, double bytes, bool is_written)
{
    w->bytes += bytes;
    *(is_written ? &w->written : &w->read) += bytes;
}

static void
add_operand(struct fr_work *w, const struct fr_instance *in, int k, fr_dtype d, bool is_written)
{
    add_bytes(w, (double)(fr_instance_touched(in, k) * fr_dtype_size(d)), is_written);
}

/* Bytes that an operand brings from memory: all of the lines in which its elements lie, if they lie apart along the inner axis. */
static double
brought(const struct fr_instance *in, int k, fr_dtype d)
{
    const int64_t stride = in->stride[(size_t)k * (size_t)(in->n_outer + 2) + (size_t)in->n_outer + 1];
    const int64_t size = fr_dtype_size(d), apart = stride < 0 ? -stride : stride, each = apart < LINE ? apart : LINE;

    return (double)(fr_instance_touched(in, k) * (each > size ? each : size));
}

/* What a nest reads and writes of one memory after the other. */
static void
add_memories(struct fr_work *w, const struct fr_nest *nest, const struct fr_instance *in, const struct fr_work_memory *of,
             const bool *is_used)
{
    for (int k = 0; k < nest->n_operands; k++) {
        double read = 0, written = 0, both;
        bool   is_first = is_used[k];

        for (int i = 0; i < k && is_first; i++)
            is_first = !is_used[i] || of[i].number != of[k].number;
        for (int i = k; is_first && i < nest->n_operands; i++)
            if (is_used[i] && of[i].number == of[k].number)
                *(nest->operands[i].flags & FR_OPERAND_WRITTEN ? &written : &read) += brought(in, i, nest->operands[i].dtype);
        if (of[k].bytes > 0 && read > of[k].bytes) /* windows over the same elements */
            read = of[k].bytes;
        w->memory += read > written ? read : written;
        both = read < written ? read : written;
        w->rewritten += both;
        w->bytes += 2 * both;
        add_bytes(w, read - both, false);
        add_bytes(w, written - both, true);
    }
}

static double
vector_bytes(void)
{
    return measured.vector_bytes > 0 ? measured.vector_bytes : VECTOR;
}

/* How much more it takes to load, or to store, where vectors lie across two lines: x times more. */
static double
across_lines(const struct fr_nest *nest, const struct fr_instance *in, const struct fr_work_memory *of, bool stores)
{
    const int64_t vector = (int64_t)vector_bytes();
    double        all = 0, across = 0;

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *x = &nest->insts[i];
        const int             size = fr_dtype_size(x->dtype);

        if (x->level != FR_LEVEL_FULL || x->kind != (stores ? FR_INST_STORE : FR_INST_LOAD) ||
            nest->operands[x->operand].access != FR_ACCESS_UNIT)
            continue;
        all += size;
        if (of[x->operand].begin % vector != 0 ||
            (!in->joined && in->stride[(size_t)x->operand * (size_t)(in->n_outer + 2) + (size_t)in->n_outer] * size % vector != 0))
            across += size;
    }
    return all > 0 ? across / all * (double)vector / LINE : 0;
}

/* The loops over rows: how many, and how their ends fit vectors. Rows that are joined are one. */
static void
add_rows(struct fr_work *w, const struct fr_nest_work *counted, const struct fr_instance *in, double rows, bool accumulates)
{
    const double  n = fr_instance_n_rows(in), length = (double)fr_instance_row(in);
    const double  lanes = vector_bytes() / counted->smallest;
    const double  filled = ceil(length / lanes) * lanes;

    w->elements += n * length;
    w->filled += n * filled;
    w->loops += n * counted->n_loops;
    w->rows += n * counted->n_folds;
    if (filled > length) {
        w->tails += n * counted->n_loops;
        w->waits += accumulates ? n * FORWARDED : 0;
    }
    if (in->joined) /* what they share is repeated */
        w->tails += rows / 4;
    if (accumulates)
        w->interpreted_ns += rows * INTERPRETED_FOLD_NS;
}

/* How many threads can have accumulators of their own. */
static double
n_parts(const struct fr_instance *in, int k)
{
    const int64_t *stride = in->stride + (size_t)k * (size_t)(in->n_outer + 2);
    double         n = stride[in->n_outer + 1] ? (double)((in->n_inner + LEAST_LANES - 1) / LEAST_LANES) : 1;

    for (int a = 0; a <= in->n_outer; a++)
        n *= stride[a] ? (double)fr_instance_dim(in, a) : 1;
    return n;
}

void
fr_work_add_nest(struct fr_work *w, const struct fr_nest *nest, const struct fr_instance *in, const struct fr_work_memory *of)
{
    const double rows = fr_instance_n_rows(in) * (in->joined ? (double)in->n_rows : 1), elements = rows * (double)in->n_inner;
    const double n_of_level[] = {[FR_LEVEL_SCALAR] = 1, [FR_LEVEL_ROW] = rows, [FR_LEVEL_FULL] = elements};
    bool         accumulates = false;
    bool         is_used[FR_MAX_OPERANDS] = {false};
    const double more[] = {1 + across_lines(nest, in, of, false), 1 + across_lines(nest, in, of, true)};
    double       loaded = 0, latency = 0;
    struct fr_nest_work counted;

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *x = &nest->insts[i];

        if (x->kind == FR_INST_LOAD || fr_inst_writes(x))
            is_used[x->operand] = true;
        accumulates |= x->kind == FR_INST_ACCUM;
        if (x->kind == FR_INST_ACCUM && !fr_nest_has_stages(nest))
            w->parts += n_parts(in, x->operand);
        if (x->kind == FR_INST_OP)
            fr_work_add(w, x->op, x->op == FR_OP_cast ? x->dtype : fr_nest_compute(nest, (int)i), n_of_level[x->level]);
        else if (x->kind == FR_INST_REDUCE || x->kind == FR_INST_ACCUM)
            fr_work_add(w, fr_op_info[x->op].combine, nest->insts[x->a[0]].dtype, elements);
    }
    add_memories(w, nest, in, of, is_used);
    if (fr_nest_count(nest, &counted, NULL) != FR_OK)
        return;
    for (int l = 0; l < FR_MOST_LOOPS; l++) {
        loaded += counted.loop[l].loaded;
        counted.loop[l].loaded *= more[0];
        counted.loop[l].stored *= more[1];
        fr_nest_share_add(&w->loop[l], &counted.loop[l], elements);
        latency += counted.loop[l].latency;
    }
    fr_nest_share_add(&w->loop[FR_MOST_LOOPS], &counted.row, rows);
    for (int k = 0; k < nest->n_operands; k++)
        w->outputs += (nest->operands[k].flags & FR_OPERAND_WRITTEN) != 0;
    if (fr_nest_has_stages(nest)) {
        /* A short row stays in registers; of a long one the last pass finds what the one before has left in a cache. */
        w->passes = counted.n_loops < 2 || in->n_inner <= REGISTER_ROW ? 1 : 2;
        w->row_bytes = loaded / (counted.n_loops ? counted.n_loops : 1) * (double)in->n_inner;
        w->row_threads = in->n_inner < 2 * REGISTER_ROW ? 256 : 512;
        w->waits += rows * latency; /* the next row of a map need not wait for this one */
    }
    add_rows(w, &counted, in, rows, accumulates);
}

/* A side of so many elements takes a product as long as one of so many. */
static double
with_edge(int64_t n)
{
    enum { EDGE = 3 }; /* so far is the time within a factor of two, of single rows to 4096 (benchmarks/NOTES.md) */

    return n > 0 ? (double)(n + EDGE) / (double)n : 1;
}

static void
add_product(struct fr_work *w, const struct fr_call *c)
{
    const struct fr_layout *a = c->in[0], *b = c->in[1];
    const int64_t           depth = fr_layout_dims(a)[a->ndim - 1];
    const double            n = (fr_dtype_is_complex(c->dtype) ? 8 : 2) * (double)c->out->n_elems * (double)depth;

    w->product += n;
    w->product_filled += n * with_edge(depth) * with_edge(a->ndim > 1 ? fr_layout_dims(a)[a->ndim - 2] : 1) *
                         with_edge(b->ndim > 1 ? fr_layout_dims(b)[b->ndim - 1] : 1);
    w->is_product_wide = c->dtype == FR_C128 || (c->dtype != FR_C64 && fr_dtype_size(c->dtype) > 4);
    fr_work_add(w, FR_OP_add, c->dtype, 2 * (double)c->out->n_elems * (double)depth);
}

void
fr_work_add_call(struct fr_work *w, const struct fr_call *c)
{
    const int64_t size = fr_dtype_size(c->dtype), n_out = c->out->n_elems;

    add_bytes(w, (double)(n_out * size), true);
    if (c->op != FR_OP_matmul) {
        add_bytes(w, (double)(n_out * size) + (c->n_in > 1 ? (double)(c->in[1]->n_elems * fr_dtype_size(c->index)) : 0), false);
        fr_work_add(w, c->op, c->dtype, (double)n_out);
        return;
    }
    for (int k = 0; k < c->n_in; k++)
        add_bytes(w, (double)(c->in[k]->n_elems * size), false);
    add_product(w, c);
}

void
fr_work_add_scan(struct fr_work *w, fr_op op, fr_dtype d, const struct fr_instance *in)
{
    const double n = fr_instance_n_rows(in) * (double)fr_instance_row(in);

    add_operand(w, in, 0, d, false);
    add_operand(w, in, 1, d, true);
    fr_work_add(w, fr_op_info[op].combine, d, n);
    w->loop[0].kind[FR_MK_SCALAR] += (fr_dtype_is_float(d) || fr_dtype_is_complex(d) ? 1.5 : 0.6) * n; /* each waits for the one before */
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

/* What is known of so many bytes, between those that were measured. */
static struct fr_machine_level
level_of(const struct fr_machine_level *level, int n, double bytes)
{
    int i = 0;

    while (i < n - 1 && bytes > level[i].bytes)
        i++;
    if (i > 0 && bytes < level[i].bytes) {
        const struct fr_machine_level *a = &level[i - 1], *b = &level[i];
        const double                   part = log(bytes / a->bytes) / log(b->bytes / a->bytes);

        return (struct fr_machine_level){bytes, a->read_gbs + part * (b->read_gbs - a->read_gbs),
                                         a->write_gbs + part * (b->write_gbs - a->write_gbs),
                                         a->rewrite_gbs + part * (b->rewrite_gbs - a->rewrite_gbs)};
    }
    return level[i];
}

/* What a processor does beside each other, nearly as if the longest of it were alone. */
static double
beside(double a, double b, double c)
{
    a *= a;
    b *= b;
    c *= c;
    return sqrt(sqrt(a * a + b * b + c * c));
}

static double
product_ns(const struct fr_machine *m, const struct fr_work *w, double product, bool all)
{
    return product / (all ? m->all_product_gops : m->product_gops)[w->is_product_wide];
}

/* ns of a processor that has been measured, by one thread or all of them: what it computes, what it moves from and to memory, and
 * all of it, as machine code and as the block interpreter does it. */
struct processor_time {
    double arithmetic, memory, compiled, interpreted;
};

static struct processor_time
processor_time(const struct fr_machine *m, const struct fr_work *w, bool all)
{
    const double                  threads = 1000 * (all ? m->threads : 1), fill = w->elements > 0 ? w->filled / w->elements : 1;
    const struct fr_machine_level l = level_of(all ? m->all_level : m->level, m->n_levels, w->memory > 0 ? w->memory : w->bytes);
    const double                  read = w->read / l.read_gbs, written = w->written / l.write_gbs + w->rewritten / l.rewrite_gbs;
    const double                  product = product_ns(m, w, w->product_filled, all), shared = all ? 1000 * m->shared_us : 0;
    struct processor_time         t = {product_ns(m, w, w->product, all), read + written, shared, shared};
    int                           writes = FR_MOST_LOOPS - 1;

    while (writes > 0 && w->loop[writes].stored == 0)
        writes--;
    for (int i = 0; i <= FR_MOST_LOOPS; i++) {
        const struct fr_nest_share *loop = &w->loop[i];
        const double                sums = loop->kind[FR_WK_SUM] * m->kind_ps[FR_WK_SUM] / threads;
        const double                moves = (loop->loaded * m->load_ps + loop->stored * m->store_ps) / threads;
        const double                memory = (i == 0 ? read : 0) + (i == writes ? written : 0);
        const double                more = i == 0 ? product : 0, filled = i < FR_MOST_LOOPS ? fill : 1;
        double                      arithmetic = 0;

        for (int k = 0; k < FR_N_WORK_KINDS; k++)
            arithmetic += k == FR_WK_SUM ? 0 : loop->kind[k] * m->kind_ps[k] / threads;
        t.arithmetic += arithmetic > sums ? arithmetic : sums;
        t.compiled += beside(filled * arithmetic + more, memory > filled * moves ? memory : filled * moves, sums);
        t.interpreted += arithmetic + beside(more, memory, loop->between * (m->load_ps + m->store_ps) / 2 / threads) + sums;
    }
    t.compiled += (w->rows * m->row_ns + w->loops * m->loop_ns + w->tails * m->tail_ns + w->waits * m->wait_ns) * 1000 / threads;
    t.interpreted += (w->rows * INTERPRETED_ROW_NS + w->interpreted_ns) * 1000 / threads;
    return t;
}

static double
processor_ns(const struct fr_machine *m, const struct fr_work *w, bool all)
{
    const struct processor_time t = processor_time(m, w, all);

    return t.compiled < t.interpreted ? t.compiled : t.interpreted; /* of both, what takes less time runs */
}

/* A GPU by its data sheet. Bytes of memory at the bandwidth that so large a chip reaches, or its operations; rows that are read
 * again come from the cache as far as those in flight fit; and what waits for each other within rows is done beside nothing. */
static double
gpu_us(const struct fr_machine *m, const struct fr_work *w)
{
    const double in_flight = w->row_threads ? m->rows_in_flight * ROW_THREADS / w->row_threads * m->n_multiprocessors * w->row_bytes : 0;
    const double x = in_flight / m->l2_bytes, missed = x * x / (1 + x * x);
    const double again = w->passes > 1 ? (w->passes - 1) * w->read * missed : 0;
    const double memory = (w->read + w->written + 2 * w->rewritten + again) / m->gbs;
    const double weight[FR_N_WORK] = {[FR_WORK_PLAIN] = 1, [FR_WORK_SLOW] = GPU_SLOW_TIMES, [FR_WORK_COSTLY] = GPU_COSTLY_TIMES};
    double       ops = 0;

    for (int c = 0; c < FR_N_WORK; c++)
        ops += weight[c] * (w->ops[c] + m->wide * w->wide[c]) / m->gops[FR_WORK_PLAIN];
    return m->launch_us + (w->outputs > 1 ? (w->outputs - 1) * m->output_us : 0) +
           ((memory > ops ? memory : ops) + w->passes * w->read / m->onchip_gbs) / 1000;
}

double
fr_estimate_us(const struct fr_machine *m, const struct fr_work *w)
{
    double memory, arithmetic = 0;

    if (m->n_multiprocessors > 0)
        return gpu_us(m, w);
    if (m->n_levels) {
        const bool shares = m->threads > 1 && (w->parts == 0 || w->parts >= m->threads);
        double     ns = processor_ns(m, w, false), shared = shares ? processor_ns(m, w, true) : ns;

        return m->launch_us + (shared < ns ? shared : ns) / 1000;
    }
    memory = w->bytes / m->gbs;
    for (int c = 0; c < FR_N_WORK; c++)
        arithmetic += (w->ops[c] + m->wide * w->wide[c]) / m->gops[c];
    return m->launch_us + (memory > arithmetic ? memory : arithmetic) / 1000;
}

double
fr_limit_us(const struct fr_machine *m, const struct fr_work *w)
{
    double memory = w->bytes / m->gbs, arithmetic = 0;

    if (m->n_levels) {
        const struct processor_time t = processor_time(m, w, m->threads > 1);

        memory = t.memory;
        arithmetic = t.arithmetic;
    } else {
        for (int c = 0; c < FR_N_WORK; c++)
            arithmetic += (w->ops[c] + m->wide * w->wide[c]) / m->gops[c];
    }
    return (memory > arithmetic ? memory : arithmetic) / 1000;
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

void
fr_machine_measured(const struct fr_machine *m)
{
    measured = *m;
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
    if (d == FR_DEVICE_META && (measured.n_multiprocessors > 0 || measured.n_levels))
        *m = measured;
    m->gops[FR_WORK_SLOW] = m->gops[FR_WORK_PLAIN] / SLOW_TIMES;
    m->gops[FR_WORK_COSTLY] = m->gops[FR_WORK_PLAIN] / COSTLY_TIMES;
    return FR_OK;
}
