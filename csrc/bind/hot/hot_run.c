/* bind/hot/hot_run.c -- see hot.h: runs the translation of a loop. */
#include "bind/hot/hot_run.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpe.h"
#include "runtime/judge.h"

/* ---- arithmetic */

static inline bool
floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
    if (b == 0 || (b == -1 && a == INT64_MIN))
        return false;
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *quotient -= 1;
        *rest += b;
    }
    return true;
}

static inline bool
fits(int64_t v, int dtype)
{
    switch (dtype) {
    case FR_I8: return v >= INT8_MIN && v <= INT8_MAX;
    case FR_I16: return v >= INT16_MIN && v <= INT16_MAX;
    case FR_I32: return v >= INT32_MIN && v <= INT32_MAX;
    case FR_U8: return v >= 0 && v <= UINT8_MAX;
    case FR_U16: return v >= 0 && v <= UINT16_MAX;
    case FR_U32: return v >= 0 && v <= UINT32_MAX;
    default: return true;
    }
}

/* How many values a range has. */
static inline int64_t
count_of(int64_t from, int64_t to, int64_t step)
{
    if (step > 0)
        return from < to ? (int64_t)(((uint64_t)to - (uint64_t)from - 1) / (uint64_t)step) + 1 : 0;
    return from > to ? (int64_t)(((uint64_t)from - (uint64_t)to - 1) / (0 - (uint64_t)step)) + 1 : 0;
}

/* The address of an element; NULL: an index is out of bounds. */
static inline char *
element(const struct fr_hot_view *v, const union fr_hot_cell *index, int n)
{
    char *at = v->data;

    for (int k = 0; k < n; k++) {
        int64_t i = index[k].i;

        i += i < 0 ? v->dim[k] : 0;
        if (FR_UNLIKELY((uint64_t)i >= (uint64_t)v->dim[k]))
            return NULL;
        at += i * v->stride[k];
    }
    return at;
}

/* A slice of an axis as Python clips it; `none` has bits for the bounds that are not there. */
static void
clip(int64_t n, int none, int64_t *from, int64_t *to)
{
    if (none & 1)
        *from = 0;
    else if (*from < 0)
        *from = *from + n < 0 ? 0 : *from + n;
    else if (*from > n)
        *from = n;
    if (none & 2)
        *to = n;
    else if (*to < 0)
        *to = *to + n < 0 ? 0 : *to + n;
    else if (*to > n)
        *to = n;
}

/* NumPy's product of two rows, which is BLAS's. */
static double
dot(const struct fr_hot_view *a, const struct fr_hot_view *b)
{
    static PyArray_DotFunc *function;
    double                  v = 0;

    if (FR_UNLIKELY(!function))
        function = PyDataType_GetArrFuncs(fr_numpy_descrs[FR_F64])->dotfunc;
    function(a->data, a->stride[0], b->data, b->stride[0], &v, a->dim[0], NULL);
    return v;
}

/* ---- the run */

/* Turns of inner loops between two looks at the clock, and the same of the loop's own, after which others may run; of one that asks for
 * what takes longer. */
enum { BREATH = 1 << 16, OWN = 1 << 10, ASKING = 1 << 4, LONG_NS = 20000000 };

