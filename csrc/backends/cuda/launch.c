/* backends/cuda/launch.c -- runs nests on the device: an instance becomes the argument of its kernel and a grid.
 *
 *     axes       Up to FR_CUDA_OUTER outer axes are the kernel's; of more, the outermost are walked here. Those that every
 *                accumulator keeps are spread over the grid; those that every one reduces are walked in order, by each thread;
 *                those that some keep and some reduce are walked here, too.
 *     ACCUM      Where accumulators have one element for a whole row, its elements become rows of one element.
 *     STREAM     Values of a block of rows go to scratch, and then to the accumulators by a kernel of their own.
 *
 * Nothing is waited for: what fails on the device is said by whoever waits. */
#include "backends/cuda/kernel.h"

#include <string.h>

#include "base/alloc.h"
#include "base/ways.h"

enum { WIDE = FR_CUDA_THREADS, GRID_X = 1 << 30, GRID_YZ = 65535, BLOCKS_EACH = 8 /* of a multiprocessor */ };
static const int64_t WORTH_VECTORS = 1 << 16;    /* elements of which a last part is launched by itself */
static const int64_t STREAM_BYTES = 64 << 20;    /* of scratch at a time */

/* An axis of which some accumulator moves and some does not; that all keep; that all reduce. */
enum axis_kind { MIXED, SHARED, WALKED };

/* A launch on its way: an instance, maybe with other axes than it was bound with. */
struct job {
    struct fr_cuda_kernel *kernel;
    struct fr_cuda_device *device;
    int      n_axes;                       /* outer ones */
    int64_t  dim[FR_LAUNCH_AXES + 1], n_rows, n_inner;
    uint8_t  kind[FR_LAUNCH_AXES + 1];     /* enum axis_kind; axes are in its order */
    char    *ptr[FR_MAX_OPERANDS];
    int64_t  outer[FR_MAX_OPERANDS][FR_LAUNCH_AXES + 1], row[FR_MAX_OPERANDS], inner[FR_MAX_OPERANDS];
    bool     accumulates[FR_MAX_OPERANDS];
    const void *scalars;
    int      here;                         /* so many of the axes are walked here, the first ones */
    bool     begun[FR_MAX_OPERANDS];       /* accumulators that have values in them */
    char    *args;                         /* room for the argument */
};

/* ---- axes ------------------------------------------------------------------------------------ */

static void
swap_axes(struct job *j, int a, int b)
{
    int64_t dim = j->dim[a];
    uint8_t kind = j->kind[a];

    j->dim[a] = j->dim[b];
    j->dim[b] = dim;
    j->kind[a] = j->kind[b];
    j->kind[b] = kind;
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++) {
        int64_t step = j->outer[k][a];

        j->outer[k][a] = j->outer[k][b];
        j->outer[k][b] = step;
    }
}

/* Axes of a kind keep their order: who walks them goes through the accumulators in NumPy's. (A sum that a mixed and a walked
 * axis reduce has the mixed one outside, where it may not be: such axes are all walked here.) */
static void
sort_axes(struct job *j)
{
    bool mixed = false;

    for (int a = 0; a < j->n_axes; a++)
        mixed |= j->kind[a] == MIXED;
    for (int a = 0; a < j->n_axes && mixed; a++)
        if (j->kind[a] == WALKED)
            j->kind[a] = MIXED;
    for (int a = 1; a < j->n_axes; a++)
        for (int b = a; b > 0 && j->kind[b - 1] > j->kind[b]; b--)
            swap_axes(j, b - 1, b);
}

static void
drop_axis(struct job *j, int axis)
{
    j->n_axes--;
    for (int a = axis; a < j->n_axes; a++)
        swap_axes(j, a, a + 1);
}

/* The rows become an outer axis, and the elements of a row rows. */
static void
turn_rows(struct job *j)
{
    j->dim[j->n_axes] = j->n_rows;
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++) {
        j->outer[k][j->n_axes] = j->row[k];
        j->row[k] = j->inner[k];
        j->inner[k] = 0;
    }
    j->n_axes++;
    j->n_rows = j->n_inner;
    j->n_inner = 1;
}

static void
find_accumulators(struct job *j)
{
    const struct fr_nest *nest = j->kernel->k.nest;

    memset(j->accumulates, 0, sizeof j->accumulates);
    for (uint32_t i = 0; i < nest->n_insts; i++)
        if (nest->insts[i].kind == FR_INST_ACCUM)
            j->accumulates[nest->insts[i].operand] = true;
}

