/* tests/c/test_recipe.c -- recipes over arrays, through the micro code interpreter, and nests
 * through the reference executor, for tests/test_recipes.py and tests/test_ref.py, which build this
 * as a shared library and compare with NumPy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/ref/ref.h"
#include "base/alloc.h"
#include "jit/build.h"
#include "jit/loop.h"
#include "jit/recipe.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int test_dtype(const char *code) { return fr_dtype_parse(code, (int)strlen(code)); }
EXPORT int test_op(const char *name) { return fr_op_find(name, (int)strlen(name)); }
EXPORT int test_n_ops(void) { return FR_N_OPS; }
EXPORT const char *test_op_name(int op) { return fr_op_info[op].name; }
EXPORT int test_op_is_map(int op) { return fr_op_info[op].class_ == FR_CLASS_MAP; }
EXPORT int test_op_arity(int op) { return fr_op_info[op].arity; }
EXPORT int test_op_result(int op, int in) { return fr_op_result((fr_op)op, (fr_dtype)in); }
EXPORT int test_exists(int op, int in) { return fr_recipe_exists((fr_op)op, (fr_dtype)in); }

static fr_dtype
machine_type(fr_dtype d)
{
    return d == FR_F16 ? FR_U16 : fr_dtype_info[d].component;
}

static struct fr_mnum
input(struct fr_mcode *code, fr_dtype d, int k)
{
    struct fr_mnum v = {m_input(code, machine_type(d), 2 * k), 0};

    if (fr_dtype_is_complex(d))
        v.im = m_input(code, machine_type(d), 2 * k + 1);
    return v;
}

static void
load(fr_dtype d, const char *p, size_t i, uint64_t v[2])
{
    size_t part = (size_t)fr_dtype_size(fr_dtype_info[d].component);

    v[0] = v[1] = 0;
    memcpy(&v[0], p + i * (size_t)fr_dtype_size(d), part);
    if (fr_dtype_is_complex(d))
        memcpy(&v[1], p + i * (size_t)fr_dtype_size(d) + part, part);
}

static void
run(const struct fr_mcode *code, int n_args, const fr_dtype *types, const void *const *data,
    fr_dtype result, struct fr_mnum r, size_t n, char *out)
{
    uint64_t *values = calloc(code->n + 1, sizeof *values), inputs[6] = {0};
    size_t    part = (size_t)fr_dtype_size(fr_dtype_info[result].component);

    for (size_t i = 0; values && i < n; i++) {
        for (int k = 0; k < n_args; k++)
            load(types[k], data[k], i, inputs + 2 * k);
        fr_micro_eval(code, inputs, values);
        memcpy(out, &values[r.re], part);
        if (fr_dtype_is_complex(result))
            memcpy(out + part, &values[r.im], part);
        out += fr_dtype_size(result);
    }
    free(values);
}

/* Applies op to n elements; the types of the arguments are those of the contract in jit/recipe.h.
 * Returns the status, or minus the number of instructions. */
EXPORT int
test_apply(int op, int in, const int *arg_types, size_t n, const void *const *data, void *out)
{
    struct fr_mcode code = {0};
    struct fr_mnum  args[3], r = {0, 0};
    fr_dtype        types[3] = {0};
    int             n_args = fr_op_info[op].arity, st, n_insts;

    for (int k = 0; k < n_args; k++) {
        types[k] = (fr_dtype)arg_types[k];
        args[k] = input(&code, types[k], k);
    }
    st = fr_recipe_op(&code, (fr_op)op, (fr_dtype)in, args, &r);
    n_insts = (int)code.n;
    if (st == FR_OK)
        run(&code, n_args, types, data, fr_op_result((fr_op)op, (fr_dtype)in), r, n, out);
    fr_mcode_clear(&code);
    return st == FR_OK ? -n_insts : st;
}

EXPORT int
test_cast(int from, int to, size_t n, const void *data, void *out)
{
    struct fr_mcode code = {0};
    struct fr_mnum  r = {0, 0};
    fr_dtype        type = (fr_dtype)from;
    int             st, n_insts;

    st = fr_recipe_cast(&code, type, (fr_dtype)to, input(&code, type, 0), &r);
    n_insts = (int)code.n;
    if (st == FR_OK)
        run(&code, 1, &type, &data, (fr_dtype)to, r, n, out);
    fr_mcode_clear(&code);
    return st == FR_OK ? -n_insts : st;
}

/* How many instructions an operation takes, fmod as many as such a call; `usual`: when no element has
 * a RARE value. */
