/* The plans that there are, found by their keys; the oldest goes when there are too many. Called by eval.c. */
#include <string.h>

#include "runtime/plan.h"
#include "runtime/tensor.h"

enum { PLAN_BUCKETS = 1024,
       MAX_PLANS = 2048 };

static struct fr_plan *plans[PLAN_BUCKETS], *last_plan;
static int             n_plans;
static uint64_t        clock_;

static void
hash_words(const uint64_t *w, size_t n, uint64_t out[2])
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

static void
drop_oldest_plan(void)
{
    struct fr_plan **oldest = NULL, *p;

    last_plan = NULL;
    for (int i = 0; i < PLAN_BUCKETS; i++)
        for (struct fr_plan **link = &plans[i]; *link; link = &(*link)->next) {
            (*link)->then = NULL;
            if (!(*link)->running && !(*link)->n_recordings && (!oldest || (*link)->last_used < (*oldest)->last_used))
                oldest = link;
        }
    if (!oldest)
        return;
    p = *oldest;
    *oldest = p->next;
    n_plans--;
    fr_plan_free(p);
}

static bool
has_key(const struct fr_plan *p, const struct fr_gathered *g)
{
    return p->n_key == g->n_key && !memcmp(p->key, g->key, g->n_key * sizeof *p->key);
}

static FR_COLD fr_status
add_plan(const struct fr_gathered *g, const uint64_t hash[2], struct fr_plan **out, struct fr_err *err)
{
    struct fr_plan *p;
    fr_status       st = fr_plan_build(g, &p, err);

    if (st != FR_OK)
        return st;
    p->hash[0] = hash[0];
    p->hash[1] = hash[1];
    if (n_plans >= MAX_PLANS)
        drop_oldest_plan();
    p->next = plans[hash[0] % PLAN_BUCKETS];
    plans[hash[0] % PLAN_BUCKETS] = p;
    n_plans++;
    *out = p;
    return FR_OK;
}

/* One that is found again may come often. */
static void
note_hit(struct fr_plan *p, const struct fr_gathered *g, struct fr_stats *stats)
{
    stats->n_plan_hits++;
    if (p->pattern || p->has_no_pattern)
        return;
    p->pattern = fr_pattern_new(g, &p->graph->arena);
    p->has_no_pattern = !p->pattern;
}

static void
note_use(struct fr_plan *p)
{
    p->last_used = ++clock_;
    if (last_plan)
        last_plan->then = p;
    last_plan = p;
}

struct fr_plan *
fr_plans_last(void)
{
    return last_plan;
}

struct fr_plan *
fr_plans_recognise(const fr_ref *roots, int n_roots, struct fr_gathered *g, struct fr_stats *stats)
{
    struct fr_plan *p = last_plan ? last_plan->then : NULL;

    if (!p || !p->pattern || !fr_pattern_fits(p->pattern, roots, n_roots, g))
        return NULL;
    stats->n_plan_hits++;
    stats->n_recognised++;
    note_use(p);
    return p;
}

fr_status
fr_plans_find(const struct fr_gathered *g, struct fr_stats *stats, struct fr_plan **out, struct fr_err *err)
{
    uint64_t        hash[2];
    struct fr_plan *p = last_plan ? last_plan->then : NULL;
    fr_status       st;

    /* In a loop, what came after the last plan the time before comes again: that saves the hash. */
    if (FR_UNLIKELY(!p || !has_key(p, g))) {
        hash_words(g->key, g->n_key, hash);
        for (p = plans[hash[0] % PLAN_BUCKETS]; p; p = p->next)
            if (p->hash[0] == hash[0] && p->hash[1] == hash[1] && has_key(p, g))
                break;
    }
    if (p) {
        note_hit(p, g, stats);
    } else {
        if ((st = add_plan(g, hash, &p, err)) != FR_OK)
            return st;
        stats->n_plans++;
    }
    note_use(p);
    *out = p;
    return FR_OK;
}
