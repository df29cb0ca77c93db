/* tests/cuda/ptx_sync.c -- what the lanes of a warp do together: shuffles, votes, matches, bar.warp.sync.
 *
 * Lanes wait until all that their mask names have come to the same instruction, in whatever frame they are. */
#include "ptx_int.h"

/* An operand of a lane, which may be in a frame of its own. */
static void *
lane_at(const struct warp *w, uint32_t lane, ref r)
{
    return r >> 30 == 0 ? w->frame[lane]->regs + r : (unsigned char *)at(w, r);
}

static uint32_t
word(const struct warp *w, uint32_t lane, ref r)
{
    return ((uint32_t *)lane_at(w, lane, r))[lane];
}

static bool
share_frame(const struct warp *w, uint32_t m)
{
    const struct frame *f = w->frame[__builtin_ctz(m)];
    bool                same = true;

    EACH_OF(m, i)
        same &= w->frame[i] == f;
    return same;
}

/* The words of all lanes of m. */
static void
words(const struct warp *w, uint32_t m, ref r, uint32_t *to)
{
    if (share_frame(w, m))
        memcpy(to, lane_at(w, (uint32_t)__builtin_ctz(m), r), LANES * sizeof *to);
    else
        EACH_OF(m, i)
            to[i] = word(w, i, r);
}

static bool
pred(const struct warp *w, uint32_t lane, ref r)
{
    return *(uint32_t *)lane_at(w, lane, r) >> lane & 1;
}

static void
set_word(const struct warp *w, uint32_t lane, ref r, uint32_t value)
{
    if (r != NO_REF)
        ((uint32_t *)lane_at(w, lane, r))[lane] = value;
}

static void
set_pred(const struct warp *w, uint32_t lane, ref r, bool value)
{
    uint32_t *p;

    if (r == NO_REF)
        return;
    p = lane_at(w, lane, r);
    *p = (*p & ~(1u << lane)) | (uint32_t)value << lane;
}

/* A lane that takes part has its own value if the other is out of range, and an arbitrary one if the other does not
 * take part. */
static void
shuffle(struct warp *w, const struct insn *in, uint32_t m)
{
    uint32_t value[LANES], result[LANES], bs[LANES], cs[LANES], in_range = 0;

    words(w, m, in->a, value);
    words(w, m, in->b, bs);
    words(w, m, in->c, cs);
    EACH_OF(m, i) {
        const uint32_t c = cs[i], b = bs[i] & 31, segment = c >> 8 & 31;
        const int      most = (int)((i & segment) | (c & 31 & ~segment));
        int            j;
        bool           fits;

        switch (in->op) {
        case 'u':
            j = (int)i - (int)b;
            fits = j >= most;
            break;
        case 'd':
            j = (int)(i + b);
            fits = j <= most;
            break;
        case 'x':
            j = (int)(i ^ b);
            fits = j <= most;
            break;
        default:
            j = (int)((i & segment) | (b & ~segment));
            fits = j <= most;
        }
        j = fits ? j : (int)i;
        in_range |= (uint32_t)fits << i;
        result[i] = m & w->sync_mask[i] & 1u << j ? value[j] : 0xdeadbeef;
    }
    if (share_frame(w, m)) {
        uint32_t *d = lane_at(w, (uint32_t)__builtin_ctz(m), in->d), *p;

        if (m == UINT32_MAX)
            memcpy(d, result, sizeof result);
        else
            EACH_OF(m, i)
                d[i] = result[i];
        if (in->d2 != NO_REF) {
            p = lane_at(w, (uint32_t)__builtin_ctz(m), in->d2);
            *p = (*p & ~m) | (in_range & m);
        }
        return;
    }
    EACH_OF(m, i) {
        set_word(w, i, in->d, result[i]);
        set_pred(w, i, in->d2, in_range >> i & 1);
    }
}

static void
vote(struct warp *w, const struct insn *in, uint32_t m)
{
    uint32_t votes = 0;

    EACH_OF(m, i)
        votes |= (uint32_t)(pred(w, i, in->a) ^ in->not_c) << i;
    EACH_OF(m, i) {
        const uint32_t mask = w->sync_mask[i] & m, mine = votes & mask;

        if (in->op == 'b')
            set_word(w, i, in->d, mine);
        else
            set_pred(w, i, in->d, in->op == '&' ? mine == mask : in->op == '|' ? mine != 0 : mine == 0 || mine == mask);
    }
}

