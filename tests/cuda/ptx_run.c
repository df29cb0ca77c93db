/* tests/cuda/ptx_run.c -- blocks, warps and lanes: which run, where they branch, what they call and wait for.
 *
 * Lanes of a warp have a program counter and a frame each. Those that share both run as a group until another group
 * of the frame waits at or before their place: so they come together again where they parted. */
#include <fenv.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "ptx_int.h"

enum { MAX_DEPTH = 4096, LOCAL_STACK = 1 << 16, LOOK_EVERY = 1 << 16 };
enum outcome { ENDED, WAITS, FAILED };

bool
ptx_fault(struct warp *w, const struct insn *in, int lane, const char *format, ...)
{
    struct worker  *k = w->w;
    const uint32_t *tid = (uint32_t *)w->specials;
    size_t          n;
    va_list         args;

    if (k->failed)
        return false;
    k->failed = true;
    n = (size_t)snprintf(k->error, sizeof k->error, "%s, line %u (%s), thread (%u,%u,%u) of block (%u,%u,%u): ",
                         k->s->k->name, in->line, in->name, tid[SP_TID_X * LANES + lane], tid[SP_TID_Y * LANES + lane],
                         tid[SP_TID_Z * LANES + lane], k->ctaid[0], k->ctaid[1], k->ctaid[2]);
    va_start(args, format);
    if (n < sizeof k->error)
        vsnprintf(k->error + n, sizeof k->error - n, format, args);
    va_end(args);
    return false;
}

/* ---- frames ---- */

static struct frame *
frame_new(struct worker *k, const struct ptx_kernel *fn)
{
    struct frame *f = k->free_frames[fn->index];
    size_t        regs = (fn->regs_bytes + 63) / 64 * 64, head = (sizeof *f + 63) / 64 * 64;

    if (f) {
        k->free_frames[fn->index] = f->next;
    } else {
        if (!(f = aligned_alloc(64, head + regs + ((size_t)fn->area_bytes * LANES + 63) / 64 * 64)))
            return NULL;
        f->regs = (unsigned char *)f + head;
        f->area = f->regs + regs;
        memset(f->regs, 0xb5, regs + (size_t)fn->area_bytes * LANES);
        f->made_before = k->frames;
        k->frames = f;
    }
    f->fn = fn;
    f->parent = f->next = NULL;
    f->depth = 0;
    f->id = k->next_frame++;
    return f;
}

static void
frame_free(struct worker *k, struct frame *f)
{
    f->next = k->free_frames[f->fn->index];
    k->free_frames[f->fn->index] = f;
}

static void
pass(struct frame *to, const struct variable *formal, struct frame *from, const struct passed *actual, uint32_t m)
{
    const uint32_t n = formal->n_bytes;

    EACH_OF(m, i) {
        unsigned char *a = actual->is_reg ? NULL : from->area + (size_t)i * from->fn->area_bytes + actual->at;
        unsigned char *f = formal->is_reg ? to->regs + formal->reg + i * formal->width
                                          : to->area + (size_t)i * to->fn->area_bytes + formal->at;

        if (!a)
            a = (unsigned char *)actual->reg_at + i * actual->n_bytes;
        memcpy(f, a, n);
    }
}

