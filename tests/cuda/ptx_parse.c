/* tests/cuda/ptx_parse.c -- the text of a module: its variables and functions. ptx_decode.c reads instructions.
 *
 * Whatever is not understood ends parsing with a message; the jump stays within ptx_parse(). */
#include "ptx_parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */

static uint64_t
whole(struct parser *p)
{
    bool     is_float, is_32;
    double   value;
    uint64_t bits = ptx_number(p, &is_float, &is_32, &value);

    if (is_float)
        ptx_fail(p, "a whole number is wanted");
    return bits;
}

struct symbol *
ptx_symbol(struct parser *p, const char *name)
{
    size_t   n = strlen(name), digits = n;
    uint64_t number;

    for (int i = p->n_symbols - 1; i >= 0; i--)
        if (!p->symbols[i].family && p->symbols[i].kind != SYM_TARGETS && !strcmp(p->symbols[i].name, name))
            return &p->symbols[i];
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    for (; digits < n; digits++) {              /* "%r12" is of %r<13>, or of %r1<3> */
        number = strtoull(name + digits, NULL, 10);
        for (int i = p->n_symbols - 1; i >= 0; i--)
            if (p->symbols[i].family && strlen(p->symbols[i].name) == digits && !strncmp(p->symbols[i].name, name, digits) &&
                number < p->symbols[i].n)
                return &p->symbols[i];
    }
    return NULL;
}

struct variable *
ptx_var(struct parser *p, const char *name)
{
    struct symbol *s = ptx_symbol(p, name);

    return s && s->kind == SYM_VAR ? s->var : NULL;
}

int
ptx_function(struct parser *p, const char *name)
{
    for (int i = 0; i < p->m->n_functions; i++)
        if (!strcmp(p->m->functions[i]->name, name))
            return i;
    return -1;
}

static struct symbol *
add_symbol(struct parser *p, const char *name, enum symbol_kind kind)
{
    p->symbols = ptx_grow(p, p->symbols, (size_t)p->n_symbols, sizeof *p->symbols);
    p->symbols[p->n_symbols] = (struct symbol){.name = ptx_copy(p, name), .kind = kind};
    return &p->symbols[p->n_symbols++];
}

static void
enter_scope(struct parser *p)
{
    if (p->depth == 64)
        ptx_fail(p, "64 braces");
    p->parents = ptx_grow(p, p->parents, p->n_scopes, sizeof *p->parents);
    p->parents[p->n_scopes] = p->depth ? p->scopes[p->depth - 1] : UINT32_MAX;
    p->scopes[p->depth] = p->n_scopes++;
    p->marks[p->depth++] = p->n_symbols;
}

static void
leave_scope(struct parser *p)
{
    p->n_symbols = p->marks[--p->depth];
}

/* ---- registers and constants ---- */

/* Registers of a lane's width, 1 for a predicate; n of them. */
static uint32_t
room(struct parser *p, uint32_t width, uint32_t n)
{
    uint32_t size = width == 1 ? 4 : width * LANES, at_;

    p->fn->regs_bytes = (p->fn->regs_bytes + (width == 1 ? 3 : 63)) / (width == 1 ? 4 : 64) * (width == 1 ? 4 : 64);
    at_ = p->fn->regs_bytes;
    if (n > 1000000 || (uint64_t)at_ + (uint64_t)n * size > OFFSET)
        ptx_fail(p, "too many registers");
    p->fn->regs_bytes += n * size;
    p->fn->rooms = ptx_grow(p, p->fn->rooms, (size_t)p->fn->n_rooms, sizeof *p->fn->rooms);
    p->fn->rooms[p->fn->n_rooms].at = at_;
    p->fn->rooms[p->fn->n_rooms].width = width;
    p->fn->rooms[p->fn->n_rooms++].n = n;
    return at_;
}

ref
ptx_register(struct parser *p, uint32_t width)
{
    return IN_FRAME | room(p, width, 1);
}

