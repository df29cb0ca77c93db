/* Asking which warnings an evaluation owes; see judge.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/fpe.h"
#include "runtime/judge.h"
#include "runtime/storage.h"
#include "runtime/ready.h"

uint64_t fr_judge_epoch = 1;
unsigned fr_judge_unseen;

bool fr_judge_found;

/* Lines that raise flags in each run are not asked about each time: after n answers under the same filters, 2^n runs go
 * by. (Python shows a warning once, and what was not one was a polynomial's.) */
enum { MOST_DOUBLINGS = 20, REMEMBERED = 1024 };

bool
fr_judge_would(unsigned raised, unsigned warns)
{
    /* Which flag it is says little: that of a polynomial may be another one than NumPy's. But underflow is common. */
    return warns && raised && (raised != FR_FPE_UNDER || (warns & FR_FPE_UNDER));
}

bool
fr_judge_is_due(struct fr_judge_memory *m, unsigned raised, unsigned warns)
{
    if (!fr_judge_would(raised, warns))
        return false;
    if (fr_trace_at_once)
        return true;
    if (m->epoch != fr_judge_epoch || (warns & ~m->warns))
        m->n_asked = m->raised = 0;
    else if (raised & ~m->raised)
        m->n_asked = 0;
    else if (++m->n_passed < 1u << (m->n_asked < MOST_DOUBLINGS ? m->n_asked : MOST_DOUBLINGS))
        return false;
    m->epoch = fr_judge_epoch;
    m->warns = warns;
    m->raised |= raised;
    m->n_passed = 0;
    m->n_asked++;
    return true;
}

bool
fr_judge_are_due(const fr_ref *id, int n, unsigned raised)
{
    static struct fr_judge_memory memory[REMEMBERED];
    struct fr_judge_memory       *m;
    uint64_t                      lines = 0;
    unsigned                      warns = 0;

    for (int i = 0; i < n; i++) {
        const struct fr_node *x = &fr_nodes[id[i]];

        if (fr_node_computes(x)) {
            warns |= FR_SITE_WARNS(x->site);
            raised |= fr_op_info[x->op].flags & FR_OPF_COSTLY ? fr_judge_unseen : 0;
            lines = (lines + x->site) * 0x9e3779b97f4a7c15u + x->op;
        }
    }
    m = &memory[(lines >> 32) % REMEMBERED];
    if (m->lines != lines)
        *m = (struct fr_judge_memory){.lines = lines};
    return fr_judge_is_due(m, raised, warns);
}

/* ---- what is asked about ---- */

struct question {
    struct fr_judged  j;
    const fr_ref     *id;
    uint32_t         *index;  /* [n] of the nodes, while their own says which they are here */
};

static bool
begin(struct question *q, const fr_ref *id, int n, unsigned raised)
{
    *q = (struct question){.j = {.n = n, .raised = raised}, .id = id};
    q->j.node = fr_calloc((size_t)n, sizeof *q->j.node);
    q->index = fr_malloc((size_t)n * sizeof *q->index);
    return q->j.node && q->index;
}

static void
fill_arg(struct fr_judged_arg *a, const struct fr_node *n, int k)
{
    const struct fr_node *seen;

    if (fr_arg_is_number(n, k)) {
        struct fr_scalar_bits bits = fr_arg_number(n, k);

        a->node = -1;
        a->dtype = fr_arg_number_dtype(n, k);
        memcpy(a->bits, bits.word, sizeof a->bits);
        return;
    }
    seen = &fr_nodes[n->arg[k]];
    a->node = (int32_t)fr_ready_base(n->arg[k])->index;
    a->dtype = seen->dtype;
    a->layout = seen->layout;
    a->offset = seen->op == FR_OP_view ? seen->u.offset : 0;
}

/* Its memory, if it is on the host or can be brought there. */
static char *
on_host(struct fr_buffer *b)
{
    struct fr_err ignored;

    return fr_buffer_bring_now(b, &ignored) == FR_OK ? b->mem : NULL;
}

static void
fill(struct question *q)
{
    for (int i = 0; i < q->j.n; i++) {
        q->index[i] = fr_nodes[q->id[i]].index;
        fr_nodes[q->id[i]].index = (uint32_t)i;
    }
    for (int i = 0; i < q->j.n; i++) {
        const struct fr_node  *n = &fr_nodes[q->id[i]];
        struct fr_judged_node *to = &q->j.node[i];

        to->op = n->op;
        to->dtype = n->dtype;
        to->axes = n->u.axes;
        to->site = n->site;
        to->layout = n->layout;
        if (n->op == FR_OP_leaf) {
            to->memory = on_host(n->v.buffer);
            continue;
        }
        to->n_args = n->n_args;
        for (int k = 0; k < n->n_args; k++)
            fill_arg(&to->arg[k], n, k);
    }
    for (int i = 0; i < q->j.n; i++)
        fr_nodes[q->id[i]].index = q->index[i];
}

static void
ask(struct question *q)
{
    bool any = fr_hooks.judge && fr_hooks.judge(&q->j);

    fr_judge_found |= any;
    fr_counted.n_judged++;
}

static void
end(struct question *q)
{
    fr_free(q->j.node);
    fr_free(q->index);
}

/* Of its first runs a plan keeps more than of later ones: a plan has just been made, beside which that costs little, and
 * most lines that warn do so in their first calls. */
enum { FIRST_RUNS = 2, KEPT_AT_FIRST = 1 << 20 };

