/* How the engine begins and ends, and what it has counted. */
#include "backends/backend.h"
#include "base/alloc.h"
#include "base/image.h"
#include "base/log.h"
#include "base/ways.h"
#include "jit/compile.h"
#include "runtime/plan.h"
#include "runtime/storage.h"

static uint64_t n_nodes_base; /* made before the counters began */

void
fr_stats_get(struct fr_stats *out)
{
    struct fr_compile_stats c;

    fr_compile_stats(&c);
    *out = fr_counted;
    out->n_nodes = fr_nodes_made - n_nodes_base;
    out->n_forced_by_guard = fr_n_guard_forces;
    out->n_compiled = c.n_compiled;
    out->n_disk_hits = c.n_disk_hits;
    out->n_pending_compiles = c.n_pending;
    out->pending_nodes = fr_nodes_pending;
}

uint64_t
fr_stats_kernels(void)
{
    return fr_counted.n_kernels;
}

uint64_t
fr_stats_evals(void)
{
    return fr_counted.n_evals;
}

uint64_t
fr_stats_strange(void)
{
    return fr_counted.n_strange;
}

void
fr_stats_reset(void)
{
    fr_counted = (struct fr_stats){0};
    n_nodes_base = fr_nodes_made;
    fr_n_guard_forces = 0;
    fr_ways_reset();
}

fr_status
fr_runtime_init(struct fr_err *err)
{
    fr_status st;

    fr_image_touch();
    fr_blocks_init();
    fr_alloc_keep_heap();
    if ((st = fr_eval_lock_init(err)) != FR_OK)
        return st;
    fr_env_load();
    fr_trace_init();
    if (!fr_log_init())
        return fr_no_memory(err, "the fork handler");
    return fr_backend_init(err);
}

void
fr_runtime_stop(void)
{
    fr_planner_stop();
    fr_backend_stop();
}
