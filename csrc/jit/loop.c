/* jit/loop.c -- nests: their rules, their bytes, their text, and what runs in which stage. */
#include "jit/loop.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

static const char *const kind_name[] = {"load", "scalar", "iota", "op", "reduce", "store", "accum"};
static const char *const level_name[] = {"SCALAR", "ROW", "FULL"};
static const char *const access_name[] = {"unit", "zero", "strided", "back", "second", "third", "fourth"};

/* Words of text that stand for bits. */
struct bit {
    const char *word;
    unsigned    bit;
};
static const struct bit nest_bits[] = {{"rowbuf", FR_NEST_ROWBUF}, {"reduces", FR_NEST_REDUCES}, {"keeps_loads", FR_NEST_KEEPS_LOADS}};
static const struct bit flag_bits[] = {{"written", FR_OPERAND_WRITTEN}, {"stream", FR_OPERAND_STREAM}};
static const struct bit schedule_bits[] = {{"nontemporal", FR_SCHEDULE_NONTEMPORAL},
                                           {"nontemporal-code", FR_SCHEDULE_NONTEMPORAL_CODE},
                                           {"prefetch", FR_SCHEDULE_PREFETCH}, {"prefetch-row", FR_SCHEDULE_PREFETCH_ROW},
                                           {"turned", FR_SCHEDULE_TURNED}, {"turned-deep", FR_SCHEDULE_TURNED_DEEP}};

fr_dtype
fr_nest_compute(const struct fr_nest *nest, int inst)
{
    const struct fr_inst *in = &nest->insts[inst];
    int                   k = fr_op_compute_arg(in->op);

    return k < 0 ? in->dtype : nest->insts[in->a[k]].dtype;
}

/* ---- which instruction runs where ------------------------------------------------------------ */

/* The first stages whose loop, and whose ROW level, write anything that may be an operand; above all if none does.
 * What is streamed into accumulators goes to memory of its own. */
struct first_writes {
    int full, row;
};

static struct first_writes
find_writes(const struct fr_nest *nest)
{
    struct first_writes first = {UINT8_MAX + 1, UINT8_MAX + 1};

    for (uint32_t i = nest->n_insts; i-- > 0;) {
        const struct fr_inst *in = &nest->insts[i];

        /* Stages do not fall, so the last one seen is the first. */
        if (fr_inst_writes(in) && !(nest->operands[in->operand].flags & FR_OPERAND_STREAM))
            *(in->level == FR_LEVEL_FULL ? &first.full : &first.row) = in->stage;
    }
    return first;
}

/* Whether FULL value `in` is as cheap to make again in stage t as to keep.  Memory must not
 * have been written by then: an output may be an input. */
static bool
is_free_again(const struct fr_nest *nest, const struct fr_inst *in, int t, struct first_writes first)
{
    if (in->kind == FR_INST_IOTA)
        return true;
    return in->kind == FR_INST_LOAD && !(nest->flags & FR_NEST_KEEPS_LOADS) && nest->operands[in->operand].access == FR_ACCESS_UNIT &&
           first.full >= t && first.row > t;
}

static inline bool
is_root(const struct fr_inst *in, int stage)
{
    if (in->kind < FR_INST_REDUCE)
        return false;
    if (in->kind == FR_INST_REDUCE)
        return in->stage == stage + 1;
    return fr_inst_writes(in) && in->level == FR_LEVEL_FULL && in->stage == stage;
}

/* Walks the stages up to and including `last`, as which runs[] is left. done[i]: an earlier stage
 * evaluated FULL value i; crosses[i]: and a later one needs it from its row buffer. Without those a
 * stage does not depend on the others. */
static void
walk_stages(const struct fr_nest *nest, int last, bool rowbuf, uint8_t *runs, uint8_t *crosses)
{
    struct first_writes first = {0};
    uint8_t             done[FR_MAX_INSTS];

    FR_ASSERT(last < nest->n_stages && nest->n_insts <= FR_MAX_INSTS);
    rowbuf = rowbuf && (nest->flags & FR_NEST_ROWBUF);
    if (rowbuf)
        first = find_writes(nest);
    memset(done, 0, nest->n_insts);
    memset(crosses, 0, nest->n_insts);
    for (int s = rowbuf ? 0 : last; s <= last; s++) {
        memset(runs, 0, nest->n_insts);
        for (uint32_t i = nest->n_insts; i-- > 0;) {
            const struct fr_inst *in = &nest->insts[i];

            if (!runs[i] && !is_root(in, s))
                continue;
            runs[i] = 1;
            if (rowbuf && done[i] && !is_free_again(nest, in, s, first)) {
                runs[i] = 0;
                crosses[i] = 1;
                continue;
            }
            for (int k = 0, n_args = fr_nest_n_args(in); k < n_args; k++)
                if (nest->insts[in->a[k]].level == FR_LEVEL_FULL)
                    runs[in->a[k]] = 1;
        }
        for (uint32_t i = 0; i < nest->n_insts && s < last; i++)
            done[i] |= runs[i];
    }
}

