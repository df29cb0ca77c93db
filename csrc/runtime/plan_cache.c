/* The plans that there are, found by their keys; the longest unused go when there are too many. Called by eval.c. */
#include <string.h>

#include "base/alloc.h"
#include "base/span.h"
#include "base/ways.h"
#include "runtime/plan.h"
#include "runtime/storage.h"
#include "runtime/tensor.h"

enum { PLAN_BUCKETS = 1024,
       MAX_PLANS = 2048,
       N_METS = 4096,
       WORTH_PLANNING = 12,    /* nodes that have been run one by one */
       MOST_MET = 32,          /* windows of which is noted where they began */
       MAX_UNLIKE = 3 };       /* plans for one key that ask for scalars that are alike; one more asks for none that are */

static struct fr_plan *plans[PLAN_BUCKETS], *last_plan;
static uint64_t        clock_;

/* Where plans are kept. When each was last wanted lies side by side: thousands are looked through in no time. */
static struct fr_plan **slots;     /* [n_slots] */
static uint64_t        *wanted;    /* [n_slots] */
static size_t           n_slots, cap_slots, cap_wanted, n_bytes;

void
fr_key_hash(const uint64_t *w, size_t n, uint64_t out[2])
{
    uint64_t a = 0x9e3779b97f4a7c15u ^ n, b = 0xc2b2ae3d27d4eb4fu;

    /* Every other word each, joined at the end: the plan that is found is compared word by word anyway. */
    for (size_t i = 0; i + 1 < n; i += 2) {
        a = (a ^ w[i]) * 0xff51afd7ed558ccdu;
        a ^= a >> 32;
        b = (b ^ w[i + 1]) * 0xc4ceb9fe1a85ec53u;
        b ^= b >> 29;
    }
    if (n % 2)
        a = (a ^ w[n - 1]) * 0xff51afd7ed558ccdu;
    out[0] = (a ^ a >> 32) + b;
    out[1] = b;
}

static size_t
bytes_of(const struct fr_plan *p)
{
    return fr_arena_bytes(&p->graph->arena) + (p->unfused ? fr_arena_bytes(&p->unfused->graph->arena) : 0);
}

/* The plan that is to run now. */
static FR_COLD struct fr_plan *
without_wait(struct fr_plan *p, struct fr_gathered *g)
{
    struct fr_plan *now;

    n_bytes -= bytes_of(p);
    now = fr_plan_without_wait(p, g);
    n_bytes += bytes_of(p);
    return now;
}

static bool
is_held(const struct fr_plan *p)
{
    return p->running || p->n_captured || (p->unfused && p->unfused->running);
}

/* The slot of the plan that was wanted longest ago, of those that nobody holds; n_slots: there is none. */
static size_t
oldest_slot(void)
{
    size_t oldest = 0;

    for (size_t i = 1; i < n_slots; i++)
        oldest = wanted[i] < wanted[oldest] ? i : oldest;
    if (!is_held(slots[oldest]))
        return oldest;
    oldest = n_slots;
    for (size_t i = 0; i < n_slots; i++)
        if ((oldest == n_slots || wanted[i] < wanted[oldest]) && !is_held(slots[i]))
            oldest = i;
    return oldest;
}

static void
drop_plan(size_t slot)
{
    struct fr_plan  *p = slots[slot];
    struct fr_plan **link = &plans[p->hash[0] % PLAN_BUCKETS];

    while (*link != p)
        link = &(*link)->next;
    *link = p->next;
    if (last_plan == p || last_plan == p->unfused)
        last_plan = NULL;
    n_bytes -= bytes_of(p);
    fr_plan_free(p);
    if (slot == --n_slots)
        return;
    slots[slot] = slots[n_slots];
    slots[slot]->slot = (uint32_t)slot;
    wanted[slot] = wanted[n_slots];
}

