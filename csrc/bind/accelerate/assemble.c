/* bind/accelerate/assemble.c -- see assemble.h. Places are counted in code units of two bytes. */
#include "bind/accelerate/assemble.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

enum {
    LONGEST = 8,                                /* units that one entry of the lines is for */
    DELTA_IN_KIND = 10, N_IN_KIND = 3,          /* kinds of entries that are so many lines, 0 to 2, below the one before; */
    DELTA_FIRST = 13, DELTA_FIRST_ALONE = 13, DELTA_FIRST_LAST = 14 /* and where the first number says it */
};

/* An instruction: of the old code at `start`, where its prefixes begin, or a new one instead of it. */
struct unit {
    int32_t op, arg, start;
    int32_t target;            /* of a jump: where the old code has what it leads to; else NONE, or HERE, THERE */
    int32_t to;                /* and which unit that is; -1: it is no jump */
    int32_t at;                /* where the new code has it */
    uint8_t width, n_caches;   /* units without its caches, and these */
};

enum { NONE = -1, HERE = -2, THERE = -3 };

struct assembly {
    const struct fr_asm_opcodes *ops;
    const struct fr_asm_code    *in;
    struct unit                 *unit;
    int32_t                     *same[2];  /* by the number of an old instruction: its unit in that copy, or -1 */
    int32_t                     *old;      /* of a unit: the number of the old instruction that it stands for */
    int32_t                     *where;    /* of each place of the old code, and of its copy, in the new one */
    int32_t                      n, begin[2], n_old, n_places, first;
};

static uint8_t
width_of(int32_t arg)
{
    return arg <= 0xff ? 1 : arg <= 0xffff ? 2 : arg <= 0xffffff ? 3 : 4;
}

/* ---- instructions */

bool
fr_asm_next(const struct fr_asm_opcodes *ops, const uint8_t *code, int32_t n, int32_t *i, struct fr_asm_instruction *out)
{
    int32_t prefix = 0;

    for (; *i < n; ++*i) {
        int     op = code[2 * *i];
        int32_t arg = prefix | code[2 * *i + 1];

        if (op == 0) /* a cache */
            continue;
        if (op == ops->prefix) {
            prefix = arg << 8;
            continue;
        }
        *out = (struct fr_asm_instruction){2 * *i, op, arg};
        ++*i;
        return true;
    }
    return false;
}

/* What an instruction is whose prefixes begin at *start, which is put behind its caches. */
static struct unit
unit_of(const struct fr_asm_opcodes *ops, const struct fr_asm_instruction *in, int32_t *start)
{
    struct unit u = {.op = in->op, .arg = in->arg, .start = *start, .target = NONE, .to = -1, .width = width_of(in->arg),
                     .n_caches = ops->n_caches[in->op]};

    *start = in->at / 2 + 1 + u.n_caches;
    if (ops->jump[in->op]) {
        u.target = ops->jump[in->op] == 2 ? *start - in->arg : *start + in->arg;
        u.width = 1;
    }
    return u;
}

static int32_t
count_instructions(const struct fr_asm_opcodes *ops, const struct fr_asm_code *in)
{
    struct fr_asm_instruction one;
    int32_t                   n = 0, i = 0;

    while (fr_asm_next(ops, in->code, (int32_t)(in->n_code / 2), &i, &one))
        n++;
    return n;
}

/* What stands instead of the instruction, or it. */
static void
put(struct assembly *a, int copy, int32_t number, const struct unit *u, const int32_t *instead, int32_t n)
{
    static const int32_t same[] = {FR_ASM_SAME, 0};

    if (!instead) {
        instead = same;
        n = 1;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t op = instead[2 * i], arg = instead[2 * i + 1];

        a->old[a->n] = number;
        if (op == FR_ASM_SAME) {
            a->same[copy][number] = a->n;
            a->unit[a->n++] = *u;
            continue;
        }
        a->unit[a->n++] = (struct unit){.op = op, .arg = arg < 0 ? 0 : arg, .start = u->start, .to = -1,
                                        .target = arg == FR_ASM_HERE ? HERE : arg == FR_ASM_THERE ? THERE : NONE,
                                        .width = arg < 0 ? 1 : width_of(arg), .n_caches = a->ops->n_caches[op]};
    }
}

