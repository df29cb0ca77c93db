/* The text form of a graph:
 *
 *     %0 = leaf f32[64,128] dying
 *     %1 = leaf f32[128]
 *     %2 = add f32[64,128] %0 %1                    arguments broadcast as NumPy's
 *     %3 = multiply f32[64,128] %2 $0:f32           $0 is a run-time scalar
 *     %4 = sum f32[64] %3 axes=1                    axes: the axes that are reduced
 *     %5 = add f32[64,128] %2 %4{[64,128]/1,0}      {[dims]/strides+offset}: a window of %4
 *     %6 = store f32[64,128] %0 %5 {[63,128]/128,1+128}   previous version, value, window
 *     %7 = multiply f64[2] %1 $1:f64=0.5            a number that is the same in every run
 *     return %5 %6
 *
 * A layout that is not in C order has its strides behind a slash: f32[3,4]/1,3. A window whose
 * offset is an argument at run time has +?slot. */

#include <string.h>

#include "base/text.h"
#include "core/number.h"
#include "ir/graph.h"

static void
put_list(struct fr_text *t, const int64_t *v, int n)
{
    for (int k = 0; k < n; k++)
        fr_text_put(t, k ? ",%lld" : "%lld", (long long)v[k]);
}

static void
put_layout(struct fr_text *t, const struct fr_layout *l, bool strides)
{
    fr_text_put(t, "[");
    put_list(t, fr_layout_dims(l), l->ndim);
    fr_text_put(t, "]");
    if (strides && l->ndim) {
        fr_text_put(t, "/");
        put_list(t, fr_layout_strides(l), l->ndim);
    }
}

static void
put_window(struct fr_text *t, const struct fr_edge *e)
{
    fr_text_put(t, "{");
    put_layout(t, e->layout, true);
    if (e->moving >= 0)
        fr_text_put(t, "+?%d", e->moving);
    if (e->offset)
        fr_text_put(t, "+%lld", (long long)e->offset);
    fr_text_put(t, "}");
}

static void
put_number(struct fr_text *t, const uint64_t bits[2], fr_dtype dtype)
{
    const int shift = 64 - 8 * fr_dtype_size(dtype);
    double    v[2];
    float     f[2];

    memcpy(v, bits, sizeof v);
    memcpy(f, bits, sizeof f);
    switch (dtype) {
    case FR_F16: fr_text_put(t, "=%.17g", fr_half_to_double((uint16_t)bits[0])); break;
    case FR_F32: fr_text_put(t, "=%.17g", (double)f[0]); break;
    case FR_F64: fr_text_put(t, "=%.17g", v[0]); break;
    case FR_C64: fr_text_put(t, "=%.17g,%.17g", (double)f[0], (double)f[1]); break;
    case FR_C128: fr_text_put(t, "=%.17g,%.17g", v[0], v[1]); break;
    default:
        if (fr_dtype_kind(dtype) == 'i')
            fr_text_put(t, "=%lld", (long long)(bits[0] << shift) >> shift);
        else
            fr_text_put(t, "=%llu", (unsigned long long)bits[0]);
    }
}

static void
put_edge(struct fr_text *t, const struct fr_graph *g, const struct fr_edge *e)
{
    if (e->src == FR_SRC_SCALAR) {
        fr_text_put(t, " $%d:%s", e->scalar, fr_dtype_code(g->scalar_dtype[e->scalar]));
        if (fr_graph_constant(g, e->scalar))
            put_number(t, fr_graph_constant(g, e->scalar), g->scalar_dtype[e->scalar]);
        return;
    }
    fr_text_put(t, " %%%d", e->src);
    if (!e->whole)
        put_window(t, e);
}

int
fr_graph_print(const struct fr_graph *g, char *out, size_t cap)
{
    struct fr_text t = {out, cap, 0};
    bool           any = false;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct fr_gnode   *n = &g->node[i];
        const struct fr_op_info *info = &fr_op_info[n->op];

        if (n->dead)
            continue;
        fr_text_put(&t, "%%%d = %s %s", i, info->name, fr_dtype_code(n->dtype));
        put_layout(&t, n->layout, !n->layout->c_contig);
        for (int k = 0; k < n->n_args; k++)
            put_edge(&t, g, &n->arg[k]);
        if (n->op == FR_OP_store) {
            fr_text_put(&t, " ");
            put_window(&t, &n->arg[2]);
        }
        if (info->class_ == FR_CLASS_REDUCE) {
            fr_text_put(&t, " axes=");
            for (int k = 0, first = 1; k < 32; k++)
                if (n->axes >> k & 1) {
                    fr_text_put(&t, first ? "%d" : ",%d", k);
                    first = 0;
                }
        } else if (fr_op_has_axes(n->op) && (n->op != FR_OP_matmul || n->axes)) {
            fr_text_put(&t, " axis=%u", n->axes);
        }
        fr_text_put(&t, "%s%s\n", n->dying ? " dying" : "", n->pinned ? " pinned" : "");
        any |= n->output;
    }
    if (any) {
        fr_text_put(&t, "return");
        for (int i = 0; i < g->n_nodes; i++)
            if (g->node[i].output && !g->node[i].dead)
                fr_text_put(&t, " %%%d", i);
        fr_text_put(&t, "\n");
    }
    return t.len;
}
