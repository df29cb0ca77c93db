/* backends/cuda/scatter.c -- values put where indices say, with NumPy's bits: the last of several for one place stays, and what
 * joins does so in the order of the indices (jit/emit_chosen.c).
 *
 *     one value for all           written as it comes
 *     values                      a word for each place of the axis says which index is its last: 3 walks over the indices, 4
 *                                 bytes for each place; where places are far more than indices, these are sorted instead
 *     sums of integers            added by the memory itself, in any order
 *     sums of floats              sorted by place, then added run by run
 *
 * A sort moves 8 or 12 bytes of each index once for each byte of the highest one, and needs two times as many beside them. A run
 * is one chain of additions, some nanoseconds each, however many threads there are: its order says so. */
#include <stdio.h>

#include "backends/cuda/chosen.h"
#include "base/ways.h"
#include "jit/emit_text.h"

enum { BLOCKS_EACH = 8, SORT_BLOCKS_EACH = 2, SORT_TILE = FR_CUDA_THREADS, DIGITS = 256, FEW_PLACES = 1 << 20, PLACES_EACH = 8, N_UNITS = 5 };

/* By whether keys are wide, and elements floats. */
static struct fr_cuda_code codes[FR_CUDA_SCATTER_KINDS][2][2][N_UNITS][FR_CUDA_DEVICES];

/* What a scatter needs there beside its operands. */
struct scatter {
    const struct fr_backend *self;
    struct fr_cuda_device   *d;
    struct fr_cuda_scatter   g;
    bool                     is_wide, is_float;     /* keys have 8 bytes; elements are added as floats */
    int                      unit;                  /* bytes of an element */
    void                    *own;                   /* one piece of memory, */
    size_t                   n_bytes;               /* of which so much is wanted so far */
};

static fr_status
write(struct fr_text *out, const struct fr_cuda_source *of, struct fr_err *err)
{
    (void)of;
    return fr_cuda_write_text(out, fr_cuda_scatter_text, err);
}

/* Kernels that read keys, or move elements, are of the types of these. */
static fr_status
launch(struct scatter *s, int kind, unsigned n_blocks, struct fr_err *err)
{
    const bool                  moves = kind == FR_CUDA_ADD || kind == FR_CUDA_WALK || (kind >= FR_CUDA_STORE && kind <= FR_CUDA_STORE_MARKED);
    const bool                  is_wide = s->is_wide && kind >= FR_CUDA_LAST && kind != FR_CUDA_ADD, is_float = s->is_float && moves;
    const int                   unit = moves ? s->unit : 1;
    char                        element[48], key[32], kinds[16];
    const char *const           defines[] = {element, key, kinds, NULL};
    const struct fr_cuda_source of = {"frit_scatter", write, defines, FR_OP_store, FR_I64};
    fr_cuda_function            f;
    fr_status                   st;

    snprintf(element, sizeof element, "-DELEMENT=%s", is_float ? unit == 4 ? "float" : "double" : fr_cuda_unit_type(unit));
    snprintf(key, sizeof key, "-DKEY=%s", is_wide ? "unsigned long long" : "unsigned");
    snprintf(kinds, sizeof kinds, "-DKIND=%d", kind);
    st = fr_cuda_code_get(codes[kind][is_wide][is_float][__builtin_ctz((unsigned)unit)], &of, s->d, &f, err);
    return st != FR_OK ? st : fr_cuda_start(s->d, f, &(struct fr_cuda_grid){n_blocks, 1, 1, FR_CUDA_THREADS, 1}, 0, &s->g, sizeof s->g,
                                            "a launch for indices", err);
}

static unsigned
blocks_for(const struct scatter *s, int64_t n)
{
    return fr_cuda_blocks(n, FR_CUDA_THREADS, (int64_t)s->d->n_multiprocessors * BLOCKS_EACH);
}

/* ---- memory ---- */

/* Asks for n bytes: where they are, from the beginning of all. */
static uint64_t
ask(struct scatter *s, int64_t n)
{
    const uint64_t at = s->n_bytes;

    s->n_bytes += ((size_t)n + 15) / 16 * 16;
    return at;
}

static fr_status
get_memory(struct scatter *s, struct fr_err *err)
{
    uint64_t *const at[] = {&s->g.winner, &s->g.key, &s->g.to_key, &s->g.number, &s->g.to_number, &s->g.digits, &s->g.wins};
    fr_status       st = fr_cuda_scratch(s->self, s->n_bytes, &s->own, err);

    for (size_t i = 0; i < FR_LEN(at); i++)
        *at[i] += (uint64_t)(uintptr_t)s->own;
    return st;
}

static void
ask_to_sort(struct scatter *s)
{
    const int64_t key_bytes = s->is_wide ? 8 : 4;

    s->g.n_blocks = fr_cuda_blocks(s->g.n, SORT_TILE, (int64_t)s->d->n_multiprocessors * SORT_BLOCKS_EACH);
    s->g.span = (s->g.n + s->g.n_blocks * SORT_TILE - 1) / (s->g.n_blocks * SORT_TILE) * SORT_TILE;
    s->g.n_blocks = (s->g.n + s->g.span - 1) / s->g.span;
    s->g.key = ask(s, s->g.n * key_bytes);
    s->g.to_key = ask(s, s->g.n * key_bytes);
    s->g.number = ask(s, s->g.n * 4);
    s->g.to_number = ask(s, s->g.n * 4);
    s->g.digits = ask(s, s->g.n_blocks * DIGITS * 4);
}

