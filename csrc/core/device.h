/* core/device.h -- devices by number: the host, and GPUs in the order of their driver. */
#ifndef FR_CORE_DEVICE_H
#define FR_CORE_DEVICE_H

#include <stdint.h>

typedef uint8_t fr_device;

/* ANY: memory of NumPy's, and numbers: they go wherever the others are that they are computed with.
 * AUTO: where it takes least time, which is found out when it is computed (runtime/place.h); memory is where it was
 * computed. Whoever does not ask finds the host there, which reads memory of any device. */
enum { FR_DEVICE_ANY, FR_DEVICE_HOST, FR_DEVICE_AUTO, FR_DEVICE_CUDA, FR_CUDA_DEVICES = 16,
       FR_N_DEVICES = FR_DEVICE_CUDA + FR_CUDA_DEVICES };

#endif