ref
ptx_constant(struct parser *p, uint64_t bits, uint32_t width)
{
    struct ptx_module *m = p->m;
    uint32_t           size = width == 1 ? 64 : width * LANES, at_;

    bits = width == 8 ? bits : width == 1 ? (bits & 1 ? UINT32_MAX : 0) : bits & ((1ull << 8 * width) - 1);
    for (at_ = 0; at_ < m->n_constants; at_++)
        if (m->constants[at_].bits == bits && m->constants[at_].width == width)
            return IN_CONSTS | m->constants[at_].at;
    m->constants = ptx_grow(p, m->constants, m->n_constants, sizeof *m->constants);
    if (m->consts_bytes + size > m->consts_cap) {
        uint32_t       cap = 2 * m->consts_cap + 4096;
        unsigned char *to = aligned_alloc(64, cap);

        if (!to)
            ptx_fail(p, "out of memory");
        if (m->consts_bytes)
            memcpy(to, m->consts, m->consts_bytes);
        free(m->consts);
        m->consts = to;
        m->consts_cap = cap;
    }
    at_ = m->consts_bytes;
    m->consts_bytes += size;
    m->constants[m->n_constants].bits = bits;
    m->constants[m->n_constants].width = width;
    m->constants[m->n_constants++].at = at_;
    for (uint32_t i = 0; i < size; i += width == 1 ? 4 : width)
        memcpy(m->consts + at_ + i, &bits, width == 1 ? 4 : width);
    return IN_CONSTS | at_;
}

struct insn *
ptx_emit(struct parser *p)
{
    struct ptx_module *m = p->m;
    struct insn       *in;

    m->code = ptx_grow(p, m->code, m->n_code, sizeof *m->code);
    in = &m->code[m->n_code++];
    *in = (struct insn){.d = NO_REF, .d2 = NO_REF, .a = NO_REF, .b = NO_REF, .c = NO_REF, .e = NO_REF, .guard = NO_REF,
                        .line = p->t_line, .n = 1, .address_width = 8, .name = ""};
    return in;
}

/* ---- declarations ---- */

static void
reg_declaration(struct parser *p)
{
    enum type t;

    ptx_next(p);
    while (ptx_is(p, ".v2") || ptx_is(p, ".v4"))
        ptx_fail(p, "unsupported: registers that are vectors");
    t = p->t == WORD && *p->text == '.' ? ptx_type(p->text + 1) : T_NONE;
    if (t == T_NONE || t == T_B128)
        ptx_fail(p, "unsupported: registers of type %s", p->text);
    ptx_next(p);
    do {
        struct symbol *s;
        uint32_t       width = t == T_PRED ? 1 : ptx_type_bytes(t) < 2 ? 2 : (uint32_t)ptx_type_bytes(t), n = 1;
        char           name[sizeof p->text];
        bool           family = false;

        if (p->t != WORD)
            ptx_fail(p, "a register's name is wanted, there is '%s'", p->text);
        strcpy(name, p->text);
        ptx_next(p);
        if (ptx_take(p, "<")) {
            n = (uint32_t)whole(p);
            ptx_want(p, ">");
            family = true;
        }
        s = add_symbol(p, name, SYM_REGS);
        s->family = family;
        s->n = n;
        s->width = width;
        s->at = room(p, width, n);
        *(width == 1 ? &p->fn->n_pred : width == 2 ? &p->fn->n_b16 : width == 4 ? &p->fn->n_b32 : &p->fn->n_b64) += n;
    } while (ptx_take(p, ","));
    ptx_want(p, ";");
}

