/* jit/emit_scan.c -- running sums, products and extremes as CUDA C: a kernel `frit_scan` for an operation and a dtype, whose
 * argument is struct fr_cuda_scan (jit/emit_cuda.h).
 *
 * Element follows element, as NumPy's accumulate has it, so that the bits are NumPy's: a line is one thread's. A block brings a
 * tile of LINES lines into shared memory, walks each of them there and puts it back, then the next one of the same lines. */
#include <stdio.h>

#include "jit/emit_cuda.h"
#include "jit/emit_nest.h"

enum { LINES = FR_CUDA_LINES, LONG = 64, THREADS = FR_CUDA_THREADS };

/* Elements of the tile from memory, or back to it. Neighbours in memory go to neighbours. */
static void
write_moves(struct fr_writer *w, fr_dtype d, bool back)
{
    const char *name = back ? "to" : "from", *step = back ? "out_step" : "in_step", *lane = back ? "out_stride" : "in_stride";

    W("            for (int i = threadIdx.x; i < %d; i += %d) {\n"
      "                const bool along = g.n_axes > 0 && (g.%s < 0 ? -g.%s : g.%s) > (g.%s[g.n_axes - 1] < 0 ? -g.%s[g.n_axes - 1] : "
      "g.%s[g.n_axes - 1]);\n"
      "                const int l = along ? i %% %d : i / %d, k = along ? i / %d : i %% %d;\n\n"
      "                if (first + l >= g.n_lines || j + k >= g.length)\n                    continue;\n",
      LINES * LONG, THREADS, step, step, step, lane, lane, lane, LINES, LONG, LINES, LONG);
    for (int p = 0; p < fr_parts(d); p++)
        if (back)
            W("                AT(%s, %s[l], (j + k) * g.%s)[%d] = tile%d[l][k];\n", fr_part_memory_type(d), name, step, p, p);
        else
            W("                tile%d[l][k] = AT(const %s, %s[l], (j + k) * g.%s)[%d];\n", p, fr_part_memory_type(d), name, step, p);
    W("            }\n            __syncthreads();\n");
}

static void
write_scan(struct fr_writer *w, fr_op op, fr_dtype d)
{
    struct fr_names args[2] = {fr_names_make("", "m", 0, d), fr_names_make("", "x", 0, d)}, next = fr_names_make("", "n", 0, d);

    W("\nstruct scan_args {\n    const char *in;\n    char *out;\n    int64_t n_lines, length, in_step, out_step, n_axes;\n"
      "    int64_t dims[%d], in_stride[%d], out_stride[%d];\n};\n\n"
      "extern \"C\" __global__ void __launch_bounds__(%d)\nfrit_scan(const __grid_constant__ struct scan_args g)\n{\n"
      "    __shared__ const char *from[%d];\n    __shared__ char *to[%d];\n",
      FR_CUDA_SCAN_AXES, FR_CUDA_SCAN_AXES, FR_CUDA_SCAN_AXES, THREADS, LINES, LINES);
    for (int p = 0; p < fr_parts(d); p++)
        W("    __shared__ %s tile%d[%d][%d];\n    %s m0%s = 0;\n", fr_part_memory_type(d), p, LINES, LONG + 1, fr_part_type(d),
          fr_parts(d) == 1 ? "" : p ? "i" : "r");
    W("\n    for (int64_t first = (int64_t)blockIdx.x * %d; first < g.n_lines; first += (int64_t)gridDim.x * %d) {\n"
      "        if (threadIdx.x < %d) {\n            int64_t line = first + threadIdx.x;\n\n"
      "            from[threadIdx.x] = g.in;\n            to[threadIdx.x] = g.out;\n"
      "            for (int a = (int)g.n_axes - 1; a >= 0 && first + threadIdx.x < g.n_lines; a--) {\n"
      "                from[threadIdx.x] += line %% g.dims[a] * g.in_stride[a];\n"
      "                to[threadIdx.x] += line %% g.dims[a] * g.out_stride[a];\n                line /= g.dims[a];\n            }\n"
      "        }\n        __syncthreads();\n        for (int64_t j = 0; j < g.length; j += %d) {\n",
      LINES, LINES, LINES, LONG);
    write_moves(w, d, false);
    W("            for (int k = 0; threadIdx.x < %d && k < %d && j + k < g.length; k++) {\n", LINES, LONG);
    w->indent = "                ";
    for (int p = 0; p < fr_parts(d); p++)
        W("                const %s %s = tile%d[threadIdx.x][k]%s;\n", fr_part_type(d), args[1].s[p], p, d == FR_BOOL ? " != 0" : "");
    if (fr_op_info[op].combine == FR_OP_multiply && fr_dtype_is_complex(d))
        fr_write_plain_product(w, d, args, &next);
    else
        fr_write_op(w, fr_op_info[op].combine, d, args, &next, next.s[0]);
    for (int p = 0; p < fr_parts(d); p++)
        W("                %s = j + k == 0 ? %s : %s;\n                tile%d[threadIdx.x][k] = %s;\n", args[0].s[p], args[1].s[p], next.s[p], p,
          args[0].s[p]);
    W("            }\n            __syncthreads();\n");
    write_moves(w, d, true);
    W("        }\n    }\n}\n");
}

fr_status
fr_text_scan(struct fr_text *out, fr_op op, fr_dtype d, struct fr_err *err)
{
    const struct fr_nest none = {.n_stages = 1};
    struct fr_writer     w = {.nest = &none, .dialect = FR_DIALECT_CUDA, .indent = "", .row = "", .guard = "", .err = err};

    write_scan(&w, op, d);
    return fr_text_kernel(out, &w, fr_op_info[op].name, d);
}
