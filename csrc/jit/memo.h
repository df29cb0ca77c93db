/* jit/memo.h -- the cache remembers which compilers its entries were made with, so that they can be
 * looked up without starting a helper. Called by jit/compile_job.c and jit/export.c. */
#ifndef FR_JIT_MEMO_H
#define FR_JIT_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jit/key.h"

/* The digest of the compiler that the helper program of `maker` found last; false when there is no
 * memo, or the compiler has changed since. */
bool fr_memo_read(const struct fr_key_maker *, uint8_t *digest);
/* Remembers `maker`'s compiler, which lies at `path`, `n` bytes without a NUL. */
void fr_memo_write(const struct fr_key_maker *, const char *path, size_t n);

/* Where entries come from that were compiled elsewhere and loaded (jit/export.h); of more than so many places, the last. */
enum { FR_MEMO_ORIGINS = 8 };
/* Those for the helper program of `maker`, the last one first; how many. */
int       fr_memo_origins(const struct fr_key_maker *, struct fr_key_origin out[FR_MEMO_ORIGINS]);
/* Adds one. */
fr_status fr_memo_add_origin(const struct fr_key_origin *, struct fr_err *);

#endif
