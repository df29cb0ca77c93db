/* jit/emit_gcc_int.h -- what the emit_gcc*.c files share: the state of one nest being compiled. */
#ifndef FR_JIT_EMIT_GCC_INT_H
#define FR_JIT_EMIT_GCC_INT_H

#include "base/status.h"
#include "jit/cc/gcc.h"
#include "jit/loop.h"

enum { MAX_BLOCK = 64, MAX_ABREAST = 8, LEAF = 128, TREE_DEPTH = 64, MAX_CHUNKS = 16,
       MAX_ROWS = 8 /* of all operands that go together: a pointer for each */ };

/* How a FULL value leaves the loop over its stage. */
enum how {
    HOW_STORE,  /* to an operand, or to a row buffer */
    HOW_TREE,   /* pairwise sum */
    HOW_SEQ,    /* one element after another: products of floats */
    HOW_LANES,  /* an accumulator per lane, any order */
    HOW_PICK,   /* the same with the place where it was found: extremes of floats, argmax */
    HOW_EXTREME,   /* the same with a note instead, which may call for HOW_PICK: max and min of floats */
};

struct sink {
    uint16_t    inst;
    uint8_t     how;
    fr_op       op;              /* of a reduction */
    fr_dtype    dtype;           /* of the elements of t; of a reduction's accumulator */
    int         parts;           /* machine numbers per element */
    bool        in_lanes;        /* combined lane by lane inside the loop; the others have t */
    struct {
        gj_lvalue *t;            /* [B * parts] */
        gj_lvalue *part[2];      /* [B] each: what the loop computes; with one part it is t */
        gj_lvalue *exact;        /* [B] floats that are rounded to t (F16C); NULL: t is computed */
    } of[MAX_ABREAST];           /* .. for each block of a step */
    /* HOW_STORE */
    bool        rounds;          /* the loop leaves `exact` */
    gj_lvalue  *to, *step;       /* where element 0 would be (char *), bytes between elements
                                    (NULL: side by side) */
    gj_rvalue  *to_start, *step_start;
    gj_lvalue  *pad;             /* NULL: whole blocks always fit (row buffers) */
    gj_lvalue  *nontemporal;     /* whether blocks go past the caches; NULL: never */
    gj_rvalue  *nontemporal_start;
    /* reductions */
    int         lane_bytes;      /* of a bool: those of the stage's smallest number */
    gj_type    *lane;
    int         n_chunks;        /* registers per accumulator part */
    gj_type    *chunk;           /* vector type of a register */
    int         chunk_lanes;
    gj_lvalue  *acc[2][MAX_CHUNKS];   /* registers; HOW_SEQ: acc[part][0], a scalar */
    gj_lvalue  *saved[MAX_CHUNKS];    /* HOW_TREE: the registers before the tail */
    gj_lvalue  *lanes[2];        /* arrays through which registers are combined lane by lane */
    gj_type    *place_type;      /* HOW_PICK; HOW_EXTREME: of the notes, whose place is where places would be */
    int         place_bytes;
    int         place_lanes, n_place_chunks;
    gj_type    *place_chunk;
    gj_lvalue  *place[MAX_CHUNKS], *places;
    gj_lvalue  *left[2];         /* HOW_TREE: sums of left halves that wait for their right ones */
    gj_lvalue  *sum[2];          /* HOW_TREE: of the leaf; at the end, of everything; HOW_EXTREME: the result */
};

struct source {                  /* an operand that FULL loads read */
    uint16_t   operand;
    gj_lvalue *from, *step;      /* as in struct sink */
    gj_rvalue *from_start, *step_start;
    gj_lvalue *pad;
    gj_lvalue *wide[MAX_ABREAST];  /* [B] each: the elements as floats or as 32-bit integers, or NULL */
    gj_lvalue *gathered[MAX_ABREAST];   /* not side by side: the elements of each block of a step, as if they were */
    gj_rvalue *row[MAX_ABREAST]; /* together: where the rows of a step begin */
    int        by;               /* elements from one to the next where the access says it; 0: there is a step */
};