/* The lanes' frame and place after a call; NULL: a fault. */
static struct frame *
enter(struct warp *w, const struct insn *in, const struct ptx_kernel *fn, uint32_t m, uint32_t pc)
{
    struct worker     *k = w->w;
    const struct call *call = k->s->m->calls[in->target];
    struct frame      *f, *from = w->current;

    if (!fn->has_body || call->n_in != fn->n_params || call->n_out > fn->n_results) {
        ptx_fault(w, in, __builtin_ctz(m), "%s has no body, or other parameters", fn->name);
        return NULL;
    }
    for (int i = 0; i < call->n_in; i++)        /* of what is called by its address nothing was known before */
        if (fn->params[i].n_bytes > call->in[i].n_bytes) {
            ptx_fault(w, in, __builtin_ctz(m), "argument %d has %u bytes, %s wants %u", i, call->in[i].n_bytes, fn->name,
                      fn->params[i].n_bytes);
            return NULL;
        }
    if (from->depth >= MAX_DEPTH || from->local_at + from->fn->local_bytes + fn->local_bytes > k->local_stride) {
        ptx_fault(w, in, __builtin_ctz(m), "calls are %u deep: local memory is full", from->depth);
        return NULL;
    }
    if (!(f = frame_new(k, fn))) {
        ptx_fault(w, in, 0, "out of memory");
        return NULL;
    }
    f->parent = from;
    f->return_pc = pc + 1;
    f->depth = from->depth + 1;
    if (k->counts && f->depth > k->counts->deepest_call)
        k->counts->deepest_call = f->depth;
    f->live = m;
    f->call = call;
    f->local_at = from->local_at + (from->fn->local_bytes + 15u) / 16 * 16;
    for (int i = 0; i < call->n_in; i++) {
        struct passed p = call->in[i];

        p.reg_at = p.is_reg ? at(w, p.reg) : NULL;
        pass(f, &fn->params[i], from, &p, m);
    }
    EACH_OF(m, i)
        w->frame[i] = f;
    return f;
}

/* Lanes return to where they were called. */
static void
leave(struct warp *w, uint32_t m)
{
    struct frame *f = w->current, *to = f->parent;

    for (int i = 0; i < f->call->n_out; i++) {
        const struct passed   *out = &f->call->out[i];
        const struct variable *formal = &f->fn->results[i];

        EACH_OF(m, lane) {
            unsigned char *from = formal->is_reg ? f->regs + formal->reg + lane * formal->width
                                                 : f->area + (size_t)lane * f->fn->area_bytes + formal->at;
            unsigned char *at_ = out->is_reg ? to->regs + out->reg + lane * out->n_bytes
                                             : to->area + (size_t)lane * to->fn->area_bytes + out->at;

            memcpy(at_, from, formal->n_bytes < out->n_bytes ? formal->n_bytes : out->n_bytes);
        }
    }
    EACH_OF(m, i) {
        w->frame[i] = to;
        w->pc[i] = f->return_pc;
    }
    f->live &= ~m;
    if (!f->live)
        frame_free(w->w, f);
}

/* ---- barriers of a block ---- */

static void
barrier_release(struct worker *k, uint32_t id, bool all)
{
    struct barrier *b = &k->barriers[id];
    uint32_t        came = b->arrived_warps;

    k->tick++;
    for (uint32_t j = 0; j < k->n_warps; j++) {
        struct warp *w = &k->warps[j];
        uint32_t     lanes = 0;

        EACH_OF(w->at_bar, i)
            if (w->bar_id[i] == id)
                lanes |= 1u << i;
        if (!lanes)
            continue;
        came |= 1u << j;
        EACH_OF(lanes, i) {
            const struct insn *in = &k->s->m->code[w->pc[i]];

            if (in->op) {                       /* bar.red */
                uint32_t *d = (uint32_t *)(w->frame[i]->regs + in->d);

                if (in->op == 'p')
                    d[i] = b->popc;
                else
                    *d = (*d & ~(1u << i)) | (uint32_t)(in->op == '&' ? b->all : b->any) << i;
            }
            w->pc[i]++;
        }
        w->at_bar &= ~lanes;
        w->ticks_base = k->tick;
    }
    if (all) {
        k->full_tick = k->tick;
    } else if (k->shadow) {                     /* warps that met know what all of them knew */
        uint32_t knows[LANES] = {0};

        EACH_OF(came, j)
            for (uint32_t v = 0; v < k->n_warps; v++)
                if (k->warp_knows[j * k->n_warps + v] > knows[v])
                    knows[v] = k->warp_knows[j * k->n_warps + v];
        EACH_OF(came, j)
            knows[j] = k->tick;
        EACH_OF(came & ~b->arrived_warps, j)
            memcpy(k->warp_knows + j * k->n_warps, knows, k->n_warps * sizeof *knows);
    }
    *b = (struct barrier){.all = 1};
    if (k->counts)
        k->counts->n_barriers++;
}

