/* backends/cuda/launch.c -- runs nests on the device: an instance becomes the argument of its kernel and a grid.
 *
 *     axes.c     its axes, sorted
 *     prepared.c what is launched again, with other addresses and numbers; many at once
 *     split.c    few outputs of much, by several launches
 *     stream.c   accumulators that rows stream into
 *
 * Nothing is waited for: what fails on the device is said by whoever waits. */
#include "backends/cuda/job.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ways.h"

enum { WIDE = FR_CUDA_THREADS };
static const int64_t WORTH_VECTORS = 1 << 16;    /* elements of which a last part is launched by itself */

/* ---- one launch ------------------------------------------------------------------------------ */

static void
fill(const struct fr_cuda_job *j, const struct fr_cuda_given *given)
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
    *rest = (struct fr_cuda_rest){.n_rows = j->n_rows, .n_inner = j->n_inner, .n_outer = j->n_axes - j->here,
                                  .n_shared_indices = fr_cuda_kept_indices(j), .n_walked_indices = fr_cuda_walked_indices(j),
                                  .scratch = (uint64_t)(uintptr_t)given->scratch, .n_pieces = given->n_pieces, .phase = given->phase,
                                  .n_before = given->n_before};
    for (int a = j->here; a < j->n_axes; a++) {
        rest->outer[a - j->here] = j->dim[a];
        rest->n_shared += j->kind[a] != FR_CUDA_WALKED;
    }
    if (c->has_deep_tiles) {    /* the last axis is the tiles' */
        rest->n_outer--;
        rest->n_shared--;
        rest->n_shared_indices /= j->dim[j->n_axes - 1];
    }
    if (c->k.nest->n_scalars)
        memcpy(j->args + l->scalars, j->scalars, 16 * (size_t)c->k.nest->n_scalars);
}

