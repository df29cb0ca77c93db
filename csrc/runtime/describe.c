/* runtime/describe.c -- see describe.h. The peak, results and temporaries, is what a run allocates, to the byte. */
#include "runtime/describe.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ways.h"

enum { MOST_REPEATED = 8 };     /* operations that are looked for behind themselves */

/* Different elements that a window shows. */
static int64_t
n_different(const struct fr_layout *l)
{
    int64_t n = 1;

    for (int k = 0; k < l->ndim; k++)
        n *= fr_layout_strides(l)[k] == 0 && fr_layout_dims(l)[k] > 1 ? 1 : fr_layout_dims(l)[k];
    return n;
}

/* A window of a leaf: between which elements it lies, and how many it shows. */
struct shown {
    int32_t leaf;
    int64_t low, high, n;
};

static int
by_place(const void *a, const void *b)
{
    const struct shown *x = a, *y = b;

    if (x->leaf != y->leaf)
        return x->leaf < y->leaf ? -1 : 1;
    return x->low == y->low ? 0 : x->low < y->low ? -1 : 1;
}

/* Of one that moves: where it was when the plan was made; if nobody knows, it lies across all others. */
static struct shown
shown_by(const struct fr_graph *g, const struct fr_edge *e)
{
    const struct fr_layout *l = e->layout;
    const bool              is_known = e->moving < 0 || g->moving_at;
    const int64_t           at = e->offset + (e->moving >= 0 && is_known ? g->moving_at[e->moving] : 0);
    struct shown            w = {e->src, is_known ? at : INT64_MIN + 1, is_known ? at : INT64_MAX, n_different(l)};

    for (int k = 0; k < l->ndim && is_known && w.n > 0; k++) {
        const int64_t reach = (fr_layout_dims(l)[k] - 1) * fr_layout_strides(l)[k];

        *(reach < 0 ? &w.low : &w.high) += reach;
    }
    return w;
}

/* Elements of one leaf that windows show, at least: the largest of those that lie across each other, and these together. */
static int64_t
n_shown(const struct shown *w, int n)
{
    int64_t sum = 0, most = 0, high = INT64_MIN;

    for (int i = 0; i < n; i++) {
        if (i > 0 && w[i].low > high) {
            sum += most;
            most = 0;
        }
        most = w[i].n > most ? w[i].n : most;
        high = w[i].high > high ? w[i].high : high;
    }
    return sum + most;
}

/* Bytes that must move whatever the kernels are: what is seen of leaves read once; results, or what is stored into their memory,
 * written once. -1: memory is out. */
static int64_t
least_bytes(const struct fr_plan *p)
{
    struct shown *w = fr_malloc((3 * (size_t)p->graph->n_nodes + 1) * sizeof *w);
    int64_t       n = 0;
    int           n_windows = 0;

    if (!w)
        return -1;
    for (int i = 0; i < p->graph->n_nodes; i++) {
        const struct fr_gnode *node = &p->graph->node[i];
        const bool             stores = node->op == FR_OP_store && p->place[fr_place_root(p->place, i)].kind == FR_PLACE_LEAF;

        if (!fr_gnode_computes(node))
            continue;
        for (int k = stores; k < node->n_args; k++)
            if (node->arg[k].src >= 0 && p->graph->node[node->arg[k].src].op == FR_OP_leaf)
                w[n_windows++] = shown_by(p->graph, &node->arg[k]);
        if (node->output)
            n += n_different(stores ? node->arg[2].layout : node->layout) * fr_dtype_size(node->dtype);
    }
    qsort(w, (size_t)n_windows, sizeof *w, by_place);
    for (int i = 0, m; i < n_windows; i += m) {
        for (m = 1; i + m < n_windows && w[i + m].leaf == w[i].leaf; m++)
            ;
        n += n_shown(w + i, m) * fr_dtype_size(p->graph->node[w[i].leaf].dtype);
    }
    fr_free(w);
    return n;
}

/* The names of a group's operations. What comes again and again behind itself is written once, with a count. */
static void
put_operations(struct fr_text *t, const struct fr_plan *p, const struct fr_group *g, fr_op *op)
{
    int n = 0;

    for (int k = g->first; k >= 0; k = p->fusion->next[k])
        op[n++] = p->graph->node[k].op;
    for (int i = 0; i < n;) {
        int length = 1, times = 1;

        for (int m = 1; m <= MOST_REPEATED && (times < 3 || times * length < 6); m++) {
            for (times = 1; i + (times + 1) * m <= n && !memcmp(op + i, op + i + times * m, (size_t)m * sizeof *op); times++)
                ;
            length = m;
        }
        if (times < 3 || times * length < 6)
            length = times = 1;
        fr_text_add(t, times > 1 ? " (" : " ");
        for (int k = 0; k < length; k++)
            fr_text_add(t, k ? " %s" : "%s", fr_op_info[op[i + k]].name);
        if (times > 1)
            fr_text_add(t, ") %d times", times);
        i += length * times;
    }
}