/* Room for one more plan, of so many bytes: others go, as long as there are too many. False: memory is out. */
static bool
make_room(size_t more)
{
    size_t oldest;

    while (n_slots > 0 && (n_slots >= MAX_PLANS || n_bytes + more > (size_t)fr_env.plan_mb << 20) &&
           (oldest = oldest_slot()) < n_slots)
        drop_plan(oldest);
    return FR_GROW(slots, cap_slots, n_slots + 1) && FR_GROW(wanted, cap_wanted, n_slots + 1);
}

static bool
has_key(const struct fr_plan *p, const struct fr_gathered *g)
{
    return p->n_key == g->n_key && !memcmp(p->key, g->key, g->n_key * sizeof *p->key);
}

/* Whether the scalars are alike that were when the plan was made, where it makes use of that. */
static bool
are_alike(const struct fr_plan *p, const struct fr_gathered *g)
{
    for (int i = 0; i < p->n_alike; i++)
        if (memcmp(&g->scalar[p->alike[i].a], &g->scalar[p->alike[i].b], sizeof *g->scalar) != 0)
            return false;
    return true;
}

/* The same, and windows begin where the plan lets them. */
static bool
holds(const struct fr_plan *p, const struct fr_gathered *g)
{
    FR_ASSERT(p->n_moving == g->n_moving);
    return fr_moving_holds(p->move, g->moving, p->n_moving) && are_alike(p, g);
}

/* Keeps a new plan; frees it where there is no memory. */
static FR_COLD fr_status
add_plan(struct fr_plan *p, const uint64_t hash[2], struct fr_err *err)
{
    struct fr_plan **link = &plans[hash[0] % PLAN_BUCKETS];
    size_t           more = bytes_of(p);

    if (!make_room(more)) {
        fr_plan_free(p);
        return fr_no_memory(err, "a plan");
    }
    p->hash[0] = hash[0];
    p->hash[1] = hash[1];
    p->slot = (uint32_t)n_slots;
    slots[n_slots] = p;
    wanted[n_slots++] = clock_;
    n_bytes += more;
    while (*link) /* behind those with the same key, which are for fewer runs and may run faster */
        link = &(*link)->next;
    *link = p;
    p->next = NULL;
    return FR_OK;
}

/* ---- plans that are not made yet ---- */

/* What has been met, and has no plan. */
static struct met {
    uint64_t         hash[2];
    struct fr_draft *draft;              /* NULL: it was not often, or large, enough */
    uint32_t         n_run;              /* nodes, one by one, less what has come instead; 0: the place is free */
    int              n_moving;           /* windows of which is known where they began at first: */
    struct fr_move  *move;               /* [n_moving] */
} mets[N_METS];

/* Notes where the windows begin, for a plan that is made when others of its kind have come. Of many, or where there is no memory,
 * nothing is known. */
static void
note_windows(struct met *m, const struct fr_gathered *g)
{
    m->n_moving = 0;
    fr_free(m->move);
    m->move = NULL;
    if (g->n_moving == 0 || g->n_moving > MOST_MET || !(m->move = fr_malloc((size_t)g->n_moving * sizeof *m->move)))
        return;
    m->n_moving = g->n_moving;
    for (int i = 0; i < g->n_moving; i++)
        m->move[i] = (struct fr_move){g->moving[i], -1};
}

/* A plan for what the others with this key are not for, so many; `older`: the last of them. */
static FR_COLD fr_status
build(struct fr_gathered *g, int n_older, int n_unlike, const struct fr_plan *older, struct fr_plan **out, struct fr_err *err)
{
    const struct fr_span_mark mark = fr_span_begin();
    struct fr_structure       of;
    fr_status                 st = fr_gather_structure(g, &of, err);

    if (n_unlike >= MAX_UNLIKE)
        of.scalar = NULL;
    of.older = older ? older->move : NULL;
    of.n_older = n_older;
    fr_planner_start(); /* which has memory ready for what is new */
    st = st == FR_OK ? fr_plan_build(&of, false, out, err) : st;
    if (FR_UNLIKELY(mark.begin != 0))
        fr_span_end(&mark, FR_SPAN_plan, fr_span_name("waited for"), 0, (uint64_t)g->n);
    return st;
}

