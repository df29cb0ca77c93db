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
fr_m_emit(struct fr_mcode *code, enum fr_mop op, fr_dtype type, fr_mval a, fr_mval b, fr_mval c,
          uint64_t imm)
{
    struct fr_minst in = {.op = op, .type = type, .imm = imm};

    in.a = fr_mop_arity[op] > 0 ? a : 0;
    in.b = fr_mop_arity[op] > 1 ? b : 0;
    in.c = fr_mop_arity[op] > 2 ? c : 0;
    /* Recipes are short, so looking back over them is cheaper than a table. */
    for (size_t i = code->n; i-- > 0;) {
        const struct fr_minst *o = &code->inst[i];

        if (o->op == op && o->type == type && o->imm == imm && o->a == in.a && o->b == in.b &&
            o->c == in.c)
            return (fr_mval)i;
    }
    if (code->n >= UINT16_MAX || !FR_GROW(code->inst, code->cap, code->n + 1)) {
        code->st = FR_ENOMEM;
        return 0;
    }
    code->inst[code->n] = in;
    return (fr_mval)code->n++;
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

void
fr_mcode_clear(struct fr_mcode *code)
{
    fr_free(code->inst);
    *code = (struct fr_mcode){0};
}