static void
match(struct warp *w, const struct insn *in, uint32_t m)
{
    uint64_t value[LANES];
    uint32_t result[LANES];

    EACH_OF(m, i)
        value[i] = in->width == 8 ? ((uint64_t *)lane_at(w, i, in->a))[i] : word(w, i, in->a);
    EACH_OF(m, i) {
        result[i] = 0;
        EACH_OF(w->sync_mask[i] & m, j)
            result[i] |= value[i] == value[j] ? 1u << j : 0;
        if (in->op == '&' && result[i] != (w->sync_mask[i] & m))
            result[i] = 0;
    }
    EACH_OF(m, i) {
        set_word(w, i, in->d, result[i]);
        set_pred(w, i, in->d2, result[i] != 0);
    }
}

static void
reduce(struct warp *w, const struct insn *in, uint32_t m)
{
    uint32_t value[LANES], result[LANES];

    EACH_OF(m, i)
        value[i] = word(w, i, in->a);
    EACH_OF(m, i) {
        uint32_t r = value[i];

        EACH_OF(w->sync_mask[i] & m & ~(1u << i), j) {
            const uint32_t v = value[j];

            switch (in->op) {
            case 'a': r += v; break;
            case '&': r &= v; break;
            case '|': r |= v; break;
            case '^': r ^= v; break;
            case 'n': r = in->is_signed ? ((int32_t)v < (int32_t)r ? v : r) : v < r ? v : r; break;
            default: r = in->is_signed ? ((int32_t)v > (int32_t)r ? v : r) : v > r ? v : r; break;
            }
        }
        result[i] = r;
    }
    EACH_OF(m, i)
        set_word(w, i, in->d, result[i]);
}

static void
together(struct warp *w, const struct insn *in, uint32_t m)
{
    switch (in->mode) {
    case 's':
        shuffle(w, in, m);
        break;
    case 'v':
        vote(w, in, m);
        break;
    case 'm':
        match(w, in, m);
        break;
    case 'r':
        reduce(w, in, m);
        break;
    case 'e':
        EACH_OF(m, i) {
            const uint32_t leader = (uint32_t)__builtin_ctz(w->sync_mask[i] & m);

            set_word(w, i, in->d, leader);
            set_pred(w, i, in->d2, leader == i);
        }
        break;
    default:                                    /* bar.warp.sync */
        break;
    }
    for (uint32_t rest = m; rest;) {
        const uint32_t part = w->sync_mask[__builtin_ctz(rest)] & m;

        ptx_warp_synced(w, part);
        rest &= ~part;
    }
}

/* Of the lanes that wait at one place, with `lane`, those whose masks name no other; *here: all of them. */
static uint32_t
ready(const struct warp *w, uint32_t lane, uint32_t *here)
{
    const struct insn *code = w->w->s->m->code, *in = &code[w->pc[lane]];
    uint32_t           lanes = 0, before = 0;

    EACH_OF(w->at_sync, i) /* bar.warp.sync may be at several places */
        if (w->pc[i] == w->pc[lane] || (in->mode == 'b' && code[w->pc[i]].mode == 'b'))
            lanes |= 1u << i;
    *here = lanes;
    while (before != lanes) {
        before = lanes;
        EACH_OF(before, i)
            if (w->sync_mask[i] & w->exists & ~w->exited & ~before)
                lanes &= ~(1u << i);
    }
    return lanes;
}

bool
ptx_sync_ready(const struct warp *w)
{
    for (uint32_t left = w->at_sync, here; left; left &= ~here)
        if (ready(w, (uint32_t)__builtin_ctz(left), &here))
            return true;
    return false;
}

void
ptx_sync_release(struct warp *w)
{
    for (uint32_t left = w->at_sync, here; left; left &= ~here) {
        const uint32_t lane = (uint32_t)__builtin_ctz(left), lanes = ready(w, lane, &here);

        if (!lanes)
            continue;
        together(w, &w->w->s->m->code[w->pc[lane]], lanes);
        w->at_sync &= ~lanes;
        EACH_OF(lanes, i)
            w->pc[i]++;
    }
}

/* Lanes m of the current frame come to an instruction: 1, they have done it; 0, they wait; -1, a fault. */
int
ptx_sync_arrive(struct warp *w, const struct insn *in, uint32_t m, uint32_t pc)
{
    const uint32_t alive = w->exists & ~w->exited, *mask = at(w, in->e);
    uint32_t       wants = 0;

    EACH_OF(m, i) {
        w->sync_mask[i] = mask[i];
        wants |= mask[i] & alive;
        if (!(mask[i] >> i & 1)) {
            ptx_fault(w, in, (int)i, "the mask 0x%x does not name the lane itself, %u", mask[i], i);
            return -1;
        }
    }
    if (!(wants & ~m)) {
        together(w, in, m);
        return 1;
    }
    EACH_OF(m, i)
        w->pc[i] = pc;
    w->at_sync |= m;
    return 0;
}