static bool
all_keep_the_row(const struct job *j)
{
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++)
        if (j->accumulates[k] && j->inner[k] == 0)
            return false;
    return true;
}

static void
find_axes(struct job *j, const struct fr_instance *in)
{
    const int n = j->kernel->k.nest->n_operands, n_strides = in->n_outer + 2;

    j->n_axes = in->n_outer;
    j->n_rows = in->n_rows;
    j->n_inner = in->n_inner;
    j->scalars = in->scalars;
    memcpy(j->dim, in->outer, sizeof in->outer);
    for (int k = 0; k < n; k++) {
        const int64_t *stride = in->stride + k * n_strides;

        j->ptr[k] = in->ptr[k];
        memcpy(j->outer[k], stride, (size_t)in->n_outer * sizeof *stride);
        j->row[k] = stride[in->n_outer];
        j->inner[k] = stride[in->n_outer + 1];
    }
    find_accumulators(j);
    if (j->kernel->accumulates && j->n_inner > 1 && !all_keep_the_row(j))
        turn_rows(j);
    for (int a = 0; a < j->n_axes; a++) {
        bool keeps = false, reduces = false;

        for (int k = 0; k < n; k++) {
            keeps |= j->accumulates[k] && j->outer[k][a] != 0;
            reduces |= j->accumulates[k] && j->outer[k][a] == 0;
        }
        j->kind[a] = !reduces ? SHARED : keeps ? MIXED : WALKED;
    }
    for (int a = j->n_axes; a-- > 0;)
        if (j->dim[a] == 1)
            drop_axis(j, a);
    sort_axes(j);
    j->here = j->n_axes > FR_CUDA_OUTER ? j->n_axes - FR_CUDA_OUTER : 0;
    while (j->here < j->n_axes && j->kind[j->here] == MIXED)
        j->here++;
    memset(j->begun, 0, sizeof j->begun);
}

/* ---- one launch ------------------------------------------------------------------------------ */

static int64_t
product_of(const struct job *j, int from, int to)
{
    int64_t n = 1;

    for (int a = from; a < to; a++)
        n *= j->dim[a];
    return n;
}

static void
fill_args(const struct job *j)
{
    const struct fr_cuda_kernel *c = j->kernel;
    const struct fr_cuda_layout *l = &c->layout;
    const int           n = c->k.nest->n_operands;
    char               *const *ptr = j->ptr;
    int64_t            *outer = (int64_t *)(void *)(j->args + l->outer_stride);
    int64_t            *begun = (int64_t *)(void *)(j->args + l->begun);
    struct fr_cuda_rest *rest = (struct fr_cuda_rest *)(void *)(j->args + l->rest);

    memset(j->args, 0, l->n_bytes);
    memcpy(j->args + l->ptr, ptr, (size_t)n * sizeof *ptr);
    memcpy(j->args + l->row_stride, j->row, (size_t)n * sizeof *j->row);
    memcpy(j->args + l->inner_stride, j->inner, (size_t)n * sizeof *j->inner);
    for (int k = 0; k < n; k++) {
        for (int a = j->here; a < j->n_axes; a++)
            outer[k * FR_CUDA_OUTER + a - j->here] = j->outer[k][a];
        begun[k] = j->begun[k];
    }
    *rest = (struct fr_cuda_rest){.n_rows = j->n_rows, .n_inner = j->n_inner, .n_outer = j->n_axes - j->here};
    for (int a = j->here; a < j->n_axes; a++) {
        rest->outer[a - j->here] = j->dim[a];
        rest->n_shared += j->kind[a] != WALKED;
    }
    rest->n_shared_indices = product_of(j, j->here, j->here + (int)rest->n_shared);
    rest->n_walked_indices = product_of(j, j->here + (int)rest->n_shared, j->n_axes);
    memcpy(j->args + l->scalars, j->scalars, 16 * (size_t)c->k.nest->n_scalars);
}

struct grid {
    unsigned x, y, z, block_x, block_y;
};