/* Whether a value of a whole row goes where something is loaded: then one thread has the row, and loads before it stores. */
static bool
overwrites_row(const struct fr_cuda_job *j)
{
    const struct fr_nest *nest = j->kernel->k.nest;

    for (uint32_t i = 0; i < nest->n_insts && j->kernel->overwrites; i++) {
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
has_vectors(const struct fr_cuda_job *j)
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

static int
choose_form(const struct fr_cuda_job *j)
{
    const size_t row_bytes = fr_cuda_row_bytes(j->kernel->k.nest, j->n_inner);
    int          form = j->n_axes > j->here + j->kernel->has_deep_tiles ? FR_CUDA_HAS_OUTER : 0;
    const int64_t n_rows = j->n_rows * fr_cuda_kept_indices(j);

    if (fr_cuda_wants_split(j))
        return form | FR_CUDA_SPLIT;
    if (fr_cuda_wants_lines(j))
        return form | FR_CUDA_SHARED_COLUMNS;
    if (j->kernel->has_tiles)
        return form | FR_CUDA_TILED | (j->n_inner <= FR_CUDA_TILE_NARROW || j->kernel->has_deep_tiles ? FR_CUDA_NARROW : 0);
    if (!j->kernel->has_stages)
        return form | (has_vectors(j) ? FR_CUDA_VECTORS : 0);
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

/* A tile of all columns that there are room for, and one after the other along the rows. */
static struct fr_cuda_grid
choose_tiles(const struct fr_cuda_job *j, int form)
{
    const unsigned wide = form & FR_CUDA_NARROW ? FR_CUDA_TILE_NARROW : FR_CUDA_TILE_WIDE;

    int64_t        n_across = fr_cuda_blocks(j->n_rows, FR_CUDA_TILE_ELEMS / wide, INT32_MAX), n_outer = fr_cuda_kept_indices(j);

    if (j->kernel->has_deep_tiles) {
        const int64_t n_deep = j->dim[j->n_axes - 1];

        n_across = (int64_t)fr_cuda_blocks(j->n_rows, FR_CUDA_TILE_LOW, INT32_MAX) * fr_cuda_blocks(n_deep, FR_CUDA_TILE_DEEP, INT32_MAX);
        n_outer /= n_deep;
    }
    return (struct fr_cuda_grid){fr_cuda_blocks(j->n_inner, wide, INT32_MAX), fr_cuda_blocks(n_across, 1, FR_CUDA_GRID_YZ),
                                 fr_cuda_blocks(n_outer, 1, FR_CUDA_GRID_YZ), wide, WIDE / wide};
}

/* Of a map without values of rows each thread has one element or vector of a row, and takes no second one
 * (jit/emit_cuda.c); no memory has as many as would be more than GRID_X blocks. */
static struct fr_cuda_grid
choose_grid(const struct fr_cuda_job *j, int form)
{
    const int64_t       n_kept = fr_cuda_kept_indices(j);
    struct fr_cuda_grid g = {1, 1, 1, WIDE, 1};
    int64_t             n;

    if (form & FR_CUDA_TILED)
        return choose_tiles(j, form);
    if (j->kernel->has_stages) {
        g.block_y = rows_of_block(form);
        g.block_x = WIDE / g.block_y;
        g.x = fr_cuda_blocks(n_kept * (j->kernel->accumulates ? 1 : j->n_rows), g.block_y,
                             (int64_t)j->device->n_multiprocessors * FR_CUDA_BLOCKS_EACH);
        return g;
    }
    if (!j->kernel->accumulates && overwrites_row(j))
        g.block_x = 1, g.block_y = WIDE;
    n = form & FR_CUDA_VECTORS ? j->n_inner / j->kernel->vector : j->n_inner;
    while (!j->kernel->accumulates && j->n_rows > 1 && g.block_x > 1 && (int64_t)g.block_x / 2 >= n) {
        g.block_x /= 2;
        g.block_y *= 2;
    }
    g.x = g.block_x == 1 ? 1 : fr_cuda_blocks(n, g.block_x, FR_CUDA_GRID_X);
    g.y = j->kernel->accumulates ? 1 : fr_cuda_blocks(j->n_rows, g.block_y, FR_CUDA_GRID_YZ);
    g.z = fr_cuda_blocks(n_kept, 1, FR_CUDA_GRID_YZ);
    return g;
}

fr_status
fr_cuda_start_nest(const struct fr_cuda_kernel *c, struct fr_cuda_device *d, fr_cuda_function f, const struct fr_cuda_grid *g, unsigned shared,
                   char *args, struct fr_err *err)
{
    struct fr_cuda_gift gift = {.of = {args}, .n_bytes = {c->layout.n_bytes}};
    fr_status           st;

    if (!c->layout.by_address)
        return fr_cuda_start(d, f, g, shared, args, c->layout.n_bytes, "a kernel's launch", err);
    /* The argument is more than a launch takes. */
    if ((st = fr_cuda_give(d, &gift, err)) != FR_OK)
        return st;
    st = fr_cuda_start(d, f, g, shared, &gift.there, sizeof gift.there, "a kernel's launch", err);
    fr_cuda_given(d, &gift);
    return st;
}

fr_status
fr_cuda_fill_and_start(struct fr_cuda_job *j, fr_cuda_function f, const struct fr_cuda_grid *g, const struct fr_cuda_given *given, struct fr_err *err)
{
    if (j->scratch->is_dry)
        return FR_OK;
    fill(j, given);
    if (j->tape)
        return fr_cuda_tape_add(j, f, g, given->shared, err);
    if (j->is_tree)
        fr_count_way(FR_WAY_device_trees);
    return fr_cuda_start_nest(j->kernel, j->device, f, g, given->shared, j->args, err);
}

fr_status
fr_cuda_scratch_get(const struct fr_cuda_job *j, size_t n_bytes, const char *what, char **out, struct fr_err *err)
{
    struct fr_cuda_scratch *s = j->scratch;
    const size_t            n = (n_bytes + 255) / 256 * 256;
    struct fr_err           said;
    fr_status               st;

    *out = NULL;
    if (n_bytes == 0)
        return FR_OK;
    s->used += n;
    if (s->used > s->most)
        s->most = s->used;
    if (s->is_dry || s->used <= s->n_bytes) {
        *out = (char *)((uintptr_t)s->at + (s->used - n));
        return FR_OK;
    }
    if (j->tape)
        return FR_ENOTSUP;
    if ((st = fr_cuda_needs_host(j->device, err)) == FR_OK && !(*out = fr_cuda_alloc(j->device->backend, n_bytes, &said)))
        st = fr_backend_refused(&said, err, "Unable to allocate %zu bytes for %s", n_bytes, what);
    return st;
}

void
fr_cuda_scratch_end(const struct fr_cuda_job *j, char *p, size_t n_bytes)
{
    struct fr_cuda_scratch *s = j->scratch;

    if (!p)
        return;
    if (!s->is_dry && s->used > s->n_bytes)
        fr_cuda_free(j->device->backend, p, n_bytes);
    s->used -= (n_bytes + 255) / 256 * 256;
}

/* The form of the next launch, with its function and, of one that is not split, its grid. */
static fr_status
find_form(struct fr_cuda_job *j, fr_cuda_function *f, struct fr_cuda_grid *g, struct fr_cuda_given *given, struct fr_err *err)
{
    const size_t row_bytes = fr_cuda_row_bytes(j->kernel->k.nest, j->n_inner);
    int          most_shared = INT_MAX;
    fr_status    st = FR_OK;

    *given = (struct fr_cuda_given){0};
    *f = NULL;
    j->form = choose_form(j);
    if (j->scratch->is_dry)
        fr_cuda_kernel_ask(j->kernel, j->form, j->scratch->is_later, j->device);
    else if (!j->tape || !fr_cuda_has_many(j->kernel->k.nest)) /* (of those it is got when it is known which) */
        st = fr_cuda_kernel_get(j->kernel, j->form, j->device, f, &most_shared, err);
    /* What its sums have in shared memory leaves no room for rows. */
    if (st == FR_OK && j->form & FR_CUDA_SHARED_ROWS && row_bytes * rows_of_block(j->form) > (size_t)most_shared) {
        j->form &= ~FR_CUDA_SHARED_ROWS;
        st = fr_cuda_kernel_get(j->kernel, j->form, j->device, f, &most_shared, err);
    }
    if (st != FR_OK || j->form & (FR_CUDA_SPLIT | FR_CUDA_SHARED_COLUMNS))
        return st;
    *g = choose_grid(j, j->form);
    if (j->form & FR_CUDA_SHARED_ROWS)
        given->shared = (unsigned)row_bytes * g->block_y;
    return FR_OK;
}

static fr_status
launch_part(struct fr_cuda_job *j, struct fr_err *err)
{
    struct fr_cuda_given given;
    const size_t         row_bytes = fr_cuda_row_bytes(j->kernel->k.nest, j->n_inner);
    size_t               n_scratch = 0;
    fr_cuda_function     f;
    struct fr_cuda_grid  g;
    fr_status            st = find_form(j, &f, &g, &given, err);

    if (st == FR_OK && j->form & (FR_CUDA_SPLIT | FR_CUDA_SHARED_COLUMNS))
        return fr_cuda_launch_split(j, f, err);
    if (st != FR_OK)
        return st;
    if (!(j->form & FR_CUDA_SHARED_ROWS))
        n_scratch = row_bytes * g.x * g.block_y;
    if ((st = fr_cuda_scratch_get(j, n_scratch, "rows of a kernel", &given.scratch, err)) != FR_OK)
        return st;
    st = fr_cuda_fill_and_start(j, f, &g, &given, err);
    fr_cuda_scratch_end(j, given.scratch, n_scratch);
    return st;
}

/* Elements of a single row that go in whole vectors, where the last ones are launched by themselves; else all. */
static int64_t
whole_vectors(const struct fr_cuda_job *j)
{
    const int64_t n = j->n_inner, whole = n - n % j->kernel->vector;

    return fr_cuda_has_many(j->kernel->k.nest) && !j->kernel->has_tiles && whole >= WORTH_VECTORS && j->n_rows == 1 && j->n_axes == j->here && !overwrites_row(j) ? whole : n;
}

fr_status
fr_cuda_launch_once(struct fr_cuda_job *j, struct fr_err *err)
{
    const int64_t n = j->n_inner, whole = whole_vectors(j);
    char         *base[FR_MAX_OPERANDS];
    fr_status     st;

    if (whole == n)
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

static fr_status
launch_all(struct fr_cuda_job *j, struct fr_err *err)
{
    char     *base[FR_MAX_OPERANDS];
    int64_t   at[FR_LAUNCH_AXES + 1] = {0};
    fr_status st;

    if (j->here == 0)
        return fr_cuda_launch_once(j, err);
    /* Of no elements there is nothing to walk through, but for accumulators, which get their identities once. */
    for (int a = 0; a < j->here; a++) {
        if (j->dim[a] > 0)
            continue;
        if (j->kind[a] == FR_CUDA_KEPT)
            return FR_OK;
        j->dim[a] = 1;
        j->n_rows = 0;
    }
    memcpy(base, j->ptr, sizeof base);
    do {
        fr_cuda_step(j, base, at);
        st = fr_cuda_launch_once(j, err);
    } while (st == FR_OK && !j->scratch->is_dry && fr_cuda_next(j, at));
    return st;
}

/* ---- the way in ------------------------------------------------------------------------------ */

struct fr_cuda_job *
fr_cuda_job_new(struct fr_cuda_kernel *c, struct fr_cuda_device *d)
{
    struct fr_cuda_job *j = fr_calloc(1, sizeof *j + c->layout.n_bytes);

    if (j) {
        j->kernel = c;
        j->device = d;
        j->args = (char *)(j + 1);
    }
    return j;
}

fr_status
fr_cuda_launch_instance(struct fr_cuda_job *j, const struct fr_instance *in, struct fr_err *err)
{
    if (fr_instance_is_empty(in) && !fr_nest_computes_of_nothing(j->kernel->k.nest))
        return FR_OK;
    fr_cuda_find_axes(j, in);
    return j->kernel->streams ? fr_cuda_launch_streams(j, err) : launch_all(j, err);
}

void
fr_cuda_ask(struct fr_cuda_kernel *c, struct fr_instance *in, int n, bool is_later, struct fr_cuda_device *d)
{
    struct fr_cuda_job    *j = fr_calloc(1, sizeof *j);
    struct fr_cuda_scratch scratch;
    struct fr_instance     here;
    char                  *somewhere[FR_MAX_OPERANDS];
    struct fr_err          ignored;

    if (!j)
        return;
    for (int k = 0; k < FR_MAX_OPERANDS; k++)   /* aligned, and apart */
        somewhere[k] = (char *)((uintptr_t)(k + 1) << 20);
    j->kernel = c;
    j->device = d;
    j->scratch = &scratch;
    for (int i = 0; i < n; i++) {
        scratch = (struct fr_cuda_scratch){.at = (char *)((uintptr_t)1 << 40), .is_dry = true, .is_later = is_later};
        here = in[i];
        here.ptr = somewhere;
        if (fr_cuda_goes_together(c, n)) {
            fr_cuda_find_axes(j, &here);
            j->n_inner = whole_vectors(j);
            fr_cuda_kernel_ask(c, choose_form(j) | FR_CUDA_MANY, is_later, d);
        } else {
            fr_cuda_launch_instance(j, &here, &ignored);
        }
        in[i].scratch_bytes = scratch.most;
    }
    fr_free(j);
}

fr_status
fr_cuda_launch(struct fr_kernel *k, const struct fr_instance *in, int n, struct fr_err *err)
{
    struct fr_cuda_kernel *c = (struct fr_cuda_kernel *)k;
    struct fr_cuda_device *d;
    struct fr_cuda_job    *j = NULL;
    struct fr_cuda_scratch scratch;
    fr_status              st = fr_cuda_enter(fr_backend_of(k->device), &d, err);

    if (st != FR_OK)
        return st;
    for (int i = 0; i < n; i++)
        if (in[i].own)
            TRY(fr_cuda_prepare(c, d, &in[i], err));
    if (fr_cuda_goes_together(c, n) && fr_cuda_are_prepared(c, in, n)) {
        st = fr_cuda_launch_many(c, d, in, n, err);
        goto out;
    }
    for (int i = 0; i < n; i++) {
        if (fr_cuda_are_prepared(c, &in[i], 1)) {
            TRY(fr_cuda_launch_prepared(c, d, &in[i], err));
            continue;
        }
        if (!j && !(j = fr_cuda_job_new(c, d)))
            TRY(fr_no_memory(err, "a launch"));
        scratch = (struct fr_cuda_scratch){.at = in[i].scratch, .n_bytes = in[i].scratch ? in[i].scratch_bytes : 0};
        j->scratch = &scratch;
        TRY(fr_cuda_launch_instance(j, &in[i], err));
    }
out:
    fr_cuda_leave(d);
    fr_free(j);
    return st;
}
