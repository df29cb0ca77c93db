/* An exact search for a placement below a given height, where the orders of memory.c find none.
 *
 * The way of thinking is MiniMalloc's (M. D. Moffitt, MiniMalloc: A Lightweight Memory Allocator
 * for Hardware-Accelerated Machine Learning, ASPLOS 2023): time is cut into sections; pieces are
 * put down from the bottom up, each as low as it goes; what a section still has to take, on top of
 * the lowest place that any of it can have, tells early that a placement cannot be completed
 * (section inference); and what falls apart in time is solved apart.
 *
 * Two things are our own. First, where to branch. Of the places where the ground is lower than on
 * both sides, the section with the least room to spare is taken:
 *
 *          +-----+            Either one of the pieces that cover section p, and can lie at height
 *     +----+     +---+        e, does, or none does, and the ground of p is at the next height at
 *     |     . p .    |        which one of them could come to lie. Nothing else can slip below, for
 *     |     +-----+--+        whatever meets such a piece is at e or higher.
 *     +-----+   e
 *
 * So each placement is met once, and the tight sections are settled first. Second, a failure comes
 * with the stretch of time that it was derived from: a choice that does not touch the stretch is
 * not made again in another way.
 *
 * Which piece is tried first matters much, and no rule is right for all problems. So the search
 * runs in rounds of limited length with changing orders; the random numbers in them are always the
 * same. A round that comes to its end has proved that there is no placement. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "passes/memory_int.h"

enum {
    MAX_DEPTH = 2000,    /* calls within calls, of about 400 bytes of stack; a round ends beyond */
    MAX_TRAIL = 1 << 21, /* a round that would need more ends */
    ROUND_STEPS = 8,     /* times the square of the number of pieces: the length of a round */
    ROUNDS_EACH = 64
}; /* of one length; the next ones are twice as long */

struct choice { /* a piece while it is searched for */
    int32_t from, to;
    int32_t rank; /* place in the order in which pieces are tried */
    int32_t kind; /* those with the same size and life are of one kind */
    int32_t twin; /* the one of its kind that is placed before it, or -1 */
    bool    placed;
    int64_t size, at; /* not placed: it cannot be lower */
    int64_t crowd;    /* the most that lives beside it, itself included */
};

struct ground {     /* of one section */
    int64_t lowest; /* no piece still to be placed here can be lower */
    int64_t bytes;  /* of the pieces still to be placed here */
    int     skip;   /* the next section without `lowest`, or a way to it */
};

struct undo {
    int32_t which;
    int64_t at;
};

struct sorted {
    int64_t key;
    int     rank, index;
};

struct part {           /* choices that meet, directly or through others */
    int     first, end; /* in `set` */
    int     section;    /* where to branch */
    int64_t room;       /* there */
};

struct stretch {
    int from, to;
};

struct search {
    struct choice *choice;
    int            n;
    int32_t       *set; /* [n] sorted by `from` */
    int64_t        target;
    struct ground *ground; /* [n_sections + 1] */
    struct sorted *sorted; /* [n] */
    struct part   *part;   /* [n + MAX_DEPTH] stack */
    int            n_parts, depth;
    struct undo   *trail;
    size_t         n_trail, cap_trail;
    struct stretch why;              /* of the last failure */
    int64_t        steps, max_steps; /* of this round */
    uint64_t       random;
};

enum answer { NO, YES, SPENT };

static int
by_key(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank - y->rank;
}

static void
widen(struct stretch *s, int from, int to)
{
    s->from = from < s->from ? from : s->from;
    s->to = to > s->to ? to : s->to;
}

static bool meets(const struct choice *x, int from, int to) { return x->from <= to && from <= x->to; }

/* ---- what must fail ----------------------------------------------------------------------- */

static int
next_bare(struct ground *g, int s)
{
    while (g[s].skip != s)
        s = g[s].skip = g[g[s].skip].skip;
    return s;
}

/* Because of the pieces that are still to be placed in this section. */
static enum answer
fail_at(struct search *z, const struct part *p, int section)
{
    z->why = (struct stretch){section, section};
    for (int k = p->first; k < p->end; k++) {
        const struct choice *x = &z->choice[z->set[k]];

        if (meets(x, section, section))
            widen(&z->why, x->from, x->to);
    }
    return NO;
}