/* Lets go those that wait at a barrier to which all have come; false: a fault. */
static bool
barrier_try(struct worker *k, uint32_t id)
{
    struct barrier *b = &k->barriers[id];
    uint32_t        n = b->n_arrived, n_lanes = b->n_arrived;

    if (!b->n_expected && (!b->n_wait || b->n_wait + b->n_arrived < k->n_alive))
        return true;
    for (uint32_t j = 0; j < k->n_warps; j++) {
        const struct warp *w = &k->warps[j];
        uint32_t           lanes = 0, pc = 0;

        EACH_OF(w->at_bar, i)
            if (w->bar_id[i] == id) {
                lanes |= 1u << i;
                pc = w->pc[i];
            }
        if (!lanes)
            continue;
        n += LANES - (uint32_t)__builtin_popcount(w->exists & ~w->exited & ~lanes);
        n_lanes += (uint32_t)__builtin_popcount(lanes);
        EACH_OF(lanes, i)
            if (w->pc[i] != pc && k->s->m->code[pc].mode)
                return ptx_fault(&k->warps[j], &k->s->m->code[w->pc[i]], (int)i, "divergent barrier: other threads of the "
                                 "warp wait at line %u", k->s->m->code[pc].line);
    }
    if (b->n_expected ? n >= b->n_expected : n_lanes > 0 && n_lanes >= k->n_alive)
        barrier_release(k, id, !b->n_expected || b->n_expected >= k->n_warps * LANES);
    return true;
}

static bool
barrier_arrive(struct warp *w, const struct insn *in, uint32_t m, uint32_t pc)
{
    struct worker  *k = w->w;
    const uint32_t  lane = (uint32_t)__builtin_ctz(m);
    const uint32_t *id = at(w, in->a), *n = in->b == NO_REF ? NULL : at(w, in->b);
    struct barrier *b;

    if (id[lane] >= N_BARRIERS)
        return ptx_fault(w, in, (int)lane, "there is no barrier %u", id[lane]);
    b = &k->barriers[id[lane]];
    EACH_OF(m, i)
        if (id[i] != id[lane] || (n && (n[i] != n[lane] || n[i] % LANES || n[i] == 0)))
            return ptx_fault(w, in, (int)i, "lanes differ in the barrier or number of threads, or that is no multiple of "
                             "32");
    if (n && b->n_expected && b->n_expected != n[lane])
        return ptx_fault(w, in, (int)lane, "others expect %u threads at barrier %u", b->n_expected, id[lane]);
    if (n)
        b->n_expected = n[lane];
    if (in->op) {
        const uint32_t votes = (*(uint32_t *)at(w, in->c) ^ (in->not_c ? UINT32_MAX : 0)) & m;

        b->popc += (uint32_t)__builtin_popcount(votes);
        b->all &= votes == m;
        b->any |= votes != 0;
    }
    if (in->n) {                                /* bar.arrive does not wait */
        b->n_arrived += LANES - (uint32_t)__builtin_popcount(w->exists & ~w->exited & ~m);
        b->arrived_warps |= 1u << w->index;
        EACH_OF(m, i)
            w->pc[i] = pc + 1;
    } else {
        EACH_OF(m, i) {
            w->pc[i] = pc;
            w->bar_id[i] = id[lane];
        }
        w->at_bar |= m;
        b->n_wait += (uint32_t)__builtin_popcount(m);
    }
    return barrier_try(k, id[lane]);
}

static bool
leave_all(struct warp *w, uint32_t m)
{
    w->exited |= m;
    w->w->n_alive -= (uint32_t)__builtin_popcount(m);
    EACH_OF(m, i)
        for (struct frame *f = w->frame[i], *parent; f; f = parent) {
            parent = f->parent;
            f->live &= ~(1u << i);
            if (!f->live)
                frame_free(w->w, f);
        }
    for (uint32_t id = 0; id < N_BARRIERS; id++)
        if (!barrier_try(w->w, id))
            return false;
    return true;
}

