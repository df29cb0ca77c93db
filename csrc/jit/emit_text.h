/* jit/emit_text.h -- micro code as text: C11 and CUDA C, which differ only in what surrounds them.
 *
 * Called by emit_nest.c (whole nests, for users, tests and NVRTC) and by gen/main.c (the block
 * kernels, at build time).  Text does not depend on the locale. */
#ifndef FR_JIT_EMIT_TEXT_H
#define FR_JIT_EMIT_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "jit/loop.h"
#include "jit/micro.h"

enum fr_dialect { FR_DIALECT_C, FR_DIALECT_CUDA };

/* A growing string. When memory is out `st` says so and what follows is dropped. */
struct fr_text {
    char     *s; /* ends in '\0' once anything was added */
    size_t    n, cap;
    uint32_t  helpers; /* those that the text calls: fr_text_helpers() defines them */
    fr_status st;
};

void fr_text_add(struct fr_text *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fr_text_clear(struct fr_text *);

/* The C type that a machine type is computed in ("bool", "float", "uint16_t") and the one it has in
 * memory (bool is a byte there). */
const char *fr_text_type(fr_dtype);
const char *fr_text_memory_type(fr_dtype);

/* A constant of machine type `t`, from its bits. */
void fr_text_const(struct fr_text *, fr_dtype t, uint64_t bits);

/* How micro code becomes lines of C. Values that are needed get a line each:
 *     <indent>const float <prefix>_<number> = ...;
 * inputs are printed as inputs[imm], so they must have been declared; a value of roots[] is called
 * root_names[] instead of by its number. */
struct fr_text_lines {
    const char        *indent, *prefix;
    const char *const *inputs;
    const fr_mval     *roots;
    const char *const *root_names;
    int                n_roots;
    bool               usual;   /* of RARE values only the usual side */
    int                unroll; /* each line for so many elements, whose names end in _0, _1 and so on; 0: for one */
};
void fr_text_micro(struct fr_text *, const struct fr_mcode *, const struct fr_text_lines *);

/* needed[i] (of code->n) = 1 for the values that roots[] depend on, the roots included; `usual`: with
 * the usual side of RARE values alone. */
void fr_text_needed(const struct fr_mcode *, const fr_mval *roots, int n_roots, bool usual, uint8_t *needed);

/* What must stand before text that calls `helpers`: includes or type names, then small functions.
 */
void fr_text_head(struct fr_text *, enum fr_dialect, uint32_t helpers);

/* A whole nest as one source file (emit_source.c), appended to `out`: in C, `frit_rows`
 * and, when it reduces, `frit_stages` as jit/loop.h wants them from compiled code; in CUDA C, a
 * kernel `frit_nest`. FR_ENOTSUP when an operation has no recipe. */
fr_status fr_text_nest(struct fr_text *out, const struct fr_nest *, enum fr_dialect, struct fr_err *);

#endif
