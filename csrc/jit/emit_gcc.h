/* jit/emit_gcc.h -- a nest as a shared object, through libgccjit. Part of the helper program. */
#ifndef FR_JIT_EMIT_GCC_H
#define FR_JIT_EMIT_GCC_H

#include "base/status.h"
#include "jit/cc/gccjit.h"
#include "jit/loop.h"

/* Compiles `nest` with the gcc -m options `features` (NULL-terminated) into a new file at `path`.
 * FR_ENOTSUP when the nest has no machine code (it stays with the interpreter), FR_EOS when the
 * compiler failed. */
fr_status fr_emit_gcc(const struct fr_gccjit *, const struct fr_nest *,
                      const char *const *features, const char *path, struct fr_err *);

#endif
