/* backends/cpu/space.c -- see space.h. */
#include "backends/cpu/space.h"

#include <string.h>


enum { TASKS_MAX = 1 << 16 }; /* of one instance: work of minutes */

/* ---- estimates ------------------------------------------------------------------------------- */

int64_t
fr_space_row_cost(const struct fr_exec *e, const struct fr_instance *in)
{
    return fr_expect_saturate((double)fr_expect_row(e->kernel, in) * e->rate);
}

int64_t
fr_space_cost(const struct fr_exec *e, const struct fr_instance *in)
{
    return fr_expect_saturate((double)in->ps * e->rate);
}

/* ---- spaces ---------------------------------------------------------------------------------- */

void
fr_space_clear(struct fr_space *sp)
{
    sp->n_axes = 0;
    sp->n_rows = sp->total = 1;
}

void
fr_space_add(struct fr_space *sp, int axis, int64_t size)
{
    FR_ASSERT(sp->n_axes < FR_LAUNCH_AXES);
    sp->axis[sp->n_axes] = axis;
    sp->size[sp->n_axes++] = size;
    sp->total *= size;
}

static void
space_rows(struct fr_space *sp, int64_t n_rows)
{
    sp->n_rows = n_rows;
    sp->total *= n_rows;
}

int
fr_space_copies_to(const struct fr_nest *nest)
{
    const struct fr_inst *in = nest->insts, *store = &in[nest->n_insts - 1];

    if (nest->n_insts < 2 || nest->n_insts > 3 || store->kind != FR_INST_STORE || in->kind != FR_INST_LOAD)
        return -1;
    if (nest->n_insts == 3 && (in[1].kind != FR_INST_OP || in[1].op != FR_OP_cast || in->dtype != store->dtype))
        return -1;
    return store->operand;
}

bool
fr_space_is_accumulator(const struct fr_nest *nest, const struct fr_inst *i)
{
    return i->kind == FR_INST_ACCUM ||
           (i->kind == FR_INST_STORE && nest->operands[i->operand].flags & FR_OPERAND_STREAM);
}

fr_op
fr_space_accumulator_op(const struct fr_inst *i)
{
    return i->kind == FR_INST_ACCUM || fr_op_info[i->op].class_ == FR_CLASS_REDUCE ? i->op
                                                                                   : FR_OP_sum;
}

/* Whether some accumulator combines along this axis, so that it must be walked in order. */
static bool
is_reduced(const struct fr_bound *b, int axis)
{
    const struct fr_nest *nest = b->nest;

    if (b->in->outer[axis] == 1)
        return false;
    for (uint32_t i = 0; i < nest->n_insts; i++)
        if (fr_space_is_accumulator(nest, &nest->insts[i]) &&
            fr_space_strides(b, nest->insts[i].operand)[axis] == 0)
            return true;
    return false;
}

static void
bind_strides(struct fr_bound *b, const struct fr_exec *e, const struct fr_instance *in)
{
    const int64_t *stride = in->stride + in->n_outer;

    b->in = in;
    b->exec = e;
    b->nest = e->kernel->nest;
    for (int k = 0; k < e->kernel->nest->n_operands; k++, stride += in->n_outer + 2) {
        b->row_stride[k] = stride[0];
        b->inner_stride[k] = stride[1];
    }
}

void
fr_space_bind(struct fr_bound *b, const struct fr_exec *e, const struct fr_instance *in)
{
    bool accumulates = e->program->accumulates || e->program->streams;

    bind_strides(b, e, in);
    fr_space_clear(&b->kept);
    fr_space_clear(&b->rest);
    for (int d = 0; d < in->n_outer; d++)
        fr_space_add(accumulates && is_reduced(b, d) ? &b->rest : &b->kept, d, in->outer[d]);
    space_rows(accumulates ? &b->rest : &b->kept, in->n_rows);
}