/* Of the places where the ground is lower than on both sides, the section with the least room. */
static void
find_branch(const struct search *z, struct part *p, int from, int to)
{
    const struct ground *g = z->ground;

    p->room = INT64_MAX;
    for (int s = from, t; s <= to; s = t + 1) {
        for (t = s; t < to && g[t + 1].lowest == g[s].lowest; t++)
            continue;
        if ((s > from && g[s - 1].lowest < g[s].lowest) || (t < to && g[t + 1].lowest < g[s].lowest))
            continue;
        for (int q = s; q <= t; q++) {
            int64_t room = z->target - g[q].lowest - g[q].bytes;

            if (room < p->room || (room == p->room && g[q].lowest < g[p->section].lowest)) {
                p->room = room;
                p->section = q;
            }
        }
    }
}

/* NO when some section cannot take what it has to; else p->section and p->room are set. */
static enum answer
look_at(struct search *z, struct part *p)
{
    struct ground *g = z->ground;
    int            m = p->end - p->first, from = z->choice[z->set[p->first]].from, to = from;

    for (int k = 0; k < m; k++) {
        const struct choice *x = &z->choice[z->set[p->first + k]];

        to = x->to > to ? x->to : to;
        z->sorted[k] = (struct sorted){x->at, x->rank, z->set[p->first + k]};
    }
    z->steps += 2 * m + to - from + 1;
    if (z->steps > z->max_steps)
        return SPENT;
    for (int s = from; s <= to + 1; s++)
        g[s] = (struct ground){.skip = s};
    for (int k = 0; k < m; k++) {
        const struct choice *x = &z->choice[z->sorted[k].index];

        g[x->from].bytes += x->size;
        g[x->to + 1].bytes -= x->size;
    }
    for (int s = from + 1; s <= to; s++)
        g[s].bytes += g[s - 1].bytes;
    /* From the lowest up, each takes the sections that none has taken. */
    qsort(z->sorted, (size_t)m, sizeof *z->sorted, by_key);
    for (int k = 0; k < m; k++) {
        const struct choice *x = &z->choice[z->sorted[k].index];

        for (int s = next_bare(g, x->from); s <= x->to; s = next_bare(g, s)) {
            if (x->at + g[s].bytes > z->target)
                return fail_at(z, p, s);
            g[s].lowest = x->at;
            g[s].skip = s + 1;
        }
    }
    find_branch(z, p, from, to);
    return YES;
}

/* ---- moves -------------------------------------------------------------------------------- */

/* What of set[first, end) meets these sections cannot be lower than `at`. */
static bool
raise_to(struct search *z, int first, int end, int from, int to, int64_t at)
{
    for (int k = first; k < end && z->choice[z->set[k]].from <= to; k++) {
        struct choice *x = &z->choice[z->set[k]];

        if (x->to < from || x->at >= at)
            continue;
        if (z->n_trail == z->cap_trail)
            return false;
        z->trail[z->n_trail++] = (struct undo){z->set[k], x->at};
        x->at = at;
    }
    return true;
}

static void
take_back(struct search *z, size_t n_trail)
{
    while (z->n_trail > n_trail) {
        z->n_trail--;
        z->choice[z->trail[z->n_trail].which].at = z->trail[z->n_trail].at;
    }
}

/* Of the pieces of p that cover its section and can lie at `ground`, the first with a rank above
 * `after`; where it is in `set`, or -1. */
static int
next_choice(struct search *z, const struct part *p, int64_t ground, int after)
{
    int best = -1;

    z->steps += p->end - p->first;
    for (int k = p->first; k < p->end; k++) {
        const struct choice *x = &z->choice[z->set[k]];

        if (x->at == ground && x->rank > after && meets(x, p->section, p->section) &&
            (best < 0 || x->rank < z->choice[z->set[best]].rank))
            best = k;
    }
    return best;
}

/* The least height above `ground` at which a piece that covers the section of p can come to lie;
 * why: the time of all pieces that matter for that, and for which ones can lie at `ground`. */
