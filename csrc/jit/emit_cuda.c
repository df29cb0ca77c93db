/* jit/emit_cuda.c -- nests as CUDA C: one kernel `frit_nest`, launched with blocks of 256 threads.
 *
 * Its one argument is struct nest_args, in the text below, which backends/cuda/launch.c fills. Outer axes are in it: those
 * that no accumulator reduces are `shared`, spread over the grid's z, the others walked in order by each thread. Compiled
 * with OUTER=0 it is for launches without outer axes, which are most.
 *
 * Maps: a block is as many elements wide as its rows have, up to 256, and the rest of its threads are rows of their own. So
 * nobody divides to find his element; a thread has one of each row, with VEC so many at once, 16 bytes of the largest, and with TILED
 * a block goes by tiles (emit_tile.c). With MANY a launch is of several instances. Where rows accumulate, a thread has a column and takes its rows in order.
 * Few rows, and few columns, have forms of their own (emit_split.c).
 * Nests with stages: ROW threads take a row at a time, a warp or a block (the first block takes them all
 * when rows accumulate), and the tree of a sum is the CPU's, so the bits are too:
 *
 *     a node of the tree, 5 turns below the root  ->  8 threads, one for each running sum of a leaf   (a warp: 2 turns, 4 nodes)
 *     leaves of that node                         ->  one after the other
 *     the 32 nodes                                ->  joined in shared memory, two by two
 *
 * (complex: 4 threads, 64 nodes).  What is kept of a row (its row
 * buffers) lies in shared memory, if that is large enough, or in `scratch`: fr_cuda_row_bytes() of each row under way. */
#include "jit/emit_cuda.h"

#include <stdio.h>

#include "jit/emit_nest.h"

enum { THREADS = FR_CUDA_THREADS, MOST_DEEP = 48 /* levels of a sum: of more elements than memory has */ };

void
fr_cuda_layout(const struct fr_nest *nest, struct fr_cuda_layout *l)
{
    const size_t n = nest->n_operands ? nest->n_operands : 1, word = 8;

    l->ptr = 0;
    l->row_stride = n * word;
    l->inner_stride = l->row_stride + n * word;
    l->outer_stride = l->inner_stride + n * word;
    l->begun = l->outer_stride + n * FR_CUDA_OUTER * word;
    l->rest = l->begun + n * word;
    l->scalars = (l->rest + sizeof(struct fr_cuda_rest) + 15) / 16 * 16;
    l->n_bytes = l->scalars + 16 * (size_t)(nest->n_scalars ? nest->n_scalars : 1);
    l->by_address = l->n_bytes > FR_CUDA_ARGUMENT_BYTES;
}

static void
write_head(struct fr_writer *w)
{
    const int             n = w->nest->n_operands ? w->nest->n_operands : 1;
    struct fr_cuda_layout l;

    fr_cuda_layout(w->nest, &l);
    W("\n/* Operands as in jit/loop.h; strides count bytes. The first n_shared of the outer axes have so many indices in all,\n"
      " * the others are walked, and no accumulator moves along them. begun: those that have values in them. */\n"
      "struct nest_args {\n    char *ptr[%d];\n    int64_t row_stride[%d], inner_stride[%d], outer_stride[%d][%d];\n"
      "    int64_t begun[%d];\n    int64_t n_rows, n_inner, outer[%d], n_shared, n_outer, n_shared_indices, n_walked_indices;\n"
      "    char *scratch;\n    int64_t n_pieces, phase, n_before;\n    struct __align__(16) { char bytes[16]; } scalars[%d];\n};\n"
      "static_assert(sizeof(struct nest_args) == %zu, \"as jit/emit_cuda.h has it\");\n",
      n, n, n, n, FR_CUDA_OUTER, n, FR_CUDA_OUTER, w->nest->n_scalars ? w->nest->n_scalars : 1, l.n_bytes);
    W("\n#ifndef OUTER /* whether there are outer axes */\n#define OUTER 1\n#endif\n"
      "#define N_SHARED (OUTER ? g.n_shared_indices : 1)\n\n"
      "/* Puts ptr[] where operands are at one index of all shared axes and one of all others. The axis that comes first\n"
      " * of its kind has what is left of the index; others divide it, once for all operands. */\n"
      "static __device__ inline void\nseek(const struct nest_args &g, char **ptr, int64_t shared, int64_t walked)\n{\n"
      "    int64_t i = walked;\n\n"
      "    #pragma unroll\n    for (int k = 0; k < %d; k++)\n        ptr[k] = g.ptr[k];\n"
      "    #pragma unroll 1\n    for (int a = OUTER ? (int)g.n_outer - 1 : -1; a >= 0; a--) {\n"
      "        if (a + 1 == g.n_shared)\n            i = shared;\n", n);
    W("        const bool first = a == 0 || a == g.n_shared;\n"
      "        const int64_t left = first ? 0 : i / g.outer[a], at = i - left * g.outer[a];\n\n"
      "        i = left;\n        #pragma unroll\n        for (int k = 0; k < %d; k++)\n"
      "            ptr[k] += at * g.outer_stride[k][a];\n"
      "    }\n}\n", n);
}

