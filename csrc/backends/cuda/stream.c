/* backends/cuda/stream.c -- accumulators that rows stream into: values of a block of rows go to scratch, and then to the
 * accumulators by a kernel of their own. */
#include "backends/cuda/job.h"

#include <string.h>

#include "base/alloc.h"

static const int64_t STREAM_BYTES = 64 << 20;    /* of scratch at a time */

struct stream {
    struct fr_cuda_rows rows;
    size_t              n_bytes, lines_bytes;
};

/* The launch of a fold. */
static fr_status
fold_job(const struct fr_cuda_rows *rows, const struct fr_cuda_job *j, struct fr_cuda_job **out, struct fr_err *err)
{
    const int64_t       size = fr_dtype_size(rows->dtype);
    int64_t             stride[2 * (FR_CUDA_OUTER + 2)], *to, next = rows->n * size;
    char               *ptr[2] = {rows->scratch, j->ptr[rows->operand]};
    struct fr_instance  in = {.n_rows = rows->n_rows, .n_inner = rows->n, .ptr = ptr, .stride = stride};
    struct fr_kernel   *k;
    struct fr_cuda_job *f = fr_calloc(1, sizeof *f);
    fr_status           st;

    *out = f;
    if (!f)
        return fr_no_memory(err, "a launch");
    TRY(fr_cuda_fold_kernel(j->device, rows->op, rows->dtype, &k, err));
    f->kernel = (struct fr_cuda_kernel *)k;
    f->device = j->device;
    f->scratch = j->scratch;
    f->tape = j->tape;
    while (j->here + in.n_outer < j->n_axes && j->kind[j->here + in.n_outer] != FR_CUDA_WALKED) {
        in.outer[in.n_outer] = j->dim[j->here + in.n_outer];
        in.n_outer++;
    }
    to = stride + in.n_outer + 2;
    for (int a = in.n_outer; a-- > 0;) {
        stride[a] = next;
        to[a] = j->outer[rows->operand][j->here + a];
        next *= in.outer[a];
    }
    stride[in.n_outer] = next;
    stride[in.n_outer + 1] = size;
    to[in.n_outer] = 0;
    to[in.n_outer + 1] = j->inner[rows->operand];
    fr_cuda_find_axes(f, &in);
    f->begun[1] = rows->begun;
    f->joins = rows->joins;
    f->in_order = rows->in_order;
    f->n_columns = rows->n_columns;
    f->n_column_rows = rows->n_column_rows;
    f->phase = rows->phase;
    f->n_before = rows->n_before;
    f->lines = rows->lines;
out:
    return st;
}

fr_status
fr_cuda_fold(const struct fr_cuda_rows *rows, const struct fr_cuda_job *j, struct fr_err *err)
{
    struct fr_cuda_job *f;
    fr_status           st;

    TRY(fold_job(rows, j, &f, err));
    if (!j->scratch->is_dry && !(f->args = fr_malloc(f->kernel->layout.n_bytes)))
        TRY(fr_no_memory(err, "a launch"));
    st = fr_cuda_launch_once(f, err);
out:
    if (f)
        fr_free(f->args);
    fr_free(f);
    return st;
}

/* Where other axes are reduced, too, each index of them is added to the last in order, and so are the rows. */
static void
find_columns(const struct fr_cuda_job *j, struct fr_cuda_rows *r)
{
    r->n_columns = r->n;
    r->n_column_rows = j->n_rows;
    for (int a = 0; a < j->n_axes; a++)
        if (j->outer[r->operand][a] == 0)
            r->in_order = true;
        else
            r->n_columns *= j->dim[a];
}

static int
find_streams(const struct fr_cuda_job *j, struct stream *s)
{
    const struct fr_nest *nest = j->kernel->k.nest;
    int                   n = 0;

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        if (in->kind != FR_INST_STORE || !(nest->operands[in->operand].flags & FR_OPERAND_STREAM))
            continue;
        s[n] = (struct stream){.rows = {.operand = in->operand, .dtype = in->dtype,
                                        .op = fr_op_reduces((fr_op)in->op) ? (fr_op)in->op : FR_OP_sum,
                                        .n = in->level == FR_LEVEL_FULL ? j->n_inner : 1}};
        find_columns(j, &s[n++].rows);
    }
    return n;
}

/* So many at a time. */
static int64_t
most_rows(const struct fr_cuda_job *j, const struct stream *s, int n_streams)
{
    int64_t most = j->n_rows > 0 ? j->n_rows : 1;

    for (int i = 0; i < n_streams; i++) {
        int64_t rows = STREAM_BYTES / (s[i].rows.n * fr_dtype_size(s[i].rows.dtype) + 1);

        most = rows < 1 ? 1 : rows < most ? rows : most;
    }
    return most;
}

