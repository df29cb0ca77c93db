/* runtime/record.c -- see record.h. */
#include "runtime/record.h"

#include <string.h>

#include "base/alloc.h"
#include "base/ways.h"
#include "jit/emit_text.h"
#include "runtime/ready.h"

bool fr_record_is_on;

static struct fr_recording now;
static size_t              cap;
static uint32_t            generation;   /* of the recording: a plan's number holds in one */

/* What a plan is for some lines. */
struct run {
    uint64_t lines;              /* a hash of their sites */
    int      first;              /* record, of its first step */
    int      next;               /* of the same plan; -1: that was all */
};
static struct run *runs;
static size_t      n_runs, cap_runs;

/* Nodes by themselves: places in now.of, plus 1; 0: free. */
static uint32_t *slots;
static size_t    last_slot, n_slots;

static const char *const group_kinds[] = {"map", "row reduction", "reduction", "row and column reductions", "scan", "whole"};

bool
fr_record_begin(void)
{
    if (fr_record_is_on)
        return false;
    now = (struct fr_recording){.n_nodes = fr_nodes_made};
    cap = n_runs = 0;
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
    fr_free(runs);
    fr_free(slots);
    runs = NULL;
    slots = NULL;
    n_runs = cap_runs = last_slot = n_slots = 0;
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

/* The site of a node of the plan for what it is given. What a pass made has that of what it was made for. */
static uint32_t
site_of(const struct fr_plan *p, const struct fr_inputs *in, int n)
{
    const uint32_t site = p->graph->node[n].site;

    if (!in->id && !in->site)
        return site;
    if (p->given[n] >= 0)
        return fr_inputs_site(in, p->given[n]);
    for (int i = 0; i < p->graph->n_nodes; i++)
        if (p->given[i] >= 0 && p->graph->node[i].site == site)
            return fr_inputs_site(in, p->given[i]);
    return site;
}

/* Lines of all groups of the step, and what part of it each has. */
static bool
add_lines(struct fr_record *r, const struct fr_plan *p, const struct fr_inputs *in, const struct fr_step *s)
{
    struct fr_machine m;
    size_t            n_cap = 0;
    double            sum = 0;

    if (fr_machine_of(fr_plan_by(p)->has_no_data ? FR_DEVICE_HOST : p->device, &m, NULL) != FR_OK)
        return true;
    for (int i = 0; i < s->n_instances; i++)
        for (int n = p->fusion->group[s->group[i]]->first; n >= 0; n = p->fusion->next[n]) {
            const uint32_t site = FR_SITE_LINE(site_of(p, in, n));
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
add_work(struct fr_work *w, const struct fr_plan *p, const struct fr_step *s, const int64_t *moving)
{
    struct fr_work_memory of[FR_MAX_OPERANDS];

    switch (s->kind) {
    case FR_STEP_COPY: w->bytes += 2 * (double)s->copy_bytes; break;
    case FR_STEP_CALL: fr_work_add_call(w, &s->call); break;
    case FR_STEP_SCAN: fr_work_add_scan(w, s->op, s->dtype, s->instance); break;
    default:
        for (int i = 0; i < s->n_instances; i++) {
            for (int k = 0; k < s->kernel->nest->n_operands; k++) {
                const struct fr_binding *b = &s->binding[i][k];
                const int n = b->node, root = n < 0 ? -1 - k : fr_place_root(p->place, n);

                of[k] = (struct fr_work_memory){root, n < 0 ? 0 : (double)p->place[root].bytes, fr_binding_at(b, moving)};
            }
            fr_work_add_nest(w, s->kernel->nest, &s->instance[i], of);
        }
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

/* How soon the machine could do it; 0: it is not known. */
static double
limit_us(fr_device device, const struct fr_work *w)
{
    struct fr_machine m;

    return fr_machine_of(device < FR_DEVICE_CUDA ? FR_DEVICE_META : device, &m, NULL) == FR_OK ? fr_limit_us(&m, w) : 0;
}

/* A new record; its number, or -1: memory is out. */
static int
add_record(const struct fr_record *r)
{
    if (!FR_GROW(now.of, cap, (size_t)now.n + 1)) {
        now.is_full = true;
        return -1;
    }
    now.of[now.n] = *r;
    now.of[now.n].next = -1;
    return now.n++;
}

static bool
describe_step(struct fr_plan *p, const struct fr_inputs *in, int step)
{
    const struct fr_step *s = &p->step[step];
    const int i = add_record(&(struct fr_record){.tier = fr_step_tier(p, s), .device = p->device, .counts = s->counts,
                             .bytes_read = s->bytes_read, .bytes_written = s->bytes_written,
                             .n_arrays = s->n_instances ? s->n_instances : 1});
    struct fr_record *r;

    if (i < 0)
        return false;
    r = &now.of[i];
    if (!add_text(r, p, s) || (s->kind != FR_STEP_COPY && !add_lines(r, p, in, s))) {
        now.is_full = true;
        return false;
    }
    add_work(&r->work, p, s, in->moving);
    r->limit_us = limit_us(p->device, &r->work);
    return true;
}

/* The record of the same run by another executor; -1: memory is out. */
static int
by_another(int i, const char *tier)
{
    struct fr_record *r, copy;
    char             *ops, *dims;
    int               k;

    while (now.of[i].tier != tier && now.of[i].next >= 0)
        i = now.of[i].next;
    r = &now.of[i];
    if (r->tier == tier)
        return i;
    copy = *r;
    copy.tier = tier;
    copy.n_runs = copy.ticks = copy.threads = 0;
    copy.us = 0;
    copy.ops = ops = fr_malloc(strlen(r->ops) + 1);
    copy.dims = dims = fr_malloc(strlen(r->dims) + 1);
    copy.line = fr_malloc(((size_t)r->n_lines + 1) * sizeof *copy.line);
    if (!ops || !dims || !copy.line || (k = add_record(&copy)) < 0) {
        fr_free(ops);
        fr_free(dims);
        fr_free(copy.line);
        now.is_full = true;
        return -1;
    }
    r = &now.of[i];
    memcpy(ops, r->ops, strlen(r->ops) + 1);
    memcpy(dims, r->dims, strlen(r->dims) + 1);
    if (r->n_lines)
        memcpy(copy.line, r->line, (size_t)r->n_lines * sizeof *copy.line);
    return r->next = k;
}

/* ---- memory ---- */

static void
add_array(const struct fr_record_array *a)
{
    int i = now.n_arrays;

    if (i == FR_RECORD_ARRAYS && now.array[i - 1].n_bytes >= a->n_bytes)
        return;
    if (i == FR_RECORD_ARRAYS)
        i--;
    else
        now.n_arrays++;
    for (; i > 0 && now.array[i - 1].n_bytes < a->n_bytes; i--)
        now.array[i] = now.array[i - 1];
    now.array[i] = *a;
}

static void
describe_array(struct fr_record_array *a, const void *memory, uint32_t site, fr_dtype dtype, const struct fr_layout *l,
               int64_t n_bytes)
{
    *a = (struct fr_record_array){
        .memory = memory, .site = FR_SITE_LINE(site), .dtype = dtype, .ndim = l->ndim, .n_bytes = n_bytes};
    if (l->ndim)
        memcpy(a->dims, fr_layout_dims(l), (size_t)l->ndim * sizeof *a->dims);
}

/* What there is: leaves over memory of ours, and what the run has made. Of leaves over one memory the first stands for all. */
static void
look_at_peak(const struct fr_backend *by, const struct fr_plan *p, int64_t n_temporary)
{
    struct fr_record_array a;

    now.n_arrays = 0;
    now.at_peak_temporary = n_temporary;
    for (uint32_t i = 2; i < fr_nodes_cap; i++) {
        const struct fr_node   *n = &fr_nodes[i];
        const struct fr_buffer *b = n->op == FR_OP_leaf && n->refs ? n->v.buffer : NULL;
        bool                    is_new = true;

        if (!b || b->owner || (b->home ? b->home : fr_backend) != by)
            continue;
        describe_array(&a, b->mem, n->site, n->dtype, n->layout, (int64_t)b->n_bytes);
        for (int k = 0; k < now.n_arrays && is_new; k++)
            is_new = now.array[k].memory != a.memory;
        if (is_new)
            add_array(&a);
    }
    for (int i = 0; i < p->n_new; i++) {
        const int              n = p->new_[i];
        const struct fr_gnode *node = &p->graph->node[n];

        describe_array(&a, p->base[n], node->site, node->dtype, node->layout, p->place[n].bytes);
        add_array(&a);
    }
}

void
fr_record_memory(const struct fr_backend *by)
{
    struct fr_memory_stats m;

    if (!fr_spans_on())
        return;
    by->memory_stats(by, &m);
    fr_span_memory(m.live_bytes);
}

/* ---- what happens ---- */

void
fr_record_eval(const struct fr_plan *p, int64_t n_temporary)
{
    const struct fr_backend *by = fr_plan_by(p);
    struct fr_memory_stats   m;

    now.n_evals++;
    if (p->new_bytes + n_temporary > now.peak_bytes)
        now.peak_bytes = p->new_bytes + n_temporary;
    if (!fr_spans_on())
        return;
    by->memory_stats(by, &m);
    fr_span_memory(m.live_bytes);
    /* (Looking is work for each array: for all that grows, a few looks are enough.) */
    if (m.live_bytes > now.at_peak_bytes + now.at_peak_bytes / 32) {
        now.at_peak_bytes = m.live_bytes;
        look_at_peak(by, p, n_temporary);
    }
}

void
fr_record_first(const struct fr_backend *by, int64_t n_bytes)
{
    struct fr_memory_stats m;

    by->memory_stats(by, &m);
    if (n_bytes && m.live_bytes + (uint64_t)n_bytes > now.first_peak_bytes)
        now.first_peak_bytes = m.live_bytes + (uint64_t)n_bytes;
}

static uint64_t
hash_of_lines(const struct fr_inputs *in)
{
    uint64_t x = 0;

    if (in->id || in->site)
        for (int i = 0; i < in->n; i++)
            x = (x ^ FR_SITE_LINE(fr_inputs_site(in, i))) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return x;
}

int
fr_record_run(struct fr_plan *p, const struct fr_inputs *in)
{
    const uint64_t lines = hash_of_lines(in);
    const int      first = now.n;
    int            i = p->recorded_in == generation ? p->recorded_as : -1;

    for (int k = i; k >= 0; k = runs[k].next)
        if (runs[k].lines == lines)
            return runs[k].first;
    if (!FR_GROW(runs, cap_runs, n_runs + 1)) {
        now.is_full = true;
        return -1;
    }
    for (int k = 0; k < p->n_steps; k++)
        if (!describe_step(p, in, k))
            return -1;
    runs[n_runs] = (struct run){lines, first, i};
    p->recorded_in = generation;
    p->recorded_as = (int32_t)n_runs++;
    return first;
}

void
fr_record_estimated(struct fr_plan *p, int first)
{
    struct fr_machine m;

    if (first < 0 || fr_machine_of(p->device, &m, NULL) != FR_OK)
        return;
    for (int i = 0; i < p->n_steps; i++) {
        now.of[first + i].n_runs++;
        now.of[first + i].us += fr_estimate_us(&m, &now.of[first + i].work);
    }
}

struct fr_record_mark
fr_record_begun(void)
{
    return (struct fr_record_mark){fr_span_begin(), fr_way_taken(FR_WAY_jitted), fr_way_taken(FR_WAY_interpreted),
                                   fr_way_taken(FR_WAY_shared)};
}

/* Who has run since then; `otherwise`, if it was no launch. */
static const char *
tier_since(const struct fr_record_mark *m, const char *otherwise)
{
    return fr_way_taken(FR_WAY_jitted) != m->jitted             ? fr_way_rows[FR_WAY_jitted].word
           : fr_way_taken(FR_WAY_interpreted) != m->interpreted ? fr_way_rows[FR_WAY_interpreted].word
                                                                : otherwise;
}

/* On how many threads it ran; 0 of a product that is BLAS's, which has its own. */
static int
threads_since(const struct fr_record_mark *m, const struct fr_backend *by, bool is_product)
{
    return is_product ? 0 : fr_way_taken(FR_WAY_shared) != m->shared ? by->n_workers() : 1;
}

void
fr_record_ran(struct fr_plan *p, int first, int step, int n, const int64_t *share, const struct fr_record_mark *mark)
{
    const bool     is_alone = n == 1;
    const struct fr_step *s = &p->step[step];
    const int      n_threads = is_alone ? threads_since(mark, fr_plan_by(p), s->kind == FR_STEP_CALL && !s->counts && !s->call.axis)
                                        : fr_plan_by(p)->n_workers();
    const uint64_t end = mark->span.begin ? fr_ticks() : 0, all = end - mark->span.begin;
    double         sum = 0;
    uint64_t       at = mark->span.begin;

    for (int k = 0; k < n && !is_alone; k++)
        sum += share ? (double)share[k] : now.of[first + step + k].limit_us;
    for (int k = 0; k < n; k++) {
        const char  *tier = fr_step_tier(p, &p->step[step + k]);
        const int    i = by_another(first + step + k, is_alone ? tier_since(mark, tier) : tier);
        const double part = is_alone || sum <= 0 ? 1.0 / n : (share ? (double)share[k] : now.of[first + step + k].limit_us) / sum;
        const uint64_t until = k + 1 == n ? end : at + (uint64_t)(part * (double)all);

        if (i < 0)
            return;
        now.of[i].n_runs++;
        now.of[i].threads += (uint64_t)n_threads;
        now.of[i].ticks += until - at;
        if (mark->span.begin)
            fr_span_ended_at(&(struct fr_span_mark){at, k == 0 ? mark->span.within : fr_span_within()}, until, FR_SPAN_kernel,
                             (uint32_t)i, 0, (uint64_t)n_threads);
        at = until;
    }
}

/* ---- nodes by themselves ---- */

static bool
is_of(const struct fr_record *r, const struct fr_record *x)
{
    return r->bytes_read == x->bytes_read && r->bytes_written == x->bytes_written && r->line->site == x->line->site &&
           strcmp(r->ops, x->ops) == 0 && r->work.wide[0] == x->work.wide[0] && r->tier == x->tier;
}

static size_t
slot_of(const struct fr_record *r)
{
    const uint64_t x = ((uint64_t)r->line->site << 32 ^ r->bytes_read ^ r->bytes_written << 16 ^ (uint64_t)(uintptr_t)r->tier) *
                       UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(x >> 32);
}

static bool
more_slots(void)
{
    const size_t n = slots ? 2 * (last_slot + 1) : 256;
    uint32_t    *fresh = fr_calloc(n, sizeof *fresh);

    for (size_t i = 0; fresh && slots && i <= last_slot; i++)
        if (slots[i]) {
            size_t at = slot_of(&now.of[slots[i] - 1]) & (n - 1);

            while (fresh[at])
                at = (at + 1) & (n - 1);
            fresh[at] = slots[i];
        }
    if (!fresh)
        return false;
    fr_free(slots);
    slots = fresh;
    last_slot = n - 1;
    return true;
}

/* What the node does: its bytes and operations. */
static void
add_node_work(struct fr_record *r, const struct fr_node *n)
{
    double n_elems = (double)n->layout->n_elems;

    for (int k = 0; k < n->n_args; k++) {
        const struct fr_node *a;

        if (fr_arg_is_number(n, k) || (n->op == FR_OP_store && k != 1))
            continue;
        a = &fr_nodes[n->arg[k]];
        r->bytes_read += (uint64_t)(a->layout->n_elems * fr_dtype_size(a->dtype));
        if (fr_op_reduces(n->op))
            n_elems = (double)a->layout->n_elems;
    }
    if (n->op == FR_OP_store)
        n_elems = (double)fr_nodes[n->arg[2]].layout->n_elems;
    r->bytes_written = n->op == FR_OP_store ? (uint64_t)n_elems * (uint64_t)fr_dtype_size(n->dtype)
                                            : (uint64_t)(n->layout->n_elems * fr_dtype_size(n->dtype));
    r->work.read = (double)r->bytes_read;
    r->work.written = (double)r->bytes_written;
    r->work.bytes = r->work.read + r->work.written;
    if (n->op == FR_OP_matmul) {
        const struct fr_layout *a = fr_nodes[n->arg[0]].layout;

        n_elems *= 2 * (double)fr_layout_dims(a)[a->ndim - 1];
        r->work.product = n_elems;
        r->work.is_product_wide = fr_dtype_size(n->dtype) > 4;
        fr_work_add(&r->work, FR_OP_add, n->dtype, n_elems);
    } else {
        fr_work_add(&r->work, (fr_op)n->op, n->dtype, n_elems);
    }
}

/* The number of its record, which may be new; -1: memory is out. */
static int
record_of_node(const struct fr_node *n, const char *tier)
{
    struct fr_record_line line = {FR_SITE_LINE(n->site), 1};
    struct fr_record      r = {.kind = "node by itself", .tier = tier, .ops = (char *)fr_op_info[n->op].name, .dims = (char *)"",
                               .counts = n->op != FR_OP_matmul, .n_arrays = 1, .n_lines = 1, .line = &line, .next = -1};
    const struct fr_layout *l = n->op == FR_OP_store ? fr_nodes[n->arg[2]].layout
                                : fr_op_reduces(n->op) && !fr_arg_is_number(n, 0) ? fr_nodes[n->arg[0]].layout : n->layout;
    char                  room[200];
    size_t                at, size;
    int                   i;

    add_node_work(&r, n);
    if ((!slots || 2 * n_slots >= last_slot) && !more_slots())
        return -1;
    for (at = slot_of(&r) & last_slot; slots[at]; at = (at + 1) & last_slot)
        if (is_of(&now.of[slots[at] - 1], &r))
            return (int)slots[at] - 1;
    fr_dims_print(l->ndim, fr_layout_dims(l), room, sizeof room);
    size = strlen(room) + 1;
    r.dims = fr_malloc(size);
    r.ops = fr_malloc(strlen(fr_op_info[n->op].name) + 1);
    r.line = fr_malloc(sizeof line);
    r.limit_us = limit_us(FR_DEVICE_HOST, &r.work);
    if (!r.dims || !r.ops || !r.line || (i = add_record(&r)) < 0) {
        fr_free(r.dims);
        fr_free(r.ops);
        fr_free(r.line);
        return -1;
    }
    memcpy(r.dims, room, size);
    memcpy(r.ops, fr_op_info[n->op].name, strlen(fr_op_info[n->op].name) + 1);
    *r.line = line;
    slots[at] = (uint32_t)i + 1;
    n_slots++;
    return i;
}

void
fr_record_node(const struct fr_node *n, const struct fr_record_mark *mark)
{
    const uint64_t end = mark->span.begin ? fr_ticks() : 0;
    const int      n_threads = threads_since(mark, fr_backend, n->op == FR_OP_matmul);
    const int      otherwise = n->op == FR_OP_matmul ? FR_WAY_products : FR_WAY_precompiled;
    const int      i = record_of_node(n, tier_since(mark, fr_way_rows[otherwise].word));

    if (i < 0) {
        now.is_full = true;
        return;
    }
    now.of[i].n_runs++;
    now.of[i].threads += (uint64_t)n_threads;
    now.of[i].ticks += end - mark->span.begin;
    if (mark->span.begin)
        fr_span_ended_at(&mark->span, end, FR_SPAN_kernel, (uint32_t)i, FR_SITE_LINE(n->site), (uint64_t)n_threads);
}