static void
write_entry(struct fr_writer *w)
{
    struct fr_cuda_layout l;

    fr_cuda_layout(w->nest, &l);
    if (fr_cuda_has_many(w->nest))
        W("\n#ifndef MANY /* whether a launch is of several instances, each of which has some of the blocks */\n#define MANY 0\n#endif\n"
          "struct many { unsigned first, x, y, z; };\n"
          "struct of_many { const struct nest_args *all; const struct many *of; unsigned n; };\n");
    /* (Rows with many reductions would have a hundred registers and more, and a multiprocessor two of their blocks.) */
    W("\nextern \"C\" __global__ void __launch_bounds__(%d%s)\n", THREADS, fr_nest_has_stages(w->nest) ? ", 4" : "");
    if (fr_cuda_has_many(w->nest))
        W("#if MANY\nfrit_nest(const __grid_constant__ struct of_many m)\n{\n"
          "    const struct many *const of = m.of;\n    unsigned low = 0, high = m.n;\n\n    while (high - low > 1) {\n        const unsigned middle = (low + high) / 2;\n\n"
          "        if (of[middle].first <= blockIdx.x)\n            low = middle;\n        else\n            high = middle;\n    }\n"
          "    const struct nest_args %sg = m.all[low];\n"
          "    const unsigned b = blockIdx.x - of[low].first, grid_x = of[low].x, grid_y = of[low].y, grid_z = of[low].z;\n"
          "    const unsigned block_x = b %% grid_x, block_y = b / grid_x %% grid_y, block_z = b / grid_x / grid_y;\n"
          "#else\n", fr_cuda_has_tiles(w->nest) ? "&" : "");
    if (l.by_address)
        W("frit_nest(const struct nest_args *const args)\n{\n    const struct nest_args &g = *args;\n");
    else
        W("frit_nest(const __grid_constant__ struct nest_args g)\n{\n");
    if (fr_cuda_has_many(w->nest))
        W("    const unsigned grid_x = gridDim.x, grid_y = gridDim.y, grid_z = gridDim.z;\n"
          "    const unsigned block_x = blockIdx.x, block_y = blockIdx.y, "
          "block_z = blockIdx.z;\n#endif\n    (void)grid_x;\n");
    W("    const int64_t *const row_stride = g.row_stride, *const inner_stride = g.inner_stride;\n"
      "    const void *const scalars = g.scalars;\n    const int64_t n_inner = g.n_inner;\n    char *ptr[%d];\n",
      w->nest->n_operands ? w->nest->n_operands : 1);
    if (!w->nest->n_scalars)
        W("    (void)scalars;\n");
    W("    (void)ptr;\n    (void)row_stride;\n    (void)inner_stride;\n    (void)n_inner;\n");
}

/* ptr[] at these indices of the shared axes and the others. */
static void
write_seek(struct fr_writer *w, const char *shared, const char *walked)
{
    W("%sseek(g, ptr, %s, %s);\n", w->indent, shared, walked);
}

bool
fr_cuda_is_vector(const struct fr_nest *nest, int operand)
{
    bool is = false;

    for (uint32_t i = 0; i < nest->n_insts; i++)
        is |= fr_inst_has_operand(&nest->insts[i]) && nest->insts[i].kind != FR_INST_IOTA && nest->insts[i].operand == operand &&
              nest->insts[i].level == FR_LEVEL_FULL;
    return is && nest->operands[operand].access == FR_ACCESS_UNIT;
}