static void
put_group(struct fr_text *t, const struct fr_plan *p, const uint32_t *site, int group, fr_op *room)
{
    const struct fr_group *g = p->fusion->group[group];
    uint32_t               last_site = 0;
    char                   dims[200];

    fr_text_add(t, "  %s over %s:", fr_group_kind(g),
                fr_dims_print(g->ndim, g->dims, dims, sizeof dims));
    put_operations(t, p, g, room);
    fr_text_add(t, "\n  lines:");
    for (int n = g->first; n >= 0; n = p->fusion->next[n])
        if (site[n] && site[n] != last_site) {
            last_site = site[n];
            fr_text_add(t, " @%u", last_site);
        }
    if (p->fusion->why[group])
        fr_text_add(t, "\n  not merged with its neighbour: %s", p->fusion->why[group]);
    fr_text_add(t, "\n");
}

static void
put_plan(struct fr_text *t, const struct fr_plan *p, const uint32_t *site, int64_t n_least, fr_op *room)
{
    uint64_t moved = 0;
    int64_t  n_temporary = fr_plan_temporary_bytes(p, fr_plan_by(p)->n_workers());
    int      kernel = 0, n_products = 0;

    for (int i = 0; i < p->n_steps; i++)
        moved += p->step[i].bytes_read + p->step[i].bytes_written;
    fr_text_add(t, "%d kernel%s", p->n_kernels, p->n_kernels == 1 ? "" : "s");
    if (p->n_products)
        fr_text_add(t, " and %d matrix product%s", p->n_products, p->n_products == 1 ? "" : "s");
    fr_text_add(t, "; %llu bytes moved, at least %lld; peak %lld bytes "
                   "(%lld results, %lld temporaries for %d arrays, bound %lld)\n",
                (unsigned long long)moved,
                (long long)n_least, (long long)(p->new_bytes + n_temporary),
                (long long)p->new_bytes, (long long)n_temporary, p->n_arena,
                (long long)(p->arena_bound + n_temporary - p->arena_bytes));
    for (int i = 0; i < p->n_steps; i++) {
        const struct fr_step *s = &p->step[i];
        int         n_packed = 0;
        bool        product = s->kind == FR_STEP_CALL && !s->counts;

        if (s->counts)
            fr_text_add(t, "kernel %d", ++kernel);
        else if (product)
            fr_text_add(t, "matrix product %d", ++n_products);
        else
            fr_text_add(t, "  then, in the same dispatch");
        fr_text_add(t, ": %s, %llu bytes read, %llu written", fr_step_tier(p, s),
                    (unsigned long long)s->bytes_read, (unsigned long long)s->bytes_written);
        if (s->n_instances > 1)
            fr_text_add(t, ", %d arrays at once", s->n_instances);
        for (int k = 0; k < s->n_instances; k++)
            n_packed += s->instance[k].n_packed;
        if (n_packed)
            fr_text_add(t, ", %d packed: %s", n_packed,
                        fr_way_rows[s->instance[0].joined ? FR_WAY_joined : FR_WAY_packed].word);
        if (s->band) {
            const struct fr_band *b = &p->band[s->band - 1];
            fr_text_add(t, i == b->first ? ", in %lld bands with the next %d" : ", in the same bands",
                        (long long)(b->n_outer * b->n_bands), b->n_steps - 1);
        }
        fr_text_add(t, "\n");
        if (s->kind == FR_STEP_COPY)
            fr_text_add(t, "  copies %%%d, whose old content is still wanted\n", s->copy_from);
        else if (s->counts || product)
            put_group(t, p, site, s->group[0], room);
    }
}

static void
put_printed(struct fr_text *t, int (*print)(const void *, char *, size_t), const void *what)
{
    int   n = print(what, NULL, 0);
    char *s = fr_malloc((size_t)n + 1);

    if (!s) {
        t->st = FR_ENOMEM;
        return;
    }
    s[0] = '\0';
    print(what, s, (size_t)n + 1);
    fr_text_add(t, "%s", s);
    fr_free(s);
}

static int
print_graph(const void *g, char *out, size_t cap)
{
    return fr_graph_print(g, out, cap);
}

static int
print_groups(const void *plan, char *out, size_t cap)
{
    const struct fr_plan *p = plan;

    return fr_fusion_print(p->graph, p->fusion, out, cap);
}

static int
print_nest(const void *nest, char *out, size_t cap)
{
    return fr_nest_print(nest, out, cap);
}

bool
fr_describe_knows(const char *kind)
{
    static const char *const kinds[] = {"plan", "graph", "loops", "c", "cuda"};

    for (size_t i = 0; i < FR_LEN(kinds); i++)
        if (!strcmp(kind, kinds[i]))
            return true;
    return false;
}

