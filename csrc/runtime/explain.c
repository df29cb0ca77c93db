/* runtime/explain.c -- see explain.h. */
#include "runtime/explain.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/describe.h"
#include "runtime/place.h"
#include "runtime/storage.h"

bool fr_explain_is_on;

static struct fr_explanation now;
static pthread_t             thread;     /* whose evaluations are explained, */
static uint32_t            (*line_now)(void);   /* and where it is */
static struct fr_gathered    gathered;   /* for what is gathered here */

/* What the next evaluation is for, and the one that runs. */
static struct {
    const char     *sync, *because;      /* NULL: none */
    uint32_t        site, n_syncs;
    int             handed;              /* the name of the call of NumPy that has begun; -1 */
    bool            is_over;
    struct fr_event asked;               /* why the evaluations come that are asked for now, of which the first has its n_syncs */
    struct fr_event running;             /* way: NULL: none */
    struct fr_stats before;
    struct fr_text  placement;
} next;

static bool
is_told(void)
{
    return fr_explain_is_on && pthread_equal(thread, pthread_self());
}

/* ---- what happened ---- */

static void
fails(struct fr_explanation *e, fr_status st, const struct fr_err *err)
{
    if (e->st != FR_OK)
        return;
    e->st = st;
    if (err)
        e->err = *err;
    else
        fr_no_memory(&e->err, "an explanation");
}

static bool
is_same(const struct fr_event *a, const struct fr_event *b)
{
    return a->kind == b->kind && a->failed == b->failed && !strcmp(a->why, b->why) && !strcmp(a->way, b->way) &&
           a->name == b->name && a->plan == b->plan && a->site == b->site && a->n_syncs == b->n_syncs &&
           a->n_kernels == b->n_kernels && a->bytes_read == b->bytes_read && a->bytes_written == b->bytes_written;
}

static uint64_t
hash_of(const struct fr_event *a)
{
    uint64_t words[] = {(uint64_t)a->kind << 32 | a->site, (uint64_t)(uint32_t)a->name << 32 | (uint32_t)a->plan, a->n_syncs,
                        a->n_kernels, a->bytes_read, a->bytes_written}, out[2];

    fr_key_hash(words, FR_LEN(words), out);
    return out[0] ^ out[0] >> 32;
}

/* Twice the room for the table, with all events in it. */
static bool
grow_table(struct fr_explanation *e)
{
    size_t    n = e->n_slots ? 2 * e->n_slots : 64;
    uint32_t *slot = fr_calloc(n, sizeof *slot);

    if (!slot)
        return false;
    for (int i = 0; i < e->n_events; i++) {
        size_t at = hash_of(&e->event[i]) & (n - 1);

        while (slot[at])
            at = (at + 1) & (n - 1);
        slot[at] = (uint32_t)i + 1;
    }
    fr_free(e->slot);
    e->slot = slot;
    e->n_slots = n;
    return true;
}

static void
happened(struct fr_explanation *e, const struct fr_event *event)
{
    size_t at;

    if ((2 * ((size_t)e->n_events + 1) > e->n_slots && !grow_table(e)) || !FR_GROW(e->order, e->cap_order, e->n_order + 1) ||
        !FR_GROW(e->event, e->cap_events, (size_t)e->n_events + 1)) {
        fails(e, FR_ENOMEM, NULL);
        return;
    }
    at = hash_of(event) & (e->n_slots - 1);
    while (e->slot[at] && !is_same(&e->event[e->slot[at] - 1], event))
        at = (at + 1) & (e->n_slots - 1);
    if (!e->slot[at]) {
        e->event[e->n_events++] = *event;
        e->slot[at] = (uint32_t)e->n_events;
    }
    e->order[e->n_order++] = e->slot[at] - 1;
}

/* The number of a name, which is copied if it is new; -1: memory is out. */
static int
number_of(struct fr_explanation *e, const char *name)
{
    size_t n = strlen(name) + 1;

    for (int i = 0; i < e->n_names; i++)
        if (!strcmp(e->name[i], name))
            return i;
    if (!FR_GROW(e->name, e->cap_names, (size_t)e->n_names + 1) || !(e->name[e->n_names] = fr_malloc(n))) {
        fails(e, FR_ENOMEM, NULL);
        return -1;
    }
    memcpy(e->name[e->n_names], name, n);
    return e->n_names++;
}

