/* jit/emit_tile.c -- maps whose operands lie in different orders: the form of their CUDA kernels that is compiled with TILED=32, or
 * with TILED=8, for short rows.
 *
 * The nest says which operands are turned (FR_SCHEDULE_TURNED): their elements lie side by side along the rows. A block takes a
 * tile of 1024 elements at a time, of so many columns. A warp walks turned operands along the rows, and all others along the inner
 * axis, so that it finds its elements side by side in either:
 *
 *     global -- along the rows --> shared        turned loads, and meanwhile all others into registers
 *     shared -- along the inner axis --> computed --> shared, or registers
 *     shared -- along the rows --> global        turned stores, and all others
 *
 * Where some operand lies along a third axis (FR_SCHEDULE_TURNED_DEEP), the last outer one, a tile has 8 columns of 8 rows at 16 of
 * its indices, and a line of it is a row at one of these: nobody takes fewer than 8 elements that lie side by side.
 *
 * Between columns of a tile there is a gap: whichever way a warp goes, its words are in different banks. A result may lie in the
 * memory of an operand that lies in the same way: a tile is loaded before it is stored. What counts within a tile is a constant
 * apart, so that an address costs an addition. */
#include "jit/emit_cuda.h"

#include <stdio.h>

#include "jit/emit_nest.h"

enum { EACH = FR_CUDA_TILE_ELEMS / FR_CUDA_THREADS,   /* elements of a thread */
       HELD = 24 };     /* bytes of an element's operands that wait in registers; of more there are too few */

/* How a warp walks an operand: along the inner axis, along the rows, along the last outer axis. */
enum way { ALONG, TURNED, DEEP };

static bool
is_turned(const struct fr_nest *nest, int k)
{
    return nest->operands[k].schedule & FR_SCHEDULE_TURNED_ANY;
}

static bool
is_written(const struct fr_nest *nest, int k)
{
    return nest->operands[k].flags & FR_OPERAND_WRITTEN;
}

static int
part_size(fr_dtype d)
{
    return fr_dtype_size(d) / fr_parts(d);
}

/* From one column of 32 elements to the next there are 33 words; of small elements those of a word are neighbours along the rows. (Of a
 * tile with few columns a warp has four lines, or two of wide elements at a time.) */
static int
pitch(int size)
{
    return 32 + (size < 4 ? 4 / size : 1);
}

/* A column of one with three axes has gaps of its own: what a warp takes of it along the third axis is 8 lines apart. */
static int
deep_pitch(int size)
{
    return size < 8 ? 164 : 146;
}

/* Elements of a tile with its gaps: enough for either form. */
static int
tile_room(fr_dtype d, bool deep)
{
    return deep ? FR_CUDA_TILE_NARROW * deep_pitch(part_size(d)) : 32 * pitch(part_size(d));
}

int
fr_cuda_tile_bytes(fr_dtype d, bool deep)
{
    return tile_room(d, deep) * fr_dtype_size(d);
}

void
fr_name_turned(const struct fr_writer *w, int k, int p, char *out, size_t cap)
{
    const fr_dtype d = w->nest->operands[k].dtype;
    const int      size = part_size(d);

    if (p)
        snprintf(out, cap, "t%d[%d + at%d]", k, p * tile_room(d, fr_cuda_has_deep_tiles(w->nest)), size);
    else
        snprintf(out, cap, "t%d[at%d]", k, size);
}

/* Whether operands that lie along the inner axis are loaded into registers while turned ones are, and stored from there. */
static bool
holds(const struct fr_nest *nest)
{
    int n = 0;

    for (int k = 0; k < nest->n_operands; k++)
        n += fr_cuda_is_vector(nest, k) || is_turned(nest, k) ? fr_dtype_size(nest->operands[k].dtype) : 0;
    return n <= HELD;
}

/* Whether operand k is loaded, or stored, through registers that way: turned on its way to shared memory, or held. */
static bool
goes(const struct fr_nest *nest, int k, enum way way, bool written)
{
    return is_written(nest, k) == written &&
           (way == TURNED ? nest->operands[k].schedule == FR_SCHEDULE_TURNED
            : way == DEEP ? nest->operands[k].schedule == FR_SCHEDULE_TURNED_DEEP
                          : holds(nest) && fr_cuda_is_vector(nest, k));
}

static bool
any_goes(const struct fr_nest *nest, enum way way, bool written)
{
    bool any = false;

    for (int k = 0; k < nest->n_operands; k++)
        any |= goes(nest, k, way, written);
    return any;
}

/* ---- a thread's elements --------------------------------------------------------------------- */

/* Its first is at `line` and `column`, where others are TURNED_APART columns or APART lines apart. */
static void
begin_elements(struct fr_writer *w, enum way way)
{
    W("            {\n");
    if (way == DEEP)
        W("                const unsigned line = thread %% DEEP * LOW + thread %% HIGH / DEEP, column = thread / HIGH;\n\n");
    else if (way == TURNED)
        W("                const unsigned line = thread %% HIGH, column = thread / HIGH;\n\n");
    else
        W("                const unsigned line = threadIdx.y, column = threadIdx.x;\n\n");
}

