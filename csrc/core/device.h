/* core/device.h -- devices by number: the host, GPUs in the order of their driver, and one that has no data. */
#ifndef FR_CORE_DEVICE_H
#define FR_CORE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t fr_device;

/* ANY: memory of NumPy's, and numbers: they go wherever the others are that they are computed with.
 * AUTO: where it takes least time, which is found out when it is computed (runtime/place.h); memory is where it was
 * computed. Whoever does not ask finds the host there, which reads memory of any device.
 * META: arrays without data. What is computed there is planned as on the host, and counted (backends/meta/). */
enum { FR_DEVICE_ANY, FR_DEVICE_HOST, FR_DEVICE_AUTO, FR_DEVICE_CUDA, FR_CUDA_DEVICES = 16,
       FR_DEVICE_META = FR_DEVICE_CUDA + FR_CUDA_DEVICES, FR_N_DEVICES };

static inline bool
fr_device_is_cuda(fr_device d)
{
    return d >= FR_DEVICE_CUDA && d < FR_DEVICE_META;
}

#endif
