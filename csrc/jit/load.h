/* jit/load.h -- verified bytes of a shared object to callable code.  Called by jit/compile_job.c, on the manager thread. */
#ifndef FR_JIT_LOAD_H
#define FR_JIT_LOAD_H

#include "base/status.h"
#include "jit/loop.h"

/* Whether `bytes` are an object as frit-cc makes them: nothing that would run by being loaded, no
 * memory both writable and executable, no libraries but libc and libm. FR_EBUG says what is wrong.
 */
fr_status fr_load_check(const void *bytes, size_t n, struct fr_err *);

/* An object with the code of one kernel or more, in memory once however often it is asked for. */
struct fr_object;
/* Checks and loads. FR_EBUG: these bytes are no good; else there was no room for them. */
fr_status fr_object_get(const void *bytes, size_t n, struct fr_object **out, struct fr_err *);
/* The last one unloads it. NULL is fine. */
void      fr_object_unref(struct fr_object *);
/* Looks the kernel of this name up (fr_key_name): code that lives as long as the object. n_stages tells where the
 * table of stages is cut. */
fr_status fr_object_find(const struct fr_object *, const char *name, int n_stages, struct fr_nest_code *out,
                         struct fr_err *);

#endif