/* ---- a warp ---- */

/* Which lanes run next: the deepest frame, of these the oldest, and its lowest place. *stop: the next place in that
 * frame. */
static uint32_t
choose(struct warp *w, uint32_t runnable, uint32_t *stop)
{
    struct frame *f = NULL;
    uint32_t      pc = UINT32_MAX, next = UINT32_MAX, group = 0;

    EACH_OF(runnable, i) {
        struct frame *g = w->frame[i];

        if (!f || g->depth > f->depth || (g->depth == f->depth && g->id < f->id))
            f = g;
    }
    EACH_OF(runnable, i)
        if (w->frame[i] == f && w->pc[i] < pc)
            pc = w->pc[i];
    EACH_OF(runnable, i)
        if (w->frame[i] == f) {
            if (w->pc[i] == pc)
                group |= 1u << i;
            else if (w->pc[i] < next)
                next = w->pc[i];
        }
    w->current = f;
    w->base[0] = f->regs;
    *stop = next;
    return group;
}

static bool
too_many(struct warp *w, const struct insn *in, uint32_t m)
{
    const uint64_t limit = w->w->s->l->max_instructions;

    w->w->n_done += w->n_since;
    w->n_since = 0;
    if (!limit || w->w->n_done <= limit)
        return false;
    ptx_fault(w, in, m ? __builtin_ctz(m) : 0, "runaway: more than %llu instructions", (unsigned long long)limit);
    return true;
}

static enum outcome
run_warp(struct warp *w)
{
    struct worker     *k = w->w;
    const struct insn *code = k->s->m->code, *in;
    uint32_t           pc, stop, group, m, runnable;

    for (;;) {
        if (w->at_sync)
            ptx_sync_release(w);
        runnable = w->exists & ~w->exited & ~w->at_bar & ~w->at_sync;
        if (!runnable)
            return w->exists & ~w->exited ? WAITS : ENDED;
        group = choose(w, runnable, &stop);
        pc = w->pc[__builtin_ctz(group)];
        while (pc < stop) {
            in = &code[pc];
            m = group;
            w->n_since++;
            if (in->guard != NO_REF) {
                const uint32_t p = *(uint32_t *)at(w, in->guard);

                m &= in->guard_not ? ~p : p;
            }
            w->n_lanes += (uint32_t)__builtin_popcount(m);
            switch (in->kind) {
            case K_ALU:
                if (m)
                    in->fn.alu(w, in, m);
                pc++;
                continue;
            case K_MEM:
                if (m && !in->fn.mem(w, in, m))
                    return FAILED;
                pc++;
                continue;
            case K_NOP:
                pc++;
                continue;
            case K_BRA:
                if (w->n_since >= LOOK_EVERY && too_many(w, in, group))
                    return FAILED;
                if (m == group) {
                    pc = in->target;
                    continue;
                }
                pc++;
                if (!m)
                    continue;
                if (k->counts)
                    k->counts->n_divergent++;
                if (in->target < pc) {
                    EACH_OF(group & ~m, i)
                        w->pc[i] = pc;
                    stop = pc < stop ? pc : stop;
                    group = m;
                    pc = in->target;
                } else if (in->target > pc) {
                    EACH_OF(m, i)
                        w->pc[i] = in->target;
                    stop = in->target < stop ? in->target : stop;
                    group &= ~m;
                }
                continue;
            case K_SYNC:
                if (m == group) {
                    const int st = ptx_sync_arrive(w, in, m, pc);

                    if (st < 0)
                        return FAILED;
                    group = st ? group : 0;     /* those that wait have their places */
                    pc = st ? pc + 1 : stop;
                    continue;
                }
                break;
            default:
                break;
            }
            /* What ends the group: each lane gets its place, then lanes are chosen anew. */
            EACH_OF(group, i)
                w->pc[i] = pc + 1;
            group = 0;
            if (w->n_since >= LOOK_EVERY && too_many(w, in, m))
                return FAILED;
            if (!m)
                break;
            switch (in->kind) {
            case K_BRX: {
                const struct table *t = &k->s->m->tables[in->target];
                const uint32_t     *index = at(w, in->a);

                EACH_OF(m, i) {
                    if (index[i] >= t->n) {
                        ptx_fault(w, in, (int)i, "branch %u of %u", index[i], t->n);
                        return FAILED;
                    }
                    w->pc[i] = t->target[index[i]];
                }
                break;
            }
            case K_CALL: {
                struct ptx_kernel *fn;

                if (in->a == NO_REF) {
                    fn = k->s->m->functions[in->imm];
                } else {                        /* lanes that call the same function; the others come again */
                    const uint64_t *to = at(w, in->a), first = to[__builtin_ctz(m)], number = (first - CODE_BASE) / 16;

                    if ((first & SPACE_MASK) != CODE_BASE || number >= (uint64_t)k->s->m->n_functions) {
                        ptx_fault(w, in, __builtin_ctz(m), "0x%llx is no function", (unsigned long long)first);
                        return FAILED;
                    }
                    fn = k->s->m->functions[number];
                    EACH_OF(m, i)
                        if (to[i] != first) {
                            w->pc[i] = pc;
                            m &= ~(1u << i);
                        }
                }
                if (!enter(w, in, fn, m, pc))
                    return FAILED;
                EACH_OF(m, i)
                    w->pc[i] = fn->first;
                break;
            }
            case K_RET:
                if (w->current->parent) {
                    leave(w, m);
                    break;
                }
                /* fall through */
            case K_EXIT:
                if (!leave_all(w, m))
                    return FAILED;
                break;
            case K_BAR:
                if (!barrier_arrive(w, in, m, pc))
                    return FAILED;
                break;
            case K_SYNC:
                if (ptx_sync_arrive(w, in, m, pc) < 0)
                    return FAILED;
                break;
            default:
                ptx_fault(w, in, __builtin_ctz(m), "trap");
                return FAILED;
            }
            break;
        }
        EACH_OF(group, i)
            w->pc[i] = pc;
    }
}

