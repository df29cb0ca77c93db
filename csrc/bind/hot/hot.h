/* bind/hot/hot.h -- loops over single elements in plain calls, without Python.
 *
 * Where a loop turns, its code asks an object of its own (hot.c). After some turns that object has the loop's instructions
 * translated for the types that its variables have by then (hot_read.c) and runs what is left of it at once (hot_run.c),
 * on machine numbers. A block of instructions is translated anew for each combination of types with which it is met (Chevalier-
 * Boisvert and Feeley, Simple and effective type check removal through lazy basic block versioning, ECOOP 2015), so that a
 * sum that begins as the int 0 and goes on as a np.float64 is two blocks.
 *
 * Whatever is not translated, and whatever raises or warns, ends it: what was stored since the last turn is put back, the
 * variables are as they were there, and Python does that turn itself. So nothing here has to say what Python says. */
#ifndef FR_BIND_HOT_HOT_H
#define FR_BIND_HOT_HOT_H

#include "backends/host.h"
#include "bind/numpy/few.h"

/* ---- types */

enum fr_hot_kind {
    FR_HOT_UNBOUND,
    FR_HOT_OPAQUE,    /* something that is only there */
    FR_HOT_NONE,
    FR_HOT_NULL,      /* of a call */
    FR_HOT_PYTHON,    /* Python's bool, int or float: BOOL, I64, F64 */
    FR_HOT_NUMPY,     /* NumPy's number of a dtype */
    FR_HOT_ARRAY,     /* of a dtype and so many axes */
    FR_HOT_RANGE,     /* what is left of one, also as an iterator: the next value, how many, the step */
    FR_HOT_WALK,      /* an iterator over the first axes of arrays, or over lists: the next index */
    FR_HOT_SHAPE,     /* of an array */
    FR_HOT_OBJECT,    /* a certain object: something that is called, or a module */
    FR_HOT_OWNER,     /* the object that a variable has, of whose attributes some are variables, too; dtype: its number */
    FR_HOT_LIST,      /* its items are looked at one by one */
    FR_HOT_TUPLE,     /* of values that are known apart; within a block */
    FR_HOT_DISPLAY,   /* likewise: a list, as it is written out */
    FR_HOT_SLICE      /* likewise: of three values */
};

enum { FR_HOT_PARTS = 4 }; /* arrays that zip() goes over together; values of a tuple from one block to another */

/* A value as the translation knows it. */
struct fr_hot_value {
    uint8_t   kind;
    uint8_t   dtype;
    uint8_t   ndim;     /* of an array; of a tuple: items */
    uint8_t   is_free;  /* its register is nobody else's, and the last instruction wrote it */
    int16_t   reg;      /* the first of its registers */
    int16_t   items;    /* of a tuple: the place of its first */
    uint8_t   n_parts, is_numbered; /* of a walk: arrays, in registers one after the other; whether enumerate() goes over it */
    uint8_t   lists;                /* bits: which of these are lists */
    uint8_t   is_borrowed;          /* an item of a list, or a window of one: the run is to hold it beyond this block */
    /* These, where they are lists their items; or of a tuple between blocks its values; or what a list's items seem to be, and
     * what theirs. */
    struct { uint8_t kind, dtype, ndim; } part[FR_HOT_PARTS];
    PyObject *object;   /* FR_HOT_OBJECT: borrowed from its guard, or a function of the user's */
};

/* ---- programs */

enum { FR_HOT_DRAWERS = 2, FR_HOT_FRAMES = 8, FR_HOT_VARS = 64, FR_HOT_STACK = 24, FR_HOT_CELLS = 4, FR_HOT_AXES = 3, FR_HOT_REGS = 512 };

union fr_hot_cell {
    int64_t i;
    double  f;
};

/* An array, or a window of one; or a list. */
struct fr_hot_view {
    char     *data;
    int64_t   dim[FR_HOT_AXES], stride[FR_HOT_AXES];
    PyObject *array;     /* that has the memory, held by the run */
    int32_t   made;      /* which of the run's own it is, + 1; 0: none of them */
    bool      is_window; /* and it is not that array itself */
    bool      writable;
};

