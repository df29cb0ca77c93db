/* jit/exec.h -- memory for machine code: many blocks in few mappings.  Called by jit/load.c, on the manager thread.
 *
 * Code is written through a second view of its memory, which is accessible for that time only: no address is both
 * writable and executable. */
#ifndef FR_JIT_EXEC_H
#define FR_JIT_EXEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct fr_exec_block {
    struct fr_exec_region *region;
    struct fr_exec_block  *next;   /* the one behind it */
    size_t                 at, n;  /* in the region */
    const char            *code;   /* executable; NULL: given back, but a child of fork may have it */
    unsigned               n_forks; /* before it was taken */
};

/* At least n bytes that begin at a multiple of `align`, a power of two up to FR_EXEC_ALIGN_MAX. FR_ENOMEM; FR_EOS, also
 * where mappings would become scarce for the rest of the process. */
enum { FR_EXEC_ALIGN_MAX = 65536 };
fr_status fr_exec_take(size_t n, size_t align, struct fr_exec_block **out, struct fr_err *);
/* The block as memory to write, until fr_exec_close, after which its code may be called. NULL: the system refuses. */
char     *fr_exec_open(struct fr_exec_block *);
void      fr_exec_close(struct fr_exec_block *);
/* Nothing runs the code any more. NULL is fine. */
void      fr_exec_give(struct fr_exec_block *);

/* Called in both processes after a fork: what is taken now is theirs together. */
void      fr_exec_forked(void);

/* Bytes in blocks, and mappings. */
void      fr_exec_stats(uint64_t *n_bytes, uint64_t *n_maps);

#endif