char *
fr_judge_keep_lost(struct fr_plan *p, const fr_ref *id, struct fr_judge_few *few)
{
    char *kept, *to;

    if (FR_LIKELY(p->lost_bytes <= FR_JUDGE_FEW)) {
        kept = few->bytes;
    } else {
        if (p->n_kept >= FIRST_RUNS || p->lost_bytes > KEPT_AT_FIRST || !(kept = fr_malloc((size_t)p->lost_bytes)))
            return NULL;
        p->n_kept++;
    }
    to = kept;
    for (int i = 0; i < p->n_lost; i++) {
        size_t n = (size_t)p->place[p->lost[i]].bytes;

        if (FR_LIKELY(fr_plan_by(p)->is_host || !id)) {
            memcpy(to, p->base[p->lost[i]], n);
        } else if (!fr_buffer_read(fr_nodes[id[p->given[p->lost[i]]]].v.buffer, 0, n, to)) {
            fr_judge_free_lost(kept, few);
            return NULL;
        }
        to += n;
    }
    return kept;
}

void
fr_judge_free_lost(char *kept, struct fr_judge_few *few)
{
    if (kept != few->bytes)
        fr_free(kept);
}

void
fr_judge_undo(const struct fr_plan *p, const char *kept)
{
    for (int i = 0; i < p->n_lost; i++) {
        size_t n = (size_t)p->place[p->lost[i]].bytes;

        memcpy(p->base[p->lost[i]], kept, n);
        kept += n;
    }
}

/* Where a result is, on the host. */
static char *
result_memory(const struct question *q, const struct fr_plan *p, int node)
{
    int r = fr_place_root(p->place, node);

    if (FR_LIKELY(fr_plan_by(p)->is_host))
        return p->base[r];
    if (p->place[r].kind == FR_PLACE_NEW)
        return on_host(p->fresh[r]);
    return q->id ? on_host(fr_nodes[q->id[p->given[r]]].v.buffer) : p->base[r];
}

/* Which leaves were overwritten, and where results are. */
static void
mark_memory(struct question *q, const struct fr_plan *p, const char *kept)
{
    for (int i = 0; i < p->n_lost; i++) {
        q->j.node[p->given[p->lost[i]]].memory = (char *)(uintptr_t)kept;
        kept = kept ? kept + p->place[p->lost[i]].bytes : NULL;
    }
    for (int i = 0; i < p->n_outputs; i++)
        if (p->given[p->output[i]] >= 0)
            q->j.node[p->given[p->output[i]]].memory = result_memory(q, p, p->output[i]);
}

void
fr_judge_plan(struct fr_plan *p, const fr_ref *id, int n, const char *kept, unsigned raised)
{
    struct question q;

    if (begin(&q, id, n, raised)) {
        fill(&q);
        mark_memory(&q, p, kept);
        ask(&q);
    }
    end(&q);
}

void
fr_judge_blindly(struct fr_plan *p, const uint32_t *site, unsigned raised, unsigned warns)
{
    const struct fr_graph *g = p->graph;
    struct question        q;

    if (begin(&q, NULL, g->n_nodes, raised)) {
        for (int i = 0; i < g->n_nodes; i++) {
            const struct fr_gnode *n = &g->node[i];

            q.j.node[i] = (struct fr_judged_node){.op = n->dead ? FR_OP_leaf : n->op, .dtype = n->dtype, .layout = n->layout, .n_args = 1};
            q.j.node[i].arg[0].node = i; /* itself: not there */
            q.j.node[i].arg[0].dtype = n->n_args && n->arg[0].src >= 0 ? g->node[n->arg[0].src].dtype : n->dtype;
            q.j.node[i].site = p->given[i] < 0 ? 0 : FR_SITE_WRITTEN(site[p->given[i]]) | warns << 28;
        }
        for (int i = 0; i < p->n_outputs; i++)
            q.j.node[p->output[i]].memory = result_memory(&q, p, p->output[i]);
        ask(&q);
    }
    end(&q);
}

/* ---- one node ---- */

enum { NODE_MAX = 8 };

/* Adds what the node reads, then the node; false: that is more than one node is expected to read. */
static bool
add_node(fr_ref *id, int *n, fr_ref node)
{
    const struct fr_node *x;

    node = fr_nodes[node].op == FR_OP_view ? fr_nodes[node].arg[0] : node;
    x = &fr_nodes[node];
    for (int i = 0; i < *n; i++)
        if (id[i] == node)
            return true;
    for (int k = 0; x->op != FR_OP_leaf && k < x->n_args; k++)
        if (!fr_arg_is_number(x, k) && !add_node(id, n, x->arg[k]))
            return false;
    if (*n == NODE_MAX)
        return false;
    id[(*n)++] = node;
    return true;
}

void
fr_judge_node(fr_ref node, const struct fr_buffer *out, unsigned raised)
{
    fr_ref          id[NODE_MAX];
    struct question q;
    int             n = 0;

    if (!add_node(id, &n, node))
        return;
    if (begin(&q, id, n, raised)) {
        fill(&q);
        for (int i = 0; i < n; i++)
            if (q.j.node[i].memory == out->mem)
                q.j.node[i].memory = NULL;
        q.j.node[n - 1].memory = out->mem;
        ask(&q);
    }
    end(&q);
}

fr_status
fr_judge_say(void)
{
    fr_judge_found = false;
    return fr_hooks.speak ? fr_hooks.speak() : FR_OK;
}
