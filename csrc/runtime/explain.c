/* What evaluating some handles would do, as text: the plan is made but not run. The peak, results and temporaries, is
 * what the run allocates, to the byte. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ways.h"
#include "jit/emit_text.h"
#include "runtime/place.h"
#include "runtime/storage.h"

/* Bytes that must move whatever the kernels are: leaves read once, results written once. */
static int64_t
least_bytes(const struct fr_plan *p)
{
    int64_t n = 0;

    for (int i = 0; i < p->graph->n_nodes; i++) {
        const struct fr_gnode *node = &p->graph->node[i];

        if (node->dead)
            continue;
        if ((node->op == FR_OP_leaf && p->place[i].kind == FR_PLACE_LEAF) || node->output)
            n += node->layout->n_elems * fr_dtype_size(node->dtype);
    }
    return n;
}

static void
put_group(struct fr_text *t, const struct fr_plan *p, int group)
{
    const struct fr_group *g = p->fusion->group[group];
    uint32_t               last_site = 0;
    char                   dims[200];

    fr_text_add(t, "  %s over %s:", fr_group_kind(g),
                fr_dims_print(g->ndim, g->dims, dims, sizeof dims));
    for (int n = g->first; n >= 0; n = p->fusion->next[n])
        fr_text_add(t, " %s", fr_op_info[p->graph->node[n].op].name);
    fr_text_add(t, "\n  lines:");
    for (int n = g->first; n >= 0; n = p->fusion->next[n])
        if (FR_SITE_LINE(p->graph->node[n].site) && FR_SITE_LINE(p->graph->node[n].site) != last_site) {
            last_site = FR_SITE_LINE(p->graph->node[n].site);
            fr_text_add(t, " @%u", last_site);
        }
    if (p->fusion->why[group])
        fr_text_add(t, "\n  not merged with its neighbour: %s", p->fusion->why[group]);
    fr_text_add(t, "\n");
}

static void
put_plan(struct fr_text *t, const struct fr_plan *p)
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
                (long long)least_bytes(p), (long long)(p->new_bytes + n_temporary),
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
            fr_text_add(t, i == b->first ? ", in %lld bands with the next %d" : ", in the same bands", (long long)(b->n_outer * b->n_bands),
                        b->n_steps - 1);
        }
        fr_text_add(t, "\n");
        if (s->kind == FR_STEP_COPY)
            fr_text_add(t, "  copies %%%d, whose old content is still wanted\n", s->copy_from);
        else if (s->counts || product)
            put_group(t, p, s->group[0]);
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

/* kind as in fr_explain */
static fr_status
put_text(struct fr_text *t, const struct fr_plan *p, const char *kind, struct fr_err *err)
{
    fr_status st = FR_OK;

    if (!strcmp(kind, "plan")) {
        put_plan(t, p);
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
                st = fr_text_nest(t, p->step[i].kernel->nest,
                                  kind[1] == 'u' ? FR_DIALECT_CUDA : FR_DIALECT_C, err);
        }
    }
    return st == FR_OK && t->st != FR_OK ? fr_no_memory(err, "the text of a plan") : st;
}

static struct fr_gathered gathered;

static bool
is_kind(const char *kind)
{
    static const char *const kinds[] = {"plan", "graph", "loops", "c", "cuda"};

    for (size_t i = 0; i < FR_LEN(kinds); i++)
        if (!strcmp(kind, kinds[i]))
            return true;
    return false;
}

/* What goes to several devices is explained as if the host had it all. */
static fr_status
place(struct fr_gathered *g, struct fr_text *t, struct fr_err *err)
{
    struct fr_text ignored = {0};
    fr_device      device;
    fr_status      st = fr_place_explain(g, t ? t : &ignored, &device, err);

    fr_text_clear(&ignored);
    if (st == FR_OK)
        fr_gather_place(g, device);
    return st;
}

fr_status
fr_explain(const struct fr_tensor *const *t, int n, const char *kind, char **text,
           struct fr_err *err)
{
    struct fr_plan *p;
    struct fr_text  out = {0};
    fr_ref         *roots = fr_malloc(((size_t)n + 1) * sizeof *roots);
    int             n_todo = 0, n_here;
    fr_status       st;

    if (!roots)
        return fr_no_memory(err, "the list of roots");
    if (!is_kind(kind))
        TRY(fr_fail(err, FR_EVALUE, "explain knows graph, loops, c, cuda and plan, not '%s'", kind));
    if ((st = fr_eval_lock(err)) != FR_OK)
        goto out;
    for (int i = 0; i < n; i++)
        if (fr_node_computes(&fr_nodes[t[i]->storage->node]))
            roots[n_todo++] = t[i]->storage->node;
    for (fr_ref *at = roots; st == FR_OK && n_todo > 0; at += n_here, n_todo -= n_here) { /* device by device */
        n_here = fr_eval_of_device(at, n_todo, fr_nodes[at[0]].device);
        st = fr_gather(&gathered, at, n_here, err);
        if (st == FR_OK && fr_nodes[at[0]].device == FR_DEVICE_AUTO)
            st = place(&gathered, !strcmp(kind, "plan") ? &out : NULL, err);
        if (st == FR_OK)
            st = fr_plan_cache_find(&gathered, FR_FIND_MADE, &p, err);
        if (st == FR_OK)
            st = put_text(&out, p, kind, err);
    }
    fr_eval_unlock();
    if (st == FR_OK && !out.s)
        fr_text_add(&out, "nothing is pending: no kernel would run\n");
    if (st == FR_OK && out.st != FR_OK)
        st = fr_no_memory(err, "the text of a plan");
out:
    fr_free(roots);
    if (st == FR_OK)
        *text = out.s;
    else
        fr_text_clear(&out);
    return st;
}