/* The values of an initialiser, into at most n bytes. */
static void
initialiser(struct parser *p, unsigned char *to, size_t n, size_t *at_, enum type t)
{
    const size_t size = (size_t)ptx_type_bytes(t);

    if (ptx_take(p, "{")) {
        while (!ptx_is(p, "}")) {
            initialiser(p, to, n, at_, t);
            if (!ptx_take(p, ","))
                break;
        }
        ptx_want(p, "}");
        return;
    }
    bool     is_float = false, is_32 = false;
    double   value = 0;
    uint64_t bits = 0;

    if (p->t == WORD) {
        char             name[sizeof p->text];
        bool             generic = !strcmp(p->text, "generic");
        struct variable *v;

        if (generic) {
            ptx_next(p);
            ptx_want(p, "(");
        }
        strcpy(name, p->text);
        ptx_next(p);
        if (generic)
            ptx_want(p, ")");
        v = ptx_var(p, name);
        if (v && (v->space == S_GLOBAL || v->space == S_CONST))
            bits = v->at + (uint64_t)(uintptr_t)p->m->memory;
        else if (ptx_function(p, name) >= 0)
            bits = CODE_BASE + 16 * (uint64_t)ptx_function(p, name);
        else
            ptx_fail(p, "unsupported initialiser %s", name);
        if (ptx_take(p, "+"))
            bits += whole(p);
    } else {
        bits = ptx_number(p, &is_float, &is_32, &value);
    }
    if (t == T_F32 && !is_32) {
        float f = (float)value;

        memcpy(&bits, &f, 4);
    } else if (t == T_F64 && (is_32 || !is_float)) {
        memcpy(&bits, &value, 8);
    }
    if (*at_ + size > n)
        ptx_fail(p, "an initialiser is too long");
    memcpy(to + *at_, &bits, size);
    *at_ += size;
}

/* After the space: [.align n] [.v2] .type name [dims] ... of one variable. */
static struct variable *
declarator(struct parser *p, enum space space, bool is_reg)
{
    struct variable *v = calloc(1, sizeof *v);
    uint64_t         n = 1;
    enum type        t;
    bool             open = false;

    p->m->variables = ptx_grow(p, p->m->variables, (size_t)p->m->n_variables, sizeof *p->m->variables);
    if (!v)
        ptx_fail(p, "out of memory");
    p->m->variables[p->m->n_variables++] = v;
    v->space = (uint8_t)space;
    v->owner = p->fn ? p->fn->index : -1;
    v->is_reg = is_reg;
    while (p->t == WORD) {
        if (ptx_take(p, ".align")) {
            v->align = (uint32_t)whole(p);
        } else if (ptx_is(p, ".v2") || ptx_is(p, ".v4")) {
            n *= p->text[2] == '2' ? 2 : 4;
            ptx_next(p);
        } else if (ptx_take(p, ".ptr")) {
            while (ptx_is(p, ".global") || ptx_is(p, ".shared") || ptx_is(p, ".const") || ptx_is(p, ".local"))
                ptx_next(p);
            if (ptx_take(p, ".align"))
                whole(p);
        } else if (*p->text == '.' && ptx_type(p->text + 1) != T_NONE) {
            t = ptx_type(p->text + 1);
            v->type = (uint8_t)t;
            ptx_next(p);
        } else {
            break;
        }
    }
    if (p->t != WORD || v->type == T_NONE)
        ptx_fail(p, "a variable's name is wanted, there is '%s'", p->text);
    t = (enum type)v->type;
    v->name = ptx_copy(p, p->text);
    ptx_next(p);
    while (ptx_take(p, "[")) {
        if (ptx_is(p, "]"))
            open = true;
        else
            n *= whole(p);
        ptx_want(p, "]");
    }
    n *= (uint64_t)ptx_type_bytes(t);
    if (n > 1u << 30)
        ptx_fail(p, "%s has %llu bytes", v->name, (unsigned long long)n);
    v->n_bytes = open ? 0 : (uint32_t)n;
    v->is_open = open;
    v->align = v->align ? v->align : (uint32_t)ptx_type_bytes(t);
    v->width = t == T_PRED ? 1 : ptx_type_bytes(t) < 2 ? 2 : (uint8_t)ptx_type_bytes(t);
    return v;
}

