/* Reads the text form of ir/print.c back: golden tests, bug reports, fuzz corpora. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/number.h"
#include "ir/graph.h"

struct reader {
    const char      *at;
    int              line;
    struct fr_graph *g;
    size_t           cap_nodes, cap_scalars, cap_values;
    struct fr_err   *err;
};

static fr_status
bad(struct reader *r, const char *what)
{
    return fr_fail(r->err, FR_EVALUE, "graph text, line %d: %s expected at '%.20s'", r->line, what,
                   r->at);
}

static void
skip(struct reader *r)
{
    while (*r->at == ' ' || *r->at == '\t')
        r->at++;
}

static bool
take(struct reader *r, const char *token)
{
    size_t n = strlen(token);

    skip(r);
    if (strncmp(r->at, token, n))
        return false;
    r->at += n;
    return true;
}

static bool
number(struct reader *r, int64_t *v)
{
    char *end;

    *v = strtoll(r->at, &end, 10);
    if (end == r->at)
        return false;
    r->at = end;
    return true;
}

static fr_status
number_list(struct reader *r, int64_t *v, int *n)
{
    *n = 0;
    while (*r->at == '-' || isdigit((unsigned char)*r->at)) {
        if (*n == FR_MAX_DIMS || !number(r, &v[(*n)++]))
            return bad(r, "a list of numbers");
        if (*r->at != ',')
            break;
        r->at++;
    }
    return FR_OK;
}

/* [dims] or [dims]/strides */
static fr_status
layout(struct reader *r, struct fr_layout **out)
{
    int64_t   dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    int       nd, ns;
    fr_status st;

    if (!take(r, "["))
        return bad(r, "[");
    if ((st = number_list(r, dims, &nd)) != FR_OK)
        return st;
    if (!take(r, "]"))
        return bad(r, "]");
    if (*r->at == '/') {
        r->at++;
        if ((st = number_list(r, strides, &ns)) != FR_OK)
            return st;
        if (ns != nd)
            return bad(r, "a stride for each axis");
    } else {
        ns = -1;
    }
    *out = fr_layout_get(nd, dims, ns < 0 ? NULL : strides);
    return *out ? FR_OK : fr_fail(r->err, FR_ENOMEM, "out of memory: graph text");
}

static fr_status
window(struct reader *r, struct fr_edge *e)
{
    fr_status st;

    if (!take(r, "{"))
        return bad(r, "{");
    if ((st = layout(r, &e->layout)) != FR_OK)
        return st;
    if (r->at[0] == '+' && r->at[1] == '?') {
        int64_t slot;

        r->at += 2;
        if (!number(r, &slot) || slot < 0 || slot > 1 << 20)
            return bad(r, "the slot of an offset");
        e->moving = (int32_t)slot;
        if (slot >= r->g->n_moving)
            r->g->n_moving = (int)slot + 1;
    }
    if (*r->at == '+') {
        r->at++;
        if (!number(r, &e->offset))
            return bad(r, "an offset");
    }
    return take(r, "}") ? FR_OK : bad(r, "}");
}

static fr_dtype
dtype(struct reader *r)
{
    int n = 0;

    skip(r);
    while (isalnum((unsigned char)r->at[n]))
        n++;
    r->at += n;
    return fr_dtype_parse(r->at - n, n);
}

/* The value of a constant: =0.5, or =0.5,-1 of a complex one. False: there is none, or memory is out. */
static bool
constant(struct reader *r, fr_dtype d, const uint64_t **out)
{
    bool             whole = fr_dtype_is_int(d) || d == FR_BOOL;
    struct fr_number n = {.dtype = whole ? FR_I64 : FR_C128};
    uint64_t        *bits = fr_arena_alloc(&r->g->arena, 2 * sizeof *bits);
    char            *end;

    r->at++;
    if (fr_dtype_kind(d) == 'u')
        n.v.u64 = strtoull(r->at, &end, 10);
    else if (whole)
        n.v.i64 = strtoll(r->at, &end, 10);
    else
        n.v.c128[0] = strtod(r->at, &end);
    if (end == r->at || !bits)
        return false;
    if (fr_dtype_is_complex(d) && *end == ',')
        n.v.c128[1] = strtod(end + 1, &end);
    r->at = end;
    *out = bits;
    return fr_number_bits(&n, d, bits, NULL) == FR_OK;
}

static fr_status
edge(struct reader *r, struct fr_edge *e)
{
    int64_t v;

    *e = (struct fr_edge){.moving = -1};
    if (take(r, "$")) {
        fr_dtype d;

        if (!number(r, &v) || v < 0 || v > 1 << 20 || *r->at++ != ':')
            return bad(r, "a scalar");
        if ((d = dtype(r)) == FR_N_DTYPES)
            return bad(r, "a dtype");
        if (!FR_GROW(r->g->scalar_dtype, r->cap_scalars, (size_t)v + 1) ||
            !FR_GROW(r->g->scalar_value, r->cap_values, (size_t)v + 1))
            return fr_fail(r->err, FR_ENOMEM, "out of memory: graph text");
        r->g->scalar_dtype[v] = d;
        r->g->scalar_value[v] = NULL;
        if (*r->at == '=' && !constant(r, d, &r->g->scalar_value[v]))
            return bad(r, "a number");
        e->src = FR_SRC_SCALAR;
        e->scalar = (int32_t)v;
        if (v >= r->g->n_scalars)
            r->g->n_scalars = (int)v + 1;
        return FR_OK;
    }
    if (!take(r, "%") || !number(r, &v) || v < 0 || v >= r->g->n_nodes)
        return bad(r, "an earlier node");
    e->src = (int32_t)v;
    if (*r->at == '{')
        return window(r, e);
    e->whole = true;
    e->layout = fr_layout_ref(r->g->node[v].layout);
    return FR_OK;
}