/* The words of the change at this offset, of those that are left; NULL: there is none. */
static const int32_t *
change_at(const int32_t **left, size_t *n_left, int32_t offset, int32_t *n)
{
    const int32_t *w = *left;

    if (*n_left == 0 || w[0] != offset)
        return NULL;
    *n = w[1];
    *left += 2 + 2 * w[1];
    *n_left -= 2 + 2 * (size_t)w[1];
    return w + 2;
}

/* One of the copies; the second begins with an instruction that does nothing, for the one after which it begins. */
static void
put_copy(struct assembly *a, int copy)
{
    const int32_t            *left = a->in->change[copy], *instead;
    size_t                    n_left = a->in->n_words[copy];
    struct fr_asm_instruction one;
    int32_t                   i = 0, start = 0, n = 0, shift = copy ? a->n_old + 1 : 0;
    bool                      begun = !copy;

    a->begin[copy] = a->n;
    for (int32_t number = 0; fr_asm_next(a->ops, a->in->code, a->n_old, &i, &one); number++) {
        struct unit u = unit_of(a->ops, &one, &start);

        a->same[copy][number] = -1;
        if (!begun && one.at != a->in->again)
            continue;
        u.start += shift;
        u.target += u.target >= 0 ? shift : 0;
        if (!begun)
            u = (struct unit){.op = a->ops->nothing, .start = a->n_old, .target = NONE, .to = -1, .width = 1};
        begun = true;
        instead = change_at(&left, &n_left, one.at, &n);
        put(a, copy, number, &u, instead, n);
        if (!copy && one.at == a->in->again)
            a->first = start;
    }
}

/* ---- jumps */

static void
lead(struct assembly *a)
{
    int32_t *first = a->where; /* by the old place: the first unit that stands there */

    for (int32_t i = 0; i <= a->n_places; i++)
        first[i] = -1;
    for (int32_t i = a->n; i-- > 0;)
        first[a->unit[i].start] = i;
    for (int32_t i = 0; i < a->n; i++) {
        struct unit *u = &a->unit[i];
        int          copy = i >= a->begin[1];
        int32_t      here = a->same[copy][a->old[i]], there = a->same[!copy][a->old[i]];

        if (u->target >= 0)
            u->to = first[u->target];
        else if (u->target == HERE)
            u->to = here;
        else if (u->target == THERE)
            u->to = there + (i > here);
    }
}

/* Gives every instruction its place and every jump its length, and says where the old places have gone. */
static void
settle(struct assembly *a)
{
    bool grown;

    do {
        int32_t at = 0;

        grown = false;
        for (int32_t i = 0; i < a->n; i++) {
            a->unit[i].at = at;
            at += a->unit[i].width + a->unit[i].n_caches;
        }
        for (int32_t i = 0; i < a->n; i++) {
            struct unit *u = &a->unit[i];
            int32_t      after = u->at + u->width + u->n_caches;
            uint8_t      wanted;

            if (u->to < 0)
                continue;
            u->arg = a->ops->jump[u->op] == 2 ? after - a->unit[u->to].at : a->unit[u->to].at - after;
            wanted = width_of(u->arg);
            grown |= wanted > u->width;
            u->width = wanted > u->width ? wanted : u->width;
        }
        a->where[a->n_places] = at;
    } while (grown);
    for (int32_t i = 0; i < a->n_places; i++)
        a->where[i] = -1;
    for (int32_t i = a->n; i-- > 0;)
        a->where[a->unit[i].start] = a->unit[i].at;
    for (int32_t i = a->n_places; i-- > 0;) /* what lies within an instruction goes with what follows it */
        if (a->where[i] < 0)
            a->where[i] = a->where[i + 1];
}

/* ---- bytes */