void
fr_nest_stage_runs(const struct fr_nest *nest, int stage, bool rowbuf, uint8_t *runs)
{
    uint8_t crosses[FR_MAX_INSTS];

    walk_stages(nest, stage, rowbuf, runs, crosses);
}

bool
fr_nest_finds_places(const struct fr_inst *insts, size_t n_insts)
{
    const struct fr_inst *load = insts, *in = insts + 1;

    return n_insts == 3 && load->kind == FR_INST_LOAD && load->level == FR_LEVEL_FULL && in->kind == FR_INST_REDUCE &&
           fr_op_finds_index(in->op) && fr_nest_places_compare(load->dtype) &&
           in[1].kind == FR_INST_STORE;
}

bool
fr_nest_computes_of_nothing(const struct fr_nest *nest)
{
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        if (in->kind == FR_INST_REDUCE || in->kind == FR_INST_ACCUM ||
            (in->kind == FR_INST_STORE &&
             (in->level != FR_LEVEL_FULL || nest->operands[in->operand].flags & FR_OPERAND_STREAM)))
            return true;
    }
    return false;
}

bool
fr_nest_accumulates(const struct fr_nest *nest)
{
    for (uint32_t i = 0; i < nest->n_insts; i++)
        if (nest->insts[i].kind == FR_INST_ACCUM)
            return true;
    return false;
}

bool
fr_nest_crosses(const struct fr_nest *nest, int inst)
{
    return fr_nest_rowbuf(nest, inst) != SIZE_MAX;
}

/* Bytes of the row buffers of instructions before `inst`; SIZE_MAX if that one has none. */
static size_t
rowbuf_before(const struct fr_nest *nest, uint32_t inst)
{
    uint8_t runs[FR_MAX_INSTS], crosses[FR_MAX_INSTS];
    size_t  n = 0;

    if (!(nest->flags & FR_NEST_ROWBUF))
        return inst < nest->n_insts ? SIZE_MAX : 0;
    walk_stages(nest, nest->n_stages - 1, true, runs, crosses);
    if (inst < nest->n_insts && !crosses[inst])
        return SIZE_MAX;
    for (uint32_t i = 0; i < inst && i < nest->n_insts; i++)
        if (crosses[i])
            n += (size_t)(FR_ROWBUF_MAX + FR_ROWBUF_MORE) * (size_t)fr_dtype_size(nest->insts[i].dtype);
    return n;
}

size_t
fr_nest_rowbuf(const struct fr_nest *nest, int inst)
{
    return rowbuf_before(nest, (uint32_t)inst);
}

size_t
fr_nest_scratch(const struct fr_nest *nest)
{
    return rowbuf_before(nest, nest->n_insts);
}

/* ---- the rules: one function each ------------------------------------------------------------ */

static fr_status
broken(struct fr_err *err, const struct fr_nest *nest, uint32_t i, const char *fmt, ...)
{
    const struct fr_inst *in = &nest->insts[i];
    char                  why[200];
    va_list               ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return fr_fail(err, FR_EBUG, "nest: %%%u (%s): %s", i,
                   in->kind < FR_LEN(kind_name) ? kind_name[in->kind] : "?", why);
}

static fr_status
check_sizes(const struct fr_nest *n, struct fr_err *err)
{
    if (n->n_insts < 1 || n->n_insts > FR_MAX_INSTS)
        return fr_fail(err, FR_EBUG, "nest: %u instructions", n->n_insts);
    if (n->n_operands > FR_MAX_OPERANDS || n->n_scalars > FR_MAX_INSTS)
        return fr_fail(err, FR_EBUG, "nest: %u operands, %u scalars", n->n_operands, n->n_scalars);
    if (n->n_stages < 1 || n->n_stages == UINT8_MAX)
        return fr_fail(err, FR_EBUG, "nest: %u stages", n->n_stages);
    if ((n->flags & ~(FR_NEST_ROWBUF | FR_NEST_REDUCES | FR_NEST_KEEPS_LOADS)) || n->pad)
        return fr_fail(err, FR_EBUG, "nest: flags %#x, pad %u", n->flags, n->pad);
    return FR_OK;
}

enum { ROWS_OF_A_STENCIL = FR_SCHEDULE_PREFETCH | FR_SCHEDULE_PREFETCH_ROW };

