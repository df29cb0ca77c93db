/* tests/cuda/ptx_memory.c -- loads, stores and atomics of a warp: where lanes point, whether they may, and what it
 * costs.
 *
 * Each instruction remembers the allocation it last met, so that `find` is asked once and lanes are compared with two
 * bounds. */
#include <pthread.h>
#include <stdlib.h>

#include "ptx_int.h"

typedef uint16_t __attribute__((aligned(1), may_alias)) u16;
typedef uint32_t __attribute__((aligned(1), may_alias)) u32;
typedef uint64_t __attribute__((aligned(1), may_alias)) u64;
typedef int8_t __attribute__((may_alias)) s8;
typedef int16_t __attribute__((aligned(1), may_alias)) s16;
typedef int32_t __attribute__((aligned(1), may_alias)) s32;

/* ---- what accesses cost ---- */

static int
sorted(uint64_t *to, const uint64_t *addr, uint32_t m)
{
    int n = 0;

    EACH_OF(m, i) {
        int k = n++;

        for (; k > 0 && to[k - 1] > addr[i]; k--)
            to[k] = to[k - 1];
        to[k] = addr[i];
    }
    return n;
}

static void
count_global(struct warp *w, const struct insn *in, const uint64_t *addr, uint32_t m, uint32_t n_bytes, bool stores)
{
    struct ptx_counts *c = w->w->counts;
    struct ptx_site   *site = &w->w->sites[in->site];
    uint64_t at_[LANES], end = 0, next = 0, n_sectors = 0, bytes = 0, ideal;
    const int n = sorted(at_, addr, m);

    for (int i = 0; i < n; i++) {
        uint64_t first = at_[i] / 32, last = (at_[i] + n_bytes - 1) / 32, from = at_[i] > end ? at_[i] : end;

        first = first > next ? first : next;
        n_sectors += last >= first ? last - first + 1 : 0;
        next = last + 1 > next ? last + 1 : next;
        bytes += at_[i] + n_bytes > from ? at_[i] + n_bytes - from : 0;
        end = at_[i] + n_bytes > end ? at_[i] + n_bytes : end;
    }
    ideal = (bytes + 31) / 32;
    site->line = in->line;
    site->stores = stores;
    site->n_accesses++;
    site->n_sectors += n_sectors;
    site->n_ideal += ideal;
    *(stores ? &c->store_bytes : &c->load_bytes) += (uint64_t)n * n_bytes;
    *(stores ? &c->store_sectors : &c->load_sectors) += n_sectors;
    *(stores ? &c->ideal_store_sectors : &c->ideal_load_sectors) += ideal;
}

/* Words of one bank follow one another; a half of the warp takes turns with the other for 8 bytes, quarters for 16. */
static void
count_banks(struct warp *w, const uint64_t *offset, uint32_t m, uint32_t n_bytes)
{
    const int parts = n_bytes <= 4 ? 1 : n_bytes <= 8 ? 2 : 4, lanes = LANES / parts;

    for (int p = 0; p < parts; p++) {
        const uint32_t mine = m & (uint32_t)((1ull << lanes) - 1) << p * lanes, words = n_bytes <= 4 ? 1 : n_bytes / 4;
        uint32_t       most = 0;
        uint64_t seen[LANES][LANES * 2];
        uint8_t  n_seen[LANES] = {0};

        EACH_OF(mine, i)
            for (uint32_t k = 0; k < words; k++) {
                uint64_t word = offset[i] / 4 + k;
                uint32_t bank = word % LANES, j = 0;

                while (j < n_seen[bank] && seen[bank][j] != word)
                    j++;
                if (j == n_seen[bank])
                    seen[bank][n_seen[bank]++] = word;
                most = n_seen[bank] > most ? n_seen[bank] : most;
            }
        w->w->counts->n_conflicts += most > 1 ? most - 1 : 0;
    }
}

/* ---- races in shared memory ---- */

static bool
is_ordered(const struct warp *w, uint32_t lane, const struct touch *t)
{
    const struct worker *k = w->w;
    const uint32_t       other = t->thread / LANES;

    if (!t->is_set || t->tick < k->full_tick)
        return true;
    if (other != w->index)
        return t->tick < k->warp_knows[w->index * k->n_warps + other];
    return t->tick < w->ticks_base || (w->knows_parts && t->tick < w->known[lane][t->thread % LANES]);
}

