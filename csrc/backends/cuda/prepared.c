/* backends/cuda/prepared.c -- instances of plans, which run again: what a launch takes is kept, and only addresses and numbers are
 * put in its place. Several instances of one map are one launch: arguments and grids of all are a table on the device, where
 * each block looks for its own (jit/emit_cuda.c: MANY). An optimizer's step over a hundred tensors is one launch, not a hundred. */
#include "backends/cuda/job.h"

#include <string.h>

#include "base/alloc.h"

enum { TOGETHER = 4 };      /* so many launches take longer than to copy a table */

/* A launch, and from which element on. Behind it is its argument. */
struct part {
    struct fr_cuda_part of;
    int64_t             first;
};

struct prepared {
    int    n_parts;         /* of an instance without elements 0; -1: its launches are not kept */
    size_t part_bytes;
    char   parts[] __attribute__((aligned(16)));
};

static struct part *
part_at(const struct prepared *p, int i)
{
    return (struct part *)(void *)(uintptr_t)(p->parts + (size_t)i * p->part_bytes);
}

static char *
args_of(struct part *p)
{
    return (char *)p + (sizeof *p + 15) / 16 * 16;
}

void
fr_cuda_unbind(void *kept)
{
    fr_free(kept);
}

/* Whether launches of the instance differ in addresses and numbers alone. */
static bool
can_be_kept(const struct fr_cuda_job *j)
{
    return j->here == 0 && !j->kernel->streams && !j->kernel->overwrites;
}

/* Part i, of elements [first, first + n). */
static bool
add_part(struct prepared *p, struct fr_cuda_job *j, int64_t first, int64_t n, struct fr_err *err, fr_status *st)
{
    struct part  *part = part_at(p, p->n_parts);
    const int64_t all = j->n_inner;
    bool          is_one;

    if (n == 0)
        return true;
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++)
        j->ptr[k] = (char *)((uintptr_t)j->ptr[k] + (uintptr_t)(first * j->inner[k]));
    j->n_inner = n;
    part->first = first;
    is_one = fr_cuda_find_part(j, &part->of, err, st);
    if (is_one)
        memcpy(args_of(part), j->args, j->kernel->layout.n_bytes);
    p->n_parts += is_one;
    j->n_inner = all;
    return is_one;
}

fr_status
fr_cuda_prepare(struct fr_cuda_kernel *c, struct fr_cuda_device *d, const struct fr_instance *in, struct fr_err *err)
{
    const size_t        part_bytes = ((sizeof(struct part) + 15) / 16 * 16 + c->layout.n_bytes + 15) / 16 * 16;
    struct prepared    *p = fr_calloc(1, sizeof *p + 2 * part_bytes);
    struct fr_cuda_job *j = p ? fr_cuda_job_new(c, d) : NULL;
    struct fr_cuda_scratch none = {0};
    bool                is_kept = false;
    fr_status           st = FR_OK;

    if (!j) {
        fr_free(p);
        return fr_no_memory(err, "a launch");
    }
    p->part_bytes = part_bytes;
    j->scratch = &none;
    if (fr_instance_is_empty(in)) {
        is_kept = !fr_nest_computes_of_nothing(c->k.nest);
    } else {
        fr_cuda_find_axes(j, in);
        if (can_be_kept(j)) {
            const int64_t whole = fr_cuda_whole_vectors(j);

            is_kept = add_part(p, j, 0, whole, err, &st) && add_part(p, j, whole, j->n_inner - whole, err, &st);
        }
    }
    fr_free(j);
    if (st != FR_OK) {
        fr_free(p);
        return st;
    }
    if (!is_kept)
        p->n_parts = -1;
    *in->own = p;
    return FR_OK;
}

bool
fr_cuda_are_prepared(const struct fr_instance *in, int n)
{
    for (int i = 0; i < n; i++)
        if (!in[i].own || ((const struct prepared *)*in[i].own)->n_parts < 0)
            return false;
    return true;
}

/* Puts the instance's addresses and numbers into an argument. The form: without vectors where these are not aligned any more. */
static int
put(const struct fr_cuda_kernel *c, const struct part *p, const struct fr_instance *in, char *args)
{
    const struct fr_nest *nest = c->k.nest;
    const int             n = nest->n_operands, n_strides = in->n_outer + 2;
    char                **ptr = (char **)(void *)(args + c->layout.ptr);
    uintptr_t             wrong = 0;

    for (int k = 0; k < n; k++) {
        ptr[k] = (char *)((uintptr_t)in->ptr[k] + (uintptr_t)(p->first * in->stride[k * n_strides + n_strides - 1]));
        wrong |= (uintptr_t)ptr[k] & c->vector_mask[k];
    }
    memcpy(args + c->layout.scalars, in->scalars, 16 * (size_t)nest->n_scalars);
    return wrong ? p->of.form & ~FR_CUDA_VECTORS : p->of.form;
}

/* Blocks of a part whose form is not the one that it was prepared with take vectors no more. */
static struct fr_cuda_grid
grid_of(const struct fr_cuda_kernel *c, const struct part *p, int form)
{
    struct fr_cuda_grid g = p->of.grid;

    if (form != p->of.form)
        g.x = fr_cuda_blocks((int64_t)g.x * c->vector, 1, FR_CUDA_GRID_X);
    return g;
}