/* Half precision: a value that a later pass of the block's loop reads, an element of each array for each of the block's;
 * re NULL: none. */
struct crossing {
    gj_lvalue *re, *wide;        /* wide: of half precision where it is known, or NULL */
    gj_lvalue *exact;            /* of one that is rounded between the passes, whose `re` and `wide` come from it; or NULL */
    bool       quiet;            /* `wide` is exact, too */
};

struct emit {
    struct fr_gcc         c;
    const struct fr_nest *nest;
    const char           *name;           /* ends the name of each function */
    bool                  stores_nontemporal;    /* the caches, where operands say so */
    int                   vector_bytes;
    struct fr_err        *err;
    bool                  has_steps, has_long_steps;   /* of several blocks, in some stage */
    int                   n_tables;       /* of constants */
    /* the function being written */
    uint8_t               runs[FR_MAX_INSTS];
    uint8_t               wanted[FR_MAX_INSTS];   /* lower-level values that it needs */
    struct fr_gval        val[MAX_ABREAST][FR_MAX_INSTS];   /* [0] of values of lower levels */
    gj_lvalue            *spread[FR_MAX_INSTS];   /* [B] a lower-level bool for each element of a block, or NULL */
    gj_rvalue            *ptr, *stride, *j0, *n, *scalars, *slots, *slots_out, *scratch, *prefetch;
    gj_rvalue            *row_stride;             /* of rows that go together */
    /* the stage being written */
    int                   block;      /* elements of a block (B) */
    int                   unroll;    /* blocks of a step (U) */
    int                   u;          /* the block of a step that is being written */
    bool                  together;   /* the blocks of a step are of as many rows, and accumulated one after the other */
    bool                  halves_are_floats;   /* in registers */
    bool                  staggered;  /* blocks are accumulated in a pass each */
    int                   n_passes;   /* of the loop over a block (emit_gcc_round.c) */
    uint8_t               pass[FR_MAX_INSTS];
    struct crossing       crossing[MAX_ABREAST][FR_MAX_INSTS];
    bool                  has_rare;   /* blocks are computed without RARE values first */
    bool                  extremes;      /* extremes are HOW_EXTREME where they may be */
    int                   n_sinks, n_sources;
    struct sink           sinks[FR_MAX_INSTS];
    struct source         sources[FR_MAX_OPERANDS];
    int16_t               source_of[FR_MAX_OPERANDS];
    gj_rvalue            *iota_start[FR_MAX_OPERANDS], *iota_step[FR_MAX_OPERANDS];
    struct {
        gj_rvalue *from;  /* element 0 of what is asked for */
        int        size;
    } asked[FR_MAX_OPERANDS + MAX_ROWS];
    int                   n_asked;
    gj_rvalue            *comes_far;              /* whether it comes from beyond the second cache; where that matters */
    gj_lvalue            *j, *live, *n_blocks;    /* first element, valid ones, number of block */
    int64_t               place_step;             /* from a block's place to the next one's */
    gj_rvalue            *live_as[9], *place_as[9];   /* as integers of so many bytes */
};

static inline const struct fr_inst *inst(const struct emit *e, int i) { return &e->nest->insts[i]; }
static inline int least(int a, int b) { return a < b ? a : b; }

/* a % n of a number that is not negative; n is a power of two. */
static inline gj_rvalue *
rest_of(struct emit *e, gj_rvalue *a, int64_t n)
{
    return fr_gcc_bin(&e->c, GJ_AND, e->c.t_i64, a, fr_gcc_i64(&e->c, n - 1));
}

static inline fr_dtype operand_dtype(const struct emit *e, int operand) { return e->nest->operands[operand].dtype; }

static inline bool
strided(const struct emit *e, int operand)
{
    return e->nest->operands[operand].access == FR_ACCESS_STRIDED;
}

