/* backends/ref/ref.h -- the reference executor: element by element, one thread, no cleverness.
 *
 * Every other executor is judged by it.  Called by backends/ref/backend.c, by backends/cpu/launch.c for what
 * has no block kernels, and by tests. */
#ifndef FR_BACKENDS_REF_REF_H
#define FR_BACKENDS_REF_REF_H

#include "backends/backend.h"
#include "jit/micro.h"

/* Runs one instance of a nest. FR_ENOMEM; FR_ENOTSUP for an operation without a recipe. */
fr_status fr_ref_launch(const struct fr_nest *, const struct fr_instance *, struct fr_err *);

/* Interprets micro code for one element: values[i] becomes the bits of instruction i, zero above the
 * width of its type. inputs[k] is what INPUT k reads. */
void      fr_micro_eval(const struct fr_mcode *, const uint64_t *inputs, uint64_t *values);

#endif