/* Whether a value of a whole row goes where something is loaded: then one thread has the row, and loads before it stores. */
static bool
overwrites_row(const struct job *j)
{
    const struct fr_nest *nest = j->kernel->k.nest;

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        if (in->kind != FR_INST_STORE || in->level == FR_LEVEL_FULL)
            continue;
        for (uint32_t k = 0; k < nest->n_insts; k++)
            if (nest->insts[k].kind == FR_INST_LOAD && j->ptr[nest->insts[k].operand] == j->ptr[in->operand])
                return true;
    }
    return false;
}

/* Whether all vectors are whole and aligned. */
static bool
has_vectors(const struct job *j)
{
    const struct fr_nest *nest = j->kernel->k.nest;
    const int             n = j->kernel->vector;

    if (j->kernel->accumulates || n == 1 || j->n_inner == 0 || j->n_inner % n || overwrites_row(j))
        return false;
    for (int k = 0; k < nest->n_operands; k++) {
        const int size = n * fr_dtype_size(nest->operands[k].dtype), align = size < 16 ? size : 16;
        uintptr_t bits = (uintptr_t)j->ptr[k] | (j->n_rows > 1 ? (uintptr_t)j->row[k] : 0);

        for (int a = j->here; a < j->n_axes; a++)
            bits |= (uintptr_t)j->outer[k][a];
        if (fr_cuda_is_vector(nest, k) && bits & (uintptr_t)(align - 1))
            return false;
    }
    return true;
}

/* Which form of the kernel this launch takes. */
static int
choose_form(const struct job *j)
{
    const size_t row_bytes = fr_cuda_row_bytes(j->kernel->k.nest, j->n_inner);
    int          form = j->n_axes > j->here ? FR_CUDA_HAS_OUTER : 0;
    int64_t      n_rows = j->n_rows;

    if (!j->kernel->has_stages)
        return form | (has_vectors(j) ? FR_CUDA_VECTORS : 0);
    for (int a = j->here; a < j->n_axes; a++)
        n_rows *= j->dim[a];
    if (!j->kernel->accumulates && fr_cuda_has_warp_rows(n_rows, j->n_inner, j->device->n_multiprocessors) &&
        row_bytes * (WIDE / 32) <= FR_CUDA_ROWS_BYTES)
        form |= FR_CUDA_WARP_ROWS;
    if (row_bytes && row_bytes + FR_CUDA_STATIC_BYTES <= (size_t)j->device->shared_bytes)
        form |= FR_CUDA_SHARED_ROWS;
    return form;
}

static unsigned
rows_of_block(int form)
{
    return form & FR_CUDA_WARP_ROWS ? WIDE / 32 : 1;
}

static struct grid
choose_grid(const struct job *j, int form)
{
    const struct fr_cuda_rest *rest = (const struct fr_cuda_rest *)(const void *)(j->args + j->kernel->layout.rest);
    struct grid g = {1, 1, 1, WIDE, 1};
    int64_t     n;

    if (j->kernel->has_stages) {
        g.block_y = rows_of_block(form);
        g.block_x = WIDE / g.block_y;
        g.x = fr_cuda_blocks(rest->n_shared_indices * (j->kernel->accumulates ? 1 : rest->n_rows), g.block_y,
                     (int64_t)j->device->n_multiprocessors * BLOCKS_EACH);
        return g;
    }
    if (!j->kernel->accumulates && overwrites_row(j))
        g.block_x = 1, g.block_y = WIDE;
    n = form & FR_CUDA_VECTORS ? rest->n_inner / j->kernel->vector : rest->n_inner;
    while (!j->kernel->accumulates && g.block_x > 1 && (int64_t)g.block_x / 2 >= n) {
        g.block_x /= 2;
        g.block_y *= 2;
    }
    g.x = g.block_x == 1 ? 1 : fr_cuda_blocks(n, g.block_x, GRID_X);
    g.y = j->kernel->accumulates ? 1 : fr_cuda_blocks(rest->n_rows, g.block_y, GRID_YZ);
    g.z = fr_cuda_blocks(rest->n_shared_indices, 1, GRID_YZ);
    return g;
}

/* The argument lies on the device where it is more than a launch takes. */
static fr_status
launch_by_address(struct job *j, fr_cuda_function f, const struct grid *g, unsigned shared, struct fr_err *err)
{
    const struct fr_cuda_driver *d = j->device->driver;
    const size_t n = j->kernel->layout.n_bytes;
    struct fr_err said;
    void        *there = fr_cuda_alloc(j->device->backend, n, &said), *argument[] = {&there};
    fr_status    st;

    if (!there)
        return fr_backend_refused(&said, err, "Unable to allocate %zu bytes for the arguments of a kernel", n);
    TRY(fr_cuda_copy_in(j->device->backend, there, j->args, n, err));
    TRY(fr_cuda_check(d->launch(f, g->x, g->y, g->z, g->block_x, g->block_y, 1, shared, j->device->stream, argument, NULL),
                      "a kernel's launch", err));
out:
    fr_cuda_free(j->device->backend, there, n);
    return st;
}