fr_status
fr_describe_text(struct fr_text *t, const struct fr_plan *p, const uint32_t *site, const char *kind, struct fr_err *err)
{
    fr_status st = FR_OK;

    if (!strcmp(kind, "plan")) {
        int64_t n_least = least_bytes(p);
        fr_op  *room = fr_malloc(((size_t)p->graph->n_nodes + 1) * sizeof *room);

        if (n_least >= 0 && room)
            put_plan(t, p, site, n_least, room);
        else
            st = fr_no_memory(err, "the text of a plan");
        fr_free(room);
    } else if (!strcmp(kind, "graph")) {
        put_printed(t, print_graph, p->graph);
        put_printed(t, print_groups, p);
    } else {
        for (int i = 0; i < p->n_steps && st == FR_OK; i++) {
            if (p->step[i].kind != FR_STEP_LAUNCH)
                continue;
            if (kind[0] == 'l')
                put_printed(t, print_nest, p->step[i].kernel->nest);
            else
                st = fr_text_nest(t, p->step[i].kernel->nest, kind[1] == 'u' ? FR_DIALECT_CUDA : FR_DIALECT_C, err);
        }
    }
    return st == FR_OK && t->st != FR_OK ? fr_no_memory(err, "the text of a plan") : st;
}

/* ---- as JSON ---- */

static void
put_string(struct fr_text *t, const char *s)
{
    if (!s) {
        fr_text_add(t, "null");
        return;
    }
    fr_text_add(t, "\"");
    for (; *s; s++)
        fr_text_add(t, *s == '"' || *s == '\\' ? "\\%c" : (unsigned char)*s < ' ' ? "\\u%04x" : "%c", (unsigned char)*s);
    fr_text_add(t, "\"");
}

static void
put_numbers(struct fr_text *t, int n, const int64_t *v)
{
    fr_text_add(t, "[");
    for (int i = 0; i < n; i++)
        fr_text_add(t, i ? ",%lld" : "%lld", (long long)v[i]);
    fr_text_add(t, "]");
}

static const char *
comma(bool *follows)
{
    const char *text = *follows ? "," : "";

    *follows = true;
    return text;
}

static void
put_arguments(struct fr_text *t, const struct fr_gnode *node)
{
    for (int k = 0; k < node->n_args + (node->op == FR_OP_store); k++) {
        const struct fr_edge *e = &node->arg[k];

        fr_text_add(t, k ? "," : "");
        if (e->src < 0) {
            fr_text_add(t, "{\"number\":%d}", e->scalar);
            continue;
        }
        fr_text_add(t, "{\"node\":%d,\"whole\":%s,\"shape\":", e->src, e->whole ? "true" : "false");
        put_numbers(t, e->layout->ndim, fr_layout_dims(e->layout));
        fr_text_add(t, ",\"strides\":");
        put_numbers(t, e->layout->ndim, fr_layout_strides(e->layout));
        fr_text_add(t, "}");
    }
}

static void
put_nodes(struct fr_text *t, const struct fr_plan *p, const uint32_t *site)
{
    bool follows = false;

    for (int n = 0; n < p->graph->n_nodes; n++) {
        const struct fr_gnode *node = &p->graph->node[n];

        if (node->dead)
            continue;
        fr_text_add(t, "%s{\"node\":%d,\"operation\":\"%s\",\"dtype\":\"%s\",\"shape\":", comma(&follows), n,
                    fr_op_info[node->op].name, fr_dtype_name(node->dtype));
        put_numbers(t, node->layout->ndim, fr_layout_dims(node->layout));
        fr_text_add(t, ",\"line\":%u,\"result\":%s,\"arguments\":[", site[n], node->output ? "true" : "false");
        put_arguments(t, node);
        fr_text_add(t, "]}");
    }
}

static void
put_groups(struct fr_text *t, const struct fr_plan *p)
{
    for (int i = 0; i < p->fusion->n_groups; i++) {
        const struct fr_group *g = p->fusion->group[i];

        fr_text_add(t, "%s{\"group\":%d,\"kind\":\"%s\",\"shape\":", i ? "," : "", i, fr_group_kind(g));
        put_numbers(t, g->ndim, g->dims);
        fr_text_add(t, ",\"nodes\":[");
        for (int n = g->first; n >= 0; n = p->fusion->next[n])
            fr_text_add(t, n == g->first ? "%d" : ",%d", n);
        fr_text_add(t, "],\"why\":");
        put_string(t, p->fusion->why[i]);
        fr_text_add(t, "}");
    }
}