static int64_t
next_ground(struct search *z, const struct part *p, int64_t ground, struct stretch *why)
{
    int64_t next = INT64_MAX;

    for (int k = p->first; k < p->end; k++) {
        const struct choice *x = &z->choice[z->set[k]];

        if (!meets(x, p->section, p->section))
            continue;
        widen(why, x->from, x->to);
        if (x->at > ground) {
            next = x->at < next ? x->at : next;
            continue;
        }
        /* It is higher only if something beside the section is below it. */
        if ((z->steps += p->end - p->first) > z->max_steps)
            break;
        for (int j = p->first; j < p->end && z->choice[z->set[j]].from <= x->to; j++) {
            const struct choice *y = &z->choice[z->set[j]];

            if (y->to < x->from)
                continue;
            widen(why, y->from, y->to);
            if (!meets(y, p->section, p->section) && y->at < ground + x->size && y->at + y->size < next)
                next = y->at + y->size;
        }
    }
    return next;
}

/* ---- the search --------------------------------------------------------------------------- */

static enum answer solve(struct search *, const struct part *);

/* Solves set[first, end), each part of it apart, the smallest first: they fail soonest. */
static enum answer
solve_all(struct search *z, int first, int end)
{
    int         base = z->n_parts, n;
    enum answer answer = YES;

    for (int i = first, j; i < end && answer == YES; i = j) {
        struct part *p = &z->part[z->n_parts++], mine;
        int32_t      to = z->choice[z->set[i]].to;

        for (j = i; j < end && z->choice[z->set[j]].from <= to; j++)
            to = z->choice[z->set[j]].to > to ? z->choice[z->set[j]].to : to;
        *p = (struct part){.first = i, .end = j};
        answer = look_at(z, p);
        for (mine = *p; p > &z->part[base] && p[-1].end - p[-1].first > j - i; p--)
            *p = p[-1];
        *p = mine;
    }
    n = z->n_parts - base;
    for (int i = 0; i < n && answer == YES; i++) {
        answer = solve(z, &z->part[base + i]);
        for (int k = 0; k < i && answer != YES; k++)
            for (int j = z->part[base + k].first; j < z->part[base + k].end; j++)
                z->choice[z->set[j]].placed = false;
    }
    z->n_parts = base;
    return answer;
}

/* The piece at set[k] lies where it is; the rest of its part follows. */
static enum answer
solve_with(struct search *z, const struct part *p, int k)
{
    int            which = z->set[k];
    struct choice *x = &z->choice[which];
    size_t         n_trail = z->n_trail, after = (size_t)(p->end - k - 1);
    enum answer    answer = SPENT;

    x->placed = true;
    memmove(z->set + k, z->set + k + 1, after * sizeof *z->set);
    if (raise_to(z, p->first, p->end - 1, x->from, x->to, x->at + x->size))
        answer = solve_all(z, p->first, p->end - 1);
    memmove(z->set + k + 1, z->set + k, after * sizeof *z->set);
    z->set[k] = which;
    if (answer != YES) {
        x->placed = false;
        take_back(z, n_trail);
    }
    return answer;
}

/* No piece lies in the section of p below `at`. */
static enum answer
solve_above(struct search *z, const struct part *p, int64_t at)
{
    size_t      n_trail = z->n_trail;
    enum answer answer = SPENT;

    if (raise_to(z, p->first, p->end, p->section, p->section, at))
        answer = solve_all(z, p->first, p->end);
    if (answer != YES)
        take_back(z, n_trail);
    return answer;
}

static enum answer
branch(struct search *z, const struct part *p)
{
    struct stretch why = {p->section, p->section};
    int64_t        ground = z->target, next;
    enum answer    answer;

    for (int k = p->first; k < p->end; k++) {
        const struct choice *x = &z->choice[z->set[k]];

        if (x->at < ground && meets(x, p->section, p->section))
            ground = x->at;
    }
    next = next_ground(z, p, ground, &why);
    if (z->steps > z->max_steps)
        return SPENT;
    for (int k = next_choice(z, p, ground, -1); k >= 0; k = next_choice(z, p, ground, z->choice[z->set[k]].rank)) {
        const struct choice *x = &z->choice[z->set[k]];

        if (x->twin >= 0 && !z->choice[x->twin].placed)
            continue;
        if ((answer = solve_with(z, p, k)) != NO)
            return answer;
        if (!meets(x, z->why.from, z->why.to))
            return NO; /* whatever lies here instead, that fails again */
        widen(&why, z->why.from, z->why.to);
    }
    if (next != INT64_MAX && next - ground <= p->room) {
        if ((answer = solve_above(z, p, next)) != NO)
            return answer;
        if (z->why.from > p->section || z->why.to < p->section)
            return NO;
        widen(&why, z->why.from, z->why.to);
    }
    z->why = why;
    return NO;
}

