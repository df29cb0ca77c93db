/* core/dtype.h -- element types: sizes, kinds, NumPy's promotion. */
#ifndef FR_CORE_DTYPE_H
#define FR_CORE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum __attribute__((packed)) fr_dtype {
#define DTYPE(name, code, kind, size, comp, ctype) FR_##name,
#include "core/dtype.def"
    FR_N_DTYPES
} fr_dtype;

struct fr_dtype_info {
    char     code[6];
    char     kind;            /* b i u f c, as NumPy's dtype.kind */
    uint8_t  size;            /* bytes per element */
    fr_dtype component;
};
extern const struct fr_dtype_info fr_dtype_info[FR_N_DTYPES];

static inline int  fr_dtype_size(fr_dtype d) { return fr_dtype_info[d].size; }
static inline char fr_dtype_kind(fr_dtype d) { return fr_dtype_info[d].kind; }
static inline const char *fr_dtype_code(fr_dtype d) { return fr_dtype_info[d].code; }
const char *fr_dtype_name(fr_dtype);   /* as users know it: "float64" */
static inline bool fr_dtype_is_float(fr_dtype d) { return fr_dtype_info[d].kind == 'f'; }
static inline bool fr_dtype_is_complex(fr_dtype d) { return fr_dtype_info[d].kind == 'c'; }
static inline bool fr_dtype_is_int(fr_dtype d)
{
    return fr_dtype_info[d].kind == 'i' || fr_dtype_info[d].kind == 'u';
}

/* numpy.promote_types. */
fr_dtype fr_dtype_promote(fr_dtype a, fr_dtype b);
/* Python scalars under NEP 50: 'b' bool, 'i' int, 'f' float, 'c' complex, weak against `d`. */
fr_dtype fr_dtype_promote_weak(fr_dtype d, char kind);
/* The smallest float that NumPy computes math functions of `d` in (int8 -> f16, int32 -> f64). */
fr_dtype fr_dtype_to_float(fr_dtype d);
/* numpy.can_cast(from, to, "same_kind"). */
bool     fr_dtype_same_kind(fr_dtype from, fr_dtype to);
/* From a short name such as "f32"; FR_N_DTYPES if there is none. */
fr_dtype fr_dtype_parse(const char *code, int len);

#endif
