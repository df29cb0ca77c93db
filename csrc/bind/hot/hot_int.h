/* bind/hot/hot_int.h -- what the files share that translate loops (hot.h). */
#ifndef FR_BIND_HOT_HOT_INT_H
#define FR_BIND_HOT_HOT_INT_H

#include "bind/hot/hot.h"

#include "bind/accelerate/accelerate.h"
#include "bind/accelerate/assemble.h"

enum { ITEMS = 48 + FR_HOT_STACK * FR_HOT_PARTS, MOST_BLOCKS = 256, MOST_HEADS = 8, MOST_INS = 1 << 14 };

/* The values before an instruction. */
struct state {
    struct fr_hot_value var[FR_HOT_VARS], stack[FR_HOT_STACK];
    int                 n_stack;
    int                 frame;
};

struct fr_hot_block {
    int32_t              at;     /* the offset of its first instruction */
    int32_t              ins;    /* where its translation begins; -1: there is none yet */
    int                  n_vars, n_stack, frame;
    struct fr_hot_value *value;  /* the variables that there were, others are unbound; and the stack */
};

enum { STACK_REGS = FR_HOT_STACK_REGS, TEMPORARY = FR_HOT_TEMPORARY, FR_HOT_MOST_ARGS = 8 };
_Static_assert(TEMPORARY < FR_HOT_REGS / 2, "room for what is computed");

struct reader {
    struct fr_hot_program      *p;
    const struct fr_hot_source *source;
    int32_t                     low, high;  /* offsets between which instructions belong to the loop */
    struct state                s;          /* at the instruction that is read */
    struct fr_hot_value         item[ITEMS];/* of tuples and slices in this block */
    int                         n_items, n_regs;
    int32_t                     todo;       /* blocks before it are done */
    bool                        failed;     /* memory is out, or there is too much of it */
    bool                        ended;      /* the block is */
    PyObject                   *names;      /* of the last arguments of the call that follows; NULL: none has any */
    int32_t                     at;         /* the instruction's offset */
};

/* How far a block was read. */
struct fr_hot_mark {
    int32_t      n_ins;
    int          n_items, n_regs, n_blocks;
    struct state s;
};

static inline struct fr_hot_value
number(int kind, int dtype, int reg)
{
    return (struct fr_hot_value){.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .reg = (int16_t)reg};
}

static inline bool
is_number(const struct fr_hot_value *v)
{
    return v->kind == FR_HOT_PYTHON || v->kind == FR_HOT_NUMPY;
}

/* Values that are known apart. */
static inline bool
is_written_out(const struct fr_hot_value *v)
{
    return v->kind == FR_HOT_TUPLE || v->kind == FR_HOT_DISPLAY;
}

static inline bool
is_float(const struct fr_hot_value *v)
{
    return is_number(v) && fr_dtype_is_float(v->dtype);
}

/* A bool or an int. */
static inline bool
is_whole(const struct fr_hot_value *v)
{
    return is_number(v) && !fr_dtype_is_float(v->dtype);
}

/* The function that is read. */
static inline const struct fr_hot_frame *
frame_of(const struct reader *r)
{
    return &r->p->frame[r->s.frame];
}

/* ---- hot_block.c */
struct fr_hot_ins *fr_hot_emit(struct reader *r, enum fr_hot_op op, int to, int a, int b);
void fr_hot_leave(struct reader *r);
int fr_hot_fresh(struct reader *r, int n);
void fr_hot_push(struct reader *r, struct fr_hot_value v);
struct fr_hot_value fr_hot_pop(struct reader *r);
void fr_hot_push_new(struct reader *r, int kind, int dtype, int reg);
struct fr_hot_value fr_hot_constant(struct reader *r, int kind, int dtype, union fr_hot_cell c);
struct fr_hot_value fr_hot_whole(struct reader *r, int64_t i);
int fr_hot_as_double(struct reader *r, const struct fr_hot_value *v);
int fr_hot_as_truth(struct reader *r, const struct fr_hot_value *v);
/* A number as it is stored as that dtype: its register. Ints that do not fit leave the loop: NumPy raises OverflowError, also for
 * its own. -1: it is a float, and the dtype has none: what that is depends on the processor. */
int fr_hot_number_as(struct reader *r, const struct fr_hot_value *v, fr_dtype as);
/* An array that the next instruction makes. */
struct fr_hot_value fr_hot_new_array(struct reader *r, fr_dtype d, int ndim);
/* What is an array is about to be in two places. */
void fr_hot_as_object(struct reader *r, const struct fr_hot_value *v);
/* A list of what is written out. */
struct fr_hot_value fr_hot_new_list(struct reader *r, const struct fr_hot_value *of);
/* A value as one that a list gets: what is written out becomes a list of its own. The instruction that puts it there, whose
 * register is that one; and of an append. */
