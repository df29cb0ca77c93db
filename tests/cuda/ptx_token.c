/* tests/cuda/ptx_token.c -- words, numbers and marks of the text, and what every part of the parser needs. */
#include "ptx_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void
ptx_fail(struct parser *p, const char *format, ...)
{
    va_list args;
    size_t  n = (size_t)snprintf(p->error, p->cap, "line %u: ", p->t_line);

    va_start(args, format);
    if (n < p->cap)
        vsnprintf(p->error + n, p->cap - n, format, args);
    va_end(args);
    longjmp(p->failed, 1);
}

/* Arrays double when they are full, which is when n is a power of two. */
void *
ptx_grow(struct parser *p, void *array, size_t n, size_t size)
{
    void *to = array;

    if (n == 0 || (n >= 8 && (n & (n - 1)) == 0))
        to = realloc(array, (n < 8 ? 8 : 2 * n) * size);
    if (!to)
        ptx_fail(p, "out of memory");
    return to;
}

/* Names live as long as the module. */
char *
ptx_copy(struct parser *p, const char *s)
{
    struct ptx_module *m = p->m;
    char              *copy;

    m->names = ptx_grow(p, m->names, (size_t)m->n_names, sizeof *m->names);
    if (!(copy = strdup(s)))
        ptx_fail(p, "out of memory");
    return m->names[m->n_names++] = copy;
}

/* ---- tokens ---- */

static bool
is_word(int c)
{
    return isalnum(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static void
skip_space(struct parser *p)
{
    for (;; p->p++) {
        if (*p->p == '\n') {
            p->line++;
        } else if (p->p[0] == '/' && p->p[1] == '/') {
            while (p->p[1] && p->p[1] != '\n')
                p->p++;
        } else if (p->p[0] == '/' && p->p[1] == '*') {
            for (p->p += 2; p->p[0] && !(p->p[0] == '*' && p->p[1] == '/'); p->p++)
                p->line += *p->p == '\n';
            if (*p->p)
                p->p++;
        } else if (!isspace((unsigned char)*p->p)) {
            return;
        }
    }
}

void
ptx_next(struct parser *p)
{
    size_t n = 0;

    skip_space(p);
    p->t_line = p->line;
    if (!*p->p) {
        p->t = END;
    } else if (*p->p == '"') {
        p->t = STRING;
        for (p->p++; *p->p && *p->p != '"'; p->p++)
            ;
        p->p += *p->p == '"';
    } else if (is_word((unsigned char)*p->p)) {
        p->t = isdigit((unsigned char)*p->p) ? NUMBER : WORD;
        while (is_word((unsigned char)*p->p) || (p->t == WORD && p->p[0] == ':' && p->p[1] == ':') ||
               (p->t == WORD && p->p[0] == ':' && n && p->text[n - 1] == ':') ||
               (p->t == NUMBER && (*p->p == '+' || *p->p == '-') && n && (p->text[n - 1] | 32) == 'e' &&
                strchr(p->text, '.') && p->text[1] != 'x')) {
            if (n + 2 > sizeof p->text)
                ptx_fail(p, "a word of more than %zu bytes", sizeof p->text);
            p->text[n++] = *p->p++;
            p->text[n] = 0;
        }
    } else {
        p->t = MARK;
        p->text[n++] = *p->p++;
    }
    p->text[n] = 0;
}

bool
ptx_is(struct parser *p, const char *mark)
{
    return (p->t == MARK || p->t == WORD) && !strcmp(p->text, mark);
}

bool
ptx_take(struct parser *p, const char *mark)
{
    if (!ptx_is(p, mark))
        return false;
    ptx_next(p);
    return true;
}

void
ptx_want(struct parser *p, const char *mark)
{
    if (!ptx_take(p, mark))
        ptx_fail(p, "'%s' is wanted, there is '%s'", mark, p->t == END ? "the end" : p->text);
}

/* The number at hand, with a sign before it: its bits, and what it is. */
uint64_t
ptx_number(struct parser *p, bool *is_float, bool *is_32, double *value)
{
    bool     minus = ptx_take(p, "-"), not = !minus && ptx_take(p, "~");
    char    *end;
    uint64_t bits;

    *is_float = *is_32 = false;
    if (p->t != NUMBER)
        ptx_fail(p, "a number is wanted, there is '%s'", p->text);
    if (p->text[0] == '0' && (p->text[1] | 32) == 'f' && strlen(p->text) == 10) {
        union { uint32_t u; float f; } v = {(uint32_t)strtoul(p->text + 2, &end, 16)};

        *is_float = *is_32 = true;
        v.u ^= minus ? 0x80000000 : 0;
        *value = v.f;
        bits = v.u;
    } else if (p->text[0] == '0' && (p->text[1] | 32) == 'd' && strlen(p->text) == 18) {
        union { uint64_t u; double f; } v = {strtoull(p->text + 2, &end, 16)};

        *is_float = true;
        v.u ^= minus ? 1ull << 63 : 0;
        *value = v.f;
        bits = v.u;
    } else if (strchr(p->text, '.') || (p->text[1] != 'x' && strpbrk(p->text, "eE"))) {
        union { uint64_t u; double f; } v = {.f = strtod(p->text, &end)};

        *is_float = true;
        v.f = minus ? -v.f : v.f;
        *value = v.f;
        bits = v.u;
    } else {
        size_t n = strlen(p->text);

        if (n && p->text[n - 1] == 'U')
            p->text[n - 1] = 0;
        errno = 0;
        if (p->text[0] == '0' && (p->text[1] | 32) == 'b')
            bits = strtoull(p->text + 2, &end, 2);
        else
            bits = strtoull(p->text, &end, 0);
        if (errno)
            ptx_fail(p, "the number %s has more than 64 bits", p->text);
        bits = minus ? 0 - bits : not ? ~bits : bits;
        *value = minus ? (double)(int64_t)bits : (double)bits;
    }
    if (*end)
        ptx_fail(p, "'%s' is no number", p->text);
    ptx_next(p);
    return bits;
}

/* ---- types ---- */

enum type
ptx_type(const char *s)
{
    static const char *const names[N_TYPES] = {"", "pred", "b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64",
                                               "u64", "s64", "f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "b128"};

    for (int i = 1; i < N_TYPES; i++)
        if (!strcmp(s, names[i]))
            return (enum type)i;
    return T_NONE;
}

int
ptx_type_bytes(enum type t)
{
    static const uint8_t bytes[N_TYPES] = {0, 1, 1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8, 2, 2, 4, 8, 4, 4, 16};

    return bytes[t];
}