static fr_status
launch_part(struct job *j, struct fr_err *err)
{
    const struct fr_cuda_driver *d = j->device->driver;
    struct fr_cuda_kernel *c = j->kernel;
    void            *argument[] = {j->args}, *scratch = NULL;
    size_t           row_bytes = fr_cuda_row_bytes(c->k.nest, j->n_inner), n_scratch = 0;
    unsigned         shared = 0;
    struct fr_err    said;
    fr_cuda_function f;
    struct grid      g;
    int              form = choose_form(j), most_shared;
    fr_status        st = fr_cuda_kernel_get(c, form, j->device, &f, &most_shared, err);

    /* What its sums have in shared memory leaves no room for rows. */
    if (st == FR_OK && form & FR_CUDA_SHARED_ROWS && row_bytes * rows_of_block(form) > (size_t)most_shared) {
        form &= ~FR_CUDA_SHARED_ROWS;
        st = fr_cuda_kernel_get(c, form, j->device, &f, &most_shared, err);
    }
    if (st != FR_OK)
        return st;
    fill_args(j);
    g = choose_grid(j, form);
    if (form & FR_CUDA_SHARED_ROWS) {
        shared = (unsigned)row_bytes * g.block_y;
    } else if (row_bytes) {
        n_scratch = row_bytes * g.x * g.block_y;
        if (!(scratch = fr_cuda_alloc(j->device->backend, n_scratch, &said)))
            return fr_backend_refused(&said, err, "Unable to allocate %zu bytes for rows of a kernel", n_scratch);
        ((struct fr_cuda_rest *)(void *)(j->args + c->layout.rest))->scratch = (uint64_t)(uintptr_t)scratch;
    }
    st = c->layout.by_address
             ? launch_by_address(j, f, &g, shared, err)
             : fr_cuda_check(d->launch(f, g.x, g.y, g.z, g.block_x, g.block_y, 1, shared, j->device->stream, argument, NULL),
                             "a kernel's launch", err);
    fr_cuda_free(j->device->backend, scratch, n_scratch);
    return st;
}

/* A single row whose last vector is not whole goes in two parts. */
static fr_status
launch_once(struct job *j, struct fr_err *err)
{
    const int64_t n = j->n_inner, whole = n - n % j->kernel->vector;
    char         *base[FR_MAX_OPERANDS];
    fr_status     st;

    if (j->kernel->has_stages || j->kernel->accumulates || whole == n || whole < WORTH_VECTORS || j->n_rows != 1 || j->n_axes > j->here ||
        overwrites_row(j))
        return launch_part(j, err);
    memcpy(base, j->ptr, sizeof base);
    j->n_inner = whole;
    st = launch_part(j, err);
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++)
        j->ptr[k] = (char *)((uintptr_t)base[k] + (uintptr_t)(whole * j->inner[k]));
    j->n_inner = n - whole;
    if (st == FR_OK)
        st = launch_part(j, err);
    memcpy(j->ptr, base, sizeof base);
    j->n_inner = n;
    return st;
}

/* Steps operands to where index `at` of those axes that are walked here is. */
static void
step(struct job *j, char *const *base, const int64_t *at)
{
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++) {
        uintptr_t p = (uintptr_t)base[k];

        j->begun[k] = false;
        for (int a = 0; a < j->here; a++) {
            p += (uintptr_t)(at[a] * j->outer[k][a]);
            j->begun[k] |= j->accumulates[k] && at[a] && j->outer[k][a] == 0;
        }
        j->ptr[k] = (char *)p;
    }
}

static bool
next(const struct job *j, int64_t *at)
{
    int a = j->here - 1;

    for (; a >= 0 && ++at[a] == j->dim[a]; a--)
        at[a] = 0;
    return a >= 0;
}

