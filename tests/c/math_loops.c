/* Prints the recipes of the real math functions as C loops, one function each:
 *
 *     void loop_exp_f32(const float *restrict x0, float *restrict out, long n)
 *
 * tests/accuracy.py compiles that text for an ISA level and measures what it computes.  It needs
 * nothing of the project but the recipes, so it also works where the extension is not built. */
#include <inttypes.h>
#include <stdio.h>

#include "jit/recipe_int.h"

/* The part of core/dtype.c that recipes use. */
const struct fr_dtype_info fr_dtype_info[FR_N_DTYPES] = {
#define DTYPE(name, code, kind, size, comp, ctype) [FR_##name] = {code, kind, size, FR_##comp},
#include "core/dtype.def"
};
static const char *const c_type[FR_N_DTYPES] = {
#define DTYPE(name, code, kind, size, comp, ctype) [FR_##name] = #ctype,
#include "core/dtype.def"
};

enum {
#define OP(name, n, ...) ARITY_##name = n,
#include "ir/ops.def"
};

static const struct {
    const char   *name;
    fr_recipe_fn *fn;
    int           arity;
} functions[] = {
#define REAL(name) {#name, recipe_real_##name, ARITY_##name},
    FR_REAL_RECIPES(REAL)
#undef REAL
};

static void
print_constant(const struct fr_minst *in)
{
    if (in->type == FR_F32)
        printf("F32(0x%08" PRIx64 "u)", in->imm);
    else if (in->type == FR_F64)
        printf("F64(0x%016" PRIx64 "u)", in->imm);
    else
        printf("(%s)0x%" PRIx64 "u", c_type[in->type], in->imm);
}

static void
print_inst(const struct fr_mcode *code, size_t i)
{
    static const char *const infix[FR_N_MOPS] = {
        [FR_M_ADD] = "+", [FR_M_SUB] = "-", [FR_M_MUL] = "*", [FR_M_DIV] = "/", [FR_M_IDIV] = "/",
        [FR_M_IREM] = "%", [FR_M_AND] = "&", [FR_M_OR] = "|", [FR_M_XOR] = "^", [FR_M_SHL] = "<<",
        [FR_M_SHR] = ">>", [FR_M_EQ] = "==", [FR_M_NE] = "!=", [FR_M_LT] = "<", [FR_M_LE] = "<=",
    };
    static const char *const call[FR_N_MOPS] = {
        [FR_M_FMA] = "fma", [FR_M_SQRT] = "sqrt", [FR_M_ABS] = "fabs", [FR_M_FLOOR] = "floor",
        [FR_M_CEIL] = "ceil", [FR_M_TRUNC] = "trunc", [FR_M_RINT] = "rint",
    };
    const struct fr_minst *in = &code->inst[i];

    printf("        %s v%zu = ", in->type == FR_BOOL ? "_Bool" : c_type[in->type], i);
    if (in->op == FR_M_INPUT)
        printf("x%" PRIu64 "[i]", in->imm);
    else if (in->op == FR_M_CONST)
        print_constant(in);
    else if (infix[in->op])
        printf("v%u %s v%u", in->a, infix[in->op], in->b);
    else if (call[in->op]) {
        printf("__builtin_%s%s(v%u", call[in->op], in->type == FR_F32 ? "f" : "", in->a);
        if (in->op == FR_M_FMA)
            printf(", v%u, v%u", in->b, in->c);
        printf(")");
    } else if (in->op == FR_M_NEG)
        printf("-v%u", in->a);
    else if (in->op == FR_M_NOT)
        printf("%sv%u", in->type == FR_BOOL ? "!" : "~", in->a);
    else if (in->op == FR_M_MULHI)
        printf("(uint64_t)v%u * v%u >> 32", in->a, in->b);
    else if (in->op == FR_M_SELECT || in->op == FR_M_RARE)
        printf("v%u ? v%u : v%u", in->a, in->b, in->c);
    else if (in->op == FR_M_CVT)
        printf("(%s)v%u", c_type[in->type], in->a);
    else if (in->op == FR_M_BITCAST)
        printf("((union { %s a; %s b; }){v%u}).b", c_type[code->inst[in->a].type],
               c_type[in->type], in->a);
    printf(";\n");
}

static fr_status
print_loop(size_t k, fr_dtype type)
{
    struct fr_mcode code = {0};
    struct fr_mnum x[3] = {0}, out = {0};
    const char *ctype = c_type[type];
    fr_status st;

    for (int j = 0; j < functions[k].arity; j++)
        x[j].re = m_input(&code, type, j);
    TRY(functions[k].fn(&code, type, x, &out));
    TRY(code.st);
    printf("/* %zu instructions */\nvoid loop_%s_%s(", code.n, functions[k].name,
           type == FR_F32 ? "f32" : "f64");
    for (int j = 0; j < functions[k].arity; j++)
        printf("const %s *restrict x%d, ", ctype, j);
    printf("%s *restrict out, long n)\n{\n    for (long i = 0; i < n; i++) {\n", ctype);
    for (size_t i = 0; i < code.n; i++)
        print_inst(&code, i);
    printf("        out[i] = v%u;\n    }\n}\n\n", out.re);
out:
    fr_mcode_clear(&code);
    return st;
}

int
main(int argc, char **argv)
{
    int failed = 0;

    printf("#include <stdint.h>\n\n"
           "#define F32(u) (((union { uint32_t a; float b; }){u}).b)\n"
           "#define F64(u) (((union { uint64_t a; double b; }){u}).b)\n\n");
    for (size_t k = 0; k < FR_LEN(functions); k++) {
        int wanted = argc < 2;

        for (int j = 1; j < argc; j++)
            wanted |= !strcmp(argv[j], functions[k].name);
        if (!wanted)
            continue;
        for (fr_dtype type = FR_F32; type <= FR_F64; type++) {
            fr_status st = print_loop(k, type);

            if (st != FR_OK && st != FR_ENOTSUP) {
                fprintf(stderr, "%s: %s\n", functions[k].name, fr_status_text(st));
                failed = 1;
            }
        }
    }
    return failed;
}
