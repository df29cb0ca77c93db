/* jit/gen/main.c -- writes the block kernels of backends/cpu as C, when the package is built.
 *
 *     gen OUTDIR N      writes OUTDIR/kernels_0.c .. kernels_<N-1>.c and OUTDIR/kernels_table.c
 *
 * Each is compiled once per instruction-set level with -DFR_LEVEL=v3 and so on; all names carry the
 * level. A kernel is the recipe of one (operation, dtype) inside a plain loop that GCC vectorises:
 *
 *     void fr_kernels_v3_add_f32(size_t n, void *out, const void *a, ..., unsigned once)
 *     {
 *         float *r = out; const float *x = a, *y = b;
 *         switch (once) { case 0: for (i) r[i] = x[i] + y[i]; ...one more loop per useful mask }
 *     }
 *
 * Compile with -O2 -ftree-vectorize -fvect-cost-model=dynamic -ffp-contract=off -fno-math-errno
 * -fno-trapping-math and, for v4, -mprefer-vector-width=512;
 * -O3 takes twice as long for slower code.
 *
 * The loops say ivdep and not restrict, because `out` may be an argument's own memory. Masks
 * without a loop go through splat(), which fills small blocks with the one element and calls the
 * kernel again. A host program: it may print and exit. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/op.h"
#include "jit/gen/loops.h"
#include "jit/pairs.h"
#include "jit/recipe.h"

enum { MAX_FILES = 64 };

struct kernel {
    char     name[64];  /* "add_f32", "cast_f16_i8" */
    char     place[64]; /* of its pointer in struct fr_kernels */
    char    *body;      /* the function without its name */
    uint32_t helpers;
    unsigned weight;  /* instructions times loops: compile time, roughly */
    size_t   same_as; /* number of the first kernel with this body */
};

static struct kernel *kernels;
static size_t         n_kernels, cap_kernels;