int
fr_cuda_vector(const struct fr_nest *nest)
{
    int largest = 0;

    for (int k = 0; k < nest->n_operands; k++)
        if (fr_cuda_is_vector(nest, k) && fr_dtype_size(nest->operands[k].dtype) > largest)
            largest = fr_dtype_size(nest->operands[k].dtype);
    return largest == 0 || largest > 8 ? 1 : 16 / largest;
}

bool
fr_cuda_has_many(const struct fr_nest *nest)
{
    return !fr_nest_has_stages(nest) && !fr_nest_accumulates(nest);
}

bool
fr_cuda_has_tiles(const struct fr_nest *nest)
{
    bool has = false;

    for (int k = 0; k < nest->n_operands; k++)
        has |= (nest->operands[k].schedule & FR_SCHEDULE_TURNED_ANY) != 0;
    return has;
}

bool
fr_cuda_has_deep_tiles(const struct fr_nest *nest)
{
    bool has = false;

    for (int k = 0; k < nest->n_operands; k++)
        has |= nest->operands[k].schedule == FR_SCHEDULE_TURNED_DEEP;
    return has;
}

/* Vectors of the operands: read, or declared for what is written; or stored. */
static void
write_vectors(struct fr_writer *w, bool ends)
{
    for (int k = 0; k < w->nest->n_operands; k++) {
        const int  parts = fr_parts(w->nest->operands[k].dtype);
        const bool written = w->nest->operands[k].flags & FR_OPERAND_WRITTEN;

        if (!fr_cuda_is_vector(w->nest, k))
            continue;
        if (!ends && written)
            W("%sstruct vec%d q%d;\n", w->indent, k, k);
        else if (!ends)
            W("%sconst struct vec%d q%d = *(const struct vec%d *)(p%d + %d * j0);\n", w->indent, k, k, k, k, parts);
        else if (written)
            W("%s*(struct vec%d *)(p%d + %d * j0) = q%d;\n", w->indent, k, k, parts, k);
    }
}

static void
write_vector_types(struct fr_writer *w)
{
    W("\n#ifndef VEC /* elements that a thread takes at once, if all that lie side by side are aligned */\n#define VEC 1\n#endif\n");
    if (fr_cuda_has_tiles(w->nest))
        W("#ifndef TILED /* columns of a block's tiles; 0: it has none */\n#define TILED 0\n#endif\n");
    for (int k = 0; k < w->nest->n_operands; k++) {
        const fr_dtype d = w->nest->operands[k].dtype;

        if (fr_cuda_is_vector(w->nest, k))
            W("struct __align__(VEC * %d < 16 ? VEC * %d : 16) vec%d { %s v[VEC * %d]; };\n", fr_dtype_size(d), fr_dtype_size(d), k,
              fr_part_memory_type(d), fr_parts(d));
    }
}

/* Whether rows store values of their own, as rows without elements do, too. */
static bool
stores_rows(const struct fr_nest *nest)
{
    bool does = false;

    for (uint32_t i = 0; i < nest->n_insts; i++)
        does |= nest->insts[i].kind == FR_INST_STORE && nest->insts[i].level != FR_LEVEL_FULL;
    return does;
}

/* A row without elements still stores its ROW values. The grid has a thread for each element or vector of a row,
 * unless one thread has the whole row, because values of rows may lie over what is loaded (backends/cuda/launch.c). */
static void
write_maps(struct fr_writer *w)
{
    const bool by_row = stores_rows(w->nest);

    w->indent = "    ";
    fr_write_scalars(w, NULL, false);
    if (fr_cuda_has_tiles(w->nest)) {
        W("#if TILED\n");
        fr_write_tiles(w);
        W("#else\n");
    }
    W("    const int64_t first = (int64_t)block_x * blockDim.x + threadIdx.x;\n"
      "    for (int64_t o = OUTER ? block_z : 0; o < N_SHARED; o += OUTER ? grid_z : 1) {\n");
    w->indent = "        ";
    write_seek(w, "o", "0");
    W("        #pragma unroll 1\n"
      "        for (int64_t row = block_y * blockDim.y + threadIdx.y; row < g.n_rows; row += grid_y * blockDim.y) {\n");
    w->indent = "            ";
    w->guard = "if (first == 0) ";
    fr_write_operands(w, true, "row");
    fr_write_row(w, 0);
    W("#if VEC > 1\n            const int64_t j0 = first * VEC;\n\n            if (j0 < n_inner) {\n");
    w->indent = "                ";
    write_vectors(w, false);
    W("                #pragma unroll\n                for (int v = 0; v < VEC; v++) {\n"
      "                    const int64_t j = j0 + v;\n                    (void)j;\n");
    w->indent = "                    ";
    w->vector = true;
    fr_write_body(w);
    w->vector = false;
    W("                }\n");
    w->indent = "                ";
    write_vectors(w, true);
    if (by_row)
        W("            }\n#else\n            #pragma unroll 1\n"
          "            for (int64_t j = first; j < n_inner; j += (int64_t)grid_x * blockDim.x) {\n");
    else
        W("            }\n#else\n            const int64_t j = first;\n\n            if (j < n_inner) {\n");
    fr_write_body(w);
    W("            }\n#endif\n");
    w->indent = "            ";
    fr_write_row(w, 1);
    W("        }\n    }\n%s}\n", fr_cuda_has_tiles(w->nest) ? "#endif\n" : "");
}

