/* jit/loop.h -- the loop form: what one kernel does, without any size, stride, address or scalar.
 *
 * Made by jit/lower.c from a fused group; executed by backends/ref and backends/cpu, compiled by the
 * helper program, printed by emit_text.c.  Its bytes are the kernel's identity (jit/key.h), so it
 * holds nothing that differs from run to run.
 *
 * A nest runs over `rows x inner`; axes beyond these two are the launcher's business.
 *
 *     once:           SCALAR loads, level SCALAR operations
 *     for each row:
 *         for stage s = 0 .. n_stages-1:
 *             level ROW instructions of stage s               (may read REDUCE results of stages < s)
 *             for each element j of the row:
 *                 level FULL instructions of stage s; REDUCE instructions take FULL values in
 *         level ROW instructions of stage n_stages            (the last reductions' consumers)
 *
 * An instruction's stage is the first at which its arguments are there: the result of a REDUCE done
 * over stage s has level ROW and stage s + 1.  A FULL value of stage s that is used in a later
 * stage t *crosses*: with FR_NEST_ROWBUF it is kept in a row buffer (the launcher promises that a
 * row has at most FR_ROWBUF_MAX elements; fr_nest_crosses has the exact rule); without, it is
 * computed again from its loads. Both ways give the same bits.  Instructions are in topological
 * order; those of a lower stage come first.
 *
 * Softmax over rows:    %0 = load  [0] f32 FULL stage 0
 *                       %1 = reduce max %0     ROW  stage 1
 *                       %2 = subtract %0 %1    FULL stage 1      %0 crosses from 0 to 1
 *                       %3 = exp %2            FULL stage 1
 *                       %4 = reduce sum %3     ROW  stage 2
 *                       %5 = divide %3 %4      FULL stage 2      %3 crosses from 1 to 2
 *                            store [1] %5      FULL stage 2
 *
 * Order of REDUCE sum over the n elements of a row: NumPy's pairwise tree (csrc/NUMERICS.md);
 * REDUCE prod of floats: element after element; the others: any order, same result.
 * ACCUM: operand[...] = combine(operand[...], value), rows strictly in order: column reductions. Its
 * operand has row stride 0 and the launcher fills it with the identity first. */
#ifndef FR_JIT_LOOP_H
#define FR_JIT_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "core/dtype.h"
#include "ir/op.h"

enum { FR_ROWBUF_MAX = 8192,    /* elements of a row that a row buffer holds, */
       FR_ROWBUF_MORE = 64,     /* behind which a last vector may be written as a whole */
       FR_MAX_OPERANDS = 96,    /* memory operands of one nest; fusion stops there */
       FR_MAX_INSTS = 2048 };

enum fr_level { FR_LEVEL_SCALAR, FR_LEVEL_ROW, FR_LEVEL_FULL };

enum fr_inst_kind {
    FR_INST_LOAD,      /* operand -> value; level FULL reads [row, j], level ROW reads [row, 0] */
    FR_INST_SCALAR,    /* operand: index in the table of scalars; level SCALAR */
    FR_INST_IOTA,      /* i64: start + row * row_stride + j * inner_stride of the operand (no memory:
                          its pointer is the start, its strides count units) */
    FR_INST_OP,        /* op over a[0..arity-1]; CAST converts a[0] to dtype */
    FR_INST_REDUCE,    /* op is a REDUCE row; a[0] is FULL; result ROW */
    FR_INST_STORE,     /* a[0] -> operand; dtype is the operand's and the value's. op is 0, or for a STREAM
                          operand the REDUCE row that folds the rows */
    FR_INST_ACCUM,     /* op is a REDUCE row; operand = combine(operand, a[0]); level FULL */
};

struct fr_inst {       /* 16 bytes, no padding: bytes are hashed */
    uint8_t  kind;     /* enum fr_inst_kind */
    uint8_t  level;    /* enum fr_level; of a STORE and ACCUM: of the value stored */
    fr_dtype dtype;    /* of the result or stored value; of a REDUCE sum or prod that of a[0], too */
    uint8_t  stage;
    uint16_t op;       /* fr_op */
    uint16_t a[3];     /* earlier instructions */
    uint16_t operand;
    uint16_t pad;      /* zero */
};

/* How an operand moves along the inner axis. */
enum fr_access { FR_ACCESS_UNIT,     /* stride == element size */
                 FR_ACCESS_ZERO,     /* level ROW: one element per row */
                 FR_ACCESS_STRIDED,  /* any stride, also negative */
                 FR_ACCESS_BACK,     /* a FULL load; stride == -element size, of 4 bytes or more; */
                 FR_ACCESS_SECOND,   /* .. 2, */
                 FR_ACCESS_THIRD,    /* .. 3, */
                 FR_ACCESS_FOURTH }; /* .. and 4 times the element size */

/* The stride in elements where the access alone says it, else 0. */
static inline int
fr_access_step(int access)
{
    return access == FR_ACCESS_UNIT ? 1 : access == FR_ACCESS_BACK ? -1 : access >= FR_ACCESS_SECOND ? access - FR_ACCESS_SECOND + 2 : 0;
}

