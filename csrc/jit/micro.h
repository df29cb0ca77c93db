/* jit/micro.h -- what one element does, in machine terms: a straight line of typed instructions.
 *
 * Recipes (jit/recipe.h) write this code; the reference executor interprets it, the text emitter
 * prints it as C and CUDA C, the libgccjit emitter turns it into calls.  Each primitive is spelled
 * once per emitter and means exactly the same everywhere:
 *   - floats are IEEE 754, round to nearest even, no contraction; FMA rounds once;
 *   - integers wrap; shifts by the width or more are not allowed (recipes guard them);
 *   - IDIV and IREM truncate; the recipe guarantees that the divisor is neither 0 nor (for the
 *     smallest dividend) -1;
 *   - comparisons give BOOL; with a NaN they are false, NE true;
 *   - CVT float -> integer truncates; a value outside the target's range gives what the x86-64
 *     instruction gives (recipes that care test first);
 *   - SELECT evaluates both sides;
 *   - RARE is a SELECT whose first side hardly any element wants: who computes many elements may leave
 *     it, and what only it needs, out, and computes those elements anew of which one wants it.
 * Types are the machine types only: BOOL, I8..I64, U8..U64, F32, F64.  A half-precision number is
 * its 16 bits (U16) until a recipe widens it; a complex number is a pair of values. */
#ifndef FR_JIT_MICRO_H
#define FR_JIT_MICRO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "core/dtype.h"

/* MICRO(NAME, n_args): the result's type is `type` of the instruction; arguments have the same type
 * unless said otherwise. */
#define FR_MICRO_OPS(MICRO)                                                                        \
    MICRO(INPUT, 0)   /* imm: which input; complex inputs take two */                             \
    MICRO(CONST, 0)   /* imm: the bits */                                                          \
    MICRO(ADD, 2) MICRO(SUB, 2) MICRO(MUL, 2) MICRO(NEG, 1)                                        \
    MICRO(DIV, 2)     /* floats */                                                                 \
    MICRO(DIVBY, 3)   /* a / b of floats, c being 1 / b rounded, far from the range's ends */      \
    MICRO(DIVFEW, 3)  /* the same where a is a whole number of 16 bits and b > 0 has FR_FEW_DIGITS (ir/op.h) */ \
    MICRO(IDIV, 2) MICRO(IREM, 2)                                                                  \
    MICRO(FMA, 3)     /* a * b + c, rounded once */                                                \
    MICRO(FMOD, 2)    /* floats: C99 fmod, exact; fmodf and fmod of libm */                        \
    MICRO(SQRT, 1) MICRO(ABS, 1) /* floats: clears the sign bit */                                 \
    MICRO(FLOOR, 1) MICRO(CEIL, 1) MICRO(TRUNC, 1) MICRO(RINT, 1)                                  \
    MICRO(AND, 2) MICRO(OR, 2) MICRO(XOR, 2) MICRO(NOT, 1) /* integers bitwise; BOOL logically */  \
    MICRO(SHL, 2) MICRO(SHR, 2) /* SHR of a signed type keeps the sign */                          \
    MICRO(MULHI, 2)   /* high half of the product; U32 only */                                     \
    MICRO(EQ, 2) MICRO(NE, 2) MICRO(LT, 2) MICRO(LE, 2) /* type is BOOL; arguments share theirs */ \
    MICRO(SELECT, 3)  /* a is BOOL: a ? b : c */                                                   \
    MICRO(RARE, 3)    /* the same; a is hardly ever true */                                        \
    MICRO(CVT, 1)     /* value conversion from the argument's type */                              \
    MICRO(BITCAST, 1) /* same bits, same size, another type */

enum fr_mop {
#define FR_MICRO_ENUM(name, n) FR_M_##name,
    FR_MICRO_OPS(FR_MICRO_ENUM)
#undef FR_MICRO_ENUM
    FR_N_MOPS
};

typedef uint16_t fr_mval;        /* index of the instruction that makes the value */

struct fr_minst {
    uint8_t  op;                 /* enum fr_mop */
    fr_dtype type;               /* of the result */
    fr_mval  a, b, c;
    uint64_t imm;
};

struct fr_mcode {
    struct fr_minst *inst;
    size_t           n, cap;
    fr_status        st;         /* FR_ENOMEM sticks; builders then return 0 */
};

/* Appends one instruction; equal instructions are written once. */
fr_mval fr_m_emit(struct fr_mcode *, enum fr_mop op, fr_dtype type, fr_mval a, fr_mval b, fr_mval c, uint64_t imm);
void    fr_mcode_clear(struct fr_mcode *);
/* Marks in `needed` (of code->n) what the values marked there are made of. */
enum fr_sides { FR_SIDES_ALL = 7, FR_SIDES_USUAL = 4, FR_SIDES_NOTED = 5 }; /* of RARE: bits for a, b, c */
void    fr_m_needed(const struct fr_mcode *code, enum fr_sides, uint8_t *needed);
/* True if some instruction is RARE. */
bool    fr_m_has_rare(const struct fr_mcode *code);

/* Cycles until a vector of results is there, and how many vector instructions could have been started while it kept
 * its part of the processor busy; `from` is the type of the arguments. */
struct fr_mcost {
    uint8_t latency, slots;
};
enum { FR_LOAD_LATENCY = 6 };
struct fr_mcost fr_m_cost(enum fr_mop op, fr_dtype type, fr_dtype from);
/* What kind of work an instruction is, where one processor does relatively more or less of it than another: additions and
 * multiplications of floats; bits, comparisons, choices; conversions and roundings; divisions; roots; multiplications of integers;
 * what has no vector instruction. */
enum fr_mkind { FR_MK_FLOAT, FR_MK_BITS, FR_MK_CONVERT, FR_MK_DIVIDE, FR_MK_ROOT, FR_MK_WHOLE, FR_MK_SCALAR, FR_N_MKINDS };
enum fr_mkind fr_m_kind(enum fr_mop op, fr_dtype type, fr_dtype from);
/* Whether no processor has a vector instruction for it. */
bool fr_m_is_scalar(enum fr_mop op);
/* How many elements have to be worked on at once to keep a processor busy, if each takes so many slots and cycles: the
 * head of emit_gcc_interleave.c. At least 1. */
int fr_m_unroll(int slots, int latency);

/* A value of any dtype: complex numbers have both parts, the others only `re`. */
struct fr_mnum {
    fr_mval re, im;
};
/* The type of those parts. */
static inline fr_dtype fr_machine_type(fr_dtype d) { return d == FR_F16 ? FR_U16 : fr_dtype_info[d].component; }
/* Appends INPUT (or CONST) 2k, and 2k + 1 for the imaginary part: the number k of the micro code. */
struct fr_mnum fr_m_number(struct fr_mcode *, enum fr_mop, fr_dtype, int k);

extern const char   *const fr_mop_name[FR_N_MOPS];
extern const uint8_t       fr_mop_arity[FR_N_MOPS];

#endif