static void
put_steps(struct fr_text *t, const struct fr_plan *p)
{
    static const char *const kinds[] = {"launch", "scan", "copy", "call"};

    for (int i = 0; i < p->n_steps; i++) {
        const struct fr_step *s = &p->step[i];

        fr_text_add(t, "%s{\"kind\":\"%s\",\"tier\":\"%s\",\"is_kernel\":%s,\"bytes_read\":%llu,\"bytes_written\":%llu,\"band\":%d,"
                       "\"groups\":[", i ? "," : "", kinds[s->kind], fr_step_tier(p, s), s->counts ? "true" : "false",
                    (unsigned long long)s->bytes_read, (unsigned long long)s->bytes_written, s->band);
        for (int k = 0; k < s->n_instances && s->kind != FR_STEP_COPY; k++)
            fr_text_add(t, k ? ",%d" : "%d", s->group[k]);
        fr_text_add(t, "]}");
    }
}

/* First and last step that touches the memory of each root. */
static void
find_lives(const struct fr_plan *p, int32_t *from, int32_t *to)
{
    for (int n = 0; n < p->graph->n_nodes; n++) {
        from[n] = INT32_MAX;
        to[n] = -1;
    }
    for (int s = 0; s < p->n_steps; s++) {
        const struct fr_step *step = &p->step[s];
        const int32_t         copied[] = {step->copy_from, step->copy_to};
        const int             n_operands = step->kind == FR_STEP_COPY ? 2 : step->n_instances * fr_step_operands(step);

        for (int k = 0; k < n_operands; k++) {
            int node = step->kind == FR_STEP_COPY ? copied[k]
                                                  : step->binding[k / fr_step_operands(step)][k % fr_step_operands(step)].node;

            if (node < 0)
                continue;
            node = fr_place_root(p->place, node);
            from[node] = s < from[node] ? s : from[node];
            to[node] = s;
        }
    }
}

static fr_status
put_memory(struct fr_text *t, const struct fr_plan *p, struct fr_err *err)
{
    static const char *const kinds[] = {"none", "given", "result", "temporary", "same", "band"};
    int32_t *from = fr_malloc(2 * ((size_t)p->graph->n_nodes + 1) * sizeof *from), *to = from + p->graph->n_nodes;
    bool     follows = false;

    if (!from)
        return fr_no_memory(err, "the lives of a plan's memory");
    find_lives(p, from, to);
    for (int n = 0; n < p->graph->n_nodes; n++) {
        const struct fr_place *at = &p->place[n];

        if (at->kind == FR_PLACE_NONE || p->graph->node[n].dead)
            continue;
        if (at->kind == FR_PLACE_SAME) {
            fr_text_add(t, "%s{\"node\":%d,\"kind\":\"same\",\"as\":%d}", comma(&follows), n, fr_place_root(p->place, n));
            continue;
        }
        fr_text_add(t, "%s{\"node\":%d,\"kind\":\"%s\",\"bytes\":%lld", comma(&follows), n, kinds[at->kind], (long long)at->bytes);
        if (at->kind == FR_PLACE_ARENA)
            fr_text_add(t, ",\"offset\":%lld", (long long)at->offset);
        if (to[n] >= 0)
            fr_text_add(t, ",\"first_step\":%d,\"last_step\":%d", from[n], to[n]);
        fr_text_add(t, "}");
    }
    fr_free(from);
    return FR_OK;
}

fr_status
fr_describe_json(struct fr_text *t, const struct fr_plan *p, const uint32_t *site, struct fr_err *err)
{
    int64_t   n_temporary = fr_plan_temporary_bytes(p, fr_plan_by(p)->n_workers());
    uint64_t  n_read = 0, n_written = 0;
    int64_t   n_least = least_bytes(p);
    fr_status st;

    if (n_least < 0)
        return fr_no_memory(err, "a plan as JSON");
    for (int i = 0; i < p->n_steps; i++) {
        n_read += p->step[i].bytes_read;
        n_written += p->step[i].bytes_written;
    }
    fr_text_add(t, "{\"device\":\"%s\",\"kernels\":%d,\"products\":%d,\"bytes_read\":%llu,\"bytes_written\":%llu,"
                   "\"least_bytes\":%lld,"
                   "\"peak_bytes\":%lld,\"result_bytes\":%lld,\"temporary_bytes\":%lld,\"nodes\":[",
                fr_device_name(p->device), p->n_kernels, p->n_products, (unsigned long long)n_read, (unsigned long long)n_written,
                (long long)n_least, (long long)(p->new_bytes + n_temporary), (long long)p->new_bytes, (long long)n_temporary);
    put_nodes(t, p, site);
    fr_text_add(t, "],\"groups\":[");
    put_groups(t, p);
    fr_text_add(t, "],\"steps\":[");
    put_steps(t, p);
    fr_text_add(t, "],\"memory\":[");
    st = put_memory(t, p, err);
    fr_text_add(t, "]}");
    return st == FR_OK && t->st != FR_OK ? fr_no_memory(err, "a plan as JSON") : st;
}
