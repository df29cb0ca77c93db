/* backends/cuda/cublas.h -- NVIDIA's cuBLAS, looked up at run time and never linked: products of floats whose operands lie as
 * BLAS takes them. Where it is not there, kernels of our own run them (product.c).
 *
 * FRIT_CUBLAS_LIB names it; else it is looked for in NVIDIA's Python packages (nvidia-cublas), then where the dynamic linker
 * does. It is opened when the first product wants it. */
#ifndef FR_BACKENDS_CUDA_CUBLAS_H
#define FR_BACKENDS_CUDA_CUBLAS_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cuda/driver.h"
#include "core/dtype.h"

typedef struct fr_cublas_handle_of *fr_cublas_handle;

/* Of a device. */
struct fr_cublas {
    fr_cublas_handle handle;        /* NULL: not made yet, */
    bool             is_refused;    /* or never, for this device */
    uint64_t         workspace;     /* its address; 0: none yet */
    fr_cuda_stream   stream;        /* that the handle has */
};

struct fr_cuda_device;
struct fr_cuda_product;

/* Has it looked for, by the thread that imports us. */
void      fr_cublas_configure(void);
/* `count` products, one after the other in the device's stream; within fr_cuda_enter, in the runtime's turn. FR_ENOTSUP: there
 * is no cuBLAS, or it does not take these, and nothing was begun. FR_ENOMEM, FR_EDEVICE. */
fr_status fr_cublas_run(struct fr_cuda_device *, fr_dtype, const struct fr_cuda_product *, int64_t count, struct fr_err *);
/* Gives the handle and the workspace back; the device's context is current. */
void      fr_cublas_close(struct fr_cuda_device *);

#endif