static uint64_t
aligned(uint64_t x, uint64_t n)
{
    return (x + n - 1) / n * n;
}

/* A .global, .const, .shared, .local or .param variable, at its place. */
static void
variable_declaration(struct parser *p, enum space space, bool is_extern)
{
    do {
        struct variable *v = declarator(p, space, false);
        struct symbol   *s;
        size_t           n = 0;

        switch (space) {
        case S_SHARED:
            if (is_extern || v->is_open) {
                v->is_open = true;
                break;
            }
            v->at = aligned(p->m->shared_bytes, v->align);
            p->m->shared_bytes = (uint32_t)(v->at + v->n_bytes);
            break;
        case S_LOCAL:
            v->at = aligned(p->fn->local_bytes, v->align);
            p->fn->local_bytes = (uint32_t)(v->at + v->n_bytes);
            break;
        case S_FRAME:
            v->at = aligned(p->fn->area_bytes, v->align < 8 ? 8 : v->align);
            p->fn->area_bytes = (uint32_t)aligned(v->at + v->n_bytes, 8);
            break;
        default:                                /* memory was made as large as all of them can be */
            v->at = aligned(p->m->memory_bytes, v->align < 16 ? 16 : v->align);
            if (v->at + v->n_bytes > p->m->memory_cap)
                ptx_fail(p, "unsupported: %s has no size, or variables are larger than the module says", v->name);
            p->m->memory_bytes = v->at + v->n_bytes;
        }
        s = add_symbol(p, v->name, SYM_VAR);
        s->var = v;
        if (ptx_take(p, "=")) {
            if (space != S_GLOBAL && space != S_CONST)
                ptx_fail(p, "only .global and .const variables have initialisers");
            initialiser(p, p->m->memory + v->at, v->n_bytes, &n, (enum type)v->type);
        }
    } while (ptx_take(p, ","));
    ptx_want(p, ";");
}

static enum space
space_of(const char *word)
{
    return !strcmp(word, ".global") ? S_GLOBAL : !strcmp(word, ".const") ? S_CONST : !strcmp(word, ".shared") ? S_SHARED
           : !strcmp(word, ".local") ? S_LOCAL : !strcmp(word, ".param") ? S_FRAME : S_GENERIC;
}

/* ---- functions ---- */

static void
body(struct parser *p)
{
    const int outer = p->depth;

    ptx_want(p, "{");
    enter_scope(p);
    while (p->depth > outer) {
        if (p->t == END)
            ptx_fail(p, "%s has no end", p->fn->name);
        if (ptx_take(p, "{")) {
            enter_scope(p);
        } else if (ptx_is(p, "}")) {
            leave_scope(p);
            ptx_next(p);
        } else if (ptx_is(p, ".reg")) {
            reg_declaration(p);
        } else if (ptx_is(p, ".extern") || (p->t == WORD && space_of(p->text) != S_GENERIC)) {
            bool       is_extern = ptx_take(p, ".extern");
            enum space s = space_of(p->text);

            ptx_next(p);
            variable_declaration(p, s, is_extern);
        } else if (ptx_is(p, ".pragma")) {
            while (!ptx_is(p, ";") && p->t != END)
                ptx_next(p);
            ptx_want(p, ";");
        } else if (ptx_is(p, ".loc")) {         /* up to the end of its line */
            uint32_t line = p->t_line;

            while (p->t != END && p->t_line == line)
                ptx_next(p);
        } else {
            ptx_instruction(p);
        }
    }
}

