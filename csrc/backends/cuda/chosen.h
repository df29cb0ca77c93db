/* backends/cuda/chosen.h -- what masks and indices choose on the device: struct fr_chooser of backends/backend.h. */
#ifndef FR_BACKENDS_CUDA_CHOSEN_H
#define FR_BACKENDS_CUDA_CHOSEN_H

#include "backends/cuda/kernel.h"

/* chosen.c */
fr_status fr_cuda_count_mask(const struct fr_backend *, struct fr_mask *, struct fr_err *);
fr_status fr_cuda_move_chosen(const struct fr_backend *, enum fr_chosen, const struct fr_mask *, size_t row, int ndim, const int64_t *dims,
                              const void *in, void *out, struct fr_err *);
fr_status fr_cuda_look_at(const struct fr_backend *, const struct fr_look *, int n, int *which, int64_t *wrong, struct fr_err *);
/* The largest type that all of these are multiples of, up to 16: its size, and its name in CUDA C. */
int         fr_cuda_unit(uint64_t all);
const char *fr_cuda_unit_type(int size);
/* The name of a dtype of indices; NULL: it is none. */
const char *fr_cuda_index_type(fr_dtype);
/* Writes a text that is one already; for struct fr_cuda_source. */
fr_status   fr_cuda_write_text(struct fr_text *, const char *, struct fr_err *);
/* Memory of the device for what kernels need beside operands; fr_cuda_free. */
fr_status   fr_cuda_scratch(const struct fr_backend *, size_t n_bytes, void **out, struct fr_err *);

/* scatter.c */
fr_status fr_cuda_scatter_rows(const struct fr_backend *, const struct fr_scatter *, struct fr_err *);

#endif
