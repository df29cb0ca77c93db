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

static inline gj_rvalue *
fr_gcc_int(struct fr_gcc *c, gj_type *type, int64_t v)
{
    return c->g->context_new_rvalue_from_long(c->ctxt, type, v);
}
static inline gj_rvalue *fr_gcc_i64(struct fr_gcc *c, int64_t v) { return fr_gcc_int(c, c->t_i64, v); }
/* A number of machine type `d` from its bits. */
gj_rvalue *fr_gcc_bits(struct fr_gcc *, fr_dtype d, uint64_t bits);
/* Signed integers of 1, 2, 4 or 8 bytes. */
static inline gj_type *fr_gcc_int_type(struct fr_gcc *c, int n) { return c->g->context_get_int_type(c->ctxt, n, 1); }

static inline gj_lvalue *
fr_gcc_var(struct fr_gcc *c, gj_type *type)
{
    return c->g->function_new_local(c->fn, NULL, type, "v");
}
gj_lvalue *fr_gcc_array(struct fr_gcc *, gj_type *, int n);     /* aligned to 64 where possible */
static inline void
fr_gcc_set(struct fr_gcc *c, gj_lvalue *to, gj_rvalue *v)
{
    c->g->block_add_assignment(c->at, NULL, to, v);
}
static inline gj_rvalue *fr_gcc_get(struct fr_gcc *c, gj_lvalue *v) { return c->g->lvalue_as_rvalue(v); }
static inline void fr_gcc_move(struct fr_gcc *c, gj_lvalue *to, gj_lvalue *from) { fr_gcc_set(c, to, fr_gcc_get(c, from)); }
/* The value in a fresh variable, so that it is computed once; an i64, a C bool. */
gj_rvalue *fr_gcc_keep(struct fr_gcc *, gj_type *, gj_rvalue *);
static inline gj_rvalue *fr_gcc_keep_i64(struct fr_gcc *c, gj_rvalue *v) { return fr_gcc_keep(c, c->t_i64, v); }
static inline gj_rvalue *fr_gcc_keep_bool(struct fr_gcc *c, gj_rvalue *v) { return fr_gcc_keep(c, c->t_bool, v); }

static inline gj_rvalue *
fr_gcc_bin(struct fr_gcc *c, int op, gj_type *type, gj_rvalue *a, gj_rvalue *b)
{
    return c->g->context_new_binary_op(c->ctxt, NULL, op, type, a, b);
}
static inline gj_rvalue *
fr_gcc_cmp(struct fr_gcc *c, int op, gj_rvalue *a, gj_rvalue *b)
{
    return c->g->context_new_comparison(c->ctxt, NULL, op, a, b);
}
static inline gj_rvalue *
fr_gcc_cast(struct fr_gcc *c, gj_rvalue *v, gj_type *type)
{
    return c->g->context_new_cast(c->ctxt, NULL, v, type);
}
/* Of C bools. */
static inline gj_rvalue *
fr_gcc_and(struct fr_gcc *c, gj_rvalue *a, gj_rvalue *b)
{
    return fr_gcc_bin(c, GJ_AND, c->t_bool, a, b);
}
static inline gj_rvalue *
fr_gcc_or(struct fr_gcc *c, gj_rvalue *a, gj_rvalue *b)
{
    return fr_gcc_bin(c, GJ_OR, c->t_bool, a, b);
}
gj_rvalue *fr_gcc_not(struct fr_gcc *, gj_rvalue *);
/* cond ? yes : no for machine type `d`, both sides evaluated. */
gj_rvalue *fr_gcc_select(struct fr_gcc *, fr_dtype d, gj_rvalue *cond, gj_rvalue *yes, gj_rvalue *no);

/* Element `index` of memory of `type` at the address `base` (char *). */
static inline gj_lvalue *
fr_gcc_at(struct fr_gcc *c, gj_type *type, gj_rvalue *base, gj_rvalue *index)
{
    base = fr_gcc_cast(c, base, c->g->type_get_pointer(type));
    return c->g->context_new_array_access(c->ctxt, NULL, base, index);
}
/* Element `index` of a local array, and its value. */
static inline gj_lvalue *
fr_gcc_elem(struct fr_gcc *c, gj_lvalue *array, gj_rvalue *index)
{
    return c->g->context_new_array_access(c->ctxt, NULL, fr_gcc_get(c, array), index);
}
static inline gj_rvalue *
fr_gcc_read(struct fr_gcc *c, gj_lvalue *array, gj_rvalue *index)
{
    return fr_gcc_get(c, fr_gcc_elem(c, array, index));
}
/* base + n_bytes, as char *. */
static inline gj_rvalue *
fr_gcc_offset(struct fr_gcc *c, gj_rvalue *base, gj_rvalue *n_bytes)
{
    return c->g->lvalue_get_address(c->g->context_new_array_access(c->ctxt, NULL, base, n_bytes), NULL);
}
/* As char *: of anything, and of element i of a local array. */
static inline gj_rvalue *
fr_gcc_address(struct fr_gcc *c, gj_lvalue *v)
{
    return fr_gcc_cast(c, c->g->lvalue_get_address(v, NULL), c->t_bytes);
}
static inline gj_rvalue *
fr_gcc_place(struct fr_gcc *c, gj_lvalue *array, int64_t i)
{
    return fr_gcc_address(c, fr_gcc_elem(c, array, fr_gcc_i64(c, i)));
}
/* An element of dtype `d` whose first component has index `i` (of components). */
struct fr_gval fr_gcc_load(struct fr_gcc *, fr_dtype d, gj_rvalue *base, gj_rvalue *i);
void       fr_gcc_store(struct fr_gcc *, fr_dtype d, gj_rvalue *base, gj_rvalue *i, struct fr_gval);

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
 * In registers: GCC moves no load past one that is an operand. */
void       fr_gcc_convert_vector(struct fr_gcc *, const char *instruction, gj_lvalue *to, gj_rvalue *from);
/* Whether integers of 8 and 16 bits are converted to this dtype from what they are as I32. */
static inline bool fr_gcc_keeps_word(fr_dtype to) { return fr_dtype_size(to) >= 4; }
/* Asks for the line of memory at an address (char *), which may be anywhere. */
void       fr_gcc_prefetch(struct fr_gcc *, gj_rvalue *at, int locality);   /* as of __builtin_prefetch */

static inline gj_block *fr_gcc_block(struct fr_gcc *c) { return c->g->function_new_block(c->fn, NULL); }
static inline void fr_gcc_end(struct fr_gcc *c, gj_block *to) { c->g->block_end_with_jump(c->at, NULL, to); }
static inline void fr_gcc_return(struct fr_gcc *c) { c->g->block_end_with_void_return(c->at, NULL); }
void       fr_gcc_jump(struct fr_gcc *, gj_block *);                /* and goes on there */
static inline void
fr_gcc_branch(struct fr_gcc *c, gj_rvalue *cond, gj_block *yes, gj_block *no)
{
    c->g->block_end_with_conditional(c->at, NULL, cond, yes, no);
}
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
void fr_gcc_ops(struct fr_gcc *, fr_op op, fr_dtype in, int n, const struct fr_gargs *args, struct fr_gval *out);
void fr_gcc_casts(struct fr_gcc *, fr_dtype from, fr_dtype to, int n, const struct fr_gargs *args,
                  struct fr_gval *out);

#endif
