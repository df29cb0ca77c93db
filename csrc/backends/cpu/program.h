/* backends/cpu/program.h -- the block interpreter's form of a nest.  Private to program.c,
 * describe.c, interp.c and launch.c.
 *
 * A program is the nest's instructions as *steps*: calls of precompiled kernels over blocks of
 * elements, every value at a place known beforehand. It is laid out in two ways:
 *
 *   tile    Whole rows fit into a block. The block holds T rows of n elements, row after row, and
 *           all stages run over it in one list of steps; a FULL value that crosses stages stays in
 *           its register. A nest without reductions has only this form, and may cut its rows.
 *   long    Rows are longer than a block. For each stage there is one list for its ROW
 *           instructions (T = 1, values in slots), and one for its FULL instructions, which runs
 *           over the blocks of the row; what crosses from an earlier stage is computed again.
 *
 * A *place* is an entry in the table of pointers that the interpreter keeps while it runs. A load
 * whose elements lie side by side is its memory; everything else is a register in scratch. A value
 * that is stored is computed into the destination where that is contiguous. */
#ifndef FR_BACKENDS_CPU_PROGRAM_H
#define FR_BACKENDS_CPU_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/reduce.h"
#include "jit/loop.h"

enum fr_step_kind {
    FR_PROGRAM_OP,       /* dst = fn(args) over the T * n elements */
    FR_PROGRAM_OP_STORE, /* the same; into the memory of `operand` where its elements are contiguous */
    FR_PROGRAM_LOAD,
    FR_PROGRAM_STORE,
    FR_PROGRAM_EXPAND, /* each of T elements n times */
    FR_PROGRAM_IOTA,
    FR_PROGRAM_REDUCE,
    FR_PROGRAM_SUM_PRODUCTS, /* a REDUCE: the sum of the products of two args; f32 or f64 */
    FR_PROGRAM_ACCUM,
    FR_PROGRAM_ROW_OP, /* over T elements */
    FR_PROGRAM_ROW_LOAD,
    FR_PROGRAM_ROW_STORE,
    FR_PROGRAM_ROW_IOTA,
    FR_PROGRAM_ONE_OP, /* once per run, one element */
    FR_PROGRAM_SCALAR, /* the place is the slot in the table of scalars; operand is its index */
};

struct fr_program_step {
    union {
        fr_map_fn       *map;
        fr_accum_fn     *accum;
    } fn;
    uint8_t  kind;     /* enum fr_step_kind */
    uint8_t  size;     /* bytes of an element of the result, or of the element moved */
    uint8_t  once;     /* arguments that are one element for all */
    uint8_t  row_args; /* arguments that are one element when the tile is one row */
    uint16_t dst;      /* place */
    uint16_t a[3];     /* places */
    uint16_t operand;
    uint16_t load;   /* LOAD: its number among the loads */
    uint32_t offset; /* of the result's register, in bytes from the registers' start */
    uint16_t inst;   /* REDUCE, SUM_PRODUCTS: the instruction */
    uint8_t  op_row; /* likewise: FR_REDUCE_ROW(op) */
    fr_dtype in;     /* likewise, and ACCUM: dtype of the elements */
};

/* Steps [first, end) of fr_program.steps. */
struct fr_program_steps {
    uint32_t first, end;
};

/* A load that must be copied to its register before the rest runs if it reads what `store` writes:
 * it is used after that is written. */
struct fr_hazard {
    uint16_t load, load_operand, store_operand;
};

struct fr_long_stage {
    struct fr_program_steps rows;         /* ROW instructions before the stage's loop */
    struct fr_program_steps full;         /* the loop; those that reduce are at its end */
    uint32_t        first_reduce; /* those that reduce: [first_reduce, full.end) */
    uint32_t        first_hazard, end_hazard;
    bool            wide, narrow; /* has sums of complex numbers; has other reductions */
    bool            ordered;      /* has a product of floats: cannot be cut */
};

struct fr_program {
    const struct fr_nest           *nest;
    const struct fr_kernels        *kernels; /* of the level that was in use when it was built */
    const struct fr_reduce_kernels *reduce;
    struct fr_program_step                 *steps;
    struct fr_hazard               *hazards;
    struct fr_long_stage
             *stages; /* [n_stages + 1], the last with ROW instructions only; NULL: no reductions */
    uint16_t *row_values; /* instructions of level ROW that make a value */
    struct fr_program_steps once;
    struct fr_program_steps tile;
    uint32_t        tile_rows_end; /* the tile's first ROW steps end here */
    uint32_t        n_row_values;
    uint32_t        tile_end_hazard; /* hazards [0, tile_end_hazard) */
    uint32_t        n_places, n_loads;
    int64_t         tile_cap;     /* elements that a register of the tile form holds */
    int64_t         tile_want;    /* elements of a good tile of short rows */
    int64_t         flat_want;    /* elements of a tile where all operands lie side by side; 0: not only maps */
    int64_t         block_cap;    /* elements of a register of the long form */
    size_t          registers_at; /* where registers begin in scratch */
    size_t          temp_at;      /* where fr_interp_temp_bytes begin */
    size_t          scratch_bytes;
    bool strided;  /* has operands that may lie along the columns */
    bool has_rows; /* uses ROW values in FULL instructions, so tiles of several rows expand them */
    bool may_cut_inner;  /* elements of a row may go to several tasks */
    bool may_cut_stages; /* and those of one stage of a long row */
    bool accumulates, streams;
    bool stores_nontemporal; /* the caches, some operand */
    bool is_stencil;  /* some operand leads others through the same memory */
    bool copies; /* the tile is a LOAD and its STORE, with no more than a cast to the same dtype between */
    bool only_accumulates; /* the tile is a LOAD and its ACCUM */
    bool only_folds; /* each element is loaded and folded, nothing else */
    bool only_places; /* it is a LOAD, its argmax or argmin, and the store of that */
    /* Since fr_program_meets_code: what the code wants (fr_nest_scratch), and whether it is the slower one anyway. */
    size_t   code_scratch_bytes;
    bool     better_than_code;
};

/* Bytes of the interpreter's own state at the start of scratch, and of its temporary room at the
 * end. */
size_t fr_interp_frame_bytes(const struct fr_program *);
size_t fr_interp_temp_bytes(const struct fr_program *);

/* The three entries of compiled code (jit/loop.h), interpreted. scratch holds scratch_bytes,
 * 64-byte aligned. */
void fr_interp_rows(const struct fr_program *, char *const *ptr, const int64_t *row_stride,
                    const int64_t *inner_stride, int64_t n_rows, int64_t n_inner,
                    const void *scalars, void *scratch);
void fr_interp_stage(const struct fr_program *, int stage, char *const *ptr,
                     const int64_t *inner_stride, int64_t j0, int64_t n, const void *scalars,
                     const struct fr_slot *slots, struct fr_slot *slots_out, void *scratch);
void fr_interp_mid(const struct fr_program *, int stage, char *const *ptr, const void *scalars,
                   struct fr_slot *slots, void *scratch);

#endif
