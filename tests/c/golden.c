/* Runs one pass over the graph text of a golden file and prints what comes out.  Built by
 * tests/test_golden.py; usage: golden FILE. The file:
 *
 *     # pass: fuse                outer, forward, split, push, fold, fuse, once, schedule, plan, lower, memory
 *                                 adjoint, again: insert.h
 *     # why: what the case shows
 *     # outside: %1               nodes that somebody outside of the graph still reads
 *     # skip: fold                as FRIT_SKIP
 *     # bands: 4096               as FRIT_BAND_BYTES, which else is 0
 *     graph text                  memory: a line `from to bytes` for each temporary
 *     # expect:
 *     what this program prints
 *
 * schedule, plan, bands and lower see the graph after the passes before them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "passes/fold.h"
#include "passes/forward.h"
#include "passes/memory.h"
#include "passes/once.h"
#include "passes/outer.h"
#include "passes/pipeline.h"
#include "passes/push.h"
#include "passes/split.h"
#include "backends/cpu/launch.h"
#include "runtime/plan.h"
#include "insert.h"

/* ---- kernels: a plan wants to know which are the same, and nobody here runs them ------------ */

static fr_status
kernel_new(const struct fr_backend *self, const struct fr_nest *nest, struct fr_kernel **out, struct fr_err *err)
{
    struct fr_kernel *k = fr_calloc(1, sizeof *k);
    fr_status         st;

    (void)self;
    if ((st = fr_nest_verify(nest, err)) == FR_OK && (st = fr_nest_copy(nest, &k->nest, err)) == FR_OK)
        *out = k;
    return st;
}

static void
kernel_free(struct fr_kernel *k)
{
    fr_nest_free(k->nest);
    fr_free(k);
}

static bool
kernel_is_compiled(const struct fr_kernel *k)
{
    (void)k;
    return false;
}

/* For how many threads a plan has bands. */
static int
one(void)
{
    return 1;
}

static bool
share(void (*task)(void *arg, int64_t i, int worker), void *arg, int64_t n)
{
    (void)task, (void)arg, (void)n;
    return false;
}

static void
bind(const struct fr_kernel *k, struct fr_instance *in, int n, bool is_later)
{
    (void)k, (void)in, (void)n, (void)is_later;
}

static const struct fr_backend  none = {.name = "none", .is_host = true, .n_workers = one, .share = share, .bind = bind,
                                         .kernel_new = kernel_new, .kernel_free = kernel_free,
                                         .kernel_is_compiled = kernel_is_compiled,
                                         .schedule = fr_cpu_schedule, .schedule_dispatch = fr_cpu_schedule_dispatch,
                                         .schedule_near = fr_cpu_schedule_near};
const struct fr_backend        *fr_backend = &none, fr_cuda_backends[FR_CUDA_DEVICES], fr_meta_backend;

/* ---- printing ------------------------------------------------------------------------------ */

static void
print_graph(const struct fr_graph *g)
{
    int   n = fr_graph_print(g, NULL, 0);
    char *s = fr_malloc((size_t)n + 1);

    fr_graph_print(g, s, (size_t)n + 1);
    fputs(s, stdout);
    fr_free(s);
}

static void
print_fusion(const struct fr_graph *g, const struct fr_fusion *f)
{
    int   n = fr_fusion_print(g, f, NULL, 0);
    char *s = fr_malloc((size_t)n + 1);

    fr_fusion_print(g, f, s, (size_t)n + 1);
    fputs(s, stdout);
    fr_free(s);
}

static void
print_members(const struct fr_plan *p, int group)
{
    const struct fr_fusion *f = p->fusion;

    printf(" {");
    for (int n = f->group[group]->first; n >= 0; n = f->next[n])
        printf("%s%%%d", n == f->group[group]->first ? "" : " ", n);
    printf("}");
}