#define FR_HOT_OPS(X)                                                                                                          \
    X(EXIT) X(TURN) X(CONST) X(MOVE) X(MOVE3) X(MOVE_VIEW) X(JUMP) X(JUMP_BACK) X(IF) X(UNLESS)                               \
    X(ADD_I) X(SUB_I) X(MUL_I) X(FLOORDIV_I) X(MOD_I) X(SHL_I) X(SHR_I) X(AND_I) X(OR_I) X(XOR_I) X(NEG_I) X(INVERT_I) X(ABS_I) \
    X(FIT_I) X(ADD_F) X(SUB_F) X(MUL_F) X(DIV_F) X(NEG_F) X(ABS_F) X(SQRT_F) X(CALL_F) X(CALL2_F) X(ROUND_F32) X(I_TO_F) X(I_TO_F_EXACT) X(F_TO_I) \
    X(F_TRUE) X(I_TRUE) X(NOT)                                                                                                  \
    X(LT_I) X(LE_I) X(EQ_I) X(NE_I) X(LT_F) X(LE_F) X(EQ_F) X(NE_F)                                                              \
    X(COUNT) X(NEXT) X(NEXT_ITEM) X(RANDOM) X(NORMAL) X(RANDINT) X(DRAW) X(IS_DIM) X(CALL_MATH) X(DIM) X(SIZE) X(TAKE) X(WINDOW) X(NEW_AXIS) X(TRANSPOSE) X(DOT)         \
    X(MAP) X(FOLD) X(FOLD_AXIS) X(ADD_UP) X(COPY) X(MAKE) X(PUT) X(PRODUCT) X(APPEND) X(LEN) X(LIST_ITEM) X(LIST_STORE) X(NEW_LIST) X(LIST_ARRAY) X(HOLD) X(OWN) X(ASK)                                                \
    X(LOAD_BOOL) X(LOAD_I8) X(LOAD_I16) X(LOAD_I32) X(LOAD_I64) X(LOAD_U8) X(LOAD_U16) X(LOAD_U32) X(LOAD_F32) X(LOAD_F64)      \
    X(STORE_BOOL) X(STORE_I8) X(STORE_I16) X(STORE_I32) X(STORE_I64) X(STORE_U8) X(STORE_U16) X(STORE_U32) X(STORE_F32)         \
    X(STORE_F64)

enum fr_hot_op {
#define X(name) FR_HOT_##name,
    FR_HOT_OPS(X)
#undef X
    FR_HOT_N_OPS
};

struct fr_hot_ins {
    uint8_t  op, n;          /* n: axes that are indexed, or the dtype that is to fit */
    uint16_t to, a, b, c;    /* registers; of LOAD and STORE `a` is the array, `b` the first of n registers in a row */
    union {
        int64_t i;
        double  f;
        int32_t at;          /* the instruction to which it leads */
        double (*call)(double);
        double (*call2)(double, double);
        struct fr_hot_map *map;
        PyObject *function;
        struct fr_hot_ask *ask;
    };
};

enum { FR_HOT_ASK_ARGS = 8, FR_HOT_ASK_ITEMS = 16, FR_HOT_GUESSES = 64, FR_HOT_MOST_GUESSES = 3 };

/* What ASK does: a function is called that changes nothing (but argument changes - 1), of values as objects. Of a tuple, a list or
 * a slice among them, `items` of `item` are its values. What the result is shows when it is asked for the first time: the run ends
 * there, and the loop is translated anew for it. */
struct fr_hot_ask {
    struct fr_hot_ask  *next;
    PyObject           *function, *names;  /* held: what plain calls have for it; the names of the last arguments, or NULL */
    int                 n, guess, changes; /* changes: an argument's number, + 1; 0: it changes nothing */
    bool                draws;             /* from numpy.random's generator */
    bool                takes_out;         /* an item of the list that it changes: the next argument's, or the last */
    bool                moves;             /* items of lists, of which none is looked at */
    bool                picks;             /* elements of an array, which may be large */
    struct fr_hot_value arg[FR_HOT_ASK_ARGS], item[FR_HOT_ASK_ITEMS];
};

/* What an instruction asks for has been, so far. */
struct fr_hot_guess {
    int                 frame;
    int32_t             at;
    struct fr_hot_value to;                /* UNBOUND: nobody knows; OPAQUE: nothing that is known, or now this and now that */
    int                 n_changes;
};

/* What is drawn. */
enum fr_hot_draw { FR_HOT_NO_DRAW, FR_HOT_RANDOMS, FR_HOT_UNIFORMS, FR_HOT_NORMALS, FR_HOT_RANDINTS };

/* What MAP, FOLD and COPY do: an operation on elements of arrays, or on numbers. */
struct fr_hot_map {
    struct fr_hot_map *next;
    fr_op              op;
    uint8_t            n_args, ndim;     /* of the result; 0: it is a number */
    fr_dtype           to;
    struct {
        uint16_t reg;
        uint8_t  ndim;                   /* 0: a number */
        fr_dtype dtype, as;              /* what it is, and what the operation takes */
    } arg[FR_HOST_ARGS];
};