EXPORT int
test_instructions(int op, int in, int usual)
{
    struct fr_mcode code = {0};
    struct fr_mnum  r = {0, 0}, x[3];
    int             n = 0;
    uint8_t        *needed;

    for (int k = 0; k < fr_op_info[op].arity; k++)
        x[k] = input(&code, (fr_dtype)in, k);
    if (fr_recipe_op(&code, (fr_op)op, (fr_dtype)in, x, &r) == FR_OK &&
        (needed = calloc(code.n, 1))) {
        needed[r.re] = 1;
        needed[fr_dtype_is_complex((fr_dtype)in) ? r.im : r.re] = 1;
        fr_m_needed(&code, usual ? FR_SIDES_NOTED : FR_SIDES_ALL, needed);
        for (size_t i = 0; i < code.n; i++)
            if (needed[i] && code.inst[i].op != FR_M_CONST && code.inst[i].op != FR_M_INPUT)
                n += code.inst[i].op == FR_M_FMOD ? 40 : 1;
        free(needed);
    }
    fr_mcode_clear(&code);
    return n;
}

/* Every instruction has a machine type, and arguments that come before it and agree in type. */
EXPORT int
test_well_formed(int op, int in, const int *arg_types, char *message, size_t cap)
{
    struct fr_mcode code = {0};
    struct fr_mnum  args[3], r = {0, 0};
    int             bad = 0;

    for (int k = 0; k < fr_op_info[op].arity; k++)
        args[k] = input(&code, (fr_dtype)arg_types[k], k);
    if (fr_recipe_op(&code, (fr_op)op, (fr_dtype)in, args, &r) != FR_OK)
        bad = 1;
    for (size_t i = 0; i < code.n && !bad; i++) {
        const struct fr_minst *m = &code.inst[i];
        fr_dtype               a = code.inst[m->a].type, b = code.inst[m->b].type;
        int                    n = fr_mop_arity[m->op];
        bool                   is_float = m->type == FR_F32 || m->type == FR_F64;

        bad = m->type == FR_F16 || fr_dtype_is_complex(m->type) || (n > 0 && m->a >= i) ||
              (n > 1 && m->b >= i) || (n > 2 && m->c >= i);
        switch (m->op) {
        case FR_M_EQ: case FR_M_NE: case FR_M_LT: case FR_M_LE:
            bad |= m->type != FR_BOOL || a != b;
            break;
        case FR_M_SELECT: case FR_M_RARE:
            bad |= a != FR_BOOL || b != m->type || code.inst[m->c].type != m->type;
            break;
        case FR_M_BITCAST: bad |= fr_dtype_size(a) != fr_dtype_size(m->type); break;
        case FR_M_CVT: break;
        case FR_M_MULHI: bad |= m->type != FR_U32 || a != FR_U32 || b != FR_U32; break;
        case FR_M_AND: case FR_M_OR: case FR_M_XOR: case FR_M_NOT:
            bad |= is_float || a != m->type || (n > 1 && b != m->type);
            break;
        case FR_M_SHL: case FR_M_SHR: case FR_M_IDIV: case FR_M_IREM:
            bad |= is_float || m->type == FR_BOOL || a != m->type || b != m->type;
            break;
        case FR_M_DIV: case FR_M_FMA: case FR_M_FMOD: case FR_M_SQRT: case FR_M_FLOOR:
        case FR_M_CEIL: case FR_M_TRUNC: case FR_M_RINT: case FR_M_ABS:
            bad |= !is_float || a != m->type || (n > 1 && b != m->type) ||
                   (n > 2 && code.inst[m->c].type != m->type);
            break;
        default:
            bad |= (n > 0 && (m->type == FR_BOOL || a != m->type)) || (n > 1 && b != m->type);
            break;
        }
        if (bad)
            snprintf(message, cap, "%s %s at %zu: arguments %s %s", fr_mop_name[m->op],
                     fr_dtype_code(m->type), i, fr_dtype_code(a), fr_dtype_code(b));
    }
    fr_mcode_clear(&code);
    return bad;
}

/* Runs a nest given as text. strides as in struct fr_instance. */
EXPORT int
test_ref(const char *text, int n_outer, const int64_t *outer, int64_t n_rows, int64_t n_inner,
         char **ptr, const int64_t *stride, const void *scalars, char *message, size_t cap)
{
    struct fr_instance in = {.n_outer = n_outer, .n_rows = n_rows, .n_inner = n_inner, .ptr = ptr,
                             .stride = stride, .scalars = scalars};
    struct fr_nest    *nest = NULL;
    struct fr_err      err = {0};
    fr_status          st;

    memcpy(in.outer, outer, (size_t)n_outer * sizeof *outer);
    if ((st = fr_nest_parse(text, &nest, &err)) == FR_OK)
        st = fr_ref_launch(nest, &in, &err);
    fr_nest_free(nest);
    snprintf(message, cap, "%s", err.text);
    return st;
}

EXPORT void test_fail_at(long n) { fr_alloc_fail_at(n); }
EXPORT long test_live(void) { return fr_alloc_live(); }