/* ---- plans ---- */

/* The line of each node now: a plan may have been made for others. What a pass has made is where what it replaces was. */
static void
find_sites(const struct fr_plan *p, const struct fr_gathered *g, uint32_t *site)
{
    const struct fr_gnode *node = p->graph->node;
    const int              n = p->graph->n_nodes;

    for (int i = 0; i < n; i++)
        site[i] = FR_SITE_LINE(p->given[i] >= 0 ? fr_nodes[g->id[p->given[i]]].site : node[i].site);
    for (int i = 0; i < n; i++)
        for (int k = 0; p->given[i] < 0 && k < n; k++)
            if (p->given[k] >= 0 && FR_SITE_LINE(node[k].site) == FR_SITE_LINE(node[i].site)) {
                site[i] = site[k];
                break;
            }
}

static fr_status
describe(struct fr_explanation *e, struct fr_described *d, struct fr_gathered *g, const struct fr_plan *p,
         const struct fr_text *before, struct fr_err *err)
{
    struct fr_text text = {0}, json = {0};
    uint32_t      *site = fr_malloc(((size_t)p->graph->n_nodes + 1) * sizeof *site);
    fr_status      st = FR_OK;

    if (!site)
        return fr_no_memory(err, "the lines of a plan");
    find_sites(p, g, site);
    if (before && before->s)
        fr_text_add(&text, "%s", before->s);
    TRY(fr_describe_text(&text, p, site, e->kind, err));
    TRY(fr_describe_json(&json, p, site, err));
    d->text = text.s;
    d->json = json.s;
    text.s = json.s = NULL;
out:
    fr_text_clear(&text);
    fr_text_clear(&json);
    fr_free(site);
    return st;
}

static void
identify(const struct fr_gathered *g, const struct fr_plan *p, uint64_t id[2])
{
    uint64_t key[2], words[4] = {p ? 1 + p->is_unfused : 0, (uint64_t)g->n};

    for (int i = 0; i < g->n; i++) {
        words[2] = (words[2] ^ FR_SITE_LINE(fr_nodes[g->id[i]].site)) * 0x9e3779b97f4a7c15u;
        words[2] ^= words[2] >> 29;
    }
    for (int i = 0; i < g->n_moving; i++) /* a plan may be for windows that begin elsewhere */
        words[3] = (words[3] ^ (uint64_t)(p && p->move[i].with < 0 && p->move[i].n ? g->moving[i] : 0)) * 0x9e3779b97f4a7c15u;
    fr_key_hash(g->key, g->n_key, key);
    fr_key_hash(words, FR_LEN(words), id);
    id[0] ^= key[0];
    id[1] += key[1];
}

/* The number of its description, which may be new; -1: there is none. */
static int
described(struct fr_explanation *e, struct fr_gathered *g, const struct fr_plan *p, const struct fr_text *before)
{
    struct fr_structure of;
    struct fr_plan     *own = NULL;
    struct fr_err       err;
    uint64_t            id[2];
    fr_status           st = FR_OK;

    identify(g, p, id);
    for (int i = e->n_plans; i-- > 0;)
        if (e->plan[i].id[0] == id[0] && e->plan[i].id[1] == id[1])
            return i;
    if (!FR_GROW(e->plan, e->cap_plans, (size_t)e->n_plans + 1)) {
        fails(e, FR_ENOMEM, NULL);
        return -1;
    }
    if (!p && (st = fr_gather_structure(g, &of, &err)) == FR_OK)
        st = fr_plan_build(&of, false, &own, &err);
    e->plan[e->n_plans] = (struct fr_described){.id = {id[0], id[1]}};
    if (st == FR_OK)
        st = describe(e, &e->plan[e->n_plans], g, p ? p : own, before, &err);
    if (own)
        fr_plan_free(own);
    if (st == FR_OK)
        return e->n_plans++;
    fails(e, st, &err);
    return -1;
}

/* ---- while something runs ---- */