/* Rows [first, first + n) of where the operands are, then the folds of what they stream. */
static fr_status
run_rows(struct fr_cuda_job *j, struct stream *s, int n_streams, char *const *base, int64_t first, int64_t n, bool *begun, struct fr_err *err)
{
    const int64_t n_rows = j->n_rows;
    int64_t       row[FR_MAX_OPERANDS], inner[FR_MAX_OPERANDS];
    fr_status     st;

    memcpy(row, j->row, sizeof row);
    memcpy(inner, j->inner, sizeof inner);
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++)
        j->ptr[k] = (char *)((uintptr_t)base[k] + (uintptr_t)(first * j->row[k]));
    for (int i = 0; i < n_streams; i++) {
        const struct fr_cuda_rows *r = &s[i].rows;

        j->ptr[r->operand] = r->scratch;
        j->row[r->operand] = r->n * fr_dtype_size(r->dtype);
        j->inner[r->operand] = fr_dtype_size(r->dtype);
    }
    j->n_rows = n;
    st = n ? fr_cuda_launch_once(j, err) : FR_OK;
    j->n_rows = n_rows;
    memcpy(j->row, row, sizeof row);
    memcpy(j->inner, inner, sizeof inner);
    for (int i = 0; i < n_streams && st == FR_OK; i++) {
        s[i].rows.n_rows = n;
        s[i].rows.n_before = first;
        s[i].rows.phase = s[i].rows.lines ? (first > 0) + 2 * (first + n < n_rows) : 0;
        s[i].rows.begun = begun[i] || (first > 0 && !s[i].rows.lines);
        j->ptr[s[i].rows.operand] = base[s[i].rows.operand];
        st = fr_cuda_fold(&s[i].rows, j, err);
    }
    return st;
}

/* Whether a stream's accumulator has been written at earlier indices of the axes that are walked here. */
static void
find_begun(const struct fr_cuda_job *j, const struct stream *s, int n_streams, const int64_t *at, bool *begun)
{
    for (int i = 0; i < n_streams; i++) {
        begun[i] = false;
        for (int a = 0; a < j->here; a++)
            begun[i] |= at[a] && j->outer[s[i].rows.operand][a] == 0;
    }
}

/* Rows that come in several parts have the lines of all rows, which wait in memory between. */
static fr_status
find_lines(const struct fr_cuda_job *j, struct stream *s, int64_t most, struct fr_err *err)
{
    struct fr_cuda_rows *r = &s->rows;
    struct fr_kernel    *k;
    int64_t              n_lines;
    fr_status            st = fr_cuda_fold_kernel(j->device, r->op, r->dtype, &k, err);

    if (st != FR_OK || r->in_order || most >= j->n_rows || !((struct fr_cuda_kernel *)k)->rounds ||
        !(n_lines = fr_cuda_tree_lines(r->n_columns, r->n_column_rows)))
        return st;
    s->lines_bytes = 2 * ((size_t)(n_lines * r->n) * (size_t)fr_dtype_size(r->dtype) + 16);   /* (and parts of blocks) */
    return fr_cuda_scratch_get(j, s->lines_bytes, "lines of columns", &r->lines, err);
}

fr_status
fr_cuda_launch_streams(struct fr_cuda_job *j, struct fr_err *err)
{
    struct stream s[FR_MAX_OPERANDS];
    const int     n_streams = find_streams(j, s);
    bool          begun[FR_MAX_OPERANDS];
    char         *base[FR_MAX_OPERANDS], *origin[FR_MAX_OPERANDS];
    int64_t       at[FR_LAUNCH_AXES + 1] = {0};
    const int64_t most = most_rows(j, s, n_streams);
    fr_status     st = FR_OK;

    for (int i = 0; i < n_streams; i++)
        s[i].n_bytes = (size_t)(most * s[i].rows.n * fr_dtype_size(s[i].rows.dtype));
    for (int i = 0; i < n_streams; i++)
        TRY(fr_cuda_scratch_get(j, s[i].n_bytes, "rows that are summed", &s[i].rows.scratch, err));
    for (int i = 0; i < n_streams; i++)
        TRY(find_lines(j, &s[i], most, err));
    j->here = j->n_axes;
    memcpy(origin, j->ptr, sizeof origin);
    do {
        memcpy(j->ptr, origin, sizeof origin);
        fr_cuda_step(j, origin, at);
        memcpy(base, j->ptr, sizeof base);
        find_begun(j, s, n_streams, at, begun);
        for (int64_t first = 0; first == 0 || (first < j->n_rows && !j->scratch->is_dry); first += most)
            TRY(run_rows(j, s, n_streams, base, first, j->n_rows - first < most ? j->n_rows - first : most, begun, err));
    } while (!j->scratch->is_dry && fr_cuda_next(j, at));
out:
    for (int i = n_streams; i-- > 0;)
        fr_cuda_scratch_end(j, s[i].rows.lines, s[i].lines_bytes);
    for (int i = n_streams; i-- > 0;)
        fr_cuda_scratch_end(j, s[i].rows.scratch, s[i].n_bytes);
    return st;
}