static void
resolve_labels(struct parser *p)
{
    for (int i = 0; i < p->n_fixups; i++) {
        struct fixup *f = &p->fixups[i];
        bool          found = false;

        for (uint32_t scope = f->scope; !found && scope != UINT32_MAX; scope = p->parents[scope])
            for (int j = 0; j < p->n_labels && !found; j++)
                if (p->labels[j].scope == scope && !strcmp(p->labels[j].name, f->name)) {
                    if (f->in_table)
                        p->m->tables[f->table].target[f->row] = p->labels[j].at;
                    else
                        p->m->code[f->insn].target = p->labels[j].at;
                    found = true;
                }
        p->t_line = f->line;
        if (!found)
            ptx_fail(p, "there is no label %s", f->name);
    }
    p->n_fixups = p->n_labels = 0;
    p->n_scopes = 0;
}

/* ( .param .b64 a, .reg .u32 b ): results or parameters. */
static void
formals(struct parser *p, struct variable **list, int *n)
{
    *n = 0;
    ptx_want(p, "(");
    while (!ptx_is(p, ")")) {
        bool             is_reg = ptx_is(p, ".reg");
        struct variable *v;

        if (!is_reg && !ptx_is(p, ".param"))
            ptx_fail(p, "a parameter is wanted, there is '%s'", p->text);
        ptx_next(p);
        v = declarator(p, S_FRAME, is_reg);
        *list = ptx_grow(p, *list, (size_t)*n, sizeof **list);
        (*list)[(*n)++] = *v;
        if (*n > MAX_PASSED)
            ptx_fail(p, "unsupported: more than %d parameters", MAX_PASSED);
        if (!ptx_take(p, ","))
            break;
    }
    ptx_want(p, ")");
}

/* Places in the frame, and names. */
static void
place(struct parser *p, struct variable *list, int n)
{
    struct ptx_kernel *fn = p->fn;

    for (int i = 0; i < n; i++) {
        struct variable *v = &list[i];
        struct symbol   *s = add_symbol(p, v->name, v->is_reg ? SYM_REGS : SYM_VAR);

        v->owner = fn->index;
        if (v->is_reg) {
            v->reg = ptx_register(p, v->width);
            v->n_bytes = v->width;
            s->at = v->reg;
            s->n = 1;
            s->width = v->width;
            continue;
        }
        s->var = v;
        if (fn->is_entry) {
            v->space = S_PARAM;
            v->at = fn->param_offset[i];
        } else {
            v->at = aligned(fn->area_bytes, v->align < 8 ? 8 : v->align);
            fn->area_bytes = (uint32_t)aligned(v->at + v->n_bytes, 8);
        }
    }
}