static inline int
access_step(const struct emit *e, int operand)
{
    return fr_access_step(e->nest->operands[operand].access);
}

static inline gj_rvalue *
plus(struct emit *e, gj_rvalue *a, gj_rvalue *b)
{
    return fr_gcc_bin(&e->c, GJ_PLUS, e->c.t_i64, a, b);
}

static inline gj_rvalue *
minus(struct emit *e, gj_rvalue *a, gj_rvalue *b)
{
    return fr_gcc_bin(&e->c, GJ_SUB, e->c.t_i64, a, b);
}

static inline gj_rvalue *
times(struct emit *e, gj_rvalue *a, int64_t b)
{
    return b == 1 ? a : fr_gcc_bin(&e->c, GJ_MULT, e->c.t_i64, a, fr_gcc_i64(&e->c, b));
}

static inline int n_parts(fr_dtype d) { return fr_dtype_is_complex(d) ? 2 : 1; }
static inline gj_rvalue *maybe(struct emit *e, gj_lvalue *v) { return v ? fr_gcc_get(&e->c, v) : NULL; }

/* Elements from e->j to block u of a step, and where the row of that block begins. */
static inline int first_of_block(const struct emit *e, int u) { return e->together ? 0 : u * e->block; }

static inline gj_rvalue *
row_of_block(struct emit *e, const struct source *s, int u)
{
    return e->together ? s->row[u] : fr_gcc_get(&e->c, s->from);
}

/* ---- emit_gcc_inst.c: functions, single instructions, elements of memory --------------------- */
/* types: a letter for each parameter, i64 or b(ytes), a capital one for a pointer to such; then where each is put, a
 * gj_rvalue **. */
gj_function *fr_emit_new_function(struct emit *e, int kind, const char *name, const char *types, ...);
struct fr_gval *fr_emit_value(struct emit *e, int i);
void fr_emit_ops(struct emit *e, int i, int n);
void fr_emit_close_wanted(struct emit *e);
void fr_emit_scalars(struct emit *e);
struct fr_gval fr_emit_combine(struct emit *e, fr_op op, fr_dtype d, struct fr_gval a, struct fr_gval b);
struct fr_gval fr_emit_load_slot(struct emit *e, fr_dtype d, gj_rvalue *table, int64_t offset);
void fr_emit_store_slot(struct emit *e, fr_dtype d, gj_rvalue *table, int i, struct fr_gval v);
gj_rvalue *fr_emit_table_entry(struct emit *e, gj_rvalue *table, gj_type *type, int k);
gj_type *fr_emit_vector_of(struct emit *e, gj_type *type, int lanes);
gj_lvalue *fr_emit_vector_at(struct emit *e, gj_type *vector, int elem_bytes, gj_lvalue *first);
gj_lvalue *fr_emit_array_vector(struct emit *e, gj_type *vector, int elem_bytes, gj_lvalue *array, int64_t lane);
gj_rvalue *fr_emit_splat(struct emit *e, gj_type *vector, int lanes, gj_rvalue *v);
struct fr_gval fr_emit_load_element(struct emit *e, fr_dtype d, gj_rvalue *from, gj_rvalue *step, gj_rvalue *j);
void fr_emit_store_element(struct emit *e, fr_dtype d, gj_rvalue *to, gj_rvalue *step, gj_rvalue *j,
                           struct fr_gval v);
gj_lvalue *fr_emit_copied(struct emit *e, gj_type *type, gj_rvalue *v);
gj_rvalue *fr_emit_entry_bytes(struct emit *e, int operand);
gj_rvalue *fr_emit_entry_step(struct emit *e, int operand);
struct fr_gval fr_emit_iota(struct emit *e, const struct fr_inst *in, gj_rvalue *j);
void fr_emit_declare_iota(struct emit *e, int operand);

