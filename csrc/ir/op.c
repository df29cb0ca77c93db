#include "ir/op.h"

#include <string.h>

/* The rows write flags bare, joined by | where there are several. */
enum { COMM = FR_OPF_COMM, COSTLY = FR_OPF_COSTLY, SLOW = FR_OPF_SLOW, QUOTIENT = FR_OPF_QUOTIENT, WHOLE = FR_OPF_WHOLE,
       COMPARES = FR_OPF_COMPARES, NOBOOL = FR_OPF_NOBOOL, MOVES = FR_OPF_MOVES, BITS = FR_OPF_BITS, OURS = FR_OPF_OURS,
       PLAIN = FR_OPF_PLAIN, ORDERED = FR_OPF_ORDERED };

const struct fr_op_info fr_op_info[FR_N_OPS] = {
#define MAP(op, n, rules, takes, errors, is, from, user)                                                               \
    [FR_OP_##op] = {#op, takes, errors, FR_CLASS_MAP, n, FR_RULE_##rules, FR_DOMAIN_##from, 0, is, 0, FR_OP_##user},
#define OP(name, n, rule, kinds, recipe, raises, adjoint, flags, domain)                                               \
    MAP(name, n, rule, kinds, raises, flags, domain, name)
#define INNER(name, n, rule, kinds, recipe, raises, adjoint, flags, domain, written)                                   \
    MAP(name, n, rule, kinds, raises, flags | FR_OPF_INNER, domain, written)
#define REDUCE(name, rule, kinds, combine, identity, adjoint, flags)                                                   \
    [FR_OP_##name] = {#name, kinds, "", FR_CLASS_REDUCE, 1, FR_RULE_##rule, 0, FR_IDENTITY_##identity, flags,          \
                      FR_OP_##combine, FR_OP_##name},
#define SCAN(name, rule, kinds, combine, adjoint)                                                                      \
    [FR_OP_##name] = {#name, kinds, "", FR_CLASS_SCAN, 1, FR_RULE_##rule, 0, 0, 0, FR_OP_##combine, FR_OP_##name},
#define CALL(name, n, raises, adjoint)                                                                                 \
    [FR_OP_##name] = {#name, "", raises, FR_CLASS_CALL, n, 0, 0, 0, 0, 0, FR_OP_##name},
#define NODE(name, n, adjoint) [FR_OP_##name] = {#name, "", "", FR_CLASS_NODE, n, 0, 0, 0, 0, 0, FR_OP_##name},
#include "ir/ops.def"
};

fr_op
fr_op_find(const char *name, int len)
{
    for (int op = 0; op < FR_N_OPS; op++)
        if ((int)strlen(fr_op_info[op].name) == len && !memcmp(fr_op_info[op].name, name, len))
            return (fr_op)op;
    return FR_N_OPS;
}

/* NumPy's promotion of arrays and weak Python scalars together. */
static fr_dtype
promote(const struct fr_op_type *t, int n)
{
    fr_dtype d = FR_N_DTYPES;
    char     weak = 0;

    for (int i = 0; i < n; i++) {
        if (!t[i].weak)
            d = d == FR_N_DTYPES ? t[i].dtype : fr_dtype_promote(d, t[i].dtype);
        else if (!weak || strchr("bifc", t[i].weak) > strchr("bifc", weak))
            weak = t[i].weak;
    }
    if (d == FR_N_DTYPES) /* scalars only: Python's own types */
        d = weak == 'b' ? FR_BOOL : weak == 'i' ? FR_I64 : weak == 'f' ? FR_F64 : FR_C128;
    else if (weak)
        d = fr_dtype_promote_weak(d, weak);
    return d;
}

/* The first float loop that all of them cast to safely: u16 with i16 is f32, although the two promote
 * to i32, which would be f64. A weak float beside integers makes them f64. */
static fr_dtype
promote_floats(const struct fr_op_type *t, int n)
{
    fr_dtype d = fr_dtype_to_float(promote(t, n)), joint = FR_N_DTYPES;

    for (int i = 0; i < n; i++) {
        fr_dtype f = fr_dtype_to_float(t[i].dtype);

        if (t[i].weak)
            return d;
        joint = joint == FR_N_DTYPES ? f : fr_dtype_promote(joint, f);
    }
    return joint;
}

fr_status
fr_op_resolve(fr_op op, const struct fr_op_type *types, fr_dtype *compute, struct fr_err *err)
{
    const struct fr_op_info *info = &fr_op_info[op];
    fr_dtype                 d;

    switch (info->rule) {
    case FR_RULE_SELECT:
        *compute = promote(types + 1, 2);
        return FR_OK;
    case FR_RULE_LDEXP:
        if ((!fr_dtype_is_int(types[1].dtype) && types[1].dtype != FR_BOOL) ||
            types[1].dtype == FR_U64) /* its exponents are at most i64 */
            goto no_loop;
        d = fr_dtype_to_float(promote(types, 1));
        break;
    case FR_RULE_FLOAT:
        d = promote_floats(types, info->arity);
        break;
    case FR_RULE_TRUEDIV:
        d = promote(types, info->arity);
        if (d < FR_F16)
            d = FR_F64;
        break;
    default:
        d = promote(types, info->arity);
        if (d == FR_BOOL && !fr_op_takes(op, d) && !(info->flags & FR_OPF_NOBOOL)) {
            d = FR_I8;
            if (!fr_op_takes(op, d))
                d = fr_dtype_to_float(d);
        } else if (d < FR_F16 && d != FR_BOOL && !fr_op_takes(op, d)) {
            d = fr_dtype_to_float(d);
        }
        break;
    }
    if (fr_op_takes(op, d)) {
        *compute = d;
        return FR_OK;
    }
no_loop:
    return fr_fail(err, FR_EUFUNC,
                   "ufunc '%s' not supported for the input types (%s%s%s): there is no loop for them",
                   info->name, fr_dtype_name(types[0].dtype), info->arity > 1 ? ", " : "",
                   info->arity > 1 ? fr_dtype_name(types[1].dtype) : "");
}

fr_dtype
fr_op_result(fr_op op, fr_dtype compute)
{
    switch (fr_op_info[op].rule) {
    case FR_RULE_TRUTH: return FR_BOOL;
    case FR_RULE_COMPONENT: return fr_dtype_info[compute].component;
    case FR_RULE_COUNT: return FR_U8;
    case FR_RULE_INDEX: return FR_I64;
    case FR_RULE_SUM:
        if (compute == FR_BOOL || fr_dtype_kind(compute) == 'i')
            return FR_I64;
        return fr_dtype_kind(compute) == 'u' ? FR_U64 : compute;
    default: return compute;
    }
}

fr_dtype
fr_op_arg(fr_op op, int k, fr_dtype compute)
{
    switch (fr_op_info[op].rule) {
    case FR_RULE_RANDOM: return FR_U64;
    case FR_RULE_SELECT: return k == 0 ? FR_BOOL : compute;
    case FR_RULE_LDEXP: return k == 1 ? FR_I64 : compute;
    default: return compute;
    }
}

int
fr_op_compute_arg(fr_op op)
{
    return fr_op_info[op].rule == FR_RULE_RANDOM ? -1 : fr_op_info[op].rule == FR_RULE_SELECT;
}

uint64_t
fr_op_identity(fr_op op, fr_dtype d, int part)
{
    const fr_dtype c = fr_dtype_info[d].component;
    const int      bits = 8 * fr_dtype_size(c);
    const uint64_t sign = 1ull << (bits - 1);
    const bool     low = fr_op_info[op].identity == FR_IDENTITY_lowest;
    uint64_t       one, inf;

    switch (c) {
    case FR_F16: one = 0x3c00, inf = 0x7c00; break;
    case FR_F32: one = 0x3f800000, inf = 0x7f800000; break;
    case FR_F64: one = 0x3ffull << 52, inf = 0x7ffull << 52; break;
    default: one = 1, inf = 0; break;
    }
    if (!fr_op_picks(op))
        return fr_op_info[op].identity == FR_IDENTITY_one && part == 0 ? one : 0;
    switch (fr_dtype_kind(c)) {
    case 'f': return low ? inf | sign : inf;
    case 'i': return low ? sign : sign - 1;
    case 'b': return !low;
    default: return low ? 0 : sign | (sign - 1);
    }
}
