/* backends/cuda/split.c -- few outputs of much: many blocks share a row or a column (jit/emit_split.c has the kernels).
 *
 * Shapes alone decide how, never the device, so results are the same on every GPU. Sums of rows have NumPy's bits in any number
 * of pieces. Sums of columns have them only while one thread adds a column up: csrc/NUMERICS.md names the shapes that have a
 * tree of their own instead. */
#include "backends/cuda/job.h"

#include "base/ways.h"

enum { LONG_ROW = 16384,           /* elements; a block has read fewer before a second launch begins */
       PIECES = 2048,              /* of all rows: as many blocks as the largest devices run at a time */
       EACH = 32,                  /* a piece has so many times more elements than its row has pieces: all of them read those */
       FEW_COLUMNS = 4096, MANY_ROWS = 4096,                /* where the order of rows matters, and where it does not */
       EXACT_COLUMNS = 65536, EXACT_ROWS = 256,
       SOME_COLUMNS = 65536, SOME_ROWS = 64,                /* where a thread for each column leaves much of a device idle */
       WIDE = 32,                  /* columns of a block: its warps read whole lines of memory */
       LINE_ROWS = 16, BLOCKS = 1024 };

/* ---- rows ------------------------------------------------------------------------------------ */

/* A power of 2. */
static int64_t
n_pieces(const struct fr_cuda_job *j)
{
    const int64_t n = j->n_inner, n_rows = j->n_rows * fr_cuda_kept_indices(j);
    int64_t       pieces = 1;

    if (n < LONG_ROW || n_rows < 1)
        return 1;
    while (pieces < FR_CUDA_PIECES && n_rows <= PIECES / (2 * pieces) && 4 * pieces * pieces <= n / EACH)
        pieces *= 2;
    return pieces;
}