/* step 0: launch {%1 %2} {%3 %4}    one pair of braces for each instance of the kernel */
static void
print_step(const struct fr_plan *p, int i)
{
    static const char *const kinds[] = {"launch", "scan", "copy", "call"};
    const struct fr_step    *s = &p->step[i];

    printf("step %d: %s%s", i, s->counts || s->kind != FR_STEP_LAUNCH ? "" : "then ", kinds[s->kind]);
    if (s->kind == FR_STEP_COPY)
        printf(" %%%d to %%%d", s->copy_from, s->copy_to);
    for (int k = 0; k < s->n_instances; k++)
        print_members(p, s->group[k]);
}

static void
print_schedule(const struct fr_plan *p)
{
    for (int i = 0; i < p->n_steps; i++) {
        print_step(p, i);
        printf("\n");
    }
    printf("%d dispatch%s\n", p->n_kernels, p->n_kernels == 1 ? "" : "es");
}

static void
print_places(const struct fr_plan *p)
{
    for (int n = 0; n < p->graph->n_nodes; n++) {
        const struct fr_place *at = &p->place[n];

        switch (at->kind) {
        case FR_PLACE_LEAF: printf("%%%d: leaf", n); break;
        case FR_PLACE_NEW: printf("%%%d: new, %lld bytes", n, (long long)at->bytes); break;
        case FR_PLACE_SAME: printf("%%%d: where %%%d is", n, at->root); break;
        case FR_PLACE_ARENA:
            printf("%%%d: arena at %lld, %lld bytes", n, (long long)at->offset,
                   (long long)at->bytes);
            break;
        default: continue;
        }
        printf("%s\n", p->graph->node[n].output ? ", result" : "");
    }
    printf("new %lld bytes, arena %lld, at least %lld\n", (long long)p->new_bytes,
           (long long)p->arena_bytes, (long long)p->arena_bound);
}

static void
print_plan(const struct fr_plan *p)
{
    for (int i = 0; i < p->n_steps; i++) {
        print_step(p, i);
        printf(", reads %llu, writes %llu\n", (unsigned long long)p->step[i].bytes_read,
               (unsigned long long)p->step[i].bytes_written);
    }
    print_places(p);
}

/* The nest, and for each instance its sizes, operands and constants:  [0] %1+16 strides 512 4 */
static void
print_nest(const struct fr_plan *p, int i)
{
    const struct fr_step *s = &p->step[i];
    const struct fr_nest *nest = s->kind == FR_STEP_LAUNCH ? s->kernel->nest : NULL;
    char                  text[20000];

    if (s->kind == FR_STEP_COPY || s->kind == FR_STEP_CALL)
        return;
    if (nest) {
        fr_nest_print(nest, text, sizeof text);
        fputs(text, stdout);
    }
    for (int k = 0; k < s->n_instances; k++) {
        const struct fr_instance *in = &s->instance[k];

        printf("outer");
        for (int a = 0; a < in->n_outer; a++)
            printf(" %lld", (long long)in->outer[a]);
        printf("%s rows %lld inner %lld", in->n_outer ? "" : " -", (long long)in->n_rows,
               (long long)in->n_inner);
        if (in->n_packed)
            printf(in->joined ? " joined %d" : " packed %d", in->n_packed);
        printf("\n");
        for (int o = 0; o < (nest ? nest->n_operands : 2); o++) {
            const struct fr_binding *b = &s->binding[k][o];

            printf("  [%d]", o);
            if (b->node >= 0)
                printf(" %%%d", b->node);
            if (b->moving >= 0)
                printf("+?%d", b->moving);
            else if (b->offset || b->node < 0)
                printf("+%lld", (long long)b->offset);
            printf(" strides");
            for (int a = 0; a < in->n_outer + 2; a++)
                printf(" %lld", (long long)in->stride[o * (in->n_outer + 2) + a]);
            printf("\n");
        }
        for (int c = 0; nest && c < nest->n_scalars; c++)
            if (s->scalar[k][c] < 0)
                printf("  $%d is 0x%llx\n", c,
                       (unsigned long long)((const struct fr_scalar_bits *)in->scalars)[c].word[0]);
    }
}

