#include "jit/micro.h"

#include "base/alloc.h"

const char *const fr_mop_name[FR_N_MOPS] = {
#define NAME(name, n) [FR_M_##name] = #name,
    FR_MICRO_OPS(NAME)
#undef NAME
};

const uint8_t fr_mop_arity[FR_N_MOPS] = {
#define ARITY(name, n) [FR_M_##name] = n,
    FR_MICRO_OPS(ARITY)
#undef ARITY
};

fr_mval
fr_m_emit(struct fr_mcode *code, enum fr_mop op, fr_dtype type, fr_mval a, fr_mval b, fr_mval c, uint64_t imm)
{
    struct fr_minst in = {.op = op, .type = type, .imm = imm};

    in.a = fr_mop_arity[op] > 0 ? a : 0;
    in.b = fr_mop_arity[op] > 1 ? b : 0;
    in.c = fr_mop_arity[op] > 2 ? c : 0;
    /* Recipes are short, so looking back over them is cheaper than a table. */
    for (size_t i = code->n; i-- > 0;) {
        const struct fr_minst *o = &code->inst[i];

        if (o->op == op && o->type == type && o->imm == imm && o->a == in.a && o->b == in.b && o->c == in.c)
            return (fr_mval)i;
    }
    if (code->n >= UINT16_MAX || !FR_GROW(code->inst, code->cap, code->n + 1)) {
        code->st = FR_ENOMEM;
        return 0;
    }
    code->inst[code->n] = in;
    return (fr_mval)code->n++;
}

struct fr_mnum
fr_m_number(struct fr_mcode *code, enum fr_mop op, fr_dtype d, int k)
{
    fr_dtype       m = fr_machine_type(d);
    struct fr_mnum v = {fr_m_emit(code, op, m, 0, 0, 0, 2 * (uint64_t)k), 0};

    if (fr_dtype_is_complex(d))
        v.im = fr_m_emit(code, op, m, 0, 0, 0, 2 * (uint64_t)k + 1);
    return v;
}

void
fr_m_needed(const struct fr_mcode *code, enum fr_sides sides, uint8_t *needed)
{
    for (size_t i = code->n; i-- > 0;) {
        const struct fr_minst *in = &code->inst[i];
        const fr_mval          args[3] = {in->a, in->b, in->c};

        for (int k = 0; needed[i] && k < fr_mop_arity[in->op]; k++)
            if (in->op != FR_M_RARE || (sides >> k & 1))
                needed[args[k]] = 1;
    }
}

bool
fr_m_has_rare(const struct fr_mcode *code)
{
    for (size_t i = 0; i < code->n; i++)
        if (code->inst[i].op == FR_M_RARE)
            return true;
    return false;
}

struct fr_mcost
fr_m_cost(enum fr_mop op, fr_dtype type, fr_dtype from)
{
    /* Those that are not here are 1 and 1. */
    static const struct fr_mcost float_cost[FR_N_MOPS] = {
        [FR_M_ADD] = {4, 1},    [FR_M_SUB] = {4, 1},    [FR_M_MUL] = {4, 1},    [FR_M_FMA] = {4, 1},
        [FR_M_DIV] = {16, 16},  [FR_M_SQRT] = {20, 20}, [FR_M_RINT] = {8, 2},   [FR_M_CVT] = {4, 1},
        [FR_M_DIVBY] = {12, 3}, [FR_M_DIVFEW] = {8, 2}, [FR_M_FLOOR] = {16, 6}, [FR_M_CEIL] = {16, 6},
        [FR_M_TRUNC] = {16, 6},
        [FR_M_EQ] = {3, 1},     [FR_M_NE] = {3, 1},     [FR_M_LT] = {3, 1},     [FR_M_LE] = {3, 1},
    };
    static const struct fr_mcost int_cost[FR_N_MOPS] = {
        [FR_M_MUL] = {10, 2}, [FR_M_MULHI] = {10, 6}, [FR_M_CVT] = {4, 1}, [FR_M_EQ] = {3, 1},
        [FR_M_NE] = {3, 1},   [FR_M_LT] = {3, 1},     [FR_M_LE] = {3, 1},
    };
    bool            is_float = fr_dtype_is_float(type) || fr_dtype_is_float(from);
    struct fr_mcost cost = is_float ? float_cost[op] : int_cost[op];

    return cost.latency ? cost : (struct fr_mcost){1, 1};
}

bool
fr_m_is_scalar(enum fr_mop op)
{
    return op == FR_M_FMOD || op == FR_M_IDIV || op == FR_M_IREM;
}

enum fr_mkind
fr_m_kind(enum fr_mop op, fr_dtype type, fr_dtype from)
{
    const bool is_float = fr_dtype_is_float(type) || fr_dtype_is_float(from);

    switch (op) {
    case FR_M_ADD: case FR_M_SUB: case FR_M_FMA: return is_float ? FR_MK_FLOAT : FR_MK_BITS;
    case FR_M_MUL: return is_float ? FR_MK_FLOAT : FR_MK_WHOLE;
    case FR_M_DIVBY: case FR_M_DIVFEW: return FR_MK_FLOAT;
    case FR_M_DIV: return FR_MK_DIVIDE;
    case FR_M_SQRT: return FR_MK_ROOT;
    case FR_M_MULHI: return FR_MK_WHOLE;
    case FR_M_CVT: case FR_M_RINT: case FR_M_FLOOR: case FR_M_CEIL: case FR_M_TRUNC: return FR_MK_CONVERT;
    default: return fr_m_is_scalar(op) ? FR_MK_SCALAR : FR_MK_BITS;
    }
}

int
fr_m_unroll(int slots, int latency)
{
    enum { STARTED_PER_CYCLE = 2, WAITING = 32 };
    int missing = STARTED_PER_CYCLE * latency - WAITING;

    return missing > slots && slots ? (missing + slots - 1) / slots : 1;
}

void
fr_mcode_clear(struct fr_mcode *code)
{
    fr_free(code->inst);
    *code = (struct fr_mcode){0};
}
