/* backends/cuda/device.h -- GPUs: of each its primary context, which torch, CuPy and JAX share, a stream of our own and a
 * pool of memory. All that frit does there is in that stream, one thing after the other, but for large copies (transfer.h).
 *
 * Each is opened when it is first wanted, not at import. */
#ifndef FR_BACKENDS_CUDA_DEVICE_H
#define FR_BACKENDS_CUDA_DEVICE_H

#include "backends/backend.h"
#include "backends/cuda/cublas.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/transfer.h"

struct fr_cuda_device {
    const struct fr_backend     *backend;
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
    struct fr_cublas cublas;
    fr_cuda_stream  recorder;             /* graph.c: in which runs are recorded; NULL: none was */
    struct fr_cuda_kept *kept, *all_kept; /* of the plan that runs, NULL if nothing is kept of it; of all plans */
    struct fr_cuda_staging staging;
};

/* Makes the context of the backend's device the calling thread's until fr_cuda_leave. FR_EDEVICE: there is none, and why. */
fr_status fr_cuda_enter(const struct fr_backend *, struct fr_cuda_device **out, struct fr_err *);
void      fr_cuda_leave(struct fr_cuda_device *);
/* The device, to be looked at; it is opened if it was not. NULL: there is none. */
const struct fr_cuda_device *fr_cuda_opened(const struct fr_backend *);
/* One of the numbers that the driver says of it. */
fr_status fr_cuda_attribute(const struct fr_cuda_device *, int which, int *out, struct fr_err *);
/* Waits until all that was begun is done. Ctrl-C does not end it: kernels are short. FR_EDEVICE: something failed there. */
fr_status fr_cuda_wait(struct fr_cuda_device *, struct fr_err *);
/* For memory that others compute with in streams of theirs, as struct fr_backend has it. */
fr_status fr_cuda_order(const struct fr_backend *, uint64_t stream, bool ours_first, struct fr_err *);
uint64_t  fr_cuda_stream_of(const struct fr_backend *);
/* The device in whose memory an address is, by its number among them. FR_EVALUE: it is in none's. */
fr_status fr_cuda_at(uint64_t address, int *ordinal, struct fr_err *);
/* Whether it has been opened; the number of devices that there are. */
bool      fr_cuda_is_open(const struct fr_backend *);
int       fr_cuda_count(void);
/* Gives the streams, the pools and the contexts back, if there are any. */
void      fr_cuda_close(void);

/* backend.c: finds where the libraries are, once, in Python's turn; the end of all that is kept of devices. */
void      fr_cuda_look(void);
void      fr_cuda_stop(void);

/* figures.c, as struct fr_backend has them. */
fr_status fr_cuda_figures(const struct fr_backend *, struct fr_machine *, struct fr_err *);
bool      fr_cuda_differs(const struct fr_gnode *);

/* memory.c, as struct fr_backend has them. */
void     *fr_cuda_alloc(const struct fr_backend *, size_t n_bytes, struct fr_err *);
/* Of the driver's pool, within fr_cuda_enter: what it says. When memory is out, what the stream still holds comes back, and what the pool
 * keeps, before another try. *address is 0 where there is none. */
int       fr_cuda_alloc_there(struct fr_cuda_device *, size_t n_bytes, uint64_t *address);
void      fr_cuda_free(const struct fr_backend *, void *, size_t n_bytes);
void      fr_cuda_memory_stats(const struct fr_backend *, struct fr_memory_stats *);
void      fr_cuda_memory_reset_peak(const struct fr_backend *);
void      fr_cuda_memory_trim(const struct fr_backend *);
fr_status fr_cuda_copy_in(const struct fr_backend *, void *to, const void *host, size_t n_bytes, struct fr_err *);
fr_status fr_cuda_copy_out(const struct fr_backend *, void *host, const void *from, size_t n_bytes, struct fr_err *);
fr_status fr_cuda_mark(const struct fr_backend *, struct fr_err *);
fr_status fr_cuda_copy_in_beside(const struct fr_backend *, void *to, const void *host, size_t n_bytes, struct fr_err *);
fr_status fr_cuda_copy_out_beside(const struct fr_backend *, void *host, const void *from, size_t n_bytes, struct fr_err *);
size_t    fr_cuda_room(const struct fr_backend *, size_t wanted);
fr_status fr_cuda_copy(const struct fr_backend *, void *to, const void *from, size_t n_bytes, struct fr_err *);

#endif
