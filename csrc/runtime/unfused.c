/* What runs instead of a plan for whose kernels there is no code yet: the same nodes, each by a kernel of its own. There are
 * few of these in all programs, so the cache has code for them; where it has not, it gets it, behind what is wanted now, and
 * the plan is waited for. The bits are the same, for how nodes are grouped never changes any. */
#include "backends/estimate.h"
#include "base/tune.h"
#include "base/ways.h"
#include "runtime/plan.h"

/* Whether launches would wait for a compiler. */
static bool
waits(const struct fr_plan *p)
{
    const struct fr_backend *by = fr_plan_by(p);

    for (int i = 0; i < p->n_steps && p->may_wait; i++)
        if (p->step[i].kind == FR_STEP_LAUNCH && by->kernel_waits(p->step[i].kernel))
            return true;
    return false;
}

/* Whether it is quick beside a compiler, and has the memory. */
static bool
is_cheap(const struct fr_plan *p)
{
    const struct fr_backend *by = fr_plan_by(p);
    const size_t             n_bytes = (size_t)(p->new_bytes + fr_plan_temporary_bytes(p, 1));
    struct fr_machine        m;
    struct fr_err            ignored;
    double                   us = 0;

    if (fr_machine_of(p->device, &m, &ignored) != FR_OK)
        return false;
    for (int i = 0; i < p->n_steps; i++) {
        const struct fr_work w = {.bytes = (double)(p->step[i].bytes_read + p->step[i].bytes_written)};

        us += fr_estimate_us(&m, &w);
    }
    return us < (double)fr_tune.gpu_wait_us && (!by->room || by->room(by, n_bytes) >= n_bytes);
}

/* Its plan for these windows; NULL: there can be none. */
static struct fr_plan *
unfused_of(struct fr_plan *p, struct fr_gathered *g)
{
    struct fr_structure of;
    struct fr_err       ignored;

    if (p->unfused && fr_moving_holds(p->unfused->move, g->moving, p->n_moving))
        return p->unfused;
    fr_plan_free(p->unfused);
    p->unfused = NULL;
    if (fr_gather_structure(g, &of, &ignored) != FR_OK)
        return NULL;
    of.unfused = true;
    of.scalar = NULL;
    of.older = p->move;
    if (fr_plan_build(&of, false, &p->unfused, &ignored) != FR_OK)
        p->unfused = NULL;
    return p->unfused;
}

struct fr_plan *
fr_plan_without_wait(struct fr_plan *p, struct fr_gathered *g)
{
    struct fr_plan *unfused;

    if (!waits(p)) {
        fr_plan_free(p->unfused);
        p->unfused = NULL;
        p->may_wait = false;
        return p;
    }
    if (fr_is_off(FR_OFF_unfused) || fr_env.eager_elems == 0 || fr_env_waits_for_code())
        return p;
    unfused = unfused_of(p, g);
    if (!unfused || waits(unfused) || !is_cheap(unfused))
        return p;
    fr_count_way(FR_WAY_unfused);
    return unfused;
}