/* ---- emit_gcc_reduce.c: accumulators and what becomes of them -------------------------------- */
enum how fr_emit_reduce_how(const struct emit *e, const struct fr_inst *in);
int fr_emit_smallest_number(const struct emit *e);
bool fr_emit_stage_has(const struct emit *e, enum how how);
void fr_emit_reset_accumulator(struct emit *e, struct sink *k);
void fr_emit_declare_t(struct emit *e, struct sink *k);
void fr_emit_declare_reduction(struct emit *e, struct sink *k);
void fr_emit_spill_lanes(struct emit *e, struct sink *k);
void fr_emit_fill_lanes(struct emit *e, struct sink *k);
gj_rvalue *fr_emit_or_identity(struct emit *e, const struct sink *k, gj_rvalue *v, gj_rvalue *b);
void fr_emit_combine_lane(struct emit *e, struct sink *k, struct fr_gval v, gj_rvalue *b);
void fr_emit_add_group(struct emit *e, struct sink *k, gj_lvalue **to, gj_rvalue *first);
void fr_emit_multiply_block(struct emit *e, struct sink *k);
void fr_emit_add_left_over(struct emit *e, struct sink *k, gj_rvalue *n_left);
void fr_emit_finish_leaf(struct emit *e, struct sink *k, gj_rvalue *n_left);
void fr_emit_write_partial_results(struct emit *e);

/* ---- emit_gcc_extreme.c ------------------------------------------------------------------------- */
static inline bool
fr_emit_is_extreme(fr_op op, fr_dtype d)
{
    return (op == FR_OP_max || op == FR_OP_min) && (d == FR_F16 || d == FR_F32 || d == FR_F64);
}
/* Whether the stage has extremes that may be HOW_EXTREME. */
bool fr_emit_may_use_extremes(struct emit *e);
/* Takes the values v of `n` blocks, in their order, into lane b; they are overwritten. */
void fr_emit_peak_lane(struct emit *e, struct sink *k, int n, gj_rvalue **v, gj_rvalue *b);
/* After the loop: k->sum[0] of each, and whether one of them is not known, so that everything is to be done again. */
gj_rvalue *fr_emit_join_extremes(struct emit *e);

/* ---- emit_gcc_interleave.c ---------------------------------------------------------------------- */
/* Elements of a block and blocks of a step, of the stage whose sinks are known; and
 * e->has_rare. */
void fr_emit_choose_blocks(struct emit *e);
/* Blocks of a step of rows that go together. */
void fr_emit_choose_rows(struct emit *e);
/* Whether what e->runs says is so much for an element that to write it twice takes long. */
bool fr_emit_is_long(struct emit *e);

/* ---- emit_gcc_prefetch.c ------------------------------------------------------------------------ */
/* Before the loop over stage `s`: what it asks for; needs e->prefetch, an array of those below. */
void fr_emit_find_asked(struct emit *e, int s);
/* In the loop: for blocks as far ahead as those at e->j are from the row's beginning. */
void fr_emit_prefetch(struct emit *e, int n_blocks);
/* Bytes ahead of each operand, an array, and behind them how many elements there are: for rows of `n` elements, and for
 * a piece of a row. */
gj_lvalue *fr_emit_ahead_of_rows(struct emit *e, gj_rvalue *row_stride, gj_rvalue *n_rows, gj_rvalue *n);
gj_lvalue *fr_emit_ahead_in_row(struct emit *e, gj_rvalue *n);

/* ---- emit_gcc_widen.c: half precision and small integers a register at a time ------------------ */
/* What numbers of this dtype are in registers, where their source is wide. */
fr_dtype fr_emit_widened(fr_dtype);
/* Whether the stage reads an operand of small integers as wide ones only. */
bool fr_emit_is_wide_integer(const struct emit *e, int operand);
void fr_emit_declare_wide(struct emit *e, struct source *s);
void fr_emit_declare_exact(struct emit *e, struct sink *k);
/* What `n` blocks from element e->j on read, of wide sources. */
void fr_emit_widen_blocks(struct emit *e, int n);
/* Halves of a block of floats, and what those are as floats, unless `wide` is NULL. */
void fr_emit_round(struct emit *e, gj_lvalue *exact, gj_lvalue *bits, gj_lvalue *wide);

