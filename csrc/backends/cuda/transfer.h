/* backends/cuda/transfer.h -- large copies between the host's memory and a device's, by way of pinned memory.
 * Called by memory.c, and device.c at the end. */
#ifndef FR_BACKENDS_CUDA_TRANSFER_H
#define FR_BACKENDS_CUDA_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>

#include "backends/cuda/driver.h"

struct fr_cuda_device;

/* What these copies have of a device. It is made for the first of them, and again after it was freed. */
struct fr_cuda_staging {
    char          *half[2];       /* pinned, of so many bytes; NULL: none of this is there */
    size_t         n_bytes;
    bool           is_busy[2];    /* a copy may be reading or writing it until this comes to pass: */
    fr_cuda_event  done[2];
    fr_cuda_event  before, mark;  /* what copies wait for; those beside kernels, */
    bool           is_marked;     /* if it has been recorded */
    fr_cuda_stream in, out;
};

/* Within fr_cuda_enter, on any thread. FR_ENOTSUP where nothing has been done, and the caller has the driver copy: it
 * is better off so, or there is no pinned memory. `beside`: they wait for what came before the mark alone. */
fr_status fr_cuda_bring_in(struct fr_cuda_device *, void *to, const void *host, size_t n_bytes, bool beside,
                           struct fr_err *);
fr_status fr_cuda_bring_out(struct fr_cuda_device *, void *host, const void *from, size_t n_bytes, bool beside,
                            struct fr_err *);
/* What has been begun there so far. */
fr_status fr_cuda_set_mark(struct fr_cuda_device *, struct fr_err *);
/* Waits for the copies, and gives all of it back. */
void      fr_cuda_staging_free(struct fr_cuda_device *);

#endif