static bool
race(struct warp *w, const struct insn *in, uint32_t lane, uint64_t offset, const struct touch *t, bool writes,
     bool wrote)
{
    return ptx_fault(w, in, (int)lane, "race: %s byte %llu of shared memory, which thread %u has %s at line %u with no "
                     "barrier between", writes ? "writes" : "reads", (unsigned long long)offset, t->thread,
                     wrote ? "written" : "read", t->line);
}

/* What is known of the bytes of an access: units of 8 bytes at first, and smaller ones where accesses are smaller.
 * The first byte of a unit has what is known of it. */
static uint32_t
unit_of(struct worker *k, uint64_t offset, uint32_t n_bytes)
{
    uint8_t *unit = &k->units[offset / 8];

    while (*unit > n_bytes) {
        struct shadow *s = &k->shadow[offset / 8 * 8];

        *unit /= 2;
        for (uint32_t at_ = *unit; at_ < 8; at_ += 2u * *unit)
            s[at_] = s[at_ - *unit];
    }
    return *unit;
}

static inline bool
touch_unit(struct warp *w, const struct insn *in, uint32_t lane, uint64_t offset, bool writes, bool atomic)
{
    const struct touch now = {w->w->tick, in->line, (uint16_t)(w->index * LANES + lane), true, atomic};
    const uint32_t     old = w->w->full_tick;
    struct shadow     *s = &w->w->shadow[offset];

    if (s->write.is_set && s->write.tick >= old && s->write.thread != now.thread && !(atomic && s->write.atomic) &&
        !is_ordered(w, lane, &s->write))
        return race(w, in, lane, offset, &s->write, writes, true);
    if (writes) {
        for (int k = 0; k < 2; k++)
            if (s->read[k].is_set && s->read[k].tick >= old && s->read[k].thread != now.thread &&
                !is_ordered(w, lane, &s->read[k]))
                return race(w, in, lane, offset, &s->read[k], true, false);
        s->write = now;
        s->read[0].is_set = s->read[1].is_set = false;
    } else if (s->read[0].thread == now.thread || is_ordered(w, lane, &s->read[0])) {
        s->read[0] = now;
    } else {
        s->read[1] = now;
    }
    return true;
}

static bool
touch(struct warp *w, const struct insn *in, const uint64_t *offset, uint32_t m, uint32_t n_bytes, bool writes, bool atomic)
{
    const uint32_t first = (uint32_t)__builtin_ctz(m), last = 31 - (uint32_t)__builtin_clz(m);
    bool           same = !writes;

    for (uint32_t i = first; same && i <= last; i++)
        same = !(m >> i & 1) || offset[i] == offset[first];
    if (same) { /* all read one place that nobody wrote since the last barrier: two of them stand for all */
        const struct shadow *s = &w->w->shadow[offset[first]];

        if (n_bytes <= 8 && unit_of(w->w, offset[first], n_bytes) == n_bytes &&
            (!s->write.is_set || s->write.tick < w->w->full_tick))
            m = 1u << first | 1u << last;
    }
    EACH_OF(m, lane)
        for (uint32_t done = 0, unit; done < n_bytes; done += unit) {
            unit = unit_of(w->w, offset[lane] + done, n_bytes - done);
            if (!touch_unit(w, in, lane, offset[lane] + done, writes, atomic))
                return false;
        }
    return true;
}

/* Lanes that met know of one another's accesses, and of those that the others know of. */
void
ptx_warp_synced(struct warp *w, uint32_t lanes)
{
    struct worker *k = w->w;

    if (!k->shadow)
        return;
    k->tick++;
    if ((w->exists & ~w->exited & ~lanes) == 0) {
        w->ticks_base = k->tick;
        return;
    }
    if (!w->knows_parts) {
        memset(w->known, 0, sizeof w->known);
        w->knows_parts = true;
    }
    uint32_t all[LANES] = {0};

    EACH_OF(lanes, a)
        for (int b = 0; b < LANES; b++)
            all[b] = w->known[a][b] > all[b] ? w->known[a][b] : all[b];
    EACH_OF(lanes, a)
        all[a] = k->tick;
    EACH_OF(lanes, a)
        memcpy(w->known[a], all, sizeof all);
}

/* ---- where lanes point ---- */

static bool
outside(struct warp *w, const struct insn *in, uint32_t lane, uint64_t address, uint32_t n_bytes, const char *what)
{
    return ptx_fault(w, in, (int)lane, "%u bytes at address 0x%llx are out of bounds%s", n_bytes,
                     (unsigned long long)address, what);
}