static void
begin_loop(struct fr_writer *w, enum way way, bool unrolled)
{
    const bool deep = fr_cuda_has_deep_tiles(w->nest);

    W("                #pragma unroll%s\n                for (int v = 0; v < %d; v++) {\n", unrolled ? "" : " 1", EACH);
    if (way == ALONG)
        W("                    const unsigned to_column = column, to_line = line + v * APART;\n");
    else
        W("                    const unsigned to_column = column + v * TURNED_APART, to_line = line;\n");
    W("                    const bool here = %s < n_lines && to_column < n_columns;\n",
      deep ? "to_line % LOW < n_low && to_line / LOW" : "to_line");
    for (int size = 1; size <= 8; size *= 2) {
        if (deep && size < 8)
            W("                    const unsigned at%d = to_column * %d + to_line + to_line / 32 * 2;\n", size, deep_pitch(size));
        else if (deep)
            W("                    const unsigned at%d = to_column * %d + to_line + to_line / 16;\n", size, deep_pitch(size));
        else
            W("                    const unsigned at%d = to_column * (HIGH > 32 ? HIGH + %d : %d) + to_line;\n", size, size < 8 ? 4 : 2,
              pitch(size));
    }
    W("                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;\n");
}

static void
end_elements(struct fr_writer *w)
{
    W("                }\n            }\n");
}

/* Where the first one of operand k is; and part p of element v. */
static void
write_first(struct fr_writer *w, int k)
{
    W("                char *const a%d = ptr[%d] + ", k, k);
    if (fr_cuda_has_deep_tiles(w->nest))
        W("(row0 + line %% LOW) * row_stride[%d] + (deep0 + line / LOW) * g.outer_stride[%d][g.n_outer] + (j0 + column) * ", k, k);
    else
        W("(row0 + line) * row_stride[%d] + (j0 + column) * ", k);
    if (is_turned(w->nest, k))
        W("inner_stride[%d];\n", k);
    else
        W("%d;\n", fr_dtype_size(w->nest->operands[k].dtype));
}

static void
write_place(struct fr_writer *w, int k, int p)
{
    W("AT(%s%s, a%d, v * ", is_written(w->nest, k) ? "" : "const ", fr_part_memory_type(w->nest->operands[k].dtype), k);
    if (is_turned(w->nest, k))
        W("TURNED_APART * inner_stride[%d])[%d]", k, p);
    else if (fr_cuda_has_deep_tiles(w->nest))
        W("(APART / LOW) * g.outer_stride[%d][g.n_outer])[%d]", k, p);
    else
        W("APART * row_stride[%d])[%d]", k, p);
}