static fr_status
check_operands(const struct fr_nest *n, struct fr_err *err)
{
    for (int k = 0; k < n->n_scalars; k++)
        if (n->scalar_dtype[k] >= FR_N_DTYPES)
            return fr_fail(err, FR_EBUG, "nest: scalar %d has dtype %d", k, n->scalar_dtype[k]);
    for (int k = 0; k < n->n_operands; k++) {
        const struct fr_operand *o = &n->operands[k];

        if (o->dtype >= FR_N_DTYPES || o->access > FR_ACCESS_FOURTH ||
            (o->flags & ~(FR_OPERAND_WRITTEN | FR_OPERAND_STREAM)) ||
            (o->schedule & ~(FR_SCHEDULE_NONTEMPORAL_ANY | ROWS_OF_A_STENCIL | FR_SCHEDULE_TURNED_ANY)))
            return fr_fail(err, FR_EBUG, "nest: operand %d: dtype %d, access %d, flags %#x, schedule %#x", k,
                           o->dtype, o->access, o->flags, o->schedule);
        if (o->access >= FR_ACCESS_BACK && (o->flags || fr_dtype_size(fr_dtype_info[o->dtype].component) < 4))
            return fr_fail(err, FR_EBUG, "nest: operand %d cannot be read %s", k, access_name[o->access]);
        if (o->flags == FR_OPERAND_STREAM)
            return fr_fail(err, FR_EBUG, "nest: operand %d is streamed but not written", k);
        if ((o->schedule & FR_SCHEDULE_NONTEMPORAL_ANY) &&
            (o->flags != FR_OPERAND_WRITTEN || (o->schedule != FR_SCHEDULE_NONTEMPORAL && o->schedule != FR_SCHEDULE_NONTEMPORAL_CODE) ||
             o->access != FR_ACCESS_UNIT))
            return fr_fail(err, FR_EBUG, "nest: operand %d cannot be stored past the caches", k);
        if ((o->schedule & ROWS_OF_A_STENCIL) &&
            (o->flags || (o->schedule != FR_SCHEDULE_PREFETCH && o->schedule != FR_SCHEDULE_PREFETCH_ROW) || o->access != FR_ACCESS_UNIT))
            return fr_fail(err, FR_EBUG, "nest: operand %d cannot be read ahead of others, or behind", k);
        if (o->schedule & FR_SCHEDULE_TURNED_ANY &&
            ((o->schedule != FR_SCHEDULE_TURNED && o->schedule != FR_SCHEDULE_TURNED_DEEP) || o->flags & FR_OPERAND_STREAM || o->access == FR_ACCESS_UNIT || o->access == FR_ACCESS_ZERO))
            return fr_fail(err, FR_EBUG, "nest: operand %d cannot be turned", k);
    }
    return FR_OK;
}

/* Fields hold what they may; those that a kind does not use are zero: equal nests, equal bytes. */
static fr_status
check_fields(const struct fr_nest *n, uint32_t i, struct fr_err *err)
{
    const struct fr_inst *in = &n->insts[i];
    bool                  streams = in->kind == FR_INST_STORE && in->operand < n->n_operands &&
                   n->operands[in->operand].flags & FR_OPERAND_STREAM;
    bool                  has_op = in->kind == FR_INST_OP || in->kind == FR_INST_REDUCE ||
                  in->kind == FR_INST_ACCUM || streams;

    if (in->kind >= FR_LEN(kind_name) || in->level > FR_LEVEL_FULL || in->dtype >= FR_N_DTYPES || in->pad)
        return broken(err, n, i, "kind %d, level %d, dtype %d, pad %d", in->kind, in->level, in->dtype, in->pad);
    if (has_op ? in->op >= FR_N_OPS : in->op != 0)
        return broken(err, n, i, "op %d", in->op);
    if (streams && !fr_op_reduces(in->op))
        return broken(err, n, i, "streams into %s", fr_op_info[in->op].name);
    if (in->kind == FR_INST_OP && !fr_op_by_element(in->op))
        return broken(err, n, i, "%s is no element-wise operation", fr_op_info[in->op].name);
    if (has_op && in->kind != FR_INST_OP && !fr_op_reduces(in->op))
        return broken(err, n, i, "%s is no reduction", fr_op_info[in->op].name);
    if (fr_inst_has_operand(in) && in->operand >= n->n_operands)
        return broken(err, n, i, "operand %d of %d", in->operand, n->n_operands);
    if (in->kind == FR_INST_SCALAR && in->operand >= n->n_scalars)
        return broken(err, n, i, "scalar %d of %d", in->operand, n->n_scalars);
    if (!fr_inst_has_operand(in) && in->kind != FR_INST_SCALAR && in->operand)
        return broken(err, n, i, "operand %d of an instruction without one", in->operand);
    for (int k = fr_nest_n_args(in); k < 3; k++)
        if (in->a[k])
            return broken(err, n, i, "argument %d of %d", k, fr_nest_n_args(in));
    return FR_OK;
}

static fr_status
check_arguments(const struct fr_nest *n, uint32_t i, struct fr_err *err)
{
    const struct fr_inst *in = &n->insts[i];

    for (int k = 0; k < fr_nest_n_args(in); k++) {
        if (in->a[k] >= i)
            return broken(err, n, i, "argument %%%d does not come before it", in->a[k]);
        if (fr_inst_writes(&n->insts[in->a[k]]))
            return broken(err, n, i, "argument %%%d has no value", in->a[k]);
    }
    return FR_OK;
}