fr_status
fr_explain_begin(const char *kind, uint32_t (*here)(void), struct fr_err *err)
{
    FR_ASSERT(!fr_explain_is_on);
    if (!fr_describe_knows(kind))
        return fr_fail(err, FR_EVALUE, "explain knows graph, loops, c, cuda and plan, not '%s'", kind);
    memset(&next, 0, sizeof next);
    next.handed = -1;
    next.asked.why = "";
    now = (struct fr_explanation){.kind = kind};
    thread = pthread_self();
    line_now = here;
    fr_explain_is_on = true;
    return FR_OK;
}

static void
note_read(const char *why, uint32_t site, uint32_t n)
{
    if (n)
        happened(&now, &(struct fr_event){.kind = FR_EVENT_READ, .why = why, .way = "", .name = -1, .plan = -1, .site = site,
                                          .n_syncs = n});
}

/* What Python needed has been read: no evaluation came. */
static void
flush_syncs(void)
{
    note_read(next.asked.why, next.asked.site, next.asked.n_syncs);
    note_read(next.sync, next.site, next.n_syncs);
    next.n_syncs = next.asked.n_syncs = 0;
    next.sync = NULL;
}

void
fr_explain_end(struct fr_explanation *out)
{
    flush_syncs();
    fr_text_clear(&next.placement);
    fr_explain_is_on = false;
    *out = now;
    now = (struct fr_explanation){.kind = NULL};
}

void
fr_explanation_clear(struct fr_explanation *e)
{
    for (int i = 0; i < e->n_plans; i++) {
        fr_free(e->plan[i].text);
        fr_free(e->plan[i].json);
    }
    for (int i = 0; i < e->n_names; i++)
        fr_free(e->name[i]);
    fr_free(e->plan);
    fr_free(e->name);
    fr_free(e->event);
    fr_free(e->order);
    fr_free(e->slot);
    *e = (struct fr_explanation){.kind = NULL};
}

void
fr_explain_sync(const char *why, uint32_t site)
{
    if (!is_told() || next.is_over)
        return;
    if (next.n_syncs && (next.site != FR_SITE_LINE(site) || strcmp(next.sync, why) != 0))
        flush_syncs();
    next.n_syncs++;
    next.sync = why;
    next.site = FR_SITE_LINE(site);
}

void
fr_explain_handed(const char *name, uint32_t site)
{
    if (!is_told())
        return;
    flush_syncs();
    next.handed = number_of(&now, name);
    happened(&now, &(struct fr_event){.kind = FR_EVENT_HANDED, .why = "", .way = "", .name = next.handed, .plan = -1,
                                      .site = FR_SITE_LINE(site)});
}

void
fr_explain_over(void)
{
    if (!is_told())
        return;
    flush_syncs();
    next.is_over = true;
    happened(&now, &(struct fr_event){.kind = FR_EVENT_END, .why = "", .way = "", .name = -1, .plan = -1});
}

void
fr_explain_read(void)
{
    if (is_told())
        flush_syncs();
}

void
fr_explain_because(const char *why)
{
    if (is_told())
        next.because = why;
}

void
fr_explain_placement(struct fr_gathered *g)
{
    fr_device device;

    if (!is_told())
        return;
    fr_text_clear(&next.placement);
    next.placement = (struct fr_text){0};
    if (strcmp(now.kind, "plan") == 0)
        fr_place_explain(g, &next.placement, &device, NULL);
}

void
fr_explain_asked(void)
{
    if (!is_told())
        return;
    note_read(next.asked.why, next.asked.site, next.asked.n_syncs);
    next.asked = (struct fr_event){.kind = FR_EVENT_EVALUATION, .name = -1, .n_syncs = next.n_syncs};
    if (next.n_syncs) {
        next.asked.why = next.sync;
        next.asked.site = next.site;
        next.asked.name = strcmp(next.sync, "fallback") ? -1 : next.handed;
    } else {
        next.asked.why = next.because ? next.because : next.is_over ? "end" : "others";
        next.asked.site = next.is_over ? 0 : FR_SITE_LINE(line_now());
    }
    next.n_syncs = 0;
    next.sync = next.because = NULL;
}