static void
write_columns(struct fr_writer *w)
{
    const bool by_row = stores_rows(w->nest);

    w->indent = "    ";
    fr_write_scalars(w, NULL, false);
    W("#if SPLIT\n    const int64_t n_all = N_SHARED * n_inner, n_lines = (OUTER ? g.n_walked_indices : 1) * g.n_rows;\n\n"
      "    for (int64_t first = (int64_t)blockIdx.x * blockDim.x; first < n_all; first += (int64_t)gridDim.x * blockDim.x) {\n"
      "        const int64_t column = first + threadIdx.x, o = OUTER && column < n_all ? column / n_inner : 0;\n"
      "        const int64_t j = column < n_all ? column - o * n_inner : n_inner;\n        int64_t walked = 0;\n\n"
      "#else\n    const int64_t n_cols = %s;\n"
      "    for (int64_t o = OUTER ? blockIdx.z : 0; o < N_SHARED; o += OUTER ? gridDim.z : 1)\n"
      "    for (int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; j < n_cols; j += (int64_t)gridDim.x * blockDim.x) {\n"
      "#endif\n", by_row ? "n_inner > 0 ? n_inner : 1" : "n_inner");
    w->indent = "        ";
    write_seek(w, "o", "0");
    fr_write_column(w, false);
    W("#if SPLIT == 1\n");
    fr_write_lines_left(w);
    W("#endif\n");
    if (fr_cuda_has_lines(w->nest)) {
        W("#if SPLIT == 2\n");
        fr_write_lines(w);
        W("#elif SPLIT\n");
    } else {
        W("#if SPLIT\n");
    }
    W("        const int64_t n_mine = j >= n_inner || start >= n_lines ? 0 : (n_lines - start - 1) / lines + 1;\n\n"
      "        #pragma unroll %d\n        for (int64_t k = 0; k < n_mine; k++) {\n            const int64_t i = start + k * lines;\n"
      "#endif\n#if SPLIT\n            const int64_t row = OUTER ? i %% g.n_rows : i;\n\n"
      "            if (OUTER && i / g.n_rows != walked) {\n                walked = i / g.n_rows;\n",
      fr_unrolled(w->nest));
    w->indent = "                ";
    write_seek(w, "o", "walked");
    W("            }\n            {\n#else\n"
      "        for (int64_t i = 0; i < (OUTER ? g.n_walked_indices : 1); i++) {\n            if (OUTER && i) {\n");
    write_seek(w, "o", "i");
    W("            }\n            for (int64_t row = 0; row < g.n_rows; row++) {\n#endif\n");
    w->indent = "                ";
    w->guard = "if (j == 0) ";
    fr_write_operands(w, true, "row");
    fr_write_row(w, 0);
    W("                %s{\n", by_row ? "if (SPLIT || j < n_inner) " : "");
    w->indent = "                    ";
    fr_write_body(w);
    W("                }\n");
    w->indent = "                ";
    fr_write_row(w, 1);
    W("            }\n        }\n");
    if (fr_cuda_has_lines(w->nest)) {
        W("#if SPLIT == 2\n");
        fr_write_lines_end(w);
        W("#endif\n");
    }
    W("#if SPLIT == 1\n");
    fr_write_column_parts(w);
    W("#else\n        if (j < n_inner && (SPLIT == 0 || threadIdx.y == 0)) {\n");
    w->indent = "            ";
    fr_write_column(w, true);
    W("        }\n#endif\n    }\n}\n");
}

