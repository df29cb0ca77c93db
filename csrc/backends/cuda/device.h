/* backends/cuda/device.h -- the GPU in use: its primary context, which torch, CuPy and JAX share, a stream of our own and a
 * pool of memory. All that frit does there is in that stream, one thing after the other.
 *
 * Opened when it is first wanted, not at import. */
#ifndef FR_BACKENDS_CUDA_DEVICE_H
#define FR_BACKENDS_CUDA_DEVICE_H

#include "backends/cuda/driver.h"

struct fr_cuda_device {
    const struct fr_cuda_driver *driver;
    int             ordinal, handle;
    int             arch;                 /* 90: compute capability 9.0 */
    int             n_multiprocessors;
    int             shared_bytes;         /* that a block may have, if its kernel asks for so much */
    char            name[80];
    size_t          n_bytes;              /* of its memory */
    fr_cuda_context context;
    fr_cuda_stream  stream;
    fr_cuda_pool    pool;
};

/* Makes the device's context the calling thread's until fr_cuda_leave. FR_EDEVICE: there is none, and why. */
fr_status fr_cuda_enter(struct fr_cuda_device **out, struct fr_err *);
void      fr_cuda_leave(struct fr_cuda_device *);
/* Waits until all that was begun is done. Ctrl-C does not end it: kernels are short. FR_EDEVICE: something failed there. */
fr_status fr_cuda_wait(struct fr_cuda_device *, struct fr_err *);
/* Gives the stream, the pool and the context back, if there are any. */
void      fr_cuda_close(void);

/* memory.c, as struct fr_backend has them. */
struct fr_memory_stats;
void     *fr_cuda_alloc(size_t n_bytes, struct fr_err *);
void      fr_cuda_free(void *, size_t n_bytes);
void      fr_cuda_memory_stats(struct fr_memory_stats *);
void      fr_cuda_memory_reset_peak(void);
void      fr_cuda_memory_trim(void);
fr_status fr_cuda_copy_in(void *to, const void *host, size_t n_bytes, struct fr_err *);
fr_status fr_cuda_copy_out(void *host, const void *from, size_t n_bytes, struct fr_err *);
fr_status fr_cuda_copy(void *to, const void *from, size_t n_bytes, struct fr_err *);

#endif
