/* jit/emit_split.c -- few outputs of much: forms of CUDA kernels, compiled with SPLIT=1, in which many blocks share one.
 *
 *     rows      A row is cut at nodes of the tree of its sums into n_pieces, a power of 2. Each stage is a launch, a phase: blocks
 *               take pieces, and put what becomes of them (sums, extremes, places) into scratch. In later phases every block
 *               joins those of its row, in the order of the tree, and goes on with the next stage; so sums have the bits of a row
 *               in one piece. Values of whole rows are stored in the last phase, when nobody reads what they may lie over.
 *     columns   The block's threads are blockDim.x columns by blockDim.y lines, and with those of the grid's y there are `lines` of
 *               them in all. A line takes each lines-th row, in order, from the identity on. Lines of a block are joined in halves,
 *               the upper half into the lower; the blocks of a column leave theirs in scratch, rows for a kernel that folds
 *               them likewise, in one block. Rows that come by and by are several launches: lines go on from what the last
 *               has left (phase & 1), and are left for the next (phase & 2).
 *
 *         rows 0 4 8 ..   1 5 9 ..   2 6 10 ..   3 7 11 ..
 *                  \          \         /           /           line 0 + line 2, line 1 + line 3,
 *                   `----------`-------'-----------'            then those two
 *
 *     lines     (SPLIT=2) Columns again, in the order of their rows: all lines of a block but the first compute what accumulates in
 *               a tile of rows, and the first adds up what they have left in shared memory of the tile before. */
#include <stdio.h>

#include "jit/emit_cuda.h"
#include "jit/emit_nest.h"

enum { WARPS = FR_CUDA_THREADS / 32, TILE_BYTES = 16 << 10 /* of values that wait, of which there are two */ };

bool
fr_cuda_splits(const struct fr_nest *nest)
{
    if (!fr_nest_has_stages(nest))
        return fr_nest_accumulates(nest);
    for (uint32_t i = 0; i < nest->n_insts; i++)
        if (fr_reduce_is_ordered(&nest->insts[i]))
            return false;
    return !fr_nest_accumulates(nest) && fr_nest_scratch(nest) == 0;
}

bool
fr_cuda_has_phase(const struct fr_nest *nest, int phase)
{
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        if (phase == nest->n_stages ? in->kind == FR_INST_STORE && in->level != FR_LEVEL_FULL
                                    : (in->kind == FR_INST_REDUCE && in->stage == phase + 1) ||
                                          (in->kind == FR_INST_STORE && in->level == FR_LEVEL_FULL && in->stage == phase))
            return true;
    }
    return false;
}

/* At least the size of the struct of those reductions: each part of a value and each place has 8 bytes or less. */
static size_t
parts_size(const struct fr_nest *nest, const uint8_t *roots, bool sums)
{
    size_t n = 0;

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        if (in->kind == FR_INST_REDUCE && (!roots || roots[i]) && fr_reduce_is_sum(in) == sums)
            n += 8 * (size_t)(fr_parts(fr_reduce_dtype(nest, in)) + fr_op_finds_index(in->op));
    }
    return n;
}

size_t
fr_cuda_piece_bytes(const struct fr_nest *nest)
{
    return parts_size(nest, NULL, true) + parts_size(nest, NULL, false);
}