static bool
look_up(struct warp *w, const struct insn *in, uint32_t lane, uint64_t address, uint32_t n_bytes, bool writes)
{
    const struct state *s = w->w->s;
    struct range       *r = &w->w->ranges[in->site];
    uint64_t            base = (uint64_t)(uintptr_t)s->m->memory;

    if (address >= base && address < base + s->m->memory_bytes) {
        *r = (struct range){base, base + s->m->memory_bytes, s->m->memory};
    } else if ((address & SPACE_MASK) == PARAM_BASE) {
        if (writes)
            return ptx_fault(w, in, (int)lane, "parameters of the kernel are not to be written");
        *r = (struct range){PARAM_BASE, PARAM_BASE + s->k->all_params_bytes, s->params};
    } else {
        uint64_t first = 0, end = 0;
        unsigned char *p = s->memory && s->memory->find && address < SHARED_BASE
                               ? s->memory->find(s->memory->arg, address, n_bytes, writes, &first, &end) : NULL;

        if (!p)
            return outside(w, in, lane, address, n_bytes, "");
        *r = (struct range){first, end, p - (address - first)};
    }
    if (address < r->first || address + n_bytes > r->end || address + n_bytes < address)
        return outside(w, in, lane, address, n_bytes, "");
    return true;
}

/* Lanes that do not run may have any address. */
static inline unsigned char *
plus(unsigned char *p, uint64_t n)
{
    return (unsigned char *)((uintptr_t)p + n);
}

/* Lanes of one space; addr counts from its beginning, or is an address. */
static bool
resolve_in(struct warp *w, const struct insn *in, int space, const uint64_t *addr, uint32_t m, uint32_t n_bytes,
           int how, unsigned char **p)
{
    struct worker *k = w->w;
    struct range  *r = &k->ranges[in->site];
    const bool     writes = how & 1, atomic = how & 2;
    uint64_t       lo = UINT64_MAX, hi = 0, low_bits = 0;

    if (m == UINT32_MAX)
        for (int i = 0; i < LANES; i++) {
            lo = addr[i] < lo ? addr[i] : lo;
            hi = addr[i] > hi ? addr[i] : hi;
            low_bits |= addr[i];
        }
    else
        EACH_OF(m, i) {
            lo = addr[i] < lo ? addr[i] : lo;
            hi = addr[i] > hi ? addr[i] : hi;
            low_bits |= addr[i];
        }
    if (low_bits & (n_bytes - 1))
        EACH_OF(m, i)
            if (addr[i] & (n_bytes - 1))
                return ptx_fault(w, in, (int)i, "address 0x%llx is misaligned for %u bytes", (unsigned long long)addr[i],
                                 n_bytes);
    switch (space) {
    case S_SHARED:
        if (hi + n_bytes > k->shared_bytes || hi + n_bytes < hi)
            EACH_OF(m, i)
                if (addr[i] + n_bytes > k->shared_bytes || addr[i] + n_bytes < addr[i])
                    return outside(w, in, i, addr[i], n_bytes, " of shared memory");
        for (int i = 0; i < LANES; i++)
            p[i] = plus(k->shared, addr[i]);
        if (k->counts)
            count_banks(w, addr, m, n_bytes);
        return !k->shadow || touch(w, in, addr, m, n_bytes, writes, atomic);
    case S_LOCAL:                               /* 16 bytes of a lane, then of the next: few pages are touched */
        if (hi + n_bytes > k->local_stride || hi + n_bytes < hi)
            EACH_OF(m, i)
                if (addr[i] + n_bytes > k->local_stride || addr[i] + n_bytes < addr[i])
                    return outside(w, in, i, addr[i], n_bytes, " of local memory");
        for (int i = 0; i < LANES; i++)
            p[i] = plus(w->local, addr[i] / 16 * 16 * LANES + (uint64_t)i * 16 + addr[i] % 16);
        return true;
    default:
        if (lo >= r->first && hi < r->end && hi + n_bytes <= r->end) {
            for (int i = 0; i < LANES; i++)
                p[i] = plus(r->host, addr[i] - r->first);
        } else {
            EACH_OF(m, i) {
                if (!(addr[i] >= r->first && addr[i] < r->end && addr[i] + n_bytes <= r->end) &&
                    !look_up(w, in, i, addr[i], n_bytes, writes))
                    return false;
                p[i] = r->host + (addr[i] - r->first);
            }
        }
        if (k->counts && space != S_CONST && (lo & SPACE_MASK) != PARAM_BASE)
            count_global(w, in, addr, m, n_bytes, writes);
        return true;
    }
}

