/* jit/gen/loops.c -- the loops of a block kernel: what is read, computed and stored for each element, and how elements
 * that want something RARE are told from the others. */
#include "jit/gen/loops.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { LONG_RECIPE = 20, MAX_RARE = 4, ABREAST = 4 };

const char gen_arg_name[MAX_ARGS + 1] = "xyz";

const char *
gen_memory_type(const struct shape *s, const struct side *side)
{
    size_t i = s->roots[0];

    if (side != &s->out)
        for (i = 0; s->code.inst[i].op != FR_M_INPUT || (int)s->code.inst[i].imm != side->first;)
            i++;
    return fr_text_memory_type(s->code.inst[i].type);
}

/* needs: as find_needs sets them. */
static void
add_loads(struct fr_text *t, const struct shape *s, const bool *needs, unsigned once, bool scalars, int unroll)
{
    const char *indent = scalars ? "        " : "            ";

    for (int k = 0; k < s->n_args; k++) {
        const struct side *a = &s->args[k];
        bool               truth = a->dtype == FR_BOOL;
        const char        *type = truth ? "bool" : gen_memory_type(s, a);

        if ((once >> k & 1) != scalars)
            continue;
        for (int p = 0; p < a->n_parts; p++) {
            if (!needs[a->first + p])
                continue;
            for (int lane = 0; lane < unroll; lane++)
                fr_text_add(t, "%sconst %s %c%d_%d = %c[i + %d * h]%s;\n", indent, type, gen_arg_name[k], p, lane,
                            gen_arg_name[k], lane, truth ? " != 0" : "");
            if (unroll)
                continue;
            fr_text_add(t, "%sconst %s %c%d = %c[", indent, type, gen_arg_name[k], p, gen_arg_name[k]);
            if (scalars)
                fr_text_add(t, "%d]", p);
            else if (a->n_parts == 2)
                fr_text_add(t, "2 * i + %d]", p);
            else
                fr_text_add(t, "i]");
            fr_text_add(t, truth ? " != 0;\n" : ";\n");
        }
    }
}

/* Sets needs[] (of 2 * MAX_ARGS) for the inputs that these values are made of; `usual`: of RARE values only the usual
 * side. */
static void
find_needs(const struct shape *s, const fr_mval *roots, int n_roots, bool usual, bool *needs)
{
    uint8_t *needed = fr_malloc(s->code.n);

    if (!needed)
        gen_die("out of memory");
    memset(needs, 0, 2 * MAX_ARGS * sizeof *needs);
    fr_text_needed(&s->code, roots, n_roots, usual, needed);
    for (size_t i = 0; i < s->code.n; i++)
        if (needed[i] && s->code.inst[i].op == FR_M_INPUT)
            needs[s->code.inst[i].imm] = true;
    fr_free(needed);
}

/* GCC 12 makes `a * b + c` and `d * e - f`, stored side by side, one instruction that rounds once,
 * and does not ask -ffp-contract=off first.  Complex kernels with such code keep their parts apart
 * in two small blocks and join them afterwards. */
static bool
in_pieces(const struct shape *s)
{
    for (size_t i = 0; i < s->code.n && s->out.n_parts == 2; i++) {
        const struct fr_minst *in = &s->code.inst[i];

        if ((in->op == FR_M_ADD || in->op == FR_M_SUB) &&
            (s->code.inst[in->a].op == FR_M_MUL || s->code.inst[in->b].op == FR_M_MUL))
            return true;
    }
    return false;
}

/* On to the next piece. */
static void
add_steps(struct fr_text *t, const struct shape *s)
{
    fr_text_add(t, s->out.n_parts == 2 ? "        r += 2 * m;\n" : "        r += m;\n");
    for (int k = 0; k < s->n_args; k++)
        fr_text_add(t, "        %c += %d * m;\n", gen_arg_name[k], s->args[k].n_parts);
    fr_text_add(t, "        }\n");
}

/* Whether elements are looked at in pieces first: has one of them a RARE value? */
static bool looks_first(const struct shape *s) { return s->out.n_parts == 1 && fr_m_has_rare(&s->code); }

