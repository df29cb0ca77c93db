/* base/span.c -- see span.h. */
#include "base/span.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

const char *const fr_span_kinds[FR_N_SPANS] = {
#define SPAN(name, text) #name,
#include "base/span.def"
};

atomic_bool        fr_spans_are_on;
atomic_uint        fr_spans_generation;
struct fr_span_why fr_span_why;

enum { MOST_MEMORY = 4096,      /* when there are more, two become one */
       NAME_SLOTS = 256 };

/* All of it under the lock, which mostly nobody else wants: what is beside Python's threads compiles. */
static struct {
    pthread_mutex_t  lock;
    struct fr_spans  of;
    uint32_t        *slot;       /* [last_slot + 1] places in `sum`, plus 1; 0: free */
    size_t           last_slot, cap_sums;
    char           **text;       /* [n_names] names; the first is nobody's */
    size_t           n_names, cap_names;
    uint32_t         name[NAME_SLOTS];   /* the last names that were asked for, by their first letters */
    uint64_t         most, n_more;   /* bytes since the last of `memory`, which stands for so many looks, */
    uint64_t         n_each;     /* and each for so many */
    uint16_t         n_threads;
} s = {.lock = PTHREAD_MUTEX_INITIALIZER};

static FR_THREAD_LOCAL struct {
    uint32_t generation;
    uint16_t number;
    uint64_t within;             /* ticks of what has ended within the span that is open */
} thread;

/* ---- names ---- */

uint32_t
fr_span_name(const char *text)
{
    uint32_t n = 0, *slot, h = 0;

    if (!fr_spans_on())
        return 0;
    for (const char *c = text; *c; c++)
        h = h * 31 + (unsigned char)*c;
    pthread_mutex_lock(&s.lock);
    slot = &s.name[h % NAME_SLOTS];
    if (*slot && strcmp(s.text[*slot], text) == 0)
        n = *slot;
    for (uint32_t i = 1; i < s.n_names && n == 0; i++)
        if (strcmp(s.text[i], text) == 0)
            n = i;
    if (n == 0 && FR_GROW(s.text, s.cap_names, s.n_names + 2)) {
        const size_t size = strlen(text) + 1;
        char        *copy = fr_malloc(size);

        s.n_names += s.n_names == 0;
        if (copy)
            s.text[n = (uint32_t)s.n_names++] = memcpy(copy, text, size);
    }
    *slot = n;
    pthread_mutex_unlock(&s.lock);
    return n;
}

void
fr_span_know(struct fr_span_known *k, const char *text)
{
    k->name = fr_span_name(text);
    k->generation = fr_spans_generation;
}

const char *
fr_span_text(uint32_t name)
{
    const char *text;

    pthread_mutex_lock(&s.lock);
    text = name > 0 && name < s.n_names ? s.text[name] : "";
    pthread_mutex_unlock(&s.lock);
    return text;
}

static void
forget_names(void)
{
    for (size_t i = 1; i < s.n_names; i++)
        fr_free(s.text[i]);
    fr_free(s.text);
    s.text = NULL;
    memset(s.name, 0, sizeof s.name);
    s.n_names = s.cap_names = 0;
}

/* ---- begin and end of all ---- */

/* In a child of fork the thread that had the lock may not exist, and what was recorded is the parent's. */
static void
after_fork_child(void)
{
    pthread_mutex_init(&s.lock, NULL);
    if (fr_spans_on()) {
        atomic_store(&fr_spans_are_on, false);
        s.of = (struct fr_spans){.ring = NULL};
        s.slot = NULL;
        s.last_slot = s.cap_sums = 0;
    }
}

bool
fr_spans_begin(size_t cap)
{
    static bool     at_fork_is_set;
    struct fr_span *ring = NULL;
    bool            begins;

    if (!at_fork_is_set)
        at_fork_is_set = pthread_atfork(NULL, NULL, after_fork_child) == 0;
    pthread_mutex_lock(&s.lock);
    begins = !fr_spans_on() && (ring = fr_malloc((cap ? cap : 1) * sizeof *ring)) != NULL;
    if (begins) {
        forget_names();
        s.of = (struct fr_spans){.ring = ring, .cap = cap, .begin = fr_ticks(), .begin_ns = fr_now_ns()};
        fr_spans_generation += fr_spans_generation == UINT32_MAX ? 2 : 1;
        s.n_threads = 0;
        s.most = s.n_more = 0;
        s.n_each = 1;
        fr_span_why = (struct fr_span_why){0, 0};
        atomic_store(&fr_spans_are_on, true);
    }
    pthread_mutex_unlock(&s.lock);
    return begins;
}

static void
keep_memory(uint64_t at)
{
    const size_t cap = MOST_MEMORY;

    if (!s.of.memory && !(s.of.memory = fr_malloc(cap * sizeof *s.of.memory)))
        return;
    if (s.of.n_memory == cap) {
        for (size_t i = 0; i < cap / 2; i++) {
            const struct fr_span_memory *a = &s.of.memory[2 * i];

            s.of.memory[i] = a[a[1].bytes > a[0].bytes];
        }
        s.of.n_memory = cap / 2;
        s.n_each *= 2;
    }
    s.of.memory[s.of.n_memory++] = (struct fr_span_memory){at, s.most};
    s.most = s.n_more = 0;
}

bool
fr_spans_end(struct fr_spans *out)
{
    bool ends;

    pthread_mutex_lock(&s.lock);
    if ((ends = fr_spans_on())) {
        atomic_store(&fr_spans_are_on, false);
        if (s.n_more)
            keep_memory(fr_ticks());
        s.of.end = fr_ticks();
        s.of.end_ns = fr_now_ns();
        *out = s.of;
        s.of = (struct fr_spans){.ring = NULL};
        fr_free(s.slot);
        s.slot = NULL;
        s.last_slot = s.cap_sums = 0;
    }
    pthread_mutex_unlock(&s.lock);
    return ends;
}