static int
window_of(uint64_t a)
{
    return (a & SPACE_MASK) == SHARED_BASE ? S_SHARED : (a & SPACE_MASK) == LOCAL_BASE ? S_LOCAL : S_GLOBAL;
}

/* how: 1 writes, 2 is atomic. */
static bool
resolve(struct warp *w, const struct insn *in, ref base, int64_t imm, int space, uint32_t m, uint32_t n_bytes, int how,
        unsigned char **p)
{
    uint64_t addr[LANES], near[LANES];

    if (in->address_width == 8) {
        const uint64_t *a = at(w, base);

        for (int i = 0; i < LANES; i++)
            addr[i] = a[i] + (uint64_t)imm;
    } else {
        const uint32_t *a = at(w, base);

        for (int i = 0; i < LANES; i++)
            addr[i] = a[i] + (uint64_t)imm;
    }
    if (space == S_GENERIC) {
        uint32_t lanes[3] = {0};                /* global, shared, local */
        uint64_t high = 0;

        for (int i = 0; i < LANES; i++)
            high |= m >> i & 1 ? addr[i] : 0;
        if (high < SHARED_BASE)
            return resolve_in(w, in, S_GLOBAL, addr, m, n_bytes, how, p);
        EACH_OF(m, i)
            lanes[window_of(addr[i]) - S_GLOBAL] |= 1u << i;
        for (int k = 0; k < 3; k++) {
            if (!lanes[k])
                continue;
            for (int i = 0; i < LANES; i++)
                near[i] = k ? addr[i] & ~SPACE_MASK : addr[i];
            unsigned char *q[LANES];

            if (!resolve_in(w, in, S_GLOBAL + k, near, lanes[k], n_bytes, how, q))
                return false;
            EACH_OF(lanes[k], i)
                p[i] = q[i];
        }
        return true;
    }
    return resolve_in(w, in, space, addr, m, n_bytes, how, p);
}

/* ---- loads and stores ---- */

#define FOR_LANES(BODY) \
    do { \
        if (m == UINT32_MAX) \
            for (int i = 0; i < LANES; i++) { BODY } \
        else \
            EACH_OF(m, i) { BODY } \
    } while (0)

#define LOAD(T, D) FOR_LANES(((D *)d)[i] = (D)*(const T *)(p[i] + off);)
#define CASE(size, width, is_signed) ((size) << 8 | (width) << 1 | (is_signed))

/* One element of each lane into a register. */
static void
load_one(void *d, unsigned char *const *p, size_t off, const struct insn *in, uint32_t m)
{
    switch (CASE(in->size, in->width, in->is_signed)) {
    case CASE(1, 2, 0): LOAD(uint8_t, uint16_t); break;
    case CASE(1, 4, 0): LOAD(uint8_t, uint32_t); break;
    case CASE(1, 8, 0): LOAD(uint8_t, uint64_t); break;
    case CASE(1, 2, 1): LOAD(s8, int16_t); break;
    case CASE(1, 4, 1): LOAD(s8, int32_t); break;
    case CASE(1, 8, 1): LOAD(s8, int64_t); break;
    case CASE(2, 2, 0): case CASE(2, 2, 1): LOAD(u16, uint16_t); break;
    case CASE(2, 4, 0): LOAD(u16, uint32_t); break;
    case CASE(2, 8, 0): LOAD(u16, uint64_t); break;
    case CASE(2, 4, 1): LOAD(s16, int32_t); break;
    case CASE(2, 8, 1): LOAD(s16, int64_t); break;
    case CASE(4, 4, 0): case CASE(4, 4, 1): LOAD(u32, uint32_t); break;
    case CASE(4, 8, 0): LOAD(u32, uint64_t); break;
    case CASE(4, 8, 1): LOAD(s32, int64_t); break;
    default: LOAD(u64, uint64_t); break;
    }
}

#define STORE(T, D) FOR_LANES(*(T *)(p[i] + off) = (T)((const D *)d)[i];)