static fr_status
check_level(const struct fr_nest *n, uint32_t i, struct fr_err *err)
{
    const struct fr_inst *in = &n->insts[i];
    bool                  ok;

    switch (in->kind) {
    case FR_INST_SCALAR:
        ok = in->level == FR_LEVEL_SCALAR;
        break;
    case FR_INST_REDUCE:
        ok = in->level == FR_LEVEL_ROW && n->insts[in->a[0]].level == FR_LEVEL_FULL;
        return ok ? FR_OK : broken(err, n, i, "reduces %s to %s",
                                   level_name[n->insts[in->a[0]].level], level_name[in->level]);
    case FR_INST_ACCUM:
        ok = in->level == FR_LEVEL_FULL;
        break;
    case FR_INST_OP:
        ok = true;
        break;
    default:
        ok = in->level != FR_LEVEL_SCALAR;
        break;
    }
    if (!ok)
        return broken(err, n, i, "level %s", level_name[in->level]);
    for (int k = 0; k < fr_nest_n_args(in); k++)
        if (n->insts[in->a[k]].level > in->level)
            return broken(err, n, i, "level %s below that of %%%d", level_name[in->level], in->a[k]);
    return FR_OK;
}

static fr_status
check_stage(const struct fr_nest *n, uint32_t i, struct fr_err *err)
{
    const struct fr_inst *in = &n->insts[i];
    int                   last = in->level == FR_LEVEL_FULL  ? n->n_stages - 1
                                 : in->level == FR_LEVEL_ROW ? n->n_stages
                                                             : 0;

    if (in->stage > last)
        return broken(err, n, i, "stage %d of %d at level %s", in->stage, n->n_stages, level_name[in->level]);
    if (i && in->stage < n->insts[i - 1].stage)
        return broken(err, n, i, "stage %d after stage %d", in->stage, n->insts[i - 1].stage);
    for (int k = 0; k < fr_nest_n_args(in); k++)
        if (in->stage < n->insts[in->a[k]].stage + (in->kind == FR_INST_REDUCE))
            return broken(err, n, i, "stage %d, but %%%d has stage %d", in->stage, in->a[k],
                          n->insts[in->a[k]].stage);
    return FR_OK;
}

static fr_status
check_dtypes(const struct fr_nest *n, uint32_t i, struct fr_err *err)
{
    const struct fr_inst    *in = &n->insts[i];
    const struct fr_op_info *info = &fr_op_info[in->op];
    const fr_dtype           arg = fr_nest_n_args(in) ? n->insts[in->a[0]].dtype : in->dtype;
    fr_dtype                 want = in->dtype;

    switch (in->kind) {
    case FR_INST_LOAD:
    case FR_INST_STORE:
        want = n->operands[in->operand].dtype;
        break;
    case FR_INST_SCALAR:
        want = n->scalar_dtype[in->operand];
        break;
    case FR_INST_IOTA:
        want = FR_I64;
        break;
    case FR_INST_OP:
        if (in->op == FR_OP_cast)
            return FR_OK;
        want = fr_nest_compute(n, (int)i);
        if (!fr_op_takes(in->op, want))
            return broken(err, n, i, "no %s of %s", info->name, fr_dtype_code(want));
        for (int k = 0; k < info->arity; k++)
            if (n->insts[in->a[k]].dtype != fr_op_arg(in->op, k, want))
                return broken(err, n, i, "argument %%%d is %s", in->a[k], fr_dtype_code(n->insts[in->a[k]].dtype));
        want = fr_op_result(in->op, want);
        break;
    case FR_INST_REDUCE:
    case FR_INST_ACCUM:
        if (!fr_op_takes(in->op, arg))
            return broken(err, n, i, "no %s of %s", info->name, fr_dtype_code(arg));
        want = info->rule == FR_RULE_SUM ? arg : fr_op_result(in->op, arg); /* any widening is a cast of its own */
        break;
    }
    if (in->dtype != want)
        return broken(err, n, i, "dtype %s, must be %s", fr_dtype_code(in->dtype), fr_dtype_code(want));
    if (fr_inst_writes(in) && arg != in->dtype)
        return broken(err, n, i, "dtype %s of a value of %s", fr_dtype_code(in->dtype), fr_dtype_code(arg));
    return FR_OK;
}

