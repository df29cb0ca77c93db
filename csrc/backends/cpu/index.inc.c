/* backends/cpu/index.inc.c -- the kernels of index.h for one level of instructions: loops without a branch,
 * which the vectoriser does well. Compiled as reduce.inc.c is. */
#include "backends/cpu/index.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* v + size and size - 1 - v are both from 0 on if v is inside; where one of them wraps around, the other has
 * the sign. A u64 beyond the range of an i64 is a negative number, as NumPy converts it. */
#define WRAP(s, T)                                                                                 \
    static unsigned wrap_##s(size_t n, const void *in, int64_t size, int64_t *restrict out)        \
    {                                                                                              \
        const T *restrict a = in;                                                                  \
        uint64_t below = 0, outside = 0, more = (uint64_t)size;                                    \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint64_t v = (uint64_t)(int64_t)a[i];                                                  \
                                                                                                   \
            below |= v;                                                                            \
            outside |= (v + more) | (more - 1 - v);                                                \
            out[i] = (int64_t)(v + ((uint64_t)((int64_t)v >> 63) & more));                         \
        }                                                                                          \
        return (below >> 63 ? FR_INDEX_BELOW : 0u) | (outside >> 63 ? FR_INDEX_OUTSIDE : 0u);      \
    }
WRAP(i8, int8_t)
WRAP(i16, int16_t)
WRAP(i32, int32_t)
WRAP(i64, int64_t)
WRAP(u8, uint8_t)
WRAP(u16, uint16_t)
WRAP(u32, uint32_t)

static uint64_t
bound(size_t n, const int64_t *in, uint64_t last, int64_t *restrict out)
{
    uint64_t outside = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)in[i], is = v < last ? v : last;

        outside |= v ^ is;
        out[i] = (int64_t)is;
    }
    return outside;
}

const struct fr_index_kernels PASTE(fr_index_, FR_LEVEL) = {
    .wrap = {[FR_I8] = wrap_i8, [FR_I16] = wrap_i16, [FR_I32] = wrap_i32, [FR_I64] = wrap_i64,
             [FR_U8] = wrap_u8, [FR_U16] = wrap_u16, [FR_U32] = wrap_u32, [FR_U64] = wrap_i64},
    .bound = bound,
};
