/* backends/cpu/space.h -- what one instance has to do, as sequences of rows.  Private to launch.c,
 * shape.c, stream.c, long_rows.c, short_rows.c and tiles.c.
 *
 * A *space* is some of an instance's outer axes and perhaps its rows, counted as one long sequence
 * of rows. Binding an instance splits what it has to do into two of them: `kept`, whose indices may
 * go to different tasks, and `rest`, which is walked in order for each index of `kept` because
 * accumulators combine along it. */
#ifndef FR_BACKENDS_CPU_SPACE_H
#define FR_BACKENDS_CPU_SPACE_H

#include <stdatomic.h>

#include "backends/cpu/launch.h"
#include "backends/cpu/program.h"
#include "backends/expect.h"

/* ---- the executor ---------------------------------------------------------------------------- */

struct fr_exec {
    const struct fr_program   *program;
    const struct fr_nest_code *code; /* NULL: interpret */
    const struct fr_kernel    *kernel;
    size_t                     scratch_bytes;
    double                     rate; /* time over time expected (cost.h) */
};

static inline void
fr_exec_rows(const struct fr_exec *e, char *const *ptr, const int64_t *row_stride,
             const int64_t *inner_stride, int64_t n_rows, int64_t n_inner, const void *scalars,
             void *mem)
{
    if (e->code)
        e->code->rows(ptr, row_stride, inner_stride, n_rows, n_inner, scalars, mem);
    else
        fr_interp_rows(e->program, ptr, row_stride, inner_stride, n_rows, n_inner, scalars, mem);
}

static inline void
fr_exec_stage(const struct fr_exec *e, int s, char *const *ptr, const int64_t *inner_stride,
              int64_t j0, int64_t n, const void *scalars, const struct fr_slot *slots,
              struct fr_slot *out, void *mem)
{
    if (e->code)
        e->code->stage[s](ptr, inner_stride, j0, n, scalars, slots, out, mem);
    else
        fr_interp_stage(e->program, s, ptr, inner_stride, j0, n, scalars, slots, out, mem);
}