struct fr_hot_value fr_hot_as_item(struct reader *r, const struct fr_hot_value *v);
void fr_hot_emit_item(struct reader *r, enum fr_hot_op op, int to, int a, int b, const struct fr_hot_value *item);
int fr_hot_reg_of(const struct fr_hot_value *item);
void fr_hot_append_item(struct reader *r, struct fr_hot_value *list, const struct fr_hot_value *v);
void fr_hot_move(struct reader *r, const struct fr_hot_value *v, int to);
/* Puts the values of the stack where the next block has them, and finds tuples there. */
bool fr_hot_settle(struct reader *r);
void fr_hot_gather(struct reader *r);
int fr_hot_block_of(struct reader *r, int32_t at, const struct state *s);
void fr_hot_block_state(const struct fr_hot_block *b, struct state *s);
bool fr_hot_is_inside(const struct reader *r, int32_t at);
void fr_hot_jump(struct reader *r, enum fr_hot_op op, int a, int32_t to, const struct state *s);
void fr_hot_go_to(struct reader *r, int32_t to, bool back);
void fr_hot_branch(struct reader *r, int reg, bool unless, int32_t to, int32_t next);

/* Whether a value is a constant that was put into its register just now. */
bool fr_hot_constant_of(const struct reader *r, const struct fr_hot_value *v, union fr_hot_cell *c);

/* Where the block is now; and back there, if what was read since then is not translated, and no block was begun for it: true. */
void fr_hot_mark(const struct reader *r, struct fr_hot_mark *m);
bool fr_hot_back(struct reader *r, const struct fr_hot_mark *m);

/* ---- hot_vars.c */
bool fr_hot_is_element(fr_dtype d);
/* The dtype of NumPy's numbers of that type; FR_N_DTYPES: they are none of ours. */
fr_dtype fr_hot_number_dtype(PyTypeObject *type);
bool fr_hot_may_hold(PyObject *o);
/* Notes that the global, or the attribute of a module, has to be this object. */
bool fr_hot_add_guard(struct reader *r, PyObject *name, PyObject *of, PyObject *value);
/* Whether what a function's parameters are by themselves is guarded, too. */
bool fr_hot_defaults_hold(const struct reader *r, PyCodeObject *code, PyObject *defaults);
/* Pushes variable i; puts the value on top into it, or into one by its name; pushes a global. */
void fr_hot_load(struct reader *r, int i);
void fr_hot_store(struct reader *r, int i);
/* Pushes variable i, which has none from now on. */
void fr_hot_take_variable(struct reader *r, int i);
void fr_hot_store_name(struct reader *r, PyObject *name);
void fr_hot_load_global(struct reader *r, PyObject *name);
/* Attributes that are variables: pushes one (false: it is none); pops the object and the value. */
bool fr_hot_load_owned(struct reader *r, const struct fr_hot_value *owner, PyObject *name);
/* A method of the object that a variable has, and that object, for the stack; false: there is none that is known. */
bool fr_hot_load_owned_method(struct reader *r, const struct fr_hot_value *owner, PyObject *name);
void fr_hot_store_attribute(struct reader *r, PyObject *name);

/* ---- hot_operate.c */
enum { ADD, AND, FLOORDIV, LSHIFT, MATMUL, MUL, MOD, OR, POWER, RSHIFT, SUB, DIV, XOR, N_OPERATORS }; /* as BINARY_OP has them */
enum { LT, LE, EQ, NE, GT, GE }; /* as COMPARE_OP has them */

void fr_hot_push_int(struct reader *r, int kind, int dtype, int reg);
void fr_hot_operate(struct reader *r, int what, bool in_place);
void fr_hot_compare(struct reader *r, int what);
void fr_hot_negate(struct reader *r);
void fr_hot_invert(struct reader *r);
void fr_hot_load_item(struct reader *r);
void fr_hot_store_item(struct reader *r);
void fr_hot_delete_item(struct reader *r);
/* Pushes an iterator over arrays. */
void fr_hot_walk(struct reader *r, const struct fr_hot_value *array, int n);
void fr_hot_contains(struct reader *r, bool not);
void fr_hot_build(struct reader *r, int kind, int n);
void fr_hot_build_slice(struct reader *r, int n);
/* Puts the items of a tuple into a list that is written out. */
void fr_hot_extend(struct reader *r);
void fr_hot_unpack(struct reader *r, int n);
void fr_hot_load_constant(struct reader *r, PyObject *o);