enum fr_hot_end
fr_hot_go(struct fr_hot_program *p, struct fr_hot_run *run, int head)
{
    static const void *const where[FR_HOT_N_OPS] = {
#define X(name) &&name,
        FR_HOT_OPS(X)
#undef X
    };
    const struct fr_hot_ins *const ins = p->ins;
    const struct fr_hot_ins       *in = ins + p->head[head].at;
    union fr_hot_cell *const       reg = run->reg;
    struct fr_hot_view *const      view = run->view;
    struct fr_hot_log              log = {.v = NULL};
    enum fr_hot_end                end = FR_HOT_LEFT;
    const int                      inhaled = p->asks ? ASKING : BREATH;
    const int64_t                  look = p->asks ? ASKING - 1 : OWN - 1;
    int                            breath = inhaled;
    int64_t                        began = fr_now_ns(), v, w;
    size_t                         n_saved = (size_t)p->n_vars * sizeof *reg;
    char                          *at;

    run->n_turns = -1;
    if (p->makes)
        fr_hot_pool_begin(p, run);
    fr_fpe_begin();

#define NEXT_INS() goto *where[(++in)->op]
#define JUMP_TO(i)                                                                                                              \
    do {                                                                                                                        \
        in = ins + (i);                                                                                                         \
        goto *where[in->op];                                                                                                    \
    } while (0)
#define A reg[in->a]
#define B reg[in->b]
#define TO reg[in->to]
    goto *where[in->op];

TURN:
    if (FR_UNLIKELY(fr_fpe_raw() != 0)) {
        if (fr_judge_unseen || fr_fpe_named(fr_fpe_raw()) & ~(unsigned)FR_FPE_UNDER)
            goto EXIT;
        fr_fpe_lower(); /* nobody is told of what became too small */
    }
    if (FR_UNLIKELY(p->appends))
        fr_hot_log_forget(&log);
    log.n = log.n_bytes = 0;
    run->head = (int)in->i;
    run->n_turns++;
    memcpy(run->saved, reg, n_saved);
    memcpy(run->saved + FR_HOT_STACK_REGS, reg + FR_HOT_STACK_REGS, FR_HOT_CELLS * sizeof *reg);
    if (FR_UNLIKELY(run->n_pieces))
        fr_few_keep(run->piece, run->n_pieces, run->pieces_saved, false);
    if (FR_UNLIKELY(p->has_views))
        memcpy(run->saved_view, view, (size_t)p->n_vars * sizeof *view);
    if (FR_UNLIKELY(run->pool.n_taken >= FR_HOT_POOL_LOOK))
        fr_hot_pool_look(p, run, true);
    if (FR_UNLIKELY((run->n_turns & look) == look && fr_now_ns() - began > LONG_NS)) {
        end = FR_HOT_PAUSED;
        goto EXIT;
    }
    NEXT_INS();
CONST:
    TO.i = in->i;
    NEXT_INS();
MOVE:
    TO = A;
    NEXT_INS();
MOVE3:
    memmove(&TO, &A, 3 * sizeof A);
    NEXT_INS();
MOVE_VIEW:
    view[in->to] = view[in->a];
    NEXT_INS();
JUMP_BACK:
    if (FR_UNLIKELY(run->pool.n_taken >= FR_HOT_POOL_LOOK))
        fr_hot_pool_look(p, run, false);
    if (FR_UNLIKELY(--breath == 0)) {
        breath = inhaled;
        if (fr_now_ns() - began > LONG_NS) {
            if (PyErr_CheckSignals() < 0) {
                end = FR_HOT_RAISED;
                goto EXIT;
            }
            if (!p->appends && !(p->makes && log.n > 0)) { /* (others may append to lists, and let go of what is to be put back) */
                Py_BEGIN_ALLOW_THREADS
                Py_END_ALLOW_THREADS
            }
            began = fr_now_ns();
        }
    }
JUMP:
    JUMP_TO(in->at);
IF:
    if (A.i)
        JUMP_TO(in->at);
    NEXT_INS();
UNLESS:
    if (!A.i)
        JUMP_TO(in->at);
    NEXT_INS();

#define CHECKED(name, builtin)                                                                                                  \
    name:                                                                                                                       \
    if (FR_UNLIKELY(builtin(A.i, B.i, &v)))                                                                                     \
        goto EXIT;                                                                                                              \
    TO.i = v;                                                                                                                   \
    NEXT_INS();
    CHECKED(ADD_I, __builtin_add_overflow)
    CHECKED(SUB_I, __builtin_sub_overflow)
    CHECKED(MUL_I, __builtin_mul_overflow)
FLOORDIV_I:
    if (FR_UNLIKELY(!floor_divide(A.i, B.i, &v, &w)))
        goto EXIT;
    TO.i = v;
    NEXT_INS();
MOD_I:
    if (FR_UNLIKELY(!floor_divide(A.i, B.i, &v, &w)))
        goto EXIT;
    TO.i = w;
    NEXT_INS();
SHL_I:
    v = A.i;
    w = B.i;
    if (FR_UNLIKELY(w < 0 || w > 62 || v > INT64_MAX >> w || v < INT64_MIN >> w))
        goto EXIT;
    TO.i = (int64_t)((uint64_t)v << w);
    NEXT_INS();
SHR_I:
    w = B.i;
    if (FR_UNLIKELY(w < 0 || w > 62))
        goto EXIT;
    TO.i = A.i >> w;
    NEXT_INS();
AND_I:
    TO.i = A.i & B.i;
    NEXT_INS();
OR_I:
    TO.i = A.i | B.i;
    NEXT_INS();
XOR_I:
    TO.i = A.i ^ B.i;
    NEXT_INS();
NEG_I:
    if (FR_UNLIKELY(A.i == INT64_MIN))
        goto EXIT;
    TO.i = -A.i;
    NEXT_INS();
ABS_I:
    if (FR_UNLIKELY(A.i == INT64_MIN))
        goto EXIT;
    TO.i = A.i < 0 ? -A.i : A.i;
    NEXT_INS();
INVERT_I:
    TO.i = ~A.i;
    NEXT_INS();
FIT_I:
    if (FR_UNLIKELY(!fits(A.i, in->n)))
        goto EXIT;
    TO.i = A.i;
    NEXT_INS();
ADD_F:
    TO.f = A.f + B.f;
    NEXT_INS();
SUB_F:
    TO.f = A.f - B.f;
    NEXT_INS();
MUL_F:
    TO.f = A.f * B.f;
    NEXT_INS();
DIV_F:
    if (FR_UNLIKELY(B.f == 0))
        goto EXIT;
    TO.f = A.f / B.f;
    NEXT_INS();
NEG_F:
    TO.f = -A.f;
    NEXT_INS();
ABS_F:
    TO.f = fabs(A.f);
    NEXT_INS();
SQRT_F:
    if (FR_UNLIKELY(!(A.f >= 0)))
        goto EXIT;
    TO.f = sqrt(A.f);
    NEXT_INS();
CALL_F:
    TO.f = in->call(A.f);
    if (FR_UNLIKELY(!isfinite(TO.f)))
        goto EXIT;
    NEXT_INS();
CALL2_F:
    TO.f = in->call2(A.f, B.f);
    if (FR_UNLIKELY(!isfinite(TO.f)))
        goto EXIT;
    NEXT_INS();
ROUND_F32:
    TO.f = (double)(float)A.f;
    NEXT_INS();
I_TO_F:
    TO.f = (double)A.i;
    NEXT_INS();
I_TO_F_EXACT: /* of comparisons, which Python makes exactly */
    if (FR_UNLIKELY(A.i > INT64_C(1) << 53 || A.i < -(INT64_C(1) << 53)))
        goto EXIT;
    TO.f = (double)A.i;
    NEXT_INS();
F_TO_I:
    if (FR_UNLIKELY(!(A.f > -0x1p62 && A.f < 0x1p62)))
        goto EXIT;
    TO.i = (int64_t)A.f;
    NEXT_INS();
F_TRUE:
    TO.i = A.f != 0;
    NEXT_INS();
I_TRUE:
    TO.i = A.i != 0;
    NEXT_INS();
NOT:
    TO.i = !A.i;
    NEXT_INS();
#define COMPARED(name, what)                                                                                                    \
    name:                                                                                                                       \
    TO.i = what;                                                                                                                \
    NEXT_INS();
    COMPARED(LT_I, A.i < B.i)
    COMPARED(LE_I, A.i <= B.i)
    COMPARED(EQ_I, A.i == B.i)
    COMPARED(NE_I, A.i != B.i)
    COMPARED(LT_F, A.f < B.f)
    COMPARED(LE_F, A.f <= B.f)
    COMPARED(EQ_F, A.f == B.f)
    COMPARED(NE_F, A.f != B.f)
COUNT: { /* a range of the bounds a and b, and the step c */
    union fr_hot_cell *r = &TO;
    int64_t            from = A.i, to = B.i, step = reg[in->c].i;

    if (FR_UNLIKELY(step == 0 || from > INT64_C(1) << 60 || from < -(INT64_C(1) << 60) || to > INT64_C(1) << 60 ||
                    to < -(INT64_C(1) << 60) || step > INT64_C(1) << 60 || step < -(INT64_C(1) << 60)))
        goto EXIT;
    r[0].i = from;
    r[1].i = count_of(from, to, step);
    r[2].i = step;
    NEXT_INS();
}
NEXT: { /* of the range at a, or the jump where there is none */
    union fr_hot_cell *r = &A;

    if (r[1].i == 0)
        JUMP_TO(in->at);
    TO.i = r[0].i;
    r[0].i += r[2].i;
    r[1].i--;
    NEXT_INS();
}
NEXT_ITEM: { /* of the iterator over n arrays at a: its index, or the jump where there is none */
    for (int k = 0; k < in->n; k++)
        if (A.i >= (in->c >> k & 1 ? PyList_GET_SIZE(view[in->a + k].array) : view[in->a + k].dim[0]))
            JUMP_TO(in->at);
    v = A.i++;
    TO.i = v;
    NEXT_INS();
}
RANDOM:
    TO.f = run->random.draw->next_double(run->random.draw->state);
    NEXT_INS();
NORMAL:
    if (FR_UNLIKELY(!run->random.normal))
        goto EXIT;
    TO.f = fr_few_draw_normal(run->random.normal);
    NEXT_INS();
IS_DIM: /* of the first axis, or (n) of a list: else there are too many or too few values */
    if (FR_UNLIKELY((in->n ? PyList_GET_SIZE(view[in->a].array) : view[in->a].dim[0]) != in->i))
        goto EXIT;
    NEXT_INS();
RANDINT:
    if (FR_UNLIKELY(A.i < INT32_MIN || B.i > INT32_MAX || A.i >= B.i))
        goto EXIT;
    TO.i = A.i + fr_few_below(run->random.draw, B.i - A.i);
    NEXT_INS();
DIM:
    TO.i = view[in->a].dim[in->n];
    NEXT_INS();
SIZE:
    v = 1;
    for (int k = 0; k < in->n; k++)
        v *= view[in->a].dim[k];
    TO.i = v;
    NEXT_INS();
TAKE: { /* axis n, of c, is indexed */
    struct fr_hot_view *to = &view[in->to];
    int64_t             i = B.i;

    *to = view[in->a];
    i += i < 0 ? to->dim[in->n] : 0;
    if (FR_UNLIKELY((uint64_t)i >= (uint64_t)to->dim[in->n]))
        goto EXIT;
    to->data += i * to->stride[in->n];
    to->is_window = true;
    for (int k = in->n; k + 1 < in->c; k++) {
        to->dim[k] = to->dim[k + 1];
        to->stride[k] = to->stride[k + 1];
    }
    NEXT_INS();
}
WINDOW: { /* of axis n, from b to b + 1; c: bits for bounds that are not there */
    struct fr_hot_view *to = &view[in->to];
    int64_t             first = B.i, behind = reg[in->b + 1].i;

    *to = view[in->a];
    clip(to->dim[in->n], in->c, &first, &behind);
    to->is_window = true;
    to->dim[in->n] = behind > first ? behind - first : 0;
    to->data += first * to->stride[in->n];
    NEXT_INS();
}
NEW_AXIS: { /* before axis n, of c */
    struct fr_hot_view *to = &view[in->to];

    *to = view[in->a];
    for (int k = in->c; k > in->n; k--) {
        to->dim[k] = to->dim[k - 1];
        to->stride[k] = to->stride[k - 1];
    }
    to->dim[in->n] = 1;
    to->stride[in->n] = 0;
    to->is_window = true;
    NEXT_INS();
}
TRANSPOSE: { /* n axes */
    struct fr_hot_view *to = &view[in->to], of = view[in->a];

    *to = of;
    for (int k = 0; k < in->n; k++) {
        to->dim[k] = of.dim[in->n - 1 - k];
        to->stride[k] = of.stride[in->n - 1 - k];
    }
    to->is_window = true;
    NEXT_INS();
}
#define TRIED(name, call)                                                                                                       \
    name:                                                                                                                       \
    if (FR_UNLIKELY(!(call)))                                                                                                   \
        goto EXIT;                                                                                                              \
    NEXT_INS();
    TRIED(MAP, fr_hot_run_map(run, in->map, in->to))
    TRIED(FOLD, fr_hot_run_fold(run, in->map, in->to))
    TRIED(FOLD_AXIS, fr_hot_run_fold_axis(run, in->map, in->n, in->to))
    TRIED(COPY, fr_hot_run_copy(run, &log, in->map, in->to))
    TRIED(MAKE, fr_hot_run_make(run, in))
    TRIED(PRODUCT, fr_hot_run_product(run, in))
    TRIED(APPEND, fr_hot_run_append(run, &log, in))
    TRIED(HOLD, fr_hot_run_hold(run, in))
    TRIED(LIST_ITEM, fr_hot_run_list_item(run, in))
    TRIED(LIST_STORE, fr_hot_run_list_store(run, &log, in))
    TRIED(NEW_LIST, fr_hot_run_new_list(run, in))
    TRIED(LIST_ARRAY, fr_hot_run_list_array(run, in))
    TRIED(OWN, fr_hot_run_own(run, in))
    TRIED(ASK, fr_hot_run_ask(p, run, &log, in->ask, in->to))
    TRIED(DRAW, fr_hot_run_draw(run, in))
    TRIED(CALL_MATH, fr_hot_run_math(run, in))
PUT: /* into element i of the array at a, which was made just now */
    fr_hot_run_put(run, in);
    NEXT_INS();
ADD_UP: { /* from 0, one after the other, as Python's sum() */
    const struct fr_hot_view *of = &view[in->a];
    double                    sum = 0;

    if (FR_UNLIKELY(of->dim[0] == 0 || of->dim[0] > FR_HOT_ELEMENTS))
        goto EXIT;
    for (int64_t k = 0; k < of->dim[0]; k++)
        sum += *(const double *)(of->data + k * of->stride[0]);
    TO.f = sum;
    NEXT_INS();
}
LEN:
    TO.i = PyList_GET_SIZE(view[in->a].array);
    NEXT_INS();
DOT:
    if (FR_UNLIKELY(view[in->a].dim[0] != view[in->b].dim[0]))
        goto EXIT;
    if (in->c && view[in->a].dim[0] == 1) /* numpy.dot keeps the sign of a zero */
        TO.f = *(const double *)view[in->a].data * *(const double *)view[in->b].data;
    else
        TO.f = dot(&view[in->a], &view[in->b]);
    NEXT_INS();

#define LOADED(name, type, member)                                                                                              \
    LOAD_##name:                                                                                                                \
    if (FR_UNLIKELY(!(at = element(&view[in->a], &B, in->n))))                                                                  \
        goto EXIT;                                                                                                              \
    TO.member = *(const type *)at;                                                                                              \
    NEXT_INS();
#define STORED(name, type, value)                                                                                               \
    STORE_##name:                                                                                                               \
    if (FR_UNLIKELY(!(at = element(&view[in->a], &B, in->n)) || !view[in->a].writable))                                         \
        goto EXIT;                                                                                                              \
    if (!fr_hot_is_new(run, &view[in->a]) && FR_UNLIKELY(!fr_hot_log_add(&log, at, (int)sizeof(type)))) {                                                            \
        end = FR_HOT_TOO_LONG;                                                                                                  \
        goto EXIT;                                                                                                              \
    }                                                                                                                           \
    *(type *)at = (type)(value);                                                                                                \
    NEXT_INS();
    LOADED(BOOL, uint8_t, i)
    LOADED(I8, int8_t, i)
    LOADED(I16, int16_t, i)
    LOADED(I32, int32_t, i)
    LOADED(I64, int64_t, i)
    LOADED(U8, uint8_t, i)
    LOADED(U16, uint16_t, i)
    LOADED(U32, uint32_t, i)
    LOADED(F32, float, f)
    LOADED(F64, double, f)
    STORED(BOOL, uint8_t, TO.i != 0)
    STORED(I8, int8_t, TO.i)
    STORED(I16, int16_t, TO.i)
    STORED(I32, int32_t, TO.i)
    STORED(I64, int64_t, TO.i)
    STORED(U8, uint8_t, TO.i)
    STORED(U16, uint16_t, TO.i)
    STORED(U32, uint32_t, TO.i)
    STORED(F32, float, TO.f)
    STORED(F64, double, TO.f)

EXIT:
    end = PyErr_Occurred() ? FR_HOT_RAISED : end;
    fr_hot_log_undo(&log);
    if (run->n_pieces && run->n_turns >= 0)
        fr_few_keep(run->piece, run->n_pieces, run->pieces_saved, true);
    run->left = (int32_t)(in - ins);
    run->ns = fr_now_ns() - began;
    fr_hot_log_free(&log);
    fr_fpe_lower();
    return end;
}