/* ---- emit_gcc_round.c: half precision in the midst of a block ---------------------------------- */
/* e->pass of what e->runs says, and e->halves_are_floats. Where there are several passes, a block is a register of
 * floats. */
void fr_emit_find_passes(struct emit *e);
/* Whether the loop computes a half exactly and then rounds it. */
bool fr_emit_is_rounded(const struct emit *e, int i);
/* The pass in which instruction i is for block u of a step. */
int fr_emit_pass_of(const struct emit *e, int i, int u);
/* The arrays of values that cross, once there are blocks. */
void fr_emit_declare_crossing(struct emit *e);
/* At the end of a pass's loop: element b of block e->u of what crosses. */
void fr_emit_leave_crossing(struct emit *e, int pass, gj_rvalue *b);
/* In a later one: value i. False: it does not cross. */
bool fr_emit_load_crossing(struct emit *e, int i, gj_rvalue *b);
/* Behind the loop of a pass over n blocks: what it has left is rounded. */
void fr_emit_round_between(struct emit *e, int pass, int n);

/* ---- emit_gcc_nontemporal.c ------------------------------------------------------------------------- */
/* Returns how many elements come before whole blocks, so that the first store which goes past the
 * caches is aligned; NULL: none. Reductions count blocks from the first element; and the leaves of
 * a sum begin where they must, so that nothing is stored past the caches beside it. */
gj_rvalue *fr_emit_find_nontemporal(struct emit *e);

/* ---- emit_gcc_tail.c: what is left over after whole blocks, from element e->j on --------------- */
/* Whether a whole block from element j on cannot be read where it is. */
gj_rvalue *fr_emit_may_not_read(struct emit *e);
void fr_emit_declare_pad(struct emit *e, struct source *);
/* Copies the n_left elements of every operand to its pad, and reads from there. */
void fr_emit_gather(struct emit *e, gj_rvalue *n_left);
/* The same, where whole blocks can be read, for those operands that could be slow with what comes after. */
void fr_emit_drop_behind(struct emit *e, gj_rvalue *n_left);
/* Results go to pads. */
void fr_emit_stores_to_pads(struct emit *e);
/* All operands are where they were before. */
void fr_emit_restore_operands(struct emit *e);
/* The whole block of each pad to memory, from element e->j on; for stores of elements in a row. */
void fr_emit_put_block(struct emit *e);
/* The first n_left elements of the pads to memory. */
void fr_emit_scatter(struct emit *e, gj_rvalue *n_left);

/* ---- emit_gcc_together.c --------------------------------------------------------------------- */
/* The loop over e->unroll rows of whole blocks, which are accumulated one after the other: a function of pointers, strides
 * of elements, strides of rows, elements, scalars. NULL: the nest does something else. */
gj_function *fr_emit_together(struct emit *e);
/* Whether these many rows of n elements, `step` apart, are to go together. */
gj_rvalue *fr_emit_if_together(struct emit *e, gj_rvalue *const *step, gj_rvalue *n_rows, gj_rvalue *n);

/* ---- emit_gcc_stage.c ------------------------------------------------------------------------ */
gj_function *fr_emit_stage(struct emit *e, int s);
/* What the loop over what e->runs says writes: e->sinks; `stores` as well as reductions. */
void fr_emit_find_sinks(struct emit *e, bool stores);
/* The variables of that loop, once there are blocks. */
void fr_emit_declare_loop(struct emit *e);

/* ---- emit_gcc_block.c ------------------------------------------------------------------------ */
/* A step of `n` blocks. */
void fr_emit_step(struct emit *e, int n);

#endif
