/* jit/emit_nest.h -- what emit_nest.c (C) and emit_cuda.c share. Private to them.
 *
 * The names in the text: v3 is the value of instruction %3 (v3r and v3i if complex), v3_7 a step on
 * the way to it, p1 and i1 operand [1] of this row and its inner stride, b3 the row buffer of %3.
 * A nest of one stage without reductions is written as plain loops. In any other, what the stages
 * of a row share is in `struct row` and the work on one element is a function, because the tree of
 * a sum calls it from three places. */
#ifndef FR_JIT_EMIT_NEST_H
#define FR_JIT_EMIT_NEST_H

#include "jit/emit_text.h"

/* One walk over the elements of a row for one stage.  A stage needs several when its reductions do
 * not agree on an order: the trees of real and complex sums differ, and on a GPU a product of floats is one
 * thread's. */
enum fr_pass_kind { FR_PASS_COMPLEX, FR_PASS_PROD, FR_PASS_MAIN };

struct fr_pass {
    int     stage;
    bool    rowbuf;             /* row buffers are in use */
    char    tag[8];             /* "0", "0c": ends the names of its functions */
    bool    has_sums, has_accs; /* REDUCEs that add up in a tree; the others */
    bool    complex_tree;
    uint8_t roots[FR_MAX_INSTS]; /* REDUCE, STORE and ACCUM of this pass */
    uint8_t runs[FR_MAX_INSTS];  /* FULL values and roots that it evaluates */
    uint8_t reads[FR_MAX_INSTS]; /* FULL values that it takes from row buffers */
};

struct fr_writer {
    struct fr_text        text;
    const struct fr_nest *nest;
    enum fr_dialect       dialect;
    const char           *indent;
    const char           *row; /* how operands are reached: "", "r.", "r->" */
    bool           vector;     /* FULL unit operands are in q0, q1, ..., at element v */
    bool           tile;       /* turned ones in t0, t1, ..., at at1, at2, at4 or at8 */
    bool           element;    /* ROW and SCALAR values are reached likewise, not by name alone */
    const char    *guard;      /* stands before a ROW store: one thread does it */
    struct fr_err *err;
    fr_status      st;
};

#define W(...) fr_text_add(&w->text, __VA_ARGS__)

/* The texts of both parts of a value. */
struct fr_names {
    char s[2][40];
};

static inline int fr_parts(fr_dtype d) { return fr_dtype_is_complex(d) ? 2 : 1; }
static inline const char *fr_part_type(fr_dtype d) { return fr_text_type(fr_machine_type(d)); }
static inline const char *fr_part_memory_type(fr_dtype d) { return fr_text_memory_type(fr_machine_type(d)); }

/* Of twice as many turns as there are instructions: turn k is instruction k % n's, unless that is for the other round. Stores
 * come last: a result may lie in the memory of an operand, of which each element is loaded before. */
static inline bool
fr_is_its_turn(const struct fr_nest *nest, uint32_t k)
{
    return fr_inst_writes(&nest->insts[k % nest->n_insts]) == (k >= nest->n_insts);
}

/* ---- emit_nest.c: values and instructions ---- */

/* "v" 3 -> v3, or v3r and v3i; `of` stands before ("a->"). */
struct fr_names fr_names_make(const char *of, const char *letter, int inst, fr_dtype);
/* How the value of instruction i is called at this point of the text. */
struct fr_names fr_value_names(const struct fr_writer *, int i);
/* Lines that declare `result`; `prefix` begins the names of steps on the way to it. */
void fr_write_op(struct fr_writer *, fr_op, fr_dtype compute, const struct fr_names *args,
                 const struct fr_names *result, const char *prefix);
void fr_write_cast(struct fr_writer *, fr_dtype from, fr_dtype to, const struct fr_names *arg,
                   const struct fr_names *result, const char *prefix);
