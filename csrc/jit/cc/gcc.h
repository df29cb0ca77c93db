/* jit/cc/gcc.h -- short spellings over libgccjit for jit/emit_gcc.c: types, memory, blocks, and
 * micro code turned into values. One struct fr_gcc is one compilation; code is appended where it
 * points. */
#ifndef FR_JIT_CC_GCC_H
#define FR_JIT_CC_GCC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "core/dtype.h"
#include "jit/cc/gccjit.h"
#include "jit/micro.h"
#include "jit/recipe.h"

/* A value of any dtype as its machine numbers: half precision is its 16 bits, a complex number has
 * both parts, a bool is a C bool. */
struct fr_gval {
    gj_rvalue *re, *im;
    /* Half precision: the same number as F32, and an F32 that is rounded to it; each may be NULL. Integers of 8 and 16
     * bits: the same number as I32. */
    gj_rvalue *wide, *exact;
};

struct fr_gcc {
    const struct fr_gccjit *g;
    gj_context             *ctxt;
    gj_type                *t_void, *t_bool, *t_i64, *t_bytes; /* t_bytes: char * */
    gj_type                *memory[FR_N_DTYPES]; /* of one component in memory; bool is a byte */
    gj_function            *fn;
    gj_block               *at;
    struct fr_mcode         code;                /* of the operation being expanded */
    gj_rvalue             **vals;
    size_t                  vals_cap;
    /* What notes that an element has a RARE value, by the size of the numbers that its condition
     * compares; without `usual`, RARE values are selected. */
    gj_lvalue              *rare[9];
    bool                    usual;
    fr_status               st;                  /* FR_ENOMEM, FR_ENOTSUP stick */
    bool                    has_fma;             /* the processor has it as one instruction */
    bool                    has_f16c;            /* and those of half precision */
    bool                    needs_libm;          /* some operation is a call */
    gj_function            *fmod[2];             /* of f32 and f64, once one is called */
};

void       fr_gcc_init(struct fr_gcc *, const struct fr_gccjit *, gj_context *);
void       fr_gcc_clear(struct fr_gcc *);

gj_rvalue *fr_gcc_int(struct fr_gcc *, gj_type *, int64_t);
static inline gj_rvalue *
fr_gcc_i64(struct fr_gcc *c, int64_t v)
{
    return fr_gcc_int(c, c->t_i64, v);
}
/* A number of machine type `d` from its bits. */
gj_rvalue *fr_gcc_bits(struct fr_gcc *, fr_dtype d, uint64_t bits);
/* Signed integers of 1, 2, 4 or 8 bytes. */
gj_type   *fr_gcc_int_type(struct fr_gcc *, int n_bytes);

gj_lvalue *fr_gcc_var(struct fr_gcc *, gj_type *);
gj_lvalue *fr_gcc_array(struct fr_gcc *, gj_type *, int n);     /* aligned to 64 where possible */
void       fr_gcc_set(struct fr_gcc *, gj_lvalue *, gj_rvalue *);
gj_rvalue *fr_gcc_get(struct fr_gcc *, gj_lvalue *);
/* The value in a fresh variable, so that it is computed once. */
gj_rvalue *fr_gcc_keep(struct fr_gcc *, gj_type *, gj_rvalue *);

gj_rvalue *fr_gcc_bin(struct fr_gcc *, int op, gj_type *, gj_rvalue *, gj_rvalue *);
gj_rvalue *fr_gcc_cmp(struct fr_gcc *, int op, gj_rvalue *, gj_rvalue *);
gj_rvalue *fr_gcc_cast(struct fr_gcc *, gj_rvalue *, gj_type *);
gj_rvalue *fr_gcc_and(struct fr_gcc *, gj_rvalue *, gj_rvalue *);  /* of C bools */
gj_rvalue *fr_gcc_or(struct fr_gcc *, gj_rvalue *, gj_rvalue *);
gj_rvalue *fr_gcc_not(struct fr_gcc *, gj_rvalue *);
/* cond ? yes : no for machine type `d`, both sides evaluated. */
gj_rvalue *fr_gcc_select(struct fr_gcc *, fr_dtype d, gj_rvalue *cond, gj_rvalue *yes,
                         gj_rvalue *no);