/* t.v4 = the v4 of the thread whose number differs in bit k. */
static void
write_shuffle(struct fr_writer *w, const struct fr_pass *pass, bool sums)
{
    const char *kind = sums ? "sums" : "accs";

    W("\nstatic __device__ inline struct %s_%s\nshuffle_%s_%s(struct %s_%s a, unsigned mask, int "
      "k)\n{\n"
      "    struct %s_%s t;\n\n",
      kind, pass->tag, kind, pass->tag, kind, pass->tag, kind, pass->tag);
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        const fr_dtype        d = fr_reduce_dtype(w->nest, in);
        const char           *letter = fr_op_finds_index(in->op) ? "m" : "v";

        if (!pass->roots[i] || in->kind != FR_INST_REDUCE || fr_reduce_is_sum(in) != sums)
            continue;
        for (int p = 0; p < fr_parts(d); p++)
            W("    t.%s = __shfl_xor_sync(mask, a.%s, k);\n",
              fr_names_make("", letter, (int)i, d).s[p], fr_names_make("", letter, (int)i, d).s[p]);
        if (fr_op_finds_index(in->op))
            W("    t.v%u = __shfl_xor_sync(mask, a.v%u, k);\n", i, i);
    }
    W("    return t;\n}\n");
}

/* The leaves of a subtree from left to right. What waits for its right side is kept in arrays: a function that called itself
 * would want more stack than a device has. */
static void
write_subtree(struct fr_writer *w, const struct fr_pass *pass, int lanes)
{
    const char *tag = pass->tag, *accs = pass->has_accs ? ", a" : "";

    W("\n/* Sums of elements [j, j + n) in NumPy's order, by the same threads. */\n"
      "static __device__ struct sums_%s\ntree_%s(const struct row *r, int64_t j, int64_t n", tag, tag);
    if (pass->has_accs)
        W(", struct accs_%s *a", tag);
    W(")\n{\n    struct sums_%s left[%d], t;\n    int64_t right[%d];\n    uint64_t summed = 0;\n    int depth = 0;\n\n"
      "    if (n <= %d)\n        return leaf_%s(r, j, n%s);\n"
      "    for (;;) {\n        for (; n > %d; n = half_%s(n))\n            right[depth++] = n - half_%s(n);\n"
      "        t = leaf_%s(r, j, n%s);\n        j += n;\n"
      "        for (; depth > 0 && summed >> (depth - 1) & 1; summed ^= (uint64_t)1 << depth)\n"
      "            t = add_%s(left[--depth], t);\n"
      "        if (depth == 0)\n            return t;\n"
      "        left[depth - 1] = t;\n        summed |= (uint64_t)1 << (depth - 1);\n        n = right[depth - 1];\n    }\n}\n",
      tag, MOST_DEEP, MOST_DEEP, 16 * lanes, tag, accs, 16 * lanes, tag, tag, tag, accs, tag);
}

/* The sums of a subtree by the threads of a group: valid in its first. */
static void
write_tree(struct fr_writer *w, const struct fr_pass *pass)
{
    const char *tag = pass->tag, *accs = pass->has_accs ? ", a" : "";
    const int   lanes = pass->complex_tree ? 4 : 8;

    write_shuffle(w, pass, true);
    W("\nstatic __device__ inline int64_t\nhalf_%s(int64_t n)\n{\n    return %s;\n}\n", tag,
      pass->complex_tree ? "(n - n % 8) / 2" : "n / 2 - n / 2 % 8");
    W("\n/* Sums of elements [j, j + n), a leaf of the tree, by %d threads; the first has the result. "
      "*/\n"
      "static __device__ inline struct sums_%s\nleaf_%s(const struct row *r, int64_t j, int64_t n",
      lanes, tag, tag);
    if (pass->has_accs)
        W(", struct accs_%s *a", tag);
    W(")\n{\n    const int lane = threadIdx.x %% %d;\n"
      "    const unsigned mask = 0x%xu << (threadIdx.x %% 32 - lane);\n"
      "    const int64_t whole = n < %d ? 0 : n - n %% %d;\n    struct sums_%s t = zero_%s(), "
      "o;\n\n",
      lanes, (1u << lanes) - 1, lanes, lanes, tag, tag);
    W("    for (int64_t i = lane; i < whole; i += %d)\n        t = add_%s(t, element_%s(r, j + "
      "i%s));\n",
      lanes, tag, tag, accs);
    W("    for (int k = 1; k < %d; k *= 2) {\n        o = shuffle_sums_%s(t, mask, k);\n"
      "        t = lane & k ? add_%s(o, t) : add_%s(t, o);\n    }\n",
      lanes, tag, tag, tag);
    W("    if (lane == 0)\n        for (int64_t i = whole; i < n; i++)\n"
      "            t = add_%s(t, element_%s(r, j + i%s));\n",
      tag, tag, accs);
    W("    __syncwarp(mask);\n    return t;\n}\n");
    write_subtree(w, pass, lanes);
}

