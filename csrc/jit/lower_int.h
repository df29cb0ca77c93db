/* jit/lower_int.h -- what the files of lowering share: lower.c, which makes a group a nest; lower_rows.c, which rows it
 * reads as others; lower_reach.c, how its operands are reached.  Private to them. */
#ifndef FR_JIT_LOWER_INT_H
#define FR_JIT_LOWER_INT_H

#include "jit/lower.h"

struct operand {
    int64_t *stride;    /* elements, by position in `axes` */
    uint16_t load;      /* the instruction that loads it, or FR_LOWER_NO_INST */
    bool     packed, turned;  /* which may be by turning it over */
};

enum axis_class { KEPT = 0, REDUCED = 1, COLUMNS = 2, INNER = 4 };

struct lowering {
    const struct fr_graph  *g;
    const struct fr_fusion *f;
    const struct fr_group  *grp;
    const bool             *stored;
    bool                    after;                /* lowering the AFTER members of a group */
    int                     n_axes;
    int                     axes[FR_MAX_DIMS];    /* loop order, until axes coalesce: axis of D */
    int64_t                 dims[FR_MAX_DIMS];    /* by position in `axes` */
    uint8_t                 class_[FR_MAX_DIMS];  /* only axes of one class coalesce */
    uint32_t                inner;                /* positions that make up the row */
    int                     n_inner_axes;
    struct fr_arena        *arena;
    struct fr_inst         *inst;
    size_t                  n_inst, n_op, n_scalar;
    struct operand         *op;
    struct fr_operand      *form;                 /* [n_op], and so the next */
    struct fr_operand_source *source;
    int32_t                *scalar;               /* [n_scalar], and so the next two */
    fr_dtype               *scalar_dtype;
    uint16_t               *scalar_inst;
    uint16_t               *value;                /* [n_nodes] instruction that holds a node's value */
    struct fr_err          *err;
};

/* How a load walks along the row: whether its elements lie one before the other, or every so many-th of those side by side,
 * and are large enough to be read so. */
static inline enum fr_access
fr_lower_access(const struct lowering *z, size_t operand)
{
    fr_dtype d = z->form[operand].dtype;
    int64_t  stride = z->n_axes ? z->op[operand].stride[z->n_axes - 1] : 1;
    bool     small = fr_dtype_size(fr_dtype_info[d].component) < 4;

    return stride == 1                            ? FR_ACCESS_UNIT
           : small                                ? FR_ACCESS_STRIDED
           : stride == -1                         ? FR_ACCESS_BACK
           : stride >= 2 && stride <= 4           ? (enum fr_access)(FR_ACCESS_SECOND + stride - 2)
                                                  : FR_ACCESS_STRIDED;
}

/* ---- lower_rows.c: both once axes have been coalesced and before access is set */

/* Packs what runs crosswise; returns how many operands. Not when rows have been joined. */
int  fr_lower_pack(struct lowering *);
/* Makes one long row of short ones: what all elements of a row have in common is loaded for each of them. Returns how
 * many axes a short row has, the inner one and the last of those outside of the rows; 0: the rows stay. */
int  fr_lower_join_rows(struct lowering *, int *n_packed);

/* ---- lower_reach.c */

/* The access and the flags of every operand. */
void fr_lower_set_reach(struct lowering *);

#endif