void
fr_write_pieces(struct fr_writer *w, const struct fr_pass *pass)
{
    const char *tag = pass->tag;

    W("\n#if SPLIT\n/* How many elements a piece of n has, and the first: a node of the tree. */\n"
      "static __device__ inline int64_t\npiece_%s(int64_t n, int64_t piece, int64_t n_pieces, int64_t *j)\n{\n    *j = 0;\n"
      "    #pragma unroll 1\n    for (int64_t bit = n_pieces / 2; bit > 0; bit /= 2) {\n        const int64_t half = %s;\n\n"
      "        if (piece & bit) {\n            *j += half;\n            n -= half;\n        } else {\n            n = half;\n        }\n"
      "    }\n    return n;\n}\n",
      tag, pass->complex_tree ? "(n - n % 8) / 2" : "n / 2 - n / 2 % 8");
    if (pass->has_sums) {
        W("\n/* Sums of a row from those of its n pieces, in the order of the tree: each thread gets them. */\n"
          "static __device__ inline struct sums_%s\njoined_%s(const struct sums_%s *part, int64_t n)\n{\n"
          "    __shared__ struct sums_%s all[%d];\n    const int64_t each = n > %d ? n / %d : 1, first = threadIdx.x * each;\n"
          "    struct sums_%s t = zero_%s(), left[%d], o;\n\n",
          tag, tag, tag, tag, WARPS, FR_CUDA_THREADS, FR_CUDA_THREADS, tag, tag, FR_CUDA_PIECES / FR_CUDA_THREADS);
        W("    for (int k = 0; k < each && first < n; k++) {\n        int depth = 0;\n\n        t = part[first + k];\n"
          "        for (; k >> depth & 1; depth++)\n            t = add_%s(left[depth], t);\n        left[depth] = t;\n    }\n", tag);
        W("    for (int k = 1; k < 32 && k < n; k *= 2) {\n        o = shuffle_sums_%s(t, 0xffffffffu, k);\n"
          "        t = threadIdx.x & k ? add_%s(o, t) : add_%s(t, o);\n    }\n"
          "    if (threadIdx.x %% 32 == 0)\n        all[threadIdx.x / 32] = t;\n    SYNC();\n",
          tag, tag, tag);
        W("    #pragma unroll 1\n    for (int k = 1; k < %d && 32 * k < n; k *= 2) {\n"
          "        if (threadIdx.x %% (64 * k) == 0)\n"
          "            all[threadIdx.x / 32] = add_%s(all[threadIdx.x / 32], all[threadIdx.x / 32 + k]);\n        SYNC();\n    }\n"
          "    t = all[0];\n    SYNC();\n    return t;\n}\n",
          WARPS, tag);
    }
    W("#endif\n");
}

void
fr_write_piece_walk(struct fr_writer *w, const struct fr_pass *pass, size_t *at)
{
    const char *tag = pass->tag;
    char        accs[16] = "";

    if (pass->has_accs)
        snprintf(accs, sizeof accs, ", &a%s", tag);
    if (pass->has_sums)
        W("        struct sums_%s *const st%s = (struct sums_%s *)(g.scratch + %zu * n_all * g.n_pieces) + i * g.n_pieces, t%s;\n", tag, tag,
          tag, *at, tag);
    *at += parts_size(w->nest, pass->roots, true);
    if (pass->has_accs)
        W("        struct accs_%s *const sa%s = (struct accs_%s *)(g.scratch + %zu * n_all * g.n_pieces) + i * g.n_pieces;\n", tag, tag, tag,
          *at);
    *at += parts_size(w->nest, pass->roots, false);
    W("        if (g.phase == %d) {\n            int64_t j0;\n"
      "            const int64_t n = piece_%s(n_inner, piece, g.n_pieces, &j0);\n\n",
      pass->stage, tag);
    if (pass->has_sums)
        W("            t%s = row_%s(&r, j0, n%s);\n", tag, tag, accs);
    else
        W("            for (int64_t j = j0 + threadIdx.x; j < j0 + n; j += ROW)\n                element_%s(&r, j%s);\n", tag, accs);
    if (pass->has_accs)
        W("            gather_%s(&a%s);\n", tag, tag);
    if (pass->has_sums)
        W("            if (threadIdx.x == 0)\n                st%s[piece] = t%s;\n", tag, tag);
    if (pass->has_accs)
        W("            if (threadIdx.x == 0)\n                sa%s[piece] = a%s;\n", tag, tag);
    W("        }");
    if (pass->has_sums || pass->has_accs) {
        W(" else {\n");
        if (pass->has_sums)
            W("            t%s = joined_%s(st%s, g.n_pieces);\n", tag, tag, tag);
        if (pass->has_accs)
            W("            for (int64_t k = threadIdx.x; k < g.n_pieces; k += ROW)\n                join_%s(&a%s, sa%s[k]);\n"
              "            gather_%s(&a%s);\n",
              tag, tag, tag, tag, tag);
        W("        }");
    }
    W("\n");
}