static void
write_row_tree(struct fr_writer *w, const struct fr_pass *pass)
{
    const char *tag = pass->tag, *accs = pass->has_accs ? ", a" : "";
    const int   lanes = pass->complex_tree ? 4 : 8;

    W("\n/* Walks from the root towards `node`, a path of all nodes at the bottom, and ends above "
      "`width`\n"
      " * of them or at a leaf: how many elements there are, and the first. */\n"
      "static __device__ inline int64_t\nfind_%s(int64_t n, int node, int width, int64_t *j)\n{\n"
      "    *j = 0;\n    #pragma unroll 1\n    for (int bit = ROW / %d; bit >= width && n > %d; bit /= 2) {\n"
      "        const int64_t half = half_%s(n);\n\n        if (node & bit) {\n            *j += "
      "half;\n"
      "            n -= half;\n        } else {\n            n = half;\n        }\n    }\n"
      "    return n;\n}\n",
      tag, 2 * lanes, 16 * lanes, tag);
    W("\n/* Sums of elements [first, first + n) by the threads of the row: each gets them. */\n"
      "static __device__ inline struct sums_%s\nrow_%s(const struct row *r, int64_t first, int64_t n", tag, tag);
    if (pass->has_accs)
        W(", struct accs_%s *a", tag);
    W(")\n{\n    __shared__ struct sums_%s parts[%d / ROW][ROW / %d];\n    struct sums_%s *const part = parts[threadIdx.y];\n"
      "    const int node = threadIdx.x / %d;\n    const bool leader = threadIdx.x %% %d == 0;\n    struct sums_%s t;\n"
      "    const bool deep = SPLIT && n > (int64_t)%d * ROW / %d; /* no leaf lies above the bottom */\n    int64_t j, m, above;\n    bool mine = true;\n\n",
      tag, THREADS, lanes, tag, lanes, lanes, tag, 16 * lanes + 16, 2 * lanes);
    W("    /* A leaf above the bottom belongs to the first node below it. */\n"
      "    m = find_%s(n, node, 1, &j);\n"
      "    #pragma unroll 1\n    for (int width = 2; !deep && width <= ROW / %d; width *= 2)\n"
      "        if (node & (width - 1) && find_%s(n, node, width, &above) <= %d)\n"
      "            mine = false;\n",
      tag, lanes, tag, 16 * lanes);
    W("    if (mine) {\n        t = tree_%s(r, first + j, m%s);\n        if (leader)\n            "
      "part[node] = t;\n"
      "    }\n    SYNC();\n",
      tag, accs);
    W("    #pragma unroll 1\n    for (int width = 1; width < ROW / %d; width *= 2) {\n"
      "        if (leader && node %% (2 * width) == 0 && (deep || find_%s(n, node, 2 * width, &above) > %d))\n"
      "            part[node] = add_%s(part[node], part[node + width]);\n        SYNC();\n"
      "    }\n    t = part[0];\n    SYNC();\n    return t;\n}\n",
      lanes, tag, 16 * lanes, tag);
}

/* Accumulators of all threads of a row joined, or those of its first one for a product: each gets the result. */
static void
write_gather(struct fr_writer *w, const struct fr_pass *pass, bool first_only)
{
    const char *tag = pass->tag;

    if (first_only) {
        W("\nstatic __device__ inline void\ngather_%s(struct accs_%s *a)\n{\n"
          "    __shared__ struct accs_%s all[%d / ROW];\n\n    if (threadIdx.x == 0)\n        all[threadIdx.y] = *a;\n"
          "    SYNC();\n    *a = all[threadIdx.y];\n    SYNC();\n}\n",
          tag, tag, tag, THREADS);
        return;
    }
    write_shuffle(w, pass, false);
    W("\nstatic __device__ inline void\njoin_%s(struct accs_%s *a, struct accs_%s b)\n{\n", tag, tag, tag);
    fr_write_join(w, pass);
    W("}\n\nstatic __device__ inline void\ngather_%s(struct accs_%s *a)\n{\n"
      "    __shared__ struct accs_%s all[%d / 32];\n    const int first = threadIdx.y * (ROW / 32);\n\n"
      "    for (int k = 1; k < 32; k *= 2)\n        join_%s(a, shuffle_accs_%s(*a, 0xffffffffu, k));\n"
      "    if (threadIdx.x %% 32 == 0)\n        all[first + threadIdx.x / 32] = *a;\n    SYNC();\n"
      "    *a = all[first];\n    for (int k = 1; k < ROW / 32; k++)\n        join_%s(a, all[first + k]);\n"
      "    SYNC();\n}\n",
      tag, tag, tag, THREADS, tag, tag, tag);
}

