/* A way into runtime/spread.c for tests/test_placement.py: machines, groups and arrays as flat numbers. */
#include "runtime/spread.h"

#include <string.h>

/* backends/estimate.c asks for these where it is asked for figures, which is not done here. */
const struct fr_backend *fr_backend, fr_cuda_backends[FR_CUDA_DEVICES], fr_meta_backend;

enum { MACHINE = 7, LOAD = 4, VALUE = 4, MOST = 64 };

/* machine: launch_us, gbs, gops of plain, slow and costly operations, copy_us, copy_gbs. load: bytes, plain and
 * costly operations, bits of the devices that may. value: bytes, the load that makes it or -1, bits of devices,
 * whether it is shown. reads[load][value]. Fills on[n_loads] and us[n_devices + 1], the last of which is as chosen. */
void
spread(int n_devices, const double *machine, int n_loads, const double *load, int n_values, const double *value,
       const bool *reads, bool together, int *on, double *us)
{
    struct fr_machine m[FR_SPREAD_DEVICES];
    struct fr_load    l[MOST];
    struct fr_value   v[MOST];
    int               read[MOST * MOST], n = 0;
    double            ready[MOST];
    uint8_t           copied[MOST];
    struct fr_spread  z = {.n_devices = n_devices, .n_loads = n_loads, .n_values = n_values, .machine = m, .load = l,
                           .value = v, .reads = read, .together = together, .ready = ready, .copied = copied};

    for (int i = 0; i < n_devices; i++, machine += MACHINE)
        m[i] = (struct fr_machine){.launch_us = machine[0], .gbs = machine[1], .gops = {machine[2], machine[3], machine[4]}, .wide = 2,
                                   .copy_us = machine[5], .copy_gbs = machine[6]};
    for (int i = 0; i < n_loads; i++, load += LOAD) {
        l[i] = (struct fr_load){.work = {.bytes = load[0], .ops = {load[1], 0, load[2]}}, .may = (uint8_t)load[3],
                                .first = n, .makes = -1};
        for (int k = 0; k < n_values; k++)
            if (reads[i * n_values + k])
                read[n++] = k;
        l[i].n = n - l[i].first;
    }
    for (int i = 0; i < n_values; i++, value += VALUE) {
        v[i] = (struct fr_value){.bytes = value[0], .next = -1, .at = (uint8_t)value[2], .shown = value[3] != 0};
        if (value[1] >= 0) {
            v[i].next = l[(int)value[1]].makes;
            l[(int)value[1]].makes = i;
        }
    }
    fr_spread_over(&z);
    for (int i = 0; i < n_loads; i++)
        on[i] = l[i].on;
    memcpy(us, z.us, (size_t)n_devices * sizeof *us);
    us[n_devices] = z.us_spread;
}
