/* runtime/single.h -- one operation as a kernel of its own, over memory that the host reads and writes.
 *
 * The nest is the one that a plan of this operation alone has; it depends on the operation, the dtypes and on how each
 * operand moves along the row, so that few kernels serve all sizes. Called by eager.c. */
#ifndef FR_RUNTIME_SINGLE_H
#define FR_RUNTIME_SINGLE_H

#include "runtime/plan.h"

enum { FR_SINGLE_ARGS = 3 };

/* MAP: element by element. FOLD: each row becomes one element. ACCUM: all rows become one. */
enum fr_single_form { FR_SINGLE_MAP, FR_SINGLE_FOLD, FR_SINGLE_ACCUM };

struct fr_single {
    uint64_t              key;                           /* what the nest follows from, but for the form and how operands move */
    fr_op                 op;
    uint8_t               form;
    int                   n_args, n_numbers, n_operands;
    int8_t                operand[FR_SINGLE_ARGS];       /* [n_args] which one the argument is; -1: the next number */
    fr_dtype              number_dtype[FR_SINGLE_ARGS];  /* [n_numbers], */
    struct fr_scalar_bits number[FR_SINGLE_ARGS];        /* and their values */
    /* Operands; the last one is the result. */
    char                 *mem[FR_SINGLE_ARGS + 1];
    fr_dtype              dtype[FR_SINGLE_ARGS + 1];
    int64_t               stride[FR_SINGLE_ARGS + 1][FR_MAX_DIMS]; /* elements; of `dims` */
    int                   n_axes;
    int64_t               dims[FR_MAX_DIMS];             /* from the outermost in: the last is the row, the one before the rows */
};

static inline void
fr_single_begin(struct fr_single *z, fr_op op, enum fr_single_form form, int n_args)
{
    z->key = 1u << 8 | (unsigned)op;
    z->op = op;
    z->form = (uint8_t)form;
    z->n_args = n_args;
    z->n_numbers = z->n_operands = z->n_axes = 0;
}

/* Argument k, before which all others have been named, is operand o, which is there; -1: the next number. */
static inline void
fr_single_is(struct fr_single *z, int k, int o)
{
    z->operand[k] = (int8_t)o;
    z->key = z->key << 3 | (unsigned)(o + 1);
}

/* Argument k is this number. */
static inline void
fr_single_number(struct fr_single *z, int k, fr_dtype dtype, struct fr_scalar_bits value)
{
    fr_single_is(z, k, -1);
    z->key = z->key << 4 | dtype;
    z->number_dtype[z->n_numbers] = dtype;
    z->number[z->n_numbers++] = value;
}

/* Argument k is memory. */
static inline void
fr_single_operand(struct fr_single *z, int k, fr_dtype dtype, char *mem)
{
    fr_single_is(z, k, z->n_operands);
    z->dtype[z->n_operands] = dtype;
    z->mem[z->n_operands++] = mem;
}

/* Computes it, on the calling thread's turn; Ctrl-C is not looked for. No size is 0. */
fr_status fr_single_run(struct fr_single *, struct fr_err *);

#endif