/* How many instructions the result is made of. */
static size_t
n_lines(const struct shape *s)
{
    uint8_t *needed = fr_malloc(s->code.n);
    size_t   n = 0;

    if (!needed)
        gen_die("out of memory");
    fr_text_needed(&s->code, s->roots, s->out.n_parts, false, needed);
    for (size_t i = 0; i < s->code.n; i++)
        n += needed[i] && s->code.inst[i].op != FR_M_INPUT && s->code.inst[i].op != FR_M_CONST;
    fr_free(needed);
    return n;
}

/* How many elements would have to be worked on at once, as an element without RARE values is computed. */
static int
wanted_unroll(const struct shape *s)
{
    const struct fr_minst *inst = s->code.inst;
    int                    slots = 0, latency = 0, *ready = fr_calloc(s->code.n, sizeof *ready);
    uint8_t               *needed = fr_malloc(s->code.n);

    if (!needed || !ready)
        gen_die("out of memory");
    fr_text_needed(&s->code, s->roots, s->out.n_parts, true, needed);
    for (size_t i = 0; i < s->code.n; i++) {
        const fr_mval   args[] = {inst[i].a, inst[i].b, inst[i].c};
        bool            is_rare = inst[i].op == FR_M_RARE;
        struct fr_mcost cost = fr_m_cost((enum fr_mop)inst[i].op, inst[i].type, inst[args[0]].type);

        for (int k = is_rare ? 2 : 0; k < fr_mop_arity[inst[i].op]; k++)
            ready[i] = ready[args[k]] > ready[i] ? ready[args[k]] : ready[i];
        if (inst[i].op == FR_M_INPUT)
            ready[i] = FR_LOAD_LATENCY;
        if (!needed[i] || is_rare || fr_mop_arity[inst[i].op] == 0)
            continue;
        ready[i] += cost.latency;
        slots += cost.slots;
        latency = ready[i] > latency ? ready[i] : latency;
    }
    fr_free(needed);
    fr_free(ready);
    return fr_m_unroll(slots, latency);
}

/* Whether ABREAST elements are worked on at once. With that x^y of f64 takes 0.7 of the time, log(1 + e^x) as much; where
 * the vectors are half as long (AVX2), of which twice as many are started, 0.6, and e^x 0.75. */
static bool
is_unrolled(const struct shape *s)
{
    bool is_float = false;

    if (s->out.n_parts != 1 || n_lines(s) <= LONG_RECIPE)
        return false;
    for (int k = 0; k < s->n_args; k++)
        if (s->args[k].n_parts != 1)
            return false;
    for (size_t i = 0; i < s->code.n; i++) {
        is_float |= fr_dtype_is_float(s->code.inst[i].type);
        if (fr_m_is_scalar((enum fr_mop)s->code.inst[i].op))
            return false;
    }
    return is_float && wanted_unroll(s) > 2;
}

/* What elements are RARE by: conditions; or values, which are RARE from a constant on, so that the largest one says it. */
struct look {
    int         n;
    fr_mval     roots[MAX_RARE];
    fr_mval     least[MAX_RARE]; /* the constant; UINT16_MAX: a condition */
};

static struct look
find_look(const struct shape *s)
{
    const struct fr_minst *inst = s->code.inst;
    struct look            look = {0};

    for (size_t i = 0; i < s->code.n; i++) {
        const struct fr_minst *cond = &inst[inst[i].a];
        bool                   is_least, seen = inst[i].op != FR_M_RARE;
        fr_mval                root;

        if (seen)
            continue;
        is_least = cond->op == FR_M_LE && inst[cond->a].op == FR_M_CONST &&
                   (inst[cond->b].type == FR_U32 || inst[cond->b].type == FR_U64);
        root = is_least ? cond->b : inst[i].a;
        for (int k = 0; k < look.n; k++)
            seen |= look.roots[k] == root && look.least[k] == (is_least ? cond->a : UINT16_MAX);
        if (!seen && look.n == MAX_RARE)
            gen_die("more than %d conditions of RARE values", MAX_RARE);
        if (seen)
            continue;
        look.least[look.n] = is_least ? cond->a : UINT16_MAX;
        look.roots[look.n++] = root;
    }
    return look;
}

static fr_dtype type_of(const struct shape *s, fr_mval v) { return s->code.inst[v].type; }