static enum answer
solve(struct search *z, const struct part *p)
{
    enum answer answer = SPENT;

    if (z->depth < MAX_DEPTH) {
        z->depth++;
        answer = branch(z, p);
        z->depth--;
    }
    return answer;
}

/* ---- rounds ------------------------------------------------------------------------------- */

static double
random_unit(struct search *z)
{
    z->random = z->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(z->random >> 11) / (double)(1ull << 53);
}

enum by { CROWD, SIZE, LENGTH, AREA, N_BY };

static const enum by orders[][3] = {
    {CROWD, SIZE, LENGTH}, {SIZE, CROWD, LENGTH}, {LENGTH, AREA, CROWD}};

struct keyed {
    double key[3];
    int    index;
};

static int
by_keys(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;

    for (int k = 0; k < 3; k++)
        if (x->key[k] != y->key[k])
            return x->key[k] > y->key[k] ? -1 : 1;
    return x->index - y->index;
}

/* Ranks by one of the orders, the first time as they are, then with noise. */
static void
rank(struct search *z, int round, struct keyed *keyed, int32_t *last)
{
    const enum by *by = orders[(size_t)round % FR_LEN(orders)];

    for (int i = 0; i < z->n; i++) {
        const struct choice *x = &z->choice[i];
        double               noise = round < (int)FR_LEN(orders) ? 1 : 0.6 + 0.8 * random_unit(z);
        double               length = x->to - x->from + 1, size = (double)x->size;
        double               of[N_BY] = {(double)x->crowd, size, length, size * length};

        for (int k = 0; k < 3; k++)
            keyed[i].key[k] = of[by[k]] * noise;
        keyed[i].index = i;
        last[i] = -1;
    }
    qsort(keyed, (size_t)z->n, sizeof *keyed, by_keys);
    for (int i = 0; i < z->n; i++) {
        struct choice *x = &z->choice[keyed[i].index];

        x->rank = i;
        x->twin = last[x->kind];
        last[x->kind] = keyed[i].index;
    }
}

static enum answer
run_rounds(struct search *z, int64_t *steps, struct keyed *keyed, int32_t *last)
{
    enum answer answer = SPENT;
    int64_t     length = (int64_t)ROUND_STEPS * z->n * z->n;

    for (int round = 0; *steps > 0 && answer == SPENT; round++) {
        if (round && round % ROUNDS_EACH == 0)
            length *= 2;
        rank(z, round, keyed, last);
        for (int i = 0; i < z->n; i++) {
            z->set[i] = i;
            z->choice[i].at = 0;
            z->choice[i].placed = false;
        }
        z->steps = 0;
        z->max_steps = length < *steps ? length : *steps;
        z->n_trail = 0;
        z->n_parts = z->depth = 0;
        answer = solve_all(z, 0, z->n);
        *steps -= z->steps;
    }
    return answer;
}

/* ---- stretches of time -------------------------------------------------------------------- */

/* For qsort: by beginning, then the same ones side by side. */
static int
by_life(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;

    if (x->from != y->from)
        return x->from - y->from;
    if (x->to != y->to)
        return x->to - y->to;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->rank - y->rank; /* still the place in the caller's array */
}

static void
fill_choices(struct search *z, const struct fr_piece *piece)
{
    for (int i = 0; i < z->n; i++)
        z->choice[i] = (struct choice){
            .from = piece[i].from, .to = piece[i].to, .rank = i, .size = piece[i].size};
    qsort(z->choice, (size_t)z->n, sizeof *z->choice, by_life);
}