static inline void
fr_exec_mid(const struct fr_exec *e, int s, char *const *ptr, const void *scalars,
            struct fr_slot *slots, void *mem)
{
    if (e->code)
        e->code->mid[s](ptr, scalars, slots);
    else
        fr_interp_mid(e->program, s, ptr, scalars, slots, mem);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* How an instance runs, by its nest and its sizes; the first that fits (shape.c). */
enum fr_shape {
    FR_SHAPE_UNBOUND, /* fr_backend.bind has not been called */
    FR_SHAPE_NOTHING, /* it has no elements, and of none nothing is computed */
    FR_SHAPE_JOINED,  /* short rows as one (short_rows.c) */
    FR_SHAPE_TILES,   /* other packed operands (tiles.c) */
    FR_SHAPE_ABREAST, /* few rows to each accumulator: those of several accumulators together (stream.c) */
    FR_SHAPE_ACCUM,   /* other accumulators (stream.c) */
    FR_SHAPE_LONG,    /* rows that may be cut by stages, for threads (long_rows.c) */
    FR_SHAPE_CALL,    /* rows that are one call of the executor */
    FR_SHAPE_ROWS,    /* all others */
};

/* ---- spaces ---------------------------------------------------------------------------------- */

struct fr_space {
    int     n_axes;
    int     axis[FR_LAUNCH_AXES]; /* of the instance, outermost first */
    int64_t size[FR_LAUNCH_AXES];
    int64_t n_rows; /* 1 if the rows are not part of it */
    int64_t total;  /* product of all */
};

/* An instance, its strides by kind, its spaces. */
struct fr_bound {
    const struct fr_instance *in;
    const struct fr_exec     *exec;
    const struct fr_nest     *nest;
    struct fr_space           kept;
    struct fr_space           rest; /* one index if nothing accumulates */
    int64_t                   row_stride[FR_MAX_OPERANDS], inner_stride[FR_MAX_OPERANDS];
};

/* Where a block of streamed rows is kept: operand k's rows begin at block[k], bytes[k] each. */
struct fr_stream {
    char   *block[FR_MAX_OPERANDS]; /* NULL: not streamed */
    int64_t bytes[FR_MAX_OPERANDS];
    int64_t first_row; /* of the space that is at block[] */
};

void fr_space_clear(struct fr_space *);
void fr_space_add(struct fr_space *, int axis, int64_t size);
void fr_space_bind(struct fr_bound *, const struct fr_exec *, const struct fr_instance *);
/* Pointers at index `at` of a space (its rows excluded), from those at index 0. */
void fr_space_move(const struct fr_bound *, const struct fr_space *, int64_t at, char *const *from,
                   char **to);
void fr_space_advance(const struct fr_bound *, char **ptr, const int64_t *stride, int64_t by);
/* Bytes from one end of `n` elements of a row to the other, where they lie furthest apart. */
int64_t fr_space_bytes(const struct fr_bound *, int64_t n);
/* Runs rows [lo, hi) of a space, elements [j0, j0 + n) of each. `base` is at index 0 of the space.
 * With `stream`, the operands that it has go to its blocks. */
void fr_space_run(const struct fr_bound *, const struct fr_space *, char *const *base, int64_t lo,
                  int64_t hi, int64_t j0, int64_t n, const struct fr_stream *stream, void *mem);

/* [n_outer + 2] */
static inline const int64_t *
fr_space_strides(const struct fr_bound *b, int operand)
{
    return b->in->stride + (int64_t)operand * (b->in->n_outer + 2);
}

/* The operand that the nest does nothing but copy its only other one to; -1: it does more. */
int fr_space_copies_to(const struct fr_nest *);
bool fr_space_is_accumulator(const struct fr_nest *, const struct fr_inst *);
/* The reduction that an ACCUM, or a store to a STREAM operand, performs. */
fr_op fr_space_accumulator_op(const struct fr_inst *);

/* ---- cutting: estimates in picoseconds ------------------------------------------------------- */

#define FR_PHASE_PS  30000000ll   /* of a step that threads share and then wait for each other */
#define FR_GRAIN_PS  8000000ll    /* of a task at least */
#define FR_TASK_PS   2000000000ll /* and at most: Ctrl-C is looked for between tasks */
#define FR_POLL_PS   4000000000ll /* between two looks for Ctrl-C */

enum {
    FR_CUT = 64, /* elements: pieces of rows begin at multiples of this */
    FR_TASKS_PER_THREAD = 4, /* so that stealing evens out what the estimate missed */
};

/* What a row and an instance are expected to take, corrected by what runs of the kernel took. */
int64_t fr_space_row_cost(const struct fr_exec *, const struct fr_instance *);
int64_t fr_space_cost(const struct fr_exec *, const struct fr_instance *);
/* How many tasks work of `ps` should become; enough for each of the threads, which pay. */
int64_t fr_space_tasks(int64_t ps, int n_threads);
/* n in `parts` nearly equal parts, as a multiple of `multiple`; at least that. */
int64_t fr_space_share(int64_t n, int64_t parts, int64_t multiple);

/* ---- launch.c -------------------------------------------------------------------------------- */

/* Growing blocks of the calling thread, one per purpose, kept until it ends. */
enum fr_scratch {
    FR_SCRATCH_EXEC,
    FR_SCRATCH_PLAN,
    FR_SCRATCH_STREAM,
    FR_SCRATCH_TILE,
    FR_N_SCRATCH
};

/* At least n_bytes, 64-byte aligned, valid until the thread asks for this one again; NULL when
 * memory is out. */
void *fr_launch_scratch(enum fr_scratch which, size_t n_bytes);
/* Remembers the first failure of a task. */
void fr_launch_fail(atomic_int *failed, fr_status st);
/* The pool looks for Ctrl-C within a run that takes long; where work is a series of short runs,
 * this is called after each of about `ps`. */
bool fr_launch_interrupted(int64_t *since, int64_t ps);

static inline char *
fr_space_align(char *p)
{
    return (char *)(((uintptr_t)p + 63) & ~(uintptr_t)63);
}

/* ---- stream.c: accumulators ------------------------------------------------------------------ */

/* n neighbouring indices of b->kept, `base` being at the first: rows [lo, hi) of b->rest are combined into elements
 * [j0, j0 + n_inner) of the accumulators of each, which begin with the identity if lo is 0. mem: scratch of the executor,
 * and 16 bytes for each of n_inner. */
fr_status fr_stream_accumulate(const struct fr_bound *, char *const *base, int64_t n, int64_t j0, int64_t n_inner,
                               int64_t lo, int64_t hi, void *mem);
/* Whether neighbours go together (FR_SHAPE_ABREAST); then how many from index `at` of b->kept on, before `hi`. */
bool      fr_stream_is_abreast(const struct fr_bound *);
int64_t   fr_stream_abreast(const struct fr_bound *, int64_t at, int64_t hi);
/* Whether fr_stream_run is the way, and it: blocks of rows in parallel, then added in turn. */
bool      fr_stream_wanted(const struct fr_bound *, int n_threads);
fr_status fr_stream_run(const struct fr_bound *, int n_threads);

/* ---- long_rows.c ----------------------------------------------------------------------------- */

/* Of FR_SHAPE_LONG, whether fr_long_rows_run is the way, and it: row after row, the pieces of each stage in parallel. */
bool      fr_long_rows_wanted(const struct fr_bound *, int n_threads);
fr_status fr_long_rows_run(const struct fr_bound *, int n_threads);

/* ---- tiles.c, short_rows.c ------------------------------------------------------------------- */

/* The ways of every instance with packed operands: of those whose rows are joined, and of the others. */
fr_status fr_short_rows_run(const struct fr_bound *, int n_threads);
fr_status fr_tiles_run(const struct fr_bound *, int n_threads);

#endif