static bool
add(struct fr_asm_bytes *b, int byte)
{
    if (!FR_GROW(b->v, b->cap, b->n + 1))
        return false;
    b->v[b->n++] = (uint8_t)byte;
    return true;
}

static bool
encode(const struct assembly *a, struct fr_asm_bytes *out)
{
    bool ok = true;

    for (int32_t i = 0; i < a->n && ok; i++) {
        const struct unit *u = &a->unit[i];

        for (int shift = 8 * (u->width - 1); shift > 0; shift -= 8)
            ok = ok && add(out, a->ops->prefix) && add(out, u->arg >> shift & 0xff);
        ok = ok && add(out, u->op) && add(out, u->arg & 0xff);
        for (int k = 0; k < 2 * u->n_caches; k++)
            ok = ok && add(out, 0);
    }
    return ok;
}

/* ---- the table of exceptions: (start, length, target, depth and a bit) in digits of six bits, the highest first */

static bool
add_high_first(struct fr_asm_bytes *out, uint32_t v, int mark)
{
    int shift = 0;

    while (shift < 30 && v >> (shift + 6))
        shift += 6;
    for (; shift >= 0; shift -= 6, mark = 0)
        if (!add(out, mark | (shift ? 0x40 : 0) | (int)(v >> shift & 0x3f)))
            return false;
    return true;
}

/* The entries whose instructions lie behind `first`, where those are now. */
static bool
add_exceptions(const struct assembly *a, const int32_t *where, int32_t first, struct fr_asm_bytes *out)
{
    uint32_t value[4] = {0};
    int      n = 0;
    bool     ok = true;

    for (size_t i = 0; i < a->in->n_exceptions && ok; i++) {
        uint8_t byte = a->in->exceptions[i];

        value[n] = value[n] << 6 | (byte & 0x3f);
        if (byte & 0x40 || ++n < 4)
            continue;
        if ((int32_t)value[0] >= first) {
            int32_t begin = where[value[0]], end = where[value[0] + value[1]];

            ok = add_high_first(out, (uint32_t)begin, 0x80) && add_high_first(out, (uint32_t)(end - begin), 0) &&
                 add_high_first(out, (uint32_t)where[value[2]], 0) && add_high_first(out, value[3], 0);
        }
        memset(value, 0, sizeof value);
        n = 0;
    }
    return ok;
}

/* ---- the lines: entries of a kind and a length, then numbers in digits of six bits, the lowest first */

struct entry {
    int32_t        n_units;
    int            kind;
    const uint8_t *payload;
    size_t         n;
};

static size_t
read_entry(const struct fr_asm_code *in, size_t i, struct entry *e)
{
    size_t end = i + 1;

    while (end < in->n_lines && in->lines[end] < 0x80)
        end++;
    *e = (struct entry){(in->lines[i] & 7) + 1, in->lines[i] >> 3 & 15, in->lines + i + 1, end - i - 1};
    return end;
}

/* How many bytes the first number of a payload has. */
static size_t
first_digits(const struct entry *e)
{
    size_t n = 0;

    while (n < e->n && e->payload[n++] & 0x40)
        continue;
    return n;
}

/* How many lines below the one before it an entry is. */
static int32_t
delta(const struct entry *e)
{
    uint32_t v = 0;

    if (e->kind >= DELTA_IN_KIND && e->kind < DELTA_IN_KIND + N_IN_KIND)
        return e->kind - DELTA_IN_KIND;
    if (e->kind < DELTA_FIRST || e->kind > DELTA_FIRST_LAST)
        return 0;
    for (size_t k = first_digits(e); k-- > 0;)
        v = v << 6 | (e->payload[k] & 0x3f);
    return v & 1 ? -(int32_t)(v >> 1) : (int32_t)(v >> 1);
}