/* How a FULL load whose elements are so many elements apart moves: what is large enough to be shuffled has names of its own. */
static inline enum fr_access
fr_access_of(fr_dtype d, int64_t stride)
{
    if (stride == 1)
        return FR_ACCESS_UNIT;
    if (fr_dtype_size(fr_dtype_info[d].component) < 4)
        return FR_ACCESS_STRIDED;
    return stride == -1                 ? FR_ACCESS_BACK
           : stride >= 2 && stride <= 4 ? (enum fr_access)(FR_ACCESS_SECOND + stride - 2)
                                        : FR_ACCESS_STRIDED;
}

struct fr_operand {    /* 4 bytes */
    fr_dtype dtype;
    uint8_t  access;   /* enum fr_access */
    uint8_t  flags;    /* FR_OPERAND_* */
    uint8_t  schedule; /* FR_SCHEDULE_*; 0 in what lowering makes */
};
enum { FR_OPERAND_WRITTEN = 1,  /* by a STORE or ACCUM */
       FR_OPERAND_STREAM = 2 }; /* a FULL or ROW store that the launcher folds over the rows, in
                                   order, into the accumulator behind the operand */

/* What a backend has chosen for the sizes at hand; only speed depends on it. */
enum { FR_SCHEDULE_NONTEMPORAL = 1,    /* a FULL unit store of so much that the caches need not see it */
       FR_SCHEDULE_PREFETCH = 2,   /* a FULL unit load that other loads follow through the same memory, rows behind it, in a
                                   nest that folds nothing; */
       FR_SCHEDULE_PREFETCH_ROW = 4,  /* one of each row that follows */
       FR_SCHEDULE_NONTEMPORAL_CODE = 8, /* as FR_SCHEDULE_NONTEMPORAL, but for compiled code alone */
       FR_SCHEDULE_TURNED = 16,    /* a FULL load or store of a map whose elements lie side by side along the rows; */
       FR_SCHEDULE_TURNED_DEEP = 32,  /* along the last of the outer axes */
       FR_SCHEDULE_TURNED_ANY = FR_SCHEDULE_TURNED | FR_SCHEDULE_TURNED_DEEP,
       FR_SCHEDULE_NONTEMPORAL_ANY = FR_SCHEDULE_NONTEMPORAL | FR_SCHEDULE_NONTEMPORAL_CODE };

enum { FR_NEST_ROWBUF = 1,    /* a schedule, too: what crosses is kept */
       FR_NEST_REDUCES = 2,   /* has a REDUCE */
       FR_NEST_KEEPS_LOADS = 4 }; /* a schedule, beside the first: loads are kept as well, so that a row is read once */

struct fr_nest {
    uint32_t           n_insts;
    uint16_t           n_operands, n_scalars;
    uint8_t            n_stages;     /* >= 1 */
    uint8_t            flags;
    uint16_t           pad;
    fr_dtype          *scalar_dtype; /* [n_scalars] */
    struct fr_inst    *insts;
    struct fr_operand *operands;
};

/* Level, stage and operand rules as above; FR_EBUG with a message where one is broken. */
fr_status fr_nest_verify(const struct fr_nest *, struct fr_err *);
/* The nest as bytes: canonical, position-independent. Returns the length; writes when it fits. */
size_t    fr_nest_pack(const struct fr_nest *, void *out, size_t cap);
/* Back from bytes, checked as by fr_nest_verify; one fr_malloc'ed block, fr_nest_free ends it. */
fr_status fr_nest_unpack(const void *bytes, size_t n, struct fr_nest **out, struct fr_err *);
/* A nest of its own memory; the original is one that our own lowering made. */
fr_status fr_nest_copy(const struct fr_nest *, struct fr_nest **out, struct fr_err *);
void      fr_nest_free(struct fr_nest *);
/* Whether they are the same, byte for byte. */
bool      fr_nest_same(const struct fr_nest *, const struct fr_nest *);
/* One line per instruction, as in the head of this file. Returns the length needed. */
int       fr_nest_print(const struct fr_nest *, char *out, size_t cap);

/* Reads what fr_nest_print wrote, for tests; then verified as by fr_nest_unpack. */
fr_status fr_nest_parse(const char *text, struct fr_nest **out, struct fr_err *);

/* Whether places of extremes of such elements are found by comparing them as numbers. */
static inline bool
fr_nest_places_compare(fr_dtype d)
{
    return d != FR_BOOL && d != FR_F16 && !fr_dtype_is_complex(d);
}
/* Whether all that the instructions do is to find the places of extremes of what they load, of numbers that are
 * compared as such: the block kernels compare those of many rows at once, if they lie side by side. */
bool      fr_nest_finds_places(const struct fr_inst *insts, size_t n_insts);

/* Whether it computes something where there are no elements: only a reduction does, or a store of row values. */
bool      fr_nest_computes_of_nothing(const struct fr_nest *);

