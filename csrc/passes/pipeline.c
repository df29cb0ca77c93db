/* The passes, one after the other, and what watches them. */
#include "passes/pipeline.h"

#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "passes/fold.h"
#include "passes/forward.h"
#include "passes/once.h"
#include "passes/outer.h"
#include "passes/push.h"
#include "passes/split.h"

struct state {
    struct fr_graph  *g;
    struct fr_arena  *arena;
    struct fr_fusion *fusion;
    bool              skip;       /* this pass is to do as little as it can */
    bool              unfused;
    struct fr_err    *err;
};

static fr_status run_outer(struct state *z) { return z->skip ? FR_OK : fr_outer(z->g, z->err); }
static fr_status run_forward(struct state *z) { return z->skip ? FR_OK : fr_forward(z->g, z->err); }
static fr_status run_split(struct state *z) { return z->skip ? FR_OK : fr_split(z->g, z->err); }
static fr_status run_push(struct state *z) { return z->skip ? FR_OK : fr_push(z->g, z->err); }
static fr_status run_fold(struct state *z) { return z->skip ? FR_OK : fr_fold(z->g, z->err); }
static fr_status run_fuse(struct state *z) { return fr_fuse(z->g, !z->skip && !z->unfused, z->arena, &z->fusion, z->err); }
static fr_status run_once(struct state *z) { return z->skip ? FR_OK : fr_once(z->g, z->fusion, z->err); }

static const struct {
    const char *name;
    fr_status (*run)(struct state *);
} passes[] = {
#define PASS(name, without) {#name, run_##name},
#include "passes/passes.def"
};

/* True if the list of names, separated by commas or spaces, has this one. */
static bool
lists(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; *p; p += strcspn(p, ", ")) {
        p += strspn(p, ", ");
        if (strcspn(p, ", ") == n && !memcmp(p, name, n))
            return true;
    }
    return false;
}

/* The graph or the groups, a line of the log for each line of text. */
static void
print_state(const struct state *z, const char *after)
{
    int   n = z->fusion ? fr_fusion_print(z->g, z->fusion, NULL, 0)
                        : fr_graph_print(z->g, NULL, 0);
    char *text = fr_malloc((size_t)n + 1);

    if (!text)
        return;
    text[0] = '\0';
    if (z->fusion)
        fr_fusion_print(z->g, z->fusion, text, (size_t)n + 1);
    else
        fr_graph_print(z->g, text, (size_t)n + 1);
    fr_log(3, "after %s:", after);
    for (char *line = text; *line; line += *line == '\n') {
        size_t len = strcspn(line, "\n");

        fr_log(3, "  %.*s", (int)len, line);
        line += len;
    }
    fr_free(text);
}

static fr_status
verify(const struct state *z)
{
    fr_status st = fr_graph_verify(z->g, z->err);

    return st == FR_OK && z->fusion ? fr_fusion_verify(z->g, z->fusion, z->err) : st;
}

fr_status
fr_passes_run(struct fr_graph *g, bool unfused, struct fr_arena *arena, struct fr_fusion **out, struct fr_err *err)
{
    struct state z = {.g = g, .arena = arena, .unfused = unfused, .err = err};
    fr_status    st = FR_OK;

    if (fr_env.verify)
        TRY(verify(&z));
    for (size_t i = 0; i < FR_LEN(passes); i++) {
        z.skip = lists(fr_env.skip, passes[i].name);
        TRY(passes[i].run(&z));
        if (fr_env.debug >= 3)
            print_state(&z, passes[i].name);
        if (fr_env.verify)
            TRY(verify(&z));
    }
    *out = z.fusion;
out:
    return st;
}