static fr_status
check_memory(const struct fr_nest *n, uint32_t i, struct fr_err *err)
{
    const struct fr_inst    *in = &n->insts[i];
    const struct fr_operand *o = &n->operands[in->operand];

    if (!fr_inst_has_operand(in))
        return FR_OK;
    if (o->dtype != in->dtype)
        return broken(err, n, i, "operand %d is %s", in->operand, fr_dtype_code(o->dtype));
    if (in->kind != FR_INST_IOTA && (in->level == FR_LEVEL_ROW) != (o->access == FR_ACCESS_ZERO))
        return broken(err, n, i, "level %s, but operand %d has access %s", level_name[in->level],
                      in->operand, access_name[o->access]);
    if (o->schedule & FR_SCHEDULE_TURNED_ANY && (in->kind == FR_INST_IOTA || in->kind == FR_INST_ACCUM || fr_nest_has_stages(n)))
        return broken(err, n, i, "operand %d is turned, but no map's", in->operand);
    if (!fr_inst_writes(in))
        return FR_OK;
    if (!(o->flags & FR_OPERAND_WRITTEN))
        return broken(err, n, i, "operand %d is not marked as written", in->operand);
    if (in->kind == FR_INST_ACCUM &&
        ((o->flags & FR_OPERAND_STREAM) || (o->schedule & FR_SCHEDULE_NONTEMPORAL_ANY) ||
         fr_op_finds_index(in->op)))
        return broken(err, n, i, "%s cannot accumulate into operand %d", fr_op_info[in->op].name, in->operand);
    for (uint32_t j = 0; j < i; j++)
        if (fr_inst_writes(&n->insts[j]) && n->insts[j].operand == in->operand)
            return broken(err, n, i, "operand %d is already written by %%%u", in->operand, j);
    return FR_OK;
}

static fr_status
check_flags(const struct fr_nest *n, struct fr_err *err)
{
    bool reduces = false;

    for (uint32_t i = 0; i < n->n_insts; i++)
        reduces |= n->insts[i].kind == FR_INST_REDUCE;
    if (reduces != !!(n->flags & FR_NEST_REDUCES))
        return fr_fail(err, FR_EBUG, "nest: %s reduction, but flags %#x", reduces ? "a" : "no",
                       n->flags);
    for (int k = 0; k < n->n_operands; k++) {
        bool written = false;

        for (uint32_t i = 0; i < n->n_insts; i++)
            written |= fr_inst_writes(&n->insts[i]) && n->insts[i].operand == k;
        if (!written && (n->operands[k].flags & FR_OPERAND_WRITTEN))
            return fr_fail(err, FR_EBUG, "nest: nothing writes operand %d", k);
    }
    return FR_OK;
}

fr_status
fr_nest_verify(const struct fr_nest *n, struct fr_err *err)
{
    fr_status st;

    TRY(check_sizes(n, err));
    TRY(check_operands(n, err));
    for (uint32_t i = 0; i < n->n_insts; i++) {
        TRY(check_fields(n, i, err));
        TRY(check_arguments(n, i, err));
        TRY(check_level(n, i, err));
        TRY(check_stage(n, i, err));
        TRY(check_dtypes(n, i, err));
        TRY(check_memory(n, i, err));
    }
    TRY(check_flags(n, err));
out:
    return st;
}

/* ---- bytes ------------------------------------------------------------------------------------
 *     "FRN1"  u32 n_insts  u16 n_operands  u16 n_scalars  u8 n_stages  u8 flags  u16 zero
 *     n_scalars bytes, n_operands * 4 bytes, n_insts * 16 bytes, nothing after
 * Integers are little-endian. The magic counts up when an instruction changes its meaning. */

enum { HEAD_BYTES = 16, OPERAND_BYTES = 4, INST_BYTES = 16 };
static const char magic[4] = {'F', 'R', 'N', '1'};

static uint8_t *
put16(uint8_t *p, unsigned v)
{
    *p++ = (uint8_t)v;
    *p++ = (uint8_t)(v >> 8);
    return p;
}

static unsigned get16(const uint8_t *p) { return p[0] | (unsigned)p[1] << 8; }

static size_t
packed_bytes(size_t n_insts, size_t n_operands, size_t n_scalars)
{
    return HEAD_BYTES + n_scalars + n_operands * OPERAND_BYTES + n_insts * INST_BYTES;
}

size_t
fr_nest_pack(const struct fr_nest *nest, void *out, size_t cap)
{
    size_t   n = packed_bytes(nest->n_insts, nest->n_operands, nest->n_scalars);
    uint8_t *p = out;

    if (n > cap)
        return n;
    memcpy(p, magic, sizeof magic);
    p = put16(p + sizeof magic, nest->n_insts & 0xffff);
    p = put16(p, nest->n_insts >> 16);
    p = put16(p, nest->n_operands);
    p = put16(p, nest->n_scalars);
    *p++ = nest->n_stages;
    *p++ = nest->flags;
    p = put16(p, 0);
    for (int k = 0; k < nest->n_scalars; k++)
        *p++ = (uint8_t)nest->scalar_dtype[k];
    for (int k = 0; k < nest->n_operands; k++) {
        const struct fr_operand *o = &nest->operands[k];

        *p++ = (uint8_t)o->dtype;
        *p++ = o->access;
        *p++ = o->flags;
        *p++ = o->schedule;
    }
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        *p++ = in->kind;
        *p++ = in->level;
        *p++ = (uint8_t)in->dtype;
        *p++ = in->stage;
        p = put16(p, in->op);
        for (int k = 0; k < 3; k++)
            p = put16(p, in->a[k]);
        p = put16(p, in->operand);
        p = put16(p, 0);
    }
    return n;
}

