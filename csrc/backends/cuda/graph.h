/* backends/cuda/graph.h -- all that is begun on a device passes here; what is begun again and again goes as one graph.
 *
 * The first time the steps of a plan are begun one by one, the second time they are recorded (the driver calls that capture), and
 * from then on the recording is compared with what is asked for: kernels whose arguments have changed get new ones in it, and all is
 * begun by one call. What does not fit is recorded anew. Several recordings are kept, by the memory that they work with, for a library's
 * work cannot be given other addresses, and the memory of a loop's turns comes back after a few of them. */
#ifndef FR_BACKENDS_CUDA_GRAPH_H
#define FR_BACKENDS_CUDA_GRAPH_H

#include "backends/cuda/device.h"

struct fr_cuda_grid {
    unsigned x, y, z, block_x, block_y;
};

/* The rest of this: within fr_cuda_enter, in the runtime's turn. */

/* A function with its one argument, of so many bytes. `what` is said when the driver refuses. */
fr_status fr_cuda_start(struct fr_cuda_device *, fr_cuda_function, const struct fr_cuda_grid *, unsigned shared, const void *argument,
                        size_t n_bytes, const char *what, struct fr_err *);
/* A copy on the device. */
fr_status fr_cuda_start_copy(struct fr_cuda_device *, uint64_t to, uint64_t from, size_t n_bytes, struct fr_err *);
/* Work of a library, which these bytes describe. False: nothing is to be begun, as it is recorded; true: it is, in this stream. */
bool      fr_cuda_start_other(struct fr_cuda_device *, const void *of, size_t n_bytes, fr_cuda_stream *in);
/* Bytes of the host, of two pieces, for a kernel that is begun next: where they are on the device. fr_cuda_given when that has been
 * done. */
struct fr_cuda_gift {
    const void *of[2];
    size_t      n_bytes[2];
    char       *there;
    bool        stays;
};
fr_status fr_cuda_give(struct fr_cuda_device *, struct fr_cuda_gift *, struct fr_err *);
void      fr_cuda_given(struct fr_cuda_device *, const struct fr_cuda_gift *);
/* Before what no graph can do: to wait, or to have memory that was not planned. FR_EAGAIN: the runtime will begin all again, and that
 * will not be recorded. */
fr_status fr_cuda_needs_host(struct fr_cuda_device *, struct fr_err *);

/* struct fr_recorder of backends/backend.h; and the end of all recordings of a device, in its context. */
extern const struct fr_recorder fr_cuda_recorder;
void      fr_cuda_graphs_close(struct fr_cuda_device *);

#endif