static void
store_one(const void *d, unsigned char *const *p, size_t off, const struct insn *in, uint32_t m)
{
    switch (CASE(in->size, in->width, 0)) {
    case CASE(1, 2, 0): STORE(uint8_t, uint16_t); break;
    case CASE(1, 4, 0): STORE(uint8_t, uint32_t); break;
    case CASE(1, 8, 0): STORE(uint8_t, uint64_t); break;
    case CASE(2, 2, 0): STORE(u16, uint16_t); break;
    case CASE(2, 4, 0): STORE(u16, uint32_t); break;
    case CASE(2, 8, 0): STORE(u16, uint64_t); break;
    case CASE(4, 4, 0): STORE(u32, uint32_t); break;
    case CASE(4, 8, 0): STORE(u32, uint64_t); break;
    default: STORE(u64, uint64_t); break;
    }
}

/* True if the lanes' elements follow one another. */
static bool
follow(unsigned char *const *p, uint32_t m, uint32_t size)
{
    uintptr_t differ = 0;

    if (m != UINT32_MAX)
        return false;
    for (uint32_t i = 0; i < LANES; i++)
        differ |= (uintptr_t)p[i] ^ ((uintptr_t)p[0] + i * size);
    return differ == 0;
}

bool
ptx_load(struct warp *w, const struct insn *in, uint32_t m)
{
    unsigned char *p[LANES];

    if (!resolve(w, in, in->a, in->imm, in->space, m, (uint32_t)in->size * in->n, 0, p))
        return false;
    if (in->n > 1) {
        const ref *v = w->w->s->m->refs + in->target;

        for (int k = 0; k < in->n; k++)
            if (v[k] != NO_REF)
                load_one(at(w, v[k]), p, (size_t)k * in->size, in, m);
    } else if (in->size == in->width && follow(p, m, in->size)) {
        memcpy(at(w, in->d), p[0], (size_t)LANES * in->size);
    } else {
        load_one(at(w, in->d), p, 0, in, m);
    }
    return true;
}

bool
ptx_store(struct warp *w, const struct insn *in, uint32_t m)
{
    unsigned char *p[LANES];

    if (!resolve(w, in, in->a, in->imm, in->space, m, (uint32_t)in->size * in->n, 1, p))
        return false;
    if (in->n > 1) {
        const ref *v = w->w->s->m->refs + in->target;

        for (int k = 0; k < in->n; k++)
            store_one(at(w, v[k]), p, (size_t)k * in->size, in, m);
    } else if (in->size == in->width && follow(p, m, in->size)) {
        memcpy(p[0], at(w, in->b), (size_t)LANES * in->size);
    } else {
        store_one(at(w, in->b), p, 0, in, m);
    }
    return true;
}

/* A parameter of the kernel: the same for all. */
bool
ptx_load_param(struct warp *w, const struct insn *in, uint32_t m)
{
    unsigned char *p[LANES];
    const ref     *v = w->w->s->m->refs + in->target;

    for (int i = 0; i < LANES; i++)
        p[i] = w->w->s->params + in->imm;
    for (int k = 0; k < in->n; k++) {
        ref d = in->n > 1 ? v[k] : in->d;

        if (d != NO_REF)
            load_one(at(w, d), p, (size_t)k * in->size, in, m);
    }
    return true;
}

/* .param variables of a function: each lane has its own. */
bool
ptx_load_frame(struct warp *w, const struct insn *in, uint32_t m)
{
    unsigned char *p[LANES];
    const ref     *v = w->w->s->m->refs + in->target;

    for (int i = 0; i < LANES; i++)
        p[i] = w->current->area + (size_t)i * w->current->fn->area_bytes + in->imm;
    for (int k = 0; k < in->n; k++) {
        ref d = in->n > 1 ? v[k] : in->d;

        if (d != NO_REF)
            load_one(at(w, d), p, (size_t)k * in->size, in, m);
    }
    return true;
}

bool
ptx_store_frame(struct warp *w, const struct insn *in, uint32_t m)
{
    unsigned char *p[LANES];
    const ref     *v = w->w->s->m->refs + in->target;

    for (int i = 0; i < LANES; i++)
        p[i] = w->current->area + (size_t)i * w->current->fn->area_bytes + in->imm;
    for (int k = 0; k < in->n; k++)
        store_one(at(w, in->n > 1 ? v[k] : in->b), p, (size_t)k * in->size, in, m);
    return true;
}