/* Whether rows are gone through stage by stage: else it is plain loops. */
static inline bool
fr_nest_has_stages(const struct fr_nest *nest)
{
    return nest->n_stages > 1 || (nest->flags & FR_NEST_REDUCES);
}

/* Whether the nest accumulates rows (has an ACCUM). */
bool      fr_nest_accumulates(const struct fr_nest *);

static inline bool
fr_inst_writes(const struct fr_inst *in)
{
    return in->kind == FR_INST_STORE || in->kind == FR_INST_ACCUM;
}

static inline bool
fr_inst_has_operand(const struct fr_inst *in)
{
    return in->kind == FR_INST_LOAD || in->kind == FR_INST_IOTA || fr_inst_writes(in);
}

/* How many of a[0..2] an instruction reads. */
static inline int
fr_nest_n_args(const struct fr_inst *in)
{
    if (in->kind == FR_INST_OP)
        return fr_op_info[in->op].arity;
    return in->kind == FR_INST_REDUCE || fr_inst_writes(in);
}
/* The compute dtype of OP instruction `inst` (not of a cast), as fr_recipe_op takes it. */
fr_dtype  fr_nest_compute(const struct fr_nest *, int inst);

/* ---- which instruction runs where: asked by every executor of whole rows ------------------------
 * The roots of stage s are its FULL STOREs and ACCUMs and the REDUCEs over it (whose own stage
 * is s + 1).  A FULL value is evaluated in the first stage whose roots need it, so what only the
 * last stage uses costs the others nothing.  A later stage that needs it again finds it in its row
 * buffer, except unit-stride loads whose memory nothing can have overwritten yet (unless FR_NEST_KEEPS_LOADS), and iota: those
 * cost no more than a buffer and are evaluated in each stage.  Without row buffers each stage
 * evaluates all that it needs.  These functions expect a verified nest and cannot fail. */

/* runs[i] (of n_insts) = 1 for each FULL value, STORE and ACCUM that the loop over stage `stage`
 * evaluates and each REDUCE over it; `rowbuf` false: as if FR_NEST_ROWBUF were not set
 * (frit_stages). */
void      fr_nest_stage_runs(const struct fr_nest *, int stage, bool rowbuf, uint8_t *runs);
/* Whether the value of FULL instruction `inst` crosses, that is, has a row buffer. */
bool      fr_nest_crosses(const struct fr_nest *, int inst);
/* Bytes of scratch that frit_rows needs: for each crossing value, in instruction order, one row
 * buffer of FR_ROWBUF_MAX + FR_ROWBUF_MORE elements as they are in memory; each begins at a multiple of 64 bytes. */
size_t    fr_nest_scratch(const struct fr_nest *);
/* Where in scratch the row buffer of `inst` begins; SIZE_MAX if it does not cross. */
size_t    fr_nest_rowbuf(const struct fr_nest *, int inst);

/* ---- machine code of a nest ------------------------------------------------------------------
 * A compiled nest exports `frit_rows` and, if it reduces, `frit_stages`: a table of n_stages
 * fr_stage_fn followed by n_stages + 1 fr_mid_fn. */

/* Runs rows [0, n_rows) completely. ptr[k] is operand k at row 0, element 0; strides are in bytes.
 * `scalars` is an array of 16-byte slots. scratch holds fr_nest_scratch() bytes, 64-byte aligned. */
typedef void fr_rows_fn(char *const *ptr, const int64_t *row_stride, const int64_t *inner_stride,
                        int64_t n_rows, int64_t n_inner, const void *scalars, void *scratch);

/* A 32-byte slot: a ROW value, or the partial result of a REDUCE (with the index of argmax). */
struct fr_slot {
    union { double f64; float f32; uint64_t u64; int64_t i64; double c128[2]; float c64[2];
            uint8_t bytes[16]; } v;
    int64_t index;
    int64_t pad;
};

/* Long rows: elements [j0, j0 + n) of one row, stage s. Partial results of that range go to
 * slots_out[i] for each REDUCE instruction i over the stage; ROW values are read from slots[i].
 * The partial result of a sum is the pairwise tree of exactly these elements (the row's result
 * is 0.0 + the tree of all); sum and prod of f16 are f32 numbers here; argmax and argmin leave the value
 * in v and its element, counted from the row's first, in index. In `slots` a result is final: of
 * the instruction's dtype, at the beginning of v. */
typedef void fr_stage_fn(char *const *ptr, const int64_t *inner_stride, int64_t j0, int64_t n,
                         const void *scalars, const struct fr_slot *slots,
                         struct fr_slot *slots_out, void *scratch);
/* The ROW instructions of stage s (s == n_stages: after the last loop), slots to slots and memory. */
typedef void fr_mid_fn(char *const *ptr, const void *scalars, struct fr_slot *slots);

struct fr_nest_code {
    fr_rows_fn  *rows;
    /* Both NULL if the nest has no REDUCE, or has row buffers: its rows are short, and run whole. */
    fr_stage_fn *const *stage;   /* [n_stages] */
    fr_mid_fn   *const *mid;     /* [n_stages + 1] */
};

#endif
