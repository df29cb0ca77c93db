/* jit/emit_gcc.h -- nests as a shared object, through libgccjit. Part of the helper program. */
#ifndef FR_JIT_EMIT_GCC_H
#define FR_JIT_EMIT_GCC_H

#include "base/status.h"
#include "jit/cc/gccjit.h"
#include "jit/loop.h"

/* A nest, and what the functions of its code are called: frit_rows_<name>, frit_stages_<name>. */
struct fr_named_nest {
    struct fr_nest *nest;
    const char     *name;
};

/* Compiles `n` nests with the gcc -m options `features` (NULL-terminated) into a new file at
 * `path`: the first one, and of the others those that want the same options. FR_ENOTSUP when one
 * has no machine code, FR_EOS when the compiler failed. */
fr_status fr_emit_gcc(const struct fr_gccjit *, const struct fr_named_nest *, int n,
                      const char *const *features, const char *path, struct fr_err *);

#endif