/* ---- hot_array.c: each pushes its result */
void fr_hot_map(struct reader *r, fr_op op, const struct fr_hot_value *arg, int n);
void fr_hot_operate_arrays(struct reader *r, int what, const struct fr_hot_value *a, const struct fr_hot_value *b, bool in_place);
/* Of dot, or of matmul. */
void fr_hot_operate_product(struct reader *r, const struct fr_hot_value *a, const struct fr_hot_value *b, bool is_dot);
struct fr_hot_value fr_hot_new_axis(struct reader *r, const struct fr_hot_value *v, int axis);
struct fr_hot_value fr_hot_transposed(struct reader *r, const struct fr_hot_value *v);
/* window[...] = v; nothing is pushed. */
void fr_hot_store_window(struct reader *r, const struct fr_hot_value *window, const struct fr_hot_value *v);
/* A fold of all elements; a copy; an array of that one's shape, of one number. */
void fr_hot_fold(struct reader *r, fr_op op, const struct fr_hot_value *v);
/* Along one of two axes; of sum, prod, max, min. */
void fr_hot_fold_axis(struct reader *r, fr_op op, const struct fr_hot_value *v, int64_t axis);
/* A copy, of a dtype. */
void fr_hot_convert(struct reader *r, const struct fr_hot_value *v, fr_dtype to);
void fr_hot_like(struct reader *r, const struct fr_hot_value *v, int number);
/* Numbers, equally long rows of numbers, or arrays of one shape, as an array, of a dtype (FR_N_DTYPES: theirs); false: they
 * are others. */
bool fr_hot_array_of(struct reader *r, const struct fr_hot_value *of, fr_dtype d, struct fr_hot_value *out);
void fr_hot_push_or_leave(struct reader *r, bool done, const struct fr_hot_value *v);

/* ---- hot_numpy.c */
/* A function of NumPy's; false: it is none that is known. */
bool fr_hot_call_numpy(struct reader *r, PyObject *f, struct fr_hot_value *arg, int n, fr_dtype dtype);
/* Whether the only named argument is an axis. */
bool fr_hot_is_axis(PyObject *names);
/* The dtype that a class of numbers stands for; FR_N_DTYPES: none. */
fr_dtype fr_hot_dtype_of(PyObject *type);
/* Pushes an array of a shape, of one number. */
void fr_hot_filled(struct reader *r, const struct fr_hot_value *shape, fr_dtype d, int number);

/* ---- hot_list.c */
void fr_hot_append(struct reader *r, struct fr_hot_value list, const struct fr_hot_value *v);
/* The same of a list that is on the stack, or is written out there. */
void fr_hot_append_to(struct reader *r, struct fr_hot_value *list, const struct fr_hot_value *v);
/* A list of numbers as an array; false: they are none. */
bool fr_hot_array_of_list(struct reader *r, const struct fr_hot_value *list, struct fr_hot_value *out);
/* Pushes an item of a list; stores one. */
void fr_hot_list_item(struct reader *r, const struct fr_hot_value *list, int index);
void fr_hot_list_store(struct reader *r, const struct fr_hot_value *list, int index, const struct fr_hot_value *v);
/* A method of an array or a list, and the two for the stack; false: there is none. */
bool fr_hot_load_method(struct reader *r, const struct fr_hot_value *of, PyObject *name);
void fr_hot_call_method(struct reader *r, PyObject *method, const struct fr_hot_value *of, const struct fr_hot_value *arg, int n,
                        PyObject *names);

/* ---- hot_ask.c */
/* Whether what a function is asked for changes nothing: nor does any argument by name. */
bool fr_hot_may_ask(const struct reader *r, PyObject *f, PyObject *names);
/* Where nothing else is known: pushes what a function of these arguments gives, or leaves. */
void fr_hot_ask(struct reader *r, PyObject *function, const struct fr_hot_value *arg, int n, PyObject *names);
/* A method of a generator of random numbers, or a dictionary, that a variable has, and that one, for the stack; false: there is none. What it gives,
 * of itself and arguments. */
bool fr_hot_load_drawer_method(struct reader *r, const struct fr_hot_value *owner, PyObject *name);
bool fr_hot_draws(const struct reader *r, const struct fr_hot_value *owner);
void fr_hot_ask_drawer(struct reader *r, PyObject *method, const struct fr_hot_value *arg, int n, PyObject *names);
/* The same of one of the module operator's. Of setitem nothing is pushed. */
void fr_hot_ask_operator(struct reader *r, const char *name, const struct fr_hot_value *arg, int n);

/* ---- hot_call.c */
void fr_hot_load_attribute(struct reader *r, PyObject *name, bool as_method);
void fr_hot_call(struct reader *r, int n, int32_t next);

/* ---- hot_frame.c */
/* Goes on in the code of a function of the user's; in that of a comprehension, or a generator. */
void fr_hot_enter(struct reader *r, PyObject *f, struct fr_hot_value *arg, int n, PyObject *names, int32_t next);
void fr_hot_enter_nested(struct reader *r, PyCodeObject *code, const struct fr_hot_value *iterator, int32_t next);
/* Whether variable i is the iterator of such code; pushes it then, above the list that it makes. */
bool fr_hot_load_iterator(struct reader *r, int i);
void fr_hot_yield(struct reader *r, int32_t next);
/* Ends the code of a function that was called, with what is on top. */
void fr_hot_return(struct reader *r);

#endif
