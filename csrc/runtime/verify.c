/* runtime/verify.c -- what a plan promises, looked at once it is made.  Called by plan.c in debug builds; in others the
 * linker leaves it out. */
#include "runtime/plan.h"

/* ---- the operands of a step of any kind ---- */

static int
n_instances(const struct fr_step *s)
{
    return s->kind == FR_STEP_COPY ? 1 : s->n_instances;
}

static int
n_operands(const struct fr_step *s)
{
    return s->kind == FR_STEP_COPY ? 2 : fr_step_operands(s);
}

static int
node_of(const struct fr_step *s, int i, int k)
{
    return s->kind != FR_STEP_COPY ? s->binding[i][k].node : k ? s->copy_to : s->copy_from;
}

static bool
is_written(const struct fr_step *s, int k)
{
    return s->kind == FR_STEP_LAUNCH ? s->kernel->nest->operands[k].flags & FR_OPERAND_WRITTEN : k == n_operands(s) - 1;
}

/* ---- the promises ---- */

/* A node that shares memory shares as much as it has, with one that has its own; results do not lie in what is given
 * away when the run is over. */
static bool
places_end(const struct fr_plan *p)
{
    for (int n = 0; n < p->graph->n_nodes; n++) {
        const struct fr_place *place = &p->place[n], *root = &p->place[place->kind == FR_PLACE_SAME ? place->root : n];

        if (root->kind == FR_PLACE_SAME || root->bytes != place->bytes)
            return false;
        if (p->graph->node[n].output && root->kind != FR_PLACE_NEW && root->kind != FR_PLACE_LEAF)
            return false;
    }
    return true;
}

/* What a step touches is there: of a temporary, whose bytes are others' before and afterwards, from step `from` to `to`. */
static bool
steps_touch_what_lives(const struct fr_plan *p, const int32_t *from, const int32_t *to)
{
    for (int s = 0; s < p->n_steps; s++)
        for (int i = 0; i < n_instances(&p->step[s]); i++)
            for (int k = 0; k < n_operands(&p->step[s]); k++) {
                int n = node_of(&p->step[s], i, k), r = n < 0 ? -1 : fr_place_root(p->place, n);

                if (r >= 0 && (p->place[r].kind == FR_PLACE_NONE ||
                               (p->place[r].kind == FR_PLACE_ARENA &&
                                (s < from[r] || s > to[r] || p->place[r].offset + p->place[r].bytes > p->arena_bytes))))
                    return false;
            }
    return true;
}

/* Whose value is in the memory of a root, and which instance of the step at hand has written it. */
struct held {
    int32_t *node, *instance;
};

static bool
finds_its_operands(const struct fr_plan *p, const struct fr_step *s, const struct held *held, bool after)
{
    for (int i = 0; i < n_instances(s); i++)
        for (int k = 0; k < n_operands(s); k++) {
            int n = node_of(s, i, k), r = n < 0 ? -1 : fr_place_root(p->place, n);

            if (r >= 0 && !is_written(s, k) && held->node[r] != n && !(after && held->instance[r] == i))
                return false;
        }
    return true;
}

/* Forgets what the step stores over, or notes what it makes: of several stores into one array by one kernel, the last. */
static void
write_results(const struct fr_plan *p, const struct fr_step *s, struct held *held, bool note)
{
    for (int i = 0; i < n_instances(s); i++)
        for (int k = 0; k < n_operands(s); k++) {
            int n = node_of(s, i, k), r = n < 0 || !is_written(s, k) ? -1 : fr_place_root(p->place, n);

            if (r < 0)
                continue;
            held->node[r] = !note ? -1 : n > held->node[r] ? n : held->node[r];
            held->instance[r] = i;
        }
}

/* What a step reads is what was made for it: nothing has been stored over it before, and no other instance of the step
 * does so meanwhile. `room`: for twice as many as there are nodes. */
static bool
steps_read_what_was_made(const struct fr_plan *p, int32_t *room)
{
    struct held held = {room, room + p->graph->n_nodes};

    for (int n = 0; n < p->graph->n_nodes; n++)
        held.node[n] = fr_gnode_computes(&p->graph->node[n]) ? -1 : n;
    for (const struct fr_step *s = p->step; s < p->step + p->n_steps; s++) {
        if (!finds_its_operands(p, s, &held, false))
            return false;
        write_results(p, s, &held, false);
        write_results(p, s, &held, true);
        if (!finds_its_operands(p, s, &held, true))
            return false;
    }
    return true;
}

/* Operand k of the instance stays within the memory of its node. `moving`: where windows are that move; NULL: anywhere. */
static bool
stays_within(const struct fr_plan *p, const struct fr_step *s, int i, int k, const int64_t *moving)
{
    const struct fr_instance *in = &s->instance[i];
    const struct fr_binding  *b = &s->binding[i][k];
    const int64_t            *stride = in->stride + k * (in->n_outer + 2);
    int64_t                   low, high;

    if (b->node < 0 || (b->moving >= 0 && !moving) || fr_instance_is_empty(in))
        return true;
    low = high = fr_binding_at(b, moving);
    for (int a = 0; a < in->n_outer + 2; a++)
        *(stride[a] < 0 ? &low : &high) += (fr_instance_dim(in, a) - 1) * stride[a];
    high += fr_dtype_size(s->kind == FR_STEP_SCAN ? s->dtype : s->kernel->nest->operands[k].dtype);
    return low >= 0 && high <= p->place[b->node].bytes;
}

bool
fr_plan_stays_within(const struct fr_plan *p, const int64_t *moving)
{
    for (const struct fr_step *s = p->step; s < p->step + p->n_steps; s++)
        for (int i = 0; i < s->n_instances && (s->kind == FR_STEP_LAUNCH || s->kind == FR_STEP_SCAN); i++)
            for (int k = 0; k < fr_step_operands(s); k++)
                if (!stays_within(p, s, i, k, moving))
                    return false;
    return true;
}

bool
fr_plan_is_sound(const struct fr_plan *p, const int32_t *from, const int32_t *to, int32_t *room)
{
    FR_ASSERT(places_end(p));
    FR_ASSERT(steps_touch_what_lives(p, from, to));
    FR_ASSERT(steps_read_what_was_made(p, room));
    FR_ASSERT(fr_plan_stays_within(p, NULL));
    (void)from, (void)to, (void)room;
    return true;
}
