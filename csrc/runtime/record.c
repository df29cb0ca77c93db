/* runtime/record.c -- see record.h. */
#include "runtime/record.h"

#include <string.h>

#include "base/alloc.h"
#include "base/ways.h"
#include "jit/emit_text.h"

bool fr_record_is_on;

static struct fr_recording now;
static size_t              cap;
static uint32_t            generation;   /* of the recording: a step's number holds in one */

static const char *const group_kinds[] = {"map", "row reduction", "reduction", "row and column reductions", "scan", "whole"};

bool
fr_record_begin(void)
{
    if (fr_record_is_on)
        return false;
    now = (struct fr_recording){.n_nodes = fr_nodes_made};
    cap = 0;
    generation++;
    return fr_record_is_on = true;
}

void
fr_record_end(struct fr_recording *out)
{
    fr_record_is_on = false;
    now.n_nodes = fr_nodes_made - now.n_nodes;
    *out = now;
    now = (struct fr_recording){.n = 0};
}

void
fr_recording_clear(struct fr_recording *r)
{
    for (int i = 0; i < r->n; i++) {
        fr_free(r->of[i].ops);
        fr_free(r->of[i].dims);
        fr_free(r->of[i].line);
    }
    fr_free(r->of);
    *r = (struct fr_recording){.n = 0};
}

/* ---- describing a step ---- */

const char *
fr_step_tier(const struct fr_plan *p, const struct fr_step *s)
{
    const bool product = s->kind == FR_STEP_CALL && !s->counts;
    const int  way = product && s->call.axis                                ? FR_WAY_tiled
                     : product                                              ? FR_WAY_products
                     : s->kind != FR_STEP_LAUNCH                            ? FR_WAY_precompiled
                     : fr_plan_by(p)->kernel_is_compiled(s->kernel)         ? FR_WAY_jitted
                                                                            : FR_WAY_interpreted;

    return fr_way_rows[way].word;
}

const char *
fr_group_kind(const struct fr_group *g)
{
    return group_kinds[g->kind];
}

/* What a node by itself takes, by its bytes and operations: its share of the lines' times. */
static double
node_weight(const struct fr_plan *p, const struct fr_machine *m, int n)
{
    const struct fr_gnode *node = &p->graph->node[n];
    struct fr_work         w = {0};
    double                 n_elems = (double)node->layout->n_elems;

    for (int k = 0; k < node->n_args; k++) {
        const struct fr_edge *e = &node->arg[k];

        if (e->src < 0)
            continue;
        if (fr_op_reduces(node->op))
            n_elems = (double)e->layout->n_elems;
        if (p->fusion->group_of[e->src] != p->fusion->group_of[n])
            w.bytes += (double)(e->layout->n_elems * fr_dtype_size(p->graph->node[e->src].dtype));
    }
    if (p->place[n].kind != FR_PLACE_NONE)
        w.bytes += (double)(node->layout->n_elems * fr_dtype_size(node->dtype));
    fr_work_add(&w, node->op, node->dtype, n_elems);
    return fr_estimate_us(m, &w) - m->launch_us;
}

/* Lines of all groups of the step, and what part of it each has. */
static bool
add_lines(struct fr_record *r, const struct fr_plan *p, const struct fr_step *s)
{
    struct fr_machine m;
    size_t            n_cap = 0;
    double            sum = 0;

    if (fr_machine_of(fr_plan_by(p)->has_no_data ? FR_DEVICE_HOST : p->device, &m, NULL) != FR_OK)
        return true;
    for (int i = 0; i < s->n_instances; i++)
        for (int n = p->fusion->group[s->group[i]]->first; n >= 0; n = p->fusion->next[n]) {
            const uint32_t site = FR_SITE_LINE(p->graph->node[n].site);
            const double   weight = node_weight(p, &m, n);
            int            k = 0;

            while (k < r->n_lines && r->line[k].site != site)
                k++;
            if (k == r->n_lines) {
                if (!FR_GROW(r->line, n_cap, (size_t)k + 1))
                    return false;
                r->line[r->n_lines++] = (struct fr_record_line){.site = site};
            }
            r->line[k].share += weight;
            sum += weight;
        }
    for (int k = 0; k < r->n_lines; k++)
        r->line[k].share = sum > 0 ? r->line[k].share / sum : 1.0 / r->n_lines;
    return true;
}