/* One entry with the length that its instructions have now, in as many as it needs: all but the first are on its line. */
static bool
add_entry(const struct entry *e, int32_t length, struct fr_asm_bytes *out)
{
    struct entry now = *e;
    bool         ok = true, zero = false;

    for (; length > 0 && ok; length -= LONGEST) {
        ok = add(out, 0x80 | now.kind << 3 | ((length < LONGEST ? length : LONGEST) - 1));
        if (zero)
            ok = ok && add(out, 0);
        for (size_t k = zero ? first_digits(e) : 0; k < e->n && ok; k++)
            ok = add(out, e->payload[k]);
        if (now.kind >= DELTA_IN_KIND && now.kind < DELTA_IN_KIND + N_IN_KIND)
            now.kind = DELTA_IN_KIND;
        else if (now.kind >= DELTA_FIRST && now.kind <= DELTA_FIRST_LAST)
            zero = true;
    }
    return ok;
}

static bool
add_lines(const struct assembly *a, const int32_t *where, int32_t first, struct fr_asm_bytes *out)
{
    int32_t at = 0, new = where[first];
    bool    ok = true;

    for (size_t i = 0; i < a->in->n_lines && ok;) {
        struct entry e;

        i = read_entry(a->in, i, &e);
        at += e.n_units;
        if (at <= first)
            continue;
        ok = add_entry(&e, where[at] - new, out);
        new = where[at];
    }
    return ok;
}

/* An entry of one instruction that comes after all, on the line of the one before `first`. */
static bool
add_back(const struct assembly *a, struct fr_asm_bytes *out)
{
    int32_t  at = 0, lines = 0;
    uint32_t v;
    bool     ok;

    for (size_t i = 0; i < a->in->n_lines;) {
        struct entry e;

        i = read_entry(a->in, i, &e);
        at += e.n_units;
        lines -= at > a->first ? delta(&e) : 0;
    }
    ok = add(out, 0x80 | DELTA_FIRST_ALONE << 3);
    for (v = (uint32_t)(lines < 0 ? -lines : lines) << 1 | (lines < 0); v > 0x3f; v >>= 6)
        ok = ok && add(out, (int)(v & 0x3f) | 0x40);
    return ok && add(out, (int)v);
}

/* ---- all of it */

bool
fr_asm_replace(const struct fr_asm_opcodes *ops, const struct fr_asm_code *in, struct fr_asm_result *out)
{
    struct assembly a = {.ops = ops, .in = in, .n_old = (int32_t)(in->n_code / 2)};
    bool            twice = in->again >= 0, ok;
    int32_t         n = count_instructions(ops, in), room = (twice + 1) * (n + 1);
    const int32_t  *second;
    int32_t        *numbers;

    *out = (struct fr_asm_result){.second = 0};
    for (int copy = 0; copy <= twice; copy++)
        room += (int32_t)in->n_words[copy] / 2;
    a.n_places = twice ? 2 * a.n_old + 1 : a.n_old;
    a.unit = fr_malloc((size_t)room * sizeof *a.unit);
    numbers = fr_malloc(((size_t)room + 2 * (size_t)n + (size_t)a.n_places + 1) * sizeof *numbers);
    if (!(ok = a.unit && numbers))
        goto out;
    a.old = numbers;
    a.same[0] = a.old + room;
    a.same[1] = a.same[0] + n;
    a.where = a.same[1] + n;
    put_copy(&a, 0);
    a.begin[1] = a.n;
    if (twice)
        put_copy(&a, 1);
    lead(&a);
    settle(&a);
    second = a.where + a.n_old + 1;
    ok = encode(&a, &out->code) && add_exceptions(&a, a.where, 0, &out->exceptions) && add_lines(&a, a.where, 0, &out->lines);
    if (twice)
        ok = ok && add_exceptions(&a, second, a.first, &out->exceptions) && add_back(&a, &out->lines) &&
             add_lines(&a, second, a.first, &out->lines);
    out->second = 2 * a.where[a.n_old];
out:
    fr_free(a.unit);
    fr_free(numbers);
    return ok;
}

void
fr_asm_free(struct fr_asm_result *r)
{
    fr_free(r->code.v);
    fr_free(r->exceptions.v);
    fr_free(r->lines.v);
}