static fr_status
launch_rows(struct fr_cuda_job *j, fr_cuda_function f, struct fr_err *err)
{
    const struct fr_nest *nest = j->kernel->k.nest;
    const int64_t         n_rows = j->n_rows * fr_cuda_kept_indices(j), pieces = n_pieces(j);
    const size_t          n_bytes = (size_t)(n_rows * pieces) * fr_cuda_piece_bytes(nest);
    struct fr_cuda_given  given = {.n_pieces = pieces};
    fr_status             st = fr_cuda_scratch_get(j, n_bytes, "the pieces of rows", &given.scratch, err);

    for (; given.phase <= nest->n_stages && st == FR_OK; given.phase++) {
        const int64_t       n = given.phase < nest->n_stages ? n_rows * pieces : n_rows;
        struct fr_cuda_grid g = {1, 1, 1, FR_CUDA_THREADS, 1};

        if (!fr_cuda_has_phase(nest, (int)given.phase))
            continue;
        g.x = fr_cuda_blocks(n, 1, (int64_t)j->device->n_multiprocessors * FR_CUDA_BLOCKS_EACH);
        st = fr_cuda_fill_and_start(j, f, &g, &given, err);
    }
    fr_cuda_scratch_end(j, given.scratch, n_bytes);
    return st;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* The threads of a block, 32 columns or the least power of 2 that has them all, and how many blocks a column has. */
static struct fr_cuda_grid
tree_grid(int64_t n_columns, int64_t n_rows)
{
    struct fr_cuda_grid g = {1, 1, 1, 1, FR_CUDA_THREADS};
    int64_t             most;

    while (g.block_x < WIDE && (int64_t)g.block_x < n_columns) {
        g.block_x *= 2;
        g.block_y /= 2;
    }
    most = BLOCKS / fr_cuda_blocks(n_columns, g.block_x, FR_CUDA_GRID_X);
    g.y = fr_cuda_blocks(n_rows / ((int64_t)g.block_y * LINE_ROWS), 1, most > 1 ? most : 1);
    return g;
}

int64_t
fr_cuda_tree_lines(int64_t n_columns, int64_t n_rows)
{
    const struct fr_cuda_grid g = tree_grid(n_columns, n_rows);

    if (n_columns < 1 || n_columns >= FEW_COLUMNS || n_rows < MANY_ROWS || fr_is_off(FR_OFF_device_trees))
        return 0;
    return (int64_t)g.y * g.block_y;
}

static bool
columns_are_few(const struct fr_cuda_job *j)
{
    if (j->joins)
        return true;
    if (j->kernel->rounds)
        return !j->in_order && fr_cuda_tree_lines(j->n_columns, j->n_column_rows) > 0;
    return j->n_columns > 0 && j->n_columns < EXACT_COLUMNS && j->n_rows * fr_cuda_walked_indices(j) >= EXACT_ROWS;
}

static struct fr_cuda_grid
choose_grid(const struct fr_cuda_job *j)
{
    struct fr_cuda_grid g = tree_grid(j->n_columns, j->n_column_rows);

    if (j->joins || !fr_cuda_wants_split(j))
        g.y = 1;
    g.x = fr_cuda_blocks(j->n_inner * fr_cuda_kept_indices(j), g.block_x, FR_CUDA_GRID_X);
    return g;
}

/* Of n elements for each column. */
static size_t
part_bytes(const struct fr_cuda_job *j, int64_t n, const struct fr_inst *in)
{
    return ((size_t)(n * fr_cuda_kept_indices(j) * j->n_inner) * (size_t)fr_dtype_size(in->dtype) + 15) / 16 * 16;
}

static struct fr_cuda_rows
parts_of(const struct fr_cuda_job *j, const struct fr_cuda_grid *g, const struct fr_inst *in)
{
    return (struct fr_cuda_rows){.operand = in->operand, .op = (fr_op)in->op, .dtype = in->dtype, .n_rows = g->y, .n = j->n_inner,
                                 .n_columns = j->n_columns, .n_column_rows = g->y, .begun = j->begun[in->operand], .joins = true};
}

static fr_status
launch_columns(struct fr_cuda_job *j, fr_cuda_function f, struct fr_err *err)
{
    const struct fr_nest     *nest = j->kernel->k.nest;
    const struct fr_cuda_grid g = choose_grid(j);
    const int64_t             n_lines = j->phase ? (int64_t)g.y * g.block_y : 0, n_parts = g.y > 1 ? g.y : 0;
    struct fr_cuda_given      given = {.phase = j->phase, .n_before = j->n_before};
    size_t                    n_bytes = 0, at = 0;
    fr_status                 st;

    for (uint32_t i = 0; i < nest->n_insts && !j->phase; i++)
        if (nest->insts[i].kind == FR_INST_ACCUM)
            n_bytes += part_bytes(j, n_parts, &nest->insts[i]);
    if ((st = fr_cuda_scratch_get(j, n_bytes, "parts of columns", &given.scratch, err)) != FR_OK)
        return st;
    if (j->phase)
        given.scratch = j->lines;
    j->is_tree = j->kernel->rounds && !j->joins && fr_cuda_wants_split(j);
    st = fr_cuda_fill_and_start(j, f, &g, &given, err);
    j->is_tree = false;
    for (uint32_t i = 0; i < nest->n_insts && n_parts && !(j->phase & 2) && st == FR_OK; i++) {
        const struct fr_inst *in = &nest->insts[i];
        struct fr_cuda_rows   rows;

        if (in->kind != FR_INST_ACCUM)
            continue;
        rows = parts_of(j, &g, in);
        rows.scratch = given.scratch + at + part_bytes(j, n_lines, in);
        st = fr_cuda_fold(&rows, j, err);
        at += part_bytes(j, n_lines, in) + part_bytes(j, n_parts, in);
    }
    fr_cuda_scratch_end(j, n_bytes ? given.scratch : NULL, n_bytes);
    return st;
}

/* ---- the way in ------------------------------------------------------------------------------ */

bool
fr_cuda_wants_split(const struct fr_cuda_job *j)
{
    if (!j->kernel->splits)
        return false;
    return j->kernel->has_stages ? n_pieces(j) >= 4 : columns_are_few(j);
}

bool
fr_cuda_wants_lines(const struct fr_cuda_job *j)
{
    return j->kernel->has_lines && j->n_columns > 0 && j->n_columns < SOME_COLUMNS &&
           j->n_rows * fr_cuda_walked_indices(j) >= SOME_ROWS;
}

fr_status
fr_cuda_launch_split(struct fr_cuda_job *j, fr_cuda_function f, struct fr_err *err)
{
    return j->kernel->has_stages ? launch_rows(j, f, err) : launch_columns(j, f, err);
}
