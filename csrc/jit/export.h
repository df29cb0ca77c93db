/* jit/export.h -- the kernels of the cache on disk as one piece of bytes, for machines that have no compiler.  Called by
 * bind/tensor/engine.c for frit.cache, which reads and writes the file.
 *
 * An export is of one build of frit: of its helper program, by its digest. It has a digest for the code of each kernel,
 * and one of the whole: they find damage, and do not say who wrote it. Cubins of a GPU are not in it. */
#ifndef FR_JIT_EXPORT_H
#define FR_JIT_EXPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* All kernels of this build that are on disk, as bytes for the caller to fr_free. The version is that of frit, for
 * messages. FR_EOS: there is no cache on disk. */
fr_status fr_export_make(const char *version, void **bytes, size_t *n, uint64_t *n_kernels, struct fr_err *);
/* Checks all of it, and then puts the kernels that run on this processor into the cache, or where there is none into the
 * memory of this process. They are found from then on, whatever compiler this machine has.
 * FR_EFOREIGN: these bytes are no export; FR_ECORRUPT: they are not as they were written; FR_EUNFIT: they are another
 * build's, another architecture's, or all kernels need a feature that is not in use here. Then nothing has changed. */
fr_status fr_export_take(const void *bytes, size_t n, const char *version, uint64_t *n_taken, struct fr_err *);

#endif
