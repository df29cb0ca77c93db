/* backends/cuda/schedule.c -- a lowered group as the device runs it best. */
#include "backends/cuda/kernel.h"

#include "base/arena.h"

enum { SHORT_ROW = 256, LONG_ROW = 1024, ROWS_EACH = 32 };  /* elements; rows for each multiprocessor */

bool
fr_cuda_has_warp_rows(int64_t n_rows, int64_t n_inner, int n_multiprocessors)
{
    return n_inner <= SHORT_ROW || (n_inner <= LONG_ROW && n_rows >= (int64_t)ROWS_EACH * n_multiprocessors);
}

fr_status
fr_cuda_schedule(const struct fr_lowered *from, bool otherwise, struct fr_arena *arena, struct fr_lowered **out, bool *close,
                 struct fr_err *err)
{
    struct fr_lowered *l = fr_arena_room(arena, sizeof *l);

    (void)otherwise;
    if (!l)
        return fr_no_memory(err, "a kernel");
    *l = *from;
    *close = false;
    *out = l;
    if (l->nest.n_stages < 2 || fr_nest_accumulates(&l->nest))
        return FR_OK;
    l->nest.flags |= FR_NEST_ROWBUF | FR_NEST_KEEPS_LOADS;
    if (fr_cuda_row_bytes(&l->nest, l->n_inner) > FR_CUDA_ROW_BYTES)
        l->nest.flags &= (uint8_t)~(FR_NEST_ROWBUF | FR_NEST_KEEPS_LOADS);
    FR_ASSERT(fr_nest_verify(&l->nest, NULL) == FR_OK);
    return FR_OK;
}
