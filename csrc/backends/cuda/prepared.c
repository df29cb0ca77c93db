/* backends/cuda/prepared.c -- instances of plans, which run again: what a launch takes is kept, and only addresses and numbers are
 * put in its place. Several instances of one map are one launch: arguments and grids of all are a table on the device, where
 * each block looks for its own (jit/emit_cuda.c: MANY). An optimizer's step over a hundred tensors is one launch, not a hundred. */
#include "backends/cuda/job.h"

#include <string.h>

#include "base/alloc.h"
#include "base/ways.h"

enum { TOGETHER = 4,        /* so many launches take longer than to copy a table */
       MOST = 64 };         /* launches of one instance that are kept */

/* A launch. Behind it are its argument, and for each operand and the scratch how far that is from where it begins, and what it is
 * of: an operand of the instance, or the plan's scratch. */
struct entry {
    struct fr_cuda_kernel *kernel;
    fr_cuda_function       function;    /* NULL: it has not been got */
    int                    form;
    struct fr_cuda_grid    grid;
    unsigned               shared;
    bool                   is_tree;
    size_t                 n_bytes;     /* with all behind it */
};

/* Launches of an instance, one after the other. */
struct fr_cuda_tape {
    bool   is_made, is_kept;
    int    n;
    size_t n_bytes, cap;
    char  *bytes;
    const uint8_t *low;      /* while it is made: the last bits of each operand's address */
};

/* With addresses that suit vectors, and with others. */
struct prepared {
    struct fr_cuda_tape of[2];
};

/* ---- launches that are kept ---- */

/* While they are put together addresses are none: the number of the operand, above so many bits, and a distance. */
enum { DISTANCE_BITS = 48, SCRATCH = FR_MAX_OPERANDS, NOTHING = SCRATCH + 1 };

static uint64_t
name_of(int what)
{
    return (uint64_t)(what + 1) << DISTANCE_BITS;
}

static int
named(uint64_t name)
{
    return (int)((name + ((uint64_t)1 << (DISTANCE_BITS - 1))) >> DISTANCE_BITS) - 1;
}

static size_t
rounded(size_t n)
{
    return (n + 15) / 16 * 16;
}

static char *
args_of(struct entry *e)
{
    return (char *)e + rounded(sizeof *e);
}

static int64_t *
distances_of(struct entry *e)
{
    return (int64_t *)(void *)(args_of(e) + rounded(e->kernel->layout.n_bytes));
}

static int32_t *
bases_of(struct entry *e)
{
    return (int32_t *)(void *)(distances_of(e) + e->kernel->k.nest->n_operands + 1);
}

static uint64_t *
scratch_in(const struct fr_cuda_kernel *c, char *args)
{
    return &((struct fr_cuda_rest *)(void *)(args + c->layout.rest))->scratch;
}

static struct entry *
entry_at(const struct fr_cuda_tape *t, size_t at)
{
    return (struct entry *)(void *)(t->bytes + at);
}

fr_status
fr_cuda_tape_add(const struct fr_cuda_job *j, fr_cuda_function f, const struct fr_cuda_grid *g, unsigned shared, struct fr_err *err)
{
    struct fr_cuda_tape   *t = j->tape;
    struct fr_cuda_kernel *c = j->kernel;
    const int              n = c->k.nest->n_operands;
    const size_t           n_bytes = rounded(rounded(sizeof(struct entry)) + rounded(c->layout.n_bytes) + (size_t)(n + 1) * (8 + 4));
    struct entry          *e;

    if (t->n == MOST)
        return FR_ENOTSUP;
    if (!FR_GROW(t->bytes, t->cap, t->n_bytes + n_bytes))
        return fr_no_memory(err, "a launch");
    e = entry_at(t, t->n_bytes);
    *e = (struct entry){c, f, j->form, *g, shared, j->is_tree, n_bytes};
    memcpy(args_of(e), j->args, c->layout.n_bytes);
    for (int k = 0; k <= n; k++) {
        const uint64_t name = k < n ? (uint64_t)(uintptr_t)j->ptr[k] : *scratch_in(c, j->args);
        const int      what = named(name);

        bases_of(e)[k] = name ? what : NOTHING;
        distances_of(e)[k] = name ? (int64_t)(name - name_of(what)) - (what < SCRATCH ? t->low[what] : 0) : 0;
    }
    t->n_bytes += n_bytes;
    t->n++;
    return FR_OK;
}

