/* jit/emit_product.c -- products of matrices as CUDA C: a kernel `frit_product` for one dtype, whose argument is struct
 * fr_cuda_product (jit/emit_cuda.h).
 *
 * A block of 256 threads has a tile of TILE x TILE elements of the result, each thread FR_CUDA_TILE * FR_CUDA_TILE / 256 of them,
 * some rows apart; it goes along the inner axis in steps of DEEP, whose elements of both operands it brings into shared memory
 * first. Elements are added one after the other, from 0, each product rounded; halves as f32, rounded once. */
#include <stdio.h>

#include "jit/emit_cuda.h"
#include "jit/emit_nest.h"

enum { TILE = FR_CUDA_TILE, DEEP = 16, THREADS = FR_CUDA_THREADS, EACH = TILE * TILE / THREADS, APART = THREADS / TILE };

/* Brings DEEP columns of a, or rows of b, into as0 or bs0 (and as1, bs1: imaginary parts). Neighbours in memory go to neighbours. */
static void
write_fetch(struct fr_writer *w, fr_dtype d, char of)
{
    const bool a = of == 'a';

    W("        for (int i = threadIdx.x; i < %d; i += %d) {\n"
      "            const bool along = g.%c_k > g.%c_%c;\n"
      "            const int x = along ? i %% %d : i / %d, k = along ? i / %d : i %% %d;\n"
      "            const int64_t at = first_%c + x, to = k0 + k;\n"
      "            const bool is = at < g.%c && to < g.k;\n",
      TILE * DEEP, THREADS, of, of, a ? 'm' : 'n', TILE, DEEP, TILE, DEEP, a ? 'm' : 'n', a ? 'm' : 'n');
    for (int p = 0; p < fr_parts(d); p++)
        W("            %cs%d[k][x] = is ? AT(const %s, %c, at * g.%c_%c + to * g.%c_k)[%d]%s : 0;\n", of, p, fr_part_memory_type(d), of, of,
          a ? 'm' : 'n', of, p, d == FR_BOOL ? " != 0" : "");
    W("        }\n");
}

static void
write_step(struct fr_writer *w, fr_dtype d, fr_dtype sums)
{
    struct fr_names in[2], wide[2], product, sum[2], total;

    for (int k = 0; k < 2; k++) {
        in[k] = fr_names_make("", k ? "y" : "x", 0, d);
        wide[k] = fr_names_make("", k ? "v" : "u", 0, sums);
        for (int p = 0; p < fr_parts(d); p++)
            W("                const %s %s = %cs%d[k]%s;\n", fr_part_type(d), in[k].s[p], k ? 'b' : 'a', p,
              k ? "[column]" : "[row + e * APART]");
        if (d != sums)
            fr_write_cast(w, d, sums, &in[k], &wide[k], wide[k].s[0]);
        else
            wide[k] = in[k];
    }
    product = fr_names_make("", "z", 0, sums);
    if (fr_dtype_is_complex(d))
        fr_write_plain_product(w, sums, wide, &product);
    else
        fr_write_op(w, FR_OP_multiply, sums, wide, &product, product.s[0]);
    sum[0] = fr_names_make("", "s", 0, sums);
    for (int p = 0; p < fr_parts(d); p++)
        W("                const %s %s = c%d[e];\n", fr_part_type(sums), sum[0].s[p], p);
    sum[1] = product;
    total = fr_names_make("", "t", 0, sums);
    fr_write_op(w, FR_OP_add, sums, sum, &total, total.s[0]);
    for (int p = 0; p < fr_parts(d); p++)
        W("                c%d[e] = %s;\n", p, total.s[p]);
}

static void
write_results(struct fr_writer *w, fr_dtype d, fr_dtype sums)
{
    struct fr_names total = fr_names_make("", "t", 0, sums), result = fr_names_make("", "r", 0, d);

    W("    for (int e = 0; e < %d; e++) {\n        const int64_t i = first_m + row + e * APART, j = first_n + column;\n\n"
      "        if (i >= g.m || j >= g.n)\n            continue;\n", EACH);
    w->indent = "        ";
    for (int p = 0; p < fr_parts(d); p++)
        W("        const %s %s = c%d[e];\n", fr_part_type(sums), total.s[p], p);
    if (d != sums)
        fr_write_cast(w, sums, d, &total, &result, result.s[0]);
    else
        result = total;
    for (int p = 0; p < fr_parts(d); p++)
        W("        AT(%s, out, i * g.out_m + j * g.out_n)[%d] = %s;\n", fr_part_memory_type(d), p, result.s[p]);
    W("    }\n");
}

static void
write_product(struct fr_writer *w, fr_dtype d)
{
    const fr_dtype sums = d == FR_F16 ? FR_F32 : d;

    W("\nstruct product_args {\n    const char *a, *b;\n    char *out;\n    int64_t a_next, b_next, out_next, m, k, n;\n"
      "    int64_t a_m, a_k, b_k, b_n, out_m, out_n;\n};\n#define APART %d\n\n"
      "extern \"C\" __global__ void __launch_bounds__(%d)\nfrit_product(const __grid_constant__ struct product_args g)\n{\n",
      APART, THREADS);
    for (int p = 0; p < fr_parts(d); p++)
        W("    __shared__ %s as%d[%d][%d], bs%d[%d][%d];\n    %s c%d[%d];\n", fr_part_memory_type(d), p, DEEP, TILE + 1, p, DEEP, TILE + 1,
          fr_part_type(sums), p, EACH);
    W("    const char *const a = g.a + blockIdx.z * g.a_next, *const b = g.b + blockIdx.z * g.b_next;\n"
      "    char *const out = g.out + blockIdx.z * g.out_next;\n"
      "    const int64_t first_m = (int64_t)blockIdx.y * %d, first_n = (int64_t)blockIdx.x * %d;\n"
      "    const int row = threadIdx.x / %d, column = threadIdx.x %% %d;\n\n    for (int e = 0; e < %d; e++) {\n",
      TILE, TILE, TILE, TILE, EACH);
    for (int p = 0; p < fr_parts(d); p++)
        W("        c%d[e] = 0;\n", p);
    W("    }\n    for (int64_t k0 = 0; k0 < g.k; k0 += %d) {\n", DEEP);
    write_fetch(w, d, 'a');
    write_fetch(w, d, 'b');
    W("        __syncthreads();\n        for (int k = 0; k < (g.k - k0 < %d ? (int)(g.k - k0) : %d); k++) {\n"
      "            #pragma unroll\n            for (int e = 0; e < %d; e++) {\n", DEEP, DEEP, EACH);
    w->indent = "                ";
    write_step(w, d, sums);
    W("            }\n        }\n        __syncthreads();\n    }\n");
    write_results(w, d, sums);
    W("}\n");
}

fr_status
fr_text_product(struct fr_text *out, fr_dtype d, struct fr_err *err)
{
    const struct fr_nest none = {.n_stages = 1};
    struct fr_writer     w = {.nest = &none, .dialect = FR_DIALECT_CUDA, .indent = "", .row = "", .guard = "", .err = err};

    write_product(&w, d);
    return fr_text_kernel(out, &w, "matmul", d);
}
