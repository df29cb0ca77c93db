/* tests/cuda/ptx_live.c -- how many registers a function needs: the most that are live at one of its instructions.
 *
 * ptxas does better where it computes values again or moves instructions, and needs a few of its own; it is an estimate. */
#include <stdlib.h>

#include "ptx_int.h"

struct live {
    const struct ptx_module *m;
    const struct ptx_kernel *fn;
    uint32_t *number;                           /* of the register at a place of the frame, in words; plus one */
    uint8_t  *words;                            /* of 32 bits, of each register: 0 for predicates */
    uint32_t  n, n_words;                       /* registers; words of a set */
    uint64_t *sets;                             /* live at the beginning of each block */
    uint32_t *begin;                            /* blocks: first instructions, and one more */
    uint32_t *block_of;                         /* of each instruction */
    uint32_t  n_blocks;
};

typedef void visit_fn(uint64_t *set, uint32_t r);

static void
set_add(uint64_t *set, uint32_t r)
{
    set[r / 64] |= 1ull << r % 64;
}

static void
set_remove(uint64_t *set, uint32_t r)
{
    set[r / 64] &= ~(1ull << r % 64);
}

static void
visit(const struct live *l, uint64_t *set, ref r, visit_fn *what)
{
    if (r != NO_REF && r >> 30 == 0 && l->number[r / 4])
        what(set, l->number[r / 4] - 1);
}

/* True if the function reads or writes elements of a vector. */
static bool
has_vector(const struct insn *in, bool *writes)
{
    if (in->kind == K_ALU && (in->fn.alu == ptx_alu_pack || in->fn.alu == ptx_alu_unpack)) {
        *writes = in->fn.alu == ptx_alu_unpack;
        return true;
    }
    *writes = in->kind == K_MEM && (in->fn.mem == ptx_load || in->fn.mem == ptx_load_param || in->fn.mem == ptx_load_frame);
    return in->kind == K_MEM && in->n > 1 && (*writes || in->fn.mem == ptx_store || in->fn.mem == ptx_store_frame);
}

static void
visit_written(const struct live *l, const struct insn *in, uint64_t *set, visit_fn *what)
{
    bool writes;

    visit(l, set, in->d, what);
    visit(l, set, in->d2, what);
    if (has_vector(in, &writes) && writes)
        for (int k = 0; k < in->n; k++)
            visit(l, set, l->m->refs[in->target + (uint32_t)k], what);
    if (in->kind == K_CALL)
        for (int k = 0; k < l->m->calls[in->target]->n_out; k++)
            if (l->m->calls[in->target]->out[k].is_reg)
                visit(l, set, l->m->calls[in->target]->out[k].reg, what);
}

static void
visit_read(const struct live *l, const struct insn *in, uint64_t *set)
{
    const ref args[] = {in->a, in->b, in->c, in->e, in->guard};
    bool      writes;

    for (int k = 0; k < 5; k++)
        visit(l, set, args[k], set_add);
    if (has_vector(in, &writes) && !writes)
        for (int k = 0; k < in->n; k++)
            visit(l, set, l->m->refs[in->target + (uint32_t)k], set_add);
    if (in->kind == K_CALL)
        for (int k = 0; k < l->m->calls[in->target]->n_in; k++)
            if (l->m->calls[in->target]->in[k].is_reg)
                visit(l, set, l->m->calls[in->target]->in[k].reg, set_add);
    if (in->kind == K_RET)
        for (int k = 0; k < l->fn->n_results; k++)
            if (l->fn->results[k].is_reg)
                visit(l, set, l->fn->results[k].reg, set_add);
}

/* What is live before an instruction, of what is live after it. */
static void
step_back(const struct live *l, const struct insn *in, uint64_t *set)
{
    if (in->guard == NO_REF)
        visit_written(l, in, set, set_remove);
    visit_read(l, in, set);
}

static void
number_registers(struct live *l)
{
    const struct ptx_kernel *fn = l->fn;

    for (int i = 0; i < fn->n_rooms; i++)
        for (uint32_t k = 0; k < fn->rooms[i].n; k++) {
            const uint32_t width = fn->rooms[i].width;

            l->number[(fn->rooms[i].at + k * (width == 1 ? 4 : width * LANES)) / 4] = l->n + 1;
            l->words[l->n++] = width == 1 ? 0 : width == 8 ? 2 : 1;
        }
    l->n_words = (l->n + 63) / 64;
}

