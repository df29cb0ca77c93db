/* base/processors.h -- the processors that this process may use. */
#ifndef FR_BASE_PROCESSORS_H
#define FR_BASE_PROCESSORS_H

/* As many as affinity and cgroup allow, 1 at least. Reads files: not to be asked often. */
int fr_processors(void);

#endif