void
fr_space_move(const struct fr_bound *b, const struct fr_space *sp, int64_t at, char *const *from,
              char **to)
{
    int n = b->nest->n_operands;

    FR_ASSERT(at >= 0 && (at == 0 || at * sp->n_rows < sp->total));
    memcpy(to, from, (size_t)n * sizeof *to);
    for (int d = sp->n_axes; d-- > 0 && at;) {
        int64_t index = at % sp->size[d];
        at /= sp->size[d];
        if (index)
            for (int k = 0; k < n; k++)
                to[k] = (char *)((uintptr_t)to[k] +
                                 (uintptr_t)(index * fr_space_strides(b, k)[sp->axis[d]]));
    }
}

void
fr_space_advance(const struct fr_bound *b, char **ptr, const int64_t *stride, int64_t by)
{
    if (by)
        for (int k = 0; k < b->nest->n_operands; k++)
            ptr[k] = (char *)((uintptr_t)ptr[k] + (uintptr_t)(by * stride[k]));
}

int64_t
fr_space_bytes(const struct fr_bound *b, int64_t n)
{
    int64_t most = 0;

    for (int k = 0; k < b->nest->n_operands; k++) {
        int64_t by = b->inner_stride[k] < 0 ? -b->inner_stride[k] : b->inner_stride[k];
        most = b->row_stride[k] && by > most ? by : most;
    }
    return fr_expect_saturate((double)most * (double)n);
}

void
fr_space_run(const struct fr_bound *b, const struct fr_space *sp, char *const *base, int64_t lo,
             int64_t hi, int64_t j0, int64_t n, const struct fr_stream *stream, void *mem)
{
    char          *ptr[FR_MAX_OPERANDS];
    int64_t        row_stride[FR_MAX_OPERANDS], inner_stride[FR_MAX_OPERANDS];
    const int64_t *by_row = b->row_stride, *by = b->inner_stride;

    FR_ASSERT(lo >= 0 && hi <= sp->total);
    if (stream) {
        memcpy(row_stride, by_row, sizeof row_stride);
        memcpy(inner_stride, by, sizeof inner_stride);
        for (int k = 0; k < b->nest->n_operands; k++)
            if (stream->block[k]) {
                row_stride[k] = stream->bytes[k];
                inner_stride[k] = fr_dtype_size(b->nest->operands[k].dtype);
            }
        by_row = row_stride;
        by = inner_stride;
    }
    while (lo < hi) {
        int64_t r = lo % sp->n_rows, n_rows = sp->n_rows - r;
        n_rows = n_rows < hi - lo ? n_rows : hi - lo;
        fr_space_move(b, sp, lo / sp->n_rows, base, ptr);
        fr_space_advance(b, ptr, b->row_stride, r);
        fr_space_advance(b, ptr, b->inner_stride, j0);
        if (stream)
            for (int k = 0; k < b->nest->n_operands; k++)
                if (stream->block[k])
                    ptr[k] = stream->block[k] + (lo - stream->first_row) * stream->bytes[k];
        fr_exec_rows(b->exec, ptr, by_row, by, n_rows, n, b->in->scalars, mem);
        lo += n_rows;
    }
}

int64_t
fr_space_share(int64_t n, int64_t parts, int64_t multiple)
{
    int64_t each = (n + parts - 1) / parts;

    each = (each + multiple - 1) / multiple * multiple;
    return each ? each : multiple;
}

int64_t
fr_space_tasks(int64_t ps, int n_threads)
{
    int64_t fine = ps / FR_GRAIN_PS, even = (int64_t)n_threads * FR_TASKS_PER_THREAD,
            most = ps / FR_TASK_PS;

    if (n_threads == 1)
        fine = 1;
    fine = fine < n_threads ? n_threads : fine < even ? fine : even;
    fine = fine > most ? fine : most;
    return fine < 1 ? 1 : fine < TASKS_MAX ? fine : TASKS_MAX;
}