static bool
find_blocks(struct live *l)
{
    const struct ptx_kernel *fn = l->fn;
    const struct insn       *code = l->m->code;
    const uint32_t           n = fn->end - fn->first;
    uint8_t                 *leads = calloc(n + 1, 1);

    if (!leads)
        return false;
    leads[0] = 1;
    for (uint32_t i = fn->first; i < fn->end; i++) {
        if (code[i].kind == K_BRA)
            leads[code[i].target - fn->first] = 1;
        if (code[i].kind == K_BRX)
            for (uint32_t k = 0; k < l->m->tables[code[i].target].n; k++)
                leads[l->m->tables[code[i].target].target[k] - fn->first] = 1;
        if (code[i].kind == K_BRA || code[i].kind == K_BRX || code[i].kind == K_RET || code[i].kind == K_EXIT)
            leads[i + 1 - fn->first] = 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (leads[i])
            l->begin[l->n_blocks++] = fn->first + i;
        l->block_of[i] = l->n_blocks - 1;
    }
    l->begin[l->n_blocks] = fn->end;
    free(leads);
    return true;
}

static void
join(const struct live *l, uint64_t *set, uint32_t insn)
{
    const uint64_t *from;

    if (insn >= l->fn->end)
        return;
    from = l->sets + (size_t)l->block_of[insn - l->fn->first] * l->n_words;
    for (uint32_t k = 0; k < l->n_words; k++)
        set[k] |= from[k];
}

static void
live_after(const struct live *l, uint32_t block, uint64_t *set)
{
    const uint32_t     last = l->begin[block + 1] - 1;
    const struct insn *in = &l->m->code[last];

    memset(set, 0, l->n_words * sizeof *set);
    if (in->kind == K_BRA)
        join(l, set, in->target);
    if (in->kind == K_BRX)
        for (uint32_t k = 0; k < l->m->tables[in->target].n; k++)
            join(l, set, l->m->tables[in->target].target[k]);
    if (in->guard != NO_REF || (in->kind != K_BRA && in->kind != K_BRX && in->kind != K_RET && in->kind != K_EXIT))
        join(l, set, last + 1);
}

static uint32_t
words_of(const struct live *l, const uint64_t *set)
{
    uint32_t sum = 0;

    for (uint32_t k = 0; k < l->n_words; k++)
        for (uint64_t rest = set[k]; rest; rest &= rest - 1)
            sum += l->words[k * 64 + (uint32_t)__builtin_ctzll(rest)];
    return sum;
}

static uint32_t
most_live(struct live *l, uint64_t *set)
{
    uint32_t most = 0;
    bool     again = true;

    while (again) {
        again = false;
        for (uint32_t b = l->n_blocks; b-- > 0;) {
            uint64_t *to = l->sets + (size_t)b * l->n_words;

            live_after(l, b, set);
            for (uint32_t i = l->begin[b + 1]; i-- > l->begin[b];)
                step_back(l, &l->m->code[i], set);
            if (memcmp(to, set, l->n_words * sizeof *set)) {
                memcpy(to, set, l->n_words * sizeof *set);
                again = true;
            }
        }
    }
    for (uint32_t b = 0; b < l->n_blocks; b++) {
        live_after(l, b, set);
        for (uint32_t i = l->begin[b + 1]; i-- > l->begin[b];) {
            uint32_t n;

            visit_written(l, &l->m->code[i], set, set_add); /* it has a place even if nobody reads it */
            n = words_of(l, set);
            most = n > most ? n : most;
            step_back(l, &l->m->code[i], set);
        }
    }
    return most;
}

/* Zero if memory is short: nothing depends on it. */
void
ptx_live(struct ptx_kernel *fn)
{
    struct live l = {.m = fn->module, .fn = fn};
    uint64_t   *set = NULL;
    const uint32_t n = fn->end - fn->first;

    if (!fn->has_body)
        return;
    l.number = calloc(fn->regs_bytes / 4 + 1, sizeof *l.number);
    l.words = calloc(fn->regs_bytes / 4 + 1, 1);
    l.begin = calloc(n + 2, sizeof *l.begin);
    l.block_of = calloc(n + 1, sizeof *l.block_of);
    if (l.number && l.words && l.begin && l.block_of) {
        number_registers(&l);
        if (find_blocks(&l)) {
            l.sets = calloc((size_t)l.n_blocks * l.n_words + 1, sizeof *l.sets);
            set = calloc(l.n_words + 1, sizeof *set);
            if (l.sets && set)
                fn->n_live = most_live(&l, set);
        }
    }
    free(l.number);
    free(l.words);
    free(l.begin);
    free(l.block_of);
    free(l.sets);
    free(set);
}
