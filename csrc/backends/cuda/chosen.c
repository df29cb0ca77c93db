/* backends/cuda/chosen.c -- masks and arrays of indices, looked at on the device, and the rows that masks choose
 * (jit/emit_chosen.c).
 *
 * How many elements a mask sets is counted by blocks, each of which has a part of it. Only these counts come to the host, which
 * adds them up; they stay on the device, too, where a block that moves elements adds up those of the blocks before it. Rows
 * that are no single unit are moved by their places. */
#include "backends/cuda/chosen.h"

#include <stdio.h>

#include "base/ways.h"
#include "jit/emit_text.h"

enum { BLOCKS_EACH = 8, MOST_BLOCKS = 2048, EACH = 4 /* indices of a thread, at least */, N_UNITS = 5 /* of 1, 2, 4, 8, 16 bytes */ };

static struct fr_cuda_code codes[FR_CUDA_CHOSEN_KINDS][N_UNITS][FR_CUDA_DEVICES], look_codes[FR_N_DTYPES][FR_CUDA_DEVICES];

fr_status
fr_cuda_write_text(struct fr_text *out, const char *text, struct fr_err *err)
{
    fr_text_add(out, "%s", text);
    return out->st == FR_OK ? FR_OK : fr_no_memory(err, "the text of a kernel");
}

static fr_status
write_chosen(struct fr_text *out, const struct fr_cuda_source *of, struct fr_err *err)
{
    (void)of;
    return fr_cuda_write_text(out, fr_cuda_chosen_text, err);
}

static fr_status
write_look(struct fr_text *out, const struct fr_cuda_source *of, struct fr_err *err)
{
    (void)of;
    return fr_cuda_write_text(out, fr_cuda_look_text, err);
}

int
fr_cuda_unit(uint64_t all)
{
    return 1 << __builtin_ctzll(all | 16);
}

const char *
fr_cuda_unit_type(int size)
{
    static const char *const types[N_UNITS] = {"unsigned char", "unsigned short", "unsigned", "unsigned long long", "ulonglong2"};

    return types[__builtin_ctz((unsigned)size)];
}

const char *
fr_cuda_index_type(fr_dtype dtype)
{
    static const char *const types[FR_N_DTYPES] = {
        [FR_I8] = "signed char", [FR_I16] = "short", [FR_I32] = "int", [FR_I64] = "long long",
        [FR_U8] = "unsigned char", [FR_U16] = "unsigned short", [FR_U32] = "unsigned", [FR_U64] = "unsigned long long"};

    return types[dtype];
}

fr_status
fr_cuda_scratch(const struct fr_backend *self, size_t n_bytes, void **out, struct fr_err *err)
{
    struct fr_err said;

    *out = fr_cuda_alloc(self, n_bytes, &said);
    return *out ? FR_OK : fr_backend_refused(&said, err, "Unable to allocate %zu bytes to index with on the device", n_bytes);
}

/* Within fr_cuda_enter. */
static fr_status
launch(struct fr_cuda_device *d, int kind, int unit, struct fr_cuda_chosen *g, unsigned n_blocks, struct fr_err *err)
{
    char                        element[48], kinds[16];
    const char *const           defines[] = {element, kinds, NULL};
    const struct fr_cuda_source of = {"frit_chosen", write_chosen, defines, FR_OP_take, FR_U8};
    fr_cuda_function            f;
    fr_status                   st;

    snprintf(element, sizeof element, "-DELEMENT=%s", fr_cuda_unit_type(unit));
    snprintf(kinds, sizeof kinds, "-DKIND=%d", kind);
    if ((st = fr_cuda_code_get(codes[kind][__builtin_ctz((unsigned)unit)], &of, d, &f, err)) != FR_OK)
        return st;
    return fr_cuda_start(d, f, &(struct fr_cuda_grid){n_blocks, 1, 1, FR_CUDA_THREADS, 1}, 0, g, sizeof *g, "a launch for a mask", err);
}

/* Each of them leaves a word that the host reads. */
static int64_t
most_blocks(const struct fr_cuda_device *d)
{
    const int64_t most = (int64_t)d->n_multiprocessors * BLOCKS_EACH;

    return most < MOST_BLOCKS ? most : MOST_BLOCKS;
}

