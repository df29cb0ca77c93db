/* bind/accelerate/assemble.h -- code with other instructions in the place of some: jumps, the table of exceptions and the
 * lines follow.
 *
 * It knows nothing of Python but three formats of 3.11 and later: InternalDocs/exception_handling.md and
 * InternalDocs/code_objects.md of CPython (Objects/exception_handling_notes.txt and Objects/locations.md before 3.14), and
 * that an instruction is a byte with an argument of one, which prefixes make longer, and that caches may follow it. */
#ifndef FR_BIND_ACCELERATE_ASSEMBLE_H
#define FR_BIND_ACCELERATE_ASSEMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Instead of an opcode or an argument, in what stands instead of an instruction: */
enum {
    FR_ASM_SAME = -1, /* the instruction that stood there (an opcode) */
    FR_ASM_HERE = -1, /* a jump to SAME (an argument), */
    FR_ASM_THERE = -2 /* to the same place in the other copy: to SAME from before it, behind it from behind */
};

/* What an interpreter's opcodes are. */
struct fr_asm_opcodes {
    uint8_t n_caches[256];
    uint8_t jump[256]; /* 0: it is none that counts from itself; 1: forward; 2: backward */
    uint8_t prefix;    /* EXTENDED_ARG, */
    uint8_t nothing;   /* and NOP */
};

struct fr_asm_instruction {
    int32_t at, op, arg; /* `at` in bytes */
};

/* The instruction at unit *i of n or behind it, without prefixes and caches, and *i behind it; false: there is none. */
bool fr_asm_next(const struct fr_asm_opcodes *, const uint8_t *code, int32_t n, int32_t *i, struct fr_asm_instruction *);

/* The unit behind an instruction and its caches. */
static inline int32_t
fr_asm_behind(const struct fr_asm_opcodes *ops, const struct fr_asm_instruction *in)
{
    return in->at / 2 + 1 + ops->n_caches[in->op];
}

struct fr_asm_bytes {
    uint8_t *v;
    size_t   n, cap;
};

struct fr_asm_code {
    const uint8_t *code, *exceptions, *lines;
    size_t         n_code, n_exceptions, n_lines; /* bytes */
    /* What stands instead of instructions, by their offsets in bytes, in order: offset, n, n times (opcode, argument). The
     * first of them is where jumps to the old one lead; all are on its line, and caught where it was. For the code, and
     * for a copy of what follows the instruction at `again` (-1: there is none), which comes behind it. */
    const int32_t *change[2];
    size_t         n_words[2];
    int32_t        again;
};

struct fr_asm_result {
    struct fr_asm_bytes code, exceptions, lines;
    int32_t             second; /* the offset at which the copy begins, or what is behind the code would */
};

/* False: memory is out. fr_asm_free() in any case. */
bool fr_asm_replace(const struct fr_asm_opcodes *, const struct fr_asm_code *, struct fr_asm_result *);
void fr_asm_free(struct fr_asm_result *);

#endif