/* A nest with its arrays in one zeroed block. */
static struct fr_nest *
nest_new(uint32_t n_insts, unsigned n_operands, unsigned n_scalars)
{
    size_t          at_insts = (sizeof(struct fr_nest) + 15) & ~(size_t)15;
    size_t          at_operands = at_insts + n_insts * sizeof(struct fr_inst);
    size_t          at_scalars = at_operands + n_operands * sizeof(struct fr_operand);
    char           *block = fr_calloc(1, at_scalars + n_scalars * sizeof(fr_dtype));
    struct fr_nest *nest = (struct fr_nest *)block;

    if (!nest)
        return NULL;
    nest->n_insts = n_insts;
    nest->n_operands = (uint16_t)n_operands;
    nest->n_scalars = (uint16_t)n_scalars;
    nest->insts = (struct fr_inst *)(block + at_insts);
    nest->operands = (struct fr_operand *)(block + at_operands);
    nest->scalar_dtype = (fr_dtype *)(block + at_scalars);
    return nest;
}

fr_status
fr_nest_unpack(const void *bytes, size_t n, struct fr_nest **out, struct fr_err *err)
{
    const uint8_t  *p = bytes;
    struct fr_nest *nest = NULL;
    uint32_t        n_insts;
    unsigned        n_operands, n_scalars;
    fr_status       st = FR_OK;

    if (n < HEAD_BYTES || memcmp(p, magic, sizeof magic))
        return fr_fail(err, FR_EBUG, "nest: %zu bytes that do not begin as a nest does", n);
    n_insts = get16(p + 4) | (uint32_t)get16(p + 6) << 16;
    n_operands = get16(p + 8);
    n_scalars = get16(p + 10);
    /* The counts decide how much is allocated, so they are checked before they are believed. */
    if (n_insts > FR_MAX_INSTS || n_operands > FR_MAX_OPERANDS || n_scalars > FR_MAX_INSTS ||
        n != packed_bytes(n_insts, n_operands, n_scalars))
        return fr_fail(err, FR_EBUG, "nest: %zu bytes for %u instructions, %u operands, %u scalars",
                       n, n_insts, n_operands, n_scalars);
    if (!(nest = nest_new(n_insts, n_operands, n_scalars)))
        return fr_fail(err, FR_ENOMEM, "nest of %u instructions", n_insts);
    nest->n_stages = p[12];
    nest->flags = p[13];
    nest->pad = (uint16_t)get16(p + 14);
    p += HEAD_BYTES;
    for (unsigned k = 0; k < n_scalars; k++)
        nest->scalar_dtype[k] = (fr_dtype)*p++;
    for (unsigned k = 0; k < n_operands; k++, p += OPERAND_BYTES)
        nest->operands[k] = (struct fr_operand){(fr_dtype)p[0], p[1], p[2], p[3]};
    for (uint32_t i = 0; i < n_insts; i++, p += INST_BYTES)
        nest->insts[i] = (struct fr_inst){
            .kind = p[0],
            .level = p[1],
            .dtype = (fr_dtype)p[2],
            .stage = p[3],
            .op = (uint16_t)get16(p + 4),
            .a = {(uint16_t)get16(p + 6), (uint16_t)get16(p + 8), (uint16_t)get16(p + 10)},
            .operand = (uint16_t)get16(p + 12),
            .pad = (uint16_t)get16(p + 14),
        };
    TRY(fr_nest_verify(nest, err));
    *out = nest;
    nest = NULL;
out:
    fr_nest_free(nest);
    return st;
}

fr_status
fr_nest_copy(const struct fr_nest *from, struct fr_nest **out, struct fr_err *err)
{
    struct fr_nest *nest = nest_new(from->n_insts, from->n_operands, from->n_scalars);

    FR_ASSERT(fr_nest_verify(from, NULL) == FR_OK); /* the helper program would refuse it */
    if (!nest)
        return fr_fail(err, FR_ENOMEM, "nest of %u instructions", from->n_insts);
    nest->n_stages = from->n_stages;
    nest->flags = from->flags;
    nest->pad = from->pad;
    if (from->n_insts > 0)
        memcpy(nest->insts, from->insts, from->n_insts * sizeof from->insts[0]);
    if (from->n_operands > 0)
        memcpy(nest->operands, from->operands, from->n_operands * sizeof from->operands[0]);
    if (from->n_scalars > 0)
        memcpy(nest->scalar_dtype, from->scalar_dtype, from->n_scalars * sizeof from->scalar_dtype[0]);
    *out = nest;
    return FR_OK;
}

void
fr_nest_free(struct fr_nest *nest)
{
    fr_free(nest);
}

