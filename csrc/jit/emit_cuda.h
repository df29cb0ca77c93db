/* jit/emit_cuda.h -- the argument that the CUDA text of a nest takes: who launches it fills it, field by field.
 *
 * Words of 8 bytes: of each of n operands (at least one) its address at index 0 of every axis (an IOTA's start), its stride
 * along the rows and the row, then those along FR_CUDA_OUTER outer axes, then whether it is an accumulator with values
 * in it; then struct fr_cuda_rest, and the scalars in slots of 16 bytes. */
#ifndef FR_JIT_EMIT_CUDA_H
#define FR_JIT_EMIT_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jit/loop.h"

enum { FR_CUDA_THREADS = 256, FR_CUDA_OUTER = 4, FR_CUDA_ARGUMENT_BYTES = 4096 };
/* Elements of a tile (emit_tile.c); columns, and where rows are short; bytes of shared memory for all turned operands. */
enum { FR_CUDA_TILE_ELEMS = 1024, FR_CUDA_TILE_WIDE = 32, FR_CUDA_TILE_NARROW = 8, FR_CUDA_TILE_BYTES = 40 << 10,
       FR_CUDA_TILE_LOW = 8, FR_CUDA_TILE_DEEP = 16 };      /* rows, and indices of a third axis, of one that has three */

struct fr_cuda_rest {
    int64_t  n_rows, n_inner;
    int64_t  outer[FR_CUDA_OUTER];
    int64_t  n_shared, n_outer;                     /* axes: the first n_shared are spread over the grid */
    int64_t  n_shared_indices, n_walked_indices;    /* of all of them together, and of the others, which all accumulators reduce */
    uint64_t scratch;                               /* fr_cuda_row_bytes() for each row that is under way; of a split, its parts */
    int64_t  n_pieces, phase, n_before;             /* of what is split (emit_split.c); rows that earlier launches had */
};

/* In the form for many instances (-DMANY=1) a launch is of several. Which blocks are an instance's: from the first one on, as many as
 * its own grid has. */
struct fr_cuda_many {
    uint32_t first, x, y, z;
};

/* Its argument: the addresses of theirs and of so many of these. */
struct fr_cuda_of_many {
    uint64_t all, of;
    uint32_t n;
};

/* Where all of it begins, in bytes. */
struct fr_cuda_layout {
    size_t ptr, row_stride, inner_stride, outer_stride, begun, rest, scalars, n_bytes;
    bool   by_address;      /* it is more than a launch takes: the kernel's argument is its address */
};

void fr_cuda_layout(const struct fr_nest *, struct fr_cuda_layout *);
/* Elements of a vector of a map, and whether an operand is accessed by vectors, which have to be aligned to their size, at most 16. */
int    fr_cuda_vector(const struct fr_nest *);
/* Whether it has the form for many instances: of maps. */
bool   fr_cuda_has_many(const struct fr_nest *);
bool   fr_cuda_is_vector(const struct fr_nest *, int operand);
/* Whether it has the form that goes by tiles: of maps with operands that are turned. */
bool   fr_cuda_has_tiles(const struct fr_nest *);
/* Whether its tiles have indices of the last outer axis as well, which is not one of n_outer then, but the one behind them. */
bool   fr_cuda_has_deep_tiles(const struct fr_nest *);
/* Bytes of shared memory that a turned operand takes. */
int    fr_cuda_tile_bytes(fr_dtype, bool deep);
/* Of what is kept of a row of so many elements. */
size_t fr_cuda_row_bytes(const struct fr_nest *, int64_t n_inner);

/* ---- few outputs of much (emit_split.c) ---- */

enum { FR_CUDA_PIECES = 1024 };     /* of a row, at most */

/* Whether a form of the kernel has many blocks share a row, or a column of rows that accumulate; whether one has a block's
 * threads share columns, without another order of rows. */
bool   fr_cuda_splits(const struct fr_nest *);
bool   fr_cuda_has_lines(const struct fr_nest *);
/* Such rows: bytes of what becomes of each piece, and whether a phase has something to do. Phase s < n_stages is a stage, of
 * which blocks take pieces; phase n_stages stores what there is of whole rows, and a block has a row. */
size_t fr_cuda_piece_bytes(const struct fr_nest *);
bool   fr_cuda_has_phase(const struct fr_nest *, int phase);

/* ---- products of matrices (emit_product.c) ---- */

enum { FR_CUDA_TILE = 64 };     /* rows and columns of the result that a block has; blocks of a stack are along z */

struct fr_cuda_product {
    uint64_t a, b, out;                             /* addresses */
    int64_t  a_next, b_next, out_next;              /* bytes from one of the stack to the next */
    int64_t  m, k, n;
    int64_t  a_m, a_k, b_k, b_n, out_m, out_n;      /* bytes along the axes */
};

