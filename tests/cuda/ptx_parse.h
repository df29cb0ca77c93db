/* tests/cuda/ptx_parse.h -- what ptx_parse.c (declarations) and ptx_decode.c (instructions) share. */
#ifndef TESTS_CUDA_PTX_PARSE_H
#define TESTS_CUDA_PTX_PARSE_H

#include <setjmp.h>

#include "ptx_int.h"

enum token { END, WORD, NUMBER, STRING, MARK };

enum symbol_kind { SYM_REGS, SYM_VAR, SYM_TARGETS };

struct symbol {
    char            *name;                      /* of a family of registers: without the number */
    enum symbol_kind kind;
    bool             family;
    uint32_t         n, at, width;              /* registers: how many, offset in the frame, bytes of a lane (1: predicates) */
    struct variable *var;
};

struct label {
    char    *name;
    uint32_t scope, at;
};

/* A branch to a label that may come later: into an instruction, or a row of a table. */
struct fixup {
    char    *name;
    uint32_t scope, line, insn, table, row;
    bool     in_table;
};

struct operand {
    enum { O_NONE, O_REG, O_IMM, O_VAR, O_FUNC, O_NAME, O_VEC, O_MEM, O_SINK } kind;
    bool             negated, is_float, is_32;  /* is_32: a float of 32 bits, 0f... */
    ref              reg;
    uint32_t         width;                     /* of a register; 1: a predicate */
    uint64_t         bits;
    double           value;
    int64_t          offset;                    /* of a variable or memory operand */
    struct variable *var;
    int              function;
    char             name[256];
    int              n;                         /* of a vector */
    ref              v[8];
    uint32_t         v_imm;                     /* a bit for each that is a number, of v_bits */
    uint64_t         v_bits[8];
    uint32_t         v_width;
    struct operand  *second;                    /* p of a|p */
};

struct parser {
    jmp_buf     failed;                         /* within ptx_parse only */
    const char *p, *start;
    uint32_t    line;
    char       *error;
    size_t      cap;
    enum token  t;
    char        text[1024];
    uint32_t    t_line;

    struct ptx_module *m;
    struct ptx_kernel *fn;                      /* NULL between functions */
    struct variable   *results, *params;        /* of the function whose head is read */
    struct symbol     *symbols;
    int                n_symbols, cap_symbols;
    uint32_t           scopes[64], *parents, n_scopes;
    int                depth, marks[64];
    struct label      *labels;
    int                n_labels;
    struct fixup      *fixups;
    int                n_fixups;
    struct operand     ops[12], extra[12];      /* of the instruction at hand */
    int                n_ops;
    char               mods[24][48];            /* its mnemonic */
    int                n_mods;
    bool               used[24];
    char              *mnemonic;
    uint32_t           at_line;
    ref                guard;
    bool               guard_not;
};

void  ptx_fail(struct parser *, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void *ptx_grow(struct parser *, void *array, size_t n, size_t size); /* room for one more */
void  ptx_next(struct parser *);
bool  ptx_is(struct parser *, const char *mark);
bool  ptx_take(struct parser *, const char *mark);
void  ptx_want(struct parser *, const char *mark);
char *ptx_copy(struct parser *, const char *);
struct symbol   *ptx_symbol(struct parser *, const char *name);
struct variable *ptx_var(struct parser *, const char *name);
int       ptx_function(struct parser *, const char *name); /* -1: there is none */
ref       ptx_register(struct parser *, uint32_t width);
ref       ptx_constant(struct parser *, uint64_t bits, uint32_t width);
enum type ptx_type(const char *);
struct insn *ptx_emit(struct parser *);
void      ptx_fix(struct parser *, const char *label, uint32_t insn, bool in_table, uint32_t table, uint32_t row);
uint64_t  ptx_number(struct parser *, bool *is_float, bool *is_32, double *value);

/* ptx_operand.c: the k-th operand of the instruction, as what it is to be; a failure if it is something else. */
void ptx_operand_parse(struct parser *, struct operand *, bool in_vector);
struct operand *ptx_operand(struct parser *, int k);
ref      ptx_operand_target(struct parser *, int k, uint32_t width); /* a register to write; any width if it is 0 */
ref      ptx_operand_value(struct parser *, int k, uint32_t width, enum type);
ref      ptx_operand_wide(struct parser *, int k, uint32_t least, enum type, uint32_t *width); /* at least so many bytes */
uint32_t ptx_operand_vector(struct parser *, struct operand *, enum type, bool writes); /* where its registers are in refs */
ref      ptx_operand_memory(struct parser *, int k, enum space *, int64_t *offset, uint8_t *width, uint32_t n_bytes);

void ptx_instruction(struct parser *);          /* ptx_decode.c: one, from its guard to the semicolon */

#endif