void
gen_die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fputs("gen: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

/* Integers that only wrap, move and meet bit by bit do the same when they are unsigned, and values
 * that only move are their bits: such kernels are printed with the unsigned type of that size, so
 * that equal ones are compiled once. */
static fr_dtype
plain_type(fr_dtype t, bool only_moves)
{
    static const fr_dtype of_size[9] = {[1] = FR_U8, [2] = FR_U16, [4] = FR_U32, [8] = FR_U64};

    if (t == FR_BOOL || (fr_dtype_is_float(t) && !only_moves))
        return t;
    return of_size[fr_dtype_size(t)];
}

static void
make_plain(struct fr_mcode *code)
{
    enum { OTHER, MOVES, WRAPS };
    static const uint8_t manner[FR_N_MOPS] = {
        [FR_M_INPUT] = MOVES, [FR_M_CONST] = MOVES, [FR_M_SELECT] = MOVES, [FR_M_ADD] = WRAPS,
        [FR_M_SUB] = WRAPS,   [FR_M_MUL] = WRAPS,   [FR_M_NEG] = WRAPS,    [FR_M_AND] = WRAPS,
        [FR_M_OR] = WRAPS,    [FR_M_XOR] = WRAPS,   [FR_M_NOT] = WRAPS,
    };
    bool only_moves = true;

    for (size_t i = 0; i < code->n; i++) {
        const struct fr_minst *in = &code->inst[i];

        if (manner[in->op] == OTHER)
            return;
        if (manner[in->op] == WRAPS && in->type != FR_BOOL)
            only_moves = false;
    }
    for (size_t i = 0; i < code->n; i++)
        code->inst[i].type = plain_type(code->inst[i].type, only_moves);
}

/* Whether a kernel is the cast of floats to half precision, which is an instruction of some levels. */
static bool rounds_halves(const char *name) { return !strcmp(name, "cast_f32_f16"); }

/* Whether a kernel divides integers that divide_map.h divides by one number. */
static bool
divides_whole(const char *name, const struct shape *s)
{
    return !strncmp(name, "floor_divide_", 13) && !fr_dtype_is_float(s->out.dtype) && fr_dtype_size(s->out.dtype) < 8;
}

/* Takes the text of a kernel over. */
static void
add_text(const char *name, const char *place, const struct fr_text *t, unsigned weight)
{
    struct kernel *k;

    if (t->st != FR_OK)
        gen_die("%s: %s", name, fr_status_text(t->st));
    if (!FR_GROW(kernels, cap_kernels, n_kernels + 1))
        gen_die("out of memory");
    k = &kernels[n_kernels];
    *k = (struct kernel){.body = t->s, .helpers = t->helpers, .weight = weight};
    snprintf(k->name, sizeof k->name, "%s", name);
    snprintf(k->place, sizeof k->place, "%s", place);
    while (strcmp(kernels[k->same_as].body, k->body) != 0)
        k->same_as++;
    n_kernels++;
}

/* masks: which get a loop of their own; 0: those that gen_masks says. */
static void
add_kernel(struct shape *s, const char *name, const char *place, unsigned masks)
{
    struct fr_text t = {0};
    unsigned       n_loops = 0;

    make_plain(&s->code);
    if (!masks)
        masks = gen_masks(s);

    fr_text_add(&t, "(size_t n, void *out, const void *a, const void *b, const void *c,"
                    " unsigned once)\n{\n");
    fr_text_add(&t, "    %s *r = out;\n", gen_memory_type(s, &s->out));
    for (int i = 0; i < s->n_args; i++)
        fr_text_add(&t, "    const %s *%c = %c;\n", gen_memory_type(s, &s->args[i]), gen_arg_name[i],
                    "abc"[i]);
    if (rounds_halves(name))
        fr_text_add(&t, "#ifdef __F16C__\n    if (!once) {\n        round_halves(n, r, x);\n"
                        "        return;\n    }\n#endif\n");
    if (divides_whole(name, s)) {
        bool sign = fr_dtype_kind(s->out.dtype) == 'i';

        fr_text_add(&t, "    if (once == 2%s) {\n        divide_whole(n, r, x, (uint32_t)*y, sizeof *r, %d);\n"
                        "        return;\n    }\n", sign ? " && *y >= 0" : "", sign);
        masks = sign ? masks : masks & ~(1u << 2);
    }
    fr_text_add(&t, "    switch (once) {\n");
    for (unsigned once = 0; once < 8; once++)
        if (masks >> once & 1) {
            gen_case(&t, s, once);
            n_loops++;
        }
    fr_text_add(&t, "    }\n    static const struct splat form = {{0, 1, 2, 3, 4, 5, 6, 7}, SELF, %d * sizeof *r, {",
                s->out.n_parts);
    for (int i = 0; i < s->n_args; i++)
        fr_text_add(&t, "%d * sizeof *%c, ", s->args[i].n_parts, gen_arg_name[i]);
    fr_text_add(&t, "}};\n    splat(n, out, a, b, c, &form.once[once]);\n}\n");
    add_text(name, place, &t, (unsigned)s->code.n * n_loops);
}

/* Declares an input of the recipe and what it looks like in memory. */
static struct fr_mnum
add_arg(struct shape *s, fr_dtype d)
{
    struct side   *a = &s->args[s->n_args];
    struct fr_mnum v = {0};

    a->dtype = d;
    a->first = s->n_args ? a[-1].first + a[-1].n_parts : 0;
    a->n_parts = fr_dtype_is_complex(d) ? 2 : 1;
    v.re = fr_m_emit(&s->code, FR_M_INPUT, fr_machine_type(d), 0, 0, 0, (uint64_t)a->first);
    if (a->n_parts == 2)
        v.im = fr_m_emit(&s->code, FR_M_INPUT, fr_machine_type(d), 0, 0, 0, (uint64_t)a->first + 1);
    s->n_args++;
    return v;
}

/* Adds the kernel of a recipe that has given r, of dtype d. */
static void
add_recipe(struct shape *s, fr_status st, fr_dtype d, struct fr_mnum r, const char *name, const char *place, unsigned masks)
{
    if (st != FR_OK || s->code.st != FR_OK || r.re >= s->code.n)
        gen_die("recipe of %s: %s", name, fr_status_text(st ? st : s->code.st ? s->code.st : FR_EBUG));
    s->out.dtype = d;
    s->out.n_parts = fr_dtype_is_complex(d) ? 2 : 1;
    s->roots[0] = r.re;
    s->roots[1] = r.im;
    add_kernel(s, name, place, masks);
    fr_mcode_clear(&s->code);
}

/* Half precision that goes through single precision: a kernel that computes in floats, mostly that of
 * single precision, and one that converts for it. */
static void
add_half_op(fr_op op)
{
    const struct fr_op_info *info = &fr_op_info[op];
    struct shape             s = {0};
    struct fr_mnum           args[MAX_ARGS] = {{0, 0}}, r = {UINT16_MAX, UINT16_MAX};
    struct fr_text           t = {0};
    char                     name[64], place[64];
    fr_status                st;

    for (int k = 0; k < info->arity; k++)
        args[k] = add_arg(&s, fr_op_arg(op, k, FR_F16) == FR_F16 ? FR_F32 : fr_op_arg(op, k, FR_F16));
    st = fr_recipe_half(&s.code, op, args, &r);
    snprintf(name, sizeof name, "%s_half", info->name);
    add_recipe(&s, st, FR_F32, r, name, "", 0);

    snprintf(name, sizeof name, "%s", kernels[kernels[n_kernels - 1].same_as].name);
    fr_text_add(&t, "(size_t n, void *out, const void *a, const void *b, const void *c,"
                    " unsigned once)\n{\n    fr_map_fn K(%s);\n\n"
                    "    half_map(K(%s), n, (const void *[]){a, b, c}, once, out, (const size_t[]){",
                name, name);
    for (int k = 0; k < info->arity; k++)
        fr_text_add(&t, "%d, ", fr_dtype_size(fr_op_arg(op, k, FR_F16)));
    fr_text_add(&t, "}, %d);\n}\n", info->arity);
    snprintf(name, sizeof name, "%s_%s", info->name, fr_dtype_code(FR_F16));
    snprintf(place, sizeof place, ".map[FR_OP_%s][%d]", info->name, FR_F16);
    add_text(name, place, &t, 8);
}

/* Products of bytes, which have a way of their own. */
static void
add_byte_op(fr_op op, fr_dtype d)
{
    bool           square = op == FR_OP_square;
    struct fr_text t = {0};
    char           name[160], place[160];

    fr_text_add(&t, "(size_t n, void *out, const void *a, const void *b, const void *c, unsigned once)\n{\n"
                    "    %s(void)c;\n    if (n > 0)\n        multiply_bytes(n, out, a, %s, %s);\n}\n",
                square ? "(void)b, " : "", square ? "a" : "b", square ? "once & 1 ? 3 : 0" : "once");
    snprintf(name, sizeof name, "%s_%s", fr_op_info[op].name, fr_dtype_code(d));
    snprintf(place, sizeof place, ".map[FR_OP_%s][%d]", fr_op_info[op].name, d);
    add_text(name, place, &t, 8);
}

static void
add_op(fr_op op, fr_dtype d)
{
    const struct fr_op_info *info = &fr_op_info[op];
    struct shape             s = {0};
    struct fr_mnum           args[MAX_ARGS] = {{0, 0}}, r = {UINT16_MAX, UINT16_MAX};
    char                     name[160], place[96];
    fr_status                st;

    for (int k = 0; k < info->arity; k++)
        args[k] = add_arg(&s, fr_op_arg(op, k, d));
    st = fr_recipe_op(&s.code, op, d, args, &r);
    snprintf(name, sizeof name, "%s_%s", info->name, fr_dtype_code(d));
    snprintf(place, sizeof place, ".map[FR_OP_%s][%d]", info->name, d);
    add_recipe(&s, st, fr_op_result(op, d), r, name, place, 0);
}

static void
add_cast(fr_dtype from, fr_dtype to)
{
    struct shape   s = {0};
    struct fr_mnum arg = add_arg(&s, from), r = {UINT16_MAX, UINT16_MAX};
    fr_status      st = fr_recipe_cast(&s.code, from, to, arg, &r);
    char           name[64], place[64];

    snprintf(name, sizeof name, "cast_%.5s_%.5s", fr_dtype_code(from), fr_dtype_code(to));
    snprintf(place, sizeof place, ".cast[%d][%d]", from, to);
    if (st != FR_ENOTSUP)
        add_recipe(&s, st, to, r, name, place, 0);
    fr_mcode_clear(&s.code);
}

/* One of the pairs of jit/pairs.h. */
static void
add_pair(int row, int column, fr_dtype d)
{
    fr_op          inner = fr_pair_inner[row], outer = fr_pair_outer[column].op;
    int            at = fr_pair_outer[column].at;
    struct shape   s = {0};
    struct fr_mnum args[2], both[2], r = {UINT16_MAX, UINT16_MAX};
    unsigned       masks = 1u << 0 | 1u << 2;
    char           name[128], place[64];
    fr_status      st;

    args[0] = add_arg(&s, d);
    args[1] = add_arg(&s, d);
    st = fr_recipe_op(&s.code, inner, d, args, &both[at]);
    if (!(fr_op_info[inner].flags & FR_OPF_COMM))
        masks |= 1u << 1;
    if (fr_op_info[outer].arity == 2) {
        both[!at] = add_arg(&s, d);
        masks |= masks << 4;
    }
    if (st == FR_OK)
        st = fr_recipe_op(&s.code, outer, d, both, &r);
    snprintf(name, sizeof name, "%s_%s_%d_%s", fr_op_info[inner].name, fr_op_info[outer].name, at, fr_dtype_code(d));
    snprintf(place, sizeof place, ".pair[%d][%d][%d]", row, column, d == FR_F64);
    add_recipe(&s, st, d, r, name, place, masks);
}

/* ---- files ------------------------------------------------------------------------------ */

/* Both passes turn the two sides of ?: into control flow across iterations, which the vectoriser
 * then refuses: 11 loops of clip, sign, heaviside and nextafter. */
static const char file_head[] =
    "/* Written by csrc/jit/gen/main.c; one of several files, compiled once per level. */\n"
    "#if defined(__GNUC__) && !defined(__clang__)\n"
    "#pragma GCC optimize(\"no-thread-jumps\", \"no-tree-pre\")\n"
    "#endif\n"
    "#include \"backends/cpu/kernels.h\"\n";

static const char names_head[] = "\n#define PASTE_(a, b, c, d) a##b##c##d\n"
                                 "#define PASTE(a, b, c, d) PASTE_(a, b, c, d)\n"
                                 "#define K(name) PASTE(fr_kernels_, FR_LEVEL, _, name)\n";

/* Blocks of `once` arguments are filled and the kernel is called for CHUNK elements at a time; if all are, for one. It has
 * no more arguments than registers hold, so that the kernel, whose last act it is, needs no frame. */
static const char splat_text[] =
    "\n#define LOOP(n) _Pragma(\"GCC ivdep\") for (size_t i = 0; i < n; i++)\n"
    "#define LOOP_FROM(first, n) _Pragma(\"GCC ivdep\") for (size_t i = first; i < n; i++)\n"
    "\n#define LARGER32(top, x, least) (x > top ? x : top)\n"
    "#ifdef __AVX512F__\n"
    "#define LARGER64 LARGER32\n"
    "#else /* has no maximum of those */\n"
    "#define LARGER64(top, x, least) (top | (x >= least ? UINT64_MAX : 0))\n"
    "#endif\n"
    "\nenum { SPLAT_CHUNK = 256, PIECE = 512, RARE_PIECE = 128 };\n"
    "\nstruct splat {\n"
    "    uint8_t    once[8]; /* 0 to 7: a pointer to one of them is also one to the rest */\n"
    "    fr_map_fn *f;\n"
    "    uint8_t    size_out, size[3]; /* of elements */\n"
    "};\n"
    "\ntypedef uint16_t u2 __attribute__((may_alias));\n"
    "typedef uint32_t u4 __attribute__((may_alias));\n"
    "typedef uint64_t u8 __attribute__((may_alias));\n"
    "\n#define FILL(T) { const T v = *(const T *)from; for (size_t i = 0; i < n; i++) ((T *)to)[i] = v; }\n"
    "\nstatic inline void\n"
    "fill(void *to, const void *from, size_t size, size_t n)\n"
    "{\n"
    "    switch (size) {\n"
    "    case 1: memset(to, *(const uint8_t *)from, n); return;\n"
    "    case 2: FILL(u2) return;\n"
    "    case 4: FILL(u4) return;\n"
    "    case 8: FILL(u8) return;\n"
    "    default: {\n"
    "        const u8 v = ((const u8 *)from)[0], w = ((const u8 *)from)[1];\n"
    "        for (size_t i = 0; i < n; i++) {\n"
    "            ((u8 *)to)[2 * i] = v;\n"
    "            ((u8 *)to)[2 * i + 1] = w;\n"
    "        }\n"
    "    }\n"
    "    }\n"
    "}\n"
    "\nstatic __attribute__((noinline)) void\n"
    "splat(size_t n, char *out, const char *x, const char *y, const char *z, const uint8_t *once)\n"
    "{\n"
    "    const struct splat *form = (const struct splat *)(const void *)(once - *once);\n"
    "    _Alignas(64) char   block[3][SPLAT_CHUNK * 16];\n"
    "    size_t              m = n < SPLAT_CHUNK ? n : SPLAT_CHUNK, size[3];\n"
    "    const char         *a[3] = {x, y, z};\n"
    "    bool                all = n > 0;\n"
    "\n"
    "    for (int k = 0; k < 3; k++)\n"
    "        all &= *once >> k & 1 || !form->size[k];\n"
    "    if (all) { /* one element, so often */\n"
    "        form->f(1, out, x, y, z, 0);\n"
    "        fill(out + form->size_out, out, form->size_out, n - 1);\n"
    "        return;\n"
    "    }\n"
    "    for (int k = 0; k < 3; k++) {\n"
    "        size[k] = form->size[k];\n"
    "        if (*once >> k & 1 && size[k]) {\n"
    "            fill(block[k], a[k], size[k], m);\n"
    "            a[k] = block[k];\n"
    "            size[k] = 0;\n"
    "        }\n"
    "    }\n"
    "    for (size_t i = 0; i < n; i += m, out += m * form->size_out) {\n"
    "        form->f(n - i < m ? n - i : m, out, a[0], a[1], a[2], 0);\n"
    "        for (int k = 0; k < 3; k++)\n"
    "            if (size[k])\n"
    "                a[k] += m * size[k];\n"
    "    }\n"
    "}\n";

static FILE *
open_file(const char *dir, const char *name)
{
    char  path[1024];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!(f = fopen(path, "w")))
        gen_die("cannot write %s", path);
    return f;
}