/* The product of complex numbers that REDUCE prod takes: NumPy's has no fma within a row. */
void fr_write_plain_product(struct fr_writer *, fr_dtype, const struct fr_names *args, const struct fr_names *result);
/* `arg` itself, or the name of its conversion, which is written. */
struct fr_names fr_write_converted(struct fr_writer *, fr_dtype from, fr_dtype to, struct fr_names arg, int inst);
void            fr_write_load(struct fr_writer *, fr_dtype, const struct fr_names *value, const struct fr_names *mem);
void            fr_write_store(struct fr_writer *, fr_dtype, const struct fr_names *mem,
                               const struct fr_names *value, const char *guard);
/* Any instruction but REDUCE, as lines at its own level. */
void fr_write_inst(struct fr_writer *, int i);
/* p0, i0, ... of row `row`, as local constants or as assignments to what w->row names. */
void fr_write_operands(struct fr_writer *, bool declare, const char *row);
/* The SCALAR values that `users` (NULL: all instructions) depend on, put into struct row if
 * `share`; the ROW level of one stage; the FULL level of a nest that is plain loops. */
void fr_write_scalars(struct fr_writer *, const uint8_t *users, bool share);
void fr_write_row(struct fr_writer *, int stage);
void fr_write_body(struct fr_writer *);
void fr_write_column(struct fr_writer *, bool ends);
/* Whether FULL code reads this SCALAR or ROW value, so that struct row holds it; copies it there.
 */
bool fr_is_shared(const struct fr_nest *, int i);
void fr_write_share(struct fr_writer *, int i);

/* ---- emit_stage.c: stages ---- */

/* What a REDUCE accumulates in: halves in f32, the best value of argmax. */
fr_dtype fr_reduce_dtype(const struct fr_nest *, const struct fr_inst *);
bool     fr_reduce_is_sum(const struct fr_inst *);      /* in a tree: of integers any order has the same bits */
bool     fr_reduce_is_ordered(const struct fr_inst *);  /* a product that depends on the order */
void     fr_write_row_struct(struct fr_writer *);
void     fr_write_rowbufs(struct fr_writer *, const char *scratch);
/* False when the stage has nothing for a pass of this kind. */
bool fr_pass_find(const struct fr_writer *, int stage, enum fr_pass_kind, bool rowbuf, struct fr_pass *);
/* Structs of accumulators and sums, the function for one element, how sums begin and add. */
void fr_write_element(struct fr_writer *, const struct fr_pass *);
/* struct accs_0 a0 with identities in it, if the pass has accumulators. */
void fr_write_accs(struct fr_writer *, const struct fr_pass *);
/* v4 = 0.0 + t0.v4 and so on: the results of the pass as ROW values. */
void fr_write_results(struct fr_writer *, const struct fr_pass *);
/* The body of a function that joins accumulators b into *a. */
void fr_write_join(struct fr_writer *, const struct fr_pass *);

/* ---- emit_split.c: what forms of CUDA kernels with SPLIT have instead ---- */

/* The functions of a pass; its walk over a piece, or what its pieces have become. *at: where its parts are in scratch. */
void fr_write_pieces(struct fr_writer *, const struct fr_pass *);
void fr_write_piece_walk(struct fr_writer *, const struct fr_pass *, size_t *at);
/* What earlier launches have left of lines; the accumulators of a block's columns joined, and put where they belong. */
void fr_write_lines_left(struct fr_writer *);
void fr_write_column_parts(struct fr_writer *);
/* Rows at a time, whose loads are under way together: fewer of what is long. */
int  fr_unrolled(const struct fr_nest *);
/* Where values wait for the line that adds them, at `at`; the loop over rows, up to what is done with one, and from there on. */
struct fr_names fr_names_line(int inst, fr_dtype);
void fr_write_lines(struct fr_writer *);
void fr_write_lines_end(struct fr_writer *);

/* ---- emit_tile.c: what forms of CUDA kernels with TILED have instead ---- */

void fr_write_tiles(struct fr_writer *);
/* Part p of an operand's element in shared memory. */
void fr_name_turned(const struct fr_writer *, int operand, int p, char *out, size_t cap);

/* emit_source.c: what has been written as a CUDA kernel, with what it calls in front; ends the writer's text. */
fr_status fr_text_kernel(struct fr_text *out, struct fr_writer *, const char *what, fr_dtype);

void fr_write_c(struct fr_writer *);
void fr_write_cuda(struct fr_writer *);

#endif
