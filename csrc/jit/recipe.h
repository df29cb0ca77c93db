/* jit/recipe.h -- the meaning of every operation, stated once, as micro code.
 * Called by the emitters, the reference executor and the generator of the block kernels. */
#ifndef FR_JIT_RECIPE_H
#define FR_JIT_RECIPE_H

#include "ir/op.h"
#include "jit/micro.h"

/* Appends the instructions of `op`, whose inputs have the compute dtype `in` (see
 * fr_op_resolve; `where` has a bool first and `in` next, `ldexp` an i64 second), to `code`.
 * random_bits (compute dtype U64), random_uniform and random_normal (F32, F64) always take two u64:
 * the index of the element in its stream, and the stream's key.
 * The result has the dtype fr_op_result(op, in).  FR_ENOTSUP if there is no such combination. */
fr_status fr_recipe_op(struct fr_mcode *code, fr_op op, fr_dtype in, const struct fr_mnum *args,
                       struct fr_mnum *result);

/* What an operation does with half precision: it computes in floats and rounds the result; or in floats something else;
 * hands one argument on, but for its sign; or looks at the bits. */
enum fr_half_use { FR_HALF_ROUNDED, FR_HALF_READ, FR_HALF_MOVED, FR_HALF_BITS };
enum fr_half_use fr_recipe_half_use(fr_op op);
/* Unless it looks at the bits: arguments that are F32 already are taken as they are, and a result that were half
 * precision is the F32 that it is rounded from, or the same number. */
fr_status fr_recipe_half(struct fr_mcode *code, fr_op op, const struct fr_mnum *args, struct fr_mnum *result);
/* F32 rounded to the nearest number that half precision has, and still F32: the shorter way. */
fr_mval   fr_recipe_round_half(struct fr_mcode *code, fr_mval v);

/* Conversion of one element, as NumPy's astype. */
fr_status fr_recipe_cast(struct fr_mcode *code, fr_dtype from, fr_dtype to, struct fr_mnum arg,
                         struct fr_mnum *result);

/* True if `op` has a recipe for compute dtype `in`. */
bool      fr_recipe_exists(fr_op op, fr_dtype in);

#endif