static struct fr_cuda_tape *
tape_of(const struct fr_cuda_kernel *c, const struct fr_instance *in)
{
    uintptr_t wrong = 0;

    for (int k = 0; k < c->k.nest->n_operands; k++)
        wrong |= (uintptr_t)in->ptr[k] & c->vector_mask[k];
    return &((struct prepared *)*in->own)->of[wrong != 0];
}

/* Puts launches of the instance into the tape, with names for addresses, which end as these do. */
static fr_status
make(struct fr_cuda_tape *t, struct fr_cuda_kernel *c, struct fr_cuda_device *d, const struct fr_instance *in, struct fr_err *err)
{
    struct fr_cuda_scratch scratch = {.at = (char *)(uintptr_t)name_of(SCRATCH), .n_bytes = in->scratch ? in->scratch_bytes : 0};
    struct fr_cuda_job    *j = fr_cuda_job_new(c, d);
    struct fr_instance     here = *in;
    char                  *names[FR_MAX_OPERANDS];
    uint8_t                low[FR_MAX_OPERANDS];
    fr_status              st;

    if (!j)
        return fr_no_memory(err, "a launch");
    for (int k = 0; k < c->k.nest->n_operands; k++) {
        low[k] = (uint8_t)((uintptr_t)in->ptr[k] & c->vector_mask[k]);
        names[k] = (char *)(uintptr_t)(name_of(k) + low[k]);
    }
    here.ptr = names;
    t->low = low;
    j->scratch = &scratch;
    j->tape = t;
    st = fr_cuda_launch_instance(j, &here, err);
    t->low = NULL;
    fr_free(j);
    return st;
}

fr_status
fr_cuda_prepare(struct fr_cuda_kernel *c, struct fr_cuda_device *d, const struct fr_instance *in, struct fr_err *err)
{
    struct fr_cuda_tape *t;
    fr_status            st;

    if (FR_UNLIKELY(!*in->own) && !(*in->own = fr_calloc(1, sizeof(struct prepared))))
        return fr_no_memory(err, "a launch");
    t = tape_of(c, in);
    if (FR_LIKELY(t->is_made) || c->overwrites)     /* (where one address is another operand's is not known of names) */
        return FR_OK;
    t->n = 0;
    t->n_bytes = 0;
    st = make(t, c, d, in, err);
    t->is_made = st == FR_OK || st == FR_ENOTSUP;
    t->is_kept = st == FR_OK;
    return st == FR_ENOTSUP ? FR_OK : st;
}

void
fr_cuda_unbind(void *kept)
{
    struct prepared *p = kept;

    for (int i = 0; i < 2; i++)
        fr_free(p->of[i].bytes);
    fr_free(p);
}

bool
fr_cuda_are_prepared(const struct fr_cuda_kernel *c, const struct fr_instance *in, int n)
{
    for (int i = 0; i < n; i++)
        if (!in[i].own || !tape_of(c, &in[i])->is_kept)
            return false;
    return true;
}

/* Puts the instance's addresses and numbers into an argument. */
static void
put(struct entry *e, const struct fr_instance *in, char *args)
{
    const struct fr_cuda_kernel *c = e->kernel;
    const int                    n = c->k.nest->n_operands;
    const int64_t               *distance = distances_of(e);
    const int32_t               *base = bases_of(e);
    char                       **ptr = (char **)(void *)(args + c->layout.ptr);

    for (int k = 0; k < n; k++)
        ptr[k] = (char *)((uintptr_t)(base[k] == SCRATCH ? in->scratch : base[k] == NOTHING ? NULL : in->ptr[base[k]]) + (uintptr_t)distance[k]);
    if (base[n] == SCRATCH)
        *scratch_in(c, args) = (uint64_t)(uintptr_t)in->scratch + (uint64_t)distance[n];
    if (c->k.nest->n_scalars)
        memcpy(args + c->layout.scalars, in->scalars, 16 * (size_t)c->k.nest->n_scalars);
}