static fr_status
launch_all(struct job *j, struct fr_err *err)
{
    char     *base[FR_MAX_OPERANDS];
    int64_t   at[FR_LAUNCH_AXES + 1] = {0};
    fr_status st;

    if (j->here == 0)
        return launch_once(j, err);
    /* Of no elements there is nothing to walk through, but for accumulators, which get their identities once. */
    for (int a = 0; a < j->here; a++) {
        if (j->dim[a] > 0)
            continue;
        if (j->kind[a] == SHARED)
            return FR_OK;
        j->dim[a] = 1;
        j->n_rows = 0;
    }
    memcpy(base, j->ptr, sizeof base);
    do {
        step(j, base, at);
        st = launch_once(j, err);
    } while (st == FR_OK && next(j, at));
    return st;
}

/* ---- accumulators that rows stream into ------------------------------------------------------ */

struct stream {
    int      operand;
    fr_op    op;
    fr_dtype dtype;
    int64_t  n;             /* elements of a row */
    char    *scratch;
    size_t   n_bytes;
};

/* Folds n_rows rows of scratch into the accumulator at `to`. */
static fr_status
fold(const struct stream *s, const struct job *j, char *to, int64_t n_rows, bool begun, struct fr_err *err)
{
    const int64_t     size = fr_dtype_size(s->dtype);
    const int64_t     stride[4] = {s->n * size, size, 0, j->inner[s->operand]};
    char             *ptr[2] = {s->scratch, to};
    struct fr_instance in = {.n_rows = n_rows, .n_inner = s->n, .ptr = ptr, .stride = stride};
    struct fr_kernel *k;
    struct job       *f = fr_calloc(1, sizeof *f);
    fr_status         st;

    if (!f)
        return fr_no_memory(err, "a launch");
    TRY(fr_cuda_fold_kernel(j->device, s->op, s->dtype, &k, err));
    f->kernel = (struct fr_cuda_kernel *)k;
    f->device = j->device;
    if (!(f->args = fr_malloc(f->kernel->layout.n_bytes)))
        TRY(fr_no_memory(err, "a launch"));
    find_axes(f, &in);
    f->begun[1] = begun;
    st = launch_once(f, err);
out:
    fr_free(f->args);
    fr_free(f);
    return st;
}

static int
find_streams(const struct job *j, struct stream *s)
{
    const struct fr_nest *nest = j->kernel->k.nest;
    int                   n = 0;

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        if (in->kind == FR_INST_STORE && nest->operands[in->operand].flags & FR_OPERAND_STREAM)
            s[n++] = (struct stream){.operand = in->operand, .dtype = in->dtype,
                                     .op = fr_op_reduces((fr_op)in->op) ? (fr_op)in->op : FR_OP_sum,
                                     .n = in->level == FR_LEVEL_FULL ? j->n_inner : 1};
    }
    return n;
}

/* Rows [first, first + n) of where the operands are, then the folds of what they stream. */
static fr_status
run_rows(struct job *j, struct stream *s, int n_streams, char *const *base, int64_t first, int64_t n, bool *begun, struct fr_err *err)
{
    const int64_t n_rows = j->n_rows;
    int64_t       row[FR_MAX_OPERANDS], inner[FR_MAX_OPERANDS];
    fr_status     st;

    memcpy(row, j->row, sizeof row);
    memcpy(inner, j->inner, sizeof inner);
    for (int k = 0; k < j->kernel->k.nest->n_operands; k++)
        j->ptr[k] = (char *)((uintptr_t)base[k] + (uintptr_t)(first * j->row[k]));
    for (int i = 0; i < n_streams; i++) {
        j->ptr[s[i].operand] = s[i].scratch;
        j->row[s[i].operand] = s[i].n * fr_dtype_size(s[i].dtype);
        j->inner[s[i].operand] = fr_dtype_size(s[i].dtype);
    }
    j->n_rows = n;
    st = n ? launch_once(j, err) : FR_OK;
    j->n_rows = n_rows;
    memcpy(j->row, row, sizeof row);
    memcpy(j->inner, inner, sizeof inner);
    for (int i = 0; i < n_streams && st == FR_OK; i++)
        st = fold(&s[i], j, base[s[i].operand], n, begun[i] || first > 0, err);
    return st;
}

/* Whether a stream's accumulator has been written at earlier indices of the axes that are walked here. */
static void
find_begun(const struct job *j, const struct stream *s, int n_streams, const int64_t *at, bool *begun)
{
    for (int i = 0; i < n_streams; i++) {
        begun[i] = false;
        for (int a = 0; a < j->here; a++)
            begun[i] |= at[a] && j->outer[s[i].operand][a] == 0;
    }
}

