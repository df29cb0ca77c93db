/* runtime/chunk_run.c -- runs a plan chunk by chunk, where a backend has no memory for all of it. Called by lend.c;
 * what a chunk is, chunks.c says.
 *
 * While a chunk is computed, the next one goes there and what the one before has made comes back, so of what is copied
 * there are two. Results are on the host then. */
#include <string.h>

#include "base/fpe.h"
#include "base/log.h"
#include "base/ways.h"
#include "passes/memory.h"
#include "runtime/chunks.h"
#include "runtime/storage.h"

struct run {
    struct fr_plan          *p;
    const struct fr_backend *by;
    const struct fr_inputs  *inputs;
    struct fr_chunks         c;
    struct fr_layouts        layouts;     /* of what calls are given */
    char                  *(*slot)[2];    /* [n_nodes] its memory there; NULL: none */
    struct fr_instance      *instance;    /* room for those of a step */
    char                   **ptr;         /* and for their operands */
    bool                     overwrites;
};

static int64_t
first_of(int64_t chunk, const struct run *r)
{
    return chunk * r->c.units;
}

static int64_t
units_of(int64_t chunk, const struct run *r)
{
    const int64_t left = r->c.n_units - first_of(chunk, r);

    return left < r->c.units ? left : r->c.units;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t
slot_bytes(const struct run *r, int node)
{
    return (size_t)fr_chunk_bytes(&r->c.root[node], r->c.units) + FR_MEMORY_ALIGN;
}

/* Where the byte of a root is there that a chunk has first: as it lies in the memory of the root, so that all is as
 * aligned as there. */
static char *
place_of(const struct run *r, int node, int64_t chunk, int64_t first)
{
    return r->slot[node][chunk % fr_chunk_slots(&r->c, node)] + (first & (FR_MEMORY_ALIGN - 1));
}

static fr_status
no_room(const struct run *r, const struct fr_err *said, size_t n_bytes, struct fr_err *err)
{
    return fr_backend_refused(said, err,
                              "Unable to allocate %zu bytes for a chunk: this evaluation needs %lld bytes for results and "
                              "%lld for temporaries", n_bytes, (long long)r->p->new_bytes, (long long)fr_plan_temporary_bytes(r->p, 1));
}

/* Of one root, beside what is there already. What moves of the results is the host's. */
static fr_status
place_root(struct run *r, int node, struct fr_err *err)
{
    const struct fr_chunk_root *root = &r->c.root[node];
    const bool                  is_new = r->p->place[node].kind == FR_PLACE_NEW;
    const bool                  is_used = root->is_read || root->is_written;
    struct fr_err               said;

    if (is_new) {
        r->p->fresh[node] = is_used && !root->moves ? fr_buffer_new(r->by, (size_t)r->p->place[node].bytes, &said)
                                                    : fr_buffer_new_host((size_t)r->p->place[node].bytes, &said);
        if (!r->p->fresh[node])
            return no_room(r, &said, (size_t)r->p->place[node].bytes, err);
        r->p->base[node] = r->p->fresh[node]->mem;
    }
    if (!is_used || root->is_there || (is_new && !root->moves))
        return FR_OK;
    for (int i = 0; i < fr_chunk_slots(&r->c, node); i++)
        if (!(r->slot[node][i] = r->by->alloc(r->by, slot_bytes(r, node), &said)))
            return no_room(r, &said, slot_bytes(r, node), err);
    return FR_OK;
}

static fr_status
place_all(struct run *r, struct fr_err *err)
{
    fr_status st = FR_OK;

    for (int i = 0; i < r->p->n_placed && st == FR_OK; i++)
        if (r->p->place[r->p->placed[i]].kind != FR_PLACE_SAME)
            st = place_root(r, r->p->placed[i], err);
    return st;
}

static void
free_slots(struct run *r)
{
    for (int n = 0; n < r->p->graph->n_nodes; n++)
        for (int i = 0; i < 2; i++)
            if (r->slot[n][i])
                r->by->free(r->by, r->slot[n][i], slot_bytes(r, n));
}

/* ---- copies ---------------------------------------------------------------------------------- */

static fr_status
copy_in(const struct run *r, void *to, const void *host, size_t n_bytes, struct fr_err *err)
{
    return (r->by->mark ? r->by->copy_in_beside : r->by->copy_in)(r->by, to, host, n_bytes, err);
}

static fr_status
copy_out(const struct run *r, void *host, const void *from, size_t n_bytes, struct fr_err *err)
{
    return (r->by->mark ? r->by->copy_out_beside : r->by->copy_out)(r->by, host, from, n_bytes, err);
}

static fr_status
set_mark(const struct run *r, struct fr_err *err)
{
    return r->by->mark ? r->by->mark(r->by, err) : FR_OK;
}

/* What of all roots that move, or do not, is copied for a chunk: in, or out. */
static fr_status
carry(const struct run *r, bool moves, bool out, int64_t chunk, struct fr_err *err)
{
    const int64_t units = units_of(chunk, r);
    fr_status     st = FR_OK;

    for (int i = 0; i < r->p->n_placed && st == FR_OK; i++) {
        const int                   n = r->p->placed[i];
        const struct fr_chunk_root *root = &r->c.root[n];
        const bool                  is_leaf = r->p->place[n].kind == FR_PLACE_LEAF;
        const int64_t               first = fr_chunk_first(root, first_of(chunk, r), units);
        const size_t                n_bytes = (size_t)fr_chunk_bytes(root, units);

        if (!r->slot[n][0] || root->moves != moves || r->p->place[n].kind == FR_PLACE_ARENA)
            continue;
        if (!out && is_leaf && !root->is_filled)
            st = copy_in(r, place_of(r, n, chunk, first), r->p->base[n] + first, n_bytes, err);
        if (out && (!is_leaf || root->is_written))
            st = copy_out(r, r->p->base[n] + first, place_of(r, n, chunk, first), n_bytes, err);
    }
    return st;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Where an operand begins. */
static char *
operand_at(const struct run *r, int64_t chunk, int step, int instance, int k)
{
    const struct fr_binding    *b = &r->p->step[step].binding[instance][k];
    const int64_t               first = first_of(chunk, r), here = fr_binding_at(b, r->inputs->moving);
    const int64_t               moved = first * fr_chunk_step(&r->c, step, instance, k);
    const struct fr_chunk_root *root;
    int64_t                     from;
    int                         n;

    if (b->node < 0)
        return (char *)((uintptr_t)b->offset + (uintptr_t)moved);
    n = fr_place_root(r->p->place, b->node);
    root = &r->c.root[n];
    if (!r->slot[n][0])
        return (char *)((uintptr_t)r->p->base[n] + (uintptr_t)(here + moved));
    from = fr_chunk_first(root, first, units_of(chunk, r));
    return (char *)((uintptr_t)place_of(r, n, chunk, from) + (uintptr_t)(here + moved - from));
}

/* The instances of a step that a chunk has. Returns how many. */
static int
find_instances(struct run *r, int step, int64_t chunk)
{
    struct fr_step *s = &r->p->step[step];
    const int       n_op = fr_step_operands(s);
    int             n = 0;

    for (int i = 0; i < s->n_instances; i++) {
        const struct fr_chunk_item *it = &r->c.item[step][i];
        struct fr_instance         *in = &r->instance[n];

        if (it->axis < 0 && chunk > 0)
            continue;
        *in = s->instance[i];
        in->own = NULL;
        in->scratch = NULL; /* it gets its own */
        in->ptr = r->ptr + (size_t)n * (size_t)n_op;
        if (it->axis >= 0 && s->kind != FR_STEP_CALL)
            fr_instance_cut(in, it->axis, units_of(chunk, r) * it->per);
        for (int k = 0; k < n_op; k++)
            in->ptr[k] = operand_at(r, chunk, step, i, k);
        n++;
    }
    return n;
}

/* A layout with so many indices of its first axis, among those of the run. */
static const struct fr_layout *
cut_layout(struct run *r, const struct fr_layout *l, int64_t n)
{
    int64_t           dims[FR_MAX_DIMS];
    struct fr_layout *out;

    memcpy(dims, fr_layout_dims(l), (size_t)l->ndim * sizeof *dims);
    dims[0] = n;
    fr_layouts_use(&r->layouts);
    out = fr_layout_get(l->ndim, dims, fr_layout_strides(l));
    fr_layouts_use(NULL);
    return out;
}

static fr_status
run_call(struct run *r, int step, int64_t chunk, struct fr_err *err)
{
    struct fr_call              call = r->p->step[step].call;
    const struct fr_chunk_item *it = &r->c.item[step][0];
    const int64_t               n = units_of(chunk, r) * it->per;

    for (int k = 0; it->axis >= 0 && k <= call.n_in; k++) {
        const struct fr_layout **l = k < call.n_in ? &call.in[k] : &call.out;

        if (fr_chunk_cuts(&call, k) && !(*l = cut_layout(r, *l, n)))
            return fr_no_memory(err, "a call in chunks");
    }
    return r->by->call(r->by, &call, r->instance->ptr, err);
}

static fr_status
run_chunk(struct run *r, int64_t chunk, struct fr_err *err)
{
    fr_status st = FR_OK;

    for (int i = 0; i < r->p->n_steps && st == FR_OK; i++) {
        struct fr_step *s = &r->p->step[i];
        const int       n = find_instances(r, i, chunk);

        if (n == 0)
            continue;
        if (s->kind == FR_STEP_SCAN) {
            st = r->by->scan(r->by, s->op, s->dtype, r->instance, err);
        } else if (s->kind == FR_STEP_CALL) {
            st = run_call(r, i, chunk, err);
        } else {
            r->by->bind(s->kernel, r->instance, n, false);
            st = r->by->launch(s->kernel, r->instance, n, err);
        }
        fr_step_count_way(s);
        fr_counted.n_kernels += s->counts;
    }
    fr_count_way(FR_WAY_chunked);
    return st;
}

/* Ctrl-C ends it between two chunks, unless what was there before has been written over. */
static fr_status
ask(const struct run *r, struct fr_err *err)
{
    if (r->overwrites || !fr_backend_interrupted || !fr_backend_interrupted())
        return FR_OK;
    return fr_fail(err, FR_EINTR, "interrupted");
}

static fr_status
run_chunks(struct run *r, struct fr_err *err)
{
    const int64_t n = (r->c.n_units + r->c.units - 1) / r->c.units;
    fr_status     st;

    TRY(set_mark(r, err));
    TRY(carry(r, false, false, 0, err));
    TRY(carry(r, true, false, 0, err));
    for (int64_t i = 0; i < n; i++) {
        TRY(run_chunk(r, i, err));
        if (i > 0)
            TRY(carry(r, true, true, i - 1, err));
        TRY(ask(r, err));
        if (i + 1 < n)
            TRY(carry(r, true, false, i + 1, err));
        TRY(set_mark(r, err));
    }
    TRY(carry(r, true, true, n - 1, err));
    TRY(carry(r, false, true, 0, err));
out:
    return st;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool
has_room(struct run *r)
{
    struct fr_arena *a = &r->c.arena;
    size_t           n = 1, n_op = 1;

    for (int i = 0; i < r->p->n_steps; i++) {
        const struct fr_step *s = &r->p->step[i];
        const size_t          n_instances = (size_t)s->n_instances, all = n_instances * (size_t)fr_step_operands(s);

        n = n_instances > n ? n_instances : n;
        n_op = all > n_op ? all : n_op;
        r->overwrites |= s->overwrites;
    }
    r->layouts.arena = a;
    r->slot = fr_arena_alloc(a, ((size_t)r->p->graph->n_nodes + 1) * sizeof *r->slot);
    r->instance = fr_arena_room(a, n * sizeof *r->instance);
    r->ptr = fr_arena_room(a, n_op * sizeof *r->ptr);
    return r->slot && r->instance && r->ptr;
}

static fr_status
run_unlocked(struct run *r, struct fr_err *err)
{
    void     *gil;
    fr_status st;

    fr_counted.n_evals++;
    fr_planner_notice();
    fr_fpe_begin();
    r->p->running = true;
    gil = fr_hooks.release_gil ? fr_hooks.release_gil() : NULL;
    st = run_chunks(r, err);
    if (gil)
        fr_hooks.take_gil(gil);
    r->p->running = false;
    for (int i = 0; i < r->p->n_steps; i++) {
        fr_counted.bytes_read += r->p->step[i].bytes_read;
        fr_counted.bytes_written += r->p->step[i].bytes_written;
    }
    return st;
}

fr_status
fr_plan_run_chunks(struct fr_plan *p, const struct fr_inputs *inputs, const bool *is_there, struct fr_err *err)
{
    struct run r = {.p = p, .by = fr_plan_by(p), .inputs = inputs};
    fr_status  st;

    if ((st = fr_chunks_find(&r.c, p, inputs->moving, is_there, (int64_t)r.by->room(r.by, INT64_MAX), err)) != FR_OK)
        goto clear;
    st = has_room(&r) ? FR_OK : fr_no_memory(err, "a plan in chunks");
    if (st != FR_OK)
        goto clear;
    TRY(place_all(&r, err));
    for (int i = 0; i < p->n_steps; i++)
        fr_step_bind_scalars(&p->step[i], inputs);
    if (fr_env.debug >= 1)
        fr_log(1, "%lld units in chunks of %lld", (long long)r.c.n_units, (long long)r.c.units);
    st = run_unlocked(&r, err);
out:
    free_slots(&r);
    if (st != FR_OK)
        fr_plan_drop_fresh(p);
clear:
    fr_arena_clear(&r.c.arena);
    return st;
}
