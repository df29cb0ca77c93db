/* jit/cache.h -- machine code on disk, one file per kernel.  fr_cache_info and fr_cache_clear are
 * declared in jit/compile.h.
 *
 * Nothing that comes out of here was altered since this user's frit wrote it: each file is sealed
 * with a keyed digest, and the directory belongs to the user alone. What looks odd is not used:
 * then code lives in memory only, and one warning says why. */
#ifndef FR_JIT_CACHE_H
#define FR_JIT_CACHE_H

#include "base/status.h"
#include "jit/key.h"

/* Decides where the cache is, from fr_env and the environment: by the thread that imports us. */
void      fr_cache_configure(void);
/* Called in a forked child, before anything else of this header. */
void      fr_cache_after_fork(void);

/* The bytes under `key`, for the caller to fr_free. FR_EINDEX when there are none, FR_EBUG when
 * they are not as they were written (the file is then removed). `origin` may be NULL. */
fr_status fr_cache_get(const struct fr_key *, struct fr_key_origin *origin, void **bytes, size_t *n, struct fr_err *);
/* Removes what `key` names: its contents turned out to be unusable. */
void      fr_cache_drop(const struct fr_key *);
/* Failure costs nothing but the entry. The origin is NULL for what is no kernel of frit-cc's. */
fr_status fr_cache_put(const struct fr_key *, const struct fr_key_origin *, const void *bytes, size_t n, struct fr_err *);
/* The same for what this process was given: where there is no directory, it is kept in memory. */
fr_status fr_cache_hold(const struct fr_key *, const struct fr_key_origin *, const void *bytes, size_t n, struct fr_err *);
/* The keys of all entries on disk, the longest unused first, for the caller to fr_free. FR_EOS: there is no directory. */
fr_status fr_cache_keys(struct fr_key **, size_t *n, struct fr_err *);

#endif
