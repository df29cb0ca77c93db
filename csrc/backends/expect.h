/* backends/expect.h -- how long work is expected to take one thread of the host, in picoseconds, before a clock has been asked.
 *
 * By what a nest does (jit/work.h) and figures that are typical of processors, for what needs no better ones: whether threads,
 * a compiler or Python's lock are worth their price. Where runs are timed, backends/cpu/cost.c corrects it. */
#ifndef FR_BACKENDS_EXPECT_H
#define FR_BACKENDS_EXPECT_H

#include "backends/backend.h"

static inline int64_t
fr_expect_saturate(double ps)
{
    return ps < 9e18 ? (int64_t)ps : INT64_MAX;
}

/* What an element and a row of the kernel's nest take, as the block interpreter runs them: fills in its element_ps and row_ps.
 * FR_ENOMEM */
fr_status fr_expect_kernel(struct fr_kernel *, struct fr_err *);
/* One row of an instance, as long as what runs sees it; the instance; a step that is none; so many bytes from here to there. */
int64_t   fr_expect_row(const struct fr_kernel *, const struct fr_instance *);
int64_t   fr_expect_instance(const struct fr_kernel *, const struct fr_instance *);
int64_t   fr_expect_scan(fr_dtype, const struct fr_instance *);
int64_t   fr_expect_call(const struct fr_call *);
int64_t   fr_expect_copy(int64_t n_bytes);

#endif