static void
function(struct parser *p, bool is_entry)
{
    struct ptx_module *m = p->m;
    struct ptx_kernel *fn;
    int                n_results = 0, n_params = 0, old;
    uint32_t           at_ = 0;

    ptx_next(p);
    if (!is_entry && ptx_is(p, "("))
        formals(p, &p->results, &n_results);
    if (p->t != WORD)
        ptx_fail(p, "a function's name is wanted, there is '%s'", p->text);
    old = ptx_function(p, p->text);
    if (old < 0) {
        if (!(fn = calloc(1, sizeof *fn)))
            ptx_fail(p, "out of memory");
        m->functions = ptx_grow(p, m->functions, (size_t)m->n_functions, sizeof *m->functions);
        fn->index = m->n_functions;
        m->functions[m->n_functions++] = fn;
        fn->module = m;
        fn->name = ptx_copy(p, p->text);
        fn->is_entry = is_entry;
        fn->max_threads = 1024;
        fn->max_block[0] = fn->max_block[1] = 1024;
        fn->max_block[2] = 64;
    } else {
        fn = m->functions[old];
        if (fn->has_body)
            ptx_fail(p, "a second %s", fn->name);
    }
    ptx_next(p);
    if (ptx_is(p, "("))
        formals(p, &p->params, &n_params);
    free(fn->params);
    free(fn->results);
    fn->params = p->params;
    fn->results = p->results;
    p->params = p->results = NULL;              /* the function owns them now */
    fn->n_params = n_params;
    fn->n_results = n_results;
    while (p->t == WORD && *p->text == '.') {
        bool maxntid = ptx_is(p, ".maxntid") || ptx_is(p, ".reqntid");

        if (!maxntid && !ptx_is(p, ".minnctapersm") && !ptx_is(p, ".maxnctapersm") && !ptx_is(p, ".maxnreg") &&
            !ptx_is(p, ".noreturn") && !ptx_is(p, ".pragma") && !ptx_is(p, ".attribute"))
            ptx_fail(p, "unsupported directive %s", p->text);
        ptx_next(p);
        if (maxntid) {
            fn->max_block[1] = fn->max_block[2] = 1;
            for (int d = 0; d < 3; d++) {
                fn->max_block[d] = (uint32_t)whole(p);
                if (!ptx_take(p, ","))
                    break;
            }
            fn->max_threads = fn->max_block[0] * fn->max_block[1] * fn->max_block[2];
        } else {
            while (p->t == NUMBER || p->t == STRING || ptx_is(p, ",") || ptx_is(p, "(") || ptx_is(p, ")"))
                ptx_next(p);
        }
    }
    if (ptx_take(p, ";"))
        return;
    if (is_entry && n_params) {
        fn->param_bytes = calloc((size_t)n_params, sizeof *fn->param_bytes);
        fn->param_offset = calloc((size_t)n_params, sizeof *fn->param_offset);
        if (!fn->param_bytes || !fn->param_offset)
            ptx_fail(p, "out of memory");
        for (int i = 0; i < n_params; i++) {
            fn->param_offset[i] = at_ = (uint32_t)aligned(at_, fn->params[i].align);
            fn->param_bytes[i] = fn->params[i].n_bytes;
            at_ += fn->params[i].n_bytes;
        }
        fn->all_params_bytes = at_;
    }
    p->fn = fn;
    fn->has_body = true;
    fn->regs_bytes = 64;                        /* the carry */
    fn->first = m->n_code;
    enter_scope(p);
    place(p, fn->results, n_results);
    place(p, fn->params, n_params);
    body(p);
    leave_scope(p);
    ptx_emit(p)->kind = K_RET;
    fn->end = m->n_code;
    resolve_labels(p);
    p->fn = NULL;
}

static void
module(struct parser *p)
{
    bool is_extern = false;

    ptx_next(p);
    while (p->t != END) {
        if (p->t != WORD)
            ptx_fail(p, "'%s' outside of functions", p->text);
        if (!strcmp(p->text, ".visible") || !strcmp(p->text, ".weak") || !strcmp(p->text, ".common")) {
            ptx_next(p);
        } else if (ptx_take(p, ".extern")) {
            is_extern = true;
        } else if (ptx_is(p, ".version")) {
            ptx_next(p);
            ptx_next(p);
        } else if (ptx_take(p, ".target")) {
            if (!strncmp(p->text, "sm_", 3))
                p->m->target = (uint32_t)strtoul(p->text + 3, NULL, 10);
            ptx_next(p);
            while (ptx_take(p, ","))
                ptx_next(p);
        } else if (ptx_take(p, ".address_size")) {
            if (whole(p) != 64)
                ptx_fail(p, "unsupported: addresses are of 64 bits here");
        } else if (ptx_is(p, ".entry") || ptx_is(p, ".func")) {
            function(p, ptx_is(p, ".entry"));
            is_extern = false;
        } else if (ptx_is(p, ".file")) {
            uint32_t line = p->t_line;

            while (p->t != END && p->t_line == line)
                ptx_next(p);
        } else if (ptx_is(p, ".section")) {
            while (p->t != END && !ptx_is(p, "}"))
                ptx_next(p);
            ptx_want(p, "}");
        } else if (space_of(p->text) != S_GENERIC && space_of(p->text) != S_FRAME && space_of(p->text) != S_LOCAL) {
            enum space s = space_of(p->text);

            ptx_next(p);
            variable_declaration(p, s, is_extern);
            is_extern = false;
        } else {
            ptx_fail(p, "unsupported directive %s", p->text);
        }
    }
}

