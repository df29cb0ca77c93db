/* core/number.h -- single numbers: conversion to the bits of a dtype, half precision. */
#ifndef FR_CORE_NUMBER_H
#define FR_CORE_NUMBER_H

#include "base/status.h"
#include "core/dtype.h"

/* A number from Python. For weak Python scalars (NEP 50) `weak` is the kind 'b' 'i' 'f' 'c'; a typed
 * NumPy scalar has weak 0 and its dtype. Value: i64 for b, i and u dtypes (u64 for u64), f64 for floats
 * (also f16, f32), c128 for complex. `huge`: a Python int outside int64, its low 64 bits in u64 and
 * its sign in `negative`; `f64` cannot be read then. */
struct fr_number {
    fr_dtype dtype;
    char     weak;
    bool     huge, negative;
    union { int64_t i64; uint64_t u64; double f64; double c128[2]; } v;
};

uint16_t fr_half_from_double(double v);     /* round to nearest even */
double   fr_half_to_double(uint16_t bits);

/* The number as a value of dtype `to` in the low bytes of bits[0] (complex128: both words), as NumPy
 * converts scalars. FR_EOVERFLOW: a Python integer that `to` cannot hold. */
fr_status fr_number_bits(const struct fr_number *, fr_dtype to, uint64_t bits[2], struct fr_err *);
/* Whether a part of these bits, of dtype `to`, is infinite where the number's is not: it was too large. */
bool      fr_number_narrowed(const struct fr_number *, fr_dtype to, const uint64_t bits[2]);
static inline bool
fr_number_overflows(const struct fr_number *n, fr_dtype to, const uint64_t bits[2])
{
    return (to == FR_F32 || to == FR_F16 || to == FR_C64) && fr_number_narrowed(n, to, bits);
}
/* Whether a quotient of an array of dtype d and *v is the product with its inverse, to the bit, which *v then is:
 * *v is a power of two, of which dtype d, or f64 for integers, has the inverse in full precision. */
bool      fr_number_invert(fr_dtype d, double *v);

#endif