/* ---- a block ---- */

static void
set_special(struct warp *w, int which, uint32_t value)
{
    uint32_t *p = (uint32_t *)w->specials + which * LANES;

    for (int i = 0; i < LANES; i++)
        p[i] = value;
}

static void
set_special64(struct warp *w, int which, uint64_t value)
{
    uint64_t *p = (uint64_t *)((uint32_t *)w->specials + which * LANES);

    for (int i = 0; i < LANES; i++)
        p[i] = value;
}

/* What is the same in all blocks. */
static void
prepare_warp(struct worker *k, uint32_t index)
{
    const struct ptx_launch *l = k->s->l;
    struct warp             *w = &k->warps[index];
    uint32_t                *sp = (uint32_t *)w->specials;

    w->w = k;
    w->index = index;
    w->base[1] = k->s->m->consts;
    w->base[2] = w->specials;
    w->base[3] = (unsigned char *)w->scratch;
    memset(sp, 0, SP_END * LANES * 4);
    w->exists = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t t = index * LANES + i;

        if (t < k->n_block_threads)
            w->exists |= 1u << i;
        sp[SP_TID_X * LANES + i] = t % l->block[0];
        sp[SP_TID_Y * LANES + i] = t / l->block[0] % l->block[1];
        sp[SP_TID_Z * LANES + i] = t / l->block[0] / l->block[1];
        sp[SP_LANE * LANES + i] = i;
        sp[SP_LANEMASK_EQ * LANES + i] = 1u << i;
        sp[SP_LANEMASK_LT * LANES + i] = (1u << i) - 1;
        sp[SP_LANEMASK_LE * LANES + i] = (2u << i) - 1;
        sp[SP_LANEMASK_GT * LANES + i] = ~((2u << i) - 1);
        sp[SP_LANEMASK_GE * LANES + i] = ~((1u << i) - 1);
    }
    for (int d = 0; d < 3; d++) {
        set_special(w, SP_NTID_X + d, l->block[d]);
        set_special(w, SP_NCTAID_X + d, l->grid[d]);
    }
    set_special(w, SP_WARPID, index);
    set_special(w, SP_NWARPID, k->n_warps);
    set_special(w, SP_DYNAMIC_SIZE, l->dynamic_shared);
    set_special(w, SP_TOTAL_SIZE, k->shared_bytes);
    set_special(w, SP_ONE, 1);
    set_special64(w, SP_DYNAMIC_AT, k->s->m->shared_bytes);
}

