/* Bounded laziness: what must not stay pending when an operation has been traced is computed. That is much of
 * anything (nodes, the memory that they keep, matrix products), and what others can see (loud memory). Nearly
 * always one comparison tells that there is nothing to do: fr_guard_rests in storage.h. */
#include "base/span.h"
#include "runtime/explain.h"
#include "runtime/storage.h"

enum { MAX_PENDING = 20000,     /* nodes; beyond, everything that is held is computed */
       MAX_FRESH = 1 << 30,     /* bytes of arrays brought in since the last evaluation; beyond, likewise,
                                   for what is pending keeps them alive */
       SOME_WORK = 1 << 22,     /* multiplications of pending matrix products: a tenth of a millisecond, beside
                                   which an evaluation costs little. Enough where a step of a loop begins */
       MUCH_WORK = 1 << 25,     /* enough where a line comes round again at which products were forced before */
       MAX_WORK = 1 << 26 };    /* enough anywhere */

uint64_t        fr_n_guard_forces;
bool            fr_trace_at_once;
uint32_t        fr_pending_max = MAX_PENDING, fr_pending_max_loud = MAX_PENDING; /* see update_bound */
static uint32_t pending_limit = MAX_PENDING;
static bool     looks_at_all;
int             fr_n_loud;             /* storages with looks that are not quiet */
static uint32_t looked_past;           /* births up to which what reads loud memory has been computed */
static uint64_t fresh_bytes;
static int64_t  product_work;          /* of products traced since the last evaluation */
static uint32_t products_forced_at;    /* fr_trace_site */

/* After a change of what the bounds of pending nodes depend on. */
static void
update_bound(void)
{
    fr_pending_max_loud = fr_trace_at_once || looks_at_all || fresh_bytes >= MAX_FRESH ? 0 : pending_limit;
    fr_pending_max = fr_n_loud ? 0 : fr_pending_max_loud;
}

void
fr_guard_kept(void)
{
    const bool was_much = fresh_bytes >= MAX_FRESH;

    fresh_bytes = 0;
    if (FR_UNLIKELY(was_much))
        update_bound();
}

void
fr_guard_all(bool on)
{
    looks_at_all = on;
    update_bound();
}

void
fr_guard_restart(void)
{
    product_work = 0;
    fr_guard_kept();
}

void
fr_guard_fresh(size_t n_bytes)
{
    fresh_bytes += n_bytes;
    if (FR_UNLIKELY(fresh_bytes >= MAX_FRESH))
        update_bound();
}

/* Whether the new node reads memory that others may write to at any time. Older nodes that did were
 * computed when they were traced, so it is enough to look past what was traced with this one. */
static bool
reads_loud(fr_ref id, int depth)
{
    const struct fr_node *n = &fr_nodes[id];

    if (n->op == FR_OP_leaf)
        return fr_node_is_loud(n);
    if (fr_node_computes(n) && (int32_t)(n->seq - looked_past) < 0)
        return false;
    for (int k = 0; k < n->n_args && depth > 0; k++)
        if (n->arg[k] != FR_SCALAR_HERE && reads_loud(n->arg[k], depth - 1))
            return true;
    return false;
}

void
fr_trace_set_at_once(bool on)
{
    fr_trace_at_once = on;
    update_bound();
}

/* Why the evaluation that follows comes, which nobody has asked for. */
static FR_COLD void
because(const char *why)
{
    fr_explain_because(why);
    if (fr_spans_on())
        fr_span_why = (struct fr_span_why){fr_span_name(why), fr_trace_site};
}

static FR_COLD fr_status
guard(fr_ref id, const struct fr_storage *stored_to, struct fr_err *err)
{
    enum { NEW_NODES = 7 };        /* from the operation's down to a leaf: a store, of a component, a cast, a view of a
                                      component of a view */
    fr_status st;

    if (fr_trace_at_once) {
        because("at once");
        return fr_eval_nodes(&id, 1, err);
    }
    if (fr_n_loud && (reads_loud(id, NEW_NODES) || (stored_to && fr_storage_is_watched(stored_to)))) {
        because("others");
        return fr_eval_nodes(&id, 1, err);
    }
    looked_past = (uint32_t)fr_nodes_made;
    if (fr_nodes_pending < pending_limit && fr_nodes[id].height <= FR_MAX_HEIGHT &&
        fresh_bytes < MAX_FRESH)
        return FR_OK;
    fr_n_guard_forces++;
    because("much");
    if (fr_nodes_pending >= pending_limit || fresh_bytes >= MAX_FRESH) {
        st = fr_eval_all(err);
        fresh_bytes = 0;
        pending_limit = st == FR_OK ? MAX_PENDING : fr_nodes_pending + MAX_PENDING;
        update_bound();
    } else {
        st = fr_eval_nodes(&id, 1, err);
    }
    /* What cannot be computed now fails when somebody asks for it. */
    return st == FR_EINTR || st == FR_ERAISED ? st : FR_OK;
}

fr_status
fr_guard(fr_ref id, const struct fr_storage *stored_to, struct fr_err *err)
{
    if (FR_LIKELY(fr_nodes_pending < fr_pending_max && fr_nodes[id].height <= FR_MAX_HEIGHT))
        return FR_OK;
    return guard(id, stored_to, err);
}

/* A loop must force at the same place of each of its steps, so that it finds its plan again; best where the
 * fewest results are on their way from one kernel to another. */
fr_status
fr_guard_products(int64_t work, bool begins, struct fr_err *err)
{
    if ((begins && product_work >= SOME_WORK) || product_work >= MAX_WORK ||
        (product_work >= MUCH_WORK && fr_trace_site == products_forced_at)) {
        fr_status st;

        because("products");
        if ((st = fr_eval_all(err)) != FR_OK)
            return st;
        fr_n_guard_forces++;
        products_forced_at = fr_trace_site;
        product_work = 0;
    }
    product_work = product_work + work < MAX_WORK ? product_work + work : MAX_WORK;
    return FR_OK;
}