/* Where the loop turns, with certain types. */
struct fr_hot_head {
    struct fr_hot_value var[FR_HOT_VARS], iterator;
    int32_t             at;
};

/* What takes a generator's values. */
enum fr_hot_taker { FR_HOT_NO_TAKER, FR_HOT_ALL_TAKEN, FR_HOT_ANY, FR_HOT_ALL };

/* The loop's function; and those that are called in it, each where it is called. */
struct fr_hot_frame {
    PyCodeObject *code;
    PyObject     *bytes;
    PyObject     *module;            /* that has its globals; NULL: they are the loop's */
    int           caller;
    int32_t       back;              /* where its caller goes on */
    int           first, n_vars;     /* its variables */
    int           base;              /* what is on the stack when it begins */
    bool          is_nested;         /* it is a comprehension, or a generator: */
    enum fr_hot_taker taker;
};

struct fr_hot_program {
    struct fr_hot_ins  *ins;
    int32_t             n_ins;
    size_t              cap_ins, cap_heads, cap_blocks;
    struct fr_hot_head *head;
    int                 n_heads;
    struct fr_hot_block *block;  /* hot_read.c */
    int                 n_blocks;
    int                 n_vars;          /* the local variables, attributes of objects in these, globals that are numbers or arrays */
    PyObject           *name[FR_HOT_VARS];
    bool                is_used[FR_HOT_VARS], is_set[FR_HOT_VARS], is_global[FR_HOT_VARS], is_inner[FR_HOT_VARS];
    bool                is_stored_global[FR_HOT_VARS]; /* it is one that a function assigns */
    uint8_t             owner[FR_HOT_VARS]; /* of an attribute: the variable that has the object, + 1 */
    struct fr_hot_value global_type[FR_HOT_VARS];
    bool                has_random;      /* numbers are drawn from numpy.random's generator */
    struct { PyObject *object; int var; } drawer[FR_HOT_DRAWERS]; /* what else they are drawn from: that, held, or what a variable has */
    int                 n_drawers;
    bool                has_views;       /* arrays are assigned to variables */
    bool                makes;           /* arrays are made */
    bool                appends;         /* to lists */
    struct fr_hot_map  *maps;            /* all of them */
    struct fr_hot_ask  *asks;
    struct fr_hot_guess guess[FR_HOT_GUESSES];
    int                 n_guesses;
    bool                is_outdated;     /* a guess is another one */
    bool                is_broken;       /* there was too much of it, or memory was out: it is not to be run */
    /* Globals, and attributes of modules (`of`), that have to be what they were: the names, and the objects, or the code of the
     * user's functions, which are not held, with what their parameters are by themselves: they lead back here. */
    struct { PyObject *name, *of, *value, *code, *defaults; int owner; /* + 1: it is a method of what that variable has */ } guard[32];
    int                 n_guards;
    struct fr_hot_frame frame[FR_HOT_FRAMES];
    int                 n_frames;
};

/* The code of the loop. */
struct fr_hot_source {
    PyCodeObject *code;
    int32_t       header, last;      /* offsets of the instruction to which it turns, and of the jump */
    bool          is_for;
    struct fr_hot_value iterator;     /* of a for loop, as it runs now */
    PyObject *globals, *builtins, *locals; /* of the frame that is about to run; borrowed */
};

bool                   fr_hot_same_value(const struct fr_hot_value *a, const struct fr_hot_value *b);
/* The type of a variable's value (NULL: it has none). */
void                   fr_hot_type(PyObject *, struct fr_hot_value *);
/* The value of a global or builtin: borrowed; NULL: there is none. */
PyObject              *fr_hot_global(const struct fr_hot_source *, PyObject *name);
/* The same of another module. */
PyObject              *fr_hot_global_of(const struct fr_hot_source *, PyObject *module, PyObject *name);
/* Whether guard k is met by an object (NULL: there is none). */
bool                   fr_hot_guard_holds(const struct fr_hot_program *, int k, PyObject *);
/* The function of the user's that is that method of an object: borrowed; NULL: it has none, or nobody knows what is asked for it. */
PyObject              *fr_hot_method(PyObject *o, PyObject *name);
/* What a variable has, also one that is an attribute or a global: a new reference; NULL: nothing. An attribute is looked for
 * without anybody's code. */