static void
begin(struct fr_gathered *g, const struct fr_plan *p, const char *way)
{
    next.running = next.asked;
    next.running.way = way;
    next.running.plan = described(&now, g, p, &next.placement);
    fr_text_clear(&next.placement);
    next.placement = (struct fr_text){0};
    fr_stats_get(&next.before);
}

void
fr_explain_evaluation(struct fr_gathered *g, const struct fr_plan *p)
{
    if (is_told())
        begin(g, p, !p ? "nodes" : p->is_unfused ? "unfused" : "plan");
}

void
fr_explain_alone(fr_ref id)
{
    struct fr_err err;
    fr_status     st;

    if (!is_told())
        return;
    if ((st = fr_gather(&gathered, &id, 1, &err)) != FR_OK) {
        fails(&now, st, &err);
        return;
    }
    if (fr_nodes[id].device == FR_DEVICE_AUTO)
        fr_gather_place(&gathered, FR_DEVICE_HOST);
    begin(&gathered, NULL, "alone");
}

void
fr_explain_ran(fr_status st)
{
    struct fr_stats after;

    if (!is_told() || !next.running.way)
        return;
    fr_stats_get(&after);
    next.running.failed = st != FR_OK;
    next.running.n_kernels = after.n_kernels - next.before.n_kernels;
    next.running.bytes_read = after.bytes_read - next.before.bytes_read;
    next.running.bytes_written = after.bytes_written - next.before.bytes_written;
    happened(&now, &next.running);
    next.running.way = NULL;
    next.asked.n_syncs = 0;
}

/* ---- what has not run ---- */

/* What goes to several devices is explained as if the host had it all. */
static fr_status
place(struct fr_text *t, struct fr_err *err)
{
    fr_device device;
    fr_status st = fr_place_explain(&gathered, t, &device, err);

    if (st == FR_OK)
        fr_gather_place(&gathered, device);
    return st;
}

fr_status
fr_explain(const struct fr_tensor *const *t, int n, const char *kind, struct fr_explanation *out, struct fr_err *err)
{
    struct fr_plan *p;
    fr_ref         *roots = fr_malloc(((size_t)n + 1) * sizeof *roots);
    int             n_todo = 0, n_here;
    fr_status       st;

    *out = (struct fr_explanation){.kind = kind};
    if (!roots)
        return fr_no_memory(err, "the list of roots");
    if (!fr_describe_knows(kind))
        TRY(fr_fail(err, FR_EVALUE, "explain knows graph, loops, c, cuda and plan, not '%s'", kind));
    if ((st = fr_eval_lock(err)) != FR_OK)
        goto out;
    for (int i = 0; i < n; i++)
        if (fr_node_computes(&fr_nodes[t[i]->storage->node]))
            roots[n_todo++] = t[i]->storage->node;
    for (fr_ref *at = roots; st == FR_OK && n_todo > 0; at += n_here, n_todo -= n_here) { /* device by device */
        struct fr_text placement = {0};

        n_here = fr_eval_of_device(at, n_todo, fr_nodes[at[0]].device);
        st = fr_gather(&gathered, at, n_here, err);
        if (st == FR_OK && fr_nodes[at[0]].device == FR_DEVICE_AUTO)
            st = place(&placement, err);
        if (st == FR_OK)
            st = fr_plan_cache_find(&gathered, FR_FIND_MADE, &p, err);
        if (st == FR_OK) {
            struct fr_event event = {.kind = FR_EVENT_EVALUATION, .why = "pending", .way = "pending", .name = -1,
                                     .n_kernels = (uint64_t)p->n_kernels};

            event.plan = described(out, &gathered, p, !strcmp(kind, "plan") ? &placement : NULL);
            for (int i = 0; i < p->n_steps; i++) {
                event.bytes_read += p->step[i].bytes_read;
                event.bytes_written += p->step[i].bytes_written;
            }
            happened(out, &event);
        }
        fr_text_clear(&placement);
    }
    fr_eval_unlock();
    if (st == FR_OK && out->st != FR_OK)
        st = fr_fail(err, out->st, "%s", out->err.text);
out:
    fr_free(roots);
    return st;
}
