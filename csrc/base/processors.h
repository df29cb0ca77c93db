/* base/processors.h -- the processors that this process may use, and their cache. */
#ifndef FR_BASE_PROCESSORS_H
#define FR_BASE_PROCESSORS_H

#include <stdint.h>

/* As many as affinity and cgroup allow, 1 at least. Reads files: not to be asked often. */
int fr_processors(void);

/* Bytes of the last cache before memory that one of them has, alone or with others; INT64_MAX where the system does not
 * say. Files are read at the first call only, and not where FRIT_LAST_CACHE says it. */
int64_t fr_last_cache(void);

#endif