static void
print_lowered(const struct fr_plan *p)
{
    for (int i = 0; i < p->n_steps; i++) {
        print_step(p, i);
        printf("\n");
        print_nest(p, i);
    }
}

/* ---- passes -------------------------------------------------------------------------------- */

/* The value of a line `# name: value` in `head`, or NULL; ends at the end of the line. */
static char *
directive(char *head, const char *name)
{
    size_t n = strlen(name);

    for (char *p = head; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (!strncmp(p, "# ", 2) && !strncmp(p + 2, name, n) && p[n + 2] == ':') {
            size_t len = strcspn(p, "\n") - n - 3;
            char  *v = calloc(1, len + 1);

            memcpy(v, p + n + 3 + (p[n + 3] == ' '), len - (p[n + 3] == ' '));
            return v;
        }
    return NULL;
}

static fr_status
run_memory(const char *text, struct fr_err *err)
{
    size_t              cap = 0;
    struct fr_interval *v = NULL;
    struct fr_packing   packing;
    int                 n = 0;
    fr_status           st;

    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        long long from, to, bytes;

        if (*text == '#' || sscanf(text, "%lld %lld %lld", &from, &to, &bytes) != 3)
            continue;
        if (!FR_GROW(v, cap, (size_t)n + 1))
            TRY(fr_fail(err, FR_ENOMEM, "out of memory"));
        v[n++] = (struct fr_interval){(int32_t)from, (int32_t)to, bytes, -1};
    }
    TRY(fr_memory_pack(v, n, 0, FR_MEMORY_PLAN_STEPS, &packing, err));
    for (int i = 0; i < n; i++)
        printf("%d..%d: %lld bytes at %lld\n", v[i].from, v[i].to, (long long)v[i].n_bytes,
               (long long)v[i].offset);
    printf("peak %lld, at least %lld", (long long)packing.peak, (long long)packing.bound);
    if (packing.steps)
        printf("; %lld before a search of %lld steps", (long long)packing.quick_peak,
               (long long)packing.steps);
    printf("\n");
out:
    fr_free(v);
    return st;
}

static void
print_band(const struct fr_plan *p, const struct fr_band *b)
{
    printf("steps %d to %d in %lld bands of %lld units", b->first, b->first + b->n_steps - 1, (long long)b->n_bands,
           (long long)b->units);
    if (b->n_outer > 1)
        printf(", of %lld outer units each", (long long)b->n_outer);
    printf("; scratch %lld bytes\n", (long long)b->n_bytes);
    for (int i = 0; i < b->n_items; i++) {
        const struct fr_band_item *it = &b->item[i];
        const struct fr_step      *s = &p->step[it->step];
        int                        n_op = fr_step_operands(s);

        printf("  item %d: step %d, axis %d of %lld, %lld to a unit, %s\n", i, it->step, it->axis, (long long)it->n,
               (long long)it->per, it->whole ? "each once" : "what is needed");
        for (int k = 0; k < it->n_needs; k++) {
            const struct fr_band_need *need = &b->need[it->first_need + k];

            printf("    needs item %d: %lld + j * %lld to %lld + j * %lld, of %lld each\n", need->item,
                   (long long)need->low, (long long)need->read, (long long)need->high, (long long)need->read,
                   (long long)need->made);
        }
        for (int k = 0; k < n_op; k++)
            if (it->inner[k].item == i)
                printf("    %%%d: at %lld of the scratch\n", s->binding[it->instance][k].node,
                       (long long)it->inner[k].offset);
    }
}