static void
close_file(FILE *f)
{
    if (ferror(f) | fclose(f))
        gen_die("write error");
}

/* Deals kernels to files, each to the file with the least to compile so far. */
static void
write_files(const char *dir, int n_files)
{
    FILE          *files[MAX_FILES];
    unsigned long  load[MAX_FILES] = {0};
    struct fr_text head = {0};
    char           name[40];
    uint32_t       helpers = 0;

    for (size_t i = 0; i < n_kernels; i++)
        helpers |= kernels[i].helpers;
    fr_text_head(&head, FR_DIALECT_C, helpers);
    if (head.st != FR_OK)
        gen_die("out of memory");
    for (int f = 0; f < n_files; f++) {
        snprintf(name, sizeof name, "kernels_%d.c", f);
        files[f] = open_file(dir, name);
        fprintf(files[f], "%s\n%s%s#include \"backends/cpu/half_map.h\"\n"
                          "#include \"backends/cpu/byte_map.h\"\n"
                          "#include \"backends/cpu/divide_map.h\"\n%s", file_head, head.s, names_head, splat_text);
    }
    fr_text_clear(&head);
    for (size_t i = 0; i < n_kernels; i++) {
        const struct kernel *k = &kernels[i];
        int                  f = 0;

        if (k->same_as != i)
            continue;
        for (int g = 1; g < n_files; g++)
            if (load[g] < load[f])
                f = g;
        load[f] += k->weight + 8;
        fprintf(files[f], "\n#define SELF K(%s)\nfr_map_fn SELF;\nvoid\nSELF%s#undef SELF\n", k->name, k->body);
    }
    for (int f = 0; f < n_files; f++)
        close_file(files[f]);
}