static fr_status
launch_streams(struct job *j, struct fr_err *err)
{
    struct stream s[FR_MAX_OPERANDS];
    const int     n_streams = find_streams(j, s);
    bool          begun[FR_MAX_OPERANDS];
    char         *base[FR_MAX_OPERANDS], *origin[FR_MAX_OPERANDS];
    int64_t       at[FR_LAUNCH_AXES + 1] = {0}, most = j->n_rows > 0 ? j->n_rows : 1;
    struct fr_err said;
    fr_status     st = FR_OK;

    for (int i = 0; i < n_streams; i++) {
        int64_t rows = STREAM_BYTES / (s[i].n * fr_dtype_size(s[i].dtype) + 1);

        most = rows < 1 ? 1 : rows < most ? rows : most;
    }
    for (int i = 0; i < n_streams; i++)
        s[i].n_bytes = (size_t)(most * s[i].n * fr_dtype_size(s[i].dtype));
    for (int i = 0; i < n_streams; i++)
        if (!(s[i].scratch = fr_cuda_alloc(j->device->backend, s[i].n_bytes, &said)))
            TRY(fr_backend_refused(&said, err, "Unable to allocate %zu bytes for rows that are summed", s[i].n_bytes));
    j->here = j->n_axes;
    memcpy(origin, j->ptr, sizeof origin);
    do {
        memcpy(j->ptr, origin, sizeof origin);
        step(j, origin, at);
        memcpy(base, j->ptr, sizeof base);
        find_begun(j, s, n_streams, at, begun);
        for (int64_t first = 0; first == 0 || first < j->n_rows; first += most)
            TRY(run_rows(j, s, n_streams, base, first, j->n_rows - first < most ? j->n_rows - first : most, begun, err));
    } while (next(j, at));
out:
    for (int i = 0; i < n_streams; i++)
        fr_cuda_free(j->device->backend, s[i].scratch, s[i].n_bytes);
    return st;
}

/* ---- the way in ------------------------------------------------------------------------------ */

static fr_status
launch_instance(struct job *j, const struct fr_instance *in, struct fr_err *err)
{
    if (fr_instance_is_empty(in) && !fr_nest_computes_of_nothing(j->kernel->k.nest))
        return FR_OK;
    find_axes(j, in);
    return j->kernel->streams ? launch_streams(j, err) : launch_all(j, err);
}

int
fr_cuda_likely_form(const struct fr_cuda_kernel *c, const struct fr_instance *in, const struct fr_cuda_device *d)
{
    struct job        *j = fr_calloc(1, sizeof *j);
    struct fr_instance here = *in;
    char              *somewhere[FR_MAX_OPERANDS];
    int                form = 0;

    if (!j)
        return 0;
    for (int k = 0; k < FR_MAX_OPERANDS; k++)   /* aligned, and apart */
        somewhere[k] = (char *)((uintptr_t)(k + 1) << 20);
    j->kernel = (struct fr_cuda_kernel *)(uintptr_t)c;
    j->device = (struct fr_cuda_device *)(uintptr_t)d;
    here.ptr = somewhere;
    find_axes(j, &here);
    if (!c->has_stages && !c->accumulates && j->n_rows == 1 && j->n_axes == j->here && j->n_inner >= WORTH_VECTORS)
        j->n_inner -= j->n_inner % c->vector;
    form = choose_form(j);
    fr_free(j);
    return form;
}

fr_status
fr_cuda_launch(struct fr_kernel *k, const struct fr_instance *in, int n, struct fr_err *err)
{
    struct job *j = fr_calloc(1, sizeof *j);
    fr_status   st;

    if (!j)
        return fr_no_memory(err, "a launch");
    j->kernel = (struct fr_cuda_kernel *)k;
    if ((st = fr_cuda_enter(fr_backend_of(k->device), &j->device, err)) != FR_OK) {
        fr_free(j);
        return st;
    }
    if (!(j->args = fr_malloc(j->kernel->layout.n_bytes)))
        TRY(fr_no_memory(err, "a launch"));
    for (int i = 0; i < n; i++)
        TRY(launch_instance(j, &in[i], err));
out:
    fr_cuda_leave(j->device);
    fr_free(j->args);
    fr_free(j);
    return st;
}