/* ---- what is launched ---- */

static void
swap(uint64_t *a, uint64_t *b)
{
    const uint64_t c = *a;

    *a = *b;
    *b = c;
}

/* The places of the indices in order, and the number of each, equal ones in theirs. */
static fr_status
sort(struct scatter *s, struct fr_err *err)
{
    const unsigned n_blocks = (unsigned)s->g.n_blocks;
    fr_status      st;

    TRY(launch(s, FR_CUDA_KEYS, blocks_for(s, s->g.n), err));
    for (s->g.shift = 0; s->g.shift == 0 || (s->g.shift < 64 && s->g.last >> s->g.shift); s->g.shift += 8) {
        TRY(launch(s, FR_CUDA_DIGITS, n_blocks, err));
        TRY(launch(s, FR_CUDA_SUM_DIGITS, 1, err));
        TRY(launch(s, FR_CUDA_SORT, n_blocks, err));
        swap(&s->g.key, &s->g.to_key);
        swap(&s->g.number, &s->g.to_number);
    }
out:
    return st;
}

static fr_status
store(struct scatter *s, bool same, struct fr_err *err)
{
    const bool sorts = !same && s->g.last >= FEW_PLACES && s->g.last / PLACES_EACH >= s->g.n;
    fr_status  st = FR_OK;

    if (same)
        return launch(s, FR_CUDA_STORE_ANY, blocks_for(s, s->g.n_all), err);
    if (sorts) {
        ask_to_sort(s);
        s->g.wins = ask(s, s->g.n);
    } else {
        s->g.winner = ask(s, (s->g.last + 1) * 4);
    }
    TRY(get_memory(s, err));
    if (sorts)
        TRY(sort(s, err));
    else
        TRY(launch(s, FR_CUDA_CLAIM, blocks_for(s, s->g.n), err));
    TRY(launch(s, sorts ? FR_CUDA_LAST : FR_CUDA_SETTLE, blocks_for(s, s->g.n), err));
    TRY(launch(s, sorts ? FR_CUDA_STORE_MARKED : FR_CUDA_STORE, blocks_for(s, s->g.n_all), err));
out:
    return st;
}

static fr_status
join(struct scatter *s, struct fr_err *err)
{
    fr_status st = FR_OK;

    if (!s->is_float)
        return launch(s, FR_CUDA_ADD, blocks_for(s, s->g.n_all), err);
    ask_to_sort(s);
    TRY(get_memory(s, err));
    TRY(sort(s, err));
    TRY(launch(s, FR_CUDA_WALK, blocks_for(s, s->g.n_all), err));
out:
    return st;
}

/* ---- */

/* The axes before the indices', those that go on as one as one. False: they are too many. */
static bool
fill_axes(struct fr_cuda_scatter *g, const struct fr_scatter *c)
{
    g->n_outer = 1;
    for (int k = 0; k < c->n_outer; k++) {
        const int64_t n = c->dims[k], stride = c->outer[k], last = g->n_axes - 1;

        g->n_outer *= n;
        if (n == 1)
            continue;
        if (last >= 0 && g->stride[last] == n * stride) {
            g->dims[last] *= n;
            g->stride[last] = stride;
            continue;
        }
        if (g->n_axes == FR_CUDA_TAKE_AXES)
            return false;
        g->dims[g->n_axes] = n;
        g->stride[g->n_axes++] = stride;
    }
    return true;
}

fr_status
fr_cuda_scatter_rows(const struct fr_backend *self, const struct fr_scatter *c, struct fr_err *err)
{
    const int      size = fr_dtype_size(c->dtype);
    const bool     joins = c->op != FR_OP_store;
    struct scatter s = {.self = self, .is_wide = (uint64_t)c->last > UINT32_MAX,
                        .is_float = joins && (c->dtype == FR_F32 || c->dtype == FR_F64)};
    uint64_t       all = c->row | (uint64_t)c->step | (uint64_t)(uintptr_t)c->to | (uint64_t)(uintptr_t)c->value;
    fr_status      st;

    FR_ASSERT(!joins || c->op == FR_OP_add || c->op == FR_OP_subtract);
    s.g = (struct fr_cuda_scatter){.index = (uint64_t)(uintptr_t)c->index, .out = (uint64_t)(uintptr_t)c->to, .in = (uint64_t)(uintptr_t)c->value,
                                   .n = c->n, .last = c->last, .step = c->step, .from = c->same ? 0 : (int64_t)c->row, .subtracts = c->op == FR_OP_subtract};
    for (int k = 0; k < c->n_outer; k++)
        all |= (uint64_t)c->outer[k];
    s.unit = joins ? size : fr_cuda_unit(all);
    if (c->n > UINT32_MAX || (joins && (size < 4 || size > 8)) || (all & (uint64_t)(s.unit - 1)) || !fill_axes(&s.g, c))
        return FR_ENOTSUP;
    s.g.n_units = (int64_t)c->row / s.unit;
    s.g.n_all = s.g.n_outer * c->n * s.g.n_units;
    if (s.g.n_all == 0)
        return FR_OK;
    if ((st = fr_cuda_enter(self, &s.d, err)) != FR_OK)
        return st;
    st = joins ? join(&s, err) : store(&s, c->same, err);
    fr_cuda_free(self, s.own, s.n_bytes);
    fr_cuda_leave(s.d);
    if (st == FR_OK)
        fr_count_way(FR_WAY_device_chosen);
    return st;
}