PyObject              *fr_hot_object(const struct fr_hot_program *, const struct fr_hot_source *, int var);
/* A program for the code, without instructions; NULL: not enough memory (no exception). */
struct fr_hot_program *fr_hot_new(const struct fr_hot_source *);
void                   fr_hot_free(struct fr_hot_program *);
/* The number of the head for variables of these types, translated if it is new; -1: it cannot be. */
int                    fr_hot_head_of(struct fr_hot_program *, const struct fr_hot_source *, const struct fr_hot_value *vars);

/* Forgets all translations, but not what has been found out on the way. */
void                   fr_hot_renew(struct fr_hot_program *);

/* The line of the user's code that an instruction is of. */
int                    fr_hot_line(const struct fr_hot_program *, int32_t ins);

/* ---- runs: registers are a variable's by its number, those of places on the stack, and what is computed within a block */

enum { FR_HOT_STACK_REGS = FR_HOT_VARS, FR_HOT_SAVED = FR_HOT_VARS + FR_HOT_CELLS };
enum { FR_HOT_TEMPORARY = FR_HOT_STACK_REGS + FR_HOT_STACK * FR_HOT_CELLS };
enum { FR_HOT_ELEMENTS = 2048 }; /* elements of an operation on arrays: with more, others are as fast */

/* The arrays and lists that a run has made, or been given. */
struct fr_hot_pool {
    struct fr_hot_made {
        PyObject *array;                    /* NULL: an empty place */
        int64_t   turn;                     /* since which its memory, or its items, are new, and nothing is put back there; -1: they are not */
        bool      is_free, is_seen;
        bool      is_held;                  /* it is an item of a list, or somebody's else */
        bool      is_ours;                  /* its memory is used again */
    } *v;
    size_t n, cap;
    int    n_taken;                         /* since it was last seen which of them somebody has */
    size_t first;                           /* before it there is no empty place */
};

struct fr_hot_run {
    union fr_hot_cell  reg[FR_HOT_REGS];
    struct fr_hot_view view[FR_HOT_REGS];
    /* As it was at the last turn: */
    union fr_hot_cell  saved[FR_HOT_SAVED]; /* the variables and the loop's iterator, in their places */
    struct fr_hot_view saved_view[FR_HOT_VARS];
    struct fr_few_generator random;         /* locked, if the program draws */
    struct fr_few_piece piece[FR_FEW_PIECES * (1 + FR_HOT_DRAWERS)]; /* all that is drawn from, */
    int                n_pieces;
    bool               has_lock;            /* of numpy.random's generator */
    char               pieces_saved[FR_FEW_PIECES * (1 + FR_HOT_DRAWERS) * FR_FEW_GENERATOR_BYTES]; /* as it was */
    struct fr_hot_pool pool;
    int                head;
    int32_t            left;                /* the instruction at which it was left */
    int64_t            n_turns, ns;         /* since the first turn, or since others could run */
    _Alignas(16) char  scratch[2 * FR_HOST_ARGS][FR_HOT_ELEMENTS * sizeof(double)];
};

/* All at the last turn, as `saved` has it: */
enum fr_hot_end { FR_HOT_LEFT,     /* Python is to make it, or sees that there is none */
                  FR_HOT_PAUSED,   /* likewise, since somebody else may want to run */
                  FR_HOT_TOO_LONG, /* likewise: it has more stores than are remembered */
                  FR_HOT_RAISED }; /* an exception is set */
/* Before and after: takes what it draws from. False: it cannot be, or an exception is set. */
bool            fr_hot_draws_begin(const struct fr_hot_program *, const struct fr_hot_source *, struct fr_hot_run *);
bool            fr_hot_draws_end(struct fr_hot_run *);
enum fr_hot_end fr_hot_go(struct fr_hot_program *, struct fr_hot_run *, int head);
/* Lets go of what it has made. */
void            fr_hot_run_end(struct fr_hot_run *);

/* ---- values as objects: new references */

void      fr_hot_read_view(PyObject *array, struct fr_hot_view *);
void      fr_hot_read_any(PyObject *array_or_list, struct fr_hot_view *);
/* What part k of a walk is, which goes over that; false: nothing that is known. */
bool      fr_hot_set_part(struct fr_hot_value *walk, int k, const struct fr_hot_value *over);
void      fr_hot_read_value(PyObject *, const struct fr_hot_value *type, union fr_hot_cell *, struct fr_hot_view *);
PyObject *fr_hot_boxed(const union fr_hot_cell *, const struct fr_hot_view *, const struct fr_hot_value *type);

/* The type of the objects that stand where loops turn. */
int       fr_hot_init(PyObject *module);

#endif