bool
fr_nest_same(const struct fr_nest *a, const struct fr_nest *b)
{
    return a->n_insts == b->n_insts && a->n_operands == b->n_operands &&
           a->n_scalars == b->n_scalars && a->n_stages == b->n_stages && a->flags == b->flags &&
           !memcmp(a->insts, b->insts, a->n_insts * sizeof *a->insts) &&
           !memcmp(a->operands, b->operands, a->n_operands * sizeof *a->operands) &&
           !memcmp(a->scalar_dtype, b->scalar_dtype, a->n_scalars * sizeof *a->scalar_dtype);
}

/* ---- text --------------------------------------------------------------------------------------
 *     nest 3 stages rowbuf reduces
 *     [0] f32 unit
 *     [1] f32 unit written
 *     $0 f64
 *     %0 = load [0] f32 FULL stage 0
 *     %1 = reduce max %0 f32 ROW stage 1
 *     %2 = scalar $0 f64 SCALAR stage 0
 *     %7 = store [1] %6 f32 FULL stage 2 */

static void
print_inst(struct fr_text *o, const struct fr_nest *nest, uint32_t i)
{
    const struct fr_inst *in = &nest->insts[i];

    fr_text_put(o, "%%%u = ", i);
    if (in->kind == FR_INST_OP)
        fr_text_put(o, "%s", fr_op_info[in->op].name);
    else
        fr_text_put(o, "%s", kind_name[in->kind]);
    if (in->kind == FR_INST_REDUCE || in->kind == FR_INST_ACCUM ||
        (in->kind == FR_INST_STORE && in->op))     /* streams */
        fr_text_put(o, " %s", fr_op_info[in->op].name);
    if (fr_inst_has_operand(in))
        fr_text_put(o, " [%d]", in->operand);
    if (in->kind == FR_INST_SCALAR)
        fr_text_put(o, " $%d", in->operand);
    for (int k = 0; k < fr_nest_n_args(in); k++)
        fr_text_put(o, " %%%d", in->a[k]);
    fr_text_put(o, " %s %s stage %d\n", fr_dtype_code(in->dtype), level_name[in->level], in->stage);
}

static void
print_bits(struct fr_text *o, unsigned bits, const struct bit *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bits & b[i].bit)
            fr_text_put(o, " %s", b[i].word);
}

int
fr_nest_print(const struct fr_nest *nest, char *out, size_t cap)
{
    struct fr_text o = {out, cap, 0};

    fr_text_put(&o, "nest %d stage%s", nest->n_stages, nest->n_stages == 1 ? "" : "s");
    print_bits(&o, nest->flags, nest_bits, FR_LEN(nest_bits));
    fr_text_put(&o, "\n");
    for (int k = 0; k < nest->n_operands; k++) {
        fr_text_put(&o, "[%d] %s %s", k, fr_dtype_code(nest->operands[k].dtype), access_name[nest->operands[k].access]);
        print_bits(&o, nest->operands[k].flags, flag_bits, FR_LEN(flag_bits));
        print_bits(&o, nest->operands[k].schedule, schedule_bits, FR_LEN(schedule_bits));
        fr_text_put(&o, "\n");
    }
    for (int k = 0; k < nest->n_scalars; k++)
        fr_text_put(&o, "$%d %s\n", k, fr_dtype_code(nest->scalar_dtype[k]));
    for (uint32_t i = 0; i < nest->n_insts; i++)
        print_inst(&o, nest, i);
    return o.len;
}

/* A reader of one line, word by word; `ok` falls at the first thing that does not fit. */
struct line {
    const char *p, *end;
    bool        ok;
};

/* The next word and its length; 0 at the end. */
static int
word(struct line *l, const char **w)
{
    while (l->p < l->end && (*l->p == ' ' || *l->p == '\t'))
        l->p++;
    *w = l->p;
    while (l->p < l->end && *l->p != ' ' && *l->p != '\t')
        l->p++;
    return (int)(l->p - *w);
}

static bool
is_word(const char *w, int n, const char *text)
{
    return (int)strlen(text) == n && !memcmp(w, text, (size_t)n);
}

static int
one_of(struct line *l, const char *const *names, int n_names)
{
    const char *w;
    int         n = word(l, &w);

    for (int i = 0; i < n_names; i++)
        if (is_word(w, n, names[i]))
            return i;
    l->ok = false;
    return 0;
}

/* A number of at most 5 digits between `open` and, unless that is 0, `close`. */
static int
number(struct line *l, char open, char close)
{
    const char *w;
    int         n = word(l, &w), v = 0, i = 0;

    if (open && (n < 1 || w[i++] != open))
        l->ok = false;
    if (close && (n < 1 || w[--n] != close))
        l->ok = false;
    if (i >= n || n - i > 5)
        l->ok = false;
    for (; l->ok && i < n; i++) {
        l->ok = w[i] >= '0' && w[i] <= '9';
        v = v * 10 + (w[i] - '0');
    }
    return l->ok ? v : 0;
}