/* Kinds, and what lives beside each. */
static void
describe_choices(struct search *z, int n_sections, int32_t *place)
{
    int64_t alive = 0;

    for (int s = 0; s <= n_sections; s++)
        z->ground[s].bytes = 0;
    for (int i = 0; i < z->n; i++) {
        struct choice *x = &z->choice[i], *before = x - 1;

        place[i] = x->rank;
        x->kind = i && x->from == before->from && x->to == before->to && x->size == before->size
                      ? before->kind
                      : i;
        z->ground[x->from].bytes += x->size;
        z->ground[x->to + 1].bytes -= x->size;
    }
    for (int s = 0; s < n_sections; s++)
        z->ground[s].bytes = alive += z->ground[s].bytes;
    for (int i = 0; i < z->n; i++)
        for (int s = z->choice[i].from; s <= z->choice[i].to; s++)
            if (z->ground[s].bytes > z->choice[i].crowd)
                z->choice[i].crowd = z->ground[s].bytes;
}

/* The same for n pieces that have nothing to do with others. */
static fr_status
search_stretch(struct fr_piece *piece, int n, int n_sections, int64_t target, int64_t *steps,
               bool *found, struct fr_err *err)
{
    size_t        room = (size_t)n;
    struct search z = {.n = n, .target = target, .random = 1};
    struct keyed *keyed = fr_malloc(room * sizeof *keyed);
    int32_t      *place = fr_malloc(room * sizeof *place), *last = fr_malloc(room * sizeof *last);
    fr_status     st = FR_OK;

    *found = false;
    z.cap_trail = room * room / 2 + 64 * room;
    z.cap_trail = z.cap_trail < MAX_TRAIL ? z.cap_trail : MAX_TRAIL;
    z.choice = fr_malloc(room * sizeof *z.choice);
    z.set = fr_malloc(room * sizeof *z.set);
    z.ground = fr_malloc(((size_t)n_sections + 1) * sizeof *z.ground);
    z.sorted = fr_malloc(room * sizeof *z.sorted);
    z.part = fr_malloc((room + MAX_DEPTH + 1) * sizeof *z.part);
    z.trail = fr_malloc(z.cap_trail * sizeof *z.trail);
    if (!keyed || !place || !last || !z.choice || !z.set || !z.ground || !z.sorted || !z.part || !z.trail) {
        st = fr_fail(err, FR_ENOMEM, "out of memory: placing %d temporaries", n);
        goto out;
    }
    fill_choices(&z, piece);
    describe_choices(&z, n_sections, place);
    *found = run_rounds(&z, steps, keyed, last) == YES;
    for (int i = 0; i < n && *found; i++)
        piece[place[i]].at = z.choice[i].at;
out:
    fr_free(keyed);
    fr_free(place);
    fr_free(last);
    fr_free(z.choice);
    fr_free(z.set);
    fr_free(z.ground);
    fr_free(z.sorted);
    fr_free(z.part);
    fr_free(z.trail);
    return st;
}

fr_status
fr_memory_search(struct fr_piece *piece, int n, int n_sections, int64_t target, int64_t *steps,
                 bool *found, struct fr_err *err)
{
    int64_t  *kept = fr_malloc(((size_t)n + 1) * sizeof *kept);
    fr_status st = FR_OK;

    if (!kept)
        return fr_fail(err, FR_ENOMEM, "out of memory: placing %d temporaries", n);
    for (int i = 0; i < n; i++)
        kept[i] = piece[i].at;
    *found = true;
    for (int i = 0, j; i < n && *found; i = j) {
        int32_t to = piece[i].to;
        bool    fits = true;

        for (j = i; j < n && piece[j].from <= to; j++) {
            to = piece[j].to > to ? piece[j].to : to;
            fits &= piece[j].at + piece[j].size <= target;
        }
        if (fits)
            continue;
        *found = false;
        if ((int64_t)(j - i) * (j - i) <= *steps)
            TRY(search_stretch(piece + i, j - i, n_sections, target, steps, found, err));
    }
    for (int i = 0; i < n && !*found; i++)
        piece[i].at = kept[i];
out:
    fr_free(kept);
    return st;
}