static fr_status
run_graph(const char *pass, char *text, struct fr_err *err)
{
    char             *list = directive(text, "outside");
    struct fr_graph  *g = NULL;
    struct fr_fusion *f = NULL;
    struct fr_plan   *p = NULL;
    fr_status         st;

    TRY(fr_graph_parse(text, &g, err));
    for (char *at = list; at && (at = strchr(at, '%'));)
        g->node[strtol(at + 1, &at, 10)].outside = true;
    if (!strcmp(pass, "outer")) {
        TRY(fr_outer(g, err));
        TRY(fr_graph_verify(g, err));
        print_graph(g);
    } else if (!strcmp(pass, "forward")) {
        TRY(fr_forward(g, err));
        TRY(fr_graph_verify(g, err));
        print_graph(g);
    } else if (!strcmp(pass, "split")) {
        TRY(fr_split(g, err));
        TRY(fr_graph_verify(g, err));
        print_graph(g);
    } else if (!strcmp(pass, "push")) {
        TRY(fr_push(g, err));
        TRY(fr_graph_verify(g, err));
        print_graph(g);
    } else if (!strcmp(pass, "fold")) {
        TRY(fr_fold(g, err));
        TRY(fr_graph_verify(g, err));
        print_graph(g);
    } else if (!strcmp(pass, "fuse")) {
        TRY(fr_fuse(g, true, &g->arena, &f, err));
        TRY(fr_fusion_verify(g, f, err));
        print_fusion(g, f);
    } else if (!strcmp(pass, "once")) {
        TRY(fr_fuse(g, true, &g->arena, &f, err));
        TRY(fr_once(g, f, err));
        TRY(fr_graph_verify(g, err));
        TRY(fr_fusion_verify(g, f, err));
        print_graph(g);
        print_fusion(g, f);
    } else if (!strcmp(pass, "again")) {
        TRY(run_again(g, err));
    } else {
        struct fr_graph *mine = g;

        if (!strcmp(pass, "adjoint")) {
            TRY(run_adjoint(g, err));
            TRY(fr_graph_verify(g, err));
            print_graph(g);
        }
        g = NULL;
        TRY(fr_plan_make(mine, false, &p, err));
        if (!strcmp(pass, "schedule") || !strcmp(pass, "adjoint"))
            print_schedule(p);
        else if (!strcmp(pass, "plan"))
            print_plan(p);
        else if (!strcmp(pass, "lower"))
            print_lowered(p);
        else if (!strcmp(pass, "bands"))
            for (int i = 0; i < p->n_bands; i++)
                print_band(p, &p->band[i]);
        else
            st = fr_fail(err, FR_EVALUE, "no pass '%s'", pass);
    }
out:
    fr_plan_free(p);
    fr_graph_free(g);
    free(list);
    return st;
}

int
main(int argc, char **argv)
{
    static char   text[1 << 20];
    struct fr_err err = {0};
    FILE         *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    char         *pass, *skip, *bands, *end;
    fr_status     st;

    if (!file || !fread(text, 1, sizeof text - 1, file)) {
        fprintf(stderr, "golden: cannot read %s\n", argc > 1 ? argv[1] : "nothing");
        return 2;
    }
    fclose(file);
    if ((end = strstr(text, "# expect:")))
        *end = '\0';
    fr_env.verify = 1;
    fr_env.pack_bytes = 1 << 14; /* the defaults */
    fr_env.nontemporal_bytes = 24 << 20;
    fr_env.last_cache = 32 << 20;
    if ((bands = directive(text, "bands")))
        fr_env.band_bytes = atoi(bands);
    if ((skip = directive(text, "skip")))
        snprintf(fr_env.skip, sizeof fr_env.skip, "%s", skip);
    if (!(pass = directive(text, "pass"))) {
        fprintf(stderr, "golden: %s has no line '# pass: name'\n", argv[1]);
        return 2;
    }
    st = strcmp(pass, "memory") ? run_graph(pass, text, &err) : run_memory(text, &err);
    if (st != FR_OK)
        printf("error: %s\n", err.text);
    free(pass);
    free(skip);
    free(bands);
    return 0;
}
