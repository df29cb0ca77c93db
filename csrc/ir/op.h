/* ir/op.h -- the operation table: what is known about each operation.  Rows are in ops.def. */
#ifndef FR_IR_OP_H
#define FR_IR_OP_H

#include "base/status.h"
#include "core/dtype.h"

typedef uint16_t fr_op;

enum fr_op_code {
#define OP(name, ...) FR_OP_##name,
#define REDUCE(name, ...) FR_OP_##name,
#define SCAN(name, ...) FR_OP_##name,
#define CALL(name, ...) FR_OP_##name,
#define NODE(name, ...) FR_OP_##name,
#include "ir/ops.def"
    FR_N_OPS
#undef OP
#undef REDUCE
#undef SCAN
#undef CALL
#undef NODE
};

enum fr_op_class { FR_CLASS_MAP, FR_CLASS_REDUCE, FR_CLASS_SCAN, FR_CLASS_CALL, FR_CLASS_NODE };

enum fr_op_flags { FR_OPF_COMM = 1, FR_OPF_COSTLY = 2, FR_OPF_SLOW = 4, FR_OPF_QUOTIENT = 8, FR_OPF_WHOLE = 16,
                   FR_OPF_COMPARES = 32, FR_OPF_NOBOOL = 64, FR_OPF_MOVES = 128, FR_OPF_BITS = 256, FR_OPF_OURS = 512,
                   FR_OPF_PLAIN = 1024, FR_OPF_ORDERED = 2048, FR_OPF_INNER = 4096 };

enum { FR_FEW_DIGITS = 21 };     /* bits of a significand that divide_few takes */

enum fr_op_rule { FR_RULE_SAME, FR_RULE_FLOAT, FR_RULE_TRUEDIV, FR_RULE_TRUTH, FR_RULE_COMPONENT,
                  FR_RULE_SELECT, FR_RULE_LDEXP, FR_RULE_COUNT, FR_RULE_RANDOM, FR_RULE_SUM, FR_RULE_INDEX };

enum fr_op_domain { FR_DOMAIN_any, FR_DOMAIN_pos, FR_DOMAIN_unit, FR_DOMAIN_ge1, FR_DOMAIN_gtm1,
                    FR_DOMAIN_small, FR_DOMAIN_nonneg };

enum fr_op_identity { FR_IDENTITY_zero, FR_IDENTITY_one, FR_IDENTITY_lowest, FR_IDENTITY_highest };

struct fr_op_info {
    const char *name;
    const char *kinds;       /* accepted NumPy kinds after promotion */
    const char *raises;      /* letters of "doui" */
    uint8_t     class_;      /* enum fr_op_class */
    uint8_t     arity;
    uint8_t     rule;        /* enum fr_op_rule */
    uint8_t     domain;      /* enum fr_op_domain */
    uint8_t     identity;    /* enum fr_op_identity: of a REDUCE */
    uint16_t    flags;       /* enum fr_op_flags */
    fr_op       combine;     /* REDUCE and SCAN: the operation that joins two results */
    fr_op       written;     /* the operation that the user wrote: but for INNER rows, itself */
};
extern const struct fr_op_info fr_op_info[FR_N_OPS];

/* Whether each element of the result is made of the arguments' elements at its place. */
static inline bool
fr_op_by_element(fr_op op)
{
    return fr_op_info[op].class_ == FR_CLASS_MAP || op == FR_OP_cast;
}

static inline bool fr_op_reduces(fr_op op) { return fr_op_info[op].class_ == FR_CLASS_REDUCE; }

/* Whether the row's kinds name that of dtype d. */
static inline bool
fr_op_takes(fr_op op, fr_dtype d)
{
    const char *k = fr_op_info[op].kinds, kind = fr_dtype_kind(d);

    while (*k && *k != kind)
        k++;
    return *k;
}

/* Whether it is an index that a reduction finds: argmax, argmin. */
static inline bool
fr_op_finds_index(fr_op op)
{
    return fr_op_info[op].rule == FR_RULE_INDEX;
}

/* Whether a reduction picks one of its elements, or its index, and has no result without any. */
static inline bool
fr_op_picks(fr_op op)
{
    return fr_op_info[op].identity >= FR_IDENTITY_lowest;
}

/* Whether a fold has other bits in another order. */
static inline bool
fr_op_rounds(fr_op op, fr_dtype d)
{
    return !fr_op_picks(op) && (fr_dtype_is_float(d) || fr_dtype_is_complex(d));
}

/* How a matrix product adds up, as its `axes` say: as NumPy's matmul, or as its einsum does floats: one by one along the
 * inner axis, each product rounded before it is added; or in the lanes of vectors of 16 bytes. */
enum fr_product_order { FR_PRODUCT_NUMPYS, FR_PRODUCT_IN_ORDER, FR_PRODUCT_IN_LANES };

/* Whether `axes` of a node say something. */
static inline bool
fr_op_has_axes(fr_op op)
{
    uint8_t c = fr_op_info[op].class_;

    return FR_UNLIKELY(c != FR_CLASS_MAP) &&
           (c == FR_CLASS_REDUCE || c == FR_CLASS_SCAN || c == FR_CLASS_CALL || op == FR_OP_iota);
}

/* Bits of a part of the number with which a reduction into accumulators of dtype d begins: part 0, or of a complex
 * number also 1. */
uint64_t  fr_op_identity(fr_op op, fr_dtype d, int part);

/* The operation called `name`, or FR_N_OPS. */
fr_op     fr_op_find(const char *name, int len);

/* One argument's dtype for resolution: weak is 0 for a typed array or scalar, else the Python kind
 * 'b' 'i' 'f' 'c' (NEP 50). */
struct fr_op_type { fr_dtype dtype; char weak; };

/* What a MAP operation computes in: *compute is the dtype that inputs are converted to (`where`: its
 * second and third; `ldexp`: its first, the second becomes i64).  FR_EUFUNC when NumPy has no loop. */
fr_status fr_op_resolve(fr_op op, const struct fr_op_type *types, fr_dtype *compute,
                        struct fr_err *err);
/* The result's dtype once the compute dtype is known.  Also for REDUCE and SCAN: in -> result. */
fr_dtype  fr_op_result(fr_op op, fr_dtype compute);
/* The dtype that argument k of a MAP operation is given in: `compute`, but a bool for the condition
 * of `where`, i64 for the exponent of `ldexp`, u64 for the random operations. */
fr_dtype  fr_op_arg(fr_op op, int k, fr_dtype compute);
/* Whose dtype a MAP operation that has been resolved computes in: that argument's; -1: the result's. */
int       fr_op_compute_arg(fr_op op);

#endif