static fr_status
launch_one(struct fr_cuda_kernel *c, struct fr_cuda_device *d, struct part *p, const struct fr_instance *in, struct fr_err *err)
{
    char               *args = args_of(p);
    const int           form = put(c, p, in, args);
    struct fr_cuda_grid g = grid_of(c, p, form);
    fr_cuda_function    f = p->of.function;
    int                 ignored;
    fr_status           st;

    if (FR_UNLIKELY(!f || form != p->of.form)) {
        if ((st = fr_cuda_kernel_get(c, form, d, &f, &ignored, err)) != FR_OK)
            return st;
        if (form == p->of.form)
            p->of.function = f;
    }
    return fr_cuda_start_nest(c, d, f, &g, p->of.shared, args, err);
}

fr_status
fr_cuda_launch_prepared(struct fr_cuda_kernel *c, struct fr_cuda_device *d, const struct fr_instance *in, struct fr_err *err)
{
    struct prepared *p = *in->own;
    fr_status        st = FR_OK;

    for (int i = 0; i < p->n_parts && st == FR_OK; i++)
        st = launch_one(c, d, part_at(p, i), in, err);
    return st;
}

/* ---- many ------------------------------------------------------------------------------------ */

bool
fr_cuda_goes_together(const struct fr_cuda_kernel *c, int n)
{
    return n >= TOGETHER && fr_cuda_has_many(c->k.nest) && !c->overwrites;
}

/* A launch on its way: parts of one form, with blocks of one shape. */
struct many {
    int                  form, n;
    unsigned             block_x, block_y, n_blocks;
    char                *args;       /* those of all, one after the other, */
    struct fr_cuda_many *of;         /* and their grids */
};

static fr_status
launch_table(struct fr_cuda_kernel *c, struct fr_cuda_device *d, const struct many *m, struct fr_err *err)
{
    struct fr_cuda_gift table = {.of = {m->args, m->of}, .n_bytes = {(size_t)m->n * c->layout.n_bytes, (size_t)m->n * sizeof *m->of}};
    struct fr_cuda_of_many argument = {.n = (uint32_t)m->n};
    fr_cuda_function    f;
    int                 ignored;
    fr_status           st;

    TRY(fr_cuda_kernel_get(c, m->form | FR_CUDA_MANY, d, &f, &ignored, err));
    TRY(fr_cuda_give(d, &table, err));
    argument.all = (uint64_t)(uintptr_t)table.there;
    argument.of = argument.all + table.n_bytes[0];
    st = fr_cuda_start(d, f, &(struct fr_cuda_grid){m->n_blocks, 1, 1, m->block_x, m->block_y}, 0, &argument, sizeof argument,
                       "a launch of several", err);
    fr_cuda_given(d, &table);
out:
    return st;
}

/* Adds a part; false: there would be too many blocks. */
static bool
add(struct many *m, const struct fr_cuda_kernel *c, struct part *p, const struct fr_instance *in, const struct fr_cuda_grid *g)
{
    const uint64_t n_blocks = (uint64_t)g->x * g->y * g->z;
    char          *args = m->args + (size_t)m->n * c->layout.n_bytes;

    if (n_blocks + m->n_blocks > FR_CUDA_GRID_X)
        return false;
    memcpy(args, args_of(p), c->layout.n_bytes);
    put(c, p, in, args);
    m->of[m->n++] = (struct fr_cuda_many){m->n_blocks, g->x, g->y, g->z};
    m->n_blocks += (unsigned)n_blocks;
    return true;
}

/* Those of one form that have not been launched yet, which are marked; the first of them says which form. */
static fr_status
launch_some(struct many *m, struct fr_cuda_kernel *c, struct fr_cuda_device *d, const struct fr_instance *in, int n, bool *done, bool *any, struct fr_err *err)
{
    struct part              *only = NULL;
    const struct fr_instance *its = NULL;

    m->n = 0;
    m->n_blocks = 0;
    for (int i = 0; i < n; i++) {
        struct prepared *p = *in[i].own;

        for (int k = 0; k < p->n_parts; k++) {
            struct part        *part = part_at(p, k);
            const int           form = put(c, part, &in[i], args_of(part));
            struct fr_cuda_grid g = grid_of(c, part, form);

            if (done[2 * i + k])
                continue;
            if (m->n == 0)
                *m = (struct many){form, 0, g.block_x, g.block_y, 0, m->args, m->of};
            if (m->form != form || m->block_x != g.block_x || m->block_y != g.block_y || !add(m, c, part, &in[i], &g))
                continue;
            done[2 * i + k] = true;
            only = part;
            its = &in[i];
        }
    }
    *any = m->n > 0;
    return m->n == 0 ? FR_OK : m->n == 1 ? launch_one(c, d, only, its, err) : launch_table(c, d, m, err);
}

fr_status
fr_cuda_launch_many(struct fr_cuda_kernel *c, struct fr_cuda_device *d, const struct fr_instance *in, int n, struct fr_err *err)
{
    const size_t n_parts = 2 * (size_t)n, n_bytes = n_parts * (c->layout.n_bytes + sizeof(struct fr_cuda_many) + 1);
    struct many  m = {.args = fr_malloc(n_bytes)};
    bool        *done, any = true;
    fr_status    st = FR_OK;

    if (!m.args)
        return fr_no_memory(err, "launches");
    m.of = (struct fr_cuda_many *)(void *)(m.args + n_parts * c->layout.n_bytes);
    done = (bool *)(m.of + n_parts);
    memset(done, 0, n_parts);
    while (st == FR_OK && any)
        st = launch_some(&m, c, d, in, n, done, &any, err);
    fr_free(m.args);
    return st;
}