/* c5 = combine(c5, mem), or the other way round. */
static void
write_combined(struct fr_writer *w, int i, const struct fr_names *mem, bool mem_first)
{
    const struct fr_inst *in = &w->nest->insts[i];
    struct fr_names       args[2], n = fr_names_make("", "n", i, in->dtype);

    args[mem_first] = fr_names_make("", "c", i, in->dtype);
    args[!mem_first] = fr_names_make("", "o", i, in->dtype);
    fr_write_load(w, in->dtype, &args[!mem_first], mem);
    fr_write_op(w, fr_op_info[in->op].combine, in->dtype, args, &n, n.s[0]);
    fr_write_store(w, in->dtype, &args[mem_first], &n, "");
}

void
fr_write_lines_left(struct fr_writer *w)
{
    W("        const int64_t lines = (int64_t)gridDim.y * blockDim.y, mine = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;\n"
      "        const int64_t start = g.phase ? (mine + lines - g.n_before %% lines) %% lines : mine;\n        char *to = g.scratch;\n\n        if (g.phase & 1 && column < n_all) {\n");
    w->indent = "            ";
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        struct fr_names       c = fr_names_make("", "c", (int)i, in->dtype);
        const int             parts = fr_parts(in->dtype);

        if (in->kind != FR_INST_ACCUM)
            continue;
        for (int p = 0; p < parts; p++)
            W("            %s = ((%s *)to)[%d * (mine * n_all + column) + %d];\n", c.s[p], fr_part_memory_type(in->dtype), parts, p);
        W("            to += (lines * n_all * %d + 15) / 16 * 16 + (gridDim.y * n_all * %d + 15) / 16 * 16;\n", fr_dtype_size(in->dtype),
          fr_dtype_size(in->dtype));
    }
    W("        }\n        to = g.scratch;\n");
}

static void
write_accumulator(struct fr_writer *w, int i)
{
    const struct fr_inst *in = &w->nest->insts[i];
    const char           *type = fr_part_memory_type(in->dtype);
    struct fr_names       c = fr_names_make("", "c", i, in->dtype), mem = {{"0", "0"}};
    const int             parts = fr_parts(in->dtype);

    W("        if (g.phase) {\n            if (g.phase & 2 && column < n_all) {\n");
    for (int p = 0; p < parts; p++)
        W("                ((%s *)to)[%d * (mine * n_all + column) + %d] = %s;\n", type, parts, p, c.s[p]);
    W("            }\n            to += (lines * n_all * %d + 15) / 16 * 16;\n        }\n", fr_dtype_size(in->dtype));
    W("        if (!(g.phase & 2)) {\n            %s *const part = (%s *)parts + %d * (threadIdx.y * blockDim.x + threadIdx.x);\n\n"
      "            for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {\n",
      type, type, parts);
    for (int p = 0; p < parts; p++)
        W("                part[%d] = %s;\n", p, c.s[p]);
    W("                __syncthreads();\n                if (threadIdx.y < half) {\n");
    w->indent = "                    ";
    for (int p = 0; p < parts; p++)
        snprintf(mem.s[p], sizeof mem.s[p], "part[%d * half * blockDim.x + %d]", parts, p);
    write_combined(w, i, &mem, false);
    W("                }\n                __syncthreads();\n            }\n"
      "            if (gridDim.y > 1 && threadIdx.y == 0 && j < n_inner) {\n");
    for (int p = 0; p < parts; p++)
        W("                ((%s *)to)[%d * (blockIdx.y * n_all + column) + %d] = %s;\n", type, parts, p, c.s[p]);
    W("            } else if (threadIdx.y == 0 && j < n_inner) {\n"
      "                %s *const p = AT(%s, ptr[%d], j * inner_stride[%d]);\n\n                if (g.begun[%d]) {\n", type, type, in->operand,
      in->operand, in->operand);
    for (int p = 0; p < parts; p++)
        snprintf(mem.s[p], sizeof mem.s[p], "p[%d]", p);
    write_combined(w, i, &mem, true);
    W("                }\n");
    for (int p = 0; p < parts; p++)
        W("                p[%d] = %s;\n", p, c.s[p]);
    W("            }\n        }\n        to += (gridDim.y * n_all * %d + 15) / 16 * 16;\n", fr_dtype_size(in->dtype));
}