static bool
deadlock(struct worker *k)
{
    for (int sync = 1; sync >= 0; sync--)       /* a warp that waits for its own lanes holds up the others */
        for (uint32_t j = 0; j < k->n_warps; j++) {
            struct warp   *w = &k->warps[j];
            const uint32_t lanes = sync ? w->at_sync : w->at_bar;

            if (lanes) {
                const int lane = __builtin_ctz(lanes);

                return ptx_fault(w, &k->s->m->code[w->pc[lane]], lane,
                                 sync ? "deadlock: waits for lanes of its mask (0x%x) that do not come"
                                      : "divergent barrier (deadlock): waits at barrier %u, to which not all threads come",
                                 sync ? w->sync_mask[lane] : w->bar_id[lane]);
            }
        }
    return false;
}

static bool
run_block(struct worker *k, uint64_t number)
{
    const struct state *s = k->s;
    uint32_t            n_left = k->n_warps;

    k->ctaid[0] = (uint32_t)(number % s->l->grid[0]);
    k->ctaid[1] = (uint32_t)(number / s->l->grid[0] % s->l->grid[1]);
    k->ctaid[2] = (uint32_t)(number / s->l->grid[0] / s->l->grid[1]);
    k->n_alive = k->n_block_threads;
    k->full_tick = ++k->tick;
    if (k->shared_bytes)
        memset(k->shared, 0xc5, k->shared_bytes); /* nobody may rely on zeros */
    for (int id = 0; id < N_BARRIERS; id++)
        k->barriers[id] = (struct barrier){.all = 1};
    for (uint32_t j = 0; j < k->n_warps; j++) {
        struct warp  *w = &k->warps[j];
        struct frame *f = frame_new(k, s->k);

        if (!f) {
            snprintf(k->error, sizeof k->error, "out of memory");
            return false;
        }
        f->live = w->exists;
        f->local_at = 0;
        w->exited = w->at_sync = w->at_bar = 0;
        w->ticks_base = k->full_tick;
        w->knows_parts = false;
        for (int i = 0; i < LANES; i++) {
            w->pc[i] = s->k->first;
            w->frame[i] = f;
        }
        for (int d = 0; d < 3; d++)
            set_special(w, SP_CTAID_X + d, k->ctaid[d]);
    }
    while (n_left) {
        bool moved = false;

        for (uint32_t j = 0; j < k->n_warps; j++) {
            struct warp *w = &k->warps[s->l->backwards ? k->n_warps - 1 - j : j];
            enum outcome o;

            if (!(w->exists & ~w->exited & ~w->at_bar))
                continue;
            if (!w->at_sync || w->exists & ~w->exited & ~w->at_bar & ~w->at_sync || ptx_sync_ready(w))
                moved = true;
            else
                continue;
            o = run_warp(w);
            k->n_done += w->n_since;
            w->n_since = 0;
            if (o == FAILED)
                return false;
            n_left -= o == ENDED;
        }
        if (!moved)
            return deadlock(k);
    }
    return true;
}

/* ---- a launch ---- */

static void
worker_clear(struct worker *k)
{
    if (k->warps)
        for (uint32_t j = 0; j < k->n_warps; j++) {
            free(k->warps[j].specials);
            free(k->warps[j].local);
        }
    for (struct frame *f = k->frames, *next; f; f = next) {
        next = f->made_before;
        free(f);
    }
    free(k->warps);
    free(k->free_frames);
    free(k->shared);
    free(k->shadow);
    free(k->units);
    free(k->warp_knows);
    free(k->ranges);
    free(k->sites);
    free(k->counts);
}