static fr_status
launch_one(struct fr_cuda_device *d, struct entry *e, const struct fr_instance *in, struct fr_err *err)
{
    char     *args = args_of(e);
    int       ignored;
    fr_status st;

    put(e, in, args);
    if (FR_UNLIKELY(!e->function) && (st = fr_cuda_kernel_get(e->kernel, e->form, d, &e->function, &ignored, err)) != FR_OK) {
        e->function = NULL;
        return st;
    }
    if (e->is_tree)
        fr_count_way(FR_WAY_device_trees);
    return fr_cuda_start_nest(e->kernel, d, e->function, &e->grid, e->shared, args, err);
}

fr_status
fr_cuda_launch_prepared(struct fr_cuda_kernel *c, struct fr_cuda_device *d, const struct fr_instance *in, struct fr_err *err)
{
    const struct fr_cuda_tape *t = tape_of(c, in);
    fr_status                  st = FR_OK;
    size_t                     at = 0;

    for (int i = 0; i < t->n && st == FR_OK; at += entry_at(t, at)->n_bytes, i++)
        st = launch_one(d, entry_at(t, at), in, err);
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

/* Adds a launch; false: there would be too many blocks. */
static bool
add(struct many *m, struct entry *e, const struct fr_instance *in)
{
    const uint64_t n_blocks = (uint64_t)e->grid.x * e->grid.y * e->grid.z;
    const size_t   n_bytes = e->kernel->layout.n_bytes;
    char          *args = m->args + (size_t)m->n * n_bytes;

    if (n_blocks + m->n_blocks > FR_CUDA_GRID_X)
        return false;
    memcpy(args, args_of(e), n_bytes);
    put(e, in, args);
    m->of[m->n++] = (struct fr_cuda_many){m->n_blocks, e->grid.x, e->grid.y, e->grid.z};
    m->n_blocks += (unsigned)n_blocks;
    return true;
}

/* Those of one form that have not been launched yet, which are marked; the first of them says which form. */
static fr_status
launch_some(struct many *m, struct fr_cuda_kernel *c, struct fr_cuda_device *d, const struct fr_instance *in, int n, bool *done, bool *any, struct fr_err *err)
{
    struct entry             *only = NULL;
    const struct fr_instance *its = NULL;
    int                       number = 0;

    m->n = 0;
    m->n_blocks = 0;
    for (int i = 0; i < n; i++) {
        const struct fr_cuda_tape *t = tape_of(c, &in[i]);
        size_t                     at = 0;

        for (int k = 0; k < t->n; at += entry_at(t, at)->n_bytes, k++, number++) {
            struct entry *e = entry_at(t, at);

            if (done[number])
                continue;
            if (m->n == 0)
                *m = (struct many){e->form, 0, e->grid.block_x, e->grid.block_y, 0, m->args, m->of};
            if (m->form != e->form || m->block_x != e->grid.block_x || m->block_y != e->grid.block_y || !add(m, e, &in[i]))
                continue;
            done[number] = true;
            only = e;
            its = &in[i];
        }
    }
    *any = m->n > 0;
    return m->n == 0 ? FR_OK : m->n == 1 ? launch_one(d, only, its, err) : launch_table(c, d, m, err);
}

fr_status
fr_cuda_launch_many(struct fr_cuda_kernel *c, struct fr_cuda_device *d, const struct fr_instance *in, int n, struct fr_err *err)
{
    size_t      n_all = 0;
    struct many m = {.n = 0};
    bool       *done, any = true;
    fr_status   st = FR_OK;

    for (int i = 0; i < n; i++)
        n_all += (size_t)tape_of(c, &in[i])->n;
    if (!(m.args = fr_malloc(n_all * (c->layout.n_bytes + sizeof(struct fr_cuda_many) + 1) + 1)))
        return fr_no_memory(err, "launches");
    m.of = (struct fr_cuda_many *)(void *)(m.args + n_all * c->layout.n_bytes);
    done = (bool *)(m.of + n_all);
    memset(done, 0, n_all);
    while (st == FR_OK && any)
        st = launch_some(&m, c, d, in, n, done, &any, err);
    fr_free(m.args);
    return st;
}