/* Has a plan made for what comes again: much comes but once. To ask for one takes as long as a small operation, and one of
 * a few nodes saves little, so they may come some times before. Of those that want one place, the most frequent of late has
 * it: whoever else comes halves what is known of it. *out is NULL before the plan is there; *kept: it was made for others,
 * and is kept. */
static FR_COLD fr_status
expect(struct fr_gathered *g, enum fr_find how, const uint64_t hash[2], struct fr_plan **out, bool *kept, struct fr_err *err)
{
    struct met     *m = &mets[hash[0] % N_METS];
    bool            same = m->hash[0] == hash[0] && m->hash[1] == hash[1];
    uint32_t        n = how == FR_FIND_SOON ? WORTH_PLANNING : (uint32_t)g->n_order;
    struct fr_plan *made;

    *out = NULL;
    if (m->draft) {
        if (!fr_planner_done(m->draft, &made))
            return FR_OK;
        m->draft = NULL;
        m->n_run = 0;
        if (same && made && has_key(made, g) && holds(made, g)) {
            *out = made;
            return FR_OK;
        }
        if (made && add_plan(made, m->hash, NULL) == FR_OK && same) { /* else, if it comes again, it is found */
            *kept = true;
            return FR_OK;
        }
        if (same)
            return build(g, 0, 0, NULL, out, err);
    }
    if (m->n_run == 0) {
        memcpy(m->hash, hash, sizeof m->hash);
        m->n_run = n < WORTH_PLANNING ? n : WORTH_PLANNING - 1;
        note_windows(m, g);
    } else if (!same) {
        m->n_run /= 2;
    } else if ((m->n_run += n) >= WORTH_PLANNING &&
               !(m->draft = fr_planner_ask(g, m->n_moving == g->n_moving ? m->move : NULL))) {
        m->n_run = 0;
        return build(g, 0, 0, NULL, out, err);
    }
    return FR_OK;
}

struct fr_plan *
fr_plan_cache_last(void)
{
    return last_plan;
}

fr_status
fr_plan_cache_find(struct fr_gathered *g, enum fr_find how, struct fr_plan **out, struct fr_err *err)
{
    uint64_t        hash[2];
    struct fr_plan *p, *older;
    int             n_older, n_unlike;
    bool            kept;
    fr_status       st;

    fr_key_hash(g->key, g->n_key, hash);
again:
    n_older = n_unlike = 0;
    older = NULL;
    kept = false;
    for (p = plans[hash[0] % PLAN_BUCKETS]; p; p = p->next)
        if (p->hash[0] == hash[0] && p->hash[1] == hash[1] && has_key(p, g)) {
            if (holds(p, g))
                break;
            n_older++;
            n_unlike += !are_alike(p, g);
            older = p;
        }
    if (!p) {
        fr_counted.n_strange += (uint64_t)g->n;
        st = how >= FR_FIND_LATER && n_older == 0 && fr_eager_suits(g) ? expect(g, how, hash, &p, &kept, err)
                                                                        : build(g, n_older, n_unlike, older, &p, err);
        if (kept)
            goto again;
        *out = p;
        if (st != FR_OK || !p)
            return st;
        if ((st = add_plan(p, hash, err)) != FR_OK)
            return st;
        fr_count_way(FR_WAY_plans);
    } else if (how != FR_FIND_NODE) {
        fr_count_way(FR_WAY_plan_hits);
    }
    wanted[p->slot] = ++clock_;
    if (FR_UNLIKELY(p->may_wait || p->unfused) && how >= FR_FIND_LATER)
        p = without_wait(p, g);
    if (how != FR_FIND_NODE)
        last_plan = p;
    *out = p;
    return FR_OK;
}