static bool
worker_init(struct worker *k, const struct state *s, bool counts)
{
    const struct ptx_module *m = s->m;
    struct ptx_facts         facts;

    ptx_facts(s->k, &facts);
    k->s = s;
    k->n_block_threads = s->l->block[0] * s->l->block[1] * s->l->block[2];
    k->n_warps = (k->n_block_threads + LANES - 1) / LANES;
    k->shared_bytes = m->shared_bytes + s->l->dynamic_shared;
    k->local_stride = facts.local_bytes ? ((size_t)facts.local_bytes + LOCAL_STACK) / 16 * 16 : 0;
    k->warps = calloc(k->n_warps, sizeof *k->warps);
    k->free_frames = calloc((size_t)m->n_functions, sizeof *k->free_frames);
    k->ranges = calloc(m->n_sites + 1, sizeof *k->ranges);
    k->shared = malloc(k->shared_bytes + 64);
    if (!k->warps || !k->free_frames || !k->ranges || !k->shared)
        return false;
    if (s->races && k->shared_bytes) {
        k->shadow = calloc(k->shared_bytes + 16, sizeof *k->shadow);
        k->units = malloc(k->shared_bytes / 8 + 2);
        k->warp_knows = calloc((size_t)k->n_warps * k->n_warps, sizeof *k->warp_knows);
        if (!k->shadow || !k->units || !k->warp_knows)
            return false;
        memset(k->units, 8, k->shared_bytes / 8 + 2);
    }
    if (counts) {
        k->counts = calloc(1, sizeof *k->counts);
        k->sites = calloc(m->n_sites + 1, sizeof *k->sites);
        if (!k->counts || !k->sites)
            return false;
    }
    for (uint32_t j = 0; j < k->n_warps; j++) {
        struct warp *w = &k->warps[j];

        w->specials = aligned_alloc(64, SP_END * LANES * 4);
        if (!w->specials || (k->local_stride && !(w->local = malloc(k->local_stride * LANES))))
            return false;
        prepare_warp(k, j);
    }
    return true;
}

struct job {
    struct worker *k;
    atomic_ullong *next;
    atomic_bool   *stop;
    bool           ok;
};

static void *
work(void *arg)
{
    struct job *j = arg;
    fenv_t      env;
    uint64_t    b;

    /* Denormals are kept and nothing traps, whatever the thread had; its flags are its own afterwards. */
    fegetenv(&env);
    fesetenv(FE_DFL_ENV);
    j->ok = true;
    while (!*j->stop && (b = atomic_fetch_add(j->next, 1)) < j->k->s->n_blocks) {
        if (j->k->s->l->backwards)
            b = j->k->s->n_blocks - 1 - b;
        if (!run_block(j->k, b)) {
            j->ok = false;
            *j->stop = true;
        }
    }
    fesetenv(&env);
    return NULL;
}

static void
add_counts(struct ptx_counts *to, const struct worker *k)
{
    const uint64_t *from = &k->counts->n_instructions;
    uint64_t       *sum = &to->n_instructions;

    for (size_t i = 0; i < offsetof(struct ptx_counts, deepest_call) / sizeof *sum; i++)
        sum[i] += from[i];
    to->n_instructions += k->n_done;
    to->deepest_call = k->counts->deepest_call > to->deepest_call ? k->counts->deepest_call : to->deepest_call;
    for (uint32_t j = 0; j < k->n_warps; j++)
        to->n_lane_instructions += k->warps[j].n_lanes;
    for (uint32_t i = 0; i < k->s->m->n_sites; i++) {
        const struct ptx_site *s = &k->sites[i];
        uint32_t               at_ = 0;

        if (!s->n_accesses)
            continue;
        while (at_ < to->n_sites && (to->sites[at_].line != s->line || to->sites[at_].stores != s->stores))
            at_++;
        if (at_ == PTX_SITES)
            continue;
        if (at_ == to->n_sites)
            to->sites[to->n_sites++] = (struct ptx_site){.line = s->line, .stores = s->stores};
        to->sites[at_].n_accesses += s->n_accesses;
        to->sites[at_].n_sectors += s->n_sectors;
        to->sites[at_].n_ideal += s->n_ideal;
    }
}