/* ---- scans (emit_scan.c) ---- */

enum { FR_CUDA_LINES = 32, FR_CUDA_SCAN_AXES = 6 };     /* lines of a block; axes of lines */

struct fr_cuda_scan {
    uint64_t in, out;                               /* addresses */
    int64_t  n_lines, length, in_step, out_step;    /* bytes along a line */
    int64_t  n_axes;                                /* of the lines, outermost first */
    int64_t  dims[FR_CUDA_SCAN_AXES], in_stride[FR_CUDA_SCAN_AXES], out_stride[FR_CUDA_SCAN_AXES];
};

struct fr_text;
/* A kernel `frit_scan` of a SCAN row, with FR_CUDA_THREADS threads. FR_ENOTSUP: no recipe. */
fr_status fr_text_scan(struct fr_text *out, fr_op, fr_dtype, struct fr_err *);
/* The text of a kernel `frit_product`, launched with FR_CUDA_THREADS threads. FR_ENOTSUP: no recipe. */
fr_status fr_text_product(struct fr_text *out, fr_dtype, struct fr_err *);

/* ---- takes (emit_take.c) ---- */

enum { FR_CUDA_TAKE_AXES = 8 };

struct fr_cuda_take {
    uint64_t in, index, out;                        /* addresses */
    int64_t  n, size, n_axes, index_axis;           /* elements of the result; of the axis that is taken from; axes, outermost first */
    int64_t  dims[FR_CUDA_TAKE_AXES], in_stride[FR_CUDA_TAKE_AXES], out_stride[FR_CUDA_TAKE_AXES];   /* in bytes */
};

/* A kernel `frit_take` with FR_CUDA_THREADS threads, compiled with -DELEMENT= and -DINDEX=. */
extern const char fr_cuda_take_text[];

/* ---- what masks and indices choose (emit_chosen.c) ---- */

enum { FR_CUDA_CHOSEN_TILE = 2048, FR_CUDA_MASK_AXES = 32, FR_CUDA_LOOK_AXES = 8 };

/* A kernel `frit_chosen` with FR_CUDA_THREADS threads, compiled with -DELEMENT= and -DKIND= one of these: */
enum { FR_CUDA_COUNT, FR_CUDA_COMPRESS, FR_CUDA_EXPAND, FR_CUDA_PLACES,   /* a block is `span` elements of the mask: whole tiles */
       FR_CUDA_GATHER, FR_CUDA_SCATTER, FR_CUDA_CHOSEN_KINDS };           /* rows at places, or into them */
extern const char fr_cuda_chosen_text[];

struct fr_cuda_chosen {
    uint64_t mask, counts;                          /* addresses; an i64 for each block */
    uint64_t in, out, place;
    int64_t  n, span, count, n_units, ndim;         /* elements of the mask, or units that are moved; units of a row; */
    int64_t  dims[FR_CUDA_MASK_AXES];               /* axes of the mask, where its places are wanted */
};

/* A kernel `frit_look` with FR_CUDA_THREADS threads, compiled with -DINDEX=. */
extern const char fr_cuda_look_text[];

struct fr_cuda_look {
    uint64_t in, out, wrong;                        /* addresses; out: of i64, or 0; wrong: of an i64 for each block */
    int64_t  n, size, scale, adds, is_strict;       /* strict: none may be negative */
    int64_t  n_axes, dims[FR_CUDA_LOOK_AXES], stride[FR_CUDA_LOOK_AXES];    /* outermost first, in bytes */
};

/* A kernel `frit_scatter` with FR_CUDA_THREADS threads, compiled with -DELEMENT=, -DKEY= and -DKIND= one of these: */
enum { FR_CUDA_CLAIM, FR_CUDA_SETTLE, FR_CUDA_STORE, FR_CUDA_STORE_ANY, FR_CUDA_STORE_MARKED, FR_CUDA_LAST, FR_CUDA_ADD, FR_CUDA_KEYS,
       FR_CUDA_DIGITS, FR_CUDA_SUM_DIGITS, FR_CUDA_SORT, FR_CUDA_WALK, FR_CUDA_SCATTER_KINDS };
extern const char fr_cuda_scatter_text[];

struct fr_cuda_scatter {
    uint64_t index, out, in;                        /* addresses */
    uint64_t winner, key, to_key, number, to_number, digits, wins;
    int64_t  n, last, n_units;                      /* indices; the highest that there may be; elements of a row */
    int64_t  step, from;                            /* bytes from one place to the next, from one row of the value to the next */
    int64_t  n_outer, n_all, subtracts;             /* indices of the axes before; elements that are written */
    int64_t  span, shift, n_blocks;                 /* of a sort: keys of a block, the digit */
    int64_t  n_axes, dims[FR_CUDA_TAKE_AXES], stride[FR_CUDA_TAKE_AXES];
};

#endif