static void
write_functions(struct fr_writer *w)
{
    struct fr_pass pass;

    for (int s = 0; s < w->nest->n_stages; s++)
        for (int kind = 0; kind <= FR_PASS_MAIN; kind++) {
            if (!fr_pass_find(w, s, (enum fr_pass_kind)kind, true, &pass))
                continue;
            fr_write_element(w, &pass);
            if (pass.has_sums) {
                write_tree(w, &pass);
                write_row_tree(w, &pass);
            }
            if (pass.has_accs)
                write_gather(w, &pass, kind == FR_PASS_PROD);
            if (fr_cuda_splits(w->nest))
                fr_write_pieces(w, &pass);
        }
}

static void
write_walk(struct fr_writer *w, const struct fr_pass *pass, bool first_only, size_t *parts)
{
    const char *tag = pass->tag;
    char        accs[16] = "";

    if (pass->has_accs)
        snprintf(accs, sizeof accs, ", &a%s", tag);
    fr_write_accs(w, pass);
    if (fr_cuda_splits(w->nest)) {
        W("#if SPLIT\n");
        fr_write_piece_walk(w, pass, parts);
        W("#else\n");
    }
    if (pass->has_sums)
        W("        const struct sums_%s t%s = row_%s(&r, 0, n_inner%s);\n", tag, tag, tag, accs);
    else if (first_only)
        W("        for (int64_t j = 0; threadIdx.x == 0 && j < n_inner; j++)\n"
          "            element_%s(&r, j%s);\n",
          tag, accs);
    else
        W("        for (int64_t j = threadIdx.x; j < n_inner; j += ROW)\n            element_%s(&r, j%s);\n", tag, accs);
    if (pass->has_accs)
        W("        gather_%s(&a%s);\n", tag, tag);
    if (fr_cuda_splits(w->nest))
        W("#endif\n");
    W("        SYNC();\n");
    fr_write_results(w, pass);
}

/* Rows in order, by one block for each index of the axes that accumulators keep. (Lowering makes no such nest.) */
static void
write_walk_of_rows(struct fr_writer *w)
{
    W("    r.begun = g.begun;\n    for (int64_t o = blockIdx.x; o < N_SHARED; o += gridDim.x)\n"
      "    for (int64_t i = 0; i < g.n_walked_indices * g.n_rows; i++) {\n"
      "        const int64_t row = i %% g.n_rows, walked = i / g.n_rows;\n\n        r.first = i == 0;\n");
}

/* Bytes of each element of a row that are kept. */
static size_t
kept_size(const struct fr_nest *nest, uint32_t before)
{
    size_t n = 0;

    for (uint32_t i = 0; i < before; i++)
        if (fr_nest_crosses(nest, (int)i))
            n += (size_t)fr_dtype_size(nest->insts[i].dtype);
    return n;
}

/* With a gap of 8 elements behind each leaf: those that are summed at the same time lie in other banks. */
size_t
fr_cuda_row_bytes(const struct fr_nest *nest, int64_t n_inner)
{
    const size_t n = (size_t)(n_inner + (n_inner >> 7 << 3) + 23) / 16 * 16;

    return nest->flags & FR_NEST_ROWBUF ? n * kept_size(nest, nest->n_insts) : 0;
}

