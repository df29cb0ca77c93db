/* backends/meta/meta.h -- arrays without data: what is computed with them is planned as on the host, allocated in a memory that
 * is only counted, and not run. So an estimate goes the way of a run, and has its bytes.
 *
 * An address of such memory is given out once and never again; nobody may read or write there. Of some of it values are known all
 * the same: of arguments, until something is stored over them, and of what somebody has told. Called in the runtime's turn. */
#ifndef FR_BACKENDS_META_META_H
#define FR_BACKENDS_META_META_H

#include <stdbool.h>
#include <stddef.h>

#include "backends/backend.h"

/* From here on until the end, what is allocated counts together with the host's memory, as it would if it were there: *peak_bytes
 * and *live_bytes, at most and in the end, beside what was in use at the beginning. */
void      fr_meta_begin(void);
void      fr_meta_end(int64_t *peak_bytes, int64_t *live_bytes);
/* Addresses of so many bytes, which do not count as allocated. NULL: nobody has so much. */
void     *fr_meta_reserve(size_t n_bytes);
/* What is at an address of its memory: a copy of these bytes, or where they are, as long as that lasts. FR_ENOMEM */
fr_status fr_meta_know(const void *at, const void *bytes, size_t n_bytes, bool is_copied, struct fr_err *);
/* Of nothing in this range values are known any more. */
void      fr_meta_forget(const void *at, size_t n_bytes);
/* Where they are, of all of it, until somebody forgets; NULL: they are not. Memory of the host's is where it is. */
const void *fr_meta_known(const void *at, size_t n_bytes);

/* chosen.c: what masks and indices choose, where they are known. Else a mask is taken to choose all, and an index to be right, though
 * perhaps negative. */
extern FR_HIDDEN const struct fr_chooser fr_meta_chooser;

#endif