static bool
is_launch_good(const struct ptx_kernel *k, const struct ptx_launch *l, char *error, size_t cap)
{
    uint64_t n = 1;

    for (int d = 0; d < 3; d++) {
        if (!l->grid[d] || !l->block[d] || l->block[d] > 1024 || (d && l->grid[d] > 65535)) {
            snprintf(error, cap, "%s: grid %u,%u,%u of blocks %u,%u,%u", k->name, l->grid[0], l->grid[1], l->grid[2],
                     l->block[0], l->block[1], l->block[2]);
            return false;
        }
        n *= l->block[d];
    }
    if (n > k->max_threads) {
        snprintf(error, cap, "%s: blocks of %llu threads, at most %u", k->name, (unsigned long long)n, k->max_threads);
        return false;
    }
    if (k->n_params && !l->params) {
        snprintf(error, cap, "%s: no parameters, %d are wanted", k->name, k->n_params);
        return false;
    }
    return true;
}

int
ptx_launch(const struct ptx_kernel *kernel, const struct ptx_launch *l, const struct ptx_memory *memory,
           struct ptx_counts *counts, char *error, size_t cap)
{
    enum { MOST = 64 };
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct state    s = {.m = kernel->module, .k = kernel, .l = l, .memory = memory, .races = !l->allows_races,
                         .lock = &lock};
    struct worker  *workers = NULL;
    struct job      jobs[MOST];
    pthread_t       threads[MOST];
    bool            started[MOST] = {false}, ok = true;
    atomic_ullong   next = 0;
    atomic_bool     stop = false;
    int             n;

    if (cap)
        *error = 0;
    if (counts)
        memset(counts, 0, sizeof *counts);
    if (!is_launch_good(kernel, l, error, cap))
        return 1;
    s.n_blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    n = l->n_threads < 1 ? 1 : l->n_threads > MOST ? MOST : l->n_threads;
    n = (uint64_t)n > s.n_blocks ? (int)s.n_blocks : n;
    s.many = n > 1;
    s.params = calloc(1, kernel->all_params_bytes + 16);
    workers = calloc((size_t)n, sizeof *workers);
    if (s.params && workers) {
        for (int i = 0; i < kernel->n_params; i++)
            memcpy(s.params + kernel->param_offset[i], l->params[i], kernel->param_bytes[i]);
        for (int i = 0; ok && i < n; i++)
            ok = worker_init(&workers[i], &s, counts != NULL);
    } else {
        ok = false;
    }
    if (!ok) {
        snprintf(error, cap, "%s: out of memory", kernel->name);
    } else {
        for (int i = 0; i < n; i++)
            jobs[i] = (struct job){&workers[i], &next, &stop, true};
        for (int i = 1; i < n; i++)
            started[i] = pthread_create(&threads[i], NULL, work, &jobs[i]) == 0;
        work(&jobs[0]);
        for (int i = 1; i < n; i++)
            if (started[i])
                pthread_join(threads[i], NULL);
        for (int i = 0; i < n; i++) {
            if (!jobs[i].ok && ok)
                snprintf(error, cap, "%s", workers[i].error);
            ok = ok && jobs[i].ok;
            if (counts)
                add_counts(counts, &workers[i]);
        }
        if (counts) {
            counts->n_blocks = s.n_blocks;
            counts->n_threads = s.n_blocks * workers[0].n_block_threads;
        }
    }
    for (int i = 0; workers && i < n; i++)
        worker_clear(&workers[i]);
    free(workers);
    free(s.params);
    return !ok;
}
