/* backends/cpu/interp_int.h -- a program on its way.  Private to interp.c and interp_long.c. */
#ifndef FR_BACKENDS_CPU_INTERP_INT_H
#define FR_BACKENDS_CPU_INTERP_INT_H

#include "backends/cpu/program.h"

/* What one call of an entry has to do, and where it is. */
struct fr_frame {
    const struct fr_program *p;
    char *const             *ptr;
    const int64_t           *row_stride, *inner_stride;
    const char              *scalars;
    char                   **at;    /* [n_places] */
    uint8_t                 *loads; /* [n_loads], how each is served */
    char                    *registers;
    char                    *temp;
    struct fr_slot          *slots;        /* [n_insts], of the long form */
    struct fr_tree_stack    *stacks;       /* one per REDUCE of a stage */
    int64_t                  row0, n_rows; /* the tile's rows */
    int64_t                  j0, n;        /* and its elements in each row */
    bool                     quiet;        /* no stores: the stage runs more than once */
    uint64_t                 nontemporal;  /* bit k: operand k is stored past the caches */
};

/* In scratch. Strides along rows are not there in the entries that know one row only. */
struct fr_frame *fr_frame_begin(const struct fr_program *, char *const *ptr, const int64_t *row_stride,
                                const int64_t *inner_stride, const void *scalars, void *scratch);
/* Decides which loads must be copied, for the list whose hazards these are. */
void             fr_frame_begin_list(struct fr_frame *, uint32_t first_hazard, uint32_t end_hazard);
/* Steps [first, end) over the tile, or the block. */
void             fr_frame_run(struct fr_frame *, uint32_t first, uint32_t end);
/* Rows that are longer than registers, stage after stage in blocks. */
void             fr_frame_run_long(struct fr_frame *, int64_t n_rows, int64_t n_inner);

/* Where an operand's element j0 of row row0 is; full: else its row. A pointer may be the start of an IOTA, so it is moved
 * as a number. Strides along rows may not be there, where row0 is 0. */
static inline char *
fr_frame_address(const struct fr_frame *f, uint32_t operand, bool full)
{
    uintptr_t a = (uintptr_t)f->ptr[operand];

    if (f->row0)
        a += (uintptr_t)(f->row0 * f->row_stride[operand]);
    if (full && f->j0)
        a += (uintptr_t)(f->j0 * f->inner_stride[operand]);
    return (char *)a;
}

static inline fr_op
fr_step_reduce_op(const struct fr_program_step *st)
{
    return (fr_op)(FR_OP_sum + st->op_row);
}

/* n elements in pieces of nearly equal length, at most `max` (a multiple of 64). */
static inline int64_t
fr_even_piece(int64_t n, int64_t max)
{
    int64_t n_pieces = (n + max - 1) / max;

    FR_ASSERT(max > 0 && max % 64 == 0); /* else a piece, rounded up, would be larger */
    return n_pieces < 2 ? n : ((n + n_pieces - 1) / n_pieces + 63) & ~(int64_t)63;
}

#endif
