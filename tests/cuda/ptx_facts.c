/* tests/cuda/ptx_facts.c -- what ptxas would say of a kernel and the functions that it may call. */
#include <stdlib.h>

#include "ptx_int.h"

static uint32_t
aligned(uint32_t x, uint32_t n)
{
    return (x + n - 1) / n * n;
}

static void
visit(struct ptx_kernel *fn, uint32_t depth_local, struct ptx_facts *f, uint8_t *state)
{
    struct ptx_module *m = fn->module;
    uint32_t           local = depth_local + (fn->local_bytes + 15) / 16 * 16;

    state[fn->index] = 2;
    f->local_bytes = local > f->local_bytes ? local : f->local_bytes;
    for (int i = 0; i < fn->n_calls; i++) {
        uint32_t to = fn->calls[i];

        if (state[to] == 2)
            f->recursive = true;
        else
            visit(m->functions[to], local, f, state);
    }
    if (fn->calls_any)
        for (int i = 0; i < m->n_functions; i++)
            if (!m->functions[i]->is_entry && m->functions[i]->has_body && state[i] == 0)
                visit(m->functions[i], local, f, state);
    state[fn->index] = 1;
}

void
ptx_facts(const struct ptx_kernel *k, struct ptx_facts *f)
{
    const struct ptx_module *m = k->module;
    uint8_t                 *state = calloc((size_t)m->n_functions + 1, 1);
    uint32_t                 align = 1;

    *f = (struct ptx_facts){.n_params = k->n_params, .param_bytes = k->param_bytes, .param_offset = k->param_offset,
                            .all_params_bytes = k->all_params_bytes, .n_pred = k->n_pred, .n_b16 = k->n_b16, .n_b32 = k->n_b32,
                            .n_b64 = k->n_b64, .max_threads = k->max_threads, .target = m->target};
    memcpy(f->max_block, k->max_block, sizeof f->max_block);
    if (!state)
        return;
    visit((struct ptx_kernel *)k, 0, f, state);
    for (int i = 0; i < m->n_functions; i++) {
        const struct ptx_kernel *fn = m->functions[i];

        if (!state[i])
            continue;
        f->n_instructions += fn->end - fn->first;
        f->n_registers = fn->n_live > f->n_registers ? fn->n_live : f->n_registers;
        if (fn->contracts_at && (!f->contracts_at || fn->contracts_at < f->contracts_at))
            f->contracts_at = fn->contracts_at;
    }
    for (int i = 0; i < m->n_variables; i++) {
        const struct variable *v = m->variables[i];

        if (v->space != S_SHARED || v->is_open || (v->owner >= 0 && !state[v->owner]))
            continue;
        align = v->align > align ? v->align : align;
        f->shared_bytes = aligned(f->shared_bytes, v->align) + v->n_bytes;
    }
    f->shared_bytes = aligned(f->shared_bytes, align);
    free(state);
}
