/* base/fpe.h -- the processor's sticky flags of arithmetic: what an evaluation has raised.
 *
 * Kernels leave the flags alone; each thread that has run tasks adds its own to one word, and whoever evaluates looks at
 * that once, at the end. The flags only ask a question: polynomials raise some that NumPy's functions do not. */
#ifndef FR_BASE_FPE_H
#define FR_BASE_FPE_H

#include <stdatomic.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif

#include "base/status.h"

/* NumPy's bits. */
enum { FR_FPE_DIVIDE = 1, FR_FPE_OVER = 2, FR_FPE_UNDER = 4, FR_FPE_INVALID = 8, FR_FPE_ALL = 15 };

extern FR_HIDDEN atomic_uint fr_fpe_others;      /* of other threads than the one that evaluates, as the processor has them */

#if defined(__x86_64__)
enum { FR_FPE_RAW = 0x1d };

static inline unsigned
fr_fpe_raw(void)
{
    return _mm_getcsr() & FR_FPE_RAW;
}

static inline void
fr_fpe_lower(void)
{
    _mm_setcsr(_mm_getcsr() & ~(unsigned)FR_FPE_RAW);
}

static inline unsigned
fr_fpe_named(unsigned raw)
{
    return (raw >> 2 & 7) | (raw & 1) << 3;
}
#else
enum { FR_FPE_RAW = FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID };

static inline unsigned
fr_fpe_raw(void)
{
    return (unsigned)fetestexcept(FR_FPE_RAW);
}

static inline void
fr_fpe_lower(void)
{
    feclearexcept(FR_FPE_RAW);
}

static inline unsigned
fr_fpe_named(unsigned raw)
{
    return (raw & FE_DIVBYZERO ? FR_FPE_DIVIDE : 0) | (raw & FE_OVERFLOW ? FR_FPE_OVER : 0) |
           (raw & FE_UNDERFLOW ? FR_FPE_UNDER : 0) | (raw & FE_INVALID ? FR_FPE_INVALID : 0);
}
#endif

/* On the thread that evaluates, before anything runs. */
static inline void
fr_fpe_begin(void)
{
    if (FR_UNLIKELY(fr_fpe_raw() != 0))
        fr_fpe_lower();
    if (FR_UNLIKELY(atomic_load_explicit(&fr_fpe_others, memory_order_relaxed) != 0))
        atomic_store_explicit(&fr_fpe_others, 0, memory_order_relaxed);
}

/* On another thread, after its tasks and before it says that they are done. */
static inline void
fr_fpe_add(void)
{
    unsigned raw = fr_fpe_raw();

    if (FR_UNLIKELY(raw != 0)) {
        atomic_fetch_or_explicit(&fr_fpe_others, raw, memory_order_relaxed);
        fr_fpe_lower();
    }
}

/* What has been raised since fr_fpe_begin, as NumPy's bits. */
static inline unsigned
fr_fpe_raised(void)
{
    unsigned raw = fr_fpe_raw() | atomic_load_explicit(&fr_fpe_others, memory_order_relaxed);

    return FR_LIKELY(raw == 0) ? 0 : fr_fpe_named(raw);
}

#endif