/* cp.async, done at once: n bytes from [b] to shared [a], of which only the first c are read and the others are zero. */
bool
ptx_copy_async(struct warp *w, const struct insn *in, uint32_t m)
{
    unsigned char *to[LANES], *from[LANES];
    struct insn    t = *in;

    t.address_width = in->mode;                 /* that of b */
    if (!resolve(w, &t, in->b, (int64_t)in->imm, S_GLOBAL, m, in->n, 0, from) ||
        !resolve(w, in, in->a, (int32_t)in->target, S_SHARED, m, in->n, 1, to))
        return false;
    EACH_OF(m, i) {
        uint32_t n = in->c == NO_REF ? in->n : ((uint32_t *)at(w, in->c))[i];

        n = n > in->n ? in->n : n;
        memset(to[i], 0, in->n);
        memcpy(to[i], from[i], n);
    }
    return true;
}

/* ---- atomics ---- */

static uint64_t
combine(int op, enum type type, uint64_t x, uint64_t b, uint64_t c, bool flushes)
{
    const int n = ptx_type_bytes(type);
    union { uint32_t u; float f; } xf = {(uint32_t)x}, bf = {(uint32_t)b}, rf;
    union { uint64_t u; double f; } xd = {x}, bd = {b}, rd;
    const int64_t sx = n == 4 ? (int32_t)x : (int64_t)x, sb = n == 4 ? (int32_t)b : (int64_t)b;
    const bool    is_signed = type == T_S32 || type == T_S64;

    switch (op) {
    case 'a':                                   /* add */
        if (type == T_F32) {
            if (flushes) {
                xf.u = xf.u & 0x7f800000 ? xf.u : xf.u & 0x80000000;
                bf.u = bf.u & 0x7f800000 ? bf.u : bf.u & 0x80000000;
            }
            rf.f = xf.f + bf.f;
            if (flushes)
                rf.u = rf.u & 0x7f800000 ? rf.u : rf.u & 0x80000000;
            return rf.f != rf.f ? 0x7fffffff : rf.u;
        }
        if (type == T_F64) {
            rd.f = xd.f + bd.f;
            return rd.u;
        }
        if (type == T_F16 || type == T_BF16) {
            bool   bfloat = type == T_BF16;
            double sum = bfloat ? (double)ptx_from_bfloat((uint16_t)x) + ptx_from_bfloat((uint16_t)b)
                                : (double)ptx_from_half((uint16_t)x) + ptx_from_half((uint16_t)b);

            return ptx_round_half(sum, 0, bfloat);
        }
        if (type == T_F16X2 || type == T_BF16X2) {
            enum type half = type == T_F16X2 ? T_F16 : T_BF16;

            return combine('a', half, x & 0xffff, b & 0xffff, 0, false) |
                   combine('a', half, x >> 16, b >> 16, 0, false) << 16;
        }
        return x + b;
    case 'n':                                   /* min */
        return is_signed ? (sx < sb ? x : b) : x < b ? x : b;
    case 'x':                                   /* max */
        return is_signed ? (sx > sb ? x : b) : x > b ? x : b;
    case '&':
        return x & b;
    case '|':
        return x | b;
    case '^':
        return x ^ b;
    case 'e':                                   /* exch */
        return b;
    case 'c':                                   /* cas */
        return x == b ? c : x;
    case 'i':                                   /* inc */
        return x >= b ? 0 : x + 1;
    default:                                    /* dec */
        return x == 0 || x > b ? b : x - 1;
    }
}

static uint64_t
get(const unsigned char *p, int n)
{
    return n == 8 ? *(const u64 *)p : n == 4 ? *(const u32 *)p : *(const u16 *)p;
}

static void
put(unsigned char *p, int n, uint64_t v)
{
    if (n == 8)
        *(u64 *)p = v;
    else if (n == 4)
        *(u32 *)p = (uint32_t)v;
    else
        *(u16 *)p = (uint16_t)v;
}

bool
ptx_atomic(struct warp *w, const struct insn *in, uint32_t m)
{
    const struct state *s = w->w->s;
    unsigned char      *p[LANES];

    if (!resolve(w, in, in->a, in->imm, in->space, m, in->size, 3, p))
        return false;
    if (s->many)
        pthread_mutex_lock(s->lock);
    EACH_OF(m, i) {
        const uint64_t x = get(p[i], in->size), b = get((unsigned char *)at(w, in->b) + i * in->width, in->width);
        const uint64_t c = in->c == NO_REF ? 0 : get((unsigned char *)at(w, in->c) + i * in->width, in->width);

        put(p[i], in->size, combine(in->op, (enum type)in->type, x, b, c, in->mode));
        if (in->d != NO_REF)
            put((unsigned char *)at(w, in->d) + i * in->width, in->width, x);
    }
    if (s->many)
        pthread_mutex_unlock(s->lock);
    return true;
}