/* Sets `rare` if one of m elements is. */
static void
add_look(struct fr_text *t, const struct shape *s, const struct fr_text_lines *lines, unsigned once)
{
    static const char *const names[MAX_RARE] = {"q0", "q1", "q2", "q3"};
    struct look              look = find_look(s);
    struct fr_text_lines     to_look = *lines;
    bool                     needs[2 * MAX_ARGS];

    to_look.roots = look.roots;
    to_look.root_names = names;
    to_look.n_roots = look.n;
    to_look.usual = true;
    fr_text_add(t, "        unsigned rare = 0;\n");
    for (int k = 0; k < look.n; k++)
        if (look.least[k] != UINT16_MAX)
            fr_text_add(t, "        %s top%d = 0;\n", fr_text_type(type_of(s, look.roots[k])), k);
    fr_text_add(t, "\n        LOOP(m) {\n");
    find_needs(s, look.roots, look.n, true, needs);
    add_loads(t, s, needs, once, false, 0);
    fr_text_micro(t, &s->code, &to_look);
    for (int k = 0; k < look.n; k++)
        if (look.least[k] != UINT16_MAX) {
            fr_text_add(t, "            top%d = LARGER%d(top%d, q%d, ", k, 8 * fr_dtype_size(type_of(s, look.roots[k])), k, k);
            fr_text_const(t, type_of(s, look.least[k]), s->code.inst[look.least[k]].imm);
            fr_text_add(t, ");\n");
        } else {
            fr_text_add(t, "            rare |= q%d;\n", k);
        }
    fr_text_add(t, "        }\n");
    for (int k = 0; k < look.n; k++)
        if (look.least[k] != UINT16_MAX) {
            fr_text_add(t, "        rare |= top%d >= ", k);
            fr_text_const(t, type_of(s, look.least[k]), s->code.inst[look.least[k]].imm);
            fr_text_add(t, ";\n");
        }
}

/* A loop with what each element, or `unroll` of them side by side, takes; `stores` is what it does with one at last. */
static void
add_loop_that(struct fr_text *t, const struct shape *s, const struct fr_text_lines *lines, const char *loop, bool usual,
              int unroll, unsigned once, const char *stores)
{
    struct fr_text_lines own = *lines;
    bool                 needs[2 * MAX_ARGS];

    own.usual = usual;
    own.unroll = unroll;
    find_needs(s, s->roots, s->out.n_parts, usual, needs);
    fr_text_add(t, "%s {\n", loop);
    add_loads(t, s, needs, once, false, unroll);
    fr_text_micro(t, &s->code, &own);
    for (int lane = 0; lane < unroll; lane++)
        fr_text_add(t, "            r[i + %d * h] = r0_%d;\n", lane, lane);
    fr_text_add(t, "%s        }\n", unroll ? "" : stores);
}

static void
add_loop(struct fr_text *t, const struct shape *s, const struct fr_text_lines *lines, const char *loop, bool usual,
         int unroll, unsigned once)
{
    add_loop_that(t, s, lines, loop, usual, unroll, once,
                  s->out.n_parts == 2 ? "            r[2 * i] = r0;\n            r[2 * i + 1] = r1;\n"
                                      : "            r[i] = r0;\n");
}

/* Piece by piece. One without RARE values has a shorter loop; where there are such, pieces are small. */
static void
add_piece_loops(struct fr_text *t, const struct shape *s, const struct fr_text_lines *lines, unsigned once)
{
    bool looks = looks_first(s), unroll = once == 0 && is_unrolled(s);

    fr_text_add(t, "        for (size_t m, most = PIECE; n > 0; n -= m) {\n"
                   "        m = n < most ? n : most;\n");
    if (looks) {
        add_look(t, s, lines, once);
        fr_text_add(t, "        most = rare ? RARE_PIECE : PIECE;\n"
                       "        if (rare && m > RARE_PIECE) {\n            m = 0;\n            continue;\n        }\n"
                       "        if (rare)\n");
        add_loop(t, s, lines, "        LOOP(m)", false, 0, once);
        fr_text_add(t, "        else\n");
    }
    if (unroll) {
        fr_text_add(t, "        {\n        size_t first = 0;\n\n"
                       "#ifdef __FP_FAST_FMA\n        const size_t h = m / (%d * 16) * 16;\n\n        first = %d * h;\n",
                    ABREAST, ABREAST);
        add_loop(t, s, lines, "        LOOP(h)", true, ABREAST, once);
        fr_text_add(t, "#endif\n");
        add_loop(t, s, lines, "        LOOP_FROM(first, m)", true, 0, once);
        fr_text_add(t, "        }\n");
    } else {
        add_loop(t, s, lines, "        LOOP(m)", true, 0, once);
    }
    add_steps(t, s);
}

