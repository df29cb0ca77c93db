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
 * Between columns of a tile there is a gap: whichever way a warp goes, its words are in different banks. A result may lie in the
 * memory of an operand that lies in the same way: a tile is loaded before it is stored. What counts within a tile is a constant
 * apart, so that an address costs an addition. */
#include "jit/emit_cuda.h"

#include <stdio.h>

#include "jit/emit_nest.h"

enum { EACH = FR_CUDA_TILE_ELEMS / FR_CUDA_THREADS,   /* elements of a thread */
       HELD = 24 };     /* bytes of an element's operands that wait in registers; of more there are too few */

static bool
is_turned(const struct fr_nest *nest, int k)
{
    return nest->operands[k].schedule & FR_SCHEDULE_TURNED;
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

/* Elements of a tile with its gaps: enough for either form. */
static int
tile_room(fr_dtype d)
{
    return 32 * pitch(part_size(d));
}

int
fr_cuda_tile_bytes(fr_dtype d)
{
    return tile_room(d) * fr_dtype_size(d);
}

void
fr_name_turned(const struct fr_writer *w, int k, int p, char *out, size_t cap)
{
    const fr_dtype d = w->nest->operands[k].dtype;
    const int      size = part_size(d);

    if (p)
        snprintf(out, cap, "t%d[%d + at%d]", k, p * tile_room(d), size);
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

/* Whether operand k is loaded, or stored, through registers: a turned one on its way to shared memory, or one that is held. */
static bool
goes(const struct fr_nest *nest, int k, bool turned, bool written)
{
    return is_written(nest, k) == written && (turned ? is_turned(nest, k) : holds(nest) && fr_cuda_is_vector(nest, k));
}

static bool
any_goes(const struct fr_nest *nest, bool turned, bool written)
{
    bool any = false;

    for (int k = 0; k < nest->n_operands; k++)
        any |= goes(nest, k, turned, written);
    return any;
}

/* ---- a thread's elements --------------------------------------------------------------------- */

/* Its first is at `line` and `column`, where others are TURNED_APART columns or APART lines apart. */
static void
begin_elements(struct fr_writer *w, bool turned)
{
    W("            {\n");
    if (turned)
        W("                const unsigned line = thread %% HIGH, column = thread / HIGH;\n\n");
    else
        W("                const unsigned line = threadIdx.y, column = threadIdx.x;\n\n");
}

static void
begin_loop(struct fr_writer *w, bool turned, bool unrolled)
{
    W("                #pragma unroll%s\n                for (int v = 0; v < %d; v++) {\n", unrolled ? "" : " 1", EACH);
    if (turned)
        W("                    const bool here = line < n_lines && column + v * TURNED_APART < n_columns;\n"
          "                    const unsigned to_column = column + v * TURNED_APART, to_line = line;\n");
    else
        W("                    const bool here = line + v * APART < n_lines && column < n_columns;\n"
          "                    const unsigned to_column = column, to_line = line + v * APART;\n");
    for (int size = 1; size <= 8; size *= 2)
        W("                    const unsigned at%d = to_column * (HIGH > 32 ? HIGH + %d : %d) + to_line;\n", size, size < 8 ? 4 : 2, pitch(size));
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
    W("                char *const a%d = ptr[%d] + (row0 + line) * row_stride[%d] + (j0 + column) * ", k, k, k);
    if (is_turned(w->nest, k))
        W("inner_stride[%d];\n", k);
    else
        W("%d;\n", fr_dtype_size(w->nest->operands[k].dtype));
}

static void
write_place(struct fr_writer *w, int k, int p)
{
    W("AT(%s%s, a%d, v * %s[%d])[%d]", is_written(w->nest, k) ? "" : "const ", fr_part_memory_type(w->nest->operands[k].dtype), k,
      is_turned(w->nest, k) ? "TURNED_APART * inner_stride" : "APART * row_stride", k, p);
}

/* The loop over what goes that way. */
static void
begin(struct fr_writer *w, bool turned, bool written)
{
    begin_elements(w, turned);
    for (int k = 0; k < w->nest->n_operands; k++)
        if (goes(w->nest, k, turned, written))
            write_first(w, k);
    begin_loop(w, turned, true);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

static void
declare_registers(struct fr_writer *w)
{
    for (int k = 0; k < w->nest->n_operands; k++) {
        const fr_dtype d = w->nest->operands[k].dtype;

        if (goes(w->nest, k, true, false) || goes(w->nest, k, false, false) || goes(w->nest, k, false, true))
            W("            struct { %s v[%d]; } q%d;\n", fr_part_memory_type(d), EACH * fr_parts(d), k);
    }
}

static void
write_loads(struct fr_writer *w, bool turned)
{
    if (!any_goes(w->nest, turned, false))
        return;
    begin(w, turned, false);
    for (int k = 0; k < w->nest->n_operands; k++) {
        const int parts = fr_parts(w->nest->operands[k].dtype);

        for (int p = 0; p < parts && goes(w->nest, k, turned, false); p++) {
            W("                    q%d.v[%d * v + %d] = here ? ", k, parts, p);
            write_place(w, k, p);
            W(" : (%s)0;\n", fr_part_memory_type(w->nest->operands[k].dtype));
        }
    }
    end_elements(w);
}

/* What has been loaded along the rows goes to shared memory. */
static void
write_turned(struct fr_writer *w)
{
    char there[40];

    if (!any_goes(w->nest, true, false))
        return;
    begin_elements(w, true);
    begin_loop(w, true, true);
    for (int k = 0; k < w->nest->n_operands; k++) {
        const int parts = fr_parts(w->nest->operands[k].dtype);

        for (int p = 0; p < parts && goes(w->nest, k, true, false); p++) {
            fr_name_turned(w, k, p, there, sizeof there);
            W("                    %s = q%d.v[%d * v + %d];\n", there, k, parts, p);
        }
    }
    end_elements(w);
    W("            __syncthreads();\n");
}

static void
write_compute(struct fr_writer *w)
{
    begin_elements(w, false);
    begin_loop(w, false, holds(w->nest));
    W("                    if (here) {\n"
      "                        const int64_t row = row0 + line + v * APART, j = j0 + column;\n\n                        (void)row, (void)j;\n");
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
write_stores(struct fr_writer *w, bool turned)
{
    char there[40];

    if (!any_goes(w->nest, turned, true))
        return;
    if (turned)
        W("            __syncthreads();\n");
    begin(w, turned, true);
    for (int k = 0; k < w->nest->n_operands; k++) {
        const int parts = fr_parts(w->nest->operands[k].dtype);

        for (int p = 0; p < parts && goes(w->nest, k, turned, true); p++) {
            W("                    if (here)\n                        ");
            write_place(w, k, p);
            fr_name_turned(w, k, p, there, sizeof there);
            if (turned)
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
    W("    enum { HIGH = %d / TILED, APART = %d / TILED, TURNED_APART = %d / HIGH };\n", FR_CUDA_TILE_ELEMS, FR_CUDA_THREADS, FR_CUDA_THREADS);
    for (int k = 0; k < w->nest->n_operands; k++)
        if (is_turned(w->nest, k))
            W("    __shared__ %s t%d[%d];\n", fr_part_memory_type(w->nest->operands[k].dtype), k,
              fr_cuda_tile_bytes(w->nest->operands[k].dtype) / part_size(w->nest->operands[k].dtype));
    /* (The grid has a block for each column of tiles: a loop less, in which nvrtc would keep an address for each element.) */
    W("    const unsigned thread = threadIdx.y * TILED + threadIdx.x;\n"
      "    const int64_t j0 = (int64_t)block_x * TILED;\n"
      "    const unsigned n_columns = n_inner - j0 < TILED ? n_inner - j0 : TILED;\n\n"
      "    for (int64_t o = block_z; o < g.n_shared_indices; o += grid_z) {\n");
    for (int k = 0; k < w->nest->n_operands; k++)
        W("        ptr[%d] = OUTER ? at_outer(g, %d, o, 0) : g.ptr[%d];\n", k, k, k);
    W("        for (int64_t row0 = (int64_t)block_y * HIGH; row0 < g.n_rows; row0 += (int64_t)grid_y * HIGH) {\n"
      "            const unsigned n_lines = g.n_rows - row0 < HIGH ? g.n_rows - row0 : HIGH;\n");
    declare_registers(w);
    W("\n");
    write_loads(w, true);
    write_loads(w, false);
    write_turned(w);
    write_compute(w);
    write_stores(w, false);
    write_stores(w, true);
    W("            __syncthreads();\n        }\n    }\n");
}