/* The loop over what goes that way. */
static void
begin(struct fr_writer *w, enum way way, bool written)
{
    begin_elements(w, way);
    for (int k = 0; k < w->nest->n_operands; k++)
        if (goes(w->nest, k, way, written))
            write_first(w, k);
    begin_loop(w, way, true);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

static void
declare_registers(struct fr_writer *w)
{
    for (int k = 0; k < w->nest->n_operands; k++) {
        const fr_dtype d = w->nest->operands[k].dtype;

        if ((is_turned(w->nest, k) && !is_written(w->nest, k)) || goes(w->nest, k, ALONG, is_written(w->nest, k)))
            W("            struct { %s v[%d]; } q%d;\n", fr_part_memory_type(d), EACH * fr_parts(d), k);
    }
}

static void
write_loads(struct fr_writer *w, enum way way)
{
    if (!any_goes(w->nest, way, false))
        return;
    begin(w, way, false);
    for (int k = 0; k < w->nest->n_operands; k++) {
        const int parts = fr_parts(w->nest->operands[k].dtype);

        for (int p = 0; p < parts && goes(w->nest, k, way, false); p++) {
            W("                    q%d.v[%d * v + %d] = here ? ", k, parts, p);
            write_place(w, k, p);
            W(" : (%s)0;\n", fr_part_memory_type(w->nest->operands[k].dtype));
        }
    }
    end_elements(w);
}

/* What has been loaded along the rows goes to shared memory. */
static void
write_turned(struct fr_writer *w, enum way way)
{
    char there[40];

    if (!any_goes(w->nest, way, false))
        return;
    begin_elements(w, way);
    begin_loop(w, way, true);
    for (int k = 0; k < w->nest->n_operands; k++) {
        const int parts = fr_parts(w->nest->operands[k].dtype);

        for (int p = 0; p < parts && goes(w->nest, k, way, false); p++) {
            fr_name_turned(w, k, p, there, sizeof there);
            W("                    %s = q%d.v[%d * v + %d];\n", there, k, parts, p);
        }
    }
    end_elements(w);
}

static void
write_compute(struct fr_writer *w)
{
    begin_elements(w, ALONG);
    begin_loop(w, ALONG, holds(w->nest));
    W("                    if (here) {\n");
    if (fr_cuda_has_deep_tiles(w->nest))
        W("                        const int64_t row = row0 + to_line %% LOW, deep = deep0 + to_line / LOW, j = j0 + column;\n\n"
          "                        (void)row, (void)deep, (void)j;\n");
    else
        W("                        const int64_t row = row0 + to_line, j = j0 + column;\n\n                        (void)row, (void)j;\n");
    w->indent = "                        ";
    w->guard = "if (j == 0) ";
    w->tile = true;
    w->vector = holds(w->nest);
    fr_write_operands(w, true, "row");
    fr_write_row(w, 0);
    fr_write_body(w);
    fr_write_row(w, 1);
    w->vector = w->tile = false;
    W("                    }\n");
    end_elements(w);
}

static void
write_stores(struct fr_writer *w, enum way way)
{
    char there[40];

    if (!any_goes(w->nest, way, true))
        return;
    begin(w, way, true);
    for (int k = 0; k < w->nest->n_operands; k++) {
        const int parts = fr_parts(w->nest->operands[k].dtype);

        for (int p = 0; p < parts && goes(w->nest, k, way, true); p++) {
            W("                    if (here)\n                        ");
            write_place(w, k, p);
            fr_name_turned(w, k, p, there, sizeof there);
            if (way != ALONG)
                W(" = %s;\n", there);
            else
                W(" = q%d.v[%d * v + %d];\n", k, parts, p);
        }
    }
    end_elements(w);
}

void
fr_write_tiles(struct fr_writer *w)
{
    const bool deep = fr_cuda_has_deep_tiles(w->nest);

    W("    enum { HIGH = %d / TILED, APART = %d / TILED, TURNED_APART = %d / HIGH };\n", FR_CUDA_TILE_ELEMS, FR_CUDA_THREADS,
      FR_CUDA_THREADS);
    if (deep)
        W("    enum { LOW = %d, DEEP = %d };\n", FR_CUDA_TILE_LOW, FR_CUDA_TILE_DEEP);
    for (int k = 0; k < w->nest->n_operands; k++)
        if (is_turned(w->nest, k))
            W("    __shared__ %s t%d[%d];\n", fr_part_memory_type(w->nest->operands[k].dtype), k,
              fr_cuda_tile_bytes(w->nest->operands[k].dtype, deep) / part_size(w->nest->operands[k].dtype));
    /* (The grid has a block for each column of tiles: a loop less, in which nvrtc would keep an address for each element.) */
    W("    const unsigned thread = threadIdx.y * TILED + threadIdx.x;\n"
      "    const int64_t j0 = (int64_t)block_x * TILED;\n"
      "    const unsigned n_columns = n_inner - j0 < TILED ? n_inner - j0 : TILED;\n\n"
      "    for (int64_t o = OUTER ? block_z : 0; o < N_SHARED; o += OUTER ? grid_z : 1) {\n");
    W("        seek(g, ptr, o, 0);\n");
    if (deep)
        W("        const int64_t all_deep = g.outer[g.n_outer];\n"
          "        const unsigned n_across = (unsigned)((g.n_rows + LOW - 1) / LOW);\n"
          "        const unsigned n_tiles = n_across * (unsigned)((all_deep + DEEP - 1) / DEEP);\n\n"
          "        for (unsigned tile = block_y; tile < n_tiles; tile += grid_y) {\n"
          "            const int64_t row0 = (int64_t)(tile %% n_across) * LOW, deep0 = (int64_t)(tile / n_across) * DEEP;\n"
          "            const unsigned n_low = g.n_rows - row0 < LOW ? g.n_rows - row0 : LOW;\n"
          "            const unsigned n_lines = all_deep - deep0 < DEEP ? all_deep - deep0 : DEEP;\n");
    else
        W("        for (int64_t row0 = (int64_t)block_y * HIGH; row0 < g.n_rows; row0 += (int64_t)grid_y * HIGH) {\n"
          "            const unsigned n_lines = g.n_rows - row0 < HIGH ? g.n_rows - row0 : HIGH;\n");
    declare_registers(w);
    W("\n");
    for (int way = DEEP; way >= ALONG; way--)
        write_loads(w, (enum way)way);
    for (int way = DEEP; way > ALONG; way--)
        write_turned(w, (enum way)way);
    if (any_goes(w->nest, TURNED, false) || any_goes(w->nest, DEEP, false))
        W("            __syncthreads();\n");
    write_compute(w);
    write_stores(w, ALONG);
    if (any_goes(w->nest, TURNED, true) || any_goes(w->nest, DEEP, true))
        W("            __syncthreads();\n");
    write_stores(w, TURNED);
    write_stores(w, DEEP);
    W("            __syncthreads();\n        }\n    }\n");
}