static void
add_work(struct fr_work *w, const struct fr_step *s)
{
    switch (s->kind) {
    case FR_STEP_COPY: w->bytes += 2 * (double)s->copy_bytes; break;
    case FR_STEP_CALL: fr_work_add_call(w, &s->call); break;
    case FR_STEP_SCAN: fr_work_add_scan(w, s->op, s->dtype, s->instance); break;
    default:
        for (int i = 0; i < s->n_instances; i++)
            fr_work_add_nest(w, s->kernel->nest, &s->instance[i]);
    }
}

/* Names of the operations of the first group, and its dims. False: no memory. */
static bool
add_text(struct fr_record *r, const struct fr_plan *p, const struct fr_step *s)
{
    struct fr_text         ops = {0}, dims = {0};
    const struct fr_group *g;
    char                   room[200];

    if (s->kind == FR_STEP_COPY) {
        const struct fr_layout *l = p->graph->node[s->copy_to].layout;

        r->kind = "copy";
        fr_text_add(&ops, "copy");
        fr_text_add(&dims, "%s", fr_dims_print(l->ndim, fr_layout_dims(l), room, sizeof room));
    } else {
        g = p->fusion->group[s->group[0]];
        r->kind = fr_group_kind(g);
        r->why = p->fusion->why[s->group[0]];
        for (int n = g->first; n >= 0; n = p->fusion->next[n])
            fr_text_add(&ops, n == g->first ? "%s" : " %s", fr_op_info[p->graph->node[n].op].name);
        fr_text_add(&dims, "%s", fr_dims_print(g->ndim, g->dims, room, sizeof room));
    }
    r->ops = ops.s;
    r->dims = dims.s;
    return ops.st == FR_OK && dims.st == FR_OK;
}

/* The step's row, which may be new; NULL: there is no memory for it. */
static struct fr_record *
record_of(struct fr_plan *p, int step)
{
    struct fr_step   *s = &p->step[step];
    struct fr_record *r;

    if (s->recorded_in == generation)
        return &now.of[s->recorded];
    if (!FR_GROW(now.of, cap, (size_t)now.n + 1))
        return NULL;
    r = &now.of[now.n];
    *r = (struct fr_record){.tier = fr_step_tier(p, s), .device = p->device, .counts = s->counts, .bytes_read = s->bytes_read,
                            .bytes_written = s->bytes_written, .n_arrays = s->n_instances ? s->n_instances : 1};
    now.n++;
    if (!add_text(r, p, s) || (s->kind != FR_STEP_COPY && !add_lines(r, p, s)))
        return NULL;
    add_work(&r->work, s);
    s->recorded_in = generation;
    s->recorded = now.n - 1;
    return r;
}

/* ---- what happens ---- */

void
fr_record_eval(const struct fr_plan *p, int64_t n_temporary)
{
    now.n_evals++;
    if (p->new_bytes + n_temporary > now.peak_bytes)
        now.peak_bytes = p->new_bytes + n_temporary;
}

void
fr_record_first(const struct fr_backend *by, int64_t n_bytes)
{
    struct fr_memory_stats m;

    by->memory_stats(by, &m);
    if (n_bytes && m.live_bytes + (uint64_t)n_bytes > now.first_peak_bytes)
        now.first_peak_bytes = m.live_bytes + (uint64_t)n_bytes;
}

void
fr_record_step(struct fr_plan *p, int step, double us)
{
    struct fr_record *r = record_of(p, step);
    struct fr_machine m;

    if (!r) {
        now.is_full = true;
        return;
    }
    r->n_runs++;
    if (us < 0)
        us = fr_machine_of(p->device, &m, NULL) == FR_OK ? fr_estimate_us(&m, &r->work) : 0;
    r->us += us;
}
