/* jit/emit_source.c -- a nest as one source file: what it is as a comment, what it calls, and its functions in C or CUDA C. */
#include <string.h>

#include "base/alloc.h"
#include "jit/emit_nest.h"

/* The nest itself, as a comment. */
static void
write_comment(struct fr_text *out, const struct fr_nest *nest)
{
    int   n = fr_nest_print(nest, NULL, 0);
    char *s = fr_malloc((size_t)n + 1);

    if (!s) {
        out->st = FR_ENOMEM;
        return;
    }
    fr_nest_print(nest, s, (size_t)n + 1);
    fr_text_add(out, "/*\n");
    for (char *p = s; *p;) {
        char *end = p + strcspn(p, "\n");

        fr_text_add(out, " * %.*s\n", (int)(end - p), p);
        p = *end ? end + 1 : end;
    }
    fr_text_add(out, " */\n");
    fr_free(s);
}

fr_status
fr_text_nest(struct fr_text *out, const struct fr_nest *nest, enum fr_dialect dialect, struct fr_err *err)
{
    struct fr_writer w = {
        .nest = nest, .dialect = dialect, .indent = "", .row = "", .guard = "", .err = err};
    fr_status st;

    TRY(fr_nest_verify(nest, err));
    if (dialect == FR_DIALECT_C)
        fr_write_c(&w);
    else
        fr_write_cuda(&w);
    TRY(w.st);
    write_comment(out, nest);
    fr_text_head(out, dialect, w.text.helpers);
    fr_text_add(out, "\n#define AT(type, p, bytes) ((type *)((const char *)(p) + (bytes)))\n%s",
                w.text.s ? w.text.s : "");
    if (w.text.st != FR_OK || out->st != FR_OK)
        st = fr_fail(err, w.text.st != FR_OK ? w.text.st : out->st,
                     "text of a nest of %u instructions", nest->n_insts);
out:
    fr_text_clear(&w.text);
    return st;
}

fr_status
fr_text_kernel(struct fr_text *out, struct fr_writer *w, const char *what, fr_dtype d)
{
    fr_status st = w->st;

    if (st == FR_OK) {
        fr_text_head(out, FR_DIALECT_CUDA, w->text.helpers);
        fr_text_add(out, "\n#define AT(type, p, bytes) ((type *)((const char *)(p) + (bytes)))\n%s", w->text.s ? w->text.s : "");
        st = w->text.st != FR_OK ? w->text.st : out->st;
        if (st != FR_OK)
            fr_fail(w->err, st, "text of %s of %s", what, fr_dtype_code(d));
    }
    fr_text_clear(&w->text);
    return st;
}