static fr_status
attributes(struct reader *r, struct fr_gnode *n)
{
    int64_t v[FR_MAX_DIMS];
    int     count;

    if (take(r, "axes=")) {
        if (number_list(r, v, &count) != FR_OK)
            return bad(r, "axes");
        for (int k = 0; k < count; k++)
            n->axes |= 1u << (v[k] & 31);
    } else if (take(r, "axis=")) {
        if (!number(r, v))
            return bad(r, "an axis");
        n->axes = (uint32_t)v[0];
    }
    for (;;) {
        if (take(r, "dying"))
            n->dying = true;
        else if (take(r, "pinned"))
            n->pinned = true;
        else
            return FR_OK;
    }
}

static fr_status
node_line(struct reader *r)
{
    struct fr_gnode *n;
    int64_t          id;
    int              len = 0;
    fr_status        st;

    if (!number(r, &id) || id != r->g->n_nodes || !take(r, "="))
        return bad(r, "the next node's number and =");
    if (!FR_GROW(r->g->node, r->cap_nodes, (size_t)r->g->n_nodes + 1))
        return fr_fail(r->err, FR_ENOMEM, "out of memory: graph text");
    n = &r->g->node[id];
    *n = (struct fr_gnode){0};
    skip(r);
    while (isalnum((unsigned char)r->at[len]) || r->at[len] == '_')
        len++;
    n->op = fr_op_find(r->at, len);
    r->at += len;
    if (n->op == FR_N_OPS)
        return bad(r, "an operation");
    if ((n->dtype = dtype(r)) == FR_N_DTYPES)
        return bad(r, "a dtype");
    if ((st = layout(r, &n->layout)) != FR_OK)
        return st;
    for (skip(r); *r->at == '%' || *r->at == '$'; skip(r)) {
        if (n->n_args == 3)
            return bad(r, "at most three arguments");
        if ((st = edge(r, &n->arg[n->n_args])) != FR_OK)
            return st;
        n->n_args++;
    }
    n->given = r->g->n_nodes++;
    if (n->op == FR_OP_store) {
        n->arg[2] = (struct fr_edge){.src = n->arg[0].src, .moving = -1};
        if ((st = window(r, &n->arg[2])) != FR_OK)
            return st;
    }
    return attributes(r, n);
}

static fr_status
return_line(struct reader *r)
{
    int64_t v;

    while (take(r, "%")) {
        if (!number(r, &v) || v < 0 || v >= r->g->n_nodes)
            return bad(r, "a node");
        r->g->node[v].output = true;
    }
    return FR_OK;
}

/* Moves a grown array into the graph's arena, where a graph keeps everything. */
static void *
into_arena(struct fr_graph *g, void *p, size_t n_bytes)
{
    void *q = fr_arena_alloc(&g->arena, n_bytes + 1);

    if (q && p)
        memcpy(q, p, n_bytes);
    fr_free(p);
    return q;
}

fr_status
fr_graph_parse(const char *text, struct fr_graph **out, struct fr_err *err)
{
    struct reader r = {.at = text, .line = 1, .err = err};
    fr_status     st = FR_OK;

    if (!(r.g = fr_calloc(1, sizeof *r.g)))
        return fr_fail(err, FR_ENOMEM, "out of memory: graph text");
    while (*r.at && st == FR_OK) {
        skip(&r);
        if (take(&r, "%"))
            st = node_line(&r);
        else if (take(&r, "return"))
            st = return_line(&r);
        skip(&r);
        if (st == FR_OK && *r.at == '#')
            while (*r.at && *r.at != '\n')
                r.at++;
        if (st == FR_OK && *r.at && *r.at != '\n')
            st = bad(&r, "the end of the line");
        if (*r.at == '\n') {
            r.at++;
            r.line++;
        }
    }
    r.g->node = into_arena(r.g, r.g->node, (size_t)r.g->n_nodes * sizeof *r.g->node);
    r.g->scalar_dtype = into_arena(r.g, r.g->scalar_dtype, (size_t)r.g->n_scalars);
    r.g->scalar_value = into_arena(r.g, r.g->scalar_value, (size_t)r.g->n_scalars * sizeof *r.g->scalar_value);
    if (!r.g->node || !r.g->scalar_dtype || !r.g->scalar_value) {
        r.g->n_nodes = 0;
        st = fr_fail(err, FR_ENOMEM, "out of memory: graph text");
    }
    if (st == FR_OK)
        st = fr_graph_verify(r.g, err);
    if (st == FR_OK)
        *out = r.g;
    else
        fr_graph_free(r.g);
    return st;
}