/* Into how many parts a mask is cut, and elements of each: the same whenever it is asked. */
static unsigned
cut(const struct fr_cuda_device *d, int64_t n, int64_t *span)
{
    const int64_t n_tiles = (n + FR_CUDA_CHOSEN_TILE - 1) / FR_CUDA_CHOSEN_TILE, n_blocks = fr_cuda_blocks(n_tiles, 1, most_blocks(d)), each = (n_tiles + n_blocks - 1) / n_blocks;

    *span = each * FR_CUDA_CHOSEN_TILE;
    return (unsigned)((n_tiles + each - 1) / each);
}

fr_status
fr_cuda_count_mask(const struct fr_backend *self, struct fr_mask *m, struct fr_err *err)
{
    struct fr_cuda_chosen  g = {.mask = (uint64_t)(uintptr_t)m->at, .n = m->n};
    int64_t                counts[MOST_BLOCKS];
    struct fr_cuda_device *d;
    unsigned               n_blocks;
    fr_status              st;

    m->count = 0;
    m->ranks = NULL;
    if (m->n == 0)
        return FR_OK;
    if ((st = fr_cuda_enter(self, &d, err)) != FR_OK)
        return st;
    n_blocks = cut(d, m->n, &g.span);
    m->ranks_bytes = n_blocks * sizeof(int64_t);
    TRY(fr_cuda_scratch(self, m->ranks_bytes, &m->ranks, err));
    g.counts = (uint64_t)(uintptr_t)m->ranks;
    TRY(launch(d, FR_CUDA_COUNT, 1, &g, n_blocks, err));
    TRY(fr_cuda_copy_out(self, counts, m->ranks, m->ranks_bytes, err));
    for (unsigned i = 0; i < n_blocks; i++)
        m->count += counts[i];
    fr_count_way(FR_WAY_device_chosen);
out:
    if (st != FR_OK) {
        fr_cuda_free(self, m->ranks, m->ranks_bytes);
        m->ranks = NULL;
    }
    fr_cuda_leave(d);
    return st;
}

/* Rows by the places of the mask: one thread for each unit. */
static fr_status
move_rows(const struct fr_backend *self, struct fr_cuda_device *d, bool puts, struct fr_cuda_chosen *g, int64_t n_blocks, int unit,
          int64_t n_units, struct fr_err *err)
{
    struct fr_cuda_chosen places = *g;
    const size_t          n_bytes = (size_t)g->count * sizeof(int64_t);
    void                 *place;
    fr_status             st = fr_cuda_scratch(self, n_bytes, &place, err);

    if (st != FR_OK)
        return st;
    places.out = g->place = (uint64_t)(uintptr_t)place;
    places.ndim = 1;
    g->n_units = n_units;
    g->n = g->count * n_units;
    if ((st = launch(d, FR_CUDA_PLACES, 1, &places, (unsigned)n_blocks, err)) == FR_OK)
        st = launch(d, puts ? FR_CUDA_SCATTER : FR_CUDA_GATHER, unit, g,
                    fr_cuda_blocks(g->n, FR_CUDA_THREADS, (int64_t)d->n_multiprocessors * BLOCKS_EACH), err);
    fr_cuda_free(self, place, n_bytes);
    return st;
}

fr_status
fr_cuda_move_chosen(const struct fr_backend *self, enum fr_chosen what, const struct fr_mask *m, size_t row, int ndim, const int64_t *dims,
                    const void *in, void *out, struct fr_err *err)
{
    static const int       kinds[] = {[FR_CHOSEN_GET] = FR_CUDA_COMPRESS, [FR_CHOSEN_PUT] = FR_CUDA_EXPAND, [FR_CHOSEN_PLACES] = FR_CUDA_PLACES};
    struct fr_cuda_chosen  g = {.mask = (uint64_t)(uintptr_t)m->at, .counts = (uint64_t)(uintptr_t)m->ranks,
                                .in = (uint64_t)(uintptr_t)in, .out = (uint64_t)(uintptr_t)out, .n = m->n, .count = m->count, .ndim = ndim};
    struct fr_cuda_device *d;
    const int              unit = what == FR_CHOSEN_PLACES ? 1 : fr_cuda_unit(row | g.in | g.out);
    unsigned               n_blocks;
    fr_status              st;

    if (m->count == 0 || (what != FR_CHOSEN_PLACES && row == 0))
        return FR_OK;
    for (int k = 0; k < ndim; k++)
        g.dims[k] = dims[k];
    if ((st = fr_cuda_enter(self, &d, err)) != FR_OK)
        return st;
    n_blocks = cut(d, m->n, &g.span);
    if (what == FR_CHOSEN_PLACES || (size_t)unit == row)
        st = launch(d, kinds[what], unit, &g, n_blocks, err);
    else
        st = move_rows(self, d, what == FR_CHOSEN_PUT, &g, n_blocks, unit, (int64_t)row / unit, err);
    fr_cuda_leave(d);
    return st;
}

