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

/* Memory of others may lie anywhere. */
typedef uint32_t at_u32 __attribute__((aligned(1), may_alias));
typedef uint64_t at_u64 __attribute__((aligned(1), may_alias));
typedef float    at_f32 __attribute__((aligned(1), may_alias));
typedef double   at_f64 __attribute__((aligned(1), may_alias));

#define JOIN(name, T, OP)                                                                          \
    static void name##_##T(size_t n, size_t row, char *out, ptrdiff_t step, const int64_t *index,  \
                           const char *in, ptrdiff_t from)                                         \
    {                                                                                              \
        for (size_t i = 0; row == 1 && i < n; i++, in += from)                                     \
            *(T *)(out + index[i] * step) OP *(const T *)in;                                       \
        for (size_t i = 0; row != 1 && i < n; i++, in += from) {                                   \
            T *restrict       to = (T *)(out + index[i] * step);                                   \
            const T *restrict a = (const T *)in;                                                   \
                                                                                                   \
            for (size_t k = 0; k < row; k++)                                                       \
                to[k] OP a[k];                                                                     \
        }                                                                                          \
    }
#define JOINS(T) JOIN(add, T, +=) JOIN(subtract, T, -=)
JOINS(at_u32)
JOINS(at_u64)
JOINS(at_f32)
JOINS(at_f64)
#define OF_DTYPES(name)                                                                            \
    {[FR_I32] = name##_at_u32, [FR_U32] = name##_at_u32, [FR_I64] = name##_at_u64,                 \
     [FR_U64] = name##_at_u64, [FR_F32] = name##_at_f32, [FR_F64] = name##_at_f64}

const struct fr_index_kernels PASTE(fr_index_, FR_LEVEL) = {
    .wrap = {[FR_I8] = wrap_i8, [FR_I16] = wrap_i16, [FR_I32] = wrap_i32, [FR_I64] = wrap_i64,
             [FR_U8] = wrap_u8, [FR_U16] = wrap_u16, [FR_U32] = wrap_u32, [FR_U64] = wrap_i64},
    .bound = bound,
    .add = OF_DTYPES(add),
    .subtract = OF_DTYPES(subtract),
};
