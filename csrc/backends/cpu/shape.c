/* backends/cpu/shape.c -- how an instance runs, as far as its nest and its sizes say. launch.c switches on it: only
 * threads and the executor are chosen when it runs. */
#include "backends/cpu/space.h"

enum { LONG_ROW = 16384 }; /* elements; shorter rows are not cut */

static enum fr_shape
shape_of(const struct fr_exec *e, const struct fr_instance *in)
{
    struct fr_bound b;

    if (fr_instance_is_empty(in) && !fr_nest_computes_of_nothing(e->kernel->nest))
        return FR_SHAPE_NOTHING;
    if (in->n_packed)
        return in->joined ? FR_SHAPE_JOINED : FR_SHAPE_TILES;
    if (e->program->accumulates || e->program->streams) {
        fr_space_bind(&b, e, in);
        return fr_stream_is_abreast(&b) ? FR_SHAPE_ABREAST : FR_SHAPE_ACCUM;
    }
    if (e->program->may_cut_stages && in->n_inner >= LONG_ROW)
        return FR_SHAPE_LONG;
    return in->n_outer == 0 ? FR_SHAPE_CALL : FR_SHAPE_ROWS;
}

void
fr_cpu_bind(const struct fr_kernel *k, struct fr_instance *in, int n, bool is_later)
{
    const struct fr_exec e = {.program = ((const struct fr_cpu_kernel *)k)->program, .kernel = k};

    (void)is_later;
    for (int i = 0; i < n; i++) {
        in[i].shape = (uint8_t)shape_of(&e, &in[i]);
        in[i].ps = fr_expect_instance(k, &in[i]);
    }
}