/* Axes that go on as one are one. False: they are too many. */
static bool
fill_axes(struct fr_cuda_look *g, const struct fr_look *l)
{
    g->n = 1;
    g->n_axes = 0;
    for (int k = 0; k < l->n_axes; k++) {
        const int64_t n = l->dims[k], stride = l->strides[k], last = g->n_axes - 1;

        g->n *= n;
        if (n == 1)
            continue;
        if (last >= 0 && g->stride[last] == n * stride) {
            g->dims[last] *= n;
            g->stride[last] = stride;
            continue;
        }
        if (g->n_axes == FR_CUDA_LOOK_AXES)
            return false;
        g->dims[g->n_axes] = n;
        g->stride[g->n_axes++] = stride;
    }
    return true;
}

static fr_status
launch_look(struct fr_cuda_device *d, struct fr_cuda_look *g, fr_dtype dtype, unsigned n_blocks, struct fr_err *err)
{
    char                        index[32];
    const char *const           defines[] = {index, NULL};
    const struct fr_cuda_source of = {"frit_look", write_look, defines, FR_OP_take, dtype};
    fr_cuda_function            f;
    fr_status                   st;

    FR_ASSERT(fr_cuda_index_type(dtype));
    snprintf(index, sizeof index, "-DINDEX=%s", fr_cuda_index_type(dtype));
    if ((st = fr_cuda_code_get(look_codes[dtype], &of, d, &f, err)) != FR_OK)
        return st;
    return fr_cuda_start(d, f, &(struct fr_cuda_grid){n_blocks, 1, 1, FR_CUDA_THREADS, 1}, 0, g, sizeof *g, "a launch for indices", err);
}

fr_status
fr_cuda_look_at(const struct fr_backend *self, const struct fr_look *l, int n, int *which, int64_t *wrong, struct fr_err *err)
{
    struct fr_cuda_look    g = {.n = 0};
    int64_t                words[MOST_BLOCKS];
    struct fr_cuda_device *d;
    void                  *there = NULL;
    size_t                 n_bytes = 0;
    unsigned               n_blocks;
    fr_status              st;

    *wrong = -1;
    *which = 0;
    for (int k = 0; k < n; k++)
        if (!fill_axes(&g, &l[k]))
            return FR_ENOTSUP;
    if (g.n == 0)
        return FR_OK;
    if ((st = fr_cuda_enter(self, &d, err)) != FR_OK)
        return st;
    n_blocks = fr_cuda_blocks(g.n, EACH * FR_CUDA_THREADS, most_blocks(d) / n);
    n_bytes = (size_t)n * n_blocks * sizeof *words;
    TRY(fr_cuda_scratch(self, n_bytes, &there, err));
    for (int k = 0; k < n; k++) {
        g = (struct fr_cuda_look){.in = (uint64_t)(uintptr_t)l[k].at, .out = (uint64_t)(uintptr_t)l[k].out, .size = l[k].size, .scale = l[k].scale,
                                  .adds = l[k].adds, .is_strict = l[k].is_strict,
                                  .wrong = (uint64_t)(uintptr_t)there + (uint64_t)k * n_blocks * sizeof *words};
        fill_axes(&g, &l[k]);
        TRY(launch_look(d, &g, l[k].dtype, n_blocks, err));
    }
    TRY(fr_cuda_copy_out(self, words, there, n_bytes, err));
    for (int k = 0; k < n && *wrong < 0; *which = k++)
        for (unsigned i = 0; i < n_blocks; i++)
            if (words[(unsigned)k * n_blocks + i] < g.n && (*wrong < 0 || words[(unsigned)k * n_blocks + i] < *wrong))
                *wrong = words[(unsigned)k * n_blocks + i];
    fr_count_way(FR_WAY_device_chosen);
out:
    fr_cuda_free(self, there, n_bytes);
    fr_cuda_leave(d);
    return st;
}
