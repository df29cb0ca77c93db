/* The groups of a graph as text, for tests and explain. */
#include "passes/fuse.h"

#include "base/text.h"

static bool
is_read_by_another(const struct fr_graph *g, const struct fr_fusion *f, int n)
{
    for (int r = n + 1; r < g->n_nodes; r++)
        for (int k = 0; f->group_of[r] >= 0 && k < g->node[r].n_args; k++)
            if (g->node[r].arg[k].src == n && f->group_of[r] != f->group_of[n])
                return true;
    return false;
}

/* What a group reads, each node once, at its first reader. */
static void
put_reads(struct fr_text *t, const struct fr_graph *g, const struct fr_fusion *f, int first)
{
    const char *word = " reads";

    for (int n = first; n >= 0; n = f->next[n])
        for (int k = 0; k < g->node[n].n_args; k++) {
            int  src = g->node[n].arg[k].src;
            bool known = src < 0 || f->group_of[src] == f->group_of[n] ||
                         (g->node[n].op == FR_OP_store && k == 0);

            for (int m = first; !known; m = f->next[m]) {
                for (int j = 0; !known && j < (m == n ? k : g->node[m].n_args); j++)
                    known = g->node[m].arg[j].src == src && (g->node[m].op != FR_OP_store || j);
                if (m == n)
                    break;
            }
            if (!known) {
                fr_text_put(t, "%s %%%d", word, src);
                word = "";
            }
        }
}

static void
put_writes(struct fr_text *t, const struct fr_graph *g, const struct fr_fusion *f, const struct fr_group *grp)
{
    const char *word = " writes";

    for (int n = grp->first; n >= 0; n = f->next[n]) {
        const struct fr_gnode *node = &g->node[n];
        bool                   late = fr_op_reduces(node->op) &&
                    (grp->kind == FR_GROUP_POST || f->level[n] == FR_MEMBER_AFTER);

        if (!node->output && node->op != FR_OP_store && !late && !is_read_by_another(g, f, n))
            continue;
        fr_text_put(t, "%s %%%d", word, n);
        if (node->op == FR_OP_store)
            fr_text_put(t, f->in_place[n] ? " over %%%d" : " in a copy of %%%d", node->arg[0].src);
        word = "";
    }
}

int
fr_fusion_print(const struct fr_graph *g, const struct fr_fusion *f, char *out, size_t cap)
{
    static const char *const kinds[] = {"map", "row", "post", "mix", "scan", "call"};
    struct fr_text           t = {out, cap, 0};

    for (int i = 0; i < f->n_groups; i++) {
        const struct fr_group *grp = f->group[i];

        fr_text_put(&t, "group %d = {", i);
        for (int n = grp->first; n >= 0; n = f->next[n])
            fr_text_put(&t, "%s%%%d%s", n == grp->first ? "" : " ", n,
                        f->level[n] == FR_MEMBER_KEPT    ? "'"
                        : f->level[n] == FR_MEMBER_AFTER ? "\""
                                                         : "");
        fr_text_put(&t, "} %s", kinds[grp->kind]);
        put_reads(&t, g, f, grp->first);
        put_writes(&t, g, f, grp);
        if (f->why[i])
            fr_text_put(&t, "  # apart: %s", f->why[i]);
        fr_text_put(&t, "\n");
    }
    return t.len;
}
