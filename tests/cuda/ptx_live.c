/* tests/cuda/ptx_live.c -- when registers are live: how many a function needs, and which of them may share a place in
 * its frame.
 *
 * The number is an estimate of what ptxas says: that one may compute values again or move instructions, and needs a
 * few of its own.  Small frames are quickly made and stay in the processor's cache.  Lanes that part do no harm: each
 * has its own column of a place, and what is live for it depends on its own path only. */
#include <stdlib.h>

#include "ptx_int.h"

struct live {
    const struct ptx_module *m;
    const struct ptx_kernel *fn;
    uint32_t *number;                           /* of the register at a place of the frame, in words; plus one */
    uint8_t  *words, *width;                    /* of each register: of 32 bits, 0 for predicates; bytes of a lane */
    uint32_t  n, n_words;                       /* registers; words of a set */
    uint64_t *sets;                             /* live at the beginning of each block */
    uint32_t *begin;                            /* blocks: first instructions, and one more */
    uint32_t *block_of;                         /* of each instruction */
    uint32_t  n_blocks;
    uint32_t *first, *last;                     /* moments: instruction i reads at 2 * i and writes at 2 * i + 1 */
    ref      *place;                            /* of each register, in the new frame */
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
            l->width[l->n] = (uint8_t)width;
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

static void
live_at(struct live *l, const uint64_t *set, uint32_t moment)
{
    for (uint32_t k = 0; k < l->n_words; k++)
        for (uint64_t rest = set[k]; rest; rest &= rest - 1) {
            const uint32_t r = k * 64 + (uint32_t)__builtin_ctzll(rest);

            l->first[r] = moment < l->first[r] ? moment : l->first[r];
            l->last[r] = moment > l->last[r] ? moment : l->last[r];
        }
}

/* Also when each is live; `touched` is room for a set. */
static uint32_t
most_live(struct live *l, uint64_t *set, uint64_t *touched)
{
    const size_t bytes = l->n_words * sizeof *set;
    uint32_t     most = 0;
    bool         again = true;

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
        live_at(l, set, 2 * l->begin[b + 1] - 1);
        for (uint32_t i = l->begin[b + 1]; i-- > l->begin[b];) {
            uint32_t n;

            visit_written(l, &l->m->code[i], set, set_add); /* it has a place even if nobody reads it */
            n = words_of(l, set);
            most = n > most ? n : most;
            memset(touched, 0, bytes);
            visit_written(l, &l->m->code[i], touched, set_add);
            live_at(l, touched, 2 * i + 1);
            memset(touched, 0, bytes);
            visit_read(l, &l->m->code[i], touched);
            live_at(l, touched, 2 * i);
            step_back(l, &l->m->code[i], set);
        }
        live_at(l, set, 2 * l->begin[b]);
    }
    return most;
}

/* ---- places ---- */

struct order {
    uint32_t first, r;
};

static int
earlier(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x->r < y->r ? -1 : x->r > y->r;
}

/* Registers of one width (`size` bytes of a frame each) one after the other in the place that is free, or a new one.
 * The end. */
static uint32_t
place_all(struct live *l, const struct order *order, uint32_t n, uint32_t width, uint32_t begin, uint32_t *ends)
{
    const uint32_t size = width == 1 ? 4 : width * LANES;
    uint32_t       n_places = 0;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t r = order[i].r;
        uint32_t       k = 0;

        if (l->width[r] != width)
            continue;
        while (k < n_places && ends[k] >= l->first[r])
            k++;
        n_places += k == n_places;
        ends[k] = l->last[r];
        l->place[r] = begin + k * size;
    }
    return (begin + n_places * size + 63) / 64 * 64;
}

static void
move(const struct live *l, ref *r)
{
    if (*r != NO_REF && *r >> 30 == 0 && l->number[*r / 4])
        *r = l->place[l->number[*r / 4] - 1];
}