static void
write_row_buffers(struct fr_writer *w)
{
    const size_t all = kept_size(w->nest, w->nest->n_insts);

    if (!(w->nest->flags & FR_NEST_ROWBUF) || all == 0)
        return;
    W("    const int64_t n_kept = (n_inner + (n_inner >> 7 << 3) + 23) / 16 * 16;\n#if SHARED\n"
      "    extern __shared__ __align__(16) char buffers[];\n"
      "    char *const kept = buffers + threadIdx.y * (unsigned)(n_kept * %zu);\n#else\n"
      "    char *const kept = g.scratch + ((int64_t)blockIdx.x * (%d / ROW) + threadIdx.y) * (n_kept * %zu);\n#endif\n",
      all, THREADS, all);
    for (uint32_t i = 0; i < w->nest->n_insts; i++)
        if (fr_nest_crosses(w->nest, (int)i))
            W("    r.b%u = (%s *)(kept + n_kept * %zu);\n", i, fr_part_memory_type(w->nest->insts[i].dtype), kept_size(w->nest, i));
}

static void
write_walk_of_items(struct fr_writer *w)
{
    const bool splits = fr_cuda_splits(w->nest);

    if (splits)
        W("#if SPLIT\n    const int64_t n_all = N_SHARED * g.n_rows;\n\n"
          "    for (int64_t k = blockIdx.x; k < n_all * (LAST ? 1 : g.n_pieces); k += gridDim.x) {\n"
          "        const int64_t i = k %% n_all, piece = k / n_all;\n\n#else\n");
    W("    for (int64_t i = (int64_t)blockIdx.x * (%d / ROW) + threadIdx.y; i < N_SHARED * g.n_rows;\n"
      "         i += (int64_t)gridDim.x * (%d / ROW)) {\n%s"
      "        const int64_t row = OUTER ? i %% g.n_rows : i, o = OUTER ? i / g.n_rows : 0, walked = 0;\n\n", THREADS, THREADS,
      splits ? "#endif\n" : "");
}

static void
write_rows(struct fr_writer *w)
{
    struct fr_pass pass;
    size_t         parts = 0;

    w->indent = "    ";
    w->row = "r.";
    W("    struct row r;\n\n");
    fr_write_scalars(w, NULL, true);
    write_row_buffers(w);
    if (fr_nest_accumulates(w->nest))
        write_walk_of_rows(w);
    else
        write_walk_of_items(w);
    w->indent = "        ";
    w->guard = fr_cuda_splits(w->nest) ? "if (threadIdx.x == 0 && LAST) " : "if (threadIdx.x == 0) ";
    write_seek(w, "o", "walked");
    fr_write_operands(w, false, "row");
    for (int s = 0; s < w->nest->n_stages; s++) {
        fr_write_row(w, s);
        for (int kind = 0; kind <= FR_PASS_MAIN; kind++)
            if (fr_pass_find(w, s, (enum fr_pass_kind)kind, true, &pass))
                write_walk(w, &pass, kind == FR_PASS_PROD, &parts);
        if (fr_cuda_splits(w->nest))
            W("#if SPLIT\n        if (g.phase == %d)\n            continue;\n#endif\n", s);
    }
    fr_write_row(w, w->nest->n_stages);
    W("        SYNC();\n    }\n}\n");
}

void
fr_write_cuda(struct fr_writer *w)
{
    write_head(w);
    if (fr_nest_has_stages(w->nest) || fr_nest_accumulates(w->nest))
        W("\n#ifndef SPLIT /* whether many blocks share a row or a column; 2: lines of a block share columns */\n#define SPLIT 0\n#endif\n");
    if (!fr_nest_has_stages(w->nest)) {
        if (!fr_nest_accumulates(w->nest))
            write_vector_types(w);
        else
            W("#define BEGUN(k) (SPLIT != 1 && g.begun[k] && j < n_inner)\n");
        write_entry(w);
        if (fr_nest_accumulates(w->nest))
            write_columns(w);
        else
            write_maps(w);
    } else {
        W("\n#ifndef ROW /* threads of a row: 32 or all */\n#define ROW %d\n#endif\n"
          "#ifndef SHARED /* whether rows are kept in shared memory */\n#define SHARED 0\n#endif\n"
          "#define KEPT(j) ((j) + ((j) >> 7 << 3))\n#define SYNC() (ROW == 32 ? __syncwarp(0xffffffffu) : __syncthreads())\n", THREADS);
        if (fr_cuda_splits(w->nest))
            W("#define LAST (!SPLIT || g.phase == %d) /* whether values of whole rows are stored */\n", w->nest->n_stages);
        fr_write_row_struct(w);
        write_functions(w);
        write_entry(w);
        write_rows(w);
    }
}