static fr_dtype
parse_dtype(struct line *l)
{
    const char *w;
    int         n = word(l, &w);
    fr_dtype    d = fr_dtype_parse(w, n);

    l->ok &= d < FR_N_DTYPES;
    return d < FR_N_DTYPES ? d : FR_BOOL;
}

static bool
next_is(struct line *l, const char *text)
{
    struct line save = *l;
    const char *w;
    int         n = word(l, &w);

    if (is_word(w, n, text))
        return true;
    *l = save;
    return false;
}

static uint8_t
parse_bits(struct line *l, const struct bit *b, size_t n)
{
    unsigned bits = 0;

    for (size_t i = 0; i < n; i++)
        if (next_is(l, b[i].word))
            bits |= b[i].bit;
    return (uint8_t)bits;
}

static void
parse_head(struct line *l, struct fr_nest *nest)
{
    nest->n_stages = (uint8_t)number(l, 0, 0);
    l->ok &= next_is(l, "stages") || next_is(l, "stage");
    nest->flags = parse_bits(l, nest_bits, FR_LEN(nest_bits));
}

static void
parse_operand(struct line *l, struct fr_nest *nest)
{
    struct fr_operand *o = &nest->operands[nest->n_operands];

    l->ok &= number(l, '[', ']') == nest->n_operands++;
    o->dtype = parse_dtype(l);
    o->access = (uint8_t)one_of(l, access_name, FR_LEN(access_name));
    o->flags = parse_bits(l, flag_bits, FR_LEN(flag_bits));
    o->schedule = parse_bits(l, schedule_bits, FR_LEN(schedule_bits));
}

static void
parse_inst(struct line *l, struct fr_nest *nest)
{
    struct fr_inst *in = &nest->insts[nest->n_insts];
    const char     *w;
    int             n;

    l->ok &= number(l, '%', 0) == (int)nest->n_insts && next_is(l, "=");
    n = word(l, &w);
    in->kind = FR_INST_OP;
    for (int k = 0; k < (int)FR_LEN(kind_name); k++)
        if (is_word(w, n, kind_name[k]))
            in->kind = (uint8_t)k;
    if (in->kind == FR_INST_REDUCE || in->kind == FR_INST_ACCUM)
        n = word(l, &w);
    if (in->kind == FR_INST_STORE) {
        struct line save = *l;
        int         m = word(l, &w);

        if (m && w[0] != '[')
            n = m;
        else
            *l = save;
    }
    if (in->kind == FR_INST_OP || in->kind == FR_INST_REDUCE || in->kind == FR_INST_ACCUM ||
        (in->kind == FR_INST_STORE && w[0] != '[')) {
        fr_op op = fr_op_find(w, n);

        l->ok &= op < FR_N_OPS;
        in->op = op < FR_N_OPS ? op : 0;
    }
    if (fr_inst_has_operand(in))
        in->operand = (uint16_t)number(l, '[', ']');
    if (in->kind == FR_INST_SCALAR)
        in->operand = (uint16_t)number(l, '$', 0);
    for (int k = 0; k < fr_nest_n_args(in); k++)
        in->a[k] = (uint16_t)number(l, '%', 0);
    in->dtype = parse_dtype(l);
    in->level = (uint8_t)one_of(l, level_name, FR_LEN(level_name));
    l->ok &= next_is(l, "stage");
    in->stage = (uint8_t)number(l, 0, 0);
    nest->n_insts++;
}

fr_status
fr_nest_parse(const char *text, struct fr_nest **out, struct fr_err *err)
{
    struct fr_nest *big = nest_new(FR_MAX_INSTS + 1, FR_MAX_OPERANDS + 1, FR_MAX_INSTS + 1);
    fr_status       st = FR_OK;
    int             n_line = 0;

    if (!big)
        return fr_fail(err, FR_ENOMEM, "nest from text");
    big->n_insts = big->n_operands = big->n_scalars = 0;
    while (*text) {
        struct line l = {text, text + strcspn(text, "\n"), true};
        const char *w;

        text = *l.end ? l.end + 1 : l.end;
        n_line++;
        if (word(&l, &w) && *w != '#') {
            l.p = w;
            if (next_is(&l, "nest")) {
                parse_head(&l, big);
            } else if (*w == '[' && big->n_operands <= FR_MAX_OPERANDS) {
                parse_operand(&l, big);
            } else if (*w == '$' && big->n_scalars <= FR_MAX_INSTS) {
                l.ok &= number(&l, '$', 0) == big->n_scalars;
                big->scalar_dtype[big->n_scalars++] = parse_dtype(&l);
            } else if (*w == '%' && big->n_insts <= FR_MAX_INSTS) {
                parse_inst(&l, big);
            } else {
                l.ok = false;
            }
            if (!l.ok || word(&l, &w)) {
                st = fr_fail(err, FR_EVALUE, "nest: line %d cannot be read", n_line);
                goto out;
            }
        }
    }
    TRY(fr_nest_verify(big, err));
    st = fr_nest_copy(big, out, err);
out:
    fr_nest_free(big);
    return st;
}
