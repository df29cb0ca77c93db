/* backends/cuda/job.h -- a launch on its way: what axes.c, launch.c, split.c and stream.c share. Private to them. */
#ifndef FR_BACKENDS_CUDA_JOB_H
#define FR_BACKENDS_CUDA_JOB_H

#include "backends/cuda/kernel.h"

enum { FR_CUDA_GRID_X = INT32_MAX, FR_CUDA_GRID_YZ = 65535, FR_CUDA_BLOCKS_EACH = 8 /* of a multiprocessor */ };

/* An axis of which some accumulator moves and some does not; that all keep; that all reduce. */
enum fr_cuda_axis { FR_CUDA_MIXED, FR_CUDA_KEPT, FR_CUDA_WALKED };

/* An instance, maybe with other axes than it was bound with. */
struct fr_cuda_job {
    struct fr_cuda_kernel *kernel;
    struct fr_cuda_device *device;
    int      n_axes;                       /* outer ones */
    int64_t  dim[FR_LAUNCH_AXES + 1], n_rows, n_inner;
    uint8_t  kind[FR_LAUNCH_AXES + 1];     /* enum fr_cuda_axis; axes are in its order */
    char    *ptr[FR_MAX_OPERANDS];
    int64_t  outer[FR_MAX_OPERANDS][FR_LAUNCH_AXES + 1], row[FR_MAX_OPERANDS], inner[FR_MAX_OPERANDS];
    bool     accumulates[FR_MAX_OPERANDS];
    const void *scalars;
    int      here;                         /* so many of the axes are walked by the launcher, the first ones */
    bool     begun[FR_MAX_OPERANDS];       /* accumulators that have values in them */
    bool     joins;                        /* its rows are what blocks have left: one block folds them */
    bool     in_order;                     /* its rows are not all of a column's: they are added one after the other */
    int64_t  n_columns, n_column_rows;     /* of all launches: elements that are kept, and rows of each */
    int      phase;                        /* of lines (jit/emit_split.c) that have had n_before rows, and where they lie */
    int64_t  n_before;
    char    *lines;
    char    *args;                         /* room for the argument */
    struct fr_cuda_scratch *scratch;       /* of the launch that it is a part of */
    struct fr_cuda_tape    *tape;          /* NULL: launches begin; else they are put there */
    int                     form;          /* of the next one, */
    bool                    is_tree;       /* which is a way of its own */
};

/* What launches have beside their operands, of which they give back last what they had first. */
struct fr_cuda_scratch {
    char  *at;                             /* the plan's; NULL: none */
    size_t n_bytes, used, most;            /* of it; at a time; the most of that */
    bool   is_dry;                         /* nothing is begun: kernels are asked for, */
    bool   is_later;                       /* behind others, and scratch is measured */
};

/* ---- axes.c ---- */

/* Fills all but kernel, device and args. */
void      fr_cuda_find_axes(struct fr_cuda_job *, const struct fr_instance *);
/* Indices of the axes that a kernel spreads over its grid, and of those that it walks. */
int64_t   fr_cuda_kept_indices(const struct fr_cuda_job *);
int64_t   fr_cuda_walked_indices(const struct fr_cuda_job *);
/* Steps operands from `base` to where index `at` of those axes that are walked by the launcher is; false: there is no next. */
void      fr_cuda_step(struct fr_cuda_job *, char *const *base, const int64_t *at);
bool      fr_cuda_next(const struct fr_cuda_job *, int64_t *at);

/* ---- launch.c ---- */

/* What a form that is split, or keeps rows in memory, is given beside its operands. */
struct fr_cuda_given {
    unsigned shared;                       /* bytes of shared memory */
    char    *scratch;
    int64_t  n_pieces, phase, n_before;
};

struct fr_cuda_job *fr_cuda_job_new(struct fr_cuda_kernel *, struct fr_cuda_device *);   /* NULL: memory is out */
fr_status fr_cuda_fill_and_start(struct fr_cuda_job *, fr_cuda_function, const struct fr_cuda_grid *, const struct fr_cuda_given *, struct fr_err *);
/* A nest's kernel with an argument that is filled. */
fr_status fr_cuda_start_nest(const struct fr_cuda_kernel *, struct fr_cuda_device *, fr_cuda_function, const struct fr_cuda_grid *, unsigned shared,
                             char *args, struct fr_err *);
/* So many bytes of scratch, `what` for, until they are given back; NULL for none. */
fr_status fr_cuda_scratch_get(const struct fr_cuda_job *, size_t n_bytes, const char *what, char **out, struct fr_err *);
void      fr_cuda_scratch_end(const struct fr_cuda_job *, char *, size_t n_bytes);
/* At one index of the axes that are walked by the launcher; and at all of them. */
fr_status fr_cuda_launch_once(struct fr_cuda_job *, struct fr_err *);
fr_status fr_cuda_launch_instance(struct fr_cuda_job *, const struct fr_instance *, struct fr_err *);

/* ---- prepared.c ---- */

/* Keeps in in->own the launches of an instance but for addresses and numbers, if that has not been done and they can be kept. */
fr_status fr_cuda_prepare(struct fr_cuda_kernel *, struct fr_cuda_device *, const struct fr_instance *, struct fr_err *);
bool      fr_cuda_are_prepared(const struct fr_cuda_kernel *, const struct fr_instance *, int n);
fr_status fr_cuda_launch_prepared(struct fr_cuda_kernel *, struct fr_cuda_device *, const struct fr_instance *, struct fr_err *);
/* One more launch, whose argument is in j->args. FR_ENOMEM; FR_ENOTSUP: they are too many. */
fr_status fr_cuda_tape_add(const struct fr_cuda_job *, fr_cuda_function, const struct fr_cuda_grid *, unsigned shared, struct fr_err *);
/* Whether so many instances of it are launched together, if they are prepared. */
bool      fr_cuda_goes_together(const struct fr_cuda_kernel *, int n);
fr_status fr_cuda_launch_many(struct fr_cuda_kernel *, struct fr_cuda_device *, const struct fr_instance *, int n, struct fr_err *);

/* ---- split.c ---- */

/* How many lines a column of all these has, 0 without a tree: rows of an operation that depends on their order. */
int64_t   fr_cuda_tree_lines(int64_t n_columns, int64_t n_rows);
/* Whether many blocks share a row or a column: decided by shapes alone, so that sums are the same on every device. */
bool      fr_cuda_wants_split(const struct fr_cuda_job *);
/* Otherwise: whether lines of a block share columns, whose rows are added in their order all the same. */
bool      fr_cuda_wants_lines(const struct fr_cuda_job *);
/* In a form for the one or the other. */
fr_status fr_cuda_launch_split(struct fr_cuda_job *, fr_cuda_function, struct fr_err *);

/* ---- stream.c ---- */

/* Rows in scratch, of n elements each at every index of the job's kept axes, and the accumulator that they are folded into.
 * Some at a time, if they have lines to go on with: `phase` as in jit/emit_split.c. */
struct fr_cuda_rows {
    int      operand;
    fr_op    op;
    fr_dtype dtype;
    int64_t  n_rows, n, n_columns, n_column_rows, n_before;
    char    *scratch, *lines;
    int      phase;
    bool     begun, joins, in_order;
};

fr_status fr_cuda_fold(const struct fr_cuda_rows *, const struct fr_cuda_job *, struct fr_err *);
fr_status fr_cuda_launch_streams(struct fr_cuda_job *, struct fr_err *);

#endif