/* Piece by piece, with the parts of complex numbers apart. */
static void
add_joined_loops(struct fr_text *t, const struct shape *s, const struct fr_text_lines *lines, unsigned once)
{
    fr_text_add(t, "        for (size_t m; n > 0; n -= m) {\n        %s re[PIECE], im[PIECE];\n\n"
                   "        m = n < PIECE ? n : PIECE;\n", gen_memory_type(s, &s->out));
    add_loop_that(t, s, lines, "        LOOP(m)", false, 0, once, "            re[i] = r0;\n            im[i] = r1;\n");
    fr_text_add(t, "        LOOP(m) {\n            r[2 * i] = re[i];\n            r[2 * i + 1] = im[i];\n        }\n");
    add_steps(t, s);
}

void
gen_case(struct fr_text *t, const struct shape *s, unsigned once)
{
    static const char *const names[] = {"r0", "r1"};
    char                     input_text[2 * MAX_ARGS][16];
    const char              *inputs[2 * MAX_ARGS];
    bool                     needs[2 * MAX_ARGS];
    struct fr_text_lines     lines = {.indent = "            ",
                                      .prefix = "t",
                                      .inputs = inputs,
                                      .roots = s->roots,
                                      .root_names = names,
                                      .n_roots = s->out.n_parts};

    for (int k = 0; k < s->n_args; k++)
        for (int p = 0; p < s->args[k].n_parts; p++) {
            int i = s->args[k].first + p;
            snprintf(input_text[i], sizeof input_text[i], "%c%d", gen_arg_name[k], p);
            inputs[i] = input_text[i];
        }
    fr_text_add(t, "    case %u: {\n", once);
    find_needs(s, s->roots, s->out.n_parts, false, needs);
    add_loads(t, s, needs, once, true, 0);
    if (looks_first(s) || (once == 0 && is_unrolled(s)))
        add_piece_loops(t, s, &lines, once);
    else if (in_pieces(s))
        add_joined_loops(t, s, &lines, once);
    else
        add_loop(t, s, &lines, "        LOOP(n)", false, 0, once);
    fr_text_add(t, "        return;\n    }\n");
}

/* Whether something is divided by what its second argument alone says: of one number that is computed once. */
static bool
inverts_second(const struct shape *s)
{
    const struct fr_minst *inst = s->code.inst;
    uint8_t               *reads = fr_calloc(s->code.n, 1);
    bool                   found = false;

    if (!reads)
        gen_die("out of memory");
    for (size_t i = 0; i < s->code.n; i++) {
        const fr_mval args[] = {inst[i].a, inst[i].b, inst[i].c};

        if (inst[i].op == FR_M_INPUT)
            reads[i] = (int)inst[i].imm < s->args[1].first ? 1 : 2;
        for (int k = 0; k < fr_mop_arity[inst[i].op]; k++)
            reads[i] |= reads[args[k]];
        found |= inst[i].op == FR_M_DIV && reads[i] == 2;
    }
    fr_free(reads);
    return found;
}

/* Which masks get a loop of their own, as bits: what programs use with cheap operations. Long
 * recipes have one loop, because a splat costs them nothing that can be measured, but for a
 * division. */
unsigned
gen_masks(const struct shape *s)
{
    if (n_lines(s) > LONG_RECIPE || looks_first(s))
        return 1u << 0 | (unsigned)(s->n_args == 2 && s->out.n_parts == 1 && inverts_second(s)) << 2;
    switch (s->n_args) {
    case 2:
        return 1u << 0 | 1u << 1 | 1u << 2;
    case 3:
        return 1u << 0 | 1u << 2 | 1u << 4 | 1u << 6;
    default:
        return 1u << 0;
    }
}
