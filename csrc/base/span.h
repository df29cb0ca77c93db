/* base/span.h -- what takes time, as spans: begun and ended, with a kind, a name and a line.  Called where that happens,
 * recorded only while somebody profiles; python/frit/_profile.py shows it.
 *
 * The last spans are kept, one by one, in a ring; the sums of all of them besides, by kind, name, line and thread. Spans of a
 * thread lie within each other, and what one takes itself is what those within it do not: so their sums add up to the time
 * that passed. */
#ifndef FR_BASE_SPAN_H
#define FR_BASE_SPAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#if !defined(__x86_64__)
#include "base/clock.h"
#endif

enum fr_span_kind {
#define SPAN(name, text) FR_SPAN_##name,
#include "base/span.def"
    FR_N_SPANS
};
extern FR_HIDDEN const char *const fr_span_kinds[FR_N_SPANS];

struct fr_span {
    uint64_t begin, end;         /* ticks */
    uint64_t number;             /* what it counts, by its kind */
    uint32_t name;               /* fr_span_name, or as its kind says */
    uint32_t site;               /* of user code (ir/node.h); 0: none's */
    uint16_t thread;             /* in the order in which they came */
    uint8_t  kind;
};

struct fr_span_sum {
    uint64_t n, ticks, self;     /* so many, and how long they took, with and without those within */
    uint64_t number;             /* all together */
    uint32_t name, site;
    uint16_t thread;
    uint8_t  kind;
};

/* Memory in use at some time. */
struct fr_span_memory {
    uint64_t at, bytes;
};

/* What was recorded. */
struct fr_spans {
    struct fr_span        *ring;
    size_t                 n, first, cap;    /* the oldest is ring[first], and the next is behind it, or at 0 */
    uint64_t               n_lost;           /* spans that are not there any more, or had no memory: they are in the sums */
    struct fr_span_sum    *sum;
    size_t                 n_sums;
    struct fr_span_memory *memory;           /* in order; the most of each while */
    size_t                 n_memory;
    uint64_t               peak_bytes;
    uint64_t               begin, end;       /* ticks of all of it, */
    int64_t                begin_ns, end_ns; /* and by the clock (base/clock.h) */
};

/* Whether somebody profiles. */
extern FR_HIDDEN atomic_bool fr_spans_are_on;
static inline bool
fr_spans_on(void)
{
    return __builtin_expect(atomic_load_explicit(&fr_spans_are_on, memory_order_relaxed), 0);
}

/* Time that passes, evenly and for all threads alike, in units that only the begin and end of the spans tell. */
static inline uint64_t
fr_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return (uint64_t)fr_now_ns();
#endif
}

/* Begins, with room for so many in the ring. False: it had begun, or memory is out. */
bool      fr_spans_begin(size_t cap);
/* Ends, and gives what was recorded; fr_spans_clear ends that. False: nothing had begun. */
bool      fr_spans_end(struct fr_spans *out);
void      fr_spans_clear(struct fr_spans *);

/* The number of a name, which is copied; 0: nobody profiles, or memory is out. Good until fr_spans_begin. */
uint32_t    fr_span_name(const char *);
const char *fr_span_text(uint32_t name);     /* "" of 0 */
/* The same of a name that is asked for again and again, by who keeps this. */
struct fr_span_known {
    uint32_t generation, name;
};
extern FR_HIDDEN atomic_uint fr_spans_generation;   /* of what is recorded; never 0 while it is */
static inline bool
fr_span_knows(const struct fr_span_known *k)
{
    return k->generation == atomic_load_explicit(&fr_spans_generation, memory_order_relaxed);
}
void fr_span_know(struct fr_span_known *, const char *);
static inline uint32_t
fr_span_name_of(struct fr_span_known *k, const char *text)
{
    if (!fr_span_knows(k))
        fr_span_know(k, text);
    return k->name;
}

/* What a span that has begun must know at its end. */
struct fr_span_mark {
    uint64_t begin, within;      /* 0: nobody profiled */
};
struct fr_span_mark fr_span_begun(void);
void     fr_span_ended_at(const struct fr_span_mark *, uint64_t end, enum fr_span_kind, uint32_t name, uint32_t site,
                          uint64_t number);
/* For a mark of one that follows another at once. */
uint64_t fr_span_within(void);

/* The two ends of a span; each begin has its end on the same thread, on every way out. */
static inline struct fr_span_mark
fr_span_begin(void)
{
    return fr_spans_on() ? fr_span_begun() : (struct fr_span_mark){0, 0};
}

static inline void
fr_span_end(const struct fr_span_mark *m, enum fr_span_kind kind, uint32_t name, uint32_t site, uint64_t number)
{
    if (__builtin_expect(m->begin != 0, 0))
        fr_span_ended_at(m, fr_ticks(), kind, name, site, number);
}

/* A span of another thread or process, which took so many ns until now and is within none. */
void fr_span_beside(enum fr_span_kind, uint32_t name, int64_t ns, uint64_t number);
/* So many bytes are in use now. */
void fr_span_memory(uint64_t bytes);

/* Why the next evaluation is, and where: set by bind/. */
struct fr_span_why {
    uint32_t name, site;
};
extern FR_HIDDEN struct fr_span_why fr_span_why;

#endif