void
fr_write_column_parts(struct fr_writer *w)
{
    W("        __shared__ __align__(16) char parts[16 * %d];\n\n", FR_CUDA_THREADS);
    for (uint32_t i = 0; i < w->nest->n_insts; i++)
        if (w->nest->insts[i].kind == FR_INST_ACCUM)
            write_accumulator(w, (int)i);
}

int
fr_unrolled(const struct fr_nest *nest)
{
    int n = 8;

    while (n > 2 && (uint32_t)n * nest->n_insts > 128)
        n /= 2;
    return n;
}

/* ---- rows in order --------------------------------------------------------------------------- */

/* Bytes of all values that accumulate in one element. */
static int
line_size(const struct fr_nest *nest)
{
    int n = 0;

    for (uint32_t i = 0; i < nest->n_insts; i++)
        if (nest->insts[i].kind == FR_INST_ACCUM)
            n += fr_dtype_size(nest->insts[i].dtype);
    return n;
}

bool
fr_cuda_has_lines(const struct fr_nest *nest)
{
    return fr_cuda_splits(nest) && !fr_nest_has_stages(nest) && 2 * FR_CUDA_THREADS * line_size(nest) <= TILE_BYTES;
}

/* Rows of a tile for each line. */
static int
line_rows(const struct fr_nest *nest)
{
    int n = fr_unrolled(nest);

    while (n * FR_CUDA_THREADS * line_size(nest) > TILE_BYTES)
        n /= 2;
    return n;
}

struct fr_names
fr_names_line(int inst, fr_dtype d)
{
    struct fr_names n;

    for (int p = 0; p < 2; p++)
        snprintf(n.s[p], sizeof n.s[p], fr_parts(d) == 2 ? "s%d[2 * at + %d]" : "s%d[at]", inst, p);
    return n;
}

void
fr_write_lines(struct fr_writer *w)
{
    const int n = line_rows(w->nest), bytes = n * FR_CUDA_THREADS * line_size(w->nest);
    int       at = 0;

    /* Widest first: each begins where its elements may lie. */
    W("        __shared__ __align__(16) char tiles[2][%d];\n        const int64_t n_tile = (int64_t)(blockDim.y - 1) * %d;\n\n"
      "        for (int64_t tile = 0, turn = 0; tile < n_lines + n_tile; tile += n_tile, turn ^= 1) {\n"
      "            char *const from = tiles[turn ^ 1], *const to = tiles[turn];\n",
      bytes, n);
    for (int size = 16; size > 0; size /= 2)
        for (uint32_t i = 0; i < w->nest->n_insts; i++) {
            const struct fr_inst *in = &w->nest->insts[i];
            const char           *type = fr_part_memory_type(in->dtype);

            if (in->kind != FR_INST_ACCUM || fr_dtype_size(in->dtype) != size)
                continue;
            W("            %s *const s%u = (%s *)((threadIdx.y ? to : from) + %d);\n", type, i, type, at);
            at += n * FR_CUDA_THREADS * size;
        }
    W("            const int64_t left = n_lines - tile - threadIdx.y + blockDim.y - 1, most = left / (blockDim.y - 1);\n"
      "            const int n_mine = threadIdx.y == 0 || j >= n_inner || most < 0 ? 0 : most < %d ? (int)most : %d;\n\n"
      "            #pragma unroll %d\n            for (int k = 0; k < n_mine; k++) {\n"
      "            const unsigned line = k * (blockDim.y - 1) + threadIdx.y - 1, at = line * blockDim.x + threadIdx.x;\n"
      "            const int64_t i = tile + line;\n\n", n, n, n);
}

void
fr_write_lines_end(struct fr_writer *w)
{
    W("            if (threadIdx.y == 0 && tile > 0) {\n"
      "                const int n = (int)(n_lines - (tile - n_tile) < n_tile ? n_lines - (tile - n_tile) : n_tile);\n\n"
      "                #pragma unroll 8\n                for (int k = 0; k < n; k++) {\n"
      "                    const unsigned at = k * blockDim.x + threadIdx.x;\n\n");
    w->indent = "                    ";
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        struct fr_names       mem = fr_names_line((int)i, in->dtype);

        if (in->kind == FR_INST_ACCUM)
            write_combined(w, (int)i, &mem, false);
    }
    W("                }\n            }\n            __syncthreads();\n        }\n");
}