void
fr_spans_clear(struct fr_spans *of)
{
    fr_free(of->ring);
    fr_free(of->sum);
    fr_free(of->memory);
    *of = (struct fr_spans){.ring = NULL};
}

/* ---- sums ---- */

static bool
is_of(const struct fr_span_sum *a, const struct fr_span *b)
{
    return a->name == b->name && a->site == b->site && a->kind == b->kind && a->thread == b->thread;
}

static size_t
slot_of(uint32_t kind, uint32_t name, uint32_t site, uint32_t of_thread)
{
    const uint64_t x = ((uint64_t)site << 32 | name) * UINT64_C(0x9e3779b97f4a7c15) + kind + 64 * of_thread;

    return (size_t)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static bool
more_slots(void)
{
    const size_t n = s.slot ? 2 * (s.last_slot + 1) : 256;
    uint32_t    *fresh = fr_calloc(n, sizeof *fresh);

    if (!fresh)
        return false;
    fr_free(s.slot);
    s.slot = fresh;
    s.last_slot = n - 1;
    for (uint32_t i = 0; i < s.of.n_sums; i++) {
        const struct fr_span_sum *of = &s.of.sum[i];
        size_t                    at = slot_of(of->kind, of->name, of->site, of->thread) & s.last_slot;

        while (s.slot[at])
            at = (at + 1) & s.last_slot;
        s.slot[at] = i + 1;
    }
    return true;
}

/* The sum that the span is a part of; NULL: memory is out. */
static struct fr_span_sum *
sum_of(const struct fr_span *x)
{
    size_t at;

    if ((!s.slot || 2 * s.of.n_sums >= s.last_slot) && !more_slots())
        return NULL;
    at = slot_of(x->kind, x->name, x->site, x->thread) & s.last_slot;
    for (; s.slot[at]; at = (at + 1) & s.last_slot)
        if (is_of(&s.of.sum[s.slot[at] - 1], x))
            return &s.of.sum[s.slot[at] - 1];
    if (!FR_GROW(s.of.sum, s.cap_sums, s.of.n_sums + 1))
        return NULL;
    s.of.sum[s.of.n_sums] = (struct fr_span_sum){.name = x->name, .site = x->site, .kind = x->kind, .thread = x->thread};
    s.slot[at] = (uint32_t)++s.of.n_sums;
    return &s.of.sum[s.of.n_sums - 1];
}

/* ---- spans ---- */

static void
put(const struct fr_span *x, uint64_t self)
{
    struct fr_span_sum *sum = sum_of(x);

    if (sum) {
        sum->n++;
        sum->ticks += x->end - x->begin;
        sum->self += self;
        sum->number += x->number;
    }
    if (s.of.cap == 0) {
        s.of.n_lost++;
    } else if (s.of.n < s.of.cap) {
        s.of.ring[s.of.n++] = *x;
    } else {
        s.of.ring[s.of.first] = *x;
        s.of.first = s.of.first + 1 == s.of.cap ? 0 : s.of.first + 1;
        s.of.n_lost++;
    }
}

/* Under the lock. */
static void
know_thread(void)
{
    thread.generation = fr_spans_generation;
    thread.number = s.n_threads;
    s.n_threads += s.n_threads < UINT16_MAX;
    thread.within = 0;
}

struct fr_span_mark
fr_span_begun(void)
{
    struct fr_span_mark m;

    if (thread.generation != fr_spans_generation) {
        pthread_mutex_lock(&s.lock);
        know_thread();
        pthread_mutex_unlock(&s.lock);
    }
    m.within = thread.within;
    thread.within = 0;
    m.begin = fr_ticks();
    return m;
}

uint64_t
fr_span_within(void)
{
    const uint64_t within = thread.within;

    thread.within = 0;
    return within;
}

void
fr_span_ended_at(const struct fr_span_mark *m, uint64_t end, enum fr_span_kind kind, uint32_t name, uint32_t site, uint64_t number)
{
    const uint64_t ticks = end - m->begin, within = thread.within;

    if (!fr_spans_on())
        return;
    pthread_mutex_lock(&s.lock);
    if (thread.generation == fr_spans_generation && m->begin >= s.of.begin) {
        const struct fr_span x = {m->begin, end, number, name, site, thread.number, (uint8_t)kind};

        put(&x, ticks > within ? ticks - within : 0);
        thread.within = m->within + ticks;
    }
    pthread_mutex_unlock(&s.lock);
}

void
fr_span_beside(enum fr_span_kind kind, uint32_t name, int64_t ns, uint64_t number)
{
    pthread_mutex_lock(&s.lock);
    if (fr_spans_on()) {
        const uint64_t now = fr_ticks();
        const int64_t  passed = fr_now_ns() - s.of.begin_ns;
        const double   part = passed > 0 && ns < passed ? (double)ns / (double)passed : 1;
        struct fr_span x = {.end = now, .number = number, .name = name, .kind = (uint8_t)kind};

        if (thread.generation != fr_spans_generation)
            know_thread();
        x.thread = thread.number;
        x.begin = now - (uint64_t)(part * (double)(now - s.of.begin));
        put(&x, x.end - x.begin);
    }
    pthread_mutex_unlock(&s.lock);
}

void
fr_span_memory(uint64_t bytes)
{
    pthread_mutex_lock(&s.lock);
    if (bytes > s.of.peak_bytes)
        s.of.peak_bytes = bytes;
    if (bytes > s.most)
        s.most = bytes;
    if (++s.n_more >= s.n_each)
        keep_memory(fr_ticks());
    pthread_mutex_unlock(&s.lock);
}
