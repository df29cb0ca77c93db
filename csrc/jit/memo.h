/* jit/memo.h -- the cache remembers which compiler its entries were made with, so that they can be
 * looked up without starting a helper. Called by jit/compile_job.c. */
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

#endif