static void
write_table(const char *dir)
{
    FILE *f = open_file(dir, "kernels_table.c");

    fprintf(f, "%s%s#define TEXT_(x) #x\n#define TEXT(x) TEXT_(x)\n\n", file_head, names_head);
    for (size_t i = 0; i < n_kernels; i++)
        if (kernels[i].same_as == i)
            fprintf(f, "fr_map_fn K(%s);\n", kernels[i].name);
    fprintf(f, "\nconst struct fr_kernels PASTE(fr_kernels_, FR_LEVEL, , ) = {\n"
               "    .level = TEXT(FR_LEVEL),\n");
    for (size_t i = 0; i < n_kernels; i++)
        if (*kernels[i].place)
            fprintf(f, "    %s = K(%s),\n", kernels[i].place, kernels[kernels[i].same_as].name);
    fprintf(f, "};\n");
    close_file(f);
}

static bool
is_map(int op, int d)
{
    return fr_op_info[op].class_ == FR_CLASS_MAP && fr_recipe_exists((fr_op)op, (fr_dtype)d);
}

static bool
is_half_map(int op, int d)
{
    return d == FR_F16 && is_map(op, d) && fr_recipe_half_use((fr_op)op) == FR_HALF_ROUNDED;
}

static bool
is_byte_map(int op, int d)
{
    return (op == FR_OP_multiply || op == FR_OP_square) && (d == FR_I8 || d == FR_U8);
}