static void
move_all(struct live *l)
{
    struct ptx_module *m = l->fn->module;

    for (uint32_t i = l->fn->first; i < l->fn->end; i++) {
        struct insn *in = &m->code[i];
        bool         writes;

        if (has_vector(in, &writes))
            for (int k = 0; k < in->n; k++)
                move(l, &m->refs[in->target + (uint32_t)k]);
        if (in->kind == K_CALL) {
            struct call *c = m->calls[in->target];

            for (int k = 0; k < c->n_in; k++)
                if (c->in[k].is_reg)
                    move(l, &c->in[k].reg);
            for (int k = 0; k < c->n_out; k++)
                if (c->out[k].is_reg)
                    move(l, &c->out[k].reg);
        }
        move(l, &in->d);
        move(l, &in->d2);
        move(l, &in->a);
        move(l, &in->b);
        move(l, &in->c);
        move(l, &in->e);
        move(l, &in->guard);
    }
    for (int k = 0; k < l->fn->n_params; k++)
        if (l->fn->params[k].is_reg)
            move(l, &l->fn->params[k].reg);
    for (int k = 0; k < l->fn->n_results; k++)
        if (l->fn->results[k].is_reg)
            move(l, &l->fn->results[k].reg);
}

static bool
make_places(struct live *l, struct ptx_kernel *fn)
{
    struct order *order = calloc(l->n + 1, sizeof *order);
    uint32_t     *ends = calloc(l->n + 1, sizeof *ends), n = 0, at_ = 64; /* after the carry */

    if (order && ends) {
        for (int k = 0; k < fn->n_params; k++)  /* parameters come before the first instruction, results may never be written */
            if (fn->params[k].is_reg)
                l->first[l->number[fn->params[k].reg / 4] - 1] = 0;
        for (int k = 0; k < fn->n_results; k++)
            if (fn->results[k].is_reg)
                l->first[l->number[fn->results[k].reg / 4] - 1] = 0;
        for (uint32_t r = 0; r < l->n; r++)
            if (l->first[r] != UINT32_MAX)
                order[n++] = (struct order){l->first[r], r};
        qsort(order, n, sizeof *order, earlier);
        for (uint32_t width = 1; width <= 8; width *= 2)
            at_ = place_all(l, order, n, width, at_, ends);
        move_all(l);
        fn->regs_bytes = at_;
    }
    free(order);
    free(ends);
    return order && ends;
}

bool
ptx_live(struct ptx_kernel *fn)
{
    const uint32_t n = fn->end - fn->first, n_places = fn->regs_bytes / 4 + 1;
    struct live    l = {.m = fn->module, .fn = fn};
    uint64_t      *set = NULL, *touched = NULL;
    bool           ok = false;

    if (!fn->has_body)
        return true;
    l.number = calloc(n_places, sizeof *l.number);
    l.words = calloc(n_places, 1);
    l.width = calloc(n_places, 1);
    l.first = calloc(n_places, sizeof *l.first);
    l.last = calloc(n_places, sizeof *l.last);
    l.place = calloc(n_places, sizeof *l.place);
    l.begin = calloc(n + 2, sizeof *l.begin);
    l.block_of = calloc(n + 1, sizeof *l.block_of);
    if (l.number && l.words && l.width && l.first && l.last && l.place && l.begin && l.block_of) {
        memset(l.first, 0xff, n_places * sizeof *l.first);
        number_registers(&l);
        if (find_blocks(&l)) {
            l.sets = calloc((size_t)l.n_blocks * l.n_words + 1, sizeof *l.sets);
            set = calloc(l.n_words + 1, sizeof *set);
            touched = calloc(l.n_words + 1, sizeof *touched);
            if (l.sets && set && touched) {
                fn->n_live = most_live(&l, set, touched);
                ok = make_places(&l, fn);
            }
        }
    }
    free(l.number);
    free(l.words);
    free(l.width);
    free(l.first);
    free(l.last);
    free(l.place);
    free(l.begin);
    free(l.block_of);
    free(l.sets);
    free(set);
    free(touched);
    return ok;
}
