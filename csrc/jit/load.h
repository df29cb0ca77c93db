/* jit/load.h -- verified bytes of a shared object to callable code. */
#ifndef FR_JIT_LOAD_H
#define FR_JIT_LOAD_H

#include "base/status.h"
#include "jit/loop.h"

/* Whether `bytes` are an object as frit-cc makes them: nothing that would run by being loaded, no
 * memory both writable and executable, no libraries but libc and libm. FR_EBUG says what is wrong.
 */
fr_status fr_load_check(const void *bytes, size_t n, struct fr_err *);

/* Checks and loads, and looks the kernel of this name up (fr_key_name). *out lives until the
 * process ends; the caller frees the struct, never the code. n_stages tells where the table of
 * stages is cut. */
fr_status fr_load_code(const void *bytes, size_t n, const char *name, int n_stages,
                       struct fr_nest_code *out, struct fr_err *);

#endif