int
main(int argc, char **argv)
{
    int n_files = argc == 3 ? atoi(argv[2]) : 0;

    if (n_files < 1 || n_files > MAX_FILES)
        gen_die("usage: gen OUTDIR N     with N files, 1 to %d", MAX_FILES);
    for (int op = 0; op < FR_N_OPS; op++)
        for (int d = 0; d < FR_N_DTYPES; d++)
            if (is_byte_map(op, d))
                add_byte_op((fr_op)op, (fr_dtype)d);
            else if (is_map(op, d) && !is_half_map(op, d))
                add_op((fr_op)op, (fr_dtype)d);
    for (int op = 0; op < FR_N_OPS; op++)
        if (is_half_map(op, FR_F16))
            add_half_op((fr_op)op);
    for (int from = 0; from < FR_N_DTYPES; from++)
        for (int to = 0; to < FR_N_DTYPES; to++)
            add_cast((fr_dtype)from, (fr_dtype)to);
    for (int row = 0; row < FR_PAIR_N_INNER; row++)
        for (int column = 0; column < FR_PAIR_N_OUTER; column++) {
            add_pair(row, column, FR_F32);
            add_pair(row, column, FR_F64);
        }
    write_files(argv[1], n_files);
    write_table(argv[1]);
    for (size_t i = 0; i < n_kernels; i++)
        fr_free(kernels[i].body);
    fr_free(kernels);
    return 0;
}
