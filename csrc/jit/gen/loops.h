/* jit/gen/loops.h -- the loops of a block kernel as text, from its micro code (loops.c). For main.c. */
#ifndef FR_JIT_GEN_LOOPS_H
#define FR_JIT_GEN_LOOPS_H

#include "jit/emit_text.h"

enum { MAX_ARGS = 3 };

/* One argument or the result of a kernel, as its block holds it. */
struct side {
    fr_dtype dtype;
    int      n_parts; /* 2 for complex numbers */
    int      first;   /* number of its first input */
};

struct shape {
    struct side     args[MAX_ARGS], out;
    int             n_args;
    struct fr_mcode code;
    fr_mval         roots[2];
};

extern const char gen_arg_name[MAX_ARGS + 1];   /* "xyz" */

/* The memory type of a side; of integers that only wrap, the unsigned one (main.c: make_plain). */
const char *gen_memory_type(const struct shape *, const struct side *);
/* Which masks of arguments that are one number get a loop of their own, as bits. */
unsigned gen_masks(const struct shape *);
/* `case once:` with its loops, up to its return. */
void gen_case(struct fr_text *, const struct shape *, unsigned once);
/* Prints why and exits. */
void gen_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
