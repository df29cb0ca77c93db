/* runtime/band_place.c -- a band (bands.c) becomes the plan's: where its temporaries are, and how they lie there. */
#include <string.h>

#include "passes/memory.h"
#include "runtime/bands.h"
#include "runtime/storage.h"

enum { SET_BITS = 11 }; /* lines so far apart, or a multiple of that, push each other out of the first cache */

/* From one line to the next in scratch: not so that they share sets of the first cache. */
static int64_t
pitch(const struct fr_band_finder *z, int n)
{
    int64_t bytes = (z->longest[z->maker[n]] * z->made[n] + FR_MEMORY_ALIGN - 1) / FR_MEMORY_ALIGN * FR_MEMORY_ALIGN;

    return bytes % (1 << SET_BITS) ? bytes : bytes + FR_MEMORY_ALIGN;
}

/* Gives the temporaries that only the band sees places in its scratch. */
static fr_status
place_inner(struct fr_band_finder *z, struct fr_err *err)
{
    struct fr_interval *v = fr_arena_room(z->arena, ((size_t)z->n_touched + 1) * sizeof *v);
    int32_t            *node = fr_arena_room(z->arena, ((size_t)z->n_touched + 1) * sizeof *node);
    struct fr_packing   packing;
    int                 n = 0;
    fr_status           st;

    if (!v || !node)
        return fr_no_memory(err, "a plan");
    for (int i = 0; i < z->n_touched; i++) {
        int t = z->touched[i], m = z->maker[t];

        if (!fr_band_is_inner(z, t))
            continue;
        v[n] = (struct fr_interval){m, m, z->longest[m] * z->made[t], 0};
        if (z->line[t])
            v[n].n_bytes = pitch(z, t) * (z->p->place[t].bytes / z->band.n_outer / z->line[t]);
        for (int k = 0; k < z->band.n_items; k++)
            for (int j = 0; j < z->item[k].n_needs; j++)
                if (z->need[z->item[k].first_need + j].item == m)
                    v[n].to = k;
        node[n++] = t;
    }
    if ((st = fr_memory_pack(v, n, 0, 0, &packing, err)) != FR_OK)
        return st;
    for (int i = 0; i < n; i++) {
        z->p->place[node[i]].kind = FR_PLACE_BAND;
        z->p->place[node[i]].offset = v[i].offset;
    }
    z->band.n_bytes = packing.peak;
    return FR_OK;
}

/* Where each operand of each item is while a band runs, and how it lies there. */
static bool
place_operands(struct fr_band_finder *z, struct fr_band *b)
{
    struct fr_arena *arena = &z->p->graph->arena;

    for (int i = 0; i < b->n_items; i++) {
        struct fr_band_item      *it = &b->item[i];
        const struct fr_step     *s = &z->p->step[it->step];
        const struct fr_instance *in = &s->instance[it->instance];
        size_t                    n_op = (size_t)fr_step_operands(s), n_axes = (size_t)in->n_outer + 2;
        int64_t                  *stride = fr_arena_room(arena, n_op * n_axes * sizeof *stride);

        it->inner = fr_arena_room(arena, n_op * sizeof *it->inner);
        it->stride = stride;
        if (!stride || !it->inner)
            return false;
        memcpy(stride, in->stride, n_op * n_axes * sizeof *stride);
        for (size_t k = 0; k < n_op; k++) {
            const struct fr_binding *from = &s->binding[it->instance][k];
            int                      n = from->node;
            int64_t                  line;

            it->inner[k] = (struct fr_band_inner){.item = FR_BAND_NOBODY};
            if (n < 0 || z->p->place[n].kind != FR_PLACE_BAND)
                continue;
            it->inner[k] = (struct fr_band_inner){z->maker[n], z->made[n], z->p->place[n].offset};
            if (!(line = z->line[n]))
                continue;
            it->inner[k].offset += from->offset / line * pitch(z, n) - from->offset;
            for (size_t a = 0; a < n_axes; a++)
                if ((int)a != it->axis && stride[k * n_axes + a] % line == 0)
                    stride[k * n_axes + a] = stride[k * n_axes + a] / line * pitch(z, n);
        }
    }
    return true;
}

/* A kernel for what stays in the caches, where the step's is for what does not. */
static fr_status
change_kernel(struct fr_band_finder *z, struct fr_step *s, struct fr_err *err)
{
    struct fr_nest nest;
    bool           changed = false;
    fr_status      st;

    if ((st = fr_step_copy_nest(s, z->arena, &nest, err)) != FR_OK)
        return st;
    for (int i = 0; i < s->n_instances; i++)
        for (int k = 0; k < nest.n_operands; k++) {
            int n = s->binding[i][k].node;

            if (n >= 0 && z->p->place[n].kind == FR_PLACE_BAND && fr_plan_by(z->p)->schedule_near)
                changed |= fr_plan_by(z->p)->schedule_near(&nest, k);
        }
    return changed ? fr_step_set_nest(s, &nest, err) : FR_OK;
}

fr_status
fr_band_keep(struct fr_band_finder *z, struct fr_err *err)
{
    struct fr_plan  *p = z->p;
    struct fr_arena *arena = &p->graph->arena;
    struct fr_band  *b = &p->band[p->n_bands];
    fr_status        st;

    if ((st = place_inner(z, err)) != FR_OK)
        return st;
    *b = z->band;
    b->item = fr_arena_room(arena, (size_t)b->n_items * sizeof *b->item);
    b->need = fr_arena_room(arena, ((size_t)b->n_needs + 1) * sizeof *b->need);
    if (!b->item || !b->need)
        return fr_no_memory(err, "a plan");
    memcpy(b->item, z->item, (size_t)b->n_items * sizeof *b->item);
    memcpy(b->need, z->need, (size_t)b->n_needs * sizeof *b->need);
    if (!place_operands(z, b))
        return fr_no_memory(err, "a plan");
    for (int s = b->first; s < b->first + b->n_steps; s++) {
        p->step[s].band = p->n_bands + 1;
        if (p->step[s].kind == FR_STEP_LAUNCH && (st = change_kernel(z, &p->step[s], err)) != FR_OK)
            return st;
    }
    p->band_bytes = b->n_bytes > p->band_bytes ? b->n_bytes : p->band_bytes;
    p->n_bands++;
    return FR_OK;
}
