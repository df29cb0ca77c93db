/* backends/cuda/driver.h -- NVIDIA's driver, looked up at run time: its functions as a table.
 *
 * Nothing of it is linked or opened before a device is wanted. FRIT_CUDA_LIB names another library in place of
 * libcuda.so.1: the tests have one that needs no GPU. */
#ifndef FR_BACKENDS_CUDA_DRIVER_H
#define FR_BACKENDS_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct fr_cuda_context_of  *fr_cuda_context;
typedef struct fr_cuda_stream_of   *fr_cuda_stream;
typedef struct fr_cuda_pool_of     *fr_cuda_pool;
typedef struct fr_cuda_event_of    *fr_cuda_event;
typedef struct fr_cuda_module_of   *fr_cuda_module;
typedef struct fr_cuda_function_of *fr_cuda_function;
typedef struct fr_cuda_graph_of    *fr_cuda_graph;
typedef struct fr_cuda_node_of     *fr_cuda_node;
typedef struct fr_cuda_executable_of *fr_cuda_executable;    /* of a graph */

/* CUmemPoolProps. */
struct fr_cuda_pool_properties {
    int           kind;             /* of allocation: 1, pinned to a device */
    int           handles;          /* for other processes: 0, none */
    int           place;            /* 1: a device, */
    int           ordinal;          /* and which */
    void         *windows_security;
    size_t        max_size;
    unsigned short usage;
    unsigned char reserved[54];
};

/* CUDA_KERNEL_NODE_PARAMS of CUDA 12. */
struct fr_cuda_kernel_node {
    fr_cuda_function function;
    unsigned         grid[3], block[3], shared_bytes;
    void           **arguments, **extra;
    void            *of_library;
    fr_cuda_context  context;
};

/* Results, attributes and flags of the driver that are used here, by their names there. */
enum { FR_CUDA_OK = 0, FR_CUDA_OUT_OF_MEMORY = 2, FR_CUDA_UNKNOWN = 999 };
enum { FR_CUDA_CLOCK_KHZ = 13, FR_CUDA_MULTIPROCESSORS = 16, FR_CUDA_MEMORY_KHZ = 36, FR_CUDA_BUS_BITS = 37,
       FR_CUDA_SINGLE_TO_DOUBLE = 87, FR_CUDA_MAJOR = 75, FR_CUDA_MINOR = 76,
       FR_CUDA_SHARED_OPTIN = 97, FR_CUDA_HAS_POOLS = 115 };
enum { FR_CUDA_STATIC_SHARED = 1, FR_CUDA_DYNAMIC_SHARED = 8 };  /* attributes of a function */
enum { FR_CUDA_POOL_KEEPS = 4, FR_CUDA_POOL_HAS = 5, FR_CUDA_POOL_USES = 7 };
enum { FR_CUDA_NON_BLOCKING = 1 };
enum { FR_CUDA_CAPTURE_RELAXED = 2, FR_CUDA_CAPTURES = 1 };    /* how, and whether, a stream is captured */
enum { FR_CUDA_EVENT_UNTIMED = 2 };
enum { FR_CUDA_POINTER_ORDINAL = 9 };                          /* attribute of an address */
enum { FR_CUDA_ERROR_LOG = 5, FR_CUDA_ERROR_LOG_BYTES = 6 };   /* options of module_load */

struct fr_cuda_driver {
#define DRIVER(field, name, arguments) int (*field) arguments;
#include "backends/cuda/driver.def"
};

/* The table; NULL and FR_EDEVICE if there is no driver, it is too old, or this process is the child of one that had
 * begun to use it. On any thread, one at a time. */
fr_status fr_cuda_driver(const struct fr_cuda_driver **out, struct fr_err *);
/* Whether a driver is installed; it is not begun. */
bool      fr_cuda_is_there(void);
/* FR_OK if it is, else what the driver says of it; `what` was done. FR_ENOMEM where memory is out, else FR_EDEVICE. */
fr_status fr_cuda_check(int result, const char *what, struct fr_err *);
/* Where the library is that was opened, or "". */
const char *fr_cuda_driver_path(void);

#endif