/* Element `index` of memory of `type` at the address `base` (char *). */
gj_lvalue *fr_gcc_at(struct fr_gcc *, gj_type *, gj_rvalue *base, gj_rvalue *index);
/* Element `index` of a local array. */
gj_lvalue *fr_gcc_elem(struct fr_gcc *, gj_lvalue *array, gj_rvalue *index);
/* base + n_bytes, as char *. */
gj_rvalue *fr_gcc_offset(struct fr_gcc *, gj_rvalue *base, gj_rvalue *n_bytes);
gj_rvalue *fr_gcc_address(struct fr_gcc *, gj_lvalue *);            /* as char * */
/* An element of dtype `d` whose first component has index `i` (of components). */
struct fr_gval fr_gcc_load(struct fr_gcc *, fr_dtype d, gj_rvalue *base, gj_rvalue *i);
void       fr_gcc_store(struct fr_gcc *, fr_dtype d, gj_rvalue *base, gj_rvalue *i,
                        struct fr_gval);

/* Stores past the caches: a whole vector of `n_bytes`, as much as a register holds, to an address
 * that is a multiple of that. Others see it after the fence. FR_GCC_NONTEMPORAL: there are such stores. */
#if defined __x86_64__
enum { FR_GCC_NONTEMPORAL = 1 };
#else
enum { FR_GCC_NONTEMPORAL = 0 };
#endif
void       fr_gcc_set_nontemporal(struct fr_gcc *, int n_bytes, gj_lvalue *, gj_rvalue *);
void       fr_gcc_fence(struct fr_gcc *);
/* A variable with the vector, of which GCC shall not know where it comes from: it would load one lane after the other
 * rather than shuffle. (Where there are no such stores, no register is known by its name either: it does.) */
gj_lvalue *fr_gcc_opaque(struct fr_gcc *, gj_type *vector, gj_rvalue *);
/* A lane of such a variable; `type` is that of its lanes. */
gj_rvalue *fr_gcc_lane(struct fr_gcc *, gj_type *type, gj_lvalue *, int lane);
/* A vector to another one, of the same number of lanes, by the instruction whose name and first operands these are.
 * In registers: GCC moves no load past one that is an operand (sums of products of bytes: 11.5 us instead of 9.3). */
void       fr_gcc_convert_vector(struct fr_gcc *, const char *instruction, gj_lvalue *to, gj_rvalue *from);
/* Whether integers of 8 and 16 bits are converted to this dtype from what they are as I32. */
bool       fr_gcc_keeps_word(fr_dtype to);
/* Asks for the line of memory at an address (char *), which may be anywhere. */
void       fr_gcc_prefetch(struct fr_gcc *, gj_rvalue *at, int locality);   /* as of __builtin_prefetch */

gj_block  *fr_gcc_block(struct fr_gcc *);
void       fr_gcc_jump(struct fr_gcc *, gj_block *);                /* and goes on there */
void       fr_gcc_branch(struct fr_gcc *, gj_rvalue *cond, gj_block *yes, gj_block *no);
/* for (i = from; i < to; i++) { ... }; `plain` keeps GCC from vectorising a loop that is never
 * long. */
struct fr_gcc_loop {
    gj_lvalue *i;
    gj_block  *head, *done;
};
struct fr_gcc_loop fr_gcc_for(struct fr_gcc *, gj_rvalue *from, gj_rvalue *to, bool plain);
void       fr_gcc_end_for(struct fr_gcc *, struct fr_gcc_loop);

/* One operation over values, through its recipe; `in` is its compute dtype. */
struct fr_gval fr_gcc_op(struct fr_gcc *, fr_op op, fr_dtype in, const struct fr_gval *args);
struct fr_gval fr_gcc_convert(struct fr_gcc *, fr_dtype from, fr_dtype to, struct fr_gval);
/* The same for `n` elements, by turns: each instruction of the recipe is written for all of them
 * before the next one. */
struct fr_gargs {
    struct fr_gval x[3];
};
void fr_gcc_ops(struct fr_gcc *, fr_op op, fr_dtype in, int n, const struct fr_gargs *args,
                struct fr_gval *out);
void fr_gcc_casts(struct fr_gcc *, fr_dtype from, fr_dtype to, int n, const struct fr_gargs *args,
                  struct fr_gval *out);
/* The machine type of a value's components: U16 for F16, F32 for C64, the dtype itself otherwise.
 */
fr_dtype   fr_gcc_machine(fr_dtype);
/* Appends INPUT (or CONST) 2k, and 2k + 1 for the imaginary part: the number k of the micro code. */
struct fr_mnum fr_gcc_numbered(struct fr_mcode *, enum fr_mop, fr_dtype, int k);

#endif