/* Room for all .global and .const variables: their text is longer than they are, but for what has dimensions. */
static size_t
variables_at_most(const char *text)
{
    size_t n = 64;

    for (const char *s = text; (s = strpbrk(s, ".")); s++) {
        const char *end, *bracket;
        size_t      size = 64;

        if (strncmp(s, ".global", 7) && strncmp(s, ".const", 6))
            continue;
        if (isalnum((unsigned char)s[-(s > text)]) && s > text)
            continue;                           /* of a mnemonic */
        end = s + strcspn(s, ";{=");
        for (bracket = s; (bracket = memchr(bracket, '[', (size_t)(end - bracket))); bracket++)
            size *= strtoull(bracket + 1, NULL, 0) + 1;
        n += size < 1u << 30 ? size : 0;
    }
    return n;
}

const struct ptx_kernel *
ptx_find(const struct ptx_module *m, const char *name)
{
    for (int i = 0; i < m->n_functions; i++)
        if (m->functions[i]->is_entry && m->functions[i]->has_body && !strcmp(m->functions[i]->name, name))
            return m->functions[i];
    return NULL;
}

bool
ptx_variable(const struct ptx_module *m, const char *name, uint64_t *address, size_t *n_bytes)
{
    for (int i = 0; i < m->n_variables; i++) {
        const struct variable *v = m->variables[i];

        if ((v->space == S_GLOBAL || v->space == S_CONST) && !strcmp(v->name, name)) {
            *address = (uint64_t)(uintptr_t)m->memory + v->at;
            *n_bytes = v->n_bytes;
            return true;
        }
    }
    return false;
}

void
ptx_free(struct ptx_module *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_functions; i++) {
        struct ptx_kernel *f = m->functions[i];

        free(f->params);
        free(f->results);
        free(f->param_bytes);
        free(f->param_offset);
        free(f->calls);
        free(f->rooms);
        free(f);
    }
    for (int i = 0; i < m->n_variables; i++)
        free(m->variables[i]);
    for (int i = 0; i < m->n_calls; i++)
        free(m->calls[i]);
    for (int i = 0; i < m->n_tables; i++)
        free(m->tables[i].target);
    for (int i = 0; i < m->n_names; i++)
        free(m->names[i]);
    free(m->functions);
    free(m->variables);
    free(m->calls);
    free(m->tables);
    free(m->names);
    free(m->code);
    free(m->consts);
    free(m->constants);
    free(m->refs);
    free(m->memory);
    free(m);
}

struct ptx_module *
ptx_parse(const char *text, char *error, size_t cap)
{
    struct parser *p = calloc(1, sizeof *p);
    struct ptx_module *volatile m = calloc(1, sizeof *m);
    char none[1];

    if (!error || !cap) {
        error = none;
        cap = 1;
    }
    *error = 0;
    if (!p || !m) {
        snprintf(error, cap, "out of memory");
        free(p);
        free(m);
        return NULL;
    }
    p->p = p->start = text;
    p->line = p->t_line = 1;
    p->error = error;
    p->cap = cap;
    p->m = m;
    m->memory_cap = variables_at_most(text);
    if (setjmp(p->failed)) {
        ptx_free(m);
        m = NULL;
    } else {
        size_t bytes = (m->memory_cap + 255) / 256 * 256;

        if (!(m->memory = aligned_alloc(256, bytes)))
            ptx_fail(p, "out of memory");
        memset(m->memory, 0, bytes);
        module(p);
        for (int i = 0; i < m->n_functions; i++)
            if (!ptx_live(m->functions[i]))
                ptx_fail(p, "out of memory");
    }
    free(p->symbols);
    free(p->parents);
    free(p->labels);
    free(p->fixups);
    free(p->results);
    free(p->params);
    free(p);
    return m;
}
